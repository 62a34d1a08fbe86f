/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output and tables in places that are not RAM (33.2.7.4, Table 33-5), output that waits for an
 * EPT violation to be resolved, and what happens when it waits too long (33.3.8).
 */
#include "harness.h"

#include <inttypes.h>
#include <string.h>

#define NOISE (VPT_CTL_OS | VPT_CTL_BRANCHEN | VPT_CTL_TOPA)
#define SPOT  0x100000ull /* the region whose second page is odd */
#define ODD   (SPOT + 0x1000)

/* A region of four pages, of which the second is of the given kind. */
static struct fake *odd_page(enum vpt_span_kind kind, uint8_t *host)
{
    struct fake *fake = fake_open("max");
    struct vpt_context ctx = context_of(0);

    vpt_set_context(&fake->cpu, &ctx);
    fake_poke(fake, TABLE_GPA, SPOT | 2u << VPT_TOPA_SIZE_SHR);
    fake_poke(fake, TABLE_GPA + 8, TABLE_GPA | VPT_TOPA_END);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
    fake_map(fake, ODD, 0x1000, kind, host, false);
    return fake;
}

static bool all_bytes(const uint8_t *bytes, size_t n, uint8_t value)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

/* Stores to such a page are dropped, and output goes on behind it. */
static void test_dropped(void)
{
    static const enum vpt_span_kind kinds[] = {VPT_SPAN_UNBACKED, VPT_SPAN_MMIO, VPT_SPAN_READONLY,
                                               VPT_SPAN_APIC};
    static uint8_t rom[4096];

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct fake *fake = odd_page(kinds[i], kinds[i] == VPT_SPAN_READONLY ? rom : NULL);

        memset(rom, 0x77, sizeof(rom));
        fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
        fake_noise(fake, 10000);
        fake_stop(fake);
        CHECK(!fake_status(fake, VPT_STATUS_ERROR), "kind %d: an error", kinds[i]);
        CHECK(all_bytes(fake->ram + ODD, 4096, 0), "kind %d: RAM below was written", kinds[i]);
        CHECK(all_bytes(rom, 4096, 0x77), "kind %d: ROM was written", kinds[i]);
        CHECK(!all_bytes(fake->ram + ODD + 4096, 100, 0), "kind %d: output ends there", kinds[i]);
        CHECK(!all_bytes(fake->ram + ODD - 8, 8, 0), "kind %d: the page before", kinds[i]);
        CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == ((fake->tap_total + 4096) << 32 | 0x7f),
              "kind %d: the pointer does not count what was dropped", kinds[i]);
        CHECK(fake->other_len == (kinds[i] == VPT_SPAN_MMIO ? 4096 : 0),
              "kind %d: a device took %zu bytes", kinds[i], fake->other_len);
        CHECK(kinds[i] != VPT_SPAN_MMIO || fake->other_gpa == ODD, "the device's address");
        fake_close(fake);
    }
}

/* Table 33-5: the stores to SMRR memory are dropped, and here an error is signalled. */
static void test_restricted(void)
{
    struct fake *fake = odd_page(VPT_SPAN_RESTRICTED, NULL);

    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    fake_noise(fake, 10000);
    vpt_flush(&fake->cpu);
    CHECK(fake_status(fake, VPT_STATUS_ERROR) && !vpt_trigger_en(&fake->cpu), "no error");
    CHECK(fake->tap_total == 4096, "%" PRIu64 " bytes were stored", fake->tap_total);
    fake_stop(fake);
    fake_close(fake);
}

/* Single-range output to a device, bit for bit (33.2.7.1: a debug port). */
static void test_debug_port(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context ctx = context_of(0);
    char words[512];

    vpt_set_context(&fake->cpu, &ctx);
    fake_map(fake, 0xfe000000, 0x80, VPT_SPAN_MMIO, NULL, false);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, 0xfe000000);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | VPT_CTL_OS | VPT_CTL_BRANCHEN);
    for (unsigned i = 0; i < 100; i++)
        vpt_jmp_indirect(&fake->cpu, 0x401234);
    fake_stop(fake);
    CHECK(reader_text(fake->other, fake->other_len, 0, false, words, sizeof(words)) == false ||
              !strstr(words, "BAD"),
          "the device's bytes: [%s]", words);
    CHECK(fake->other_len > 300 && fake->tap_total == 0, "all went to the device");
    fake_close(fake);
}

