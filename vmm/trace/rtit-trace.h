/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces of either kind: the settings of an RTIT trace, and one way to decode PT and RTIT.
 */
#ifndef VMM_RTIT_TRACE_H
#define VMM_RTIT_TRACE_H

#include "common/bytes.h"
#include "ptdec_rtit.h"

struct json_object;

/* "1,3" or "E1,E3" for the errata of RTIT v1.05, appendix E, and "none". */
bool rtit_errata_parse(const char *text, uint32_t *errata);
void rtit_errata_format(uint32_t errata, char *text, size_t text_bytes);
/* The settings of an RTIT trace (docs/trace-files.md). */
struct json_object *rtit_to_json(const struct ptd_rtit_config *config);
/* False: malformed. */
bool rtit_from_json(struct json_object *object, struct ptd_rtit_config *config);

/* One of the two flow decoders. */
struct trace_flow {
    struct ptd_flow *pt;
    struct ptd_rtit_flow *rtit;
};
/* Of an RTIT trace if rtit is not NULL. False: no memory. */
bool trace_flow_open(struct trace_flow *flow, const struct bytes *trace,
                     const struct ptd_image *image, const struct ptd_flow_config *config,
                     const struct ptd_rtit_config *rtit);
int trace_flow_next(struct trace_flow *flow, struct ptd_item *item);
void trace_flow_close(struct trace_flow *flow);

#endif
