/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fills the numbers of a struct look_layout: a table says for each where it comes from, and what
 * cannot be told without it.
 */
#include "linux/layout.h"
#include "linux/btf.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(part)  (1u << (part))
#define TASKS      BIT(LAYOUT_TASKS)
#define CURRENT    BIT(LAYOUT_CURRENT)
#define MAPS       BIT(LAYOUT_MAPS)
#define FILES      BIT(LAYOUT_FILES)
#define PAGES      BIT(LAYOUT_PAGES)
#define VDSO       BIT(LAYOUT_VDSO)
#define MODULES    BIT(LAYOUT_MODULES)
#define BPF        BIT(LAYOUT_BPF)
#define FTRACE     BIT(LAYOUT_FTRACE)
#define LISTS      (TASKS | MODULES | BPF | FTRACE)
#define OFFSET_MAX (1u << 24) /* that is believed of a member */

/* Of the array of struct page where the kernel does not move it (no KASLR of memory). */
#define VMEMMAP_4 UINT64_C(0xffffea0000000000)
#define VMEMMAP_5 UINT64_C(0xffd4000000000000)

enum what { OFFSET, ELEMENTS, BYTES };

struct row {
    size_t into;      /* in struct look_layout, of a uint64_t */
    const char *type; /* a structure */
    const char *path; /* its member; not for BYTES */
    enum what what;
    unsigned needed_by; /* parts; 0: not every kernel has it */
};

#define ROW(member, type, path, needed_by)                                                         \
    {                                                                                              \
        offsetof(struct look_layout, member), type, path, OFFSET, needed_by                        \
    }
#define COUNT_ROW(member, type, path)                                                              \
    {                                                                                              \
        offsetof(struct look_layout, member), type, path, ELEMENTS, 0                              \
    }
#define BYTES_ROW(member, type, needed_by)                                                         \
    {                                                                                              \
        offsetof(struct look_layout, member), type, NULL, BYTES, needed_by                         \
    }

static const struct row rows[] = {
    ROW(list_next, "list_head", "next", LISTS),
    ROW(list_prev, "list_head", "prev", LISTS),
    ROW(task_tasks, "task_struct", "tasks", TASKS),
    ROW(task_pid, "task_struct", "pid", TASKS),
    ROW(task_tgid, "task_struct", "tgid", TASKS),
    ROW(task_comm, "task_struct", "comm", TASKS),
    ROW(task_mm, "task_struct", "mm", TASKS),
    ROW(task_signal, "task_struct", "signal", TASKS),
    ROW(task_thread_node, "task_struct", "thread_node", TASKS),
    ROW(signal_thread_head, "signal_struct", "thread_head", TASKS),
    ROW(mm_pgd, "mm_struct", "pgd", TASKS),
    ROW(mm_vdso, "mm_struct", "context.vdso", VDSO),
    ROW(mm_vdso_image, "mm_struct", "context.vdso_image", VDSO),
    ROW(vdso_data, "vdso_image", "data", VDSO),
    ROW(vdso_bytes, "vdso_image", "size", VDSO),
    ROW(mm_tree, "mm_struct", "mm_mt", 0),
    ROW(mm_rb, "mm_struct", "mm_rb", 0),
    ROW(maple_root, "maple_tree", "ma_root", 0),
    ROW(range_pivots, "maple_range_64", "pivot", 0),
    ROW(range_slots, "maple_range_64", "slot", 0),
    COUNT_ROW(range_slot_count, "maple_range_64", "slot"),
    ROW(arange_pivots, "maple_arange_64", "pivot", 0),
    ROW(arange_slots, "maple_arange_64", "slot", 0),
    COUNT_ROW(arange_slot_count, "maple_arange_64", "slot"),
    ROW(rb_root, "rb_root", "rb_node", 0),
    ROW(rb_left, "rb_node", "rb_left", 0),
    ROW(rb_right, "rb_node", "rb_right", 0),
    ROW(map_rb, "vm_area_struct", "vm_rb", 0),
    ROW(map_start, "vm_area_struct", "vm_start", MAPS),
    ROW(map_end, "vm_area_struct", "vm_end", MAPS),
    ROW(map_flags, "vm_area_struct", "vm_flags", MAPS),
    ROW(map_page, "vm_area_struct", "vm_pgoff", MAPS),
    ROW(map_file, "vm_area_struct", "vm_file", MAPS),
    ROW(file_dentry, "file", "f_path.dentry", FILES),
    ROW(file_mount, "file", "f_path.mnt", FILES),
    ROW(file_inode, "file", "f_inode", PAGES),
    ROW(dentry_parent, "dentry", "d_parent", FILES),
    ROW(dentry_name, "dentry", "d_name.name", FILES),
    ROW(dentry_name_len, "dentry", "d_name.len", FILES),
    ROW(mount_vfs, "mount", "mnt", FILES),
    ROW(mount_parent, "mount", "mnt_parent", FILES),
    ROW(mount_point, "mount", "mnt_mountpoint", FILES),
    ROW(vfs_root, "vfsmount", "mnt_root", FILES),
    ROW(inode_mapping, "inode", "i_mapping", PAGES),
    ROW(mapping_root, "address_space", "i_pages.xa_head", PAGES),
    ROW(xnode_shift, "xa_node", "shift", PAGES),
    ROW(xnode_slots, "xa_node", "slots", PAGES),
    BYTES_ROW(page_bytes, "page", PAGES),
    ROW(module_list, "module", "list", MODULES),
    ROW(module_name, "module", "name", MODULES),
    ROW(module_state, "module", "state", MODULES),
    ROW(module_kallsyms, "module", "kallsyms", MODULES),
    ROW(kallsyms_symbols, "mod_kallsyms", "symtab", MODULES),
    ROW(kallsyms_count, "mod_kallsyms", "num_symtab", MODULES),
    ROW(kallsyms_texts, "mod_kallsyms", "strtab", MODULES),
    ROW(kallsyms_types, "mod_kallsyms", "typetab", MODULES),
    ROW(bpf_start, "bpf_ksym", "start", BPF),
    ROW(bpf_name, "bpf_ksym", "name", BPF),
    ROW(bpf_node, "bpf_ksym", "lnode", BPF),
    ROW(ftrace_list, "ftrace_ops", "list", FTRACE),
    ROW(ftrace_trampoline, "ftrace_ops", "trampoline", FTRACE),
};