static void test_tables(void)
{
    static uint8_t rom[4096];
    static const struct {
        enum vpt_span_kind kind;
        bool error;
        const char *why;
    } cases[] = {
        {VPT_SPAN_UNBACKED, true, "all ones are reserved bits"},
        {VPT_SPAN_MMIO, true, "all ones are reserved bits"},
        {VPT_SPAN_RESTRICTED, true, "Table 33-5, a table in SMRR memory"},
        {VPT_SPAN_READONLY, false, "ROM can be read"},
    };
    const uint64_t entries[2] = {SPOT, 0x50000000ull | VPT_TOPA_END};

    memcpy(rom, entries, sizeof(entries));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = fake_open("max");
        struct vpt_context ctx = context_of(0);

        vpt_set_context(&fake->cpu, &ctx);
        fake_map(fake, 0x50000000, 4096, cases[i].kind,
                 cases[i].kind == VPT_SPAN_READONLY ? rom : NULL, false);
        fake_write(fake, VPT_MSR_OUTPUT_BASE, 0x50000000);
        fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
        fake_noise(fake, 10000);
        vpt_flush(&fake->cpu);
        CHECK(fake_status(fake, VPT_STATUS_ERROR) == cases[i].error, "%s", cases[i].why);
        CHECK((fake->tap_total > 0) == !cases[i].error, "%s: %" PRIu64 " bytes", cases[i].why,
              fake->tap_total);
        fake_stop(fake);
        fake_close(fake);
    }
}

/* The second table of a chain lies in restricted memory: an error, but only when reached. */
static void test_restricted_next_table(void)
{
    struct fake *fake = odd_page(VPT_SPAN_RESTRICTED, NULL);

    fake_poke(fake, TABLE_GPA, 0x120000);
    fake_poke(fake, TABLE_GPA + 8, ODD | VPT_TOPA_END);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    fake_noise(fake, 10000);
    vpt_flush(&fake->cpu);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "no error");
    CHECK(fake->tap_total == 4096, "%" PRIu64 " bytes were stored", fake->tap_total);
    fake_stop(fake);
    fake_close(fake);
}

/* ---- EPT violations ------------------------------------------------------------------------- */

/* The same few events with and without a fault in the middle of the output: the same bytes. */
static void test_fault_waits(void)
{
    struct fake *plain = odd_page(VPT_SPAN_FAULT, NULL), *late = odd_page(VPT_SPAN_FAULT, NULL);

    fake_unmap(plain);
    for (int i = 0; i < 2; i++) {
        struct fake *fake = i ? late : plain;

        fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0xfc0ull << 32 | 0x7f);
        fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
        fake_noise(fake, 300);
        vpt_flush(&fake->cpu);
    }
    CHECK(late->tap_total == 64, "%" PRIu64 " bytes before the fault", late->tap_total);
    CHECK(vpt_output_blocked(&late->cpu), "the owner is not told");
    CHECK(!fake_status(late, VPT_STATUS_ERROR) && vpt_packet_en(&late->cpu), "tracing goes on");
    vpt_flush(&late->cpu);
    CHECK(late->tap_total == 64, "a flush got through the fault");
    fake_noise(late, 50);
    fake_noise(plain, 50);
    fake_unmap(late);
    vpt_flush(&late->cpu);
    CHECK(!vpt_output_blocked(&late->cpu), "the fault is resolved");
    fake_noise(late, 700);
    fake_noise(plain, 700);
    fake_stop(late);
    fake_stop(plain);
    CHECK(late->tap_len == plain->tap_len && memcmp(late->tap, plain->tap, plain->tap_len) == 0,
          "the bytes differ");
    CHECK(memcmp(late->ram, plain->ram, RAM_BYTES) == 0, "memory differs");
    CHECK(fake_read(late, VPT_MSR_OUTPUT_MASK_PTRS) == fake_read(plain, VPT_MSR_OUTPUT_MASK_PTRS),
          "the pointers differ");
    fake_close(plain);
    fake_close(late);
}

/* A fault when the table is read, at enabling and later. */
static void test_fault_of_table(void)
{
    struct fake *fake = odd_page(VPT_SPAN_FAULT, NULL);

    fake_poke(fake, ODD, 0x120000);
    fake_poke(fake, ODD + 8, ODD | VPT_TOPA_END);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, ODD);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    fake_noise(fake, 200);
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_total == 0 && !fake_status(fake, VPT_STATUS_ERROR), "output waits");
    fake_unmap(fake);
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_total > 200, "and goes on");
    CHECK(fake->stores[0].gpa == 0x120000, "at the start of the region");
    fake_stop(fake);
    fake_close(fake);
}

/* ToPA Errors 3 holds for an entry that could be read only later, too. */
static void test_fault_hides_bad_offset(void)
{
    struct fake *fake = odd_page(VPT_SPAN_FAULT, NULL);

    fake_poke(fake, ODD, 0x120000);
    fake_poke(fake, ODD + 8, ODD | VPT_TOPA_END);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, ODD);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x1800ull << 32 | 0x7f);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    fake_noise(fake, 200);
    vpt_flush(&fake->cpu);
    fake_unmap(fake);
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_total == 0, "%" PRIu64 " bytes beyond the region", fake->tap_total);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "no error");
    fake_stop(fake);
    fake_close(fake);
}

/* TraceEn is cleared while output waits: everything still arrives. */
static void test_fault_then_stop(void)
{
    struct fake *fake = odd_page(VPT_SPAN_FAULT, NULL);

    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x1000ull << 32 | 0x7f);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    vpt_jmp_indirect(&fake->cpu, 0x401234);
    fake_stop(fake);
    CHECK(fake->tap_total == 0, "output waits");
    fake_unmap(fake);
    CHECK(words_match("PSB+ MODE(64) PGE(401000) TIP(401234) FUP(40fff0) PGD()",
                      fake_words(fake, false)),
          "[%s]", fake_words(fake, false));
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == ((0x1000 + fake->tap_total) << 32 | 0x7f),
          "the pointer");
    fake_close(fake);
}

