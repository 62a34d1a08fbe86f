/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The saved processor (docs/save-format.md): streams go on bit for bit, bad bytes are refused, and
 * no member of struct vpt_cpu is forgotten.
 */
#include "save.h"
#include "harness.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CTL (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN)

/* ---- A stream that moves from processor to processor ---------------------------------------- */

static void migrate(struct fake *fake)
{
    uint8_t bytes[VPT_SAVE_MAX_BYTES];
    const size_t len = vpt_save(&fake->cpu, bytes, sizeof(bytes));
    const struct vpt_ops *ops = fake->cpu.ops;
    const char *wrong;

    struct vpt_caps other = fake->caps;

    other.choices = (struct vpt_choices){.psb_twice = true, .layout = VPT_LAYOUT_WHOLE};
    other.long_tnt = other.deferred_tips = false;
    memset(&fake->cpu, 0xa5, sizeof(fake->cpu));
    CHECK(vpt_init(&fake->cpu, &other, ops, fake), "vpt_init");
    wrong = vpt_restore(&fake->cpu, bytes, len);
    CHECK(len > 0 && !wrong, "restore: %s", wrong ? wrong : "");
}

static struct fake *stream(const struct vpt_caps *caps, uint64_t ctl, bool migrating)
{
    struct fake *fake = fake_open_caps(caps);
    uint64_t seed = ctl ^ 12345;

    vpt_vmxon(&fake->cpu, 0x400000);
    fake_start(fake, ctl);
    for (unsigned i = 0; i < 6000; i++) {
        const uint64_t r = fake_random(&seed), ip = 0x400000 + fake_random(&seed) % 0x4000000;

        fake->clocks.tsc += r % 300;
        fake->clocks.cycles += r % 200;
        fake->clocks.art = fake->clocks.tsc / 84;
        if (r % 16 < 12)
            fake_branch(fake, r / 16, ip);
        else
            fake_event(fake, r / 16, ip);
        if (migrating)
            migrate(fake);
    }
    fake_stop(fake);
    return fake;
}

