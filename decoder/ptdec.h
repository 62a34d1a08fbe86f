/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libptdec: a decoder of Intel Processor Trace.
 *
 * Intel Processor Trace is hardware that writes down, as packets in memory, which way a program
 * went. Chapter 33 of volume 3 of Intel's Software Developer's Manual (SDM) describes it; section
 * and table numbers below are those of that chapter. docs/glossary.md explains the terms,
 * docs/decoder.md the layers.
 *
 * Layers, each usable alone:
 *   packets      bytes -> packets                                   (ptd_packets_*)
 *   instructions bytes of code -> what matters of one instruction   (ptd_insn_*)
 *   image        code and symbols of address spaces                 (ptd_image_*)
 *   flow         packets + image -> blocks of executed instructions (ptd_flow_*)
 *   time         packets -> when                                    (ptd_time_*)
 *   contexts     NR, VMCS, CR3 -> which VM, which process           (ptd_contexts_*)
 *
 * RTIT, the ancestor of PT, has packets and a flow of its own (ptdec_rtit.h), and perf.data is read
 * and written by ptdec_perf.h. Coverage for fuzzers is in ptdec_coverage.h.
 *
 * Conventions: functions that can fail return an int. It is 0 or a count on success, and a negative
 * enum ptd_error otherwise. Nothing prints or exits. The bytes of a trace, of an ELF file and of
 * code are hostile input. Objects are independent of each other, and there are no globals: each
 * object may have a thread of its own.
 */
#ifndef PTDEC_H
#define PTDEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ptd_error {
    PTD_OK = 0,
    PTD_END = -1,         /* no more input */
    PTD_E_TRUNCATED = -2, /* the input ends inside a packet */
    PTD_E_OPCODE = -3,    /* not a packet */
    PTD_E_PAYLOAD = -4,   /* a packet with a reserved encoding */
    PTD_E_NOSYNC = -5,    /* no PSB */
    PTD_E_NOMAP = -6,     /* no code known at an address */
    PTD_E_INSN = -7,      /* bytes that are not an instruction */
    PTD_E_MISMATCH = -8,  /* packets and code contradict each other */
    PTD_E_RETSTACK = -9,  /* a compressed RET without its CALL */
    PTD_E_LOOP = -10,     /* an endless loop of direct branches */
    PTD_E_NOMEM = -11,
    PTD_E_IO = -12,     /* a file cannot be read */
    PTD_E_FORMAT = -13, /* a file is not what it should be */
    PTD_E_ARG = -14,    /* an argument is out of range */
    PTD_MORE = -15,     /* nothing can be told before more input is there (ptd_stream_*) */
    PTD_E_LIMIT = -16,  /* a file needs more memory than it may have */
};

/* A static sentence for an enum ptd_error. */
const char *ptd_strerror(int error);

/* ---- Errata -------------------------------------------------------------------------------- *
 * What some processors send otherwise than the SDM says, by the names that libipt knows them by.
 */

#define PTD_BDM64  (1u << 0) /* a wrong branch target in front of a transaction's abort */
#define PTD_BDM70  (1u << 1) /* the PSB+ in front of a TIP.PGE says that PacketEn is 1 */
#define PTD_SKD007 (1u << 2) /* OVF in place of the rest of a CYC */
#define PTD_SKD010 (1u << 3) /* no FUP or TIP.PGE behind OVF */
#define PTD_SKD022 (1u << 4) /* a FUP where VM entry clears TraceEn */
#define PTD_SKL014 (1u << 5) /* no IP in the TIP.PGD where a direct branch leaves the IP filter */
#define PTD_SKL168 (1u << 6) /* a CYC, and perhaps its MTC, is missing in front of a PSB */
#define PTD_APL11  (1u << 7) /* TIP.PGD behind OVF */
#define PTD_APL12  (1u << 8) /* a FUP behind OVF though PacketEn is 0 */
#define PTD_SKZ84  (1u << 9) /* TMA of guests with another TSC: nonsense, and a byte too many */

/* The errata of an Intel processor, as far as known; 0 of others. */
uint32_t ptd_errata(unsigned family, unsigned model);

/* ---- Packets ------------------------------------------------------------------------------ */

/* clang-format off */
enum ptd_packet_type {
    PTD_PAD, PTD_PSB, PTD_PSBEND, PTD_TNT, PTD_TIP, PTD_TIP_PGE, PTD_TIP_PGD, PTD_FUP,
    PTD_PIP, PTD_MODE_EXEC, PTD_MODE_TSX, PTD_TRACESTOP, PTD_CBR, PTD_TSC, PTD_MTC, PTD_TMA,
    PTD_CYC, PTD_VMCS, PTD_OVF, PTD_MNT, PTD_PTW, PTD_EXSTOP, PTD_MWAIT, PTD_PWRE, PTD_PWRX,
    PTD_BBP, PTD_BIP, PTD_BEP, PTD_CFE, PTD_EVD, PTD_TRIG,
    PTD_PACKET_TYPES
};
/* clang-format on */

/* One packet. Fields that a packet does not have are not set. */
struct ptd_packet {
    uint64_t offset; /* of its first byte in the buffer */
    uint8_t type;    /* enum ptd_packet_type */
    uint8_t size_bytes;
    union {
        struct {
            uint64_t bits; /* oldest result at bit count - 1, youngest at bit 0; 1 = taken */
            uint8_t count; /* 1..6, or 1..47 for a long TNT */
            bool is_long;
        } tnt;
        struct {
            uint64_t payload; /* as in the packet, not yet sign-extended or completed */
            uint8_t ip_bytes; /* the IPBytes field, Table 33-18; 0: suppressed */
        } ip;                 /* TIP, TIP.PGE, TIP.PGD, FUP */
        struct {
            uint64_t cr3; /* CR3[51:5] in place */
            bool nr;      /* VMX non-root */
        } pip;
        struct {
            bool csl, csd, interrupts; /* CS.L & LMA, CS.D, RFLAGS.IF */
        } mode_exec;
        struct {
            bool in_tx, abort;
        } mode_tsx;
        uint64_t tsc; /* 56 bits */
        uint8_t mtc;  /* CTC[N+7:N] */
        struct {
            uint16_t ctc, fast; /* fast: 9 bits */
            bool corrupt;       /* SKZ84: they mean nothing */
        } tma;
        uint64_t cyc;
        uint8_t cbr;
        uint64_t vmcs; /* VMCS pointer [51:12] in place */
        uint64_t mnt;
        struct {
            uint64_t payload;
            uint8_t payload_bytes; /* 4 or 8 */
            bool ip;               /* a FUP follows */
        } ptw;
        bool exstop_ip; /* a FUP follows */
        struct {
            uint8_t hints, ext;
        } mwait;
        struct {
            uint8_t state, sub_state;
            bool hw;
        } pwre;
        struct {
            uint8_t last, deepest, wake_reason;
        } pwrx;
        struct {
            uint8_t type;
            uint8_t item_bytes; /* of each BIP that follows: 4 or 8 */
        } bbp;
        struct {
            uint64_t payload;
            uint8_t id;
        } bip;
        bool bep_ip; /* a FUP follows */
        struct {
            uint8_t type, vector;
            bool ip; /* a stand-alone FUP follows */
        } cfe;
        struct {
            uint64_t payload;
            uint8_t type;
        } evd;
        /*
         * Triggers fired, in front of the instruction that comes icnt instructions behind the one
         * that the last IP packet, TNT bit or TRIG packet led to; with ip, behind the one that the
         * FUP names. Without has_icnt and ip, nothing says where.
         */
        struct {
            uint16_t icnt;
            uint8_t fired;       /* one bit a trigger */
            bool has_icnt, more; /* more: others fired that are not told */
            bool ip;             /* a FUP follows */
        } trig;
    };
};

