/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's Intel PT of one thread, by stock Linux: the calling thread, in the host and in guests,
 * while it is enabled.
 */
#ifndef VMM_HOSTPT_EVENT_H
#define VMM_HOSTPT_EVENT_H

#include "common/reason.h"
#include "hostpt/ring.h"
#include "ptdec.h"

struct pt_event {
    int fd; /* -1: it is not open */
    struct ring ring;
    size_t map_bytes;
    struct ptd_time_config clocks; /* of what it records */
};

/* Where Linux describes the hardware, but in tests. */
#define PT_EVENT_FOLDER "/sys/bus/event_source/devices/intel_pt"
/* What Linux calls the descriptor of an event in /proc/PID/fd. */
#define PT_EVENT_LINK "anon_inode:[perf_event]"

/* What the files in that folder say: perf's type, the bits of a setting. */
struct pt_event_setting {
    uint32_t type;
    uint64_t config, mask; /* and which bits of it are meant */
    bool has_ptwrite;
    uint8_t max_nonturbo_ratio, mtc_freq;
    char terms[128]; /* the same for perf: "tsc=1,noretcomp=1" */
};
/* All that a guest may ask for, as far as there is. 0, or -errno and why. */
int pt_event_setting(const char *folder, struct pt_event_setting *setting, struct reason *why);

/* Opens it, disabled. 0, or -errno and why. */
int pt_event_open(struct pt_event *event, struct reason *why);
void pt_event_close(struct pt_event *event);
/* The clocks of what an event with this setting records. */
struct ptd_time_config pt_event_clocks(const struct pt_event_setting *setting);
/*
 * The rings of an event that somebody else has opened and mapped, to look at. *map_bytes of
 * *ring->page are to be unmapped, and ring->aux_bytes of ring->aux. 0, or -errno and why.
 */
int pt_event_map_others(int fd, struct ring *ring, size_t *map_bytes, struct reason *why);
/*
 * The trace up to here is in the ring, of an event that goes on: Linux stops and starts it while
 * nothing else happens on that processor. 0, or -errno.
 */
int pt_event_flush(int fd);
/* 0, or -errno. */
int pt_event_enable(struct pt_event *event);
/* The thread's trace up to here is in the ring. 0, or -errno. */
int pt_event_disable(struct pt_event *event);

#endif
