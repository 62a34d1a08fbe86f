/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One virtual processor whose trace is made: a processor of the model that traces itself, with VMX
 * concealed (SDM 33.5.2.2), and the files that its packets and its code go to. Nobody tells it
 * anything but what the guest did.
 */
#ifndef VMM_DEMUX_TENANT_H
#define VMM_DEMUX_TENANT_H

#include "common/output.h"
#include "demux/code-out.h"
#include "ptdec.h"
#include "vpt.h"

/* How the guest is to have traced itself. */
struct tenant_config {
    struct vpt_caps caps;
    uint64_t ctl; /* RTIT_CTL, without TraceEn and ToPA */
    uint64_t cr3_match;
    uint64_t range[VPT_MAX_RANGES][2];
    bool hides_cr3; /* CR3 is 0 at all times */
};

struct tenant {
    struct vpt_cpu cpu;
    uint64_t ctl; /* while the guest runs */
    bool hides_cr3;
    bool is_inside; /* the guest runs */
    bool is_lost;   /* it may have run while nobody saw it, */
    bool is_cut;    /*   and that is not because the trace was off */
    bool is_at_gap; /* that it may have run unseen was told last */
    bool is_synced; /* a PSB+ has told where it is, and in which address space */
    bool has_cr3;   /* .cr3 is that of the last exit */
    uint64_t cr3;
    struct vpt_context context; /* as the model was told it */
    bool has_tsc;
    uint64_t tsc;
    struct vpt_clocks clocks; /* of that TSC, or of an earlier one */
    uint64_t table[2];
    uint8_t page[4096];
    struct output *trace;
    struct code_out *code;
    struct reason *why;
    int error; /* -errno of an output, with why */
    uint64_t insns, entries, gaps, bytes;
};

/*
 * trace and code are open and outlive it. False: the model does not take the configuration.
 */
bool tenant_open(struct tenant *tenant, const struct tenant_config *config, struct output *trace,
                 struct code_out *code, struct reason *why);
/* All that waits is written. 0, or -errno and why. */
int tenant_close(struct tenant *tenant);

/* The guest's TSC from here on. It does not go back, */
void tenant_time(struct tenant *tenant, uint64_t tsc);
/*   but for the next time: the guest has set its TSC. */
void tenant_new_time(struct tenant *tenant);
/* VM entry: the guest runs at an address. */
void tenant_enter(struct tenant *tenant, uint64_t ip, const struct vpt_context *context);
/* Behind an event that may begin or end tracing, but for entries and exits. */
void tenant_moved(struct tenant *tenant);
/* VM exit in front of the instruction at an address. */
void tenant_leave(struct tenant *tenant, uint64_t ip);
/*
 * Nobody knows what the guest did from here on, or whether it ran at all, up to its next entry.
 * off: because the host's trace was off, which is no gap if it does not begin again.
 */
void tenant_lose(struct tenant *tenant, bool off);
/* It may run unseen before it is entered again, if it is. */
void tenant_miss(struct tenant *tenant, bool off);
/*
 * Whether a decoder needs the code that runs next. Not if the address space or CPL is one that is
 * not traced; what is near a range of addresses may be needed to come into it.
 */
bool tenant_wants_code(const struct tenant *tenant);
/* The code of an instruction or several, which run next in an address space. */
void tenant_code(struct tenant *tenant, const struct ptd_image *image, uint64_t space,
                 uint64_t begin, uint64_t end);
/* Whether address spaces are told apart in the trace. */
bool tenant_has_spaces(const struct tenant *tenant);
/* The base of CS of a branch of 16-bit code that ends at an address. */
void tenant_base(struct tenant *tenant, uint64_t end, uint64_t base);

#endif
