/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libvpt: a model of Intel Processor Trace for one logical processor.
 *
 * Intel Processor Trace is hardware that writes down, as packets in memory, which way a program
 * went. Chapter 33 of volume 3 of Intel's Software Developer's Manual (SDM) describes it; section
 * and table numbers below are those of that chapter. docs/glossary.md explains the terms, and
 * docs/write-a-vmm.md has a first program.
 *
 * The owner of a `struct vpt_cpu` is a program that runs a virtual processor. It tells what the
 * processor did, by events. The model decides which packets appear, and writes them to guest memory
 * through the owner's callbacks. The model holds plain data, allocates nothing, has no globals and
 * takes no locks: the owner serialises the calls for one cpu.
 *
 * What a processor has, and how profiles name it, is in vpt_caps.h. RTIT, the ancestor of PT, is
 * modelled by an object of its own (vpt_rtit.h).
 *
 * Conventions: addresses are 64-bit linear or guest-physical addresses, as named; sizes end in
 * _bytes. No function prints, aborts or exits, whatever a guest writes.
 */
#ifndef VPT_H
#define VPT_H

#include "vpt_caps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- MSRs (33.2.8) ------------------------------------------------------------------------ */

#define VPT_MSR_OUTPUT_BASE        0x560u
#define VPT_MSR_OUTPUT_MASK_PTRS   0x561u
#define VPT_MSR_CTL                0x570u
#define VPT_MSR_STATUS             0x571u
#define VPT_MSR_CR3_MATCH          0x572u
#define VPT_MSR_ADDR0_A            0x580u /* ADDRn_A is 580H + 2n, ADDRn_B is 581H + 2n */
#define VPT_MSR_PERF_GLOBAL_STATUS 0x38eu
#define VPT_MSR_PERF_GLOBAL_CTRL   0x38fu
#define VPT_MSR_PERF_GLOBAL_RESET  0x390u /* IA32_PERF_GLOBAL_STATUS_RESET, GLOBAL_OVF_CTRL */

#define VPT_PERF_TOPA_PMI (1ull << 55) /* PERF_GLOBAL_STATUS.Trace_ToPA_PMI */

/* IA32_RTIT_CTL, Table 33-6. */
#define VPT_CTL_TRACEEN        (1ull << 0)
#define VPT_CTL_CYCEN          (1ull << 1)
#define VPT_CTL_OS             (1ull << 2)
#define VPT_CTL_USER           (1ull << 3)
#define VPT_CTL_PWREVTEN       (1ull << 4)
#define VPT_CTL_FUPONPTW       (1ull << 5)
#define VPT_CTL_FABRICEN       (1ull << 6)
#define VPT_CTL_CR3FILTER      (1ull << 7)
#define VPT_CTL_TOPA           (1ull << 8)
#define VPT_CTL_MTCEN          (1ull << 9)
#define VPT_CTL_TSCEN          (1ull << 10)
#define VPT_CTL_DISRETC        (1ull << 11)
#define VPT_CTL_PTWEN          (1ull << 12)
#define VPT_CTL_BRANCHEN       (1ull << 13)
#define VPT_CTL_MTCFREQ_SHR    14
#define VPT_CTL_CYCTHRESH_SHR  19
#define VPT_CTL_PSBFREQ_SHR    24
#define VPT_CTL_EVENTEN        (1ull << 31)
#define VPT_CTL_ADDR_CFG_SHR   32 /* ADDRn_CFG at 32 + 4n */
#define VPT_CTL_DISTNT         (1ull << 55)
#define VPT_CTL_INJECT_PSB_PMI (1ull << 56)

#define VPT_ADDR_CFG_UNUSED    0u
#define VPT_ADDR_CFG_FILTER    1u
#define VPT_ADDR_CFG_TRACESTOP 2u

/* IA32_RTIT_STATUS, Table 33-7. */
#define VPT_STATUS_FILTEREN     (1ull << 0)
#define VPT_STATUS_CONTEXTEN    (1ull << 1)
#define VPT_STATUS_TRIGGEREN    (1ull << 2)
#define VPT_STATUS_ERROR        (1ull << 4)
#define VPT_STATUS_STOPPED      (1ull << 5)
#define VPT_STATUS_PENDPSB      (1ull << 6)
#define VPT_STATUS_PENDTOPAPMI  (1ull << 7)
#define VPT_STATUS_BYTECNT_SHR  32
#define VPT_STATUS_BYTECNT_MASK (0x1ffffull << VPT_STATUS_BYTECNT_SHR)

/* An entry of a ToPA, a table of physical addresses that packets go to (Table 33-3). */
#define VPT_TOPA_END      (1ull << 0)
#define VPT_TOPA_INT      (1ull << 2)
#define VPT_TOPA_STOP     (1ull << 4)
#define VPT_TOPA_SIZE_SHR 6 /* region is 4 KiB << field */

/* ---- The owner's callbacks ---------------------------------------------------------------- */

enum vpt_access {
    VPT_READ_TABLE,   /* a ToPA entry, 8 bytes */
    VPT_WRITE_OUTPUT, /* packet bytes */
};

/* What is at a guest-physical address, and what the model then does (33.2.7.4 and below). */
enum vpt_span_kind {
    VPT_SPAN_RAM,        /* host memory at .host */
    VPT_SPAN_UNBACKED,   /* nothing there: stores are dropped, reads give all ones */
    VPT_SPAN_MMIO,       /* a device: stores go to ops->mmio if set, else dropped; reads all ones */
    VPT_SPAN_READONLY,   /* ROM: stores are dropped, reads come from .host */
    VPT_SPAN_APIC,       /* the APIC page: stores are dropped, no error is signalled */
    VPT_SPAN_RESTRICTED, /* SMRR: an operational error (Table 33-5) */
    VPT_SPAN_FAULT,      /* EPT violation: see vpt_output_blocked() */
};

struct vpt_span {
    enum vpt_span_kind kind;
    uint32_t len_bytes; /* how much of the request this answer covers, from its start; >= 1 */
    void *host;         /* VPT_SPAN_RAM and VPT_SPAN_READONLY only */
};

