/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random programs (emulation/tests/program.h), run and traced by the model as a recipe says. What
 * ran is written down beside it, instruction by instruction, and no decoder has a part in that.
 */
#include "roundtrip/same/scene.h"

#include "tests/harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_INSNS         60000u
#define TURN_INSNS        2000u /* of a thread */
#define PAUSE_INSNS       500u
#define STALL_INSNS       6000u /* enough to fill the internal buffer */
#define STALL_EVERY       15000u
#define VERSIONS          8u /* of code that changes */
#define PAUSE_TICKS       6000u
#define LOW_KERNEL        0x601000ull /* perf would ask for a vmlinux if it were in the upper half */
#define MARK_INSNS        64u
#define PSB_BYTES         4096u /* within so many, there is one */
#define CUT_BYTES         1237u /* a start in the midst of some packet */
#define LEAST_ENTRIES     50u
#define GUEST_INSNS       400u
#define GUEST_APART_BYTES 0x1000000u
#define RING_BYTES        0x2000u
#define RING_GPA          0x100000ull
#define SECOND_GPA        0x180000ull
#define TOPA_8K           1u
#define TOPA_4K           0u

/* One thread: a program on a processor that traces it. */
struct machine {
    struct walk walks[2]; /* of the host, of the guest */
    bool in_guest;
    unsigned entries; /* of the guest */
    struct fake *fake;
    size_t from_byte;    /* the tap before is not wanted */
    struct arrows marks; /* bytes written, and instructions run by then */
    bool begun;
};

static struct {
    struct scene *scene;
    const struct recipe *recipe;
    struct vpt_caps caps;
    struct random random;
    struct image user[VERSIONS]; /* versions, or of each process, or of host and guest */
    struct image kernel[2];      /* of host and guest */
    struct machine machines[TRACES_MAX];
    uint64_t ctl, tsc;
    uint64_t version;
} run;

void arrow_add(struct arrows *arrows, uint64_t from, uint64_t to)
{
    list_add(&arrows->from, from);
    list_add(&arrows->to, to);
}

struct place *scene_add_place(struct scene *scene, uint64_t base, const void *bytes, size_t len)
{
    struct place *const place = &scene->places[scene->place_count++];

    if (scene->place_count > PLACES_MAX)
        abort();
    *place = (struct place){
        .base = base, .len_bytes = len, .cr3 = PTD_ANY_CR3, .bytes = malloc(len ? len : 1)};
    if (!place->bytes)
        abort();
    memcpy(place->bytes, bytes, len);
    return place;
}

static void list_free(struct list *list)
{
    free(list->ip);
    *list = (struct list){0};
}

void scene_free(struct scene *scene)
{
    for (size_t i = 0; i < scene->trace_count; i++) {
        free(scene->traces[i].bytes);
        list_free(&scene->traces[i].insns);
        list_free(&scene->traces[i].arrows.from);
        list_free(&scene->traces[i].arrows.to);
    }
    for (size_t i = 0; i < scene->place_count; i++)
        free(scene->places[i].bytes);
    memset(scene, 0, sizeof(*scene));
}

static struct walk *walk_of(struct machine *machine)
{
    return &machine->walks[machine->in_guest];
}

/* ---- The processor -------------------------------------------------------------------------- */

static void set_clock(struct machine *machine)
{
    vpt_clocks_from_tsc(&run.caps, run.tsc, &machine->fake->clocks);
}

static void pass_time(struct machine *machine, uint64_t ticks)
{
    run.tsc += ticks;
    set_clock(machine);
    vpt_time(&machine->fake->cpu);
}

static void set_tracing(struct machine *machine, bool on)
{
    struct vpt_cpu *const cpu = &machine->fake->cpu;
    const struct vpt_context ctx = walk_context(walk_of(machine));
    const uint64_t ip = walk_ip(walk_of(machine));

    set_clock(machine);
    vpt_set_context(cpu, &ctx);
    if (vpt_wrmsr(cpu, VPT_MSR_CTL, on ? run.ctl : run.ctl & ~VPT_CTL_TRACEEN, ip, ip) != VPT_OK)
        abort();
    if (!on) /* so that tracing can begin again behind a TraceStop */
        fake_write(machine->fake, VPT_MSR_STATUS,
                   fake_read(machine->fake, VPT_MSR_STATUS) & ~(uint64_t)VPT_STATUS_STOPPED);
}

