/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The small VMM: one virtual machine with its vCPUs on <linux/kvm.h>, and its parts.
 *
 * Functions that can fail return 0 or -errno and leave one line in vmm->result->why.
 */
#ifndef VMM_KVM_H
#define VMM_KVM_H

#include "run/run.h"
#include "ptdec.h"
#include "vpt.h"

#include <linux/kvm.h>
#include <time.h>

#define APIC_BASE  0xfee00000ull
#define PAGE_BYTES 4096ull

/* ---- apic.c: a local APIC in xAPIC mode (docs/guests.md) ---- */

struct apic {
    uint32_t regs[64]; /* by offset / 16 */
    uint64_t irr[4], isr[4];
    bool nmi_pending, init_pending, sipi_pending;
    uint8_t sipi_vector;
    uint64_t timer_deadline; /* in ticks of the clock the owner gives; 0: not armed */
    uint64_t timer_period;
};

/* As after power-up; id: the APIC ID. */
void apic_reset(struct apic *apic, uint8_t id);
/* A 32-bit register. now: the timer's clock. */
uint32_t apic_read(const struct apic *apic, uint32_t offset, uint64_t now);
void apic_write(struct apic *apic, uint32_t offset, uint32_t value, uint64_t now);
/*
 * A write of ICR sent an IPI: apic accepts it if it is for it. True: it was, and an IPI of lowest
 * priority has found its one processor.
 */
bool apic_receive(struct apic *apic, const struct apic *from);
/* Time passed: raises the timer's interrupt if it is due. */
void apic_tick(struct apic *apic, uint64_t now);
/* The performance-monitoring interrupt through LVTPC; its mask bit is set on delivery. */
void apic_pmi(struct apic *apic);
/* Whether a write of this register sends an IPI. */
bool apic_sends(uint32_t offset);
/* The highest-priority vector that may be delivered now, or -1. */
int apic_pending(const struct apic *apic);
/* That vector is being delivered. */
void apic_accept(struct apic *apic, int vector);
/* The clock changes its meaning: pending deadlines keep their distance from now. */
void apic_rebase(struct apic *apic, uint64_t old_now, uint64_t new_now);

/* ---- The machine ---- */

struct vmm;

/* One processor of the machine. All of them are run by one thread, in turn (run.c). */
struct vcpu {
    struct vmm *vmm;
    struct cpu_result *record;
    unsigned index; /* and the APIC ID */
    int fd;
    struct kvm_run *run;
    size_t run_bytes;
    struct vpt_cpu model;
    struct vpt_rtit rtit; /* if the profile has RTIT instead of PT */
    struct apic apic;
    bool debugging;     /* KVM was told to single-step */
    bool in_handler;    /* the registers are not KVM's, which has the guest in its #DB handler */
    bool halted;        /* HLT, until an interrupt */
    bool wait_for_sipi; /* INIT came, or power-up of an application processor */
    uint64_t path_cr3;
    uint64_t msr_star, msr_lstar, msr_fmask; /* as read when stepping began */
};

struct vmm {
    const struct run_options *options;
    struct run_result *result;
    int kvm_fd, vm_fd;
    uint8_t *ram;
    uint64_t ram_bytes, entry;
    uint8_t *present; /* of each page of options->absent_*; NULL: all memory is */
    bool has_absent_slot;
    struct vcpu cpus[MAX_CPUS];
    unsigned cpu_count;
    unsigned turn;     /* whose turn it is (run.c) */
    uint64_t turn_end; /* in steps */
    uint64_t steps;    /* instructions stepped on all of them; the APICs' clock while stepping */
    bool stepping;     /* all of them: somebody is tracing */
    bool ended;        /* the guest wrote the exit port */
    struct timespec start;
    timer_t kick_timer;
    unsigned steps_per_s; /* what the guest is told of the source of events */
};

