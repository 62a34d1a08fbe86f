/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the notes that a guest hands over, and of notes that mean harm. */
#include "suites.h"
#include "kvm/notes.h"
#include "run/run.h"

#include <CUnit/CUnit.h>
#include <string.h>

#define AT 0x30000u

static void put_note(struct fake *fake, uint32_t gpa, uint32_t type, uint32_t size)
{
    memcpy(fake->ram + gpa, &type, 4);
    memcpy(fake->ram + gpa + 4, &size, 4);
}

static void put_trace_note(struct fake *fake, uint64_t gpa, uint64_t len)
{
    put_note(fake, AT, 1, 24);
    fake_put(fake, AT + 8, gpa);
    fake_put(fake, AT + 16, len);
    note_received(fake->cpu, AT);
}

static void test_trace(void)
{
    struct fake *fake = fake_new();

    memcpy(fake->ram + 0x40000, "packets", 7);
    put_trace_note(fake, 0x40000, 3);
    put_trace_note(fake, 0x40003, 4);
    CU_ASSERT_EQUAL_FATAL(fake->result.cpus[0].handed.len, 7);
    CU_ASSERT_EQUAL(memcmp(fake->result.cpus[0].handed.data, "packets", 7), 0);
    fake_free(fake);
}

static void test_trace_outside_memory(void)
{
    struct fake *fake = fake_new();

    put_trace_note(fake, FAKE_RAM_BYTES, 1);
    put_trace_note(fake, FAKE_RAM_BYTES - 1, 2);
    put_trace_note(fake, UINT64_MAX, 1);
    put_trace_note(fake, UINT64_MAX - 3, 8);
    put_trace_note(fake, 0, UINT64_MAX);
    put_trace_note(fake, 1, UINT64_MAX);
    CU_ASSERT_EQUAL(fake->result.cpus[0].handed.len, 0);
    put_trace_note(fake, FAKE_RAM_BYTES - 1, 1);
    CU_ASSERT_EQUAL(fake->result.cpus[0].handed.len, 1);
    fake_free(fake);
}

static void put_process_note(struct fake *fake, uint64_t cr3, const char *name, const char *image)
{
    put_note(fake, AT, 2, 80);
    fake_put(fake, AT + 8, cr3);
    memset(fake->ram + AT + 16, 'x', 64); /* no terminating zero */
    memcpy(fake->ram + AT + 16, name, strlen(name) + (strlen(name) < 32));
    memcpy(fake->ram + AT + 48, image, strlen(image) + (strlen(image) < 32));
    note_received(fake->cpu, AT);
}

static void test_process(void)
{
    struct fake *fake = fake_new();
    const struct process *processes = fake->result.processes;

    put_process_note(fake, 0x204000, "sort", "sort.elf");
    put_process_note(fake, 0x205000, "../../etc/passwd", "../x\n\033[2J");
    put_process_note(fake, 0x206000, "0123456789abcdef0123456789abcdef", "");
    CU_ASSERT_EQUAL_FATAL(fake->result.process_count, 3);
    CU_ASSERT_EQUAL(processes[0].cr3, 0x204000);
    CU_ASSERT_STRING_EQUAL(processes[0].name, "sort");
    CU_ASSERT_STRING_EQUAL(processes[0].image, "sort.elf");
    CU_ASSERT_PTR_NULL(strpbrk(processes[1].image, "/\n\033"));
    CU_ASSERT_EQUAL(strlen(processes[2].name), 32);
    for (unsigned i = 0; i < 100; i++)
        put_process_note(fake, 0x300000 + 0x1000 * i, "many", "many.elf");
    CU_ASSERT_EQUAL(fake->result.process_count, MAX_PROCESSES);
    fake_free(fake);
}

static void test_rubbish(void)
{
    static const uint32_t sizes[] = {0, 1, 8, 23, 25, 79, 81, 4096, UINT32_MAX};
    struct fake *fake = fake_new();

    for (uint32_t type = 0; type < 4; type++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            put_note(fake, AT, type, sizes[i]);
            note_received(fake->cpu, AT);
            put_note(fake, FAKE_RAM_BYTES - 8, type, sizes[i]);
            note_received(fake->cpu, FAKE_RAM_BYTES - 8);
        }
    }
    put_note(fake, FAKE_RAM_BYTES - 8, 1, 24); /* the rest lies outside */
    note_received(fake->cpu, FAKE_RAM_BYTES - 8);
    note_received(fake->cpu, FAKE_RAM_BYTES - 7);
    note_received(fake->cpu, FAKE_RAM_BYTES);
    note_received(fake->cpu, UINT32_MAX);
    CU_ASSERT_EQUAL(fake->result.cpus[0].handed.len, 0);
    CU_ASSERT_EQUAL(fake->result.process_count, 0);
    fake_free(fake);
}

void add_note_suite(void)
{
    CU_pSuite suite = CU_add_suite("notes", NULL, NULL);

    CU_add_test(suite, "trace bytes", test_trace);
    CU_add_test(suite, "trace bytes outside memory", test_trace_outside_memory);
    CU_add_test(suite, "processes", test_process);
    CU_add_test(suite, "rubbish", test_rubbish);
}
