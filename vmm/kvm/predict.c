/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Page faults before they happen. An exception clears RFLAGS.TF and would let its handler run
 * unseen, so the source of events computes what an instruction is about to access, walks the page
 * tables for it, and delivers the fault itself (transfer.c).
 */
#include "kvm/predict.h"
#include "kvm/machine.h"
#include "kvm/memory.h"
#include "kvm/walk.h"

#include <Zydis/Zydis.h>
#include <string.h>

static int16_t register_number(ZydisRegister reg)
{
    if (reg == ZYDIS_REGISTER_NONE)
        return MEMOP_NONE;
    if (reg == ZYDIS_REGISTER_RIP || reg == ZYDIS_REGISTER_EIP)
        return MEMOP_RIP;
    return ZydisRegisterGetId(reg);
}

static bool general(ZydisRegister reg)
{
    const ZydisRegisterClass class = ZydisRegisterGetClass(reg);

    return reg == ZYDIS_REGISTER_NONE || class == ZYDIS_REGCLASS_GPR64 ||
           class == ZYDIS_REGCLASS_GPR32 || class == ZYDIS_REGCLASS_IP;
}

static bool is_push(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operand)
{
    return operand->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN &&
           operand->mem.base == ZYDIS_REGISTER_RSP &&
           (insn->meta.category == ZYDIS_CATEGORY_PUSH ||
            insn->meta.category == ZYDIS_CATEGORY_CALL);
}

/* POP to memory by RSP: the address counts from RSP as it is after the POP. */
static bool moves_rsp(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operand)
{
    return insn->mnemonic == ZYDIS_MNEMONIC_POP &&
           operand->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT &&
           operand->mem.base == ZYDIS_REGISTER_RSP;
}

static void add(struct memops *ops, const ZydisDecodedInstruction *insn,
                const ZydisDecodedOperand *operand)
{
    struct memop *op = &ops->op[ops->count];

    if (ops->count == MAX_MEMOPS || operand->type != ZYDIS_OPERAND_TYPE_MEMORY ||
        operand->mem.type != ZYDIS_MEMOP_TYPE_MEM || operand->size == 0 ||
        moves_rsp(insn, operand) || !general(operand->mem.base) || !general(operand->mem.index))
        return;
    *op = (struct memop){
        .base = register_number(operand->mem.base),
        .index = register_number(operand->mem.index),
        .scale = operand->mem.scale,
        .read = (operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0,
        .write = (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0,
        .address32 = insn->address_width == 32,
        .size_bytes = operand->size / 8u,
        .disp = operand->mem.disp.has_displacement ? operand->mem.disp.value : 0,
    };
    if (!op->read && !op->write)
        return; /* NOP with an operand, prefetch */
    if (operand->mem.segment == ZYDIS_REGISTER_FS)
        op->segment = 'f';
    if (operand->mem.segment == ZYDIS_REGISTER_GS)
        op->segment = 'g';
    if (op->base == MEMOP_RIP)
        op->disp += insn->length;
    if (is_push(insn, operand))
        op->disp -= op->size_bytes; /* what is pushed lies below RSP */
    ops->count++;
}

/*
 * Instructions that name memory and do not touch it, or not so that it can fault; and those whose
 * addresses are not what their operands say, where a wrong prediction would be worse than none:
 * watch.c catches what they raise.
 */
static bool touches_memory(const ZydisDecodedInstruction *insn)
{
    switch (insn->meta.category) {
    case ZYDIS_CATEGORY_NOP:
    case ZYDIS_CATEGORY_WIDENOP:
    case ZYDIS_CATEGORY_PREFETCH:
        return false;
    default:
        break;
    }
    switch (insn->mnemonic) {
    case ZYDIS_MNEMONIC_INVLPG:
    case ZYDIS_MNEMONIC_CLDEMOTE:
    case ZYDIS_MNEMONIC_CLFLUSH: /* of the whole line that holds the address */
    case ZYDIS_MNEMONIC_CLFLUSHOPT:
    case ZYDIS_MNEMONIC_CLWB:
    case ZYDIS_MNEMONIC_ENTER:
    case ZYDIS_MNEMONIC_XLAT: /* AL is part of the address */
    case ZYDIS_MNEMONIC_BT:   /* so is a bit offset in a register */
    case ZYDIS_MNEMONIC_BTS:
    case ZYDIS_MNEMONIC_BTR:
    case ZYDIS_MNEMONIC_BTC:
        return false;
    default:
        return true;
    }
}

/* Of what an instruction may raise besides #UD, #GP and #PF: the likeliest. */
static uint8_t other_vector(const ZydisDecodedInstruction *insn)
{
    if (insn->mnemonic == ZYDIS_MNEMONIC_DIV || insn->mnemonic == ZYDIS_MNEMONIC_IDIV)
        return 0; /* #DE */
    switch (insn->meta.isa_ext) {
    case ZYDIS_ISA_EXT_X87:
        return 16; /* #MF */
    case ZYDIS_ISA_EXT_SSE:
    case ZYDIS_ISA_EXT_SSE2:
    case ZYDIS_ISA_EXT_SSE3:
    case ZYDIS_ISA_EXT_SSE4:
    case ZYDIS_ISA_EXT_AVX:
    case ZYDIS_ISA_EXT_AVX2:
    case ZYDIS_ISA_EXT_AVX512EVEX:
    case ZYDIS_ISA_EXT_FMA:
        return 19; /* #XM */
    default:
        return 12; /* #SS */
    }
}

bool memops_decode(const uint8_t *code, size_t len, struct memops *ops)
{
    ZydisDecoder decoder;
    ZydisDecodedInstruction insn;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];

    memset(ops, 0, sizeof(*ops));
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, len, &insn, operands)))
        return false;
    ops->other_vector = other_vector(&insn);
    ops->rep = (insn.attributes &
                (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE)) != 0;
    for (unsigned i = 0; i < insn.operand_count && touches_memory(&insn); i++)
        add(ops, &insn, &operands[i]);
    return true;
}

