/* SPDX-License-Identifier: BSD-3-Clause */
/* Text of others on a terminal: what is shown as it is, and what as \xNN, or in JSON as \uNNNN. */
#include "suites.h"
#include "common/escape.h"
#include "common/json.h"

#include <CUnit/Basic.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text, *shown; /* NULL: text itself */
} cases[] = {
    {"", NULL},
    {"main+0x10", NULL},
    {"a b~ \\x1b", NULL},
    {"gr\xc3\xb6\xc3\x9f"
     "e",
     NULL},
    {"\xe2\x82\xac \xf0\x9f\x90\xa7", NULL}, /* a sign of three bytes, and one of four */
    {"\xd7\xa9\xd7\x9c", NULL},              /* letters that go from right to left by themselves */
    {"\x1b[31mred", "\\x1b[31mred"},
    {"one\nvpt: two\r", "one\\x0avpt: two\\x0d"},
    {"\t\x01\x1f\x7f", "\\x09\\x01\\x1f\\x7f"},
    {"\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "\\xc2\\x80\\xc2\\x9b\\xc2\\x9f\xc2\xa0"},
    {"\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c",
     "\\xe2\\x80\\xae\\xe2\\x81\\xa6\\xe2\\x80\\x8f\\xd8\\x9c"},
    {"\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa",
     "\xe2\x80\xa7\\xe2\\x80\\xa8\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa"},
    {"\xff\x80z", "\\xff\\x80z"},
    {"cut \xc3", "cut \\xc3"},
    {"cut \xe2\x82", "cut \\xe2\\x82"},
    {"\xc3(", "\\xc3("},
    {"\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf", /* longer than need be */
     "\\xc0\\xaf\\xe0\\x80\\xaf\\xf0\\x80\\x80\\xaf"},
    {"\xed\xa0\x80", "\\xed\\xa0\\x80"}, /* a half of a pair */
    {"\xf4\x8f\xbf\xbf\xf4\x90\x80\x80", "\xf4\x8f\xbf\xbf\\xf4\\x90\\x80\\x80"}, /* the last */
};

static void test_cases(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const want = cases[i].shown ? cases[i].shown : cases[i].text;
        struct escaped room;
        char *text = NULL;
        size_t len;
        FILE *const to = open_memstream(&text, &len);

        CU_ASSERT_EQUAL(is_plain(cases[i].text), !cases[i].shown);
        CU_ASSERT_STRING_EQUAL(escaped(cases[i].text, &room), want);
        CU_ASSERT_PTR_NOT_NULL_FATAL(to);
        put_escaped(cases[i].text, to);
        fclose(to);
        CU_ASSERT_STRING_EQUAL(text, want);
        free(text);
    }
}

/* What is too long for its room ends in front of a byte that would be shown by half. */
static void test_room(void)
{
    char text[2 * ESCAPE_ROOM];
    struct escaped room;
    size_t len;

    memset(text, '\n', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    len = strlen(escaped(text, &room));
    CU_ASSERT(len < ESCAPE_ROOM && len % 4 == 0 && len > ESCAPE_ROOM - 8);
}

/* As JSON, each is plain but for bytes that are no UTF-8, and is read as what it was. */
static const struct {
    const char *text, *json;
} json_cases[] = {
    {"main+0x10", "\"main+0x10\""},
    {"gr\xc3\xb6\xc3\x9f"
     "e \xe2\x82\xac \xf0\x9f\x90\xa7",
     "\"gr\xc3\xb6\xc3\x9f"
     "e \xe2\x82\xac \xf0\x9f\x90\xa7\""},
    {"\x1b[31m\n\x7f", "\"\\u001b[31m\\n\\u007f\""},
    {"\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "\"\\u0080\\u009b\\u009f\xc2\xa0\""},
    {"\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xa8\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa9",
     "\"\\u061c\\u200e\\u200f\\u2028\\u202e\\u2066\\u2069\""},
    {"\xc3(\xe2\x82\xc2\x9b\xff", "\"\xc3(\xe2\x82\\u009b\xff\""},
    {"cut \xe2\x80", "\"cut \xe2\x80\""},
};

static void test_json(void)
{
    for (size_t i = 0; i < sizeof(json_cases) / sizeof(json_cases[0]); i++) {
        json_object *const string = json_object_new_string(json_cases[i].text);
        char *const text = json_text(string, JSON_C_TO_STRING_PLAIN);
        json_object *back;

        CU_ASSERT_PTR_NOT_NULL_FATAL(text);
        if (!text)
            return;
        CU_ASSERT_STRING_EQUAL(text, json_cases[i].json);
        back = json_tokener_parse(text);
        CU_ASSERT_STRING_EQUAL(json_object_get_string(back), json_cases[i].text);
        json_object_put(back);
        json_object_put(string);
        free(text);
    }
}

void add_escape_suite(void)
{
    CU_pSuite suite = CU_add_suite("escape", NULL, NULL);

    CU_add_test(suite, "each kind of character", test_cases);
    CU_add_test(suite, "a text longer than its room", test_room);
    CU_add_test(suite, "JSON", test_json);
}
