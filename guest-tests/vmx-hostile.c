/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile VMM: random VMX instructions, VMCS, EPT and MSR areas, VMCS changed in memory while
 * they are current, and guests that run anything, all of it traced or not. The host that runs it
 * must live; the VMM need not.
 *
 * Command line: seed=NUMBER rounds=NUMBER, and "merciless": then nothing is put right before an
 * entry every now and then, and the pages of the VMM and devices are places like others. Without
 * it, the VMM reports whether all memory beside its guests' is as it was, and whether a good VM
 * still runs.
 *
 * Sections: numbers, VMX instructions, things around a VM, a VM, rounds.
 */
#include "vmx-hostile.h"
#include "apic.h"
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "pt.h"
#include "tracing.h"
#include "trap.h"
#include "vmx/vm.h"

/* ---- Numbers ------------------------------------------------------------------------------ */

bool merciless;
static uint64_t state;

uint64_t number(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dull;
}

uint64_t below(uint64_t bound)
{
    return (number() >> 8) % bound;
}

uint64_t sparse(void)
{
    uint64_t bits = UINT64_MAX;

    for (unsigned i = 0; i < 4; i++)
        bits &= number();
    return bits;
}

bool once_in(uint64_t times)
{
    return below(times) == 0;
}

/* ---- VMX instructions --------------------------------------------------------------------- */

static uint64_t some_descriptor(void)
{
    return once_in(2) ? memory_eptp() : once_in(2) ? below(4) : number();
}

static void random_instruction(void)
{
    uint64_t region = some_region();
    uint64_t value = number();

    switch (below(12)) {
    case 0:
    case 1:
        vmclear(&region);
        break;
    case 2:
    case 3:
    case 4:
        vmptrld(&region);
        break;
    case 5:
        vmptrst(&value);
        break;
    case 6:
        vmread(below(0x8000), &value);
        break;
    case 7:
        vmwrite(below(0x8000) & (merciless ? UINT64_MAX : ~0x0c00ull), value);
        break;
    case 8:
        invept(below(4), (const uint64_t[2]){some_descriptor(), once_in(8)});
        break;
    case 9:
        invvpid(below(5), (const uint64_t[2]){below(4) | (once_in(8) ? number() : 0), number()});
        break;
    case 10:
        vmcall();
        break;
    default:
        if (once_in(4))
            vmxoff();
        vmxon(&region);
    }
}

/* Words of a VMCS in memory: it may be the current one, or become it. */
static void scribble(void)
{
    uint64_t *words = phys_to_virt(once_in(4)   ? vm_pages.vmxon
                                   : once_in(4) ? vm_pages.other_vmcs
                                                : vm_pages.vmcs);

    for (uint64_t i = below(32); i > 0; i--)
        words[below(PAGE_BYTES / 8)] = once_in(2) ? number() : sparse();
    *(uint32_t *)words = (uint32_t)vmx_basic() & INT32_MAX;
}

/* ---- Things around a VM ------------------------------------------------------------------- */

#define CR4_VMXE   (1ull << 13)
#define SMI_PORT   0xb2
#define SOON_TICKS 20000u
#define ANY_REASON 128u

static bool on_any(struct frame *frame)
{
    if (frame->vector != VECTOR_NMI)
        apic_eoi();
    return true;
}

/* What comes from outside, now or amid a guest. */
static void disturb(void)
{
    switch (below(4)) {
    case 0:
        apic_timer_once((uint32_t)below(SOON_TICKS));
        break;
    case 1:
        apic_send(0, ICR_ASSERT | ICR_NMI);
        break;
    case 2:
        if (once_in(8))
            outb(SMI_PORT, (uint8_t)number());
        break;
    default:
        interrupts_on();
        apic_eoi();
        interrupts_off();
    }
}

/* The VMM traces itself, and so its guests, or stops it. */
static void toggle_trace(void)
{
    if (!pt_caps()->present || !pt_caps()->topa)
        return;
    wrmsr_safe(MSR_RTIT_CTL, 0);
    if (once_in(2))
        wrmsr_safe(MSR_RTIT_CTL, random_ctl());
}

/* ---- A VM --------------------------------------------------------------------------------- */

static unsigned entries, refused, late;
static unsigned reasons[ANY_REASON];

static uint64_t read_field(unsigned field)
{
    uint64_t value = 0;

    vmread(field, &value);
    return value;
}

static void random_registers(void)
{
    uint64_t *registers = (uint64_t *)&vm_registers;

    for (size_t i = 0; i < sizeof(vm_registers) / sizeof(*registers); i++)
        registers[i] = once_in(3) ? sparse() : once_in(2) ? below(ARENA_BYTES) : below(0x600);
}

