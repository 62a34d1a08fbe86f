/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See vm.h. Sections: the machine, CPUID, entry state, running.
 */
#include "vm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_CPUID 256
#define MAX_MSRS  32

#define CPUID_1_EDX_HTT (1u << 28) /* the count of processors in EBX holds */

#define PML4      0x1000u
#define PDPT      0x2000u
#define PAGE_DIRS 0x3000u /* four, for 4 GiB */
#define GDT       0x7000u

/* Page-table entries: present, writable, large; uncached, for the APIC. */
#define PTE_TABLE 0x003u
#define PTE_LARGE 0x083u
#define PTE_NONE  0x09bu
#define APIC_PAGE (0xfee00000u >> 21)

#define CODE_SELECTOR 0x10
#define DATA_SELECTOR 0x18

_Noreturn void vm_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

static int need(int result, const char *what)
{
    if (result < 0)
        vm_die("%s: %s", what, strerror(errno));
    return result;
}

/* ---- CPUID ---- */

struct kvm_cpuid_entry2 *vm_cpuid_leaf(struct kvm_cpuid2 *table, uint32_t leaf, uint32_t subleaf)
{
    for (uint32_t i = 0; i < table->nent; i++) {
        if (table->entries[i].function == leaf && table->entries[i].index == subleaf)
            return &table->entries[i];
    }
    return NULL;
}

void vm_cpuid_remove(struct kvm_cpuid2 *table, uint32_t leaf, uint32_t subleaf)
{
    struct kvm_cpuid_entry2 *entry = vm_cpuid_leaf(table, leaf, subleaf);

    if (entry)
        *entry = table->entries[--table->nent];
}

/* What KVM supports, as processor number cpu has it. */
static void set_cpuid(struct vm *vm, unsigned cpu, vm_cpuid *change)
{
    struct kvm_cpuid2 *table = calloc(1, sizeof(*table) + MAX_CPUID * sizeof(table->entries[0]));

    if (!table)
        vm_die("no memory");
    table->nent = MAX_CPUID;
    need(ioctl(vm->kvm_fd, KVM_GET_SUPPORTED_CPUID, table), "KVM_GET_SUPPORTED_CPUID");
    for (uint32_t i = 0; i < table->nent; i++) {
        struct kvm_cpuid_entry2 *entry = &table->entries[i];

        if (entry->function == 1) {
            entry->ebx = (entry->ebx & 0xffff) | vm->cpu_count << 16 | cpu << 24;
            entry->edx =
                (entry->edx & ~CPUID_1_EDX_HTT) | (vm->cpu_count > 1 ? CPUID_1_EDX_HTT : 0);
        }
        if (entry->function == 0xb || entry->function == 0x1f)
            entry->edx = cpu;
    }
    if (change)
        change(table);
    need(ioctl(vm->cpu_fd[cpu], KVM_SET_CPUID2, table), "KVM_SET_CPUID2");
    free(table);
}

/* ---- The machine ---- */

static void add_memory(struct vm *vm, uint64_t bytes)
{
    struct kvm_userspace_memory_region region = {.memory_size = bytes};

    vm->ram_bytes = bytes;
    vm->ram = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (vm->ram == MAP_FAILED)
        vm_die("no memory for the guest");
    region.userspace_addr = (uintptr_t)vm->ram;
    need(ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &region), "KVM_SET_USER_MEMORY_REGION");
}

