/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory, clocks and the stream of bytes; see owner.h. */
#include "roundtrip/invariants/owner.h"

#include <string.h>

static bool in_hole(uint64_t gpa)
{
    return gpa >= OWNER_RAM / 2;
}

static bool faults(struct owner *owner, uint64_t gpa)
{
    const uint16_t page = (uint16_t)(1u << (gpa >> 12 & 15));

    if (!vpt_output_by_ept(&owner->cpu))
        return false;
    if (owner->ept_hole && !(owner->granted & page))
        return true;
    owner->granted |= page;
    return false;
}

static void on_translate(void *context, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                         struct vpt_span *span)
{
    struct owner *const owner = context;

    span->len_bytes = len_bytes;
    span->host = NULL;
    span->kind = VPT_SPAN_RAM;
    if (faults(owner, gpa)) {
        span->kind = VPT_SPAN_FAULT;
        owner->faulted++;
        return;
    }
    if (access == VPT_WRITE_OUTPUT && in_hole(gpa)) {
        if (owner->unbacked)
            span->kind = VPT_SPAN_UNBACKED;
        else if (owner->restricted)
            span->kind = VPT_SPAN_RESTRICTED;
        else if (owner->mmio)
            span->kind = VPT_SPAN_MMIO;
    }
    if (gpa + len_bytes > OWNER_RAM)
        span->kind = VPT_SPAN_UNBACKED;
    if (span->kind == VPT_SPAN_RAM)
        span->host = owner->ram + gpa;
    owner->answered += span->kind == VPT_SPAN_UNBACKED;
}

static void keep(struct owner *owner, const uint8_t *bytes, uint32_t len_bytes)
{
    if (len_bytes > sizeof(owner->out) - owner->out_len)
        len_bytes = (uint32_t)sizeof(owner->out) - owner->out_len;
    memcpy(owner->out + owner->out_len, bytes, len_bytes);
    owner->out_len += len_bytes;
}

static void on_wrote(void *context, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    struct owner *const owner = context;

    (void)bytes; /* what memory holds now counts */
    keep(owner, owner->ram + gpa, len_bytes);
}

static void on_mmio(void *context, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    (void)gpa;
    keep(context, bytes, len_bytes);
}

static void on_transport(void *context, const uint8_t *bytes, uint32_t len_bytes)
{
    keep(context, bytes, len_bytes);
}

static void on_pmi(void *context)
{
    (void)context;
}

static void on_clocks(void *context, struct vpt_clocks *clocks)
{
    *clocks = ((struct owner *)context)->clocks;
}

static const struct vpt_ops ops = {
    .translate = on_translate,
    .wrote = on_wrote,
    .mmio = on_mmio,
    .transport = on_transport,
    .pmi = on_pmi,
    .clocks = on_clocks,
};

bool owner_open(struct owner *owner, const struct vpt_caps *caps)
{
    memset(owner, 0, sizeof(*owner));
    return vpt_init(&owner->cpu, caps, &ops, owner);
}

void owner_begin(struct owner *owner)
{
    owner->answered = 0;
    owner->faulted = 0;
    owner->out_len = 0;
    owner->before_len = owner->cpu.buf_len;
    memcpy(owner->before, owner->cpu.buf, owner->before_len);
}

bool owner_end(struct owner *owner, const uint8_t **bytes, size_t *len_bytes)
{
    uint32_t old = 0, at = 0;

    keep(owner, owner->cpu.buf, owner->cpu.buf_len); /* what still waits follows what went out */
    while (old < owner->before_len && at < owner->out_len) {
        if (owner->out[at] == owner->before[old])
            old++;
        else if (owner->out[at] != 0) /* a PAD may come to stand in front of a packet that waits */
            break;
        at++;
    }
    *bytes = owner->out + at;
    *len_bytes = owner->out_len - at;
    return old == owner->before_len;
}

const char *owner_migrate(struct owner *owner)
{
    static uint8_t saved[VPT_SAVE_MAX_BYTES], again[VPT_SAVE_MAX_BYTES];
    const struct vpt_caps caps = owner->cpu.caps;
    const size_t len = vpt_save(&owner->cpu, saved, sizeof(saved));
    const char *wrong;

    if (len == 0 || !vpt_init(&owner->cpu, &caps, &ops, owner))
        return "the processor cannot be saved";
    wrong = vpt_restore(&owner->cpu, saved, len);
    if (wrong)
        return wrong;
    if (vpt_save(&owner->cpu, again, sizeof(again)) != len || memcmp(saved, again, len) != 0)
        return "saved again, the processor is another one";
    return NULL;
}
