/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Near branches that were written down and are told together (vpt_branches()): the packets are
 * those of the inline functions of vpt.h, but results of conditional branches are taken by up to
 * eight at once (33.4.2.1), and what has to name the next instruction waits for vpt_boundary().
 */
#include "output.h"
#include "packets.h"
#include "processor.h"
#include "pt_packets.h"

#include <string.h>

#define AT_ONCE 8u   /* items of one byte, in a word */
#define END     0xff /* behind the last item */
/* Of a word of items: what is neither a branch that was taken nor one that was not. */
#define NO_RESULTS 0xfefefefefefefefeull

/* Before and behind the packets of an item. False: nothing is to be sent any more. */
static bool begin(struct vpt_cpu *cpu)
{
    if (cpu->buf_len > VPT_BUFFER_BYTES - VPT_EVENT_MAX_BYTES)
        vpt_make_room(cpu, VPT_EVENT_MAX_BYTES);
    return cpu->path == VPT_PATH_FAST;
}

static bool end(struct vpt_cpu *cpu)
{
    if (cpu->buf_len >= VPT_DRAIN_BYTES)
        vpt_output_drain(cpu);
    return cpu->path == VPT_PATH_FAST;
}

/* The lowest bits of so many bytes, at most 8; that of the lowest byte becomes the highest. */
static uint64_t lowest_bits(uint64_t bytes, unsigned count)
{
    /* Bit 8i lands at 63 - i, and the other products below 56, or beyond the word. */
    return (bytes << (64 - 8 * count)) * 0x8040201008040201ull >> 56;
}

/* The next 8 bytes, the first one lowest. A loop over them would cost more than all the rest. */
static uint64_t next_items(const uint8_t *log)
{
    uint64_t items;

    memcpy(&items, log, sizeof(items));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    items = __builtin_bswap64(items);
#endif
    return items;
}

/* There are at least as many results as a packet holds. */
__attribute__((noinline)) static bool fill(struct vpt_cpu *cpu, uint64_t tnt)
{
    while (tnt >= cpu->tnt_full) {
        const unsigned rest = (unsigned)(__builtin_clzll(cpu->tnt_full) - __builtin_clzll(tnt));
        const bool on = begin(cpu);

        cpu->tnt = tnt >> rest;
        vpt_emit_tnt(cpu);
        if (!end(cpu) || !on)
            return false;
        tnt = 1ull << rest | (tnt & ((1ull << rest) - 1));
    }
    cpu->tnt = tnt;
    return true;
}

/* Results of so many branches, at most 8; the youngest is bit 0. */
static inline bool results(struct vpt_cpu *cpu, uint64_t bits, unsigned count)
{
    const uint64_t tnt = cpu->tnt << count | bits;

    if (tnt >= cpu->tnt_full)
        return fill(cpu, tnt);
    cpu->tnt = tnt;
    return true;
}

static bool tip(struct vpt_cpu *cpu, uint64_t target)
{
    if (!begin(cpu))
        return false;
    vpt_emit_tip_deferrable(cpu, target);
    return end(cpu);
}

static bool ret(struct vpt_cpu *cpu, uint64_t target)
{
    if (vpt_ret_compresses(cpu, target)) {
        vpt_ret_pop(cpu);
        return results(cpu, 1, 1);
    }
    vpt_ret_clear(cpu);
    if (!begin(cpu))
        return false;
    vpt_emit_mode_exec(cpu);
    vpt_emit_ip(cpu, PT_TIP, target); /* it is not deferred with other TIPs (33.4.2.2) */
    return end(cpu);
}

/* An item with an address. False: nothing of what follows counts. */
static bool transfer(struct vpt_cpu *cpu, uint8_t item, uint64_t ip)
{
    switch (item) {
    case VPT_LOG_CALL:
        vpt_ret_push(cpu, ip);
        return true;
    case VPT_LOG_TIP:
        return tip(cpu, ip);
    case VPT_LOG_RET:
        return ret(cpu, ip);
    default:
        return false;
    }
}

void vpt_branches(struct vpt_cpu *cpu, uint8_t *log, size_t len_bytes)
{
    bool on = cpu->path == VPT_PATH_FAST;

    memset(log + len_bytes, END, VPT_LOG_ROOM);
    while (on) {
        const uint64_t items = next_items(log), others = items & NO_RESULTS;
        const unsigned count = others ? (unsigned)__builtin_ctzll(others) / 8 : AT_ONCE;

        if (count)
            on = results(cpu, lowest_bits(items, count), count);
        log += count;
        if (others && on) {
            uint64_t ip;

            memcpy(&ip, log + 1, sizeof(ip));
            on = transfer(cpu, *log, ip);
            log += 1 + sizeof(ip);
        }
    }
}

void vpt_boundary(struct vpt_cpu *cpu, uint64_t next_ip)
{
    vpt_end_event(cpu, next_ip);
}
