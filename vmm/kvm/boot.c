/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From an ELF file to a vCPU at its first instruction (docs/guests.md): the image, the tables below
 * 64 KiB, CPUID and the registers.
 */
#include "kvm/boot.h"
#include "kvm/backend.h"
#include "kvm/machine.h"
#include "kvm/memory.h"
#include "kvm/tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Guest-physical addresses of what the VMM puts into memory. */
#define PML4        0x1000u
#define PDPT        0x2000u
#define PAGE_DIRS   0x3000u /* four, for 4 GiB */
#define GDT         0x7000u
#define START_INFO  0x8000u
#define MEMMAP      0x8100u
#define CMDLINE     0x8200u
#define CMDLINE_MAX 0x0e00u
#define RESERVED    0x10000u

#define START_MAGIC   0x336ec578u
#define CODE_SELECTOR 0x10
#define DATA_SELECTOR 0x18

/* struct hvm_start_info and hvm_memmap_table_entry of the PVH boot protocol, version 1. */
struct start_info {
    uint32_t magic, version, flags, modules;
    uint64_t modlist, cmdline, rsdp, memmap;
    uint32_t memmap_entries, reserved;
};
struct memmap_entry {
    uint64_t base, len;
    uint32_t type, reserved;
};

/* ---- Image ---- */

static int load_segment(struct vmm *vmm, int fd, const GElf_Phdr *phdr)
{
    uint8_t *ram = vmm_ram(vmm, phdr->p_paddr, phdr->p_memsz);
    const uint64_t absent = vmm->options->absent_gpa;
    size_t done = 0;

    if (phdr->p_filesz > phdr->p_memsz || phdr->p_paddr < RESERVED || !ram)
        return vmm_fail(vmm, -ENOEXEC, "%s: a segment at %#llx does not fit into guest memory",
                        vmm->options->image, (unsigned long long)phdr->p_paddr);
    if (vmm->options->absent_bytes && phdr->p_paddr < absent + vmm->options->absent_bytes &&
        absent < phdr->p_paddr + phdr->p_memsz)
        return vmm_fail(vmm, -ENOEXEC, "%s: a segment at %#llx lies in what --absent names",
                        vmm->options->image, (unsigned long long)phdr->p_paddr);
    memset(ram, 0, phdr->p_memsz);
    while (done < phdr->p_filesz) {
        const ssize_t n =
            pread(fd, ram + done, phdr->p_filesz - done, (off_t)(phdr->p_offset + done));

        if (n <= 0)
            return vmm_fail(vmm, -ENOEXEC, "%s: the file is shorter than its segments",
                            vmm->options->image);
        done += (size_t)n;
    }
    return 0;
}

/* NULL: an image that can be loaded; else what is wrong with the file. */
static const char *check_elf(Elf *elf, GElf_Ehdr *ehdr, size_t *segments, uint64_t file_bytes)
{
    GElf_Phdr phdr;
    unsigned loadable = 0;

    if (!elf || elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, ehdr))
        return "not an ELF file";
    if (ehdr->e_ident[EI_CLASS] != ELFCLASS64 || ehdr->e_machine != EM_X86_64)
        return "not a 64-bit x86 image";
    if (ehdr->e_type != ET_EXEC)
        return "not a static executable (ET_EXEC)";
    if (elf_getphdrnum(elf, segments) != 0)
        return "no program headers";
    for (size_t i = 0; i < *segments; i++) {
        if (!gelf_getphdr(elf, (int)i, &phdr))
            return "truncated: damaged program headers";
        if (phdr.p_type != PT_LOAD || phdr.p_memsz == 0)
            continue;
        if (phdr.p_offset > file_bytes || phdr.p_filesz > file_bytes - phdr.p_offset)
            return "truncated: the file is shorter than its segments";
        loadable++;
    }
    return loadable ? NULL : "nothing to load";
}

