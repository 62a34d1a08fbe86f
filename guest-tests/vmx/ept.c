/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * EPT: pages of each size, rights, violations and misconfigurations, accessed and dirty flags, and
 * violations in page walks and in deliveries (volume 3, "The Extended Page Table Mechanism", "Exit
 * Qualification for EPT Violations").
 *
 * The guest-physical addresses from 1 GiB on, where the machine has nothing, are the cases' own.
 *
 * Sections: rows, addresses, walks and deliveries, flags.
 */
#include "console.h"
#include "cpu.h"
#include "ept-tables.h"
#include "memory.h"
#include "string.h"
#include "tests.h"
#include "vm.h"

/* ---- Rows --------------------------------------------------------------------------------- */

#define TEST_GPA   0x40000000ull
#define PAGE_2M    (2ull << 20)
#define TYPE_MASK  (7ull << EPT_TYPE_SHIFT)
#define TYPE(n)    ((uint64_t)(n) << EPT_TYPE_SHIFT)
#define BY_READ    (1u << 0)
#define BY_WRITE   (1u << 1)
#define BY_FETCH   (1u << 2)
#define HAS_READ   (1u << 3)
#define HAS_WRITE  (1u << 4)
#define HAS_EXEC   (1u << 5)
#define LINEAR     (1u << 7)
#define FINAL      (1u << 8)
#define QUALIFIERS 0x1bfu /* without what is left to other features */
#define RET_OPCODE 0xc3u

SNIPPET(ept_load, "movl (%rbx), %eax");
SNIPPET(ept_store, "movl %eax, (%rbx)");
SNIPPET(ept_fetch, "call *%rbx");
SNIPPET(ept_ud2, "ud2");

enum access { LOAD, STORE, FETCH };
static const struct code accesses[] = {
    [LOAD] = CODE(ept_load),
    [STORE] = CODE(ept_store),
    [FETCH] = CODE(ept_fetch),
};

static uint64_t eptp, test_phys;

struct ept_row {
    const char *name;
    enum access access;
    unsigned page, at; /* levels: of the page, and of the entry that differs */
    uint64_t clear, set;
    uint64_t need; /* of IA32_VMX_EPT_VPID_CAP */
    uint32_t reason;
    uint32_t qualification;
};

#define OK           .reason = REASON_VMCALL
#define VIOLATES(to) .reason = REASON_EPT_VIOLATION, .qualification = (to) | LINEAR | FINAL
#define MISCONFIG    .reason = REASON_EPT_MISCONFIG

static const struct ept_row rows[] = {
    {"4-KiB page, load", LOAD, 1, 1, OK},
    {"4-KiB page, store", STORE, 1, 1, OK},
    {"4-KiB page, fetch", FETCH, 1, 1, OK},
    {"2-MiB page, load", LOAD, 2, 2, .need = EPT_PAGES_2M, OK},
    {"2-MiB page, store", STORE, 2, 2, .need = EPT_PAGES_2M, OK},
    {"2-MiB page, fetch", FETCH, 2, 2, .need = EPT_PAGES_2M, OK},
    {"1-GiB page, load", LOAD, 3, 3, .need = EPT_PAGES_1G, OK},
    {"1-GiB page, store", STORE, 3, 3, .need = EPT_PAGES_1G, OK},
    {"1-GiB page, fetch", FETCH, 3, 3, .need = EPT_PAGES_1G, OK},
    {"page that is not present, load", LOAD, 1, 1, .clear = UINT64_MAX, VIOLATES(BY_READ)},
    {"page that is not present, store", STORE, 1, 1, .clear = UINT64_MAX, VIOLATES(BY_WRITE)},
    {"page that is not present, fetch", FETCH, 1, 1, .clear = UINT64_MAX, VIOLATES(BY_FETCH)},
    {"read-only page, load", LOAD, 1, 1, .clear = EPT_WRITE | EPT_EXECUTE, OK},
    {"read-only page, store", STORE, 1, 1, .clear = EPT_WRITE | EPT_EXECUTE,
     VIOLATES(BY_WRITE | HAS_READ)},
    {"read-only page, fetch", FETCH, 1, 1, .clear = EPT_WRITE | EPT_EXECUTE,
     VIOLATES(BY_FETCH | HAS_READ)},
    {"page without execution, store", STORE, 1, 1, .clear = EPT_EXECUTE, OK},
    {"page without execution, fetch", FETCH, 1, 1, .clear = EPT_EXECUTE,
     VIOLATES(BY_FETCH | HAS_READ | HAS_WRITE)},
    {"page without writes, fetch", FETCH, 1, 1, .clear = EPT_WRITE, OK},
    {"page without writes, store", STORE, 1, 1, .clear = EPT_WRITE,
     VIOLATES(BY_WRITE | HAS_READ | HAS_EXEC)},
    {"execute-only page, fetch", FETCH, 1, 1, .clear = EPT_READ | EPT_WRITE,
     .need = EPT_EXECUTE_ONLY, OK},
    {"execute-only page, load", LOAD, 1, 1, .clear = EPT_READ | EPT_WRITE, .need = EPT_EXECUTE_ONLY,
     VIOLATES(BY_READ | HAS_EXEC)},
    {"execute-only page, store", STORE, 1, 1, .clear = EPT_READ | EPT_WRITE,
     .need = EPT_EXECUTE_ONLY, VIOLATES(BY_WRITE | HAS_EXEC)},
    {"2-MiB page without writes, store", STORE, 2, 2, .clear = EPT_WRITE, .need = EPT_PAGES_2M,
     VIOLATES(BY_WRITE | HAS_READ | HAS_EXEC)},
    {"1-GiB page without writes, store", STORE, 3, 3, .clear = EPT_WRITE, .need = EPT_PAGES_1G,
     VIOLATES(BY_WRITE | HAS_READ | HAS_EXEC)},
    {"page table without writes, store", STORE, 1, 2, .clear = EPT_WRITE,
     VIOLATES(BY_WRITE | HAS_READ | HAS_EXEC)},
    {"page table without execution, fetch", FETCH, 1, 2, .clear = EPT_EXECUTE,
     VIOLATES(BY_FETCH | HAS_READ | HAS_WRITE)},
    {"page directory without writes, store", STORE, 1, 3, .clear = EPT_WRITE,
     VIOLATES(BY_WRITE | HAS_READ | HAS_EXEC)},
    {"page directory without writes, load", LOAD, 1, 3, .clear = EPT_WRITE, OK},
    {"page table that is not present, load", LOAD, 1, 2, .clear = UINT64_MAX, VIOLATES(BY_READ)},
    {"page directory that is not present, store", STORE, 1, 3, .clear = UINT64_MAX,
     VIOLATES(BY_WRITE)},
    {"an entry that is not present may hold anything", LOAD, 1, 1, .clear = EPT_ALL,
     .set = TYPE(7) | 1ull << 63, VIOLATES(BY_READ)},
    {"bits 11 and 62:52 of an entry are ignored", LOAD, 1, 1, .set = 0x3ffull << 52 | 1u << 11, OK},
    {"uncached memory", LOAD, 1, 1, .clear = TYPE_MASK, OK},
    {"write-through memory", LOAD, 1, 1, .clear = TYPE_MASK, .set = TYPE(4), OK},
    {"ignored PAT", LOAD, 1, 1, .set = 1u << 6, OK},
    {"misconfiguration: writes without reads", LOAD, 1, 1, .clear = EPT_READ | EPT_EXECUTE,
     MISCONFIG},
    {"misconfiguration: writes and execution without reads", FETCH, 1, 1, .clear = EPT_READ,
     MISCONFIG},
    {"misconfiguration: writes without reads in a table's entry", STORE, 1, 2, .clear = EPT_READ,
     MISCONFIG},
    {"misconfiguration: memory type 2", LOAD, 1, 1, .clear = TYPE_MASK, .set = TYPE(2), MISCONFIG},
    {"misconfiguration: memory type 3", LOAD, 1, 1, .clear = TYPE_MASK, .set = TYPE(3), MISCONFIG},
    {"misconfiguration: memory type 7", STORE, 1, 1, .clear = TYPE_MASK, .set = TYPE(7), MISCONFIG},
    {"misconfiguration: memory type 7 of a 2-MiB page", LOAD, 2, 2, .set = TYPE(7),
     .need = EPT_PAGES_2M, MISCONFIG},
    {"misconfiguration: bit 3 of a table's entry", LOAD, 1, 2, .set = 1u << 3, MISCONFIG},
    {"misconfiguration: bit 6 of a table's entry", LOAD, 1, 2, .set = 1u << 6, MISCONFIG},
    {"misconfiguration: bit 4 of a directory's entry", LOAD, 1, 3, .set = 1u << 4, MISCONFIG},
    {"misconfiguration: bit 12 of a 2-MiB page", LOAD, 2, 2, .set = 1u << 12, .need = EPT_PAGES_2M,
     MISCONFIG},
    {"misconfiguration: bit 20 of a 2-MiB page", LOAD, 2, 2, .set = 1u << 20, .need = EPT_PAGES_2M,
     MISCONFIG},
    {"misconfiguration: bit 12 of a 1-GiB page", LOAD, 3, 3, .set = 1u << 12, .need = EPT_PAGES_1G,
     MISCONFIG},
    {"misconfiguration: bit 29 of a 1-GiB page", LOAD, 3, 3, .set = 1u << 29, .need = EPT_PAGES_1G,
     MISCONFIG},
    {"misconfiguration: a large page outranks missing rights", STORE, 1, 1,
     .clear = EPT_WRITE | TYPE_MASK, .set = TYPE(7), MISCONFIG},
};

/* The test page is at the same distance from its region's beginning, whatever maps it. */
static uint64_t test_gpa(unsigned page)
{
    return page == 3 ? TEST_GPA + test_phys : TEST_GPA;
}

static uint64_t *prepare(unsigned page, unsigned at)
{
    const uint64_t gpa = test_gpa(page);

    *(uint32_t *)phys_to_virt(test_phys) = RET_OPCODE;
    *ept_entry(eptp, TEST_GPA, 3) = 0;
    *ept_entry(eptp, gpa, page) =
        (page == 3 ? 0 : test_phys) | EPT_ALL | EPT_TYPE_WB | (page > 1 ? EPT_LARGE : 0);
    return ept_entry(eptp, gpa, at);
}

static bool begin(const struct code *code, uint64_t gpa, const char *name)
{
    static const struct controls on = {.proc2 = PROC2_EPT}, off;
    struct lacking lacking;

    vm_reset(code);
    if (!vm_controls(&on, &off, &lacking)) {
        skip_lacking(&lacking, name);
        return false;
    }
    put(VMCS_EPTP, eptp);
    vm_registers.rbx = (uint64_t)phys_to_virt(gpa);
    return true;
}

static void flush(void)
{
    invept(2, (const uint64_t[2]){0});
}

static void test_row(const struct ept_row *row)
{
    struct outcome outcome;
    uint64_t *entry;

    if ((vmx_ept_vpid() & row->need) != row->need) {
        report_skip("not in IA32_VMX_EPT_VPID_CAP", "EPT, %s", row->name);
        return;
    }
    if (!begin(&accesses[row->access], test_gpa(row->page), row->name))
        return;
    entry = prepare(row->page, row->at);
    *entry = (*entry & ~row->clear) | row->set;
    flush();
    outcome = vm_launch();
    report_value(outcome.reason, row->reason, "EPT, %s", row->name);
    if (row->reason == REASON_VMCALL)
        return;
    report_value(get(VMCS_GUEST_PHYSICAL), test_gpa(row->page), "EPT, %s: guest-physical address",
                 row->name);
    if (row->reason == REASON_EPT_VIOLATION) {
        report_value(outcome.qualification & QUALIFIERS, row->qualification,
                     "EPT, %s: qualification", row->name);
        report_value(get(VMCS_GUEST_LINEAR), vm_registers.rbx, "EPT, %s: guest-linear address",
                     row->name);
    }
}

/* A bit that is beyond physical addresses, which no table can name. */
static void test_beyond(void)
{
    static const struct {
        unsigned page, at;
        const char *name;
    } entries[] = {{1, 1, "page"}, {1, 2, "page table"}, {1, 3, "page directory"}};

    for (unsigned i = 0; i < 3; i++) {
        if (physical_bits() >= 52 || !begin(&accesses[LOAD], TEST_GPA, "address too large"))
            continue;
        *prepare(entries[i].page, entries[i].at) |= 1ull << physical_bits();
        flush();
        report_value(vm_launch().reason, REASON_EPT_MISCONFIG,
                     "EPT, misconfiguration: a %s beyond physical addresses", entries[i].name);
    }
}

/* ---- Walks and deliveries ----------------------------------------------------------------- */

#define VEC_UD 6u

/* The guest's own page table is where EPT maps nothing: its address, and no final translation. */
static void test_walk(void)
{
    struct outcome outcome;

    if (!begin(&nop_code, TEST_GPA, "page walk"))
        return;
    *prepare(1, 1) = 0;
    flush();
    put(VMCS_GUEST_CR3, TEST_GPA);
    outcome = vm_launch();
    report_value(outcome.reason, REASON_EPT_VIOLATION, "EPT, violation of a page walk");
    report_value(outcome.qualification & QUALIFIERS, BY_READ | LINEAR,
                 "EPT, violation of a page walk: qualification");
    report_value(get(VMCS_GUEST_LINEAR), (uint64_t)nop_code.begin,
                 "EPT, violation of a page walk: guest-linear address");
    report_value(get(VMCS_GUEST_PHYSICAL) & ~0xfffull, TEST_GPA,
                 "EPT, violation of a page walk: guest-physical address");
}

#define PTE_ACCESSED (1ull << 5)

/* The root of the paging structures that are in use, in the test page, with this accessed flag. */
static void copy_root(uint64_t accessed)
{
    const uint64_t *from = phys_to_virt(read_cr3() & ~0xfffull);
    uint64_t *to = phys_to_virt(test_phys);

    for (unsigned i = 0; i < 512; i++)
        to[i] = from[i] & PTE_PRESENT ? (from[i] & ~PTE_ACCESSED) | accessed : 0;
}

/*
 * The root of the guest's paging structures is where EPT allows no write. Without accessed and
 * dirty flags of EPT, only setting a flag is a write (kvm: paging_tmpl.h, walk_addr_generic()).
 */
static void test_read_only_walk(bool flags, uint64_t accessed, bool exits, const char *name)
{
    struct outcome outcome;

    if (!begin(&nop_code, TEST_GPA, name))
        return;
    if (flags && !(vmx_ept_vpid() & EPT_ACCESSED_DIRTY)) {
        report_skip("no accessed and dirty flags", "EPT, %s", name);
        return;
    }
    *prepare(1, 1) &= ~EPT_WRITE;
    flush();
    put(VMCS_EPTP, eptp | (flags ? EPTP_AD : 0));
    copy_root(accessed);
    put(VMCS_GUEST_CR3, TEST_GPA);
    outcome = vm_launch();
    report_value(outcome.reason, exits ? REASON_EPT_VIOLATION : REASON_VMCALL, "EPT, %s", name);
    if (exits)
        report_value(outcome.qualification & QUALIFIERS,
                     BY_READ | BY_WRITE | HAS_READ | HAS_EXEC | LINEAR, "EPT, %s: qualification",
                     name);
}

static void test_delivery(void)
{
    static const struct code code = CODE(ept_ud2);
    struct outcome outcome;

    if (!begin(&code, TEST_GPA, "delivery"))
        return;
    *prepare(1, 1) = 0;
    flush();
    put(VMCS_GUEST_IDTR_BASE, (uint64_t)phys_to_virt(TEST_GPA));
    outcome = vm_launch();
    report_value(outcome.reason, REASON_EPT_VIOLATION, "EPT, violation of a delivery");
    report_value(outcome.vectoring, EVENT_VALID | EVENT_EXCEPTION | VEC_UD,
                 "EPT, violation of a delivery: IDT-vectoring information");
    report_value(outcome.rip, (uint64_t)code.insn, "EPT, violation of a delivery: RIP");
    report_value(outcome.qualification & QUALIFIERS, BY_READ | LINEAR | FINAL,
                 "EPT, violation of a delivery: qualification");
}

/* What stands at two pages' border: the second one is missing. */
static void test_border(void)
{
    const uint64_t gpa = TEST_GPA + PAGE_BYTES - 2;

    if (!begin(&accesses[LOAD], gpa, "border"))
        return;
    prepare(1, 1);
    flush();
    report_value(vm_launch().reason, REASON_EPT_VIOLATION, "EPT, violation of a second page");
    report_value(get(VMCS_GUEST_PHYSICAL), TEST_GPA + PAGE_BYTES,
                 "EPT, violation of a second page: guest-physical address");
    report_value(get(VMCS_GUEST_LINEAR) & ~1ull,
                 (uint64_t)phys_to_virt(TEST_GPA + PAGE_BYTES) & ~1ull,
                 "EPT, violation of a second page: guest-linear address");
}

/* Goes on by VMRESUME once the page is there, and does not need INVEPT for that. */
static void test_repair(void)
{
    uint64_t *entry;

    if (!begin(&accesses[STORE], TEST_GPA, "repair"))
        return;
    entry = prepare(1, 1);
    *entry = 0;
    flush();
    vm_registers.rax = 0x12345678;
    report_value(vm_launch().reason, REASON_EPT_VIOLATION, "EPT, a page that comes later");
    *entry = test_phys | EPT_ALL | EPT_TYPE_WB;
    report_value(vm_resume().reason, REASON_VMCALL, "EPT, a page that has come");
    report_value(*(uint32_t *)phys_to_virt(test_phys), 0x12345678, "EPT, a store went through");
    *entry = test_phys | EPT_READ | EPT_TYPE_WB;
    flush();
    put(VMCS_GUEST_RIP, (uint64_t)accesses[STORE].begin);
    report_value(vm_resume().reason, REASON_EPT_VIOLATION, "EPT, rights that INVEPT takes away");
}

/* ---- Flags -------------------------------------------------------------------------------- */

static void test_flags(enum access access, bool enabled, uint64_t want, const char *name)
{
    const uint64_t bits = EPT_ACCESSED | EPT_DIRTY;
    uint64_t *entry;

    if (!begin(&accesses[access], TEST_GPA, name))
        return;
    if (enabled && !(vmx_ept_vpid() & EPT_ACCESSED_DIRTY)) {
        report_skip("no accessed and dirty flags", "EPT, %s", name);
        return;
    }
    entry = prepare(1, 1);
    flush();
    put(VMCS_EPTP, eptp | (enabled ? EPTP_AD : 0));
    vm_launch();
    report_value(*entry & bits, want, "EPT, flags of a page: %s", name);
    report_value(*ept_entry(eptp, TEST_GPA, 2) & EPT_ACCESSED, want & EPT_ACCESSED,
                 "EPT, flags of its table: %s", name);
}

static void test_all_flags(void)
{
    test_flags(LOAD, false, 0, "load, not enabled");
    test_flags(STORE, false, 0, "store, not enabled");
    test_flags(LOAD, true, EPT_ACCESSED, "load");
    test_flags(FETCH, true, EPT_ACCESSED, "fetch");
    test_flags(STORE, true, EPT_ACCESSED | EPT_DIRTY, "store");
}

void test_ept(void)
{
    if (!(control_allowed(PROC2) & PROC2_EPT)) {
        report_skip("no EPT", "EPT");
        return;
    }
    eptp = ept_identity();
    test_phys = phys_alloc(PAGE_2M, PAGE_2M);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        test_row(&rows[i]);
    test_beyond();
    test_walk();
    test_read_only_walk(false, PTE_ACCESSED, false, "a page walk reads a table that is read-only");
    test_read_only_walk(false, 0, true, "a page walk sets a flag in a table that is read-only");
    test_read_only_walk(true, PTE_ACCESSED, true,
                        "a page walk with accessed and dirty flags writes a table");
    test_delivery();
    test_border();
    test_repair();
    test_all_flags();
}