/* Clocks, read together at one instant (33.8.3.1). */
struct vpt_clocks {
    uint64_t tsc;    /* as RDTSC gives it to what runs now, see vpt_nonroot() */
    uint64_t art;    /* core crystal clock (always running timer) */
    uint16_t fast;   /* TSC ticks since the last crystal edge (TMA.FastCounter), 9 bits */
    uint64_t cycles; /* core clock cycles */
};

/* The owner's functions. `owner` is what vpt_init() was given. */
struct vpt_ops {
    /*
     * Required. Says in *span what is at [gpa, gpa + len_bytes), which lies in one 4 KiB page. The
     * guest chooses gpa: answer with what it may touch, and nothing else.
     */
    void (*translate)(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span);
    /*
     * Bytes were stored to guest RAM at gpa: for dirty logging, or to have the trace. gpa is what
     * translate was asked for, and goes through EPT if that did. May be NULL.
     */
    void (*wrote)(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes);
    /* Stores to a device. May be NULL. */
    void (*mmio)(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes);
    /* FabricEn output (33.2.7.3). May be NULL if the caps have no FABRIC. */
    void (*transport)(void *owner, const uint8_t *bytes, uint32_t len_bytes);
    /* A region of the ToPA is full: signal the performance-monitoring interrupt. May be NULL. */
    void (*pmi)(void *owner);
    /* Required if TSC, MTC or CYC packets can be enabled. */
    void (*clocks)(void *owner, struct vpt_clocks *clocks);
};

/* Derives art and fast from a TSC and CPUID.15H (33.8.3.1); cycles = tsc. Both 0 without leaf 15H.
 */
void vpt_clocks_from_tsc(const struct vpt_caps *caps, uint64_t tsc, struct vpt_clocks *clocks);

/* ---- The logical processor ---------------------------------------------------------------- */

enum vpt_exec_mode { VPT_EXEC_16, VPT_EXEC_32, VPT_EXEC_64 };

/* The processor state that decides what is traced and what packets say (33.2.5, 33.2.6.3). */
struct vpt_context {
    uint64_t cr3;
    uint64_t cs_base;  /* for processors whose IP payloads are RIPs (33.3.1.1); 0 in 64-bit mode */
    uint8_t cpl;       /* 0 in real mode, 3 in virtual-8086 mode */
    uint8_t exec_mode; /* enum vpt_exec_mode: CS.L & LMA, CS.D */
    bool pae;          /* PAE paging: CR3[11:5] counts */
    bool interrupts;   /* RFLAGS.IF */
    bool enclave;      /* inside a production (opt-out) enclave (33.2.9.5) */
};

#define VPT_RET_STACK     64
#define VPT_RET_NONE      (1ull << 63) /* no CALL: nothing returns to an address like this */
#define VPT_BUFFER_BYTES  1024
#define VPT_DEFERRED_TIPS 16
#define VPT_WAITING_TIPS  32
#define VPT_MODE_UNSENT   0xffu

/* An entry of a ToPA that was read ahead of need. Behind the current one: END, and where it leads.
 */
#define VPT_TOPA_AHEAD 2
struct vpt_topa_ahead {
    uint64_t gpa, entry;
};

/* How the inline functions of events take a branch. It is computed anew when an enable changes. */
enum vpt_path {
    VPT_PATH_OFF,  /* a near branch can produce nothing */
    VPT_PATH_FAST, /* PacketEn, and nothing but TNT, TIP and the RET stack matters */
    VPT_PATH_SLOW, /* IP ranges, timing packets, DisTNT, an overflow, ... */
};

/*
 * One logical processor. It is plain data: owners allocate it and may copy it. They use the
 * functions below for every access; only the inline functions of this header read it directly.
 */
struct vpt_cpu {
    /* Hot: near branches. */
    uint64_t tnt;               /* stop bit, then results; youngest at bit 0; 1 = empty */
    uint64_t tnt_full;          /* 1 << capacity */
    uint8_t path;               /* enum vpt_path */
    uint8_t ret_top, ret_count; /* of the saved form only */
    bool ret_kept;              /* CALLs are put on the stack: not DisRETC */
    bool tip_plain;         /* of VPT_PATH_FAST: TIPs follow the TNT at once, compressed as usual */
    uint32_t waiting_bytes; /* so many bytes of each of these arrays are in use, */
    uint32_t waiting_limit; /*   of so many that may be */
    uint32_t ret_next;      /* offset of ret_stack's entry for the next CALL, in bytes */
    uint64_t ret_stack[VPT_RET_STACK];
    uint64_t waiting_ip[VPT_WAITING_TIPS], waiting_tnt[VPT_WAITING_TIPS];

    /* MSRs. STATUS[2:0] are kept as the enables below. */
    uint64_t ctl, status, cr3_match, output_base, output_mask_ptrs;
    uint64_t addr[VPT_MAX_RANGES][2];
    uint64_t perf_global_status, perf_global_ctrl;

    /* Enables (33.2.6). */
    bool trigger_en, context_en, filter_en, packet_en;

    /* Packet state. */
    struct vpt_context ctx;
    uint64_t last_ip;   /* 33.4.2.2, IP compression */
    uint8_t mode_sent;  /* payload of the last MODE.Exec, VPT_MODE_UNSENT if none counts */
    uint8_t core_ratio; /* CBR */
    bool ranges;        /* some ADDRn_CFG is in use */
    bool timing;        /* MTCEn or CYCEn */
    bool ip_full;       /* the next IP must not be compressed */
    bool overflow;      /* internal buffer overflow in progress (33.3.8) */
    bool boundary_due;  /* a PSB+ waits for an event that knows the next instruction */
    bool psb_again;     /* another PSB+ is due when ContextEn becomes 1 */
    uint8_t line_group; /* bytes at the end of buf that are to stand in the next packet's line */
    bool stalled;       /* the way to memory is busy, see vpt_stall() */
    bool in_tx;         /* in a transaction (33.2.9.1) */
    bool asleep;        /* in a C-state deeper than C0.0 */
    bool wait_for_sipi; /* INIT came, SIPI did not yet */
    bool acm;           /* in an authenticated code module that was entered while TraceEn was 1 */
    bool branch_told;   /* what TRIG counts from is the last branch or event: a TNT bit or TIP */

    uint8_t deferred_count; /* TIPs (33.4.2.3) in deferred_ip */

