/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first process of the guest of `vpt trace`: it makes the host's files its own, runs one
 * program with the streams that come by the wire, and says how it ended. It is linked statically,
 * at an address of its own (build.mk), and is all that the guest's initial file system has besides
 * modules.
 */
#include "job.h"
#include "perf.h"
#include "port.h"
#include "setup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* What came for the program's standard input, and was not taken yet. */
struct input {
    char bytes[WIRE_MAX_BYTES];
    size_t len, done;
};

struct agent {
    struct job job;
    struct child child;
    struct input input;
    bool has_ended;
    int status;
};

/* ---- Before ---- */

static void say_hello(void)
{
    static char text[WIRE_MAX_BYTES];
    const int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n;
    char *flags, *end;

    while (len < sizeof(text) - 1 && (n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)n;
    (void)close(fd);
    text[len] = '\0';
    flags = strstr(text, "\nflags");
    flags = flags ? flags + 1 : text + len;
    end = strchrnul(flags, '\n');
    port_send(WIRE_HELLO, flags, (size_t)(end - flags));
}

static void take_job(struct job *job)
{
    char *const bytes = malloc(WIRE_JOB_BYTES + 1);
    struct wire_head head;

    if (!bytes)
        port_fail("memory");
    head = port_read(bytes, WIRE_JOB_BYTES);
    if (head.type != WIRE_JOB)
        power_off();
    bytes[head.len] = '\0';
    job_parse(bytes, head.len, job);
    (void)sethostname(job->host, strlen(job->host));
}

/* Where the log of a test begins, which asks for this address: at the last thing before READY. */
void agent_is_ready(void);
__attribute__((noinline)) void agent_is_ready(void)
{
    port_send(WIRE_READY, "", 0);
}

static void wait_for_go(void)
{
    char none;

    agent_is_ready();
    if (port_read(&none, 0).type != WIRE_GO)
        power_off();
}

/* ---- Streams ---- */

static void close_end(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* The program may take less than came, or nothing any more. */
static void feed(struct agent *agent)
{
    struct input *const input = &agent->input;
    const ssize_t n = write(agent->child.in, input->bytes + input->done, input->len - input->done);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0)
        close_end(&agent->child.in);
    input->done = n < 0 ? input->len : input->done + (size_t)n;
    if (input->done == input->len) {
        input->len = 0;
        port_send(WIRE_TAKEN, "", 0);
    }
}

/* False: there is nothing now. */
static bool pass_on(int *fd, enum wire_type type)
{
    static char bytes[WIRE_MAX_BYTES];
    const ssize_t n = *fd < 0 ? 0 : read(*fd, bytes, sizeof(bytes));

    if (n > 0)
        port_send(type, bytes, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        close_end(fd);
    return n > 0;
}

/* ---- What the host says ---- */

static void take_input(struct agent *agent, size_t len)
{
    agent->input.len = len;
    agent->input.done = 0;
    if (len == 0)
        close_end(&agent->child.in);
    if (agent->child.in < 0) {
        agent->input.len = 0;
        port_send(WIRE_TAKEN, "", 0);
    }
}

static void obey(struct agent *agent)
{
    static char bytes[WIRE_MAX_BYTES];
    const struct wire_head head = port_read(bytes, sizeof(bytes));

    if (head.type == WIRE_STDIN) {
        memcpy(agent->input.bytes, bytes, head.len);
        take_input(agent, head.len);
    } else if (head.type == WIRE_CLOSED && head.len == 1) {
        close_end(bytes[0] == 1 ? &agent->child.out : &agent->child.err);
    } else if (head.type == WIRE_SIGNAL && head.len == 1) {
        (void)kill(-agent->child.pid, bytes[0]); /* a group of its own: it and what it started */
    } else {
        power_off();
    }
}

/* ---- While it runs ---- */

static void reap(struct agent *agent, int signals)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;

    (void)!read(signals, &info, sizeof(info));
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == agent->child.pid) {
            agent->has_ended = true;
            agent->status = status;
        }
    }
}

static void serve(struct agent *agent, int signals)
{
    struct child *const child = &agent->child;

    while (!agent->has_ended) {
        struct pollfd fds[] = {
            {.fd = signals, .events = POLLIN},
            {.fd = port, .events = POLLIN},
            {.fd = child->out, .events = POLLIN},
            {.fd = child->err, .events = POLLIN},
            {.fd = agent->input.len > 0 ? child->in : -1, .events = POLLOUT},
        };

        if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
            continue;
        if (fds[1].revents)
            obey(agent);
        if (fds[2].revents)
            (void)pass_on(&child->out, WIRE_STDOUT);
        if (fds[3].revents)
            (void)pass_on(&child->err, WIRE_STDERR);
        if (fds[4].revents && agent->input.len > 0)
            feed(agent);
        if (fds[0].revents)
            reap(agent, signals);
    }
    while (pass_on(&child->out, WIRE_STDOUT))
        ;
    while (pass_on(&child->err, WIRE_STDERR))
        ;
}

static void run_job(struct agent *agent, int signals)
{
    struct wire_end end;
    int error;

    child_prepare(&agent->job, &agent->child);
    wait_for_go();
    error = child_begin(&agent->child);
    if (error) {
        const struct wire_failure failure = {.error = (uint32_t)error, .is_exec = 1};

        port_send_parts(WIRE_FAILED, &failure, sizeof(failure), agent->job.arguments[0],
                        strlen(agent->job.arguments[0]));
        return;
    }
    if (agent->job.perf)
        perf_begin(&agent->job, agent->child.pid);
    serve(agent, signals);
    end.status = (uint32_t)agent->status;
    port_send(WIRE_ENDED, &end, sizeof(end));
    if (agent->job.perf)
        perf_end();
}

int main(void)
{
    static struct agent agent;
    sigset_t children;
    int signals;

    setup_kernel();
    if (!port_open())
        power_off();
    (void)prctl(PR_SET_NAME, "vpt-agent");
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&children);
    (void)sigaddset(&children, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &children, NULL);
    signals = signalfd(-1, &children, SFD_CLOEXEC);
    setup_files();
    say_hello();
    take_job(&agent.job);
    setup_network(agent.job.has_network);
    run_job(&agent, signals);
    for (;;)
        (void)pause(); /* the host ends the guest */
}
