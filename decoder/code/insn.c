/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one instruction means to a trace: its length, its class (Table 33-1 and the instructions
 * that 33.4.2.7, 33.4.2.15 and 33.4.2.21 bind packets to) and the target of a direct branch.
 *
 * Zydis finds length and mnemonic; its minimal mode decodes no operands and is all that is needed.
 * What is newer than Zydis and matters to a trace is looked for here: ERETS and ERETU of FRED, and
 * JMPABS of APX.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <Zydis/Zydis.h>

#include "base/array.h"
#include "code/insn.h"

/* ModRM.reg of opcode FF, and of the far forms. */
#define REG_CALL_FAR 3
#define REG_JMP_FAR  5

/* Opcodes of the far forms that share a mnemonic with near ones. */
#define OP_CALL_FAR_IMM 0x9a
#define OP_JMP_FAR_IMM  0xea
#define OP_RET_FAR      0xcb
#define OP_RET_FAR_IMM  0xca
#define OP_MOV_TO_CR    0x22 /* after 0F */
#define PAGING_REGISTER 0
#define SPACE_REGISTER  3

/* Of the instructions that Zydis does not know. */
#define PREFIX_REPNE 0xf2u
#define PREFIX_REP   0xf3u
#define PREFIX_REX   0x40u /* bits 7:4 */
#define PREFIX_REX2  0xd5u
#define REX2_MAP1    0x80u /* of the byte behind it */
#define REX2_W       0x08u
#define OP_JMPABS    0xa1u
#define JMPABS_BYTES 11u /* REX2 and its byte, opcode, target */
#define ERET_BYTES   3u  /* behind the prefixes */

static bool init_decoder(enum ptd_mode mode, ZydisDecoder *decoder)
{
    switch (mode) {
    case PTD_MODE_64:
        return ZYAN_SUCCESS(
            ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64));
    case PTD_MODE_32:
        return ZYAN_SUCCESS(
            ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LEGACY_32, ZYDIS_STACK_WIDTH_32));
    case PTD_MODE_16:
        return ZYAN_SUCCESS(
            ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LEGACY_16, ZYDIS_STACK_WIDTH_16));
    }
    return false;
}

static bool is_direct(const ZydisDecodedInstruction *decoded)
{
    return decoded->raw.imm[0].is_relative;
}

static enum ptd_insn_class classify_call(const ZydisDecodedInstruction *decoded)
{
    if (is_direct(decoded))
        return PTD_INSN_CALL_DIRECT;
    if (decoded->opcode == OP_CALL_FAR_IMM || decoded->raw.modrm.reg == REG_CALL_FAR)
        return PTD_INSN_FAR;
    return PTD_INSN_CALL_INDIRECT;
}

static enum ptd_insn_class classify_jmp(const ZydisDecodedInstruction *decoded)
{
    if (is_direct(decoded))
        return PTD_INSN_JMP_DIRECT;
    if (decoded->opcode == OP_JMP_FAR_IMM || decoded->raw.modrm.reg == REG_JMP_FAR)
        return PTD_INSN_FAR;
    return PTD_INSN_JMP_INDIRECT;
}

static bool is_far_ret(const ZydisDecodedInstruction *decoded)
{
    return decoded->opcode == OP_RET_FAR || decoded->opcode == OP_RET_FAR_IMM;
}

static enum ptd_insn_class classify_mov(const ZydisDecodedInstruction *decoded)
{
    if (decoded->opcode_map != ZYDIS_OPCODE_MAP_0F || decoded->opcode != OP_MOV_TO_CR ||
        decoded->raw.rex.R)
        return PTD_INSN_OTHER;
    switch (decoded->raw.modrm.reg) {
    case PAGING_REGISTER:
        return PTD_INSN_MOV_CR0;
    case SPACE_REGISTER:
        return PTD_INSN_MOV_CR3;
    default:
        return PTD_INSN_OTHER;
    }
}

