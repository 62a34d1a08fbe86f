/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Save and restore (docs/save-format.md): a header, the capabilities, and one record for each
 * field of struct vpt_cpu. What follows from other fields is not saved but computed again.
 *
 * The bytes are hostile: they come from another machine. Every value is checked against what the
 * model itself could have, so that nothing later needs to distrust the state.
 */
#include "save.h"
#include "enables.h"
#include "little_endian.h"
#include "msr.h"
#include "processor.h"

#include <string.h>

#define MAGIC        0x31535056u /* "VPS1" */
#define VERSION      1u
#define HEADER_BYTES 12u /* magic, version, length of the whole */
#define RECORD_BYTES 8u  /* number, size of an element, how many elements */

#define FIELD(number, member, ...)                                                                 \
    {                                                                                              \
        number, sizeof(((struct vpt_cpu *)0)->member), 1, offsetof(struct vpt_cpu, member),        \
            __VA_ARGS__, #member                                                                   \
    }
#define ELEMENTS(number, member, element, ...)                                                     \
    {                                                                                              \
        number, sizeof(element), sizeof(((struct vpt_cpu *)0)->member) / sizeof(element),          \
            offsetof(struct vpt_cpu, member), __VA_ARGS__, #member                                 \
    }
/* flag, same, added */
#define NUMBER(number, member)               FIELD(number, member, false, false, false)
#define FLAG(number, member)                 FIELD(number, member, true, false, false)
#define SAME_NUMBER(number, member)          FIELD(number, member, false, true, false)
#define SAME_FLAG(number, member)            FIELD(number, member, true, true, false)
#define ADDED_NUMBER(number, member)         FIELD(number, member, false, false, true)
#define ADDED_FLAG(number, member)           FIELD(number, member, true, false, true)
#define ARRAY(number, member, element)       ELEMENTS(number, member, element, false, false, false)
#define ADDED_ARRAY(number, member, element) ELEMENTS(number, member, element, false, false, true)

/*
 * Numbers are for ever. A new field gets a new number; a field that goes leaves a gap (41).
 * emulation/tests/save.c reads vpt.h and vpt_caps.h, and fails if a member is missing here.
 */
