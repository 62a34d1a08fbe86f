/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt convert: a trace into a perf.data that stock perf decodes. Code of a code log is laid out in
 * files of a folder, if one is named: perf maps files.
 */
#include "cli/commands.h"
#include "cli/guard.h"
#include "common/bytes.h"
#include "common/file.h"
#include "common/number.h"
#include "common/output.h"
#include "common/progress.h"
#include "common/say.h"
#include "trace/code-files.h"
#include "trace/flat-code.h"
#include "trace/perf-data.h"
#include "trace/sidecar.h"
#include "ptdec.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_MASK    4095ull
#define MAPS_MAX     1024u
#define TRACES_MAX   64u
#define CONFIG_CYC   (1ull << 1)
#define CONFIG_MTC   (1ull << 9)
#define CONFIG_TSC   (1ull << 10)
#define CONFIG_FREQ  14
#define MTC_FREQ_MAX 15
#define NAME_BYTES   16 /* of a comm, its end included */

struct convert {
    const char *name; /* of the threads */
    struct code_files *files;
    const char *images[MAPS_MAX]; /* values of --image */
    size_t image_count;
    bool no_sandbox;
    const char *code_folder; /* NULL: none */
    char *code_path;         /* the same, absolute: what a perf.data names has to be */
    struct flat_code *flat;  /* of all traces */
    struct bytes logs[TRACES_MAX];
    size_t log_count;
    uint32_t pid; /* and tid: the number of the trace */
    uint64_t tsc_ctc[2], mtc_freq, max_nonturbo_ratio;
    struct ptd_perf_map maps[MAPS_MAX];
    size_t map_count;
    char *names[MAPS_MAX]; /* of the maps' files */
    uint64_t cr3s[MAPS_MAX];
};

/* ---- Maps ---- */

/* 0 or an exit code. */
static int add_map(struct convert *convert, const char *path, const struct code_file *file,
                   const struct code_segment *segment, uint64_t bias, uint64_t cr3)
{
    const uint64_t before = segment->vaddr & PAGE_MASK;
    struct ptd_perf_map *map;
    char *absolute;

    if (convert->map_count == MAPS_MAX)
        return complain(EXIT_CODE_HOST, "%s: too many segments of code", path);
    absolute = realpath(path, NULL);
    if (!absolute)
        return file_error(path, -errno);
    convert->names[convert->map_count] = absolute;
    convert->cr3s[convert->map_count] = cr3;
    map = &convert->maps[convert->map_count++];
    *map = (struct ptd_perf_map){
        .start = segment->vaddr + bias - before,
        .len = (segment->len_bytes + before + PAGE_MASK) & ~PAGE_MASK,
        .pgoff = segment->offset - before,
        .pid = convert->pid,
        .executable = true,
        .file = absolute,
        .build_id_bytes = file->build_id_bytes,
    };
    memcpy(map->build_id, file->build_id, file->build_id_bytes);
    return 0;
}

/* The executable segments of an ELF file. 0 or an exit code. */
static int add_elf(struct convert *convert, const struct file_name *name, uint64_t bias,
                   uint64_t cr3)
{
    const struct code_file *file;
    struct reason why;
    size_t added = 0;
    int code = code_files_look(convert->files, name, &file, &why);

    if (code)
        return complain(exit_code_of(code), "%s", why.text);
    for (size_t i = 0; !code && i < file->segment_count; i++) {
        const struct code_segment *const segment = &file->segments[i];

        if ((segment->offset ^ segment->vaddr) & PAGE_MASK)
            continue;
        code = add_map(convert, name->path, file, segment, bias, cr3);
        added++;
    }
    if (code || added)
        return code;
    return complain(EXIT_CODE_FILE, "%s: no ELF file with code in whole pages", name->path);
}

