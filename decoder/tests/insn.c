/* SPDX-License-Identifier: BSD-3-Clause */
/* Instructions: classes (Table 33-1), lengths and targets in the three modes. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#include "ptdec.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define IP           0x401000u

#define M16 PTD_MODE_16
#define M32 PTD_MODE_32
#define M64 PTD_MODE_64

/* clang-format off */
static const struct {
    uint8_t mode, size_bytes, bytes[15], class;
    bool far_return;
    uint64_t target; /* 0: not direct */
} cases[] = {
    /* Conditional branches. */
    {M64, 2, {0x70, 0x10}, PTD_INSN_COND, false, IP + 0x12},
    {M64, 2, {0x7f, 0x80}, PTD_INSN_COND, false, IP + 2 - 0x80},
    {M64, 6, {0x0f, 0x8f, 0x00, 0x10, 0x00, 0x00}, PTD_INSN_COND, false, IP + 0x1006},
    {M64, 6, {0x0f, 0x80, 0xff, 0xff, 0xff, 0xff}, PTD_INSN_COND, false, IP + 5},
    {M64, 3, {0x2e, 0x74, 0x00}, PTD_INSN_COND, false, IP + 3},                 /* with a hint */
    {M64, 2, {0xe0, 0x00}, PTD_INSN_COND, false, IP + 2},                       /* LOOPNE */
    {M64, 2, {0xe1, 0x00}, PTD_INSN_COND, false, IP + 2},                       /* LOOPE */
    {M64, 2, {0xe2, 0xfe}, PTD_INSN_COND, false, IP},                           /* LOOP */
    {M64, 2, {0xe3, 0x00}, PTD_INSN_COND, false, IP + 2},                       /* JRCXZ */
    {M64, 3, {0x67, 0xe3, 0x00}, PTD_INSN_COND, false, IP + 3},                 /* JECXZ */
    {M16, 2, {0xe3, 0x00}, PTD_INSN_COND, false, IP + 2},                       /* JCXZ */
    /* Direct. */
    {M64, 2, {0xeb, 0xfe}, PTD_INSN_JMP_DIRECT, false, IP},
    {M64, 5, {0xe9, 0x00, 0x00, 0x00, 0x80}, PTD_INSN_JMP_DIRECT, false, 0xffffffff80401005},
    {M64, 5, {0xe8, 0x00, 0x00, 0x00, 0x00}, PTD_INSN_CALL_DIRECT, false, IP + 5},
    {M32, 5, {0xe9, 0x00, 0x00, 0x00, 0x80}, PTD_INSN_JMP_DIRECT, false, 0x80401005},
    {M32, 5, {0xe9, 0x00, 0xf0, 0xbf, 0xff}, PTD_INSN_JMP_DIRECT, false, 0x5},
    {M16, 3, {0xe9, 0x00, 0x10}, PTD_INSN_JMP_DIRECT, false, IP + 0x1003},
    {M16, 6, {0x66, 0xe9, 0x00, 0x10, 0x00, 0x00}, PTD_INSN_JMP_DIRECT, false, IP + 0x1006},
    /* Indirect. */
    {M64, 2, {0xff, 0xe0}, PTD_INSN_JMP_INDIRECT, false, 0},
    {M64, 6, {0xff, 0x25, 0, 0, 0, 0}, PTD_INSN_JMP_INDIRECT, false, 0},
    {M64, 3, {0x3e, 0xff, 0xe0}, PTD_INSN_JMP_INDIRECT, false, 0},              /* NOTRACK */
    {M64, 2, {0xff, 0xd0}, PTD_INSN_CALL_INDIRECT, false, 0},
    {M64, 3, {0x41, 0xff, 0xd3}, PTD_INSN_CALL_INDIRECT, false, 0},
    {M64, 1, {0xc3}, PTD_INSN_RET, false, 0},
    {M64, 2, {0xf3, 0xc3}, PTD_INSN_RET, false, 0},
    {M64, 3, {0xc2, 0x08, 0x00}, PTD_INSN_RET, false, 0},
    /* JMPABS, whose target is in the code, but is told by a TIP. */
    {M64, 11, {0xd5, 0x00, 0xa1, 8, 7, 6, 5, 4, 3, 2, 1}, PTD_INSN_JMP_INDIRECT, false, 0x102030405060708},
    {M64, 12, {0x3e, 0xd5, 0x77, 0xa1, 1, 0, 0, 0, 0, 0x80, 0xff, 0xff}, PTD_INSN_JMP_INDIRECT, false, 0xffff800000000001},
    /* Far. */
    {M64, 2, {0xff, 0x28}, PTD_INSN_FAR, false, 0},                             /* JMP m16:32 */
    {M64, 2, {0xff, 0x18}, PTD_INSN_FAR, false, 0},                             /* CALL m16:32 */
    {M32, 7, {0xea, 0, 0, 0, 0, 8, 0}, PTD_INSN_FAR, false, 0},
    {M32, 7, {0x9a, 0, 0, 0, 0, 8, 0}, PTD_INSN_FAR, false, 0},
    {M16, 5, {0xea, 0, 0, 8, 0}, PTD_INSN_FAR, false, 0},
    {M64, 1, {0xcb}, PTD_INSN_FAR, true, 0},
    {M64, 2, {0x48, 0xcb}, PTD_INSN_FAR, true, 0},
    {M64, 3, {0xca, 0x08, 0x00}, PTD_INSN_FAR, true, 0},
    {M64, 2, {0x0f, 0x05}, PTD_INSN_FAR, false, 0},                             /* SYSCALL */
    {M64, 2, {0x0f, 0x34}, PTD_INSN_FAR, false, 0},                             /* SYSENTER */
    {M64, 3, {0x48, 0x0f, 0x07}, PTD_INSN_FAR, true, 0},                        /* SYSRET */
    {M64, 3, {0x48, 0x0f, 0x35}, PTD_INSN_FAR, true, 0},                        /* SYSEXIT */
    {M64, 4, {0xf3, 0x0f, 0x01, 0xec}, PTD_INSN_FAR, true, 0},                  /* UIRET */
    {M64, 2, {0x0f, 0xaa}, PTD_INSN_FAR, true, 0},                              /* RSM */
    {M64, 1, {0xcf}, PTD_INSN_IRET, true, 0},
    {M64, 2, {0x48, 0xcf}, PTD_INSN_IRET, true, 0},
    {M16, 1, {0xcf}, PTD_INSN_IRET, true, 0},
    {M64, 4, {0xf2, 0x0f, 0x01, 0xca}, PTD_INSN_IRET, true, 0},                 /* ERETS */
    {M64, 4, {0xf3, 0x0f, 0x01, 0xca}, PTD_INSN_IRET, true, 0},                 /* ERETU */
    {M64, 7, {0xf2, 0x2e, 0xf3, 0x48, 0x0f, 0x01, 0xca}, PTD_INSN_IRET, true, 0},
    {M64, 2, {0xcd, 0x80}, PTD_INSN_INT, false, 0},
    {M64, 1, {0xcc}, PTD_INSN_INT, false, 0},
    {M64, 1, {0xf1}, PTD_INSN_INT, false, 0},
    {M32, 1, {0xce}, PTD_INSN_INT, false, 0},                                   /* INTO */
    {M64, 3, {0x0f, 0x01, 0xc2}, PTD_INSN_VMENTRY, false, 0},                   /* VMLAUNCH */
    {M64, 3, {0x0f, 0x01, 0xd8}, PTD_INSN_VMENTRY, false, 0},                   /* VMRUN */
    {M64, 3, {0x0f, 0x01, 0xc3}, PTD_INSN_VMENTRY, false, 0},                   /* VMRESUME */
    /* What PIP, VMCS and PTW bind to, and what only looks like it. */
    {M64, 3, {0x0f, 0xc7, 0x30}, PTD_INSN_VMPTRLD, false, 0},
    {M64, 4, {0x66, 0x0f, 0xc7, 0x30}, PTD_INSN_OTHER, false, 0},               /* VMCLEAR */
    {M64, 3, {0x0f, 0x22, 0xd8}, PTD_INSN_MOV_CR3, false, 0},
    {M64, 4, {0x41, 0x0f, 0x22, 0xd9}, PTD_INSN_MOV_CR3, false, 0},
    {M32, 3, {0x0f, 0x22, 0xd8}, PTD_INSN_MOV_CR3, false, 0},
    {M64, 3, {0x0f, 0x22, 0xc0}, PTD_INSN_MOV_CR0, false, 0},
    {M32, 3, {0x0f, 0x22, 0xc7}, PTD_INSN_MOV_CR0, false, 0},
    {M64, 4, {0x44, 0x0f, 0x22, 0xc0}, PTD_INSN_OTHER, false, 0},               /* MOV CR8 */
    {M64, 3, {0x0f, 0x22, 0xe0}, PTD_INSN_OTHER, false, 0},                     /* MOV CR4 */
    {M64, 3, {0x0f, 0x20, 0xc0}, PTD_INSN_OTHER, false, 0},                     /* MOV from CR0 */
    {M64, 3, {0x0f, 0x20, 0xd8}, PTD_INSN_OTHER, false, 0},                     /* MOV from CR3 */
    {M64, 2, {0x22, 0xd8}, PTD_INSN_OTHER, false, 0},                           /* AND */
    {M64, 4, {0xf3, 0x0f, 0xae, 0xe0}, PTD_INSN_PTWRITE, false, 0},
    {M64, 5, {0xf3, 0x48, 0x0f, 0xae, 0xe0}, PTD_INSN_PTWRITE, false, 0},
    /* No branches. */
    {M64, 1, {0x90}, PTD_INSN_OTHER, false, 0},
    {M64, 6, {0xc7, 0xf8, 0, 0, 0, 0}, PTD_INSN_OTHER, false, 0},               /* XBEGIN */
    {M64, 3, {0x0f, 0x01, 0xc1}, PTD_INSN_OTHER, false, 0},                     /* VMCALL */
    {M64, 2, {0x0f, 0x30}, PTD_INSN_OTHER, false, 0},                           /* WRMSR */
    {M64, 1, {0xf4}, PTD_INSN_OTHER, false, 0},                                 /* HLT */
    {M64, 4, {0xf3, 0x0f, 0x1e, 0xfa}, PTD_INSN_OTHER, false, 0},               /* ENDBR64 */
    {M64, 15, {0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90}, PTD_INSN_OTHER, false, 0},
};
/* clang-format on */

