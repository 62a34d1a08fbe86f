/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The subcommands, one file each; argv[0] is its name. They return an exit code (common/say.h).
 */
#ifndef VMM_COMMANDS_H
#define VMM_COMMANDS_H

/* What getopt_long() gave is no option, or one without its value; argv[0] is the command. A usage
 * error. */
int bad_option(int option, char *const *argv);

int cmd_run(int argc, char **argv);
int cmd_qemu(int argc, char **argv);
int cmd_capture(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_decode(int argc, char **argv);
int cmd_index(int argc, char **argv);
int cmd_parts(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_profiles(int argc, char **argv);

#endif
