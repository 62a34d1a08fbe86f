/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records a program as `perf record --per-thread -e intel_pt//u` does, on a machine that has no
 * Intel PT: ptrace() single-steps its threads, in turn, what each executes goes to a model of its
 * own, and the packets of all become a perf.data.
 *
 *   stepped PERF.DATA LOG PROGRAM [ARGUMENT...]
 *
 * The program runs freely until it stops itself by SIGSTOP. From there on it is recorded, as by
 * `perf record --pid`. LOG gets a line "thread address executed taken" for each address at which a
 * thread executed something: how often it did, and how often a conditional branch there was taken.
 * It is what ran, and rests on no trace.
 *
 * The program may have threads and make processes. It may not receive signals (SIGCHLD is blocked
 * for it), execute another program, or run code of the vDSO, which is in no file.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ptdec.h"
#include "ptdec_perf.h"
#include "roundtrip/near.h"
#include "vpt.h"

#define KERNEL_IP   0xffffffff81000000u
#define CR3         0x1000u
#define PAGE_BYTES  4096u
#define FIRST_TSC   UINT64_C(0x100000000)
#define MTC_FREQ    3u
#define PSB_4K      1u    /* PSBFreq; what perf asks for is 16 KiB */
#define SLICE       1500u /* instructions of one thread before it is another's turn */
#define THREADS_MAX 64u
#define MAPS_MAX    256u
#define NAMES_MAX   256u
#define SITES_ROOM  (1u << 16) /* of a thread; a power of two */
#define PATH_BYTES  256
#define COMM_BYTES  16

/* An address at which a thread has executed something. */
struct site {
    struct ptd_insn insn; /* .size_bytes 0: a free place */
    uint64_t executed, taken;
};

struct thread {
    pid_t tid, pid;
    struct vpt_cpu cpu;
    struct site *sites;
    size_t site_count;
    struct site *next; /* what executes next; NULL: it has not begun */
    bool is_on;        /* tracing is enabled */
    bool is_away;      /* in a system call */
    bool is_gone;
    uint8_t *trace;
    size_t trace_bytes, trace_room;
    uint64_t first_tsc;
};

static struct {
    struct thread *threads[THREADS_MAX];
    size_t thread_count;
    uint64_t executed; /* instructions, of all threads: the clock */
    struct ptd_perf_map maps[MAPS_MAX];
    size_t map_count;
    struct ptd_perf_comm comms[NAMES_MAX];
    size_t comm_count;
    struct ptd_perf_task forks[THREADS_MAX];
    size_t fork_count;
    struct vpt_caps caps;
    uint8_t sink[PAGE_BYTES];
} recorder;

static void die(const char *why, uint64_t at)
{
    fprintf(stderr, "stepped: %s (%#" PRIx64 ")\n", why, at);
    exit(EXIT_FAILURE);
}

static char *copy_of(const char *text)
{
    char *const copy = strdup(text);

    if (!copy)
        die("no memory", 0);
    return copy;
}

static uint64_t now(void)
{
    return FIRST_TSC + recorder.executed;
}

/* ---- The model's owner ---- */

static void translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    (void)owner;
    (void)access;
    *span = (struct vpt_span){VPT_SPAN_RAM, len_bytes, recorder.sink + gpa % PAGE_BYTES};
}

static void wrote(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    struct thread *const thread = owner;

    (void)gpa;
    if (len_bytes > thread->trace_room - thread->trace_bytes) {
        const size_t room = 2 * thread->trace_room + 65536 + len_bytes;
        uint8_t *const grown = realloc(thread->trace, room);

        if (!grown)
            die("no memory", 0);
        thread->trace = grown;
        thread->trace_room = room;
    }
    memcpy(thread->trace + thread->trace_bytes, bytes, len_bytes);
    thread->trace_bytes += len_bytes;
}

static void clocks(void *owner, struct vpt_clocks *clock)
{
    (void)owner;
    vpt_clocks_from_tsc(&recorder.caps, now(), clock);
}

