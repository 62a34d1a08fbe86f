/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces whose truth is known: what really ran, recorded by whoever ran it, beside the packets.
 */
#ifndef PTD_SAME_SCENE_H
#define PTD_SAME_SCENE_H

#include "vpt.h"

#include "tests/program.h"
#include "ptdec.h"

#define TRACES_MAX   3
#define PLACES_MAX   256
#define SWITCHES_MAX 4096
#define GAPS_MAX     4096
#define GUEST_VMCS   0x7000ull

/* Two lists of one length: a transfer goes from one address to another; 0 is outside the trace. */
struct arrows {
    struct list from, to;
};

/* Code. From tsc on it hides what was there before. */
struct place {
    uint64_t base, len_bytes, cr3;
    uint8_t *bytes; /* owned */
    uint64_t tsc;
    unsigned process; /* whose code it is, where processes differ */
    bool in_guest;
};

enum knowledge {
    TRUTH_WHOLE,  /* all instructions and arrows */
    TRUTH_GAPS,   /* all instructions but for what gaps may take */
    TRUTH_TAIL,   /* the last of these instructions, from where the first PSB stands */
    TRUTH_COUNTS, /* instructions, branches and the sequence of branches (bench/truth.h) */
    TRUTH_NONE,   /* of hardware, only the trace is left */
};

/* Instructions [from, to) ran while packets were being lost. */
struct gap {
    size_t from, to;
};

struct executed {
    uint64_t insns, branches, sum;
};

struct trace {
    uint8_t *bytes; /* owned */
    size_t len_bytes;
    struct ptd_flow_config config;
    uint64_t first_tsc;
    enum knowledge truth;
    struct list insns;
    struct arrows arrows;
    struct gap gaps[GAPS_MAX];
    size_t gap_count;
    struct executed counts;
    size_t least; /* how many instructions there are behind the first PSB, or more */
};

/* From tsc on, a process ran on the processor. */
struct change {
    uint64_t tsc;
    unsigned process;
};

struct scene {
    struct trace traces[TRACES_MAX]; /* of a thread each, unless of_cpu */
    size_t trace_count;
    struct place places[PLACES_MAX];
    size_t place_count;
    bool of_cpu; /* one trace of a processor, on which PROCESSES take turns */
    struct change changes[SWITCHES_MAX];
    size_t change_count;
    uint64_t ctl;
    struct {
        uint64_t first, last;
        uint8_t kind; /* ADDRn_CFG */
    } ranges[2];
    uint32_t tsc_den, tsc_num;
    uint8_t max_nonturbo_ratio;
    uint8_t family, model, stepping; /* for errata; 0: none */
    char skip[160];                  /* why there is no trace */
    char wrong[160];                 /* what is wrong with how it was made */
};

enum output { OUTPUT_LINEAR, OUTPUT_TOPA_RING, OUTPUT_SINGLE_RING };
enum start { START_PSB, START_IN_MIDST, START_STATE };
enum guest { GUEST_NONE, GUEST_APART, GUEST_SAME_ADDRESSES };

/* How a random program is run and traced. */
struct recipe {
    uint64_t ctl;        /* bits of RTIT_CTL besides those that make a trace of branches */
    const char *profile; /* whose choices the packets show; NULL: none's */
    bool long_tnt, deferred_tips, tips_wait;
    uint8_t user_range, kernel_range; /* ADDRn_CFG */
    enum output output;
    enum start start;
    bool pauses;      /* TraceEn is cleared and set again, now and then */
    bool stalls;      /* the way to memory is busy, now and then */
    bool jit;         /* the program's code is another one, now and then */
    unsigned threads; /* 0: one */
    bool own_code;    /* each process has its own code, at the same addresses */
    enum guest guest; /* a VM runs now and then, and is traced as well */
};

/* *scene is zeroed before. */
void scene_run(struct scene *scene, const struct recipe *recipe, uint64_t seed);
/* A trace of hardware, out of the folder VPT_TRACES. */
struct hardware {
    const char *trace, *program;
    uint64_t offset, size, vaddr; /* of the code in the program's file */
    uint32_t tsc_den, tsc_num;
    uint8_t mtc_freq, family, model, stepping;
};
void scene_load(struct scene *scene, const struct hardware *hardware);
/* A program that runs in QEMU's user mode and is traced by a plugin (bench/record.c). */
struct program {
    const char *command, *trace; /* "pt", "mtc.pt" or "cyc.pt" */
    unsigned limit_bytes;        /* of the first of these */
};
void scene_record(struct scene *scene, const struct program *program, const char *folder);
void scene_free(struct scene *scene);

struct place *scene_add_place(struct scene *scene, uint64_t base, const void *bytes, size_t len);
void arrow_add(struct arrows *arrows, uint64_t from, uint64_t to);

#endif
