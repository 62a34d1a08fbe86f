/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares a decoded trace with the log of execlog.c, instruction by instruction.
 *
 *   compare [--map MAP [--pages]] [--times TIMES [--late]] [--counts FILE] TRACE LOG
 *   compare [--map MAP | --code CODE] [--counts FILE] TRACE LOG TABLE
 *
 * With a table, the log is one of blocks. With --code, that is execlog.c's file of what their code
 * was: the trace is decoded with the code that ran at its place in the log, and with no other.
 * Where the trace leads to anything else than what ran, that is a difference as ever.
 *
 * The code is that of TRACE.json, or with MAP that of a host and its VMs, and then the instructions
 * of each are counted.
 *
 * With --pages, the log was made with pages=on, and is the witness for who ran: code of the host's
 * kernel, of its processes, of each VM's kernel and of each process of a VM is on pages of memory
 * of its own, so that instructions on one page must have been attributed to one of them. Addresses
 * and CR3 values say nothing here, they may all be the same in two VMs.
 *
 * With --times, that is execlog.c's second file, and the TSC at each branch must lie between the
 * earliest time of the timing packet before it and the latest of the one behind it.
 *
 * With --late, the log began later than the trace, and what ran before counts for nothing: what the
 * trace has in front of the first TSC of the log, up to a timing packet behind it. In a loop, the
 * turn that ran is the one whose times are right.
 *
 * With --counts, FILE gets a line for each address at which something ran: how often it did, as the
 * log and the trace both say.
 *
 * Between two of them, the trace and the log may differ in one thing only: the log has the address
 * of an instruction that began and did not retire (a fault, INT n, the WRMSR that stops tracing)
 * and that the trace names by a FUP. While tracing is off, the log is searched for the next block.
 */
#include "common/bytes.h"
#include "common/file.h"
#include "common/say.h"
#include "trace/code-files.h"
#include "trace/mapfile.h"
#include "trace/sidecar.h"
#include "follow.h"
#include "log.h"
#include "ptdec.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BLOCK    65536
#define MAX_SINCE    (1u << 22)
#define MAX_OFF      (1u << 24) /* with --code: what may run while tracing is off */
#define CACHE_BLOCKS (1u << 16)
#define CACHE_INSNS  62u
#define MAX_PARTIES  64
#define MAX_PAGES    65536

/* ---- Comparison ---- */

/* The instructions of a block; of what stood at its address before, perhaps. */
struct cached {
    struct ptd_item block;
    uint64_t ips[CACHE_INSNS];
};

/* One of those who have code of their own: processes of the host count as one. */
struct party {
    struct ptd_context who;
    uint64_t insns;
    unsigned pages;
};

/* What the trace says of time, and what was true. */
struct clocks {
    struct ptd_time *time; /* NULL: nobody asks */
    struct ptd_packets packets;
    struct ptd_time_point before; /* of the last timing packet */
    size_t first, last;           /* in the log: of the first and last branch since then */
    uint64_t first_tsc, last_tsc;
    uint64_t waiting;   /* how many there were */
    uint64_t branches;  /* that were compared */
    uint64_t unbounded; /* of them, which may have come at any time after another one */
    double width;       /* of the intervals of the others, all together */
    uint64_t furthest;  /* of the estimate from the truth */
};

/* How often each address was executed: a hash table, of which half is empty. */
struct counts {
    const char *file; /* NULL: nobody asks */
    struct count {
        uint64_t ip, times; /* times 0: nothing is here */
    } * list;
    size_t count, room; /* room: a power of two */
};

