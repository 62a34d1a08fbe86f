/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest that runs on our QEMU, as memory that can be looked at (docs/qemu.md, "A look at
 * memory"). QEMU copies pieces of it, as they are asked for, into a file in memory that both have:
 * so nothing but short questions goes over the monitor, which may be libvirt's. What was copied is
 * kept, and may be older than what was not.
 */
#ifndef VMM_LINUX_LIVE_H
#define VMM_LINUX_LIVE_H

#include "linux/source.h"
#include "linux/vmcoreinfo.h"
#include "monitor/monitor.h"

#define LIVE_PIECE_BYTES (256u << 10) /* that are copied at once, at most */
#define LIVE_SETS        64u
#define LIVE_WAYS        8u
#define LIVE_BYTES       (LIVE_PIECE_BYTES * LIVE_SETS * LIVE_WAYS) /* that are kept: 128 MiB */

struct live_range {
    uint64_t paddr, len_bytes;
};

/* What stands at one place of the window. */
struct live_piece {
    uint64_t paddr, len_bytes; /* len_bytes 0: nothing */
    uint64_t used;             /* when it was asked for last */
};

/* Begins as zeros. */
struct live {
    struct monitor *monitor;
    struct live_range *ranges; /* of memory, in the order of addresses */
    size_t range_count;
    uint64_t *entries; /* where SYSCALL leads, of the processors that were told */
    size_t entry_count;
    bool is_running; /* it changes while it is looked at */
    bool is_stopped; /* by live_stop() */
    int fd;          /* of the window; valid if window is */
    int64_t fdset;   /* where QEMU has it; negative: nowhere */
    uint8_t *window;
    struct live_piece pieces[LIVE_SETS][LIVE_WAYS];
    uint64_t clock;
    struct reason lost; /* why nothing more can be read; "": it can */
    char lines[VMCOREINFO_BYTES_MAX];
    size_t lines_bytes;
};

/*
 * Begins to look. 0; -EINVAL: no processor runs a 64-bit system, or memory is encrypted; -ENOMEM;
 * -EREMOTEIO: QEMU did not do it; and the reason. live_close() in any case; the monitor must
 * outlive it.
 */
int live_open(struct live *live, struct monitor *monitor, struct reason *why);
void live_close(struct live *live);
/* Its memory; valid as long as live is. Once something failed, live->lost says what. */
struct guest_source live_source(const struct live *live);
/* What was copied is old: it is copied anew when it is asked for. */
void live_forget(struct live *live);
/*
 * Stops the guest, if it runs, up to live_go(), which live_close() does too. Signals that would end
 * the program wait until then: nobody else would let the guest go on. 0, or -EREMOTEIO and the
 * reason.
 */
int live_stop(struct live *live, struct reason *why);
void live_go(struct live *live);

#endif
