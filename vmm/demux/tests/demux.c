/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host and two VMs, traced as one by the model, and taken apart: each guest's trace has exactly
 * what that guest executed, by libptdec and by libipt, and nothing foreign.
 */
#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "demux/files.h"
#include "demux/tests/check.h"
#include "demux/tests/hosts.h"
#include "roundtrip/world.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define GUESTS       (MACHINES - 1)
#define FEED_BYTES   1000u
#define USUAL        (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN | VPT_CTL_TSCEN)

/* A host's trace, and what came of it. */
struct bench {
    struct world world;
    struct ptd_image *image;
    struct ptd_contexts *contexts;
    struct demux_files files;
    struct demux_sums sums;
    char folder[32];
};

/* ---- A world, taken apart ---- */

static void open_bench(struct bench *bench, uint64_t seed)
{
    memcpy(bench->folder, "/tmp/vpt-demux-XXXXXX", sizeof("/tmp/vpt-demux-XXXXXX"));
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(bench->folder));
    bench->image = ptd_image_new();
    CU_ASSERT_PTR_NOT_NULL_FATAL(bench->image);
    bench->contexts = ptd_contexts_new(bench->image);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bench->contexts);
    CU_ASSERT_TRUE_FATAL(make_world(&bench->world, seed, 0));
    run_world(&bench->world);
    CU_ASSERT_TRUE_FATAL(add_names(bench->contexts));
    CU_ASSERT_TRUE_FATAL(vpt_profile("plain", &bench->files.config.caps));
    bench->files.config.caps.tsc_den = bench->world.caps.tsc_den;
    bench->files.config.caps.tsc_num = bench->world.caps.tsc_num;
    bench->files.profile = "plain";
    bench->files.out = bench->folder;
}

static void file_of(const struct bench *bench, unsigned vm, const char *suffix, char path[64])
{
    snprintf(path, 64, "%s/%u.0%s", bench->folder, vm, suffix);
}

static void close_bench(struct bench *bench)
{
    static const char *const suffixes[] = {"", ".json", ".code"};
    char path[64];

    demux_files_free(&bench->files);
    for (unsigned vm = 0; vm <= GUESTS; vm++)
        for (size_t i = 0; i < COUNT(suffixes); i++) {
            file_of(bench, vm, suffixes[i], path);
            (void)unlink(path);
        }
    CU_ASSERT_EQUAL(rmdir(bench->folder), 0);
    ptd_contexts_free(bench->contexts);
    ptd_image_free(bench->image);
    free_world(&bench->world);
    free(bench);
}

/* What comes next, as an item or as steps: told to demux. */
static int take_next(struct demux_cpu *cpu, struct ptd_stream *stream, bool by_items)
{
    static uint32_t steps[PTD_RUN_ROOM];
    static struct ptd_run run;
    struct ptd_time_point point;
    int status;

    run.steps = steps;
    run.room = PTD_RUN_ROOM;
    run.timing = PTD_TIMING_ITEMS;

    if (by_items)
        status = ptd_stream_next(stream, &run.item, &point);
    else
        status = ptd_stream_run(stream, &run, &point);
    if (status == PTD_OK && by_items)
        CU_ASSERT_EQUAL_FATAL(demux_take(cpu, &run.item, &point), 0);
    if (status == PTD_OK && !by_items)
        CU_ASSERT_EQUAL_FATAL(demux_take_run(cpu, ptd_stream_flow(stream), &run, &point), 0);
    return status;
}

static void feed_all(struct bench *bench, struct demux_cpu *cpu, struct ptd_stream *stream,
                     bool by_items)
{
    const size_t all = (size_t)bench->world.cpu.output_bytes;
    size_t at = 0;
    int status;

    while ((status = take_next(cpu, stream, by_items)) != PTD_END) {
        const size_t len = all - at < FEED_BYTES ? all - at : FEED_BYTES;

        if (status == PTD_OK)
            continue;
        CU_ASSERT_EQUAL_FATAL(status, PTD_MORE);
        if (len == 0)
            ptd_stream_end(stream);
        else
            CU_ASSERT_EQUAL_FATAL(ptd_stream_feed(stream, bench->world.region + at, len), PTD_OK);
        at += len;
    }
}

