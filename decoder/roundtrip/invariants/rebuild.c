/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets to what they say (33.4.1, 33.4.2), compared with the truth; see rebuild.h. */
#include "roundtrip/invariants/rebuild.h"

#include "roundtrip/invariants/packets.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rebuild_violation(struct rebuilt *rebuilt, const char *format, ...)
{
    va_list args;

    if (rebuilt->wrong)
        return;
    rebuilt->wrong = true;
    rebuilt->rule = format;
    va_start(args, format);
    vsnprintf(rebuilt->why, sizeof(rebuilt->why), format, args);
    va_end(args);
}

void rebuild_start(struct rebuilt *rebuilt, struct truth *truth)
{
    memset(rebuilt, 0, sizeof(*rebuilt));
    rebuilt->truth = truth;
    rebuilt->synced = true;
}

static void nothing_open(struct rebuilt *rebuilt)
{
    rebuilt->next_fup = BOUND_TO_NOTHING;
    rebuilt->mode_open = rebuilt->fup_open = rebuilt->abort_open = rebuilt->evd_open = false;
    rebuilt->block_open = rebuilt->psb_open = rebuilt->ovf_open = false;
    rebuilt->cfes = 0;
}

void rebuild_gap(struct rebuilt *rebuilt)
{
    nothing_open(rebuilt);
    rebuilt->item_bytes = 0; /* a block ends at the latest with the event that it is of */
    rebuilt->synced = rebuilt->packet = false;
    rebuilt->mode_known = rebuilt->interrupts_known = rebuilt->tsx_known = false;
    rebuilt->pip_known = rebuilt->vmcs_known = false;
}

void rebuild_interrupted(struct rebuilt *rebuilt)
{
    nothing_open(rebuilt);
}

/* ---- The queue of wants --------------------------------------------------------------------- */

static const char *const want_names[] = {
    [WANT_BIT] = "a TNT bit",  [WANT_RET] = "a RET's TIP or TNT bit",
    [WANT_TIP] = "TIP",        [WANT_PGE] = "TIP.PGE",
    [WANT_PGD] = "TIP.PGD",    [WANT_FUP] = "FUP",
    [WANT_CFE] = "CFE",        [WANT_EVD] = "EVD",
    [WANT_TSX] = "MODE.TSX",   [WANT_PTW] = "PTW",
    [WANT_STOP] = "TraceStop", [WANT_EXSTOP] = "EXSTOP",
    [WANT_MWAIT] = "MWAIT",    [WANT_PWRE] = "PWRE",
    [WANT_PWRX] = "PWRX",      [WANT_BBP] = "BBP",
    [WANT_BIP] = "BIP",        [WANT_BEP] = "BEP",
};

static bool is_branch(const struct want *want)
{
    return want->kind == WANT_BIT || want->kind == WANT_RET || want->kind == WANT_TIP;
}

static bool same(const struct want *want, const struct want *found)
{
    if (want->kind == WANT_RET && found->kind == WANT_BIT)
        return want->flag && found->value == 1;
    if (want->kind == WANT_RET && found->kind == WANT_TIP)
        return want->value == found->value;
    if (want->kind != found->kind || want->extra != found->extra)
        return false;
    if (want->kind == WANT_PGD && want->either && !found->flag)
        return true;
    return want->flag == found->flag &&
           (want->value == found->value || (want->kind == WANT_PGD && !want->flag));
}

/* Where the want is that a packet may meet: TNT bits go ahead of TIPs that wait (33.4.2.3). */
static unsigned candidate(struct truth *truth, const struct want *found)
{
    const uint64_t timing = VPT_CTL_MTCEN | VPT_CTL_CYCEN;
    unsigned i = 0;

    if (found->kind != WANT_BIT || !truth->caps.deferred_tips || (truth->ctl_before & timing))
        return 0;
    while (i < truth->count && truth_at(truth, i)->kind == WANT_TIP)
        i++;
    return i;
}

