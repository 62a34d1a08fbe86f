/* SPDX-License-Identifier: BSD-3-Clause */
/* Random processors and settings; see setup.h. */
#include "roundtrip/invariants/setup.h"

#include "roundtrip/invariants/play_near.h"

static uint64_t some(struct run *run, uint64_t bit, uint32_t one_in)
{
    return dice_one_in(&run->dice, one_in) ? bit : 0;
}

/* ---- The processor -------------------------------------------------------------------------- */

/* Every encoding of every bitmap that there is. */
static void widen(struct vpt_caps *caps)
{
    if (caps->leaf14_0_ebx & VPT_CAP_MTC)
        caps->leaf14_1_eax |= 0xffff0000u;
    if (caps->leaf14_0_ebx & VPT_CAP_PSB_CYC)
        caps->leaf14_1_ebx = 0xffffffffu;
}

static void draw_caps(struct run *run, struct vpt_caps *caps)
{
    const uint32_t profiles = (uint32_t)vpt_profile_count();

    vpt_profile(vpt_profile_name(dice_draw(&run->dice, profiles)), caps);
    if (dice_one_in(&run->dice, 2))
        vpt_profile("max", caps);
    if (dice_one_in(&run->dice, 2))
        widen(caps);
    caps->long_tnt = dice_one_in(&run->dice, 3);
    caps->deferred_tips = dice_one_in(&run->dice, 4);
    caps->choices.tips_wait = dice_one_in(&run->dice, 2);
    caps->vmx_misc_pt = caps->vmx_misc_pt && !dice_one_in(&run->dice, 16);
    caps->tsx = dice_one_in(&run->dice, 2);
    caps->leaf14_0_ecx ^= (uint32_t)some(run, VPT_CAP_LIP, 2);
}

void setup_processor(struct run *run, struct vpt_caps *caps)
{
    do {
        draw_caps(run, caps);
    } while (!caps->supported || vpt_caps_check(caps));
}

/* ---- Output --------------------------------------------------------------------------------- */

static void poke(struct run *run, uint64_t gpa, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        run->owner.ram[gpa + i] = (uint8_t)(value >> (8 * i));
}

static void write_msr(struct run *run, uint32_t msr, uint64_t value)
{
    vpt_wrmsr(&run->owner.cpu, msr, value, run->ip, run->ip);
}

/* A table of some pages, in any order, that ends in itself or stops. */
static void setup_topa(struct run *run)
{
    const bool many = (run->truth.caps.leaf14_0_ecx & VPT_CAP_MENTRY) != 0;
    const unsigned regions = many ? 1 + dice_draw(&run->dice, 4) : 1;
    uint64_t gpa = OWNER_TABLE;

    for (unsigned i = 0; i < regions; i++, gpa += 8) {
        const uint64_t page = OWNER_PAGES + 4096ull * dice_draw(&run->dice, 12);

        poke(run, gpa, page | some(run, VPT_TOPA_INT, 3) | some(run, VPT_TOPA_STOP, 12));
    }
    poke(run, gpa, OWNER_TABLE | VPT_TOPA_END);
    if (dice_one_in(&run->dice, 64))
        poke(run, gpa, OWNER_TABLE | VPT_TOPA_END | VPT_TOPA_STOP); /* an operational error */
}

void setup_output_msrs(struct run *run, uint64_t *base, uint64_t *mask_ptrs)
{
    const bool topa = (run->truth.caps.leaf14_0_ecx & VPT_CAP_TOPA) != 0;
    const bool single = (run->truth.caps.leaf14_0_ecx & VPT_CAP_SNGLRGN) != 0;
    uint64_t mask;

    if (topa && !(single && dice_one_in(&run->dice, 3))) {
        *base = OWNER_TABLE;
        *mask_ptrs = (uint64_t)dice_draw(&run->dice, dice_one_in(&run->dice, 2) ? 4096 : 1) << 32;
        return;
    }
    mask = dice_one_in(&run->dice, 2) ? 0xfff : 0x3fff;
    *base = OWNER_PAGES + 0x4000ull * dice_draw(&run->dice, 2);
    *mask_ptrs = mask | (uint64_t)dice_draw(&run->dice, (uint32_t)mask) << 32;
}

void setup_output(struct run *run)
{
    struct owner *const owner = &run->owner;
    uint64_t base, mask_ptrs;

    owner->unbacked = dice_one_in(&run->dice, 24);
    owner->restricted = dice_one_in(&run->dice, 24);
    owner->mmio = dice_one_in(&run->dice, 8);
    setup_topa(run);
    setup_output_msrs(run, &base, &mask_ptrs);
    write_msr(run, VPT_MSR_OUTPUT_BASE, base);
    write_msr(run, VPT_MSR_OUTPUT_MASK_PTRS, mask_ptrs);
}

/* ---- Filters -------------------------------------------------------------------------------- */

static unsigned range_count(const struct run *run)
{
    const bool filters = (run->truth.caps.leaf14_0_ebx & VPT_CAP_IPFILTER) != 0;

    return filters ? run->truth.caps.leaf14_1_eax & 7 : 0;
}

