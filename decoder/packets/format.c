/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and text: errors, packet types and one line for each packet (SDM 33.4.2). */
#include <inttypes.h>
#include <stdio.h>

#include "ptdec.h"
#include "pt_packets.h"

const char *ptd_strerror(int error)
{
    switch ((enum ptd_error)error) {
    case PTD_OK:
        return "no error";
    case PTD_END:
        return "no more input";
    case PTD_E_TRUNCATED:
        return "the trace ends inside a packet";
    case PTD_E_OPCODE:
        return "unknown packet";
    case PTD_E_PAYLOAD:
        return "packet with a reserved encoding";
    case PTD_E_NOSYNC:
        return "no PSB packet to begin at";
    case PTD_E_NOMAP:
        return "no code known at this address";
    case PTD_E_INSN:
        return "bytes that are not an instruction";
    case PTD_E_MISMATCH:
        return "packets and code contradict each other";
    case PTD_E_RETSTACK:
        return "compressed RET without its CALL";
    case PTD_E_LOOP:
        return "endless loop of direct branches";
    case PTD_E_NOMEM:
        return "out of memory";
    case PTD_E_IO:
        return "the file cannot be read";
    case PTD_E_FORMAT:
        return "the file has the wrong format";
    case PTD_E_LIMIT:
        return "the file needs more memory than it may have";
    case PTD_MORE:
        return "more input is needed";
    case PTD_E_ARG:
        return "argument out of range";
    }
    return "unknown error";
}

const char *ptd_packet_name(enum ptd_packet_type type)
{
    static const char *const names[PTD_PACKET_TYPES] = {
        [PTD_PAD] = "PAD",           [PTD_PSB] = "PSB",
        [PTD_PSBEND] = "PSBEND",     [PTD_TNT] = "TNT",
        [PTD_TIP] = "TIP",           [PTD_TIP_PGE] = "TIP.PGE",
        [PTD_TIP_PGD] = "TIP.PGD",   [PTD_FUP] = "FUP",
        [PTD_PIP] = "PIP",           [PTD_MODE_EXEC] = "MODE.Exec",
        [PTD_MODE_TSX] = "MODE.TSX", [PTD_TRACESTOP] = "TraceStop",
        [PTD_CBR] = "CBR",           [PTD_TSC] = "TSC",
        [PTD_MTC] = "MTC",           [PTD_TMA] = "TMA",
        [PTD_CYC] = "CYC",           [PTD_VMCS] = "VMCS",
        [PTD_OVF] = "OVF",           [PTD_MNT] = "MNT",
        [PTD_PTW] = "PTW",           [PTD_EXSTOP] = "EXSTOP",
        [PTD_MWAIT] = "MWAIT",       [PTD_PWRE] = "PWRE",
        [PTD_PWRX] = "PWRX",         [PTD_BBP] = "BBP",
        [PTD_BIP] = "BIP",           [PTD_BEP] = "BEP",
        [PTD_CFE] = "CFE",           [PTD_EVD] = "EVD",
        [PTD_TRIG] = "TRIG",
    };

    if ((unsigned)type >= PTD_PACKET_TYPES)
        return "?";
    return names[type];
}

/* Table 33-50. */
static const char *cfe_name(uint8_t type)
{
    static const char *const names[] = {
        [PT_CFE_INTR] = "INTR",
        [PT_CFE_IRET] = "IRET",
        [PT_CFE_SMI] = "SMI",
        [PT_CFE_RSM] = "RSM",
        [PT_CFE_SIPI] = "SIPI",
        [PT_CFE_INIT] = "INIT",
        [PT_CFE_VMENTRY] = "VMENTRY",
        [PT_CFE_VMEXIT] = "VMEXIT",
        [PT_CFE_VMEXIT_INTR] = "VMEXIT_INTR",
        [PT_CFE_SHUTDOWN] = "SHUTDOWN",
        [PT_CFE_UINTR] = "UINTR",
        [PT_CFE_UIRET] = "UIRET",
        [PT_CFE_SWINT] = "SWINT",
        [PT_CFE_SYSCALL] = "SYSCALL",
    };

    if (type >= sizeof(names) / sizeof(names[0]) || !names[type])
        return "reserved";
    return names[type];
}

