/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much is told of a trace when some of its code is missing: going on at the next IP, and at the
 * next PSB.
 *
 *   resync PREFIX               the code of a trace that record.c made, and how often each part ran
 *   resync PREFIX FIRST LAST    decodes it without the code from address FIRST to LAST
 *
 * The whole trace, decoded with all its code, is the truth: each block that is told otherwise has
 * to be one of it, at the same place of the trace, and without a gap it has to be the next one. Of
 * the instructions of the truth that lie in known code, so many were told. Ends with 'N wrong'.
 */
#include <stdlib.h>

#include "trace.h"

#define CLUSTER_GAP 0x40000u /* code that is farther from each other is listed apart */

static struct trace trace;
static uint64_t first_missing, last_missing; /* addresses */

/* ---- Code ---- */

static bool is_missing(uint64_t ip)
{
    return ip >= first_missing && ip <= last_missing;
}

static bool add_code(struct ptd_image *image, const struct section *section)
{
    const uint8_t *const bytes = trace.code + section->offset;
    const uint64_t end = section->address + section->len_bytes;
    uint64_t stop = end, from = end;

    if (first_missing < end && last_missing >= section->address) {
        stop = first_missing > section->address ? first_missing : section->address;
        from = last_missing < end ? last_missing + 1 : end;
    }
    return (stop == section->address ||
            ptd_image_add_bytes(image, NULL, section->address, bytes, stop - section->address,
                                PTD_ANY_CR3) == PTD_OK) &&
           (from == end || ptd_image_add_bytes(image, NULL, from, bytes + (from - section->address),
                                               end - from, PTD_ANY_CR3) == PTD_OK);
}

/* Without what is missing. NULL: no memory. */
static struct ptd_image *make_image(void)
{
    struct ptd_image *const image = ptd_image_new();

    for (size_t i = 0; image && i < trace.section_count; i++)
        if (!add_code(image, &trace.sections[i]))
            return NULL;
    return image;
}

/* ---- Where it ran ---- */

/* NULL: in none. */
static const struct section *section_of(uint64_t ip)
{
    size_t first = 0, end = trace.section_count;

    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        const struct section *const section = &trace.sections[middle];

        if (ip - section->address < section->len_bytes)
            return section;
        if (ip < section->address)
            end = middle;
        else
            first = middle + 1;
    }
    return NULL;
}

/* section_insns: of each section. */
static void print_parts(const uint64_t *section_insns)
{
    uint64_t insns = 0;

    for (size_t i = 0; i < trace.section_count; i++) {
        const struct section *const section = &trace.sections[i];
        const uint64_t end = section->address + section->len_bytes;

        insns += section_insns[i];
        if (i + 1 < trace.section_count && section[1].address - end < CLUSTER_GAP)
            continue;
        printf("up to %#" PRIx64 ": %" PRIu64 " instructions\n", end - 1, insns);
        insns = 0;
    }
}

static bool list_parts(void)
{
    uint64_t *const section_insns = calloc(trace.section_count, sizeof(*section_insns));
    struct ptd_flow *const flow = ptd_flow_new(trace.bytes, trace.len_bytes, trace.image, NULL);
    const bool good = section_insns && flow;
    struct ptd_item item;

    while (good && ptd_flow_next(flow, &item) == PTD_OK) {
        const struct section *const section =
            item.type == PTD_ITEM_BLOCK ? section_of(item.ip) : NULL;

        if (section)
            section_insns[section - trace.sections] += item.insns;
    }
    if (good)
        print_parts(section_insns);
    ptd_flow_free(flow);
    free(section_insns);
    return good;
}

/* ---- What is told ---- */

struct account {
    struct ptd_flow *truth;
    struct ptd_item ran;  /* the block of the truth that is next */
    bool at_end, in_step; /* in_step: no gap since the last block */
    uint64_t known, told, gaps, lost_bytes, wrong;
};

static uint64_t insns_in_known_code(const struct ptd_item *block)
{
    uint64_t ip = block->ip, known = 0;
    struct ptd_insn insn;

    if (is_missing(block->ip) == is_missing(block->last_ip))
        return is_missing(block->ip) ? 0 : block->insns;
    while (ptd_block_insn(trace.image, block, &ip, &insn) == PTD_OK)
        known += !is_missing(insn.ip);
    return known;
}

static void next_of_truth(struct account *account)
{
    do
        account->at_end = ptd_flow_next(account->truth, &account->ran) != PTD_OK;
    while (!account->at_end && account->ran.type != PTD_ITEM_BLOCK);
    if (!account->at_end)
        account->known += insns_in_known_code(&account->ran);
}

/* The same, or its begin: the rest is missing. */
static bool is_same(const struct ptd_item *ran, const struct ptd_item *told)
{
    return ran->ip == told->ip && ran->offset == told->offset &&
           (ran->last_ip == told->last_ip ||
            (told->last_ip < ran->last_ip && told->insns < ran->insns));
}

static void see_block(struct account *account, const struct ptd_item *told)
{
    while (!account->in_step && !account->at_end && !is_same(&account->ran, told))
        next_of_truth(account);
    if (account->at_end || !is_same(&account->ran, told)) {
        account->wrong++;
        account->in_step = false;
        return;
    }
    account->told += told->insns;
    account->in_step = true;
    next_of_truth(account);
}

static bool measure(enum ptd_resync resync)
{
    const struct ptd_flow_config config = {.mode = PTD_MODE_64, .resync = (uint8_t)resync};
    struct account account = {.truth =
                                  ptd_flow_new(trace.bytes, trace.len_bytes, trace.image, NULL)};
    struct ptd_image *const image = make_image();
    struct ptd_flow *const flow = ptd_flow_new(trace.bytes, trace.len_bytes, image, &config);
    struct ptd_item item;

    next_of_truth(&account);
    while (ptd_flow_next(flow, &item) == PTD_OK) {
        if (item.type == PTD_ITEM_BLOCK)
            see_block(&account, &item);
        if (item.type != PTD_ITEM_ERROR)
            continue;
        account.in_step = false;
        account.gaps++;
        account.lost_bytes += item.value;
    }
    while (!account.at_end)
        next_of_truth(&account);
    printf("%s: told %" PRIu64 " of %" PRIu64 " instructions in known code (%.2f %%); %" PRIu64
           " gaps, %" PRIu64 " bytes lost; %" PRIu64 " wrong\n",
           resync == PTD_RESYNC_IP ? "next IP " : "next PSB", account.told, account.known,
           account.known ? 100.0 * (double)account.told / (double)account.known : 0.0, account.gaps,
           account.lost_bytes, account.wrong);
    ptd_flow_free(flow);
    ptd_flow_free(account.truth);
    ptd_image_free(image);
    return account.wrong == 0;
}

int main(int argc, char **argv)
{
    bool good;

    if (argc != 2 && argc != 4) {
        (void)fprintf(stderr, "usage: resync PREFIX [FIRST LAST]\n");
        return 2;
    }
    trace.prefix = argv[1];
    if (!trace_load(&trace)) {
        (void)fprintf(stderr, "resync: %s: no trace that can be read\n", argv[1]);
        return EXIT_FAILURE;
    }
    if (argc == 2)
        return list_parts() ? EXIT_SUCCESS : EXIT_FAILURE;
    first_missing = strtoull(argv[2], NULL, 0);
    last_missing = strtoull(argv[3], NULL, 0);
    good = measure(PTD_RESYNC_PSB);
    good = measure(PTD_RESYNC_IP) && good;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
