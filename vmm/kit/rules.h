/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules that cases of the guest tests name, in our words: what a hypervisor has to do there.
 * Sections and tables are those of chapter 33 of volume 3 of Intel's SDM. Cases of VMX that name no
 * section are known by what they begin with.
 */
#ifndef VMM_KIT_RULES_H
#define VMM_KIT_RULES_H

#include <stddef.h>

struct kit_rule {
    const char *name; /* "33.2.8.2", "Table 33-6", "appendix A"; or "VMX: " and a subject */
    const char *text; /* a sentence */
};

/* The rule that a case's name has in it; NULL: none that is known. */
const struct kit_rule *kit_rule_of(const char *suite, const char *case_name);

/* All of them, to a NULL. */
const struct kit_rule *kit_rule(size_t index);

#endif
