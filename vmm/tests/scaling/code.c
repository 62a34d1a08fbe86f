/* SPDX-License-Identifier: BSD-3-Clause */
/* Code and names: what files say of them, and tables that a file could fill at one place. */
#include "cases.h"
#include "input.h"
#include "ptdec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACTOR  0x9e3779b97f4a7c15u /* of many hashes */
#define INVERSE 0xf1de83e19937733du /* of that, modulo 2^64 */
#define VADDR   0x400000u

static struct input read_input(const char *folder, const char *name)
{
    char path[512];
    struct input input = {0};
    uint8_t bytes[4096];
    FILE *file;
    size_t got;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rb");
    while (file && (got = fread(bytes, 1, sizeof(bytes), file)) > 0)
        put(&input, bytes, got);
    if (file)
        (void)fclose(file);
    return input;
}

/* Decodes all of a trace, block by block or in bulk. */
static bool decode(const struct input *trace, const struct ptd_image *image, bool in_bulk)
{
    struct ptd_flow *const flow = ptd_flow_new(trace->bytes, trace->len, image, NULL);
    uint32_t steps[4096];
    struct ptd_run run = {.steps = steps, .room = 4096};
    struct ptd_item item;
    int status = PTD_OK;

    while (flow && status == PTD_OK)
        status = in_bulk ? ptd_flow_run(flow, &run) : ptd_flow_next(flow, &item);
    ptd_flow_free(flow);
    return flow && status == PTD_END;
}

/* ---- A code log ---- */

/* A page of each address space, so that space ^ page << 8 is always the same. */
static bool make_log(const char *folder, unsigned size)
{
    struct input log = {0}, trace = {0};

    put_text(&log, "vptcode1");
    for (uint64_t i = 0; i < size; i++) {
        put_number(&log, 0, 8);
        put_number(&log, i << 20, 8);
        put_number(&log, i << 12, 8);
        put_number(&log, 0, 8);
    }
    put_psb(&trace);
    put_ip(&trace, OPCODE_PGE, VADDR);
    return put_file(&log, folder, "log") && put_file(&trace, folder, "trace");
}

static bool run_log(const char *folder)
{
    struct input log = read_input(folder, "log"), trace = read_input(folder, "trace");
    struct ptd_image *const image = ptd_image_new();
    const bool ok = image && ptd_image_add_code_log(image, log.bytes, log.len) == PTD_OK &&
                    decode(&trace, image, false);

    ptd_image_free(image);
    free(log.bytes);
    free(trace.bytes);
    return ok;
}

/* One byte is another one with each packet. */
static bool make_changes(const char *folder, unsigned size)
{
    struct input log = {0}, trace = {0};

    put_text(&log, "vptcode1");
    for (unsigned i = 0; i < 3; i++) /* the page is where it is */
        put_number(&log, i == 2 ? VADDR : 0, 8);
    put_number(&log, VADDR, 8);
    put_psb(&trace);
    put_ip(&trace, OPCODE_PGE, VADDR);
    for (unsigned i = 0; i < size; i++) {
        put_number(&log, trace.len, 8);
        put_number(&log, UINT64_MAX, 8);
        put_number(&log, VADDR, 8);
        put_number(&log, 3, 8);
        put_number(&log, i & 1 ? 0xe0ff90 : 0xe1ff90, 8); /* nop; jmp */
        put_ip(&trace, OPCODE_TIP, VADDR);
    }
    return put_file(&log, folder, "log") && put_file(&trace, folder, "trace");
}

/* ---- Blocks ---- */

/* What the IP and the CR3 are combined to is always the same. */
static uint64_t block_ip(uint64_t i)
{
    return VADDR ^ i << 32;
}

static bool make_blocks(const char *folder, unsigned size)
{
    struct input trace = {0}, ips = {0};

    put_psb(&trace);
    for (uint64_t i = 0; i < size; i++) {
        put_pip(&trace, i << 12, false);
        put_ip(&trace, OPCODE_PGE, block_ip(i));
        put_number(&trace, OPCODE_PGD, 1);
        put_number(&ips, block_ip(i), 8);
    }
    return put_file(&trace, folder, "trace") && put_file(&ips, folder, "ips");
}

/* Addresses whose products have the same upper bits. */
static bool make_nodes(const char *folder, unsigned size)
{
    struct input trace = {0}, ips = {0};

    put_psb(&trace);
    for (uint64_t i = 1; i <= size; i++) {
        const uint64_t ip = (i << 10) * INVERSE;

        put_ip(&trace, i == 1 ? OPCODE_PGE : OPCODE_TIP, ip);
        put_number(&ips, ip, 8);
    }
    return put_file(&trace, folder, "trace") && put_file(&ips, folder, "ips");
}

/* An indirect jump at each address. */
static struct ptd_image *image_of(const struct input *ips)
{
    struct ptd_image *const image = ptd_image_new();

    for (size_t at = 0; image && at + 8 <= ips->len; at += 8) {
        uint64_t ip;

        memcpy(&ip, ips->bytes + at, sizeof(ip));
        (void)ptd_image_add_bytes(image, NULL, ip, "\xff\xe0", 2, PTD_ANY_CR3);
    }
    return image;
}

static bool run_code(const char *folder, bool in_bulk)
{
    struct input trace = read_input(folder, "trace"), ips = read_input(folder, "ips");
    struct ptd_image *const image = image_of(&ips);
    const bool ok = image && decode(&trace, image, in_bulk);

    ptd_image_free(image);
    free(trace.bytes);
    free(ips.bytes);
    return ok;
}

