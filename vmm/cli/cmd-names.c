/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt names: who and what a Linux guest's memory names, as a map file for the other commands.
 */
#include "cli/commands.h"
#include "cli/guard.h"
#include "cli/names-out.h"
#include "common/escape.h"
#include "common/json.h"
#include "common/open.h"
#include "common/say.h"
#include "linux/core.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct names_options {
    const char *domain, *uri, *socket, *out;
    bool pause, json, no_sandbox;
};

static const struct option_row options_of_names[] = {
    {.name = "domain",
     .value = "NAME",
     .group = "A guest that runs, instead of CORE",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct names_options, domain),
     .help = "The guest is this domain of libvirt (docs/libvirt.md)."},
    {.name = "connect",
     .value = "URI",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct names_options, uri),
     .help = "The connection to libvirt.",
     .fallback = "libvirt's own"},
    {.name = "qmp",
     .value = "SOCKET",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct names_options, socket),
     .help = "The guest's QEMU has its monitor here: -qmp unix:SOCKET,server,nowait."},
    {.name = "pause",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct names_options, pause),
     .help = "Stops the guest while it is looked at, so that all is told of one moment."},
    {.name = "out",
     .letter = 'o',
     .group = "What is written",
     .kind = OPTION_TEXT,
     .value = "FILE",
     .offset = offsetof(struct names_options, out),
     .help = "Writes FILE.map, FILE.kallsyms, FILE.symbols and FILE.vdso.",
     .fallback = "CORE, or the domain's name"},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct names_options, json),
     .help = "Prints what was found as a JSON object."},
    {.name = "no-sandbox",
     .group = "Safety",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct names_options, no_sandbox),
     .help = NO_SANDBOX_HELP},
    {0},
};

/* ---- What was found ---- */

static void print_text(const struct linux_guest *guest, const struct names_sum *sum)
{
    struct escaped room;

    printf("Linux %s\n", escaped(guest->info.release, &room));
    printf("kernel     %" PRIu64 " symbols\n", sum->symbols);
    printf("modules    %" PRIu64 ", %" PRIu64 " symbols\n", sum->modules, sum->module_symbols);
    printf("code made  %" PRIu64 " of BPF, %" PRIu64 " of ftrace\n", sum->bpf, sum->ftrace);
    printf("processes  %" PRIu64 ", %" PRIu64 " threads\n", sum->processes, sum->threads);
    printf("files      %" PRIu64 " mappings with code, %" PRIu64 " with a build id, %" PRIu64
           " symbols\n",
           sum->files, sum->build_ids, sum->file_symbols);
}

static void print_json(const struct linux_guest *guest, const struct names_sum *sum)
{
    json_object *const line = json_object_new_object();
    struct escaped room;

    (void)json_add(line, "release", json_object_new_string(escaped(guest->info.release, &room)));
    json_add_number(line, "symbols", sum->symbols);
    json_add_number(line, "modules", sum->modules);
    json_add_number(line, "module_symbols", sum->module_symbols);
    json_add_number(line, "bpf", sum->bpf);
    json_add_number(line, "ftrace", sum->ftrace);
    json_add_number(line, "processes", sum->processes);
    json_add_number(line, "threads", sum->threads);
    json_add_number(line, "files", sum->files);
    json_add_number(line, "build_ids", sum->build_ids);
    json_add_number(line, "file_symbols", sum->file_symbols);
    json_print(line, JSON_C_TO_STRING_PLAIN);
}

static void print_sum(const struct names_options *options, const struct linux_guest *guest,
                      const struct names_sum *sum)
{
    if (options->json)
        print_json(guest, sum);
    else
        print_text(guest, sum);
}

/* ---- A dump ---- */

/* From here on, what somebody else wrote is parsed. 0 or an exit code. */
static int give_up_rights(const struct names_options *options, const struct names_out *out)
{
    struct sandbox sandbox = {0};

    names_out_allow(out, &sandbox);
    return guard_enter(&sandbox, options->no_sandbox);
}

/* named: as the map calls the dump. */
static int names_of(const struct names_options *options, struct names_out *out,
                    const struct core *core, const char *path, const char *named)
{
    const struct guest_source source = core_source(core);
    struct guest_names names = {0};
    struct linux_guest guest = {0};
    struct reason why = {0};
    int error = guest_open(&guest, &source, &why), code;

    if (error) {
        code = complain(exit_code_of(error), "%s: %s", path, why.text);
    } else {
        names_remark_lacks(&guest, say_remark);
        error = names_look(&names, &guest, say_remark, &why);
        code = error ? complain_of(error, &why) : names_out_write(out, &names, &guest, named);
        if (!code)
            print_sum(options, &guest, &names.sum);
    }
    guest_names_free(&names);
    guest_close(&guest);
    return code;
}

static int names_in_core(const struct names_options *options, struct names_out *out, int fd,
                         const char *path, const char *named)
{
    struct core core = {0};
    struct reason why = {0};
    const int error = core_open(&core, fd, path, &why);
    const int code = error ? complain_of(error, &why) : names_of(options, out, &core, path, named);

    core_close(&core);
    return code;
}