/* An iterator over a buffer, which must outlive it. Zero-copy; its fields are private. */
struct ptd_packets {
    const uint8_t *begin, *pos, *end;
    uint64_t base;     /* offset of begin; 0, but for ptd_stream_* */
    uint8_t bip_bytes; /* inside a block: size of its items; else 0 */
    uint32_t errata;
};

/* Starts at the first byte of the buffer, which must be a packet's (else ptd_packets_sync()). */
void ptd_packets_init(struct ptd_packets *packets, const void *bytes, size_t len_bytes);
/*
 * Which errata of ptd_errata() the reader tolerates; at first none. Those of packets are SKD007 and
 * SKZ84, and the others change nothing.
 */
void ptd_packets_set_errata(struct ptd_packets *packets, uint32_t errata);
/*
 * Moves to the next PSB at or after the current position. PTD_OK; PTD_E_NOSYNC: there is none, and
 * the position is the end.
 */
int ptd_packets_sync(struct ptd_packets *packets);
/* Moves to an offset (a packet's first byte), outside any block. PTD_OK or PTD_E_ARG. */
int ptd_packets_seek(struct ptd_packets *packets, uint64_t offset);
/* After an error: moves to the next PSB behind the offending byte. As ptd_packets_sync(). */
int ptd_packets_resync(struct ptd_packets *packets);
uint64_t ptd_packets_offset(const struct ptd_packets *packets);
/*
 * The next packet. PTD_OK; PTD_END; PTD_E_TRUNCATED, PTD_E_OPCODE or PTD_E_PAYLOAD, and then the
 * position stays at the offending byte: go on with ptd_packets_resync().
 */
int ptd_packets_next(struct ptd_packets *packets, struct ptd_packet *packet);

/*
 * Reads the next packets, at most as many as there is room, and returns how many. *status is PTD_OK
 * if there is no more room, else what ptd_packets_next() returned behind the last one. This is
 * faster than one call for each.
 */
size_t ptd_packets_read(struct ptd_packets *packets, struct ptd_packet *list, size_t room,
                        int *status);

/*
 * A trace may come in pieces; then a window is slid along it. A packet that begins so many bytes in
 * front of the window's end, or more, is read as in the whole trace. Of one that begins later, the
 * rest may be missing.
 */
#define PTD_PACKET_MARGIN 64

/*
 * The bytes are now those from offset base of the trace on. The position stays the same, and must
 * be among them.
 */
void ptd_packets_slide(struct ptd_packets *packets, const void *bytes, size_t len_bytes,
                       uint64_t base);
/*
 * ptd_packets_sync() where more may follow. False: there is no PSB, or it cannot be told for sure;
 * the position is then where to go on. A resync is ptd_packets_skip_byte() and this.
 */
bool ptd_packets_sync_part(struct ptd_packets *packets);
void ptd_packets_skip_byte(struct ptd_packets *packets);

/* "TIP.PGE", "MODE.Exec", ...: the specification's name of a type. */
const char *ptd_packet_name(enum ptd_packet_type type);
/*
 * Writes one line about a packet without a newline, such as "TIP.PGE 0x401000 (48 bits)". Returns
 * as snprintf() does.
 */
int ptd_packet_format(const struct ptd_packet *packet, char *text, size_t text_bytes);

/*
 * Completes the IP of a TIP, TIP.PGE, TIP.PGD or FUP packet, which leaves out bytes that are the
 * same as in the IP before (Table 33-18). *last_ip is that IP, and afterwards the new one. PTD_OK
 * and *ip; PTD_END: the packet has no IP, and nothing changes.
 */
int ptd_packet_ip(const struct ptd_packet *packet, uint64_t *last_ip, uint64_t *ip);

/* ---- Time --------------------------------------------------------------------------------- *
 * TSC, TMA, MTC, CYC and CBR packets combined (33.8.3): when each packet came about, as a TSC value
 * and an interval that holds the true one. All values are TSC values of VMX root operation.
 *
 * What the interval rests on: TSC, TMA and MTC packets are right; fewer than 256 MTC packets in a
 * row are lost; and, where CYC packets narrow it, the core clock is constant between two CBR
 * packets and within one ratio step of what the CBR says. Where packets contradict that, it grows.
 */

/* TSC offset and multiplier of a VM (33.8.3.3). */
struct ptd_time_vm {
    uint64_t vmcs;       /* VMCS pointer; PTD_ANY_VMCS: VMs that have no entry of their own */
    uint64_t offset;     /* added last, modulo 2^64 */
    uint64_t multiplier; /* 48 fractional bits; 0: no scaling */
};

#define PTD_ANY_VMCS UINT64_MAX

struct ptd_time_config {
    uint32_t tsc_den, tsc_num;  /* CPUID.15H:EAX and EBX; 0: MTC packets tell nothing */
    uint8_t mtc_freq;           /* RTIT_CTL.MTCFreq */
    uint8_t cyc_threshold;      /* RTIT_CTL.CycThresh, as encoded */
    uint8_t max_nonturbo_ratio; /* PLATFORM_INFO[15:8]; 0: the CBR packet tells nothing */
    uint8_t tsc_high;           /* bits 63:56 of the first TSC; packets have 55:0 */
    /*
     * An MTC packet comes at most so much behind the edge that it tells of: a few ticks for
     * hardware. 0: any time before the next edge, as sources do that have no clock of their own.
     */
    uint32_t mtc_delay_ticks;
    uint32_t errata;               /* to be tolerated, of ptd_errata(): SKL168 */
    bool nonroot;                  /* VMX non-root operation until a PIP says otherwise */
    uint64_t vmcs;                 /* until the first VMCS packet */
    const struct ptd_time_vm *vms; /* must outlive the struct ptd_time */
    size_t vm_count;
};

