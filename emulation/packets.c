/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The encoder: packets of 33.4.2 into the internal buffer, with IP compression (33.4.2.2), CYC
 * packets before those that are eligible (33.3.6), PSB+ (33.3.7) and internal buffer overflow
 * (33.3.8). What the specification leaves open is as struct vpt_choices says.
 */
#include "packets.h"
#include "enables.h"
#include "layout.h"
#include "little_endian.h"
#include "output.h"
#include "processor.h"
#include "pt_packets.h"

#include <string.h>

#define SHORT_TNT_BITS 6
#define DRAIN_BYTES    256u /* buffered bytes that are worth a store */

/* ---- Bytes ---- */

/* No packet without TriggerEn; none until an overflow resolves (33.3.8). */
static bool sending(const struct vpt_cpu *cpu)
{
    return cpu->trigger_en && !cpu->overflow;
}

/* A packet of so many bytes stands at the end of the buffer. */
static inline void sent_several(struct vpt_cpu *cpu, uint32_t len, uint32_t packets)
{
    cpu->buf_len += len;
    cpu->bytes_since_psb += len;
    cpu->packet_count += packets;
}

static inline void sent(struct vpt_cpu *cpu, uint32_t len)
{
    sent_several(cpu, len, 1);
}

static inline void put(struct vpt_cpu *cpu, const uint8_t *bytes, uint32_t len)
{
    const bool laid_out = cpu->caps.choices.layout != VPT_LAYOUT_DENSE;

    if (!sending(cpu))
        return;
    if (laid_out && len > 1)
        vpt_layout_before(cpu, bytes, len);
    memcpy(cpu->buf + cpu->buf_len, bytes, len);
    sent(cpu, len);
    if (laid_out)
        vpt_layout_behind(cpu, bytes[0], len);
}

static void put_ext(struct vpt_cpu *cpu, uint8_t opcode)
{
    put(cpu, (const uint8_t[]){PT_OPC_EXT, opcode}, PT_EXT_LEN);
}

/* ---- CYC ---- */

static uint64_t cyc_threshold(const struct vpt_cpu *cpu)
{
    const unsigned field = (unsigned)(cpu->ctl >> VPT_CTL_CYCTHRESH_SHR) & 0xf;

    return field ? 1ull << (field - 1) : 0;
}

static void put_cyc(struct vpt_cpu *cpu)
{
    uint8_t bytes[PT_CYC_MAX_LEN];
    uint32_t len = 1;
    uint64_t value;

    if (!sending(cpu))
        return;
    value = cpu->now.cycles - cpu->cyc_base;
    if (value == 0 || value < cyc_threshold(cpu))
        return;

    cpu->cyc_base = cpu->now.cycles;
    bytes[0] = (uint8_t)((value & 0x1f) << PT_CYC_SHR0 | PT_CYC);
    value >>= 5;
    if (value)
        bytes[0] |= PT_CYC_EXP0;
    while (value) {
        bytes[len] = (uint8_t)((value & 0x7f) << PT_CYC_SHR);
        value >>= 7;
        if (value)
            bytes[len] |= PT_CYC_EXP;
        len++;
    }
    put(cpu, bytes, len);
}

/* A CYC-eligible packet is about to be sent: the CYC that may have to precede it (33.3.6). */
static inline void cyc(struct vpt_cpu *cpu)
{
    if (cpu->ctl & VPT_CTL_CYCEN)
        put_cyc(cpu);
}

/* ---- TNT and deferred TIPs ---- */

static void put_ip(struct vpt_cpu *cpu, uint8_t opcode, uint64_t payload);

static void put_long_tnt(struct vpt_cpu *cpu)
{
    uint8_t bytes[PT_TNT64_LEN] = {PT_OPC_EXT, PT_EXT_TNT64};

    vpt_put_le(bytes + 2, cpu->tnt, 6);
    put(cpu, bytes, sizeof(bytes));
}

static inline void put_short_tnt(struct vpt_cpu *cpu)
{
    if (!sending(cpu))
        return;
    cpu->buf[cpu->buf_len] = (uint8_t)(cpu->tnt << PT_TNT8_SHR);
    cpu->line_group = 0;
    sent(cpu, 1);
}

/* The buffered bits, in the shorter packet that has room for them, and the TIPs behind. */
__attribute__((noinline)) static void emit_any_tnt(struct vpt_cpu *cpu)
{
    if (cpu->tnt >= 1u << (SHORT_TNT_BITS + 1))
        put_long_tnt(cpu);
    else if (cpu->tnt != 1)
        put_short_tnt(cpu);
    cpu->tnt = 1;
    for (unsigned i = 0; i < cpu->deferred_count; i++)
        put_ip(cpu, PT_TIP, cpu->deferred_ip[i]);
    cpu->deferred_count = 0;
}

void vpt_emit_tnt(struct vpt_cpu *cpu)
{
    if (cpu->tnt >= 1u << (SHORT_TNT_BITS + 1) || cpu->deferred_count) {
        emit_any_tnt(cpu);
        return;
    }
    if (cpu->tnt != 1)
        put_short_tnt(cpu);
    cpu->tnt = 1;
}