    /* VMX operation (33.5). */
    bool vmx_on, vmx_nonroot;
    bool in_smm;                      /* since an SMI that was no VM exit: no VMX operation, and */
    bool smm_vmx_on, smm_vmx_nonroot; /*   what it was before */
    uint32_t vmx_secondary; /* secondary VM-execution controls in force in non-root operation */
    uint64_t vmcs;          /* the current VMCS pointer; UINT64_MAX: none */
    uint32_t bytes_since_psb;
    uint32_t psb_period_bytes;
    uint64_t overflow_count;

    /* Timing. */
    struct vpt_clocks now; /* as read at the start of the current event */
    uint64_t cyc_base;     /* core cycle of the last CYC */
    uint64_t mtc_count;    /* ART >> MTCFreq of the last MTC */

    uint64_t deferred_ip[VPT_DEFERRED_TIPS];

    /* Output: the current ToPA region, as read from the table once. */
    uint64_t region_base, region_bytes; /* region_bytes 0: the entry is still to be read */
    bool region_int, region_stop;
    bool pmi_early_done;  /* single-entry ToPA: the PMI of this pass was signalled */
    bool output_blocked;  /* waits for the owner to resolve a VPT_SPAN_FAULT */
    bool output_ept;      /* "Intel PT uses guest physical addresses" when tracing began */
    uint8_t fault_access; /* enum vpt_access of that fault */
    uint8_t topa_ahead_count;
    bool untouched;        /* nothing was stored since tracing began, when these two were: */
    uint64_t start_status; /*   IA32_RTIT_STATUS */
    uint32_t start_bytes;  /*   bytes_since_psb */
    uint32_t ready_bytes;  /* so many bytes of output have their address translated */
    struct vpt_topa_ahead topa_ahead[VPT_TOPA_AHEAD];
    uint64_t waiting_ctl;   /* IA32_RTIT_CTL of a trace that ended, but whose bytes wait; else 0 */
    uint64_t fault_gpa;     /* where that fault was */
    uint64_t output_bytes;  /* accepted by memory since creation */
    uint64_t dropped_bytes; /* lost to STOP, errors and unbacked memory since creation */
    uint64_t packet_count;  /* since creation */

    /* The internal buffer. */
    uint32_t buf_len;
    uint8_t buf[VPT_BUFFER_BYTES];

    struct vpt_caps caps;
    const struct vpt_ops *ops;
    void *owner;
};

/*
 * Makes *cpu a processor with these capabilities, as after cold reset. ops must outlive it. False:
 * vpt_caps_check() objects, or a required callback is missing; *cpu is then not usable.
 */
bool vpt_init(struct vpt_cpu *cpu, const struct vpt_caps *caps, const struct vpt_ops *ops,
              void *owner);

enum vpt_reset { VPT_RESET_COLD, VPT_RESET_WARM };
/* Cold and warm reset (33.2.8.1, 33.3.4). Packets not yet written are lost. */
void vpt_reset(struct vpt_cpu *cpu, enum vpt_reset kind);

enum vpt_result {
    VPT_OK = 0,
    VPT_GP = 1, /* the access raises #GP(0); nothing changed */
};

/* Whether msr is one that vpt_rdmsr() and vpt_wrmsr() answer for (560H-59FH, 38EH-390H). */
bool vpt_msr_owned(uint32_t msr);

/* RDMSR (33.2.8). VPT_OK and *value, or VPT_GP and *value untouched. */
enum vpt_result vpt_rdmsr(struct vpt_cpu *cpu, uint32_t msr, uint64_t *value);

/*
 * WRMSR (33.2.8), executed at linear address ip with next_ip after it; both may be in packets
 * (Table 33-56, cases 1 to 3). VPT_OK or VPT_GP.
 */
enum vpt_result vpt_wrmsr(struct vpt_cpu *cpu, uint32_t msr, uint64_t value, uint64_t ip,
                          uint64_t next_ip);

/* State component 8 of the XSAVE feature set (33.3.5.2; Table 36-13 of older editions). */
struct vpt_xsave_area {
    uint64_t ctl, output_base, output_mask_ptrs, status, cr3_match;
    uint64_t addr[2][2]; /* ADDR0_A, ADDR0_B, ADDR1_A, ADDR1_B */
    uint64_t reserved[7];
};
/* XSAVES at ip: fills *area, then clears TraceEn. */
void vpt_xsaves(struct vpt_cpu *cpu, struct vpt_xsave_area *area, uint64_t ip);
/*
 * XRSTORS at ip with next_ip behind it; area NULL: the component is in its initial configuration.
 * Each value obeys the rules of WRMSR, RTIT_CTL comes last. VPT_GP: nothing changed.
 */
enum vpt_result vpt_xrstors(struct vpt_cpu *cpu, const struct vpt_xsave_area *area, uint64_t ip,
                            uint64_t next_ip);

/*
 * The whole processor as bytes, for live migration while it traces (docs/save-format.md). Restored
 * into another struct vpt_cpu of the same capabilities, the stream of packets goes on bit for bit.
 */
#define VPT_SAVE_MAX_BYTES 8192
/* How many bytes were written. 0: size_bytes is too small; VPT_SAVE_MAX_BYTES always suffice. */
size_t vpt_save(const struct vpt_cpu *cpu, uint8_t *bytes, size_t size_bytes);
/*
 * *cpu comes from vpt_init(). NULL: it is now the processor that was saved. Otherwise it is
 * unchanged, and a static sentence says what is wrong with the bytes. They need not be trusted.
 */
const char *vpt_restore(struct vpt_cpu *cpu, const uint8_t *bytes, size_t len_bytes);

/*
 * Tells the state of the processor, before a WRMSR or XRSTORS that may enable tracing. While
 * TriggerEn is 0, changes of that state need no events. While it is 1, this call changes nothing.
 */
void vpt_set_context(struct vpt_cpu *cpu, const struct vpt_context *ctx);

/* The core:bus ratio changed (P-state); CBR and timing packets as Table 33-55 case 25. */
void vpt_set_core_ratio(struct vpt_cpu *cpu, uint8_t ratio);

/* Writes out all buffered packet bytes, as far as memory takes them (33.3.3), and TIPs that wait.
 */
void vpt_flush(struct vpt_cpu *cpu);

