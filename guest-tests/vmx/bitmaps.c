/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * I/O and MSR bitmaps, and what exits without them (volume 3, "I/O-Bitmap Addresses", "MSR-Bitmap
 * Address", "Exit Qualification for I/O Instructions").
 */
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "tests.h"
#include "vm.h"

/* ---- I/O ---------------------------------------------------------------------------------- */

SNIPPET(guest_in_al_80, "inb $0x80, %al");
SNIPPET(guest_out_80_al, "outb %al, $0x80");
SNIPPET(guest_in_ax_dx, "inw %dx, %ax");
SNIPPET(guest_out_dx_eax, "outl %eax, %dx");
SNIPPET(guest_insb, "insb");
SNIPPET(guest_outsw, "outsw");
SNIPPET(guest_rep_outsb, "rep outsb");
SNIPPET(guest_rep_insl, "rep insl");

#define BYTES(n)     ((n)-1u)
#define IN           (1u << 3)
#define STRING       (1u << 4)
#define REP          (1u << 5)
#define IMMEDIATE    (1u << 6)
#define PORT(n)      ((uint64_t)(n) << 16)
#define TEST_PORT    0x80u /* of a PC's diagnostics: anything may be written there */
#define SEGMENT_MASK (7u << 15)
#define DS           (3u << 15)
#define WIDTH_64     (2u << 7)

#define ALWAYS .on.proc = PROC_UNCONDITIONAL_IO
#define MAPS   .on.proc = PROC_IO_BITMAPS

static const struct vm_row io[] = {
    {"IN AL, 80H with unconditional I/O exiting", CODE(guest_in_al_80), ALWAYS, .reason = REASON_IO,
     .qualification = BYTES(1) | IN | IMMEDIATE | PORT(TEST_PORT)},
    {"OUT 80H, AL with unconditional I/O exiting", CODE(guest_out_80_al), ALWAYS,
     .reason = REASON_IO, .qualification = BYTES(1) | IMMEDIATE | PORT(TEST_PORT)},
    {"IN AX, DX with unconditional I/O exiting", CODE(guest_in_ax_dx), ALWAYS,
     .registers.rdx = 0x1234, .reason = REASON_IO, .qualification = BYTES(2) | IN | PORT(0x1234)},
    {"OUT DX, EAX with unconditional I/O exiting", CODE(guest_out_dx_eax), ALWAYS,
     .registers.rdx = 0xabcd, .reason = REASON_IO, .qualification = BYTES(4) | PORT(0xabcd)},
    {"OUT 80H, AL without I/O exiting", CODE(guest_out_80_al), DONE},
    {"INSB with unconditional I/O exiting", CODE(guest_insb), ALWAYS, .registers.rdx = TEST_PORT,
     .reason = REASON_IO, .qualification = BYTES(1) | IN | STRING | PORT(TEST_PORT)},
    {"OUTSW with unconditional I/O exiting", CODE(guest_outsw), ALWAYS, .registers.rdx = TEST_PORT,
     .reason = REASON_IO, .qualification = BYTES(2) | STRING | PORT(TEST_PORT),
     .info = DS | WIDTH_64, .info_mask = SEGMENT_MASK | 7u << 7},
    {"REP OUTSB with unconditional I/O exiting", CODE(guest_rep_outsb), ALWAYS,
     .registers = {.rdx = TEST_PORT, .rcx = 5}, .reason = REASON_IO,
     .qualification = BYTES(1) | STRING | REP | PORT(TEST_PORT)},
    {"REP INSD with unconditional I/O exiting", CODE(guest_rep_insl), ALWAYS,
     .registers = {.rdx = TEST_PORT, .rcx = 5}, .reason = REASON_IO,
     .qualification = BYTES(4) | IN | STRING | REP | PORT(TEST_PORT)},
    {"OUT 80H, AL whose bit in bitmap A is 1", CODE(guest_out_80_al), MAPS,
     .changes = {{IO_BIT, TEST_PORT, 0}}, .reason = REASON_IO,
     .qualification = BYTES(1) | IMMEDIATE | PORT(TEST_PORT)},
    {"OUT 80H, AL whose bit in bitmap A is 0", CODE(guest_out_80_al), MAPS,
     .changes = {{IO_BIT, TEST_PORT + 1, 0}, {IO_BIT, TEST_PORT - 1, 0}}, DONE},
    {"the bitmaps outrank unconditional I/O exiting", CODE(guest_out_80_al),
     .on.proc = PROC_IO_BITMAPS | PROC_UNCONDITIONAL_IO, DONE},
    {"IN AX, DX: the bit of the second byte", CODE(guest_in_ax_dx), MAPS,
     .changes = {{IO_BIT, TEST_PORT + 1, 0}}, .registers.rdx = TEST_PORT, .reason = REASON_IO,
     .qualification = BYTES(2) | IN | PORT(TEST_PORT)},
    {"OUT DX, EAX: the bit of the fourth byte", CODE(guest_out_dx_eax), MAPS,
     .changes = {{IO_BIT, TEST_PORT + 3, 0}}, .registers.rdx = TEST_PORT, .reason = REASON_IO,
     .qualification = BYTES(4) | PORT(TEST_PORT)},
    {"OUT DX, EAX: the bit of the fifth byte does not matter", CODE(guest_out_dx_eax), MAPS,
     .changes = {{IO_BIT, TEST_PORT + 4, 0}}, .registers.rdx = TEST_PORT, DONE},
    {"IN AX, DX: port 8000H is in bitmap B", CODE(guest_in_ax_dx), MAPS,
     .changes = {{IO_BIT, 0x8000, 0}}, .registers.rdx = 0x8000, .reason = REASON_IO,
     .qualification = BYTES(2) | IN | PORT(0x8000)},
    {"IN AX, DX: from bitmap A into bitmap B", CODE(guest_in_ax_dx), MAPS,
     .changes = {{IO_BIT, 0x8000, 0}}, .registers.rdx = 0x7fff, .reason = REASON_IO,
     .qualification = BYTES(2) | IN | PORT(0x7fff)},
    {"IN AX, DX: around the end of the ports", CODE(guest_in_ax_dx), MAPS, .registers.rdx = 0xffff,
     .reason = REASON_IO, .qualification = BYTES(2) | IN | PORT(0xffff)},
};

/* The address of a string instruction's operand, and the registers' state at the exit. */
static void test_string_address(void)
{
    const struct code code = CODE(guest_outsw);
    const struct controls on = {.proc = PROC_UNCONDITIONAL_IO}, off = {0};
    struct lacking lacking;

    vm_reset(&code);
    if (!vm_controls(&on, &off, &lacking)) {
        skip_lacking(&lacking, "OUTSW: guest-linear address");
        return;
    }
    vm_registers.rdx = TEST_PORT;
    vm_registers.rsi = (uint64_t)vm_data() + 8;
    vm_launch();
    report_value(get(VMCS_GUEST_LINEAR), (uint64_t)vm_data() + 8, "OUTSW: guest-linear address");
    report_value(vm_registers.rsi, (uint64_t)vm_data() + 8, "OUTSW: RSI has not moved");
}

/* ---- MSRs --------------------------------------------------------------------------------- */

SNIPPET(guest_read_msr, "rdmsr");
SNIPPET(guest_write_msr, "wrmsr");

#define MSR_EIP   0x176u /* IA32_SYSENTER_EIP */
#define MSR_LOW   0x1fffu
#define MSR_LSTAR 0xc0000082u
#define MSR_NONE  0x2000u /* in none of the ranges */
#define MSR_HIGH  0xc0002000u
#define VEC_GP    13u
#define MSR_MAPS  .on.proc = PROC_MSR_BITMAPS

static const struct vm_row msrs[] = {
    {"RDMSR whose bit is 0", CODE(guest_read_msr), MSR_MAPS, .registers.rcx = MSR_EIP, DONE},
    {"RDMSR whose bit is 1", CODE(guest_read_msr), MSR_MAPS, .changes = {{READ_BIT, MSR_EIP, 0}},
     .registers.rcx = MSR_EIP, .reason = REASON_RDMSR},
    {"RDMSR: the bit for writes does not matter", CODE(guest_read_msr), MSR_MAPS,
     .changes = {{WRITE_BIT, MSR_EIP, 0}}, .registers.rcx = MSR_EIP, DONE},
    {"RDMSR: bits of other MSRs do not matter", CODE(guest_read_msr), MSR_MAPS,
     .changes = {{READ_BIT, MSR_EIP - 1, 0},
                 {READ_BIT, MSR_EIP + 1, 0},
                 {READ_BIT, 0xc0000000u | MSR_EIP, 0}},
     .registers.rcx = MSR_EIP, DONE},
    {"WRMSR whose bit is 0", CODE(guest_write_msr), MSR_MAPS, .registers.rcx = MSR_EIP, DONE},
    {"WRMSR whose bit is 1", CODE(guest_write_msr), MSR_MAPS, .changes = {{WRITE_BIT, MSR_EIP, 0}},
     .registers.rcx = MSR_EIP, .reason = REASON_WRMSR},
    {"WRMSR: the bit for reads does not matter", CODE(guest_write_msr), MSR_MAPS,
     .changes = {{READ_BIT, MSR_EIP, 0}}, .registers.rcx = MSR_EIP, DONE},
    {"RDMSR of C0000082H whose bit is 0", CODE(guest_read_msr), MSR_MAPS,
     .registers.rcx = MSR_LSTAR, DONE},
    {"RDMSR of C0000082H whose bit is 1", CODE(guest_read_msr), MSR_MAPS,
     .changes = {{READ_BIT, MSR_LSTAR, 0}}, .registers.rcx = MSR_LSTAR, .reason = REASON_RDMSR},
    {"WRMSR of C0000082H whose bit is 1", CODE(guest_write_msr), MSR_MAPS,
     .changes = {{WRITE_BIT, MSR_LSTAR, 0}}, .registers.rcx = MSR_LSTAR, .reason = REASON_WRMSR},
    {"RDMSR of 1FFFH, the last one, whose bit is 1", CODE(guest_read_msr), MSR_MAPS,
     .changes = {{READ_BIT, MSR_LOW, 0}}, .registers.rcx = MSR_LOW, .reason = REASON_RDMSR},
    {"RDMSR of 2000H, which no bitmap has", CODE(guest_read_msr), MSR_MAPS,
     .registers.rcx = MSR_NONE, .reason = REASON_RDMSR},
    {"WRMSR of 2000H, which no bitmap has", CODE(guest_write_msr), MSR_MAPS,
     .registers.rcx = MSR_NONE, .reason = REASON_WRMSR},
    {"RDMSR of C0002000H, which no bitmap has", CODE(guest_read_msr), MSR_MAPS,
     .registers.rcx = MSR_HIGH, .reason = REASON_RDMSR},
    {"RDMSR of 80000000H, which no bitmap has", CODE(guest_read_msr), MSR_MAPS,
     .registers.rcx = 0x80000000u, .reason = REASON_RDMSR},
    {"RDMSR: the upper half of RCX does not matter", CODE(guest_read_msr), MSR_MAPS,
     .registers.rcx = 1ull << 32 | MSR_EIP, DONE},
};

static const struct vm_row not_canonical[] = {
    {"WRMSR of a value that is not canonical: #GP, not an exit", CODE(guest_write_msr), MSR_MAPS,
     .registers = {.rcx = MSR_LSTAR, .rdx = 1u << 30}, VECTORED(VEC_GP)},
};

/* Not every emulator checks this in root operation. */
static void test_not_canonical(void)
{
    const uint64_t before = rdmsr(MSR_LSTAR);

    if (wrmsr_safe(MSR_LSTAR, 1ull << 62) == 0) {
        wrmsr(MSR_LSTAR, before);
        report_skip("not outside of the guest either", "%s", not_canonical[0].name);
        return;
    }
    RUN_ROWS(not_canonical);
}

void test_bitmaps(void)
{
    RUN_ROWS(io);
    test_string_address();
    RUN_ROWS(msrs);
    test_not_canonical();
}