void vpt_tnt_bit(struct vpt_cpu *cpu, bool taken)
{
    cpu->branch_told = !(cpu->ctl & VPT_CTL_DISTNT);
    if (!cpu->branch_told)
        return;
    if (cpu->tnt == 1)
        cyc(cpu); /* the time of the packet's first branch, 33.3.6.2 */
    cpu->tnt = cpu->tnt << 1 | taken;
    if (cpu->tnt >= cpu->tnt_full)
        vpt_emit_tnt(cpu);
}

/* Everything but a TNT goes out after the TNT; a CYC-eligible packet also after its CYC. */
static inline void before_packet(struct vpt_cpu *cpu, bool cyc_eligible)
{
    if (cpu->tnt != 1 || cpu->deferred_count)
        vpt_emit_tnt(cpu);
    if (cyc_eligible)
        cyc(cpu);
}

/* ---- IP packets ---- */

static bool sign_extends_48(uint64_t ip)
{
    return (uint64_t)((int64_t)(ip << 16) >> 16) == ip;
}

/* Of an IP that differs from the last one above its lower 32 bits, or may not be compressed. */
static unsigned long_ip_bytes(const struct vpt_cpu *cpu, uint64_t ip, bool full)
{
    if (cpu->caps.linear_bits == 32)
        return PT_IPB_UPD32;
    if (cpu->caps.choices.ip_full_64)
        return PT_IPB_FULL;
    if (sign_extends_48(ip))
        return PT_IPB_SEXT48;
    return (ip ^ cpu->last_ip) >> 48 == 0 && !full ? PT_IPB_UPD48 : PT_IPB_FULL;
}

static inline unsigned ip_bytes(const struct vpt_cpu *cpu, uint8_t opcode, uint64_t ip)
{
    const uint64_t changed = ip ^ cpu->last_ip;
    const bool full = cpu->ip_full || (opcode == PT_FUP && cpu->caps.choices.fup_full);

    if (!full && changed >> 16 == 0)
        return PT_IPB_UPD16;
    if (!full && changed >> 32 == 0)
        return PT_IPB_UPD32;
    return long_ip_bytes(cpu, ip, full);
}

/* The payload of an IP packet; lengths that the compiler knows are stores of a word. */
static inline uint32_t ip_payload_bytes(uint8_t *bytes, uint64_t payload, unsigned kind)
{
    switch (kind) {
    case PT_IPB_UPD16:
        return vpt_put_le(bytes, payload, 2);
    case PT_IPB_UPD32:
        return vpt_put_le(bytes, payload, 4);
    case PT_IPB_SEXT48:
    case PT_IPB_UPD48:
        return vpt_put_le(bytes, payload, 6);
    default:
        return vpt_put_le(bytes, payload, 8);
    }
}

/* An IP packet that stands at the end of the buffer as it is. */
static inline void append_ip(struct vpt_cpu *cpu, uint8_t opcode, uint64_t payload, unsigned kind)
{
    uint8_t *const bytes = cpu->buf + cpu->buf_len;

    bytes[0] = (uint8_t)(kind << PT_IPBYTES_SHR | opcode);
    sent(cpu, 1 + ip_payload_bytes(bytes + 1, payload, kind));
    cpu->last_ip = payload;
    cpu->ip_full = false;
}

/* An IP packet where PADs may have to stand around it. */
__attribute__((noinline)) static void put_ip_in_line(struct vpt_cpu *cpu, uint8_t opcode,
                                                     uint64_t payload)
{
    const unsigned kind = ip_bytes(cpu, opcode, payload);
    uint8_t bytes[1 + 8] = {(uint8_t)(kind << PT_IPBYTES_SHR | opcode)};

    if (vpt_layout_short_ip(cpu, kind)) {
        append_ip(cpu, opcode, payload, kind);
        return;
    }
    put(cpu, bytes, 1 + ip_payload_bytes(bytes + 1, payload, kind));
    cpu->last_ip = payload;
    cpu->ip_full = false;
}

static inline void put_ip_inline(struct vpt_cpu *cpu, uint8_t opcode, uint64_t payload)
{
    if (!sending(cpu))
        return;
    if (cpu->caps.choices.layout == VPT_LAYOUT_DENSE)
        append_ip(cpu, opcode, payload, ip_bytes(cpu, opcode, payload));
    else
        put_ip_in_line(cpu, opcode, payload);
}

static void put_ip(struct vpt_cpu *cpu, uint8_t opcode, uint64_t payload)
{
    put_ip_inline(cpu, opcode, payload);
}

static inline void emit_ip(struct vpt_cpu *cpu, uint8_t opcode, uint64_t ip)
{
    before_packet(cpu, opcode != PT_FUP);
    put_ip(cpu, opcode, vpt_ip_payload(cpu, ip));
}

void vpt_emit_ip(struct vpt_cpu *cpu, uint8_t opcode, uint64_t ip)
{
    emit_ip(cpu, opcode, ip);
    cpu->branch_told = opcode == PT_TIP; /* others need not be of a branch or event */
}

void vpt_emit_pgd_suppressed(struct vpt_cpu *cpu)
{
    before_packet(cpu, true);
    put(cpu, (const uint8_t[]){PT_TIP_PGD}, 1); /* IPBytes is 0 */
}

