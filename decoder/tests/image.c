/* SPDX-License-Identifier: BSD-3-Clause */
/* Images: address spaces, what hides what, symbols; ELF files, sound and hostile. */
#include <CUnit/CUnit.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ptdec.h"
#include "suites.h"

#define ANY PTD_ANY_CR3

/* The first byte at vaddr and how many follow, as "value/count"; "-" if there is no code. */
static const char *find(const struct ptd_image *image, uint64_t cr3, uint64_t vaddr)
{
    static char text[64];
    const uint8_t *bytes;
    size_t len;

    if (ptd_image_find(image, cr3, vaddr, &bytes, &len) != PTD_OK)
        return "-";
    (void)snprintf(text, sizeof(text), "%u/%zu", bytes[0], len);
    return text;
}

/* "name+offset", or "-". */
static const char *symbol(const struct ptd_image *image, uint64_t cr3, uint64_t vaddr)
{
    static char text[64];
    uint64_t offset;
    const char *const name = ptd_image_symbol(image, cr3, vaddr, &offset);

    if (!name)
        return "-";
    (void)snprintf(text, sizeof(text), "%s+%llu", name, (unsigned long long)offset);
    return text;
}

static void add(struct ptd_image *image, const char *name, uint64_t vaddr, uint8_t value,
                size_t len, uint64_t cr3)
{
    uint8_t bytes[256];

    memset(bytes, value, sizeof(bytes));
    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, name, vaddr, bytes, len, cr3), PTD_OK);
}

static void hiding(void)
{
    struct ptd_image *const image = ptd_image_new();

    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1000), "-");
    add(image, "one", 0x1000, 1, 100, ANY);
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0xfff), "-");
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1000), "1/100");
    CU_ASSERT_STRING_EQUAL(find(image, 0x5000, 0x1063), "1/1");
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1064), "-");

    add(image, "two", 0x1014, 2, 20, ANY); /* splits */
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1000), "1/20");
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1014), "2/20");
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1028), "1/60");

    add(image, "three", 0xff0, 3, 40, ANY); /* covers the left and some of the middle */
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0xff0), "3/40");
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1018), "2/16");
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1030), "1/52");

    add(image, NULL, 0xf00, 4, 256, ANY);
    add(image, NULL, 0x1000, 5, 256, ANY); /* covers all the rest */
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0xfff), "4/1");
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1000), "5/256");
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x10ff), "5/1");
    ptd_image_free(image);
    ptd_image_free(NULL);
}

static void address_spaces(void)
{
    struct ptd_image *const image = ptd_image_new();

    add(image, "kernel", 0x1000, 1, 100, ANY);
    add(image, "b", 0x1010, 3, 10, 0x7000);
    add(image, "a", 0x1010, 2, 10, 0x5000);
    CU_ASSERT_STRING_EQUAL(find(image, 0x5000, 0x1010), "2/10");
    CU_ASSERT_STRING_EQUAL(find(image, 0x5018, 0x1010), "2/10"); /* bits 11:0 do not count */
    CU_ASSERT_STRING_EQUAL(find(image, 0x7000, 0x1010), "3/10");
    CU_ASSERT_STRING_EQUAL(find(image, 0x6000, 0x1010), "1/84");
    CU_ASSERT_STRING_EQUAL(find(image, ANY, 0x1010), "1/84");
    /* What all share goes up to what the address space has of its own, and on behind it. */
    CU_ASSERT_STRING_EQUAL(find(image, 0x5000, 0x1000), "1/16");
    CU_ASSERT_STRING_EQUAL(find(image, 0x5000, 0x101a), "1/74");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x5000, 0x1012), "a+2");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x7000, 0x1012), "b+2");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x6000, 0x1012), "kernel+18");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x5000, 0x1001), "kernel+1");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x5000, 0x2000), "-");
    ptd_image_free(image);
}

