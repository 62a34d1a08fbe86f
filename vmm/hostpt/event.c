/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's Intel PT, see event.h. The words of errors are those of perf_event_open(2) and of the
 * driver of intel_pt, which is exclusive: it serves threads or processors, never both.
 */
#include "hostpt/event.h"

#include <cpuid.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RECORD_PAGES 8u
#define OTHERS_PAGES (1u << 20)  /* that somebody else's records may have at most */
#define AUX_MOST     (16u << 20) /* a millisecond takes a tenth of it at most */
#define AUX_LEAST    (256u << 10)
#define MTC_PERIOD   3u

/* ---- What there is ---- */

static bool read_line(const char *folder, const char *name, char *line, int line_bytes)
{
    char path[256];
    FILE *file;
    bool ok;

    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return false;
    file = fopen(path, "re");
    if (!file)
        return false;
    ok = fgets(line, line_bytes, file) != NULL;
    (void)fclose(file);
    return ok;
}

static bool read_number(const char *folder, const char *name, int base, uint64_t *number)
{
    char line[64], *end;

    if (!read_line(folder, name, line, sizeof(line)))
        return false;
    errno = 0;
    *number = strtoull(line, &end, base);
    return end != line && !errno;
}

static void add_term(struct pt_event_setting *setting, const char *name, uint64_t value)
{
    char *const terms = setting->terms;
    const size_t used = strlen(terms);

    (void)snprintf(terms + used, sizeof(setting->terms) - used, "%s%s=%u", used ? "," : "", name,
                   (unsigned)value);
}

/* A field of the setting, as format/NAME says: "config:14-17". False: it is not there. */
static bool set_field(const char *folder, const char *name, uint64_t value,
                      struct pt_event_setting *setting)
{
    char path[64], line[64], *end;
    unsigned long first, last;

    (void)snprintf(path, sizeof(path), "format/%s", name);
    if (!read_line(folder, path, line, sizeof(line)) || strncmp(line, "config:", 7) != 0)
        return false;
    first = last = strtoul(line + 7, &end, 10);
    if (*end == '-')
        last = strtoul(end + 1, &end, 10);
    if (last > 63 || last < first || value >> (last - first) > 1)
        return false;
    setting->config |= value << first;
    setting->mask |= UINT64_MAX >> (63 - (last - first)) << first;
    add_term(setting, name, value);
    return true;
}

/* What the hardware can, a hexadecimal number; 0: nothing is told. */
static uint64_t capability(const char *folder, const char *name)
{
    uint64_t value;

    return read_number(folder, name, 16, &value) ? value : 0;
}

int pt_event_setting(const char *folder, struct pt_event_setting *setting, struct reason *why)
{
    uint64_t type, value;

    *setting = (struct pt_event_setting){.type = 0};
    if (!read_number(folder, "type", 10, &type))
        return reason_set(why, -ENODEV, "this host has no Intel PT: there is no %s", folder);
    setting->type = (uint32_t)type;
    /* What is not there in the format is not needed: branches are always traced by older drivers.
     */
    (void)set_field(folder, "pt", 1, setting);
    (void)set_field(folder, "branch", 1, setting);
    if (!set_field(folder, "tsc", 1, setting) || !set_field(folder, "noretcomp", 1, setting))
        return reason_set(why, -ENOTSUP, "%s does not tell how to set tsc and noretcomp", folder);
    setting->has_ptwrite =
        capability(folder, "caps/ptwrite") && set_field(folder, "ptw", 1, setting);
    if (setting->has_ptwrite)
        (void)set_field(folder, "fup_on_ptw", 1, setting);
    if ((capability(folder, "caps/mtc_periods") >> MTC_PERIOD & 1) &&
        set_field(folder, "mtc", 1, setting) &&
        set_field(folder, "mtc_period", MTC_PERIOD, setting))
        setting->mtc_freq = MTC_PERIOD;
    if (read_number(folder, "max_nonturbo_ratio", 10, &value))
        setting->max_nonturbo_ratio = (uint8_t)value;
    return 0;
}

struct ptd_time_config pt_event_clocks(const struct pt_event_setting *setting)
{
    unsigned den = 0, num = 0, hz, unused;
    struct ptd_time_config clocks;

    (void)__get_cpuid_count(0x15, 0, &den, &num, &hz, &unused);
    clocks = (struct ptd_time_config){.tsc_den = den,
                                      .tsc_num = num,
                                      .mtc_freq = setting->mtc_freq,
                                      .max_nonturbo_ratio = setting->max_nonturbo_ratio};
    if (den == 0 || num == 0 || setting->mtc_freq == 0 || ptd_time_check(&clocks) != PTD_OK)
        return (struct ptd_time_config){0};
    return clocks;
}

/* ---- The event ---- */

static int explain_open(int error, struct reason *why)
{
    switch (-error) {
    case EBUSY:
        return reason_set(why, error,
                          "somebody else has the host's Intel PT, which Linux gives to one at a "
                          "time: end what records by intel_pt (perf record is one)");
    case EACCES:
    case EPERM:
        return reason_set(why, error,
                          "the host's Intel PT may not be used: it takes root, CAP_PERFMON, or -1 "
                          "in /proc/sys/kernel/perf_event_paranoid");
    default:
        return reason_set(why, error, "the host's Intel PT cannot be opened: %s", strerror(-error));
    }
}

