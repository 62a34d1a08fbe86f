/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unit tests of a guest that the host's Intel PT traces: perf's rings and files as they are made up
 * here, the guest's packets out of the thread's, and what its processor is told.
 */
#include "suites.h"
#include "hostpt/code-page.h"
#include "hostpt/code-watch.h"
#include "hostpt/cut.h"
#include "hostpt/event.h"
#include "hostpt/follow.h"
#include "hostpt/lend.h"
#include "hostpt/pace.h"
#include "hostpt/ring.h"
#include "kvm/tracer.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Packets, by hand ---- */

#define HOST_HIGH 0x81, 0xff, 0xff /* of all addresses of the host: 0xffff81...... */

#define PSB                                                                                        \
    0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82
#define PSBEND     0x02, 0x23
#define OVF        0x02, 0xf3
#define HOST_PIP   0x02, 0x43, 0x00, 0x11, 0x11, 0x00, 0x00, 0x00
#define GUEST_PIP  0x02, 0x43, 0x01, 0x05, 0x00, 0x00, 0x00, 0x00 /* CR3 0x5000 */
#define HOST_PGE   0x71, 0x00, 0x10, 0x00, HOST_HIGH
#define HOST_PGD   0x01
#define HOST_TIP   0x6d, 0x00, 0x20, 0x00, HOST_HIGH
#define HOST_VMCS  0x02, 0xc8, 0x77, 0x77, 0x07, 0x00, 0x00
#define TNT_T      0x06
#define TNT_NT     0x0a
#define SEXT48(ip) (uint8_t)(ip), (uint8_t)((ip) >> 8), (uint8_t)((ip) >> 16), 0, 0, 0
#define TIP(ip)    0x6d, SEXT48(ip)
#define TIP16(ip)  0x2d, (uint8_t)(ip), (uint8_t)((ip) >> 8)
#define FUP(ip)    0x7d, SEXT48(ip)
#define BEGIN      PSB, HOST_PIP, HOST_VMCS, PSBEND, HOST_PGE, TNT_NT, HOST_TIP
#define ENTRY(ip)  GUEST_PIP, TIP(ip)
#define EXIT(ip)   FUP(ip), HOST_PIP, HOST_TIP

/* The guest's packets, without PADs, as lines. */
static char *lines_of(const struct bytes *guest)
{
    char *lines = NULL, text[128];
    size_t len;
    FILE *const file = open_memstream(&lines, &len);
    struct ptd_packets packets;
    struct ptd_packet packet;

    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    ptd_packets_init(&packets, guest->data, guest->len);
    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        if (packet.type == PTD_PAD)
            continue;
        ptd_packet_format(&packet, text, sizeof(text));
        fprintf(file, "%s\n", text);
    }
    CU_ASSERT_EQUAL(ptd_packets_offset(&packets), guest->len);
    (void)fclose(file);
    return lines;
}

static void check_cut(struct cut *cut, const uint8_t *piece, size_t len, enum cut_end end,
                      const char *expected)
{
    struct bytes guest = {0};
    char *lines;

    const struct pt_piece thread = {.bytes = piece, .len = len};

    CU_ASSERT_EQUAL(cut_take(cut, &thread, &guest), end);
    lines = lines_of(&guest);
    CU_ASSERT_STRING_EQUAL(lines, expected);
    if (strcmp(lines, expected) != 0)
        fprintf(stderr, "got:\n%swanted:\n%s", lines, expected);
    free(lines);
    bytes_free(&guest);
}

/* Nothing of the host is left, and IPs that were compressed against its are whole. */
static void test_cut(void)
{
    static const uint8_t first[] = {BEGIN, ENTRY(0x401000), TNT_T, EXIT(0x402000), HOST_PGD};
    static const uint8_t next[] = {HOST_PGE,       TNT_NT,      ENTRY(0x402000), TIP16(0x3456),
                                   EXIT(0x403456), TNT_NT,      ENTRY(0x403456), PSB,
                                   GUEST_PIP,      FUP(0x5000), PSBEND,          TNT_T,
                                   EXIT(0x5000),   HOST_PGD};
    struct cut cut = {0};

    check_cut(&cut, first, sizeof(first), CUT_WHOLE,
              "PSB\nPSBEND\nPIP CR3 0x5000, NR\nTIP.PGE 0x401000 (64 bits)\nTNT T (1)\n"
              "FUP 0x402000 (64 bits)\nTIP.PGD (no IP)\nPIP CR3 0x0\n");
    check_cut(&cut, next, sizeof(next), CUT_WHOLE,
              "PIP CR3 0x5000, NR\nTIP.PGE 0x402000 (64 bits)\nTIP 0x403456 (64 bits)\n"
              "FUP 0x403456 (64 bits)\nTIP.PGD (no IP)\nPIP CR3 0x0\n"
              "PIP CR3 0x5000, NR\nTIP.PGE 0x403456 (64 bits)\nPSB\nPIP CR3 0x5000, NR\n"
              "FUP 0x5000 (64 bits)\nPSBEND\nTNT T (1)\n"
              "FUP 0x5000 (64 bits)\nTIP.PGD (no IP)\nPIP CR3 0x0\n");
}

