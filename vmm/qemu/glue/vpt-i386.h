/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Virtual Intel Processor Trace: what the rest of target/i386 calls.
 *
 * The rules of the specification live in libvpt (vpt.h); this directory only tells it what the
 * processor did, and lends it guest memory, clocks and the local APIC.
 */
#ifndef I386_VPT_H
#define I386_VPT_H

#include "qemu/units.h"
#include "cpu.h"
#include "libvpt/vpt.h"

/*
 * In hflags, so that code is translated with the hooks that it needs at the moment and no others.
 * X86CPU.vpt is there on every vCPU; nobody has to ask for it.
 */
#define HF_VPT_MASK (HF_VPT_TRIGGER_MASK | HF_VPT_BRANCH_MASK | HF_VPT_JUMP_MASK)

/* What VMX is asked. */
struct X86VptVmx {
    /* A capture begins; tells its model of VMX operation, and of a guest that runs. False: there is
     * none. */
    bool (*begin_amid)(CPUX86State *env, struct vpt_cpu *model);
    /* From guest-physical to physical; false: EPT does not allow the access. */
    bool (*by_ept)(CPUX86State *env, uint64_t *address, enum vpt_access access);
    /* Output waits for such an address (vpt_output_blocked()): before the next instruction, the
     * guest is to exit. */
    void (*output_waits)(CPUX86State *env);
};

struct X86Vpt {
    struct vpt_cpu guest;  /* what the guest sees and programs, if enabled */
    struct vpt_cpu *watch; /* of capture, or NULL */
    struct vpt_cpu full;   /* what is pinned, if translated code has to call for each branch */
    struct X86VptWatch *capture;
    X86CPU *cpu;
    bool enabled;
    bool in_init;     /* cpu_reset() is part of an INIT */
    bool asleep;      /* the models were told of HLT or MWAIT */
    bool smm_traceen; /* what SMRAM holds of TraceEn */
    bool looks_up;    /* blocks are not chained: each is looked up, for the code log */
    /* Where INIT or a reset found the vCPU. */
    uint64_t reset_ip;
    uint32_t
        shared_cflags; /* the vCPU's tcg_cflags, while it runs blocks of its own for that log */

    /* SVM: from the begin of a VMRUN to its entry, and what it began with. */
    bool vmrun;
    int vmrun_bytes;
    uint64_t vmrun_ip, vmrun_ip_guest;
    const struct X86VptVmx *vmx; /* NULL: the vCPU has none */
    /* A guest on KVM: TCG has the vCPU; env->tsc_offset makes KVM's TSC of TCG's. */
    bool in_tcg, tsc_known, held;
    uint64_t held_tsc;
    /* The same, traced by the host's Intel PT; while it is followed, the guest's TSC is told. */
    struct X86VptHost *host; /* NULL: it is not */
    bool has_told_tsc;
    uint64_t told_tsc;
    struct X86VptVms *vms;                     /* that the capture saw; NULL: there is none */
    uint64_t vm_tsc_offset, vm_tsc_multiplier; /* of the guest that runs or ran last */

    /* Migration: the bytes of vpt_save(). */
    uint32_t saved_bytes;
    uint8_t saved[VPT_SAVE_MAX_BYTES];
};

/* ---- cpu.c: the CPU model ---- */

/* Settles whether the vCPU has the feature, before the levels of CPUID are computed. */
void x86_vpt_expand_features(X86CPU *cpu, Error **errp);
/* After the rest of the CPU model is known. */
void x86_vpt_realize(X86CPU *cpu, Error **errp);
void x86_vpt_unrealize(X86CPU *cpu);
void x86_vpt_cpuid(X86CPU *cpu, uint32_t leaf, uint32_t subleaf, uint32_t *eax, uint32_t *ebx,
                   uint32_t *ecx, uint32_t *edx);
/* In front of the reset of its registers, and behind it. */
void x86_vpt_reset_begin(X86CPU *cpu);
void x86_vpt_reset(X86CPU *cpu);
extern const VMStateDescription vmstate_x86_vpt;
/* What this accelerator cannot do is not there, whatever the profile has. */
void x86_vpt_restrict_caps(X86CPU *cpu, struct vpt_caps *caps);