static void classify(const ZydisDecodedInstruction *decoded, struct ptd_insn *insn)
{
    switch (decoded->mnemonic) {
    case ZYDIS_MNEMONIC_JB:
    case ZYDIS_MNEMONIC_JBE:
    case ZYDIS_MNEMONIC_JCXZ:
    case ZYDIS_MNEMONIC_JECXZ:
    case ZYDIS_MNEMONIC_JL:
    case ZYDIS_MNEMONIC_JLE:
    case ZYDIS_MNEMONIC_JNB:
    case ZYDIS_MNEMONIC_JNBE:
    case ZYDIS_MNEMONIC_JNL:
    case ZYDIS_MNEMONIC_JNLE:
    case ZYDIS_MNEMONIC_JNO:
    case ZYDIS_MNEMONIC_JNP:
    case ZYDIS_MNEMONIC_JNS:
    case ZYDIS_MNEMONIC_JNZ:
    case ZYDIS_MNEMONIC_JO:
    case ZYDIS_MNEMONIC_JP:
    case ZYDIS_MNEMONIC_JRCXZ:
    case ZYDIS_MNEMONIC_JS:
    case ZYDIS_MNEMONIC_JZ:
    case ZYDIS_MNEMONIC_LOOP:
    case ZYDIS_MNEMONIC_LOOPE:
    case ZYDIS_MNEMONIC_LOOPNE:
        insn->iclass = PTD_INSN_COND;
        break;
    case ZYDIS_MNEMONIC_CALL:
        insn->iclass = (uint8_t)classify_call(decoded);
        break;
    case ZYDIS_MNEMONIC_JMP:
        insn->iclass = (uint8_t)classify_jmp(decoded);
        break;
    case ZYDIS_MNEMONIC_RET:
        insn->far_return = is_far_ret(decoded);
        insn->iclass = insn->far_return ? PTD_INSN_FAR : PTD_INSN_RET;
        break;
    case ZYDIS_MNEMONIC_SYSCALL:
    case ZYDIS_MNEMONIC_SYSENTER:
        insn->iclass = PTD_INSN_FAR;
        break;
    case ZYDIS_MNEMONIC_SYSRET:
    case ZYDIS_MNEMONIC_SYSEXIT:
    case ZYDIS_MNEMONIC_UIRET:
    case ZYDIS_MNEMONIC_RSM:
        insn->iclass = PTD_INSN_FAR;
        insn->far_return = true;
        break;
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
        insn->iclass = PTD_INSN_IRET;
        insn->far_return = true;
        break;
    case ZYDIS_MNEMONIC_INTO:
        insn->iclass = PTD_INSN_INT;
        insn->optional = true;
        break;
    case ZYDIS_MNEMONIC_INT:
    case ZYDIS_MNEMONIC_INT1:
    case ZYDIS_MNEMONIC_INT3:
        insn->iclass = PTD_INSN_INT;
        break;
    case ZYDIS_MNEMONIC_VMLAUNCH:
    case ZYDIS_MNEMONIC_VMRESUME:
    case ZYDIS_MNEMONIC_VMRUN: /* of SVM, as the QEMU of vmm/qemu traces it */
        insn->iclass = PTD_INSN_VMENTRY;
        break;
    case ZYDIS_MNEMONIC_VMPTRLD:
        insn->iclass = PTD_INSN_VMPTRLD;
        break;
    case ZYDIS_MNEMONIC_MOV:
        insn->iclass = (uint8_t)classify_mov(decoded);
        break;
    case ZYDIS_MNEMONIC_PTWRITE:
        insn->iclass = PTD_INSN_PTWRITE;
        break;
    default:
        insn->iclass = PTD_INSN_OTHER;
        break;
    }
}

/*
 * Near branches with 16-bit operands wrap at 64 KiB. Packets may hold linear addresses (33.3.1.1),
 * and the base of CS is unknown: above 64 KiB there is no telling where the wrap is.
 */
uint64_t ptd_insn_target(enum ptd_mode mode, bool wraps, uint64_t next_ip, int64_t distance)
{
    const uint64_t target = next_ip + (uint64_t)distance;

    if (mode == PTD_MODE_64)
        return target;
    if (wraps && next_ip <= 0x10000u)
        return target & 0xffffu;
    return target & 0xffffffffu;
}

/* ---- What Zydis does not know ---- */

struct newer {
    const char *name; /* NULL: it is none of these */
    uint8_t size_bytes;
    bool is_jmpabs;
    uint64_t target;
};

/* Segment overrides mean nothing to these instructions, and the last of F2 and F3 counts. */
static bool is_prefix(uint8_t byte)
{
    switch (byte) {
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x64:
    case 0x65:
    case PREFIX_REPNE:
    case PREFIX_REP:
        return true;
    default:
        return false;
    }
}

/* At most MAX_INSN_BYTES are there. */
static struct newer find_newer(enum ptd_mode mode, const uint8_t *bytes, size_t len_bytes)
{
    static const uint8_t eret[ERET_BYTES] = {0x0f, 0x01, 0xca};
    uint8_t repeat = 0;
    size_t at = 0;

    for (; at < len_bytes && is_prefix(bytes[at]); at++)
        if (bytes[at] == PREFIX_REPNE || bytes[at] == PREFIX_REP)
            repeat = bytes[at];
    if (mode != PTD_MODE_64)
        return (struct newer){0};
    if (!repeat && len_bytes - at >= JMPABS_BYTES && bytes[at] == PREFIX_REX2 &&
        !(bytes[at + 1] & (REX2_MAP1 | REX2_W)) && bytes[at + 2] == OP_JMPABS)
        return (struct newer){"jmpabs", (uint8_t)(at + JMPABS_BYTES), true,
                              little_endian(bytes + at + 3, 8)};
    at += at < len_bytes && (bytes[at] & 0xf0u) == PREFIX_REX;
    if (repeat && len_bytes - at >= sizeof(eret) && memcmp(bytes + at, eret, sizeof(eret)) == 0)
        return (struct newer){repeat == PREFIX_REPNE ? "erets" : "eretu",
                              (uint8_t)(at + sizeof(eret)), false, 0};
    return (struct newer){0};
}