/* What an --image option names. 0 or an exit code. */
static int load_image(struct convert *convert, const char *argument)
{
    uint64_t bias;
    char *path = split_bias(argument, &bias);
    int code;

    if (!path)
        return no_memory();
    code = add_elf(convert, &(struct file_name){.path = path, .by_user = true}, bias, PTD_ANY_CR3);
    free(path);
    return code;
}

static int load_images(struct convert *convert)
{
    int code = 0;

    for (size_t i = 0; !code && i < convert->image_count; i++)
        code = load_image(convert, convert->images[i]);
    return code;
}

/* The images of TRACE.json, if no option named any. 0 or an exit code. */
static int add_sidecar_images(struct convert *convert, struct sidecar *sidecar)
{
    struct sidecar_image image;
    int count, code = 0;

    if (convert->image_count)
        return 0;
    count = sidecar_images(sidecar);
    if (count < 0)
        return complain(EXIT_CODE_FILE, "%s (and no --image was given)", sidecar->why.text);
    for (size_t i = 0; !code && i < (size_t)count; i++) {
        code =
            sidecar_image(sidecar, i, &image)
                ? complain(EXIT_CODE_FILE, "%s", sidecar->why.text)
                : add_elf(convert, &(struct file_name){.path = image.path}, image.bias, image.cr3);
    }
    return code;
}

/* Clocks that no option told. */
static void take_clocks(struct convert *convert, const struct ptd_time_config *clocks)
{
    if (!convert->tsc_ctc[1]) {
        convert->tsc_ctc[0] = clocks->tsc_num;
        convert->tsc_ctc[1] = clocks->tsc_den;
    }
    if (!convert->mtc_freq)
        convert->mtc_freq = clocks->mtc_freq;
    if (!convert->max_nonturbo_ratio)
        convert->max_nonturbo_ratio = clocks->max_nonturbo_ratio;
}

/* ---- Code logs ---- */

static void say_what_is_lost(const struct sidecar *sidecar, const char *trace)
{
    (void)complain(EXIT_CODE_OK,
                   "%s: a perf.data cannot hold the code that was captured with it (%s): perf will "
                   "not decode what ran there unless --code lays it out, 'vpt decode %s' will",
                   trace, sidecar_code_log(sidecar), trace);
}

/* The log that TRACE.json names, if it does. 0 or an exit code. */
static int take_log(struct convert *convert, struct sidecar *sidecar, const char *trace)
{
    struct bytes *const log = &convert->logs[convert->log_count];
    int error;

    if (!sidecar_code_log(sidecar))
        return 0;
    if (!convert->code_folder) {
        say_what_is_lost(sidecar, trace);
        return 0;
    }
    error = sidecar_read_code_log(sidecar, convert->files, log);
    if (error)
        return complain(exit_code_of(error), "%s", sidecar->why.text);
    convert->log_count++;
    error = flat_code_add(convert->flat, log, convert->pid);
    if (!error)
        return 0;
    return complain(exit_code_of(error), "%s: %s: %s", trace, sidecar_code_log(sidecar),
                    error == -EBADMSG ? "no code log" : strerror(-error));
}

/* A file of the folder, while it is written. */
struct code_out {
    struct output output;
    struct reason why;
};

static int put_page(void *owner, const void *page)
{
    struct code_out *const out = owner;

    return output_write(&out->output, page, FLAT_PAGE_BYTES, &out->why);
}

