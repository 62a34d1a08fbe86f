/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of sources for the page: counts of annotate-lines.h, and what stands in the files.
 */
#include "report/page-sources.h"
#include "common/json.h"
#include "report/annotate-lines.h"

#include <stdlib.h>
#include <string.h>

/* Of one writing. */
struct sources {
    const struct page *page;
    json_object *list;
    size_t text_left; /* bytes */
    bool no_memory;
};

/* A file, as lines. */
struct source_text {
    struct bytes bytes;
    const char *at; /* where line `line` begins; NULL: there is no text */
    unsigned line;
};

/* ---- Which functions ---- */

struct function_sum {
    uint64_t number, insns;
};

static int most_first(const void *left, const void *right)
{
    const struct function_sum *const a = left, *const b = right;

    if (a->insns != b->insns)
        return a->insns > b->insns ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* All functions, those in front that ran most. To be freed; NULL: no memory. */
static struct function_sum *functions_by_size(const struct annotate *annotate)
{
    struct function_sum *const sums = calloc(annotate->function_count + 1, sizeof(*sums));

    for (size_t i = 0; sums && i < annotate->function_count; i++)
        sums[i].number = i;
    for (size_t i = 0; sums && i < annotate->lines.count; i++)
        sums[annotate->lines.sums[i].key[0]].insns += annotate->lines.sums[i].count;
    if (sums)
        qsort(sums, annotate->function_count, sizeof(*sums), most_first);
    return sums;
}

/* ---- Texts ---- */

static void open_text(const struct page *page, const char *path, struct source_text *text)
{
    const struct file_name name = {.root = page->sources->root, .path = path};
    struct reason why;

    *text = (struct source_text){.line = 1};
    if (page->sources->root && read_named(&name, PAGE_SOURCE_FILE_MAX, &text->bytes, &why) == 0)
        text->at = (const char *)text->bytes.data;
}

/* The text of a line, which is not before those that were asked for; NULL: there is none. */
static const char *text_of(struct source_text *text, unsigned line, size_t *len)
{
    const char *const end = (const char *)text->bytes.data + text->bytes.len;
    const char *stop;

    while (text->at && text->line < line) {
        text->at = memchr(text->at, '\n', (size_t)(end - text->at));
        text->at = text->at && text->at + 1 < end ? text->at + 1 : NULL;
        text->line++;
    }
    if (!text->at || text->at >= end)
        return NULL;
    stop = memchr(text->at, '\n', (size_t)(end - text->at));
    *len = (size_t)((stop ? stop : end) - text->at);
    return text->at;
}

/* ---- Lines ---- */

static int by_place(const void *left, const void *right)
{
    const struct annotate_line *const a = left, *const b = right;
    int order;

    if (!a->file || !b->file)
        return (a->file == NULL) - (b->file == NULL);
    order = strcmp(a->file, b->file);
    return order ? order : a->line < b->line ? -1 : a->line > b->line;
}

static void put_line(struct sources *sources, json_object *list, struct source_text *text,
                     unsigned line, uint64_t insns)
{
    json_object *const row = json_object_new_array();
    size_t len = 0;
    const char *const words = text_of(text, line, &len);

    if (!row || json_object_array_add(list, row) != 0) {
        json_object_put(row);
        sources->no_memory = true;
        return;
    }
    json_object_array_add(row, json_object_new_int64(line));
    json_object_array_add(row, json_object_new_uint64(insns));
    if (words && len <= sources->text_left) {
        json_object_array_add(row, json_object_new_string_len(words, (int)len));
        sources->text_left -= len;
    }
}

/* What stands around the lines that ran, which are in order. False: the file has no such line. */
static void put_lines(struct sources *sources, json_object *list, struct source_text *text,
                      const struct annotate_line *lines, size_t count)
{
    unsigned next = 0, put = 0;

    for (size_t i = 0; i < count && put < PAGE_LINES_MAX; i++) {
        const unsigned before = lines[i].line > PAGE_AROUND ? lines[i].line - PAGE_AROUND : 1;
        const unsigned after = i + 1 < count && lines[i + 1].line - lines[i].line <= PAGE_AROUND
                                   ? lines[i + 1].line - 1
                                   : lines[i].line + PAGE_AROUND;
        size_t len;

        for (next = next > before ? next : before; next <= after && put < PAGE_LINES_MAX; next++) {
            const bool ran = next == lines[i].line;

            if (!ran && !text_of(text, next, &len))
                continue;
            put_line(sources, list, text, next, ran ? lines[i].insns : 0);
            put++;
        }
    }
}

/* The lines of one file. */
static void put_file(struct sources *sources, const char *function,
                     const struct annotate_line *lines, size_t count)
{
    json_object *const entry = json_object_new_object(), *const list = json_object_new_array();
    struct source_text text;
    uint64_t insns = 0;

    for (size_t i = 0; i < count; i++)
        insns += lines[i].insns;
    if (!json_add(entry, "function", json_object_new_string(function)) ||
        !json_add(entry, "file", json_object_new_string(lines[0].file)) ||
        !json_add(entry, "lines", list) || json_object_array_add(sources->list, entry) != 0) {
        json_object_put(entry);
        sources->no_memory = true;
        return;
    }
    json_add_number(entry, "insns", insns);
    open_text(sources->page, lines[0].file, &text);
    put_lines(sources, list, &text, lines, count);
    bytes_free(&text.bytes);
}

static void put_function(struct sources *sources, uint64_t number)
{
    const struct annotate *const annotate = &sources->page->counts.lines;
    const char *const name = annotate->seen.list[annotate->functions[number].name];
    struct annotate_line *lines = NULL;
    size_t count = 0;

    sources->no_memory |= annotate_lines(annotate, number, &lines, &count) != 0;
    if (lines)
        qsort(lines, count, sizeof(*lines), by_place);
    for (size_t i = 0, end; lines && i < count && lines[i].file; i = end) {
        for (end = i + 1;
             end < count && lines[end].file && strcmp(lines[end].file, lines[i].file) == 0;)
            end++;
        put_file(sources, name, &lines[i], end - i);
    }
    free(lines);
}

json_object *page_sources_to_json(const struct page *page)
{
    const struct annotate *const annotate = &page->counts.lines;
    struct sources sources = {
        .page = page, .list = json_object_new_array(), .text_left = PAGE_TEXT_MAX};
    struct function_sum *const order = functions_by_size(annotate);

    for (size_t i = 0; order && sources.list && i < annotate->function_count &&
                       i < PAGE_SOURCES_MAX && order[i].insns > 0;
         i++)
        put_function(&sources, order[i].number);
    free(order);
    if (order && !sources.no_memory)
        return sources.list;
    json_object_put(sources.list);
    return NULL;
}
