/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files of virtual processors in a folder: V.C, with V.C.json and V.C.code beside it, where V
 * is the number of the VM, and C counts its virtual processors as they are seen.
 */
#ifndef VMM_DEMUX_FILES_H
#define VMM_DEMUX_FILES_H

#include "demux/demux.h"

struct demux_files {
    struct tenant_config config;     /* of a guest whose TSC is not scaled, and known */
    const char *profile;             /* the name of its processor */
    const char *out;                 /* the folder */
    unsigned vm;                     /* the only one that is wanted; 0: all */
    const struct ptd_time_vm *times; /* of VMCS pointers, as far as times are wanted */
    size_t time_count;
    size_t count;
    struct demux_file {
        unsigned vm, index;
        char *path;
        struct output trace, code;
        struct tenant tenant;
    } * all[DEMUX_TENANTS_MAX];
    struct reason why;
};

/*
 * Opens the files of a virtual processor; time is how its TSC differs, NULL: that is not known. 0,
 * or -errno and .why.
 */
int demux_files_add(struct demux_files *files, unsigned vm, unsigned index,
                    const struct ptd_time_vm *time, struct tenant **tenant);
/* Of struct demux_config: the same for each VMCS pointer. owner is a struct demux_files. */
int demux_files_found(void *owner, unsigned vm, uint64_t vmcs, const struct ptd_time_vm **time,
                      struct tenant **tenant);
/* Writes what is left, and TRACE.json of each. 0, or -errno and .why. */
int demux_files_write(struct demux_files *files);
/* Files that were not written go away. */
void demux_files_free(struct demux_files *files);

#endif