/* FOLDER/PID-ADDRESS, or kernel-ADDRESS: maps of the kernel have no offset in a file. */
static int write_run(struct convert *convert, const struct flat_run *run, struct flat_sums *sums)
{
    struct code_out out = {.output = {0}};
    char owner[16] = "kernel", *name;
    int error;

    if (convert->map_count == MAPS_MAX)
        return complain(EXIT_CODE_HOST, "%s: code in more than %u pieces", convert->code_folder,
                        MAPS_MAX);
    if (run->owner != FLAT_OWNER_UPPER)
        (void)snprintf(owner, sizeof(owner), "%u", run->owner);
    if (asprintf(&name, "%s/%s-%016" PRIx64, convert->code_path, owner, run->address) < 0)
        return no_memory();
    error = output_open_beside(&out.output, name, &out.why);
    if (!error)
        error = flat_code_write(convert->flat, run, put_page, &out, sums);
    if (!error)
        error = output_close(&out.output, &out.why);
    output_drop(&out.output);
    convert->names[convert->map_count] = name;
    convert->cr3s[convert->map_count] = PTD_ANY_CR3;
    convert->maps[convert->map_count++] = (struct ptd_perf_map){.start = run->address,
                                                                .len = run->len_bytes,
                                                                .pid = run->owner,
                                                                .executable = true,
                                                                .file = name};
    return error ? complain(EXIT_CODE_FILE, "%s", out.why.text) : 0;
}

/* All logs into the folder, and maps of it. 0 or an exit code. */
static int lay_out_code(struct convert *convert)
{
    const struct flat_run *runs;
    struct flat_sums sums = {0};
    size_t count = 0;
    int error, code = 0;

    if (convert->log_count == 0)
        return 0;
    error = flat_code_lay_out(convert->flat, &runs, &count);
    if (error)
        return complain(exit_code_of(error), "%s: %s", convert->code_folder,
                        error == -EFBIG ? "too much code" : strerror(-error));
    for (size_t i = 0; !code && i < count; i++)
        code = write_run(convert, &runs[i], &sums);
    if (!code && sums.unclear)
        (void)complain(EXIT_CODE_OK,
                       "%zu of %zu pages of code changed, or are others in another address space: "
                       "perf sees what ran there first",
                       sums.unclear, sums.pages);
    return code;
}

/* Before rights are given up. 0 or an exit code. */
static int make_code_folder(struct convert *convert)
{
    const char *const folder = convert->code_folder;
    int error;

    if (!folder)
        return 0;
    error = ensure_folder(folder);
    if (error)
        return file_error(folder, error);
    convert->code_path = realpath(folder, NULL);
    if (!convert->code_path)
        return file_error(folder, -errno);
    convert->flat = flat_code_new();
    return convert->flat ? 0 : no_memory();
}

/* TRACE.json (docs/trace-files.md). 0 or an exit code. */
static int take_sidecar(struct convert *convert, const char *trace)
{
    struct sidecar sidecar;
    int code;

    if (sidecar_open(&sidecar, trace) != 0)
        code = complain(EXIT_CODE_FILE, "%s", sidecar.why.text);
    else if (sidecar.is_rtit)
        code = complain(EXIT_CODE_FILE, "%s: an RTIT trace, which perf does not know", trace);
    else
        code = add_sidecar_images(convert, &sidecar);
    if (!code) {
        take_clocks(convert, &sidecar.clocks);
        code = take_log(convert, &sidecar, trace);
    }
    sidecar_close(&sidecar);
    return code;
}

/* The buffer of a thread has one address space. 0 or an exit code. */
static int check_spaces(const struct convert *convert, const char *trace)
{
    for (size_t i = 0; i < convert->map_count; i++) {
        for (size_t j = 0; j < i; j++) {
            const struct ptd_perf_map *const a = &convert->maps[i], *const b = &convert->maps[j];

            if (a->pid == b->pid && convert->cr3s[i] != convert->cr3s[j] &&
                a->start < b->start + b->len && b->start < a->start + a->len)
                return complain(EXIT_CODE_FILE,
                                "%s: %s and %s share addresses in different address spaces, which "
                                "a thread's perf.data cannot say",
                                trace, a->file, b->file);
        }
    }
    return 0;
}

/* ---- Packets ---- */

