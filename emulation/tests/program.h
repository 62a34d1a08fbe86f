/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random x86-64 code that hangs together, and a walk through it: outcomes of branches are drawn,
 * not computed. Two user processes share the code at low addresses, a kernel lies in the high half.
 */
#ifndef VPT_TESTS_PROGRAM_H
#define VPT_TESTS_PROGRAM_H

#include "vpt.h"

#define PROGRAM_INSNS 1200
#define PROGRAM_CODE  (PROGRAM_INSNS * 9)
#define USER_BASE     0x401000ull
#define KERNEL_BASE   0xffffffff81000000ull
#define PROCESSES     2

enum insn_kind {
    INSN_NOP,
    INSN_JCC,
    INSN_JMP,
    INSN_CALL,
    INSN_ZERO_CALL, /* call to the next instruction, which pops */
    INSN_JMP_IND,
    INSN_CALL_IND,
    INSN_RET,
    INSN_SYSCALL, /* user */
    INSN_INT3,    /* user */
    INSN_IRET,    /* kernel */
    INSN_SYSRET,  /* kernel */
    INSN_MOV_CR3, /* kernel */
};

struct insn {
    uint32_t offset;
    uint8_t len_bytes;
    uint8_t kind;
    uint16_t target; /* index of the target, for direct branches */
};

struct image {
    uint64_t base;
    size_t len_bytes, insns, functions;
    uint8_t code[PROGRAM_CODE];
    struct insn insn[PROGRAM_INSNS];
    uint16_t function[PROGRAM_INSNS]; /* index of the first instruction of each */
};

struct random {
    uint64_t state;
};

uint32_t draw(struct random *random, uint32_t below);

/* Fills both images from a seed. */
void program_make(struct image *user, struct image *kernel, struct random *random);

#define WALK_STACK  64
#define WALK_FRAMES 8

/* Where execution stands. */
struct walk {
    const struct image *image[2]; /* user, kernel */
    struct random *random;
    bool kernel;
    size_t at; /* index in the image */
    unsigned process;
    struct {
        uint64_t stack[WALK_STACK]; /* return addresses; the oldest falls off */
        unsigned depth;
    } calls[PROCESSES + 1]; /* of the processes and of the kernel */
    size_t resume[PROCESSES];
    struct {
        bool kernel;
        size_t at;
    } frame[WALK_FRAMES];
    unsigned frames;
    unsigned interrupts_per_1024;
};

void walk_start(struct walk *walk, const struct image *user, const struct image *kernel,
                struct random *random);
uint64_t walk_ip(const struct walk *walk);
struct vpt_context walk_context(const struct walk *walk);
uint64_t walk_cr3(unsigned process);
/* Perhaps an interrupt or a fault instead of the next instruction. True: it came, *transfer says.
 */
bool walk_interrupt(struct walk *walk, struct vpt_transfer *transfer);
/* Executes one instruction and tells cpu. */
void walk_step(struct walk *walk, struct vpt_cpu *cpu);
/* The kind of the next instruction. */
enum insn_kind walk_kind(const struct walk *walk);

/* Addresses of instructions, in the order that they ran. */
struct list {
    uint64_t *ip;
    size_t count, size;
};
void list_add(struct list *list, uint64_t ip);

#endif
