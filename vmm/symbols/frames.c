/* SPDX-License-Identifier: BSD-3-Clause */
/* Sources as text and as JSON. Text has the last part of a path, JSON has all of it. */
#include "symbols/frames.h"
#include "common/escape.h"
#include "common/json.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

/* The outermost function is the one of the symbol table, too. */
static const char *function_of(const struct frames_look *look, const char *function,
                               const char *outer)
{
    const char *const name = function ? function : outer;

    return name ? shown_name(look->shown, name) : "?";
}

static void print_place(const struct source_frame *frame)
{
    const char *const last = strrchr(frame->file, '/');

    put_escaped(last ? last + 1 : frame->file, stdout);
    printf(":%u", frame->line);
}

void frames_print(const struct frames_look *look, const struct source_frame *frames, size_t count,
                  const char *outer)
{
    const bool has_chain = look->inlined && count > 1;

    for (size_t i = 0; i < count && (i == 0 || has_chain); i++) {
        const bool has_place = look->lines && frames[i].file;

        if (!has_chain && !has_place)
            return;
        fputs(i ? " < " : "  ; ", stdout);
        if (has_chain)
            put_escaped(function_of(look, frames[i].function, outer), stdout);
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
    json_add(object, "file", json_object_new_string(frame->file));
    json_add_number(object, "line", frame->line);
}

void frames_to_json(const struct frames_look *look, const struct source_frame *frames, size_t count,
                    const char *outer, json_object *object)
{
    json_object *list;

    if (count && look->lines)
        add_place(object, &frames[0]);
    if (count < 2 || !look->inlined)
        return;
    list = json_object_new_array();
    for (size_t i = 0; i < count; i++) {
        json_object *const frame = json_object_new_object();

        json_add(frame, "function",
                 json_object_new_string(function_of(look, frames[i].function, outer)));
        add_place(frame, &frames[i]);
        json_object_array_add(list, frame);
    }
    json_add(object, "frames", list);
}
