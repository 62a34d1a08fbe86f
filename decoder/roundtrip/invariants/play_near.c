/* SPDX-License-Identifier: BSD-3-Clause */
/* Where code may stand, and near branches (33.2.1.1, 33.2.1.2). */
#include "roundtrip/invariants/play_near.h"

/* ---- Addresses and states ------------------------------------------------------------------- */

uint64_t play_target(struct run *run, const struct vpt_context *ctx)
{
    const bool wide = ctx->exec_mode == VPT_EXEC_64 && run->truth.caps.linear_bits > 32;
    const uint64_t offset = dice_draw(&run->dice, 0x4000);

    if (dice_one_in(&run->dice, 16))
        return (wide ? 0x7f1200000000ull : 0x60000000ull) + offset;
    if (ctx->cpl != 0)
        return 0x400000ull + offset;
    return (wide ? 0xffffffff81000000ull : 0xc0000000ull) + offset;
}

struct vpt_context play_context(struct run *run, uint8_t cpl)
{
    struct vpt_context ctx = run->truth.ctx;

    ctx.cpl = cpl;
    ctx.enclave = false;
    if (dice_one_in(&run->dice, 8)) {
        ctx.exec_mode = (uint8_t)dice_draw(&run->dice, run->truth.caps.linear_bits > 32 ? 3 : 2);
        ctx.cs_base = 0;
        ctx.pae = false;
        if (ctx.exec_mode != VPT_EXEC_64) {
            ctx.pae = dice_one_in(&run->dice, 2);
            ctx.cs_base = dice_one_in(&run->dice, 2) ? 0x10000 : 0;
        }
    }
    return ctx;
}

/* ---- Near branches -------------------------------------------------------------------------- */

static void play_ret(struct run *run, uint64_t target)
{
    if (run->depth > 0 && !dice_one_in(&run->dice, 8)) {
        const uint64_t pushed = run->stack[--run->depth % 64];

        if (run->truth.ctx.exec_mode == VPT_EXEC_64 || pushed <= UINT32_MAX)
            target = pushed;
    }
    run_say(run, "RET to %llx", (unsigned long long)target);
    truth_ret(&run->truth, target);
    vpt_ret(&run->owner.cpu, target);
    run->ip = target;
}

static void play_call(struct run *run, uint64_t target, uint64_t next_ip)
{
    const bool indirect = dice_one_in(&run->dice, 3);

    if (dice_one_in(&run->dice, 32))
        target = next_ip; /* a CALL of length zero */
    run->stack[run->depth++ % 64] = next_ip;
    if (run->depth > 1000)
        run->depth = 64;
    run_say(run, "CALL%s at %llx to %llx", indirect ? " [r]" : "", (unsigned long long)run->ip,
            (unsigned long long)target);
    truth_call(&run->truth, target, next_ip, indirect);
    if (indirect)
        vpt_call_indirect(&run->owner.cpu, target, next_ip);
    else
        vpt_call_direct(&run->owner.cpu, target, next_ip);
    run->ip = target;
}

void play_near(struct run *run)
{
    const uint64_t next_ip = run->ip + 2 + dice_draw(&run->dice, 5);
    const uint64_t target = play_target(run, &run->truth.ctx);
    const uint32_t kind = dice_draw(&run->dice, 16);
    const bool taken = dice_one_in(&run->dice, 2);

    if (kind < 8) {
        run_say(run, "Jcc at %llx, %s %llx", (unsigned long long)run->ip,
                taken ? "taken to" : "not taken, on to",
                (unsigned long long)(taken ? target : next_ip));
        truth_cond(&run->truth, taken ? target : next_ip, taken);
        vpt_cond_branch(&run->owner.cpu, taken ? target : next_ip, taken);
        run->ip = taken ? target : next_ip;
    } else if (kind < 11) {
        play_call(run, target, next_ip);
    } else if (kind < 14) {
        play_ret(run, target);
    } else {
        run_say(run, "JMP%s to %llx", taken ? " [r]" : "", (unsigned long long)target);
        truth_jmp(&run->truth, target, taken);
        if (taken)
            vpt_jmp_indirect(&run->owner.cpu, target);
        else
            vpt_jmp_direct(&run->owner.cpu, target);
        run->ip = target;
    }
}
