/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fake owner for the tests of the RTIT model, and a reader of its packets that is written from
 * the figures of chapter 4 alone.
 */
#ifndef VPT_TESTS_RTIT_HARNESS_H
#define VPT_TESTS_RTIT_HARNESS_H

#include "harness.h"
#include "vpt_rtit.h"

#define RTIT_RAM  (1u << 20)
#define RTIT_BASE 0x40000ull

struct rtit_fake {
    struct vpt_rtit cpu;
    struct vpt_clocks clocks;
    uint8_t *ram;
    uint8_t tap[1 << 16]; /* every byte stored, in order */
    size_t tap_len, mark;
    uint64_t last_gpa;
    bool fault; /* memory is not there now */
};

/* Unlocked, output to a ring of 64 KiB. */
struct rtit_fake *rtit_open(uint32_t errata);
void rtit_close(struct rtit_fake *fake);
uint64_t rtit_read(struct rtit_fake *fake, uint32_t msr);
void rtit_write(struct rtit_fake *fake, uint32_t msr, uint64_t value);
bool rtit_takes(struct rtit_fake *fake, uint32_t msr, uint64_t value);

/* CPL 0, CR3 1000H, paging. */
struct vpt_rtit_context rtit_context(uint8_t cpl);
/* Always-on filter; CTL := ctl | OS | Trace_En, then | TraceActive; next is 401000H. Marks. */
struct rtit_fake *rtit_start(uint32_t errata, uint32_t ctl);
/* The same with RANGE0 as the filter, [base, limit). */
struct rtit_fake *rtit_ranged(uint32_t ctl, uint64_t base, uint64_t limit);
void rtit_mark(struct rtit_fake *fake);
/* An event at 401000H of 4 bytes that goes to target, with the context as it is. */
void rtit_do(struct rtit_fake *fake, enum vpt_rtit_kind kind, uint64_t target);
void rtit_branch(struct rtit_fake *fake, bool taken);

/* The packets since the mark: "PSB TNT(TN) PGE(401000) TIP(402000)"; counts as "TIP(402000):7". */
const char *rtit_words(struct rtit_fake *fake);
bool rtit_expect_at(struct rtit_fake *fake, const char *pattern, const char *rule, const char *file,
                    unsigned line);
#define RTIT_EXPECT(fake, pattern, rule) rtit_expect_at(fake, pattern, rule, __FILE__, __LINE__)

/* Whether a bit of RTIT_STATUS is 1. */
bool rtit_status(struct rtit_fake *fake, uint64_t bit);
/* An event of the instruction at 401000H, with the state after it. */
void rtit_event_to(struct rtit_fake *fake, enum vpt_rtit_kind kind, uint64_t target,
                   struct vpt_rtit_context after);

#endif
