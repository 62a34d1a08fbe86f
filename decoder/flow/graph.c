/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds the graph of code that the fast walk steps along. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "code/blocks.h"
#include "code/image.h"
#include "flow/compound.h"
#include "flow/graph.h"

#define FIRST_NODES (1u << ROOM_LOG2(10))
/* A hostile trace can ask for nodes without end: then start afresh. */
#define MAX_NODES  (1u << 19)
#define MAX_PARTS  (1u << 20)
#define MAX_SPACES 1024u
/* Of so many nodes, a power of two. */
#define LISTS(nodes) ((nodes) / 2)
#define LINE_LISTS   (CACHE_LINE_BYTES / sizeof(uint32_t))
#define NEAR_LOG2    6u /* addresses that differ in so many bits are close to each other */
#define PAGE_LOG2    12u
#define STRETCHES    16u /* of code that was found of late */
#define RECENT_LOG2  ROOM_LOG2(10)
/* Of one node. */
#define NODE_PARTS 64u
/*
 * What a thread takes of a shared graph at a time. What it found one after another is in the same
 * cache lines then, and no other thread writes to them.
 */
#define CHUNK (1u << ROOM_LOG2(10))
/* Compound steps take so many numbers at a time, and leave the last of them to nodes. */
#define COMPOUND_CHUNK (1u << ROOM_LOG2(8))
#define COMPOUNDS_END  (MAX_NODES / 4 * 3)
/* Another thread builds a node in much less time than it takes to fall asleep. */
#define SPINS 1000u
/* From so many bytes on, a trace makes use of whole huge pages. */
#define LONG_TRACE_BYTES (1u << 20)

_Static_assert(sizeof(struct node) == NODE_BYTES, "numbers of nodes are where they begin");
_Static_assert(MAX_NODES <= 1u << 22 && MAX_SPACES <= 1u << 10,
               "numbers fit into struct node_info");
_Static_assert((MAX_NODES - 1) >> COMPOUND_NODE_BITS == 0, "indices fit into struct compound");

/* What those who share a graph have in common. */
struct graph_common {
    unsigned users;
    bool full; /* nothing can be added until it is emptied */
    uint32_t space_count;
    uint32_t nodes_taken, parts_taken, returns_taken; /* if it is shared */
    pthread_mutex_t lock;                             /* for additions to spaces */
};

/* A block that was decoded of late. Those at the begin of a function are parts of many nodes. */
struct recent_part {
    struct part part;
    uint32_t space, epoch; /* 0: none */
};

/* ---- Memory ---- */

/*
 * A fixed graph has all that it can ever hold in one piece. If the trace is long, all but return
 * addresses, which are few, is in huge pages: steps and lookups go anywhere in nodes and lists, and
 * what is filled from its beginning on would be a page fault for each 4 KiB, which costs more than
 * to clear what is left of a huge page.
 */
static const size_t lists_bytes = LISTS(MAX_NODES) * sizeof(uint32_t);
static const size_t nodes_bytes = MAX_NODES * sizeof(struct node);
static const size_t info_bytes = MAX_NODES * sizeof(struct node_info);
static const size_t insns_bytes = MAX_NODES * sizeof(uint32_t);
static const size_t parts_bytes = MAX_PARTS * sizeof(struct part);
static const size_t returns_bytes = MAX_PARTS * sizeof(uint32_t);

static size_t huge_bytes(void)
{
    return lists_bytes + nodes_bytes + info_bytes + insns_bytes + parts_bytes;
}

static size_t reserve_bytes(void)
{
    return huge_bytes() + returns_bytes;
}

