/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt trace: a program of this machine runs in a guest with this machine's files, and is traced
 * there.
 */
#include "cli/commands.h"
#include "cli/own-qemu.h"
#include "cli/subprocess.h"
#include "common/data.h"
#include "common/output.h"
#include "common/progress.h"
#include "common/say.h"
#include "program/features.h"
#include "program/machine.h"
#include "program/session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROFILE         "icelake-server"
#define MEM             "2G"
#define CPUS_MAX        16u
#define BOOT_MS         120000
#define BOOT_MS_PERF    300000
#define SECONDS_MAX     (7u * 24 * 3600)
#define VARIABLES_MAX   256u
#define TRACE_NAME      "trace"
#define MONITOR_NAME    "qmp"
#define EVENT           "intel_pt//u"
#define EVENT_OF_CYCLES "intel_pt/cyc=1/u"

struct trace_options {
    bool kernel_too, cycles, by_perf, has_network, no_report, clear_environment;
    const char *perf_data, *keep, *report, *page, *folder, *mem;
    unsigned cpus;
    uint64_t seconds; /* 0: no limit */
    const char *variables[VARIABLES_MAX];
    size_t variable_count;
    char **program; /* and its arguments */
};

/* One run, from the machine to the report. */
struct trace {
    const struct trace_options *options;
    char qemu[PATH_MAX], kernel[PATH_MAX], perf[PATH_MAX];
    char work[PATH_MAX - 64]; /* a folder that is removed */
    char path[PATH_MAX];      /* of the traces, or of the perf.data */
    char monitor[PATH_MAX];
    char **environment;
    char *here; /* where the program runs */
    struct output perf_data, report;
    struct machine machine;
    struct session session;
    pid_t capture;     /* 0: none */
    int capture_words; /* what it said */
    bool is_out_of_time;
};

/* ---- Options ---- */

static int add_variable(void *parsed, const char *value)
{
    struct trace_options *const options = parsed;

    if (options->variable_count == VARIABLES_MAX)
        return complain(EXIT_CODE_USAGE, "at most %u --env", VARIABLES_MAX);
    if (*value == '=' || !*value)
        return complain(EXIT_CODE_USAGE, "--env takes NAME or NAME=VALUE, not '%s'", value);
    options->variables[options->variable_count++] = value;
    return 0;
}

static const struct option_row options_of_trace[] = {
    {.name = "output",
     .letter = 'o',
     .value = "FILE",
     .group = "What is kept",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct trace_options, perf_data),
     .help = "Keeps a perf.data that stock perf reads. It is written by perf in the guest, as with "
             "--perf."},
    {.name = "keep",
     .value = "NAME",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct trace_options, keep),
     .help = "Keeps the capture as NAME.0 and so on, with its code and names, for vpt decode and "
             "vpt report."},
    {.name = "report",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct trace_options, report),
     .help = "Where the report goes.",
     .fallback = "standard error"},
    {.name = "html",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct trace_options, page),
     .help = "Writes the report as a page for a browser instead (docs/report.md)."},
    {.name = "no-report",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct trace_options, no_report),
     .help = "Shows no report."},
    {.name = "kernel",
     .group = "What is traced",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct trace_options, kernel_too),
     .help = "Reports on the guest's kernel, too.",
     .fallback = "code of user mode alone"},
    {.name = "cycles",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct trace_options, cycles),
     .help = "Adds MTC and CYC packets, so that the time of each function is told."},
    {.name = "perf",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct trace_options, by_perf),
     .help = "Lets perf in the guest record the program, instead of a capture from outside."},
    {.name = "env",
     .value = "NAME[=VALUE]",
     .group = "How the program runs",
     .kind = OPTION_CALL,
     .take = add_variable,
     .help = "Sets a variable of the environment, or takes it out. May be repeated.",
     .fallback = "the environment is that of vpt"},
    {.name = "clear-env",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct trace_options, clear_environment),
     .help = "The environment has nothing but what --env sets."},
    {.name = "chdir",
     .value = "FOLDER",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct trace_options, folder),
     .help = "The folder that the program runs in.",
     .fallback = "this one"},
    {.name = "timeout",
     .value = "SECONDS",
     .kind = OPTION_NUMBER,
     .offset = offsetof(struct trace_options, seconds),
     .min = 1,
     .max = SECONDS_MAX,
     .help = "Ends the program after so many seconds of this machine's clock.",
     .fallback = "no limit"},
    {.name = "mem",
     .value = "SIZE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct trace_options, mem),
     .help = "The guest's memory, as QEMU takes it. Files that are written are in it, too.",
     .fallback = MEM},
    {.name = "cpus",
     .value = "N",
     .kind = OPTION_UNSIGNED,
     .offset = offsetof(struct trace_options, cpus),
     .min = 1,
     .max = CPUS_MAX,
     .help = "The guest's processors.",
     .fallback = "1"},
    {.name = "net",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct trace_options, has_network),
     .help = "Gives the program a network: connections from the guest to others.",
     .fallback = "none"},
    {0},
};

