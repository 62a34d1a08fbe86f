/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest that traces leaves one process and goes on in another (docs/migration.md): an archive of
 * the vCPU as KVM has it, the APIC, the model, guest memory, and what was recorded so far.
 */
#include "kvm.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define VERSION     1
#define MEMBER_MODE (S_IFREG | 0600)
#define RFLAGS_TF   (1ull << 8)
#define XSAVE_BYTES 4096 /* of struct kvm_xsave, whose end is open */

/* What no register set of KVM's holds: TSC, SYSENTER, PAT, SYSCALL, KernelGSbase, TSC_AUX. */
static const uint32_t msr_list[] = {0x10,       0x174,      0x175,      0x176,
                                    0x277,      0xc0000081, 0xc0000082, 0xc0000083,
                                    0xc0000084, 0xc0000102, 0xc0000103};
#define MSRS (sizeof(msr_list) / sizeof(msr_list[0]))

/* The machine besides memory, the model and the result. */
struct saved_machine {
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
    uint64_t steps, path_cr3, halted;
};

struct saved_page {
    uint64_t gpa;
    uint8_t bytes[PAGE_BYTES];
};

/* ---- Out ---- */

static int get_machine(struct vmm *vmm, struct saved_machine *saved)
{
    memset(saved, 0, sizeof(*saved));
    saved->regs = *vmm_regs(vmm);
    saved->regs.rflags &= ~RFLAGS_TF;
    saved->sregs = *vmm_sregs(vmm);
    saved->events = *vmm_events(vmm);
    if (ioctl(vmm->vcpu_fd, KVM_GET_XSAVE, saved->xsave) < 0 ||
        ioctl(vmm->vcpu_fd, KVM_GET_XCRS, &saved->xcrs) < 0 ||
        ioctl(vmm->vcpu_fd, KVM_GET_DEBUGREGS, &saved->debugregs) < 0)
        return vmm_fail(vmm, -errno, "KVM does not give its registers: %s", strerror(errno));
    for (size_t i = 0; i < MSRS; i++)
        saved->msr[i].there = machine_get_msr(vmm, msr_list[i], &saved->msr[i].value) == 0;
    saved->apic = vmm->apic;
    saved->steps = vmm->steps;
    saved->path_cr3 = vmm->path_cr3;
    saved->halted = vmm->halted;
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
    text = json_object_to_json_string(root);
    ok = cpio_add(archive, "guest.json", MEMBER_MODE, text, strlen(text));
    json_object_put(root);
    return ok;
}

int migrate_out(struct vmm *vmm)
{
    struct saved_machine *saved = aligned_alloc(64, sizeof(*saved));
    uint8_t *model = malloc(VPT_SAVE_MAX_BYTES);
    struct bytes archive = {0};
    size_t model_bytes;
    int error = -ENOMEM;

    if (saved && model)
        error = get_machine(vmm, saved);
    if (!error) {
        model_bytes = vpt_save(&vmm->model, model, VPT_SAVE_MAX_BYTES);
        if (model_bytes && add_head(&archive, vmm) &&
            cpio_add(&archive, "machine", MEMBER_MODE, saved, sizeof(*saved)) &&
            cpio_add(&archive, "model", MEMBER_MODE, model, model_bytes) &&
            add_memory(&archive, vmm) && record_add(&archive, vmm->result) && cpio_end(&archive))
            error = write_file(vmm->options->save_to, archive.data, archive.len);
        else
            error = -ENOMEM;
        if (error)
            vmm_fail(vmm, error, "%s: %s", vmm->options->save_to, strerror(-error));
    }
    bytes_free(&archive);
    free(model);
    free(saved);
    vmm->result->saved = error == 0;
    return error;
}

/* ---- In ---- */

