/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What looks at a captured guest have told is kept from its begin to its end: the map has processes
 * that ended meanwhile, and those that came. Another kernel than before is another guest.
 */
#include "cli/capture-names.h"
#include "common/file.h"
#include "common/say.h"
#include "linux/layout-json.h"
#include "trace/names-log.h"
#include "trace/sidecar.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MS_MAX 60000

/* ---- Looking ---- */

static bool is_same_kernel(const struct vmcoreinfo *a, const struct vmcoreinfo *b)
{
    return strcmp(a->release, b->release) == 0 && a->page_table == b->page_table &&
           a->phys_base == b->phys_base && a->text == b->text;
}

/* The next one takes the place of the kernel that was known. */
static void take_guest(struct capture_names *names, unsigned next)
{
    struct linux_guest *const guest = &names->guests[next];

    if (names->has_guest && !is_same_kernel(&guest->info, &names->guests[names->current].info)) {
        say_remark("the guest runs another kernel than before, and names are those of the new one");
        guest_names_free(&names->names);
        names->has_guest = false;
    }
    if (!names->has_guest)
        names_remark_lacks(guest, say_remark);
    guest_close(&names->guests[names->current]);
    names->current = next;
    names->has_guest = true;
}

/*
 * Memory keeps what a kernel left that ran before. So one that does not run is not taken in place
 * of one that was known.
 */
static bool is_good(const struct capture_names *names, const struct linux_guest *guest,
                    const struct guest_source *source, bool must_run)
{
    if (guest_runs(guest, source))
        return true;
    return !must_run &&
           (!names->has_guest || is_same_kernel(&guest->info, &names->guests[names->current].info));
}

/* must_run: nothing else will do. */
static int find_kernel(struct capture_names *names, struct live *live, bool must_run)
{
    const struct guest_source source = live_source(live);
    const unsigned next = !names->current;
    struct linux_guest *const guest = &names->guests[next];
    int error = guest_open(guest, &source, &names->why);

    if (error && live->lost.text[0])
        error = reason_set(&names->why, -EREMOTEIO, "%s", live->lost.text);
    if (!error && !is_good(names, guest, &source, must_run))
        error = reason_set(&names->why, -EINVAL, "no processor of the guest runs its kernel");
    if (error)
        guest_close(guest);
    else
        take_guest(names, next);
    return error;
}

/* ---- Files that logs tell ---- */

static int take_file(struct capture_names *names, const struct names_log_change *change)
{
    const struct names_mapped mapped = {
        .path = change->path,
        .start = change->start,
        .end = change->end,
        .offset = change->offset,
        .cache = change->cache,
        .build_id = change->build_id,
        .build_id_bytes = change->build_id_bytes,
    };

    if (change->is_new || !change->path || !change->cache)
        return 0;
    return names_look_file(&names->names, &names->guests[names->current], &mapped, &names->why);
}

static int take_log(struct capture_names *names, const char *path)
{
    const struct names_log_change *change;
    struct bytes text = {0};
    struct names_log *log = NULL;
    int error = read_file_within(path, NAMES_LOG_BYTES_MAX, &text);

    if (error)
        error = reason_of_file(&names->why, error, path);
    else if (text.len > 0)
        error = names_log_parse(path, (const char *)text.data, text.len, &log, &names->why);
    for (size_t i = 0; !error && log && (change = names_log_change(log, i)); i++)
        error = take_file(names, change);
    names_log_free(log);
    bytes_free(&text);
    return error;
}

/* Logs are those of this capture, as far as they have been written. */
static int take_logs(struct capture_names *names, json_object *traces)
{
    int error = 0;

    for (size_t i = 0; !error && traces && i < json_object_array_length(traces); i++) {
        json_object *trace;
        char *path = NULL;

        if (!json_object_object_get_ex(json_object_array_get_idx(traces, i), "file", &trace))
            continue;
        if (asprintf(&path, "%s.names", json_object_get_string(trace)) < 0)
            return reason_no_memory(&names->why);
        if (access(path, F_OK) == 0)
            error = take_log(names, path);
        free(path);
    }
    return error;
}

/* ---- Looks ---- */

/* As far as this kernel says what QEMU needs. */
static bool can_tell(const struct capture_names *names)
{
    const struct linux_guest *const guest = &names->guests[names->current];

    return guest_has(guest, LAYOUT_TASKS) && guest_has(guest, LAYOUT_CURRENT);
}

static int look(struct capture_names *names, struct live *live, json_object *traces, remark_fn tell)
{
    int error =
        names_look_live(&names->names, &names->guests[names->current], live, tell, &names->why);

    if (!error)
        error = take_logs(names, traces);
    if (!error)
        names->why = (struct reason){0};
    return error;
}

