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
#include <errno.h>
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

/* Adds an object to a list that belongs to the map. False: no memory, or the bound is reached. */
static bool take(struct writer *writer, json_object *list, json_object *object, size_t text_bytes)
{
    writer->held_bytes += OBJECT_COST + text_bytes;
    if (writer->held_bytes <= NAMES_BYTES_MAX && list && object &&
        json_object_array_add(list, object) == 0)
        return true;
    json_object_put(object);
    return false;
}

static bool is_full(const struct writer *writer)
{
    return writer->held_bytes > NAMES_BYTES_MAX || writer->map_count > MAPS_MAX;
}

/* ---- What a process has mapped ---- */

/* Where the symbols of a mapping begin in the file of symbols, if it has any. */
static void add_symbols(struct writer *writer, const struct look_map *map, json_object *file)
{
    uint64_t at = 0;

    if (!guest_has(writer->guest, LAYOUT_PAGES))
        return;
    if (file_symbols_take(&writer->symbols, &writer->guest->kernel, map, &at) != 0)
        writer->held_bytes = UINT64_MAX / 2; /* no memory: the map ends here */
    else if (at)
        (void)json_add(file, "symbols_at", new_hex(at));
}

static json_object *new_file(struct writer *writer, const struct look_map *map, const char *path)
{
    json_object *const file = json_object_new_object();
    struct look_build_id id = {.count = 0};
    char text[2 * LOOK_BUILD_ID_BYTES + 1];

    (void)json_add(file, "path", new_text(path));
    (void)json_add(file, "start", new_hex(map->start));
    (void)json_add(file, "end", new_hex(map->end));
    (void)json_add(file, "offset", new_hex(map->offset));
    add_symbols(writer, map, file);
    if (!guest_has(writer->guest, LAYOUT_PAGES) ||
        !look_build_id(&writer->guest->kernel, map->file, &id))
        return file;
    for (unsigned i = 0; i < id.count; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", id.bytes[i]);
    (void)json_add(file, "build_id", json_object_new_string(text));
    writer->sum->build_ids++;
    return file;
}

/* Files whose code is mapped; NULL: no memory. */
static json_object *new_files(struct writer *writer, uint64_t mm)
{
    const struct look_kernel *const kernel = &writer->guest->kernel;
    json_object *const files = json_object_new_array();
    char path[LOOK_PATH_BYTES];
    struct look_map map;

    for (uint64_t at = 0; files && !is_full(writer) && look_map(kernel, mm, at, &map);
         at = map.end) {
        writer->map_count++;
        if (!map.is_executable || !map.file || !look_path(kernel, map.file, path))
            continue;
        if (!take(writer, files, new_file(writer, &map, path), strlen(path)))
            break;
        writer->sum->files++;
    }
    return files;
}

/* ---- The vDSO ---- */

/* Writes the code of an image that the kernel gives to processes. 0 or -errno. */
static int write_vdso(struct writer *writer, uint64_t image)
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
        return 0;
    writer->vdso_image = image;
    writer->sum->vdso_bytes = len_bytes;
    return output_write(writer->outputs->vdso, bytes, (size_t)len_bytes, writer->why);
}

/* The images of a process: the vDSO, if it has the one that was written. 0 or -errno. */
static int add_vdso(struct writer *writer, uint64_t mm, json_object *process)
{
    const struct look_kernel *const kernel = &writer->guest->kernel;
    json_object *images, *image;
    uint64_t address, which;
    int error = 0;

    if (!guest_has(writer->guest, LAYOUT_VDSO) ||
        !look_u64(&kernel->space, mm + kernel->layout.mm_vdso, &address) ||
        !look_u64(&kernel->space, mm + kernel->layout.mm_vdso_image, &which) || !address || !which)
        return 0;
    if (!writer->vdso_image)
        error = write_vdso(writer, which);
    if (error || writer->vdso_image != which)
        return error;
    image = json_object_new_object();
    (void)json_add(image, "path", json_object_new_string(writer->files->vdso));
    (void)json_add(image, "bias", new_hex(address));
    images = json_object_new_array();
    return take(writer, images, image, 0) && json_add(process, "images", images)
               ? 0
               : reason_no_memory(writer->why);
}

/* ---- Processes ---- */

static json_object *new_threads(struct writer *writer, const struct look_task *process)
{
    json_object *const threads = json_object_new_array();
    struct look_list list;
    struct look_task task;

    if (!look_threads_begin(&list, &writer->guest->kernel, process))
        return threads;
    while (look_threads_next(&list, &task)) {
        json_object *const thread = json_object_new_object();

        (void)json_add(thread, "tid", json_object_new_int64(task.pid & INT32_MAX));
        (void)json_add(thread, "name", new_text(task.comm));
        if (!take(writer, threads, thread, 0))
            break;
        writer->sum->threads++;
    }
    return threads;
}

