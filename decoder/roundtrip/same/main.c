/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Same trace, same answer: each row of the table is a way to trace; what really ran, the three ways
 * of libptdec, libipt's two decoders and stock perf are compared with each other on it. See
 * docs/same-answer.md.
 *
 * usage: same [--markdown] [ROW...]: those rows, all without; the table of the document.
 * Ends with 'N passed, N failed, N skipped'.
 */
#include "roundtrip/same/peers.h"

#include "bench/truth.h"

#include <CUnit/CUnit.h>
#include <CUnit/TestRun.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array)   (sizeof(array) / sizeof((array)[0]))
#define BUFFERED_INSNS 2000u /* that ran before an overflow, but whose packets it took */
#define TIMES          (VPT_CTL_TSCEN | VPT_CTL_MTCEN | VPT_CTL_CYCEN)
#define MTC(freq)      (VPT_CTL_TSCEN | VPT_CTL_MTCEN | (uint64_t)(freq) << VPT_CTL_MTCFREQ_SHR)
#define CYC(thresh)    (VPT_CTL_TSCEN | VPT_CTL_CYCEN | (uint64_t)(thresh) << VPT_CTL_CYCTHRESH_SHR)

/* ---- Rows ----------------------------------------------------------------------------------- */

static const struct hardware hello = {
    "hello-timed/pt.bin", "hello-timed/hello", 0x1000, 0x87000, 0x401000, 2, 168, 3, 6, 85, 7};
static const struct hardware single = {
    "lldb-single/3842849.trace", "lldb-single/a.out", 0, 4096, 0x400000, 0, 0, 0, 6, 79, 1};
static const struct program compressor = {
    "/usr/bin/xz --threads=1 -1 --stdout /usr/bin/qemu-x86_64", "pt", 60000};
static const struct program interpreter = {
    "/usr/bin/perl -e 'my %h; $h{$_ * 7919 % 1009} .= \"$_,\" for 1 .. 1_000_000'", "cyc.pt",
    120000};

static const char *const no_guest =
    "a guest's code is that of another machine, which this perf.data does not have";
static const char *const perf_filter =
    "it is not told of ranges, and takes the TIP.PGD of a direct branch out of one for an error";

