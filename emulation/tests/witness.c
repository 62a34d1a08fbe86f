/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A witness from outside: random programs run through the model, and libipt's instruction decoder
 * must find in the packets exactly the instructions that ran while PacketEn was 1.
 */
#include "harness.h"
#include "program.h"

#include <intel-pt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INSTRUCTIONS 200000u
#define USER_FILTER  1u
#define MIXED_FILTER 2u

struct setting {
    const char *name, *profile;
    uint64_t ctl;
    unsigned interrupts_per_1024;
    unsigned filter; /* ranges: none, in user code, in user and kernel code */
    bool toggle;     /* TraceEn off and on again at random */
    bool long_tnt;
};

#define OS     VPT_CTL_OS
#define USER   VPT_CTL_USER
#define BRANCH VPT_CTL_BRANCHEN
#define CR3    VPT_CTL_CR3FILTER
#define TIME   (VPT_CTL_TSCEN | VPT_CTL_MTCEN | VPT_CTL_CYCEN)

static const struct setting settings[] = {
    {"plain", "skylake", OS | USER | BRANCH, 2, 0, false, false},
    {"many interrupts", "skylake", OS | USER | BRANCH, 60, 0, false, false},
    {"no interrupts", "broadwell", OS | USER | BRANCH, 0, 0, false, false},
    {"DisRETC", "icelake-server", OS | USER | BRANCH | VPT_CTL_DISRETC, 2, 0, false, false},
    {"user only", "goldmont-plus", USER | BRANCH, 4, 0, false, false},
    {"kernel only", "gracemont", OS | BRANCH, 4, 0, false, false},
    {"one process", "skylake", OS | USER | BRANCH | CR3, 4, 0, false, false},
    {"one process, user", "sapphire-rapids", USER | BRANCH | CR3, 4, 0, false, false},
    {"timing", "icelake-server", OS | USER | BRANCH | TIME, 4, 0, false, false},
    {"timing, kernel only", "max", OS | BRANCH | TIME, 4, 0, false, true},
    {"one range", "skylake", OS | USER | BRANCH, 4, USER_FILTER, false, false},
    {"two ranges, timing", "max", OS | USER | BRANCH | TIME, 4, MIXED_FILTER, false, true},
    {"range and process", "gracemont", OS | USER | BRANCH | CR3, 4, MIXED_FILTER, false, false},
    {"long TNT", "max", OS | USER | BRANCH, 2, 0, false, true},
    {"TraceEn toggles", "skylake", OS | USER | BRANCH, 4, 0, true, false},
    {"TraceEn toggles, one entry", "broadwell", OS | USER | BRANCH, 4, 0, true, false},
    {"everything", "max", OS | BRANCH | CR3 | TIME, 10, MIXED_FILTER, true, true},
};

/* ---- What libipt reads of memory ------------------------------------------------------------ */

struct memory {
    const struct image *user, *kernel;
};

static int read_code(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
                     void *context)
{
    const struct memory *memory = context;
    const struct image *const images[] = {memory->user, memory->kernel};

    (void)asid;
    for (size_t i = 0; i < 2; i++) {
        uint64_t offset = ip - images[i]->base;

        if (offset >= images[i]->len_bytes)
            continue;
        if (size > images[i]->len_bytes - offset)
            size = images[i]->len_bytes - offset;
        memcpy(buffer, images[i]->code + offset, size);
        return (int)size;
    }
    return -pte_nomap;
}

/* ---- The decoder's list against the walk's -------------------------------------------------- */

