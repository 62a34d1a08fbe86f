/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which virtual processors there are in a perf.data, and on which of the host's processors each may
 * have run: a virtual processor is a thread of the host, as the map says, or else a VMCS pointer.
 */
#ifndef VMM_DEMUX_WHO_H
#define VMM_DEMUX_WHO_H

#include "demux/files.h"
#include "ptdec_perf.h"
#include "trace/mapfile.h"

struct demux_who;

/* All of it outlives the object. */
struct demux_who_config {
    struct demux_files *files;
    const struct map *map; /* of this image: */
    const struct ptd_image *image;
    const struct ptd_perf_session *session;
    bool has_time; /* guests' traces tell the time */
};

/* NULL: no memory. */
struct demux_who *demux_who_new(const struct demux_who_config *config);
void demux_who_free(struct demux_who *who);
/* Of struct demux_config, whose owner is the struct demux_who. */
int demux_who_found(void *owner, unsigned vm, uint64_t vmcs, const struct ptd_time_vm **time,
                    struct tenant **tenant);
bool demux_who_may_run(void *owner, const struct tenant *tenant, int cpu, uint64_t from,
                       uint64_t to);

#endif
