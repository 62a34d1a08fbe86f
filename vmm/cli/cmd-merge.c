/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt merge: the pieces of a trace that several processes decoded, put together.
 */
#include "cli/commands.h"
#include "common/say.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

struct merge_options {
    const char *folder;
    bool repeats;
};

static const struct option_row options_of_merge[] = {
    {.name = "shards",
     .value = "FOLDER",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct merge_options, folder),
     .help = "Where the pieces are.",
     .fallback = "TRACE.shards"},
    {.name = "repeat",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct merge_options, repeats),
     .help = "Decodes pieces that are missing. Without it, they are named."},
    {0},
};

/* The command again, with what says that it is to join pieces. */
static int run_command(const struct subcommand *command, const struct merge_options *options,
                       int argc, char **argv)
{
    char join[] = "--join", repeat[] = "--repeat", shards[] = "--shards";
    char **const words = calloc((size_t)argc + 5, sizeof(*words));
    int count = 0, code;

    if (!words)
        return no_memory();
    words[count++] = argv[0];
    words[count++] = join;
    if (options->repeats)
        words[count++] = repeat;
    if (options->folder) {
        words[count++] = shards;
        words[count++] = (char *)options->folder;
    }
    for (int i = 1; i < argc; i++)
        words[count++] = argv[i];
    code = command->run(count, words);
    free(words);
    return code;
}

static int run(int argc, char **argv)
{
    struct merge_options options = {0};
    const int code = options_parse(&command_merge, argc, argv, &options);
    const char *const name = !code && optind < argc ? argv[optind] : NULL;

    if (code)
        return code - 1;
    if (!name || (strcmp(name, "decode") != 0 && strcmp(name, "report") != 0))
        return complain(EXIT_CODE_USAGE,
                        "vpt merge takes decode or report, as its pieces were made; see vpt merge "
                        "--help");
    return run_command(find_command(name), &options, argc - optind, argv + optind);
}

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success."},
    {EXIT_CODE_USAGE, "Usage."},
    {EXIT_CODE_FILE, "A piece is missing, or is of another trace, command or version; or what the "
                     "command itself ends with."},
    {0},
};

const struct subcommand command_merge = {
    .name = "merge",
    .about = "put together what several machines decoded of a trace",
    .synopsis = "[OPTION...] decode|report [OPTION...] TRACE",
    .text = "Prints what the command would print, from the pieces that the same command has made "
            "with --shard I/N. A piece whose begin is not what the piece before it came to is "
            "decoded again.",
    .document = "shards",
    .options = options_of_merge,
    .exits = exits,
    .operand_ends_options = true,
    .run = run,
};
