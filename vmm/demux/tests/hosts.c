/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt demux of a perf.data: a host with two processors, between which the virtual processors of two
 * VMs move. Each processor is a world of its own, of the same programs, and one of them runs at a
 * time. What a VM executed on both is the truth.
 */
#include "demux/tests/hosts.h"

#include <CUnit/CUnit.h>
#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/json.h"
#include "demux/tests/check.h"
#include "demux/tests/command.h"
#include "ptdec_perf.h"
#include "roundtrip/world.h"

#define CPUS       2
#define TURNS      200u
#define THREAD     100u /* of VM n: 100 + n */
#define IDLE       1u   /* the thread that runs otherwise */
#define REST_TICKS 200u
#define SKEW       300u /* less than what the least steps of a VM take, more than between two VMs */
#define LEAST      40u
#define MTC        (UINT64_C(1) << 9 | UINT64_C(3) << 14) /* of RTIT_CTL, as world.c has it */

/* What is asked of a recording. */
struct scene {
    bool by_threads;   /* the map names threads, and not pointers */
    bool has_vmcs;     /* else the processors tell none */
    bool has_time;     /* else no packet tells it */
    bool has_both_vms; /* else the second one is not in the map */
    bool is_cut;       /* a part of one trace is no trace */
    bool has_hole;     /* a part of one trace is not there */
    bool ends_early;   /* nor is the second half of it */
    bool is_skewed;    /* the packets of one tell a time that is somewhat too early */
};

struct hosts {
    struct world cpus[CPUS];
    struct step *steps; /* of all, in order */
    size_t step_count;
    size_t taken[CPUS]; /* of each, so many are in it */
    struct ptd_perf_switch switches[2 * TURNS];
    size_t switch_count;
    char folder[32];
    FILE *file;        /* the perf.data, while it is written */
    json_object *says; /* what vpt demux printed, or NULL */
    int status;        /* its exit code */
};

/* ---- What ran ---- */

static void take_steps(struct hosts *hosts, unsigned cpu)
{
    const struct world *const world = &hosts->cpus[cpu];
    const size_t more = world->step_count - hosts->taken[cpu];

    memcpy(hosts->steps + hosts->step_count, world->steps + hosts->taken[cpu],
           more * sizeof(*hosts->steps));
    hosts->step_count += more;
    hosts->taken[cpu] = world->step_count;
}

/* The thread comes, or goes. */
static void switch_to(struct hosts *hosts, unsigned cpu, uint32_t from, uint32_t to)
{
    hosts->switches[hosts->switch_count++] = (struct ptd_perf_switch){.time = hosts->cpus[cpu].tsc,
                                                                      .cpu = cpu,
                                                                      .pid = from,
                                                                      .tid = from,
                                                                      .out = true,
                                                                      .has_other = true,
                                                                      .other_pid = to,
                                                                      .other_tid = to};
}

static void catch_up(struct hosts *hosts, unsigned cpu)
{
    const struct world *const other = &hosts->cpus[CPUS - 1 - cpu];

    if (hosts->cpus[cpu].tsc < other->tsc)
        hosts->cpus[cpu].tsc = other->tsc;
}

static void run_turn(struct hosts *hosts, struct random *random)
{
    const unsigned cpu = draw(random, CPUS), vm = 1 + draw(random, MACHINES - 1);
    struct world *const world = &hosts->cpus[cpu];

    catch_up(hosts, cpu);
    run_some(world, 1 + draw(random, 10));
    switch_to(hosts, cpu, IDLE, THREAD + vm);
    world->tsc += draw(random, REST_TICKS);
    run_some(world, 1 + draw(random, 10));
    run_vm(world, vm, LEAST + draw(random, 200));
    run_some(world, 1 + draw(random, 10));
    switch_to(hosts, cpu, THREAD + vm, IDLE);
    hosts->cpus[CPUS - 1 - cpu].walk[vm] = world->walk[vm];
    take_steps(hosts, cpu);
}

static struct hosts *hosts_new(uint64_t seed)
{
    struct hosts *const hosts = calloc(1, sizeof(*hosts));
    struct random random = {seed};

