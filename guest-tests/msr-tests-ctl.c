/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IA32_RTIT_CTL: each bit, each encoding, the enabling rules, and writes while TraceEn is 1
 * (33.2.8.2, 33.2.8.3).
 */
#include "msr-tests.h"

/* ---- The rules, from CPUID (Table 33-6) --------------------------------------------------- */

struct field {
    unsigned first, count;
    bool supported;
    const char *name;
};

#define FIELD_COUNT 29

/* What each bit is called, and whether this processor has it. */
static const struct field *find_field(unsigned bit)
{
    const struct pt_caps *c = pt_caps();
    static struct field found;
    const struct field fields[] = {
        {0, 1, true, "TraceEn"},
        {1, 1, c->psb_cyc, "CYCEn"},
        {2, 1, true, "OS"},
        {3, 1, true, "User"},
        {4, 1, c->power, "PwrEvtEn"},
        {5, 1, c->ptwrite, "FUPonPTW"},
        {6, 1, c->fabric, "FabricEn"},
        {7, 1, c->cr3_filter, "CR3Filter"},
        {8, 1, c->topa, "ToPA"},
        {9, 1, c->mtc, "MTCEn"},
        {10, 1, true, "TSCEn"},
        {11, 1, true, "DisRETC"},
        {12, 1, c->ptwrite, "PTWEn"},
        {13, 1, true, "BranchEn"},
        {14, 4, c->mtc, "MTCFreq"},
        {18, 1, false, "reserved"},
        {19, 4, c->psb_cyc, "CycThresh"},
        {23, 1, false, "reserved"},
        {24, 4, c->psb_cyc, "PSBFreq"},
        {28, 3, false, "reserved"},
        {31, 1, c->event, "EventEn"},
        {32, 4, c->ip_filter && c->ranges > 0, "ADDR0_CFG"},
        {36, 4, c->ip_filter && c->ranges > 1, "ADDR1_CFG"},
        {40, 4, c->ip_filter && c->ranges > 2, "ADDR2_CFG"},
        {44, 4, c->ip_filter && c->ranges > 3, "ADDR3_CFG"},
        {48, 7, false, "reserved"},
        {55, 1, c->dis_tnt, "DisTNT"},
        {56, 1, c->preserve, "InjectPsbPmiOnEnable"},
        {57, 7, false, "reserved"},
    };
    _Static_assert(sizeof(fields) / sizeof(fields[0]) == FIELD_COUNT, "count of fields");

    for (unsigned i = 0; i < FIELD_COUNT; i++)
        if (bit >= fields[i].first && bit < fields[i].first + fields[i].count)
            found = fields[i];
    return &found;
}

static unsigned encoding(uint64_t value, unsigned shift)
{
    return value >> shift & 15;
}

bool ctl_is_legal(uint64_t value)
{
    const struct pt_caps *c = pt_caps();

    for (unsigned bit = 0; bit < 64; bit++)
        if ((value >> bit & 1) && !find_field(bit)->supported)
            return false;
    if (c->mtc && !(c->mtc_map >> encoding(value, CTL_MTCFREQ_SHIFT) & 1))
        return false;
    if (c->psb_cyc && !(c->cyc_map >> encoding(value, CTL_CYCTHRESH_SHIFT) & 1))
        return false;
    if (c->psb_cyc && !(c->psb_map >> encoding(value, CTL_PSBFREQ_SHIFT) & 1))
        return false;
    for (unsigned i = 0; i < 4; i++)
        if (encoding(value, CTL_ADDR_CFG_SHIFT + 4 * i) > ADDR_CFG_TRACESTOP)
            return false;
    /* TraceEn needs an output scheme. */
    return !(value & CTL_TRACEEN) || (value & (CTL_TOPA | CTL_FABRICEN)) || c->single_range;
}

/* ---- TraceEn = 0 -------------------------------------------------------------------------- */

/* A write that must be taken (and read back), or raise #GP and change nothing. */
static void check_ctl(uint64_t value, const char *name, const char *rule)
{
    bool legal = ctl_is_legal(value);
    uint64_t before = rdmsr(MSR_RTIT_CTL);
    unsigned vector = wrmsr_safe(MSR_RTIT_CTL, value);
    uint64_t after = rdmsr(MSR_RTIT_CTL);

    if (vector != (legal ? 0 : GP_VECTOR))
        report_vector(vector, legal ? 0 : GP_VECTOR, "IA32_RTIT_CTL: %s (%s)", name, rule);
    else
        report_value(after, legal ? value : before, "IA32_RTIT_CTL: %s %s (%s)", name,
                     legal ? "is taken" : "raises #GP", rule);
    wrmsr_safe(MSR_RTIT_CTL, 0);
}

