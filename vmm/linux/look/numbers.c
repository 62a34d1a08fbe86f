/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers of a lay-out by their names. */
#include "linux/look/numbers.h"

#include <string.h>

#define ADDRESS(member, part)                                                                      \
    {                                                                                              \
#member, offsetof(struct look_layout, member), part, true                                  \
    }
#define MEMBER(member, part)                                                                       \
    {                                                                                              \
#member, offsetof(struct look_layout, member), part, false                                 \
    }

const struct look_number look_numbers[] = {
    ADDRESS(init_task, LOOK_OTHERS),
    ADDRESS(modules, LOOK_OTHERS),
    ADDRESS(bpf_kallsyms, LOOK_OTHERS),
    ADDRESS(ftrace_trampolines, LOOK_OTHERS),
    ADDRESS(vmemmap, LOOK_PAGES),
    ADDRESS(current, LOOK_TASKS),
    MEMBER(list_next, LOOK_OTHERS),
    MEMBER(list_prev, LOOK_OTHERS),
    MEMBER(task_tasks, LOOK_OTHERS),
    MEMBER(task_pid, LOOK_TASKS),
    MEMBER(task_tgid, LOOK_TASKS),
    MEMBER(task_comm, LOOK_TASKS),
    MEMBER(task_mm, LOOK_TASKS),
    MEMBER(task_signal, LOOK_OTHERS),
    MEMBER(task_thread_node, LOOK_OTHERS),
    MEMBER(signal_thread_head, LOOK_OTHERS),
    MEMBER(mm_pgd, LOOK_TASKS),
    MEMBER(mm_vdso, LOOK_OTHERS),
    MEMBER(mm_vdso_image, LOOK_OTHERS),
    MEMBER(mm_tree, LOOK_OTHERS),
    MEMBER(mm_rb, LOOK_OTHERS),
    MEMBER(vdso_data, LOOK_OTHERS),
    MEMBER(vdso_bytes, LOOK_OTHERS),
    MEMBER(maple_root, LOOK_OTHERS),
    MEMBER(maple_flags, LOOK_OTHERS),
    MEMBER(range_pivots, LOOK_OTHERS),
    MEMBER(range_slots, LOOK_OTHERS),
    MEMBER(range_slot_count, LOOK_OTHERS),
    MEMBER(arange_pivots, LOOK_OTHERS),
    MEMBER(arange_slots, LOOK_OTHERS),
    MEMBER(arange_slot_count, LOOK_OTHERS),
    MEMBER(rb_root, LOOK_OTHERS),
    MEMBER(rb_left, LOOK_OTHERS),
    MEMBER(rb_right, LOOK_OTHERS),
    MEMBER(map_rb, LOOK_OTHERS),
    MEMBER(map_start, LOOK_MAPS),
    MEMBER(map_end, LOOK_MAPS),
    MEMBER(map_flags, LOOK_MAPS),
    MEMBER(map_page, LOOK_MAPS),
    MEMBER(map_file, LOOK_MAPS),
    MEMBER(file_dentry, LOOK_MAPS),
    MEMBER(file_mount, LOOK_MAPS),
    MEMBER(file_inode, LOOK_PAGES),
    MEMBER(dentry_parent, LOOK_MAPS),
    MEMBER(dentry_name, LOOK_MAPS),
    MEMBER(dentry_name_len, LOOK_MAPS),
    MEMBER(mount_vfs, LOOK_MAPS),
    MEMBER(mount_parent, LOOK_MAPS),
    MEMBER(mount_point, LOOK_MAPS),
    MEMBER(vfs_root, LOOK_MAPS),
    MEMBER(inode_mapping, LOOK_PAGES),
    MEMBER(mapping_root, LOOK_PAGES),
    MEMBER(xnode_shift, LOOK_PAGES),
    MEMBER(xnode_slots, LOOK_PAGES),
    MEMBER(page_bytes, LOOK_PAGES),
    MEMBER(module_list, LOOK_OTHERS),
    MEMBER(module_name, LOOK_OTHERS),
    MEMBER(module_state, LOOK_OTHERS),
    MEMBER(module_kallsyms, LOOK_OTHERS),
    MEMBER(kallsyms_symbols, LOOK_OTHERS),
    MEMBER(kallsyms_count, LOOK_OTHERS),
    MEMBER(kallsyms_texts, LOOK_OTHERS),
    MEMBER(kallsyms_types, LOOK_OTHERS),
    MEMBER(bpf_start, LOOK_OTHERS),
    MEMBER(bpf_name, LOOK_OTHERS),
    MEMBER(bpf_node, LOOK_OTHERS),
    MEMBER(ftrace_list, LOOK_OTHERS),
    MEMBER(ftrace_trampoline, LOOK_OTHERS),
    {0},
};

uint64_t *look_number_in(struct look_layout *layout, const struct look_number *number)
{
    return (uint64_t *)(void *)((char *)layout + number->offset);
}

const struct look_number *look_number_find(const char *name)
{
    const struct look_number *number = look_numbers;

    while (number->name && strcmp(number->name, name) != 0)
        number++;
    return number->name ? number : NULL;
}

bool look_number_is_good(const struct look_number *number, uint64_t value)
{
    return number->is_address ? value != LOOK_NONE : value <= LOOK_OFFSET_MAX;
}

/* Mappings stand in one of two trees. */
static bool has_tree(const struct look_layout *layout)
{
    if (layout->mm_tree != LOOK_NONE)
        return layout->maple_root != LOOK_NONE && layout->range_pivots != LOOK_NONE &&
               layout->range_slots != LOOK_NONE && layout->arange_pivots != LOOK_NONE &&
               layout->arange_slots != LOOK_NONE;
    return layout->mm_rb != LOOK_NONE && layout->rb_root != LOOK_NONE &&
           layout->rb_left != LOOK_NONE && layout->rb_right != LOOK_NONE &&
           layout->map_rb != LOOK_NONE;
}

bool look_has(const struct look_layout *layout, enum look_part part)
{
    struct look_layout copy = *layout;

    for (const struct look_number *number = look_numbers; number->name; number++)
        if (number->part == part && *look_number_in(&copy, number) == LOOK_NONE)
            return false;
    return part != LOOK_MAPS || has_tree(layout);
}
