/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A piece of a trace, to events of the guest's processor; see follow.h.
 *
 * VM exits and entries are nothing that the guest did: where it goes on where it was, nothing is
 * told. Where it goes on elsewhere, the host has carried out the instruction there, or has
 * delivered an event.
 *
 * Whatever is not sure is told as an overflow: packets that are missing, code that is not there, or
 * that was another one while the piece was traced.
 *
 * The flow is read in steps. Of those in a row, the first and the last are taken as blocks, and so
 * are those that are not known yet; between them nothing happens but near branches.
 */
#include "hostpt/follow.h"
#include "hostpt/code-page.h"
#include "hostpt/code-watch.h"
#include "hostpt/cut.h"
#include "demux/steps.h"
#include "demux/tell.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define HOST_VM   0u    /* to the decoder, the guest's is the only code */
#define SEEN      8192u /* blocks, a power of two */
#define RUN_STEPS 256u  /* between two looks at the clock */
#define CR3_TABLE 0x000ffffffffff000u

/* A block whose code is watched, and where it ends. */
struct seen_block {
    uint64_t cr3, ip, last_ip, end;
    uint8_t mode;
};

struct follow {
    struct follow_config config;
    struct follow_sums sums;
    struct code_watch *watch;
    struct ptd_time_vm vm;
    struct ptd_time *time;
    /* What is made anew when code has changed, or packets are missing. */
    struct cut cut;
    struct ptd_image *image;
    struct ptd_stream *stream;
    struct steps *steps; /* of the stream's */
    uint32_t room[RUN_STEPS];
    struct ptd_run run;
    uint64_t base; /* offset of the piece in the stream */
    bool is_la57;
    struct seen_block seen[SEEN];
    /* The piece. */
    struct bytes guest;
    struct ptd_packets timed; /* those that time does not know yet */
    /* The guest. */
    struct last last;
    struct vpt_context context; /* as the model knows it */
    bool knows_context;
    bool is_lost; /* the model is in an overflow */
    bool is_inside, knows_exit;
    uint64_t exit_ip;
    uint8_t mode;
};

/* ---- Creation ---- */

static void drop_stream(struct follow *follow)
{
    ptd_stream_free(follow->stream);
    ptd_image_free(follow->image);
    follow->stream = NULL;
    follow->image = NULL;
    follow->base = 0;
    follow->cut.begun = false;
    steps_forget(follow->steps);
    for (size_t i = 0; i < SEEN; i++)
        follow->seen[i].end = 0;
}

static bool make_stream(struct follow *follow)
{
    if (follow->stream)
        return true;
    follow->image = ptd_image_new();
    if (!follow->image ||
        ptd_image_add_memory(follow->image, HOST_VM, follow->config.memory,
                             follow->is_la57 ? PTD_PAGING_5_LEVEL : PTD_PAGING_4_LEVEL) != PTD_OK)
        return false;
    follow->mode = PTD_MODE_64;
    follow->run =
        (struct ptd_run){.steps = follow->room, .room = RUN_STEPS, .timing = PTD_TIMING_ITEMS};
    follow->stream = ptd_stream_new(follow->image, NULL, NULL);
    return follow->stream != NULL;
}

static const uint8_t *page_at(void *owner, uint64_t cr3, uint64_t address, bool *user)
{
    const struct follow *const follow = owner;

    return code_page(follow->config.memory, follow->is_la57, cr3, address, user);
}

struct follow *follow_new(const struct follow_config *config)
{
    struct follow *const follow = calloc(1, sizeof(*follow));
    const struct guest_memory memory = {.page = page_at, .owner = follow};
    struct ptd_time_config clocks = config->clocks;

    if (!follow)
        return NULL;
    follow->config = *config;
    follow->vm.vmcs = PTD_ANY_VMCS;
    clocks.vms = &follow->vm;
    clocks.vm_count = 1;
    follow->time = ptd_time_new(&clocks);
    follow->watch = code_watch_new(&memory);
    follow->steps = steps_new();
    if (follow->steps && follow->time && follow->watch)
        return follow;
    follow_free(follow);
    return NULL;
}

