/* SPDX-License-Identifier: BSD-3-Clause */
/* The comparison, see tally.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tally.h"

#define LOOK_ON   48u    /* packets that are looked at to find where two traces meet again */
#define TRIM_AT   65536u /* packets */
#define TRIM_KEEP 256u
#define APART_MAX                                                                                  \
    (1u << 18) /* packets that one of them is ahead; then they have lost each other                \
                */
#define KINDS_MAX 500u

/* ---- Tokens ---- */

static void add_token(struct tally *tally, struct tokens *tokens, const struct ptd_packet *packet,
                      const uint8_t *bytes)
{
    struct token *token;

    if (packet->type == PTD_PAD) {
        tokens->pads++;
        return;
    }
    if (tokens->count == tokens->room) {
        const size_t room = tokens->room ? 2 * tokens->room : 4096;
        struct token *const list = realloc(tokens->list, room * sizeof(*list));

        if (!list) {
            tally->no_memory = true;
            return;
        }
        tokens->list = list;
        tokens->room = room;
    }
    token = &tokens->list[tokens->count++];
    token->packet = *packet;
    token->pads = tokens->pads;
    memset(token->bytes, 0, sizeof(token->bytes));
    memcpy(token->bytes, bytes, packet->size_bytes);
    tokens->pads = 0;
}

static void drop(struct tokens *tokens, size_t count)
{
    memmove(tokens->list, tokens->list + count, (tokens->count - count) * sizeof(*tokens->list));
    tokens->count -= count;
}

static bool same(const struct token *one, const struct token *other)
{
    return one->packet.type == other->packet.type &&
           memcmp(one->bytes, other->bytes, sizeof(one->bytes)) == 0;
}

/* ---- Kinds of differences ---- */

static struct kind *find_kind(struct tally *tally, const char *name)
{
    for (size_t i = 0; i < tally->kind_count; i++)
        if (strcmp(tally->kinds[i].name, name) == 0)
            return &tally->kinds[i];
    if (tally->kind_count == KINDS_MAX)
        return &tally->kinds[KINDS_MAX - 1];
    if (tally->kind_count == tally->kind_room) {
        const size_t room = tally->kind_room ? 2 * tally->kind_room : 32;
        struct kind *const kinds = realloc(tally->kinds, room * sizeof(*kinds));

        if (!kinds) {
            tally->no_memory = true;
            return NULL;
        }
        tally->kinds = kinds;
        tally->kind_room = room;
    }

    struct kind *const kind = &tally->kinds[tally->kind_count++];

    memset(kind, 0, sizeof(*kind));
    (void)snprintf(kind->name, sizeof(kind->name), "%s",
                   tally->kind_count == KINDS_MAX ? "others" : name);
    return kind;
}

void tally_note(struct tally *tally, const char *name, const char *example)
{
    struct kind *const kind = find_kind(tally, name);

    if (!kind)
        return;
    if (kind->count++ == 0)
        (void)snprintf(kind->example, sizeof(kind->example), "%s", example);
}

static void describe(const struct token *token, char *text, size_t text_bytes)
{
    if (!token)
        (void)snprintf(text, text_bytes, "nothing");
    else
        (void)ptd_packet_format(&token->packet, text, text_bytes);
}

static bool has_ip(const struct ptd_packet *packet)
{
    return packet->type == PTD_TIP || packet->type == PTD_TIP_PGE || packet->type == PTD_TIP_PGD ||
           packet->type == PTD_FUP;
}

/* theirs or ours may be NULL, and there is nothing to tell if both are; near says where it is. */
static void differ(struct tally *tally, const struct token *theirs, const struct token *ours,
                   const struct token *near)
{
    const struct token *const either = theirs ? theirs : ours;

    if (!either)
        return;

    const struct ptd_packet *const packet = &either->packet;
    const char *const name = ptd_packet_name((enum ptd_packet_type)packet->type);
    const char *const where = tally->in_psb ? "PSB+, " : "";
    char text[KIND_BYTES], their_text[64], our_text[64], example[EXAMPLE_BYTES];

    if (!ours)
        (void)snprintf(text, sizeof(text), "%s%s: not in the model", where, name);
    else if (!theirs)
        (void)snprintf(text, sizeof(text), "%s%s: only in the model", where, name);
    else if (has_ip(packet) && packet->ip.ip_bytes != ours->packet.ip.ip_bytes)
        (void)snprintf(text, sizeof(text), "%s%s: IPBytes %u, the model %u", where, name,
                       packet->ip.ip_bytes, ours->packet.ip.ip_bytes);
    else
        (void)snprintf(text, sizeof(text), "%s%s: another %s", where, name,
                       has_ip(packet) ? "IP" : "payload");
    describe(theirs, their_text, sizeof(their_text));
    describe(ours, our_text, sizeof(our_text));
    (void)snprintf(example, sizeof(example), "at %#" PRIx64 ": %s; the model: %s",
                   near ? near->packet.offset : 0, their_text, our_text);
    tally_note(tally, text, example);
    tally->psb_equal = false;
}

