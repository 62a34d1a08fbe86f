/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake owner of the model's tests; see harness.h. */
#include "harness.h"

#include <CUnit/CUnit.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES   4096u
#define CANARY_BYTES PAGE_BYTES
#define CANARY       0xa5
#define WORDS_BYTES  (1u << 16)

bool check_at(bool ok, const char *file, unsigned line, const char *format, ...)
{
    char message[1024];
    va_list args;

    if (ok) {
        CU_assertImplementation(CU_TRUE, line, "", file, "", CU_FALSE);
        return true;
    }
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    CU_assertImplementation(CU_FALSE, line, message, file, "", CU_FALSE);
    if (getenv("VPT_FAIL_FAST")) { /* emulation/mutation/run.py needs to know no more */
        fprintf(stderr, "%s:%u: %s\n", file, line, message);
        exit(EXIT_FAILURE);
    }
    return false;
}

void add_suite(const char *name, const struct test *tests)
{
    CU_pSuite suite = CU_add_suite(name, NULL, NULL);

    if (!suite)
        abort();
    for (; tests->name; tests++)
        if (!CU_add_test(suite, tests->name, tests->run))
            abort();
}

static void *grown(void *data, size_t *size, size_t want, size_t item_bytes)
{
    size_t n = *size ? *size : 4096;

    if (want <= *size)
        return data;
    while (n < want)
        n *= 2;
    data = realloc(data, n * item_bytes);
    if (!data)
        abort();
    *size = n;
    return data;
}

/* ---- Callbacks ------------------------------------------------------------------------------ */

static const struct mapping *mapping_at(const struct fake *fake, uint64_t gpa)
{
    for (size_t i = 0; i < fake->maps; i++)
        if (gpa - fake->map[i].gpa < fake->map[i].len_bytes)
            return &fake->map[i];
    return NULL;
}

/* How far from gpa one kind of memory goes, at most len_bytes. */
static uint32_t extent(const struct fake *fake, const struct mapping *here, uint64_t gpa,
                       uint32_t len_bytes)
{
    uint32_t n = 1;

    while (n < len_bytes && mapping_at(fake, gpa + n) == here)
        n++;
    return n;
}

static void on_translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                         struct vpt_span *span)
{
    struct fake *fake = owner;
    const struct mapping *map = mapping_at(fake, gpa);

    if (len_bytes == 0 || len_bytes > 4096 || (gpa & 4095) + len_bytes > 4096 ||
        gpa >> fake->caps.maxphyaddr)
        fake->bad_requests++;
    if (access == VPT_READ_TABLE) {
        fake->table_reads++;
        if (len_bytes > 8)
            fake->bad_requests++;
    }
    span->host = NULL;
    span->len_bytes = extent(fake, map, gpa, len_bytes);
    if (fake->most_bytes && span->len_bytes > fake->most_bytes)
        span->len_bytes = fake->most_bytes;
    if (map) {
        span->kind = map->kind;
        if (map->host)
            span->host = map->host + (map->alias ? gpa & 4095 : gpa - map->gpa);
    } else if (gpa < RAM_BYTES) {
        span->kind = VPT_SPAN_RAM;
        span->host = fake->ram + gpa;
    } else {
        span->kind = VPT_SPAN_UNBACKED;
    }
}

static void on_wrote(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    struct fake *fake = owner;

    fake->tap_total += len_bytes;
    if (!mapping_at(fake, gpa)) {
        if (gpa + len_bytes > RAM_BYTES) {
            fake->bad_requests++;
            return;
        }
        memcpy(fake->shadow + gpa, bytes, len_bytes);
    }
    if (fake->tap_off)
        return;
    fake->tap = grown(fake->tap, &fake->tap_size, fake->tap_len + len_bytes, 1);
    memcpy(fake->tap + fake->tap_len, bytes, len_bytes);
    fake->tap_len += len_bytes;
    fake->stores =
        grown(fake->stores, &fake->store_size, fake->store_count + 1, sizeof(struct store));
    fake->stores[fake->store_count++] = (struct store){gpa, len_bytes};
}

static void keep_other(struct fake *fake, const uint8_t *bytes, uint32_t len_bytes)
{
    for (uint32_t i = 0; i < len_bytes && fake->other_len < sizeof(fake->other); i++)
        fake->other[fake->other_len++] = bytes[i];
}

static void on_mmio(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    struct fake *fake = owner;

    if (fake->other_len == 0)
        fake->other_gpa = gpa;
    keep_other(fake, bytes, len_bytes);
}

static void on_transport(void *owner, const uint8_t *bytes, uint32_t len_bytes)
{
    keep_other(owner, bytes, len_bytes);
}

