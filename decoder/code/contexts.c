/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who ran: names for VMs and processes. PIP.NR and the VMCS packet say which VM, CR3 which address
 * space (SDM 33.4.2.7, 33.4.2.15, 33.5.1); the image turns them into one number.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/extents.h"
#include "ptdec.h"

#define UPPER_HALF (UINT64_C(1) << 63)

struct vm {
    char *name;
    uint64_t tsc_offset, tsc_multiplier;
    uint64_t kernel_from;
};

struct process {
    char *name;
    int64_t pid;
};

struct ptd_contexts {
    struct ptd_image *image;
    struct vm *vms; /* [0] is the host */
    size_t vm_count, vm_room;
    struct process *processes;
    size_t process_count, process_room;
    struct extents spaces;     /* numbers of processes, by their address spaces */
    struct extents vmcs;       /* what times has */
    struct ptd_time_vm *times; /* one a VMCS */
    size_t time_count, time_room;
};

struct ptd_contexts *ptd_contexts_new(struct ptd_image *image)
{
    struct ptd_contexts *const contexts = calloc(1, sizeof(*contexts));

    if (!contexts)
        return NULL;
    contexts->image = image;
    if (!array_grow((void **)&contexts->vms, &contexts->vm_room, 0, sizeof(*contexts->vms))) {
        free(contexts);
        return NULL;
    }
    contexts->vms[contexts->vm_count++] = (struct vm){.kernel_from = UPPER_HALF};
    return contexts;
}

void ptd_contexts_free(struct ptd_contexts *contexts)
{
    if (!contexts)
        return;
    for (size_t i = 0; i < contexts->vm_count; i++)
        free(contexts->vms[i].name);
    for (size_t i = 0; i < contexts->process_count; i++)
        free(contexts->processes[i].name);
    free(contexts->processes);
    ptd_extents_free(&contexts->spaces);
    ptd_extents_free(&contexts->vmcs);
    free(contexts->vms);
    free(contexts->times);
    free(contexts);
}

/* ---- VMs ---- */

/* False: no memory. */
static bool copy_name(const char *name, char **copy)
{
    *copy = name ? strdup(name) : NULL;
    return *copy || !name;
}

static bool multiplier_is_good(uint64_t offset, uint64_t multiplier)
{
    const struct ptd_time_vm vm = {PTD_ANY_VMCS, offset, multiplier};
    const struct ptd_time_config config = {.vms = &vm, .vm_count = 1};

    return ptd_time_check(&config) == PTD_OK;
}

int ptd_contexts_add_vm(struct ptd_contexts *contexts, const char *name, uint64_t tsc_offset,
                        uint64_t tsc_multiplier)
{
    struct vm vm = {NULL, tsc_offset, tsc_multiplier, UPPER_HALF};
    int number;

    if (!multiplier_is_good(tsc_offset, tsc_multiplier))
        return PTD_E_ARG;
    if (!array_grow((void **)&contexts->vms, &contexts->vm_room, contexts->vm_count,
                    sizeof(*contexts->vms)) ||
        !copy_name(name, &vm.name))
        return PTD_E_NOMEM;
    number = ptd_image_add_vm(contexts->image);
    if (number != (int)contexts->vm_count) { /* too many, or VMs of somebody else */
        free(vm.name);
        return PTD_E_ARG;
    }
    contexts->vms[contexts->vm_count++] = vm;
    return number;
}

int ptd_contexts_add_vmcs(struct ptd_contexts *contexts, unsigned vm, uint64_t vmcs)
{
    if (vm == 0 || vm >= contexts->vm_count)
        return PTD_E_ARG;
    return ptd_contexts_add_vcpu(contexts, vm, vmcs, contexts->vms[vm].tsc_offset,
                                 contexts->vms[vm].tsc_multiplier);
}

