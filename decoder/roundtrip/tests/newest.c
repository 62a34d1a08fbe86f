/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is newer than chapter 33, told by the model and read by the decoder: a program that jumps by
 * JMPABS and calls its kernel by FRED, with triggers that fire at any instruction. Which
 * instruction that was, and how many ran before it, is the truth.
 */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/program.h"
#include "ptdec.h"
#include "suites.h"

#define STEPS      40000u
#define FIRED      (STEPS / 2)
#define ROOM_BYTES (1u << 20)
#define CODE       0x401000u
#define SYSTEM     (CODE + 0x80) /* where SYSCALL leads */
#define INTERRUPT  (CODE + 0x90) /* and INT */
#define VECTOR     0x80u
#define CFE_SWINT  0x0e
#define CFE_SYSTEM 0x0f

/* clang-format off */
static const uint8_t code[] = {
    /* 00 */ 0x90,                                             /* nop */
    /* 01 */ 0x74, 0x03,                                       /* jz 6 */
    /* 03 */ 0xeb, 0x02,                                       /* jmp 7 */
    /* 05 */ 0xf4,                                             /* hlt */
    /* 06 */ 0x90,                                             /* nop */
    /* 07 */ 0xd5, 0x00, 0xa1, 0x20, 0x10, 0x40, 0, 0, 0, 0, 0, /* jmpabs 20 */
    [0x20] = 0xe8, 0x1b, 0, 0, 0,                              /* call 40 */
    /* 25 */ 0x0f, 0x05,                                       /* syscall */
    /* 27 */ 0xcd, VECTOR,                                     /* int 80 */
    /* 29 */ 0xff, 0xe0,                                       /* jmp rax */
    [0x40] = 0x90,                                             /* nop */
    /* 41 */ 0xc3,                                             /* ret */
    [0x80] = 0x90,                                             /* nop */
    /* 81 */ 0xf3, 0x0f, 0x01, 0xca,                           /* eretu */
    [0x90] = 0x90,                                             /* nop */
    /* 91 */ 0xf2, 0x0f, 0x01, 0xca,                           /* erets */
};
/* clang-format on */

struct fired {
    uint64_t ip, ran;
    bool attributed;
};

struct machine {
    struct vpt_cpu cpu;
    struct vpt_caps caps;
    struct random random;
    uint8_t *trace;
    size_t len;
    uint64_t ip, back, from_call;
    uint64_t ran;   /* instructions that a FUP of their own does not name */
    uint64_t insns; /* since what vpt_trigger() counts from */
    struct fired *fired;
    size_t fired_count;
};

static void translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    (void)owner;
    (void)gpa;
    (void)access;
    *span = (struct vpt_span){.kind = VPT_SPAN_UNBACKED, .len_bytes = len_bytes};
}

static void transport(void *owner, const uint8_t *bytes, uint32_t len_bytes)
{
    struct machine *const machine = owner;

    if (len_bytes <= ROOM_BYTES - machine->len) {
        memcpy(machine->trace + machine->len, bytes, len_bytes);
        machine->len += len_bytes;
    }
}

static void clocks(void *owner, struct vpt_clocks *now)
{
    const struct machine *const machine = owner;

    vpt_clocks_from_tsc(&machine->caps, 3 * machine->ran, now);
}

static const struct vpt_ops ops = {
    .translate = translate, .transport = transport, .clocks = clocks};

static struct vpt_context context_at(uint64_t ip)
{
    return (struct vpt_context){
        .cr3 = 0x1000, .cpl = ip < SYSTEM ? 3 : 0, .exec_mode = VPT_EXEC_64};
}

static void transfer(struct machine *machine, enum vpt_transfer_type type, uint64_t target)
{
    const struct vpt_transfer far = {.type = type,
                                     .vector = VECTOR,
                                     .ip = machine->ip,
                                     .target = target,
                                     .after = context_at(target)};

    vpt_transfer(&machine->cpu, &far);
    machine->ip = target;
    machine->insns = 0;
}

static void fire(struct machine *machine)
{
    struct vpt_trigger trigger = {.fired = (uint8_t)draw(&machine->random, 255),
                                  .attributed = draw(&machine->random, 8) > 0,
                                  .ip = machine->ip,
                                  .insns = machine->insns};

    vpt_trigger(&machine->cpu, &trigger);
    machine->fired[machine->fired_count++] =
        (struct fired){machine->ip, machine->ran, trigger.attributed};
    machine->insns = 0;
}

static void branch(struct machine *machine, const struct ptd_insn *insn)
{
    const uint64_t next = insn->ip + insn->size_bytes;
    const bool taken = draw(&machine->random, 2) > 0;
    struct vpt_cpu *const cpu = &machine->cpu;

    machine->insns = 0;
    switch (insn->iclass) {
    case PTD_INSN_COND:
        machine->ip = taken ? insn->target : next;
        vpt_cond_branch(cpu, machine->ip, taken);
        break;
    case PTD_INSN_JMP_INDIRECT:
        machine->ip = insn->target ? insn->target : CODE;
        vpt_jmp_indirect(cpu, machine->ip);
        break;
    case PTD_INSN_RET:
        machine->ip = machine->from_call;
        vpt_ret(cpu, machine->ip);
        break;
    case PTD_INSN_FAR:
        machine->back = next;
        transfer(machine, VPT_FRED_SYSCALL, SYSTEM);
        break;
    case PTD_INSN_INT:
        machine->back = next;
        transfer(machine, VPT_FRED_SOFT_INTERRUPT, INTERRUPT);
        break;
    default:
        transfer(machine, VPT_IRET, machine->back);
        break;
    }
}