static void classes(void)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ptd_insn insn;
        const int status = ptd_insn_decode((enum ptd_mode)cases[i].mode, IP, cases[i].bytes,
                                           cases[i].size_bytes, &insn);

        CU_ASSERT_EQUAL(status, PTD_OK);
        if (status != PTD_OK || insn.iclass != cases[i].class || insn.target != cases[i].target)
            printf("\n    case %zu: status %d, class %u, target 0x%llx", i, status, insn.iclass,
                   (unsigned long long)insn.target);
        CU_ASSERT_EQUAL(insn.ip, IP);
        CU_ASSERT_EQUAL(insn.size_bytes, cases[i].size_bytes);
        CU_ASSERT_EQUAL(insn.iclass, cases[i].class);
        CU_ASSERT_EQUAL(insn.target, cases[i].target);
        CU_ASSERT_EQUAL(insn.far_return, cases[i].far_return);
        CU_ASSERT_EQUAL(insn.optional, cases[i].bytes[0] == 0xce);
    }
}

/* Near branches of 16-bit code wrap at 64 KiB, as far as the packets let us know. */
static void wrap(void)
{
    static const uint8_t jump[] = {0xeb, 0x10};
    struct ptd_insn insn;

    CU_ASSERT_EQUAL(ptd_insn_decode(M16, 0xfffe, jump, 2, &insn), PTD_OK);
    CU_ASSERT_EQUAL(insn.target, 0x10);
    CU_ASSERT_EQUAL(ptd_insn_decode(M16, 0xffffe, jump, 2, &insn), PTD_OK);
    CU_ASSERT_EQUAL(insn.target, 0x100010);
    CU_ASSERT_EQUAL(ptd_insn_decode(M32, 0xfffffffe, jump, 2, &insn), PTD_OK);
    CU_ASSERT_EQUAL(insn.target, 0x10);
    CU_ASSERT_EQUAL(ptd_insn_decode(M64, 0xfffffffffffffffe, jump, 2, &insn), PTD_OK);
    CU_ASSERT_EQUAL(insn.target, 0x10);
}

