/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt dump: the packets of a raw trace, or of each trace in a perf.data, one a line.
 */
#include "perf-data.h"
#include "vmm.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

static void usage(FILE *to)
{
    fputs("usage: vpt dump [OPTION...] TRACE\n"
          "\n"
          "Prints the packets of a raw Intel PT or RTIT trace: offset, bytes, meaning; of a\n"
          "perf.data, those of each trace in it.\n"
          "\n"
          "  --json       one JSON object a line\n"
          "  --no-sync    begin at the first byte instead of the first PSB\n"
          "  --rtit       RTIT, the trace of Silvermont; TRACE.json says so by itself\n"
          "  --cycle-acc  of RTIT: RTIT_CTL.Cycle_Acc was 1\n"
          "  --records    of a perf.data: its records instead of packets\n"
          "  --help\n"
          "\n"
          "Exit codes: 0 success, 2 usage, 3 the file cannot be read or holds errors (they are\n"
          "printed, and the dump goes on at the next PSB).\n",
          to);
}

struct dump_options {
    bool json, no_sync, rtit, cycle_acc, records;
};

static void print_packet(uint64_t offset, unsigned size_bytes, const uint8_t *bytes,
                         const char *name, const char *text, bool json)
{
    char hex[2 * 16 + 1] = "";

    for (unsigned i = 0; i < size_bytes && i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[offset + i]);
    if (!json) {
        printf("%08" PRIx64 "  %-32s  %s\n", offset, hex, text);
        return;
    }
    json_object *object = json_object_new_object();
    json_object_object_add(object, "offset", json_object_new_int64((int64_t)offset));
    json_object_object_add(object, "bytes", json_object_new_string(hex));
    json_object_object_add(object, "type", json_object_new_string(name));
    json_object_object_add(object, "text", json_object_new_string(text));
    printf("%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    json_object_put(object);
}

static void print_error(uint64_t offset, int error, bool json)
{
    if (!json) {
        printf("%08" PRIx64 "  error: %s\n", offset, ptd_strerror(error));
        return;
    }
    json_object *object = json_object_new_object();
    json_object_object_add(object, "offset", json_object_new_int64((int64_t)offset));
    json_object_object_add(object, "error", json_object_new_string(ptd_strerror(error)));
    printf("%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    json_object_put(object);
}

/* ---- PT and RTIT ---- */

/* One of the two iterators. */
struct source {
    bool is_rtit;
    struct ptd_packets pt;
    struct ptd_rtit_packets rtit;
};

static int source_sync(struct source *source)
{
    return source->is_rtit ? ptd_rtit_packets_sync(&source->rtit) : ptd_packets_sync(&source->pt);
}

static int source_resync(struct source *source)
{
    return source->is_rtit ? ptd_rtit_packets_resync(&source->rtit)
                           : ptd_packets_resync(&source->pt);
}

static uint64_t source_offset(const struct source *source)
{
    return source->is_rtit ? ptd_rtit_packets_offset(&source->rtit)
                           : ptd_packets_offset(&source->pt);
}

/* The next packet, printed. */
static int dump_next(struct source *source, const uint8_t *bytes, bool json)
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
        print_packet(rtit.offset, rtit.size_bytes, bytes, ptd_rtit_packet_name(rtit.type), text,
                     json);
        return PTD_OK;
    }
    error = ptd_packets_next(&source->pt, &packet);
    if (error)
        return error;
    ptd_packet_format(&packet, text, sizeof(text));
    print_packet(packet.offset, packet.size_bytes, bytes, ptd_packet_name(packet.type), text, json);
    return PTD_OK;
}

