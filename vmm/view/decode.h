/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of `vpt decode` share: its options, and a trace on its way from packets to output.
 */
#ifndef VMM_DECODE_H
#define VMM_DECODE_H

#include "common/bytes.h"
#include "common/output.h"
#include "common/reason.h"
#include "trace/clock.h"
#include "trace/input.h"
#include "trace/mapfile.h"
#include "trace/perf-data.h"
#include "trace/rtit-trace.h"
#include "trace/sidecar.h"
#include "trace/window.h"
#include "symbols/debug-file.h"
#include "view/named.h"
#include "view/out.h"
#include "ptdec_rtit.h"

enum view_kind { VIEW_INSNS, VIEW_BLOCKS, VIEW_CALLS, VIEW_SUMMARY };

/* --image or --map: to be loaded when all options are known. */
struct code_source {
    const char *value;
    bool is_map;
    uint64_t cr3; /* of an image */
};

struct decode_options {
    enum view_kind view;
    const struct filter *filter; /* what is shown; NULL: everything */
    bool json, have_images;
    bool no_demangle, lines, inlined; /* of names and sources */
    bool no_sandbox;
    const char *source_root; /* the folder that sources are read beneath; NULL: none */
    const char *output;      /* a file that is written beside, and then has this name; NULL: none */
    bool by_time;            /* several traces are shown, merged by time */
    bool count_insns;        /* the clock is instructions, even if there is a TSC */
    struct window window;
    bool is_reached;  /* something was at window.from or behind it */
    unsigned threads; /* of --summary, and of formats that take a trace in bulk; 0: one */
    const char *like; /* the trace whose TRACE.json counts; NULL: this one */
    struct ptd_flow_config config;
    bool have_cpu, have_mode, have_resync, is_rtit;
    uint8_t resync; /* what --resync says */
    struct ptd_rtit_config rtit;
    struct ptd_image *image; /* of --image, or of a raw trace */
    struct map map;          /* of --map; .contexts NULL: none */
    struct code_sources {
        struct code_source *list; /* --image and --map, in order */
        size_t count;
    } sources;
    uint64_t max_code; /* bytes */
    struct debug_places debug;
    const char *debuginfod;    /* servers; NULL: as DEBUGINFOD_URLS says */
    struct shown_names *names; /* how they are shown; NULL: as they are */
    struct code_options code;
    struct scratch *scratch;         /* of a perf.data; NULL: none */
    const char *folder_map;          /* that vpt record left beside a perf.data; NULL: none */
    const struct out_format *format; /* NULL: the views above */
    void *out;
    const struct out_thread *thread; /* whose items are printed */
    uint64_t now;                    /* the time of the item that is printed, for its name */
    const struct stream **shown;     /* of by_time: whose line was printed last */
    struct shards *shards;           /* NULL: all of a trace is decoded here */
    bool is_muted;                   /* nothing is printed, but what was is noted */
    uint64_t errors;
};

/* A trace that several processes decode (docs/shards.md). */
struct shards {
    const char *word;   /* --shard I/N as the user wrote it; NULL: all pieces are put together */
    const char *folder; /* that the pieces are in; NULL: TRACE.shards */
    unsigned number, count;
    bool repeats;  /* pieces that are not there are decoded */
    char *command; /* what all of them have to be made by */
    struct output piece;
    bool is_whole; /* the trace cannot be cut */
    /* Of pieces that are to be put together. */
    bool has_several;  /* pieces of several numbers of them; count is 0 */
    unsigned missing;  /* how many are not there */
    char numbers[200]; /* the first of these */
};

/* One trace. What it is made of comes first, and must outlive it; the rest is stream_open()'s. */
struct stream {
    struct bytes packets;
    struct input *input; /* not NULL: the packets come from here, piece by piece */
    const struct ptd_image *image;
    struct ptd_time_config clocks;
    struct out_thread thread; /* image, is_tsc and start are filled in by stream_open() */
    const struct ptd_perf_cpu_trace *cpu_trace; /* not NULL: packets are this copy */
    struct code_changes *changes;               /* of the image; NULL: none */
    struct named *named;                        /* NULL: there is no log of names */
    void *out;
    struct reason *why; /* what failed, where a function below returns -errno */

