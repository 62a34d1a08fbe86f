/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest that traces leaves one process and goes on in another (docs/migration.md): an archive of
 * each vCPU as KVM has it, its APIC and model, guest memory, and what was recorded so far.
 */
#include "kvm/migrate.h"
#include "common/file.h"
#include "run/run.h"
#include "kvm/apic.h"
#include "kvm/backend.h"
#include "kvm/machine.h"
#include "kvm/memory.h"
#include "kvm/step.h"
#include "kvm/tracer.h"
#include "run/record.h"
#include "common/cpio.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define VERSION        3
#define VERSION_MIN    2 /* without IA32_TSC_ADJUST, which was 0 as far as anybody knew */
#define MEMBER_MODE    (S_IFREG | 0600)
#define RFLAGS_TF      (1ull << 8)
#define MSR_TSC_ADJUST 0x3bu
#define XSAVE_BYTES    4096 /* of struct kvm_xsave, whose end is open */

/* What no register set of KVM's holds: TSC, SYSENTER, PAT, SYSCALL, KernelGSbase, TSC_AUX. */
static const uint32_t msr_list[] = {0x10,       0x174,      0x175,      0x176,
                                    0x277,      0xc0000081, 0xc0000082, 0xc0000083,
                                    0xc0000084, 0xc0000102, 0xc0000103};
#define MSRS (sizeof(msr_list) / sizeof(msr_list[0]))

/* A processor besides its model. */
struct saved_cpu {
    uint8_t xsave[XSAVE_BYTES];
    struct kvm_xcrs xcrs;
    struct kvm_sregs sregs;
    struct apic apic;
    struct kvm_debugregs debugregs;
    struct kvm_regs regs;
    struct {
        uint64_t value, there;
    } msr[MSRS];
    struct kvm_vcpu_events events;
    uint64_t path_cr3, halted, wait_for_sipi;
    uint64_t tsc_adjust; /* since version 3 */
};
#define SAVED_CPU_BYTES_MIN offsetof(struct saved_cpu, tsc_adjust)

/* Whose turn it is, and when (run.c). */
struct saved_turn {
    uint64_t steps, turn, turn_end;
};

struct saved_page {
    uint64_t gpa;
    uint8_t bytes[PAGE_BYTES];
};

/* ---- Out ---- */

static int get_cpu(struct vcpu *cpu, struct saved_cpu *saved)
{
    memset(saved, 0, sizeof(*saved));
    saved->regs = *vcpu_regs(cpu);
    saved->regs.rflags &= ~RFLAGS_TF;
    saved->sregs = *vcpu_sregs(cpu);
    saved->events = *vcpu_events(cpu);
    if (ioctl(cpu->fd, KVM_GET_XSAVE, saved->xsave) < 0 ||
        ioctl(cpu->fd, KVM_GET_XCRS, &saved->xcrs) < 0 ||
        ioctl(cpu->fd, KVM_GET_DEBUGREGS, &saved->debugregs) < 0)
        return vmm_fail(cpu->vmm, -errno, "KVM does not give its registers: %s", strerror(errno));
    for (size_t i = 0; i < MSRS; i++)
        saved->msr[i].there = machine_get_msr(cpu, msr_list[i], &saved->msr[i].value) == 0;
    machine_get_msr(cpu, MSR_TSC_ADJUST, &saved->tsc_adjust);
    saved->apic = cpu->apic;
    saved->path_cr3 = cpu->path_cr3;
    saved->halted = cpu->halted;
    saved->wait_for_sipi = cpu->wait_for_sipi;
    return 0;
}

static bool add_memory(struct bytes *archive, const struct vmm *vmm)
{
    static const uint8_t zero[PAGE_BYTES];
    struct bytes pages = {0};
    bool ok = true;

    for (uint64_t gpa = 0; ok && gpa < vmm->ram_bytes; gpa += PAGE_BYTES) {
        if (memcmp(vmm->ram + gpa, zero, PAGE_BYTES) != 0)
            ok = bytes_add(&pages, &gpa, sizeof(gpa)) &&
                 bytes_add(&pages, vmm->ram + gpa, PAGE_BYTES);
    }
    ok = ok && cpio_add(archive, "memory", MEMBER_MODE, pages.data, pages.len);
    bytes_free(&pages);
    return ok;
}

