/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/between.h"
#include "common/list.h"
#include "common/number.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define OTHERS   "(others)"
#define UNKNOWN  "?"
#define OPERATOR "operator"

/* ---- Points ---- */

/* Behind the name of an operator, whose brackets are none. */
static char *skip_operator(char *c)
{
    c += strlen(OPERATOR);
    c += strspn(c, "<>[]=-!");
    return strncmp(c, "()", 2) == 0 ? c + 2 : c;
}

/*
 * The comma between two names, since there are some in the parameters of a C++ function, too: the
 * one that stands in no brackets; or in the fewest, if some have no other half.
 */
static char *find_comma(char *text)
{
    int depth = 0, least = INT_MAX;
    char *found = NULL;

    for (char *c = text; *c; c++) {
        if (strncmp(c, OPERATOR, strlen(OPERATOR)) == 0)
            c = skip_operator(c) - 1;
        else if (strchr("(<[{", *c))
            depth++;
        else if (strchr(")>]}", *c))
            depth--;
        else if (*c == ',' && depth < least) {
            least = depth;
            found = c;
        }
    }
    return depth == 0 && least > 0 ? NULL : found;
}

static bool take_point(struct between_point *point, const char *text)
{
    *point = (struct between_point){.text = text};
    point->is_address = *text >= '0' && *text <= '9';
    return *text && (!point->is_address || parse_number(text, &point->address));
}

bool between_points(struct between *between, char *points)
{
    char *const comma = find_comma(points);

    if (!comma)
        return false;
    *comma = 0;
    return take_point(&between->from, points) && take_point(&between->to, comma + 1);
}

/* Whether it is at an instruction. */
static bool is_at(const struct between *between, const struct between_point *point, uint64_t space,
                  uint64_t ip)
{
    uint64_t offset = 0;
    const char *name;

    if (point->is_address)
        return ip == point->address;
    name = ptd_image_symbol(between->thread.image, space, ip, &offset);
    return name && offset == 0 &&
           (strcmp(name, point->text) == 0 ||
            strcmp(shown_name(between->thread.shown, name), point->text) == 0);
}

/* ---- How long spans were ---- */

static size_t place_of(uint64_t length)
{
    unsigned level;

    if (length < SPREAD_EXACT)
        return length;
    level = 63u - (unsigned)__builtin_clzll(length) - SPREAD_FIRST;
    return SPREAD_EXACT + level * SPREAD_STEPS +
           (size_t)(length >> (level + 1) & (SPREAD_STEPS - 1));
}

/* The least length of a place. */
static uint64_t length_of(size_t place)
{
    const size_t level = (place - SPREAD_EXACT) / SPREAD_STEPS;

    if (place < SPREAD_EXACT)
        return place;
    return (uint64_t)(SPREAD_STEPS + (place - SPREAD_EXACT) % SPREAD_STEPS) << (level + 1);
}

void spread_add(struct spread *spread, uint64_t length)
{
    if (spread->count == 0 || length < spread->least)
        spread->least = length;
    if (length > spread->most)
        spread->most = length;
    spread->count++;
    spread->total += length;
    spread->of[place_of(length)]++;
}

uint64_t spread_part(const struct spread *spread, unsigned percent)
{
    uint64_t left = (spread->count * percent + 99) / 100, length = 0;

    for (size_t i = 0; i < SPREAD_ROOM && left > 0; i++) {
        length = length_of(i);
        left -= spread->of[i] < left ? spread->of[i] : left;
    }
    return length < spread->least ? spread->least : length;
}

uint64_t spread_median(const struct spread *spread)
{
    return spread_part(spread, 50);
}

/* ---- Blocks ---- */

/* Room for what is known of a function. */
static bool grow_functions(struct between *between, uint32_t function)
{
    const size_t room = between->function_room ? 2 * between->function_room : 256;
    struct between_function *grown;

    if (function < between->function_room)
        return true;
    grown = reallocarray(between->functions, room, sizeof(*grown));
    if (!grown)
        return false;
    memset(grown + between->function_room, 0, (room - between->function_room) * sizeof(*grown));
    between->functions = grown;
    between->function_room = room;
    return true;
}

/* UINT32_MAX: no memory. */
static uint32_t function_at(struct between *between, uint64_t space, uint64_t ip)
{
    const char *name =
        shown_name(between->thread.shown, ptd_image_symbol(between->thread.image, space, ip, NULL));
    uint32_t function;

    if (!name)
        name = UNKNOWN;
    if (between->names.count >= BETWEEN_FUNCTIONS_MAX &&
        names_find(&between->names, name) == UINT32_MAX)
        name = OTHERS;
    function = names_add(&between->names, name);
    return function == UINT32_MAX || grow_functions(between, function) ? function : UINT32_MAX;
}

/* Where the points are among the instructions of a block, counted from 1; 0: not there. */
static uint64_t find_points(const struct between *between, const struct ptd_item *block)
{
    uint64_t ip = block->ip, from = 0, to = 0, place = 0;
    struct ptd_insn insn;

    while (ptd_block_insn(between->thread.image, block, &ip, &insn) == PTD_OK) {
        place++;
        if (from == 0 && is_at(between, &between->from, block->cr3, insn.ip))
            from = place;
        if (to == 0 && is_at(between, &between->to, block->cr3, insn.ip))
            to = place;
    }
    return from << 32 | to;
}

