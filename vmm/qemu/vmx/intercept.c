/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the controls make of an instruction or an exception in VMX non-root operation: the places
 * that ask for intercepts of SVM come here, with SVM's name for what happens, and EIP that of the
 * instruction.
 */
#include "qemu/osdep.h"
#include "exec/cpu_ldst.h"
#include "exec/exec-all.h"
#include "exec/helper-proto.h"
#include "tcg/helper-tcg.h"
#include "entry.h"
#include "exit.h"
#include "insn.h"
#include "intercept.h"

#define CR_TYPE_FROM (1u << 4)
#define CR_TYPE_CLTS (2u << 4)
#define CR_TYPE_LMSW (3u << 4)
#define LMSW_BITS    (CR0_PE_MASK | CR0_MP_MASK | CR0_EM_MASK | CR0_TS_MASK)

/* ---- Instructions that exit by one control, or always ---- */

struct plain {
    uint32_t type;
    uint8_t reason;
    bool secondary;
    uint32_t control; /* 0: always */
};

static const struct plain plain[] = {
    {SVM_EXIT_CPUID, VMX_EXIT_CPUID, false, 0},
    {SVM_EXIT_INVD, VMX_EXIT_INVD, false, 0},
    {SVM_EXIT_HLT, VMX_EXIT_HLT, false, VMX_CPU_BASED_HLT_EXITING},
    {SVM_EXIT_RDPMC, VMX_EXIT_RDPMC, false, VMX_CPU_BASED_RDPMC_EXITING},
    {SVM_EXIT_PAUSE, VMX_EXIT_PAUSE, false, VMX_CPU_BASED_PAUSE_EXITING},
    {SVM_EXIT_MONITOR, VMX_EXIT_MONITOR, false, VMX_CPU_BASED_MONITOR_EXITING},
    {SVM_EXIT_MWAIT, VMX_EXIT_MWAIT, false, VMX_CPU_BASED_MWAIT_EXITING},
    {SVM_EXIT_WBINVD, VMX_EXIT_WBINVD, true, VMX_SECONDARY_EXEC_WBINVD_EXITING},
    {SVM_EXIT_GDTR_READ, VMX_EXIT_GDTR_IDTR, true, VMX_SECONDARY_EXEC_DESC},
    {SVM_EXIT_GDTR_WRITE, VMX_EXIT_GDTR_IDTR, true, VMX_SECONDARY_EXEC_DESC},
    {SVM_EXIT_IDTR_READ, VMX_EXIT_GDTR_IDTR, true, VMX_SECONDARY_EXEC_DESC},
    {SVM_EXIT_IDTR_WRITE, VMX_EXIT_GDTR_IDTR, true, VMX_SECONDARY_EXEC_DESC},
    {SVM_EXIT_LDTR_READ, VMX_EXIT_LDTR_TR, true, VMX_SECONDARY_EXEC_DESC},
    {SVM_EXIT_LDTR_WRITE, VMX_EXIT_LDTR_TR, true, VMX_SECONDARY_EXEC_DESC},
    {SVM_EXIT_TR_READ, VMX_EXIT_LDTR_TR, true, VMX_SECONDARY_EXEC_DESC},
    {SVM_EXIT_TR_WRITE, VMX_EXIT_LDTR_TR, true, VMX_SECONDARY_EXEC_DESC},
};

static uint64_t plain_qualification(CPUX86State *env, const struct x86_vmx_insn *insn)
{
    return insn->has_modrm && !x86_insn_in_register(insn) ? x86_insn_displacement(env, insn) : 0;
}

static void check_plain(CPUX86State *env, uint32_t type, uintptr_t retaddr)
{
    struct x86_vmx_insn insn;

    for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
        const enum vmcs_field controls =
            plain[i].secondary ? VMCS_SECONDARY_CONTROLS : VMCS_PRIMARY_CONTROLS;

        if (plain[i].type == type &&
            (!plain[i].control || x86_vmx_has(env, controls, plain[i].control))) {
            x86_vmx_decode(env, &insn);
            x86_vmx_exit_by(env, plain[i].reason, plain_qualification(env, &insn), retaddr);
        }
    }
}

