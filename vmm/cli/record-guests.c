/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guests of a recording that are asked by their QEMU's monitor. The memory of one is what its code
 * and its names are in (docs/record.md); it is parsed by vpt names, in a process without rights.
 */
#include "cli/record-guests.h"
#include "cli/commands.h"
#include "cli/names-out.h"
#include "cli/subprocess.h"
#include "common/file.h"
#include "common/json.h"
#include "common/open.h"
#include "common/progress.h"
#include "common/say.h"
#include "monitor/dump.h"
#include "trace/mapfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- Who they are ---- */

struct record_guest *record_guests_add(struct record_guests *guests, const char *who)
{
    for (unsigned i = 0; i < guests->count; i++) {
        if (strcmp(guests->list[i].who, who) == 0)
            return &guests->list[i];
    }
    if (guests->count == RECORD_GUESTS_MAX)
        return NULL;
    guests->list[guests->count].who = who;
    return &guests->list[guests->count++];
}

static int open_guest(struct record_guest *guest, struct reason *why)
{
    if (strchr(guest->who, '/') ? monitor_open_socket(&guest->monitor, guest->who)
                                : monitor_open_domain(&guest->monitor, NULL, guest->who))
        return 0;
    (void)reason_set(why, -EREMOTEIO, "%s", guest->monitor.why);
    guest->monitor.send = NULL;
    return -EREMOTEIO;
}

static void stop_asking(struct record_guest *guest)
{
    if (guest->monitor.send)
        monitor_close(&guest->monitor);
    guest->monitor.send = NULL;
}

int record_guests_open(struct record_guests *guests)
{
    for (unsigned i = 0; i < guests->count; i++) {
        struct record_guest *const guest = &guests->list[i];
        struct reason why = {0};

        if (open_guest(guest, &why) != 0)
            return complain(EXIT_CODE_HOST, "%s", why.text);
        if (!guest->panics)
            stop_asking(guest); /* it was only tried */
    }
    return 0;
}

void record_guests_close(struct record_guests *guests)
{
    for (unsigned i = 0; i < guests->count; i++)
        stop_asking(&guests->list[i]);
}

/* ---- Panics ---- */

static bool has_panicked(struct record_guest *guest)
{
    json_object *const answer = monitor_execute(&guest->monitor, "query-status", NULL);
    json_object *status;
    const bool panicked = answer && json_object_object_get_ex(answer, "status", &status) &&
                          strcmp(json_object_get_string(status), "guest-panicked") == 0;

    if (panicked || !answer) /* it is told once */
        guest->panics = false;
    if (!answer && guest->monitor.gone)
        stop_asking(guest);
    json_object_put(answer);
    return panicked;
}

bool record_guests_panicked(struct record_guests *guests)
{
    bool any = false;

    for (unsigned i = 0; i < guests->count; i++) {
        struct record_guest *const guest = &guests->list[i];

        if (!guest->panics || !guest->monitor.send || !has_panicked(guest))
            continue;
        remark(say_remark, "%s has panicked: the ring is written", guest->who);
        any = true;
    }
    return any;
}

/* ---- Memory ---- */

bool record_guests_want_memory(const struct record_guests *guests)
{
    for (unsigned i = 0; i < guests->count; i++) {
        if (guests->list[i].memory)
            return true;
    }
    return false;
}

/* The VM that QEMU calls so. NULL, and the reason: it is none, or one of several. */
static struct vm *vm_of(struct record_guest *guest, struct vms *vms, struct reason *why)
{
    char name[VM_NAME_BYTES];
    struct vm *found = NULL;

    if (!guest->monitor.send && open_guest(guest, why) != 0)
        return NULL;
    if (dump_name(&guest->monitor, name, sizeof(name), why) != 0)
        return NULL;
    for (size_t i = 0; i < vms->count; i++) {
        if (!vms->list[i].is_there || strcmp(vms->list[i].name, name) != 0)
            continue;
        if (found) {
            (void)reason_set(why, -EINVAL, "several VMs are called '%s'", name);
            return NULL;
        }
        found = &vms->list[i];
    }
    if (!found)
        (void)reason_set(why, -EINVAL,
                         name[0] ? "no VM of this host is called '%s'"
                                 : "its QEMU has no -name%s, so it is not known which VM it is",
                         name);
    return found;
}

