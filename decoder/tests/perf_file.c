/* SPDX-License-Identifier: BSD-3-Clause */
/* A perf.data that a test writes by hand, field by field. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "perf_file.h"

void file_put(struct file *file, const void *bytes, size_t len)
{
    if (file->len + len > FILE_MAX)
        abort();
    memcpy(file->bytes + file->len, bytes, len);
    file->len += len;
}

/* What sample_id_all puts behind a record, of CPU 1. */
static void put_who(struct file *file, uint64_t pid, uint64_t tid, uint64_t time)
{
    static const uint64_t cpu = 1, id = 5;

    file_put(file, &pid, 4);
    file_put(file, &tid, 4);
    file_put(file, &time, 8);
    file_put(file, &cpu, 8);
    file_put(file, &id, 8);
}

/* See file_record(). */
static void put_fields(struct file *file, const char *format, va_list fields)
{
    for (; *format; format++) {
        const uint64_t number = *format == 's' ? 0 : va_arg(fields, uint64_t);
        const char *text;

        switch (*format) {
        case 'w':
            file_put(file, &number, 2);
            break;
        case 'd':
            file_put(file, &number, 4);
            break;
        case 'q':
            file_put(file, &number, 8);
            break;
        case 'i': {
            const uint64_t tid = va_arg(fields, uint64_t), time = va_arg(fields, uint64_t);

            put_who(file, number, tid, time);
            break;
        }
        default:
            text = va_arg(fields, const char *);
            file_put(file, text, strlen(text));
            file_put(file, "\0\0\0\0\0\0\0", 8 - strlen(text) % 8);
            break;
        }
    }
}

void file_record(struct file *file, uint32_t type, uint16_t misc, const char *format, ...)
{
    const size_t at = file->len;
    va_list fields;
    uint16_t size = 0;

    file_put(file, &type, 4);
    file_put(file, &misc, 2);
    file_put(file, &size, 2);
    va_start(fields, format);
    put_fields(file, format, fields);
    va_end(fields);
    size = (uint16_t)(file->len - at);
    memcpy(file->bytes + at + 6, &size, 2);
}

void file_pipe_header(struct file *file)
{
    file->len = 0;
    file_put(file, "PERFILE2\x10\0\0\0\0\0\0\0", 16);
}

void file_attr_record(struct file *file, uint64_t type, uint64_t id)
{
    file_record(file, 64, 0, "ddqqqqqqqqq", type, N(72), N(0x2001), N(1), N(SAMPLE_TYPE), N(0),
                ID_ALL, N(0), N(0), N(0), id);
}