static const struct row {
    const char *name;
    struct recipe recipe; /* of a random program; or instead of it: */
    const struct hardware *hardware;
    const struct program *program;
    const char *not_parallel; /* why not */
    bool needs_state;         /* libipt and perf begin at the first PSB instead */
    const char *perf_errors;  /* why perf complains, although it finds the same */
    const char *not_libipt, *not_perf;
} rows[] = {
    {.name = "RETs compressed"},
    {.name = "RETs not compressed", .recipe = {.ctl = VPT_CTL_DISRETC}},
    {.name = "CYC, each cycle", .recipe = {.ctl = CYC(0)}},
    {.name = "CYC, threshold 4", .recipe = {.ctl = CYC(4)}},
    {.name = "CYC, threshold 12", .recipe = {.ctl = CYC(12)}},
    {.name = "MTC, frequency 0", .recipe = {.ctl = MTC(0)}},
    {.name = "MTC, frequency 6", .recipe = {.ctl = MTC(6)}},
    {.name = "TSC, MTC and CYC; pauses", .recipe = {.ctl = TIMES, .pauses = true}},
    {.name = "long TNTs", .recipe = {.long_tnt = true}},
    {.name = "deferred TIPs", .recipe = {.deferred_tips = true}},
    {.name = "long TNTs, deferred TIPs", .recipe = {.long_tnt = true, .deferred_tips = true}},
    {.name = "user code only", .recipe = {.ctl = VPT_CTL_USER}},
    {.name = "kernel code only", .recipe = {.ctl = VPT_CTL_OS}},
    {.name = "one address space",
     .recipe = {.ctl = VPT_CTL_CR3FILTER},
     .perf_errors = "it takes a TIP.PGD behind MOV CR3 for an error"},
    {.name = "one range",
     .recipe = {.user_range = VPT_ADDR_CFG_FILTER},
     .perf_errors = perf_filter},
    {.name = "two ranges",
     .recipe = {.user_range = VPT_ADDR_CFG_FILTER, .kernel_range = VPT_ADDR_CFG_FILTER},
     .perf_errors = perf_filter},
    {.name = "TraceStop",
     .recipe = {.ctl = VPT_CTL_TSCEN, .user_range = VPT_ADDR_CFG_TRACESTOP, .pauses = true},
     .perf_errors = perf_filter},
    {.name = "overflow", .recipe = {.stalls = true}},
    {.name = "overflow; deferred TIPs, CYC",
     .recipe = {.ctl = CYC(0), .long_tnt = true, .deferred_tips = true, .stalls = true}},
    {.name = "start in mid-buffer", .recipe = {.start = START_IN_MIDST}},
    {.name = "start with a state",
     .recipe = {.start = START_STATE, .pauses = true},
     .needs_state = true},
    {.name = "ring of ToPA regions", .recipe = {.output = OUTPUT_TOPA_RING}},
    {.name = "ring of one range", .recipe = {.output = OUTPUT_SINGLE_RING}},
    {.name = "three threads", .recipe = {.ctl = TIMES, .threads = 3}},
    {.name = "a processor, two processes", .recipe = {.ctl = TIMES, .own_code = true}},
    {.name = "code that changes",
     .recipe = {.ctl = TIMES, .jit = true},
     .not_parallel = "the image may not change under its threads"},
    {.name = "host and guest", .recipe = {.guest = GUEST_APART}, .not_perf = no_guest},
    {.name = "host and guest, same addresses",
     .recipe = {.guest = GUEST_SAME_ADDRESSES},
     .not_libipt = "NR is no part of its address spaces",
     .not_perf = no_guest},
    {.name = "Broadwell", .recipe = {.profile = "broadwell", .pauses = true}},
    {.name = "Broadwell, user code", .recipe = {.ctl = VPT_CTL_USER, .profile = "broadwell"}},
    {.name = "Skylake", .recipe = {.profile = "skylake", .pauses = true}},
    {.name = "Skylake, user code, timing",
     .recipe = {.ctl = VPT_CTL_USER | TIMES, .profile = "skylake", .pauses = true}},
    {.name = "Skylake, overflow", .recipe = {.profile = "skylake", .stalls = true}},
    {.name = "Cascade Lake, timing",
     .recipe = {.ctl = TIMES, .profile = "cascade-lake", .pauses = true}},
    {.name = "Ice Lake, client",
     .recipe = {.ctl = MTC(3), .profile = "icelake-client", .pauses = true}},
    {.name = "Ice Lake, server; host and guest",
     .recipe = {.profile = "icelake-server", .guest = GUEST_APART},
     .not_perf = no_guest},
    {.name = "xz, in QEMU", .program = &compressor},
    {.name = "perl with timing, in QEMU", .program = &interpreter},
    {.name = "hello on hardware", .hardware = &hello},
    {.name = "21 instructions on hardware", .hardware = &single},
    {.name = "TIPs that wait", .recipe = {.tips_wait = true}},
    {.name = "long TNTs, TIPs that wait", .recipe = {.long_tnt = true, .tips_wait = true}},
};

/* ---- Verdicts ------------------------------------------------------------------------------- */

static char folder[] = "/tmp/vpt-same-XXXXXX";
static unsigned passed, failed, skipped;
static bool markdown;
static struct scene scene; /* large, and one at a time */
static struct found next[TRACES_MAX], other[TRACES_MAX];

