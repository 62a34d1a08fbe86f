/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of absent memory: where it is, what a vCPU's access does, and output that waits for
 * it. */
#include "suites.h"
#include "kvm/tracer.h"
#include "common/bytes.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#define ABSENT       0x40000u
#define ABSENT_PAGES 4u
#define ABSENT_BYTES (ABSENT_PAGES * 4096u)
#define CTL_TRACE    (VPT_CTL_BRANCHEN | VPT_CTL_OS | VPT_CTL_TRACEEN)

static struct fake *set_up(void)
{
    struct fake *fake = fake_new();

    fake->options.absent_gpa = ABSENT;
    fake->options.absent_bytes = ABSENT_BYTES;
    fake->vmm.present = calloc(ABSENT_PAGES, 1);
    fake->vmm.has_absent_slot = true; /* there is no KVM to give it to */
    CU_ASSERT_PTR_NOT_NULL_FATAL(fake->vmm.present);
    return fake;
}

static void tear_down(struct fake *fake)
{
    free(fake->vmm.present);
    fake_free(fake);
}

static void test_where(void)
{
    static const struct {
        uint64_t gpa;
        bool absent;
    } cases[] = {{0, false},
                 {ABSENT - 1, false},
                 {ABSENT, true},
                 {ABSENT + ABSENT_BYTES - 1, true},
                 {ABSENT + ABSENT_BYTES, false},
                 {UINT64_MAX, false}};
    struct fake *fake = set_up();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CU_ASSERT_EQUAL(memory_is_absent(&fake->vmm, cases[i].gpa), cases[i].absent);
    tear_down(fake);
    fake = fake_new(); /* all memory is present */
    CU_ASSERT_FALSE(memory_is_absent(&fake->vmm, ABSENT));
    fake_free(fake);
}

static void test_access(void)
{
    struct fake *fake = set_up();
    uint8_t data[8] = {1, 2, 3, 4, 5, 6, 7, 8};

    CU_ASSERT_FALSE(memory_access(&fake->vmm, ABSENT - 8, data, 8, true));
    CU_ASSERT_FALSE(memory_access(&fake->vmm, APIC_BASE, data, 4, true));
    CU_ASSERT_TRUE(memory_is_absent(&fake->vmm, ABSENT));
    CU_ASSERT_TRUE(memory_access(&fake->vmm, ABSENT + 8, data, 8, true));
    CU_ASSERT_EQUAL(fake_get(fake, ABSENT + 8), 0x0807060504030201ull);
    CU_ASSERT_FALSE(memory_is_absent(&fake->vmm, ABSENT + ABSENT_BYTES - 1)); /* all of it */
    memset(data, 0, sizeof(data));
    CU_ASSERT_TRUE(memory_access(&fake->vmm, ABSENT + 12, data, 2, false));
    CU_ASSERT_EQUAL(data[0], 5);
    CU_ASSERT_EQUAL(data[1], 6);
    CU_ASSERT_EQUAL(data[2], 0);
    tear_down(fake);
}

/* ---- Output ---- */

static void translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    struct vcpu *cpu = owner;

    (void)access;
    span->len_bytes = len_bytes;
    span->host = vmm_ram(cpu->vmm, gpa, len_bytes);
    span->kind = memory_is_absent(cpu->vmm, gpa) ? VPT_SPAN_FAULT : VPT_SPAN_RAM;
}

static void wrote(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    struct vcpu *cpu = owner;

    (void)gpa;
    CU_ASSERT_TRUE(bytes_add(&cpu->record->trace, bytes, len_bytes));
}

static void clocks(void *owner, struct vpt_clocks *now)
{
    (void)owner;
    *now = (struct vpt_clocks){.tsc = 1};
}

static const struct vpt_ops ops = {.translate = translate, .wrote = wrote, .clocks = clocks};

/* Two pages and some bytes of trace by indirect jumps, which end in the third page. */
static void trace(struct vcpu *cpu)
{
    const struct vpt_context ctx = {.exec_mode = VPT_EXEC_64};

    vpt_set_context(&cpu->tracer.pt, &ctx);
    CU_ASSERT_EQUAL(vpt_wrmsr(&cpu->tracer.pt, VPT_MSR_OUTPUT_BASE, ABSENT, 0, 0), VPT_OK);
    CU_ASSERT_EQUAL(vpt_wrmsr(&cpu->tracer.pt, VPT_MSR_OUTPUT_MASK_PTRS, ABSENT_BYTES - 1, 0, 0),
                    VPT_OK);
    CU_ASSERT_EQUAL(vpt_wrmsr(&cpu->tracer.pt, VPT_MSR_CTL, CTL_TRACE, 0x1000, 0x1002), VPT_OK);
    tracer_resolve_output(cpu);
    while (cpu->record->trace.len + cpu->tracer.pt.buf_len < 2 * PAGE_BYTES + 100) {
        vpt_jmp_indirect(&cpu->tracer.pt,
                         cpu->tracer.pt.packet_count % 2 ? 0x123456789abcull : 0x1000);
        tracer_resolve_output(cpu);
    }
    CU_ASSERT_EQUAL(vpt_wrmsr(&cpu->tracer.pt, VPT_MSR_CTL, 0, 0x1000, 0x1002), VPT_OK);
    tracer_resolve_output(cpu);
}

static struct fake *traced(bool absent)
{
    struct fake *fake = set_up();
    struct vpt_caps caps;

    CU_ASSERT_TRUE_FATAL(vpt_profile("icelake-server", &caps));
    CU_ASSERT_TRUE_FATAL(vpt_init(&fake->cpu->tracer.pt, &caps, &ops, fake->cpu));
    memset(fake->vmm.present, !absent, ABSENT_PAGES);
    trace(fake->cpu);
    return fake;
}

static void test_output(void)
{
    struct fake *there = traced(false), *absent = traced(true);
    const struct bytes *want = &there->cpu->record->trace, *got = &absent->cpu->record->trace;

    CU_ASSERT_EQUAL(there->cpu->record->output_faults, 0);
    CU_ASSERT_EQUAL(absent->cpu->record->output_faults, 3);
    CU_ASSERT_EQUAL(absent->cpu->tracer.pt.dropped_bytes, 0);
    CU_ASSERT_EQUAL_FATAL(got->len, want->len);
    CU_ASSERT_EQUAL(memcmp(got->data, want->data, want->len), 0);
    CU_ASSERT_EQUAL(memcmp(absent->ram + ABSENT, there->ram + ABSENT, ABSENT_BYTES), 0);
    CU_ASSERT_TRUE(memory_is_absent(&absent->vmm, ABSENT + 3 * PAGE_BYTES)); /* nobody asked */
    tear_down(there);
    tear_down(absent);
}

void add_memory_suite(void)
{
    CU_pSuite suite = CU_add_suite("absent memory", NULL, NULL);

    CU_add_test(suite, "where it is", test_where);
    CU_add_test(suite, "a vCPU's access", test_access);
    CU_add_test(suite, "output goes on without loss", test_output);
}