static void edges(void)
{
    struct ptd_image *const image = ptd_image_new();

    add(image, "top", UINT64_MAX - 15, 9, 16, ANY);
    add(image, "zero", 0, 8, 16, ANY);
    CU_ASSERT_STRING_EQUAL(find(image, 0, UINT64_MAX), "9/1");
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0), "8/16");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, UINT64_MAX), "top+15");
    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, UINT64_MAX - 3, "12345", 5, ANY), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, 0x1000, "", 0, ANY), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, 0x1000, NULL, 5, ANY), PTD_E_ARG);
    ptd_image_free(image);
}

/* ---- ELF ---- */

enum { TEXT, SYMTAB, STRTAB, SECTIONS }; /* section i is number i + 1 */

#define CODE_BYTES 64
#define VADDR      0x400000u
#define SYMBOLS    8

static const char names[] = "\0f\0g\0weak\0label\0inside\0data\0undef";

static const struct {
    uint8_t name, info;
    uint16_t section;
    uint32_t value, size;
} symbols[SYMBOLS] = {
    {0, 0, 0, 0, 0},
    {1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), TEXT + 1, VADDR, 16},        /* f */
    {5, ELF64_ST_INFO(STB_WEAK, STT_FUNC), TEXT + 1, VADDR, 16},          /* weak */
    {3, ELF64_ST_INFO(STB_LOCAL, STT_FUNC), TEXT + 1, VADDR + 32, 8},     /* g */
    {10, ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), TEXT + 1, VADDR + 48, 0}, /* label */
    {16, ELF64_ST_INFO(STB_LOCAL, STT_NOTYPE), TEXT + 1, VADDR + 4, 0},   /* inside */
    {23, ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), TEXT + 1, VADDR + 20, 4}, /* data */
    {28, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), SHN_UNDEF, VADDR + 24, 4},  /* undef */
};