struct compare {
    struct code_files *files;
    struct ptd_image *image;
    struct map map;
    struct party parties[MAX_PARTIES];
    unsigned party_count;
    uint8_t owner[MAX_PAGES]; /* of a page: its party + 1 */
    struct log log;
    struct follow follow; /* its log is NULL: the code is elsewhere */
    struct counts counts;
    struct clocks clocks;
    struct cached *cache;
    size_t pos;
    bool searching;     /* tracing was off */
    bool is_late;       /* the log began later than the trace; */
    bool is_early;      /*   it has not begun yet */
    uint64_t begun_tsc; /* while early: the next block did not begin before; 0: that is unknown */
    size_t enabled;     /* while searching: where in the log it may have begun again */
    bool led; /* by an event, from what the log has next to an address where nothing ran yet */
    uint64_t led_to;
    uint64_t last; /* instruction that was decoded */
    /* What was decoded since then; a first block alone may have been found too early. */
    uint64_t since[MAX_SINCE];
    size_t since_count, since_pos;
    uint64_t since_tsc; /* nothing of it was before; 0: that is unknown */
    uint64_t insns, branches, async, disables, errors, lost_bytes;
    uint64_t attempts;    /* instructions that began and did not retire */
    uint64_t passed_over; /* instructions that ran while tracing was off, or so began */
    uint64_t hash;        /* over every instruction */
    char difference[256];
};

static uint64_t insns_of(struct compare *c, const struct ptd_item *block, uint64_t *ips)
{
    struct ptd_insn insn;
    uint64_t ip = block->ip, n = 0;

    while (n < MAX_BLOCK && ptd_block_insn(c->image, block, &ip, &insn) == PTD_OK)
        ips[n++] = insn.ip;
    return n;
}

static struct cached *cached_at(struct compare *c, const struct ptd_item *block)
{
    const uint64_t hash = (block->ip ^ block->cr3 << 16) * 0x9e3779b97f4a7c15u;

    return &c->cache[hash >> 48];
}

static bool is_cached(const struct cached *cached, const struct ptd_item *block)
{
    return cached->block.ip == block->ip && cached->block.last_ip == block->last_ip &&
           cached->block.insns == block->insns && cached->block.cr3 == block->cr3 &&
           cached->block.mode == block->mode;
}

static bool matches(struct compare *c, size_t at, const uint64_t *ips, uint64_t n)
{
    return log_has(&c->log, at + n) &&
           memcmp(&c->log.ips[at - c->log.begin], ips, n * sizeof(*ips)) == 0;
}

static void differ(struct compare *c, const struct ptd_item *block, const uint64_t *ips, uint64_t n)
{
    uint64_t i = 0;

    if (c->searching && c->since_tsc) {
        snprintf(c->difference, sizeof(c->difference),
                 "instruction %" PRIu64 ": %#" PRIx64 " was not executed at TSC %" PRIu64
                 " or later, near trace offset %" PRIu64,
                 c->insns, n ? ips[0] : block->ip, c->since_tsc, block->offset);
        return;
    }
    while (i < n && log_has(&c->log, c->pos + i + 1) && log_ip(&c->log, c->pos + i) == ips[i])
        i++;
    snprintf(c->difference, sizeof(c->difference),
             "instruction %" PRIu64 ": executed %#" PRIx64 ", decoded %#" PRIx64
             " near trace offset %" PRIu64,
             c->insns + i, log_has(&c->log, c->pos + i + 1) ? log_ip(&c->log, c->pos + i) : 0,
             i < n ? ips[i] : 0, block->offset);
}

/* What was decoded since tracing began again ran later than it seemed: branches of it, too. */
static void move_branches(struct compare *c, size_t count)
{
    struct clocks *const clocks = &c->clocks;

    if (!clocks->waiting || clocks->last < c->since_pos)
        return;
    clocks->last += count;
    clocks->last_tsc = log_tsc(&c->log, clocks->last);
    if (clocks->first < c->since_pos)
        return;
    clocks->first += count;
    clocks->first_tsc = log_tsc(&c->log, clocks->first);
}

/*
 * Looks for what was decoded since tracing began again, from a place on. The log has nothing that
 * ran later than latest.
 */
