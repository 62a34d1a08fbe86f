/* SPDX-License-Identifier: BSD-3-Clause */
/* A host and two VMs, see world.h. */
#include "roundtrip/world.h"

#include <stdlib.h>
#include <string.h>

#define REGION_BYTES (4u << 20)
#define REGION_GPA   0x400000u
#define TABLE_GPA    0x1000u
#define MAX_STEPS    60000u
#define MAX_STAMPS   (2 * MAX_STEPS)

/* The hypervisor's code: an interrupt comes here, and IRETQ goes back. */
#define VMRESUME (HYPERVISOR + 3)
#define VM_EXIT  (HYPERVISOR + 7)
#define IRETQ    (HYPERVISOR + 8)

const uint8_t hypervisor[HYPERVISOR_BYTES] = {
    0x0f, 0xc7, 0x30, /* vmptrld [rax] */
    0x0f, 0x01, 0xc3, /* vmresume */
    0xf4,             /* hlt */
    0x90,             /* nop */
    0x48, 0xcf,       /* iretq */
};

const struct ptd_time_vm vms[MACHINES] = {
    {0},
    {.vmcs = 0x7000, .offset = UINT64_C(0) - 123456789, .multiplier = UINT64_C(3) << 47},
    {.vmcs = 0x8000, .offset = 99887766554433, .multiplier = (UINT64_C(1) << 47) + 12345},
};

/* ---- The model's owner ---- */

static void translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    struct world *const world = owner;

    (void)access;
    span->len_bytes = len_bytes;
    span->kind = VPT_SPAN_RAM;
    if (gpa >= REGION_GPA && gpa - REGION_GPA < REGION_BYTES)
        span->host = world->region + (gpa - REGION_GPA);
    else if (gpa - TABLE_GPA < sizeof(world->table))
        span->host = (uint8_t *)world->table + (gpa - TABLE_GPA);
    else
        span->kind = VPT_SPAN_UNBACKED;
}

static void clocks(void *owner, struct vpt_clocks *now)
{
    const struct world *const world = owner;
    const struct ptd_time_vm *const vm = &vms[world->running];

    vpt_clocks_from_tsc(&world->caps, world->tsc, now);
    if (world->cpu.vmx_nonroot)
        now->tsc = vpt_guest_tsc(world->tsc, vm->multiplier, vm->offset);
}

static const struct vpt_ops ops = {.translate = translate, .clocks = clocks};

static void pass(struct world *world)
{
    world->stamps[world->stamp_count++] =
        (struct stamp){(size_t)world->cpu.output_bytes + world->cpu.buf_len, world->tsc};
    world->tsc += draw(&world->random, 30);
}

/* ---- Execution ---- */

static void record(struct world *world, uint64_t ip, uint64_t cr3)
{
    world->steps[world->step_count++] = (struct step){ip, cr3, world->running};
}

void run_some(struct world *world, unsigned steps)
{
    struct walk *const walk = &world->walk[world->running];
    struct vpt_transfer transfer;

    for (unsigned i = 0; i < steps; i++) {
        if (walk_interrupt(walk, &transfer)) {
            vpt_transfer(&world->cpu, &transfer);
        } else {
            if (walk_kind(walk) != INSN_INT3) /* its FUP says that it is an event */
                record(world, walk_ip(walk), walk_context(walk).cr3);
            walk_step(walk, &world->cpu);
        }
        pass(world);
    }
}

static struct vpt_context hypervisor_context(const struct world *world)
{
    struct vpt_context ctx = walk_context(&world->walk[0]);

    ctx.cpl = 0;
    return ctx;
}

static void enter_hypervisor(struct world *world)
{
    const struct vpt_transfer interrupt = {
        .type = VPT_INTERRUPT,
        .vector = 0x40,
        .ip = walk_ip(&world->walk[0]),
        .target = HYPERVISOR,
        .after = hypervisor_context(world),
    };

    vpt_transfer(&world->cpu, &interrupt);
    pass(world);
}

static void leave_hypervisor(struct world *world)
{
    const struct vpt_transfer iret = {
        .type = VPT_IRET,
        .ip = IRETQ,
        .target = walk_ip(&world->walk[0]),
        .after = walk_context(&world->walk[0]),
    };

    record(world, VM_EXIT, iret.after.cr3);
    record(world, IRETQ, iret.after.cr3);
    vpt_transfer(&world->cpu, &iret);
    pass(world);
}

void run_vm(struct world *world, unsigned vm, unsigned steps)
{
    const struct vpt_context host = hypervisor_context(world);
    struct vpt_vm_entry entry = {
        .ip = VMRESUME, .next_ip = VMRESUME + 3, .host_ip = VM_EXIT, .host = host};
    struct vpt_vm_exit exit = {.host_ip = VM_EXIT, .reason = 1, .by_event = true, .host = host};

    enter_hypervisor(world);
    record(world, HYPERVISOR, host.cr3);
    vpt_vmptrld(&world->cpu, vms[vm].vmcs);
    pass(world);
    record(world, VMRESUME, host.cr3);
    entry.guest_ip = walk_ip(&world->walk[vm]);
    entry.guest = walk_context(&world->walk[vm]);
    world->running = vm;
    (void)vpt_vm_entry(&world->cpu, &entry);
    pass(world);
    run_some(world, steps);
    exit.ip = walk_ip(&world->walk[vm]);
    (void)vpt_vm_exit(&world->cpu, &exit);
    world->running = 0;
    pass(world);
    leave_hypervisor(world);
}

