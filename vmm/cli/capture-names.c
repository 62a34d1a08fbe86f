/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What looks at a captured guest have told is kept from its begin to its end: the map has processes
 * that ended meanwhile, and those that came. Another kernel than before is another guest.
 */
#include "cli/capture-names.h"
#include "common/say.h"
#include "linux/layout-json.h"
#include "trace/sidecar.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

/* ---- Looking ---- */

static bool is_same_kernel(const struct vmcoreinfo *a, const struct vmcoreinfo *b)
{
    return strcmp(a->release, b->release) == 0 && a->page_table == b->page_table &&
           a->phys_base == b->phys_base && a->text == b->text;
}

static int take(struct capture_names *names, struct live *live)
{
    const struct guest_source source = live_source(live);
    const unsigned next = !names->current;
    struct linux_guest *const guest = &names->guests[next];
    int error = guest_open(guest, &source, &names->why);

    if (error && live->lost.text[0])
        error = reason_set(&names->why, -EREMOTEIO, "%s", live->lost.text);
    if (error) {
        guest_close(guest);
        return error;
    }
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
    return names_look_live(&names->names, guest, live, say_remark, &names->why);
}

void capture_names_look(struct capture_names *names, struct monitor *monitor)
{
    struct live live;

    names->why = (struct reason){0};
    if (live_open(&live, monitor, &names->why) == 0 && take(names, &live) == 0)
        names->why = (struct reason){0};
    live_close(&live);
}

json_object *capture_names_layout(const struct capture_names *names)
{
    const struct linux_guest *const guest = &names->guests[names->current];

    return names->has_guest && guest_has(guest, LAYOUT_TASKS) && guest_has(guest, LAYOUT_CURRENT)
               ? layout_to_json(&guest->kernel)
               : NULL;
}

/* ---- Writing ---- */

/* 0 or an exit code. */
static int name_map(json_object *traces, const char *map)
{
    struct reason why = {0};
    int error = 0;

    for (size_t i = 0; !error && i < json_object_array_length(traces); i++) {
        json_object *trace;

        if (json_object_object_get_ex(json_object_array_get_idx(traces, i), "file", &trace))
            error = sidecar_name_map(json_object_get_string(trace), map, &why);
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
        return 0;
    code = names_out_open(&out, file);
    if (!code)
        code = names_out_write(&out, &names->names, &names->guests[names->current], NULL);
    if (!code)
        code = name_map(traces, last_part(out.paths[NAMES_MAP]));
    names_out_free(&out);
    return code;
}

void capture_names_free(struct capture_names *names)
{
    guest_names_free(&names->names);
    for (unsigned i = 0; i < 2; i++)
        guest_close(&names->guests[i]);
}
