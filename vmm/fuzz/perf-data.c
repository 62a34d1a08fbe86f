/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes vpt decode of a perf.data together with the files that it names. The input describes files
 * with code or other bytes, maps of them, changes of code, and a trace; what it describes is laid
 * out in a folder in memory, and decoded as the program does it.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sanitizer/common_interface_defs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "common/bytes.h"
#include "ptdec_perf.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

#define FILES_MAX      4u
#define FILE_BYTES_MAX 4096u
#define MAPS_MAX       16u
#define POKES_MAX      8u
#define POKE_BYTES     8u
#define KERNEL         0xffffffff81000000u
#define USER           0x400000u

/* What the first byte says. */
enum { OF_FOLDER = 1, WITH_VMLINUX = 2, SMALL_BUDGET = 4, OF_CPU = 8, TIMED = 16, MERGED = 32 };

struct rest {
    const uint8_t *bytes;
    size_t len;
};

struct layout {
    struct ptd_perf_map maps[MAPS_MAX];
    struct ptd_perf_poke pokes[POKES_MAX];
    struct ptd_perf_out out;
    struct ptd_perf_trace trace;
};

static char folder[64];
static int quiet, loud;

static const uint8_t *take(struct rest *rest, size_t len)
{
    static const uint8_t nothing[FILE_BYTES_MAX];
    const uint8_t *const bytes = rest->bytes;

    if (len > rest->len) {
        rest->len = 0;
        return nothing;
    }
    rest->bytes += len;
    rest->len -= len;
    return bytes;
}

static uint64_t number(struct rest *rest, unsigned len)
{
    const uint8_t *const bytes = take(rest, len);
    uint64_t value = 0;

    for (unsigned i = 0; i < len; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

/* ---- Files ---- */

static void put(const char *name, const void *bytes, size_t len)
{
    char path[128];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, len) != (ssize_t)len)
        abort();
    (void)close(fd);
}

/* Code of one segment, without names. */
static void put_elf(const char *name, const uint8_t *code, size_t len)
{
    struct {
        Elf64_Ehdr header;
        Elf64_Phdr segment;
        uint8_t code[FILE_BYTES_MAX];
    } file = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                   .e_type = ET_DYN,
                   .e_machine = EM_X86_64,
                   .e_version = EV_CURRENT,
                   .e_phoff = sizeof(Elf64_Ehdr),
                   .e_ehsize = sizeof(Elf64_Ehdr),
                   .e_phentsize = sizeof(Elf64_Phdr),
                   .e_phnum = 1},
        .segment = {.p_type = PT_LOAD,
                    .p_flags = PF_R | PF_X,
                    .p_offset = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr),
                    .p_filesz = len,
                    .p_memsz = len},
    };

    memcpy(file.code, code, len);
    put(name, &file, sizeof(file) - sizeof(file.code) + len);
}

static void put_files(struct rest *rest)
{
    static const char *const names[FILES_MAX] = {"f0", "f1", "kcore_dir/kcore",
                                                 "kcore_dir/kallsyms"};

    for (size_t i = 0; i < FILES_MAX; i++) {
        const bool is_elf = number(rest, 1) & 1;
        const size_t len = number(rest, 2) % (FILE_BYTES_MAX + 1);
        const uint8_t *const bytes = take(rest, len);

        if (is_elf)
            put_elf(names[i], bytes, len);
        else
            put(names[i], bytes, len);
    }
}

static void make_folder(void)
{
    char path[128];

    (void)snprintf(folder, sizeof(folder), "/dev/shm/vpt-perf-data-%d", (int)getpid());
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        abort();
    (void)snprintf(path, sizeof(path), "%s/kcore_dir", folder);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/fifo", folder);
    (void)mkfifo(path, 0600);
    (void)snprintf(path, sizeof(path), "%s/link", folder);
    (void)symlink("../../f1", path);
    quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    loud = dup(STDERR_FILENO);
    if (quiet < 0 || loud < 0)
        abort();
    __sanitizer_set_report_fd((void *)(intptr_t)loud);
    (void)dup2(quiet, STDOUT_FILENO);
}

static void remove_folder(void)
{
    static const char *const names[] = {
        "f0", "f1", "kcore_dir/kcore", "kcore_dir/kallsyms", "data", "fifo", "link", "kcore_dir"};
    char path[128];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        (void)remove(path);
    }
    (void)rmdir(folder);
}

/* ---- Records ---- */

