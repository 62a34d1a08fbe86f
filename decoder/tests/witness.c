/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * witness TRACE: decodes a trace of `vpt run` with libipt and with libptdec, and compares both with
 * the executed path. TRACE.json and the path file are described in docs/trace-files.md. One line
 * for each decoder; status 0 only if both found exactly the executed instructions.
 */
#include <inttypes.h>
#include <json-c/json.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libipt.h"
#include "ptdec.h"
#include "referee.h"

#define CR3_MARK    0x8000u /* in the top 16 bits of a word of the path */
#define CR3_SHIFT   12
#define CONTEXT     4 /* instructions shown in front of a difference */
#define MAX_REPORTS 5 /* errors of a decoder */

struct run {
    char folder[PATH_MAX];
    uint8_t *trace;
    size_t trace_bytes;
    uint64_t *path;
    size_t path_words;
    struct json_object *json;
    struct ptd_image *image;
};

/* The executed path, word by word; what was compared so far. */
struct reader {
    const struct run *run;
    const char *who;
    size_t word;
    uint64_t cr3;
    uint64_t insns;
    unsigned errors;
    bool differs;
};

static void *read_file(const char *path, size_t *len_bytes)
{
    FILE *const file = fopen(path, "rb");
    void *bytes = NULL;
    long len;

    if (file && fseek(file, 0, SEEK_END) == 0 && (len = ftell(file)) >= 0 &&
        fseek(file, 0, SEEK_SET) == 0 && (bytes = malloc((size_t)len + 1)) != NULL) {
        *len_bytes = (size_t)len;
        if (fread(bytes, 1, (size_t)len, file) != (size_t)len) {
            free(bytes);
            bytes = NULL;
        }
    }
    if (file)
        (void)fclose(file);
    if (!bytes)
        (void)fprintf(stderr, "witness: cannot read %s\n", path);
    return bytes;
}

/* A path of the JSON file: absolute, or relative to its folder. "" if it is too long. */
static const char *resolve(const struct run *run, const char *name, char path[PATH_MAX])
{
    const int len = name[0] == '/' ? snprintf(path, PATH_MAX, "%s", name)
                                   : snprintf(path, PATH_MAX, "%s/%s", run->folder, name);

    if (len < 0 || len >= PATH_MAX)
        path[0] = '\0';
    return path;
}

static const char *text_of(struct json_object *object, const char *name)
{
    struct json_object *const member = json_object_object_get(object, name);

    return member ? json_object_get_string(member) : NULL;
}

static uint64_t number_of(struct json_object *object, const char *name)
{
    struct json_object *const member = json_object_object_get(object, name);

    return member ? json_object_get_uint64(member) : 0;
}

/* ---- Comparing ---- */

/* Skips the words that tell the CR3. False at the end of the path. */
static bool next_word(struct reader *reader, uint64_t *ip)
{
    while (reader->word < reader->run->path_words) {
        const uint64_t word = reader->run->path[reader->word++];

        if (word >> 48 != CR3_MARK) {
            *ip = word;
            return true;
        }
        reader->cr3 = word << 16 >> 16 << CR3_SHIFT;
    }
    return false;
}

static void print_insn(const struct run *run, const char *label, uint64_t cr3, uint64_t ip)
{
    uint64_t offset = 0;
    const char *const symbol = ptd_image_symbol(run->image, cr3, ip, &offset);
    const uint8_t *bytes;
    size_t len;
    char text[96] = "?";

    if (ptd_image_find(run->image, cr3, ip, &bytes, &len) == PTD_OK)
        (void)ptd_insn_format(PTD_MODE_64, ip, bytes, len, text, sizeof(text));
    printf("    %-8s cr3 0x%" PRIx64 "  0x%" PRIx64 "  %s+0x%" PRIx64 "  %s\n", label, cr3, ip,
           symbol ? symbol : "?", offset, text);
}

static void print_before(const struct reader *reader)
{
    struct reader again = {.run = reader->run};
    uint64_t ip;

    while (next_word(&again, &ip)) {
        if (again.insns == reader->insns)
            break;
        if (again.insns + CONTEXT >= reader->insns)
            print_insn(reader->run, "", again.cr3, ip);
        again.insns++;
    }
}