static bool run_blocks(const char *folder)
{
    return run_code(folder, false);
}

static bool run_nodes(const char *folder)
{
    return run_code(folder, true);
}

/* ---- Images ---- */

static bool make_number(const char *folder, unsigned size)
{
    struct input number = {0};

    put_number(&number, size, 4);
    return put_file(&number, folder, "number");
}

/* Named pieces of code, each in front of the one before, as it is the worst for a list. */
static bool run_pieces(const char *folder)
{
    struct input number = read_input(folder, "number");
    struct ptd_image *const image = ptd_image_new();
    uint32_t count = 0;
    bool ok = image != NULL;

    if (number.len == sizeof(count))
        memcpy(&count, number.bytes, sizeof(count));
    for (uint64_t i = count; ok && i-- > 0;)
        ok = ptd_image_add_bytes(image, "piece", VADDR + i * 16, "\x90\xc3", 2, PTD_ANY_CR3) ==
                 PTD_OK &&
             ptd_image_symbol(image, 0, VADDR + i * 16, NULL) != NULL;
    ptd_image_free(image);
    free(number.bytes);
    return ok;
}

static bool make_kallsyms(const char *folder, unsigned size)
{
    struct input file = {0};

    for (unsigned i = size; i-- > 0;)
        put_text(&file, "ffffffff81%06x t f%u\nffffffff81%06x T g%u\n", i, i, i, i);
    return put_file(&file, folder, "kallsyms");
}

static bool run_kallsyms(const char *folder)
{
    char path[512];
    struct ptd_image *const image = ptd_image_new();
    bool ok;

    (void)snprintf(path, sizeof(path), "%s/kallsyms", folder);
    ok = image && ptd_image_add_kallsyms(image, path, PTD_ANY_CR3) == PTD_OK;
    ptd_image_free(image);
    return ok;
}

static bool make_names(const char *folder, unsigned size)
{
    struct input file = {0};

    put_elf(&file, VADDR, "\xc3", 1, 1, size);
    return put_file(&file, folder, "elf");
}

static bool make_segments(const char *folder, unsigned size)
{
    struct input file = {0};
    static const char code[8192];

    put_elf(&file, VADDR, code, 1, size, 1);
    put(&file, code, sizeof(code)); /* a file may load as many bytes as it has */
    return put_file(&file, folder, "elf");
}

static bool run_elf(const char *folder)
{
    char path[512];
    struct ptd_image *const image = ptd_image_new();
    bool ok;

    (void)snprintf(path, sizeof(path), "%s/elf", folder);
    ok = image && ptd_image_add_elf(image, path, 0, PTD_ANY_CR3) == PTD_OK;
    ptd_image_free(image);
    return ok;
}

/* ---- Address spaces and VMs ---- */

static bool make_spaces(const char *folder, unsigned size)
{
    struct input trace = {0}, ips = {0};

    put_psb(&trace);
    for (uint64_t i = 0; i < size; i++) {
        put_pip(&trace, (size - i) << 12, false);
        put_ip(&trace, OPCODE_PGE, VADDR);
        put_number(&trace, OPCODE_PGD, 1);
    }
    put_number(&ips, VADDR, 8);
    return put_file(&trace, folder, "trace") && put_file(&ips, folder, "ips");
}

static bool make_vms(const char *folder, unsigned size)
{
    struct input map = {0}, trace = {0};

    put_text(&map, "{ \"vms\": [ { \"name\": \"vm\", \"vmcs\": [ ");
    put_psb(&trace);
    for (uint64_t i = 1; i <= size; i++) {
        put_text(&map, "%s\"0x%llx000\"", i > 1 ? ", " : "", (unsigned long long)i);
        put_pip(&trace, 0x1000, true);
        put_vmcs(&trace, i << 12);
        put_tsc(&trace, i << 8);
        put_ip(&trace, OPCODE_PGE, VADDR);
        put_number(&trace, OPCODE_PGD, 1);
    }
    put_text(&map, " ], \"processes\": [ ");
    for (unsigned i = size; i-- > 0;)
        put_text(&map, "{ \"cr3\": \"0x%x000\", \"name\": \"p\" }%s", i + 1, i ? ", " : "");
    put_text(&map, " ] } ] }");
    return put_file(&map, folder, "map") && put_file(&trace, folder, "trace");
}

const struct scaling_case code_cases[] = {
    {"code log: all pages in one slot", 10000, true, make_log, run_log, {NULL}},
    {"code log: a change at each packet", 4000, false, make_changes, run_log, {NULL}},
    {"blocks in one slot", 3000, true, make_blocks, run_blocks, {NULL}},
    {"nodes in one list", 6000, true, make_nodes, run_nodes, {NULL}},
    {"pieces of code, downwards", 6000, true, make_number, run_pieces, {NULL}},
    {"kallsyms, downwards, two names each", 8000, false, make_kallsyms, run_kallsyms, {NULL}},
    {"ELF: symbols of one address", 10000, true, make_names, run_elf, {NULL}},
    {"ELF: segments, downwards", 5000, false, make_segments, run_elf, {NULL}},
    {"address spaces", 3000, false, make_spaces, run_nodes, {NULL}},
    {"map: VMCSs and processes, parts",
     2000,
     true,
     make_vms,
     NULL,
     {"parts", "--map", "@map", "@trace"}},
    {"map: VMCSs and processes, flow",
     1000,
     false,
     make_vms,
     NULL,
     {"decode", "--map", "@map", "--format", "folded", "@trace"}},
    {0},
};
