/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flow in bulk: where a trace has nothing but TNTs and TIPs (and timing that nobody wants), one
 * loop reads packets and steps along the graph of code at once. All else is left to read.c and
 * walk.c, and the state that they share with this file is exactly theirs whenever it is left: in
 * particular they never see a packet read that they would not have read yet.
 */
#include <endian.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "code/code_log.h"
#include "flow/bulk.h"
#include "flow/compound.h"
#include "flow/graph.h"
#include "packets/mark.h"
#include "pt_packets.h"

#define LOOK_AHEAD  16u /* bytes that must be there: no packet of this file is longer */
#define MERGE_LIMIT 58u /* TNT bits after which no other short TNT is taken in */

/* The walk, in registers as far as possible. */
struct walk {
    struct ptd_flow *flow;
    const uint8_t *pos, *end;
    /*
     * TNT bits, oldest first at the top: those that were there at first or of a long TNT, and
     * behind them those of the short TNTs that end at pos.
     */
    uint64_t bits;
    unsigned count;
    const uint8_t *short_from;
    const uint8_t *long_from; /* NULL: no long TNT, or it was used up */
    uint32_t node;
    uint32_t *out, *out_end;
    struct ptd_mark *mark, *mark_end;
    uint64_t to_offset;  /* what makes an offset of an address */
    uint32_t since_mark; /* MARK_* */
    const uint32_t *steps;
    uint8_t timing;
    bool compounds; /* steps may be compound ones */
    /* The next ones may: not behind a CYC packet, if those cut off fewer bits than paths have. */
    bool in_paths;
    size_t misses; /* paths that were not known */
};

/* ---- Steps ---- */

static void push_several(struct ptd_flow *flow, const struct node *node)
{
    for (unsigned i = 0; i < node->calls; i++)
        call_stack_push_node(&flow->calls, flow->graph->returns[node->ret + i]);
}

static inline void push_calls(struct ptd_flow *flow, const struct node *node)
{
    if (node->calls == 1)
        call_stack_push_node(&flow->calls, node->ret);
    else if (node->calls > 1)
        push_several(flow, node);
}

static inline void emit(struct walk *walk, unsigned bit)
{
    *walk->out++ = ptd_node_step(walk->node, bit);
}

/*
 * The address of a NODE_NONE, which the last step led to: by a branch that is not linked, or by a
 * RET to an entry of the stack that has no node.
 */
static uint64_t unknown_ip(const struct walk *walk)
{
    const struct ptd_flow *const flow = walk->flow;
    const uint32_t step = walk->out[-1], last = ptd_step_node(step);

    if (ptd_node(flow->graph, last)->pops)
        return call_stack_popped_ip(&flow->calls);
    return ptd_graph_successor(flow->graph, last, step & 1);
}

/* Makes the node one that can be walked over or shows that it cannot: NODE_SLOW, or full. */
static bool prepare(struct walk *walk)
{
    struct graph *const graph = walk->flow->graph;

    if (walk->node == 0) {
        const uint32_t step = walk->out[-1], last = ptd_step_node(step);
        const uint32_t next = ptd_node(graph, last)->pops
                                  ? ptd_graph_find(graph, walk->flow->space, unknown_ip(walk))
                                  : ptd_graph_link(graph, last, step & 1);

        if (!next)
            return false;
        walk->node = next;
    }

    const enum node_kind kind = ptd_node_kind(ptd_node(graph, walk->node));

    return (kind != NODE_STUB && kind != NODE_CLAIMED) || ptd_graph_build(graph, walk->node);
}

_Static_assert(offsetof(struct node, next) == 0, "a bit and a node's number add up to its place");

/*
 * Steps over nodes that end in a conditional branch or a RET, while there are bits. What is rarer
 * leaves the loop. A step waits for little but the load of the next node's number; CALLs and RETs
 * are branches here, because processors foresee them: without branches this was slower.
 *
 * That load is all that one step waits for until the next: the bit is added to where nodes begin,
 * and not to the node's number. A compiler would add it to the number, which is known later.
 */
