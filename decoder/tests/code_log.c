/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The code log: bytes and places that change as the trace goes on, decoded one by one, in bulk and
 * on threads; 16-bit code that wraps in its segment; malformed logs.
 */
#include <CUnit/CUnit.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "ptdec.h"
#include "suites.h"

#define MAGIC     "vptcode1"
#define PHYSICAL  UINT64_MAX
#define SEGMENT   (UINT64_MAX - 1)
#define PAGE      0x1000u
#define FRAME     0x40000u /* where the page of CODE is */
#define OTHER     0x41000u
#define LOG_BYTES 4096u

struct log {
    uint8_t bytes[LOG_BYTES];
    size_t len;
};

static void put_word(struct log *log, uint64_t word)
{
    for (unsigned i = 0; i < 8; i++)
        log->bytes[log->len++] = (uint8_t)(word >> 8 * i);
}

static void put_record(struct log *log, uint64_t offset, uint64_t space, uint64_t address,
                       uint64_t value)
{
    put_word(log, offset);
    put_word(log, space);
    put_word(log, address);
    put_word(log, value);
}

static void put_code(struct log *log, uint64_t offset, uint64_t address, const void *code,
                     size_t len)
{
    put_record(log, offset, PHYSICAL, address, len);
    memcpy(log->bytes + log->len, code, len);
    log->len += (len + 7) / 8 * 8;
}

static struct log new_log(void)
{
    struct log log = {.len = strlen(MAGIC)};

    memcpy(log.bytes, MAGIC, log.len);
    return log;
}

static struct ptd_image *image_of(const struct log *log)
{
    struct ptd_image *const image = ptd_image_new();

    CU_ASSERT_EQUAL_FATAL(ptd_image_add_code_log(image, log->bytes, log->len), PTD_OK);
    return image;
}

/* ---- What ran, as a text ---- */

struct told {
    char text[512];
    bool errors;
};

static void tell_block(struct told *told, const struct ptd_item *block)
{
    char line[64];

    snprintf(line, sizeof(line), "%x+%u ", (unsigned)block->ip, block->insns);
    strncat(told->text, line, sizeof(told->text) - strlen(told->text) - 1);
}

static void tell_item(struct told *told, const struct ptd_item *item)
{
    if (item->type == PTD_ITEM_BLOCK)
        tell_block(told, item);
    told->errors |= item->type == PTD_ITEM_ERROR;
}

static int tell_run(void *context, const struct ptd_flow *flow, const struct ptd_run *run)
{
    struct ptd_item block;

    for (size_t i = 0; i < run->count; i++)
        for (size_t n = 0; ptd_step_block(flow, run->steps[i], n, &block) == PTD_OK; n++)
            tell_block(context, &block);
    if (run->has_item)
        tell_item(context, &run->item);
    return 0;
}

/* Decodes in every way, and twice: a second flow begins anew. */
static void check(const struct log *log, const uint8_t *trace, size_t len,
                  const struct ptd_flow_config *config, const char *expected)
{
    struct ptd_image *const image = image_of(log);
    struct told told;

    for (unsigned again = 0; again < 2; again++) {
        struct ptd_flow *flow = ptd_flow_new(trace, len, image, config);
        uint32_t steps[PTD_RUN_ROOM];
        struct ptd_run run = {.steps = steps, .room = PTD_RUN_ROOM};
        struct ptd_item item;

        told = (struct told){0};
        while (ptd_flow_next(flow, &item) == PTD_OK)
            tell_item(&told, &item);
        ptd_flow_free(flow);
        CU_ASSERT_STRING_EQUAL(told.text, expected);
        CU_ASSERT_FALSE(told.errors);

        told = (struct told){0};
        flow = ptd_flow_new(trace, len, image, config);
        while (ptd_flow_run(flow, &run) == PTD_OK)
            (void)tell_run(&told, flow, &run);
        ptd_flow_free(flow);
        CU_ASSERT_STRING_EQUAL(told.text, expected);
        CU_ASSERT_FALSE(told.errors);
    }
    told = (struct told){0};
    CU_ASSERT_EQUAL(
        ptd_flow_parallel(trace, len, image, config, PTD_TIMING_ITEMS, 2, tell_run, &told), PTD_OK);
    CU_ASSERT_STRING_EQUAL(told.text, expected);
    ptd_image_free(image);
}

