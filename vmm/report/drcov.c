/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A drcov file: lines of text that name modules, version 2 of their table, and behind them a record
 * of 8 bytes for each block: 32 bits of where it begins in its module, 16 bits of how many bytes it
 * has, and 16 bits that number the module.
 */
#include "report/drcov.h"
#include "common/escape.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RECORD_BYTES 8u
#define BLOCK_MAX    UINT16_MAX /* bytes, of one record */

/* ---- Blocks ---- */

/* The byte behind a block's last; 0: its code is not there. */
static uint64_t end_of(const struct ptd_image *image, const struct ptd_item *block)
{
    uint64_t ip = block->ip, end = 0;
    struct ptd_insn insn;

    while (ptd_block_insn(image, block, &ip, &insn) == PTD_OK)
        end = insn.ip + insn.size_bytes;
    return end;
}

/* The number of a module; UINT32_MAX: no memory. */
static uint32_t number_of(struct drcov *drcov, const struct drcov_module *module)
{
    const uint32_t path = names_add(&drcov->paths, module->path);
    struct sum *sum;

    if (path == UINT32_MAX)
        return UINT32_MAX;
    if (drcov->modules.count >= DRCOV_MODULES_MAX &&
        !table_find(&drcov->modules, path, module->base, 0))
        return DRCOV_MODULES_MAX;
    sum = table_at(&drcov->modules, path, module->base, 0);
    if (!sum)
        return UINT32_MAX;
    if (module->end > sum->count)
        sum->count = module->end;
    return (uint32_t)(sum - drcov->modules.sums);
}

static uint32_t cut(struct drcov *drcov)
{
    drcov->is_cut = true;
    return DRCOV_ELSEWHERE;
}

uint32_t drcov_see(struct drcov *drcov, const struct ptd_image *image, const struct ptd_item *block)
{
    const uint64_t end = end_of(image, block);
    struct drcov_module module;
    const struct sum *sum;
    uint32_t number;

    if (end <= block->ip) /* code that is not there, or goes round the end of addresses */
        return DRCOV_ELSEWHERE;
    if (!drcov->module_of(drcov->owner, image, block->cr3, block->ip, &module))
        return UINT32_MAX;
    if (end > module.end)
        module.end = end;
    number = number_of(drcov, &module);
    if (number == UINT32_MAX)
        return number;
    if (number == DRCOV_MODULES_MAX ||
        (drcov->blocks.count >= DRCOV_BLOCKS_MAX &&
         !table_find(&drcov->blocks, number, block->ip - module.base, end - block->ip)))
        return cut(drcov);
    sum = table_at(&drcov->blocks, number, block->ip - module.base, end - block->ip);
    return sum ? (uint32_t)(sum - drcov->blocks.sums) + 1 : UINT32_MAX;
}

void drcov_add(struct drcov *drcov, uint32_t block, uint64_t count)
{
    if (block != DRCOV_ELSEWHERE)
        drcov->blocks.sums[block - 1].count += count;
}

/* ---- The file ---- */

static uint64_t records_of(const struct sum *block)
{
    return block->count ? (block->key[2] + BLOCK_MAX - 1) / BLOCK_MAX : 0;
}

static int write_text(struct output *output, const char *text, int len, struct reason *why)
{
    return len < 0 ? reason_no_memory(why) : output_write(output, text, (size_t)len, why);
}

static int write_modules(const struct drcov *drcov, struct output *output, struct reason *why)
{
    char text[256];
    int error = write_text(output, text,
                           snprintf(text, sizeof(text),
                                    "DRCOV VERSION: 2\nDRCOV FLAVOR: vpt\n"
                                    "Module Table: version 2, count %zu\n"
                                    "Columns: id, base, end, entry, path\n",
                                    drcov->modules.count),
                           why);

    for (size_t i = 0; !error && i < drcov->modules.count; i++) {
        const struct sum *const module = &drcov->modules.sums[i];
        struct escaped room;
        char *line;
        const int len = asprintf(&line, "%3zu, 0x%016" PRIx64 ", 0x%016" PRIx64 ", 0x%016x, %s\n",
                                 i, module->key[1], module->count, 0u,
                                 escaped(drcov->paths.list[module->key[0]], &room));

        error = write_text(output, len < 0 ? NULL : line, len, why);
        if (len >= 0)
            free(line);
    }
    return error;
}

static void put(uint8_t *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

/* A block that is longer than a record can say is several. */
static int write_block(const struct sum *block, struct output *output, struct reason *why)
{
    int error = 0;

    for (uint64_t done = 0; !error && block->count && done < block->key[2]; done += BLOCK_MAX) {
        const uint64_t left = block->key[2] - done;
        uint8_t record[RECORD_BYTES];

        put(record, block->key[1] + done, 4);
        put(record + 4, left < BLOCK_MAX ? left : BLOCK_MAX, 2);
        put(record + 6, block->key[0], 2);
        error = output_write(output, record, sizeof(record), why);
    }
    return error;
}

int drcov_write(const struct drcov *drcov, struct output *output, size_t *count, struct reason *why)
{
    uint64_t records = 0;
    char text[64];
    int error;

    for (size_t i = 0; i < drcov->blocks.count; i++)
        records += records_of(&drcov->blocks.sums[i]);
    *count = (size_t)records;
    error = write_modules(drcov, output, why);
    if (!error)
        error =
            write_text(output, text,
                       snprintf(text, sizeof(text), "BB Table: %" PRIu64 " bbs\n", records), why);
    for (size_t i = 0; !error && i < drcov->blocks.count; i++)
        error = write_block(&drcov->blocks.sums[i], output, why);
    return error;
}

void drcov_free(struct drcov *drcov)
{
    names_free(&drcov->paths);
    table_free(&drcov->modules);
    table_free(&drcov->blocks);
}
