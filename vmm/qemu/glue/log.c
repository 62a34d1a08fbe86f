/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Near branches of a captured vCPU, written down by translated code (translate.c.inc) and told to
 * the model together, before anything else is told to it.
 *
 * Code looks for room at each backward jump and wherever a block is looked up, and nowhere else:
 * every cycle has one of them. What runs in between goes forward, in one page.
 */
#include "qemu/osdep.h"
#include "vpt-i386.h"

/* From here on there is no room: what runs on to the next look goes into the rest. */
#define FULL_BYTES 2048
/* The most that fits in a page of code is CALLs with the shortest displacement, 3 bytes long. */
#define PAGE_ITEMS_BYTES (TARGET_PAGE_SIZE / 3 * VPT_LOG_ITEM_BYTES)
/* Behind them an indirect CALL, which is two items. */
#define LOG_BYTES                                                                                  \
    ROUND_UP(FULL_BYTES + PAGE_ITEMS_BYTES + 3 * VPT_LOG_ITEM_BYTES + VPT_LOG_ROOM, 4096)

/* A page that nobody may touch stands behind it. */
static size_t guard_bytes(void)
{
    return qemu_real_host_page_size();
}

void x86_vpt_log_free(uint8_t *log)
{
    if (log) {
        munmap(log, ROUND_UP(LOG_BYTES, guard_bytes()) + guard_bytes());
    }
}

uint8_t *x86_vpt_log_new(void)
{
    const size_t bytes = ROUND_UP(LOG_BYTES, guard_bytes());
    uint8_t *log = mmap(NULL, bytes + guard_bytes(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (log == MAP_FAILED) {
        return NULL;
    }
    if (mprotect(log + bytes, guard_bytes(), PROT_NONE) != 0) {
        x86_vpt_log_free(log);
        return NULL;
    }
    return log;
}

void x86_vpt_log_begin(X86CPU *cpu, uint8_t *log)
{
    cpu->vpt->log = log;
    cpu->vpt_log = log;
    cpu->vpt_log_full = log + FULL_BYTES;
}

void x86_vpt_log_end(X86CPU *cpu)
{
    cpu->vpt->log = NULL;
    cpu->vpt_log = NULL;
    cpu->vpt_log_full = NULL;
}

void x86_vpt_tell_log(struct X86Vpt *vpt)
{
    const size_t bytes = vpt->cpu->vpt_log - vpt->log;

    g_assert(bytes <= LOG_BYTES - VPT_LOG_ROOM);
    vpt->cpu->vpt_log = vpt->log;
    vpt_branches(vpt->watch, vpt->log, bytes);
}
