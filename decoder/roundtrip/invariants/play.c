/* SPDX-License-Identifier: BSD-3-Clause */
/* What may happen next, and what happens between instructions; see play.h. */
#include "roundtrip/invariants/play.h"

#include "roundtrip/invariants/play_far.h"
#include "roundtrip/invariants/play_near.h"
#include "roundtrip/invariants/play_vmx.h"

/* ---- Transactions --------------------------------------------------------------------------- */

static void play_abort(struct run *run)
{
    const uint64_t target = play_target(run, &run->truth.ctx);

    run_say(run, "abort at %llx, on at %llx", (unsigned long long)run->ip,
            (unsigned long long)target);
    truth_tx_abort(&run->truth, run->ip, target);
    vpt_tx_abort(&run->owner.cpu, run->ip, target);
    run->ip = target;
}

static void play_transaction(struct run *run)
{
    const uint32_t kind = dice_draw(&run->dice, 8);

    if (run->truth.in_tx && kind > 1) {
        play_near(run);
    } else if (run->truth.in_tx && kind == 1) {
        play_abort(run);
    } else {
        const bool begins = !run->truth.in_tx;

        run_say(run, "%s at %llx", begins ? "XBEGIN" : "XEND", (unsigned long long)run->ip);
        truth_tx(&run->truth, begins, run->ip);
        if (begins)
            vpt_tx_begin(&run->owner.cpu, run->ip);
        else
            vpt_tx_commit(&run->owner.cpu, run->ip);
    }
}

/* ---- PTWRITE, PEBS, power ------------------------------------------------------------------- */

static void play_ptwrite(struct run *run)
{
    const uint64_t value = dice_bits(&run->dice);
    const uint8_t size = dice_one_in(&run->dice, 2) ? 8 : 4;

    run_say(run, "PTWRITE of %llx at %llx", (unsigned long long)value, (unsigned long long)run->ip);
    truth_ptwrite(&run->truth, value, size, run->ip);
    vpt_ptwrite(&run->owner.cpu, value, size, run->ip);
}

static void play_pebs(struct run *run)
{
    struct vpt_block_item items[3][32];
    struct vpt_block blocks[3];
    const size_t count = 1 + dice_draw(&run->dice, 3);

    for (size_t i = 0; i < count; i++) {
        blocks[i] = (struct vpt_block){
            .type = (uint8_t)dice_draw(&run->dice, 32),
            .four_byte_items = dice_one_in(&run->dice, 2),
            .count = dice_draw(&run->dice, dice_one_in(&run->dice, 8) ? 33 : 4),
            .items = items[i],
        };
        for (size_t n = 0; n < blocks[i].count; n++)
            items[i][n] = (struct vpt_block_item){.id = (uint8_t)dice_draw(&run->dice, 32),
                                                  .value = dice_bits(&run->dice)};
    }
    run_say(run, "PEBS record of %zu blocks at %llx", count, (unsigned long long)run->ip);
    truth_pebs(&run->truth, blocks, count, run->ip);
    vpt_pebs(&run->owner.cpu, blocks, count, run->ip);
}

static void play_sleep(struct run *run)
{
    const struct vpt_power_entry entry = {
        .ip = run->ip,
        .mwait = run->truth.ctx.cpl == 0 && dice_one_in(&run->dice, 2),
        .hints = (uint8_t)dice_draw(&run->dice, 256),
        .ext = (uint8_t)dice_draw(&run->dice, 4),
        .hw = dice_one_in(&run->dice, 3),
        .state = (uint8_t)dice_draw(&run->dice, 256),
    };

    run_say(run, "sleep at %llx%s", (unsigned long long)run->ip, entry.mwait ? " by MWAIT" : "");
    truth_power_entry(&run->truth, &entry);
    vpt_power_entry(&run->owner.cpu, &entry);
}

static void play_asleep(struct run *run)
{
    const struct vpt_power_exit wake = {
        .last_core_state = (uint8_t)dice_draw(&run->dice, 16),
        .deepest_core_state = (uint8_t)dice_draw(&run->dice, 16),
        .reason = (uint8_t)(1u << dice_draw(&run->dice, 4)),
        .core_ratio = (uint8_t)dice_draw(&run->dice, 3),
    };

    run->owner.clocks.tsc += dice_draw(&run->dice, 100000);
    if (dice_one_in(&run->dice, 4)) {
        play_sleep(run);
        return;
    }
    run_say(run, "wakes");
    truth_power_exit(&run->truth, &wake);
    vpt_power_exit(&run->owner.cpu, &wake);
}

