/* SPDX-License-Identifier: BSD-3-Clause */
/* CPUID leaf 14H (33.3.1): what a bit says is what the processor does. */
#include "conformance.h"

static struct vpt_cpuid leaf(const struct vpt_caps *caps, uint32_t subleaf)
{
    struct vpt_cpuid regs = {0x5a5a5a5a, 0x5a5a5a5a, 0x5a5a5a5a, 0x5a5a5a5a};

    CHECK(vpt_cpuid(caps, 0x14, subleaf, &regs), "leaf 14H is the model's");
    return regs;
}

typedef void check_fn(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one);

static void on(struct fake *fake, check_fn *check)
{
    const struct vpt_cpuid zero = leaf(&fake->caps, 0), one = leaf(&fake->caps, 1);

    check(fake, &zero, &one);
    fake_close(fake);
}

/* The profile "max" without the feature of one bit of EBX. */
static struct fake *without(uint32_t bit)
{
    struct vpt_caps caps = plain_caps("max");

    caps.leaf14_0_ebx &= ~bit;
    if (bit == VPT_CAP_PSB_CYC)
        caps.leaf14_1_ebx = 0;
    if (bit == VPT_CAP_IPFILTER)
        caps.leaf14_1_eax &= ~7u;
    if (bit == VPT_CAP_MTC)
        caps.leaf14_1_eax &= 0xffff;
    return fake_open_caps(&caps);
}

/* Every profile with Intel PT as it is; and processors on which each feature is missing once. */
static void each(check_fn *check)
{
    for (size_t i = 0; i < vpt_profile_count(); i++) {
        struct fake *fake = open_profile(i);

        if (fake)
            on(fake, check);
    }
    for (uint32_t bit = VPT_CAP_CR3FILTER; bit <= VPT_CAP_DISTNT; bit <<= 1)
        on(without(bit), check);
}

/* A processor with nothing but these schemes of output. */
static struct fake *with_output(uint32_t ecx)
{
    struct vpt_caps caps = plain_caps("max");

    caps.leaf14_0_ecx = ecx;
    return fake_open_caps(&caps);
}

static bool takes(struct fake *fake, uint32_t msr, uint64_t value)
{
    return wrmsr(fake, msr, value) == VPT_OK;
}

/* A capability bit against what WRMSR of RTIT_CTL says. */
static void bit_is(struct fake *fake, uint32_t reg, unsigned bit, uint64_t ctl)
{
    CHECK(!!(reg & 1u << bit) == takes(fake, VPT_MSR_CTL, ctl), "bit %u", bit);
}

