/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guest memory: ranges, page tables of every kind (SDM vol. 3, 4.3 to 4.5), raw dumps and ELF core
 * dumps; and the image that looks there.
 */
#include <CUnit/CUnit.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ptdec.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RAM_BYTES    0x40000u
#define P            1u    /* present */
#define PS           0x80u /* a large page */

static uint8_t ram[RAM_BYTES];

static void poke(uint64_t paddr, uint64_t value, unsigned bytes)
{
    memcpy(ram + paddr, &value, bytes);
}

/* One entry of a table, then where a walk leads. */
struct entry {
    uint64_t paddr, value;
};

static const struct walk_case {
    const char *name;
    enum ptd_paging paging;
    struct entry entries[5];
    uint64_t cr3, vaddr, paddr;
    size_t len_bytes; /* 0: it leads nowhere */
} walks[] = {
    {"4-level, 4 KiB",
     PTD_PAGING_4_LEVEL,
     {{0x1000 + 8 * 0x1ff, 0x2000 | P},
      {0x2000 + 8 * 0x1fe, 0x3000 | P},
      {0x3000 + 8 * 8, 0x4000 | P},
      {0x4000 + 8 * 3, 0x8000000000005000 | P}},
     0x1000,
     0xffffffff81003ffe,
     0x5ffe,
     2},
    {"4-level, 2 MiB",
     PTD_PAGING_4_LEVEL,
     {{0x1000, 0x2000 | P}, {0x2000, 0x3000 | P}, {0x3000 + 8 * 2, 0x600000 | P | PS}},
     0x1007,
     0x4abcde,
     0x6abcde,
     0x200000 - 0xabcde},
    {"4-level, 1 GiB",
     PTD_PAGING_4_LEVEL,
     {{0x1000, 0x2000 | P}, {0x2000 + 8 * 3, 0x140000000 | P | PS}},
     0x1000,
     0xc0000123,
     0x140000123,
     0x40000000 - 0x123},
    {"4-level: bit 7 of the highest entry is no page size",
     PTD_PAGING_4_LEVEL,
     {{0x1000, 0x2000 | P | PS}, {0x2000, 0x40000000 | P | PS}},
     0x1000,
     0x10,
     0x40000010,
     0x40000000 - 0x10},
    {"4-level, not present",
     PTD_PAGING_4_LEVEL,
     {{0x1000, 0x2000 | P}, {0x2000, 0x3000 | P}, {0x3000, 0x4000}},
     0x1000,
     0x10,
     0,
     0},
    {"4-level, not canonical",
     PTD_PAGING_4_LEVEL,
     {{0x1000, 0x2000 | P}, {0x2000, 0x40000000 | P | PS}},
     0x1000,
     0x1000000000010,
     0,
     0},
    {"4-level, a table outside", PTD_PAGING_4_LEVEL, {{0x1000, 0xf0000000 | P}}, 0x1000, 0, 0, 0},
    {"5-level",
     PTD_PAGING_5_LEVEL,
     {{0x1000 + 8, 0x2000 | P},
      {0x2000, 0x3000 | P},
      {0x3000, 0x4000 | P},
      {0x4000, 0x5000 | P},
      {0x5000, 0x6000 | P}},
     0x1000,
     0x1000000000123,
     0x6123,
     0x1000 - 0x123},
    {"5-level, the upper half",
     PTD_PAGING_5_LEVEL,
     {{0x1000 + 8 * 0x1ff, 0x2000 | P},
      {0x2000 + 8 * 0x1ff, 0x3000 | P},
      {0x3000 + 8 * 0x1ff, 0x40000000 | P | PS}},
     0x1000,
     0xfffffffffffff000,
     0x7ffff000,
     0x1000},
    {"PAE, 4 KiB",
     PTD_PAGING_PAE,
     {{0x1020 + 8 * 3, 0x2000 | P}, {0x2000, 0x3000 | P}, {0x3000 + 8, 0x500004000 | P}},
     0x1020,
     0xc0001008,
     0x500004008,
     0xff8},
    {"PAE, 2 MiB",
     PTD_PAGING_PAE,
     {{0x1000, 0x2000 | P}, {0x2000, 0x400000 | P | PS}},
     0x1000,
     0x123456,
     0x523456,
     0x200000 - 0x123456},
    {"PAE, beyond 4 GiB", PTD_PAGING_PAE, {{0x1000, 0x2000 | P}}, 0x1000, 0x100000000, 0, 0},
    {"32-bit, 4 KiB",
     PTD_PAGING_32,
     {{0x1000 + 4 * 0x300, 0x2000 | P}, {0x2000 + 4 * 5, 0x7000 | P}},
     0x1000,
     0xc0005800,
     0x7800,
     0x800},
    {"32-bit, 4 MiB, above 4 GiB",
     PTD_PAGING_32,
     {{0x1000, 0x00c00000 | 1u << 13 | P | PS}},
     0x1000,
     0x1234,
     0x100c01234,
     0x400000 - 0x1234},
    {"no paging known", PTD_PAGING_UNKNOWN, {{0x1000, 0x2000 | P}}, 0x1000, 0, 0, 0},
};

