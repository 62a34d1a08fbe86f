/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guest's page tables, walked in software: four or five levels, 4 KiB, 2 MiB and 1 GiB pages.
 * Tables are the guest's and may say anything; every access is checked against RAM.
 */
#include "kvm/walk.h"
#include "kvm/machine.h"
#include "kvm/memory.h"

#include <string.h>

#define PTE_P    (1ull << 0)
#define PTE_W    (1ull << 1)
#define PTE_U    (1ull << 2)
#define PTE_PS   (1ull << 7)
#define PTE_NX   (1ull << 63)
#define PTE_ADDR 0x000ffffffffff000ull

#define ERROR_PRESENT 1u
#define ERROR_USER    4u

#define CR0_WP    (1ull << 16)
#define CR4_LA57  (1ull << 12)
#define CR4_SMEP  (1ull << 20)
#define CR4_SMAP  (1ull << 21)
#define EFER_NXE  (1ull << 11)
#define RFLAGS_AC (1ull << 18)

/* Whether rights allow the access (SDM vol. 3, 4.6). */
static bool allowed(struct vcpu *cpu, uint64_t rights, bool nx, enum walk_access access,
                    unsigned cpl)
{
    const struct kvm_sregs *sregs = vcpu_sregs(cpu);
    const bool user_page = (rights & PTE_U) != 0;

    if (cpl == 3 && !user_page)
        return false;
    if (access == WALK_FETCH) {
        if (nx && (sregs->efer & EFER_NXE))
            return false;
        return !(cpl < 3 && user_page && (sregs->cr4 & CR4_SMEP));
    }
    if (cpl < 3 && user_page && (sregs->cr4 & CR4_SMAP) && !(vcpu_regs(cpu)->rflags & RFLAGS_AC))
        return false;
    if (access == WALK_WRITE && !(rights & PTE_W))
        return cpl < 3 && !(sregs->cr0 & CR0_WP);
    return true;
}

static int paging_levels(struct vcpu *cpu)
{
    return vcpu_sregs(cpu)->cr4 & CR4_LA57 ? 5 : 4;
}

bool linear_is_canonical(struct vcpu *cpu, uint64_t linear)
{
    const int unused = 64 - 12 - 9 * paging_levels(cpu);

    return (uint64_t)((int64_t)(linear << unused) >> unused) == linear;
}

bool walk(struct vcpu *cpu, uint64_t linear, enum walk_access access, unsigned cpl, uint64_t *gpa,
          uint32_t *error_code)
{
    const struct kvm_sregs *sregs = vcpu_sregs(cpu);
    const int levels = paging_levels(cpu);
    uint64_t table = sregs->cr3 & PTE_ADDR, rights = PTE_W | PTE_U, entry = 0;
    bool nx = false;
    int shift = 12 + 9 * (levels - 1);

    *error_code = (cpl == 3 ? ERROR_USER : 0) | (access == WALK_WRITE ? WALK_WRITE : 0);
    if (access == WALK_FETCH && ((sregs->efer & EFER_NXE) || (sregs->cr4 & CR4_SMEP)))
        *error_code |= WALK_FETCH;

    for (;; shift -= 9) {
        const void *slot = vmm_ram(cpu->vmm, table + (linear >> shift & 0x1ff) * 8, 8);

        if (!slot)
            return false;
        memcpy(&entry, slot, 8);
        if (!(entry & PTE_P))
            return false;
        rights &= entry;
        nx |= (entry & PTE_NX) != 0;
        if (shift == 12 || (shift <= 30 && (entry & PTE_PS)))
            break;
        table = entry & PTE_ADDR;
    }
    if (!allowed(cpu, rights, nx, access, cpl)) {
        *error_code |= ERROR_PRESENT;
        return false;
    }
    const uint64_t offset_mask = (1ull << shift) - 1;
    *gpa = (entry & PTE_ADDR & ~offset_mask) | (linear & offset_mask);
    return true;
}

static bool copy(struct vcpu *cpu, uint64_t linear, uint8_t *data, size_t len, bool write)
{
    while (len) {
        const size_t in_page = PAGE_BYTES - linear % PAGE_BYTES;
        const size_t n = len < in_page ? len : in_page;
        uint64_t gpa;
        uint32_t error_code;
        void *ram;

        if (!walk(cpu, linear, write ? WALK_WRITE : WALK_READ, 0, &gpa, &error_code))
            return false;
        ram = vmm_ram(cpu->vmm, gpa, n);
        if (!ram)
            return false;
        if (write)
            memcpy(ram, data, n);
        else
            memcpy(data, ram, n);
        linear += n;
        data += n;
        len -= n;
    }
    return true;
}

bool linear_read(struct vcpu *cpu, uint64_t linear, void *data, size_t len)
{
    return copy(cpu, linear, data, len, false);
}

bool linear_write(struct vcpu *cpu, uint64_t linear, const void *data, size_t len)
{
    /* copy() only reads data when it writes memory */
    return copy(cpu, linear, (uint8_t *)(uintptr_t)data, len, true);
}

bool insn_at(struct vcpu *cpu, uint64_t ip, uint8_t code[MAX_INSN_BYTES], struct ptd_insn *insn)
{
    size_t len = MAX_INSN_BYTES;

    while (len > 0 && !linear_read(cpu, ip, code, len))
        len--;
    return len > 0 && ptd_insn_decode(PTD_MODE_64, ip, code, len, insn) == PTD_OK;
}
