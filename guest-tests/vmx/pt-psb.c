/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel PT of a VMM that traces itself and a guest which runs long enough for PSB+ of its own: what
 * they hold of VMX in each conceal setting (Table 33-52), and the TSC that a guest has (33.5.2.1).
 * And of a VMM that traces itself alone, by MSR areas (33.5.2, Table 33-54).
 */
#include "boot.h"
#include "console.h"
#include "cpu.h"
#include "memory.h"
#include "packets.h"
#include "pt-guest.h"
#include "tests.h"

#define TSC_BYTES_MASK ((1ull << 56) - 1)
#define GUEST_OFFSET   (1ull << 40)
#define HALF           (1ull << 47) /* as a multiplier */

/* ---- PSB+, one by one --------------------------------------------------------------------- */

struct psb_plus {
    bool vmcs, pip, nr;
    uint64_t ip, pointer, time;
};

/* Of the guest's PSB+, or of the VMM's. */
static struct psb_seen {
    unsigned count, vmcs, nr, other_pointers;
    uint64_t first_time, last_time;
} guests, hosts;

static bool is_guest_ip(uint64_t ip)
{
    return ip >= (uint64_t)guest_jumps.begin && ip < (uint64_t)guest_jumps.end;
}

static void count_psb(const struct psb_plus *psb)
{
    struct psb_seen *seen = is_guest_ip(psb->ip) ? &guests : &hosts;

    if (!seen->count++)
        seen->first_time = psb->time;
    seen->last_time = psb->time;
    seen->vmcs += psb->vmcs;
    seen->nr += psb->pip && psb->nr;
    seen->other_pointers += psb->vmcs && psb->pointer != vm_pages.vmcs;
}

static void see_in_psb(struct psb_plus *psb, const struct packet *packet)
{
    switch (packet->kind) {
    case PACKET_VMCS:
        psb->vmcs = true;
        psb->pointer = packet->value << 12;
        break;
    case PACKET_PIP:
        psb->pip = true;
        psb->nr = packet->flag;
        break;
    case PACKET_TSC:
        psb->time = packet->value;
        break;
    case PACKET_FUP:
        psb->ip = packet->ip;
        break;
    default:
        break;
    }
}

static void see_psbs(const struct trace_result *result)
{
    struct packet_reader reader = {0};
    struct psb_plus psb = {0};
    struct packet packet;

    guests = hosts = (struct psb_seen){0};
    reader.bytes = trace_default_bytes(result, &reader.len_bytes);
    while (packet_next(&reader, &packet)) {
        if (packet.kind == PACKET_PSB)
            psb = (struct psb_plus){0};
        else if (packet.kind == PACKET_PSBEND)
            count_psb(&psb);
        else if (packet.in_psb)
            see_in_psb(&psb, &packet);
    }
    report(!reader.damaged, "PT, PSB+ in guests: the bytes are packets");
    note_trace(virt_to_phys(trace_default_buffer()), reader.len_bytes);
}

/* ---- Both are traced ---------------------------------------------------------------------- */

static struct outcome outcome;
static uint64_t tsc_before, tsc_behind;

static void enter_once(void)
{
    tsc_before = read_tsc();
    outcome = vm_launch();
    tsc_behind = read_tsc();
}

/* What a guest's TSC is: the VMM's, times multiplier (0: as it is), plus offset. */
struct guest_tsc {
    uint64_t multiplier, offset;
};

static bool trace_guest(const struct controls *on, uint64_t ctl, const struct guest_tsc *tsc,
                        const char *name)
{
    struct trace_setup setup = {.ctl = CTL_DEFAULT | ctl, .body = enter_once};
    struct trace_result result;

    if (!guest_begin(on, MANY, name))
        return false;
    put(VMCS_TSC_OFFSET, tsc->offset);
    if (tsc->multiplier)
        put(VMCS_TSC_MULTIPLIER, tsc->multiplier);
    trace_default_output(&setup);
    result = trace_run(&setup);
    see_psbs(&result);
    report_value(outcome.reason, REASON_CPUID, "PT, %s", name);
    return true;
}

static void test_setting(unsigned setting)
{
    static const char *const names[] = {
        "PSB+, nothing concealed",
        "PSB+, execution concealed",
        "PSB+, exits concealed",
        "PSB+, execution and exits concealed",
        "PSB+, entries concealed",
        "PSB+, execution and entries concealed",
        "PSB+, exits and entries concealed",
        "PSB+, everything concealed",
    };
    static const struct guest_tsc same = {0};
    const bool hidden = setting & 1;
    const struct controls on = {
        .proc2 = hidden ? PROC2_CONCEAL : 0,
        .exit = setting & 2 ? EXIT_CONCEAL : 0,
        .entry = setting & 4 ? ENTRY_CONCEAL : 0,
    };

    if (!trace_guest(&on, 0, &same, names[setting]))
        return;
    report(guests.count > 1, "PT, %s: the guest has some (33.3.7)", names[setting]);
    report_value(guests.vmcs, hidden ? 0 : guests.count, "PT, %s: VMCS packets (Table 33-52)",
                 names[setting]);
    report_value(guests.nr, hidden ? 0 : guests.count, "PT, %s: NR of their PIPs (Table 33-52)",
                 names[setting]);
    report_value(guests.other_pointers, 0, "PT, %s: the pointer is the current VMCS's (33.4.2.15)",
                 names[setting]);
    report_value(hosts.nr, 0, "PT, %s: the VMM's PIPs have no NR (33.5.1)", names[setting]);
}