static const struct vpt_ops ops = {.translate = translate, .wrote = wrote, .clocks = clocks};

static const struct vpt_context user = {.cr3 = CR3, .cpl = 3, .exec_mode = VPT_EXEC_64};
static const struct vpt_context kernel = {.cr3 = CR3, .cpl = 0, .exec_mode = VPT_EXEC_64};

#define CTL                                                                                        \
    (VPT_CTL_TRACEEN | VPT_CTL_USER | VPT_CTL_BRANCHEN | VPT_CTL_TSCEN | VPT_CTL_MTCEN |           \
     (uint64_t)MTC_FREQ << VPT_CTL_MTCFREQ_SHR | (uint64_t)PSB_4K << VPT_CTL_PSBFREQ_SHR)

static void transfer(struct thread *thread, enum vpt_transfer_type type, uint64_t ip,
                     uint64_t target, const struct vpt_context *after)
{
    const struct vpt_transfer event = {.type = type, .ip = ip, .target = target, .after = *after};

    vpt_transfer(&thread->cpu, &event);
}

/* As Linux does it when a thread comes to a processor, and leaves it. */
static void trace_on(struct thread *thread)
{
    if (!thread->first_tsc)
        thread->first_tsc = now();
    if (vpt_wrmsr(&thread->cpu, VPT_MSR_CTL, CTL, KERNEL_IP, KERNEL_IP + 2) != VPT_OK)
        die("tracing cannot be enabled", 0);
    transfer(thread, VPT_IRET, KERNEL_IP, thread->next->insn.ip, &user);
    thread->is_on = true;
}

static void trace_off(struct thread *thread)
{
    if (vpt_wrmsr(&thread->cpu, VPT_MSR_CTL, 0, KERNEL_IP, KERNEL_IP + 2) != VPT_OK)
        die("tracing cannot be disabled", 0);
    thread->is_on = false;
}

/* ---- What the system tells of a process ---- */

/* A line "NAME: NUMBER" of /proc/TID/status. */
static pid_t status_of(pid_t tid, const char *name)
{
    char path[64], line[256];
    long number = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", tid);
    file = fopen(path, "re");
    while (file && number < 0 && fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            number = strtol(line + strlen(name) + 1, NULL, 10);
    }
    if (!file || number < 0)
        die("the system does not tell of a thread", (uint64_t)tid);
    fclose(file);
    return (pid_t)number;
}

static void note_comm(const struct thread *thread, uint64_t time)
{
    char path[64], name[COMM_BYTES + 1] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/comm", thread->tid);
    file = fopen(path, "re");
    if (!file || !fgets(name, sizeof(name), file) || recorder.comm_count == NAMES_MAX)
        die("a thread has no name", (uint64_t)thread->tid);
    fclose(file);
    name[strcspn(name, "\n")] = '\0';
    recorder.comms[recorder.comm_count++] = (struct ptd_perf_comm){.time = time,
                                                                   .pid = (uint32_t)thread->pid,
                                                                   .tid = (uint32_t)thread->tid,
                                                                   .name = copy_of(name)};
}

static bool is_noted(const struct ptd_perf_map *map)
{
    for (size_t i = 0; i < recorder.map_count; i++) {
        const struct ptd_perf_map *const other = &recorder.maps[i];

        if (other->pid == map->pid && other->start == map->start && other->len == map->len &&
            strcmp(other->file, map->file) == 0)
            return true;
    }
    return false;
}

/* A line of /proc/PID/maps, of code in a file. */
static void note_map(const struct thread *thread, const char *line, uint64_t time)
{
    char path[PATH_BYTES] = "", rights[5] = "";
    uint64_t end = 0;
    struct ptd_perf_map map = {.time = time, .pid = (uint32_t)thread->pid, .executable = true};

    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %255s", &map.start, &end,
               rights, &map.pgoff, path) < 5 ||
        rights[2] != 'x' || path[0] != '/')
        return;
    map.len = end - map.start;
    map.file = path;
    if (is_noted(&map))
        return;
    if (recorder.map_count == MAPS_MAX)
        die("too many maps", map.start);
    map.file = copy_of(path);
    recorder.maps[recorder.map_count++] = map;
}