/* A ring of two regions, or of one range; the model's harness has the linear output. */
static void set_output(struct machine *machine)
{
    struct fake *const fake = machine->fake;

    switch (run.recipe->output) {
    case OUTPUT_LINEAR:
        fake_output(fake);
        break;
    case OUTPUT_TOPA_RING:
        fake_poke(fake, TABLE_GPA, RING_GPA | TOPA_8K << VPT_TOPA_SIZE_SHR);
        fake_poke(fake, TABLE_GPA + 8, SECOND_GPA | TOPA_4K << VPT_TOPA_SIZE_SHR);
        fake_poke(fake, TABLE_GPA + 16, TABLE_GPA | VPT_TOPA_END);
        fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
        fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
        break;
    case OUTPUT_SINGLE_RING:
        fake_write(fake, VPT_MSR_OUTPUT_BASE, RING_GPA);
        fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, RING_BYTES - 1);
        break;
    }
}

/* A third of an image, in whole functions: code leaves it by branches only. */
static void set_range(unsigned n, const struct image *image, uint8_t kind)
{
    const uint32_t third = (uint32_t)image->functions / 3;
    const uint32_t first = draw(&run.random, (uint32_t)image->functions - third);
    const struct insn *const insn = &image->insn[image->function[first]];
    const struct insn *const last = &image->insn[image->function[first + third] - 1];

    if (kind == VPT_ADDR_CFG_UNUSED)
        return;
    run.scene->ranges[n].first = image->base + insn->offset;
    run.scene->ranges[n].last = image->base + last->offset;
    run.scene->ranges[n].kind = kind;
    run.ctl |= (uint64_t)kind << (VPT_CTL_ADDR_CFG_SHR + 4 * n);
    for (unsigned i = 0; i < TRACES_MAX && run.machines[i].fake; i++) {
        fake_write(run.machines[i].fake, VPT_MSR_ADDR0_A + 2 * n, run.scene->ranges[n].first);
        fake_write(run.machines[i].fake, VPT_MSR_ADDR0_A + 2 * n + 1, run.scene->ranges[n].last);
    }
}

/* ---- What runs ------------------------------------------------------------------------------ */

static struct trace *trace_of(const struct machine *machine)
{
    return &run.scene->traces[machine - run.machines];
}

static bool is_branch(enum insn_kind kind)
{
    return kind != INSN_NOP && kind != INSN_MOV_CR3;
}

/* Whether the transfer that just took place left traced code to an address that a packet names. */
static bool leaves_by_filter(const struct vpt_cpu *cpu)
{
    return cpu->context_en && !cpu->filter_en && cpu->ranges;
}

/* Where things stood before an event. */
struct before {
    bool traced, overflow;
};

static struct before look(const struct machine *machine)
{
    return (struct before){.traced = vpt_packet_en(&machine->fake->cpu),
                           .overflow = machine->fake->cpu.overflow};
}

static void note_loss(struct machine *machine, const struct before *before)
{
    struct trace *const trace = trace_of(machine);
    const bool overflow = machine->fake->cpu.overflow;

    if (overflow && !before->overflow) {
        if (trace->gap_count == GAPS_MAX)
            abort();
        trace->gaps[trace->gap_count++].from = trace->insns.count;
    }
    if (!overflow && before->overflow)
        trace->gaps[trace->gap_count - 1].to = trace->insns.count;
}

/* An event took execution from one address to another, or began or ended tracing there. */
static void note_arrow(struct machine *machine, const struct before *before, uint64_t from,
                       uint64_t to)
{
    const struct vpt_cpu *const cpu = &machine->fake->cpu;
    const bool traced = vpt_packet_en(cpu);

    if (before->traced && (traced || leaves_by_filter(cpu)))
        arrow_add(&trace_of(machine)->arrows, from, to);
    else if (before->traced)
        arrow_add(&trace_of(machine)->arrows, from, 0);
    else if (traced)
        arrow_add(&trace_of(machine)->arrows, 0, to);
}