static int set_machine(struct vmm *vmm, const uint8_t *data, size_t len)
{
    struct saved_machine *saved;
    int error = 0;

    if (len != sizeof(*saved))
        return vmm_fail(vmm, -EBADMSG, "the saved machine has another size");
    saved = aligned_alloc(64, sizeof(*saved));
    if (!saved)
        return vmm_fail(vmm, -ENOMEM, "no memory");
    memcpy(saved, data, len);
    for (size_t i = 0; i < MSRS && !error; i++)
        if (saved->msr[i].there && machine_set_msr(vmm, msr_list[i], saved->msr[i].value) != 0)
            error = vmm_fail(vmm, -EIO, "KVM refuses MSR %#x", msr_list[i]);
    if (!error && (ioctl(vmm->vcpu_fd, KVM_SET_XCRS, &saved->xcrs) < 0 ||
                   ioctl(vmm->vcpu_fd, KVM_SET_XSAVE, saved->xsave) < 0 ||
                   ioctl(vmm->vcpu_fd, KVM_SET_DEBUGREGS, &saved->debugregs) < 0))
        error = vmm_fail(vmm, -errno, "KVM refuses the saved registers: %s", strerror(errno));
    *vmm_regs(vmm) = saved->regs;
    *vmm_sregs(vmm) = saved->sregs;
    *vmm_events(vmm) = saved->events;
    vmm_dirty(vmm, KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS | KVM_SYNC_X86_EVENTS);
    if (!error)
        error = machine_push(vmm);
    vmm->apic = saved->apic;
    vmm->steps = saved->steps;
    vmm->path_cr3 = saved->path_cr3;
    vmm->halted = saved->halted != 0;
    step_resume(vmm); /* the APIC's deadlines are in steps */
    free(saved);
    return error;
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

static int set_model(struct vmm *vmm, const uint8_t *data, size_t len)
{
    const char *wrong = vpt_restore(&vmm->model, data, len);

    return wrong ? vmm_fail(vmm, -EBADMSG, "the saved model: %s", wrong) : 0;
}

/* Takes the members in any order; each has to be there once. */
static int take(struct vmm *vmm, const char *name, const uint8_t *data, size_t len, unsigned *seen)
{
    static const struct {
        const char *name;
        int (*set)(struct vmm *, const uint8_t *, size_t);
    } parts[] = {{"machine", set_machine}, {"memory", set_memory}, {"model", set_model}};
    int error;

    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strcmp(parts[i].name, name) != 0)
            continue;
        *seen += 1u << (8 * i);
        return parts[i].set(vmm, data, len);
    }
    error = record_member(vmm->result, name, data, len);
    *seen += error == 1 ? 1u << 24 : 0;
    return error < 0 ? vmm_fail(vmm, error, "the saved record: %s", strerror(-error)) : 0;
}

int migrate_in(struct vmm *vmm)
{
    const char *path = vmm->options->restore;
    struct bytes archive = {0};
    const char *name;
    const uint8_t *data;
    size_t len, pos = 0;
    unsigned seen = 0;
    int error = read_file(path, &archive), more = 0;

    if (error)
        return vmm_fail(vmm, error, "%s: %s", path, strerror(-error));
    while (!error && (more = cpio_next(&archive, &pos, &name, &data, &len)) > 0)
        error = take(vmm, name, data, len, &seen);
    if (!error && (more < 0 || seen != 0x01010101))
        error = vmm_fail(vmm, -EBADMSG, "%s: the saved guest is not complete", path);
    bytes_free(&archive);
    /* Who leaves has not ended, whatever the file says. */
    vmm->result->code = EXIT_CODE_OK;
    vmm->result->guest_status = 0;
    return error;
}

/* ---- What is in a file ---- */

static int parse_head(const uint8_t *data, size_t len, char *profile, size_t profile_bytes,
                      uint64_t *mem_bytes)
{
    json_tokener *tokener = json_tokener_new();
    json_object *root = json_tokener_parse_ex(tokener, (const char *)data, (int)len);
    json_object *version, *name, *mem;
    int error = -EBADMSG;

    json_tokener_free(tokener);
    if (json_object_object_get_ex(root, "vpt_guest", &version) &&
        json_object_object_get_ex(root, "profile", &name) &&
        json_object_object_get_ex(root, "mem_bytes", &mem) &&
        json_object_get_int(version) == VERSION) {
        *mem_bytes = (uint64_t)json_object_get_int64(mem);
        if (*mem_bytes >= 2u << 20 && *mem_bytes <= 3ull << 30 && *mem_bytes % PAGE_BYTES == 0 &&
            snprintf(profile, profile_bytes, "%s", json_object_get_string(name)) <
                (int)profile_bytes)
            error = 0;
    }
    json_object_put(root);
    return error;
}

int migrate_peek(const char *path, char *profile, size_t profile_bytes, uint64_t *mem_bytes,
                 char *why, size_t why_bytes)
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
            error = parse_head(data, len, profile, profile_bytes, mem_bytes);
    if (error)
        snprintf(why, why_bytes, "%.200s: not a saved guest of this version", path);
    bytes_free(&archive);
    return error;
}