/* The layout of both classes; 32 and 64 differ in the types only. */
#define DEFINE_FILE(bits, elf_class, elf_machine)                                                  \
    struct file##bits {                                                                            \
        Elf##bits##_Ehdr header;                                                                   \
        Elf##bits##_Phdr segments[2];                                                              \
        Elf##bits##_Shdr sections[SECTIONS + 1];                                                   \
        Elf##bits##_Sym symbols[SYMBOLS];                                                          \
        char names[sizeof(names)];                                                                 \
        uint8_t code[CODE_BYTES];                                                                  \
    };                                                                                             \
    static void fill##bits(struct file##bits *file)                                                \
    {                                                                                              \
        memset(file, 0, sizeof(*file));                                                            \
        memcpy(file->header.e_ident, ELFMAG, SELFMAG);                                             \
        file->header.e_ident[EI_CLASS] = elf_class;                                                \
        file->header.e_ident[EI_DATA] = ELFDATA2LSB;                                               \
        file->header.e_ident[EI_VERSION] = EV_CURRENT;                                             \
        file->header.e_type = ET_EXEC;                                                             \
        file->header.e_machine = elf_machine;                                                      \
        file->header.e_version = EV_CURRENT;                                                       \
        file->header.e_ehsize = sizeof(file->header);                                              \
        file->header.e_phoff = offsetof(struct file##bits, segments);                              \
        file->header.e_phentsize = sizeof(file->segments[0]);                                      \
        file->header.e_phnum = 2;                                                                  \
        file->header.e_shoff = offsetof(struct file##bits, sections);                              \
        file->header.e_shentsize = sizeof(file->sections[0]);                                      \
        file->header.e_shnum = SECTIONS + 1;                                                       \
        file->segments[0].p_type = PT_LOAD;                                                        \
        file->segments[0].p_offset = offsetof(struct file##bits, code);                            \
        file->segments[0].p_vaddr = VADDR;                                                         \
        file->segments[0].p_filesz = CODE_BYTES;                                                   \
        file->segments[0].p_memsz = CODE_BYTES + 16;                                               \
        file->segments[1].p_type = PT_NOTE;                                                        \
        file->sections[TEXT + 1].sh_type = SHT_PROGBITS;                                           \
        file->sections[TEXT + 1].sh_flags = SHF_ALLOC | SHF_EXECINSTR;                             \
        file->sections[TEXT + 1].sh_addr = VADDR;                                                  \
        file->sections[TEXT + 1].sh_offset = offsetof(struct file##bits, code);                    \
        file->sections[TEXT + 1].sh_size = CODE_BYTES;                                             \
        file->sections[SYMTAB + 1].sh_type = SHT_SYMTAB;                                           \
        file->sections[SYMTAB + 1].sh_link = STRTAB + 1;                                           \
        file->sections[SYMTAB + 1].sh_offset = offsetof(struct file##bits, symbols);               \
        file->sections[SYMTAB + 1].sh_size = sizeof(file->symbols);                                \
        file->sections[SYMTAB + 1].sh_entsize = sizeof(file->symbols[0]);                          \
        file->sections[STRTAB + 1].sh_type = SHT_STRTAB;                                           \
        file->sections[STRTAB + 1].sh_offset = offsetof(struct file##bits, names);                 \
        file->sections[STRTAB + 1].sh_size = sizeof(names);                                        \
        for (unsigned i = 0; i < SYMBOLS; i++) {                                                   \
            file->symbols[i].st_name = symbols[i].name;                                            \
            file->symbols[i].st_info = symbols[i].info;                                            \
            file->symbols[i].st_shndx = symbols[i].section;                                        \
            file->symbols[i].st_value = symbols[i].value;                                          \
            file->symbols[i].st_size = symbols[i].size;                                            \
        }                                                                                          \
        memcpy(file->names, names, sizeof(names));                                                 \
        memset(file->code, 0x90, CODE_BYTES);                                                      \
    }

DEFINE_FILE(64, ELFCLASS64, EM_X86_64)
DEFINE_FILE(32, ELFCLASS32, EM_386)

/* Writes bytes to a file and adds it to the image. */
static int add_file(struct ptd_image *image, const void *bytes, size_t len, uint64_t bias)
{
    char path[] = "/tmp/ptdec-image-XXXXXX";
    const int fd = mkstemp(path);
    int status = PTD_E_IO;

    if (fd < 0)
        return PTD_E_IO;
    if (write(fd, bytes, len) == (ssize_t)len)
        status = ptd_image_add_elf(image, path, bias, ANY);
    close(fd);
    unlink(path);
    return status;
}

static void check_file(const void *bytes, size_t len)
{
    struct ptd_image *const image = ptd_image_new();

    CU_ASSERT_EQUAL(add_file(image, bytes, len, 0x1000000), PTD_OK);
    CU_ASSERT_STRING_EQUAL(find(image, 0, VADDR), "-");
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1000000 + VADDR), "144/64");
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1000000 + VADDR + CODE_BYTES), "-");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1000000 + VADDR), "f+0");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1000000 + VADDR + 4), "f+4");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1000000 + VADDR + 15), "f+15");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1000000 + VADDR + 16), "-");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1000000 + VADDR + 24), "-");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1000000 + VADDR + 39), "g+7");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1000000 + VADDR + 40), "-");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1000000 + VADDR + 60), "label+12");

    /* Other code in the same place takes the names away with it. */
    add(image, "jit", 0x1000000 + VADDR + 8, 7, 32, ANY);
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1000000 + VADDR + 32), "jit+24");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1000000 + VADDR + 7), "f+7");
    ptd_image_free(image);
}

static void elf_files(void)
{
    struct file64 file64;
    struct file32 file32;

    fill64(&file64);
    check_file(&file64, sizeof(file64));
    fill32(&file32);
    check_file(&file32, sizeof(file32));
}

