/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the guests of a hostile VMM run: instructions that may exit, fault, switch or loop, with any
 * operands, in any order, and bytes that need not be instructions.
 */
#include "memory.h"
#include "vmx-hostile.h"

#define INSN_BYTES 10

/* The bytes, and how many more follow that may have any value. */
static const struct {
    uint8_t len, any;
    uint8_t bytes[INSN_BYTES];
} insns[] = {
    {2, 0, {0x0f, 0xa2}},             /* CPUID */
    {2, 0, {0x0f, 0x32}},             /* RDMSR */
    {2, 0, {0x0f, 0x30}},             /* WRMSR */
    {2, 0, {0x0f, 0x31}},             /* RDTSC */
    {3, 0, {0x0f, 0x01, 0xf9}},       /* RDTSCP */
    {2, 0, {0x0f, 0x33}},             /* RDPMC */
    {3, 0, {0x0f, 0x01, 0xd1}},       /* XSETBV */
    {3, 0, {0x0f, 0x01, 0xc8}},       /* MONITOR */
    {3, 0, {0x0f, 0x01, 0xc9}},       /* MWAIT */
    {2, 0, {0xf3, 0x90}},             /* PAUSE */
    {1, 0, {0xf4}},                   /* HLT */
    {2, 0, {0x0f, 0x08}},             /* INVD */
    {2, 0, {0x0f, 0x09}},             /* WBINVD */
    {2, 0, {0x0f, 0x06}},             /* CLTS */
    {2, 1, {0x0f, 0x20}},             /* MOV from CR */
    {2, 1, {0x0f, 0x22}},             /* MOV to CR */
    {2, 1, {0x0f, 0x21}},             /* MOV from DR */
    {2, 1, {0x0f, 0x23}},             /* MOV to DR */
    {2, 1, {0x0f, 0x01}},             /* SGDT to LMSW, INVLPG, VMCALL and others */
    {2, 1, {0x0f, 0x00}},             /* SLDT to VERW */
    {2, 1, {0x0f, 0xc7}},             /* VMPTRLD, VMPTRST, RDRAND, CMPXCHG8B */
    {3, 1, {0x66, 0x0f, 0xc7}},       /* VMCLEAR */
    {3, 1, {0xf3, 0x0f, 0xc7}},       /* VMXON */
    {2, 1, {0x0f, 0x78}},             /* VMREAD */
    {2, 1, {0x0f, 0x79}},             /* VMWRITE */
    {4, 1, {0x66, 0x0f, 0x38, 0x80}}, /* INVEPT */
    {4, 1, {0x66, 0x0f, 0x38, 0x81}}, /* INVVPID */
    {4, 1, {0x66, 0x0f, 0x38, 0x82}}, /* INVPCID */
    {2, 1, {0x0f, 0xae}},             /* FXSAVE to CLFLUSH */
    {3, 1, {0xf3, 0x0f, 0xae}},       /* RDFSBASE and others, PTWRITE */
    {1, 1, {0xe4}},                   /* IN, OUT */
    {1, 1, {0xe7}},
    {1, 0, {0xec}},
    {1, 0, {0xef}},
    {2, 0, {0xf3, 0x6c}}, /* REP INS, OUTS */
    {2, 0, {0xf3, 0x6e}},
    {2, 0, {0xf3, 0xa4}}, /* REP MOVS, STOS */
    {2, 0, {0xf3, 0xab}},
    {1, 1, {0xcd}}, /* INT n, INT3, INT1, INTO, UD2 */
    {1, 0, {0xcc}},
    {1, 0, {0xf1}},
    {1, 0, {0xce}},
    {2, 0, {0x0f, 0x0b}},
    {1, 0, {0xcf}}, /* IRET */
    {2, 0, {0x48, 0xcf}},
    {1, 0, {0xcb}},       /* far RET */
    {2, 0, {0xff, 0x2c}}, /* far JMP, CALL */
    {2, 1, {0xff, 0x1c}},
    {1, 0, {0x9c}}, /* PUSHF, POPF */
    {1, 0, {0x9d}},
    {1, 0, {0xfa}}, /* CLI, STI */
    {1, 0, {0xfb}},
    {3, 0, {0x0f, 0x01, 0xca}}, /* CLAC */
    {1, 1, {0x8e}},             /* MOV to a segment register */
    {2, 0, {0x8e, 0xd0}},       /* MOV SS, EAX */
    {1, 0, {0x17}},             /* POP SS */
    {2, 0, {0x0f, 0xa1}},       /* POP FS */
    {2, 0, {0x0f, 0x05}},       /* SYSCALL, SYSRET, SYSENTER, SYSEXIT */
    {2, 0, {0x0f, 0x07}},
    {2, 0, {0x0f, 0x34}},
    {2, 0, {0x0f, 0x35}},
    {2, 0, {0x0f, 0xaa}},       /* RSM */
    {3, 0, {0x0f, 0x01, 0xf8}}, /* SWAPGS */
    {2, 0, {0xf7, 0xf0}},       /* DIV EAX */
    {1, 1, {0xeb}},             /* short branches, and LOOP */
    {1, 1, {0x75}},
    {1, 1, {0xe2}},
    {2, 0, {0xff, 0xe0}}, /* JMP, CALL RAX */
    {2, 0, {0xff, 0xd0}},
    {1, 0, {0xc3}}, /* RET */
    {1, 1, {0x89}}, /* MOV, both ways */
    {1, 1, {0x8b}},
    {2, 1, {0xf0, 0x87}}, /* LOCK XCHG */
    {1, 0, {0x90}},
};

