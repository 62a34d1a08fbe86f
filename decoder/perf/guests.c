/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose guest ran. PIP.NR says that one did (SDM 33.4.2.7), and who had the CPU meanwhile is a
 * thread of the host, which its VMM knows as a virtual processor. A VMCS packet (33.4.2.15) says
 * the same without a clock, once it is known to which thread its pointer belongs. That is found by
 * counting both, in all traces together: a thread that was switched for another just then is an
 * error of few, and a pointer that goes from one VM to the next, as pages of memory do, has two
 * threads of which each has no other pointer. What neither says is not known.
 *
 * A run reaches from a VM entry to the VM exit. Traces become copies in which VMCS packets say what
 * was found, and stand where they are missing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "perf/clock.h"
#include "perf/copy.h"
#include "perf/guests.h"
#include "perf/scan.h"
#include "perf/threads.h"
#include "pt_packets.h"
#include "ptdec_perf.h"

#define NO_VMCS         UINT64_MAX
#define NO_ID           UINT32_MAX
#define PSB_PACKETS_MAX 32u /* of a PSB+, between PSB and PSBEND */
#define VMCS_SHIFT      12  /* a VMCS packet has bits 51:12 */
#define TSC_MASK        ((UINT64_C(1) << 56) - 1)
#define MULTIPLIER_BITS 48
#define CANDIDATES_MAX  256u
#define REFERENCE_TICKS (UINT64_C(1) << 30) /* that the reference of a trace may be too early */

struct run {
    uint64_t vmcs;     /* that packets told; NO_VMCS: none did */
    uint64_t from, to; /* TSC */
    bool is_timed;     /* from is known */
    uint32_t tid;
};

/* Runs of a trace one behind the other of which all the same is known: a thread's turn has many. */
struct runs {
    uint64_t count;
    uint64_t vmcs, from; /* of the first */
    uint64_t says;       /* what VMCS packets shall say of them */
    size_t since;        /* so many of the times from which vcpus are something else have passed */
    uint32_t tid;
    bool is_timed;
    bool has_tsc; /* their TSC packets can be used */
};

/* So many runs had this pointer and this thread. */
struct pair {
    uint64_t vmcs, count;
    uint32_t tid;
    uint32_t owner; /* of the pointer, in its first pair: who has more than half of its runs */
};

struct ptd_perf_guests {
    struct ptd_perf_vcpu *vcpus; /* by thread, then by time */
    size_t vcpu_count;
    struct ptd_time_vm *vms; /* those of the session by VMCS pointer */
    size_t vm_count;
    uint64_t *times;   /* at which an entry of vcpus begins, in order */
    struct runs *runs; /* of all traces */
    size_t run_count, run_room;
    size_t *begins;     /* of a trace's runs */
    struct pair *pairs; /* by VMCS pointer, then by thread */
    size_t pair_count, pair_room;
    struct pair *of_threads; /* by thread: all its runs that have a pointer */
    size_t thread_count;
    struct ptd_perf_guest_sums sums;
};

/* ---- Where runs begin and end ---- */

/* What a PSB+ says of a guest. */
struct psb_says {
    bool nr;
    uint64_t vmcs;
};

/* On its way over the packets of a trace. */
struct walk {
    bool is_synced; /* a PSB has come: what stands in front of the first may be no packets */
    bool is_open;   /* a run has begun */
    bool in_psb;
    struct psb_says psb; /* the last one, if in_psb */
    uint64_t vmcs;       /* told last */
    uint64_t run_vmcs;   /* of the run that is open */
};

enum event { NOTHING, BEGINS, GOES_ON, ENDS };

/* packets: what comes behind the PSB. */
static struct psb_says look_into_psb(struct ptd_packets packets)
{
    struct psb_says says = {.vmcs = NO_VMCS};
    struct ptd_packet packet;