static int map_records(struct pt_event *event, struct reason *why)
{
    struct ring *const ring = &event->ring;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    event->map_bytes = (1 + RECORD_PAGES) * page;
    ring->page = mmap(NULL, event->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, event->fd, 0);
    if (ring->page == MAP_FAILED) {
        ring->page = NULL;
        return reason_set(why, -errno, "perf's records cannot be mapped: %s", strerror(errno));
    }
    ring->records = (const uint8_t *)ring->page + page;
    ring->record_bytes = RECORD_PAGES * page;
    return 0;
}

/* As much as may be locked. */
static int map_aux(struct pt_event *event, struct reason *why)
{
    struct ring *const ring = &event->ring;
    void *aux = MAP_FAILED;

    for (ring->aux_bytes = AUX_MOST; aux == MAP_FAILED && ring->aux_bytes >= AUX_LEAST;) {
        ring->page->aux_offset = event->map_bytes;
        ring->page->aux_size = ring->aux_bytes;
        aux = mmap(NULL, ring->aux_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, event->fd,
                   (off_t)event->map_bytes);
        if (aux == MAP_FAILED)
            ring->aux_bytes /= 2;
    }
    if (aux == MAP_FAILED)
        return reason_set(why, -errno,
                          "there is no buffer for the host's Intel PT: %s (ulimit -l and "
                          "/proc/sys/kernel/perf_event_mlock_kb bound it)",
                          strerror(errno));
    ring->aux = aux;
    return 0;
}

int pt_event_open(struct pt_event *event, struct reason *why)
{
    struct perf_event_attr attr = {.size = sizeof(attr), .disabled = 1};
    struct pt_event_setting setting;
    int error;

    *event = (struct pt_event){.fd = -1};
    error = pt_event_setting(PT_EVENT_FOLDER, &setting, why);
    if (error)
        return error;
    attr.type = setting.type;
    attr.config = setting.config;
    event->fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (event->fd < 0)
        return explain_open(-errno, why);
    event->clocks = pt_event_clocks(&setting);
    error = map_records(event, why);
    if (!error)
        error = map_aux(event, why);
    if (error)
        pt_event_close(event);
    return error;
}

void pt_event_close(struct pt_event *event)
{
    if (event->ring.aux)
        (void)munmap((void *)(uintptr_t)event->ring.aux, event->ring.aux_bytes);
    if (event->ring.page)
        (void)munmap(event->ring.page, event->map_bytes);
    if (event->fd >= 0)
        (void)close(event->fd);
    *event = (struct pt_event){.fd = -1};
}

int pt_event_enable(struct pt_event *event)
{
    return ioctl(event->fd, PERF_EVENT_IOC_ENABLE, 0) < 0 ? -errno : 0;
}

int pt_event_disable(struct pt_event *event)
{
    return ioctl(event->fd, PERF_EVENT_IOC_DISABLE, 0) < 0 ? -errno : 0;
}

/* ---- Somebody else's event ---- */

/* Linux maps no other size than that of whoever mapped them first. */
static int map_others_records(int fd, struct ring *ring, size_t *map_bytes, struct reason *why)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *map = MAP_FAILED;

    for (size_t pages = 1; map == MAP_FAILED && pages <= OTHERS_PAGES; pages *= 2) {
        ring->record_bytes = pages * page;
        *map_bytes = page + ring->record_bytes;
        map = mmap(NULL, *map_bytes, PROT_READ, MAP_SHARED, fd, 0);
    }
    if (map == MAP_FAILED)
        return reason_set(why, -errno, "the recorder's records cannot be mapped: %s",
                          strerror(errno));
    ring->page = map;
    ring->records = (const uint8_t *)map + page;
    return 0;
}

int pt_event_map_others(int fd, struct ring *ring, size_t *map_bytes, struct reason *why)
{
    void *aux = MAP_FAILED;
    int error;

    *ring = (struct ring){.page = NULL};
    error = map_others_records(fd, ring, map_bytes, why);
    if (error)
        return error;
    ring->aux_bytes = ring->page->aux_size;
    if (ring->aux_bytes && (ring->aux_bytes & (ring->aux_bytes - 1)) == 0)
        aux = mmap(NULL, ring->aux_bytes, PROT_READ, MAP_SHARED, fd, (off_t)ring->page->aux_offset);
    else
        errno = EINVAL;
    if (aux != MAP_FAILED) {
        ring->aux = aux;
        return 0;
    }
    error = reason_set(why, -errno, "the recorder's trace cannot be mapped: %s", strerror(errno));
    (void)munmap(ring->page, *map_bytes);
    *ring = (struct ring){.page = NULL};
    return error;
}

int pt_event_flush(int fd)
{
    uint64_t period = 1; /* perf's own, which means nothing to this hardware */

    return ioctl(fd, PERF_EVENT_IOC_PERIOD, &period) < 0 ? -errno : 0;
}
