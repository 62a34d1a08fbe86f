/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The small VMM: one virtual machine with one vCPU on <linux/kvm.h>, and its parts.
 *
 * Functions that can fail return 0 or -errno and leave one line in vmm->result->why.
 */
#ifndef VMM_KVM_H
#define VMM_KVM_H

#include "../vmm.h"

#include <linux/kvm.h>
#include <time.h>

#define APIC_BASE  0xfee00000ull
#define PAGE_BYTES 4096ull

/* ---- apic.c: a local APIC in xAPIC mode (docs/guests.md) ---- */

struct apic {
    uint32_t regs[64]; /* by offset / 16 */
    uint64_t irr[4], isr[4];
    bool nmi_pending;
    uint64_t timer_deadline; /* in ticks of the clock the owner gives; 0: not armed */
    uint64_t timer_period;
};

void apic_reset(struct apic *apic);
/* A 32-bit register. now: the timer's clock. */
uint32_t apic_read(const struct apic *apic, uint32_t offset, uint64_t now);
void apic_write(struct apic *apic, uint32_t offset, uint32_t value, uint64_t now);
/* Time passed: raises the timer's interrupt if it is due. */
void apic_tick(struct apic *apic, uint64_t now);
/* The performance-monitoring interrupt through LVTPC; its mask bit is set on delivery. */
void apic_pmi(struct apic *apic);
/* The highest-priority vector that may be delivered now, or -1. */
int apic_pending(const struct apic *apic);
/* That vector is being delivered. */
void apic_accept(struct apic *apic, int vector);
/* The clock changes its meaning: pending deadlines keep their distance from now. */
void apic_rebase(struct apic *apic, uint64_t old_now, uint64_t new_now);

/* ---- The machine ---- */

struct vmm {
    const struct run_options *options;
    struct run_result *result;
    int kvm_fd, vm_fd, vcpu_fd;
    struct kvm_run *run;
    size_t run_bytes;
    uint8_t *ram;
    uint64_t ram_bytes, entry;
    struct vpt_cpu model;
    struct vpt_rtit rtit; /* if the profile has RTIT instead of PT */
    struct apic apic;
    uint64_t steps; /* instructions stepped; the APIC's clock while stepping */
    bool stepping;
    bool debugging;  /* KVM was told to single-step */
    bool in_handler; /* the registers are not KVM's, which has the guest in its #DB handler */
    bool halted;     /* HLT, until an interrupt */
    bool ended;      /* the guest wrote the exit port */
    uint64_t path_cr3;
    struct timespec start;
    timer_t kick_timer;
    uint64_t msr_star, msr_lstar, msr_fmask; /* as read when stepping began */
    unsigned steps_per_s;                    /* what the guest is told of the source of events */
};