static void page_tables(void)
{
    for (size_t i = 0; i < COUNT(walks); i++) {
        const struct walk_case *const test = &walks[i];
        struct ptd_memory *const memory = ptd_memory_new();
        uint64_t paddr = 0;
        size_t len_bytes = 0;
        int status;

        memset(ram, 0, sizeof(ram));
        for (size_t e = 0; e < COUNT(test->entries) && test->entries[e].paddr; e++)
            poke(test->entries[e].paddr, test->entries[e].value,
                 test->paging == PTD_PAGING_32 ? 4 : 8);
        CU_ASSERT_EQUAL(ptd_memory_add(memory, 0, ram, sizeof(ram)), PTD_OK);
        status = ptd_memory_walk(memory, test->paging, test->cr3, test->vaddr, &paddr, &len_bytes);
        CU_ASSERT_EQUAL(status, test->len_bytes ? PTD_OK : PTD_E_NOMAP);
        CU_ASSERT_EQUAL(paddr, test->paddr);
        CU_ASSERT_EQUAL(len_bytes, test->len_bytes);
        if (paddr != test->paddr || len_bytes != test->len_bytes)
            printf("\n    %s: %llx, %zx", test->name, (unsigned long long)paddr, len_bytes);
        ptd_memory_free(memory);
    }
}

static void ranges(void)
{
    struct ptd_memory *const memory = ptd_memory_new();
    const uint8_t *bytes;
    size_t len_bytes;

    CU_ASSERT_EQUAL(ptd_memory_add(memory, 0x2000, ram, 0x1000), PTD_OK);
    CU_ASSERT_EQUAL(ptd_memory_add(memory, 0x1000, ram + 0x4000, 0x1000), PTD_OK);
    CU_ASSERT_EQUAL(ptd_memory_add(memory, UINT64_MAX - 15, ram, 16), PTD_OK);
    CU_ASSERT_EQUAL(ptd_memory_add(memory, 0x2fff, ram, 1), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_memory_add(memory, 0, ram, 0x1001), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_memory_add(memory, 0, ram, 0), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_memory_add(memory, UINT64_MAX, ram, 2), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_memory_find(memory, 0xfff, &bytes, &len_bytes), PTD_E_NOMAP);
    CU_ASSERT_EQUAL(ptd_memory_find(memory, 0x3000, &bytes, &len_bytes), PTD_E_NOMAP);
    CU_ASSERT_EQUAL(ptd_memory_find(memory, 0x1ffe, &bytes, &len_bytes), PTD_OK);
    CU_ASSERT_PTR_EQUAL(bytes, ram + 0x4ffe);
    CU_ASSERT_EQUAL(len_bytes, 2);
    CU_ASSERT_EQUAL(ptd_memory_find(memory, UINT64_MAX, &bytes, &len_bytes), PTD_OK);
    CU_ASSERT_PTR_EQUAL(bytes, ram + 15);
    CU_ASSERT_EQUAL(len_bytes, 1);
    ptd_memory_free(memory);
}

/* ---- Files ---- */

static bool write_temporary(char path[32], const void *bytes, size_t len_bytes)
{
    int fd;
    bool ok;

    memcpy(path, "/tmp/ptdec-test-XXXXXX", 23);
    fd = mkstemp(path);
    if (fd < 0)
        return false;
    ok = write(fd, bytes, len_bytes) == (ssize_t)len_bytes;
    return close(fd) == 0 && ok;
}

