/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BTF: what a Linux kernel says of its own types. The bytes are a guest's, and hostile: btf_open()
 * looks at all of them once, so that whatever is asked afterwards stays inside.
 */
#ifndef VMM_LINUX_BTF_H
#define VMM_LINUX_BTF_H

#include "common/reason.h"

#include <stddef.h>
#include <stdint.h>

#define BTF_BYTES_MAX (64u << 20) /* that of a kernel with everything is a tenth of it */

struct btf {
    const uint8_t *types; /* of the caller */
    const char *texts;    /* the last one ends with a zero */
    uint32_t text_bytes;
    uint32_t *offsets; /* of each type, from number 1 on, in types */
    uint32_t count;    /* one more than the highest number of a type */
};

/* A member, however deep it stands: "context.vdso". Offsets and sizes in bytes. */
struct btf_member {
    uint32_t offset;
    uint32_t type;     /* its number */
    uint32_t elements; /* of an array; else 1 */
};

/* 0, -EINVAL or -ENOMEM, and the reason. bytes outlive it; btf_close() in any case. */
int btf_open(struct btf *btf, const uint8_t *bytes, size_t len_bytes, struct reason *why);
void btf_close(struct btf *btf);
/* The structure of a name, from the one behind `after` on (0: all); 0: there is none. */
uint32_t btf_struct(const struct btf *btf, const char *name, uint32_t after);
/* The size of a structure in bytes. */
uint32_t btf_bytes(const struct btf *btf, uint32_t type);
/*
 * Its member of that path, in anonymous structures and unions too. 0; -ENOENT: there is none, or it
 * is no whole bytes.
 */
int btf_member(const struct btf *btf, uint32_t type, const char *path, struct btf_member *member);

#endif
