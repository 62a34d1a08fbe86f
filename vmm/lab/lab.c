/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lab: a full KVM on any machine. Stock QEMU emulates a processor with SVM, Debian's kernel
 * boots on it with kvm-amd, and this same program runs the image there as it would here. The second
 * machine has VMX, which only the QEMU of `make qemu` has, and kvm_intel.
 *
 * Nothing is written to disk: the initial file system and the result travel in anonymous files.
 */
#include "lab/lab.h"
#include "common/bytes.h"
#include "common/data.h"
#include "common/file.h"
#include "common/progress.h"
#include "common/cpio.h"
#include "run/record.h"
#include "run/run.h"
#include "trace/clock.h"
#include "trace/rtit-trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QEMU         "qemu-system-x86_64"
#define CPU_SVM      "EPYC,+svm,+npt"
#define CPU_VMX      "max,vendor=GenuineIntel,+vmx"
#define RESULT_BYTES (1ull << 30)
#define SAVED_BYTES  (2 * RESULT_BYTES) /* besides guest memory */
#define BOOT_S       120                /* what the lab may take beyond the guest's own time-out */
#define HOST_MEM     (512ull << 20)
/* QEMU's drives, in their order. */
#define RESULT_DEVICE "/dev/vda"
#define SAVED_DEVICE  "/dev/vdb"
#define START_MARK    "--- vpt lab ---"
#define END_MARK      "--- vpt lab end ---"

/*
 * tsc=reliable: on a busy host, Linux's watchdog takes TCG's TSC for unstable, and its KVM then
 * gives the guest another TSC than the one that the model reads.
 *
 * mitigations=off: an emulated processor does not speculate. With page tables of its own for the
 * kernel, each way in and out of it would have TCG forget all translations.
 */
#define KERNEL_WORDS "console=ttyS0 quiet loglevel=1 panic=-1 tsc=reliable mitigations=off"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define MODE_DIR  (S_IFDIR | 0755)
#define MODE_EXEC (S_IFREG | 0755)
#define MODE_FILE (S_IFREG | 0644)

struct lab {
    const struct run_options *options;
    struct run_result *result;
    struct bytes initrd;
    char dir[PATH_MAX];
    int initrd_fd, result_fd, saved_fd, console_fd, errors_fd;
    pid_t qemu;
};

static int fail(struct lab *lab, int error, const char *what, const char *reason)
{
    snprintf(lab->result->why, sizeof(lab->result->why), "%.150s: %.100s", what, reason);
    return error;
}

/* ---- The initial file system ---- */

static int add_host_file(struct lab *lab, const char *path, const char *name, uint32_t mode)
{
    struct bytes file = {0};
    int error = read_file(path, &file);

    if (error)
        error = fail(lab, error, path, strerror(-error));
    else if (!cpio_add(&lab->initrd, name, mode, file.data, file.len))
        error = fail(lab, -ENOMEM, path, "no memory");
    bytes_free(&file);
    return error;
}

/* Called for this program (no name), the vDSO (no path) and each shared library. */
static int add_library(struct dl_phdr_info *info, size_t size, void *context)
{
    struct lab *lab = context;
    const char *path = info->dlpi_name, *base = strrchr(path, '/');
    char name[PATH_MAX];

    (void)size;
    if (!base)
        return 0;
    /* The program names its interpreter by this path. */
    snprintf(name, sizeof(name), "%s%s", strncmp(base, "/ld-", 4) == 0 ? "lib64" : "lib", base);
    return add_host_file(lab, path, name, MODE_EXEC);
}

static int add_program(struct lab *lab)
{
    const int error = add_host_file(lab, "/proc/self/exe", "vpt", MODE_EXEC);

    return error ? error : dl_iterate_phdr(add_library, lab);
}

/*
 * KVM takes over what Linux knows of the TSC's rate when its modules are loaded, and Linux measures
 * that better a second later. If the two differ by 250 ppm, as on a busy host, KVM wants to scale
 * its guests' TSC, which SVM in TCG cannot: then their TSC stands still where KVM tells it. So the
 * modules wait for that second.
 */
#define CLOCK_FILE "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define AWAIT_CLOCK                                                                                \
    "tries=0\n"                                                                                    \
    "until read -r clock < " CLOCK_FILE " && [ $clock = tsc ] || [ $tries = 100 ]; do"             \
    " $bb sleep 0.05; tries=$((tries + 1)); done\n"