static void note_maps(const struct thread *thread, uint64_t time)
{
    char path[64], line[512];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/maps", thread->pid);
    file = fopen(path, "re");
    if (!file)
        die("a process tells no maps", (uint64_t)thread->pid);
    while (fgets(line, sizeof(line), file))
        note_map(thread, line, time);
    fclose(file);
}

static uint64_t word_of(const struct thread *thread, size_t offset)
{
    errno = 0;
    const long word = ptrace(PTRACE_PEEKUSER, thread->tid, (void *)offset, NULL);

    if (errno)
        die("a thread cannot be looked at", (uint64_t)thread->tid);
    return (uint64_t)word;
}

#define REGISTER(name) offsetof(struct user_regs_struct, name)

/* What a system call may have changed. */
static void look_behind_call(const struct thread *thread)
{
    switch (word_of(thread, REGISTER(orig_rax))) {
    case SYS_mmap:
    case SYS_mprotect:
        note_maps(thread, now());
        break;
    case SYS_prctl:
        note_comm(thread, now());
        break;
    default:
        break;
    }
}

/* ---- Instructions ---- */

static void decode_at(const struct thread *thread, uint64_t ip, struct ptd_insn *insn)
{
    uint8_t bytes[15];
    const struct iovec here = {bytes, sizeof(bytes)},
                       there[] = {{(void *)(uintptr_t)ip, PAGE_BYTES - ip % PAGE_BYTES},
                                  {(void *)(uintptr_t)(ip - ip % PAGE_BYTES + PAGE_BYTES), 15}};
    const ssize_t len = process_vm_readv(thread->pid, &here, 1, there, 2, 0);

    if (len <= 0 || ptd_insn_decode(PTD_MODE_64, ip, bytes, (size_t)len, insn) != PTD_OK)
        die("no instruction", ip);
}

static struct site *site_at(struct thread *thread, uint64_t ip)
{
    for (size_t i = (size_t)(ip * 0x9e3779b97f4a7c15u >> 48);; i++) {
        struct site *const site = &thread->sites[i & (SITES_ROOM - 1)];

        if (site->insn.size_bytes && site->insn.ip == ip)
            return site;
        if (!site->insn.size_bytes) {
            if (2 * ++thread->site_count > SITES_ROOM)
                die("too much code", ip);
            decode_at(thread, ip, &site->insn);
            return site;
        }
    }
}

/* An instruction led to ip. */
static void retired(struct vpt_cpu *cpu, const struct ptd_insn *insn, uint64_t ip)
{
    if (tell_near(cpu, insn, ip))
        return;
    if (insn->iclass != PTD_INSN_OTHER)
        die("an instruction that is not understood", insn->ip);
    if (ip != insn->ip + insn->size_bytes)
        die("an instruction led elsewhere", insn->ip);
}

static bool is_syscall(const struct site *site)
{
    return site->insn.iclass == PTD_INSN_FAR;
}

/* The instruction of a thread has executed, and ip comes next. */
static void executed(struct thread *thread, uint64_t ip)
{
    struct site *const site = thread->next;

    if (site->insn.iclass == PTD_INSN_OTHER && ip == site->insn.ip)
        return; /* REP goes on */
    site->executed++;
    recorder.executed++;
    if (is_syscall(site)) {
        look_behind_call(thread);
        thread->next = site_at(thread, ip);
        return; /* its next turn begins there */
    }
    site->taken +=
        site->insn.iclass == PTD_INSN_COND && ip != site->insn.ip + site->insn.size_bytes;
    retired(&thread->cpu, &site->insn, ip);
    thread->next = site_at(thread, ip);
}

/* ---- Threads ---- */

static struct thread *thread_of(pid_t tid)
{
    for (size_t i = 0; i < recorder.thread_count; i++) {
        if (recorder.threads[i]->tid == tid)
            return recorder.threads[i];
    }
    return NULL;
}