/* Of a file in memory. */
static int new_elf(const void *bytes, size_t len, uint64_t max_bytes, struct ptd_file **elf)
{
    const int fd = memfd_create("elf", MFD_CLOEXEC);
    int status = PTD_E_IO;

    CU_ASSERT_EQUAL_FATAL(write(fd, bytes, len), (ssize_t)len);
    status = ptd_file_new_elf(fd, max_bytes, elf);
    close(fd);
    return status;
}

/* One file at many addresses of two images: its code and names are there once. */
static void shared_elf_files(void)
{
    struct ptd_image *const one = ptd_image_new(), *const two = ptd_image_new();
    const uint8_t *first, *second;
    struct ptd_file *elf;
    struct file64 file;
    size_t len;

    fill64(&file);
    CU_ASSERT_EQUAL_FATAL(new_elf(&file, sizeof(file), UINT64_MAX, &elf), PTD_OK);
    CU_ASSERT_TRUE(ptd_file_bytes(elf) > CODE_BYTES && ptd_file_bytes(elf) < sizeof(file));
    for (uint64_t i = 0; i < 1000; i++)
        CU_ASSERT_EQUAL(ptd_image_add_file(one, elf, i << 16, 0x5000), PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_add_file(two, elf, 0x7000, ANY), PTD_OK);
    CU_ASSERT_STRING_EQUAL(symbol(one, 0x5000, VADDR + 0x20), "g+0");
    CU_ASSERT_STRING_EQUAL(symbol(one, 0x5000, VADDR + (999 << 16) + 0x21), "g+1");
    CU_ASSERT_STRING_EQUAL(symbol(one, 0x6000, VADDR), "-");
    CU_ASSERT_STRING_EQUAL(symbol(two, 0x6000, VADDR + 0x7021), "g+1");
    CU_ASSERT_EQUAL(ptd_image_find(one, 0x5000, VADDR + (999 << 16), &first, &len), PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_find(two, 0x5000, VADDR + 0x7000, &second, &len), PTD_OK);
    CU_ASSERT_PTR_EQUAL(first, second);
    ptd_image_free(one);
    ptd_image_free(two);
    len = ptd_file_bytes(elf);
    ptd_file_free(elf);
    CU_ASSERT_EQUAL(new_elf(&file, sizeof(file), len - 1, &elf), PTD_E_LIMIT);
    CU_ASSERT_EQUAL(new_elf(&file, sizeof(file), len, &elf), PTD_OK);
    ptd_file_free(elf);
    ptd_file_free(NULL);
}

#define TABLES 2000

/* A file of which each section is the whole file once more costs no more than a small multiple. */
static void overlapping_tables(void)
{
    struct {
        struct file64 file;
        Elf64_Shdr sections[TABLES];
    } *const many = malloc(sizeof(*many));
    const size_t len = sizeof(*many);
    struct ptd_file *elf;

    if (!many)
        return;
    fill64(&many->file);
    for (size_t i = 0; i < TABLES; i++) {
        many->sections[i] = many->file.sections[SYMTAB + 1];
        many->sections[i].sh_offset = 0;
        many->sections[i].sh_size = len - len % sizeof(Elf64_Sym);
    }
    memcpy(many->sections, many->file.sections, sizeof(many->file.sections));
    many->file.header.e_shoff = offsetof(__typeof__(*many), sections);
    many->file.header.e_shnum = TABLES;
    CU_ASSERT_EQUAL(new_elf(many, sizeof(*many), UINT64_MAX, &elf), PTD_E_FORMAT);
    free(many);
}