static void test_streams(void)
{
    static const uint64_t more[] = {
        0,
        VPT_CTL_TSCEN | VPT_CTL_MTCEN | VPT_CTL_CYCEN,
        VPT_CTL_PTWEN | VPT_CTL_FUPONPTW | VPT_CTL_PWREVTEN,
        VPT_CTL_EVENTEN | VPT_CTL_CR3FILTER,
        VPT_CTL_DISRETC | VPT_CTL_DISTNT | VPT_CTL_CYCEN,
        (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR,
    };

    for (size_t i = 0; i < 2 * sizeof(more) / sizeof(more[0]); i++) {
        struct vpt_caps caps;
        struct fake *whole, *moved;

        vpt_profile("max", &caps);
        caps.long_tnt = i & 1;
        caps.deferred_tips = i & 1;
        whole = stream(&caps, CTL | more[i / 2], false);
        moved = stream(&caps, CTL | more[i / 2], true);
        CHECK(whole->tap_len > 4000 && whole->tap_len == moved->tap_len &&
                  memcmp(whole->tap, moved->tap, whole->tap_len) == 0,
              "case %zu: %zu bytes, %zu bytes", i, whole->tap_len, moved->tap_len);
        fake_close(whole);
        fake_close(moved);
    }
}

/* Moved in each state of the queue. */
static void test_waiting_moves(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct fake *whole, *moved;

    caps.choices.tips_wait = true;
    whole = stream(&caps, CTL, false);
    moved = stream(&caps, CTL, true);
    CHECK(whole->tap_len > 4000 && whole->tap_len == moved->tap_len &&
              memcmp(whole->tap, moved->tap, whole->tap_len) == 0,
          "%zu bytes, %zu bytes", whole->tap_len, moved->tap_len);
    fake_close(whole);
    fake_close(moved);
}

/* Choices move with the processor, whatever the other side would choose. */
static void test_choices_move(void)
{
    static const char *const names[] = {"broadwell", "skylake", "icelake-client"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const uint64_t more = i ? VPT_CTL_TSCEN | VPT_CTL_MTCEN | VPT_CTL_CYCEN : 0;
        struct vpt_caps caps = plain_caps("max"), of;
        struct fake *whole, *moved;

        vpt_profile(names[i], &of);
        caps.choices = of.choices;
        caps.psb_align_bytes = of.psb_align_bytes;
        whole = stream(&caps, CTL | more, false);
        moved = stream(&caps, CTL | more, true);
        CHECK(whole->tap_len > 4000 && whole->tap_len == moved->tap_len &&
                  memcmp(whole->tap, moved->tap, whole->tap_len) == 0,
              "%s: %zu bytes, %zu bytes", names[i], whole->tap_len, moved->tap_len);
        fake_close(whole);
        fake_close(moved);
    }
}

/* ---- States of before choices were data ------------------------------------------------------ *
 * saved/NAME.state was saved by such a version, after work() from 0 to WORK_SAVED on the profile
 * NAME; NAME.packets are the bytes that it wrote from there to the end of the trace.
 */

#define WORK_SAVED 203u
#define WORK_ALL   1200u

static void work(struct fake *fake, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        const uint64_t ip = 0x401000 + 64 * (uint64_t)i;
        struct vpt_context after = context_of(i & 16 ? 3 : 0);

        fake->clocks.tsc += 100;
        fake->clocks.art = fake->clocks.tsc / 84;
        fake->clocks.cycles += 90;
        vpt_cond_branch(&fake->cpu, ip, i & 1);
        if (i % 3 == 0)
            vpt_jmp_indirect(&fake->cpu, ip << (i % 5));
        if (i % 4 == 0)
            vpt_call_direct(&fake->cpu, ip, ip + 5);
        if (i % 8 == 1)
            vpt_ret(&fake->cpu, ip - 59);
        if (i % 16 == 0)
            fake_transfer(fake, i & 16 ? VPT_IRET : VPT_INTERRUPT, ip, ip + 16, &after);
    }
}

static size_t read_saved(const char *profile, const char *kind, uint8_t *bytes, size_t room)
{
    char name[128];
    FILE *file;
    size_t len;

    snprintf(name, sizeof(name), "emulation/tests/saved/%s.%s", profile, kind);
    file = fopen(name, "rb");
    if (!file)
        abort(); /* the tests run in the root of the tree */
    len = fread(bytes, 1, room, file);
    fclose(file);
    return len;
}

/* Where a field's value stands in the saved bytes; such a field must exist. */
static uint8_t *value_of(uint8_t *bytes, size_t len, const char *member)
{
    for (size_t at = 12; at < len;) {
        const unsigned number = bytes[at] | (unsigned)bytes[at + 1] << 8;

        for (size_t i = 0; i < vpt_saved_field_count; i++) {
            if (vpt_saved_fields[i].number != number)
                continue;
            if (strcmp(vpt_saved_fields[i].member, member) == 0)
                return bytes + at + 8;
            at += 8 + (size_t)vpt_saved_fields[i].size * vpt_saved_fields[i].count;
            break;
        }
    }
    CHECK(false, "no field %s", member);
    abort();
}

/* Entries of the CALL stack that do not count, which say nothing. */
static void blank_ret_stack(uint8_t *bytes, size_t len)
{
    const unsigned top = *value_of(bytes, len, "ret_top");

    for (unsigned i = *value_of(bytes, len, "ret_count"); i < VPT_RET_STACK; i++)
        memset(value_of(bytes, len, "ret_stack") +
                   sizeof(uint64_t) * ((top + VPT_RET_STACK - 1u - i) % VPT_RET_STACK),
               0, sizeof(uint64_t));
}