static void defer_tip(struct vpt_cpu *cpu, uint64_t ip)
{
    if (cpu->deferred_count == VPT_DEFERRED_TIPS)
        vpt_emit_tnt(cpu);
    cpu->deferred_ip[cpu->deferred_count++] = vpt_ip_payload(cpu, ip);
}

static inline void emit_tip(struct vpt_cpu *cpu, uint64_t ip)
{
    cpu->branch_told = true;
    if (cpu->caps.deferred_tips && !cpu->timing) {
        defer_tip(cpu, ip);
        return;
    }
    before_packet(cpu, true);
    put_ip_inline(cpu, PT_TIP, vpt_ip_payload(cpu, ip));
}

void vpt_emit_tip_deferrable(struct vpt_cpu *cpu, uint64_t ip)
{
    emit_tip(cpu, ip);
}

/* ---- State ---- */

void vpt_emit_pip_nr(struct vpt_cpu *cpu, bool nr)
{
    const uint64_t ignored = cpu->ctx.pae ? 0x1f : 0xfff; /* 33.4.2.7 */
    uint8_t bytes[PT_PIP_LEN] = {PT_OPC_EXT, PT_EXT_PIP};

    if (!cpu->context_en || !(cpu->ctl & VPT_CTL_OS))
        return;
    before_packet(cpu, true);
    vpt_put_le(bytes + 2, (cpu->ctx.cr3 & ~ignored) >> PT_PIP_CR3_SHR << PT_PIP_SHL, 6);
    if (nr)
        bytes[2] |= PT_PIP_NR;
    put(cpu, bytes, sizeof(bytes));
}

/* Whether packets say that this is VMX non-root operation (Table 33-52). */
static bool shows_nonroot(const struct vpt_cpu *cpu)
{
    return cpu->vmx_nonroot && !(cpu->vmx_secondary & VPT_SECONDARY_CONCEAL);
}

void vpt_emit_pip(struct vpt_cpu *cpu)
{
    vpt_emit_pip_nr(cpu, shows_nonroot(cpu));
}

void vpt_emit_vmcs(struct vpt_cpu *cpu)
{
    uint8_t bytes[PT_VMCS_LEN] = {PT_OPC_EXT, PT_EXT_VMCS};

    if (!cpu->vmx_on || !cpu->context_en || !cpu->caps.vmx_misc_pt)
        return;
    before_packet(cpu, true);
    vpt_put_le(bytes + 2, cpu->vmcs >> 12, 5);
    put(cpu, bytes, sizeof(bytes));
}

static uint8_t mode_payload(const struct vpt_cpu *cpu)
{
    uint8_t payload = 0;

    if (cpu->ctx.exec_mode == VPT_EXEC_64)
        payload |= PT_MODE_EXEC_CSL;
    if (cpu->ctx.exec_mode == VPT_EXEC_32)
        payload |= PT_MODE_EXEC_CSD;
    if (vpt_cap(cpu, VPT_CAP_EVENT) && cpu->ctx.interrupts)
        payload |= PT_MODE_EXEC_IF;
    return payload;
}

static void put_mode(struct vpt_cpu *cpu, uint8_t leaf, uint8_t payload)
{
    before_packet(cpu, true);
    put(cpu, (const uint8_t[]){PT_OPC_MODE, (uint8_t)(leaf << PT_MODE_LEAF_SHR | payload)},
        PT_MODE_LEN);
}

void vpt_start_mode(struct vpt_cpu *cpu)
{
    cpu->mode_sent = cpu->ctl & VPT_CTL_BRANCHEN ? VPT_MODE_UNSENT : mode_payload(cpu);
}

void vpt_emit_mode_exec(struct vpt_cpu *cpu)
{
    /* RFLAGS.IF alone is worth a packet only to Event Trace, the rest to BranchEn (33.4.2.8). */
    const uint8_t counts = (cpu->ctl & VPT_CTL_EVENTEN ? PT_MODE_EXEC_IF : 0) |
                           (cpu->ctl & VPT_CTL_BRANCHEN ? PT_MODE_EXEC_CSL | PT_MODE_EXEC_CSD : 0);
    const uint8_t payload = mode_payload(cpu);

    if (!sending(cpu))
        return;
    if (cpu->mode_sent != VPT_MODE_UNSENT && ((cpu->mode_sent ^ payload) & counts) == 0)
        return;
    put_mode(cpu, PT_MODE_EXEC, payload);
    cpu->mode_sent = payload;
}

void vpt_emit_tracestop(struct vpt_cpu *cpu)
{
    put_ext(cpu, PT_EXT_TRACESTOP); /* TNTs went out before the TIP.PGD */
}

void vpt_emit_ptw(struct vpt_cpu *cpu, uint64_t value, uint8_t size_bytes, bool fup)
{
    uint8_t bytes[2 + 8] = {PT_OPC_EXT, PT_EXT_PTW};

    before_packet(cpu, true);
    if (size_bytes == 8)
        bytes[1] |= 1 << 5; /* PayloadBytes */
    if (fup)
        bytes[1] |= PT_EXT_IP;
    vpt_put_le(bytes + 2, value, size_bytes);
    put(cpu, bytes, 2u + size_bytes);
}

