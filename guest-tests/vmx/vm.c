/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A virtual machine for test cases: see vm.h.
 *
 * Sections: capabilities, fields, pages, the good VM, controls and changes, entry.
 */
#include "vm.h"
#include "console.h"
#include "cpu.h"
#include "ept-tables.h"
#include "memory.h"
#include "string.h"
#include "trap.h"

/* ---- Capabilities ------------------------------------------------------------------------- */

static const struct {
    unsigned field, msr, true_msr;
    const char *lacks;
} controls[CONTROL_KINDS] = {
    [PIN] = {VMCS_PIN_CONTROLS, 0x481, 0x48d, "no such pin-based control"},
    [PROC] = {VMCS_PROC_CONTROLS, 0x482, 0x48e, "no such processor-based control"},
    [PROC2] = {VMCS_PROC2_CONTROLS, MSR_VMX_PROC2, MSR_VMX_PROC2, "no such secondary control"},
    [EXIT] = {VMCS_EXIT_CONTROLS, 0x483, 0x48f, "no such VM-exit control"},
    [ENTRY] = {VMCS_ENTRY_CONTROLS, 0x484, 0x490, "no such VM-entry control"},
};

uint64_t vmx_basic(void)
{
    return rdmsr(MSR_VMX_BASIC);
}

uint64_t vmx_misc(void)
{
    return rdmsr(MSR_VMX_MISC);
}

static uint64_t control_msr(enum control kind)
{
    return rdmsr(vmx_basic() & BASIC_TRUE_CONTROLS ? controls[kind].true_msr : controls[kind].msr);
}

uint32_t control_required(enum control kind)
{
    return kind == PROC2 ? 0 : (uint32_t)control_msr(kind);
}

uint32_t control_allowed(enum control kind)
{
    if (kind == PROC2 && !(control_msr(PROC) >> 32 & PROC_SECONDARY))
        return 0;
    return (uint32_t)(control_msr(kind) >> 32);
}

uint64_t vmx_ept_vpid(void)
{
    return control_allowed(PROC2) & (PROC2_EPT | PROC2_VPID) ? rdmsr(MSR_VMX_EPT_VPID) : 0;
}

unsigned physical_bits(void)
{
    const struct cpuid sizes = cpuid_checked(0x80000008, 0);

    return sizes.eax ? sizes.eax & 0xff : 36;
}

/* ---- Fields ------------------------------------------------------------------------------- */

void put(unsigned field, uint64_t value)
{
    const unsigned result = vmwrite(field, value);

    if (result != VM_SUCCEED)
        report(false, "VMWRITE of field 0x%x: result 0x%x", field, result);
}

uint64_t get(unsigned field)
{
    uint64_t value = 0;
    const unsigned result = vmread(field, &value);

    if (result != VM_SUCCEED)
        report(false, "VMREAD of field 0x%x: result 0x%x", field, result);
    return value;
}

static const struct {
    unsigned field;
    enum control kind;
    uint32_t bits;
} conditions[] = {
#define CONDITION(name, encoding, kind, bits) {encoding, kind, bits},
    VMCS_FIELDS(CONDITION)
#undef CONDITION
};

bool field_exists(unsigned field)
{
    for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++)
        if (conditions[i].field == field && conditions[i].kind != NO_CONTROL)
            return control_allowed(conditions[i].kind) & conditions[i].bits;
    return true;
}

static void put_if_exists(unsigned field, uint64_t value)
{
    if (field_exists(field))
        put(field, value);
}

/* ---- Pages -------------------------------------------------------------------------------- */

struct vm_pages vm_pages;
struct vm_registers vm_registers;

static uint64_t idt_phys, stack_phys, identity_eptp;

#define BITMAP_PAGES   2 /* for I/O; for MSRs one */
#define GATE_INTERRUPT 0x8e00ull

