/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt capture: a guest that runs is traced from outside, without its knowledge (docs/qemu.md).
 */
#include "cli/commands.h"
#include "common/escape.h"
#include "common/json.h"
#include "common/number.h"
#include "common/say.h"
#include "monitor/monitor.h"
#include "trace/clock.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SECONDS_MAX  (7u * 24 * 3600)
#define TURN_NS      100000000 /* how long a stop may go unseen */
#define TURNS_A_LOOK 10        /* the captures are looked at once a second */
#define RING_MIN     (128ull << 10)
#define RING_MAX     (1ull << 30)

struct capture_options {
    const char *domain, *uri, *socket, *file;
    uint64_t seconds; /* 0: until a signal comes */
    bool ring, json;
    json_object *arguments; /* of x-vpt-start; those below are in it */
    json_object *path, *ranges, *images;
};

static volatile sig_atomic_t stopped, asked; /* to end; to save the ring */

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

static void ask(int number)
{
    (void)number;
    asked = 1;
}

/* ---- Options ---- */

/* QEMU runs elsewhere: names have to be absolute. NULL: no memory. */
static json_object *absolute(const char *file)
{
    char *here = *file == '/' ? strdup("") : getcwd(NULL, 0), *path = NULL;
    json_object *name = NULL;

    if (here && asprintf(&path, "%s%s%s", here, *file == '/' ? "" : "/", file) >= 0)
        name = json_object_new_string(path);
    free(path);
    free(here);
    return name;
}

static json_object *list(struct capture_options *options, const char *key, json_object **array)
{
    if (!*array) {
        *array = json_object_new_array();
        json_object_object_add(options->arguments, key, *array);
    }
    return *array;
}

static int add_image(void *parsed, const char *argument)
{
    struct capture_options *const options = parsed;
    json_object *const image = json_object_new_object();
    uint64_t bias;
    char *const file = split_bias(argument, &bias);
    char *const path = file ? realpath(file, NULL) : NULL;
    const int error = errno;

    if (path) {
        json_object_object_add(image, "path", json_object_new_string(path));
        if (bias)
            json_add_number(image, "bias", bias);
        json_object_array_add(list(options, "images", &options->images), image);
    } else {
        json_object_put(image);
    }
    free(path);
    free(file);
    return path ? 0 : file_error(argument, -error);
}

static int add_range(void *parsed, const char *text)
{
    struct capture_options *const options = parsed;
    const char *const dash = strchr(text, '-');
    char *const first = dash ? strndup(text, (size_t)(dash - text)) : NULL;
    json_object *range;
    uint64_t from = 0, to = 0;
    const bool valid =
        first && parse_number(first, &from) && parse_number(dash + 1, &to) && from <= to;

    free(first);
    if (!valid)
        return complain(EXIT_CODE_USAGE, "--range takes FIRST-LAST, not '%s'", text);
    range = json_object_new_object();
    json_add_number(range, "first", from);
    json_add_number(range, "last", to);
    json_object_array_add(list(options, "ranges", &options->ranges), range);
    return 0;
}

static int add_only(void *parsed, const char *text)
{
    struct capture_options *const options = parsed;
    const bool kernel = strcmp(text, "kernel") == 0;

    if (!kernel && strcmp(text, "user") != 0)
        return complain(EXIT_CODE_USAGE, "--only takes kernel or user, not '%s'", text);
    json_object_object_add(options->arguments, "os", json_object_new_boolean(kernel));
    json_object_object_add(options->arguments, "user", json_object_new_boolean(!kernel));
    return 0;
}

static int add_cr3(void *parsed, const char *text)
{
    struct capture_options *const options = parsed;
    uint64_t value;
    const int error = option_number("--cr3", text, &value);

    if (!error)
        json_add_number(options->arguments, "cr3", value);
    return error;
}

static int add_ring(void *parsed, const char *text)
{
    struct capture_options *const options = parsed;
    const char *end;
    uint64_t bytes;

    if (!parse_bytes(text, 10, RING_MAX, &end, &bytes) || *end || bytes < RING_MIN)
        return complain(EXIT_CODE_USAGE, "--ring takes 128K to 1G, not '%s'", text);
    json_add_number(options->arguments, "ring", bytes);
    options->ring = true;
    return 0;
}

static int check_options(const struct capture_options *options, int files)
{
    if (!options->domain == !options->socket)
        return complain(EXIT_CODE_USAGE, "vpt capture takes --domain or --qmp");
    if (options->uri && !options->domain)
        return complain(EXIT_CODE_USAGE, "--connect is for --domain");
    if (files != 1)
        return complain(EXIT_CODE_USAGE, "vpt capture takes one FILE; see vpt capture --help");
    return 0;
}

static int add_flag(void *parsed, const char *key)
{
    struct capture_options *const options = parsed;

    json_object_object_add(options->arguments, key, json_object_new_boolean(1));
    return 0;
}