/* cr3 is compared if a PIP told it. */
static void compare(struct reader *reader, uint64_t ip, uint64_t cr3, bool has_cr3)
{
    uint64_t executed_ip;

    if (!next_word(reader, &executed_ip)) {
        printf("%s: goes on after the last of %" PRIu64 " executed instructions\n", reader->who,
               reader->insns);
        print_before(reader);
        print_insn(reader->run, "decoded", cr3, ip);
        reader->differs = true;
        return;
    }
    if (executed_ip == ip && (!has_cr3 || cr3 >> CR3_SHIFT == reader->cr3 >> CR3_SHIFT)) {
        reader->insns++;
        return;
    }
    printf("%s: differs at instruction %" PRIu64 "\n", reader->who, reader->insns);
    print_before(reader);
    print_insn(reader->run, "executed", reader->cr3, executed_ip);
    print_insn(reader->run, "decoded", cr3, ip);
    reader->differs = true;
}

static void report_error(struct reader *reader, uint64_t offset, const char *what)
{
    if (reader->errors++ < MAX_REPORTS)
        printf("%s: error at offset 0x%" PRIx64 ", after %" PRIu64 " instructions: %s\n",
               reader->who, offset, reader->insns, what);
}

/* Whether the whole path was found. */
static bool conclude(struct reader *reader)
{
    const uint64_t decoded = reader->insns;
    uint64_t ip, executed = decoded;

    if (reader->differs)
        return false;
    while (next_word(reader, &ip))
        executed++;
    if (executed != decoded)
        printf("%s: ends after %" PRIu64 " of %" PRIu64 " executed instructions\n", reader->who,
               decoded, executed);
    return executed == decoded && reader->errors == 0;
}

/* ---- The two decoders ---- */

/* The fast ways of libptdec find the same as the general one. */
static bool check_fast_ways(const struct run *run, const struct ptd_flow_config *config)
{
    const struct referee_trace trace = {
        .bytes = run->trace, .len_bytes = run->trace_bytes, .image = run->image, .config = config};
    const struct referee_verdict verdicts[] = {referee_run(&trace, 4096),
                                               referee_parallel(&trace, 2, 4096)};

    for (size_t i = 0; i < 2; i++)
        if (!verdicts[i].same)
            printf("ptdec, %s: %s\n", i ? "on threads" : "in bulk", verdicts[i].difference);
    return verdicts[0].same && verdicts[1].same;
}

static bool check_libptdec(const struct run *run)
{
    const struct ptd_flow_config config = {
        .mode = number_of(run->json, "mode") == 32 ? PTD_MODE_32 : PTD_MODE_64};
    struct ptd_flow *const flow = ptd_flow_new(run->trace, run->trace_bytes, run->image, &config);
    struct reader reader = {.run = run, .who = "ptdec"};
    struct ptd_item item;
    uint64_t branches = 0;
    bool has_cr3 = false;

    if (!flow)
        return false;
    while (!reader.differs && ptd_flow_next(flow, &item) == PTD_OK) {
        uint64_t ip = item.ip;
        struct ptd_insn insn;

        if (item.type == PTD_ITEM_ERROR)
            report_error(&reader, item.offset, ptd_strerror(item.error));
        if (item.type == PTD_ITEM_CR3)
            has_cr3 = true;
        if (item.type != PTD_ITEM_BLOCK)
            continue;
        if (item.last_class >= PTD_INSN_COND && item.last_class <= PTD_INSN_VMENTRY)
            branches++;
        while (!reader.differs && ptd_block_insn(run->image, &item, &ip, &insn) == PTD_OK)
            compare(&reader, insn.ip, item.cr3, has_cr3);
    }
    ptd_flow_free(flow);
    if (!conclude(&reader) || !check_fast_ways(run, &config))
        return false;
    printf("ptdec: identical (%" PRIu64 " instructions, %" PRIu64 " branches)\n", reader.insns,
           branches);
    return true;
}

static struct witness *new_witness(const struct run *run)
{
    struct json_object *const cpu = json_object_object_get(run->json, "cpu");
    struct json_object *const ratio = json_object_object_get(run->json, "tsc_ctc");
    uint32_t ctc[2] = {0, 0};
    const struct witness_cpu signature = {
        .family = (unsigned)number_of(cpu, "family"),
        .model = (unsigned)number_of(cpu, "model"),
        .stepping = (unsigned)number_of(cpu, "stepping"),
    };

