/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the prediction of page faults: what an instruction accesses, by its bytes. */
#include "suites.h"
#include "kvm/predict.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#define P   1ull
#define W   2ull
#define U   4ull
#define ALL (P | W | U)

#define HOLE     0x50000ull /* not present */
#define READONLY 0x60000ull
#define GOOD     0x70000ull
#define NOFAULT  UINT64_MAX

/*
 * One row: code, the registers it uses, and the address of the fault that must be predicted. CPL 3.
 */
struct fault_case {
    const char *text;
    uint8_t code[16];
    uint64_t rax, rcx, rsi, rdi, rsp;
    uint64_t address;
    uint32_t error;
};

static const struct fault_case fault_cases[] = {
    {"nop", {0x90}, .address = NOFAULT},
    {"mov rcx, [rax]", {0x48, 0x8b, 0x08}, .rax = GOOD, .address = NOFAULT},
    {"mov rcx, [rax]", {0x48, 0x8b, 0x08}, .rax = HOLE + 8, .address = HOLE + 8, .error = 4},
    {"mov [rax], rcx", {0x48, 0x89, 0x08}, .rax = READONLY, .address = READONLY, .error = 7},
    {"mov rcx, [rax]", {0x48, 0x8b, 0x08}, .rax = READONLY, .address = NOFAULT},
    {"add [rax], rcx", {0x48, 0x01, 0x08}, .rax = READONLY, .address = READONLY, .error = 7},
    {"mov rcx, [rax]: over the edge",
     {0x48, 0x8b, 0x08},
     .rax = HOLE - 4,
     .address = HOLE,
     .error = 4},
    {"mov rcx, [rax+8*rcx+10h]",
     {0x48, 0x8b, 0x4c, 0xc8, 0x10},
     .rax = HOLE - 0x50,
     .rcx = 8,
     .address = HOLE,
     .error = 4},
    {"mov ecx, [eax]: 32-bit address",
     {0x67, 0x8b, 0x08},
     .rax = 0x100000000ull + HOLE,
     .address = HOLE,
     .error = 4},
    {"lea rcx, [rax]", {0x48, 0x8d, 0x08}, .rax = HOLE, .address = NOFAULT},
    {"mov [rax], rcx: over the edge into it",
     {0x48, 0x89, 0x08},
     .rax = READONLY - 1,
     .address = READONLY,
     .error = 7},
    {"mov rcx, [rax]: up to the edge", {0x48, 0x8b, 0x08}, .rax = HOLE - 8, .address = NOFAULT},
    {"movups xmm0, [rax]: over the edge",
     {0x0f, 0x10, 0x00},
     .rax = HOLE - 15,
     .address = HOLE,
     .error = 4},
    {"rep movsb, RCX 0, source and target good",
     {0xf3, 0xa4},
     .rsi = GOOD,
     .rdi = GOOD,
     .address = NOFAULT},
    {"push [rax]: the source", {0xff, 0x30}, .rax = HOLE, .address = HOLE, .error = 4},
    {"push [rax]: the stack",
     {0xff, 0x30},
     .rax = GOOD,
     .rsp = HOLE + 8,
     .address = HOLE,
     .error = 6},
    {"pushfq", {0x9c}, .rsp = HOLE + 8, .address = HOLE, .error = 6},
    {"call [rax]", {0xff, 0x10}, .rax = GOOD, .rsp = HOLE + 8, .address = HOLE, .error = 6},
    {"leave: by RBP, not RSP", {0xc9}, .rsp = HOLE, .address = NOFAULT},
    {"invlpg [rax]", {0x0f, 0x01, 0x38}, .rax = HOLE, .address = NOFAULT},
    {"fxsave [rax]: over the edge",
     {0x0f, 0xae, 0x00},
     .rax = HOLE - 0x1f0,
     .address = HOLE,
     .error = 6},
    {"nop [rax]", {0x0f, 0x1f, 0x00}, .rax = HOLE, .address = NOFAULT},
    {"prefetcht0 [rax]", {0x0f, 0x18, 0x08}, .rax = HOLE, .address = NOFAULT},
    {"push rax", {0x50}, .rsp = HOLE + 0x1000, .address = HOLE + 0xff8, .error = 6},
    {"push rax", {0x50}, .rsp = GOOD, .address = NOFAULT},
    {"pop rax", {0x58}, .rsp = HOLE, .address = HOLE, .error = 4},
    {"call $+5", {0xe8, 0, 0, 0, 0}, .rsp = HOLE + 8, .address = HOLE, .error = 6},
    {"ret", {0xc3}, .rsp = HOLE, .address = HOLE, .error = 4},
    {"jmp [rax]", {0xff, 0x20}, .rax = HOLE, .address = HOLE, .error = 4},
    {"movsb", {0xa4}, .rsi = HOLE, .rdi = GOOD, .address = HOLE, .error = 4},
    {"movsb", {0xa4}, .rsi = GOOD, .rdi = HOLE, .address = HOLE, .error = 6},
    {"rep movsb, RCX 0", {0xf3, 0xa4}, .rsi = HOLE, .rdi = HOLE, .address = NOFAULT},
    {"rep stosb", {0xf3, 0xaa}, .rcx = 1, .rdi = HOLE, .address = HOLE, .error = 6},
    {"cmpsb", {0xa6}, .rsi = GOOD, .rdi = HOLE, .address = HOLE, .error = 4},
    {"mov rax, [rax]: not canonical",
     {0x48, 0x8b, 0x00},
     .rax = 0x8000000000000000ull,
     .address = NOFAULT},
    {"movaps xmm0, [rax]", {0x0f, 0x28, 0x00}, .rax = HOLE, .address = HOLE, .error = 4},
    {"lock xadd [rax], ecx",
     {0xf0, 0x0f, 0xc1, 0x08},
     .rax = READONLY,
     .address = READONLY,
     .error = 7},
};

