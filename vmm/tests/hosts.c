/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What vpt record and vpt check find out of a host, in folders that look like its /proc and /sys;
 * and what a perf.data says of itself.
 */
#include "common/file.h"
#include "common/json.h"
#include "record/machine.h"
#include "record/recorder.h"
#include "record/vms.h"
#include "suites.h"
#include "trace/clock.h"
#include "trace/code-files.h"
#include "trace/mapfile.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KVM "/sys/kernel/debug/kvm"
#define PMU "/sys/bus/event_source/devices/intel_pt"

static char root[64];

/* ---- A made-up host ---- */

static int make_root(void)
{
    (void)snprintf(root, sizeof(root), "/tmp/vpt-host-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int drop_root(void)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

/* Every folder of a path below the root. */
static void folders_of(char *path)
{
    for (char *at = strchr(path + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        CU_ASSERT_TRUE(mkdir(path, 0700) == 0 || errno == EEXIST);
        *at = '/';
    }
}

static void put_bytes(const char *name, const void *bytes, size_t len)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s%s", root, name);
    folders_of(path);
    CU_ASSERT_EQUAL(write_file(path, bytes, len), 0);
}

static void put(const char *name, const char *text)
{
    put_bytes(name, text, strlen(text));
}

static void drop(const char *name)
{
    char command[256];

    (void)snprintf(command, sizeof(command), "rm -rf '%s%s'", root, name);
    CU_ASSERT_EQUAL(system(command), 0);
}

/* A QEMU with this command line, whose words end with a zero each. */
static void put_qemu(unsigned pid, const char *start, const char *words, size_t words_bytes)
{
    char name[64], stat[256];

    (void)snprintf(name, sizeof(name), "/proc/%u/stat", pid);
    (void)snprintf(stat, sizeof(stat),
                   "%u (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 %s 20\n", pid,
                   start);
    put(name, stat);
    (void)snprintf(name, sizeof(name), "/proc/%u/cmdline", pid);
    put_bytes(name, words, words_bytes);
    (void)snprintf(name, sizeof(name), "/proc/%u/comm", pid);
    put(name, "qemu\n");
}

static void put_cpu(const char *vm, unsigned number, const char *tid, const char *offset,
                    const char *ratio, const char *bits)
{
    const char *const names[] = {"pid", "tsc-offset", "tsc-scaling-ratio",
                                 "tsc-scaling-ratio-frac-bits"};
    const char *const values[] = {tid, offset, ratio, bits};
    char name[128];

    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof(name), KVM "/%s/vcpu%u/%s", vm, number, names[i]);
        if (values[i])
            put(name, values[i]);
    }
}

static bool look(struct vms *vms, uint64_t tsc)
{
    struct reason why = {0};
    bool changed = false;

    CU_ASSERT_EQUAL(vms_look(vms, tsc, &changed, &why), 0);
    return changed;
}

/* ---- VMs ---- */

static const char build[] = "qemu\0-name\0guest=build,debug-threads=on\0-uuid\0"
                            "2d8e3f3e-0000-4000-8000-000000000001";
static const char old[] = "qemu\0-name\0old";

static void put_two_vms(void)
{
    put_qemu(800, "1000", build, sizeof(build));
    put_qemu(900, "2000", old, sizeof(old));
    put_cpu("800-11", 0, "812\n", "-5000\n", "281474976710656\n", "48\n");
    put_cpu("800-11", 1, "813\n", "-5001\n", "281474976710656\n", "48\n");
    put_cpu("900-9", 0, "905\n", "77\n", "2147483648\n", "32\n"); /* half as fast */
    put(KVM "/exits", "12\n");
}

static void by_debugfs(void)
{
    struct vms vms = {.root = root};
    const struct vm *vm;

    put_two_vms();
    CU_ASSERT_TRUE(look(&vms, 1));
    CU_ASSERT_FALSE(vms.no_debugfs);
    CU_ASSERT_EQUAL(vms.count, 2);
    CU_ASSERT_EQUAL(vms_cpus(&vms), 3);
    vm = vms_find(&vms, "build");
    CU_ASSERT_PTR_NOT_NULL(vm);
    if (!vm)
        return;
    CU_ASSERT_EQUAL(vm->pid, 800);
    CU_ASSERT_PTR_EQUAL(vms_find(&vms, "800"), vm);
    CU_ASSERT_PTR_EQUAL(vms_find(&vms, "2d8e3f3e-0000-4000-8000-000000000001"), vm);
    CU_ASSERT_PTR_NULL(vms_find(&vms, "none"));
    CU_ASSERT_PTR_NULL(vms_find(&vms, ""));
    vm = vms_find(&vms, "old");
    CU_ASSERT_PTR_NOT_NULL(vm);
    if (!vm)
        return;
    CU_ASSERT_EQUAL_FATAL(vm->cpu_count, 1);
    CU_ASSERT_EQUAL(vm->cpus[0].tid, 905);
    CU_ASSERT_EQUAL(vm->cpus[0].tsc_offset, 77);
    CU_ASSERT_EQUAL(vm->cpus[0].tsc_multiplier, UINT64_C(1) << 47);
    CU_ASSERT_EQUAL(vm->cpus[0].from, 0);
    CU_ASSERT_FALSE(look(&vms, 2)); /* nothing is new */
    vms_free(&vms);
    drop("/proc");
    drop("/sys");
}

