/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of execlog.c, read: the addresses of the instructions that began, in their order.
 */
#include "log.h"
#include "common/bytes.h"
#include "common/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PARTIAL      0x80000000u
#define WINDOW_WORDS (1u << 20)
#define PAGE_SHIFT   48 /* as in execlog.c */

/*
 * One address. An instruction that is restarted, as string instructions are, counts once, and so
 * does one that leads to itself.
 */
static void unfold_ip(struct log *log, uint64_t ip)
{
    if (log->end > log->begin && log->ips[log->end - log->begin - 1] == ip)
        return;
    if (log->end - log->begin == log->room) {
        log->room = log->room ? log->room * 2 : WINDOW_WORDS;
        log->ips = reallocarray(log->ips, log->room, sizeof(*log->ips));
        log->pages = reallocarray(log->pages, log->room, sizeof(*log->pages));
        log->tscs = reallocarray(log->tscs, log->room, sizeof(*log->tscs));
        log->codes = reallocarray(log->codes, log->room, sizeof(*log->codes));
        if (!log->ips || !log->pages || !log->tscs || !log->codes)
            abort();
    }
    log->ips[log->end++ - log->begin] = ip;
}

static void unfold_word(struct log *log)
{
    const uint64_t word = ((const uint64_t *)log->words.data)[log->next];
    const uint64_t *const times = (const uint64_t *)log->times.data;
    const unsigned unused = log->has_pages ? 64 - PAGE_SHIFT : 0; /* by the address */
    size_t at;

    unfold_ip(log, (uint64_t)((int64_t)(word << unused) >> unused));
    at = log->end - log->begin - 1;
    log->pages[at] = (uint16_t)(word >> PAGE_SHIFT);
    log->tscs[at] = times ? times[log->next] : 0;
    log->next++;
}

/* The next block of the log, of which some instructions began. False: malformed. */
static bool unfold_block(struct log *log)
{
    const uint32_t *const words = (const uint32_t *)log->words.data;
    const uint32_t number = words[log->next] & ~PARTIAL;
    const bool partial = words[log->next++] & PARTIAL;
    const uint64_t *block;
    uint64_t insns;
    size_t first; /* of all that the table has */

    if (number >= log->block_count || (partial && log->next == log->words.len / sizeof(*words)))
        return false;
    block = (const uint64_t *)(log->table.data + log->blocks[number]);
    first = log->blocks[number] / sizeof(uint64_t) - number;
    insns = partial ? words[log->next++] : block[0];
    for (uint64_t i = 0; i < insns && i < block[0]; i++) {
        unfold_ip(log, block[1 + i]);
        log->codes[log->end - log->begin - 1] = (uint32_t)(first + i);
    }
    return insns <= block[0];
}

bool log_has(struct log *log, size_t end)
{
    const size_t word_bytes = log->blocks ? sizeof(uint32_t) : sizeof(uint64_t);

    while (log->end < end) {
        if (log->next >= log->words.len / word_bytes)
            return false;
        if (!log->blocks)
            unfold_word(log);
        else if (!unfold_block(log))
            return false;
    }
    return true;
}

void log_forget(struct log *log, size_t pos)
{
    const size_t from = pos > 0 ? pos - 1 : 0;

    if (from - log->begin < WINDOW_WORDS / 2)
        return;
    memmove(log->ips, log->ips + (from - log->begin), (log->end - from) * sizeof(*log->ips));
    memmove(log->pages, log->pages + (from - log->begin), (log->end - from) * sizeof(*log->pages));
    memmove(log->tscs, log->tscs + (from - log->begin), (log->end - from) * sizeof(*log->tscs));
    memmove(log->codes, log->codes + (from - log->begin), (log->end - from) * sizeof(*log->codes));
    log->begin = from;
}

uint64_t log_ip(const struct log *log, size_t pos)
{
    return log->ips[pos - log->begin];
}

uint64_t log_tsc(const struct log *log, size_t pos)
{
    return log->tscs[pos - log->begin];
}

int log_open(struct log *log, const char *path, const char *table)
{
    int error = read_file(path, &log->words);
    size_t room = 0;

    if (!error && table)
        error = read_file(table, &log->table);
    for (size_t at = 0; !error && at + sizeof(uint64_t) <= log->table.len; log->block_count++) {
        if (log->block_count == room) {
            room = room ? room * 2 : 1024;
            log->blocks = reallocarray(log->blocks, room, sizeof(*log->blocks));
            if (!log->blocks)
                abort();
        }
        log->blocks[log->block_count] = at;
        at += (1 + *(const uint64_t *)(log->table.data + at)) * sizeof(uint64_t);
        if (at > log->table.len)
            error = -EBADMSG;
    }
    return error;
}

int log_open_code(struct log *log, const char *path)
{
    const size_t insns = log->table.len / sizeof(uint64_t) - log->block_count;
    const int error = read_file(path, &log->code);

    if (error)
        return error;
    if (insns > UINT32_MAX || log->code.len != insns * sizeof(struct log_code))
        return -EBADMSG;
    for (size_t i = 0; i < insns; i++) {
        const struct log_code *const code = (const struct log_code *)log->code.data + i;

        if (code->len == 0 || code->len > sizeof(code->bytes))
            return -EBADMSG;
    }
    return 0;
}

void log_close(struct log *log)
{
    bytes_free(&log->code);
    bytes_free(&log->words);
    bytes_free(&log->table);
    bytes_free(&log->times);
    free(log->blocks);
    free(log->ips);
    free(log->pages);
    free(log->tscs);
    free(log->codes);
}