static int check_options(const struct trace_options *options)
{
    if (options->keep && options->by_perf)
        return complain(EXIT_CODE_USAGE,
                        "--keep is for a capture; with --perf and -o, -o names it");
    if (options->kernel_too && options->by_perf)
        return complain(EXIT_CODE_USAGE,
                        "--kernel is for a capture: perf records the program's own code");
    if (options->no_report && (options->report || options->page))
        return complain(EXIT_CODE_USAGE, "either --no-report, or where it goes");
    if (options->page && options->report)
        return complain(EXIT_CODE_USAGE, "either --report or --html");
    return 0;
}

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct trace_options *options)
{
    int code = options_parse(&command_trace, argc, argv, options);

    if (code)
        return code;
    if (optind >= argc)
        return 1 + complain(EXIT_CODE_USAGE, "vpt trace takes a program; see vpt trace --help");
    options->program = argv + optind;
    options->by_perf = options->by_perf || options->perf_data;
    code = check_options(options);
    return code ? 1 + code : 0;
}

/* ---- What has to be there ---- */

/* A program as PATH finds it. False: there is none. */
static bool find_program(const char *name, char *path, size_t path_bytes)
{
    const char *at = getenv("PATH");

    if (strchr(name, '/'))
        return snprintf(path, path_bytes, "%s", name) < (int)path_bytes;
    for (at = at ? at : "/usr/bin:/bin"; *at; at += strspn(at, ":")) {
        const size_t len = strcspn(at, ":");

        if (snprintf(path, path_bytes, "%.*s/%s", (int)len, at, name) < (int)path_bytes &&
            access(path, X_OK) == 0)
            return true;
        at += len;
    }
    return false;
}

static int find_parts(struct trace *trace)
{
    char vmlinux[PATH_MAX + 16], how[2 * PATH_MAX];

    own_qemu(trace->qemu, sizeof(trace->qemu));
    if (access(trace->qemu, X_OK) != 0) {
        (void)no_own_qemu(trace->qemu, errno);
        return EXIT_CODE_NOT_TRACED;
    }
    data_cache("trace", trace->kernel, sizeof(trace->kernel));
    (void)snprintf(vmlinux, sizeof(vmlinux), "%s/vmlinux", trace->kernel);
    if (access(vmlinux, R_OK) != 0) {
        const int error = errno;

        data_how("trace-kernel", "vmm/program/prepare.sh", trace->kernel, how, sizeof(how));
        return complain(EXIT_CODE_NOT_TRACED, "%s: %s; to fetch the kernel, run: %s", vmlinux,
                        strerror(error), how);
    }
    if (trace->options->by_perf && !find_program("perf", trace->perf, sizeof(trace->perf)))
        return complain(EXIT_CODE_NOT_TRACED,
                        "there is no perf here for the guest (package linux-perf)");
    return 0;
}

/* What works here, and cannot there. */
static void warn_of_rights(const struct trace_options *options)
{
    char path[PATH_MAX];
    struct stat status;

    if (find_program(options->program[0], path, sizeof(path)) && stat(path, &status) == 0 &&
        status.st_mode & (S_ISUID | S_ISGID))
        (void)complain(EXIT_CODE_OK,
                       "%s is set-user-ID or set-group-ID, which does not count in the guest: it "
                       "runs with the caller's rights",
                       path);
}

/* ---- The environment ---- */

static bool is_of(const char *variable, const char *name)
{
    const size_t len = strcspn(name, "=");

    return strncmp(variable, name, len) == 0 && variable[len] == '=';
}

static bool is_set_anew(const struct trace_options *options, const char *variable)
{
    for (size_t i = 0; i < options->variable_count; i++) {
        if (is_of(variable, options->variables[i]))
            return true;
    }
    return false;
}

