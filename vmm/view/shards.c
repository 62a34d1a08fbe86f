/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace that several processes decode, a piece each, and their pieces put together
 * (docs/shards.md). A piece begins at a PSB. What is known there is found by decoding a little of
 * what comes before, and a fingerprint of it is kept with the piece. When pieces are put together,
 * one whose begin is not what the piece before came to is decoded again.
 */
#include "view/bulk.h"
#include "view/piece.h"
#include "common/hash.h"
#include "common/json.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes are hashed in parts of this size, each when it was decoded and is near the processor. */
#define HASHED (UINT64_C(1) << 20)

struct runner {
    struct decode_options *options;
    struct stream *stream;
    const struct out_shards *out; /* NULL: a view */
    struct bulk bulk;             /* not of a view */
    struct ptd_flow *flow;
    bool has_begun; /* it stands where a part has ended; else in front of the first packet */
};

/* ---- Running ---- */

static int mute(struct runner *runner, bool is_muted)
{
    runner->options->is_muted = is_muted;
    return !runner->out || runner->out->mute(runner->stream->out, is_muted)
               ? 0
               : reason_no_memory(runner->stream->why);
}

static int runner_open(struct runner *runner, struct decode_options *options, struct stream *stream)
{
    *runner = (struct runner){.options = options, .stream = stream};
    if (options->format) {
        runner->out = options->format->shards;
        if (!bulk_open(&runner->bulk, options, stream))
            return reason_no_memory(stream->why);
    }
    runner->flow = runner->out ? runner->bulk.flow : stream->flow.pt;
    options->is_reached = true;
    return mute(runner, true);
}

static void runner_close(struct runner *runner)
{
    if (runner->out)
        bulk_close(&runner->bulk);
    runner->options->is_muted = false;
}

/* Up to the PSB at stop or behind it; UINT64_MAX: to the end of the trace. */
static int run_to(struct runner *runner, uint64_t stop)
{
    struct decode_options *const options = runner->options;
    struct stream *const stream = runner->stream;
    const uint64_t errors = options->errors;
    int error = 0;

    if (runner->has_begun && ptd_flow_ends_at(runner->flow) >= stop)
        return 0;
    ptd_flow_stop_at(runner->flow, stop);
    runner->has_begun = true;
    if (runner->out && bulk_run(&runner->bulk) != PTD_OK)
        error = reason_no_memory(stream->why);
    while (!runner->out && !error && stream_next(options, stream))
        error = stream_put(options, stream);
    if (runner->out && stop == UINT64_MAX && !options->format->end(stream->out))
        error = reason_no_memory(stream->why);
    if (options->is_muted)
        options->errors = errors;
    return error;
}

/* Goes forward to a PSB, and forgets what was. */
static int go_to(struct runner *runner, uint64_t offset)
{
    if (runner->has_begun && ptd_flow_ends_at(runner->flow) >= offset)
        return 0;
    if (offset == 0)
        return 0;
    if (runner->out && !runner->out->restart(runner->stream->out))
        return reason_no_memory(runner->stream->why);
    bulk_pass_time(&runner->bulk, offset);
    ptd_flow_begin_at(runner->flow, offset, offset);
    runner->has_begun = false;
    return 0;
}

static uint64_t fingerprint(const struct runner *runner)
{
    uint64_t hash = ptd_flow_fingerprint(runner->flow);

    if (!runner->out)
        return hash_more(hash, view_fingerprint(runner->stream));
    if (runner->bulk.time)
        hash = hash_more(hash, ptd_time_fingerprint(runner->bulk.time));
    return hash_more(hash, runner->out->fingerprint(runner->stream->out));
}

/* ---- One piece ---- */

static struct piece piece_of(const struct shards *shards, const struct stream *stream,
                             unsigned number)
{
    const struct bytes *const packets = &stream->packets;
    struct piece piece = {.number = number, .count = shards->count, .trace_bytes = packets->len};

    piece.begin = shard_begin(packets->data, packets->len, number, shards->count);
    piece.end = shard_begin(packets->data, packets->len, number + 1, shards->count);
    piece.has_time = stream->clock.is_tsc;
    piece.modified = stream->modified;
    return piece;
}

