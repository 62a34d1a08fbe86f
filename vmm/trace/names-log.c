/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads logs of names. Lines are in order, so that a place is found by halving. A line is one of a
 * task if it has a "tid", and one of a mapping if it has a "start"; what else there may be is for
 * later versions.
 */
#include "trace/names-log.h"
#include "common/escape.h"
#include "common/json.h"
#include "common/list.h"
#include "common/table.h"
#include "ptdec.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION     1u
#define CR3_ADDRESS UINT64_C(0x000ffffffffff000)
#define ROOTS_MAX   2u /* of an address space: of the kernel, and of user code */

/* A task that runs from a place on. */
struct task_at {
    uint64_t at;
    uint64_t roots[ROOTS_MAX]; /* 0: none */
    uint32_t pid, tid, comm;   /* comm: in names */
};

/* A task by what CR3 it has. */
struct by_root {
    uint64_t root;
    size_t task;
};

struct names_log {
    struct names names;
    struct task_at *tasks;
    size_t task_count, task_room;
    struct by_root *roots; /* sorted */
    size_t root_count;
    struct names_log_change *changes;
    size_t change_count, change_room;
    uint64_t begin; /* offsets in the log are larger by so much */
    uint64_t left_out;
};

struct reader {
    struct names_log *log;
    const char *name;
    size_t line;
    uint64_t at; /* of the line before */
    struct reason *why;
};

/* ---- What is wrong ---- */

__attribute__((format(printf, 2, 3))) static int wrong(struct reader *reader, const char *format,
                                                       ...)
{
    char what[200];
    struct escaped room;
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return reason_set(reader->why, -EBADMSG, "%.200s: line %zu: %s", reader->name, reader->line,
                      escaped(what, &room));
}

/* ---- Members ---- */

/* A number of at most max, if it is there; else *value is as it was. 0 or -EBADMSG. */
static int take_number(struct reader *reader, json_object *line, const char *key, uint64_t max,
                       uint64_t *value)
{
    json_object *found;

    if (!json_object_object_get_ex(line, key, &found))
        return 0;
    if (!json_object_is_type(found, json_type_int) || json_object_get_int64(found) < 0 ||
        json_object_get_uint64(found) > max)
        return wrong(reader, "\"%s\" is no such number", key);
    *value = json_object_get_uint64(found);
    return 0;
}

/* A text, or NULL if it is not there. */
static int take_text(struct reader *reader, json_object *line, const char *key, const char **text)
{
    json_object *found;

    *text = NULL;
    if (!json_object_object_get_ex(line, key, &found))
        return 0;
    if (!json_object_is_type(found, json_type_string))
        return wrong(reader, "\"%s\" is no text", key);
    *text = json_object_get_string(found);
    return 0;
}

/* The values of CR3 that an address space has; none: all are 0. */
static int take_roots(struct reader *reader, json_object *line, uint64_t roots[ROOTS_MAX])
{
    json_object *list;
    size_t count;

    memset(roots, 0, ROOTS_MAX * sizeof(*roots));
    if (!json_object_object_get_ex(line, "cr3", &list))
        return 0;
    count = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    if (count == 0 || count > ROOTS_MAX)
        return wrong(reader, "\"cr3\" is no list of one or two");
    for (size_t i = 0; i < count; i++) {
        json_object *const root = json_object_array_get_idx(list, i);

        roots[i] = json_object_is_type(root, json_type_int) ? json_object_get_uint64(root) : 0;
        if (roots[i] == 0 || roots[i] & ~CR3_ADDRESS)
            return wrong(reader, "\"cr3\" is no page");
    }
    return 0;
}

/* ---- Lines ---- */

static int add_change(struct reader *reader, const struct names_log_change *change)
{
    struct names_log *const log = reader->log;
    struct names_log_change *const grown =
        list_grow(log->changes, log->change_count, &log->change_room, sizeof(*grown));

    if (!grown)
        return reason_no_memory(reader->why);
    log->changes = grown;
    log->changes[log->change_count++] = *change;
    return 0;
}

/* An address space that is another one from here on. */
static int take_new(struct reader *reader, json_object *line, const struct task_at *task)
{
    const struct names_log_change change = {
        .at = task->at, .cr3 = task->roots[0], .user_cr3 = task->roots[1], .is_new = true};
    json_object *found;

    if (!json_object_object_get_ex(line, "new", &found) || !json_object_get_boolean(found) ||
        !change.cr3)
        return 0;
    return add_change(reader, &change);
}