static bool add_head(struct bytes *archive, const struct vmm *vmm)
{
    json_object *root = json_object_new_object();
    const char *text;
    bool ok;

    json_object_object_add(root, "vpt_guest", json_object_new_int(VERSION));
    json_object_object_add(root, "profile", json_object_new_string(vmm->options->profile));
    json_object_object_add(root, "mem_bytes", json_object_new_int64((int64_t)vmm->ram_bytes));
    json_object_object_add(root, "cpus", json_object_new_int64(vmm->cpu_count));
    text = json_object_to_json_string(root);
    ok = cpio_add(archive, "guest.json", MEMBER_MODE, text, strlen(text));
    json_object_put(root);
    return ok;
}

/* The members of one processor. 0 or -errno. */
static int add_cpu(struct bytes *archive, struct vcpu *cpu)
{
    struct saved_cpu *saved = aligned_alloc(64, sizeof(*saved));
    uint8_t *model = malloc(VPT_SAVE_MAX_BYTES);
    char cpu_name[32], model_name[32];
    int error = -ENOMEM;

    snprintf(cpu_name, sizeof(cpu_name), "cpu.%u", cpu->index);
    snprintf(model_name, sizeof(model_name), "model.%u", cpu->index);
    if (saved && model)
        error = get_cpu(cpu, saved);
    if (!error) {
        const size_t model_bytes = tracer_save(cpu, model);

        if (!model_bytes || !cpio_add(archive, cpu_name, MEMBER_MODE, saved, sizeof(*saved)) ||
            !cpio_add(archive, model_name, MEMBER_MODE, model, model_bytes))
            error = -ENOMEM;
    }
    free(model);
    free(saved);
    return error;
}

int migrate_out(struct vmm *vmm)
{
    const struct saved_turn turn = {
        .steps = vmm->steps, .turn = vmm->turn, .turn_end = vmm->turn_end};
    struct bytes archive = {0};
    int error = add_head(&archive, vmm) ? 0 : -ENOMEM;

    for (unsigned i = 0; i < vmm->cpu_count && !error; i++)
        error = add_cpu(&archive, &vmm->cpus[i]);
    if (!error &&
        (!cpio_add(&archive, "turn", MEMBER_MODE, &turn, sizeof(turn)) ||
         !add_memory(&archive, vmm) || !record_add(&archive, vmm->result) || !cpio_end(&archive)))
        error = -ENOMEM;
    if (!error)
        error = write_file(vmm->options->save_to, archive.data, archive.len);
    if (error)
        vmm_fail(vmm, error, "%s: %s", vmm->options->save_to, strerror(-error));
    bytes_free(&archive);
    vmm->result->saved = error == 0;
    return error;
}

/* ---- In ---- */

