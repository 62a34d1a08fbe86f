/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs the rules: one line for each, a count for each table, and 'N passed, N failed' at the end.
 * --markdown prints docs/conformance.md instead, --inventory docs/conformance-text.md, --list the
 * tables and sections.
 */
#include "conformance.h"
#include "inventory.h"

#include <CUnit/CUnit.h>
#include <CUnit/TestRun.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order of the document. */
static const struct {
    const char *name;
    const struct table *tables;
} files[] = {
    {"flow.c", flow_tables},
    {"filtering.c", filtering_tables},
    {"enables.c", enable_tables},
    {"output.c", output_tables},
    {"topa.c", topa_tables},
    {"enabling.c", enabling_tables},
    {"msrs.c", msr_tables},
    {"features.c", feature_tables},
    {"cpuid.c", cpuid_tables},
    {"packets.c", packet_tables},
    {"compression.c", compression_tables},
    {"cycles.c", cycle_tables},
    {"sync.c", sync_tables},
    {"blocks.c", block_tables},
    {"formats.c", format_tables},
    {"depends.c", depends_tables},
    {"generation.c", generation_tables},
    {"generation_time.c", generation_time_tables},
    {"generation_events.c", generation_event_tables},
    {"events.c", event_tables},
    {"vmx.c", vmx_tables},
    {"vmx_operation.c", vmx_operation_tables},
    {"vmx_use.c", vmx_use_tables},
    {"ept.c", ept_tables},
    {"scenarios.c", scenario_tables},
    {"power.c", power_tables},
    {"time.c", time_tables},
    {"rtit.c", rtit_tables},
    {"rtit_msrs.c", rtit_msr_tables},
    {"rtit.c", rtit_packet_tables},
    {"rtit_text.c", rtit_text_tables},
    {"rtit_ch4.c", rtit_ch4_tables},
};
#define FILES (sizeof(files) / sizeof(files[0]))

const struct table *conformance_tables(size_t index, const char **file)
{
    if (index >= FILES)
        return NULL;
    *file = files[index].name;
    return files[index].tables;
}

static unsigned passed, failed, unmet;

/* ---- Short forms for the rules -------------------------------------------------------------- */

struct fake *open_profile(size_t index)
{
    struct fake *fake = fake_open(vpt_profile_name(index));

    if (fake->caps.supported)
        return fake;
    fake_close(fake);
    return NULL;
}

struct fake *begin(const char *profile, uint64_t ctl)
{
    struct fake *fake = fake_open(profile);

    fake_start(fake, ctl);
    return fake;
}

struct fake *begin_caps(const struct vpt_caps *caps, uint64_t ctl)
{
    struct fake *fake = fake_open_caps(caps);

    fake_start(fake, ctl);
    return fake;
}

struct fake *begin_range(const char *profile, unsigned cfg, uint64_t first, uint64_t last,
                         uint64_t ctl)
{
    struct fake *fake = fake_open(profile);

    fake_write(fake, VPT_MSR_ADDR0_A, first);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, last);
    fake_start(fake, ctl | (uint64_t)cfg << VPT_CTL_ADDR_CFG_SHR);
    return fake;
}

void so_far_at(struct fake *fake, const char *pattern, const char *file, unsigned line)
{
    const char *words = fake_words(fake, false);

    check_at(words_match(pattern, words), file, line, "expected [%s], got [%s]", pattern, words);
    fake_mark(fake);
}

void end_at(struct fake *fake, const char *pattern, const char *file, unsigned line)
{
    fake_expect_at(fake, pattern, "packets", file, line);
    fake_close(fake);
}

void end_quietly(struct fake *fake)
{
    fake_stop(fake);
    fake_close(fake);
}

void bytes_at(struct fake *fake, const uint8_t *bytes, size_t count, const char *file,
              unsigned line)
{
    const uint8_t *got;
    char spelled[3 * 40 + 1] = "";
    size_t n;

    vpt_flush(&fake->cpu);
    got = fake->tap + fake->mark;
    n = fake->tap_len - fake->mark;
    for (size_t i = 0; i < n && i < 40; i++)
        snprintf(spelled + 3 * i, 4, " %02x", got[i]);
    check_at(n == count && memcmp(got, bytes, n) == 0, file, line, "%zu bytes:%s", n, spelled);
    end_quietly(fake);
}

enum vpt_result wrmsr(struct fake *fake, uint32_t msr, uint64_t value)
{
    return vpt_wrmsr(&fake->cpu, msr, value, IP_ON, IP_START);
}

