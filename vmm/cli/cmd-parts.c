/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt parts: whose each part of a trace is.
 */
#include "trace/input.h"
#include "trace/code-files.h"
#include "trace/mapfile.h"
#include "trace/names-log.h"
#include "trace/perf-data.h"
#include "trace/sidecar.h"
#include "common/say.h"
#include "common/bytes.h"
#include "common/escape.h"
#include "common/json.h"
#include "common/progress.h"
#include "cli/commands.h"
#include "cli/guard.h"

#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct parts_options {
    bool json;
    const char *map_path;
    bool no_sandbox;
    struct code_files *files;
    struct ptd_image *image;
    struct map map;
    struct names_log *log;                 /* NULL: there is none */
    struct ptd_part last;                  /* not yet printed; .end 0: none */
    struct scratch *scratch;               /* of a perf.data; else NULL, as are: */
    const struct ptd_perf_trace *of_cpu;   /* the packets of a processor that are looked at */
    const struct ptd_perf_cpu_trace *copy; /* with findings whose they are */
};

/* What names say of a part. */
struct whose {
    const char *vm, *process; /* NULL: not known */
    uint32_t pid;             /* of the names log; 0: not known */
};

static const struct option_row options_of_parts[] = {
    {.name = "map",
     .value = "MAP",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct parts_options, map_path),
     .help = "Names VMs and processes as this file says (docs/decoder.md).",
     .fallback = "as TRACE.json or the folder of vpt record says"},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct parts_options, json),
     .help = "Prints one JSON object a line."},
    {.name = "no-sandbox",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct parts_options, no_sandbox),
     .help = NO_SANDBOX_HELP},
    {0},
};

/* A log knows better than a map which process it was. */
static struct whose whose_is(const struct parts_options *options, const struct ptd_part *part)
{
    struct ptd_context context = {0};
    struct names_log_task task;
    struct whose whose;

    if (!part->known)
        return (struct whose){0};
    if (options->map.contexts)
        ptd_contexts_find(options->map.contexts, part->space, 0, &context);
    whose = (struct whose){.vm = context.vm_name, .process = context.process};
    if (options->log && !part->nr &&
        (names_log_who(options->log, part->begin, part->cr3, &task) ||
         names_log_who(options->log, part->end - 1, part->cr3, &task))) {
        whose.process = task.comm;
        whose.pid = task.pid;
    }
    return whose;
}

static void print_json(const struct parts_options *options, const struct ptd_part *part,
                       const struct whose *whose)
{
    json_object *const object = json_object_new_object();

    if (options->of_cpu)
        json_add_number(object, "cpu", (uint32_t)options->of_cpu->cpu);
    json_add_number(object, "begin", part->begin);
    json_add_number(object, "end", part->end);
    if (part->known)
        json_object_object_add(object, "nr", json_object_new_boolean(part->nr));
    if (part->known && part->cr3 != PTD_ANY_CR3)
        json_add_number(object, "cr3", part->cr3);
    if (part->known && part->nr && part->vmcs != PTD_ANY_VMCS)
        json_add_number(object, "vmcs", part->vmcs);
    if (whose->vm)
        json_object_object_add(object, "vm", json_object_new_string(whose->vm));
    if (whose->process)
        json_object_object_add(object, "process", json_object_new_string(whose->process));
    if (whose->pid)
        json_add_number(object, "pid", whose->pid);
    json_print(object, JSON_C_TO_STRING_PLAIN);
}

static void print_text(const struct parts_options *options, const struct ptd_part *part,
                       const struct whose *whose)
{
    struct escaped room;

    if (options->of_cpu)
        printf("CPU %-3d ", options->of_cpu->cpu);
    printf("%08" PRIx64 " %08" PRIx64, part->begin, part->end);
    if (!part->known) {
        puts("  not known");
        return;
    }
    printf("  %s", part->nr ? "guest" : "host ");
    if (part->nr && part->vmcs != PTD_ANY_VMCS)
        printf("  VMCS %#" PRIx64, part->vmcs);
    if (part->cr3 != PTD_ANY_CR3)
        printf("  CR3 %#" PRIx64, part->cr3);
    if (whose->vm)
        printf("  VM %s", escaped(whose->vm, &room));
    if (whose->process)
        printf("  process %s", escaped(whose->process, &room));
    if (whose->pid)
        printf(", pid %" PRIu32, whose->pid);
    putchar('\n');
}

