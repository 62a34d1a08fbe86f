/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt capture: a guest that runs is traced from outside, without its knowledge (docs/qemu.md).
 */
#include "cli/capture-names.h"
#include "cli/commands.h"
#include "cli/signals.h"
#include "cli/values.h"
#include "common/escape.h"
#include "common/json.h"
#include "common/number.h"
#include "common/reason.h"
#include "common/say.h"
#include "monitor/capture-files.h"
#include "monitor/monitor.h"
#include "trace/clock.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SECONDS_MAX  (7u * 24 * 3600)
#define TURN_NS      100000000 /* how long a stop may go unseen */
#define TURNS_A_LOOK 10        /* the captures are looked at once a second */
#define HOLD_MS      4000      /* that QEMU waits with its end for somebody to look, */
#define LOOK_MS      10000     /* and for a look that has begun */
#define RING_MIN     (128ull << 10)
#define RING_MAX     (1ull << 30)

struct capture_options {
    const char *domain, *uri, *socket, *file;
    uint64_t seconds;  /* 0: until a signal comes */
    unsigned ready_fd; /* 0: nobody is told */
    struct capture_kinds kinds;
    bool ring, by_qemu, no_code, no_names, status, stop, json;
    json_object *arguments; /* of x-vpt-start; those below are in it */
    json_object *path, *ranges, *images;
};

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
    if (options->status && options->stop)
        return complain(EXIT_CODE_USAGE, "either --status or --stop");
    if (options->status || options->stop)
        return files ? complain(EXIT_CODE_USAGE, "--status and --stop take no FILE") : 0;
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