static void on_pmi(void *owner)
{
    struct fake *fake = owner;

    fake->pmis++;
    fake->pmi_at = fake->tap_total;
}

static void on_clocks(void *owner, struct vpt_clocks *clocks)
{
    const struct fake *const fake = owner;

    *clocks = fake->clocks;
    if (vpt_nonroot(&fake->cpu))
        clocks->tsc += fake->guest_tsc_offset;
}

static const struct vpt_ops fake_ops = {
    .translate = on_translate,
    .wrote = on_wrote,
    .mmio = on_mmio,
    .transport = on_transport,
    .pmi = on_pmi,
    .clocks = on_clocks,
};

/* ---- Life ----------------------------------------------------------------------------------- */

struct vpt_caps plain_caps(const char *profile)
{
    struct vpt_caps caps;

    memset(&caps, 0, sizeof(caps));
    CHECK(vpt_profile(profile, &caps), "no profile %s", profile);
    caps.long_tnt = false;
    caps.deferred_tips = false;
    caps.tsx = false;
    caps.psb_align_bytes = 0;
    caps.choices = (struct vpt_choices){0};
    return caps;
}

void allow_all_encodings(struct vpt_caps *caps)
{
    if (caps->leaf14_0_ebx & VPT_CAP_MTC)
        caps->leaf14_1_eax |= 0xffff0000u;
    if (caps->leaf14_0_ebx & VPT_CAP_PSB_CYC)
        caps->leaf14_1_ebx = 0xffffffffu;
}

struct vpt_caps rich_caps(void)
{
    struct vpt_caps caps = plain_caps("max");

    allow_all_encodings(&caps);
    return caps;
}

/* Zeroes, of which only the pages that are touched cost time: there are thousands of fakes. */
static uint8_t *map_pages(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED)
        abort();
    return pages;
}

struct fake *fake_open_caps(const struct vpt_caps *caps)
{
    struct fake *fake = calloc(1, sizeof(*fake));

    if (!fake)
        abort();
    fake->caps = *caps;
    fake->arena = map_pages(RAM_BYTES + 2 * CANARY_BYTES);
    fake->shadow = map_pages(RAM_BYTES);
    fake->ram = fake->arena + CANARY_BYTES;
    memset(fake->arena, CANARY, CANARY_BYTES);
    memset(fake->ram + RAM_BYTES, CANARY, CANARY_BYTES);
    CHECK(vpt_init(&fake->cpu, caps, &fake_ops, fake), "vpt_init: %s",
          vpt_caps_check(caps) ? vpt_caps_check(caps) : "refused");
    return fake;
}

struct fake *fake_open(const char *profile)
{
    struct vpt_caps caps = plain_caps(profile);

    return fake_open_caps(&caps);
}

static bool all_canary(const uint8_t *bytes)
{
    for (size_t i = 0; i < CANARY_BYTES; i++)
        if (bytes[i] != CANARY)
            return false;
    return true;
}

/* Pages that neither side touched are zeroes on both. */
static bool as_reported(const struct fake *fake)
{
    unsigned char ram[RAM_BYTES / PAGE_BYTES], shadow[RAM_BYTES / PAGE_BYTES];

    if (mincore(fake->ram, RAM_BYTES, ram) != 0 || mincore(fake->shadow, RAM_BYTES, shadow) != 0)
        abort();
    for (size_t i = 0; i < RAM_BYTES / PAGE_BYTES; i++)
        if (((ram[i] | shadow[i]) & 1) &&
            memcmp(fake->ram + i * PAGE_BYTES, fake->shadow + i * PAGE_BYTES, PAGE_BYTES) != 0)
            return false;
    return true;
}

void fake_close(struct fake *fake)
{
    CHECK(all_canary(fake->arena) && all_canary(fake->ram + RAM_BYTES), "store beside RAM");
    CHECK(as_reported(fake), "a store was not reported");
    CHECK(fake->bad_requests == 0, "%u requests across a page, too long or too high",
          fake->bad_requests);
    munmap(fake->arena, RAM_BYTES + 2 * CANARY_BYTES);
    munmap(fake->shadow, RAM_BYTES);
    free(fake->tap);
    free(fake->stores);
    free(fake);
}

void fake_map(struct fake *fake, uint64_t gpa, uint64_t len_bytes, enum vpt_span_kind kind,
              uint8_t *host, bool alias)
{
    if (fake->maps == MAPPINGS)
        abort();
    fake->map[fake->maps++] = (struct mapping){gpa, len_bytes, kind, host, alias};
}

void fake_unmap(struct fake *fake)
{
    fake->maps = 0;
}