static void refused_elf_files(void)
{
    struct ptd_image *const image = ptd_image_new();
    struct file64 file;

    CU_ASSERT_EQUAL(ptd_image_add_elf(image, "/nonexistent", 0, ANY), PTD_E_IO);
    CU_ASSERT_EQUAL(ptd_image_add_elf(image, "/tmp", 0, ANY), PTD_E_IO);
    CU_ASSERT_EQUAL(add_file(image, "", 0, 0), PTD_E_FORMAT);
    CU_ASSERT_EQUAL(add_file(image, "#!/bin/sh\n", 10, 0), PTD_E_FORMAT);
    fill64(&file);
    file.header.e_machine = EM_AARCH64;
    CU_ASSERT_EQUAL(add_file(image, &file, sizeof(file), 0), PTD_E_FORMAT);
    fill64(&file);
    file.header.e_type = ET_REL;
    CU_ASSERT_EQUAL(add_file(image, &file, sizeof(file), 0), PTD_E_FORMAT);
    fill64(&file);
    file.segments[0].p_filesz = UINT64_MAX; /* bigger than memory, and than the file */
    CU_ASSERT_EQUAL(add_file(image, &file, sizeof(file), 0), PTD_E_FORMAT);
    fill64(&file);
    file.segments[0].p_memsz = file.segments[0].p_filesz = 1u << 30;
    CU_ASSERT_EQUAL(add_file(image, &file, sizeof(file), 0), PTD_E_FORMAT);
    fill64(&file);
    file.segments[0].p_offset = UINT64_MAX - 8;
    CU_ASSERT_EQUAL(add_file(image, &file, sizeof(file), 0), PTD_E_FORMAT);
    fill64(&file);
    file.segments[0].p_vaddr = UINT64_MAX - 8; /* wraps */
    CU_ASSERT_EQUAL(add_file(image, &file, sizeof(file), 0), PTD_E_FORMAT);
    fill64(&file);
    CU_ASSERT_EQUAL(add_file(image, &file, sizeof(file), UINT64_MAX - VADDR - 8), PTD_E_FORMAT);
    ptd_image_free(image);
}

/* Cut off anywhere, and any byte of it wrong: refused or accepted, but no crash. */
static void damaged_elf_files(void)
{
    struct file64 file;
    uint8_t *const bytes = (uint8_t *)&file;

    for (size_t len = 0; len < sizeof(file); len += 7) {
        struct ptd_image *const image = ptd_image_new();

        fill64(&file);
        (void)add_file(image, &file, len, 0);
        ptd_image_free(image);
    }
    for (size_t i = 0; i < offsetof(struct file64, code); i++) {
        struct ptd_image *const image = ptd_image_new();

        fill64(&file);
        bytes[i] ^= 0xff;
        (void)add_file(image, &file, sizeof(file), 0);
        ptd_image_free(image);
    }
    CU_PASS("no crash");
}

/* An image on another: what it has hides, in the same address space and below it. */
static void on_another(void)
{
    struct ptd_image *const base = ptd_image_new();
    struct ptd_image *const image = ptd_image_new_on(base);

    CU_ASSERT_PTR_NOT_NULL_FATAL(image);
    CU_ASSERT_PTR_NULL(ptd_image_new_on(image));
    add(base, "all", 0x1000, 1, 100, ANY);
    add(base, "five", 0x1010, 5, 16, 0x5000);
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1000), "1/100");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1002), "all+2");
    add(image, "new", 0x1020, 2, 16, ANY);
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1000), "1/32");
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1020), "2/16");
    CU_ASSERT_STRING_EQUAL(find(image, 0, 0x1030), "1/52");
    CU_ASSERT_STRING_EQUAL(find(base, 0, 0x1000), "1/100");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1021), "new+1");
    /* What an address space has for itself counts before what is for all, in either image. */
    add(image, "late", 0x1000, 3, 32, ANY);
    CU_ASSERT_STRING_EQUAL(find(image, 0x5000, 0x1000), "3/16");
    CU_ASSERT_STRING_EQUAL(find(image, 0x5000, 0x1010), "5/16");
    add(image, NULL, 0x1014, 6, 4, 0x5000);
    CU_ASSERT_STRING_EQUAL(find(image, 0x5000, 0x1010), "5/4");
    CU_ASSERT_STRING_EQUAL(find(image, 0x5000, 0x1014), "6/4");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x5000, 0x1014), "-");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x5000, 0x1018), "five+8");
    ptd_image_free(image);
    ptd_image_free(base);
}

