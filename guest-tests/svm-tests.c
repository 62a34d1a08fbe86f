/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SVM guests of a guest that traces itself: VMRUN is a VM entry and #VMEXIT a VM exit (33.5), the
 * VMCB's address is the VMCS pointer. The order of the packets is Table 33-53's, with Event Trace
 * Table 33-59's, and the TSC of PSB+ is that of whoever runs (33.5.2.3).
 *
 * "conceal" on the command line says that the processor hides VMs from the trace. Every trace is
 * handed over, so that the host can decode it.
 *
 * Sections: VMCB, transitions as they happen, transitions as packets tell them, cases.
 */
#include "svm-tests.h"
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "packets.h"
#include "pt.h"
#include "string.h"
#include "svm.h"
#include "tracing.h"
#include "trap.h"

/* ---- VMCB --------------------------------------------------------------------------------- */

#define MSR_TSC_RATIO    0xc0000104u
#define INJECT_INTERRUPT (1ull << 31)
#define INJECT_EXCEPTION (1ull << 31 | 3ull << 8)
#define VECTOR_UD        6
#define GUEST_VECTOR     0x51

#define STACK_BYTES    (2 * PAGE_BYTES)
#define PTE_LARGE      0x87u /* present, writable, user; 2 MiB */
#define PTE_USER_WRITE (PTE_PRESENT | PTE_WRITE | PTE_USER)
#define NESTED_BYTES   (1ull << 30)

struct vm {
    uint64_t phys; /* of the VMCB */
    struct vmcb *vmcb;
    uint64_t registers[14]; /* RDI is the last */
};

/* The first GiB of physical memory, one to one. */
static uint64_t nested_tables(void)
{
    const uint64_t pml4 = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    const uint64_t pdpt = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    const uint64_t pd = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    uint64_t *entries = phys_to_virt(pd);

    for (uint64_t at = 0; at < NESTED_BYTES; at += 0x200000)
        entries[at >> 21] = at | PTE_LARGE;
    *(uint64_t *)phys_to_virt(pml4) = pdpt | PTE_USER_WRITE;
    *(uint64_t *)phys_to_virt(pdpt) = pd | PTE_USER_WRITE;
    return pml4;
}

/* A VM that begins at code, in an address space of its own with the kernel's half. */
static struct vm make_vm(const void *code, bool nested)
{
    const uint64_t phys = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    const uint64_t stack = phys_alloc(STACK_BYTES, PAGE_BYTES);
    struct vmcb *vmcb = phys_to_virt(phys);

    vmcb_init(vmcb, code, (uint64_t)phys_to_virt(stack) + STACK_BYTES - 8);
    vmcb->intercept_exceptions = 1u << VECTOR_UD;
    vmcb->cr3 = address_space_new();
    if (nested) {
        vmcb->nested_paging = 1;
        vmcb->nested_cr3 = nested_tables();
    }
    printf("VMCB %lu\n", phys); /* the host compares it with what the trace says */
    return (struct vm){.phys = phys, .vmcb = vmcb};
}

/* ---- Transitions as they happen ----------------------------------------------------------- */

#define MAX_TRANSITIONS 64

/* One VMRUN or one #VMEXIT, in what packets tell of it. */
struct transition {
    bool enters;
    uint64_t vmcs; /* loaded by it; 0: it was the current one */
    uint64_t cr3;
    uint64_t from, to; /* FUP and TIP; entries have no FUP */
    uint64_t reason, qualification;
    unsigned vector; /* of an exit by an event */
    bool by_event;
};

struct transitions {
    unsigned count;
    struct transition list[MAX_TRANSITIONS];
};

static struct transitions happened, told;
static uint64_t current_vmcb;

static struct transition *add(struct transitions *to)
{
    static struct transition none;

    return to->count < MAX_TRANSITIONS ? &to->list[to->count++] : &none;
}

/* Runs a VM up to its next exit, and gives the exit code. */
static uint64_t enter(struct vm *vm)
{
    struct vmcb *vmcb = vm->vmcb;
    struct transition *to = add(&happened), *from = add(&happened);

    *to = (struct transition){.enters = true, .cr3 = vmcb->cr3, .to = vmcb->rip};
    if (current_vmcb != vm->phys)
        to->vmcs = vm->phys;
    current_vmcb = vm->phys;
    memcpy(guest_registers, vm->registers, sizeof(vm->registers));
    svm_enter(vm->phys);
    memcpy(vm->registers, guest_registers, sizeof(vm->registers));
    *from = (struct transition){
        .cr3 = read_cr3(),
        .from = vmcb->rip,
        .to = (uint64_t)svm_behind,
        .reason = vmcb->exit_code,
        .qualification = vmcb->exit_info_1,
    };
    if (vmcb->exit_code >= EXIT_EXCEPTION && vmcb->exit_code < EXIT_EXCEPTION + 32) {
        from->by_event = true;
        from->vector = (unsigned)vmcb->exit_code - EXIT_EXCEPTION;
    }
    return vmcb->exit_code;
}