/* VMs come, go and change; a process gets the number of one that ended. */
static void changes(void)
{
    struct vms vms = {.root = root};
    const struct vm *vm;

    put_two_vms();
    CU_ASSERT_TRUE(look(&vms, 1));
    put_cpu("900-9", 0, "905\n", "99\n", "2147483648\n", "32\n");
    CU_ASSERT_TRUE(look(&vms, 500));
    vm = vms_find(&vms, "old");
    CU_ASSERT_EQUAL_FATAL(vm->cpu_count, 2);
    CU_ASSERT_EQUAL(vm->cpus[1].tsc_offset, 99);
    CU_ASSERT_EQUAL(vm->cpus[1].from, 500);
    CU_ASSERT_TRUE(vms_offset(&vms, 900, 900, 0, 111, 450)); /* KVM's tracepoint */
    CU_ASSERT_EQUAL_FATAL(vm->cpu_count, 3);
    CU_ASSERT_EQUAL(vm->cpus[2].from, 450);
    CU_ASSERT_TRUE(vms_offset(&vms, 901, 901, 0, 111, 450)); /* of nobody that is known */
    CU_ASSERT_EQUAL(vms_cpus(&vms), 3);
    vms_prefer_told(&vms); /* the look found what the tracepoint told, and later */
    CU_ASSERT_EQUAL_FATAL(vm->cpu_count, 2);
    CU_ASSERT_EQUAL(vm->cpus[0].from, 0);
    CU_ASSERT_EQUAL(vm->cpus[1].from, 450);

    drop("/proc/900");
    drop(KVM "/900-9");
    CU_ASSERT_FALSE(look(&vms, 600));
    CU_ASSERT_PTR_NULL(vms_find(&vms, "old"));
    CU_ASSERT_EQUAL(vms.count, 2); /* what it ran is still told */
    put_qemu(900, "3000", old, sizeof(old));
    put_cpu("900-9", 0, "905\n", "5\n", "1\n", "0\n");
    CU_ASSERT_TRUE(look(&vms, 700));
    CU_ASSERT_EQUAL(vms.count, 3);
    put_cpu("900-9", 1, "0\n", "5\n", NULL, NULL); /* it has not run yet */
    CU_ASSERT_FALSE(look(&vms, 800));
    put_cpu("900-9", 1, "906\n", "5\n", NULL, NULL);
    CU_ASSERT_TRUE(look(&vms, 900));
    vms_free(&vms);
    drop("/proc");
    drop("/sys");
}

/* A process with two VMs: the thread tells which one's offset it was. */
static void two_of_a_process(void)
{
    struct vms vms = {.root = root};
    const struct vm *first, *second;

    put_qemu(800, "1000", build, sizeof(build));
    put_cpu("800-11", 0, "812\n", "1\n", NULL, NULL);
    CU_ASSERT_TRUE(look(&vms, 1));
    put_cpu("800-12", 0, "822\n", "2\n", NULL, NULL);
    CU_ASSERT_TRUE(look(&vms, 2));
    CU_ASSERT_EQUAL_FATAL(vms.count, 2);
    first = &vms.list[0];
    second = &vms.list[1];
    put_cpu("800-11", 0, "812\n", "3\n", NULL, NULL);
    CU_ASSERT_TRUE(look(&vms, 500));
    CU_ASSERT_TRUE(vms_offset(&vms, 800, 822, 0, 4, 600));
    CU_ASSERT_EQUAL(second->cpu_count, 2);
    CU_ASSERT_FALSE(vms.is_unsure);
    CU_ASSERT_TRUE(vms_offset(&vms, 800, 801, 0, 5, 700)); /* of either */
    CU_ASSERT_TRUE(vms.is_unsure);
    vms_prefer_told(&vms);
    CU_ASSERT_EQUAL(first->cpu_count, 2);
    CU_ASSERT_EQUAL(second->cpu_count, 2);
    vms_free(&vms);
    drop("/proc");
    drop("/sys");
}

