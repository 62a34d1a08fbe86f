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

struct dump_options {
    const char *file;
    bool json, sync, records;
};

static void usage(FILE *to)
{
    fputs("usage: vpt dump [--json] [--no-sync] [--records] TRACE\n"
          "\n"
          "Prints the packets of a raw Intel PT trace: offset, bytes, meaning; of a perf.data, "
          "those\n"
          "of each trace in it.\n"
          "\n"
          "  --json     one JSON object a line\n"
          "  --no-sync  begin at the first byte instead of the first PSB\n"
          "  --records  of a perf.data: its records instead of packets\n"
          "  --help\n"
          "\n"
          "Exit codes: 0 success, 2 usage, 3 the file cannot be read or holds errors (they are\n"
          "printed, and the dump goes on at the next PSB).\n",
          to);
}

static void print_packet(const struct ptd_packet *packet, const uint8_t *bytes, bool json)
{
    char text[256], hex[2 * 16 + 1];

    ptd_packet_format(packet, text, sizeof(text));
    for (unsigned i = 0; i < packet->size_bytes && i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[packet->offset + i]);
    if (!json) {
        printf("%08" PRIx64 "  %-32s  %s\n", packet->offset, hex, text);
        return;
    }
    json_object *object = json_object_new_object();
    json_object_object_add(object, "offset", json_object_new_int64((int64_t)packet->offset));
    json_object_object_add(object, "bytes", json_object_new_string(hex));
    json_object_object_add(object, "type", json_object_new_string(ptd_packet_name(packet->type)));
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

/* How many errors. */
static unsigned dump(const uint8_t *bytes, size_t len, const struct dump_options *options)
{
    struct ptd_packets packets;
    struct ptd_packet packet;
    unsigned errors = 0;
    int error;

    ptd_packets_init(&packets, bytes, len);
    if (options->sync && ptd_packets_sync(&packets) != PTD_OK) {
        print_error(0, PTD_E_NOSYNC, options->json);
        return 1;
    }
    while ((error = ptd_packets_next(&packets, &packet)) != PTD_END) {
        const uint64_t offset = ptd_packets_offset(&packets);

        if (error == PTD_OK) {
            print_packet(&packet, bytes, options->json);
            continue;
        }
        errors++;
        print_error(offset, error, options->json);
        if (ptd_packets_seek(&packets, offset + 1) != PTD_OK ||
            ptd_packets_sync(&packets) != PTD_OK)
            break;
    }
    return errors;
}

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

static int dump_perf(const struct dump_options *options, const struct bytes *file)
{
    unsigned errors = 0;
    int code;
    struct ptd_perf_session *const session = perf_data_open(options->file, file, &code);

    if (!session)
        return code;
    for (size_t i = 0; i < session->trace_count; i++) {
        print_trace(&session->traces[i], options->json);
        errors += dump(session->traces[i].bytes, session->traces[i].len_bytes, options);
    }
    if (session->error)
        code = EXIT_CODE_FILE; /* said already */
    ptd_perf_session_free(session);
    return errors ? complain(EXIT_CODE_FILE, "%s: %u errors", options->file, errors) : code;
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

static int dump_records(const struct dump_options *options, const struct bytes *file)
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
                            : complain(EXIT_CODE_FILE, "%s: at %#" PRIx64 ": %s", options->file,
                                       fault.offset, fault.text);
}

static int dump_file(const struct dump_options *options, const struct bytes *file)
{
    const bool perf = ptd_perf_detect(file->data, file->len);
    unsigned errors;

    if (options->records && !perf)
        return complain(EXIT_CODE_USAGE, "%s: not a perf.data: it has no records", options->file);
    if (perf)
        return options->records ? dump_records(options, file) : dump_perf(options, file);
    errors = dump(file->data, file->len, options);
    return errors ? complain(EXIT_CODE_FILE, "%s: %u errors", options->file, errors) : EXIT_CODE_OK;
}

int cmd_dump(int argc, char **argv)
{
    struct dump_options options = {.sync = true};
    struct bytes file = {0};
    int error, code;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            options.json = true;
        } else if (strcmp(argv[i], "--no-sync") == 0) {
            options.sync = false;
        } else if (strcmp(argv[i], "--records") == 0) {
            options.records = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            usage(stdout);
            return EXIT_CODE_OK;
        } else if (argv[i][0] == '-' || options.file) {
            return complain(EXIT_CODE_USAGE, "vpt dump takes one file, not also '%s'", argv[i]);
        } else {
            options.file = argv[i];
        }
    }
    if (!options.file)
        return complain(EXIT_CODE_USAGE, "vpt dump takes one file; see vpt dump --help");
    error = read_file(options.file, &file);
    code = error ? complain(EXIT_CODE_FILE, "%s: %s", options.file, strerror(-error))
                 : dump_file(&options, &file);
    bytes_free(&file);
    return code;
}
