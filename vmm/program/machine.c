/* SPDX-License-Identifier: BSD-3-Clause */
#include "program/machine.h"
#include "program/wire.h"
#include "common/bytes.h"
#include "common/cpio.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGUMENTS_MAX 64u
#define END_TURNS     500 /* of 10 ms */
#define TURN_NS       10000000

/*
 * tsc=reliable and no_timer_check: on a busy host Linux takes the time of an emulated processor for
 * wrong. mitigations=off: such a processor does not speculate. The kernel is at the addresses that
 * it was linked for, since nothing unpacks it.
 */
#define KERNEL_WORDS                                                                               \
    "console=ttyS0 quiet loglevel=1 panic=-1 no_timer_check tsc=reliable mitigations=off "         \
    "8250.nr_uarts=1"

/*
 * CMPXCHG16B of QEMU 7.2 spoils flags. Page tables of five levels would make each walk of them
 * longer.
 */
#define CPU "max,-cx16,-la57,vendor=GenuineIntel,vpt-profile="

#define KERNEL_WORDS_WITHOUT_VDSO KERNEL_WORDS " vdso=0"

#define AGENT_MODE (S_IFREG | 0755)

/* agent-image.S */
extern const unsigned char agent_image[];
extern const size_t agent_image_bytes;

/* ---- Files that are none ---- */

static int write_whole(int fd, const struct bytes *bytes)
{
    for (size_t done = 0; done < bytes->len;) {
        const ssize_t n = write(fd, bytes->data + done, bytes->len - done);

        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        done += (size_t)n;
    }
    return 0;
}

/* Modules, as prepared, and the first process. */
static int make_initrd(struct machine *machine, const char *folder, struct reason *why)
{
    char path[PATH_MAX + 16];
    struct bytes archive = {0};
    int error;

    (void)snprintf(path, sizeof(path), "%s/base.cpio", folder);
    error = read_file(path, &archive);
    if (error)
        return reason_of_file(why, error, path);
    if (!cpio_add(&archive, "init", AGENT_MODE, agent_image, agent_image_bytes) ||
        !cpio_end(&archive))
        error = reason_no_memory(why);
    if (!error)
        error = write_whole(machine->initrd, &archive);
    if (error && !*why->text)
        error = reason_of_file(why, error, "the guest's initial file system");
    bytes_free(&archive);
    return error;
}

static int make_files(struct machine *machine, const char *folder, struct reason *why)
{
    machine->initrd = memfd_create("vpt-initrd", 0);
    machine->console = memfd_create("vpt-console", 0);
    machine->errors = memfd_create("vpt-errors", 0);
    if (machine->initrd < 0 || machine->console < 0 || machine->errors < 0)
        return reason_of_file(why, -errno, "a file in memory");
    return make_initrd(machine, folder, why);
}

/* ---- QEMU ---- */

/* An option of QEMU's with what stands in it, which lasts as long as the structure. */
struct arguments {
    const char *list[ARGUMENTS_MAX + 1];
    size_t count;
    char kernel[PATH_MAX + 16], initrd[32], console[48], cpu[128], smp[16], wire[48], port[64];
    char monitor[PATH_MAX + 32];
};

static void add(struct arguments *arguments, const char *const *words)
{
    while (*words && arguments->count < ARGUMENTS_MAX)
        arguments->list[arguments->count++] = *words++;
}

static void make_arguments(struct arguments *a, const struct machine *machine,
                           const struct machine_options *options, int wire)
{
    const char *const always[] = {
        options->qemu,
        "-L",
        "/usr/share/seabios",
        "-L",
        "/usr/share/qemu", /* Debian's firmware */
        "-machine",
        "q35",
        "-accel",
        "tcg",
        "-cpu",
        a->cpu,
        "-smp",
        a->smp,
        "-m",
        options->mem,
        "-display",
        "none",
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-serial",
        a->console,
        "-kernel",
        a->kernel,
        "-initrd",
        a->initrd,
        "-append",
        options->has_no_vdso ? KERNEL_WORDS_WITHOUT_VDSO : KERNEL_WORDS,
        "-fsdev",
        "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
        "-device",
        "virtio-9p-pci,fsdev=host,mount_tag=host",
        "-device",
        "virtio-serial-pci",
        "-chardev",
        a->wire,
        "-device",
        a->port,
        "-device",
        "vmcoreinfo",
        NULL};
    const char *const monitor[] = {"-qmp", a->monitor, NULL};
    const char *const network[] = {"-netdev", "user,id=net", "-device",
                                   "virtio-net-pci,netdev=net,romfile=", NULL};

    (void)snprintf(a->kernel, sizeof(a->kernel), "%s/vmlinux", options->kernel_folder);
    (void)snprintf(a->initrd, sizeof(a->initrd), "/proc/self/fd/%d", machine->initrd);
    (void)snprintf(a->console, sizeof(a->console), "file:/proc/self/fd/%d", machine->console);
    (void)snprintf(a->cpu, sizeof(a->cpu), CPU "%s", options->profile);
    (void)snprintf(a->smp, sizeof(a->smp), "%u", options->cpus);
    (void)snprintf(a->wire, sizeof(a->wire), "socket,id=wire,fd=%d", wire);
    (void)snprintf(a->port, sizeof(a->port), "virtserialport,chardev=wire,name=%s", WIRE_PORT);
    add(a, always);
    if (options->monitor) {
        (void)snprintf(a->monitor, sizeof(a->monitor), "unix:%s,server,nowait", options->monitor);
        add(a, monitor);
    }
    if (options->has_network)
        add(a, network);
}

