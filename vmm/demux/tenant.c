/* SPDX-License-Identifier: BSD-3-Clause */
/* A guest that traces itself, see tenant.h. */
#include "demux/tenant.h"

#include <string.h>

#define PAGE_BYTES 4096u
#define TABLE_GPA  0x1000u
#define REGION_GPA 0x8000000u /* of 128 MiB, aligned to its size; it goes round */
#define SIZE_128M  15u
#define NOBODY     0u /* an address that no packet ever holds */

/* ---- What the model asks of its owner ---- */

static void translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    struct tenant *const tenant = owner;

    span->kind = VPT_SPAN_RAM;
    span->len_bytes = len_bytes;
    span->host = access == VPT_READ_TABLE ? (uint8_t *)tenant->table + gpa % sizeof(tenant->table)
                                          : tenant->page + gpa % PAGE_BYTES;
}

static void wrote(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    struct tenant *const tenant = owner;

    (void)gpa;
    tenant->bytes += len_bytes;
    if (!tenant->error)
        tenant->error = output_write(tenant->trace, bytes, len_bytes, tenant->why);
}

static void clocks(void *owner, struct vpt_clocks *now)
{
    struct tenant *const tenant = owner;

    if (tenant->clocks.tsc != tenant->tsc) /* most times that are told are never asked for */
        vpt_clocks_from_tsc(&tenant->cpu.caps, tenant->tsc, &tenant->clocks);
    *now = tenant->clocks;
}

static const struct vpt_ops ops = {.translate = translate, .wrote = wrote, .clocks = clocks};

/* ---- Configuration ---- */

static bool write_msrs(struct tenant *tenant, const struct tenant_config *config)
{
    struct vpt_cpu *const cpu = &tenant->cpu;
    bool ok = vpt_wrmsr(cpu, VPT_MSR_OUTPUT_BASE, TABLE_GPA, 0, 0) == VPT_OK &&
              vpt_wrmsr(cpu, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f, 0, 0) == VPT_OK;

    if (config->caps.leaf14_0_ebx & VPT_CAP_CR3FILTER)
        ok = ok && vpt_wrmsr(cpu, VPT_MSR_CR3_MATCH, config->cr3_match, 0, 0) == VPT_OK;
    for (uint32_t n = 0; ok && n < VPT_MAX_RANGES; n++) {
        if (!config->range[n][0] && !config->range[n][1])
            continue;
        ok = vpt_wrmsr(cpu, VPT_MSR_ADDR0_A + 2 * n, config->range[n][0], 0, 0) == VPT_OK &&
             vpt_wrmsr(cpu, VPT_MSR_ADDR0_A + 2 * n + 1, config->range[n][1], 0, 0) == VPT_OK;
    }
    /* Written and cleared again, so that a setting that is reserved shows at once. */
    return ok && vpt_wrmsr(cpu, VPT_MSR_CTL, tenant->ctl & ~VPT_CTL_TRACEEN, 0, 0) == VPT_OK;
}

bool tenant_open(struct tenant *tenant, const struct tenant_config *config, struct output *trace,
                 struct code_out *code, struct reason *why)
{
    struct vpt_caps caps = config->caps;

    memset(tenant, 0, sizeof(*tenant));
    tenant->trace = trace;
    tenant->code = code;
    tenant->why = why;
    tenant->hides_cr3 = config->hides_cr3;
    tenant->ctl = config->ctl | VPT_CTL_TOPA | VPT_CTL_TRACEEN;
    tenant->table[0] = REGION_GPA | SIZE_128M << VPT_TOPA_SIZE_SHR;
    tenant->table[1] = TABLE_GPA | VPT_TOPA_END;
    /* Of an address space that is not traced from the start, the PSB+ comes with its CR3. */
    caps.choices.psb_twice = true;
    if (!vpt_init(&tenant->cpu, &caps, &ops, tenant) || !write_msrs(tenant, config))
        return false;
    vpt_vmxon(&tenant->cpu, NOBODY);
    return true;
}

void tenant_new_time(struct tenant *tenant)
{
    tenant->has_tsc = false;
}

void tenant_time(struct tenant *tenant, uint64_t tsc)
{
    if (tenant->has_tsc && tsc <= tenant->tsc)
        return;
    tenant->has_tsc = true;
    tenant->tsc = tsc;
}

/* ---- Entries and exits ---- */

static void vm_entry(struct tenant *tenant, uint64_t ip, const struct vpt_context *context)
{
    const struct vpt_vm_entry entry = {.ip = NOBODY,
                                       .next_ip = NOBODY,
                                       .secondary = VPT_SECONDARY_CONCEAL,
                                       .entry = VPT_ENTRY_CONCEAL | VPT_ENTRY_LOAD_CTL,
                                       .exit = VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL,
                                       .guest_ctl = tenant->ctl,
                                       .guest_ip = ip,
                                       .guest = *context};

    (void)vpt_vm_entry(&tenant->cpu, &entry);
}

