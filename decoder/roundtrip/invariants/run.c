/* SPDX-License-Identifier: BSD-3-Clause */
/* One event after the other, and what is looked at behind each; see run.h. */
#include "roundtrip/invariants/run.h"

#include "roundtrip/invariants/peers.h"
#include "roundtrip/invariants/play.h"
#include "roundtrip/invariants/play_near.h"
#include "roundtrip/invariants/setup.h"

#include <stddef.h>
#include <string.h>

#define STATUS_ENDS (VPT_STATUS_ERROR | VPT_STATUS_STOPPED)

/* ---- Behind an event ------------------------------------------------------------------------ */

/* Bytes that were stored or dropped, ever. */
static uint64_t bytes_out(const struct vpt_cpu *cpu)
{
    return cpu->output_bytes + cpu->dropped_bytes;
}

/* Bytes until output fills a region that stops it; UINT64_MAX: it stands in none. */
static uint64_t bytes_to_stop(const struct vpt_cpu *cpu)
{
    if (!cpu->region_stop || cpu->region_bytes == 0)
        return UINT64_MAX;
    return cpu->region_bytes - (cpu->output_mask_ptrs >> 32);
}

/* Tracing ended where no packet tells it: a ToPA's STOP, an error, or a reset. */
static bool was_cut(const struct run *run)
{
    const struct vpt_cpu *const cpu = &run->owner.cpu;
    const uint64_t news = cpu->status & ~run->status_before & STATUS_ENDS;
    const bool dropped = cpu->dropped_bytes != run->dropped_before;

    if (run->reset)
        return true;
    /* The same transition may have led output to another place since. */
    if (bytes_out(cpu) - run->out_before >= run->to_stop)
        return true;
    if (!news) /* the last bytes in front of a TraceStop may have filled such a region */
        return dropped && cpu->region_stop && (cpu->status & VPT_STATUS_STOPPED);
    return (run->truth.on.trigger && !cpu->trigger_en) || dropped || (news & VPT_STATUS_ERROR);
}

static void check_enables(struct run *run)
{
    const struct enables *const on = &run->truth.on;
    uint64_t status = 0;

    vpt_rdmsr(&run->owner.cpu, VPT_MSR_STATUS, &status);
    if (((status & VPT_STATUS_TRIGGEREN) != 0) != on->trigger)
        rebuild_violation(&run->rebuilt, "TriggerEn is not %d", on->trigger);
    if (!on->trigger)
        return;
    if (((status & VPT_STATUS_CONTEXTEN) != 0) != on->context)
        rebuild_violation(&run->rebuilt, "ContextEn is not %d", on->context);
    if (((status & VPT_STATUS_FILTEREN) != 0) != on->filter)
        rebuild_violation(&run->rebuilt, "FilterEn is not %d", on->filter);
    if (vpt_packet_en(&run->owner.cpu) != on->packet)
        rebuild_violation(&run->rebuilt, "PacketEn is not %d", on->packet);
}

/* Each overflow is told by an OVF, as soon as it is over, and at the latest where tracing ends. */
static void check_overflow(struct run *run)
{
    const struct vpt_cpu *const cpu = &run->owner.cpu;
    struct rebuilt *const rebuilt = &run->rebuilt;
    const uint64_t told = cpu->overflow_count - cpu->overflow;

    if (rebuilt->ovfs > told)
        rebuild_violation(rebuilt, "an OVF and no overflow");
    if (rebuilt->ovfs < told && !run->lost_is_fine)
        rebuild_violation(rebuilt, "an overflow is over, and there is no OVF");
    if (cpu->overflow && !(cpu->ctl & VPT_CTL_TRACEEN) && !run->lost_is_fine)
        rebuild_violation(rebuilt, "the trace ends in an overflow, and there is no OVF");
    if (rebuilt->ovfs < told) {
        rebuilt->ovfs = told;
        run->lost_is_fine = false;
    }
    if (cpu->overflow) {
        run->truth.count = run->truth.of_event = 0;
        rebuild_interrupted(rebuilt);
    }
}