static void raw_dump(void)
{
    struct ptd_memory *const memory = ptd_memory_new();
    const uint8_t *bytes;
    size_t len_bytes;
    char path[32];

    CU_ASSERT_TRUE_FATAL(write_temporary(path, "0123456789", 10));
    CU_ASSERT_EQUAL(ptd_memory_add_raw(memory, path, 0x100000), PTD_OK);
    CU_ASSERT_EQUAL(ptd_memory_find(memory, 0x100003, &bytes, &len_bytes), PTD_OK);
    CU_ASSERT_EQUAL(len_bytes, 7);
    CU_ASSERT_EQUAL(memcmp(bytes, "3456789", 7), 0);
    CU_ASSERT_EQUAL(ptd_memory_add_raw(memory, path, 0x100009), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_memory_add_raw(memory, "/nonexistent", 0), PTD_E_IO);
    CU_ASSERT_EQUAL(ptd_memory_add_raw(memory, "/", 0), PTD_E_IO);
    (void)unlink(path);
    ptd_memory_free(memory);
}

/* A core dump as QEMU writes it: a note with the processor, two pieces of memory. */
struct core {
    Elf64_Ehdr file;
    Elf64_Phdr headers[3];
    Elf64_Nhdr note;
    char note_name[8];
    uint8_t note_desc[440];
    uint8_t low[0x2000], high[0x1000];
};

#define CR4_AT (8 + 18 * 8 + 10 * 24 + 4 * 8)

static void make_core(struct core *core, uint64_t cr4, uint16_t machine)
{
    const Elf64_Ehdr file = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_CORE,
        .e_machine = machine,
        .e_version = EV_CURRENT,
        .e_phoff = offsetof(struct core, headers),
        .e_ehsize = sizeof(Elf64_Ehdr),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = 3,
    };

    memset(core, 0, sizeof(*core));
    core->file = file;
    core->headers[0] = (Elf64_Phdr){
        .p_type = PT_NOTE,
        .p_offset = offsetof(struct core, note),
        .p_filesz = offsetof(struct core, low) - offsetof(struct core, note),
    };
    core->headers[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                                    .p_offset = offsetof(struct core, low),
                                    .p_paddr = 0,
                                    .p_filesz = sizeof(core->low),
                                    .p_memsz = sizeof(core->low)};
    core->headers[2] = (Elf64_Phdr){.p_type = PT_LOAD,
                                    .p_offset = offsetof(struct core, high),
                                    .p_paddr = 0x100000000,
                                    .p_filesz = sizeof(core->high),
                                    .p_memsz = sizeof(core->high)};
    core->note = (Elf64_Nhdr){.n_namesz = 5, .n_descsz = sizeof(core->note_desc)};
    memcpy(core->note_name, "QEMU", 5);
    memcpy(core->note_desc + CR4_AT, &cr4, sizeof(cr4));
    memset(core->high, 0xcc, sizeof(core->high));
}

static int read_core(const struct core *core, size_t len_bytes, struct ptd_memory *memory,
                     enum ptd_paging *paging)
{
    char path[32];
    int status;

    if (!write_temporary(path, core, len_bytes))
        return PTD_E_IO;
    status = ptd_memory_add_core(memory, path, paging);
    (void)unlink(path);
    return status;
}

static void core_dump(void)
{
    static const struct {
        uint64_t cr4;
        uint16_t machine;
        enum ptd_paging paging;
    } cases[] = {
        {0x3406f0, EM_X86_64, PTD_PAGING_4_LEVEL},
        {0x3416f0, EM_X86_64, PTD_PAGING_5_LEVEL},
        {0x20, EM_386, PTD_PAGING_PAE},
        {0x10, EM_386, PTD_PAGING_32},
    };
    static struct core core;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ptd_memory *const memory = ptd_memory_new();
        enum ptd_paging paging = PTD_PAGING_UNKNOWN;
        const uint8_t *bytes = NULL;
        size_t len_bytes = 0;

        make_core(&core, cases[i].cr4, cases[i].machine);
        CU_ASSERT_EQUAL(read_core(&core, sizeof(core), memory, &paging), PTD_OK);
        CU_ASSERT_EQUAL(paging, cases[i].paging);
        CU_ASSERT_EQUAL(ptd_memory_find(memory, 0x100000800, &bytes, &len_bytes), PTD_OK);
        CU_ASSERT_EQUAL(len_bytes, 0x800);
        CU_ASSERT_EQUAL(bytes[0], 0xcc);
        CU_ASSERT_EQUAL(ptd_memory_find(memory, 0x2000, &bytes, &len_bytes), PTD_E_NOMAP);
        ptd_memory_free(memory);
    }
}

