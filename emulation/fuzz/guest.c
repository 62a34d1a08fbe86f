/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile guest, for libFuzzer: the input chooses a processor, what stands in guest-physical
 * memory, and then writes MSRs, table entries and makes events as it likes.
 *
 * Whatever it does: no store outside the memory that translate granted, #GP changes nothing, the
 * enables obey 33.2.6, reserved bits stay 0, output pointers stay inside their region, RDMSR agrees
 * with itself, and one call does a bounded amount of work.
 */
#include "input.h"
#include "vpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGES          16u /* of RAM, from address 0 */
#define RAM_BYTES      (PAGES * 4096u)
#define SPECIALS       8u    /* pages that may be something else than RAM */
#define MOST_REQUESTS  6000u /* to translate, in one call of the model */
#define OPERATIONS     400u
#define CTL_RESERVED   (1ull << 18 | 1ull << 23 | 7ull << 28 | 0x7full << 48 | 0x7full << 57)
#define STATUS_UNKNOWN ~(0xf7ull | VPT_STATUS_BYTECNT_MASK)

/* ---- The owner ------------------------------------------------------------------------------ */

struct guest {
    struct vpt_cpu cpu;
    struct vpt_caps caps;
    uint8_t *ram, *rom;
    uint8_t shadow[RAM_BYTES];
    struct {
        uint64_t page;
        enum vpt_span_kind kind;
    } special[SPECIALS];
    uint32_t most_bytes; /* the longest answer of translate; 0: no limit */
    unsigned requests;
    uint64_t granted, granted_bytes; /* the last answer that allows stores */
    struct vpt_clocks clocks;
};

static enum vpt_span_kind kind_of(const struct guest *guest, uint64_t gpa)
{
    for (unsigned i = 0; i < SPECIALS; i++)
        if (guest->special[i].page == gpa >> 12)
            return guest->special[i].kind;
    return gpa < RAM_BYTES ? VPT_SPAN_RAM : VPT_SPAN_UNBACKED;
}

static void on_translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                         struct vpt_span *span)
{
    struct guest *guest = owner;

    MUST(len_bytes > 0 && len_bytes <= 4096 && (gpa & 4095) + len_bytes <= 4096,
         "gpa %" PRIx64 " length %u", gpa, len_bytes);
    MUST(access == VPT_WRITE_OUTPUT || len_bytes <= 8, "a table entry of %u bytes", len_bytes);
    MUST(gpa >> guest->caps.maxphyaddr == 0, "gpa %" PRIx64, gpa);
    guest->requests++;
    span->kind = kind_of(guest, gpa);
    if (span->kind == VPT_SPAN_RAM && gpa >= RAM_BYTES)
        span->kind = VPT_SPAN_UNBACKED;
    span->len_bytes = len_bytes;
    if (guest->most_bytes && len_bytes > guest->most_bytes)
        span->len_bytes = guest->most_bytes;
    span->host = NULL;
    if (span->kind == VPT_SPAN_RAM)
        span->host = guest->ram + gpa;
    if (span->kind == VPT_SPAN_READONLY)
        span->host = guest->rom + (gpa & 4095);
    if (access == VPT_WRITE_OUTPUT) {
        guest->granted = gpa;
        guest->granted_bytes =
            span->kind == VPT_SPAN_RAM || span->kind == VPT_SPAN_MMIO ? span->len_bytes : 0;
    }
}

static void on_wrote(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    struct guest *guest = owner;

    MUST(gpa - guest->granted <= guest->granted_bytes &&
             len_bytes <= guest->granted_bytes - (gpa - guest->granted),
         "%u bytes at %" PRIx64 ", granted were %" PRIu64 " at %" PRIx64, len_bytes, gpa,
         guest->granted_bytes, guest->granted);
    memcpy(guest->shadow + gpa, bytes, len_bytes);
}

static void on_mmio(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    struct guest *guest = owner;

    (void)bytes;
    MUST(gpa == guest->granted && len_bytes <= guest->granted_bytes, "MMIO at %" PRIx64, gpa);
}