void fake_poke(struct fake *fake, uint64_t gpa, uint64_t value)
{
    memcpy(fake->ram + gpa, &value, sizeof(value));
    memcpy(fake->shadow + gpa, &value, sizeof(value));
}

/* ---- Registers ------------------------------------------------------------------------------ */

uint64_t fake_read(struct fake *fake, uint32_t msr)
{
    uint64_t value = 0;

    CHECK(vpt_rdmsr(&fake->cpu, msr, &value) == VPT_OK, "RDMSR %" PRIx32 " faults", msr);
    return value;
}

void fake_write(struct fake *fake, uint32_t msr, uint64_t value)
{
    CHECK(vpt_wrmsr(&fake->cpu, msr, value, IP_ON, IP_START) == VPT_OK,
          "WRMSR %" PRIx32 " := %" PRIx64 " faults", msr, value);
}

bool fake_status(struct fake *fake, uint64_t bits)
{
    return (fake_read(fake, VPT_MSR_STATUS) & bits) == bits;
}

struct vpt_context context_of(uint8_t cpl)
{
    return (struct vpt_context){.cr3 = 0x1000, .cpl = cpl, .exec_mode = VPT_EXEC_64};
}

void fake_output(struct fake *fake)
{
    fake_poke(fake, TABLE_GPA, REGION_GPA | 9u << VPT_TOPA_SIZE_SHR);
    fake_poke(fake, TABLE_GPA + 8, TABLE_GPA | VPT_TOPA_END);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
}

void fake_start(struct fake *fake, uint64_t ctl)
{
    struct vpt_context ctx = context_of(0);

    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, ctl | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_mark(fake);
}

void fake_stop(struct fake *fake)
{
    uint64_t ctl = fake_read(fake, VPT_MSR_CTL);

    CHECK(vpt_wrmsr(&fake->cpu, VPT_MSR_CTL, ctl & ~VPT_CTL_TRACEEN, IP_OFF, IP_END) == VPT_OK,
          "clearing TraceEn faults");
}

void fake_mark(struct fake *fake)
{
    vpt_flush(&fake->cpu);
    fake->mark = fake->tap_len;
}

/* Targets differ in all 48 bits, so that each TIP is long. */
void fake_noise(struct fake *fake, size_t bytes)
{
    uint64_t seed = 0x9e3779b97f4a7c15ull;

    for (size_t done = 0; done < bytes; done += 7) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        vpt_jmp_indirect(&fake->cpu, seed >> 17 & 0x7fffffffffffull);
    }
}

void fake_transfer(struct fake *fake, enum vpt_transfer_type type, uint64_t ip, uint64_t target,
                   const struct vpt_context *after)
{
    struct vpt_transfer transfer = {.type = type, .ip = ip, .target = target, .after = *after};

    vpt_transfer(&fake->cpu, &transfer);
}

/* ---- Expectations --------------------------------------------------------------------------- */

const char *fake_words(struct fake *fake, bool spell_psb)
{
    static char words[WORDS_BYTES];

    vpt_flush(&fake->cpu);
    CHECK(reader_text(fake->tap, fake->tap_len, fake->mark, spell_psb, words, sizeof(words)),
          "too many packets for one comparison");
    return words;
}

bool fake_expect_at(struct fake *fake, const char *pattern, const char *rule, const char *file,
                    unsigned line)
{
    char full[4096];
    const char *words;
    bool enabled = vpt_packet_en(&fake->cpu);

    snprintf(full, sizeof(full), "%s%s", pattern, enabled ? " FUP(40fff0) PGD()" : "");
    fake_stop(fake);
    words = fake_words(fake, false);
    return check_at(words_match(full, words), file, line, "%s: expected [%s], got [%s]", rule, full,
                    words);
}

/* ---- VMX ---- */

struct vpt_vm_entry vmx_entry(void)
{
    struct vpt_vm_entry entry = {
        .ip = 0x401010, .next_ip = 0x401013, .guest_ip = VMX_GUEST, .host_ip = VMX_HOST};

    entry.guest = context_of(0);
    entry.guest.cr3 = 0x9000;
    entry.host = context_of(0);
    return entry;
}

struct vpt_vm_exit vmx_exit(void)
{
    struct vpt_vm_exit exit = {.ip = VMX_GUEST + 0x10, .host_ip = VMX_HOST};

    exit.host = context_of(0);
    return exit;
}

struct vpt_vm_entry vmx_entry_by_ept(uint64_t guest_ctl)
{
    struct vpt_vm_entry entry = vmx_entry();

