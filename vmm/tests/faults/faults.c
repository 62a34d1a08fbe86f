/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes each call that allocates, opens, reads or writes fail once, one at a time.
 *
 * The linker's --wrap leads our own calls here, those of our libraries included, and no others. A
 * call site is known by its return address. The program runs in children of this process: first
 * once to list its call sites, then once for each site with its first hit failing, and once with a
 * later hit, drawn by chance. A child has to end by itself: with the same output as the first one,
 * or with an exit code and a line that says why. Sanitizers say whether it leaked.
 *
 * Without VPT_FAULTS in the environment the program runs as ever. Its value is a folder for what
 * the children write. VPT_FAULTS_FILES names the files that the program makes, VPT_FAULTS_INPUT its
 * standard input. Of VPT_FAULTS_EVERY sites one is tried, and only its first hit, if that is not 1.
 * The last line is 'N passed, N failed'.
 */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_SITES     4096u
#define MAX_FILES     16u
#define LIMIT_S       30u /* of a child */
#define ASAN_EXIT     99
#define FAILED_TO_RUN 98

extern int __real_main(int argc, char **argv);
int __wrap_main(int argc, char **argv);
const char *__asan_default_options(void);
extern const char __executable_start;

struct site {
    uintptr_t at; /* return address, from the start of the program */
    const char *what;
    unsigned hits;
};

/* What the listing child leaves to this process. */
struct listing {
    bool lock;
    unsigned count;
    struct site sites[MAX_SITES];
};
static struct listing *listing;

/* In a child that is to fail: where, and at which hit. */
static struct site victim;
static unsigned victim_hits;
static enum { OFF, LISTING, FAILING } mode;

struct contents {
    char *data;
    size_t len;
};

static struct {
    const char *folder;
    char out[4096], err[4096];
    char *names, *files[MAX_FILES];
    unsigned file_count;
    struct contents want[MAX_FILES + 1]; /* the last is standard output */
    unsigned passed, failed;
} run;

const char *__asan_default_options(void)
{
    return "exitcode=99:detect_leaks=1:allocator_may_return_null=1:print_legend=0";
}

/* ---- In a child ---- */

static void list(uintptr_t at, const char *what)
{
    unsigned i = 0;

    while (__atomic_test_and_set(&listing->lock, __ATOMIC_ACQUIRE))
        ;
    while (i < listing->count && listing->sites[i].at != at)
        i++;
    if (i == listing->count && i < MAX_SITES)
        listing->sites[listing->count++] = (struct site){.at = at, .what = what};
    if (i < MAX_SITES)
        listing->sites[i].hits++;
    __atomic_clear(&listing->lock, __ATOMIC_RELEASE);
}

bool fault_is_due(const void *from, const char *what)
{
    const uintptr_t at = (uintptr_t)from - (uintptr_t)&__executable_start;

    if (mode == LISTING)
        list(at, what);
    return mode == FAILING && at == victim.at &&
           __atomic_add_fetch(&victim_hits, 1, __ATOMIC_RELAXED) == victim.hits;
}

static void redirect(const char *path, int flags, int fd)
{
    const int opened = __real_open(path, flags, 0600);

    if (opened < 0 || dup2(opened, fd) < 0)
        _exit(FAILED_TO_RUN);
    (void)close(opened);
}

static void run_child(int argc, char **argv)
{
    const char *const input = getenv("VPT_FAULTS_INPUT");

    redirect(input ? input : "/dev/null", O_RDONLY, STDIN_FILENO);
    redirect(run.out, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    redirect(run.err, O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    (void)alarm(LIMIT_S);
    exit(__real_main(argc, argv));
}

/* The status of wait(). */
static int run_once(int argc, char **argv)
{
    int status = 0;
    pid_t child;

    for (unsigned i = 0; i < run.file_count; i++)
        (void)unlink(run.files[i]);
    (void)fflush(NULL);
    child = fork();
    if (child == 0)
        run_child(argc, argv);
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("faults: cannot run a child");
        exit(FAILED_TO_RUN);
    }
    return status;
}

/* ---- What a child left ---- */

/* No data, if there is no such file. */
static struct contents slurp(const char *path)
{
    struct contents contents = {0};
    const int fd = __real_open(path, O_RDONLY, 0);
    ssize_t len = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);

    if (fd < 0)
        return contents;
    contents.data = __real_malloc((size_t)len + 1);
    if (!contents.data || __real_pread(fd, contents.data, (size_t)len, 0) != len)
        len = 0;
    if (contents.data)
        contents.data[len] = 0;
    contents.len = (size_t)len;
    (void)close(fd);
    return contents;
}

