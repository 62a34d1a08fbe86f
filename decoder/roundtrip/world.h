/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host and two VMs, each with a kernel and two processes of random code, traced as one by the
 * model (SDM 33.5.1, 33.8.3.3). The same CR3 values and addresses are in use everywhere, with other
 * code each time. What was executed is the truth.
 */
#ifndef ROUNDTRIP_WORLD_H
#define ROUNDTRIP_WORLD_H

#include "ptdec.h"
#include "tests/program.h"

#define MACHINES         3 /* the host, two VMs */
#define HYPERVISOR       0xffffffff90000000u
#define HYPERVISOR_BYTES 10u

/* Where an interrupt comes, and IRETQ goes back. */
extern const uint8_t hypervisor[HYPERVISOR_BYTES];
/* VMCS pointers and clocks; that of the host is not used. */
extern const struct ptd_time_vm vms[MACHINES];

/* One executed instruction. */
struct step {
    uint64_t ip, cr3;
    unsigned machine;
};

struct stamp {
    size_t end;
    uint64_t tsc;
};

struct world {
    struct vpt_cpu cpu;
    struct vpt_caps caps;
    uint64_t table[2];
    uint8_t *region;
    uint64_t tsc;
    unsigned running; /* machine */
    struct random random;
    struct image user[MACHINES], kernel[MACHINES];
    struct walk walk[MACHINES];
    struct step *steps;
    size_t step_count;
    struct stamp *stamps;
    size_t stamp_count;
};

/* more_ctl is set besides the usual. False: no memory. */
bool make_world(struct world *world, uint64_t seed, uint64_t more_ctl);
/* The host alone, with VM 1, alone, with VM 2, with both. */
void run_world(struct world *world);
/* Parts of that: of what runs, so many steps; of a VM, from its entry to its exit; the end. */
void run_some(struct world *world, unsigned steps);
void run_vm(struct world *world, unsigned vm, unsigned steps);
void end_world(struct world *world);
void free_world(struct world *world);

/* What a decoder is told: all code, and who is who. False: no memory. */
bool add_code(struct ptd_image *image, const struct world *world);
extern const char *const vm_names[MACHINES];
extern const char *const process_names[MACHINES][PROCESSES];
bool add_names(struct ptd_contexts *contexts);

#endif