    if (!hosts)
        abort();
    for (unsigned cpu = 0; cpu < CPUS; cpu++) {
        CU_ASSERT_TRUE_FATAL(make_world(&hosts->cpus[cpu], seed, 0));
        hosts->cpus[cpu].random.state += cpu; /* the same programs, which do something else */
        hosts->cpus[cpu].stamps[0].tsc = hosts->cpus[cpu].tsc;
        hosts->cpus[cpu].stamp_count = 1;
    }
    hosts->steps = calloc(1u << 18, sizeof(*hosts->steps));
    CU_ASSERT_PTR_NOT_NULL_FATAL(hosts->steps);
    for (unsigned turn = 0; turn < TURNS; turn++)
        run_turn(hosts, &random);
    for (unsigned cpu = 0; cpu < CPUS; cpu++) {
        catch_up(hosts, cpu);
        end_world(&hosts->cpus[cpu]);
    }
    memcpy(hosts->folder, "/tmp/vpt-hosts-XXXXXX", sizeof("/tmp/vpt-hosts-XXXXXX"));
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(hosts->folder));
    return hosts;
}

static void hosts_free(struct hosts *hosts)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", hosts->folder);
    CU_ASSERT_EQUAL(system(command), 0);
    json_object_put(hosts->says);
    for (unsigned cpu = 0; cpu < CPUS; cpu++)
        free_world(&hosts->cpus[cpu]);
    free(hosts->steps);
    free(hosts);
}

/* ---- The recording ---- */

static void open_file(struct hosts *hosts, const char *name)
{
    char path[64];

    snprintf(path, sizeof(path), "%s/%s", hosts->folder, name);
    hosts->file = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(hosts->file);
}

static int put(void *owner, const void *bytes, size_t len)
{
    const struct hosts *const hosts = owner;

    return fwrite(bytes, 1, len, hosts->file) == len ? 0 : -1;
}

static bool is_unwanted(const struct scene *scene, const struct ptd_packet *packet)
{
    switch (packet->type) {
    case PTD_VMCS:
        return !scene->has_vmcs;
    case PTD_TSC:
    case PTD_TMA:
    case PTD_MTC:
    case PTD_CYC:
        return !scene->has_time;
    default:
        return false;
    }
}

/* PADs take the place of packets that this processor does not have. */
static void strip(const struct world *world, const struct scene *scene)
{
    struct ptd_packets packets;
    struct ptd_packet packet;

    ptd_packets_init(&packets, world->region, (size_t)world->cpu.output_bytes);
    while (ptd_packets_next(&packets, &packet) == PTD_OK)
        if (is_unwanted(scene, &packet))
            memset(world->region + packet.offset, 0, packet.size_bytes);
}

/* What the host's TSC packets tell. */
static void skew(const struct world *world)
{
    struct ptd_packets packets;
    struct ptd_packet packet;
    bool nr = false;

    ptd_packets_init(&packets, world->region, (size_t)world->cpu.output_bytes);
    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        if (packet.type == PTD_PIP)
            nr = packet.pip.nr;
        for (unsigned i = 1; packet.type == PTD_TSC && !nr && i < packet.size_bytes; i++)
            world->region[packet.offset + i] = (uint8_t)((packet.tsc - SKEW) >> 8 * (i - 1));
    }
}