/* ---- msr.c ---- */

#define MSR_PLATFORM_INFO 0xce

enum x86_vpt_msr { X86_VPT_MSR_OTHER, X86_VPT_MSR_DONE, X86_VPT_MSR_GP };

enum x86_vpt_msr x86_vpt_rdmsr(CPUX86State *env, uint32_t msr, uint64_t *value);
/* env->eip is that of the WRMSR, env->vpt_next_eip that behind it. */
enum x86_vpt_msr x86_vpt_wrmsr(CPUX86State *env, uint32_t msr, uint64_t value);

/* ---- memory.c ---- */

extern const struct vpt_ops x86_vpt_ops;
/* TSC as RDTSC gives it to what the model sees run now, and the clocks behind it, which no TSC
 * offset moves. */
void x86_vpt_clocks(X86CPU *cpu, const struct vpt_cpu *model, struct vpt_clocks *now);
/* Eight bytes of physical memory become new if they are old; false: they are not. */
bool x86_vpt_exchange(CPUX86State *env, uint64_t address, uint64_t old, uint64_t new);

/* ---- events.c ---- */

/* The state that decides what is traced. */
void x86_vpt_context(CPUX86State *env, struct vpt_context *ctx);
/* hflags follow the models. */
void x86_vpt_sync(CPUX86State *env);
/* An interrupt or exception was delivered; ip: linear address of the EIP that it found. */
void x86_vpt_interrupt(CPUX86State *env, int vector, bool software, bool hardware, uint64_t ip);
/* INIT: around the reset that it does. SIPI, SMI and RSM: after it. */
void x86_vpt_init_begin(X86CPU *cpu);
void x86_vpt_init_end(X86CPU *cpu);
void x86_vpt_sipi(X86CPU *cpu);
/* Whether a SIPI would be taken. */
bool x86_vpt_waits_for_sipi(X86CPU *cpu);
void x86_vpt_smi(X86CPU *cpu, uint64_t ip);
void x86_vpt_rsm(X86CPU *cpu);
/* HLT or MWAIT of so many bytes, with EIP behind it. */
void x86_vpt_sleep(CPUX86State *env, bool mwait, int insn_bytes);
void x86_vpt_wake(struct X86Vpt *vpt);

/* ---- svm.c ---- */

/* VMRUN begins; its guest is about to run, before an event is injected; an exit from ip is done. */
void x86_vpt_vmrun(CPUX86State *env, int insn_bytes);
void x86_vpt_vm_entry(CPUX86State *env);
void x86_vpt_vm_exit(CPUX86State *env, uint64_t ip);
/* A reset or INIT leaves whatever VM there was. */
void x86_vpt_vm_reset(X86CPU *cpu);
/* A capture begins, maybe amid a VM. */
void x86_vpt_watch_begin_vm(CPUX86State *env, struct vpt_cpu *model);

/* ---- vms.c: the VMs that a capture saw ---- */

#define X86_VPT_VMCBS_MAX 16384 /* remembered of each vCPU: 4 MiB */

#define X86_VPT_TSC_MULTIPLIER_ONE (1ull << 48) /* it has 48 fractional bits, as a VMCS's */

struct X86VptVmcb {
    uint64_t vmcb, nested_cr3, tsc_offset, tsc_multiplier;
};

struct X86VptVms;
struct X86VptVms *x86_vpt_vms_new(void);
void x86_vpt_vms_free(struct X86VptVms *vms);
void x86_vpt_vms_saw(struct X86VptVms *vms, const struct X86VptVmcb *vmcb);
bool x86_vpt_vms_any(const struct X86VptVms *vms);
/* How many VMCBs gave way to others. */
uint64_t x86_vpt_vms_forgotten(const struct X86VptVms *vms);
/* Appends them as the list "vms" of a map file. */
void x86_vpt_vms_to_json(const struct X86VptVms *vms, GString *text);

/* ---- kvm.c ---- */

