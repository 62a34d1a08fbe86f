/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a perf.data that was just recorded says of itself: how much there is, what was lost, and
 * when the TSC offset of a virtual processor was written. The file is mapped, and packets are
 * passed over.
 */
#include "record/losses.h"
#include "ptdec_perf.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TSC_EVENT "kvm:kvm_write_tsc_offset"
/* Of that tracepoint, behind the 8 bytes that all have: u32 vcpu_id, then u64 each. */
#define AT_VCPU_ID     8u
#define AT_NEXT_OFFSET 24u
#define RAW_BYTES_MIN  32u

static void take_clock(struct ptd_perf_pt *pt, const struct ptd_perf_record *record)
{
    if (record->time_conv.shift >= 64 || record->time_conv.mult == 0)
        return;
    pt->time_shift = record->time_conv.shift;
    pt->time_mult = record->time_conv.mult;
    pt->time_zero = record->time_conv.zero;
    pt->has_time = true;
}

/* Whether changes of TSC offsets were recorded, if there were any. */
static bool has_tsc_event(const struct ptd_perf *perf)
{
    size_t count;
    const struct ptd_perf_event *const events = ptd_perf_events(perf, &count);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(events[i].name, TSC_EVENT) == 0)
            return true;
    }
    return false;
}

static bool is_of_tsc(const struct ptd_perf *perf, const struct ptd_perf_record *record)
{
    size_t count;
    const struct ptd_perf_event *const events = ptd_perf_events(perf, &count);

    return record->event < count && strcmp(events[record->event].name, TSC_EVENT) == 0 &&
           record->sample.raw && record->sample.raw_bytes >= RAW_BYTES_MIN;
}

/* False: no memory. */
static bool take_offset(struct vms *vms, const struct ptd_perf_pt *pt,
                        const struct ptd_perf_record *record)
{
    uint32_t number;
    uint64_t offset;

    memcpy(&number, record->sample.raw + AT_VCPU_ID, sizeof(number));
    memcpy(&offset, record->sample.raw + AT_NEXT_OFFSET, sizeof(offset));
    return vms_offset(vms, record->pid, record->tid, number, offset,
                      ptd_perf_tsc_of_time(pt, record->time));
}

static bool take(const struct ptd_perf *perf, const struct ptd_perf_record *record,
                 struct ptd_perf_pt *pt, struct vms *vms, struct losses *losses)
{
    switch (record->type) {
    case PTD_PERF_AUXTRACE:
        losses->trace_bytes += record->auxtrace.size;
        return true;
    case PTD_PERF_AUX:
        losses->full += (record->aux.flags & PTD_PERF_AUX_TRUNCATED) != 0;
        losses->gaps += (record->aux.flags & (PTD_PERF_AUX_PARTIAL | PTD_PERF_AUX_COLLISION)) != 0;
        return true;
    case PTD_PERF_LOST:
    case PTD_PERF_LOST_SAMPLES:
        losses->records += record->lost.lost;
        return true;
    case PTD_PERF_TIME_CONV:
        take_clock(pt, record);
        return true;
    case PTD_PERF_SAMPLE:
        if (!pt->has_time || !is_of_tsc(perf, record))
            return true;
        losses->offsets++;
        return take_offset(vms, pt, record);
    default:
        return true;
    }
}

static int read_records(const char *path, const void *bytes, struct vms *vms, struct losses *losses,
                        struct reason *why)
{
    struct ptd_perf_record record;
    struct ptd_perf_pt pt = {0};
    struct ptd_perf_fault fault;
    struct ptd_perf *perf;
    int status = ptd_perf_open(bytes, (size_t)losses->file_bytes, &perf, &fault);
    bool ok = true;

    if (status)
        return reason_set(why, -EBADMSG, "%s: %s", path,
                          fault.text[0] ? fault.text : ptd_strerror(status));
    while (ok && (status = ptd_perf_next(perf, &record)) == PTD_OK)
        ok = take(perf, &record, &pt, vms, losses);
    losses->is_cut = status != PTD_END;
    if (pt.has_time && !losses->is_cut && !losses->records && has_tsc_event(perf))
        vms_prefer_told(vms);
    ptd_perf_close(perf);
    return ok && status != PTD_E_NOMEM ? 0 : reason_no_memory(why);
}

int losses_read(const char *path, struct vms *vms, struct losses *losses, struct reason *why)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *bytes = MAP_FAILED;
    struct stat status = {0};
    int error = 0;

    *losses = (struct losses){0};
    if (fd < 0 || fstat(fd, &status) != 0)
        error = -errno;
    else if (status.st_size == 0)
        error = -ENODATA;
    if (!error) {
        losses->file_bytes = (uint64_t)status.st_size;
        bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        error = bytes == MAP_FAILED ? -errno : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    if (error)
        return reason_of_file(why, error, path);
    error = read_records(path, bytes, vms, losses, why);
    (void)munmap(bytes, (size_t)losses->file_bytes);
    return error;
}
