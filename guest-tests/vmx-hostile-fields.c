/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The VMCS of a hostile VMM: fields with any value, controls in any combination, MSR areas and
 * bitmaps; and what a merciful one puts right before an entry, since it lives by it.
 */
#include "cpu.h"
#include "memory.h"
#include "pt.h"
#include "string.h"
#include "trap.h"
#include "vmx-hostile.h"
#include "vmx/vm.h"

#define RFLAGS_FIXED   2u
#define AREA_ENTRIES   8u
#define SOON           1024u /* ticks of the preemption timer */
#define LATER          65536u
#define SELECTOR_TSS   0x30u
#define MSR_BITMAP_ALL 0xffu
#define TABLE_ENTRIES  8u

static uint64_t areas, msr_bitmaps, trace_table;

static const uint16_t fields[] = {
#define FIELD_ENCODING(name, encoding, kind, bits) (encoding),
    VMCS_FIELDS(FIELD_ENCODING)
#undef FIELD_ENCODING
};

static uint64_t field_now(unsigned field)
{
    uint64_t value = 0;

    vmread(field, &value);
    return value;
}

void fields_make(void)
{
    areas = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    msr_bitmaps = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    trace_table = phys_alloc(PAGE_BYTES, PAGE_BYTES);
}

/* ---- MSRs --------------------------------------------------------------------------------- */

struct msr_entry {
    uint32_t index, reserved;
    uint64_t value;
};

/* Whose values hurt nobody but the guest: SYSENTER, the TSC's auxiliary, SYSCALL. */
static const uint32_t harmless[] = {0x174,      0x175,      0x176,      0xc0000103,
                                    0xc0000081, 0xc0000082, 0xc0000084, 0xc0000102};

static uint32_t some_msr(void)
{
    if (!merciless || once_in(2))
        return harmless[below(sizeof(harmless) / sizeof(harmless[0]))];
    switch (below(4)) {
    case 0:
        return 0x560 + (uint32_t)below(0x40);
    case 1:
        return 0x480 + (uint32_t)below(0x20);
    case 2:
        return (uint32_t)(0xc0000080 + below(8));
    default:
        return (uint32_t)sparse();
    }
}

uint64_t random_ctl(void)
{
    const uint64_t bits = CTL_CYCEN | CTL_OS | CTL_USER | CTL_PWREVTEN | CTL_FUPONPTW |
                          CTL_CR3FILTER | CTL_MTCEN | CTL_TSCEN | CTL_DISRETC | CTL_PTWEN |
                          CTL_EVENTEN | CTL_DISTNT | CTL_BRANCHEN;
    const uint64_t ctl = (number() & bits) | below(6) << CTL_PSBFREQ_SHIFT;

    /* A single range begins where the table is, and its mask is one of a table. */
    return ctl | (once_in(8) ? 0 : CTL_TOPA) | (once_in(4) ? 0 : CTL_TRACEEN) |
           (once_in(8) ? sparse() : 0);
}

static void fill_area(struct msr_entry *area)
{
    for (unsigned i = 0; i < AREA_ENTRIES; i++) {
        area[i] = (struct msr_entry){some_msr(), 0, merciless || once_in(2) ? sparse() : 0};
        if (once_in(4) && pt_caps()->present)
            area[i] = (struct msr_entry){MSR_RTIT_CTL, 0, random_ctl()};
        if (once_in(32))
            area[i].reserved = (uint32_t)sparse();
    }
}

/* An exit that cannot load or store an MSR is the VMM's end: those are 0, and in order. */
static void tame_area(struct msr_entry *area)
{
    for (unsigned i = 0; i < AREA_ENTRIES; i++)
        area[i] = (struct msr_entry){harmless[i], 0, 0};
}

/* For the guest, but of the trace, whose output could go anywhere. */
static void fill_bitmap(void)
{
    uint8_t *bytes = phys_to_virt(msr_bitmaps);

    memset(bytes, MSR_BITMAP_ALL, PAGE_BYTES);
    for (unsigned i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
        const unsigned at = (harmless[i] >> 31) * 1024 + (harmless[i] & 0x1fff) / 8;

        if (once_in(2))
            bytes[at + below(2) * 2048] &= (uint8_t) ~(1u << (harmless[i] & 7));
    }
}

