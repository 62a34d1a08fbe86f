/* SPDX-License-Identifier: BSD-3-Clause */
/* Tasks of a Linux guest. */
#include "linux/look/tasks.h"

#include <string.h>

#define USER_ENTRIES  256u /* of a highest table: the lower half of the addresses */
#define ENTRY_ADDRESS UINT64_C(0x000ffffffffff000)
#define PRESENT       UINT64_C(1)

bool look_task(const struct look_kernel *kernel, uint64_t address, struct look_task *task)
{
    const struct look_layout *const layout = &kernel->layout;
    const struct look_space *const space = &kernel->space;

    *task = (struct look_task){.address = address};
    if (!look_u32(space, address + layout->task_pid, &task->pid) ||
        !look_u32(space, address + layout->task_tgid, &task->tgid) ||
        !look_u64(space, address + layout->task_mm, &task->mm) ||
        !look_read(space, address + layout->task_comm, task->comm, sizeof(task->comm)))
        return false;
    task->comm[sizeof(task->comm) - 1] = 0;
    return true;
}

/* The next one of a list that goes through a member of task_struct. */
static bool next_task(struct look_list *list, uint64_t member, struct look_task *task)
{
    uint64_t element;

    if (!look_list_next(list, &element))
        return false;
    list->is_broken = !look_task(list->kernel, element - member, task);
    return !list->is_broken;
}

void look_processes_begin(struct look_list *list, const struct look_kernel *kernel)
{
    look_list_begin(list, kernel, kernel->layout.init_task + kernel->layout.task_tasks);
}

bool look_processes_next(struct look_list *list, struct look_task *task)
{
    return next_task(list, list->kernel->layout.task_tasks, task);
}

bool look_threads_begin(struct look_list *list, const struct look_kernel *kernel,
                        const struct look_task *process)
{
    uint64_t signal;

    if (!look_u64(&kernel->space, process->address + kernel->layout.task_signal, &signal))
        return false;
    look_list_begin(list, kernel, signal + kernel->layout.signal_thread_head);
    return true;
}

bool look_threads_next(struct look_list *list, struct look_task *task)
{
    return next_task(list, list->kernel->layout.task_thread_node, task);
}

bool look_current(const struct look_kernel *kernel, uint64_t gs_base, uint64_t *paddr)
{
    return kernel->layout.current != LOOK_NONE &&
           look_translate(&kernel->space, gs_base + kernel->layout.current, paddr) &&
           *paddr % LOOK_PAGE_BYTES <= LOOK_PAGE_BYTES - sizeof(uint64_t);
}

bool look_root(const struct look_kernel *kernel, uint64_t mm, uint64_t *root)
{
    uint64_t pgd, paddr;

    if (!look_u64(&kernel->space, mm + kernel->layout.mm_pgd, &pgd) ||
        !look_translate(&kernel->space, pgd, &paddr) || paddr & (LOOK_PAGE_BYTES - 1))
        return false;
    *root = paddr;
    return true;
}

/*
 * With page-table isolation, both tables have the same entries for user addresses, but for the bits
 * that say what may be done there. Without it, the page behind root is somebody else's.
 */
bool look_user_root(const struct look_kernel *kernel, uint64_t root, uint64_t *user_root)
{
    const uint64_t behind = root + LOOK_PAGE_BYTES;
    unsigned used = 0;

    if (root & LOOK_PAGE_BYTES)
        return false;
    for (unsigned i = 0; i < USER_ENTRIES; i++) {
        uint64_t kernels, users;

        if (!look_physical(kernel->space.memory, root + 8 * i, &kernels, sizeof(kernels)) ||
            !look_physical(kernel->space.memory, behind + 8 * i, &users, sizeof(users)) ||
            (kernels & (ENTRY_ADDRESS | PRESENT)) != (users & (ENTRY_ADDRESS | PRESENT)))
            return false;
        used += (kernels & PRESENT) != 0;
    }
    *user_root = behind;
    return used > 0;
}