/* ---- Tests ---- */

static const uint8_t first[] = {0x90, 0x74, 0xfd, 0xc3};        /* nop; jz 0; ret */
static const uint8_t second[] = {0x90, 0x90, 0x90, 0x74, 0xfb}; /* 3 nop; jz 0 */
static const uint8_t trace[] = {START(CODE), TNT_TT, TNT_TTT, TNT_T};
#define BEHIND_TT (sizeof(trace) - 2)

static void code_that_changes(void)
{
    struct log log = new_log();

    put_code(&log, 0, FRAME, first, sizeof(first));
    put_record(&log, 0, 0, CODE, FRAME);
    put_code(&log, BEHIND_TT, FRAME, second, sizeof(second));
    check(&log, trace, sizeof(trace), NULL, "1000+2 1000+2 1000+4 1000+4 1000+4 1000+4 ");
}

/* The page leads elsewhere, and back. */
static void place_that_changes(void)
{
    struct log log = new_log();

    put_code(&log, 0, FRAME, first, sizeof(first));
    put_record(&log, 0, 0, CODE, FRAME);
    put_code(&log, BEHIND_TT, OTHER, second, sizeof(second));
    put_record(&log, BEHIND_TT, 0, CODE, OTHER);
    put_record(&log, BEHIND_TT + 1, 0, CODE, FRAME);
    check(&log, trace, sizeof(trace), NULL, "1000+2 1000+2 1000+4 1000+4 1000+4 1000+2 ");
}

/* What is in the log counts before other code, and other code where the log has none. */
static void log_and_image(void)
{
    struct log log = new_log();
    struct ptd_image *image;
    const uint8_t *bytes;
    size_t len;

    put_code(&log, 0, FRAME + 2, "ab", 2);
    put_record(&log, 0, CR3_A, CODE, FRAME);
    image = image_of(&log);
    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, CODE, "0123456", 7, PTD_ANY_CR3), PTD_OK);

    struct ptd_flow *const flow = ptd_flow_new(trace, sizeof(trace), image, NULL);
    struct ptd_item item;

    CU_ASSERT_EQUAL(ptd_flow_next(flow, &item), PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_find(image, CR3_A, CODE + 2, &bytes, &len), PTD_OK);
    CU_ASSERT_TRUE(len == 2 && memcmp(bytes, "ab", len) == 0);
    CU_ASSERT_EQUAL(ptd_image_find(image, CR3_A | 0xfff, CODE + 3, &bytes, &len), PTD_OK);
    CU_ASSERT_TRUE(len == 1 && *bytes == 'b');
    CU_ASSERT_EQUAL(ptd_image_find(image, CR3_A, CODE + 4, &bytes, &len), PTD_OK);
    CU_ASSERT_TRUE(len == 3 && memcmp(bytes, "456", len) == 0);
    CU_ASSERT_EQUAL(ptd_image_find(image, CR3_A, CODE, &bytes, &len), PTD_OK);
    CU_ASSERT_TRUE(memcmp(bytes, "01", 2) == 0);
    CU_ASSERT_EQUAL(ptd_image_find(image, CR3_B, CODE + 2, &bytes, &len), PTD_OK);
    CU_ASSERT_TRUE(*bytes == '2');
    CU_ASSERT_EQUAL(ptd_image_add_code_log(image, log.bytes, log.len), PTD_E_ARG);
    ptd_flow_free(flow);
    ptd_image_free(image);
}

/* jmp near from F000:6216 wraps to F000:EC23, as in real firmware; and a RET compressed there. */
static void segment_that_wraps(void)
{
    static const uint8_t jump[] = {0xe9, 0x0a, 0x8a}, loop[] = {0x90, 0x74, 0xfd};
    static const uint8_t wrapped[] = {PSB, MODE16, PSBEND, 0x51, 0x16, 0x62, 0x0f, 0x00, TNT_TT};
    struct log log = new_log();

    put_record(&log, 0, SEGMENT, 0xf6219, 0xf0000);
    put_code(&log, 0, 0xf6216, jump, sizeof(jump));
    put_record(&log, 0, 0, 0xf6000, 0xf6000);
    put_code(&log, 0, 0xfec23, loop, sizeof(loop));
    put_record(&log, 0, 0, 0xfe000, 0xfe000);
    check(&log, wrapped, sizeof(wrapped), NULL, "f6216+1 fec23+2 fec23+2 ");
}

