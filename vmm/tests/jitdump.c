/* SPDX-License-Identifier: BSD-3-Clause */
/* Jitdumps: what a run time writes, what is cut off, and what is hostile. */
#include "trace/jitdump.h"
#include "made_jitdump.h"
#include "suites.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define AT 0x7f0000001000u

static const char code[] = "\x90\x90\xc3";

/* "NAME@ADDRESS+LENGTH:TIME " of each piece; or "WHY". The file is gone behind it. */
static const char *parsed(struct bytes *file)
{
    static char text[512];
    struct jitdump *dump;
    struct reason why = {0};
    size_t len = 0;

    text[0] = 0;
    if (jitdump_parse("dump", file, &dump, &why) != 0) {
        CU_ASSERT_PTR_NULL(dump);
        (void)snprintf(text, sizeof(text), "%s", why.text);
        return text;
    }
    for (size_t i = 0; i < dump->count && len < sizeof(text) - 96; i++)
        len += (size_t)snprintf(text + len, 96, "%s@%llx+%llu:%llu ", dump->codes[i].name,
                                (unsigned long long)dump->codes[i].start,
                                (unsigned long long)dump->codes[i].len,
                                (unsigned long long)dump->codes[i].time);
    if (dump->is_cut)
        (void)snprintf(text + len, sizeof(text) - len, "cut");
    jitdump_free(dump);
    return text;
}

static void records(void)
{
    struct bytes file = {0};

    made_jitdump_head(&file, 10, 1);
    made_jitdump_load(&file, 30, AT + 0x100, "later", 2, code, 3);
    made_jitdump_load(&file, 20, AT, "sooner", 1, code, 2);
    made_jitdump_other(&file, 2); /* lines of the source */
    made_jitdump_move(&file, 40, AT, AT + 0x200, 1);
    made_jitdump_move(&file, 50, AT + 0x200, AT + 0x300, 1);
    made_jitdump_move(&file, 60, AT, AT + 0x400, 9); /* nobody knows what was there */
    made_jitdump_load(&file, 70, AT, "", 3, code, 1);
    made_jitdump_other(&file, 3); /* the end */
    made_jitdump_other(&file, 77);
    CU_ASSERT_STRING_EQUAL(parsed(&file), "sooner@7f0000001000+2:20 later@7f0000001100+3:30 "
                                          "sooner@7f0000001200+2:40 sooner@7f0000001300+2:50 "
                                          "?@7f0000001000+1:70 ");
    CU_ASSERT_PTR_NULL(file.data);
}

static void head(void)
{
    struct jitdump *dump;
    struct bytes file = {0};
    struct reason why;

    made_jitdump_head(&file, 10, 1);
    CU_ASSERT_EQUAL_FATAL(jitdump_parse("dump", &file, &dump, &why), 0);
    CU_ASSERT_EQUAL(dump->pid, 10);
    CU_ASSERT_TRUE(dump->has_tsc);
    jitdump_free(dump);
    made_jitdump_head(&file, 11, 0);
    CU_ASSERT_EQUAL_FATAL(jitdump_parse("dump", &file, &dump, &why), 0);
    CU_ASSERT_FALSE(dump->has_tsc);
    jitdump_free(dump);
}

/* Each byte of the head that says what it is. */
static void other_heads(void)
{
    static const struct {
        size_t at;
        uint8_t value;
        const char *why;
    } cases[] = {
        {0, 0, "dump: at 0: no jitdump"},
        {4, 2, "dump: at 0x4: a jitdump of a version that is not known"},
        {8, 39, "dump: at 0x8: the head of the jitdump has another length"},
        {8, 41, "dump: at 0x8: the head of the jitdump has another length"},
        {12, 3, "dump: at 0xc: a jitdump of another processor"},
    };
    struct bytes file = {0};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        made_jitdump_head(&file, 10, 1);
        file.data[cases[i].at] = cases[i].value;
        CU_ASSERT_STRING_EQUAL(parsed(&file), cases[i].why);
    }
    CU_ASSERT_STRING_EQUAL(parsed(&file), "dump: at 0: no jitdump"); /* an empty one */
}

