/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A page as a file: what the bundler made of vmm/page/, with the data in the midst of it. Data are
 * blocks that a browser does not run, and no name in them can end such a block: '<' is written as
 * an escape of JSON.
 */
#include "common/escape.h"
#include "common/json.h"
#include "report/page-chunks.h"
#include "report/page-sources.h"
#include "report/page-template.h"
#include "report/page.h"
#include "report/show.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#define NODES_SHOWN 50000u
#define DATA_PLACE  "<!-- vpt: data -->"

bool page_is_there(void)
{
    return page_template_bytes > 0;
}

/* What is written: names in the order of their first use, and the tree without what is least. */
struct writer {
    struct page *page;
    FILE *to;
    uint32_t *numbers; /* of each name in calls.names: its place in order; UINT32_MAX: not used */
    uint32_t *order;
    uint32_t name_count;
    uint64_t *totals; /* of each node, with all below it */
    uint64_t least;   /* a node with less is left out */
    uint32_t *nodes;  /* of each node that is written: its place, plus 1; 0: it is not */
    struct chunks *chunks;
};

/* ---- Names ---- */

static void use_name(struct writer *writer, uint32_t name)
{
    if (writer->numbers[name] != UINT32_MAX)
        return;
    writer->numbers[name] = writer->name_count;
    writer->order[writer->name_count++] = name;
}

static void number_names(struct writer *writer)
{
    const struct page *const page = writer->page;
    const size_t count = page->calls.names.count;

    memset(writer->numbers, 0xff, (count + 1) * sizeof(*writer->numbers));
    for (size_t i = 1; i < page->track_count; i++)
        use_name(writer, page->list[i].name);
    for (size_t i = 0; i < page->spans.count; i++)
        use_name(writer, page->spans.list[i].name);
    for (size_t i = 0; i < page->tree.nodes.count; i++) {
        if (writer->nodes[i])
            use_name(writer, (uint32_t)page->tree.nodes.sums[i].key[1]);
    }
}

static bool put_names(struct writer *writer)
{
    fputs("\"names\":[", writer->to);
    for (uint32_t i = 0; i < writer->name_count; i++) {
        json_object *const name =
            json_object_new_string(writer->page->calls.names.list[writer->order[i]]);
        const char *const text =
            name ? json_object_to_json_string_ext(name, JSON_C_TO_STRING_PLAIN) : NULL;

        if (i)
            fputc(',', writer->to);
        if (text)
            put_json_escaped(text, writer->to);
        json_object_put(name);
        if (!text)
            return false;
    }
    fputs("]", writer->to);
    return true;
}

/* ---- The tree of calls: a node is made behind the one above it, and has a greater number ---- */

static int by_size(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? 1 : a > b ? -1 : 0;
}

/* A node is as large as its instructions, since a function may take less than a tick. */
static bool choose_nodes(struct writer *writer)
{
    const struct table *const nodes = &writer->page->tree.nodes;
    uint64_t *const sorted = malloc((nodes->count + 1) * sizeof(*sorted));
    uint32_t written = 0;

    if (!sorted)
        return false;
    for (size_t i = nodes->count; i-- > 0;) {
        writer->totals[i] += writer->page->insns[i];
        if (nodes->sums[i].key[0])
            writer->totals[nodes->sums[i].key[0] - 1] += writer->totals[i];
    }
    memcpy(sorted, writer->totals, nodes->count * sizeof(*sorted));
    if (nodes->count > NODES_SHOWN) {
        qsort(sorted, nodes->count, sizeof(*sorted), by_size);
        writer->least = sorted[NODES_SHOWN] + 1;
    }
    for (size_t i = 0; i < nodes->count; i++) {
        if (writer->totals[i] >= writer->least)
            writer->nodes[i] = ++written;
    }
    free(sorted);
    return true;
}

static uint64_t node_number(const struct writer *writer, size_t node, unsigned column)
{
    const struct page *const page = writer->page;
    const struct sum *const sum = &page->tree.nodes.sums[node];

    switch (column) {
    case 0:
        return sum->key[0] ? writer->nodes[sum->key[0] - 1] : 0;
    case 1:
        return writer->numbers[sum->key[1]];
    case 2:
        return time_of(&page->counts.report, sum->cost);
    case 3:
        return page->insns[node];
    default:
        return sum->count;
    }
}

