/* SPDX-License-Identifier: BSD-3-Clause */
/* TRACE.json, what a decoder needs besides the packets of TRACE (docs/trace-files.md). */
#ifndef VMM_SIDECAR_H
#define VMM_SIDECAR_H

#include "common/reason.h"
#include "ptdec_rtit.h"

#include <limits.h>

#define SIDECAR_VERSION 1 /* of the format, "vpt" in the file */

struct bytes;
struct code_files;
struct names_log;

struct sidecar {
    bool is_there;
    uint32_t errata;        /* of the processor, as ptd_errata() */
    bool defers_tips;       /* it says that the processor does */
    enum ptd_resync resync; /* what suits the processor */
    enum ptd_mode mode;     /* until packets say otherwise */
    struct ptd_time_config clocks;
    int processor; /* -1: it names none */
    bool is_rtit;
    struct ptd_rtit_config rtit; /* its mode is PTD_MODE_64 */
    struct reason why;           /* what is wrong, after a failure */

    const char *trace;
    char path[PATH_MAX];
    struct json_object *root, *images; /* NULL: not there */
};

struct sidecar_image {
    char path[PATH_MAX];
    uint64_t bias, cr3; /* cr3 PTD_ANY_CR3: of all */
};

/*
 * Reads and checks it; as of an empty one if there is none ("-", standard input, has none). trace
 * must outlive it. 0, or -errno and .why. To be closed in either case.
 */
int sidecar_open(struct sidecar *sidecar, const char *trace);
void sidecar_close(struct sidecar *sidecar);
/*
 * For what an RTIT trace cannot have; what says it. 0, or -errno and the reason: TRACE.json says
 * that it is one, or is bad.
 */
int sidecar_refuse_rtit(const char *trace, const char *what, struct reason *why);
/* The images that it names, of which there may be none. How many; -EBADMSG and .why: it has no
 * list. */
int sidecar_images(struct sidecar *sidecar);
/* 0, or -EBADMSG and .why. */
int sidecar_image(struct sidecar *sidecar, size_t index, struct sidecar_image *image);
/* The name of the log of code that it names, as it says it; NULL: none. */
const char *sidecar_code_log(const struct sidecar *sidecar);
/* Its bytes, to be freed; none if it names no log. 0, or -errno and .why. */
int sidecar_read_code_log(struct sidecar *sidecar, struct code_files *files, struct bytes *log);
/* The map file that TRACE.json names, which stands beside the trace. False: none. */
bool sidecar_map(const char *trace, char path[PATH_MAX]);
/*
 * All of its code into image: the images and the log, or the log alone. Names are those of files
 * beside the trace, or absolute; images are ELF files. 0, or -errno and .why.
 */
int sidecar_add_images(struct sidecar *sidecar, struct code_files *files, struct ptd_image *image);
int sidecar_add_code_log(struct sidecar *sidecar, struct code_files *files,
                         struct ptd_image *image);

/* The log of names beside the trace; NULL: it names none. 0, or -errno and .why. */
int sidecar_read_names(struct sidecar *sidecar, struct code_files *files, struct names_log **log);

/* ---- Writing (sidecar-write.c) ---- */

/* What a run knows of a trace. */
struct sidecar_facts {
    const char *profile;
    int processor;                   /* -1: the only one */
    uint8_t family, model, stepping; /* whose errata the trace may have; 0: nobody's */
    struct ptd_time_config clocks;
    const struct ptd_rtit_config *rtit; /* NULL: of PT */
    bool deferred_tips;                 /* the processor may defer TIPs */
};

/* Without images; to be put. NULL: no memory. */
struct json_object *sidecar_new(const struct sidecar_facts *facts);
/* Paths become absolute, where there are such files. 0 or -ENOMEM, also if object is NULL. */
int sidecar_put_path(struct json_object *object, const char *path);
int sidecar_put_image(struct json_object *root, const char *path, const char *name,
                      const uint64_t *cr3);
/* Names a map in TRACE.json, which is there, as a file beside the trace. 0, or -errno and the
 * reason. */
int sidecar_name_map(const char *trace, const char *map, struct reason *why);
/* Takes a log of names that tells nothing away from a trace, if it has one. The same. */
int sidecar_drop_names(const char *trace, struct reason *why);

#endif
