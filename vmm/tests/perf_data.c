/* SPDX-License-Identifier: BSD-3-Clause */
/* The code of a process from the files that a perf.data names: sound, missing, other and hostile.
 */
#include "trace/perf-data.h"
#include "cli/commands.h"
#include "common/say.h"
#include "common/bytes.h"
#include "common/file.h"
#include "common/json.h"

#include "trace/code-files.h"

#include "elf_file.h"
#include "made_jitdump.h"
#include "suites.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
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
    struct reason why;
    struct ptd_perf_fault fault;

    CU_ASSERT_EQUAL_FATAL(ptd_perf_write(&out), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file->data, file->len, &session, &fault), PTD_OK);
    *code = perf_data_load_code(session, map->pid, options, image, CR3, &why);
    ptd_perf_session_free(session);
    bytes_free(file);
    return image;
}

/* The byte at an address of what load() gives, or NOT_FOUND. */
static int byte_at(const struct ptd_perf_map *map, const struct code_options *options,
                   uint64_t address)
{
    struct code_options with_files = *options;
    struct ptd_image *image;
    const uint8_t *bytes;
    size_t len;
    int error, byte = NOT_FOUND;

    with_files.files = code_files_new(CODE_BYTES_MAX);
    CU_ASSERT_PTR_NOT_NULL_FATAL(with_files.files);
    image = load(map, &with_files, &error);
    CU_ASSERT_EQUAL(error, 0);
    if (ptd_image_find(image, CR3, address, &bytes, &len) == PTD_OK)
        byte = bytes[0];
    ptd_image_free(image);
    code_files_free(with_files.files);
    return byte;
}

/* A segment of code of this program: where it is in the file, and linked for. */
static bool own_code(struct code_segment *found, uint8_t *build_id, uint8_t *build_id_bytes)
{
    const struct file_name name = {.path = SELF, .by_user = true};
    struct code_files *const files = code_files_new(CODE_BYTES_MAX);
    const struct code_file *file;
    struct reason why;
    const bool ok =
        files && code_files_look(files, &name, &file, &why) == 0 && file->segment_count > 0;

    if (ok) {
        *found = file->segments[0];
        memcpy(build_id, file->build_id, sizeof(file->build_id));
        *build_id_bytes = file->build_id_bytes;
    }
    code_files_free(files);
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
    uint8_t id[PTD_PERF_BUILD_ID_BYTES], id_bytes = 0;
    struct code_segment header = {0};

    CU_ASSERT_TRUE_FATAL(own_code(&header, id, &id_bytes));
    CU_ASSERT_TRUE_FATAL(readlink(SELF, self, sizeof(self) - 1) > 0);
    map.file = self;
    map.pgoff = header.offset & ~4095ull;
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
    } else {
        puts("\n    SKIPPED: a build id of another file: this program was linked without one");
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
    struct code_segment header = {0};
    int error;

    CU_ASSERT_TRUE_FATAL(own_code(&header, id, &id_bytes));
    CU_ASSERT_EQUAL(byte_at(&map, &options, KERNEL), NOT_FOUND);
    options.vmlinux = SELF; /* any ELF file: its first code is at the map's start */
    CU_ASSERT_EQUAL(byte_at(&map, &options, KERNEL + 0x123), byte_of_self(header.offset + 0x123));
    options.vmlinux = "/nonexistent";
    options.files = code_files_new(CODE_BYTES_MAX);
    image = load(&map, &options, &error);
    CU_ASSERT_EQUAL(error, -ENOENT);
    ptd_image_free(image);
    code_files_free(options.files);
}

/* Nothing but an ELF file that stands beneath the root is code. */
static void other_files(void)
{
    struct code_options options = {.cache = "/nonexistent"};
    struct ptd_perf_map map = {.pid = PID,
                               .start = AT,
                               .len = 3,
                               .pgoff = ELF_FILE_OFFSET,
                               .executable = true,
                               .file = "/jit"};
    char folder[] = "/tmp/vpt-perf-XXXXXX", path[64];

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    options.symfs = folder;
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND); /* it is not there */
    (void)snprintf(path, sizeof(path), "%s/jit", folder);
    CU_ASSERT_EQUAL(mkfifo(path, 0600), 0);
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND); /* and nobody waits for it */
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(write_file(path, "0123456789", 10), 0);
    map.pgoff = 0;
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND); /* no ELF file */
    options.raw = "/ji";                                     /* of another name */
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND);
    options.raw = "/jit";
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT + 2), '2');
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT + 3), NOT_FOUND); /* behind the map */
    options.raw = "/";
    map.pgoff = 9;
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), '9');
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT + 1), NOT_FOUND); /* behind the file */
    map.pgoff = 10;
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND);
    options.raw = NULL;
    map.pgoff = ELF_FILE_OFFSET;
    write_elf_file(path, "f", "0123456789", 10);
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT + 2), '2');
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT + 10), NOT_FOUND);
    map.pgoff = 2 * ELF_FILE_OFFSET; /* behind its code */
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND);
    map.pgoff = ELF_FILE_OFFSET;
    map.file = "//anon";
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND);
    map.file = "/../../../../jit"; /* the root is its own parent */
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT + 2), '2');
    map.file = "/dev/zero";
    options.symfs = NULL;
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND);
    map.file = "/proc/self"; /* a folder */
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND);
    map.file = "/proc/self/exe"; /* of whoever reads the trace */
    map.pgoff = 0;
    map.len = UINT64_C(1) << 30;
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND);
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
}