#define PTD_TIME_UNKNOWN UINT64_MAX

/* When what a packet tells took place; of a TNT, all its branches. */
struct ptd_time_point {
    uint64_t tsc;              /* estimate, never backwards; PTD_TIME_UNKNOWN: no TSC packet yet */
    uint64_t earliest, latest; /* latest may be PTD_TIME_UNKNOWN */
    uint64_t cycles;           /* core cycles that CYC packets counted so far */
};

/* Follows the clocks of one trace. */
struct ptd_time;

/*
 * PTD_OK; PTD_E_ARG: mtc_freq or cyc_threshold is above 15, tsc_num is below tsc_den, or a
 * multiplier is not from 1/256 to 256.
 */
int ptd_time_check(const struct ptd_time_config *config);
/* config may be NULL: no MTC, no CBR, no VMs. NULL: no memory, or config is out of range. */
struct ptd_time *ptd_time_new(const struct ptd_time_config *config);
void ptd_time_free(struct ptd_time *time);
/* Tells the next packet of the trace. Every packet has to be told, of whatever type. */
void ptd_time_packet(struct ptd_time *time, const struct ptd_packet *packet);
/* Packets are missing here, because of an error of the trace. */
void ptd_time_lost(struct ptd_time *time);
/*
 * The next packet, not told to time yet. Bytes that are none are skipped up to the next PSB, and
 * time (if not NULL) learns that packets are missing. False: the end.
 */
bool ptd_time_next(struct ptd_time *time, struct ptd_packets *packets, struct ptd_packet *packet);
/*
 * When the last packet came about, as far as the packets up to it tell. Only later packets show
 * that tracing did not pause and that no MTC was lost.
 */
void ptd_time_point(const struct ptd_time *time, struct ptd_time_point *point);
/*
 * The same, with what the trace says later. packets stands behind the last packet and is copied. It
 * is looked at up to the next TSC or MTC packet; no part of a trace is looked at twice.
 */
void ptd_time_point_ahead(struct ptd_time *time, const struct ptd_packets *packets,
                          struct ptd_time_point *point);
/* How often a TSC packet said less than one before, because somebody wrote the TSC. */
uint64_t ptd_time_set_backs(const struct ptd_time *time);

/* A TSC value as a VM sees it (33.8.3.3). */
uint64_t ptd_time_guest_tsc(const struct ptd_time_vm *vm, uint64_t tsc);

/* Nanoseconds as perf's TIME_CONV and its mmap page tell them. */
struct ptd_time_conv {
    uint64_t zero;
    uint32_t mult;
    uint8_t shift; /* 0 to 32 */
};

/* For a TSC of khz that is 0 at 0 ns. PTD_OK; PTD_E_ARG: khz is 0. */
int ptd_time_conv_khz(uint64_t khz, struct ptd_time_conv *conv);
uint64_t ptd_time_ns(const struct ptd_time_conv *conv, uint64_t tsc);

/* ---- Instructions ------------------------------------------------------------------------- */

enum ptd_mode { PTD_MODE_16, PTD_MODE_32, PTD_MODE_64 };

/* What an instruction means to a trace (Table 33-1, the bindings of 33.4.2; RTIT 4.2.10). */
enum ptd_insn_class {
    PTD_INSN_OTHER,
    PTD_INSN_COND, /* Jcc, J*CXZ, LOOP* */
    PTD_INSN_JMP_DIRECT,
    PTD_INSN_CALL_DIRECT,
    PTD_INSN_JMP_INDIRECT, /* and JMPABS, which is told by a TIP too */
    PTD_INSN_CALL_INDIRECT,
    PTD_INSN_RET,     /* near */
    PTD_INSN_FAR,     /* far JMP, CALL, RET; SYSCALL, SYSRET, SYSENTER, SYSEXIT, UIRET, RSM */
    PTD_INSN_IRET,    /* and ERETS, ERETU */
    PTD_INSN_INT,     /* INT n, INT3, INT1, INTO */
    PTD_INSN_VMENTRY, /* VMLAUNCH, VMRESUME, VMRUN */
    PTD_INSN_VMPTRLD,
    PTD_INSN_MOV_CR3,
    PTD_INSN_PTWRITE,
    PTD_INSN_MOV_CR0,
};

struct ptd_insn {
    uint64_t ip;
    uint64_t target; /* of direct branches, and of JMPABS */
    uint8_t iclass;  /* enum ptd_insn_class */
    uint8_t size_bytes;
    bool far_return; /* IRET, ERETS, ERETU, far RET, SYSRET, SYSEXIT, UIRET, RSM */
    bool optional;   /* INTO: nothing happens unless RFLAGS.OF is 1 */
    bool wraps;      /* a direct branch that stays in a segment of 64 KiB */
};

/*
 * Decodes the instruction at the start of bytes (available_bytes of them, 15 suffice), as if it
 * stood at ip. PTD_OK or PTD_E_INSN (also for an instruction that is cut off).
 */
int ptd_insn_decode(enum ptd_mode mode, uint64_t ip, const void *bytes, size_t available_bytes,
                    struct ptd_insn *insn);
/* Disassembly of one instruction, Intel syntax. PTD_OK or PTD_E_INSN. */
int ptd_insn_format(enum ptd_mode mode, uint64_t ip, const void *bytes, size_t available_bytes,
                    char *text, size_t text_bytes);

/* ---- Image -------------------------------------------------------------------------------- */

#define PTD_ANY_CR3 UINT64_MAX /* in every address space that has nothing of its own there */

/*
 * Code and symbols, by address space. An address space is a CR3 value, bits 51:12, of the host or
 * of a VM: a guest's CR3 may be the same as one of the host or of another guest.
 */
struct ptd_image;

/*
 * The address space cr3 of a VM, by its number; 0 is the host. The result stands wherever a CR3
 * names an address space: in the functions below, and in .cr3 of items. cr3 PTD_ANY_CR3: every
 * address space of that VM, or of the host, that has nothing of its own there.
 */
uint64_t ptd_space(unsigned vm, uint64_t cr3);
unsigned ptd_space_vm(uint64_t space);
uint64_t ptd_space_cr3(uint64_t space);

#define PTD_VM_UNKNOWN 4094u /* a VM whose VMCS pointers were never told */

