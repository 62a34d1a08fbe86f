/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the SVM guests of svm-tests.c run: branches of every near kind, exits, and an end.
 */
#include "svm-tests.h"
#include "cpu.h"

static uint64_t add(uint64_t x)
{
    return x + 0x9e3779b97f4a7c15ull;
}
static uint64_t turn(uint64_t x)
{
    return x << 13 | x >> 51;
}
static uint64_t mix(uint64_t x)
{
    return x & 1 ? add(x) ^ x >> 7 : turn(x);
}

static uint64_t (*volatile const steps[])(uint64_t) = {add, turn, mix, add};

uint64_t svm_guest_work(uint64_t seed, unsigned rounds)
{
    uint64_t x = seed;

    for (unsigned i = 0; i < rounds; i++)
        x = steps[x >> 3 & 3](x) + i;
    return x;
}

static uint64_t vmmcall(uint64_t value)
{
    __asm__ volatile("vmmcall" : "+a"(value) : : "memory");
    return value;
}

_Noreturn static void end(void)
{
    for (;;)
        __asm__ volatile("hlt");
}

/* Work in parts, each handed over by VMMCALL, with a CPUID between them. */
_Noreturn void svm_guest_main(uint64_t seed)
{
    uint64_t x = seed;

    for (unsigned i = 0; i < GUEST_PARTS; i++) {
        x = svm_guest_work(x, GUEST_ROUNDS);
        cpuid(0, 0);
        vmmcall(x);
    }
    end();
}

/* Runs until it has been injected an event, whose handler calls, and then once more. */
_Noreturn void svm_guest_waits(void)
{
    for (;;)
        vmmcall(svm_guest_work(1, 8));
}

_Noreturn void svm_guest_faults(void)
{
    svm_guest_ud();
    end();
}

/* Branches enough for several PSBs of 2 KiB, and the time at the end. */
_Noreturn void svm_guest_times(void)
{
    svm_guest_work(1, GUEST_LONG);
    vmmcall(read_tsc());
    end();
}