static void configure(struct pt_config *config, struct fake *fake, const struct setting *setting)
{
    pt_config_init(config);
    config->begin = fake->tap;
    config->end = fake->tap + fake->tap_len;
    config->mtc_freq = (uint8_t)(fake_read(fake, VPT_MSR_CTL) >> VPT_CTL_MTCFREQ_SHR & 15);
    config->nom_freq = fake->caps.max_nonturbo_ratio;
    config->cpuid_0x15_eax = fake->caps.tsc_den;
    config->cpuid_0x15_ebx = fake->caps.tsc_num;
    if (!setting->filter)
        return;
    config->addr_filter.config.ctl.addr0_cfg = VPT_ADDR_CFG_FILTER;
    config->addr_filter.addr0_a = fake_read(fake, VPT_MSR_ADDR0_A);
    config->addr_filter.addr0_b = fake_read(fake, VPT_MSR_ADDR0_A + 1);
    if (setting->filter == USER_FILTER)
        return;
    config->addr_filter.config.ctl.addr1_cfg = VPT_ADDR_CFG_FILTER;
    config->addr_filter.addr1_a = fake_read(fake, VPT_MSR_ADDR0_A + 2);
    config->addr_filter.addr1_b = fake_read(fake, VPT_MSR_ADDR0_A + 3);
}

/* 0 at the end of the trace, else libipt's error. */
static int decode(struct pt_insn_decoder *decoder, struct list *list)
{
    int status = pt_insn_sync_forward(decoder);

    while (status >= 0) {
        struct pt_insn insn = {.iclass = ptic_error};

        while (status >= 0 && status & pts_event_pending) {
            struct pt_event event;

            status = pt_insn_event(decoder, &event, sizeof(event));
        }
        if (status < 0)
            break;
        if (status & pts_eos)
            return 0;
        status = pt_insn_next(decoder, &insn, sizeof(insn));
        if (insn.iclass != ptic_error)
            list_add(list, insn.ip);
    }
    return status == -pte_eos ? 0 : status;
}

static void compare(const char *name, struct fake *fake, const struct setting *setting,
                    const struct memory *memory, const struct list *ran)
{
    struct pt_config config;
    struct pt_insn_decoder *decoder;
    struct list seen = {0};
    uint64_t offset = 0;
    size_t same = 0;
    int error;

    configure(&config, fake, setting);
    decoder = pt_insn_alloc_decoder(&config);
    if (!decoder)
        abort();
    pt_image_set_callback(pt_insn_get_image(decoder), read_code, (void *)(uintptr_t)memory);
    error = decode(decoder, &seen);
    pt_insn_get_offset(decoder, &offset);
    while (same < seen.count && same < ran->count && seen.ip[same] == ran->ip[same])
        same++;
    CHECK(error == 0, "%s: libipt at byte %" PRIu64 " of %zu, after %zu instructions: %s", name,
          offset, fake->tap_len, seen.count, pt_errstr(pt_errcode(error)));
    CHECK(same == ran->count && same == seen.count,
          "%s: %zu ran, libipt found %zu; the first difference is number %zu: %" PRIx64
          " ran, %" PRIx64 " found (byte %" PRIu64 ")",
          name, ran->count, seen.count, same, same < ran->count ? ran->ip[same] : 0,
          same < seen.count ? seen.ip[same] : 0, offset);
    pt_insn_free_decoder(decoder);
    free(seen.ip);
}

/* ---- Running
 * -------------------------------------------------------------------------------------- */

/*
 * A third of an image, in whole functions: libipt does not take a TIP.PGD without payload for the
 * end of a conditional branch (33.4.2.5), and those stay within their function.
 */
static void choose_range(struct fake *fake, unsigned n, const struct image *image,
                         struct random *random)
{
    const uint32_t third = (uint32_t)image->functions / 3;
    const uint32_t first = draw(random, (uint32_t)image->functions - third);
    const struct insn *insn = &image->insn[image->function[first]];
    const struct insn *last = &image->insn[image->function[first + third] - 1];

    fake_write(fake, VPT_MSR_ADDR0_A + 2 * n, image->base + insn->offset);
    fake_write(fake, VPT_MSR_ADDR0_A + 2 * n + 1, image->base + last->offset);
}

