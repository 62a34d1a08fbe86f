/* SPDX-License-Identifier: BSD-3-Clause */
/* Tasks: who they are, and whose page tables they run with. */
#ifndef LOOK_TASKS_H
#define LOOK_TASKS_H

#include "linux/look/list.h"

#define LOOK_COMM_BYTES 16u /* TASK_COMM_LEN, which is a part of Linux's ABI */

struct look_task {
    uint64_t address; /* of its task_struct */
    uint64_t mm;      /* 0: a thread of the kernel */
    uint32_t pid, tgid;
    char comm[LOOK_COMM_BYTES];
};

/* The task at an address. False: there is none. */
bool look_task(const struct look_kernel *kernel, uint64_t address, struct look_task *task);

/* All processes but init_task: the tasks that lead their threads. */
void look_processes_begin(struct look_list *list, const struct look_kernel *kernel);
bool look_processes_next(struct look_list *list, struct look_task *task);
/* All threads of a process, the one that leads them too. False: they cannot be found. */
bool look_threads_begin(struct look_list *list, const struct look_kernel *kernel,
                        const struct look_task *process);
bool look_threads_next(struct look_list *list, struct look_task *task);

/*
 * Where a processor keeps the address of the task that it runs, by the GS base of its kernel: a
 * physical address. False: it is not there, or stands on two pages.
 */
bool look_current(const struct look_kernel *kernel, uint64_t gs_base, uint64_t *paddr);

/* The page tables of an address space: a physical address, as CR3 has it. */
bool look_root(const struct look_kernel *kernel, uint64_t mm, uint64_t *root);
/*
 * The tables that a process runs user code with if the kernel keeps its own away from it
 * (page-table isolation): the page behind root. False: there are none.
 */
bool look_user_root(const struct look_kernel *kernel, uint64_t root, uint64_t *user_root);

#endif
