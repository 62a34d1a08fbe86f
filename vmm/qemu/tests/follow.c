/* SPDX-License-Identifier: BSD-3-Clause */
/* The code that a log says ran, put into an image as the log goes on. */
#include "follow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * In instructions. Decoders keep what they made of code until any of it changes, so it is put into
 * the image in large pieces. No piece of code without a branch has so many as LEAST.
 */
#define LEAST 16384u
#define MOST  262144u

#define FIRMWARE       UINT64_C(0xf0000)
#define FIRMWARE_BYTES 0x10000u
#define SPACE_SEGMENT  (UINT64_MAX - 1)

/*
 * Near branches of 16-bit code wrap in their segment, and no packet tells which one that is. That
 * of a PC's firmware in real mode is F000H, which a code log without any code says here
 * (docs/trace-files.md). Other 16-bit code that wraps would be a difference.
 */
static int tell_firmware(struct ptd_image *image)
{
    static const char magic[8] = "vptcode1"; /* without a NUL */
    struct record {
        uint64_t offset, space, address, value;
    };
    const size_t len = sizeof(magic) + FIRMWARE_BYTES * sizeof(struct record);
    uint8_t *const bytes = malloc(len);
    int status;

    if (!bytes)
        return PTD_E_NOMEM;
    memcpy(bytes, magic, sizeof(magic));
    for (size_t i = 0; i < FIRMWARE_BYTES; i++) {
        const struct record record = {0, SPACE_SEGMENT, FIRMWARE + i + 1, FIRMWARE};

        memcpy(bytes + sizeof(magic) + i * sizeof(record), &record, sizeof(record));
    }
    status = ptd_image_add_code_log(image, bytes, len);
    free(bytes);
    return status;
}

int follow_open(struct follow *follow, struct log *log, struct ptd_image *image)
{
    follow->log = log;
    follow->image = image;
    follow->epoch = 1;
    follow->in = calloc(log->code.len / sizeof(struct log_code) + 1, sizeof(*follow->in));
    return follow->in && tell_firmware(image) == PTD_OK ? 0 : -ENOMEM;
}

void follow_close(struct follow *follow)
{
    free(follow->in);
}

static uint32_t number_at(const struct log *log, size_t at)
{
    return log->codes[at - log->begin];
}

static const struct log_code *code_at(const struct log *log, size_t at)
{
    return (const struct log_code *)log->code.data + number_at(log, at);
}

enum there { ABSENT, OTHER, SAME };

/* Whether bytes are in the image: other ones, at least one of them, or not all of them. */
static enum there there(const struct ptd_image *image, uint64_t ip, const struct log_code *code)
{
    enum there there = SAME;

    for (size_t i = 0; i < code->len; i++) {
        const uint8_t *bytes;
        size_t len;

        if (ptd_image_find(image, PTD_ANY_CR3, ip + i, &bytes, &len) != PTD_OK)
            there = ABSENT;
        else if (*bytes != code->bytes[i])
            return OTHER;
    }
    return there;
}

/* Whether anything from number pos of the log on, and before at, has bytes of the instruction at.
 */
static bool is_needed(struct follow *follow, size_t pos, size_t at)
{
    const struct log *const log = follow->log;
    const uint64_t ip = log_ip(log, at);
    const uint8_t len = code_at(log, at)->len;

    for (size_t i = at; i-- > pos;) {
        const uint64_t other = log_ip(log, i);

        if (other - ip < len || ip - other < code_at(log, i)->len) {
            follow->blocked = i + 1;
            return true;
        }
    }
    return false;
}

bool follow_to(struct follow *follow, size_t pos)
{
    struct log *const log = follow->log;
    const size_t from = pos ? pos - 1 : 0; /* an instruction that follows itself is there once */

    if (follow->ahead > pos + LEAST || follow->blocked > from)
        return true;
    for (; follow->ahead < pos + MOST && log_has(log, follow->ahead + 1); follow->ahead++) {
        const struct log_code *const code = code_at(log, follow->ahead);
        uint64_t *const in = &follow->in[number_at(log, follow->ahead)];
        const uint64_t ip = log_ip(log, follow->ahead);
        enum there is;

        if (*in == follow->epoch)
            continue;
        is = there(follow->image, ip, code);
        if (is == OTHER && is_needed(follow, from, follow->ahead))
            return true;
        if (is == OTHER) {
            follow->epoch++;
            follow->changes++;
            follow->kernel_changes += ip >> 63;
        }
        *in = follow->epoch;
        if (is != SAME &&
            ptd_image_patch(follow->image, ip, code->bytes, code->len, PTD_ANY_CR3) != PTD_OK)
            return false;
    }
    return true;
}
