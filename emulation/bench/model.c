/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an event costs, next to its peer: a bare call through a function pointer, the least that
 * any instrumentation costs that calls out. Medians; the cases take turns, so that a slow moment
 * of the machine meets all of them alike.
 */
#include "vpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS   11
#define EVENTS (1u << 21)

/* The compiler may not keep the processor's state in registers from one event to the next: real
 * sources do other things between them. */
#define BETWEEN_EVENTS() __asm__ volatile("" ::: "memory")

static uint8_t page[4096];

static void translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    (void)owner;
    (void)access;
    *span = (struct vpt_span){VPT_SPAN_RAM, len_bytes, page + (gpa & 4095)};
}

static void clocks(void *owner, struct vpt_clocks *now)
{
    (void)owner;
    memset(now, 0, sizeof(*now));
}

static const struct vpt_ops ops = {.translate = translate, .clocks = clocks};

/* One processor with output to a range of 16 MiB; traced is whether PacketEn is 1. */
static void start(struct vpt_cpu *cpu, const char *profile, uint64_t ctl, bool traced)
{
    const struct vpt_context ctx = {.cpl = traced ? 0 : 3, .exec_mode = VPT_EXEC_64};
    struct vpt_caps caps;

    if (!vpt_profile(profile, &caps) || !vpt_init(cpu, &caps, &ops, NULL)) {
        fprintf(stderr, "model: no profile %s\n", profile);
        exit(EXIT_FAILURE);
    }
    vpt_set_context(cpu, &ctx);
    vpt_wrmsr(cpu, VPT_MSR_OUTPUT_MASK_PTRS, 0xffffff, 0, 0);
    vpt_wrmsr(cpu, VPT_MSR_CTL, ctl | VPT_CTL_TRACEEN | VPT_CTL_OS | VPT_CTL_BRANCHEN, 0x400ffe,
              0x401000);
    if (vpt_packet_en(cpu) != traced) {
        fprintf(stderr, "model: PacketEn is not %d\n", traced);
        exit(EXIT_FAILURE);
    }
}

/* ---- Cases ---------------------------------------------------------------------------------- */

static void taken(struct vpt_cpu *cpu, uint32_t events)
{
    for (uint32_t i = 0; i < events; i++) {
        vpt_cond_branch(cpu, 0x401000, true);
        BETWEEN_EVENTS();
    }
}

static void not_taken(struct vpt_cpu *cpu, uint32_t events)
{
    for (uint32_t i = 0; i < events; i++) {
        vpt_cond_branch(cpu, 0x401000, false);
        BETWEEN_EVENTS();
    }
}

static void indirect(struct vpt_cpu *cpu, uint32_t events)
{
    for (uint32_t i = 0; i < events; i++) {
        vpt_jmp_indirect(cpu, 0x401000 + (i & 0xff0));
        BETWEEN_EVENTS();
    }
}

/* Each event is a CALL and its RET. */
static void call_and_ret(struct vpt_cpu *cpu, uint32_t events)
{
    for (uint32_t i = 0; i < events; i++) {
        vpt_call_direct(cpu, 0x402000, 0x401005);
        BETWEEN_EVENTS();
        vpt_ret(cpu, 0x401005);
        BETWEEN_EVENTS();
    }
}

static void direct(struct vpt_cpu *cpu, uint32_t events)
{
    for (uint32_t i = 0; i < events; i++) {
        vpt_jmp_direct(cpu, 0x401000);
        BETWEEN_EVENTS();
    }
}

static void nothing(void)
{
    BETWEEN_EVENTS();
}

static void (*volatile peer)(void) = nothing;

static void call(struct vpt_cpu *cpu, uint32_t events)
{
    (void)cpu;
    for (uint32_t i = 0; i < events; i++) {
        peer();
        BETWEEN_EVENTS();
    }
}

struct bench {
    const char *key, *about;
    const char *profile;
    uint64_t ctl;
    void (*run)(struct vpt_cpu *cpu, uint32_t events);
    bool traced;
    double ns[RUNS];
    double median;
};