static bool add_job(struct lab *lab)
{
    char script[4096];
    int len;

    len = snprintf(script, sizeof(script),
                   "#!/bin/busybox sh\n"
                   "bb=/bin/busybox\n"
                   "$bb mkdir -p /dev /proc /sys\n"
                   "$bb mount -t devtmpfs dev /dev\n"
                   "$bb mount -t proc proc /proc\n"
                   "$bb mount -t sysfs sys /sys\n" AWAIT_CLOCK
                   "while read -r module; do [ $module != kvm-amd.ko ] || module=%s;"
                   " $bb insmod /modules/$module || echo \"$module failed\";"
                   " done < /modules/order\n"
                   "$bb stty -onlcr < /dev/console\n"
                   "echo '" START_MARK "'\n"
                   "export LD_LIBRARY_PATH=/lib\n"
                   "$bb xargs -0 /vpt < /arguments\n"
                   "echo '" END_MARK "'\n"
                   "$bb sync\n"
                   "$bb poweroff -f\n",
                   lab->options->lab_vmx ? "kvm-intel.ko" : "kvm-amd.ko");
    if (!cpio_add(&lab->initrd, "init", MODE_EXEC, script, (size_t)len))
        return false;
    return true;
}

static bool add_words(struct bytes *arguments, const char *const *words, size_t count)
{
    bool ok = true;

    for (size_t i = 0; i < count; i++)
        ok = ok && bytes_add(arguments, words[i], strlen(words[i]) + 1);
    return ok;
}

/* How the lab's vpt is called: as this one was, with the lab's names for files. */
static bool add_arguments(struct lab *lab)
{
    const struct run_options *options = lab->options;
    struct bytes arguments = {0};
    char mem[32], cpus[32], absent[64], timeout[32], errata[32], save_after[32], tsc_khz[32];
    const char *const always[] = {"run",
                                  "--record-to",
                                  RESULT_DEVICE,
                                  "--profile",
                                  options->profile,
                                  "--mem",
                                  mem,
                                  "--cpus",
                                  cpus,
                                  "--timeout",
                                  timeout,
                                  "--rtit-errata",
                                  errata,
                                  "--append",
                                  options->append ? options->append : "",
                                  options->keep_path ? "--verify" : "--no-verify"};
    const char *const absent_words[] = {"--absent", absent};
    const char *const tsc_words[] = {"--tsc-khz", tsc_khz};
    const char *const save_words[] = {"--save-to", SAVED_DEVICE, "--save-after", save_after};
    const char *const restore_words[] = {"--restore", "/restore"};
    const char *const image[] = {"/image"};
    bool ok;

    snprintf(mem, sizeof(mem), "%llu", (unsigned long long)options->mem_bytes);
    snprintf(cpus, sizeof(cpus), "%u", options->cpus);
    snprintf(absent, sizeof(absent), "%llu:%llu", (unsigned long long)options->absent_gpa,
             (unsigned long long)options->absent_bytes);
    snprintf(timeout, sizeof(timeout), "%u", options->timeout_s);
    rtit_errata_format(options->rtit_errata, errata, sizeof(errata));
    snprintf(save_after, sizeof(save_after), "%llu", (unsigned long long)options->save_after);
    snprintf(tsc_khz, sizeof(tsc_khz), "%u", options->tsc_khz);
    ok = add_words(&arguments, always, COUNT(always));
    if (options->tsc_khz)
        ok = ok && add_words(&arguments, tsc_words, COUNT(tsc_words));
    if (options->absent_bytes)
        ok = ok && add_words(&arguments, absent_words, COUNT(absent_words));
    if (options->save_to)
        ok = ok && add_words(&arguments, save_words, COUNT(save_words));
    if (options->restore)
        ok = ok && add_words(&arguments, restore_words, COUNT(restore_words));
    ok = ok && add_words(&arguments, image, COUNT(image)) &&
         cpio_add(&lab->initrd, "arguments", MODE_FILE, arguments.data, arguments.len);
    bytes_free(&arguments);
    return ok;
}

/* What the user has to do first: from a source tree, or with what was installed. */
static int not_prepared(struct lab *lab, int error)
{
    char how[sizeof(lab->result->why) - 40];

    data_how("lab", "vmm/lab/prepare.sh", lab->dir, how, sizeof(how));
    snprintf(lab->result->why, sizeof(lab->result->why), "the lab is not prepared; run: %s", how);
    return error;
}

static int build_initrd(struct lab *lab)
{
    char path[PATH_MAX + 32];
    int error;

    snprintf(path, sizeof(path), "%s/base.cpio", lab->dir);
    error = read_file(path, &lab->initrd);
    if (error)
        return not_prepared(lab, error);
    if (!cpio_add(&lab->initrd, "lib", MODE_DIR, NULL, 0) ||
        !cpio_add(&lab->initrd, "lib64", MODE_DIR, NULL, 0) || !add_job(lab) || !add_arguments(lab))
        return fail(lab, -ENOMEM, "lab", "no memory");
    error = add_program(lab);
    if (!error)
        error = add_host_file(lab, lab->options->image, "image", MODE_FILE);
    if (!error && lab->options->restore)
        error = add_host_file(lab, lab->options->restore, "restore", MODE_FILE);
    if (!error && !cpio_end(&lab->initrd))
        error = fail(lab, -ENOMEM, "lab", "no memory");
    return error;
}

