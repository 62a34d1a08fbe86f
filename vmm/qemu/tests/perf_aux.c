/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes the trace of one CPU out of a perf.data, with the sidecar that decodes it.
 *
 *   perf_aux PERF.DATA CPU [ELF] TRACE
 *
 * The buffers of the CPU are put one behind the other, as they stand in the file. The ELF file is
 * the code of every address space; without one, the sidecar names no code.
 *
 * Prints how many records of the file say that data was lost, on any CPU.
 */
#include "common/bytes.h"
#include "common/file.h"
#include "common/say.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC            "PERFILE2"
#define RECORD_AUXTRACE  71
#define AUXTRACE_BYTES   48
#define DATA_SECTION     40 /* of the file's header: offset and size of the records */
#define HEADER_MIN_BYTES 104

struct auxtrace {
    struct perf_event_header header;
    uint64_t size, offset, reference;
    uint32_t idx, tid, cpu, reserved;
};

/* The kernel had no room for what was traced, or for records. */
static bool is_loss(const uint8_t *bytes, const struct perf_event_header *header)
{
    uint64_t aux[3]; /* offset, size, flags */

    if (header->type == PERF_RECORD_LOST || header->type == PERF_RECORD_LOST_SAMPLES)
        return true;
    if (header->type != PERF_RECORD_AUX || header->size < sizeof(*header) + sizeof(aux))
        return false;
    memcpy(aux, bytes + sizeof(*header), sizeof(aux));
    return aux[2] & (PERF_AUX_FLAG_TRUNCATED | PERF_AUX_FLAG_PARTIAL);
}

static int take(const struct bytes *file, uint32_t cpu, struct bytes *trace, uint64_t *losses)
{
    uint64_t section[2], pos;

    if (file->len < HEADER_MIN_BYTES || memcmp(file->data, MAGIC, 8) != 0)
        return -1;
    memcpy(section, file->data + DATA_SECTION, sizeof(section));
    if (section[0] > file->len || section[1] > file->len - section[0])
        return -1;
    for (pos = section[0]; pos + sizeof(struct perf_event_header) <= section[0] + section[1];) {
        struct auxtrace record = {0};
        uint64_t left = section[0] + section[1] - pos;

        memcpy(&record.header, file->data + pos, sizeof(record.header));
        if (record.header.size < sizeof(record.header) || record.header.size > left)
            return -1;
        *losses += is_loss(file->data + pos, &record.header);
        pos += record.header.size;
        left -= record.header.size;
        if (record.header.type != RECORD_AUXTRACE)
            continue;
        if (record.header.size < AUXTRACE_BYTES)
            return -1;
        memcpy(&record, file->data + pos - record.header.size, sizeof(record));
        if (record.size > left)
            return -1;
        if (record.cpu == cpu && !bytes_add(trace, file->data + pos, record.size))
            return -1;
        pos += record.size;
    }
    return 0;
}

static int write_sidecar(const char *trace, const char *elf)
{
    json_object *root = json_object_new_object(), *images = json_object_new_array();
    char path[4096];
    int status;

    if (elf) {
        json_object *image = json_object_new_object();

        json_object_object_add(image, "path", json_object_new_string(elf));
        json_object_object_add(image, "bias", json_object_new_int(0));
        json_object_object_add(image, "cr3", NULL);
        json_object_object_add(image, "name", json_object_new_string("work"));
        json_object_array_add(images, image);
    }
    json_object_object_add(root, "vpt", json_object_new_int(1));
    json_object_object_add(root, "images", images);
    snprintf(path, sizeof(path), "%s.json", trace);
    status = json_object_to_file_ext(path, root, JSON_C_TO_STRING_PRETTY);
    json_object_put(root);
    return status;
}

int main(int argc, char **argv)
{
    const char *const elf_name = argc == 5 ? argv[3] : NULL;
    struct bytes file = {0}, trace = {0};
    uint64_t losses = 0;
    char *elf = NULL;
    int status;

    if (argc != 4 && argc != 5)
        return complain(EXIT_CODE_USAGE, "usage: perf_aux PERF.DATA CPU [ELF] TRACE");
    if (elf_name)
        elf = realpath(elf_name, NULL);
    if ((elf_name && !elf) || read_file(argv[1], &file))
        return complain(EXIT_CODE_FILE, "%s%s%s cannot be read", argv[1], elf_name ? " or " : "",
                        elf_name ? elf_name : "");
    if (take(&file, (uint32_t)strtoul(argv[2], NULL, 0), &trace, &losses))
        return complain(EXIT_CODE_FILE, "%s: not a perf.data that is whole", argv[1]);
    status =
        write_file(argv[argc - 1], trace.data, trace.len) || write_sidecar(argv[argc - 1], elf);
    printf("%zu bytes, %" PRIu64 " records of loss\n", trace.len, losses);
    free(elf);
    bytes_free(&file);
    bytes_free(&trace);
    return status ? complain(EXIT_CODE_FILE, "%s cannot be written", argv[argc - 1]) : EXIT_CODE_OK;
}
