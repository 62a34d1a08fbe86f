/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes down who and what a Linux guest's memory names: a map file (docs/decoder.md), and the
 * names of its kernel in the form of /proc/kallsyms. What the guest says is shown as text of others
 * is (common/escape.h), and how much of it is believed has a bound.
 *
 * A guest is looked at once or several times, and what each look tells is put together: a process
 * that has ended since stays, and what is told anew takes the place of what was told before.
 */
#ifndef VMM_LINUX_NAMES_H
#define VMM_LINUX_NAMES_H

#include "common/output.h"
#include "common/table.h"
#include "linux/file-symbols.h"
#include "linux/guest.h"
#include "linux/live.h"

#define NAMES_BYTES_MAX      (256u << 20) /* of the map, while it is made */
#define NAMES_CODE_BYTES_MAX (128u << 20) /* of names of modules and of code that was made */
#define NAMES_FILES_MAX      (1u << 16)   /* of those that no process has mapped any more */
#define NAMES_LOOKS_MAX      4u           /* at a guest that changes meanwhile */

/* How many there were; of modules, BPF and ftrace, at the last look. */
struct names_sum {
    uint64_t symbols, modules, module_symbols, bpf, ftrace;
    uint64_t processes, threads, files, build_ids, file_symbols, vdso_bytes;
};

/* What all looks told. Begins as zeros. */
struct guest_names {
    struct json_object *processes; /* as the map has them, but for the kernel */
    struct json_object *files;     /* of no process that was seen, in the same form; or NULL */
    struct table caches;           /* those that were told, by their page caches */
    struct table roots;            /* where in it, by CR3: the index + 1, and what it costs */
    struct file_symbols symbols;
    struct names code; /* lines of kallsyms, but for those of the kernel itself */
    uint64_t code_bytes;
    struct bytes vdso;
    uint64_t vdso_image; /* address of what vdso is; 0: none so far */
    uint64_t held_bytes;
    struct names_sum sum;
    /* Of the last look. */
    bool is_whole; /* no list broke off, and nothing was left out */
    bool has_news; /* it told what was not known */
};

/* What the map says of the files beside it: their names, as they stand there. */
struct names_files {
    const char *core; /* the dump that has the guest's memory; NULL: there is none */
    const char *kallsyms, *vdso, *symbols;
};

/* A file that was mapped at some time, perhaps by a process that has ended. */
struct names_mapped {
    const char *path;
    uint64_t start, end, offset; /* of the mapping */
    uint64_t cache;              /* of the file, then */
    const uint8_t *build_id;     /* by which it is known again; not empty */
    size_t build_id_bytes;
};

/*
 * vdso takes the code that the kernel gives to its processes, and symbols an ELF file with the
 * names of functions in mapped files; each stays empty if there are none.
 */
struct names_outputs {
    struct output *map, *kallsyms, *vdso, *symbols;
};

/* Tells what cannot be told of a guest, and why. */
void names_remark_lacks(const struct linux_guest *guest, remark_fn tell);
/* Looks at all of a guest once. 0, or -errno and the reason. guest_names_free() at the end. */
int names_look(struct guest_names *names, const struct linux_guest *guest, remark_fn tell,
               struct reason *why);
/*
 * The same of a guest that runs, whose memory is live's: until a look is whole and tells nothing
 * new. 0, -EREMOTEIO: it could not be read to the end, and names has what was told up to there; or
 * -ENOMEM; and the reason.
 */
int names_look_live(struct guest_names *names, const struct linux_guest *guest, struct live *live,
                    remark_fn tell, struct reason *why);
/*
 * Writes all of it; guest is the kernel that it is of, whose memory is not read. 0, or -errno and
 * the reason; no output is closed.
 */
int names_write(struct guest_names *names, const struct linux_guest *guest,
                const struct names_files *files, const struct names_outputs *outputs,
                struct reason *why);
void guest_names_free(struct guest_names *names);

/*
 * Takes the functions of a file that is not mapped any more, if the guest still has it in memory.
 * 0; or -ENOMEM and the reason.
 */
int names_look_file(struct guest_names *names, const struct linux_guest *guest,
                    const struct names_mapped *mapped, struct reason *why);

/* ---- The parts of it (names-kallsyms.c, names-map.c) ---- */

/* Names of code that came after the kernel. */
int names_look_code(struct guest_names *names, const struct linux_guest *guest, remark_fn tell,
                    struct reason *why);
int names_write_kallsyms(const struct guest_names *names, const struct linux_guest *guest,
                         struct output *output, struct reason *why);
int names_look_processes(struct guest_names *names, const struct linux_guest *guest, remark_fn tell,
                         struct reason *why);
int names_write_map(const struct guest_names *names, const struct linux_guest *guest,
                    const struct names_files *files, struct output *output, struct reason *why);

#endif
