/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of vmm/kit/: consoles to cases, commands, rules, and each form of output. */
#include "kit/launch.h"
#include "kit/out.h"
#include "kit/rules.h"
#include "suites.h"

#include <CUnit/CUnit.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void read_all(struct kit_suite *suite, const char *console, size_t piece)
{
    const size_t len = strlen(console);

    kit_suite_begin(suite, "msr-tests");
    for (size_t at = 0; at < len; at += piece)
        CU_ASSERT_EQUAL(kit_suite_read(suite, console + at, len - at < piece ? len - at : piece),
                        0);
}

static const char console[] =
    "\033[2J\033[1;1HSeaBIOS (version 1.16)\r\n"
    "Booting from ROM...\r\n"
    "PASS: IA32_RTIT_CTL[3] User can be set (Table 33-6)\r\n"
    "FAIL: IA32_RTIT_CTL[18] is reserved (Table 33-6) (got no exception, want #GP)\r\n"
    "FAIL: TIP: a target (33.4.2.2)\n"
    "    got : TIP(1)\n"
    "    want: TIP(2)\n"
    "SKIP: PendTopaPMI (Table 33-7) (no PMI (or none) preserved)\n"
    "\033[31mPASS: a line in colour (33.3.1)\033[0m\n"
    "2 passed, 2 failed, 1 skipped\n"
    "PASS: this is behind the end\n";

static void test_cases(void)
{
    for (size_t piece = 1; piece < 400; piece += 57) {
        struct kit_suite suite;

        read_all(&suite, console, piece);
        CU_ASSERT_TRUE(kit_suite_at_end(&suite));
        CU_ASSERT_EQUAL(kit_suite_end(&suite, "nothing"), 0);
        CU_ASSERT_EQUAL_FATAL(suite.count, 5);
        CU_ASSERT_EQUAL(suite.counts[KIT_PASS], 2);
        CU_ASSERT_EQUAL(suite.counts[KIT_FAIL], 2);
        CU_ASSERT_EQUAL(suite.counts[KIT_SKIP], 1);
        CU_ASSERT_STRING_EQUAL(suite.cases[0].name,
                               "IA32_RTIT_CTL[3] User can be set (Table 33-6)");
        CU_ASSERT_STRING_EQUAL(suite.cases[1].name, "IA32_RTIT_CTL[18] is reserved (Table 33-6)");
        CU_ASSERT_STRING_EQUAL(suite.cases[1].reason, "got no exception, want #GP");
        CU_ASSERT_STRING_EQUAL(suite.cases[2].name, "TIP: a target (33.4.2.2)");
        CU_ASSERT_STRING_EQUAL(suite.cases[2].detail, "got : TIP(1)\nwant: TIP(2)\n");
        CU_ASSERT_STRING_EQUAL(suite.cases[3].name, "PendTopaPMI (Table 33-7)");
        CU_ASSERT_STRING_EQUAL(suite.cases[3].reason, "no PMI (or none) preserved");
        CU_ASSERT_STRING_EQUAL(suite.cases[4].name, "a line in colour (33.3.1)");
        kit_suite_free(&suite);
    }
}

