/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Near branches that are told together (vpt_branches()): the bytes are those of a processor that
 * was told one by one.
 */
#include "harness.h"

#include <string.h>

#define BRANCHES   (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)
#define PSB_NEVER  (15ull << VPT_CTL_PSBFREQ_SHR) /* 64 MiB */
#define PSB_2K     0ull
#define LOG_BYTES  300u
#define MOST_DEPTH 80u /* of CALLs: more than the CALL stack has */

/* The same program, told both ways. */
struct both {
    struct fake *one_by_one, *logged;
    uint8_t log[LOG_BYTES + VPT_LOG_ROOM];
    size_t len;
    uint64_t seed, ip;
    uint64_t called[MOST_DEPTH];
    unsigned depth, psbs;
};

static uint64_t chance(struct both *both, uint64_t below)
{
    both->seed = both->seed * 6364136223846793005ull + 1442695040888963407ull;
    return (both->seed >> 33) % below;
}

static void write_down(struct both *both, enum vpt_log_item item)
{
    both->log[both->len++] = (uint8_t)item;
}

static void write_ip(struct both *both, enum vpt_log_item item, uint64_t ip)
{
    write_down(both, item);
    memcpy(both->log + both->len, &ip, sizeof(ip));
    both->len += sizeof(ip);
}

/* With a boundary, where a PSB+ may come: then the other one is asked for it. */
static void tell_log(struct both *both, bool boundary)
{
    struct vpt_cpu *cpu = &both->logged->cpu;
    uint32_t before;

    vpt_branches(cpu, both->log, both->len);
    both->len = 0;
    before = cpu->bytes_since_psb;
    if (!boundary)
        return;
    vpt_boundary(cpu, both->ip);
    if (cpu->bytes_since_psb < before) {
        vpt_psb(&both->one_by_one->cpu, both->ip);
        both->psbs++;
    }
}

/* Anywhere: near, far, in the other half of the addresses. */
static uint64_t somewhere(struct both *both)
{
    switch (chance(both, 4)) {
    case 0:
        return both->ip + chance(both, 100);
    case 1:
        return 0x400000 + chance(both, 1u << 20);
    case 2:
        return KERNEL + chance(both, 1u << 20);
    default:
        return chance(both, 1ull << 31) << 16;
    }
}

static void conditional(struct both *both)
{
    const bool taken = chance(both, 3) != 0;

    both->ip += taken ? 32 : 2;
    vpt_cond_branch(&both->one_by_one->cpu, both->ip, taken);
    write_down(both, taken ? VPT_LOG_TAKEN : VPT_LOG_NOT_TAKEN);
}

static void call(struct both *both)
{
    const uint64_t next_ip = both->ip + 5;
    const bool direct = chance(both, 2);

    both->ip = somewhere(both);
    if (direct && both->ip != next_ip) {
        vpt_call_direct(&both->one_by_one->cpu, both->ip, next_ip);
        write_ip(both, VPT_LOG_CALL, next_ip);
    } else {
        vpt_call_indirect(&both->one_by_one->cpu, both->ip, next_ip);
        write_ip(both, VPT_LOG_CALL, next_ip);
        write_ip(both, VPT_LOG_TIP, both->ip);
    }
    if (both->depth < MOST_DEPTH)
        both->called[both->depth++] = next_ip;
}

static void ret(struct both *both)
{
    const bool matches = both->depth && chance(both, 8) != 0;

    both->ip = matches ? both->called[--both->depth] : somewhere(both);
    vpt_ret(&both->one_by_one->cpu, both->ip);
    write_ip(both, VPT_LOG_RET, both->ip);
}

static void jmp_indirect(struct both *both)
{
    both->ip = somewhere(both);
    vpt_jmp_indirect(&both->one_by_one->cpu, both->ip);
    write_ip(both, VPT_LOG_TIP, both->ip);
}

/* An event of another kind, before which the log is told. */
static void far_transfer(struct both *both)
{
    const struct vpt_context after = context_of(0);
    const uint64_t from = both->ip;

    tell_log(both, false);
    both->ip = somewhere(both);
    fake_transfer(both->one_by_one, VPT_INTERRUPT, from, both->ip, &after);
    fake_transfer(both->logged, VPT_INTERRUPT, from, both->ip, &after);
}

static void step(struct both *both)
{
    const uint64_t kind = chance(both, 100);

    if (kind < 70)
        conditional(both);
    else if (kind < 80)
        call(both);
    else if (kind < 92)
        ret(both);
    else
        jmp_indirect(both);
    if (both->len > LOG_BYTES - 2 * VPT_LOG_ITEM_BYTES || chance(both, 50) == 0)
        tell_log(both, true);
}

static void open_both(struct both *both, const struct vpt_caps *caps, uint64_t ctl, uint64_t psb,
                      uint64_t seed)
{
    memset(both, 0, sizeof(*both));
    both->seed = seed;
    both->ip = IP_START;
    both->one_by_one = fake_open_caps(caps);
    both->logged = fake_open_caps(caps);
    fake_start(both->one_by_one, ctl | PSB_NEVER);
    fake_start(both->logged, ctl | psb);
}

