/* SPDX-License-Identifier: BSD-3-Clause */
/* Three decoders, see agree.h. */
#include "demux/tests/agree.h"

#include <inttypes.h>
#include <intel-pt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demux/tests/command.h"
#include "ptdec.h"

static void add(struct decoded *decoded, uint64_t ip, uint64_t cr3)
{
    if (decoded->count == decoded->room) {
        const size_t room = decoded->room ? 2 * decoded->room : 4096;
        struct ran *const more = reallocarray(decoded->list, room, sizeof(*more));

        if (!more) {
            decoded->no_memory = true;
            return;
        }
        decoded->list = more;
        decoded->room = room;
    }
    decoded->list[decoded->count++] = (struct ran){ip, cr3};
}

static void fail(struct decoded *decoded, uint64_t offset, const char *what)
{
    if (decoded->errors++ == 0)
        snprintf(decoded->first, sizeof(decoded->first),
                 "%s, at offset %#" PRIx64 " behind %zu instructions", what, offset,
                 decoded->count);
}

/* ---- libptdec ---- */

static void take_item(const struct ptd_image *image, const struct ptd_item *item,
                      struct decoded *decoded)
{
    uint64_t ip = item->ip;
    struct ptd_insn insn;

    if (item->type == PTD_ITEM_ERROR)
        fail(decoded, item->offset, ptd_strerror(item->error));
    decoded->gaps += item->type == PTD_ITEM_OVERFLOW;
    if (item->type != PTD_ITEM_BLOCK)
        return;
    while (ptd_block_insn(image, item, &ip, &insn) == PTD_OK)
        add(decoded, insn.ip, item->cr3);
}

void agree_ptdec(const struct agree_trace *trace, struct decoded *decoded)
{
    struct ptd_image *const image = ptd_image_new();
    struct ptd_flow *flow = NULL;
    struct ptd_item item;

    if (image && ptd_image_add_code_log(image, trace->code, trace->code_bytes) == PTD_OK)
        flow = ptd_flow_new(trace->bytes, trace->len_bytes, image, NULL);
    if (!flow)
        fail(decoded, 0, "no code log");
    while (flow && ptd_flow_next(flow, &item) == PTD_OK)
        take_item(image, &item, decoded);
    ptd_flow_free(flow);
    ptd_image_free(image);
}

/* ---- libipt ---- */

static int read_code(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
                     void *context)
{
    const struct ptd_image *const image = context;
    const uint64_t cr3 = asid->cr3 == pt_asid_no_cr3 ? 0 : asid->cr3;
    size_t done = 0, len;
    const uint8_t *bytes;

    while (done < size && ptd_image_find(image, cr3, ip + done, &bytes, &len) == PTD_OK) {
        if (len > size - done)
            len = size - done;
        memcpy(buffer + done, bytes, len);
        done += len;
    }
    return done ? (int)done : -pte_nomap;
}

/* Events up to the next instruction. A negative error, or flags. */
static int take_events(struct pt_insn_decoder *decoder, int status, struct decoded *decoded,
                       uint64_t *cr3)
{
    while (status >= 0 && status & pts_event_pending) {
        struct pt_event event;

        status = pt_insn_event(decoder, &event, sizeof(event));
        if (status >= 0 && event.type == ptev_overflow)
            decoded->gaps++;
        if (status >= 0 && event.type == ptev_paging)
            *cr3 = event.variant.paging.cr3;
        if (status >= 0 && event.type == ptev_async_paging)
            *cr3 = event.variant.async_paging.cr3;
    }
    return status;
}

static void decode(struct pt_insn_decoder *decoder, struct decoded *decoded)
{
    uint64_t offset = 0, cr3 = 0;
    struct pt_insn insn;
    int status = pt_insn_sync_forward(decoder);

    while (status >= 0) {
        status = take_events(decoder, status, decoded, &cr3);
        if (status >= 0 && !(status & pts_eos)) {
            status = pt_insn_next(decoder, &insn, sizeof(insn));
            if (status >= 0 && insn.iclass != ptic_error)
                add(decoded, insn.ip, cr3);
        } else if (status >= 0) {
            return;
        }
        if (status >= 0 || status == -pte_eos)
            continue;
        (void)pt_insn_get_offset(decoder, &offset);
        fail(decoded, offset, pt_errstr(pt_errcode(status)));
        status = pt_insn_sync_forward(decoder);
    }
}

/* An image whose code log was replayed to its end. NULL: there is none. */
static struct ptd_image *code_at_the_end(const struct agree_trace *trace)
{
    struct ptd_image *const image = ptd_image_new();
    struct ptd_flow *flow = NULL;
    struct ptd_item item;

