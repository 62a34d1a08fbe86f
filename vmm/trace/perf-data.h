/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.data in the program: the code of a process from the files that it mapped.
 */
#ifndef VMM_PERF_DATA_H
#define VMM_PERF_DATA_H

#include "common/bytes.h"
#include "common/reason.h"
#include "trace/scratch.h"
#include "ptdec.h"
#include "ptdec_perf.h"

struct code_files;
struct jitdump;

struct code_options {
    struct code_files *files; /* where the code is loaded to */
    const char *symfs;        /* the folder that holds the files of the traced machine; or NULL */
    const char *vmlinux;      /* the kernel with its code; or NULL */
    const char *cache;        /* perf's copies of files, by build id; NULL: ~/.debug */
    const char *raw;          /* a file or folder, as maps name it, that need not be ELF; or NULL */
    const char *jit_maps;     /* the folder with perf-PID.map; or NULL */
    const char *kcore;        /* the folder with copies of kcore and kallsyms; or NULL */
    remark_fn remark;         /* NULL: nobody is told */
};

/*
 * Where a perf.data is, and what stands beside it; all of it is to be freed. What is not there is
 * NULL.
 */
struct perf_data_place {
    char *file;  /* with the records */
    char *kcore; /* a folder with copies of kcore and kallsyms */
    char *files; /* a folder with copies of files, as --buildid-dir has them */
    char *map;   /* a map file */
};

/*
 * A perf.data may be a folder (perf record --kcore), and that may stand in one of vpt record, which
 * says more. Of anything else, .file is path itself. 0, or -errno and the reason.
 */
int perf_data_locate(const char *path, struct perf_data_place *place, struct reason *why);
void perf_data_place_free(struct perf_data_place *place);

/*
 * Opens a perf.data that holds Intel PT. 0 and *session, or -errno and the reason. Records that end
 * early, and what was lost while recording, are remarked. scratch keeps copies of long traces, and
 * outlives the session; NULL: all are in memory.
 */
int perf_data_open(const char *path, const struct bytes *file, struct scratch *scratch,
                   remark_fn tell, struct ptd_perf_session **session, struct reason *why);
/* A remark if code of the kernel ran that nobody gave. */
void perf_data_warn_kernel(const char *path, const struct ptd_perf_session *session,
                           const struct code_options *options);
/*
 * Adds the code of a process (UINT32_MAX: of the kernel) to image, for cr3: that of the ELF files
 * that it mapped. One that is not there, or not what ran, is remarked. 0; -errno and the reason if
 * there is no memory, or what the user named cannot be used.
 */
int perf_data_load_code(const struct ptd_perf_session *session, uint32_t pid,
                        const struct code_options *options, struct ptd_image *image, uint64_t cr3,
                        struct reason *why);
/*
 * What the run time of a process wrote down of code that it made: the file jit-PID.dump, which the
 * process mapped so that perf learns of it. *dump is NULL if there is none, or none that can be
 * used, which is remarked. 0, or -ENOMEM and the reason.
 */
int perf_data_jitdump(const struct ptd_perf_session *session, uint32_t pid,
                      const struct code_options *options, const struct jitdump **dump,
                      struct reason *why);
/* As above, but of one map alone. */
int perf_data_load_map(const struct ptd_perf_map *map, const struct code_options *options,
                       struct ptd_image *image, uint64_t cr3, struct reason *why);

/* ---- Code that changes (perf-code.c) ---- */

/*
 * Changes of code that a perf.data tells of: maps that take the place of others, patches, and code
 * that a process made in place of other code.
 */
struct code_changes;

/* NULL: no memory. */
struct code_changes *code_changes_new(const struct ptd_perf_session *session,
                                      const struct code_options *options);
void code_changes_free(struct code_changes *changes);
/* Adds those of a process (UINT32_MAX: of the kernel), whose code is that of cr3. False: no memory.
 */
bool code_changes_add(struct code_changes *changes, uint32_t pid, uint64_t cr3);

/* One trace on its way, and its code at that place. */
struct code_timeline;

/*
 * base has all code of the session, and outlives the object as changes do. 0; *timeline is NULL if
 * nothing changes in this trace. Or -errno and the reason.
 */
int code_timeline_new(struct code_changes *changes, const struct bytes *trace,
                      const struct ptd_image *base, struct code_timeline **timeline,
                      struct reason *why);
void code_timeline_free(struct code_timeline *timeline);
const struct ptd_image *code_timeline_image(const struct code_timeline *timeline);
/*
 * Where the code changes next, for ptd_flow_next_before() or ptd_flow_run_before() over this trace
 * and image; UINT64_MAX: nowhere.
 */
uint64_t code_timeline_place(const struct code_timeline *timeline);
/* It changes as it does there. False: it cannot, and the flow has to end. */
bool code_timeline_change(struct code_timeline *timeline);
/* How often functions of user code have got other names, for struct out_thread. */
const uint64_t *code_timeline_renames(const struct code_timeline *timeline);
/* 0, or -errno and the reason if code could not be changed: then the flow ended there. */
int code_timeline_result(const struct code_timeline *timeline, struct reason *why);

#endif