/* A symlink is followed as if the root were "/", and so leads nowhere else. */
static void links(void)
{
    struct code_options options = {.cache = "/nonexistent"};
    const struct ptd_perf_map map = {.pid = PID,
                                     .start = AT,
                                     .len = 3,
                                     .pgoff = ELF_FILE_OFFSET,
                                     .executable = true,
                                     .file = "/a/link"};
    char folder[] = "/tmp/vpt-perf-XXXXXX", root[64], outside[64], to_outside[80], path[80];

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    (void)snprintf(root, sizeof(root), "%s/root", folder);
    (void)snprintf(outside, sizeof(outside), "%s/outside", folder);
    (void)snprintf(to_outside, sizeof(to_outside), "../../outside");
    options.symfs = root;
    write_elf_file(outside, "f", "outside", 7);
    CU_ASSERT_EQUAL(mkdir(root, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/a", root);
    CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/a/link", root);
    CU_ASSERT_EQUAL(symlink(outside, path), 0);
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND);
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(symlink(to_outside, path), 0);
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), NOT_FOUND);
    (void)snprintf(path, sizeof(path), "%s/outside", root);
    write_elf_file(path, "f", "inside", 6);
    CU_ASSERT_EQUAL(byte_at(&map, &options, AT), 'i');
    CU_ASSERT_EQUAL(unlink(path), 0);
    (void)snprintf(path, sizeof(path), "%s/a/link", root);
    CU_ASSERT_EQUAL(unlink(path), 0);
    (void)snprintf(path, sizeof(path), "%s/a", root);
    CU_ASSERT_EQUAL(rmdir(path), 0);
    CU_ASSERT_EQUAL(rmdir(root), 0);
    CU_ASSERT_EQUAL(unlink(outside), 0);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
}

static unsigned remarks;

static void count_remark(const char *line)
{
    remarks++;
    CU_ASSERT_PTR_NOT_NULL(strstr(line, "--max-code"));
}

/* Whatever the number of maps and names: a file takes memory once, and all together so much. */
static void budget(void)
{
    struct code_options options = {.cache = "/nonexistent", .remark = count_remark};
    struct ptd_perf_map map = {.pid = PID, .len = 3, .pgoff = ELF_FILE_OFFSET, .executable = true};
    char folder[] = "/tmp/vpt-perf-XXXXXX", one[64], two[64], code[4096] = "";
    struct ptd_image *const image = ptd_image_new();
    const uint8_t *bytes;
    struct reason why;
    size_t len;

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    options.symfs = folder;
    options.files = code_files_new(sizeof(code) + 1000);
    (void)snprintf(one, sizeof(one), "%s/one", folder);
    (void)snprintf(two, sizeof(two), "%s/two", folder);
    write_elf_file(one, "one", code, sizeof(code));
    write_elf_file(two, "two", code, sizeof(code));
    for (uint64_t i = 0; i < 2000; i++) {
        map.file = i & 1 ? "/one" : "/../one";
        map.start = i << 16;
        CU_ASSERT_EQUAL(perf_data_load_map(&map, &options, image, CR3, &why), 0);
        CU_ASSERT_EQUAL(ptd_image_find(image, CR3, i << 16, &bytes, &len), PTD_OK);
    }
    CU_ASSERT_EQUAL(remarks, 0);
    for (uint64_t i = 0; i < 10; i++) {
        map.file = "/two";
        map.start = (i << 16) + 0x2000;
        CU_ASSERT_EQUAL(perf_data_load_map(&map, &options, image, CR3, &why), 0);
        CU_ASSERT_EQUAL(ptd_image_find(image, CR3, map.start, &bytes, &len), PTD_E_NOMAP);
    }
    CU_ASSERT_EQUAL(remarks, 1); /* and not one for each map */
    ptd_image_free(image);
    code_files_free(options.files);
    CU_ASSERT_EQUAL(unlink(one), 0);
    CU_ASSERT_EQUAL(unlink(two), 0);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
}

/* ---- Code that changes ---- */

