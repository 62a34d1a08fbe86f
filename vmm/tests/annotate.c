/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts of instructions, told block by block: code that changes, a function at two places, several
 * of one name, blocks that only begin or end in a function, and what did not run.
 */
#include "report/annotate-lines.h"
#include "report/annotate.h"
#include "ptdec.h"
#include "suites.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#define AT    0x1000u
#define CR3   0x5000u
#define OTHER 0x6000u

/* inc eax; dec eax; jz +2; inc eax; ret; nop */
static const uint8_t code[] = {0xff, 0xc0, 0xff, 0xc8, 0x74, 0x02, 0xff, 0xc0, 0xc3, 0x90};
#define INC1 0u
#define DEC  2u
#define JZ   4u
#define INC2 6u
#define RET  8u

static struct ptd_image *image_with(const char *name, uint64_t at, const void *bytes, size_t len)
{
    struct ptd_image *const image = ptd_image_new();

    CU_ASSERT_PTR_NOT_NULL_FATAL(image);
    CU_ASSERT_EQUAL_FATAL(ptd_image_add_bytes(image, name, at, bytes, len, PTD_ANY_CR3), PTD_OK);
    return image;
}

static struct ptd_item block(uint64_t ip, uint64_t last_ip, uint8_t last_class, uint64_t space)
{
    return (struct ptd_item){.type = PTD_ITEM_BLOCK,
                             .ip = ip,
                             .last_ip = last_ip,
                             .last_class = last_class,
                             .mode = PTD_MODE_64,
                             .cr3 = space};
}

static void ran(struct annotate *annotate, const struct ptd_image *image,
                const struct ptd_item *item, bool taken, uint64_t count)
{
    const uint32_t number = annotate_see(annotate, image, item);

    CU_ASSERT_NOT_EQUAL_FATAL(number, UINT32_MAX);
    annotate_add(annotate, number, item->last_class, taken, count);
}

/* How often, and how often taken; UINT64_MAX: there is no such line. */
static uint64_t executed(const struct annotate *annotate, uint64_t function, uint64_t offset,
                         uint64_t version, uint64_t *taken)
{
    const struct sum *const line = table_find(&annotate->lines, function, offset, version);

    *taken = line ? line->cost : UINT64_MAX;
    return line ? line->count : UINT64_MAX;
}

static void check(const struct annotate *annotate, uint64_t function, uint64_t offset,
                  uint64_t version, uint64_t want, uint64_t want_taken)
{
    uint64_t taken;

    CU_ASSERT_EQUAL(executed(annotate, function, offset, version, &taken), want);
    CU_ASSERT_EQUAL(taken, want_taken);
}

static void branches(void)
{
    struct ptd_image *const image = image_with("f", AT, code, sizeof(code));
    const struct ptd_item head = block(AT, AT + JZ, PTD_INSN_COND, CR3);
    const struct ptd_item rest = block(AT + INC2, AT + RET, PTD_INSN_RET, CR3);
    const struct ptd_item last = block(AT + RET, AT + RET, PTD_INSN_RET, CR3);
    struct annotate annotate;

    annotate_begin(&annotate, "f");
    ran(&annotate, image, &head, true, 7);
    ran(&annotate, image, &last, false, 7);
    ran(&annotate, image, &head, false, 5);
    ran(&annotate, image, &rest, false, 5);
    check(&annotate, 0, INC1, 0, 12, 0);
    check(&annotate, 0, JZ, 0, 12, 7);
    check(&annotate, 0, INC2, 0, 5, 0);
    check(&annotate, 0, RET, 0, 12, 0);
    check(&annotate, 0, RET + 1, 0, 0, 0); /* did not run, but is known */
    CU_ASSERT_EQUAL(annotate.function_count, 1);
    CU_ASSERT_EQUAL(annotate_see(&annotate, image, &head), annotate_see(&annotate, image, &head));
    CU_ASSERT_FALSE(annotate.is_cut);
    annotate_free(&annotate);
    ptd_image_free(image);
}