/* ---- QEMU ---- */

static int anonymous_files(struct lab *lab)
{
    size_t done = 0;

    lab->initrd_fd = memfd_create("vpt-initrd", 0);
    lab->result_fd = memfd_create("vpt-result", 0);
    lab->saved_fd = memfd_create("vpt-saved", 0);
    lab->errors_fd = memfd_create("vpt-errors", 0);
    if (lab->initrd_fd < 0 || lab->result_fd < 0 || lab->saved_fd < 0 || lab->errors_fd < 0 ||
        ftruncate(lab->result_fd, RESULT_BYTES) < 0 ||
        ftruncate(lab->saved_fd, (off_t)(SAVED_BYTES + 2 * lab->options->mem_bytes)) < 0)
        return fail(lab, -errno, "lab", strerror(errno));
    while (done < lab->initrd.len) {
        const ssize_t n = write(lab->initrd_fd, lab->initrd.data + done, lab->initrd.len - done);

        if (n <= 0)
            return fail(lab, -errno, "lab", strerror(errno));
        done += (size_t)n;
    }
    return 0;
}

/*
 * Memory for the guest, and for what holds a copy of it: a saved guest is unpacked from the initial
 * file system and read; one that is to be saved is put into an archive.
 */
static uint64_t lab_memory(const struct lab *lab)
{
    const uint64_t guest = lab->options->mem_bytes;

    return HOST_MEM + guest + 3 * lab->initrd.len + (lab->options->save_to ? 2 * guest : 0);
}

static void name_drive(char *text, size_t text_bytes, int fd)
{
    snprintf(text, text_bytes, "file=/proc/self/fd/%d,format=raw,if=virtio,file.locking=off", fd);
}

static const char *qemu_of(const struct run_options *options)
{
    return options->lab_vmx ? options->lab_qemu : QEMU;
}

static void exec_qemu(struct lab *lab, int console, pid_t parent)
{
    char kernel[PATH_MAX + 32], initrd[64], result[128], saved[128], mem[32];
    char *arguments[] = {(char *)qemu_of(lab->options),
                         (char *)"-L", /* none of them is in the folder of one that was built */
                         (char *)"/usr/share/seabios",
                         (char *)"-L",
                         (char *)"/usr/share/qemu",
                         (char *)"-accel",
                         (char *)"tcg",
                         (char *)"-cpu",
                         (char *)(lab->options->lab_vmx ? CPU_VMX : CPU_SVM),
                         (char *)"-m",
                         mem,
                         (char *)"-nodefaults",
                         (char *)"-no-reboot",
                         (char *)"-display",
                         (char *)"none",
                         (char *)"-serial",
                         (char *)"stdio",
                         (char *)"-kernel",
                         kernel,
                         (char *)"-initrd",
                         initrd,
                         (char *)"-drive",
                         result,
                         (char *)"-drive",
                         saved,
                         (char *)"-append",
                         (char *)KERNEL_WORDS,
                         NULL};
    const int null = open("/dev/null", O_RDWR);

    snprintf(kernel, sizeof(kernel), "%s/vmlinuz", lab->dir);
    snprintf(initrd, sizeof(initrd), "/proc/self/fd/%d", lab->initrd_fd);
    name_drive(result, sizeof(result), lab->result_fd);
    name_drive(saved, sizeof(saved), lab->saved_fd);
    snprintf(mem, sizeof(mem), "%llu", (unsigned long long)lab_memory(lab) >> 20);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127); /* it died before that */
    dup2(null, STDIN_FILENO);
    dup2(console, STDOUT_FILENO);
    dup2(lab->errors_fd, STDERR_FILENO);
    execvp(arguments[0], arguments);
    _exit(127);
}

static int start_qemu(struct lab *lab)
{
    const pid_t parent = getpid();
    int pipe_fd[2];

    if (pipe2(pipe_fd, O_CLOEXEC) < 0)
        return fail(lab, -errno, "lab", strerror(errno));
    fflush(NULL);
    lab->qemu = fork();
    if (lab->qemu < 0)
        return fail(lab, -errno, "lab", strerror(errno));
    if (lab->qemu == 0)
        exec_qemu(lab, pipe_fd[1], parent);
    close(pipe_fd[1]);
    lab->console_fd = pipe_fd[0];
    return 0;
}

/* ---- The console, between the marks ---- */

struct console {
    FILE *to;
    bool begun, ended;
    size_t len;
    char line[1024];
};

