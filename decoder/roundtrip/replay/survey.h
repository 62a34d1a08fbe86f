/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a trace of hardware says of how it was recorded, and of what stands ahead: no code is needed
 * for it.
 */
#ifndef REPLAY_SURVEY_H
#define REPLAY_SURVEY_H

#include "ptdec.h"

/* The packets of a whole trace. */
struct survey {
    uint64_t counts[PTD_PACKET_TYPES];
    bool pgd_ip;     /* a TIP.PGD has an IP: something is filtered by addresses */
    bool ptw_ip;     /* PTW packets have a FUP */
    bool cfe;        /* Event Trace: CFE or EVD packets */
    bool fred;       /* CFE types that only FRED has */
    bool interrupts; /* MODE.Exec tells RFLAGS.IF */
    bool power;      /* MWAIT, PWRE, PWRX or EXSTOP packets */
    bool long_tnt;   /* long TNT packets */
    bool ip_64;      /* IPs of 64 bits: IPBytes 110b */
    int mtc_freq; /* RTIT_CTL.MTCFreq, as the first TMA and the MTC behind it have it; -1: unknown
                   */
};

void survey_trace(const uint8_t *bytes, size_t len_bytes, uint32_t errata, struct survey *survey);

/* A PSB+, and whether a TIP.PGE is the next packet behind it, but for MODE.Exec. */
struct psb_plus {
    uint64_t offset, end;
    bool has_tsc, has_tma, has_cbr, has_pip, has_vmcs, has_mode, has_tsx, has_fup;
    bool nr, in_tx, interrupts, pge_at_once;
    uint8_t cbr, mode; /* mode: enum ptd_mode */
    uint16_t ctc, fast;
    uint64_t tsc, cr3, vmcs, fup;
    /* Of the CYCs in it: those right in front of the TSC, and the others. */
    uint64_t tsc_cycles, cycles;
};

/* offset is that of a PSB. packets is any reader of the trace. */
void survey_psb(struct ptd_packets packets, uint64_t offset, struct psb_plus *plus);

/* TSC, TMA and CBR in a row, as tracing begins without a PSB, or when a frequency changes. */
struct time_group {
    bool has_tma, has_cbr;
    bool wakes;  /* PWRX is next: the processor slept */
    bool begins; /* TIP.PGE is next, but for MODE.Exec */
    uint16_t ctc, fast;
    uint8_t cbr;
    uint64_t end;
};
/* offset is that of a TSC or CBR outside of a PSB+. */
void survey_time(struct ptd_packets packets, uint64_t offset, struct time_group *group);

/* Whether a TSC is next behind the packet at an offset. */
bool survey_tsc_follows(struct ptd_packets packets, uint64_t offset);

/* What comes behind a TIP.PGD, up to the packet that ends the pause. */
struct pause {
    bool has_cbr; /* a CBR outside of PSB+ */
    bool has_psb;
    bool has_ovf;  /* an overflow ends it */
    bool has_mode; /* a MODE.Exec in front of the TIP.PGE, and no PSB+ */
    bool interrupts;
    uint8_t mode;
};

/* What was found ahead, so that no part of a trace is looked at again and again. */
struct ahead {
    struct {
        uint64_t from, end;                     /* from .from on, the pause ends in front of .end */
        uint64_t last_cbr, last_psb, last_mode; /* offset + 1; 0: none */
        bool is_known, has_ovf, has_mode, interrupts;
        uint8_t mode;
    } pause;
    struct next {
        uint64_t from, end; /* from .from on, none is in front of .end */
        bool is_known, is_found, in_psb;
        struct ptd_packet packet;
    } pip, vmcs;
};

/* offset is that of any packet in the pause. *ahead is all zero before the first call. */
void survey_pause(struct ptd_packets packets, struct ahead *ahead, uint64_t offset,
                  struct pause *pause);

/* Whether the next MODE.Exec at or behind an offset says that RFLAGS.IF is 1. */
bool survey_interrupts(struct ptd_packets packets, uint64_t offset);

/*
 * The CR3 in force at an offset, where nothing told it: that of the next PIP, if it is one of a
 * PSB+. False: it is not, or none is near.
 */
bool survey_cr3(struct ptd_packets packets, struct ahead *ahead, uint64_t offset, uint64_t *cr3);

/* Whether the next PIP says NR. False: none is near. */
bool survey_nr(struct ptd_packets packets, struct ahead *ahead, uint64_t offset);
/* The VMCS pointer that the next PSB+ tells. False: none is near. */
bool survey_vmcs(struct ptd_packets packets, struct ahead *ahead, uint64_t offset, uint64_t *vmcs);

/* The offset of the PSB behind an OVF and its FUP, if nothing but time is between; else 0. */
uint64_t survey_overflow(struct ptd_packets packets, uint64_t offset);

/* Where an error is, and what is wrong, in words. */
void survey_error(const struct ptd_item *item, char *text, size_t text_bytes);

static inline enum ptd_mode survey_mode(const struct ptd_packet *exec)
{
    return exec->mode_exec.csl ? PTD_MODE_64 : exec->mode_exec.csd ? PTD_MODE_32 : PTD_MODE_16;
}

#endif
