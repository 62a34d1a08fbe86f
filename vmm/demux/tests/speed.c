/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast a host's trace is taken apart, beside decoding its flow alone.
 *
 *   speed [--json FILE] PREFIX...: traces that record.c made, see traces.sh
 *
 * Each program runs again as the guest of a host, as its trace says, and the model traces that host
 * as perf would, with TSC and MTC packets. A VM exit comes after each EXIT_INSNS instructions.
 * flow: ptd_stream_next() alone; steps: ptd_stream_run() alone; demux: the guest's trace and its
 * code log are written as well. Medians of processor time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/file.h"
#include "demux/files.h"
#include "demux/tell.h"

#define RUNS         5
#define LIMIT_BYTES  (6u << 20) /* of a program's trace */
#define ROOM_BYTES   (64u << 20)
#define FEED_BYTES   (64u << 10)
#define STEPS_A_RUN  4096u
#define EXIT_INSNS   20000u
#define TICKS_A_STEP 8u
#define HOST         UINT64_C(0xffffffff81000000)
#define GUEST_CR3    UINT64_C(0x5000)
#define VMCS         UINT64_C(0x7000)
#define TABLE_GPA    0x1000u
#define REGION_GPA   0x8000000u
#define SIZE_128M    15u

enum way { FLOW, STEPS, DEMUX, WAYS };
static const char *const way_names[WAYS] = {"flow", "steps", "demux"};

struct host {
    struct vpt_cpu cpu;
    struct vpt_caps caps;
    uint64_t table[2];
    uint8_t page[4096];
    uint8_t *bytes;
    size_t len;
    uint64_t tsc, since_exit, insns, next_ip;
    bool in_guest;
};

struct bench {
    struct host host;
    struct ptd_image *program, *image;
    struct ptd_contexts *contexts;
    uint64_t seen; /* instructions, by the last way */
};

static void fail(const char *what)
{
    (void)fprintf(stderr, "speed: %s\n", what);
    exit(EXIT_FAILURE);
}

/* ---- A host's trace ---- */

static void translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    struct host *const host = owner;

    span->kind = VPT_SPAN_RAM;
    span->len_bytes = len_bytes;
    span->host = access == VPT_READ_TABLE ? (uint8_t *)host->table + gpa % sizeof(host->table)
                                          : host->page + gpa % sizeof(host->page);
}

static void wrote(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    struct host *const host = owner;

    (void)gpa;
    if (len_bytes > ROOM_BYTES - host->len)
        fail("the trace is too long");
    memcpy(host->bytes + host->len, bytes, len_bytes);
    host->len += len_bytes;
}

static void clocks(void *owner, struct vpt_clocks *now)
{
    const struct host *const host = owner;

    vpt_clocks_from_tsc(&host->caps, host->tsc, now);
}

static const struct vpt_ops ops = {.translate = translate, .wrote = wrote, .clocks = clocks};

static struct vpt_context context_of(bool guest)
{
    return (struct vpt_context){.cr3 = guest ? GUEST_CR3 : 0x1000,
                                .cpl = guest ? 3 : 0,
                                .exec_mode = VPT_EXEC_64,
                                .pae = true,
                                .interrupts = true};
}

static void leave(struct host *host, uint64_t ip)
{
    const struct vpt_vm_exit exit = {
        .ip = ip, .host_ip = HOST, .reason = 1, .by_event = true, .host = context_of(false)};

    if (host->in_guest)
        (void)vpt_vm_exit(&host->cpu, &exit);
    host->in_guest = false;
    host->since_exit = 0;
}

static void enter(struct host *host, uint64_t ip)
{
    const struct vpt_vm_entry entry = {.ip = HOST,
                                       .next_ip = HOST + 3,
                                       .host_ip = HOST,
                                       .host = context_of(false),
                                       .guest_ip = ip,
                                       .guest = context_of(true)};

    leave(host, ip);
    (void)vpt_vm_entry(&host->cpu, &entry);
    host->in_guest = true;
}

