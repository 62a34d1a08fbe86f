/* SPDX-License-Identifier: BSD-3-Clause */
/* All that a guest's memory names, from one look or several. */
#include "linux/names.h"

#include <errno.h>
#include <json-c/json.h>

static const char *const part_names[LAYOUT_PARTS] = {
    [LAYOUT_TASKS] = "processes",
    [LAYOUT_CURRENT] = "which task runs",
    [LAYOUT_MAPS] = "mapped files",
    [LAYOUT_FILES] = "names of files",
    [LAYOUT_PAGES] = "build ids",
    [LAYOUT_VDSO] = "the vDSO",
    [LAYOUT_MODULES] = "modules",
    [LAYOUT_BPF] = "names of BPF code",
    [LAYOUT_FTRACE] = "names of ftrace's code",
};

void names_remark_lacks(const struct linux_guest *guest, remark_fn tell)
{
    if (guest->no_layout.text[0]) {
        remark(tell, "%s: only the kernel's own names can be told", guest->no_layout.text);
        return;
    }
    for (unsigned part = 0; part < LAYOUT_PARTS; part++)
        if (guest->found.lacks[part][0])
            remark(tell, "%s cannot be told: this kernel has no %s", part_names[part],
                   guest->found.lacks[part]);
}

/* ---- Looks ---- */

static uint64_t length_of(json_object *object, const char *key)
{
    json_object *list;

    return json_object_object_get_ex(object, key, &list) ? json_object_array_length(list) : 0;
}

static uint64_t build_ids_of(json_object *process)
{
    uint64_t count = 0;
    json_object *files;

    if (!json_object_object_get_ex(process, "files", &files))
        return 0;
    for (size_t i = 0; i < json_object_array_length(files); i++)
        count += json_object_object_get_ex(json_object_array_get_idx(files, i), "build_id", NULL);
    return count;
}

static void count_all(struct guest_names *names)
{
    const size_t count = json_object_array_length(names->processes);
    struct names_sum *const sum = &names->sum;

    sum->processes = count;
    sum->threads = sum->files = sum->build_ids = 0;
    for (size_t i = 0; i < count; i++) {
        json_object *const process = json_object_array_get_idx(names->processes, i);

        sum->threads += length_of(process, "threads");
        sum->files += length_of(process, "files");
        sum->build_ids += build_ids_of(process);
    }
    sum->file_symbols = file_symbols_count(&names->symbols);
    sum->vdso_bytes = names->vdso.len;
}

int names_look(struct guest_names *names, const struct linux_guest *guest, remark_fn tell,
               struct reason *why)
{
    int error;

    if (!names->processes)
        names->processes = json_object_new_array();
    if (!names->processes)
        return reason_no_memory(why);
    names->is_whole = true;
    names->has_news = false;
    names->sum.symbols = guest->symbols.count;
    error = names_look_code(names, guest, tell, why);
    if (!error)
        error = names_look_processes(names, guest, tell, why);
    count_all(names);
    return error;
}

int names_look_live(struct guest_names *names, const struct linux_guest *guest, struct live *live,
                    remark_fn tell, struct reason *why)
{
    for (unsigned looks = 1;; looks++) {
        const bool is_last = looks == NAMES_LOOKS_MAX || !live->is_running;
        const int error = names_look(names, guest, is_last ? tell : NULL, why);

        if (error)
            return error;
        if (live->lost.text[0])
            return reason_set(why, -EREMOTEIO, "%s", live->lost.text);
        if (is_last || (names->is_whole && !names->has_news))
            return 0;
        live_forget(live);
    }
}

/* ---- Files ---- */

int names_write(struct guest_names *names, const struct linux_guest *guest,
                const struct names_files *files, const struct names_outputs *outputs,
                struct reason *why)
{
    int error = names_write_kallsyms(names, guest, outputs->kallsyms, why);

    if (!error)
        error = names_write_map(names, guest, files, outputs->map, why);
    if (!error && names->vdso.len > 0)
        error = output_write(outputs->vdso, names->vdso.data, names->vdso.len, why);
    if (!error && names->sum.file_symbols > 0)
        error = file_symbols_write(&names->symbols, outputs->symbols, why);
    return error;
}

void guest_names_free(struct guest_names *names)
{
    json_object_put(names->processes);
    json_object_put(names->files);
    table_free(&names->caches);
    table_free(&names->roots);
    file_symbols_free(&names->symbols);
    names_free(&names->code);
    bytes_free(&names->vdso);
    *names = (struct guest_names){0};
}