/* The branch becomes a NOP of two bytes. */
static void changes(void)
{
    static const uint8_t nop[] = {0x66, 0x90};
    struct ptd_image *const image = image_with("f", AT, code, sizeof(code));
    const struct ptd_item before = block(AT, AT + JZ, PTD_INSN_COND, CR3);
    const struct ptd_item behind = block(AT, AT + RET, PTD_INSN_RET, CR3);
    struct annotate annotate;

    annotate_begin(&annotate, "f");
    ran(&annotate, image, &before, true, 2);
    CU_ASSERT_EQUAL_FATAL(ptd_image_patch(image, AT + JZ, nop, sizeof(nop), PTD_ANY_CR3), PTD_OK);
    ran(&annotate, image, &behind, false, 3);
    check(&annotate, 0, INC1, 0, 5, 0);
    check(&annotate, 0, JZ, 0, 2, 2);
    check(&annotate, 0, JZ, 1, 3, 0);
    check(&annotate, 0, RET, 0, 3, 0);
    CU_ASSERT_EQUAL(annotate.function_count, 1);
    annotate_free(&annotate);
    ptd_image_free(image);
}

/* As a library in two processes; and another function of the name, on the same place of a page. */
static void places(void)
{
    static const uint8_t other[] = {0xff, 0xc0, 0xff, 0xc0, 0xc3};
    struct ptd_image *const image = image_with("f", AT, code, sizeof(code));
    const struct ptd_item here = block(AT, AT + JZ, PTD_INSN_COND, CR3);
    const struct ptd_item there = block(AT + 0x7000, AT + 0x7000 + JZ, PTD_INSN_COND, OTHER);
    const struct ptd_item shared = block(AT, AT + JZ, PTD_INSN_COND, OTHER);
    const struct ptd_item third = block(AT + 0x9000, AT + 0x9000 + 4, PTD_INSN_RET, OTHER);
    struct annotate annotate;

    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, "f", AT + 0x7000, code, sizeof(code), OTHER),
                    PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, "f", AT + 0x9000, other, sizeof(other), OTHER),
                    PTD_OK);
    annotate_begin(&annotate, "f");
    ran(&annotate, image, &here, true, 1);
    ran(&annotate, image, &there, false, 2);
    ran(&annotate, image, &third, false, 4);
    ran(&annotate, image, &shared, false, 8);
    CU_ASSERT_EQUAL_FATAL(annotate.function_count, 2);
    CU_ASSERT_EQUAL(annotate.functions[0].places, 2); /* the first in two address spaces */
    CU_ASSERT_EQUAL(annotate.functions[1].start, AT + 0x9000);
    check(&annotate, 0, JZ, 0, 11, 1);
    check(&annotate, 1, INC1, 0, 4, 0);
    annotate_free(&annotate);
    ptd_image_free(image);
}

/* Only what is in the function counts, and a branch behind it is none of its own. */
static void edges(void)
{
    struct ptd_image *const image = image_with("before", AT, code, DEC);
    const struct ptd_item all = block(AT, AT + JZ, PTD_INSN_COND, CR3);
    struct annotate annotate;

    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, "f", AT + DEC, code + DEC, 2, PTD_ANY_CR3), PTD_OK);
    CU_ASSERT_EQUAL(
        ptd_image_add_bytes(image, "behind", AT + JZ, code + JZ, sizeof(code) - JZ, PTD_ANY_CR3),
        PTD_OK);
    annotate_begin(&annotate, "f");
    ran(&annotate, image, &all, true, 3);
    check(&annotate, 0, 0, 0, 3, 0); /* DEC */
    CU_ASSERT_EQUAL(annotate.lines.count, 1);
    annotate_free(&annotate);
    annotate_begin(&annotate, "behind");
    ran(&annotate, image, &all, true, 3);
    check(&annotate, 0, 0, 0, 3, 3); /* JZ */
    check(&annotate, 0, INC2 - JZ, 0, 0, 0);
    annotate_free(&annotate);
    ptd_image_free(image);
}