struct ptd_image *ptd_image_new(void); /* NULL: no memory */
/*
 * An image that hides a part of another, which must outlive it and not change: code that changes
 * while one trace is decoded, over what all traces share. VMs are those of base, which must not be
 * such an image itself. NULL: no memory, or it is.
 */
struct ptd_image *ptd_image_new_on(const struct ptd_image *base);
void ptd_image_free(struct ptd_image *image);
/*
 * Bytes at vaddr; they are copied. A later addition hides an earlier one, and its symbols. name, if
 * not NULL, is the symbol of the whole range. PTD_OK, _NOMEM, _ARG.
 */
int ptd_image_add_bytes(struct ptd_image *image, const char *name, uint64_t vaddr,
                        const void *bytes, size_t len_bytes, uint64_t cr3);
/* The same where code is patched: symbols stay as they are. */
int ptd_image_patch(struct ptd_image *image, uint64_t vaddr, const void *bytes, size_t len_bytes,
                    uint64_t cr3);
/*
 * The loadable segments and the symbols of a 64- or 32-bit x86 ELF file (a program, a library, or
 * the core file that Linux's /proc/kcore is), bias bytes above the addresses it is linked for.
 * PTD_OK, PTD_E_IO, PTD_E_FORMAT, PTD_E_NOMEM.
 */
int ptd_image_add_elf(struct ptd_image *image, const char *path, uint64_t bias, uint64_t cr3);
/*
 * The names of functions from a copy of Linux's /proc/kallsyms. PTD_OK, PTD_E_IO, PTD_E_NOMEM;
 * PTD_E_FORMAT: a line is not one of kallsyms, and those behind it were not read.
 */
int ptd_image_add_kallsyms(struct ptd_image *image, const char *path, uint64_t cr3);
/*
 * The same in two steps, for a file that is open already, or that is added to several images or at
 * several addresses: it is read once, and at most max_bytes of memory are kept. fd stays open, and
 * is not needed afterwards. PTD_OK and *file, PTD_E_IO, PTD_E_NOMEM, PTD_E_LIMIT (max_bytes are not
 * enough); PTD_E_FORMAT, with *file as far as a kallsyms was read.
 */
struct ptd_file;
int ptd_file_new_elf(int fd, uint64_t max_bytes, struct ptd_file **file);
int ptd_file_new_kallsyms(int fd, uint64_t max_bytes, struct ptd_file **file);
void ptd_file_free(struct ptd_file *file);
/*
 * Names alone, from the symbol tables of an ELF file: of a file with debug information, whose code
 * is not there. Added to a file, they are as if they had stood in it. As ptd_file_new_elf(); after
 * PTD_E_LIMIT and PTD_E_FORMAT of the second one, the file has those that were read before.
 */
int ptd_file_new_symbols(int fd, uint64_t max_bytes, struct ptd_file **file);
int ptd_file_add_symbols(struct ptd_file *file, int fd);
/*
 * Names that no symbol table has, each of so many bytes of code at an address that the file is
 * linked for; they are copied. A symbol at the same address counts more. PTD_OK, PTD_E_NOMEM,
 * PTD_E_LIMIT.
 */
struct ptd_name {
    const char *name;
    uint64_t vaddr, len_bytes; /* more than 0 */
};
int ptd_file_add_names(struct ptd_file *file, const struct ptd_name *names, size_t count);
/* How much memory it has. */
uint64_t ptd_file_bytes(const struct ptd_file *file);
/*
 * file must outlive the image; bias is 0 for kallsyms. The names of a kallsyms are those of code
 * that was added before and has none. PTD_OK, PTD_E_NOMEM, PTD_E_FORMAT.
 */
int ptd_image_add_file(struct ptd_image *image, const struct ptd_file *file, uint64_t bias,
                       uint64_t cr3);
/*
 * Names for addresses whose code comes from elsewhere, such as guest memory or a code log: a file's
 * symbols, bias bytes above its own addresses (NULL: none), and name where they say nothing. They
 * count where nothing else names the code; a later addition hides an earlier one. symbols must
 * outlive the image. PTD_OK, PTD_E_NOMEM; PTD_E_ARG: the range is empty, or wraps.
 */
int ptd_image_add_region(struct ptd_image *image, const char *name, uint64_t vaddr,
                         uint64_t len_bytes, const struct ptd_file *symbols, uint64_t bias,
                         uint64_t cr3);
/* An address space has no such names any more: it is another one from now on. PTD_OK, PTD_E_NOMEM.
 */
int ptd_image_drop_regions(struct ptd_image *image, uint64_t cr3);
/*
 * Code at (cr3, vaddr): *bytes and how many follow contiguously, >= 1. Valid until the image
 * changes. PTD_OK or PTD_E_NOMAP.
 */
int ptd_image_find(const struct ptd_image *image, uint64_t cr3, uint64_t vaddr,
                   const uint8_t **bytes, size_t *len_bytes);
/*
 * A number that is another one whenever code may have become otherwise: it was added, or a code log
 * says that it changed. What was found before holds as long as this does.
 */
uint64_t ptd_image_changes(const struct ptd_image *image);
/*
 * A new VM: its number, from 1; PTD_E_ARG: there are PTD_VM_UNKNOWN - 1 already.
 */
int ptd_image_add_vm(struct ptd_image *image);
/* vmcs is a VMCS pointer of the VM, of any of its processors. PTD_OK, PTD_E_NOMEM, PTD_E_ARG. */
int ptd_image_bind_vmcs(struct ptd_image *image, unsigned vm, uint64_t vmcs);
/*
 * The address space of what VMCS and PIP packets say. While no VMCS pointer is bound to a VM,
 * guests count as the host.
 */
uint64_t ptd_image_space(const struct ptd_image *image, bool nr, uint64_t vmcs, uint64_t cr3);

/*
 * An address space has the code and the symbols of another of the same VM, and none of its own.
 * PTD_OK, PTD_E_NOMEM; PTD_E_ARG: the other is 0, has those of a third, or both are the same.
 */
int ptd_image_alias(struct ptd_image *image, uint64_t cr3, uint64_t same_as);

/* What is known of the physical memory of a VM or of the host. */
struct ptd_memory;

struct ptd_memory *ptd_memory_new(void); /* NULL: no memory */
void ptd_memory_free(struct ptd_memory *memory);
/*
 * Bytes at a physical address; they are not copied. PTD_OK, PTD_E_NOMEM; PTD_E_ARG: none, or a part
 * of them is there already.
 */
int ptd_memory_add(struct ptd_memory *memory, uint64_t paddr, const void *bytes, size_t len_bytes);
/*
 * A file that holds the memory from paddr on. It is mapped, and must not shrink while it is.
 * PTD_OK, PTD_E_IO, PTD_E_NOMEM, PTD_E_ARG.
 */
