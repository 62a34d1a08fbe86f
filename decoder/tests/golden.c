/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs golden tests: every item as a line of text. */
#include <CUnit/CUnit.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "golden.h"
#include "ptdec_rtit.h"
#include "referee_coverage.h"

#define TEXT_BYTES 4096
#define MAX_ITEMS  1000 /* far more than any test has: the decoder must come to an end */

struct text {
    char at[TEXT_BYTES];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void append(struct text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    const int len =
        vsnprintf(text->at + text->len, sizeof(text->at) - text->len, format, arguments);
    va_end(arguments);
    if (len > 0)
        text->len += (size_t)len;
    if (text->len >= sizeof(text->at))
        text->len = sizeof(text->at) - 1;
}

static const char *item_name(uint8_t type)
{
    static const char *const names[] = {
        [PTD_ITEM_BLOCK] = "block",       [PTD_ITEM_ENABLED] = "enabled",
        [PTD_ITEM_DISABLED] = "disabled", [PTD_ITEM_ASYNC] = "async",
        [PTD_ITEM_CR3] = "cr3",           [PTD_ITEM_MODE] = "mode",
        [PTD_ITEM_TSX] = "tsx",           [PTD_ITEM_STOP] = "stop",
        [PTD_ITEM_OVERFLOW] = "overflow", [PTD_ITEM_TSC] = "tsc",
        [PTD_ITEM_CBR] = "cbr",           [PTD_ITEM_PTWRITE] = "ptwrite",
        [PTD_ITEM_VMCS] = "vmcs",         [PTD_ITEM_PSB] = "psb",
        [PTD_ITEM_PACKET] = "packet",     [PTD_ITEM_ERROR] = "error",
    };

    return names[type];
}

/* "block FIRST LAST INSTRUCTIONS", and "taken"; addresses of code count from CODE. */
static void append_item(struct text *text, const struct ptd_item *item, bool rtit)
{
    append(text, "%s", item_name(item->type));
    switch (item->type) {
    case PTD_ITEM_BLOCK:
        append(text, " %" PRIx64 " %" PRIx64 " %u%s", item->ip - CODE, item->last_ip - CODE,
               item->insns, item->taken ? " taken" : "");
        break;
    case PTD_ITEM_CR3:
        append(text, " %" PRIx64 "%s", item->value, item->nr ? " nr" : "");
        break;
    case PTD_ITEM_MODE:
        append(text, " %u", 16u << item->value);
        break;
    case PTD_ITEM_TSX:
    case PTD_ITEM_TSC:
    case PTD_ITEM_CBR:
    case PTD_ITEM_PTWRITE:
    case PTD_ITEM_VMCS:
        append(text, " %" PRIx64, item->value);
        break;
    case PTD_ITEM_PACKET:
        append(text, " %s",
               rtit ? ptd_rtit_packet_name((enum ptd_rtit_type)item->rtit->type)
                    : ptd_packet_name((enum ptd_packet_type)item->packet.type));
        break;
    case PTD_ITEM_ERROR:
        append(text, " %d lost %" PRIu64, item->error, item->value);
        break;
    default:
        break;
    }
    if (item->has_from)
        append(text, " from %" PRIx64, item->from - CODE);
    if (item->has_to && item->type != PTD_ITEM_BLOCK)
        append(text, " to %" PRIx64, item->to - CODE);
    append(text, "\n");
}

/* A block must yield as many instructions as it says, up to its last one. */
static void check_block(const struct ptd_image *image, const struct ptd_item *block)
{
    struct ptd_insn insn = {0};
    uint64_t ip = block->ip;
    uint32_t insns = 0;

    while (ptd_block_insn(image, block, &ip, &insn) == PTD_OK)
        insns++;
    CU_ASSERT_EQUAL(insns, block->insns);
    CU_ASSERT_EQUAL(insn.ip, block->last_ip);
    CU_ASSERT_EQUAL(insn.iclass, block->last_class);
    CU_ASSERT_EQUAL(insn.size_bytes, block->last_bytes);
}

/* Whatever is told of an instruction behind a block stands where the block says that it went. */
static void check_target(const struct ptd_item *block, const struct ptd_item *next)
{
    const bool is_async = next->type == PTD_ITEM_ASYNC ||
                          (next->type == PTD_ITEM_DISABLED && next->has_from) ||
                          (next->type == PTD_ITEM_PTWRITE && next->has_from);

    if (next->type == PTD_ITEM_BLOCK || is_async)
        CU_ASSERT_TRUE(block->has_to);
    if (next->type == PTD_ITEM_BLOCK)
        CU_ASSERT_EQUAL(block->to, next->ip);
    if (next->type == PTD_ITEM_DISABLED && !next->has_from) {
        CU_ASSERT_EQUAL(block->has_to, next->has_to);
        CU_ASSERT_EQUAL(block->to, next->to);
    }
}

/* The other ways to decode must find the same, wherever they go on after an error. */
static void check_other_ways(const struct golden *test, const struct ptd_image *image,
                             const struct ptd_flow_config *config)
{
    for (unsigned timing = 0; timing < 3; timing++) {
        const struct referee_trace trace = {.bytes = test->trace.at,
                                            .len_bytes = test->trace.len,
                                            .image = image,
                                            .config = config,
                                            .timing = timing};
        const struct referee_verdict verdicts[] = {
            referee_run(&trace, PTD_RUN_ROOM), referee_parallel(&trace, 2, 1),
            referee_stream(&trace, 1, 1, NULL), referee_stream(&trace, 1, 40, NULL),
            referee_coverage(&trace, timing + (unsigned)test->trace.len)};

        for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
            CU_ASSERT_TRUE(verdicts[i].same);
            if (!verdicts[i].same)
                printf("\n--- %s: %s", test->name, verdicts[i].difference);
        }
    }
}