/* Behind a loss, a PSB+ says who runs; until then, nothing is the guest's. */
static void test_cut_lost(void)
{
    static const uint8_t lost[] = {BEGIN, ENTRY(0x401000), OVF, TNT_T, EXIT(0x402000), HOST_PGD};
    static const uint8_t blind[] = {HOST_PGE,       ENTRY(0x402000), TNT_T,  PSB,
                                    GUEST_PIP,      FUP(0x402010),   PSBEND, TNT_NT,
                                    EXIT(0x402020), HOST_PGD};
    static const uint8_t in_guest[] = {BEGIN, ENTRY(0x401000), TNT_T};
    static const uint8_t no_fup[] = {BEGIN, ENTRY(0x401000), HOST_PIP, HOST_TIP, HOST_PGD};
    static const uint8_t unseen[] = {BEGIN, PSB, GUEST_PIP, PSBEND, HOST_PGD};
    static const uint8_t bad[] = {BEGIN, 0x02, 0xff, HOST_PGD};
    static const char begun[] = "PSB\nPSBEND\nPIP CR3 0x5000, NR\nTIP.PGE 0x401000 (64 bits)\n";
    struct cut cut = {0};

    check_cut(&cut, lost, sizeof(lost), CUT_LOST, begun);
    cut = (struct cut){0};
    check_cut(&cut, blind, sizeof(blind), CUT_WHOLE,
              "PSB\nPSBEND\nPIP CR3 0x5000, NR\nTIP.PGE 0x402010 (64 bits)\nTNT NT (2)\n"
              "FUP 0x402020 (64 bits)\nTIP.PGD (no IP)\nPIP CR3 0x0\n");
    cut = (struct cut){0};
    check_cut(&cut, in_guest, sizeof(in_guest), CUT_LOST,
              "PSB\nPSBEND\nPIP CR3 0x5000, NR\nTIP.PGE 0x401000 (64 bits)\nTNT T (1)\n");
    cut = (struct cut){0};
    check_cut(&cut, no_fup, sizeof(no_fup), CUT_LOST, begun);
    cut = (struct cut){0};
    check_cut(&cut, unseen, sizeof(unseen), CUT_LOST, "PSB\nPSBEND\n");
    cut = (struct cut){0};
    check_cut(&cut, bad, sizeof(bad), CUT_LOST, "PSB\nPSBEND\n");
    cut = (struct cut){0};
    check_cut(&cut, NULL, 0, CUT_LOST, "PSB\nPSBEND\n");
}

/* ---- A processor's trace, in which others are too ---- */

#define VMCS_OF(page)  0x02, 0xc8, (page), 0, 0, 0, 0
#define PSB_HOST(vmcs) PSB, HOST_PIP, VMCS_OF(vmcs), PSBEND
#define OTHER_PIP      0x02, 0x43, 0x01, 0x07, 0x00, 0x00, 0x00, 0x00

struct shared {
    const char *what;
    uint8_t bytes[256];
    size_t begin, len;
    bool alone;
    enum cut_end end;
    const char *lines; /* behind those that each trace begins with */
};

#define OURS_RAN                                                                                   \
    "PIP CR3 0x5000, NR\nTIP.PGE 0x401000 (64 bits)\nFUP 0x402000 (64 bits)\nTIP.PGD (no IP)\n"    \
    "PIP CR3 0x0\n"
#define BYTES(head, ...)                                                                           \
    .bytes = {head, __VA_ARGS__}, .begin = sizeof((uint8_t[]){head}),                              \
    .len = sizeof((uint8_t[]){head, __VA_ARGS__})
#define AND ,

/* Each goes on with what is known of the guest's VMCS by those in front. */
static const struct shared shared[] = {
    {"before ours is known, nobody's is",
     BYTES(PSB_HOST(9) AND HOST_PGE AND HOST_PGD, HOST_PGE, ENTRY(0x401000), EXIT(0x402000),
           HOST_PGD),
     false, CUT_LOST, ""},
    {"nobody else ran",
     BYTES(PSB_HOST(9) AND HOST_PGE AND HOST_PGD, HOST_PGE, ENTRY(0x401000), EXIT(0x402000),
           HOST_PGD),
     true, CUT_WHOLE, OURS_RAN},
    {"another one in front, and in it",
     BYTES(PSB_HOST(8) AND HOST_PGE AND OTHER_PIP AND TIP(0x666000) AND EXIT(0x667000) AND HOST_PGD,
           HOST_PGE, VMCS_OF(9), ENTRY(0x401000), EXIT(0x402000), VMCS_OF(8), OTHER_PIP,
           TIP(0x668000), TNT_T, EXIT(0x669000), HOST_PGD),
     false, CUT_WHOLE, OURS_RAN},
    {"a PSB in the other one, with the lead's last words",
     BYTES(PSB AND OTHER_PIP AND VMCS_OF(8) AND FUP(0x666000)
               AND PSBEND AND TNT_T AND EXIT(0x667000) AND HOST_PGD,
           HOST_PGE, VMCS_OF(9), ENTRY(0x401000), EXIT(0x402000), HOST_PGD),
     false, CUT_WHOLE, OURS_RAN},
    {"it begins amid a guest",
     BYTES(PSB_HOST(8) AND HOST_PGE AND OTHER_PIP AND TIP(0x666000), TNT_T, EXIT(0x667000),
           HOST_PGD),
     false, CUT_LOST, ""},
    {"which VMCS it is, is not told",
     BYTES(PSB AND HOST_PIP AND PSBEND, HOST_PGE, ENTRY(0x401000), EXIT(0x402000), HOST_PGD), false,
     CUT_LOST, ""},
    {"no PSB in front", BYTES(HOST_PGD, HOST_PGE, ENTRY(0x401000), EXIT(0x402000), HOST_PGD), true,
     CUT_LOST, ""},
};