static void turn_tracing(struct machine *machine, bool on)
{
    const struct before before = look(machine);

    set_tracing(machine, on);
    note_loss(machine, &before);
    if (before.traced != vpt_packet_en(&machine->fake->cpu))
        note_arrow(machine, &before, walk_ip(walk_of(machine)), walk_ip(walk_of(machine)));
}

static void interrupt(struct machine *machine)
{
    const struct before before = look(machine);
    struct vpt_transfer transfer;

    if (!walk_interrupt(walk_of(machine), &transfer))
        return;
    vpt_transfer(&machine->fake->cpu, &transfer);
    note_loss(machine, &before);
    note_arrow(machine, &before, transfer.ip, transfer.target);
}

/* New code in place of the old, while the kernel runs untraced. A TSC packet says when. */
static void change_code(struct machine *machine)
{
    const struct image *const image = &run.user[++run.version];
    struct place *const place =
        scene_add_place(run.scene, image->base, image->code, image->len_bytes);

    turn_tracing(machine, false);
    run.tsc += PAUSE_TICKS;
    place->tsc = run.tsc;
    run.tsc += PAUSE_TICKS;
    walk_of(machine)->image[0] = image;
    turn_tracing(machine, true);
}

/* MOV CR3 has changed the process: time passes before and behind it. */
static void change_process(struct machine *machine)
{
    struct scene *const scene = run.scene;

    walk_of(machine)->image[0] = &run.user[walk_of(machine)->process];
    pass_time(machine, PAUSE_TICKS);
    if (scene->change_count == SWITCHES_MAX)
        abort();
    scene->changes[scene->change_count++] =
        (struct change){.tsc = run.tsc, .process = walk_of(machine)->process};
    pass_time(machine, PAUSE_TICKS);
}

/* VMRESUME: the host goes on behind it once the guest exits. */
static void enter_guest(struct machine *machine)
{
    const struct before before = look(machine);
    struct vpt_vm_entry entry = {.ip = walk_ip(walk_of(machine))};

    if (before.traced)
        list_add(&trace_of(machine)->insns, entry.ip);
    walk_of(machine)->at++;
    entry.next_ip = entry.host_ip = walk_ip(walk_of(machine));
    entry.host = walk_context(walk_of(machine));
    machine->in_guest = true;
    machine->entries++;
    entry.guest_ip = walk_ip(walk_of(machine));
    entry.guest = walk_context(walk_of(machine));
    if (vpt_vm_entry(&machine->fake->cpu, &entry) != VPT_ENTRY_SUCCEEDS)
        abort();
    note_arrow(machine, &before, entry.ip, entry.guest_ip);
}

static void leave_guest(struct machine *machine)
{
    const struct before before = look(machine);
    struct vpt_vm_exit leave = {.ip = walk_ip(walk_of(machine))};

    machine->in_guest = false;
    leave.host_ip = walk_ip(walk_of(machine));
    leave.host = walk_context(walk_of(machine));
    if (!vpt_vm_exit(&machine->fake->cpu, &leave))
        abort();
    note_arrow(machine, &before, leave.ip, leave.host_ip);
}

/* Where the host's kernel would have a SYSRET, it has a VMRESUME. True: the guest came or went. */
static bool cross(struct machine *machine)
{
    struct walk *const walk = walk_of(machine);

    if (run.recipe->guest == GUEST_NONE)
        return false;
    if (!machine->in_guest && walk->kernel && walk_kind(walk) == INSN_SYSRET) {
        enter_guest(machine);
        return true;
    }
    if (machine->in_guest && draw(&run.random, GUEST_INSNS) == 0) {
        leave_guest(machine);
        return true;
    }
    return false;
}

/* Whether an instruction at ip, which left execution at walk, took a branch. */
static bool is_taken(const struct walk *walk, const struct image *image, const struct insn *insn)
{
    if (insn->kind == INSN_JCC)
        return walk_ip(walk) == image->base + image->insn[insn->target].offset;
    return is_branch((enum insn_kind)insn->kind);
}