/* Up to its HLT; the last value that it handed over. */
static uint64_t run_to_end(struct vm *vm)
{
    uint64_t value = 0;

    for (;;) {
        switch (enter(vm)) {
        case EXIT_VMMCALL:
            value = vm->vmcb->rax;
            vm->vmcb->rip += 3;
            break;
        case EXIT_CPUID:
        case EXIT_EXCEPTION + VECTOR_UD: /* UD2, which is as long */
            vm->vmcb->rip += 2;
            break;
        default:
            return value;
        }
    }
}

/* ---- Transitions as packets tell them ----------------------------------------------------- */

#define CFE_VMENTRY     7
#define CFE_VMEXIT      8
#define CFE_VMEXIT_INTR 9
#define EVD_QUALIFY     1
#define EVD_REASON      2

struct told_counts {
    unsigned vmcs, vmentry, vmexit, pips, nonroot;
};

static struct told_counts counts;
static bool damaged;

/* Packets outside of PSB+ since the last TIP are one transition's, if there is a PIP. */
static void read_transitions(const uint8_t *bytes, uint64_t len)
{
    struct packet_reader reader = {.bytes = bytes, .len_bytes = len};
    struct transition now = {0};
    struct packet p;
    bool pip = false;

    told.count = 0;
    counts = (struct told_counts){0};
    while (packet_next(&reader, &p)) {
        if (p.kind == PACKET_PIP)
            counts.nonroot += p.flag;
        if (p.kind == PACKET_VMCS)
            counts.vmcs++;
        if (p.in_psb)
            continue;
        switch (p.kind) {
        case PACKET_VMCS:
            now.vmcs = p.value << 12;
            break;
        case PACKET_PIP:
            pip = true;
            now.enters = p.flag;
            now.cr3 = p.value;
            counts.pips++;
            break;
        case PACKET_FUP:
            now.from = p.ip;
            break;
        case PACKET_EVD:
            if (p.sub == EVD_QUALIFY)
                now.qualification = p.value;
            else if (p.sub == EVD_REASON)
                now.reason = p.value;
            break;
        case PACKET_CFE:
            counts.vmentry += p.sub == CFE_VMENTRY;
            counts.vmexit += p.sub == CFE_VMEXIT || p.sub == CFE_VMEXIT_INTR;
            if (p.sub == CFE_VMEXIT_INTR) {
                now.by_event = true;
                now.vector = (unsigned)p.value;
            }
            break;
        case PACKET_TIP:
        case PACKET_TIP_PGD:
        case PACKET_TIP_PGE:
            now.to = p.ip;
            if (pip)
                *add(&told) = now;
            now = (struct transition){0};
            pip = false;
            break;
        default:
            break;
        }
    }
    damaged = reader.damaged;
}

static void report_transition(unsigned i, bool events, const char *name)
{
    const struct transition *want = &happened.list[i], *got = &told.list[i];
    const bool fup = !want->enters;
    bool same = got->enters == want->enters && got->cr3 == want->cr3 && got->to == want->to &&
                got->vmcs == want->vmcs;

    if (fup)
        same = same && got->from == want->from;
    if (events && !want->enters)
        same = same && got->reason == want->reason && got->qualification == want->qualification &&
               got->by_event == want->by_event && got->vector == want->vector;
    report(same, "%s: transition %u, %s", name, i, want->enters ? "VMRUN" : "#VMEXIT");
    if (!same)
        printf("    got  nr %d vmcs %lx cr3 %lx from %lx to %lx reason %lx %lx %u\n"
               "    want nr %d vmcs %lx cr3 %lx from %lx to %lx reason %lx %lx %u\n",
               got->enters, got->vmcs, got->cr3, got->from, got->to, got->reason,
               got->qualification, got->vector, want->enters, want->vmcs, want->cr3, want->from,
               want->to, want->reason, want->qualification, want->vector);
}

static bool concealed;
static const uint8_t *trace;
static uint64_t trace_bytes;

static void begin_case(void)
{
    happened.count = 0;
}