#define CTL                                                                                        \
    (VPT_CTL_TRACEEN | VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN | VPT_CTL_TOPA |               \
     VPT_CTL_TSCEN | VPT_CTL_MTCEN | VPT_CTL_CYCEN | UINT64_C(3) << VPT_CTL_MTCFREQ_SHR)

bool make_world(struct world *world, uint64_t seed, uint64_t more_ctl)
{
    struct vpt_context ctx;

    memset(world, 0, sizeof(*world));
    world->random.state = seed;
    world->region = calloc(1, REGION_BYTES);
    world->steps = calloc(MAX_STEPS, sizeof(*world->steps));
    world->stamps = calloc(MAX_STAMPS, sizeof(*world->stamps));
    if (!world->region || !world->steps || !world->stamps)
        return false;
    for (unsigned i = 0; i < MACHINES; i++) {
        program_make(&world->user[i], &world->kernel[i], &world->random);
        walk_start(&world->walk[i], &world->user[i], &world->kernel[i], &world->random);
        world->walk[i].interrupts_per_1024 = 8;
    }
    if (!vpt_profile("max", &world->caps) || !vpt_init(&world->cpu, &world->caps, &ops, world))
        return false;
    world->tsc = 55555555555;
    world->table[0] = REGION_GPA | UINT64_C(10) << VPT_TOPA_SIZE_SHR;
    world->table[1] = TABLE_GPA | VPT_TOPA_END;
    vpt_wrmsr(&world->cpu, VPT_MSR_OUTPUT_BASE, TABLE_GPA, 0, 2);
    vpt_wrmsr(&world->cpu, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f, 0, 2);
    vpt_vmxon(&world->cpu, 0);
    ctx = walk_context(&world->walk[0]);
    vpt_set_context(&world->cpu, &ctx);
    return vpt_wrmsr(&world->cpu, VPT_MSR_CTL, CTL | more_ctl, 0, walk_ip(&world->walk[0])) ==
           VPT_OK;
}

void run_world(struct world *world)
{
    pass(world);
    for (unsigned turn = 0; turn < 250; turn++) {
        run_some(world, 1 + draw(&world->random, 60));
        if (turn / 50 == 1)
            run_vm(world, 1, draw(&world->random, 200));
        if (turn / 50 == 3)
            run_vm(world, 2, draw(&world->random, 200));
        if (turn / 50 == 4)
            run_vm(world, 1 + draw(&world->random, 2), draw(&world->random, 200));
    }
    end_world(world);
}

void end_world(struct world *world)
{
    vpt_wrmsr(&world->cpu, VPT_MSR_CTL, 0, walk_ip(&world->walk[0]), walk_ip(&world->walk[0]));
    pass(world);
}

void free_world(struct world *world)
{
    free(world->region);
    free(world->steps);
    free(world->stamps);
}

/* ---- What a decoder is told ---- */

bool add_code(struct ptd_image *image, const struct world *world)
{
    bool ok = true;

    for (unsigned i = 0; i < MACHINES; i++) {
        const struct image *const user = &world->user[i], *const kernel = &world->kernel[i];

        for (unsigned p = 0; p < PROCESSES; p++)
            ok = ok && ptd_image_add_bytes(image, "user", user->base, user->code, user->len_bytes,
                                           ptd_space(i, walk_cr3(p))) == PTD_OK;
        ok = ok && ptd_image_add_bytes(image, "kernel", kernel->base, kernel->code,
                                       kernel->len_bytes, ptd_space(i, PTD_ANY_CR3)) == PTD_OK;
    }
    return ok && ptd_image_add_bytes(image, "hypervisor", HYPERVISOR, hypervisor,
                                     sizeof(hypervisor), PTD_ANY_CR3) == PTD_OK;
}

const char *const vm_names[MACHINES] = {NULL, "one", "two"};
const char *const process_names[MACHINES][PROCESSES] = {
    {"sshd", "qemu"}, {"make", "cc"}, {"bash", "find"}};

bool add_names(struct ptd_contexts *contexts)
{
    bool ok = true;

    for (unsigned i = 0; i < MACHINES; i++) {
        if (i > 0)
            ok = ok &&
                 ptd_contexts_add_vm(contexts, vm_names[i], vms[i].offset, vms[i].multiplier) ==
                     (int)i &&
                 ptd_contexts_add_vmcs(contexts, i, vms[i].vmcs) == PTD_OK;
        for (unsigned p = 0; p < PROCESSES; p++)
            ok = ok && ptd_contexts_add_process(contexts, i, walk_cr3(p), process_names[i][p],
                                                100 * i + p) == PTD_OK;
    }
    return ok;
}