static void elsewhere(void)
{
    struct ptd_image *const image = image_with("g", AT, code, sizeof(code));
    const struct ptd_item item = block(AT, AT + JZ, PTD_INSN_COND, CR3);
    struct annotate annotate;

    annotate_begin(&annotate, "f");
    CU_ASSERT_EQUAL(annotate_see(&annotate, image, &item), ANNOTATE_ELSEWHERE);
    annotate_add(&annotate, ANNOTATE_ELSEWHERE, PTD_INSN_COND, true, 9);
    CU_ASSERT_EQUAL(annotate.function_count, 0);
    CU_ASSERT_EQUAL_FATAL(annotate.seen.count, 1);
    CU_ASSERT_STRING_EQUAL(annotate.seen.list[0], "g");
    annotate_free(&annotate);
    ptd_image_free(image);
}

/* Code that changes for ever: it is counted up to a bound, and that is said. */
static void without_end(void)
{
    uint8_t bytes[] = {0xb8, 0, 0, 0, 0, 0xc3}; /* mov eax, N; ret */
    struct ptd_image *const image = image_with("f", AT, bytes, sizeof(bytes));
    const struct ptd_item item = block(AT, AT + 5, PTD_INSN_RET, CR3);
    struct annotate annotate;

    annotate_begin(&annotate, "f");
    for (unsigned i = 0; i < ANNOTATE_VERSIONS_MAX + 10; i++) {
        bytes[1] = (uint8_t)i;
        bytes[2] = (uint8_t)(i >> 8);
        CU_ASSERT_EQUAL(ptd_image_patch(image, AT, bytes, sizeof(bytes), PTD_ANY_CR3), PTD_OK);
        ran(&annotate, image, &item, false, 1);
    }
    CU_ASSERT_TRUE(annotate.is_cut);
    CU_ASSERT_EQUAL(annotate.lines.count, ANNOTATE_VERSIONS_MAX + 1);
    check(&annotate, 0, 5, 0, ANNOTATE_VERSIONS_MAX + 10, 0);
    annotate_free(&annotate);
    ptd_image_free(image);
}

/* ---- Sources ---- */

/* What stands at AT: INC1 and JZ are of the function itself, DEC is of one that was inlined. */
static size_t made_frames(void *owner, const struct ptd_image *image, uint64_t cr3, uint64_t ip,
                          struct source_frame frames[FRAMES_MAX])
{
    static const struct source_frame inlined = {.function = "less", .file = "/a/b.h", .line = 7};
    static const char same[] = "/a/c.c"; /* another text of the same file */
    unsigned *const asked = owner;
    size_t count = 0;

    (void)image;
    (void)cr3;
    ++*asked;
    if (ip >= AT + INC2)
        return 0;
    if (ip == AT + DEC)
        frames[count++] = inlined;
    frames[count++] =
        (struct source_frame){.file = ip == AT + JZ ? same : "/a/c.c", .line = ip == AT ? 3 : 4};
    return count;
}

static void is_frame(const struct source_frame *frame, const char *file, unsigned line)
{
    CU_ASSERT_STRING_EQUAL(frame->file, file);
    CU_ASSERT_EQUAL(frame->line, line);
}

