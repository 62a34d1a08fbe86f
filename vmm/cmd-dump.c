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
    fputs("usage: vpt dump [--json] [--no-sync] TRACE\n"
          "\n"
          "Prints the packets of a raw Intel PT trace: offset, bytes, meaning.\n"
          "\n"
          "  --json     one JSON object a line\n"
          "  --no-sync  begin at the first byte instead of the first PSB\n"
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
static unsigned dump(const struct bytes *trace, bool json, bool sync)
{
    struct ptd_packets packets;
    struct ptd_packet packet;
    unsigned errors = 0;
    int error;

    ptd_packets_init(&packets, trace->data, trace->len);
    if (sync && ptd_packets_sync(&packets) != PTD_OK) {
        print_error(0, PTD_E_NOSYNC, json);
        return 1;
    }
    while ((error = ptd_packets_next(&packets, &packet)) != PTD_END) {
        const uint64_t offset = ptd_packets_offset(&packets);

        if (error == PTD_OK) {
            print_packet(&packet, trace->data, json);
            continue;
        }
        errors++;
        print_error(offset, error, json);
        if (ptd_packets_seek(&packets, offset + 1) != PTD_OK ||
            ptd_packets_sync(&packets) != PTD_OK)
            break;
    }
    return errors;
}

int cmd_dump(int argc, char **argv)
{
    struct bytes trace = {0};
    const char *file = NULL;
    bool json = false, sync = true;
    unsigned errors;
    int error;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--no-sync") == 0) {
            sync = false;
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
    errors = dump(&trace, json, sync);
    bytes_free(&trace);
    return errors ? complain(EXIT_CODE_FILE, "%s: %u errors", file, errors) : EXIT_CODE_OK;
}
