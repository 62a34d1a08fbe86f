/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of options that several commands have. */
#include "cli/values.h"
#include "common/number.h"
#include "common/say.h"

int option_number(const char *option, const char *text, uint64_t *value)
{
    if (parse_number(text, value))
        return 0;
    return complain(EXIT_CODE_USAGE, "%s takes a number, not '%s'", option, text);
}

int option_bound(const char *option, const char *text, struct bound *bound)
{
    if (bound_parse(text, bound))
        return 0;
    return complain(EXIT_CODE_USAGE, "%s takes OFFSET, tsc:TICKS or time:SECONDS, not '%s'", option,
                    text);
}

int check_window(const struct window *window)
{
    return window_is_valid(window) ? 0 : complain(EXIT_CODE_USAGE, "--to is in front of --from");
}

void note_window(const struct window *window, bool is_reached, const char *name)
{
    if (window->from.kind != BOUND_NONE && !is_reached)
        (void)complain(EXIT_CODE_OK, "%s: it ends in front of --from", name);
}