static void execute_insn(struct machine *machine)
{
    struct walk *const walk = walk_of(machine);
    const struct image *const image = walk->image[walk->kernel];
    const struct insn *const insn = &image->insn[walk->at];
    const uint64_t ip = walk_ip(walk);
    const unsigned process = walk->process;
    const struct before before = look(machine);

    /* A FUP with the address of INT3 comes before it (Table 33-23): no decoder lists it. */
    if (before.traced && insn->kind != INSN_INT3)
        list_add(&trace_of(machine)->insns, ip);
    walk_step(walk, &machine->fake->cpu);
    note_loss(machine, &before);
    /* MOV CR3 may begin tracing; where it ends it, that is no transfer. */
    if (is_taken(walk, image, insn) || !before.traced)
        note_arrow(machine, &before, ip, walk_ip(walk));
    if (run.recipe->own_code && walk->process != process)
        change_process(machine);
}

static void execute_one(struct machine *machine)
{
    const uint64_t ip = walk_ip(walk_of(machine));

    run.tsc += draw(&run.random, 4);
    set_clock(machine);
    interrupt(machine);
    if (walk_ip(walk_of(machine)) == ip && !cross(machine))
        execute_insn(machine);
}

static void stall(struct machine *machine, unsigned i)
{
    const struct before before = look(machine);

    if (i % STALL_EVERY == STALL_EVERY - STALL_INSNS)
        vpt_stall(&machine->fake->cpu, true);
    if (i % STALL_EVERY == 0)
        vpt_stall(&machine->fake->cpu, false);
    note_loss(machine, &before);
}

/* A run that is to begin with a state: what was traced before the second enabling is cut off. */
static void begin_here(struct machine *machine)
{
    struct trace *const trace = trace_of(machine);

    vpt_flush(&machine->fake->cpu);
    machine->from_byte = machine->fake->tap_len;
    trace->insns.count = machine->marks.from.count = machine->marks.to.count = 0;
    trace->arrows.from.count = trace->arrows.to.count = 0;
    trace->config = (struct ptd_flow_config){
        .mode = PTD_MODE_64, .cr3 = walk_cr3(walk_of(machine)->process), .at_start = true};
    machine->begun = true;
}

static void pause_tracing(struct machine *machine)
{
    const bool on = machine->fake->cpu.ctl & VPT_CTL_TRACEEN;

    turn_tracing(machine, !on);
    if (on)
        run.tsc += PAUSE_TICKS;
    if (on && run.recipe->start == START_STATE && !machine->begun)
        begin_here(machine);
}

static void execute_turn(struct machine *machine, unsigned first, unsigned count)
{
    turn_tracing(machine, true);
    for (unsigned i = first; i < first + count; i++) {
        if (run.recipe->pauses && i % PAUSE_INSNS == PAUSE_INSNS - 1)
            pause_tracing(machine);
        if (run.recipe->stalls)
            stall(machine, i);
        if (run.recipe->jit && walk_of(machine)->kernel && run.version + 1 < VERSIONS &&
            i > (run.version + 1) * RUN_INSNS / VERSIONS)
            change_code(machine);
        execute_one(machine);
        if (i % MARK_INSNS == 0)
            arrow_add(&machine->marks, machine->fake->tap_len, trace_of(machine)->insns.count);
    }
    turn_tracing(machine, false);
    run.tsc += PAUSE_TICKS;
}

/* ---- What is left of it --------------------------------------------------------------------- */

/* The ring from its oldest byte on. How many bytes. */
static size_t unwrap(const struct fake *fake, uint64_t ptrs, uint8_t *to)
{
    static const struct {
        uint64_t gpa, len;
    } regions[2][2] = {{{RING_GPA, 4096u << TOPA_8K}, {SECOND_GPA, 4096u << TOPA_4K}},
                       {{RING_GPA, RING_BYTES}, {0, 0}}};
    const bool topa = run.recipe->output == OUTPUT_TOPA_RING;
    const unsigned here = topa ? (unsigned)(ptrs >> 7 & 0x1ffffff) : 0;
    const uint64_t offset = ptrs >> 32;
    const uint64_t gpa = regions[!topa][here].gpa, len = regions[!topa][here].len;
    const uint64_t other = regions[!topa][!here].len;

    memcpy(to, fake->ram + gpa + offset, len - offset);
    memcpy(to + len - offset, fake->ram + regions[!topa][!here].gpa, other);
    memcpy(to + len - offset + other, fake->ram + gpa, offset);
    return len + other;
}