static void print_last(struct parts_options *options)
{
    struct ptd_part part = options->last;
    struct whose whose;

    if (part.end == 0)
        return;
    whose = whose_is(options, &part);
    if (options->copy) { /* offsets are those of the file's packets */
        part.begin = ptd_perf_cpu_trace_offset(options->copy, part.begin);
        part.end = ptd_perf_cpu_trace_offset(options->copy, part.end);
    }
    if (options->json)
        print_json(options, &part, &whose);
    else
        print_text(options, &part, &whose);
    options->last = (struct ptd_part){0};
}

static bool same(const struct ptd_part *a, const struct ptd_part *b)
{
    return a->known == b->known && a->nr == b->nr && a->cr3 == b->cr3 &&
           (!a->nr || a->vmcs == b->vmcs);
}

/* A PSB alone changes nothing. */
static int add_part(void *owner, const struct ptd_part *part)
{
    struct parts_options *const options = owner;

    progress_to(part->end);
    scratch_pass(options->scratch, part->begin, part->end);
    if (options->last.end != 0 && same(&options->last, part)) {
        options->last.end = part->end;
        return PTD_OK;
    }
    print_last(options);
    options->last = *part;
    return PTD_OK;
}

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct parts_options *options)
{
    const int code = options_parse(&command_parts, argc, argv, options);

    if (!code && optind + 1 != argc)
        return 1 + complain(EXIT_CODE_USAGE, "vpt parts takes one trace; see vpt parts --help");
    return code;
}

static int print_parts(struct parts_options *options, struct input *input)
{
    struct bytes trace = {0};
    const int error = input_take_all(input, &trace);
    struct ptd_packets packets;
    int code = EXIT_CODE_OK;

    if (error)
        return file_error(input->name, error);
    ptd_packets_init(&packets, trace.data, trace.len);
    if (ptd_packets_sync(&packets) != PTD_OK)
        code = complain(EXIT_CODE_FILE, "%s: %s", input->name, ptd_strerror(PTD_E_NOSYNC));
    else {
        progress_begin("looking for parts", trace.len, PROGRESS_BESIDE_LINES);
        (void)ptd_partition(trace.data, trace.len, options->image, add_part, options);
        progress_end();
    }
    print_last(options);
    bytes_free(&trace);
    return code;
}

/* ---- A perf.data ---- */

/* Of one buffer of a processor. 0 or an exit code. */
static int print_cpu(struct parts_options *options, const struct ptd_perf_session *session,
                     const struct ptd_perf_trace *trace)
{
    struct ptd_perf_cpu_trace copy;

    if (ptd_perf_cpu_trace(session, trace, &copy) != PTD_OK)
        return no_memory();
    options->of_cpu = trace;
    options->copy = &copy;
    (void)ptd_partition(copy.bytes, copy.len_bytes, options->image, add_part, options);
    print_last(options);
    options->of_cpu = NULL;
    options->copy = NULL;
    ptd_perf_cpu_trace_free(&copy);
    return 0;
}

/* Threads of the host that are virtual processors say whose guests ran, where packets do not. */
static int print_session(struct parts_options *options, struct ptd_perf_session *session)
{
    const struct map *const map = &options->map;
    struct ptd_perf_guests *guests = NULL;
    int code = 0;

    if (map->contexts)
        session->vms = ptd_contexts_time_vms(map->contexts, &session->vm_count);
    if (map->vcpu_count &&
        ptd_perf_guests_new(session, map->vcpus, map->vcpu_count, &guests) != PTD_OK)
        return no_memory();
    session->guests = guests;
    for (size_t i = 0; !code && i < session->trace_count; i++)
        code = print_cpu(options, session, &session->traces[i]);
    session->guests = NULL;
    ptd_perf_guests_free(guests);
    return code;
}

static int print_perf_data(struct parts_options *options, struct input *input)
{
    struct ptd_perf_session *session;
    struct bytes bytes = {0};
    struct reason why = {0};
    int error = scratch_see(options->scratch, input, &bytes), code;

    if (error)
        return file_error(input->name, error);
    error = perf_data_open(input->name, &bytes, options->scratch, say_remark, &session, &why);
    code = complain_of(error, &why);
    if (!error) {
        code = print_session(options, session);
        ptd_perf_session_free(session);
    }
    return code;
}

/* ---- A trace ---- */

static int refuse_rtit(const char *path)
{
    struct reason why;
    const int error = sidecar_refuse_rtit(path, "an RTIT trace, which tells of no guests", &why);

    return error ? complain(exit_code_of(error), "%s", why.text) : 0;
}

/*
 * From here on, what somebody else wrote is parsed. A map that the user names has files anywhere;
 * what TRACE.json names stands beside the trace.
 */