/* A list of others' texts. NULL: no memory. */
static char **make_environment(const struct trace_options *options)
{
    size_t count = 0, used = 0;
    char **list;

    while (environ[count])
        count++;
    list = calloc(count + options->variable_count + 1, sizeof(*list));
    for (size_t i = 0; list && !options->clear_environment && i < count; i++) {
        if (!is_set_anew(options, environ[i]))
            list[used++] = environ[i];
    }
    for (size_t i = 0; list && i < options->variable_count; i++) {
        if (strchr(options->variables[i], '='))
            list[used++] = (char *)options->variables[i];
    }
    return list;
}

/* ---- The folder of this run ---- */

static int make_work(struct trace *trace)
{
    const char *const tmp = getenv("TMPDIR");

    if (snprintf(trace->work, sizeof(trace->work), "%s/vpt-trace-XXXXXX",
                 tmp && *tmp ? tmp : "/tmp") >= (int)sizeof(trace->work) ||
        !mkdtemp(trace->work)) {
        const int code = complain(EXIT_CODE_NOT_TRACED, "%s: %s", trace->work, strerror(errno));

        *trace->work = '\0';
        return code;
    }
    (void)snprintf(trace->monitor, sizeof(trace->monitor), "%s/" MONITOR_NAME, trace->work);
    return 0;
}

static void remove_work(const struct trace *trace)
{
    DIR *const folder = *trace->work ? opendir(trace->work) : NULL;

    for (struct dirent *entry; folder && (entry = readdir(folder));)
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        (void)closedir(folder);
    if (*trace->work)
        (void)rmdir(trace->work);
}

/* ---- The capture ---- */

/* Waits for its line. False: it ended before. */
static bool wait_until_ready(int fd)
{
    char byte;
    ssize_t n;

    do {
        n = read(fd, &byte, 1);
    } while (n < 0 && errno == EINTR);
    return n == 1;
}

static void pass_words_on(int fd)
{
    char text[4096];
    off_t at = 0;
    ssize_t n;

    while ((n = pread(fd, text, sizeof(text), at)) > 0) {
        (void)!write(STDERR_FILENO, text, (size_t)n);
        at += n;
    }
}

/* 0 or an exit code. */
static int end_capture(struct trace *trace)
{
    int code;

    if (trace->capture <= 0)
        return 0;
    (void)kill(trace->capture, SIGTERM);
    code = subprocess_wait(trace->capture);
    trace->capture = 0;
    pass_words_on(trace->capture_words);
    return code ? EXIT_CODE_NOT_TRACED : 0;
}

static int begin_capture(struct trace *trace)
{
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    char ready[16];
    char *words[] = {(char *)"capture",
                     (char *)"--qmp",
                     trace->monitor,
                     (char *)"--ready-fd",
                     ready,
                     trace->path,
                     trace->options->cycles ? (char *)"--timing" : NULL,
                     NULL};
    int ends[2];
    bool is_ready;

    trace->capture_words = memfd_create("vpt-capture", MFD_CLOEXEC);
    if (null < 0 || trace->capture_words < 0 || pipe2(ends, O_CLOEXEC) != 0)
        return complain(EXIT_CODE_NOT_TRACED, "the capture cannot begin: %s", strerror(errno));
    (void)snprintf(ready, sizeof(ready), "%d", ends[1]);
    trace->capture = subprocess_start(&command_capture, words, null, trace->capture_words);
    (void)close(ends[1]);
    (void)close(null);
    is_ready = trace->capture > 0 && wait_until_ready(ends[0]);
    (void)close(ends[0]);
    if (is_ready)
        return 0;
    (void)end_capture(trace);
    return EXIT_CODE_NOT_TRACED;
}

/* ---- The program ---- */

/* Why it did not come to an end of its own. An exit code. */
static int blame(struct trace *trace, int error, struct reason *why)
{
    if (error == -EPIPE)
        (void)machine_blame(&trace->machine, why);
    if (error == -ETIMEDOUT && trace->is_out_of_time)
        return complain(EXIT_CODE_LATE, "%s was not done within %llu s", trace->options->program[0],
                        (unsigned long long)trace->options->seconds);
    return complain(error == -ENOENT    ? EXIT_CODE_NOT_FOUND
                    : error == -ENOEXEC ? EXIT_CODE_NOT_EXECUTABLE
                                        : EXIT_CODE_NOT_TRACED,
                    "%s", why->text);
}