static void test_older(void)
{
    static const char *const names[] = {"broadwell", "skylake", "icelake-server", "max"};
    static uint8_t state[VPT_SAVE_MAX_BYTES], again[VPT_SAVE_MAX_BYTES], packets[8192];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const size_t state_len = read_saved(names[i], "state", state, sizeof(state));
        const size_t packets_len = read_saved(names[i], "packets", packets, sizeof(packets));
        const uint64_t ticks = 100ull * WORK_SAVED;
        struct vpt_caps caps;
        struct fake *fake;
        const char *wrong;

        vpt_profile(names[i], &caps);
        fake = fake_open_caps(&caps);
        fake_output(fake);
        wrong = vpt_restore(&fake->cpu, state, state_len);
        CHECK(!wrong, "%s: %s", names[i], wrong ? wrong : "");
        blank_ret_stack(state, state_len);
        CHECK(vpt_save(&fake->cpu, again, sizeof(again)) == state_len &&
                  memcmp(state, again, state_len) == 0,
              "%s: an older version could go on with it", names[i]);
        fake->clocks.tsc += ticks;
        fake->clocks.cycles += 90ull * WORK_SAVED;
        work(fake, WORK_SAVED, WORK_ALL);
        fake_stop(fake);
        CHECK(fake->tap_len == packets_len && memcmp(fake->tap, packets, packets_len) == 0,
              "%s: %zu bytes instead of %zu, or others", names[i], fake->tap_len, packets_len);
        fake_close(fake);
    }
}

/* ---- Bad bytes ------------------------------------------------------------------------------ */

static void test_refused(void)
{
    struct vpt_caps caps = plain_caps("max"), other = plain_caps("skylake");
    struct fake *fake = fake_open_caps(&caps);
    uint8_t bytes[VPT_SAVE_MAX_BYTES] = {0}, bad[VPT_SAVE_MAX_BYTES] = {0};
    uint8_t before[VPT_SAVE_MAX_BYTES] = {0}, after[VPT_SAVE_MAX_BYTES] = {0};
    struct vpt_cpu cpu;
    size_t len;

    fake_start(fake, CTL);
    fake_noise(fake, 300);
    len = vpt_save(&fake->cpu, bytes, sizeof(bytes));
    CHECK(len > 0 && vpt_save(&fake->cpu, bytes, len - 1) == 0, "a buffer that is too small");
    len = vpt_save(&fake->cpu, bytes, sizeof(bytes));

    CHECK(vpt_init(&cpu, &other, fake->cpu.ops, fake) && vpt_restore(&cpu, bytes, len) != NULL,
          "another processor's capabilities");
    CHECK(vpt_init(&cpu, &caps, fake->cpu.ops, fake), "vpt_init");
    CHECK(vpt_save(&cpu, before, sizeof(before)) > 0, "vpt_save");
    for (size_t cut = 0; cut < len; cut++)
        CHECK(vpt_restore(&cpu, bytes, cut) != NULL, "cut at %zu", cut);
    /* magic, version, length, the first record's number, size and count */
    for (size_t at = 0; at < 20; at++) {
        memcpy(bad, bytes, len);
        bad[at] ^= 0x40;
        CHECK(vpt_restore(&cpu, bad, len) != NULL, "byte %zu", at);
    }
    /* One record twice, and another of the same form not at all. */
    memcpy(bad, bytes, len);
    value_of(bad, len, "stalled")[-8]--; /* now boundary_due, which stands before it */
    CHECK(vpt_restore(&cpu, bad, len) != NULL, "a record twice");
    CHECK(vpt_save(&cpu, after, sizeof(after)) > 0 && memcmp(before, after, sizeof(after)) == 0,
          "a refused state leaves no trace");
    CHECK(vpt_restore(&cpu, bytes, len) == NULL, "the good one");
    fake_stop(fake);
    fake_close(fake);
}