static void check_invlpg(CPUX86State *env, uintptr_t retaddr)
{
    struct x86_vmx_insn insn;

    if (x86_vmx_primary(env, VMX_CPU_BASED_INVLPG_EXITING)) {
        x86_vmx_decode(env, &insn);
        x86_vmx_exit_by(env, VMX_EXIT_INVLPG, x86_insn_linear(env, &insn), retaddr);
    }
}

/* RDTSC, and RDTSCP, which there is only with "enable RDTSCP". */
static void check_rdtsc(CPUX86State *env, uintptr_t retaddr)
{
    const bool exits = x86_vmx_primary(env, VMX_CPU_BASED_RDTSC_EXITING);
    const bool enabled = x86_vmx_secondary(env, VMX_SECONDARY_EXEC_RDTSCP);
    struct x86_vmx_insn insn;
    bool rdtscp;

    if (!exits && enabled) {
        return;
    }
    x86_vmx_decode(env, &insn);
    rdtscp = insn.opcode == (X86_INSN_0F | 0x01);
    if (rdtscp && !enabled) {
        raise_exception_ra(env, EXCP06_ILLOP, retaddr);
    }
    if (exits) {
        x86_vmx_exit_by(env, rdtscp ? VMX_EXIT_RDTSCP : VMX_EXIT_RDTSC, 0, retaddr);
    }
}

/* Its information has the operand's size, too. */
void helper_vmx_rdrand(CPUX86State *env)
{
    struct x86_vmx_exit exit = {.reason = VMX_EXIT_RDRAND};
    struct x86_vmx_insn insn;

    if (!x86_vmx_guest(env) || !x86_vmx_secondary(env, VMX_SECONDARY_EXEC_RDRAND_EXITING)) {
        return;
    }
    x86_vmx_decode(env, &insn);
    exit.length = insn.length;
    exit.instruction = insn.rm << 3 | x86_insn_operand_size(env, &insn) << 11;
    x86_vmx_exit(env, &exit, GETPC());
}

void x86_vmx_check_xsetbv(CPUX86State *env, uintptr_t retaddr)
{
    if (x86_vmx_guest(env)) {
        x86_vmx_exit_by(env, VMX_EXIT_XSETBV, 0, retaddr);
    }
}

/* ---- Control registers ---- */

static bool is_target(const uint64_t *vmcs, uint64_t cr3)
{
    for (uint32_t i = 0; i < vmcs[VMCS_CR3_TARGET_COUNT]; i++) {
        if (vmcs[VMCS_CR3_TARGET0 + i] == cr3) {
            return true;
        }
    }
    return false;
}

static bool write_exits(CPUX86State *env, int reg, uint64_t value)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;

    switch (reg) {
    case 0:
        return (value ^ vmcs[VMCS_CR0_SHADOW]) & vmcs[VMCS_CR0_MASK];
    case 3:
        return x86_vmx_primary(env, VMX_CPU_BASED_CR3_LOAD_EXITING) && !is_target(vmcs, value);
    case 4:
        return (value ^ vmcs[VMCS_CR4_SHADOW]) & vmcs[VMCS_CR4_MASK];
    case 8:
        return x86_vmx_primary(env, VMX_CPU_BASED_CR8_LOAD_EXITING);
    default:
        return false;
    }
}

/* What faults before it could exit. */
static bool is_impossible(uint64_t cr0)
{
    return ((cr0 & CR0_PG_MASK) && !(cr0 & CR0_PE_MASK)) ||
           ((cr0 & CR0_NW_MASK) && !(cr0 & CR0_CD_MASK)) || cr0 > UINT32_MAX;
}

