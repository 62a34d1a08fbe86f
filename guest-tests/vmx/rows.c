/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop over rows: each is one VM, entered once, and what came of it is compared field by field.
 */
#include "console.h"
#include "cpu.h"
#include "vm.h"

/* Exits that an instruction caused, whose length the VMCS has then. */
static bool by_instruction(uint32_t reason)
{
    const uint64_t reasons = 1ull << REASON_CPUID | 1ull << REASON_HLT | 1ull << REASON_INVD |
                             1ull << REASON_INVLPG | 1ull << REASON_RDPMC | 1ull << REASON_RDTSC |
                             0xfffull << REASON_VMCALL | 7ull << REASON_IO | 1ull << REASON_MWAIT |
                             3ull << REASON_MONITOR | 3ull << REASON_GDTR_IDTR |
                             3ull << REASON_INVEPT | 7ull << REASON_INVVPID |
                             3ull << REASON_RDRAND | 1ull << REASON_RDSEED | 1ull << REASON_XSAVES;

    return reason == REASON_XRSTORS || (reason < 64 && reasons >> reason & 1);
}

/* What differs of one row. It is printed behind the row's line, as details are (docs/guests.md). */
#define MAX_DIFFERENCES 12

static struct {
    const char *what;
    uint64_t got, want;
} differences[MAX_DIFFERENCES];
static unsigned difference_count;

static bool compare(const char *what, uint64_t got, uint64_t want)
{
    if (got != want && difference_count < MAX_DIFFERENCES) {
        differences[difference_count].what = what;
        differences[difference_count].got = got;
        differences[difference_count++].want = want;
    }
    return got == want;
}

static void print_differences(void)
{
    for (unsigned i = 0; i < difference_count; i++)
        printf("    %s: got 0x%lx, want 0x%lx\n", differences[i].what, differences[i].got,
               differences[i].want);
}

#define VMCALL_BYTES 3

static bool compare_exit(const struct vm_row *row, const struct code *code,
                         const struct outcome *got)
{
    bool same = compare("exit reason", got->reason, row->reason);

    if (row->at != AT_ANY)
        same &= compare("RIP", got->rip, place(code, row->at));
    if (!row->any_qualification)
        same &= compare("qualification", got->qualification, row->qualification);
    if (row->reason & REASON_ENTRY_FAILED)
        return same;
    same &= compare("interruption information", got->event, row->event);
    if (row->event & EVENT_ERROR_CODE)
        same &= compare("error code", got->error_code, row->error_code);
    same &= compare("IDT-vectoring information", got->vectoring, row->vectoring);
    if (row->vectoring & EVENT_ERROR_CODE)
        same &= compare("IDT-vectoring error code", got->vectoring_error_code,
                        row->vectoring_error_code);
    if (by_instruction(row->reason) && row->at != AT_ANY)
        same &= compare("instruction length", got->length,
                        row->at == AT_INSN ? (uint64_t)(code->end - code->insn) : VMCALL_BYTES);
    if (row->info_mask)
        same &= compare("instruction information", got->info & row->info_mask, row->info);
    if (row->check_rax)
        same &= compare("RAX", vm_registers.rax, row->rax);
    return same;
}

static bool compare_outcome(const struct vm_row *row, const struct code *code,
                            const struct outcome *got)
{
    if (row->error)
        return compare("result", got->result, VM_FAIL_VALID) &&
               compare("VM-instruction error", got->error, row->error);
    if (got->result == VM_FAIL_VALID)
        (void)compare("VM-instruction error", got->error, 0);
    return compare("result", got->result, VM_SUCCEED) && compare_exit(row, code, got);
}

static bool can_run(const struct vm_row *row)
{
    struct lacking lacking;

    if (!vm_controls(&row->on, &row->off, &lacking)) {
        skip_lacking(&lacking, row->name);
        return false;
    }
    if ((vmx_misc() & row->need_misc) != row->need_misc) {
        report_skip("not in IA32_VMX_MISC", "%s", row->name);
        return false;
    }
    if ((vmx_ept_vpid() & row->need_ept_vpid) != row->need_ept_vpid) {
        report_skip("not in IA32_VMX_EPT_VPID_CAP", "%s", row->name);
        return false;
    }
    return true;
}

static void run_row(const struct vm_row *row)
{
    const struct code *code = row->code.begin ? &row->code : &nop_code;
    struct outcome outcome;

    vm_reset(code);
    if (!can_run(row))
        return;
    for (unsigned i = 0; i < ROW_CHANGES; i++)
        vm_change(&row->changes[i]);
    vm_registers = row->registers;
    outcome = vm_launch();
    difference_count = 0;
    report(compare_outcome(row, code, &outcome), "%s", row->name);
    print_differences();
}

void run_rows(const struct vm_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        run_row(&rows[i]);
}
