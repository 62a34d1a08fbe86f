/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw traces with what stands beside them: one, or those of several processors, on one time line
 * where that can be shown.
 */
#include "view/raw.h"
#include "view/merge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- One ---- */

/* Code and settings, where no option says otherwise. 0 or -errno. */
static int take_sidecar(struct decode_options *options, struct sidecar *sidecar, struct reason *why)
{
    struct code_files *const files = options->code.files;
    const int error = options->have_images ? sidecar_add_code_log(sidecar, files, options->image)
                                           : sidecar_add_images(sidecar, files, options->image);

    if (error)
        return reason_set(why, error, "%s%s", sidecar->why.text,
                          options->have_images || sidecar->images ? ""
                                                                  : " (and no --image was given)");
    if (sidecar->is_rtit) {
        options->is_rtit = true;
        options->rtit = sidecar->rtit;
    }
    if (!options->have_cpu)
        options->config.errata = sidecar->errata;
    if (!options->have_cpu || sidecar->defers_tips)
        options->config.resync = (uint8_t)sidecar->resync;
    if (options->have_resync)
        options->config.resync = options->resync;
    if (!options->have_mode)
        options->config.mode = sidecar->mode;
    return 0;
}

/* Who ran, as a map says it, or a log of names beside the trace. 0 or -errno. */
static int take_who(struct decode_options *options, struct raw *raw, struct reason *why)
{
    struct ptd_contexts *const contexts = options->map.contexts;
    struct out_thread *const thread = &raw->stream.thread;
    struct names_log *log = NULL;
    int error;

    thread->contexts = contexts;
    if (contexts && options->format) {
        thread->who = who_of_map;
        thread->who_owner = contexts;
    }
    error = sidecar_read_names(&raw->sidecar, options->code.files, &log);
    if (error)
        *why = raw->sidecar.why;
    if (log && !names_log_tells(log)) { /* no kernel was found: the map knows as much */
        names_log_free(log);
        log = NULL;
    }
    if (!log)
        return error;
    named_open(&raw->named, log, options->image, &options->map);
    raw->stream.named = &raw->named;
    thread->who = named_who;
    thread->who_owner = &raw->named;
    thread->changes = &raw->named.changes;
    thread->renames = &raw->named.renames;
    return 0;
}

int raw_open(struct decode_options *options, const char *name, struct input *input, struct raw *raw,
             struct reason *why)
{
    int error = sidecar_open(&raw->sidecar, name);

    if (error)
        *why = raw->sidecar.why;
    else
        error = take_sidecar(options, &raw->sidecar, why);
    raw->named = (struct named){0};
    raw->stream = (struct stream){
        .why = why,
        .input = input,
        .image = options->image,
        .clocks = raw->sidecar.clocks,
        .thread =
            {.comm = "vpt", .pid = 1, .tid = 1, .cpu = -1, .processor = raw->sidecar.processor},
        .out = options->out,
    };
    if (options->format && options->format->is_by_processor)
        raw->stream.thread.cpu = raw->sidecar.processor;
    if (options->map.contexts)
        raw->stream.clocks.vms =
            ptd_contexts_time_vms(options->map.contexts, &raw->stream.clocks.vm_count);
    return error ? error : take_who(options, raw, why);
}

void raw_close(struct raw *raw)
{
    named_close(&raw->named);
    sidecar_close(&raw->sidecar);
}

/* ---- Several ---- */

struct one {
    struct decode_options options; /* those of all, with code and settings of its own */
    struct raw raw;
    struct lane lane;
};

static int begin_one(const struct decode_options *all, struct input *input, size_t index,
                     struct one *one, struct reason *why)
{
    int error;

    one->options = *all;
    one->options.image = ptd_image_new_on(all->image);
    if (!one->options.image)
        return reason_no_memory(why);
    error = raw_open(&one->options, input->name, input, &one->raw, why);
    if (!error && one->options.is_rtit)
        error = reason_set(why, -EINVAL, "%s: an RTIT trace is decoded alone", input->name);
    one->raw.stream.thread.cpu = one->raw.stream.thread.processor =
        one->raw.sidecar.processor >= 0 ? one->raw.sidecar.processor : (int)index;
    return error;
}

static int ended(void *owner, struct lane *lane)
{
    struct one *const one = owner;

    lane->stream = NULL;
    return merge_close(&one->options, &one->raw.stream, 0);
}

/* Up to its first item. 0 or -errno; lane.stream is NULL if it has none. */
static int begin_lane(struct one *one, size_t order)
{
    struct stream *const stream = &one->raw.stream;
    bool has_item;
    const int error = merge_open(&one->options, stream, &has_item);

    one->lane =
        (struct lane){.options = &one->options, .order = order, .next = ended, .owner = one};
    if (error)
        return error;
    if (!stream->clock.is_tsc)
        return reason_set(stream->why, -EINVAL,
                          "%s does not tell the time, so it has no place among others",
                          stream->input->name);
    one->lane.stream = has_item ? stream : NULL;
    return 0;
}

static int merge_all(struct one *ones, size_t count, struct reason *why)
{
    struct lane **const lanes = calloc(count, sizeof(struct lane *));
    size_t begun = 0;
    int error = 0;

    if (!lanes)
        return reason_no_memory(why);
    for (size_t i = 0; !error && i < count; i++) {
        error = begin_lane(&ones[i], i);
        if (ones[i].lane.stream)
            lanes[begun++] = &ones[i].lane;
    }
    if (!error)
        error = merge_lanes(lanes, begun);
    free(lanes);
    return error;
}

static int in_turn(struct one *ones, size_t count)
{
    int error = 0;

    for (size_t i = 0; !error && i < count; i++)
        error = stream_decode(&ones[i].options, &ones[i].raw.stream);
    return error;
}

static int decode_ones(struct decode_options *options, struct input *inputs, struct one *ones,
                       size_t count, struct reason *why)
{
    int error = 0;

    for (size_t i = 0; !error && i < count; i++)
        error = begin_one(options, &inputs[i], i, &ones[i], why);
    if (!error)
        error = options->by_time ? merge_all(ones, count, why) : in_turn(ones, count);
    for (size_t i = 0; i < count; i++) {
        if (options->by_time)
            error = merge_close(&ones[i].options, &ones[i].raw.stream, error);
        options->errors += ones[i].options.errors;
        options->is_reached = options->is_reached || ones[i].options.is_reached;
        if (ones[i].options.image) {
            raw_close(&ones[i].raw);
            ptd_image_free(ones[i].options.image);
        }
    }
    return error;
}

int decode_raws(struct decode_options *options, struct input *inputs, size_t count,
                struct reason *why)
{
    struct one *const ones = calloc(count, sizeof(*ones));
    const struct stream *shown = NULL;
    int error;

    if (!ones)
        return reason_no_memory(why);
    options->by_time = !options->format || options->format->merges;
    options->shown = &shown;
    error = decode_ones(options, inputs, ones, count, why);
    options->shown = NULL;
    free(ones);
    return error;
}
