/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this machine can record of itself and its guests with Intel PT: whether Linux has the PMU
 * and this user may use it, what the processor can do, and how KVM is set up. Everything is read;
 * only whether somebody else has the PMU is tried, with an event that is opened and closed at once.
 */
#include "record/machine.h"
#include "ptdec.h"
#include "record/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PMU           "/sys/bus/event_source/devices/intel_pt"
#define TRACEFS       "/sys/kernel/tracing/events/kvm/kvm_write_tsc_offset"
#define MSR_VMX_MISC  0x485
#define VMX_MISC_PT   (1u << 14) /* 33.5.1: Intel PT may trace in VMX operation */
#define CAP_SYS_ADMIN 21
#define CAP_PERFMON   38
#define HOLDERS_MAX   4u

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct looker {
    const char *root;
    struct findings *findings;
    char vendor[16];
    unsigned family, model, stepping;
    bool in_guest; /* of another hypervisor */
    bool has_vmx, has_pmu, may_record;
};

__attribute__((format(printf, 4, 5))) static void
say(struct looker *looker, const char *name, enum finding_state state, const char *format, ...)
{
    struct findings *const findings = looker->findings;
    struct finding *finding;
    va_list arguments;

    if (findings->count == FINDINGS_MAX)
        return;
    finding = &findings->list[findings->count++];
    finding->name = name;
    finding->state = state;
    va_start(arguments, format);
    (void)vsnprintf(finding->text, sizeof(finding->text), format, arguments);
    va_end(arguments);
}

/* ---- The processor ---- */

/* The value of a line "NAME<blanks>: VALUE" of the first processor; NULL: there is none. */
static const char *line_of(const char *text, const char *name)
{
    const size_t len = strlen(name);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) != 0 ||
            (line[len] != '\t' && line[len] != ':' && line[len] != ' '))
            continue;
        line += len + strspn(line + len, " \t");
        return *line == ':' ? line + 1 + strspn(line + 1, " ") : NULL;
    }
    return NULL;
}

static unsigned number_of(const char *text, const char *name)
{
    const char *const value = line_of(text, name);

    return value ? (unsigned)strtoul(value, NULL, 10) : 0;
}

static bool has_flag(const char *flags, const char *flag)
{
    const size_t len = strlen(flag), line = flags ? strcspn(flags, "\n") : 0;

    for (size_t at = 0; at + len <= line;) {
        const size_t word = strcspn(flags + at, " \n");

        if (word == len && strncmp(flags + at, flag, len) == 0)
            return true;
        at += word + 1;
    }
    return false;
}

static void look_at_processor(struct looker *looker)
{
    char text[2 * PROC_TEXT_BYTES];
    const char *vendor, *flags;

    if (proc_text(text, sizeof(text), looker->root, "/proc/cpuinfo") <= 0) {
        say(looker, "processor", FINDING_UNKNOWN, "/proc/cpuinfo cannot be read.");
        return;
    }
    vendor = line_of(text, "vendor_id");
    flags = line_of(text, "flags");
    if (vendor)
        (void)snprintf(looker->vendor, sizeof(looker->vendor), "%.*s", (int)strcspn(vendor, "\n"),
                       vendor);
    looker->family = number_of(text, "cpu family");
    looker->model = number_of(text, "model");
    looker->stepping = number_of(text, "stepping");
    looker->in_guest = has_flag(flags, "hypervisor");
    looker->has_vmx = has_flag(flags, "vmx");
    if (!has_flag(flags, "intel_pt"))
        say(looker, "processor", FINDING_BAD,
            "The processor (%s, family %u, model %u) has no Intel PT%s.", looker->vendor,
            looker->family, looker->model,
            looker->in_guest ? ", or the hypervisor that it belongs to keeps it for itself" : "");
    else
        say(looker, "processor", FINDING_GOOD,
            "The processor (%s, family %u, model %u) has Intel PT.", looker->vendor, looker->family,
            looker->model);
}