static void take_map(struct rest *rest, struct ptd_perf_map *map)
{
    static const char *const names[] = {
        "/f0",      "/f1",    "/../f0", "/link",     "/fifo",      "/kcore_dir",
        "/nothing", "//anon", "[vdso]", "/dev/zero", "/f0/../f1/", "[kernel.kallsyms]_text"};
    const uint64_t what = number(rest, 1);
    const uint8_t id = (uint8_t)number(rest, 1);

    *map = (struct ptd_perf_map){
        .file = names[what % (sizeof(names) / sizeof(names[0]))],
        .pid = what & 0x80 ? UINT32_MAX : (uint32_t)(what >> 5 & 3),
        .start = (what & 0x80 ? KERNEL : USER) + (number(rest, 2) << 4),
        .len = number(rest, 2),
        .pgoff = number(rest, 1) << 6,
        .time = number(rest, 2),
        .executable = true,
        .build_id_bytes = id > 0xf0 ? id & 15u : 0,
    };
}

static void take_poke(struct rest *rest, struct ptd_perf_poke *poke)
{
    const uint64_t lengths = number(rest, 1);

    *poke = (struct ptd_perf_poke){.time = number(rest, 2),
                                   .address = KERNEL + (number(rest, 2) << 2),
                                   .old_bytes = lengths & 7,
                                   .new_bytes = lengths >> 4 & 7,
                                   .before = take(rest, POKE_BYTES),
                                   .after = take(rest, POKE_BYTES)};
}

static int to_bytes(void *owner, const void *bytes, size_t len)
{
    return bytes_add(owner, bytes, len) ? 0 : -1;
}

static void take_records(struct rest *rest, uint64_t flags, struct layout *layout)
{
    static const struct ptd_perf_comm comms[] = {{.pid = 1, .tid = 1, .name = "one"},
                                                 {.pid = 2, .tid = 2, .name = "two", .time = 500}};
    struct ptd_perf_out *const out = &layout->out;

    out->maps = layout->maps;
    out->map_count = number(rest, 1) % (MAPS_MAX + 1);
    for (size_t i = 0; i < out->map_count; i++)
        take_map(rest, &layout->maps[i]);
    out->pokes = layout->pokes;
    out->poke_count = number(rest, 1) % (POKES_MAX + 1);
    for (size_t i = 0; i < out->poke_count; i++)
        take_poke(rest, &layout->pokes[i]);
    out->comms = comms;
    out->comm_count = 2;
    out->pt = (struct ptd_perf_pt){.time_mult = 1, .has_time = flags & TIMED};
    out->config = flags & TIMED ? 0x400 : 0;
    layout->trace = (struct ptd_perf_trace){.cpu = flags & OF_CPU ? 0 : -1,
                                            .tid = flags & OF_CPU ? -1 : 1,
                                            .reference = 1,
                                            .bytes = rest->bytes,
                                            .len_bytes = rest->len};
    out->traces = &layout->trace;
    out->trace_count = 1;
}

/* ---- The program ---- */

static void decode(uint64_t flags)
{
    char data[80], vmlinux[80];
    char *argv[12] = {"decode", "--no-sandbox", "--symfs", folder};
    int argc = 4;

    (void)snprintf(data, sizeof(data), flags & OF_FOLDER ? "%s" : "%s/data", folder);
    (void)snprintf(vmlinux, sizeof(vmlinux), "%s/f1", folder);
    if (flags & WITH_VMLINUX) {
        argv[argc++] = "--vmlinux";
        argv[argc++] = vmlinux;
    }
    if (flags & SMALL_BUDGET) {
        argv[argc++] = "--max-code";
        argv[argc++] = "1K";
    }
    argv[argc++] = flags & MERGED ? "--format=perf" : "--blocks";
    argv[argc++] = data;
    (void)dup2(quiet, STDERR_FILENO);
    (void)command_decode.run(argc, argv);
    (void)fflush(stdout);
    (void)dup2(loud, STDERR_FILENO);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    static struct layout layout;
    struct rest rest = {bytes, len_bytes};
    const uint64_t flags = number(&rest, 1);
    struct bytes file = {0};

    if (!folder[0]) {
        make_folder();
        (void)atexit(remove_folder);
    }
    layout = (struct layout){.out = {.write = to_bytes, .owner = &file}};
    put_files(&rest);
    take_records(&rest, flags, &layout);
    if (ptd_perf_write(&layout.out) == PTD_OK) {
        put("data", file.data, file.len);
        decode(flags);
    }
    bytes_free(&file);
    return 0;
}
