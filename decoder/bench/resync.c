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
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ptdec.h"

#define CLUSTER_GAP 0x40000u /* code that is farther from each other is listed apart */

struct section {
    uint64_t address, len_bytes, offset, insns;
};

static struct {
    uint8_t *trace, *code;
    size_t trace_bytes, code_bytes;
    struct section *sections;
    size_t count;
    uint64_t first, last; /* missing */
} bench;

/* ---- Files ---- */

static uint8_t *read_part(const char *prefix, const char *suffix, size_t *len)
{
    char path[4096];
    uint8_t *bytes = NULL;
    FILE *file;
    long end;

    if (snprintf(path, sizeof(path), "%s.%s", prefix, suffix) >= (int)sizeof(path))
        return NULL;
    file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return NULL;
    }
    if (fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0)
        bytes = malloc((size_t)end + 1);
    if (bytes) {
        *len = (size_t)end;
        if (fread(bytes, 1, *len, file) != *len)
            *len = 0;
        bytes[*len] = '\0';
    }
    (void)fclose(file);
    return bytes;
}

static bool add_section(uint64_t address, uint64_t len_bytes, uint64_t offset)
{
    struct section *const more =
        reallocarray(bench.sections, bench.count + 1, sizeof(*bench.sections));

    if (!more || len_bytes > bench.code_bytes - offset)
        return false;
    bench.sections = more;
    more[bench.count++] = (struct section){address, len_bytes, offset, 0};
    return true;
}

static bool load(const char *prefix)
{
    size_t map_bytes;
    char *const map = (char *)read_part(prefix, "map", &map_bytes);
    uint64_t offset = 0;
    bool loaded;

    bench.trace = read_part(prefix, "pt", &bench.trace_bytes);
    bench.code = read_part(prefix, "code", &bench.code_bytes);
    loaded = map && bench.trace && bench.code;
    for (char *at = map; loaded && *at;) {
        const uint64_t address = strtoull(at, &at, 16), len_bytes = strtoull(at, &at, 16);

        loaded = len_bytes > 0 && add_section(address, len_bytes, offset);
        offset += len_bytes;
        while (*at == '\n')
            at++;
    }
    free(map);
    return loaded;
}

static bool is_missing(uint64_t ip)
{
    return ip >= bench.first && ip <= bench.last;
}

static bool add_code(struct ptd_image *image, const struct section *section)
{
    const uint8_t *const bytes = bench.code + section->offset;
    const uint64_t end = section->address + section->len_bytes;
    uint64_t stop = end, from = end;

    if (bench.first < end && bench.last >= section->address) {
        stop = bench.first > section->address ? bench.first : section->address;
        from = bench.last < end ? bench.last + 1 : end;
    }
    return (stop == section->address ||
            ptd_image_add_bytes(image, NULL, section->address, bytes, stop - section->address,
                                PTD_ANY_CR3) == PTD_OK) &&
           (from == end || ptd_image_add_bytes(image, NULL, from, bytes + (from - section->address),
                                               end - from, PTD_ANY_CR3) == PTD_OK);
}

/* NULL: no memory. */
static struct ptd_image *make_image(bool whole)
{
    struct ptd_image *const image = ptd_image_new();

    for (size_t i = 0; image && i < bench.count; i++) {
        const struct section *const section = &bench.sections[i];

        if (!(whole
                  ? ptd_image_add_bytes(image, NULL, section->address, bench.code + section->offset,
                                        section->len_bytes, PTD_ANY_CR3) == PTD_OK
                  : add_code(image, section)))
            return NULL;
    }
    return image;
}

/* ---- Where it ran ---- */

static struct section *section_of(uint64_t ip)
{
    size_t first = 0, end = bench.count;

    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        struct section *const section = &bench.sections[middle];

        if (ip - section->address < section->len_bytes)
            return section;
        if (ip < section->address)
            end = middle;
        else
            first = middle + 1;
    }
    return NULL;
}

static int by_address(const void *left, const void *right)
{
    const struct section *const a = left, *const b = right;

    return (a->address > b->address) - (a->address < b->address);
}

static void print_parts(void)
{
    uint64_t insns = 0;

    for (size_t i = 0; i < bench.count; i++) {
        const struct section *const section = &bench.sections[i];
        const uint64_t end = section->address + section->len_bytes;

        insns += section->insns;
        if (i + 1 < bench.count && section[1].address - end < CLUSTER_GAP)
            continue;
        printf("up to %#" PRIx64 ": %" PRIu64 " instructions\n", end - 1, insns);
        insns = 0;
    }
}

static bool list_parts(void)
{
    struct ptd_image *const image = make_image(true);
    struct ptd_flow *const flow = ptd_flow_new(bench.trace, bench.trace_bytes, image, NULL);
    struct ptd_item item;

    qsort(bench.sections, bench.count, sizeof(*bench.sections), by_address);
    while (flow && ptd_flow_next(flow, &item) == PTD_OK) {
        struct section *const section = item.type == PTD_ITEM_BLOCK ? section_of(item.ip) : NULL;

        if (section)
            section->insns += item.insns;
    }
    print_parts();
    ptd_flow_free(flow);
    ptd_image_free(image);
    return flow != NULL;
}

/* ---- What is told ---- */

struct account {
    struct ptd_flow *truth;
    struct ptd_image *whole;
    struct ptd_item ran;  /* the block of the truth that is next */
    bool at_end, in_step; /* in_step: no gap since the last block */
    uint64_t known, told, gaps, lost_bytes, wrong;
};

static uint64_t insns_in_known_code(const struct account *account, const struct ptd_item *block)
{
    uint64_t ip = block->ip, known = 0;
    struct ptd_insn insn;

    if (is_missing(block->ip) == is_missing(block->last_ip))
        return is_missing(block->ip) ? 0 : block->insns;
    while (ptd_block_insn(account->whole, block, &ip, &insn) == PTD_OK)
        known += !is_missing(insn.ip);
    return known;
}

static void next_of_truth(struct account *account)
{
    do
        account->at_end = ptd_flow_next(account->truth, &account->ran) != PTD_OK;
    while (!account->at_end && account->ran.type != PTD_ITEM_BLOCK);
    if (!account->at_end)
        account->known += insns_in_known_code(account, &account->ran);
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
    struct account account = {.whole = make_image(true)};
    struct ptd_image *const image = make_image(false);
    struct ptd_flow *const flow = ptd_flow_new(bench.trace, bench.trace_bytes, image, &config);
    struct ptd_item item;

    account.truth = ptd_flow_new(bench.trace, bench.trace_bytes, account.whole, NULL);
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
    ptd_image_free(account.whole);
    return account.wrong == 0;
}

int main(int argc, char **argv)
{
    bool good;

    if (argc != 2 && argc != 4) {
        (void)fprintf(stderr, "usage: resync PREFIX [FIRST LAST]\n");
        return 2;
    }
    if (!load(argv[1])) {
        (void)fprintf(stderr, "resync: %s: no trace that can be read\n", argv[1]);
        return EXIT_FAILURE;
    }
    if (argc == 2)
        return list_parts() ? EXIT_SUCCESS : EXIT_FAILURE;
    bench.first = strtoull(argv[2], NULL, 0);
    bench.last = strtoull(argv[3], NULL, 0);
    good = measure(PTD_RESYNC_PSB);
    good = measure(PTD_RESYNC_IP) && good;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