    for (unsigned i = 1; i < PSB_PACKETS_MAX; i++) {
        if (ptd_packets_next(&packets, &packet) != PTD_OK || packet.type == PTD_PSBEND ||
            packet.type == PTD_OVF)
            break;
        if (packet.type == PTD_PIP)
            says.nr = packet.pip.nr;
        else if (packet.type == PTD_VMCS)
            says.vmcs = packet.vmcs;
    }
    return says;
}

static enum event begin(struct walk *walk)
{
    walk->is_open = true;
    walk->run_vmcs = walk->vmcs;
    return BEGINS;
}

static enum event end(struct walk *walk)
{
    const bool was_open = walk->is_open;

    walk->is_open = false;
    return was_open ? ENDS : NOTHING;
}

/* A PSB+ repeats what holds; where it says something else, packets were lost in front of it. */
static enum event enter_psb(struct walk *walk)
{
    walk->in_psb = true;
    walk->vmcs = walk->psb.vmcs;
    if (!walk->psb.nr)
        return end(walk);
    if (!walk->is_open || (walk->run_vmcs != walk->psb.vmcs && walk->run_vmcs != NO_VMCS &&
                           walk->psb.vmcs != NO_VMCS))
        return begin(walk);
    if (walk->run_vmcs == NO_VMCS)
        walk->run_vmcs = walk->psb.vmcs;
    return GOES_ON;
}

/* next: what comes behind the packet. */
static enum event step(struct walk *walk, const struct ptd_packets *next,
                       const struct ptd_packet *packet)
{
    if (!walk->is_synced && packet->type != PTD_PSB)
        return NOTHING;
    switch (packet->type) {
    case PTD_PSB:
        walk->is_synced = true;
        walk->psb = look_into_psb(*next);
        return enter_psb(walk);
    case PTD_PSBEND:
        walk->in_psb = false;
        return NOTHING;
    case PTD_VMCS:
        walk->vmcs = packet->vmcs;
        return NOTHING;
    case PTD_PIP:
        if (walk->in_psb)
            return NOTHING; /* the PSB did it */
        if (!packet->pip.nr)
            return end(walk);
        return walk->is_open ? GOES_ON : begin(walk);
    case PTD_OVF: /* anybody may have run in it */
        walk->in_psb = false;
        walk->vmcs = NO_VMCS;
        return end(walk);
    default:
        return NOTHING;
    }
}

/* ---- The virtual processors ---- */

static int compare_vcpus(const void *left, const void *right)
{
    const struct ptd_perf_vcpu *const a = left, *const b = right;

    if (a->tid != b->tid)
        return a->tid < b->tid ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->vmcs < b->vmcs ? -1 : a->vmcs > b->vmcs;
}

/* The thread's entry of a time: the last one that began by then, else its first. NULL: it is none.
 */
static const struct ptd_perf_vcpu *find_vcpu(const struct ptd_perf_guests *guests, uint32_t tid,
                                             uint64_t tsc)
{
    size_t low = 0, high = guests->vcpu_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct ptd_perf_vcpu *const vcpu = &guests->vcpus[middle];

        if (vcpu->tid < tid || (vcpu->tid == tid && vcpu->from <= tsc))
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0 && guests->vcpus[low - 1].tid == tid)
        return &guests->vcpus[low - 1];
    return low < guests->vcpu_count && guests->vcpus[low].tid == tid ? &guests->vcpus[low] : NULL;
}