static void begin_host(struct host *host)
{
    const struct vpt_context context = context_of(false);
    const uint64_t ctl = VPT_CTL_TRACEEN | VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN |
                         VPT_CTL_TOPA | VPT_CTL_TSCEN | VPT_CTL_MTCEN |
                         UINT64_C(3) << VPT_CTL_MTCFREQ_SHR;

    host->bytes = malloc(ROOM_BYTES);
    host->tsc = 5555555;
    host->table[0] = REGION_GPA | SIZE_128M << VPT_TOPA_SIZE_SHR;
    host->table[1] = TABLE_GPA | VPT_TOPA_END;
    if (!host->bytes || !vpt_profile("max", &host->caps) ||
        !vpt_init(&host->cpu, &host->caps, &ops, host))
        fail("no model");
    (void)vpt_wrmsr(&host->cpu, VPT_MSR_OUTPUT_BASE, TABLE_GPA, 0, 0);
    (void)vpt_wrmsr(&host->cpu, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f, 0, 0);
    vpt_vmxon(&host->cpu, 0);
    vpt_set_context(&host->cpu, &context);
    if (vpt_wrmsr(&host->cpu, VPT_MSR_CTL, ctl, 0, HOST) != VPT_OK)
        fail("the model does not trace");
    vpt_vmptrld(&host->cpu, VMCS);
}

static void tell_block(struct bench *bench, const struct ptd_item *block)
{
    struct host *const host = &bench->host;
    const struct last last = last_block(block);

    if (!host->in_guest || host->since_exit >= EXIT_INSNS)
        enter(host, block->ip);
    host->tsc += TICKS_A_STEP;
    host->next_ip = block->to;
    host->insns += block->insns;
    host->since_exit += block->insns;
    if (block->has_to &&
        (tell_near(&host->cpu, &last, block->to) || block->to == tell_block_end(block)))
        return;
    host->insns--; /* the kernel that it had is the host, and takes no time */
    leave(host, block->last_ip);
}

static void make_host_trace(struct bench *bench, const struct bytes *trace)
{
    const size_t len = trace->len < LIMIT_BYTES ? trace->len : LIMIT_BYTES;
    struct ptd_flow *const flow = ptd_flow_new(trace->data, len, bench->program, NULL);
    struct ptd_item item;

    begin_host(&bench->host);
    while (flow && ptd_flow_next(flow, &item) == PTD_OK)
        if (item.type == PTD_ITEM_BLOCK)
            tell_block(bench, &item);
        else if (item.has_from && (item.type == PTD_ITEM_DISABLED || item.type == PTD_ITEM_ASYNC))
            leave(&bench->host, item.from);
    leave(&bench->host, bench->host.next_ip);
    (void)vpt_wrmsr(&bench->host.cpu, VPT_MSR_CTL, 0, HOST, HOST);
    vpt_flush(&bench->host.cpu);
    ptd_flow_free(flow);
}

/* ---- Files ---- */

static void read_part(const char *prefix, const char *suffix, struct bytes *bytes)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s.%s", prefix, suffix);
    if (read_file(path, bytes) != 0)
        fail(path);
}

/* The program, and the host's VMRESUME besides it. */
static void add_code(struct bench *bench, const char *prefix)
{
    static const uint8_t vmresume[] = {0x0f, 0x01, 0xc3};
    struct bytes code = {0}, map = {0};
    uint64_t address, len, offset = 0;
    char *line, *rest;
    bool ok = true;

    read_part(prefix, "code", &code);
    read_part(prefix, "map", &map);
    bench->program = ptd_image_new();
    bench->image = ptd_image_new();
    bench->contexts = bench->image ? ptd_contexts_new(bench->image) : NULL;
    if (!bench->program || !bench->contexts ||
        ptd_contexts_add_vm(bench->contexts, "one", 12345, 0) != 1 ||
        ptd_contexts_add_vmcs(bench->contexts, 1, VMCS) != PTD_OK)
        fail("no memory");
    map.data[map.len - 1] = 0;
    for (line = strtok_r((char *)map.data, "\n", &rest); line && ok;
         line = strtok_r(NULL, "\n", &rest)) {
        ok = sscanf(line, "%" SCNx64 " %" SCNx64, &address, &len) == 2 &&
             len <= code.len - offset &&
             ptd_image_add_bytes(bench->program, NULL, address, code.data + offset, len,
                                 PTD_ANY_CR3) == PTD_OK &&
             ptd_image_add_bytes(bench->image, NULL, address, code.data + offset, len,
                                 ptd_space(1, PTD_ANY_CR3)) == PTD_OK;
        offset += len;
    }
    if (!ok || ptd_image_add_bytes(bench->image, NULL, HOST, vmresume, sizeof(vmresume),
                                   ptd_space(0, PTD_ANY_CR3)) != PTD_OK)
        fail("no code");
    bytes_free(&code);
    bytes_free(&map);
}

