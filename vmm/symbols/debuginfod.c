/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two ends of a socket: one asks with a build id, the other answers with a path, and with the
 * file itself if there is one.
 */
#include "symbols/debuginfod.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "debuginfod-find"

struct debuginfod {
    int socket;
};

struct answer {
    int error; /* -errno, or 0 with the file beside it */
    char path[PATH_MAX];
};

/* Room for one descriptor beside a message. */
union beside {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

/* ---- The process that asks ---- */

/* Its output is a line with the path of the file. */
static void become_program(const char *id, int output)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(output, STDOUT_FILENO) >= 0)
        (void)execlp(PROGRAM, PROGRAM, "debuginfo", id, (char *)NULL);
    _exit(127);
}

/* Up to the end, which the line feed is not a part of. False: that is no path. */
static bool read_path(int fd, char path[PATH_MAX])
{
    size_t len = 0;
    ssize_t got;

    while (len < PATH_MAX && (got = read(fd, path + len, PATH_MAX - len)) > 0)
        len += (size_t)got;
    if (len == 0 || len == PATH_MAX)
        return false;
    path[len] = 0;
    path[strcspn(path, "\n")] = 0;
    return path[0] == '/';
}

static int run_program(const char *id, char path[PATH_MAX])
{
    int ends[2], status = 0;
    bool is_path;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    child = fork();
    if (child == 0)
        become_program(id, ends[1]);
    (void)close(ends[1]);
    is_path = child > 0 && read_path(ends[0], path);
    (void)close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -ECHILD;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return -ENOPKG;
    return is_path && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ENOENT;
}

/* fd < 0: none. */
static bool send_answer(int to, const struct answer *answer, int fd)
{
    struct iovec piece = {(void *)(uintptr_t)answer, sizeof(*answer)};
    union beside beside = {.header = {.cmsg_level = SOL_SOCKET,
                                      .cmsg_type = SCM_RIGHTS,
                                      .cmsg_len = CMSG_LEN(sizeof(int))}};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};

    if (fd >= 0) {
        memcpy(CMSG_DATA(&beside.header), &fd, sizeof(fd));
        message.msg_control = beside.bytes;
        message.msg_controllen = sizeof(beside.bytes);
    }
    return sendmsg(to, &message, MSG_NOSIGNAL) == sizeof(*answer);
}

static bool answer_one(int socket, const struct elf_id *id)
{
    struct answer answer = {.error = -EINVAL};
    char text[ELF_ID_TEXT];
    int fd = -1;
    bool sent;

    if (id->len > 0 && id->len <= ELF_ID_BYTES_MAX)
        answer.error = run_program(elf_id_text(id, text), answer.path);
    if (!answer.error)
        fd = open(answer.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (!answer.error && fd < 0)
        answer.error = -errno;
    sent = send_answer(socket, &answer, fd);
    if (fd >= 0)
        (void)close(fd);
    return sent;
}

/* Until nobody is there to ask. */
static void serve(int socket)
{
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct elf_id id;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(nothing, STDIN_FILENO);
    (void)dup2(nothing, STDOUT_FILENO);
    while (recv(socket, &id, sizeof(id), 0) == (ssize_t)sizeof(id) && answer_one(socket, &id))
        ;
    _exit(0);
}

int debuginfod_start(const char *urls, struct debuginfod **server, struct reason *why)
{
    struct debuginfod *const made = malloc(sizeof(*made));
    int ends[2];
    pid_t child;

    if (!made)
        return reason_no_memory(why);
    if (setenv("DEBUGINFOD_URLS", urls, 1) != 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        free(made);
        return reason_set(why, -errno, "debuginfod: %s", strerror(errno));
    }
    made->socket = ends[0];
    child = fork();
    if (child == 0) {
        (void)close(ends[0]);
        serve(ends[1]);
    }
    (void)close(ends[1]);
    if (child > 0) {
        *server = made;
        return 0;
    }
    debuginfod_stop(made);
    return reason_set(why, -EAGAIN, "debuginfod: no process can be started");
}

/* ---- The one that is asked for ---- */

void debuginfod_stop(struct debuginfod *server)
{
    if (!server)
        return;
    (void)close(server->socket);
    free(server);
}

int debuginfod_find(struct debuginfod *server, const struct elf_id *id, char path[PATH_MAX])
{
    struct answer answer;
    struct iovec piece = {&answer, sizeof(answer)};
    union beside beside;
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = beside.bytes,
                             .msg_controllen = sizeof(beside.bytes)};
    const struct cmsghdr *first;
    int fd;

    if (write(server->socket, id, sizeof(*id)) != (ssize_t)sizeof(*id) ||
        recvmsg(server->socket, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(answer))
        return -EPIPE;
    first = CMSG_FIRSTHDR(&message);
    if (answer.error || !first || first->cmsg_type != SCM_RIGHTS)
        return answer.error ? answer.error : -ENOENT;
    memcpy(&fd, CMSG_DATA(first), sizeof(fd));
    memcpy(path, answer.path, PATH_MAX);
    return fd;
}
