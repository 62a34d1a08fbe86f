/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What belongs to the program and is not in it: guest images, and the scripts that prepare the lab
 * and build QEMU.
 *
 * It stands in the first of these folders that has it: $VPT_DATA; ../share/vpt, as seen from the
 * folder of the program, where `make install` puts it; and .., the source tree of a program that
 * was built there and not installed.
 */
#ifndef VMM_DATA_H
#define VMM_DATA_H

#include <stdbool.h>
#include <stddef.h>

/* The path of a file of that name in the data. False: it is not there, or the path is too long. */
bool data_file(const char *name, char *path, size_t path_bytes);
/* The same of a program that is installed for vpt alone, in ../libexec/vpt. */
bool data_program(const char *name, char *path, size_t path_bytes);
/* The same of a guest image (msr-tests.elf), in the folders that hold them. */
bool data_image(const char *name, char *path, size_t path_bytes);
/*
 * A guest image as the user named it: the name itself, or a path of at most path_bytes if there is
 * no such file and a guest of the data is called so.
 */
const char *data_guest(const char *name, char *path, size_t path_bytes);
/* The folder of that name in the cache, which scripts fill: of the lab, of QEMU. */
void data_cache(const char *name, char *folder, size_t folder_bytes);
/*
 * How to make what is missing: "make TARGET" for who has the source tree, and with what is
 * installed the script of the data and the folder that it fills.
 */
void data_how(const char *target, const char *script, const char *folder, char *text,
              size_t text_bytes);

#endif
