/* SPDX-License-Identifier: BSD-3-Clause */
/* Sources of what vpt decode shows, where they were asked for. */
#include "view/source.h"
#include "symbols/frames.h"
#include "trace/code-files.h"

static size_t find(const struct decode_options *options, const struct stream *stream, uint64_t cr3,
                   uint64_t ip, struct source_frame frames[FRAMES_MAX])
{
    if (!options->lines && !options->inlined)
        return 0;
    return code_files_sources(options->code.files, stream->image, cr3, ip, frames);
}

static struct frames_look look_of(const struct decode_options *options)
{
    return (struct frames_look){options->lines, options->inlined, options->names};
}

void source_print(const struct decode_options *options, const struct stream *stream, uint64_t cr3,
                  uint64_t ip)
{
    const struct frames_look look = look_of(options);
    struct source_frame frames[FRAMES_MAX];
    const size_t count = find(options, stream, cr3, ip, frames);

    if (count > 0)
        frames_print(&look, frames, count, ptd_image_symbol(stream->image, cr3, ip, NULL));
}

void source_to_json(const struct decode_options *options, const struct stream *stream, uint64_t cr3,
                    uint64_t ip, json_object *line)
{
    const struct frames_look look = look_of(options);
    struct source_frame frames[FRAMES_MAX];
    const size_t count = find(options, stream, cr3, ip, frames);

    if (count > 0)
        frames_to_json(&look, frames, count, ptd_image_symbol(stream->image, cr3, ip, NULL), line);
}
