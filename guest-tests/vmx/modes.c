/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guests outside of 64-bit mode: unrestricted guests with CR0.PE or PG = 0, 32-bit guests with and
 * without PAE, PDPTEs, virtual-8086 mode, and task switches, which always exit (volume 3,
 * "Unrestricted Guests", "Checks on Guest Page-Directory-Pointer-Table Entries", "Exit
 * Qualification for Task Switches").
 *
 * Their code and tables stand in one page of low memory, which real mode can address.
 *
 * Sections: settings, rows, INT n in virtual-8086 mode, PDPTEs, task switches.
 */
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "string.h"
#include "tests.h"
#include "vm.h"

/* ---- Settings ----------------------------------------------------------------------------- */

#define LOW_PAGE   0x8000u /* of a PC's first 640 KiB, which nothing uses here */
#define CODE_AT    0x000u
#define GDT_AT     0x400u
#define IDT_AT     0x500u
#define STACK_AT   0xf00u
#define CR0_PE     (1ull << 0)
#define CR0_PG     (1ull << 31)
#define CR4_PAE    (1ull << 5)
#define CR4_PSE    (1ull << 4)
#define RFLAGS_VM  (1u << 17)
#define RIGHTS_16  0x009bu
#define RIGHTS_D16 0x0093u
#define RIGHTS_32  0xc09bu
#define RIGHTS_D32 0xc093u
#define RIGHTS_V86 0x00f3u
#define PAGE_LARGE 0x87u
#define VEC_GP     13u

enum mode { REAL, PROTECTED, PAGED, PAE, VIRTUAL_8086 };

static uint64_t directory_phys, pdpt_phys;

static uint8_t *low(unsigned at)
{
    return phys_to_virt(LOW_PAGE + at);
}

/* One to one: the first 4 MiB by one large page, the first GiB by PAE's. */
static void make_tables(void)
{
    uint64_t *pdpt, *pages;

    directory_phys = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    pdpt_phys = phys_alloc(2 * PAGE_BYTES, PAGE_BYTES);
    *(uint32_t *)phys_to_virt(directory_phys) = PAGE_LARGE;
    pdpt = phys_to_virt(pdpt_phys);
    pages = phys_to_virt(pdpt_phys + PAGE_BYTES);
    pdpt[0] = (pdpt_phys + PAGE_BYTES) | PTE_PRESENT;
    pages[0] = PAGE_LARGE;
}

static void put_segments(uint64_t base, uint32_t limit, uint32_t code, uint32_t data)
{
    for (unsigned at = 0; at <= VMCS_GUEST_GS - VMCS_GUEST_ES; at += 2) {
        put(VMCS_GUEST_ES + at, base >> 4 & UINT16_MAX);
        put(VMCS_GUEST_ES_BASE + at, base);
        put(VMCS_GUEST_ES_LIMIT + at, limit);
        put(VMCS_GUEST_ES_RIGHTS + at, VMCS_GUEST_ES + at == VMCS_GUEST_CS ? code : data);
    }
}

static void put_flat(void)
{
    put_segments(0, UINT32_MAX, RIGHTS_32, RIGHTS_D32);
    put(VMCS_GUEST_CS, 0x08);
    put(VMCS_GUEST_SS, 0x10);
}

static void put_paging(uint64_t cr0, uint64_t cr4, uint64_t cr3)
{
    put(VMCS_GUEST_CR0, (get(VMCS_GUEST_CR0) & ~(CR0_PE | CR0_PG)) | cr0);
    put(VMCS_GUEST_CR4, (get(VMCS_GUEST_CR4) & ~CR4_PAE) | cr4);
    put(VMCS_GUEST_CR3, cr3);
}

static void put_mode(enum mode mode)
{
    switch (mode) {
    case REAL:
        put_segments(LOW_PAGE, UINT16_MAX, RIGHTS_16, RIGHTS_D16);
        put_paging(0, 0, 0);
        put(VMCS_GUEST_IDTR_LIMIT, 0x3ff);
        put(VMCS_GUEST_IDTR_BASE, LOW_PAGE + IDT_AT);
        break;
    case PROTECTED:
        put_flat();
        put_paging(CR0_PE, 0, 0);
        break;
    case PAGED:
        put_flat();
        put_paging(CR0_PE | CR0_PG, CR4_PSE, directory_phys);
        break;
    case PAE:
        put_flat();
        put_paging(CR0_PE | CR0_PG, CR4_PAE, pdpt_phys);
        break;
    case VIRTUAL_8086:
        put_segments(LOW_PAGE, UINT16_MAX, RIGHTS_V86, RIGHTS_V86);
        put_paging(CR0_PE | CR0_PG, CR4_PSE, directory_phys);
        put(VMCS_GUEST_RFLAGS, get(VMCS_GUEST_RFLAGS) | RFLAGS_VM);
        break;
    }
    put(VMCS_GUEST_RIP, mode == REAL || mode == VIRTUAL_8086 ? CODE_AT : LOW_PAGE + CODE_AT);
    put(VMCS_GUEST_RSP, mode == REAL || mode == VIRTUAL_8086 ? STACK_AT : LOW_PAGE + STACK_AT);
}

#define UNRESTRICTED                                                                               \
    {                                                                                              \
        .proc2 = PROC2_EPT | PROC2_UNRESTRICTED                                                    \
    }
#define NOT_64                                                                                     \
    {                                                                                              \
        .entry = ENTRY_IA32E                                                                       \
    }

static bool begin(enum mode mode, const struct controls *on, const char *name)
{
    static const struct controls off = NOT_64;
    struct lacking lacking;

    vm_reset(&nop_code);
    if (!vm_controls(on, &off, &lacking)) {
        skip_lacking(&lacking, name);
        return false;
    }
    if (field_exists(VMCS_GUEST_EFER))
        put(VMCS_GUEST_EFER, 0);
    memset(low(0), 0, PAGE_BYTES);
    put_mode(mode);
    return true;
}

/* ---- Rows --------------------------------------------------------------------------------- */

#define FAILED   (REASON_ENTRY_FAILED | REASON_GUEST_STATE)
#define BAD      .reason = FAILED
#define BYTES(s) s, sizeof(s) - 1

static const struct mode_row {
    const char *name;
    const char *bytes; /* of the guest's code */
    size_t length;
    enum mode mode;
    struct controls on;
    struct change changes[2];
    uint64_t qualification;
    uint64_t rip; /* from the code's beginning */
    uint32_t reason;
} rows[] = {
    {"real mode: VMCALL", BYTES("\x0f\x01\xc1"), REAL, UNRESTRICTED, .reason = REASON_VMCALL},
    {"real mode: CPUID behind a store", BYTES("\x89\x1e\x00\x08\x0f\xa2"), REAL, UNRESTRICTED,
     .reason = REASON_CPUID, .rip = 4},
    {"real mode: LMSW of a masked PE that is 0 in the shadow",
     BYTES("\xb8\x01\x00\x0f\x01\xf0"),
     REAL,
     UNRESTRICTED,
     {{PUT, VMCS_CR0_MASK, CR0_PE}},
     .reason = REASON_CR,
     .qualification = 3u << 4 | 1u << 16,
     .rip = 3},
    {"real mode: PE that is not masked may be set",
     BYTES("\x0f\x20\xc0\x0c\x01\x0f\x22\xc0\x0f\x01\xc1"), REAL, UNRESTRICTED,
     .reason = REASON_VMCALL, .rip = 8},
    {"real mode without unrestricted guest", BYTES("\x90"), REAL, {0}, BAD},
    {"real mode: an injected #UD goes through the vector table",
     BYTES("\x90"),
     REAL,
     UNRESTRICTED,
     {{PUT, VMCS_ENTRY_EVENT, EVENT_VALID | EVENT_EXCEPTION | 6}},
     .reason = REASON_VMCALL,
     .rip = 0x80},
    {"protected mode without paging: VMCALL", BYTES("\x0f\x01\xc1"), PROTECTED, UNRESTRICTED,
     .reason = REASON_VMCALL},
    {"protected mode without paging, without unrestricted guest",
     BYTES("\x90"),
     PROTECTED,
     {0},
     BAD},
    {"32-bit paging: VMCALL", BYTES("\x0f\x01\xc1"), PAGED, {0}, .reason = REASON_VMCALL},
    {"32-bit paging: CPUID", BYTES("\x0f\xa2"), PAGED, {0}, .reason = REASON_CPUID},
    {"32-bit guest: RIP with bit 32",
     BYTES("\x90"),
     PAGED,
     {0},
     {{SET, VMCS_GUEST_RIP, 1ull << 32}},
     BAD,
     .rip = 1ull << 32},
    {"32-bit guest: CS.L with CS.D is no matter",
     BYTES("\x0f\x01\xc1"),
     PAGED,
     {0},
     {{SET, VMCS_GUEST_CS_RIGHTS, 1u << 13}},
     .reason = REASON_VMCALL},
    {"PAE paging: VMCALL", BYTES("\x0f\x01\xc1"), PAE, {0}, .reason = REASON_VMCALL},
    {"PAE paging: INT3 without a gate is #GP in the bitmap",
     BYTES("\xcc"),
     PAE,
     {0},
     {{PUT, VMCS_EXCEPTION_BITMAP, 1u << VEC_GP}, {PUT, VMCS_GUEST_IDTR_LIMIT, 0}},
     .reason = REASON_EXCEPTION},
    {"virtual-8086 mode: CPUID", BYTES("\x0f\xa2"), VIRTUAL_8086, {0}, .reason = REASON_CPUID},
    {"virtual-8086 mode: CS base is not 16 times the selector",
     BYTES("\x90"),
     VIRTUAL_8086,
     {0},
     {{PUT, VMCS_GUEST_CS, 0x1234}},
     BAD},
    {"virtual-8086 mode: limit of DS is not FFFFH",
     BYTES("\x90"),
     VIRTUAL_8086,
     {0},
     {{PUT, VMCS_GUEST_DS_LIMIT, 0xfffff}},
     BAD},
    {"virtual-8086 mode: rights of SS are not F3H",
     BYTES("\x90"),
     VIRTUAL_8086,
     {0},
     {{PUT, VMCS_GUEST_SS_RIGHTS, 0x93}},
     BAD},
};

/* Where real mode's vector 6 leads: behind the code, to a VMCALL. */
static void put_vector_6(void)
{
    const uint16_t gate[2] = {0x80, LOW_PAGE >> 4};

    memcpy(low(IDT_AT + 6 * sizeof(gate)), gate, sizeof(gate));
    memcpy(low(0x80), "\x0f\x01\xc1", 3);
}

static void test_row(const struct mode_row *row)
{
    const uint64_t begins = row->mode == REAL || row->mode == VIRTUAL_8086 ? 0 : LOW_PAGE;
    struct outcome outcome;

    if (!begin(row->mode, &row->on, row->name))
        return;
    memcpy(low(CODE_AT), row->bytes, row->length);
    put_vector_6();
    for (unsigned i = 0; i < 2; i++)
        vm_change(&row->changes[i]);
    outcome = vm_launch();
    report_value(outcome.reason, row->reason, "%s", row->name);
    report_value(outcome.rip, begins + row->rip, "%s: RIP", row->name);
    if (row->qualification)
        report_value(outcome.qualification, row->qualification, "%s: qualification", row->name);
}

/* Real mode has no error codes. */
static void test_error_code(void)
{
    static const struct controls on = UNRESTRICTED;

    if (vmx_basic() & BASIC_ANY_ERROR_CODE) {
        report_skip("IA32_VMX_BASIC[56]", "real mode: an injected event with an error code");
        return;
    }
    if (!begin(REAL, &on, "real mode: an injected event with an error code"))
        return;
    put(VMCS_ENTRY_EVENT, EVENT_VALID | EVENT_EXCEPTION | EVENT_ERROR_CODE | VEC_GP);
    report_value(vm_launch().error, ERROR_CONTROLS,
                 "real mode: an injected event with an error code");
}

/* ---- INT n in virtual-8086 mode ----------------------------------------------------------- */

#define MSR_CR4_FIXED1 0x489u
#define CR4_VME        (1ull << 0)
#define RFLAGS_IF      (1u << 9)
#define RFLAGS_IOPL    (3u << 12)
#define TASK_AT        0x600u
#define TASK_IO_BASE   0x66u
#define TASK_BITMAP    0x68u
#define TASK_BYTES     0x100u
#define VECTOR         0x40u

/* A VM in that mode whose code is INT 40H, which the bitmap keeps there unless it goes out. */
static bool begin_int(bool out, const char *name)
{
    static const struct controls none;
    const uint16_t io_base = TASK_BITMAP + 32;

    if (!(rdmsr(MSR_CR4_FIXED1) & CR4_VME)) {
        report_skip("no CR4.VME", "%s", name);
        return false;
    }
    if (!begin(VIRTUAL_8086, &none, name))
        return false;
    put_vector_6(); /* for the VMCALL */
    memcpy(low(CODE_AT), "\xcd\x40", 2);
    memcpy(low(TASK_AT + TASK_IO_BASE), &io_base, sizeof(io_base));
    *low(TASK_AT + TASK_BITMAP + VECTOR / 8) = out ? 1u << VECTOR % 8 : 0;
    put(VMCS_GUEST_TR_BASE, LOW_PAGE + TASK_AT);
    put(VMCS_GUEST_TR_LIMIT, TASK_BYTES - 1);
    put(VMCS_GUEST_CR4, get(VMCS_GUEST_CR4) | CR4_VME);
    put(VMCS_GUEST_RFLAGS, get(VMCS_GUEST_RFLAGS) | RFLAGS_IF | RFLAGS_IOPL);
    put(VMCS_GUEST_IDTR_LIMIT, 0);
    put(VMCS_EXCEPTION_BITMAP, 1u << VEC_GP);
    return true;
}

static void test_redirected(void)
{
    const uint16_t gate[2] = {0x80, LOW_PAGE >> 4};
    uint8_t *const vectors = phys_to_virt(0);
    uint8_t kept[sizeof(gate)];
    const uint16_t *stack;
    struct outcome outcome;

    if (!begin_int(false, "virtual-8086 mode: INT n through its own vectors"))
        return;
    memcpy(kept, vectors + VECTOR * sizeof(gate), sizeof(gate));
    memcpy(vectors + VECTOR * sizeof(gate), gate, sizeof(gate));
    outcome = vm_launch();
    memcpy(vectors + VECTOR * sizeof(gate), kept, sizeof(gate));
    stack = (const uint16_t *)low(STACK_AT - 6);
    report(outcome.reason == REASON_VMCALL && outcome.rip == 0x80,
           "virtual-8086 mode: INT n through its own vectors");
    report_value(get(VMCS_GUEST_RFLAGS) & (RFLAGS_IF | RFLAGS_VM | RFLAGS_IOPL),
                 RFLAGS_VM | RFLAGS_IOPL, "virtual-8086 mode: INT n clears IF");
    report(get(VMCS_GUEST_RSP) == STACK_AT - 6 && stack[0] == 2 && stack[1] == LOW_PAGE >> 4 &&
               (stack[2] & RFLAGS_IF),
           "virtual-8086 mode: INT n pushes FLAGS, CS and IP");
}

static void test_not_redirected(void)
{
    struct outcome outcome;

    if (!begin_int(true, "virtual-8086 mode: INT n of the bitmap"))
        return;
    outcome = vm_launch();
    report_value(outcome.error_code, VECTOR * 8 + 2, "virtual-8086 mode: INT n of the bitmap");
    report_value(outcome.vectoring, EVENT_VALID | EVENT_SOFTWARE | VECTOR,
                 "virtual-8086 mode: INT n of the bitmap, IDT-vectoring information");
}

/* ---- PDPTEs ------------------------------------------------------------------------------- */

#define QUALIFY_PDPTE 2u

/* Without EPT they are in memory, with EPT in the VMCS. */
static void test_pdpte(bool ept, uint64_t value, bool bad, const char *name)
{
    static const struct controls none, with_ept = {.proc2 = PROC2_EPT};
    uint64_t *pdpt = phys_to_virt(pdpt_phys);
    struct outcome outcome;

    if (!begin(PAE, ept ? &with_ept : &none, name))
        return;
    memcpy(low(CODE_AT), "\x0f\x01\xc1", 3);
    if (ept) {
        put(VMCS_GUEST_PDPTE_0, pdpt[0]);
        put(VMCS_GUEST_PDPTE_1, 0);
        put(VMCS_GUEST_PDPTE_2, 0);
        put(VMCS_GUEST_PDPTE_3, value);
    }
    pdpt[3] = ept ? 0x1e6 : value; /* reserved bits: nobody reads it with EPT */
    outcome = vm_launch();
    pdpt[3] = 0;
    report_value(outcome.reason, bad ? FAILED : REASON_VMCALL, "PDPTE, %s: %s",
                 ept ? "EPT" : "no EPT", name);
    if (bad)
        report_value(outcome.qualification, QUALIFY_PDPTE, "PDPTE, %s: %s, qualification",
                     ept ? "EPT" : "no EPT", name);
}

static void test_pdptes(void)
{
    for (unsigned ept = 0; ept < 2; ept++) {
        test_pdpte(ept, 0, false, "not present");
        test_pdpte(ept, PTE_PRESENT, false, "present");
        test_pdpte(ept, PTE_PRESENT | 1u << 1, true, "bit 1");
        test_pdpte(ept, PTE_PRESENT | 1u << 5, true, "bit 5");
        test_pdpte(ept, PTE_PRESENT | 1ull << 63, true, "bit 63");
        test_pdpte(ept, 1u << 5, false, "bit 5, not present");
    }
}

/* ---- Task switches ------------------------------------------------------------------------ */

#define GDT_CODE  0x00cf9b000000ffffull
#define GDT_DATA  0x00cf93000000ffffull
#define GDT_TSS   0x0000890090000067ull /* 32-bit, available, at 9000H */
#define TASK_GATE 0x0000e50000180000ull
#define NEW_TSS   0x18u
#define BY_CALL   (0u << 30)
#define BY_JMP    (2u << 30)
#define BY_GATE   (3u << 30)

static const struct {
    const char *name;
    const char *bytes;
    size_t length;
    uint32_t event; /* injected */
    uint32_t qualification;
    uint32_t insn_length;
} tasks[] = {
    {"far CALL of a TSS", BYTES("\x9a\x00\x00\x00\x00\x18\x00"), 0, NEW_TSS | BY_CALL, 7},
    {"far JMP to a TSS", BYTES("\xea\x00\x00\x00\x00\x18\x00"), 0, NEW_TSS | BY_JMP, 7},
    {"INT3 through a task gate", BYTES("\xcc"), 0, NEW_TSS | BY_GATE, 1},
    {"an injected NMI through a task gate", BYTES("\x90"), EVENT_VALID | EVENT_NMI | 2,
     NEW_TSS | BY_GATE, 0},
};

static void test_tasks(void)
{
    static const struct controls none;
    const uint64_t gdt[] = {0, GDT_CODE, GDT_DATA, GDT_TSS};
    const uint64_t gates[] = {0, 0, TASK_GATE, TASK_GATE};

    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
        struct outcome outcome;

        if (!begin(PAGED, &none, tasks[i].name))
            continue;
        memcpy(low(CODE_AT), tasks[i].bytes, tasks[i].length);
        memcpy(low(GDT_AT), gdt, sizeof(gdt));
        memcpy(low(IDT_AT), gates, sizeof(gates));
        put(VMCS_GUEST_GDTR_BASE, LOW_PAGE + GDT_AT);
        put(VMCS_GUEST_GDTR_LIMIT, sizeof(gdt) - 1);
        put(VMCS_GUEST_IDTR_BASE, LOW_PAGE + IDT_AT);
        put(VMCS_GUEST_IDTR_LIMIT, sizeof(gates) - 1);
        put(VMCS_ENTRY_EVENT, tasks[i].event);
        outcome = vm_launch();
        report_value(outcome.reason, REASON_TASK_SWITCH, "task switch, %s", tasks[i].name);
        report_value(outcome.qualification, tasks[i].qualification,
                     "task switch, %s: qualification", tasks[i].name);
        report_value(outcome.rip, LOW_PAGE + CODE_AT, "task switch, %s: RIP", tasks[i].name);
        if (tasks[i].insn_length)
            report_value(outcome.length, tasks[i].insn_length,
                         "task switch, %s: instruction length", tasks[i].name);
        if (tasks[i].event)
            report_value(outcome.vectoring, tasks[i].event,
                         "task switch, %s: IDT-vectoring information", tasks[i].name);
    }
}

void test_modes(void)
{
    make_tables();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        test_row(&rows[i]);
    test_error_code();
    test_redirected();
    test_not_redirected();
    test_pdptes();
    test_tasks();
}
