/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guest memory, and the part of it that is absent (vpt run --absent): no slot of KVM has it, so an
 * access of a vCPU leaves KVM, and a store of trace output meets what hardware would report as an
 * EPT violation (33.5.2.5). Both make it present: output one page at a time, a vCPU all of it,
 * since KVM takes memory by slots.
 */
#include "kvm/memory.h"
#include "kvm/machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum slot { SLOT_BELOW, SLOT_ABOVE, SLOT_ABSENT };

void *vmm_ram(const struct vmm *vmm, uint64_t gpa, uint64_t len)
{
    if (gpa > vmm->ram_bytes || len > vmm->ram_bytes - gpa)
        return NULL;
    return vmm->ram + gpa;
}

static int add_slot(struct vmm *vmm, enum slot slot, uint64_t gpa, uint64_t end)
{
    struct kvm_userspace_memory_region region = {.slot = slot,
                                                 .guest_phys_addr = gpa,
                                                 .memory_size = end - gpa,
                                                 .userspace_addr = (uintptr_t)vmm->ram + gpa};

    if (gpa == end)
        return 0;
    if (ioctl(vmm->vm_fd, KVM_SET_USER_MEMORY_REGION, &region) < 0)
        return vmm_fail(vmm, -errno, "KVM refuses the guest memory: %s", strerror(errno));
    return 0;
}

int memory_create(struct vmm *vmm)
{
    const uint64_t absent = vmm->options->absent_gpa, bytes = vmm->options->absent_bytes;
    int error;

    if (absent > vmm->ram_bytes || bytes > vmm->ram_bytes - absent)
        return vmm_fail(vmm, -EINVAL, "--absent lies outside of the guest's memory");
    vmm->ram = mmap(NULL, vmm->ram_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (vmm->ram == MAP_FAILED) {
        vmm->ram = NULL;
        return vmm_fail(vmm, -ENOMEM, "no memory for the guest");
    }
    if (!bytes)
        return add_slot(vmm, SLOT_BELOW, 0, vmm->ram_bytes);
    vmm->present = calloc(bytes / PAGE_BYTES, 1);
    if (!vmm->present)
        return vmm_fail(vmm, -ENOMEM, "no memory for the guest");
    error = add_slot(vmm, SLOT_BELOW, 0, absent);
    return error ? error : add_slot(vmm, SLOT_ABOVE, absent + bytes, vmm->ram_bytes);
}

void memory_destroy(struct vmm *vmm)
{
    if (vmm->ram)
        munmap(vmm->ram, vmm->ram_bytes);
    free(vmm->present);
}

/* ---- Absent pages ---- */

static bool in_absent_range(const struct vmm *vmm, uint64_t gpa)
{
    return vmm->present && gpa - vmm->options->absent_gpa < vmm->options->absent_bytes;
}

bool memory_is_absent(const struct vmm *vmm, uint64_t gpa)
{
    return in_absent_range(vmm, gpa) &&
           !vmm->present[(gpa - vmm->options->absent_gpa) / PAGE_BYTES];
}

/* All that was absent becomes present. 0 or -errno. */
static int populate(struct vmm *vmm)
{
    const uint64_t absent = vmm->options->absent_gpa, bytes = vmm->options->absent_bytes;

    memset(vmm->present, 1, bytes / PAGE_BYTES);
    if (vmm->has_absent_slot)
        return 0;
    vmm->has_absent_slot = true;
    return add_slot(vmm, SLOT_ABSENT, absent, absent + bytes);
}

bool memory_access(struct vmm *vmm, uint64_t gpa, uint8_t *data, uint32_t len, bool write)
{
    uint8_t *ram = vmm_ram(vmm, gpa, len);

    if (!ram || !in_absent_range(vmm, gpa) || populate(vmm) != 0)
        return false;
    if (write)
        memcpy(ram, data, len);
    else
        memcpy(data, ram, len);
    return true;
}

void memory_populate_page(struct vcpu *cpu, uint64_t gpa)
{
    cpu->vmm->present[(gpa - cpu->vmm->options->absent_gpa) / PAGE_BYTES] = 1;
    cpu->record->output_faults++;
}