#define USER    0x400000u
#define PSB_LEN 18u

static void packet(struct bytes *trace, uint8_t opcode, uint64_t payload, size_t payload_bytes)
{
    (void)bytes_add(trace, &opcode, 1);
    (void)bytes_add(trace, &payload, payload_bytes);
}

/* From a TSC on, len bytes of code run at an address, until an interrupt ends it. */
static void stretch(struct bytes *trace, uint64_t tsc, uint64_t address, uint8_t len)
{
    packet(trace, 0x19, tsc, 7);
    packet(trace, 0x71, address, 6); /* TIP.PGE */
    packet(trace, 0x19, tsc + 10, 7);
    packet(trace, 0x19, tsc + 90, 7);
    packet(trace, 0x7d, address + len, 6); /* FUP */
    packet(trace, 0x01, 0, 0);             /* TIP.PGD */
}

/* As ptd_flow_next(), with code that changes. */
static int next_item(struct code_timeline *timeline, struct ptd_flow *flow, struct ptd_item *item)
{
    int status;

    while ((status = ptd_flow_next_before(flow, code_timeline_place(timeline), item)) == 1)
        CU_ASSERT_TRUE(code_timeline_change(timeline));
    return status;
}

/* "SYMBOL:INSTRUCTIONS " of each block; "error ". */
static const char *decode(struct ptd_perf_session *session, const struct code_options *options,
                          uint32_t pid)
{
    static char text[256];
    const struct bytes trace = {.data = (uint8_t *)session->traces[0].bytes,
                                .len = session->traces[0].len_bytes};
    struct ptd_image *const base = ptd_image_new();
    struct code_changes *const changes = code_changes_new(session, options);
    struct code_timeline *timeline;
    struct reason why;
    struct ptd_flow *flow;
    struct ptd_item item;
    size_t len = 0;

    text[0] = 0;
    CU_ASSERT_TRUE_FATAL(base && changes);
    CU_ASSERT_EQUAL(perf_data_load_code(session, pid, options, base, PTD_ANY_CR3, &why), 0);
    CU_ASSERT_TRUE(code_changes_add(changes, UINT32_MAX, PTD_ANY_CR3));
    CU_ASSERT_TRUE(code_changes_add(changes, pid, PTD_ANY_CR3));
    CU_ASSERT_EQUAL(code_timeline_new(changes, &trace, base, &timeline, &why), 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(timeline);
    flow = ptd_flow_new(trace.data, trace.len, code_timeline_image(timeline), NULL);
    while (next_item(timeline, flow, &item) == PTD_OK && len < sizeof(text) - 64) {
        const char *const symbol =
            item.type == PTD_ITEM_BLOCK
                ? ptd_image_symbol(code_timeline_image(timeline), item.cr3, item.ip, NULL)
                : NULL;

        if (item.type == PTD_ITEM_BLOCK)
            len += (size_t)snprintf(text + len, 64, "%s:%u ", symbol ? symbol : "?", item.insns);
        else if (item.type == PTD_ITEM_ERROR)
            len += (size_t)snprintf(text + len, 64, "error ");
    }
    CU_ASSERT_EQUAL(code_timeline_result(timeline, &why), 0);
    ptd_flow_free(flow);
    code_timeline_free(timeline);
    code_changes_free(changes);
    ptd_image_free(base);
    return text;
}

static void put_psb(struct bytes *trace)
{
    static const uint8_t psb[PSB_LEN] = {2,    0x82, 2,    0x82, 2,    0x82, 2,    0x82, 2,
                                         0x82, 2,    0x82, 2,    0x82, 2,    0x82, 2,    0x23};

    (void)bytes_add(trace, psb, sizeof(psb));
}

/* Each stretch runs code that only the right version has as whole instructions. */
static void put_trace(struct bytes *trace)
{
    put_psb(trace);
    stretch(trace, 1000, USER, 1);
    stretch(trace, 2000, KERNEL, 2);
    stretch(trace, 3000, USER, 2);
    stretch(trace, 4000, KERNEL, 3);
    stretch(trace, 5000, KERNEL + 0x100, 1);
    stretch(trace, 6000, USER, 1);
    stretch(trace, 7000, KERNEL, 2);
}

/* A process and a kernel whose code changes, twice each. */
static void record_changes(struct bytes *file)
{
    const struct ptd_perf_map maps[] = {
        {.pid = PID,
         .start = USER,
         .len = 5,
         .pgoff = ELF_FILE_OFFSET,
         .executable = true,
         .file = "/one"},
        {.time = 2500,
         .pid = PID,
         .start = USER,
         .len = 5,
         .pgoff = ELF_FILE_OFFSET,
         .executable = true,
         .file = "/two"},
        {.time = 5500,
         .pid = PID,
         .start = USER,
         .len = 5,
         .pgoff = ELF_FILE_OFFSET,
         .executable = true,
         .file = "/one"},
    };
    const struct ptd_perf_poke pokes[] = {
        {.time = 3500,
         .address = KERNEL,
         .old_bytes = 3,
         .new_bytes = 3,
         .before = (const uint8_t *)"\x90\x90\xf4",
         .after = (const uint8_t *)"\x0f\x1f\x00"},
        {.time = 4500,
         .address = KERNEL + 0x100,
         .new_bytes = 2,
         .before = (const uint8_t *)"",
         .after = (const uint8_t *)"\x90\xf4"},
        {.time = 6500,
         .address = KERNEL,
         .old_bytes = 3,
         .new_bytes = 3,
         .before = (const uint8_t *)"\x0f\x1f\x00",
         .after = (const uint8_t *)"\x90\x90\xf4"},
    };
    const struct ptd_perf_symbol symbol = {
        .time = 4400, .start = KERNEL + 0x100, .len = 2, .kind = 2, .name = "trampoline"};
    struct bytes packets = {0};
    struct ptd_perf_trace trace = {.cpu = -1, .tid = PID, .reference = 1000};
    struct ptd_perf_out out = {.pt = {.time_mult = 1, .has_time = true},
                               .config = 0x400,
                               .traces = &trace,
                               .maps = maps,
                               .symbols = &symbol,
                               .pokes = pokes,
                               .trace_count = 1,
                               .map_count = 3,
                               .symbol_count = 1,
                               .poke_count = 3,
                               .write = to_bytes,
                               .owner = file};

    put_trace(&packets);
    trace.bytes = packets.data;
    trace.len_bytes = packets.len;
    CU_ASSERT_EQUAL_FATAL(ptd_perf_write(&out), PTD_OK);
    bytes_free(&packets);
}

static void write_versions(const char *one, const char *two)
{
    write_elf_file(one, "/one", "\x90\x0f\x1f\x00\xf4", 5); /* nop; nop of 3; hlt */
    write_elf_file(two, "/two", "\x66\x90\x90\x90\xf4", 5); /* nop of 2; ... */
}

static void changing(void)
{
    char folder[] = "/tmp/vpt-perf-XXXXXX", one[64], two[64];
    const struct code_options options = {
        .symfs = folder, .cache = "/nonexistent", .files = code_files_new(CODE_BYTES_MAX)};
    struct ptd_perf_session *session;
    struct ptd_perf_fault fault;
    struct bytes file = {0};

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    (void)snprintf(one, sizeof(one), "%s/one", folder);
    (void)snprintf(two, sizeof(two), "%s/two", folder);
    write_versions(one, two);
    record_changes(&file);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.data, file.len, &session, &fault), PTD_OK);
    CU_ASSERT_STRING_EQUAL(decode(session, &options, PID),
                           "/one:1 ?:2 /two:1 ?:1 trampoline:1 /one:1 ?:2 ");
    ptd_perf_session_free(session);
    code_files_free(options.files);
    bytes_free(&file);
    CU_ASSERT_EQUAL(unlink(one), 0);
    CU_ASSERT_EQUAL(unlink(two), 0);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
}

