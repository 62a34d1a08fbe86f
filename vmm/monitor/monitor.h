/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The monitor of a QEMU that runs (QMP): through its socket, or through libvirt if the guest is one
 * of libvirt's domains, which keeps the socket for itself.
 */
#ifndef VMM_MONITOR_H
#define VMM_MONITOR_H

#include <stdbool.h>
#include <stddef.h>

struct json_object;

#define MONITOR_TIMEOUT_S 30 /* for an answer */

struct monitor {
    /*
     * The answer to a command, one JSON object, to be freed. NULL: there is none, see why. A
     * descriptor goes along, unless it is negative.
     */
    char *(*send)(struct monitor *monitor, const char *command, int fd);
    /*
     * Writes the guest's memory to a new file, as an ELF core. NULL: QEMU is to be asked for it,
     * and nobody else listens to what it says. False: see why.
     */
    bool (*dump)(struct monitor *monitor, const char *path);
    void (*close)(struct monitor *monitor);
    void *backend;
    bool gone;     /* it failed because the guest has ended */
    char why[512]; /* one line, if something failed */
};

/* Those of one QEMU. False: see why; nothing has to be closed. */
bool monitor_open_socket(struct monitor *monitor, const char *path);                  /* qmp.c */
bool monitor_open_domain(struct monitor *monitor, const char *uri, const char *name); /* libvirt/ */
void monitor_close(struct monitor *monitor);

/*
 * What a command returns, to be put. NULL: an error, see why. arguments may be NULL; they are put
 * in any case.
 */
struct json_object *monitor_execute(struct monitor *monitor, const char *command,
                                    struct json_object *arguments);
/* The same; QEMU gets a descriptor of its own of what fd is. */
struct json_object *monitor_execute_with(struct monitor *monitor, const char *command,
                                         struct json_object *arguments, int fd);

#endif
