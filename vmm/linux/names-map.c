/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the map file of a guest: its memory, and each process with its page tables, its threads
 * and the files whose code it has mapped.
 */
#include "linux/file-symbols.h"
#include "linux/look/maps.h"
#include "linux/look/tasks.h"
#include "linux/names.h"
#include "common/escape.h"
#include "common/json.h"
#include "common/table.h"

#include <elf.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECT_COST    1536u /* bytes that an object of a few members takes in json-c, or more */
#define MAPS_MAX       (1u << 20) /* mappings that are looked at, of all processes */
#define VDSO_BYTES_MAX (1u << 16)

struct writer {
    const struct linux_guest *guest;
    struct guest_names *names;
    struct table spaces; /* those that this look told, by their mm */
    uint64_t map_count;
    int error; /* the first one, which ends all walks */
    remark_fn tell;
    struct reason *why;
};

/* ---- JSON ---- */

static json_object *new_hex(uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "0x%" PRIx64, value);
    return json_object_new_string(text);
}

static json_object *new_text(const char *text)
{
    struct escaped room;

    return json_object_new_string(escaped(text, &room));
}

static void fail(struct writer *writer)
{
    if (!writer->error)
        writer->error = reason_no_memory(writer->why);
}

/* Takes value over, in any case. */
static void add(struct writer *writer, json_object *object, const char *key, json_object *value)
{
    if (!json_add(object, key, value))
        fail(writer);
}

/* Adds to a list, and takes value over in any case. */
static void append(struct writer *writer, json_object *list, json_object *value)
{
    if (list && value && json_object_array_add(list, value) == 0)
        return;
    json_object_put(value);
    fail(writer);
}

/* Counts an object of the map, with a text. */
static void count(struct writer *writer, size_t text_bytes)
{
    writer->names->held_bytes += OBJECT_COST + text_bytes;
}

/* Whether no more can be told. */
static bool is_full(const struct writer *writer)
{
    return writer->error || writer->names->held_bytes > NAMES_BYTES_MAX ||
           writer->map_count > MAPS_MAX;
}

/* ---- What a process has mapped ---- */

/* Where the symbols of a mapping begin in the file of symbols, if it has any. */
static void add_symbols(struct writer *writer, uint64_t cache, uint64_t offset, json_object *file)
{
    uint64_t at = 0;

    if (file_symbols_take(&writer->names->symbols, &writer->guest->kernel, cache, offset, &at) != 0)
        fail(writer);
    else if (at)
        add(writer, file, "symbols_at", new_hex(at));
}