int ptd_memory_add_raw(struct ptd_memory *memory, const char *path, uint64_t paddr);
/* The same of a file that is open; it stays so. */
int ptd_memory_add_raw_fd(struct ptd_memory *memory, int fd, uint64_t paddr);

enum ptd_paging {
    PTD_PAGING_UNKNOWN,
    PTD_PAGING_32,
    PTD_PAGING_PAE,
    PTD_PAGING_4_LEVEL,
    PTD_PAGING_5_LEVEL,
};

/*
 * An ELF core dump of a guest, as QEMU's dump-guest-memory and virsh dump write it; mapped too.
 * *paging if a note with the processor's control registers is there, else PTD_PAGING_UNKNOWN.
 * PTD_OK, PTD_E_IO, PTD_E_NOMEM, PTD_E_FORMAT.
 */
int ptd_memory_add_core(struct ptd_memory *memory, const char *path, enum ptd_paging *paging);
/* The same of a file that is open; it stays so. */
int ptd_memory_add_core_fd(struct ptd_memory *memory, int fd, enum ptd_paging *paging);
/* What is at a physical address, and how much of it follows, >= 1. PTD_OK or PTD_E_NOMAP. */
int ptd_memory_find(const struct ptd_memory *memory, uint64_t paddr, const uint8_t **bytes,
                    size_t *len_bytes);
/*
 * Walks the page tables (SDM vol. 3, 4.3 to 4.5): where vaddr is, and how much of its page follows.
 * PTD_OK; PTD_E_NOMAP: not present, or the tables are not known.
 */
int ptd_memory_walk(const struct ptd_memory *memory, enum ptd_paging paging, uint64_t cr3,
                    uint64_t vaddr, uint64_t *paddr, size_t *len_bytes);
/*
 * All address spaces of a VM (0: the host) have what the page tables in memory say, where nothing
 * was added. memory must outlive the image. PTD_OK, PTD_E_NOMEM; PTD_E_ARG: the VM has one already.
 */
int ptd_image_add_memory(struct ptd_image *image, unsigned vm, const struct ptd_memory *memory,
                         enum ptd_paging paging);

/*
 * A code log of the host (docs/trace-files.md): the code of the trace that it was written with, as
 * it was when it ran. It counts before all else that was added; a copy is kept. Flows replay it, so
 * that the image serves one flow at a time: ptd_flow_new() begins anew. PTD_OK, PTD_E_NOMEM,
 * PTD_E_FORMAT; PTD_E_ARG: there is one already.
 */
int ptd_image_add_code_log(struct ptd_image *image, const void *bytes, size_t len_bytes);

/*
 * The function that holds vaddr: its name (valid until the image is freed), or NULL; *offset from
 * its start if offset is not NULL.
 */
const char *ptd_image_symbol(const struct ptd_image *image, uint64_t cr3, uint64_t vaddr,
                             uint64_t *offset);
/*
 * The file that the code at vaddr is from, or whose symbols name it, and the address there that the
 * file is linked for. NULL: none.
 */
const struct ptd_file *ptd_image_origin(const struct ptd_image *image, uint64_t cr3, uint64_t vaddr,
                                        uint64_t *address);

/* ---- Flow --------------------------------------------------------------------------------- */

struct ptd_flow;

/*
 * Where decoding goes on after an error of the walk: code that is missing, or that does not agree
 * with the packets. Each of the two is followed by an error that tells what was lost.
 */
enum ptd_resync {
    /*
     * At the next PSB: always right. After an error of packets there is no other way. CR3, NR and
     * the VMCS pointer are not known there, unless the PSB+ tells them or no packet ever did.
     */
    PTD_RESYNC_PSB,
    /*
     * At the next packet that says an IP: a TIP, a FUP of an event or of a new mode, a PSB+. CR3,
     * VMCS, modes and LastIP are followed on the way; TNTs are left out. The CALL stack is empty
     * then, so the first compressed RET to a CALL in front of the gap begins the next gap. Wrong,
     * and without a word of it, where the processor defers TIPs (33.4.2.3).
     */
    PTD_RESYNC_IP,
};

/*
 * What suits a processor, by its CPUID: PTD_RESYNC_IP if it is known that it does not defer TIPs,
 * which is so for Broadwell, Skylake and Ice Lake and those with the same cores.
 */
enum ptd_resync ptd_resync_for(unsigned family, unsigned model);

/* config may be NULL: 64-bit, CR3 0, begin at the first PSB. */
struct ptd_flow_config {
    enum ptd_mode mode; /* until the first MODE.Exec */
    uint64_t cr3;       /* until the first PIP */
    bool at_start;      /* begin at the first byte (a start state) instead of the first PSB */
    /*
     * The rest of a start state. A buffer that was filled before can go on in the middle: then
     * PacketEn is 1 and the next instruction at .ip; else a TIP.PGE tells it. last_ip is what IP
     * packets are compressed against (33.4.2.2); .ip is a good guess.
     */
    bool has_ip, nr;
    uint64_t ip, last_ip, vmcs;
    uint8_t filters; /* how many, up to 4; only SKL014 needs them */
    struct {
        uint64_t first, last; /* IA32_RTIT_ADDRn_A and _B of a range with ADDRn_CFG = 1 */
    } filter[4];
    uint32_t errata; /* to be tolerated, of ptd_errata() */
    uint8_t resync;  /* enum ptd_resync */
    bool compounds;  /* steps of ptd_flow_run() may be compound ones: ptd_step_edges() */
};

enum ptd_item_type {
    PTD_ITEM_BLOCK,    /* instructions that ran one after the other, and stand so in memory; .to */
    PTD_ITEM_ENABLED,  /* .to: tracing begins here */
    PTD_ITEM_DISABLED, /* .to if has_to; .from if has_from: asynchronous, a FUP came first */
    PTD_ITEM_ASYNC,    /* interrupt, exception, software interrupt: .from, .to */
    PTD_ITEM_CR3,      /* a PIP: .value is the CR3, .nr */
    /*
     * MODE.Exec: .value is the enum ptd_mode. While PacketEn is 1 it stands in front of the block
     * that it concerns. While it is 0, and a FUP names the instruction that changed RFLAGS.IF, that
     * FUP follows as a PTD_ITEM_PACKET.
     */
    PTD_ITEM_MODE,
    PTD_ITEM_TSX,      /* MODE.TSX: .value bit 0 InTX, bit 1 abort */
    PTD_ITEM_STOP,     /* TraceStop */
    PTD_ITEM_OVERFLOW, /* OVF; .to if has_to */
    PTD_ITEM_TSC,      /* .value: 56 bits, as in the packet */
    PTD_ITEM_CBR,      /* .value: the core:bus ratio */
    PTD_ITEM_PTWRITE,  /* .value, .packet; .from if has_from */
    PTD_ITEM_VMCS,     /* .value: the VMCS pointer */
    PTD_ITEM_PSB,      /* a synchronisation point; .to if PSB+ has a FUP */
    PTD_ITEM_PACKET,   /* a packet that is no part of the flow: .packet; .from if has_from */
    /*
     * .error; .value bytes were lost, from .offset on. Behind them decoding goes on: at .to if
     * has_to, else at a PSB or as the next items say. .from if has_from: the instruction that could
     * not be walked over; for PTD_E_NOMAP, the address without code.
     */
    PTD_ITEM_ERROR,
};