/* Opens and checks an image. 0, or -errno and the reason in why. */
static int open_image(const char *path, int *fd, Elf **elf, GElf_Ehdr *ehdr, size_t *segments,
                      char *why, size_t why_bytes)
{
    struct stat stat;
    const char *wrong;

    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0 || fstat(*fd, &stat) < 0) {
        const int error = errno;

        snprintf(why, why_bytes, "%s: %s", path, strerror(error));
        if (*fd >= 0)
            close(*fd);
        return -error;
    }
    elf_version(EV_CURRENT);
    *elf = elf_begin(*fd, ELF_C_READ, NULL);
    wrong = check_elf(*elf, ehdr, segments, (uint64_t)stat.st_size);
    if (!wrong)
        return 0;
    snprintf(why, why_bytes, "%s: %s", path, wrong);
    elf_end(*elf);
    close(*fd);
    return -ENOEXEC;
}

int image_check(const char *path, char *why, size_t why_bytes)
{
    GElf_Ehdr ehdr = {0};
    size_t segments = 0;
    Elf *elf = NULL;
    int fd = -1, error = open_image(path, &fd, &elf, &ehdr, &segments, why, why_bytes);

    if (!error) {
        elf_end(elf);
        close(fd);
    }
    return error;
}

int boot_load(struct vmm *vmm)
{
    GElf_Ehdr ehdr = {0};
    GElf_Phdr phdr;
    size_t segments = 0;
    Elf *elf = NULL;
    int fd = -1, error = open_image(vmm->options->image, &fd, &elf, &ehdr, &segments,
                                    vmm->result->why, sizeof(vmm->result->why));

    if (error)
        return error;
    for (size_t i = 0; !error && i < segments; i++) {
        gelf_getphdr(elf, (int)i, &phdr);
        if (phdr.p_type == PT_LOAD && phdr.p_memsz)
            error = load_segment(vmm, fd, &phdr);
    }
    vmm->entry = ehdr.e_entry;
    elf_end(elf);
    close(fd);
    return error;
}

/* ---- Tables ---- */

static void put_tables(struct vmm *vmm)
{
    uint64_t *pml4 = (uint64_t *)(vmm->ram + PML4);
    uint64_t *pdpt = (uint64_t *)(vmm->ram + PDPT);
    uint64_t *dirs = (uint64_t *)(vmm->ram + PAGE_DIRS);
    uint64_t *gdt = (uint64_t *)(vmm->ram + GDT);

    pml4[0] = PDPT | 3;
    for (uint64_t i = 0; i < 4; i++)
        pdpt[i] = (PAGE_DIRS + i * PAGE_BYTES) | 3;
    for (uint64_t i = 0; i < 4 * 512; i++)
        dirs[i] = i << 21 | 0x83;
    gdt[CODE_SELECTOR / 8] = 0x00af9b000000ffffull;
    gdt[DATA_SELECTOR / 8] = 0x00cf93000000ffffull;
}

static void put_start_info(struct vmm *vmm, const char *steps)
{
    struct start_info *info = (struct start_info *)(vmm->ram + START_INFO);
    struct memmap_entry *map = (struct memmap_entry *)(vmm->ram + MEMMAP);
    const char *append = vmm->options->append ? vmm->options->append : "";

    map[0] = (struct memmap_entry){.base = 0, .len = RESERVED, .type = 2};
    map[1] = (struct memmap_entry){.base = RESERVED, .len = vmm->ram_bytes - RESERVED, .type = 1};
    snprintf((char *)vmm->ram + CMDLINE, CMDLINE_MAX, "%s%s%s", append, *append ? " " : "", steps);
    *info = (struct start_info){.magic = START_MAGIC,
                                .version = 1,
                                .cmdline = CMDLINE,
                                .memmap = MEMMAP,
                                .memmap_entries = 2};
}

/* ---- Registers ---- */

