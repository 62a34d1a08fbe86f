/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a processor has of Intel PT, the profiles that name such processors, and what CPUID says: a
 * part of libvpt. The conventions are those of vpt.h.
 */
#ifndef VPT_CAPS_H
#define VPT_CAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Enumeration (33.3.1) ----------------------------------------------------------------- */

/* CPUID.14H.0:EBX */
#define VPT_CAP_CR3FILTER (1u << 0)
#define VPT_CAP_PSB_CYC   (1u << 1)
#define VPT_CAP_IPFILTER  (1u << 2)
#define VPT_CAP_MTC       (1u << 3)
#define VPT_CAP_PTWRITE   (1u << 4)
#define VPT_CAP_POWER     (1u << 5)
#define VPT_CAP_PRESERVE  (1u << 6)
#define VPT_CAP_EVENT     (1u << 7)
#define VPT_CAP_DISTNT    (1u << 8)
/* CPUID.14H.0:ECX */
#define VPT_CAP_TOPA    (1u << 0)
#define VPT_CAP_MENTRY  (1u << 1)
#define VPT_CAP_SNGLRGN (1u << 2)
#define VPT_CAP_FABRIC  (1u << 3)
#define VPT_CAP_LIP     (1u << 31)

#define VPT_MAX_RANGES 4

/* ---- Choices ------------------------------------------------------------------------------ */

/* The packets of a PSB+, of which a processor sends those that it has reason to (33.3.7). */
enum vpt_psb_part {
    VPT_PSB_NONE,
    VPT_PSB_TSC, /* with its TMA */
    VPT_PSB_PIP,
    VPT_PSB_VMCS,
    VPT_PSB_CBR,
    VPT_PSB_TSX,  /* MODE.TSX */
    VPT_PSB_EXEC, /* MODE.Exec */
    VPT_PSB_FUP,
};
#define VPT_PSB_PARTS 7

/*
 * Where packets may stand, a line being 8 bytes of output at a multiple of 8. PADs fill what stays
 * empty (33.4.2.20).
 */
enum vpt_layout {
    VPT_LAYOUT_DENSE, /* anywhere */
    /*
     * No packet of up to 5 bytes crosses the end of a line. The header of a longer one is the end
     * of a line, its payload begins the next, and what follows begins one more. The CYC and MODE
     * packets that belong to a packet of more than one byte stand in front of it in the same line.
     */
    VPT_LAYOUT_SPLIT,
    /*
     * No packet crosses the end of a line. Packets of more than 5 bytes begin a line, what follows
     * them begins another, and PSBEND begins a line too.
     */
    VPT_LAYOUT_WHOLE,
};

/*
 * What the specification leaves to an implementation, and no enumeration tells. All zero is the
 * profile "plain".
 */
struct vpt_choices {
    bool fup_full;      /* IPs of FUPs are never compressed (33.4.2.2) */
    bool psb_ip_apart;  /* the FUP of a PSB+ is not the last IP: the IP behind a PSB+ is full */
    bool ip_full_64;    /* IPs that are not compressed have IPBytes 110b even where 011b would do */
    bool psb_at_enable; /* PSB+ before a TIP.PGE holds MODE.Exec and FUP, as if behind it */
    bool psb_twice;     /* a PSB+ that came while ContextEn was 0 comes again when it becomes 1 */
    bool tips_wait;     /* TIPs wait in a queue, as vpt.h says: PSB+ and PMI come some TIPs later */
    uint8_t layout;     /* enum vpt_layout */
    uint16_t psb_early_bytes;         /* PSB+ comes so much before PSBFreq says; below 2048 */
    uint8_t psb_order[VPT_PSB_PARTS]; /* enum vpt_psb_part, each once; or all VPT_PSB_NONE */
    uint8_t family, model,
        stepping; /* of a processor with them, whose errata decoders know; or 0 */
};

/* ---- Capabilities ------------------------------------------------------------------------- */

