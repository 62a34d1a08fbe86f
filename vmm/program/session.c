/* SPDX-License-Identifier: BSD-3-Clause */
#include "program/session.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define GROUPS_MAX 1024

/* ---- Signals ---- */

int session_catch_signals(struct session *session, struct reason *why)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        (void)sigaddset(&set, numbers[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    session->signals = signalfd(-1, &set, SFD_CLOEXEC);
    return session->signals < 0 ? reason_set(why, -errno, "signals: %s", strerror(errno)) : 0;
}

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Frames ---- */

static bool send_frame(struct session *session, enum wire_type type, const void *bytes, size_t len)
{
    const struct wire_head head = {.type = type, .len = (uint32_t)len};

    return bytes_add(&session->out, &head, sizeof(head)) && bytes_add(&session->out, bytes, len);
}

static int gone(struct reason *why)
{
    return reason_set(why, -EPIPE, "the guest went away");
}

static int nonsense(struct reason *why)
{
    return reason_set(why, -EBADMSG, "the guest says what none of this program's guests says");
}

/* What is to be sent, as far as there is room now. */
static int push(struct session *session, struct reason *why)
{
    const ssize_t n =
        write(session->wire, session->out.data + session->sent, session->out.len - session->sent);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : gone(why);
    session->sent += (size_t)n;
    if (session->sent == session->out.len)
        session->sent = session->out.len = 0;
    return 0;
}

/* 1: a frame is whole; 0: not yet; or -errno. */
static int pull(struct session *session, struct reason *why)
{
    const bool is_head = session->head_len < sizeof(session->head);
    uint8_t *const to =
        is_head ? (uint8_t *)&session->head + session->head_len : session->body + session->body_len;
    const size_t room =
        is_head ? sizeof(session->head) - session->head_len : session->head.len - session->body_len;
    const ssize_t n = read(session->wire, to, room);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : gone(why);
    if (n == 0)
        return gone(why);
    *(is_head ? &session->head_len : &session->body_len) += (size_t)n;
    if (session->head_len == sizeof(session->head) && session->head.len > sizeof(session->body))
        return nonsense(why);
    return session->head_len == sizeof(session->head) && session->body_len == session->head.len;
}

static void next_frame(struct session *session)
{
    session->head_len = session->body_len = 0;
}

/* ---- The job ---- */

static bool add_record(struct bytes *job, char letter, const char *text)
{
    return bytes_add(job, &letter, 1) && bytes_add(job, text, strlen(text) + 1);
}

static bool add_number(struct bytes *job, char letter, unsigned long number)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%lu", number);
    return add_record(job, letter, text);
}

static bool add_list(struct bytes *job, char letter, char *const *list)
{
    bool ok = true;

    for (; ok && *list; list++)
        ok = add_record(job, letter, *list);
    return ok;
}

/* Who asks here is who runs there. */
static bool add_user(struct bytes *job)
{
    static gid_t groups[GROUPS_MAX];
    const int count = getgroups(GROUPS_MAX, groups);
    const mode_t mask = umask(0);
    char host[256] = "";
    bool ok;

    (void)umask(mask);
    (void)gethostname(host, sizeof(host) - 1);
    ok = add_number(job, RECORD_USER, geteuid()) && add_number(job, RECORD_GROUP, getegid()) &&
         add_number(job, RECORD_UMASK, mask) && add_record(job, RECORD_HOST, host);
    for (int i = 0; ok && i < count; i++)
        ok = add_number(job, RECORD_GROUPS, groups[i]);
    return ok;
}