/* What is known of a block. NULL: no memory. */
static const struct sum *look(struct between *between, const struct ptd_item *block)
{
    struct sum *sum;
    uint32_t function;

    if (between->thread.renames && *between->thread.renames != between->renames) {
        between->renames = *between->thread.renames;
        table_free(&between->blocks);
    }
    if (between->blocks.count >= BETWEEN_BLOCKS_MAX)
        table_free(&between->blocks);
    sum = table_at(&between->blocks, block->cr3, block->ip, block->last_ip);
    if (!sum || sum->count > 0)
        return sum;
    function = function_at(between, block->cr3, block->ip);
    if (function == UINT32_MAX)
        return NULL;
    sum->count = (uint64_t)function + 1;
    sum->cost = find_points(between, block);
    return sum;
}

/* ---- Spans ---- */

static void begin_span(struct between *between, uint64_t time)
{
    between->from.is_seen = true;
    between->unended += between->is_open;
    between->is_open = true;
    between->span++;
    between->span_insns = 0;
    between->since = time;
    between->ran_count = 0;
}

static void end_span(struct between *between, uint64_t time)
{
    const struct out_thread *const thread = &between->thread;

    between->to.is_seen = true;
    if (!between->is_open)
        return;
    between->is_open = false;
    spread_add(&between->insns, between->span_insns);
    if (thread->is_tsc && time != PTD_TIME_UNKNOWN && between->since != PTD_TIME_UNKNOWN)
        spread_add(&between->times, out_ns(thread, time) - out_ns(thread, between->since));
    for (size_t i = 0; i < between->ran_count; i++) {
        struct between_function *const function = &between->functions[between->ran[i]];

        function->insns += function->pending;
        function->spans++;
    }
}

/* So many instructions of a function ran. False: no memory. */
static bool pass(struct between *between, uint32_t number, uint64_t insns)
{
    struct between_function *const function = &between->functions[number];

    if (!between->is_open || insns == 0)
        return true;
    between->span_insns += insns;
    if (function->span != between->span) {
        uint32_t *const grown =
            list_grow(between->ran, between->ran_count, &between->ran_room, sizeof(*grown));

        if (!grown)
            return false;
        between->ran = grown;
        between->ran[between->ran_count++] = number;
        function->span = between->span;
        function->pending = 0;
    }
    function->pending += insns;
    return true;
}

/* A block in which there are points; where both are one, a span ends and the next one begins. */
static bool pass_points(struct between *between, const struct sum *known, uint64_t insns,
                        uint64_t time)
{
    const uint32_t function = (uint32_t)(known->count - 1);
    const uint64_t from = known->cost >> 32, to = (uint32_t)known->cost;
    const bool is_to_first = to <= from;
    uint64_t done = 0;

    for (unsigned turn = 0; turn < 2; turn++) {
        const bool is_to = is_to_first == (turn == 0);
        const uint64_t place = is_to ? to : from;

        if (place == 0)
            continue;
        if (!pass(between, function, place - 1 - done))
            return false;
        done = place - 1;
        if (is_to)
            end_span(between, time);
        else
            begin_span(between, time);
    }
    return pass(between, function, insns - done);
}

static bool see_block(struct between *between, const struct ptd_item *block, uint64_t time)
{
    const struct sum *const known = look(between, block);

    if (!known)
        return false;
    if (known->cost)
        return pass_points(between, known, block->insns, time);
    return pass(between, (uint32_t)(known->count - 1), block->insns);
}

/* ---- The format ---- */

static bool begin(void *out, const struct out_thread *thread)
{
    struct between *const between = out;

    between->thread = *thread;
    between->renames = thread->renames ? *thread->renames : 0;
    between->trace_count++;
    between->timed_count += thread->is_tsc;
    between->ns_count += out_has_ns(thread);
    table_free(&between->blocks);
    return true;
}

static bool item_of(void *out, const struct ptd_item *item, uint64_t time)
{
    struct between *const between = out;

    if (item->type == PTD_ITEM_BLOCK && out_takes_who(&between->thread, item->cr3, time))
        return see_block(between, item, time);
    if (item->type == PTD_ITEM_ERROR || item->type == PTD_ITEM_OVERFLOW) {
        between->broken += between->is_open;
        between->is_open = false;
    }
    return true;
}

static bool end(void *out)
{
    struct between *const between = out;

    between->unended += between->is_open;
    between->is_open = false;
    return true;
}

/* It is nobody's to open or close but its owner's. */
static bool close_nothing(void *out)
{
    (void)out;
    return true;
}

const struct out_format between_format = {
    .name = "between",
    .is_by_processor = true,
    .begin = begin,
    .item = item_of,
    .end = end,
    .close = close_nothing,
};

void between_free(struct between *between)
{
    names_free(&between->names);
    table_free(&between->blocks);
    free(between->functions);
    free(between->ran);
}
