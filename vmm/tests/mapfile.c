/* SPDX-License-Identifier: BSD-3-Clause */
/* Map files (docs/decoder.md): what one binds, and what is said of one that is wrong. */
#include "common/file.h"
#include "trace/code-files.h"
#include "trace/mapfile.h"
#include "ptdec.h"
#include "suites.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char folder[] = "/tmp/vpt-map-XXXXXX";

static int make_folder(void)
{
    return mkdtemp(folder) ? 0 : -1;
}

static const char *in_folder(const char *name)
{
    static char path[64];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void check_code(const struct ptd_image *image, uint64_t space, uint64_t vaddr,
                       const char *want)
{
    const uint8_t *bytes = NULL;
    size_t len_bytes = 0;
    const int status = ptd_image_find(image, space, vaddr, &bytes, &len_bytes);

    CU_ASSERT_EQUAL(status, want ? PTD_OK : PTD_E_NOMAP);
    if (want && status == PTD_OK)
        CU_ASSERT_TRUE(len_bytes >= strlen(want) && memcmp(bytes, want, strlen(want)) == 0);
}

static void check_who(const struct map *map, uint64_t space, uint64_t ip, enum ptd_who who,
                      const char *vm, const char *process, int64_t pid)
{
    struct ptd_context context;

    ptd_contexts_find(map->contexts, space, ip, &context);
    CU_ASSERT_EQUAL(context.who, who);
    CU_ASSERT_EQUAL(context.pid, pid);
    CU_ASSERT_TRUE(vm ? context.vm_name && strcmp(context.vm_name, vm) == 0 : !context.vm_name);
    CU_ASSERT_TRUE(process ? context.process && strcmp(context.process, process) == 0
                           : !context.process);
}

/* A page table at 0 of the file (at physical 1000H) maps 0 to the page behind it. */
static void write_ram(void)
{
    static uint8_t ram[5 * 4096];

    for (uint64_t level = 0; level < 4; level++) {
        const uint64_t entry = (0x1000 * (level + 2)) | 1;

        memcpy(ram + 4096 * level, &entry, sizeof(entry));
    }
    memcpy(ram + 4 * 4096, "memory", sizeof("memory"));
    CU_ASSERT_EQUAL(write_file(in_folder("ram"), ram, sizeof(ram)), 0);
}

static const char good[] =
    "{ \"vpt-map\": 1,\n"
    "  \"host\": {\n"
    "    \"images\": [ { \"path\": \"a\", \"address\": \"0xffffffff81000000\" } ],\n"
    "    \"processes\": [ { \"name\": \"qemu\", \"pid\": 7, \"cr3\": [4096, \"0x2000\"],\n"
    "                     \"images\": [ { \"path\": \"b\", \"address\": 0 } ] } ] },\n"
    "  \"vms\": [\n"
    "    { \"name\": \"one\", \"vmcs\": [\"0x7000\", \"0x8000\"], \"tsc_offset\": \"-5\",\n"
    "      \"tsc_multiplier\": \"0x1800000000000\", \"kernel_from\": \"0xc0000000\",\n"
    "      \"images\": [ { \"path\": \"c\", \"address\": \"0xc0000000\" } ],\n"
    "      \"processes\": [ { \"name\": \"cc\", \"cr3\": 4096,\n"
    "                       \"images\": [ { \"path\": \"d\", \"address\": 0 } ] } ] },\n"
    "    { \"vmcs\": 36864, \"memory\": { \"raw\": \"ram\", \"address\": 4096,\n"
    "                                \"paging\": \"4-level\" } } ] }";

static void everything(void)
{
    struct code_files *const files = code_files_new(CODE_BYTES_MAX);
    struct ptd_image *const image = ptd_image_new();
    const struct ptd_time_vm *times;
    struct map map = {0};
    size_t count;

    for (const char *name = "abcd"; *name; name++) {
        const char file[2] = {*name, 0};

        CU_ASSERT_EQUAL(write_file(in_folder(file), file, 1), 0);
    }
    write_ram();
    CU_ASSERT_EQUAL(write_file(in_folder("map"), good, sizeof(good) - 1), 0);
    CU_ASSERT_EQUAL_FATAL(map_load(in_folder("map"), files, image, &map), 0);

    check_code(image, 0x3000, 0xffffffff81000000, "a");
    check_code(image, 0x1000, 0, "b");
    check_code(image, 0x2000, 0, "b");
    check_code(image, 0x3000, 0, NULL);
    check_code(image, ptd_space(1, 0x1000), 0, "d");
    check_code(image, ptd_space(1, 0x5000), 0xc0000000, "c");
    check_code(image, ptd_space(1, 0x1000), 0xffffffff81000000, NULL);
    check_code(image, ptd_space(2, 0x1000), 0, "memory");
    CU_ASSERT_EQUAL(ptd_image_space(image, true, 0x8000, 0x1000), ptd_space(1, 0x1000));
    CU_ASSERT_EQUAL(ptd_image_space(image, true, 0x9000, 0x1000), ptd_space(2, 0x1000));

    check_who(&map, 0x2000, 5, PTD_HOST_PROCESS, NULL, "qemu", 7);
    check_who(&map, ptd_space(1, 0x1000), 5, PTD_GUEST_PROCESS, "one", "cc", -1);
    check_who(&map, ptd_space(1, 0x1000), 0xc0000000, PTD_GUEST_KERNEL, "one", "cc", -1);
    check_who(&map, ptd_space(2, 0x1000), 0xc0000000, PTD_GUEST_PROCESS, NULL, NULL, -1);
    times = ptd_contexts_time_vms(map.contexts, &count);
    CU_ASSERT_EQUAL(count, 3);
    CU_ASSERT_EQUAL(times[1].vmcs, 0x8000);
    CU_ASSERT_EQUAL(times[1].offset, UINT64_MAX - 4);
    CU_ASSERT_EQUAL(times[1].multiplier, UINT64_C(3) << 47);
    CU_ASSERT_EQUAL(times[2].multiplier, 0);
    ptd_image_free(image);
    code_files_free(files);
    map_free(&map);
}

#define VM(members) "{\"vpt-map\":1,\"vms\":[{\"vmcs\":4096," members "}]}"

static void mistakes(void)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "not JSON"},
        {"{\"vpt-map\":1", "not JSON"},
        {"{\"vpt-map\":1} x", "not JSON"},
        {"[]", "not an object"},
        {"{}", "\"vpt-map\" is missing"},
        {"{\"vpt-map\":2}", "version 2 is not known"},
        {"{\"vpt-map\":\"one\"}", "vpt-map: not a number"},
        {"{\"vpt-map\":1,\"guests\":[]}", "no such member: \"guests\""},
        {"{\"vpt-map\":1,\"host\":{\"vmcs\":1}}", "host: no such member: \"vmcs\""},
        {"{\"vpt-map\":1,\"vms\":{}}", "vms: not a list"},
        {"{\"vpt-map\":1,\"vms\":[{}]}", "vms[0]: neither \"vmcs\" nor \"vcpus\""},
        {"{\"vpt-map\":1,\"vms\":[{\"vmcs\":[1]}]}", "vms[0].vmcs[0]: not a VMCS pointer"},
        {"{\"vpt-map\":1,\"vms\":[{\"vmcs\":4096},{\"vmcs\":4096}]}",
         "vms[1].vmcs: this VMCS pointer was told before"},
        {VM("\"tsc_multiplier\":1"), "vms[0]: too many VMs, or"},
        {VM("\"name\":7"), "vms[0].name: not a text"},
        {VM("\"tsc_offset\":\"5x\""), "vms[0].tsc_offset: not a number"},
        {VM("\"tsc_offset\":\"0x10000000000000000\""), "vms[0].tsc_offset: not a number"},
        {VM("\"tsc_offset\":1.5"), "vms[0].tsc_offset: not a number"},
        {VM("\"processes\":[{\"name\":\"x\"}]"), "vms[0].processes[0]: \"cr3\" is missing"},
        {VM("\"processes\":[{\"cr3\":\"-1\"}]"), "vms[0].processes[0].cr3: not a value of CR3"},
        {VM("\"processes\":[{\"cr3\":0,\"pid\":4294967296}]"), "\"pid\" is out of range"},
        {VM("\"images\":[{\"path\":\"none\"}]"), "vms[0].images[0]: "},
        {VM("\"images\":[{\"path\":\"a\"}]"), "vms[0].images[0]: "},
        {VM("\"images\":[{\"path\":\"a\",\"bias\":0,\"address\":0}]"), "\"bias\" is for ELF"},
        {VM("\"images\":[{\"path\":\"none\",\"address\":0}]"), "No such file"},
        {VM("\"kallsyms\":7"), "vms[0].kallsyms: not a text"},
        {VM("\"kallsyms\":\"none\""), "vms[0].kallsyms: "},
        {VM("\"symbols\":[]"), "vms[0].symbols: not a text"},
        {VM("\"symbols\":\"a\""), "vms[0].symbols: "},
        {VM("\"processes\":[{\"cr3\":0,\"threads\":[{}]}]"), "threads[0]: \"tid\" is missing"},
        {VM("\"processes\":[{\"cr3\":0,\"files\":[{\"path\":\"x\",\"start\":0}]}]"),
         "files[0]: \"end\" is missing"},
        {VM("\"processes\":[{\"cr3\":0,\"files\":[{\"path\":\"x\",\"start\":1,\"end\":1}]}]"),
         "files[0]: \"end\" is not behind"},
        {VM("\"memory\":{\"raw\":\"ram\"}"), "\"paging\" is missing"},
        {VM("\"memory\":{\"raw\":\"ram\",\"paging\":\"6-level\"}"), "\"paging\" is 32-bit"},
        {VM("\"memory\":{\"paging\":\"pae\"}"), "either \"core\" or \"raw\""},
        {VM("\"memory\":{\"raw\":\"ram\",\"core\":\"ram\"}"), "either \"core\" or \"raw\""},
        {VM("\"memory\":{\"core\":\"ram\"}"), "vms[0].memory: "},
        {VM("\"memory\":{\"raw\":\"none\",\"paging\":\"pae\"}"), "vms[0].memory: "},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct code_files *const files = code_files_new(CODE_BYTES_MAX);
        struct ptd_image *const image = ptd_image_new();
        struct map map = {0};

        CU_ASSERT_EQUAL(
            map_parse(in_folder("map"), cases[i].text, strlen(cases[i].text), files, image, &map),
            -EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(map.why.text, cases[i].why));
        if (!strstr(map.why.text, cases[i].why))
            printf("\n    %s: '%s', not '%s'", cases[i].text, map.why.text, cases[i].why);
        ptd_image_free(image);
        code_files_free(files);
        map_free(&map);
    }
}