/* 33.3.8: when output waits too long packets are lost, OVF says so, and a FUP resumes. */
static void test_overflow(void)
{
    struct fake *fake = odd_page(VPT_SPAN_FAULT, NULL);
    const char *words;

    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x1000ull << 32 | 0x7f);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    vpt_call_direct(&fake->cpu, 0x402000, 0x401005);
    fake_noise(fake, 5000);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    CHECK(fake->tap_total == 0, "output waits");
    CHECK(vpt_packet_en(&fake->cpu), "33.3.8.1: the enables stay");
    fake_unmap(fake);
    vpt_flush(&fake->cpu);
    vpt_jmp_indirect(&fake->cpu, 0x404000);
    vpt_ret(&fake->cpu, 0x401005);
    vpt_jmp_indirect(&fake->cpu, 0x405000);
    fake_stop(fake);
    words = strstr(fake_words(fake, false), "OVF");
    /* The FUP is the IP of the first instruction whose packets come again: here either the one
     * at 403000H, whose TIP was lost, or the one at 404000H. */
    CHECK(words && (words_match("OVF FUP(403000) TIP(404000) TIP(401005) TIP(405000) FUP(40fff0) "
                                "PGD()",
                                words) ||
                    words_match("OVF FUP(404000) PSB+? TIP(401005) TIP(405000) FUP(40fff0) PGD()",
                                words)),
          "after the overflow: [%s]", words ? words : "no OVF");
    CHECK(words && !strstr(words + 1, "OVF"), "one OVF only");
    fake_close(fake);
}

/* 33.3.8: resolved while PacketEn = 0, a TIP.PGE follows when PacketEn becomes 1. */
static void test_overflow_resolved_outside(void)
{
    struct fake *fake = odd_page(VPT_SPAN_FAULT, NULL);
    struct vpt_context user = context_of(3), kernel = context_of(0);
    const char *words;

    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x1000ull << 32 | 0x7f);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    fake_noise(fake, 5000);
    fake_transfer(fake, VPT_IRET, 0x403000, 0x7000, &user); /* its TIP.PGD is lost */
    CHECK(!vpt_packet_en(&fake->cpu), "33.3.8.1: ContextEn changes during an overflow");
    fake_unmap(fake);
    vpt_flush(&fake->cpu);
    fake_transfer(fake, VPT_SOFT_INTERRUPT, 0x7008, 0x7010, &user); /* PacketEn 0 to 0 */
    fake_transfer(fake, VPT_INTERRUPT, 0x7010, 0x405000, &kernel);
    vpt_jmp_indirect(&fake->cpu, 0x405100);
    fake_stop(fake);
    words = strstr(fake_words(fake, false), "OVF");
    CHECK(words &&
              words_match("OVF PSB+? MODE(64)? PGE(405000) TIP(405100) FUP(40fff0) PGD()", words),
          "after the overflow: [%s]", words ? words : "no OVF");
    fake_close(fake);
}

/* 33.3.8.1: a TraceStop during the overflow still stops. */
static void test_overflow_and_tracestop(void)
{
    struct fake *fake = odd_page(VPT_SPAN_FAULT, NULL);

    fake_write(fake, VPT_MSR_ADDR0_A, 0x500000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x500fff);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x1000ull << 32 | 0x7f);
    fake_write(fake, VPT_MSR_CTL,
               VPT_CTL_TRACEEN | NOISE | (uint64_t)VPT_ADDR_CFG_TRACESTOP << VPT_CTL_ADDR_CFG_SHR);
    fake_noise(fake, 5000);
    vpt_jmp_indirect(&fake->cpu, 0x500800);
    CHECK(fake_status(fake, VPT_STATUS_STOPPED) && !vpt_trigger_en(&fake->cpu), "Stopped");
    fake_unmap(fake);
    vpt_flush(&fake->cpu);
    fake_stop(fake);
    CHECK(!strstr(fake_words(fake, false), "BAD"), "the bytes are packets");
    fake_close(fake);
}

void suite_memory(void)
{
    static const struct test tests[] = {
        {"stores that are dropped", test_dropped},
        {"restricted memory", test_restricted},
        {"a debug port", test_debug_port},
        {"tables that are not in RAM", test_tables},
        {"the next table is restricted", test_restricted_next_table},
        {"EPT violation: output waits", test_fault_waits},
        {"EPT violation: table", test_fault_of_table},
        {"EPT violation: a bad offset behind it", test_fault_hides_bad_offset},
        {"EPT violation: disabling", test_fault_then_stop},
        {"overflow", test_overflow},
        {"overflow resolved with PacketEn = 0", test_overflow_resolved_outside},
        {"overflow and TraceStop", test_overflow_and_tracestop},
        {NULL, NULL},
    };

    add_suite("memory of other kinds, overflow (33.2.7.4, 33.3.8)", tests);
}