static void test_bits(void)
{
    for (unsigned bit = 1; bit < 64; bit++) {
        const struct field *f = find_field(bit);
        bool legal = ctl_is_legal(1ull << bit);
        unsigned vector = wrmsr_safe(MSR_RTIT_CTL, 1ull << bit);
        uint64_t want = legal ? 1ull << bit : 0, got = rdmsr(MSR_RTIT_CTL);

        if (vector != (legal ? 0 : GP_VECTOR))
            report_vector(vector, legal ? 0 : GP_VECTOR, "IA32_RTIT_CTL[%u] %s alone (Table 33-6)",
                          bit, f->name);
        else
            report_value(got, want, "IA32_RTIT_CTL[%u] %s alone %s (Table 33-6)", bit, f->name,
                         legal ? "is taken" : "raises #GP");
        wrmsr_safe(MSR_RTIT_CTL, 0);
    }
}

static void test_encodings(void)
{
    static const struct {
        unsigned shift;
        const char *name, *rule;
    } fields[] = {
        {CTL_MTCFREQ_SHIFT, "MTCFreq", "Table 33-12, EAX[31:16]"},
        {CTL_CYCTHRESH_SHIFT, "CycThresh", "Table 33-12, EBX[15:0]"},
        {CTL_PSBFREQ_SHIFT, "PSBFreq", "Table 33-12, EBX[31:16]"},
        {CTL_ADDR_CFG_SHIFT, "ADDR0_CFG", "Table 33-6"},
        {CTL_ADDR_CFG_SHIFT + 4, "ADDR1_CFG", "Table 33-6"},
        {CTL_ADDR_CFG_SHIFT + 8, "ADDR2_CFG", "Table 33-6"},
        {CTL_ADDR_CFG_SHIFT + 12, "ADDR3_CFG", "Table 33-6"},
    };

    for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        for (uint64_t code = 0; code < 16; code++) {
            uint64_t value = code << fields[i].shift;
            bool legal = ctl_is_legal(value);

            report_vector(wrmsr_safe(MSR_RTIT_CTL, value), legal ? 0 : GP_VECTOR,
                          "IA32_RTIT_CTL.%s = %lu %s (%s)", fields[i].name, code,
                          legal ? "is supported" : "raises #GP", fields[i].rule);
            wrmsr_safe(MSR_RTIT_CTL, 0);
        }
    }
}

/* Every bit that the processor has, with the encodings that fill all bits of each field. */
static uint64_t all_supported(void)
{
    uint64_t all = 0;

    for (unsigned bit = 1; bit < 64; bit++)
        if (find_field(bit)->count == 1 && ctl_is_legal(1ull << bit))
            all |= 1ull << bit;
    return all;
}

static void test_together(void)
{
    uint64_t all = all_supported();

    check_ctl(all, "all supported flags together", "Table 33-6");
    check_ctl(all | 1ull << 18, "all supported flags and bit 18", "Table 33-6");
    check_ctl(all | 1ull << 63, "all supported flags and bit 63", "Table 33-6");
    check_ctl(~0ull, "all bits", "Table 33-6");
    check_ctl(0, "zero", "Table 33-6");
}

/* ---- Enabling (33.2.8.2, 33.3.2.1) -------------------------------------------------------- */

static void test_enabling(void)
{
    static const struct {
        uint64_t scheme;
        const char *name;
    } schemes[] = {
        {0, "TraceEn with ToPA = FabricEn = 0"},
        {CTL_TOPA, "TraceEn with ToPA = 1"},
        {CTL_FABRICEN, "TraceEn with FabricEn = 1"},
        {CTL_FABRICEN | CTL_TOPA, "TraceEn with FabricEn = ToPA = 1"},
    };
    struct trace_setup setup = {0};

    trace_default_output(&setup);
    for (unsigned i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        trace_off();
        /* Output that does no harm in whichever scheme it is; errors are not the matter here. */
        if (pt_memory_output(pt_caps())) {
            wrmsr(MSR_RTIT_OUTPUT_BASE,
                  schemes[i].scheme & CTL_TOPA ? setup.base : phys_alloc(PAGE_BYTES, PAGE_BYTES));
            wrmsr(MSR_RTIT_OUTPUT_MASK_PTRS, MASK_PTRS_FORCED);
        }
        check_ctl(CTL_TRACEEN | schemes[i].scheme, schemes[i].name,
                  "Table 33-6, ToPA and FabricEn");
    }
    trace_off();
}

/* ---- TraceEn = 1 (33.2.8.1, 33.2.8.3) ----------------------------------------------------- */

static uint64_t traced_ctl;

/* Tracing that stays on while cases look at it. */
static void trace_on(void)
{
    struct trace_setup setup = {.ctl = CTL_OS};

    trace_off();
    trace_default_output(&setup);
    if (pt_memory_output(pt_caps())) {
        wrmsr(MSR_RTIT_OUTPUT_BASE, setup.base);
        wrmsr(MSR_RTIT_OUTPUT_MASK_PTRS, setup.mask_ptrs);
    }
    traced_ctl = setup.ctl | CTL_TRACEEN;
    wrmsr(MSR_RTIT_CTL, traced_ctl);
}

