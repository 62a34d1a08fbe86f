/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The VMX instructions in VMX root operation, and VMXON. What they do with a VMCS is vmcs.c's; VM
 * entry is entry.c's.
 *
 * Order, faults and VM-instruction errors are those that KVM's nested VMX has (Linux
 * arch/x86/kvm/vmx/nested.c, handle_vmxon() and those behind it).
 */
#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/cpu_ldst.h"
#include "exec/helper-proto.h"
#include "tcg/helper-tcg.h"
#include "compat.h"
#include "entry.h"
#include "exit.h"
#include "insn.h"
#include "intercept.h"
#include "tlb.h"
#include "trace.h"
#include "vmx.h"

#define FLAGS_STATUS (CC_O | CC_S | CC_Z | CC_A | CC_P | CC_C)
#define INVEPT       (X86_INSN_0F38 | 0x80)
#define INVVPID      (X86_INSN_0F38 | 0x81)
#define INT1         0xf1

/* What an instruction works on. */
struct op {
    CPUX86State *env;
    struct X86Vmx *vmx;
    struct x86_vmx_insn insn;
};

/* ---- How they end ---- */

static void set_flags(CPUX86State *env, uint32_t status)
{
    cpu_load_eflags(env, (cpu_compute_eflags(env) & ~FLAGS_STATUS) | status, 0);
}

static void succeed(struct op *op)
{
    set_flags(op->env, 0);
}

static void fail_invalid(struct op *op)
{
    set_flags(op->env, CC_C);
}

static void fail(struct op *op, enum vmx_error error)
{
    if (op->vmx->current == VMCS_NONE) {
        fail_invalid(op);
        return;
    }
    set_flags(op->env, CC_Z);
    op->vmx->vmcs[VMCS_INSTRUCTION_ERROR] = error;
}

/* ---- Operands ---- */

static uint64_t memory_operand(struct op *op)
{
    return cpu_ldq_data(op->env, x86_insn_linear(op->env, &op->insn));
}

/* VMREAD and VMWRITE: 64 bits in 64-bit mode, otherwise 32. */
static uint64_t operand(struct op *op)
{
    const bool wide = op->env->hflags & HF_CS64_MASK;

    if (x86_insn_in_register(&op->insn)) {
        return wide ? op->env->regs[op->insn.rm] : (uint32_t)op->env->regs[op->insn.rm];
    }
    return wide ? memory_operand(op) : cpu_ldl_data(op->env, x86_insn_linear(op->env, &op->insn));
}

static void set_operand(struct op *op, uint64_t value)
{
    const bool wide = op->env->hflags & HF_CS64_MASK;

    if (x86_insn_in_register(&op->insn)) {
        op->env->regs[op->insn.rm] = wide ? value : (uint32_t)value;
    } else if (wide) {
        cpu_stq_data(op->env, x86_insn_linear(op->env, &op->insn), value);
    } else {
        cpu_stl_data(op->env, x86_insn_linear(op->env, &op->insn), value);
    }
}

static uint64_t register_operand(struct op *op)
{
    const uint64_t value = op->env->regs[op->insn.reg];

    return op->env->hflags & HF_CS64_MASK ? value : (uint32_t)value;
}

/* The address of a region: a page's, within the width of physical addresses. */
static bool is_region(CPUX86State *env, uint64_t address)
{
    return !(address & (VMCS_BYTES - 1)) && !(address >> env_archcpu(env)->phys_bits);
}

static bool is_revision(CPUX86State *env, uint64_t address)
{
    return x86_ldl_phys(env_cpu(env), address) == VMCS_REVISION;
}

/* ---- VMXON, VMXOFF ---- */

static bool may_vmxon(CPUX86State *env)
{
    const uint64_t needed = FEATURE_CONTROL_LOCKED | FEATURE_CONTROL_VMXON_ENABLED_OUTSIDE_SMX;

    return x86_vmx_cr0_allowed(env, env->cr[0], false) && x86_vmx_cr4_allowed(env, env->cr[4]) &&
           (env->msr_ia32_feature_control & needed) == needed && (env->a20_mask & 1 << 20);
}