static void fill_idt(void)
{
    uint64_t *gates = phys_to_virt(idt_phys);

    for (uint64_t vector = 0; vector < 256; vector++) {
        const uint64_t entry = (uint64_t)vmx_vectors + vector * VECTOR_BYTES;

        gates[2 * vector] = (entry & 0xffff) | (uint64_t)KERNEL_CS << 16 | GATE_INTERRUPT << 32 |
                            (entry & 0xffff0000) << 32;
        gates[2 * vector + 1] = entry >> 32;
    }
}

uint64_t vmx_region(void)
{
    const uint64_t phys = phys_alloc(PAGE_BYTES, PAGE_BYTES);

    *(uint32_t *)phys_to_virt(phys) = (uint32_t)vmx_basic() & INT32_MAX;
    return phys;
}

void vm_init(void)
{
    vm_pages = (struct vm_pages){
        .vmxon = vmx_region(),
        .vmcs = vmx_region(),
        .other_vmcs = vmx_region(),
        .io_bitmaps = phys_alloc(BITMAP_PAGES * PAGE_BYTES, PAGE_BYTES),
        .msr_bitmaps = phys_alloc(PAGE_BYTES, PAGE_BYTES),
        .virtual_apic = phys_alloc(PAGE_BYTES, PAGE_BYTES),
        .msr_area = phys_alloc(PAGE_BYTES, PAGE_BYTES),
        .data = phys_alloc(PAGE_BYTES, PAGE_BYTES),
    };
    idt_phys = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    stack_phys = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    fill_idt();
    if (control_allowed(PROC2) & PROC2_EPT)
        identity_eptp = ept_identity();
}

void *vm_data(void)
{
    return phys_to_virt(vm_pages.data);
}

static void clear_pages(void)
{
    memset(phys_to_virt(vm_pages.io_bitmaps), 0, BITMAP_PAGES * PAGE_BYTES);
    memset(phys_to_virt(vm_pages.msr_bitmaps), 0, PAGE_BYTES);
    memset(phys_to_virt(vm_pages.msr_area), 0, PAGE_BYTES);
    memset(vm_data(), 0, PAGE_BYTES);
}

/* ---- The good VM -------------------------------------------------------------------------- */

#define MSR_SYSENTER_CS  0x174u
#define MSR_SYSENTER_ESP 0x175u
#define MSR_SYSENTER_EIP 0x176u
#define MSR_PAT          0x277u
#define MSR_EFER         0xc0000080u
#define MSR_FS_BASE      0xc0000100u
#define MSR_GS_BASE      0xc0000101u
#define SELECTOR_DATA    0x10u
#define SELECTOR_TSS     0x30u
#define RIGHTS_CODE_64   0xa09bu
#define RIGHTS_DATA      0xc093u
#define RIGHTS_TSS_BUSY  0x8bu
#define RIGHTS_UNUSABLE  0x10000u
#define DR7_FIXED        0x400u
#define RFLAGS_FIXED     2u
#define ONE_TO_ONE       (1ull << 48) /* TSC multiplier */
#define PATIENCE         (1ull << 34) /* ticks of the TSC that a guest may take */

SNIPPET(guest_nop, "nop");
const struct code nop_code = CODE(guest_nop);

static uint64_t tss_base(void)
{
    const uint64_t *gdt = (const uint64_t *)read_gdtr().base;
    const uint64_t low = gdt[SELECTOR_TSS / 8], high = gdt[SELECTOR_TSS / 8 + 1];

    return (low >> 16 & 0xffffff) | (low >> 56) << 24 | high << 32;
}