/* Guest-physical memory of len bytes at gpa, or NULL if it is not all RAM. */
void *vmm_ram(const struct vmm *vmm, uint64_t gpa, uint64_t len);
/* Writes the line into result->why and returns error. */
int vmm_fail(struct vmm *vmm, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
uint64_t vmm_apic_now(const struct vmm *vmm);

/* Registers of the last exit, in the run structure (KVM_CAP_SYNC_REGS); mark what was changed. */
static inline struct kvm_regs *vmm_regs(struct vmm *vmm)
{
    return &vmm->run->s.regs.regs;
}
static inline struct kvm_sregs *vmm_sregs(struct vmm *vmm)
{
    return &vmm->run->s.regs.sregs;
}
static inline struct kvm_vcpu_events *vmm_events(struct vmm *vmm)
{
    return &vmm->run->s.regs.events;
}
static inline void vmm_dirty(struct vmm *vmm, uint64_t what)
{
    vmm->run->kvm_dirty_regs |= what;
}
static inline unsigned vmm_cpl(struct vmm *vmm)
{
    return vmm_sregs(vmm)->ss.dpl;
}
/* TriggerEn, of PT or of RTIT. */
static inline bool vmm_trigger_en(const struct vmm *vmm)
{
    return vmm->model.caps.rtit ? vpt_rtit_trigger_en(&vmm->rtit) : vpt_trigger_en(&vmm->model);
}
static inline bool vmm_packet_en(const struct vmm *vmm)
{
    return vmm->model.caps.rtit ? vpt_rtit_packet_en(&vmm->rtit) : vpt_packet_en(&vmm->model);
}

/* ---- machine.c: creation, KVM_RUN, exits ---- */

int machine_create(struct vmm *vmm, const struct vpt_caps *caps);
void machine_destroy(struct vmm *vmm);
/* One KVM_RUN. 0, -EINTR (kicked), or another error. */
int machine_enter(struct vmm *vmm);
/*
 * Carries out the exit that KVM_RUN gave. While stepping, and when tracing begins or ends, KVM also
 * finishes the instruction, so that RIP stands behind it. 0 or -errno; *gp: an MSR access raises
 * #GP.
 */
int machine_handle_exit(struct vmm *vmm, bool *gp);
/* Runs one instruction, or up to its exit. 0, -EINTR (kicked behind it), or another error. */
int machine_step(struct vmm *vmm);
/* KVM finishes the instruction that exited, and runs nothing more. 0 or -errno. */
int machine_complete(struct vmm *vmm);
/* KVM_SET_GUEST_DEBUG, unless it is so already. 0 or -errno. */
int machine_debug(struct vmm *vmm, bool step);
/* Hands changed registers to KVM at once. 0 or -errno. */
int machine_push(struct vmm *vmm);
int machine_get_msr(struct vmm *vmm, uint32_t msr, uint64_t *value);
int machine_set_msr(struct vmm *vmm, uint32_t msr, uint64_t value);

/* ---- migrate.c: a guest that traces goes on in another process (docs/migration.md) ---- */

/* Between two steps: writes everything to options->save_to. 0 or -errno. */
int migrate_out(struct vmm *vmm);
/* Into a machine that was just created. 0 or -errno. */
int migrate_in(struct vmm *vmm);

/* ---- run.c: the kick that makes KVM_RUN return every millisecond ---- */

int kicks_start(struct vmm *vmm);
void kicks_stop(struct vmm *vmm);

/* ---- boot.c: image and entry state (docs/guests.md) ---- */

int boot_load(struct vmm *vmm);
int boot_enter(struct vmm *vmm);
int boot_cpuid(struct vmm *vmm, const struct vpt_caps *caps);

/* ---- walk.c: the guest's page tables ---- */

enum walk_access { WALK_READ = 0, WALK_WRITE = 2, WALK_FETCH = 16 };

/*
 * Translates a linear address in 64-bit mode as the processor would for this access at this
 * privilege. True: *gpa. False: *error_code is that of the page fault.
 */
bool walk(struct vmm *vmm, uint64_t linear, enum walk_access access, unsigned cpl, uint64_t *gpa,
          uint32_t *error_code);
/* Copies as a supervisor would read or write; false at the first byte that cannot be. */
bool linear_read(struct vmm *vmm, uint64_t linear, void *data, size_t len);
bool linear_write(struct vmm *vmm, uint64_t linear, const void *data, size_t len);

/* ---- transfer.c: transfers of control that single-stepping cannot follow ---- */

/*
 * Delivers an interrupt or exception through the IDT: pushes the frame and enters the handler, as
 * the processor would (64-bit mode). error_code < 0: none is pushed. 0 or -errno.
 */
int deliver(struct vmm *vmm, unsigned vector, int64_t error_code, bool software);
/* The handler of a vector; false: there is no usable gate. */
bool idt_handler(struct vmm *vmm, unsigned vector, uint64_t *handler);
int do_iret(struct vmm *vmm);
/* False: it raises #GP. Some processors do not step between STI and the instruction after it. */
bool do_sti(struct vmm *vmm, uint64_t next_ip);
void do_syscall(struct vmm *vmm, uint64_t next_ip);
void do_sysret(struct vmm *vmm);

/* ---- predict.c: page faults before they happen ---- */

#define MAX_MEMOPS 4

/* What an instruction does to memory, so far as it can be told from its bytes. */
struct memops {
    unsigned count;
    bool rep;             /* nothing is accessed when RCX is 0 */
    uint8_t other_vector; /* what it may raise besides #UD, #GP and #PF */
    struct memop {
        int16_t base, index;    /* number of a general register, MEMOP_NONE or MEMOP_RIP */
        uint8_t scale, segment; /* segment: 0, or 'f' or 'g' */
        bool read, write, address32;
        uint32_t size_bytes;
        int64_t disp; /* of RIP-relative operands: to the instruction's own address */
    } op[MAX_MEMOPS];
};
#define MEMOP_NONE (-1)
#define MEMOP_RIP  (-2)

/* False: not an instruction. */
bool memops_decode(const uint8_t *code, size_t len, struct memops *ops);
/* By its number; MEMOP_RIP: RIP. */
uint64_t general_register(const struct kvm_regs *regs, int16_t number);
uint64_t effective_address(struct vmm *vmm, const struct memop *op);
/* True: executing now would fault; *address and *error_code say how. */
bool predict_page_fault(struct vmm *vmm, const struct memops *ops, uint64_t *address,
                        uint32_t *error_code);

/* ---- condition.c ---- */

/* Whether the Jcc, LOOPcc or JRCXZ whose bytes are code was taken; regs are those behind it. */
bool condition_held(const struct kvm_regs *regs, const uint8_t *code, unsigned len_bytes);

/* ---- ptwrite.c: PTWRITE ---- */

/* Carries out the PTWRITE at RIP and tells the model. False: it is #UD here. */
bool do_ptwrite(struct vmm *vmm, const uint8_t *code, size_t len, const struct memops *ops);

/* ---- user_step.c: stepping user mode by way of the guest's #DB handler ---- */

/*
 * Runs one instruction of user code. *vector is that of an exception whose handler is about to run,
 * or -1. 0 or -errno.
 */
int step_user_by_handler(struct vmm *vmm, unsigned other_vector, int *vector);
/* Before anything else than that runs the guest: the registers of user mode become KVM's. */
void user_step_leave(struct vmm *vmm);

/* Whether the instruction accesses any of len bytes at address. */
bool memops_touch(struct vmm *vmm, const struct memops *ops, uint64_t address, uint64_t len);

/* ---- watch.c: exceptions that nobody foresaw ---- */

struct watch {
    uint64_t ip;
    unsigned count;
    struct watched {
        uint64_t address;
        uint8_t *byte, saved, vector;
    } handlers[4];
};

/*
 * Watches the handlers that the instruction at RIP may lead to: of #DB (or else #PF), #GP, #UD and
 * one other. Every watch_begin() needs its watch_end().
 */
void watch_begin(struct vmm *vmm, bool debug, unsigned other_vector, struct watch *watch);
/* The exception whose handler is about to run; -1: none. */
int watch_end(struct vmm *vmm, const struct watch *watch);

/* ---- step.c: single-step as the source of events ---- */

void step_begin(struct vmm *vmm);
/* The same for a guest that was being stepped already, in another process. */
void step_resume(struct vmm *vmm);
int step(struct vmm *vmm);
void step_end(struct vmm *vmm);
/* The state that decides what is traced, as of the last exit. */
void step_context(struct vmm *vmm, struct vpt_context *ctx);

/* ---- rtit.c: RTIT, where the profile has it ---- */

/* errata: VPT_RTIT_E1 and so on. 0 or -errno. */
int rtit_create(struct vmm *vmm, uint32_t errata, const struct vpt_ops *ops);
enum vpt_result rtit_wrmsr(struct vmm *vmm, uint32_t msr, uint64_t value, uint64_t next_ip);
/* An instruction retired. */
void rtit_tell(struct vmm *vmm, const struct ptd_insn *insn);
/* A far transfer by the instruction at ip, or an event in front of it, led to RIP. */
void rtit_tell_transfer(struct vmm *vmm, enum vpt_transfer_type type, uint64_t ip);
/* The processor slept. */
void rtit_woke(struct vmm *vmm);
/* The run ends: what is buffered goes to memory. */
void rtit_end(struct vmm *vmm);

/* ---- notes.c: the vpt port ---- */

#define NOTE_MAGIC 0x30545056u
void note_received(struct vmm *vmm, uint32_t gpa);

#endif
