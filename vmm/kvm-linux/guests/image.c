/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * image FILE [CPUS [WORDS]]: runs a guest image of guest-tests/ (docs/guests.md) on KVM as it is,
 * with KVM's own Intel PT. Its console is standard output. The exit status is the guest's; 3: it
 * did not end. WORDS are its command line.
 */
#include "host.h"
#include "vm.h"

#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RAM_BYTES    (64u << 20)
#define KNOWN_EBX    0x3fu /* up to power event trace */
#define PORT_CONSOLE 0xe9
#define PORT_EXIT    0xf4

#define MEMMAP      (VM_INFO + 0x100)
#define CMDLINE     (VM_INFO + 0x200)
#define CMDLINE_MAX 0x0e00u
#define START_MAGIC 0x336ec578u

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

static struct vm vm;

static void put_start_info(const char *words)
{
    struct start_info *info = (struct start_info *)(vm.ram + VM_INFO);
    struct memmap_entry *map = (struct memmap_entry *)(vm.ram + MEMMAP);

    map[0] = (struct memmap_entry){.base = 0, .len = VM_TABLES_END, .type = 2};
    map[1] = (struct memmap_entry){
        .base = VM_TABLES_END, .len = vm.ram_bytes - VM_TABLES_END, .type = 1};
    snprintf((char *)vm.ram + CMDLINE, CMDLINE_MAX, "%s", words);
    *info = (struct start_info){.magic = START_MAGIC,
                                .version = 1,
                                .cmdline = CMDLINE,
                                .memmap = MEMMAP,
                                .memmap_entries = 2};
}

static void load_segment(FILE *file, const Elf64_Phdr *segment)
{
    if (segment->p_filesz > segment->p_memsz || segment->p_paddr < VM_TABLES_END ||
        segment->p_paddr > vm.ram_bytes || segment->p_memsz > vm.ram_bytes - segment->p_paddr)
        vm_die("a segment does not fit into the guest's memory");
    if (fseek(file, (long)segment->p_offset, SEEK_SET) != 0 ||
        fread(vm.ram + segment->p_paddr, 1, segment->p_filesz, file) != segment->p_filesz)
        vm_die("the image is shorter than its segments");
}

/* Where the image begins. */
static uint64_t load(const char *path)
{
    FILE *file = fopen(path, "rb");
    Elf64_Phdr segment;
    Elf64_Ehdr head;

    if (!file || fread(&head, sizeof(head), 1, file) != 1 ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_type != ET_EXEC ||
        head.e_machine != EM_X86_64)
        vm_die("%s: not an image that can be read", path);
    for (unsigned i = 0; i < head.e_phnum; i++) {
        if (fseek(file, (long)(head.e_phoff + i * sizeof(segment)), SEEK_SET) != 0 ||
            fread(&segment, sizeof(segment), 1, file) != 1)
            vm_die("%s: the image is shorter than its headers", path);
        if (segment.p_type == PT_LOAD)
            load_segment(file, &segment);
    }
    fclose(file);
    return head.e_entry;
}

/*
 * What KVM does not know of CPUID.14H.0:EBX is hidden, Event Trace and what came after it: rule K5
 * is about that, and a suite that finds them would end with the first #GP.
 */
static void known_features(struct kvm_cpuid2 *table)
{
    struct kvm_cpuid_entry2 *entry = vm_cpuid_leaf(table, 0x14, 0);

    if (entry)
        entry->ebx &= KNOWN_EBX;
}

/* Port accesses of a guest; the machine ends with one of them. */
static void handle_io(struct kvm_run *run)
{
    uint8_t *data = (uint8_t *)run + run->io.data_offset;
    const uint32_t bytes = run->io.size * run->io.count;
    uint32_t status = 0;

    if (run->io.direction == KVM_EXIT_IO_IN) {
        memset(data, 0xff, bytes);
    } else if (run->io.port == PORT_CONSOLE) {
        fwrite(data, 1, bytes, stdout);
    } else if (run->io.port == PORT_EXIT) {
        memcpy(&status, data, run->io.size < sizeof(status) ? run->io.size : sizeof(status));
        fflush(stdout);
        _Exit((int)status);
    }
}

static _Noreturn void ended(const struct kvm_run *run)
{
    const char *why = "leaves KVM";

    if (run->exit_reason == KVM_EXIT_SHUTDOWN)
        why = "shuts down";
    else if (run->exit_reason == KVM_EXIT_INTERNAL_ERROR)
        why = "has an internal error of KVM";
    else if (run->exit_reason == KVM_EXIT_FAIL_ENTRY)
        why = "cannot be entered";
    printf("\nthe guest %s (exit %u, %#llx)\n", why, run->exit_reason,
           run->exit_reason == KVM_EXIT_FAIL_ENTRY
               ? (unsigned long long)run->fail_entry.hardware_entry_failure_reason
               : 0ull);
    fflush(stdout);
    _Exit(3);
}

static void *processor(void *number)
{
    const unsigned cpu = (unsigned)(uintptr_t)number;
    struct kvm_run *run = vm.run[cpu];

    for (;;) {
        if (!vm_run(&vm, cpu))
            continue;
        if (run->exit_reason == KVM_EXIT_IO)
            handle_io(run);
        else if (run->exit_reason == KVM_EXIT_MMIO)
            memset(run->mmio.data, 0xff, sizeof(run->mmio.data));
        else if (run->exit_reason != KVM_EXIT_INTR)
            ended(run);
    }
    return NULL;
}

int main(int count, char **words)
{
    const unsigned cpus = count > 2 ? (unsigned)strtoul(words[2], NULL, 10) : 1;

    if (count < 2 || cpus < 1 || cpus > VM_MAX_CPUS)
        vm_die("usage: image FILE [CPUS [WORDS]]");
    /* Without one, the guest's interrupts are lost (rule K14). It ends with this program. */
    if (host_event() < 0)
        fprintf(stderr, "the host has no event of its own: %s\n", strerror(errno));
    vm_open(&vm, RAM_BYTES, cpus, true, known_features);
    put_start_info(count > 3 ? words[3] : "");
    vm_start(&vm, load(words[1]));
    for (unsigned i = 1; i < cpus; i++) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, processor, (void *)(uintptr_t)i) != 0)
            vm_die("no thread for a processor");
    }
    processor(NULL);
}