static bool reserve(struct graph *graph, bool huge_pages)
{
    uint8_t *all = ptd_pages_new(reserve_bytes(), huge_pages ? huge_bytes() : 0);

    if (!all)
        return false;
    graph->lists = (uint32_t *)all;
    graph->nodes = (struct node *)(all += lists_bytes);
    graph->info = (struct node_info *)(all += nodes_bytes);
    graph->insns = (uint32_t *)(all += info_bytes);
    graph->parts = (struct part *)(all += insns_bytes);
    graph->returns = (uint32_t *)(all + parts_bytes);
    graph->nodes[0].kind = NODE_NONE;
    graph->list_count = LISTS(MAX_NODES);
    if (graph->shared)
        return true; /* whoever adds something takes places for it */
    graph->node_places.end = MAX_NODES;
    graph->part_places.end = graph->return_places.end = MAX_PARTS;
    return true;
}

/* Of a graph that is not fixed. False: no memory, and the array is as it was. */
static bool resize(void **elements, size_t count, size_t element_bytes)
{
    void *const moved = reallocarray(*elements, count, element_bytes);

    if (moved)
        *elements = moved;
    return moved != NULL;
}

void ptd_lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;

    (void)pthread_mutexattr_init(&attributes);
    (void)pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    (void)pthread_mutex_init(lock, &attributes);
    (void)pthread_mutexattr_destroy(&attributes);
}

/* In cache lines of its own, since it is written again and again. */
static struct graph *alloc_graph(void)
{
    const size_t bytes = (sizeof(struct graph) + CACHE_LINE_BYTES - 1) & -CACHE_LINE_BYTES;
    struct graph *const graph = aligned_alloc(CACHE_LINE_BYTES, bytes);

    if (graph)
        *graph = (struct graph){0};
    return graph;
}

static struct graph_common *common_new(void)
{
    struct graph_common *const common = calloc(1, sizeof(*common));

    if (common) {
        ptd_lock_init(&common->lock);
        common->users = common->nodes_taken = 1; /* NODE_NONE */
    }
    return common;
}

struct graph *ptd_graph_new(const struct ptd_image *image, bool shared, size_t trace_bytes,
                            bool compounds)
{
    const bool is_long = trace_bytes >= LONG_TRACE_BYTES;
    struct graph *const graph = alloc_graph();

    if (!graph)
        return NULL;
    graph->common = common_new();
    if (!graph->common) {
        free(graph);
        return NULL;
    }
    graph->image = image;
    graph->shapes = ptd_shapes_new();
    graph->key = ptd_hash_key_new();
    graph->shared = shared;
    graph->fixed = shared || is_long;
    graph->stretches = calloc(STRETCHES, sizeof(*graph->stretches));
    graph->recent = calloc(1u << RECENT_LOG2, sizeof(*graph->recent));
    graph->spaces = calloc(MAX_SPACES, sizeof(*graph->spaces));
    graph->compounds = compounds ? ptd_compounds_new(is_long) : NULL;
    if (!graph->stretches || !graph->recent || !graph->spaces || (compounds && !graph->compounds) ||
        (graph->fixed && !reserve(graph, is_long))) {
        ptd_graph_free(graph);
        return NULL;
    }
    ptd_graph_empty(graph);
    return graph;
}

struct graph *ptd_graph_share(const struct graph *graph)
{
    const struct places none = {0};
    struct graph *const other = alloc_graph();

    if (!other)
        return NULL;
    *other = *graph;
    other->stretches = calloc(STRETCHES, sizeof(*other->stretches));
    other->recent = calloc(1u << RECENT_LOG2, sizeof(*other->recent));
    other->compounds = graph->compounds ? ptd_compounds_share(graph->compounds) : NULL;
    if (!other->stretches || !other->recent || (graph->compounds && !other->compounds)) {
        ptd_compounds_free(other->compounds);
        free(other->recent);
        free(other->stretches);
        free(other);
        return NULL;
    }
    (void)__atomic_add_fetch(&graph->common->users, 1, __ATOMIC_RELAXED);
    other->shapes = ptd_shapes_new();
    other->node_places = other->part_places = other->return_places = other->compound_places = none;
    return other;
}