/* What RTIT_CTL must have been, from the packets that are there; and the first TSC. */
static uint64_t config_of(const struct bytes *trace, uint64_t *first_tsc)
{
    struct ptd_packets packets;
    struct ptd_packet packet;
    uint64_t config = 0;

    *first_tsc = 0;
    ptd_packets_init(&packets, trace->data, trace->len);
    if (ptd_packets_sync(&packets) != PTD_OK)
        return 0;
    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        if (packet.type == PTD_TSC && !*first_tsc)
            *first_tsc = packet.tsc;
        config |= packet.type == PTD_TSC   ? CONFIG_TSC
                  : packet.type == PTD_MTC ? CONFIG_MTC
                  : packet.type == PTD_CYC ? CONFIG_CYC
                                           : 0;
    }
    return config;
}

/* Where ptd_perf_write() writes to. */
struct sink {
    struct output *output;
    struct reason why;
};

static int write_to(void *owner, const void *bytes, size_t len)
{
    struct sink *const sink = owner;

    progress_add(len);
    return output_write(sink->output, bytes, len, &sink->why);
}

static int write_perf(const struct ptd_perf_out *what, struct output *output)
{
    struct sink sink = {.output = output};
    struct ptd_perf_out out = *what;
    uint64_t total = 0;
    int error;

    for (size_t i = 0; i < out.trace_count; i++)
        total += out.traces[i].len_bytes;
    out.write = write_to;
    out.owner = &sink;
    progress_begin("writing", total, PROGRESS_ALONE);
    error = ptd_perf_write(&out);
    progress_end();
    if (error == PTD_E_NOMEM)
        return no_memory();
    if (!error)
        error = output_close(output, &sink.why);
    return error ? complain(EXIT_CODE_FILE, "%s", sink.why.text) : EXIT_CODE_OK;
}

/* A list of what is behind the paths. Those read are freed by free_files(). 0 or an exit code. */
static int read_files(char **paths, size_t count, struct bytes *files)
{
    for (size_t i = 0; i < count; i++) {
        const int error = read_file(paths[i], &files[i]);

        if (error)
            return file_error(paths[i], error);
    }
    return 0;
}

static void free_files(struct bytes *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes_free(&files[i]);
}

/* The code of one trace, as the maps of its process. 0 or an exit code. */
static int take_code(struct convert *convert, const char *path, size_t image_count)
{
    int code;

    for (size_t i = 0; convert->pid > 1 && i < image_count; i++) {
        if (convert->map_count == MAPS_MAX)
            return complain(EXIT_CODE_HOST, "%s: too many segments of code", path);
        convert->cr3s[convert->map_count] = convert->cr3s[i];
        convert->maps[convert->map_count] = convert->maps[i];
        convert->maps[convert->map_count++].pid = convert->pid;
    }
    code = take_sidecar(convert, path);
    return code ? code : check_spaces(convert, path);
}

static int convert_raw(struct convert *convert, char **paths, const struct bytes *files,
                       size_t count, struct output *output)
{
    const size_t image_count = convert->map_count;
    struct ptd_perf_comm comms[TRACES_MAX];
    struct ptd_perf_trace traces[TRACES_MAX];
    struct ptd_perf_out out = {
        .traces = traces, .trace_count = count, .comms = comms, .comm_count = count};
    int code = 0;

    for (size_t i = 0; i < count; i++) {
        convert->pid = (uint32_t)i + 1;
        comms[i] =
            (struct ptd_perf_comm){.pid = convert->pid, .tid = convert->pid, .name = convert->name};
        traces[i] = (struct ptd_perf_trace){.idx = (uint32_t)i,
                                            .cpu = -1,
                                            .tid = (int32_t)convert->pid,
                                            .bytes = files[i].data,
                                            .len_bytes = files[i].len};
        if (ptd_perf_detect(files[i].data, files[i].len))
            return complain(EXIT_CODE_USAGE, "%s: a perf.data is converted alone", paths[i]);
        code = take_code(convert, paths[i], image_count);
        if (code)
            return code;
        out.config |= config_of(&files[i], &traces[i].reference);
    }
    if (!code)
        code = lay_out_code(convert);
    if (code)
        return code;
    out.config |= convert->mtc_freq << CONFIG_FREQ;
    if (out.config & CONFIG_MTC && !convert->tsc_ctc[1])
        return complain(EXIT_CODE_USAGE, "%s: MTC packets: --tsc-ctc is needed", paths[0]);
    out.pt = (struct ptd_perf_pt){
        .has_time = out.config & CONFIG_TSC,
        .time_mult = 1, /* perf's nanoseconds are TSC ticks */
        .tsc_ctc_num = convert->tsc_ctc[0],
        .tsc_ctc_den = convert->tsc_ctc[1],
        .max_nonturbo_ratio = convert->max_nonturbo_ratio,
    };
    out.maps = convert->maps;
    out.map_count = convert->map_count;
    return write_perf(&out, output);
}