static void add_build_id(struct writer *writer, const uint8_t *bytes, size_t count,
                         json_object *file)
{
    char text[2 * LOOK_BUILD_ID_BYTES + 1];

    for (size_t i = 0; i < count; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    add(writer, file, "build_id", json_object_new_string(text));
}

static json_object *new_place(struct writer *writer, const char *path, uint64_t start, uint64_t end,
                              uint64_t offset)
{
    json_object *const file = json_object_new_object();

    add(writer, file, "path", new_text(path));
    add(writer, file, "start", new_hex(start));
    add(writer, file, "end", new_hex(end));
    add(writer, file, "offset", new_hex(offset));
    return file;
}

static json_object *new_file(struct writer *writer, const struct look_map *map, const char *path)
{
    json_object *const file = new_place(writer, path, map->start, map->end, map->offset);
    struct look_build_id id = {.count = 0};
    uint64_t cache;

    if (!guest_has(writer->guest, LAYOUT_PAGES) ||
        !look_cache(&writer->guest->kernel, map->file, &cache))
        return file;
    add_symbols(writer, cache, map->offset, file);
    if (!look_build_id(&writer->guest->kernel, cache, &id))
        return file;
    add_build_id(writer, id.bytes, id.count, file);
    return file;
}

/* Files whose code is mapped. */
static json_object *new_files(struct writer *writer, uint64_t mm)
{
    const struct look_kernel *const kernel = &writer->guest->kernel;
    json_object *const files = json_object_new_array();
    char path[LOOK_PATH_BYTES];
    struct look_map map;

    for (uint64_t at = 0; !is_full(writer) && look_map(kernel, mm, at, &map); at = map.end) {
        writer->map_count++;
        if (!map.is_executable || !map.file || !look_path(kernel, map.file, path))
            continue;
        count(writer, strlen(path));
        append(writer, files, new_file(writer, &map, path));
    }
    return files;
}

/* ---- Files of processes that have ended ---- */

/* What the page cache of a file was may be that of another one by now. */
static bool is_still(const struct linux_guest *guest, const struct names_mapped *mapped)
{
    struct look_build_id id;

    return mapped->build_id_bytes > 0 && mapped->build_id_bytes <= sizeof(id.bytes) &&
           look_build_id(&guest->kernel, mapped->cache, &id) &&
           id.count == mapped->build_id_bytes && memcmp(id.bytes, mapped->build_id, id.count) == 0;
}

static void add_mapped(struct writer *writer, const struct names_mapped *mapped)
{
    struct guest_names *const names = writer->names;
    json_object *const file =
        new_place(writer, mapped->path, mapped->start, mapped->end, mapped->offset);

    add_symbols(writer, mapped->cache, mapped->offset, file);
    if (!json_object_object_get_ex(file, "symbols_at", NULL)) {
        json_object_put(file);
        return;
    }
    add_build_id(writer, mapped->build_id, mapped->build_id_bytes, file);
    count(writer, strlen(mapped->path));
    if (!names->files)
        names->files = json_object_new_array();
    append(writer, names->files, file);
}

int names_look_file(struct guest_names *names, const struct linux_guest *guest,
                    const struct names_mapped *mapped, struct reason *why)
{
    struct writer writer = {.guest = guest, .names = names, .why = why};
    uint64_t id = 0;
    struct sum *known;

    if (!guest_has(guest, LAYOUT_PAGES) || is_full(&writer) ||
        names->caches.count >= NAMES_FILES_MAX || !is_still(guest, mapped))
        return 0;
    memcpy(&id, mapped->build_id, mapped->build_id_bytes < 8 ? mapped->build_id_bytes : 8);
    known = table_at(&names->caches, mapped->cache, mapped->offset, id);
    if (!known)
        return reason_no_memory(why);
    if (known->count++ == 0)
        add_mapped(&writer, mapped);
    names->sum.file_symbols = file_symbols_count(&names->symbols);
    return writer.error;
}

/* ---- The vDSO ---- */

/* Takes the code of an image that the kernel gives to processes. */
static void take_vdso(struct writer *writer, uint64_t image)
{
    const struct look_kernel *const kernel = &writer->guest->kernel;
    const struct look_layout *const layout = &kernel->layout;
    uint8_t bytes[VDSO_BYTES_MAX];
    uint64_t data, len_bytes;

    if (!look_u64(&kernel->space, image + layout->vdso_data, &data) ||
        !look_u64(&kernel->space, image + layout->vdso_bytes, &len_bytes) ||
        len_bytes < sizeof(Elf64_Ehdr) || len_bytes > sizeof(bytes) ||
        !look_read(&kernel->space, data, bytes, (size_t)len_bytes) ||
        memcmp(bytes, ELFMAG, SELFMAG) != 0 || bytes[EI_CLASS] != ELFCLASS64)
        return;
    if (bytes_add(&writer->names->vdso, bytes, (size_t)len_bytes))
        writer->names->vdso_image = image;
    else
        fail(writer);
}

/* The images of a process: the vDSO, if it has the one that was taken. */
static void add_vdso(struct writer *writer, uint64_t mm, json_object *process)
{
    const struct look_kernel *const kernel = &writer->guest->kernel;
    json_object *images, *image;
    uint64_t address, which;

    if (!guest_has(writer->guest, LAYOUT_VDSO) ||
        !look_u64(&kernel->space, mm + kernel->layout.mm_vdso, &address) ||
        !look_u64(&kernel->space, mm + kernel->layout.mm_vdso_image, &which) || !address || !which)
        return;
    if (!writer->names->vdso_image)
        take_vdso(writer, which);
    if (writer->names->vdso_image != which)
        return;
    count(writer, 0);
    image = json_object_new_object();
    add(writer, image, "path", json_object_new_string(""));
    add(writer, image, "bias", new_hex(address));
    images = json_object_new_array();
    append(writer, images, image);
    add(writer, process, "images", images);
}

/* ---- Processes ---- */

static json_object *new_threads(struct writer *writer, const struct look_task *process)
{
    json_object *const threads = json_object_new_array();
    struct look_list list;
    struct look_task task;

    if (!look_threads_begin(&list, &writer->guest->kernel, process))
        return threads;
    while (!is_full(writer) && look_threads_next(&list, &task)) {
        json_object *const thread = json_object_new_object();

        add(writer, thread, "tid", json_object_new_int64(task.pid & INT32_MAX));
        add(writer, thread, "name", new_text(task.comm));
        count(writer, 0);
        append(writer, threads, thread);
    }
    return threads;
}

/* Values of CR3: the process's page tables, and those of its user code if they are others. */
static json_object *new_roots(struct writer *writer, uint64_t root)
{
    json_object *const roots = json_object_new_array();
    uint64_t user_root;

    append(writer, roots, new_hex(root));
    if (look_user_root(&writer->guest->kernel, root, &user_root))
        append(writer, roots, new_hex(user_root));
    return roots;
}

static json_object *new_process(struct writer *writer, const struct look_task *task, uint64_t root)
{
    json_object *const process = json_object_new_object();

    add(writer, process, "name", new_text(task->comm));
    add(writer, process, "pid", json_object_new_int64(task->tgid & INT32_MAX));
    add(writer, process, "cr3", new_roots(writer, root));
    add(writer, process, "threads", new_threads(writer, task));
    if (guest_has(writer->guest, LAYOUT_MAPS) && guest_has(writer->guest, LAYOUT_FILES))
        add(writer, process, "files", new_files(writer, task->mm));
    add_vdso(writer, task->mm, process);
    count(writer, 0);
    return process;
}

/* ---- Several looks ---- */

static json_object *member_of(json_object *object, const char *key)
{
    json_object *list = NULL;

    (void)json_object_object_get_ex(object, key, &list);
    return list;
}

static uint64_t number_of(json_object *object, const char *key)
{
    json_object *value;

    return json_object_object_get_ex(object, key, &value)
               ? strtoull(json_object_get_string(value), NULL, 16)
               : 0;
}

/*
 * The files of a process, told anew, and those that were told before where nothing is told now:
 * they were unmapped since, or the look broke off in front of them. Both lists are in the order of
 * addresses.
 */
static json_object *merge_files(struct writer *writer, json_object *before, json_object *now)
{
    json_object *const files = json_object_new_array();
    size_t i = 0, j = 0;
    uint64_t told_to = 0;

    while (i < json_object_array_length(before) || j < json_object_array_length(now)) {
        json_object *const old = json_object_array_get_idx(before, i);
        json_object *const new = json_object_array_get_idx(now, j);

        if (new && (!old || number_of(new, "start") <= number_of(old, "start"))) {
            told_to = number_of(new, "end");
            append(writer, files, json_object_get(new));
            j++;
            continue;
        }
        if (number_of(old, "start") >= told_to &&
            (!new || number_of(old, "end") <= number_of(new, "start"))) {
            count(writer, (size_t)json_object_get_string_len(member_of(old, "path")));
            append(writer, files, json_object_get(old));
        }
        i++;
    }
    return files;
}

/* The same process, or the next one with these page tables? The number decides. */
static void merge_process(struct writer *writer, json_object *before, json_object *now)
{
    json_object *const old = member_of(before, "files"), *const new = member_of(now, "files");

    if (old && new &&json_object_equal(member_of(before, "pid"), member_of(now, "pid")))
        add(writer, now, "files", merge_files(writer, old, new));
}

/* Takes the process over. cost: what was counted for it. */
static void put_process(struct writer *writer, uint64_t root, json_object *process, uint64_t cost)
{
    struct guest_names *const names = writer->names;
    struct sum *const known = table_at(&names->roots, root, 0, 0);
    const uint64_t held_bytes = names->held_bytes;
    json_object *before;

    if (!known) {
        json_object_put(process);
        fail(writer);
        return;
    }
    if (known->count == 0) {
        names->has_news = true;
        known->cost = cost;
        append(writer, names->processes, process);
        known->count = json_object_array_length(names->processes);
        return;
    }
    before = json_object_array_get_idx(names->processes, (size_t)known->count - 1);
    merge_process(writer, before, process);
    if (!json_object_equal(before, process))
        names->has_news = true;
    cost += names->held_bytes - held_bytes;
    names->held_bytes -= known->cost;
    known->cost = cost;
    if (json_object_array_put_idx(names->processes, (size_t)known->count - 1, process) != 0) {
        json_object_put(process);
        fail(writer);
    }
}

static void add_process(struct writer *writer, const struct look_task *task)
{
    const uint64_t held_bytes = writer->names->held_bytes;
    json_object *process;
    uint64_t root;

    if (!look_root(&writer->guest->kernel, task->mm, &root))
        return;
    process = new_process(writer, task, root);
    put_process(writer, root, process, writer->names->held_bytes - held_bytes);
}

/* Address spaces are told once, also if a child runs in that of its parent (vfork). */
static void add_processes(struct writer *writer)
{
    struct look_list list;
    struct look_task task;

    look_processes_begin(&list, &writer->guest->kernel);
    while (!is_full(writer) && look_processes_next(&list, &task)) {
        if (!task.mm || table_find(&writer->spaces, task.mm, 0, 0))
            continue;
        if (table_at(&writer->spaces, task.mm, 0, 0))
            add_process(writer, &task);
        else
            fail(writer);
    }
    if (list.is_broken)
        remark(writer->tell, "the guest's list of tasks breaks off after %u", list.count);
    else if (is_full(writer) && !writer->error)
        remark(writer->tell, "the guest tells of more than is believed: the map has a part of it");
    if (list.is_broken || is_full(writer))
        writer->names->is_whole = false;
}

int names_look_processes(struct guest_names *names, const struct linux_guest *guest, remark_fn tell,
                         struct reason *why)
{
    struct writer writer = {.guest = guest, .names = names, .tell = tell, .why = why};

    if (guest_has(guest, LAYOUT_TASKS))
        add_processes(&writer);
    table_free(&writer.spaces);
    return writer.error;
}

/* ---- The file ---- */

/* Looks do not know what the file of the vDSO will be called. */
static bool name_vdso(json_object *processes, const char *name)
{
    bool done = true;

    for (size_t i = 0; i < json_object_array_length(processes); i++) {
        json_object *const images = member_of(json_object_array_get_idx(processes, i), "images");

        if (images)
            done = json_add(json_object_array_get_idx(images, 0), "path",
                            json_object_new_string(name)) &&
                   done;
    }
    return done;
}

/* What the kernel runs with before there are processes, and when it has nothing to do. */
static json_object *new_kernel(const struct linux_guest *guest)
{
    json_object *const process = json_object_new_object();
    bool done = json_add(process, "name", json_object_new_string("swapper"));

    done = json_add(process, "pid", json_object_new_int64(0)) && done;
    done = json_add(process, "cr3", new_hex(guest->kernel.space.root)) && done;
    if (done)
        return process;
    json_object_put(process);
    return NULL;
}

/* All of them, the kernel first. NULL: no memory. */
static json_object *new_processes(const struct guest_names *names, const struct linux_guest *guest)
{
    json_object *const list = json_object_new_array(), *one = new_kernel(guest);
    bool done = list && one && json_object_array_add(list, one) == 0;

    if (!done)
        json_object_put(one);
    for (size_t i = 0; done && i < json_object_array_length(names->processes); i++) {
        one = json_object_get(json_object_array_get_idx(names->processes, i));
        done = json_object_array_add(list, one) == 0;
        if (!done)
            json_object_put(one);
    }
    if (done)
        return list;
    json_object_put(list);
    return NULL;
}

static json_object *new_memory(const struct linux_guest *guest, const char *core)
{
    const bool has_five = guest->kernel.space.has_five_levels;
    json_object *const memory = json_object_new_object();

    (void)json_add(memory, "core", json_object_new_string(core));
    if (json_add(memory, "paging", json_object_new_string(has_five ? "5-level" : "4-level")))
        return memory;
    json_object_put(memory);
    return NULL;
}

static int put_map(json_object *map, struct output *output, struct reason *why)
{
    char *const text = json_text(map, JSON_C_TO_STRING_PRETTY);
    int error;

    if (!text)
        return reason_no_memory(why);
    error = output_write(output, text, strlen(text), why);
    if (!error)
        error = output_write(output, "\n", 1, why);
    free(text);
    return error;
}

int names_write_map(const struct guest_names *names, const struct linux_guest *guest,
                    const struct names_files *files, struct output *output, struct reason *why)
{
    json_object *const map = json_object_new_object(), *const host = json_object_new_object();
    bool done = name_vdso(names->processes, files->vdso);
    int error;

    if (files->core)
        done = done && json_add(host, "memory", new_memory(guest, files->core));
    done = json_add(host, "kallsyms", json_object_new_string(files->kallsyms)) && done;
    if (names->sum.file_symbols > 0)
        done = json_add(host, "symbols", json_object_new_string(files->symbols)) && done;
    done = json_add(host, "processes", new_processes(names, guest)) && done;
    if (names->files)
        done = json_add(host, "files", json_object_get(names->files)) && done;
    done = json_add(map, "vpt-map", json_object_new_int(1)) && done;
    done = json_add(map, "host", host) && done;
    error = done ? put_map(map, output, why) : reason_no_memory(why);
    json_object_put(map);
    return error;
}