void fields_fill_areas(void)
{
    struct msr_entry *area = phys_to_virt(areas);

    for (unsigned i = 0; i < 3; i++)
        fill_area(area + i * AREA_ENTRIES);
    if (!merciless || !once_in(MERCY)) {
        tame_area(area);
        tame_area(area + AREA_ENTRIES);
    }
    fill_bitmap();
}

/* ---- A VM that runs ----------------------------------------------------------------------- */

/* However it was left: VMX operation, and a VMCS that is one. */
static void begin_anew(void)
{
    const uint32_t revision = (uint32_t)vmx_basic() & INT32_MAX;

    vmxoff();
    memset(phys_to_virt(vm_pages.vmxon), 0, PAGE_BYTES);
    memset(phys_to_virt(vm_pages.vmcs), 0, PAGE_BYTES);
    *(uint32_t *)phys_to_virt(vm_pages.vmxon) = revision;
    *(uint32_t *)phys_to_virt(vm_pages.vmcs) = revision;
    vmxon(&vm_pages.vmxon);
}

void fields_reset(void)
{
    begin_anew();
    vm_reset(&nop_code);
    vmwrite(VMCS_GUEST_CR3, PAGE_PAGING * PAGE_BYTES);
    vmwrite(VMCS_GUEST_RIP, code_place());
    vmwrite(VMCS_GUEST_RSP, (PAGE_STACK + 1) * PAGE_BYTES - 64);
    vmwrite(VMCS_GUEST_GDTR_BASE, PAGE_GDT * PAGE_BYTES);
    vmwrite(VMCS_GUEST_IDTR_BASE, PAGE_IDT * PAGE_BYTES);
    vmwrite(VMCS_GUEST_TR_BASE, PAGE_TSS * PAGE_BYTES);
    vmwrite(VMCS_GUEST_TR_LIMIT, sizeof(struct tss) - 1);
    vmwrite(VMCS_GUEST_TR, SELECTOR_TSS);
    vmwrite(VMCS_GUEST_RFLAGS, RFLAGS_FIXED | (once_in(2) ? 1u << 9 : 0));
    vmwrite(VMCS_VPID, 1 + below(3));
    if (pt_caps()->present)
        vmwrite(VMCS_GUEST_RTIT_CTL, random_ctl());
}

/* ---- Changes ------------------------------------------------------------------------------ */

static uint64_t other_value(unsigned field)
{
    const uint64_t now = field_now(field);

    switch (below(8)) {
    case 0:
        return sparse();
    case 1:
        return number();
    case 2:
        return some_page();
    case 3:
        return some_page() | sparse();
    case 4:
        return now + below(3) - 1;
    case 5:
        return field_now(fields[below(sizeof(fields) / sizeof(fields[0]))]);
    case 6:
        return code_place();
    default:
        return now ^ 1ull << below(64);
    }
}

void fields_change(void)
{
    const unsigned field = fields[below(sizeof(fields) / sizeof(fields[0]))];
    const bool host = field_type(field) == FIELD_HOST;

    /* Most settings of the host are the end of it. */
    if (!host || once_in(32))
        vmwrite(once_in(32) ? field | FIELD_HIGH : field, other_value(field));
}

/* An event that most entries take. */
static void change_event(void)
{
    static const uint32_t types[] = {
        EVENT_INTERRUPT,      EVENT_NMI,   EVENT_EXCEPTION,  EVENT_SOFTWARE,
        EVENT_SOFT_EXCEPTION, EVENT_OTHER, EVENT_PRIVILEGED, EVENT_EXCEPTION};
    const uint32_t type = types[below(sizeof(types) / sizeof(types[0]))];
    const uint64_t vector = type == EVENT_NMI     ? 2
                            : type == EVENT_OTHER ? 0
                                                  : below(type == EVENT_EXCEPTION ? 32 : 256);
    const bool error = type == EVENT_EXCEPTION && (0x227d00 >> vector & 1);

    vmwrite(VMCS_ENTRY_EVENT, EVENT_VALID | type | vector | (error ? EVENT_ERROR_CODE : 0));
    vmwrite(VMCS_ENTRY_ERROR_CODE, below(0x10000));
    vmwrite(VMCS_ENTRY_LENGTH, 1 + below(3));
}