/* Columns of numbers. What is left out is a part of the node above it. */
static void put_tree(struct writer *writer)
{
    static const char *const columns[] = {"parent", "name", "time", "insns", "calls"};

    fprintf(writer->to, "\"tree\":{\"least\":%" PRIu64, writer->least);
    for (unsigned column = 0; column < sizeof(columns) / sizeof(columns[0]); column++) {
        bool any = false;

        fprintf(writer->to, ",\"%s\":[", columns[column]);
        for (size_t i = 0; i < writer->page->tree.nodes.count; i++) {
            if (!writer->nodes[i])
                continue;
            fprintf(writer->to, "%s%" PRIu64, any ? "," : "", node_number(writer, i, column));
            any = true;
        }
        fputs("]", writer->to);
    }
    fputs("}", writer->to);
}

/* ---- Tracks ---- */

static void put_levels(struct writer *writer, size_t track, size_t *at)
{
    const struct chunks *const chunks = writer->chunks;
    unsigned shift = UINT32_MAX;

    while (*at < chunks->count && chunks->list[*at].track == track) {
        const struct chunk *const chunk = &chunks->list[(*at)++];

        if (chunk->shift != shift)
            fprintf(writer->to, "%s[%u", shift == UINT32_MAX ? "" : "],", chunk->shift);
        shift = chunk->shift;
        fprintf(writer->to, ",[%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu32 "]", chunk->line,
                chunk->start, chunk->end, chunk->count);
    }
    if (shift != UINT32_MAX)
        fputs("]", writer->to);
}

static void put_tracks(struct writer *writer)
{
    static const char *const kinds[] = {
        [TRACK_VM] = "vm",           [TRACK_CPU] = "processor", [TRACK_PROCESS] = "process",
        [TRACK_SPACE] = "process",   [TRACK_THREAD] = "thread", [TRACK_STACK] = "stack",
        [TRACK_COUNTER] = "counter", [TRACK_EXITS] = "exits"};
    const struct page *const page = writer->page;
    size_t at = 0;

    fputs("\"tracks\":[", writer->to);
    for (size_t i = 1; i < page->track_count; i++) {
        const struct page_track *const track = &page->list[i];

        fprintf(writer->to,
                "%s{\"kind\":\"%s\",\"parent\":%" PRIu32 ",\"name\":%" PRIu32
                ",\"depth\":%u,\"levels\":[",
                i > 1 ? "," : "", kinds[track->kind], track->parent, writer->numbers[track->name],
                track->depth);
        put_levels(writer, i, &at);
        fputs("]}", writer->to);
    }
    fputs("]", writer->to);
}

/* ---- VM exits ---- */

static json_object *latency_to_json(const struct page *page, const struct page_latency *latency)
{
    static const struct {
        const char *key;
        unsigned percent;
    } parts[] = {{"median", 50}, {"p90", 90}, {"p99", 99}};
    const struct event event = {
        .kind = EVENT_EXIT, .what = latency->reason, .vector = latency->vector};
    json_object *const object = json_object_new_object();
    char text[EVENT_NAME_ROOM];

    (void)json_add(
        object, "name",
        json_object_new_string(event_name(&page->counts.report, &event, text, sizeof(text))));
    json_add_number(object, "count", latency->ticks.count);
    json_add_number(object, "least", time_of(&page->counts.report, latency->ticks.least));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        json_add_number(
            object, parts[i].key,
            time_of(&page->counts.report, spread_part(&latency->ticks, parts[i].percent)));
    json_add_number(object, "most", time_of(&page->counts.report, latency->ticks.most));
    json_add_number(object, "total", time_of(&page->counts.report, latency->ticks.total));
    return object;
}

static json_object *latencies_to_json(const struct page *page)
{
    json_object *const list = json_object_new_array();

    for (size_t i = 0; list && i < page->latency_count; i++)
        json_object_array_add(list, latency_to_json(page, page->latencies[i]));
    return list;
}

/* ---- All of it ---- */

/* Takes the object over. False: no memory. */
static bool put_object(struct writer *writer, const char *key, json_object *object)
{
    const char *const text =
        object ? json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN) : NULL;
    const bool ok = text;

    if (ok) {
        fprintf(writer->to, "\"%s\":", key);
        put_json_escaped(text, writer->to);
        fputs(",", writer->to);
    }
    json_object_put(object);
    return ok;
}

static uint64_t first_of(const struct page *page)
{
    return page->first == UINT64_MAX ? 0 : page->first;
}