static const char *printed(const struct subcommand *command, int argc, char **argv, int *code);

/* Instructions of the function in a report; -1: the report has none. */
static int64_t insns_in(json_object *report, const char *function)
{
    json_object *const rows = json_object_object_get(report, "rows");

    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *const row = json_object_array_get_idx(rows, i);

        if (strcmp(json_object_get_string(json_object_object_get(row, "function")), function) == 0)
            return json_number(row, "instructions");
    }
    return -1;
}

static void check_report(char **argv, int argc)
{
    int code;
    const char *const text = strchr(printed(&command_report, argc, argv, &code), '{');
    json_object *const report = text ? json_tokener_parse(text) : NULL;

    CU_ASSERT_EQUAL(code, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(report);
    CU_ASSERT_EQUAL(insns_in(report, "/one"), 2);
    CU_ASSERT_EQUAL(insns_in(report, "/two"), 1);
    CU_ASSERT_EQUAL(insns_in(report, "trampoline"), 1);
    CU_ASSERT_EQUAL(insns_in(report, "?"), 5); /* the kernel's */
    json_object_put(report);
}

/* At one address stand functions of two names, with blocks of the same addresses. */
static void reported_changes(void)
{
    char folder[] = "/tmp/vpt-perf-XXXXXX", one[64], two[64], path[64], symfs[64];
    char *in_bulk[] = {"report", "--no-sandbox", "--json", "--by=function", symfs, path, NULL};
    char *by_item[] = {"report", "--no-sandbox", "--json", "--by=function",
                       symfs,    "--from=0",     path,     NULL};
    struct bytes file = {0};

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    (void)snprintf(one, sizeof(one), "%s/one", folder);
    (void)snprintf(two, sizeof(two), "%s/two", folder);
    (void)snprintf(path, sizeof(path), "%s/perf.data", folder);
    (void)snprintf(symfs, sizeof(symfs), "--symfs=%s", folder);
    write_versions(one, two);
    record_changes(&file);
    CU_ASSERT_EQUAL_FATAL(write_file(path, file.data, file.len), 0);
    check_report(in_bulk, 6);
    check_report(by_item, 7);
    bytes_free(&file);
    CU_ASSERT_EQUAL(unlink(one), 0);
    CU_ASSERT_EQUAL(unlink(two), 0);
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
}

/* ---- Code that a program made ---- */

/* A process with a jitdump: what stands at USER is one function, and then another one. */
static void record_jit(struct bytes *file, uint64_t flags, struct bytes *dump)
{
    const struct ptd_perf_map map = {
        .pid = PID, .start = AT, .len = 4096, .executable = true, .file = "/jit-10.dump"}; /* PID */
    struct bytes packets = {0};
    struct ptd_perf_trace trace = {.cpu = -1, .tid = PID, .reference = 1000};
    struct ptd_perf_out out = {.pt = {.time_mult = 1, .has_time = true},
                               .config = 0x400,
                               .traces = &trace,
                               .maps = &map,
                               .trace_count = 1,
                               .map_count = 1,
                               .write = to_bytes,
                               .owner = file};

    put_psb(&packets);
    stretch(&packets, 1000, USER, 1);
    stretch(&packets, 2000, USER + 0x100, 1);
    stretch(&packets, 3000, USER, 2);
    trace.bytes = packets.data;
    trace.len_bytes = packets.len;
    CU_ASSERT_EQUAL_FATAL(ptd_perf_write(&out), PTD_OK);
    bytes_free(&packets);
    made_jitdump_head(dump, PID, flags);
    made_jitdump_load(dump, 900, USER, "first", 1, "\x90\xf4", 2);
    made_jitdump_load(dump, 950, USER + 0x100, "stays", 2, "\x90\xf4", 2);
    made_jitdump_load(dump, 2500, USER, "second", 3, "\x66\x90\xf4", 3);
}

/* Without times of the TSC, code is what it was last. */
static void made_code(void)
{
    static const char *const wanted[] = {"second:2 error ", "first:1 stays:1 second:1 "};
    char folder[] = "/tmp/vpt-perf-XXXXXX", path[64];

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/jit-10.dump", folder);
    for (uint64_t flags = 0; flags < 2; flags++) {
        const struct code_options options = {
            .symfs = folder, .cache = "/nonexistent", .files = code_files_new(CODE_BYTES_MAX)};
        struct ptd_perf_session *session;
        struct ptd_perf_fault fault;
        struct bytes file = {0}, dump = {0};

        record_jit(&file, flags, &dump);
        CU_ASSERT_EQUAL_FATAL(write_file(path, dump.data, dump.len), 0);
        CU_ASSERT_EQUAL_FATAL(ptd_perf_session_new(file.data, file.len, &session, &fault), PTD_OK);
        CU_ASSERT_STRING_EQUAL(decode(session, &options, PID), wanted[flags]);
        ptd_perf_session_free(session);
        code_files_free(options.files);
        bytes_free(&file);
        bytes_free(&dump);
        CU_ASSERT_EQUAL(unlink(path), 0);
    }
    CU_ASSERT_EQUAL(rmdir(folder), 0);
}

/* Names without code say where an error is. */
static void named_code(void)
{
    static const char names[] = "400000 10 int made::up(int)\n";
    char folder[] = "/tmp/vpt-perf-XXXXXX", path[64], map[64], maps[64], symfs[64];
    char *argv[] = {"decode", "--no-sandbox", maps, symfs, path, NULL};
    struct bytes file = {0}, dump = {0};
    const char *text;
    int code;

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/perf.data", folder);
    (void)snprintf(map, sizeof(map), "%s/perf-10.map", folder);
    (void)snprintf(maps, sizeof(maps), "--jit-maps=%s", folder);
    (void)snprintf(symfs, sizeof(symfs), "--symfs=%s", folder);
    record_jit(&file, 1, &dump); /* and no file with the code */
    CU_ASSERT_EQUAL_FATAL(write_file(path, file.data, file.len), 0);
    CU_ASSERT_EQUAL_FATAL(write_file(map, names, strlen(names)), 0);
    text = printed(&command_decode, 5, argv, &code);
    CU_ASSERT_EQUAL(code, 3);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, ": 0x400000, int made::up(int);"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "jit-10.dump: No such file"));
    bytes_free(&file);
    bytes_free(&dump);
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(unlink(map), 0);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
}