static void look_at_errata(struct looker *looker)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {
        {PTD_BDM64, "BDM64"},   {PTD_BDM70, "BDM70"},   {PTD_SKD007, "SKD007"},
        {PTD_SKD010, "SKD010"}, {PTD_SKD022, "SKD022"}, {PTD_SKL014, "SKL014"},
        {PTD_SKL168, "SKL168"}, {PTD_SKZ84, "SKZ84"},   {PTD_APL11, "APL11"},
        {PTD_APL12, "APL12"},
    };
    const uint32_t errata = ptd_errata(looker->family, looker->model);
    char list[128] = "";

    if (strcmp(looker->vendor, "GenuineIntel") != 0)
        return;
    for (size_t i = 0; i < COUNT(names); i++) {
        if (errata & names[i].bit)
            (void)snprintf(list + strlen(list), sizeof(list) - strlen(list), " %s", names[i].name);
    }
    if (errata)
        say(looker, "errata", FINDING_LIMIT,
            "This model has errata of Intel PT that the decoder knows and tolerates:%s.", list);
    else
        say(looker, "errata", FINDING_GOOD, "No errata of Intel PT are known of this model.");
}

/* Of a maker and product that firmware tells, which clouds fill in. */
static void look_at_machine(struct looker *looker)
{
    char maker[64] = "", product[64] = "";
    const char *root = looker->root;

    (void)proc_text(maker, sizeof(maker), root, "/sys/class/dmi/id/sys_vendor");
    (void)proc_text(product, sizeof(product), root, "/sys/class/dmi/id/product_name");
    if (!looker->in_guest)
        say(looker, "machine", FINDING_GOOD, "This is a machine of its own%s%s, not a VM.",
            product[0] ? ": " : "", product);
    else
        say(looker, "machine", looker->has_pmu ? FINDING_LIMIT : FINDING_UNKNOWN,
            "This machine is a VM itself%s%s%s%s%s. %s", maker[0] ? " (" : "", maker,
            product[0] ? ", " : "", product, maker[0] ? ")" : "",
            looker->has_pmu ? "It was given Intel PT; what its own guests run is traced only if "
                              "that holds in VMX operation as well."
                            : "Clouds give Intel PT to instances of bare metal only.");
}

/* ---- Linux ---- */

static void look_at_pmu(struct looker *looker)
{
    looker->has_pmu = proc_exists(looker->root, PMU "/type");
    if (looker->has_pmu)
        say(looker, "pmu", FINDING_GOOD, "Linux has the PMU intel_pt.");
    else
        say(looker, "pmu", FINDING_BAD,
            "Linux has no PMU intel_pt: there is no " PMU ". Either the processor has none, or "
            "the kernel was built without it, or firmware uses it.");
}

static bool has_capability(const struct looker *looker, unsigned which)
{
    char text[PROC_TEXT_BYTES];
    const char *value;

    if (proc_text(text, sizeof(text), looker->root, "/proc/self/status") <= 0)
        return false;
    value = line_of(text, "CapEff");
    return value && strtoull(value, NULL, 16) >> which & 1;
}

static void look_at_rights(struct looker *looker)
{
    const bool perfmon =
        has_capability(looker, CAP_PERFMON) || has_capability(looker, CAP_SYS_ADMIN);
    char text[32] = "";
    long paranoid;

    if (proc_text(text, sizeof(text), looker->root, "/proc/sys/kernel/perf_event_paranoid") <= 0) {
        say(looker, "rights", FINDING_BAD, "Linux was built without perf events.");
        return;
    }
    paranoid = strtol(text, NULL, 10);
    looker->may_record = perfmon || paranoid < 0;
    if (perfmon)
        say(looker, "rights", FINDING_GOOD, "You may record the whole host (CAP_PERFMON).");
    else if (looker->may_record)
        say(looker, "rights", FINDING_GOOD,
            "You may record the whole host: perf_event_paranoid is %ld.", paranoid);
    else
        say(looker, "rights", FINDING_BAD,
            "You may not record the whole host: perf_event_paranoid is %ld, and you have no "
            "CAP_PERFMON. Be root, or set perf_event_paranoid to -1.",
            paranoid);
}

static uint64_t capability_of_pmu(const struct looker *looker, const char *name)
{
    uint64_t value = 0;

    (void)proc_number(&value, looker->root, PMU "/caps/%s", name);
    return value;
}