static int set_cpu(struct vcpu *cpu, const uint8_t *data, size_t len)
{
    struct saved_cpu *saved;
    int error = 0;

    if (len != sizeof(*saved) && len != SAVED_CPU_BYTES_MIN)
        return vmm_fail(cpu->vmm, -EBADMSG, "the saved processor has another size");
    saved = aligned_alloc(64, sizeof(*saved));
    if (!saved)
        return vmm_fail(cpu->vmm, -ENOMEM, "no memory");
    *saved = (struct saved_cpu){0};
    memcpy(saved, data, len);
    for (size_t i = 0; i < MSRS && !error; i++)
        if (saved->msr[i].there && machine_set_msr(cpu, msr_list[i], saved->msr[i].value) != 0)
            error = vmm_fail(cpu->vmm, -EIO, "KVM refuses MSR %#x", msr_list[i]);
    if (!error && machine_set_msr(cpu, MSR_TSC_ADJUST, saved->tsc_adjust) != 0)
        error = vmm_fail(cpu->vmm, -EIO, "KVM refuses IA32_TSC_ADJUST");
    if (!error && (ioctl(cpu->fd, KVM_SET_XCRS, &saved->xcrs) < 0 ||
                   ioctl(cpu->fd, KVM_SET_XSAVE, saved->xsave) < 0 ||
                   ioctl(cpu->fd, KVM_SET_DEBUGREGS, &saved->debugregs) < 0))
        error = vmm_fail(cpu->vmm, -errno, "KVM refuses the saved registers: %s", strerror(errno));
    *vcpu_regs(cpu) = saved->regs;
    *vcpu_sregs(cpu) = saved->sregs;
    *vcpu_events(cpu) = saved->events;
    vcpu_dirty(cpu, KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS | KVM_SYNC_X86_EVENTS);
    if (!error)
        error = machine_push(cpu);
    cpu->apic = saved->apic;
    cpu->path_cr3 = saved->path_cr3;
    cpu->halted = saved->halted != 0;
    cpu->wait_for_sipi = saved->wait_for_sipi != 0;
    free(saved);
    return error;
}

static int set_turn(struct vmm *vmm, const uint8_t *data, size_t len)
{
    struct saved_turn saved;

    if (len != sizeof(saved))
        return vmm_fail(vmm, -EBADMSG, "the saved turn has another size");
    memcpy(&saved, data, len);
    if (saved.turn >= vmm->cpu_count)
        return vmm_fail(vmm, -EBADMSG, "it is the turn of a processor that is not there");
    vmm->steps = saved.steps;
    vmm->turn = (unsigned)saved.turn;
    vmm->turn_end = saved.turn_end;
    return 0;
}

static int set_memory(struct vmm *vmm, const uint8_t *data, size_t len)
{
    struct saved_page page;

    if (len % sizeof(page) != 0)
        return vmm_fail(vmm, -EBADMSG, "the saved memory is cut off");
    for (size_t at = 0; at < len; at += sizeof(page)) {
        void *ram;

        memcpy(&page, data + at, sizeof(page));
        ram = page.gpa % PAGE_BYTES ? NULL : vmm_ram(vmm, page.gpa, PAGE_BYTES);
        if (!ram)
            return vmm_fail(vmm, -EBADMSG, "the saved memory has a page at %#llx",
                            (unsigned long long)page.gpa);
        memcpy(ram, page.bytes, PAGE_BYTES);
    }
    return 0;
}

static int set_model(struct vcpu *cpu, const uint8_t *data, size_t len)
{
    const char *wrong = tracer_restore(cpu, data, len);

    return wrong ? vmm_fail(cpu->vmm, -EBADMSG, "the saved model: %s", wrong) : 0;
}

/* Which members were there; each has to be there once. */
struct seen {
    unsigned turn, memory, result, cpu[MAX_CPUS], model[MAX_CPUS];
};

static bool is_complete(const struct seen *seen, unsigned cpu_count)
{
    for (unsigned i = 0; i < cpu_count; i++) {
        if (seen->cpu[i] != 1 || seen->model[i] != 1)
            return false;
    }
    return seen->turn == 1 && seen->memory == 1 && seen->result == 1;
}

/* Whether name is PREFIX.N with the number of a processor. */
static bool names_cpu(const struct vmm *vmm, const char *name, const char *prefix, unsigned *index)
{
    const size_t len = strlen(prefix);

    if (strncmp(name, prefix, len) != 0 || name[len] != '.' || name[len + 1] < '0' ||
        name[len + 1] > '9' || name[len + 2] != 0)
        return false;
    *index = (unsigned)(name[len + 1] - '0');
    return *index < vmm->cpu_count;
}

/* Takes the members in any order. */
static int take(struct vmm *vmm, const char *name, const uint8_t *data, size_t len,
                struct seen *seen)
{
    unsigned index;
    int error;