/* A byte of a saved member that cannot be. */
static const struct {
    const char *member;
    unsigned byte;
    uint8_t value;
} impossible[] = {
    {"tnt", 0, 0},
    {"tnt", 2, 0xff},
    {"tnt_full", 0, 1},
    {"ret_top", 0, 64},
    {"ret_count", 0, 65},
    {"ctl", 2, 4},
    {"ctl", 0, 0},
    {"status", 0, 0x10},
    {"status", 0, 8},
    {"cr3_match", 0, 1},
    {"output_base", 0, 1},
    {"output_mask_ptrs", 0, 0},
    {"output_mask_ptrs", 7, 1},
    {"addr", 7, 0x40},
    {"perf_global_ctrl", 7, 1},
    {"trigger_en", 0, 2},
    {"trigger_en", 0, 0},
    {"packet_en", 0, 0},
    {"ctx.cpl", 0, 4},
    {"ctx.exec_mode", 0, 3},
    {"deferred_count", 0, 17},
    {"region_base", 0, 1},
    {"region_base", 7, 1},
    {"region_bytes", 0, 1},
    {"region_bytes", 1, 0x30},
    {"region_bytes", 4, 1},
    {"perf_global_status", 0, 1},
    {"in_tx", 0, 1},
    {"deferred_count", 0, 1},
    {"fault_access", 0, 2},
    {"fault_gpa", 7, 1},
    {"buf_len", 1, 5},
    {"caps.psb_align_bytes", 0, 3},
    {"caps.choices.layout", 0, 9},
    {"caps.choices.fup_full", 0, 2},
    {"caps.choices.psb_early_bytes", 1, 8},
    {"caps.choices.psb_order", 6, 1},
    {"caps.deferred_tips", 0, 1},
};

static void expect_refused(struct fake *fake, const uint8_t *bytes, size_t len, const char *what)
{
    struct vpt_cpu cpu;

    vpt_init(&cpu, &fake->caps, fake->cpu.ops, fake);
    CHECK(vpt_restore(&cpu, bytes, len) != NULL, "%s", what);
}

static void test_impossible(void)
{
    struct vpt_caps caps = plain_caps("max"), skylake;
    struct fake *fake;
    uint8_t bytes[VPT_SAVE_MAX_BYTES];

    vpt_profile("skylake", &skylake);
    caps.choices = skylake.choices;
    fake = fake_open_caps(&caps);
    fake_start(fake, CTL);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
        const size_t len = vpt_save(&fake->cpu, bytes, sizeof(bytes));
        char what[128];

        value_of(bytes, len, impossible[i].member)[impossible[i].byte] = impossible[i].value;
        snprintf(what, sizeof(what), "%s, byte %u = %u", impossible[i].member, impossible[i].byte,
                 impossible[i].value);
        expect_refused(fake, bytes, len, what);
    }
    /* Enables that agree with each other, but not with the context and RTIT_CTL. */
    for (size_t i = 0; i < 2; i++) {
        const size_t len = vpt_save(&fake->cpu, bytes, sizeof(bytes));

        *value_of(bytes, len, i ? "context_en" : "filter_en") = 0;
        *value_of(bytes, len, "packet_en") = 0;
        expect_refused(fake, bytes, len, i ? "ContextEn" : "FilterEn");
    }
    fake_stop(fake);
    fake_close(fake);
}

static void test_impossible_queue(void)
{
    static const struct {
        const char *member;
        unsigned byte;
        uint8_t value;
    } bad[] = {
        {"waiting_bytes", 0, 9},       {"waiting_bytes", 1, 1},
        {"waiting_tnt", 0, 0},         {"waiting_tnt", 8 + 2, 0xff},
        {"caps.choices.layout", 0, 1}, {"caps.choices.tips_wait", 0, 2},
    };
    struct vpt_caps caps = plain_caps("max");
    struct fake *fake;
    uint8_t bytes[VPT_SAVE_MAX_BYTES];

    caps.choices = (struct vpt_choices){.tips_wait = true, .psb_early_bytes = 1, .layout = 2};
    fake = fake_open_caps(&caps); /* every choice of bad[] is saved, */
    fake->cpu.caps.choices.layout = VPT_LAYOUT_DENSE;
    fake_start(fake, CTL);
    fake->cpu.caps.choices.layout = VPT_LAYOUT_WHOLE; /*   though there is a queue */
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    CHECK(fake->cpu.waiting_bytes == 2 * sizeof(uint64_t), "both wait");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        size_t len;

        fake->cpu.caps.choices.layout =
            strcmp(bad[i].member, "caps.choices.layout") ? VPT_LAYOUT_DENSE : VPT_LAYOUT_WHOLE;
        len = vpt_save(&fake->cpu, bytes, sizeof(bytes));
        value_of(bytes, len, bad[i].member)[bad[i].byte] = bad[i].value;
        expect_refused(fake, bytes, len, bad[i].member);
    }
    fake->cpu.caps.choices.layout = VPT_LAYOUT_DENSE;
    fake_stop(fake);
    fake_close(fake);
}