int boot_enter(struct vmm *vmm)
{
    struct kvm_sregs sregs;
    struct kvm_regs regs = {.rip = vmm->entry, .rdi = START_INFO, .rflags = 2};
    const struct kvm_segment data = {.limit = UINT32_MAX,
                                     .selector = DATA_SELECTOR,
                                     .type = 3,
                                     .present = 1,
                                     .db = 1,
                                     .s = 1,
                                     .g = 1};
    const struct vcpu *cpu = &vmm->cpus[0];
    char steps[48];

    put_tables(vmm);
    snprintf(steps, sizeof(steps), "vpt.steps=%u", vmm->steps_per_s);
    put_start_info(vmm, steps);
    if (ioctl(cpu->fd, KVM_GET_SREGS, &sregs) < 0)
        return vmm_fail(vmm, -errno, "KVM_GET_SREGS: %s", strerror(errno));
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
    if (ioctl(cpu->fd, KVM_SET_SREGS, &sregs) < 0 || ioctl(cpu->fd, KVM_SET_REGS, &regs) < 0)
        return vmm_fail(vmm, -errno, "KVM refuses the entry state: %s", strerror(errno));
    return 0;
}

/* ---- CPUID ---- */

#define MAX_CPUID        256
#define CPUID_1_EDX_HTT  (1u << 28)
#define CPUID_7_ECX_LA57 (1u << 16)

#define CPUID_BYTES (sizeof(struct kvm_cpuid2) + MAX_CPUID * sizeof(struct kvm_cpuid_entry2))

static struct kvm_cpuid_entry2 *cpuid_find(struct kvm_cpuid2 *table, uint32_t leaf,
                                           uint32_t subleaf)
{
    for (uint32_t i = 0; i < table->nent; i++) {
        struct kvm_cpuid_entry2 *entry = &table->entries[i];

        if (entry->function == leaf &&
            (entry->index == subleaf || !(entry->flags & KVM_CPUID_FLAG_SIGNIFCANT_INDEX)))
            return entry;
    }
    return NULL;
}

/* Puts a leaf the way the profile wants it; adds it if KVM has none. */
static void cpuid_apply(struct kvm_cpuid2 *table, const struct vpt_caps *caps, uint32_t leaf,
                        uint32_t subleaf, bool indexed)
{
    struct kvm_cpuid_entry2 *entry = cpuid_find(table, leaf, subleaf);
    struct vpt_cpuid regs = {0};

    if (entry)
        regs = (struct vpt_cpuid){entry->eax, entry->ebx, entry->ecx, entry->edx};
    if (!vpt_cpuid(caps, leaf, subleaf, &regs))
        return;
    if (!entry) {
        if (table->nent == MAX_CPUID)
            return;
        entry = &table->entries[table->nent++];
        *entry = (struct kvm_cpuid_entry2){.function = leaf, .index = subleaf};
        if (indexed)
            entry->flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX;
    }
    entry->eax = regs.eax;
    entry->ebx = regs.ebx;
    entry->ecx = regs.ecx;
    entry->edx = regs.edx;
}

/* Architectural performance monitoring, version 2: what the PMI path needs. */
static void cpuid_perfmon(struct kvm_cpuid2 *table, const struct vpt_caps *caps)
{
    struct kvm_cpuid_entry2 *entry = cpuid_find(table, 0xa, 0);

    if (!entry && table->nent < MAX_CPUID)
        entry = &table->entries[table->nent++];
    if (entry)
        *entry = (struct kvm_cpuid_entry2){
            .function = 0xa,
            .eax = 7u << 24 | 48u << 16 | (uint32_t)caps->perf_counters << 8 | 2,
            .edx = 48u << 5 | caps->perf_fixed,
        };
}