/* It stands in front of its first instruction. */
static struct thread *begin(pid_t tid)
{
    struct thread *const thread = calloc(1, sizeof(*thread));

    if (!thread || recorder.thread_count == THREADS_MAX)
        die("too many threads", (uint64_t)tid);
    thread->sites = calloc(SITES_ROOM, sizeof(*thread->sites));
    if (!thread->sites || !vpt_init(&thread->cpu, &recorder.caps, &ops, thread))
        die("no memory", 0);
    recorder.threads[recorder.thread_count++] = thread;
    thread->tid = tid;
    thread->pid = status_of(tid, "Tgid");
    vpt_set_context(&thread->cpu, &kernel);
    vpt_wrmsr(&thread->cpu, VPT_MSR_OUTPUT_MASK_PTRS, 0xffffff, 0, 0);
    thread->next = site_at(thread, word_of(thread, REGISTER(rip)));
    return thread;
}

/* A thread that another one made; its own process, or one of the same. */
static void begin_made(pid_t tid)
{
    const struct thread *const thread = begin(tid);
    const pid_t parent = thread->pid == tid ? status_of(tid, "PPid") : thread->pid;

    recorder.forks[recorder.fork_count++] = (struct ptd_perf_task){.time = now(),
                                                                   .pid = (uint32_t)thread->pid,
                                                                   .tid = (uint32_t)tid,
                                                                   .parent_pid = (uint32_t)parent,
                                                                   .parent_tid = (uint32_t)parent};
    note_comm(thread, now());
}

static void end(struct thread *thread)
{
    thread->is_gone = true;
    if (thread->is_away) { /* its last system call has executed, and did not come back */
        thread->next->executed++;
        recorder.executed++;
    }
    if (thread->is_on)
        trace_off(thread);
}

static void go_on(struct thread *thread)
{
    if (ptrace(PTRACE_SINGLESTEP, thread->tid, NULL, NULL) != 0)
        die("a thread cannot be stepped", (uint64_t)thread->tid);
}

/* What waitpid() said. */
static void arrived(pid_t tid, int status)
{
    struct thread *const thread = thread_of(tid);

    if (thread && (WIFEXITED(status) || WIFSIGNALED(status))) {
        end(thread);
    } else if (!thread && WIFSTOPPED(status)) {
        begin_made(tid);
    } else if (thread && status >> 16) {
        go_on(thread); /* it has made another, and is still in its system call */
    } else if (thread && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP) {
        thread->is_away = false;
        executed(thread, word_of(thread, REGISTER(rip)));
    } else {
        die("a signal, or a thread of somebody else", (uint64_t)tid);
    }
}

static void step(struct thread *thread)
{
    int status;

    if (is_syscall(thread->next)) {
        transfer(thread, VPT_FAR_BRANCH, thread->next->insn.ip, KERNEL_IP, &kernel);
        trace_off(thread);
        thread->is_away = true;
        go_on(thread);
        return; /* it may wait for others */
    }
    go_on(thread);
    if (waitpid(thread->tid, &status, __WALL) != thread->tid)
        die("a thread is lost", (uint64_t)thread->tid);
    arrived(thread->tid, status);
}

static void run_slice(struct thread *thread)
{
    if (!thread->is_on)
        trace_on(thread);
    for (unsigned i = 0; i < SLICE && !thread->is_away && !thread->is_gone; i++)
        step(thread);
    if (thread->is_on) {
        transfer(thread, VPT_INTERRUPT, thread->next->insn.ip, KERNEL_IP, &kernel);
        trace_off(thread);
    }
}

/* What has come back from system calls; waits for something if wanted. False: nobody is left. */
static bool look_around(bool wait)
{
    int status;
    pid_t tid;

    while ((tid = waitpid(-1, &status, wait ? __WALL : __WALL | WNOHANG)) > 0) {
        arrived(tid, status);
        wait = false;
    }
    return tid == 0 || errno != ECHILD;
}