static void malformed(void)
{
    struct log good = new_log();
    struct ptd_image *const image = ptd_image_new();

    put_code(&good, 3, FRAME + PAGE - 2, "ab", 2);
    put_record(&good, 4, CR3_A, CODE, FRAME);
    for (size_t len = 0; len < good.len; len++)
        if (len != strlen(MAGIC) && len != good.len - 32)
            CU_ASSERT_EQUAL(ptd_image_add_code_log(image, good.bytes, len), PTD_E_FORMAT);

    static const uint64_t wrong[][4] = {
        {2, CR3_A, CODE, FRAME},          /* goes back */
        {UINT64_MAX, CR3_A, CODE, FRAME}, /* no offset */
        {4, CR3_A | 1, CODE, FRAME},      /* no address space */
        {4, CR3_A, CODE + 1, FRAME},      /* no pages */
        {4, CR3_A, CODE, FRAME + 1},      /* */
        {4, PHYSICAL, FRAME, 0},          /* no bytes */
        {4, PHYSICAL, FRAME + 1, PAGE},   /* bytes of two pages */
        {4, PHYSICAL, FRAME, UINT64_MAX}, /* too many */
        {4, PHYSICAL, FRAME, 8},          /* that are not there */
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct log bad = good;

        put_record(&bad, wrong[i][0], wrong[i][1], wrong[i][2], wrong[i][3]);
        CU_ASSERT_EQUAL(ptd_image_add_code_log(image, bad.bytes, bad.len), PTD_E_FORMAT);
    }
    CU_ASSERT_EQUAL(ptd_image_add_code_log(image, good.bytes, good.len), PTD_OK);
    ptd_image_free(image);
}

/* Bytes across chunks and up to the end of the page are one piece of code to who follows it. */
static void across_chunks(void)
{
    struct log log = new_log();
    uint8_t code[0x700];
    struct ptd_image *image;
    struct ptd_flow *flow;
    struct ptd_item item;
    static const uint8_t packets[] = {START(CODE + 0x80), TIP(CODE + 0x100)};
    uint32_t insns = 0;

    memset(code, 0x90, sizeof(code));
    code[sizeof(code) - 2] = 0xff; /* jmp *rax */
    code[sizeof(code) - 1] = 0xe0;
    put_record(&log, 0, 0, CODE, FRAME);
    put_code(&log, 0, FRAME + 0x80, code, sizeof(code));
    image = image_of(&log);
    flow = ptd_flow_new(packets, sizeof(packets), image, NULL);
    while (ptd_flow_next(flow, &item) == PTD_OK)
        insns += item.type == PTD_ITEM_BLOCK ? item.insns : 0;
    CU_ASSERT_EQUAL(insns, sizeof(code) - 1);
    ptd_flow_free(flow);
    ptd_image_free(image);
}

/* Memory grows with the log, not with the pages that it makes up. */
static void single_bytes(void)
{
    struct log log = new_log();
    static const uint8_t packets[] = {START(CODE)};
    const size_t before = mallinfo2().uordblks;
    struct ptd_image *image;
    struct ptd_flow *flow;
    struct ptd_item item;

    for (uint64_t i = 0; log.len + 40 <= LOG_BYTES; i++)
        put_code(&log, 0, i * PAGE, "\x90", 1);
    image = image_of(&log);
    flow = ptd_flow_new(packets, sizeof(packets), image, NULL);
    while (ptd_flow_next(flow, &item) == PTD_OK)
        ;
    CU_ASSERT_TRUE(mallinfo2().uordblks - before < 40 * LOG_BYTES);
    ptd_flow_free(flow);
    ptd_image_free(image);
}

void add_code_log_suite(void)
{
    CU_pSuite const suite = CU_add_suite("code log", NULL, NULL);

    CU_add_test(suite, "code that changes", code_that_changes);
    CU_add_test(suite, "a page that leads elsewhere", place_that_changes);
    CU_add_test(suite, "a log and other code", log_and_image);
    CU_add_test(suite, "16-bit code wraps in its segment", segment_that_wraps);
    CU_add_test(suite, "malformed logs", malformed);
    CU_add_test(suite, "across chunks", across_chunks);
    CU_add_test(suite, "memory of single bytes", single_bytes);
}