static bool find_since(struct compare *c, size_t at, uint64_t latest)
{
    const size_t last = c->follow.log ? c->since_pos + MAX_OFF : SIZE_MAX;

    for (; at < last && log_has(&c->log, at + 1); at++) {
        const uint64_t tsc = c->clocks.time ? log_tsc(&c->log, at) : latest;

        if (tsc > latest)
            return false;
        if (tsc < c->since_tsc || !matches(c, at, c->since, c->since_count))
            continue;
        if (!c->searching)
            move_branches(c, at - c->since_pos);
        c->passed_over += at - c->since_pos;
        c->since_pos = at;
        c->pos = at + c->since_count;
        return true;
    }
    return false;
}

/* Moves on behind the block. Where tracing was off before, it is looked for. */
static bool find(struct compare *c, const uint64_t *ips, uint64_t n)
{
    const bool remembered =
        n <= MAX_SINCE && c->since_count <= MAX_SINCE - n; /* SIZE_MAX: no more */

    if (!c->searching && matches(c, c->pos, ips, n)) {
        if (remembered)
            memcpy(c->since + c->since_count, ips, n * sizeof(*ips));
        c->since_count = remembered ? c->since_count + n : SIZE_MAX;
        c->pos += n;
        return true;
    }
    if (!remembered)
        return false;
    memcpy(c->since + c->since_count, ips, n * sizeof(*ips));
    c->since_count += n;
    return find_since(c, c->since_pos + !c->searching, UINT64_MAX);
}

static bool is_party(const struct ptd_context *a, const struct ptd_context *b)
{
    return a->who == b->who && a->vm == b->vm && (a->who != PTD_GUEST_PROCESS || a->cr3 == b->cr3);
}

/* NULL: there are too many. */
static struct party *party_of(struct compare *c, const struct ptd_context *who)
{
    for (unsigned i = 0; i < c->party_count; i++)
        if (is_party(&c->parties[i].who, who))
            return &c->parties[i];
    if (c->party_count == MAX_PARTIES)
        return NULL;
    c->parties[c->party_count].who = *who;
    return &c->parties[c->party_count++];
}

static void name_party(const struct party *party, char *name, size_t room)
{
    const struct ptd_context *const who = &party->who;

    if (who->who == PTD_HOST_KERNEL || who->who == PTD_HOST_PROCESS)
        snprintf(name, room, "host %s", who->who == PTD_HOST_KERNEL ? "kernel" : "processes");
    else
        snprintf(name, room, "VM %s %s", who->vm_name ? who->vm_name : "?",
                 who->who == PTD_GUEST_KERNEL ? "kernel"
                 : who->process               ? who->process
                                              : "process");
}

/* Instructions of the log up to pos ran on pages that are this party's and nobody else's. */
static void check_pages(struct compare *c, struct party *party, size_t pos, uint64_t n)
{
    const uint8_t number = (uint8_t)(party - c->parties + 1);
    char is[64], was[64];

    for (size_t at = pos - n; at < pos; at++) {
        const uint16_t page = c->log.pages[at - c->log.begin];
        uint8_t *const owner = &c->owner[page];

        if (*owner == number)
            continue;
        if (page == 0) {
            snprintf(c->difference, sizeof(c->difference), "no page of %#" PRIx64,
                     log_ip(&c->log, at));
            return;
        }
        if (*owner == 0) {
            *owner = number;
            party->pages++;
            continue;
        }
        name_party(party, is, sizeof(is));
        name_party(&c->parties[*owner - 1], was, sizeof(was));
        snprintf(c->difference, sizeof(c->difference),
                 "instruction %" PRIu64 " at %#" PRIx64 " is not of %s: its page is code of %s",
                 c->insns + (at - (pos - n)), log_ip(&c->log, at), is, was);
        return;
    }
}