static void vm_exit(struct tenant *tenant, uint64_t ip)
{
    const struct vpt_vm_exit exit = {
        .ip = ip, .exit = VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL, .host_ip = NOBODY};

    (void)vpt_vm_exit(&tenant->cpu, &exit);
}

/*
 * An overflow that ends where nothing is traced, so that it says no address. State may be another
 * one by the next entry.
 */
static void tell_gap(struct tenant *tenant)
{
    struct vpt_transfer away = {
        .type = VPT_FAR_BRANCH, .ip = NOBODY, .target = NOBODY, .after = tenant->context};

    away.after.enclave = true;
    if (!tenant->is_inside)
        vm_entry(tenant, NOBODY, &away.after);
    vpt_flush_branches(&tenant->cpu);
    vpt_overflow(&tenant->cpu);
    vpt_transfer(&tenant->cpu, &away);
    vm_exit(tenant, NOBODY);
    tenant->gaps++;
    tenant->is_synced = false;
    tenant->is_lost = tenant->is_cut = tenant->is_inside = tenant->has_cr3 = false;
    tenant->is_at_gap = true;
}

void tenant_enter(struct tenant *tenant, uint64_t ip, const struct vpt_context *context)
{
    if (tenant->is_lost && tenant->entries > 0)
        tell_gap(tenant);
    else if (tenant->has_cr3 && context->cr3 != tenant->cr3)
        (void)vpt_insert_pip(&tenant->cpu, tenant->ctl, context, false);
    tenant->is_lost = tenant->is_at_gap = false;
    tenant->is_inside = true;
    tenant->entries++;
    tenant->context = *context;
    if (!tenant->is_synced)
        vpt_psb(&tenant->cpu, ip);
    vm_entry(tenant, ip, context);
    tenant_moved(tenant);
}

void tenant_moved(struct tenant *tenant)
{
    tenant->is_synced = tenant->is_synced || vpt_packet_en(&tenant->cpu);
}

void tenant_leave(struct tenant *tenant, uint64_t ip)
{
    if (!tenant->is_inside)
        return;
    tenant->cr3 = tenant->context.cr3;
    tenant->has_cr3 = true;
    tenant->is_inside = false;
    vm_exit(tenant, ip);
}

void tenant_lose(struct tenant *tenant, bool off)
{
    if (tenant->is_inside)
        tell_gap(tenant);
    else
        tenant_miss(tenant, off);
}

void tenant_miss(struct tenant *tenant, bool off)
{
    if (tenant->is_at_gap)
        return;
    tenant->is_lost = true;
    tenant->is_cut = tenant->is_cut || !off;
}

int tenant_close(struct tenant *tenant)
{
    if (tenant->is_cut && tenant->entries > 0)
        tell_gap(tenant);
    vpt_flush_branches(&tenant->cpu);
    vpt_flush(&tenant->cpu);
    return tenant->error;
}

/* ---- Code ---- */

static uint64_t offset_of(const struct tenant *tenant)
{
    return tenant->bytes + tenant->cpu.buf_len;
}

/* Bytes of one page. */
static void put_code(struct tenant *tenant, uint64_t cr3, uint64_t address, const uint8_t *bytes,
                     size_t len)
{
    const enum code_news news = code_out_look(tenant->code, cr3, address, bytes, len);

    if (news == CODE_SAME || tenant->error)
        return;
    if (news == CODE_CHANGED) /* what ran before ran through the code as it was */
        vpt_flush_branches(&tenant->cpu);
    tenant->error =
        code_out_add(tenant->code, offset_of(tenant), cr3, address, bytes, len, tenant->why);
}

bool tenant_has_spaces(const struct tenant *tenant)
{
    return (tenant->ctl & VPT_CTL_OS) && !tenant->hides_cr3;
}

bool tenant_wants_code(const struct tenant *tenant)
{
    return vpt_packet_en(&tenant->cpu) || tenant->cpu.ranges;
}

void tenant_code(struct tenant *tenant, const struct ptd_image *image, uint64_t space,
                 uint64_t begin, uint64_t end)
{
    const uint64_t cr3 = tenant_has_spaces(tenant) ? tenant->context.cr3 : 0;

    while (begin != end) {
        const uint8_t *bytes;
        size_t len;

        if (ptd_image_find(image, space, begin, &bytes, &len) != PTD_OK)
            return;
        if (len > end - begin)
            len = (size_t)(end - begin);
        if (len > PAGE_BYTES - begin % PAGE_BYTES)
            len = PAGE_BYTES - begin % PAGE_BYTES;
        put_code(tenant, cr3, begin, bytes, len);
        begin += len;
    }
}

void tenant_base(struct tenant *tenant, uint64_t end, uint64_t base)
{
    if (!tenant->error)
        tenant->error = code_out_base(tenant->code, offset_of(tenant), end, base, tenant->why);
}
