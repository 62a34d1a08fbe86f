/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line, one row of a table for each option, see options.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "options.h"

__attribute__((format(printf, 1, 2))) static bool complain(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)fprintf(stderr, "replay: ");
    (void)vfprintf(stderr, format, arguments);
    (void)fprintf(stderr, "\n");
    va_end(arguments);
    return false;
}

/* ---- Values ---- */

/* A number up to a character of ends, or up to the end. */
static bool number(const char **text, const char *ends, uint64_t *value)
{
    char *end;

    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *value = strtoull(*text, &end, 0);
    if (errno || (*end && !strchr(ends, *end)))
        return false;
    *text = end;
    return true;
}

static bool whole_number(const char *text, uint64_t most, uint64_t *value)
{
    return number(&text, "", value) && *value <= most;
}

static bool read_range(const char *text, uint64_t *first, uint64_t *last)
{
    if (!number(&text, "-", first) || *text != '-')
        return false;
    text++;
    return number(&text, "", last) && *first <= *last;
}

/* ---- Options ---- */

static bool set_cpu(struct options *options, const char *value)
{
    unsigned stepping = 0;
    int end = 0;

    if (sscanf(value, "%u/%u%n", &options->family, &options->model, &end) < 2)
        return false;
    if (value[end] == '/' && sscanf(value + end, "/%u%n", &stepping, &(int){0}) < 1)
        return false;
    options->stepping = stepping;
    options->has_cpu = true;
    return true;
}

static bool set_profile(struct options *options, const char *value)
{
    options->profile = value;
    return true;
}

static bool add_elf(struct options *options, const char *value)
{
    const char *text = value;
    uint64_t bias = 0;

    if (number(&text, ":", &bias) && *text == ':')
        value = text + 1;
    else
        bias = 0;
    options->has_image = true;

    const int status = ptd_image_add_elf(options->image, value, bias, PTD_ANY_CR3);

    return status == PTD_OK || complain("%s: %s", value, ptd_strerror(status));
}

static bool add_raw(struct options *options, const char *value)
{
    uint64_t vaddr, offset = 0, len_bytes = UINT64_MAX;
    const char *text = value;

    if (!number(&text, ",:", &vaddr))
        return false;
    if (*text == ',' && (text++, !number(&text, ",:", &offset)))
        return false;
    if (*text == ',' && (text++, !number(&text, ":", &len_bytes)))
        return false;
    if (*text != ':')
        return false;
    options->has_image = true;

    const int status = code_add_raw(options->image, text + 1, offset, len_bytes, vaddr);

    return status == PTD_OK || complain("%s: %s", text + 1, ptd_strerror(status));
}

static bool add_pages(struct options *options, const char *value)
{
    const int status = code_add_pages(options->image, value);

    options->has_image = true;
    return status == PTD_OK || complain("%s.addr, %s.dump: %s", value, value, ptd_strerror(status));
}

static bool add_filter(struct options *options, const char *value)
{
    const unsigned n = options->filters + options->stops;

    return n < 4 &&
           read_range(value, &options->filter[options->filters].first,
                      &options->filter[options->filters].last) &&
           ++options->filters;
}

static bool add_stop(struct options *options, const char *value)
{
    const unsigned n = options->filters + options->stops;

    return n < 4 &&
           read_range(value, &options->stop[options->stops].first,
                      &options->stop[options->stops].last) &&
           ++options->stops;
}

static bool set_user(struct options *options, const char *value)
{
    (void)value;
    return options->user_only = true;
}

static bool set_kernel(struct options *options, const char *value)
{
    (void)value;
    return options->kernel_only = true;
}

static bool set_nonroot(struct options *options, const char *value)
{
    (void)value;
    return options->nonroot = true;
}

static bool set_retc(struct options *options, const char *value)
{
    if (strcmp(value, "on") == 0)
        options->retc = RETC_ON;
    else if (strcmp(value, "off") == 0)
        options->retc = RETC_OFF;
    else
        return strcmp(value, "try") == 0;
    return true;
}

static bool set_mtc_freq(struct options *options, const char *value)
{
    uint64_t freq;

    if (!whole_number(value, 15, &freq))
        return false;
    options->mtc_freq = (int)freq;
    return true;
}