static void play_rare(struct run *run)
{
    struct vpt_cpu *const cpu = &run->owner.cpu;

    switch (dice_draw(&run->dice, 6)) {
    case 0:
        play_pebs(run);
        break;
    case 1:
        play_sleep(run);
        break;
    case 2:
        run_say(run, "the clock stops at %llx", (unsigned long long)run->ip);
        truth_exec_stop(&run->truth, run->ip);
        vpt_exec_stop(cpu, run->ip);
        break;
    case 3:
        run_say(run, "another ratio");
        vpt_set_core_ratio(cpu, (uint8_t)dice_draw(&run->dice, 40));
        break;
    case 4:
        run_say(run, "maintenance");
        vpt_maintenance(cpu, dice_bits(&run->dice));
        break;
    default:
        play_ptwrite(run);
        break;
    }
}

/* ---- Between instructions ------------------------------------------------------------------- */

static void play_migration(struct run *run)
{
    const char *wrong;

    run_say(run, "saved and restored");
    wrong = owner_migrate(&run->owner);
    if (wrong)
        rebuild_violation(&run->rebuilt, "%s", wrong);
}

/* The machine around the processor does something. */
static void play_machine(struct run *run)
{
    struct vpt_cpu *const cpu = &run->owner.cpu;

    switch (dice_draw(&run->dice, 8)) {
    case 0:
        run_say(run, "time passes");
        run->owner.clocks.tsc += dice_draw(&run->dice, 5000);
        vpt_time(cpu);
        break;
    case 1:
        play_migration(run);
        break;
    case 2:
        run_say(run, "flushed");
        vpt_flush_branches(cpu);
        break;
    case 3:
    case 4:
        run->owner.ept_hole = run->truth.nonroot && !run->owner.ept_hole;
        run_say(run, "EPT: %s", run->owner.ept_hole ? "a hole" : "no hole");
        if (!run->owner.ept_hole)
            vpt_flush(cpu);
        break;
    default:
        if (cpu->stalled && !dice_one_in(&run->dice, 4))
            break; /* long enough for an overflow */
        run_say(run, cpu->stalled ? "memory answers" : "memory is busy");
        vpt_stall(cpu, !cpu->stalled);
        break;
    }
}

/* Software that is not asleep, nor in a transaction; supervisor: at CPL 0. */
static void play_software(struct run *run, uint32_t kind, bool supervisor)
{
    if (kind < 65)
        play_near(run);
    else if (kind < 80)
        play_far(run);
    else if (kind < 86)
        play_rare(run);
    else if (kind < 89 && run->truth.caps.tsx && !run->truth.ctx.enclave)
        play_transaction(run);
    else if (supervisor && kind < 94)
        play_privileged(run);
    else if (supervisor && !run->in_smm)
        play_vmx(run);
    else
        play_ptwrite(run);
}

/* The same, but first what keeps a trace going, or a guest from running for ever. */
static void play_awake(struct run *run)
{
    const bool supervisor = run->truth.ctx.cpl == 0;
    const bool tracing = (run->truth.ctl & VPT_CTL_TRACEEN) != 0;
    const uint32_t kind = dice_draw(&run->dice, 100);

    if (run->truth.nonroot && kind < 3)
        play_vm_exit(run);
    else if (supervisor && kind < (run->truth.on.trigger ? 2 : 60))
        play_tracing(run);
    else if (!supervisor && !tracing && kind < 60)
        play_far(run);
    else
        play_software(run, kind, supervisor);
}

/* An EPT violation of output is resolved before the next instruction, or is a VM exit. */
static void play_violation(struct run *run)
{
    const bool exits = !run->truth.in_tx && !run->truth.asleep && !run->shutdown;

    if (dice_one_in(&run->dice, 8)) {
        play_migration(run);
        return;
    }
    if (exits && dice_one_in(&run->dice, 2)) {
        play_vm_exit(run);
        return;
    }
    run_say(run, "the EPT violation is resolved");
    run->owner.ept_hole = false;
    vpt_flush(&run->owner.cpu);
}

void play_event(struct run *run)
{
    run->ip += dice_draw(&run->dice, 8); /* what is no event ran, too */
    vpt_set_context(&run->owner.cpu, &run->truth.ctx);
    run->truth.resume_ip = truth_payload(&run->truth, run->ip);
    if (run->truth.nonroot && vpt_output_blocked(&run->owner.cpu))
        play_violation(run);
    else if (dice_one_in(&run->dice, 40))
        play_machine(run);
    else if (dice_one_in(&run->dice, 2000))
        play_reset(run);
    else if (run->shutdown || run->truth.wait_for_sipi)
        play_far(run);
    else if (run->truth.asleep)
        play_asleep(run);
    else if (run->truth.in_tx)
        play_transaction(run);
    else if (run->in_smm && dice_one_in(&run->dice, 8))
        play_rsm(run);
    else if (!run->in_smm && dice_one_in(&run->dice, 200))
        play_smi(run);
    else
        play_awake(run);
}
