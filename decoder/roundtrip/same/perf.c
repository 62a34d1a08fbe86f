/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stock perf. The traces of a scene become the buffers of threads (or of a CPU), its places become
 * files that the process maps, and `perf script` is asked for instructions and for branches.
 */
#include "roundtrip/same/peers.h"

#include "ptdec_perf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PID        100u /* of the process; its threads count from there */
#define PATH_BYTES 256
#define PAGE       4096u
#define SETTINGS                                                                                   \
    (VPT_CTL_CYCEN | VPT_CTL_MTCEN | VPT_CTL_TSCEN | VPT_CTL_DISRETC |                             \
     15ull << VPT_CTL_MTCFREQ_SHR | 15ull << VPT_CTL_CYCTHRESH_SHR | 15ull << VPT_CTL_PSBFREQ_SHR)

bool perf_is_there(void)
{
    return system("perf --version >/dev/null 2>&1") == 0;
}

/* ---- Files ---------------------------------------------------------------------------------- */

struct files {
    struct ptd_perf_map maps[PLACES_MAX * PROCESSES];
    size_t map_count;
    char names[PLACES_MAX][PATH_BYTES];
    struct ptd_perf_comm comms[TRACES_MAX];
    struct ptd_perf_trace traces[TRACES_MAX];
    struct ptd_perf_switch switches[SWITCHES_MAX + 1];
};

static int write_to(void *owner, const void *bytes, size_t len_bytes)
{
    return fwrite(bytes, 1, len_bytes, owner) == len_bytes ? 0 : -1;
}

static bool write_file(const char *name, const void *bytes, size_t len_bytes)
{
    FILE *const file = fopen(name, "wbe");

    return file && fwrite(bytes, 1, len_bytes, file) == len_bytes && fclose(file) == 0;
}

static void add_map(const struct place *place, unsigned process, const char *name,
                    struct files *files)
{
    files->maps[files->map_count++] = (struct ptd_perf_map){
        .time = place->tsc,
        .start = place->base,
        .len = (place->len_bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1),
        .pid = PID + process,
        .executable = true,
        .file = name,
    };
}

/* Places begin at a page, as what a process maps does. */
static bool take_places(const struct scene *scene, const char *folder, struct files *files)
{
    for (size_t i = 0; i < scene->place_count; i++) {
        const struct place *const place = &scene->places[i];

        snprintf(files->names[i], PATH_BYTES, "%s/code-%zu", folder, i);
        if (place->base % PAGE != 0 || !write_file(files->names[i], place->bytes, place->len_bytes))
            return false;
        for (unsigned process = 0; process < PROCESSES; process++)
            if (process == place->process || (scene->of_cpu && place->cr3 == PTD_ANY_CR3))
                add_map(place, process, files->names[i], files);
    }
    return true;
}

static void take_traces(const struct scene *scene, struct files *files)
{
    const size_t tasks = scene->of_cpu ? PROCESSES : scene->trace_count;

    for (size_t i = 0; i < tasks; i++)
        files->comms[i] = (struct ptd_perf_comm){.pid = scene->of_cpu ? PID + (uint32_t)i : PID,
                                                 .tid = PID + (uint32_t)i,
                                                 .name = "same"};
    for (size_t i = 0; i < scene->trace_count; i++)
        files->traces[i] = (struct ptd_perf_trace){
            .idx = (uint32_t)i,
            .cpu = scene->of_cpu ? 0 : -1,
            .tid = scene->of_cpu ? -1 : (int32_t)(PID + i),
            .reference = scene->traces[i].first_tsc,
            .bytes = scene->traces[i].bytes,
            .len_bytes = scene->traces[i].len_bytes,
        };
}

static size_t take_changes(const struct scene *scene, struct files *files)
{
    unsigned before = 0;

    for (size_t i = 0; i < scene->change_count; i++) {
        files->switches[i] = (struct ptd_perf_switch){
            .time = scene->changes[i].tsc,
            .pid = PID + scene->changes[i].process,
            .tid = PID + scene->changes[i].process,
            .has_other = true,
            .other_pid = PID + before,
            .other_tid = PID + before,
        };
        before = scene->changes[i].process;
    }
    return scene->change_count;
}