/*
 * The same, but first sends the branches that still wait, because their TNT packet has room left
 * (Table 33-16). What the processor does next then has its packets behind all that it did before.
 */
void vpt_flush_branches(struct vpt_cpu *cpu);

/*
 * The way to memory is busy (stalled), or free again. While it is busy, packets stay in the
 * internal buffer, which overflows when it is full (33.3.8). The end of tracing does not overflow:
 * it waits for memory, and flushes in any case.
 */
void vpt_stall(struct vpt_cpu *cpu, bool stalled);

/*
 * The owner's hand in what a processor decides by itself: what an owner needs that repeats a trace,
 * or that wants a place at which each part of one can be decoded alone.
 *
 * A PSB+ here (33.3.7), in front of the instruction at next_ip, whatever PSBFreq says. While
 * TriggerEn is 0 it comes when tracing begins next. In an overflow there is one anyway at its end.
 */
void vpt_psb(struct vpt_cpu *cpu, uint64_t next_ip);
/*
 * The internal buffer overflows now (33.3.8). Branches whose TNT was not sent yet are lost, and all
 * packets up to the next event that tells where execution goes on; that ends the overflow, as far
 * as memory takes bytes.
 */
void vpt_overflow(struct vpt_cpu *cpu);
/*
 * The core:bus ratio is another one, but the processor told nobody: the next PSB+ says it. Of a
 * change that it does tell, see vpt_set_core_ratio().
 */
void vpt_note_core_ratio(struct vpt_cpu *cpu, uint8_t ratio);

/*
 * Whether an address of output met an EPT violation (VPT_SPAN_FAULT); look behind each event,
 * WRMSR, XRSTORS and VM entry. Addresses are translated ahead of need: when tracing begins, which
 * VM entry may do, and 2 KiB before output comes to another page. So an answer other than
 * VPT_SPAN_FAULT should hold until output has left the page, or until the next VM exit.
 *
 * The owner either resolves the violation before the next instruction and calls vpt_flush(), or
 * makes it a VM exit there (vpt_vm_exit()): what vpt_output_fault() tells with VPT_EPT_ASYNCHRONOUS
 * in the qualification, and the guest's IA32_RTIT_CTL as vpt_rdmsr() has it. All packets up to the
 * exit have their place in the page before, so that nothing is left when a VMM writes the output
 * MSRs. A trace for which an address is missing from the start has not begun then; it begins at the
 * next VM entry. So it is, too, where the MSR-load area of the VM entry ended the trace again; if
 * that area went on to other trace MSRs, the beginning is taken back and output is not blocked. An
 * owner that goes on instead lets the internal buffer fill, and overflow (33.3.8).
 */
static inline bool vpt_output_blocked(const struct vpt_cpu *cpu)
{
    return cpu->output_blocked;
}
static inline bool vpt_trigger_en(const struct vpt_cpu *cpu)
{
    return cpu->trigger_en;
}
static inline bool vpt_packet_en(const struct vpt_cpu *cpu)
{
    return cpu->packet_en;
}
/*
 * VMX non-root operation. For ops->clocks: whether the TSC that it is asked for is the guest's,
 * with the offset and the multiplier of its VM (33.8.3.3), also in the middle of a VM entry or
 * exit.
 */
static inline bool vpt_nonroot(const struct vpt_cpu *cpu)
{
    return cpu->vmx_nonroot;
}
/*
 * For owners that translate code: whether near branches can produce anything now; and whether near
 * direct JMPs can, which they do for IP ranges and timing packets. Only an event changes the
 * answers.
 */
static inline bool vpt_wants_branches(const struct vpt_cpu *cpu)
{
    return cpu->path != VPT_PATH_OFF;
}
static inline bool vpt_wants_jumps(const struct vpt_cpu *cpu)
{
    return cpu->path == VPT_PATH_SLOW && (cpu->ranges || cpu->timing);
}
/*
 * Whether translated code may tell a conditional branch itself. It computes tnt = tnt << 1 | taken.
 * If the result is not below tnt_full, it calls vpt_branch_told() before anything else.
 */
static inline bool vpt_is_fast(const struct vpt_cpu *cpu)
{
    return cpu->path == VPT_PATH_FAST;
}
/*
 * It may take near direct CALLs as well, if ret_kept: as vpt_ret_push() does, unless the length is
 * zero. And a near RET for which vpt_ret_compresses(): as vpt_ret_pop() does, and the bit 1. And
 * other RETs and indirect branches, as vpt_tip_waits() does.
 */

/* ---- Events ------------------------------------------------------------------------------- *
 * One call for each operation that retired or was delivered, in program order. All addresses are
 * linear. Nothing needs to be told while TriggerEn is 0, except through vpt_set_context().
 */

/* Not for callers: the parts of the inline functions that are not hot. */
void vpt_fast_tip(struct vpt_cpu *cpu, uint64_t target);
void vpt_slow_tnt_full(struct vpt_cpu *cpu, uint64_t next_ip);
void vpt_slow_cond_branch(struct vpt_cpu *cpu, uint64_t next_ip, bool taken);
void vpt_slow_jmp_direct(struct vpt_cpu *cpu, uint64_t target);
void vpt_slow_call_direct(struct vpt_cpu *cpu, uint64_t target, uint64_t next_ip);
void vpt_slow_jmp_indirect(struct vpt_cpu *cpu, uint64_t target);
void vpt_slow_call_indirect(struct vpt_cpu *cpu, uint64_t target, uint64_t next_ip);
void vpt_slow_ret(struct vpt_cpu *cpu, uint64_t target);

/* Jcc, J*CXZ, LOOP*: next_ip is where execution goes on. */
static inline void vpt_cond_branch(struct vpt_cpu *cpu, uint64_t next_ip, bool taken)
{
    if (cpu->path == VPT_PATH_FAST) {
        cpu->tnt = cpu->tnt << 1 | taken;
        if (cpu->tnt >= cpu->tnt_full)
            vpt_slow_tnt_full(cpu, next_ip);
    } else if (cpu->path != VPT_PATH_OFF) {
        vpt_slow_cond_branch(cpu, next_ip, taken);
    }
}

/* Of vpt_is_fast(): the TNT is full. next_ip is where execution goes on. */
static inline void vpt_branch_told(struct vpt_cpu *cpu, uint64_t next_ip)
{
    vpt_slow_tnt_full(cpu, next_ip);
}

