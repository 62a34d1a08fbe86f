/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QEMU's monitor by libvirt. Its library is loaded when it is needed: the lab runs this program
 * too, and has no use for the forty libraries that come with it.
 */
#include "monitor/monitor.h"

#include <dlfcn.h>
#include <libvirt/libvirt-qemu.h>
#include <libvirt/virterror.h>
#include <stdio.h>
#include <stdlib.h>

#define LIBRARY "libvirt-qemu.so.0" /* needs libvirt.so.0 */

struct domain {
    void *library;
    virConnectPtr connection;
    virDomainPtr domain;
    /* Functions of the library. */
    __typeof__(virSetErrorFunc) *set_error;
    __typeof__(virGetLastErrorMessage) *last_error;
    __typeof__(virConnectOpen) *open;
    __typeof__(virConnectClose) *close;
    __typeof__(virDomainLookupByName) *look_up;
    __typeof__(virDomainFree) *free;
    __typeof__(virDomainIsActive) *is_active;
    __typeof__(virDomainQemuMonitorCommand) *command;
    __typeof__(virDomainCoreDumpWithFormat) *dump;
    /* virDomainQemuMonitorCommandWithFiles(), since libvirt 8.2; NULL: it is older. */
    int (*command_with)(virDomainPtr domain, const char *command, unsigned in_count, int *in,
                        unsigned *out_count, int **out, char **answer, unsigned flags);
};

/* The library would print errors by itself. */
static void say_nothing(void *data, virErrorPtr error)
{
    (void)data;
    (void)error;
}

static bool load(struct domain *domain)
{
    const struct {
        const char *name;
        void **at;
    } functions[] = {
        {"virSetErrorFunc", (void **)&domain->set_error},
        {"virGetLastErrorMessage", (void **)&domain->last_error},
        {"virConnectOpen", (void **)&domain->open},
        {"virConnectClose", (void **)&domain->close},
        {"virDomainLookupByName", (void **)&domain->look_up},
        {"virDomainFree", (void **)&domain->free},
        {"virDomainIsActive", (void **)&domain->is_active},
        {"virDomainQemuMonitorCommand", (void **)&domain->command},
        {"virDomainCoreDumpWithFormat", (void **)&domain->dump},
    };

    domain->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!domain->library)
        return false;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        *functions[i].at = dlsym(domain->library, functions[i].name);
        if (!*functions[i].at)
            return false;
    }
    *(void **)&domain->command_with =
        dlsym(domain->library, "virDomainQemuMonitorCommandWithFiles");
    domain->set_error(NULL, say_nothing);
    return true;
}

static void say(struct monitor *monitor, const char *what)
{
    snprintf(monitor->why, sizeof(monitor->why), "libvirt: %.400s", what);
}

static char *domain_send(struct monitor *monitor, const char *command, int fd)
{
    struct domain *const domain = monitor->backend;
    char *answer = NULL;
    int result;

    if (fd >= 0 && !domain->command_with) {
        say(monitor, "it is too old to hand files over (8.2 or newer does); see --by-qemu");
        return NULL;
    }
    if (fd >= 0)
        result = domain->command_with(domain->domain, command, 1, &fd, NULL, NULL, &answer, 0);
    else
        result = domain->command(domain->domain, command, &answer, 0);
    if (result == 0)
        return answer;
    say(monitor, domain->last_error());
    monitor->gone = domain->is_active(domain->domain) != 1;
    return NULL;
}

/*
 * By libvirt's own function. QEMU's command would do, but the daemon of libvirt 9 crashes when QEMU
 * tells of the end of a dump that it has not asked for itself.
 */
static bool domain_dump(struct monitor *monitor, const char *path)
{
    struct domain *const domain = monitor->backend;

    if (domain->dump(domain->domain, path, VIR_DOMAIN_CORE_DUMP_FORMAT_RAW, VIR_DUMP_MEMORY_ONLY) ==
        0)
        return true;
    say(monitor, domain->last_error());
    return false;
}

/* The library stays: it has threads and handlers of its own. */
static void domain_close(struct monitor *monitor)
{
    struct domain *const domain = monitor->backend;

    if (domain->domain)
        (void)domain->free(domain->domain);
    if (domain->connection)
        (void)domain->close(domain->connection);
    free(domain);
}

bool monitor_open_domain(struct monitor *monitor, const char *uri, const char *name)
{
    struct domain *const domain = calloc(1, sizeof(*domain));

    *monitor = (struct monitor){
        .send = domain_send, .dump = domain_dump, .close = domain_close, .backend = domain};
    if (!domain) {
        say(monitor, "no memory");
        return false;
    }
    if (!load(domain)) {
        const char *const error = dlerror();

        say(monitor, error ? error : "not what was expected");
    } else if (!(domain->connection = domain->open(uri)) ||
               !(domain->domain = domain->look_up(domain->connection, name))) {
        say(monitor, domain->last_error());
    } else {
        return true;
    }
    domain_close(monitor);
    return false;
}