static bool is_empty(const struct piece *piece)
{
    return piece->begin == piece->end && piece->number > 1;
}

static uint64_t stop_of(const struct piece *piece)
{
    return piece->end == piece->trace_bytes ? UINT64_MAX : piece->end;
}

/* To the begin of a piece, as its own process comes to it: what is known there. */
static int warm_up(struct runner *runner, struct piece *piece)
{
    const struct bytes *const packets = &runner->stream->packets;
    int error = mute(runner, true);

    piece->before = 0;
    if (error || piece->number == 1)
        return error;
    error = go_to(runner, shard_warm(packets->data, packets->len, piece->begin));
    if (!error)
        error = run_to(runner, piece->begin);
    piece->before = fingerprint(runner);
    return error;
}

/* The bytes of a piece from an offset on, at most HASHED of them, into what stands for them. */
static uint64_t hash_part(const struct stream *stream, struct piece *piece, uint64_t from)
{
    const uint64_t left = piece->end - from;
    const uint64_t len = left < HASHED ? left : HASHED;

    piece->trace = hash_bytes(piece->trace, stream->packets.data + from, (size_t)len);
    return from + len;
}

/* From where the runner stands to the end of the piece, counted or printed. */
static int run_piece(struct runner *runner, struct piece *piece)
{
    const uint64_t errors = runner->options->errors;
    int error = mute(runner, false);
    uint64_t at = piece->begin;

    piece->trace = 0;
    do { /* of an empty trace too */
        if (!error)
            error = run_to(runner, piece->end - at > HASHED ? at + HASHED : stop_of(piece));
        at = hash_part(runner->stream, piece, at);
    } while (!error && at < piece->end);
    if (!error)
        error = mute(runner, true);
    piece->behind = fingerprint(runner);
    piece->errors = runner->options->errors - errors;
    return error;
}

/* Sums are written as text; a view has written its lines already. */
static int write_piece(struct runner *runner, struct piece *piece)
{
    struct shards *const shards = runner->options->shards;
    struct reason *const why = runner->stream->why;
    json_object *const sums = runner->out ? runner->out->save(runner->stream->out) : NULL;
    const char *const text = sums ? json_object_to_json_string_ext(sums, 0) : "";
    int error = !text || (runner->out && !sums) ? reason_no_memory(why) : 0;

    if (fflush(stdout) != 0)
        error = reason_set(why, -EIO, "the piece cannot be written");
    if (!error && text)
        error = output_write(&shards->piece, text, strlen(text), why);
    if (!error)
        error = piece_end(&shards->piece, piece, shards->command, why);
    json_object_put(sums);
    return error;
}

static int decode_piece(struct runner *runner)
{
    struct shards *const shards = runner->options->shards;
    struct piece piece = piece_of(shards, runner->stream, shards->number);
    int error = 0;

    if (!is_empty(&piece)) {
        error = warm_up(runner, &piece);
        if (!error)
            error = run_piece(runner, &piece);
    }
    return error ? error : write_piece(runner, &piece);
}

/* ---- All of them ---- */

/* A piece that was taken as it is, and what the last one came to. */
struct merging {
    struct runner runner;
    struct piece taken; /* number 0: none */
    uint64_t behind;
    bool stands_there; /* the runner does */
};

static int take_sums(struct merging *merging, const struct piece_file *file)
{
    struct runner *const runner = &merging->runner;
    struct reason *const why = runner->stream->why;
    char what[256];
    json_object *const sums =
        json_parse((const char *)file->bytes.data, file->payload_bytes, what, sizeof(what));
    int error = sums ? 0 : reason_set(why, -EINVAL, "%s: %s", file->path, what);

    if (!error)
        error = runner->out->load(runner->stream->out, sums);
    if (error == -EINVAL && sums)
        (void)reason_set(why, error, "%s: its sums are damaged", file->path);
    else if (error == -ENOMEM)
        (void)reason_no_memory(why);
    json_object_put(sums);
    return error;
}

