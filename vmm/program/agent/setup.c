/* SPDX-License-Identifier: BSD-3-Clause */
#include "setup.h"
#include "port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ORDER "/modules/order"

/* What QEMU's network of user mode gives its guest. */
#define NET_DEVICE  "eth0"
#define NET_ADDRESS "10.0.2.15"
#define NET_MASK    "255.255.255.0"
#define NET_GATEWAY "10.0.2.2"
#define NET_NAMES   "nameserver 10.0.2.3\n"

/* ---- The kernel ---- */

static void load_module(const char *name)
{
    char path[256];
    int fd;

    (void)snprintf(path, sizeof(path), "/modules/%s", name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || syscall(SYS_finit_module, fd, "", 0) != 0)
        (void)printf("vpt: %s: %s\n", path, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
}

static void load_modules(void)
{
    FILE *const order = fopen(ORDER, "re");
    char name[128];

    while (order && fgets(name, sizeof(name), order)) {
        name[strcspn(name, "\n")] = '\0';
        load_module(name);
    }
    if (order)
        (void)fclose(order);
}

void setup_kernel(void)
{
    (void)mkdir("/proc", 0755);
    (void)mkdir("/sys", 0755);
    (void)mkdir("/dev", 0755);
    (void)mount("proc", "/proc", "proc", 0, "");
    (void)mount("sysfs", "/sys", "sysfs", 0, "");
    (void)mount("devtmpfs", "/dev", "devtmpfs", 0, "");
    load_modules();
}

/* ---- Files ---- */

static void mount_or_fail(const char *what, const char *where, const char *type,
                          unsigned long flags, const char *words)
{
    if (mount(what, where, type, flags, words) != 0)
        port_fail(where);
}

static void make_folder(const char *path, mode_t mode)
{
    if (mkdir(path, mode) != 0 && errno != EEXIST)
        port_fail(path);
}

/* What a system has that no host's file can be. */
static void mount_own(void)
{
    mount_or_fail("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "");
    mount_or_fail("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, "");
    mount_or_fail("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, "");
    make_folder("/dev/pts", 0755);
    make_folder("/dev/shm", 01777);
    mount_or_fail("devpts", "/dev/pts", "devpts", MS_NOSUID, "ptmxmode=0666");
    mount_or_fail("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
    (void)mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, "");
    /* What links of /dev are on every system. */
    (void)symlink("/proc/self/fd", "/dev/fd");
    (void)symlink("fd/0", "/dev/stdin");
    (void)symlink("fd/1", "/dev/stdout");
    (void)symlink("fd/2", "/dev/stderr");
}

void setup_files(void)
{
    make_folder("/lower", 0755);
    make_folder("/layer", 0755);
    make_folder("/root", 0755);
    /* The host's files do not change for who reads them here: what was read may be kept. */
    mount_or_fail("host", "/lower", "9p", MS_RDONLY | MS_NOSUID | MS_NODEV,
                  "trans=virtio,version=9p2000.L,cache=loose,msize=524288,access=any");
    mount_or_fail("tmpfs", "/layer", "tmpfs", MS_NOSUID | MS_NODEV, "size=75%,mode=755");
    make_folder("/layer/upper", 0755);
    make_folder("/layer/work", 0755);
    mount_or_fail("overlay", "/root", "overlay", MS_NOSUID | MS_NODEV,
                  "lowerdir=/lower,upperdir=/layer/upper,workdir=/layer/work,xino=off");
    if (chdir("/root") != 0 || mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0 ||
        chdir("/") != 0)
        port_fail("the root of the guest");
    mount_own();
}

/* ---- The network ---- */

static struct sockaddr inet_of(const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr address;

    (void)inet_pton(AF_INET, text, &in.sin_addr);
    memcpy(&address, &in, sizeof(address));
    return address;
}

static void bring_up(int fd, const char *device, const char *ip, const char *mask)
{
    struct ifreq request = {0};

    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
    request.ifr_addr = inet_of(ip);
    if (ioctl(fd, SIOCSIFADDR, &request) != 0)
        port_fail(device);
    request.ifr_netmask = inet_of(mask);
    if (ioctl(fd, SIOCSIFNETMASK, &request) != 0)
        port_fail(device);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(fd, SIOCSIFFLAGS, &request) != 0)
        port_fail(device);
}

static void name_servers(void)
{
    int fd;

    (void)unlink("/etc/resolv.conf"); /* it may be a link into a folder that is not there */
    fd = open("/etc/resolv.conf", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, NET_NAMES, strlen(NET_NAMES)) < 0)
        port_fail("/etc/resolv.conf");
    (void)close(fd);
}

void setup_network(int has_network)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY};

    if (fd < 0)
        port_fail("a socket");
    bring_up(fd, "lo", "127.0.0.1", "255.0.0.0");
    if (has_network) {
        bring_up(fd, NET_DEVICE, NET_ADDRESS, NET_MASK);
        route.rt_dst = inet_of("0.0.0.0");
        route.rt_genmask = inet_of("0.0.0.0");
        route.rt_gateway = inet_of(NET_GATEWAY);
        if (ioctl(fd, SIOCADDRT, &route) != 0)
            port_fail("the route to the network");
        name_servers();
    }
    (void)close(fd);
}
