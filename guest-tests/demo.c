/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The demo: a guest traces itself. Two user processes, one that sorts and one that hashes, take
 * turns on one processor, with timer interrupts, system calls, page faults and an emulated
 * instruction between them; Intel PT, or RTIT on a processor that has it instead, records all of
 * it, and what it recorded goes to the host.
 *
 * Words of the command line:
 *   rounds=N      how many rounds each process does; else sized by vpt.steps (docs/guests.md)
 *   tick=N        the timer's period
 *   pmi=vector    take the PMI as an interrupt instead of an NMI
 *   output=range  a single range, though there is ToPA
 *   ctl=BITS      further bits of IA32_RTIT_CTL (RTIT: of RTIT_CTL)
 *   notrace       run the processes without tracing
 *   tsc=N         without tracing: sets the TSC ahead by N on each timer interrupt
 *   panic=N       without tracing: tells QEMU's device pvpanic of a panic on the Nth one
 */
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "demo-trace.h"
#include "process.h"
#include "pt.h"
#include "rtit.h"

extern const uint8_t sort_elf[], sort_elf_end[], hash_elf[], hash_elf_end[];

/* Measured: how many instructions a round of both processes takes, switches and all. */
#define INSTRUCTIONS_PER_ROUND 53000
#define FAST_STEPS_PER_SECOND  30000
#define INSTRUCTIONS_FAST      1000000
#define INSTRUCTIONS_SLOW      300000
#define INSTRUCTIONS_FREE      8000000

#define MSR_TSC          0x10
#define PVPANIC_PORT     0x505
#define PVPANIC_PANICKED 1

/* The timer counts instructions while the host steps, and time otherwise (nanoseconds on QEMU). */
#define TICKS_STEPPING 8000
#define TICKS_FREE     200000

static uint64_t choose_rounds(void)
{
    uint64_t rounds, steps, instructions = INSTRUCTIONS_FREE;

    if (boot_number("rounds", &rounds))
        return rounds;
    if (boot_number("vpt.steps", &steps))
        instructions = steps >= FAST_STEPS_PER_SECOND ? INSTRUCTIONS_FAST : INSTRUCTIONS_SLOW;
    return (instructions + INSTRUCTIONS_PER_ROUND - 1) / INSTRUCTIONS_PER_ROUND;
}

static uint32_t choose_ticks(bool tracing)
{
    uint64_t ticks, steps;

    if (boot_number("tick", &ticks) && ticks > 0)
        return (uint32_t)ticks;
    return tracing && boot_number("vpt.steps", &steps) ? TICKS_STEPPING : TICKS_FREE;
}

/* NULL: the processor has no trace that could be kept in memory. */
static const struct tracer *choose_tracer(void)
{
    if (pt_caps()->present && pt_memory_output(pt_caps()))
        return &pt_tracer;
    return rtit_present() ? &rtit_tracer : NULL;
}

static bool print_report(const struct tracer *tracer)
{
    const struct process_stats *p = process_stats();
    const struct trace_stats *t;

    printf("%lu timer interrupts, %lu switches, %lu system calls, %lu page faults, "
           "%lu emulated instructions\n",
           p->timer_interrupts, p->switches, p->system_calls, p->page_faults, p->invalid_opcodes);
    if (!tracer)
        return true;
    t = tracer->stats();
    printf("%lu trace bytes, %lu PMIs, %lu times full, %lu errors\n", t->bytes, t->pmis, t->stops,
           t->errors);
    if (t->bytes == 0 || t->errors)
        printf("FAILED: the trace is %s\n", t->errors ? "damaged" : "empty");
    return t->bytes != 0 && t->errors == 0;
}

static uint64_t tsc_step, panic_at;

/* A hypervisor sets another TSC offset for the one, and may stop the processor for the other. */
static void after_interrupt(void)
{
    static uint64_t interrupts;

    if (process_stats()->timer_interrupts == interrupts)
        return; /* a system call */
    interrupts = process_stats()->timer_interrupts;
    if (tsc_step)
        wrmsr(MSR_TSC, read_tsc() + tsc_step);
    if (interrupts == panic_at)
        outb(PVPANIC_PORT, PVPANIC_PANICKED);
}

int guest_main(void)
{
    bool tracing = !boot_word("notrace");
    const struct tracer *tracer = tracing ? choose_tracer() : NULL;
    uint64_t rounds = choose_rounds(), extra_ctl = 0;
    unsigned bad;
    bool good;

    if (tracing) {
        if (!tracer) {
            printf("this processor has no Intel PT %s and no RTIT; try the word notrace\n",
                   pt_caps()->present ? "output to memory" : "(CPUID.7.0:EBX[25] is 0)");
            return 1;
        }
        tracer->print_caps();
        tracer->init(boot_choice("pmi", "vector") ? PMI_VECTOR : PMI_NMI);
    }
    process_create("sort", "sort.elf", sort_elf, (size_t)(sort_elf_end - sort_elf), rounds);
    process_create("hash", "hash.elf", hash_elf, (size_t)(hash_elf_end - hash_elf), rounds);
    printf("%lu rounds\n", rounds);
    if (tracing) {
        process_announce();
        process_set_hook(tracer->poll);
        boot_number("ctl", &extra_ctl);
        if (!tracer->start(extra_ctl)) {
            printf("the control MSR does not take these bits\n");
            return 1;
        }
    }
    if (!tracing && (boot_number("tsc", &tsc_step) | boot_number("panic", &panic_at)))
        process_set_hook(after_interrupt);
    bad = process_run_all(choose_ticks(tracing));
    if (tracing)
        tracer->stop();
    good = print_report(tracer) && bad == 0;
    printf(good ? "demo: everything held\n" : "demo: FAILED\n");
    return good ? 0 : 1;
}