static void set_tracing(struct fake *fake, const struct walk *walk, uint64_t ctl)
{
    struct vpt_context ctx = walk_context(walk);

    vpt_set_context(&fake->cpu, &ctx);
    CHECK(vpt_wrmsr(&fake->cpu, VPT_MSR_CTL, ctl, walk_ip(walk), walk_ip(walk)) == VPT_OK,
          "CTL := %" PRIx64, ctl);
}

/* Time goes on by a little with each instruction, and by more now and then. */
static void tick(struct fake *fake, struct random *random)
{
    uint64_t tsc = fake->clocks.tsc + draw(random, 4) + (draw(random, 1000) == 0 ? 300 : 0);

    vpt_clocks_from_tsc(&fake->caps, tsc, &fake->clocks);
}

/* least: so many instructions must be traced. */
static void run(const struct setting *setting, uint64_t seed, size_t least)
{
    static struct image user, kernel;
    const struct memory memory = {&user, &kernel};
    struct vpt_caps caps = plain_caps(setting->profile);
    struct random random = {seed * 2654435761u + 88172645463325252ull};
    struct list ran = {0};
    struct fake *fake;
    struct walk walk;
    uint64_t ctl = setting->ctl | VPT_CTL_TOPA | VPT_CTL_TRACEEN;
    char name[128];

    snprintf(name, sizeof(name), "%s, seed %" PRIu64, setting->name, seed);
    caps.long_tnt = setting->long_tnt;
    fake = fake_open_caps(&caps);
    program_make(&user, &kernel, &random);
    walk_start(&walk, &user, &kernel, &random);
    walk.interrupts_per_1024 = setting->interrupts_per_1024;
    fake_output(fake);
    if (setting->ctl & CR3)
        fake_write(fake, VPT_MSR_CR3_MATCH, walk_cr3(1));
    if (setting->filter) {
        choose_range(fake, 0, &user, &random);
        ctl |= (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR;
    }
    if (setting->filter == MIXED_FILTER) {
        choose_range(fake, 1, &kernel, &random);
        ctl |= (uint64_t)VPT_ADDR_CFG_FILTER << (VPT_CTL_ADDR_CFG_SHR + 4);
    }
    set_tracing(fake, &walk, ctl);
    for (unsigned i = 0; i < INSTRUCTIONS; i++) {
        struct vpt_transfer transfer;

        tick(fake, &random);
        if (setting->toggle && draw(&random, 500) == 0)
            set_tracing(fake, &walk, vpt_trigger_en(&fake->cpu) ? ctl & ~VPT_CTL_TRACEEN : ctl);
        if (walk_interrupt(&walk, &transfer))
            vpt_transfer(&fake->cpu, &transfer);
        /* A FUP with the address of INT3 comes before it (Table 33-23): libipt does not list it. */
        if (vpt_packet_en(&fake->cpu) && walk_kind(&walk) != INSN_INT3)
            list_add(&ran, walk_ip(&walk));
        walk_step(&walk, &fake->cpu);
        if (draw(&random, 4096) == 0)
            vpt_flush(&fake->cpu);
    }
    if (vpt_trigger_en(&fake->cpu))
        set_tracing(fake, &walk, ctl & ~VPT_CTL_TRACEEN);
    CHECK(ran.count >= least, "%s: only %zu instructions were traced", name, ran.count);
    compare(name, fake, setting, &memory, &ran);
    free(ran.ip);
    fake_close(fake);
}

static void test_settings(void)
{
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        run(&settings[i], i + 1, INSTRUCTIONS / 100);
}

/* Another seed each time; the messages of failures name it. A range may lie where little runs. */
static void test_new_seed(void)
{
    uint64_t seed = (uint64_t)time(NULL);

    printf("(seed %" PRIu64 ") ", seed);
    for (size_t i = 0; i < 3; i++)
        run(&settings[(seed + i) % (sizeof(settings) / sizeof(settings[0]))], seed + i, 0);
}

void suite_witness(void)
{
    static const struct test tests[] = {
        {"libipt finds what ran", test_settings},
        {"a new seed", test_new_seed},
        {NULL, NULL},
    };

    add_suite("witness: libipt", tests);
}