/* ---- Comparison ---- */

static void compare_pads(struct tally *tally, const struct token *theirs, const struct token *ours)
{
    char name[KIND_BYTES], example[EXAMPLE_BYTES];

    if (tally->begins) {
        tally->begins = false;
        return;
    }
    tally->places++;
    tally->pads += theirs->pads;
    if (theirs->pads == ours->pads) {
        tally->places_equal++;
        return;
    }
    (void)snprintf(name, sizeof(name), "PADs in front of %s",
                   ptd_packet_name((enum ptd_packet_type)theirs->packet.type));
    (void)snprintf(example, sizeof(example), "at %#" PRIx64 ": %" PRIu64 "; the model: %" PRIu64,
                   theirs->packet.offset, theirs->pads, ours->pads);
    tally_note(tally, name, example);
}

/* No PSBEND came: an overflow, a gap or the end cut it off. What differed in it still counts. */
static void cut_psb(struct tally *tally)
{
    if (tally->in_psb && tally->psb_equal)
        tally->psbs--;
    tally->in_psb = false;
}

/* A packet of the hardware was dealt with. */
static void count(struct tally *tally, const struct token *theirs, bool equal)
{
    const uint8_t type = theirs->packet.type;

    tally->packets++;
    tally->by_type[type]++;
    if (equal) {
        tally->equal++;
        tally->equal_by_type[type]++;
    }
    if (type == PTD_PSB) {
        cut_psb(tally);
        tally->psbs++;
        tally->in_psb = true;
        tally->psb_equal = equal;
    } else if (type == PTD_PSBEND) {
        tally->psbs_equal += tally->in_psb && tally->psb_equal && equal;
        tally->in_psb = false;
    } else if (type == PTD_OVF) {
        cut_psb(tally);
    }
}

static void pair(struct tally *tally, const struct token *theirs, const struct token *ours)
{
    const bool equal = same(theirs, ours);

    if (!equal)
        differ(tally, theirs, ours, theirs);
    compare_pads(tally, theirs, ours);
    count(tally, theirs, equal);
}

static void only_theirs(struct tally *tally, const struct token *theirs)
{
    differ(tally, theirs, NULL, theirs);
    count(tally, theirs, false);
}

static void only_ours(struct tally *tally, const struct token *ours, const struct token *near)
{
    differ(tally, NULL, ours, near);
    tally->extra++;
}

/* Whether two packets in a row are the same, or one and then the end. */
static bool meets(const struct tally *tally, size_t i, size_t j, size_t theirs, size_t ours)
{
    if (i >= theirs || j >= ours || !same(&tally->theirs.list[i], &tally->ours.list[j]))
        return false;
    return i + 1 >= theirs || j + 1 >= ours ||
           same(&tally->theirs.list[i + 1], &tally->ours.list[j + 1]);
}

/* The next place where both are the same again. False: none is near. */
static bool find_meeting(const struct tally *tally, size_t *i, size_t *j, size_t theirs,
                         size_t ours)
{
    for (size_t distance = 1; distance <= LOOK_ON; distance++) {
        for (size_t di = 0; di <= distance; di++) {
            if (meets(tally, *i + di, *j + distance - di, theirs, ours)) {
                *i += di;
                *j += distance - di;
                return true;
            }
        }
    }
    return false;
}

/* Compares the first packets of both; what is left over on one side stays. */
static void compare(struct tally *tally, size_t theirs, size_t ours, size_t *done_theirs,
                    size_t *done_ours)
{
    size_t i = 0, j = 0;

    while (i < theirs && j < ours) {
        const struct token *const one = &tally->theirs.list[i], *const other = &tally->ours.list[j];
        size_t to_i = i, to_j = j;

        if (one->packet.type == other->packet.type ||
            !find_meeting(tally, &to_i, &to_j, theirs, ours)) {
            if (one->packet.type == other->packet.type) {
                pair(tally, one, other);
            } else {
                only_theirs(tally, one);
                only_ours(tally, other, one);
            }
            i++;
            j++;
            continue;
        }
        for (; j < to_j; j++)
            only_ours(tally, &tally->ours.list[j], one);
        for (; i < to_i; i++)
            only_theirs(tally, &tally->theirs.list[i]);
    }
    *done_theirs = i;
    *done_ours = j;
}

/* ---- Interface ---- */

void tally_open(struct tally *tally, const uint8_t *trace, size_t len_bytes, uint32_t errata)
{
    memset(tally, 0, sizeof(*tally));
    tally->trace = trace;
    ptd_packets_init(&tally->hardware, trace, len_bytes);
    ptd_packets_set_errata(&tally->hardware, errata);
    tally->last_psb = SIZE_MAX;
}

