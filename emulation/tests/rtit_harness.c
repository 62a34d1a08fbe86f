/* SPDX-License-Identifier: BSD-3-Clause */
/* The RTIT fake and its reader. */
#include "rtit_harness.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The owner ------------------------------------------------------------------------------ */

static void on_translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                         struct vpt_span *span)
{
    struct rtit_fake *fake = owner;

    (void)access;
    span->len_bytes = len_bytes;
    span->kind = fake->fault                   ? VPT_SPAN_FAULT
                 : gpa + len_bytes <= RTIT_RAM ? VPT_SPAN_RAM
                                               : VPT_SPAN_UNBACKED;
    span->host = span->kind == VPT_SPAN_RAM ? fake->ram + gpa : NULL;
}

static void on_wrote(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    struct rtit_fake *fake = owner;

    fake->last_gpa = gpa;
    if (fake->tap_len + len_bytes > sizeof(fake->tap))
        return;
    memcpy(fake->tap + fake->tap_len, bytes, len_bytes);
    fake->tap_len += len_bytes;
}

static void on_clocks(void *owner, struct vpt_clocks *clocks)
{
    *clocks = ((struct rtit_fake *)owner)->clocks;
}

static const struct vpt_ops ops = {
    .translate = on_translate, .wrote = on_wrote, .clocks = on_clocks};

struct rtit_fake *rtit_open(uint32_t errata)
{
    struct rtit_fake *fake = calloc(1, sizeof(*fake));
    uint64_t value;

    if (!fake)
        abort();
    fake->ram = calloc(1, RTIT_RAM);
    if (!fake->ram)
        abort();
    CHECK(vpt_rtit_init(&fake->cpu, errata, &ops, fake), "vpt_rtit_init");
    vpt_rtit_rdmsr(&fake->cpu, VPT_RTIT_CTL, &value);
    rtit_write(fake, VPT_RTIT_BASE_ADDR, RTIT_BASE);
    rtit_write(fake, VPT_RTIT_LIMIT_MASK, 0xffff);
    return fake;
}

void rtit_close(struct rtit_fake *fake)
{
    free(fake->ram);
    free(fake);
}

uint64_t rtit_read(struct rtit_fake *fake, uint32_t msr)
{
    uint64_t value = 0;

    CHECK(vpt_rtit_rdmsr(&fake->cpu, msr, &value) == VPT_OK, "RDMSR %" PRIx32, msr);
    return value;
}

bool rtit_takes(struct rtit_fake *fake, uint32_t msr, uint64_t value)
{
    return vpt_rtit_wrmsr(&fake->cpu, msr, value, 0x401000) == VPT_OK;
}

void rtit_write(struct rtit_fake *fake, uint32_t msr, uint64_t value)
{
    CHECK(rtit_takes(fake, msr, value), "WRMSR %" PRIx32 " := %" PRIx64, msr, value);
}

struct vpt_rtit_context rtit_context(uint8_t cpl)
{
    return (struct vpt_rtit_context){.cr3 = 0x1000, .cpl = cpl, .paging = true};
}

static void enable(struct rtit_fake *fake, uint32_t ctl)
{
    const struct vpt_rtit_context ctx = rtit_context(0);

    vpt_rtit_set_context(&fake->cpu, &ctx);
    ctl |= VPT_RTIT_CTL_OS | VPT_RTIT_CTL_TRACE_EN | VPT_RTIT_CTL_DEST;
    rtit_write(fake, VPT_RTIT_CTL, ctl);
    rtit_write(fake, VPT_RTIT_CTL, ctl | VPT_RTIT_CTL_TRACE_ACTIVE);
    rtit_mark(fake);
}

struct rtit_fake *rtit_start(uint32_t errata, uint32_t ctl)
{
    struct rtit_fake *fake = rtit_open(errata);

    rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | 7);
    enable(fake, ctl);
    return fake;
}

struct rtit_fake *rtit_ranged(uint32_t ctl, uint64_t base, uint64_t limit)
{
    struct rtit_fake *fake = rtit_open(0);

    rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | 0);
    rtit_write(fake, VPT_RTIT_LIP0, base);
    rtit_write(fake, VPT_RTIT_LIP0 + 2, limit);
    enable(fake, ctl);
    return fake;
}

void rtit_mark(struct rtit_fake *fake)
{
    vpt_rtit_drain(&fake->cpu);
    fake->mark = fake->tap_len;
}

void rtit_do(struct rtit_fake *fake, enum vpt_rtit_kind kind, uint64_t target)
{
    const struct vpt_rtit_event event = {.kind = kind,
                                         .taken = true,
                                         .nlip = 0x401004,
                                         .target = target,
                                         .from = 0x401004,
                                         .after = fake->cpu.ctx};

    vpt_rtit_event(&fake->cpu, &event);
}