static void cut_off(void)
{
    struct ptd_insn insn;
    char text[64];

    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t len = 0; len < cases[i].size_bytes; len++) {
            /* A prefix of an instruction may be another one, but no longer. */
            if (ptd_insn_decode((enum ptd_mode)cases[i].mode, IP, cases[i].bytes, len, &insn) ==
                PTD_OK)
                CU_ASSERT_TRUE(insn.size_bytes <= len);
        }
    CU_ASSERT_EQUAL(ptd_insn_decode(M64, IP, "\xe8\0\0\0", 4, &insn), PTD_E_INSN);
    CU_ASSERT_EQUAL(ptd_insn_decode(M64, IP, "\x06", 1, &insn), PTD_E_INSN);
    CU_ASSERT_EQUAL(ptd_insn_decode((enum ptd_mode)7, IP, "\x90", 1, &insn), PTD_E_INSN);
    CU_ASSERT_EQUAL(ptd_insn_format(M64, IP, "\x06", 1, text, sizeof(text)), PTD_E_INSN);
    CU_ASSERT_EQUAL(ptd_insn_format(M64, IP, "\x90", 1, text, 0), PTD_E_ARG);
}

/* What only looks like an instruction of FRED or APX. */
static void not_newer(void)
{
    static const struct {
        uint8_t mode, size_bytes, bytes[15];
    } bad[] = {
        {M32, 4, {0xf2, 0x0f, 0x01, 0xca}},
        {M64, 4, {0x66, 0x0f, 0x01, 0xca}},
        {M64, 5, {0xf0, 0xf2, 0x0f, 0x01, 0xca}},
        {M64, 6, {0xf2, 0x48, 0x48, 0x0f, 0x01, 0xca}},
        {M64, 3, {0xf2, 0x0f, 0x01}},
        {M64, 11, {0xd5, 0x80, 0xa1, 0, 0, 0, 0, 0, 0, 0, 0}}, /* map 1 */
        {M64, 11, {0xd5, 0x08, 0xa1, 0, 0, 0, 0, 0, 0, 0, 0}}, /* W */
        {M64, 11, {0xd5, 0x00, 0xa2, 0, 0, 0, 0, 0, 0, 0, 0}},
        {M64, 12, {0xf3, 0xd5, 0x00, 0xa1, 0, 0, 0, 0, 0, 0, 0, 0}},
        {M64, 10, {0xd5, 0x00, 0xa1, 0, 0, 0, 0, 0, 0, 0}},
        {M64,
         15,
         {0xf2, 0xf2, 0xf2, 0xf2, 0xf2, 0xf2, 0xf2, 0xf2, 0xf2, 0xf2, 0xf2, 0xf2, 0xf2, 0xf2,
          0xf2}},
    };
    struct ptd_insn insn;
    char text[64];

    for (size_t i = 0; i < COUNT(bad); i++) {
        const enum ptd_mode mode = (enum ptd_mode)bad[i].mode;

        CU_ASSERT_EQUAL(ptd_insn_decode(mode, IP, bad[i].bytes, bad[i].size_bytes, &insn),
                        PTD_E_INSN);
        CU_ASSERT_EQUAL(ptd_insn_format(mode, IP, bad[i].bytes, bad[i].size_bytes, text, 64),
                        PTD_E_INSN);
    }
    /* Outside of 64-bit mode, D5 is AAD. */
    CU_ASSERT_EQUAL(ptd_insn_decode(M32, IP, "\xd5\0\xa1\0\0\0\0\0\0\0\0", 11, &insn), PTD_OK);
    CU_ASSERT_EQUAL(insn.size_bytes, 2);
    CU_ASSERT_EQUAL(insn.iclass, PTD_INSN_OTHER);
}