static void test_faults(void)
{
    struct fake *fake = fake_new();

    fake_identity_map(fake, ALL);
    fake_put(fake, 0x4000 + HOLE / PAGE_BYTES * 8, 0);
    fake_put(fake, 0x4000 + READONLY / PAGE_BYTES * 8, READONLY | P | U);
    vcpu_sregs(fake->cpu)->ss.dpl = 3;
    for (size_t i = 0; i < sizeof(fault_cases) / sizeof(fault_cases[0]); i++) {
        const struct fault_case *row = &fault_cases[i];
        struct kvm_regs *regs = vcpu_regs(fake->cpu);
        uint64_t address = 0;
        uint32_t error = 0;
        struct memops ops;
        bool fault;

        regs->rax = row->rax;
        regs->rcx = row->rcx;
        regs->rsi = row->rsi;
        regs->rdi = row->rdi;
        regs->rsp = row->rsp ? row->rsp : 0x8000;
        regs->rip = 0x20000;
        regs->rbp = GOOD;
        CU_ASSERT_TRUE_FATAL(memops_decode(row->code, sizeof(row->code), &ops));
        fault = predict_page_fault(fake->cpu, &ops, &address, &error);
        if (fault != (row->address != NOFAULT) ||
            (fault && (address != row->address || error != row->error))) {
            CU_FAIL("prediction");
            printf("\n    %s: %s at %#llx, error code %u", row->text, fault ? "fault" : "no fault",
                   (unsigned long long)address, error);
        }
    }
    fake_free(fake);
}

static void test_rip_relative(void)
{
    /* mov eax, [rip + 2fffah], 6 bytes, at 20000H: 50000H */
    static const uint8_t code[] = {0x8b, 0x05, 0xfa, 0xff, 0x02, 0x00};
    struct fake *fake = fake_new();
    uint64_t address = 0;
    uint32_t error;
    struct memops ops;

    fake_identity_map(fake, ALL);
    fake_put(fake, 0x4000 + HOLE / PAGE_BYTES * 8, 0);
    vcpu_regs(fake->cpu)->rip = 0x20000;
    CU_ASSERT_TRUE(memops_decode(code, sizeof(code), &ops));
    CU_ASSERT_TRUE(predict_page_fault(fake->cpu, &ops, &address, &error));
    CU_ASSERT_EQUAL(address, HOLE);
    fake_free(fake);
}

static void test_segments(void)
{
    static const uint8_t fs[] = {0x64, 0x8b, 0x00},
                         gs[] = {0x65, 0x8b, 0x00}; /* mov eax, fs:[rax] */
    struct fake *fake = fake_new();
    uint64_t address = 0;
    uint32_t error;
    struct memops ops;

    fake_identity_map(fake, ALL);
    fake_put(fake, 0x4000 + HOLE / PAGE_BYTES * 8, 0);
    vcpu_regs(fake->cpu)->rax = 0x10;
    vcpu_sregs(fake->cpu)->fs.base = HOLE;
    vcpu_sregs(fake->cpu)->gs.base = HOLE + 0x100;
    CU_ASSERT_TRUE(memops_decode(fs, sizeof(fs), &ops));
    CU_ASSERT_TRUE(predict_page_fault(fake->cpu, &ops, &address, &error));
    CU_ASSERT_EQUAL(address, HOLE + 0x10);
    CU_ASSERT_TRUE(memops_decode(gs, sizeof(gs), &ops));
    CU_ASSERT_TRUE(predict_page_fault(fake->cpu, &ops, &address, &error));
    CU_ASSERT_EQUAL(address, HOLE + 0x110);
    fake_free(fake);
}