uint64_t general_register(const struct kvm_regs *regs, int16_t number)
{
    const uint64_t values[16] = {regs->rax, regs->rcx, regs->rdx, regs->rbx, regs->rsp, regs->rbp,
                                 regs->rsi, regs->rdi, regs->r8,  regs->r9,  regs->r10, regs->r11,
                                 regs->r12, regs->r13, regs->r14, regs->r15};

    if (number == MEMOP_RIP)
        return regs->rip;
    return number >= 0 && number < 16 ? values[number] : 0;
}

uint64_t effective_address(struct vcpu *cpu, const struct memop *op)
{
    const struct kvm_regs *regs = vcpu_regs(cpu);
    uint64_t address = general_register(regs, op->base) +
                       general_register(regs, op->index) * op->scale + (uint64_t)op->disp;

    if (op->address32)
        address = (uint32_t)address;
    if (op->segment == 'f')
        address += vcpu_sregs(cpu)->fs.base;
    if (op->segment == 'g')
        address += vcpu_sregs(cpu)->gs.base;
    return address;
}

bool predict_page_fault(struct vcpu *cpu, const struct memops *ops, uint64_t *address,
                        uint32_t *error_code)
{
    const unsigned cpl = vcpu_cpl(cpu);
    uint64_t gpa;

    const uint64_t count_mask = ops->count && ops->op[0].address32 ? UINT32_MAX : UINT64_MAX;

    if (ops->rep && (vcpu_regs(cpu)->rcx & count_mask) == 0)
        return false;
    for (unsigned i = 0; i < ops->count; i++) {
        const struct memop *op = &ops->op[i];
        const enum walk_access access = op->write ? WALK_WRITE : WALK_READ;
        const uint64_t first = effective_address(cpu, op);
        const uint64_t last = first + op->size_bytes - 1;

        if (!linear_is_canonical(cpu, first) || !linear_is_canonical(cpu, last))
            continue; /* #GP or #SS, not #PF */
        *address = first;
        if (!walk(cpu, first, access, cpl, &gpa, error_code))
            return true;
        *address = last & ~(PAGE_BYTES - 1);
        if ((first ^ last) >= PAGE_BYTES && !walk(cpu, last, access, cpl, &gpa, error_code))
            return true;
    }
    return false;
}

bool memops_touch(struct vcpu *cpu, const struct memops *ops, uint64_t address, uint64_t len)
{
    for (unsigned i = 0; i < ops->count; i++) {
        const uint64_t first = effective_address(cpu, &ops->op[i]);

        if (first - address < len || address - first < ops->op[i].size_bytes)
            return true;
    }
    return false;
}