/* LMSW can set PE and not clear it. */
static bool lmsw_exits(const uint64_t *vmcs, uint16_t value)
{
    const uint64_t changed = (value ^ vmcs[VMCS_CR0_SHADOW]) & vmcs[VMCS_CR0_MASK] & LMSW_BITS;

    return changed & (value & CR0_PE_MASK ? LMSW_BITS : LMSW_BITS & ~CR0_PE_MASK);
}

static void check_lmsw(CPUX86State *env, const struct x86_vmx_insn *insn, uintptr_t retaddr)
{
    const bool memory = !x86_insn_in_register(insn);
    const uint64_t linear = memory ? x86_insn_linear(env, insn) : 0;
    const uint16_t value = memory ? cpu_lduw_data_ra(env, linear, retaddr) : env->regs[insn->rm];
    const struct x86_vmx_exit exit = {
        .reason = VMX_EXIT_CR_ACCESS,
        .qualification = CR_TYPE_LMSW | (memory ? 1 << 6 : 0) | (uint64_t)value << 16,
        .length = insn->length,
        .linear = linear,
    };

    if (lmsw_exits(x86_vmx_of(env)->vmcs, value)) {
        x86_vmx_exit(env, &exit, retaddr);
    }
}

static void check_cr_write(CPUX86State *env, int reg, uintptr_t retaddr)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;
    struct x86_vmx_insn insn;

    x86_vmx_decode(env, &insn);
    if (insn.opcode == (X86_INSN_0F | 0x06)) {
        if (vmcs[VMCS_CR0_MASK] & vmcs[VMCS_CR0_SHADOW] & CR0_TS_MASK) {
            x86_vmx_exit_by(env, VMX_EXIT_CR_ACCESS, CR_TYPE_CLTS, retaddr);
        }
    } else if (insn.opcode == (X86_INSN_0F | 0x01)) {
        check_lmsw(env, &insn, retaddr);
    } else {
        const bool wide = env->hflags & HF_CS64_MASK;
        const uint64_t value = wide ? env->regs[insn.rm] : (uint32_t)env->regs[insn.rm];

        if (reg == 0 && is_impossible(value)) {
            raise_exception_err_ra(env, EXCP0D_GPF, 0, retaddr);
        }
        if (write_exits(env, reg, value)) {
            x86_vmx_exit_by(env, VMX_EXIT_CR_ACCESS, reg | insn.rm << 8, retaddr);
        }
    }
}

static void check_cr_read(CPUX86State *env, int reg, uintptr_t retaddr)
{
    struct x86_vmx_insn insn;

    if ((reg == 3 && x86_vmx_primary(env, VMX_CPU_BASED_CR3_STORE_EXITING)) ||
        (reg == 8 && x86_vmx_primary(env, VMX_CPU_BASED_CR8_STORE_EXITING))) {
        x86_vmx_decode(env, &insn);
        x86_vmx_exit_by(env, VMX_EXIT_CR_ACCESS, reg | CR_TYPE_FROM | insn.rm << 8, retaddr);
    }
}

static uint64_t cr_mask(CPUX86State *env, int reg)
{
    if (!x86_vmx_guest(env)) {
        return 0;
    }
    return x86_vmx_of(env)->vmcs[reg == 0 ? VMCS_CR0_MASK : VMCS_CR4_MASK];
}

uint64_t x86_vmx_cr_seen(CPUX86State *env, int reg)
{
    const uint64_t mask = cr_mask(env, reg);
    const enum vmcs_field shadow = reg == 0 ? VMCS_CR0_SHADOW : VMCS_CR4_SHADOW;

    return mask ? (env->cr[reg] & ~mask) | (x86_vmx_of(env)->vmcs[shadow] & mask) : env->cr[reg];
}