static int boot(struct trace *trace, const struct session_job *job)
{
    const struct trace_options *const options = trace->options;
    const struct machine_options machine = {.qemu = trace->qemu,
                                            .kernel_folder = trace->kernel,
                                            .monitor = options->by_perf ? NULL : trace->monitor,
                                            .profile = PROFILE,
                                            .mem = options->mem,
                                            .cpus = options->cpus,
                                            .has_network = options->has_network,
                                            .has_no_vdso = options->by_perf};
    struct reason why = {0};
    int error = session_catch_signals(&trace->session, &why);

    if (!error)
        error = machine_start(&trace->machine, &machine, &why);
    if (!error)
        error = session_prepare(&trace->session, trace->machine.wire, job,
                                options->by_perf ? BOOT_MS_PERF : BOOT_MS, &why);
    return error ? blame(trace, error, &why) : 0;
}

/* An exit code: the program's, or of what failed. */
static int run_program(struct trace *trace)
{
    struct reason why = {0};
    const int error = session_run(&trace->session, (int64_t)trace->options->seconds * 1000, &why);
    const int status = trace->session.status;

    trace->is_out_of_time = error == -ETIMEDOUT;
    if (error)
        return blame(trace, error, &why);
    return WIFSIGNALED(status) ? EXIT_CODE_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* What the processor of the guest lacks, which may be why the program did what it did. */
static void tell_features(const struct trace *trace)
{
    static char here[8192];
    char missing[1024];
    const bool was_illegal = trace->session.has_ended && WIFSIGNALED(trace->session.status) &&
                             WTERMSIG(trace->session.status) == SIGILL;

    features_here(here, sizeof(here));
    if (!features_missing(here, trace->session.features, missing, sizeof(missing)))
        return;
    if (was_illegal)
        (void)complain(EXIT_CODE_OK,
                       "the program used an instruction that the guest's processor does not have; "
                       "this machine's has %s, and the guest's has not",
                       missing);
    else if (!trace->options->no_report)
        (void)complain(EXIT_CODE_OK, "the guest's processor lacks what this machine's has: %s",
                       missing);
}

/* ---- The report ---- */

/* 0 or an exit code. */
static int show_report(struct trace *trace)
{
    const struct trace_options *const options = trace->options;
    char *words[CPUS_MAX + 10], files[CPUS_MAX][PATH_MAX + 16];
    size_t count = 0;
    pid_t pid;
    int code;

    words[count++] = (char *)"report";
    words[count++] = (char *)"--no-pager";
    if (!options->cycles && !options->by_perf) { /* what time there is, is coarse */
        words[count++] = (char *)"--sort";
        words[count++] = (char *)"instructions";
    }
    if (options->page) {
        words[count++] = (char *)"--html";
        words[count++] = (char *)options->page;
    } else if (!options->kernel_too) {
        words[count++] = (char *)"--only";
        words[count++] = (char *)"user";
    }
    for (unsigned cpu = 0; cpu < options->cpus && !options->by_perf; cpu++) {
        (void)snprintf(files[cpu], sizeof(files[cpu]), "%s.%u", trace->path, cpu);
        words[count++] = files[cpu];
    }
    if (options->by_perf)
        words[count++] = trace->path;
    words[count] = NULL;
    pid = subprocess_start(&command_report, words,
                           trace->report.is_open ? trace->report.fd : STDERR_FILENO, STDERR_FILENO);
    code = pid > 0 ? subprocess_wait(pid) : EXIT_CODE_HOST;
    if (!code && trace->report.is_open)
        output_keep(&trace->report);
    return code ? EXIT_CODE_NOT_TRACED : 0;
}

/* ---- In order ---- */

/* False: it is too long. */
static bool name_trace(struct trace *trace)
{
    const struct trace_options *const options = trace->options;
    const char *const own = options->perf_data ? options->perf_data : options->keep;
    const int len = own ? snprintf(trace->path, sizeof(trace->path), "%s", own)
                        : snprintf(trace->path, sizeof(trace->path), "%s/" TRACE_NAME, trace->work);

    return len < (int)sizeof(trace->path);
}

static int prepare(struct trace *trace)
{
    const struct trace_options *const options = trace->options;
    struct reason why = {0};
    int code = find_parts(trace);

    if (!code)
        code = make_work(trace);
    if (code)
        return code;
    trace->environment = make_environment(options);
    trace->here = options->folder ? realpath(options->folder, NULL) : getcwd(NULL, 0);
    if (!trace->environment)
        return no_memory();
    if (!trace->here)
        return complain(EXIT_CODE_NOT_TRACED, "%s: %s",
                        options->folder ? options->folder : "the working folder", strerror(errno));
    if (!name_trace(trace))
        return complain(EXIT_CODE_NOT_TRACED, "the name of the trace is too long");
    if (options->by_perf && output_open(&trace->perf_data, trace->path, &why) != 0)
        return complain(EXIT_CODE_NOT_TRACED, "%s", why.text);
    if (options->report && (output_open(&trace->report, options->report, &why) != 0 ||
                            (trace->report.is_file && ftruncate(trace->report.fd, 0) != 0)))
        return complain(EXIT_CODE_NOT_TRACED, "%s",
                        *why.text ? why.text : "the report cannot be written");
    warn_of_rights(options);
    return 0;
}

static int keep_perf_data(void *output, const void *bytes, size_t len, struct reason *why)
{
    return output_write(output, bytes, len, why);
}

/* The program's exit code, or that of what failed. *is_traced: there is something to report. */
static int run_traced(struct trace *trace, bool *is_traced)
{
    const struct trace_options *const options = trace->options;
    const struct session_job job = {
        .arguments = options->program,
        .environment = trace->environment,
        .folder = trace->here,
        .perf = options->by_perf ? trace->perf : NULL,
        .event = options->cycles ? EVENT_OF_CYCLES : EVENT,
        .keep = keep_perf_data,
        .owner = &trace->perf_data,
        .has_network = options->has_network,
    };
    struct reason why = {0};
    int code, ended;

    progress_say("booting");
    code = boot(trace, &job);
    if (!code && !options->by_perf)
        code = begin_capture(trace);
    progress_clear();
    if (code)
        return code;
    code = run_program(trace);
    ended = end_capture(trace);
    *is_traced = !ended && (trace->session.has_ended || trace->is_out_of_time);
    if (options->by_perf) {
        *is_traced = trace->session.has_perf_data;
        if (*is_traced && output_close(&trace->perf_data, &why) != 0)
            return complain(EXIT_CODE_NOT_TRACED, "%s", why.text);
    }
    return code ? code : ended;
}

static int trace_program(struct trace *trace)
{
    bool is_traced = false;
    int code = prepare(trace), shown = 0;

    if (!code) {
        code = run_traced(trace, &is_traced);
        machine_end(&trace->machine);
    }
    if (is_traced) {
        tell_features(trace);
        if (!trace->options->no_report)
            shown = show_report(trace);
    }
    output_drop(&trace->perf_data);
    output_drop(&trace->report);
    session_end(&trace->session);
    remove_work(trace);
    free(trace->environment);
    free(trace->here);
    return code ? code : shown;
}

static int run(int argc, char **argv)
{
    struct trace_options options = {.mem = MEM, .cpus = 1};
    struct trace *const trace = calloc(1, sizeof(*trace));
    int code;

    if (!trace)
        return no_memory();
    trace->options = &options;
    trace->session.signals = -1;
    trace->perf_data.fd = -1;
    code = parse(argc, argv, &options);
    if (code)
        code--;
    else
        code = trace_program(trace);
    free(trace);
    return code;
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "The program's, and any other code that is not listed here."},
    {EXIT_CODE_USAGE, "Usage, if no program ran."},
    {EXIT_CODE_LATE, "--timeout was over."},
    {EXIT_CODE_NOT_TRACED,
     "It could not be run, or not be traced: there is no QEMU or kernel, it does not boot, a "
     "signal "
     "came twice, a file cannot be written. If the program failed, its code is told instead."},
    {EXIT_CODE_NOT_EXECUTABLE, "The program cannot be executed."},
    {EXIT_CODE_NOT_FOUND, "There is no such program."},
    {EXIT_CODE_SIGNAL, "A signal ended the program: 128 and its number."},
    {0},
};

const struct subcommand command_trace = {
    .name = "trace",
    .about = "run a program of this machine in a guest, and trace it there",
    .synopsis = "[OPTION...] [--] PROGRAM [ARGUMENT...]",
    .text =
        "Boots Debian's kernel on the QEMU of 'make qemu' with this machine's files, as who calls "
        "it may read them, and runs the program there with its standard streams and exit code. "
        "What "
        "it writes is thrown away at the end. It is traced with Intel PT meanwhile, and the report "
        "is shown. It needs no Intel processor, no KVM and no right.\n"
        "The kernel comes by 'make trace-kernel'.",
    .document = "trace-a-program",
    .options = options_of_trace,
    .exits = exits,
    .operand_ends_options = true,
    .run = run,
};
