/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A decoder of Intel Processor Trace in a hundred lines: prints which function ran when, and how
 * many instructions of each ran in all.
 *
 *   decode TRACE.pt PROGRAM.elf
 *
 * The trace says which way every branch went; the program, an ELF file, says what stands between
 * them. Code is looked for in every address space, so that a trace of one program is enough.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <ptdec.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_FUNCTIONS 1024

struct function {
    const char *name; /* libptdec's, valid as long as the image */
    uint64_t insns;
};

static struct function functions[MAX_FUNCTIONS];
static size_t function_count;

static const void *map_file(const char *path, size_t *len_bytes)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const off_t end = file < 0 ? -1 : lseek(file, 0, SEEK_END);
    const void *bytes = end > 0 ? mmap(NULL, (size_t)end, PROT_READ, MAP_PRIVATE, file, 0) : NULL;

    if (!bytes || bytes == MAP_FAILED) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    *len_bytes = (size_t)end;
    return bytes;
}

/* Names that are equal are the same pointer: they are the image's. */
static void count(const char *name, uint64_t insns)
{
    size_t i = 0;

    while (i < function_count && functions[i].name != name)
        i++;
    if (i == MAX_FUNCTIONS)
        return;
    if (i == function_count)
        functions[function_count++].name = name;
    functions[i].insns += insns;
}

/* What ran, one item after the other. How many errors the trace has. */
static unsigned show(struct ptd_flow *flow, const struct ptd_image *image)
{
    const char *last = NULL, *name;
    unsigned errors = 0;
    struct ptd_item item;

    while (ptd_flow_next(flow, &item) == PTD_OK) {
        switch (item.type) {
        case PTD_ITEM_BLOCK: /* instructions without a branch but at their end */
            name = ptd_image_symbol(image, item.cr3, item.ip, NULL);
            if (!name)
                name = "?";
            if (name != last)
                printf("%#10" PRIx64 "  %s\n", item.ip, name);
            last = name;
            count(name, item.insns);
            break;
        case PTD_ITEM_ENABLED:
            printf("%#10" PRIx64 "  tracing begins\n", item.to);
            break;
        case PTD_ITEM_DISABLED:
            puts("            tracing ends");
            break;
        case PTD_ITEM_ERROR:
            printf("offset %" PRIu64 ": %s; %" PRIu64 " bytes lost\n", item.offset,
                   ptd_strerror(item.error), item.value);
            errors++;
            break;
        default: /* CR3, time, power, ...: see ptdec.h */
            break;
        }
    }
    return errors;
}

int main(int argc, char **argv)
{
    struct ptd_image *image = ptd_image_new();
    struct ptd_flow *flow;
    size_t len_bytes;
    const void *trace;
    unsigned errors;
    int error;

    if (argc != 3 || !image)
        return fprintf(stderr, "usage: decode TRACE.pt PROGRAM.elf\n"), EXIT_FAILURE;
    trace = map_file(argv[1], &len_bytes);
    error = ptd_image_add_elf(image, argv[2], 0, PTD_ANY_CR3);
    if (error)
        return fprintf(stderr, "%s: %s\n", argv[2], ptd_strerror(error)), EXIT_FAILURE;
    flow = ptd_flow_new(trace, len_bytes, image, NULL);
    if (!flow)
        return fprintf(stderr, "no memory\n"), EXIT_FAILURE;
    errors = show(flow, image);
    for (size_t i = 0; i < function_count; i++)
        printf("%10" PRIu64 " instructions in %s\n", functions[i].insns, functions[i].name);
    ptd_flow_free(flow);
    ptd_image_free(image);
    return errors ? EXIT_FAILURE : EXIT_SUCCESS;
}
