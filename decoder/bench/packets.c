/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast packets are decoded, against libipt's packet decoder on the same bytes: a generated mix
 * with and without timing packets, and the real traces of $VPT_TRACES (or beside the repository)
 * repeated up to the same size. Medians; both must find the same number of packets.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libipt.h"
#include "measure.h"
#include "ways.h"

#define INPUT_BYTES (16u << 20)
#define RUNS        7
#define PSB_BYTES   2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82

struct result {
    double ours_MBps, libipt_MBps;
};

/* ---- Inputs ---- */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* One packet as a trace of user code has them: mostly TNT, then TIP; CYC in front if timed. */
static size_t generate_one(uint8_t *bytes, uint64_t *random, bool timed)
{
    const uint64_t value = next_random(random);
    const unsigned kind = value % 100;
    size_t len = 0;

    if (timed && value >> 32 & 1) {
        const uint64_t cycles = value >> 33 & 0x7f;

        bytes[len++] = (uint8_t)((cycles & 31) << 3 | 3 | (cycles > 31 ? 4 : 0));
        if (cycles > 31)
            bytes[len++] = (uint8_t)(cycles >> 5 << 1);
    }
    if (kind < 70) { /* TNT of six */
        bytes[len++] = (uint8_t)(0x80 | (value >> 8 & 0x7e));
        return len;
    }
    if (kind < 90) { /* TIP of 16 or 32 bits */
        const bool is_short = value >> 8 & 1;

        bytes[len++] = is_short ? 0x2d : 0x4d;
        memcpy(bytes + len, &value, 4);
        return len + (is_short ? 2 : 4);
    }
    if (kind < 93) { /* TIP of 48 bits */
        bytes[len++] = 0x6d;
        memcpy(bytes + len, &value, 6);
        return len + 6;
    }
    if (kind < 94) { /* an interrupt: FUP, TIP */
        bytes[len++] = 0x5d;
        memcpy(bytes + len, &value, 4);
        bytes[len + 4] = 0x6d;
        memcpy(bytes + len + 5, &value, 6);
        return len + 11;
    }
    if (kind < 95) { /* MODE.Exec */
        bytes[len++] = 0x99;
        bytes[len++] = 0x01;
        return len;
    }
    if (kind < 96) { /* PIP */
        memcpy(bytes + len, (const uint8_t[]){0x02, 0x43, 0, 0x20, 1, 0, 0, 0}, 8);
        return len + 8;
    }
    bytes[len++] = timed ? 0x59 : 0x00; /* MTC where there is time, else PAD */
    if (timed)
        bytes[len++] = (uint8_t)value;
    return len;
}

static struct trace generate(const char *name, bool timed)
{
    static const uint8_t psb[] = {PSB_BYTES, 0x19, 1, 2, 3, 4, 5, 6, 7, 2, 0x03, 0x1f, 0, 2, 0x23};
    struct trace input = {.name = name, .bytes = malloc(INPUT_BYTES)};
    uint64_t random = 0x9e3779b97f4a7c15;
    size_t next_psb = 0;

    if (!input.bytes)
        return input;
    while (input.len_bytes + 64 < INPUT_BYTES) {
        if (input.len_bytes >= next_psb) {
            memcpy(input.bytes + input.len_bytes, psb, sizeof(psb));
            input.len_bytes += sizeof(psb);
            next_psb = input.len_bytes + 4096;
        }
        input.len_bytes += generate_one(input.bytes + input.len_bytes, &random, timed);
    }
    return input;
}

/* The real trace from its first PSB on, as often as fits. */
static struct trace repeat(const char *name, const char *file_name)
{
    const char *const folder = getenv("VPT_TRACES");
    struct trace input = {.name = name};
    static uint8_t once[1u << 20];
    struct ptd_packets packets;
    char path[4096];

    if (snprintf(path, sizeof(path), "%s/%s", folder ? folder : "../shared/traces", file_name) >=
        (int)sizeof(path))
        return input;

