/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The instruction at EIP, as a VM exit tells of it and as VMX instructions find their operands. */
#ifndef I386_VMX_INSN_H
#define I386_VMX_INSN_H

#include "cpu.h"

/* Opcodes: one byte; two bytes with 0F before them; three with 0F 38. */
#define X86_INSN_0F   0x0f00
#define X86_INSN_0F38 0x0f3800

struct x86_vmx_insn {
    uint32_t opcode;
    uint8_t length;
    bool lock, rep, repne, opsize;
    uint8_t rex;
    int segment;      /* R_ES..R_GS; the one of a memory operand */
    int address_size; /* 0: 16 bits, 1: 32, 2: 64; as instruction information has it */
    uint8_t modrm;
    bool has_modrm;
    int reg, rm;            /* with REX; rm if modrm names a register */
    int base, index, scale; /* of a memory operand; -1: there is none */
    uint64_t displacement;
    bool rip_relative;
    uint8_t immediate;
};

/* It was fetched already; if it is gone since then, fetching it faults again. */
void x86_vmx_decode(CPUX86State *env, struct x86_vmx_insn *insn);
/* False: fetching it would fault. It may be the fetch that faults now. */
bool x86_vmx_try_decode(CPUX86State *env, struct x86_vmx_insn *insn);

static inline bool x86_insn_in_register(const struct x86_vmx_insn *insn)
{
    return insn->modrm >> 6 == 3;
}

/* The memory operand's offset in its segment, and its linear address. */
uint64_t x86_insn_offset(CPUX86State *env, const struct x86_vmx_insn *insn);
uint64_t x86_insn_linear(CPUX86State *env, const struct x86_vmx_insn *insn);
/* What an exit qualification has of a memory operand: the displacement. */
uint64_t x86_insn_displacement(CPUX86State *env, const struct x86_vmx_insn *insn);
/* 0: 16 bits, 1: 32, 2: 64; as instruction information has it. */
int x86_insn_operand_size(CPUX86State *env, const struct x86_vmx_insn *insn);
/* VM-exit instruction information of instructions with modrm. */
uint32_t x86_insn_information(const struct x86_vmx_insn *insn);

#endif
