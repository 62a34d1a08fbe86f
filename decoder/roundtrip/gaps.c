/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares what is told with a part of the code with what is told with all of it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gaps.h"

struct check {
    const struct gaps_trace *trace;
    struct ptd_flow *truth;
    struct ptd_item ran; /* the item of the truth that is next */
    bool at_end;
    bool in_gap; /* an error came since the last item */
    bool is_cut; /* code ended in the middle of the last block: an error has to come */
    struct gaps_verdict verdict;
};

static bool is_flow(const struct ptd_item *item)
{
    return item->type == PTD_ITEM_BLOCK || item->type == PTD_ITEM_ENABLED ||
           item->type == PTD_ITEM_DISABLED || item->type == PTD_ITEM_ASYNC;
}

static uint64_t insns_left(const struct check *check, const struct ptd_item *block)
{
    uint64_t ip = block->ip, known = 0;
    struct ptd_insn insn;

    while (ptd_block_insn(check->trace->whole, block, &ip, &insn) == PTD_OK) {
        const uint8_t *bytes;
        size_t len;

        known += ptd_image_find(check->trace->part, block->cr3, insn.ip, &bytes, &len) == PTD_OK;
    }
    return known;
}

static void next_of_truth(struct check *check)
{
    do
        check->at_end = ptd_flow_next(check->truth, &check->ran) != PTD_OK;
    while (!check->at_end && !is_flow(&check->ran));
    if (!check->at_end && check->ran.type == PTD_ITEM_BLOCK)
        check->verdict.known += insns_left(check, &check->ran);
}

/*
 * The search for a PSB reads no PIP, and a PSB+ outside of what is traced has none (33.3.7): then
 * the address space is not known behind it.
 */
static bool is_alike_space(const struct check *check, const struct ptd_item *told)
{
    if (ptd_space_cr3(told->cr3) == PTD_ANY_CR3)
        return check->trace->config.resync == PTD_RESYNC_PSB;
    return check->ran.cr3 == told->cr3 && check->ran.nr == told->nr;
}

/* What both have, whether or not a block was cut. */
static bool is_alike(const struct check *check, const struct ptd_item *told)
{
    const struct ptd_item *const ran = &check->ran;

    return ran->type == told->type && ran->offset == told->offset && is_alike_space(check, told) &&
           ran->mode == told->mode && ran->ip == told->ip && ran->has_from == told->has_from &&
           ran->from == told->from;
}

/* The same, or the begin of a block whose rest is missing. */
static bool is_same(const struct check *check, const struct ptd_item *told)
{
    const struct ptd_item *const ran = &check->ran;

    if (!is_alike(check, told))
        return false;
    if (told->insns < ran->insns)
        return told->last_ip < ran->last_ip;
    return told->insns == ran->insns && told->last_ip == ran->last_ip &&
           told->taken == ran->taken && told->has_to == ran->has_to && told->to == ran->to;
}

static void differs(struct check *check, const struct ptd_item *told, const char *how)
{
    if (check->verdict.wrong++ == 0)
        (void)snprintf(check->verdict.difference, sizeof(check->verdict.difference),
                       "%s: type %u, offset %" PRIu64 ", ip %" PRIx64 ", from %" PRIx64
                       " to %" PRIx64,
                       how, told->type, told->offset, told->ip, told->from, told->to);
}

static void see(struct check *check, const struct ptd_item *told)
{
    if (check->is_cut)
        differs(check, told, "no error behind the end of code");
    while (check->in_gap && !check->at_end && !is_same(check, told))
        next_of_truth(check);
    if (check->at_end || !is_same(check, told)) {
        differs(check, told, check->in_gap ? "did not happen" : "is not what is next");
        check->in_gap = true;
        check->is_cut = false;
        return;
    }
    check->verdict.told += told->insns;
    check->in_gap = false;
    check->is_cut = told->insns < check->ran.insns;
    next_of_truth(check);
}

struct gaps_verdict gaps_check(const struct gaps_trace *trace)
{
    struct check check = {.trace = trace};
    struct ptd_flow *const flow =
        ptd_flow_new(trace->bytes, trace->len_bytes, trace->part, &trace->config);
    struct ptd_item item;

    check.truth = ptd_flow_new(trace->bytes, trace->len_bytes, trace->whole, &trace->config);
    if (!flow || !check.truth)
        abort();
    next_of_truth(&check);
    while (ptd_flow_next(flow, &item) == PTD_OK) {
        if (is_flow(&item))
            see(&check, &item);
        if (item.type != PTD_ITEM_ERROR)
            continue;
        check.in_gap = true;
        check.is_cut = false;
        check.verdict.gaps++;
        check.verdict.lost_bytes += item.value;
    }
    while (!check.at_end)
        next_of_truth(&check);
    ptd_flow_free(flow);
    ptd_flow_free(check.truth);
    return check.verdict;
}