void vm_put_host(void)
{
    put(VMCS_HOST_ES, SELECTOR_DATA);
    put(VMCS_HOST_CS, KERNEL_CS);
    put(VMCS_HOST_SS, SELECTOR_DATA);
    put(VMCS_HOST_DS, SELECTOR_DATA);
    put(VMCS_HOST_FS, 0);
    put(VMCS_HOST_GS, 0);
    put(VMCS_HOST_TR, SELECTOR_TSS);
    put(VMCS_HOST_CR0, read_cr0());
    put(VMCS_HOST_CR3, read_cr3());
    put(VMCS_HOST_CR4, read_cr4());
    put(VMCS_HOST_FS_BASE, rdmsr(MSR_FS_BASE));
    put(VMCS_HOST_GS_BASE, rdmsr(MSR_GS_BASE));
    put(VMCS_HOST_TR_BASE, tss_base());
    put(VMCS_HOST_GDTR_BASE, read_gdtr().base);
    put(VMCS_HOST_IDTR_BASE, read_idtr().base);
    put(VMCS_HOST_SYSENTER_CS, rdmsr(MSR_SYSENTER_CS));
    put(VMCS_HOST_SYSENTER_ESP, rdmsr(MSR_SYSENTER_ESP));
    put(VMCS_HOST_SYSENTER_EIP, rdmsr(MSR_SYSENTER_EIP));
    put(VMCS_HOST_RSP, 0); /* by each entry */
    put(VMCS_HOST_RIP, (uint64_t)vmx_exit);
    put_if_exists(VMCS_HOST_PAT, rdmsr(MSR_PAT));
    put_if_exists(VMCS_HOST_EFER, rdmsr(MSR_EFER));
    put_if_exists(VMCS_HOST_PERF_CTRL, 0);
}

static void put_guest_segments(void)
{
    static const unsigned data[] = {VMCS_GUEST_ES, VMCS_GUEST_SS, VMCS_GUEST_DS, VMCS_GUEST_FS,
                                    VMCS_GUEST_GS};
    /* Selector, limit, rights and base of a register are as far apart as those of ES. */
    for (size_t i = 0; i < sizeof(data) / sizeof(data[0]); i++) {
        const unsigned at = data[i] - VMCS_GUEST_ES;

        put(VMCS_GUEST_ES + at, SELECTOR_DATA);
        put(VMCS_GUEST_ES_LIMIT + at, UINT32_MAX);
        put(VMCS_GUEST_ES_RIGHTS + at, RIGHTS_DATA);
        put(VMCS_GUEST_ES_BASE + at, 0);
    }
    put(VMCS_GUEST_CS, KERNEL_CS);
    put(VMCS_GUEST_CS_LIMIT, UINT32_MAX);
    put(VMCS_GUEST_CS_RIGHTS, RIGHTS_CODE_64);
    put(VMCS_GUEST_CS_BASE, 0);
    put(VMCS_GUEST_LDTR, 0);
    put(VMCS_GUEST_LDTR_LIMIT, 0);
    put(VMCS_GUEST_LDTR_RIGHTS, RIGHTS_UNUSABLE);
    put(VMCS_GUEST_LDTR_BASE, 0);
    put(VMCS_GUEST_TR, SELECTOR_TSS);
    put(VMCS_GUEST_TR_LIMIT, sizeof(struct tss) - 1);
    put(VMCS_GUEST_TR_RIGHTS, RIGHTS_TSS_BUSY);
    put(VMCS_GUEST_TR_BASE, tss_base());
}

/* In units of the preemption timer, which IA32_VMX_MISC[4:0] has. */
static uint64_t patience(void)
{
    const uint64_t value = PATIENCE >> (vmx_misc() & 0x1f);

    return value < UINT32_MAX ? value : UINT32_MAX;
}