static void on_transport(void *owner, const uint8_t *bytes, uint32_t len_bytes)
{
    struct guest *guest = owner;

    (void)bytes;
    MUST(guest->cpu.ctl & VPT_CTL_FABRICEN, "%u bytes to the transport", len_bytes);
}

static void on_pmi(void *owner)
{
    struct guest *guest = owner;

    MUST(guest->cpu.perf_global_status & VPT_PERF_TOPA_PMI, "a PMI without bit 55");
    MUST(guest->cpu.ctl & VPT_CTL_TOPA || guest->cpu.ctl & VPT_CTL_INJECT_PSB_PMI, "who sent it?");
}

static void on_clocks(void *owner, struct vpt_clocks *clocks)
{
    *clocks = ((struct guest *)owner)->clocks;
}

static const struct vpt_ops ops = {
    .translate = on_translate,
    .wrote = on_wrote,
    .mmio = on_mmio,
    .transport = on_transport,
    .pmi = on_pmi,
    .clocks = on_clocks,
};

/* ---- What must always hold ------------------------------------------------------------------ */

static uint64_t read_msr(struct guest *guest, uint32_t msr)
{
    uint64_t first = 0x5a5a, second = 0xa5a5;
    enum vpt_result got = vpt_rdmsr(&guest->cpu, msr, &first);

    MUST(vpt_rdmsr(&guest->cpu, msr, &second) == got, "RDMSR %x is fickle", msr);
    if (got == VPT_GP) {
        MUST(first == 0x5a5a && second == 0xa5a5, "#GP of RDMSR %x left a value", msr);
        return 0;
    }
    MUST(first == second, "RDMSR %x reads %" PRIx64 ", then %" PRIx64, msr, first, second);
    return first;
}

static void check_pointers(struct guest *guest, uint64_t ctl)
{
    const struct vpt_cpu *cpu = &guest->cpu;
    uint64_t ptrs = read_msr(guest, VPT_MSR_OUTPUT_MASK_PTRS);
    uint64_t base = read_msr(guest, VPT_MSR_OUTPUT_BASE);

    if (!(guest->caps.leaf14_0_ecx & (VPT_CAP_TOPA | VPT_CAP_SNGLRGN)))
        return;
    MUST((ptrs & 0x7f) == 0x7f, "MASK_PTRS %" PRIx64, ptrs);
    MUST((base & 0x7f) == 0 && base >> guest->caps.maxphyaddr == 0, "OUTPUT_BASE %" PRIx64, base);
    if (!cpu->trigger_en || ctl & VPT_CTL_FABRICEN)
        return;
    if (!(ctl & VPT_CTL_TOPA))
        MUST(ptrs >> 32 <= (ptrs & 0xffffffff), "single range: %" PRIx64, ptrs);
    else if (cpu->region_bytes)
        MUST(ptrs >> 32 < cpu->region_bytes, "ToPA: offset %" PRIx64 " of %" PRIx64, ptrs >> 32,
             cpu->region_bytes);
}