/* Items to text, by the one flow decoder or the other. */
static void decode_pt(const struct golden *test, const struct ptd_image *image, struct text *text)
{
    const enum ptd_mode mode = test->mode_bits == 32   ? PTD_MODE_32
                               : test->mode_bits == 16 ? PTD_MODE_16
                                                       : PTD_MODE_64;
    struct ptd_flow_config config = {.mode = mode,
                                     .cr3 = CR3_A,
                                     .at_start = test->at_start,
                                     .errata = test->errata,
                                     .filters = test->filtered,
                                     .filter = {{CODE, CODE + 15}},
                                     .resync = test->resync};
    struct ptd_flow *const flow = ptd_flow_new(test->trace.at, test->trace.len, image, &config);
    struct ptd_item item, block = {0};
    unsigned items = 0;

    while (ptd_flow_next(flow, &item) == PTD_OK && items++ < MAX_ITEMS) {
        append_item(text, &item, false);
        if (block.insns > 0)
            check_target(&block, &item);
        block = item.type == PTD_ITEM_BLOCK ? item : (struct ptd_item){0};
        if (item.type == PTD_ITEM_BLOCK)
            check_block(image, &item);
    }
    CU_ASSERT_EQUAL(ptd_flow_next(flow, &item), PTD_END);
    ptd_flow_free(flow);
    config.resync = PTD_RESYNC_PSB;
    check_other_ways(test, image, &config);
    config.resync = PTD_RESYNC_IP;
    check_other_ways(test, image, &config);
}

static void decode_rtit(const struct golden *test, const struct ptd_image *image, struct text *text)
{
    struct ptd_rtit_flow *const flow =
        ptd_rtit_flow_new(test->trace.at, test->trace.len, image, test->rtit);
    struct ptd_item item;
    unsigned items = 0;

    while (ptd_rtit_flow_next(flow, &item) == PTD_OK && items++ < MAX_ITEMS) {
        append_item(text, &item, true);
        if (item.type == PTD_ITEM_BLOCK)
            check_block(image, &item);
    }
    CU_ASSERT_EQUAL(ptd_rtit_flow_next(flow, &item), PTD_END);
    ptd_rtit_flow_free(flow);
}

static void check(const struct golden *test)
{
    struct ptd_image *const image = ptd_image_new();
    struct text text = {.len = 0};

    if (test->code.len > 0)
        (void)ptd_image_add_bytes(image, "code", CODE, test->code.at, test->code.len, PTD_ANY_CR3);
    if (test->code_b.len > 0)
        (void)ptd_image_add_bytes(image, "b", CODE, test->code_b.at, test->code_b.len, CR3_B);
    if (test->rtit)
        decode_rtit(test, image, &text);
    else
        decode_pt(test, image, &text);
    CU_ASSERT_STRING_EQUAL(text.at, test->items);
    if (strcmp(text.at, test->items) != 0)
        printf("\n--- %s, want:\n%s--- got:\n%s---", test->name, test->items, text.at);
    ptd_image_free(image);
}

void check_golden(const struct golden *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check(&cases[i]);
}