static void step_hot(struct walk *walk)
{
    struct ptd_flow *const flow = walk->flow;
    const uint8_t *const nodes = (const uint8_t *)flow->graph->nodes;
    uint32_t *const returns = flow->calls.node;
    struct call_top top = flow->calls.top;
    unsigned count = walk->count;
    uint64_t bits = walk->bits;
    uint32_t id = walk->node, *out = walk->out;

    for (; count > 0; count--) {
        const struct node *const node = (const struct node *)(nodes + id);
        const uint16_t kind_calls = ptd_node_kind_calls(node);
        const unsigned bit = (unsigned)(bits >> 63);
        const uint8_t *next = nodes + bit * sizeof(node->next[0]);

        __asm__("" : "+r"(next));
        if (kind_calls == KIND_CALLS(NODE_COND, 0)) {
            *out++ = ptd_node_step(id, bit);
            id = __atomic_load_n((const uint32_t *)(next + id), __ATOMIC_ACQUIRE);
        } else if (kind_calls == KIND_CALLS(NODE_COND, 1)) {
            returns[call_top_push(&top)] = node->ret;
            *out++ = ptd_node_step(id, bit);
            id = __atomic_load_n((const uint32_t *)(next + id), __ATOMIC_ACQUIRE);
        } else if (kind_calls == KIND_CALLS(NODE_RET, 0) && bit && top.count > 0) {
            *out++ = ptd_node_step(id, 0);
            id = returns[call_top_pop(&top)];
        } else {
            break;
        }
        bits <<= 1;
    }
    flow->calls.top = top;
    walk->count = count;
    walk->bits = bits;
    walk->node = id;
    walk->out = out;
}

/* The same for one node with several CALLs on its way. False: the general walk has to go on. */
static bool step_calls(struct walk *walk)
{
    struct ptd_flow *const flow = walk->flow;
    const struct node *const node = ptd_node(flow->graph, walk->node);
    const unsigned bit = (unsigned)(walk->bits >> 63);

    if (node->pops && !bit)
        return false;
    push_calls(flow, node);
    emit(walk, node->pops ? 0 : bit);
    walk->node = node->pops ? call_stack_pop_node(&flow->calls) : ptd_node_next(node, bit);
    walk->bits <<= 1;
    walk->count--;
    return true;
}

/* What the loops above do not take. False: the general walk has to go on. */
static bool step_rare(struct walk *walk)
{
    switch (ptd_node_kind(ptd_node(walk->flow->graph, walk->node))) {
    case NODE_COND_CALLS:
    case NODE_RET_CALLS:
        return step_calls(walk);
    case NODE_NONE:
    case NODE_STUB:
    case NODE_CLAIMED:
        return prepare(walk);
    case NODE_COND: /* another thread built it just now */
        return true;
    case NODE_RET:
        return walk->bits >> 63 && walk->flow->calls.top.count > 0;
    default:
        return false;
    }
}

/* Uses up the TNT bits. False: the general walk has to go on. */
static bool step_bits(struct walk *walk)
{
    for (;;) {
        step_hot(walk);
        if (walk->count == 0)
            return true;
        if (!step_rare(walk))
            return false;
    }
}

/* ---- TNTs ---- */

static unsigned highest_bit(uint64_t value)
{
    return 63u - (unsigned)__builtin_clzll(value);
}

#define TNT8S       8u                           /* short TNTs at once, */
#define TNT8S_BITS  (TNT8S * 6u)                 /* with 6 bits each */
#define TNT8S_FIXED UINT64_C(0x8181818181818181) /* these say that they are such */
#define TNT8S_FULL  UINT64_C(0x8080808080808080)

_Static_assert(PT_TNT8_SHR == 1, "the bits of a short TNT stand from bit 1 on");

/* The TNT bits of so many full ones, which is what nearly all are where there are many. */
static inline uint64_t tnt8s_bits(uint64_t packets)
{
    const uint64_t x = be64toh(packets) >> PT_TNT8_SHR;
    const uint64_t by12 = (x & 0x3f003f003f003f00) >> 2 | (x & 0x003f003f003f003f);
    const uint64_t by24 = (by12 & 0x0fff00000fff0000) >> 4 | (by12 & 0x00000fff00000fff);

    return by24 >> 32 << 24 | (by24 & 0xffffff);
}