static void check_invariants(struct guest *guest)
{
    const struct vpt_cpu *cpu = &guest->cpu;
    uint64_t ctl = read_msr(guest, VPT_MSR_CTL), status = read_msr(guest, VPT_MSR_STATUS);
    const uint64_t enables = VPT_STATUS_TRIGGEREN | VPT_STATUS_CONTEXTEN | VPT_STATUS_FILTEREN;

    MUST((ctl & CTL_RESERVED) == 0, "CTL %" PRIx64, ctl);
    MUST((status & STATUS_UNKNOWN) == 0, "STATUS %" PRIx64, status);
    if (status & (VPT_STATUS_ERROR | VPT_STATUS_STOPPED))
        MUST(!(status & VPT_STATUS_TRIGGEREN), "STATUS %" PRIx64, status);
    MUST(!!(status & VPT_STATUS_TRIGGEREN) == vpt_trigger_en(cpu), "STATUS %" PRIx64, status);
    if (vpt_trigger_en(cpu))
        MUST(ctl & VPT_CTL_TRACEEN, "TriggerEn without TraceEn");
    if (vpt_packet_en(cpu))
        MUST((status & enables) == enables && ctl & VPT_CTL_BRANCHEN,
             "PacketEn with STATUS %" PRIx64 " CTL %" PRIx64, status, ctl);
    else if (!cpu->wait_for_sipi)
        MUST((status & enables) != enables || !(ctl & VPT_CTL_BRANCHEN),
             "no PacketEn with STATUS %" PRIx64 " CTL %" PRIx64, status, ctl);
    if (!guest->caps.supported)
        MUST(!vpt_trigger_en(cpu), "tracing without PT");
    MUST(cpu->buf_len <= VPT_BUFFER_BYTES, "%u bytes are buffered", cpu->buf_len);
    MUST(cpu->ret_next < sizeof(cpu->ret_stack) && cpu->ret_next % 8 == 0, "the RET stack");
    MUST(cpu->tnt >= 1 && cpu->tnt < cpu->tnt_full, "TNT %" PRIx64, cpu->tnt);
    MUST(cpu->waiting_bytes <= cpu->waiting_limit && cpu->waiting_limit <= sizeof(cpu->waiting_ip),
         "%u bytes wait, of %u", cpu->waiting_bytes, cpu->waiting_limit);
    check_pointers(guest, ctl);
}

/* ---- What the guest does -------------------------------------------------------------------- */

static const uint32_t msrs[] = {
    VPT_MSR_OUTPUT_BASE,
    VPT_MSR_OUTPUT_MASK_PTRS,
    VPT_MSR_CTL,
    VPT_MSR_STATUS,
    VPT_MSR_CR3_MATCH,
    VPT_MSR_ADDR0_A,
    0x581,
    0x582,
    0x583,
    0x584,
    0x585,
    0x586,
    0x587,
    0x588,
    0x562,
    0x573,
    0x59f,
    0x56f,
    0x38e,
    0x38f,
    0x390,
    VPT_MSR_CTL,
    VPT_MSR_STATUS,
    VPT_MSR_CTL,
};

static uint64_t address(struct input *in)
{
    static const uint64_t bases[] = {0x400000,           0x401000,           0xffffffff81000000,
                                     0x7fffffffff00,     0xffff800000000000, 0,
                                     0xff11000000000000, 0xfffffffffffffff0};
    uint8_t how = byte(in);

    if (how & 0x80)
        return number(in, 8);
    return bases[how & 7] + (uint64_t)byte(in) * (1u << (how >> 3 & 15));
}

static uint64_t page(struct guest *guest, struct input *in)
{
    uint8_t how = byte(in);

    if (how < 128)
        return (uint64_t)(how % PAGES) << 12;
    if (how < 192)
        return guest->special[how % SPECIALS].page << 12;
    if (how < 224)
        return (1ull << guest->caps.maxphyaddr) - 4096;
    return number(in, 7) & ~0xfffull;
}

static void write_msr(struct guest *guest, uint32_t msr, uint64_t value, struct input *in)
{
    uint64_t before = read_msr(guest, msr), after;
    uint64_t ip = address(in);

    if (vpt_wrmsr(&guest->cpu, msr, value, ip, ip + 2) == VPT_GP) {
        after = read_msr(guest, msr);
        MUST(after == before, "#GP of WRMSR %x changed %" PRIx64 " to %" PRIx64, msr, before,
             after);
        return;
    }
    MUST(vpt_msr_owned(msr), "WRMSR %x", msr);
    after = read_msr(guest, msr);
    if (msr == VPT_MSR_CTL)
        MUST(after == value, "CTL := %" PRIx64 " reads %" PRIx64, value, after);
    if (msr == VPT_MSR_CR3_MATCH || (msr >= VPT_MSR_ADDR0_A && msr < 0x588))
        MUST(after == value, "%x := %" PRIx64 " reads %" PRIx64, msr, value, after);
    if (msr == VPT_MSR_OUTPUT_MASK_PTRS)
        MUST(after == (value | 0x7f), "561H := %" PRIx64 " reads %" PRIx64, value, after);
    if (msr == VPT_MSR_STATUS)
        MUST(!vpt_trigger_en(&guest->cpu), "STATUS was written while TriggerEn is 1");
}

