/* SPDX-License-Identifier: BSD-3-Clause */
/* A processor of the model that repeats what another did, see rig.h. */
#include <stdlib.h>
#include <string.h>

#include "rig.h"

#define PAGE_BYTES 4096u
#define TABLE_GPA  0x1000ull
#define REGION_GPA 0x8000000ull /* of 128 MiB, aligned to its size */
#define SIZE_128M  15ull
#define NOT_FIRST  (1ull << VPT_STATUS_BYTECNT_SHR) /* PacketByteCnt: a PSB was sent already */

/* ---- What the model asks of its owner ---- */

static void translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    struct rig *const rig = owner;

    span->kind = VPT_SPAN_RAM;
    span->len_bytes = len_bytes;
    span->host = access == VPT_READ_TABLE ? (uint8_t *)rig->table + gpa % sizeof(rig->table)
                                          : rig->page + gpa % PAGE_BYTES;
}

static void wrote(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    struct rig *const rig = owner;

    (void)gpa;
    if (rig->len_bytes + len_bytes > rig->room) {
        const size_t room = 2 * (rig->len_bytes + len_bytes);
        uint8_t *const more = realloc(rig->bytes, room);

        if (!more) {
            rig->no_memory = true;
            return;
        }
        rig->bytes = more;
        rig->room = room;
    }
    memcpy(rig->bytes + rig->len_bytes, bytes, len_bytes);
    rig->len_bytes += len_bytes;
}

void rig_catch_up(struct rig *rig)
{
    if (rig->has_late)
        rig->clocks = rig->late;
    rig->has_late = false;
}

static void clocks(void *owner, struct vpt_clocks *now)
{
    struct rig *const rig = owner;

    *now = rig->clocks;
    rig_catch_up(rig);
}

static const struct vpt_ops ops = {.translate = translate, .wrote = wrote, .clocks = clocks};

/* ---- The processor ---- */

bool rig_open(struct rig *rig, const struct rig_config *config, uint64_t offset)
{
    const uint64_t in_region = offset % PAGE_BYTES;

    memset(rig, 0, sizeof(*rig));
    if (!vpt_init(&rig->cpu, &config->caps, &ops, rig))
        return false;
    rig->ctl = config->ctl | VPT_CTL_TOPA;
    rig->mtc_freq = (uint8_t)(config->ctl >> VPT_CTL_MTCFREQ_SHR & 0xf);
    rig->table[0] = REGION_GPA | SIZE_128M << VPT_TOPA_SIZE_SHR;
    rig->table[1] = TABLE_GPA | VPT_TOPA_END;

    bool ok = vpt_wrmsr(&rig->cpu, VPT_MSR_OUTPUT_BASE, TABLE_GPA, 0, 0) == VPT_OK &&
              vpt_wrmsr(&rig->cpu, VPT_MSR_OUTPUT_MASK_PTRS, in_region << 32, 0, 0) == VPT_OK &&
              vpt_wrmsr(&rig->cpu, VPT_MSR_CTL, rig->ctl, 0, 0) == VPT_OK;

    for (uint32_t n = 0; ok && n < VPT_MAX_RANGES; n++)
        ok = vpt_wrmsr(&rig->cpu, VPT_MSR_ADDR0_A + 2 * n, config->range[n][0], 0, 0) == VPT_OK &&
             vpt_wrmsr(&rig->cpu, VPT_MSR_ADDR0_A + 2 * n + 1, config->range[n][1], 0, 0) == VPT_OK;
    return ok;
}

void rig_close(struct rig *rig)
{
    free(rig->bytes);
    rig->bytes = NULL;
}

static void turn_vmx_on(struct rig *rig)
{
    if (!rig->vmx_on)
        vpt_vmxon(&rig->cpu, RIG_ELSEWHERE);
    rig->vmx_on = true;
}

void rig_load_vmcs(struct rig *rig, uint64_t vmcs)
{
    turn_vmx_on(rig);
    vpt_vmptrld(&rig->cpu, vmcs);
}