static void look_at_packets(struct looker *looker)
{
    static const struct {
        const char *name, *text;
    } kinds[] = {
        {"mtc", "MTC (times between TSC packets)"},
        {"psb_cyc", "CYC (cycles)"},
        {"ptwrite", "PTWRITE"},
        {"power_event_trace", "power events"},
        {"event_trace", "event trace (interrupts, VM exits and their reasons)"},
        {"tnt_disable", "TNT disable"},
    };
    char has[256] = "", lacks[256] = "";

    if (!looker->has_pmu)
        return;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        char *const list = capability_of_pmu(looker, kinds[i].name) ? has : lacks;

        (void)snprintf(list + strlen(list), sizeof(has) - strlen(list), "%s%s", list[0] ? ", " : "",
                       kinds[i].text);
    }
    say(looker, "packets", lacks[0] ? FINDING_LIMIT : FINDING_GOOD,
        "Packets beyond the first ones: %s.", has[0] ? has : "none");
    if (lacks[0])
        say(looker, "packets_missing", FINDING_LIMIT, "It cannot do: %s.", lacks);
}

static void look_at_filters(struct looker *looker)
{
    uint64_t filters = 0;

    if (!looker->has_pmu)
        return;
    (void)proc_number(&filters, looker->root, PMU "/nr_addr_filters");
    if (filters)
        say(looker, "filters", FINDING_GOOD,
            "%" PRIu64 " ranges of addresses can be filtered by; CR3 %s.", filters,
            capability_of_pmu(looker, "cr3_filtering") ? "can, too" : "cannot");
    else
        say(looker, "filters", FINDING_LIMIT, "Ranges of addresses cannot be filtered by.");
}

/* ---- Who else uses it ---- */

/* Processes that have any event of perf, since Linux tells no more of somebody else's. */
static void list_holders(const struct looker *looker, char *list, size_t list_bytes)
{
    struct proc_ids processes;
    unsigned listed = 0;
    char comm[32];

    list[0] = 0;
    if (proc_ids(&processes, looker->root, "/proc") != 0)
        return;
    for (size_t i = 0; i < processes.count && listed < HOLDERS_MAX; i++) {
        const uint32_t pid = processes.list[i];

        if ((pid_t)pid == getpid() ||
            !proc_descriptors(looker->root, pid, "anon_inode:[perf_event]"))
            continue;
        if (proc_text(comm, sizeof(comm), looker->root, "/proc/%u/comm", pid) <= 0)
            (void)snprintf(comm, sizeof(comm), "?");
        (void)snprintf(list + strlen(list), list_bytes - strlen(list), "%s%s (%u)",
                       listed ? ", " : "", comm, pid);
        listed++;
    }
    proc_ids_free(&processes);
}

/* Opens an event that does nothing on a CPU, as a recording of the host does. 0 or -errno. */
static int try_pmu(const struct looker *looker, int cpu)
{
    struct perf_event_attr attr = {.size = sizeof(attr), .disabled = 1};
    uint64_t type = 0;
    long fd;

    if (proc_number(&type, looker->root, PMU "/type") != 0)
        return -ENOENT;
    attr.type = (uint32_t)type;
    fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return -errno;
    (void)close((int)fd);
    return 0;
}

static void look_for_others(struct looker *looker)
{
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    char holders[160];
    int error = 0;

    if (!looker->has_pmu || !looker->may_record || looker->root[0])
        return;
    for (int cpu = 0; !error && cpu < cpus; cpu++)
        error = try_pmu(looker, cpu);
    if (error == -EBUSY) {
        list_holders(looker, holders, sizeof(holders));
        say(looker, "busy", FINDING_BAD,
            "Somebody else records with Intel PT, or with BTS or LBR, which exclude it. These "
            "have events of perf: %s.",
            holders[0] ? holders : "no process that you may look at");
    } else if (error && error != -ENODEV) { /* no such CPU: they need not be numbered in a row */
        say(looker, "busy", FINDING_BAD, "An event of Intel PT cannot be opened: %s.",
            strerror(-error));
    } else {
        say(looker, "busy", FINDING_GOOD, "Nobody else records with Intel PT now.");
    }
}

/* ---- KVM ---- */

