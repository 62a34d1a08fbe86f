/* SPDX-License-Identifier: BSD-3-Clause */
#include "made_jitdump.h"

#include <CUnit/CUnit.h>
#include <string.h>

static void put(struct bytes *file, const void *bytes, size_t len)
{
    CU_ASSERT_TRUE_FATAL(bytes_add(file, bytes, len));
}

static void put32(struct bytes *file, uint32_t value)
{
    put(file, &value, sizeof(value));
}

static void put64(struct bytes *file, uint64_t value)
{
    put(file, &value, sizeof(value));
}

static void put_record(struct bytes *file, uint32_t id, size_t len, uint64_t time)
{
    put32(file, id);
    put32(file, (uint32_t)len);
    put64(file, time);
}

void made_jitdump_head(struct bytes *file, uint32_t pid, uint64_t flags)
{
    put32(file, 0x4a695444);
    put32(file, 1); /* version */
    put32(file, MADE_JITDUMP_HEAD);
    put32(file, 62); /* x86-64 */
    put32(file, 0);
    put32(file, pid);
    put64(file, 1);
    put64(file, flags);
}

void made_jitdump_load(struct bytes *file, uint64_t time, uint64_t address, const char *name,
                       uint64_t index, const void *code, uint64_t len)
{
    put_record(file, 0, 56 + strlen(name) + 1 + len, time);
    put32(file, 10); /* pid, tid */
    put32(file, 10);
    put64(file, address);
    put64(file, address);
    put64(file, len);
    put64(file, index);
    put(file, name, strlen(name) + 1);
    put(file, code, len);
}

void made_jitdump_move(struct bytes *file, uint64_t time, uint64_t from, uint64_t to,
                       uint64_t index)
{
    put_record(file, 1, 64, time);
    put32(file, 10);
    put32(file, 10);
    put64(file, from);
    put64(file, from);
    put64(file, to);
    put64(file, 1); /* its length, which the index says, too */
    put64(file, index);
}

void made_jitdump_other(struct bytes *file, uint32_t id)
{
    put_record(file, id, 24, 1);
    put64(file, UINT64_MAX);
}
