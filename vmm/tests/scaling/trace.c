/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces: packets that make a decoder look, walk, remember or fail again and again. */
#include "cases.h"
#include "input.h"

#include <stdlib.h>
#include <string.h>

#define VADDR 0x400000u

/* TRACE and CODE, an ELF file with these bytes at VADDR. */
static bool put_both(struct input *trace, const void *code, size_t code_bytes, const char *folder)
{
    struct input elf = {0};

    put_elf(&elf, VADDR, code, code_bytes, 1, 1);
    return put_file(trace, folder, "trace") && put_file(&elf, folder, "elf");
}

/* Jumps from one to the next, so that each is a block. */
static bool make_blocks(const char *folder, unsigned size)
{
    struct input trace = {0}, code = {0};
    bool ok;

    for (unsigned i = 0; i < size; i++)
        put(&code, "\xeb\x00", 2);
    put(&code, "\xff\xe0", 2);
    put_psb(&trace);
    put_ip(&trace, OPCODE_PGE, VADDR);
    put_ip(&trace, OPCODE_TIP, VADDR);
    ok = put_both(&trace, code.bytes, code.len, folder);
    free(code.bytes);
    return ok;
}

/* A loop that no packet ends, behind each PSB. */
static bool make_loops(const char *folder, unsigned size)
{
    struct input trace = {0};

    for (unsigned i = 0; i < size; i++) {
        put_psb(&trace);
        put_ip(&trace, OPCODE_PGE, VADDR);
        put_number(&trace, 0x06, 1); /* TNT */
    }
    return put_both(&trace, "\xeb\xfe", 2, folder);
}

/* A function that calls itself as long as a branch is not taken. */
static bool make_calls(const char *folder, unsigned size)
{
    struct input trace = {0};

    put_psb(&trace);
    put_ip(&trace, OPCODE_PGE, VADDR);
    for (unsigned i = 0; i < size / 6 + 1; i++)
        put_number(&trace, 0x80, 1); /* TNT: six are not taken */
    put_number(&trace, 0x06, 1);     /* taken */
    return put_both(&trace, "\x74\x05\xe8\xf9\xff\xff\xff\xc3", 8, folder);
}

static bool make_psbs(const char *folder, unsigned size)
{
    struct input trace = {0};

    for (unsigned i = 0; i < size; i++) {
        put_psb(&trace);
        put_tsc(&trace, i);
    }
    return put_both(&trace, "\xc3", 1, folder);
}

/* PSBs whose PSB+ has no end, and overflows that never say where it goes on. */
static bool make_searches(const char *folder, unsigned size)
{
    struct input trace = {0};

    put_psb(&trace);
    for (unsigned i = 0; i < size; i++) {
        put(&trace, "\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82", 16);
        put(&trace, "\2\xf3\2\xf3\x59\x11\x59\x12\2\3\x1f\0", 12); /* OVF, OVF, MTC, MTC, CBR */
    }
    return put_both(&trace, "\xc3", 1, folder);
}

/* Bytes that are no packets. */
static bool make_errors(const char *folder, unsigned size)
{
    struct input trace = {0};

    for (unsigned i = 0; i < size; i++) {
        put_psb(&trace);
        put(&trace, "\2\xff\x02\xfe\xd9\xff", 6);
        put_ip(&trace, OPCODE_TIP, VADDR);
    }
    return put_both(&trace, "\xc3", 1, folder);
}

/* Half a PSB, again and again. */
static bool make_half_psbs(const char *folder, unsigned size)
{
    struct input trace = {0};

    put(&trace, "\2\xff", 2);
    for (unsigned i = 0; i < size; i++)
        put(&trace, "\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2", 15);
    put_psb(&trace);
    return put_both(&trace, "\xc3", 1, folder);
}

/* A clock that goes back and forth. */
static bool make_times(const char *folder, unsigned size)
{
    struct input trace = {0};

    put_psb(&trace);
    for (unsigned i = 0; i < size; i++) {
        put_tsc(&trace, i & 1 ? UINT64_C(1) << 50 : i);
        put(&trace, "\x59\x11\x0b\x59\x80\2\3\x1f\0", 9); /* MTC, CYC, MTC, CBR */
    }
    return put_both(&trace, "\xc3", 1, folder);
}

/* One file, as often as TRACE.json names it. */
static bool make_images(const char *folder, unsigned size)
{
    struct input json = {0}, trace = {0};

    put_text(&json, "{ \"vpt\": 1, \"images\": [ ");
    for (unsigned i = 0; i < size; i++)
        put_text(&json, "%s{ \"path\": \"elf\", \"bias\": %u }", i ? ", " : "", (size - i) * 4096);
    put_text(&json, " ] }");
    put_psb(&trace);
    return put_file(&json, folder, "trace.json") && put_both(&trace, "\xc3", 1, folder);
}

#define DECODE(view)                                                                               \
    {                                                                                              \
        "decode", view, "--image", "@elf", "@trace"                                                \
    }

const struct scaling_case trace_cases[] = {
    {"trace: blocks", 20000, false, make_blocks, NULL, DECODE("--blocks")},
    {"trace: endless loops", 2000, false, make_loops, NULL, DECODE("--blocks")},
    {"trace: deep calls", 6000, true, make_calls, NULL, DECODE("--calls")},
    {"trace: deep calls, chrome", 6000, false, make_calls, NULL, DECODE("--format=chrome")},
    {"trace: deep calls, callgrind", 6000, false, make_calls, NULL, DECODE("--format=callgrind")},
    {"trace: PSBs, flow", 4000, false, make_psbs, NULL, DECODE("--blocks")},
    {"trace: PSBs, index", 4000, false, make_psbs, NULL, {"index", "@trace"}},
    {"trace: PSBs, parts", 4000, false, make_psbs, NULL, {"parts", "@trace"}},
    {"trace: searches ahead", 3000, true, make_searches, NULL, DECODE("--blocks")},
    {"trace: errors", 3000, false, make_errors, NULL, DECODE("--blocks")},
    {"trace: errors, dump", 3000, false, make_errors, NULL, {"dump", "@trace"}},
    {"trace: halves of PSBs", 20000, false, make_half_psbs, NULL, DECODE("--blocks")},
    {"trace: times", 5000, false, make_times, NULL, DECODE("--format=perf")},
    {"trace: one image many times", 500, false, make_images, NULL, {"decode", "@trace"}},
    {0},
};
