/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The VMs of this host. KVM lists them in debugfs as PID-FD, with a folder for each virtual
 * processor that says which thread runs it and how its TSC differs. Where debugfs cannot be read,
 * processes that hold a VM of KVM are looked for in /proc, and QEMU names its threads "CPU 0/KVM".
 * Names are those of QEMU's command line, which libvirt fills in.
 */
#include "record/vms.h"
#include "common/file.h"
#include "common/json.h"
#include "common/list.h"
#include "record/proc.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KVM_DEBUGFS     "/sys/kernel/debug/kvm"
#define CPUS_MAX        4096u
#define MULTIPLIER_BITS 48u
#define START_FIELD     22 /* of /proc/PID/stat */

struct look {
    struct vms *vms;
    uint64_t tsc;
    bool changed;
    struct reason *why;
};

/* ---- Processes ---- */

/* When it began; 0: it is gone. The name in it may hold anything, up to the last bracket. */
static uint64_t started(const char *root, uint32_t pid)
{
    char text[PROC_TEXT_BYTES];
    const char *at;

    if (proc_text(text, sizeof(text), root, "/proc/%u/stat", pid) < 0)
        return 0;
    at = strrchr(text, ')');
    for (unsigned field = 2; at && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* The value of an option of QEMU: the word behind it. NULL: it is not there. */
static const char *option_of(const char *words, size_t len, const char *option)
{
    for (size_t at = 0; at < len; at += strlen(words + at) + 1) {
        const size_t next = at + strlen(words + at) + 1;

        if (strcmp(words + at, option) == 0 && next < len)
            return words + next;
    }
    return NULL;
}

/* "NAME,..." or "guest=NAME,...". */
static void take_name(struct vm *vm, const char *value)
{
    const char *const guest = strstr(value, "guest=");
    const char *const name =
        guest && (guest == value || guest[-1] == ',') ? guest + strlen("guest=") : value;

    (void)snprintf(vm->name, sizeof(vm->name), "%.*s", (int)strcspn(name, ","), name);
}

static void find_names(struct vm *vm, const char *root)
{
    char words[PROC_TEXT_BYTES], comm[32];
    const int len = proc_text(words, sizeof(words), root, "/proc/%u/cmdline", vm->pid);
    const char *const name = len > 0 ? option_of(words, (size_t)len, "-name") : NULL;
    const char *const uuid = len > 0 ? option_of(words, (size_t)len, "-uuid") : NULL;

    if (uuid)
        (void)snprintf(vm->uuid, sizeof(vm->uuid), "%.39s", uuid);
    if (name)
        take_name(vm, name);
    if (vm->name[0])
        return;
    if (proc_text(comm, sizeof(comm), root, "/proc/%u/comm", vm->pid) <= 0)
        (void)snprintf(comm, sizeof(comm), "vm");
    (void)snprintf(vm->name, sizeof(vm->name), "%s-%u", comm, vm->pid);
}

/* ---- What was seen ---- */

/* The VM of a key, added if it is new. NULL: its process is gone, or there is no memory. */
static struct vm *get_vm(struct look *look, uint32_t pid, const char *key)
{
    struct vms *const vms = look->vms;
    const uint64_t start = started(vms->root, pid);
    struct vm *vm, *grown;

    for (size_t i = 0; i < vms->count; i++) {
        if (vms->list[i].started == start && strcmp(vms->list[i].key, key) == 0)
            return &vms->list[i];
    }
    if (start == 0)
        return NULL;
    grown = list_grow(vms->list, vms->count, &vms->room, sizeof(*grown));
    if (!grown)
        return NULL;
    vms->list = grown;
    vm = &vms->list[vms->count++];
    *vm = (struct vm){.pid = pid, .started = start};
    (void)snprintf(vm->key, sizeof(vm->key), "%s", key);
    find_names(vm, vms->root);
    look->changed = true;
    return vm;
}

static bool is_same(const struct vm_cpu *a, const struct vm_cpu *b)
{
    return a->tid == b->tid && a->has_tsc == b->has_tsc && a->tsc_offset == b->tsc_offset &&
           a->tsc_multiplier == b->tsc_multiplier;
}

/* What is known last of a processor; NULL: nothing. */
static struct vm_cpu *last_of(struct vm *vm, unsigned number)
{
    for (size_t i = vm->cpu_count; i-- > 0;) {
        if (vm->cpus[i].number == number)
            return &vm->cpus[i];
    }
    return NULL;
}

static bool append_cpu(struct vm *vm, const struct vm_cpu *cpu)
{
    struct vm_cpu *const grown = list_grow(vm->cpus, vm->cpu_count, &vm->cpu_room, sizeof(*grown));

    if (!grown)
        return false;
    vm->cpus = grown;
    vm->cpus[vm->cpu_count++] = *cpu;
    return true;
}

/* False: no memory. */
static bool note_cpu(struct look *look, struct vm *vm, struct vm_cpu cpu)
{
    const struct vm_cpu *const known = last_of(vm, cpu.number);

    if (known && is_same(known, &cpu))
        return true;
    /* A thread that nobody knew before may have run for long. */
    cpu.from = known && known->tid == cpu.tid ? look->tsc : 0;
    cpu.is_seen = cpu.from != 0 && known->has_tsc && cpu.has_tsc &&
                  known->tsc_multiplier == cpu.tsc_multiplier;
    look->changed = true;
    return append_cpu(vm, &cpu);
}

/* ---- KVM's debugfs ---- */

/* Fills in how the TSC differs, as far as it is told. */
static void find_tsc(struct vm_cpu *cpu, const char *root, const char *key)
{
    uint64_t ratio = 0, bits = 0;

    if (proc_number(&cpu->tsc_offset, root, KVM_DEBUGFS "/%s/vcpu%u/tsc-offset", key,
                    cpu->number) != 0)
        return;
    cpu->has_tsc = true;
    if (proc_number(&ratio, root, KVM_DEBUGFS "/%s/vcpu%u/tsc-scaling-ratio", key, cpu->number) ||
        proc_number(&bits, root, KVM_DEBUGFS "/%s/vcpu%u/tsc-scaling-ratio-frac-bits", key,
                    cpu->number) ||
        bits > MULTIPLIER_BITS || ratio == UINT64_C(1) << bits)
        return; /* it is not scaled */
    cpu->tsc_multiplier = ratio << (MULTIPLIER_BITS - bits);
}

/* QEMU names the thread of processor N "CPU N/KVM". 0: there is none. */
static uint32_t thread_by_name(const char *root, uint32_t pid, unsigned number)
{
    char comm[32], want[32];
    struct proc_ids tasks;
    uint32_t found = 0;

    (void)snprintf(want, sizeof(want), "CPU %u/KVM", number);
    if (proc_ids(&tasks, root, "/proc/%u/task", pid) != 0)
        return 0;
    for (size_t i = 0; !found && i < tasks.count; i++) {
        if (proc_text(comm, sizeof(comm), root, "/proc/%u/task/%u/comm", pid, tasks.list[i]) > 0 &&
            strcmp(comm, want) == 0)
            found = tasks.list[i];
    }
    proc_ids_free(&tasks);
    return found;
}

/* Kernels before 6.0 do not tell the thread. 0: it is not known, or has not run yet. */
static uint32_t thread_of(const char *root, const struct vm *vm, unsigned number)
{
    uint64_t tid;

    if (proc_number(&tid, root, KVM_DEBUGFS "/%s/vcpu%u/pid", vm->key, number) == 0)
        return tid <= INT32_MAX ? (uint32_t)tid : 0;
    return thread_by_name(root, vm->pid, number);
}

/* The number in "vcpu7"; UINT_MAX: it is no such name. */
static unsigned cpu_number(const char *name)
{
    unsigned number;
    char same[24];

    if (sscanf(name, "vcpu%u", &number) != 1 || number >= CPUS_MAX)
        return UINT_MAX;
    (void)snprintf(same, sizeof(same), "vcpu%u", number);
    return strcmp(name, same) == 0 ? number : UINT_MAX;
}

static bool look_at_cpu(struct look *look, struct vm *vm, unsigned number)
{
    struct vm_cpu cpu = {.number = number, .tid = thread_of(look->vms->root, vm, number)};

    if (cpu.tid == 0)
        return true;
    find_tsc(&cpu, look->vms->root, vm->key);
    return note_cpu(look, vm, cpu);
}

/* 0 or -ENOMEM. What is gone meanwhile is no error. */
static int look_at_vm(struct look *look, const char *key)
{
    char path[PATH_MAX];
    const struct dirent *entry;
    struct vm *vm;
    unsigned pid, fd;
    bool ok = true;
    DIR *folder;

    if (sscanf(key, "%u-%u", &pid, &fd) != 2 || !(vm = get_vm(look, pid, key)))
        return 0;
    vm->is_there = true;
    (void)snprintf(path, sizeof(path), "%s" KVM_DEBUGFS "/%s", look->vms->root, key);
    folder = opendir(path);
    while (ok && folder && (entry = readdir(folder))) {
        const unsigned number = cpu_number(entry->d_name);

        ok = number == UINT_MAX || look_at_cpu(look, vm, number);
    }
    if (folder)
        (void)closedir(folder);
    return ok ? 0 : -ENOMEM;
}

/* 0, -ENOENT (no debugfs, or no right to read it) or -ENOMEM. */
static int look_at_debugfs(struct look *look)
{
    char path[PATH_MAX];
    const struct dirent *entry;
    DIR *folder;
    int error = 0;

    (void)snprintf(path, sizeof(path), "%s" KVM_DEBUGFS, look->vms->root);
    folder = opendir(path);
    if (!folder)
        return -ENOENT;
    while (!error && (entry = readdir(folder)))
        error = look_at_vm(look, entry->d_name);
    (void)closedir(folder);
    return error;
}

/* ---- /proc alone ---- */

static int look_at_process(struct look *look, uint32_t pid)
{
    char key[32];
    struct vm *vm;
    uint32_t tid = 1;

    if (proc_descriptors(look->vms->root, pid, "anon_inode:kvm-vm") == 0)
        return 0;
    (void)snprintf(key, sizeof(key), "%u-", pid);
    vm = get_vm(look, pid, key);
    if (!vm)
        return 0;
    vm->is_there = true;
    for (unsigned number = 0; tid && number < CPUS_MAX; number++) {
        tid = thread_by_name(look->vms->root, pid, number);
        if (tid && !note_cpu(look, vm, (struct vm_cpu){.number = number, .tid = tid}))
            return -ENOMEM;
    }
    return 0;
}

static int look_at_proc(struct look *look)
{
    struct proc_ids processes;
    int error = proc_ids(&processes, look->vms->root, "/proc");

    if (error)
        return error;
    for (size_t i = 0; !error && i < processes.count; i++)
        error = look_at_process(look, processes.list[i]);
    proc_ids_free(&processes);
    return error;
}

/* ---- All of it ---- */

int vms_look(struct vms *vms, uint64_t tsc, bool *changed, struct reason *why)
{
    struct look look = {.vms = vms, .tsc = tsc, .why = why};
    int error;

    for (size_t i = 0; i < vms->count; i++)
        vms->list[i].is_there = false;
    error = look_at_debugfs(&look);
    vms->no_debugfs = error == -ENOENT;
    if (error == -ENOENT)
        error = look_at_proc(&look);
    vms->looked = true;
    *changed = look.changed;
    if (error == -ENOMEM)
        return reason_no_memory(why);
    return error ? reason_set(why, error, "%s/proc: %s", vms->root, strerror(-error)) : 0;
}

const struct vm *vms_find(const struct vms *vms, const char *name)
{
    char *end;
    const unsigned long pid = strtoul(name, &end, 10);
    const bool is_pid = *name && !*end;

    for (size_t i = 0; i < vms->count; i++) {
        const struct vm *const vm = &vms->list[i];

        if (*name && vm->is_there &&
            (strcmp(vm->name, name) == 0 || strcmp(vm->uuid, name) == 0 ||
             (is_pid && vm->pid == pid)))
            return vm;
    }
    return NULL;
}

/* The VM of a process, by the thread of its processor where it has several. NULL: not known. */
static struct vm *vm_of_change(struct vms *vms, uint32_t pid, uint32_t tid, unsigned number)
{
    struct vm *found = NULL;
    unsigned count = 0;

    for (size_t i = 0; i < vms->count; i++) {
        struct vm *const vm = &vms->list[i];
        const struct vm_cpu *const known = vm->pid == pid ? last_of(vm, number) : NULL;

        if (known && known->tid == tid)
            return vm;
        if (known) {
            found = vm;
            count++;
        }
    }
    if (count > 1)
        vms->is_unsure = true;
    return count == 1 ? found : NULL;
}

bool vms_offset(struct vms *vms, uint32_t pid, uint32_t tid, unsigned number, uint64_t offset,
                uint64_t tsc)
{
    struct vm *const vm = vm_of_change(vms, pid, tid, number);
    struct vm_cpu cpu;

    if (!vm)
        return true;
    cpu = *last_of(vm, number);
    cpu.has_tsc = true;
    cpu.tsc_offset = offset;
    cpu.from = tsc;
    cpu.is_seen = false;
    return append_cpu(vm, &cpu);
}

void vms_prefer_told(struct vms *vms)
{
    for (size_t i = 0; !vms->is_unsure && i < vms->count; i++) {
        struct vm *const vm = &vms->list[i];
        size_t kept = 0;

        for (size_t k = 0; k < vm->cpu_count; k++) {
            if (!vm->cpus[k].is_seen)
                vm->cpus[kept++] = vm->cpus[k];
        }
        vm->cpu_count = kept;
    }
}

void vms_tell(struct vm *vm, struct json_object *told)
{
    json_object_put(vm->told);
    vm->told = told;
}

size_t vms_untold(const struct vms *vms)
{
    size_t count = 0;

    for (size_t i = 0; i < vms->count; i++)
        count += !vms->list[i].told;
    return count;
}

size_t vms_cpus(const struct vms *vms)
{
    size_t count = 0;

    for (size_t i = 0; i < vms->count; i++) {
        struct vm *const vm = &vms->list[i];

        for (size_t k = 0; k < vm->cpu_count; k++)
            count += last_of(vm, vm->cpus[k].number) == &vm->cpus[k];
    }
    return count;
}

void vms_free(struct vms *vms)
{
    for (size_t i = 0; i < vms->count; i++) {
        free(vms->list[i].cpus);
        json_object_put(vms->list[i].told);
    }
    free(vms->list);
    vms->list = NULL;
    vms->count = vms->room = 0;
}

/* ---- The map ---- */

/* JSON has no room for all numbers of 64 bits, but the map takes them as texts. */
static void add_text(json_object *object, const char *key, const char *text)
{
    (void)json_add(object, key, json_object_new_string(text));
}

static json_object *cpu_object(const struct vm_cpu *cpu)
{
    json_object *const object = json_object_new_object();
    char text[32];

    if (!object)
        return NULL;
    json_add_number(object, "vcpu", cpu->number);
    json_add_number(object, "tid", cpu->tid);
    if (cpu->from)
        json_add_number(object, "from", cpu->from);
    if (cpu->has_tsc) {
        (void)snprintf(text, sizeof(text), "%" PRId64, (int64_t)cpu->tsc_offset);
        add_text(object, "tsc_offset", text);
    }
    if (cpu->tsc_multiplier) {
        (void)snprintf(text, sizeof(text), "%#" PRIx64, cpu->tsc_multiplier);
        add_text(object, "tsc_multiplier", text);
    }
    return object;
}

static void tell(const struct vm *vm, json_object *object)
{
    struct json_object_iterator at, end;

    if (!vm->told)
        return;
    at = json_object_iter_begin(vm->told);
    for (end = json_object_iter_end(vm->told); !json_object_iter_equal(&at, &end);
         json_object_iter_next(&at))
        (void)json_add(object, json_object_iter_peek_name(&at),
                       json_object_get(json_object_iter_peek_value(&at)));
}

static json_object *vm_object(const struct vm *vm)
{
    json_object *const object = json_object_new_object();
    json_object *const cpus = json_object_new_array();

    if (!object || !cpus) {
        json_object_put(object);
        json_object_put(cpus);
        return NULL;
    }
    (void)json_add(object, "name", json_object_new_string(vm->name));
    json_add_number(object, "pid", vm->pid);
    for (size_t i = 0; i < vm->cpu_count; i++)
        (void)json_object_array_add(cpus, cpu_object(&vm->cpus[i]));
    (void)json_add(object, "vcpus", cpus);
    tell(vm, object);
    return object;
}

int vms_write(const struct vms *vms, const char *path, struct reason *why)
{
    json_object *const root = json_object_new_object(), *const list = json_object_new_array();
    char *text = NULL;
    int error;

    for (size_t i = 0; list && i < vms->count; i++) {
        if (vms->list[i].cpu_count) /* a VM whose threads nobody knows would be a guess */
            (void)json_object_array_add(list, vm_object(&vms->list[i]));
    }
    if (root) {
        json_add_number(root, "vpt-map", 1);
        (void)json_add(root, "vms", list);
        text = json_text(root, JSON_C_TO_STRING_PRETTY);
    } else {
        json_object_put(list);
    }
    error = text ? write_text_beside(path, text, why) : reason_no_memory(why);
    free(text);
    json_object_put(root);
    return error;
}
