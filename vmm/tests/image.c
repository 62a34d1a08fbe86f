/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the ELF loader: files that are not images, and segments that do not fit. */
#include "suites.h"
#include "kvm/boot.h"
#include "common/bytes.h"
#include "common/file.h"
#include "kvm/backend.h"

#include <CUnit/CUnit.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOAD_AT   0x20000u
#define CODE_AT   0x200u /* in the file */
#define CODE_LEN  16u
#define FILE_LEN  (CODE_AT + CODE_LEN)
#define ALL_BYTES UINT32_MAX

struct file {
    Elf64_Ehdr ehdr;
    Elf64_Phdr phdr;
    uint8_t rest[0x1000];
};

static struct file good_file(void)
{
    struct file file;

    memset(&file, 0xcc, sizeof(file));
    file.ehdr = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                             .e_type = ET_EXEC,
                             .e_machine = EM_X86_64,
                             .e_version = EV_CURRENT,
                             .e_entry = LOAD_AT,
                             .e_phoff = sizeof(Elf64_Ehdr),
                             .e_ehsize = sizeof(Elf64_Ehdr),
                             .e_phentsize = sizeof(Elf64_Phdr),
                             .e_phnum = 1};
    file.phdr = (Elf64_Phdr){.p_type = PT_LOAD,
                             .p_offset = CODE_AT,
                             .p_vaddr = LOAD_AT,
                             .p_paddr = LOAD_AT,
                             .p_filesz = CODE_LEN,
                             .p_memsz = 2 * CODE_LEN};
    return file;
}

/* Loads the first len bytes of file; 0 or -errno. why is what the user would read. */
static int load(const struct file *file, size_t len, struct fake *fake, const char **why)
{
    static char path[64];
    int fd = memfd_create("image", MFD_CLOEXEC), error;

    CU_ASSERT_FATAL(fd >= 0);
    len = len == ALL_BYTES ? FILE_LEN : len;
    CU_ASSERT_EQUAL_FATAL(write(fd, file, len), (ssize_t)len);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    fake->options.image = path;
    error = boot_load(&fake->vmm);
    close(fd);
    *why = fake->result.why;
    return error;
}

static void test_good(void)
{
    struct fake *fake = fake_new();
    struct file file = good_file();
    const char *why;

    memset(fake->ram, 0xff, FAKE_RAM_BYTES);
    CU_ASSERT_EQUAL(load(&file, ALL_BYTES, fake, &why), 0);
    CU_ASSERT_EQUAL(fake->vmm.entry, LOAD_AT);
    CU_ASSERT_EQUAL(fake->ram[LOAD_AT], 0xcc);
    CU_ASSERT_EQUAL(fake->ram[LOAD_AT + CODE_LEN - 1], 0xcc);
    CU_ASSERT_EQUAL(fake->ram[LOAD_AT + CODE_LEN], 0); /* .bss */
    CU_ASSERT_EQUAL(fake->ram[LOAD_AT + 2 * CODE_LEN - 1], 0);
    CU_ASSERT_EQUAL(fake->ram[LOAD_AT + 2 * CODE_LEN], 0xff);
    fake_free(fake);
}

static void class_32(struct file *file)
{
    file->ehdr.e_ident[EI_CLASS] = ELFCLASS32;
}
static void foreign(struct file *file)
{
    file->ehdr.e_machine = EM_AARCH64;
}
static void relocatable(struct file *file)
{
    file->ehdr.e_type = ET_REL;
}
static void position_independent(struct file *file)
{
    file->ehdr.e_type = ET_DYN;
}
static void no_magic(struct file *file)
{
    file->ehdr.e_ident[1] = 'e';
}
static void headers_far_away(struct file *file)
{
    file->ehdr.e_phoff = UINT64_MAX - 8;
}
static void many_headers(struct file *file)
{
    file->ehdr.e_phnum = 0xfffe;
}
static void no_headers(struct file *file)
{
    file->ehdr.e_phnum = 0;
}
static void nothing_loadable(struct file *file)
{
    file->phdr.p_type = PT_NOTE;
}
static void offset_far_away(struct file *file)
{
    file->phdr.p_offset = UINT64_MAX;
}
static void more_than_the_file(struct file *file)
{
    file->phdr.p_filesz = file->phdr.p_memsz = 0x10000;
}
static void file_exceeds_memory_size(struct file *file)
{
    file->phdr.p_memsz = CODE_LEN - 1;
}
static void below_64k(struct file *file)
{
    file->phdr.p_paddr = 0xf000;
}
static void beyond_memory(struct file *file)
{
    file->phdr.p_paddr = FAKE_RAM_BYTES - CODE_LEN;
}
static void wraps_around(struct file *file)
{
    file->phdr.p_paddr = UINT64_MAX - 7;
}
static void huge_memory_size(struct file *file)
{
    file->phdr.p_memsz = UINT64_MAX - LOAD_AT + 1;
}

