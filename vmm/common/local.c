/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets with a path, see local.h. */
#include "common/local.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int open_at(const char *path, int type, struct sockaddr_un *address)
{
    int fd;

    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address->sun_path))
        return -ENAMETOOLONG;
    memcpy(address->sun_path, path, strlen(path));
    fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

static int give_up(int fd)
{
    const int error = -errno;

    (void)close(fd);
    return error;
}

int local_connect(const char *path, int type)
{
    struct sockaddr_un address;
    const int fd = open_at(path, type, &address);

    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    return give_up(fd);
}

int local_listen(const char *path, int type, int waiting)
{
    struct sockaddr_un address;
    const int fd = open_at(path, type, &address);

    if (fd < 0 || (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                   chmod(path, 0600) == 0 && listen(fd, waiting) == 0))
        return fd;
    return give_up(fd);
}
