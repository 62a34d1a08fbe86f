/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf's events, see lender.h. perf is our child, and its descriptors are taken by pidfd_getfd(2).
 * Which event is of which processor is told by their ids: perf writes them to its file before it
 * records.
 */
#include "record/lender.h"
#include "common/file.h"
#include "common/local.h"
#include "ptdec_perf.h"
#include "record/proc.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DATA_MAX (1u << 30) /* of a perf.data that holds no packets yet */

/* ---- Which event is which ---- */

/* Of the events of Intel PT in a perf.data. */
struct known {
    uint32_t type;
    uint64_t config;
    struct known_event {
        uint64_t id;
        uint32_t cpu;
    } * events;
    size_t count;
};

static bool take_index(const struct ptd_perf *perf, const struct ptd_perf_record *record,
                       struct known *known)
{
    for (uint64_t i = 0; i < record->id_index.count; i++) {
        uint64_t entry[PTD_PERF_ID_BYTES / 8]; /* id, index, CPU, thread */
        const struct ptd_perf_event *event;
        struct known_event *more;

        memcpy(entry, record->id_index.entries + i * PTD_PERF_ID_BYTES, sizeof(entry));
        event = ptd_perf_event_of(perf, entry[0]);
        if (!event || event->type != known->type || known->count == LEND_EVENTS_MAX)
            continue;
        more = realloc(known->events, (known->count + 1) * sizeof(*more));
        if (!more)
            return false;
        more[known->count++] = (struct known_event){entry[0], (uint32_t)entry[2]};
        known->events = more;
        known->config = event->config;
    }
    return true;
}

/* False: no memory. The file goes on to be written; its first records are there. */
static bool read_known(const void *bytes, size_t len, struct known *known)
{
    struct ptd_perf_record record;
    struct ptd_perf_fault fault;
    struct ptd_perf *perf;
    bool ok = true;

    if (ptd_perf_open(bytes, len, &perf, &fault) != PTD_OK)
        return true;
    while (ok && ptd_perf_next(perf, &record) == PTD_OK)
        if (record.type == PTD_PERF_ID_INDEX)
            ok = take_index(perf, &record, known);
    ptd_perf_close(perf);
    return ok;
}

static int find_known(const char *data, struct known *known, struct reason *why)
{
    struct bytes bytes = {0};
    const int error = read_file_within(data, DATA_MAX, &bytes);
    bool ok;

    if (error)
        return reason_of_file(why, error, data);
    ok = read_known(bytes.data, bytes.len, known);
    bytes_free(&bytes);
    if (!ok)
        return reason_no_memory(why);
    return known->count
               ? 0
               : reason_set(why, -EBADMSG, "%s does not tell which events are Intel PT's", data);
}

/* ---- perf's descriptors ---- */

static const struct known_event *find_event(const struct known *known, int fd)
{
    uint64_t id;

    if (ioctl(fd, PERF_EVENT_IOC_ID, &id) != 0)
        return NULL;
    for (size_t i = 0; i < known->count; i++)
        if (known->events[i].id == id)
            return &known->events[i];
    return NULL;
}

/* Lent, if it is one of Intel PT. False: no memory. */
static bool take_event(struct lent *lent, const struct known *known, int fd)
{
    const struct known_event *const event = find_event(known, fd);
    struct lent_event *const more =
        event ? realloc(lent->events, (lent->count + 1) * sizeof(*more)) : NULL;

    if (!more) {
        (void)close(fd);
        return !event;
    }
    more[lent->count++] = (struct lent_event){event->cpu, fd};
    lent->events = more;
    return true;
}

static bool is_event(pid_t perf, uint32_t number)
{
    char path[64], link[64];
    ssize_t len;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)perf, number);
    len = readlink(path, link, sizeof(link) - 1);
    if (len < 0)
        return false;
    link[len] = 0;
    return strcmp(link, PT_EVENT_LINK) == 0;
}

static int take_events(struct lender *lender, pid_t perf, const struct known *known,
                       struct reason *why)
{
    const int pidfd = (int)syscall(SYS_pidfd_open, perf, 0);
    struct proc_ids numbers = {0};
    int error = pidfd < 0 ? -errno : proc_ids(&numbers, "", "/proc/%d/fd", (int)perf);

    for (size_t i = 0; !error && i < numbers.count; i++) {
        int fd;

        if (!is_event(perf, numbers.list[i]))
            continue;
        fd = (int)syscall(SYS_pidfd_getfd, pidfd, (int)numbers.list[i], 0);
        if (fd < 0)
            error = -errno;
        else if (!take_event(&lender->lent, known, fd))
            error = -ENOMEM;
    }
    proc_ids_free(&numbers);
    if (pidfd >= 0)
        (void)close(pidfd);
    if (error)
        return reason_set(why, error,
                          "perf's events cannot be lent: %s (it takes root or CAP_SYS_PTRACE)",
                          strerror(-error));
    lender->lent.config = known->config;
    return lender->lent.count == known->count
               ? 0
               : reason_set(why, -EBADMSG, "perf has %zu of the %zu events that it has told of",
                            lender->lent.count, known->count);
}

/* ---- The socket ---- */

int lender_prepare(struct lender *lender, struct reason *why)
{
    *lender = (struct lender){.socket = -1};
    memset(lender->guests, -1, sizeof(lender->guests));
    return pt_event_setting(PT_EVENT_FOLDER, &lender->setting, why);
}

int lender_open(struct lender *lender, const char *path, pid_t perf, const char *data,
                struct reason *why)
{
    struct known known = {.type = lender->setting.type};
    int error = find_known(data, &known, why);

    if (!error)
        error = take_events(lender, perf, &known, why);
    free(known.events);
    if (!error) {
        lender->path = path;
        lender->socket = local_listen(path, SOCK_SEQPACKET | SOCK_NONBLOCK, (int)LENDER_GUESTS_MAX);
        error = lender->socket < 0 ? reason_of_file(why, lender->socket, path) : 0;
    }
    if (error)
        lend_close(&lender->lent);
    return error;
}

/* A guest that has ended, or says anything, is let go. */
static void let_go(struct lender *lender)
{
    for (unsigned i = 0; i < LENDER_GUESTS_MAX; i++) {
        char byte;

        if (lender->guests[i] < 0 || (recv(lender->guests[i], &byte, 1, MSG_DONTWAIT) < 0 &&
                                      (errno == EAGAIN || errno == EINTR)))
            continue;
        (void)close(lender->guests[i]);
        lender->guests[i] = -1;
    }
}

static int *free_place(struct lender *lender)
{
    for (unsigned i = 0; i < LENDER_GUESTS_MAX; i++)
        if (lender->guests[i] < 0)
            return &lender->guests[i];
    return NULL;
}

void lender_serve(struct lender *lender)
{
    int guest;

    if (lender->socket < 0)
        return;
    let_go(lender);
    while ((guest = accept4(lender->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        int *const place = free_place(lender);

        if (place &&
            lend_send(guest, lender->lent.config, lender->lent.events, lender->lent.count) == 0) {
            *place = guest;
            lender->served++;
            continue;
        }
        lender->refused++;
        (void)close(guest);
    }
}

void lender_close(struct lender *lender)
{
    if (lender->socket < 0)
        return;
    (void)unlink(lender->path);
    (void)close(lender->socket);
    for (unsigned i = 0; i < LENDER_GUESTS_MAX; i++)
        if (lender->guests[i] >= 0)
            (void)close(lender->guests[i]);
    lend_close(&lender->lent);
    lender->socket = -1;
}