/* A value of CTL that has a chance. */
static uint64_t likely_ctl(struct guest *guest, struct input *in)
{
    uint64_t value = number(in, 8) & ~CTL_RESERVED;
    uint8_t how = byte(in);

    if (how & 1)
        value = (value & ~0xffffull << 32) | (value >> 2 & 0x1111ull << 32);
    if (how & 2)
        value &= 0x3fff;
    if (how & 4)
        value |= VPT_CTL_TRACEEN | VPT_CTL_OS | VPT_CTL_BRANCHEN;
    if (how & 8)
        value = (value | VPT_CTL_TOPA) & ~VPT_CTL_FABRICEN;
    if (how & 16)
        value &= ~(VPT_CTL_CR3FILTER | VPT_CTL_PWREVTEN);
    if (how & 32)
        value &= 0xf0ffffffffull << 4 | 0xf;
    if (how & 64)
        value = guest->cpu.ctl ^ VPT_CTL_TRACEEN;
    return value;
}

static void poke_entry(struct guest *guest, struct input *in)
{
    uint64_t where = page(guest, in), entry = page(guest, in);
    uint8_t flags = byte(in), size = byte(in);

    where = (where & (RAM_BYTES - 1)) + 8 * (byte(in) % 8);
    if (where + 8 > RAM_BYTES || kind_of(guest, where) != VPT_SPAN_RAM)
        return;
    entry |= flags & (VPT_TOPA_END | VPT_TOPA_INT | VPT_TOPA_STOP);
    entry |= (uint64_t)(size & 15) << VPT_TOPA_SIZE_SHR;
    if (size >= 0xf0)
        entry ^= 1ull << (flags & 63);
    if (flags & 0x80)
        entry &= ~0xffffull | 0x15;
    memcpy(guest->ram + where, &entry, sizeof(entry));
    memcpy(guest->shadow + where, &entry, sizeof(entry));
}

static struct vpt_context context(struct input *in)
{
    uint8_t how = byte(in);

    return (struct vpt_context){
        .cr3 = (uint64_t)(how & 7) << 12,
        .cs_base = how & 0x40 ? number(in, 4) : 0,
        .cpl = how >> 3 & 3,
        .exec_mode = byte(in) % 3,
        .pae = how & 0x20,
        .interrupts = how & 0x80,
        .enclave = byte(in) == 7,
    };
}

static void transfer(struct guest *guest, struct input *in)
{
    struct vpt_transfer far = {.type = (enum vpt_transfer_type)(byte(in) % (VPT_FRED_SYSCALL + 1)),
                               .vector = byte(in),
                               .ip = address(in),
                               .target = address(in),
                               .cr2 = address(in)};

    far.after = context(in);
    vpt_transfer(&guest->cpu, &far);
}

/* Branches told at once, as far as the model takes them, some of which are no TNT bits. */
static void branches(struct guest *guest, unsigned count, uint64_t ip)
{
    struct vpt_cpu *const cpu = &guest->cpu;
    unsigned room = vpt_tnt_room(cpu);

    for (; count > 0 && room > 0; count--) {
        const uint64_t bits = ip >> count % 64;

        if (bits % 16 == 0) {
            room = vpt_branches_call(cpu, ip ^ bits, ip);
        } else if (bits % 16 == 1 && !vpt_ret_compresses(cpu, bits)) {
            room = vpt_branches_ret(cpu, bits);
        } else {
            cpu->tnt = cpu->tnt << 1 | (bits & 1);
            if (--room == 0)
                room = vpt_branches_told(cpu, ip);
        }
        MUST(guest->requests < MOST_REQUESTS, "%u requests in two calls", guest->requests);
        guest->requests = 0;
    }
    vpt_branches_told(cpu, ip);
    MUST(cpu->tnt < cpu->tnt_full, "%llx is a full TNT", (unsigned long long)cpu->tnt);
}