/* A program that was killed leaves a record that ends early: those in front of it count. */
static void cut_off(void)
{
    size_t whole, all = MADE_JITDUMP_HEAD + 1;

    for (size_t len = MADE_JITDUMP_HEAD; len < all; len++) {
        struct bytes file = {0};

        made_jitdump_head(&file, 10, 1);
        made_jitdump_load(&file, 1, AT, "f", 1, code, 3);
        whole = file.len;
        made_jitdump_load(&file, 2, AT, "g", 2, code, 3);
        all = file.len;
        file.len = len;
        CU_ASSERT_STRING_EQUAL(parsed(&file), len < whole ? "" : "f@7f0000001000+3:1 ");
    }
}

static void hostile(void)
{
    /* Offsets in a record of code: its length, its address, the length of the code, its name. */
    static const struct {
        size_t at;
        uint64_t value;
        size_t bytes;
        const char *why;
    } cases[] = {
        {4, 15, 4, "dump: at 0x28: a record is too short"},
        {4, 55, 4, "dump: at 0x28: a record of code is too short"},
        {4, 57, 4, "dump: at 0x28: a name or its code does not end in its record"},
        {32, UINT64_C(1) << 63, 8, "dump: at 0x28: code at an address that no program has"},
        {32, UINT64_MAX >> 1, 8, "dump: at 0x28: code at an address that no program has"},
        {40, 4, 8, "dump: at 0x28: a name or its code does not end in its record"},
        {40, UINT64_MAX, 8, "dump: at 0x28: a name or its code does not end in its record"},
        {40, 0, 8, "dump: at 0x28: code at an address that no program has"},
    };
    struct bytes file = {0};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        made_jitdump_head(&file, 10, 1);
        made_jitdump_load(&file, 1, AT, "f", 1, code, 3);
        memcpy(file.data + MADE_JITDUMP_HEAD + cases[i].at, &cases[i].value, cases[i].bytes);
        CU_ASSERT_STRING_EQUAL(parsed(&file), cases[i].why);
    }
    made_jitdump_head(&file, 10, 1);
    made_jitdump_load(&file, 1, AT, "f", 1, code, 3);
    made_jitdump_move(&file, 2, AT, UINT64_MAX - 1, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(parsed(&file), "code at an address that no program has"));
}

/* Moves make no more code out of a file than it is long. */
static void moved_for_ever(void)
{
    char much[4096] = {0};
    struct bytes file = {0};
    struct jitdump *dump;
    struct reason why;
    uint64_t bytes = 0;

    made_jitdump_head(&file, 10, 1);
    made_jitdump_load(&file, 1, AT, "f", 1, much, sizeof(much));
    for (unsigned i = 0; i < 1000; i++)
        made_jitdump_move(&file, 2 + i, AT, AT + 0x1000 * i, 1);
    CU_ASSERT_EQUAL_FATAL(jitdump_parse("dump", &file, &dump, &why), 0);
    for (size_t i = 0; i < dump->count; i++)
        bytes += dump->codes[i].len;
    CU_ASSERT_TRUE(dump->is_cut);
    CU_ASSERT_TRUE(bytes > dump->file.len && bytes < 2 * dump->file.len);
    jitdump_free(dump);
}

void add_jitdump_suite(void)
{
    CU_pSuite suite = CU_add_suite("jitdump", NULL, NULL);

    CU_add_test(suite, "records", records);
    CU_add_test(suite, "the head", head);
    CU_add_test(suite, "other files", other_heads);
    CU_add_test(suite, "a file that ends early", cut_off);
    CU_add_test(suite, "hostile records", hostile);
    CU_add_test(suite, "code that is moved for ever", moved_for_ever);
}
