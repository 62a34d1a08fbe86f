/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzes logs of names: what they say, and what is shown of it along a trace. */
#include <stdlib.h>

#include "ptdec.h"
#include "view/named.h"

#define STEPS 16u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

/* Who is told has a name, wherever that is asked. */
static void check_who(const struct named *named, uint64_t cr3)
{
    struct out_who who;

    named_who(named, cr3, UINT64_MAX, &who);
    if (!who.comm || who.pid > INT32_MAX || who.tid > INT32_MAX)
        abort();
}

/* Changes are in order; each is followed, and its addresses are asked for. */
static void follow(struct named *named, struct ptd_image *image)
{
    const struct names_log_change *change, *before = NULL;
    uint64_t offset;

    for (size_t i = 0; (change = names_log_change(named->log, i)); before = change, i++) {
        if ((before && before->at > change->at) || change->cr3 == 0 ||
            (!change->is_new && change->start >= change->end))
            abort();
        if (!named_go_to(named, change->at))
            abort();
        check_who(named, change->cr3);
        check_who(named, change->user_cr3);
        (void)ptd_image_symbol(image, change->cr3, change->end - 1, &offset);
    }
    for (unsigned i = 0; i < STEPS; i++) {
        if (!named_go_to(named, (uint64_t)1 << (4 * i)))
            abort();
        check_who(named, (uint64_t)i << 12);
        check_who(named, PTD_ANY_CR3);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    struct names_log *log;
    struct reason why = {0};
    struct map map = {0};
    struct named named = {0};
    struct ptd_image *image;

    if (names_log_parse("log", (const char *)bytes, len_bytes, &log, &why) != 0) {
        if (!why.text[0] || log)
            abort();
        return 0;
    }
    image = ptd_image_new();
    if (!image)
        abort();
    named_open(&named, log, image, &map);
    follow(&named, image);
    named_close(&named);
    ptd_image_free(image);
    return 0;
}