/* Traces body with the controls, and compares what the packets tell with what happened. */
static void check(const char *name, uint64_t ctl, void (*body)(void))
{
    struct trace_setup setup = {.ctl = CTL_DEFAULT | ctl, .body = body};
    struct trace_result result;

    begin_case();
    trace_default_output(&setup);
    result = trace_run(&setup);
    trace = trace_default_bytes(&result, &trace_bytes);
    note_trace(virt_to_phys(trace), trace_bytes);
    read_transitions(trace, trace_bytes);
    report(!damaged && trace_bytes > 0 && trace_bytes < BUFFER_BYTES, "%s: the trace is whole",
           name);
    if (concealed) {
        report_value(counts.vmcs + counts.pips + counts.nonroot + counts.vmentry + counts.vmexit, 0,
                     "%s: concealed (Table 33-52)", name);
        return;
    }
    report_value(told.count, happened.count, "%s: as many transitions", name);
    for (unsigned i = 0; i < happened.count && i < told.count; i++)
        report_transition(i, ctl & CTL_EVENTEN, name);
    if (ctl & CTL_EVENTEN)
        report(counts.vmentry * 2 == happened.count && counts.vmexit * 2 == happened.count,
               "%s: a CFE for each (Table 33-59)", name);
}

/* ---- Cases -------------------------------------------------------------------------------- */

static struct vm one, other;
static uint64_t computed;

static void main_body(void)
{
    computed = run_to_end(&one);
}

/* What svm_guest_main() ends with. */
static uint64_t main_answer(uint64_t seed)
{
    uint64_t x = seed;

    for (unsigned i = 0; i < GUEST_PARTS; i++)
        x = svm_guest_work(x, GUEST_ROUNDS);
    return x;
}

static void test_main(const char *name, uint64_t ctl, bool nested)
{
    one = make_vm(svm_guest_main, nested);
    one.registers[13] = 1234;
    check(name, ctl, main_body);
    report_value(computed, main_answer(1234), "%s: the VM computed what it should", name);
}

static void turns_body(void)
{
    for (unsigned i = 0; i < 3; i++) {
        enter(&one);
        one.vmcb->rip += one.vmcb->exit_code == EXIT_CPUID ? 2 : 3;
        enter(&other);
        other.vmcb->rip += other.vmcb->exit_code == EXIT_CPUID ? 2 : 3;
    }
    enter(&other);
}

static void test_turns(void)
{
    one = make_vm(svm_guest_main, false);
    other = make_vm(svm_guest_main, true);
    check("two VMs in turns", 0, turns_body);
}

static void faults_body(void)
{
    run_to_end(&one);
}

static void test_exception(uint64_t events)
{
    one = make_vm(svm_guest_faults, false);
    check("an intercepted exception", events, faults_body);
    report(happened.list[1].reason == EXIT_EXCEPTION + VECTOR_UD &&
               happened.list[1].from == (uint64_t)svm_guest_ud_ip,
           "an intercepted exception: it was the #UD");
}

static void inject_body(void)
{
    enter(&one);
    one.vmcb->rip += 3;
    one.vmcb->event = INJECT_INTERRUPT | GUEST_VECTOR;
    enter(&one); /* the handler's VMMCALL */
    one.vmcb->rip += 3;
    enter(&one); /* behind its IRET */
}

/* FUP, TIP of the delivery come behind those of the entry (33.5.1). */
static void test_injection(uint64_t events)
{
    struct packet_reader reader = {0};
    struct packet p;
    bool delivered = false, from = false;

    one = make_vm(svm_guest_waits, false);
    trap_set_entry(GUEST_VECTOR, svm_guest_vector);
    check("an injected interrupt", events, inject_body);
    trap_set_entry(GUEST_VECTOR, NULL);
    reader = (struct packet_reader){.bytes = trace, .len_bytes = trace_bytes};
    while (packet_next(&reader, &p)) {
        if (p.kind == PACKET_FUP)
            from = p.ip == happened.list[2].to;
        else if (p.kind == PACKET_TIP)
            delivered |= from && p.ip == (uint64_t)svm_guest_vector;
    }
    report(delivered, "an injected interrupt: FUP and TIP of its delivery");
    report_value(happened.list[3].from, (uint64_t)svm_guest_vector,
                 "an injected interrupt: its handler ran");
}

static void fail_body(void)
{
    one.vmcb->asid = 0;
    svm_enter(one.phys);
    one.vmcb->asid = 1;
    computed = one.vmcb->exit_code;
    run_to_end(&one);
}