void fields_change_controls(void)
{
    static const struct {
        enum control kind;
        unsigned field;
    } rows[] = {{PIN, VMCS_PIN_CONTROLS},     {PROC, VMCS_PROC_CONTROLS},
                {PROC2, VMCS_PROC2_CONTROLS}, {EXIT, VMCS_EXIT_CONTROLS},
                {ENTRY, VMCS_ENTRY_CONTROLS}, {PROC, VMCS_PROC_CONTROLS}};
    const unsigned row = (unsigned)below(sizeof(rows) / sizeof(rows[0]));
    const uint32_t now = (uint32_t)field_now(rows[row].field);
    const uint32_t other = once_in(2) ? (uint32_t)(now ^ sparse()) : (uint32_t)sparse() | now;

    if (once_in(3))
        change_event();
    vmwrite(rows[row].field, once_in(16) ? other
                                         : (other | control_required(rows[row].kind)) &
                                               control_allowed(rows[row].kind));
}

/* ---- What the VMM lives by ---------------------------------------------------------------- */

/*
 * Output of a guest's trace goes to the arena: a table of the VMM's at physical addresses, and one
 * of the guest's where EPT translates them.
 */
static void put_output(void)
{
    uint64_t *table = phys_to_virt(trace_table);
    const bool by_ept = field_now(VMCS_PROC2_CONTROLS) & PROC2_PT_USES_GPA;

    if (!pt_caps()->present || !pt_caps()->topa || (rdmsr(MSR_RTIT_CTL) & CTL_TRACEEN))
        return;
    for (unsigned i = 0; i < TABLE_ENTRIES; i++)
        table[i] = topa_entry(arena + below(ARENA_PAGES) * PAGE_BYTES, 0,
                              sparse() & (TOPA_INT | TOPA_STOP));
    table[TABLE_ENTRIES - 1] = trace_table | TOPA_END;
    wrmsr_safe(MSR_RTIT_STATUS, 0);
    wrmsr_safe(MSR_RTIT_OUTPUT_BASE,
               by_ept ? (PAGE_TOPA + below(TOPA_PAGES)) * PAGE_BYTES : trace_table);
    wrmsr_safe(MSR_RTIT_OUTPUT_MASK_PTRS, topa_pointers(0, 0));
}

static void set_bits(unsigned field, enum control kind, uint32_t on, uint32_t off)
{
    const uint64_t now = field_now(field);

    vmwrite(field, (now | (on & control_allowed(kind))) & ~(uint64_t)off);
}

void fields_set_timer(void)
{
    set_bits(VMCS_PIN_CONTROLS, PIN, PIN_PREEMPTION_TIMER, 0);
    vmwrite(VMCS_PREEMPTION_TIMER, below(once_in(4) ? SOON : LATER));
}

void fields_constrain(void)
{
    vm_put_host();
    fields_set_timer();
    set_bits(VMCS_PROC_CONTROLS, PROC, PROC_SECONDARY | PROC_MSR_BITMAPS | PROC_UNCONDITIONAL_IO,
             PROC_IO_BITMAPS);
    set_bits(VMCS_PROC2_CONTROLS, PROC2, PROC2_EPT, 0);
    set_bits(VMCS_EXIT_CONTROLS, EXIT, EXIT_HOST_64, 0);
    vmwrite(VMCS_EPTP, memory_eptp());
    vmwrite(VMCS_MSR_BITMAPS, msr_bitmaps);
    vmwrite(VMCS_EXIT_MSR_STORE, areas);
    vmwrite(VMCS_EXIT_STORE_COUNT, below(AREA_ENTRIES + 1));
    vmwrite(VMCS_EXIT_MSR_LOAD, areas + AREA_ENTRIES * sizeof(struct msr_entry));
    vmwrite(VMCS_EXIT_LOAD_COUNT, below(AREA_ENTRIES + 1));
    vmwrite(VMCS_ENTRY_MSR_LOAD, areas + 2 * AREA_ENTRIES * sizeof(struct msr_entry));
    vmwrite(VMCS_ENTRY_LOAD_COUNT, once_in(4) ? below(AREA_ENTRIES + 1) : 0);
    put_output();
}
