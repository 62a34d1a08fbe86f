/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of the program `vpt` share: exit codes, the result of a run, the files it leaves.
 */
#ifndef VMM_H
#define VMM_H

#include "ptdec.h"
#include "vpt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes of the program (docs/vpt.md). */
enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_GUEST_FAILED = 1, /* the guest ended with a status other than 0 */
    EXIT_CODE_USAGE = 2,
    EXIT_CODE_FILE = 3,  /* an image or file is missing or not what it should be */
    EXIT_CODE_HOST = 4,  /* the host lacks something: KVM, the lab's files, memory */
    EXIT_CODE_CRASH = 5, /* triple fault, internal error, or the source lost track */
    EXIT_CODE_TIMEOUT = 6,
    EXIT_CODE_MISMATCH = 7, /* --verify: the decoded path is not the executed one */
};

/* One line on standard error, "vpt: ...". Returns code. */
int complain(enum exit_code code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Says what -errno means for a file; that there is no memory. An exit code. */
int file_error(const char *name, int error);
int no_memory(void);

/* What getopt_long() gave is no option, or one without its value; argv[0] is the command. A usage
 * error. */
int bad_option(int option, char *const *argv);

/* A growing array of bytes. */
struct bytes {
    uint8_t *data;
    size_t len, capacity;
};
/* False: no memory; nothing changed. */
bool bytes_add(struct bytes *bytes, const void *data, size_t len);
void bytes_free(struct bytes *bytes);

/* A number as C writes it, and nothing else. */
bool parse_number(const char *text, uint64_t *value);
/* A number of bytes in this base, with a suffix K, M or G, up to max. *end_of: behind it. */
bool parse_bytes(const char *text, int base, uint64_t max, const char **end_of, uint64_t *bytes);
/* The same of an option's value. 0, or a usage error that is said. */
int option_number(const char *option, const char *text, uint64_t *value);
/* "FILE" or "FILE@BIAS": the file, to be freed (NULL: no memory), and the bias, else 0. */
char *split_bias(const char *argument, uint64_t *bias);

struct json_object;
/* A member that is a number; 0 if there is none. */
int64_t json_number(struct json_object *object, const char *key);
void json_add_number(struct json_object *object, const char *key, uint64_t value);
/* A text that is one JSON value, to be put. NULL, and in why what is wrong. */
struct json_object *json_parse(const char *text, size_t len, char *why, size_t why_bytes);
/* Prints it, with json-c's flags and a newline, and frees it. */
void json_print(struct json_object *object, int flags);

#define MAX_PROCESSES 16
#define NOTE_NAME     32
#define MAX_CPUS      8

/* An address space that the guest gave a name (docs/guests.md, note 2). */
struct process {
    uint64_t cr3;
    char name[NOTE_NAME + 1], image[NOTE_NAME + 1];
};

/* How user mode can be single-stepped. */
enum step_user {
    STEP_USER_NOT,
    STEP_USER_NATIVE,     /* KVM does it */
    STEP_USER_BY_HANDLER, /* by way of the guest's #DB handler */
};

struct run_options {
    const char *image;
    const char *profile;
    const char *append;
    const char *trace_out, *path_out;
    uint64_t mem_bytes;
    unsigned cpus;                     /* 0 counts as 1 */
    uint64_t absent_gpa, absent_bytes; /* memory that nobody has touched yet */
    uint32_t tsc_khz;                  /* 0: the host's */
    unsigned timeout_s;
    unsigned steps_per_s; /* what the source of events manages here; told to the guest */
    bool keep_path;       /* record the executed path */
    bool verify, lab, json;
    enum step_user step_user;
    const char *save_to; /* leave the running guest in this file, after so many steps */
    uint64_t save_after;
    const char *restore;   /* go on with the guest of this file */
    uint32_t rtit_errata;  /* VPT_RTIT_E1 and so on */
    const char *record_to; /* inside the lab: the archive to leave instead of a report */
};

/* What one processor left behind. */
struct cpu_result {
    struct bytes trace;  /* packet bytes as the model wrote them */
    struct bytes handed; /* trace bytes that the guest handed over, note 1 */
    struct bytes path;   /* docs/trace-files.md */
    uint64_t packets, interrupts, exceptions, pmis;
    uint64_t dropped_bytes;
    uint64_t output_faults; /* stores of output that found their page absent */
    unsigned mtc_freq;      /* RTIT_CTL.MTCFreq, as last used */
    bool is_rtit;           /* the trace is RTIT's, by these settings */
    struct ptd_rtit_config rtit;
};

/* What a run left behind. */
struct run_result {
    enum exit_code code;
    char why[256]; /* one line, when code says that something went wrong */
    uint32_t guest_status;
    bool saved;        /* the guest goes on elsewhere (--save-to) */
    bool needs_lab;    /* ended early: it traces user mode, which this KVM cannot step */
    char backend[256]; /* which, and why */
    struct process processes[MAX_PROCESSES];
    unsigned process_count;
    struct cpu_result cpus[MAX_CPUS];
    unsigned cpu_count; /* at least 1 as soon as something ran */
    uint64_t steps;     /* of all processors */
    double seconds;
};
void run_result_free(struct run_result *result);

/* ---- path.c: the executed path (docs/trace-files.md) ---- */

#define PATH_CR3_MARK (0x8000ull << 48)

/* Appends an instruction that ran under cr3; *last_cr3 begins as UINT64_MAX. False: no memory. */
bool path_add(struct bytes *path, uint64_t *last_cr3, uint64_t cr3, uint64_t ip);

/* ---- files.c: files, and trace files with their sidecars ---- */

#define SIDECAR_VERSION 1

/* Writes bytes to path. 0 or -errno. */
int write_file(const char *path, const void *data, size_t len);
/* Reads a whole file. 0 or -errno. */
int read_file(const char *path, struct bytes *bytes);
/* The name of a file of processor `index`: NAME itself for the first, then NAME.1, NAME.2, ... */
void cpu_file(const char *name, unsigned index, char *path, size_t path_bytes);
/*
 * Of each processor TRACE and TRACE.json, and TRACE.path (or options->path_out) if there is a path,
 * named as cpu_file() does. 0 or -errno.
 */
int trace_files_write(const char *trace, const struct run_options *options,
                      const struct vpt_caps *caps, const struct run_result *result);
/* The file `name` beside `file`. */
void beside(const char *file, const char *name, char *path, size_t path_bytes);

/* ---- rtit-trace.c: RTIT traces beside those of PT ---- */

/* "1,3" or "E1,E3" for the errata of RTIT v1.05, appendix E, and "none". */
bool rtit_errata_parse(const char *text, uint32_t *errata);
void rtit_errata_format(uint32_t errata, char *text, size_t text_bytes);
/* The settings of an RTIT trace (docs/trace-files.md). */
struct json_object *rtit_to_json(const struct ptd_rtit_config *config);
/* False: malformed. */
bool rtit_from_json(struct json_object *object, struct ptd_rtit_config *config);

/* One of the two flow decoders. */
struct trace_flow {
    struct ptd_flow *pt;
    struct ptd_rtit_flow *rtit;
};
/* Of an RTIT trace if rtit is not NULL. False: no memory. */
bool trace_flow_open(struct trace_flow *flow, const struct bytes *trace,
                     const struct ptd_image *image, const struct ptd_flow_config *config,
                     const struct ptd_rtit_config *rtit);
int trace_flow_next(struct trace_flow *flow, struct ptd_item *item);
void trace_flow_close(struct trace_flow *flow);

/* ---- report.c ---- */

/*
 * Decodes the trace, prints what was seen (or one JSON object), and with options->verify compares
 * the decoded path with the executed one. An exit code.
 */
int report(const struct run_options *options, const struct run_result *result);

/* ---- kvm/run.c, lab/lab.c: the backends ---- */

/* Runs the image on the KVM of this machine. Fills *result, also when it returns an error. */
void kvm_run(const struct run_options *options, const struct vpt_caps *caps,
             struct run_result *result);
/* 0, or -errno and in why what is wrong with the image. */
int image_check(const char *path, char *why, size_t why_bytes);
/* What has to be known of a saved guest before its machine can be made. */
struct saved_guest {
    char profile[64];
    uint64_t mem_bytes;
    unsigned cpus;
};
/* 0, or -errno and in why what is wrong with the file. */
int migrate_peek(const char *path, struct saved_guest *guest, char *why, size_t why_bytes);
/* Runs the image in the lab. */
void lab_run(const struct run_options *options, struct run_result *result);

/* What the KVM under us can do. */
struct probe {
    bool kvm, msr_exits, gp_injection, nmi, step_supervisor, exceptions;
    enum step_user step_user;
    unsigned steps_per_s;
    char why[256]; /* without kvm: why not */
};
void kvm_probe(struct probe *probe);

/* ---- lab/record.c: what goes from the lab to the outside ---- */

/* Writes the result as an archive to a file or block device. 0 or -errno. */
int record_write(const char *path, const struct run_result *result);
/* Reads it back from an open file. 0 or -errno. */
int record_read(int fd, struct run_result *result);
/* Its members, in an archive of others. False: no memory. */
bool record_add(struct bytes *archive, const struct run_result *result);
/* Takes a member of an archive. 1: it was the last that is needed; 0; or -errno. */
int record_member(struct run_result *result, const char *name, const uint8_t *data, size_t len);

/* ---- lab/cpio.c: archives in the newc format ---- */

/* Appends a file (or, with data NULL and mode a directory, a directory). False: no memory. */
bool cpio_add(struct bytes *archive, const char *name, uint32_t mode, const void *data, size_t len);
bool cpio_end(struct bytes *archive);
/*
 * The next member of an archive, at *pos, which moves on. 1: a member; 0: the end; -EBADMSG. name
 * and data point into the archive.
 */
int cpio_next(const struct bytes *archive, size_t *pos, const char **name, const uint8_t **data,
              size_t *len);

/* ---- cmd-*.c: one subcommand each; argv[0] is its name ---- */

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