static void bad_core_dumps(void)
{
    static struct core core;
    enum ptd_paging paging;

    for (unsigned damage = 0; damage < 7; damage++) {
        struct ptd_memory *const memory = ptd_memory_new();
        size_t len_bytes = sizeof(core);

        make_core(&core, 0x20, EM_X86_64);
        if (damage == 0)
            core.file.e_type = ET_EXEC;
        if (damage == 1)
            core.file.e_machine = EM_AARCH64;
        if (damage == 2)
            len_bytes = offsetof(struct core, high) + sizeof(core.high) - 1;
        if (damage == 3)
            core.headers[2].p_filesz = UINT64_MAX;
        if (damage == 4)
            core.headers[2].p_paddr = 0x1000;
        if (damage == 5)
            core.headers[1].p_offset = UINT64_MAX;
        if (damage == 6)
            core.file.e_ident[0] = 'K'; /* KDUMP */
        CU_ASSERT_EQUAL(read_core(&core, len_bytes, memory, &paging), PTD_E_FORMAT);
        ptd_memory_free(memory);
    }

    /* A note that is too short, or says it is too long: memory without a note. */
    for (unsigned damage = 0; damage < 2; damage++) {
        struct ptd_memory *const memory = ptd_memory_new();

        make_core(&core, 0x20, EM_X86_64);
        core.note.n_descsz = damage ? UINT32_MAX : CR4_AT;
        CU_ASSERT_EQUAL(read_core(&core, sizeof(core), memory, &paging), PTD_OK);
        CU_ASSERT_EQUAL(paging, PTD_PAGING_UNKNOWN);
        ptd_memory_free(memory);
    }
}

/* ---- In an image ---- */

static void check_find(const struct ptd_image *image, uint64_t space, uint64_t vaddr,
                       const uint8_t *want, size_t want_bytes)
{
    const uint8_t *bytes = NULL;
    size_t len_bytes = 0;

    CU_ASSERT_EQUAL(ptd_image_find(image, space, vaddr, &bytes, &len_bytes),
                    want ? PTD_OK : PTD_E_NOMAP);
    CU_ASSERT_PTR_EQUAL(bytes, want);
    CU_ASSERT_EQUAL(len_bytes, want_bytes);
}

/* What was added hides what the page tables say, and that is each VM's own. */
static void in_image(void)
{
    struct ptd_memory *const memory = ptd_memory_new();
    struct ptd_image *const image = ptd_image_new();
    const uint8_t *bytes;
    size_t len_bytes;

    memset(ram, 0, sizeof(ram));
    poke(0x1000, 0x2000 | P, 8);
    poke(0x2000, 0x3000 | P, 8);
    poke(0x3000, 0x4000 | P, 8);
    poke(0x4000 + 8 * 5, 0x6000 | P, 8);
    CU_ASSERT_EQUAL(ptd_memory_add(memory, 0, ram, sizeof(ram)), PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_add_vm(image), 1);
    CU_ASSERT_EQUAL(ptd_image_add_vm(image), 2);
    CU_ASSERT_EQUAL(ptd_image_add_memory(image, 1, memory, PTD_PAGING_4_LEVEL), PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_add_memory(image, 1, memory, PTD_PAGING_4_LEVEL), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_image_add_memory(image, 3, memory, PTD_PAGING_4_LEVEL), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_image_add_memory(image, 2, memory, PTD_PAGING_UNKNOWN), PTD_E_ARG);

    check_find(image, ptd_space(1, 0x1000), 0x5010, ram + 0x6010, 0xff0);
    check_find(image, ptd_space(1, 0x1000), 0x4010, NULL, 0);
    check_find(image, ptd_space(1, 0x2000), 0x5010, NULL, 0);
    check_find(image, ptd_space(2, 0x1000), 0x5010, NULL, 0);
    check_find(image, 0x1000, 0x5010, NULL, 0);
    check_find(image, ptd_space(1, PTD_ANY_CR3), 0x5010, NULL, 0);

    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, 0x5800, "abc", 3, ptd_space(1, 0x1000)),
                    PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, 0x5400, "d", 1, ptd_space(1, PTD_ANY_CR3)),
                    PTD_OK);
    check_find(image, ptd_space(1, 0x1000), 0x5010, ram + 0x6010, 0x3f0);
    check_find(image, ptd_space(1, 0x1000), 0x5401, ram + 0x6401, 0x3ff);
    check_find(image, ptd_space(1, 0x1000), 0x5803, ram + 0x6803, 0x7fd);
    CU_ASSERT_EQUAL(ptd_image_find(image, ptd_space(1, 0x1000), 0x5801, &bytes, &len_bytes),
                    PTD_OK);
    CU_ASSERT_EQUAL(memcmp(bytes, "bc", 2), 0);
    ptd_image_free(image);
    ptd_memory_free(memory);
}

