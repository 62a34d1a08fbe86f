/* SPDX-License-Identifier: BSD-3-Clause */
/* A perf.data that a test writes by hand, field by field. */
#ifndef PTD_TESTS_PERF_FILE_H
#define PTD_TESTS_PERF_FILE_H

#include <stddef.h>
#include <stdint.h>

#define FILE_MAX 65536

/* A file that grows. */
struct file {
    uint8_t bytes[FILE_MAX];
    size_t len;
};

#define N(number) ((uint64_t)(number))
/* TID, TIME, CPU, IDENTIFIER */
#define SAMPLE_TYPE (2u | 4u | 128u | 1u << 16)
#define ID_ALL      (1ull << 18)

void file_put(struct file *file, const void *bytes, size_t len);
/*
 * A record with its size filled in. "w: 16 bits, d: 32, q: 64, s: a string filled up to 8 bytes
 * with zeros, i: pid, tid and time of SAMPLE_TYPE, of event 5 on CPU 1"; each number is a uint64_t.
 */
void file_record(struct file *file, uint32_t type, uint16_t misc, const char *format, ...);
void file_pipe_header(struct file *file);
/* HEADER_ATTR of an event with sample_id_all and one id. */
void file_attr_record(struct file *file, uint64_t type, uint64_t id);

#endif