/* What a vCPU may have that now KVM executes and now TCG. */
uint64_t x86_vpt_common_features(FeatureWord word, uint64_t kvm, uint64_t tcg);
bool x86_vpt_realize_kvm(CPUState *cs, Error **errp);
/* Before anybody else than the vCPU's own instructions asks for its state. */
void x86_vpt_synchronize(X86CPU *cpu);
/* Tracing has begun while KVM had the vCPU. */
void x86_vpt_hold_time(X86CPU *cpu);
/* Called by the vCPU's thread, with the iothread's lock: TCG executes it, and left for some reason.
 * False: KVM is to. */
bool x86_vpt_exec(CPUState *cs, int *why);

/* ---- host-pt.c: a guest on KVM that the host's Intel PT traces ---- */

/* If that is wanted, takes out of *caps what such a guest cannot have. False: this host cannot. */
bool x86_vpt_host_limit(struct vpt_caps *caps, Error **errp);
/* For the vCPU's thread, which calls; done if it is not to be traced. */
bool x86_vpt_host_open(CPUState *cs, Error **errp);
void x86_vpt_host_close(CPUState *cs);
/* Around KVM_RUN, which has said run_ret, without the iothread's lock. */
void x86_vpt_host_begin(CPUState *cs);
void x86_vpt_host_end(CPUState *cs, int run_ret);
/* The vCPU stands where its own instructions have not led it. */
void x86_vpt_host_elsewhere(X86CPU *cpu);

/* ---- capture.c ---- */

void x86_vpt_capture_end(X86CPU *cpu);
/*
 * The vCPU was reset when it had come to ip: there the capture ends, as at INIT. It begins anew
 * where the vCPU goes on, be it behind the reset or in a state that was loaded since.
 */
void x86_vpt_watch_reset(X86CPU *cpu, uint64_t ip);
/* The cluster of vCPUs without blocks of their own. Those with lower numbers can have their own. */
#define X86_VPT_SHARED_CLUSTER 255
#ifdef CONFIG_TCG
/*
 * The vCPU is about to run a block that it looked up at pc, or that was just translated for it.
 * False: the block is not what stands in memory any more.
 */
bool x86_vpt_use_tb(CPUState *cs, TranslationBlock *tb, vaddr pc);
/* CR3 was loaded: addresses may lead elsewhere even where that flushes nothing (without paging). */
void x86_vpt_new_space(X86CPU *cpu);
#endif
/* The models were told of an interrupt, a far transfer or HLT: another task may run. */
void x86_vpt_look(X86CPU *cpu);
/* The machine is reset: another kernel will run. */
void x86_vpt_forget_kernel(X86CPU *cpu);

/* ---- hold.c ---- */

/* QEMU is about to end: waits, if somebody has asked for that. */
void x86_vpt_hold(void);

/* ---- file.c: what captures leave ---- */

struct VptFileList;
struct X86VptFile {
    char *name;
    int fd;
};

/*
 * Opens a file to write it from its beginning: the one of that name among those that were handed
 * over, if there are any; else by its name, for its owner alone. False: *file is empty.
 */
bool x86_vpt_file_open(struct X86VptFile *file, const char *name, const struct VptFileList *handed,
                       Error **errp);
/* What was open is now the caller's. */
struct X86VptFile x86_vpt_file_steal(struct X86VptFile *file);
/* These parts are all that is in it. */
bool x86_vpt_file_write(struct X86VptFile *file, const struct iovec *parts, size_t count,
                        Error **errp);
/* 0 or errno. *file is empty, which may be closed again. */
int x86_vpt_file_close(struct X86VptFile *file);

/* ---- ring.c: a capture that stays in memory, until it is saved ---- */

#define X86_VPT_RING_MIN (128 * KiB) /* twice from one PSB to the next */
#define X86_VPT_RING_MAX (1 * GiB)

