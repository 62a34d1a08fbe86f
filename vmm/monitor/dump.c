/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QEMU's dump-guest-memory, with a descriptor of ours, so that QEMU needs no right to open our
 * files. It is detached and asked for, since a large guest takes longer than any answer may.
 */
#include "monitor/dump.h"
#include "common/json.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FD_NAME "vpt-dump"
#define TURN_NS 100000000L

static int refused(const struct monitor *monitor, struct reason *why)
{
    return reason_set(why, -EREMOTEIO, "%s", monitor->why);
}

static int tell(struct monitor *monitor, const char *command, json_object *arguments, int fd,
                struct reason *why)
{
    json_object *const answer = monitor_execute_with(monitor, command, arguments, fd);

    json_object_put(answer);
    return answer ? 0 : refused(monitor, why);
}

int dump_name(struct monitor *monitor, char *name, size_t name_bytes, struct reason *why)
{
    json_object *const answer = monitor_execute(monitor, "query-name", NULL);
    json_object *text;

    name[0] = 0;
    if (!answer)
        return refused(monitor, why);
    if (json_object_object_get_ex(answer, "name", &text))
        (void)snprintf(name, name_bytes, "%s", json_object_get_string(text));
    json_object_put(answer);
    return 0;
}

uint64_t dump_size(struct monitor *monitor)
{
    json_object *const answer = monitor_execute(monitor, "query-memory-size-summary", NULL);
    const int64_t bytes =
        answer ? json_number(answer, "base-memory") + json_number(answer, "plugged-memory") : 0;

    json_object_put(answer);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

static int begin(struct monitor *monitor, int fd, struct reason *why)
{
    json_object *const name = json_object_new_object(), *const how = json_object_new_object();
    bool ok = json_add(name, "fdname", json_object_new_string(FD_NAME));
    int error;

    ok = json_add(how, "paging", json_object_new_boolean(false)) && ok;
    ok = json_add(how, "protocol", json_object_new_string("fd:" FD_NAME)) && ok;
    ok = json_add(how, "detach", json_object_new_boolean(true)) && ok;
    if (!ok) {
        json_object_put(name);
        json_object_put(how);
        return reason_no_memory(why);
    }
    error = tell(monitor, "getfd", name, fd, why);
    if (!error)
        return tell(monitor, "dump-guest-memory", how, -1, why);
    json_object_put(how);
    return error;
}

/* 1: it goes on. 0, or -errno and the reason. */
static int take_state(json_object *answer, void (*turn)(uint64_t done, uint64_t all),
                      struct reason *why)
{
    json_object *state;
    const char *text = "";

    if (json_object_object_get_ex(answer, "status", &state))
        text = json_object_get_string(state);
    if (turn)
        turn((uint64_t)json_number(answer, "completed"), (uint64_t)json_number(answer, "total"));
    if (strcmp(text, "active") == 0)
        return 1;
    if (strcmp(text, "completed") == 0)
        return 0;
    return reason_set(why, -EREMOTEIO, "QEMU could not write the guest's memory");
}

static int write_to(struct monitor *monitor, int fd, void (*turn)(uint64_t done, uint64_t all),
                    struct reason *why)
{
    const struct timespec wait = {.tv_nsec = TURN_NS};
    int state = begin(monitor, fd, why);

    for (state = state ? state : 1; state > 0;) {
        json_object *const answer = monitor_execute(monitor, "query-dump", NULL);

        state = answer ? take_state(answer, turn, why) : refused(monitor, why);
        json_object_put(answer);
        if (state > 0)
            (void)nanosleep(&wait, NULL);
    }
    return state;
}

int dump_write(struct monitor *monitor, const char *path, void (*turn)(uint64_t done, uint64_t all),
               struct reason *why)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int error;

    if (fd < 0)
        return reason_of_file(why, -errno, path);
    if (monitor->dump)
        error = monitor->dump(monitor, path) ? 0 : refused(monitor, why);
    else
        error = write_to(monitor, fd, turn, why);
    (void)close(fd);
    if (error)
        (void)unlink(path);
    return error;
}