/* The VMs and the memory of an image on another are those of the other. */
static void vms_of_another(void)
{
    struct ptd_image *const base = ptd_image_new();
    struct ptd_image *const image = ptd_image_new_on(base);
    const int vm = ptd_image_add_vm(base);

    CU_ASSERT_EQUAL(ptd_image_bind_vmcs(base, (unsigned)vm, 0x7000), PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_space(image, true, 0x7000, 0x3000), ptd_space((unsigned)vm, 0x3000));
    CU_ASSERT_EQUAL(ptd_image_space(image, true, 0x8000, 0x3000),
                    ptd_space(PTD_VM_UNKNOWN, 0x3000));
    ptd_image_free(image);
    ptd_image_free(base);
}

static void aliases(void)
{
    struct ptd_image *const base = ptd_image_new();
    struct ptd_image *const image = ptd_image_new_on(base);

    add(base, "all", 0x1000, 1, 100, ANY);
    CU_ASSERT_EQUAL(ptd_image_alias(base, 0x6000, 0x5000), PTD_OK); /* in any order */
    add(base, "five", 0x1010, 5, 16, 0x5000);
    add(image, "new", 0x1018, 2, 4, 0x5000);
    CU_ASSERT_STRING_EQUAL(find(image, 0x6000, 0x1010), "5/8");
    CU_ASSERT_STRING_EQUAL(find(image, 0x6000, 0x1018), "2/4");
    CU_ASSERT_STRING_EQUAL(find(image, 0x6000, 0x1000), "1/16");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x6000, 0x1019), "new+1");
    CU_ASSERT_STRING_EQUAL(find(image, 0x7000, 0x1010), "1/84");
    CU_ASSERT_EQUAL(ptd_image_alias(base, 0x7000, 0x6000), PTD_E_ARG); /* not in two steps */
    CU_ASSERT_EQUAL(ptd_image_alias(base, 0x7000, 0x7000), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_image_alias(base, 0x7000, 0), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_image_alias(base, 0x7000, ANY), PTD_E_ARG);
    ptd_image_free(image);
    ptd_image_free(base);
}

static void patches(void)
{
    struct ptd_image *const base = ptd_image_new();
    struct ptd_image *const image = ptd_image_new_on(base);
    struct ptd_image *const both[] = {base, image};

    add(base, "function", 0x1000, 1, 100, ANY);
    for (size_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(ptd_image_patch(both[i], 0x1000, "\7\7", 2, ANY), PTD_OK);
        CU_ASSERT_EQUAL(ptd_image_patch(both[i], 0x1010, "\7\7\7", 3, ANY), PTD_OK);
        CU_ASSERT_EQUAL(ptd_image_patch(both[i], 0x1011, "\4", 1, ANY), PTD_OK);
        CU_ASSERT_STRING_EQUAL(find(both[i], 0, 0x1000), "7/2");
        CU_ASSERT_STRING_EQUAL(find(both[i], 0, 0x1012), "7/1");
        CU_ASSERT_STRING_EQUAL(find(both[i], 0, 0x1011), "4/1");
        CU_ASSERT_STRING_EQUAL(symbol(both[i], 0, 0x1000), "function+0");
        CU_ASSERT_STRING_EQUAL(symbol(both[i], 0, 0x1012), "function+18");
        CU_ASSERT_STRING_EQUAL(symbol(both[i], 0, 0x1050), "function+80");
    }
    CU_ASSERT_EQUAL(ptd_image_patch(base, 0x1000, NULL, 0, ANY), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_image_patch(base, UINT64_MAX, "\7\7", 2, ANY), PTD_E_ARG);
    ptd_image_free(image);
    ptd_image_free(base);
}

