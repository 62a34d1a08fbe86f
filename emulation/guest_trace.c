/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a VMM does about the trace that a guest makes of itself, where it emulates what the trace
 * shows (33.5.2.3, 33.5.2.4): a PIP for MOV CR3 that exits, CR3_MATCH for a CR3 that is not the
 * guest's, TSC packets for a TSC that is not the processor's, and the ratios of a scaled TSC.
 */
#include "enables.h"
#include "little_endian.h"
#include "msr.h"
#include "output.h"
#include "packets.h"
#include "pt_packets.h"

#define CR3_IGNORED     0xfffull
#define CR3_IGNORED_PAE 0x1full
#define SCALE_BITS      48
#define TSC_BYTES       7
#define TSC_BITS        (8 * TSC_BYTES)

/* ---- CR3 ---- */

bool vpt_insert_pip(struct vpt_cpu *cpu, uint64_t guest_ctl, const struct vpt_context *ctx, bool nr)
{
    const uint64_t ctl = cpu->ctl;

    if ((ctl & VPT_CTL_TRACEEN) || !(guest_ctl & VPT_CTL_TRACEEN) ||
        (cpu->status & (VPT_STATUS_ERROR | VPT_STATUS_STOPPED)) || !vpt_ctl_ok(cpu, guest_ctl))
        return false;
    cpu->ctx = *ctx;
    cpu->ctl = guest_ctl & ~VPT_CTL_CYCEN; /* the cycles belong to the VMM */
    cpu->context_en = vpt_context_allows(cpu, ctx);
    if (cpu->context_en && (guest_ctl & VPT_CTL_OS) && vpt_output_start(cpu)) {
        vpt_trace_append_begin(cpu);
        vpt_emit_pip_nr(cpu, nr);
        vpt_trace_off(cpu, ctl);
        cpu->context_en = false;
        return true;
    }
    cpu->context_en = false;
    cpu->ctl = ctl;
    return false;
}

uint64_t vpt_translate_cr3_match(uint64_t guest_match, uint64_t guest_cr3, uint64_t real_cr3,
                                 bool pae)
{
    const uint64_t ignored = pae ? CR3_IGNORED_PAE : CR3_IGNORED;
    const bool matches = ((guest_match ^ guest_cr3) & ~ignored) == 0;

    /* Of a CR3 that must not match, one bit of the address is wrong. */
    return (matches ? real_cr3 : real_cr3 ^ (CR3_IGNORED + 1)) & ~CR3_IGNORED_PAE;
}

/* ---- TSC ---- */

uint64_t vpt_guest_tsc(uint64_t tsc, uint64_t multiplier, uint64_t offset)
{
    if (multiplier)
        tsc = (uint64_t)((unsigned __int128)tsc * multiplier >> SCALE_BITS);
    return tsc + offset;
}

/* Sizes of packets with a two-byte opcode; 0: none such. */
static size_t extended_len(const uint8_t *bytes, size_t left)
{
    static const struct {
        uint8_t opcode, len;
    } sizes[] = {
        {PT_EXT_PSB, PT_PSB_LEN},       {PT_EXT_PSBEND, PT_EXT_LEN}, {PT_EXT_OVF, PT_EXT_LEN},
        {PT_EXT_TRACESTOP, PT_EXT_LEN}, {PT_EXT_EXSTOP, PT_EXT_LEN}, {PT_EXT_EXSTOP_IP, PT_EXT_LEN},
        {PT_EXT_BEP, PT_EXT_LEN},       {PT_EXT_BEP_IP, PT_EXT_LEN}, {PT_EXT_CBR, PT_CBR_LEN},
        {PT_EXT_PIP, PT_PIP_LEN},       {PT_EXT_TMA, PT_TMA_LEN},    {PT_EXT_VMCS, PT_VMCS_LEN},
        {PT_EXT_TNT64, PT_TNT64_LEN},   {PT_EXT_MNT, PT_MNT_LEN},    {PT_EXT_MWAIT, PT_MWAIT_LEN},
        {PT_EXT_PWRE, PT_PWRE_LEN},     {PT_EXT_PWRX, PT_PWRX_LEN},  {PT_EXT_BBP, PT_BBP_LEN},
        {PT_EXT_CFE, PT_CFE_LEN},       {PT_EXT_EVD, PT_EVD_LEN},
    };

    if (left < 2)
        return 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (sizes[i].opcode == bytes[1])
            return sizes[i].len;
    if ((bytes[1] & PT_EXT_PTW_MASK) == PT_EXT_PTW && (bytes[1] >> 5 & 3) < 2)
        return 2u + (bytes[1] >> 5 & 1 ? 8 : 4);
    return 0;
}

static size_t cyc_len(const uint8_t *bytes, size_t left)
{
    size_t len = 1;

    if (!(bytes[0] & PT_CYC_EXP0))
        return 1;
    while (len < left && len < PT_CYC_MAX_LEN && (bytes[len] & PT_CYC_EXP))
        len++;
    return len + 1;
}