/* tell: whom lists that break off are told; a look amid many tells nobody. */
static int look_once(struct capture_names *names, struct monitor *monitor, json_object *traces,
                     remark_fn tell)
{
    struct live live;
    int error;

    names->why = (struct reason){0};
    error = live_open(&live, monitor, &names->why);
    if (!error)
        error = find_kernel(names, &live, false);
    if (!error)
        error = look(names, &live, traces, tell);
    live_close(&live);
    return error;
}

int capture_names_look(struct capture_names *names, struct monitor *monitor, json_object *traces)
{
    return look_once(names, monitor, traces, say_remark);
}

json_object *capture_names_layout(const struct capture_names *names)
{
    return names->has_guest && can_tell(names) ? layout_to_json(&names->guests[names->current])
                                               : NULL;
}

/* ---- A guest that boots ---- */

/* Tells QEMU of the kernel as soon as it is found, and then looks at all else. False: none. */
static bool look_for_kernel(struct capture_names *names, struct monitor *monitor,
                            json_object *traces)
{
    json_object *layout, *answer = NULL;
    struct live live;
    int error;

    names->why = (struct reason){0};
    error = live_open(&live, monitor, &names->why);
    if (!error && live.entry_count == 0)
        error = reason_set(&names->why, -EINVAL, "no processor of the guest takes system calls");
    if (!error)
        error = find_kernel(names, &live, true);
    layout = error ? NULL : capture_names_layout(names);
    if (layout)
        answer = monitor_execute(monitor, "x-vpt-names", layout);
    if (layout && !answer)
        error = reason_set(&names->why, -EREMOTEIO, "%s", monitor->why);
    json_object_put(answer);
    if (!error)
        (void)look(names, &live, traces, NULL);
    live_close(&live);
    return !error;
}

/*
 * How long to wait for the next look: in proportion to what the last one took and to how long it
 * has gone on, so that looks take little of QEMU's time. To find the kernel, looks are closer: each
 * comes late by an eighth of what the guest took to boot. Then they are after 1, 2, 4, ... seconds.
 */
static int64_t wait_for(int64_t took_ms, int64_t passed_ms, bool is_wanted)
{
    const int64_t waits[] = {is_wanted ? passed_ms / 8 : passed_ms,
                             is_wanted ? 4 * took_ms : 10 * took_ms, is_wanted ? 100 : 1000};
    int64_t wait_ms = 0;

    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
        if (wait_ms < waits[i])
            wait_ms = waits[i];
    return wait_ms < WAIT_MS_MAX ? wait_ms : WAIT_MS_MAX;
}

bool capture_names_is_due(struct capture_names *names, bool is_wanted, int64_t now_ms)
{
    if (names->has_guest && !can_tell(names))
        is_wanted = false;
    if (is_wanted != names->is_wanted) {
        names->is_wanted = is_wanted;
        names->is_late = true;
        names->since_ms = now_ms;
        names->next_ms = is_wanted ? now_ms : now_ms + 1000;
    }
    return names->is_late && now_ms >= names->next_ms;
}

bool capture_names_turn(struct capture_names *names, struct monitor *monitor, json_object *traces,
                        int64_t (*now_ms)(void))
{
    const int64_t now = now_ms();
    bool is_wanted = names->is_wanted;

    if (is_wanted)
        is_wanted = !look_for_kernel(names, monitor, traces);
    else
        (void)look_once(names, monitor, traces, NULL);
    names->next_ms = now_ms() + wait_for(now_ms() - now, now - names->since_ms, is_wanted);
    return is_wanted;
}

/* ---- Writing ---- */

/* Each trace gets the map; NULL: there is none, and its log of names, if it has one, tells nothing.
 * 0 or an exit code. */
static int tell_traces(json_object *traces, const char *map)
{
    struct reason why = {0};
    int error = 0;

    for (size_t i = 0; !error && i < json_object_array_length(traces); i++) {
        json_object *trace;

        if (!json_object_object_get_ex(json_object_array_get_idx(traces, i), "file", &trace))
            continue;
        error = map ? sidecar_name_map(json_object_get_string(trace), map, &why)
                    : sidecar_drop_names(json_object_get_string(trace), &why);
    }
    return complain_of(error, &why);
}

int capture_names_write(struct capture_names *names, const char *file, json_object *traces)
{
    struct names_out out = {0};
    int code;

    if (names->why.text[0])
        remark(say_remark, "%s: %s", names->has_guest ? "names are not complete" : "no names",
               names->why.text);
    if (!names->has_guest)
        return tell_traces(traces, NULL);
    code = names_out_open(&out, file);
    if (!code)
        code = names_out_write(&out, &names->names, &names->guests[names->current], NULL);
    if (!code)
        code = tell_traces(traces, last_part(out.paths[NAMES_MAP]));
    names_out_free(&out);
    return code;
}

void capture_names_free(struct capture_names *names)
{
    guest_names_free(&names->names);
    for (unsigned i = 0; i < 2; i++)
        guest_close(&names->guests[i]);
}
