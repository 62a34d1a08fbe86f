/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many branches at once: the same packets, at the same places, as of branches that are told one by
 * one. That holds for each PSB+, for what is stored when, and for processors that take no more than
 * one full TNT at a time.
 */
#include "harness.h"

#include <string.h>

#define BRANCHES (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)
#define EVENTS   30000u

/* What one of both is told. */
struct told {
    struct fake *fake;
    bool at_once;
    uint64_t tnt; /* of at_once: the bits behind the last that the model knows */
    unsigned room, most;
};

static struct told begin(const struct vpt_caps *caps, uint64_t ctl, bool at_once)
{
    struct told told = {.fake = fake_open_caps(caps), .at_once = at_once};

    fake_start(told.fake, BRANCHES | ctl);
    told.tnt = told.fake->cpu.tnt;
    told.room = vpt_tnt_room(&told.fake->cpu);
    return told;
}

/* Before anything else than a branch. */
static void settle(struct told *told, uint64_t ip)
{
    struct vpt_cpu *const cpu = &told->fake->cpu;

    if (!told->at_once || !vpt_is_fast(cpu))
        return;
    cpu->tnt = told->tnt;
    told->room = vpt_branches_told(cpu, ip);
    CHECK(cpu->tnt < cpu->tnt_full, "a full TNT is left: %llx", (unsigned long long)cpu->tnt);
    CHECK(told->room == vpt_tnt_room(cpu), "room for %u bits", told->room);
}

static void look(struct told *told)
{
    told->tnt = told->fake->cpu.tnt;
    told->room = vpt_tnt_room(&told->fake->cpu);
    told->most = told->most < told->room ? told->room : told->most;
}

static void branch(struct told *told, uint64_t ip, bool taken)
{
    struct vpt_cpu *const cpu = &told->fake->cpu;

    if (!told->at_once || !vpt_is_fast(cpu)) {
        vpt_cond_branch(cpu, ip, taken);
        told->tnt = cpu->tnt;
        return;
    }
    told->tnt = told->tnt << 1 | taken;
    if (--told->room > 0)
        return;
    settle(told, ip);
    look(told);
}

/* fake_branch() in one call with the bits in front of it. False: it is none of these. */
static bool other_at_once(struct told *told, uint64_t r, uint64_t ip)
{
    struct vpt_cpu *const cpu = &told->fake->cpu;

    if (!told->at_once || !vpt_is_fast(cpu) || (r % 6 == 5 && vpt_ret_compresses(cpu, ip)))
        return false;
    cpu->tnt = told->tnt;
    switch (r % 6) {
    case 2:
        told->room = vpt_branches_jmp(cpu, ip);
        break;
    case 4:
        told->room = vpt_branches_call(cpu, ip, ip + 3);
        break;
    case 5:
        told->room = vpt_branches_ret(cpu, ip);
        break;
    default:
        return false;
    }
    CHECK(told->room == vpt_tnt_room(cpu), "room for %u bits", told->room);
    return true;
}

static void other(struct told *told, uint64_t r, uint64_t ip)
{
    if (r & 64 || !other_at_once(told, r, ip)) { /* 64: a RET may be compressed */
        settle(told, ip);
        fake_branch(told->fake, r, ip);
    }
    look(told);
}

static void rare(struct told *told, uint64_t r, uint64_t ip)
{
    settle(told, ip);
    switch (r % 4) {
    case 0:
        vpt_flush(&told->fake->cpu);
        break;
    case 1:
        vpt_psb(&told->fake->cpu, ip);
        break;
    case 2:
        vpt_flush_branches(&told->fake->cpu);
        break;
    default:
        fake_event(told->fake, r / 4 % 12 == 8 ? 1 : r / 4, ip); /* no stall */
        break;
    }
    look(told);
}