/* What an instruction touches, next to 8 bytes at GOOD. */
static void test_touches(void)
{
    static const struct {
        uint8_t code[4];
        int rax, rsp; /* from GOOD */
        bool touches;
    } cases[] = {
        {{0x48, 0x8b, 0x08}, 0, 0x100, true},   /* mov rcx, [rax] */
        {{0x48, 0x8b, 0x08}, -8, 0x100, false}, /* just below */
        {{0x48, 0x8b, 0x08}, -7, 0x100, true},  /* one byte of it */
        {{0x48, 0x8b, 0x08}, 7, 0x100, true},   /* its last byte */
        {{0x48, 0x8b, 0x08}, 8, 0x100, false},  /* just above */
        {{0x8a, 0x08}, 3, 0x100, true},         /* mov cl, [rax] */
        {{0x50}, 0, 8, true},                   /* push rax */
        {{0x50}, 0, 0, false},                  /* below */
        {{0x50}, 0, 16, false},                 /* above */
        {{0x48, 0x8d, 0x08}, 0, 0, false},      /* lea rcx, [rax] */
        {{0x90}, 0, 0, false},
    };
    struct fake *fake = fake_new();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct memops ops;

        vcpu_regs(fake->cpu)->rax = GOOD + (uint64_t)(int64_t)cases[i].rax;
        vcpu_regs(fake->cpu)->rsp = GOOD + (uint64_t)(int64_t)cases[i].rsp;
        CU_ASSERT_TRUE_FATAL(memops_decode(cases[i].code, sizeof(cases[i].code), &ops));
        if (memops_touch(fake->cpu, &ops, GOOD, 8) != cases[i].touches) {
            CU_FAIL("touches");
            printf("\n    case %zu", i);
        }
    }
    fake_free(fake);
}

static void test_other_vectors(void)
{
    static const struct {
        uint8_t code[4], vector;
    } cases[] = {
        {{0x48, 0xf7, 0xf1}, 0},  /* div rcx */
        {{0xf7, 0xf9}, 0},        /* idiv ecx */
        {{0xd8, 0xc1}, 16},       /* fadd st, st(1) */
        {{0x0f, 0x58, 0xc1}, 19}, /* addps xmm0, xmm1 */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct memops ops;

        CU_ASSERT_TRUE_FATAL(memops_decode(cases[i].code, sizeof(cases[i].code), &ops));
        CU_ASSERT_EQUAL(ops.other_vector, cases[i].vector);
    }
}

/* Whatever the bytes: a value, and operands that the rest of the program can use. */
static void test_random_bytes(void)
{
    uint64_t random = 0x243f6a8885a308d3ull;
    struct fake *fake = fake_new();

    fake_identity_map(fake, ALL);
    for (unsigned i = 0; i < 50000; i++) {
        uint8_t code[16];
        struct memops ops;
        uint64_t address;
        uint32_t error;

        for (size_t j = 0; j < sizeof(code); j++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            code[j] = (uint8_t)(random >> 32);
        }
        vcpu_regs(fake->cpu)->rax = random;
        if (!memops_decode(code, i % 16, &ops))
            continue;
        CU_ASSERT_FATAL(ops.count <= MAX_MEMOPS);
        for (unsigned j = 0; j < ops.count; j++) {
            CU_ASSERT(ops.op[j].size_bytes > 0 && (ops.op[j].read || ops.op[j].write));
            CU_ASSERT(ops.op[j].base >= MEMOP_RIP && ops.op[j].base < 32);
            CU_ASSERT(ops.op[j].index >= MEMOP_NONE && ops.op[j].index < 32);
        }
        (void)predict_page_fault(fake->cpu, &ops, &address, &error);
        (void)memops_touch(fake->cpu, &ops, random, 8);
    }
    fake_free(fake);
}

static void test_not_instructions(void)
{
    static const uint8_t cut[] = {0x48}, bad[] = {0x06, 0x06};
    struct memops ops;

    CU_ASSERT_FALSE(memops_decode(cut, sizeof(cut), &ops));
    CU_ASSERT_FALSE(memops_decode(bad, sizeof(bad), &ops));
    CU_ASSERT_FALSE(memops_decode(cut, 0, &ops));
}

void add_predict_suite(void)
{
    CU_pSuite suite = CU_add_suite("page faults foreseen", NULL, NULL);

    CU_add_test(suite, "operands", test_faults);
    CU_add_test(suite, "relative to RIP", test_rip_relative);
    CU_add_test(suite, "FS and GS", test_segments);
    CU_add_test(suite, "memory that is touched", test_touches);
    CU_add_test(suite, "other exceptions", test_other_vectors);
    CU_add_test(suite, "random bytes", test_random_bytes);
    CU_add_test(suite, "bytes that are no instruction", test_not_instructions);
}