struct X86VptRing;
struct X86VptRing *x86_vpt_ring_new(uint64_t size, Error **errp);
void x86_vpt_ring_free(struct X86VptRing *ring);
uint64_t x86_vpt_ring_size(const struct X86VptRing *ring);
void x86_vpt_ring_write(struct X86VptRing *ring, const uint8_t *bytes, size_t len);
/* A whole record of code.c; a line of names.c. */
void x86_vpt_ring_add_code(struct X86VptRing *ring, const uint8_t *record, size_t len);
void x86_vpt_ring_add_names(struct X86VptRing *ring, const char *line, size_t len);
/* Whether it is time to turn: from there on, all code and all names have to be told anew. */
bool x86_vpt_ring_is_due(const struct X86VptRing *ring);
void x86_vpt_ring_turn(struct X86VptRing *ring);
/* What comes later is dropped. */
void x86_vpt_ring_close(struct X86VptRing *ring);
/* Writes the packets to one file, and what they need of code and names to others, if there are any.
 */
bool x86_vpt_ring_save(struct X86VptRing *ring, struct X86VptFile *trace, struct X86VptFile *code,
                       struct X86VptFile *names, Error **errp);

/* The first line of a log of names, but for where its trace begins, and "}". */
#define X86_VPT_NAMES_HEAD "{\"vpt-names\":1,\"begin\":"

/* ---- code.c: the code that a captured vCPU ran (docs/trace-files.md) ---- */

#define X86_VPT_CODE_MAGIC "vptcode1"
#define X86_VPT_PLACES_MAX (1 << 18) /* remembered of each vCPU: 20 MiB */
#define X86_VPT_PAGES_MAX  (1 << 15) /* 148 MiB */

struct X86VptCode;
/* Takes the descriptor, unless it returns NULL. */
struct X86VptCode *x86_vpt_code_new(struct X86VptFile *to, Error **errp);
struct X86VptCode *x86_vpt_code_in_ring(struct X86VptRing *ring);
/* Errno: the file could not be written to its end. */
int x86_vpt_code_free(struct X86VptCode *code);
/* Where in the trace the vCPU is; settle(): and that all it did so far lies before that. */
struct X86VptTrace {
    uint64_t (*offset)(void *owner);
    uint64_t (*settle)(void *owner);
    void *owner;
};
/* The bytes at pc that the block was made of. What was told otherwise is told anew. */
void x86_vpt_code_block(struct X86VptCode *code, TranslationBlock *tb, uint64_t cr3, uint64_t pc,
                        const struct X86VptTrace *trace);
/* All is told anew. */
void x86_vpt_code_forget(struct X86VptCode *code);
/* No more can be remembered: it is to be forgotten, and that is counted. */
bool x86_vpt_code_is_full(const struct X86VptCode *code);
void x86_vpt_code_forget_full(struct X86VptCode *code);
uint64_t x86_vpt_code_forgotten(const struct X86VptCode *code);
/* Errno of the first write that failed. */
int x86_vpt_code_error(const struct X86VptCode *code);
/* Adds the records to the log of a trace that begins there. */
void x86_vpt_code_copy(GByteArray *log, const GByteArray *records, uint64_t begin);

/* ---- writer.c: a file written by a thread of its own ---- */

/* So many bytes the file may be behind before the vCPU waits. */
#define X86_VPT_WRITER_BYTES (16u << 20)

struct X86VptWriter;
/* Takes what is open. */
struct X86VptWriter *x86_vpt_writer_new(struct X86VptFile *file);
/* Waits while the file is too slow. By one thread at a time. */
void x86_vpt_write(struct X86VptWriter *writer, const uint8_t *bytes, size_t len);
/* Errno: something could not be written; it was told on stderr, and nothing more is written. */
int x86_vpt_write_error(const struct X86VptWriter *writer);
/* All is written, and the file closed; what comes later is dropped. Errno: it failed, now or then.
 */
int x86_vpt_writer_end(struct X86VptWriter *writer);
/* Ends it, if need be. */
void x86_vpt_writer_free(struct X86VptWriter *writer);

static inline uint64_t x86_vpt_linear(CPUX86State *env)
{
    const uint64_t ip = env->segs[R_CS].base + env->eip;

    return env->hflags & HF_CS64_MASK ? ip : (uint32_t)ip;
}

#endif