static void run_all(void)
{
    bool some_ran = true;

    while (look_around(!some_ran)) {
        some_ran = false;
        for (size_t i = 0; i < recorder.thread_count; i++) {
            struct thread *const thread = recorder.threads[i];

            if (thread->is_gone || thread->is_away)
                continue;
            run_slice(thread);
            some_ran = true;
        }
    }
}

/* ---- The program ---- */

static void become(char **argv)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(126);
    execv(argv[0], argv);
    _exit(127);
}

/* All on one processor: a step is two changes of who runs, and dear if they go to another one. */
static void stay_here(void)
{
    const int cpu = sched_getcpu();
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu < 0 ? 0 : (unsigned)cpu, &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
}

static void start(char **argv)
{
    const long options =
        PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL;
    const pid_t pid = fork();
    struct thread *first;
    int status;

    if (pid == 0)
        become(argv);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
        ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)options) != 0 ||
        ptrace(PTRACE_CONT, pid, NULL, NULL) != 0 || waitpid(pid, &status, 0) != pid ||
        !WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP)
        die("the program cannot be stepped", 0);
    first = begin(pid);
    note_comm(first, 0);
    note_maps(first, 0);
}

/* ---- Files ---- */

static int write_to(void *owner, const void *bytes, size_t len_bytes)
{
    return fwrite(bytes, 1, len_bytes, owner) == len_bytes ? 0 : -1;
}

static void write_perf(const char *path)
{
    FILE *const file = fopen(path, "wbe");
    struct ptd_perf_trace traces[THREADS_MAX];
    const struct ptd_perf_out out = {
        .pt = {.time_mult = 1, /* perf's nanoseconds are instructions */
               .has_time = true,
               .tsc_ctc_num = recorder.caps.tsc_num,
               .tsc_ctc_den = recorder.caps.tsc_den,
               .max_nonturbo_ratio = recorder.caps.max_nonturbo_ratio},
        .config = CTL & ~(uint64_t)(VPT_CTL_TRACEEN | VPT_CTL_USER),
        .traces = traces,
        .trace_count = recorder.thread_count,
        .maps = recorder.maps,
        .map_count = recorder.map_count,
        .comms = recorder.comms,
        .comm_count = recorder.comm_count,
        .forks = recorder.forks,
        .fork_count = recorder.fork_count,
        .write = write_to,
        .owner = file};

    for (size_t i = 0; i < recorder.thread_count; i++)
        traces[i] = (struct ptd_perf_trace){.idx = (uint32_t)i,
                                            .cpu = -1,
                                            .tid = recorder.threads[i]->tid,
                                            .reference = recorder.threads[i]->first_tsc,
                                            .bytes = recorder.threads[i]->trace,
                                            .len_bytes = recorder.threads[i]->trace_bytes};
    if (!file || ptd_perf_write(&out) != PTD_OK || fclose(file) != 0)
        die("the perf.data cannot be written", 0);
}

static void write_log(const char *path)
{
    FILE *const file = fopen(path, "we");

    for (size_t i = 0; file && i < recorder.thread_count; i++) {
        const struct thread *const thread = recorder.threads[i];

        for (size_t j = 0; j < SITES_ROOM; j++) {
            const struct site *const site = &thread->sites[j];

            if (site->executed)
                fprintf(file, "%d %" PRIx64 " %" PRIu64 " %" PRIu64 "\n", thread->tid,
                        site->insn.ip, site->executed, site->taken);
        }
    }
    if (!file || fclose(file) != 0)
        die("the log cannot be written", 0);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fputs("usage: stepped PERF.DATA LOG PROGRAM [ARGUMENT...]\n", stderr);
        return 2;
    }
    if (!vpt_profile("skylake", &recorder.caps))
        die("no such processor", 0);
    recorder.caps.choices = (struct vpt_choices){0}; /* of processors without errata */
    recorder.caps.psb_align_bytes = 0;
    stay_here();
    start(argv + 3);
    run_all();
    write_perf(argv[1]);
    write_log(argv[2]);
    printf("%" PRIu64 " instructions, %zu threads\n", recorder.executed, recorder.thread_count);
    return 0;
}
