/* SPDX-License-Identifier: BSD-3-Clause */
/* What came of a world's guests, see check.h. */
#include "demux/tests/check.h"

#include <CUnit/CUnit.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "demux/tests/scan.h"

#define HOST_CR3 0x77777000u /* nobody's */
#define SLACK    5000u       /* of a guess at when something was, in ticks */

void read_made(const char *folder, unsigned vm, struct made *made)
{
    struct agree_trace trace;
    char path[PATH_MAX];

    memset(made, 0, sizeof(*made));
    snprintf(path, sizeof(path), "%s/%u.0", folder, vm);
    CU_ASSERT_EQUAL_FATAL(read_file(path, &made->trace), 0);
    snprintf(path, sizeof(path), "%s/%u.0.code", folder, vm);
    CU_ASSERT_EQUAL_FATAL(read_file(path, &made->code), 0);
    trace =
        (struct agree_trace){made->trace.data, made->trace.len, made->code.data, made->code.len};
    agree_ptdec(&trace, &made->ptdec);
    agree_libipt(&trace, &made->libipt);
    CU_ASSERT_EQUAL(made->ptdec.errors, 0);
    CU_ASSERT_EQUAL(made->libipt.errors, 0);
    CU_ASSERT_EQUAL(agree_difference(&made->ptdec, &made->libipt), SIZE_MAX);
    if (made->ptdec.errors || made->libipt.errors)
        printf("VM %u: libptdec: %s, libipt: %s\n", vm, made->ptdec.first, made->libipt.first);
}

void free_made(struct made *made)
{
    bytes_free(&made->trace);
    bytes_free(&made->code);
    free(made->ptdec.list);
    free(made->libipt.list);
}

/* ---- What ran ---- */

static bool is_wanted(const struct step *step, unsigned vm, const struct wanted *wanted)
{
    const bool kernel = step->ip >> 63;

    return step->machine == vm && !(kernel ? wanted->no_kernel : wanted->no_user) &&
           (!wanted->cr3 || step->cr3 == wanted->cr3) &&
           (!wanted->last || (step->ip >= wanted->first && step->ip <= wanted->last));
}

size_t count_wanted(const struct world *world, unsigned vm, const struct wanted *wanted)
{
    size_t count = 0;

    for (size_t i = 0; i < world->step_count; i++)
        count += is_wanted(&world->steps[i], vm, wanted);
    return count;
}

/* How many are the same from the first one on. */
size_t same_from_start(const struct world *world, unsigned vm, const struct wanted *wanted,
                       const struct decoded *decoded)
{
    size_t at = 0;

    for (size_t i = 0; i < world->step_count && at < decoded->count; i++) {
        if (!is_wanted(&world->steps[i], vm, wanted))
            continue;
        if (world->steps[i].ip != decoded->list[at].ip)
            break;
        at++;
    }
    return at;
}

/* The same from the last one back. */
size_t same_to_end(const struct world *world, unsigned vm, const struct decoded *decoded)
{
    const struct wanted all = {0};
    size_t same = 0;

    for (size_t i = world->step_count; i-- > 0 && same < decoded->count;) {
        if (!is_wanted(&world->steps[i], vm, &all))
            continue;
        if (world->steps[i].ip != decoded->list[decoded->count - 1 - same].ip)
            break;
        same++;
    }
    return same;
}

void check_ran(const struct world *world, unsigned vm, const struct wanted *wanted,
               const struct made *made)
{
    const size_t count = count_wanted(world, vm, wanted);

    CU_ASSERT_TRUE(count > 100);
    CU_ASSERT_EQUAL(made->ptdec.count, count);
    CU_ASSERT_EQUAL(same_from_start(world, vm, wanted, &made->ptdec), count);
    CU_ASSERT_EQUAL(made->ptdec.gaps, 0);
}

void check_perf(const char *folder, unsigned vm, const struct made *made)
{
    struct decoded perf = {0};
    char name[16];

    snprintf(name, sizeof(name), "%u.0", vm);
    if (agree_perf(folder, name, &perf)) {
        CU_ASSERT_EQUAL(perf.errors, 0);
        CU_ASSERT_EQUAL(agree_difference(&made->ptdec, &perf), SIZE_MAX);
        if (perf.errors)
            printf("VM %u: perf: %s\n", vm, perf.first);
    } else {
        printf("\n    SKIPPED: VM %u by perf: %s", vm, perf.first);
    }
    free(perf.list);
}

/* ---- What is foreign ---- */