static void change_something(void)
{
    switch (below(8)) {
    case 0:
    case 1:
        fields_change();
        break;
    case 2:
    case 3:
        fields_change_controls();
        break;
    case 4:
        memory_change_ept();
        break;
    case 5:
        code_fill(PAGE_CODE + (unsigned)below(CODE_PAGES));
        break;
    case 6:
        fields_fill_areas();
        break;
    default:
        disturb();
    }
}

/* Behind the instruction, to somewhere else, or once more. */
static void go_on(void)
{
    const uint64_t rip = read_field(VMCS_GUEST_RIP);

    if (once_in(4))
        vmwrite(VMCS_GUEST_RIP, code_place());
    else if (!once_in(4))
        vmwrite(VMCS_GUEST_RIP, rip + read_field(VMCS_EXIT_LENGTH) % 16);
}

/* False: the VM is not entered again. */
static bool enter(bool again)
{
    const bool launch = once_in(32) ? again : !again;
    unsigned result;
    uint64_t reason;

    if (!merciless || !once_in(MERCY))
        fields_constrain();
    else if (!once_in(8))
        fields_set_timer();
    random_registers();
    result = launch ? vmlaunch(&vm_registers) : vmresume(&vm_registers);
    entries++;
    if (result != VM_SUCCEED) {
        refused++;
        return once_in(2);
    }
    reason = read_field(VMCS_EXIT_REASON);
    late += reason >> 31;
    reasons[reason % ANY_REASON]++;
    return !(reason >> 31) || once_in(2);
}

#define CHANGES_MAX 6
#define EXITS_MAX   12

static void play_vm(void)
{
    if (once_in(8))
        memory_fill();
    fields_reset();
    for (uint64_t i = below(CHANGES_MAX); i > 0; i--)
        change_something();
    for (unsigned exits = 0; exits < EXITS_MAX && enter(exits); exits++) {
        go_on();
        for (uint64_t i = below(3); i > 0; i--)
            change_something();
    }
}

/* A VMCS that memory has as it likes. Merciful, what the VMM lives by is put right in it. */
static void play_scribbled(void)
{
    fields_reset();
    vmclear(&vm_pages.vmcs);
    scribble();
    vmptrld(&vm_pages.vmcs);
    for (unsigned exits = 0; exits < 3 && enter(exits); exits++)
        scribble();
}

/* ---- Rounds ------------------------------------------------------------------------------- */

static void play(uint64_t rounds)
{
    for (uint64_t i = 0; i < rounds; i++) {
        switch (below(8)) {
        case 0:
            random_instruction();
            break;
        case 1:
            scribble();
            break;
        case 2:
            play_scribbled();
            break;
        case 3:
            toggle_trace();
            break;
        default:
            play_vm();
        }
        if (i % 100 == 0)
            printf("round %lu\n", i);
    }
}

static bool good_vm_runs(void)
{
    struct outcome outcome;

    fields_reset();
    vm_reset(&nop_code);
    outcome = vm_launch();
    return outcome.result == VM_SUCCEED && outcome.reason == REASON_VMCALL;
}

static unsigned count_reasons(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < ANY_REASON; i++)
        count += reasons[i] != 0;
    return count;
}

static void prepare(void)
{
    const uint64_t feature = rdmsr(MSR_FEATURE_CONTROL);

    if (!(feature & FEATURE_LOCK))
        wrmsr(MSR_FEATURE_CONTROL, feature | FEATURE_LOCK | FEATURE_VMX);
    write_cr4_safe(read_cr4() | CR4_VMXE);
    write_cr0_safe(read_cr0() | rdmsr(MSR_VMX_CR0_FIXED0));
    vm_init();
    memory_make();
    fields_make();
    memory_fill();
    fields_fill_areas();
    trap_set_handler(VECTOR_TIMER, on_any);
    trap_set_handler(VECTOR_PMI, on_any);
    trap_set_handler(VECTOR_NMI, on_any);
}

/* Of 12 to 18 as a rule. But time is real: a slow machine lets guests run for less. */
#define REASONS_MIN 8

int guest_main(void)
{
    uint64_t seed = 1, rounds = 300;

    boot_number("seed", &seed);
    boot_number("rounds", &rounds);
    merciless = boot_word("merciless");
    if (!(cpuid_checked(1, 0).ecx >> 5 & 1) || !(control_allowed(PROC2) & PROC2_EPT)) {
        report_skip("no VMX with EPT", "a hostile VMM");
        return report_summary();
    }
    state = 0x9e3779b97f4a7c15ull * (seed + 1);
    prepare();
    play(rounds);
    if (pt_caps()->present)
        trace_off();
    printf("hostile VMM: %lu rounds, %u entries, %u refused, %u late, %u exit reasons\n", rounds,
           entries, refused, late, count_reasons());
    report(memory_guards_hold(), "hostile VMM: memory beside the guests' is untouched");
    report(good_vm_runs(), "hostile VMM: a good VM runs afterwards");
    report(entries > rounds && refused && late && count_reasons() >= REASONS_MIN,
           "hostile VMM: it was one");
    return report_summary();
}
