/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pieces of processors' traces, see processors.h.
 *
 * A piece lies between two flushes of its processor's event. Neither stops the trace for anybody
 * else: Linux stops it, hands over what there is, and starts it again, with interrupts off. Whether
 * another thread had the processor in between is told by the counts of context switches of ours.
 */
#include "hostpt/processors.h"
#include "common/local.h"
#include "hostpt/lend.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_S 30 /* that a recorder may take which copies the kernel's code */

/* The event of a processor, mapped when it is first needed. */
struct processor {
    uint32_t cpu;
    int fd;
    bool is_mapped;
    struct ring ring;
    size_t map_bytes;
};

struct processors {
    int socket;
    struct lent lent;
    struct processor *list;
    size_t count;
    cpu_set_t *allowed; /* to the thread, before it was held on one */
    size_t allowed_bytes;
    /* The piece. */
    struct processor *at; /* NULL: it is lost */
    uint64_t begin, records, switches;
};

/* ---- Creation ---- */

static int connect_to(const char *path, struct reason *why)
{
    const struct timeval patience = {.tv_sec = ANSWER_S};
    const int fd = local_connect(path, SOCK_SEQPACKET);

    if (fd < 0)
        return reason_set(why, fd, "nobody records at %s (vpt record --guests does): %s", path,
                          strerror(-fd));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}

/* As many bits as Linux wants. 0 or -errno. */
static int remember_allowed(struct processors *processors)
{
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
        processors->allowed = CPU_ALLOC(cpus);
        processors->allowed_bytes = CPU_ALLOC_SIZE(cpus);
        if (!processors->allowed)
            return -ENOMEM;
        if (sched_getaffinity(0, processors->allowed_bytes, processors->allowed) == 0)
            return 0;
        CPU_FREE(processors->allowed);
        processors->allowed = NULL;
        if (errno != EINVAL)
            return -errno;
    }
    return -EINVAL;
}

static int take_lent(struct processors *processors, const struct pt_event_setting *setting,
                     struct reason *why)
{
    const struct lent *const lent = &processors->lent;
    int error = lend_receive(processors->socket, &processors->lent, why);

    if (error)
        return error;
    if ((lent->config & setting->mask) != setting->config)
        return reason_set(why, -ENOTSUP, "the recording lacks what a guest needs: %s",
                          setting->terms);
    error = pt_event_flush(lent->events[0].fd);
    if (error)
        return reason_set(why, error, "the recorder's events cannot be flushed: %s",
                          strerror(-error));
    error = remember_allowed(processors);
    if (error)
        return reason_set(why, error, "which processors may be used is not told: %s",
                          strerror(-error));
    processors->list = calloc(lent->count, sizeof(*processors->list));
    if (!processors->list)
        return reason_no_memory(why);
    processors->count = lent->count;
    for (size_t i = 0; i < lent->count; i++)
        processors->list[i] =
            (struct processor){.cpu = lent->events[i].cpu, .fd = lent->events[i].fd};
    return 0;
}

int processors_open(const char *socket, const struct pt_event_setting *setting,
                    struct processors **processors, struct reason *why)
{
    struct processors *const opened = calloc(1, sizeof(*opened));
    int error;

    if (!opened)
        return reason_no_memory(why);
    opened->socket = error = connect_to(socket, why);
    if (error >= 0)
        error = take_lent(opened, setting, why);
    if (!error)
        *processors = opened;
    else
        processors_close(opened);
    return error;
}

void processors_close(struct processors *processors)
{
    if (!processors)
        return;
    for (size_t i = 0; i < processors->count; i++) {
        struct processor *const processor = &processors->list[i];

        if (!processor->is_mapped)
            continue;
        (void)munmap((void *)(uintptr_t)processor->ring.aux, processor->ring.aux_bytes);
        (void)munmap(processor->ring.page, processor->map_bytes);
    }
    lend_close(&processors->lent);
    free(processors->list);
    if (processors->allowed)
        CPU_FREE(processors->allowed);
    if (processors->socket >= 0)
        (void)close(processors->socket);
    free(processors);
}

bool processors_are_lent(const struct processors *processors)
{
    return lend_goes_on(processors->socket);
}

/* ---- Pieces ---- */

/* How often the calling thread had to leave its processor. */
static uint64_t count_switches(void)
{
    struct rusage usage = {0};

    (void)getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

/* Keeps the thread where it is. NULL: that processor is not lent. */
static struct processor *hold(struct processors *processors)
{
    const int cpu = sched_getcpu();
    struct processor *held = NULL;
    struct reason why;
    cpu_set_t *only;

    for (size_t i = 0; cpu >= 0 && i < processors->count && !held; i++)
        if (processors->list[i].cpu == (uint32_t)cpu)
            held = &processors->list[i];
    if (!held)
        return NULL;
    if (!held->is_mapped)
        held->is_mapped = pt_event_map_others(held->fd, &held->ring, &held->map_bytes, &why) == 0;
    only = held->is_mapped ? calloc(1, processors->allowed_bytes) : NULL;
    if (!only)
        return NULL;
    CPU_SET_S((size_t)cpu, processors->allowed_bytes, only);
    if (sched_setaffinity(0, processors->allowed_bytes, only) != 0)
        held = NULL;
    free(only);
    return held;
}

static void release(const struct processors *processors)
{
    (void)sched_setaffinity(0, processors->allowed_bytes, processors->allowed);
}

/* What there is goes into the ring. False: nothing is traced. */
static bool flush(const struct processor *processor)
{
    const uint64_t before = ring_trace_end(&processor->ring);

    return pt_event_flush(processor->fd) == 0 && ring_trace_end(&processor->ring) != before;
}

void processors_begin(struct processors *processors)
{
    struct processor *const at = hold(processors);

    processors->at = at;
    if (!at)
        return;
    processors->switches = count_switches();
    processors->records = ring_records_end(&at->ring);
    if (!flush(at)) {
        release(processors);
        processors->at = NULL;
        return;
    }
    processors->begin = ring_trace_end(&at->ring);
}

/* False: it is not all there. What the hardware is about to write shows behind a flush only. */
static bool copy_piece(const struct processors *processors, struct bytes *bytes,
                       struct pt_piece *piece)
{
    const struct processor *const at = processors->at;
    const uint64_t end = ring_trace_end(&at->ring);
    struct ring_news news;
    uint64_t from;

    ring_look(&at->ring, processors->records, &news);
    if (news.lost || news.collided || !ring_find_psb(&at->ring, processors->begin, &from) ||
        !ring_copy(&at->ring, from, end, bytes) || !flush(at) || !ring_has(&at->ring, from))
        return false;
    piece->begin = (size_t)(processors->begin - from);
    return true;
}

void processors_end(struct processors *processors, struct bytes *bytes, struct pt_piece *piece)
{
    *piece = (struct pt_piece){.is_shared = true, .lost = true};
    bytes->len = 0;
    if (!processors->at)
        return;
    piece->lost = !flush(processors->at);
    piece->alone = count_switches() == processors->switches;
    if (!piece->lost)
        piece->lost = !copy_piece(processors, bytes, piece);
    if (piece->lost)
        bytes->len = 0;
    release(processors);
    piece->bytes = bytes->data;
    piece->len = bytes->len;
}