struct ptd_rtit_packet;

/*
 * What happened next. The fields that each type fills are named above. An instruction that a FUP
 * names (a fault, INT n, the WRMSR that stops tracing) has not executed: it is in no block.
 * State (CR3, MODE, TSX, VMCS) follows the transfer that changes it and holds from its target on.
 * What a PSB+ says is status, which nothing has changed just now: .in_psb tells the two apart.
 *
 * A block's .to is where its last branch went: the target that was taken, or else the instruction
 * behind. Where a TIP.PGD told no address, and in RTIT, has_to is false.
 */
struct ptd_item {
    uint8_t type; /* enum ptd_item_type */
    bool has_from, has_to, nr;
    bool in_psb;     /* of the PSB itself, and of packets up to its PSBEND or OVF (33.3.7) */
    uint64_t offset; /* in the trace: of the packet, or of the next packet for a block */
    /*
     * In force (of a block: of its instructions), see ptd_space(). Where ptd_space_cr3() of it is
     * PTD_ANY_CR3, it is not known, and nor is .nr: behind a gap up to a PSB whose PSB+ has no PIP.
     */
    uint64_t cr3;
    uint64_t from, to, value;
    uint64_t cycles; /* RTIT only */
    int error;       /* enum ptd_error */
    /* PTD_ITEM_BLOCK */
    uint64_t ip;        /* first instruction */
    uint64_t last_ip;   /* last instruction */
    uint32_t insns;     /* how many; >= 1 */
    uint8_t mode;       /* enum ptd_mode */
    uint8_t last_class; /* enum ptd_insn_class of the last instruction */
    bool taken;         /* the last instruction is PTD_INSN_COND and was taken */
    uint8_t last_bytes; /* how long the last instruction is */
    union {
        struct ptd_packet packet;
        /* Of ptd_rtit_flow_next() only, and valid until it is called again; see ptdec_rtit.h. */
        const struct ptd_rtit_packet *rtit;
    };
};

/*
 * bytes and image must outlive the flow. NULL: no memory. config may be NULL: 64-bit, CR3 0.
 *
 * Code may change while it is traced (JIT, modules, patches). Add it to the image when an item
 * tells the time from which on it is there. What comes behind that item is decoded with the new
 * code. Of blocks told before, ptd_block_insn() would show the new code, too.
 */
struct ptd_flow *ptd_flow_new(const void *bytes, size_t len_bytes, const struct ptd_image *image,
                              const struct ptd_flow_config *config);
void ptd_flow_free(struct ptd_flow *flow);
/* The next item. PTD_OK or PTD_END. Errors of the trace are items of type PTD_ITEM_ERROR. */
int ptd_flow_next(struct ptd_flow *flow, struct ptd_item *item);
/*
 * The same, but returns 1 as soon as only the packet at an offset, or one behind it, can tell what
 * comes next. That is the time to change the image, if the time of that packet is known.
 */
int ptd_flow_next_before(struct ptd_flow *flow, uint64_t offset, struct ptd_item *item);

/*
 * The instructions of a block one by one: set *ip to item->ip, then call until it returns PTD_END.
 * PTD_OK and *insn, advancing *ip; PTD_END after the last; else an error of the image.
 */
int ptd_block_insn(const struct ptd_image *image, const struct ptd_item *block, uint64_t *ip,
                   struct ptd_insn *insn);

/* ---- Flow in bulk --------------------------------------------------------------------------- *
 * The same as ptd_flow_next() gives, many times as fast. Where a trace has nothing but TNTs and
 * TIPs, the flow is told in steps. A step is the code from where the last one ended up to the next
 * conditional branch, RET or indirect transfer: one or several blocks that direct jumps, calls and
 * the like connect. A step is a number. Bit 0 says that the conditional branch at its end was
 * taken. step >> 2 is the number of the code, which ptd_flow_insns() and ptd_step_block() take.
 */

#define PTD_RUN_ROOM 128u /* the least that struct ptd_run may have */

/* What becomes of TSC, TMA, MTC, CYC, CBR and MNT packets. */
enum ptd_timing {
    PTD_TIMING_ITEMS, /* each is an item */
    PTD_TIMING_NONE,  /* they are left out */
    PTD_TIMING_MARKS, /* each but MNT is a mark */
};

/* A timing packet among the steps: ptd_time_marks() says when it came about. */
struct ptd_mark {
    uint64_t offset; /* behind it */
    uint32_t step;   /* so many steps of the run came before it */
    uint32_t what;   /* private */
};

struct ptd_run {
    uint32_t *steps; /* the caller's */
    size_t room;     /* of it; thousands are best */
    uint8_t timing;  /* enum ptd_timing */
    /* For PTD_TIMING_MARKS: the caller's, and room for at least PTD_RUN_ROOM of them. */
    struct ptd_mark *marks;
    size_t mark_room;
    /* What ptd_flow_run() found: first these steps, then the item, if there is one. */
    size_t count;
    size_t mark_count; /* all in front of the item */
    bool has_item;
    bool nr;              /* of the steps, as in an item */
    struct ptd_item item; /* of any type, also PTD_ITEM_BLOCK */
    uint32_t epoch;       /* numbers of code stay the same as long as this does */
    uint64_t to;          /* if there are steps: the address that the last of them led to */
};

/*
 * Goes on until there is no more room or something other than a step comes. PTD_OK; PTD_END: there
 * is nothing more; PTD_E_NOMEM: it may be tried again; PTD_E_ARG: there is not enough room. Calls
 * may be mixed with those of ptd_flow_next(). The steps of one call belong to the address space
 * (CR3 and mode) of the run's items before.
 */
int ptd_flow_run(struct ptd_flow *flow, struct ptd_run *run);
/*
 * The same, but returns 1, without a step or an item, as soon as only the packet at an offset, or
 * one behind it, can tell what comes next: what ptd_flow_next_before() gives up to there was given.
 */
