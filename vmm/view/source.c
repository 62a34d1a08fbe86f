/* SPDX-License-Identifier: BSD-3-Clause */
/* Sources as text and as JSON. Text has the last part of a path, JSON has all of it. */
#include "view/source.h"
#include "common/escape.h"
#include "common/json.h"
#include "trace/code-files.h"

#include <stdio.h>
#include <string.h>

static size_t find(const struct decode_options *options, const struct stream *stream, uint64_t cr3,
                   uint64_t ip, struct source_frame frames[FRAMES_MAX])
{
    if (!options->lines && !options->inlined)
        return 0;
    return code_files_sources(options->code.files, stream->image, cr3, ip, frames);
}

/* The outermost function is the one of the symbol table, too. */
static const char *function_of(const struct decode_options *options, const struct stream *stream,
                               uint64_t cr3, uint64_t ip, const char *function)
{
    const char *const name = function ? function : ptd_image_symbol(stream->image, cr3, ip, NULL);

    return name ? shown_name(options->names, name) : "?";
}

static void print_place(const struct source_frame *frame)
{
    const char *const last = strrchr(frame->file, '/');

    put_escaped(last ? last + 1 : frame->file, stdout);
    printf(":%u", frame->line);
}

void source_print(const struct decode_options *options, const struct stream *stream, uint64_t cr3,
                  uint64_t ip)
{
    struct source_frame frames[FRAMES_MAX];
    const size_t count = find(options, stream, cr3, ip, frames);
    const bool has_chain = options->inlined && count > 1;

    for (size_t i = 0; i < count && (i == 0 || has_chain); i++) {
        const bool has_place = options->lines && frames[i].file;

        if (!has_chain && !has_place)
            return;
        fputs(i ? " < " : "  ; ", stdout);
        if (has_chain)
            put_escaped(function_of(options, stream, cr3, ip, frames[i].function), stdout);
        if (has_chain && has_place)
            putchar(' ');
        if (has_place)
            print_place(&frames[i]);
    }
}

static void add_place(json_object *object, const struct source_frame *frame)
{
    if (!frame->file)
        return;
    json_object_object_add(object, "file", json_object_new_string(frame->file));
    json_add_number(object, "line", frame->line);
}

void source_to_json(const struct decode_options *options, const struct stream *stream, uint64_t cr3,
                    uint64_t ip, json_object *line)
{
    struct source_frame frames[FRAMES_MAX];
    const size_t count = find(options, stream, cr3, ip, frames);
    json_object *list;

    if (count && options->lines)
        add_place(line, &frames[0]);
    if (count < 2 || !options->inlined)
        return;
    list = json_object_new_array();
    for (size_t i = 0; i < count; i++) {
        json_object *const frame = json_object_new_object();

        json_object_object_add(
            frame, "function",
            json_object_new_string(function_of(options, stream, cr3, ip, frames[i].function)));
        add_place(frame, &frames[i]);
        json_object_array_add(list, frame);
    }
    json_object_object_add(line, "frames", list);
}