void follow_free(struct follow *follow)
{
    if (!follow)
        return;
    if (follow->steps)
        drop_stream(follow);
    steps_free(follow->steps);
    ptd_time_free(follow->time);
    code_watch_free(follow->watch);
    bytes_free(&follow->guest);
    free(follow);
}

const struct follow_sums *follow_sums(const struct follow *follow)
{
    return &follow->sums;
}

bool follow_exit_ip(const struct follow *follow, uint64_t *ip)
{
    *ip = follow->exit_ip;
    return follow->knows_exit;
}

/* ---- Whose pieces ---- */

bool follow_knows_vmcs(const struct follow *follow)
{
    return follow->cut.has_vmcs;
}

bool follow_learn(struct follow *follow, const struct pt_piece *piece)
{
    struct cut cut = {0};
    enum cut_end end;

    follow->guest.len = 0;
    end = cut_take(&cut, piece, &follow->guest);
    if (end == CUT_WHOLE && cut.has_vmcs) {
        follow->cut.has_vmcs = true;
        follow->cut.vmcs = cut.vmcs;
    }
    return end != CUT_NO_MEMORY;
}

/* ---- What is not known ---- */

static void forget_code(struct follow *follow)
{
    drop_stream(follow);
    code_watch_forget(follow->watch);
}

void follow_use_memory(struct follow *follow, const struct ptd_memory *memory)
{
    forget_code(follow);
    follow->config.memory = memory;
}

static void forget_place(struct follow *follow)
{
    follow->last.is_open = false;
    follow->knows_exit = follow->knows_context = false;
}

void follow_elsewhere(struct follow *follow)
{
    forget_place(follow);
    follow->is_lost = false; /* the end of tracing ends an overflow, too */
}

/* A part of the trace is missing, all or the end of a piece. */
static void lose(struct follow *follow)
{
    forget_place(follow);
    follow->is_inside = false;
    cut_forget(&follow->cut);
    forget_code(follow);
    ptd_time_lost(follow->time);
    if (follow->is_lost || !vpt_trigger_en(follow->config.cpu))
        return;
    follow->is_lost = true;
    follow->sums.overflows++;
    vpt_flush_branches(follow->config.cpu);
    vpt_overflow(follow->config.cpu);
}

/* ---- Where the guest goes on ---- */

/* Code whose page is not there yet is a program's, by its address. */
static bool is_user(struct code_watch *watch, uint64_t cr3, uint64_t ip)
{
    bool user = ip >> 63 == 0;

    (void)code_watch_is_user(watch, cr3, ip, &user);
    return user;
}

/*
 * No packet tells CPL. Near branches do not change it, events and SYSCALL lead to the kernel, and
 * what the kernel returns to is user code if CPL 3 may run it.
 */
static uint8_t cpl_at(const struct follow *follow, const struct ptd_item *next, uint64_t ip)
{
    const struct last *const last = &follow->last;
    const bool far = last->is_open && (!last->is_block || last->last_class == PTD_INSN_FAR ||
                                       last->last_class == PTD_INSN_IRET);

    if (follow->knows_context && !far)
        return follow->context.cpl;
    if (!is_user(follow->watch, ptd_space_cr3(next->cr3), ip))
        return 0;
    if (!follow->knows_context || (last->is_block && last->last_class == PTD_INSN_IRET))
        return 3;
    return last->is_block && follow->context.cpl == 0 ? 3 : 0;
}

static struct vpt_context context_at(const struct follow *follow, const struct ptd_item *next,
                                     uint64_t ip)
{
    return (struct vpt_context){.cr3 = ptd_space_cr3(next->cr3),
                                .cpl = cpl_at(follow, next, ip),
                                .exec_mode = tell_exec_mode(follow->mode),
                                .interrupts = true};
}

/* Behind an overflow, anything tells the model where the guest is. */
static void find_again(struct follow *follow, const struct vpt_context *now, uint64_t ip)
{
    const struct vpt_transfer transfer = {
        .type = VPT_FAR_BRANCH, .ip = ip, .target = ip, .after = *now};

    vpt_transfer(follow->config.cpu, &transfer);
    follow->is_lost = false;
}