/* The short TNTs at pos, as far as they fit in behind the bits that are there. */
static inline void append_tnt8(struct walk *walk)
{
    const uint8_t *pos = walk->pos;
    unsigned count = walk->count;
    uint64_t bits = walk->bits, packets;

    if (count == 0) {
        walk->short_from = pos;
        walk->long_from = NULL;
    }
    walk->since_mark |= MARK_TNT;
    while (count <= 64 - TNT8S_BITS && walk->end - pos >= (ptrdiff_t)TNT8S) {
        memcpy(&packets, pos, sizeof(packets));
        if ((packets & TNT8S_FIXED) != TNT8S_FULL)
            break;
        bits |= tnt8s_bits(packets) << (64 - TNT8S_BITS - count);
        count += TNT8S_BITS;
        pos += TNT8S;
    }
    while (count <= MERGE_LIMIT && pos < walk->end && pt_is_tnt8(*pos)) {
        const uint64_t stopped = *pos++ >> PT_TNT8_SHR;
        const unsigned more = highest_bit(stopped);

        count += more;
        bits |= (stopped ^ UINT64_C(1) << more) << (64 - count);
    }
    walk->pos = pos;
    walk->bits = bits;
    walk->count = count;
}

/* False: it is not valid. */
static bool take_tnt64(struct walk *walk)
{
    uint64_t stopped;

    memcpy(&stopped, walk->pos, sizeof(stopped));
    stopped = le64toh(stopped) >> 16;
    if (stopped < 2)
        return false;
    walk->long_from = walk->pos;
    walk->count = highest_bit(stopped);
    walk->bits = stopped << (64 - walk->count);
    walk->pos += PT_TNT64_LEN;
    walk->short_from = walk->pos;
    walk->since_mark |= MARK_TNT;
    return true;
}

static unsigned tnt64_bits(const uint8_t *pos)
{
    uint64_t stopped;

    memcpy(&stopped, pos, sizeof(stopped));
    return highest_bit(le64toh(stopped) >> 16);
}

/* Puts back the packets that were read too early: of TNT bits, one packet's are known. */
static void put_back(struct walk *walk)
{
    struct flow_state *const state = &walk->flow->state;
    unsigned left = walk->count;

    state->tnt_count = 0;
    while (left > 0 && walk->pos > walk->short_from) {
        const uint64_t stopped = walk->pos[-1] >> PT_TNT8_SHR;
        const unsigned bits = highest_bit(stopped);

        if (left < bits) {
            state->tnt_count = left;
            state->tnt_bits = stopped & ((UINT64_C(1) << left) - 1);
            return;
        }
        left -= bits;
        walk->pos--;
    }
    if (left == 0)
        return;
    if (walk->long_from && left == tnt64_bits(walk->long_from)) {
        walk->pos = walk->long_from;
        return;
    }
    state->tnt_count = left;
    state->tnt_bits = walk->bits >> (64 - left);
}

/* ---- TIPs ---- */

static const struct {
    uint64_t keep, take;
} ip_masks[8] = {
    [PT_IPB_UPD16] = {~(uint64_t)0xffff, 0xffff},
    [PT_IPB_UPD32] = {~(uint64_t)0xffffffff, 0xffffffff},
    [PT_IPB_SEXT48] = {0, 0xffffffffffff},
    [PT_IPB_UPD48] = {~(uint64_t)0xffffffffffff, 0xffffffffffff},
    [PT_IPB_FULL] = {0, UINT64_MAX},
};

/* The address of the TIP at pos, which has one (33.4.2.2). */
static inline uint64_t tip_ip(const struct walk *walk)
{
    const unsigned how = walk->pos[0] >> PT_IPBYTES_SHR;
    uint64_t payload, ip;

    memcpy(&payload, walk->pos + 1, sizeof(payload));
    ip = (walk->flow->state.last_ip & ip_masks[how].keep) | (le64toh(payload) & ip_masks[how].take);
    if (how == PT_IPB_SEXT48 && ip >> 47)
        ip |= ~ip_masks[how].take;
    return ip;
}

/* The node of an address that a TIP of late led to, in the same address space; 0: not known. */
static inline uint32_t tip_node(const struct ptd_flow *flow, uint64_t ip)
{
    const struct target *const target = ptd_target(flow->targets, ip);

    return target->ip == ip && target->space == flow->space ? target->node : 0;
}

static inline void leave_tip(struct walk *walk, uint64_t ip)
{
    walk->flow->state.last_ip = ip;
    walk->pos += 1 + pt_ip_payload_bytes(walk->pos[0]);
    walk->since_mark |= MARK_TIP;
}