void vpt_emit_cfe(struct vpt_cpu *cpu, uint8_t type, uint8_t vector, bool fup)
{
    before_packet(cpu, false);
    put(cpu,
        (const uint8_t[]){PT_OPC_EXT, PT_EXT_CFE, (uint8_t)(fup ? type | PT_CFE_IP : type), vector},
        PT_CFE_LEN);
}

void vpt_emit_trig(struct vpt_cpu *cpu, uint8_t flags, uint8_t fired, uint16_t count)
{
    uint8_t bytes[PT_TRIG5_LEN] = {PT_OPC_TRIG, flags, fired};

    before_packet(cpu, false);
    vpt_put_le(bytes + PT_TRIG_LEN, count, 2);
    put(cpu, bytes, flags & PT_TRIG_ICNTV ? PT_TRIG5_LEN : PT_TRIG_LEN);
}

void vpt_emit_evd(struct vpt_cpu *cpu, uint8_t type, uint64_t payload)
{
    uint8_t bytes[PT_EVD_LEN] = {PT_OPC_EXT, PT_EXT_EVD, type};

    before_packet(cpu, false);
    vpt_put_le(bytes + 3, payload, 8);
    put(cpu, bytes, sizeof(bytes));
}

void vpt_emit_mode_tsx(struct vpt_cpu *cpu, bool aborted)
{
    if (!cpu->caps.tsx || !cpu->context_en || !(cpu->ctl & VPT_CTL_BRANCHEN))
        return;
    put_mode(cpu, PT_MODE_TSX,
             (uint8_t)((cpu->in_tx ? PT_MODE_TSX_INTX : 0) | (aborted ? PT_MODE_TSX_ABRT : 0)));
}

void vpt_emit_bytes(struct vpt_cpu *cpu, const uint8_t *bytes, uint32_t len, bool cyc_eligible)
{
    before_packet(cpu, cyc_eligible);
    put(cpu, bytes, len);
}

/* ---- Timing ---- */

static void read_clocks(struct vpt_cpu *cpu)
{
    cpu->ops->clocks(cpu->owner, &cpu->now);
}

static unsigned mtc_freq(const struct vpt_cpu *cpu)
{
    return (unsigned)(cpu->ctl >> VPT_CTL_MTCFREQ_SHR) & 0xf;
}

void vpt_emit_cbr(struct vpt_cpu *cpu)
{
    before_packet(cpu, false);
    put(cpu, (const uint8_t[]){PT_OPC_EXT, PT_EXT_CBR, cpu->core_ratio, 0}, PT_CBR_LEN);
}

void vpt_emit_tsc(struct vpt_cpu *cpu)
{
    uint8_t tsc[PT_TSC_LEN] = {PT_OPC_TSC};
    uint8_t tma[PT_TMA_LEN] = {PT_OPC_EXT, PT_EXT_TMA};

    if (!(cpu->ctl & VPT_CTL_TSCEN))
        return;
    read_clocks(cpu);
    before_packet(cpu, true);
    vpt_put_le(tsc + 1, cpu->now.tsc, 7);
    put(cpu, tsc, sizeof(tsc));
    if (!(cpu->ctl & VPT_CTL_MTCEN))
        return;
    vpt_put_le(tma + 2, cpu->now.art, 2);
    vpt_put_le(tma + 5, cpu->now.fast & 0x1ff, 2);
    put(cpu, tma, sizeof(tma));
    /* The alignment says where the clock stands: the next MTC is the next change. */
    cpu->mtc_count = cpu->now.art >> mtc_freq(cpu);
}

void vpt_resume_clocks(struct vpt_cpu *cpu)
{
    if (!cpu->timing)
        return;
    read_clocks(cpu);
    if (cpu->ctl & VPT_CTL_TSCEN)
        cpu->mtc_count = cpu->now.art >> mtc_freq(cpu);
}

/* The MTC that fell due since the last look, or a TSC if its 8 bits can no longer tell. */
static void mtc(struct vpt_cpu *cpu)
{
    const uint64_t count = cpu->now.art >> mtc_freq(cpu);
    const uint64_t passed = count - cpu->mtc_count;

    if (passed == 0)
        return;
    cpu->mtc_count = count;
    if (passed > 0xff && (cpu->ctl & VPT_CTL_TSCEN)) {
        vpt_emit_tsc(cpu); /* its TMA says all that the MTC would */
        vpt_emit_cbr(cpu);
        return;
    }
    before_packet(cpu, true);
    put(cpu, (const uint8_t[]){PT_OPC_MTC, (uint8_t)count}, PT_MTC_LEN);
}

/* ---- PSB+ ---- */

/* PADs, so that the PSB stands where the processor likes it to (33.4.2.20). */
static void pad_to_psb(struct vpt_cpu *cpu)
{
    const unsigned align = cpu->caps.psb_align_bytes;

    if (align < 2)
        return;
    while ((vpt_output_offset(cpu) + cpu->buf_len) % align != 0 && sending(cpu))
        put(cpu, (const uint8_t[]){PT_OPC_PAD}, 1);
}