static int give_up_rights(const struct parts_options *options, const char *file,
                          const char *of_folder)
{
    struct sandbox sandbox = {0};

    sandbox_allow(&sandbox, options->map_path ? "/" : NULL);
    if (of_folder)
        sandbox_allow_beside(&sandbox, of_folder);
    guard_allow_sidecar(&sandbox, file);
    if (strcmp(file, "-") != 0)
        sandbox_allow_beside(&sandbox, file);
    return guard_enter(&sandbox, options->no_sandbox);
}

/* Whether TRACE.json names a map that can be read. */
static bool has_map(const char *file, char path[PATH_MAX])
{
    const struct file_name name = {.path = path};
    struct reason why;
    int fd;

    if (!sidecar_map(file, path))
        return false;
    fd = open_named(&name, &why);
    if (fd < 0)
        remark(say_remark, "there are no names: %s", why.text);
    else
        (void)close(fd);
    return fd >= 0;
}

/* The user's, or else that of the folder or of the trace. */
static int load_map(struct parts_options *options, const char *file, const char *of_folder)
{
    char of_trace[PATH_MAX];
    const char *path = options->map_path;

    if (!path && of_folder) {
        path = of_folder;
        options->map.is_of_trace = true;
    } else if (!path && has_map(file, of_trace)) {
        path = of_trace;
        options->map.is_of_trace = true;
    }
    if (path && map_load(path, options->files, options->image, &options->map) != 0)
        return complain(EXIT_CODE_FILE, "%s", options->map.why.text);
    return 0;
}

static int load_names(struct parts_options *options, const char *file)
{
    struct sidecar sidecar;
    int error = sidecar_open(&sidecar, file), code = 0;

    if (!error)
        error = sidecar_read_names(&sidecar, options->files, &options->log);
    if (error)
        code = complain(exit_code_of(error), "%s", sidecar.why.text);
    sidecar_close(&sidecar);
    return code;
}

static int parts_of_trace(struct parts_options *options, const char *file, struct input *input)
{
    int code = refuse_rtit(file);

    if (!code)
        code = load_map(options, file, NULL);
    if (!code)
        code = load_names(options, file);
    return code ? code : print_parts(options, input);
}

static int parts_of_perf_data(struct parts_options *options, struct input *input,
                              const char *of_folder)
{
    const int code = options->map_path || of_folder ? load_map(options, input->name, of_folder) : 0;

    return code ? code : print_perf_data(options, input);
}

static int parts_of_file(struct parts_options *options, const char *file, const char *of_folder)
{
    struct input input;
    bool is_perf_data = false;
    int error, code;

    error = input_open(&input, file);
    if (!error)
        error = input_is_perf_data(&input, &is_perf_data);
    options->scratch = !error && is_perf_data ? scratch_new() : NULL;
    if (error)
        code = file_error(input.name, error);
    else
        code = give_up_rights(options, file, of_folder);
    if (!error && !code)
        code = is_perf_data ? parts_of_perf_data(options, &input, of_folder)
                            : parts_of_trace(options, file, &input);
    scratch_free(options->scratch);
    input_close(&input);
    return code;
}

static int parts_of(struct parts_options *options, const char *file)
{
    struct perf_data_place place;
    struct reason why;
    int code = perf_data_locate(file, &place, &why);

    if (code)
        return complain(exit_code_of(code), "%s", why.text);
    code = parts_of_file(options, place.file, place.map);
    perf_data_place_free(&place);
    return code;
}

static int run(int argc, char **argv)
{
    struct parts_options options = {.files = code_files_new(CODE_BYTES_MAX),
                                    .image = ptd_image_new()};
    int code = options.image && options.files ? parse(argc, argv, &options) : no_memory() + 1;

    code = code ? code - 1 : parts_of(&options, argv[optind]);
    ptd_image_free(options.image);
    map_free(&options.map);
    names_log_free(options.log);
    code_files_free(options.files);
    return code;
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "A file cannot be read, or the trace has no PSB."},
    {0},
};

const struct subcommand command_parts = {
    .name = "parts",
    .about = "say whose each part of a trace of a host and guests is",
    .synopsis = "[OPTION...] TRACE",
    .text = "Prints whose each part of an Intel PT trace of a host and its guests is: offsets, "
            "and what PIP, VMCS and CFE packets say. A capture has names of processes beside it. "
            "It needs no code. TRACE is raw, and may be a pipe (- is standard input); or a "
            "perf.data, or a folder of vpt record, whose processors come one after the other. "
            "The offsets are for reading the trace, not for cutting it: what lies between two "
            "PSBs holds packets of all who ran there, so no cut of the bytes is safe to give to "
            "one tenant; see vpt demux.",
    .options = options_of_parts,
    .exits = exits,
    .run = run,
};
