/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces of either kind: the settings of an RTIT trace as JSON (docs/trace-files.md), and one way
 * to decode PT and RTIT.
 */
#include "trace/rtit-trace.h"
#include "common/bytes.h"
#include "ptdec_rtit.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

/* ---- Settings ---- */

static void add_ranges(json_object *object, const char *key, const struct ptd_rtit_range *ranges,
                       unsigned count)
{
    json_object *list = json_object_new_array();

    for (unsigned i = 0; i < count; i++) {
        json_object *range = json_object_new_array();

        json_object_array_add(range, json_object_new_uint64(ranges[i].base));
        json_object_array_add(range, json_object_new_uint64(ranges[i].limit));
        json_object_array_add(list, range);
    }
    json_object_object_add(object, key, list);
}

json_object *rtit_to_json(const struct ptd_rtit_config *config)
{
    json_object *object = json_object_new_object();

    json_object_object_add(object, "cr3", json_object_new_uint64(config->cr3));
    json_object_object_add(object, "cycle_acc", json_object_new_boolean(config->cycle_acc));
    json_object_object_add(object, "cycles_minus_one",
                           json_object_new_boolean(config->cycles_minus_one));
    json_object_object_add(object, "tnt_buff", json_object_new_int(config->tnt_buff));
    add_ranges(object, "filter", config->filter, config->filters);
    add_ranges(object, "stop", config->stop, config->stops);
    return object;
}

static bool number_of(json_object *object, uint64_t max, uint64_t *value)
{
    *value = json_object_get_uint64(object);
    return json_object_is_type(object, json_type_int) && json_object_get_int64(object) >= 0 &&
           *value <= max;
}

static bool read_ranges(json_object *object, const char *key, struct ptd_rtit_range *ranges,
                        uint8_t *count)
{
    json_object *list;

    *count = 0;
    if (!json_object_object_get_ex(object, key, &list))
        return true;
    if (!json_object_is_type(list, json_type_array) || json_object_array_length(list) > 2)
        return false;
    while (*count < json_object_array_length(list)) {
        json_object *range = json_object_array_get_idx(list, *count);

        if (!json_object_is_type(range, json_type_array) || json_object_array_length(range) != 2)
            return false;
        if (!number_of(json_object_array_get_idx(range, 0), UINT64_MAX, &ranges[*count].base) ||
            !number_of(json_object_array_get_idx(range, 1), UINT64_MAX, &ranges[*count].limit))
            return false;
        ++*count;
    }
    return true;
}

/* False: malformed. Without the member, *is stays as it is. */
static bool read_flag(json_object *object, const char *key, bool *is)
{
    json_object *value;

    if (!json_object_object_get_ex(object, key, &value))
        return true;
    *is = json_object_get_boolean(value);
    return json_object_is_type(value, json_type_boolean);
}

bool rtit_from_json(json_object *object, struct ptd_rtit_config *config)
{
    uint64_t tnt_buff = 0;
    json_object *value;

    *config = (struct ptd_rtit_config){.mode = PTD_MODE_64};
    if (!json_object_is_type(object, json_type_object))
        return false;
    if (json_object_object_get_ex(object, "cr3", &value) &&
        !number_of(value, UINT64_MAX, &config->cr3))
        return false;
    if (json_object_object_get_ex(object, "tnt_buff", &value) &&
        !number_of(value, UINT8_MAX, &tnt_buff))
        return false;
    config->tnt_buff = (uint8_t)tnt_buff;
    return read_flag(object, "cycle_acc", &config->cycle_acc) &&
           read_flag(object, "cycles_minus_one", &config->cycles_minus_one) &&
           read_ranges(object, "filter", config->filter, &config->filters) &&
           read_ranges(object, "stop", config->stop, &config->stops);
}

/* ---- Errata ---- */

bool rtit_errata_parse(const char *text, uint32_t *errata)
{
    *errata = 0;
    if (strcmp(text, "none") == 0)
        return true;
    for (;;) {
        text += *text == 'E';
        if (*text < '1' || *text > '8')
            return false;
        *errata |= 1u << (*text++ - '0');
        if (!*text)
            return true;
        if (*text++ != ',')
            return false;
    }
}

void rtit_errata_format(uint32_t errata, char *text, size_t text_bytes)
{
    size_t len = 0;

    snprintf(text, text_bytes, "none");
    for (unsigned n = 1; n <= 8; n++) {
        if (errata >> n & 1 && len < text_bytes)
            len += (size_t)snprintf(text + len, text_bytes - len, "%s%u", len ? "," : "", n);
    }
}

/* ---- Decoding ---- */

bool trace_flow_open(struct trace_flow *flow, const struct bytes *trace,
                     const struct ptd_image *image, const struct ptd_flow_config *config,
                     const struct ptd_rtit_config *rtit)
{
    *flow = (struct trace_flow){0};
    if (rtit)
        flow->rtit = ptd_rtit_flow_new(trace->data, trace->len, image, rtit);
    else
        flow->pt = ptd_flow_new(trace->data, trace->len, image, config);
    return flow->rtit || flow->pt;
}

int trace_flow_next(struct trace_flow *flow, struct ptd_item *item)
{
    return flow->rtit ? ptd_rtit_flow_next(flow->rtit, item) : ptd_flow_next(flow->pt, item);
}

void trace_flow_close(struct trace_flow *flow)
{
    ptd_rtit_flow_free(flow->rtit);
    ptd_flow_free(flow->pt);
}
