/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decodes the instruction at EIP once more: the translator keeps nothing of its operands, and only
 * a VM exit and the VMX instructions need them. So no ordinary code pays for that.
 *
 * Only instructions that may exit come here: those with the lengths below.
 */
#include "qemu/osdep.h"
#include "exec/cpu_ldst.h"
#include "exec/exec-all.h"
#include "compat.h"
#include "insn.h"

#define INSN_MAX 15
#define REX_W    8
#define REX_R    4
#define REX_X    2
#define REX_B    1

struct cursor {
    CPUX86State *env;
    struct x86_vmx_insn *insn;
    bool no_faults, missing; /* a byte that is not there is 0, and missing is set */
};

/* A byte of code, unless fetching it would fault. */
static bool peek(CPUX86State *env, uint64_t address, uint8_t *byte)
{
    const void *host = tlb_vaddr_to_host(env, address, MMU_INST_FETCH, x86_vmx_fetch_index(env));

    *byte = host ? ldub_p(host) : 0;
    return host;
}

static uint8_t next_byte(struct cursor *at)
{
    CPUX86State *env = at->env;
    uint64_t address = env->segs[R_CS].base + env->eip + at->insn->length;

    if (!(env->hflags & HF_CS64_MASK)) {
        address = (uint32_t)address;
    }
    if (at->insn->length == INSN_MAX) {
        return 0;
    }
    at->insn->length++;
    if (at->no_faults) {
        uint8_t byte;

        at->missing |= !peek(env, address, &byte);
        return byte;
    }
    return cpu_ldub_code(env, address);
}

static uint64_t next_signed(struct cursor *at, int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes; i++) {
        value |= (uint64_t)next_byte(at) << (8 * i);
    }
    return bytes == 0 ? 0 : sextract64(value, 0, bytes * 8);
}

/* True: the byte is a prefix, and what it says is noted. */
static bool take_prefix(struct cursor *at, uint8_t byte, bool *other_address_size)
{
    static const struct {
        uint8_t byte, segment;
    } segments[] = {{0x26, R_ES}, {0x2e, R_CS}, {0x36, R_SS},
                    {0x3e, R_DS}, {0x64, R_FS}, {0x65, R_GS}};
    struct x86_vmx_insn *insn = at->insn;

    for (size_t i = 0; i < ARRAY_SIZE(segments); i++) {
        if (segments[i].byte == byte) {
            insn->segment = segments[i].segment;
            return true;
        }
    }
    switch (byte) {
    case 0x66:
        insn->opsize = true;
        return true;
    case 0x67:
        *other_address_size = true;
        return true;
    case 0xf0:
        insn->lock = true;
        return true;
    case 0xf2:
        insn->repne = true;
        return true;
    case 0xf3:
        insn->rep = true;
        return true;
    default:
        return false;
    }
}

static uint8_t take_prefixes(struct cursor *at)
{
    const bool long_mode = at->env->hflags & HF_CS64_MASK;
    bool other = false;
    uint8_t byte = next_byte(at);

    while (at->insn->length < INSN_MAX) {
        if (take_prefix(at, byte, &other)) {
            at->insn->rex = 0;
        } else if (long_mode && (byte & 0xf0) == 0x40) {
            at->insn->rex = byte;
        } else {
            break;
        }
        byte = next_byte(at);
    }
    if (long_mode) {
        at->insn->address_size = other ? 1 : 2;
    } else {
        at->insn->address_size = !!(at->env->hflags & HF_CS32_MASK) ^ other;
    }
    return byte;
}

static void take_opcode(struct cursor *at, uint8_t byte)
{
    struct x86_vmx_insn *insn = at->insn;

    insn->opcode = byte;
    if (byte == 0x0f) {
        byte = next_byte(at);
        insn->opcode = X86_INSN_0F | byte;
        if (byte == 0x38) {
            insn->opcode = X86_INSN_0F38 | next_byte(at);
        }
    }
}

static bool has_modrm(uint32_t opcode)
{
    switch (opcode) {
    case 0xff:
    case X86_INSN_0F | 0x00:
    case X86_INSN_0F | 0x01:
    case X86_INSN_0F | 0x20 ... X86_INSN_0F | 0x23:
    case X86_INSN_0F | 0x78:
    case X86_INSN_0F | 0x79:
    case X86_INSN_0F | 0xae:
    case X86_INSN_0F | 0xc7:
    case X86_INSN_0F38 | 0x00 ... X86_INSN_0F38 | 0xff:
        return true;
    default:
        return false;
    }
}

static void default_segment(struct x86_vmx_insn *insn, int segment)
{
    if (insn->segment < 0) {
        insn->segment = segment;
    }
}

static void take_memory_16(struct cursor *at, int mod, int rm)
{
    static const int8_t bases[] = {R_EBX, R_EBX, R_EBP, R_EBP, -1, -1, R_EBP, R_EBX};
    static const int8_t indices[] = {R_ESI, R_EDI, R_ESI, R_EDI, R_ESI, R_EDI, -1, -1};
    struct x86_vmx_insn *insn = at->insn;
    const bool absolute = mod == 0 && rm == 6;

    insn->base = absolute ? -1 : bases[rm];
    insn->index = indices[rm];
    insn->displacement = next_signed(at, absolute || mod == 2 ? 2 : mod);
    default_segment(insn, insn->base == R_EBP ? R_SS : R_DS);
}