static void write_perf_data(struct hosts *hosts, const struct scene *scene)
{
    const struct ptd_perf_comm comms[] = {{.pid = IDLE, .tid = IDLE, .name = "idle"},
                                          {.pid = THREAD + 1, .tid = THREAD + 1, .name = "one"},
                                          {.pid = THREAD + 2, .tid = THREAD + 2, .name = "two"}};
    struct ptd_perf_trace traces[CPUS + 1] = {0};
    const struct world *const last = &hosts->cpus[CPUS - 1];
    const size_t all = (size_t)last->cpu.output_bytes, hole = all / 20;
    struct ptd_perf_out out = {
        .pt = {.time_mult = 1,
               .has_time = true,
               .tsc_ctc_num = last->caps.tsc_num,
               .tsc_ctc_den = last->caps.tsc_den,
               .max_nonturbo_ratio = last->caps.max_nonturbo_ratio},
        .config = VPT_CTL_TSCEN | MTC | VPT_CTL_CYCEN,
        .traces = traces,
        .comms = comms,
        .switches = hosts->switches,
        .trace_count = CPUS,
        .comm_count = 3,
        .switch_count = hosts->switch_count,
        .write = put,
        .owner = hosts,
    };

    for (unsigned cpu = 0; cpu < CPUS; cpu++) {
        strip(&hosts->cpus[cpu], scene);
        traces[cpu] =
            (struct ptd_perf_trace){.idx = cpu,
                                    .cpu = (int32_t)cpu,
                                    .tid = -1,
                                    .reference = hosts->cpus[cpu].stamps[0].tsc,
                                    .bytes = hosts->cpus[cpu].region,
                                    .len_bytes = (size_t)hosts->cpus[cpu].cpu.output_bytes};
    }
    if (scene->is_skewed)
        skew(last);
    if (scene->is_cut)
        memset(last->region + all / 2, 0xff, hole);
    if (scene->has_hole) {
        traces[CPUS] = traces[CPUS - 1];
        traces[CPUS - 1].len_bytes = all / 2;
        traces[CPUS].bytes += all / 2 + hole;
        traces[CPUS].len_bytes -= all / 2 + hole;
        traces[CPUS].aux_offset = all / 2 + hole;
        out.trace_count++;
    }
    if (scene->ends_early)
        traces[CPUS - 1].len_bytes = all / 2;
    open_file(hosts, "perf.data");
    CU_ASSERT_EQUAL_FATAL(ptd_perf_write(&out), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(fclose(hosts->file), 0);
}

static void write_code(struct hosts *hosts, const char *name, const uint8_t *code, size_t len)
{
    open_file(hosts, name);
    CU_ASSERT_EQUAL_FATAL(put(hosts, code, len), 0);
    CU_ASSERT_EQUAL_FATAL(fclose(hosts->file), 0);
}

static void write_images(struct hosts *hosts)
{
    char name[16];

    for (unsigned i = 0; i < MACHINES; i++) {
        snprintf(name, sizeof(name), "user%u", i);
        write_code(hosts, name, hosts->cpus[0].user[i].code, hosts->cpus[0].user[i].len_bytes);
        snprintf(name, sizeof(name), "kernel%u", i);
        write_code(hosts, name, hosts->cpus[0].kernel[i].code, hosts->cpus[0].kernel[i].len_bytes);
    }
    write_code(hosts, "hypervisor", hypervisor, HYPERVISOR_BYTES);
}

static void say_images(const struct hosts *hosts, unsigned machine)
{
    fprintf(hosts->file,
            "\"images\": [{\"path\": \"user%u\", \"address\": \"%#" PRIx64 "\"}, "
            "{\"path\": \"kernel%u\", \"address\": \"%#" PRIx64 "\"}",
            machine, (uint64_t)USER_BASE, machine, (uint64_t)KERNEL_BASE);
}

static void write_map(struct hosts *hosts, const struct scene *scene)
{
    open_file(hosts, "map");
    fputs("{\"vpt-map\": 1, \"host\": {", hosts->file);
    say_images(hosts, 0);
    fprintf(hosts->file,
            ", {\"path\": \"hypervisor\", \"address\": \"%#" PRIx64 "\"}]}, \"vms\": [",
            (uint64_t)HYPERVISOR);
    for (unsigned vm = 1; vm < (scene->has_both_vms ? MACHINES : 2u); vm++) {
        fprintf(hosts->file, "%s{\"name\": \"%s\", ", vm > 1 ? ", " : "", vm_names[vm]);
        if (scene->by_threads)
            fprintf(hosts->file, "\"vcpus\": [{\"tid\": %u, ", THREAD + vm);
        else
            fprintf(hosts->file, "\"vmcs\": \"%#" PRIx64 "\", ", vms[vm].vmcs);
        fprintf(hosts->file,
                "\"tsc_offset\": \"%#" PRIx64 "\", \"tsc_multiplier\": \"%#" PRIx64 "\"%s, ",
                vms[vm].offset, vms[vm].multiplier, scene->by_threads ? "}]" : "");
        say_images(hosts, vm);
        fputs("]}", hosts->file);
    }
    fputs("]}\n", hosts->file);
    CU_ASSERT_EQUAL_FATAL(fclose(hosts->file), 0);
}

/* ---- vpt demux ---- */

static void run_demux(struct hosts *hosts)
{
    char map[64], data[64], out[64], said[64], err[64];
    char *argv[] = {"demux", "--no-sandbox", "--json", "--map", map, "--out", out, data, NULL};
    struct bytes text = {0};
    char why[100];

    snprintf(map, sizeof(map), "%s/map", hosts->folder);
    snprintf(data, sizeof(data), "%s/perf.data", hosts->folder);
    snprintf(out, sizeof(out), "%s/out", hosts->folder);
    snprintf(said, sizeof(said), "%s/said", hosts->folder);
    snprintf(err, sizeof(err), "%s/err", hosts->folder);
    hosts->status = run_command(&command_demux, argv, said, err);
    CU_ASSERT_TRUE_FATAL(hosts->status >= 0);
    CU_ASSERT_EQUAL_FATAL(read_file(said, &text), 0);
    hosts->says = text.len ? json_parse((const char *)text.data, text.len, why, sizeof(why)) : NULL;
    bytes_free(&text);
}

static int64_t said(const struct hosts *hosts, const char *key)
{
    return json_object_get_int64(json_object_object_get(hosts->says, key));
}

static int64_t said_of(const struct hosts *hosts, unsigned vm, const char *key)
{
    json_object *const traces = json_object_object_get(hosts->says, "traces");

    for (size_t i = 0; i < json_object_array_length(traces); i++) {
        json_object *const trace = json_object_array_get_idx(traces, i);

        if (json_object_get_int64(json_object_object_get(trace, "vm")) == vm)
            return json_object_get_int64(json_object_object_get(trace, key));
    }
    return -1;
}

/* What the scene's recording becomes. */
static struct hosts *play(const struct scene *scene, uint64_t seed)
{
    struct hosts *const hosts = hosts_new(seed);

    write_perf_data(hosts, scene);
    write_images(hosts);
    write_map(hosts, scene);
    run_demux(hosts);
    return hosts;
}

/* All of it as one world, which has what ran on both processors. */
static const struct world *world_of(struct hosts *hosts)
{
    struct world *const world = &hosts->cpus[0];

    free(world->steps);
    world->steps = hosts->steps;
    world->step_count = hosts->step_count;
    hosts->steps = NULL;
    if (world->tsc < hosts->cpus[1].tsc)
        world->tsc = hosts->cpus[1].tsc;
    return world;
}

static void read_vm(const struct hosts *hosts, unsigned vm, struct made *made)
{
    char folder[64];

    snprintf(folder, sizeof(folder), "%s/out", hosts->folder);
    read_made(folder, vm, made);
}

/* ---- Tests ---- */

/*
 * By threads and pointers, by threads, by pointers. Where times are somewhat wrong, a VM seems to
 * enter on one processor while it still runs on the other one.
 */
static void both_processors(void)
{
    static const struct scene scenes[] = {
        {.by_threads = true, .has_vmcs = true, .has_time = true, .has_both_vms = true},
        {.by_threads = true, .has_time = true, .has_both_vms = true},
        {.has_vmcs = true, .has_time = true, .has_both_vms = true},
        {.has_vmcs = true, .has_time = true, .has_both_vms = true, .is_skewed = true},
    };

    for (uint64_t i = 0; i < 4; i++) {
        struct hosts *const hosts = play(&scenes[i], 7000 + i);
        const struct world *const world = world_of(hosts);
        const struct wanted all = {0};

        CU_ASSERT_EQUAL_FATAL(hosts->status, 0);
        CU_ASSERT_EQUAL(said(hosts, "missing_places"), 0);
        CU_ASSERT_EQUAL(said(hosts, "unknown_instructions"), 0);
        for (unsigned vm = 1; vm < MACHINES; vm++) {
            struct made made;

            read_vm(hosts, vm, &made);
            check_ran(world, vm, &all, &made);
            check_foreign(world, vm, &made, i == 0);
            CU_ASSERT_EQUAL(said_of(hosts, vm, "instructions"), made.ptdec.count);
            CU_ASSERT_EQUAL(said_of(hosts, vm, "gaps"), 0);
            free_made(&made);
        }
        hosts_free(hosts);
    }
}

/* Of a part that is missing, nothing is told, and it is said where that was. */
static void missing_parts(void)
{
    static const struct scene scenes[] = {
        {.by_threads = true,
         .has_vmcs = true,
         .has_time = true,
         .has_both_vms = true,
         .is_cut = true},
        {.by_threads = true,
         .has_vmcs = true,
         .has_time = true,
         .has_both_vms = true,
         .has_hole = true},
    };

    for (uint64_t i = 0; i < 2; i++) {
        struct hosts *const hosts = play(&scenes[i], 7100 + i);
        const struct world *const world = world_of(hosts);
        const struct wanted all = {0};
        size_t missing = 0;

        CU_ASSERT_EQUAL_FATAL(hosts->status, 0);
        CU_ASSERT_TRUE(scenes[i].has_hole || said(hosts, "missing_places") > 0);
        for (unsigned vm = 1; vm < MACHINES; vm++) {
            struct made made;

            read_vm(hosts, vm, &made);
            CU_ASSERT_TRUE(same_from_start(world, vm, &all, &made.ptdec) > 0);
            CU_ASSERT_TRUE(same_to_end(world, vm, &made.ptdec) > 0);
            CU_ASSERT_TRUE(made.ptdec.gaps > 0 ||
                           made.ptdec.count == count_wanted(world, vm, &all));
            missing += count_wanted(world, vm, &all) - made.ptdec.count;
            check_foreign(world, vm, &made, false);
            free_made(&made);
        }
        CU_ASSERT_TRUE(missing > 0 && missing < hosts->step_count / 10);
        hosts_free(hosts);
    }
}

/* How often a thread came back from the last processor when that was not traced any more. */
static unsigned count_returns(const struct hosts *hosts, uint32_t tid)
{
    const struct world *const last = &hosts->cpus[CPUS - 1];
    unsigned returns = 0, cpu = 0;
    uint64_t end = 0;

    for (size_t i = 0; last->stamps[i].end <= (size_t)last->cpu.output_bytes / 2; i++)
        end = last->stamps[i].tsc;
    for (size_t i = 0; i < hosts->switch_count; i++) {
        const struct ptd_perf_switch *const at = &hosts->switches[i];

        if (at->other_tid != tid || at->time < end)
            continue;
        returns += cpu == CPUS - 1 && at->cpu != cpu;
        cpu = at->cpu;
    }
    return returns;
}

/* Only who ran there may have run there: the kernel tells where threads are. */
static void early_end(void)
{
    static const struct scene scene = {.by_threads = true,
                                       .has_vmcs = true,
                                       .has_time = true,
                                       .has_both_vms = true,
                                       .ends_early = true};
    struct hosts *const hosts = play(&scene, 7400);

    CU_ASSERT_EQUAL_FATAL(hosts->status, 0);
    for (unsigned vm = 1; vm < MACHINES; vm++) {
        const unsigned returns = count_returns(hosts, THREAD + vm);
        struct made made;

        read_vm(hosts, vm, &made);
        CU_ASSERT_TRUE(returns > 5);
        CU_ASSERT_TRUE(made.ptdec.gaps + 1 >= returns && made.ptdec.gaps <= returns + 1);
        CU_ASSERT_TRUE(said_of(hosts, vm, "entries") > 4 * (int64_t)returns);
        free_made(&made);
    }
    hosts_free(hosts);
}

/* A VM that the map does not name is nobody's. Its code is not known, so that others miss some. */
static void unknown_vm(void)
{
    static const struct scene scene = {.by_threads = true, .has_time = true};
    struct hosts *const hosts = play(&scene, 7200);
    const struct world *const world = world_of(hosts);
    const struct wanted all = {0};
    struct made made;

    CU_ASSERT_EQUAL_FATAL(hosts->status, 0);
    CU_ASSERT_EQUAL(json_object_array_length(json_object_object_get(hosts->says, "traces")), 1);
    CU_ASSERT_TRUE(said(hosts, "missing_places") > 0);
    read_vm(hosts, 1, &made);
    CU_ASSERT_TRUE(made.ptdec.count > 100 && made.ptdec.count < count_wanted(world, 1, &all));
    CU_ASSERT_TRUE(made.ptdec.gaps > 0);
    check_foreign(world, 1, &made, true);
    free_made(&made);
    hosts_free(hosts);
}

/* What ran on two processors has no order then. */
static void no_time(void)
{
    static const struct scene scene = {.has_vmcs = true, .has_both_vms = true};
    struct hosts *const hosts = play(&scene, 7300);
    struct bytes text = {0};
    char err[64];

    CU_ASSERT_EQUAL(hosts->status, EXIT_CODE_FILE);
    snprintf(err, sizeof(err), "%s/err", hosts->folder);
    CU_ASSERT_EQUAL_FATAL(read_file(err, &text), 0);
    CU_ASSERT_PTR_NOT_NULL(memmem(text.data, text.len, "no order", 8));
    bytes_free(&text);
    hosts_free(hosts);
}

CU_TestInfo hosts_tests[] = {{"virtual processors that move", both_processors},
                             {"a host's processor with missing parts", missing_parts},
                             {"a processor that ends early", early_end},
                             {"a VM that nobody knows", unknown_vm},
                             {"no time", no_time},
                             CU_TEST_INFO_NULL};
