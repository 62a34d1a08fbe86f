/* SPDX-License-Identifier: BSD-3-Clause */
#include "view/named.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define NO_FILE "[anon]"

void named_open(struct named *named, struct names_log *log, struct ptd_image *image,
                const struct map *map)
{
    *named = (struct named){.log = log, .image = image, .map = map};
}

void named_close(struct named *named)
{
    names_log_free(named->log);
    named->log = NULL;
}

/* ---- Changes ---- */

/* What a map knows of the file: of this build, or if that is not known, of this name. */
static struct map_symbols symbols_of(const struct named *named,
                                     const struct names_log_change *change)
{
    char text[2 * NAMES_LOG_BUILD_ID_MAX + 1];

    if (!change->path)
        return (struct map_symbols){0};
    if (change->build_id_bytes == 0)
        return map_symbols_of(named->map, change->path);
    for (unsigned i = 0; i < change->build_id_bytes; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", change->build_id[i]);
    return map_symbols_of(named->map, text);
}

/* False: no memory. */
static bool name_map(struct named *named, const struct names_log_change *change, uint64_t cr3)
{
    const char *const last = change->path ? strrchr(change->path, '/') : NULL;
    const struct map_symbols symbols = symbols_of(named, change);
    char name[NAME_MAX + 3] = NO_FILE;

    if (change->path)
        (void)snprintf(name, sizeof(name), "[%.*s]", NAME_MAX, last ? last + 1 : change->path);
    return ptd_image_add_region(named->image, name, change->start, change->end - change->start,
                                symbols.symbols,
                                change->start - change->offset + symbols.offset - symbols.address,
                                cr3) != PTD_E_NOMEM;
}

static bool apply_to(struct named *named, const struct names_log_change *change, uint64_t cr3)
{
    if (cr3 == 0)
        return true;
    if (change->is_new)
        return ptd_image_drop_regions(named->image, cr3) == PTD_OK;
    return name_map(named, change, cr3);
}

bool named_go_to(struct named *named, uint64_t offset)
{
    const struct names_log_change *change;

    /* Places of items need not follow each other; what held once does not come back. */
    if (offset > named->offset)
        named->offset = offset;
    if (offset >= named->until) {
        named->until = names_log_until(named->log, offset);
        named->changes++;
    }
    while ((change = names_log_change(named->log, named->next)) && change->at <= offset) {
        if (!apply_to(named, change, change->cr3) || !apply_to(named, change, change->user_cr3))
            return false;
        named->next++;
        named->changes++;
        named->renames++;
    }
    return true;
}

uint64_t named_next(const struct named *named)
{
    const struct names_log_change *const change = names_log_change(named->log, named->next);

    return change && change->at < named->until ? change->at : named->until;
}

/* ---- Who ---- */

/* Whether these are the kernel's own page tables: whoever has lost its own, as it ends, runs there.
 */
static bool is_of_kernel(const struct named *named, uint64_t cr3)
{
    struct ptd_context context = {.pid = -1};

    if (named->map->contexts)
        ptd_contexts_find(named->map->contexts, cr3, 0, &context);
    return context.process && context.pid == 0;
}

void named_who(const void *owner, uint64_t cr3, uint64_t ns, struct out_who *who)
{
    const struct named *const named = owner;
    struct names_log_task task;

    if (ptd_space_vm(cr3) == 0 && (names_log_who(named->log, named->offset, cr3, &task) ||
                                   (is_of_kernel(named, cr3) &&
                                    names_log_who(named->log, named->offset, PTD_ANY_CR3, &task))))
        *who = (struct out_who){
            .pid = task.pid, .tid = task.tid, .comm = task.comm, .knows_thread = true};
    else if (named->map->contexts)
        who_of_map(named->map->contexts, cr3, ns, who);
    else
        *who = (struct out_who){.comm = "?", .cr3 = ptd_space_cr3(cr3)};
}