static void op_vmxon(struct op *op)
{
    uint64_t region;

    if (op->vmx->on) {
        fail(op, VMX_ERROR_VMXON_AGAIN);
        return;
    }
    if (!may_vmxon(op->env)) {
        raise_exception_err(op->env, EXCP0D_GPF, 0);
    }
    region = memory_operand(op);
    if (!is_region(op->env, region) || !is_revision(op->env, region)) {
        fail_invalid(op);
        return;
    }
    op->vmx->on = true;
    op->vmx->vmxon = region;
    op->vmx->current = VMCS_NONE;
    x86_vmx_tell_vmxon(op->env);
    succeed(op);
}

static void op_vmxoff(struct op *op)
{
    vmcs_store(op->env);
    op->vmx->on = false;
    op->vmx->current = VMCS_NONE;
    x86_vmx_tell_vmxoff(op->env);
    succeed(op);
}

/* ---- The current VMCS ---- */

static void op_vmclear(struct op *op)
{
    const uint64_t region = memory_operand(op);

    if (!is_region(op->env, region)) {
        fail(op, VMX_ERROR_VMCLEAR_ADDRESS);
    } else if (region == op->vmx->vmxon) {
        fail(op, VMX_ERROR_VMCLEAR_VMXON);
    } else {
        if (region == op->vmx->current) {
            vmcs_store(op->env);
            op->vmx->current = VMCS_NONE;
        }
        vmcs_clear(op->env, region);
        x86_vmx_tell_vmclear(op->env, region);
        succeed(op);
    }
}

static void op_vmptrld(struct op *op)
{
    const uint64_t region = memory_operand(op);

    if (!is_region(op->env, region)) {
        fail(op, VMX_ERROR_VMPTRLD_ADDRESS);
    } else if (region == op->vmx->vmxon) {
        fail(op, VMX_ERROR_VMPTRLD_VMXON);
    } else if (!is_revision(op->env, region)) {
        fail(op, VMX_ERROR_VMPTRLD_REVISION);
    } else {
        if (region != op->vmx->current) {
            vmcs_store(op->env);
            vmcs_load(op->env, region);
        }
        x86_vmx_tell_vmptrld(op->env, region);
        succeed(op);
    }
}

static void op_vmptrst(struct op *op)
{
    cpu_stq_data(op->env, x86_insn_linear(op->env, &op->insn), op->vmx->current);
    succeed(op);
}

static void op_vmread(struct op *op)
{
    bool high;
    int field;

    if (op->vmx->current == VMCS_NONE) {
        fail_invalid(op);
        return;
    }
    field = vmcs_find(op->env, register_operand(op), &high);
    if (field < 0) {
        fail(op, VMX_ERROR_FIELD);
        return;
    }
    set_operand(op, vmcs_read(op->env, field, high));
    succeed(op);
}

static void op_vmwrite(struct op *op)
{
    uint64_t value;
    bool high;
    int field;

    if (op->vmx->current == VMCS_NONE) {
        fail_invalid(op);
        return;
    }
    value = operand(op);
    field = vmcs_find(op->env, register_operand(op), &high);
    if (field < 0) {
        fail(op, VMX_ERROR_FIELD);
    } else if (vmcs_type_of(field) == VMCS_READ_ONLY &&
               !(op->env->features[FEAT_VMX_MISC] & MSR_VMX_MISC_VMWRITE_VMEXIT)) {
        fail(op, VMX_ERROR_READ_ONLY);
    } else {
        vmcs_write(op->env, field, high, value);
        succeed(op);
    }
}

/* ---- Translations ---- */

struct descriptor {
    uint64_t low, high;
};

static struct descriptor descriptor_operand(struct op *op)
{
    const uint64_t address = x86_insn_linear(op->env, &op->insn);

    return (struct descriptor){.low = cpu_ldq_data(op->env, address),
                               .high = cpu_ldq_data(op->env, address + 8)};
}

static bool is_canonical(CPUX86State *env, uint64_t address)
{
    const int bits = env->cr[4] & CR4_LA57_MASK ? 57 : 48;

    return (uint64_t)sextract64(address, 0, bits) == address;
}