/* Many branches, so that regions fill and buffers overflow. */
static void burst(struct guest *guest, struct input *in)
{
    unsigned count = byte(in);
    uint64_t ip = address(in);

    if (count % 4 == 3 && vpt_is_fast(&guest->cpu)) {
        branches(guest, count, ip);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        vpt_jmp_indirect(&guest->cpu, ip);
        vpt_cond_branch(&guest->cpu, ip, i & 1);
        ip = ip * 5 + 0x123456789;
        MUST(guest->requests < MOST_REQUESTS, "%u requests in two calls", guest->requests);
        guest->requests = 0;
    }
}

static void time_passes(struct guest *guest, struct input *in)
{
    vpt_clocks_from_tsc(&guest->caps, guest->clocks.tsc + number(in, 1 + (byte(in) & 7)),
                        &guest->clocks);
    vpt_time(&guest->cpu);
}

static void near_branch(struct guest *guest, struct input *in)
{
    uint64_t ip = address(in);

    switch (byte(in) % 8) {
    case 0:
        vpt_cond_branch(&guest->cpu, ip, true);
        break;
    case 1:
        vpt_cond_branch(&guest->cpu, ip, false);
        break;
    case 2:
        vpt_jmp_direct(&guest->cpu, ip);
        break;
    case 3:
        vpt_call_direct(&guest->cpu, ip, address(in));
        break;
    case 4:
        vpt_jmp_indirect(&guest->cpu, ip);
        break;
    case 5:
        vpt_call_indirect(&guest->cpu, ip, address(in));
        break;
    case 6:
        vpt_ret(&guest->cpu, ip);
        break;
    case 7:
        if (vpt_ret_count(&guest->cpu))
            ip = *vpt_ret_at(&guest->cpu, vpt_ret_youngest(&guest->cpu));
        vpt_ret(&guest->cpu, ip);
        break;
    }
}

static void change_memory(struct guest *guest, struct input *in)
{
    uint8_t n = byte(in);
    static const uint64_t far_pages[] = {0x100000, 0x7ffff, 0xfee00, 0xfffffffff};

    n %= SPECIALS;
    guest->special[n].kind = (enum vpt_span_kind)(byte(in) % (VPT_SPAN_FAULT + 1));
    guest->special[n].page = byte(in);
    if (guest->special[n].page >= PAGES)
        guest->special[n].page = far_pages[guest->special[n].page % 4];
}

static void output_pointers(struct guest *guest, struct input *in)
{
    uint8_t how = byte(in);
    uint64_t low = how & 1 ? (0x80ull << (how >> 4)) - 1 : (uint64_t)(how >> 4) << 7;
    uint64_t offset = number(in, 2) >> (how >> 1 & 7);

    if (how & 8)
        low |= number(in, 4);
    write_msr(guest, VPT_MSR_OUTPUT_MASK_PTRS, offset << 32 | low, in);
}

static void transaction(struct guest *guest, struct input *in)
{
    const uint8_t what = byte(in);
    const uint64_t ip = address(in);

    if (what < 100)
        vpt_tx_begin(&guest->cpu, ip);
    else if (what < 150)
        vpt_tx_commit(&guest->cpu, ip);
    else
        vpt_tx_abort(&guest->cpu, ip, address(in));
}

static void power(struct guest *guest, struct input *in)
{
    const uint8_t what = byte(in);
    struct vpt_power_entry entry = {.ip = address(in),
                                    .mwait = what & 1,
                                    .hw = what & 2,
                                    .hints = byte(in),
                                    .ext = byte(in),
                                    .state = byte(in)};
    struct vpt_power_exit wake = {.last_core_state = entry.hints,
                                  .deepest_core_state = entry.ext,
                                  .reason = entry.state,
                                  .core_ratio = byte(in)};

    if (what < 100)
        vpt_power_entry(&guest->cpu, &entry);
    else if (what < 200)
        vpt_power_exit(&guest->cpu, &wake);
    else
        vpt_exec_stop(&guest->cpu, entry.ip);
}

