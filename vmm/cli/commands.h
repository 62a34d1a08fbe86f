/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The subcommands, one file each. They return an exit code (common/say.h).
 */
#ifndef VMM_COMMANDS_H
#define VMM_COMMANDS_H

#include "cli/options.h"

extern const struct subcommand command_run, command_qemu, command_capture, command_record,
    command_check, command_dump, command_decode, command_index, command_parts, command_convert,
    command_names, command_profiles, command_shard, command_merge, command_report, command_annotate,
    command_guest_tests, command_demux, command_coverage, command_trace;

#endif
