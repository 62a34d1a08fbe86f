/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the transfers that the VMM carries out: interrupts, IRET, STI, SYSCALL, SYSRET. */
#include "suites.h"
#include "kvm/transfer.h"

#include <CUnit/CUnit.h>
#include <stdio.h>

#define ALL 7ull

#define GDT     0x30000ull
#define IDT     0x31000ull
#define TSS     0x32000ull
#define HANDLER 0xffffffff81234567ull
#define RSP0    0x38000ull
#define IST3    0x3a000ull

#define KERNEL_CS 0x10
#define USER_SS   0x18
#define USER_CS   0x20

#define TF   (1ull << 8)
#define IF   (1ull << 9)
#define IOPL (3ull << 12)
#define NT   (1ull << 14)

static void put_gate(struct fake *fake, unsigned vector, unsigned type, unsigned dpl, unsigned ist)
{
    fake_put(fake, IDT + 16 * vector,
             (HANDLER & 0xffff) | (uint64_t)KERNEL_CS << 16 | (uint64_t)ist << 32 |
                 (0x80ull | dpl << 5 | type) << 40 | (HANDLER >> 16 & 0xffff) << 48);
    fake_put(fake, IDT + 16 * vector + 8, HANDLER >> 32);
}

static struct fake *set_up(unsigned cpl)
{
    struct fake *fake = fake_new();
    struct kvm_sregs *sregs = vcpu_sregs(fake->cpu);
    struct kvm_regs *regs = vcpu_regs(fake->cpu);

    fake_identity_map(fake, ALL);
    fake_put(fake, GDT + KERNEL_CS, 0x00af9b000000ffffull);
    fake_put(fake, GDT + USER_SS, 0x00cff3000000ffffull);
    fake_put(fake, GDT + USER_CS, 0x00affb000000ffffull);
    fake_put(fake, TSS + 4, RSP0);
    fake_put(fake, TSS + 0x1c + 8 * 3, IST3);
    put_gate(fake, 2, 0xe, 0, 3);
    put_gate(fake, 3, 0xf, 3, 0);
    put_gate(fake, 13, 0xe, 0, 0);
    put_gate(fake, 0x40, 0xe, 0, 0);
    sregs->gdt.base = GDT;
    sregs->gdt.limit = 0x27;
    sregs->idt.base = IDT;
    sregs->idt.limit = 0x41 * 16 - 1;
    sregs->tr.base = TSS;
    sregs->cs.dpl = sregs->ss.dpl = (uint8_t)cpl;
    sregs->cs.selector = cpl ? USER_CS | 3 : KERNEL_CS;
    sregs->ss.selector = cpl ? USER_SS | 3 : 0;
    regs->rip = 0x401000;
    regs->rsp = 0x8008; /* not on a boundary of 16 */
    regs->rflags = 2 | IF | NT | TF;
    return fake;
}

static void test_interrupt_from_user(void)
{
    struct fake *fake = set_up(3);
    const struct kvm_regs *regs = vcpu_regs(fake->cpu);
    const struct kvm_sregs *sregs = vcpu_sregs(fake->cpu);

    CU_ASSERT_EQUAL_FATAL(deliver(fake->cpu, 0x40, -1, false), 0);
    CU_ASSERT_EQUAL(regs->rip, HANDLER);
    CU_ASSERT_EQUAL(regs->rsp, RSP0 - 40);
    CU_ASSERT_EQUAL(regs->rflags & (TF | IF | NT), 0);
    CU_ASSERT_EQUAL(sregs->cs.selector, KERNEL_CS);
    CU_ASSERT_EQUAL(sregs->ss.selector, 0);
    CU_ASSERT_EQUAL(vcpu_cpl(fake->cpu), 0);
    CU_ASSERT_EQUAL(fake_get(fake, RSP0 - 40), 0x401000);
    CU_ASSERT_EQUAL(fake_get(fake, RSP0 - 32), USER_CS | 3);
    CU_ASSERT_EQUAL(fake_get(fake, RSP0 - 24), 2 | IF | NT); /* the guest never sees TF */
    CU_ASSERT_EQUAL(fake_get(fake, RSP0 - 16), 0x8008);
    CU_ASSERT_EQUAL(fake_get(fake, RSP0 - 8), USER_SS | 3);
    fake_free(fake);
}