void ptd_graph_free(struct graph *graph)
{
    if (!graph)
        return;
    if (__atomic_sub_fetch(&graph->common->users, 1, __ATOMIC_ACQ_REL) == 0) {
        (void)pthread_mutex_destroy(&graph->common->lock);
        free(graph->common);
        free(graph->spaces);
        if (graph->fixed) {
            ptd_pages_free(graph->lists, reserve_bytes());
        } else {
            free(graph->nodes);
            free(graph->info);
            free(graph->insns);
            free(graph->parts);
            free(graph->returns);
            free(graph->lists);
        }
    }
    ptd_shapes_free(graph->shapes);
    ptd_compounds_free(graph->compounds);
    free(graph->recent);
    free(graph->stretches);
    free(graph);
}

/*
 * The list that it belongs to. Lists of addresses that are close to each other are in one cache
 * line, since one leads to the other. Which line that is nobody can know, and 64 addresses have 16
 * lists.
 */
static uint32_t *list_of(const struct graph *graph, uint32_t space, uint64_t ip)
{
    const uint64_t line = hash_pair(&graph->key, ip >> NEAR_LOG2, space) * LINE_LISTS;
    const uint64_t list = (ip ^ ip >> (NEAR_LOG2 - 2)) % LINE_LISTS;

    return &graph->lists[(line | list) & (graph->list_count - 1)];
}

/* Code may change at each packet: a small graph is emptied without going over all lists. */
static void clear_lists(struct graph *graph)
{
    const uint32_t end = graph->node_places.next;

    if (end >= graph->list_count / 16) {
        memset(graph->lists, 0, graph->list_count * sizeof(*graph->lists));
        return;
    }
    for (uint32_t i = 1; i < end; i++) /* a NODE_COMPOUND is in no list, and does no harm */
        *list_of(graph, graph->info[i].space, graph->info[i].ip) = 0;
}

static void forget_stretches(struct graph *graph)
{
    memset(graph->stretches, 0, STRETCHES * sizeof(*graph->stretches));
}

void ptd_graph_empty(struct graph *graph)
{
    if (graph->epoch > 0 && graph->lists)
        clear_lists(graph);
    if (!graph->shared)
        graph->node_places.next = 1; /* NODE_NONE */
    graph->part_places.next = graph->return_places.next = 0;
    graph->compound_places = (struct places){0};
    if (graph->compounds)
        ptd_compounds_empty(graph->compounds);
    forget_stretches(graph);
    graph->common->space_count = 0;
    graph->epoch++;
    graph->common->full = false;
}

bool ptd_graph_is_full(const struct graph *graph)
{
    return __atomic_load_n(&graph->common->full, __ATOMIC_RELAXED);
}

static bool set_full(struct graph *graph)
{
    __atomic_store_n(&graph->common->full, true, __ATOMIC_RELAXED);
    return false;
}

/* ---- Places ---- */

/* Takes places of a shared graph, which has limit of them. False: not so many are left. */
static bool take_chunk(struct graph *graph, struct places *places, uint32_t *taken, uint32_t count,
                       uint32_t limit)
{
    const uint32_t chunk = count > CHUNK ? count : CHUNK;

    if (ptd_graph_is_full(graph))
        return false;
    places->next = __atomic_fetch_add(taken, chunk, __ATOMIC_RELAXED);
    places->end = places->next + chunk;
    if (places->end <= limit)
        return true;
    *places = (struct places){0};
    return false;
}

/* Parts or return addresses. */
struct array {
    void **elements;
    size_t element_bytes;
    struct places *places;
    uint32_t *taken;
};

/* Moves an array of a graph that is not fixed. False: no memory. */
static bool grow(const struct array *array, uint32_t count)
{
    uint32_t room = array->places->end ? array->places->end : FIRST_NODES;

    while (room < array->places->next + count)
        room *= 2;
    if (!resize(array->elements, room, array->element_bytes))
        return false;
    array->places->end = room;
    return true;
}

static bool make_room(struct graph *graph, const struct array *array, uint32_t count)
{
    if (count <= array->places->end - array->places->next)
        return true;
    if (graph->shared)
        return take_chunk(graph, array->places, array->taken, count, MAX_PARTS);
    return !graph->fixed && count <= MAX_PARTS - array->places->next && grow(array, count);
}