/* Without debugfs, QEMU's names of threads tell, and nobody the TSC. */
static void by_proc(void)
{
    struct vms vms = {.root = root};
    char path[128];

    put_qemu(800, "1000", build, sizeof(build));
    put("/proc/800/task/800/comm", "qemu\n");
    put("/proc/800/task/812/comm", "CPU 0/KVM\n");
    put("/proc/800/task/813/comm", "CPU 1/KVM\n");
    put("/proc/800/fd/0", "");
    put_qemu(700, "900", build, sizeof(build)); /* one without KVM */
    put("/proc/700/fd/0", "");
    (void)snprintf(path, sizeof(path), "%s/proc/800/fd/9", root);
    CU_ASSERT_EQUAL(symlink("anon_inode:kvm-vm", path), 0);
    CU_ASSERT_TRUE(look(&vms, 1));
    CU_ASSERT_TRUE(vms.no_debugfs);
    CU_ASSERT_EQUAL_FATAL(vms.count, 1);
    CU_ASSERT_EQUAL_FATAL(vms.list[0].cpu_count, 2);
    CU_ASSERT_EQUAL(vms.list[0].cpus[1].tid, 813);
    CU_ASSERT_FALSE(vms.list[0].cpus[1].has_tsc);
    CU_ASSERT_FALSE(look(&vms, 2));
    vms_free(&vms);
    drop("/proc");
}

/* What is nonsense makes no VM. */
static void nonsense(void)
{
    struct vms vms = {.root = root};

    put_qemu(800, "1000", "-name", 5); /* no value, no zero */
    put_cpu("800-11", 0, "x\n", "1\n", "1\n", "99\n");
    put_cpu("800-11", 1, "99999999999\n", "1\n", NULL, NULL);
    put_cpu("x-11", 0, "1\n", "1\n", NULL, NULL);
    put_cpu("801-2", 0, "1\n", "1\n", NULL, NULL); /* its process is gone */
    put(KVM "/800-11/vcpu7x/pid", "1\n");
    put(KVM "/800-11/vcpu99999/pid", "1\n");
    (void)look(&vms, 1);
    CU_ASSERT_EQUAL_FATAL(vms.count, 1);
    CU_ASSERT_STRING_EQUAL(vms.list[0].name, "qemu-800");
    CU_ASSERT_EQUAL(vms_cpus(&vms), 0);
    vms_free(&vms);
    drop("/proc");
    drop("/sys");
}

/* The map that is written is one that is read. */
static void to_map(void)
{
    struct ptd_image *const image = ptd_image_new();
    struct code_files *const files = code_files_new(1 << 20);
    static const char told[] = "{\"processes\": [{\"name\": \"told\", \"cr3\": 4096}]}";
    struct vms vms = {.root = root};
    struct map map = {.is_of_trace = true};
    struct ptd_context context;
    struct reason why = {0};
    const struct ptd_time_vm *times;
    size_t count;
    char path[96];

    put_two_vms();
    CU_ASSERT_TRUE(look(&vms, 1));
    CU_ASSERT_TRUE(vms_offset(&vms, 900, 905, 0, UINT64_C(0) - 7, 450));
    CU_ASSERT_EQUAL(vms_untold(&vms), 2);
    vms_tell(&vms.list[0], json_parse(told, strlen(told), path, sizeof(path)));
    CU_ASSERT_EQUAL(vms_untold(&vms), 1);
    (void)snprintf(path, sizeof(path), "%s/map", root);
    CU_ASSERT_EQUAL(vms_write(&vms, path, &why), 0);
    CU_ASSERT_EQUAL_FATAL(map_load(path, files, image, &map), 0);
    CU_ASSERT_EQUAL_FATAL(map.vcpu_count, 4);
    times = ptd_contexts_time_vms(map.contexts, &count);
    CU_ASSERT_EQUAL_FATAL(count, 4);
    for (size_t i = 0; i < count; i++) {
        CU_ASSERT_TRUE(map.vcpus[i].has_tsc);
        CU_ASSERT_EQUAL(map.vcpus[i].vmcs, times[i].vmcs);
        if (map.vcpus[i].tid == 812)
            CU_ASSERT_EQUAL(times[i].offset, UINT64_C(0) - 5000);
        if (map.vcpus[i].from == 450)
            CU_ASSERT_EQUAL(times[i].offset, UINT64_C(0) - 7);
        if (map.vcpus[i].tid == 905)
            CU_ASSERT_EQUAL(times[i].multiplier, UINT64_C(1) << 47);
    }
    ptd_contexts_find(map.contexts, ptd_space(1, 4096), 0, &context);
    CU_ASSERT_STRING_EQUAL(context.process, "told");
    map_free(&map);
    ptd_image_free(image);
    code_files_free(files);
    vms_free(&vms);
    drop("/proc");
    drop("/sys");
    drop("/map");
}