/* ---- Names ---- */

/* A thread that runs before and behind a change of its name, in a trace of its own or of a CPU. */
static bool write_names(const char *path, const char *code, int32_t cpu)
{
    const struct ptd_perf_map map = {.pid = PID,
                                     .start = USER,
                                     .len = 5,
                                     .pgoff = ELF_FILE_OFFSET,
                                     .executable = true,
                                     .file = code};
    const struct ptd_perf_comm comms[] = {
        {.pid = PID, .tid = PID, .name = "early"},
        {.time = 2000, .pid = PID, .tid = PID, .exec = true, .name = "late"},
    };
    const struct ptd_perf_switch switches[] = {
        {.time = 900, .cpu = 0, .pid = PID, .tid = PID},
        {.time = 9000, .cpu = 0, .pid = PID, .tid = PID, .out = true},
    };
    struct bytes packets = {0}, file = {0};
    struct ptd_perf_trace trace = {.cpu = cpu, .tid = PID, .reference = 1000};
    struct ptd_perf_out out = {.pt = {.time_mult = 1, .has_time = true},
                               .config = 0x400,
                               .traces = &trace,
                               .maps = &map,
                               .comms = comms,
                               .switches = switches,
                               .trace_count = 1,
                               .map_count = 1,
                               .comm_count = 2,
                               .switch_count = cpu < 0 ? 0 : 2,
                               .write = to_bytes,
                               .owner = &file};
    bool ok;

    put_psb(&packets);
    stretch(&packets, 1000, USER, 1);
    stretch(&packets, 3000, USER, 1);
    trace.bytes = packets.data;
    trace.len_bytes = packets.len;
    ok = ptd_perf_write(&out) == PTD_OK && write_file(path, file.data, file.len) == 0;
    bytes_free(&packets);
    bytes_free(&file);
    return ok;
}

