/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the inventory holds together, and its page. */
#include "inventory.h"
#include "conformance.h"

#include <stdio.h>
#include <string.h>

/* In the order of the text. */
static const struct section *const parts[] = {
    filtering_sections, output_sections, guide_sections,
    packet_sections,    vmx_sections,    rtit_sections,
};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

static unsigned count(const struct section *section)
{
    unsigned demands = 0;

    while (section->list[demands].at)
        demands++;
    return demands;
}

/* The table or section that has a rule with the test of the entry; NULL: none. */
static const struct table *rule_of(const struct demand *demand)
{
    const char *file;
    const struct table *table;

    for (size_t i = 0; (table = conformance_tables(i, &file)) != NULL; i++) {
        if (strcmp(file, demand->file) != 0)
            continue;
        for (; table->number; table++)
            for (const struct rule *rule = table->rules; rule->row; rule++)
                if (rule->test && strcmp(rule->name, demand->rule) == 0)
                    return table;
    }
    return NULL;
}

static unsigned check_entry(const struct section *section, const struct demand *demand)
{
    if (!demand->rule == !demand->reason || !demand->what[0]) {
        printf("FAILED  inventory %s, %s: neither a rule nor a reason\n", section->number,
               demand->at);
        return 1;
    }
    if (demand->rule && !rule_of(demand)) {
        printf("FAILED  inventory %s, %s: no rule has the test %s() of %s\n", section->number,
               demand->at, demand->rule, demand->file);
        return 1;
    }
    return 0;
}

static unsigned check_section(const struct section *section)
{
    const unsigned demands = count(section);
    unsigned wrong = 0;

    for (const struct demand *demand = section->list; demand->at; demand++) {
        wrong += check_entry(section, demand);
        for (const struct demand *other = section->list; other < demand; other++)
            if (strcmp(other->at, demand->at) == 0 && strcmp(other->what, demand->what) == 0) {
                printf("FAILED  inventory %s, %s: twice\n", section->number, demand->at);
                wrong++;
            }
    }
    if (demands != section->demands) {
        printf("FAILED  inventory %s: %u entries, but the text has %u sentences\n", section->number,
               demands, section->demands);
        wrong++;
    }
    return wrong;
}

unsigned inventory_check(void)
{
    unsigned wrong = 0, demands = 0, reasons = 0;

    for (size_t i = 0; i < PARTS; i++)
        for (const struct section *section = parts[i]; section->number; section++) {
            wrong += check_section(section);
            demands += count(section);
            for (const struct demand *demand = section->list; demand->at; demand++)
                reasons += demand->reason != NULL;
        }
    printf("\ninventory: %u sentences demand something, %u have a rule, %u a reason\n", demands,
           demands - reasons, reasons);
    return wrong;
}

static void markdown_section(const struct section *section)
{
    printf("\n## %s %s: %u\n\n| at | what it is about | rule |\n| --- | --- | --- |\n",
           section->number, section->title, section->demands);
    for (const struct demand *demand = section->list; demand->at; demand++) {
        const struct table *table = demand->rule ? rule_of(demand) : NULL;

        if (demand->reason)
            printf("| %s | %s | none: %s |\n", demand->at, demand->what, demand->reason);
        else
            printf("| %s | %s | `%s`, %s (%s) |\n", demand->at, demand->what, demand->rule,
                   demand->file, table ? table->number : "?");
    }
}

void inventory_markdown(void)
{
    unsigned demands = 0, reasons = 0;

    for (size_t i = 0; i < PARTS; i++)
        for (const struct section *section = parts[i]; section->number; section++)
            for (const struct demand *demand = section->list; demand->at; demand++, demands++)
                reasons += demand->reason != NULL;
    printf(
        "# Conformance, sentence by sentence\n\n"
        "This file is generated: `make conformance-doc`. It lists the sentences of chapter 33 of\n"
        "SDM volume 3 that demand something, each with the rule of\n"
        "[conformance.md](conformance.md) that holds the model to it, or with the reason why\n"
        "there is none. Sections \"RTIT n\" are those of the RTIT Programming Reference v1.05;\n"
        "there an entry names the section as well, if several stand together. The data stand\n"
        "beside the rules, in `emulation/conformance/inventory_*.c`.\n"
        "`make conformance` fails when an entry names a rule that does not exist, or when a\n"
        "section has another number of entries than the text has demanding sentences. That number\n"
        "stands behind each section's title.\n\n"
        "An entry says where its sentence stands. 3.2 is the second sentence of the section's\n"
        "third block. A block is a paragraph, an item of a list or a formula; titles and tables\n"
        "do not count. Footnotes come last, as n1.2. In a table that defines a packet, D3 is the\n"
        "third sentence or item of the description, F is the format, P are the dependencies, G is\n"
        "the generation scenario, and A the application. The rows of all other tables have rules\n"
        "of their own and are not listed here again.\n\n"
        "%u sentences, %u of them with a rule, %u with a reason.\n",
        demands, demands - reasons, reasons);
    for (size_t i = 0; i < PARTS; i++)
        for (const struct section *section = parts[i]; section->number; section++)
            markdown_section(section);
}
