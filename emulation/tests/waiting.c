/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TIPs that wait for each other: the same packets as of TIPs that do not, but for PSB+, which comes
 * some TIPs later, and for what is lost.
 */
#include "harness.h"

#include <stdio.h>
#include <string.h>

#define BRANCHES (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)
#define NO_PSB   ((uint64_t)15 << VPT_CTL_PSBFREQ_SHR)

static struct vpt_caps waiting_caps(bool wait)
{
    struct vpt_caps caps = rich_caps();

    caps.deferred_tips = false;
    caps.choices = (struct vpt_choices){.tips_wait = wait};
    return caps;
}

static struct fake *open_waiting(uint64_t ctl)
{
    const struct vpt_caps caps = waiting_caps(true);
    struct fake *fake = fake_open_caps(&caps);

    fake_start(fake, BRANCHES | ctl);
    return fake;
}

static unsigned waiting(const struct fake *fake)
{
    return fake->cpu.waiting_bytes / (unsigned)sizeof(uint64_t);
}

/* ---- The same packets ----------------------------------------------------------------------- */

/* What an owner does besides events. */
static void owner(struct fake *fake, uint64_t r, uint64_t ip)
{
    const struct vpt_trigger trigger = {
        .fired = 1, .attributed = r & 64, .ip = ip, .insns = r % 70000};

    switch (r % 6) {
    case 0:
        vpt_flush(&fake->cpu);
        break;
    case 1:
        vpt_flush_branches(&fake->cpu);
        break;
    case 2:
        vpt_psb(&fake->cpu, ip);
        break;
    case 3:
        vpt_trigger(&fake->cpu, &trigger);
        break;
    case 4: /* what is not told twice */
        fake_stop(fake);
        fake_write(fake, VPT_MSR_CTL, fake->cpu.ctl | VPT_CTL_TRACEEN);
        break;
    default:
        vpt_time(&fake->cpu);
        break;
    }
}

static struct fake *stream(uint64_t seed, uint64_t ctl, bool wait, unsigned *most)
{
    struct vpt_caps caps = waiting_caps(wait);
    struct fake *fake;

    caps.long_tnt = seed & 1;
    caps.choices.ip_full_64 = seed % 16 == 2; /* then none waits */
    caps.choices.psb_ip_apart = seed % 4 == 1;
    caps.triggers = true;
    fake = fake_open_caps(&caps);
    vpt_vmxon(&fake->cpu, 0x400000);
    fake_start(fake, BRANCHES | NO_PSB | ctl);
    for (unsigned i = 0; i < 20000; i++) {
        const uint64_t r = fake_random(&seed), where = fake_random(&seed);
        /* near, far, of the kernel, and not canonical with 48 bits */
        const uint64_t base[] = {0x400000, 0x7f0000000000, KERNEL, 0x123456789abcd000};
        const uint64_t ip = base[where % 64 < 60 ? where % 2 : where % 4] + where / 64 % 0x40000;

        fake->clocks.tsc += r % 300;
        fake->clocks.art = fake->clocks.tsc / 84;
        if (r % 256 < 250)
            fake_branch(fake, r / 256, ip);
        else if (r % 256 < 254)
            fake_event(fake, r / 256 % 12 == 8 ? 1 : r / 256, ip); /* no stall: it loses */
        else
            owner(fake, r / 256, ip);
        *most = *most < waiting(fake) ? waiting(fake) : *most;
    }
    fake_stop(fake);
    return fake;
}

