/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The capability MSRs, 480H to 491H (appendix A of Intel's manual, volume 3): what has to hold
 * among them whatever is supported.
 */
#include "console.h"
#include "cpu.h"
#include "tests.h"
#include "vm.h"

#define REVISION_RESERVED (1ull << 31)
#define REGION_BYTES(msr) ((msr) >> 32 & 0x1fff)
#define MEMORY_TYPE(msr)  ((msr) >> 50 & 15)
#define WRITE_BACK        6u

#define MSR_ARCH_CAPABILITIES 0x10au

static void test_basic(void)
{
    const uint64_t basic = vmx_basic();

    report(!(basic & REVISION_RESERVED), "IA32_VMX_BASIC[31] is 0 (A.1)");
    report(REGION_BYTES(basic) > 0 && REGION_BYTES(basic) <= 4096,
           "IA32_VMX_BASIC[44:32]: regions of 1 to 4,096 bytes (A.1)");
    report(!(basic & BASIC_32_BIT_ADDRESSES), "IA32_VMX_BASIC[48] is 0 with Intel 64 (A.1)");
    report_value(MEMORY_TYPE(basic), WRITE_BACK, "IA32_VMX_BASIC[53:50]: write-back (A.1)");
    report(
        basic & BASIC_IO_INFORMATION,
        "IA32_VMX_BASIC[54]: information for INS and OUTS, as each processor with EPT has (A.1)");
}

/* Controls that every processor has as 1 unless the "true" MSRs say otherwise (A.3.1 to A.5). */
static const struct {
    const char *name;
    unsigned msr, true_msr;
    uint32_t default1;
} defaults[] = {
    {"pin-based", 0x481, 0x48d, 0x00000016},
    {"primary processor-based", 0x482, 0x48e, 0x0401e172},
    {"VM-exit", 0x483, 0x48f, 0x00036dff},
    {"VM-entry", 0x484, 0x490, 0x000011ff},
};

static void test_controls(void)
{
    const bool true_controls = vmx_basic() & BASIC_TRUE_CONTROLS;

    for (unsigned i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        const uint64_t msr = rdmsr(defaults[i].msr);
        const uint32_t required = (uint32_t)msr, allowed = (uint32_t)(msr >> 32);

        report_value(required & ~allowed, 0, "%s controls: what must be 1 may be (A.3 to A.5)",
                     defaults[i].name);
        report_value(required & defaults[i].default1, defaults[i].default1,
                     "%s controls: the default1 class is 1 (A.2)", defaults[i].name);
        if (!true_controls) {
            report_skip("no true controls", "%s controls: the true MSR", defaults[i].name);
            continue;
        }
        report_value(rdmsr(defaults[i].true_msr) >> 32, allowed,
                     "%s controls: the true MSR allows the same (A.2)", defaults[i].name);
        report_value((uint32_t)rdmsr(defaults[i].true_msr) & ~required, 0,
                     "%s controls: the true MSR demands no more (A.2)", defaults[i].name);
    }
}

#define CR0_PG_NE_PE 0x80000021u
#define CR4_VMXE     (1u << 13)

static void test_fixed(void)
{
    report_value(rdmsr(MSR_VMX_CR0_FIXED0), CR0_PG_NE_PE, "CR0 in VMX operation: PG, NE, PE (A.7)");
    report_value(rdmsr(MSR_VMX_CR0_FIXED1), UINT32_MAX, "CR0 in VMX operation: all may be 1 (A.7)");
    report_value(rdmsr(MSR_VMX_CR4_FIXED0), CR4_VMXE, "CR4 in VMX operation: VMXE (A.8)");
    report((read_cr4() & ~rdmsr(MSR_VMX_CR4_FIXED1)) == 0,
           "CR4 in VMX operation: what is 1 now may be (A.8)");
}

/* Index 9:1 of the encodings; no field of this suite's list that exists is above it. */
static void test_highest_field(void)
{
    static const unsigned fields[] = {
#define NUMBER(name, encoding, kind, bits) encoding,
        VMCS_FIELDS(NUMBER)
#undef NUMBER
    };
    unsigned highest = 0;

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (field_exists(fields[i]) && (fields[i] & 0x3fe) > highest)
            highest = fields[i] & 0x3fe;
    report((rdmsr(MSR_VMX_VMCS_ENUM) & 0x3fe) >= highest,
           "IA32_VMX_VMCS_ENUM[9:1] is not below a field that there is (A.9)");
}

static void test_read_only(void)
{
    for (unsigned msr = MSR_VMX_BASIC; msr <= MSR_VMX_VMCS_ENUM; msr++)
        report_vector(wrmsr_safe(msr, rdmsr(msr)), GP_VECTOR,
                      "IA32_VMX capability 0x%x is read-only (volume 4)", msr);
}

/* A hypervisor learns there what it need not guard against: RDCL_NO, SKIP_L1DFL_VMENTRY. */
static void test_arch_capabilities(void)
{
    const bool enumerated = cpuid_checked(7, 0).edx >> 29 & 1;
    uint64_t value = 0;

    report_vector(rdmsr_safe(MSR_ARCH_CAPABILITIES, &value), enumerated ? 0 : GP_VECTOR,
                  "IA32_ARCH_CAPABILITIES is there with CPUID.(7,0):EDX[29] (volume 4)");
    report_vector(wrmsr_safe(MSR_ARCH_CAPABILITIES, value), GP_VECTOR,
                  "IA32_ARCH_CAPABILITIES is read-only (volume 4)");
}

/* A kernel that found both would have to choose, by the vendor. */
static void test_no_svm(void)
{
    report(!(cpuid_checked(0x80000001, 0).ecx >> 2 & 1), "a processor with VMX has no SVM");
}

void test_capabilities(void)
{
    test_basic();
    test_controls();
    test_fixed();
    test_highest_field();
    test_read_only();
    test_arch_capabilities();
    test_no_svm();
}