/*
 * The node that the TIP at pos leads to, if that is a plain one, as most are: behind an indirect
 * branch or a RET, and to where another one went. 0: take_tip() has to take what comes next.
 */
static inline uint32_t pass_tip(struct walk *walk, uint32_t id, struct call_top *top)
{
    struct ptd_flow *const flow = walk->flow;
    const struct node *const node = ptd_node(flow->graph, id);
    const uint16_t kind_calls = ptd_node_kind_calls(node);
    uint32_t next;
    uint64_t ip;

    if (walk->end - walk->pos < (ptrdiff_t)LOOK_AHEAD || (walk->pos[0] & PT_TIP_MASK) != PT_TIP ||
        !pt_ip_payload_bytes(walk->pos[0]))
        return 0;
    if (kind_calls != KIND_CALLS(NODE_INDIRECT, 0) && kind_calls != KIND_CALLS(NODE_INDIRECT, 1) &&
        kind_calls != KIND_CALLS(NODE_RET, 0))
        return 0;
    ip = tip_ip(walk);
    next = tip_node(flow, ip);
    if (!next)
        return 0;
    if (node->calls)
        flow->calls.node[call_top_push(top)] = node->ret;
    else if (node->pops && top->count > 0)
        (void)call_top_pop(top); /* every RET pops, also one that is not compressed */
    leave_tip(walk, ip);
    return next;
}

/* ---- Compound steps ---- */

static bool has_step_room(const struct walk *walk, const uint32_t *out)
{
    return walk->out_end - out >= (ptrdiff_t)BULK_MOST_BITS;
}

/* What it leaves of the CALL stack, but for a RET at its end. */
static inline void push_compound(uint32_t to, uint64_t more, uint32_t *returns,
                                 struct call_top *top)
{
    const unsigned rise = to >> COMPOUND_RISE_SHR & 3, left = to >> COMPOUND_LEFT_SHR & 3;
    const unsigned highest = top->count + rise;

    returns[top->place] = (uint32_t)(more & COMPOUND_NODE) * NODE_BYTES;
    returns[(top->place + 1) % CALL_PLACES] =
        (uint32_t)(more >> COMPOUND_NODE_BITS & COMPOUND_NODE) * NODE_BYTES;
    top->place = (top->place + left) % CALL_PLACES;
    top->count = (highest < CALL_ENTRIES ? highest : CALL_ENTRIES) - (rise - left);
}

/* An entry takes so many bits, and so many entries of the CALL stack, that are not there. */
static inline bool wants_more(uint32_t to, unsigned count, const struct call_top *top)
{
    return (to & COMPOUND_TAKES) > count || (!(to & COMPOUND_NEXT) && top->count == 0);
}

/* A RET is no path. It can be taken if it is compressed, and its CALL is on the stack. */
static inline bool is_ret(const struct walk *walk, uint32_t at, uint64_t bits,
                          const struct call_top *top)
{
    const struct node *const node = ptd_node(walk->flow->graph, at >> COMPOUND_NEXT_SHL);

    return ptd_node_kind(node) == NODE_RET && bits >> 63 && top->count > 0;
}

/*
 * Steps as far as entries stand where they are best, and takes in short TNTs and TIPs on the way.
 * This is a function that calls none, so that its values have registers to themselves.
 */
