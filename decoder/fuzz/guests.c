/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes what a trace of a host and its guests goes through: the flow in the address spaces of two
 * VMs, one with code of its own and one whose code is in its memory behind page tables; contexts;
 * and the partition, which has to agree with the flow about who ran.
 *
 * Three bytes say how, and how long code and memory are; then they follow, and the trace.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptdec.h"
#include "tests/referee.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

#define HEAD_BYTES  3
#define HOW_PAGING  0x03u
#define HOW_MAPPED  0x04u /* the memory's first entries are made to map its first page at 0 */
#define HOW_START   0x08u /* PSB+ with NR and a VMCS, TIP.PGE at 0, in front of the trace */
#define HOW_THREADS 0x10u /* seldom, as it takes long: if this is set, too: */
#define SELDOM      7u
#define HOW_ONLY    0x20u /* decode only what is selected */
#define VMCS_CODE   0x1000u
#define VMCS_MEMORY 0x2000u
#define PAGE        4096u
#define CR3         0x1000u
#define PRESENT     0x7u

struct input {
    uint8_t how;
    bool threads;
    const uint8_t *code;
    size_t code_bytes;
    uint8_t *memory; /* owned */
    size_t memory_bytes;
    uint8_t *trace; /* owned, of exactly its size */
    size_t trace_bytes;
};

struct guests {
    struct ptd_image *image;
    struct ptd_contexts *contexts;
    struct ptd_memory *memory;
};

/* ---- Input ---- */

/* Page 0 has the code, the pages from CR3 on the tables: each level's first entry is the next. */
static void build_memory(struct input *input, const uint8_t *bytes, size_t len)
{
    input->memory_bytes = 6 * PAGE;
    input->memory = calloc(1, input->memory_bytes);
    if (!input->memory)
        abort();
    if (input->how & HOW_MAPPED) {
        for (uint64_t level = 0; level < 5; level++) {
            const uint64_t next = level < 4 ? CR3 + (level + 1) * PAGE : 0;
            const uint64_t entry = (next == 5 * PAGE ? 0 : next) | PRESENT;

            memcpy(input->memory + CR3 + level * PAGE, &entry, sizeof(entry));
        }
    }
    for (size_t i = 0; i < len; i++) /* a part to each page */
        input->memory[i % 6 * PAGE + i / 6] ^= bytes[i];
}

static void build_trace(struct input *input, const uint8_t *bytes, size_t len)
{
    static const uint8_t start[] = {
        2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2,    0x82, 2, 0x82, 2, 0x43, 3, 1,
        0, 0,    0, 0,    2, 0xc8, 1, 0,    0, 0,    0, 2,    0x23, 0x99, 1, 0x31, 0, 0};
    const size_t head = input->how & HOW_START ? sizeof(start) : 0;

    input->trace_bytes = head + len;
    input->trace = malloc(input->trace_bytes ? input->trace_bytes : 1);
    if (!input->trace)
        abort();
    memcpy(input->trace, start, head);
    memcpy(input->trace + head, bytes, len);
}

static bool build(struct input *input, const uint8_t *bytes, size_t len)
{
    size_t memory_bytes;

    if (len < HEAD_BYTES)
        return false;
    input->how = bytes[0];
    input->code = bytes + HEAD_BYTES;
    input->threads = input->how & HOW_THREADS && (bytes[2] & SELDOM) == SELDOM;
    len -= HEAD_BYTES;
    input->code_bytes = bytes[1] < len ? bytes[1] : len;
    len -= input->code_bytes;
    memory_bytes = bytes[2] < len ? bytes[2] : len;
    build_memory(input, input->code + input->code_bytes, memory_bytes);
    build_trace(input, input->code + input->code_bytes + memory_bytes, len - memory_bytes);
    return true;
}

/* ---- Guests ---- */

static void check(int status)
{
    if (status < 0)
        abort();
}