/* Takes so many elements: *first is the index of the first. False: no room or no memory. */
static bool take(struct graph *graph, const struct array *array, uint32_t count, uint32_t *first)
{
    if (!make_room(graph, array, count))
        return set_full(graph);
    *first = array->places->next;
    array->places->next += count;
    return true;
}

/* ---- Nodes by address ---- */

/* In a list that begins with this node; 0: it is not there. */
static uint32_t find_in_list(const struct graph *graph, uint32_t id, uint32_t space, uint64_t ip)
{
    while (id) {
        const struct node_info *const info = ptd_node_info(graph, id);

        if (info->ip == ip && info->space == space)
            break;
        id = info->next * NODE_BYTES;
    }
    return id;
}

/* Moves a graph that is not fixed to twice the room. */
static bool move_nodes(struct graph *graph)
{
    const uint32_t room = graph->node_places.end ? 2 * graph->node_places.end : FIRST_NODES;
    uint32_t *lists;

    if (!resize((void **)&graph->nodes, room, sizeof(*graph->nodes)) ||
        !resize((void **)&graph->info, room, sizeof(*graph->info)) ||
        !resize((void **)&graph->insns, room, sizeof(*graph->insns)))
        return false;
    lists = calloc(LISTS(room), sizeof(*lists));
    if (!lists)
        return false;
    free(graph->lists);
    graph->lists = lists;
    graph->list_count = LISTS(room);
    graph->node_places.end = room;
    graph->nodes[0] = (struct node){.kind = NODE_NONE};
    graph->info[0] = (struct node_info){0};
    graph->insns[0] = 0;
    for (uint32_t i = 1; i < graph->node_places.next; i++) {
        struct node_info *const info = &graph->info[i];
        uint32_t *const list = list_of(graph, info->space, info->ip);

        if (graph->nodes[i].kind == NODE_COMPOUND)
            continue;
        info->next = *list / NODE_BYTES;
        *list = i * NODE_BYTES;
    }
    return true;
}

static bool make_node_room(struct graph *graph)
{
    struct places *const places = &graph->node_places;

    if (places->next < places->end)
        return true;
    if (graph->shared)
        return take_chunk(graph, places, &graph->common->nodes_taken, 1, MAX_NODES);
    return !graph->fixed && places->end < MAX_NODES && move_nodes(graph);
}

/* A stub that is in no list yet; 0: no room or no memory. */
static uint32_t add_stub(struct graph *graph, uint32_t space, uint64_t ip)
{
    uint32_t index;

    if (!make_node_room(graph)) {
        (void)set_full(graph);
        return 0;
    }
    index = graph->node_places.next++;
    graph->nodes[index] = (struct node){.kind = NODE_STUB};
    graph->info[index] = (struct node_info){.ip = ip, .space = space % MAX_SPACES};
    graph->insns[index] = 0;
    return index * NODE_BYTES;
}