bool reads(struct fake *fake, uint32_t msr)
{
    uint64_t value;

    return vpt_rdmsr(&fake->cpu, msr, &value) == VPT_OK;
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

static unsigned count(const struct table *table)
{
    unsigned rules = 0;

    while (table->rules[rules].row)
        rules++;
    return rules;
}

/* "Table 33-6", "Section 33.2.5.1". */
static const char *kind(const struct table *table)
{
    return table->rows ? "Table" : "Section";
}

/* Whether the table has a rule for each row of the text. */
static void check_rows(const struct table *table, unsigned rules)
{
    if (!table->rows || rules == table->rows)
        return;
    printf("FAILED  %s: the text has %u rows\n", table->number, table->rows);
    failed++;
}

static void run_table(const struct table *table)
{
    CU_pSuite suite = CU_add_suite(table->number, NULL, NULL);
    const unsigned rules = count(table), met = passed;

    printf("\n%s %s: %s\n", kind(table), table->number, table->title);
    for (const struct rule *rule = table->rules; rule->row; rule++) {
        char name[512];

        snprintf(name, sizeof(name), "%s, %s: %s", table->number, rule->row, rule->must);
        if (rule->test)
            CU_add_test(suite, name, rule->test);
        else
            printf("%-6s  %s (%s)\n", "unmet", name, rule->unmet);
        unmet += !rule->test;
    }
    CU_run_suite(suite);
    printf("        %s: %u %s, %u pass\n", table->number, rules, table->rows ? "rows" : "rules",
           passed - met);
    check_rows(table, rules);
}

static int run(const char *only)
{
    if (CU_initialize_registry() != CUE_SUCCESS)
        return EXIT_FAILURE;
    CU_set_test_complete_handler(after_test);
    for (size_t i = 0; i < FILES; i++)
        for (const struct table *table = files[i].tables; table->number; table++)
            if (!only || strcmp(only, table->number) == 0)
                run_table(table);
    CU_cleanup_registry();
    if (!only)
        failed += inventory_check();
    printf("\n%u rows that a model cannot meet are named above\n", unmet);
    printf("%u passed, %u failed\n", passed, failed);
    return failed || !passed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- Lists ---------------------------------------------------------------------------------- */

static int list(void)
{
    for (size_t i = 0; i < FILES; i++)
        for (const struct table *table = files[i].tables; table->number; table++)
            printf("%-12s %3u %s: %s\n", table->number, count(table),
                   table->rows ? "rows " : "rules", table->title);
    return EXIT_SUCCESS;
}

static void markdown_table(const struct table *table, const char *file)
{
    printf("\n## %s %s: %s\n\n| row | what must hold | test |\n| --- | --- | --- |\n", kind(table),
           table->number, table->title);
    for (const struct rule *rule = table->rules; rule->row; rule++)
        if (rule->test)
            printf("| %s | %s | `%s`, %s |\n", rule->row, rule->must, rule->name, file);
        else
            printf("| %s | %s | none: %s |\n", rule->row, rule->must, rule->unmet);
}

static int markdown(void)
{
    unsigned rules = 0, without = 0;

    for (size_t i = 0; i < FILES; i++)
        for (const struct table *table = files[i].tables; table->number; table++)
            for (const struct rule *rule = table->rules; rule->row; rule++, rules++)
                without += !rule->test;
    printf(
        "# Conformance\n\n"
        "This file is generated: `make conformance-doc`. Tables and sections are those of\n"
        "SDM volume 3, chapter 33. Each row of a table is a rule with a test of its own. So\n"
        "is what sections say and no table does; [conformance-text.md](conformance-text.md)\n"
        "goes through their sentences. The tests stand in `emulation/conformance/`. `make\n"
        "conformance` runs them all, and prints a line for each rule and the count of rows for\n"
        "each table. `build/tests/conformance --table 33-6` runs those of one table or section.\n"
        "The [glossary](glossary.md) explains the terms.\n\n"
        "Tables 33-57 and 33-58 have each other's title in the text; here they are named by\n"
        "what they hold. Tables \"RTIT n\" are those of the RTIT Programming Reference v1.05.\n\n"
        "%u rules, %u of them without a test, with the reason.\n",
        rules, without);
    for (size_t i = 0; i < FILES; i++)
        for (const struct table *table = files[i].tables; table->number; table++)
            markdown_table(table, files[i].name);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc == 1)
        return run(NULL);
    if (argc == 2 && strcmp(argv[1], "--markdown") == 0)
        return markdown();
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list();
    if (argc == 2 && strcmp(argv[1], "--inventory") == 0) {
        inventory_markdown();
        return EXIT_SUCCESS;
    }
    if (argc == 3 && strcmp(argv[1], "--table") == 0)
        return run(argv[2]);
    fprintf(stderr, "usage: conformance [--list | --markdown | --inventory | --table NUMBER]\n");
    return 2;
}