void setup_filters(struct run *run)
{
    const unsigned count = range_count(run);

    for (unsigned n = 0; n < count; n++) {
        const struct vpt_context ctx = play_context(run, dice_one_in(&run->dice, 2) ? 3 : 0);
        const uint64_t from = play_target(run, &ctx) & ~0xfffull;
        const uint64_t to = from + 0x800 + dice_draw(&run->dice, 0x2800);

        write_msr(run, VPT_MSR_ADDR0_A + 2 * n, from);
        write_msr(run, VPT_MSR_ADDR0_A + 2 * n + 1, to);
        run->truth.addr[n][0] = from;
        run->truth.addr[n][1] = to;
    }
    if (run->truth.caps.leaf14_0_ebx & VPT_CAP_CR3FILTER) {
        run->truth.cr3_match = 0x1000ull * (1 + dice_draw(&run->dice, 3));
        write_msr(run, VPT_MSR_CR3_MATCH, run->truth.cr3_match);
    }
}

/* ---- RTIT_CTL ------------------------------------------------------------------------------- */

/* An encoding that the bitmap allows, below most; 0 if there is none. */
static uint64_t encoding(struct run *run, uint32_t bitmap, uint32_t most)
{
    for (unsigned i = 0; i < 32; i++) {
        const uint32_t value = dice_draw(&run->dice, most);

        if (bitmap >> value & 1)
            return value;
    }
    return 0;
}

static uint64_t timing(struct run *run)
{
    const struct vpt_caps *const caps = &run->truth.caps;
    uint64_t ctl = some(run, VPT_CTL_TSCEN, 2);

    if ((caps->leaf14_0_ebx & VPT_CAP_MTC) && dice_one_in(&run->dice, 3))
        ctl |= VPT_CTL_MTCEN | encoding(run, caps->leaf14_1_eax >> 16, 16) << VPT_CTL_MTCFREQ_SHR;
    if (!(caps->leaf14_0_ebx & VPT_CAP_PSB_CYC))
        return ctl;
    ctl |= encoding(run, caps->leaf14_1_ebx >> 16, 4) << VPT_CTL_PSBFREQ_SHR;
    if (dice_one_in(&run->dice, 3))
        ctl |= VPT_CTL_CYCEN | encoding(run, caps->leaf14_1_ebx & 0xffff, 16)
                                   << VPT_CTL_CYCTHRESH_SHR;
    return ctl;
}

static uint64_t scheme(struct run *run, uint64_t output_base)
{
    const uint32_t ecx = run->truth.caps.leaf14_0_ecx;

    if ((ecx & VPT_CAP_FABRIC) && dice_one_in(&run->dice, 8))
        return VPT_CTL_FABRICEN;
    if (!(ecx & VPT_CAP_SNGLRGN))
        return VPT_CTL_TOPA;
    return output_base == OWNER_TABLE ? VPT_CTL_TOPA : 0;
}

static uint64_t ranges(struct run *run)
{
    const unsigned count = range_count(run);
    uint64_t ctl = 0;

    if (!dice_one_in(&run->dice, 3))
        return 0;
    for (unsigned n = 0; n < count; n++) {
        const uint32_t what = dice_draw(&run->dice, 8);
        const uint64_t cfg = what == 0  ? VPT_ADDR_CFG_TRACESTOP
                             : what < 5 ? VPT_ADDR_CFG_FILTER
                                        : VPT_ADDR_CFG_UNUSED;

        ctl |= cfg << (VPT_CTL_ADDR_CFG_SHR + 4 * n);
    }
    return ctl;
}

uint64_t setup_ctl(struct run *run, uint64_t output_base)
{
    static const struct {
        uint64_t bit;
        uint32_t cap, one_in;
    } optional[] = {
        {VPT_CTL_CR3FILTER, VPT_CAP_CR3FILTER, 5},     {VPT_CTL_PTWEN, VPT_CAP_PTWRITE, 2},
        {VPT_CTL_FUPONPTW, VPT_CAP_PTWRITE, 2},        {VPT_CTL_PWREVTEN, VPT_CAP_POWER, 2},
        {VPT_CTL_EVENTEN, VPT_CAP_EVENT, 2},           {VPT_CTL_DISTNT, VPT_CAP_DISTNT, 8},
        {VPT_CTL_INJECT_PSB_PMI, VPT_CAP_PRESERVE, 3},
    };
    static const uint64_t cpls[] = {VPT_CTL_OS | VPT_CTL_USER, VPT_CTL_OS | VPT_CTL_USER,
                                    VPT_CTL_OS | VPT_CTL_USER, VPT_CTL_OS, VPT_CTL_USER};
    uint64_t ctl = VPT_CTL_TRACEEN | cpls[dice_draw(&run->dice, 5)] | timing(run) |
                   scheme(run, output_base) | ranges(run) | some(run, VPT_CTL_DISRETC, 4);

    if (!dice_one_in(&run->dice, 4))
        ctl |= VPT_CTL_BRANCHEN;
    for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++)
        if (run->truth.caps.leaf14_0_ebx & optional[i].cap)
            ctl |= some(run, optional[i].bit, optional[i].one_in);
    return ctl;
}

bool setup_may_trace(struct run *run)
{
    return !(run->owner.cpu.status & (VPT_STATUS_ERROR | VPT_STATUS_STOPPED));
}
