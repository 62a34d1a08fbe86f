/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which VMs a capture saw, as a map file names them (docs/decoder.md). A guest can run as many
 * VMCBs as it has pages; those that ran last are remembered, up to X86_VPT_VMCBS_MAX.
 */
#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qemu/queue.h"
#include "svm.h"
#include "compat.h"
#include "vpt-i386.h"

/* VMs are told apart by their nested page tables, or else by their VMCB. */
struct vmcb_seen {
    struct X86VptVmcb is; /* its first member is the key */
    uint64_t first;       /* the order in which they came, */
    uint64_t vm;          /* and that of the first one of the same VM */
    QTAILQ_ENTRY(vmcb_seen) next;
};

struct X86VptVms {
    GHashTable *by_vmcb;
    QTAILQ_HEAD(, vmcb_seen) by_age; /* the one that ran last is the last */
    uint64_t came, forgotten;
};

static guint vmcb_hash(gconstpointer key)
{
    return (*(const uint64_t *)key * 0x9e3779b97f4a7c15ull) >> 32;
}

struct X86VptVms *x86_vpt_vms_new(void)
{
    struct X86VptVms *vms = g_new0(struct X86VptVms, 1);

    vms->by_vmcb = g_hash_table_new_full(vmcb_hash, g_int64_equal, NULL, g_free);
    QTAILQ_INIT(&vms->by_age);
    return vms;
}

void x86_vpt_vms_free(struct X86VptVms *vms)
{
    if (vms) {
        g_hash_table_destroy(vms->by_vmcb);
        g_free(vms);
    }
}

uint64_t x86_vpt_vms_forgotten(const struct X86VptVms *vms)
{
    return qatomic_read(&vms->forgotten);
}

/* Makes room for one. */
static void forget_oldest(struct X86VptVms *vms)
{
    struct vmcb_seen *oldest = QTAILQ_FIRST(&vms->by_age);

    if (g_hash_table_size(vms->by_vmcb) < X86_VPT_VMCBS_MAX) {
        return;
    }
    QTAILQ_REMOVE(&vms->by_age, oldest, next);
    g_hash_table_remove(vms->by_vmcb, &oldest->is.vmcb);
    if (vms->forgotten == 0) {
        warn_report("vpt capture: the guest runs more than %d VMCBs: the map has the last of them",
                    X86_VPT_VMCBS_MAX);
    }
    qatomic_set(&vms->forgotten, vms->forgotten + 1);
}

void x86_vpt_vms_saw(struct X86VptVms *vms, const struct X86VptVmcb *vmcb)
{
    struct vmcb_seen *seen = g_hash_table_lookup(vms->by_vmcb, &vmcb->vmcb);

    if (seen) {
        QTAILQ_REMOVE(&vms->by_age, seen, next);
    } else {
        forget_oldest(vms);
        seen = g_new(struct vmcb_seen, 1);
        seen->first = vms->came++;
        seen->is.vmcb = vmcb->vmcb;
        g_hash_table_insert(vms->by_vmcb, &seen->is.vmcb, seen);
    }
    seen->is = *vmcb;
    QTAILQ_INSERT_TAIL(&vms->by_age, seen, next);
}

/* ---- As JSON ---- */

static gint by_arrival(gconstpointer a, gconstpointer b)
{
    const struct vmcb_seen *left = *(struct vmcb_seen *const *)a;
    const struct vmcb_seen *right = *(struct vmcb_seen *const *)b;

    return left->first < right->first ? -1 : left->first > right->first;
}

static gint by_vm(gconstpointer a, gconstpointer b)
{
    const struct vmcb_seen *left = *(struct vmcb_seen *const *)a;
    const struct vmcb_seen *right = *(struct vmcb_seen *const *)b;

    return left->vm < right->vm ? -1 : left->vm > right->vm ? 1 : by_arrival(a, b);
}

/* All VMCBs, those of a VM behind each other, in the order in which they came. */
static GPtrArray *sorted(const struct X86VptVms *vms)
{
    GPtrArray *list = g_ptr_array_sized_new(g_hash_table_size(vms->by_vmcb));
    GHashTable *first_of = g_hash_table_new(vmcb_hash, g_int64_equal); /* by nested page tables */
    struct vmcb_seen *seen;

    QTAILQ_FOREACH(seen, &vms->by_age, next)
    {
        g_ptr_array_add(list, seen);
    }
    g_ptr_array_sort(list, by_arrival);
    for (guint i = 0; i < list->len; i++) {
        const struct vmcb_seen *first;

        seen = g_ptr_array_index(list, i);
        seen->vm = seen->first;
        if (!seen->is.nested_cr3) {
            continue;
        }
        first = g_hash_table_lookup(first_of, &seen->is.nested_cr3);
        if (first) {
            seen->vm = first->first;
        } else {
            g_hash_table_insert(first_of, &seen->is.nested_cr3, seen);
        }
    }
    g_hash_table_destroy(first_of);
    g_ptr_array_sort(list, by_vm);
    return list;
}

static void describe(GString *text, const struct vmcb_seen *vm)
{
    g_string_append_printf(text, "{\"name\": \"%s-%" PRIx64 "\", \"tsc_offset\": %" PRId64,
                           vm->is.nested_cr3 ? "npt" : "vmcb",
                           vm->is.nested_cr3 ? vm->is.nested_cr3 : vm->is.vmcb,
                           (int64_t)vm->is.tsc_offset);
    if (vm->is.tsc_multiplier != X86_VPT_TSC_MULTIPLIER_ONE) {
        g_string_append_printf(text, ", \"tsc_multiplier\": %" PRId64,
                               (int64_t)vm->is.tsc_multiplier);
    }
}

/* By hand: a QDict has four KiB, and there may be as many VMs as VMCBs. */
void x86_vpt_vms_to_json(const struct X86VptVms *vms, GString *text)
{
    g_autoptr(GPtrArray) list = sorted(vms);
    const struct vmcb_seen *before = NULL;

    g_string_append_c(text, '[');
    for (guint i = 0; i < list->len; i++) {
        const struct vmcb_seen *seen = g_ptr_array_index(list, i);

        if (!before || before->vm != seen->vm) {
            g_string_append(text, before ? "]},\n" : "\n");
            describe(text, seen);
            g_string_append_printf(text, ", \"vmcs\": [%" PRIu64, seen->is.vmcb);
        } else {
            g_string_append_printf(text, ", %" PRIu64, seen->is.vmcb);
        }
        before = seen;
    }
    g_string_append(text, before ? "]}]" : "]");
}

bool x86_vpt_vms_any(const struct X86VptVms *vms)
{
    return !QTAILQ_EMPTY(&vms->by_age);
}
