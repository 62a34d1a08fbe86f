/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces of a trace: where they begin, and their files. */
#include "view/piece.h"
#include "common/json.h"
#include "common/open.h"
#include "common/version.h"
#include "ptdec.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORM         3           /* of the file */
#define WARM_BYTES   (64u << 10) /* decoded in front of a piece, at least */
#define LINE_MAX_LEN (64u << 10) /* of the last line */
#define FILE_MAX     (UINT64_C(1) << 40)

/* ---- Where ---- */

static uint64_t psb_behind(const uint8_t *bytes, size_t len, uint64_t offset)
{
    struct ptd_packets packets;

    ptd_packets_init(&packets, bytes, len);
    (void)ptd_packets_seek(&packets, offset);
    (void)ptd_packets_sync(&packets); /* or to the end */
    return ptd_packets_offset(&packets);
}

uint64_t shard_begin(const uint8_t *bytes, size_t len, unsigned number, unsigned count)
{
    if (number == 1)
        return 0;
    if (number > count)
        return len;
    return psb_behind(bytes, len, len / count * (number - 1) + len % count * (number - 1) / count);
}

uint64_t shard_warm(const uint8_t *bytes, size_t len, uint64_t begin)
{
    for (uint64_t back = WARM_BYTES; back < begin; back *= 2) {
        const uint64_t found = psb_behind(bytes, len, begin - back);

        if (found < begin)
            return found;
    }
    return 0;
}

/* ---- Files ---- */

char *piece_path(const char *folder, unsigned number, unsigned count)
{
    char *path;

    return asprintf(&path, "%s/%u-of-%u", folder, number, count) < 0 ? NULL : path;
}

/* The numbers of a last line, by name. */
static const struct member {
    const char *key;
    size_t offset;
} members[] = {
    {"trace_bytes", offsetof(struct piece, trace_bytes)},
    {"begin", offsetof(struct piece, begin)},
    {"end", offsetof(struct piece, end)},
    {"trace", offsetof(struct piece, trace)},
    {"modified", offsetof(struct piece, modified)},
    {"before", offsetof(struct piece, before)},
    {"behind", offsetof(struct piece, behind)},
    {"errors", offsetof(struct piece, errors)},
    {"has_time", offsetof(struct piece, has_time)},
};

#define MEMBERS (sizeof(members) / sizeof(members[0]))

int piece_end(struct output *output, const struct piece *piece, const char *command,
              struct reason *why)
{
    json_object *const line = json_object_new_object();
    const char *text;
    int error;

    json_add_number(line, "vpt_shard", FORM);
    (void)json_add(line, "version", json_object_new_string(VPT_VERSION));
    (void)json_add(line, "command", json_object_new_string(command));
    json_add_number(line, "shard", piece->number);
    json_add_number(line, "of", piece->count);
    for (size_t i = 0; i < MEMBERS; i++)
        json_add_number(line, members[i].key,
                        *(const uint64_t *)(const void *)((const char *)piece + members[i].offset));
    text = json_object_to_json_string_ext(line, JSON_C_TO_STRING_PLAIN);
    error = text ? output_write(output, "\n", 1, why) : reason_no_memory(why);
    if (!error)
        error = output_write(output, text, strlen(text), why);
    if (!error)
        error = output_write(output, "\n", 1, why);
    json_object_put(line);
    return error;
}

