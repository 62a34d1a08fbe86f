/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/names-out.h"
#include "common/say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const endings[NAMES_OUTPUTS] = {".map", ".kallsyms", ".vdso", ".symbols"};

const char *last_part(const char *path)
{
    const char *const slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

int names_out_open(struct names_out *out, const char *base)
{
    struct reason why = {0};

    for (unsigned i = 0; i < NAMES_OUTPUTS; i++) {
        int error;

        if (asprintf(&out->paths[i], "%s%s", base, endings[i]) < 0) {
            out->paths[i] = NULL;
            return no_memory();
        }
        error = output_open_beside(&out->outputs[i], out->paths[i], &why);
        if (error)
            return complain_of(error, &why);
    }
    return 0;
}

void names_out_allow(const struct names_out *out, struct sandbox *sandbox)
{
    for (unsigned i = 0; i < NAMES_OUTPUTS; i++)
        if (out->outputs[i].rename_to)
            sandbox_allow_output(sandbox, out->outputs[i].rename_to);
}

/* A guest need not have a vDSO, nor files with symbols. 0 or -errno. */
static int close_all(struct names_out *out, const struct names_sum *sum, struct reason *why)
{
    int error = 0;

    if (sum->vdso_bytes == 0)
        output_drop(&out->outputs[NAMES_VDSO]);
    if (sum->file_symbols == 0)
        output_drop(&out->outputs[NAMES_SYMBOLS]);
    for (unsigned i = 0; !error && i < NAMES_OUTPUTS; i++)
        if (out->outputs[i].is_open)
            error = output_close(&out->outputs[i], why);
    return error;
}

int names_out_write(struct names_out *out, struct guest_names *names,
                    const struct linux_guest *guest, const char *core)
{
    const struct names_files files = {core, last_part(out->paths[NAMES_KALLSYMS]),
                                      last_part(out->paths[NAMES_VDSO]),
                                      last_part(out->paths[NAMES_SYMBOLS])};
    const struct names_outputs outputs = {
        .map = &out->outputs[NAMES_MAP],
        .kallsyms = &out->outputs[NAMES_KALLSYMS],
        .vdso = &out->outputs[NAMES_VDSO],
        .symbols = &out->outputs[NAMES_SYMBOLS],
    };
    struct reason why = {0};
    int error = names_write(names, guest, &files, &outputs, &why);

    if (!error)
        error = close_all(out, &names->sum, &why);
    return complain_of(error, &why);
}

void names_out_free(struct names_out *out)
{
    for (unsigned i = 0; i < NAMES_OUTPUTS; i++) {
        output_drop(&out->outputs[i]);
        free(out->paths[i]);
        out->paths[i] = NULL;
    }
}