/* What is written, and by which numbers. False: no memory. */
static bool choose(struct writer *writer)
{
    const struct page *const page = writer->page;

    if (!choose_nodes(writer))
        return false;
    number_names(writer);
    return chunks_make(writer->chunks, &writer->page->spans, first_of(page), writer->numbers,
                       page->track_count) == 0;
}

static bool put_json(struct writer *writer, const struct report_options *options)
{
    const struct page *const page = writer->page;
    const uint64_t first = first_of(page);
    const char *const unit = time_unit(&page->counts.report);
    bool ok;

    fprintf(writer->to,
            "{\"vpt-page\":1,\"unit\":\"%s\",\"first\":%" PRIu64 ",\"length\":%" PRIu64 ",",
            unit ? unit : "instructions", first, page->last > first ? page->last - first : 0);
    fprintf(writer->to, "\"cut_off\":%s,\"too_deep\":%s,", page->is_cut_off ? "true" : "false",
            page->spans.is_cut_off ? "true" : "false");
    ok = put_object(writer, "report", report_to_json(&page->counts.report, options)) &&
         put_object(writer, "latencies", latencies_to_json(page)) &&
         put_object(writer, "sources", page_sources_to_json(page)) && put_names(writer);
    fputs(",", writer->to);
    put_tree(writer);
    fputs(",", writer->to);
    put_tracks(writer);
    fputs("}", writer->to);
    return ok;
}

/* 0 or -errno. */
static int write_json(struct output *output, const char *text, size_t len, struct reason *why)
{
    const char *const end = text + len;
    int error = 0;

    while (!error && text < end) {
        const char *const less = memchr(text, '<', (size_t)(end - text));
        const char *const stop = less ? less : end;

        error = output_write(output, text, (size_t)(stop - text), why);
        if (!error && less)
            error = output_write(output, "\\u003c", 6, why);
        text = less ? less + 1 : end;
    }
    return error;
}

static int write_text(struct output *output, const char *text, struct reason *why)
{
    return output_write(output, text, strlen(text), why);
}

static int write_all(struct writer *writer, const char *json, size_t len, struct output *output,
                     struct reason *why)
{
    const char *const place =
        memmem(page_template, page_template_bytes, DATA_PLACE, sizeof(DATA_PLACE) - 1);
    const char *const behind = place + sizeof(DATA_PLACE) - 1;
    int error = output_write(output, page_template, (size_t)(place - page_template), why);

    if (!error)
        error = write_text(output, "<script type=\"application/json\" id=\"data\">", why);
    if (!error)
        error = write_json(output, json, len, why);
    if (!error)
        error = write_text(output, "</script>\n<script type=\"text/plain\" id=\"chunks\">", why);
    if (!error)
        error = output_write(output, writer->chunks->text.data, writer->chunks->text.len, why);
    if (!error)
        error = write_text(output, "</script>", why);
    if (!error)
        error = output_write(output, behind, (size_t)(page_template + page_template_bytes - behind),
                             why);
    return error;
}

static void free_writer(struct writer *writer)
{
    chunks_free(writer->chunks);
    free(writer->numbers);
    free(writer->order);
    free(writer->totals);
    free(writer->nodes);
}

static bool make_room(struct writer *writer)
{
    const struct page *const page = writer->page;
    const size_t names = page->calls.names.count + 1, nodes = page->tree.nodes.count + 1;

    writer->numbers = calloc(names, sizeof(*writer->numbers));
    writer->order = calloc(names, sizeof(*writer->order));
    writer->totals = calloc(nodes, sizeof(*writer->totals));
    writer->nodes = calloc(nodes, sizeof(*writer->nodes));
    return writer->numbers && writer->order && writer->totals && writer->nodes;
}

int page_write(struct page *page, const struct report_options *options, struct output *output,
               struct reason *why)
{
    char *text = NULL;
    size_t len = 0;
    struct chunks chunks = {0};
    struct writer writer = {.page = page, .chunks = &chunks, .to = open_memstream(&text, &len)};
    bool ok = writer.to && make_room(&writer) && choose(&writer) && put_json(&writer, options);
    int error;

    ok = writer.to && fclose(writer.to) == 0 && ok;
    error = ok ? write_all(&writer, text, len, output, why) : reason_no_memory(why);
    free(text);
    free_writer(&writer);
    return error;
}
