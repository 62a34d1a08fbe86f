/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fresh processor of the model for a piece of a trace: its memory, its clocks, how it is
 * configured, and the states that it can be in before the piece begins.
 */
#ifndef REPLAY_RIG_H
#define REPLAY_RIG_H

#include "vpt.h"

#include "survey.h"

/* An instruction outside of all that is traced; of Linux's kernel, should anybody look. */
#define RIG_ELSEWHERE 0xffffffff80000000ull

struct rig {
    struct vpt_cpu cpu;
    uint64_t ctl; /* RTIT_CTL while tracing */
    uint8_t mtc_freq;
    /* What the clocks show; and, if .has_late, what they show behind the next look at them. */
    struct vpt_clocks clocks, late;
    bool has_late;
    uint64_t mtc_count; /* as of the last MTC or TMA */
    /* Output: what was stored since rig_take(), and a ToPA of one region that goes round. */
    uint8_t *bytes;
    size_t len_bytes, room;
    bool no_memory, vmx_on;
    uint64_t table[2];
    uint8_t page[4096];
};

/* How a processor was configured. */
struct rig_config {
    struct vpt_caps caps;
    uint64_t ctl; /* without TraceEn and output */
    uint64_t range[VPT_MAX_RANGES][2];
};

/*
 * A processor with TraceEn = 0. offset is where the hardware's trace stands, so that lines of
 * output are the same. False: the model does not take the configuration.
 */
bool rig_open(struct rig *rig, const struct rig_config *config, uint64_t offset);
void rig_close(struct rig *rig);

/* In VMX operation as packets say: nr is VMX non-root operation. TraceEn is 0. */
void rig_set_vmx(struct rig *rig, bool nr, bool has_vmcs, uint64_t vmcs,
                 const struct vpt_context *context);
/* VMPTRLD. */
void rig_load_vmcs(struct rig *rig, uint64_t vmcs);
/* A VM entry (nr) or a VM exit that comes from elsewhere and leads to an address in this context.
 */
void rig_switch(struct rig *rig, bool nr, uint64_t to, const struct vpt_context *context);
/* TraceEn is set where next_ip is to run in this context; psb: a PSB+ comes first. */
void rig_enable(struct rig *rig, const struct vpt_context *context, uint64_t next_ip, bool psb);
void rig_disable(struct rig *rig, uint64_t ip);

/*
 * The clocks say what the packets of the hardware do. TSC and TMA belong to one packet of several
 * that an event sends: the look at the clocks with which the event began came before, where the
 * model has reason for one. cycles passed in between.
 */
void rig_see_tsc(struct rig *rig, uint64_t tsc, uint64_t cycles);
void rig_see_tma(struct rig *rig, uint16_t ctc, uint16_t fast);
/* The next look at the clocks is behind all that they were told. */
void rig_catch_up(struct rig *rig);
/* Whether an MTC would have to come in front of a TMA, if tracing was never off. */
bool rig_skips_mtc(const struct rig *rig, uint16_t ctc);
void rig_see_cyc(struct rig *rig, uint64_t cycles);
void rig_see_mtc(struct rig *rig, uint8_t mtc);

/* All bytes so far, valid until the next event; and forgets them. */
const uint8_t *rig_take(struct rig *rig, size_t *len_bytes);

#endif
