/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules about a host that traces itself. Its driver's output stays set behind them.
 */
#include "guest.h"
#include "host.h"
#include "rules.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define AUX_PAGES  16u

/* The buffers of an event, as perf record has them. */
static bool map_buffers(int fd)
{
    struct perf_event_mmap_page *page =
        mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (page == MAP_FAILED)
        return false;
    page->aux_offset = 2ull * PAGE_BYTES;
    page->aux_size = AUX_PAGES * PAGE_BYTES;
    return mmap(NULL, AUX_PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                2 * PAGE_BYTES) != MAP_FAILED;
}

static struct outcome host_traces(void)
{
    const int fd = host_event();
    struct guest guest;
    int end;

    if (fd < 0 || !map_buffers(fd))
        return outcome(NOT_TRIED, "the host cannot trace itself: %s", strerror(errno));
    guest_open(&guest, true, NULL);
    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    end = guest_branch(&guest, 10);
    ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
    guest_close(&guest);
    close(fd);
    if (end == NO_ENTRY)
        return outcome(NOT_SO, "VM entry fails, with error %" PRIu64, guest.entry_reason);
    return outcome(end == DONE ? AS_SPECIFIED : NOT_SO, "%s", guest_end_name(end));
}

const struct rule host_rules[] = {
    {"K1", "A guest runs while the host traces itself.", "33.5.2", TEST(host_traces)},
    {.name = NULL},
};
