/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files with code that one trace names: each is read once, whatever the number of its names and
 * maps, and all of them together stay within a budget of memory.
 */
#ifndef VMM_CODE_FILES_H
#define VMM_CODE_FILES_H

#include "common/open.h"
#include "ptdec.h"
#include "ptdec_perf.h"
#include "symbols/sources.h"

#define CODE_BYTES_MAX (UINT64_C(1) << 30) /* the budget, unless the user says otherwise */

struct code_files;
struct jitdump;

/* A part of an ELF file that is mapped executable. */
struct code_segment {
    uint64_t vaddr, offset, len_bytes;
};

/* An ELF file, as it was when it was first opened. */
struct code_file {
    const struct ptd_file *content;
    const struct code_segment *segments;
    size_t segment_count;
    uint8_t build_id[PTD_PERF_BUILD_ID_BYTES], build_id_bytes; /* 0: it has none */
};

/* A build id that a file must have, if it has any; NULL or .bytes 0: any will do. */
struct build_id {
    const uint8_t *id;
    uint8_t bytes;
};

/* NULL: no memory. Images that were given files of it are freed before it. */
struct code_files *code_files_new(uint64_t max_bytes);
void code_files_free(struct code_files *files);
/*
 * From here on, files have the names of their PLT and of their debug files too, which are looked
 * for in places; these outlive the object.
 */
void code_files_complete(struct code_files *files, const struct debug_places *places);
/* And what their code was made of can be told by code_files_sources(). False: no memory. */
bool code_files_keep_sources(struct code_files *files);
/*
 * The functions that the code at an address is from, with lines, as dwarf_file_frames() tells them;
 * 0: not known.
 */
size_t code_files_sources(struct code_files *files, const struct ptd_image *image, uint64_t cr3,
                          uint64_t ip, struct source_frame frames[FRAMES_MAX]);
/*
 * The name of the file that the code at an address is from, without its folders: "[kernel]" of a
 * kallsyms, and of a guest what it has mapped there. NULL: not known. Valid until the next call.
 */
const char *code_files_file_at(struct code_files *files, const struct ptd_image *image,
                               uint64_t cr3, uint64_t ip);
/* An ELF file as it stands in memory. */
struct code_module {
    const char *path;   /* as it was opened; valid as long as the files */
    uint64_t base, end; /* where its first page begins, and the byte behind its last */
};

/* The one that the code at an address is from. False: it is of none. */
bool code_files_module_at(const struct code_files *files, const struct ptd_image *image,
                          uint64_t cr3, uint64_t ip, struct code_module *module);
/* What names have from an address on is of the file with this path. False: no memory. */
bool code_files_call(struct code_files *files, const struct ptd_file *names, uint64_t from,
                     const char *path);
/*
 * An ELF file. 0 and *file; -errno and the reason: -ESTALE if the build
 * id is another one, -ENOEXEC if it is no ELF file of x86, -EFBIG if the budget does not allow it,
 * -ENOMEM, or why it cannot be read.
 */
int code_files_elf(struct code_files *files, const struct file_name *name,
                   const struct build_id *wanted, const struct code_file **file,
                   struct reason *why);
/* The same without content, unless it is there already: what the headers say. */
int code_files_look(struct code_files *files, const struct file_name *name,
                    const struct code_file **file, struct reason *why);
/* A file as code_files_elf() gives it, added to an image. */
int code_files_add_elf(struct code_files *files, const struct file_name *name, uint64_t bias,
                       uint64_t cr3, struct ptd_image *image, struct reason *why);
/*
 * The names of a kallsyms. -EBADMSG and the reason: a line is not one of kallsyms; those in front
 * of it are used.
 */
int code_files_add_kallsyms(struct code_files *files, const struct file_name *name, uint64_t cr3,
                            struct ptd_image *image, struct reason *why);
/*
 * The names of a file that is not here, from its debug file. len_bytes: of its code, as it is
 * mapped; *vaddr: the address that the first of them was linked for. 0, or -ENOENT.
 */
int code_files_names(struct code_files *files, const struct elf_id *id, uint64_t len_bytes,
                     const struct ptd_file **names, uint64_t *vaddr);
/* A jitdump (trace/jitdump.h), as long as files are there. 0; as jitdump_parse(), or as below. */
int code_files_jitdump(struct code_files *files, const struct file_name *name,
                       const struct jitdump **dump, struct reason *why);
/* All of a file, whatever it holds, to be freed by the caller; counted for good. */
int code_files_read(struct code_files *files, const struct file_name *name, struct bytes *bytes,
                    struct reason *why);
/* Whether it is asked for the first time about this text; true if there is no memory. */
bool code_files_is_news(struct code_files *files, const char *text);

#endif