/* Takes a packet's want out of the queue, and gives back a copy of it in *found. */
static void take(struct rebuilt *rebuilt, struct want *found)
{
    struct truth *const truth = rebuilt->truth;

    for (;;) {
        const unsigned i = candidate(truth, found);
        const struct want *const want = i < truth->count ? truth_at(truth, i) : NULL;

        if (!want) {
            rebuild_violation(rebuilt, "%s(%" PRIx64 ",%" PRIx64 ",%d) that nothing asked for",
                              want_names[found->kind], found->value, found->extra, found->flag);
            return;
        }
        if (same(want, found)) {
            *found = *want;
            truth_drop(truth, i);
            return;
        }
        if (!want->optional) {
            rebuild_violation(rebuilt,
                              "%s(%" PRIx64 ",%" PRIx64 ",%d) in place of %s(%" PRIx64 ",%" PRIx64
                              ",%d)",
                              want_names[found->kind], found->value, found->extra, found->flag,
                              want_names[want->kind], want->value, want->extra, want->flag);
            return;
        }
        truth_drop(truth, i);
    }
}

static struct want found(struct rebuilt *rebuilt, enum want_kind kind, uint64_t value,
                         uint64_t extra, bool flag)
{
    struct want want = {.kind = kind, .value = value, .extra = extra, .flag = flag};

    if (rebuilt->synced)
        take(rebuilt, &want);
    return want;
}

/* ---- State that packets say ----------------------------------------------------------------- */

/* What an event that ends tracing may say is of before it: an overflow ends there. */
static bool says(const struct rebuilt *rebuilt, uint64_t value, uint64_t after, uint64_t before)
{
    return value == after || (rebuilt->truth->ends && value == before);
}

/* Bits of RTIT_CTL that are 1 in the event, or in a part of it: a VM exit may change it twice. */
static uint64_t settings(const struct truth *truth)
{
    return truth->ctl_enabled | (truth->before.trigger ? truth->ctl_before : 0);
}

/* The event is an instruction that changes RFLAGS.IF: MODE.Exec and FUP. */
static bool wants_mode(const struct truth *truth)
{
    const struct want *const want = truth_at((struct truth *)truth, truth->count - 1);

    return truth->of_event > 0 && want->kind == WANT_FUP && want->extra == BOUND_TO_MODE;
}

static void on_exec(struct rebuilt *rebuilt, const struct packet *packet)
{
    const struct truth *const truth = rebuilt->truth;
    const uint8_t mode = truth_view(truth).mode;

    if (!says(rebuilt, packet->value, mode, truth->view_before.mode))
        rebuild_violation(rebuilt, "MODE.Exec says %" PRIx64 ", and it is %x", packet->value, mode);
    rebuilt->view.mode = (uint8_t)packet->value;
    rebuilt->mode_known = rebuilt->interrupts_known = true;
    /*
     * An IP packet follows (Table 33-26). A transfer has none without BranchEn, but the change of
     * RFLAGS.IF that it brings is told to Event Trace all the same.
     */
    if (!rebuilt->psb_open)
        rebuilt->mode_open = (settings(truth) & VPT_CTL_BRANCHEN) || wants_mode(truth);
}

static void on_tsx(struct rebuilt *rebuilt, const struct packet *packet)
{
    const struct truth *const truth = rebuilt->truth;

    rebuilt->view.in_tx = packet->value & 1;
    rebuilt->tsx_known = true;
    if (rebuilt->psb_open) {
        if (!says(rebuilt, packet->value, truth->in_tx, truth->view_before.in_tx))
            rebuild_violation(rebuilt, "MODE.TSX %" PRIx64 " in a PSB+", packet->value);
        return;
    }
    found(rebuilt, WANT_TSX, packet->value, 0, false);
    if (rebuilt->packet)
        rebuilt->next_fup = BOUND_TO_TSX;
    rebuilt->abort_open = rebuilt->packet && (packet->value & 2);
}

static void on_pip(struct rebuilt *rebuilt, const struct packet *packet)
{
    const struct truth *const truth = rebuilt->truth;
    const struct view view = truth_view(truth);
    const bool nr = rebuilt->psb_open ? view.nr : truth->pip_nr;

    if (!rebuilt->psb_open) {
        rebuilt->pips++;
        if (!truth->pip_due)
            rebuild_violation(rebuilt, "a PIP where none belongs");
    }
    if (!says(rebuilt, packet->value, view.cr3, truth->view_before.cr3) ||
        !says(rebuilt, packet->flag, nr, truth->view_before.nr))
        rebuild_violation(rebuilt, "PIP(%" PRIx64 ",%d), and CR3 is %" PRIx64 ", NR %d",
                          packet->value, packet->flag, view.cr3, nr);
    rebuilt->view.cr3 = packet->value;
    rebuilt->view.nr = packet->flag;
    rebuilt->pip_known = true;
}