/*
 * Of vpt_is_fast(), for owners that know many branches ahead: how many more bits they may put into
 * tnt, at least one, before vpt_branches_told() comes. These are as many as become full TNT packets
 * without anything in between, so that what is sent, and when, is as of branches told one by one.
 * It holds until anything else of the model is called. Before that, vpt_branches_told() comes too.
 * 0: it is not vpt_is_fast() any more.
 */
#define VPT_TNT_BITS_MAX 48u
unsigned vpt_tnt_room(const struct vpt_cpu *cpu);
/*
 * The full TNT packets leave tnt. next_ip is where execution goes on behind the last bit. It counts
 * only where the room is used up. What vpt_tnt_room() is then.
 */
unsigned vpt_branches_told(struct vpt_cpu *cpu, uint64_t next_ip);
/*
 * The same where the room is not used up, and then vpt_jmp_indirect(); or vpt_ret(), where not
 * vpt_ret_compresses(). In one call, this takes less time.
 */
unsigned vpt_branches_jmp(struct vpt_cpu *cpu, uint64_t target);
unsigned vpt_branches_ret(struct vpt_cpu *cpu, uint64_t target);

/* Near relative JMP. */
static inline void vpt_jmp_direct(struct vpt_cpu *cpu, uint64_t target)
{
    if (cpu->path == VPT_PATH_SLOW)
        vpt_slow_jmp_direct(cpu, target);
}

/*
 * Not for callers: the CALL stack behind RET compression (33.4.2.2). A RET that does not go where
 * the stack says empties the stack. The specification lets a processor compress less than it could,
 * and this choice keeps decoders of every kind in step: those that pop on each RET, as 33.4.2.2 has
 * it, and those that pop on compressed RETs only.
 *
 * It is a ring, and an entry that was popped is VPT_RET_NONE. An empty stack has that as its
 * youngest entry, whatever is below: nothing gets there, and CALLs write over it when they come to
 * it from the other side.
 */
static inline uint64_t *vpt_ret_at(struct vpt_cpu *cpu, uint32_t offset)
{
    return &cpu->ret_stack[offset / sizeof(uint64_t) % VPT_RET_STACK];
}
static inline uint32_t vpt_ret_youngest(const struct vpt_cpu *cpu)
{
    return (cpu->ret_next + (uint32_t)sizeof(cpu->ret_stack) - (uint32_t)sizeof(uint64_t)) %
           (uint32_t)sizeof(cpu->ret_stack);
}
static inline void vpt_ret_push(struct vpt_cpu *cpu, uint64_t next_ip)
{
    if (!cpu->ret_kept)
        return;
    *vpt_ret_at(cpu, cpu->ret_next) = next_ip;
    cpu->ret_next = (cpu->ret_next + (uint32_t)sizeof(uint64_t)) % (uint32_t)sizeof(cpu->ret_stack);
}
/* A RET to target is compressed; then it has to be popped. */
static inline bool vpt_ret_compresses(const struct vpt_cpu *cpu, uint64_t target)
{
    return cpu->ret_stack[vpt_ret_youngest(cpu) / sizeof(uint64_t)] == target;
}
static inline void vpt_ret_pop(struct vpt_cpu *cpu)
{
    cpu->ret_next = vpt_ret_youngest(cpu);
    *vpt_ret_at(cpu, cpu->ret_next) = VPT_RET_NONE;
}
static inline void vpt_ret_clear(struct vpt_cpu *cpu)
{
    *vpt_ret_at(cpu, vpt_ret_youngest(cpu)) = VPT_RET_NONE;
}
/* How many CALLs there are. */
static inline unsigned vpt_ret_count(const struct vpt_cpu *cpu)
{
    unsigned count = 0, at = vpt_ret_youngest(cpu) / (unsigned)sizeof(uint64_t);

    while (count < VPT_RET_STACK && cpu->ret_stack[at] != VPT_RET_NONE) {
        at = (at + VPT_RET_STACK - 1u) % VPT_RET_STACK;
        count++;
    }
    return count;
}

/* Near relative CALL; next_ip is the return address. Zero-length calls are recognised. */
static inline void vpt_call_direct(struct vpt_cpu *cpu, uint64_t target, uint64_t next_ip)
{
    if (cpu->path == VPT_PATH_SLOW)
        vpt_slow_call_direct(cpu, target, next_ip);
    else if (cpu->path == VPT_PATH_FAST && target != next_ip) /* zero-length calls do not count */
        vpt_ret_push(cpu, next_ip);
}

/*
 * Not for callers: the queue of TIPs, which there is with caps.choices.tips_wait. Where nothing but
 * TNT and TIP packets matters, a TIP and the TNT in front of it wait until the queue is full, and
 * become packets together then, or in front of any other packet. Translated code does the same by
 * loads and stores of its own, where waiting_bytes is below waiting_limit.
 */
static inline bool vpt_tip_waits(struct vpt_cpu *cpu, uint64_t target)
{
    if (cpu->waiting_bytes >= cpu->waiting_limit)
        return false;
    cpu->waiting_ip[cpu->waiting_bytes / sizeof(uint64_t)] = target;
    cpu->waiting_tnt[cpu->waiting_bytes / sizeof(uint64_t)] = cpu->tnt;
    cpu->waiting_bytes += sizeof(uint64_t);
    cpu->tnt = 1;
    return true;
}
static inline void vpt_tip_of_fast(struct vpt_cpu *cpu, uint64_t target)
{
    if (!vpt_tip_waits(cpu, target))
        vpt_fast_tip(cpu, target);
}