static void max_subleaf(struct fake *fake, const struct vpt_cpuid *zero,
                        const struct vpt_cpuid *one)
{
    const bool more = one->eax | one->ebx;

    (void)fake;
    CHECK(zero->eax == 1 || (zero->eax == 0 && !more), "subleaf %u", zero->eax);
}
static void cr3(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)one;
    bit_is(fake, zero->ebx, 0, VPT_CTL_CR3FILTER);
    CHECK(!!(zero->ebx & 1) == reads(fake, VPT_MSR_CR3_MATCH), "CR3_MATCH");
    CHECK(takes(fake, VPT_MSR_CTL, 0), "CTL");
    CHECK(!!(zero->ebx & 1) == takes(fake, VPT_MSR_CR3_MATCH, 0x5000), "CR3_MATCH");
}
static void psb_cyc(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    const bool has = zero->ebx & 2;
    struct vpt_context ctx = context_of(0);
    const char *words;

    bit_is(fake, zero->ebx, 1, VPT_CTL_CYCEN);
    if (!has)
        for (unsigned value = 1; value < 16; value++)
            CHECK(!takes(fake, VPT_MSR_CTL, (uint64_t)value << VPT_CTL_PSBFREQ_SHR) &&
                      !takes(fake, VPT_MSR_CTL, (uint64_t)value << VPT_CTL_CYCTHRESH_SHR),
                  "PSBFreq and CycThresh %u", value);
    CHECK((one->ebx != 0) == has, "subleaf 1 has their encodings");
    CHECK(takes(fake, VPT_MSR_CTL, 0) && takes(fake, VPT_MSR_STATUS, 9ull << 32) == has,
          "PacketByteCnt");
    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    words = fake_words(fake, false);
    CHECK((words[0] == 'P') == !has, "a PSB at enable only if PacketByteCnt is 0: %s", words);
    fake_stop(fake);
}
/* The MSRs of 33.2.8 keep their values, without TraceEn, or they are as after a cold reset. */
static void warm_reset(struct fake *fake, bool keeps)
{
    static const struct {
        uint32_t msr;
        uint64_t value, reset;
    } msrs[] = {{VPT_MSR_CTL, TRACED, 0},
                {VPT_MSR_STATUS, VPT_STATUS_ERROR | VPT_STATUS_STOPPED, 0},
                {VPT_MSR_CR3_MATCH, 0x5000, 0},
                {VPT_MSR_OUTPUT_BASE, 0x7000, 0},
                {VPT_MSR_OUTPUT_MASK_PTRS, 0x5000007f, 0x7f},
                {VPT_MSR_ADDR0_A, 0x1111, 0},
                {VPT_MSR_ADDR0_A + 1, 0x2222, 0}};
    const size_t count = sizeof(msrs) / sizeof(msrs[0]);

    for (size_t i = count; i-- > 0;)
        if (reads(fake, msrs[i].msr))
            fake_write(fake, msrs[i].msr, msrs[i].value);
    vpt_reset(&fake->cpu, VPT_RESET_WARM);
    for (size_t i = 0; i < count; i++)
        if (reads(fake, msrs[i].msr))
            CHECK(fake_read(fake, msrs[i].msr) == (keeps ? msrs[i].value : msrs[i].reset), "MSR %x",
                  msrs[i].msr);
    vpt_reset(&fake->cpu, VPT_RESET_COLD);
    for (size_t i = 0; i < count; i++)
        if (reads(fake, msrs[i].msr))
            CHECK(fake_read(fake, msrs[i].msr) == msrs[i].reset, "MSR %x, cold", msrs[i].msr);
}
static void ip_filter(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    const bool has = zero->ebx & 4;

    bit_is(fake, zero->ebx, 2, 1ull << VPT_CTL_ADDR_CFG_SHR);
    CHECK(takes(fake, VPT_MSR_CTL, 0), "CTL");
    for (unsigned n = 0; n < 4; n++)
        CHECK(reads(fake, VPT_MSR_ADDR0_A + 2 * n) == (n < (one->eax & 7)), "ADDR%u_A", n);
    warm_reset(fake, has);
}
static void mtc(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)one;
    bit_is(fake, zero->ebx, 3, VPT_CTL_MTCEN);
    CHECK(takes(fake, VPT_MSR_CTL, 0), "CTL");
    if (!(zero->ebx & 8))
        bit_is(fake, 0, 3, 1ull << VPT_CTL_MTCFREQ_SHR);
}
static void ptwrite(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)one;
    bit_is(fake, zero->ebx, 4, VPT_CTL_PTWEN);
    CHECK(takes(fake, VPT_MSR_CTL, 0), "CTL");
    bit_is(fake, zero->ebx, 4, VPT_CTL_FUPONPTW);
}
static void power(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)one;
    bit_is(fake, zero->ebx, 5, VPT_CTL_PWREVTEN);
}
static void preserve(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    const bool has = zero->ebx & 1 << 6;

    (void)one;
    bit_is(fake, zero->ebx, 6, VPT_CTL_INJECT_PSB_PMI);
    CHECK(takes(fake, VPT_MSR_STATUS, VPT_STATUS_PENDPSB) == has, "PendPSB");
    CHECK(takes(fake, VPT_MSR_STATUS, VPT_STATUS_PENDTOPAPMI) == has, "PendTopaPMI");
}
static void event(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)one;
    bit_is(fake, zero->ebx, 7, VPT_CTL_EVENTEN);
}
static void distnt(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)one;
    bit_is(fake, zero->ebx, 8, VPT_CTL_DISTNT);
}
static void ebx_reserved(struct fake *fake, const struct vpt_cpuid *zero,
                         const struct vpt_cpuid *one)
{
    (void)fake;
    (void)one;
    CHECK(zero->ebx >> 9 == 0, "EBX %x", zero->ebx);
}
/* The output MSRs exist if there is output to memory. */
static void output_msrs(struct fake *fake, bool exist)
{
    CHECK(takes(fake, VPT_MSR_CTL, 0), "CTL");
    CHECK(reads(fake, VPT_MSR_OUTPUT_BASE) == exist, "OUTPUT_BASE");
    CHECK(reads(fake, VPT_MSR_OUTPUT_MASK_PTRS) == exist, "OUTPUT_MASK_PTRS");
    CHECK(takes(fake, VPT_MSR_OUTPUT_BASE, 0x1000) == exist, "OUTPUT_BASE");
    CHECK(takes(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f) == exist, "OUTPUT_MASK_PTRS");
}
static void topa(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)one;
    bit_is(fake, zero->ecx, 0, VPT_CTL_TOPA);
    output_msrs(fake, zero->ecx & 5);
}
/* A table that one processor allows and another does not: whether enabling it is an error. */
static bool is_error(struct fake *fake, uint64_t second, uint64_t third)
{
    bool error;

    fake_poke(fake, TABLE_GPA, REGION_GPA);
    fake_poke(fake, TABLE_GPA + 8, second);
    fake_poke(fake, TABLE_GPA + 16, third);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_noise(fake, 9000);
    fake_stop(fake);
    error = fake_status(fake, VPT_STATUS_ERROR);
    fake_write(fake, VPT_MSR_STATUS, 0);
    return error;
}
static void entries(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    const bool many = zero->ecx & 2;
    const struct vpt_context ctx = context_of(0);

    (void)one;
    vpt_set_context(&fake->cpu, &ctx);
    CHECK(is_error(fake, 0x300000, TABLE_GPA | VPT_TOPA_END) == !many, "two regions");
    fake_poke(fake, 0x5000, 0x300000);
    CHECK(is_error(fake, 0x5000 | VPT_TOPA_END, 0) == !many, "an END entry to another table");
    CHECK(!is_error(fake, TABLE_GPA | VPT_TOPA_END, 0), "one to its own");

    fake_poke(fake, TABLE_GPA, REGION_GPA | VPT_TOPA_INT);
    fake_poke(fake, TABLE_GPA + 8, TABLE_GPA | VPT_TOPA_END);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake->tap_total = 0;
    for (unsigned n = 0; n < 2048 && fake->pmis == 0; n++) {
        fake_noise(fake, 8);
        vpt_flush(&fake->cpu);
    }
    CHECK(many ? fake->pmi_at == 4096 : fake->pmi_at > 0 && fake->pmi_at < 4096,
          "the PMI comes at byte %llu", (unsigned long long)fake->pmi_at);
    CHECK(fake_read(fake, VPT_MSR_PERF_GLOBAL_STATUS) == VPT_PERF_TOPA_PMI, "Trace_ToPA_PMI");
    fake_stop(fake);
}
static void single(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)one;
    fake_write(fake, VPT_MSR_OUTPUT_BASE, REGION_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0xfff);
    CHECK(takes(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TRACEEN) == !!(zero->ecx & 4), "bit 2");
    CHECK(vpt_trigger_en(&fake->cpu) == !!(zero->ecx & 4), "it traces");
    vpt_reset(&fake->cpu, VPT_RESET_COLD);
}
static void fabric(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)one;
    bit_is(fake, zero->ecx, 3, VPT_CTL_FABRICEN);
}
static void ecx_reserved(struct fake *fake, const struct vpt_cpuid *zero,
                         const struct vpt_cpuid *one)
{
    (void)fake;
    (void)one;
    CHECK((zero->ecx & 0x7ffffff0) == 0, "ECX %x", zero->ecx);
}
static void lip(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    struct vpt_context ctx = context_of(0);
    const char *words;

    (void)one;
    ctx.exec_mode = VPT_EXEC_32;
    ctx.cs_base = 0x400000;
    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    words = fake_words(fake, false);
    CHECK(words_match(zero->ecx >> 31 ? "PSB+ MODE(32) PGE(401000)" : "PSB+ MODE(32) PGE(1000)",
                      words),
          "%s", words);
    fake_stop(fake);
}
static void edx(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)fake;
    (void)one;
    CHECK(zero->edx == 0, "EDX %x", zero->edx);
}