static void on_vmcs(struct rebuilt *rebuilt, const struct packet *packet)
{
    const struct truth *const truth = rebuilt->truth;

    if (!rebuilt->psb_open) {
        rebuilt->vmcss++;
        if (!truth->vmcs_due)
            rebuild_violation(rebuilt, "a VMCS packet where none belongs");
    } else if (truth->nonroot && !truth_shows_nonroot(truth) && !truth->ends) {
        rebuild_violation(rebuilt, "a VMCS packet in a PSB+ that is to conceal VMX");
    }
    if (!says(rebuilt, packet->value, truth_view(truth).vmcs, truth->view_before.vmcs))
        rebuild_violation(rebuilt, "VMCS(%" PRIx64 "), and it is %" PRIx64, packet->value,
                          truth_view(truth).vmcs);
    rebuilt->view.vmcs = packet->value;
    rebuilt->vmcs_known = true;
}

/* ---- FUPs ----------------------------------------------------------------------------------- */

static void resume(struct rebuilt *rebuilt, const struct packet *packet, const char *what)
{
    const struct truth *const truth = rebuilt->truth;

    if (packet->value != truth->resume_ip && !(truth->ends && packet->value == truth->end_ip))
        rebuild_violation(rebuilt, "the FUP of %s says %" PRIx64 ", and %" PRIx64 " runs next",
                          what, packet->value, truth->resume_ip);
}

static void on_source(struct rebuilt *rebuilt, const struct packet *packet)
{
    if (!rebuilt->packet)
        rebuild_violation(rebuilt, "FUP(%" PRIx64 ") stands alone, and PacketEn is 0",
                          packet->value);
    if (rebuilt->fup_open)
        rebuild_violation(rebuilt, "FUP(%" PRIx64 ") behind a FUP whose TIP is still to come",
                          packet->value);
    found(rebuilt, WANT_FUP, packet->value, BOUND_TO_TIP, false);
    rebuilt->fup_open = true;
}

/* CFEs without an IP of their own bind to this FUP (33.4.2.29). */
static void meet_cfes(struct rebuilt *rebuilt, const struct packet *packet)
{
    for (unsigned i = 0; i < rebuilt->cfes; i++)
        if (rebuilt->cfe_ip[i] != packet->value && rebuilt->cfe_ip[i] != UINT64_MAX)
            rebuild_violation(rebuilt, "a CFE shares FUP(%" PRIx64 "), and its own IP is %" PRIx64,
                              packet->value, rebuilt->cfe_ip[i]);
    rebuilt->cfes = 0;
}

static void on_fup(struct rebuilt *rebuilt, const struct packet *packet)
{
    const enum bound bound = rebuilt->next_fup;

    if (packet->ip_bytes == 0)
        rebuild_violation(rebuilt, "a FUP without an IP");
    rebuilt->next_fup = BOUND_TO_NOTHING;
    if (!rebuilt->psb_open)
        meet_cfes(rebuilt, packet);
    if (rebuilt->psb_open) {
        resume(rebuilt, packet, "a PSB+");
        rebuilt->psb_fup = true;
    } else if (bound != BOUND_TO_NOTHING) {
        found(rebuilt, WANT_FUP, packet->value, bound, false);
    } else if (rebuilt->ovf_open) {
        resume(rebuilt, packet, "an OVF");
        rebuilt->packet = true;
        rebuilt->ovf_open = false;
    } else if (rebuilt->mode_open && !rebuilt->fup_open) {
        found(rebuilt, WANT_FUP, packet->value, BOUND_TO_MODE, false);
    } else {
        on_source(rebuilt, packet);
    }
    rebuilt->mode_open = false;
}

/* ---- Targets -------------------------------------------------------------------------------- */