static bool is_same(const char *path, const struct contents *want)
{
    struct contents got = slurp(path);
    const bool same = !got.data == !want->data && got.len == want->len &&
                      (!got.data || memcmp(got.data, want->data, got.len) == 0);

    free(got.data);
    return same;
}

static const char *wrong_output(void)
{
    for (unsigned i = 0; i < run.file_count; i++) {
        if (!is_same(run.files[i], &run.want[i]))
            return "success, with another file";
    }
    return is_same(run.out, &run.want[MAX_FILES]) ? NULL : "success, with another output";
}

/* NULL: as it should be. */
static const char *verdict(int status)
{
    struct contents err;
    bool speaks;

    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status));
    switch (WEXITSTATUS(status)) {
    case 0:
        return wrong_output();
    case ASAN_EXIT:
        return "a sanitizer's report";
    case FAILED_TO_RUN:
        return "it could not be run";
    default:
        err = slurp(run.err);
        speaks = err.data && (strncmp(err.data, "vpt: ", 5) == 0 || strstr(err.data, "\nvpt: "));
        free(err.data);
        return speaks ? NULL : "an exit code without a word";
    }
}

/* The first lines that tell where, of a sanitizer's report. */
static void print_report(void)
{
    struct contents err = slurp(run.err);
    unsigned lines = 0;

    for (char *line = err.data ? strtok(err.data, "\n") : NULL; line && lines < 12;
         line = strtok(NULL, "\n")) {
        printf("    %s\n", line);
        lines++;
    }
    free(err.data);
}

/* ---- All ---- */

static unsigned env_number(const char *name, unsigned otherwise)
{
    const char *const text = getenv(name);

    return text ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

static void try_hit(int argc, char **argv, const struct site *site, unsigned hit)
{
    const char *wrong;

    mode = FAILING;
    victim = (struct site){.at = site->at, .what = site->what, .hits = hit};
    wrong = verdict(run_once(argc, argv));
    if (!wrong) {
        run.passed++;
        return;
    }
    run.failed++;
    printf("FAIL: %s at +%#llx, hit %u of %u: %s\n", site->what, (unsigned long long)site->at - 1,
           hit, site->hits, wrong);
    print_report();
}

static void find_files(void)
{
    const char *const names = getenv("VPT_FAULTS_FILES");

    run.names = names ? __real_strdup(names) : NULL;
    for (char *name = run.names ? strtok(run.names, " ") : NULL; name && run.file_count < MAX_FILES;
         name = strtok(NULL, " "))
        run.files[run.file_count++] = name;
    (void)snprintf(run.out, sizeof(run.out), "%s/out", run.folder);
    (void)snprintf(run.err, sizeof(run.err), "%s/err", run.folder);
}

static bool list_sites(int argc, char **argv)
{
    int status;

    listing = __real_mmap(NULL, sizeof(*listing), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (listing == MAP_FAILED)
        return false;
    mode = LISTING;
    status = run_once(argc, argv);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != (int)env_number("VPT_FAULTS_EXIT", 0)) {
        printf("FAIL: without a fault: status %#x\n", (unsigned)status);
        print_report();
        return false;
    }
    for (unsigned i = 0; i < run.file_count; i++)
        run.want[i] = slurp(run.files[i]);
    run.want[MAX_FILES] = slurp(run.out);
    return true;
}

int __wrap_main(int argc, char **argv)
{
    unsigned every;

    run.folder = getenv("VPT_FAULTS");
    if (!run.folder)
        return __real_main(argc, argv);
    every = env_number("VPT_FAULTS_EVERY", 1);
    srandom(env_number("VPT_FAULTS_SEED", 1));
    find_files();
    if (!list_sites(argc, argv))
        run.failed++;
    for (unsigned i = 0; i < listing->count; i++) {
        const struct site *const site = &listing->sites[i];

        if (every > 1 && (unsigned)random() % every != 0)
            continue;
        try_hit(argc, argv, site, 1);
        if (every == 1 && site->hits > 1)
            try_hit(argc, argv, site, 2 + (unsigned)random() % (site->hits - 1));
    }
    printf("%u passed, %u failed\n", run.passed, run.failed);
    (void)fflush(stdout);
    _exit(run.failed != 0);
}
