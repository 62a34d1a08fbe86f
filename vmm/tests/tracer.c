/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of what traces a vCPU: which of PT and RTIT answers, and a trace that has no memory.
 */
#include "suites.h"
#include "kvm/notes.h"
#include "kvm/tracer.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <string.h>

#define OUTPUT    0x40000u
#define CTL_TRACE (VPT_CTL_BRANCHEN | VPT_CTL_OS | VPT_CTL_TRACEEN)
#define NOTE      0x30000u

static struct fake *with_profile(const char *profile)
{
    struct fake *fake = fake_new();
    struct vpt_caps caps;

    CU_ASSERT_TRUE_FATAL(vpt_profile(profile, &caps));
    CU_ASSERT_EQUAL_FATAL(tracer_create(fake->cpu, &caps), 0);
    return fake;
}

static enum vpt_result write_msr(struct fake *fake, uint32_t msr, uint64_t value)
{
    return tracer_wrmsr(fake->cpu, msr, value, 0x1000, 0x1002);
}

static void test_which(void)
{
    static const struct {
        const char *profile;
        uint32_t msr;
        enum vpt_result result;
    } cases[] = {{"icelake-server", VPT_MSR_CTL, VPT_OK},
                 {"icelake-server", VPT_RTIT_CTL, VPT_GP},
                 {"silvermont", VPT_MSR_CTL, VPT_GP},
                 {"silvermont", VPT_RTIT_CTL, VPT_OK}};
    uint64_t value;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = with_profile(cases[i].profile);

        CU_ASSERT_EQUAL(tracer_rdmsr(fake->cpu, cases[i].msr, &value), cases[i].result);
        CU_ASSERT_FALSE(tracer_trigger_en(&fake->cpu->tracer));
        fake_free(fake);
    }
}

/* Bytes that no memory can be had for: an array as long as there are addresses. */
static void exhaust(struct bytes *bytes)
{
    *bytes = (struct bytes){.len = SIZE_MAX - 7, .capacity = SIZE_MAX - 7};
}

static void test_no_memory_for_the_trace(void)
{
    struct fake *fake = with_profile("icelake-server");
    struct bytes *const trace = &fake->cpu->record->trace;

    CU_ASSERT_EQUAL(write_msr(fake, VPT_MSR_OUTPUT_BASE, OUTPUT), VPT_OK);
    CU_ASSERT_EQUAL(write_msr(fake, VPT_MSR_OUTPUT_MASK_PTRS, PAGE_BYTES - 1), VPT_OK);
    exhaust(trace);
    CU_ASSERT_EQUAL(write_msr(fake, VPT_MSR_CTL, CTL_TRACE), VPT_OK);
    tracer_end(fake->cpu);
    CU_ASSERT_EQUAL(fake->vmm.error, -ENOMEM);
    CU_ASSERT_STRING_EQUAL(fake->result.why, "no memory for the trace");
    *trace = (struct bytes){0};
    fake_free(fake);
}

static void test_no_memory_for_a_note(void)
{
    struct fake *fake = with_profile("icelake-server");
    struct bytes *const handed = &fake->cpu->record->handed;

    fake_put(fake, NOTE, 1 | 24ull << 32);
    fake_put(fake, NOTE + 8, OUTPUT);
    fake_put(fake, NOTE + 16, 16);
    exhaust(handed);
    note_received(fake->cpu, NOTE);
    CU_ASSERT_EQUAL(fake->vmm.error, -ENOMEM);
    *handed = (struct bytes){0};
    fake_free(fake);
}

/* A guest sets its TSC to 2^40: what is not the TSC goes on (SDM 33.8.3.1). */
static void test_written_tsc(void)
{
    const uint64_t tsc = 123456789, written = 1ull << 40;
    struct vpt_clocks before, after;
    struct vpt_caps caps;

    CU_ASSERT_TRUE_FATAL(vpt_profile("icelake-server", &caps));
    tracer_clocks(&caps, tsc, 0, &before);
    tracer_clocks(&caps, written, written - tsc, &after);
    CU_ASSERT_EQUAL(after.tsc, written);
    CU_ASSERT_EQUAL(after.art, before.art);
    CU_ASSERT_EQUAL(after.fast, before.fast);
    CU_ASSERT_EQUAL(after.cycles, before.cycles);
    CU_ASSERT_EQUAL(before.art, tsc * caps.tsc_den / caps.tsc_num);
}

/* What a guest brings along, and not the name of its profile, says what its trace is like. */
static void test_moved(void)
{
    struct fake *const from = fake_new(), *const to = with_profile("skylake");
    uint8_t saved[VPT_SAVE_MAX_BYTES];
    struct vpt_caps caps;

    CU_ASSERT_TRUE_FATAL(vpt_profile("skylake", &caps));
    caps.choices = (struct vpt_choices){0};
    caps.deferred_tips = true;
    CU_ASSERT_EQUAL_FATAL(tracer_create(from->cpu, &caps), 0);
    tracer_conclude(to->cpu);
    CU_ASSERT_EQUAL(to->cpu->record->model, 94);
    CU_ASSERT_EQUAL(to->cpu->record->deferred_tips, 0);
    CU_ASSERT_PTR_NULL(tracer_restore(to->cpu, saved, tracer_save(from->cpu, saved)));
    tracer_conclude(to->cpu);
    CU_ASSERT_EQUAL(to->cpu->record->family, 0);
    CU_ASSERT_EQUAL(to->cpu->record->model, 0);
    CU_ASSERT_EQUAL(to->cpu->record->stepping, 0);
    CU_ASSERT_EQUAL(to->cpu->record->deferred_tips, 1);
    fake_free(from);
    fake_free(to);
}

void add_tracer_suite(void)
{
    CU_pSuite suite = CU_add_suite("tracer", NULL, NULL);

    CU_add_test(suite, "PT or RTIT", test_which);
    CU_add_test(suite, "a TSC that the guest wrote", test_written_tsc);
    CU_add_test(suite, "a guest that moved here", test_moved);
    CU_add_test(suite, "no memory for the trace", test_no_memory_for_the_trace);
    CU_add_test(suite, "no memory for a note", test_no_memory_for_a_note);
}