static void trigger(struct guest *guest, struct input *in)
{
    const uint8_t how = byte(in);
    const struct vpt_trigger fired = {.fired = byte(in),
                                      .more = how & 1,
                                      .attributed = how & 6,
                                      .ip = address(in),
                                      .insns = how & 8 ? number(in, 3) : how >> 4};

    vpt_trigger(&guest->cpu, &fired);
}

static void pebs(struct guest *guest, struct input *in)
{
    struct vpt_block_item items[64];
    struct vpt_block blocks[4];
    const unsigned count = byte(in) % 5;

    for (unsigned i = 0; i < 64; i++)
        items[i] = (struct vpt_block_item){(uint8_t)(i + count), 0x100000001u * i};
    for (unsigned i = 0; i < count; i++) {
        blocks[i].type = byte(in);
        blocks[i].four_byte_items = blocks[i].type & 0x20;
        blocks[i].count = byte(in) % 65;
        blocks[i].items = items;
    }
    vpt_pebs(&guest->cpu, blocks, count, address(in));
}

/* SMM and authenticated code modules, also in orders that no processor knows. */
static void system_mode(struct guest *guest, struct input *in)
{
    const uint8_t what = byte(in);
    const struct vpt_context ctx = context(in);
    const uint64_t ip = address(in);

    switch (what % 8) {
    case 0:
    case 1:
        vpt_smi(&guest->cpu, ip);
        MUST(!vpt_trigger_en(&guest->cpu), "TriggerEn in SMM");
        break;
    case 2:
    case 3:
        vpt_rsm(&guest->cpu, what & 0x80, ip, &ctx);
        break;
    case 4:
        vpt_getsec(&guest->cpu, ip);
        break;
    case 5:
        vpt_acm_begin(&guest->cpu);
        break;
    case 6:
        vpt_acm_end(&guest->cpu, ip);
        break;
    case 7:
        vpt_shutdown(&guest->cpu, ip);
        break;
    }
}

static void vmx(struct guest *guest, struct input *in)
{
    static const uint32_t areas[] = {VPT_MSR_CTL, VPT_MSR_CR3_MATCH, VPT_MSR_STATUS, 0x1d9};
    const uint8_t what = byte(in), how = byte(in);
    const struct vpt_msr_load loads[] = {{areas[how & 3], likely_ctl(guest, in)},
                                         {areas[how >> 2 & 3], likely_ctl(guest, in)}};
    struct vpt_vm_entry entry = {.ip = address(in),
                                 .next_ip = address(in),
                                 .secondary = (uint32_t)(what & 3) << 24 | (what & 4u) << 17,
                                 .entry = (uint32_t)(how >> 4) << 17,
                                 .exit = (uint32_t)(how >> 6) << 24,
                                 .ept = what & 8,
                                 .guest_ctl = likely_ctl(guest, in),
                                 .loads = loads,
                                 .load_count = how % 3,
                                 .guest_ip = address(in),
                                 .guest = context(in),
                                 .outcome = (enum vpt_entry)(what >> 4 < 13 ? 0 : (what >> 4) - 13),
                                 .host_ip = address(in),
                                 .host = context(in),
                                 .from_smm = how == 7,
                                 .to_root = how == 9,
                                 .vmcs = address(in)};
    const struct vpt_vm_exit exit = {.ip = entry.guest_ip,
                                     .exit = entry.exit,
                                     .reason = how,
                                     .qualification = entry.guest_ctl,
                                     .by_event = what & 1,
                                     .vector = what,
                                     .loads = loads,
                                     .load_count = entry.load_count,
                                     .host_ip = entry.host_ip,
                                     .host = entry.host,
                                     .smm = (enum vpt_smm_exit)(how >> 5 < 6 ? 0 : (how >> 5) - 5),
                                     .vmcs = entry.vmcs};

    switch (byte(in) % 8) {
    case 0:
        vpt_vmxon(&guest->cpu, entry.ip);
        break;
    case 1:
        vpt_vmxoff(&guest->cpu);
        break;
    case 2:
        vpt_vmptrld(&guest->cpu, entry.vmcs);
        break;
    case 3:
    case 4:
    case 5:
        if (vpt_vm_entry(&guest->cpu, &entry) == VPT_ENTRY_FAILS_LATE)
            MUST(!guest->cpu.vmx_nonroot, "a failed entry");
        break;
    case 6:
        vpt_vm_exit(&guest->cpu, &exit);
        break;
    case 7:
        if (what < 10)
            vpt_vmx_abort(&guest->cpu, entry.ip);
        else
            vpt_insert_pip(&guest->cpu, entry.guest_ctl, &entry.guest, what & 1);
        break;
    }
}