static __attribute__((noinline)) void step_best(struct walk *walk)
{
    const struct compounds *const compounds = walk->flow->graph->compounds;
    const struct compound *const entries = compounds->entries;
    const uint32_t mask = compounds->mask;
    uint32_t *const returns = walk->flow->calls.node;
    struct call_top top = walk->flow->calls.top;
    unsigned count = walk->count;
    uint64_t bits = walk->bits;
    uint32_t at = walk->node << COMPOUND_NEXT_SHL, *out = walk->out;

    for (;;) {
        if (count < COMPOUND_BITS && walk->pos < walk->end && pt_is_tnt8(*walk->pos) &&
            has_step_room(walk, out)) {
            walk->bits = bits;
            walk->count = count;
            append_tnt8(walk);
            bits = walk->bits;
            count = walk->count;
        }
        if (count == 0) { /* known sooner than that there is no entry */
            const uint32_t next =
                has_step_room(walk, out) ? pass_tip(walk, at >> COMPOUND_NEXT_SHL, &top) : 0;

            if (!next)
                break;
            *out++ = ptd_node_step(at >> COMPOUND_NEXT_SHL, 0);
            at = next << COMPOUND_NEXT_SHL;
            continue;
        }

        const struct compound *const entry = ptd_compound_best(entries, mask, at, bits);
        if (__atomic_load_n(&entry->key, __ATOMIC_ACQUIRE) != ptd_compound_key(at, bits)) {
            if (!is_ret(walk, at, bits, &top))
                break;
            *out++ = ptd_node_step(at >> COMPOUND_NEXT_SHL, 0);
            at = returns[call_top_pop(&top)] << COMPOUND_NEXT_SHL;
            bits <<= 1;
            count--;
            continue;
        }

        const uint32_t to = entry->to;
        const uint64_t more = entry->more;

        if (wants_more(to, count, &top))
            break;
        if (to & COMPOUND_STACK)
            push_compound(to, more, returns, &top);
        at = to & COMPOUND_NEXT;
        if (!at)
            at = returns[call_top_pop(&top)] << COMPOUND_NEXT_SHL;
        *out++ = (uint32_t)(more >> COMPOUND_STEP_SHR);
        bits <<= to & COMPOUND_TAKES;
        count -= to & COMPOUND_TAKES;
    }
    walk->flow->calls.top = top;
    walk->count = count;
    walk->bits = bits;
    walk->node = at >> COMPOUND_NEXT_SHL;
    walk->out = out;
}

/* One step of an entry that is elsewhere. False: there is none. */
static bool step_other(struct walk *walk)
{
    struct call_stack *const calls = &walk->flow->calls;
    const struct compounds *const compounds = walk->flow->graph->compounds;
    const struct compound *entry;

    if (walk->count == 0)
        return false;
    entry = ptd_compound_find(compounds->entries, compounds->mask, walk->node << COMPOUND_NEXT_SHL,
                              walk->bits);
    if (!entry || wants_more(entry->to, walk->count, &calls->top))
        return false;
    push_compound(entry->to, entry->more, calls->node, &calls->top);
    *walk->out++ = (uint32_t)(entry->more >> COMPOUND_STEP_SHR);
    walk->node = (entry->to & COMPOUND_NEXT) >> COMPOUND_NEXT_SHL;
    if (walk->node == 0)
        walk->node = call_stack_pop_node(calls);
    walk->bits <<= entry->to & COMPOUND_TAKES;
    walk->count -= entry->to & COMPOUND_TAKES;
    return true;
}

/* Steps as far as paths are known. */
static void step_compounds(struct walk *walk)
{
    do
        step_best(walk);
    while (step_other(walk));
}

/* Steps one after the other, of which a compound one can be made. */
struct path {
    uint32_t node;        /* where it begins, */
    uint64_t bits;        /* with these bits in front */
    unsigned used;        /* of them */
    unsigned depth, rise; /* of the CALL stack, now and at most, above where it began */
    bool is_out;          /* the last RET's CALL is not on it */
};

/* Steps one by one where no path is known, up to where one would end. */
static struct path step_path(struct walk *walk)
{
    struct ptd_flow *const flow = walk->flow;
    const unsigned most = walk->count < COMPOUND_BITS ? walk->count : COMPOUND_BITS;
    struct path path = {.node = walk->node, .bits = walk->bits};
    struct call_top top = flow->calls.top;
    uint32_t id = walk->node;

    for (; path.used < most && !path.is_out; path.used++) {
        const struct node *const node = ptd_node(flow->graph, id);
        const unsigned bit = (unsigned)(walk->bits >> 63);
        const enum node_kind kind = ptd_node_kind(node);

        if (kind == NODE_COND) {
            if (node->calls && path.depth == COMPOUND_PUSHES)
                break;
            if (node->calls) {
                flow->calls.node[call_top_push(&top)] = node->ret;
                path.depth++;
                path.rise = path.depth > path.rise ? path.depth : path.rise;
            }
            *walk->out++ = ptd_node_step(id, bit);
            id = ptd_node_next(node, bit);
        } else if (kind == NODE_RET && bit && top.count > 0) {
            *walk->out++ = ptd_node_step(id, 0);
            id = flow->calls.node[call_top_pop(&top)];
            path.is_out = path.depth == 0;
            path.depth -= !path.is_out;
        } else {
            break;
        }
        walk->bits <<= 1;
    }
    flow->calls.top = top;
    walk->count -= path.used;
    walk->node = id;
    return path;
}