static bool cfe_has_vector(uint8_t type)
{
    return type == PT_CFE_INTR || type == PT_CFE_SIPI || type == PT_CFE_VMEXIT_INTR ||
           type == PT_CFE_UINTR || type == PT_CFE_SWINT;
}

/* Table 33-45. */
static const char *block_name(uint8_t type)
{
    switch (type) {
    case 0x01:
        return "general registers";
    case 0x04:
        return "PEBS basic";
    case 0x05:
        return "PEBS memory";
    case 0x08:
        return "LBR 0";
    case 0x09:
        return "LBR 1";
    case 0x0a:
        return "LBR 2";
    case 0x10:
        return "XMM registers";
    default:
        return "reserved";
    }
}

static const char *evd_name(uint8_t type)
{
    switch (type) {
    case PT_EVD_PFA:
        return "page fault address";
    case PT_EVD_VMXQ:
        return "VM-exit qualification";
    case PT_EVD_VMXR:
        return "VM-exit reason";
    default:
        return "reserved";
    }
}

/* Results from oldest to youngest: T taken, N not taken. */
static int format_tnt(const struct ptd_packet *packet, char *text, size_t text_bytes)
{
    char results[64];
    unsigned count = packet->tnt.count;

    if (count > 47)
        count = 47;
    for (unsigned i = 0; i < count; i++)
        results[i] = packet->tnt.bits >> (count - 1 - i) & 1 ? 'T' : 'N';
    results[count] = '\0';
    return snprintf(text, text_bytes, "TNT %s (%u%s)", results, count,
                    packet->tnt.is_long ? ", long" : "");
}

static int format_ip(const struct ptd_packet *packet, char *text, size_t text_bytes)
{
    static const uint8_t bits[8] = {0, 16, 32, 48, 48, 0, 64, 0};
    const char *name = ptd_packet_name(packet->type);

    if (packet->ip.ip_bytes == PT_IPB_NONE)
        return snprintf(text, text_bytes, "%s (no IP)", name);
    return snprintf(text, text_bytes, "%s 0x%" PRIx64 " (%u bits%s)", name, packet->ip.payload,
                    bits[packet->ip.ip_bytes & 7],
                    packet->ip.ip_bytes == PT_IPB_UPD48 ? ", not extended" : "");
}

static int format_mode_exec(const struct ptd_packet *packet, char *text, size_t text_bytes)
{
    const char *bits = packet->mode_exec.csl ? "64" : packet->mode_exec.csd ? "32" : "16";

    return snprintf(text, text_bytes, "MODE.Exec %s-bit%s", bits,
                    packet->mode_exec.interrupts ? ", IF" : "");
}

static int format_mode_tsx(const struct ptd_packet *packet, char *text, size_t text_bytes)
{
    const char *state = packet->mode_tsx.abort   ? "aborted"
                        : packet->mode_tsx.in_tx ? "in transaction"
                                                 : "no transaction";

    return snprintf(text, text_bytes, "MODE.TSX %s", state);
}

static int format_cfe(const struct ptd_packet *packet, char *text, size_t text_bytes)
{
    const char *name = cfe_name(packet->cfe.type);
    const char *ip = packet->cfe.ip ? ", IP" : "";

    if (cfe_has_vector(packet->cfe.type))
        return snprintf(text, text_bytes, "CFE.%s vector %u%s", name, packet->cfe.vector, ip);
    return snprintf(text, text_bytes, "CFE.%s (type %u)%s", name, packet->cfe.type, ip);
}

static int format_trig(const struct ptd_packet *packet, char *text, size_t text_bytes)
{
    char count[16] = "";

    if (packet->trig.has_icnt)
        (void)snprintf(count, sizeof(count), ", ICNT %u", packet->trig.icnt);
    return snprintf(text, text_bytes, "TRIG 0x%02x%s%s%s", packet->trig.fired, count,
                    packet->trig.more ? ", MULT" : "", packet->trig.ip ? ", IP" : "");
}