static void test_cut_shared(void)
{
    static const char begun[] = "PSB\nPSBEND\n";
    struct cut cut = {0};

    for (size_t i = 0; i < COUNT(shared); i++) {
        const struct pt_piece piece = {.bytes = shared[i].bytes,
                                       .len = shared[i].len,
                                       .begin = shared[i].begin,
                                       .is_shared = true,
                                       .alone = shared[i].alone};
        struct bytes guest = {0};
        char *lines;

        cut_forget(&cut);
        CU_ASSERT_EQUAL(cut_take(&cut, &piece, &guest), shared[i].end);
        lines = lines_of(&guest);
        CU_ASSERT_EQUAL(strncmp(lines, begun, strlen(begun)), 0);
        CU_ASSERT_STRING_EQUAL(lines + strlen(begun), shared[i].lines);
        if (strcmp(lines + strlen(begun), shared[i].lines) != 0)
            fprintf(stderr, "%s: got:\n%s", shared[i].what, lines);
        free(lines);
        bytes_free(&guest);
    }
}

/* ---- Page tables ---- */

#define PAGE   4096u
#define TABLES 6u

/* Table N is page N, and all addresses are led by the first entries. */
static void test_pages(void)
{
    static const uint64_t user = 1 << 2, large = 1 << 7, no_execute = UINT64_C(1) << 63;
    const struct {
        const char *what;
        uint64_t entry; /* beside "present" */
        uint64_t above; /* in the entries that lead to it */
        uint64_t address;
        size_t at;      /* 0: there is no code */
        unsigned level; /* of the entry: tables in front of it */
        bool is_la57, is_user;
    } cases[] = {
        {"a page of a program", 0x5000 | user, user, 0, 0x5000, 3, false, true},
        {"of the kernel by one level", 0x5000 | user, 0, 0, 0x5000, 3, false, false},
        {"of the kernel by its own entry", 0x5000, user, 0, 0x5000, 3, false, false},
        {"data", 0x5000 | user | no_execute, user, 0, 0, 3, false, false},
        {"data by one level", 0x5000 | user, user | no_execute, 0, 0, 3, false, false},
        {"2 MiB", large | user, user, 0x3000, 0x3000, 2, false, true},
        {"2 MiB, with more of the entry than counts", 0x1000 | large, user, 0x3000, 0x3000, 2,
         false, false},
        {"1 GiB", large | user, user, 0x4000, 0x4000, 1, false, true},
        {"five levels", 0x5000 | user, user, 0, 0x5000, 4, true, true},
        {"a page that is not in memory", 0x100000 | user, user, 0, 0, 3, false, false},
        {"a table that is not in memory", 0x100000 | user, user, 0, 0, 0, false, false},
        {"512 GiB are no page", 0x100000 | large | user, user, 0, 0, 0, false, false},
    };
    static uint8_t ram[TABLES * PAGE];
    struct ptd_memory *const memory = ptd_memory_new();

    CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
    CU_ASSERT_EQUAL(ptd_memory_add(memory, 0, ram, sizeof(ram)), PTD_OK);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const uint8_t *page;
        bool is_user = false;

        memset(ram, 0, sizeof(ram));
        for (unsigned level = 0; level <= cases[i].level; level++) {
            uint64_t entry =
                level < cases[i].level ? (level + 1) * PAGE | cases[i].above : cases[i].entry;

            entry |= 1;
            memcpy(ram + level * PAGE, &entry, sizeof(entry));
        }
        page = code_page(memory, cases[i].is_la57, 0, cases[i].address, &is_user);
        CU_ASSERT_PTR_EQUAL(page, cases[i].at ? ram + cases[i].at : NULL);
        CU_ASSERT_EQUAL(is_user, cases[i].is_user);
        if (page != (cases[i].at ? ram + cases[i].at : NULL) || is_user != cases[i].is_user)
            fprintf(stderr, "%s\n", cases[i].what);
    }
    ptd_memory_free(memory);
}

/* ---- A guest that is followed ---- */

#define CODE   0x10000u
#define OUTPUT 0x40000u

/* xor eax, eax; jz 6; ud2; 6: call 10h; b: cpuid; d: hlt; 10h: ret */
static const uint8_t program[] = {0x31, 0xc0, 0x74, 0x02, 0x0f, 0x0b, 0xe8, 0x05, 0x00,
                                  0x00, 0x00, 0x0f, 0xa2, 0xf4, 0x90, 0x90, 0xc3};
/* Its way: CPUID exits, and the host carries it out. */
static const uint8_t way[] = {BEGIN,
                              ENTRY(CODE),
                              TNT_T,
                              TIP(CODE + 0xb),
                              EXIT(CODE + 0xb),
                              TNT_NT,
                              ENTRY(CODE + 0xd),
                              EXIT(CODE + 0xd),
                              HOST_PGD};

struct followed {
    struct fake *fake;
    struct ptd_memory *memory;
    struct follow *follow;
    struct follow_state state;
};

static void no_time(void *owner, uint64_t tsc)
{
    (void)owner;
    (void)tsc;
}

static void write_msr(struct followed *guest, uint32_t msr, uint64_t value, uint64_t ip)
{
    CU_ASSERT_EQUAL(tracer_wrmsr(guest->fake->cpu, msr, value, ip - 2, ip), VPT_OK);
}

/* Tables of one page each, which map the memory to itself. */
static void map_memory(struct fake *fake)
{
    fake_put(fake, 0x5000, 0x6003);
    fake_put(fake, 0x6000, 0x7003);
    fake_put(fake, 0x7000, 0x83); /* 2 MiB */
}