/* A VMRUN that fails goes on behind itself, and no guest is seen (Table 33-54). */
static void test_failure(void)
{
    struct packet_reader reader;
    struct packet p;
    bool behind = false, nonroot = false;

    one = make_vm(svm_guest_main, false);
    begin_case();
    struct trace_setup setup = {.ctl = CTL_DEFAULT, .body = fail_body};

    trace_default_output(&setup);
    const struct trace_result result = trace_run(&setup);

    trace = trace_default_bytes(&result, &trace_bytes);
    note_trace(virt_to_phys(trace), trace_bytes);
    reader = (struct packet_reader){.bytes = trace, .len_bytes = trace_bytes};
    while (!behind && packet_next(&reader, &p)) {
        nonroot |= p.kind == PACKET_PIP && p.flag;
        behind = p.kind == PACKET_TIP && p.ip == (uint64_t)svm_behind;
    }
    report_value(computed & UINT32_MAX, EXIT_INVALID, "a VMRUN without ASID fails");
    report(behind && !nonroot, "a VMRUN that fails: TIP behind it, no NR (Table 33-54)");
}

#define TSC_OFFSET (1ull << 40)
#define RATIO_BITS 32
#define RATIO_ONE  (1ull << RATIO_BITS)

static void times_body(void)
{
    computed = run_to_end(&one);
    svm_guest_work(1, GUEST_LONG);
}

/* What the VM has when the TSC is this one. */
static uint64_t vm_tsc(uint64_t tsc, uint64_t ratio)
{
    return (uint64_t)((unsigned __int128)tsc * ratio >> RATIO_BITS) + TSC_OFFSET;
}

/* The TSC and the PIP of a PSB+, which says whose it is, come in any order. */
static void test_time(const char *name, uint64_t ratio)
{
    const uint64_t begin = read_tsc();
    struct packet_reader reader;
    struct packet p;
    unsigned guest = 0, host = 0, wrong = 0;
    bool in_vm = false, has_pip = false;
    uint64_t tsc = 0, end;

    one = make_vm(svm_guest_times, false);
    one.vmcb->tsc_offset = TSC_OFFSET;
    check(name, CTL_TSCEN, times_body);
    end = read_tsc();
    report(computed >= vm_tsc(begin, ratio) && computed <= vm_tsc(end, ratio),
           "%s: what RDTSC gives in the VM", name);
    reader = (struct packet_reader){.bytes = trace, .len_bytes = trace_bytes};
    while (packet_next(&reader, &p)) {
        if (p.kind == PACKET_TSC)
            tsc = p.value;
        if (p.kind == PACKET_PIP && p.in_psb) {
            in_vm = p.flag;
            has_pip = true;
        }
        if (p.kind != PACKET_PSBEND || !has_pip)
            continue;
        has_pip = false;
        guest += in_vm;
        host += !in_vm;
        wrong += in_vm ? tsc < vm_tsc(begin, ratio) || tsc > vm_tsc(end, ratio)
                       : tsc < begin || tsc > end;
    }
    report(concealed || guest >= 2, "%s: PSBs in the VM", name);
    report(host >= 2, "%s: PSBs outside of it", name);
    report(concealed || wrong == 0, "%s: in TSC packets of the VM and in no others (33.5.2.3)",
           name);
}

static void test_ratio(void)
{
    if (!(cpuid_checked(0x8000000a, 0).edx >> 4 & 1)) {
        report_skip("no TSC ratio", "the TSC ratio of VMs");
        return;
    }
    report_value(rdmsr(MSR_TSC_RATIO), RATIO_ONE, "TSC ratio: 1 after reset");
    report_value(wrmsr_safe(MSR_TSC_RATIO, 1ull << 40), GP_VECTOR, "TSC ratio: bit 40 is reserved");
    wrmsr(MSR_TSC_RATIO, RATIO_ONE / 2 * 3);
    test_time("TSC ratio 1.5", RATIO_ONE / 2 * 3);
    wrmsr(MSR_TSC_RATIO, RATIO_ONE);
}

int guest_main(void)
{
    const struct pt_caps *caps = pt_caps();
    const bool svm = svm_present();
    const uint64_t events = caps->event ? CTL_EVENTEN : 0;

    if (!caps->present || !svm || !pt_memory_output(caps)) {
        report_skip(svm ? "no Intel PT" : "no SVM", "VMs of a guest that traces itself");
        return report_summary();
    }
    concealed = boot_word("conceal");
    svm_start();
    test_main("exits", 0, false);
    test_main("exits with nested paging", CTL_TSCEN | CTL_DISRETC, true);
    if (events)
        test_main("exits with Event Trace", events, false);
    else
        report_skip("no Event Trace", "CFE and EVD packets of VMs");
    test_turns();
    test_exception(events);
    test_injection(events);
    test_failure();
    test_time("TSC offset", RATIO_ONE);
    test_ratio();
    return report_summary();
}
