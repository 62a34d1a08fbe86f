/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the files of a trace that record.c made. */
#include <stdlib.h>
#include <string.h>

#include "trace.h"

static FILE *open_part(const struct trace *trace, const char *suffix)
{
    char path[4096];
    FILE *file;

    if (snprintf(path, sizeof(path), "%s.%s", trace->prefix, suffix) >= (int)sizeof(path))
        return NULL;
    file = fopen(path, "rb");
    if (!file)
        perror(path);
    return file;
}

static uint8_t *read_part(const struct trace *trace, const char *suffix, size_t *len)
{
    FILE *const file = open_part(trace, suffix);
    uint8_t *bytes = NULL;
    long end;

    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0)
        bytes = malloc((size_t)end);
    if (bytes) {
        *len = (size_t)end;
        if (fread(bytes, 1, *len, file) != *len) {
            free(bytes);
            bytes = NULL;
        }
    }
    (void)fclose(file);
    return bytes;
}

static bool load_code(struct trace *trace)
{
    size_t len = 0;
    uint8_t *const code = read_part(trace, "code", &len);
    FILE *const map = open_part(trace, "map");
    uint64_t address, section_bytes, offset = 0;
    bool loaded = code && map;

    trace->code = code;
    trace->image = ptd_image_new();
    while (loaded && fscanf(map, "%" SCNx64 " %" SCNx64, &address, &section_bytes) == 2) {
        struct section *const more =
            reallocarray(trace->sections, trace->section_count + 1, sizeof(*trace->sections));

        loaded = more && section_bytes <= len - offset &&
                 ptd_image_add_bytes(trace->image, NULL, address, code + offset, section_bytes,
                                     PTD_ANY_CR3) == PTD_OK;
        if (!more)
            break;
        trace->sections = more;
        more[trace->section_count++] = (struct section){address, offset, section_bytes};
        offset += section_bytes;
    }
    if (map)
        (void)fclose(map);
    return loaded;
}

bool trace_load(struct trace *trace)
{
    const char *const slash = strrchr(trace->prefix, '/');
    const bool has_code = load_code(trace);

    trace->name = slash ? slash + 1 : trace->prefix;
    return trace_load_kind(trace, PLAIN) && has_code;
}

bool trace_load_kind(struct trace *trace, enum trace_kind kind)
{
    static const char *const suffixes[KINDS] = {"pt", "mtc.pt", "cyc.pt"};

    free(trace->bytes);
    trace->suffix = suffixes[kind];
    trace->bytes = read_part(trace, trace->suffix, &trace->len_bytes);
    return trace->bytes != NULL;
}

bool trace_load_truth(struct trace *trace)
{
    FILE *const truth = open_part(trace, "truth"), *const native = open_part(trace, "native");
    double seconds = 0, insns = 0;
    const bool known = truth && native && truth_read(&trace->truth, truth) &&
                       fscanf(native, "%lf %lf", &seconds, &insns) == 2;

    if (truth)
        (void)fclose(truth);
    if (native)
        (void)fclose(native);
    trace->native_s = seconds / insns * (double)trace->truth.insns;
    return known && seconds > 0 && insns > 0;
}

void trace_unload(struct trace *trace)
{
    free(trace->bytes);
    free(trace->code);
    free(trace->sections);
    ptd_image_free(trace->image);
}