void rig_switch(struct rig *rig, bool nr, uint64_t to, const struct vpt_context *context)
{
    const struct vpt_vm_entry entry = {
        .ip = RIG_ELSEWHERE, .next_ip = RIG_ELSEWHERE, .guest_ip = to, .guest = *context};
    const struct vpt_vm_exit exit = {.ip = RIG_ELSEWHERE, .host_ip = to, .host = *context};

    if (nr) {
        turn_vmx_on(rig);
        (void)vpt_vm_entry(&rig->cpu, &entry);
    } else {
        (void)vpt_vm_exit(&rig->cpu, &exit);
    }
}

void rig_set_vmx(struct rig *rig, bool nr, bool has_vmcs, uint64_t vmcs,
                 const struct vpt_context *context)
{
    if (!nr && vpt_nonroot(&rig->cpu))
        rig_switch(rig, false, RIG_ELSEWHERE, context);
    if (has_vmcs)
        rig_load_vmcs(rig, vmcs);
    if (nr && !vpt_nonroot(&rig->cpu))
        rig_switch(rig, true, RIG_ELSEWHERE, context);
}

void rig_enable(struct rig *rig, const struct vpt_context *context, uint64_t next_ip, bool psb)
{
    (void)vpt_wrmsr(&rig->cpu, VPT_MSR_STATUS, NOT_FIRST, 0, 0);
    if (psb)
        vpt_psb(&rig->cpu, next_ip);
    vpt_set_context(&rig->cpu, context);
    (void)vpt_wrmsr(&rig->cpu, VPT_MSR_CTL, rig->ctl | VPT_CTL_TRACEEN, RIG_ELSEWHERE, next_ip);
}

void rig_disable(struct rig *rig, uint64_t ip)
{
    (void)vpt_wrmsr(&rig->cpu, VPT_MSR_CTL, rig->ctl, ip, ip);
}

/* ---- Clocks ---- */

void rig_see_tsc(struct rig *rig, uint64_t tsc, uint64_t cycles)
{
    rig_catch_up(rig);
    rig->late = rig->clocks;
    rig->late.tsc = tsc;
    rig->late.cycles += cycles;
    rig->has_late = true;
    if (!(rig->ctl & (VPT_CTL_MTCEN | VPT_CTL_CYCEN)))
        rig_catch_up(rig); /* nobody looks before */
}

void rig_see_cyc(struct rig *rig, uint64_t cycles)
{
    rig_catch_up(rig);
    rig->clocks.cycles += cycles;
}

/* The crystal clock, whose lower 16 bits are told. */
static uint64_t clock_of(uint64_t art, uint16_t ctc)
{
    const uint64_t now = (art & ~(uint64_t)0xffff) | ctc;

    return now < art ? now + 0x10000 : now;
}

void rig_see_tma(struct rig *rig, uint16_t ctc, uint16_t fast)
{
    struct vpt_clocks *const when = rig->has_late ? &rig->late : &rig->clocks;

    when->art = clock_of(when->art, ctc);
    when->fast = fast;
    rig->mtc_count = when->art >> rig->mtc_freq;
}

bool rig_skips_mtc(const struct rig *rig, uint16_t ctc)
{
    return (rig->ctl & VPT_CTL_MTCEN) &&
           clock_of(rig->clocks.art, ctc) >> rig->mtc_freq != rig->mtc_count;
}

void rig_see_mtc(struct rig *rig, uint8_t mtc)
{
    rig_catch_up(rig);
    rig->mtc_count += (uint8_t)(mtc - (uint8_t)rig->mtc_count);
    rig->clocks.art = rig->mtc_count << rig->mtc_freq;
}

const uint8_t *rig_take(struct rig *rig, size_t *len_bytes)
{
    vpt_flush(&rig->cpu);
    *len_bytes = rig->len_bytes;
    rig->len_bytes = 0;
    return rig->bytes;
}