static int compare_times(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

static bool list_times(struct ptd_perf_guests *guests)
{
    guests->times = calloc(guests->vcpu_count + 1, sizeof(*guests->times));
    if (!guests->times)
        return false;
    for (size_t i = 0; i < guests->vcpu_count; i++)
        guests->times[i] = guests->vcpus[i].from;
    qsort(guests->times, guests->vcpu_count, sizeof(*guests->times), compare_times);
    return true;
}

/* How many of them have passed: between two of them, all threads stay what they are. */
static size_t times_until(const struct ptd_perf_guests *guests, uint64_t tsc)
{
    size_t low = 0, high = guests->vcpu_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (guests->times[middle] <= tsc)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int take_vcpus(struct ptd_perf_guests *guests, const struct ptd_perf_vcpu *vcpus,
                      size_t count)
{
    guests->vcpus = calloc(count + 1, sizeof(*guests->vcpus));
    if (!guests->vcpus)
        return PTD_E_NOMEM;
    if (count) {
        memcpy(guests->vcpus, vcpus, count * sizeof(*vcpus));
        qsort(guests->vcpus, count, sizeof(*vcpus), compare_vcpus);
    }
    guests->vcpu_count = count;
    return list_times(guests) ? PTD_OK : PTD_E_NOMEM;
}

static int compare_vms(const void *left, const void *right)
{
    const struct ptd_time_vm *const a = left, *const b = right;

    return a->vmcs < b->vmcs ? -1 : a->vmcs > b->vmcs;
}

static int take_vms(struct ptd_perf_guests *guests, const struct ptd_perf_session *session)
{
    guests->vms = calloc(session->vm_count + 1, sizeof(*guests->vms));
    if (!guests->vms)
        return PTD_E_NOMEM;
    guests->vm_count = session->vm_count;
    if (session->vm_count) {
        memcpy(guests->vms, session->vms, session->vm_count * sizeof(*guests->vms));
        qsort(guests->vms, guests->vm_count, sizeof(*guests->vms), compare_vms);
    }
    return PTD_OK;
}

/* ---- The runs of a trace ---- */

struct finder {
    struct ptd_perf_guests *guests;
    const struct ptd_perf_trace *trace;
    struct perf_cpu_turns turns;
    struct ptd_time *time;
    struct perf_scan scan;
    size_t first;   /* of the trace's, in guests->runs */
    struct run run; /* that is open */
};

static uint64_t now(struct finder *finder)
{
    struct ptd_time_point point;

    ptd_perf_scan_point(&finder->scan, finder->time, &point);
    return point.tsc;
}

static bool is_alike(const struct runs *runs, const struct run *run, size_t since)
{
    return runs->vmcs == run->vmcs && runs->tid == run->tid && runs->is_timed == run->is_timed &&
           runs->since == since;
}

static bool add_run(struct finder *finder)
{
    struct ptd_perf_guests *const guests = finder->guests;
    const struct run *const run = &finder->run;
    const size_t since = times_until(guests, run->from);

    if (guests->run_count > finder->first &&
        is_alike(&guests->runs[guests->run_count - 1], run, since)) {
        guests->runs[guests->run_count - 1].count++;
        return true;
    }
    if (!array_grow((void **)&guests->runs, &guests->run_room, guests->run_count,
                    sizeof(*guests->runs)))
        return false;
    guests->runs[guests->run_count++] = (struct runs){
        .count = 1,
        .vmcs = run->vmcs,
        .from = run->from,
        .since = since,
        .tid = run->tid,
        .is_timed = run->is_timed,
    };
    return true;
}

/* A run does not outlast its thread's turn, so that any time of it tells the thread. */
static bool end_run(struct finder *finder, uint64_t tsc)
{
    const bool alone = finder->turns.begin == finder->turns.end;
    struct run *const run = &finder->run;

    if (!run->is_timed && tsc != PTD_TIME_UNKNOWN && tsc > 0) {
        run->from = tsc - 1;
        run->is_timed = true;
    }
    run->to = tsc != PTD_TIME_UNKNOWN && tsc > run->from ? tsc : run->from + 1;
    if (run->is_timed || alone)
        run->tid = ptd_perf_turns_most(&finder->turns, run->from, run->to).tid;
    return add_run(finder);
}

static bool note(struct finder *finder, struct walk *walk, bool was_open, enum event event)
{
    uint64_t tsc;

    if (event == GOES_ON)
        finder->run.vmcs = walk->run_vmcs;
    if (event != BEGINS && event != ENDS)
        return true;
    tsc = now(finder);
    if (was_open && !end_run(finder, tsc))
        return false;
    if (event == BEGINS)
        finder->run = (struct run){
            .vmcs = walk->run_vmcs,
            .from = tsc == PTD_TIME_UNKNOWN ? 0 : tsc,
            .is_timed = tsc != PTD_TIME_UNKNOWN,
            .tid = NO_ID,
        };
    return true;
}

/* How the TSC of a guest differs is known when it is known whose it is, so here it tells nothing.
 */
static bool is_guest_time(const struct walk *walk, const struct ptd_packet *packet)
{
    if (packet->type != PTD_TSC && packet->type != PTD_TMA)
        return false;
    return walk->in_psb ? walk->psb.nr : walk->is_open;
}

/* The host's TSC when a VM read this one. UINT64_MAX: it cannot be. */
static uint64_t tsc_of_host(const struct ptd_time_vm *vm, uint64_t guest)
{
    const uint64_t since = (guest - vm->offset) & TSC_MASK;
    unsigned __int128 host = since;

    if (vm->multiplier)
        host = (host << MULTIPLIER_BITS) / vm->multiplier;
    return host <= TSC_MASK ? (uint64_t)host : UINT64_MAX;
}

/* Whether this virtual processor can have read this TSC: its thread had the CPU then. */
static bool can_be(const struct finder *finder, const struct ptd_perf_vcpu *vcpu, uint64_t guest,
                   uint64_t *tsc)
{
    const struct ptd_perf_guests *const guests = finder->guests;
    const struct perf_cpu_turns *const turns = &finder->turns;
    const struct ptd_time_vm key = {.vmcs = vcpu->vmcs};
    const struct ptd_time_vm *const vm =
        vcpu->has_tsc ? bsearch(&key, guests->vms, guests->vm_count, sizeof(key), compare_vms)
                      : NULL;

    if (!vm)
        return false;
    *tsc = tsc_of_host(vm, guest);
    return *tsc >= turns->turns->list[turns->begin].tsc &&
           *tsc <= finder->trace->reference + REFERENCE_TICKS &&
           find_vcpu(guests, vcpu->tid, *tsc) == vcpu &&
           ptd_perf_turns_most(turns, *tsc, *tsc + 1).tid == vcpu->tid;
}

/*
 * A ring may hold nothing but what one guest ran, and then only the guest's TSC is in it. If it was
 * that of one virtual processor alone, given who had the CPU, the time is known.
 */
static void take_guest_time(struct finder *finder, struct ptd_packet *packet)
{
    struct run *const run = &finder->run;
    uint64_t tsc = 0, found = 0;
    unsigned count = 0;

    if (packet->type != PTD_TSC || now(finder) != PTD_TIME_UNKNOWN || run->is_timed ||
        finder->turns.begin == finder->turns.end || finder->guests->vcpu_count > CANDIDATES_MAX)
        return;
    for (size_t i = 0; i < finder->guests->vcpu_count; i++) {
        if (!can_be(finder, &finder->guests->vcpus[i], packet->tsc, &tsc))
            continue;
        found = tsc;
        count++;
    }
    if (count != 1)
        return;
    run->from = found;
    run->is_timed = true;
    packet->tsc = found;
    ptd_time_packet(finder->time, packet);
}

static bool find_runs(struct finder *finder)
{
    struct walk walk = {.vmcs = NO_VMCS};
    struct ptd_packet packet;

    for (;;) {
        const bool was_open = walk.is_open;
        enum event event;

        ptd_perf_scan_pass(&finder->scan, finder->time);
        if (!ptd_perf_scan_packet(&finder->scan, finder->time, &packet))
            break;
        if (!is_guest_time(&walk, &packet))
            ptd_time_packet(finder->time, &packet);
        else if (walk.is_open)
            take_guest_time(finder, &packet);
        event = step(&walk, &finder->scan.packets, &packet);
        if (!note(finder, &walk, was_open, event))
            return false;
    }
    return !finder->scan.no_memory && (!walk.is_open || end_run(finder, now(finder)));
}

static bool find_all_runs(struct ptd_perf_guests *guests, const struct ptd_perf_session *session)
{
    guests->begins = calloc(session->trace_count + 1, sizeof(*guests->begins));
    if (!guests->begins)
        return false;
    for (size_t i = 0; i < session->trace_count; i++) {
        struct perf_pieces pieces;
        struct finder finder = {.guests = guests,
                                .trace = &session->traces[i],
                                .turns = ptd_perf_threads_of(session, &session->traces[i]),
                                .time = ptd_perf_time_new(session),
                                .first = guests->run_count};
        const bool ok = finder.time &&
                        ptd_perf_scan_begin(
                            &finder.scan, ptd_perf_pieces_source(&pieces, session, finder.trace)) &&
                        find_runs(&finder);

        ptd_time_free(finder.time);
        ptd_perf_scan_end(&finder.scan);
        if (!ok)
            return false;
        guests->begins[i + 1] = guests->run_count;
    }
    return true;
}

/* ---- Whose runs they are ---- */

static int compare_pairs(const void *left, const void *right)
{
    const struct pair *const a = left, *const b = right;

    if (a->vmcs != b->vmcs)
        return a->vmcs < b->vmcs ? -1 : 1;
    return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int compare_tids(const void *left, const void *right)
{
    const struct pair *const a = left, *const b = right;

    return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* Puts those together that are equal, of a list in order. How many are left. */
static size_t add_up(struct pair *pairs, size_t count, int (*compare)(const void *, const void *))
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (kept && compare(&pairs[kept - 1], &pairs[i]) == 0)
            pairs[kept - 1].count += pairs[i].count;
        else
            pairs[kept++] = pairs[i];
    }
    return kept;
}

static void find_owners(struct ptd_perf_guests *guests)
{
    struct pair *const pairs = guests->pairs;
    size_t count;

    for (size_t i = 0; i < guests->pair_count; i += count) {
        const struct pair *best = &pairs[i];
        uint64_t all = 0;

        for (count = 0; i + count < guests->pair_count && pairs[i + count].vmcs == pairs[i].vmcs;
             count++) {
            all += pairs[i + count].count;
            if (pairs[i + count].count > best->count)
                best = &pairs[i + count];
        }
        if (2 * best->count > all)
            pairs[i].owner = best->tid;
        guests->sums.vmcs_count++;
    }
}

static bool count_pairs(struct ptd_perf_guests *guests)
{
    guests->pairs = calloc(guests->run_count + 1, sizeof(*guests->pairs));
    if (!guests->pairs)
        return false;
    for (size_t i = 0; i < guests->run_count; i++) {
        const struct runs *const runs = &guests->runs[i];

        if (runs->vmcs != NO_VMCS && find_vcpu(guests, runs->tid, 0))
            guests->pairs[guests->pair_count++] =
                (struct pair){runs->vmcs, runs->count, runs->tid, NO_ID};
    }
    qsort(guests->pairs, guests->pair_count, sizeof(*guests->pairs), compare_pairs);
    guests->pair_count = add_up(guests->pairs, guests->pair_count, compare_pairs);
    guests->of_threads = calloc(guests->pair_count + 1, sizeof(*guests->of_threads));
    if (!guests->of_threads)
        return false;
    memcpy(guests->of_threads, guests->pairs, guests->pair_count * sizeof(*guests->pairs));
    qsort(guests->of_threads, guests->pair_count, sizeof(*guests->pairs), compare_tids);
    guests->thread_count = add_up(guests->of_threads, guests->pair_count, compare_tids);
    find_owners(guests);
    return true;
}

/* Whether most of what a thread ran had this pointer. */
static bool is_own(const struct ptd_perf_guests *guests, uint64_t vmcs, uint32_t tid)
{
    const struct pair key = {.vmcs = vmcs, .tid = tid};
    const struct pair *const pair =
        bsearch(&key, guests->pairs, guests->pair_count, sizeof(key), compare_pairs);
    const struct pair *const all =
        bsearch(&key, guests->of_threads, guests->thread_count, sizeof(key), compare_tids);

    return pair && all && 2 * pair->count >= all->count;
}

/* NO_ID: none has more than half of what had this pointer. */
static uint32_t owner_of(const struct ptd_perf_guests *guests, uint64_t vmcs)
{
    size_t low = 0, high = guests->pair_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (guests->pairs[middle].vmcs < vmcs)
            low = middle + 1;
        else
            high = middle;
    }
    return low < guests->pair_count && guests->pairs[low].vmcs == vmcs ? guests->pairs[low].owner
                                                                       : NO_ID;
}

static void decide(struct ptd_perf_guests *guests, struct runs *runs)
{
    struct ptd_perf_guest_sums *const sums = &guests->sums;
    const struct ptd_perf_vcpu *vcpu = find_vcpu(guests, runs->tid, runs->from);
    uint64_t *how = &sums->by_thread;

    if (runs->vmcs != NO_VMCS && vcpu && is_own(guests, runs->vmcs, runs->tid)) {
        how = &sums->by_both;
    } else if (runs->vmcs != NO_VMCS) {
        const uint32_t owner = owner_of(guests, runs->vmcs);

        how = owner == runs->tid ? &sums->by_both : &sums->by_vmcs;
        vcpu = owner == NO_ID ? NULL : find_vcpu(guests, owner, runs->from);
    }
    sums->runs += runs->count;
    *(vcpu ? how : &sums->unknown) += runs->count;
    runs->has_tsc = vcpu && vcpu->has_tsc && runs->is_timed;
    runs->says = vcpu ? vcpu->vmcs : runs->vmcs != NO_VMCS ? runs->vmcs : PTD_PERF_VMCS_NOBODY;
}

int ptd_perf_guests_new(const struct ptd_perf_session *session, const struct ptd_perf_vcpu *vcpus,
                        size_t count, struct ptd_perf_guests **guests)
{
    struct ptd_perf_guests *const made = calloc(1, sizeof(*made));
    int error = made ? take_vcpus(made, vcpus, count) : PTD_E_NOMEM;

    if (!error)
        error = take_vms(made, session);
    if (!error && (!find_all_runs(made, session) || !count_pairs(made)))
        error = PTD_E_NOMEM;
    if (error) {
        ptd_perf_guests_free(made);
        return error;
    }
    for (size_t i = 0; i < made->run_count; i++)
        decide(made, &made->runs[i]);
    *guests = made;
    return PTD_OK;
}

void ptd_perf_guests_free(struct ptd_perf_guests *guests)
{
    if (!guests)
        return;
    free(guests->vcpus);
    free(guests->vms);
    free(guests->times);
    free(guests->runs);
    free(guests->begins);
    free(guests->pairs);
    free(guests->of_threads);
    free(guests);
}

const struct ptd_perf_guest_sums *ptd_perf_guests_sums(const struct ptd_perf_guests *guests)
{
    return &guests->sums;
}

/* ---- The copy ---- */

struct perf_guest_copy {
    struct perf_copy copy;
    struct perf_pieces pieces;
    struct walk walk;
    const struct runs *runs; /* of the run that is open, or was last */
    const struct runs *next;
    uint64_t left; /* of .runs, those that come yet */
    uint64_t told; /* by VMCS packets of the copy */
};

static void make_vmcs(struct perf_guest_copy *guest, uint8_t bytes[PT_VMCS_LEN])
{
    const uint64_t vmcs = guest->runs->says;

    bytes[0] = PT_OPC_EXT;
    bytes[1] = PT_EXT_VMCS;
    for (unsigned i = 2; i < PT_VMCS_LEN; i++)
        bytes[i] = (uint8_t)(vmcs >> (VMCS_SHIFT + 8 * (i - 2)));
    guest->told = vmcs;
}

static bool insert_vmcs(struct perf_guest_copy *guest)
{
    uint8_t bytes[PERF_INSERTED_BYTES] = {0};

    _Static_assert(PT_VMCS_LEN + 1 == PERF_INSERTED_BYTES, "a PAD stands behind it");
    make_vmcs(guest, bytes);
    return ptd_perf_copy_insert(&guest->copy, bytes);
}

/* In a guest, what the packet says becomes what was found. */
static bool put_packet(struct perf_guest_copy *guest, const struct ptd_packet *packet)
{
    static const uint8_t pad[PT_TSC_LEN];
    const struct walk *const walk = &guest->walk;
    const bool in_guest = walk->in_psb ? walk->psb.nr : walk->is_open;
    uint8_t vmcs[PT_VMCS_LEN];

    switch (packet->type) {
    case PTD_PSB: /* decoding may begin here */
    case PTD_OVF: /* and behind these, nothing holds that was told before */
    case PTD_TIP_PGD:
        guest->told = NO_VMCS;
        break;
    case PTD_PIP:
        if (in_guest && packet->pip.nr && (walk->in_psb || guest->told != guest->runs->says) &&
            !insert_vmcs(guest))
            return false;
        break;
    case PTD_VMCS:
        guest->told = packet->vmcs;
        if (!in_guest)
            break;
        make_vmcs(guest, vmcs);
        return ptd_perf_copy_put(&guest->copy, vmcs, sizeof(vmcs));
    case PTD_TSC:
    case PTD_TMA:
        if (in_guest && !guest->runs->has_tsc)
            return ptd_perf_copy_put(&guest->copy, pad, packet->size_bytes);
        break;
    default:
        break;
    }
    return ptd_perf_copy_same(&guest->copy, packet);
}

static bool take_packet(void *owner, const struct ptd_packet *packet)
{
    struct perf_guest_copy *const guest = owner;

    if (step(&guest->walk, &guest->copy.scan.packets, packet) == BEGINS) {
        if (guest->left == 0) {
            guest->runs = guest->next++;
            guest->left = guest->runs->count;
        }
        guest->left--;
    }
    return put_packet(guest, packet);
}

struct perf_guest_copy *ptd_perf_guest_copy_new(const struct ptd_perf_session *session,
                                                const struct ptd_perf_trace *trace)
{
    const struct ptd_perf_guests *const guests = session->guests;
    struct perf_guest_copy *const guest = calloc(1, sizeof(*guest));

    if (!guest)
        return NULL;
    guest->walk.vmcs = guest->told = NO_VMCS;
    guest->next = guests->runs ? guests->runs + guests->begins[trace - session->traces] : NULL;
    guest->copy.packet = take_packet;
    guest->copy.owner = guest;
    if (ptd_perf_copy_begin(&guest->copy, ptd_perf_pieces_source(&guest->pieces, session, trace)))
        return guest;
    ptd_perf_guest_copy_free(guest);
    return NULL;
}

void ptd_perf_guest_copy_free(struct perf_guest_copy *guest)
{
    if (!guest)
        return;
    ptd_perf_copy_end(&guest->copy);
    free(guest);
}

struct perf_copy *ptd_perf_guest_copy_of(struct perf_guest_copy *guest)
{
    return &guest->copy;
}

int ptd_perf_guest_trace(const struct ptd_perf_session *session, const struct ptd_perf_trace *trace,
                         struct ptd_perf_guest_trace *out)
{
    struct perf_guest_copy *const guest = ptd_perf_guest_copy_new(session, trace);
    struct perf_whole whole = {.store = session->store};

    *out = (struct ptd_perf_guest_trace){0};
    if (!guest ||
        !ptd_perf_copy_all(&whole, ptd_perf_copy_source(&guest->copy), trace->len_bytes)) {
        ptd_perf_guest_copy_free(guest);
        return PTD_E_NOMEM;
    }
    *out = (struct ptd_perf_guest_trace){
        .bytes = whole.bytes,
        .len_bytes = whole.len,
        .inserted = guest->copy.inserted,
        .inserted_count = guest->copy.inserted_count,
        .room = whole.room,
        .store = whole.store,
    };
    guest->copy.inserted = NULL;
    ptd_perf_guest_copy_free(guest);
    return PTD_OK;
}

void ptd_perf_guest_trace_free(struct ptd_perf_guest_trace *trace)
{
    ptd_perf_copy_free(trace->store, trace->bytes, trace->room);
    free(trace->inserted);
    *trace = (struct ptd_perf_guest_trace){0};
}