/* Whatever is asked for, all translations of guests are forgotten. */
static void op_invept(struct op *op)
{
    const uint64_t caps = op->env->features[FEAT_VMX_EPT_VPID_CAPS];
    const uint64_t type = register_operand(op);
    const struct descriptor of = descriptor_operand(op);
    const bool known = (type == 1 && (caps & MSR_VMX_EPT_INVEPT_SINGLE_CONTEXT)) ||
                       (type == 2 && (caps & MSR_VMX_EPT_INVEPT_ALL_CONTEXT));

    if (!known || of.high || (type == 1 && !x86_vmx_eptp_allowed(op->env, of.low))) {
        fail(op, VMX_ERROR_INVALIDATION);
        return;
    }
    x86_vmx_tlb_forget(op->env);
    succeed(op);
}

static void op_invvpid(struct op *op)
{
    const uint64_t caps = op->env->features[FEAT_VMX_EPT_VPID_CAPS];
    const uint64_t type = register_operand(op);
    const struct descriptor of = descriptor_operand(op);
    const bool known = type < 4 && (caps & MSR_VMX_EPT_INVVPID_SINGLE_ADDR << type);

    if (!known || of.low > UINT16_MAX || (type != 2 && of.low == 0) ||
        (type == 0 && !is_canonical(op->env, of.high))) {
        fail(op, VMX_ERROR_INVALIDATION);
        return;
    }
    x86_vmx_tlb_forget(op->env);
    succeed(op);
}

/* ---- All of them ---- */

static void op_vmcall(struct op *op)
{
    fail(op, VMX_ERROR_VMCALL_IN_ROOT);
}

static enum vmx_error enter(struct op *op, bool launch)
{
    if (op->vmx->current == VMCS_NONE) {
        return VMX_ERROR_VMRESUME_CLEAR; /* which nobody sees: VMfailInvalid has no number */
    }
    if (x86_vmx_blocked_by_mov_ss(op->env)) {
        return VMX_ERROR_ENTRY_MOV_SS;
    }
    if (launch && op->vmx->launched) {
        return VMX_ERROR_VMLAUNCH_LAUNCHED;
    }
    if (!launch && !op->vmx->launched) {
        return VMX_ERROR_VMRESUME_CLEAR;
    }
    return x86_vmx_enter(op->env, op->insn.length);
}

/* False: VM entry has gone to the guest, or to the host as a VM exit does. */
static bool op_enter(struct op *op, bool launch)
{
    const enum vmx_error error = enter(op, launch);

    if (error) {
        fail(op, error);
        x86_vmx_tell_entry_refused(op->env, op->insn.length);
    }
    return error;
}

static void (*memory_op(const struct x86_vmx_insn *insn))(struct op *)
{
    if ((insn->modrm >> 3 & 7) == 7) {
        return op_vmptrst;
    }
    return insn->rep ? op_vmxon : insn->opsize ? op_vmclear : op_vmptrld;
}

static void (*handler(const struct x86_vmx_insn *insn))(struct op *)
{
    switch (insn->opcode) {
    case X86_INSN_0F | 0x01:
        return insn->modrm == 0xc1 ? op_vmcall : op_vmxoff;
    case X86_INSN_0F | 0x78:
        return op_vmread;
    case X86_INSN_0F | 0x79:
        return op_vmwrite;
    case INVEPT:
        return op_invept;
    case INVVPID:
        return op_invvpid;
    default:
        return memory_op(insn);
    }
}

static uint32_t reason_of(const struct x86_vmx_insn *insn)
{
    static const uint8_t by_modrm[] = {VMX_EXIT_VMCALL, VMX_EXIT_VMLAUNCH, VMX_EXIT_VMRESUME,
                                       VMX_EXIT_VMXOFF};

    switch (insn->opcode) {
    case X86_INSN_0F | 0x01:
        return by_modrm[insn->modrm - 0xc1];
    case X86_INSN_0F | 0x78:
        return VMX_EXIT_VMREAD;
    case X86_INSN_0F | 0x79:
        return VMX_EXIT_VMWRITE;
    case INVEPT:
        return VMX_EXIT_INVEPT;
    case INVVPID:
        return VMX_EXIT_INVVPID;
    default:
        if ((insn->modrm >> 3 & 7) == 7) {
            return VMX_EXIT_VMPTRST;
        }
        return insn->rep ? VMX_EXIT_VMXON : insn->opsize ? VMX_EXIT_VMCLEAR : VMX_EXIT_VMPTRLD;
    }
}