static void put_guest(const struct code *code)
{
    put_guest_segments();
    put(VMCS_GUEST_GDTR_BASE, read_gdtr().base);
    put(VMCS_GUEST_GDTR_LIMIT, GDT_WORDS * 8 - 1);
    put(VMCS_GUEST_IDTR_BASE, (uint64_t)phys_to_virt(idt_phys));
    put(VMCS_GUEST_IDTR_LIMIT, PAGE_BYTES - 1);
    put(VMCS_GUEST_CR0, read_cr0());
    put(VMCS_GUEST_CR3, read_cr3());
    put(VMCS_GUEST_CR4, read_cr4());
    put(VMCS_GUEST_DR7, DR7_FIXED);
    put(VMCS_GUEST_RSP, (uint64_t)phys_to_virt(stack_phys) + PAGE_BYTES - 64);
    put(VMCS_GUEST_RIP, (uint64_t)code->begin);
    put(VMCS_GUEST_RFLAGS, RFLAGS_FIXED);
    put(VMCS_GUEST_DEBUGCTL, 0);
    put(VMCS_GUEST_SYSENTER_CS, 0);
    put(VMCS_GUEST_SYSENTER_ESP, 0);
    put(VMCS_GUEST_SYSENTER_EIP, 0);
    put(VMCS_PENDING_DEBUG, 0);
    put(VMCS_INTERRUPTIBILITY, 0);
    put(VMCS_ACTIVITY, ACTIVITY_ACTIVE);
    put(VMCS_GUEST_SMBASE, 0);
    put(VMCS_LINK_POINTER, UINT64_MAX);
    put_if_exists(VMCS_GUEST_PAT, rdmsr(MSR_PAT));
    put_if_exists(VMCS_GUEST_EFER, rdmsr(MSR_EFER));
    put_if_exists(VMCS_GUEST_PERF_CTRL, 0);
    put_if_exists(VMCS_GUEST_BNDCFGS, 0);
    put_if_exists(VMCS_GUEST_RTIT_CTL, 0);
    put_if_exists(VMCS_PREEMPTION_TIMER, patience());
}

static void put_execution(void)
{
    static const unsigned zeroes[] = {
        VMCS_EXCEPTION_BITMAP, VMCS_PAGE_FAULT_MASK, VMCS_PAGE_FAULT_MATCH, VMCS_CR3_TARGET_COUNT,
        VMCS_EXIT_STORE_COUNT, VMCS_EXIT_LOAD_COUNT, VMCS_ENTRY_LOAD_COUNT, VMCS_ENTRY_EVENT,
        VMCS_ENTRY_ERROR_CODE, VMCS_ENTRY_LENGTH,    VMCS_TSC_OFFSET,       VMCS_CR0_MASK,
        VMCS_CR4_MASK,         VMCS_CR0_SHADOW,      VMCS_CR4_SHADOW,       VMCS_EXECUTIVE_VMCS,
    };

    for (size_t i = 0; i < sizeof(zeroes) / sizeof(zeroes[0]); i++)
        put(zeroes[i], 0);
    put(VMCS_IO_BITMAP_A, vm_pages.io_bitmaps);
    put(VMCS_IO_BITMAP_B, vm_pages.io_bitmaps + PAGE_BYTES);
    put(VMCS_EXIT_MSR_STORE, vm_pages.msr_area);
    put(VMCS_EXIT_MSR_LOAD, vm_pages.msr_area);
    put(VMCS_ENTRY_MSR_LOAD, vm_pages.msr_area);
    put_if_exists(VMCS_MSR_BITMAPS, vm_pages.msr_bitmaps);
    put_if_exists(VMCS_VIRTUAL_APIC, vm_pages.virtual_apic);
    put_if_exists(VMCS_TPR_THRESHOLD, 0);
    put_if_exists(VMCS_VPID, 1);
    put_if_exists(VMCS_EPTP, identity_eptp);
    put_if_exists(VMCS_TSC_MULTIPLIER, ONE_TO_ONE);
    put_if_exists(VMCS_XSS_EXITING, 0);
    put_if_exists(VMCS_PLE_GAP, 0);
    put_if_exists(VMCS_PLE_WINDOW, 0);
    if (control_allowed(PROC) & PROC_SECONDARY)
        put(VMCS_PROC2_CONTROLS, 0);
}

void vm_reset(const struct code *code)
{
    const struct controls none = {0};
    struct lacking lacking;

    vmclear(&vm_pages.vmcs);
    vmptrld(&vm_pages.vmcs);
    clear_pages();
    memset(&vm_registers, 0, sizeof(vm_registers));
    put_execution();
    vm_put_host();
    put_guest(code);
    vm_controls(&none, &none, &lacking);
}

/* ---- Controls and changes ----------------------------------------------------------------- */

static bool put_control(enum control kind, uint32_t on, uint32_t off, struct lacking *lacking)
{
    const uint32_t above = on & ~control_allowed(kind), below = off & control_required(kind);

    if (above || below) {
        *lacking = (struct lacking){kind, above | below};
        return false;
    }
    if (kind != PROC2 || control_allowed(PROC) & PROC_SECONDARY)
        put(controls[kind].field, control_required(kind) | on);
    return true;
}