static bool one_out(void)
{
    struct stat out, err;

    return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
           out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

static int send_job(struct session *session, struct reason *why)
{
    const struct session_job *const from = session->job;
    struct bytes job = {0};
    bool ok = add_list(&job, RECORD_ARGUMENT, from->arguments) &&
              add_list(&job, RECORD_VARIABLE, from->environment) && add_user(&job) &&
              add_record(&job, RECORD_FOLDER, from->folder);

    if (ok && from->has_network)
        ok = add_record(&job, RECORD_NETWORK, "");
    if (ok && one_out())
        ok = add_record(&job, RECORD_ONE_OUT, "");
    if (ok && from->perf)
        ok = add_record(&job, RECORD_PERF, from->perf) &&
             add_record(&job, RECORD_EVENT, from->event);
    ok = ok && send_frame(session, WIRE_JOB, job.data, job.len);
    bytes_free(&job);
    if (!ok)
        return reason_no_memory(why);
    return session->out.len > WIRE_JOB_BYTES
               ? reason_set(why, -E2BIG, "arguments and environment are too long")
               : 0;
}

/* ---- What the guest says ---- */

/* 0, or -EPIPE: nobody reads there any more. */
static int write_out(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(fd, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (n <= 0)
            return -EPIPE;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

/* The program learns of it as it would here. */
static bool take_output(struct session *session, int fd)
{
    const uint8_t which = (uint8_t)fd;

    if (session->is_closed[fd - 1] || write_out(fd, session->body, session->body_len) == 0)
        return true;
    session->is_closed[fd - 1] = true;
    return send_frame(session, WIRE_CLOSED, &which, 1);
}

static int take_failure(struct session *session, struct reason *why)
{
    struct wire_failure failure;
    const size_t len = session->body_len;
    int error;

    if (len < sizeof(failure))
        return nonsense(why);
    memcpy(&failure, session->body, sizeof(failure));
    error = failure.error > 0 && failure.error < 4096 ? (int)failure.error : EIO;
    (void)reason_set(why, -error, "%.*s: %s", (int)(len - sizeof(failure)),
                     (const char *)session->body + sizeof(failure), strerror(error));
    if (failure.is_exec)
        return error == ENOENT ? -ENOENT : -ENOEXEC;
    return -EIO;
}

static int take_perf_data(struct session *session, struct reason *why)
{
    if (!session->job->perf || session->has_perf_data || !session->has_ended)
        return nonsense(why);
    session->has_perf_data = session->body_len == 0;
    return session->job->keep(session->job->owner, session->body, session->body_len, why);
}

static int take_end(struct session *session, struct reason *why)
{
    struct wire_end end;

    if (session->has_ended || session->body_len != sizeof(end))
        return nonsense(why);
    memcpy(&end, session->body, sizeof(end));
    session->has_ended = true;
    session->status = (int)end.status;
    return 0;
}

/* While the program runs. */
static int take_frame(struct session *session, struct reason *why)
{
    bool has_memory = true;

    switch (session->head.type) {
    case WIRE_STDOUT:
        has_memory = take_output(session, STDOUT_FILENO);
        break;
    case WIRE_STDERR:
        has_memory = take_output(session, STDERR_FILENO);
        break;
    case WIRE_TAKEN:
        session->stdin_under_way = false;
        break;
    case WIRE_ENDED:
        return take_end(session, why);
    case WIRE_PERF_DATA:
        return take_perf_data(session, why);
    case WIRE_FAILED:
        return take_failure(session, why);
    default:
        return nonsense(why);
    }
    return has_memory ? 0 : reason_no_memory(why);
}

/* ---- What comes from here ---- */

static int take_stdin(struct session *session, struct reason *why)
{
    static uint8_t bytes[WIRE_MAX_BYTES];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0)
        n = 0; /* a folder, or none: the program finds its end */
    session->stdin_ended = n == 0;
    session->stdin_under_way = n > 0;
    return send_frame(session, WIRE_STDIN, bytes, (size_t)n) ? 0 : reason_no_memory(why);
}

/* The first is the program's; a second one says that it does not obey. */
static int take_signal(struct session *session, bool is_running, struct reason *why)
{
    struct signalfd_siginfo info;
    uint8_t number;

    if (read(session->signals, &info, sizeof(info)) != sizeof(info))
        return 0;
    if (!is_running || session->interrupted)
        return reason_set(why, -EINTR, "ended by a signal");
    session->interrupted = true;
    number = (uint8_t)info.ssi_signo;
    return send_frame(session, WIRE_SIGNAL, &number, 1) ? 0 : reason_no_memory(why);
}

/* Until something is to be done. 1: a frame is whole, in the session; 0: look again; or -errno. */
static int turn(struct session *session, bool is_running, int64_t end_ms, struct reason *why)
{
    const int64_t left = end_ms - now_ms();
    const bool wants_stdin =
        is_running && !session->stdin_ended && !session->stdin_under_way && !session->has_ended;
    struct pollfd fds[] = {
        {.fd = session->signals, .events = POLLIN},
        {.fd = session->wire, .events = (short)(POLLIN | (session->out.len > 0 ? POLLOUT : 0))},
        {.fd = wants_stdin ? STDIN_FILENO : -1, .events = POLLIN},
    };
    int error = 0;

    if (left <= 0)
        return -ETIMEDOUT;
    if (poll(fds, sizeof(fds) / sizeof(fds[0]), left > 60000 ? 60000 : (int)left) < 0)
        return 0;
    if (fds[0].revents)
        error = take_signal(session, is_running, why);
    if (!error && fds[2].revents)
        error = take_stdin(session, why);
    if (!error && fds[1].revents & POLLOUT)
        error = push(session, why);
    if (!error && fds[1].revents & ~POLLOUT)
        error = pull(session, why);
    return error;
}

/* ---- The two halves ---- */

/* The frame of this type, before which nothing but FAILED may come. */
static int wait_for(struct session *session, enum wire_type type, int64_t end_ms,
                    struct reason *why)
{
    int error;

    do {
        error = turn(session, false, end_ms, why);
    } while (error == 0);
    if (error == -ETIMEDOUT)
        return reason_set(why, error, "the guest did not boot in time");
    if (error < 0)
        return error;
    if (session->head.type == WIRE_FAILED)
        return take_failure(session, why);
    return session->head.type == type ? 0 : nonsense(why);
}

int session_prepare(struct session *session, int wire, const struct session_job *job,
                    int64_t limit_ms, struct reason *why)
{
    const int64_t end_ms = now_ms() + limit_ms;
    int error;

    session->wire = wire;
    session->job = job;
    error = wait_for(session, WIRE_HELLO, end_ms, why);
    if (error)
        return error;
    (void)snprintf(session->features, sizeof(session->features), "%.*s", (int)session->body_len,
                   (const char *)session->body);
    next_frame(session);
    error = send_job(session, why);
    if (!error)
        error = wait_for(session, WIRE_READY, end_ms, why);
    next_frame(session);
    return error;
}

static bool is_done(const struct session *session)
{
    return session->has_ended && (!session->job->perf || session->has_perf_data);
}

int session_run(struct session *session, int64_t limit_ms, struct reason *why)
{
    const int64_t end_ms = limit_ms ? now_ms() + limit_ms : INT64_MAX;
    int error = send_frame(session, WIRE_GO, "", 0) ? 0 : reason_no_memory(why);

    while (!error && !is_done(session)) {
        /* The limit is the program's; perf may take its time behind it. */
        error = turn(session, true, session->has_ended ? INT64_MAX : end_ms, why);
        if (error > 0) {
            error = take_frame(session, why);
            next_frame(session);
        }
    }
    return error;
}

void session_end(struct session *session)
{
    if (session->signals >= 0)
        (void)close(session->signals);
    bytes_free(&session->out);
}