static void take_sib(struct cursor *at, int mod)
{
    struct x86_vmx_insn *insn = at->insn;
    const uint8_t sib = next_byte(at);
    const int index = (sib >> 3 & 7) | (insn->rex & REX_X ? 8 : 0);

    insn->scale = sib >> 6;
    insn->index = index == R_ESP ? -1 : index;
    insn->base = (sib & 7) | (insn->rex & REX_B ? 8 : 0);
    if ((sib & 7) == R_EBP && mod == 0) {
        insn->base = -1;
    }
}

static void take_memory(struct cursor *at, int mod, int rm)
{
    struct x86_vmx_insn *insn = at->insn;
    int bytes = mod == 2 ? 4 : mod;

    insn->base = rm | (insn->rex & REX_B ? 8 : 0);
    if (rm == R_ESP) {
        take_sib(at, mod);
        bytes = insn->base < 0 ? 4 : bytes;
    } else if (rm == R_EBP && mod == 0) {
        insn->base = -1;
        insn->rip_relative = at->env->hflags & HF_CS64_MASK;
        bytes = 4;
    }
    insn->displacement = next_signed(at, bytes);
    default_segment(insn, insn->base == R_ESP || insn->base == R_EBP ? R_SS : R_DS);
}

static void take_modrm(struct cursor *at)
{
    struct x86_vmx_insn *insn = at->insn;

    insn->has_modrm = true;
    insn->modrm = next_byte(at);
    insn->reg = (insn->modrm >> 3 & 7) | (insn->rex & REX_R ? 8 : 0);
    insn->rm = (insn->modrm & 7) | (insn->rex & REX_B ? 8 : 0);
    if (x86_insn_in_register(insn) ||
        (insn->opcode >= (X86_INSN_0F | 0x20) && insn->opcode <= (X86_INSN_0F | 0x23))) {
        return;
    }
    if (insn->address_size == 0) {
        take_memory_16(at, insn->modrm >> 6, insn->modrm & 7);
    } else {
        take_memory(at, insn->modrm >> 6, insn->modrm & 7);
    }
}

static void decode(struct cursor *at)
{
    struct x86_vmx_insn *insn = at->insn;
    CPUX86State *env = at->env;

    *insn = (struct x86_vmx_insn){.segment = -1, .base = -1, .index = -1};
    take_opcode(at, take_prefixes(at));
    if (has_modrm(insn->opcode)) {
        take_modrm(at);
    }
    if ((insn->opcode >= 0xe4 && insn->opcode <= 0xe7) || insn->opcode == 0xcd) {
        insn->immediate = next_byte(at);
    }
    if (insn->opcode == 0x9a || insn->opcode == 0xea) { /* far CALL and JMP, with their target */
        insn->length += !insn->opsize == !!(env->hflags & HF_CS32_MASK) ? 6 : 4;
    }
    default_segment(insn, R_DS);
}

void x86_vmx_decode(CPUX86State *env, struct x86_vmx_insn *insn)
{
    struct cursor at = {.env = env, .insn = insn};

    decode(&at);
}

bool x86_vmx_try_decode(CPUX86State *env, struct x86_vmx_insn *insn)
{
    struct cursor at = {.env = env, .insn = insn, .no_faults = true};

    decode(&at);
    return !at.missing;
}

static uint64_t address_masked(const struct x86_vmx_insn *insn, uint64_t address)
{
    static const uint64_t masks[] = {UINT16_MAX, UINT32_MAX, UINT64_MAX};

    return address & masks[insn->address_size];
}

uint64_t x86_insn_offset(CPUX86State *env, const struct x86_vmx_insn *insn)
{
    uint64_t offset = insn->displacement;

    if (insn->rip_relative) {
        offset += env->eip + insn->length;
    }
    if (insn->base >= 0) {
        offset += env->regs[insn->base];
    }
    if (insn->index >= 0) {
        offset += env->regs[insn->index] << insn->scale;
    }
    return address_masked(insn, offset);
}

uint64_t x86_insn_linear(CPUX86State *env, const struct x86_vmx_insn *insn)
{
    const uint64_t offset = x86_insn_offset(env, insn);

    if (!(env->hflags & HF_CS64_MASK)) {
        return (uint32_t)(env->segs[insn->segment].base + offset);
    }
    if (insn->segment == R_FS || insn->segment == R_GS) {
        return env->segs[insn->segment].base + offset;
    }
    return offset;
}

/* RIP-relative ones are told with RIP added (kvm: get_vmx_mem_address()). */
uint64_t x86_insn_displacement(CPUX86State *env, const struct x86_vmx_insn *insn)
{
    return insn->displacement + (insn->rip_relative ? env->eip + insn->length : 0);
}

int x86_insn_operand_size(CPUX86State *env, const struct x86_vmx_insn *insn)
{
    if (insn->rex & REX_W) {
        return 2;
    }
    return !insn->opsize == !!(env->hflags & HF_CS32_MASK);
}

/* kvm: get_vmx_mem_address(), handle_vmread(), handle_invept(). */
uint32_t x86_insn_information(const struct x86_vmx_insn *insn)
{
    uint32_t information = (uint32_t)insn->reg << 28;

    if (!insn->has_modrm) {
        return 0;
    }
    if (x86_insn_in_register(insn)) {
        return information | 1 << 10 | insn->rm << 3;
    }
    information |= insn->address_size << 7 | insn->segment << 15;
    information |= insn->index < 0 ? 1 << 22 : insn->scale | insn->index << 18;
    information |= insn->base < 0 ? 1 << 27 : insn->base << 23;
    return information;
}