/* Whether it ended where all that begin with these bits do, and not for want of bits or nodes. */
static bool is_whole(const struct walk *walk, const struct path *path)
{
    if (path->is_out)
        return path->used > 1;
    switch (ptd_node_kind(ptd_node(walk->flow->graph, walk->node))) {
    case NODE_NONE:
    case NODE_STUB:
    case NODE_CLAIMED:
    case NODE_SLOW:
        return false;
    case NODE_COND:
        return path->used == COMPOUND_BITS || walk->count > 0;
    case NODE_RET:
        return path->used == COMPOUND_BITS || !(walk->bits >> 63);
    default:
        return true;
    }
}

/* A path whose steps are the last ones is known from now on if it came by before. */
static void remember(struct walk *walk, const struct path *path)
{
    struct graph *const graph = walk->flow->graph;
    const struct call_stack *const calls = &walk->flow->calls;
    struct compound entry = {
        .to = path->used | path->rise << COMPOUND_RISE_SHR | path->depth << COMPOUND_LEFT_SHR |
              (path->is_out ? 0 : walk->node << COMPOUND_NEXT_SHL),
    };
    uint32_t step;

    if (!is_whole(walk, path))
        return;
    walk->misses++;
    if (!ptd_compounds_wants(graph->compounds, path->node, path->bits))
        return;
    for (unsigned i = 0; i < path->depth; i++)
        entry.more |=
            (uint64_t)(calls->node[(calls->top.place - path->depth + i) % CALL_PLACES] / NODE_BYTES)
            << i * COMPOUND_NODE_BITS;
    step =
        ptd_graph_add_compound(graph, path->node, path->bits, walk->out - path->used, path->used);
    if (!step)
        return;
    entry.more |= (uint64_t)step << COMPOUND_STEP_SHR;
    ptd_compounds_add(graph->compounds, path->node, path->bits, &entry);
}

/* Uses up the TNT bits, by compound steps where paths are known. False: as of step_bits(). */
static bool step_paths(struct walk *walk)
{
    for (;;) {
        struct path path;

        step_compounds(walk);
        if (walk->count == 0)
            return true;
        path = step_path(walk);
        if (path.used > 0)
            remember(walk, &path);
        else if (!step_rare(walk))
            return false;
    }
}

/* ---- Packets ---- */

/* A TIP whose turn it is. False: it is not a plain one, or no code takes it. */
static bool take_tip(struct walk *walk)
{
    struct ptd_flow *const flow = walk->flow;
    const struct node *node;
    uint32_t next;
    uint64_t ip;

    if (!pt_ip_payload_bytes(walk->pos[0]))
        return false;
    node = ptd_node(flow->graph, walk->node);
    if (ptd_node_kind(node) != NODE_INDIRECT) {
        if (!prepare(walk))
            return false;
        node = ptd_node(flow->graph, walk->node);
        if (ptd_node_kind(node) != NODE_INDIRECT && !node->pops)
            return false;
    }
    ip = tip_ip(walk);
    next = tip_node(flow, ip);
    if (!next) {
        next = ptd_graph_find(flow->graph, flow->space, ip);
        if (!next)
            return false;
        *ptd_target(flow->targets, ip) = (struct target){ip, next, flow->space};
        node = ptd_node(flow->graph, walk->node);
    }
    push_calls(flow, node);
    if (node->pops)
        (void)call_stack_pop_node(&flow->calls);
    emit(walk, 0);
    leave_tip(walk, ip);
    walk->node = next;
    walk->in_paths = walk->compounds;
    return true;
}

/* A timing packet that ends at pos. With the last mark that there is room for, steps end too. */
static inline void pass_timing(struct walk *walk, const uint8_t *pos, uint32_t what)
{
    walk->pos = pos;
    if (walk->timing != PTD_TIMING_MARKS)
        return;

    struct ptd_mark *const mark = walk->mark;

    mark->offset = (uint64_t)(uintptr_t)pos + walk->to_offset;
    mark->step = (uint32_t)(walk->out - walk->steps);
    mark->what = walk->since_mark | what;
    walk->since_mark = 0;
    walk->mark = mark + 1;
    if (walk->mark == walk->mark_end)
        walk->out_end = walk->out;
}