    for (size_t i = 0; i < 2 && json_object_is_type(ratio, json_type_array); i++)
        ctc[i] = (uint32_t)json_object_get_int64(json_object_array_get_idx(ratio, i));
    return witness_new(run->trace, run->trace_bytes, &signature, ctc,
                       (uint8_t)number_of(run->json, "mtc_freq"),
                       (uint8_t)number_of(run->json, "max_nonturbo_ratio"));
}

/* Calls add for each image of the JSON file. */
static bool add_images(const struct run *run, void *to,
                       int (*add)(void *to, const char *path, uint64_t bias, uint64_t cr3))
{
    struct json_object *const images = json_object_object_get(run->json, "images");
    const size_t count =
        json_object_is_type(images, json_type_array) ? json_object_array_length(images) : 0;

    for (size_t i = 0; i < count; i++) {
        struct json_object *const entry = json_object_array_get_idx(images, i);
        struct json_object *const cr3 = json_object_object_get(entry, "cr3");
        const char *const name = text_of(entry, "path");
        char path[PATH_MAX];

        if (!name || add(to, resolve(run, name, path), number_of(entry, "bias"),
                         cr3 ? json_object_get_uint64(cr3) : PTD_ANY_CR3) < 0) {
            (void)fprintf(stderr, "witness: cannot use image %s\n", name ? name : "without path");
            return false;
        }
    }
    return true;
}

static int add_to_libptdec(void *to, const char *path, uint64_t bias, uint64_t cr3)
{
    return ptd_image_add_elf(to, path, bias, cr3);
}

static int add_to_libipt(void *to, const char *path, uint64_t bias, uint64_t cr3)
{
    return witness_add_elf(to, path, bias, cr3);
}

static bool check_libipt(const struct run *run)
{
    struct witness *const witness = new_witness(run);
    struct reader reader = {.run = run, .who = "libipt"};
    uint64_t ip, cr3, offset;
    int status;

    if (!witness || !add_images(run, witness, add_to_libipt)) {
        witness_free(witness);
        return false;
    }
    while (!reader.differs && (status = witness_next(witness, &ip, &cr3, &offset)) != 0) {
        if (status < 0)
            report_error(&reader, offset, witness_strerror(status));
        else
            compare(&reader, ip, cr3, cr3 != PTD_ANY_CR3);
    }
    witness_free(witness);
    if (!conclude(&reader))
        return false;
    printf("libipt: identical (%" PRIu64 " instructions)\n", reader.insns);
    return true;
}

/* ---- Files ---- */

static bool load(struct run *run, const char *trace_path)
{
    char path[PATH_MAX], name[PATH_MAX];
    size_t path_bytes = 0;

    (void)snprintf(name, sizeof(name), "%s", trace_path);
    (void)snprintf(run->folder, sizeof(run->folder), "%s", dirname(name));
    if (snprintf(name, sizeof(name), "%s.json", trace_path) >= (int)sizeof(name))
        return false;
    run->trace = read_file(trace_path, &run->trace_bytes);
    run->json = json_object_from_file(name);
    if (!run->json)
        (void)fprintf(stderr, "witness: cannot read %s\n", name);
    if (!run->trace || !run->json)
        return false;

    const char *const executed = text_of(run->json, "path");

    if (!executed) {
        (void)fprintf(stderr, "witness: %s names no path file (vpt run --path-out)\n", name);
        return false;
    }
    run->path = read_file(resolve(run, executed, path), &path_bytes);
    run->path_words = path_bytes / sizeof(*run->path);
    run->image = ptd_image_new();
    return run->path && run->image && add_images(run, run->image, add_to_libptdec);
}

int main(int argc, char **argv)
{
    struct run run = {0};
    bool agree = false;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: witness TRACE   (with TRACE.json and its path file)\n");
        return 2;
    }
    if (load(&run, argv[1])) {
        const bool libipt = check_libipt(&run);
        const bool libptdec = check_libptdec(&run);

        agree = libipt && libptdec;
    }
    ptd_image_free(run.image);
    json_object_put(run.json);
    free(run.trace);
    free(run.path);
    return agree ? EXIT_SUCCESS : EXIT_FAILURE;
}