/* As the translator took it. Memory may be another one since, or have another processor's bytes. */
static bool is_vmx(const struct x86_vmx_insn *insn)
{
    const bool memory = !x86_insn_in_register(insn);

    switch (insn->opcode) {
    case X86_INSN_0F | 0x01:
        return insn->modrm >= 0xc1 && insn->modrm <= 0xc4;
    case X86_INSN_0F | 0x78:
    case X86_INSN_0F | 0x79:
        return true;
    case X86_INSN_0F | 0xc7:
        return memory && (insn->modrm >> 3 & 7) >= 6;
    case INVEPT:
    case INVVPID:
        return memory;
    default:
        return false;
    }
}

static bool has_invalidation(CPUX86State *env, uint32_t opcode)
{
    const uint64_t caps = env->features[FEAT_VMX_EPT_VPID_CAPS];

    return (opcode != INVEPT || (caps & MSR_VMX_EPT_INVEPT)) &&
           (opcode != INVVPID || (caps & MSR_VMX_EPT_INVVPID));
}

/* What is checked before anything else: modes in which there are no VMX instructions. */
static bool is_undefined(struct op *op, uint32_t reason)
{
    CPUX86State *env = op->env;
    const bool vmxon = reason == VMX_EXIT_VMXON;
    const bool of_svm = (env->hflags & HF_GUEST_MASK) && !x86_vmx_guest(env);

    return op->insn.lock || of_svm || !(env->cr[0] & CR0_PE_MASK) || (env->eflags & VM_MASK) ||
           ((env->hflags & HF_LMA_MASK) && !(env->hflags & HF_CS64_MASK)) ||
           (vmxon ? !(env->cr[4] & CR4_VMXE_MASK) : !op->vmx->on) ||
           !has_invalidation(env, op->insn.opcode);
}

static uint64_t qualification_of(struct op *op)
{
    if (!op->insn.has_modrm || x86_insn_in_register(&op->insn)) {
        return 0;
    }
    return x86_insn_displacement(op->env, &op->insn);
}

static void check(struct op *op, uint32_t reason)
{
    const bool exits = x86_vmx_guest(op->env);

    /* VMCALL exits in all modes of a guest. */
    if ((!exits || reason != VMX_EXIT_VMCALL) && is_undefined(op, reason)) {
        raise_exception(op->env, EXCP06_ILLOP);
    }
    if (exits) {
        const struct x86_vmx_exit exit = {
            .reason = reason,
            .qualification = qualification_of(op),
            .instruction = x86_insn_information(&op->insn),
            .length = op->insn.length,
        };

        x86_vmx_exit(op->env, &exit, 0);
    }
    if (op->env->hflags & HF_CPL_MASK) {
        raise_exception_err(op->env, EXCP0D_GPF, 0);
    }
}

/* Behind an instruction that was no transition. No other one of the host ends in the trap of TF
 * here: the translator leaves the block to the helper. */
static void go_on(CPUX86State *env, int length)
{
    env->eip += length;
    env->eflags &= ~RF_MASK;
    env->hflags &= ~HF_INHIBIT_IRQ_MASK;
    if (env->eflags & TF_MASK) {
        helper_single_step(env);
    }
}

void helper_vmx(CPUX86State *env)
{
    struct op op = {.env = env, .vmx = x86_vmx_of(env)};
    uint32_t reason;
    bool goes_on = true;

    x86_vmx_decode(env, &op.insn);
    if (op.insn.opcode == INT1) {
        x86_vmx_int1(env, op.insn.length);
        return;
    }
    if (!is_vmx(&op.insn)) {
        return; /* what is there now is translated next */
    }
    reason = reason_of(&op.insn);
    check(&op, reason);
    if (reason == VMX_EXIT_VMLAUNCH || reason == VMX_EXIT_VMRESUME) {
        goes_on = op_enter(&op, reason == VMX_EXIT_VMLAUNCH);
    } else {
        handler (&op.insn)(&op);
    }
    if (goes_on) {
        go_on(env, op.insn.length);
    }
}
