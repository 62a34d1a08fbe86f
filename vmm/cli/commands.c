/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of subcommands, in the order in which they are shown. */
#include "cli/commands.h"

#include <string.h>

const struct subcommand *const commands[] = {
    &command_run,         &command_qemu,     &command_trace,
    &command_capture,     &command_record,   &command_check,
    &command_dump,        &command_decode,   &command_report,
    &command_annotate,    &command_coverage, &command_index,
    &command_parts,       &command_demux,    &command_shard,
    &command_merge,       &command_convert,  &command_names,
    &command_guest_tests, &command_profiles, NULL,
};

const struct subcommand *find_command(const char *name)
{
    for (size_t i = 0; commands[i]; i++) {
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    }
    return NULL;
}