/* What a register is made to hold: addresses, numbers of MSRs, ports and fields, bits. */
static uint64_t operand(void)
{
    static const uint32_t msrs[] = {0x10,  0x174, 0x277, 0x1d9, 0x570,      0x560,
                                    0x561, 0x571, 0x480, 0x3a,  0xc0000080, 0xc0000102};

    switch (below(8)) {
    case 0:
        return msrs[below(sizeof(msrs) / sizeof(msrs[0]))];
    case 1:
        return sparse();
    case 2:
        return number();
    case 3:
        return below(256);
    case 4:
        return code_place();
    default:
        return below(ARENA_BYTES);
    }
}

static uint64_t put_bytes(uint8_t *to, uint64_t value, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        to[i] = (uint8_t)(value >> 8 * i);
    return count;
}

/* MOV of a constant to a register, mostly short ones: other modes read them as something else. */
static uint64_t put_constant(uint8_t *to)
{
    uint64_t at = 0;

    if (once_in(2))
        to[at++] = 0x48 | (uint8_t)below(2);
    to[at++] = 0xb8 | (uint8_t)(once_in(8) ? below(8) : below(4)); /* seldom the stack pointer */
    return at + put_bytes(to + at, operand(), at == 2 ? 8 : 4);
}

static uint64_t put_insn(uint8_t *to)
{
    const unsigned which = (unsigned)below(sizeof(insns) / sizeof(insns[0]));
    uint64_t at = 0;

    if (once_in(16))
        to[at++] = (uint8_t)(0x40 | number());
    for (unsigned i = 0; i < insns[which].len; i++)
        to[at++] = insns[which].bytes[i];
    return at + put_bytes(to + at, number(), insns[which].any);
}

#define LONGEST 16

void code_fill(unsigned page)
{
    uint8_t *bytes = phys_to_virt(arena + page * PAGE_BYTES);
    uint64_t at = 0;

    while (at < PAGE_BYTES - LONGEST) {
        if (once_in(4))
            at += put_constant(bytes + at);
        else if (once_in(12))
            at += put_bytes(bytes + at, number(), 1 + (unsigned)below(8));
        else
            at += put_insn(bytes + at);
    }
    put_bytes(bytes + at, number(), 8);
    put_bytes(bytes + at + 8, number(), 8);
}

uint64_t code_place(void)
{
    const uint64_t page = (PAGE_CODE + below(CODE_PAGES)) * PAGE_BYTES;

    return once_in(4) ? page + below(PAGE_BYTES) : page;
}