/* ---- Time --------------------------------------------------------------------------------- */

static bool is_between(uint64_t value, uint64_t low, uint64_t high)
{
    return value >= (low & TSC_BYTES_MASK) && value <= (high & TSC_BYTES_MASK);
}

static void test_offset(void)
{
    static const struct controls on = {.proc = PROC_TSC_OFFSETTING};
    static const struct guest_tsc later = {.offset = GUEST_OFFSET};
    const char *name = "TSC packets, TSC offsetting";

    if (!trace_guest(&on, CTL_TSCEN, &later, name))
        return;
    report(
        guests.count > 1 &&
            is_between(guests.first_time, tsc_before + GUEST_OFFSET, tsc_behind + GUEST_OFFSET) &&
            is_between(guests.last_time, guests.first_time, tsc_behind + GUEST_OFFSET),
        "PT, %s: the guest's have the offset (33.5.2.1)", name);
    report(hosts.count && hosts.first_time <= tsc_before,
           "PT, %s: the VMM's do not have it (33.5.2.1)", name);
}

static void test_multiplier(void)
{
    static const struct controls on = {.proc = PROC_TSC_OFFSETTING, .proc2 = PROC2_TSC_SCALING};
    static const struct guest_tsc half = {.multiplier = HALF};
    const char *name = "TSC packets, TSC scaling";

    if (!(control_allowed(PROC2) & PROC2_TSC_SCALING)) {
        report_skip("no TSC scaling", "PT, %s", name);
        return;
    }
    if (!trace_guest(&on, CTL_TSCEN, &half, name))
        return;
    report(is_between(guests.first_time, tsc_before / 2, tsc_behind / 2),
           "PT, %s: the guest's have the multiplier (33.5.2.1)", name);
}

/* ---- The VMM alone ------------------------------------------------------------------------ */

struct msr_entry {
    uint32_t index, reserved;
    uint64_t value;
};

static struct alone {
    unsigned ends, begins, guests, host_begins;
} alone;

static void see_alone(const struct packet *packet)
{
    alone.ends += packet->kind == PACKET_TIP_PGD;
    if (packet->kind == PACKET_TIP_PGE) {
        alone.begins++;
        alone.host_begins += packet->ip == (uint64_t)vmx_exit;
    }
    if (!packet->in_psb && packet_has_ip(packet))
        alone.guests += is_guest_ip(packet->ip);
}

static void test_vmm_only(void)
{
    static const struct controls none = {0};
    const char *name = "the VMM alone is traced";
    struct trace_setup setup = {.ctl = CTL_DEFAULT, .body = enter_once};
    struct msr_entry *area = phys_to_virt(vm_pages.msr_area);
    struct packet_reader reader = {0};
    struct trace_result result;
    struct packet packet;

    if (!guest_begin(&none, FEW, name))
        return;
    trace_default_output(&setup);
    area[0] = (struct msr_entry){MSR_RTIT_CTL, 0, setup.ctl};
    area[1] = (struct msr_entry){MSR_RTIT_CTL, 0, setup.ctl | CTL_TRACEEN};
    put(VMCS_EXIT_MSR_LOAD, vm_pages.msr_area + sizeof(*area));
    put(VMCS_ENTRY_LOAD_COUNT, 1);
    put(VMCS_EXIT_LOAD_COUNT, 1);
    alone = (struct alone){0};
    result = trace_run(&setup);
    reader.bytes = trace_default_bytes(&result, &reader.len_bytes);
    while (packet_next(&reader, &packet))
        see_alone(&packet);
    note_trace(virt_to_phys(trace_default_buffer()), reader.len_bytes);
    report_value(outcome.reason, REASON_CPUID, "PT, %s", name);
    report(!reader.damaged && alone.guests == 0, "PT, %s: nothing of the guest (33.5.2)", name);
    report_value(alone.ends, 2, "PT, %s: TIP.PGD of the entry, and of the end (Table 33-56, 9)",
                 name);
    report(alone.begins == 2 && alone.host_begins == 1,
           "PT, %s: TIP.PGE of the exit, at the VMM's RIP (Table 33-56, 10)", name);
}

void test_pt_psb(void)
{
    if (!pt_caps()->present || !pt_memory_output(pt_caps()) || !(vmx_misc() & MISC_PT)) {
        report_skip("no Intel PT in VMX operation", "PSB+ in guests");
        return;
    }
    for (unsigned setting = 0; setting < 8; setting++)
        test_setting(setting);
    test_offset();
    test_multiplier();
    test_vmm_only();
    trace_off();
}
