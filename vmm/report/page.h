/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A report as a page for a browser: the sums of a report, and what only a picture can show, who ran
 * when, calls one below the other, and how long VM exits took. It is an out_format, and takes a
 * trace item by item.
 *
 * Memory is bounded, and so is the page: what there is no room for is put together (spans.h), or
 * left out where it is the least of all.
 */
#ifndef VMM_REPORT_PAGE_H
#define VMM_REPORT_PAGE_H

#include "common/output.h"
#include "report/annotator.h"
#include "report/between.h"
#include "report/report.h"
#include "report/spans.h"
#include "view/call-tree.h"
#include "view/calls.h"
#include "view/tracks.h"

#define PAGE_TRACKS_MAX    (1u << 14) /* that are shown */
#define PAGE_NODES_MAX     (1u << 20) /* of the tree of calls, while the trace is read */
#define PAGE_LATENCIES_MAX 256u       /* reasons of VM exits */

struct page_track {
    enum track_kind kind;
    uint32_t parent; /* a track; 0: none */
    uint32_t name;   /* in calls.names */
    uint16_t depth;  /* how deep its spans are */
};

/* How long it took from a VM exit until the VM was entered again. */
struct page_latency {
    uint32_t reason;
    uint16_t vector;
    struct spread ticks;
};

struct page {
    struct annotator counts; /* with the report; of lines only if sources are wanted */
    const struct page_sources *sources;
    struct calls calls;
    struct out_thread thread;
    struct tracks tracks;
    struct page_track *list; /* by number of the track; the first is none */
    size_t track_count, track_room;
    struct spans spans;
    struct call_tree tree; /* cost: time; count: how often it was called */
    uint64_t *insns;       /* of each of its nodes */
    size_t insns_room;
    struct page_latency *latencies[PAGE_LATENCIES_MAX];
    size_t latency_count;

    /* Of the trace that is read. */
    uint64_t cpu_track, exit_track;
    uint64_t running; /* a thread's track, on that of the processor; 0: nobody who is wanted */
    uint32_t running_name;
    uint64_t running_since;
    uint64_t first, last; /* times, of all traces */
    bool is_cut_off;      /* there was no room for something */
    bool no_memory;
};

/* Where the sources of code are known. */
struct page_sources {
    annotate_frames_fn frames_of; /* NULL: the page has none */
    void *owner;
    const char *root; /* the folder that their text is read beneath; NULL: it is not */
};

/* NULL: no memory. What it is given must outlive it. */
struct page *page_new(const struct report_options *options, const struct page_sources *sources);
void page_free(struct page *page);
/* A struct page is what the functions are given as out. */
extern const struct out_format page_format;

/* Whether this program has the page that data is put into. */
bool page_is_there(void);
/* 0, or -errno and the reason. */
int page_write(struct page *page, const struct report_options *options, struct output *output,
               struct reason *why);

#endif