static const char *decoded(int argc, char **argv, int *code);

static void check_names(const char *path, const char *how, const char *early, const char *late)
{
    char *argv[] = {"decode", "--no-sandbox", (char *)(uintptr_t)how, (char *)(uintptr_t)path,
                    NULL};
    int code;
    const char *const text = decoded(4, argv, &code);
    const char *const first = strstr(text, early);

    CU_ASSERT_EQUAL(code, 0);
    CU_ASSERT_TRUE(first && strstr(first, late));
    if (first && strstr(first, late))
        CU_ASSERT_PTR_NULL(strstr(strstr(first, late), early)); /* not again */
}

static void names_of_their_time(void)
{
    char folder[] = "/tmp/vpt-perf-XXXXXX", path[64], code[64];

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/perf.data", folder);
    (void)snprintf(code, sizeof(code), "%s/code", folder);
    write_elf_file(code, "code", "\x90\x90\x90\x90\xf4", 5);
    for (int32_t cpu = -1; cpu <= 0; cpu++) {
        CU_ASSERT_TRUE_FATAL(write_names(path, code, cpu));
        check_names(path, "--format=perf", "early", "late");
    }
    check_names(path, "--blocks", "== early", "== late");
    check_names(path, "--json", "\"early\"", "\"late\"");
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(unlink(code), 0);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
}

/* ---- Host and guest ---- */

#define GUEST      0x9000u
#define GUEST_CR3  0x3000u
#define VMCS       0x7000u
#define TSC_OFFSET 1000000u

/* What a command with these arguments prints, errors too. */
static const char *printed(const struct subcommand *command, int argc, char **argv, int *code)
{
    static char text[4096];
    FILE *const to = tmpfile();
    const int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    size_t len;

    CU_ASSERT_TRUE_FATAL(to && out >= 0 && err >= 0);
    fflush(stdout);
    (void)dup2(fileno(to), STDOUT_FILENO);
    (void)dup2(fileno(to), STDERR_FILENO);
    *code = command->run(argc, argv);
    fflush(stdout);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    rewind(to);
    len = fread(text, 1, sizeof(text) - 1, to);
    text[len] = 0;
    fclose(to);
    return text;
}

static const char *decoded(int argc, char **argv, int *code)
{
    return printed(&command_decode, argc, argv, code);
}

/* CR3[51:5] stands in bits 48:1, NR in bit 0. */
static void pip(struct bytes *trace, uint64_t cr3, bool nr)
{
    (void)bytes_add(trace, "\x02\x43", 2);
    (void)bytes_add(trace, &(uint64_t){cr3 >> 5 << 1 | nr}, 6);
}

/*
 * Thread 10 runs, then a guest for it, whose TSC is ahead; then thread 20, by a context switch at
 * 2000 of the host's time. Of both threads, the code is at one address.
 */
