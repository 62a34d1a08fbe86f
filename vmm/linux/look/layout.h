/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a Linux kernel keeps what is looked for: addresses of its variables, and offsets and sizes
 * of its structures. All are plain numbers, which somebody has found before (linux/layout.h).
 */
#ifndef LOOK_LAYOUT_H
#define LOOK_LAYOUT_H

#include "linux/look/memory.h"

#include <stdint.h>

#define LOOK_NONE UINT64_MAX /* the kernel has no such thing, or it is not known where */

/* A member that is named STRUCT_MEMBER is the member's offset in bytes, unless it says otherwise.
 */
struct look_layout {
    /* Addresses of variables. */
    uint64_t init_task, modules, bpf_kallsyms, ftrace_trampolines;
    uint64_t vmemmap; /* the array of struct page */
    uint64_t current; /* of each processor: the task that it runs; to be added to its GS base */

    uint64_t list_next, list_prev;

    uint64_t task_tasks, task_pid, task_tgid, task_comm, task_mm, task_signal, task_thread_node;
    uint64_t signal_thread_head;

    uint64_t mm_pgd, mm_vdso, mm_vdso_image;
    uint64_t mm_tree; /* Linux 6.1 and later: its maple tree */
    uint64_t mm_rb;   /* Linux 6.0: its red-black tree */
    uint64_t vdso_data, vdso_bytes;

    uint64_t maple_root, maple_flags;
    uint64_t range_pivots, range_slots, range_slot_count;    /* maple_range_64 */
    uint64_t arange_pivots, arange_slots, arange_slot_count; /* maple_arange_64 */
    uint64_t rb_root, rb_left, rb_right, map_rb;

    uint64_t map_start, map_end, map_flags, map_page, map_file;

    uint64_t file_dentry, file_mount, file_inode;
    uint64_t dentry_parent, dentry_name, dentry_name_len;
    uint64_t mount_vfs, mount_parent, mount_point; /* of struct mount, which holds a vfsmount */
    uint64_t vfs_root;

    uint64_t inode_mapping, mapping_root;
    uint64_t xnode_shift, xnode_slots;
    uint64_t page_bytes; /* of struct page */

    uint64_t module_list, module_name, module_state, module_kallsyms;
    uint64_t kallsyms_symbols, kallsyms_count, kallsyms_texts, kallsyms_types;

    uint64_t bpf_start, bpf_name, bpf_node;
    uint64_t ftrace_list, ftrace_trampoline;
};

/* A kernel whose memory is looked at. */
struct look_kernel {
    struct look_space space; /* the kernel's own */
    struct look_layout layout;
};

#endif