    if (image && ptd_image_add_code_log(image, trace->code, trace->code_bytes) == PTD_OK)
        flow = ptd_flow_new(trace->bytes, trace->len_bytes, image, NULL);
    while (flow && ptd_flow_next(flow, &item) == PTD_OK)
        ;
    ptd_flow_free(flow);
    return image;
}

void agree_libipt(const struct agree_trace *trace, struct decoded *decoded)
{
    struct ptd_image *const code = code_at_the_end(trace);
    struct pt_image *const image = pt_image_alloc("guest");
    struct pt_insn_decoder *decoder = NULL;
    struct pt_config config;

    pt_config_init(&config);
    config.begin = trace->bytes;
    config.end = trace->bytes + trace->len_bytes;
    if (code && image)
        decoder = pt_insn_alloc_decoder(&config);
    if (decoder && pt_image_set_callback(image, read_code, code) == 0 &&
        pt_insn_set_image(decoder, image) == 0)
        decode(decoder, decoded);
    else
        fail(decoded, 0, "libipt does not want it");
    pt_insn_free_decoder(decoder);
    pt_image_free(image);
    ptd_image_free(code);
}

/* ---- perf ---- */

#define COMMAND_BYTES 16384

static bool skip(struct decoded *decoded, const char *why)
{
    snprintf(decoded->first, sizeof(decoded->first), "%.*s", (int)strcspn(why, "\n"), why);
    return false;
}

/* `vpt convert`, as run_command(); what it says goes to a file. */
static int run_convert(const char *folder, const char *name, const char *said)
{
    char code[PATH_MAX], trace[PATH_MAX], data[PATH_MAX];
    char *argv[] = {"convert", "--code", code, trace, data, NULL};

    snprintf(code, sizeof(code), "%s/%s.flat", folder, name);
    snprintf(trace, sizeof(trace), "%s/%s", folder, name);
    snprintf(data, sizeof(data), "%s/%s.data", folder, name);
    return run_command(&command_convert, argv, NULL, said);
}

/* A perf.data beside the trace. False: it would not hold all of the code. */
static bool convert(const char *folder, const char *name, struct decoded *decoded)
{
    char said[PATH_MAX], line[512] = "";
    FILE *file;
    int code;

    snprintf(said, sizeof(said), "%s/%s.said", folder, name);
    code = run_convert(folder, name, said);
    file = fopen(said, "re");
    if (file && !fgets(line, sizeof(line), file))
        line[0] = 0;
    if (file)
        (void)fclose(file);
    if (code != 0)
        fail(decoded, 0, *line ? line : "vpt convert failed");
    return code != 0 || !*line || skip(decoded, line);
}

static void take_line(const char *line, struct decoded *decoded)
{
    const char *const error = strstr(line, "instruction trace error");
    uint64_t ip;

    if (error)
        fail(decoded, 0, error);
    else if (sscanf(line, "%" SCNx64, &ip) == 1)
        add(decoded, ip, 0);
}

static void read_lines(const char *folder, const char *name, struct decoded *decoded)
{
    char command[COMMAND_BYTES], line[512];
    FILE *lines;

    snprintf(command, sizeof(command),
             "perf script -i '%s/%s.data' --itrace=i0nse -F ip 2>/dev/null", folder, name);
    lines = popen(command, "re");
    while (lines && fgets(line, sizeof(line), lines))
        take_line(line, decoded);
    if (!lines || pclose(lines) != 0)
        fail(decoded, 0, "perf script failed");
}

static void tidy(const char *folder, const char *name)
{
    char command[COMMAND_BYTES];

    snprintf(command, sizeof(command), "rm -rf '%s/%s.flat' '%s/%s.data' '%s/%s.said'", folder,
             name, folder, name, folder, name);
    if (system(command) != 0)
        (void)fprintf(stderr, "agree: %s failed\n", command);
}

bool agree_perf(const char *folder, const char *name, struct decoded *decoded)
{
    bool asked;

    if (system("perf --version >/dev/null 2>&1") != 0)
        return skip(decoded, "no perf (linux-perf)");
    asked = convert(folder, name, decoded);
    if (asked && decoded->errors == 0)
        read_lines(folder, name, decoded);
    tidy(folder, name);
    return asked;
}

size_t agree_difference(const struct decoded *a, const struct decoded *b)
{
    for (size_t i = 0; i < a->count && i < b->count; i++)
        if (a->list[i].ip != b->list[i].ip)
            return i;
    return a->count == b->count ? SIZE_MAX : a->count < b->count ? a->count : b->count;
}