static bool get(json_object *line, const char *key, uint64_t *number)
{
    json_object *value;

    if (!json_object_object_get_ex(line, key, &value) ||
        !json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
        return false;
    *number = json_object_get_uint64(value);
    return true;
}

static bool is_text(json_object *line, const char *key, const char *text)
{
    json_object *value;

    return json_object_object_get_ex(line, key, &value) &&
           json_object_is_type(value, json_type_string) &&
           strcmp(json_object_get_string(value), text) == 0;
}

static int take_line(struct piece_file *file, json_object *line, const char *command,
                     struct reason *why)
{
    struct piece *const piece = &file->piece;
    uint64_t form, number, count;

    if (!get(line, "vpt_shard", &form))
        return reason_set(why, -EINVAL, "%s: no piece of a trace", file->path);
    if (form != FORM || !is_text(line, "version", VPT_VERSION))
        return reason_set(why, -EINVAL, "%s: a piece of another version of vpt", file->path);
    if (!is_text(line, "command", command))
        return reason_set(why, -EINVAL, "%s: a piece of another command than %s", file->path,
                          command);
    if (!get(line, "shard", &number) || !get(line, "of", &count) || number > SHARDS_MAX ||
        count > SHARDS_MAX)
        return reason_set(why, -EINVAL, "%s: it does not say which piece it is", file->path);
    piece->number = (unsigned)number;
    piece->count = (unsigned)count;
    for (size_t i = 0; i < MEMBERS; i++) {
        if (!get(line, members[i].key, (uint64_t *)(void *)((char *)piece + members[i].offset)))
            return reason_set(why, -EINVAL, "%s: it has no number '%s'", file->path,
                              members[i].key);
    }
    return 0;
}

/* What is in front of the last line; NULL: there is none. */
static const uint8_t *last_line(const struct bytes *bytes, size_t *len)
{
    const size_t most = bytes->len < LINE_MAX_LEN ? bytes->len : LINE_MAX_LEN;
    const uint8_t *newline;

    if (bytes->len < 2 || bytes->data[bytes->len - 1] != '\n')
        return NULL;
    newline = memrchr(bytes->data + bytes->len - most, '\n', most - 1);
    *len = newline ? (size_t)(bytes->data + bytes->len - newline) - 2 : 0;
    return newline;
}

int piece_parse(struct piece_file *file, const char *command, struct reason *why)
{
    size_t len;
    const uint8_t *const newline = last_line(&file->bytes, &len);
    char what[256];
    json_object *const line =
        newline ? json_parse((const char *)newline + 1, len, what, sizeof(what)) : NULL;
    int error;

    if (!json_object_is_type(line, json_type_object)) {
        json_object_put(line);
        return reason_set(why, -EINVAL, "%s: no piece of a trace, or not all of one", file->path);
    }
    error = take_line(file, line, command, why);
    file->payload_bytes = (size_t)(newline - file->bytes.data);
    json_object_put(line);
    return error;
}

static int check(const struct piece_file *file, const struct piece *wanted, struct reason *why)
{
    const struct piece *const piece = &file->piece;

    if (piece->number != wanted->number || piece->count != wanted->count)
        return reason_set(why, -EINVAL, "%s: it is piece %u of %u", file->path, piece->number,
                          piece->count);
    if (piece->trace_bytes != wanted->trace_bytes || piece->begin != wanted->begin ||
        piece->end != wanted->end)
        return reason_set(why, -EINVAL, "%s: a piece of another trace", file->path);
    return 0;
}

static int read_piece(const char *folder, unsigned number, unsigned count, const char *command,
                      struct piece_file *file, struct reason *why)
{
    struct file_name name = {.by_user = true};
    int error;

    *file = (struct piece_file){.path = piece_path(folder, number, count)};
    if (!file->path)
        return reason_no_memory(why);
    name.path = file->path;
    error = read_named(&name, FILE_MAX, &file->bytes, why);
    return error ? error : piece_parse(file, command, why);
}

int piece_read(const char *folder, const struct piece *wanted, const char *command,
               struct piece_file *file, struct reason *why)
{
    const int error = read_piece(folder, wanted->number, wanted->count, command, file, why);

    return error ? error : check(file, wanted, why);
}

int piece_look(const char *folder, unsigned number, unsigned count, const char *command,
               struct piece *piece)
{
    struct piece_file file;
    struct reason why = {0};
    const int error = read_piece(folder, number, count, command, &file, &why);

    if (!error)
        *piece = file.piece;
    piece_close(&file);
    return error;
}

void piece_close(struct piece_file *file)
{
    free(file->path);
    bytes_free(&file->bytes);
}