static int decode_newer(enum ptd_mode mode, uint64_t ip, const uint8_t *bytes, size_t len_bytes,
                        struct ptd_insn *insn)
{
    const struct newer newer = find_newer(mode, bytes, len_bytes);

    if (!newer.name)
        return PTD_E_INSN;
    *insn = (struct ptd_insn){
        .ip = ip,
        .target = newer.target,
        .iclass = newer.is_jmpabs ? PTD_INSN_JMP_INDIRECT : PTD_INSN_IRET,
        .size_bytes = newer.size_bytes,
        .far_return = !newer.is_jmpabs,
    };
    return PTD_OK;
}

static int format_newer(enum ptd_mode mode, const uint8_t *bytes, size_t len_bytes, char *text,
                        size_t text_bytes)
{
    const struct newer newer = find_newer(mode, bytes, len_bytes);

    if (!newer.name)
        return PTD_E_INSN;
    if (newer.is_jmpabs)
        (void)snprintf(text, text_bytes, "%s 0x%016" PRIx64, newer.name, newer.target);
    else
        (void)snprintf(text, text_bytes, "%s", newer.name);
    return PTD_OK;
}

/* ---- The interface ---- */

static uint8_t head_of(const ZydisDecodedInstruction *decoded)
{
    return decoded->raw.disp.size     ? decoded->raw.disp.offset
           : decoded->raw.imm[0].size ? decoded->raw.imm[0].offset
                                      : decoded->length;
}

int ptd_insn_take_apart(enum ptd_mode mode, uint64_t ip, const void *bytes, size_t available_bytes,
                        struct ptd_insn *insn, struct insn_parts *parts)
{
    ZydisDecoder decoder;
    ZydisDecodedInstruction decoded;

    *parts = (struct insn_parts){0};
    if (available_bytes > MAX_INSN_BYTES)
        available_bytes = MAX_INSN_BYTES;
    if (!init_decoder(mode, &decoder) ||
        !ZYAN_SUCCESS(ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE)) ||
        !ZYAN_SUCCESS(
            ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, available_bytes, &decoded)))
        return decode_newer(mode, ip, bytes, available_bytes, insn);

    memset(insn, 0, sizeof(*insn));
    insn->ip = ip;
    insn->size_bytes = decoded.length;
    classify(&decoded, insn);
    parts->head_bytes = head_of(&decoded);
    if (insn->iclass == PTD_INSN_COND || insn->iclass == PTD_INSN_JMP_DIRECT ||
        insn->iclass == PTD_INSN_CALL_DIRECT) {
        insn->wraps = mode != PTD_MODE_64 && decoded.operand_width == 16;
        insn->target =
            ptd_insn_target(mode, insn->wraps, ip + decoded.length, decoded.raw.imm[0].value.s);
        parts->rel_bytes = decoded.raw.imm[0].size / 8;
    }
    return PTD_OK;
}

int ptd_insn_decode(enum ptd_mode mode, uint64_t ip, const void *bytes, size_t available_bytes,
                    struct ptd_insn *insn)
{
    struct insn_parts parts;

    return ptd_insn_take_apart(mode, ip, bytes, available_bytes, insn, &parts);
}

int ptd_insn_format(enum ptd_mode mode, uint64_t ip, const void *bytes, size_t available_bytes,
                    char *text, size_t text_bytes)
{
    ZydisDecoder decoder;
    ZydisFormatter formatter;
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];

    if (text_bytes == 0)
        return PTD_E_ARG;
    if (available_bytes > MAX_INSN_BYTES)
        available_bytes = MAX_INSN_BYTES;
    if (!init_decoder(mode, &decoder) ||
        !ZYAN_SUCCESS(
            ZydisDecoderDecodeFull(&decoder, bytes, available_bytes, &decoded, operands)) ||
        !ZYAN_SUCCESS(ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL)))
        return format_newer(mode, bytes, available_bytes, text, text_bytes);

    /* The formatter fails where the text does not fit: give it room, then cut. */
    char full[256];

    if (!ZYAN_SUCCESS(ZydisFormatterFormatInstruction(&formatter, &decoded, operands,
                                                      decoded.operand_count_visible, full,
                                                      sizeof(full), ip, NULL)))
        return PTD_E_INSN;

    size_t len = strlen(full);

    if (len >= text_bytes)
        len = text_bytes - 1;
    memcpy(text, full, len);
    text[len] = '\0';
    return PTD_OK;
}