/* VMX operation wants some bits to be as they are (kvm: nested_guest_cr0_valid()). */
uint64_t x86_vmx_cr_written(CPUX86State *env, int reg, uint64_t value, uintptr_t retaddr)
{
    const struct X86Vmx *vmx = x86_vmx_of(env);
    const uint64_t mask = cr_mask(env, reg);
    bool allowed;

    value = (value & ~mask) | (env->cr[reg] & mask);
    if (reg == 0) {
        allowed = x86_vmx_cr0_allowed(
            env, value,
            vmx->non_root && x86_vmx_secondary(env, VMX_SECONDARY_EXEC_UNRESTRICTED_GUEST));
    } else {
        allowed = x86_vmx_cr4_allowed(env, value);
    }
    if (!allowed) {
        raise_exception_err_ra(env, EXCP0D_GPF, 0, retaddr);
    }
    return value;
}

bool x86_vmx_keeps_ts(CPUX86State *env)
{
    return x86_vmx_guest(env) && (x86_vmx_of(env)->vmcs[VMCS_CR0_MASK] & CR0_TS_MASK);
}

static void check_dr(CPUX86State *env, int reg, bool read, uintptr_t retaddr)
{
    struct x86_vmx_insn insn;

    if (x86_vmx_primary(env, VMX_CPU_BASED_MOV_DR_EXITING)) {
        x86_vmx_decode(env, &insn);
        x86_vmx_exit_by(env, VMX_EXIT_DR_ACCESS, reg | (read ? 1 << 4 : 0) | insn.rm << 8, retaddr);
    }
}

/* ---- Ports and MSRs ---- */

static bool port_exits(CPUX86State *env, uint32_t port, int size)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;

    if (!x86_vmx_primary(env, VMX_CPU_BASED_USE_IO_BITMAPS)) {
        return x86_vmx_primary(env, VMX_CPU_BASED_UNCOND_IO_EXITING);
    }
    if (port + size > 0x10000) {
        return true;
    }
    for (uint32_t i = port; i < port + size; i++) {
        const uint64_t bitmap = vmcs[i & 0x8000 ? VMCS_IO_BITMAP_B : VMCS_IO_BITMAP_A];

        if (x86_ldub_phys(env_cpu(env), bitmap + (i & 0x7fff) / 8) & 1 << (i & 7)) {
            return true;
        }
    }
    return false;
}

static uint64_t string_address(CPUX86State *env, const struct x86_vmx_insn *insn, bool in)
{
    static const uint64_t masks[] = {UINT16_MAX, UINT32_MAX, UINT64_MAX};
    const int segment = in ? R_ES : insn->segment;
    const uint64_t offset = env->regs[in ? R_EDI : R_ESI] & masks[insn->address_size];

    if (!(env->hflags & HF_CS64_MASK)) {
        return (uint32_t)(env->segs[segment].base + offset);
    }
    return offset + (segment == R_FS || segment == R_GS ? env->segs[segment].base : 0);
}

void x86_vmx_check_io(CPUX86State *env, uint32_t port, uint32_t param, uintptr_t retaddr)
{
    const int size = param >> SVM_IOIO_SIZE_SHIFT & 7;
    const bool in = param & SVM_IOIO_TYPE_MASK, string = param & SVM_IOIO_STR_MASK;
    struct x86_vmx_exit exit = {.reason = VMX_EXIT_IO};
    struct x86_vmx_insn insn;

    if (!port_exits(env, port, size)) {
        return;
    }
    x86_vmx_decode(env, &insn);
    exit.length = insn.length;
    exit.qualification = (size - 1) | in << 3 | string << 4 | (uint64_t)port << 16;
    if (string) {
        exit.qualification |= insn.rep || insn.repne ? 1 << 5 : 0;
        exit.instruction = insn.address_size << 7 | (in ? R_ES : insn.segment) << 15;
        exit.linear = string_address(env, &insn, in);
    } else if (insn.opcode < 0xe8) {
        exit.qualification |= 1 << 6; /* the port is an immediate */
    }
    x86_vmx_exit(env, &exit, retaddr);
}