/* Consoles that are not whole: each has one failed case more, with these words. */
static void test_ends(void)
{
    static const struct {
        const char *console, *reason;
    } rows[] = {
        {"", "the reason; there is no line but of cases"},
        {"PASS: a\nsomething else\n", "the last line that is no case: something else"},
        {"PASS: a\n2 passed, 0 failed\n", "counts 2 passed, 0 failed, 0 skipped"},
        {"PASS: a\n1 passed, 0 failed, 1 skipped\n", "on the console are 1, 0, 0"},
        {"PASS: a\n1 passed, 0 failed, \n", "no case: 1 passed"},
        {"PASS: a\n1 passed, 0 failed.\n", "no case: 1 passed"},
        {"PASS: a\n-1 passed, 0 failed\n", "counts"},
        {"PASS: a\n99999999999999999999 passed, 0 failed\n", "no case: 999"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kit_suite suite;

        read_all(&suite, rows[i].console, 7);
        CU_ASSERT_EQUAL(kit_suite_end(&suite, "the reason"), 0);
        CU_ASSERT_EQUAL_FATAL(suite.counts[KIT_FAIL], 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(suite.cases[suite.count - 1].reason, rows[i].reason));
        kit_suite_free(&suite);
    }
}

static void test_long_lines(void)
{
    static char bytes[100000];
    struct kit_suite suite;

    memset(bytes, 'x', sizeof(bytes));
    kit_suite_begin(&suite, "x");
    CU_ASSERT_EQUAL(kit_suite_read(&suite, "FAIL: ", 6), 0);
    CU_ASSERT_EQUAL(kit_suite_read(&suite, bytes, sizeof(bytes)), 0);
    CU_ASSERT_EQUAL(kit_suite_read(&suite, "\n", 1), 0);
    for (unsigned i = 0; i < 10000; i++)
        CU_ASSERT_EQUAL_FATAL(kit_suite_read(&suite, "    detail\n", 11), 0);
    CU_ASSERT_EQUAL(suite.count, 1);
    CU_ASSERT_TRUE(strlen(suite.cases[0].name) < 1024);
    CU_ASSERT_TRUE(strlen(suite.cases[0].detail) <= 4096);
    for (unsigned i = 0; i < 120000; i++)
        CU_ASSERT_EQUAL_FATAL(kit_suite_read(&suite, "PASS: a\n", 8), 0);
    CU_ASSERT_EQUAL(kit_suite_end(&suite, NULL), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(suite.cases[suite.count - 1].reason, "more than 100000"));
    kit_suite_free(&suite);
}

static void test_command(void)
{
    const struct kit_machine machine = {.image = "/a b/c'd.elf", .append = "x=1 y", .cpus = 4};
    struct reason why = {""};
    char *text = kit_command("vm -smp {cpus} {image} {append} {other} { {image}", &machine, &why);

    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    assert(text);
    CU_ASSERT_STRING_EQUAL(text,
                           "vm -smp '4' '/a b/c'\\''d.elf' 'x=1 y' {other} { '/a b/c'\\''d.elf'");
    free(text);
    CU_ASSERT_PTR_NULL(kit_command("vm image", &machine, &why));
    CU_ASSERT_PTR_NOT_NULL(strstr(why.text, "{image}"));
}

static void test_rules(void)
{
    static const struct {
        const char *suite, *name, *rule; /* NULL: none */
    } rows[] = {
        {"msr-tests", "IA32_RTIT_CTL[18] is reserved (Table 33-6)", "Table 33-6"},
        {"msr-tests", "(Table 33-59)", "Table 33-59"},
        {"msr-tests", "a state (Tables 33-52 and 33-53)", "Table 33-52"},
        {"packet-tests", "x (33.4.2.2)", "33.4.2.2"},
        {"packet-tests", "x (33.4.2.21)", "33.4.2.21"},
        {"packet-tests", "x (33.4.2, 33.3.1)", "33.4.2"},
        {"packet-tests", "x (133.4.2)", NULL},
        {"packet-tests", "x 33.99", NULL},
        {"packet-tests", "33.4.2.999", NULL},
        {"packet-tests", "guest CR0: x", NULL},
        {"vmx-tests", "guest CR0: x", "VMX: guest"},
        {"vmx-tests", "PT, guest alone (33.5.2.2)", "33.5.2.2"},
        {"vmx-tests", "the default1 class is 1 (A.2)", "A.2"},
        {"vmx-tests", "fields (appendix A)", "appendix A"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct kit_rule *const rule = kit_rule_of(rows[i].suite, rows[i].name);

        CU_ASSERT_EQUAL(rule == NULL, rows[i].rule == NULL);
        if (rule && rows[i].rule)
            CU_ASSERT_STRING_EQUAL(rule->name, rows[i].rule);
    }
}

/* What a guest may say to be taken for something else by whoever reads the output. */
static const char hostile[] =
    "FAIL: a # SKIP \\ <b> & \"q\" \xff\xe2\x80\xae (33.3.1) (got ]]> \x01 -->, want ' \")\n"
    "    ...\n"
    "    ok 7 - planted\n"
    "SKIP: s # TODO (why # not)\n"
    "0 passed, 1 failed, 1 skipped\n";

static char *output_of(enum kit_format format)
{
    struct kit_suite suite;
    struct kit_out out;
    char *text = NULL;
    size_t bytes = 0;
    FILE *const to = open_memstream(&text, &bytes);

    CU_ASSERT_PTR_NOT_NULL_FATAL(to);
    read_all(&suite, hostile, 5);
    CU_ASSERT_EQUAL(kit_suite_end(&suite, NULL), 0);
    kit_out_begin(&out, to, format, true);
    kit_out_suite(&out, &suite);
    CU_ASSERT_EQUAL(kit_out_end(&out), 0);
    CU_ASSERT_EQUAL(out.counts[KIT_FAIL], 1);
    fclose(to);
    kit_suite_free(&suite);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    return text;
}

static void test_output(void)
{
    static const struct {
        enum kit_format format;
        const char *has, *has_not;
    } rows[] = {
        {KIT_TEXT, "FAIL: msr-tests: a # SKIP", "\xff"},
        {KIT_TEXT, "      33.3.1: CPUID.7.0:EBX[25]", "\001"},
        {KIT_TAP, "not ok 1 - msr-tests: a \\# SKIP \\\\ <b>", "a # SKIP"},
        {KIT_TAP, "ok 2 - msr-tests: s \\# TODO # SKIP why \\# not\n", "\nok 7"},
        {KIT_TAP, "\n1..2\n", "\n  ok 7"},
        {KIT_JUNIT, "&lt;b&gt; &amp; &quot;q&quot; ????", "<b>"},
        {KIT_JUNIT, "]]&gt;", "\001"},
        {KIT_JSON, "\"rule\":\"33.3.1\"", "\001"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *const text = output_of(rows[i].format);

        CU_ASSERT_PTR_NOT_NULL(strstr(text, rows[i].has));
        CU_ASSERT_PTR_NULL(strstr(text, rows[i].has_not));
        free(text);
    }
}

void add_kit_suite(void)
{
    const CU_pSuite suite = CU_add_suite("the kit of guest tests", NULL, NULL);

    CU_add_test(suite, "cases of a console, in any pieces", test_cases);
    CU_add_test(suite, "consoles that are not whole", test_ends);
    CU_add_test(suite, "lines, details and cases without end", test_long_lines);
    CU_add_test(suite, "the command", test_command);
    CU_add_test(suite, "the rule of a case", test_rules);
    CU_add_test(suite, "hostile names in each form", test_output);
}