static void test_exception_in_kernel(void)
{
    struct fake *fake = set_up(0);

    CU_ASSERT_EQUAL_FATAL(deliver(fake->cpu, 13, 0x1234, false), 0);
    CU_ASSERT_EQUAL(vcpu_regs(fake->cpu)->rsp, 0x8000 - 48);
    CU_ASSERT_EQUAL(fake_get(fake, 0x8000 - 48), 0x1234);
    CU_ASSERT_EQUAL(fake_get(fake, 0x8000 - 40), 0x401000);
    CU_ASSERT_EQUAL(fake_get(fake, 0x8000 - 16), 0x8008);
    fake_free(fake);
}

static void test_nmi(void)
{
    struct fake *fake = set_up(3);

    CU_ASSERT_EQUAL_FATAL(deliver(fake->cpu, 2, -1, false), 0);
    CU_ASSERT_EQUAL(vcpu_regs(fake->cpu)->rsp, IST3 - 40);
    CU_ASSERT_EQUAL(vcpu_events(fake->cpu)->nmi.masked, 1);
    vcpu_regs(fake->cpu)->rsp = IST3 - 40;
    CU_ASSERT_EQUAL_FATAL(do_iret(fake->cpu), 0);
    CU_ASSERT_EQUAL(vcpu_events(fake->cpu)->nmi.masked, 0);
    fake_free(fake);
}

static void test_software_gates(void)
{
    struct fake *fake = set_up(3);

    CU_ASSERT_EQUAL(deliver(fake->cpu, 3, -1, true), 0); /* a trap gate, DPL 3 */
    CU_ASSERT_EQUAL(vcpu_regs(fake->cpu)->rflags & IF, IF);
    fake_free(fake);
    fake = set_up(3);
    CU_ASSERT_TRUE(deliver(fake->cpu, 0x40, -1, true) < 0); /* DPL 0 */
    fake_free(fake);
}

static void test_bad_gates(void)
{
    static const unsigned vectors[] = {0, 0x41, 255};

    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        struct fake *fake = set_up(0);

        CU_ASSERT_TRUE(deliver(fake->cpu, vectors[i], -1, false) < 0);
        CU_ASSERT_TRUE(fake->result.why[0] != 0);
        fake_free(fake);
    }
    struct fake *fake = set_up(3);
    fake_put(fake, TSS + 4, 0x7ffffffff000ull); /* a stack that is not there */
    CU_ASSERT_TRUE(deliver(fake->cpu, 0x40, -1, false) < 0);
    fake_put(fake, IDT + 16 * 0x40, 0x8e0000780000ull); /* a selector beyond the GDT */
    CU_ASSERT_TRUE(deliver(fake->cpu, 0x40, -1, false) < 0);
    fake_free(fake);
}

static uint64_t gate(unsigned selector, unsigned type)
{
    return (HANDLER & 0xffff) | (uint64_t)selector << 16 | (0x80ull | type) << 40 |
           (HANDLER >> 16 & 0xffff) << 48;
}

/* What stands in the IDT for vector 40H, and what stands in the GDT for its selector. */
static const struct {
    const char *what;
    uint64_t gate, descriptor;
} bad_gates[] = {
    {"not present", 0x0e0000100000ull, 0},
    {"nothing", 0, 0},
    {"task gate", 5, 0},
    {"call gate of 64-bit mode", 0xc, 0},
    {"code segment that is not present", 0xe, 0x00af1b000000ffffull},
    {"32-bit code segment", 0xe, 0x00cf9b000000ffffull},
    {"system descriptor", 0xe, 0x00af8b000000ffffull},
};