    FILE *const file = fopen(path, "rb");

    if (!file)
        return input;

    const size_t read = fread(once, 1, sizeof(once), file);

    (void)fclose(file);
    ptd_packets_init(&packets, once, read);
    if (ptd_packets_sync(&packets) != PTD_OK)
        return input;

    const size_t skipped = ptd_packets_offset(&packets), len = read - skipped;

    input.bytes = malloc(INPUT_BYTES + len);
    while (input.bytes && input.len_bytes < INPUT_BYTES) {
        memcpy(input.bytes + input.len_bytes, once + skipped, len);
        input.len_bytes += len;
    }
    return input;
}

/* ---- The two decoders ---- */

/* Megabytes a second, the median of RUNS; *count is how many packets were found. */
static double measure_MBps(uint64_t (*run)(const struct trace *), const struct trace *input,
                           uint64_t *count)
{
    double times[RUNS];

    *count = run(input); /* warms up */
    for (unsigned i = 0; i < RUNS; i++) {
        const double begin = now(CLOCK_THREAD_CPUTIME_ID);

        (void)run(input);
        times[i] = now(CLOCK_THREAD_CPUTIME_ID) - begin;
    }
    return (double)input->len_bytes / 1e6 / median(times, RUNS);
}

/* False if the decoders disagree. */
static bool bench(const struct trace *input, struct result *result)
{
    uint64_t ours, libipt;

    result->ours_MBps = measure_MBps(run_packets, input, &ours);
    result->libipt_MBps = measure_MBps(run_libipt_packets, input, &libipt);
    if (ours == 0 || ours != libipt) {
        (void)fprintf(stderr, "decoder bench: %s: %llu packets, libipt %llu\n", input->name,
                      (unsigned long long)ours, (unsigned long long)libipt);
        return false;
    }
    printf("%-16s %10.1f %12.1f %10.2f\n", input->name, result->ours_MBps, result->libipt_MBps,
           result->ours_MBps / result->libipt_MBps);
    return true;
}

static int write_json(const char *path, double ours, double libipt)
{
    FILE *const file = fopen(path, "w");

    if (!file) {
        perror(path);
        return EXIT_FAILURE;
    }
    (void)fprintf(file,
                  "{\"packets_MBps\": %.1f, \"libipt_packets_MBps\": %.1f, "
                  "\"packets_vs_libipt\": %.3f}\n",
                  ours, libipt, ours / libipt);
    return fclose(file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    const char *const json = argc == 3 && strcmp(argv[1], "--json") == 0 ? argv[2] : NULL;
    double ours = 0, libipt = 0;
    unsigned measured = 0;
    int status = EXIT_SUCCESS;

    if (argc != 1 && !json) {
        (void)fprintf(stderr, "usage: decoder [--json FILE]\n");
        return 2;
    }

    struct trace inputs[] = {
        generate("mix", false),
        generate("mix, timed", true),
        repeat("hello-timed", "hello-timed/pt.bin"),
        repeat("lldb-single", "lldb-single/3842849.trace"),
    };

    printf("%-16s %10s %12s %10s\n", "packets", "MB/s", "libipt MB/s", "ratio");
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        struct result result;

        if (!inputs[i].bytes) {
            printf("%-16s SKIPPED: the trace is not there (set VPT_TRACES)\n", inputs[i].name);
            continue;
        }
        if (bench(&inputs[i], &result)) {
            ours += log(result.ours_MBps);
            libipt += log(result.libipt_MBps);
            measured++;
        } else {
            status = EXIT_FAILURE;
        }
    }
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++)
        free(inputs[i].bytes);
    if (measured == 0)
        return EXIT_FAILURE;
    ours = exp(ours / measured);
    libipt = exp(libipt / measured);
    printf("%-16s %10.1f %12.1f %10.2f\n", "geometric mean", ours, libipt, ours / libipt);
    if (json && status == EXIT_SUCCESS)
        status = write_json(json, ours, libipt);
    return status;
}