/* Whoever moves a machine moves processors without Intel PT as well. */
static void test_without_pt(void)
{
    struct fake *const fake = fake_open("skylake");
    struct vpt_caps caps;
    uint8_t bytes[VPT_SAVE_MAX_BYTES];
    struct vpt_cpu cpu, other;
    size_t len;

    CHECK(vpt_profile("silvermont", &caps), "silvermont");
    CHECK(vpt_init(&cpu, &caps, fake->cpu.ops, fake), "no Intel PT");
    len = vpt_save(&cpu, bytes, sizeof(bytes));
    CHECK(vpt_init(&other, &caps, fake->cpu.ops, fake) && !vpt_restore(&other, bytes, len),
          "no Intel PT");
    fake_close(fake);
}

/* A processor that never traced, and one with single-range output. */
static void test_other_states(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct fake *fake;
    uint8_t bytes[VPT_SAVE_MAX_BYTES];
    size_t len;
    struct vpt_cpu cpu;
    uint8_t *value;

    caps.long_tnt = true;
    fake = fake_open_caps(&caps);
    len = vpt_save(&fake->cpu, bytes, sizeof(bytes));
    CHECK(vpt_init(&cpu, &fake->cpu.caps, fake->cpu.ops, fake) && !vpt_restore(&cpu, bytes, len),
          "after reset");
    fake_start(fake, CTL & ~VPT_CTL_BRANCHEN);
    len = vpt_save(&fake->cpu, bytes, sizeof(bytes));
    value = value_of(bytes, len, "packet_en");
    *value = 1;
    CHECK(vpt_restore(&cpu, bytes, len) != NULL, "PacketEn without BranchEn");
    fake_stop(fake);
    /* The largest region and another PSB period; a write that waits. */
    fake_poke(fake, TABLE_GPA, 15u << VPT_TOPA_SIZE_SHR);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
    fake_write(fake, VPT_MSR_CTL, CTL | 3ull << VPT_CTL_PSBFREQ_SHR);
    fake->cpu.fault_access = VPT_WRITE_OUTPUT;
    len = vpt_save(&fake->cpu, bytes, sizeof(bytes));
    vpt_init(&cpu, &fake->cpu.caps, fake->cpu.ops, fake);
    CHECK(!vpt_restore(&cpu, bytes, len), "128 MiB, PSBFreq 3");
    fake_stop(fake);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, REGION_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x100ull << 32 | 0xfff);
    fake_write(fake, VPT_MSR_CTL, CTL & ~VPT_CTL_TOPA);
    len = vpt_save(&fake->cpu, bytes, sizeof(bytes));
    vpt_init(&cpu, &fake->cpu.caps, fake->cpu.ops, fake);
    CHECK(!vpt_restore(&cpu, bytes, len), "single range");
    value = value_of(bytes, len, "output_mask_ptrs");
    value[1] = 0x0d; /* a mask with a hole */
    CHECK(vpt_restore(&cpu, bytes, len) != NULL, "a mask with a hole");
    value[1] = 0x0f;
    value[5] = 0x10; /* an offset beyond it */
    CHECK(vpt_restore(&cpu, bytes, len) != NULL, "an offset beyond the mask");
    fake_stop(fake);
    fake_close(fake);
}