static void test_bad_kinds_of_gates(void)
{
    for (size_t i = 0; i < sizeof(bad_gates) / sizeof(bad_gates[0]); i++) {
        struct fake *fake = set_up(0);
        const uint64_t entry = bad_gates[i].gate;

        fake_put(fake, IDT + 16 * 0x40, entry < 16 ? gate(KERNEL_CS, (unsigned)entry) : entry);
        if (bad_gates[i].descriptor)
            fake_put(fake, GDT + KERNEL_CS, bad_gates[i].descriptor);
        if (deliver(fake->cpu, 0x40, -1, false) >= 0) {
            CU_FAIL("bad gate");
            printf("\n    %s", bad_gates[i].what);
        }
        CU_ASSERT_EQUAL(vcpu_regs(fake->cpu)->rip, 0x401000);
        CU_ASSERT_EQUAL(vcpu_regs(fake->cpu)->rsp, 0x8008);
        CU_ASSERT_EQUAL(vcpu_cpl(fake->cpu), 0);
        fake_free(fake);
    }
}

static void test_bad_selectors(void)
{
    /* Null, beyond the GDT, in an LDT. */
    static const unsigned selectors[] = {0, 3, 0x28, 0xfff8, KERNEL_CS | 4};

    for (size_t i = 0; i < sizeof(selectors) / sizeof(selectors[0]); i++) {
        struct fake *fake = set_up(0);

        fake_put(fake, IDT + 16 * 0x40, gate(selectors[i], 0xe));
        CU_ASSERT_TRUE(deliver(fake->cpu, 0x40, -1, false) < 0);
        fake_free(fake);
    }
}