static void keep_trace(struct run *run, const uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes > TRACE_MAX - run->trace_len)
        len_bytes = TRACE_MAX - run->trace_len;
    memcpy(run->trace + run->trace_len, bytes, len_bytes);
    run->trace_len += len_bytes;
}

/* What came since the last gap, whole packets all of it, is read by others as well. */
static void ask_peers(struct run *run)
{
    const size_t from = run->gap_at;

    run->gap_at = run->trace_len;
    if (!run->rebuilt.wrong && !peers_agree(run->trace + from, run->trace_len - from))
        rebuild_violation(&run->rebuilt, "peers disagree: %s", peers_why());
}

static void gap(struct run *run)
{
    const struct vpt_cpu *const cpu = &run->owner.cpu;

    run->rebuilt.ovfs = cpu->overflow_count - cpu->overflow;
    run->lost_is_fine = cpu->overflow;
    run->truth.count = run->truth.of_event = 0;
    rebuild_gap(&run->rebuilt);
    ask_peers(run);
}

static void look(struct run *run)
{
    const struct vpt_cpu *const cpu = &run->owner.cpu;
    const bool cut = was_cut(run);
    const uint8_t *bytes;
    size_t len_bytes;
    const bool whole = owner_end(&run->owner, &bytes, &len_bytes);

    if (cut)
        truth_cut(&run->truth);
    /* A trace whose first page is not there has not begun; it begins at the next VM entry. */
    if (cut || run->owner.answered || run->exit_blocked ||
        (run->moved_output && run->owner.faulted)) {
        gap(run);
    } else {
        if (!whole || cpu->dropped_bytes != run->dropped_before)
            rebuild_violation(&run->rebuilt, "bytes are lost between the processor and memory");
        keep_trace(run, bytes, len_bytes);
        rebuild_event(&run->rebuilt, bytes, len_bytes);
        check_overflow(run);
        if (!cpu->overflow)
            rebuild_check(&run->rebuilt);
    }
    check_enables(run);
    if (run->truth.too_many)
        rebuild_violation(&run->rebuilt, "branches wait for ever");
}

bool run_event(struct run *run, unsigned n)
{
    struct vpt_cpu *const cpu = &run->owner.cpu;

    run->event = n;
    run->dice.state = run->seed * 0x9e3779b97f4a7c15ull ^ (n + 1ull) * 0xd1342543de82ef95ull;
    run->status_before = cpu->status;
    run->dropped_before = cpu->dropped_bytes;
    run->out_before = bytes_out(cpu);
    run->to_stop = bytes_to_stop(cpu);
    run->reset = run->exit_blocked = run->moved_output = false;
    vpt_clocks_from_tsc(&run->truth.caps, run->owner.clocks.tsc + 1 + dice_draw(&run->dice, 64),
                        &run->owner.clocks);
    owner_begin(&run->owner);
    truth_begin(&run->truth);
    run->traced += run->truth.on.packet;
    play_event(run);
    look(run);
    return !run->rebuilt.wrong;
}

bool run_close(struct run *run)
{
    ask_peers(run);
    return !run->rebuilt.wrong;
}

void run_open(struct run *run, uint64_t seed)
{
    const bool saying = run->saying;
    struct vpt_caps caps;

    memset(run, 0, offsetof(struct run, trace));
    run->saying = saying;
    run->seed = seed;
    run->dice.state = seed;
    setup_processor(run, &caps);
    run->truth.caps = caps;
    run->truth.vmcs = UINT64_MAX;
    run->truth.ctx = (struct vpt_context){
        .cr3 = 0x1000,
        .exec_mode = caps.linear_bits > 32 ? VPT_EXEC_64 : VPT_EXEC_32,
        .interrupts = true,
    };
    run->ip = play_target(run, &run->truth.ctx);
    rebuild_start(&run->rebuilt, &run->truth);
    if (!owner_open(&run->owner, &caps))
        rebuild_violation(&run->rebuilt, "a processor that is possible cannot be made");
    run->owner.clocks.tsc = 1u << 20;
}