static void put_host_and_guest(struct bytes *trace)
{
    static const uint8_t psb[PSB_LEN] = {2,    0x82, 2,    0x82, 2,    0x82, 2,    0x82, 2,
                                         0x82, 2,    0x82, 2,    0x82, 2,    0x82, 2,    0x23};

    (void)bytes_add(trace, psb, sizeof(psb));
    pip(trace, 0xabc000, false);
    stretch(trace, 1000, USER, 1);
    (void)bytes_add(trace, "\x02\xc8", 2);
    (void)bytes_add(trace, &(uint64_t){VMCS >> 12}, 5);
    pip(trace, GUEST_CR3, true);
    stretch(trace, 1500 + TSC_OFFSET, GUEST, 2);
    pip(trace, 0xdef000, false);
    stretch(trace, 2500, USER, 2);
    pip(trace, 0xabc000, false);
    stretch(trace, 3500, USER, 1);
}

static bool write_host_and_guest(const char *path)
{
    static const struct ptd_perf_map maps[] = {
        {.pid = 10,
         .start = USER,
         .len = 5,
         .pgoff = ELF_FILE_OFFSET,
         .executable = true,
         .file = "/one"},
        {.pid = 20,
         .start = USER,
         .len = 5,
         .pgoff = ELF_FILE_OFFSET,
         .executable = true,
         .file = "/two"},
    };
    static const struct ptd_perf_comm comms[] = {{.pid = 10, .tid = 10, .name = "first"},
                                                 {.pid = 20, .tid = 20, .name = "second"},
                                                 {.pid = 10, .tid = 11, .name = "third"}};
    static const struct ptd_perf_switch switches[] = {
        {.time = 2000,
         .cpu = 1,
         .pid = 10,
         .tid = 10,
         .out = true,
         .has_other = true,
         .other_pid = 20,
         .other_tid = 20},
        {.time = 3000,
         .cpu = 1,
         .pid = 20,
         .tid = 20,
         .out = true,
         .has_other = true,
         .other_pid = 10,
         .other_tid = 11},
    };
    struct bytes packets = {0}, file = {0};
    struct ptd_perf_trace trace = {.cpu = 1, .tid = -1, .reference = 1000};
    const struct ptd_perf_out out = {.pt = {.time_mult = 1, .has_time = true},
                                     .config = 0x400,
                                     .traces = &trace,
                                     .maps = maps,
                                     .comms = comms,
                                     .switches = switches,
                                     .trace_count = 1,
                                     .map_count = 2,
                                     .comm_count = 3,
                                     .switch_count = 2,
                                     .write = to_bytes,
                                     .owner = &file};
    bool ok;

    put_host_and_guest(&packets);
    trace.bytes = packets.data;
    trace.len_bytes = packets.len;
    ok = ptd_perf_write(&out) == PTD_OK && write_file(path, file.data, file.len) == 0;
    bytes_free(&packets);
    bytes_free(&file);
    return ok;
}

/* These lines are there, one behind the other. */
static void check_order(const char *text, const char *const *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *const found = strstr(text, lines[i]);

        CU_ASSERT_PTR_NOT_NULL(found);
        if (!found)
            printf("'%s' is not in, or not behind the others in:\n%s", lines[i], text);
        text = found ? found + 1 : text;
    }
}

static void host_and_guest(void)
{
    static const char map[] =
        "{\"vpt-map\": 1, \"vms\": [{\"name\": \"inside\", \"vmcs\": \"0x7000\","
        " \"tsc_offset\": 1000000, \"processes\": [{\"name\": \"init\", \"cr3\": \"0x3000\","
        " \"images\": [{\"path\": \"raw\", \"address\": \"0x9000\"}]}]}]}";
    static const char *const with_map[] = {
        "== first, pid 10, tid 10",
        "host process, process first",
        "0400000  /one",
        "== init, pid 0, tid 0",
        "guest process, VM inside",
        "0009000",
        "== second, pid 20, tid 20",
        "0400000  /two",
        "== third, pid 10, tid 11",
        "0400000  /one",
    };
    static const char *const without[] = {"guests ran, whose code only --map can tell",
                                          "== first, pid 10", "400000", "no code known"};
    static const char *const lines[] = {"first    10 [001]     0.000001", "init     0 [001]",
                                        "second    20 [001]", "third    11 [001]"};
    char folder[] = "/tmp/vpt-perf-XXXXXX", files[5][64];
    static const char *const names[5] = {"one", "two", "map.json", "perf.data", "raw"};
    char *argv[] = {"decode", "--no-sandbox", "--symfs", folder, files[3], NULL, NULL, NULL, NULL};
    int code;

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    for (size_t i = 0; i < 5; i++)
        (void)snprintf(files[i], sizeof(files[i]), "%s/%s", folder, names[i]);
    write_elf_file(files[0], "/one", "\x90\x0f\x1f\x00\xf4", 5);
    write_elf_file(files[1], "/two", "\x66\x90\x90\x90\xf4", 5);
    CU_ASSERT_EQUAL(write_file(files[4], "\x66\x90\x90\x90\xf4", 5), 0);
    CU_ASSERT_EQUAL(write_file(files[2], map, sizeof(map) - 1), 0);
    CU_ASSERT_TRUE(write_host_and_guest(files[3]));
    check_order(decoded(5, argv, &code), without, sizeof(without) / sizeof(without[0]));
    CU_ASSERT_EQUAL(code, EXIT_CODE_FILE);
    argv[4] = "--map";
    argv[5] = files[2];
    argv[6] = files[3];
    check_order(decoded(7, argv, &code), with_map, sizeof(with_map) / sizeof(with_map[0]));
    CU_ASSERT_EQUAL(code, EXIT_CODE_OK);
    argv[6] = "--format=perf";
    argv[7] = files[3];
    check_order(decoded(8, argv, &code), lines, sizeof(lines) / sizeof(lines[0]));
    CU_ASSERT_EQUAL(code, EXIT_CODE_OK);
    for (size_t i = 0; i < 5; i++)
        CU_ASSERT_EQUAL(unlink(files[i]), 0);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
}