/* A record of a saved processor that was taken (docs/save-format.md): its elements. */
static uint8_t *record(uint8_t *bytes, size_t len, unsigned number)
{
    for (size_t at = 12; at < len;) {
        const size_t size = bytes[at + 2] | (unsigned)bytes[at + 3] << 8;
        const size_t count = bytes[at + 4] | (unsigned)bytes[at + 5] << 8;

        if ((bytes[at] | (unsigned)bytes[at + 1] << 8) == number)
            return bytes + at + 8;
        at += 8 + size * count;
    }
    abort();
}

/* Entries of the CALL stack that do not count say nothing, and are saved as 0. */
static void blank_ret_stack(uint8_t *bytes, size_t len)
{
    const unsigned top = *record(bytes, len, 3);

    for (unsigned i = *record(bytes, len, 4); i < VPT_RET_STACK; i++)
        memset(record(bytes, len, 5) + 8 * (size_t)((top + VPT_RET_STACK - 1 - i) % VPT_RET_STACK),
               0, 8);
}

/* Migration to another struct vpt_cpu, with some of the bytes changed on the way. */
static void migrate(struct guest *guest, struct input *in)
{
    uint8_t bytes[VPT_SAVE_MAX_BYTES], again[VPT_SAVE_MAX_BYTES];
    const size_t len = vpt_save(&guest->cpu, bytes, sizeof(bytes));
    const unsigned changes = byte(in) % 4;
    struct vpt_cpu other;
    size_t cut = len;

    MUST(len > 0 && vpt_save(&guest->cpu, again, len - 1) == 0, "%zu bytes", len);
    for (unsigned i = 0; i < changes; i++) {
        const size_t at = number(in, 2) % len;

        bytes[at] = byte(in);
    }
    if (changes == 3)
        cut = number(in, 2) % (len + 1);
    MUST(vpt_init(&other, &guest->caps, &ops, guest), "vpt_init");
    if (!vpt_restore(&other, bytes, cut)) {
        MUST(cut == len && vpt_save(&other, again, sizeof(again)) == len, "another length");
        blank_ret_stack(bytes, len);
        MUST(memcmp(bytes, again, len) == 0, "what was restored is not what was saved");
        guest->cpu = other;
    } else {
        MUST(changes > 0, "a state of its own making: %s", vpt_restore(&other, bytes, len));
    }
}

/* What software and its VMM do: MSRs, tables, memory, resets. False: nothing of that. */
static bool configure(struct guest *guest, struct input *in, unsigned what)
{
    struct vpt_context ctx;

    switch (what) {
    case 0:
    case 1:
    case 2:
    case 3:
        what = byte(in) % (sizeof(msrs) / sizeof(msrs[0]));
        write_msr(guest, msrs[what], number(in, 8), in);
        return true;
    case 4:
    case 5:
        write_msr(guest, VPT_MSR_CTL, likely_ctl(guest, in), in);
        return true;
    case 6:
        write_msr(guest, VPT_MSR_OUTPUT_BASE, page(guest, in), in);
        return true;
    case 7:
        output_pointers(guest, in);
        return true;
    case 8:
    case 9:
        poke_entry(guest, in);
        return true;
    case 17:
        ctx = context(in);
        vpt_set_context(&guest->cpu, &ctx);
        return true;
    case 18:
        change_memory(guest, in);
        return true;
    case 20:
        if (byte(in) < 16)
            vpt_reset(&guest->cpu, byte(in) & 1 ? VPT_RESET_WARM : VPT_RESET_COLD);
        return true;
    case 29:
        migrate(guest, in);
        return true;
    default:
        return false;
    }
}

