/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the sandbox takes away, and what it leaves, each in a process of its own; and files that are
 * opened without openat2().
 */
#include "common/sandbox.h"
#include "cli/commands.h"
#include "common/file.h"
#include "common/open.h"
#include "trace/code-files.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elf_file.h"
#include "ptdec_perf.h"
#include "suites.h"

static char folder[] = "/tmp/vpt-sandbox-XXXXXX";

static const char *in_folder(const char *name)
{
    static char paths[4][80];
    static unsigned next;
    char *const path = paths[next++ % 4];

    (void)snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static int make_folder(void)
{
    return !mkdtemp(folder) || mkdir(in_folder("root"), 0700) != 0 ||
                   mkdir(in_folder("out"), 0700) != 0 ||
                   write_file(in_folder("root/in"), "inside", 6) != 0 ||
                   write_file(in_folder("outside"), "outside", 7) != 0 ||
                   write_file(in_folder("out/part"), "part", 4) != 0
               ? -1
               : 0;
}

static int remove_folder(void)
{
    static const char *const files[] = {"root/in",  "root/link", "root/up", "outside",
                                        "out/part", "out/done",  "big",     "perf.data"};

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        (void)unlink(in_folder(files[i]));
    (void)rmdir(in_folder("root"));
    (void)rmdir(in_folder("out"));
    return rmdir(folder);
}

/* ---- The sandbox ---- */

/* 0 if it was done, else the errno. */
static int try_open(const char *name, int flags)
{
    const int fd = open(in_folder(name), flags, 0600);
    const int error = fd < 0 ? errno : 0;

    if (fd >= 0)
        (void)close(fd);
    return error;
}

static int read_inside(void)
{
    return try_open("root/in", O_RDONLY);
}

static int read_outside(void)
{
    return try_open("outside", O_RDONLY);
}

static int write_inside(void)
{
    return try_open("root/in", O_WRONLY);
}

static int make_inside(void)
{
    return try_open("root/new", O_WRONLY | O_CREAT);
}

static int remove_inside(void)
{
    return unlink(in_folder("root/in")) == 0 ? 0 : errno;
}

static int replace_output(void)
{
    return rename(in_folder("out/part"), in_folder("out/done")) == 0 ? 0 : errno;
}

static int take_socket(void)
{
    return socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0 ? 0 : errno;
}

static int start_process(void)
{
    const pid_t child = fork();

    if (child == 0)
        _exit(0);
    return child > 0 ? 0 : errno;
}

static int start_program(void)
{
    (void)execl("/bin/true", "true", (char *)NULL);
    return errno;
}

static int make_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED
               ? 0
               : errno;
}

static void *allocate(void *nothing)
{
    (void)nothing;
    return malloc(1 << 20);
}

static int start_threads(void)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++) {
        void *result = NULL;
        const int error = pthread_create(&threads[i], NULL, allocate, NULL);

        if (error)
            return error;
        (void)pthread_join(threads[i], &result);
        free(result);
    }
    return 0;
}

static int print(void)
{
    FILE *const file = tmpfile(); /* cannot be made, but standard error can be written */

    if (file)
        return fclose(file) == 0 ? EEXIST : EIO;
    return fflush(stderr) == 0 ? 0 : errno;
}

