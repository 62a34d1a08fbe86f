/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Physical memory of a guest, and its page tables: code without a list of images (SDM vol. 3, 4.3
 * 32-bit paging, 4.4 PAE paging, 4.5 4-level and 5-level paging).
 *
 * Files are mapped, so that nothing is copied and every answer is a pointer that stays: an image
 * that asks here is read-only, whatever the number of threads. Page tables are hostile: each entry
 * is read once, at an address that was looked up.
 */
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "ptdec.h"

struct range {
    uint64_t first, last;
    const uint8_t *bytes;
};

struct mapping {
    void *start;
    size_t len_bytes;
};

struct ptd_memory {
    struct range *ranges; /* ascending, disjoint */
    size_t count, room;
    struct mapping *mappings;
    size_t mapping_count;
};

struct ptd_memory *ptd_memory_new(void)
{
    return calloc(1, sizeof(struct ptd_memory));
}

void ptd_memory_free(struct ptd_memory *memory)
{
    if (!memory)
        return;
    for (size_t i = 0; i < memory->mapping_count; i++)
        (void)munmap(memory->mappings[i].start, memory->mappings[i].len_bytes);
    free(memory->mappings);
    free(memory->ranges);
    free(memory);
}

/* ---- Ranges ---- */

/* Index of the first range that begins above paddr. */
static size_t range_above(const struct ptd_memory *memory, uint64_t paddr)
{
    size_t low = 0, high = memory->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (memory->ranges[middle].first <= paddr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int ptd_memory_add(struct ptd_memory *memory, uint64_t paddr, const void *bytes, size_t len_bytes)
{
    const size_t at = range_above(memory, paddr);
    uint64_t last = paddr + (len_bytes - 1);

    if (len_bytes == 0 || last < paddr)
        return PTD_E_ARG;
    /* Disjoint, so that a search is enough: what is there already stays. */
    if (at > 0 && memory->ranges[at - 1].last >= paddr)
        return PTD_E_ARG;
    if (at < memory->count && memory->ranges[at].first <= last)
        return PTD_E_ARG;
    if (!array_grow((void **)&memory->ranges, &memory->room, memory->count,
                    sizeof(*memory->ranges)))
        return PTD_E_NOMEM;
    memmove(memory->ranges + at + 1, memory->ranges + at,
            (memory->count - at) * sizeof(*memory->ranges));
    memory->ranges[at] = (struct range){paddr, last, bytes};
    memory->count++;
    return PTD_OK;
}

int ptd_memory_find(const struct ptd_memory *memory, uint64_t paddr, const uint8_t **bytes,
                    size_t *len_bytes)
{
    const size_t above = range_above(memory, paddr);
    const struct range *range;

    if (above == 0)
        return PTD_E_NOMAP;
    range = &memory->ranges[above - 1];
    if (range->last < paddr)
        return PTD_E_NOMAP;
    *bytes = range->bytes + (paddr - range->first);
    *len_bytes = (size_t)(range->last - paddr) + 1;
    return PTD_OK;
}

/* ---- Files ---- */

/* Maps a whole file, which then belongs to memory. */
static int map_file(struct ptd_memory *memory, int fd, const uint8_t **bytes, size_t *len_bytes)
{
    struct mapping *const bigger =
        reallocarray(memory->mappings, memory->mapping_count + 1, sizeof(*bigger));
    struct stat status;
    void *start;

    if (!bigger)
        return PTD_E_NOMEM;
    memory->mappings = bigger;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0)
        return PTD_E_IO;
    start = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (start == MAP_FAILED)
        return PTD_E_IO;
    memory->mappings[memory->mapping_count++] = (struct mapping){start, (size_t)status.st_size};
    *bytes = start;
    *len_bytes = (size_t)status.st_size;
    return PTD_OK;
}

int ptd_memory_add_raw_fd(struct ptd_memory *memory, int fd, uint64_t paddr)
{
    const uint8_t *bytes;
    size_t len_bytes;
    const int status = map_file(memory, fd, &bytes, &len_bytes);

    return status == PTD_OK ? ptd_memory_add(memory, paddr, bytes, len_bytes) : status;
}

int ptd_memory_add_raw(struct ptd_memory *memory, const char *path, uint64_t paddr)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int status;

    if (fd < 0)
        return PTD_E_IO;
    status = ptd_memory_add_raw_fd(memory, fd, paddr);
    (void)close(fd);
    return status;
}

