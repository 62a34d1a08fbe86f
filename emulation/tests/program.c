/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random code and a walk through it; see program.h.
 *
 * No cycle of the code is free of packets: every function begins with a conditional branch, and
 * only conditional branches go backwards. Else the place of an interrupt could not be told.
 * A branch follows each MOV CR3: libipt takes PIP, TIP.PGD() for a MOV CR3 that ends tracing, even
 * if it was a far branch after it that did.
 */
#include "program.h"

#include <stdlib.h>
#include <string.h>

uint32_t draw(struct random *random, uint32_t below)
{
    random->state ^= random->state << 13;
    random->state ^= random->state >> 7;
    random->state ^= random->state << 17;
    return (uint32_t)((random->state >> 11) % below);
}

/* ---- Code ----------------------------------------------------------------------------------- */

static enum insn_kind draw_kind(struct random *random, bool kernel)
{
    uint32_t n = draw(random, 100);

    if (n < 40)
        return INSN_NOP;
    if (n < 62)
        return INSN_JCC;
    if (n < 67)
        return INSN_JMP;
    if (n < 76)
        return INSN_CALL;
    if (n < 78)
        return INSN_ZERO_CALL;
    if (n < 83)
        return INSN_CALL_IND;
    if (n < 86)
        return INSN_JMP_IND;
    if (n < 94)
        return INSN_RET;
    if (!kernel)
        return n < 98 ? INSN_SYSCALL : INSN_INT3;
    return n < 97 ? INSN_IRET : n < 98 ? INSN_SYSRET : INSN_MOV_CR3;
}

static uint8_t draw_length(struct random *random, enum insn_kind kind)
{
    switch (kind) {
    case INSN_NOP:
        return (uint8_t)(1 + draw(random, 9));
    case INSN_JCC:
        return 6;
    case INSN_JMP:
    case INSN_CALL:
    case INSN_ZERO_CALL:
        return 5;
    case INSN_RET:
        return draw(random, 4) ? 1 : 3;
    case INSN_JMP_IND:
    case INSN_CALL_IND:
    case INSN_SYSCALL:
    case INSN_IRET:
        return 2;
    case INSN_SYSRET:
    case INSN_MOV_CR3:
        return 3;
    case INSN_INT3:
        return 1;
    }
    return 1;
}

/* Lays functions out: where instructions begin, and what they are. */
static void lay_out(struct image *image, struct random *random, bool kernel)
{
    uint32_t offset = 0;
    size_t left = 0;

    image->insns = PROGRAM_INSNS;
    for (size_t i = 0; i < PROGRAM_INSNS; i++) {
        struct insn *insn = &image->insn[i];

        insn->kind = (uint8_t)draw_kind(random, kernel);
        if (insn->kind == INSN_ZERO_CALL && (left < 3 || i + 3 > PROGRAM_INSNS))
            insn->kind = INSN_NOP; /* no room for its pop */
        if (i + 1 == PROGRAM_INSNS) {
            insn->kind = INSN_RET;
            left = 1;
        } else if (left == 0) {
            image->function[image->functions++] = (uint16_t)i;
            left = 8 + draw(random, 50);
            insn->kind = INSN_JCC;
        } else if (i > 0 && image->insn[i - 1].kind == INSN_ZERO_CALL) {
            insn->kind = INSN_NOP; /* pop %rax */
        } else if (i > 0 && image->insn[i - 1].kind == INSN_MOV_CR3 && left > 1) {
            insn->kind = INSN_JCC;
        } else if (left == 1) {
            insn->kind = INSN_RET;
        }
        left--;
        insn->offset = offset;
        insn->len_bytes = draw_length(random, (enum insn_kind)insn->kind);
        if (i > 0 && image->insn[i - 1].kind == INSN_ZERO_CALL)
            insn->len_bytes = 1;
        offset += insn->len_bytes;
    }
    image->len_bytes = offset;
}

/* Where the function that holds i begins and ends. */
static void function_of(const struct image *image, size_t i, size_t *first, size_t *end)
{
    size_t f = image->functions;

    while (image->function[--f] > i)
        ;
    *first = image->function[f];
    *end = f + 1 < image->functions ? image->function[f + 1] : image->insns;
}

static void link(struct image *image, struct random *random)
{
    for (size_t i = 0; i < image->insns; i++) {
        struct insn *insn = &image->insn[i];
        size_t first, end;

        function_of(image, i, &first, &end);
        switch ((enum insn_kind)insn->kind) {
        case INSN_JCC:
            insn->target = (uint16_t)(first + draw(random, (uint32_t)(end - first)));
            break;
        case INSN_JMP: /* forward, or to the start of another function */
            insn->target = (uint16_t)(i + 1 + draw(random, (uint32_t)(end - i - 1)));
            if (draw(random, 8) == 0)
                insn->target = image->function[draw(random, (uint32_t)image->functions)];
            break;
        case INSN_CALL:
            insn->target = image->function[draw(random, (uint32_t)image->functions)];
            break;
        case INSN_ZERO_CALL:
            insn->target = (uint16_t)(i + 1);
            break;
        default:
            break;
        }
    }
}

