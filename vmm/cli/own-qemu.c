/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our QEMU: which the environment names; which a package installed beside the program; else that of
 * `make qemu`, in the cache.
 */
#include "cli/own-qemu.h"
#include "common/data.h"
#include "common/say.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void own_qemu(char *path, size_t bytes)
{
    const char *own = getenv("VPT_QEMU");
    char dir[PATH_MAX - 64];

    data_cache("qemu", dir, sizeof(dir));
    if (own && *own)
        snprintf(path, bytes, "%s", own);
    else if (!data_program("qemu-system-x86_64", path, bytes))
        snprintf(path, bytes, "%s/build/qemu-system-x86_64", dir);
}

int no_own_qemu(const char *path, int error)
{
    char dir[PATH_MAX], how[2 * PATH_MAX];

    data_cache("qemu", dir, sizeof(dir));
    data_how("qemu", "vmm/qemu/build.sh", dir, how, sizeof(how));
    return complain(EXIT_CODE_HOST, "%s: %s; to build it, run: %s", path, strerror(error), how);
}