int ptd_contexts_add_vcpu(struct ptd_contexts *contexts, unsigned vm, uint64_t vmcs,
                          uint64_t tsc_offset, uint64_t tsc_multiplier)
{
    int status;

    if (vm == 0 || vm >= contexts->vm_count || !multiplier_is_good(tsc_offset, tsc_multiplier))
        return PTD_E_ARG;
    if (ptd_extents_at(&contexts->vmcs, vmcs))
        return PTD_E_ARG;
    if (!array_grow((void **)&contexts->times, &contexts->time_room, contexts->time_count,
                    sizeof(*contexts->times)))
        return PTD_E_NOMEM;
    status = ptd_image_bind_vmcs(contexts->image, vm, vmcs);
    if (status != PTD_OK)
        return status;
    if (!ptd_extents_add(&contexts->vmcs, (struct extent){.first = vmcs, .last = vmcs}))
        return PTD_E_NOMEM;
    contexts->times[contexts->time_count++] =
        (struct ptd_time_vm){vmcs, tsc_offset, tsc_multiplier};
    return PTD_OK;
}

int ptd_contexts_set_kernel(struct ptd_contexts *contexts, unsigned vm, uint64_t kernel_from)
{
    if (vm >= contexts->vm_count)
        return PTD_E_ARG;
    contexts->vms[vm].kernel_from = kernel_from;
    return PTD_OK;
}

const struct ptd_time_vm *ptd_contexts_time_vms(const struct ptd_contexts *contexts, size_t *count)
{
    *count = contexts->time_count;
    return contexts->times;
}

/* ---- Processes ---- */

static uint64_t without_flags(uint64_t space)
{
    return space & ~UINT64_C(0xfff); /* PCID, and the flags of CR3 */
}

static struct process *find_process(const struct ptd_contexts *contexts, uint64_t space)
{
    const struct extent *const found = ptd_extents_at(&contexts->spaces, space);

    return found ? &contexts->processes[found->number] : NULL;
}

/* Made if it is not there. NULL: no memory. */
static struct process *get_process(struct ptd_contexts *contexts, uint64_t space)
{
    struct process *const process = find_process(contexts, space);

    if (process)
        return process;
    if (!array_grow((void **)&contexts->processes, &contexts->process_room, contexts->process_count,
                    sizeof(*contexts->processes)) ||
        !ptd_extents_add(&contexts->spaces,
                         (struct extent){.first = space, .number = contexts->process_count}))
        return NULL;
    contexts->processes[contexts->process_count] = (struct process){NULL, -1};
    return &contexts->processes[contexts->process_count++];
}

int ptd_contexts_add_process(struct ptd_contexts *contexts, unsigned vm, uint64_t cr3,
                             const char *name, int64_t pid)
{
    struct process *process;
    char *copy;

    if (vm >= contexts->vm_count || cr3 == PTD_ANY_CR3)
        return PTD_E_ARG;
    if (!copy_name(name, &copy))
        return PTD_E_NOMEM;
    process = get_process(contexts, without_flags(ptd_space(vm, cr3)));
    if (!process) {
        free(copy);
        return PTD_E_NOMEM;
    }
    free(process->name);
    *process = (struct process){copy, pid};
    return PTD_OK;
}

void ptd_contexts_find(const struct ptd_contexts *contexts, uint64_t space, uint64_t ip,
                       struct ptd_context *context)
{
    const struct process *const process = find_process(contexts, without_flags(space));
    const unsigned vm = ptd_space_vm(space);
    const struct vm *const known = vm < contexts->vm_count ? &contexts->vms[vm] : NULL;
    const bool kernel = ip >= (known ? known->kernel_from : UPPER_HALF);

    if (vm == 0)
        context->who = kernel ? PTD_HOST_KERNEL : PTD_HOST_PROCESS;
    else
        context->who = kernel ? PTD_GUEST_KERNEL : PTD_GUEST_PROCESS;
    context->vm = vm;
    context->cr3 = ptd_space_cr3(space);
    context->vm_name = known ? known->name : NULL;
    context->process = process ? process->name : NULL;
    context->pid = process ? process->pid : -1;
}
