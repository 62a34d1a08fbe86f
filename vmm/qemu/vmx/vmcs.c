/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The VMCS: which fields there are, and where they are kept.
 *
 * The current VMCS is in the processor (struct X86Vmx); memory has it when another becomes current
 * or VMCLEAR names it, as the architecture allows. In memory, each field has eight bytes.
 */
#include "qemu/osdep.h"
#include "vmx.h"

#define VMCS_ABORT_OFFSET  4
#define VMCS_LAUNCH_OFFSET 8
#define VMCS_DATA_OFFSET   16

QEMU_BUILD_BUG_ON(VMCS_DATA_OFFSET + VMCS_FIELD_COUNT * 8 > VMCS_BYTES);

/* Ascending, as the lists of vmcs.h are. */
struct field {
    uint16_t encoding;
    FeatureWord word;
    uint64_t bit;
};

#define ROW(name, ...) {__VA_ARGS__},
static const struct field fields[] = {VMCS_FIELDS(ROW)};

static enum vmcs_width width_of(enum vmcs_field field)
{
    return fields[field].encoding >> 13 & 3;
}

enum vmcs_type vmcs_type_of(enum vmcs_field field)
{
    return fields[field].encoding >> 10 & 3;
}

static bool is_there(CPUX86State *env, enum vmcs_field field)
{
    return env->features[fields[field].word] & fields[field].bit;
}

static int by_encoding(const void *key, const void *row)
{
    return *(const uint16_t *)key - ((const struct field *)row)->encoding;
}

int vmcs_find(CPUX86State *env, uint64_t encoding, bool *high)
{
    const uint16_t whole = encoding & ~1;
    const struct field *found =
        bsearch(&whole, fields, ARRAY_SIZE(fields), sizeof(*fields), by_encoding);

    *high = encoding & 1;
    if (!found || encoding > UINT16_MAX || !is_there(env, found - fields) ||
        (*high && width_of(found - fields) != VMCS_64)) {
        return -1;
    }
    return found - fields;
}

uint64_t vmcs_read(CPUX86State *env, enum vmcs_field field, bool high)
{
    const uint64_t value = x86_vmx_of(env)->vmcs[field];

    return high ? value >> 32 : value;
}

static uint64_t truncated(enum vmcs_field field, uint64_t value)
{
    switch (width_of(field)) {
    case VMCS_16:
        return (uint16_t)value;
    case VMCS_32:
        return (uint32_t)value;
    default:
        return value;
    }
}

void vmcs_write(CPUX86State *env, enum vmcs_field field, bool high, uint64_t value)
{
    uint64_t *to = &x86_vmx_of(env)->vmcs[field];

    if (high) {
        *to = deposit64(*to, 32, 32, value);
    } else if (width_of(field) == VMCS_64 && !(env->hflags & HF_CS64_MASK)) {
        *to = deposit64(*to, 0, 32, value);
    } else {
        *to = truncated(field, value);
    }
}

uint64_t vmcs_highest_index(CPUX86State *env)
{
    uint64_t highest = 0;

    for (int i = 0; i < VMCS_FIELD_COUNT; i++) {
        if (is_there(env, i)) {
            highest = MAX(highest, fields[i].encoding & 0x3fe);
        }
    }
    return highest;
}

/* ---- In memory ---- */

void vmcs_store(CPUX86State *env)
{
    const struct X86Vmx *vmx = x86_vmx_of(env);
    CPUState *cs = env_cpu(env);

    if (vmx->current == VMCS_NONE) {
        return;
    }
    x86_stl_phys(cs, vmx->current + VMCS_LAUNCH_OFFSET, vmx->launched);
    for (int i = 0; i < VMCS_FIELD_COUNT; i++) {
        x86_stq_phys(cs, vmx->current + VMCS_DATA_OFFSET + i * 8, vmx->vmcs[i]);
    }
}

void vmcs_load(CPUX86State *env, uint64_t address)
{
    struct X86Vmx *vmx = x86_vmx_of(env);
    CPUState *cs = env_cpu(env);

    vmx->current = address;
    vmx->launched = x86_ldl_phys(cs, address + VMCS_LAUNCH_OFFSET);
    for (int i = 0; i < VMCS_FIELD_COUNT; i++) {
        vmx->vmcs[i] = truncated(i, x86_ldq_phys(cs, address + VMCS_DATA_OFFSET + i * 8));
    }
}

void vmcs_clear(CPUX86State *env, uint64_t address)
{
    x86_stl_phys(env_cpu(env), address + VMCS_LAUNCH_OFFSET, false);
}

void vmcs_abort(CPUX86State *env, uint32_t why)
{
    x86_stl_phys(env_cpu(env), x86_vmx_of(env)->current + VMCS_ABORT_OFFSET, why);
}