void tally_close(struct tally *tally)
{
    free(tally->theirs.list);
    free(tally->ours.list);
    free(tally->kinds);
}

void tally_begin(struct tally *tally, uint64_t offset)
{
    (void)ptd_packets_seek(&tally->hardware, offset);
    tally->theirs.count = tally->ours.count = 0;
    tally->theirs.pads = tally->ours.pads = 0;
    tally->last_psb = SIZE_MAX;
    tally->in_psb = false;
    tally->begins = true;
}

void tally_theirs(struct tally *tally, uint64_t up_to)
{
    struct ptd_packet packet;

    while (ptd_packets_offset(&tally->hardware) < up_to &&
           ptd_packets_next(&tally->hardware, &packet) == PTD_OK)
        add_token(tally, &tally->theirs, &packet, tally->trace + packet.offset);
}

void tally_ours(struct tally *tally, const uint8_t *bytes, size_t len_bytes)
{
    struct ptd_packets packets;
    struct ptd_packet packet;

    ptd_packets_init(&packets, bytes, len_bytes);
    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        if (packet.type == PTD_PSB)
            tally->last_psb = tally->ours.count;
        add_token(tally, &tally->ours, &packet, bytes + packet.offset);
    }
}

/* Compares all of theirs and so many of ours; what is left over is a difference. */
static void compare_all(struct tally *tally, size_t ours)
{
    const size_t theirs = tally->theirs.count;
    size_t i, j;

    compare(tally, theirs, ours, &i, &j);
    for (; j < ours; j++)
        only_ours(tally, &tally->ours.list[j], theirs ? &tally->theirs.list[theirs - 1] : NULL);
    for (; i < theirs; i++)
        only_theirs(tally, &tally->theirs.list[i]);
    drop(&tally->theirs, theirs);
    drop(&tally->ours, ours);
}

void tally_at_psb(struct tally *tally)
{
    if (tally->last_psb == SIZE_MAX)
        return;
    compare_all(tally, tally->last_psb);
    tally->last_psb = 0;
    tally->in_psb = false;
}

void tally_end(struct tally *tally, bool all)
{
    size_t i, j;

    if (all)
        compare_all(tally, tally->ours.count);
    else
        compare(tally, tally->theirs.count, tally->ours.count, &i, &j);
    cut_psb(tally);
    tally->theirs.count = tally->ours.count = 0;
    tally->last_psb = SIZE_MAX;
}

void tally_trim(struct tally *tally)
{
    const size_t least =
        tally->theirs.count < tally->ours.count ? tally->theirs.count : tally->ours.count;
    size_t i, j;

    if (tally->theirs.count - least > APART_MAX || tally->ours.count - least > APART_MAX) {
        compare_all(tally, tally->ours.count);
        tally->last_psb = SIZE_MAX;
        return;
    }
    if (least < TRIM_AT)
        return;
    compare(tally, least - TRIM_KEEP, least - TRIM_KEEP, &i, &j);
    drop(&tally->theirs, i);
    drop(&tally->ours, j);
    tally->last_psb =
        tally->last_psb != SIZE_MAX && tally->last_psb >= j ? tally->last_psb - j : SIZE_MAX;
}

/* ---- The table ---- */

static void print_ratio(FILE *file, const char *what, uint64_t equal, uint64_t all)
{
    const double percent = all ? 100.0 * (double)equal / (double)all : 100.0;

    (void)fprintf(file, "  %-12s %12" PRIu64 " of %12" PRIu64 " equal  %8.4f %%\n", what, equal,
                  all, percent);
}

static int more_often(const void *one, const void *other)
{
    const struct kind *const a = one, *const b = other;

    return a->count < b->count ? 1 : a->count > b->count ? -1 : strcmp(a->name, b->name);
}

void tally_print(const struct tally *tally, FILE *file)
{
    print_ratio(file, "packets", tally->equal, tally->packets);
    for (unsigned type = 0; type < PTD_PACKET_TYPES; type++)
        if (tally->by_type[type] != tally->equal_by_type[type])
            print_ratio(file, ptd_packet_name((enum ptd_packet_type)type),
                        tally->equal_by_type[type], tally->by_type[type]);
    print_ratio(file, "PSB+", tally->psbs_equal, tally->psbs);
    print_ratio(file, "PADs", tally->places_equal, tally->places);
    if (tally->kind_count == 0)
        return;
    qsort(tally->kinds, tally->kind_count, sizeof(*tally->kinds), more_often);
    (void)fprintf(file, "  %10s  %-44s  %s\n", "how often", "difference", "the first");
    for (size_t i = 0; i < tally->kind_count; i++)
        (void)fprintf(file, "  %10" PRIu64 "  %-44s  %s\n", tally->kinds[i].count,
                      tally->kinds[i].name, tally->kinds[i].example);
}