/* ---- When a ring begins ---- */

#define RING_OF_A_GUEST(tsc)                                                                       \
    "\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82"                                             \
    "\x19" tsc "\0\0\0\0\0\2\x43\1\1\0\0\0\0\2\xc8\5\0\0\0\0\2\x23"

/* A ring may begin in a guest, whose TSC comes before whose it is. */
static void begin_of_ring(void)
{
    static const uint8_t bytes[] = RING_OF_A_GUEST("\0\x10") RING_OF_A_GUEST("\0\x20");
    const struct ptd_time_vm vms[] = {{.vmcs = 0x5000, .offset = UINT64_C(0) - 0x30000}};

    for (size_t known = 0; known < 2; known++) {
        const struct ptd_time_config config = {.vms = vms, .vm_count = known};
        struct clock clock, of_pieces;

        CU_ASSERT_TRUE(clock_open(&clock, bytes, sizeof(bytes) - 1, &config, false));
        CU_ASSERT_EQUAL(clock_start(&clock), known ? 0x31000 : 0x1000);
        CU_ASSERT_TRUE(clock_begin(&of_pieces, bytes, sizeof(bytes) - 1, &config));
        CU_ASSERT_EQUAL(of_pieces.tsc, known ? 0x31000 : 0x1000);
        clock_close(&clock);
    }
}

/* ---- What can be recorded ---- */

static const char cpuinfo[] = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n"
                              "model\t\t: 85\nmodel name\t: a processor\nstepping\t: 7\n"
                              "flags\t\t: fpu vmx %s\n\nprocessor\t: 1\n";

static void put_machine(const char *flags, const char *paranoid, const char *capabilities)
{
    char text[512];

    (void)snprintf(text, sizeof(text), cpuinfo, flags);
    put("/proc/cpuinfo", text);
    put("/proc/sys/kernel/perf_event_paranoid", paranoid);
    (void)snprintf(text, sizeof(text), "Name:\tx\nCapEff:\t%s\n", capabilities);
    put("/proc/self/status", text);
}

static const struct finding *find(const struct findings *findings, const char *name)
{
    static const struct finding none = {.name = "", .state = FINDING_UNKNOWN};

    for (size_t i = 0; i < findings->count; i++) {
        if (strcmp(findings->list[i].name, name) == 0)
            return &findings->list[i];
    }
    CU_FAIL("no such finding");
    return &none;
}

static void check_finding(const struct findings *findings, const char *name,
                          enum finding_state state, const char *text)
{
    const struct finding *const finding = find(findings, name);

    CU_ASSERT_EQUAL(finding->state, state);
    CU_ASSERT_PTR_NOT_NULL(strstr(finding->text, text));
}

static void put_msr(uint64_t value)
{
    static uint8_t msrs[0x485 + 8];

    memcpy(msrs + 0x485, &value, sizeof(value));
    put_bytes("/dev/cpu/0/msr", msrs, sizeof(msrs));
}

static void good_machine(void)
{
    struct findings findings;

    put_machine("intel_pt ept", "-1\n", "0000000000000000");
    put(PMU "/type", "8\n");
    put(PMU "/nr_addr_filters", "2\n");
    put(PMU "/caps/mtc", "1\n");
    put(PMU "/caps/cr3_filtering", "1\n");
    put("/sys/module/kvm/parameters/x", "");
    put("/sys/module/kvm_intel/parameters/nested", "Y\n");
    put("/sys/class/dmi/id/product_name", "A server\n");
    put_msr(1u << 14);
    machine_look(root, &findings);
    CU_ASSERT_PTR_NULL(machine_obstacle(&findings));
    check_finding(&findings, "processor", FINDING_GOOD, "family 6, model 85");
    check_finding(&findings, "rights", FINDING_GOOD, "paranoid is -1");
    check_finding(&findings, "packets", FINDING_LIMIT, "MTC");
    check_finding(&findings, "packets_missing", FINDING_LIMIT, "CYC");
    check_finding(&findings, "filters", FINDING_GOOD, "2 ranges");
    check_finding(&findings, "errata", FINDING_LIMIT, "SKZ84");
    check_finding(&findings, "machine", FINDING_GOOD, "A server");
    check_finding(&findings, "vmx", FINDING_GOOD, "is 1");
    check_finding(&findings, "kvm", FINDING_GOOD, "leaves Intel PT");
    check_finding(&findings, "nested", FINDING_LIMIT, "nested");
    check_finding(&findings, "debugfs", FINDING_LIMIT, "cannot be read");
    put_msr(0);
    put("/sys/module/kvm_intel/parameters/pt_mode", "1\n");
    machine_look(root, &findings);
    check_finding(&findings, "vmx", FINDING_LIMIT, "is 0");
    check_finding(&findings, "kvm", FINDING_LIMIT, "pt_mode is 1");
    drop("/proc");
    drop("/sys");
    drop("/dev");
}

