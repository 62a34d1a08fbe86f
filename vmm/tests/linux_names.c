/* SPDX-License-Identifier: BSD-3-Clause */
/* What is written of a Linux guest: the map file is read back, and names what its memory holds. */
#include "common/file.h"
#include "linux/core.h"
#include "linux/names.h"
#include "made_linux.h"
#include "suites.h"
#include "trace/code-files.h"
#include "trace/mapfile.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/vpt-names-XXXXXX";

enum { MAP, KALLSYMS, VDSO, SYMBOLS, RAM, FILES };

static const char *const names[FILES] = {"map", "kallsyms", "vdso", "symbols", "ram"};

static int make_folder(void)
{
    return mkdtemp(folder) ? 0 : -1;
}

static const char *in_folder(unsigned file)
{
    static char path[64];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, names[file]);
    return path;
}

static int remove_folder(void)
{
    for (unsigned i = 0; i < FILES; i++)
        (void)unlink(in_folder(i));
    return rmdir(folder);
}

static unsigned remarks;

static void count_remark(const char *line)
{
    (void)line;
    remarks++;
}

/* Writes what looks told. core: as in the map; NULL: none. */
static void write_names(struct guest_names *told, const struct linux_guest *guest, const char *core)
{
    const struct names_files files = {core, "kallsyms", "vdso", "symbols"};
    struct output outputs[RAM] = {0};
    const struct names_outputs to = {&outputs[MAP], &outputs[KALLSYMS], &outputs[VDSO],
                                     &outputs[SYMBOLS]};
    struct reason why = {0};

    for (unsigned i = 0; i < RAM; i++)
        CU_ASSERT_EQUAL_FATAL(output_open(&outputs[i], in_folder(i), &why), 0);
    CU_ASSERT_EQUAL(names_write(told, guest, &files, &to, &why), 0);
    for (unsigned i = 0; i < RAM; i++)
        CU_ASSERT_EQUAL(output_close(&outputs[i], &why), 0);
}

/* Looks at a guest as it is now. */
static void look(struct guest_names *told, const struct made_linux *made, const char *core_name)
{
    struct guest_source source;
    struct linux_guest guest = {0};
    struct reason why = {0};
    struct core core;

    remarks = 0;
    made_core(made, &core);
    source = core_source(&core);
    CU_ASSERT_EQUAL_FATAL(guest_open(&guest, &source, &why), 0);
    names_remark_lacks(&guest, count_remark);
    CU_ASSERT_EQUAL(names_look(told, &guest, count_remark, &why), 0);
    write_names(told, &guest, core_name);
    guest_close(&guest);
    core_close(&core);
}

/* Writes all that a guest tells. */
static struct names_sum write_all(const struct made_linux *made)
{
    struct guest_names told = {0};
    struct names_sum sum;

    look(&told, made, "core");
    sum = told.sum;
    guest_names_free(&told);
    return sum;
}

/* A file as a text, to be freed. */
static char *text_of(unsigned file)
{
    struct bytes bytes = {0};

    CU_ASSERT_EQUAL_FATAL(read_file(in_folder(file), &bytes), 0);
    CU_ASSERT_TRUE_FATAL(bytes_add(&bytes, "", 1));
    return (char *)bytes.data;
}

static void kallsyms_file(void)
{
    struct made_linux made;
    struct names_sum sum;
    char *text;

    made_linux(&made, (struct made_kind){0});
    sum = write_all(&made);
    text = text_of(KALLSYMS);
    CU_ASSERT_TRUE(sum.symbols == 13 && sum.modules == 1 && sum.module_symbols == 2);
    CU_ASSERT_TRUE(sum.bpf == 1 && sum.ftrace == 1);
    CU_ASSERT_EQUAL(remarks, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "0000000000001000 A of_each_cpu\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "ffffffff80100000 T _stext\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "ffffffffc0000000 t add_disk\t[virtio]\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "ffffffffc0000100 T bad_name\t[virtio]\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "ffffffffd0000000 t bpf_prog_1_x\t[bpf]\n"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text, "ffffffffe0000000 t ftrace_trampoline\t[__builtin__ftrace]\n"));
    free(text);
    made_linux_free(&made);
}