/* 0; -ENOSPC: it would leave less than min_free. */
static int check_room(struct monitor *monitor, const char *folder, uint64_t min_free,
                      struct reason *why)
{
    const uint64_t bytes = dump_size(monitor);
    struct statvfs status;

    if (statvfs(folder, &status) != 0 ||
        (uint64_t)status.f_bavail * status.f_frsize >= min_free + bytes)
        return 0;
    return reason_set(why, -ENOSPC, "its %" PRIu64 " MiB would leave less than --min-free",
                      bytes >> 20);
}

static void say_turn(uint64_t done, uint64_t all)
{
    progress_say("memory of guests: %" PRIu64 " of %" PRIu64 " MB", done / 1000000, all / 1000000);
}

/* What vpt names finds goes beside the core. False: nothing, which it said. */
static bool find_names(char *core)
{
    char *words[] = {(char *)command_names.name, core, NULL};
    const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const pid_t pid =
        nothing < 0 ? -1 : subprocess_start(&command_names, words, nothing, STDERR_FILENO);

    if (nothing >= 0)
        (void)close(nothing);
    return pid > 0 && subprocess_wait(pid) == EXIT_CODE_OK;
}

/* The map that vpt names wrote. NULL: there is none. */
static json_object *read_map(const char *core)
{
    char path[PATH_MAX + sizeof(".map")], why[128];
    const struct file_name name = {.path = path};
    json_object *map = NULL;
    struct bytes text = {0};
    struct reason reason;

    (void)snprintf(path, sizeof(path), "%s.map", core);
    if (read_named(&name, MAP_BYTES_MAX, &text, &reason) == 0)
        map = json_parse((const char *)text.data, text.len, why, sizeof(why));
    bytes_free(&text);
    return map;
}

/* What it says of its host, which is this VM, and nothing that the VM's entry has already. */
static bool take_names(json_object *entry, json_object *map)
{
    static const char *const members[] = {"memory", "kallsyms", "symbols", "processes", "files"};
    json_object *host, *value;
    bool done = true;

    if (!map || !json_object_object_get_ex(map, "host", &host))
        return true;
    for (size_t i = 0; done && i < sizeof(members) / sizeof(members[0]); i++) {
        if (json_object_object_get_ex(host, members[i], &value))
            done = json_add(entry, members[i], json_object_get(value));
    }
    return done;
}

/* What the VM's entry of the map has to say: its memory at least. NULL: no memory. */
static json_object *new_entry(char *core)
{
    json_object *const map = find_names(core) ? read_map(core) : NULL;
    json_object *entry = json_object_new_object();
    json_object *const memory = json_object_new_object();
    bool done = json_add(memory, "core", json_object_new_string(last_part(core)));

    done = json_add(entry, "memory", json_object_get(memory)) && done;
    done = take_names(entry, map) && done; /* they know how memory is paged, too */
    if (!done) {
        json_object_put(entry);
        entry = NULL;
    }
    json_object_put(memory);
    json_object_put(map);
    return entry;
}

static int take_memory(struct record_guest *guest, struct vms *vms, const char *folder,
                       uint64_t min_free, struct reason *why)
{
    struct vm *const vm = vm_of(guest, vms, why);
    char path[PATH_MAX];
    int error;

    if (!vm)
        return -EINVAL;
    if (snprintf(path, sizeof(path), "%s/guest-%u.core", folder, vm->pid) >= (int)sizeof(path))
        return reason_set(why, -ENAMETOOLONG, "%.300s: the name is too long", folder);
    error = check_room(&guest->monitor, folder, min_free, why);
    if (!error)
        error = dump_write(&guest->monitor, path, say_turn, why);
    if (error)
        return error;
    vms_tell(vm, new_entry(path));
    return vm->told ? 0 : reason_no_memory(why);
}

void record_guests_memory(struct record_guests *guests, struct vms *vms, const char *folder,
                          uint64_t min_free)
{
    for (unsigned i = 0; i < guests->count; i++) {
        struct record_guest *const guest = &guests->list[i];
        struct reason why = {0};

        if (guest->memory && take_memory(guest, vms, folder, min_free, &why) != 0)
            remark(say_remark, "no memory of %s: %s", guest->who, why.text);
    }
}
