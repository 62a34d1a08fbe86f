/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt dump: the packets of a raw trace, one a line.
 */
#include "vmm.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

static void usage(FILE *to)
{
    fputs("usage: vpt dump [OPTION...] TRACE\n"
          "\n"
          "Prints the packets of a raw Intel PT or RTIT trace: offset, bytes, meaning.\n"
          "\n"
          "  --json       one JSON object a line\n"
          "  --no-sync    begin at the first byte instead of the first PSB\n"
          "  --rtit       RTIT, the trace of Silvermont; TRACE.json says so by itself\n"
          "  --cycle-acc  of RTIT: RTIT_CTL.Cycle_Acc was 1\n"
          "  --help\n"
          "\n"
          "Exit codes: 0 success, 2 usage, 3 the file cannot be read or holds errors (they are\n"
          "printed, and the dump goes on at the next PSB).\n",
          to);
}

struct dump_options {
    bool json, no_sync, rtit, cycle_acc;
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

/* ---- PT and RTIT: the next packet, printed ---- */

static int dump_next(struct ptd_packets *packets, const uint8_t *bytes, bool json)
{
    struct ptd_packet packet;
    char text[256];
    const int error = ptd_packets_next(packets, &packet);

    if (error)
        return error;
    ptd_packet_format(&packet, text, sizeof(text));
    print_packet(packet.offset, packet.size_bytes, bytes, ptd_packet_name(packet.type), text, json);
    return PTD_OK;
}

static int dump_next_rtit(struct ptd_rtit_packets *packets, const uint8_t *bytes, bool json)
{
    struct ptd_rtit_packet packet;
    char text[256];
    const int error = ptd_rtit_packets_next(packets, &packet);

    if (error)
        return error;
    ptd_rtit_packet_format(&packet, text, sizeof(text));
    print_packet(packet.offset, packet.size_bytes, bytes, ptd_rtit_packet_name(packet.type), text,
                 json);
    return PTD_OK;
}

/* How many errors. */
static unsigned dump(const struct bytes *trace, const struct dump_options *options)
{
    struct ptd_packets packets;
    unsigned errors = 0;
    int error;

    ptd_packets_init(&packets, trace->data, trace->len);
    if (!options->no_sync && ptd_packets_sync(&packets) != PTD_OK) {
        print_error(0, PTD_E_NOSYNC, options->json);
        return 1;
    }
    while ((error = dump_next(&packets, trace->data, options->json)) != PTD_END) {
        const uint64_t offset = ptd_packets_offset(&packets);

        if (error == PTD_OK)
            continue;
        errors++;
        print_error(offset, error, options->json);
        if (ptd_packets_seek(&packets, offset + 1) != PTD_OK ||
            ptd_packets_sync(&packets) != PTD_OK)
            break;
    }
    return errors;
}

static unsigned dump_rtit(const struct bytes *trace, const struct dump_options *options)
{
    struct ptd_rtit_packets packets;
    unsigned errors = 0;
    int error;

    ptd_rtit_packets_init(&packets, trace->data, trace->len, options->cycle_acc);
    if (!options->no_sync && ptd_rtit_packets_sync(&packets) != PTD_OK) {
        print_error(0, PTD_E_NOSYNC, options->json);
        return 1;
    }
    while ((error = dump_next_rtit(&packets, trace->data, options->json)) != PTD_END) {
        const uint64_t offset = ptd_rtit_packets_offset(&packets);

        if (error == PTD_OK)
            continue;
        errors++;
        print_error(offset, error, options->json);
        if (ptd_rtit_packets_seek(&packets, offset + 1) != PTD_OK ||
            ptd_rtit_packets_sync(&packets) != PTD_OK)
            break;
    }
    return errors;
}

/* ---- The command ---- */

int cmd_dump(int argc, char **argv)
{
    struct dump_options options = {0};
    struct ptd_rtit_config rtit;
    struct bytes trace = {0};
    const char *file = NULL;
    unsigned errors;
    int error;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            options.json = true;
        } else if (strcmp(argv[i], "--no-sync") == 0) {
            options.no_sync = true;
        } else if (strcmp(argv[i], "--rtit") == 0) {
            options.rtit = true;
        } else if (strcmp(argv[i], "--cycle-acc") == 0) {
            options.cycle_acc = true;
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
    error = read_file(file, &trace);
    if (error) {
        bytes_free(&trace);
        return complain(EXIT_CODE_FILE, "%s: %s", file, strerror(-error));
    }
    if (sidecar_rtit(file, &rtit)) {
        options.rtit = true;
        options.cycle_acc |= rtit.cycle_acc;
    }
    errors = options.rtit ? dump_rtit(&trace, &options) : dump(&trace, &options);
    bytes_free(&trace);
    return errors ? complain(EXIT_CODE_FILE, "%s: %u errors", file, errors) : EXIT_CODE_OK;
}