static const struct variable {
    size_t into;
    const char *symbol;
    unsigned needed_by;
} variables[] = {
    {offsetof(struct look_layout, init_task), "init_task", TASKS},
    {offsetof(struct look_layout, modules), "modules", MODULES},
    {offsetof(struct look_layout, bpf_kallsyms), "bpf_kallsyms", BPF},
    {offsetof(struct look_layout, ftrace_trampolines), "ftrace_ops_trampoline_list", FTRACE},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t *number_at(struct look_layout *layout, size_t offset)
{
    return (uint64_t *)(void *)((char *)layout + offset);
}

/* The first thing that a part lacks is what is told of it. */
static void lack(struct layout_found *found, unsigned parts, const char *of, const char *what)
{
    for (unsigned part = 0; part < LAYOUT_PARTS; part++)
        if (parts & BIT(part) && !found->lacks[part][0])
            (void)snprintf(found->lacks[part], sizeof(found->lacks[part]), "%s %s", of, what);
}

/* ---- Structures ---- */

static uint64_t number_of(const struct btf *btf, const struct row *row, uint32_t type)
{
    struct btf_member member;

    if (row->what == BYTES)
        return btf_bytes(btf, type);
    if (btf_member(btf, type, row->path, &member) != 0 || member.offset > OFFSET_MAX)
        return LOOK_NONE;
    return row->what == OFFSET ? member.offset : member.elements;
}

/* Modules of the kernel may have had structures of the same name: the first that has it counts. */
static void fill_row(struct look_layout *layout, const struct btf *btf, const struct row *row,
                     struct layout_found *found)
{
    uint64_t *const into = number_at(layout, row->into);

    for (uint32_t type = 0; *into == LOOK_NONE;) {
        type = btf_struct(btf, row->type, type);
        if (type == 0)
            break;
        *into = number_of(btf, row, type);
    }
    if (*into == LOOK_NONE)
        lack(found, row->needed_by, row->type, row->path ? row->path : "itself");
}

/* All of these, or none of them counts: which tree holds the mappings. */
static void choose_tree(struct look_layout *layout, struct layout_found *found)
{
    const bool has_maple = layout->mm_tree != LOOK_NONE && layout->maple_root != LOOK_NONE &&
                           layout->range_pivots != LOOK_NONE && layout->range_slots != LOOK_NONE &&
                           layout->arange_pivots != LOOK_NONE && layout->arange_slots != LOOK_NONE;
    const bool has_rb = layout->mm_rb != LOOK_NONE && layout->rb_root != LOOK_NONE &&
                        layout->rb_left != LOOK_NONE && layout->rb_right != LOOK_NONE &&
                        layout->map_rb != LOOK_NONE;

    if (!has_maple)
        layout->mm_tree = LOOK_NONE;
    if (!has_maple && !has_rb)
        lack(found, MAPS, "mm_struct", "mm_mt");
}

/* The kernel's BTF, to be freed. NULL: it has none. */
static uint8_t *read_btf(const struct look_space *space, const struct kernel_symbols *symbols,
                         size_t *len_bytes, struct reason *why, int *error)
{
    const uint64_t first = kallsyms_find(symbols, "__start_BTF");
    const uint64_t end = kallsyms_find(symbols, "__stop_BTF");
    uint8_t *bytes;

    *error = -EINVAL;
    if (first == LOOK_NONE || end == LOOK_NONE || end <= first || end - first > BTF_BYTES_MAX) {
        (void)reason_set(why, -EINVAL,
                         "the guest's kernel has no BTF (CONFIG_DEBUG_INFO_BTF), or does not tell "
                         "where (CONFIG_KALLSYMS_ALL)");
        return NULL;
    }
    *len_bytes = (size_t)(end - first);
    bytes = malloc(*len_bytes);
    if (!bytes) {
        *error = reason_no_memory(why);
        return NULL;
    }
    if (look_read(space, first, bytes, *len_bytes))
        return bytes;
    (void)reason_set(why, -EINVAL, "the guest's BTF is not in memory");
    free(bytes);
    return NULL;
}

static int fill_from_btf(struct look_kernel *kernel, const struct kernel_symbols *symbols,
                         struct layout_found *found, struct reason *why)
{
    struct btf btf = {0};
    size_t len_bytes;
    int error;
    uint8_t *const bytes = read_btf(&kernel->space, symbols, &len_bytes, why, &error);

    if (!bytes)
        return error;
    error = btf_open(&btf, bytes, len_bytes, why);
    for (size_t i = 0; !error && i < COUNT(rows); i++)
        fill_row(&kernel->layout, &btf, &rows[i], found);
    btf_close(&btf);
    free(bytes);
    return error;
}

/* ---- Variables ---- */

/* A kernel that moves its areas of memory has where this one begins in a variable. */
static uint64_t find_vmemmap(const struct look_kernel *kernel, const struct kernel_symbols *symbols)
{
    const uint64_t variable = kallsyms_find(symbols, "vmemmap_base");
    uint64_t address = kernel->space.has_five_levels ? VMEMMAP_5 : VMEMMAP_4;

    if (variable != LOOK_NONE)
        (void)look_u64(&kernel->space, variable, &address);
    return address;
}

/* A per-CPU variable of its own; of Linux 6.2 to 6.14, a member of one. */
static uint64_t find_current(const struct kernel_symbols *symbols)
{
    const uint64_t variable = kallsyms_find(symbols, "current_task");

    return variable != LOOK_NONE ? variable : kallsyms_find(symbols, "pcpu_hot"); /* its first */
}

int layout_find(struct look_kernel *kernel, const struct kernel_symbols *symbols,
                struct layout_found *found, struct reason *why)
{
    int error;

    *found = (struct layout_found){0};
    memset(&kernel->layout, 0xff, sizeof(kernel->layout)); /* LOOK_NONE, everywhere */
    error = fill_from_btf(kernel, symbols, found, why);
    if (error)
        return error;
    choose_tree(&kernel->layout, found);
    for (size_t i = 0; i < COUNT(variables); i++) {
        uint64_t *const into = number_at(&kernel->layout, variables[i].into);

        *into = kallsyms_find(symbols, variables[i].symbol);
        if (*into == LOOK_NONE)
            lack(found, variables[i].needed_by, "the symbol", variables[i].symbol);
    }
    kernel->layout.vmemmap = find_vmemmap(kernel, symbols);
    kernel->layout.current = find_current(symbols);
    if (kernel->layout.current == LOOK_NONE)
        lack(found, CURRENT, "the symbol", "current_task");
    return 0;
}
