/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a fuzzer does after each run of its target: a trace into a map of 64 KiB, as libxdc_decode()
 * does it. Several traces show that code stays known.
 *
 *   coverage PROGRAM.elf TRACE.pt...
 *
 * A fuzzer of virtual machines has its target's code in a dump of guest memory instead of an ELF
 * file: see ptd_image_add_memory() and ptd_image_add_bytes().
 */
#include <fcntl.h>
#include <inttypes.h>
#include <ptdec_coverage.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint8_t map[64 << 10], ever[64 << 10];

static const void *map_file(const char *path, size_t *len_bytes)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const off_t end = file < 0 ? -1 : lseek(file, 0, SEEK_END);
    const void *bytes = end > 0 ? mmap(NULL, (size_t)end, PROT_READ, MAP_PRIVATE, file, 0) : NULL;

    if (!bytes || bytes == MAP_FAILED) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    (void)close(file);
    *len_bytes = (size_t)end;
    return bytes;
}

/* Places of the map that this trace is the first to have. */
static unsigned count_new(void)
{
    unsigned count = 0;

    for (size_t i = 0; i < sizeof(map); i++) {
        count += map[i] && !ever[i];
        ever[i] |= map[i];
    }
    return count;
}

int main(int argc, char **argv)
{
    const struct ptd_coverage_config config = {
        .map = map, .map_bytes = sizeof(map), .hash = PTD_COVERAGE_LIBXDC};
    struct ptd_image *const image = ptd_image_new();
    struct ptd_coverage *coverage; /* instead of libxdc_init() */
    struct ptd_coverage_sums sums;
    int error;

    if (argc < 3 || !image || ptd_coverage_new(&config, &coverage) != PTD_OK)
        return fprintf(stderr, "usage: coverage PROGRAM.elf TRACE.pt...\n"), EXIT_FAILURE;
    error = ptd_image_add_elf(image, argv[1], 0, PTD_ANY_CR3);
    if (error)
        return fprintf(stderr, "%s: %s\n", argv[1], ptd_strerror(error)), EXIT_FAILURE;
    for (int i = 2; i < argc; i++) {
        size_t len_bytes;
        const void *const trace = map_file(argv[i], &len_bytes);

        memset(map, 0, sizeof(map)); /* instead of libxdc_bitmap_reset() */
        error = ptd_coverage_trace(coverage, image, NULL, trace, len_bytes, &sums);
        if (error) /* instead of libxdc_decode() */
            return fprintf(stderr, "%s: %s\n", argv[i], ptd_strerror(error)), EXIT_FAILURE;
        printf("%s: %" PRIu64 " edges, %u new places\n", argv[i], sums.edges, count_new());
        if (sums.errors) /* instead of decoder_page_fault and other results */
            printf("  %" PRIu64 " errors; the first: %s, at offset %" PRIu64 ", code at %#" PRIx64
                   "\n",
                   sums.errors, ptd_strerror(sums.first_error), sums.error_offset, sums.error_ip);
        (void)munmap((void *)(uintptr_t)trace, len_bytes);
    }
    ptd_coverage_free(coverage);
    ptd_image_free(image);
    return EXIT_SUCCESS;
}