static void take_apart_as(struct bench *bench, bool by_items)
{
    struct ptd_time_config clocks = {.tsc_den = bench->world.caps.tsc_den,
                                     .tsc_num = bench->world.caps.tsc_num,
                                     .mtc_freq = 3,
                                     .max_nonturbo_ratio = bench->world.caps.max_nonturbo_ratio};
    const struct demux_config config = {
        .contexts = bench->contexts, .found = demux_files_found, .owner = &bench->files};
    struct ptd_stream *stream;
    struct demux *demux;
    struct demux_cpu *cpu;

    clocks.vms = ptd_contexts_time_vms(bench->contexts, &clocks.vm_count);
    bench->files.times = clocks.vms;
    bench->files.time_count = clocks.vm_count;
    stream = ptd_stream_new(bench->image, NULL, &clocks);
    demux = demux_new(&config);
    cpu = demux ? demux_cpu_new(demux, 0) : NULL;
    CU_ASSERT_TRUE_FATAL(stream && cpu);
    demux_cpu_begin(cpu, bench->image, true);
    feed_all(bench, cpu, stream, by_items);
    demux_cpu_end(cpu);
    bench->sums = *demux_sums(demux);
    CU_ASSERT_EQUAL(demux_files_write(&bench->files), 0);
    demux_cpu_free(cpu);
    demux_free(demux);
    ptd_stream_free(stream);
}

/* By steps. By items, which are simpler and slower, there is the same in each file. */
static void take_apart(struct bench *bench)
{
    static const char *const suffixes[] = {"", ".code"};
    struct bytes one[(GUESTS + 1) * COUNT(suffixes)] = {0}, *at = one;
    struct demux_sums sums;
    char path[64];

    take_apart_as(bench, true);
    sums = bench->sums;
    for (unsigned vm = 0; vm <= GUESTS; vm++)
        for (size_t i = 0; i < COUNT(suffixes); i++, at++) {
            file_of(bench, vm, suffixes[i], path);
            (void)read_file(path, at);
        }
    demux_files_free(&bench->files);
    take_apart_as(bench, false);
    CU_ASSERT_EQUAL(memcmp(&sums, &bench->sums, sizeof(sums)), 0);
    at = one;
    for (unsigned vm = 0; vm <= GUESTS; vm++)
        for (size_t i = 0; i < COUNT(suffixes); i++, at++) {
            struct bytes other = {0};

            file_of(bench, vm, suffixes[i], path);
            (void)read_file(path, &other);
            CU_ASSERT_EQUAL(at->len, other.len);
            CU_ASSERT_TRUE(at->len == other.len &&
                           (at->len == 0 || memcmp(at->data, other.data, at->len) == 0));
            bytes_free(&other);
            bytes_free(at);
        }
}

/* ---- Tests ---- */

static struct bench *bench_new(uint64_t seed)
{
    struct bench *const bench = calloc(1, sizeof(*bench));

    if (!bench)
        abort();
    open_bench(bench, seed);
    return bench;
}

static void each_guest(void)
{
    static const uint64_t ctls[] = {USUAL, USUAL | VPT_CTL_DISRETC,
                                    USUAL | VPT_CTL_MTCEN | UINT64_C(3) << VPT_CTL_MTCFREQ_SHR,
                                    USUAL & ~VPT_CTL_TSCEN};

    for (uint64_t i = 0; i < COUNT(ctls); i++) {
        struct bench *const bench = bench_new(2000 + i);

        bench->files.config.ctl = ctls[i];
        CU_ASSERT_TRUE_FATAL(add_code(bench->image, &bench->world));
        take_apart(bench);
        CU_ASSERT_EQUAL(bench->files.count, GUESTS);
        CU_ASSERT_EQUAL(bench->sums.unknown_insns, 0);
        for (unsigned vm = 1; vm <= GUESTS; vm++) {
            const struct wanted all = {0};
            struct made made;

            read_made(bench->folder, vm, &made);
            check_ran(&bench->world, vm, &all, &made);
            check_perf(bench->folder, vm, &made);
            check_foreign(&bench->world, vm, &made, i == 0);
            free_made(&made);
        }
        close_bench(bench);
    }
}

