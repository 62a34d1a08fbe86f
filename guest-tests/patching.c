/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Code that one processor changes while another one runs it, in the order in which Linux changes a
 * static key: a breakpoint over the first byte, then the bytes behind it, then the first one. Not
 * the guest but its host is tested: what it tells of the code has to be what ran.
 *
 * Command line: rounds=NUMBER, of changes.
 */
#include "apic.h"
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "smp-tests-start.h"
#include "string.h"
#include "trap.h"

/* ---- The code ----------------------------------------------------------------------------- */

#define SITE_BYTES     5
#define BREAKPOINT     0xcc
#define TURNS          50
#define ROUNDS_DEFAULT 1000

/* patching-code.S. */
uint64_t patched(uint64_t turns);
extern uint8_t patched_site[], patched_far[];

static const uint8_t nop[SITE_BYTES] = {0x0f, 0x1f, 0x44, 0x00, 0x00};

static void jump(uint8_t to[SITE_BYTES])
{
    const uint32_t distance = (uint32_t)(patched_far - (patched_site + SITE_BYTES));

    to[0] = 0xe9;
    memcpy(to + 1, &distance, sizeof(distance));
}

/* ---- The processor that runs it ----------------------------------------------------------- */

_Alignas(16) uint8_t ap_stacks[2][AP_STACK_BYTES];

static struct trap_tables ap_tables;
static volatile uint64_t calls, jumps, breakpoints;
static volatile bool ends, ended;

/* Goes on behind the place, as if it were the NOP. */
static bool on_breakpoint(struct frame *frame)
{
    if (frame->rip != (uint64_t)patched_site + 1)
        return false;
    frame->rip += SITE_BYTES - 1;
    breakpoints++;
    return true;
}

_Noreturn void ap_main(uint32_t id)
{
    (void)id;
    trap_load_tables(&ap_tables);
    while (!ends) {
        jumps += patched(TURNS);
        calls++;
    }
    ended = true;
    for (;;)
        __asm__ volatile("cli; hlt" : : : "memory");
}

static void start_processor(void)
{
    memcpy(phys_to_virt(AP_PAGE), ap_code, (size_t)(ap_code_end - ap_code));
    apic_send(1, ICR_INIT | ICR_ASSERT);
    apic_send(1, ICR_SIPI | AP_PAGE >> 12);
}

/* ---- The processor that changes it -------------------------------------------------------- */

/* Until the other one has come by. */
static void wait_for_a_call(void)
{
    const uint64_t before = calls;

    while (calls < before + 2)
        __asm__ volatile("pause" : : : "memory");
}

/* The next change may come while the other one's host still translates what is here now. */
static void change(const uint8_t to[SITE_BYTES])
{
    volatile uint8_t *site = phys_to_virt(virt_to_phys(patched_site));

    site[0] = BREAKPOINT;
    wait_for_a_call();
    for (unsigned i = 1; i < SITE_BYTES; i++)
        site[i] = to[i];
    wait_for_a_call();
    site[0] = to[0];
}

int guest_main(void)
{
    uint64_t rounds = ROUNDS_DEFAULT;
    uint8_t jump_bytes[SITE_BYTES];

    boot_number("rounds", &rounds);
    trap_set_handler(VECTOR_BREAKPOINT, on_breakpoint);
    start_processor();
    wait_for_a_call();
    jump(jump_bytes);
    for (uint64_t i = 0; i < rounds; i++) {
        change(jump_bytes);
        if (i % 8 == 0)
            wait_for_a_call();
        change(nop);
    }
    ends = true;
    while (!ended)
        __asm__ volatile("pause" : : : "memory");
    printf("patching: %lu changes, %lu calls, %lu jumps, %lu breakpoints\n", 2 * rounds, calls,
           jumps, breakpoints);
    return jumps && breakpoints && jumps < calls * TURNS ? 0 : 1;
}
