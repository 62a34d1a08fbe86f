/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines as `perf script --itrace=i0ns` and `perf script --itrace=b` print them, with
 * -F comm,tid,time,event,ip,addr,sym,symoff. "VM:" and a name stand in front of a guest's, where
 * perf has the number of its machine_pid.
 */
#include "view/filter.h"
#include "view/out.h"
#include "common/escape.h"
#include "ptdec.h"

#include <inttypes.h>
#include <stdlib.h>

#define NS_PER_S 1000000000u

struct perf {
    FILE *to;
    struct out_thread thread;
    uint64_t time;
    uint64_t from; /* of a branch that has no target yet */
    bool pending;
};

static void *perf_open(FILE *to)
{
    struct perf *const perf = calloc(1, sizeof(*perf));

    if (perf)
        perf->to = to;
    return perf;
}

static bool perf_begin(void *out, const struct out_thread *thread)
{
    struct perf *const perf = out;

    perf->thread = *thread;
    perf->pending = false;
    return true;
}

static bool perf_end(void *out)
{
    (void)out;
    return true;
}

static bool perf_close(void *out)
{
    free(out);
    return true;
}

/* What stands in front of the addresses. A trace without TSC has no time. */
static void print_head(const struct perf *perf, uint64_t cr3, uint64_t time, const char *event)
{
    const struct out_thread *const thread = &perf->thread;
    const struct out_who who = out_who(thread, cr3, time);
    struct escaped room;

    if (who.vm)
        fprintf(perf->to, "VM:%s ", escaped(who.vm, &room));
    fprintf(perf->to, "%16s %5" PRIu32 " ", escaped(who.comm, &room), who.tid);
    if (thread->cpu >= 0)
        fprintf(perf->to, "[%03d] ", thread->cpu);
    if (thread->is_tsc) {
        const uint64_t ns = out_ns(thread, time);

        fprintf(perf->to, "%5" PRIu64 ".%06" PRIu64 ": ", ns / NS_PER_S, ns % NS_PER_S / 1000);
    }
    fprintf(perf->to, "%s: ", event);
}

static void print_address(const struct perf *perf, uint64_t cr3, uint64_t ip)
{
    uint64_t offset = 0;
    const char *const name =
        ip ? shown_name(perf->thread.shown, ptd_image_symbol(perf->thread.image, cr3, ip, &offset))
           : NULL;
    struct escaped room;

    if (name)
        fprintf(perf->to, " %16" PRIx64 " %s+0x%" PRIx64, ip, escaped(name, &room), offset);
    else
        fprintf(perf->to, " %16" PRIx64 " [unknown]", ip);
}

static void print_error(const struct perf *perf, const struct ptd_item *item, uint64_t time)
{
    if (!out_takes_event(&perf->thread, item, time))
        return;
    fprintf(perf->to, " instruction trace error at offset 0x%" PRIx64 ": %s", item->offset,
            ptd_strerror(item->error));
    if (item->has_from)
        fprintf(perf->to, " 0x%" PRIx64, item->from);
    fprintf(perf->to, ", %" PRIu64 " bytes lost\n", item->value);
}

/* ---- Instructions ---- */

static bool perf_item(void *out, const struct ptd_item *item, uint64_t time)
{
    const struct perf *const perf = out;
    struct ptd_insn insn;
    uint64_t ip = item->ip;

    if (item->type == PTD_ITEM_ERROR)
        print_error(perf, item, time);
    if (item->type != PTD_ITEM_BLOCK || !out_takes_who(&perf->thread, item->cr3, time))
        return true;
    while (ptd_block_insn(perf->thread.image, item, &ip, &insn) == PTD_OK) {
        if (!out_takes_at(&perf->thread, item->cr3, insn.ip))
            continue;
        print_head(perf, item->cr3, time, "instructions");
        print_address(perf, item->cr3, insn.ip);
        fputc('\n', perf->to);
    }
    return true;
}

/* ---- Branches ---- */

/* By the function at either end; 0 is none. */
static bool is_wanted(const struct perf *perf, uint64_t time, uint64_t cr3, uint64_t from,
                      uint64_t to)
{
    return out_takes_who(&perf->thread, cr3, time) &&
           (out_takes_at(&perf->thread, cr3, from ? from : to) ||
            out_takes_at(&perf->thread, cr3, to ? to : from));
}

static void print_branch(struct perf *perf, uint64_t time, uint64_t cr3, uint64_t from, uint64_t to)
{
    perf->pending = false;
    if (!is_wanted(perf, time, cr3, from, to))
        return;
    print_head(perf, cr3, time, "branches");
    print_address(perf, cr3, from);
    fputs(" => ", perf->to);
    print_address(perf, cr3, to);
    fputc('\n', perf->to);
}

/* Whether a block ends in a branch that was taken. */
static bool branches(const struct ptd_item *block)
{
    switch (block->last_class) {
    case PTD_INSN_COND:
        return block->taken;
    case PTD_INSN_JMP_DIRECT:
    case PTD_INSN_CALL_DIRECT:
    case PTD_INSN_JMP_INDIRECT:
    case PTD_INSN_CALL_INDIRECT:
    case PTD_INSN_RET:
    case PTD_INSN_FAR:
    case PTD_INSN_IRET:
    case PTD_INSN_INT:
    case PTD_INSN_VMENTRY:
        return true;
    default:
        return false;
    }
}

static bool branches_item(void *out, const struct ptd_item *item, uint64_t time)
{
    struct perf *const perf = out;

    switch (item->type) {
    case PTD_ITEM_BLOCK:
        if (perf->pending)
            print_branch(perf, perf->time, item->cr3, perf->from, item->ip);
        perf->pending = branches(item);
        perf->from = item->last_ip;
        perf->time = time;
        break;
    case PTD_ITEM_ENABLED:
        print_branch(perf, time, item->cr3, 0, item->to);
        break;
    case PTD_ITEM_DISABLED:
        if (perf->pending && item->has_from) /* it stopped where the branch led to */
            print_branch(perf, perf->time, item->cr3, perf->from, item->from);
        if (perf->pending || item->has_from)
            print_branch(perf, time, item->cr3, item->has_from ? item->from : perf->from,
                         item->has_to ? item->to : 0);
        break;
    case PTD_ITEM_ASYNC:
        if (perf->pending)
            print_branch(perf, perf->time, item->cr3, perf->from, item->from);
        print_branch(perf, time, item->cr3, item->from, item->to);
        break;
    case PTD_ITEM_ERROR:
        perf->pending = false;
        print_error(perf, item, time);
        break;
    case PTD_ITEM_OVERFLOW:
        perf->pending = false;
        break;
    default:
        break;
    }
    return true;
}

const struct out_format out_perf = {
    .name = "perf",
    .merges = true,
    .open = perf_open,
    .begin = perf_begin,
    .item = perf_item,
    .end = perf_end,
    .close = perf_close,
};

const struct out_format out_branches = {
    .name = "perf-branches",
    .merges = true,
    .open = perf_open,
    .begin = perf_begin,
    .item = branches_item,
    .end = perf_end,
    .close = perf_close,
};
