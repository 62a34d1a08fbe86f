/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds a Linux kernel. VMCOREINFO says where all begins: a note, if QEMU was told of it by the
 * guest (-device vmcoreinfo), else a page of memory that begins as the kernel's own does.
 * Memory can hold that of a kernel which ran before, so each is tried until one leads to symbols,
 * and one that a processor runs is preferred.
 */
#include "linux/guest.h"

#include <errno.h>
#include <string.h>

#define KERNEL_MAP UINT64_C(0xffffffff80000000) /* __START_KERNEL_map */
#define TRIES_MAX  16u                          /* pages that look right, and lead to no kernel */

/* The kernel that some lines of VMCOREINFO describe. 0 or -errno, as guest_open(). */
static int try_lines(struct linux_guest *guest, const char *lines, size_t len_bytes,
                     struct reason *why)
{
    struct vmcoreinfo *const info = &guest->info;

    if (!vmcoreinfo_parse(info, lines, len_bytes))
        return reason_set(why, -EINVAL, "a VMCOREINFO without what Linux 6.0 and later tell in it");
    guest->kernel.space = (struct look_space){
        .memory = &guest->memory,
        .root = info->page_table - KERNEL_MAP + info->phys_base,
        .ignored = info->ignored_bits,
        .has_five_levels = info->has_five_levels,
    };
    kallsyms_free(&guest->symbols);
    return kallsyms_read(&guest->symbols, &guest->kernel.space, info, why);
}

bool guest_runs(const struct linux_guest *guest, const struct guest_source *source)
{
    const uint64_t entry = kallsyms_find(&guest->symbols, "entry_SYSCALL_64");

    return source->enters && entry != LOOK_NONE && source->enters(source->memory.owner, entry);
}

/* What is being looked for: any kernel, or one that runs. */
struct search {
    const struct guest_source *source;
    bool must_run;
    bool passed_over; /* one that does not */
};

static int try_one(struct linux_guest *guest, struct search *search, const char *lines,
                   size_t len_bytes, struct reason *why)
{
    const int error = try_lines(guest, lines, len_bytes, why);

    if (error || !search->must_run || guest_runs(guest, search->source))
        return error;
    search->passed_over = true;
    return reason_set(why, -EINVAL, "no processor of the guest runs its kernel");
}

/* The pages that look right, in their order. -ENOENT: none of them leads to a kernel. */
static int try_pages(struct linux_guest *guest, struct search *search, struct reason *why)
{
    const struct guest_source *const source = search->source;
    struct source_place place = {0};
    uint8_t page[LOOK_PAGE_BYTES];
    uint64_t at = 0;
    int error = -EINVAL;

    for (unsigned tries = 0; error == -EINVAL && tries < TRIES_MAX; tries++) {
        const char *lines = NULL;

        error = source->find(source->memory.owner, &place, &at, why);
        if (error)
            return error;
        error = -EINVAL; /* a page may have changed since it was found */
        if (look_physical(&source->memory, at, page, sizeof(page)))
            lines = vmcoreinfo_in_page(page, sizeof(page));
        if (lines)
            error = try_one(guest, search, lines,
                            sizeof(page) - (size_t)((const uint8_t *)lines - page), why);
    }
    return error;
}

static int find(struct linux_guest *guest, struct search *search, struct reason *why)
{
    const struct guest_source *const source = search->source;
    int error = -EINVAL;

    why->text[0] = 0;
    if (source->lines_bytes > 0)
        error = try_one(guest, search, source->lines, source->lines_bytes, why);
    if (error == -EINVAL)
        error = try_pages(guest, search, why);
    return error;
}

static int find_kernel(struct linux_guest *guest, const struct guest_source *source,
                       struct reason *why)
{
    struct search search = {.source = source, .must_run = source->enters};
    int error = find(guest, &search, why);

    /* What runs at the moment may be a virtual machine's. */
    if (search.passed_over && (error == -EINVAL || error == -ENOENT)) {
        search.must_run = false;
        error = find(guest, &search, why);
    }
    if (error != -EINVAL && error != -ENOENT)
        return error;
    if (why->text[0]) /* there was something, and what is wrong with it was said */
        return -EINVAL;
    return reason_set(
        why, -EINVAL,
        "no Linux kernel is found in this memory: it has no VMCOREINFO. Another system "
        "runs there, or the kernel is without CONFIG_CRASH_CORE, or memory is "
        "encrypted (SEV, TDX)");
}

int guest_open(struct linux_guest *guest, const struct guest_source *source, struct reason *why)
{
    int error;

    *guest = (struct linux_guest){.memory = source->memory};
    error = find_kernel(guest, source, why);
    if (error)
        return error;
    error = layout_find(&guest->kernel, &guest->symbols, &guest->found, &guest->no_layout);
    if (error == -ENOMEM)
        return reason_no_memory(why);
    return 0;
}

void guest_close(struct linux_guest *guest)
{
    kallsyms_free(&guest->symbols);
}

uint64_t guest_early_root(const struct linux_guest *guest)
{
    const uint64_t root = kallsyms_find(&guest->symbols, "early_top_pgt");

    return root == LOOK_NONE ? 0 : root - KERNEL_MAP + guest->info.phys_base;
}

bool guest_has(const struct linux_guest *guest, enum layout_part part)
{
    return !guest->no_layout.text[0] && !guest->found.lacks[part][0];
}