static int take_task(struct reader *reader, json_object *line, uint64_t at)
{
    struct names_log *const log = reader->log;
    struct task_at task = {.at = at}, *grown;
    uint64_t pid = 0, tid = 0;
    const char *comm;
    int error = take_number(reader, line, "pid", INT32_MAX, &pid);

    if (!error)
        error = take_number(reader, line, "tid", INT32_MAX, &tid);
    if (!error)
        error = take_text(reader, line, "comm", &comm);
    if (!error)
        error = take_roots(reader, line, task.roots);
    if (error)
        return error;
    task.pid = (uint32_t)pid;
    task.tid = (uint32_t)tid;
    task.comm = names_add(&log->names, comm ? comm : "?");
    grown = list_grow(log->tasks, log->task_count, &log->task_room, sizeof(*grown));
    if (grown)
        log->tasks = grown;
    if (task.comm == UINT32_MAX || !grown)
        return reason_no_memory(reader->why);
    log->tasks[log->task_count++] = task;
    return take_new(reader, line, &task);
}

static int hex_digit(char letter)
{
    return letter >= '0' && letter <= '9'   ? letter - '0'
           : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
                                            : -1;
}

static int take_build_id(struct reader *reader, json_object *line, struct names_log_change *change)
{
    const char *text;
    const int error = take_text(reader, line, "build_id", &text);

    if (error || !text)
        return error;
    while (*text && change->build_id_bytes < NAMES_LOG_BUILD_ID_MAX) {
        const int high = hex_digit(text[0]), low = high < 0 ? -1 : hex_digit(text[1]);

        if (low < 0)
            break;
        change->build_id[change->build_id_bytes++] = (uint8_t)(high << 4 | low);
        text += 2;
    }
    return *text ? wrong(reader, "\"build_id\" is none") : 0;
}

/* A copy that lives as long as the log. NULL: no memory. */
static const char *keep(struct names_log *log, const char *text)
{
    const uint32_t number = names_add(&log->names, text);

    return number == UINT32_MAX ? NULL : log->names.list[number];
}

static int take_map(struct reader *reader, json_object *line, uint64_t at)
{
    struct names_log_change change = {.at = at};
    uint64_t roots[ROOTS_MAX];
    const char *path = NULL;
    int error = take_roots(reader, line, roots);

    if (!error)
        error = take_number(reader, line, "start", UINT64_MAX, &change.start);
    if (!error)
        error = take_number(reader, line, "end", UINT64_MAX, &change.end);
    if (!error)
        error = take_number(reader, line, "offset", UINT64_MAX, &change.offset);
    if (!error)
        error = take_number(reader, line, "cache", UINT64_MAX, &change.cache);
    if (!error)
        error = take_build_id(reader, line, &change);
    if (!error)
        error = take_text(reader, line, "path", &path);
    if (error)
        return error;
    if (roots[0] == 0 || change.start >= change.end)
        return wrong(reader, "a mapping without a place");
    change.cr3 = roots[0];
    change.user_cr3 = roots[1];
    change.path = path ? keep(reader->log, path) : NULL;
    if (path && !change.path)
        return reason_no_memory(reader->why);
    return add_change(reader, &change);
}

static bool has(json_object *line, const char *key)
{
    return json_object_object_get_ex(line, key, NULL);
}

static int take_line(struct reader *reader, json_object *line)
{
    uint64_t at = 0;
    int error = take_number(reader, line, "at", UINT64_MAX, &at);

    if (error)
        return error;
    if (!has(line, "at") || at < reader->at)
        return wrong(reader, "its place is missing, or goes backwards");
    reader->at = at;
    at = at > reader->log->begin ? at - reader->log->begin : 0;
    if (has(line, "tid"))
        return take_task(reader, line, at);
    if (has(line, "start"))
        return take_map(reader, line, at);
    return take_number(reader, line, "left_out", UINT64_MAX, &reader->log->left_out);
}

static int take_head(struct reader *reader, json_object *line)
{
    uint64_t version = 0;
    int error = take_number(reader, line, "vpt-names", UINT64_MAX, &version);

    if (!error)
        error = take_number(reader, line, "begin", UINT64_MAX, &reader->log->begin);
    if (!error && version != VERSION)
        error = wrong(reader, "no log of names, or one of a version that is not known");
    return error;
}