static void test_same(void)
{
    static const uint64_t more[] = {
        0,
        VPT_CTL_PTWEN | VPT_CTL_FUPONPTW | VPT_CTL_PWREVTEN | VPT_CTL_EVENTEN,
        VPT_CTL_TSCEN | VPT_CTL_CR3FILTER,
        VPT_CTL_DISRETC,
        VPT_CTL_MTCEN | VPT_CTL_TSCEN,
        (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR,
    };
    const size_t cases = sizeof(more) / sizeof(more[0]);

    for (size_t i = 0; i < 10 * cases; i++) {
        const bool plain = i % cases < 3 && i % 16 != 2;
        unsigned none = 0, most = 0;
        struct fake *at_once = stream(i, more[i % cases], false, &none);
        struct fake *together = stream(i, more[i % cases], true, &most);

        CHECK(none == 0 && (plain ? most > VPT_WAITING_TIPS / 2 : most <= VPT_WAITING_TIPS),
              "case %zu: %u waited, %u of those that must not", i, most, none);
        CHECK(at_once->tap_len > 2000 && at_once->tap_len == together->tap_len &&
                  memcmp(at_once->tap, together->tap, at_once->tap_len) == 0,
              "case %zu: %zu bytes, %zu bytes", i, at_once->tap_len, together->tap_len);
        CHECK(at_once->cpu.packet_count == together->cpu.packet_count &&
                  at_once->cpu.status == together->cpu.status &&
                  at_once->cpu.last_ip == together->cpu.last_ip,
              "case %zu: another state", i);
        fake_close(at_once);
        fake_close(together);
    }
}

/* ---- How long they wait --------------------------------------------------------------------- */

static void test_full(void)
{
    struct fake *fake = open_waiting(NO_PSB);

    vpt_flush(&fake->cpu);
    fake_mark(fake);
    for (unsigned i = 0; i < VPT_WAITING_TIPS; i++) {
        CHECK(waiting(fake) == i, "%u of %u wait", waiting(fake), i);
        vpt_jmp_indirect(&fake->cpu, 0x402000 + i);
    }
    CHECK(fake->cpu.buf_len == 0, "nothing is sent before the queue is full");
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    CHECK(waiting(fake) == 0, "all are sent, and the one too many");
    vpt_jmp_indirect(&fake->cpu, 0x404000);
    vpt_cond_branch(&fake->cpu, 0x404010, true);
    vpt_flush(&fake->cpu);
    CHECK(waiting(fake) == 0 && fake->cpu.tnt == 3, "a flush sends TIPs, and no TNT bits");
    fake_stop(fake);
    fake_close(fake);
}

/* A RET is compressed by what is behind the PSB alone, wherever that comes. */
static void test_psb(void)
{
    struct fake *fake = open_waiting(0);
    uint32_t psbs = 0, farthest = 0;

    for (unsigned i = 0; i < 40000; i++) {
        const uint32_t before = fake->cpu.bytes_since_psb;

        vpt_call_direct(&fake->cpu, 0x402000, 0x401005);
        vpt_jmp_indirect(&fake->cpu, 0x402000 + i % 3 * 0x20000ull);
        if (fake->cpu.bytes_since_psb < before) {
            CHECK(vpt_ret_count(&fake->cpu) == 0 && waiting(fake) == 0,
                  "PSB+: %u CALLs, %u TIPs wait", vpt_ret_count(&fake->cpu), waiting(fake));
            farthest = farthest < before ? before : farthest;
            psbs++;
        }
        vpt_ret(&fake->cpu, 0x401005);
    }
    CHECK(psbs > 20 && farthest < 2048 + VPT_WAITING_TIPS * 17, "%u PSB+, at most %u bytes apart",
          psbs, farthest);
    fake_stop(fake);
    fake_close(fake);
}

/* ---- What is lost --------------------------------------------------------------------------- */

static void test_overflow(void)
{
    struct fake *fake = open_waiting(NO_PSB);

    vpt_flush(&fake->cpu);
    fake_mark(fake);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    vpt_overflow(&fake->cpu);
    CHECK(waiting(fake) == 0 && fake->cpu.waiting_limit == 0, "none waits in an overflow");
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    vpt_jmp_indirect(&fake->cpu, 0x404000);
    EXPECT(fake, "OVF FUP(403000) PSB+ TIP(404000)", "33.3.8: what was not sent is lost, and told");
    fake_close(fake);
}

/* Memory is busy for so long that the queue finds no room. */
static void test_stall(void)
{
    struct fake *fake = open_waiting(NO_PSB);
    uint64_t lost;

    vpt_stall(&fake->cpu, true);
    for (unsigned i = 0; i < 2000 && fake->cpu.overflow_count == 0; i++)
        vpt_jmp_indirect(&fake->cpu, 0x402000 + 0x30000 * (uint64_t)(i % 2));
    CHECK(fake->cpu.overflow_count == 1 && waiting(fake) == 0, "it overflows");
    CHECK(fake->cpu.buf_len > VPT_BUFFER_BYTES / 2 && fake->cpu.buf_len <= VPT_BUFFER_BYTES,
          "%u bytes are kept", fake->cpu.buf_len);
    lost = fake->tap_total;
    fake_mark(fake);
    vpt_stall(&fake->cpu, false);
    CHECK(fake->tap_total > lost, "they are written");
    vpt_jmp_indirect(&fake->cpu, 0x405000);
    fake_mark(fake);
    vpt_jmp_indirect(&fake->cpu, 0x406000);
    EXPECT(fake, "TIP(406000)", "tracing goes on");
    fake_close(fake);
}

/* The trace ends in the store that makes room: nothing of it waits for the next one. */
static void test_end(void)
{
    struct fake *fake = open_waiting(NO_PSB);

    for (unsigned i = 0; i < VPT_WAITING_TIPS / 2; i++)
        vpt_jmp_indirect(&fake->cpu, 0x402000);
    fake_stop(fake);
    CHECK(waiting(fake) == 0 && fake->cpu.waiting_limit == 0, "nothing waits, and nothing may");
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    CHECK(waiting(fake) == 0, "nor does what is not traced");
    fake_close(fake);

    fake = open_waiting(NO_PSB);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    vpt_reset(&fake->cpu, VPT_RESET_WARM);
    CHECK(waiting(fake) == 0, "a reset loses them");
    fake_close(fake);
}

void suite_waiting(void)
{
    static const struct test tests[] = {
        {"the same packets", test_same},
        {"until the queue is full", test_full},
        {"a PSB+ that is due", test_psb},
        {"an overflow", test_overflow},
        {"memory that is busy", test_stall},
        {"the end of the trace", test_end},
        {NULL, NULL},
    };

    add_suite("TIPs that wait", tests);
}
