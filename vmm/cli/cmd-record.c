/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt record: this host and its guests are recorded with Intel PT by stock perf, together with what
 * decoding needs to tell them apart (docs/record.md).
 */
#include "cli/commands.h"
#include "cli/record-guests.h"
#include "cli/signals.h"
#include "common/file.h"
#include "common/json.h"
#include "common/number.h"
#include "common/progress.h"
#include "common/say.h"
#include "record/lender.h"
#include "record/losses.h"
#include "record/machine.h"
#include "record/recorder.h"
#include "record/vms.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define SECONDS_MAX  (7u * 24 * 3600)
#define TURN_NS      100000000L /* how long a signal or a limit may go unseen */
#define TURNS_A_LOOK 3          /* VMs are looked at this often */
#define BEGIN_MS     600000     /* perf copies the kernel's code, and looks at all processes */
#define ANSWER_MS    30000
#define VMS_MAX      64u
#define WORDS_MAX    48u
#define TSC_EVENT    "kvm:kvm_write_tsc_offset"
#define TSC_FORMAT   "/sys/kernel/tracing/events/kvm/kvm_write_tsc_offset/format"
#define BUFFER_MIN   (64ull << 10)
#define BUFFER_MAX   (1ull << 30)
#define SIZE_MIN     (1ull << 20)
#define SIZE_LIMIT   (1ull << 50)
#define FREE_DEFAULT (256ull << 20)

struct record_options {
    const char *vms[VMS_MAX];
    unsigned vm_count;
    struct record_guests *guests; /* of --panic and --memory */
    bool watches;                 /* --panic was said */
    uint64_t seconds;             /* 0: until a signal comes */
    uint64_t size, min_free, buffer;
    const char *terms, *perf, *folder;
    bool lends, snapshot, no_kcore, no_files, json;
};

/* ---- Options ---- */

static int add_vm(void *parsed, const char *word)
{
    struct record_options *const options = parsed;

    if (options->vm_count == VMS_MAX)
        return complain(EXIT_CODE_USAGE, "--vm: at most %u", VMS_MAX);
    options->vms[options->vm_count++] = word;
    return 0;
}

/* NULL: too many, which was said. */
static struct record_guest *add_guest(const struct record_options *options, const char *who)
{
    struct record_guest *const guest = record_guests_add(options->guests, who);

    if (!guest)
        (void)complain(EXIT_CODE_USAGE, "--panic and --memory: at most %u guests",
                       RECORD_GUESTS_MAX);
    return guest;
}

static int add_watched(void *parsed, const char *word)
{
    struct record_options *const options = parsed;
    struct record_guest *const guest = add_guest(options, word);

    if (!guest)
        return EXIT_CODE_USAGE;
    options->watches = guest->panics = true;
    return 0;
}

static int add_memory(void *parsed, const char *word)
{
    struct record_guest *const guest = add_guest(parsed, word);

    if (!guest)
        return EXIT_CODE_USAGE;
    guest->memory = true;
    return 0;
}

static int take_bytes(const char *option, const char *text, uint64_t min, uint64_t max,
                      uint64_t *bytes)
{
    const char *end;

    if (parse_bytes(text, 10, max, &end, bytes) && !*end && *bytes >= min)
        return 0;
    return complain(EXIT_CODE_USAGE, "%s takes a number of bytes such as 500M, not '%s'", option,
                    text);
}

static int take_size(void *parsed, const char *text)
{
    return take_bytes("--size", text, SIZE_MIN, SIZE_LIMIT,
                      &((struct record_options *)parsed)->size);
}

static int take_min_free(void *parsed, const char *text)
{
    return take_bytes("--min-free", text, 0, SIZE_LIMIT,
                      &((struct record_options *)parsed)->min_free);
}

static int take_buffer(void *parsed, const char *text)
{
    uint64_t *const bytes = &((struct record_options *)parsed)->buffer;
    const int code = take_bytes("--buffer", text, BUFFER_MIN, BUFFER_MAX, bytes);

    if (code)
        return code;
    return *bytes & (*bytes - 1) ? complain(EXIT_CODE_USAGE, "--buffer is a power of two") : 0;
}

