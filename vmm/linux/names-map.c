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
    const struct names_files *files;
    const struct names_outputs *outputs;
    struct file_symbols symbols;
    uint64_t vdso_image; /* address of the one that was written; 0: none so far */
    struct table spaces; /* those that were told, by their mm */
    uint64_t held_bytes, map_count;
    int error; /* the first one, which ends all walks */
    struct names_sum *sum;
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
    writer->held_bytes += OBJECT_COST + text_bytes;
}

/* Whether no more can be told. */
static bool is_full(const struct writer *writer)
{
    return writer->error || writer->held_bytes > NAMES_BYTES_MAX || writer->map_count > MAPS_MAX;
}

/* ---- What a process has mapped ---- */

/* Where the symbols of a mapping begin in the file of symbols, if it has any. */
static void add_symbols(struct writer *writer, const struct look_map *map, json_object *file)
{
    uint64_t at = 0;

    if (!guest_has(writer->guest, LAYOUT_PAGES))
        return;
    if (file_symbols_take(&writer->symbols, &writer->guest->kernel, map, &at) != 0)
        fail(writer);
    else if (at)
        add(writer, file, "symbols_at", new_hex(at));
}

static json_object *new_file(struct writer *writer, const struct look_map *map, const char *path)
{
    json_object *const file = json_object_new_object();
    struct look_build_id id = {.count = 0};
    char text[2 * LOOK_BUILD_ID_BYTES + 1];

    add(writer, file, "path", new_text(path));
    add(writer, file, "start", new_hex(map->start));
    add(writer, file, "end", new_hex(map->end));
    add(writer, file, "offset", new_hex(map->offset));
    add_symbols(writer, map, file);
    if (!guest_has(writer->guest, LAYOUT_PAGES) ||
        !look_build_id(&writer->guest->kernel, map->file, &id))
        return file;
    for (unsigned i = 0; i < id.count; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", id.bytes[i]);
    add(writer, file, "build_id", json_object_new_string(text));
    writer->sum->build_ids++;
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
        writer->sum->files++;
    }
    return files;
}

/* ---- The vDSO ---- */

/* Writes the code of an image that the kernel gives to processes. */
static void write_vdso(struct writer *writer, uint64_t image)
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
    writer->vdso_image = image;
    writer->sum->vdso_bytes = len_bytes;
    if (!writer->error)
        writer->error = output_write(writer->outputs->vdso, bytes, (size_t)len_bytes, writer->why);
}

