/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fields of struct vpt_cpu that vpt_save() writes; the tests compare them with the headers.
 */
#ifndef VPT_SAVE_H
#define VPT_SAVE_H

#include "vpt.h"

struct vpt_saved_field {
    uint16_t number;
    uint16_t size; /* of an element, in bytes: 1, 2, 4 or 8 */
    uint32_t count;
    size_t offset; /* in struct vpt_cpu */
    bool flag;     /* a bool */
    bool same;     /* the restored processor must have it already */
    bool added;    /* states from before it was there lack it, which means 0; 0 is not written */
    const char *member;
};

extern const struct vpt_saved_field vpt_saved_fields[];
extern const size_t vpt_saved_field_count;

#endif