static const char *name_at(const struct ptd_image *image, uint64_t cr3, uint64_t vaddr)
{
    static char text[64];
    uint64_t offset = 0;
    const char *const name = ptd_image_symbol(image, cr3, vaddr, &offset);

    (void)snprintf(text, sizeof(text), "%s+%x", name ? name : "-", (unsigned)offset);
    return text;
}

static void check_process(const struct map *map, uint64_t cr3, const char *name, int64_t pid)
{
    struct ptd_context context;

    ptd_contexts_find(map->contexts, cr3, 0x400000, &context);
    CU_ASSERT_EQUAL(context.pid, pid);
    CU_ASSERT_TRUE(context.process && strcmp(context.process, name) == 0);
}

/* The map that was written, over the guest's memory as a file. */
static void map_file(void)
{
    struct made_linux made;
    struct code_files *const files = code_files_new(CODE_BYTES_MAX);
    struct ptd_image *const image = ptd_image_new();
    struct map map = {0};
    struct names_sum sum;
    const uint8_t *bytes;
    size_t len_bytes;
    char *text, *at;

    made_linux(&made, (struct made_kind){0});
    sum = write_all(&made);
    CU_ASSERT_TRUE(sum.processes == 2 && sum.threads == 3);
    CU_ASSERT_TRUE(sum.files == 2 && sum.build_ids == 1);
    CU_ASSERT_TRUE(sum.vdso_bytes == 4096 && sum.file_symbols == 1);
    text = text_of(MAP);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "0102030405060708090a0b0c0d0e0f1011121314"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "cc\\\\x1b[2J")); /* in JSON, and shown as it may be */
    free(text);
    /* The dump is a file of another kind here. */
    CU_ASSERT_EQUAL(write_file(in_folder(RAM), made.ram, MADE_BYTES), 0);
    text = text_of(MAP);
    at = strstr(text, "\"core\":\"core\"");
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    for (const char *raw = "\"raw\":\"ram\"  "; at && *raw; raw++)
        *at++ = *raw;
    CU_ASSERT_EQUAL_FATAL(map_parse(in_folder(MAP), text, strlen(text), files, image, &map), 0);
    free(text);
    check_process(&map, made.root, "cc", 41);
    check_process(&map, made.user_root, "cc", 41);
    CU_ASSERT_STRING_EQUAL(name_at(image, made.root, MADE_TEXT + 2), "_stext+2");
    CU_ASSERT_STRING_EQUAL(name_at(image, made.user_root, 0x7f0000000010), "malloc+0");
    CU_ASSERT_STRING_EQUAL(name_at(image, made.root, 0x7f000000002f), "malloc+1f");
    CU_ASSERT_STRING_EQUAL(name_at(image, made.root, 0x7f0000000030), "[libc.so]+30");
    CU_ASSERT_STRING_EQUAL(name_at(image, made.root, 0x401000), "[cc]+1000");
    CU_ASSERT_STRING_EQUAL(name_at(image, made.root, 0x7f0000010000), "-+0");
    CU_ASSERT_EQUAL(ptd_image_find(image, made.root, 0x7ffd00000000, &bytes, &len_bytes), PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_find(image, made.root, MADE_TEXT, &bytes, &len_bytes), PTD_OK);
    ptd_image_free(image);
    code_files_free(files);
    map_free(&map);
    made_linux_free(&made);
}

/* What is broken is told of, and all else is written. */
static void broken(void)
{
    struct made_linux made;
    struct names_sum sum;

    made_linux(&made, (struct made_kind){0});
    made_put(&made, made.tasks[1] + 0x10, 0); /* the way on from the first process */
    sum = write_all(&made);
    CU_ASSERT_TRUE(sum.processes == 1 && sum.symbols == 13);
    CU_ASSERT_EQUAL(remarks, 1);
    made.ram[made.btf] = 0;
    sum = write_all(&made);
    CU_ASSERT_TRUE(sum.processes == 0 && sum.symbols == 13 && sum.modules == 0);
    CU_ASSERT_EQUAL(remarks, 1);
    made_linux_free(&made);
}

void add_linux_names_suite(void)
{
    CU_pSuite const suite = CU_add_suite("names of Linux guests", make_folder, remove_folder);

    CU_add_test(suite, "kallsyms", kallsyms_file);
    CU_add_test(suite, "map", map_file);
    CU_add_test(suite, "broken", broken);
}