/* One package of cores without threads. */
static void cpuid_topology(struct kvm_cpuid2 *table, const struct vcpu *cpu)
{
    const uint32_t count = cpu->vmm->cpu_count, id = cpu->index;
    const uint32_t id_bits = count > 1 ? 32 - (uint32_t)__builtin_clz(count - 1) : 0;
    struct kvm_cpuid_entry2 *entry = cpuid_find(table, 1, 0);

    if (entry) {
        entry->ebx = (entry->ebx & 0xffff) | count << 16 | id << 24;
        entry->edx &= ~CPUID_1_EDX_HTT;
        entry->edx |= count > 1 ? CPUID_1_EDX_HTT : 0;
    }
    for (uint32_t i = 0; i < table->nent;) {
        entry = &table->entries[i];
        if (entry->function == 4 && (entry->eax & 0x1f))
            entry->eax = (entry->eax & 0x3fff) | ((1u << id_bits) - 1) << 26;
        if (entry->function == 0x80000008)
            entry->ecx = (entry->ecx & ~0xffffu) | id_bits << 12 | (count - 1);
        if (entry->function == 0xb || entry->function == 0x1f)
            *entry = table->entries[--table->nent];
        else
            i++;
    }
    for (uint32_t level = 0; level < 3 && table->nent < MAX_CPUID; level++) {
        entry = &table->entries[table->nent++];
        *entry = (struct kvm_cpuid_entry2){.function = 0xb,
                                           .index = level,
                                           .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
                                           .ecx = level,
                                           .edx = id};
        if (level == 0) { /* threads of a core */
            entry->ebx = 1;
            entry->ecx |= 1u << 8;
        } else if (level == 1) { /* cores */
            entry->eax = id_bits;
            entry->ebx = count;
            entry->ecx |= 2u << 8;
        }
    }
}

int boot_cpuid(struct vcpu *cpu, const struct vpt_caps *caps)
{
    _Alignas(struct kvm_cpuid2) uint8_t space[CPUID_BYTES] = {0};
    struct kvm_cpuid2 *table = (struct kvm_cpuid2 *)space;
    struct kvm_cpuid_entry2 *entry;
    struct vpt_caps *const own = tracer_caps(cpu);
    struct vpt_caps seen = *caps;

    table->nent = MAX_CPUID;
    if (ioctl(cpu->vmm->kvm_fd, KVM_GET_SUPPORTED_CPUID, table) < 0)
        return vmm_fail(cpu->vmm, -errno, "KVM_GET_SUPPORTED_CPUID: %s", strerror(errno));

    entry = cpuid_find(table, 0xd, 1);
    seen.xsaves &= entry && (entry->eax & 1u << 3); /* no XSAVES, no supervisor component */
    cpuid_apply(table, &seen, 0, 0, false);
    cpuid_apply(table, &seen, 7, 0, true);
    if (entry) {
        cpuid_apply(table, &seen, 0xd, 1, true);
        cpuid_apply(table, &seen, 0xd, 8, true);
    }
    cpuid_apply(table, &seen, 0x14, 0, true);
    cpuid_apply(table, &seen, 0x14, 1, true);
    if (seen.tsc_den)
        cpuid_apply(table, &seen, 0x15, 0, false);
    cpuid_perfmon(table, &seen);
    cpuid_topology(table, cpu);

    /* The widths of addresses are the profile's, as far as the processor below has them. */
    entry = cpuid_find(table, 0x80000008, 0);
    if (entry) {
        const uint32_t physical = entry->eax & 0xff;

        if (physical && physical < own->maxphyaddr)
            own->maxphyaddr = (uint8_t)physical;
        if ((entry->eax >> 8 & 0xff) < own->linear_bits)
            own->linear_bits = 48;
        entry->eax = (entry->eax & ~0xffffu) | (uint32_t)own->linear_bits << 8 | own->maxphyaddr;
    }
    entry = cpuid_find(table, 7, 0);
    if (entry && own->linear_bits < 57)
        entry->ecx &= ~CPUID_7_ECX_LA57;
    /* No paravirtual interface of KVM: the same guest runs on every backend. */
    for (uint32_t i = 0; i < table->nent;) {
        if (table->entries[i].function >> 8 == 0x400000)
            table->entries[i] = table->entries[--table->nent];
        else
            i++;
    }
    if (ioctl(cpu->fd, KVM_SET_CPUID2, table) < 0)
        return vmm_fail(cpu->vmm, -errno, "KVM refuses the CPUID of the profile: %s",
                        strerror(errno));
    return 0;
}