static const struct {
    const char *what;
    size_t len;
    void (*spoil)(struct file *file);
} bad_files[] = {
    {"empty", 0, NULL},
    {"only the magic", 4, NULL},
    {"half a header", 32, NULL},
    {"only a header", sizeof(Elf64_Ehdr), NULL},
    {"half a program header", sizeof(Elf64_Ehdr) + 20, NULL},
    {"without its segment", CODE_AT, NULL},
    {"half its segment", CODE_AT + CODE_LEN / 2, NULL},
    {"32-bit", ALL_BYTES, class_32},
    {"foreign", ALL_BYTES, foreign},
    {"relocatable", ALL_BYTES, relocatable},
    {"position-independent", ALL_BYTES, position_independent},
    {"no magic", ALL_BYTES, no_magic},
    {"program headers far away", ALL_BYTES, headers_far_away},
    {"more program headers than bytes", ALL_BYTES, many_headers},
    {"no program headers", ALL_BYTES, no_headers},
    {"nothing loadable", ALL_BYTES, nothing_loadable},
    {"offset far away", ALL_BYTES, offset_far_away},
    {"segment larger than the file", ALL_BYTES, more_than_the_file},
    {"p_filesz above p_memsz", ALL_BYTES, file_exceeds_memory_size},
    {"below 64 KiB", ALL_BYTES, below_64k},
    {"beyond memory", ALL_BYTES, beyond_memory},
    {"address wraps around", ALL_BYTES, wraps_around},
    {"huge p_memsz", ALL_BYTES, huge_memory_size},
};

static void test_bad(void)
{
    for (size_t i = 0; i < sizeof(bad_files) / sizeof(bad_files[0]); i++) {
        struct fake *fake = fake_new();
        struct file file = good_file();
        const char *why;

        if (bad_files[i].spoil)
            bad_files[i].spoil(&file);
        const int error = load(&file, bad_files[i].len, fake, &why);
        if (error >= 0 || !why[0] || strchr(why, '\n')) {
            CU_FAIL("bad image");
            printf("\n    %s: %d, '%s'", bad_files[i].what, error, why);
        }
        fake_free(fake);
    }
}

/* image_check() of these bytes. 0 or -errno, and a reason if there is one to give. */
static int check(const void *data, size_t len)
{
    char path[64], why[256] = "";
    int fd = memfd_create("image", MFD_CLOEXEC), error;

    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL_FATAL(write(fd, data, len), (ssize_t)len);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    error = image_check(path, why, sizeof(why));
    CU_ASSERT_EQUAL(error < 0, why[0] != 0);
    close(fd);
    return error;
}

static void test_every_length(void)
{
    const struct file file = good_file();

    for (size_t len = 0; len < FILE_LEN; len++)
        CU_ASSERT_TRUE(check(&file, len) < 0);
    for (size_t len = FILE_LEN; len < FILE_LEN + 64; len++)
        CU_ASSERT_EQUAL(check(&file, len), 0);
}

/* Each byte of the headers at its extremes: refused, or loaded into memory and nowhere else. */
static void test_damaged_headers(void)
{
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};

    for (size_t i = 0; i < sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr); i++) {
        for (size_t j = 0; j < sizeof(values); j++) {
            struct fake *fake = fake_new();
            struct file file = good_file();
            const char *why;

            ((uint8_t *)&file)[i] = values[j];
            if (load(&file, ALL_BYTES, fake, &why) < 0)
                CU_ASSERT_TRUE(why[0] != 0);
            fake_free(fake);
        }
    }
}

/* This program as a file: sections, symbols, several segments. Only its type is not an image's. */
static void test_real_program(void)
{
    struct bytes program = {0};
    Elf64_Ehdr ehdr;

    CU_ASSERT_EQUAL_FATAL(read_file("/proc/self/exe", &program), 0);
    CU_ASSERT_FATAL(program.len > sizeof(ehdr));
    memcpy(&ehdr, program.data, sizeof(ehdr));
    ehdr.e_type = ET_DYN;
    memcpy(program.data, &ehdr, sizeof(ehdr));
    CU_ASSERT_TRUE(check(program.data, program.len) < 0);
    ehdr.e_type = ET_EXEC;
    memcpy(program.data, &ehdr, sizeof(ehdr));
    CU_ASSERT_EQUAL(check(program.data, program.len), 0);
    for (size_t len = 0; len < 0x800; len += 7)
        CU_ASSERT_TRUE(check(program.data, len) < 0);
    for (size_t i = 0; i < 64; i++)
        (void)check(program.data, program.len / 64 * i); /* without its sections at the end */
    bytes_free(&program);
}

static void test_missing(void)
{
    char why[256] = "";

    CU_ASSERT_TRUE(image_check("/nonexistent/image.elf", why, sizeof(why)) < 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "/nonexistent/image.elf"));
    CU_ASSERT_TRUE(image_check("/", why, sizeof(why)) < 0);
}

void add_image_suite(void)
{
    CU_pSuite suite = CU_add_suite("images", NULL, NULL);

    CU_add_test(suite, "a good one", test_good);
    CU_add_test(suite, "bad ones", test_bad);
    CU_add_test(suite, "every length", test_every_length);
    CU_add_test(suite, "damaged headers", test_damaged_headers);
    CU_add_test(suite, "a real program", test_real_program);
    CU_add_test(suite, "none", test_missing);
}