/* ---- Nothing is forgotten ------------------------------------------------------------------- */

/* What follows from other fields, belongs to the owner, or is saved member by member. */
static const char *const left_out[] = {"path",      "ret_kept", "tip_plain",   "waiting_limit",
                                       "ret_next",  "ranges",   "timing",      "psb_period_bytes",
                                       "ops",       "owner",    "ctx",         "now",
                                       "caps",      "choices",  "ready_bytes", "topa_ahead_count",
                                       "topa_ahead"};

static bool is_left_out(const char *name)
{
    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
        if (strcmp(left_out[i], name) == 0)
            return true;
    return false;
}

static bool is_saved(const char *prefix, const char *name)
{
    char full[128];

    snprintf(full, sizeof(full), "%s%s", prefix, name);
    for (size_t i = 0; i < vpt_saved_field_count; i++)
        if (strcmp(vpt_saved_fields[i].member, full) == 0)
            return true;
    return false;
}

static char *read_header(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);

    if (!file || !text)
        abort(); /* the tests run in the root of the tree */
    if (fread(text, 1, (1 << 20) - 1, file) == 0)
        abort();
    fclose(file);
    for (char *p = text; (p = strstr(p, "/*")) != NULL;) { /* comments become blanks */
        char *end = strstr(p, "*/");

        if (!end)
            break;
        memset(p, ' ', (size_t)(end + 2 - p));
    }
    return text;
}

/* The names that a structure of a header declares: identifiers before ',', ';' or '['. */
static unsigned check_members(const char *text, const char *structure, const char *prefix)
{
    const char *p = strstr(text, structure), *end = p ? strstr(p, "\n};") : NULL;
    unsigned members = 0;

    if (!CHECK(end != NULL, "no %s", structure))
        return 0;
    for (p += strlen(structure); p < end; p++) {
        char name[64];
        size_t n = 0;

        if (!isalpha((unsigned char)*p) || isalnum((unsigned char)p[-1]) || p[-1] == '_')
            continue;
        while (isalnum((unsigned char)p[n]) || p[n] == '_')
            n++;
        if (p[n] == ',' || p[n] == ';' || (p[n] == '[' && p[-1] != '[')) {
            snprintf(name, sizeof(name), "%.*s", (int)n, p);
            CHECK(is_saved(prefix, name) || is_left_out(name), "%s%s is not saved", prefix, name);
            members++;
        }
        p += n - 1;
    }
    return members;
}

static void test_complete(void)
{
    char *text = read_header("emulation/vpt.h");
    char *caps = read_header("emulation/vpt_caps.h");
    unsigned members = check_members(text, "struct vpt_cpu {", "");

    members += check_members(text, "struct vpt_context {", "ctx.");
    members += check_members(text, "struct vpt_clocks {", "now.");
    members += check_members(caps, "struct vpt_caps {", "caps.");
    members += check_members(caps, "struct vpt_choices {", "caps.choices.");
    CHECK(members > 90, "%u members", members);
    free(text);
    free(caps);
    for (size_t i = 1; i < vpt_saved_field_count; i++)
        CHECK(vpt_saved_fields[i].number > vpt_saved_fields[i - 1].number, "number %u",
              vpt_saved_fields[i].number);
}

void suite_save(void)
{
    static const struct test tests[] = {
        {"streams that migrate", test_streams},
        {"choices that migrate", test_choices_move},
        {"TIPs that wait migrate", test_waiting_moves},
        {"states of an older version", test_older},
        {"bytes that are refused", test_refused},
        {"impossible states", test_impossible},
        {"an impossible queue", test_impossible_queue},
        {"other states", test_other_states},
        {"a processor without Intel PT", test_without_pt},
        {"every member is saved", test_complete},
        {NULL, NULL},
    };

    add_suite("save and restore", tests);
}