#define EACH(name)                                                                                 \
    static void each_##name(void)                                                                  \
    {                                                                                              \
        each(name);                                                                                \
    }
EACH(max_subleaf)
EACH(cr3)
EACH(psb_cyc)
EACH(ip_filter)
EACH(mtc)
EACH(ptwrite)
EACH(power)
EACH(preserve)
EACH(event)
EACH(distnt)
EACH(ebx_reserved)
EACH(entries)
EACH(ecx_reserved)
EACH(lip)
EACH(edx)

static void each_topa(void)
{
    each(topa);
    on(with_output(VPT_CAP_SNGLRGN), topa);
    on(with_output(VPT_CAP_FABRIC), topa);
}
static void each_single(void)
{
    each(single);
    on(with_output(VPT_CAP_TOPA), single);
}
static void each_fabric(void)
{
    each(fabric);
    on(with_output(VPT_CAP_TOPA), fabric);
}

static const struct rule table_11[] = {
    {"EAX", "the largest subleaf", TEST(each_max_subleaf)},
    {"EBX[0]", "CR3Filter and CR3_MATCH exist", TEST(each_cr3)},
    {"EBX[1]", "PSBFreq, PacketByteCnt, CYCEn exist; a PSB at enable only if PacketByteCnt is 0",
     TEST(each_psb_cyc)},
    {"EBX[2]", "address ranges exist; MSRs keep their values across warm reset",
     TEST(each_ip_filter)},
    {"EBX[3]", "MTCEn exists", TEST(each_mtc)},
    {"EBX[4]", "PTWEn and FUPonPTW exist", TEST(each_ptwrite)},
    {"EBX[5]", "PwrEvtEn exists", TEST(each_power)},
    {"EBX[6]", "InjectPsbPmiOnEnable, PendPSB and PendTopaPMI exist", TEST(each_preserve)},
    {"EBX[7]", "EventEn exists", TEST(each_event)},
    {"EBX[8]", "DisTNT exists", TEST(each_distnt)},
    {"EBX[31:9]", "0", TEST(each_ebx_reserved)},
    {"ECX[0]", "ToPA output and the output MSRs exist", TEST(each_topa)},
    {"ECX[1]", "tables may have many entries; else the PMI comes before the region is full",
     TEST(each_entries)},
    {"ECX[2]", "single-range output exists", TEST(each_single)},
    {"ECX[3]", "FabricEn exists", TEST(each_fabric)},
    {"ECX[30:4]", "0", TEST(each_ecx_reserved)},
    {"ECX[31]", "IP payloads are LIPs, else RIPs", TEST(each_lip)},
    {"EDX", "0", TEST(each_edx)},
    {0},
};