/* A CYC of one or two bytes, as nearly all are. */
static bool take_short_cyc(struct walk *walk)
{
    const uint8_t *const pos = walk->pos;
    const uint32_t low = pos[0] >> PT_CYC_SHR0;

    walk->in_paths = false;
    if (!(pos[0] & PT_CYC_EXP0)) {
        pass_timing(walk, pos + 1, low << MARK_VALUE_SHR);
        return true;
    }
    if ((pos[1] & PT_CYC_EXP) || flow_has(walk->flow, PTD_SKD007))
        return false;
    pass_timing(walk, pos + 2,
                (low | (uint32_t)(pos[1] >> PT_CYC_SHR) << (8 - PT_CYC_SHR0)) << MARK_VALUE_SHR);
    return true;
}

/* Timing that is no item. False: it is one, or it is something else. */
static bool take_timing(struct walk *walk)
{
    struct ptd_packets packets = walk->flow->packets;
    struct ptd_packet packet;

    if (*walk->pos == 0) { /* PAD */
        walk->pos++;
        return true;
    }
    if (walk->timing == PTD_TIMING_ITEMS)
        return false;
    if (*walk->pos == PT_OPC_MTC) { /* the most frequent one where there are no CYC packets */
        pass_timing(walk, walk->pos + PT_MTC_LEN, MARK_PACKET | PT_MTC_LEN << MARK_VALUE_SHR);
        return true;
    }
    if ((*walk->pos & PT_CYC_MASK) == PT_CYC && take_short_cyc(walk))
        return true;
    packets.pos = walk->pos;
    if (ptd_packets_next(&packets, &packet) != PTD_OK)
        return false;
    switch ((enum ptd_packet_type)packet.type) {
    case PTD_TSC:
    case PTD_TMA:
    case PTD_MTC:
    case PTD_CYC:
    case PTD_CBR:
        pass_timing(walk, packets.pos, MARK_PACKET | (uint32_t)packet.size_bytes << MARK_VALUE_SHR);
        return true;
    case PTD_MNT:
        walk->pos = packets.pos;
        walk->since_mark |= MARK_OTHER;
        return true;
    default:
        return false;
    }
}

/* Reads the next packet. False: the general machinery has to. */
static bool take_packet(struct walk *walk)
{
    const uint8_t byte = *walk->pos;

    if (pt_is_tnt8(byte)) {
        append_tnt8(walk);
        if (walk->count >= COMPOUND_BITS)
            walk->in_paths = walk->compounds;
        return true;
    }
    if ((byte & PT_TIP_MASK) == PT_TIP)
        return take_tip(walk);
    if (byte == PT_OPC_EXT && walk->pos[1] == PT_EXT_TNT64)
        return take_tnt64(walk);
    return take_timing(walk);
}

/* ---- In and out ---- */

/* A run of steps. False: the general machinery has to take the next one. */
static bool run_steps(struct walk *walk)
{
    for (;;) {
        if (!(walk->in_paths ? step_paths(walk) : step_bits(walk)))
            return false;
        if (!has_step_room(walk, walk->out))
            return true;
        if (walk->end - walk->pos < (ptrdiff_t)LOOK_AHEAD || !take_packet(walk))
            return false;
    }
}

bool ptd_bulk_can(const struct ptd_flow *flow)
{
    const struct flow_state *const state = &flow->state;
    const struct bind *const bind = &state->bind;

    return state->phase == FLOW_TRACING && !state->at_mov_cr3 && bind->kind == BIND_NONE &&
           !bind->ready && !bind_is_open(bind) && !flow->packets.bip_bytes;
}

/* Up to where packets can be read: there the code log may have something new, or the run ends. */
static const uint8_t *fast_end(const struct ptd_flow *flow, uint64_t before)
{
    const struct ptd_packets *const packets = &flow->packets;
    const uint64_t at = ptd_packets_offset(packets);
    const uint64_t log = flow->code_log ? ptd_code_log_next(flow->code_log) : UINT64_MAX;
    const uint64_t next = log < before ? log : before;

    if (next <= at)
        return packets->pos;
    if (next - at >= (uint64_t)(packets->end - packets->pos))
        return packets->end;
    return packets->pos + (next - at);
}

/* The node to begin at: with short runs, that is mostly where the one before ended. */
static uint32_t first_node(const struct ptd_flow *flow)
{
    const struct target *const left = &flow->left;

    if (left->node && left->ip == flow->state.ip && left->space == flow->space)
        return left->node;
    return ptd_graph_find(flow->graph, flow->space, flow->state.ip);
}