int ptd_packet_format(const struct ptd_packet *packet, char *text, size_t text_bytes)
{
    const char *name = ptd_packet_name(packet->type);

    switch ((enum ptd_packet_type)packet->type) {
    case PTD_TNT:
        return format_tnt(packet, text, text_bytes);
    case PTD_TIP:
    case PTD_TIP_PGE:
    case PTD_TIP_PGD:
    case PTD_FUP:
        return format_ip(packet, text, text_bytes);
    case PTD_PIP:
        return snprintf(text, text_bytes, "PIP CR3 0x%" PRIx64 "%s", packet->pip.cr3,
                        packet->pip.nr ? ", NR" : "");
    case PTD_MODE_EXEC:
        return format_mode_exec(packet, text, text_bytes);
    case PTD_MODE_TSX:
        return format_mode_tsx(packet, text, text_bytes);
    case PTD_CBR:
        return snprintf(text, text_bytes, "CBR %u", packet->cbr);
    case PTD_TSC:
        return snprintf(text, text_bytes, "TSC 0x%" PRIx64, packet->tsc);
    case PTD_MTC:
        return snprintf(text, text_bytes, "MTC 0x%x", packet->mtc);
    case PTD_TMA:
        return snprintf(text, text_bytes, "TMA CTC 0x%x, fast 0x%x", packet->tma.ctc,
                        packet->tma.fast);
    case PTD_CYC:
        return snprintf(text, text_bytes, "CYC %" PRIu64, packet->cyc);
    case PTD_VMCS:
        return snprintf(text, text_bytes, "VMCS 0x%" PRIx64, packet->vmcs);
    case PTD_MNT:
        return snprintf(text, text_bytes, "MNT 0x%" PRIx64, packet->mnt);
    case PTD_PTW:
        return snprintf(text, text_bytes, "PTW 0x%" PRIx64 " (%u bytes)%s", packet->ptw.payload,
                        packet->ptw.payload_bytes, packet->ptw.ip ? ", IP" : "");
    case PTD_EXSTOP:
        return snprintf(text, text_bytes, "%s%s", name, packet->exstop_ip ? ", IP" : "");
    case PTD_MWAIT:
        return snprintf(text, text_bytes, "MWAIT hints 0x%x, ext 0x%x", packet->mwait.hints,
                        packet->mwait.ext);
    case PTD_PWRE:
        return snprintf(text, text_bytes, "PWRE state %u, sub-state %u%s", packet->pwre.state,
                        packet->pwre.sub_state, packet->pwre.hw ? ", HW" : "");
    case PTD_PWRX:
        return snprintf(text, text_bytes, "PWRX last %u, deepest %u, wake reason 0x%x",
                        packet->pwrx.last, packet->pwrx.deepest, packet->pwrx.wake_reason);
    case PTD_BBP:
        return snprintf(text, text_bytes, "BBP %s (type 0x%x), items of %u bytes",
                        block_name(packet->bbp.type), packet->bbp.type, packet->bbp.item_bytes);
    case PTD_BIP:
        return snprintf(text, text_bytes, "BIP %u: 0x%" PRIx64, packet->bip.id,
                        packet->bip.payload);
    case PTD_BEP:
        return snprintf(text, text_bytes, "%s%s", name, packet->bep_ip ? ", IP" : "");
    case PTD_CFE:
        return format_cfe(packet, text, text_bytes);
    case PTD_EVD:
        return snprintf(text, text_bytes, "EVD %s (type %u): 0x%" PRIx64,
                        evd_name(packet->evd.type), packet->evd.type, packet->evd.payload);
    case PTD_TRIG:
        return format_trig(packet, text, text_bytes);
    default: /* nothing but a name */
        return snprintf(text, text_bytes, "%s", name);
    }
}