static void on_target(struct rebuilt *rebuilt, const struct packet *packet)
{
    const bool before = packet->kind != PACKET_PGE;

    if (rebuilt->packet != before)
        rebuild_violation(rebuilt, "%s while PacketEn is %d",
                          packet->kind == PACKET_TIP   ? "TIP"
                          : packet->kind == PACKET_PGE ? "TIP.PGE"
                                                       : "TIP.PGD",
                          rebuilt->packet);
    if (packet->ip_bytes == 0 && packet->kind != PACKET_PGD)
        rebuild_violation(rebuilt, "a TIP or TIP.PGE without an IP");
    if (packet->kind == PACKET_TIP)
        found(rebuilt, WANT_TIP, packet->value, 0, false);
    else if (packet->kind == PACKET_PGE)
        found(rebuilt, WANT_PGE, packet->value, 0, false);
    else
        found(rebuilt, WANT_PGD, packet->value, 0, packet->ip_bytes != 0);
    rebuilt->packet = packet->kind != PACKET_PGD;
    rebuilt->fup_open = rebuilt->abort_open = rebuilt->ovf_open = false;
    if (rebuilt->mode_open && packet->kind == PACKET_PGD)
        rebuild_violation(rebuilt, "MODE.Exec in front of a TIP.PGD");
    rebuilt->mode_open = false;
}

static void on_tnt(struct rebuilt *rebuilt, const struct packet *packet)
{
    if (!rebuilt->packet)
        rebuild_violation(rebuilt, "TNT while PacketEn is 0");
    for (unsigned i = packet->bits; i-- > 0;)
        found(rebuilt, WANT_BIT, packet->value >> i & 1, 0, false);
}

static void on_ovf(struct rebuilt *rebuilt)
{
    nothing_open(rebuilt);
    /* The PSB+ behind says it again, but for what is not told of a context that is not traced. */
    rebuilt->interrupts_known = rebuilt->tsx_known = false;
    rebuilt->whole = false;
    rebuilt->ovfs++;
    rebuilt->packet = false;
    rebuilt->ovf_open = true;
    truth_lost(rebuilt->truth);
}

/* ---- PSB+ ----------------------------------------------------------------------------------- */

static void on_psb(struct rebuilt *rebuilt)
{
    rebuilt->psbs++;
    truth_forget_calls(rebuilt->truth);
    rebuilt->psb_open = true;
    rebuilt->psb_fup = false;
    rebuilt->psb_first = !rebuilt->synced;
    if (!rebuilt->synced) {
        rebuilt->synced = true;
        truth_lost(rebuilt->truth);
        rebuilt->packet = false;
    }
}

static void on_psbend(struct rebuilt *rebuilt)
{
    const struct truth *const truth = rebuilt->truth;

    if (!rebuilt->psb_open)
        rebuild_violation(rebuilt, "PSBEND without PSB");
    rebuilt->psb_open = false;
    if (rebuilt->packet && !rebuilt->psb_fup)
        rebuild_violation(rebuilt, "a PSB+ without FUP while PacketEn is 1");
    /*
     * A processor may send a PSB+ with the FUP of what runs next, and then the TIP.PGE to it. So
     * the FUP says that PacketEn is 1 to somebody only who begins to read here.
     */
    if (rebuilt->psb_fup && rebuilt->psb_first)
        rebuilt->packet = !truth->enables_trace || truth->ends || rebuilt->pge_unread;
}

/* What a PSB+ may hold (33.3.7), timing packets aside. */
static void in_psb(struct rebuilt *rebuilt, const struct packet *packet)
{
    switch (packet->kind) {
    case PACKET_PIP:
        on_pip(rebuilt, packet);
        break;
    case PACKET_VMCS:
        on_vmcs(rebuilt, packet);
        break;
    case PACKET_EXEC:
        on_exec(rebuilt, packet);
        break;
    case PACKET_TSX:
        on_tsx(rebuilt, packet);
        break;
    case PACKET_FUP:
        on_fup(rebuilt, packet);
        break;
    case PACKET_PSBEND:
        on_psbend(rebuilt);
        break;
    case PACKET_OVF:
        on_ovf(rebuilt);
        break;
    default:
        rebuild_violation(rebuilt, "packet kind %d in a PSB+", packet->kind);
        break;
    }
}

/* ---- Packets -------------------------------------------------------------------------------- */

static void on_cfe(struct rebuilt *rebuilt, const struct packet *packet)
{
    const struct want want = found(rebuilt, WANT_CFE, packet->value, packet->extra, packet->flag);

    rebuilt->evd_open = false;
    if (packet->flag)
        rebuilt->next_fup = BOUND_TO_CFE;
    else if (rebuilt->packet && rebuilt->cfes < CFES_MAX) /* 33.4.2.29 */
        rebuilt->cfe_ip[rebuilt->cfes++] = want.ip;
}

