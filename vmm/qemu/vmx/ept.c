/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Extended page tables: from guest-physical to physical addresses, with EPT violations told from
 * EPT misconfigurations. Formats: Linux arch/x86/include/asm/vmx.h, kvm mmu/paging_tmpl.h.
 */
#include "qemu/osdep.h"
#include "tcg/helper-tcg.h"
#include "vpt/vpt-i386.h"
#include "entry.h"
#include "exit.h"
#include "intercept.h"

#define EPT_READ     1u
#define EPT_WRITE    2u
#define EPT_EXECUTE  4u
#define EPT_RIGHTS   7u
#define EPT_LARGE    (1u << 7)
#define EPT_ACCESSED (1u << 8)
#define EPT_DIRTY    (1u << 9)
#define EPT_ADDRESS  0x000ffffffffff000ull

#define QUALIFICATION_RIGHTS_SHIFT 3
#define QUALIFICATION_LINEAR       (1u << 7)
#define QUALIFICATION_TRANSLATED   (1u << 8)

struct walk {
    CPUX86State *env;
    bool dirty_flags;
    uint64_t wanted; /* rights */
    uint64_t rights; /* of all entries so far */
    uint64_t slot, entry;
    int shift; /* of the part of the address that this level translates */
};

static bool is_leaf(const struct walk *walk)
{
    return walk->shift == 12 || (walk->shift <= 30 && (walk->entry & EPT_LARGE));
}

static bool is_memory_type(uint64_t type)
{
    return type == 0 || type == 1 || type == 4 || type == 5 || type == 6;
}

static bool is_misconfigured(const struct walk *walk)
{
    const uint64_t caps = walk->env->features[FEAT_VMX_EPT_VPID_CAPS];
    const uint64_t rights = walk->entry & EPT_RIGHTS;
    const uint64_t low = (1ull << walk->shift) - TARGET_PAGE_SIZE;

    if (rights == EPT_WRITE || rights == (EPT_WRITE | EPT_EXECUTE) ||
        (rights == EPT_EXECUTE && !(caps & MSR_VMX_EPT_EXECONLY)) ||
        (walk->entry & EPT_ADDRESS) >> env_archcpu(walk->env)->phys_bits) {
        return true;
    }
    if (!is_leaf(walk)) {
        return walk->entry & (walk->shift > 30 ? 0xf8 : 0x78);
    }
    return !is_memory_type(walk->entry >> 3 & 7) || (walk->shift > 12 && (walk->entry & low));
}

enum walked { WALK_MAPPED, WALK_FAILED, WALK_CHANGED };

static enum walked fail(struct walk *walk, uint32_t reason)
{
    struct X86Vmx *vmx = x86_vmx_of(walk->env);

    vmx->exit.reason = reason;
    vmx->exit.qualification = reason == VMX_EXIT_EPT_VIOLATION
                                  ? walk->wanted | walk->rights << QUALIFICATION_RIGHTS_SHIFT
                                  : 0;
    return WALK_FAILED;
}

/* Sets these flags. False: another processor has changed the entry meanwhile. */
static bool mark(struct walk *walk, uint64_t flags)
{
    const uint64_t old = walk->entry;

    if (!walk->dirty_flags || !(flags & ~old)) {
        return true;
    }
    walk->entry |= flags;
    return x86_vpt_exchange(walk->env, walk->slot, old, walk->entry);
}

/* Down to the entry that maps the page. */
static enum walked descend(struct walk *walk, uint64_t address)
{
    uint64_t table = x86_vmx_of(walk->env)->vmcs[VMCS_EPT_POINTER] & EPT_ADDRESS;

    for (walk->shift = 39;; walk->shift -= 9) {
        walk->slot = table + (address >> walk->shift & 0x1ff) * 8;
        walk->entry = x86_ldq_phys(env_cpu(walk->env), walk->slot);
        walk->rights &= walk->entry;
        if (!(walk->entry & EPT_RIGHTS)) {
            return fail(walk, VMX_EXIT_EPT_VIOLATION);
        }
        if (is_misconfigured(walk)) {
            return fail(walk, VMX_EXIT_EPT_MISCONFIGURATION);
        }
        if (is_leaf(walk)) {
            return (walk->wanted & ~walk->rights) ? fail(walk, VMX_EXIT_EPT_VIOLATION)
                                                  : WALK_MAPPED;
        }
        if (!mark(walk, EPT_ACCESSED)) {
            return WALK_CHANGED;
        }
        table = walk->entry & EPT_ADDRESS;
    }
}

static uint64_t wanted(MMUAccessType access)
{
    switch (access) {
    case MMU_DATA_STORE:
        return EPT_WRITE;
    case MMU_INST_FETCH:
        return EPT_EXECUTE;
    default:
        return EPT_READ;
    }
}

static int prot_of(const struct walk *walk)
{
    const bool clean = walk->dirty_flags && !(walk->entry & EPT_DIRTY);

    return (walk->rights & EPT_READ ? PAGE_READ : 0) |
           (walk->rights & EPT_WRITE && !clean ? PAGE_WRITE : 0) |
           (walk->rights & EPT_EXECUTE ? PAGE_EXEC : 0);
}

bool x86_ept_walk(CPUX86State *env, uint64_t address, MMUAccessType access, struct x86_ept *to)
{
    struct walk walk = {
        .env = env,
        .dirty_flags = x86_vmx_of(env)->vmcs[VMCS_EPT_POINTER] & EPTP_DIRTY,
        .wanted = wanted(access),
    };
    const uint64_t flags = EPT_ACCESSED | (access == MMU_DATA_STORE ? EPT_DIRTY : 0);
    enum walked walked;

    if (address >> 48) {
        fail(&walk, VMX_EXIT_EPT_VIOLATION);
        return false;
    }
    do {
        walk.rights = EPT_RIGHTS;
        walked = descend(&walk, address);
    } while (walked == WALK_CHANGED || (walked == WALK_MAPPED && !mark(&walk, flags)));
    if (walked == WALK_FAILED) {
        return false;
    }
    to->page_size = 1ull << walk.shift;
    to->physical = (walk.entry & EPT_ADDRESS & -to->page_size) | (address & (to->page_size - 1));
    to->prot = prot_of(&walk);
    return true;
}

/* Of a paging structure: a write is one that reads first. */
static uint64_t walk_access(uint64_t wanted)
{
    return wanted & EPT_WRITE ? EPT_READ | EPT_WRITE : wanted;
}

void x86_ept_exit(CPUX86State *env, uint64_t linear, uint64_t physical, bool walk,
                  uintptr_t retaddr)
{
    struct x86_vmx_exit exit = x86_vmx_of(env)->exit;

    exit = (struct x86_vmx_exit){
        .reason = exit.reason,
        .qualification = exit.qualification,
        .linear = linear,
        .physical = physical,
    };
    if (exit.reason == VMX_EXIT_EPT_VIOLATION) {
        exit.qualification |= QUALIFICATION_LINEAR;
        exit.qualification |= walk ? 0 : QUALIFICATION_TRANSLATED;
    }
    if (exit.reason == VMX_EXIT_EPT_VIOLATION && walk) {
        exit.qualification |= walk_access(exit.qualification & EPT_RIGHTS);
    }
    cpu_restore_state(env_cpu(env), retaddr);
    if (exit.reason == VMX_EXIT_EPT_VIOLATION && !(exit.qualification & EPT_EXECUTE) &&
        x86_vmx_iret_unblocks(env)) {
        exit.qualification |= VMX_EVENT_NMI_UNBLOCKED;
    }
    x86_vmx_exit(env, &exit, 0);
}
