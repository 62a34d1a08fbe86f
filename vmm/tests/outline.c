/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the calls that a person reads: indentation, times, who ran, and gaps. */
#include "suites.h"
#include "view/filter.h"
#include "view/out.h"
#include "ptdec.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAIN  0x1000u /* calls f, twice */
#define F     0x1010u /* returns */
#define SPACE 0x5000u

static const uint8_t main_code[] = {
    0xe8, 0x0b, 0, 0, 0, /* call f */
    0xe8, 0x06, 0, 0, 0, /* call f */
    0xeb, 0xf4,          /* jmp main */
};
static const uint8_t f_code[] = {0xc3};

static struct ptd_item block(uint64_t ip, uint8_t last_class)
{
    return (struct ptd_item){.type = PTD_ITEM_BLOCK,
                             .cr3 = SPACE,
                             .ip = ip,
                             .last_ip = ip,
                             .insns = 1,
                             .last_class = last_class,
                             .mode = PTD_MODE_64};
}

/* What is shown of a trace whose items come 100 apart. */
struct show {
    void *out;
    FILE *to;
    char *text;
    size_t len;
    uint64_t time;
};

static void show_begin(struct show *show, const struct out_thread *thread)
{
    *show = (struct show){0};
    show->to = open_memstream(&show->text, &show->len);
    show->out = out_calls.open(show->to);
    CU_ASSERT_PTR_NOT_NULL_FATAL(show->out);
    CU_ASSERT_TRUE(out_calls.begin(show->out, thread));
}

static void show_item(struct show *show, struct ptd_item item)
{
    show->time += 100;
    CU_ASSERT_TRUE(out_calls.item(show->out, &item, show->time));
}

/* The text, to be freed. */
static char *show_end(struct show *show)
{
    CU_ASSERT_TRUE(out_calls.end(show->out));
    CU_ASSERT_TRUE(out_calls.close(show->out));
    (void)fclose(show->to);
    return show->text;
}

static struct ptd_image *image_of_two(void)
{
    struct ptd_image *const image = ptd_image_new();

    CU_ASSERT_PTR_NOT_NULL_FATAL(image);
    CU_ASSERT_EQUAL(
        ptd_image_add_bytes(image, "main", MAIN, main_code, sizeof(main_code), PTD_ANY_CR3),
        PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, "f", F, f_code, sizeof(f_code), PTD_ANY_CR3),
                    PTD_OK);
    return image;
}

static void expect_text(char *text, const char *want)
{
    if (strcmp(text, want) != 0)
        printf("\n%s-- and not --\n%s", text, want);
    CU_ASSERT_STRING_EQUAL(text, want);
    free(text);
}

static void test_nesting(void)
{
    struct ptd_image *const image = image_of_two();
    const struct out_thread thread = {
        .image = image, .comm = "demo", .pid = 7, .tid = 8, .cpu = -1};
    struct show show;

    show_begin(&show, &thread);
    show_item(&show, block(MAIN, PTD_INSN_CALL_DIRECT));
    show_item(&show, block(F, PTD_INSN_RET));
    show_item(&show, block(MAIN + 5, PTD_INSN_CALL_DIRECT));
    show_item(&show, block(F, PTD_INSN_RET));
    show_item(&show, block(MAIN + 10, PTD_INSN_JMP_DIRECT));
    expect_text(show_end(&show), "        instructions         took  function\n"
                                 "== demo, pid 7, tid 8, CR3 0x5000\n"
                                 "                   0               main {\n"
                                 "                 100          100    f();\n"
                                 "                 300          100    f();\n");
    ptd_image_free(image);
}

/* What is left out is not shown, but the calls that are there stand where they stood. */
static void test_filter(void)
{
    struct ptd_image *const image = image_of_two();
    const struct filter of_f = {.symbol = "f"}, of_others = {.process = "others"};
    struct out_thread thread = {
        .image = image, .comm = "demo", .pid = 7, .tid = 8, .cpu = -1, .filter = &of_f};
    struct show show;

    for (unsigned i = 0; i < 2; i++) {
        show_begin(&show, &thread);
        show_item(&show, block(MAIN, PTD_INSN_CALL_DIRECT));
        show_item(&show, block(F, PTD_INSN_RET));
        show_item(&show, block(MAIN + 5, PTD_INSN_CALL_DIRECT));
        expect_text(show_end(&show), i == 0 ? "        instructions         took  function\n"
                                              "== demo, pid 7, tid 8, CR3 0x5000\n"
                                              "                 100          100    f();\n"
                                            : "        instructions         took  function\n");
        thread.filter = &of_others;
    }
    ptd_image_free(image);
}

static uint64_t twice(const void *owner, uint64_t tsc)
{
    (void)owner;
    return 2 * tsc + 3000000000u;
}

static void test_seconds(void)
{
    struct ptd_image *const image = image_of_two();
    const struct out_thread thread = {
        .image = image, .comm = "demo", .cpu = -1, .is_tsc = true, .to_ns = twice};
    struct show show;

    show_begin(&show, &thread);
    show_item(&show, block(MAIN, PTD_INSN_CALL_DIRECT));
    show_item(&show, block(F, PTD_INSN_RET));
    show_item(&show, block(MAIN + 5, PTD_INSN_JMP_DIRECT));
    expect_text(show_end(&show), "             seconds microseconds  function\n"
                                 "== demo, CR3 0x5000\n"
                                 "         3.000000000               main {\n"
                                 "         3.000000200        0.200    f();\n");
    ptd_image_free(image);
}

/* What was entered before a gap does not return behind it. */
static void test_gap(void)
{
    struct ptd_image *const image = image_of_two();
    const struct out_thread thread = {.image = image, .comm = "demo", .cpu = -1};
    struct show show;
    char *text;

    show_begin(&show, &thread);
    show_item(&show, block(MAIN, PTD_INSN_CALL_DIRECT));
    show_item(&show, block(F, PTD_INSN_RET));
    show_item(&show, (struct ptd_item){
                         .type = PTD_ITEM_ERROR, .cr3 = SPACE, .error = PTD_E_NOMAP, .value = 24});
    show_item(&show, block(MAIN + 5, PTD_INSN_CALL_DIRECT));
    show_item(&show, block(F, PTD_INSN_RET));
    text = show_end(&show);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "    f {\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "; 24 bytes lost\n"));
    CU_ASSERT_PTR_NULL(strstr(text, "}"));
    free(text);
    ptd_image_free(image);
}

/* Timing packets are no lines of their own. */
static void test_packets(void)
{
    struct ptd_image *const image = image_of_two();
    const struct out_thread thread = {.image = image, .comm = "demo", .cpu = -1};
    const struct ptd_item mtc = {.type = PTD_ITEM_PACKET, .packet = {.type = PTD_MTC}};
    struct show show;

    show_begin(&show, &thread);
    show_item(&show, mtc);
    show_item(&show, block(MAIN, PTD_INSN_JMP_DIRECT));
    show_item(&show, mtc);
    show_item(&show, mtc);
    expect_text(show_end(&show), "        instructions         took  function\n"
                                 "== demo, CR3 0x5000\n"
                                 "                 100               main {\n");
    ptd_image_free(image);
}

void add_outline_suite(void)
{
    const CU_pSuite suite = CU_add_suite("calls for people", NULL, NULL);

    CU_add_test(suite, "nesting", test_nesting);
    CU_add_test(suite, "seconds", test_seconds);
    CU_add_test(suite, "a gap", test_gap);
    CU_add_test(suite, "packets", test_packets);
    CU_add_test(suite, "filter", test_filter);
}