/* The images of a process: the vDSO, if it has the one that was written. */
static void add_vdso(struct writer *writer, uint64_t mm, json_object *process)
{
    const struct look_kernel *const kernel = &writer->guest->kernel;
    json_object *images, *image;
    uint64_t address, which;

    if (!guest_has(writer->guest, LAYOUT_VDSO) ||
        !look_u64(&kernel->space, mm + kernel->layout.mm_vdso, &address) ||
        !look_u64(&kernel->space, mm + kernel->layout.mm_vdso_image, &which) || !address || !which)
        return;
    if (!writer->vdso_image)
        write_vdso(writer, which);
    if (writer->vdso_image != which)
        return;
    count(writer, 0);
    image = json_object_new_object();
    add(writer, image, "path", json_object_new_string(writer->files->vdso));
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
        writer->sum->threads++;
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

static void add_process(struct writer *writer, json_object *processes, const struct look_task *task)
{
    json_object *process;
    uint64_t root;

    if (!look_root(&writer->guest->kernel, task->mm, &root))
        return;
    process = json_object_new_object();
    add(writer, process, "name", new_text(task->comm));
    add(writer, process, "pid", json_object_new_int64(task->tgid & INT32_MAX));
    add(writer, process, "cr3", new_roots(writer, root));
    add(writer, process, "threads", new_threads(writer, task));
    if (guest_has(writer->guest, LAYOUT_MAPS) && guest_has(writer->guest, LAYOUT_FILES))
        add(writer, process, "files", new_files(writer, task->mm));
    add_vdso(writer, task->mm, process);
    count(writer, 0);
    append(writer, processes, process);
    writer->sum->processes++;
}

/* What the kernel runs with before there are processes, and when it has nothing to do. */
static void add_kernel(struct writer *writer, json_object *processes)
{
    const struct look_space *const space = &writer->guest->kernel.space;
    json_object *const process = json_object_new_object();

    add(writer, process, "name", json_object_new_string("swapper"));
    add(writer, process, "pid", json_object_new_int64(0));
    add(writer, process, "cr3", new_hex(space->root));
    append(writer, processes, process);
}

/* Address spaces are told once, also if a child runs in that of its parent (vfork). */
static void add_processes(struct writer *writer, json_object *processes)
{
    struct look_list list;
    struct look_task task;

    look_processes_begin(&list, &writer->guest->kernel);
    while (!is_full(writer) && look_processes_next(&list, &task)) {
        if (!task.mm || table_find(&writer->spaces, task.mm, 0, 0))
            continue;
        if (table_at(&writer->spaces, task.mm, 0, 0))
            add_process(writer, processes, &task);
        else
            fail(writer);
    }
    if (list.is_broken)
        remark(writer->tell, "the guest's list of tasks breaks off after %u", list.count);
    else if (is_full(writer) && !writer->error)
        remark(writer->tell, "the guest tells of more than is believed: the map has a part of it");
}

/* ---- The file ---- */

static const char *const part_names[LAYOUT_PARTS] = {
    [LAYOUT_TASKS] = "processes",       [LAYOUT_MAPS] = "mapped files",
    [LAYOUT_FILES] = "names of files",  [LAYOUT_PAGES] = "build ids",
    [LAYOUT_VDSO] = "the vDSO",         [LAYOUT_MODULES] = "modules",
    [LAYOUT_BPF] = "names of BPF code", [LAYOUT_FTRACE] = "names of ftrace's code",
};

static void remark_lacks(const struct writer *writer)
{
    const struct linux_guest *const guest = writer->guest;

    if (guest->no_layout.text[0]) {
        remark(writer->tell, "%s: only the kernel's own names can be told", guest->no_layout.text);
        return;
    }
    for (unsigned part = 0; part < LAYOUT_PARTS; part++)
        if (guest->found.lacks[part][0])
            remark(writer->tell, "%s cannot be told: this kernel has no %s", part_names[part],
                   guest->found.lacks[part]);
}

/* The file of symbols, if there are any. */
static void put_symbols(struct writer *writer, json_object *host)
{
    const uint64_t symbols = writer->symbols.symbols.len / sizeof(Elf64_Sym);

    if (symbols <= 1)
        return;
    writer->sum->file_symbols = symbols - 1; /* the first one is none */
    add(writer, host, "symbols", json_object_new_string(writer->files->symbols));
    if (!writer->error)
        writer->error = file_symbols_write(&writer->symbols, writer->outputs->symbols, writer->why);
}

static json_object *new_memory(struct writer *writer)
{
    const bool has_five = writer->guest->kernel.space.has_five_levels;
    json_object *const memory = json_object_new_object();

    add(writer, memory, "core", json_object_new_string(writer->files->core));
    add(writer, memory, "paging", json_object_new_string(has_five ? "5-level" : "4-level"));
    return memory;
}

static void put_map(struct writer *writer, json_object *map)
{
    struct output *const output = writer->outputs->map;
    char *text;

    if (writer->error)
        return;
    text = json_text(map, JSON_C_TO_STRING_PRETTY);
    if (text)
        writer->error = output_write(output, text, strlen(text), writer->why);
    else
        fail(writer);
    if (!writer->error)
        writer->error = output_write(output, "\n", 1, writer->why);
    free(text);
}

int names_write_map(const struct linux_guest *guest, const struct names_files *files,
                    const struct names_outputs *outputs, struct names_sum *sum, remark_fn tell,
                    struct reason *why)
{
    struct writer writer = {
        .guest = guest, .files = files, .outputs = outputs, .sum = sum, .tell = tell, .why = why};
    json_object *const map = json_object_new_object(), *const host = json_object_new_object();
    json_object *const processes = json_object_new_array();

    remark_lacks(&writer);
    add_kernel(&writer, processes);
    if (guest_has(guest, LAYOUT_TASKS))
        add_processes(&writer, processes);
    add(&writer, host, "memory", new_memory(&writer));
    add(&writer, host, "kallsyms", json_object_new_string(files->kallsyms));
    put_symbols(&writer, host);
    add(&writer, host, "processes", processes);
    add(&writer, map, "vpt-map", json_object_new_int(1));
    add(&writer, map, "host", host);
    put_map(&writer, map);
    json_object_put(map);
    file_symbols_free(&writer.symbols);
    table_free(&writer.spaces);
    return writer.error;
}