/* n instructions of a block, and before pos in the log (all but one that it has once) */
static void count_who(struct compare *c, const struct ptd_item *block, uint64_t n, uint64_t logged)
{
    struct ptd_context who;
    struct party *party;

    if (!c->map.contexts)
        return;
    ptd_contexts_find(c->map.contexts, block->cr3, block->ip, &who);
    party = party_of(c, &who);
    if (!party) {
        snprintf(c->difference, sizeof(c->difference), "more than %d who ran", MAX_PARTIES);
        return;
    }
    party->insns += n;
    if (c->log.has_pages)
        check_pages(c, party, c->pos, logged);
}

/* ---- Counts ---- */

static struct count *count_at(const struct counts *counts, uint64_t ip)
{
    size_t at = (size_t)(ip * 0x9e3779b97f4a7c15u >> 20);

    while (counts->list[at & (counts->room - 1)].times &&
           counts->list[at & (counts->room - 1)].ip != ip)
        at++;
    return &counts->list[at & (counts->room - 1)];
}

static void grow_counts(struct counts *counts)
{
    const struct counts old = *counts;

    counts->room = old.room ? 2 * old.room : 1u << 16;
    counts->list = calloc(counts->room, sizeof(*counts->list));
    if (!counts->list)
        abort();
    for (size_t i = 0; i < old.room; i++) {
        if (old.list[i].times)
            *count_at(counts, old.list[i].ip) = old.list[i];
    }
    free(old.list);
}

static void count_insns(struct counts *counts, const uint64_t *ips, uint64_t n)
{
    for (uint64_t i = 0; counts->file && i < n; i++) {
        struct count *count;

        if (2 * counts->count >= counts->room)
            grow_counts(counts);
        count = count_at(counts, ips[i]);
        counts->count += count->times == 0;
        count->ip = ips[i];
        count->times++;
    }
}

/* 0 or an exit code. */
static int write_counts(struct counts *counts)
{
    FILE *const file = counts->file ? fopen(counts->file, "w") : NULL;
    int code = EXIT_CODE_OK;

    for (size_t i = 0; file && i < counts->room; i++) {
        if (counts->list[i].times)
            fprintf(file, "%016" PRIx64 " %" PRIu64 "\n", counts->list[i].ip,
                    counts->list[i].times);
    }
    if (counts->file && (!file || fclose(file)))
        code = complain(EXIT_CODE_FILE, "%s: it cannot be written", counts->file);
    free(counts->list);
    return code;
}

/* ---- Time ---- */

/*
 * A branch, at the end of a block: the last that was found in the log. No packet tells of a direct
 * jump or call, only of the branches around it.
 */
static void see_branch(struct compare *c, uint8_t class)
{
    struct clocks *const clocks = &c->clocks;

    if (!clocks->time || class == PTD_INSN_JMP_DIRECT || class == PTD_INSN_CALL_DIRECT)
        return;
    clocks->last = c->pos - 1;
    clocks->last_tsc = log_tsc(&c->log, clocks->last);
    if (clocks->waiting++)
        return;
    clocks->first = clocks->last;
    clocks->first_tsc = clocks->last_tsc;
}

/*
 * A log that began amid a loop may have its turns too early: all of them look the same but for
 * their times. Finds a later one.
 */