/* A name without a size ends with its section, and never in other code far behind it. */
static void no_size(void)
{
    struct ptd_image *const image = ptd_image_new();
    struct file64 file;

    fill64(&file);
    file.sections[TEXT + 1].sh_size = CODE_BYTES - 8;
    file.symbols[3].st_size = 0; /* g */
    CU_ASSERT_EQUAL(add_file(image, &file, sizeof(file), 0), PTD_OK);
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, VADDR + 47), "g+15"); /* up to the next one */
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, VADDR + 55), "label+7");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, VADDR + 56), "-");
    add(image, NULL, VADDR + 0x10000, 1, 16, ANY);
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, VADDR + 0x10000), "-");
    ptd_image_free(image);
}

static int add_kallsyms(struct ptd_image *image, const char *text)
{
    char path[] = "/tmp/vpt-kallsyms-XXXXXX";
    const int fd = mkstemp(path);
    int status;

    CU_ASSERT_TRUE_FATAL(fd >= 0);
    CU_ASSERT_EQUAL_FATAL(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    status = ptd_image_add_kallsyms(image, path, ANY);
    close(fd);
    unlink(path);
    return status;
}

static void kallsyms(void)
{
    struct ptd_image *const image = ptd_image_new();
    char line[1100];

    add(image, NULL, 0xffffffff81000000, 1, 200, ANY);
    CU_ASSERT_EQUAL(add_kallsyms(image, "ffffffff81000000 T _text\n"
                                        "ffffffff81000000 T startup_64\n"
                                        "ffffffff81000020 t local\n"
                                        "ffffffff81000028 D data\n"
                                        "ffffffff81000040 t of_module\t[virtio]\n"
                                        "0000000000000000 T hidden\n"
                                        "ffffffff81000050 W weak"),
                    PTD_OK);
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0xffffffff81000001), "_text+1");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0xffffffff8100003f), "local+31");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0xffffffff81000040), "of_module+0");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0xffffffff81000060), "weak+16");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0xffffffff810000c7), "weak+119");
    add(image, NULL, 0xffffffffc0000000, 1, 100, ANY); /* other code that nothing names */
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0xffffffffc0000000), "-");
    CU_ASSERT_EQUAL(add_kallsyms(image, ""), PTD_OK);
    CU_ASSERT_EQUAL(add_kallsyms(image, "no address\n"), PTD_E_FORMAT);
    CU_ASSERT_EQUAL(add_kallsyms(image, "ffffffff81000000 T\n"), PTD_E_FORMAT);
    memset(line, 'x', sizeof(line));
    memcpy(line, "ffffffff81000000 T ", 19);
    line[sizeof(line) - 1] = 0;
    CU_ASSERT_EQUAL(add_kallsyms(image, line), PTD_E_FORMAT);
    CU_ASSERT_EQUAL(ptd_image_add_kallsyms(image, "/nonexistent", ANY), PTD_E_IO);
    CU_ASSERT_EQUAL(ptd_image_add_kallsyms(image, "/tmp", ANY), PTD_E_IO);
    ptd_image_free(image);
}

/* What would keep a reader waiting, or never ends, is no file. */
static void no_files(void)
{
    static const char *const paths[] = {"/dev/zero", "/dev/tty", "/tmp"};
    struct ptd_image *const image = ptd_image_new();
    struct ptd_memory *const memory = ptd_memory_new();
    char folder[] = "/tmp/ptdec-image-XXXXXX", fifo[64];
    enum ptd_paging paging;

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    (void)snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
    CU_ASSERT_EQUAL_FATAL(mkfifo(fifo, 0600), 0);
    for (size_t i = 0; i < 4; i++) {
        const char *const path = i < 3 ? paths[i] : fifo;

        CU_ASSERT_EQUAL(ptd_image_add_elf(image, path, 0, ANY), PTD_E_IO);
        CU_ASSERT_EQUAL(ptd_image_add_kallsyms(image, path, ANY), PTD_E_IO);
        CU_ASSERT_EQUAL(ptd_memory_add_raw(memory, path, 0), PTD_E_IO);
        CU_ASSERT_EQUAL(ptd_memory_add_core(memory, path, &paging), PTD_E_IO);
    }
    CU_ASSERT_EQUAL(unlink(fifo), 0);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
    ptd_memory_free(memory);
    ptd_image_free(image);
}

