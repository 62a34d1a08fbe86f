/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real traces: the same instructions as libipt finds, and what damage does. The files are not part
 * of the repository; see main.c for where they are looked for.
 */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libipt.h"
#include "ptdec.h"
#include "suites.h"

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define ROOM          200000u /* instructions; more than any of the traces has */
#define DAMAGES       500u
#define SEGMENTS      3u
#define MAX_RUN_ITEMS 2000000u

static const struct real_trace {
    const char *name, *trace, *program;
    uint64_t offset, size, vaddr; /* of the code in the program's file */
    struct witness_cpu cpu;
    size_t insns;
} traces[] = {
    {"hello-timed",
     "hello-timed/pt.bin",
     "hello-timed/hello",
     0x1000,
     0x87000,
     0x401000,
     {6, 85, 7},
     59225},
    {"lldb-single",
     "lldb-single/3842849.trace",
     "lldb-single/a.out",
     0,
     4096,
     0x400000,
     {6, 79, 1},
     21},
};

struct list {
    uint64_t *ips;
    size_t count;
    size_t errors;
};

struct loaded {
    uint8_t *trace;
    size_t trace_bytes;
    struct ptd_image *image;
};

static bool load(const struct real_trace *real, struct loaded *loaded)
{
    size_t program_bytes = 0;
    uint8_t *const program = read_trace_file(real->program, &program_bytes);

    memset(loaded, 0, sizeof(*loaded));
    loaded->trace = read_trace_file(real->trace, &loaded->trace_bytes);
    loaded->image = ptd_image_new();
    if (program && loaded->trace && loaded->image && real->offset + real->size <= program_bytes &&
        ptd_image_add_bytes(loaded->image, real->name, real->vaddr, program + real->offset,
                            real->size, PTD_ANY_CR3) == PTD_OK) {
        free(program);
        return true;
    }
    free(program);
    free(loaded->trace);
    ptd_image_free(loaded->image);
    report_skip(real->name, "the trace is not there (set VPT_TRACES)");
    return false;
}

static void unload(struct loaded *loaded)
{
    free(loaded->trace);
    ptd_image_free(loaded->image);
}

static bool add_ip(struct list *list, uint64_t ip)
{
    if (list->count == ROOM)
        return false;
    list->ips[list->count++] = ip;
    return true;
}

static void decode(const uint8_t *bytes, size_t len, const struct ptd_image *image,
                   struct list *list)
{
    struct ptd_flow *const flow = ptd_flow_new(bytes, len, image, NULL);
    struct ptd_item item;

    while (ptd_flow_next(flow, &item) == PTD_OK) {
        uint64_t ip = item.ip;
        struct ptd_insn insn;

        if (item.type == PTD_ITEM_ERROR)
            list->errors++;
        if (item.type != PTD_ITEM_BLOCK)
            continue;
        while (ptd_block_insn(image, &item, &ip, &insn) == PTD_OK)
            if (!add_ip(list, insn.ip))
                break;
    }
    ptd_flow_free(flow);
}

static void decode_with_libipt(const struct real_trace *real, struct loaded *loaded,
                               struct list *list)
{
    static const uint32_t ctc[2] = {2, 168};
    struct witness *const witness =
        witness_new(loaded->trace, loaded->trace_bytes, &real->cpu, ctc, 0, 0);
    uint64_t ip, cr3, offset;
    int status;

    CU_ASSERT_PTR_NOT_NULL_FATAL(witness);
    CU_ASSERT_EQUAL(witness_add_file(witness, trace_path(real->program), real->offset, real->size,
                                     real->vaddr, UINT64_MAX),
                    0);
    while ((status = witness_next(witness, &ip, &cr3, &offset)) != 0) {
        if (status < 0)
            list->errors++;
        else if (!add_ip(list, ip))
            break;
    }
    witness_free(witness);
}