static bool find_turn(struct compare *c, uint64_t latest)
{
    return c->is_late && !c->searching && c->since_count <= MAX_SINCE &&
           find_since(c, c->since_pos + 1, latest);
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* The branches since the timing packet before came about between it and this one. */
static void compare_times(struct compare *c, const struct ptd_time_point *before, uint64_t offset)
{
    struct clocks *const clocks = &c->clocks;
    const struct ptd_time_point *const now = &clocks->before;
    uint64_t first, last;

    while (clocks->first_tsc < before->earliest && find_turn(c, now->latest))
        continue;
    first = distance(clocks->first_tsc, before->tsc);
    last = distance(clocks->last_tsc, before->tsc);
    if (clocks->first_tsc < before->earliest || clocks->last_tsc > now->latest ||
        now->tsc < before->tsc)
        snprintf(c->difference, sizeof(c->difference),
                 "instruction %" PRIu64 ": branches at TSC %" PRIu64 " to %" PRIu64
                 ", decoded %" PRIu64 " to %" PRIu64 ", at trace offset %" PRIu64,
                 c->insns, clocks->first_tsc, clocks->last_tsc, before->earliest, now->latest,
                 offset);
    clocks->branches += clocks->waiting;
    if (now->latest == PTD_TIME_UNKNOWN) /* tracing paused behind them */
        clocks->unbounded += clocks->waiting;
    else
        clocks->width += (double)(now->latest - before->earliest) * (double)clocks->waiting;
    if (first > clocks->furthest)
        clocks->furthest = first;
    if (last > clocks->furthest)
        clocks->furthest = last;
}

static void see_time(struct compare *c, const struct ptd_item *item)
{
    struct clocks *const clocks = &c->clocks;
    const struct ptd_time_point before = clocks->before;
    struct ptd_packet packet;

    if (!clocks->time)
        return;
    while (ptd_packets_offset(&clocks->packets) <= item->offset &&
           ptd_time_next(clocks->time, &clocks->packets, &packet))
        ptd_time_packet(clocks->time, &packet);
    ptd_time_point(clocks->time, &clocks->before);
    if (clocks->waiting && before.tsc != PTD_TIME_UNKNOWN)
        compare_times(c, &before, item->offset);
    clocks->waiting = 0;
}

static int clocks_open(struct compare *c, const char *trace, const struct bytes *bytes)
{
    struct ptd_time_config config;
    struct sidecar sidecar;
    const int error = sidecar_open(&sidecar, trace);

    if (error || !sidecar.is_there) {
        sidecar_close(&sidecar);
        return complain(EXIT_CODE_FILE, "%s", error ? sidecar.why.text : "no TRACE.json");
    }
    config = sidecar.clocks;
    sidecar_close(&sidecar);
    if (c->map.contexts)
        config.vms = ptd_contexts_time_vms(c->map.contexts, &config.vm_count);
    ptd_packets_init(&c->clocks.packets, bytes->data, bytes->len);
    c->clocks.before.tsc = PTD_TIME_UNKNOWN;
    c->clocks.time = ptd_time_new(&config);
    return c->clocks.time ? 0 : complain(EXIT_CODE_FILE, "%s.json: clocks out of range", trace);
}

static void print_times(const struct clocks *clocks)
{
    const uint64_t bounded = clocks->branches - clocks->unbounded;

    printf("time: %" PRIu64 " branches in intervals of %.0f ticks on average (%" PRIu64
           " without an end), at most %" PRIu64 " from the estimate\n",
           clocks->branches, bounded ? clocks->width / (double)bounded : 0, clocks->unbounded,
           clocks->furthest);
}

/* ---- Code ---- */

/* What is in front of the place from where on the log is looked at again. */
static void forget(struct compare *c)
{
    const size_t pos = c->since_count <= MAX_SINCE ? c->since_pos : c->pos;

    log_forget(&c->log, c->follow.log && c->follow.ahead < pos ? c->follow.ahead : pos);
}

/* Tracing begins again: where the log has this address next. */
static void see_enabled(struct compare *c, const struct ptd_item *item)
{
    size_t at = c->pos;

    if (!c->follow.log || !c->searching || !item->has_to)
        return;
    while (at < c->pos + MAX_OFF && log_has(&c->log, at + 1) && log_ip(&c->log, at) != item->to)
        at++;
    c->enabled = at;
}

static bool next_item(struct compare *c, struct ptd_flow *flow, struct ptd_item *item)
{
    const size_t pos = c->searching && c->enabled > c->pos ? c->enabled : c->pos;

    if (c->follow.log && !follow_to(&c->follow, pos)) {
        snprintf(c->difference, sizeof(c->difference), "no memory");
        return false;
    }
    return ptd_flow_next(flow, item) == PTD_OK;
}

/* ---- Items, one by one ---- */

/*
 * The next block is looked for in what ran from now on. When it comes, it is too late to ask what
 * time it is: timing packets behind its beginning may have been read to find its end.
 */
static void search(struct compare *c)
{
    const struct ptd_time_point *const now = &c->clocks.before;

    c->searching = true;
    c->since_tsc = now->tsc == PTD_TIME_UNKNOWN ? 0 : now->earliest;
}

/* The instructions of a block, which the log has next. */
static void see_insns(struct compare *c, const struct ptd_item *block, const uint64_t *ips,
                      uint64_t n)
{
    const bool again = !c->searching && n > 0 && ips[0] == c->last; /* the log has it once */

    if (n != block->insns) {
        snprintf(c->difference, sizeof(c->difference), "no code at %#" PRIx64, block->ip);
        return;
    }
    if (c->searching) {
        c->since_count = 0;
        c->since_pos = c->pos;
    }
    if (!find(c, ips + again, n - again)) {
        differ(c, block, ips + again, n - again);
        return;
    }
    c->searching = false;
    c->last = ips[n - 1];
    c->insns += n;
    count_who(c, block, n, n - again);
    count_insns(&c->counts, ips, n);
    if (block->last_class >= PTD_INSN_COND && block->last_class <= PTD_INSN_IRET) {
        c->branches++;
        see_branch(c, block->last_class);
    }
    for (uint64_t i = 0; i < n; i++)
        c->hash = (c->hash ^ ips[i]) * 0x100000001b3ull;
    forget(c);
}

static void see_block(struct compare *c, const struct ptd_item *block)
{
    static uint64_t ips[MAX_BLOCK];
    struct cached *const cached = cached_at(c, block);
    uint64_t n;

    if (!c->searching && is_cached(cached, block) && cached->ips[0] != c->last &&
        matches(c, c->pos, cached->ips, block->insns)) {
        see_insns(c, block, cached->ips, block->insns);
        return;
    }
    n = insns_of(c, block, ips);
    if (n == block->insns && n <= CACHE_INSNS) {
        cached->block = *block;
        memcpy(cached->ips, ips, n * sizeof(*ips));
    }
    see_insns(c, block, ips, n);
}

/*
 * An instruction that the trace names by a FUP may have begun. Where it led to, the next event may
 * come before anything runs.
 */
static void see_from(struct compare *c, const struct ptd_item *item)
{
    const bool follows = c->led && item->has_from && item->from == c->led_to;
    bool leads;

    c->led = false;
    if (!item->has_from || !log_has(&c->log, c->pos + 1) ||
        (!follows && log_ip(&c->log, c->pos) != item->from))
        return;
    leads =
        !item->has_to || (log_has(&c->log, c->pos + 2) && log_ip(&c->log, c->pos + 1) == item->to);
    if (leads) {
        c->pos++;
        c->attempts++;
    } else {
        c->led = true;
        c->led_to = item->to;
    }
}

static void see(struct compare *c, const struct ptd_item *item)
{
    switch (item->type) {
    case PTD_ITEM_BLOCK:
        c->led = false;
        see_block(c, item);
        break;
    case PTD_ITEM_ASYNC:
        c->async++;
        see_from(c, item);
        break;
    case PTD_ITEM_DISABLED: /* what began before it ran again, or it was the WRMSR: searched over */
        c->disables++;
        search(c);
        break;
    case PTD_ITEM_ENABLED:
        search(c);
        break;
    case PTD_ITEM_ERROR:
        if (c->errors++ == 0)
            fprintf(stderr, "compare: offset %" PRIu64 ": %s\n", item->offset,
                    ptd_strerror(item->error));
        c->lost_bytes += item->value;
        if (c->follow.log) /* which knows of no gaps */
            snprintf(c->difference, sizeof(c->difference),
                     "instruction %" PRIu64 ": %s, near trace offset %" PRIu64, c->insns,
                     ptd_strerror(item->error), item->offset);
        c->clocks.waiting = 0;
        search(c);
        break;
    case PTD_ITEM_STOP:
    case PTD_ITEM_OVERFLOW:
        search(c);
        break;
    case PTD_ITEM_TSC:
    case PTD_ITEM_CBR:
    case PTD_ITEM_PACKET:
        see_time(c, item);
        break;
    default:
        break;
    }
    see_enabled(c, item);
}

/*
 * What was in front of the log. A timing packet may come amid a block: that one began no earlier
 * than the block before it ended.
 */
static void see_early(struct compare *c, const struct ptd_item *item)
{
    const struct ptd_time_point *const now = &c->clocks.before;

    if (item->type == PTD_ITEM_BLOCK)
        c->begun_tsc = now->tsc == PTD_TIME_UNKNOWN ? 0 : now->earliest;
    if (item->type != PTD_ITEM_TSC && item->type != PTD_ITEM_CBR && item->type != PTD_ITEM_PACKET)
        return;
    see_time(c, item);
    c->is_early = !c->begun_tsc || !log_has(&c->log, 1) || c->begun_tsc <= log_tsc(&c->log, 0);
    c->searching = true;
    c->since_tsc = c->begun_tsc;
}

/* Names of files; NULL: there is none. */
struct inputs {
    const char *map, *times, *code;
};

static int load_code(struct compare *c, const char *trace, const char *map)
{
    struct sidecar sidecar;
    int code = 0;

    if (map)
        return map_load(map, c->files, c->image, &c->map)
                   ? complain(EXIT_CODE_FILE, "%s", c->map.why.text)
                   : 0;
    if (sidecar_open(&sidecar, trace) || sidecar_add_images(&sidecar, c->files, c->image))
        code = complain(EXIT_CODE_FILE, "%s", sidecar.why.text);
    sidecar_close(&sidecar);
    return code;
}

/* files: the trace, the log and, or NULL, the table */
static int load(struct compare *c, char **files, const struct inputs *inputs, struct bytes *bytes)
{
    const char *const times = inputs->times;
    const int code = inputs->code ? 0 : load_code(c, files[0], inputs->map);
    int error;

    if (code)
        return code;
    error = read_file(files[0], bytes);
    if (error)
        return complain(EXIT_CODE_FILE, "%s: %s", files[0], strerror(-error));
    error = log_open(&c->log, files[1], files[2]);
    if (error)
        return complain(EXIT_CODE_FILE, "%s: %s", files[1], strerror(-error));
    if (inputs->code) {
        error = log_open_code(&c->log, inputs->code);
        if (!error)
            error = follow_open(&c->follow, &c->log, c->image);
        return error ? complain(EXIT_CODE_FILE, "%s: %s", inputs->code, strerror(-error)) : 0;
    }
    if (!times)
        return 0;
    error = read_file(times, &c->log.times);
    if (error || c->log.times.len < c->log.words.len)
        return complain(EXIT_CODE_FILE, "%s: %s", times,
                        error ? strerror(-error) : "not as long as the log");
    return clocks_open(c, files[0], bytes);
}

static void print_who(const struct compare *c)
{
    char name[64];

    for (unsigned i = 0; i < c->party_count; i++) {
        const struct party *const party = &c->parties[i];

        name_party(party, name, sizeof(name));
        printf("%s: %" PRIu64 " instructions", name, party->insns);
        if (c->log.has_pages)
            printf(" on %u pages", party->pages);
        putchar('\n');
    }
}

/* argv[optind] is then the first file; there are two or three, and NULL behind them. */
static bool parse(int argc, char **argv, struct compare *c, struct inputs *inputs)
{
    static const struct option options[] = {{"map", required_argument, NULL, 'm'},
                                            {"pages", no_argument, NULL, 'p'},
                                            {"times", required_argument, NULL, 't'},
                                            {"late", no_argument, NULL, 'l'},
                                            {"counts", required_argument, NULL, 'c'},
                                            {"code", required_argument, NULL, 'o'},
                                            {0}};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'm':
            inputs->map = optarg;
            break;
        case 'l':
            c->is_late = c->is_early = true;
            break;
        case 'p':
            c->log.has_pages = true;
            break;
        case 't':
            inputs->times = optarg;
            break;
        case 'c':
            c->counts.file = optarg;
            break;
        case 'o':
            inputs->code = optarg;
            break;
        default:
            return false;
        }
    }
    if (c->is_late && !inputs->times)
        return false;
    if (argc - optind == 3)
        return !c->log.has_pages && !inputs->times && !(inputs->code && inputs->map);
    return argc - optind == 2 && !inputs->code;
}