/* Whose a CR3 is. */
static void spaces(void)
{
    struct ptd_image *const image = ptd_image_new();

    CU_ASSERT_EQUAL(ptd_image_space(image, true, 0x7000, 0x5000), 0x5000);
    CU_ASSERT_EQUAL(ptd_image_add_vm(image), 1);
    CU_ASSERT_EQUAL(ptd_image_add_vm(image), 2);
    CU_ASSERT_EQUAL(ptd_image_bind_vmcs(image, 0, 0x7000), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_image_bind_vmcs(image, 3, 0x7000), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_image_bind_vmcs(image, 1, 0x7000), PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_bind_vmcs(image, 1, 0x8000), PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_bind_vmcs(image, 2, 0x9000), PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_space(image, true, 0x7000, 0x5020), ptd_space(1, 0x5020));
    CU_ASSERT_EQUAL(ptd_image_space(image, true, 0x8000, 0x5020), ptd_space(1, 0x5020));
    CU_ASSERT_EQUAL(ptd_image_space(image, true, 0x9000, 0x5000), ptd_space(2, 0x5000));
    CU_ASSERT_EQUAL(ptd_image_space(image, true, 0xa000, 0x5000),
                    ptd_space(PTD_VM_UNKNOWN, 0x5000));
    CU_ASSERT_EQUAL(ptd_image_space(image, false, 0x9000, 0x5000), 0x5000);
    CU_ASSERT_EQUAL(ptd_image_bind_vmcs(image, 2, 0x7000), PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_space(image, true, 0x7000, 0x5000), ptd_space(2, 0x5000));

    CU_ASSERT_EQUAL(ptd_space(0, PTD_ANY_CR3), PTD_ANY_CR3);
    CU_ASSERT_EQUAL(ptd_space_vm(PTD_ANY_CR3), 0);
    CU_ASSERT_EQUAL(ptd_space_vm(ptd_space(2, PTD_ANY_CR3)), 2);
    CU_ASSERT_EQUAL(ptd_space_cr3(ptd_space(2, PTD_ANY_CR3)), PTD_ANY_CR3);
    CU_ASSERT_EQUAL(ptd_space_cr3(ptd_space(2, 0x5000)), 0x5000);
    for (unsigned vm = 3; vm < PTD_VM_UNKNOWN; vm++)
        CU_ASSERT_EQUAL(ptd_image_add_vm(image), (int)vm);
    CU_ASSERT_EQUAL(ptd_image_add_vm(image), PTD_E_ARG);
    ptd_image_free(image);
}

void add_memory_suite(void)
{
    CU_pSuite const suite = CU_add_suite("guest memory", NULL, NULL);

    CU_add_test(suite, "page tables", page_tables);
    CU_add_test(suite, "ranges", ranges);
    CU_add_test(suite, "raw dump", raw_dump);
    CU_add_test(suite, "core dump", core_dump);
    CU_add_test(suite, "core dumps that are none", bad_core_dumps);
    CU_add_test(suite, "behind an image", in_image);
    CU_add_test(suite, "address spaces of VMs", spaces);
}