static void same_as_libipt(void)
{
    for (size_t i = 0; i < COUNT(traces); i++) {
        struct list ours = {.ips = calloc(ROOM, sizeof(uint64_t))};
        struct list theirs = {.ips = calloc(ROOM, sizeof(uint64_t))};
        struct loaded loaded;

        if (ours.ips && theirs.ips && load(&traces[i], &loaded)) {
            decode(loaded.trace, loaded.trace_bytes, loaded.image, &ours);
            decode_with_libipt(&traces[i], &loaded, &theirs);
            CU_ASSERT_EQUAL(ours.errors, 0);
            CU_ASSERT_EQUAL(theirs.errors, 0);
            CU_ASSERT_EQUAL(ours.count, traces[i].insns);
            CU_ASSERT_EQUAL(theirs.count, ours.count);
            CU_ASSERT_EQUAL(memcmp(ours.ips, theirs.ips, ours.count * sizeof(uint64_t)), 0);
            unload(&loaded);
        }
        free(ours.ips);
        free(theirs.ips);
    }
}

/* ---- Damage ---- */

/*
 * Follows a decoder up to the PSB at offset; then the blocks behind it, as a sum that tells two
 * lists apart. 0 if it does not enter that PSB.
 */
static uint64_t sum_from(const uint8_t *bytes, size_t len, const struct ptd_image *image,
                         uint64_t offset)
{
    struct ptd_flow *const flow = ptd_flow_new(bytes, len, image, NULL);
    struct ptd_item item;
    uint64_t sum = 0, items = 0;
    bool counts = false;

    while (ptd_flow_next(flow, &item) == PTD_OK && items++ < MAX_RUN_ITEMS) {
        if (item.type == PTD_ITEM_PSB && item.offset == offset) {
            counts = true;
            sum = 1;
        }
        if (counts && item.type == PTD_ITEM_BLOCK)
            sum = (sum ^ item.ip ^ (uint64_t)item.insns << 48) * 0x100000001b3u;
    }
    CU_ASSERT_TRUE(items < MAX_RUN_ITEMS);
    ptd_flow_free(flow);
    return sum;
}

/*
 * The trace has one PSB, so copies of it make segments. A wrong byte in one costs no more than that
 * one: the copies behind it decode as before.
 */
static void wrong_bytes(void)
{
    struct loaded loaded;
    uint64_t random = 0x2545f4914f6cdd1d;

    if (!load(&traces[0], &loaded))
        return;

    const size_t one = loaded.trace_bytes, all = SEGMENTS * one;
    uint8_t *const copies = malloc(all);
    uint64_t sums[SEGMENTS + 1] = {0};

    if (!copies) {
        CU_FAIL("out of memory");
        unload(&loaded);
        return;
    }
    for (size_t i = 0; i < SEGMENTS; i++)
        memcpy(copies + i * one, loaded.trace, one);
    for (size_t i = 0; i < SEGMENTS; i++) {
        sums[i] = sum_from(copies, all, loaded.image, i * one);
        CU_ASSERT_NOT_EQUAL(sums[i], 0);
    }
    for (unsigned i = 0; i < DAMAGES; i++) {
        const uint64_t offset = next_random(&random) % all;
        const uint8_t flip = (uint8_t)(1 + next_random(&random) % 255);
        const size_t next = offset / one + 1;

        copies[offset] ^= flip;
        CU_ASSERT_EQUAL(sum_from(copies, all, loaded.image, next * one), sums[next]);
        copies[offset] ^= flip;
    }
    free(copies);
    unload(&loaded);
}

static void cut_off(void)
{
    struct list whole = {.ips = calloc(ROOM, sizeof(uint64_t))};
    struct list part = {.ips = calloc(ROOM, sizeof(uint64_t))};
    struct loaded loaded;

    if (whole.ips && part.ips && load(&traces[0], &loaded)) {
        decode(loaded.trace, loaded.trace_bytes, loaded.image, &whole);
        for (size_t len = 0; len < loaded.trace_bytes; len += 1 + len / 100) {
            uint8_t *const copy = malloc(len ? len : 1);

            if (!copy)
                break;
            memcpy(copy, loaded.trace, len);
            part.count = 0;
            decode(copy, len, loaded.image, &part);
            CU_ASSERT_TRUE(part.count <= whole.count);
            CU_ASSERT_EQUAL(memcmp(part.ips, whole.ips, part.count * sizeof(uint64_t)), 0);
            free(copy);
        }
        unload(&loaded);
    }
    free(whole.ips);
    free(part.ips);
}

void add_trace_suite(void)
{
    CU_pSuite const suite = CU_add_suite("real traces", NULL, NULL);

    CU_add_test(suite, "same instructions as libipt", same_as_libipt);
    CU_add_test(suite, "wrong bytes", wrong_bytes);
    CU_add_test(suite, "cut off", cut_off);
}
