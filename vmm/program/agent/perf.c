/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf.h"
#include "port.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLDER   "/tmp/vpt-perf-XXXXXX"
#define DATA     "data"
#define START_MS 120000 /* that perf may take until it records, on a slow machine */

static pid_t perf;
static char folder[] = FOLDER;
static int said = -1; /* what perf wrote to its standard error, to be told if it fails */

/* Its last line, with the status that it ended with. */
static void fail_with_words(void)
{
    static char text[4096];
    ssize_t n;
    char *line;

    n = pread(said, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        text[--n] = '\0';
    line = strrchr(text, '\n');
    errno = EIO;
    port_fail(n > 0 ? (line ? line + 1 : text) : "perf");
}

static void run_perf(const struct job *job, pid_t program, int control, int ack)
{
    char pid[16], fds[48];
    char *const arguments[] = {(char *)"perf",
                               (char *)"record",
                               (char *)"-q",
                               (char *)"-B",
                               (char *)"-N",
                               (char *)"-e",
                               (char *)job->event,
                               (char *)"-m",
                               (char *)",32M",
                               (char *)"-p",
                               pid,
                               (char *)"-D",
                               (char *)"-1",
                               (char *)"--control",
                               fds,
                               (char *)"-o",
                               (char *)DATA,
                               NULL};
    char *const environment[] = {(char *)"HOME=/tmp", (char *)"PATH=/usr/bin:/bin", NULL};
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)snprintf(pid, sizeof(pid), "%d", (int)program);
    (void)snprintf(fds, sizeof(fds), "fd:%d,%d", control, ack);
    if (chdir(folder) != 0 || dup2(said, 1) != 1 || dup2(said, 2) != 2)
        _exit(126);
    (void)execve(job->perf, arguments, environment);
    _exit(127);
}

/* "ack" comes when it records. */
static void wait_for_ack(int ack)
{
    struct pollfd poll_fd = {.fd = ack, .events = POLLIN};
    char word[16];

    if (poll(&poll_fd, 1, START_MS) != 1 || read(ack, word, sizeof(word)) <= 0)
        fail_with_words();
}

void perf_begin(const struct job *job, pid_t program)
{
    int control[2], ack[2];

    (void)waitpid(program, NULL, WUNTRACED); /* it stops */
    if (!mkdtemp(folder) || pipe(control) != 0 || pipe(ack) != 0)
        port_fail(folder);
    said = memfd_create("said", MFD_CLOEXEC);
    if (said < 0)
        port_fail(folder);
    perf = fork();
    if (perf < 0)
        port_fail("a process");
    if (perf == 0) {
        (void)close(control[1]);
        (void)close(ack[0]);
        run_perf(job, program, control[0], ack[1]);
    }
    (void)close(control[0]);
    (void)close(ack[1]);
    if (write(control[1], "enable\n", 7) != 7)
        fail_with_words();
    wait_for_ack(ack[0]);
    if (ptrace(PTRACE_DETACH, program, NULL, NULL) != 0)
        port_fail("the program that stopped");
    (void)fcntl(control[1], F_SETFD, FD_CLOEXEC);
    (void)fcntl(ack[0], F_SETFD, FD_CLOEXEC);
}

static void send_file(int fd)
{
    static char bytes[WIRE_MAX_BYTES];
    ssize_t n;

    while ((n = read(fd, bytes, sizeof(bytes))) > 0)
        port_send(WIRE_PERF_DATA, bytes, (size_t)n);
    if (n < 0)
        port_fail("perf's file");
}

void perf_end(void)
{
    char path[sizeof(folder) + sizeof(DATA)];
    int status, fd;

    (void)kill(perf, SIGINT);
    while (waitpid(perf, &status, 0) < 0) {
        if (errno != EINTR)
            break; /* it was reaped before */
    }
    (void)snprintf(path, sizeof(path), "%s/%s", folder, DATA);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail_with_words();
    send_file(fd);
    (void)close(fd);
    port_send(WIRE_PERF_DATA, "", 0);
}
