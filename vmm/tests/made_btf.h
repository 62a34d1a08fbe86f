/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes BTF. Type 1 is a number of 8 bytes. */
#ifndef VMM_TESTS_MADE_BTF_H
#define VMM_TESTS_MADE_BTF_H

#include <stddef.h>
#include <stdint.h>

#define MADE_BTF_BYTES 8192u
#define MADE_TYPEDEF   8u /* kinds of what only wraps a type */
#define MADE_CONST     10u

struct made_btf {
    uint8_t types[MADE_BTF_BYTES], all[2 * MADE_BTF_BYTES];
    char texts[MADE_BTF_BYTES];
    size_t type_bytes, text_bytes;
    uint32_t count;
};

struct made_member {
    const char *name; /* "": none */
    uint32_t offset, type;
};

void made_btf_begin(struct made_btf *btf);
/* Each returns the number of the new type. */
uint32_t made_btf_struct(struct made_btf *btf, const char *name, uint32_t bytes,
                         const struct made_member *members, uint32_t count);
uint32_t made_btf_array(struct made_btf *btf, uint32_t type, uint32_t elements);
uint32_t made_btf_wrap(struct made_btf *btf, const char *name, uint32_t kind, uint32_t type);
/* Puts it together in .all: so many bytes. */
size_t made_btf_end(struct made_btf *btf);

#endif