static int take_text_line(struct reader *reader, const char *text, size_t len)
{
    char what[160];
    json_object *const line = json_parse(text, len, what, sizeof(what));
    int error;

    reader->line++;
    if (!line)
        return wrong(reader, "%s", what);
    if (!json_object_is_type(line, json_type_object))
        error = wrong(reader, "no object");
    else
        error = reader->line == 1 ? take_head(reader, line) : take_line(reader, line);
    json_object_put(line);
    return error;
}

/* ---- The log ---- */

static int compare_roots(const void *left, const void *right)
{
    const struct by_root *const a = left, *const b = right;

    if (a->root != b->root)
        return a->root < b->root ? -1 : 1;
    return a->task < b->task ? -1 : a->task > b->task;
}

/* False: no memory. */
static bool sort_roots(struct names_log *log)
{
    log->roots = calloc(ROOTS_MAX * log->task_count + 1, sizeof(*log->roots));
    if (!log->roots)
        return false;
    for (size_t i = 0; i < log->task_count; i++)
        for (size_t j = 0; j < ROOTS_MAX; j++)
            if (log->tasks[i].roots[j])
                log->roots[log->root_count++] = (struct by_root){log->tasks[i].roots[j], i};
    qsort(log->roots, log->root_count, sizeof(*log->roots), compare_roots);
    return true;
}

static int parse_lines(struct reader *reader, const char *text, size_t len_bytes)
{
    const char *const end = text + len_bytes, *line_end;
    int error = 0;

    for (; !error && (line_end = memchr(text, '\n', (size_t)(end - text))); text = line_end + 1)
        error = take_text_line(reader, text, (size_t)(line_end - text));
    if (!error && reader->line == 0)
        error = wrong(reader, "no log of names: it has no line");
    if (!error && !sort_roots(reader->log))
        error = reason_no_memory(reader->why);
    return error;
}

int names_log_parse(const char *name, const char *text, size_t len_bytes, struct names_log **log,
                    struct reason *why)
{
    struct reader reader = {.log = calloc(1, sizeof(**log)), .name = name, .why = why};
    int error;

    *log = NULL;
    if (!reader.log)
        return reason_no_memory(why);
    error = parse_lines(&reader, text, len_bytes);
    if (error)
        names_log_free(reader.log);
    else
        *log = reader.log;
    return error;
}

void names_log_free(struct names_log *log)
{
    if (!log)
        return;
    names_free(&log->names);
    free(log->tasks);
    free(log->roots);
    free(log->changes);
    free(log);
}

/* ---- Questions ---- */

/* How many tasks were told up to an offset. */
static size_t tasks_up_to(const struct names_log *log, uint64_t offset)
{
    size_t low = 0, high = log->task_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (log->tasks[middle].at <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The last of the first count tasks that had these page tables. NULL: none had. */
static const struct task_at *last_with(const struct names_log *log, uint64_t root, size_t count)
{
    const struct by_root behind = {root, count};
    size_t low = 0, high = log->root_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (compare_roots(&log->roots[middle], &behind) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && log->roots[low - 1].root == root ? &log->tasks[log->roots[low - 1].task]
                                                       : NULL;
}

bool names_log_who(const struct names_log *log, uint64_t offset, uint64_t cr3,
                   struct names_log_task *who)
{
    const uint64_t root = cr3 == PTD_ANY_CR3 ? 0 : cr3 & CR3_ADDRESS;
    const size_t count = tasks_up_to(log, offset);
    const struct task_at *task = count ? &log->tasks[count - 1] : NULL;

    /* A thread of the kernel runs in anybody's; who else runs has his own. */
    if (task && root && task->roots[0] && root != task->roots[0] && root != task->roots[1])
        task = last_with(log, root, count);
    if (!task)
        return false;
    *who = (struct names_log_task){task->pid, task->tid, log->names.list[task->comm]};
    return true;
}

uint64_t names_log_until(const struct names_log *log, uint64_t offset)
{
    const size_t count = tasks_up_to(log, offset);

    return count < log->task_count ? log->tasks[count].at : UINT64_MAX;
}

const struct names_log_change *names_log_change(const struct names_log *log, size_t index)
{
    return index < log->change_count ? &log->changes[index] : NULL;
}

bool names_log_tells(const struct names_log *log)
{
    return log->task_count > 0;
}

uint64_t names_log_left_out(const struct names_log *log)
{
    return log->left_out;
}