/* What is the default, after a --no-code in front of it. */
static int with_code(void *parsed, const char *value)
{
    struct capture_options *const options = parsed;

    (void)value;
    options->no_code = false;
    return 0;
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
    {.name = "no-code",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct capture_options, no_code),
     .help =
         "Does not keep the code that runs. The guest runs faster while it is captured, and vpt "
         "decode needs the code from elsewhere (--image, --map)."},
    {.name = "code",
     .kind = OPTION_CALL,
     .take = with_code,
     .help = "Keeps the code that runs, in FILE.N.code: nothing else is needed to decode. This is "
             "the default."},
    {.name = "ring",
     .value = "SIZE",
     .kind = OPTION_CALL,
     .take = add_ring,
     .help = "Keeps the last SIZE bytes (128K to 1G) of each processor in QEMU's memory. They are "
             "written at the end, and to FILE-1.N, FILE-2.N and so on whenever SIGUSR2 comes."},
    {.name = "no-names",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct capture_options, no_names),
     .help =
         "Does not look at the guest's memory for the names of what runs. Without it, those of a "
         "Linux guest are in FILE.map, and who ran when in FILE.N.names; vpt decode takes both by "
         "itself (docs/names.md)."},
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
    {.name = "by-qemu",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct capture_options, by_qemu),
     .help = "Lets QEMU open the files: where it runs, and with its rights."},
    {.name = "ready-fd",
     .value = "N",
     .kind = OPTION_UNSIGNED,
     .offset = offsetof(struct capture_options, ready_fd),
     .min = 3,
     .max = INT_MAX,
     .help = "Writes a line to descriptor N, and closes it, as soon as the capture has begun."},
    {.name = "status",
     .group = "A capture that runs, whoever began it",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct capture_options, status),
     .help = "Prints where it goes, and how much there was."},
    {.name = "stop",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct capture_options, stop),
     .help = "Ends it."},
    {.name = "json",
     .group = "What is printed",
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

/* A member that is a text, or another text. */
static const char *text_of(const json_object *object, const char *key, const char *otherwise)
{
    json_object *value;

    return json_object_object_get_ex(object, key, &value) &&
                   json_object_is_type(value, json_type_string)
               ? json_object_get_string(value)
               : otherwise;
}

static bool is_set(const json_object *object, const char *key)
{
    json_object *value;

    return json_object_object_get_ex(object, key, &value) && json_object_get_boolean(value);
}

static bool has_failed(const json_object *capture)
{
    return is_set(capture, "failed");
}

/* The captures that run, to be put. NULL: see the monitor's why. */
static json_object *query_captures(struct monitor *monitor)
{
    json_object *const captures = monitor_execute(monitor, "x-vpt-query", NULL);
    bool valid = json_object_is_type(captures, json_type_array);

    for (size_t i = 0; valid && i < json_object_array_length(captures); i++)
        valid = json_object_is_type(json_object_array_get_idx(captures, i), json_type_object);
    if (valid || !captures)
        return captures;
    snprintf(monitor->why, sizeof(monitor->why), "QEMU's list of captures is none");
    json_object_put(captures);
    return NULL;
}

/* How much each processor's file has, by what x-vpt-query says. 0 or an exit code. */
static int look(const json_object *captures, uint64_t *bytes)
{
    *bytes = 0;
    if (json_object_array_length(captures) == 0)
        return complain(EXIT_CODE_HOST, "somebody else has ended the capture");
    for (size_t i = 0; i < json_object_array_length(captures); i++) {
        json_object *const one = json_object_array_get_idx(captures, i);

        if (has_failed(one))
            return complain(EXIT_CODE_FILE, "QEMU cannot write %s: %s",
                            text_of(one, "file", "its file"), text_of(one, "why", "it failed"));
        *bytes += (uint64_t)json_number(one, "bytes");
    }
    return 0;
}

/* A command that makes QEMU write files below arguments->file; they are put. 0 or an exit code. */
static int execute_with_files(struct monitor *monitor, const struct capture_options *options,
                              const char *command, json_object *arguments,
                              enum capture_files_end end)
{
    struct capture_files files = {0};
    struct reason why;
    json_object *done = NULL;
    int error = 0, code = 0;

    if (!options->by_qemu) {
        error = capture_files_open(&files, monitor, text_of(arguments, "file", ""), options->kinds,
                                   &why);
        if (!error)
            error = capture_files_hand_over(&files, monitor, arguments, &why);
    }
    if (error) {
        code = complain_of(error, &why);
    } else {
        done = monitor_execute(monitor, command, json_object_get(arguments));
        code = done ? 0 : lost(monitor);
    }
    capture_files_close(&files, monitor, done ? end : CAPTURE_REFUSED);
    json_object_put(done);
    json_object_put(arguments);
    return code;
}

/* What a capture that this program has begun is about. */
struct job {
    struct monitor *monitor;
    const struct capture_options *options;
    int64_t end_ms;
    json_object *captures; /* what x-vpt-query said last */
    bool names_wanted;     /* QEMU does not know where the guest's kernel is */
    bool is_ending;        /* QEMU waits for a last look */
    struct capture_names names;
};

/* QEMU's own user writes files that this program may not. */
static bool wants_names(const struct capture_options *options)
{
    return !options->no_names && !options->by_qemu;
}

/* Names of the traces below a path, as those of the capture are below another. NULL: no memory. */
static json_object *traces_below(json_object *captures, const char *path)
{
    json_object *const traces = json_object_new_array();

    for (size_t i = 0; traces && i < json_object_array_length(captures); i++) {
        json_object *const one = json_object_new_object();
        char *file = NULL;

        if (asprintf(&file, "%s.%" PRId64, path,
                     json_number(json_object_array_get_idx(captures, i), "vcpu")) < 0)
            file = NULL;
        if (file && json_add(one, "file", json_object_new_string(file)))
            json_object_array_add(traces, one);
        else
            json_object_put(one);
        free(file);
    }
    return traces;
}

/* Those of the guest as it is now, for the rings that were saved. 0 or an exit code. */
static int save_names(struct job *job, const char *path)
{
    json_object *traces;
    int code;

    if (!wants_names(job->options) || job->monitor->gone)
        return 0;
    traces = traces_below(job->captures, path);
    (void)capture_names_look(&job->names, job->monitor, traces);
    code = traces ? capture_names_write(&job->names, path, traces) : no_memory();
    json_object_put(traces);
    return code;
}

/* The rings go to FILE-NUMBER.N. 0 or an exit code. */
static int save(struct job *job, unsigned number)
{
    struct monitor *const monitor = job->monitor;
    const struct capture_options *const options = job->options;
    json_object *const arguments = json_object_new_object();
    char *path = NULL;
    int code;

    if (!arguments || asprintf(&path, "%s-%u", json_object_get_string(options->path), number) < 0) {
        json_object_put(arguments);
        return no_memory();
    }
    json_object_object_add(arguments, "file", json_object_new_string(path));
    code = execute_with_files(monitor, options, "x-vpt-save", arguments, CAPTURE_WRITTEN);
    if (!code)
        code = save_names(job, path);
    free(path);
    return code && !monitor->gone ? EXIT_CODE_FILE : 0;
}

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What x-vpt-query says, if the guest is still there. 0 or an exit code. */
static int query(struct job *job, uint64_t *bytes)
{
    json_object *const now = query_captures(job->monitor);

    if (!now && job->monitor->gone && job->captures)
        return 0;
    json_object_put(job->captures);
    job->captures = now;
    job->names_wanted = now && json_object_array_length(now) > 0 &&
                        is_set(json_object_array_get_idx(now, 0), "names-wanted");
    return now ? look(now, bytes) : lost(job->monitor);
}

/*
 * A guest that powers off is looked at once more: QEMU waits for that, and for no longer than this
 * if nobody comes. A QEMU that cannot wait ends.
 */
static void hold(struct job *job, uint64_t ms)
{
    json_object *const arguments = json_object_new_object();
    json_object *hold = NULL;

    if (!wants_names(job->options) || job->monitor->gone || !arguments) {
        json_object_put(arguments);
        return;
    }
    json_add_number(arguments, "ms", ms);
    hold = monitor_execute(job->monitor, "x-vpt-hold", arguments);
    if (hold)
        job->is_ending = is_set(hold, "ending");
    json_object_put(hold);
}

/* What is due of names, as long as the guest is there. */
static void look_for_names(struct job *job)
{
    if (!wants_names(job->options) || job->monitor->gone ||
        !capture_names_is_due(&job->names, job->names_wanted, now_ms()))
        return;
    hold(job, LOOK_MS);
    if (!job->is_ending)
        job->names_wanted = capture_names_turn(&job->names, job->monitor, job->captures, now_ms);
}

/* Until it is to stop, or the guest ends. 0 or an exit code. */
static int watch(struct job *job)
{
    const struct timespec turn = {.tv_nsec = TURN_NS};
    const bool shown = isatty(STDERR_FILENO);
    unsigned saves = 0;
    uint64_t bytes = 0;
    bool ends = false;
    int code = 0;

    for (unsigned turns = 0; !code && !ends && !job->monitor->gone; turns++) {
        if (turns > 0)
            (void)nanosleep(&turn, NULL);
        ends = signals_end || now_ms() >= job->end_ms;
        if (ends || turns % TURNS_A_LOOK == 0) {
            code = query(job, &bytes);
            hold(job, HOLD_MS);
        }
        if (!code && !ends && !job->is_ending)
            look_for_names(job);
        ends = ends || job->is_ending;
        if (!code && signals_save && !job->monitor->gone) {
            signals_save = 0;
            code = save(job, ++saves);
        }
        if (!code && shown)
            (void)fprintf(stderr, "\rvpt: %" PRIu64 " bytes ", bytes);
    }
    if (shown)
        (void)fputc('\n', stderr);
    return code;
}

/* What a guest made QEMU leave out, by how much there was. */
static void tell_forgotten(const json_object *capture, const char *file)
{
    struct escaped room;
    const int64_t vmcbs = json_number((json_object *)capture, "vmcbs-forgotten");
    const int64_t code = json_number((json_object *)capture, "code-forgotten");
    const int64_t names = json_number((json_object *)capture, "names-left-out");

    if (vmcbs)
        printf("%s.map: %" PRId64 " VMCBs that ran before the last ones are not in it\n",
               escaped(file, &room), vmcbs);
    if (code)
        printf("%s.code: all code was told anew %" PRId64 " times\n", escaped(file, &room), code);
    if (names)
        printf("%s.names: %" PRId64 " looks at the guest were left out\n", escaped(file, &room),
               names);
}

static void print_captures(json_object *captures, bool running, bool json)
{
    for (size_t i = 0; i < json_object_array_length(captures) && !json; i++) {
        json_object *const one = json_object_array_get_idx(captures, i);
        const char *const file = text_of(one, "file", "?");
        const int64_t ring = running ? json_number(one, "ring") : 0;
        struct escaped room;

        printf("%s: %" PRId64 " bytes", escaped(file, &room), json_number(one, "bytes"));
        if (ring)
            printf(", the last %" PRId64 " in a ring", ring);
        if (has_failed(one))
            printf(", cannot be written: %s", escaped(text_of(one, "why", "it failed"), &room));
        putchar('\n');
        tell_forgotten(one, file);
    }
    if (json)
        json_print(json_object_get(captures), JSON_C_TO_STRING_PLAIN);
}

/* What has ended. Files have more than was seen while they were written, or less, of a ring. */
static void tell(json_object *captures, bool json)
{
    for (size_t i = 0; i < json_object_array_length(captures); i++) {
        json_object *const one = json_object_array_get_idx(captures, i);
        const char *const file = text_of(one, "file", "?");
        struct stat status;

        if (stat(file, &status) == 0 && S_ISREG(status.st_mode))
            json_add_number(one, "bytes", (uint64_t)status.st_size);
        capture_remove_empty_map(file);
    }
    print_captures(captures, false, json);
}

static bool is_captured(json_object *captures, int64_t vcpu)
{
    for (size_t i = 0; i < json_object_array_length(captures); i++)
        if (json_number(json_object_array_get_idx(captures, i), "vcpu") == vcpu)
            return true;
    return false;
}

/* A vCPU that was plugged in amid has no file. */
static void tell_missing(struct monitor *monitor, json_object *captures)
{
    json_object *const vcpus =
        monitor->gone ? NULL : monitor_execute(monitor, "query-cpus-fast", NULL);
    const bool valid = captures && json_object_is_type(vcpus, json_type_array);

    for (size_t i = 0; valid && i < json_object_array_length(vcpus); i++) {
        json_object *const one = json_object_array_get_idx(vcpus, i);
        const int64_t vcpu = json_number(one, "cpu-index");

        if (!is_captured(captures, vcpu))
            (void)fprintf(
                stderr, "vpt: vCPU %" PRId64 " came while the capture went on, and is not in it\n",
                vcpu);
    }
    json_object_put(vcpus);
}

/* Ends the capture. *captures: what was known of it, and is then known. 0 or an exit code. */
static int end(struct monitor *monitor, json_object **captures)
{
    json_object *done;

    tell_missing(monitor, *captures);
    done = monitor_execute(monitor, "x-vpt-stop", NULL);
    if (!done)
        return monitor->gone ? 0 : complain(EXIT_CODE_FILE, "%s", monitor->why);
    if (json_object_is_type(done, json_type_array) && json_object_array_length(done) > 0) {
        json_object_put(*captures);
        *captures = done;
    } else {
        json_object_put(done);
    }
    return 0;
}

/* Nothing is opened before it is known that nobody else writes there. 0 or an exit code. */
static int check_idle(struct monitor *monitor)
{
    json_object *const captures = query_captures(monitor);
    const json_object *first;
    int code = 0;

    if (!captures)
        return lost(monitor);
    first = json_object_array_get_idx(captures, 0);
    if (first)
        code = complain(EXIT_CODE_HOST,
                        "a capture runs already, to %s; whoever began it may be gone: --status "
                        "shows it, and --stop ends it",
                        text_of(first, "file", "?"));
    json_object_put(captures);
    return code;
}

/*
 * Looks at the guest before the capture begins: what is known of its kernel is what QEMU needs to
 * tell who runs while it goes on. If there is none, the guest may be about to boot one. 0 or an
 * exit code.
 */
static int begin_names(struct job *job, struct capture_options *options)
{
    json_object *layout;
    int error;

    if (!wants_names(options))
        return 0;
    error = capture_names_look(&job->names, job->monitor, NULL);
    layout = capture_names_layout(&job->names);
    if (!layout && (job->names.has_guest || error != -EINVAL))
        return 0;
    options->kinds.names = true;
    return layout ? (json_add(options->arguments, "names", layout) ? 0 : no_memory())
                  : add_flag(options, "names-later");
}

/* A QEMU that has ended in good order left nothing to be cut off. */
static void cut_code(const struct job *job)
{
    if (job->options->by_qemu)
        return;
    for (size_t i = 0; i < json_object_array_length(job->captures); i++)
        capture_cut_code(text_of(json_object_array_get_idx(job->captures, i), "file", ""));
}

/* Until its end, and the guest's names then if it is still there. 0 or an exit code. */
static int run_capture(struct job *job)
{
    const bool has_names = wants_names(job->options);
    int code, ended;

    code = watch(job);
    ended = job->monitor->gone ? 0 : end(job->monitor, &job->captures);
    if (!code)
        code = ended;
    hold(job, LOOK_MS);
    if (!code && has_names && !job->monitor->gone)
        (void)capture_names_look(&job->names, job->monitor, job->captures);
    hold(job, 0);
    if (!code && job->monitor->gone)
        cut_code(job);
    if (!code && has_names)
        code = capture_names_write(&job->names, json_object_get_string(job->options->path),
                                   job->captures);
    return code;
}

static void tell_ready(const struct capture_options *options)
{
    if (options->ready_fd == 0)
        return;
    (void)!write((int)options->ready_fd, "\n", 1);
    (void)close((int)options->ready_fd);
}

static int capture(struct monitor *monitor, struct capture_options *options)
{
    struct job job = {.monitor = monitor, .options = options, .end_ms = INT64_MAX};
    int code = check_idle(monitor);

    if (!code)
        code = begin_names(&job, options);
    if (!code)
        code = execute_with_files(monitor, options, "x-vpt-start",
                                  json_object_get(options->arguments), CAPTURE_BEGUN);
    if (options->seconds > 0)
        job.end_ms = now_ms() + (int64_t)options->seconds * 1000;
    if (!code) {
        tell_ready(options);
        code = run_capture(&job);
    }
    if (!code)
        tell(job.captures, options->json);
    json_object_put(job.captures);
    capture_names_free(&job.names);
    return code;
}

/* --status and --stop: of whatever runs. */
static int look_after(struct monitor *monitor, const struct capture_options *options)
{
    json_object *captures = query_captures(monitor);
    int code = 0;

    if (!captures)
        return lost(monitor);
    if (options->stop && json_object_array_length(captures) == 0) {
        code = complain(EXIT_CODE_HOST, "no capture runs");
    } else if (options->stop) {
        code = end(monitor, &captures);
        if (!code)
            tell(captures, options->json);
    } else if (!options->json && json_object_array_length(captures) == 0) {
        puts("no capture runs");
    } else {
        print_captures(captures, true, options->json);
    }
    json_object_put(captures);
    return code;
}

static int capture_of(struct capture_options *options)
{
    const bool begins = !options->status && !options->stop;
    struct monitor monitor;
    int code;

    if (begins) {
        options->path = absolute(options->file);
        if (!options->path)
            return no_memory();
        json_object_object_add(options->arguments, "file", options->path);
        options->kinds.code = !options->no_code;
        json_object_object_add(options->arguments, "code",
                               json_object_new_boolean(options->kinds.code));
    }
    if (!(options->domain ? monitor_open_domain(&monitor, options->uri, options->domain)
                          : monitor_open_socket(&monitor, options->socket)))
        return lost(&monitor);
    code = begins ? capture(&monitor, options) : look_after(&monitor, options);
    monitor_close(&monitor);
    return code;
}

static int run(int argc, char **argv)
{
    struct capture_options options = {.arguments = json_object_new_object()};
    int code;

    if (!options.arguments)
        return no_memory();
    code = parse(argc, argv, &options);
    if (code) {
        code--;
    } else {
        signals_listen(options.ring);
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
        "the time is over, the guest ends, or SIGINT, SIGTERM or SIGHUP comes. Processor N "
        "leaves FILE.N, and FILE.N.json and FILE.N.code for vpt decode. The files are private, and "
        "belong to who runs vpt capture.\n"
        "With --status or --stop in place of FILE, it shows or ends the capture that runs.",
    .options = options_of_capture,
    .exits = exits,
    .run = run,
};