static void put_psb(struct vpt_cpu *cpu)
{
    if (!sending(cpu))
        return;
    for (unsigned i = 0; i < PT_PSB_REPEAT; i++) {
        cpu->buf[cpu->buf_len + 2 * i] = PT_OPC_EXT;
        cpu->buf[cpu->buf_len + 2 * i + 1] = PT_EXT_PSB;
    }
    cpu->line_group = 0;
    sent(cpu, PT_PSB_LEN);
}

/* packet_en: PacketEn as the PSB+ tells it. */
static void psb_part(struct vpt_cpu *cpu, enum vpt_psb_part part, uint64_t ip, bool packet_en)
{
    switch (part) {
    case VPT_PSB_TSC:
        vpt_emit_tsc(cpu);
        break;
    case VPT_PSB_PIP:
        vpt_emit_pip(cpu);
        break;
    case VPT_PSB_VMCS:
        if (!cpu->vmx_nonroot || shows_nonroot(cpu))
            vpt_emit_vmcs(cpu);
        break;
    case VPT_PSB_CBR:
        vpt_emit_cbr(cpu);
        break;
    case VPT_PSB_TSX:
        vpt_emit_mode_tsx(cpu, false);
        break;
    case VPT_PSB_EXEC:
        if (packet_en)
            vpt_emit_mode_exec(cpu);
        break;
    case VPT_PSB_FUP:
        if (packet_en)
            vpt_emit_ip(cpu, PT_FUP, ip);
        break;
    case VPT_PSB_NONE:
        break;
    }
}

void vpt_emit_psb(struct vpt_cpu *cpu, uint64_t ip, bool at_enable)
{
    static const uint8_t plain[VPT_PSB_PARTS] = {VPT_PSB_TSC, VPT_PSB_PIP, VPT_PSB_VMCS,
                                                 VPT_PSB_CBR, VPT_PSB_TSX, VPT_PSB_EXEC,
                                                 VPT_PSB_FUP};
    const struct vpt_choices *choices = &cpu->caps.choices;
    const uint8_t *order = choices->psb_order[0] == VPT_PSB_NONE ? plain : choices->psb_order;
    const bool packet_en = cpu->packet_en && (!at_enable || choices->psb_at_enable);

    vpt_emit_tnt(cpu);
    pad_to_psb(cpu);
    put_psb(cpu);
    cpu->bytes_since_psb = 0;
    cpu->status &= ~VPT_STATUS_PENDPSB;
    cpu->psb_again = choices->psb_twice && !cpu->context_en;

    /* Nothing that a decoder knew survives a PSB (33.3.7). */
    cpu->ip_full = true;
    if (cpu->ctl & VPT_CTL_BRANCHEN)
        cpu->mode_sent = VPT_MODE_UNSENT;
    vpt_ret_clear(cpu);

    for (unsigned i = 0; i < VPT_PSB_PARTS; i++)
        psb_part(cpu, order[i], ip, packet_en);
    /* A decoder that knows of the FUP too many leaves it out, and does not take it for LastIP. */
    cpu->ip_full |= choices->psb_ip_apart || at_enable;
    put_ext(cpu, PT_EXT_PSBEND);
}

/* ---- Around every event ---- */

static bool room(const struct vpt_cpu *cpu, uint32_t bytes)
{
    return cpu->buf_len <= VPT_BUFFER_BYTES - bytes;
}

static void overflow_begin(struct vpt_cpu *cpu)
{
    cpu->overflow = true;
    cpu->overflow_count++;
    cpu->waiting_bytes = 0; /* lost, as the TNT is */
    vpt_choose_path(cpu);
}

/* What was lost is forgotten, and told. */
static void put_ovf(struct vpt_cpu *cpu)
{
    cpu->overflow = false;
    cpu->tnt = 1;
    cpu->deferred_count = 0;
    vpt_choose_path(cpu);
    if (!cpu->trigger_en)
        return;
    before_packet(cpu, true);
    put_ext(cpu, PT_EXT_OVF);
    cpu->ip_full = true;
}

/*
 * OVF, and the IP at which tracing goes on (33.3.8). State that changed meanwhile is told by a PSB+
 * right behind, which clears the CALL stack as well.
 */
static void overflow_end(struct vpt_cpu *cpu, uint64_t next_ip)
{
    put_ovf(cpu);
    if (!cpu->trigger_en)
        return;
    if (cpu->packet_en)
        vpt_emit_ip(cpu, PT_FUP, next_ip);
    vpt_emit_psb(cpu, next_ip, false);
}

void vpt_stop_overflow(struct vpt_cpu *cpu)
{
    if (cpu->overflow)
        put_ovf(cpu);
}

static bool psb_due(const struct vpt_cpu *cpu)
{
    return cpu->bytes_since_psb >= cpu->psb_period_bytes && sending(cpu);
}

bool vpt_make_room(struct vpt_cpu *cpu, uint32_t bytes)
{
    if (room(cpu, bytes))
        return true;
    vpt_output_drain(cpu);
    if (room(cpu, bytes))
        return true;
    if (!cpu->overflow)
        overflow_begin(cpu);
    return false;
}

