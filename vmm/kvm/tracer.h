/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What traces a vCPU: PT, or RTIT where the profile has it. Everybody else tells the tracer what
 * the processor did and need not know which of them listens.
 */
#ifndef VMM_KVM_TRACER_H
#define VMM_KVM_TRACER_H

#include "ptdec.h"
#include "vpt.h"
#include "vpt_rtit.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vcpu;

struct tracer {
    struct vpt_cpu pt;    /* with RTIT, too, it has the capabilities and the MSRs besides RTIT's */
    struct vpt_rtit rtit; /* zeros without RTIT */
    /* While events of the past are told: when they took place. */
    bool has_told_tsc;
    uint64_t told_tsc, told_adjust;
};

/* 0 or -errno. */
int tracer_create(struct vcpu *cpu, const struct vpt_caps *caps);
/*
 * The clocks of a guest whose RDTSC gives tsc. A guest that writes its TSC moves IA32_TSC_ADJUST
 * with it, and nothing else: crystal clock and core clock run on (33.8.3.1).
 */
void tracer_clocks(const struct vpt_caps *caps, uint64_t tsc, uint64_t tsc_adjust,
                   struct vpt_clocks *out);
/* What the processor has; who makes its CPUID may lessen the widths of addresses. */
struct vpt_caps *tracer_caps(struct vcpu *cpu);

bool tracer_trigger_en(const struct tracer *tracer);
bool tracer_packet_en(const struct tracer *tracer);

/* An MSR that the filter keeps from KVM, accessed by the instruction at ip. */
enum vpt_result tracer_rdmsr(struct vcpu *cpu, uint32_t msr, uint64_t *value);
enum vpt_result tracer_wrmsr(struct vcpu *cpu, uint32_t msr, uint64_t value, uint64_t ip,
                             uint64_t next_ip);

/* An instruction retired, whose bytes are code. The registers are those behind it. */
void tracer_insn(struct vcpu *cpu, const struct ptd_insn *insn, const uint8_t *code);
/*
 * Whether an instruction that began while PacketEn was 1, and has retired, belongs to the executed
 * path.
 */
bool tracer_counts(const struct tracer *tracer);
/* A far transfer by the instruction at ip, or an event in front of it, led to RIP. */
void tracer_transfer(struct vcpu *cpu, enum vpt_transfer_type type, unsigned vector, uint64_t ip,
                     uint64_t cr2);
/* INIT came in front of the instruction at ip; the SIPI came. Registers are those behind it. */
void tracer_init(struct vcpu *cpu, uint64_t ip);
void tracer_sipi(struct vcpu *cpu, uint8_t vector);
void tracer_ptwrite(struct vcpu *cpu, uint64_t value, uint8_t size_bytes, uint64_t ip);

/* The HLT at ip; an interrupt ended it; the machine slept, all processors of it. */
void tracer_halt(struct vcpu *cpu, uint64_t ip);
void tracer_wake(struct vcpu *cpu);
void tracer_slept(struct vcpu *cpu);

/* Makes present what output waits for; it goes on. */
void tracer_resolve_output(struct vcpu *cpu);
/* The run ends: what is buffered goes to memory. */
void tracer_end(struct vcpu *cpu);
/* The tracer's part of what the processor leaves behind. */
void tracer_conclude(struct vcpu *cpu);

/* Of so many bytes, at most VPT_SAVE_MAX_BYTES; 0: it failed. */
size_t tracer_save(const struct vcpu *cpu, uint8_t *data);
/* NULL, or what is wrong with the data. */
const char *tracer_restore(struct vcpu *cpu, const uint8_t *data, size_t len);

#endif
