/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run of a guest: what was asked for, and what it left behind. Both backends, the KVM of this
 * machine and the lab, fill the same result.
 */
#ifndef VMM_RUN_H
#define VMM_RUN_H

#include "common/bytes.h"
#include "ptdec_rtit.h"

#include <stdbool.h>
#include <stdint.h>

#define MAX_PROCESSES 16
#define NOTE_NAME     32
#define MAX_CPUS      8

/* An address space that the guest gave a name (docs/guests.md, note 2). */
struct process {
    uint64_t cr3;
    char name[NOTE_NAME + 1], image[NOTE_NAME + 1];
};

/* How user mode can be single-stepped. */
enum step_user {
    STEP_USER_NOT,
    STEP_USER_NATIVE,     /* KVM does it */
    STEP_USER_BY_HANDLER, /* by way of the guest's #DB handler */
};

struct run_options {
    const char *image;
    const char *profile;
    const char *append;
    const char *trace_out, *path_out;
    uint64_t mem_bytes;
    unsigned cpus;                     /* 0 counts as 1 */
    uint64_t absent_gpa, absent_bytes; /* memory that nobody has touched yet */
    uint32_t tsc_khz;                  /* 0: the host's */
    unsigned timeout_s;
    unsigned steps_per_s; /* what the source of events manages here; told to the guest */
    bool keep_path;       /* record the executed path */
    bool verify, lab, json;
    bool host_pt;         /* the source of events is the host's Intel PT, and */
    bool overflow_behind; /*   the guest's trace overflows if that falls behind */
    const char *recorder; /*   which somebody else has, who lends it at this socket; or NULL */
    bool lab_vmx;         /* the lab with VMX, which lab_qemu has */
    const char *lab_qemu; /* of that lab */
    enum step_user step_user;
    const char *save_to; /* leave the running guest in this file, after so many steps */
    uint64_t save_after;
    const char *restore;   /* go on with the guest of this file */
    uint32_t rtit_errata;  /* VPT_RTIT_E1 and so on */
    const char *record_to; /* inside the lab: the archive to leave instead of a report */
};

/* What one processor left behind. */
struct cpu_result {
    struct bytes trace;  /* packet bytes as the model wrote them */
    struct bytes handed; /* trace bytes that the guest handed over, note 1 */
    struct bytes path;   /* docs/trace-files.md */
    uint64_t packets, interrupts, exceptions, pmis;
    uint64_t dropped_bytes;
    uint64_t unrecorded_bytes;            /* that the guest has, and .trace has no room for */
    uint64_t lost_pieces, followed_insns; /* of the host's Intel PT as the source */
    uint64_t output_faults;               /* stores of output that found their page absent */
    uint64_t family, model, stepping; /* of the processor whose errata the trace may have; or 0 */
    uint64_t deferred_tips;           /* 1: it may defer TIPs, which a guest brings along */
    unsigned mtc_freq;                /* RTIT_CTL.MTCFreq, as last used */
    bool is_rtit;                     /* the trace is RTIT's, by these settings */
    struct ptd_rtit_config rtit;
};

/* How a run ended. */
enum run_end {
    RUN_DONE,     /* the guest ended by itself, with guest_status, or was saved */
    RUN_BAD_FILE, /* its image or the file of a saved guest is not what it should be */
    RUN_HOST,     /* the host lacks something: KVM, the lab's files, memory */
    RUN_CRASHED,  /* triple fault, internal error, or the source lost track */
    RUN_TIMED_OUT,
};

/* What a run left behind. */
struct run_result {
    enum run_end end;
    char why[256]; /* one line, unless it is RUN_DONE */
    uint32_t guest_status;
    bool saved;        /* the guest goes on elsewhere (--save-to) */
    bool needs_lab;    /* ended early: it traces user mode, which this KVM cannot step */
    char backend[256]; /* which, and why */
    struct process processes[MAX_PROCESSES];
    unsigned process_count;
    struct cpu_result cpus[MAX_CPUS];
    unsigned cpu_count; /* at least 1 as soon as something ran */
    uint64_t steps;     /* of all processors */
    double seconds;
};
void run_result_free(struct run_result *result);

#endif