/* What a map may not name that somebody else's trace has brought. */
static void of_a_trace(void)
{
    static const struct {
        const char *text, *why; /* NULL: it may */
    } cases[] = {
        {VM("\"processes\":[{\"cr3\":0,\"files\":[{\"path\":\"/x\",\"start\":1,\"end\":2}]}]"),
         NULL},
        {VM("\"images\":[{\"path\":\"a\",\"address\":0}]"), "only --map may name bare code"},
        {VM("\"memory\":{\"raw\":\"ram\",\"paging\":\"pae\"}"), "or bare memory"},
        {VM("\"memory\":{\"core\":\"/ram\"}"), "only --map may name memory elsewhere"},
        {VM("\"memory\":{\"core\":\"a\"}"), "the wrong format"}, /* beside it, it may */
        {VM("\"kallsyms\":\"/proc/kallsyms\""), "only --map may name files elsewhere"},
        {VM("\"symbols\":\"../a\""), "only --map may name files elsewhere"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct code_files *const files = code_files_new(CODE_BYTES_MAX);
        struct ptd_image *const image = ptd_image_new();
        struct map map = {.is_of_trace = true};

        CU_ASSERT_EQUAL(write_file(in_folder("a"), "a", 1), 0);
        CU_ASSERT_EQUAL(write_file(in_folder("map"), cases[i].text, strlen(cases[i].text)), 0);
        CU_ASSERT_EQUAL(map_load(in_folder("map"), files, image, &map), cases[i].why ? -EINVAL : 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(map.why.text, cases[i].why ? cases[i].why : ""));
        ptd_image_free(image);
        code_files_free(files);
        map_free(&map);
    }
}

static void no_file(void)
{
    struct code_files *const files = code_files_new(CODE_BYTES_MAX);
    struct ptd_image *const image = ptd_image_new();
    struct map map = {0};

    CU_ASSERT_EQUAL(map_load(in_folder("no-map"), files, image, &map), -ENOENT);
    CU_ASSERT_PTR_NOT_NULL(strstr(map.why.text, "No such file"));
    ptd_image_free(image);
    code_files_free(files);
    map_free(&map);
}

static int remove_folder(void)
{
    static const char *const names[] = {"a", "b", "c", "d", "ram", "map"};

    for (size_t i = 0; i < COUNT(names); i++)
        (void)unlink(in_folder(names[i]));
    return rmdir(folder);
}

void add_map_suite(void)
{
    CU_pSuite const suite = CU_add_suite("map files", make_folder, remove_folder);

    CU_add_test(suite, "everything", everything);
    CU_add_test(suite, "mistakes", mistakes);
    CU_add_test(suite, "of a trace", of_a_trace);
    CU_add_test(suite, "no file", no_file);
}
