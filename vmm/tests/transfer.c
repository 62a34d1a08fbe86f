/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the transfers that the VMM carries out itself: interrupts, IRET, SYSCALL, SYSRET.
 */
#include "suites.h"

#include <CUnit/CUnit.h>
#include <string.h>

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
    struct kvm_sregs *sregs = vmm_sregs(&fake->vmm);
    struct kvm_regs *regs = vmm_regs(&fake->vmm);

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
    const struct kvm_regs *regs = vmm_regs(&fake->vmm);
    const struct kvm_sregs *sregs = vmm_sregs(&fake->vmm);

    CU_ASSERT_EQUAL_FATAL(deliver(&fake->vmm, 0x40, -1, false), 0);
    CU_ASSERT_EQUAL(regs->rip, HANDLER);
    CU_ASSERT_EQUAL(regs->rsp, RSP0 - 40);
    CU_ASSERT_EQUAL(regs->rflags & (TF | IF | NT), 0);
    CU_ASSERT_EQUAL(sregs->cs.selector, KERNEL_CS);
    CU_ASSERT_EQUAL(sregs->ss.selector, 0);
    CU_ASSERT_EQUAL(vmm_cpl(&fake->vmm), 0);
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

    CU_ASSERT_EQUAL_FATAL(deliver(&fake->vmm, 13, 0x1234, false), 0);
    CU_ASSERT_EQUAL(vmm_regs(&fake->vmm)->rsp, 0x8000 - 48);
    CU_ASSERT_EQUAL(fake_get(fake, 0x8000 - 48), 0x1234);
    CU_ASSERT_EQUAL(fake_get(fake, 0x8000 - 40), 0x401000);
    CU_ASSERT_EQUAL(fake_get(fake, 0x8000 - 16), 0x8008);
    fake_free(fake);
}

static void test_nmi(void)
{
    struct fake *fake = set_up(3);

    CU_ASSERT_EQUAL_FATAL(deliver(&fake->vmm, 2, -1, false), 0);
    CU_ASSERT_EQUAL(vmm_regs(&fake->vmm)->rsp, IST3 - 40);
    CU_ASSERT_EQUAL(vmm_events(&fake->vmm)->nmi.masked, 1);
    vmm_regs(&fake->vmm)->rsp = IST3 - 40;
    CU_ASSERT_EQUAL_FATAL(do_iret(&fake->vmm), 0);
    CU_ASSERT_EQUAL(vmm_events(&fake->vmm)->nmi.masked, 0);
    fake_free(fake);
}

static void test_software_gates(void)
{
    struct fake *fake = set_up(3);

    CU_ASSERT_EQUAL(deliver(&fake->vmm, 3, -1, true), 0); /* a trap gate, DPL 3 */
    CU_ASSERT_EQUAL(vmm_regs(&fake->vmm)->rflags & IF, IF);
    fake_free(fake);
    fake = set_up(3);
    CU_ASSERT_TRUE(deliver(&fake->vmm, 0x40, -1, true) < 0); /* DPL 0 */
    fake_free(fake);
}

static void test_bad_gates(void)
{
    static const unsigned vectors[] = {0, 0x41, 255};

    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        struct fake *fake = set_up(0);

        CU_ASSERT_TRUE(deliver(&fake->vmm, vectors[i], -1, false) < 0);
        CU_ASSERT_TRUE(fake->result.why[0] != 0);
        fake_free(fake);
    }
    struct fake *fake = set_up(3);
    fake_put(fake, TSS + 4, 0x7ffffffff000ull); /* a stack that is not there */
    CU_ASSERT_TRUE(deliver(&fake->vmm, 0x40, -1, false) < 0);
    fake_put(fake, IDT + 16 * 0x40, 0x8e0000780000ull); /* a selector beyond the GDT */
    CU_ASSERT_TRUE(deliver(&fake->vmm, 0x40, -1, false) < 0);
    fake_free(fake);
}

static void test_iret(void)
{
    struct fake *fake = set_up(0);
    struct kvm_regs *regs = vmm_regs(&fake->vmm);

    fake_put(fake, 0x7000, 0x402000);
    fake_put(fake, 0x7008, USER_CS | 3);
    fake_put(fake, 0x7010, 2 | IF | TF);
    fake_put(fake, 0x7018, 0x9000);
    fake_put(fake, 0x7020, USER_SS | 3);
    regs->rsp = 0x7000;
    CU_ASSERT_EQUAL_FATAL(do_iret(&fake->vmm), 0);
    CU_ASSERT_EQUAL(regs->rip, 0x402000);
    CU_ASSERT_EQUAL(regs->rsp, 0x9000);
    CU_ASSERT_EQUAL(regs->rflags, 2 | IF);
    CU_ASSERT_EQUAL(vmm_cpl(&fake->vmm), 3);

    /* User mode changes neither IOPL nor, with IOPL 0, IF; nor may it gain privilege. */
    fake_put(fake, 0x7010, 2 | IOPL);
    regs->rsp = 0x7000;
    CU_ASSERT_EQUAL_FATAL(do_iret(&fake->vmm), 0);
    CU_ASSERT_EQUAL(regs->rflags, 2 | IF);
    fake_put(fake, 0x7008, KERNEL_CS);
    regs->rsp = 0x7000;
    CU_ASSERT_TRUE(do_iret(&fake->vmm) < 0);
    fake_free(fake);
}

static void test_syscall_and_sysret(void)
{
    struct fake *fake = set_up(3);
    struct kvm_regs *regs = vmm_regs(&fake->vmm);
    const struct kvm_sregs *sregs = vmm_sregs(&fake->vmm);

    fake->vmm.msr_star = (uint64_t)KERNEL_CS << 32 | (uint64_t)(USER_SS - 8) << 48;
    fake->vmm.msr_lstar = HANDLER;
    fake->vmm.msr_fmask = IF;
    do_syscall(&fake->vmm, 0x401002);
    CU_ASSERT_EQUAL(regs->rip, HANDLER);
    CU_ASSERT_EQUAL(regs->rcx, 0x401002);
    CU_ASSERT_EQUAL(regs->r11, 2 | IF | NT); /* no TF */
    CU_ASSERT_EQUAL(regs->rflags & (IF | TF), 0);
    CU_ASSERT_EQUAL(sregs->cs.selector, KERNEL_CS);
    CU_ASSERT_EQUAL(sregs->ss.selector, KERNEL_CS + 8);
    CU_ASSERT_EQUAL(vmm_cpl(&fake->vmm), 0);

    regs->r11 |= TF;
    do_sysret(&fake->vmm);
    CU_ASSERT_EQUAL(regs->rip, 0x401002);
    CU_ASSERT_EQUAL(regs->rflags & (IF | TF), IF);
    CU_ASSERT_EQUAL(sregs->cs.selector, USER_CS | 3);
    CU_ASSERT_EQUAL(sregs->ss.selector, USER_SS | 3);
    CU_ASSERT_EQUAL(vmm_cpl(&fake->vmm), 3);
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
    CU_add_test(suite, "IRET", test_iret);
    CU_add_test(suite, "SYSCALL and SYSRET", test_syscall_and_sysret);
}