const struct vpt_saved_field vpt_saved_fields[] = {
    NUMBER(1, tnt),
    NUMBER(2, tnt_full),
    NUMBER(3, ret_top),
    NUMBER(4, ret_count),
    ARRAY(5, ret_stack, uint64_t),
    NUMBER(6, ctl),
    NUMBER(7, status),
    NUMBER(8, cr3_match),
    NUMBER(9, output_base),
    NUMBER(10, output_mask_ptrs),
    ARRAY(11, addr, uint64_t),
    NUMBER(12, perf_global_status),
    NUMBER(13, perf_global_ctrl),
    FLAG(14, trigger_en),
    FLAG(15, context_en),
    FLAG(16, filter_en),
    FLAG(17, packet_en),
    NUMBER(18, ctx.cr3),
    NUMBER(19, ctx.cs_base),
    NUMBER(20, ctx.cpl),
    NUMBER(21, ctx.exec_mode),
    FLAG(22, ctx.pae),
    FLAG(23, ctx.interrupts),
    FLAG(24, ctx.enclave),
    NUMBER(25, last_ip),
    NUMBER(26, mode_sent),
    NUMBER(27, core_ratio),
    FLAG(28, ip_full),
    FLAG(29, overflow),
    FLAG(30, boundary_due),
    FLAG(31, stalled),
    FLAG(32, in_tx),
    FLAG(33, asleep),
    FLAG(34, wait_for_sipi),
    FLAG(35, acm),
    FLAG(36, vmx_on),
    FLAG(37, vmx_nonroot),
    NUMBER(38, vmx_secondary),
    NUMBER(39, vmcs),
    NUMBER(40, bytes_since_psb),
    NUMBER(42, overflow_count),
    NUMBER(43, now.tsc),
    NUMBER(44, now.art),
    NUMBER(45, now.fast),
    NUMBER(46, now.cycles),
    NUMBER(47, cyc_base),
    NUMBER(48, mtc_count),
    NUMBER(49, deferred_count),
    ARRAY(50, deferred_ip, uint64_t),
    NUMBER(51, region_base),
    NUMBER(52, region_bytes),
    FLAG(53, region_int),
    FLAG(54, region_stop),
    FLAG(55, pmi_early_done),
    FLAG(56, output_blocked),
    NUMBER(57, fault_access),
    NUMBER(58, fault_gpa),
    NUMBER(59, output_bytes),
    NUMBER(60, dropped_bytes),
    NUMBER(61, packet_count),
    NUMBER(62, buf_len),
    ARRAY(63, buf, uint8_t),
    FLAG(64, output_ept),
    ADDED_FLAG(65, psb_again),
    ADDED_NUMBER(66, line_group),
    ADDED_FLAG(67, in_smm),
    ADDED_FLAG(68, smm_vmx_on),
    ADDED_FLAG(69, smm_vmx_nonroot),
    ADDED_FLAG(70, untouched),
    ADDED_NUMBER(71, start_status),
    ADDED_NUMBER(72, start_bytes),
    ADDED_NUMBER(73, waiting_ctl),
    ADDED_NUMBER(74, waiting_bytes),
    ADDED_ARRAY(75, waiting_ip, uint64_t),
    ADDED_ARRAY(76, waiting_tnt, uint64_t),
    ADDED_FLAG(80, branch_told),
    /*
     * The capabilities. What a guest can enumerate, the restored processor must have. What it
     * cannot is a choice of the processor that was saved, which goes on as it was.
     */
    SAME_NUMBER(128, caps.leaf14_0_ebx),
    SAME_NUMBER(129, caps.leaf14_0_ecx),
    SAME_NUMBER(130, caps.leaf14_1_eax),
    SAME_NUMBER(131, caps.leaf14_1_ebx),
    SAME_NUMBER(132, caps.tsc_den),
    SAME_NUMBER(133, caps.tsc_num),
    SAME_NUMBER(134, caps.crystal_hz),
    SAME_NUMBER(135, caps.topa_pmi_early_bytes),
    SAME_NUMBER(136, caps.maxphyaddr),
    SAME_NUMBER(137, caps.linear_bits),
    SAME_NUMBER(138, caps.max_nonturbo_ratio),
    SAME_NUMBER(139, caps.perf_counters),
    SAME_NUMBER(140, caps.perf_fixed),
    NUMBER(141, caps.psb_align_bytes),
    SAME_FLAG(142, caps.supported),
    SAME_FLAG(143, caps.tsx),
    SAME_FLAG(144, caps.pebs),
    FLAG(145, caps.long_tnt),
    FLAG(146, caps.deferred_tips),
    SAME_FLAG(147, caps.xsaves),
    SAME_FLAG(148, caps.vmx_misc_pt),
    SAME_FLAG(149, caps.rtit),
    ADDED_FLAG(150, caps.choices.fup_full),
    ADDED_FLAG(151, caps.choices.psb_ip_apart),
    ADDED_FLAG(152, caps.choices.ip_full_64),
    ADDED_FLAG(153, caps.choices.psb_at_enable),
    ADDED_FLAG(154, caps.choices.psb_twice),
    ADDED_NUMBER(155, caps.choices.layout),
    ADDED_NUMBER(156, caps.choices.psb_early_bytes),
    ADDED_ARRAY(157, caps.choices.psb_order, uint8_t),
    ADDED_NUMBER(158, caps.choices.family),
    ADDED_NUMBER(159, caps.choices.model),
    ADDED_NUMBER(160, caps.choices.stepping),
    ADDED_FLAG(161, caps.choices.tips_wait),
    ADDED_FLAG(180, caps.triggers),
    ADDED_FLAG(181, caps.fred),
};
const size_t vpt_saved_field_count = sizeof(vpt_saved_fields) / sizeof(vpt_saved_fields[0]);

/* ---- Bytes ---- */

/* The elements in the machine's own order: a sequence of integers of 1, 2, 4 or 8 bytes. */
static uint64_t element(const void *at, unsigned size)
{
    uint64_t value64;
    uint32_t value32;
    uint16_t value16;

    switch (size) {
    case 8:
        memcpy(&value64, at, 8);
        return value64;
    case 4:
        memcpy(&value32, at, 4);
        return value32;
    case 2:
        memcpy(&value16, at, 2);
        return value16;
    default:
        return *(const uint8_t *)at;
    }
}

