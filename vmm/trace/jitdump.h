/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A jitdump: code that a program made while it ran, as its run time wrote it down for perf, with
 * names and times. The form is perf's (jitdump-specification.txt in Linux).
 */
#ifndef VMM_JITDUMP_H
#define VMM_JITDUMP_H

#include "common/bytes.h"
#include "common/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JITDUMP_CODES_MAX (1u << 20) /* pieces of code */

/* From a time on, this code stands there. */
struct jit_code {
    uint64_t time; /* ticks of the TSC, if the file has those */
    uint64_t start, len;
    const char *name;
    const uint8_t *bytes;
};

struct jitdump {
    struct bytes file; /* what the others point into */
    uint32_t pid;
    bool has_tsc; /* times are ticks of the TSC; else those of another clock */
    bool is_cut;  /* there is more than so many pieces, or than so many bytes of moved code */
    struct jit_code *codes; /* in order of time */
    size_t count;
};

/*
 * Takes the bytes over, in any case; name is for messages. 0; -EBADMSG: no jitdump of x86-64, or a
 * record is wrong; -ENOMEM; and the reason. A record at the end that was cut off is left out.
 */
int jitdump_parse(const char *name, struct bytes *file, struct jitdump **dump, struct reason *why);
void jitdump_free(struct jitdump *dump);

#endif