static void disassembly(void)
{
    char full[64], cut[4];

    CU_ASSERT_EQUAL(ptd_insn_format(M64, IP, "\xeb\xfe", 2, full, sizeof(full)), PTD_OK);
    CU_ASSERT_STRING_EQUAL(full, "jmp 0x0000000000401000");
    CU_ASSERT_EQUAL(ptd_insn_format(M32, IP, "\x89\xd8", 2, full, sizeof(full)), PTD_OK);
    CU_ASSERT_STRING_EQUAL(full, "mov eax, ebx");
    CU_ASSERT_EQUAL(ptd_insn_format(M32, IP, "\x89\xd8", 2, cut, sizeof(cut)), PTD_OK);
    CU_ASSERT_STRING_EQUAL(cut, "mov");
    CU_ASSERT_EQUAL(ptd_insn_format(M64, IP, "\xf2\x0f\x01\xca", 4, full, sizeof(full)), PTD_OK);
    CU_ASSERT_STRING_EQUAL(full, "erets");
    CU_ASSERT_EQUAL(ptd_insn_format(M64, IP, "\xf3\x0f\x01\xca", 4, full, sizeof(full)), PTD_OK);
    CU_ASSERT_STRING_EQUAL(full, "eretu");
    CU_ASSERT_EQUAL(
        ptd_insn_format(M64, IP, "\xd5\0\xa1\0\x10\x40\0\0\0\0\0", 11, full, sizeof(full)), PTD_OK);
    CU_ASSERT_STRING_EQUAL(full, "jmpabs 0x0000000000401000");
    CU_ASSERT_EQUAL(ptd_insn_format(M64, IP, "\xf3\x0f\x01\xca", 4, cut, sizeof(cut)), PTD_OK);
    CU_ASSERT_STRING_EQUAL(cut, "ere");
}

void add_insn_suite(void)
{
    CU_pSuite const suite = CU_add_suite("instructions", NULL, NULL);

    CU_add_test(suite, "classes of Table 33-1", classes);
    CU_add_test(suite, "wrapping targets", wrap);
    CU_add_test(suite, "cut off or bad", cut_off);
    CU_add_test(suite, "what only looks newer", not_newer);
    CU_add_test(suite, "disassembly", disassembly);
}
