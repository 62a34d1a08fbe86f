/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzes files of pieces: the last line, and the sums in front of it, into a report. */
#include "common/json.h"
#include "report/report.h"
#include "view/piece.h"

#include <json-c/json.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load_sums(const struct piece_file *file)
{
    struct report report;
    char what[256];
    json_object *const sums =
        json_parse((const char *)file->bytes.data, file->payload_bytes, what, sizeof(what));

    if (!report_begin(&report))
        abort();
    if (sums)
        (void)report_shards.load(&report, sums);
    json_object_put(sums);
    report_free(&report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "piece";
    struct piece_file file = {.path = path};
    struct reason why;

    if (!bytes_add(&file.bytes, data, size))
        abort();
    file.payload_bytes = size;
    load_sums(&file);
    if (piece_parse(&file, "report", &why) == 0)
        load_sums(&file);
    bytes_free(&file.bytes);
    return 0;
}