/* Two threads may add the same node: one of them is first, and the stub of the other is lost. */
uint32_t ptd_graph_find(struct graph *graph, uint32_t space, uint64_t ip)
{
    uint32_t stub = 0;

    if (graph->list_count == 0 && !move_nodes(graph)) {
        (void)set_full(graph);
        return 0;
    }
    for (;;) {
        uint32_t *const list = list_of(graph, space, ip);
        uint32_t first = __atomic_load_n(list, __ATOMIC_ACQUIRE);
        const uint32_t id = find_in_list(graph, first, space, ip);

        if (id)
            return id;
        if (!stub) {
            stub = add_stub(graph, space, ip);
            if (!stub)
                return 0;
            continue; /* the lists may have moved */
        }
        ptd_node_info(graph, stub)->next = first / NODE_BYTES;
        if (__atomic_compare_exchange_n(list, &first, stub, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            return stub;
    }
}

/* Numbers of nodes for compound steps. False: no room or no memory, which harms nobody. */
static bool take_compound_chunk(struct graph *graph)
{
    struct places *const places = &graph->compound_places;

    if (ptd_graph_node_count(graph) > COMPOUNDS_END)
        return false;
    if (graph->shared) {
        if (!take_chunk(graph, places, &graph->common->nodes_taken, 1, MAX_NODES))
            return false;
    } else {
        struct places *const nodes = &graph->node_places;

        while (nodes->end - nodes->next < COMPOUND_CHUNK)
            if (graph->fixed || nodes->end >= MAX_NODES || !move_nodes(graph))
                return false;
        *places = (struct places){nodes->next, nodes->next + COMPOUND_CHUNK};
        nodes->next += COMPOUND_CHUNK;
    }
    for (uint32_t i = places->next; i < places->end; i++) {
        graph->nodes[i] = (struct node){.kind = NODE_COMPOUND};
        graph->info[i] = (struct node_info){0};
        graph->insns[i] = 0;
    }
    return true;
}

uint32_t ptd_graph_add_compound(struct graph *graph, uint32_t node, uint64_t bits,
                                const uint32_t *steps, unsigned count)
{
    struct places *const places = &graph->compound_places;
    uint32_t index, insns = 0;

    if (places->next == places->end && !take_compound_chunk(graph))
        return 0;
    index = places->next++;
    for (unsigned i = 0; i < count; i++)
        insns += graph->insns[steps[i] / NODE_STEPS];
    graph->insns[index] = insns;
    graph->nodes[index] = (struct node){
        .next = {node, (uint32_t)(bits >> 32)},
        .kind = NODE_COMPOUND,
        .pops = ptd_node(graph, ptd_step_node(steps[count - 1]))->pops,
        .parts = (uint8_t)count,
    };
    return index * NODE_STEPS | COMPOUND_FLAG;
}

uint32_t ptd_graph_node_count(const struct graph *graph)
{
    uint32_t taken;

    if (!graph->shared)
        return graph->node_places.next;
    taken = __atomic_load_n(&graph->common->nodes_taken, __ATOMIC_RELAXED);
    return taken < MAX_NODES ? taken : MAX_NODES; /* counts on where it is full */
}

/* ---- Address spaces ---- */

int ptd_graph_space(struct graph *graph, uint64_t cr3, uint8_t mode)
{
    struct graph_common *const common = graph->common;
    uint32_t i = 0;

    (void)pthread_mutex_lock(&common->lock);
    while (i < common->space_count &&
           (graph->spaces[i].cr3 != cr3 || graph->spaces[i].mode != mode))
        i++;
    if (i == MAX_SPACES)
        (void)set_full(graph);
    else if (!ptd_graph_is_full(graph) && i == common->space_count)
        graph->spaces[common->space_count++] = (struct space){cr3, mode};
    (void)pthread_mutex_unlock(&common->lock);
    return ptd_graph_is_full(graph) ? -1 : (int)i;
}

/* ---- Building ---- */

/* What is gathered of a node. */
struct draft {
    struct part parts[NODE_PARTS];
    uint64_t returns[NODE_PARTS];
    unsigned part_count, return_count;
    enum node_kind kind;
};

static bool has_part(const struct draft *draft, uint64_t ip)
{
    for (unsigned i = 0; i < draft->part_count; i++)
        if (draft->parts[i].ip == ip)
            return true;
    return false;
}

/*
 * Where code goes on behind a block without help of the trace: true and *ip. Otherwise the node
 * ends here, and its kind is known.
 */
static bool goes_on(struct draft *draft, const struct part *part, uint64_t *ip)
{
    const uint64_t next_ip = ptd_part_next_ip(part);

    switch ((enum ptd_insn_class)part->last_class) {
    case PTD_INSN_COND:
        draft->kind = draft->return_count > 1 ? NODE_COND_CALLS : NODE_COND;
        return false;
    case PTD_INSN_RET:
        draft->kind = draft->return_count > 0 ? NODE_RET_CALLS : NODE_RET;
        return false;
    case PTD_INSN_CALL_INDIRECT:
        draft->returns[draft->return_count++] = next_ip;
        draft->kind = NODE_INDIRECT;
        return false;
    case PTD_INSN_JMP_INDIRECT:
    case PTD_INSN_FAR:
    case PTD_INSN_IRET:
    case PTD_INSN_VMENTRY:
        draft->kind = NODE_INDIRECT;
        return false;
    case PTD_INSN_CALL_DIRECT:
        if (part->target != next_ip)
            draft->returns[draft->return_count++] = next_ip;
        *ip = part->target;
        return true;
    case PTD_INSN_JMP_DIRECT:
        *ip = part->target;
        return true;
    case PTD_INSN_INT:
        *ip = next_ip;
        return part->optional; /* else it contradicts the trace: NODE_SLOW */
    default:
        *ip = next_ip; /* nothing is bound to it */
        return true;
    }
}

/*
 * The stretch of code to begin with: perhaps that of before. Where packets tell code, it may be
 * another one for what was looked up before.
 */
static struct stretch *stretch_at(struct graph *graph, uint32_t space, uint64_t ip)
{
    if (graph->stretch_space != space || ptd_image_code_log(graph->image))
        forget_stretches(graph);
    graph->stretch_space = space;
    return &graph->stretches[ip >> PAGE_LOG2 & (STRETCHES - 1)];
}

/* False: there is no code, or it is not valid. */
static bool build_part(struct graph *graph, uint32_t number, uint64_t ip, struct part *part)
{
    const struct space *const space = &graph->spaces[number];
    struct block block;

    if (ptd_block_build(graph->image, graph->shapes, stretch_at(graph, number, ip), space->cr3,
                        (enum ptd_mode)space->mode, ip, &block) != PTD_OK ||
        block.last_ip - block.ip > UINT16_MAX)
        return false;
    *part = (struct part){
        .ip = block.ip,
        .target = block.target,
        .last_offset = (uint16_t)(block.last_ip - block.ip),
        .insns = (uint16_t)block.insns,
        .last_class = block.last_class,
        .last_bytes = ptd_block_last_bytes(&block),
        .optional = block.optional,
    };
    return true;
}

/* The same, perhaps as it was of late. Where packets tell code, it may be another one now. */
static bool find_part(struct graph *graph, uint32_t number, uint64_t ip, struct part *part)
{
    struct recent_part *const recent = &graph->recent[hash_slot(ip, RECENT_LOG2)];

    if (recent->part.ip == ip && recent->space == number && recent->epoch == graph->epoch &&
        !ptd_image_code_log(graph->image)) {
        *part = recent->part;
        return true;
    }
    if (!build_part(graph, number, ip, part))
        return false;
    *recent = (struct recent_part){*part, number, graph->epoch};
    return true;
}

static void gather(struct graph *graph, uint32_t number, uint64_t ip, struct draft *draft)
{
    const struct space *const space = &graph->spaces[number];
    struct part *part;

    draft->part_count = draft->return_count = 0;
    draft->kind = NODE_SLOW;
    do {
        part = &draft->parts[draft->part_count];
        if (draft->part_count == NODE_PARTS || has_part(draft, ip) ||
            !find_part(graph, number, ip, part))
            return;
        draft->part_count++;
    } while (goes_on(draft, part, &ip));
    for (unsigned i = 0; i < draft->return_count; i++)
        if (ptd_return_to(draft->returns[i], space->mode) != draft->returns[i])
            draft->kind = NODE_SLOW; /* what a RET pops of it depends on the mode then */
}

static bool add_parts(struct graph *graph, const struct draft *draft, uint32_t *first)
{
    const struct array parts = {(void **)&graph->parts, sizeof(*graph->parts), &graph->part_places,
                                &graph->common->parts_taken};

    if (!take(graph, &parts, draft->part_count, first))
        return false;
    memcpy(&graph->parts[*first], draft->parts, draft->part_count * sizeof(*graph->parts));
    return true;
}

static uint32_t count_insns(const struct draft *draft)
{
    uint32_t count = 0;

    for (unsigned i = 0; i < draft->part_count; i++)
        count += draft->parts[i].insns;
    return count;
}

/* Adds the nodes that RETs come back to. */
static bool add_returns(struct graph *graph, const struct draft *draft, uint32_t space,
                        struct node *node)
{
    const struct array returns = {(void **)&graph->returns, sizeof(*graph->returns),
                                  &graph->return_places, &graph->common->returns_taken};

    node->calls = (uint8_t)draft->return_count;
    if (draft->return_count == 0)
        return true;
    if (draft->return_count == 1) {
        node->ret = ptd_graph_find(graph, space, draft->returns[0]);
        return node->ret != 0;
    }
    if (!take(graph, &returns, draft->return_count, &node->ret))
        return false;
    for (unsigned i = 0; i < draft->return_count; i++) {
        const uint32_t id = ptd_graph_find(graph, space, draft->returns[i]);

        if (!id)
            return false;
        graph->returns[node->ret + i] = id;
    }
    return true;
}

static void set_kind(struct node *node, enum node_kind kind, unsigned calls)
{
    __atomic_store_n(&node->kind_calls, htole16(KIND_CALLS(kind, calls)), __ATOMIC_RELEASE);
}

/* The node is claimed. Its kind is written last. */
static bool add_draft(struct graph *graph, uint32_t id, const struct draft *draft)
{
    const bool is_ret = draft->kind == NODE_RET || draft->kind == NODE_RET_CALLS;
    const uint32_t space = ptd_node_info(graph, id)->space;
    struct node built = {.pops = is_ret ? -1 : 0}, *node;
    uint32_t first_part = 0;

    if (draft->kind != NODE_SLOW) {
        if (!add_parts(graph, draft, &first_part) || !add_returns(graph, draft, space, &built)) {
            set_kind(ptd_node(graph, id), NODE_STUB, 0);
            return false;
        }
        built.parts = (uint8_t)draft->part_count;
        ptd_node_info(graph, id)->first_part = first_part; /* the rest others may read already */
        graph->insns[id / NODE_BYTES] = count_insns(draft);
    }
    node = ptd_node(graph, id);
    node->ret = built.ret;
    node->pops = built.pops;
    node->parts = built.parts;
    set_kind(node, draft->kind, built.calls);
    return true;
}

/* What another thread makes of a node that it claimed. */
static enum node_kind wait_for_kind(const struct node *node)
{
    enum node_kind kind;

    for (unsigned i = 0; (kind = ptd_node_kind(node)) == NODE_CLAIMED; i++) {
        if (i < SPINS)
            __builtin_ia32_pause();
        else
            (void)sched_yield();
    }
    return kind;
}

bool ptd_graph_build(struct graph *graph, uint32_t id)
{
    const struct node_info *const info = ptd_node_info(graph, id);
    struct node *const node = ptd_node(graph, id);
    uint8_t kind = NODE_STUB;
    struct draft draft;

    if (!__atomic_compare_exchange_n(&node->kind, &kind, (uint8_t)NODE_CLAIMED, false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
        return wait_for_kind(node) != NODE_STUB;
    gather(graph, info->space, info->ip, &draft);
    return add_draft(graph, id, &draft);
}

uint64_t ptd_graph_successor(const struct graph *graph, uint32_t id, unsigned bit)
{
    const struct node_info *const info = ptd_node_info(graph, id);
    const unsigned parts = ptd_node(graph, id)->parts;
    const struct part *const last = &graph->parts[info->first_part + parts - 1];

    return bit ? last->target : ptd_part_next_ip(last);
}

uint32_t ptd_graph_link(struct graph *graph, uint32_t id, unsigned bit)
{
    const uint32_t next =
        ptd_graph_find(graph, ptd_node_info(graph, id)->space, ptd_graph_successor(graph, id, bit));

    if (next)
        __atomic_store_n(&ptd_node(graph, id)->next[bit], next, __ATOMIC_RELEASE);
    return next;
}
