/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PTWRITE (33.2.2, 33.4.2.21), carried out by the source of events: few processors under a
 * hypervisor have it, and a KVM that interprets supervisor code does not know it.
 */
#include "kvm/ptwrite.h"
#include "kvm/machine.h"
#include "kvm/predict.h"
#include "kvm/tracer.h"
#include "kvm/walk.h"

#include <Zydis/Zydis.h>

static bool decode(const uint8_t *code, size_t len, ZydisDecodedOperand *operand)
{
    ZydisDecoder decoder;
    ZydisDecodedInstruction insn;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];

    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, len, &insn, operands)))
        return false;
    *operand = operands[0];
    return true;
}

bool do_ptwrite(struct vcpu *cpu, const uint8_t *code, size_t len, const struct memops *ops)
{
    const uint64_t ip = vcpu_regs(cpu)->rip;
    ZydisDecodedOperand operand;
    uint64_t value = 0;

    if (!(tracer_caps(cpu)->leaf14_0_ebx & VPT_CAP_PTWRITE) || !decode(code, len, &operand))
        return false;

    const uint8_t size_bytes = operand.size == 64 ? 8 : 4;

    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER)
        value = general_register(vcpu_regs(cpu), ZydisRegisterGetId(operand.reg.value));
    else if (!ops->count ||
             !linear_read(cpu, effective_address(cpu, &ops->op[0]), &value, size_bytes))
        return false;
    if (size_bytes == 4)
        value = (uint32_t)value;
    vcpu_regs(cpu)->rip = ip + len;
    vcpu_dirty(cpu, KVM_SYNC_X86_REGS);
    tracer_ptwrite(cpu, value, size_bytes, ip);
    return true;
}