/* How many errors. */
static unsigned dump(const struct bytes *trace, const struct dump_options *options, bool is_rtit)
{
    struct source source = {.is_rtit = is_rtit};
    unsigned errors = 0;
    int error;

    ptd_packets_init(&source.pt, trace->data, trace->len);
    ptd_rtit_packets_init(&source.rtit, trace->data, trace->len, options->cycle_acc);
    if (!options->no_sync && source_sync(&source) != PTD_OK) {
        print_error(0, PTD_E_NOSYNC, options->json);
        return 1;
    }
    while ((error = dump_next(&source, trace->data, options->json)) != PTD_END) {
        if (error == PTD_OK)
            continue;
        errors++;
        print_error(source_offset(&source), error, options->json);
        if (source_resync(&source) != PTD_OK)
            break;
    }
    return errors;
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
    json_object_object_add(object, "buffer", json_object_new_int64(trace->idx));
    json_object_object_add(object, "cpu", json_object_new_int(trace->cpu));
    json_object_object_add(object, "tid", json_object_new_int(trace->tid));
    json_object_object_add(object, "len", json_object_new_int64((int64_t)trace->len_bytes));
    printf("%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    json_object_put(object);
}

static int dump_perf(const struct dump_options *options, const char *name, const struct bytes *file)
{
    unsigned errors = 0;
    int code;
    struct ptd_perf_session *const session = perf_data_open(name, file, &code);

    if (!session)
        return code;
    for (size_t i = 0; i < session->trace_count; i++) {
        const struct bytes packets = {.data = (uint8_t *)session->traces[i].bytes,
                                      .len = session->traces[i].len_bytes};

        print_trace(&session->traces[i], options->json);
        errors += dump(&packets, options, false);
    }
    if (session->error)
        code = EXIT_CODE_FILE; /* said already */
    ptd_perf_session_free(session);
    return errors ? complain(EXIT_CODE_FILE, "%s: %u errors", name, errors) : code;
}

static void print_record(const struct ptd_perf_record *record, bool json)
{
    char text[5000];

    ptd_perf_format(record, text, sizeof(text));
    if (!json) {
        printf("%08" PRIx64 "  %s\n", record->offset, text);
        return;
    }
    json_object *object = json_object_new_object();
    json_object_object_add(object, "offset", json_object_new_int64((int64_t)record->offset));
    json_object_object_add(object, "type",
                           json_object_new_string(ptd_perf_type_name(record->type)));
    if (record->has_time)
        json_object_object_add(object, "time", json_object_new_int64((int64_t)record->time));
    json_object_object_add(object, "text", json_object_new_string(text));
    printf("%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    json_object_put(object);
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

static int dump_raw(struct dump_options *options, const char *name, const struct bytes *file)
{
    struct ptd_rtit_config rtit;
    unsigned errors;

    if (sidecar_rtit(name, &rtit)) {
        options->rtit = true;
        options->cycle_acc |= rtit.cycle_acc;
    }
    errors = dump(file, options, options->rtit);
    return errors ? complain(EXIT_CODE_FILE, "%s: %u errors", name, errors) : EXIT_CODE_OK;
}

static int dump_file(struct dump_options *options, const char *name, const struct bytes *file)
{
    if (!ptd_perf_detect(file->data, file->len))
        return options->records
                   ? complain(EXIT_CODE_USAGE, "%s: not a perf.data: it has no records", name)
                   : dump_raw(options, name, file);
    return options->records ? dump_records(options, name, file) : dump_perf(options, name, file);
}

/* ---- The command ---- */

int cmd_dump(int argc, char **argv)
{
    struct dump_options options = {0};
    struct bytes trace = {0};
    struct code_options code_options = {0};
    const char *file = NULL;
    char *path;
    int error, code;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            options.json = true;
        } else if (strcmp(argv[i], "--no-sync") == 0) {
            options.no_sync = true;
        } else if (strcmp(argv[i], "--rtit") == 0) {
            options.rtit = true;
        } else if (strcmp(argv[i], "--cycle-acc") == 0) {
            options.cycle_acc = true;
        } else if (strcmp(argv[i], "--records") == 0) {
            options.records = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            usage(stdout);
            return EXIT_CODE_OK;
        } else if (argv[i][0] == '-' || file) {
            return complain(EXIT_CODE_USAGE, "vpt dump takes one file, not also '%s'", argv[i]);
        } else {
            file = argv[i];
        }
    }
    if (!file)
        return complain(EXIT_CODE_USAGE, "vpt dump takes one file; see vpt dump --help");
    path = perf_data_locate(file, &code_options);
    if (!path)
        return EXIT_CODE_FILE;
    error = read_file(path, &trace);
    code = error ? complain(EXIT_CODE_FILE, "%s: %s", file, strerror(-error))
                 : dump_file(&options, file, &trace);
    bytes_free(&trace);
    free(code_options.kcore);
    free(path);
    return code;
}