/* Near indirect JMP (FF /4) and CALL (FF /2), near RET (C3, C2). */
static inline void vpt_jmp_indirect(struct vpt_cpu *cpu, uint64_t target)
{
    if (cpu->path == VPT_PATH_FAST)
        vpt_tip_of_fast(cpu, target);
    else if (cpu->path != VPT_PATH_OFF)
        vpt_slow_jmp_indirect(cpu, target);
}
static inline void vpt_call_indirect(struct vpt_cpu *cpu, uint64_t target, uint64_t next_ip)
{
    if (cpu->path == VPT_PATH_FAST) {
        vpt_ret_push(cpu, next_ip); /* before: a PSB that follows the TIP empties the stack */
        vpt_tip_of_fast(cpu, target);
    } else if (cpu->path != VPT_PATH_OFF) {
        vpt_slow_call_indirect(cpu, target, next_ip);
    }
}
static inline void vpt_ret(struct vpt_cpu *cpu, uint64_t target)
{
    if (cpu->path == VPT_PATH_FAST && vpt_ret_compresses(cpu, target)) {
        vpt_ret_pop(cpu);
        vpt_cond_branch(cpu, target, true);
    } else if (vpt_tip_waits(cpu, target)) { /* only where the path is fast */
        vpt_ret_clear(cpu);
    } else if (cpu->path != VPT_PATH_OFF) {
        vpt_slow_ret(cpu, target);
    }
}

/* vpt_branches_told() where the room is not used up, and then vpt_call_indirect(). */
static inline unsigned vpt_branches_call(struct vpt_cpu *cpu, uint64_t target, uint64_t next_ip)
{
    vpt_ret_push(cpu, next_ip);
    return vpt_branches_jmp(cpu, target);
}

/* Far transfers (33.2.1.3). The type decides whether a FUP precedes the TIP (Table 33-23). */
enum vpt_transfer_type {
    VPT_FAR_BRANCH,     /* far JMP, CALL, RET; SYSCALL, SYSRET, SYSENTER, SYSEXIT: no FUP */
    VPT_IRET,           /* and ERETS, ERETU: no FUP */
    VPT_SOFT_INTERRUPT, /* INT n, INT3, INT1, INTO: ip is the instruction's own address */
    VPT_FAULT,          /* exceptions and fault-like machine checks: ip faulted */
    VPT_TRAP,           /* traps and trap-like machine checks: ip would have run next */
    VPT_INTERRUPT,      /* external interrupt or NMI: ip would have run next; AEX: ip is the AEP */
    VPT_ENCLAVE,        /* EENTER, ERESUME, EEXIT: ip is the instruction's own address */
    VPT_UINTR,          /* delivery of a user interrupt: ip would have run next */
    VPT_UIRET,          /* no FUP */
    VPT_INIT,           /* INIT on the bootstrap processor: ip would have run next */
    VPT_INIT_WAIT, /* INIT on another one: nothing runs until VPT_SIPI; target counts for nothing */
    VPT_SIPI,      /* no FUP */
    /* What FRED delivers otherwise than an IDT does; all else has the types above. */
    VPT_FRED_SOFT_INTERRUPT, /* as VPT_SOFT_INTERRUPT */
    VPT_FRED_SYSCALL,        /* SYSCALL, SYSENTER: no FUP; ip is the instruction's own address */
};

struct vpt_transfer {
    enum vpt_transfer_type type;
    uint8_t vector;           /* interrupts, exceptions, user interrupts, SIPI */
    uint64_t ip;              /* as the type says; of branches: the instruction's own address */
    uint64_t target;          /* the first instruction to run next */
    uint64_t cr2;             /* page faults: the faulting linear address */
    struct vpt_context after; /* the processor's state at target */
};
void vpt_transfer(struct vpt_cpu *cpu, const struct vpt_transfer *transfer);

/*
 * MOV CR3, with next_ip behind it. It gives a PIP, and PacketEn may change (Tables 33-55 case 14,
 * 33-56).
 */
void vpt_mov_cr3(struct vpt_cpu *cpu, uint64_t cr3, uint64_t next_ip);

/* STI, CLI, POPF and the like changed RFLAGS.IF at ip (Table 33-59 case 22). */
void vpt_interrupt_flag(struct vpt_cpu *cpu, bool interrupts, uint64_t ip);

/* PTWRITE of a 4- or 8-byte operand at ip (33.4.2.21). */
void vpt_ptwrite(struct vpt_cpu *cpu, uint64_t value, uint8_t size_bytes, uint64_t ip);

/*
 * Triggers fired (trigger tracing, newer than chapter 33): TRIG, in front of the instruction at ip.
 * Which triggers there are, and what makes them fire, is the owner's: the MSRs that software
 * chooses them with are not modelled. Nothing without caps.triggers.
 */
struct vpt_trigger {
    uint8_t fired;   /* one bit a trigger */
    bool more;       /* others fired that are not told */
    bool attributed; /* the trace says which instruction it was: by a count, or by a FUP */
    uint64_t ip;
    /*
     * How many instructions ran since the last of these was told: a near branch but direct JMP and
     * CALL, a far transfer, VM entry or exit, the abort of a transaction, or a trigger.
     */
    uint64_t insns;
};
void vpt_trigger(struct vpt_cpu *cpu, const struct vpt_trigger *trigger);

/*
 * Time passed without an event. MTC and stand-alone CYC packets are sent as they fall due
 * (33.4.2.12).
 */
void vpt_time(struct vpt_cpu *cpu);

/*
 * Transactions, HLE and RTM alike (33.2.9.1, Table 33-10). The outermost XBEGIN or XACQUIRE at ip
 * begins one. The outermost XEND or XRELEASE commits it. An abort at ip goes on at target. What
 * does not change whether there is a transaction gives no packet and need not be told. An interrupt
 * or a change of CPL or CR3 first aborts the transaction, by an event of its own.
 */
void vpt_tx_begin(struct vpt_cpu *cpu, uint64_t ip);
void vpt_tx_commit(struct vpt_cpu *cpu, uint64_t ip);
void vpt_tx_abort(struct vpt_cpu *cpu, uint64_t ip, uint64_t target);

/* ---- Power events (33.2.3, Table 33-58 by its contents) ---- */

/* The processor goes to sleep: entry to a C-state deeper than C0.1, or to a deeper one from it. */
struct vpt_power_entry {
    uint64_t ip;   /* the oldest instruction that is not complete */
    bool mwait;    /* MWAIT, UMWAIT, TPAUSE or an I/O redirection asked for it, with these: */
    uint8_t hints; /*   MWAIT.Hints */
    uint8_t ext;   /*   MWAIT.EXT, 2 bits */
    bool hw;       /* hardware decided, not software */
    uint8_t state; /* resolved thread C-state and sub-state, PWRE[15:8] (Table 33-43) */
};
void vpt_power_entry(struct vpt_cpu *cpu, const struct vpt_power_entry *entry);