#define CYC (VPT_CTL_CYCEN | VPT_CTL_MTCEN | VPT_CTL_TSCEN)

static struct bench benches[] = {
    {.key = "call",
     .about = "bare call through a pointer",
     .profile = "skylake",
     .run = call,
     .traced = true},
    {.key = "cond_taken",
     .about = "conditional branch, taken",
     .profile = "skylake",
     .run = taken,
     .traced = true},
    {.key = "cond_not_taken",
     .about = "conditional branch, not taken",
     .profile = "skylake",
     .run = not_taken,
     .traced = true},
    {.key = "cond_long_tnt",
     .about = "conditional branch, long TNT",
     .profile = "max",
     .run = taken,
     .traced = true},
    {.key = "cond_timed",
     .about = "conditional branch, TSC, MTC, CYC",
     .profile = "skylake",
     .ctl = CYC,
     .run = taken,
     .traced = true},
    {.key = "direct", .about = "direct jump", .profile = "skylake", .run = direct, .traced = true},
    {.key = "indirect",
     .about = "indirect jump",
     .profile = "plain",
     .run = indirect,
     .traced = true},
    {.key = "indirect_in_lines",
     .about = "indirect jump, packets in lines",
     .profile = "skylake",
     .run = indirect,
     .traced = true},
    {.key = "call_and_ret",
     .about = "direct call and compressed RET",
     .profile = "skylake",
     .run = call_and_ret,
     .traced = true},
    {.key = "cond_off",
     .about = "conditional branch, PacketEn = 0",
     .profile = "skylake",
     .run = taken},
    {.key = "indirect_off",
     .about = "indirect jump, PacketEn = 0",
     .profile = "skylake",
     .run = indirect},
};
#define BENCHES (sizeof(benches) / sizeof(benches[0]))

/* ---- Measuring ------------------------------------------------------------------------------ */

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double measure(const struct bench *bench)
{
    static struct vpt_cpu cpu;
    double begin;

    start(&cpu, bench->profile, bench->ctl, bench->traced);
    bench->run(&cpu, EVENTS / 16); /* warm up */
    begin = now_ns();
    bench->run(&cpu, EVENTS);
    return (now_ns() - begin) / EVENTS;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void write_json(FILE *file)
{
    const double peer_ns = benches[0].median;

    fprintf(file, "{\"runs\": %d, \"events\": %u", RUNS, EVENTS);
    fprintf(file, ", \"cond_ns\": %.3f", (benches[1].median + benches[2].median) / 2);
    fprintf(file, ", \"cond_vs_call\": %.3f",
            (benches[1].median + benches[2].median) / 2 / peer_ns);
    for (size_t i = 0; i < BENCHES; i++) {
        fprintf(file, ", \"%s_ns\": %.3f", benches[i].key, benches[i].median);
        if (i > 0)
            fprintf(file, ", \"%s_vs_call\": %.3f", benches[i].key, benches[i].median / peer_ns);
    }
    fprintf(file, "}\n");
}

int main(int argc, char **argv)
{
    FILE *file;

    if (argc != 1 && (argc != 3 || strcmp(argv[1], "--json") != 0)) {
        fprintf(stderr, "usage: model [--json FILE]\n");
        return EXIT_FAILURE;
    }
    for (unsigned run = 0; run < RUNS; run++)
        for (size_t i = 0; i < BENCHES; i++)
            benches[i].ns[run] = measure(&benches[i]);
    printf("%-36s %8s %8s\n", "event (median of 11 runs)", "ns", "x call");
    for (size_t i = 0; i < BENCHES; i++) {
        qsort(benches[i].ns, RUNS, sizeof(double), by_value);
        benches[i].median = benches[i].ns[RUNS / 2];
        printf("%-36s %8.2f %8.2f\n", benches[i].about, benches[i].median,
               benches[i].median / benches[0].median);
    }
    if (argc == 1)
        return EXIT_SUCCESS;
    file = fopen(argv[2], "w");
    if (!file) {
        perror(argv[2]);
        return EXIT_FAILURE;
    }
    write_json(file);
    return fclose(file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