static int add_code(void *parsed, const char *value)
{
    (void)value;
    return add_flag(parsed, "code");
}

static int add_timing(void *parsed, const char *value)
{
    (void)value;
    return add_flag(parsed, "timing");
}

static const struct option_row options_of_capture[] = {
    {.name = "domain",
     .value = "NAME",
     .group = "Which guest",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct capture_options, domain),
     .help = "The guest is this domain of libvirt (docs/libvirt.md)."},
    {.name = "connect",
     .value = "URI",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct capture_options, uri),
     .help = "The connection to libvirt.",
     .fallback = "libvirt's own"},
    {.name = "qmp",
     .value = "SOCKET",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct capture_options, socket),
     .help = "The guest's QEMU has its monitor here: -qmp unix:SOCKET,server,nowait."},
    {.name = "seconds",
     .value = "N",
     .group = "What is kept",
     .kind = OPTION_NUMBER,
     .offset = offsetof(struct capture_options, seconds),
     .min = 1,
     .max = SECONDS_MAX,
     .help = "Ends after so many seconds.",
     .fallback = "until a signal comes or the guest ends"},
    {.name = "code",
     .kind = OPTION_CALL,
     .take = add_code,
     .help = "Keeps the code that runs, too: nothing else is needed to decode."},
    {.name = "ring",
     .value = "SIZE",
     .kind = OPTION_CALL,
     .take = add_ring,
     .help = "Keeps the last SIZE bytes (128K to 1G) of each processor in QEMU's memory. They are "
             "written at the end, and to FILE-1.N, FILE-2.N and so on whenever SIGUSR2 comes."},
    {.name = "image",
     .value = "ELF[@BIAS]",
     .kind = OPTION_CALL,
     .take = add_image,
     .help = "Code and names for the decoder; may be repeated."},
    {.name = "only",
     .value = "kernel|user",
     .kind = OPTION_CALL,
     .take = add_only,
     .help = "Traces CPL 0 only, or all others."},
    {.name = "cr3",
     .value = "VALUE",
     .kind = OPTION_CALL,
     .take = add_cr3,
     .help = "Traces this address space only."},
    {.name = "range",
     .value = "FIRST-LAST",
     .kind = OPTION_CALL,
     .take = add_range,
     .help = "Traces these addresses only; up to four times."},
    {.name = "timing",
     .kind = OPTION_CALL,
     .take = add_timing,
     .help = "Adds MTC and CYC packets."},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct capture_options, json),
     .help = "Prints what was captured as JSON."},
    {0},
};

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct capture_options *options)
{
    int code = options_parse(&command_capture, argc, argv, options);

    if (code)
        return code;
    code = check_options(options, argc - optind);
    options->file = argv[optind];
    return code ? 1 + code : 0;
}

/* ---- The capture ---- */

static int lost(const struct monitor *monitor)
{
    return complain(EXIT_CODE_HOST, "%s", monitor->why);
}

/* How much each processor's file has, by what x-vpt-query says. 0 or an exit code. */
static int look(const json_object *captures, uint64_t *bytes)
{
    *bytes = 0;
    if (!json_object_is_type(captures, json_type_array))
        return complain(EXIT_CODE_HOST, "QEMU's list of captures is none");
    if (json_object_array_length(captures) == 0)
        return complain(EXIT_CODE_HOST, "somebody else has ended the capture");
    for (size_t i = 0; i < json_object_array_length(captures); i++) {
        json_object *const one = json_object_array_get_idx(captures, i);
        json_object *value;

        if (!json_object_is_type(one, json_type_object))
            return complain(EXIT_CODE_HOST, "QEMU's list of captures is none");
        if (json_object_object_get_ex(one, "failed", &value) && json_object_get_boolean(value))
            return complain(EXIT_CODE_FILE, "QEMU cannot write %s",
                            json_object_object_get_ex(one, "file", &value)
                                ? json_object_get_string(value)
                                : "its file");
        *bytes += (uint64_t)json_number(one, "bytes");
    }
    return 0;
}

/* The rings go to FILE-NUMBER.N. 0 or an exit code. */
static int save(struct monitor *monitor, const char *file, unsigned number)
{
    json_object *const arguments = json_object_new_object();
    char *path = NULL;
    json_object *done;

    if (!arguments || asprintf(&path, "%s-%u", file, number) < 0) {
        json_object_put(arguments);
        return no_memory();
    }
    json_object_object_add(arguments, "file", json_object_new_string(path));
    free(path);
    done = monitor_execute(monitor, "x-vpt-save", arguments);
    if (!done && !monitor->gone)
        return complain(EXIT_CODE_FILE, "%s", monitor->why);
    json_object_put(done);
    return 0;
}

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* *captures: what x-vpt-query says, if the guest is still there. 0 or an exit code. */
static int query(struct monitor *monitor, json_object **captures, uint64_t *bytes)
{
    json_object *const now = monitor_execute(monitor, "x-vpt-query", NULL);

    if (!now && monitor->gone && *captures)
        return 0;
    json_object_put(*captures);
    *captures = now;
    return now ? look(now, bytes) : lost(monitor);
}