static void event(struct guest *guest, struct input *in, unsigned what)
{
    switch (what) {
    case 10:
        transfer(guest, in);
        break;
    case 11:
        vpt_mov_cr3(&guest->cpu, (uint64_t)byte(in) << 12, address(in));
        break;
    case 12:
        vpt_ptwrite(&guest->cpu, number(in, 4), byte(in) & 1 ? 8 : 4, address(in));
        break;
    case 13:
        vpt_interrupt_flag(&guest->cpu, byte(in) & 1, address(in));
        break;
    case 14:
        time_passes(guest, in);
        break;
    case 15:
        vpt_set_core_ratio(&guest->cpu, byte(in));
        break;
    case 16:
        vpt_flush(&guest->cpu);
        break;
    case 19:
        burst(guest, in);
        break;
    case 21:
        transaction(guest, in);
        break;
    case 22:
        power(guest, in);
        break;
    case 23:
        pebs(guest, in);
        break;
    case 24:
        system_mode(guest, in);
        break;
    case 25:
        vpt_stall(&guest->cpu, byte(in) & 1);
        break;
    case 26:
        vpt_maintenance(&guest->cpu, number(in, 8));
        break;
    case 27:
    case 28:
        vmx(guest, in);
        break;
    case 32:
        trigger(guest, in);
        break;
    default:
        near_branch(guest, in);
    }
}

static void operate(struct guest *guest, struct input *in)
{
    const unsigned what = byte(in) % 33u;

    if (!configure(guest, in, what))
        event(guest, in, what);
}

/* ---- One input ------------------------------------------------------------------------------ */

static bool choose_processor(struct guest *guest, struct input *in)
{
    const uint8_t how = byte(in), which = byte(in);

    if (!vpt_profile(vpt_profile_name(which % vpt_profile_count()), &guest->caps))
        return false;
    guest->caps.choices.tips_wait = which & 128;
    guest->caps.long_tnt = how & 1;
    guest->caps.deferred_tips = how & 2 && guest->caps.choices.layout == VPT_LAYOUT_DENSE;
    guest->caps.tsx = how & 4;
    if (how & 8)
        guest->caps.leaf14_0_ecx ^= VPT_CAP_LIP;
    if (how & 16)
        guest->caps.leaf14_0_ecx &= ~VPT_CAP_MENTRY;
    if (how & 32)
        guest->caps.topa_pmi_early_bytes = (uint32_t)number(in, 2);
    if (how & 64)
        guest->caps.maxphyaddr = (uint8_t)(32 + byte(in) % 21);
    if (how & 128) {
        static const uint8_t widths[] = {32, 48, 57};

        guest->caps.linear_bits = widths[byte(in) % 3];
    }
    return vpt_init(&guest->cpu, &guest->caps, &ops, guest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct guest *guest = calloc(1, sizeof(*guest));

    if (!guest)
        abort();
    guest->ram = calloc(1, RAM_BYTES); /* ASan watches its ends */
    guest->rom = calloc(1, 4096);
    if (!guest->ram || !guest->rom)
        abort();
    for (unsigned i = 0; i < SPECIALS; i++)
        guest->special[i].page = UINT64_MAX;
    guest->most_bytes = byte(&in) % 16;
    if (choose_processor(guest, &in)) {
        for (unsigned i = 0; i < OPERATIONS && in.left > 0; i++) {
            guest->requests = 0;
            operate(guest, &in);
            MUST(guest->requests < MOST_REQUESTS, "%u requests in one call", guest->requests);
            check_invariants(guest);
        }
        MUST(memcmp(guest->ram, guest->shadow, RAM_BYTES) == 0, "a store was not reported");
        for (unsigned i = 0; i < 4096; i++)
            MUST(guest->rom[i] == 0, "ROM was written at %u", i);
    }
    free(guest->ram);
    free(guest->rom);
    free(guest);
    return 0;
}