static const struct option_row options_of_record[] = {
    {.name = "vm",
     .value = "NAME|UUID|PID",
     .group = "What is recorded",
     .kind = OPTION_CALL,
     .take = add_vm,
     .help = "Records this VM alone, by its name in libvirt or of QEMU's -name, its UUID, or its "
             "process; may be repeated.",
     .fallback = "the whole host, with all of its VMs"},
    {.name = "config",
     .value = "TERMS",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct record_options, terms),
     .help = "What stands between the slashes of perf's event intel_pt//: "
             "'cyc=1,noretcomp=1,event=1'.",
     .fallback = "perf's own choice"},
    {.name = "guests",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct record_options, lends),
     .help = "Lends the trace to guests as well, at the socket FOLDER/guests: vpt run --source "
             "host-pt --recorder FOLDER/guests (docs/host-pt.md). RETs are not compressed then."},
    {.name = "seconds",
     .value = "N",
     .group = "When it ends",
     .kind = OPTION_NUMBER,
     .offset = offsetof(struct record_options, seconds),
     .min = 1,
     .max = SECONDS_MAX,
     .help = "Ends after so many seconds.",
     .fallback = "until a signal comes"},
    {.name = "size",
     .value = "BYTES",
     .kind = OPTION_CALL,
     .take = take_size,
     .help = "Ends when so much has been written (500M, 4G)."},
    {.name = "min-free",
     .value = "BYTES",
     .kind = OPTION_CALL,
     .take = take_min_free,
     .help = "Ends when the file system has no more than this left.",
     .fallback = "256M"},
    {.name = "snapshot",
     .group = "A ring",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct record_options, snapshot),
     .help = "Keeps the last packets in memory, and writes them when SIGUSR2 comes, when a guest "
             "of --panic panics, and at the end."},
    {.name = "panic",
     .value = "SOCKET|DOMAIN",
     .kind = OPTION_CALL,
     .take = add_watched,
     .help = "Asks this guest whether it has panicked: the socket of QEMU's monitor (a path with a "
             "slash), or a domain of libvirt; may be repeated."},
    {.name = "buffer",
     .value = "BYTES",
     .kind = OPTION_CALL,
     .take = take_buffer,
     .help = "The buffer of each processor, a power of two: with --snapshot, what is kept of it.",
     .fallback = "4M, perf's own"},
    {.name = "memory",
     .value = "SOCKET|DOMAIN",
     .group = "What is kept besides",
     .kind = OPTION_CALL,
     .take = add_memory,
     .help = "Takes this guest's memory when the recording ends, for its code and its names: the "
             "guest stands still meanwhile. The socket of its QEMU's monitor (a path with a "
             "slash), or a domain of libvirt; may be repeated."},
    {.name = "no-kcore",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct record_options, no_kcore),
     .help = "Does not copy the kernel's code."},
    {.name = "no-files",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct record_options, no_files),
     .help = "Does not copy the files that processes have mapped: they have to be the same when "
             "the recording is decoded."},
    {.name = "perf",
     .value = "PROGRAM",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct record_options, perf),
     .help = "Another perf.",
     .fallback = "perf"},
    {.name = "json",
     .group = "What is printed",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct record_options, json),
     .help = "Prints what was recorded as JSON."},
    {0},
};

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct record_options *options)
{
    const int code = options_parse(&command_record, argc, argv, options);

    if (code)
        return code;
    if (argc - optind != 1)
        return 1 + complain(EXIT_CODE_USAGE, "vpt record takes one FOLDER; see vpt record --help");
    if (options->watches && !options->snapshot)
        return 1 + complain(EXIT_CODE_USAGE, "--panic is for --snapshot");
    if (options->lends && (options->vm_count || options->snapshot))
        return 1 + complain(EXIT_CODE_USAGE, "--guests takes all of the host's trace, as it comes: "
                                             "no --vm, no --snapshot");
    options->folder = argv[optind];
    return 0;
}

/* ---- A recording ---- */