static struct followed open_guest(uint64_t budget_ns)
{
    struct followed guest = {
        .fake = fake_new(), .memory = ptd_memory_new(), .state = {.is_long = true}};
    struct vpt_caps caps;
    struct follow_config config = {.cpu = &guest.fake->cpu->tracer.pt,
                                   .memory = guest.memory,
                                   .budget_ns = budget_ns,
                                   .time = no_time};

    CU_ASSERT_PTR_NOT_NULL_FATAL(guest.memory);
    CU_ASSERT_EQUAL(ptd_memory_add(guest.memory, 0, guest.fake->ram, FAKE_RAM_BYTES), PTD_OK);
    CU_ASSERT_TRUE_FATAL(vpt_profile("plain", &caps));
    CU_ASSERT_EQUAL_FATAL(tracer_create(guest.fake->cpu, &caps), 0);
    map_memory(guest.fake);
    memcpy(guest.fake->ram + CODE, program, sizeof(program));
    vcpu_sregs(guest.fake->cpu)->cr3 = 0x5000;
    write_msr(&guest, VPT_MSR_OUTPUT_BASE, OUTPUT, CODE);
    write_msr(&guest, VPT_MSR_OUTPUT_MASK_PTRS, 0xffff, CODE);
    write_msr(&guest, VPT_MSR_CTL,
              VPT_CTL_BRANCHEN | VPT_CTL_OS | VPT_CTL_DISRETC | VPT_CTL_TRACEEN, CODE);
    guest.follow = follow_new(&config);
    CU_ASSERT_PTR_NOT_NULL_FATAL(guest.follow);
    return guest;
}

static void close_guest(struct followed *guest)
{
    follow_free(guest->follow);
    ptd_memory_free(guest->memory);
    fake_free(guest->fake);
}

static void take_piece(struct followed *guest, const uint8_t *piece, size_t len)
{
    const struct pt_piece thread = {.bytes = piece, .len = len};

    CU_ASSERT_EQUAL(follow_piece(guest->follow, &guest->state, &thread), 0);
}