/* Packets of events that a FUP may follow, which then belongs to them. */
static void on_told(struct rebuilt *rebuilt, const struct packet *packet)
{
    switch (packet->kind) {
    case PACKET_CFE:
        on_cfe(rebuilt, packet);
        break;
    case PACKET_EVD:
        found(rebuilt, WANT_EVD, packet->value, packet->extra, false);
        rebuilt->evd_open = true;
        break;
    case PACKET_PTW:
        found(rebuilt, WANT_PTW, packet->value, packet->bits, packet->flag);
        if (packet->flag)
            rebuilt->next_fup = BOUND_TO_PTW;
        break;
    case PACKET_EXSTOP:
        found(rebuilt, WANT_EXSTOP, 0, 0, packet->flag);
        if (packet->flag)
            rebuilt->next_fup = BOUND_TO_EXSTOP;
        break;
    case PACKET_MWAIT:
        found(rebuilt, WANT_MWAIT, packet->value, packet->extra, false);
        break;
    case PACKET_PWRE:
        found(rebuilt, WANT_PWRE, packet->value, 0, packet->flag);
        break;
    default:
        found(rebuilt, WANT_PWRX, packet->value, packet->extra, false);
        break;
    }
}

static void on_block(struct rebuilt *rebuilt, const struct packet *packet)
{
    if (packet->kind == PACKET_BBP) {
        found(rebuilt, WANT_BBP, packet->value, 0, packet->flag);
        rebuilt->block_open = true;
    } else if (packet->kind == PACKET_BIP) {
        found(rebuilt, WANT_BIP, packet->value, packet->extra, false);
    } else {
        found(rebuilt, WANT_BEP, 0, 0, packet->flag);
        if (!rebuilt->block_open)
            rebuild_violation(rebuilt, "BEP without BBP");
        rebuilt->block_open = false;
        if (packet->flag)
            rebuilt->next_fup = BOUND_TO_BLOCK;
    }
}

static void on_packet(struct rebuilt *rebuilt, const struct packet *packet)
{
    if (rebuilt->psb_first && packet->kind == PACKET_PGE)
        rebuilt->packet = false; /* it was one of those */
    rebuilt->psb_first = false;
    switch (packet->kind) {
    case PACKET_TNT:
        on_tnt(rebuilt, packet);
        break;
    case PACKET_TIP:
    case PACKET_PGE:
    case PACKET_PGD:
        on_target(rebuilt, packet);
        break;
    case PACKET_FUP:
        on_fup(rebuilt, packet);
        break;
    case PACKET_PIP:
        on_pip(rebuilt, packet);
        break;
    case PACKET_VMCS:
        on_vmcs(rebuilt, packet);
        break;
    case PACKET_EXEC:
        on_exec(rebuilt, packet);
        break;
    case PACKET_TSX:
        on_tsx(rebuilt, packet);
        break;
    case PACKET_STOP:
        found(rebuilt, WANT_STOP, 0, 0, false);
        rebuilt->packet = false;
        break;
    case PACKET_PSB:
        on_psb(rebuilt);
        break;
    case PACKET_PSBEND:
        on_psbend(rebuilt);
        break;
    case PACKET_OVF:
        on_ovf(rebuilt);
        break;
    case PACKET_BBP:
    case PACKET_BIP:
    case PACKET_BEP:
        on_block(rebuilt, packet);
        break;
    default:
        on_told(rebuilt, packet);
        break;
    }
}

/* ---- Rules that concern neighbours ---------------------------------------------------------- */

static bool is_timing(enum packet_kind kind)
{
    return kind == PACKET_CBR || kind == PACKET_TSC || kind == PACKET_MTC || kind == PACKET_TMA ||
           kind == PACKET_CYC || kind == PACKET_MNT;
}

/* The bits of RTIT_CTL that a kind of packet depends on (33.4.2). */
static uint64_t depends_on(enum packet_kind kind)
{
    switch (kind) {
    case PACKET_TNT:
    case PACKET_TIP:
    case PACKET_PGE:
    case PACKET_PGD:
    case PACKET_TSX:
        return VPT_CTL_BRANCHEN;
    case PACKET_PIP:
        return VPT_CTL_OS;
    case PACKET_TSC:
        return VPT_CTL_TSCEN;
    case PACKET_MTC:
        return VPT_CTL_MTCEN;
    case PACKET_TMA:
        return VPT_CTL_MTCEN | VPT_CTL_TSCEN;
    case PACKET_CYC:
        return VPT_CTL_CYCEN;
    case PACKET_CFE:
    case PACKET_EVD:
        return VPT_CTL_EVENTEN;
    case PACKET_PTW:
        return VPT_CTL_PTWEN;
    case PACKET_EXSTOP:
    case PACKET_MWAIT:
    case PACKET_PWRE:
    case PACKET_PWRX:
        return VPT_CTL_PWREVTEN;
    default:
        return 0;
    }
}

