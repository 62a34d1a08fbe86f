/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ask --can-demangle | --can-unpack | --can-tell-lines: whether this build can.
 * ask [--debug-dir DIR] [--cache DIR] [--no-demangle] [--lines] FILE: reads addresses from standard
 * input, hexadecimal and one a line, and prints what vpt knows of each in FILE, "ADDRESS OFFSET
 * NAME", for a script that compares it with what other programs say. "-" stands for a name that is
 * not known. With --lines it prints functions and lines, as addr2line -afi does.
 */
#include "common/say.h"
#include "symbols/demangle.h"
#include "symbols/mini.h"
#include "trace/code-files.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct asked {
    struct debug_places places;
    struct code_files *files;
    struct ptd_image *image;
    struct shown_names *names;
    bool lines;
};

static void answer(const struct asked *asked, uint64_t address)
{
    uint64_t offset = 0;
    const char *const name =
        shown_name(asked->names, ptd_image_symbol(asked->image, 0, address, &offset));

    printf("%" PRIx64 " %" PRIx64 " %s\n", address, offset, name ? name : "-");
}

static void answer_lines(const struct asked *asked, uint64_t address)
{
    struct source_frame frames[FRAMES_MAX];
    const size_t count = code_files_sources(asked->files, asked->image, 0, address, frames);

    printf("%#" PRIx64 "\n", address);
    for (size_t i = 0; i < count; i++) {
        const char *const function = shown_name(asked->names, frames[i].function);

        printf("%s\n%s:%u\n", function ? function : "??", frames[i].file ? frames[i].file : "??",
               frames[i].line);
    }
}

static int answer_all(struct asked *asked, const char *path)
{
    const struct file_name name = {.path = path, .by_user = true};
    struct reason why;
    uint64_t address;

    if (code_files_add_elf(asked->files, &name, 0, PTD_ANY_CR3, asked->image, &why) != 0)
        return complain(EXIT_CODE_FILE, "%s", why.text);
    while (scanf("%" SCNx64, &address) == 1)
        (asked->lines ? answer_lines : answer)(asked, address);
    return EXIT_CODE_OK;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"debug-dir", required_argument, NULL, 'd'}, {"cache", required_argument, NULL, 'c'},
        {"no-demangle", no_argument, NULL, 'm'},     {"can-demangle", no_argument, NULL, 'D'},
        {"can-unpack", no_argument, NULL, 'U'},      {"can-tell-lines", no_argument, NULL, 'L'},
        {"lines", no_argument, NULL, 'l'},           {0},
    };
    struct asked asked = {.files = code_files_new(CODE_BYTES_MAX),
                          .image = ptd_image_new(),
                          .names = shown_names_new()};
    int option, code;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'D')
            return !demangle_is_there();
        if (option == 'U')
            return !mini_is_there();
        if (option == 'L')
            return !dwarf_is_there();
        if (option == 'd') {
            asked.places.folder = optarg;
        } else if (option == 'c') {
            asked.places.cache = optarg;
        } else if (option == 'l') {
            asked.lines = true;
        } else if (option == 'm') {
            shown_names_free(asked.names);
            asked.names = NULL;
        } else {
            return EXIT_CODE_USAGE;
        }
    }
    if (optind + 1 != argc || !asked.files || !asked.image)
        return EXIT_CODE_USAGE;
    code_files_complete(asked.files, &asked.places);
    if (!code_files_keep_sources(asked.files))
        return EXIT_CODE_HOST;
    code = answer_all(&asked, argv[optind]);
    ptd_image_free(asked.image);
    code_files_free(asked.files);
    shown_names_free(asked.names);
    return code;
}