static void bad_machine(void)
{
    struct findings findings;

    put_machine("hypervisor", "2\n", "0000000000000000");
    put("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
    put("/sys/class/dmi/id/product_name", "m5.large\n");
    machine_look(root, &findings);
    CU_ASSERT_PTR_NOT_NULL(machine_obstacle(&findings));
    check_finding(&findings, "processor", FINDING_BAD, "hypervisor");
    check_finding(&findings, "pmu", FINDING_BAD, "no PMU");
    check_finding(&findings, "rights", FINDING_BAD, "paranoid is 2");
    check_finding(&findings, "machine", FINDING_UNKNOWN, "Amazon EC2, m5.large");
    check_finding(&findings, "kvm", FINDING_LIMIT, "host alone");
    put_machine("hypervisor", "2\n", "0000004000000000"); /* CAP_PERFMON */
    machine_look(root, &findings);
    check_finding(&findings, "rights", FINDING_GOOD, "CAP_PERFMON");
    drop("/proc");
    drop("/sys");
    machine_look(root, &findings); /* nothing at all */
    CU_ASSERT_PTR_NOT_NULL(machine_obstacle(&findings));
}

/* ---- What stands in for perf ---- */

static void run_recorder(const char *script, const char *word, int want, int end)
{
    char log[96];
    char *words[] = {"sh", "-c", (char *)script, NULL};
    struct recorder recorder;
    struct reason why = {0};

    (void)snprintf(log, sizeof(log), "%s/log", root);
    CU_ASSERT_EQUAL_FATAL(recorder_start(&recorder, words, log, &why), 0);
    CU_ASSERT_EQUAL(recorder_tell(&recorder, word, 5000, &why), want);
    CU_ASSERT_EQUAL(recorder_stop(&recorder, &why), end);
    CU_ASSERT_FALSE(recorder_runs(&recorder));
    CU_ASSERT_EQUAL(why.text[0] != 0, want || end);
    if (end)
        CU_ASSERT_PTR_NOT_NULL(strstr(why.text, "the last line"));
}

static void recorders(void)
{
    /* Ended as by Ctrl-C; ended by itself; failed at once; and killed. */
    run_recorder("trap 'exit 0' INT; read w <&3; [ \"$w\" = ping ] && printf 'ack\\n' >&4; "
                 "while :; do sleep 0.1; done",
                 "ping", 0, 0);
    run_recorder("trap '' INT; read w <&3; printf 'ack\\n' >&4", "ping", 0, 0);
    run_recorder("echo the first line; echo the last line; exit 3", "ping", -EBADMSG, -EBADMSG);
    run_recorder("trap '' INT; read w <&3; printf 'ack\\n' >&4; echo the last line; kill -KILL $$",
                 "ping", 0, -EBADMSG);
    drop("/log");
}

void add_hosts_suite(void)
{
    const CU_pSuite suite = CU_add_suite("hosts that are recorded", make_root, drop_root);

    CU_add_test(suite, "two VMs of a process", two_of_a_process);
    CU_add_test(suite, "a ring that begins in a guest", begin_of_ring);
    CU_add_test(suite, "VMs by debugfs", by_debugfs);
    CU_add_test(suite, "VMs that change", changes);
    CU_add_test(suite, "VMs by /proc", by_proc);
    CU_add_test(suite, "what makes no VM", nonsense);
    CU_add_test(suite, "a map of them", to_map);
    CU_add_test(suite, "a machine that can", good_machine);
    CU_add_test(suite, "a machine that cannot", bad_machine);
    CU_add_test(suite, "a recorder", recorders);
}
