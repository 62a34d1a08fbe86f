/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors over a socket, see lend.h. Both sides are of this machine and mostly of one build;
 * the first word of a message says so.
 */
#include "hostpt/lend.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FORMAT      0x76707401u /* "vpt", 1 */
#define MESSAGE_MAX 64u         /* descriptors in one */

struct message {
    uint32_t format, total, first, count;
    uint64_t config;
    uint32_t cpus[MESSAGE_MAX];
};

/* A message with descriptors beside it. */
struct packet {
    struct message message;
    struct iovec vector;
    _Alignas(struct cmsghdr) char beside[CMSG_SPACE(MESSAGE_MAX * sizeof(int))];
    struct msghdr header;
};

static void prepare(struct packet *packet)
{
    *packet = (struct packet){.message = {.format = FORMAT}};
    packet->vector = (struct iovec){&packet->message, sizeof(packet->message)};
    packet->header = (struct msghdr){.msg_iov = &packet->vector,
                                     .msg_iovlen = 1,
                                     .msg_control = packet->beside,
                                     .msg_controllen = sizeof(packet->beside)};
}

static void put_descriptors(struct packet *packet, const struct lent_event *events, uint32_t count)
{
    struct cmsghdr *const head = CMSG_FIRSTHDR(&packet->header);

    *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                             .cmsg_type = SCM_RIGHTS,
                             .cmsg_len = CMSG_LEN(count * sizeof(int))};
    for (uint32_t i = 0; i < count; i++) {
        packet->message.cpus[i] = events[i].cpu;
        memcpy(CMSG_DATA(head) + i * sizeof(int), &events[i].fd, sizeof(int));
    }
    packet->header.msg_controllen = CMSG_SPACE(count * sizeof(int));
}

int lend_send(int socket, uint64_t config, const struct lent_event *events, size_t count)
{
    struct packet packet;

    for (size_t first = 0; first < count; first += packet.message.count) {
        const size_t left = count - first;

        prepare(&packet);
        packet.message.config = config;
        packet.message.total = (uint32_t)count;
        packet.message.first = (uint32_t)first;
        packet.message.count = left < MESSAGE_MAX ? (uint32_t)left : MESSAGE_MAX;
        put_descriptors(&packet, events + first, packet.message.count);
        if (sendmsg(socket, &packet.header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            return -errno;
    }
    return 0;
}

/* ---- The other side ---- */

/* How many descriptors came; they are open from here on. */
static uint32_t take_descriptors(struct packet *packet, int *fds)
{
    const struct cmsghdr *const head = CMSG_FIRSTHDR(&packet->header);
    uint32_t count;

    if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
        return 0;
    count = (uint32_t)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(fds, CMSG_DATA(head), count * sizeof(int));
    return count;
}

static bool fits(const struct packet *packet, const struct lent *lent, ssize_t bytes,
                 uint32_t descriptors)
{
    const struct message *const message = &packet->message;

    return bytes == (ssize_t)sizeof(*message) && message->format == FORMAT &&
           !(packet->header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && message->total > 0 &&
           message->total <= LEND_EVENTS_MAX && message->first == lent->count &&
           message->count == descriptors && descriptors > 0 &&
           descriptors <= message->total - message->first;
}

/* The next events. 0, or -errno and why. *total: how many there are. */
static int receive_some(int socket, struct lent *lent, uint32_t *total, struct reason *why)
{
    struct packet packet;
    struct lent_event *more = NULL;
    int fds[MESSAGE_MAX];
    uint32_t count;
    ssize_t bytes;

    prepare(&packet);
    bytes = recvmsg(socket, &packet.header, MSG_CMSG_CLOEXEC);
    if (bytes < 0)
        return reason_set(why, -errno, "the recorder does not answer: %s", strerror(errno));
    if (bytes == 0)
        return reason_set(why, -ECONNREFUSED,
                          "the recorder lends nothing: it ends, or has as many guests as it takes");
    count = take_descriptors(&packet, fds);
    if (fits(&packet, lent, bytes, count))
        more = realloc(lent->events, (lent->count + count) * sizeof(*more));
    for (uint32_t i = 0; i < count; i++) {
        if (more)
            more[lent->count + i] = (struct lent_event){packet.message.cpus[i], fds[i]};
        else
            (void)close(fds[i]);
    }
    if (!more)
        return reason_set(why, -EBADMSG, "this is no recorder of this version of vpt");
    lent->events = more;
    lent->count += count;
    lent->config = packet.message.config;
    *total = packet.message.total;
    return 0;
}

int lend_receive(int socket, struct lent *lent, struct reason *why)
{
    uint32_t total = 0;
    int error;

    *lent = (struct lent){.count = 0};
    do {
        error = receive_some(socket, lent, &total, why);
    } while (!error && lent->count < total);
    if (error)
        lend_close(lent);
    return error;
}

bool lend_goes_on(int socket)
{
    struct pollfd state = {.fd = socket, .events = POLLIN}; /* nothing more is said */
    int told;

    do /* a signal that waits ends it, though nothing is waited for: guests are kicked by signals */
        told = poll(&state, 1, 0);
    while (told < 0 && errno == EINTR);
    return told == 0;
}

void lend_close(struct lent *lent)
{
    for (size_t i = 0; i < lent->count; i++)
        (void)close(lent->events[i].fd);
    free(lent->events);
    *lent = (struct lent){.count = 0};
}