/* What no event has told. */
static void tell_rest(struct follow *follow, const struct vpt_context *now, uint64_t ip)
{
    const uint64_t differs = follow->context.cr3 ^ now->cr3;

    if (follow->context.exec_mode != now->exec_mode)
        find_again(follow, now, ip);
    else if (differs & CR3_TABLE)
        vpt_mov_cr3(follow->config.cpu, now->cr3, ip);
}

/* The next block or event begins at an address. */
static void arrive(struct follow *follow, const struct ptd_item *next, uint64_t ip)
{
    const struct vpt_context now = context_at(follow, next, ip);

    if (follow->is_lost) {
        find_again(follow, &now, ip);
    } else if (follow->knows_context) {
        if (follow->last.is_open) {
            switch (tell_last(follow->config.cpu, &follow->last, &now, ip)) {
            case TOLD_SAME:
                break;
            case TOLD_CR3:
                follow->context.cr3 = now.cr3;
                break;
            case TOLD_CONTEXT:
                follow->context = now;
                break;
            }
        }
        tell_rest(follow, &now, ip);
    }
    follow->context = now;
    follow->knows_context = true;
    follow->last = (struct last){.is_open = false};
}

/* ---- Entries and exits ---- */

/* The host has done something for the guest, which stood at .exit_ip. */
static void carried_out(struct follow *follow, uint64_t ip)
{
    struct last *const last = &follow->last;
    const struct ptd_item block = {.type = PTD_ITEM_BLOCK,
                                   .cr3 = ptd_space(HOST_VM, follow->context.cr3 & CR3_TABLE),
                                   .mode = follow->mode,
                                   .ip = follow->exit_ip,
                                   .last_ip = follow->exit_ip};
    struct ptd_insn insn;
    uint64_t end = follow->exit_ip;

    *last = (struct last){.is_open = true, .has_from = true, .from = follow->exit_ip};
    if (ptd_block_insn(follow->image, &block, &end, &insn) != PTD_OK)
        return;
    last->end = end;
    last->last_ip = follow->exit_ip;
    last->last_class = insn.iclass;
    last->taken = ip != last->end;
    last->has_cr3 = insn.iclass == PTD_INSN_MOV_CR3;
    switch ((enum ptd_insn_class)insn.iclass) {
    case PTD_INSN_COND:
    case PTD_INSN_JMP_DIRECT:
    case PTD_INSN_JMP_INDIRECT:
    case PTD_INSN_CALL_DIRECT:
    case PTD_INSN_CALL_INDIRECT:
    case PTD_INSN_RET:
    case PTD_INSN_FAR:
    case PTD_INSN_IRET:
        last->is_block = true;
        break;
    default:
        last->is_block = ip == last->end; /* else an event was delivered */
        break;
    }
}

static void take_entry(struct follow *follow, const struct ptd_item *item)
{
    follow->is_inside = true;
    follow->last.is_open = false;
    if (follow->knows_exit && item->to != follow->exit_ip)
        carried_out(follow, item->to);
    follow->knows_exit = false;
}

static bool take_exit(struct follow *follow, const struct ptd_item *item)
{
    if (!follow->is_inside || !item->has_from)
        return false;
    arrive(follow, item, item->from);
    follow->is_inside = false;
    follow->knows_exit = true;
    follow->exit_ip = item->from;
    follow->sums.exits++;
    return true;
}

/* ---- Items ---- */

static struct seen_block *seen_at(struct follow *follow, const struct ptd_item *block)
{
    return &follow->seen[(block->ip ^ block->ip >> 13 ^ block->last_ip << 5 ^ block->cr3 >> 12) %
                         SEEN];
}

/* False: there is no room to watch the block's code. */
static bool see(struct follow *follow, const struct ptd_item *block)
{
    struct seen_block *const seen = seen_at(follow, block);

    if (!seen->end || seen->cr3 != block->cr3 || seen->ip != block->ip ||
        seen->last_ip != block->last_ip || seen->mode != block->mode) {
        *seen = (struct seen_block){.cr3 = block->cr3,
                                    .ip = block->ip,
                                    .last_ip = block->last_ip,
                                    .end = tell_block_end(block),
                                    .mode = block->mode};
        if (!code_watch_see(follow->watch, ptd_space_cr3(block->cr3), block->ip, seen->end)) {
            seen->end = 0;
            return false;
        }
    }
    return true;
}