/*
 * A group of its own: keys of the terminal are for the program in the guest, and who asked for it
 * passes them on.
 */
static void exec_qemu(const struct arguments *arguments, const struct machine *machine,
                      pid_t parent)
{
    const int null = open("/dev/null", O_RDONLY);
    sigset_t none;

    (void)setpgid(0, 0);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(machine->errors, STDOUT_FILENO) < 0 || dup2(machine->errors, STDERR_FILENO) < 0)
        _exit(127);
    (void)execv(arguments->list[0], (char *const *)arguments->list);
    (void)dprintf(STDERR_FILENO, "%s: %s\n", arguments->list[0], strerror(errno));
    _exit(127);
}

static int start_qemu(struct machine *machine, const struct machine_options *options,
                      struct reason *why)
{
    const pid_t parent = getpid();
    struct arguments arguments = {0};
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return reason_set(why, -errno, "a pair of sockets: %s", strerror(errno));
    machine->wire = ends[0];
    (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    make_arguments(&arguments, machine, options, ends[1]);
    machine->qemu = fork();
    if (machine->qemu == 0)
        exec_qemu(&arguments, machine, parent);
    (void)close(ends[1]);
    if (machine->qemu < 0) {
        machine->qemu = 0;
        return reason_set(why, -errno, "QEMU cannot be started: %s", strerror(errno));
    }
    return 0;
}

int machine_start(struct machine *machine, const struct machine_options *options,
                  struct reason *why)
{
    int error;

    *machine = (struct machine){.wire = -1, .initrd = -1, .console = -1, .errors = -1};
    error = make_files(machine, options->kernel_folder, why);
    return error ? error : start_qemu(machine, options, why);
}

/* What QEMU says if it was built without headers that vmm/qemu/build.sh looked for. */
static const struct {
    const char *words, *meaning;
} gaps[] = {
    {"'virtio-9p-pci' is not a valid", "it has no 9p (libattr1-dev, libcap-ng-dev)"},
    {"'user' is not compiled", "it has no network for --net (libslirp-dev)"},
};

int machine_blame(struct machine *machine, struct reason *why)
{
    char line[256];

    if (last_line(machine->errors, line, sizeof(line))) {
        for (size_t i = 0; i < sizeof(gaps) / sizeof(gaps[0]); i++) {
            if (strstr(line, gaps[i].words))
                return reason_set(why, -EIO, "QEMU must be built anew, by make qemu: %s",
                                  gaps[i].meaning);
        }
        return reason_set(why, -EIO, "QEMU: %s", line);
    }
    /* What the kernel said with its last breath says more than that the guest went away. */
    if (last_line(machine->console, line, sizeof(line)))
        return reason_set(why, -EIO, "the guest went away: %s", line);
    return reason_set(why, -EIO, "the guest went away");
}

static void close_all(struct machine *machine)
{
    const int fds[] = {machine->wire, machine->initrd, machine->console, machine->errors};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]);
    }
}

void machine_end(struct machine *machine)
{
    const struct timespec turn = {.tv_nsec = TURN_NS};
    int turns = 0;

    if (machine->qemu > 0) {
        (void)kill(machine->qemu, SIGTERM);
        while (waitpid(machine->qemu, NULL, WNOHANG) == 0 && turns++ < END_TURNS)
            (void)nanosleep(&turn, NULL);
        if (turns > END_TURNS) {
            (void)kill(machine->qemu, SIGKILL);
            (void)waitpid(machine->qemu, NULL, 0);
        }
    }
    machine->qemu = 0;
    close_all(machine);
}