bool vm_controls(const struct controls *on, const struct controls *off, struct lacking *lacking)
{
    const uint32_t second = on->proc2 ? PROC_SECONDARY : 0;
    /* So that a guest that does not end fails its case, and not the suite. */
    const uint32_t timer = control_allowed(PIN) & PIN_PREEMPTION_TIMER & ~off->pin;

    return put_control(PIN, on->pin | timer, off->pin, lacking) &&
           put_control(PROC, on->proc | second, off->proc, lacking) &&
           put_control(PROC2, on->proc2, off->proc2, lacking) &&
           put_control(EXIT, (on->exit | EXIT_HOST_64) & ~off->exit, off->exit, lacking) &&
           put_control(ENTRY, (on->entry | ENTRY_IA32E) & ~off->entry, off->entry, lacking);
}

void skip_lacking(const struct lacking *lacking, const char *name)
{
    report_skip(controls[lacking->kind].lacks, "%s (0x%x)", name, lacking->bits);
}

static void set_bit(uint64_t phys, unsigned bit)
{
    uint8_t *bits = phys_to_virt(phys);

    bits[bit / 8] |= (uint8_t)(1u << bit % 8);
}

#define BITMAP_HIGH  0x400u /* bytes: MSRs from C0000000H on */
#define BITMAP_WRITE 0x800u

static void set_msr_bit(uint32_t msr, unsigned write)
{
    const unsigned high = msr >= 0xc0000000u ? BITMAP_HIGH : 0;

    set_bit(vm_pages.msr_bitmaps + high + write, msr & 0x1fff);
}

void vm_change(const struct change *change)
{
    switch (change->kind) {
    case NO_CHANGE:
        break;
    case PUT:
        put(change->field, change->value);
        break;
    case SET:
        put(change->field, get(change->field) | change->value);
        break;
    case CLEAR:
        put(change->field, get(change->field) & ~change->value);
        break;
    case BEYOND:
        put(change->field, get(change->field) | 1ull << physical_bits());
        break;
    case IO_BIT:
        set_bit(vm_pages.io_bitmaps, change->field);
        break;
    case READ_BIT:
        set_msr_bit(change->field, 0);
        break;
    case WRITE_BIT:
        set_msr_bit(change->field, BITMAP_WRITE);
        break;
    }
}

/* ---- Entry -------------------------------------------------------------------------------- */

static struct outcome read_outcome(unsigned result)
{
    struct outcome outcome = {.result = result};

    if (result == VM_FAIL_VALID)
        outcome.error = (uint32_t)get(VMCS_INSTRUCTION_ERROR);
    if (result != VM_SUCCEED)
        return outcome;
    outcome.reason = (uint32_t)get(VMCS_EXIT_REASON);
    outcome.qualification = get(VMCS_QUALIFICATION);
    outcome.rip = get(VMCS_GUEST_RIP);
    outcome.event = (uint32_t)get(VMCS_EXIT_EVENT);
    outcome.error_code = (uint32_t)get(VMCS_EXIT_ERROR_CODE);
    outcome.vectoring = (uint32_t)get(VMCS_VECTORING_EVENT);
    outcome.vectoring_error_code = (uint32_t)get(VMCS_VECTORING_ERROR_CODE);
    outcome.length = (uint32_t)get(VMCS_EXIT_LENGTH);
    outcome.info = (uint32_t)get(VMCS_INSTRUCTION_INFO);
    return outcome;
}

struct outcome vm_launch(void)
{
    return read_outcome(vmlaunch(&vm_registers));
}

struct outcome vm_resume(void)
{
    return read_outcome(vmresume(&vm_registers));
}

uint64_t place(const struct code *code, unsigned at)
{
    if (at >= AT_VECTOR)
        return (uint64_t)vmx_vectors + (at - AT_VECTOR) * VECTOR_BYTES;
    return (uint64_t)(at == AT_END ? code->end : code->insn);
}