/* What must come next, and does not (33.4.1, Tables 33-14, 33-15, 33-27). */
static void check_neighbour(struct rebuilt *rebuilt, const struct packet *packet)
{
    const enum packet_kind kind = packet->kind;
    const struct truth *const truth = rebuilt->truth;
    const uint64_t ctl = settings(truth);
    const bool ip =
        kind == PACKET_FUP || kind == PACKET_TIP || kind == PACKET_PGE || kind == PACKET_PGD;

    if ((ctl & depends_on(kind)) != depends_on(kind))
        rebuild_violation(rebuilt, "packet kind %d is not enabled by RTIT_CTL %" PRIx64, kind, ctl);
    if (kind == PACKET_TNT && (truth->ctl_before & VPT_CTL_DISTNT))
        rebuild_violation(rebuilt, "TNT with DisTNT");
    if (kind == PACKET_TMA && rebuilt->last != PACKET_TSC)
        rebuild_violation(rebuilt, "a TMA alone");
    if (kind != PACKET_TMA && rebuilt->last == PACKET_TSC && (ctl & VPT_CTL_MTCEN) &&
        !(truth->ends && truth->enables_trace))
        rebuild_violation(rebuilt, "a TSC without its TMA");
    if (is_timing(kind) || kind == PACKET_OVF)
        return;
    if (rebuilt->next_fup != BOUND_TO_NOTHING && kind != PACKET_FUP)
        rebuild_violation(rebuilt, "packet kind %d where a FUP was announced (for %d)", kind,
                          rebuilt->next_fup);
    if (rebuilt->mode_open && !ip)
        rebuild_violation(rebuilt, "packet kind %d behind MODE.Exec", kind);
    if (rebuilt->evd_open && kind != PACKET_EVD && kind != PACKET_CFE)
        rebuild_violation(rebuilt, "EVD without CFE");
    if (rebuilt->block_open && kind != PACKET_BIP && kind != PACKET_BBP && kind != PACKET_BEP)
        rebuild_violation(rebuilt, "packet kind %d in a block", kind);
    if (kind == PACKET_PSB && (rebuilt->fup_open || rebuilt->abort_open || rebuilt->cfes))
        rebuild_violation(rebuilt, "a PSB inside a compound event");
}

/* ---- An event ------------------------------------------------------------------------------- */

void rebuild_event(struct rebuilt *rebuilt, const uint8_t *bytes, size_t len_bytes)
{
    struct reader reader = {
        .bytes = bytes,
        .len_bytes = len_bytes,
        .last_ip = rebuilt->last_ip,
        .item_bytes = rebuilt->item_bytes,
    };
    struct packet packet;

    if (rebuilt->truth->enables_trace) /* nobody told what changed meanwhile */
        rebuilt->mode_known = rebuilt->interrupts_known = rebuilt->tsx_known = false;
    rebuilt->whole = rebuilt->synced;
    rebuilt->pge_unread = false;
    rebuilt->pips = rebuilt->vmcss = 0;
    rebuilt->last = PACKET_PAD;
    while (!rebuilt->wrong && reader_next(&reader, &packet)) {
        rebuilt->packets++;
        if (!rebuilt->synced && packet.kind != PACKET_PSB) {
            rebuilt->ovfs += packet.kind == PACKET_OVF;
            rebuilt->pge_unread |= packet.kind == PACKET_PGE;
            continue;
        }
        if (packet.kind == PACKET_PAD)
            continue; /* it may stand anywhere (33.4.2.20) */
        check_neighbour(rebuilt, &packet);
        rebuilt->last = packet.kind;
        if (is_timing(packet.kind))
            continue;
        if (rebuilt->psb_open)
            in_psb(rebuilt, &packet);
        else
            on_packet(rebuilt, &packet);
    }
    if (reader.bad)
        rebuild_violation(rebuilt, "byte %02x is no packet", bytes[reader.at]);
    rebuilt->last_ip = reader.last_ip;
    rebuilt->item_bytes = reader.item_bytes;
    if (rebuilt->ovf_open && !rebuilt->psb_open)
        rebuilt->ovf_open = false; /* a TIP.PGE may come any time */
}