bool perf_write(const struct scene *scene, const char *folder)
{
    struct files *const files = calloc(1, sizeof(*files));
    struct ptd_perf_out out = {
        .pt = {.time_mult = 1, /* perf's nanoseconds are TSC ticks */
               .has_time = scene->ctl & VPT_CTL_TSCEN,
               .tsc_ctc_num = scene->tsc_num,
               .tsc_ctc_den = scene->tsc_den,
               .max_nonturbo_ratio = scene->max_nonturbo_ratio},
        .config = scene->ctl & SETTINGS,
        .trace_count = scene->trace_count,
        .comm_count = scene->of_cpu ? PROCESSES : scene->trace_count,
        .write = write_to,
    };
    char name[PATH_BYTES], cpuid[64];
    bool ok;

    if (!files)
        abort();
    snprintf(cpuid, sizeof(cpuid), "GenuineIntel,%u,%u,%u", scene->family, scene->model,
             scene->stepping);
    out.cpuid = scene->family ? cpuid : NULL;
    out.traces = files->traces;
    out.maps = files->maps;
    out.comms = files->comms;
    out.switches = files->switches;
    ok = take_places(scene, folder, files);
    out.map_count = files->map_count;
    take_traces(scene, files);
    out.switch_count = take_changes(scene, files);
    snprintf(name, sizeof(name), "%s/perf.data", folder);
    out.owner = fopen(name, "wbe");
    ok = ok && out.owner && ptd_perf_write(&out) == PTD_OK;
    if (out.owner && fclose(out.owner) != 0)
        ok = false;
    free(files);
    return ok;
}

/* ---- What perf prints ----------------------------------------------------------------------- */

static FILE *open_lines(const char *command)
{
    FILE *const lines = popen(command, "re");

    if (!lines)
        abort();
    return lines;
}

static FILE *perf_script(const char *folder, const char *itrace, const char *fields)
{
    char command[3 * PATH_BYTES];

    snprintf(command, sizeof(command),
             "perf script -i '%s/perf.data' --itrace=%s -F %s 2>'%s/perf.errors'", folder, itrace,
             fields, folder);
    return open_lines(command);
}

/* " instruction trace error type 1 time ... code 5: Failed to get instruction" */
static bool is_error(const char *line, uint64_t number, struct found *found)
{
    const char *const text = strstr(line, "instruction trace error");
    const char *const code = text ? strstr(text, "code ") : NULL;

    if (!text)
        return false;
    found_error(found, number, code ? code : text);
    found->error[strcspn(found->error, "\n")] = '\0';
    return true;
}

/* The trace that a thread's lines belong to. */
static struct found *found_of(const struct scene *scene, uint64_t tid, struct found *found)
{
    const uint64_t number = scene->of_cpu ? 0 : tid - PID;

    return number < scene->trace_count ? &found[number] : &found[0];
}

void by_perf_insns(const struct scene *scene, const char *folder, struct found *found)
{
    FILE *const lines = perf_script(folder, "i0nse", "tid,ip");
    char line[512];

    for (uint64_t number = 1; fgets(line, sizeof(line), lines); number++) {
        uint64_t tid, ip;

        if (!is_error(line, number, found) && sscanf(line, "%" SCNu64 " %" SCNx64, &tid, &ip) == 2)
            list_add(&found_of(scene, tid, found)->insns, ip);
    }
    if (pclose(lines) != 0)
        found_error(found, 0, "perf script failed");
}

/* "  100   401005 =>   401017" */
void by_perf_branches(const struct scene *scene, const char *folder, struct found *found)
{
    FILE *const lines = perf_script(folder, "be", "tid,ip,addr");
    char line[512];

    for (uint64_t number = 1; fgets(line, sizeof(line), lines); number++) {
        uint64_t tid, from, to;

        if (!is_error(line, number, found) &&
            sscanf(line, "%" SCNu64 " %" SCNx64 " => %" SCNx64, &tid, &from, &to) == 3)
            arrow_add(&found_of(scene, tid, found)->arrows, from, to);
    }
    if (pclose(lines) != 0)
        found_error(found, 0, "perf script failed");
}

/* "   same   100 [000]  0.001000: instructions:   401000 code-1+0x0" */
void by_vpt(const struct scene *scene, const char *folder, struct found *found)
{
    const char *const build = getenv("BUILD");
    char command[4 * PATH_BYTES], line[512];
    FILE *lines;

    snprintf(command, sizeof(command),
             "%s/vpt decode --format perf --raw-code '%s' '%s/perf.data' 2>'%s/vpt.errors'",
             build ? build : "build", folder, folder, folder);
    lines = open_lines(command);
    for (uint64_t number = 1; fgets(line, sizeof(line), lines); number++) {
        const char *const event = strstr(line, "instructions: ");
        uint64_t tid, ip;

        if (event && sscanf(line, "%*s %" SCNu64, &tid) == 1 &&
            sscanf(event, "%*s %" SCNx64, &ip) == 1)
            list_add(&found_of(scene, tid, found)->insns, ip);
        else
            (void)is_error(line, number, found);
    }
    if (pclose(lines) != 0)
        found_error(found, 0, "vpt decode failed");
}