/* VMX_MISC[14] says whether guests can be traced at all (33.5.1). */
static void look_at_vmx_misc(struct looker *looker)
{
    char path[PATH_MAX];
    uint64_t value = 0;
    int fd;

    if (!looker->has_vmx)
        return;
    (void)snprintf(path, sizeof(path), "%s/dev/cpu/0/msr", looker->root);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, &value, sizeof(value), MSR_VMX_MISC) != sizeof(value))
        say(looker, "vmx", FINDING_UNKNOWN,
            "Whether guests can be traced is in IA32_VMX_MISC[14], which cannot be read: as "
            "root, after 'modprobe msr'. It is 0 on Broadwell and 1 on later models.");
    else if (value & VMX_MISC_PT)
        say(looker, "vmx", FINDING_GOOD,
            "IA32_VMX_MISC[14] is 1: tracing goes on in VMX operation, guests included.");
    else
        say(looker, "vmx", FINDING_LIMIT,
            "IA32_VMX_MISC[14] is 0: nothing is traced while KVM uses VMX on a processor, neither "
            "guests nor the host.");
    if (fd >= 0)
        (void)close(fd);
}

static void look_at_kvm(struct looker *looker)
{
    char text[16];
    uint64_t mode = 0;

    if (!proc_exists(looker->root, "/sys/module/kvm")) {
        say(looker, "kvm", FINDING_LIMIT, "KVM is not there: the host alone can be recorded.");
        return;
    }
    if (proc_number(&mode, looker->root, "/sys/module/kvm_intel/parameters/pt_mode") == 0 && mode)
        say(looker, "kvm", FINDING_LIMIT,
            "kvm_intel's pt_mode is 1: it gives Intel PT to its guests, and the host's trace "
            "stops whenever a guest runs. Load kvm_intel with pt_mode=0.");
    else if (proc_exists(looker->root, "/sys/module/kvm_intel"))
        say(looker, "kvm", FINDING_GOOD,
            "kvm_intel leaves Intel PT to the host, so that guests are traced along with it.");
    else
        say(looker, "kvm", FINDING_LIMIT, "kvm_intel is not loaded, so no guest runs in VMX.");
    if (proc_text(text, sizeof(text), looker->root, "/sys/module/kvm_intel/parameters/nested") >
            0 &&
        (text[0] == 'Y' || text[0] == '1'))
        say(looker, "nested", FINDING_LIMIT,
            "Guests may have guests (nested). What those run is told of the guest whose thread "
            "runs them.");
}

static void look_at_side(struct looker *looker)
{
    const char *const root = looker->root;

    if (proc_exists(root, "/sys/kernel/debug/kvm"))
        say(looker, "debugfs", FINDING_GOOD,
            "KVM's debugfs tells VMs, their threads and how their TSCs differ.");
    else
        say(looker, "debugfs", FINDING_LIMIT,
            "KVM's debugfs cannot be read: threads of VMs are found by the names that QEMU gives "
            "them, and guests have no times of their own. As root: mount -t debugfs debugfs "
            "/sys/kernel/debug");
    if (proc_exists(root, TRACEFS))
        say(looker, "tracefs", FINDING_GOOD,
            "The tracepoint kvm_write_tsc_offset tells each change of a guest's TSC.");
    else
        say(looker, "tracefs", FINDING_LIMIT,
            "The tracepoint kvm_write_tsc_offset cannot be used: a change of a guest's TSC is "
            "seen some tenths of a second late.");
    if (proc_exists(root, "/proc/kcore"))
        say(looker, "kcore", FINDING_GOOD, "The kernel's code can be copied (/proc/kcore).");
    else
        say(looker, "kcore", FINDING_LIMIT,
            "There is no /proc/kcore: the kernel's code has to come from --vmlinux.");
}

void machine_look(const char *root, struct findings *findings)
{
    struct looker looker = {.root = root, .findings = findings};

    findings->count = 0;
    look_at_processor(&looker);
    look_at_pmu(&looker);
    look_at_rights(&looker);
    look_for_others(&looker);
    look_at_packets(&looker);
    look_at_filters(&looker);
    look_at_errata(&looker);
    look_at_machine(&looker);
    look_at_vmx_misc(&looker);
    look_at_kvm(&looker);
    look_at_side(&looker);
}

const struct finding *machine_obstacle(const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (findings->list[i].state == FINDING_BAD)
            return &findings->list[i];
    }
    return NULL;
}

const char *finding_word(enum finding_state state)
{
    static const char *const words[] = {
        [FINDING_GOOD] = "good",
        [FINDING_LIMIT] = "limit",
        [FINDING_BAD] = "bad",
        [FINDING_UNKNOWN] = "unknown",
    };

    return words[state];
}
