/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What user programs have: three system calls, and their start.
 */
#ifndef GUEST_USER_H
#define GUEST_USER_H

#include <stddef.h>
#include <stdint.h>

/* Each program has one; its result is the exit status. crt.S calls it. */
int user_main(uint64_t rounds);

enum { SYSCALL_EXIT, SYSCALL_WRITE, SYSCALL_YIELD };

static inline uint64_t system_call(uint64_t number, uint64_t a, uint64_t b)
{
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b) : "rcx", "r11", "memory");
    return number;
}

static inline void print(const char *text)
{
    size_t len = 0;

    while (text[len])
        len++;
    system_call(SYSCALL_WRITE, (uint64_t)text, len);
}

static inline void yield(void)
{
    system_call(SYSCALL_YIELD, 0, 0);
}

/* An instruction that the kernel emulates: #UD and back. */
static inline void emulated_instruction(void)
{
    __asm__ volatile("ud2");
}

#endif