/* A TNT packet as a word: TNT of some bits, which become a short one or a long one. */
struct tnt_word {
    uint64_t packet;
    uint32_t len;
};

/* By masks, since compilers make a branch of what is chosen: see plain_tip(). */
static inline struct tnt_word tnt_word(uint64_t tnt)
{
    const uint64_t if_long = 0 - (uint64_t)(tnt >> (SHORT_TNT_BITS + 1) != 0);
    const uint64_t long_tnt = tnt << 16 | PT_EXT_TNT64 << 8 | PT_OPC_EXT;
    const uint64_t short_tnt = tnt << PT_TNT8_SHR;

    return (struct tnt_word){
        .packet = (long_tnt & if_long) | (short_tnt & ~if_long),
        .len = (PT_TNT64_LEN & (uint32_t)if_long) | ((tnt != 1) & ~(uint32_t)if_long),
    };
}

/* Where packets of tip_plain are put, one behind the other. */
struct plain {
    uint8_t *at;
    uint64_t last_ip;
    uint32_t packets;
};

static inline struct plain plain_begin(struct vpt_cpu *cpu)
{
    return (struct plain){cpu->buf + cpu->buf_len, cpu->last_ip, 0};
}

/* All of them end in a TIP. */
static inline void plain_end(struct vpt_cpu *cpu, const struct plain *to)
{
    sent_several(cpu, (uint32_t)(to->at - cpu->buf) - cpu->buf_len, to->packets);
    cpu->last_ip = to->last_ip;
    cpu->branch_told = true;
}

/*
 * TNT and TIP of tip_plain. How long they are is computed and not branched on, because it depends
 * on the program: a processor that guesses wrong loses more time than all of this takes. Whole
 * words are stored, of which what is too long is written over later: there is room.
 */
static inline void plain_tip(struct plain *to, uint64_t bits, uint64_t payload)
{
    const struct tnt_word tnt = tnt_word(bits);
    const uint64_t changed = payload ^ to->last_ip;
    const unsigned kind = PT_IPB_UPD16 + (changed >> 16 != 0) + (changed >> 32 != 0);

    _Static_assert(PT_IPB_UPD16 == 1 && PT_IPB_UPD32 == 2 && PT_IPB_SEXT48 == 3, "2 bytes each");
    vpt_put_le64(to->at, tnt.packet);
    to->at += tnt.len;
    *to->at = (uint8_t)(kind << PT_IPBYTES_SHR | PT_TIP);
    vpt_put_le64(to->at + 1, payload);
    to->at += 1 + 2 * kind;
    to->packets += 1u + (bits != 1);
    to->last_ip = payload;
}

static inline void put_plain_tip(struct vpt_cpu *cpu, uint64_t payload)
{
    struct plain to = plain_begin(cpu);

    plain_tip(&to, cpu->tnt, payload);
    cpu->tnt = 1;
    plain_end(cpu, &to);
}

/* ---- TIPs that wait ---- */

#define WAITING_MAX_BYTES (PT_TNT64_LEN + 1u + 8u) /* of one, with its TNT */
_Static_assert(VPT_WAITING_TIPS *WAITING_MAX_BYTES <= VPT_BUFFER_BYTES,
               "an empty buffer has room for all");

/* Of the first TIPs of the queue, those that are compressed as usual; how many. */
static unsigned put_waiting_plain(struct vpt_cpu *cpu, unsigned first, unsigned count)
{
    const struct vpt_ip_form form = vpt_ip_form(cpu);
    struct plain to = plain_begin(cpu);
    unsigned i;

    for (i = first; i < count; i++) {
        const uint64_t payload = vpt_ip_formed(form, cpu->waiting_ip[i]);

        if (!sign_extends_48(payload))
            break;
        plain_tip(&to, cpu->waiting_tnt[i], payload);
    }
    if (i > first)
        plain_end(cpu, &to);
    return i;
}

__attribute__((noinline)) static void send_some_waiting(struct vpt_cpu *cpu)
{
    const unsigned count = cpu->waiting_bytes / sizeof(uint64_t);
    const uint64_t tnt = cpu->tnt;
    unsigned i = 0;

    cpu->waiting_bytes = 0;
    if (!vpt_make_room(cpu, count * WAITING_MAX_BYTES) || !vpt_is_fast(cpu))
        return; /* an overflow; or the store ended the trace */
    while (i < count) {
        if (!cpu->ip_full)
            i = put_waiting_plain(cpu, i, count);
        if (i < count) {
            cpu->tnt = cpu->waiting_tnt[i];
            emit_tip(cpu, cpu->waiting_ip[i++]);
        }
    }
    cpu->tnt = tnt;
}

/* All that wait become packets. The TNT bits behind them stay where they are. */
static inline void send_waiting(struct vpt_cpu *cpu)
{
    if (cpu->waiting_bytes)
        send_some_waiting(cpu);
}

void vpt_begin_event(struct vpt_cpu *cpu)
{
    send_waiting(cpu);
    if (cpu->timing)
        read_clocks(cpu);
    if (!room(cpu, VPT_EVENT_MAX_BYTES))
        vpt_make_room(cpu, VPT_EVENT_MAX_BYTES);
    if (cpu->ctl & VPT_CTL_MTCEN && cpu->trigger_en)
        mtc(cpu);
}