/* How many instructions ran behind a byte of the tap, at least. */
static size_t ran_behind(const struct machine *machine, size_t byte)
{
    const size_t all = trace_of(machine)->insns.count;

    for (size_t i = 0; i < machine->marks.from.count; i++)
        if (machine->marks.from.ip[i] >= byte)
            return all - machine->marks.to.ip[i];
    return 0;
}

static void keep_ring(struct machine *machine)
{
    struct trace *const trace = trace_of(machine);
    const struct fake *const fake = machine->fake;

    trace->bytes = malloc(3 * RING_BYTES);
    if (!trace->bytes)
        abort();
    trace->len_bytes =
        unwrap(fake, fake_read(machine->fake, VPT_MSR_OUTPUT_MASK_PTRS), trace->bytes);
    trace->truth = TRUTH_TAIL;
    trace->least = ran_behind(machine, fake->tap_len - trace->len_bytes + PSB_BYTES);
    if (fake->tap_len < 2 * trace->len_bytes ||
        memcmp(trace->bytes, fake->tap + fake->tap_len - trace->len_bytes, trace->len_bytes) != 0)
        snprintf(run.scene->wrong, sizeof(run.scene->wrong),
                 "the ring does not hold the last %zu of %zu bytes", trace->len_bytes,
                 fake->tap_len);
}

static void keep_trace(struct machine *machine)
{
    struct trace *const trace = trace_of(machine);
    size_t from = machine->from_byte;

    vpt_flush(&machine->fake->cpu);
    if (run.recipe->output != OUTPUT_LINEAR) {
        keep_ring(machine);
        return;
    }
    if (run.recipe->start == START_IN_MIDST) {
        from = CUT_BYTES;
        trace->truth = TRUTH_TAIL;
    }
    trace->least = ran_behind(machine, from + PSB_BYTES);
    trace->len_bytes = machine->fake->tap_len - from;
    trace->bytes = malloc(trace->len_bytes);
    if (!trace->bytes)
        abort();
    memcpy(trace->bytes, machine->fake->tap + from, trace->len_bytes);
    if (trace->gap_count)
        trace->truth = TRUTH_GAPS;
    if (run.recipe->guest && machine->entries < LEAST_ENTRIES)
        snprintf(run.scene->wrong, sizeof(run.scene->wrong), "%u VM entries", machine->entries);
    if (run.recipe->stalls && trace->gap_count < 2)
        snprintf(run.scene->wrong, sizeof(run.scene->wrong), "%zu overflows", trace->gap_count);
}

/* ---- All ------------------------------------------------------------------------------------ */

/* The packets of a processor, with the encodings of all; its decoders know it by its numbers. */
static void make_choices(const char *profile)
{
    struct vpt_caps of;

    if (!vpt_profile(profile, &of))
        abort();
    run.caps.choices = of.choices;
    run.caps.psb_align_bytes = of.psb_align_bytes;
    run.caps.tsx = of.tsx;
    run.scene->family = of.choices.family;
    run.scene->model = of.choices.model;
    run.scene->stepping = of.choices.stepping;
    for (size_t i = 0; i < run.scene->trace_count; i++)
        run.scene->traces[i].config.errata = ptd_errata(of.choices.family, of.choices.model);
}

static void make_caps(void)
{
    run.caps = rich_caps();
    if (run.recipe->profile)
        make_choices(run.recipe->profile);
    run.caps.long_tnt = run.recipe->long_tnt;
    run.caps.deferred_tips = run.recipe->deferred_tips;
    run.caps.choices.tips_wait = run.recipe->tips_wait;
    run.scene->tsc_den = run.caps.tsc_den;
    run.scene->tsc_num = run.caps.tsc_num;
    run.scene->max_nonturbo_ratio = run.caps.max_nonturbo_ratio;
}

static void place_image(const struct image *image, unsigned n)
{
    struct place *const place =
        scene_add_place(run.scene, image->base, image->code, image->len_bytes);

    if (run.recipe->own_code && image != &run.kernel[0])
        place->cr3 = walk_cr3(n);
    place->process = run.recipe->own_code ? n : 0;
    place->in_guest = run.recipe->guest && n == 1;
}