/* Guest-physical memory of len bytes at gpa, present or not; NULL if it is not all RAM. */
void *vmm_ram(const struct vmm *vmm, uint64_t gpa, uint64_t len);
/* Writes the line into result->why and returns error. */
int vmm_fail(struct vmm *vmm, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
uint64_t vmm_apic_now(const struct vmm *vmm);

/* Registers of the last exit, in the run structure (KVM_CAP_SYNC_REGS); mark what was changed. */
static inline struct kvm_regs *vcpu_regs(struct vcpu *cpu)
{
    return &cpu->run->s.regs.regs;
}
static inline struct kvm_sregs *vcpu_sregs(struct vcpu *cpu)
{
    return &cpu->run->s.regs.sregs;
}
static inline struct kvm_vcpu_events *vcpu_events(struct vcpu *cpu)
{
    return &cpu->run->s.regs.events;
}
static inline void vcpu_dirty(struct vcpu *cpu, uint64_t what)
{
    cpu->run->kvm_dirty_regs |= what;
}
static inline unsigned vcpu_cpl(struct vcpu *cpu)
{
    return vcpu_sregs(cpu)->ss.dpl;
}
/* Whether an interrupt or NMI is to be taken now. */
bool vcpu_interrupt_due(struct vcpu *cpu);
/* TriggerEn, of PT or of RTIT. */
static inline bool vcpu_trigger_en(const struct vcpu *cpu)
{
    return cpu->model.caps.rtit ? vpt_rtit_trigger_en(&cpu->rtit) : vpt_trigger_en(&cpu->model);
}
static inline bool vcpu_packet_en(const struct vcpu *cpu)
{
    return cpu->model.caps.rtit ? vpt_rtit_packet_en(&cpu->rtit) : vpt_packet_en(&cpu->model);
}

/* ---- memory.c: guest memory, present or absent ---- */

int memory_create(struct vmm *vmm);
void memory_destroy(struct vmm *vmm);
/* Whether trace output to gpa meets an EPT violation. */
bool memory_is_absent(const struct vmm *vmm, uint64_t gpa);
/* The absent page at gpa becomes present for a processor's output. */
void memory_populate_page(struct vcpu *cpu, uint64_t gpa);
/* An access of a vCPU to memory that KVM does not have; false: it is none of ours. */
bool memory_access(struct vmm *vmm, uint64_t gpa, uint8_t *data, uint32_t len, bool write);
/* Makes present what the model's output waits for; it goes on. */
void memory_resolve_output(struct vcpu *cpu);

/* ---- start.c: INIT and start-up IPIs ---- */

/* An application processor at power-up. 0 or -errno. */
int start_wait(struct vcpu *cpu);
/* INIT and SIPI that the APIC has accepted. 0 or -errno. */
int start_signals(struct vcpu *cpu);

/* ---- machine.c: creation, KVM_RUN, exits ---- */

int machine_create(struct vmm *vmm, const struct vpt_caps *caps);
void machine_destroy(struct vmm *vmm);
/* One KVM_RUN. 0, -EINTR (kicked), or another error. */
int machine_enter(struct vcpu *cpu);
/*
 * Carries out the exit that KVM_RUN gave. While stepping, and when tracing begins or ends, KVM also
 * finishes the instruction, so that RIP stands behind it. 0 or -errno; *gp: an MSR access raises
 * #GP.
 */
int machine_handle_exit(struct vcpu *cpu, bool *gp);
/* Runs one instruction, or up to its exit. 0, -EINTR (kicked behind it), or another error. */
int machine_step(struct vcpu *cpu);
/* KVM finishes the instruction that exited, and runs nothing more. 0 or -errno. */
int machine_complete(struct vcpu *cpu);
/* KVM_SET_GUEST_DEBUG, unless it is so already. 0 or -errno. */
int machine_debug(struct vcpu *cpu, bool step);
/* Hands changed registers to KVM at once. 0 or -errno. */
int machine_push(struct vcpu *cpu);
int machine_get_msr(struct vcpu *cpu, uint32_t msr, uint64_t *value);
int machine_set_msr(struct vcpu *cpu, uint32_t msr, uint64_t value);

/* ---- migrate.c: a guest that traces goes on in another process (docs/migration.md) ---- */

/* Between two steps: writes everything to options->save_to. 0 or -errno. */
int migrate_out(struct vmm *vmm);
/* Into a machine that was just created. 0 or -errno. */
int migrate_in(struct vmm *vmm);

/* ---- run.c: the kick that makes KVM_RUN return every millisecond ---- */

int kicks_start(struct vmm *vmm);
void kicks_stop(struct vmm *vmm);
/* Kicks are for this vCPU from now on. */
void kick_next(struct kvm_run *run);

/* ---- boot.c: image and entry state (docs/guests.md) ---- */

int boot_load(struct vmm *vmm);
int boot_enter(struct vmm *vmm);
int boot_cpuid(struct vcpu *cpu, const struct vpt_caps *caps);

/* ---- walk.c: the guest's page tables ---- */

enum walk_access { WALK_READ = 0, WALK_WRITE = 2, WALK_FETCH = 16 };

/*
 * Translates a linear address in 64-bit mode as the processor would for this access at this
 * privilege. True: *gpa. False: *error_code is that of the page fault.
 */
bool walk(struct vcpu *cpu, uint64_t linear, enum walk_access access, unsigned cpl, uint64_t *gpa,
          uint32_t *error_code);
/* Whether the address is canonical with as many levels of paging as there are. */
bool linear_is_canonical(struct vcpu *cpu, uint64_t linear);
/* Copies as a supervisor would read or write; false at the first byte that cannot be. */
bool linear_read(struct vcpu *cpu, uint64_t linear, void *data, size_t len);
bool linear_write(struct vcpu *cpu, uint64_t linear, const void *data, size_t len);

#define MAX_INSN_BYTES 15

/* The instruction at ip, in 64-bit mode, and its bytes. False: it cannot be read, or is none. */
bool insn_at(struct vcpu *cpu, uint64_t ip, uint8_t code[MAX_INSN_BYTES], struct ptd_insn *insn);

/* ---- transfer.c: transfers of control that single-stepping cannot follow ---- */

/*
 * Delivers an interrupt or exception through the IDT: pushes the frame and enters the handler, as
 * the processor would (64-bit mode). error_code < 0: none is pushed. 0 or -errno.
 */
int deliver(struct vcpu *cpu, unsigned vector, int64_t error_code, bool software);
/* The handler of a vector; false: there is no usable gate. */
bool idt_handler(struct vcpu *cpu, unsigned vector, uint64_t *handler);
int do_iret(struct vcpu *cpu);
/* False: it raises #GP. Some processors do not step between STI and the instruction after it. */
bool do_sti(struct vcpu *cpu, uint64_t next_ip);
/* Goes on behind an instruction that does nothing else to registers. */
void do_nop(struct vcpu *cpu, uint64_t next_ip);
void do_syscall(struct vcpu *cpu, uint64_t next_ip);
void do_sysret(struct vcpu *cpu);

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
uint64_t effective_address(struct vcpu *cpu, const struct memop *op);
/* True: executing now would fault; *address and *error_code say how. */
bool predict_page_fault(struct vcpu *cpu, const struct memops *ops, uint64_t *address,
                        uint32_t *error_code);

/* ---- condition.c ---- */

/* Whether the Jcc, LOOPcc or JRCXZ whose bytes are code was taken; regs are those behind it. */
bool condition_held(const struct kvm_regs *regs, const uint8_t *code, unsigned len_bytes);

/* ---- ptwrite.c: PTWRITE ---- */

/* Carries out the PTWRITE at RIP and tells the model. False: it is #UD here. */
bool do_ptwrite(struct vcpu *cpu, const uint8_t *code, size_t len, const struct memops *ops);

/* ---- user_step.c: stepping user mode by way of the guest's #DB handler ---- */

/*
 * Runs one instruction of user code. *vector is that of an exception whose handler is about to run,
 * or -1. 0 or -errno.
 */
int step_user_by_handler(struct vcpu *cpu, unsigned other_vector, int *vector);
/* Before anything else than that runs the guest: the registers of user mode become KVM's. */
void user_step_leave(struct vcpu *cpu);

/* Whether the instruction accesses any of len bytes at address. */
bool memops_touch(struct vcpu *cpu, const struct memops *ops, uint64_t address, uint64_t len);

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
void watch_begin(struct vcpu *cpu, bool debug, unsigned other_vector, struct watch *watch);
/* The exception whose handler is about to run; -1: none. */
int watch_end(struct vcpu *cpu, const struct watch *watch);

/* ---- step.c: single-step as the source of events ---- */

/* All processors, when the first of them begins to trace. */
void step_begin(struct vmm *vmm);
/* The same for a guest that was being stepped already, in another process. */
void step_resume(struct vmm *vmm);
/* An instruction, or the delivery of an interrupt, on this processor, which is not asleep. */
int step(struct vcpu *cpu);
void step_end(struct vmm *vmm);
/* The state that decides what is traced, as of the last exit. */
void step_context(struct vcpu *cpu, struct vpt_context *ctx);

/* ---- rtit.c: RTIT, where the profile has it ---- */

/* errata: VPT_RTIT_E1 and so on. 0 or -errno. */
int rtit_create(struct vcpu *cpu, uint32_t errata, const struct vpt_ops *ops);
enum vpt_result rtit_wrmsr(struct vcpu *cpu, uint32_t msr, uint64_t value, uint64_t next_ip);
/* An instruction retired. */
void rtit_tell(struct vcpu *cpu, const struct ptd_insn *insn);
/* A far transfer by the instruction at ip, or an event in front of it, led to RIP. */
void rtit_tell_transfer(struct vcpu *cpu, enum vpt_transfer_type type, uint64_t ip);
/* The processor slept. */
void rtit_woke(struct vcpu *cpu);
/* The run ends: what is buffered goes to memory. */
void rtit_end(struct vcpu *cpu);

/* ---- notes.c: the vpt port ---- */

#define NOTE_MAGIC 0x30545056u
void note_received(struct vcpu *cpu, uint32_t gpa);

#endif