/* Ends both, and compares what they stored. */
static void close_both(struct both *both, const char *what)
{
    tell_log(both, false);
    fake_stop(both->one_by_one);
    fake_stop(both->logged);
    CHECK(both->one_by_one->tap_len == both->logged->tap_len &&
              memcmp(both->one_by_one->tap, both->logged->tap, both->logged->tap_len) == 0,
          "%s, seed %llu: %zu bytes one by one, %zu by the log", what,
          (unsigned long long)both->seed, both->one_by_one->tap_len, both->logged->tap_len);
    fake_close(both->one_by_one);
    fake_close(both->logged);
}

static bool can_psb_freq(const struct vpt_caps *caps)
{
    return (caps->leaf14_0_ebx & VPT_CAP_PSB_CYC) != 0;
}

/* Packets of every processor, with and without compressed RETs. */
static void test_same_bytes(void)
{
    const char *name;

    for (size_t i = 0; (name = vpt_profile_name(i)); i++) {
        struct vpt_caps caps;
        struct both both;

        CHECK(vpt_profile(name, &caps), "%s", name);
        allow_all_encodings(&caps);
        if (!caps.supported || !can_psb_freq(&caps))
            continue;
        for (uint64_t seed = 1; seed <= 4; seed++) {
            open_both(&both, &caps, BRANCHES | (seed % 2 ? VPT_CTL_DISRETC : 0), PSB_NEVER, seed);
            for (unsigned n = 0; n < 5000; n++) {
                step(&both);
                if (chance(&both, 300) == 0)
                    far_transfer(&both);
            }
            close_both(&both, name);
        }
    }
}

/* A PSB+ comes where it is known what runs next, and the CALL stack is empty behind it. */
static void test_psb_at_boundaries(void)
{
    struct vpt_caps caps = rich_caps();
    struct both both;

    for (uint64_t seed = 1; seed <= 10; seed++) {
        caps.long_tnt = seed % 2;
        caps.deferred_tips = seed % 3 == 0;
        open_both(&both, &caps, BRANCHES, PSB_2K, seed);
        for (unsigned n = 0; n < 20000; n++)
            step(&both);
        CHECK(both.psbs > 5, "seed %llu: %u PSBs", (unsigned long long)seed, both.psbs);
        close_both(&both, "PSB+");
    }
}

/* A PSB+ that is due waits for the next boundary, and for nothing else. */
static void test_psb_waits(void)
{
    uint8_t log[1 + VPT_LOG_ROOM] = {VPT_LOG_TAKEN};
    struct fake *fake = fake_open("max");

    fake_start(fake, BRANCHES);
    fake->cpu.bytes_since_psb = fake->cpu.psb_period_bytes;
    fake_mark(fake);
    vpt_branches(&fake->cpu, log, 1);
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_len == fake->mark, "nothing is sent");
    vpt_boundary(&fake->cpu, 0x401234);
    EXPECT(fake, "TNT(T) PSB+", "33.3.7");
    fake_close(fake);
}

static void jump_on(struct both *both)
{
    jmp_indirect(both);
    if (both->len > LOG_BYTES / 2)
        tell_log(both, false);
}

/* A ToPA region with STOP ends the trace amid the log: the rest of it is of no trace. */
static void test_stop_amid(void)
{
    const struct vpt_caps caps = plain_caps("max");
    struct both both;
    struct fake *fakes[2];

    open_both(&both, &caps, 0, PSB_NEVER, 1);
    fakes[0] = both.one_by_one;
    fakes[1] = both.logged;
    for (size_t i = 0; i < 2; i++) {
        const struct vpt_context ctx = context_of(0);

        fake_write(fakes[i], VPT_MSR_CTL, 0);
        fake_poke(fakes[i], TABLE_GPA, REGION_GPA | VPT_TOPA_STOP);
        fake_write(fakes[i], VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
        vpt_set_context(&fakes[i]->cpu, &ctx);
        fake_write(fakes[i], VPT_MSR_CTL, BRANCHES | PSB_NEVER | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    }
    while (!fake_status(both.one_by_one, VPT_STATUS_STOPPED))
        jump_on(&both);
    tell_log(&both, true);
    CHECK(fake_status(both.logged, VPT_STATUS_STOPPED), "33.2.7.2: STOP");
    close_both(&both, "STOP");
}

/* Memory is busy: an overflow begins amid the log, and ends where it is known what runs next. */
static void test_overflow_amid(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct both both;

    open_both(&both, &caps, BRANCHES, PSB_NEVER, 1);
    vpt_stall(&both.logged->cpu, true);
    while (both.logged->cpu.overflow_count == 0)
        jump_on(&both);
    both.len = 0; /* lost, too */
    write_down(&both, VPT_LOG_TAKEN);
    vpt_stall(&both.logged->cpu, false);
    fake_mark(both.logged);
    both.ip = 0x402000;
    tell_log(&both, false);
    vpt_boundary(&both.logged->cpu, both.ip);
    CHECK(vpt_is_fast(&both.logged->cpu), "the overflow is over");
    EXPECT(both.logged, "OVF FUP(402000) PSB+", "33.3.8: what was lost is told");
    fake_close(both.logged);
    fake_close(both.one_by_one);
}

void suite_branches(void)
{
    static const struct test tests[] = {
        {"the bytes of one by one", test_same_bytes},
        {"PSB+ at boundaries", test_psb_at_boundaries},
        {"a PSB+ waits for a boundary", test_psb_waits},
        {"STOP amid", test_stop_amid},
        {"overflow amid", test_overflow_amid},
        {NULL, NULL},
    };

    add_suite("branches told together", tests);
}