struct recording {
    const struct record_options *options;
    struct vms vms;
    struct recorder recorder;
    struct lender lender;
    char *data, *map, *log, *files, *about, *guests; /* paths below the folder */
    const char *ended_by;
    unsigned snapshots;
    int64_t begin_ms, end_ms;
};

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static char *below(const char *folder, const char *name)
{
    char *path;

    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* 0 or an exit code. */
static int make_folder(struct recording *recording)
{
    const char *const folder = recording->options->folder;

    if (mkdir(folder, 0700) != 0)
        return errno == EEXIST ? complain(EXIT_CODE_FILE, "%s is there already", folder)
                               : file_error(folder, -errno);
    recording->data = below(folder, "perf.data");
    recording->map = below(folder, "map");
    recording->log = below(folder, "perf.log");
    recording->files = below(folder, "files");
    recording->about = below(folder, "record.json");
    recording->guests = below(folder, "guests");
    return recording->data && recording->map && recording->log && recording->files &&
                   recording->about && recording->guests
               ? 0
               : no_memory();
}

/* The map is written whenever something is new, so that it is there whatever ends this. */
static int look(struct recording *recording)
{
    struct reason why = {0};
    bool changed = false;
    int error = vms_look(&recording->vms, __rdtsc(), &changed, &why);

    if (!error && changed)
        error = vms_write(&recording->vms, recording->map, &why);
    return complain_of(error, &why);
}

/* The first look, before there is a folder. 0 or an exit code. */
static int look_first(struct recording *recording)
{
    struct reason why = {0};
    bool changed;

    return complain_of(vms_look(&recording->vms, __rdtsc(), &changed, &why), &why);
}

/* "1234,1240": the processes of the VMs that were named. 0 or an exit code. */
static int find_processes(const struct recording *recording, char *list, size_t list_bytes)
{
    list[0] = 0;
    for (unsigned i = 0; i < recording->options->vm_count; i++) {
        const char *const name = recording->options->vms[i];
        const struct vm *const vm = vms_find(&recording->vms, name);

        if (!vm && recording->vms.count)
            return complain(EXIT_CODE_USAGE, "no VM of this host is called '%s'; there is '%s'",
                            name, recording->vms.list[0].name);
        if (!vm)
            return complain(EXIT_CODE_USAGE, "no VM runs here, so none is called '%s'", name);
        (void)snprintf(list + strlen(list), list_bytes - strlen(list), "%s%u", i ? "," : "",
                       vm->pid);
    }
    return 0;
}

/* ---- perf's command ---- */

struct command {
    char *words[WORDS_MAX];
    unsigned count;
    bool failed; /* no memory */
};

__attribute__((format(printf, 2, 3))) static void add(struct command *command, const char *format,
                                                      ...)
{
    va_list arguments;
    char *word;

    va_start(arguments, format);
    if (command->count + 1 >= WORDS_MAX || vasprintf(&word, format, arguments) < 0)
        command->failed = true;
    else
        command->words[command->count++] = word;
    va_end(arguments);
}

static void free_command(struct command *command)
{
    for (unsigned i = 0; i < command->count; i++)
        free(command->words[i]);
}

static void make_command(const struct recording *recording, const char *processes,
                         struct command *command)
{
    const struct record_options *const options = recording->options;

    add(command, "%s", options->perf ? options->perf : "perf");
    if (!options->no_files) {
        add(command, "--buildid-dir");
        add(command, "%s", recording->files);
    }
    add(command, "record");
    add(command, "--control=fd:3,4");
    add(command, "--delay=-1"); /* until it is told to begin */
    add(command, "--output=%s", recording->data);
    if (!options->no_kcore)
        add(command, "--kcore");
    if (options->no_files)
        add(command, "--no-buildid-cache");
    add(command, processes[0] ? "--pid=%s" : "--all-cpus%s", processes);
    if (options->buffer)
        add(command, "--mmap-pages=,%" PRIu64 "K", options->buffer >> 10);
    if (options->snapshot)
        add(command, "--snapshot=e");
    if (options->size)
        add(command, "--max-size=%" PRIu64 "B", options->size);
    add(command, "--event=intel_pt/%s%s%s/", options->lends ? recording->lender.setting.terms : "",
        options->lends && options->terms ? "," : "", options->terms ? options->terms : "");
    if (access(TSC_FORMAT, R_OK) == 0)
        add(command, "--event=" TSC_EVENT);
}

/* perf's file of records. NULL: no memory. */
static char *inner_data(const struct recording *recording)
{
    return recording->options->no_kcore ? strdup(recording->data) : below(recording->data, "data");
}

/* 0 or an exit code. */
static int lend(struct recording *recording)
{
    struct reason why = {0};
    char *inside;
    int error;

    if (!recording->options->lends)
        return 0;
    inside = inner_data(recording);
    error = inside ? lender_open(&recording->lender, recording->guests, recording->recorder.pid,
                                 inside, &why)
                   : reason_no_memory(&why);
    free(inside);
    return error ? complain(EXIT_CODE_HOST, "%s", why.text) : 0;
}

static int begin(struct recording *recording, const char *processes)
{
    struct command command = {0};
    struct reason why = {0};
    int code, error;

    make_command(recording, processes, &command);
    error = command.failed
                ? reason_no_memory(&why)
                : recorder_start(&recording->recorder, command.words, recording->log, &why);
    free_command(&command);
    if (!error)
        error = recorder_tell(&recording->recorder, "ping", BEGIN_MS, &why);
    if (error)
        return complain(EXIT_CODE_HOST, "%s", why.text);
    code = lend(recording);
    if (!code)
        code = look(recording);
    if (!code && recorder_tell(&recording->recorder, "enable", ANSWER_MS, &why))
        code = complain(EXIT_CODE_HOST, "%s", why.text);
    recording->begin_ms = now_ms();
    return code;
}

/* ---- While it goes on ---- */

static uint64_t written(const struct recording *recording)
{
    struct stat status;
    char *const inside = below(recording->data, "data");
    uint64_t bytes = 0;

    if ((inside && stat(inside, &status) == 0) ||
        (stat(recording->data, &status) == 0 && S_ISREG(status.st_mode)))
        bytes = (uint64_t)status.st_size;
    free(inside);
    return bytes;
}

static bool disk_is_full(const struct recording *recording)
{
    struct statvfs status;

    return statvfs(recording->options->folder, &status) == 0 &&
           (uint64_t)status.f_bavail * status.f_frsize < recording->options->min_free;
}

/* Why it has to end now; NULL: it goes on. */
static const char *reason_to_end(struct recording *recording)
{
    const struct record_options *const options = recording->options;

    if (!recorder_runs(&recording->recorder))
        return options->size && written(recording) >= options->size ? "size" : "perf";
    if (signals_end)
        return "signal";
    if (options->seconds && now_ms() - recording->begin_ms >= (int64_t)options->seconds * 1000)
        return "seconds";
    if (options->size && written(recording) >= options->size)
        return "size";
    return disk_is_full(recording) ? "disk" : NULL;
}

/* The ring goes to the file. 0 or an exit code. */
static int dump_ring(struct recording *recording)
{
    struct reason why = {0};

    signals_save = 0;
    if (!recording->options->snapshot) {
        remark(say_remark, "SIGUSR2 does nothing without --snapshot");
        return 0;
    }
    if (recorder_tell(&recording->recorder, "snapshot", ANSWER_MS, &why))
        return complain(EXIT_CODE_HOST, "%s", why.text);
    recording->snapshots++;
    return 0;
}

static int go_on(struct recording *recording)
{
    const struct timespec turn = {.tv_nsec = TURN_NS};
    int code = 0;

    for (unsigned turns = 1; !code; turns++) {
        const char *end;

        (void)nanosleep(&turn, NULL);
        end = reason_to_end(recording);
        if (end) {
            recording->ended_by = end;
            break;
        }
        lender_serve(&recording->lender);
        if (record_guests_panicked(recording->options->guests))
            signals_save = 1;
        if (signals_save)
            code = dump_ring(recording);
        if (!code && turns % TURNS_A_LOOK == 0) {
            code = look(recording);
            progress_say("recording: %" PRIu64 " MB, %" PRId64 " s, %zu VMs",
                         written(recording) / 1000000, (now_ms() - recording->begin_ms) / 1000,
                         recording->vms.count);
        }
    }
    return code;
}

/* ---- The end ---- */

static json_object *about_object(const struct recording *recording, const struct losses *losses)
{
    json_object *const root = json_object_new_object();

    if (!root)
        return NULL;
    json_add_number(root, "vpt-record", 1);
    (void)json_add(root, "complete", json_object_new_boolean(losses != NULL));
    json_add_number(root, "vms", recording->vms.count);
    json_add_number(root, "vcpus", vms_cpus(&recording->vms));
    json_add_number(root, "vms_without_memory", vms_untold(&recording->vms));
    if (!losses)
        return root;
    (void)json_add(root, "ended_by", json_object_new_string(recording->ended_by));
    json_add_number(root, "milliseconds", (uint64_t)(recording->end_ms - recording->begin_ms));
    json_add_number(root, "snapshots", recording->snapshots);
    json_add_number(root, "guests_served", recording->lender.served);
    json_add_number(root, "guests_refused", recording->lender.refused);
    json_add_number(root, "file_bytes", losses->file_bytes);
    json_add_number(root, "trace_bytes", losses->trace_bytes);
    json_add_number(root, "times_full", losses->full);
    json_add_number(root, "gaps", losses->gaps);
    json_add_number(root, "lost_records", losses->records);
    json_add_number(root, "tsc_offsets", losses->offsets);
    return root;
}

/* 0, or -errno and the reason. */
static int write_about(const struct recording *recording, const struct losses *losses,
                       struct reason *why)
{
    json_object *const about = about_object(recording, losses);
    char *const text = about ? json_text(about, JSON_C_TO_STRING_PRETTY) : NULL;
    const int error = text ? write_text_beside(recording->about, text, why) : reason_no_memory(why);

    free(text);
    json_object_put(about);
    return error;
}

static void print_losses(const struct losses *losses)
{
    if (losses->is_cut)
        printf("lost: the end of the file, which is cut off\n");
    else if (!losses->full && !losses->gaps && !losses->records) {
        printf("nothing was lost\n");
        return;
    }
    if (losses->full)
        printf("lost: packets, %" PRIu64 " times, since the buffer was full; see --buffer\n",
               losses->full);
    if (losses->gaps)
        printf("lost: packets, %" PRIu64 " times, since something else used Intel PT\n",
               losses->gaps);
    if (losses->records)
        printf("lost: %" PRIu64 " records of perf\n", losses->records);
}

/* What decoding will miss. */
static void remark_lacks(const struct vms *vms)
{
    const size_t untold = vms_untold(vms);

    if (vms->no_debugfs)
        remark(say_remark, "how the TSCs of guests differ is not known: KVM's debugfs cannot be "
                           "read");
    if (vms->is_unsure)
        remark(say_remark,
               "TSC offsets changed of which it is not known whose they were: a process "
               "runs several VMs");
    if (untold)
        remark(say_remark, "the folder has no code and no names of %zu of %zu VMs; see --memory",
               untold, vms->count);
}

static void print_result(const struct recording *recording, const struct losses *losses)
{
    if (recording->options->json) {
        json_print(about_object(recording, losses), JSON_C_TO_STRING_PRETTY);
        return;
    }
    printf("%s: %.1f MB of packets in %.1f s, %zu VMs with %zu virtual processors\n",
           recording->options->folder, (double)losses->trace_bytes / 1e6,
           (double)(recording->end_ms - recording->begin_ms) / 1e3, recording->vms.count,
           vms_cpus(&recording->vms));
    print_losses(losses);
    remark_lacks(&recording->vms);
}

/* Guests are asked once nothing is recorded any more, so that what their QEMUs do is not. */
static void take_memory(struct recording *recording)
{
    const struct record_options *const options = recording->options;
    struct reason why;

    if (!record_guests_want_memory(options->guests))
        return;
    (void)recorder_tell(&recording->recorder, "disable", ANSWER_MS, &why); /* if it still runs */
    record_guests_memory(options->guests, &recording->vms, options->folder, options->min_free);
}

/* What perf has written, and what it says. 0 or an exit code. */
static int finish(struct recording *recording)
{
    struct losses losses = {0};
    struct reason why = {0};
    char *inside;
    int failed, error;

    lender_close(&recording->lender);
    recording->end_ms = now_ms();
    take_memory(recording);
    failed = recorder_stop(&recording->recorder, &why);
    progress_end();
    if (failed)
        remark(say_remark, "%s", why.text);
    inside = inner_data(recording);
    error = inside ? losses_read(inside, &recording->vms, &losses, &why) : reason_no_memory(&why);
    free(inside);
    if (error)
        return complain_of(error, &why);
    error = vms_write(&recording->vms, recording->map, &why);
    if (!error)
        error = write_about(recording, &losses, &why);
    print_result(recording, &losses);
    if (strcmp(recording->ended_by, "disk") == 0)
        return complain(EXIT_CODE_HOST, "%s: the file system is nearly full; see --min-free",
                        recording->options->folder);
    return failed ? EXIT_CODE_HOST : complain_of(error, &why);
}

static int record(struct recording *recording)
{
    char processes[16 * VMS_MAX];
    struct reason why = {0};
    int code, error;

    signals_listen(true);
    (void)signal(SIGPIPE, SIG_IGN);
    code = record_guests_open(recording->options->guests);
    if (!code)
        code = look_first(recording);
    if (!code)
        code = find_processes(recording, processes, sizeof(processes));
    if (!code)
        code = make_folder(recording);
    if (code)
        return code;
    error = vms_write(&recording->vms, recording->map, &why);
    if (!error)
        error = write_about(recording, NULL, &why);
    if (error)
        return complain_of(error, &why);
    progress_begin("recording", 0, PROGRESS_ALONE);
    code = begin(recording, processes);
    if (!code)
        code = go_on(recording);
    if (recording->begin_ms) {
        error = finish(recording);
        return code ? code : error;
    }
    lender_close(&recording->lender);
    progress_end();
    (void)recorder_stop(&recording->recorder, &why);
    return code;
}

/* 0 or an exit code. */
static int prepare_lender(struct recording *recording)
{
    struct reason why = {0};

    if (lender_prepare(&recording->lender, &why) == 0 || !recording->options->lends)
        return 0;
    return complain(EXIT_CODE_HOST, "%s", why.text);
}

static int run_record(int argc, char **argv)
{
    struct record_guests guests = {0};
    struct record_options options = {.min_free = FREE_DEFAULT, .guests = &guests};
    struct recording recording = {.options = &options, .vms = {.root = ""}, .ended_by = "error"};
    const struct finding *obstacle;
    struct findings findings;
    int code = parse(argc, argv, &options);

    if (code)
        return code - 1;
    machine_look("", &findings);
    obstacle = machine_obstacle(&findings);
    if (obstacle)
        return complain(EXIT_CODE_HOST, "%s See vpt check.", obstacle->text);
    code = prepare_lender(&recording);
    if (code)
        return code;
    code = record(&recording);
    record_guests_close(&guests);
    vms_free(&recording.vms);
    free(recording.data);
    free(recording.map);
    free(recording.log);
    free(recording.files);
    free(recording.about);
    free(recording.guests);
    return code;
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage, or there is no such VM."},
    {EXIT_CODE_FILE, "The folder is there already, or cannot be written."},
    {EXIT_CODE_HOST,
     "This machine cannot record, perf failed, or the file system was nearly full."},
    {0},
};

const struct subcommand command_record = {
    .name = "record",
    .about = "record this host and its guests with Intel PT",
    .synopsis = "[OPTION...] FOLDER",
    .text = "Records the whole host with all of its VMs, or some of the VMs, with stock perf on a "
            "stock kernel, until a signal comes or a limit is reached. FOLDER then has all that "
            "decoding needs: vpt report FOLDER and vpt decode FOLDER tell host, VMs and processes "
            "apart, and perf reads FOLDER/perf.data. vpt check says before what this machine can "
            "do.\n"
            "Whatever ends a recording, what was recorded until then decodes, and nothing is left "
            "running.",
    .document = "record",
    .options = options_of_record,
    .exits = exits,
    .run = run_record,
};