static void set_element(void *at, unsigned size, uint64_t value)
{
    switch (size) {
    case 8:
        memcpy(at, &value, 8);
        break;
    case 4:
        memcpy(at, &(uint32_t){(uint32_t)value}, 4);
        break;
    case 2:
        memcpy(at, &(uint16_t){(uint16_t)value}, 2);
        break;
    default:
        *(uint8_t *)at = (uint8_t)value;
        break;
    }
}

/* ---- Saving ---- */

static bool is_zero(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i])
            return false;
    return true;
}

/* All entries of the CALL stack that do not count, of which the saved form has ret_count. */
static void ret_stack_fill(struct vpt_cpu *cpu, uint64_t value)
{
    const unsigned next = cpu->ret_next / (unsigned)sizeof(uint64_t);

    for (unsigned i = cpu->ret_count; i < VPT_RET_STACK; i++)
        cpu->ret_stack[(next + VPT_RET_STACK - 1u - i) % VPT_RET_STACK] = value;
}

static void ret_stack_out(struct vpt_cpu *cpu)
{
    cpu->ret_top = (uint8_t)(cpu->ret_next / sizeof(uint64_t));
    cpu->ret_count = (uint8_t)vpt_ret_count(cpu);
    ret_stack_fill(cpu, 0);
}

/* Both are in their bounds. False: an entry that counts is none. */
static bool ret_stack_in(struct vpt_cpu *cpu)
{
    const unsigned count = cpu->ret_count;

    cpu->ret_next = cpu->ret_top * (uint32_t)sizeof(uint64_t);
    ret_stack_fill(cpu, VPT_RET_NONE);
    cpu->ret_top = cpu->ret_count = 0;
    return vpt_ret_count(cpu) == count;
}

size_t vpt_save(const struct vpt_cpu *cpu, uint8_t *bytes, size_t size_bytes)
{
    struct vpt_cpu saved = *cpu;
    size_t at = HEADER_BYTES;

    ret_stack_out(&saved);
    for (size_t i = 0; i < vpt_saved_field_count; i++) {
        const struct vpt_saved_field *field = &vpt_saved_fields[i];
        const size_t len = (size_t)field->size * field->count;
        const uint8_t *from = (const uint8_t *)&saved + field->offset;

        if (field->added && is_zero(from, len))
            continue;
        if (size_bytes < at + RECORD_BYTES + len)
            return 0;
        vpt_put_le(bytes + at, field->number, 2);
        vpt_put_le(bytes + at + 2, field->size, 2);
        vpt_put_le(bytes + at + 4, field->count, 4);
        at += RECORD_BYTES;
        for (unsigned n = 0; n < field->count; n++, at += field->size)
            vpt_put_le(bytes + at, element(from + n * field->size, field->size), field->size);
    }
    vpt_put_le(bytes, MAGIC, 4);
    vpt_put_le(bytes + 4, VERSION, 4);
    vpt_put_le(bytes + 8, at, 4);
    return at;
}

/* ---- Restoring ---- */

static const struct vpt_saved_field *find(unsigned number)
{
    for (size_t i = 0; i < vpt_saved_field_count; i++)
        if (vpt_saved_fields[i].number == number)
            return &vpt_saved_fields[i];
    return NULL;
}

static const char *load_record(struct vpt_cpu *cpu, const struct vpt_saved_field *field,
                               const uint8_t *bytes)
{
    uint8_t *to = (uint8_t *)cpu + field->offset;

    for (unsigned n = 0; n < field->count; n++, bytes += field->size, to += field->size) {
        const uint64_t value = vpt_get_le(bytes, field->size);

        if (field->flag && value > 1)
            return "a flag is neither 0 nor 1";
        if (field->same && value != element(to, field->size))
            return "the capabilities are those of another processor";
        set_element(to, field->size, value);
    }
    return NULL;
}

