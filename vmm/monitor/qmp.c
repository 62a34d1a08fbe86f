/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QEMU's monitor by its own socket (-qmp unix:PATH,server,nowait): a line of JSON there, and lines
 * back, of which one is the answer and others are events.
 */
#include "common/bytes.h"
#include "common/local.h"
#include "monitor/monitor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_LINE (1u << 20)

struct qmp {
    int fd;
    struct bytes read; /* behind the last line that was taken */
};

static char *say(struct monitor *monitor, const char *what)
{
    snprintf(monitor->why, sizeof(monitor->why), "QEMU's monitor: %s", what);
    return NULL;
}

/* What was read up to a newline, to be freed; NULL: there is none yet, or no memory. */
static char *take_line(struct qmp *qmp)
{
    char *const end = qmp->read.len ? memchr(qmp->read.data, '\n', qmp->read.len) : NULL;
    const size_t len = end ? (size_t)(end - (char *)qmp->read.data) : 0;
    char *const line = end ? strndup((char *)qmp->read.data, len) : NULL;

    if (!line)
        return NULL;
    memmove(qmp->read.data, end + 1, qmp->read.len - len - 1);
    qmp->read.len -= len + 1;
    return line;
}

static char *read_line(struct monitor *monitor)
{
    struct qmp *const qmp = monitor->backend;
    struct pollfd poll_fd = {.fd = qmp->fd, .events = POLLIN};
    char part[4096], *line;

    while (!(line = take_line(qmp))) {
        const int ready = poll(&poll_fd, 1, MONITOR_TIMEOUT_S * 1000);
        ssize_t len;

        if (ready == 0)
            return say(monitor, "no answer");
        if (ready < 0 && errno == EINTR)
            continue;
        len = ready < 0 ? -1 : recv(qmp->fd, part, sizeof(part), 0);
        if (len < 0 && errno == ECONNRESET)
            len = 0;
        if (len < 0)
            return say(monitor, strerror(errno));
        if (len == 0) {
            monitor->gone = true;
            return say(monitor, "it is closed");
        }
        if (qmp->read.len > MOST_LINE || !bytes_add(&qmp->read, part, (size_t)len))
            return say(monitor, "a line that is too long");
    }
    return line;
}

/* As send(), with a descriptor unless it is negative. */
static ssize_t send_with(int socket, const char *text, size_t len, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(fd))];
    } control = {0};
    struct iovec part = {.iov_base = (char *)text, .iov_len = len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(fd));
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL);
}

static bool write_all(struct qmp *qmp, const char *text, int fd)
{
    size_t len = strlen(text);

    while (len > 0) {
        const ssize_t sent = send_with(qmp->fd, text, len, fd);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        text += sent;
        len -= (size_t)sent;
        fd = -1; /* it went with the first bytes */
    }
    return true;
}

/* Whether that is the first member of the object in a line. An answer has no other; events have. */
static bool begins_with(const char *line, const char *member)
{
    const size_t len = strlen(member);

    return strncmp(line, "{\"", 2) == 0 && strncmp(line + 2, member, len) == 0 &&
           line[2 + len] == '"';
}

static char *qmp_send(struct monitor *monitor, const char *command, int fd)
{
    struct qmp *const qmp = monitor->backend;
    char *line;

    if (!write_all(qmp, command, fd) || !write_all(qmp, "\n", -1)) {
        monitor->gone = errno == EPIPE;
        return say(monitor, strerror(errno));
    }
    while ((line = read_line(monitor)) && !begins_with(line, "return") &&
           !begins_with(line, "error"))
        free(line);
    return line;
}

static void qmp_close(struct monitor *monitor)
{
    struct qmp *const qmp = monitor->backend;

    if (qmp->fd >= 0)
        (void)close(qmp->fd);
    bytes_free(&qmp->read);
    free(qmp);
}

/* It greets, and wants to hear that we know how it speaks. */
static bool greet(struct monitor *monitor)
{
    char *const greeting = read_line(monitor);
    const bool is_qmp = greeting && begins_with(greeting, "QMP");
    char *const answer =
        is_qmp ? qmp_send(monitor, "{\"execute\": \"qmp_capabilities\"}", -1) : NULL;
    const bool is_ready = answer && begins_with(answer, "return");

    if (greeting && !is_qmp)
        (void)say(monitor, "this is none");
    else if (answer && !is_ready)
        (void)say(monitor, "it is in use");
    free(greeting);
    free(answer);
    return is_ready;
}

bool monitor_open_socket(struct monitor *monitor, const char *path)
{
    struct qmp *const qmp = calloc(1, sizeof(*qmp));

    *monitor = (struct monitor){.send = qmp_send, .close = qmp_close, .backend = qmp};
    if (!qmp) {
        snprintf(monitor->why, sizeof(monitor->why), "no memory");
        return false;
    }
    qmp->fd = local_connect(path, SOCK_STREAM);
    if (qmp->fd < 0)
        snprintf(monitor->why, sizeof(monitor->why), "%.300s: %s", path, strerror(-qmp->fd));
    else if (greet(monitor))
        return true;
    qmp_close(monitor);
    return false;
}