/* Interrupt, handler, IRET: the registers are what they were. */
static void test_there_and_back(void)
{
    static const struct {
        unsigned cpl, vector;
        int64_t error_code;
    } cases[] = {{0, 0x40, -1}, {3, 0x40, -1}, {0, 13, 0}, {3, 13, 0xffffffff}, {3, 2, -1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = set_up(cases[i].cpl);
        struct kvm_regs *regs = vcpu_regs(fake->cpu);
        const struct kvm_regs before = *regs;
        const uint16_t cs = vcpu_sregs(fake->cpu)->cs.selector;
        const uint16_t ss = vcpu_sregs(fake->cpu)->ss.selector;

        CU_ASSERT_EQUAL_FATAL(deliver(fake->cpu, cases[i].vector, cases[i].error_code, false), 0);
        CU_ASSERT_EQUAL(vcpu_cpl(fake->cpu), 0);
        if (cases[i].error_code >= 0) {
            CU_ASSERT_EQUAL(fake_get(fake, regs->rsp), (uint64_t)cases[i].error_code);
            regs->rsp += 8;
        }
        CU_ASSERT_EQUAL_FATAL(do_iret(fake->cpu), 0);
        CU_ASSERT_EQUAL(regs->rip, before.rip);
        CU_ASSERT_EQUAL(regs->rsp, before.rsp);
        CU_ASSERT_EQUAL(regs->rflags, before.rflags & ~TF);
        CU_ASSERT_EQUAL(vcpu_sregs(fake->cpu)->cs.selector, cs);
        CU_ASSERT_EQUAL(vcpu_sregs(fake->cpu)->ss.selector, ss);
        CU_ASSERT_EQUAL(vcpu_cpl(fake->cpu), cases[i].cpl);
        fake_free(fake);
    }
}

static void test_bad_iret(void)
{
    static const uint64_t bad_cs[] = {0, 3, 0x28 | 3, USER_CS | 4 | 3, 0xfff8 | 3};
    static const uint64_t bad_ss[] = {0x28 | 3, USER_SS | 4 | 3};
    struct fake *fake = set_up(0);

    for (size_t i = 0; i < sizeof(bad_cs) / sizeof(bad_cs[0]); i++) {
        fake_put(fake, 0x7008, bad_cs[i]);
        fake_put(fake, 0x7020, USER_SS | 3);
        vcpu_regs(fake->cpu)->rsp = 0x7000;
        CU_ASSERT_TRUE(do_iret(fake->cpu) < 0);
    }
    for (size_t i = 0; i < sizeof(bad_ss) / sizeof(bad_ss[0]); i++) {
        fake_put(fake, 0x7008, USER_CS | 3);
        fake_put(fake, 0x7020, bad_ss[i]);
        vcpu_regs(fake->cpu)->rsp = 0x7000;
        CU_ASSERT_TRUE(do_iret(fake->cpu) < 0);
    }
    vcpu_regs(fake->cpu)->rsp = FAKE_RAM_BYTES - 16; /* half a frame */
    CU_ASSERT_TRUE(do_iret(fake->cpu) < 0);
    CU_ASSERT_EQUAL(vcpu_regs(fake->cpu)->rip, 0x401000);
    CU_ASSERT_EQUAL(vcpu_cpl(fake->cpu), 0);
    fake_free(fake);
}

static void test_sti(void)
{
    struct fake *fake = set_up(0);
    struct kvm_regs *regs = vcpu_regs(fake->cpu);

    regs->rflags = 2;
    CU_ASSERT_TRUE(do_sti(fake->cpu, 0x401001));
    CU_ASSERT_EQUAL(regs->rip, 0x401001);
    CU_ASSERT_EQUAL(regs->rflags, 2 | IF);
    CU_ASSERT_NOT_EQUAL(vcpu_events(fake->cpu)->interrupt.shadow, 0);
    vcpu_events(fake->cpu)->interrupt.shadow = 0;
    CU_ASSERT_TRUE(do_sti(fake->cpu, 0x401002)); /* IF is 1 already: no shadow */
    CU_ASSERT_EQUAL(vcpu_events(fake->cpu)->interrupt.shadow, 0);
    fake_free(fake);

    fake = set_up(3);
    CU_ASSERT_FALSE(do_sti(fake->cpu, 0x401001)); /* IOPL 0 */
    CU_ASSERT_EQUAL(vcpu_regs(fake->cpu)->rip, 0x401000);
    vcpu_regs(fake->cpu)->rflags |= IOPL;
    CU_ASSERT_TRUE(do_sti(fake->cpu, 0x401001));
    fake_free(fake);
}

static void test_handlers(void)
{
    struct fake *fake = set_up(0);
    uint64_t handler = 0;

    CU_ASSERT_TRUE(idt_handler(fake->cpu, 13, &handler));
    CU_ASSERT_EQUAL(handler, HANDLER);
    CU_ASSERT_FALSE(idt_handler(fake->cpu, 0, &handler));    /* not present */
    CU_ASSERT_FALSE(idt_handler(fake->cpu, 0x41, &handler)); /* beyond the limit */
    vcpu_sregs(fake->cpu)->idt.limit = 13 * 16 + 14;         /* the last byte is missing */
    CU_ASSERT_FALSE(idt_handler(fake->cpu, 13, &handler));
    vcpu_sregs(fake->cpu)->idt.limit = 13 * 16 + 15;
    CU_ASSERT_TRUE(idt_handler(fake->cpu, 13, &handler));
    vcpu_sregs(fake->cpu)->idt.base = FAKE_RAM_BYTES - 13 * 16 - 8; /* half of it is mapped */
    CU_ASSERT_FALSE(idt_handler(fake->cpu, 13, &handler));
    CU_ASSERT_TRUE(deliver(fake->cpu, 13, 0, false) < 0);
    fake_free(fake);
}

static void test_iret(void)
{
    struct fake *fake = set_up(0);
    struct kvm_regs *regs = vcpu_regs(fake->cpu);

    fake_put(fake, 0x7000, 0x402000);
    fake_put(fake, 0x7008, USER_CS | 3);
    fake_put(fake, 0x7010, 2 | IF | TF);
    fake_put(fake, 0x7018, 0x9000);
    fake_put(fake, 0x7020, USER_SS | 3);
    regs->rsp = 0x7000;
    CU_ASSERT_EQUAL_FATAL(do_iret(fake->cpu), 0);
    CU_ASSERT_EQUAL(regs->rip, 0x402000);
    CU_ASSERT_EQUAL(regs->rsp, 0x9000);
    CU_ASSERT_EQUAL(regs->rflags, 2 | IF);
    CU_ASSERT_EQUAL(vcpu_cpl(fake->cpu), 3);

    /* User mode changes neither IOPL nor, with IOPL 0, IF; nor may it gain privilege. */
    fake_put(fake, 0x7010, 2 | IOPL);
    regs->rsp = 0x7000;
    CU_ASSERT_EQUAL_FATAL(do_iret(fake->cpu), 0);
    CU_ASSERT_EQUAL(regs->rflags, 2 | IF);
    fake_put(fake, 0x7008, KERNEL_CS);
    regs->rsp = 0x7000;
    CU_ASSERT_TRUE(do_iret(fake->cpu) < 0);
    fake_free(fake);
}

static void test_syscall_and_sysret(void)
{
    struct fake *fake = set_up(3);
    struct kvm_regs *regs = vcpu_regs(fake->cpu);
    const struct kvm_sregs *sregs = vcpu_sregs(fake->cpu);

    fake->cpu->msr_star = (uint64_t)KERNEL_CS << 32 | (uint64_t)(USER_SS - 8) << 48;
    fake->cpu->msr_lstar = HANDLER;
    fake->cpu->msr_fmask = IF;
    do_syscall(fake->cpu, 0x401002);
    CU_ASSERT_EQUAL(regs->rip, HANDLER);
    CU_ASSERT_EQUAL(regs->rcx, 0x401002);
    CU_ASSERT_EQUAL(regs->r11, 2 | IF | NT); /* no TF */
    CU_ASSERT_EQUAL(regs->rflags & (IF | TF), 0);
    CU_ASSERT_EQUAL(sregs->cs.selector, KERNEL_CS);
    CU_ASSERT_EQUAL(sregs->ss.selector, KERNEL_CS + 8);
    CU_ASSERT_EQUAL(vcpu_cpl(fake->cpu), 0);

    regs->r11 |= TF;
    do_sysret(fake->cpu);
    CU_ASSERT_EQUAL(regs->rip, 0x401002);
    CU_ASSERT_EQUAL(regs->rflags & (IF | TF), IF);
    CU_ASSERT_EQUAL(sregs->cs.selector, USER_CS | 3);
    CU_ASSERT_EQUAL(sregs->ss.selector, USER_SS | 3);
    CU_ASSERT_EQUAL(vcpu_cpl(fake->cpu), 3);
    fake_free(fake);
}

void add_transfer_suite(void)
{
    CU_pSuite suite = CU_add_suite("transfers", NULL, NULL);

    CU_add_test(suite, "interrupt from user mode", test_interrupt_from_user);
    CU_add_test(suite, "exception in the kernel", test_exception_in_kernel);
    CU_add_test(suite, "NMI by IST, and IRET from it", test_nmi);
    CU_add_test(suite, "gates of software interrupts", test_software_gates);
    CU_add_test(suite, "bad gates and stacks", test_bad_gates);
    CU_add_test(suite, "bad kinds of gates", test_bad_kinds_of_gates);
    CU_add_test(suite, "bad selectors", test_bad_selectors);
    CU_add_test(suite, "handlers", test_handlers);
    CU_add_test(suite, "there and back", test_there_and_back);
    CU_add_test(suite, "IRET", test_iret);
    CU_add_test(suite, "bad frames of IRET", test_bad_iret);
    CU_add_test(suite, "STI", test_sti);
    CU_add_test(suite, "SYSCALL and SYSRET", test_syscall_and_sysret);
}
