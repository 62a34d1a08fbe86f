/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inventory: every sentence of the specification that demands something, with the rule that
 * holds the model to it, or the reason why there is none. No sentence is copied: an entry says
 * where the sentence stands and names what it is about in our own words. Sentences that explain,
 * or say what will be said elsewhere, are left out. So are the rows of tables that have a rule
 * each (conformance.h).
 */
#ifndef VPT_INVENTORY_H
#define VPT_INVENTORY_H

#include <stddef.h>

struct demand {
    /*
     * "3.2" is the second sentence of the section's third block. A block is a paragraph, an item of
     * a list, or a formula. Titles and tables are none. Footnotes come last, as "n1.2". Of a table
     * that defines a packet, "33-26 D3" is the third sentence or item of its description; F is the
     * format, P the dependencies, G the generation scenario, A the application.
     */
    const char *at;
    const char *what;   /* what it is about */
    const char *file;   /* of the rule, */
    const char *rule;   /*   and the name of its test */
    const char *reason; /* why it has none, if rule is NULL */
};
/* RULE(filtering, cpl_none) is the rule with the test cpl_none() of filtering.c. */
#define RULE(file, test) #file ".c", #test, NULL
#define NONE(reason)     NULL, NULL, reason

/* Reasons that come again and again. */
#define SOFTWARE "asks something of the software that traces"
#define DECODER  "asks something of decoders; `decoder/` has the tests"
#define OWNER    "the owner of the model does it, not the model"
#define HARDWARE "about caches, buses or delays, which a model does not have"
#define PERMITS  "permits, and demands nothing"

/* A section, or the part of it below a title of its own ("33.2.5.3 TraceStop"). */
struct section {
    const char *number;
    const char *title;
    unsigned demands;          /* how many sentences of the text demand something */
    const struct demand *list; /* in the text's order, ended by one without .at */
};

/* Each file's sections in the text's order, ended by one without number. */
extern const struct section filtering_sections[], output_sections[], guide_sections[],
    packet_sections[], vmx_sections[], rtit_sections[];

/* Says which entries are wrong, one line each. How many there are. */
unsigned inventory_check(void);
/* Prints docs/conformance-text.md. */
void inventory_markdown(void);

#endif