static void step(struct machine *machine)
{
    const uint64_t offset = machine->ip - CODE;
    struct ptd_insn insn;

    if (ptd_insn_decode(PTD_MODE_64, machine->ip, code + offset, sizeof(code) - offset, &insn) !=
        PTD_OK)
        abort();
    machine->ran += insn.iclass != PTD_INSN_INT;
    machine->insns++;
    switch (insn.iclass) {
    case PTD_INSN_OTHER:
        machine->ip += insn.size_bytes;
        break;
    case PTD_INSN_JMP_DIRECT:
        machine->ip = insn.target;
        vpt_jmp_direct(&machine->cpu, insn.target);
        break;
    case PTD_INSN_CALL_DIRECT:
        machine->ip = insn.target;
        machine->from_call = insn.ip + insn.size_bytes;
        vpt_call_direct(&machine->cpu, insn.target, machine->from_call);
        break;
    default:
        branch(machine, &insn);
        break;
    }
}

/* Runs with these bits of RTIT_CTL besides those that it needs. */
static struct machine *run(uint64_t ctl, uint64_t seed)
{
    struct machine *const machine = calloc(1, sizeof(*machine));
    const struct vpt_context begin = context_at(CODE);

    machine->trace = malloc(ROOM_BYTES);
    machine->fired = calloc(FIRED, sizeof(*machine->fired));
    machine->random.state = seed;
    CU_ASSERT_TRUE(vpt_profile("future", &machine->caps));
    CU_ASSERT_TRUE(vpt_init(&machine->cpu, &machine->caps, &ops, machine));
    machine->ip = CODE;
    vpt_set_context(&machine->cpu, &begin);
    CU_ASSERT_EQUAL(vpt_wrmsr(&machine->cpu, VPT_MSR_CTL,
                              ctl | VPT_CTL_TRACEEN | VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_FABRICEN |
                                  VPT_CTL_BRANCHEN | VPT_CTL_EVENTEN,
                              CODE, CODE),
                    VPT_OK);
    for (unsigned i = 0; i < STEPS; i++) {
        if (draw(&machine->random, 6) == 0 && machine->fired_count < FIRED)
            fire(machine);
        step(machine);
    }
    vpt_flush_branches(&machine->cpu);
    return machine;
}

/* What the decoder found. */
struct found {
    size_t fired, counted, system_calls, interrupts;
    uint64_t ran;
    bool differs;
};

static void look_at(struct found *found, const struct machine *machine, const struct ptd_item *item)
{
    const struct fired *const want = &machine->fired[found->fired];

    if (item->type == PTD_ITEM_BLOCK)
        found->ran += item->insns;
    if (item->type == PTD_ITEM_ERROR)
        found->differs = true;
    if (item->type != PTD_ITEM_PACKET)
        return;
    found->system_calls += item->packet.type == PTD_CFE && item->packet.cfe.type == CFE_SYSTEM;
    found->interrupts += item->packet.type == PTD_CFE && item->packet.cfe.type == CFE_SWINT &&
                         item->packet.cfe.vector == VECTOR;
    if (item->packet.type != PTD_TRIG)
        return;
    found->differs = found->differs || found->fired == machine->fired_count ||
                     item->has_from != want->attributed ||
                     (item->has_from && (item->from != want->ip || found->ran != want->ran));
    found->counted += item->packet.trig.icnt > 0;
    found->fired++;
}

static void check(uint64_t ctl, uint64_t seed)
{
    struct ptd_image *const image = ptd_image_new();
    struct machine *const machine = run(ctl, seed);
    struct ptd_flow *flow;
    struct found found = {0};
    struct ptd_item item;

    (void)ptd_image_add_bytes(image, "code", CODE, code, sizeof(code), PTD_ANY_CR3);
    flow = ptd_flow_new(machine->trace, machine->len, image, NULL);
    while (!found.differs && ptd_flow_next(flow, &item) == PTD_OK)
        look_at(&found, machine, &item);
    CU_ASSERT_FALSE(found.differs);
    if (found.differs)
        printf("\n--- seed %llu, CTL %#llx: trigger %zu of %zu, offset %llx",
               (unsigned long long)seed, (unsigned long long)ctl, found.fired, machine->fired_count,
               (unsigned long long)item.offset);
    CU_ASSERT_EQUAL(found.fired, machine->fired_count);
    CU_ASSERT_TRUE(found.counted > 100 && found.system_calls > 100 && found.interrupts > 100);
    ptd_flow_free(flow);
    ptd_image_free(image);
    free(machine->trace);
    free(machine->fired);
    free(machine);
}

static void test_triggers(void)
{
    check(0, 1);
    check(VPT_CTL_DISRETC, 2);
    check(VPT_CTL_TSCEN | VPT_CTL_MTCEN | VPT_CTL_CYCEN, 3);
}

void add_newest_suite(void)
{
    CU_pSuite const suite = CU_add_suite("newest packets", NULL, NULL);

    CU_add_test(suite, "triggers, FRED and JMPABS", test_triggers);
}
