/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * INVEPT and INVVPID: types, descriptors and what they refuse with VM-instruction error 28 (volume
 * 3, "INVEPT", "INVVPID"; handle_invept() and handle_invvpid() in Linux's
 * arch/x86/kvm/vmx/nested.c).
 */
#include "console.h"
#include "ept-tables.h"
#include "memory.h"
#include "tests.h"
#include "vm.h"

#define NO_CANONICAL (1ull << 62)
#define CANONICAL    0xffff800000001000ull
#define VEC_UD       6u

struct inv_row {
    const char *name;
    uint64_t type, low, high;
    uint64_t need;
    bool bad;
};

/* The low half is the EPTP; 0 stands for a good one where the type has one. */
static const struct inv_row invept_rows[] = {
    {"INVEPT type 0", 0, 0, 0, EPT_INVEPT, true},
    {"INVEPT of one EPTP", 1, 0, 0, EPT_INVEPT | EPT_INVEPT_SINGLE, false},
    {"INVEPT of one EPTP of memory type 1", 1, 1 | EPTP_LEVELS_4, 0, EPT_INVEPT | EPT_INVEPT_SINGLE,
     true},
    {"INVEPT of one EPTP of three levels", 1, EPTP_WB | 2u << 3, 0, EPT_INVEPT | EPT_INVEPT_SINGLE,
     true},
    {"INVEPT of one EPTP with bit 11", 1, EPTP_WB | EPTP_LEVELS_4 | 1u << 11, 0,
     EPT_INVEPT | EPT_INVEPT_SINGLE, true},
    {"INVEPT of all", 2, 0, 0, EPT_INVEPT | EPT_INVEPT_ALL, false},
    {"INVEPT of all looks at no EPTP", 2, 1, 0, EPT_INVEPT | EPT_INVEPT_ALL, false},
    {"INVEPT type 3", 3, 0, 0, EPT_INVEPT, true},
    {"INVEPT type 2^32", 1ull << 32, 0, 0, EPT_INVEPT, true},
};

/* The low half is the VPID, the high one an address. */
static const struct inv_row invvpid_rows[] = {
    {"INVVPID of an address", 0, 1, CANONICAL, VPID_INVVPID | VPID_INVVPID_ADDRESS, false},
    {"INVVPID of an address that is not canonical", 0, 1, NO_CANONICAL,
     VPID_INVVPID | VPID_INVVPID_ADDRESS, true},
    {"INVVPID of an address of VPID 0", 0, 0, CANONICAL, VPID_INVVPID | VPID_INVVPID_ADDRESS, true},
    {"INVVPID of a VPID", 1, 5, 0, VPID_INVVPID | VPID_INVVPID_SINGLE, false},
    {"INVVPID of a VPID looks at no address", 1, 5, NO_CANONICAL,
     VPID_INVVPID | VPID_INVVPID_SINGLE, false},
    {"INVVPID of VPID 0", 1, 0, 0, VPID_INVVPID | VPID_INVVPID_SINGLE, true},
    {"INVVPID of a VPID with bit 16", 1, 1u << 16 | 1, 0, VPID_INVVPID | VPID_INVVPID_SINGLE, true},
    {"INVVPID of a VPID with bit 63", 1, 1ull << 63 | 1, 0, VPID_INVVPID | VPID_INVVPID_SINGLE,
     true},
    {"INVVPID of all", 2, 0, 0, VPID_INVVPID | VPID_INVVPID_ALL, false},
    {"INVVPID of a VPID but for globals", 3, 1, 0, VPID_INVVPID | VPID_INVVPID_GLOBALS, false},
    {"INVVPID of VPID 0 but for globals", 3, 0, 0, VPID_INVVPID | VPID_INVVPID_GLOBALS, true},
    {"INVVPID type 4", 4, 1, 0, VPID_INVVPID, true},
    {"INVVPID type 2^32", 1ull << 32, 1, 0, VPID_INVVPID, true},
};

typedef unsigned invalidation(uint64_t type, const uint64_t descriptor[2]);

static void test_rows(const struct inv_row *rows, size_t count, invalidation *instruction,
                      uint64_t good)
{
    for (size_t i = 0; i < count; i++) {
        const struct inv_row *row = &rows[i];
        const uint64_t descriptor[2] = {row->low ? row->low : good, row->high};

        if ((vmx_ept_vpid() & row->need) != row->need) {
            report_skip("not in IA32_VMX_EPT_VPID_CAP", "%s", row->name);
            continue;
        }
        vm_reset(&nop_code);
        report_value(instruction(row->type, descriptor), row->bad ? VM_FAIL_VALID : VM_SUCCEED,
                     "%s", row->name);
        if (row->bad)
            report_value(get(VMCS_INSTRUCTION_ERROR), ERROR_INV_OPERAND, "%s: error 28", row->name);
    }
}

/* An instruction that is not there, or a type of it. */
static void test_absent(uint64_t there, invalidation *instruction, const char *name)
{
    const uint64_t descriptor[2] = {0};

    if (there)
        report_skip("it exists", "%s where there is none", name);
    else
        report_value(instruction(2, descriptor), VM_FAULTED | VEC_UD, "%s where there is none",
                     name);
}

/* A guest with a VPID keeps its translations over exits; what they map to is right after INVVPID.
 */
SNIPPET(vpid_load, "movl (%rbx), %eax");

static void test_vpid(void)
{
    static const struct controls on = {.proc2 = PROC2_VPID}, off;
    static const struct code code = CODE(vpid_load);
    const uint64_t pages = phys_alloc(2 * PAGE_BYTES, PAGE_BYTES), cr3 = address_space_new();
    struct lacking lacking;

    vm_reset(&code);
    if (!vm_controls(&on, &off, &lacking)) {
        skip_lacking(&lacking, "VPID");
        return;
    }
    *(uint32_t *)phys_to_virt(pages) = 1;
    *(uint32_t *)phys_to_virt(pages + PAGE_BYTES) = 2;
    map_page(cr3, PAGE_BYTES, pages, PTE_WRITE);
    put(VMCS_GUEST_CR3, cr3);
    vm_registers.rbx = PAGE_BYTES;
    vm_launch();
    report_value(vm_registers.rax, 1, "VPID: a load");
    map_page(cr3, PAGE_BYTES, pages + PAGE_BYTES, PTE_WRITE);
    invvpid(2, (const uint64_t[2]){0});
    put(VMCS_GUEST_RIP, (uint64_t)code.begin);
    vm_registers.rbx = PAGE_BYTES;
    vm_resume();
    report_value(vm_registers.rax, 2, "VPID: a load from another page, after INVVPID");
}

void test_translations(void)
{
    const uint64_t eptp = control_allowed(PROC2) & PROC2_EPT ? ept_identity() : 0;

    test_absent(vmx_ept_vpid() & EPT_INVEPT, invept, "INVEPT");
    test_absent(vmx_ept_vpid() & VPID_INVVPID, invvpid, "INVVPID");
    test_rows(invept_rows, sizeof(invept_rows) / sizeof(invept_rows[0]), invept, eptp);
    test_rows(invvpid_rows, sizeof(invvpid_rows) / sizeof(invvpid_rows[0]), invvpid, 0);
    test_vpid();
}
