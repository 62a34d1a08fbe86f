/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces that come out of files: of hardware, and of real programs that QEMU's user mode runs. */
#include "roundtrip/same/scene.h"

#include "bench/truth.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORDER_CPU      "skylake" /* what bench/record.c traces with */
#define RECORDER_MTC_FREQ 3ull
#define PATH_BYTES        512
#define SECTION_BYTES     (4u << 20) /* what a real program may have of code in one piece */

static void give_up(struct scene *scene, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void give_up(struct scene *scene, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(scene->skip, sizeof(scene->skip), format, args);
    va_end(args);
}

/* NULL: it cannot be read. The caller frees it. */
static uint8_t *read_file(const char *path, size_t *len_bytes)
{
    FILE *const file = fopen(path, "rbe");
    uint8_t *bytes = NULL;
    long len;

    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (len = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0)
        bytes = malloc((size_t)len);
    if (bytes) {
        *len_bytes = fread(bytes, 1, (size_t)len, file);
        if (*len_bytes != (size_t)len) {
            free(bytes);
            bytes = NULL;
        }
    }
    (void)fclose(file);
    return bytes;
}

static struct trace *add_trace(struct scene *scene, uint8_t *bytes, size_t len_bytes)
{
    struct trace *const trace = &scene->traces[scene->trace_count++];

    trace->bytes = bytes;
    trace->len_bytes = len_bytes;
    trace->config = (struct ptd_flow_config){.mode = PTD_MODE_64};
    return trace;
}

/* What the packets that are there say of RTIT_CTL, and the first TSC. */
static void look_at_packets(struct scene *scene, struct trace *trace)
{
    struct ptd_packets packets;
    struct ptd_packet packet;

    ptd_packets_init(&packets, trace->bytes, trace->len_bytes);
    if (ptd_packets_sync(&packets) != PTD_OK)
        return;
    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        if (packet.type == PTD_TSC && !trace->first_tsc)
            trace->first_tsc = packet.tsc;
        scene->ctl |= packet.type == PTD_TSC   ? VPT_CTL_TSCEN
                      : packet.type == PTD_MTC ? VPT_CTL_MTCEN
                      : packet.type == PTD_CYC ? VPT_CTL_CYCEN
                                               : 0;
    }
}

/* ---- Hardware ------------------------------------------------------------------------------- */

void scene_load(struct scene *scene, const struct hardware *hardware)
{
    const char *const folder = getenv("VPT_TRACES");
    char names[2][PATH_BYTES];
    size_t trace_bytes = 0, program_bytes = 0;
    uint8_t *bytes, *program;

    memset(scene, 0, sizeof(*scene));
    snprintf(names[0], PATH_BYTES, "%s/%s", folder ? folder : "../shared/traces", hardware->trace);
    snprintf(names[1], PATH_BYTES, "%s/%s", folder ? folder : "../shared/traces",
             hardware->program);
    bytes = read_file(names[0], &trace_bytes);
    program = read_file(names[1], &program_bytes);
    if (!bytes || !program || program_bytes < hardware->offset + hardware->size) {
        give_up(scene, "%s is not there (set VPT_TRACES)", hardware->trace);
        free(bytes);
        free(program);
        return;
    }
    scene_add_place(scene, hardware->vaddr, program + hardware->offset, hardware->size);
    free(program);
    scene->tsc_den = hardware->tsc_den;
    scene->tsc_num = hardware->tsc_num;
    scene->ctl = (uint64_t)hardware->mtc_freq << VPT_CTL_MTCFREQ_SHR;
    scene->family = hardware->family;
    scene->model = hardware->model;
    scene->stepping = hardware->stepping;
    add_trace(scene, bytes, trace_bytes)->truth = TRUTH_NONE;
    scene->traces[0].config.errata = ptd_errata(hardware->family, hardware->model);
    look_at_packets(scene, &scene->traces[0]);
}

/* ---- Real programs -------------------------------------------------------------------------- */

static bool read_truth(const char *path, struct executed *counts)
{
    FILE *const file = fopen(path, "re");
    struct truth truth;
    const bool ok = file && truth_read(&truth, file);

    if (file)
        (void)fclose(file);
    if (ok)
        *counts = (struct executed){truth.insns, truth.branches, truth.sum};
    return ok;
}

/* A line for each piece of code: where it was, and how long; the pieces follow each other. */
static bool add_code(struct scene *scene, const char *map, const char *code)
{
    FILE *const lines = fopen(map, "re");
    size_t len = 0, at = 0;
    uint8_t *const bytes = read_file(code, &len);
    uint64_t base, size;
    bool ok = lines && bytes;

    while (ok && fscanf(lines, "%" SCNx64 " %" SCNx64, &base, &size) == 2) {
        ok = size <= SECTION_BYTES && size <= len - at && scene->place_count < PLACES_MAX;
        if (ok)
            scene_add_place(scene, base, bytes + at, size);
        at += size;
    }
    if (lines)
        (void)fclose(lines);
    free(bytes);
    return ok && at == len;
}

void scene_record(struct scene *scene, const struct program *program, const char *folder)
{
    const char *const build = getenv("BUILD");
    char command[3 * PATH_BYTES], names[4][PATH_BYTES];
    const char *const suffixes[] = {program->trace, "truth", "map", "code"};
    size_t len_bytes = 0;
    uint8_t *bytes;
    struct trace *trace;
    struct vpt_caps caps = {0};

    memset(scene, 0, sizeof(*scene));
    snprintf(command, sizeof(command), "qemu-x86_64 --version >/dev/null 2>&1 && test -x %.*s",
             (int)strcspn(program->command, " "), program->command);
    if (system(command) != 0) {
        give_up(scene, "no qemu-x86_64, or nothing to run: %s", program->command);
        return;
    }
    for (size_t i = 0; i < 4; i++)
        snprintf(names[i], PATH_BYTES, "%s/program.%s", folder, suffixes[i]);
    snprintf(command, sizeof(command),
             "timeout 60 qemu-x86_64 -plugin %s/bench/bin/record.so,out=%s/program,limit=%u %s "
             ">/dev/null 2>&1",
             build ? build : "build", folder, program->limit_bytes, program->command);
    if (system(command) != 0) {
        snprintf(scene->wrong, sizeof(scene->wrong), "'%s' cannot be recorded", program->command);
        return;
    }
    bytes = read_file(names[0], &len_bytes);
    if (!bytes) {
        snprintf(scene->wrong, sizeof(scene->wrong), "no trace of '%s'", program->command);
        return;
    }
    trace = add_trace(scene, bytes, len_bytes);
    trace->truth = TRUTH_COUNTS;
    if (!vpt_profile(RECORDER_CPU, &caps))
        abort();
    scene->tsc_den = caps.tsc_den;
    scene->tsc_num = caps.tsc_num;
    scene->max_nonturbo_ratio = caps.max_nonturbo_ratio;
    scene->ctl = RECORDER_MTC_FREQ << VPT_CTL_MTCFREQ_SHR;
    /* The program began at TSC 0, which perf takes for none at all: it would crash. */
    if (vpt_rewrite_tsc(bytes, len_bytes, 0, (uint64_t)(caps.tsc_num / caps.tsc_den) << 32) !=
        len_bytes)
        abort();
    look_at_packets(scene, trace);
    if (!read_truth(names[1], &trace->counts) || !add_code(scene, names[2], names[3]))
        snprintf(scene->wrong, sizeof(scene->wrong), "no truth or no code of '%s'",
                 program->command);
}