/* Names and code may come in any order; code that is added later hides names. */
static void kallsyms_and_code(void)
{
    struct ptd_image *const image = ptd_image_new();

    add(image, NULL, 0x1000, 1, 100, ANY);
    CU_ASSERT_EQUAL(add_kallsyms(image, "1000 T one\n1020 T two\n"), PTD_OK);
    add(image, NULL, 0x1020, 1, 16, ANY);
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1008), "one+8");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1028), "-");
    CU_ASSERT_EQUAL(ptd_image_patch(image, 0x1008, "\x90", 1, ANY), PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_patch(image, 0x1028, "\x90", 1, ANY), PTD_OK);
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1008), "one+8");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1028), "-");
    CU_ASSERT_EQUAL(add_kallsyms(image, "1020 T three\n"), PTD_OK);
    CU_ASSERT_STRING_EQUAL(symbol(image, 0, 0x1028), "three+8");
    ptd_image_free(image);
}

/* Code that comes from memory has the names of a kallsyms, else those of regions. */
static void names_without_code(void)
{
    struct ptd_image *const image = ptd_image_new();

    CU_ASSERT_EQUAL(ptd_image_add_region(image, "[libc]", 0x800, 0x1800, NULL, 0, 0x5000), PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_add_region(image, "[none]", 0x800, 0, NULL, 0, 0x5000), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_image_add_region(image, "[wraps]", UINT64_MAX, 2, NULL, 0, 0x5000),
                    PTD_E_ARG);
    CU_ASSERT_EQUAL(add_kallsyms(image, "1000 T one\n1020 T two\n"), PTD_OK);
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x5000, 0x7ff), "-");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x5000, 0x801), "[libc]+1");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x6000, 0x801), "-");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x5000, 0x101f), "one+31");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x6000, 0x1021), "two+1");
    /* Code that has bytes here has the names that came with it, and those of what is behind it. */
    add(image, NULL, 0x1020, 1, 16, ANY);
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x5000, 0x1021), "[libc]+2081");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x6000, 0x1021), "-");
    add(image, "own", 0x900, 1, 16, 0x5000);
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x5000, 0x901), "own+1");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x5000, 0x910), "[libc]+272");
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x5000, 0x1fff), "two+4063");
    ptd_image_free(image);
}

void add_image_suite(void)
{
    CU_pSuite const suite = CU_add_suite("images", NULL, NULL);

    CU_add_test(suite, "later hides earlier", hiding);
    CU_add_test(suite, "address spaces", address_spaces);
    CU_add_test(suite, "both ends of the address space", edges);
    CU_add_test(suite, "an image on another", on_another);
    CU_add_test(suite, "virtual machines of the other", vms_of_another);
    CU_add_test(suite, "one address space as another", aliases);
    CU_add_test(suite, "patches", patches);
    CU_add_test(suite, "kallsyms", kallsyms);
    CU_add_test(suite, "names without a size", no_size);
    CU_add_test(suite, "kallsyms and code", kallsyms_and_code);
    CU_add_test(suite, "names without code", names_without_code);
    CU_add_test(suite, "neither FIFOs nor devices", no_files);
    CU_add_test(suite, "ELF, shared", shared_elf_files);
    CU_add_test(suite, "ELF whose tables lie over each other", overlapping_tables);
    CU_add_test(suite, "ELF, 64 and 32 bits", elf_files);
    CU_add_test(suite, "ELF that is refused", refused_elf_files);
    CU_add_test(suite, "ELF that is damaged", damaged_elf_files);
}
