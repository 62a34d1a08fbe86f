/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the files are that belong to the program (data.h).
 */
#include "common/data.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_there(const char *folder, const char *name, char *path, size_t path_bytes)
{
    const int len = snprintf(path, path_bytes, "%s/%s", folder, name);

    return len > 0 && (size_t)len < path_bytes && access(path, R_OK) == 0;
}

/* A folder, as seen from that of the program. False: it is not there. */
static bool from_program(const char *other, char *folder, size_t folder_bytes)
{
    char program[PATH_MAX], real[PATH_MAX];
    const ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char *end;

    if (len <= 0)
        return false;
    program[len] = '\0';
    end = strrchr(program, '/');
    if (!end)
        return false;
    snprintf(end, sizeof(program) - (size_t)(end - program), "/%s", other);
    if (!realpath(program, real))
        return false;
    return snprintf(folder, folder_bytes, "%s", real) < (int)folder_bytes;
}

bool data_file(const char *name, char *path, size_t path_bytes)
{
    static const char *const places[] = {"../share/vpt", ".."};
    const char *own = getenv("VPT_DATA");
    char folder[PATH_MAX];

    if (own && *own)
        return is_there(own, name, path, path_bytes);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (from_program(places[i], folder, sizeof(folder)) &&
            is_there(folder, name, path, path_bytes))
            return true;
    }
    return false;
}

bool data_program(const char *name, char *path, size_t path_bytes)
{
    char folder[PATH_MAX];

    return from_program("../libexec/vpt", folder, sizeof(folder)) &&
           is_there(folder, name, path, path_bytes);
}

bool data_image(const char *name, char *path, size_t path_bytes)
{
    static const char *const folders[] = {"guests", "guest-tests/build"};
    char file[PATH_MAX];

    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        if (snprintf(file, sizeof(file), "%s/%s", folders[i], name) < (int)sizeof(file) &&
            data_file(file, path, path_bytes))
            return true;
    }
    return false;
}

const char *data_guest(const char *name, char *path, size_t path_bytes)
{
    if (strchr(name, '/') || access(name, F_OK) == 0)
        return name;
    return data_image(name, path, path_bytes) ? path : name;
}

void data_cache(const char *name, char *folder, size_t folder_bytes)
{
    const char *cache = getenv("VPT_CACHE"), *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");

    if (cache && *cache)
        snprintf(folder, folder_bytes, "%s/%s", cache, name);
    else if (xdg && *xdg)
        snprintf(folder, folder_bytes, "%s/vpt/%s", xdg, name);
    else
        snprintf(folder, folder_bytes, "%s/.cache/vpt/%s", home ? home : "", name);
}

void data_how(const char *target, const char *script, const char *folder, char *text,
              size_t text_bytes)
{
    char path[PATH_MAX];

    if (!data_file("Makefile", path, sizeof(path)) && data_file(script, path, sizeof(path)))
        snprintf(text, text_bytes, "%s %s", path, folder);
    else
        snprintf(text, text_bytes, "make %s", target);
}
