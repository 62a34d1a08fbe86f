/* SPDX-License-Identifier: BSD-3-Clause */
#include "port.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <time.h>
#include <unistd.h>

#define PORTS   "/sys/class/virtio-ports"
#define TRIES   500 /* of 10 ms */
#define TURN_NS 10000000

int port = -1;

void power_off(void)
{
    (void)reboot(RB_POWER_OFF);
    for (;;)
        (void)pause();
}

/* ---- The port ---- */

static bool has_name(const char *device)
{
    char path[512], name[64] = "";
    FILE *file;
    bool is_it;

    (void)snprintf(path, sizeof(path), PORTS "/%s/name", device);
    file = fopen(path, "re");
    if (!file)
        return false;
    is_it = fgets(name, sizeof(name), file) && strcmp(name, WIRE_PORT "\n") == 0;
    (void)fclose(file);
    return is_it;
}

static int open_named_port(void)
{
    DIR *const ports = opendir(PORTS);
    char path[512];
    int fd = -1;

    if (!ports)
        return -1;
    for (struct dirent *entry; fd < 0 && (entry = readdir(ports));) {
        if (entry->d_name[0] == '.' || !has_name(entry->d_name))
            continue;
        (void)snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
        fd = open(path, O_RDWR | O_CLOEXEC);
    }
    (void)closedir(ports);
    return fd;
}

bool port_open(void)
{
    const struct timespec turn = {.tv_nsec = TURN_NS};

    for (int tries = 0; tries < TRIES && (port = open_named_port()) < 0; tries++)
        (void)nanosleep(&turn, NULL);
    return port >= 0;
}

/* ---- Frames ---- */

static void write_all(const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        const ssize_t n = write(port, at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            power_off();
        at += n;
        len -= (size_t)n;
    }
}

static void read_all(void *bytes, size_t len)
{
    struct pollfd poll_fd = {.fd = port, .events = POLLIN};
    char *at = bytes;

    while (len > 0) {
        ssize_t n;

        if (poll(&poll_fd, 1, -1) < 0 && errno != EINTR)
            power_off();
        n = read(port, at, len);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            power_off();
        at += n;
        len -= (size_t)n;
    }
}

void port_send_parts(enum wire_type type, const void *first, size_t first_len, const void *second,
                     size_t second_len)
{
    const struct wire_head head = {.type = type, .len = (uint32_t)(first_len + second_len)};

    write_all(&head, sizeof(head));
    write_all(first, first_len);
    write_all(second, second_len);
}

void port_send(enum wire_type type, const void *bytes, size_t len)
{
    port_send_parts(type, bytes, len, "", 0);
}

struct wire_head port_read(void *bytes, size_t room)
{
    struct wire_head head;

    read_all(&head, sizeof(head));
    if (head.len > room)
        power_off();
    read_all(bytes, head.len);
    return head;
}

void port_fail(const char *what)
{
    const struct wire_failure failure = {.error = (uint32_t)errno};

    port_send_parts(WIRE_FAILED, &failure, sizeof(failure), what, strlen(what));
    for (;;)
        (void)pause(); /* the host ends the guest when it has read this */
}