int ptd_flow_run_before(struct ptd_flow *flow, uint64_t offset, struct ptd_run *run);
/*
 * The blocks of a step, in order: index 0, 1, ... The item has what a PTD_ITEM_BLOCK has, except nr
 * and offset; and the target of a RET or indirect branch, where the next step begins. The step must
 * be of the last ptd_flow_run(), or of the same epoch. PTD_OK; PTD_END behind the last block;
 * PTD_E_ARG: no such step.
 */
int ptd_step_block(const struct ptd_flow *flow, uint32_t step, size_t index,
                   struct ptd_item *block);

/*
 * With .compounds of struct ptd_flow_config, a step can stand for several in a row: then bit 1 of
 * its number is set, and ptd_step_block() gives the blocks of all of them. These are the steps,
 * none a compound one; any other step stands for itself. How many, or PTD_E_ARG: no such step.
 */
#define PTD_STEP_COMPOUND 2u
#define PTD_STEP_EDGES    16u /* the most that a step stands for */
int ptd_step_edges(const struct ptd_flow *flow, uint32_t step, uint32_t edges[PTD_STEP_EDGES]);

/*
 * How many instructions each step has, to be looked up by step >> 2; 0: no step has this number.
 * *count elements (if count is not NULL), valid until the next ptd_flow_run(). NULL: there were no
 * steps yet.
 */
const uint32_t *ptd_flow_insns(const struct ptd_flow *flow, size_t *count);

/*
 * The caller's function that is given the flow, part by part in the order of the trace, and never
 * two parts at once. flow is for ptd_step_block() and ptd_flow_insns() only, and is valid, as run
 * is, until the function returns. 0: go on; else decoding ends with this result.
 */
typedef int (*ptd_run_fn)(void *context, const struct ptd_flow *flow, const struct ptd_run *run);

/*
 * Decodes a whole trace on several threads (1 to 256), each a part between two PSBs. What run is
 * given is exactly what ptd_flow_run() would give, on one of these threads. Memory does not grow
 * with the trace. config may be NULL. PTD_OK, what run returned, PTD_E_NOMEM or PTD_E_ARG.
 */
int ptd_flow_parallel(const void *bytes, size_t len_bytes, const struct ptd_image *image,
                      const struct ptd_flow_config *config, enum ptd_timing timing,
                      unsigned threads, ptd_run_fn run, void *context);

/* ---- A trace in shards ---------------------------------------------------------------------- *
 * Parts of a trace that several processes decode, each from a PSB on. The state in front of a part
 * is not known. It is assumed to be what a flow comes to that begins some PSBs before, and a
 * fingerprint says afterwards whether that was right.
 */

/* Begins anew at the PSB at an offset, with nothing known, and ends as ptd_flow_stop_at() says. */
void ptd_flow_begin_at(struct ptd_flow *flow, uint64_t offset, uint64_t stop);
/*
 * The flow ends (PTD_END) in front of the first PSB at stop or behind it. One that has ended in
 * front of a PSB before goes on there, and one that has ended with the trace ends again.
 */
void ptd_flow_stop_at(struct ptd_flow *flow, uint64_t stop);
/* Of a flow that has ended, where: the offset of a PSB, or of the end. */
uint64_t ptd_flow_ends_at(const struct ptd_flow *flow);
/* That place and the state there as a number: flows of one trace that have the same go on alike. */
uint64_t ptd_flow_fingerprint(const struct ptd_flow *flow);
/* The same of a clock: two that have the same tell the same of packets that follow. */
uint64_t ptd_time_fingerprint(const struct ptd_time *time);

/*
 * When marks came about: points[i] is what ptd_time_point() says behind the packet of marks[i]. All
 * marks of a trace have to be told, in order. packets is at first where time stands, usually at the
 * first packet (ptd_packets_sync()); it follows. What ran between two marks took place between the
 * earliest of the first and the latest of the second.
 */
void ptd_time_marks(struct ptd_time *time, struct ptd_packets *packets,
                    const struct ptd_mark *marks, size_t count, struct ptd_time_point *points);

/* ---- Index ---------------------------------------------------------------------------------- *
 * The PSBs of a trace. A part of it can be decoded from any of them. To know the state in front of
 * a part as well, begin at the PSB before, and leave out what comes before the part.
 */

/* A PSB, and what its PSB+ says (33.3.7). */
struct ptd_sync_point {
    uint64_t offset;
    bool has_tsc, has_cr3, nr, has_vmcs, has_mode;
    bool has_ip;      /* PacketEn is 1 */
    bool is_complete; /* its PSBEND is there */
    uint8_t mode;     /* enum ptd_mode */
    uint64_t tsc;     /* as in the packet: of a guest, with the VM's offset and multiplier */
    uint64_t cr3, vmcs, ip;
};

/* All of them, in order; *points is to be freed with free(). PTD_OK or PTD_E_NOMEM. */
int ptd_index(const void *bytes, size_t len_bytes, struct ptd_sync_point **points, size_t *count);
/* The last one at or in front of an offset; count: there is none. */
size_t ptd_index_at(const struct ptd_sync_point *points, size_t count, uint64_t offset);
/*
 * The last one in front of all that has tsc or a later time in its TSC packet; count: there is
 * none.
 */
size_t ptd_index_before(const struct ptd_sync_point *points, size_t count, uint64_t tsc);

/* ---- Streams -------------------------------------------------------------------------------- *
 * A trace that comes in pieces, from a pipe or out of a buffer that is still written to. Items and
 * times are those that ptd_flow_next() and ptd_time_point_ahead() give for the whole trace; memory
 * holds what was not told yet, at most some 100 MiB, whatever the length of the trace.
 */

/*
 * What a trace says of a place is looked for in so many bytes behind it, no further: the most that
 * lie between two PSBs (33.2.8.2, PSBFreq).
 */
#define PTD_LOOK_AHEAD_MAX (UINT64_C(64) << 20)

struct ptd_stream;

/*
 * image must outlive the stream. flow may be NULL, as for ptd_flow_new(); time NULL: no times.
 * NULL: no memory, or time is out of range.
 */
struct ptd_stream *ptd_stream_new(const struct ptd_image *image, const struct ptd_flow_config *flow,
                                  const struct ptd_time_config *time);
void ptd_stream_free(struct ptd_stream *stream);
/* Before anything is fed: the first byte has this offset in the trace. */
void ptd_stream_begin_at(struct ptd_stream *stream, uint64_t offset);
/*
 * The next bytes, which are copied. Best so many at a time that next() is called for each feed
 * until it returns PTD_MORE. PTD_OK; PTD_E_NOMEM; PTD_E_ARG: the end was told already.
 */