/* The size of the packet at bytes; item_bytes is that of a block's items, 0 outside. */
static size_t packet_len(const uint8_t *bytes, size_t left, unsigned item_bytes)
{
    static const uint8_t ip_bytes[8] = {1, 3, 5, 7, 7, 0, 9, 0};

    switch (bytes[0]) {
    case PT_OPC_PAD:
        return 1;
    case PT_OPC_EXT:
        return extended_len(bytes, left);
    case PT_OPC_TSC:
        return PT_TSC_LEN;
    case PT_OPC_MTC:
    case PT_OPC_MODE:
        return PT_MODE_LEN; /* PT_MTC_LEN is the same */
    case PT_OPC_TRIG:
        return left > 1 && (bytes[1] & PT_TRIG_ICNTV) ? PT_TRIG5_LEN : PT_TRIG_LEN;
    default:
        break;
    }
    if (item_bytes && (bytes[0] & PT_BIP_MASK) == PT_BIP)
        return 1 + item_bytes;
    if ((bytes[0] & PT_TNT8_MASK) == 0)
        return 1;
    if ((bytes[0] & PT_CYC_MASK) == PT_CYC)
        return cyc_len(bytes, left);
    switch (bytes[0] & PT_TIP_MASK) {
    case PT_TIP:
    case PT_TIP_PGE:
    case PT_TIP_PGD:
    case PT_FUP:
        return ip_bytes[bytes[0] >> PT_IPBYTES_SHR];
    default:
        return 0;
    }
}

/* The TSC with these lower bytes that is nearest to another one. */
static uint64_t nearest_tsc(uint64_t low, uint64_t near_tsc)
{
    const unsigned unused = 64 - TSC_BITS;
    const int64_t distance = (int64_t)((low - near_tsc) << unused) >> unused;

    return near_tsc + (uint64_t)distance;
}

static void rewrite(uint8_t *payload, uint64_t multiplier, uint64_t offset, uint64_t near_tsc)
{
    const uint64_t tsc = nearest_tsc(vpt_get_le(payload, TSC_BYTES), near_tsc);

    vpt_put_le(payload, vpt_guest_tsc(tsc, multiplier, offset), TSC_BYTES);
}

size_t vpt_rewrite_tsc(uint8_t *bytes, size_t len_bytes, uint64_t multiplier, uint64_t offset)
{
    return vpt_rewrite_tsc_near(bytes, len_bytes, multiplier, offset, 1ull << (TSC_BITS - 1));
}

size_t vpt_rewrite_tsc_near(uint8_t *bytes, size_t len_bytes, uint64_t multiplier, uint64_t offset,
                            uint64_t near_tsc)
{
    unsigned item_bytes = 0;
    size_t at = 0;

    while (at < len_bytes) {
        uint8_t *packet = bytes + at;
        const size_t len = packet_len(packet, len_bytes - at, item_bytes);

        if (len == 0 || len > len_bytes - at)
            break;
        if (packet[0] == PT_OPC_TSC)
            rewrite(packet + 1, multiplier, offset, near_tsc);
        if (packet[0] == PT_OPC_EXT && packet[1] == PT_EXT_BBP)
            item_bytes = packet[2] & PT_BBP_SZ4 ? 4 : 8;
        else if (packet[0] == PT_OPC_EXT && ((packet[1] & ~PT_EXT_IP) == PT_EXT_BEP ||
                                             packet[1] == PT_EXT_OVF || packet[1] == PT_EXT_PSB))
            item_bytes = 0;
        at += len;
    }
    return at;
}

/* ---- Ratios ---- */

/* The fraction with a denominator and numerator of 32 bits that is nearest to num / den. */
static bool fraction_32(unsigned __int128 num, unsigned __int128 den, uint32_t *num32,
                        uint32_t *den32)
{
    /* Convergents of the continued fraction: h/k, each nearer than the one before. */
    unsigned __int128 h0 = 0, h1 = 1, k0 = 1, k1 = 0;

    while (den != 0) {
        const unsigned __int128 a = num / den, rest = num % den;
        const unsigned __int128 h2 = a * h1 + h0, k2 = a * k1 + k0;

        if (a > UINT32_MAX || h2 > UINT32_MAX || k2 > UINT32_MAX)
            break;
        h0 = h1;
        h1 = h2;
        k0 = k1;
        k1 = k2;
        num = den;
        den = rest;
    }
    *num32 = (uint32_t)h1;
    *den32 = (uint32_t)k1;
    return h1 != 0 && k1 != 0;
}

bool vpt_scale_caps(const struct vpt_caps *host, uint64_t multiplier, struct vpt_caps *guest)
{
    const unsigned __int128 one = (unsigned __int128)1 << SCALE_BITS;
    const uint64_t ratio =
        (uint64_t)(((unsigned __int128)host->max_nonturbo_ratio * multiplier + one / 2) >>
                   SCALE_BITS);

    *guest = *host;
    if (multiplier == 0 || ratio == 0 || ratio > UINT8_MAX)
        return false;
    guest->max_nonturbo_ratio = (uint8_t)ratio;
    if (host->tsc_den == 0 || host->tsc_num == 0)
        return true;
    return fraction_32((unsigned __int128)host->tsc_num * multiplier,
                       (unsigned __int128)host->tsc_den * one, &guest->tsc_num, &guest->tsc_den);
}