/* What a process in the sandbox answers. */
static int in_sandbox(int (*attempt)(void))
{
    const pid_t child = fork();
    int status;

    if (child == 0) {
        struct sandbox sandbox = {0};
        struct reason why;

        sandbox_allow(&sandbox, in_folder("root"));
        sandbox_allow(&sandbox, in_folder("nothing"));
        sandbox_allow_output(&sandbox, in_folder("out/done"));
        if (sandbox_enter(&sandbox, &why) != 0)
            _exit(255);
        sandbox_free(&sandbox);
        _exit(attempt());
    }
    CU_ASSERT_EQUAL_FATAL(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256;
}

static bool has(const char *what)
{
    char text[64];

    return strstr(sandbox_about(text, sizeof(text)), what) != NULL;
}

static void files_of_sandbox(void)
{
    if (!has("Landlock")) {
        puts("\n    SKIPPED: files of the sandbox: the kernel has no Landlock");
        return;
    }
    CU_ASSERT_EQUAL(in_sandbox(read_inside), 0);
    CU_ASSERT_EQUAL(in_sandbox(read_outside), EACCES);
    CU_ASSERT_EQUAL(in_sandbox(write_inside), EACCES);
    CU_ASSERT_EQUAL(in_sandbox(make_inside), EACCES);
    CU_ASSERT_EQUAL(in_sandbox(remove_inside), EACCES);
    CU_ASSERT_EQUAL(in_sandbox(replace_output), 0);
    CU_ASSERT_EQUAL(in_sandbox(print), 0);
    CU_ASSERT_EQUAL(read_outside(), 0); /* of the child alone */
}

static void calls_of_sandbox(void)
{
    CU_ASSERT_EQUAL(in_sandbox(start_threads), 0);
    if (!has("seccomp")) {
        puts("\n    SKIPPED: system calls of the sandbox: this build has no libseccomp");
        return;
    }
    CU_ASSERT_EQUAL(in_sandbox(take_socket), ENOSYS);
    CU_ASSERT_EQUAL(in_sandbox(start_process), ENOSYS);
    CU_ASSERT_EQUAL(in_sandbox(start_program), ENOSYS);
    CU_ASSERT_EQUAL(in_sandbox(make_code), ENOSYS);
    CU_ASSERT_NOT_EQUAL(take_socket(), ENOSYS);
}

/* More places than there is room for: all may be read, rather than too little. */
static void full_sandbox(void)
{
    struct sandbox sandbox = {0};

    sandbox_allow(&sandbox, NULL);
    CU_ASSERT_EQUAL(sandbox.count, 0);
    for (unsigned i = 0; i < SANDBOX_PLACES_MAX; i++)
        sandbox_allow_beside(&sandbox, "/etc/passwd");
    CU_ASSERT_STRING_EQUAL(sandbox.places[0].path, "/etc");
    CU_ASSERT_FALSE(sandbox.is_all);
    sandbox_allow(&sandbox, "/tmp");
    CU_ASSERT_TRUE(sandbox.is_all);
    sandbox_free(&sandbox);
}

/* ---- Opening ---- */

static int opened(bool strictly, const char *root, const char *path)
{
    const struct file_name name = {.root = root, .path = path};
    struct reason why;
    const int fd = strictly ? open_named_strictly(&name) : open_named(&name, &why);

    if (fd < 0)
        return fd;
    CU_ASSERT_EQUAL(fcntl(fd, F_GETFD), FD_CLOEXEC);
    (void)close(fd);
    return 0;
}

static void opening(void)
{
    static const struct {
        const char *path;
        int error, strict_error;
    } cases[] = {
        {"/in", 0, 0},
        {"//./in", 0, 0},
        {"in", 0, 0},
        {"/link", 0, -ELOOP},
        {"/../in", 0, -ELOOP},
        {"/../outside", -ENOENT, -ELOOP},
        {"/up", -ENOENT, -ELOOP},
        {"/nothing", -ENOENT, -ENOENT},
        {"/in/x", -ENOTDIR, -ENOTDIR},
        {"/", -EINVAL, -ENOENT},
        {"", -ENOENT, -ENOENT},
    };
    char root[80], full[80];

    (void)snprintf(root, sizeof(root), "%s", in_folder("root"));
    CU_ASSERT_EQUAL(symlink("/in", in_folder("root/link")), 0);
    CU_ASSERT_EQUAL(symlink("../outside", in_folder("root/up")), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CU_ASSERT_EQUAL(opened(false, root, cases[i].path), cases[i].error);
        CU_ASSERT_EQUAL(opened(true, root, cases[i].path), cases[i].strict_error);
    }
    (void)snprintf(full, sizeof(full), "%s", in_folder("root/up"));
    CU_ASSERT_EQUAL(opened(false, NULL, full), 0);
    CU_ASSERT_EQUAL(opened(true, NULL, full), -ELOOP);
    CU_ASSERT_EQUAL(opened(true, NULL, in_folder("outside")), 0);
    CU_ASSERT_EQUAL(opened(false, NULL, "/proc/self/exe"), -ELOOP);
    CU_ASSERT_EQUAL(opened(true, NULL, "/proc/self/exe"), -ENOTDIR); /* a link as a folder */
    CU_ASSERT_EQUAL(opened(false, NULL, "/dev/null"), -EINVAL);
    CU_ASSERT_EQUAL(opened(true, NULL, "/dev/null"), -EINVAL);
    CU_ASSERT_EQUAL(opened(false, "/nonexistent", "/in"), -ENOENT);
}

static void reading(void)
{
    const struct file_name name = {.root = in_folder("root"), .path = "in"};
    struct reason why = {0};
    struct bytes bytes;

    CU_ASSERT_EQUAL(read_named(&name, 6, &bytes, &why), 0);
    CU_ASSERT_EQUAL(bytes.len, 6);
    bytes_free(&bytes);
    CU_ASSERT_EQUAL(read_named(&name, 5, &bytes, &why), -EFBIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(why.text, "in: "));
    CU_ASSERT_PTR_NULL(bytes.data);
}

/* ---- Memory ---- */

#define MAPS      2000u
#define BIG_BYTES (64u << 20)

static int to_bytes(void *owner, const void *bytes, size_t len)
{
    return bytes_add(owner, bytes, len) ? 0 : -1;
}

/* 2,000 maps of one file of 64 MiB, each somewhere else. */
static void write_maps(void)
{
    static struct ptd_perf_map maps[MAPS];
    static const uint8_t psb[] = {2,    0x82, 2,    0x82, 2,    0x82, 2,    0x82, 2,
                                  0x82, 2,    0x82, 2,    0x82, 2,    0x82, 2,    0x23};
    const struct ptd_perf_trace trace = {
        .cpu = -1, .tid = 1, .bytes = psb, .len_bytes = sizeof(psb)};
    uint8_t *const code = calloc(1, BIG_BYTES);
    struct bytes file = {0};
    const struct ptd_perf_out out = {.traces = &trace,
                                     .trace_count = 1,
                                     .maps = maps,
                                     .map_count = MAPS,
                                     .write = to_bytes,
                                     .owner = &file};

    for (uint64_t i = 0; i < MAPS; i++)
        maps[i] = (struct ptd_perf_map){.start = i << 32,
                                        .len = 4096,
                                        .pgoff = ELF_FILE_OFFSET,
                                        .pid = 1,
                                        .executable = true,
                                        .file = i & 1 ? "/big" : "/root/../big"};
    CU_ASSERT_PTR_NOT_NULL_FATAL(code);
    write_elf_file(in_folder("big"), "f", code, BIG_BYTES);
    CU_ASSERT_EQUAL_FATAL(ptd_perf_write(&out), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(write_file(in_folder("perf.data"), file.data, file.len), 0);
    bytes_free(&file);
    free(code);
}

/* Decodes it in a process of its own: the most memory that it had, in bytes. */
static uint64_t peak_of_decode(void)
{
    char *argv[] = {"decode", "--no-sandbox", "--symfs", folder, (char *)in_folder("perf.data"),
                    NULL};
    const pid_t child = fork();
    struct rusage usage;
    int status;

    if (child == 0) {
        _exit(freopen("/dev/null", "w", stdout) ? command_decode.run(5, argv) : 255);
    }
    CU_ASSERT_EQUAL_FATAL(wait4(child, &status, 0, &usage), child);
    CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return (uint64_t)usage.ru_maxrss << 10;
}

static void memory_of_maps(void)
{
    uint64_t before;

    write_maps();
    before = peak_of_decode();
    CU_ASSERT_TRUE(before >= BIG_BYTES); /* it was loaded */
    CU_ASSERT_TRUE(before < CODE_BYTES_MAX / 2);
}

void add_sandbox_suite(void)
{
    CU_pSuite suite = CU_add_suite("foreign files", make_folder, remove_folder);

    CU_add_test(suite, "opening", opening);
    CU_add_test(suite, "reading", reading);
    CU_add_test(suite, "files of the sandbox", files_of_sandbox);
    CU_add_test(suite, "system calls of the sandbox", calls_of_sandbox);
    CU_add_test(suite, "a full sandbox", full_sandbox);
    CU_add_test(suite, "memory of 2,000 maps", memory_of_maps);
}