/* How many records must be there; fields that may lack one are 0 without. */
static size_t expected(struct vpt_cpu *cpu)
{
    size_t count = 0;

    for (size_t i = 0; i < vpt_saved_field_count; i++) {
        const struct vpt_saved_field *field = &vpt_saved_fields[i];

        if (field->added)
            memset((uint8_t *)cpu + field->offset, 0, (size_t)field->size * field->count);
        count += !field->added;
    }
    return count;
}

/* Every record once, in the order of their numbers, and no other. */
static const char *load_records(struct vpt_cpu *cpu, const uint8_t *bytes, size_t len)
{
    size_t at = HEADER_BYTES, missing = expected(cpu);
    unsigned last = 0;

    while (at < len) {
        const struct vpt_saved_field *field;
        const char *wrong;

        if (len - at < RECORD_BYTES)
            return "a record is cut off";
        field = find((unsigned)vpt_get_le(bytes + at, 2));
        if (!field)
            return "a record is unknown: the saving side is newer";
        if (field->number <= last)
            return "a record stands twice or out of order";
        if (vpt_get_le(bytes + at + 2, 2) != field->size ||
            vpt_get_le(bytes + at + 4, 4) != field->count)
            return "a record has another size than it should";
        at += RECORD_BYTES;
        if (len - at < (size_t)field->size * field->count)
            return "a record is cut off";
        if (field->added && is_zero(bytes + at, (size_t)field->size * field->count))
            return "a record of zeros, which is not written";
        wrong = load_record(cpu, field, bytes + at);
        if (wrong)
            return wrong;
        at += (size_t)field->size * field->count;
        last = field->number;
        missing -= !field->added;
    }
    return missing == 0 ? NULL : "a record is missing";
}

/* ---- What a state must be like ---- */

/* 0 on a processor that has no such MSR. */
static bool start_status_ok(const struct vpt_cpu *cpu, struct vpt_cpu *probe)
{
    const uint64_t enables = VPT_STATUS_TRIGGEREN | VPT_STATUS_CONTEXTEN | VPT_STATUS_FILTEREN;

    return cpu->start_status == 0 ||
           ((cpu->start_status & enables) == 0 &&
            vpt_wrmsr(probe, VPT_MSR_STATUS, cpu->start_status, 0, 0) == VPT_OK);
}

static bool msrs_ok(const struct vpt_cpu *cpu)
{
    struct vpt_cpu probe = *cpu; /* WRMSR says what values there can be */
    uint64_t old;

    if (!vpt_ctl_ok(cpu, cpu->ctl) || !vpt_ctl_ok(cpu, cpu->waiting_ctl))
        return false;
    probe.ctl = 0;
    probe.trigger_en = probe.vmx_on = false;
    for (uint32_t msr = VPT_MSR_OUTPUT_BASE; msr < VPT_MSR_ADDR0_A + 2 * VPT_MAX_RANGES; msr++) {
        if (msr == VPT_MSR_CTL)
            continue;
        if (vpt_rdmsr(&probe, msr, &old) != VPT_OK)
            continue;
        if (vpt_wrmsr(&probe, msr, old, 0, 0) != VPT_OK)
            return false;
    }
    return (cpu->output_mask_ptrs & 0x7f) == 0x7f &&
           (cpu->status & (VPT_STATUS_TRIGGEREN | VPT_STATUS_CONTEXTEN | VPT_STATUS_FILTEREN)) ==
               0 &&
           start_status_ok(cpu, &probe) && (cpu->perf_global_status & ~VPT_PERF_TOPA_PMI) == 0 &&
           vpt_wrmsr(&probe, VPT_MSR_PERF_GLOBAL_CTRL, cpu->perf_global_ctrl, 0, 0) == VPT_OK;
}

static bool enables_ok(const struct vpt_cpu *cpu)
{
    const bool may = cpu->caps.supported && (cpu->ctl & VPT_CTL_TRACEEN) &&
                     !(cpu->status & (VPT_STATUS_ERROR | VPT_STATUS_STOPPED));

    const bool packets = cpu->trigger_en && cpu->context_en && cpu->filter_en &&
                         (cpu->ctl & VPT_CTL_BRANCHEN) && !cpu->wait_for_sipi;

    if (cpu->packet_en != packets || (cpu->in_tx && !cpu->caps.tsx))
        return false;
    if (!cpu->trigger_en)
        return true;
    /* FilterEn of a range depends on an IP that nobody knows here. */
    return may && cpu->context_en == vpt_context_allows(cpu, &cpu->ctx) &&
           (cpu->filter_en || cpu->ranges);
}