static void build_guests(const struct input *input, struct guests *guests)
{
    const enum ptd_paging paging = (enum ptd_paging)(PTD_PAGING_32 + (input->how & HOW_PAGING));
    int code, memory;

    guests->image = ptd_image_new();
    guests->memory = ptd_memory_new();
    guests->contexts = guests->image ? ptd_contexts_new(guests->image) : NULL;
    if (!guests->contexts || !guests->memory)
        abort();
    check(code = ptd_contexts_add_vm(guests->contexts, "code", 5, 0));
    check(memory = ptd_contexts_add_vm(guests->contexts, "memory", 0, 1ull << 48));
    check(ptd_contexts_add_vmcs(guests->contexts, (unsigned)code, VMCS_CODE));
    check(ptd_contexts_add_vmcs(guests->contexts, (unsigned)memory, VMCS_MEMORY));
    check(ptd_contexts_add_process(guests->contexts, (unsigned)code, CR3, "one", 1));
    check(ptd_memory_add(guests->memory, 0, input->memory, input->memory_bytes));
    check(ptd_image_add_memory(guests->image, (unsigned)memory, guests->memory, paging));
    if (input->code_bytes > 0) {
        check(ptd_image_add_bytes(guests->image, "guest", 0, input->code, input->code_bytes,
                                  ptd_space((unsigned)code, PTD_ANY_CR3)));
        check(ptd_image_add_bytes(guests->image, "host", 0, input->code, input->code_bytes / 2 + 1,
                                  PTD_ANY_CR3));
    }
}

static void free_guests(struct guests *guests)
{
    ptd_contexts_free(guests->contexts);
    ptd_image_free(guests->image);
    ptd_memory_free(guests->memory);
}

/* ---- What is checked ---- */

static void check_item(const struct guests *guests, const struct ptd_item *item)
{
    struct ptd_context context;

    ptd_contexts_find(guests->contexts, item->cr3, item->ip, &context);
    if (context.vm != ptd_space_vm(item->cr3) ||
        (context.who >= PTD_GUEST_KERNEL) != (context.vm != 0))
        abort();
}

static void decode(const struct guests *guests, const uint8_t *bytes, size_t len)
{
    const struct ptd_flow_config config = {.mode = PTD_MODE_64};
    struct ptd_flow *const flow = ptd_flow_new(bytes, len, guests->image, &config);
    struct ptd_item item;

    if (!flow)
        abort();
    while (ptd_flow_next(flow, &item) == PTD_OK) {
        if (item.offset > len)
            abort();
        if (item.type == PTD_ITEM_BLOCK)
            check_item(guests, &item);
    }
    ptd_flow_free(flow);
}

static void expect_same(struct referee_verdict verdict)
{
    if (verdict.same)
        return;
    (void)fprintf(stderr, "%s\n", verdict.difference);
    abort();
}

static void compare_fast_ways(const struct input *input, const struct guests *guests)
{
    const struct referee_trace trace = {.bytes = input->trace,
                                        .len_bytes = input->trace_bytes,
                                        .image = guests->image,
                                        .timing = (enum ptd_timing)(input->trace_bytes % 3)};

    expect_same(referee_run(&trace, PTD_RUN_ROOM));
    if (input->threads)
        expect_same(referee_parallel(&trace, 2, 1));
}

struct partition {
    const struct ptd_image *image;
    uint64_t end;
};

static int check_part(void *owner, const struct ptd_part *part)
{
    struct partition *const partition = owner;

    if (part->begin != partition->end || part->end <= part->begin)
        abort();
    if (part->known &&
        part->space != ptd_image_space(partition->image, part->nr, part->vmcs, part->cr3))
        abort();
    partition->end = part->end;
    return PTD_OK;
}

static bool is_guest(void *owner, const struct ptd_part *part)
{
    (void)owner;
    return part->known && ptd_space_vm(part->space) != 0;
}

static void check_partition(const struct input *input, const struct guests *guests)
{
    struct partition partition = {.image = guests->image};
    struct ptd_range *ranges = NULL;
    int count;

    if (ptd_partition(input->trace, input->trace_bytes, guests->image, check_part, &partition) !=
            PTD_OK ||
        partition.end != input->trace_bytes)
        abort();
    count = ptd_partition_select(input->trace, input->trace_bytes, guests->image, is_guest, NULL,
                                 &ranges);
    check(count);
    for (int i = 0; i < count && input->how & HOW_ONLY; i++)
        decode(guests, input->trace + ranges[i].begin, ranges[i].end - ranges[i].begin);
    free(ranges);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    struct input input = {0};
    struct guests guests = {0};

    if (!build(&input, bytes, len_bytes))
        return 0;
    build_guests(&input, &guests);
    decode(&guests, input.trace, input.trace_bytes);
    compare_fast_ways(&input, &guests);
    check_partition(&input, &guests);
    free_guests(&guests);
    free(input.memory);
    free(input.trace);
    return 0;
}