static unsigned compare(const char *what, const struct vpt_caps *caps, uint64_t ctl, uint64_t seed)
{
    struct told both[] = {begin(caps, ctl, false), begin(caps, ctl, true)};
    const struct fake *const one = both[0].fake, *const all = both[1].fake;
    unsigned most, i;

    for (i = 0; i < EVENTS; i++) {
        const uint64_t r = fake_random(&seed), ip = 0x400000 + fake_random(&seed) % 0x4000000;

        for (unsigned k = 0; k < 2; k++)
            if (r % 1024 == 0)
                rare(&both[k], r / 1024, ip);
            else if (r % 32 == 1)
                other(&both[k], r / 1024, ip);
            else
                branch(&both[k], ip, r >> 10 & 1);
        if (one->tap_total != all->tap_total)
            break;
    }
    CHECK(i == EVENTS, "%s, event %u: stored at other times", what, i);
    settle(&both[1], IP_OFF);
    most = both[1].most;
    fake_stop(both[0].fake);
    fake_stop(both[1].fake);
    CHECK(one->tap_len > 2000 && one->tap_len == all->tap_len &&
              memcmp(one->tap, all->tap, one->tap_len) == 0,
          "%s: %zu bytes one by one, %zu at once", what, one->tap_len, all->tap_len);
    CHECK(one->cpu.packet_count == all->cpu.packet_count &&
              one->cpu.overflow_count == all->cpu.overflow_count,
          "%s: %llu packets, %llu", what, (unsigned long long)one->cpu.packet_count,
          (unsigned long long)all->cpu.packet_count);
    fake_close(both[0].fake);
    fake_close(both[1].fake);
    return most;
}

static void test_same(void)
{
    static const struct {
        const char *what;
        uint64_t ctl;
        bool fast;
    } cases[] = {
        {"2 KiB between PSBs", 0, true},
        {"64 MiB between PSBs", (uint64_t)15 << VPT_CTL_PSBFREQ_SHR, true},
        {"PTWRITE, power, events",
         VPT_CTL_PTWEN | VPT_CTL_FUPONPTW | VPT_CTL_PWREVTEN | VPT_CTL_EVENTEN, true},
        {"TSC", VPT_CTL_TSCEN, true},
        {"no RET compression", VPT_CTL_DISRETC, false},
        {"MTC", VPT_CTL_MTCEN | VPT_CTL_TSCEN, false},
    };

    for (size_t i = 0; i < 4 * sizeof(cases) / sizeof(cases[0]); i++) {
        const size_t at = i % (sizeof(cases) / sizeof(cases[0]));
        struct vpt_caps caps = rich_caps();
        unsigned most;

        caps.deferred_tips = caps.long_tnt = false;
        caps.choices = (struct vpt_choices){0};
        most = compare(cases[at].what, &caps, cases[at].ctl, i);
        CHECK(!cases[at].fast || most == VPT_TNT_BITS_MAX, "%s: at most %u bits at once",
              cases[at].what, most);
    }
}

/* Processors that take a full TNT at most, or only sometimes more. */
static void test_others(void)
{
    struct vpt_caps caps = rich_caps();

    caps.deferred_tips = false;
    caps.long_tnt = true;
    caps.choices = (struct vpt_choices){0};
    CHECK(compare("long TNTs", &caps, 0, 1) == 47, "long TNTs are told one by one");
    caps.long_tnt = false;
    caps.deferred_tips = true;
    CHECK(compare("deferred TIPs", &caps, 0, 2) == 6, "deferred TIPs belong to a TNT");
    caps.deferred_tips = false;
    caps.choices.ip_full_64 = true;
    CHECK(compare("full IPs", &caps, 0, 3) == 6, "full IPs of 64 bits");
    caps.choices = (struct vpt_choices){.tips_wait = true};
    CHECK(compare("TIPs that wait", &caps, 0, 5) == VPT_TNT_BITS_MAX, "while no TIP waits");
    caps.choices = (struct vpt_choices){.psb_ip_apart = true};
    CHECK(compare("full IPs behind PSBs", &caps, 0, 6) == VPT_TNT_BITS_MAX, "TNTs are as ever");
    caps.choices = (struct vpt_choices){.layout = VPT_LAYOUT_SPLIT};
    CHECK(compare("lines", &caps, 0, 4) == 6, "PADs depend on each packet");
}

void suite_branches(void)
{
    static const struct test tests[] = {
        {"the same packets", test_same},
        {"a TNT at a time", test_others},
        {NULL, NULL},
    };

    add_suite("many branches at once", tests);
}