/* ---- Where nothing but branches matters ---- */

/* Of VPT_PATH_FAST, behind its packets: what vpt_end_event() is for has come. */
static inline bool ends_fast(const struct vpt_cpu *cpu)
{
    return cpu->overflow || psb_due(cpu) || cpu->buf_len >= DRAIN_BYTES;
}

/* A TIP where nothing but TNT, TIP and the RET stack matters (VPT_PATH_FAST). */
void vpt_fast_tip(struct vpt_cpu *cpu, uint64_t target)
{
    const uint64_t payload = vpt_ip_payload(cpu, target);

    send_waiting(cpu);
    if (!room(cpu, VPT_EVENT_MAX_BYTES))
        vpt_make_room(cpu, VPT_EVENT_MAX_BYTES);
    /* The store may have ended the trace. */
    if (vpt_is_fast(cpu) && cpu->tip_plain && !cpu->ip_full && sign_extends_48(payload))
        put_plain_tip(cpu, payload);
    else if (cpu->packet_en)
        emit_tip(cpu, target);
    if (ends_fast(cpu))
        vpt_end_event(cpu, target);
}

/* A TNT that is full, and otherwise the same. */
void vpt_slow_tnt_full(struct vpt_cpu *cpu, uint64_t next_ip)
{
    const struct tnt_word tnt = tnt_word(cpu->tnt);

    send_waiting(cpu);
    if (!room(cpu, VPT_EVENT_MAX_BYTES) || !cpu->tip_plain) {
        vpt_begin_event(cpu);
        vpt_emit_tnt(cpu);
        vpt_end_event(cpu, next_ip);
        return;
    }
    vpt_put_le64(cpu->buf + cpu->buf_len, tnt.packet);
    sent(cpu, tnt.len);
    cpu->tnt = 1;
    if (ends_fast(cpu))
        vpt_end_event(cpu, next_ip);
}

/* ---- Many branches at once ---- */

#define FULL_TNTS_MAX (VPT_TNT_BITS_MAX / SHORT_TNT_BITS)
_Static_assert(FULL_TNTS_MAX == sizeof(uint64_t), "all of them are one store");

static inline unsigned tnt_bits(uint64_t tnt)
{
    return 63 - (unsigned)__builtin_clzll(tnt);
}

/* Behind so many bits, where packets are plain and nothing is due. */
static inline unsigned plain_room(const struct vpt_cpu *cpu, unsigned bits)
{
    const uint64_t to_psb = cpu->psb_period_bytes - cpu->bytes_since_psb;
    const uint64_t to_drain = DRAIN_BYTES - cpu->buf_len;
    uint64_t packets = FULL_TNTS_MAX;

    if (packets > to_drain)
        packets = to_drain;
    if (packets > to_psb)
        packets = to_psb;
    return (unsigned)packets * SHORT_TNT_BITS - bits;
}

unsigned vpt_tnt_room(const struct vpt_cpu *cpu)
{
    const unsigned bits = tnt_bits(cpu->tnt);

    if (!vpt_is_fast(cpu))
        return 0;
    if (cpu->caps.long_tnt || !cpu->tip_plain || cpu->waiting_bytes || ends_fast(cpu))
        return tnt_bits(cpu->tnt_full) - bits;
    return plain_room(cpu, bits);
}

/* Behind packets, where so many bits are left. */
static inline unsigned room_behind(struct vpt_cpu *cpu, uint64_t next_ip, unsigned bits)
{
    if (!ends_fast(cpu))
        return plain_room(cpu, bits);
    vpt_end_event(cpu, next_ip);
    return vpt_tnt_room(cpu);
}

/* Eight times six bits, each six in a byte of its own, as a full short TNT. */
static inline uint64_t eight_full_tnts(uint64_t bits)
{
    const uint64_t halves = (bits & 0x000000ffffff) | (bits & 0xffffff000000) << 8;
    const uint64_t pairs = (halves & 0x00000fff00000fff) | (halves & 0x00fff00000fff000) << 4;
    const uint64_t sixes = (pairs & 0x003f003f003f003f) | (pairs & 0x0fc00fc00fc00fc0) << 2;

    return sixes << PT_TNT8_SHR | 0x8080808080808080;
}

/*
 * The bits of a TNT, more or fewer than a packet takes: full packets at a place that has room for
 * eight of them, and what is left. What is too long is written over later.
 */
struct tnts {
    unsigned full;
    uint64_t rest; /* a TNT */
};

static inline struct tnts put_full_tnts(uint8_t *at, uint64_t tnt)
{
    const unsigned bits = tnt_bits(tnt), full = bits / SHORT_TNT_BITS, rest = bits % SHORT_TNT_BITS;
    /* The first branch is the highest bit. */
    const uint64_t in_order = tnt >> rest << (VPT_TNT_BITS_MAX - full * SHORT_TNT_BITS);
    const uint64_t end = UINT64_C(1) << rest;

    vpt_put_le64(at, __builtin_bswap64(eight_full_tnts(in_order)));
    return (struct tnts){.full = full, .rest = end | (tnt & (end - 1))};
}