static void line_done(struct console *console)
{
    console->line[console->len] = 0;
    if (!console->begun)
        console->begun = strcmp(console->line, START_MARK "\n") == 0;
    else if (strcmp(console->line, END_MARK "\n") == 0)
        console->ended = true;
    else if (!console->ended) {
        progress_clear();
        fputs(console->line, console->to);
    }
    console->len = 0;
}

static void pass_on(struct console *console, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\r')
            continue;
        console->line[console->len++] = text[i];
        if (text[i] == '\n' || console->len == sizeof(console->line) - 1)
            line_done(console);
    }
    fflush(console->to);
}

static int watch(struct lab *lab)
{
    struct console console = {.to = lab->options->json ? stderr : stdout};
    struct pollfd poll_fd = {.fd = lab->console_fd, .events = POLLIN};
    struct timespec now;
    char text[4096];
    time_t begin, deadline;

    clock_gettime(CLOCK_MONOTONIC, &now);
    begin = now.tv_sec;
    deadline = begin + BOOT_S + lab->options->timeout_s;
    for (;;) {
        ssize_t n;

        clock_gettime(CLOCK_MONOTONIC, &now);
        if (lab->options->timeout_s && now.tv_sec >= deadline)
            return fail(lab, -ETIMEDOUT, "lab", "QEMU did not end in time");
        progress_say("%lld s in the lab", (long long)(now.tv_sec - begin));
        if (poll(&poll_fd, 1, 1000) <= 0)
            continue;
        n = read(lab->console_fd, text, sizeof(text));
        if (n <= 0)
            return 0;
        pass_on(&console, text, (size_t)n);
    }
}

/* The guest that the lab's vpt saved to its drive becomes the file that was asked for. */
static int keep_saved(struct lab *lab)
{
    const char *path = lab->options->save_to, *name;
    struct bytes drive = {0};
    const uint8_t *data;
    size_t len, pos = 0;
    struct stat stat;
    int error, more;

    if (fstat(lab->saved_fd, &stat) < 0)
        return fail(lab, -errno, "lab", strerror(errno));
    drive.len = (size_t)stat.st_size;
    drive.data = mmap(NULL, drive.len, PROT_READ, MAP_SHARED, lab->saved_fd, 0);
    if (drive.data == MAP_FAILED)
        return fail(lab, -errno, "lab", strerror(errno));
    do {
        more = cpio_next(&drive, &pos, &name, &data, &len);
    } while (more > 0);
    if (more < 0)
        error = fail(lab, more, "lab", "no saved guest came back");
    else if ((error = write_file(path, drive.data, pos)) != 0)
        error = fail(lab, error, path, strerror(-error));
    munmap(drive.data, drive.len);
    return error;
}

static int finish(struct lab *lab)
{
    char text[512];
    int status = 0, error = watch(lab);

    if (error)
        kill(lab->qemu, SIGKILL);
    waitpid(lab->qemu, &status, 0);
    lab->qemu = 0;
    if (error)
        return error;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return fail(lab, -ENOENT, qemu_of(lab->options), "not installed");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return fail(lab, -EIO, qemu_of(lab->options),
                    last_line(lab->errors_fd, text, sizeof(text)) ? text : "ended with an error");
    error = record_read(lab->result_fd, lab->result);
    if (error)
        return fail(lab, error, "lab", "no result came back");
    return lab->result->saved ? keep_saved(lab) : 0;
}

void lab_run(const struct run_options *options, struct run_result *result)
{
    struct lab lab = {.options = options,
                      .result = result,
                      .initrd_fd = -1,
                      .result_fd = -1,
                      .saved_fd = -1,
                      .console_fd = -1,
                      .errors_fd = -1};
    struct timespec start, end;
    int error;

    clock_gettime(CLOCK_MONOTONIC, &start);
    data_cache("lab", lab.dir, sizeof(lab.dir));
    error = build_initrd(&lab);
    if (!error)
        error = anonymous_files(&lab);
    if (!error)
        error = start_qemu(&lab);
    if (!error)
        error = finish(&lab);
    if (error && result->end == RUN_DONE)
        result->end = error == -ETIMEDOUT ? RUN_TIMED_OUT : RUN_HOST;
    clock_gettime(CLOCK_MONOTONIC, &end);
    result->seconds =
        (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
    if (lab.initrd_fd >= 0)
        close(lab.initrd_fd);
    if (lab.result_fd >= 0)
        close(lab.result_fd);
    if (lab.saved_fd >= 0)
        close(lab.saved_fd);
    if (lab.errors_fd >= 0)
        close(lab.errors_fd);
    if (lab.console_fd >= 0)
        close(lab.console_fd);
    bytes_free(&lab.initrd);
}