static int convert_perf(const char *path, const struct bytes *file, struct output *output)
{
    struct ptd_perf_session *session;
    struct ptd_perf_out out;
    struct reason why;
    int code = perf_data_open(path, file, NULL, say_remark, &session, &why);

    if (code)
        return complain(exit_code_of(code), "%s", why.text);
    ptd_perf_out_of(session, &out);
    code = write_perf(&out, output);
    if (!code && session->error)
        code = EXIT_CODE_FILE; /* said already */
    ptd_perf_session_free(session);
    return code;
}

/* ---- Options ---- */

static bool parse_ratio(const char *text, uint64_t *ratio)
{
    char *end;

    errno = 0;
    ratio[0] = strtoull(text, &end, 0);
    return !errno && *end == ':' && ratio[0] && parse_number(end + 1, &ratio[1]) && ratio[1];
}

static int bad_value(const char *value)
{
    return complain(EXIT_CODE_USAGE, "not a value for its option: '%s'", value);
}

static int take_image(void *options, const char *value)
{
    struct convert *const convert = options;

    if (convert->image_count == MAPS_MAX)
        return complain(EXIT_CODE_HOST, "%s: too many segments of code", value);
    convert->images[convert->image_count++] = value;
    return 0;
}

static int take_name(void *options, const char *value)
{
    ((struct convert *)options)->name = value;
    return strlen(value) < NAME_BYTES ? 0 : bad_value(value);
}

static int take_ratio(void *options, const char *value)
{
    return parse_ratio(value, ((struct convert *)options)->tsc_ctc) ? 0 : bad_value(value);
}

static const struct option_row options_of_convert[] = {
    {.name = "image",
     .value = "ELF[@BIAS]",
     .kind = OPTION_CALL,
     .take = take_image,
     .help = "Adds code; BIAS is how far above the addresses that it was linked for it ran. May be "
             "repeated.",
     .fallback = "as TRACE.json says"},
    {.name = "name",
     .value = "NAME",
     .kind = OPTION_CALL,
     .take = take_name,
     .help = "Names the threads, by up to 15 letters.",
     .fallback = "vpt"},
    {.name = "tsc-ctc",
     .value = "NUM:DEN",
     .kind = OPTION_CALL,
     .take = take_ratio,
     .help = "The ratio of TSC to crystal clock, CPUID.15H:EBX and EAX; a trace with MTC packets "
             "needs it.",
     .fallback = "as TRACE.json says"},
    {.name = "mtc-freq",
     .value = "N",
     .kind = OPTION_NUMBER,
     .offset = offsetof(struct convert, mtc_freq),
     .max = MTC_FREQ_MAX,
     .help = "RTIT_CTL.MTCFreq.",
     .fallback = "as TRACE.json says, else 0"},
    {.name = "nonturbo-ratio",
     .value = "N",
     .kind = OPTION_NUMBER,
     .offset = offsetof(struct convert, max_nonturbo_ratio),
     .help = "The maximum non-turbo ratio; a trace with CBR packets needs it.",
     .fallback = "as TRACE.json says, else 0"},
    {.name = "code",
     .value = "FOLDER",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct convert, code_folder),
     .help = "Lays out the code that was captured with a trace in files of this folder, which is "
             "made, and which perf then maps. They are of one moment: where code changed, perf "
             "loses its way."},
    {.name = "no-sandbox",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct convert, no_sandbox),
     .help = NO_SANDBOX_HELP},
    {0},
};