/*
 * What a processor enumerates, in the registers' own layout, plus the choices that the
 * specification leaves to an implementation. Every check of the model derives from this.
 */
struct vpt_caps {
    uint32_t leaf14_0_ebx;         /* VPT_CAP_CR3FILTER .. VPT_CAP_DISTNT */
    uint32_t leaf14_0_ecx;         /* VPT_CAP_TOPA .. VPT_CAP_LIP */
    uint32_t leaf14_1_eax;         /* RANGECNT and the bitmap of MTC periods */
    uint32_t leaf14_1_ebx;         /* bitmaps of cycle thresholds and PSB periods */
    uint32_t tsc_den;              /* CPUID.15H:EAX; 0: the leaf is not enumerated */
    uint32_t tsc_num;              /* CPUID.15H:EBX */
    uint32_t crystal_hz;           /* CPUID.15H:ECX */
    uint32_t topa_pmi_early_bytes; /* single-entry ToPA: PMI so many bytes before the end */
    uint8_t maxphyaddr;            /* physical-address width, CPUID.80000008H:EAX[7:0] */
    uint8_t linear_bits;           /* 32, 48 or 57 */
    uint8_t max_nonturbo_ratio;    /* PLATFORM_INFO[15:8] */
    uint8_t perf_counters;         /* general-purpose counters that leaf 0AH reports */
    uint8_t perf_fixed;            /* fixed counters that leaf 0AH reports */
    bool supported;                /* CPUID.7.0:EBX[25] */
    uint8_t psb_align_bytes;       /* PADs bring each PSB to a multiple of this; 0 and 1: none */
    bool tsx;                      /* transactions: MODE.TSX packets (33.2.9.1) */
    bool pebs;                     /* PEBS output to the trace: packet blocks (33.4.1.1) */
    bool long_tnt;                 /* long TNT packets (Table 33-16); else short ones */
    bool deferred_tips;            /* 33.4.2.3 */
    bool xsaves;                   /* state component 8 is enumerated (33.3.5.2) */
    bool vmx_misc_pt;              /* IA32_VMX_MISC[14]: tracing in VMX operation (33.2.9.4) */
    bool rtit;                     /* RTIT, and what software knows it by: family and model */
    struct vpt_choices choices;
    /* Newer than chapter 33, and enumerated by no leaf that the model answers for. */
    bool triggers; /* trigger tracing: TRIG packets, see vpt_trigger() */
    bool fred;     /* FRED has CFE types of its own */
};

/*
 * The named profiles: descriptions of processors. Values are typical of the processor named; see
 * emulation/profiles.c. How many there are:
 */
size_t vpt_profile_count(void);
/* The name and a one-line description of profile i; NULL past the end. */
const char *vpt_profile_name(size_t i);
const char *vpt_profile_about(size_t i);
/* Fills *caps from the profile called name; case counts. False: there is no such profile. */
bool vpt_profile(const char *name, struct vpt_caps *caps);

/*
 * Whether caps contradict themselves: a bitmap without its feature, no output scheme at all, and
 * the like. NULL: they do not. Otherwise a static sentence says what is wrong.
 */
const char *vpt_caps_check(const struct vpt_caps *caps);

/* The registers of one CPUID leaf. */
struct vpt_cpuid {
    uint32_t eax, ebx, ecx, edx;
};

/*
 * Turns what the host would answer for (leaf, subleaf) in *regs into what the guest must see:
 * leaf 0 (maximum leaf), 1 (the signature, with RTIT), 7.0 (bit 25), 0DH.1 and 0DH.8 (trace state),
 * 14H, 15H. Other leaves stay.
 * With caps->supported false, PT disappears from all of them. True: *regs belongs to these leaves.
 */
bool vpt_cpuid(const struct vpt_caps *caps, uint32_t leaf, uint32_t subleaf,
               struct vpt_cpuid *regs);

#ifdef __cplusplus
}
#endif
#endif