/* ---- Behind an event ------------------------------------------------------------------------ */

static void check_state(struct rebuilt *rebuilt)
{
    const struct truth *const truth = rebuilt->truth;
    const struct view view = truth_view(truth);
    const bool traced =
        truth->on.trigger && truth->on.context && truth->on.filter && !truth->wait_for_sipi;

    if (rebuilt->packet != truth->on.packet)
        rebuild_violation(rebuilt, "PacketEn is %d, and packets say %d", truth->on.packet,
                          rebuilt->packet);
    if (truth->on.packet && (!rebuilt->mode_known || ((rebuilt->view.mode ^ view.mode) & ~MODE_IF)))
        rebuild_violation(rebuilt, "the mode is %x, and packets say %x", view.mode,
                          rebuilt->view.mode);
    if (traced && (truth->ctl & VPT_CTL_EVENTEN) && rebuilt->interrupts_known &&
        ((rebuilt->view.mode ^ view.mode) & MODE_IF))
        rebuild_violation(rebuilt, "RFLAGS.IF is %d, and packets say %d",
                          (view.mode & MODE_IF) != 0, (rebuilt->view.mode & MODE_IF) != 0);
    if (truth->on.trigger && truth->on.context && (truth->ctl & VPT_CTL_BRANCHEN) &&
        rebuilt->tsx_known && rebuilt->view.in_tx != view.in_tx)
        rebuild_violation(rebuilt, "InTX is %d, and packets say %d", view.in_tx,
                          rebuilt->view.in_tx);
    if (rebuilt->whole && truth->pip_due && (truth->ctl_before & VPT_CTL_OS) && rebuilt->pips != 1)
        rebuild_violation(rebuilt, "%u PIPs in place of one", rebuilt->pips);
    if (rebuilt->whole && truth->vmcs_due && truth->vmx_on && rebuilt->vmcss != 1)
        rebuild_violation(rebuilt, "%u VMCS packets in place of one", rebuilt->vmcss);
}

static void check_open(struct rebuilt *rebuilt)
{
    if (rebuilt->next_fup != BOUND_TO_NOTHING)
        rebuild_violation(rebuilt, "an announced FUP does not come (for %d)", rebuilt->next_fup);
    if (rebuilt->fup_open)
        rebuild_violation(rebuilt, "a FUP stands alone: neither TIP nor TIP.PGD follows");
    if (rebuilt->abort_open)
        rebuild_violation(rebuilt, "an abort without its TIP");
    if (rebuilt->mode_open)
        rebuild_violation(rebuilt, "MODE.Exec without an IP behind");
    if (rebuilt->evd_open)
        rebuild_violation(rebuilt, "EVD without CFE");
    if (rebuilt->cfes)
        rebuild_violation(rebuilt, "a CFE without IP finds no FUP");
    if (rebuilt->psb_open)
        rebuild_violation(rebuilt, "PSB without PSBEND");
    if (rebuilt->block_open)
        rebuild_violation(rebuilt, "BBP without BEP");
}

void rebuild_check(struct rebuilt *rebuilt)
{
    struct truth *const truth = rebuilt->truth;

    if (!rebuilt->synced)
        return;
    check_open(rebuilt);
    if (truth->ends && truth->enables_trace)
        rebuilt->interrupts_known = false; /* one trace said it, perhaps, and this is another */
    check_state(rebuilt);
    if (!rebuilt->whole) /* what did not come behind the OVF does not come any more */
        truth->count = 0;
    /* What is no near branch waits for nothing, and what may not come does not come later. */
    while (truth->count > 0 && (!is_branch(truth_at(truth, truth->count - 1)) ||
                                truth_at(truth, truth->count - 1)->optional)) {
        const struct want *const want = truth_at(truth, truth->count - 1);

        if (!want->optional)
            rebuild_violation(rebuilt, "%s(%" PRIx64 ",%" PRIx64 ") is lost without an OVF",
                              want_names[want->kind], want->value, want->extra);
        truth->count--;
    }
    if (truth->ends && truth->count > 0 && !truth_at(truth, 0)->optional)
        rebuild_violation(rebuilt, "%u branches are lost at the end of the trace", truth->count);
}