/* ---- Core dumps ---- */

/* QEMU's note with the state of a processor; its layout is the same for all guests of x86. */
#define QEMU_NOTE      "QEMU"
#define QEMU_CR_OFFSET (8 + 18 * 8 + 10 * 24) /* version, size, registers, segments */
#define MAX_SEGMENTS   4096                   /* far more than a guest has ranges of memory */
#define CR4_PAE        (1u << 5)
#define CR4_LA57       (1u << 12)

static enum ptd_paging paging_of(uint64_t cr4, GElf_Half machine)
{
    if (cr4 & CR4_LA57)
        return PTD_PAGING_5_LEVEL;
    if (!(cr4 & CR4_PAE))
        return PTD_PAGING_32;
    return machine == EM_X86_64 ? PTD_PAGING_4_LEVEL : PTD_PAGING_PAE;
}

static void read_notes(Elf *elf, const GElf_Phdr *header, GElf_Half machine,
                       enum ptd_paging *paging)
{
    Elf_Data *const data =
        elf_getdata_rawchunk(elf, (int64_t)header->p_offset, (size_t)header->p_filesz, ELF_T_NHDR);
    size_t offset = 0, name_offset, desc_offset;
    GElf_Nhdr note;

    while (data && (offset = gelf_getnote(data, offset, &note, &name_offset, &desc_offset)) > 0) {
        const uint8_t *const bytes = data->d_buf;
        uint64_t cr4;

        if (note.n_namesz != sizeof(QEMU_NOTE) ||
            memcmp(bytes + name_offset, QEMU_NOTE, sizeof(QEMU_NOTE)) != 0 ||
            note.n_descsz < QEMU_CR_OFFSET + 5 * sizeof(cr4))
            continue;
        memcpy(&cr4, bytes + desc_offset + QEMU_CR_OFFSET + 4 * sizeof(cr4), sizeof(cr4));
        *paging = paging_of(cr4, machine);
        return;
    }
}

static int add_core_segments(struct ptd_memory *memory, Elf *elf, const uint8_t *bytes,
                             size_t len_bytes, enum ptd_paging *paging)
{
    GElf_Ehdr file;
    size_t count, note_bytes = 0;

    if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &file) || file.e_type != ET_CORE ||
        (file.e_machine != EM_X86_64 && file.e_machine != EM_386) ||
        elf_getphdrnum(elf, &count) != 0 || count > MAX_SEGMENTS)
        return PTD_E_FORMAT;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr header;
        int status;

        if (!gelf_getphdr(elf, (int)i, &header))
            return PTD_E_FORMAT;
        if (header.p_filesz == 0 || (header.p_type != PT_LOAD && header.p_type != PT_NOTE))
            continue;
        if (header.p_offset > len_bytes || header.p_filesz > len_bytes - header.p_offset)
            return PTD_E_FORMAT;
        if (header.p_type == PT_NOTE) {
            note_bytes += header.p_filesz; /* libelf keeps a copy of each */
            if (note_bytes > 2 * len_bytes)
                return PTD_E_FORMAT;
            read_notes(elf, &header, file.e_machine, paging);
            continue;
        }
        status = ptd_memory_add(memory, header.p_paddr, bytes + header.p_offset, header.p_filesz);
        if (status == PTD_E_NOMEM)
            return status;
        if (status != PTD_OK)
            return PTD_E_FORMAT; /* segments that overlap */
    }
    return PTD_OK;
}

int ptd_memory_add_core_fd(struct ptd_memory *memory, int fd, enum ptd_paging *paging)
{
    const uint8_t *bytes;
    size_t len_bytes;
    int status;
    Elf *elf;

    *paging = PTD_PAGING_UNKNOWN;
    status = map_file(memory, fd, &bytes, &len_bytes);
    if (status != PTD_OK)
        return status;
    (void)elf_version(EV_CURRENT);
    elf = elf_begin(fd, ELF_C_READ, NULL);
    status = elf ? add_core_segments(memory, elf, bytes, len_bytes, paging) : PTD_E_FORMAT;
    if (elf)
        (void)elf_end(elf);
    return status;
}

int ptd_memory_add_core(struct ptd_memory *memory, const char *path, enum ptd_paging *paging)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int status;

    *paging = PTD_PAGING_UNKNOWN;
    if (fd < 0)
        return PTD_E_IO;
    status = ptd_memory_add_core_fd(memory, fd, paging);
    (void)close(fd);
    return status;
}

