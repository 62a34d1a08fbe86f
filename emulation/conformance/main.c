/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs the rules: one line for each, a count for each table, and 'N passed, N failed' at the end.
 * --markdown prints docs/conformance.md instead.
 */
#include "conformance.h"

#include <CUnit/CUnit.h>
#include <CUnit/TestRun.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct table *const files[] = {
    filtering_tables, output_tables, msr_tables,      cpuid_tables, packet_tables,
    event_tables,     vmx_tables,    scenario_tables, power_tables, rtit_tables};
#define FILES (sizeof(files) / sizeof(files[0]))

static unsigned passed, failed, unmet;

/* ---- Short forms for the rules -------------------------------------------------------------- */

struct fake *begin(const char *profile, uint64_t ctl)
{
    struct fake *fake = fake_open(profile);

    fake_start(fake, ctl);
    return fake;
}

void end_at(struct fake *fake, const char *pattern, const char *file, unsigned line)
{
    fake_expect_at(fake, pattern, "packets", file, line);
    fake_close(fake);
}

struct vpt_context at_cpl(uint8_t cpl)
{
    return context_of(cpl);
}

struct vpt_context at_cr3(uint64_t cr3)
{
    struct vpt_context ctx = context_of(0);

    ctx.cr3 = cr3;
    return ctx;
}

struct vpt_context in_mode(enum vpt_exec_mode mode)
{
    struct vpt_context ctx = context_of(0);

    ctx.exec_mode = (uint8_t)mode;
    return ctx;
}

void transfer(struct fake *fake, enum vpt_transfer_type type, struct vpt_context after)
{
    const struct vpt_transfer far = {.type = type,
                                     .vector = 0x31,
                                     .ip = SOURCE,
                                     .target = TARGET,
                                     .cr2 = 0x7000,
                                     .after = after};

    vpt_transfer(&fake->cpu, &far);
}

/* ---- Running -------------------------------------------------------------------------------- */

static void print_failures(const CU_pFailureRecord first)
{
    for (const CU_FailureRecord *f = first; f; f = f->pNext)
        printf("    %s:%u: %s\n", f->strFileName, f->uiLineNumber, f->strCondition);
}

static void after_test(const CU_pTest test, const CU_pSuite suite, const CU_pFailureRecord first)
{
    (void)suite;
    printf("%-6s  %s\n", first ? "FAILED" : "pass", test->pName);
    if (first) {
        print_failures(first);
        failed++;
    } else {
        passed++;
    }
}

static void run_table(const struct table *table)
{
    CU_pSuite suite = CU_add_suite(table->number, NULL, NULL);
    unsigned rows = 0, met = passed;

    printf("\nTable %s: %s\n", table->number, table->title);
    for (const struct rule *rule = table->rules; rule->row; rule++, rows++) {
        char name[512];

        snprintf(name, sizeof(name), "%s, %s: %s", table->number, rule->row, rule->must);
        if (rule->test)
            CU_add_test(suite, name, rule->test);
        else
            printf("%-6s  %s (%s)\n", "unmet", name, rule->unmet);
        unmet += !rule->test;
    }
    CU_run_suite(suite);
    printf("        %s: %u rows, %u pass\n", table->number, rows, passed - met);
}

static int run(const char *only)
{
    if (CU_initialize_registry() != CUE_SUCCESS)
        return EXIT_FAILURE;
    CU_set_test_complete_handler(after_test);
    for (size_t i = 0; i < FILES; i++)
        for (const struct table *table = files[i]; table->number; table++)
            if (!only || strcmp(only, table->number) == 0)
                run_table(table);
    CU_cleanup_registry();
    printf("\n%u rows that a model cannot meet are named above\n", unmet);
    printf("%u passed, %u failed\n", passed, failed);
    return failed || !passed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- The document --------------------------------------------------------------------------- */

static void markdown_table(const struct table *table)
{
    printf("\n## Table %s: %s\n\n| row | what must hold | test |\n| --- | --- | --- |\n",
           table->number, table->title);
    for (const struct rule *rule = table->rules; rule->row; rule++)
        printf("| %s | %s | %s%s |\n", rule->row, rule->must,
               rule->test ? "`make conformance`" : "none: ", rule->test ? "" : rule->unmet);
}

static void markdown(void)
{
    unsigned rules = 0, without = 0;

    for (size_t i = 0; i < FILES; i++)
        for (const struct table *table = files[i]; table->number; table++)
            for (const struct rule *rule = table->rules; rule->row; rule++, rules++)
                without += !rule->test;
    printf("# Conformance\n\nThis file is generated: `make conformance-doc`. Tables are those of "
           "SDM volume 3, chapter 33; each row of a\ntable is a rule with a test of its own "
           "(`emulation/conformance/`). `make conformance` runs them: a line for each\nrule, and "
           "the count of rows for each table. Tables 33-57 and 33-58 have each other's title in "
           "the text; here they are\nnamed by what they hold. Tables \"RTIT n\" are those of the "
           "RTIT Programming Reference v1.05.\n\n%u rules, %u of them without a "
           "test, with the reason.\n",
           rules, without);
    for (size_t i = 0; i < FILES; i++)
        for (const struct table *table = files[i]; table->number; table++)
            markdown_table(table);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--markdown") == 0) {
        markdown();
        return EXIT_SUCCESS;
    }
    if (argc == 3 && strcmp(argv[1], "--table") == 0)
        return run(argv[2]);
    if (argc > 1) {
        fprintf(stderr, "usage: conformance [--markdown | --table NUMBER]\n");
        return 2;
    }
    return run(NULL);
}