static void put_rel32(uint8_t *bytes, uint32_t from, uint32_t to)
{
    uint32_t rel = to - from;

    memcpy(bytes, &rel, sizeof(rel));
}

static void encode(struct image *image, const struct insn *insn, bool after_zero_call)
{
    static const uint8_t nops[9][9] = {
        {0x90},
        {0x66, 0x90},
        {0x0f, 0x1f, 0x00},
        {0x0f, 0x1f, 0x40, 0x00},
        {0x0f, 0x1f, 0x44, 0x00, 0x00},
        {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
        {0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00},
        {0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
        {0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
    };
    static const uint8_t fixed[][3] = {
        [INSN_JMP_IND] = {0xff, 0xe0},       [INSN_CALL_IND] = {0xff, 0xd0},
        [INSN_SYSCALL] = {0x0f, 0x05},       [INSN_INT3] = {0xcc},
        [INSN_IRET] = {0x48, 0xcf},          [INSN_SYSRET] = {0x48, 0x0f, 0x07},
        [INSN_MOV_CR3] = {0x0f, 0x22, 0xd8},
    };
    uint8_t *bytes = image->code + insn->offset;
    uint32_t next = insn->offset + insn->len_bytes;

    switch ((enum insn_kind)insn->kind) {
    case INSN_NOP:
        memcpy(bytes, nops[insn->len_bytes - 1], insn->len_bytes);
        if (after_zero_call)
            bytes[0] = 0x58;
        break;
    case INSN_JCC:
        bytes[0] = 0x0f;
        bytes[1] = 0x80 | (insn->offset & 0xf);
        put_rel32(bytes + 2, next, image->insn[insn->target].offset);
        break;
    case INSN_JMP:
        bytes[0] = 0xe9;
        put_rel32(bytes + 1, next, image->insn[insn->target].offset);
        break;
    case INSN_CALL:
    case INSN_ZERO_CALL:
        bytes[0] = 0xe8;
        put_rel32(bytes + 1, next, image->insn[insn->target].offset);
        break;
    case INSN_RET:
        bytes[0] = insn->len_bytes == 1 ? 0xc3 : 0xc2;
        break;
    default:
        memcpy(bytes, fixed[insn->kind], insn->len_bytes);
        break;
    }
}

static void make_image(struct image *image, struct random *random, bool kernel)
{
    memset(image, 0, sizeof(*image));
    image->base = kernel ? KERNEL_BASE : USER_BASE;
    lay_out(image, random, kernel);
    link(image, random);
    for (size_t i = 0; i < image->insns; i++)
        encode(image, &image->insn[i], i > 0 && image->insn[i - 1].kind == INSN_ZERO_CALL);
}

void program_make(struct image *user, struct image *kernel, struct random *random)
{
    make_image(user, random, false);
    make_image(kernel, random, true);
}

/* ---- Walk ----------------------------------------------------------------------------------- */

static const struct image *here(const struct walk *walk)
{
    return walk->image[walk->kernel];
}

static uint64_t address(const struct image *image, size_t at)
{
    return image->base + image->insn[at].offset;
}

/* The index of the instruction at an address of the image. */
static size_t index_of(const struct image *image, uint64_t ip)
{
    size_t low = 0, high = image->insns;

    while (high - low > 1) {
        size_t middle = (low + high) / 2;

        if (address(image, middle) <= ip)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void walk_start(struct walk *walk, const struct image *user, const struct image *kernel,
                struct random *random)
{
    memset(walk, 0, sizeof(*walk));
    walk->image[0] = user;
    walk->image[1] = kernel;
    walk->random = random;
}

uint64_t walk_ip(const struct walk *walk)
{
    return address(here(walk), walk->at);
}

uint64_t walk_cr3(unsigned process)
{
    return 0x10000 + process * 0x5000;
}

struct vpt_context walk_context(const struct walk *walk)
{
    return (struct vpt_context){
        .cr3 = walk_cr3(walk->process), .cpl = walk->kernel ? 0 : 3, .exec_mode = VPT_EXEC_64};
}

enum insn_kind walk_kind(const struct walk *walk)
{
    return (enum insn_kind)here(walk)->insn[walk->at].kind;
}

static size_t random_function(const struct walk *walk)
{
    const struct image *image = here(walk);

    return image->function[draw(walk->random, (uint32_t)image->functions)];
}

static unsigned stack_of(const struct walk *walk)
{
    return walk->kernel ? PROCESSES : walk->process;
}

static void push(struct walk *walk, uint64_t ip)
{
    unsigned s = stack_of(walk);

    if (walk->calls[s].depth == WALK_STACK) {
        memmove(walk->calls[s].stack, walk->calls[s].stack + 1,
                (WALK_STACK - 1) * sizeof(uint64_t));
        walk->calls[s].depth--;
    }
    walk->calls[s].stack[walk->calls[s].depth++] = ip;
}

/* Where a RET goes: as a rule to the caller, now and then elsewhere. */
static uint64_t pop(struct walk *walk)
{
    unsigned s = stack_of(walk);
    bool honest = draw(walk->random, 40) != 0;

    if (walk->calls[s].depth > 0) {
        walk->calls[s].depth--;
        if (honest)
            return walk->calls[s].stack[walk->calls[s].depth];
    }
    return address(here(walk), draw(walk->random, (uint32_t)here(walk)->insns));
}

/* Into the kernel, with a frame to come back to. */
static void enter_kernel(struct walk *walk, size_t come_back)
{
    if (!walk->kernel)
        walk->resume[walk->process] = come_back;
    walk->frame[walk->frames].kernel = walk->kernel;
    walk->frame[walk->frames].at = come_back;
    walk->frames++;
    walk->kernel = true;
    walk->at = random_function(walk);
}

/* To the process that CR3 names. */
static void leave_kernel(struct walk *walk)
{
    walk->frames = 0;
    walk->kernel = false;
    walk->calls[PROCESSES].depth = 0;
    walk->at = walk->resume[walk->process];
}

static void tell_transfer(struct walk *walk, enum vpt_transfer_type type, uint64_t ip,
                          struct vpt_transfer *transfer)
{
    *transfer = (struct vpt_transfer){.type = type,
                                      .vector = 0x20,
                                      .ip = ip,
                                      .target = walk_ip(walk),
                                      .after = walk_context(walk)};
}

bool walk_interrupt(struct walk *walk, struct vpt_transfer *transfer)
{
    uint64_t ip = walk_ip(walk);
    bool fault = draw(walk->random, 3) == 0;

    if (walk->frames == WALK_FRAMES || draw(walk->random, 1024) >= walk->interrupts_per_1024)
        return false;
    enter_kernel(walk, walk->at);
    tell_transfer(walk, fault ? VPT_FAULT : VPT_INTERRUPT, ip, transfer);
    return true;
}

static void iret(struct walk *walk)
{
    if (walk->frames > 0 && walk->frame[walk->frames - 1].kernel)
        walk->at = walk->frame[--walk->frames].at;
    else
        leave_kernel(walk);
}

/* A far transfer by the instruction at ip, with the index next behind it. */
static void far_step(struct walk *walk, struct vpt_cpu *cpu, enum insn_kind kind, uint64_t ip,
                     size_t next)
{
    const enum vpt_transfer_type type = kind == INSN_INT3   ? VPT_SOFT_INTERRUPT
                                        : kind == INSN_IRET ? VPT_IRET
                                                            : VPT_FAR_BRANCH;
    struct vpt_transfer transfer;

    if (kind == INSN_IRET)
        iret(walk);
    else if (kind == INSN_SYSRET)
        leave_kernel(walk);
    else
        enter_kernel(walk, next);
    tell_transfer(walk, type, ip, &transfer);
    vpt_transfer(cpu, &transfer);
}

void walk_step(struct walk *walk, struct vpt_cpu *cpu)
{
    const struct image *image = here(walk);
    const struct insn *insn = &image->insn[walk->at];
    const uint64_t ip = walk_ip(walk), next_ip = ip + insn->len_bytes;
    const size_t next = walk->at + 1;

    walk->at = next;
    switch ((enum insn_kind)insn->kind) {
    case INSN_NOP:
        break;
    case INSN_JCC:
        if (draw(walk->random, 2))
            walk->at = insn->target;
        vpt_cond_branch(cpu, walk->at == next && insn->target != next ? next_ip : walk_ip(walk),
                        walk->at == insn->target);
        break;
    case INSN_JMP:
        walk->at = insn->target;
        vpt_jmp_direct(cpu, walk_ip(walk));
        break;
    case INSN_CALL:
        push(walk, next_ip);
        walk->at = insn->target;
        vpt_call_direct(cpu, walk_ip(walk), next_ip);
        break;
    case INSN_ZERO_CALL:
        vpt_call_direct(cpu, next_ip, next_ip);
        break;
    case INSN_JMP_IND:
        walk->at = draw(walk->random, (uint32_t)image->insns);
        vpt_jmp_indirect(cpu, walk_ip(walk));
        break;
    case INSN_CALL_IND:
        push(walk, next_ip);
        walk->at = random_function(walk);
        vpt_call_indirect(cpu, walk_ip(walk), next_ip);
        break;
    case INSN_RET:
        walk->at = index_of(image, pop(walk));
        vpt_ret(cpu, walk_ip(walk));
        break;
    case INSN_SYSCALL:
    case INSN_INT3:
    case INSN_IRET:
    case INSN_SYSRET:
        far_step(walk, cpu, (enum insn_kind)insn->kind, ip, next);
        break;
    case INSN_MOV_CR3:
        walk->process = draw(walk->random, PROCESSES);
        vpt_mov_cr3(cpu, walk_cr3(walk->process), next_ip);
        break;
    }
}

void list_add(struct list *list, uint64_t ip)
{
    if (list->count == list->size) {
        list->size = list->size ? 2 * list->size : 65536;
        list->ip = realloc(list->ip, list->size * sizeof(*list->ip));
        if (!list->ip)
            abort();
    }
    list->ip[list->count++] = ip;
}