/* PWRX.Wake Reason (Table 33-44). */
#define VPT_WAKE_INTERRUPT (1u << 0)
#define VPT_WAKE_TIMER     (1u << 1)
#define VPT_WAKE_STORE     (1u << 2)
#define VPT_WAKE_HW        (1u << 3)

/* The processor wakes: back to C0. The C-states are MWAIT encodings of 4 bits. */
struct vpt_power_exit {
    uint8_t last_core_state, deepest_core_state;
    uint8_t reason;     /* one of VPT_WAKE_* */
    uint8_t core_ratio; /* core:bus ratio from now on; 0: as before */
};
void vpt_power_exit(struct vpt_cpu *cpu, const struct vpt_power_exit *wake);

/*
 * The clock stops without a C-state: TM1/2, STPCLK#, a change of frequency (33.4.2.22); ip is the
 * oldest instruction that is not complete. vpt_set_core_ratio() tells that it runs again.
 */
void vpt_exec_stop(struct vpt_cpu *cpu, uint64_t ip);

/* ---- PEBS by way of the trace (33.4.1.1, 33.4.2.26 to 33.4.2.28) ---- */

struct vpt_block_item {
    uint8_t id; /* BIP.ID, 5 bits (Table 33-47) */
    uint64_t value;
};
struct vpt_block {
    uint8_t type;         /* BBP.Type, 5 bits (Table 33-45) */
    bool four_byte_items; /* BBP.SZ: the lower halves of the values only */
    size_t count;
    const struct vpt_block_item *items;
};
/* One PEBS record, as the blocks it consists of, which bind to ip. */
void vpt_pebs(struct vpt_cpu *cpu, const struct vpt_block *blocks, size_t count, uint64_t ip);

/* ---- SMM (33.2.9.3) ---- */

/*
 * SMI delivery, ip being saved in SMRAM: TraceEn is cleared, and VMX operation left until RSM.
 * Gives back the TraceEn that the owner keeps in SMRAM. What the handler does needs
 * vpt_set_context() and MSR accesses only, unless it traces itself.
 */
bool vpt_smi(struct vpt_cpu *cpu, uint64_t ip);
/*
 * RSM to target in the state after: TraceEn becomes what SMRAM holds. False: TraceEn was 1 at the
 * RSM, or cannot become 1 with the rest of RTIT_CTL; the processor shuts down, nothing changed.
 */
bool vpt_rsm(struct vpt_cpu *cpu, bool traceen, uint64_t target, const struct vpt_context *after);

/* Entry to shutdown at ip (Table 33-59 case 12). */
void vpt_shutdown(struct vpt_cpu *cpu, uint64_t ip);

/* ---- VMX operation (33.5, 33.6) ---- */

/* The VMX controls that bear on the trace, in their control words (Table 33-52). */
#define VPT_SECONDARY_CONCEAL (1u << 19) /* conceal VMX from PT */
#define VPT_SECONDARY_PT_GPA  (1u << 24) /* Intel PT uses guest physical addresses */
#define VPT_EXIT_CONCEAL      (1u << 24)
#define VPT_EXIT_CLEAR_CTL    (1u << 25) /* clear IA32_RTIT_CTL */
#define VPT_ENTRY_CONCEAL     (1u << 17)
#define VPT_ENTRY_LOAD_CTL    (1u << 18) /* load IA32_RTIT_CTL */

/* Exit qualification of an EPT violation by trace output, besides the kind of the access. */
#define VPT_EPT_ASYNCHRONOUS (1ull << 16)

/* VMXON at ip; without IA32_VMX_MISC[14] it clears TraceEn (33.2.9.4). */
void vpt_vmxon(struct vpt_cpu *cpu, uint64_t ip);
void vpt_vmxoff(struct vpt_cpu *cpu);
/* Successful VMPTRLD, and VMCLEAR of any VMCS (33.4.2.15). */
void vpt_vmptrld(struct vpt_cpu *cpu, uint64_t vmcs);
void vpt_vmclear(struct vpt_cpu *cpu, uint64_t vmcs);

/* An entry of an MSR-load area; those for other MSRs than the model's are passed over. */
struct vpt_msr_load {
    uint32_t msr;
    uint64_t value;
};

enum vpt_entry {
    VPT_ENTRY_SUCCEEDS,
    VPT_ENTRY_FAILS_EARLY, /* goes on at next_ip (Table 33-54) */
    VPT_ENTRY_FAILS_LATE,  /* goes on at host_ip, as a VM exit would */
};

/* VMLAUNCH or VMRESUME. Control words are those of the VMCS; bits of other controls are ignored. */
struct vpt_vm_entry {
    uint64_t ip, next_ip; /* of the instruction, and behind it */
    uint32_t secondary, entry, exit;
    bool ept;                         /* "enable EPT" */
    uint64_t guest_ctl;               /* guest-state field IA32_RTIT_CTL */
    const struct vpt_msr_load *loads; /* VM-entry MSR-load area; one that faults loads nothing */
    size_t load_count;
    uint64_t guest_ip;
    struct vpt_context guest;
    enum vpt_entry outcome; /* as far as the owner's own checks tell */
    uint64_t host_ip;       /* of a late failure, with the state there */
    struct vpt_context host;
    bool from_smm; /* the entry returns from SMM, so that the VMCS pointer becomes vmcs; */
    bool to_root;  /*   and it may lead to VMX root operation (33.6) */
    uint64_t vmcs;
};
/*
 * The checks of VM entry that concern the trace, and its packets (Tables 33-53, 33-54). The result
 * is what really happens: an owner that said VPT_ENTRY_SUCCEEDS may get a failure back. An event
 * that the entry injects is told afterwards, by vpt_transfer().
 */
enum vpt_entry vpt_vm_entry(struct vpt_cpu *cpu, const struct vpt_vm_entry *entry);
/*
 * What vpt_vm_entry() will say, for an owner that has to know before it loads anything. Of the
 * entry, only outcome, control words, ept, guest_ctl and the MSR-load area matter.
 */
enum vpt_entry vpt_vm_entry_outcome(const struct vpt_cpu *cpu, const struct vpt_vm_entry *entry);