bool ptd_bulk_run(struct ptd_flow *flow, uint64_t before, struct ptd_run *run)
{
    struct compounds *const compounds = flow->config.compounds ? flow->graph->compounds : NULL;
    const uint32_t node = first_node(flow);
    struct walk walk = {
        .flow = flow,
        .pos = flow->packets.pos,
        .end = fast_end(flow, before),
        .bits = flow->state.tnt_count ? flow->state.tnt_bits << (64 - flow->state.tnt_count) : 0,
        .count = flow->state.tnt_count,
        .short_from = flow->packets.pos,
        .node = node,
        .out = run->steps + run->count,
        .out_end = run->steps + run->room,
        .to_offset = flow->packets.base - (uint64_t)(uintptr_t)flow->packets.begin,
        .since_mark = flow->since_mark,
        .steps = run->steps,
        .timing = run->timing,
        .compounds = compounds && ptd_compounds_are_worth_it(compounds),
    };

    walk.in_paths = walk.compounds;
    if (run->timing == PTD_TIMING_MARKS) {
        walk.mark = run->marks + run->mark_count;
        walk.mark_end = run->marks + run->mark_room;
    }

    if (!node)
        return false;

    const bool more = run_steps(&walk);
    const size_t count = (size_t)(walk.out - run->steps);

    put_back(&walk);
    flow->packets.pos = walk.pos;
    flow->since_mark = walk.since_mark;
    if (run->timing == PTD_TIMING_MARKS)
        run->mark_count = (size_t)(walk.mark - run->marks);
    if (count == run->count)
        return more;
    if (compounds)
        ptd_compounds_judge(compounds, count - run->count, walk.misses);
    run->count = count;
    /* Where a successor is not known, there was no room: then its address is. */
    if (walk.node == 0)
        flow->state.ip = unknown_ip(&walk);
    else
        flow->state.ip = ptd_node_info(flow->graph, walk.node)->ip;
    flow->left = (struct target){flow->state.ip, walk.node, flow->space};
    run->to = flow->state.ip;
    flow_know_ip(&flow->state);
    ptd_flow_reset_loop(flow);
    return more;
}

/* ---- The interface ---- */

/* Everything that has numbers of nodes in it. */
static void forget_graph(struct ptd_flow *flow)
{
    call_stack_forget_nodes(&flow->calls, flow->graph);
    if (flow->targets)
        memset(flow->targets, 0, TARGETS * sizeof(*flow->targets));
    flow->left.node = 0;
    flow->in_space = false;
}

void ptd_bulk_empty_graph(struct ptd_flow *flow)
{
    forget_graph(flow);
    ptd_graph_empty(flow->graph);
}

void ptd_bulk_forget_code(struct ptd_flow *flow)
{
    if (!flow->graph)
        return;
    if (flow->graph->shared)
        forget_graph(flow);
    else
        ptd_bulk_empty_graph(flow);
}

void ptd_bulk_set_graph(struct ptd_flow *flow, struct graph *graph)
{
    forget_graph(flow);
    ptd_graph_free(flow->graph);
    flow->graph = graph;
}

static bool open_graph(struct ptd_flow *flow)
{
    if (!flow->targets)
        flow->targets = calloc(TARGETS, sizeof(*flow->targets));
    if (!flow->graph)
        flow->graph = ptd_graph_new(flow->blocks.image, false,
                                    (size_t)(flow->packets.end - flow->packets.begin),
                                    flow->config.compounds);
    return flow->targets && flow->graph;
}

int ptd_bulk_enter(struct ptd_flow *flow)
{
    int space;

    if (!open_graph(flow))
        return PTD_E_NOMEM;
    if (flow->in_space && flow->space_cr3 == flow->state.cr3 &&
        flow->space_mode == flow->state.mode && !ptd_graph_is_full(flow->graph))
        return PTD_OK;
    call_stack_forget_nodes(&flow->calls, flow->graph);
    flow->in_space = false;
    space = ptd_graph_space(flow->graph, flow->state.cr3, flow->state.mode);
    if (space < 0)
        return PTD_E_ARG;
    flow->space = (uint32_t)space;
    flow->space_cr3 = flow->state.cr3;
    flow->space_mode = flow->state.mode;
    flow->in_space = true;
    return PTD_OK;
}
