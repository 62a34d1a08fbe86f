/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules about Intel PT that a KVM has to keep for its guest, each with a case that tries it.
 */
#ifndef KVM_LINUX_RULES_H
#define KVM_LINUX_RULES_H

#include <stdbool.h>
#include <stddef.h>

enum verdict { AS_SPECIFIED, NOT_SO, NOT_TRIED };

/* What came of a case, and what KVM did in a few words. */
struct outcome {
    enum verdict verdict;
    char did[160];
};

struct rule {
    const char *name;
    const char *must;    /* what must hold, in a sentence */
    const char *section; /* of chapter 33, or what else says so */
    struct outcome (*test)(void);
    const char *test_name;
};
#define TEST(function) function, #function

struct outcome outcome(enum verdict verdict, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The kernel's warning about an MSR of the host that faulted since kernel_forgets(), or NULL. */
void kernel_forgets(void);
const char *kernel_warned(void);

/* Each file's rules, ended by one without a name. Later ones may leave what bears on the host:
 * a masked interrupt (K14), a driver's output that is set (K1). */
extern const struct rule access_rules[], walk_rules[], run_rules[], host_rules[];

#endif