static void sources(void)
{
    struct ptd_image *const image = image_with("f", AT, code, sizeof(code));
    const struct ptd_item head = block(AT, AT + JZ, PTD_INSN_COND, CR3);
    const struct ptd_item rest = block(AT + INC2, AT + RET, PTD_INSN_RET, CR3);
    struct source_frame frames[FRAMES_MAX];
    struct annotate_line *lines;
    struct annotate annotate;
    unsigned asked = 0;
    size_t count;

    annotate_begin(&annotate, "f");
    annotate.frames_of = made_frames;
    annotate.frames_owner = &asked;
    ran(&annotate, image, &head, false, 5);
    ran(&annotate, image, &rest, false, 5);
    CU_ASSERT_EQUAL(asked, annotate.lines.count); /* each once */
    CU_ASSERT_EQUAL_FATAL(annotate_frames(&annotate, &annotate.codes[1], frames), 2); /* DEC */
    is_frame(&frames[0], "/a/b.h", 7);
    CU_ASSERT_STRING_EQUAL(frames[0].function, "less");
    is_frame(&frames[1], "/a/c.c", 4);
    CU_ASSERT_PTR_NULL(frames[1].function);
    CU_ASSERT_EQUAL(annotate_frames(&annotate, &annotate.codes[3], frames), 0); /* INC2 */
    CU_ASSERT_EQUAL_FATAL(annotate_lines(&annotate, 0, &lines, &count), 0);
    CU_ASSERT_EQUAL_FATAL(count, 4);
    CU_ASSERT_PTR_NULL(lines[0].file); /* INC2 and RET */
    CU_ASSERT_EQUAL(lines[0].insns, 10);
    CU_ASSERT_STRING_EQUAL(lines[1].file, "/a/b.h");
    CU_ASSERT_EQUAL(lines[1].insns, 5);
    CU_ASSERT_STRING_EQUAL(lines[2].file, "/a/c.c");
    CU_ASSERT_EQUAL(lines[2].line, 3);
    CU_ASSERT_EQUAL(lines[3].line, 4);
    CU_ASSERT_EQUAL(lines[3].insns, 5);
    free(lines);
    annotate_free(&annotate);
    ptd_image_free(image);
}

/* ---- Names ---- */

static size_t functions_of(const char *name, const struct ptd_image *image)
{
    const struct ptd_item one = block(AT, AT + JZ, PTD_INSN_COND, CR3);
    const struct ptd_item other = block(AT + 0x9000, AT + 0x9000 + JZ, PTD_INSN_COND, CR3);
    struct shown_names *const shown = shown_names_new();
    struct annotate annotate;
    size_t count;

    annotate_begin(&annotate, name);
    annotate.shown = shown;
    ran(&annotate, image, &one, true, 1);
    ran(&annotate, image, &other, true, 1);
    count = annotate.function_count;
    for (size_t i = 0; i < count; i++)
        CU_ASSERT_STRING_EQUAL(annotate.seen.list[annotate.functions[i].name],
                               annotate.functions[i].start == AT ? "a::f(int)" : "a::f(long)");
    annotate_free(&annotate);
    shown_names_free(shown);
    return count;
}

/* Two functions of the same code, whose names differ by their parameters. */
static void mangled(void)
{
    struct ptd_image *const image = image_with("_ZN1a1fEi", AT, code, sizeof(code));

    CU_ASSERT_EQUAL(
        ptd_image_add_bytes(image, "_ZN1a1fEl", AT + 0x9000, code, sizeof(code), PTD_ANY_CR3),
        PTD_OK);
    if (demangle_is_there()) {
        CU_ASSERT_EQUAL(functions_of("_ZN1a1fEi", image), 1);
        CU_ASSERT_EQUAL(functions_of("a::f(long)", image), 1);
        CU_ASSERT_EQUAL(functions_of("a::f", image), 2);
    }
    CU_ASSERT_EQUAL(functions_of("a::", image), 0);
    CU_ASSERT_EQUAL(functions_of("f", image), 0);
    ptd_image_free(image);
}

void add_annotate_suite(void)
{
    CU_pSuite suite = CU_add_suite("annotate", NULL, NULL);

    CU_add_test(suite, "branches taken and not", branches);
    CU_add_test(suite, "code that changes", changes);
    CU_add_test(suite, "a function at two places, and two of a name", places);
    CU_add_test(suite, "blocks that only begin or end there", edges);
    CU_add_test(suite, "functions of other names", elsewhere);
    CU_add_test(suite, "code that changes for ever", without_end);
    CU_add_test(suite, "source lines, and what was inlined", sources);
    CU_add_test(suite, "mangled names", mangled);
}
