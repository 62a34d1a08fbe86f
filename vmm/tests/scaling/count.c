/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Instructions of user mode, as the processor counts them (perf_event_open); or, where it may not
 * be asked, as valgrind counts them, fifty times as slowly.
 */
#include "count.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 24

/* Copies of large areas are one instruction else, whatever their size. */
#define TUNABLES                                                                                   \
    "glibc.cpu.x86_rep_movsb_threshold=0x7fffffff:glibc.cpu.x86_rep_stosb_threshold=0x7fffffff"

static int open_counter(pid_t pid)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_HARDWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_HW_INSTRUCTIONS,
        .disabled = 1,
        .inherit = 1,
        .enable_on_exec = 1,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };

    return (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static bool processor_counts(void)
{
    const int counter = open_counter(0);

    if (counter >= 0)
        close(counter);
    return counter >= 0;
}

const char *count_how(void)
{
    if (processor_counts())
        return "counted by the processor";
    return system("valgrind --version >/dev/null 2>&1") == 0 ? "counted by valgrind" : NULL;
}

/* The child's part: waits until it is counted. */
static void run(char *const argv[], int go)
{
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    char byte;

    (void)!read(go, &byte, 1);
    (void)dup2(nowhere, STDOUT_FILENO);
    (void)dup2(nowhere, STDERR_FILENO);
    (void)setenv("GLIBC_TUNABLES", TUNABLES, 1);
    (void)execvp(argv[0], argv);
    _exit(127);
}

/* False: it did not end by itself. *count stays if the processor does not count. */
static bool run_counted(char *const argv[], uint64_t *count)
{
    int go[2], status = 0, counter;
    pid_t child;

    if (pipe2(go, O_CLOEXEC) != 0)
        return false;
    child = fork();
    if (child == 0)
        run(argv, go[0]);
    close(go[0]);
    counter = child > 0 ? open_counter(child) : -1;
    (void)!write(go[1], "", 1);
    close(go[1]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        status = -1;
    if (counter >= 0 && read(counter, count, sizeof(*count)) != sizeof(*count))
        status = -1;
    if (counter >= 0)
        close(counter);
    return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) != 127;
}

/* The sum that callgrind wrote. */
static bool read_sum(const char *path, uint64_t *count)
{
    FILE *const file = fopen(path, "re");
    char line[256];
    bool found = false;

    while (file && fgets(line, sizeof(line), file))
        found = sscanf(line, "totals: %" SCNu64, count) == 1 || found;
    if (file)
        (void)fclose(file);
    return found;
}

static bool run_in_valgrind(char *const argv[], uint64_t *count)
{
    char out[64], option[96];
    char *wrapped[ARGUMENTS_MAX + 4] = {"valgrind", "--tool=callgrind", option};
    bool ok;

    (void)snprintf(out, sizeof(out), "/tmp/vpt-scaling-%d.callgrind", (int)getpid());
    (void)snprintf(option, sizeof(option), "--callgrind-out-file=%s", out);
    for (unsigned i = 0; i < ARGUMENTS_MAX && argv[i]; i++)
        wrapped[3 + i] = argv[i];
    ok = run_counted(wrapped, count) && read_sum(out, count);
    (void)unlink(out);
    return ok;
}

bool count_instructions(char *const argv[], uint64_t *count)
{
    return processor_counts() ? run_counted(argv, count) : run_in_valgrind(argv, count);
}