void vm_open(struct vm *vm, uint64_t ram_bytes, unsigned cpus, bool apic, vm_cpuid *cpuid)
{
    long run_bytes;

    memset(vm, 0, sizeof(*vm));
    vm->cpu_count = cpus;
    vm->kvm_fd = need(open("/dev/kvm", O_RDWR | O_CLOEXEC), "/dev/kvm");
    vm->fd = need(ioctl(vm->kvm_fd, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
    run_bytes = need(ioctl(vm->kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0), "KVM_GET_VCPU_MMAP_SIZE");
    add_memory(vm, ram_bytes);
    if (apic)
        need(ioctl(vm->fd, KVM_CREATE_IRQCHIP, 0), "KVM_CREATE_IRQCHIP");
    for (unsigned i = 0; i < cpus; i++) {
        vm->cpu_fd[i] = need(ioctl(vm->fd, KVM_CREATE_VCPU, i), "KVM_CREATE_VCPU");
        vm->run[i] =
            mmap(NULL, (size_t)run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vm->cpu_fd[i], 0);
        if (vm->run[i] == MAP_FAILED)
            vm_die("KVM's run structure: %s", strerror(errno));
        set_cpuid(vm, i, cpuid);
    }
}

void vm_close(struct vm *vm)
{
    const long run_bytes = need(ioctl(vm->kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0), "KVM");

    for (unsigned i = 0; i < vm->cpu_count; i++) {
        munmap(vm->run[i], (size_t)run_bytes);
        close(vm->cpu_fd[i]);
    }
    munmap(vm->ram, vm->ram_bytes);
    close(vm->fd);
    close(vm->kvm_fd);
}

/* ---- Entry state ---- */

static void put_tables(struct vm *vm)
{
    uint64_t *pml4 = (uint64_t *)(vm->ram + PML4);
    uint64_t *pdpt = (uint64_t *)(vm->ram + PDPT);
    uint64_t *dirs = (uint64_t *)(vm->ram + PAGE_DIRS);
    uint64_t *gdt = (uint64_t *)(vm->ram + GDT);

    pml4[0] = PDPT | PTE_TABLE;
    for (uint64_t i = 0; i < 4; i++)
        pdpt[i] = (PAGE_DIRS + i * 0x1000) | PTE_TABLE;
    for (uint64_t i = 0; i < 4 * 512; i++)
        dirs[i] = i << 21 | (i == APIC_PAGE ? PTE_NONE : PTE_LARGE);
    gdt[CODE_SELECTOR / 8] = 0x00af9b000000ffffull;
    gdt[DATA_SELECTOR / 8] = 0x00cf93000000ffffull;
}

void vm_start(struct vm *vm, uint64_t ip)
{
    const struct kvm_segment data = {.limit = UINT32_MAX,
                                     .selector = DATA_SELECTOR,
                                     .type = 3,
                                     .present = 1,
                                     .db = 1,
                                     .s = 1,
                                     .g = 1};
    const struct kvm_regs regs = {.rip = ip, .rdi = VM_INFO, .rflags = 2};
    struct kvm_sregs sregs;

    put_tables(vm);
    need(ioctl(vm->cpu_fd[0], KVM_GET_SREGS, &sregs), "KVM_GET_SREGS");
    sregs.cr0 = 0x80050033; /* PG, AM, WP, NE, ET, MP, PE */
    sregs.cr3 = PML4;
    sregs.cr4 = 0x20;   /* PAE */
    sregs.efer = 0x500; /* LMA, LME */
    sregs.gdt.base = GDT;
    sregs.gdt.limit = DATA_SELECTOR + 7;
    sregs.idt.limit = 0;
    sregs.cs = (struct kvm_segment){.limit = UINT32_MAX,
                                    .selector = CODE_SELECTOR,
                                    .type = 11,
                                    .present = 1,
                                    .l = 1,
                                    .s = 1,
                                    .g = 1};
    sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = data;
    need(ioctl(vm->cpu_fd[0], KVM_SET_SREGS, &sregs), "KVM_SET_SREGS");
    need(ioctl(vm->cpu_fd[0], KVM_SET_REGS, &regs), "KVM_SET_REGS");
}

/* ---- Running ---- */

bool vm_run(struct vm *vm, unsigned cpu)
{
    if (ioctl(vm->cpu_fd[cpu], KVM_RUN, 0) == 0)
        return true;
    if (errno != EINTR && errno != EAGAIN)
        vm_die("KVM_RUN: %s", strerror(errno));
    return false;
}

static int all_msrs(struct vm *vm, unsigned long request, struct kvm_msr_entry *entries,
                    unsigned count)
{
    _Alignas(struct kvm_msrs) uint8_t space[sizeof(struct kvm_msrs) + MAX_MSRS * sizeof(*entries)];
    struct kvm_msrs *msrs = (struct kvm_msrs *)space;
    int done;

    if (count > MAX_MSRS)
        vm_die("too many MSRs at once");
    memset(space, 0, sizeof(space));
    msrs->nmsrs = count;
    memcpy(msrs->entries, entries, count * sizeof(*entries));
    done = ioctl(vm->cpu_fd[0], request, msrs);
    memcpy(entries, msrs->entries, count * sizeof(*entries));
    return done;
}

int vm_set_msrs(struct vm *vm, const struct kvm_msr_entry *entries, unsigned count)
{
    struct kvm_msr_entry copy[MAX_MSRS];

    memcpy(copy, entries, (count < MAX_MSRS ? count : MAX_MSRS) * sizeof(*entries));
    return all_msrs(vm, KVM_SET_MSRS, copy, count);
}

uint64_t vm_get_msr(struct vm *vm, uint32_t msr)
{
    struct kvm_msr_entry entry = {.index = msr};

    if (all_msrs(vm, KVM_GET_MSRS, &entry, 1) != 1)
        vm_die("KVM does not give MSR %#x", msr);
    return entry.data;
}