/* ---- Page tables ---- */

#define PRESENT    (1u << 0)
#define PAGE_SIZE  (1u << 7)
#define ADDRESS    0x000ffffffffff000u
#define PAGE_SHIFT 12

static bool read_entry(const struct ptd_memory *memory, uint64_t paddr, unsigned entry_bytes,
                       uint64_t *entry)
{
    const uint8_t *bytes;
    size_t len_bytes;

    if (ptd_memory_find(memory, paddr, &bytes, &len_bytes) != PTD_OK || len_bytes < entry_bytes)
        return false;
    *entry = 0;
    memcpy(entry, bytes, entry_bytes);
    return (*entry & PRESENT) != 0;
}

static int in_page(uint64_t base, unsigned shift, uint64_t vaddr, uint64_t *paddr,
                   size_t *len_bytes)
{
    const uint64_t page_bytes = UINT64_C(1) << shift;
    const uint64_t offset = vaddr & (page_bytes - 1);

    *paddr = (base & ~(page_bytes - 1)) | offset;
    *len_bytes = (size_t)(page_bytes - offset);
    return PTD_OK;
}

/* Tables of 512 entries, from the one that bits shift + 8 to shift of vaddr look into. */
static int walk_long(const struct ptd_memory *memory, uint64_t table, unsigned shift,
                     uint64_t vaddr, uint64_t *paddr, size_t *len_bytes)
{
    for (;; shift -= 9) {
        uint64_t entry;

        if (!read_entry(memory, (table & ADDRESS) + (vaddr >> shift & 0x1ff) * 8, 8, &entry))
            return PTD_E_NOMAP;
        if (shift == PAGE_SHIFT || (shift <= 30 && entry & PAGE_SIZE))
            return in_page(entry & ADDRESS, shift, vaddr, paddr, len_bytes);
        table = entry;
    }
}

static int walk_pae(const struct ptd_memory *memory, uint64_t cr3, uint64_t vaddr, uint64_t *paddr,
                    size_t *len_bytes)
{
    uint64_t entry;

    if (!read_entry(memory, (cr3 & 0xffffffe0u) + (vaddr >> 30) * 8, 8, &entry))
        return PTD_E_NOMAP;
    return walk_long(memory, entry, 21, vaddr, paddr, len_bytes);
}

static int walk_32(const struct ptd_memory *memory, uint64_t cr3, uint64_t vaddr, uint64_t *paddr,
                   size_t *len_bytes)
{
    uint64_t entry;

    if (!read_entry(memory, (cr3 & 0xfffff000u) + (vaddr >> 22) * 4, 4, &entry))
        return PTD_E_NOMAP;
    if (entry & PAGE_SIZE) /* bits 20:13 are bits 39:32 of the address */
        return in_page((entry & 0xffc00000u) | (entry & 0x1fe000u) << 19, 22, vaddr, paddr,
                       len_bytes);
    if (!read_entry(memory, (entry & 0xfffff000u) + (vaddr >> PAGE_SHIFT & 0x3ff) * 4, 4, &entry))
        return PTD_E_NOMAP;
    return in_page(entry & 0xfffff000u, PAGE_SHIFT, vaddr, paddr, len_bytes);
}

static bool canonical(uint64_t vaddr, unsigned bits)
{
    const uint64_t high = vaddr >> (bits - 1);

    return high == 0 || high == UINT64_MAX >> (bits - 1);
}

int ptd_memory_walk(const struct ptd_memory *memory, enum ptd_paging paging, uint64_t cr3,
                    uint64_t vaddr, uint64_t *paddr, size_t *len_bytes)
{
    switch (paging) {
    case PTD_PAGING_32:
        return vaddr >> 32 ? PTD_E_NOMAP : walk_32(memory, cr3, vaddr, paddr, len_bytes);
    case PTD_PAGING_PAE:
        return vaddr >> 32 ? PTD_E_NOMAP : walk_pae(memory, cr3, vaddr, paddr, len_bytes);
    case PTD_PAGING_4_LEVEL:
        return canonical(vaddr, 48) ? walk_long(memory, cr3, 39, vaddr, paddr, len_bytes)
                                    : PTD_E_NOMAP;
    case PTD_PAGING_5_LEVEL:
        return canonical(vaddr, 57) ? walk_long(memory, cr3, 48, vaddr, paddr, len_bytes)
                                    : PTD_E_NOMAP;
    default:
        return PTD_E_NOMAP;
    }
}