unsigned vpt_branches_told(struct vpt_cpu *cpu, uint64_t next_ip)
{
    struct tnts tnts;

    if (tnt_bits(cpu->tnt) <= tnt_bits(cpu->tnt_full)) {
        if (cpu->tnt >= cpu->tnt_full)
            vpt_slow_tnt_full(cpu, next_ip);
        return vpt_tnt_room(cpu);
    }
    tnts = put_full_tnts(cpu->buf + cpu->buf_len, cpu->tnt);
    sent_several(cpu, tnts.full, tnts.full); /* of a byte each */
    cpu->tnt = tnts.rest;
    return room_behind(cpu, next_ip, tnt_bits(tnts.rest));
}

/* A TIP and all TNTs in front of it, if they are plain ones and do not wait. */
static inline bool put_branches(struct vpt_cpu *cpu, uint64_t target)
{
    const uint64_t payload = vpt_ip_payload(cpu, target);
    struct plain to = plain_begin(cpu);
    struct tnts tnts;

    if (cpu->caps.long_tnt || !cpu->tip_plain || cpu->waiting_limit || cpu->ip_full ||
        !sign_extends_48(payload) || !room(cpu, VPT_EVENT_MAX_BYTES))
        return false;
    tnts = put_full_tnts(to.at, cpu->tnt);
    to.at += tnts.full;
    to.packets += tnts.full;
    plain_tip(&to, tnts.rest, payload);
    plain_end(cpu, &to);
    cpu->tnt = 1;
    return true;
}

unsigned vpt_branches_jmp(struct vpt_cpu *cpu, uint64_t target)
{
    if (put_branches(cpu, target))
        return room_behind(cpu, target, 0);
    (void)vpt_branches_told(cpu, target);
    vpt_jmp_indirect(cpu, target);
    return vpt_tnt_room(cpu);
}

unsigned vpt_branches_ret(struct vpt_cpu *cpu, uint64_t target)
{
    vpt_ret_clear(cpu);
    if (put_branches(cpu, target))
        return room_behind(cpu, target, 0);
    (void)vpt_branches_told(cpu, target);
    vpt_ret(cpu, target);
    return vpt_tnt_room(cpu);
}

void vpt_resolve_overflow(struct vpt_cpu *cpu, uint64_t next_ip)
{
    if (!cpu->overflow)
        return;
    vpt_output_drain(cpu);
    if (room(cpu, VPT_EVENT_MAX_BYTES))
        overflow_end(cpu, next_ip);
}

void vpt_begin_last_event(struct vpt_cpu *cpu, uint64_t ip)
{
    cpu->stalled = false;
    vpt_begin_event(cpu);
    vpt_resolve_overflow(cpu, ip);
}

void vpt_end_event(struct vpt_cpu *cpu, uint64_t next_ip)
{
    if (cpu->overflow)
        vpt_resolve_overflow(cpu, next_ip);
    if (psb_due(cpu))
        vpt_emit_psb(cpu, next_ip, false);
    if (cpu->boundary_due) {
        cpu->boundary_due = false;
        vpt_choose_path(cpu);
    }
    if (cpu->buf_len >= DRAIN_BYTES)
        vpt_output_drain(cpu);
}

void vpt_end_quietly(struct vpt_cpu *cpu)
{
    if (!cpu->packet_en) {
        vpt_end_event(cpu, 0); /* no packet of these will name an IP */
        return;
    }
    if (psb_due(cpu) && !cpu->boundary_due) {
        cpu->boundary_due = true;
        vpt_choose_path(cpu);
    }
    if (cpu->buf_len >= DRAIN_BYTES)
        vpt_output_drain(cpu);
}

/* ---- The owner's hand ---- */

void vpt_flush(struct vpt_cpu *cpu)
{
    send_waiting(cpu);
    vpt_output_flush(cpu);
}

void vpt_flush_branches(struct vpt_cpu *cpu)
{
    send_waiting(cpu);
    if (cpu->tnt != 1 || cpu->deferred_count) {
        vpt_make_room(cpu, VPT_EVENT_MAX_BYTES);
        vpt_emit_tnt(cpu);
    }
    vpt_flush(cpu);
}

void vpt_stall(struct vpt_cpu *cpu, bool stalled)
{
    cpu->stalled = stalled;
    vpt_flush(cpu);
}

void vpt_psb(struct vpt_cpu *cpu, uint64_t next_ip)
{
    if (!cpu->trigger_en) {
        cpu->status &= ~VPT_STATUS_BYTECNT_MASK; /* a PSB+ comes when PacketByteCnt is 0 */
        return;
    }
    vpt_begin_event(cpu);
    if (sending(cpu))
        vpt_emit_psb(cpu, next_ip, false);
    vpt_end_event(cpu, next_ip);
}

void vpt_overflow(struct vpt_cpu *cpu)
{
    if (sending(cpu))
        overflow_begin(cpu);
}

void vpt_note_core_ratio(struct vpt_cpu *cpu, uint8_t ratio)
{
    cpu->core_ratio = ratio;
}