static void filters(void)
{
    static const struct {
        uint64_t ctl;
        struct wanted wanted;
        uint64_t first, last;
    } cases[] = {
        {USUAL & ~VPT_CTL_OS, {.no_kernel = true}, 0, 0},
        {USUAL & ~VPT_CTL_USER, {.no_user = true}, 0, 0},
        {USUAL | VPT_CTL_CR3FILTER, {.cr3 = 1}, 0, 0},
        {USUAL | (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR,
         {.first = KERNEL_BASE, .last = KERNEL_BASE + 0xfff},
         KERNEL_BASE,
         KERNEL_BASE + 0xfff},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench *const bench = bench_new(3000 + i);
        struct wanted wanted = cases[i].wanted;

        if (wanted.cr3)
            bench->files.config.cr3_match = wanted.cr3 = walk_cr3(1);
        bench->files.config.ctl = cases[i].ctl;
        bench->files.config.range[0][0] = cases[i].first;
        bench->files.config.range[0][1] = cases[i].last;
        CU_ASSERT_TRUE_FATAL(add_code(bench->image, &bench->world));
        take_apart(bench);
        for (unsigned vm = 1; vm <= GUESTS; vm++) {
            struct made made;

            read_made(bench->folder, vm, &made);
            check_ran(&bench->world, vm, &wanted, &made);
            if (!wanted.last) /* else what is near the range is known too */
                check_code(&bench->world, vm, &wanted, &made);
            if (!wanted.cr3 && !wanted.last)
                check_perf(bench->folder, vm, &made);
            free_made(&made);
        }
        close_bench(bench);
    }
}

/* Of what is lost, nothing is told, and that something is lost is. */
static void gaps(void)
{
    for (uint64_t seed = 4000; seed < 4004; seed++) {
        struct bench *const bench = bench_new(seed);
        const size_t all = (size_t)bench->world.cpu.output_bytes;

        bench->files.config.ctl = USUAL;
        CU_ASSERT_TRUE_FATAL(add_code(bench->image, &bench->world));
        memset(bench->world.region + all * 9 / 10, 0xff, all / 50);
        take_apart(bench);
        CU_ASSERT_TRUE(bench->sums.losses > 0);
        for (unsigned vm = 1; vm <= GUESTS; vm++) {
            const struct wanted wanted = {0};
            struct made made;
            size_t begin, end;

            read_made(bench->folder, vm, &made);
            begin = same_from_start(&bench->world, vm, &wanted, &made.ptdec);
            end = same_to_end(&bench->world, vm, &made.ptdec);
            CU_ASSERT_TRUE(begin > 0 && begin + end >= made.ptdec.count);
            CU_ASSERT_TRUE(made.ptdec.count < count_wanted(&bench->world, vm, &wanted));
            CU_ASSERT_TRUE(made.ptdec.gaps > 0);
            check_foreign(&bench->world, vm, &made, false);
            free_made(&made);
        }
        close_bench(bench);
    }
}

/* Whose VMCS was not told, nobody has. */
static void other_vms(void)
{
    struct bench *const bench = bench_new(5000);
    struct made made;

    bench->files.config.ctl = USUAL;
    bench->files.vm = 2;
    CU_ASSERT_TRUE_FATAL(add_code(bench->image, &bench->world));
    take_apart(bench);
    CU_ASSERT_EQUAL(bench->files.count, 1);
    read_made(bench->folder, 2, &made);
    check_ran(&bench->world, 2, &(struct wanted){0}, &made);
    free_made(&made);
    close_bench(bench);
}

int main(void)
{
    CU_TestInfo tests[] = {{"what each guest ran, and nothing else", each_guest},
                           {"filters: OS, User, CR3, addresses", filters},
                           {"what is lost", gaps},
                           {"one VM of two", other_vms},
                           CU_TEST_INFO_NULL};
    CU_SuiteInfo suites[] = {{"demux", NULL, NULL, NULL, NULL, tests},
                             {"demux of a perf.data", NULL, NULL, NULL, NULL, hosts_tests},
                             CU_SUITE_INFO_NULL};
    unsigned failures;

    if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS)
        return 2;
    CU_basic_set_mode(CU_BRM_NORMAL);
    (void)CU_basic_run_tests();
    failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