/* The guest's own trace, ended at an IP: what ran by it. */
static size_t decode(struct followed *guest, uint64_t end, uint64_t *ips, size_t room)
{
    const struct bytes *const trace = &guest->fake->result.cpus[0].trace;
    struct ptd_image *const image = ptd_image_new();
    struct ptd_flow *flow;
    struct ptd_item item;
    struct ptd_insn insn;
    size_t count = 0;

    write_msr(guest, VPT_MSR_CTL, 0, end + 2);
    CU_ASSERT_EQUAL(
        ptd_image_add_bytes(image, NULL, CODE, guest->fake->ram + CODE, 64, PTD_ANY_CR3), 0);
    flow = ptd_flow_new(trace->data, trace->len, image, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(flow);
    while (ptd_flow_next(flow, &item) == PTD_OK) {
        uint64_t ip = item.ip;

        CU_ASSERT_NOT_EQUAL(item.type, PTD_ITEM_ERROR);
        while (item.type == PTD_ITEM_BLOCK && count < room &&
               ptd_block_insn(image, &item, &ip, &insn) == PTD_OK)
            ips[count++] = insn.ip;
    }
    ptd_flow_free(flow);
    ptd_image_free(image);
    return count;
}

static void test_follow(void)
{
    static const uint64_t expected[] = {CODE, CODE + 2, CODE + 6, CODE + 0x10, CODE + 0xb};
    struct followed guest = open_guest(0);
    uint64_t ips[16], ip;

    take_piece(&guest, way, sizeof(way));
    CU_ASSERT_EQUAL(follow_sums(guest.follow)->overflows, 0);
    CU_ASSERT_EQUAL(follow_sums(guest.follow)->exits, 2);
    CU_ASSERT_TRUE(follow_exit_ip(guest.follow, &ip) && ip == CODE + 0xd);
    CU_ASSERT_EQUAL(decode(&guest, CODE + 0xd, ips, COUNT(ips)), COUNT(expected));
    CU_ASSERT_EQUAL(memcmp(ips, expected, sizeof(expected)), 0);
    close_guest(&guest);
}

/* An event that the host delivers with the entry, where the guest stood. */
static void test_follow_event(void)
{
    static const uint8_t event[] = {
        BEGIN, ENTRY(CODE), EXIT(CODE), ENTRY(CODE + 0x10), EXIT(CODE + 0x10), HOST_PGD};
    struct followed guest = open_guest(0);
    char *lines;

    take_piece(&guest, event, sizeof(event));
    vpt_flush(&guest.fake->cpu->tracer.pt);
    lines = lines_of(&guest.fake->result.cpus[0].trace);
    CU_ASSERT_PTR_NOT_NULL(strstr(lines, "FUP 0x0 (16 bits)\nTIP 0x10 (16 bits)\n"));
    free(lines);
    close_guest(&guest);
}

/* Code that changed, and that this piece ran or did not. */
static void test_follow_changes(void)
{
    static const uint8_t again[] = {HOST_PGE, ENTRY(CODE + 0xd), EXIT(CODE + 0xd), HOST_PGD};
    static const uint8_t back[] = {HOST_PGE,         ENTRY(CODE + 0xd), FUP(CODE + 0xd),
                                   TIP(CODE + 0x10), TIP(CODE + 0xb),   EXIT(CODE + 0xb),
                                   HOST_PGD};
    struct followed guest = open_guest(0);

    take_piece(&guest, way, sizeof(way));
    guest.fake->ram[CODE + 0x20] = 1; /* nothing that ran */
    take_piece(&guest, again, sizeof(again));
    CU_ASSERT_EQUAL(follow_sums(guest.follow)->rebuilt, 0);
    guest.fake->ram[CODE] = 0x29; /* sub eax, eax */
    take_piece(&guest, again, sizeof(again));
    CU_ASSERT_EQUAL(follow_sums(guest.follow)->rebuilt, 1);
    CU_ASSERT_EQUAL(follow_sums(guest.follow)->overflows, 0);
    take_piece(&guest, back, sizeof(back)); /* which sees the RET */
    CU_ASSERT_EQUAL(follow_sums(guest.follow)->overflows, 0);
    memcpy(guest.fake->ram + CODE + 0x10, "\xc2\x00", 2); /* a RET of another form */
    take_piece(&guest, back, sizeof(back));
    CU_ASSERT_EQUAL(follow_sums(guest.follow)->rebuilt, 2);
    CU_ASSERT_EQUAL(follow_sums(guest.follow)->overflows, 1);
    close_guest(&guest);
}

/* What is not sure is an overflow of the guest's trace, which goes on where it is known again. */
static void test_follow_lost(void)
{
    static const uint8_t lost[] = {BEGIN, ENTRY(CODE), OVF, EXIT(CODE + 0xb), HOST_PGD};
    static const uint8_t no_code[] = {BEGIN, ENTRY(0x500000), TNT_T, EXIT(CODE), HOST_PGD};
    struct followed guest;
    char *lines;

    for (unsigned i = 0; i < 3; i++) {
        guest = open_guest(0);
        take_piece(&guest,
                   i == 0   ? lost
                   : i == 1 ? no_code
                            : way,
                   i == 0   ? sizeof(lost)
                   : i == 1 ? sizeof(no_code)
                            : sizeof(way));
        if (i == 2) /* KVM says that it is in user mode, which no packet has told */
            guest.state.cpl = 3;
        take_piece(&guest, way, sizeof(way));
        CU_ASSERT_EQUAL(follow_sums(guest.follow)->overflows, 1);
        vpt_flush(&guest.fake->cpu->tracer.pt);
        lines = lines_of(&guest.fake->result.cpus[0].trace);
        CU_ASSERT_PTR_NOT_NULL(strstr(lines, "OVF\nFUP 0x10000 (48 bits)\n"));
        free(lines);
        close_guest(&guest);
    }
}

/* Which guest it is in a processor's trace is learnt before it traces itself. */
static void test_follow_learn(void)
{
    struct followed guest = open_guest(0);

    for (size_t i = 0; i < 2; i++) {
        const struct pt_piece piece = {.bytes = shared[i].bytes,
                                       .len = shared[i].len,
                                       .begin = shared[i].begin,
                                       .is_shared = true,
                                       .alone = shared[i].alone};

        CU_ASSERT_TRUE(follow_learn(guest.follow, &piece));
        CU_ASSERT_EQUAL(follow_knows_vmcs(guest.follow), i == 1);
    }
    CU_ASSERT_EQUAL(follow_sums(guest.follow)->insns, 0);
    close_guest(&guest);
}

/* An overflow ends with tracing: what is missing behind that is another one. */
static void test_follow_lost_again(void)
{
    static const uint8_t lost[] = {BEGIN, ENTRY(CODE), OVF, EXIT(CODE + 0xb), HOST_PGD};
    struct followed guest = open_guest(0);
    char *lines, *first;

    take_piece(&guest, lost, sizeof(lost));
    write_msr(&guest, VPT_MSR_CTL, 0, CODE + 0xd);
    follow_elsewhere(guest.follow);
    write_msr(&guest, VPT_MSR_CTL, VPT_CTL_BRANCHEN | VPT_CTL_OS | VPT_CTL_TRACEEN, CODE);
    take_piece(&guest, lost, sizeof(lost));
    CU_ASSERT_EQUAL(follow_sums(guest.follow)->overflows, 2);
    take_piece(&guest, way, sizeof(way));
    vpt_flush(&guest.fake->cpu->tracer.pt);
    lines = lines_of(&guest.fake->result.cpus[0].trace);
    first = strstr(lines, "OVF\n");
    CU_ASSERT_TRUE(first && strstr(first + 1, "OVF\nFUP 0x10000 (48 bits)\n"));
    free(lines);
    close_guest(&guest);
}

/* A RET to itself, many times: following takes longer than it may, or as long as it takes. */
static void test_follow_behind(void)
{
    static const uint8_t head[] = {BEGIN, ENTRY(CODE + 0x10)}, again[] = {TIP16(CODE + 0x10)},
                         tail[] = {EXIT(CODE + 0x10), HOST_PGD};
    struct bytes piece = {0};
    struct followed guest;

    CU_ASSERT_TRUE(bytes_add(&piece, head, sizeof(head)));
    for (unsigned i = 0; i < 1000; i++)
        CU_ASSERT_TRUE(bytes_add(&piece, again, sizeof(again)));
    CU_ASSERT_TRUE(bytes_add(&piece, tail, sizeof(tail)));
    for (unsigned budget = 0; budget < 2; budget++) {
        guest = open_guest(budget);
        take_piece(&guest, piece.data, piece.len);
        CU_ASSERT_EQUAL(follow_sums(guest.follow)->overflows, budget);
        CU_ASSERT_EQUAL(follow_sums(guest.follow)->insns == 1000, budget == 0);
        take_piece(&guest, way, sizeof(way)); /* goes on in any case */
        CU_ASSERT_EQUAL(follow_sums(guest.follow)->overflows, budget);
        close_guest(&guest);
    }
    bytes_free(&piece);
}

/* Whatever the bytes are, and whatever stands in memory. */
/* Half of a region at the rate of late, and no less than it takes to begin and to end a piece. */
static void test_pace(void)
{
    const struct {
        const char *what;
        uint64_t ctl, region_bytes;
        struct {
            uint64_t ns, bytes;
        } pieces[3]; /* up to one of 0 ns */
        uint64_t next_ns;
    } cases[] = {
        {"nothing is known", VPT_CTL_TOPA, 4096, {{0, 0}}, PACE_LEAST_NS},
        {"nothing is known, and there is room", VPT_CTL_TOPA, 1 << 20, {{0, 0}}, PACE_MOST_NS},
        {"8 KiB a millisecond", VPT_CTL_TOPA, 4096, {{20000000, 20 * 8192}}, 250000},
        {"1 MiB a millisecond", VPT_CTL_TOPA, 4096, {{20000000, 20 << 20}}, PACE_LEAST_NS},
        {"the same, and a large region", VPT_CTL_TOPA, 1 << 20, {{20000000, 20 << 20}}, 500000},
        {"next to nothing", VPT_CTL_TOPA, 4096, {{20000000, 20}}, PACE_MOST_NS},
        {"nothing at all", VPT_CTL_TOPA, 4096, {{20000000, 0}}, PACE_MOST_NS},
        {"a piece that was short and idle says little",
         VPT_CTL_TOPA,
         4096,
         {{20000000, 20 * 8192}, {16000, 0}},
         250244},
        {"a long one does", VPT_CTL_TOPA, 4096, {{20000000, 20 * 8192}, {8000000, 0}}, 500000},
        {"more than before counts at once",
         VPT_CTL_TOPA,
         4096,
         {{20000000, 20 * 8192}, {100000, 1638}},
         125030},
        {"no time at all", VPT_CTL_TOPA, 4096, {{0, 4096}}, PACE_LEAST_NS},
        {"one range of memory has no PMI", 0, 0, {{20000000, 20 << 20}}, PACE_MOST_NS},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct vpt_cpu cpu = {.ctl = cases[i].ctl, .region_bytes = cases[i].region_bytes};
        struct pace pace = {0};
        uint64_t next;

        for (size_t j = 0;
             j < COUNT(cases[i].pieces) && cases[i].pieces[j].bytes + cases[i].pieces[j].ns; j++) {
            cpu.output_bytes += cases[i].pieces[j].bytes;
            pace_ran(&pace, &cpu, cases[i].pieces[j].ns);
        }
        next = pace_next_ns(&pace, &cpu);
        CU_ASSERT_EQUAL(next, cases[i].next_ns);
        if (next != cases[i].next_ns)
            fprintf(stderr, "%s: %llu ns\n", cases[i].what, (unsigned long long)next);
    }
}

static void test_follow_garbage(void)
{
    struct followed guest = open_guest(0);
    uint8_t piece[sizeof(way)];
    uint32_t random = 1;

    for (unsigned round = 0; round < 3000; round++) {
        memcpy(piece, way, sizeof(way));
        for (unsigned i = 0; i < round % 5; i++) {
            random = random * 1664525u + 1013904223u;
            piece[(random >> 8) % sizeof(piece)] = (uint8_t)(random >> 16);
        }
        random = random * 1664525u + 1013904223u;
        if (round % 7 == 0)
            guest.fake->ram[CODE + (random >> 8) % 0x11] = (uint8_t)(random >> 16);
        if (round % 100 == 0)
            fake_put(guest.fake, 0x7000, random);
        take_piece(&guest, piece, sizeof(piece) - random % 3);
    }
    CU_ASSERT_TRUE(follow_sums(guest.follow)->overflows > 0);
    close_guest(&guest);
}

/* ---- perf's rings ---- */

#define RING 4096u

static void put_record(uint8_t *ring, uint64_t *head, uint32_t type, uint64_t flags)
{
    const struct {
        struct perf_event_header header;
        uint64_t offset, size, flags;
    } record = {{.type = type, .size = sizeof(record)}, 0, 0, flags};
    uint8_t bytes[sizeof(record)];

    memcpy(bytes, &record, sizeof(record));
    for (size_t i = 0; i < sizeof(bytes); i++)
        ring[(*head)++ % RING] = bytes[i];
}

static void test_ring(void)
{
    static uint8_t records[RING], aux[RING];
    struct perf_event_mmap_page page = {.aux_head = 3 * RING - 10, .aux_tail = 3 * RING - 10};
    struct ring ring = {&page, records, aux, RING, RING};
    struct bytes bytes = {0};
    struct ring_news news;
    uint64_t head = RING - 20; /* the first record goes round */

    page.data_tail = head;
    for (size_t i = 0; i < RING; i++)
        aux[i] = (uint8_t)i;
    put_record(records, &head, PERF_RECORD_AUX, 0);
    put_record(records, &head, PERF_RECORD_ITRACE_START, 0);
    page.data_head = head;
    ring_records(&ring, &news);
    CU_ASSERT_FALSE(news.lost || news.collided);
    CU_ASSERT_EQUAL(page.data_tail, head);
    put_record(records, &head, PERF_RECORD_AUX, PERF_AUX_FLAG_TRUNCATED);
    page.data_head = head;
    ring_records(&ring, &news);
    CU_ASSERT_TRUE(news.lost && !news.collided);
    put_record(records, &head, PERF_RECORD_AUX, PERF_AUX_FLAG_COLLISION);
    page.data_head = head;
    ring_records(&ring, &news);
    CU_ASSERT_TRUE(!news.lost && news.collided);
    page.data_head = head + 12; /* a record without a size */
    memset(&records[head % RING], 0, 12);
    ring_records(&ring, &news);
    CU_ASSERT_TRUE(news.lost);

    CU_ASSERT_TRUE(ring_take(&ring, &bytes) && bytes.len == 0);
    page.aux_head += 30; /* round the end */
    CU_ASSERT_TRUE(ring_take(&ring, &bytes));
    CU_ASSERT_EQUAL(bytes.len, 30);
    for (size_t i = 0; i < bytes.len; i++)
        CU_ASSERT_EQUAL(bytes.data[i], (uint8_t)(RING - 10 + i));
    CU_ASSERT_EQUAL(page.aux_tail, page.aux_head);
    page.aux_head += RING + 1;
    CU_ASSERT_FALSE(ring_take(&ring, &bytes));
    bytes_free(&bytes);
}

/* What somebody else empties. */
static void test_ring_look(void)
{
    static const uint8_t psb[] = {PSB};
    static uint8_t records[RING], aux[RING];
    struct perf_event_mmap_page page = {.aux_head = 5 * RING + 100, .data_head = 0};
    const struct ring ring = {&page, records, aux, RING, RING};
    struct bytes bytes = {0};
    struct ring_news news;
    uint64_t head = 0, at = 0;

    for (size_t i = 0; i < RING; i++)
        aux[i] = (uint8_t)(i | 0x40);
    CU_ASSERT_FALSE(ring_find_psb(&ring, page.aux_head, &at));
    for (size_t i = 0; i < sizeof(psb); i++)
        aux[(RING - 8 + i) % RING] = psb[i]; /* round the end */
    CU_ASSERT_TRUE(ring_find_psb(&ring, page.aux_head, &at));
    CU_ASSERT_EQUAL(at, 5 * RING - 8);
    CU_ASSERT_TRUE(ring_find_psb(&ring, 5 * RING + 8, &at));
    CU_ASSERT_FALSE(ring_find_psb(&ring, 5 * RING + 7, &at));
    CU_ASSERT_TRUE(ring_copy(&ring, 5 * RING - 8, page.aux_head, &bytes));
    CU_ASSERT_TRUE(bytes.len == 108 && memcmp(bytes.data, psb, sizeof(psb)) == 0);
    CU_ASSERT_TRUE(ring_has(&ring, 4 * RING + 100));
    CU_ASSERT_FALSE(ring_has(&ring, 4 * RING + 99));
    CU_ASSERT_FALSE(ring_copy(&ring, 4 * RING + 99, page.aux_head, &bytes));

    put_record(records, &head, PERF_RECORD_AUX, PERF_AUX_FLAG_TRUNCATED);
    at = head;
    put_record(records, &head, PERF_RECORD_AUX, 0);
    page.data_head = head;
    ring_look(&ring, at, &news);
    CU_ASSERT_FALSE(news.lost);
    ring_look(&ring, 0, &news);
    CU_ASSERT_TRUE(news.lost);
    CU_ASSERT_EQUAL(page.data_tail, 0);
    page.data_head = at + RING + 1; /* more than there was room for */
    ring_look(&ring, at, &news);
    CU_ASSERT_TRUE(news.lost);
    bytes_free(&bytes);
}

/* ---- Events that are lent ---- */

#define LENT 150u /* more than one message */

static void test_lend(void)
{
    struct lent_event events[LENT];
    struct lent lent;
    struct reason why = {0};
    int ends[2], fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    uint8_t garbage[64] = {1, 2, 3};

    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    for (unsigned i = 0; i < LENT; i++)
        events[i] = (struct lent_event){.cpu = 2 * i, .fd = fd};
    CU_ASSERT_EQUAL(lend_send(ends[0], 0x1234, events, LENT), 0);
    CU_ASSERT_EQUAL_FATAL(lend_receive(ends[1], &lent, &why), 0);
    CU_ASSERT_EQUAL(lent.config, 0x1234);
    CU_ASSERT_EQUAL_FATAL(lent.count, LENT);
    for (unsigned i = 0; i < LENT; i++)
        CU_ASSERT_TRUE(lent.events[i].cpu == 2 * i &&
                       fcntl(lent.events[i].fd, F_GETFD) == FD_CLOEXEC);
    lend_close(&lent);

    CU_ASSERT_EQUAL(send(ends[0], garbage, sizeof(garbage), 0), sizeof(garbage));
    CU_ASSERT_EQUAL(lend_receive(ends[1], &lent, &why), -EBADMSG);
    CU_ASSERT_EQUAL(lend_send(ends[0], 1, events, 70), 0); /* the second message is missing: */
    CU_ASSERT_EQUAL(recv(ends[1], garbage, sizeof(garbage), 0), sizeof(garbage));
    CU_ASSERT_EQUAL(lend_receive(ends[1], &lent, &why), -EBADMSG);
    CU_ASSERT_EQUAL(lend_send(ends[0], 1, events, 1), 0);
    (void)close(ends[0]);
    CU_ASSERT_EQUAL(lend_receive(ends[1], &lent, &why), 0);
    lend_close(&lent);
    CU_ASSERT_EQUAL(lend_receive(ends[1], &lent, &why), -ECONNREFUSED);
    CU_ASSERT_PTR_NOT_NULL(strstr(why.text, "lends nothing"));
    (void)close(ends[1]);
    (void)close(fd);
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

/* A signal amid the question is no answer. Each comes while it is asked, more likely than not. */
static void test_lend_signals(void)
{
    const struct itimerval often = {.it_interval.tv_usec = 100, .it_value.tv_usec = 100};
    const struct itimerval never = {0};
    const time_t end = time(NULL) + 10;
    struct sigaction action = {.sa_handler = count_signal}, before;
    unsigned denied = 0;
    int ends[2];

    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    CU_ASSERT_EQUAL_FATAL(sigaction(SIGALRM, &action, &before), 0);
    signals = 0;
    CU_ASSERT_EQUAL_FATAL(setitimer(ITIMER_REAL, &often, NULL), 0);
    while (signals < 500 && time(NULL) < end)
        denied += !lend_goes_on(ends[1]);
    CU_ASSERT_EQUAL(setitimer(ITIMER_REAL, &never, NULL), 0);
    CU_ASSERT_EQUAL(sigaction(SIGALRM, &before, NULL), 0);
    CU_ASSERT_TRUE(signals > 0);
    CU_ASSERT_EQUAL(denied, 0);
    (void)close(ends[0]);
    CU_ASSERT_FALSE(lend_goes_on(ends[1]));
    (void)close(ends[1]);
}

/* ---- What Linux says of the hardware ---- */

static void put_file(const char *folder, const char *name, const char *text)
{
    char path[128];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    (void)fclose(file);
}

static void test_setting(void)
{
    static const char *const files[][2] = {
        {"format/tsc", "config:10\n"},    {"format/noretcomp", "config:11\n"},
        {"format/mtc", "config:9\n"},     {"format/mtc_period", "config:14-17\n"},
        {"format/ptw", "config:12\n"},    {"format/fup_on_ptw", "config:5\n"},
        {"format/branch", "config:13\n"}, {"format/pt", "config:0\n"},
        {"caps/ptwrite", "1\n"},          {"caps/mtc_periods", "249\n"},
        {"max_nonturbo_ratio", "21\n"}};
    char folder[] = "/tmp/vpt-hostpt-XXXXXX", command[64], path[64];
    struct pt_event_setting setting;
    struct reason why = {0};

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    CU_ASSERT_EQUAL(pt_event_setting(folder, &setting, &why), -ENODEV);
    CU_ASSERT_PTR_NOT_NULL(strstr(why.text, "no Intel PT"));
    put_file(folder, "type", "8\n");
    CU_ASSERT_EQUAL(pt_event_setting(folder, &setting, &why), -ENOTSUP);
    (void)snprintf(path, sizeof(path), "%s/format", folder);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/caps", folder);
    (void)mkdir(path, 0700);
    for (size_t i = 0; i < COUNT(files); i++)
        put_file(folder, files[i][0], files[i][1]);
    CU_ASSERT_EQUAL(pt_event_setting(folder, &setting, &why), 0);
    CU_ASSERT_EQUAL(setting.type, 8);
    CU_ASSERT_EQUAL(setting.config, VPT_CTL_TSCEN | VPT_CTL_DISRETC | VPT_CTL_MTCEN |
                                        3u << VPT_CTL_MTCFREQ_SHR | VPT_CTL_PTWEN |
                                        VPT_CTL_FUPONPTW | VPT_CTL_BRANCHEN | 1);
    CU_ASSERT_EQUAL(setting.mask, setting.config | 15u << VPT_CTL_MTCFREQ_SHR);
    CU_ASSERT_STRING_EQUAL(setting.terms, "pt=1,branch=1,tsc=1,noretcomp=1,ptw=1,fup_on_ptw=1,"
                                          "mtc=1,mtc_period=3");
    CU_ASSERT_TRUE(setting.has_ptwrite);
    CU_ASSERT_EQUAL(setting.max_nonturbo_ratio, 21);
    CU_ASSERT_EQUAL(setting.mtc_freq, 3);
    put_file(folder, "caps/mtc_periods", "1\n");
    put_file(folder, "caps/ptwrite", "0\n");
    CU_ASSERT_EQUAL(pt_event_setting(folder, &setting, &why), 0);
    CU_ASSERT_FALSE(setting.config & (VPT_CTL_MTCEN | VPT_CTL_PTWEN));
    put_file(folder, "format/tsc", "config1:10\n");
    CU_ASSERT_EQUAL(pt_event_setting(folder, &setting, &why), -ENOTSUP);
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

void add_hostpt_suite(void)
{
    CU_pSuite suite = CU_add_suite("the host's Intel PT", NULL, NULL);

    CU_add_test(suite, "the guest's packets out of the thread's", test_cut);
    CU_add_test(suite, "the same where packets are missing", test_cut_lost);
    CU_add_test(suite, "the same out of a processor's, where others are too", test_cut_shared);
    CU_add_test(suite, "pages of code by page tables", test_pages);
    CU_add_test(suite, "a guest is followed through exits", test_follow);
    CU_add_test(suite, "an event that the host delivers", test_follow_event);
    CU_add_test(suite, "code that changes", test_follow_changes);
    CU_add_test(suite, "what is not sure is an overflow", test_follow_lost);
    CU_add_test(suite, "a guest's VMCS is learnt", test_follow_learn);
    CU_add_test(suite, "an overflow ends with tracing", test_follow_lost_again);
    CU_add_test(suite, "following that takes too long", test_follow_behind);
    CU_add_test(suite, "how long a piece may be", test_pace);
    CU_add_test(suite, "garbage", test_follow_garbage);
    CU_add_test(suite, "perf's rings", test_ring);
    CU_add_test(suite, "perf's rings that somebody else empties", test_ring_look);
    CU_add_test(suite, "events that are lent", test_lend);
    CU_add_test(suite, "events that are lent, while signals come", test_lend_signals);
    CU_add_test(suite, "what Linux says of the hardware", test_setting);
}