/* The folder that perf record --kcore makes, and that of vpt record around it. */
static void folders(void)
{
    char folder[] = "/tmp/vpt-perf-XXXXXX", outer[64], inner[64], path[128];
    struct perf_data_place place;
    struct reason why;

    CU_ASSERT_EQUAL_FATAL(perf_data_locate("/nonexistent", &place, &why), 0);
    CU_ASSERT_STRING_EQUAL(place.file, "/nonexistent");
    perf_data_place_free(&place);
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    CU_ASSERT_EQUAL(perf_data_locate(folder, &place, &why), -EISDIR); /* nothing in it */
    (void)snprintf(inner, sizeof(inner), "%s/perf.data", folder);
    CU_ASSERT_EQUAL(mkdir(inner, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/data", inner);
    CU_ASSERT_EQUAL(write_file(path, "", 0), 0);
    (void)snprintf(path, sizeof(path), "%s/kcore_dir", inner);
    CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
    (void)snprintf(outer, sizeof(outer), "%s/map", folder);
    CU_ASSERT_EQUAL(write_file(outer, "", 0), 0);
    for (unsigned i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(perf_data_locate(i ? folder : inner, &place, &why), 0);
        CU_ASSERT_EQUAL(strncmp(place.file, inner, strlen(inner)), 0);
        CU_ASSERT_STRING_EQUAL(place.file + strlen(inner), "/data");
        CU_ASSERT_STRING_EQUAL(place.kcore, path);
        CU_ASSERT_PTR_NULL(place.files);
        CU_ASSERT_TRUE(i ? place.map && strcmp(place.map, outer) == 0 : !place.map);
        perf_data_place_free(&place);
    }
    CU_ASSERT_EQUAL(rmdir(path), 0);
    (void)snprintf(path, sizeof(path), "%s/data.0", inner); /* of perf record --threads */
    CU_ASSERT_EQUAL(write_file(path, "", 0), 0);
    CU_ASSERT_EQUAL(perf_data_locate(folder, &place, &why), -EISDIR);
    CU_ASSERT_EQUAL(unlink(path), 0);
    (void)snprintf(path, sizeof(path), "%s/data", inner);
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(rmdir(inner), 0);
    CU_ASSERT_EQUAL(write_file(inner, "", 0), 0); /* without --kcore, a file */
    CU_ASSERT_EQUAL_FATAL(perf_data_locate(folder, &place, &why), 0);
    CU_ASSERT_STRING_EQUAL(place.file, inner);
    perf_data_place_free(&place);
    CU_ASSERT_EQUAL(unlink(inner), 0);
    CU_ASSERT_EQUAL(unlink(outer), 0);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
}

void add_perf_data_suite(void)
{
    const CU_pSuite suite = CU_add_suite("code of perf.data", NULL, NULL);

    CU_add_test(suite, "ELF files", elf_files);
    CU_add_test(suite, "the kernel", kernel);
    CU_add_test(suite, "other files", other_files);
    CU_add_test(suite, "symlinks", links);
    CU_add_test(suite, "a budget of memory", budget);
    CU_add_test(suite, "code that changes", changing);
    CU_add_test(suite, "a report of code that changes", reported_changes);
    CU_add_test(suite, "code that a program made", made_code);
    CU_add_test(suite, "names of such code alone", named_code);
    CU_add_test(suite, "names of their time", names_of_their_time);
    CU_add_test(suite, "host and guest", host_and_guest);
    CU_add_test(suite, "folders", folders);
}
