/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes the memory of a domain of libvirt as vpt record --memory does, which needs a host with
 * Intel PT for the rest of its work.
 *
 *   dump URI DOMAIN FILE
 */
#include "common/say.h"
#include "monitor/dump.h"

#include <inttypes.h>
#include <stdio.h>

/* 0 or an exit code. */
static int dump_to(struct monitor *monitor, const char *path)
{
    struct reason why = {0};
    char name[64];
    int error = dump_name(monitor, name, sizeof(name), &why);

    if (!error)
        printf("%s has %" PRIu64 " bytes\n", name, dump_size(monitor));
    if (!error)
        error = dump_write(monitor, path, NULL, &why);
    return complain_of(error, &why);
}

int main(int argc, char **argv)
{
    struct monitor monitor;
    int code;

    if (argc != 4)
        return complain(EXIT_CODE_USAGE, "usage: dump URI DOMAIN FILE");
    if (!monitor_open_domain(&monitor, argv[1], argv[2]))
        return complain(EXIT_CODE_HOST, "%s", monitor.why);
    code = dump_to(&monitor, argv[3]);
    monitor_close(&monitor);
    return code;
}