static bool output_ok(const struct vpt_cpu *cpu)
{
    const uint64_t mask = (uint32_t)cpu->output_mask_ptrs;
    const uint64_t pages = cpu->region_bytes / 4096;

    if (cpu->region_bytes % 4096 || (pages & (pages - 1)) || pages > 1u << 15 ||
        (cpu->region_base & (cpu->region_bytes ? cpu->region_bytes - 1 : 0)) ||
        cpu->region_base >> cpu->caps.maxphyaddr)
        return false;
    if (cpu->fault_access > VPT_WRITE_OUTPUT || cpu->fault_gpa >> cpu->caps.maxphyaddr)
        return false;
    if (cpu->region_bytes && vpt_output_offset(cpu) >= cpu->region_bytes)
        return false;
    if (cpu->waiting_ctl && (cpu->trigger_en || cpu->buf_len == 0))
        return false;
    if (!cpu->trigger_en || (cpu->ctl & (VPT_CTL_FABRICEN | VPT_CTL_TOPA)))
        return true;
    return (mask & (mask + 1)) == 0 && vpt_output_offset(cpu) <= mask;
}

/* Behind vpt_choose_path(), which says how many TIPs may wait. */
static bool waiting_ok(const struct vpt_cpu *cpu)
{
    if (cpu->waiting_bytes > cpu->waiting_limit || cpu->waiting_bytes % sizeof(uint64_t))
        return false;
    for (uint32_t i = 0; i < cpu->waiting_bytes / sizeof(uint64_t); i++)
        if (cpu->waiting_tnt[i] < 1 || cpu->waiting_tnt[i] >= cpu->tnt_full)
            return false;
    return true;
}

static bool packets_ok(const struct vpt_cpu *cpu)
{
    const uint64_t longest = 1ull << (cpu->caps.long_tnt ? 47 : 6);

    return cpu->tnt >= 1 && cpu->tnt < cpu->tnt_full &&
           (cpu->tnt_full == longest || (!cpu->trigger_en && cpu->tnt_full == 1u << 6)) &&
           cpu->ret_top < VPT_RET_STACK && cpu->ret_count <= VPT_RET_STACK &&
           cpu->deferred_count <= (cpu->caps.deferred_tips ? VPT_DEFERRED_TIPS : 0) &&
           cpu->buf_len <= VPT_BUFFER_BYTES && cpu->ctx.cpl <= 3 &&
           cpu->ctx.exec_mode <= VPT_EXEC_64;
}

const char *vpt_restore(struct vpt_cpu *cpu, const uint8_t *bytes, size_t len_bytes)
{
    struct vpt_cpu restored = *cpu;
    const char *wrong;

    if (len_bytes < HEADER_BYTES || vpt_get_le(bytes, 4) != MAGIC)
        return "this is no saved processor";
    if (vpt_get_le(bytes + 4, 4) != VERSION)
        return "another version of the format";
    if (vpt_get_le(bytes + 8, 4) != len_bytes)
        return "the length is not the one that the header says";
    wrong = load_records(&restored, bytes, len_bytes);
    if (wrong)
        return wrong;
    if (vpt_caps_check(&restored.caps))
        return "the choices of the processor contradict each other";
    vpt_ctl_loaded(&restored);
    if (!msrs_ok(&restored))
        return "an MSR has a value that WRMSR would refuse";
    if (!enables_ok(&restored))
        return "the enables contradict each other";
    if (!output_ok(&restored))
        return "the output pointers are outside their region";
    if (!packets_ok(&restored))
        return "the packet state is impossible";
    if (!ret_stack_in(&restored))
        return "the packet state is impossible";
    vpt_choose_path(&restored);
    if (!waiting_ok(&restored))
        return "the packet state is impossible";
    if (restored.packet_en && !restored.ret_kept)
        vpt_ret_clear(&restored); /* earlier versions kept CALLs that no RET could use */
    *cpu = restored;
    return NULL;
}
