/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions that annotate.c has counted, as text and as JSON: instructions in the order of
 * their addresses, those that did not run among them, and behind them the lines that they are from.
 */
#include "report/annotate-show.h"
#include "report/annotate-lines.h"
#include "common/escape.h"
#include "common/json.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    const struct sum *line;
};

/* What is shown of a function, in order. */
struct shown {
    const struct annotate *annotate;
    const struct frames_look *look;
    const struct annotate_function *function;
    struct entry *list;
    size_t count;
    struct annotate_line *places; /* in sources, if they were asked for */
    size_t place_count;
    uint64_t executed;
    bool has_versions;
};

static const char *name_of(const struct shown *shown)
{
    return shown->annotate->seen.list[shown->function->name];
}

static const struct annotate_code *code_of(const struct shown *shown, const struct sum *line)
{
    return &shown->annotate->codes[line - shown->annotate->lines.sums];
}

static int by_offset(const void *a, const void *b)
{
    const uint64_t *const x = ((const struct entry *)a)->line->key, *const y =
                                                                        ((const struct entry *)b)
                                                                            ->line->key;

    if (x[1] != y[1])
        return x[1] < y[1] ? -1 : 1;
    return x[2] < y[2] ? -1 : 1;
}

/*
 * Code that did not run is what stands there if one begins at the function's start. Where something
 * else ran, it is none.
 */
static void leave_out_wrong(struct shown *shown)
{
    uint64_t behind = 0; /* what ran last */
    size_t kept = 0;

    for (size_t i = 0; i < shown->count; i++) {
        const struct sum *const line = shown->list[i].line;
        const uint64_t end = line->key[1] + code_of(shown, line)->size_bytes;
        bool is_wrong = line->key[1] < behind;

        for (size_t j = i + 1; !is_wrong && j < shown->count && shown->list[j].line->key[1] < end;
             j++)
            is_wrong = shown->list[j].line->count > 0;
        if (line->count > 0)
            behind = end > behind ? end : behind;
        else if (is_wrong)
            continue;
        shown->list[kept++].line = line;
    }
    shown->count = kept;
}

/* 0 or -ENOMEM. */
static int take_lines(struct shown *shown, uint64_t number)
{
    const struct table *const lines = &shown->annotate->lines;

    shown->list = calloc(lines->count ? lines->count : 1, sizeof(*shown->list));
    if (!shown->list)
        return -ENOMEM;
    for (size_t i = 0; i < lines->count; i++) {
        if (lines->sums[i].key[0] != number)
            continue;
        shown->list[shown->count++].line = &lines->sums[i];
        shown->executed += lines->sums[i].count;
        shown->has_versions |= lines->sums[i].key[2] > 0;
    }
    qsort(shown->list, shown->count, sizeof(*shown->list), by_offset);
    leave_out_wrong(shown);
    return shown->look->lines
               ? annotate_lines(shown->annotate, number, &shown->places, &shown->place_count)
               : 0;
}

static void free_lines(struct shown *shown)
{
    free(shown->list);
    free(shown->places);
}

static void text_of(const struct shown *shown, const struct sum *line, char *text, size_t room)
{
    const struct annotate_code *const code = code_of(shown, line);

    if (ptd_insn_format(code->mode, shown->function->start + line->key[1], code->bytes,
                        code->size_bytes, text, room) != PTD_OK)
        (void)snprintf(text, room, "?");
}

static bool is_conditional(const struct shown *shown, const struct sum *line)
{
    return code_of(shown, line)->iclass == PTD_INSN_COND;
}

static double percent(uint64_t part, uint64_t all)
{
    return all ? 100.0 * (double)part / (double)all : 0;
}

/* ---- Text ---- */

static void print_head(const struct shown *shown, uint64_t all)
{
    struct escaped room;

    printf("%s at %#" PRIx64 ": %" PRIu64 " instructions, %.2f %% of all",
           escaped(name_of(shown), &room), shown->function->start, shown->executed,
           percent(shown->executed, all));
    if (shown->function->places > 1)
        printf("; the same code at %" PRIu64 " places", shown->function->places);
    if (shown->has_versions)
        printf("; its code changed: what stands there later is marked with '");
    printf("\n%14s %8s %14s %14s\n", "executed", "share", "taken", "not taken");
}

static void print_line(const struct shown *shown, const struct sum *line)
{
    struct source_frame frames[FRAMES_MAX];
    char text[128];
    size_t count;

    text_of(shown, line, text, sizeof(text));
    if (line->count == 0)
        printf("%14s %8s ", "-", "");
    else
        printf("%14" PRIu64 " %6.2f %% ", line->count, percent(line->count, shown->executed));
    if (line->count > 0 && is_conditional(shown, line))
        printf("%14" PRIu64 " %14" PRIu64, line->cost, line->count - line->cost);
    else
        printf("%14s %14s", "", "");
    printf("  %#" PRIx64 "%s  %s", shown->function->start + line->key[1], line->key[2] ? "'" : " ",
           text);
    count = annotate_frames(shown->annotate, code_of(shown, line), frames);
    frames_print(shown->look, frames, count, name_of(shown));
    putchar('\n');
}

