/* SPDX-License-Identifier: BSD-3-Clause */
#include "job.h"
#include "port.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- What is asked for ---- */

static void *make_list(size_t count, size_t size)
{
    void *const list = calloc(count + 1, size);

    if (!list)
        port_fail("memory");
    return list;
}

static void take_record(struct job *job, char *record, size_t counts[2])
{
    char *const text = record + 1;
    const unsigned long number = strtoul(text, NULL, 10);

    switch (*record) {
    case RECORD_ARGUMENT:
        job->arguments[counts[0]++] = text;
        break;
    case RECORD_VARIABLE:
        job->environment[counts[1]++] = text;
        break;
    case RECORD_FOLDER:
        job->folder = text;
        break;
    case RECORD_USER:
        job->user = (uid_t)number;
        break;
    case RECORD_GROUP:
        job->group = (gid_t)number;
        break;
    case RECORD_GROUPS:
        job->groups[job->group_count++] = (gid_t)number;
        break;
    case RECORD_UMASK:
        job->mask = (mode_t)number;
        break;
    case RECORD_HOST:
        job->host = text;
        break;
    case RECORD_ONE_OUT:
        job->one_out = true;
        break;
    case RECORD_NETWORK:
        job->has_network = true;
        break;
    case RECORD_PERF:
        job->perf = text;
        break;
    case RECORD_EVENT:
        job->event = text;
        break;
    default:
        errno = EINVAL;
        port_fail("the job");
    }
}

void job_parse(char *bytes, size_t len, struct job *job)
{
    size_t records = 0, counts[2] = {0, 0};

    for (size_t i = 0; i < len; i++)
        records += bytes[i] == '\0';
    *job = (struct job){.folder = "/", .host = "vpt"};
    job->arguments = make_list(records, sizeof(*job->arguments));
    job->environment = make_list(records, sizeof(*job->environment));
    job->groups = make_list(records, sizeof(*job->groups));
    for (char *at = bytes; at < bytes + len; at += strlen(at) + 1)
        take_record(job, at, counts);
    if (!job->arguments[0]) {
        errno = EINVAL;
        port_fail("the job");
    }
}

/* ---- The process ---- */

static void make_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        port_fail("a pipe");
}

/* Tells the parent why, by the pipe that closes if all went well. */
static void give_up(int failed)
{
    const int error = errno;

    (void)!write(failed, &error, sizeof(error));
    _exit(127);
}

static void become_user(const struct job *job, int failed)
{
    (void)umask(job->mask);
    if (setgroups(job->group_count, job->groups) != 0 ||
        setresgid(job->group, job->group, job->group) != 0 ||
        setresuid(job->user, job->user, job->user) != 0 || chdir(job->folder) != 0)
        give_up(failed);
}

static void run_child(const struct job *job, const int streams[3], int go, int failed)
{
    sigset_t none;
    char byte;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)setsid();
    for (int i = 0; i < 3; i++) {
        if (dup2(streams[i], i) != i)
            give_up(failed);
    }
    become_user(job, failed);
    byte = 0;
    (void)!write(failed, &byte, 1); /* all is ready */
    if (read(go, &byte, 1) == 1) {
        environ = job->environment;
        if (job->perf)
            (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        (void)execvp(job->arguments[0], job->arguments);
    }
    give_up(failed);
}

/* What the child says before it waits: one byte, or an errno. */
static void wait_until_ready(const struct child *child, const struct job *job)
{
    unsigned char said[sizeof(int)] = {0};
    const ssize_t n = read(child->failed, said, sizeof(said));

    if (n == 1)
        return;
    memcpy(&errno, said, sizeof(errno));
    port_fail(job->folder);
}

void child_prepare(const struct job *job, struct child *child)
{
    int in[2], out[2], err[2], go[2], failed[2];

    make_pipe(in);
    make_pipe(out);
    make_pipe(err);
    make_pipe(go);
    make_pipe(failed);
    child->pid = fork();
    if (child->pid < 0)
        port_fail("a process");
    if (child->pid == 0)
        run_child(job, (const int[]){in[0], out[1], job->one_out ? out[1] : err[1]}, go[0],
                  failed[1]);
    (void)close(in[0]);
    (void)close(out[1]);
    (void)close(err[1]);
    (void)close(go[0]);
    (void)close(failed[1]);
    *child = (struct child){.pid = child->pid,
                            .in = in[1],
                            .out = out[0],
                            .err = err[0],
                            .go = go[1],
                            .failed = failed[0]};
    (void)fcntl(child->in, F_SETFL, O_NONBLOCK);
    (void)fcntl(child->out, F_SETFL, O_NONBLOCK);
    (void)fcntl(child->err, F_SETFL, O_NONBLOCK);
    wait_until_ready(child, job);
}

int child_begin(struct child *child)
{
    int error = 0;

    (void)!write(child->go, "", 1);
    (void)close(child->go);
    if (read(child->failed, &error, sizeof(error)) != sizeof(error))
        error = 0;
    (void)close(child->failed);
    return error;
}
