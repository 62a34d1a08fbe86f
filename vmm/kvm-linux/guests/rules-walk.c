/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest's own trace, decoded and compared with what it executed. Which way each branch of
 * guest_walk goes follows from a number, so it is computed here once more; the trace has all of it,
 * across the VM exits that come in between.
 */
#include "guest.h"
#include "layout.h"
#include "rules.h"
#include "ptdec.h"

#include <inttypes.h>

#define TRACE     (FREE + 0x100000)
#define TRACE_MAX 0x100000u /* more than the walk's packets */
#define ROUNDS    20000u
#define SEED      12345u

/* Instructions of a round, less those that depend on the number. */
#define ROUND_INSNS 15u

/* What the guest does, one marked place after the other, and how many instructions that comes to.
 */
struct walk {
    uint64_t number;
    unsigned rounds, place; /* of the round */
    uint64_t insns;
};

static bool bit(uint64_t number, unsigned n)
{
    return number >> n & 1;
}

/* The next marked place; 0: the walk has ended. */
static uint64_t walk_on(struct walk *walk)
{
    for (;;) {
        switch (walk->place) {
        case 0:
            if (walk->rounds == ROUNDS)
                return 0;
            walk->rounds++;
            walk->number = walk->number * WALK_FACTOR + WALK_TERM;
            walk->insns += ROUND_INSNS;
            walk->place = 1;
            return guest_address(guest_walk);
        case 1:
            walk->place = 2;
            if (bit(walk->number, WALK_TAKEN_BIT))
                break;
            walk->insns++;
            return guest_address(guest_walk_over);
        case 2:
            walk->place = 3;
            return guest_address(bit(walk->number, WALK_OTHER_BIT) ? guest_walk_other
                                                                   : guest_walk_one);
        default:
            walk->place = 0;
            return guest_address(guest_walk_called);
        }
    }
}

static bool is_place(uint64_t ip)
{
    return ip == guest_address(guest_walk) || ip == guest_address(guest_walk_over) ||
           ip == guest_address(guest_walk_one) || ip == guest_address(guest_walk_other) ||
           ip == guest_address(guest_walk_called);
}

/* In the order of the trace, each place is where the walk goes next. */
static struct outcome compare(struct ptd_flow *flow)
{
    struct walk walk = {.number = SEED};
    uint64_t places = 0, insns = 0;
    struct ptd_item item;

    while (ptd_flow_next(flow, &item) == PTD_OK) {
        if (item.type == PTD_ITEM_ERROR)
            return outcome(NOT_SO, "the trace has an error: %s", ptd_strerror(item.error));
        if (item.type != PTD_ITEM_BLOCK)
            continue;
        insns += item.insns;
        if (!is_place(item.ip))
            continue;
        if (walk_on(&walk) != item.ip)
            return outcome(NOT_SO, "the trace goes elsewhere after %" PRIu64 " places", places);
        places++;
    }
    if (walk_on(&walk) != 0)
        return outcome(NOT_SO, "the trace ends after %" PRIu64 " places", places);
    /* Besides the walk there are the ends of two pieces: what follows a WRMSR, and the next WRMSR.
     */
    if (insns < walk.insns || insns > walk.insns + 8)
        return outcome(NOT_SO, "there are %" PRId64 " instructions too many",
                       (int64_t)(insns - walk.insns));
    return outcome(AS_SPECIFIED, "it does, for %u rounds", ROUNDS);
}

static struct outcome decode(const struct guest *guest, size_t len_bytes)
{
    struct ptd_image *image = ptd_image_new();
    struct outcome result = {.verdict = NOT_TRIED, .did = "no memory for a decoder"};
    struct ptd_flow *flow = NULL;

    if (image && ptd_image_add_bytes(image, NULL, CODE, guest_code,
                                     (uintptr_t)guest_code_end - (uintptr_t)guest_code,
                                     PTD_ANY_CR3) == PTD_OK)
        flow = ptd_flow_new(guest->vm.ram + TRACE, len_bytes, image, NULL);
    if (flow)
        result = compare(flow);
    ptd_flow_free(flow);
    ptd_image_free(image);
    return result;
}

static struct outcome walked(void)
{
    struct outcome result = {.verdict = NOT_SO, .did = "the guest cannot trace"};
    struct guest guest;

    guest_open(&guest, true, NULL);
    if (guest_trace(&guest, TRACED, TRACE, TRACE_MAX - 1) &&
        guest_call(&guest, guest_walk, ROUNDS, SEED) == DONE) {
        guest_trace_end(&guest);
        result = decode(&guest, vm_get_msr(&guest.vm, MSR_OUTPUT_MASK) >> 32);
    }
    guest_close(&guest);
    return result;
}

const struct rule walk_rules[] = {
    {"G5", "What a guest recorded decodes to what it executed.", "33.5.2.2", TEST(walked)},
    {.name = NULL},
};