static void test_changes_while_tracing(void)
{
    trace_on();
    report_vector(wrmsr_safe(MSR_RTIT_CTL, traced_ctl), 0,
                  "IA32_RTIT_CTL: the same value while TraceEn = 1 (33.2.8.3)");
    report_value(rdmsr(MSR_RTIT_CTL), traced_ctl,
                 "IA32_RTIT_CTL: still enabled after the same value (33.2.8.3)");
    for (unsigned bit = 1; bit < 64; bit++) {
        report_vector(wrmsr_safe(MSR_RTIT_CTL, traced_ctl ^ 1ull << bit), GP_VECTOR,
                      "IA32_RTIT_CTL[%u] cannot change while TraceEn stays 1 (33.2.8.3)", bit);
        if (!(rdmsr(MSR_RTIT_CTL) & CTL_TRACEEN))
            trace_on();
    }
    report_value(rdmsr(MSR_RTIT_CTL), traced_ctl,
                 "IA32_RTIT_CTL: unchanged by writes that raised #GP (33.2.8.3)");
    trace_off();
}

static void test_clearing(void)
{
    uint64_t reserved;

    trace_on();
    report_vector(wrmsr_safe(MSR_RTIT_CTL, traced_ctl & ~CTL_TRACEEN), 0,
                  "IA32_RTIT_CTL: TraceEn can be cleared alone (33.2.8.3)");
    trace_on();
    report_vector(wrmsr_safe(MSR_RTIT_CTL, 0), 0,
                  "IA32_RTIT_CTL: everything can be cleared with TraceEn (33.2.8.3)");
    trace_on();
    check_write(MSR_RTIT_CTL, CTL_USER | CTL_TSCEN | CTL_BRANCHEN, true,
                CTL_USER | CTL_TSCEN | CTL_BRANCHEN,
                "IA32_RTIT_CTL: other bits can change with TraceEn cleared (33.2.8.3)");
    for (reserved = 1ull << 18; reserved; reserved = reserved == 1ull << 18 ? 1ull << 63 : 0) {
        trace_on();
        report_vector(wrmsr_safe(MSR_RTIT_CTL, (traced_ctl & ~CTL_TRACEEN) | reserved), GP_VECTOR,
                      "IA32_RTIT_CTL: reserved bits raise #GP when TraceEn is cleared (33.2.8.1)");
        report_value(rdmsr(MSR_RTIT_CTL), traced_ctl,
                     "IA32_RTIT_CTL: tracing goes on after that #GP (33.2.8.1)");
    }
    trace_off();
}

/* Both directions of each register, with the value that it has and with another one. */
static void test_other_msrs_while_tracing(void)
{
    const struct pt_caps *c = pt_caps();
    const struct {
        uint32_t msr;
        bool exists;
        const char *name;
    } registers[] = {
        {MSR_RTIT_OUTPUT_BASE, pt_memory_output(c), "IA32_RTIT_OUTPUT_BASE"},
        {MSR_RTIT_OUTPUT_MASK_PTRS, pt_memory_output(c), "IA32_RTIT_OUTPUT_MASK_PTRS"},
        {MSR_RTIT_STATUS, true, "IA32_RTIT_STATUS"},
        {MSR_RTIT_CR3_MATCH, c->cr3_filter, "IA32_RTIT_CR3_MATCH"},
        {MSR_RTIT_ADDR0_A, c->ranges > 0, "IA32_RTIT_ADDR0_A"},
        {MSR_RTIT_ADDR0_A + 1, c->ranges > 0, "IA32_RTIT_ADDR0_B"},
        {MSR_RTIT_ADDR0_A + 2, c->ranges > 1, "IA32_RTIT_ADDR1_A"},
        {MSR_RTIT_ADDR0_A + 3, c->ranges > 1, "IA32_RTIT_ADDR1_B"},
        {MSR_RTIT_ADDR0_A + 4, c->ranges > 2, "IA32_RTIT_ADDR2_A"},
        {MSR_RTIT_ADDR0_A + 5, c->ranges > 2, "IA32_RTIT_ADDR2_B"},
        {MSR_RTIT_ADDR0_A + 6, c->ranges > 3, "IA32_RTIT_ADDR3_A"},
        {MSR_RTIT_ADDR0_A + 7, c->ranges > 3, "IA32_RTIT_ADDR3_B"},
    };

    trace_on();
    for (unsigned i = 0; i < sizeof(registers) / sizeof(registers[0]); i++) {
        uint32_t msr = registers[i].msr;
        const char *name = registers[i].name;
        uint64_t value = 0;
        unsigned want = registers[i].exists ? 0 : GP_VECTOR;

        report_vector(rdmsr_safe(msr, &value), want, "%s: RDMSR while TraceEn = 1 (33.2.8.1)",
                      name);
        report_vector(wrmsr_safe(msr, value), GP_VECTOR,
                      "%s: the same value while TraceEn = 1 raises #GP (33.2.8.1)", name);
        report_vector(wrmsr_safe(msr, value ^ 0x1000), GP_VECTOR,
                      "%s: another value while TraceEn = 1 raises #GP (33.2.8.1)", name);
    }
    trace_off();
}

void test_ctl(void)
{
    test_bits();
    test_encodings();
    test_together();
    test_enabling();
    test_changes_while_tracing();
    test_clearing();
    test_other_msrs_while_tracing();
}