static void remove_files(const char *folder)
{
    static const char *const names[] = {"1.0", "1.0.json", "1.0.code"};
    char path[64];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

/* ---- The ways ---- */

/* All of the trace. cpu may be NULL. How many errors there were. */
static uint64_t go_over(struct bench *bench, struct ptd_stream *stream, enum way way, bool time,
                        struct demux_cpu *cpu)
{
    static uint32_t steps[STEPS_A_RUN];
    struct ptd_run run = {.steps = steps, .room = STEPS_A_RUN};
    struct ptd_time_point point;
    uint64_t errors = 0;
    size_t at = 0;
    int status;

    run.timing = time ? PTD_TIMING_ITEMS : PTD_TIMING_NONE;
    while ((status = way == FLOW ? ptd_stream_next(stream, &run.item, time ? &point : NULL)
                                 : ptd_stream_run(stream, &run, time ? &point : NULL)) != PTD_END) {
        const size_t left = bench->host.len - at, len = left < FEED_BYTES ? left : FEED_BYTES;

        if (status == PTD_OK) {
            errors += (way == FLOW || run.has_item) && run.item.type == PTD_ITEM_ERROR;
            if (cpu &&
                demux_take_run(cpu, ptd_stream_flow(stream), &run, time ? &point : NULL) != 0)
                fail("demux failed");
            continue;
        }
        if (status != PTD_MORE)
            fail("no memory");
        if (len == 0)
            ptd_stream_end(stream);
        else
            (void)ptd_stream_feed(stream, bench->host.bytes + at, len);
        at += len;
    }
    return errors;
}

static void take_apart(struct bench *bench, struct ptd_stream *stream, bool time,
                       const struct ptd_time_config *clock)
{
    char folder[] = "/tmp/vpt-speed-XXXXXX";
    static struct demux_files files;
    const struct demux_config config = {
        .contexts = bench->contexts, .found = demux_files_found, .owner = &files};
    struct demux *const demux = demux_new(&config);
    struct demux_cpu *const cpu = demux ? demux_cpu_new(demux, 0) : NULL;

    memset(&files, 0, sizeof(files));
    files.profile = "plain";
    files.out = mkdtemp(folder);
    files.times = clock->vms;
    files.time_count = time ? clock->vm_count : 0;
    files.config.ctl =
        VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN | (time ? VPT_CTL_TSCEN : UINT64_C(0));
    if (!cpu || !files.out || !vpt_profile("plain", &files.config.caps))
        fail("no folder, or no memory");
    files.config.caps.vmx_misc_pt = true;
    demux_cpu_begin(cpu, bench->image, time);
    (void)go_over(bench, stream, DEMUX, time, cpu);
    demux_cpu_end(cpu);
    if (demux_files_write(&files) != 0 || files.count != 1)
        fail(files.why.text);
    bench->seen = files.all[0]->tenant.insns;
    demux_files_free(&files);
    demux_cpu_free(cpu);
    demux_free(demux);
    remove_files(folder);
}

static double now(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* The seconds that a way takes. */
static double measure(struct bench *bench, enum way way, bool time)
{
    struct ptd_time_config clock = {.tsc_den = bench->host.caps.tsc_den,
                                    .tsc_num = bench->host.caps.tsc_num,
                                    .mtc_freq = 3,
                                    .max_nonturbo_ratio = bench->host.caps.max_nonturbo_ratio};
    const double begin = now();
    struct ptd_stream *stream;

    clock.vms = ptd_contexts_time_vms(bench->contexts, &clock.vm_count);
    stream = ptd_stream_new(bench->image, NULL, time ? &clock : NULL);
    if (!stream)
        fail("no memory");
    if (way == DEMUX)
        take_apart(bench, stream, time, &clock);
    else if (go_over(bench, stream, way, time, NULL) > 0)
        fail("the trace has errors");
    ptd_stream_free(stream);
    return now() - begin;
}

/* ---- Figures ---- */

struct result {
    const char *name;
    size_t bytes;
    uint64_t insns;
    double seconds[2][WAYS]; /* without time, with time */
};

static int compare(const void *a, const void *b)
{
    const double one = *(const double *)a, other = *(const double *)b;

    return one < other ? -1 : one > other;
}

static void run(const char *prefix, struct result *result)
{
    const char *const slash = strrchr(prefix, '/');
    struct bench *const bench = calloc(1, sizeof(*bench));
    double times[2][WAYS][RUNS];
    struct bytes trace = {0};

    if (!bench)
        fail("no memory");
    add_code(bench, prefix);
    read_part(prefix, "pt", &trace);
    make_host_trace(bench, &trace);
    bytes_free(&trace);
    for (size_t round = 0; round < RUNS; round++)
        for (unsigned time = 0; time < 2; time++)
            for (enum way way = 0; way < WAYS; way++)
                times[time][way][round] = measure(bench, way, time);
    if (bench->seen != bench->host.insns)
        fail("demux has found other instructions than those that ran");
    *result = (struct result){
        .name = slash ? slash + 1 : prefix, .bytes = bench->host.len, .insns = bench->host.insns};
    for (unsigned time = 0; time < 2; time++)
        for (enum way way = 0; way < WAYS; way++) {
            qsort(times[time][way], RUNS, sizeof(double), compare);
            result->seconds[time][way] = times[time][way][RUNS / 2];
        }
    ptd_contexts_free(bench->contexts);
    ptd_image_free(bench->image);
    ptd_image_free(bench->program);
    free(bench->host.bytes);
    free(bench);
}

static void write_result(FILE *file, const struct result *result)
{
    (void)fprintf(file, "  \"%s\": {\"bytes\": %zu, \"instructions\": %" PRIu64, result->name,
                  result->bytes, result->insns);
    for (unsigned time = 0; time < 2; time++) {
        const double *const seconds = result->seconds[time];

        for (enum way way = 0; way < WAYS; way++)
            (void)fprintf(file, ", \"%s%s_s\": %.4f", way_names[way], time ? "_time" : "",
                          seconds[way]);
        (void)fprintf(file, ", \"demux%s_vs_flow\": %.3f, \"demux%s_vs_steps\": %.3f",
                      time ? "_time" : "", seconds[FLOW] / seconds[DEMUX], time ? "_time" : "",
                      seconds[STEPS] / seconds[DEMUX]);
    }
    (void)fprintf(file, "}");
}

int main(int argc, char **argv)
{
    const bool has_json = argc > 2 && strcmp(argv[1], "--json") == 0;
    const int first = has_json ? 3 : 1;
    FILE *const json = has_json ? fopen(argv[2], "w") : stdout;

    if (argc <= first || !json) {
        (void)fprintf(stderr, "usage: speed [--json FILE] PREFIX...\n");
        return 2;
    }
    (void)fprintf(json, "{\n");
    for (int i = first; i < argc; i++) {
        struct result result;

        run(argv[i], &result);
        if (has_json)
            printf("%s: demux is %.2f times as fast as the flow, %.2f with time\n", result.name,
                   result.seconds[0][FLOW] / result.seconds[0][DEMUX],
                   result.seconds[1][FLOW] / result.seconds[1][DEMUX]);
        write_result(json, &result);
        (void)fprintf(json, i + 1 < argc ? ",\n" : "\n}\n");
    }
    return has_json && fclose(json) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