/* The host enters its guest where it would go back to a process. */
static void plant_vmresume(struct image *kernel)
{
    static const uint8_t vmresume[] = {0x0f, 0x01, 0xc3};

    for (size_t i = 0; i < kernel->insns; i++)
        if (kernel->insn[i].kind == INSN_SYSRET)
            memcpy(kernel->code + kernel->insn[i].offset, vmresume, sizeof(vmresume));
}

/* As program_make() does, but with kernels in the lower half. */
static void make_code(void)
{
    const struct recipe *const recipe = run.recipe;
    const uint64_t apart = recipe->guest == GUEST_APART ? GUEST_APART_BYTES : 0;
    const unsigned users = recipe->jit ? VERSIONS : recipe->own_code || recipe->guest ? 2 : 1;

    for (unsigned i = 0; i < users; i++)
        program_make(&run.user[i], &run.kernel[recipe->guest ? i : 0], &run.random);
    for (unsigned i = 0; i < 2; i++)
        run.kernel[i].base = LOW_KERNEL + i * apart;
    if (recipe->guest) {
        plant_vmresume(&run.kernel[0]);
        run.user[1].base += apart;
    }
    place_image(&run.kernel[0], 0);
    if (recipe->guest)
        place_image(&run.kernel[1], 1);
    for (unsigned i = 0; i < (recipe->jit ? 1 : users); i++)
        place_image(&run.user[i], i);
}

static void make_machines(void)
{
    for (size_t i = 0; i < run.scene->trace_count; i++) {
        struct machine *const machine = &run.machines[i];

        machine->fake = fake_open_caps(&run.caps);
        walk_start(&machine->walks[0], &run.user[0], &run.kernel[0], &run.random);
        walk_start(&machine->walks[1], &run.user[1], &run.kernel[1], &run.random);
        for (unsigned j = 0; j < 2; j++)
            machine->walks[j].interrupts_per_1024 = 4;
        if (run.recipe->guest) {
            vpt_vmxon(&machine->fake->cpu, LOW_KERNEL);
            vpt_vmptrld(&machine->fake->cpu, GUEST_VMCS);
        }
        set_output(machine);
        fake_write(machine->fake, VPT_MSR_CR3_MATCH, walk_cr3(0));
    }
    set_range(0, &run.user[0], run.recipe->user_range);
    set_range(1, &run.kernel[0], run.recipe->kernel_range);
}

void scene_run(struct scene *scene, const struct recipe *recipe, uint64_t seed)
{
    const unsigned threads = recipe->threads ? recipe->threads : 1;
    const unsigned turn = threads > 1 ? TURN_INSNS : RUN_INSNS;

    memset(scene, 0, sizeof(*scene));
    memset(&run, 0, sizeof(run));
    run.scene = scene;
    run.recipe = recipe;
    run.random.state = seed * 2654435761u + 88172645463325252ull;
    run.tsc = 1000000;
    run.ctl = VPT_CTL_TRACEEN | VPT_CTL_BRANCHEN | recipe->ctl;
    if (!(recipe->ctl & (VPT_CTL_OS | VPT_CTL_USER)))
        run.ctl |= VPT_CTL_OS | VPT_CTL_USER;
    if (recipe->output != OUTPUT_SINGLE_RING)
        run.ctl |= VPT_CTL_TOPA;
    scene->trace_count = threads;
    scene->of_cpu = recipe->own_code;
    if (scene->of_cpu)
        scene->changes[scene->change_count++] = (struct change){.tsc = run.tsc};
    make_caps();
    make_code();
    make_machines();
    for (unsigned i = 0; i < threads; i++)
        scene->traces[i].first_tsc = run.tsc + 1;
    for (unsigned first = 0; first < RUN_INSNS; first += turn)
        for (unsigned i = 0; i < threads; i++)
            execute_turn(&run.machines[i], first, turn);
    scene->ctl = run.ctl;
    for (unsigned i = 0; i < threads; i++) {
        keep_trace(&run.machines[i]);
        fake_close(run.machines[i].fake);
        free(run.machines[i].marks.from.ip);
        free(run.machines[i].marks.to.ip);
    }
}