static bool verdict(bool ok, const char *row, const char *peer, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static bool verdict(bool ok, const char *row, const char *peer, const char *format, ...)
{
    va_list args;

    passed += ok;
    failed += !ok;
    if (ok && markdown)
        return true;
    va_start(args, format);
    fprintf(markdown ? stderr : stdout, "%s: %s: %s: ", ok ? "PASS" : "FAIL", row, peer);
    vfprintf(markdown ? stderr : stdout, format, args);
    fputc('\n', markdown ? stderr : stdout);
    va_end(args);
    return ok;
}

static bool same_list(const struct list *want, const struct list *got, size_t *at)
{
    size_t i = 0;

    while (i < want->count && i < got->count &&
           (want->ip[i] == got->ip[i] || want->ip[i] == UNTOLD))
        i++;
    *at = i;
    return want->count == got->count && i == want->count;
}

static uint64_t item_of(const struct list *list, size_t at)
{
    return at < list->count ? list->ip[at] : 0;
}

/* With so many errors as are expected. */
static void compare_lists(const char *row, const char *peer, const char *what,
                          const struct list *want, const struct list *got,
                          const struct found *found, uint64_t errors)
{
    size_t at;
    const bool same = same_list(want, got, &at);

    if (same && found->errors == errors && got->count > 0)
        verdict(true, row, peer, "%zu %s", got->count, what);
    else
        verdict(false, row, peer,
                "%zu of %zu %s; number %zu is %" PRIx64 ", not %" PRIx64 "; %" PRIu64
                " errors, not %" PRIu64 ", at %" PRIu64 " %s",
                got->count, want->count, what, at, item_of(got, at), item_of(want, at),
                found->errors, errors, found->first_error, found->errors ? found->error : "-");
}

/* ---- Truth ---------------------------------------------------------------------------------- */

/* The last instructions that ran, from the first PSB on: as many as were found. */
static struct list tail_of(const struct list *insns, size_t count)
{
    const size_t skip = count < insns->count ? insns->count - count : 0;

    return (struct list){.ip = insns->ip + skip, .count = insns->count - skip};
}

/* What ran, less what each overflow took: from somewhere in front of its gap to the gap's end. */
static void compare_gaps(const char *row, const struct trace *trace, const struct found *found)
{
    const struct list *const ran = &trace->insns, *const got = &found->insns;
    size_t at = 0, gap = 0, lost = 0;

    for (size_t i = 0; i <= got->count; i++, at++) {
        while (gap < trace->gap_count && (i == got->count || ran->ip[at] != got->ip[i])) {
            const struct gap *const here = &trace->gaps[gap++];

            if (at + BUFFERED_INSNS < here->from || at >= here->to)
                break;
            lost += here->to - at;
            at = here->to;
        }
        if (i < got->count && (at >= ran->count || ran->ip[at] != got->ip[i])) {
            verdict(false, row, "truth", "instruction %zu found is not number %zu that ran", i, at);
            return;
        }
    }
    verdict(at == ran->count + 1 && gap == trace->gap_count && found->errors == 0, row, "truth",
            "%zu instructions, %zu lost in %zu of %zu overflows, of %zu that ran", got->count, lost,
            gap, trace->gap_count, ran->count);
}

/* The branches of the blocks that were found, each with where it led, as bench/record.c sums up. */
static void compare_counts(const char *row, const struct trace *trace, const struct found *found)
{
    const struct list *const insns = &found->insns;
    struct truth truth;
    size_t end = 0;

    truth_start(&truth);
    truth.insns = insns->count;
    for (size_t i = 0; i < found->blocks.count; i++) {
        end += found->block_insns.ip[i];
        if (found->block_ends.ip[i])
            truth_add(&truth, insns->ip[end - 1],
                      end < insns->count ? insns->ip[end]
                                         : found->arrows.from.ip[found->arrows.from.count - 1]);
    }
    verdict(truth.insns == trace->counts.insns && truth.branches == trace->counts.branches &&
                truth.sum == trace->counts.sum && found->errors == 0,
            row, "truth",
            "%" PRIu64 " of %" PRIu64 " instructions, %" PRIu64 " of %" PRIu64
            " branches, and their sequence; %" PRIu64 " errors",
            truth.insns, trace->counts.insns, truth.branches, trace->counts.branches,
            found->errors);
}

static void compare_truth(const char *row, const struct trace *trace, const struct found *found)
{
    struct list tail;

    switch (trace->truth) {
    case TRUTH_WHOLE:
        compare_lists(row, "truth", "instructions", &trace->insns, &found->insns, found, 0);
        compare_lists(row, "truth", "transfers (from)", &trace->arrows.from, &found->arrows.from,
                      found, 0);
        compare_lists(row, "truth", "transfers (to)", &trace->arrows.to, &found->arrows.to, found,
                      0);
        break;
    case TRUTH_TAIL:
        tail = tail_of(&trace->insns, found->insns.count);
        compare_lists(row, "truth", "instructions behind a PSB", &tail, &found->insns, found, 0);
        verdict(found->insns.count >= trace->least, row, "truth", "at least %zu", trace->least);
        break;
    case TRUTH_GAPS:
        compare_gaps(row, trace, found);
        break;
    case TRUTH_COUNTS:
        compare_counts(row, trace, found);
        break;
    case TRUTH_NONE:
        break;
    }
}

/* ---- Peers ---------------------------------------------------------------------------------- */

static void clear(struct found *found)
{
    for (unsigned i = 0; i < TRACES_MAX; i++)
        found_clear(&found[i]);
}

enum { INSNS = 1, BLOCKS = 2, BRANCHES = 4 };

struct peer {
    const char *name;
    void (*decode)(const struct scene *scene, const struct trace *trace, struct found *found);
    unsigned finds;
    bool is_libipt;
};

static const struct peer peers[] = {
    {"ptd_flow_run", by_run, INSNS | BLOCKS | BRANCHES, false},
    {"ptd_flow_parallel", by_parallel, INSNS | BLOCKS | BRANCHES, false},
    {"libipt, instructions", by_libipt_insns, INSNS | BRANCHES, true},
    {"libipt, blocks", by_libipt_blocks, BLOCKS | BRANCHES, true},
};

/* A peer that begins at the first PSB has only instructions to compare: a block may begin before.
 */
static void compare_tail(const char *row, const char *peer, const struct trace *trace,
                         const struct found *all, const struct found *tail)
{
    const struct list want = tail_of(&all->insns, tail->insns.count);

    compare_lists(row, peer, "instructions behind a PSB", &want, &tail->insns, tail, 0);
    verdict(tail->insns.count >= trace->least, row, peer, "at least %zu", trace->least);
}

static void compare_peer(const struct row *row, const struct peer *peer)
{
    clear(other);
    for (size_t i = 0; i < scene.trace_count; i++) {
        const struct found *const want = &next[i], *const got = &other[i];

        peer->decode(&scene, &scene.traces[i], &other[i]);
        if (row->needs_state && peer->is_libipt) {
            if (peer->finds & INSNS)
                compare_tail(row->name, peer->name, &scene.traces[i], want, got);
            continue;
        }
        if (peer->finds & INSNS)
            compare_lists(row->name, peer->name, "instructions", &want->insns, &got->insns, got, 0);
        if (peer->finds & BLOCKS) {
            compare_lists(row->name, peer->name, "blocks (address)", &want->blocks, &got->blocks,
                          got, 0);
            compare_lists(row->name, peer->name, "blocks (instructions)", &want->block_insns,
                          &got->block_insns, got, 0);
        }
        verdict(want->branches == got->branches, row->name, peer->name,
                "%" PRIu64 " branches, %" PRIu64 " by ptd_flow_next", got->branches,
                want->branches);
    }
}

/* perf calls each overflow an error. Others are counted, if there is a reason for them. */
static uint64_t perf_errors(const struct row *row, const struct trace *trace,
                            const struct found *found)
{
    return trace->gap_count + (row->perf_errors ? found->errors : 0);
}

/* vpt decode begins at the first PSB, too. */
static void compare_vpt(const struct row *row)
{
    clear(other);
    by_vpt(&scene, folder, other);
    for (size_t i = 0; i < scene.trace_count; i++) {
        if (row->needs_state)
            compare_tail(row->name, "vpt decode", &scene.traces[i], &next[i], &other[i]);
        else
            compare_lists(row->name, "vpt decode", "instructions", &next[i].insns, &other[i].insns,
                          &other[i], 0);
    }
}

static void compare_perf(const struct row *row)
{
    clear(other);
    by_perf_insns(&scene, folder, other);
    for (size_t i = 0; i < scene.trace_count; i++) {
        if (row->needs_state)
            compare_tail(row->name, "perf", &scene.traces[i], &next[i], &other[i]);
        else
            compare_lists(row->name, "perf", "instructions", &next[i].insns, &other[i].insns,
                          &other[i], perf_errors(row, &scene.traces[i], &other[i]));
    }
    if (row->needs_state)
        return;
    clear(other);
    by_perf_branches(&scene, folder, other);
    for (size_t i = 0; i < scene.trace_count; i++) {
        const uint64_t errors = perf_errors(row, &scene.traces[i], &other[i]);

        compare_lists(row->name, "perf", "transfers (from)", &next[i].arrows.from,
                      &other[i].arrows.from, &other[i], errors);
        compare_lists(row->name, "perf", "transfers (to)", &next[i].arrows.to, &other[i].arrows.to,
                      &other[i], errors);
    }
}

/* ---- All ------------------------------------------------------------------------------------ */

static char **wanted;
static bool has_perf;

static bool is_wanted(const char *name)
{
    if (!*wanted)
        return true;
    for (char **each = wanted; *each; each++)
        if (strcmp(*each, name) == 0)
            return true;
    return false;
}

static void skip(const char *row, const char *why)
{
    skipped++;
    fprintf(markdown ? stderr : stdout, "SKIP: %s: %s\n", row, why);
}

static void make_scene(const struct row *row)
{
    if (row->hardware)
        scene_load(&scene, row->hardware);
    else if (row->program)
        scene_record(&scene, row->program, folder);
    else
        scene_run(&scene, &row->recipe, 1 + (uint64_t)(row - rows));
}

/* A field of the table. */
static void field(unsigned failed_before, const char *good)
{
    if (markdown)
        printf(" %s |", failed == failed_before ? good : "**differs**");
}

static void print_figures(const struct row *row)
{
    size_t insns = 0, blocks = 0, transfers = 0;
    uint64_t branches = 0;

    for (size_t i = 0; i < scene.trace_count; i++) {
        insns += next[i].insns.count;
        blocks += next[i].blocks.count;
        branches += next[i].branches;
        transfers += next[i].arrows.from.count;
    }
    if (markdown)
        printf("| %s | %zu | %zu | %" PRIu64 " | %zu |", row->name, insns, blocks, branches,
               transfers);
}

static const char *truth_of(const struct trace *trace)
{
    static const char *const names[] = {[TRUTH_WHOLE] = "=",
                                        [TRUTH_GAPS] = "=, but for what was lost",
                                        [TRUTH_TAIL] = "=, from the first PSB on",
                                        [TRUTH_COUNTS] = "=",
                                        [TRUTH_NONE] = "not known"};

    return names[trace->truth];
}

static const char *perf_field(const struct row *row)
{
    static char text[80];
    uint64_t errors = 0;

    for (size_t i = 0; i < scene.trace_count; i++)
        errors += other[i].errors;
    if (row->needs_state)
        return "= from the first PSB on";
    if (!errors)
        return "=";
    snprintf(text, sizeof(text), "=, and %" PRIu64 " errors", errors);
    return text;
}

/* Why a peer is not asked. */
static void note(const struct row *row, const char *peer, const char *why)
{
    if (!markdown)
        printf("NOTE: %s: %s is not compared: %s\n", row->name, peer, why);
}

static void compare_peers(const struct row *row)
{
    for (size_t i = 0; i < COUNT(peers); i++) {
        const unsigned before = failed;
        const char *const why = peers[i].is_libipt               ? row->not_libipt
                                : peers[i].decode == by_parallel ? row->not_parallel
                                                                 : NULL;

        if (why)
            note(row, peers[i].name, why);
        else
            compare_peer(row, &peers[i]);
        if (why)
            field(before, "no");
        else if (row->needs_state && peers[i].is_libipt)
            field(before, peers[i].finds & INSNS ? "= from the first PSB on" : "no");
        else
            field(before, "=");
    }
}

static void compare_row(const struct row *row)
{
    unsigned before = failed;

    make_scene(row);
    if (scene.skip[0]) {
        skip(row->name, scene.skip);
        return;
    }
    if (scene.wrong[0])
        verdict(false, row->name, "trace", "%s", scene.wrong);
    clear(next);
    for (size_t i = 0; i < scene.trace_count; i++) {
        by_next(&scene, &scene.traces[i], &next[i]);
        compare_truth(row->name, &scene.traces[i], &next[i]);
    }
    if (!perf_write(&scene, folder))
        verdict(false, row->name, "perf.data", "cannot be written in %s", folder);
    print_figures(row);
    field(before, truth_of(&scene.traces[0]));
    compare_peers(row);
    before = failed;
    if (row->not_perf)
        note(row, "vpt decode", row->not_perf);
    else
        compare_vpt(row);
    field(before, row->not_perf ? "no" : row->needs_state ? "= from the first PSB on" : "=");
    before = failed;
    if (row->not_perf)
        note(row, "perf", row->not_perf);
    else if (has_perf)
        compare_perf(row);
    else
        skip(row->name, "no perf to compare with");
    field(before, row->not_perf ? "no" : has_perf ? perf_field(row) : "not there");
    if (markdown)
        putchar('\n');
    scene_free(&scene);
}

static void compare_all(void)
{
    for (size_t i = 0; i < COUNT(rows); i++)
        if (is_wanted(rows[i].name))
            compare_row(&rows[i]);
}

/* What the model's harness finds wrong (a store beside memory, say). */
static void after_test(const CU_pTest test, const CU_pSuite suite, const CU_pFailureRecord first)
{
    (void)test;
    (void)suite;
    for (const CU_FailureRecord *f = first; f; f = f->pNext)
        verdict(false, f->strFileName, "model", "%s", f->strCondition);
}

int main(int argc, char **argv)
{
    char command[64];

    markdown = argc > 1 && strcmp(argv[1], "--markdown") == 0;
    wanted = argv + 1 + markdown;
    if (CU_initialize_registry() != CUE_SUCCESS || !mkdtemp(folder))
        return EXIT_FAILURE;
    has_perf = perf_is_there();
    CU_set_test_complete_handler(after_test);

    CU_pSuite const suite = CU_add_suite("same", NULL, NULL);

    CU_add_test(suite, "all", compare_all);
    if (markdown)
        puts("| trace | instructions | blocks | branches | transfers | what ran | run | parallel | "
             "libipt, instructions | libipt, blocks | vpt | perf |\n"
             "| --- | ---: | ---: | ---: | ---: | --- | --- | --- | --- | --- | --- | --- |");
    CU_run_suite(suite);
    CU_cleanup_registry();
    for (unsigned i = 0; i < TRACES_MAX; i++) {
        found_free(&next[i]);
        found_free(&other[i]);
    }
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    if (!getenv("SAME_KEEP") && system(command) != 0)
        fprintf(stderr, "same: %s stays\n", folder);
    fprintf(markdown ? stderr : stdout, "%u passed, %u failed, %u skipped\n", passed, failed,
            skipped);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