static int take(struct merging *merging, const struct piece_file *file)
{
    const bool has_time = merging->runner.stream->clock.is_tsc;

    if (file->piece.has_time != has_time)
        return reason_set(merging->runner.stream->why, -EINVAL,
                          "%s: it does not agree with others whether the trace tells time",
                          file->path);
    if (merging->runner.out) {
        const int error = take_sums(merging, file);

        if (error)
            return error;
    } else if (fwrite(file->bytes.data, 1, file->payload_bytes, stdout) != file->payload_bytes) {
        return -EIO;
    }
    merging->runner.options->errors += file->piece.errors;
    merging->taken = file->piece;
    merging->behind = file->piece.behind;
    merging->stands_there = false;
    return 0;
}

/* By the piece that was taken last, whose begin was found to be right. */
static int go_behind_taken(struct merging *merging)
{
    struct runner *const runner = &merging->runner;
    struct piece again = merging->taken;
    int error = warm_up(runner, &again);

    if (!error)
        error = run_to(runner, stop_of(&again));
    if (!error && fingerprint(runner) != merging->behind)
        error =
            reason_set(runner->stream->why, -EINVAL,
                       "piece %u is not what comes of this trace and its code here", again.number);
    return error;
}

static int decode_here(struct merging *merging, struct piece *piece)
{
    int error = 0;

    if (piece->number > 1 && !merging->stands_there)
        error = go_behind_taken(merging);
    if (!error)
        error = run_piece(&merging->runner, piece);
    merging->behind = piece->behind;
    merging->stands_there = true;
    return error;
}

/*
 * Whether a piece is of these bytes of the trace. The file's time tells, as it does for make and
 * git; if it is another, as that of a copy may be, the bytes do.
 */
static bool is_of(const struct stream *stream, const struct piece *piece)
{
    struct piece here = *piece;

    if (piece->modified == stream->modified && stream->modified)
        return true;
    here.trace = 0;
    for (uint64_t at = here.begin; at < here.end;)
        at = hash_part(stream, &here, at);
    return here.trace == piece->trace;
}

static int join_piece(struct merging *merging, unsigned number)
{
    struct decode_options *const options = merging->runner.options;
    struct shards *const shards = options->shards;
    struct piece piece = piece_of(shards, merging->runner.stream, number);
    struct piece_file file;
    struct reason *const why = merging->runner.stream->why;
    int error = piece_read(shards->folder, &piece, shards->command, &file, why);

    if (!error && !is_of(merging->runner.stream, &file.piece))
        error = reason_set(why, -EINVAL, "%s: a piece of another trace", file.path);
    if (error == -ENOENT && shards->repeats)
        error = is_empty(&piece) ? 0 : decode_here(merging, &piece);
    else if (!error && is_empty(&piece))
        ;
    else if (!error)
        error = number == 1 || file.piece.before == merging->behind ? take(merging, &file)
                                                                    : decode_here(merging, &piece);
    piece_close(&file);
    return error;
}

static int join(struct runner *runner)
{
    struct merging merging = {.runner = *runner};
    int error = 0;

    for (unsigned i = 1; !error && i <= runner->options->shards->count; i++)
        error = join_piece(&merging, i);
    *runner = merging.runner;
    return error;
}

/* A piece of sums is small; views, which may be large, have no clock that anybody asks for. */
bool shards_are_timeless(const struct decode_options *options)
{
    const struct shards *const shards = options->shards;
    struct piece piece;
    int error = -ENOENT;

    if (!shards || shards->word || !options->format)
        return false;
    for (unsigned i = 1; error == -ENOENT && i <= shards->count; i++)
        error = piece_look(shards->folder, i, shards->count, shards->command, &piece);
    return !error && piece.has_time == 0;
}

int shards_decode(struct decode_options *options, struct stream *stream)
{
    struct runner runner;
    int error = runner_open(&runner, options, stream);

    if (!error)
        error = options->shards->word ? decode_piece(&runner) : join(&runner);
    runner_close(&runner);
    return error;
}
