/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short traces of supervisor code, for test cases: configure, enable, run, disable, look.
 */
#ifndef GUEST_TRACING_H
#define GUEST_TRACING_H

#include <stdbool.h>
#include <stdint.h>

#include "apic.h"
#include "pt.h"

struct trace_setup {
    uint64_t ctl;       /* besides TraceEn, and without the output scheme's bits */
    uint64_t base;      /* IA32_RTIT_OUTPUT_BASE */
    uint64_t mask_ptrs; /* IA32_RTIT_OUTPUT_MASK_PTRS */
    uint64_t status;    /* IA32_RTIT_STATUS */
    uint64_t branches;  /* for pt_spray() */
    void (*body)(void); /* run instead of pt_spray() if not NULL */
    /*
     * Bits of STATUS that must come: the hardware may signal them late (33.3.2.1), so it gets some
     * more branches before the trace ends without them.
     */
    uint64_t wait_for;
};

struct trace_result {
    unsigned vector; /* of the WRMSR that set TraceEn; 0: it went well */
    uint64_t live;   /* STATUS while TraceEn was still 1 */
    uint64_t status; /* STATUS after TraceEn was cleared */
    struct pt_position end;
    unsigned pmis; /* taken since trace_run() began */
};

/* TraceEn and STATUS are 0 after it, whatever was before. */
void trace_off(void);
/* The MSRs for a trace of one's own; TraceEn is 0 afterwards. */
void trace_prepare(const struct trace_setup *setup);
/* Runs one trace. TraceEn is 0 before and after it; output MSRs and STATUS stay for the caller to
 * see. */
struct trace_result trace_run(const struct trace_setup *setup);

/* How PMIs arrive at the traces from now on; counts them. */
void trace_set_pmi(enum pmi_mode mode);
unsigned trace_pmi_count(void);

/* ---- Buffers ------------------------------------------------------------------------------ */

#define BUFFER_BYTES 0x10000u

/*
 * The default output: 64 KiB of zeroed memory in the best scheme there is. Fills in base, mask_ptrs
 * and the scheme's bits of ctl.
 */
void trace_default_output(struct trace_setup *setup);
/* That output. */
const uint8_t *trace_default_buffer(void);
/* What a trace into the default output left there; *len_bytes as the end position says. */
const uint8_t *trace_default_bytes(const struct trace_result *result, uint64_t *len_bytes);
/* The control bits of most cases: the branches of supervisor code. */
#define CTL_DEFAULT (CTL_OS | CTL_BRANCHEN)
/*
 * How many branches of pt_spray() leave len_bytes of trace and hardly more, PSB+ apart: measured by
 * a trace of its own, since processors put as many PADs among packets as they like (33.4.2.20).
 */
uint64_t trace_branches(uint64_t len_bytes);

#endif