void rtit_branch(struct rtit_fake *fake, bool taken)
{
    const struct vpt_rtit_event event = {.kind = VPT_RTIT_COND,
                                         .taken = taken,
                                         .nlip = 0x401004,
                                         .target = taken ? 0x401020 : 0x401004,
                                         .after = fake->cpu.ctx};

    vpt_rtit_event(&fake->cpu, &event);
}

/* ---- The reader ----------------------------------------------------------------------------- */

struct text {
    char words[16384];
    size_t used;
    uint64_t last_lip;
    bool cycles;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text->used +=
        (size_t)vsnprintf(text->words + text->used, sizeof(text->words) - text->used, format, args);
    va_end(args);
    if (text->used >= sizeof(text->words))
        text->used = sizeof(text->words) - 1;
}

static uint64_t payload(const uint8_t *p, unsigned n)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

/* The cycle count behind a packet; how many bytes. */
static size_t read_count(struct text *text, const uint8_t *p)
{
    const unsigned n = p[0] & 3;

    put(text, ":%" PRIu64, (uint64_t)(p[0] >> 2) | payload(p + 1, n ? n - 1 : 0) << 6);
    return n;
}

static size_t read_ip(struct text *text, const uint8_t *p)
{
    static const char *const names[8] = {"PGE", "PGD", "OVF", "PCC", "BAD", "BAD", "TIP", "FAR"};
    const unsigned n = 2 * ((p[0] & 3u) + 1);
    uint64_t lip = payload(p + 1, n);

    if (!(p[0] & 4) && n < 6)
        lip |= text->last_lip >> (8 * n) << (8 * n);
    text->last_lip = lip;
    put(text, "%s(%" PRIx64 ")", names[p[0] >> 3 & 7], lip);
    return 1 + n;
}

static size_t read_tnt(struct text *text, uint8_t byte)
{
    int bit = 6;

    while (!(byte >> bit & 1))
        bit--;
    put(text, "TNT(");
    for (int i = bit - 1; i >= 0; i--)
        put(text, "%c", byte >> i & 1 ? 'T' : 'N');
    put(text, ")");
    return 1;
}

/* One packet without its count; *counted: one follows in cycle-accurate mode. */
static size_t read_packet(struct text *text, const uint8_t *p, bool *counted)
{
    *counted = true;
    if (p[0] < 0x80 && p[0] > 1) {
        *counted = p[0] & 0x40;
        return read_tnt(text, p[0]);
    }
    if (p[0] >> 6 == 2)
        return read_ip(text, p);
    if (p[0] == 0xc0) {
        *counted = false;
        text->last_lip = 0;
        put(text, payload(p + 1, 8) == 0 ? "PSB" : "BAD");
        return 9;
    }
    if (p[0] == 0xc1) {
        *counted = false;
        put(text, "STOP");
        return 1;
    }
    if ((p[0] & 0xfe) == 0xc2) {
        put(text, "PIP(%" PRIx64 ",%d)", payload(p + 1, 5), p[0] & 1);
        return 6;
    }
    if ((p[0] & 0xfc) == 0xc4) {
        put(text, "MTC(%d,%x)", p[0] & 3, p[1]);
        return 2;
    }
    if ((p[0] & 0xf0) == 0xd0) {
        put(text, "STS(%d,%d,%" PRIx64 ")", (p[0] & 15) << 2 | p[1] >> 6, p[1] & 0x3f,
            payload(p + 2, 5));
        return 7;
    }
    put(text, "BAD(%x)", p[0]);
    return 1;
}

const char *rtit_words(struct rtit_fake *fake)
{
    static struct text text;

    vpt_rtit_drain(&fake->cpu);
    memset(&text, 0, sizeof(text));
    text.cycles = fake->cpu.ctl & VPT_RTIT_CTL_CYCLE_ACC;
    for (size_t at = 0; at < fake->tap_len;) {
        bool counted;
        const size_t before = text.used;

        at += read_packet(&text, fake->tap + at, &counted);
        if (text.cycles && counted)
            at += read_count(&text, fake->tap + at);
        put(&text, " ");
        if (at <= fake->mark)
            text.used = before;
    }
    text.words[text.used ? text.used - 1 : 0] = '\0';
    return text.words;
}

bool rtit_expect_at(struct rtit_fake *fake, const char *pattern, const char *rule, const char *file,
                    unsigned line)
{
    const char *words = rtit_words(fake);

    return check_at(words_match(pattern, words), file, line, "%s: expected [%s], got [%s]", rule,
                    pattern, words);
}

bool rtit_status(struct rtit_fake *fake, uint64_t bit)
{
    return rtit_read(fake, VPT_RTIT_STATUS) & bit;
}

void rtit_event_to(struct rtit_fake *fake, enum vpt_rtit_kind kind, uint64_t target,
                   struct vpt_rtit_context after)
{
    const struct vpt_rtit_event event = {
        .kind = kind, .nlip = 0x401004, .from = 0x401000, .target = target, .after = after};

    vpt_rtit_event(&fake->cpu, &event);
}
