/* SPDX-License-Identifier: BSD-3-Clause */
#include "program/features.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* What programs are compiled for, or ask CPUID for, by the names or their beginnings. */
static const char *const extensions[] = {
    "avx512",     "avx10",    "avx_",       "avx2",      "fma",      "f16c",       "vaes",
    "vpclmulqdq", "gfni",     "sha_ni",     "sha512",    "sm3",      "sm4",        "amx_",
    "rdrand",     "rdseed",   "adx",        "bmi1",      "bmi2",     "movbe",      "movdiri",
    "movdir64b",  "clwb",     "clflushopt", "cldemote",  "waitpkg",  "serialize",  "pku",
    "ospke",      "rtm",      "hle",        "fsgsbase",  "rdpid",    "rdtscp",     "cx16",
    "uintr",      "tsxldtrk", "xsavec",     "xop",       "fma4",     "tbm",        "lwp",
    "sse4a",      "3dnow",    "ptwrite",    "enqcmd",    "wbnoinvd", "user_shstk", "clzero",
    "monitorx",   "rdpru",    "aes",        "pclmulqdq", "popcnt",   "sse4",       "abm",
};

static bool is_extension(const char *word, size_t len)
{
    for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
        const size_t name = strlen(extensions[i]);

        /* A name that may go on ends with a digit of a family or an underscore. */
        if (len >= name && memcmp(word, extensions[i], name) == 0 &&
            (len == name || extensions[i][name - 1] == '_' || strncmp(word, "avx", 3) == 0 ||
             strncmp(word, "sse4", 4) == 0))
            return true;
    }
    return false;
}

static bool has_word(const char *text, const char *word, size_t len)
{
    for (const char *at = text; (at = strstr(at, " ")) != NULL;) {
        at++;
        if (strncmp(at, word, len) == 0 && (at[len] == '\0' || isspace((unsigned char)at[len])))
            return true;
    }
    return false;
}

bool features_missing(const char *here, const char *there, char *text, size_t text_bytes)
{
    const char *at = strchr(here, ':');
    size_t used = 0;

    *text = '\0';
    while (at && *at) {
        const size_t len = strcspn(at, " \t\n");

        if (len > 0 && is_extension(at, len) && !has_word(there, at, len) &&
            used + (used > 0) + len < text_bytes) {
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%.*s", used ? " " : "",
                                     (int)len, at);
        }
        at += len;
        at += strspn(at, " \t\n");
    }
    return used > 0;
}

void features_here(char *text, size_t text_bytes)
{
    FILE *const file = fopen("/proc/cpuinfo", "re");
    bool found = false;

    while (file && !found && fgets(text, (int)text_bytes, file))
        found = strncmp(text, "flags", 5) == 0;
    if (!found)
        *text = '\0';
    if (file)
        (void)fclose(file);
}
