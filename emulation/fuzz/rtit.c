/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile guest with RTIT, for libFuzzer: MSR values and events as the input likes. Whatever it
 * does: no store outside the ring, #GP changes nothing, the enables obey 2.1, reserved bits stay 0.
 */
#include "input.h"
#include "vpt_rtit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RAM_BYTES 65536u

struct guest {
    struct vpt_rtit cpu;
    struct vpt_clocks clocks;
    uint8_t *ram;
    enum vpt_span_kind other; /* what stands outside RAM */
    uint32_t most_bytes;
};

static void on_translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                         struct vpt_span *span)
{
    struct guest *guest = owner;
    const uint64_t base = guest->cpu.base_addr & ~(uint64_t)guest->cpu.limit_mask;

    MUST(access == VPT_WRITE_OUTPUT && len_bytes > 0 && len_bytes <= 4096 &&
             (gpa & 4095) + len_bytes <= 4096,
         "gpa %" PRIx64 " length %u", gpa, len_bytes);
    MUST(gpa - base <= guest->cpu.limit_mask || (gpa & 0xff) == 0xc0, "gpa %" PRIx64, gpa);
    span->kind = gpa + len_bytes <= RAM_BYTES ? VPT_SPAN_RAM : guest->other;
    span->host = span->kind == VPT_SPAN_RAM ? guest->ram + gpa : NULL;
    span->len_bytes =
        guest->most_bytes && guest->most_bytes < len_bytes ? guest->most_bytes : len_bytes;
}

static void on_clocks(void *owner, struct vpt_clocks *clocks)
{
    *clocks = ((struct guest *)owner)->clocks;
}

static const struct vpt_ops ops = {.translate = on_translate, .clocks = on_clocks};

static void check(struct guest *guest)
{
    const struct vpt_rtit *cpu = &guest->cpu;
    uint64_t status = 0;

    MUST(cpu->buf_len <= VPT_RTIT_BUFFER_BYTES, "%u bytes", cpu->buf_len);
    MUST(cpu->tnt_buff >= 1 && cpu->tnt_buff < 0x80, "TNT %x", cpu->tnt_buff);
    MUST((cpu->ctl & 0xffff0060) == 0 && cpu->cntp <= 0x3fffff && cpu->offset <= 0x3fffff,
         "CTL %x, CNTP %x, OFFSET %x", cpu->ctl, cpu->cntp, cpu->offset);
    MUST((cpu->pkt_cnt & ~0x33fffu) == 0, "PKT_CNT %x", cpu->pkt_cnt);
    if (vpt_rtit_rdmsr(&guest->cpu, VPT_RTIT_STATUS, &status) == VPT_OK)
        MUST(!!(status & VPT_RTIT_STATUS_TRIGGEREN) == ((cpu->ctl & 0x2001) == 0x2001),
             "STATUS %" PRIx64, status);
}

static void write_msr(struct guest *guest, struct input *in)
{
    const uint32_t msr = VPT_RTIT_LIP0 + (uint32_t)number(in, 1) % 0x22;
    const uint64_t value = number(in, (unsigned)number(in, 1) % 9);
    uint64_t before = 0, after = 0;
    const enum vpt_result readable = vpt_rtit_rdmsr(&guest->cpu, msr, &before);

    if (vpt_rtit_wrmsr(&guest->cpu, msr, value, number(in, 6)) == VPT_OK || msr == VPT_RTIT_CTL)
        return;
    MUST(vpt_rtit_rdmsr(&guest->cpu, msr, &after) == readable && after == before,
         "#GP of %x changed %" PRIx64, msr, before);
}

static void event(struct guest *guest, struct input *in)
{
    const uint8_t how = (uint8_t)number(in, 1);
    struct vpt_rtit_event told = {.kind = (enum vpt_rtit_kind)(number(in, 1) % 12),
                                  .taken = how & 1,
                                  .prefixes = how >> 5,
                                  .nlip = number(in, 6),
                                  .target = number(in, 6),
                                  .from = number(in, 6)};

    told.after = (struct vpt_rtit_context){.cr3 = (uint64_t)(how & 6) << 11,
                                           .cpl = how >> 3 & 3,
                                           .paging = how & 32,
                                           .smm = (how & 0xc0) == 0xc0,
                                           .vmx_root = (how & 0xe0) == 0xa0};
    for (unsigned i = 0; i < (how & 16 ? 40u : 1u); i++) {
        guest->clocks.cycles += how;
        guest->clocks.tsc += 3u * how;
        vpt_rtit_event(&guest->cpu, &told);
        told.target += 0x1000003;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct guest *guest = calloc(1, sizeof(*guest));
    uint64_t value;

    if (!guest)
        abort();
    guest->ram = calloc(1, RAM_BYTES);
    if (!guest->ram || !vpt_rtit_init(&guest->cpu, (uint32_t)number(&in, 2) & 0x1fe, &ops, guest))
        abort();
    guest->other = (enum vpt_span_kind)(number(&in, 1) % (VPT_SPAN_FAULT + 1));
    if (guest->other == VPT_SPAN_RAM)
        guest->other = VPT_SPAN_UNBACKED;
    guest->most_bytes = (uint32_t)number(&in, 1) % 9;
    if (number(&in, 1) & 7)
        vpt_rtit_rdmsr(&guest->cpu, VPT_RTIT_CTL, &value);
    for (unsigned i = 0; i < 300 && in.left > 0; i++) {
        switch (number(&in, 1) % 6) {
        case 0:
        case 1:
            write_msr(guest, &in);
            break;
        case 2:
            vpt_rtit_stall(&guest->cpu, number(&in, 1) & 1);
            break;
        case 3:
            vpt_rtit_sync(&guest->cpu, (uint8_t)number(&in, 1), (uint8_t)number(&in, 1));
            break;
        default:
            event(guest, &in);
            break;
        }
        check(guest);
    }
    free(guest->ram);
    free(guest);
    return 0;
}