/* 0 to go on, or an exit code + 1. */
static int parse(int argc, char **argv, struct convert *convert)
{
    const int code = options_parse(&command_convert, argc, argv, convert);

    if (!code && (optind + 2 > argc || argc - optind - 1 > (int)TRACES_MAX))
        return 1 + complain(EXIT_CODE_USAGE,
                            "vpt convert takes 1 to %u traces and a file to write; "
                            "see vpt convert --help",
                            TRACES_MAX);
    return code;
}

/*
 * From here on, what somebody else wrote is parsed. The output takes its name when it is complete;
 * TRACE.json names files anywhere. 0 or an exit code.
 */
static int give_up_rights(const struct convert *convert, const struct output *output)
{
    struct sandbox sandbox = {0};

    sandbox_allow(&sandbox, "/");
    if (output->rename_to)
        sandbox_allow_output(&sandbox, output->rename_to);
    if (convert->code_folder)
        sandbox_allow_folder(&sandbox, convert->code_folder);
    return guard_enter(&sandbox, convert->no_sandbox);
}

static int convert_files(struct convert *convert, char **paths, size_t count, const char *to)
{
    struct bytes files[TRACES_MAX] = {0};
    struct output output;
    struct reason why = {0};
    int code;

    if (output_open_beside(&output, to, &why) != 0)
        return complain(EXIT_CODE_FILE, "%s", why.text);
    code = make_code_folder(convert);
    if (!code)
        code = read_files(paths, count, files);
    if (!code)
        code = give_up_rights(convert, &output);
    if (!code)
        code = load_images(convert);
    if (!code && count == 1 && ptd_perf_detect(files[0].data, files[0].len))
        code = convert_perf(paths[0], &files[0], &output);
    else if (!code)
        code = convert_raw(convert, paths, files, count, &output);
    output_drop(&output);
    free_files(files, count);
    return code;
}

static int run(int argc, char **argv)
{
    struct convert *convert = calloc(1, sizeof(*convert));
    int code;

    if (!convert || !(convert->files = code_files_new(CODE_BYTES_MAX))) {
        free(convert);
        return no_memory();
    }
    convert->name = "vpt";
    convert->pid = 1;
    code = parse(argc, argv, convert);
    if (code)
        code--;
    else
        code = convert_files(convert, argv + optind, (size_t)(argc - optind - 1), argv[argc - 1]);
    for (size_t i = 0; i < MAPS_MAX; i++)
        free(convert->names[i]); /* copies of a map share its name */
    for (size_t i = 0; i < TRACES_MAX; i++)
        bytes_free(&convert->logs[i]);
    flat_code_free(convert->flat);
    free(convert->code_path);
    code_files_free(convert->files);
    free(convert);
    return code;
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "A file cannot be read or written."},
    {0},
};

const struct subcommand command_convert = {
    .name = "convert",
    .about = "write a trace as a perf.data",
    .synopsis = "[OPTION...] TRACE... OUT",
    .text = "Writes the packets of TRACE into OUT, a perf.data that 'perf script --itrace=...' "
            "decodes. TRACE is raw Intel PT, or a perf.data (compressed, or from a pipe), which is "
            "laid out anew. The code of a raw trace is named by TRACE.json, or by --image options. "
            "Several raw traces become as many threads, each a process of its own.",
    .options = options_of_convert,
    .exits = exits,
    .run = run,
};