static void range_count(struct fake *fake, const struct vpt_cpuid *zero,
                        const struct vpt_cpuid *one)
{
    (void)zero;
    for (unsigned n = 0; n < 4; n++)
        CHECK(takes(fake, VPT_MSR_CTL, 1ull << (VPT_CTL_ADDR_CFG_SHR + 4 * n)) ==
                  (n < (one->eax & 7)),
              "ADDR%u_CFG", n);
}
static void eax_reserved(struct fake *fake, const struct vpt_cpuid *zero,
                         const struct vpt_cpuid *one)
{
    (void)fake;
    (void)zero;
    CHECK((one->eax & 0xfff8) == 0, "EAX %x", one->eax);
}
static void map(struct fake *fake, uint32_t bits, unsigned shift, uint64_t enable)
{
    for (uint64_t value = 1; value < 16; value++)
        CHECK(takes(fake, VPT_MSR_CTL, value << shift | (bits ? enable : 0)) ==
                  !!(bits >> value & 1),
              "encoding %u of %x", (unsigned)value, bits);
}
static void mtc_map(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)zero;
    map(fake, one->eax >> 16, VPT_CTL_MTCFREQ_SHR, VPT_CTL_MTCEN);
}
static void cyc_map(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)zero;
    map(fake, one->ebx & 0xffff, VPT_CTL_CYCTHRESH_SHR, VPT_CTL_CYCEN);
}
static void psb_map(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)zero;
    map(fake, one->ebx >> 16, VPT_CTL_PSBFREQ_SHR, 0);
}
static void one_ecx(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)fake;
    (void)zero;
    CHECK(one->ecx == 0, "ECX %x", one->ecx);
}
static void one_edx(struct fake *fake, const struct vpt_cpuid *zero, const struct vpt_cpuid *one)
{
    (void)fake;
    (void)zero;
    CHECK(one->edx == 0, "EDX %x", one->edx);
}
EACH(range_count)
EACH(eax_reserved)
EACH(mtc_map)
EACH(cyc_map)
EACH(psb_map)
EACH(one_ecx)
EACH(one_edx)

static const struct rule table_12[] = {
    {"EAX[2:0]", "so many ADDRn_CFG fields exist", TEST(each_range_count)},
    {"EAX[15:3]", "0", TEST(each_eax_reserved)},
    {"EAX[31:16]", "the encodings of MTCFreq, others #GP", TEST(each_mtc_map)},
    {"EBX[15:0]", "the encodings of CycThresh, others #GP", TEST(each_cyc_map)},
    {"EBX[31:16]", "the encodings of PSBFreq, others #GP", TEST(each_psb_map)},
    {"ECX", "0", TEST(each_one_ecx)},
    {"EDX", "0", TEST(each_one_edx)},
    {0},
};

const struct table cpuid_tables[] = {
    {"33-11", "CPUID leaf 14H", 18, table_11},
    {"33-12", "CPUID leaf 14H, subleaf 1", 7, table_12},
    {0},
};
