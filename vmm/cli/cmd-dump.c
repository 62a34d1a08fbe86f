/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt dump: the packets of a raw trace, or of each trace in a perf.data, one a line.
 */
#include "trace/perf-data.h"
#include "trace/cpu.h"
#include "trace/sidecar.h"
#include "trace/window.h"
#include "ptdec_rtit.h"
#include "common/say.h"
#include "common/bytes.h"
#include "common/escape.h"
#include "common/json.h"
#include "common/progress.h"
#include "cli/commands.h"
#include "cli/guard.h"
#include "cli/values.h"

#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dump_options {
    bool json, no_sync, rtit, cycle_acc, records, no_sandbox;
    struct window window;
    const char *like; /* the trace whose TRACE.json counts; NULL: this one */
};

/* bytes: of the packet. */
static void print_packet(uint64_t offset, unsigned size_bytes, const uint8_t *bytes,
                         const char *name, const char *text, bool json)
{
    char hex[2 * 16 + 1] = "";

    for (unsigned i = 0; i < size_bytes && i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    if (!json) {
        printf("%08" PRIx64 "  %-32s  %s\n", offset, hex, text);
        return;
    }
    json_object *object = json_object_new_object();
    json_add_number(object, "offset", offset);
    json_object_object_add(object, "bytes", json_object_new_string(hex));
    json_object_object_add(object, "type", json_object_new_string(name));
    json_object_object_add(object, "text", json_object_new_string(text));
    json_print(object, JSON_C_TO_STRING_PLAIN);
}

static void print_error(uint64_t offset, int error, bool json)
{
    if (!json) {
        printf("%08" PRIx64 "  error: %s\n", offset, ptd_strerror(error));
        return;
    }
    json_object *object = json_object_new_object();
    json_add_number(object, "offset", offset);
    json_object_object_add(object, "error", json_object_new_string(ptd_strerror(error)));
    json_print(object, JSON_C_TO_STRING_PLAIN);
}

/* ---- PT and RTIT ---- */

/* A trace on its way from bytes to packets: one of the two iterators, over a window of bytes. */
struct source {
    const struct dump_options *options;
    struct bytes bytes;
    uint64_t base;       /* offset of the first of them */
    struct input *input; /* what follows; NULL: nothing */
    bool ended;          /* nothing follows */
    int code;            /* an exit code: input cannot be read */
    bool is_rtit;
    struct ptd_packets pt;
    struct ptd_rtit_packets rtit;
    struct ptd_time *time; /* NULL: not wanted */
    uint64_t passed;       /* bytes of traces before this one */
    unsigned errors;
    bool is_reached;         /* something was at window.from or behind it */
    struct scratch *scratch; /* of a perf.data; NULL: none */
};

static uint64_t source_offset(const struct source *source)
{
    return source->is_rtit ? ptd_rtit_packets_offset(&source->rtit)
                           : ptd_packets_offset(&source->pt);
}

/* Reads a piece more, in place of what was used. */
static void read_more(struct source *source)
{
    const size_t used = (size_t)(ptd_packets_offset(&source->pt) - source->base);
    struct bytes *const bytes = &source->bytes;
    const uint8_t *piece;
    const int n = input_take(source->input, &piece);

    if (used > 0)
        memmove(bytes->data, bytes->data + used, bytes->len - used);
    bytes->len -= used;
    source->base += used;
    if (n < 0)
        source->code = file_error(source->input->name, n);
    else if (n > 0 && !bytes_add(bytes, piece, (size_t)n))
        source->code = no_memory();
    source->ended = n == 0 || source->code;
    ptd_packets_slide(&source->pt, bytes->data ? bytes->data : (const uint8_t *)"", bytes->len,
                      source->base);
}

/* False: there is no PSB. */
static bool source_sync(struct source *source)
{
    if (source->is_rtit)
        return ptd_rtit_packets_sync(&source->rtit) == PTD_OK;
    while (!source->ended) {
        if (ptd_packets_sync_part(&source->pt))
            return true;
        read_more(source);
    }
    return ptd_packets_sync(&source->pt) == PTD_OK;
}

static bool source_resync(struct source *source)
{
    if (source->is_rtit)
        return ptd_rtit_packets_resync(&source->rtit) == PTD_OK;
    ptd_packets_skip_byte(&source->pt);
    return source_sync(source);
}

static int source_next(struct source *source, struct ptd_packet *packet)
{
    while (!source->ended && source->pt.end - source->pt.pos < PTD_PACKET_MARGIN)
        read_more(source);
    return ptd_packets_next(&source->pt, packet);
}

/* Whether what is at an offset, and the time that is known by now, is in the window. */
static bool is_wanted(struct source *source, uint64_t offset)
{
    const struct window *const window = &source->options->window;
    struct ptd_time_point point = {0};

    if (source->time)
        ptd_time_point(source->time, &point);
    if (point.tsc == PTD_TIME_UNKNOWN)
        point.tsc = 0;
    if (bound_is_ahead(&window->from, offset, point.tsc))
        return false;
    source->is_reached = true;
    return window->to.kind == BOUND_NONE || bound_is_ahead(&window->to, offset, point.tsc);
}

static void put(struct source *source, uint64_t offset, unsigned size_bytes, const char *name,
                const char *text)
{
    if (is_wanted(source, offset))
        print_packet(offset, size_bytes, source->bytes.data + (offset - source->base), name, text,
                     source->options->json);
}

/* The next packet, printed. */
static int dump_next(struct source *source)
{
    struct ptd_packet packet;
    struct ptd_rtit_packet rtit;
    char text[256];
    int error;

    if (source->is_rtit) {
        error = ptd_rtit_packets_next(&source->rtit, &rtit);
        if (error)
            return error;
        ptd_rtit_packet_format(&rtit, text, sizeof(text));
        put(source, rtit.offset, rtit.size_bytes, ptd_rtit_packet_name(rtit.type), text);
        return PTD_OK;
    }
    error = source_next(source, &packet);
    if (error)
        return error;
    if (source->time)
        ptd_time_packet(source->time, &packet);
    ptd_packet_format(&packet, text, sizeof(text));
    put(source, packet.offset, packet.size_bytes, ptd_packet_name(packet.type), text);
    return PTD_OK;
}

static void put_error(struct source *source, uint64_t offset, int error)
{
    if (!is_wanted(source, offset))
        return;
    source->errors++;
    print_error(offset, error, source->options->json);
}

/* Nothing that comes is in the window. */
static bool is_behind(const struct source *source)
{
    const struct bound *const to = &source->options->window.to;

    return to->kind == BOUND_OFFSET && source_offset(source) >= to->value;
}

static void dump(struct source *source)
{
    uint64_t passed = 0;
    int error;

    if (!source->options->no_sync && !source_sync(source) && !source->code)
        put_error(source, source->base, PTD_E_NOSYNC);
    while (!source->code && !is_behind(source) && !ferror(stdout) &&
           (error = dump_next(source)) != PTD_END) {
        progress_to(source->passed + source_offset(source));
        scratch_pass(source->scratch, passed, source_offset(source));
        passed = source_offset(source);
        if (error == PTD_OK)
            continue;
        put_error(source, source_offset(source), error);
        if (source->time)
            ptd_time_lost(source->time);
        if (!source_resync(source))
            break;
    }
    source->is_reached = source->is_reached || is_behind(source);
}

/* ---- perf.data ---- */

static void print_trace(const struct ptd_perf_trace *trace, bool json)
{
    if (!json) {
        printf("-- buffer %" PRIu32 ", cpu %d, tid %d: %zu bytes\n", trace->idx, trace->cpu,
               trace->tid, trace->len_bytes);
        return;
    }
    json_object *object = json_object_new_object();
    json_add_number(object, "buffer", trace->idx);
    json_object_object_add(object, "cpu", json_object_new_int(trace->cpu));
    json_object_object_add(object, "tid", json_object_new_int(trace->tid));
    json_add_number(object, "len", trace->len_bytes);
    json_print(object, JSON_C_TO_STRING_PLAIN);
}

static int dump_perf(const struct dump_options *options, const char *name, const struct bytes *file,
                     struct scratch *scratch)
{
    bool is_reached = false;
    uint64_t passed = 0;
    unsigned errors = 0;
    struct ptd_perf_session *session;
    struct reason why;
    int code = perf_data_open(name, file, scratch, say_remark, &session, &why);

    if (code)
        return complain(exit_code_of(code), "%s", why.text);
    for (size_t i = 0; i < session->trace_count; i++) {
        struct source source = {
            .options = options, .passed = passed, .ended = true, .scratch = scratch};
        struct ptd_perf_whole whole;

        if (ptd_perf_whole(session, &session->traces[i], &whole) != PTD_OK) {
            code = no_memory();
            break;
        }
        source.bytes = (struct bytes){.data = (uint8_t *)whole.bytes, .len = whole.len_bytes};
        print_trace(&session->traces[i], options->json);
        ptd_packets_init(&source.pt, source.bytes.data, source.bytes.len);
        ptd_packets_set_errata(&source.pt, errata_of_cpuid(session->cpuid));
        dump(&source);
        passed += source.bytes.len;
        errors += source.errors;
        is_reached = is_reached || source.is_reached;
        ptd_perf_whole_free(&whole);
    }
    note_window(&options->window, is_reached, name);
    if (!code && session->error)
        code = EXIT_CODE_FILE; /* said already */
    ptd_perf_session_free(session);
    return errors ? complain(EXIT_CODE_FILE, "%s: %u errors", name, errors) : code;
}

static void print_record(const struct ptd_perf_record *record, bool json)
{
    char text[5000];

    ptd_perf_format(record, text, sizeof(text));
    if (!json) {
        printf("%08" PRIx64 "  ", record->offset);
        put_escaped(text, stdout);
        putchar('\n');
        return;
    }
    json_object *object = json_object_new_object();
    json_add_number(object, "offset", record->offset);
    json_object_object_add(object, "type",
                           json_object_new_string(ptd_perf_type_name(record->type)));
    if (record->has_time)
        json_add_number(object, "time", record->time);
    json_object_object_add(object, "text", json_object_new_string(text));
    json_print(object, JSON_C_TO_STRING_PLAIN);
}

static int dump_records(const struct dump_options *options, const char *name,
                        const struct bytes *file)
{
    struct ptd_perf_fault fault = {0};
    struct ptd_perf_record record;
    struct ptd_perf *perf;
    int error = ptd_perf_open(file->data, file->len, &perf, &fault);

    if (!error) {
        while ((error = ptd_perf_next(perf, &record)) == PTD_OK)
            print_record(&record, options->json);
        fault = *ptd_perf_fault(perf);
        ptd_perf_close(perf);
    }
    return error == PTD_END ? EXIT_CODE_OK
                            : complain(EXIT_CODE_FILE, "%s: at %#" PRIx64 ": %s", name,
                                       fault.offset, fault.text);
}

/* All of it, whose cycle counts only the settings tell from packets. 0 or an exit code. */
static int open_rtit(struct source *source)
{
    const int error = input_take_all(source->input, &source->bytes);

    if (error)
        return file_error(source->input->name, error);
    if (window_has_time(&source->options->window))
        return complain(EXIT_CODE_USAGE, "of RTIT, --from and --to take offsets");
    ptd_rtit_packets_init(&source->rtit, source->bytes.data, source->bytes.len,
                          source->options->cycle_acc);
    source->ended = true;
    return 0;
}

/* To where the window begins, and the clocks if it has times. 0 or an exit code. */
static int open_pt(struct source *source, const struct ptd_time_config *clocks)
{
    const struct window *const window = &source->options->window;
    int error = window_begin(window, source->input, false, &source->base);

    if (!error && source->base > 0)
        error = input_seek(source->input, source->base);
    if (error)
        return file_error(source->input->name, error);
    ptd_packets_init(&source->pt, "", 0);
    ptd_packets_set_errata(&source->pt, clocks->errata);
    source->pt.base = source->base;
    if (window_has_nanoseconds(window))
        return complain(EXIT_CODE_FILE, "nothing tells the seconds of this trace; take tsc:TICKS");
    if (!window_has_time(window))
        return 0;
    source->time = ptd_time_new(clocks);
    return source->time ? 0 : no_memory();
}

static int dump_raw(const struct dump_options *options, const struct sidecar *sidecar,
                    struct input *input)
{
    struct source source = {.options = options, .input = input, .is_rtit = options->rtit};
    int code = source.is_rtit ? open_rtit(&source) : open_pt(&source, &sidecar->clocks);

    if (!code) {
        dump(&source);
        code = source.code;
        if (!code)
            note_window(&options->window, source.is_reached, input->name);
    }
    ptd_time_free(source.time);
    bytes_free(&source.bytes);
    if (!code && source.errors)
        code = complain(EXIT_CODE_FILE, "%s: %u errors", input->name, source.errors);
    return code;
}

/* What TRACE.json says besides the options, and the packets. */
static int dump_with_sidecar(struct dump_options *options, const char *file, struct input *input)
{
    struct sidecar sidecar;
    int code;

    if (sidecar_open(&sidecar, options->like ? options->like : file) != 0) {
        code = complain(EXIT_CODE_FILE, "%s", sidecar.why.text);
    } else if (options->like && !sidecar.is_there) {
        code = complain(EXIT_CODE_FILE, "--like: there is no %s.json", options->like);
    } else {
        options->rtit = options->rtit || sidecar.is_rtit;
        options->cycle_acc = options->cycle_acc || sidecar.rtit.cycle_acc;
        code = dump_raw(options, &sidecar, input);
    }
    sidecar_close(&sidecar);
    return code;
}

static int dump_perf_data(struct dump_options *options, struct input *input,
                          struct scratch *scratch)
{
    struct bytes bytes = {0};
    const int error = scratch_see(scratch, input, &bytes);
    int code;

    if (error)
        return file_error(input->name, error);
    if (window_has_time(&options->window))
        code = complain(EXIT_CODE_USAGE, "of a perf.data, --from and --to take offsets here");
    else
        code = options->records ? dump_records(options, input->name, &bytes)
                                : dump_perf(options, input->name, &bytes, scratch);
    return code;
}

static int give_up_rights(const struct dump_options *options, const char *file)
{
    struct sandbox sandbox = {0};

    guard_allow_sidecar(&sandbox, options->like ? options->like : file);
    return guard_enter(&sandbox, options->no_sandbox);
}

static int dump_input(struct dump_options *options, const char *file)
{
    struct scratch *scratch = NULL;
    struct input input;
    bool is_perf_data = false;
    int error = input_open(&input, file), code;

    if (!error)
        error = input_is_perf_data(&input, &is_perf_data);
    progress_begin("reading packets", error ? 0 : input_size(&input), PROGRESS_BESIDE_LINES);
    if (is_perf_data)
        scratch = scratch_new();
    code = error ? file_error(input.name, error) : give_up_rights(options, file);
    if (!code && is_perf_data)
        code = dump_perf_data(options, &input, scratch);
    else if (!code && options->records)
        code = complain(EXIT_CODE_FILE, "%s: not a perf.data: it has no records", input.name);
    else if (!code)
        code = dump_with_sidecar(options, file, &input);
    progress_end();
    scratch_free(scratch);
    input_close(&input);
    return code;
}

static int dump_file(struct dump_options *options, const char *file)
{
    struct perf_data_place place;
    struct reason why;
    int code = perf_data_locate(file, &place, &why);

    if (code)
        return complain(exit_code_of(code), "%s", why.text);
    code = dump_input(options, place.file);
    perf_data_place_free(&place);
    return code;
}

/* ---- The command ---- */

static int take_from(void *options, const char *value)
{
    return option_bound("--from", value, &((struct dump_options *)options)->window.from);
}

static int take_to(void *options, const char *value)
{
    return option_bound("--to", value, &((struct dump_options *)options)->window.to);
}

static const struct option_row options_of_dump[] = {
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct dump_options, json),
     .help = "Prints one JSON object a line."},
    {.name = "no-sync",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct dump_options, no_sync),
     .help = "Begins at the first byte instead of the first PSB."},
    {.name = "rtit",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct dump_options, rtit),
     .help = "The trace is one of RTIT, the trace of Silvermont.",
     .fallback = "as TRACE.json says"},
    {.name = "cycle-acc",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct dump_options, cycle_acc),
     .help = "Of RTIT: RTIT_CTL.Cycle_Acc was 1, so cycle counts stand behind packets.",
     .fallback = "as TRACE.json says"},
    {.name = "from",
     .value = "WHERE",
     .kind = OPTION_CALL,
     .take = take_from,
     .help = "Leaves out what comes before. WHERE is an offset in bytes, or tsc:TICKS."},
    {.name = "to",
     .value = "WHERE",
     .kind = OPTION_CALL,
     .take = take_to,
     .help = "Stops in front of it."},
    {.name = "like",
     .value = "TRACE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct dump_options, like),
     .help = "Takes settings and clocks from TRACE.json of another trace."},
    {.name = "records",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct dump_options, records),
     .help = "Of a perf.data: prints its records instead of packets."},
    {.name = "no-sandbox",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct dump_options, no_sandbox),
     .help = NO_SANDBOX_HELP},
    {0},
};

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct dump_options *options)
{
    int code = options_parse(&command_dump, argc, argv, options);

    if (code)
        return code;
    if (optind + 1 != argc)
        return 1 + complain(EXIT_CODE_USAGE, "vpt dump takes one file; see vpt dump --help");
    code = check_window(&options->window);
    return code ? 1 + code : 0;
}

static int run(int argc, char **argv)
{
    struct dump_options options = {0};
    const int code = parse(argc, argv, &options);

    return code ? code - 1 : dump_file(&options, argv[optind]);
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "The file cannot be read, or holds errors: they are printed, and the dump "
                     "goes on at the next PSB."},
    {0},
};

const struct subcommand command_dump = {
    .name = "dump",
    .about = "print the packets of a trace",
    .synopsis = "[OPTION...] TRACE",
    .text = "Prints the packets of a raw Intel PT or RTIT trace: offset, bytes, meaning. Of a "
            "perf.data, it prints those of each trace in it. TRACE may be a pipe; - is standard "
            "input.",
    .options = options_of_dump,
    .exits = exits,
    .run = run,
};
