/* SPDX-License-Identifier: BSD-3-Clause */
/* A trace in pieces: names of files, and what was asked for. */
#include "cli/shards.h"
#include "view/piece.h"
#include "common/file.h"
#include "common/say.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMED_MAX 16u /* of those that are missing */

/* ---- The command ---- */

static bool add_word(char **text, const char *word)
{
    char *const before = *text;
    const bool is_good =
        asprintf(text, "%s%s%s", before ? before : "", before ? " " : "", word) >= 0;

    if (!is_good)
        *text = NULL;
    free(before);
    return is_good;
}

/* Options that say which piece, and nothing of what it has; how many words. */
static int words_of_shards(const char *word)
{
    static const char *const options[] = {"--shard", "--shards"};

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        const size_t len = strlen(options[i]);

        if (strcmp(word, options[i]) == 0)
            return 2;
        if (strncmp(word, options[i], len) == 0 && word[len] == '=')
            return 1;
    }
    return strcmp(word, "--join") == 0 || strcmp(word, "--repeat") == 0;
}

bool shards_take_command(struct shards *shards, int argc, char **argv)
{
    bool is_good = true;

    for (int i = 0; is_good && i < argc;) {
        const int skipped = words_of_shards(argv[i]);

        if (!skipped)
            is_good = add_word(&shards->command, argv[i]);
        i += skipped ? skipped : 1;
    }
    return is_good;
}

/* ---- Which ---- */

static bool parse_two(const char *text, const char *between, unsigned *number, unsigned *count)
{
    int len = 0;
    char form[32];

    (void)snprintf(form, sizeof(form), "%%5u%s%%5u%%n", between);
    return *text >= '1' && *text <= '9' &&
           sscanf(text, form, number, count, &len) == 2 && /* NOLINT */
           text[len] == '\0' && *number >= 1 && *number <= *count && *count <= SHARDS_MAX;
}

/* How many pieces there are to be. */
static void count_pieces(struct shards *shards)
{
    DIR *const dir = opendir(shards->folder);

    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        unsigned number, count;

        if (!parse_two(entry->d_name, "-of-", &number, &count))
            continue;
        shards->has_several = shards->has_several || (shards->count > 0 && shards->count != count);
        shards->count = count;
    }
    if (dir)
        (void)closedir(dir);
}

/* Which of them are missing. False: no memory. */
static bool find_missing(struct shards *shards)
{
    for (unsigned i = 1; i <= shards->count; i++) {
        char *const path = piece_path(shards->folder, i, shards->count);
        const size_t len = strlen(shards->numbers);

        if (!path)
            return false;
        if (access(path, F_OK) != 0 && shards->missing++ < NAMED_MAX)
            (void)snprintf(shards->numbers + len, sizeof(shards->numbers) - len, " %u", i);
        free(path);
    }
    return true;
}

int shards_check(const struct shards *shards)
{
    if (shards->word)
        return 0;
    if (shards->has_several)
        return complain(EXIT_CODE_FILE, "%s: there are pieces of several numbers of pieces",
                        shards->folder);
    if (shards->count == 0)
        return complain(EXIT_CODE_FILE, "%s: there is no piece of a trace", shards->folder);
    if (shards->missing == 0 || shards->repeats)
        return 0;
    return complain(EXIT_CODE_FILE,
                    "%s: %u of %u pieces are missing:%s%s; decode them, or take vpt merge --repeat",
                    shards->folder, shards->missing, shards->count, shards->numbers,
                    shards->missing > NAMED_MAX ? " ..." : "");
}

/* A view prints into its piece. */
static int open_piece(struct shards *shards, bool is_view)
{
    struct reason why = {0};
    char *path;
    int error;

    if (!parse_two(shards->word, "/", &shards->number, &shards->count))
        return complain(EXIT_CODE_USAGE, "--shard takes I/N, with I from 1 to N <= %u, not '%s'",
                        SHARDS_MAX, shards->word);
    error = ensure_folder(shards->folder);
    if (error)
        return file_error(shards->folder, error);
    path = piece_path(shards->folder, shards->number, shards->count);
    if (!path)
        return no_memory();
    error = output_open_beside(&shards->piece, path, &why);
    if (!error)
        error = output_write(&shards->piece, "", 0, &why);
    free(path);
    if (!error && is_view && dup2(shards->piece.fd, STDOUT_FILENO) < 0)
        error = reason_set(&why, -errno, "%s: %s", shards->folder, strerror(errno));
    return complain_of(error, &why);
}

int shards_begin(struct parsed *parsed, const char *trace)
{
    struct shards *const shards = &parsed->shards;

    if (!shards->word && !parsed->joins)
        return 0;
    if (!shards->folder) {
        if (asprintf(&parsed->shards_folder, "%s.shards", trace) < 0)
            return no_memory();
        shards->folder = parsed->shards_folder;
    }
    parsed->options.shards = shards;
    if (shards->word)
        return open_piece(shards, !parsed->options.format && parsed->options.view != VIEW_SUMMARY);
    count_pieces(shards);
    return find_missing(shards) ? 0 : no_memory();
}

bool shards_can_cut(const struct decode_options *options, const struct input *input)
{
    const char *const why =
        !input || !input->is_file                              ? "it is no file of one raw trace"
        : options->is_rtit                                     ? "it is a trace of RTIT"
        : options->format && !options->format->shards          ? "this form goes by all of a trace"
        : options->window.from.kind || options->window.to.kind ? "a part of it was asked for"
                                                               : NULL;

    if (why && options->shards->word)
        remark(say_remark, "the trace is not cut, since %s; vpt merge decodes all of it", why);
    return !why;
}

int shards_end(struct shards *shards, int code)
{
    struct reason why = {0};

    if (!shards->piece.is_open)
        return code;
    if (code == EXIT_CODE_OK)
        return complain_of(output_close(&shards->piece, &why), &why);
    output_drop(&shards->piece);
    return code;
}