enum vpt_smm_exit {
    VPT_SMM_NONE,
    VPT_SMM_BY_SMI, /* an SMM VM exit (33.6): the VMCS pointer becomes the SMM-transfer one */
    VPT_SMM_BY_VMCALL,
};

struct vpt_vm_exit {
    uint64_t ip;     /* guest RIP as the VMCS has it, as a linear address */
    uint32_t exit;   /* VM-exit controls */
    uint32_t reason; /* exit reason and qualification, for EVD */
    uint64_t qualification;
    bool by_event; /* an interrupt, exception or NMI caused it: */
    uint8_t vector;
    const struct vpt_msr_load *loads; /* VM-exit MSR-load area */
    size_t load_count;
    uint64_t host_ip;
    struct vpt_context host;
    enum vpt_smm_exit smm;
    uint64_t vmcs; /* of SMM VM exits: the SMM-transfer VMCS pointer */
};
/* False: an MSR of the load area faults; what happened is vpt_vmx_abort(). */
bool vpt_vm_exit(struct vpt_cpu *cpu, const struct vpt_vm_exit *exit);

/* A VM exit at ip that ends in a VMX abort (33.5.2.6): nothing more is traced until a reset. */
void vpt_vmx_abort(struct vpt_cpu *cpu, uint64_t ip);

/*
 * Whether addresses of output are guest-physical ones, to go through EPT. They stay so for bytes
 * that still wait for an EPT violation to be resolved after the VM exit.
 */
static inline bool vpt_output_by_ept(const struct vpt_cpu *cpu)
{
    return cpu->output_ept && (cpu->vmx_nonroot || cpu->buf_len > 0);
}
/* While vpt_output_blocked(): which access cannot be made, for the EPT violation that the owner
 * makes. */
static inline enum vpt_access vpt_output_fault(const struct vpt_cpu *cpu, uint64_t *gpa)
{
    *gpa = cpu->fault_gpa;
    return (enum vpt_access)cpu->fault_access;
}

/* ---- Authenticated code modules (33.2.9.6) ---- */

/* GETSEC[SENTER] or [ENTERACCS] at ip, or the rendezvous of another processor's SENTER. */
void vpt_getsec(struct vpt_cpu *cpu, uint64_t ip);
/* A module begins and ends: tracing pauses in silence. While it runs, no event is told. */
void vpt_acm_begin(struct vpt_cpu *cpu);
void vpt_acm_end(struct vpt_cpu *cpu, uint64_t next_ip);

/* A packet of the implementation's own (33.4.2.19). */
void vpt_maintenance(struct vpt_cpu *cpu, uint64_t payload);

/* ---- For a VMM ---------------------------------------------------------------------------- *
 * What a VMM with PT hardware does about the trace of its guests (33.5.1, 33.5.2).
 */

enum vpt_vmx_use {
    VPT_USE_HOST_WIDE,  /* one trace of host and guests; guests have no PT (33.5.2.1) */
    VPT_USE_GUEST_ONLY, /* guests trace themselves and see nothing of VMX (33.5.2.2) */
    VPT_USE_HOST_ONLY,  /* tracing pauses in guests */
};

/* IA32_VMX_MISC and the capability MSRs of the controls: allowed 0-settings low, 1-settings high.
 */
struct vpt_vmx_caps {
    uint64_t misc, secondary, exit, entry;
};

/* What to put where. */
struct vpt_vmx_plan {
    uint32_t secondary_set, secondary_clear; /* VM-execution controls to be 1 and 0 */
    uint32_t exit_set, exit_clear;
    uint32_t entry_set, entry_clear;
    bool msr_lists;   /* RTIT_CTL goes into the MSR-load areas of entry and exit */
    bool shadow_topa; /* output addresses are not translated: the VMM checks and rewrites them */
    bool guest_sees_pt;
};

/* NULL, and *plan is filled in; or a static sentence that says why the processor cannot do it. */
const char *vpt_vmx_plan(const struct vpt_vmx_caps *caps, enum vpt_vmx_use use,
                         struct vpt_vmx_plan *plan);

/*
 * The PIP that is missing because MOV CR3 exited (33.5.2.3). cpu holds the guest's trace MSRs as
 * after the exit, TraceEn being 0; guest_ctl is its IA32_RTIT_CTL, ctx its state with the new CR3,
 * nr whether its other PIPs say NR ("conceal VMX from PT" of the VM-execution controls is 0).
 * The bytes are appended to the guest's output, whose MSRs move on. False: the guest's
 * configuration asks for none.
 */
bool vpt_insert_pip(struct vpt_cpu *cpu, uint64_t guest_ctl, const struct vpt_context *ctx,
                    bool nr);

/* What IA32_RTIT_CR3_MATCH must hold while real_cr3 is loaded for the guest's guest_cr3. */
uint64_t vpt_translate_cr3_match(uint64_t guest_match, uint64_t guest_cr3, uint64_t real_cr3,
                                 bool pae);

/* TSC as a guest sees it: multiplier has 48 fractional bits (0: none), then the offset. */
uint64_t vpt_guest_tsc(uint64_t tsc, uint64_t multiplier, uint64_t offset);
/*
 * Rewrites the TSC packets of a guest's trace that begins with a packet (33.5.2.3). A packet has
 * the lower 7 bytes of the processor's TSC. The upper one counts where a multiplier is applied, and
 * comes from near_tsc: the processor's TSC at any time less than 2^55 ticks away. How many bytes
 * were read: fewer than len_bytes if the rest is no packet or is cut off.
 */
size_t vpt_rewrite_tsc_near(uint8_t *bytes, size_t len_bytes, uint64_t multiplier, uint64_t offset,
                            uint64_t near_tsc);
/* The same where the processor's TSC is below 2^56, or where there is no multiplier. */
size_t vpt_rewrite_tsc(uint8_t *bytes, size_t len_bytes, uint64_t multiplier, uint64_t offset);

/*
 * The capabilities of a guest whose TSC runs at the host's rate times multiplier: CPUID.15H and the
 * maximum non-turbo ratio (33.5.2.4). The ratio of TSC and crystal is off by at most one part in
 * 2^31. False: the rate is not possible.
 */
bool vpt_scale_caps(const struct vpt_caps *host, uint64_t multiplier, struct vpt_caps *guest);

#ifdef __cplusplus
}
#endif
#endif