static void print_places(const struct shown *shown)
{
    if (shown->place_count > 0)
        printf("\n%14s %8s  line\n", "executed", "share");
    for (size_t i = 0; i < shown->place_count; i++) {
        const struct annotate_line *const place = &shown->places[i];

        printf("%14" PRIu64 " %6.2f %%  ", place->insns, percent(place->insns, shown->executed));
        if (place->file) {
            put_escaped(place->file, stdout);
            printf(":%u\n", place->line);
        } else {
            puts("?");
        }
    }
}

static void print_function(const struct shown *shown, uint64_t all)
{
    uint64_t at = 0;

    print_head(shown, all);
    for (size_t i = 0; i < shown->count; i++) {
        const struct sum *const line = shown->list[i].line;

        if (line->key[1] > at)
            printf("%54s  ...\n", ""); /* nothing is known of it */
        print_line(shown, line);
        at = line->key[1] + code_of(shown, line)->size_bytes;
    }
    print_places(shown);
}

/* ---- JSON ---- */

static void add_address(json_object *object, const char *key, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%#" PRIx64, value);
    json_add(object, key, json_object_new_string(text));
}

static json_object *line_to_json(const struct shown *shown, const struct sum *line)
{
    json_object *const object = json_object_new_object();
    struct source_frame frames[FRAMES_MAX];
    const size_t count = annotate_frames(shown->annotate, code_of(shown, line), frames);
    char text[128];

    text_of(shown, line, text, sizeof(text));
    add_address(object, "address", shown->function->start + line->key[1]);
    json_add_number(object, "offset", line->key[1]);
    json_add(object, "text", json_object_new_string(text));
    json_add_number(object, "executed", line->count);
    if (is_conditional(shown, line)) {
        json_add_number(object, "taken", line->cost);
        json_add_number(object, "not_taken", line->count - line->cost);
    }
    if (line->key[2])
        json_add_number(object, "version", line->key[2]);
    frames_to_json(shown->look, frames, count, name_of(shown), object);
    return object;
}

static json_object *places_to_json(const struct shown *shown)
{
    json_object *const list = json_object_new_array();

    for (size_t i = 0; i < shown->place_count; i++) {
        const struct annotate_line *const place = &shown->places[i];
        json_object *const object = json_object_new_object();

        if (place->file) {
            json_add(object, "file", json_object_new_string(place->file));
            json_add_number(object, "line", place->line);
        }
        json_add_number(object, "executed", place->insns);
        json_object_array_add(list, object);
    }
    return list;
}

static json_object *function_to_json(const struct shown *shown)
{
    json_object *const object = json_object_new_object(), *const list = json_object_new_array();

    json_add(object, "name", json_object_new_string(name_of(shown)));
    add_address(object, "address", shown->function->start);
    json_add_number(object, "places", shown->function->places);
    json_add_number(object, "instructions", shown->executed);
    for (size_t i = 0; i < shown->count; i++)
        json_object_array_add(list, line_to_json(shown, shown->list[i].line));
    json_add(object, "code", list);
    if (shown->look->lines)
        json_add(object, "lines", places_to_json(shown));
    return object;
}

/* ---- All ---- */

static int show_json(const struct annotate *annotate, uint64_t all, const struct frames_look *look)
{
    json_object *const root = json_object_new_object(), *const list = json_object_new_array();
    int error = 0;

    json_add(root, "name", json_object_new_string(annotate->name));
    json_add_number(root, "all_instructions", all);
    for (size_t i = 0; !error && i < annotate->function_count; i++) {
        struct shown shown = {
            .annotate = annotate, .look = look, .function = &annotate->functions[i]};

        error = take_lines(&shown, i);
        if (!error)
            json_object_array_add(list, function_to_json(&shown));
        free_lines(&shown);
    }
    json_add(root, "functions", list);
    if (error)
        json_object_put(root);
    else
        json_print(root, JSON_C_TO_STRING_PRETTY);
    return error;
}

static int show_text(const struct annotate *annotate, uint64_t all, const struct frames_look *look)
{
    int error = 0;

    if (annotate->function_count > 1)
        printf("%zu functions have this name.\n\n", annotate->function_count);
    for (size_t i = 0; !error && i < annotate->function_count; i++) {
        struct shown shown = {
            .annotate = annotate, .look = look, .function = &annotate->functions[i]};

        error = take_lines(&shown, i);
        if (!error && i > 0)
            printf("\n");
        if (!error)
            print_function(&shown, all);
        free_lines(&shown);
    }
    return error;
}

int annotate_show(const struct annotate *annotate, uint64_t all, const struct frames_look *look,
                  bool json)
{
    return json ? show_json(annotate, all, look) : show_text(annotate, all, look);
}