static const struct insn *insn_at(const struct image *image, uint64_t ip)
{
    for (size_t i = 0; i < image->insns; i++)
        if (image->base + image->insn[i].offset == ip)
            return &image->insn[i];
    return NULL;
}

/* The instruction of a step, which may be there in an address space. NULL: none, or no memory. */
static const struct insn *add_step(struct truth *truth, const struct world *world,
                                   const struct step *step, uint64_t cr3)
{
    const struct image *const image =
        step->ip >> 63 ? &world->kernel[step->machine] : &world->user[step->machine];
    const struct insn *const insn = insn_at(image, step->ip);

    if (!insn || !truth_add_insn(truth, cr3, step->ip, image->code + insn->offset, insn->len_bytes))
        return NULL;
    return insn;
}

/* All that the guest may have run: each instruction of the program that its steps are in. */
static struct truth *truth_of(const struct world *world, unsigned vm)
{
    const struct ptd_time_vm *const clock = &vms[vm];
    struct truth *const truth = truth_new();
    bool ok = truth != NULL;

    for (size_t i = 0; ok && i < world->step_count; i++) {
        const struct step *const step = &world->steps[i];
        const struct insn *insn;

        if (step->machine != vm)
            continue;
        insn = add_step(truth, world, step, step->cr3);
        ok = insn != NULL;
        /* Where a fault, an interrupt or a VM exit came may be an instruction that never ran. */
        ok = ok && truth_add_ip(truth, step->ip + insn->len_bytes);
    }
    for (size_t p = 0; ok && p < world->kernel[vm].insns; p++)
        ok = truth_add_ip(truth, world->kernel[vm].base + world->kernel[vm].insn[p].offset);
    for (size_t p = 0; ok && p < world->user[vm].insns; p++)
        ok = truth_add_ip(truth, world->user[vm].base + world->user[vm].insn[p].offset);
    ok = ok && truth_add_time(truth, ptd_time_guest_tsc(clock, world->stamps[0].tsc),
                              ptd_time_guest_tsc(clock, world->tsc) + SLACK);
    CU_ASSERT_TRUE_FATAL(ok);
    return truth;
}

void check_code(const struct world *world, unsigned vm, const struct wanted *wanted,
                const struct made *made)
{
    struct truth *const truth = truth_new();
    struct scan scan = {0};
    bool ok = truth != NULL;

    for (size_t i = 0; ok && i < world->step_count; i++) {
        const struct step *const step = &world->steps[i];

        if (is_wanted(step, vm, wanted))
            ok = add_step(truth, world, step, wanted->no_kernel ? 0 : step->cr3) != NULL;
    }
    CU_ASSERT_TRUE_FATAL(ok);
    scan_code(truth, made->code.data, made->code.len, &scan);
    CU_ASSERT_EQUAL(scan_sum(&scan), 0);
    CU_ASSERT_TRUE(scan.code_bytes > 100);
    if (scan_sum(&scan))
        printf("VM %u: %s\n", vm, scan.first);
    truth_free(truth);
}

static void check_plants(const struct truth *truth, const struct world *world,
                         const struct made *made)
{
    const uint64_t values[FOREIGN_KINDS] = {[FOREIGN_IP] = HYPERVISOR,
                                            [FOREIGN_CR3] = HOST_CR3,
                                            [FOREIGN_VMCS] = vms[1].vmcs,
                                            [FOREIGN_NR] = walk_cr3(0),
                                            [FOREIGN_TIME] = world->tsc};

    for (enum foreign what = 0; what < FOREIGN_KINDS; what++) {
        struct scan scan = {0};
        size_t len;
        uint8_t *const planted =
            scan_plant(what, values[what], made->trace.data, made->trace.len, &len);

        CU_ASSERT_PTR_NOT_NULL_FATAL(planted);
        scan_trace(truth, planted, len, &scan);
        CU_ASSERT_EQUAL(scan.foreign[what], 1);
        CU_ASSERT_EQUAL(scan_sum(&scan), 1);
        free(planted);
    }
}

void check_foreign(const struct world *world, unsigned vm, const struct made *made, bool plants)
{
    struct truth *const truth = truth_of(world, vm);
    struct scan scan = {0};

    scan_trace(truth, made->trace.data, made->trace.len, &scan);
    scan_code(truth, made->code.data, made->code.len, &scan);
    CU_ASSERT_EQUAL(scan_sum(&scan), 0);
    CU_ASSERT_TRUE(scan.packets > 100 && scan.code_bytes > 100);
    if (scan_sum(&scan))
        printf("VM %u: %s\n", vm, scan.first);
    if (plants)
        check_plants(truth, world, made);
    truth_free(truth);
}