int ptd_stream_feed(struct ptd_stream *stream, const void *bytes, size_t len_bytes);
/* No more will come. */
void ptd_stream_end(struct ptd_stream *stream);
/*
 * The next item, as ptd_flow_next() gives it, and if point is not NULL its time: of the packet at
 * its offset, or of the last packet in front of a block's; before the first TSC packet, the time of
 * that (.tsc PTD_TIME_UNKNOWN: there is none near). PTD_OK; PTD_MORE: feed, or tell the end;
 * PTD_END.
 */
int ptd_stream_next(struct ptd_stream *stream, struct ptd_item *item, struct ptd_time_point *point);
/*
 * The same in steps, as ptd_flow_run() gives them. Of a stream with times, run->timing is
 * PTD_TIMING_ITEMS, and *point (if point is not NULL) the time of all steps of the run and of its
 * item, since no timing packet stands between them. After PTD_MORE, the same run has to be given
 * again, before ptd_stream_next() is called. PTD_OK, PTD_MORE, PTD_END; PTD_E_NOMEM and PTD_E_ARG
 * as of ptd_flow_run().
 */
int ptd_stream_run(struct ptd_stream *stream, struct ptd_run *run, struct ptd_time_point *point);
/* For ptd_step_block() and ptd_flow_insns(), of the steps of the last ptd_stream_run(). */
const struct ptd_flow *ptd_stream_flow(const struct ptd_stream *stream);

/* ---- Contexts ------------------------------------------------------------------------------ *
 * Who ran: NR and the VMCS pointer say which VM, CR3 says which process, the address says whether
 * it is the kernel (no packet tells CPL).
 */

struct ptd_contexts;

enum ptd_who { PTD_HOST_KERNEL, PTD_HOST_PROCESS, PTD_GUEST_KERNEL, PTD_GUEST_PROCESS };

struct ptd_context {
    uint8_t who;         /* enum ptd_who */
    unsigned vm;         /* its number; 0: the host; PTD_VM_UNKNOWN */
    uint64_t cr3;        /* without the number */
    const char *vm_name; /* NULL: the host, or no name was told */
    const char *process; /* that CR3 belongs to, in its kernel too; NULL: none was told */
    int64_t pid;         /* -1: not told */
};

/* VMs are made in image, which must outlive the object. NULL: no memory. */
struct ptd_contexts *ptd_contexts_new(struct ptd_image *image);
void ptd_contexts_free(struct ptd_contexts *contexts);
/*
 * A VM: its number, from 1. tsc_offset and tsc_multiplier as in struct ptd_time_vm.
 * PTD_E_NOMEM; PTD_E_ARG: a multiplier that is out of range, or too many VMs.
 */
int ptd_contexts_add_vm(struct ptd_contexts *contexts, const char *name, uint64_t tsc_offset,
                        uint64_t tsc_multiplier);
/* A VMCS pointer of one of its processors, not yet of another VM. PTD_OK, _NOMEM, _ARG. */
int ptd_contexts_add_vmcs(struct ptd_contexts *contexts, unsigned vm, uint64_t vmcs);
/* The same of a processor whose TSC differs otherwise than the VM's. PTD_E_ARG: the multiplier too.
 */
int ptd_contexts_add_vcpu(struct ptd_contexts *contexts, unsigned vm, uint64_t vmcs,
                          uint64_t tsc_offset, uint64_t tsc_multiplier);
/*
 * An address space of a process, of a VM or of the host (0); one process may have several. name may
 * be NULL, pid -1. The last one told for a CR3 counts. PTD_OK, PTD_E_NOMEM, PTD_E_ARG.
 */
int ptd_contexts_add_process(struct ptd_contexts *contexts, unsigned vm, uint64_t cr3,
                             const char *name, int64_t pid);
/* The lowest address of the kernel; else the upper half of 64-bit addresses. PTD_OK, PTD_E_ARG. */
int ptd_contexts_set_kernel(struct ptd_contexts *contexts, unsigned vm, uint64_t kernel_from);
/* Who runs at ip in an address space: .cr3 and .ip of a block, say. Valid until something is added.
 */
void ptd_contexts_find(const struct ptd_contexts *contexts, uint64_t space, uint64_t ip,
                       struct ptd_context *context);
/* For struct ptd_time_config; valid until something is added. */
const struct ptd_time_vm *ptd_contexts_time_vms(const struct ptd_contexts *contexts, size_t *count);

/* ---- Partition ------------------------------------------------------------------------------ *
 * Whose each part of a trace is, from PSB+, PIP, VMCS and CFE packets alone: no code is needed.
 * What lies between two PSBs decodes alone, so the segments in which a guest ran are all that has
 * to be decoded to follow it.
 */

/* Packets in a row with the same state. It changes at the packet that says so. */
struct ptd_part {
    uint64_t begin, end; /* offsets */
    uint64_t segment;    /* of the PSB in front; 0: none */
    uint64_t space;      /* if known: as ptd_image_space() of the rest */
    uint64_t vmcs, cr3;  /* vmcs PTD_ANY_VMCS: not told */
    bool nr;
    bool known; /* else nothing tells whose it is: no PSB+ yet, or bytes that are no packets */
};

/*
 * Calls part for each part in turn, as long as it returns PTD_OK. image may be NULL: .space is the
 * CR3. PTD_OK, or what part returned.
 */
int ptd_partition(const void *bytes, size_t len_bytes, const struct ptd_image *image,
                  int (*part)(void *owner, const struct ptd_part *part), void *owner);

struct ptd_range {
    uint64_t begin, end;
};

/*
 * The segments that hold a part that is wanted, those in a row as one: what to give to
 * ptd_flow_new() piece by piece.
 *
 * For decoding only, never for handing out. A segment is all that lies between two PSBs, and so it
 * holds packets of whoever else ran there: addresses, branches and address spaces of the host and
 * of other VMs. To cut out the parts themselves would not do either. A part does not begin with a
 * PSB, which alone says where its code goes on; a compressed RET in it may return to a CALL of a
 * part before; and bytes that are no packets belong to nobody for certain. Only who makes a trace
 * anew, packet by packet, can give a tenant its own; this library does not, and the program `vpt
 * demux` does.
 *
 * *ranges is to be freed with free(). How many, or PTD_E_NOMEM.
 */
int ptd_partition_select(const void *bytes, size_t len_bytes, const struct ptd_image *image,
                         bool (*wanted)(void *owner, const struct ptd_part *part), void *owner,
                         struct ptd_range **ranges);

#ifdef __cplusplus
}
#endif
#endif
