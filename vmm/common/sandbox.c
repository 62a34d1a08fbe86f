/* SPDX-License-Identifier: BSD-3-Clause */
/* Landlock by its system calls, seccomp by libseccomp where the build had it. */
#include "common/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sanitizers look into their own process at its end, by what is denied here. */
#if defined(VPT_SECCOMP) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HAS_SECCOMP
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#endif

/* ---- What is allowed ---- */

/* Where there is no more room, all may be read: rather that than a file which is not found. */
static void allow(struct sandbox *sandbox, char *path, bool may_replace)
{
    if (path && sandbox->count == SANDBOX_PLACES_MAX) {
        free(path);
        sandbox->is_all = true;
    } else if (path) {
        sandbox->places[sandbox->count++] =
            (struct sandbox_place){.path = path, .may_replace = may_replace};
    }
}

void sandbox_allow(struct sandbox *sandbox, const char *path)
{
    if (path)
        allow(sandbox, strdup(path), false);
}

/* dirname() may write into its argument, and return a constant. */
static char *folder_of(const char *file)
{
    char *const copy = strdup(file), *folder = copy ? strdup(dirname(copy)) : NULL;

    free(copy);
    return folder;
}

void sandbox_allow_beside(struct sandbox *sandbox, const char *file)
{
    allow(sandbox, folder_of(file), false);
}

void sandbox_allow_output(struct sandbox *sandbox, const char *file)
{
    allow(sandbox, folder_of(file), true);
}

void sandbox_allow_folder(struct sandbox *sandbox, const char *folder)
{
    const size_t before = sandbox->count;

    allow(sandbox, strdup(folder), true);
    if (sandbox->count > before)
        sandbox->places[before].may_write = true;
}

void sandbox_free(struct sandbox *sandbox)
{
    for (size_t i = 0; i < sandbox->count; i++)
        free(sandbox->places[i].path);
    *sandbox = (struct sandbox){0};
}

/* ---- Landlock ---- */

/* Rights that came after the first version, and what a set of rules is made from. */
#define FS_FIRST        ((UINT64_C(1) << 13) - 1)
#define FS_REFER        (UINT64_C(1) << 13)
#define FS_TRUNCATE     (UINT64_C(1) << 14)
#define FS_IOCTL_DEVICE (UINT64_C(1) << 15)
#define NET_TCP         UINT64_C(3)
#define SCOPE_ALL       UINT64_C(3) /* abstract sockets and signals of others */

struct ruleset {
    uint64_t fs, net, scope;
};

/* The version that the kernel has; 0: none. */
static int landlock_version(void)
{
    const long version =
        syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

    return version < 0 ? 0 : (int)version;
}

static struct ruleset rights_of(int version, size_t *size)
{
    struct ruleset rights = {.fs = FS_FIRST | (version >= 2 ? FS_REFER : 0) |
                                   (version >= 3 ? FS_TRUNCATE : 0) |
                                   (version >= 5 ? FS_IOCTL_DEVICE : 0),
                             .net = version >= 4 ? NET_TCP : 0,
                             .scope = version >= 6 ? SCOPE_ALL : 0};

    *size = version >= 6   ? sizeof(rights)
            : version >= 4 ? offsetof(struct ruleset, scope)
                           : offsetof(struct ruleset, net);
    return rights;
}

static int add_open(int rules, int fd, uint64_t rights)
{
    const struct landlock_path_beneath_attr beneath = {.allowed_access = rights, .parent_fd = fd};
    int error = 0;

    if (fd < 0)
        return 0; /* nothing is there that could be read */
    if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) != 0)
        error = -errno;
    (void)close(fd);
    return error;
}

static int add_place(int rules, const char *path, uint64_t rights)
{
    return add_open(rules, open(path, O_PATH | O_CLOEXEC), rights);
}

/* By the kernel's own call: what makes ours fail leaves the sanitizer's alone. */
static int add_sanitizer(int rules)
{
#ifdef __SANITIZE_ADDRESS__
    return add_open(rules, (int)syscall(SYS_openat, AT_FDCWD, "/proc", O_PATH | O_CLOEXEC),
                    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR);
#else
    (void)rules;
    return 0;
#endif
}

static uint64_t rights_at(const struct sandbox_place *place, int version)
{
    uint64_t rights = LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE;

    if (!place->may_replace)
        return LANDLOCK_ACCESS_FS_READ_FILE;
    if (place->may_write)
        rights |= LANDLOCK_ACCESS_FS_WRITE_FILE | (version >= 3 ? FS_TRUNCATE : 0);
    return rights;
}