    entry.secondary = VPT_SECONDARY_CONCEAL | VPT_SECONDARY_PT_GPA;
    entry.entry = VPT_ENTRY_CONCEAL | VPT_ENTRY_LOAD_CTL;
    entry.exit = VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL;
    entry.ept = true;
    entry.guest_ctl = guest_ctl;
    return entry;
}

void fake_tables(struct fake *fake, uint64_t gpa)
{
    const uint64_t second = gpa + 0x1000, third = gpa + 0x2000;

    fake_poke(fake, gpa, 0x300000 | 1u << VPT_TOPA_SIZE_SHR);
    fake_poke(fake, gpa + 8, gpa | VPT_TOPA_END);
    fake_poke(fake, second, 0x310000);
    fake_poke(fake, second + 8, 0x320000);
    fake_poke(fake, second + 16, gpa | VPT_TOPA_END);
    fake_poke(fake, third, 0x350000);
    fake_poke(fake, third + 8, 0x340000);
    fake_poke(fake, third + 16, second | VPT_TOPA_END);
}

struct fake *vmx_open(const char *profile)
{
    struct fake *fake = fake_open(profile);
    struct vpt_context ctx = context_of(0);

    vpt_vmxon(&fake->cpu, 0x400000);
    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    return fake;
}

size_t from_hex(const char *hex, uint8_t *bytes)
{
    size_t n = 0;
    char *end;

    while (*hex) {
        bytes[n++] = (uint8_t)strtoul(hex, &end, 16);
        hex = end + strspn(end, " ");
    }
    return n;
}

const char *to_hex(const uint8_t *bytes, size_t n)
{
    static char hex[2048];
    size_t at = 0;

    hex[0] = '\0';
    for (size_t i = 0; i < n && at + 4 < sizeof(hex); i++)
        at += (size_t)snprintf(hex + at, sizeof(hex) - at, "%s%02x", i ? " " : "", bytes[i]);
    return hex;
}

/* ---- Anything at random ---- */

uint64_t fake_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
    return *seed >> 24;
}

void fake_branch(struct fake *fake, uint64_t r, uint64_t ip)
{
    struct vpt_cpu *cpu = &fake->cpu;

    switch (r % 6) {
    case 0:
    case 1:
        vpt_cond_branch(cpu, ip, r & 64);
        break;
    case 2:
        vpt_jmp_indirect(cpu, ip);
        break;
    case 3:
        vpt_call_direct(cpu, ip, ip + 5);
        break;
    case 4:
        vpt_call_indirect(cpu, ip, ip + 3);
        break;
    case 5:
        if (vpt_ret_count(cpu) && r & 64)
            ip = *vpt_ret_at(cpu, vpt_ret_youngest(cpu));
        vpt_ret(cpu, ip);
        break;
    }
}

void fake_event(struct fake *fake, uint64_t r, uint64_t ip)
{
    const struct vpt_power_entry sleep = {.ip = ip, .mwait = true, .hints = (uint8_t)r, .state = 1};
    const struct vpt_power_exit wake = {.reason = 1, .core_ratio = (uint8_t)(20 + r % 8)};
    const struct vpt_block_item items[] = {{1, r}, {2, ip}};
    const struct vpt_block block = {.type = 4, .count = 2, .items = items};
    struct vpt_cpu *cpu = &fake->cpu;
    struct vpt_context ctx = context_of(r & 8 ? 3 : 0);

    ctx.cr3 = (r & 0x30) << 8;
    ctx.interrupts = r & 0x40;
    switch (r % 12) {
    case 0:
        fake_transfer(fake, (enum vpt_transfer_type)(r / 16 % (VPT_UIRET + 1)), ip, ip ^ 0x1000,
                      &ctx);
        break;
    case 1:
        vpt_mov_cr3(cpu, ctx.cr3, ip);
        break;
    case 2:
        vpt_tx_begin(cpu, ip);
        break;
    case 3:
        vpt_tx_abort(cpu, ip, ip + 64);
        break;
    case 4:
        vpt_power_entry(cpu, &sleep);
        break;
    case 5:
        vpt_power_exit(cpu, &wake);
        break;
    case 6:
        vpt_pebs(cpu, &block, 1, ip);
        break;
    case 7:
        vpt_ptwrite(cpu, r, 8, ip);
        break;
    case 8:
        vpt_stall(cpu, r & 16);
        break;
    case 9:
        vpt_vmptrld(cpu, r << 12 & 0xffffff000);
        break;
    case 10:
        vpt_acm_begin(cpu);
        vpt_acm_end(cpu, ip);
        break;
    default:
        vpt_interrupt_flag(cpu, r & 16, ip);
        break;
    }
}