    if (names_cpu(vmm, name, "cpu", &index)) {
        seen->cpu[index]++;
        return set_cpu(&vmm->cpus[index], data, len);
    }
    if (names_cpu(vmm, name, "model", &index)) {
        seen->model[index]++;
        return set_model(&vmm->cpus[index], data, len);
    }
    if (strcmp(name, "turn") == 0) {
        seen->turn++;
        return set_turn(vmm, data, len);
    }
    if (strcmp(name, "memory") == 0) {
        seen->memory++;
        return set_memory(vmm, data, len);
    }
    error = record_member(vmm->result, name, data, len);
    seen->result += error == 1;
    return error < 0 ? vmm_fail(vmm, error, "the saved record: %s", strerror(-error)) : 0;
}

int migrate_in(struct vmm *vmm)
{
    const char *path = vmm->options->restore;
    struct bytes archive = {0};
    const char *name;
    const uint8_t *data;
    size_t len, pos = 0;
    struct seen seen = {0};
    int error = read_file(path, &archive), more = 0;

    if (error)
        return vmm_fail(vmm, error, "%s: %s", path, strerror(-error));
    while (!error && (more = cpio_next(&archive, &pos, &name, &data, &len)) > 0)
        error = take(vmm, name, data, len, &seen);
    if (!error && (more < 0 || !is_complete(&seen, vmm->cpu_count)))
        error = vmm_fail(vmm, -EBADMSG, "%s: the saved guest is not complete", path);
    bytes_free(&archive);
    if (!error)
        step_resume(vmm); /* the APICs' deadlines are in steps */
    /* Who leaves has not ended, whatever the file says. */
    vmm->result->end = RUN_DONE;
    vmm->result->guest_status = 0;
    vmm->result->saved = false;
    vmm->result->cpu_count = vmm->cpu_count;
    return error;
}

/* ---- What is in a file ---- */

static int parse_head(const uint8_t *data, size_t len, struct saved_guest *guest)
{
    json_tokener *tokener = json_tokener_new();
    json_object *root = json_tokener_parse_ex(tokener, (const char *)data, (int)len);
    json_object *version, *name, *mem, *cpus;
    int error = -EBADMSG;

    json_tokener_free(tokener);
    if (json_object_object_get_ex(root, "vpt_guest", &version) &&
        json_object_object_get_ex(root, "profile", &name) &&
        json_object_object_get_ex(root, "mem_bytes", &mem) &&
        json_object_object_get_ex(root, "cpus", &cpus) &&
        json_object_get_int(version) >= VERSION_MIN && json_object_get_int(version) <= VERSION) {
        guest->mem_bytes = (uint64_t)json_object_get_int64(mem);
        guest->cpus = (unsigned)json_object_get_int(cpus);
        if (guest->mem_bytes >= 2u << 20 && guest->mem_bytes <= 3ull << 30 &&
            guest->mem_bytes % PAGE_BYTES == 0 && guest->cpus >= 1 && guest->cpus <= MAX_CPUS &&
            snprintf(guest->profile, sizeof(guest->profile), "%s", json_object_get_string(name)) <
                (int)sizeof(guest->profile))
            error = 0;
    }
    json_object_put(root);
    return error;
}

int migrate_peek(const char *path, struct saved_guest *guest, char *why, size_t why_bytes)
{
    struct bytes archive = {0};
    const char *name;
    const uint8_t *data;
    size_t len, pos = 0;
    int error = read_file(path, &archive);

    if (error) {
        snprintf(why, why_bytes, "%.200s: %s", path, strerror(-error));
        return error;
    }
    error = -EBADMSG;
    while (error && cpio_next(&archive, &pos, &name, &data, &len) > 0)
        if (strcmp(name, "guest.json") == 0)
            error = parse_head(data, len, guest);
    if (error)
        snprintf(why, why_bytes, "%.200s: not a saved guest of this version", path);
    bytes_free(&archive);
    return error;
}