/* False: there is no room to watch its code. */
static bool take_block(struct follow *follow, const struct ptd_item *block)
{
    follow->mode = block->mode;
    arrive(follow, block, block->ip);
    if (!see(follow, block))
        return false;
    follow->sums.insns += block->insns;
    follow->last = last_block(block);
    return true;
}

static void take_event(struct follow *follow, const struct ptd_item *item)
{
    arrive(follow, item, item->from);
    follow->last = last_event(item);
}

static void take_ptwrite(struct follow *follow, const struct ptd_item *item)
{
    const struct last *const last = &follow->last;
    const uint64_t ip = item->has_from ? item->from : last->to;

    if (!item->has_from && !last->has_to)
        return;
    arrive(follow, item, last->is_open && last->has_to ? last->to : ip);
    vpt_ptwrite(follow->config.cpu, item->value, item->packet.ptw.payload_bytes, ip);
}

/* False: what comes is not known. */
static bool take_item(struct follow *follow, const struct ptd_item *item)
{
    switch ((enum ptd_item_type)item->type) {
    case PTD_ITEM_BLOCK:
        return take_block(follow, item);
    case PTD_ITEM_ASYNC:
        take_event(follow, item);
        return true;
    case PTD_ITEM_ENABLED:
        take_entry(follow, item);
        return true;
    case PTD_ITEM_DISABLED:
        return take_exit(follow, item);
    case PTD_ITEM_CR3:
        follow->last.has_cr3 = follow->last.has_cr3 || (follow->is_inside && !item->in_psb);
        return true;
    case PTD_ITEM_MODE:
        follow->mode = (uint8_t)item->value;
        return true;
    case PTD_ITEM_TSX:
        follow->last.has_tsx = follow->last.has_tsx || !item->in_psb;
        follow->last.tsx = item->value;
        return true;
    case PTD_ITEM_PTWRITE:
        take_ptwrite(follow, item);
        return true;
    case PTD_ITEM_STOP:
    case PTD_ITEM_OVERFLOW:
    case PTD_ITEM_ERROR:
        return false;
    default:
        return true;
    }
}

/* ---- Time ---- */

/* Up to an offset of the piece. */
static void tell_time(struct follow *follow, uint64_t offset)
{
    struct ptd_packet packet;
    struct ptd_time_point point;
    bool moved = false;

    while (ptd_packets_offset(&follow->timed) < offset &&
           ptd_packets_next(&follow->timed, &packet) == PTD_OK) {
        ptd_time_packet(follow->time, &packet);
        moved = true;
    }
    if (!moved)
        return;
    ptd_time_point(follow->time, &point);
    if (point.tsc != PTD_TIME_UNKNOWN)
        follow->config.time(follow->config.owner, ptd_time_guest_tsc(&follow->vm, point.tsc));
}

/* ---- Pieces ---- */

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Whether code ran that is another one by now than at some time before, maybe in this piece. */
static bool ran_changed_code(struct follow *follow)
{
    struct ptd_item item;
    bool changed = false;

    while (!changed && ptd_stream_next(follow->stream, &item, NULL) == PTD_OK)
        changed = item.type == PTD_ITEM_ERROR ||
                  (item.type == PTD_ITEM_BLOCK &&
                   code_watch_changed(follow->watch, ptd_space_cr3(item.cr3), item.ip,
                                      tell_block_end(&item)));
    return changed;
}

static bool feed(struct follow *follow)
{
    return make_stream(follow) &&
           ptd_stream_feed(follow->stream, follow->guest.data, follow->guest.len) == PTD_OK;
}

static bool cut_and_feed(struct follow *follow, const struct pt_piece *piece, enum cut_end *end)
{
    follow->guest.len = 0;
    *end = cut_take(&follow->cut, piece, &follow->guest);
    return *end != CUT_NO_MEMORY && feed(follow);
}

/* Code has changed since it was seen. *ambiguous: the piece may have run both. False: no memory. */
static bool rebuild(struct follow *follow, const struct pt_piece *piece, bool *ambiguous)
{
    struct cut before;
    enum cut_end end;

    follow->sums.rebuilt++;
    drop_stream(follow);
    before = follow->cut;
    if (!cut_and_feed(follow, piece, &end))
        return false;
    *ambiguous = ran_changed_code(follow);
    drop_stream(follow);
    follow->cut = before;
    code_watch_forget(follow->watch);
    return true;
}

