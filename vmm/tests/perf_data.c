/* SPDX-License-Identifier: BSD-3-Clause */
/* The code of a process from the files that a perf.data names: sound, missing, other and hostile.
 */
#include "../perf-data.h"

#include "suites.h"

#include <CUnit/CUnit.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SELF      "/proc/self/exe"
#define PID       10u
#define AT        0x7f0000001000u
#define CR3       0x5000u
#define KERNEL    0xffffffff81000000u
#define NOT_FOUND (-1)

static int to_bytes(void *owner, const void *bytes, size_t len)
{
    return bytes_add(owner, bytes, len) ? 0 : -1;
}

/* Loads the code of PID or the kernel, from a perf.data with one map, into an image. */
static struct ptd_image *load(const struct ptd_perf_map *map, const struct code_options *options,
                              int *code)
{
    struct ptd_image *const image = ptd_image_new();
    const struct ptd_perf_out out = {
        .maps = map, .map_count = 1, .write = to_bytes, .owner = &(struct bytes){0}};
    struct bytes *const file = out.owner;
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;

    CU_ASSERT_EQUAL_FATAL(ptd_perf_write(&out), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file->data, file->len, &session, &fault), PTD_OK);
    *code = perf_data_load_code(session, map->pid, options, image, CR3);
    ptd_perf_session_free(session);
    bytes_free(file);
    return image;
}

/* The byte at an address of what load() gives, or NOT_FOUND. */
static int byte_at(const struct ptd_perf_map *map, const struct code_options *options,
                   uint64_t address)
{
    struct ptd_image *image;
    const uint8_t *bytes;
    size_t len;
    int code, byte = NOT_FOUND;

    image = load(map, options, &code);
    CU_ASSERT_EQUAL(code, 0);
    if (ptd_image_find(image, CR3, address, &bytes, &len) == PTD_OK)
        byte = bytes[0];
    ptd_image_free(image);
    return byte;
}

/* A segment of code of this program: where it is in the file, and linked for. */
static bool own_code(GElf_Phdr *found, uint8_t *build_id, uint8_t *build_id_bytes)
{
    const int file = open(SELF, O_RDONLY | O_CLOEXEC);
    Elf *elf;
    size_t count = 0;
    bool ok = false;

    (void)elf_version(EV_CURRENT);
    elf = elf_begin(file, ELF_C_READ, NULL);
    (void)elf_getphdrnum(elf, &count);
    for (size_t i = 0; !ok && i < count; i++)
        ok = gelf_getphdr(elf, (int)i, found) && found->p_type == PT_LOAD && found->p_flags & PF_X;
    *build_id_bytes = perf_data_build_id(elf, build_id);
    elf_end(elf);
    close(file);
    return ok;
}

static int byte_of_self(uint64_t offset)
{
    const int file = open(SELF, O_RDONLY | O_CLOEXEC);
    uint8_t byte = 0;

    CU_ASSERT_EQUAL(pread(file, &byte, 1, (off_t)offset), 1);
    close(file);
    return byte;
}

static void elf_files(void)
{
    const struct code_options options = {.cache = "/nonexistent"};
    struct ptd_perf_map map = {.pid = PID, .start = AT, .len = 0x1000, .executable = true};
    char self[PATH_MAX] = "";
    uint8_t id[PTD_PERF_BUILD_ID_BYTES], id_bytes;
    GElf_Phdr header;

    CU_ASSERT_TRUE_FATAL(own_code(&header, id, &id_bytes));
    CU_ASSERT_TRUE_FATAL(readlink(SELF, self, sizeof(self) - 1) > 0);
    map.file = self;
    map.pgoff = header.p_offset & ~4095ull;
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT + 0x123), byte_of_self(map.pgoff + 0x123));
    /* Only a part of the segment was mapped. */
    map.pgoff += 0x1000;
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT + 0x123), byte_of_self(map.pgoff + 0x123));
    /* The build id of another file. */
    memcpy(map.build_id, id, sizeof(id));
    map.build_id_bytes = id_bytes;
    CU_ASSERT_NOT_EQUAL(byte_at(&map, &options, AT + 0x123), NOT_FOUND);
    if (id_bytes) {
        map.build_id[3] ^= 1;
        CU_ASSERT_EQUAL(byte_at(&map, &options, AT + 0x123), NOT_FOUND);
    }
}

static void kernel(void)
{
    struct code_options options = {0};
    const struct ptd_perf_map map = {.pid = UINT32_MAX,
                                     .start = KERNEL,
                                     .len = 0x1000,
                                     .pgoff = KERNEL,
                                     .executable = true,
                                     .file = "[kernel.kallsyms]_text"};
    struct ptd_image *image;
    uint8_t id[PTD_PERF_BUILD_ID_BYTES], id_bytes;
    GElf_Phdr header = {0};
    int code;

    CU_ASSERT_TRUE_FATAL(own_code(&header, id, &id_bytes));
    CU_ASSERT_EQUAL(byte_at(&map, &options, KERNEL), NOT_FOUND);
    options.vmlinux = SELF; /* any ELF file: its first code is at the map's start */
    CU_ASSERT_EQUAL(byte_at(&map, &options, KERNEL + 0x123), byte_of_self(header.p_offset + 0x123));
    options.vmlinux = "/nonexistent";
    image = load(&map, &options, &code);
    CU_ASSERT_EQUAL(code, EXIT_CODE_FILE);
    ptd_image_free(image);
}

static void other_files(void)
{
    struct code_options options = {.cache = "/nonexistent"};
    struct ptd_perf_map map = {
        .pid = PID, .start = AT, .len = 3, .pgoff = 2, .executable = true, .file = "/jit"};
    char folder[] = "/tmp/vpt-perf-XXXXXX", path[64];

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    options.symfs = folder;
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND); /* it is not there */
    (void)snprintf(path, sizeof(path), "%s/jit", folder);
    CU_ASSERT_EQUAL(mkfifo(path, 0600), 0);
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND); /* and nobody waits for it */
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(write_file(path, "0123456789", 10), 0);
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), '2');
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT + 2), '4');
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT + 3), NOT_FOUND); /* behind the map */
    map.len = 100;
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT + 7), '9');
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT + 8), NOT_FOUND); /* behind the file */
    map.pgoff = 10;
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND);
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
    map.file = "//anon";
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND);
    map.file = "/proc/self"; /* a folder */
    options.symfs = NULL;
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND);
}

void add_perf_data_suite(void)
{
    const CU_pSuite suite = CU_add_suite("code of perf.data", NULL, NULL);

    CU_add_test(suite, "ELF files", elf_files);
    CU_add_test(suite, "the kernel", kernel);
    CU_add_test(suite, "other files", other_files);
}
