/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * User processes: loaded from ELF files in the image, each in its own address space and with its
 * own kernel stack, taking turns by timer interrupts and system calls.
 */
#ifndef GUEST_PROCESS_H
#define GUEST_PROCESS_H

#include <stddef.h>
#include <stdint.h>

/* System calls, see user/user.h. */
enum { SYSCALL_EXIT, SYSCALL_WRITE, SYSCALL_YIELD };

struct process_stats {
    uint64_t timer_interrupts, switches, system_calls, page_faults, invalid_opcodes;
};

/*
 * Loads the ELF file at elf as a new process, which will get `argument` in RDI. Ends the guest if
 * the file is no good.
 */
void process_create(const char *name, const char *image, const void *elf, size_t elf_bytes,
                    uint64_t argument);

/* Announces every process to the host by a note. */
void process_announce(void);

/*
 * Runs all processes to their ends, with a timer interrupt every timer_ticks. The number of
 * processes that ended with a status other than 0, or by a fault.
 */
unsigned process_run_all(uint32_t timer_ticks);

/* Called on each timer interrupt and system call, while the kernel runs; NULL: nothing. */
void process_set_hook(void (*hook)(void));

const struct process_stats *process_stats(void);

#endif