static int restrict_files(const struct sandbox *sandbox)
{
    const int version = landlock_version();
    size_t size;
    const struct ruleset rights = rights_of(version, &size);
    int rules, error = 0;

    if (version == 0)
        return 0;
    rules = (int)syscall(SYS_landlock_create_ruleset, &rights, size, 0);
    if (rules < 0)
        return -errno;
    if (sandbox->is_all)
        error = add_place(rules, "/", LANDLOCK_ACCESS_FS_READ_FILE);
    if (!error)
        error = add_sanitizer(rules);
    for (size_t i = 0; !error && i < sandbox->count; i++)
        error = add_place(rules, sandbox->places[i].path, rights_at(&sandbox->places[i], version));
    if (!error && syscall(SYS_landlock_restrict_self, rules, 0) != 0)
        error = -errno;
    (void)close(rules);
    return error;
}

/* ---- seccomp ---- */

#ifdef HAS_SECCOMP

static const char *const calls[] = {
    "access",
    "arch_prctl",
    "brk",
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "dup",
    "exit",
    "exit_group",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fallocate",
    "fcntl",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "futex",
    "getcwd",
    "getegid",
    "geteuid",
    "getgid",
    "getpid",
    "getrandom",
    "gettid",
    "gettimeofday",
    "getuid",
    "lseek",
    "lstat",
    "madvise",
    "membarrier",
    "memfd_create",
    "mremap",
    "munmap",
    "nanosleep",
    "newfstatat",
    "open",
    "openat",
    "openat2",
    "poll",
    "ppoll",
    "pread64",
    "prlimit64",
    "pwrite64",
    "read",
    "readlink",
    "readlinkat",
    "readv",
    "recvmsg",
    "rename",
    "renameat",
    "renameat2",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "sched_yield",
    "set_robust_list",
    "sigaltstack",
    "stat",
    "statfs",
    "statx",
    "sysinfo",
    "tgkill",
    "uname",
    "unlink",
    "unlinkat",
    "write",
    "writev",
};

/* One system call of which only some uses are allowed: those whose argument, masked, has a value.
 */
static const struct {
    const char *name;
    unsigned argument;
    uint64_t mask, value;
} narrow[] = {
    {"clone", 0, CLONE_THREAD, CLONE_THREAD}, /* clone3() is answered as by older kernels */
    {"mmap", 2, PROT_EXEC, 0},
    {"mprotect", 2, PROT_EXEC, 0},
    {"ioctl", 1, UINT32_MAX, TCGETS},
    {"ioctl", 1, UINT32_MAX, TIOCGWINSZ},
};

static int add_calls(scmp_filter_ctx filter)
{
    int error = 0;

    for (size_t i = 0; !error && i < sizeof(calls) / sizeof(calls[0]); i++) {
        const int number = seccomp_syscall_resolve_name(calls[i]);

        if (number != __NR_SCMP_ERROR)
            error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
    }
    for (size_t i = 0; !error && i < sizeof(narrow) / sizeof(narrow[0]); i++)
        error = seccomp_rule_add(
            filter, SCMP_ACT_ALLOW, seccomp_syscall_resolve_name(narrow[i].name), 1,
            SCMP_CMP64(narrow[i].argument, SCMP_CMP_MASKED_EQ, narrow[i].mask, narrow[i].value));
    return error;
}

/* What is not allowed fails as if the kernel did not have it, for which the C library is made. */
static int restrict_calls(void)
{
    const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int error;

    if (!filter)
        return -ENOMEM;
    error = add_calls(filter);
    if (!error)
        error = seccomp_load(filter);
    seccomp_release(filter);
    return error;
}

static bool has_seccomp(void)
{
    return prctl(PR_GET_SECCOMP) >= 0;
}

#else

static int restrict_calls(void)
{
    return 0;
}

static bool has_seccomp(void)
{
    return false;
}

#endif

/* ---- Both ---- */

int sandbox_enter(struct sandbox *sandbox, struct reason *why)
{
    int error = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : -errno;

    if (!error)
        error = restrict_files(sandbox);
    if (!error && has_seccomp())
        error = restrict_calls();
    if (error)
        return reason_set(why, error, "rights cannot be given up: %s; --no-sandbox keeps them",
                          strerror(-error));
    return 0;
}

const char *sandbox_about(char *text, size_t text_bytes)
{
    const int version = landlock_version();
    const bool seccomp = has_seccomp();

    if (version)
        (void)snprintf(text, text_bytes, "Landlock %d%s", version, seccomp ? ", seccomp" : "");
    else
        (void)snprintf(text, text_bytes, "%s", seccomp ? "seccomp" : "none");
    return text;
}