    struct code_timeline *timeline; /* NULL: the code does not change */
    struct trace_flow flow;
    struct ptd_stream *pieces; /* of input, in place of flow */
    bool is_open;              /* by stream_open() */
    bool is_mapped;            /* packets are, by bulk_map() */
    uint64_t modified;         /* then: when the file was, in ns since 1970 */
    bool peeked;               /* item was taken from it, but not told yet */
    int error;                 /* -errno: input cannot be read; why says it */
    bool begun;                /* in the output's form */
    struct clock clock;
    struct ptd_item item, last;
    struct ptd_item told;        /* the last block that was printed */
    const char *last_comm;       /* the name that was printed last; NULL: none */
    uint32_t last_tid;           /* and whose it was */
    struct ptd_time_point point; /* of item, from pieces */
    uint64_t time;               /* of item */
    uint64_t passed;             /* offsets that count as progress */
};

/* ---- stream.c ---- */

/* 0 or -errno: then nothing is open. */
int stream_open(struct decode_options *options, struct stream *stream);
/* The work has come so far. */
void stream_pass(const struct decode_options *options, struct stream *stream, uint64_t offset);
/* The next item into stream->item. False: the end. */
bool stream_next(struct decode_options *options, struct stream *stream);
/*
 * The item to the output. 0 or -errno; -EIO without a reason: standard output cannot be written,
 * which main() says.
 */
int stream_put(struct decode_options *options, struct stream *stream);
/* Names are those of a place of the trace from here on; stream->named says them. False: no memory.
 */
bool stream_go_to(const struct decode_options *options, struct stream *stream, uint64_t offset);
/* The code changes where stream->timeline said. False: it cannot, which stream_close() says. */
bool stream_change_code(const struct decode_options *options, struct stream *stream);
/* error, or if that is 0, -errno of what fails at the end. */
int stream_close(struct decode_options *options, struct stream *stream, int error);
/* All of it, from stream_open() to stream_close(). */
int stream_decode(struct decode_options *options, struct stream *stream);

/* ---- The parts of a stream ---- */

/* views.c: what the next line depends on, as a number. */
uint64_t view_fingerprint(const struct stream *stream);
/* shards.c: one piece of a stream that is open, or all of them. 0 or -errno. */
int shards_decode(struct decode_options *options, struct stream *stream);
/* Whether pieces are put together that found no time in all of the trace. */
bool shards_are_timeless(const struct decode_options *options);
/* views.c: the item is printed if it is wanted, or left out; the next one is seen beside it. */
void view_print(const struct decode_options *options, struct stream *stream);
void view_skip(struct stream *stream);
/* pieces.c: stream_open() and stream_next() for a stream with input. */
int pieces_open(struct decode_options *options, struct stream *stream);
bool pieces_next(struct stream *stream);

/* bulk.c: a whole trace, for a format that takes it so. The packets of a file are mapped for it,
 * where that is wanted. 0 or -errno. */
int bulk_map(const struct decode_options *options, struct stream *stream);
void bulk_unmap(struct stream *stream);
/* Of a stream that is open: whether the format gets it in bulk, from bulk_decode(). 0 or -errno. */
bool bulk_can(const struct decode_options *options, const struct stream *stream);
int bulk_decode(struct decode_options *options, struct stream *stream);

/* ---- Other ways than a stream ---- */

/* summary.c: --summary of a raw PT trace, instead of stream_decode(). 0 or -errno. */
int decode_summary(struct decode_options *options, struct stream *stream);

/*
 * perf.c: a perf.data. 0 or -errno and why; -EBADMSG without a reason: its records end early, which
 * was remarked.
 */
int decode_perf(struct decode_options *options, const char *file, const struct bytes *bytes,
                struct reason *why);

#endif