static bool set_mode(struct options *options, const char *value)
{
    uint64_t bits;

    if (!whole_number(value, 64, &bits) || (bits != 16 && bits != 32 && bits != 64))
        return false;
    options->mode = bits == 64 ? PTD_MODE_64 : bits == 32 ? PTD_MODE_32 : PTD_MODE_16;
    return true;
}

static bool set_cr3(struct options *options, const char *value)
{
    return whole_number(value, UINT64_MAX - 1, &options->cr3);
}

static const struct option_row {
    const char *name, *value, *what;
    bool (*take)(struct options *options, const char *value);
} rows[] = {
    {"cpu", "FAMILY/MODEL[/STEPPING]",
     "the processor, in decimal numbers as /proc/cpuinfo has them: 6/94/3", set_cpu},
    {"profile", "NAME", "the model's profile, instead of the one that --cpu has", set_profile},
    {"elf", "[BIAS:]FILE",
     "a program, a library, a kernel or a kcore, and how far above its addresses", add_elf},
    {"raw", "ADDRESS[,OFFSET[,BYTES]]:FILE", "bytes of a file that stand at an address", add_raw},
    {"pages", "NAME",
     "a page cache: NAME.addr holds addresses of 8 bytes, NAME.dump the page of each", add_pages},
    {"filter", "FIRST-LAST", "a range of the IP filter, up to 4 of them", add_filter},
    {"stop", "FIRST-LAST", "a TraceStop range", add_stop},
    {"user", NULL, "only user mode was traced (default, if the trace has no PIP)", set_user},
    {"kernel", NULL, "only the kernel was traced", set_kernel},
    {"nonroot", NULL, "a guest was traced, in VMX non-root operation, even if no PIP says so",
     set_nonroot},
    {"retc", "on|off|try", "RETs were compressed; try: whatever fits better", set_retc},
    {"mtc-freq", "N", "RTIT_CTL.MTCFreq (default: as the first TMA and MTC have it)", set_mtc_freq},
    {"mode", "16|32|64", "of the code, until the trace says (64)", set_mode},
    {"cr3", "CR3", "until the trace says (0)", set_cr3},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void help(void)
{
    printf("usage: replay [OPTION]... TRACE...\n\n"
           "Decodes traces of Intel PT hardware, tells the model of this project what the\n"
           "processor did, and compares packet by packet. Each TRACE holds raw packets, or is\n"
           "a perf.data or the trace.json of LLDB's `trace save`, which bring their processor\n"
           "and their code. docs/replay.md says how to record one. Numbers may be hexadecimal,\n"
           "with 0x.\n\n");
    for (size_t i = 0; i < ROWS; i++)
        printf("  --%s%s%s\n        %s\n", rows[i].name, rows[i].value ? " " : "",
               rows[i].value ? rows[i].value : "", rows[i].what);
    printf("  --help\n\nEnds with 'N passed, N failed'.\n");
}

/* Takes the option at argv[*i]. */
static bool take(struct options *options, int argc, char **argv, int *i)
{
    const char *const name = argv[*i] + 2;

    for (size_t row = 0; row < ROWS; row++) {
        const char *value = NULL;

        if (strcmp(name, rows[row].name) != 0)
            continue;
        if (rows[row].value && *i + 1 == argc)
            return complain("--%s needs a value, %s", name, rows[row].value);
        if (rows[row].value)
            value = argv[++*i];
        return rows[row].take(options, value) ||
               complain("--%s %s: not %s", name, value ? value : "",
                        rows[row].value ? rows[row].value : "possible");
    }
    return complain("there is no option %s; see --help", argv[*i]);
}

bool options_read(struct options *options, int argc, char **argv, int *exit_code)
{
    int i = 1;

    *exit_code = 2;
    *options = (struct options){.mtc_freq = -1, .mode = PTD_MODE_64, .image = ptd_image_new()};
    if (!options->image)
        return complain("no memory");
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], "--", 2) != 0) {
            argv[1 + options->traces++] = argv[i];
            continue;
        }
        if (strcmp(argv[i], "--help") == 0) {
            help();
            *exit_code = 0;
            return false;
        }
        if (!take(options, argc, argv, &i))
            return false;
    }
    while (++i < argc) /* behind "--" */
        argv[1 + options->traces++] = argv[i];
    if (options->user_only && options->kernel_only)
        return complain("--user and --kernel exclude each other");
    if (options->traces == 0)
        return complain("no trace is given; see --help");
    return true;
}

void options_free(struct options *options)
{
    ptd_image_free(options->image);
}