static int names_in_file(const struct names_options *options, const char *path)
{
    const struct file_name name = {.path = path, .by_user = true};
    struct names_out out = {0};
    struct reason why = {0};
    int fd = open_named(&name, &why), code;
    /* A map names files beside it, or where they are. */
    char *const named = options->out ? realpath(path, NULL) : strdup(last_part(path));

    if (fd < 0)
        code = complain_of(fd, &why);
    else if (!named)
        code = no_memory();
    else
        code = names_out_open(&out, options->out ? options->out : path);
    if (!code)
        code = give_up_rights(options, &out);
    if (!code)
        code = names_in_core(options, &out, fd, path, named);
    names_out_free(&out);
    free(named);
    if (fd >= 0)
        (void)close(fd);
    return code;
}

/* ---- A guest that runs ---- */

static int names_of_live(const struct names_options *options, struct names_out *out,
                         struct live *live)
{
    const struct guest_source source = live_source(live);
    struct guest_names names = {0};
    struct linux_guest guest = {0};
    struct reason why = {0};
    int error = options->pause ? live_stop(live, &why) : 0, code = 0;

    if (!error)
        error = guest_open(&guest, &source, &why);
    if (error && live->lost.text[0])
        error = reason_set(&why, -EREMOTEIO, "%s", live->lost.text);
    if (!error) {
        names_remark_lacks(&guest, say_remark);
        error = names_look_live(&names, &guest, live, say_remark, &why);
    }
    live_go(live);
    if (!error)
        code = names_out_write(out, &names, &guest, NULL);
    if (!error && !code)
        print_sum(options, &guest, &names.sum);
    guest_names_free(&names);
    guest_close(&guest);
    return error ? complain_of(error, &why) : code;
}

static int names_at_monitor(const struct names_options *options, struct names_out *out,
                            struct monitor *monitor)
{
    struct live live;
    struct reason why = {0};
    const int error = live_open(&live, monitor, &why);
    const int code = error ? complain_of(error, &why) : names_of_live(options, out, &live);

    live_close(&live);
    return code;
}

static int names_in_guest(const struct names_options *options)
{
    struct names_out out = {0};
    struct monitor monitor;
    int code = names_out_open(&out, options->out ? options->out : options->domain);

    if (code) {
        ;
    } else if (options->domain ? monitor_open_domain(&monitor, options->uri, options->domain)
                               : monitor_open_socket(&monitor, options->socket)) {
        code = names_at_monitor(options, &out, &monitor);
        monitor_close(&monitor);
    } else {
        code = complain(EXIT_CODE_HOST, "%s", monitor.why);
    }
    names_out_free(&out);
    return code;
}

/* ---- Options ---- */

static int check_options(const struct names_options *options, int files)
{
    const bool is_live = options->domain || options->socket;

    if (options->domain && options->socket)
        return complain(EXIT_CODE_USAGE, "either --domain or --qmp");
    if (options->uri && !options->domain)
        return complain(EXIT_CODE_USAGE, "--connect is for --domain");
    if (options->pause && !is_live)
        return complain(EXIT_CODE_USAGE, "--pause is for --domain and --qmp");
    if (is_live && files)
        return complain(EXIT_CODE_USAGE, "a guest that runs needs no core dump");
    if (is_live && !options->out && (!options->domain || strchr(options->domain, '/')))
        return complain(EXIT_CODE_USAGE, "--out says where the names of this guest go");
    if (!is_live && files != 1)
        return complain(EXIT_CODE_USAGE, "vpt names takes one core dump; see vpt names --help");
    return 0;
}

static int run(int argc, char **argv)
{
    struct names_options options = {0};
    int code = options_parse(&command_names, argc, argv, &options);

    if (code)
        return code - 1;
    code = check_options(&options, argc - optind);
    if (code)
        return code;
    return optind < argc ? names_in_file(&options, argv[optind]) : names_in_guest(&options);
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "There is no Linux, or a file cannot be read or written."},
    {EXIT_CODE_HOST, "There is no memory, no such guest, or its QEMU cannot be asked."},
    {0},
};

const struct subcommand command_names = {
    .name = "names",
    .about = "name what runs in a Linux guest, from its memory or a dump of it",
    .synopsis = "[OPTION...] (CORE | --domain NAME | --qmp SOCKET)",
    .text =
        "Reads an ELF core of a Linux guest, as QEMU's dump-guest-memory and 'virsh dump "
        "--memory-only' write it, or the memory of one that runs on the QEMU of 'make qemu', and "
        "writes a map file for vpt decode and vpt parts: processes "
        "with their page tables, threads and mapped files, and beside it the names of the "
        "kernel and its modules, and the guest's vDSO. The guest needs no preparation, and no "
        "file of it is needed: all of it stands in its memory.",
    .document = "names",
    .options = options_of_names,
    .exits = exits,
    .run = run,
};
