/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose event it is, see thread.h. */
#include "hostpt/thread.h"
#include "hostpt/event.h"
#include "hostpt/processors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAP_MS 20u

struct pt_thread {
    struct pt_event_setting setting;
    struct pt_event own;           /* if it is open */
    struct processors *processors; /* NULL: not out of a recorder's */
    unsigned patience_ms;
    struct bytes bytes;
};

int pt_thread_open(const char *recorder, unsigned patience_ms, struct pt_thread **thread,
                   struct reason *why)
{
    struct pt_thread *const opened = calloc(1, sizeof(*opened));
    int error;

    if (!opened)
        return reason_no_memory(why);
    opened->own.fd = -1;
    opened->patience_ms = patience_ms;
    error = pt_event_setting(PT_EVENT_FOLDER, &opened->setting, why);
    if (!error)
        error = recorder ? processors_open(recorder, &opened->setting, &opened->processors, why)
                         : pt_event_open(&opened->own, why);
    if (!error)
        *thread = opened;
    else
        pt_thread_close(opened);
    return error;
}

void pt_thread_close(struct pt_thread *thread)
{
    if (!thread)
        return;
    processors_close(thread->processors);
    pt_event_close(&thread->own);
    bytes_free(&thread->bytes);
    free(thread);
}

struct ptd_time_config pt_thread_clocks(const struct pt_thread *thread)
{
    return pt_event_clocks(&thread->setting);
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/*
 * The recorder has ended. Until it and all whom it lent the hardware have given it back, there is
 * no event of our own. The thread waits for that once; later pieces are lost as long as it takes.
 * 0, or -errno and why.
 */
static int stand_alone(struct pt_thread *thread, struct reason *why)
{
    const struct timespec nap = {.tv_nsec = NAP_MS * 1000000L};
    const uint64_t until = thread->processors ? now_ms() + thread->patience_ms : 0;
    int error;

    processors_close(thread->processors);
    thread->processors = NULL;
    if (thread->own.fd >= 0)
        return 0;
    while ((error = pt_event_open(&thread->own, why)) == -EBUSY && now_ms() < until)
        (void)nanosleep(&nap, NULL); /* or less, since signals come */
    return error == -EBUSY ? 0 : error;
}

bool pt_thread_is_shared(const struct pt_thread *thread)
{
    return thread->processors != NULL;
}

int pt_thread_begin(struct pt_thread *thread, struct reason *why)
{
    int error = 0;

    if (thread->processors && processors_are_lent(thread->processors)) {
        processors_begin(thread->processors);
        return 0;
    }
    error = stand_alone(thread, why);
    if (error || thread->own.fd < 0)
        return error;
    error = pt_event_enable(&thread->own);
    return error
               ? reason_set(why, error, "the host's Intel PT does not start: %s", strerror(-error))
               : 0;
}

int pt_thread_end(struct pt_thread *thread, struct pt_piece *piece, struct reason *why)
{
    struct ring_news news;
    int error;

    *piece = (struct pt_piece){.lost = true};
    thread->bytes.len = 0;
    if (thread->processors) {
        processors_end(thread->processors, &thread->bytes, piece);
        return 0;
    }
    if (thread->own.fd < 0)
        return 0;
    error = pt_event_disable(&thread->own);
    if (error)
        return reason_set(why, error, "the host's Intel PT does not stop: %s", strerror(-error));
    ring_records(&thread->own.ring, &news);
    if (!ring_take(&thread->own.ring, &thread->bytes))
        return reason_set(why, -ENOMEM, "no memory for the host's trace");
    *piece = (struct pt_piece){
        .bytes = thread->bytes.data, .len = thread->bytes.len, .lost = news.lost || news.collided};
    return 0;
}
