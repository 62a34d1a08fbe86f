/* SPDX-License-Identifier: BSD-3-Clause */
/* The sandbox of the subcommands. */
#include "cli/guard.h"
#include "common/say.h"

#include <stdio.h>
#include <stdlib.h>

void guard_allow_sidecar(struct sandbox *sandbox, const char *trace)
{
    char *path;

    if (asprintf(&path, "%s.json", trace) < 0)
        return;
    sandbox_allow(sandbox, path);
    free(path);
}

int guard_enter(struct sandbox *sandbox, bool is_off)
{
    struct reason why = {0};
    const int error = is_off ? 0 : sandbox_enter(sandbox, &why);

    sandbox_free(sandbox);
    return error ? complain(EXIT_CODE_HOST, "%s", why.text) : 0;
}