/* Values of CR3: the process's page tables, and those of its user code if they are others. */
static json_object *new_roots(const struct linux_guest *guest, uint64_t root)
{
    json_object *const roots = json_object_new_array();
    uint64_t user_root;

    (void)json_object_array_add(roots, new_hex(root));
    if (look_user_root(&guest->kernel, root, &user_root))
        (void)json_object_array_add(roots, new_hex(user_root));
    return roots;
}

static int add_process(struct writer *writer, json_object *processes, const struct look_task *task)
{
    json_object *process;
    uint64_t root;

    if (!look_root(&writer->guest->kernel, task->mm, &root))
        return 0;
    process = json_object_new_object();
    (void)json_add(process, "name", new_text(task->comm));
    (void)json_add(process, "pid", json_object_new_int64(task->tgid & INT32_MAX));
    (void)json_add(process, "cr3", new_roots(writer->guest, root));
    (void)json_add(process, "threads", new_threads(writer, task));
    if (guest_has(writer->guest, LAYOUT_MAPS) && guest_has(writer->guest, LAYOUT_FILES))
        (void)json_add(process, "files", new_files(writer, task->mm));
    if (add_vdso(writer, task->mm, process) != 0 || !take(writer, processes, process, 0))
        return -ENOMEM;
    writer->sum->processes++;
    return 0;
}

/* What the kernel runs with before there are processes, and when it has nothing to do. */
static void add_kernel(struct writer *writer, json_object *processes)
{
    const struct look_space *const space = &writer->guest->kernel.space;
    json_object *const process = json_object_new_object();

    (void)json_add(process, "name", json_object_new_string("swapper"));
    (void)json_add(process, "pid", json_object_new_int64(0));
    (void)json_add(process, "cr3", new_hex(space->root));
    (void)take(writer, processes, process, 0);
}

/* Address spaces are told once, also if a child runs in that of its parent (vfork). */
static int add_processes(struct writer *writer, json_object *processes)
{
    struct look_list list;
    struct look_task task;
    int error = 0;

    look_processes_begin(&list, &writer->guest->kernel);
    while (!error && !is_full(writer) && look_processes_next(&list, &task)) {
        const struct sum *known;

        if (!task.mm)
            continue;
        known = table_find(&writer->spaces, task.mm, 0, 0);
        if (!known && !table_at(&writer->spaces, task.mm, 0, 0))
            return reason_no_memory(writer->why);
        if (!known)
            error = add_process(writer, processes, &task);
    }
    if (is_full(writer)) {
        remark(writer->tell, "the guest tells of more than is believed: the map has a part of it");
        return 0;
    }
    if (list.is_broken)
        remark(writer->tell, "the guest's list of tasks breaks off after %u", list.count);
    return error;
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

/* The file of symbols, if there are any. 0, or -errno and the reason. */
static int put_symbols(struct writer *writer, json_object *host)
{
    const uint64_t count = writer->symbols.symbols.len / sizeof(Elf64_Sym);

    if (count <= 1)
        return 0;
    writer->sum->file_symbols = count - 1; /* the first one is none */
    (void)json_add(host, "symbols", json_object_new_string(writer->files->symbols));
    return file_symbols_write(&writer->symbols, writer->outputs->symbols, writer->why);
}

static int put_map(struct writer *writer, json_object *processes)
{
    json_object *const map = json_object_new_object(), *const host = json_object_new_object();
    json_object *const memory = json_object_new_object();
    const struct linux_guest *const guest = writer->guest;
    const char *text;
    int error;

    (void)json_add(memory, "core", json_object_new_string(writer->files->core));
    (void)json_add(
        memory, "paging",
        json_object_new_string(guest->kernel.space.has_five_levels ? "5-level" : "4-level"));
    (void)json_add(host, "memory", memory);
    (void)json_add(host, "kallsyms", json_object_new_string(writer->files->kallsyms));
    (void)json_add(host, "processes", processes);
    error = put_symbols(writer, host);
    (void)json_add(map, "vpt-map", json_object_new_int(1));
    text = json_add(map, "host", host)
               ? json_object_to_json_string_ext(map, JSON_C_TO_STRING_PRETTY)
               : NULL;
    if (!error)
        error = text ? output_write(writer->outputs->map, text, strlen(text), writer->why)
                     : reason_no_memory(writer->why);
    if (!error)
        error = output_write(writer->outputs->map, "\n", 1, writer->why);
    json_object_put(map);
    return error;
}

int names_write_map(const struct linux_guest *guest, const struct names_files *files,
                    const struct names_outputs *outputs, struct names_sum *sum, remark_fn tell,
                    struct reason *why)
{
    struct writer writer = {
        .guest = guest, .files = files, .outputs = outputs, .sum = sum, .tell = tell, .why = why};
    json_object *const processes = json_object_new_array();
    int error = 0;

    remark_lacks(&writer);
    add_kernel(&writer, processes);
    if (guest_has(guest, LAYOUT_TASKS))
        error = add_processes(&writer, processes);
    table_free(&writer.spaces);
    if (!error)
        error = put_map(&writer, processes);
    else
        json_object_put(processes);
    file_symbols_free(&writer.symbols);
    if (!error)
        return 0;
    return why->text[0] ? error : reason_no_memory(why);
}