static bool msr_exits(CPUX86State *env, uint32_t msr, bool write)
{
    const uint64_t bitmap = x86_vmx_of(env)->vmcs[VMCS_MSR_BITMAP];
    const uint32_t low = msr & 0x1fff;
    const uint64_t at = (write ? 2048 : 0) + (msr >= 0xc0000000 ? 1024 : 0) + low / 8;

    if (!x86_vmx_primary(env, VMX_CPU_BASED_USE_MSR_BITMAPS) ||
        (msr > 0x1fff && (msr < 0xc0000000 || msr > 0xc0001fff))) {
        return true;
    }
    return x86_ldub_phys(env_cpu(env), bitmap + at) & 1 << (low & 7);
}

static void check_msr(CPUX86State *env, bool write, uintptr_t retaddr)
{
    if (msr_exits(env, env->regs[R_ECX], write)) {
        x86_vmx_exit_by(env, write ? VMX_EXIT_WRMSR : VMX_EXIT_RDMSR, 0, retaddr);
    }
}

bool x86_vmx_msr_fails(CPUX86State *env)
{
    struct X86Vmx *vmx = x86_vmx_of(env);

    if (!vmx || !vmx->loads_msrs) {
        return false;
    }
    vmx->msr_failed = true;
    return true;
}

/* ---- All of them ---- */

static void check_by_range(CPUX86State *env, uint32_t type, uint64_t param, uintptr_t retaddr)
{
    switch (type) {
    case SVM_EXIT_READ_CR0 ... SVM_EXIT_READ_CR0 + 8:
        check_cr_read(env, type - SVM_EXIT_READ_CR0, retaddr);
        break;
    case SVM_EXIT_WRITE_CR0 ... SVM_EXIT_WRITE_CR0 + 8:
        check_cr_write(env, type - SVM_EXIT_WRITE_CR0, retaddr);
        break;
    case SVM_EXIT_READ_DR0 ... SVM_EXIT_READ_DR0 + 7:
        check_dr(env, type - SVM_EXIT_READ_DR0, true, retaddr);
        break;
    case SVM_EXIT_WRITE_DR0 ... SVM_EXIT_WRITE_DR0 + 7:
        check_dr(env, type - SVM_EXIT_WRITE_DR0, false, retaddr);
        break;
    case SVM_EXIT_EXCP_BASE ... SVM_EXIT_EXCP_BASE + 31:
        x86_vmx_check_exception(env, type - SVM_EXIT_EXCP_BASE, param, retaddr);
        break;
    case SVM_EXIT_VMRUN ... SVM_EXIT_SKINIT: /* no processor has both */
        raise_exception_ra(env, EXCP06_ILLOP, retaddr);
    default:
        check_plain(env, type, retaddr);
        break;
    }
}

void x86_vmx_check(CPUX86State *env, uint32_t type, uint64_t param, uintptr_t retaddr)
{
    if (x86_vmx_of(env)->loads_msrs) {
        return;
    }
    switch (type) {
    case SVM_EXIT_INTR:
        x86_vmx_check_interrupt(env);
        break;
    case SVM_EXIT_NMI:
        x86_vmx_check_nmi(env);
        break;
    case SVM_EXIT_INIT:
        x86_vmx_exit_init(env);
    case SVM_EXIT_VINTR:
        x86_vmx_exit_window(env);
    case SVM_EXIT_RDTSC:
        check_rdtsc(env, retaddr);
        break;
    case SVM_EXIT_INVLPG:
        check_invlpg(env, retaddr);
        break;
    case SVM_EXIT_MSR:
        check_msr(env, param, retaddr);
        break;
    default:
        check_by_range(env, type, param, retaddr);
        break;
    }
}

/* What SVM always makes an exit of: a triple fault, and values that a control register refuses. */
void x86_vmx_instead(CPUX86State *env, uint32_t type, uintptr_t retaddr)
{
    const struct x86_vmx_exit exit = {.reason = VMX_EXIT_TRIPLE_FAULT};

    if (type == SVM_EXIT_SHUTDOWN) {
        x86_vmx_exit(env, &exit, retaddr);
    }
    raise_exception_err_ra(env, EXCP0D_GPF, 0, retaddr);
}