/* The step with an index, as blocks. */
static bool take_step(struct follow *follow, size_t index)
{
    const struct ptd_flow *const flow = ptd_stream_flow(follow->stream);
    const struct ptd_run *const run = &follow->run;
    struct ptd_item block;

    steps_begin(follow->steps, run->steps[index], 0);
    for (size_t i = 0; ptd_step_block(flow, run->steps[index], i, &block) == PTD_OK; i++) {
        if (index + 1 == run->count && !block.has_to) {
            block.has_to = true;
            block.to = run->to;
        }
        if (!take_block(follow, &block))
            return false;
        steps_block(follow->steps, &block);
    }
    steps_end(follow->steps);
    return true;
}

/* Behind a step that was taken as blocks: the next one that has to be. */
static size_t pass(struct follow *follow, size_t index)
{
    if (!step_is_near(follow->last.last_class))
        return index;
    return steps_tell(follow->steps, 0, follow->config.cpu, &follow->run, index, &follow->last,
                      &follow->sums.insns);
}

/* What stands at its offset has come about by then, if it tells the time. */
static bool take_timed(struct follow *follow, const struct ptd_item *item)
{
    const bool tells = item->type == PTD_ITEM_TSC || item->type == PTD_ITEM_PACKET;

    if (item->offset >= follow->base)
        tell_time(follow, item->offset - follow->base + tells);
    return take_item(follow, item);
}

static bool take_run(struct follow *follow)
{
    const struct ptd_run *const run = &follow->run;

    if (run->count > 0 && !steps_begin_run(follow->steps, ptd_stream_flow(follow->stream), run))
        return false;
    for (size_t i = 0; i < run->count; i = pass(follow, i + 1))
        if (!take_step(follow, i))
            return false;
    return !run->has_item || take_timed(follow, &run->item);
}

/* False: the rest of the piece is not known. */
static bool tell_piece(struct follow *follow)
{
    const uint64_t until = follow->config.budget_ns ? now_ns() + follow->config.budget_ns : 0;
    int status;

    ptd_packets_init(&follow->timed, follow->guest.data, follow->guest.len);
    while ((status = ptd_stream_run(follow->stream, &follow->run, NULL)) == PTD_OK)
        if (!take_run(follow) || (until && now_ns() > until))
            return false;
    tell_time(follow, UINT64_MAX);
    follow->base += follow->guest.len;
    return status == PTD_MORE;
}

/* What the guest's processor is, beside what was told. False: not what was expected. */
static bool agrees(struct follow *follow, const struct follow_state *state)
{
    follow->vm.offset = state->tsc_offset;
    if (follow->is_la57 != state->is_la57)
        drop_stream(follow);
    follow->is_la57 = state->is_la57;
    return state->is_long && (!follow->knows_context || follow->context.cpl == state->cpl);
}

int follow_piece(struct follow *follow, const struct follow_state *state,
                 const struct pt_piece *piece)
{
    const uint64_t told = follow->sums.exits;
    uint64_t exits;
    bool ambiguous = false;
    enum cut_end end;

    if (!agrees(follow, state))
        lose(follow);
    if (!state->is_long)
        return 0;
    if (code_watch_compare(follow->watch) > 0 && !rebuild(follow, piece, &ambiguous))
        return -ENOMEM;
    if (ambiguous) {
        lose(follow);
        return 0;
    }
    if (code_watch_is_crowded(follow->watch))
        forget_code(follow);
    if (piece->is_shared) /* its time is told anew, from the PSB in front of it on */
        ptd_time_lost(follow->time);
    exits = follow->cut.exits;
    if (!cut_and_feed(follow, piece, &end))
        return -ENOMEM;
    exits = follow->cut.exits - exits;
    /* A flow that has lost its way says so at the next PSB only. */
    if (!tell_piece(follow) || end == CUT_LOST || piece->lost || follow->sums.exits - told != exits)
        lose(follow);
    return 0;
}