/* Until it is to stop, or the guest ends. *captures: what x-vpt-query said last. 0 or an exit code.
 */
static int watch(struct monitor *monitor, const struct capture_options *options,
                 json_object **captures)
{
    const struct timespec turn = {.tv_nsec = TURN_NS};
    const int64_t end_ms =
        options->seconds > 0 ? now_ms() + (int64_t)options->seconds * 1000 : INT64_MAX;
    const bool shown = isatty(STDERR_FILENO);
    unsigned saves = 0;
    uint64_t bytes = 0;
    bool ends = false;
    int code = 0;

    for (unsigned turns = 0; !code && !ends && !monitor->gone; turns++) {
        if (turns > 0)
            (void)nanosleep(&turn, NULL);
        ends = stopped || now_ms() >= end_ms;
        if (ends || turns % TURNS_A_LOOK == 0)
            code = query(monitor, captures, &bytes);
        if (!code && asked && !monitor->gone) {
            asked = 0;
            code = save(monitor, json_object_get_string(options->path), ++saves);
        }
        if (!code && shown)
            (void)fprintf(stderr, "\rvpt: %" PRIu64 " bytes ", bytes);
    }
    if (shown)
        (void)fputc('\n', stderr);
    return code;
}

/* The files have more than was seen when they were closed. */
static void tell(const json_object *captures, bool json)
{
    for (size_t i = 0; i < json_object_array_length(captures); i++) {
        json_object *const one = json_object_array_get_idx(captures, i);
        json_object *name = NULL;
        const char *file;
        struct escaped room;
        struct stat status;

        (void)json_object_object_get_ex(one, "file", &name);
        file = name ? json_object_get_string(name) : "?";
        if (stat(file, &status) == 0)
            json_add_number(one, "bytes", (uint64_t)status.st_size);
        if (!json)
            printf("%s: %" PRId64 " bytes\n", escaped(file, &room), json_number(one, "bytes"));
    }
}

static int capture(struct monitor *monitor, struct capture_options *options)
{
    json_object *captures = NULL, *done;
    int code;

    done = monitor_execute(monitor, "x-vpt-start", json_object_get(options->arguments));
    if (!done)
        return lost(monitor);
    json_object_put(done);
    code = watch(monitor, options, &captures);
    done = monitor->gone ? NULL : monitor_execute(monitor, "x-vpt-stop", NULL);
    if (!done && !monitor->gone && !code) /* what else might go wrong */
        code = complain(EXIT_CODE_FILE, "%s", monitor->why);
    json_object_put(done);
    if (!code) {
        tell(captures, options->json);
        if (options->json)
            json_print(json_object_get(captures), JSON_C_TO_STRING_PLAIN);
    }
    json_object_put(captures);
    return code;
}

static int capture_of(struct capture_options *options)
{
    struct monitor monitor;
    int code;

    options->path = absolute(options->file);
    if (!options->path)
        return no_memory();
    json_object_object_add(options->arguments, "file", options->path);
    if (!(options->domain ? monitor_open_domain(&monitor, options->uri, options->domain)
                          : monitor_open_socket(&monitor, options->socket)))
        return lost(&monitor);
    code = capture(&monitor, options);
    monitor_close(&monitor);
    return code;
}

static int run(int argc, char **argv)
{
    const struct sigaction action = {.sa_handler = stop}, save_action = {.sa_handler = ask};
    struct capture_options options = {.arguments = json_object_new_object()};
    int code;

    if (!options.arguments)
        return no_memory();
    code = parse(argc, argv, &options);
    if (code) {
        code--;
    } else {
        (void)sigaction(SIGINT, &action, NULL);
        (void)sigaction(SIGTERM, &action, NULL);
        if (options.ring)
            (void)sigaction(SIGUSR2, &save_action, NULL);
        code = capture_of(&options);
    }
    json_object_put(options.arguments);
    return code;
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "A file cannot be read or written."},
    {EXIT_CODE_HOST, "There is no such guest, its QEMU cannot capture, or it went away."},
    {0},
};

const struct subcommand command_capture = {
    .name = "capture",
    .about = "trace a guest that runs on our QEMU, or in libvirt, from outside",
    .synopsis = "(--domain NAME | --qmp SOCKET) [OPTION...] FILE",
    .text =
        "Traces what a guest on the QEMU of 'make qemu' executes, without its knowledge, until "
        "the time is over, the guest ends, or SIGINT or SIGTERM comes. Processor N leaves "
        "FILE.N, and FILE.N.json for vpt decode. QEMU writes the files: where it runs, and with "
        "its rights.",
    .options = options_of_capture,
    .exits = exits,
    .run = run,
};
