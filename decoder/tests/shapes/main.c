/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Instructions by their first bytes (code/shapes.h) against Zydis: instructions at random, every
 * opcode of every map with every prefix among them, and each again with another displacement and
 * immediate, so that what was remembered is told. In each mode, everything that is told must be
 * what ptd_insn_decode() tells. The same holds of each opcode of the first two maps in 64-bit code,
 * with each REX, ModRM and kind of SIB.
 *
 * usage: shapes [COUNT [SEED]] (10000000, 1): so many instructions at random are compared.
 * Ends with 'N passed, N failed', a case for each mode, and one for all registers; the first
 * failures are printed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code/insn.h"
#include "code/shapes.h"
#include "tests/support.h"

#define MODES   3
#define TAILS   3u /* instructions that begin alike */
#define PRINTED 10u

static uint64_t state;

static bool once_in(unsigned n)
{
    return next_random(&state) % n == 0;
}

static uint8_t one_of(const uint8_t *bytes, size_t count)
{
    return bytes[next_random(&state) % count];
}

static void put(uint8_t *bytes, size_t *len, uint8_t byte)
{
    if (*len < MAX_INSN_BYTES)
        bytes[(*len)++] = byte;
}

/* Prefixes, and what selects a map; opcode and all that follows is random. */
static void draw(uint8_t bytes[MAX_INSN_BYTES])
{
    static const uint8_t prefixes[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65,
                                       0x66, 0x67, 0xf0, 0xf2, 0xf3};
    static const uint8_t maps[] = {0x0f, 0x0f, 0x62, 0x8f, 0xc4, 0xc5, 0xd5};
    size_t len = 0;

    for (unsigned i = 0; i < MAX_INSN_BYTES; i++)
        bytes[i] = (uint8_t)(next_random(&state) >> 24);
    while (once_in(2) && len < 6)
        put(bytes, &len, one_of(prefixes, sizeof(prefixes)));
    if (once_in(3))
        put(bytes, &len, (uint8_t)(0x40 | (next_random(&state) >> 40 & 15)));
    if (once_in(2))
        return;
    put(bytes, &len, one_of(maps, sizeof(maps)));
    if (bytes[len - 1] == 0x0f && once_in(3))
        put(bytes, &len, once_in(2) ? 0x38 : 0x3a);
}

static bool same(const struct ptd_insn *want, const struct ptd_insn *got)
{
    return want->ip == got->ip && want->target == got->target && want->iclass == got->iclass &&
           want->size_bytes == got->size_bytes && want->far_return == got->far_return &&
           want->optional == got->optional && want->wraps == got->wraps;
}

/* False: it is not what Zydis says. *decoded: it is an instruction. */
static bool compare(struct shapes *shapes, enum ptd_mode mode, const uint8_t bytes[MAX_INSN_BYTES],
                    bool *decoded)
{
    const uint64_t ip = next_random(&state) >> (next_random(&state) & 63);
    const size_t len = once_in(8) ? next_random(&state) % MAX_INSN_BYTES : MAX_INSN_BYTES;
    struct ptd_insn want, got;
    const int wanted = ptd_insn_decode(mode, ip, bytes, len, &want);
    const int status = ptd_shapes_decode(shapes, mode, ip, bytes, len, &got);

    *decoded = wanted == PTD_OK;
    return wanted == status && (wanted != PTD_OK || same(&want, &got));
}

static void print(enum ptd_mode mode, const uint8_t bytes[MAX_INSN_BYTES])
{
    printf("shapes: mode %d:", (int)mode);
    for (unsigned i = 0; i < MAX_INSN_BYTES; i++)
        printf(" %02x", bytes[i]);
    printf("\n");
}

struct sums {
    uint64_t compared, insns, differ;
    unsigned failed; /* a bit for each mode, and for all registers */
};

static void check(struct shapes *shapes, enum ptd_mode mode, unsigned what,
                  const uint8_t bytes[MAX_INSN_BYTES], struct sums *sums)
{
    bool decoded;

    if (!compare(shapes, mode, bytes, &decoded)) {
        sums->failed |= 1u << what;
        if (sums->differ++ < PRINTED)
            print(mode, bytes);
    }
    sums->compared++;
    sums->insns += decoded;
}

/* One, and others that begin as it does. */
static void check_random(struct shapes *shapes, struct sums *sums)
{
    const enum ptd_mode mode = (enum ptd_mode)(next_random(&state) % MODES);
    uint8_t bytes[MAX_INSN_BYTES];

    draw(bytes);
    for (unsigned tail = 0; tail < TAILS; tail++) {
        struct ptd_insn insn;
        struct insn_parts parts;

        check(shapes, mode, mode, bytes, sums);
        if (ptd_insn_take_apart(mode, 0, bytes, MAX_INSN_BYTES, &insn, &parts) != PTD_OK)
            break;
        for (unsigned i = parts.head_bytes; i < MAX_INSN_BYTES; i++)
            bytes[i] = (uint8_t)(next_random(&state) >> 24);
    }
}

/* An opcode of 64-bit code with each REX, and without one, each ModRM and two kinds of SIB. */
static void check_registers(struct shapes *shapes, bool is_two, uint8_t opcode, struct sums *sums)
{
    static const uint8_t sibs[] = {0x24, 0x25}; /* a base of 5 may be a displacement */

    for (unsigned rex = 0x3f; rex < 0x50; rex++) {
        for (unsigned form = 0; form < 256 * sizeof(sibs); form++) {
            uint8_t bytes[MAX_INSN_BYTES] = {0};
            size_t len = 0;

            if (rex >= 0x40)
                put(bytes, &len, (uint8_t)rex);
            if (is_two)
                put(bytes, &len, 0x0f);
            put(bytes, &len, opcode);
            put(bytes, &len, (uint8_t)(form & 255));
            put(bytes, &len, sibs[form / 256]);
            check(shapes, PTD_MODE_64, MODES, bytes, sums);
        }
    }
}

int main(int argc, char **argv)
{
    const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
    struct shapes *const shapes = ptd_shapes_new();
    struct sums sums = {0};
    int failed;

    state = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1) * 2654435761u + 88172645463325252u;
    if (!shapes)
        return 1;
    while (sums.compared < count)
        check_random(shapes, &sums);
    for (unsigned opcode = 0; opcode < 2 * 256; opcode++)
        check_registers(shapes, opcode >= 256, (uint8_t)opcode, &sums);
    ptd_shapes_free(shapes);
    failed = __builtin_popcount(sums.failed);
    printf("shapes: %" PRIu64 " compared, %" PRIu64 " of them instructions; %" PRIu64 " differ\n",
           sums.compared, sums.insns, sums.differ);
    printf("%d passed, %d failed\n", MODES + 1 - failed, failed);
    return failed != 0;
}