int main(int argc, char **argv)
{
    static struct compare c = {.searching = true};
    struct bytes trace = {0};
    struct ptd_flow *flow;
    struct ptd_item item;
    struct inputs inputs = {0};
    char **files;
    int code;

    if (!parse(argc, argv, &c, &inputs))
        return complain(
            EXIT_CODE_USAGE,
            "usage: compare [--map MAP [--pages]] [--times TIMES [--late]] [--counts FILE] "
            "TRACE LOG, or compare [--map MAP | --code CODE] [--counts FILE] TRACE LOG TABLE");
    files = argv + optind;
    c.files = code_files_new(CODE_BYTES_MAX);
    c.image = ptd_image_new();
    c.cache = calloc(CACHE_BLOCKS, sizeof(*c.cache));
    code = c.files && c.image && c.cache ? load(&c, files, &inputs, &trace) : EXIT_CODE_HOST;
    if (code)
        return code;
    flow = ptd_flow_new(trace.data, trace.len, c.image, NULL);
    if (!flow)
        return complain(EXIT_CODE_HOST, "no memory");
    while (!*c.difference && next_item(&c, flow, &item)) {
        if (c.is_early)
            see_early(&c, &item);
        else
            see(&c, &item);
    }
    ptd_flow_free(flow);
    ptd_image_free(c.image);
    code_files_free(c.files);
    while (log_has(&c.log, c.log.end + 1))
        log_forget(&c.log, c.log.end);

    printf("%" PRIu64 " instructions, %" PRIu64 " branches, %" PRIu64 " interrupts and exceptions, "
           "%" PRIu64 " begun and not retired, off %" PRIu64 " times, %" PRIu64 " errors, "
           "%" PRIu64 " bytes lost, %" PRIu64 " logged while off, %zu behind the end, "
           "hash %016" PRIx64 ", %.2f bits per instruction\n",
           c.insns, c.branches, c.async, c.attempts, c.disables, c.errors, c.lost_bytes,
           c.passed_over, c.log.end - c.pos, c.hash,
           c.insns ? 8.0 * (double)trace.len / (double)c.insns : 0);
    code = write_counts(&c.counts);
    if (c.clocks.time)
        print_times(&c.clocks);
    ptd_time_free(c.clocks.time);
    if (c.follow.log)
        printf("code: %" PRIu64 " instructions changed, %" PRIu64 " of kernels\n", c.follow.changes,
               c.follow.kernel_changes);
    bytes_free(&trace);
    follow_close(&c.follow);
    log_close(&c.log);
    free(c.cache);
    if (c.map.contexts)
        print_who(&c);
    map_free(&c.map);
    if (*c.difference) {
        printf("different: %s\n", c.difference);
        return EXIT_CODE_MISMATCH;
    }
    if (code || c.errors || c.insns == 0)
        return EXIT_CODE_FILE;
    puts("identical");
    return EXIT_CODE_OK;
}
