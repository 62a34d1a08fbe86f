/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a traced run showed: the trace is decoded with the images that the guest named, counted, and
 * compared with the executed path, instruction by instruction.
 */
#include "run/report.h"
#include "common/bytes.h"
#include "common/escape.h"
#include "common/file.h"
#include "common/json.h"
#include "run/path.h"
#include "run/run.h"
#include "trace/hot.h"
#include "trace/rtit-trace.h"
#include "ptdec.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOTTEST 5
#define KERNEL  MAX_PROCESSES /* index of what belongs to no process */

struct view {
    const struct run_options *options;
    const struct run_result *result;
    const struct cpu_result *cpu;
    struct ptd_image *image;
    uint64_t insns, branches, blocks, errors, lost_bytes, async, cr3_switches;
    uint64_t process_insns[MAX_PROCESSES + 1];
    struct hot hot;
    bool no_memory;
    int first_error;
    uint64_t first_error_offset;
    /* Comparison with the executed path. */
    size_t path_pos;
    uint64_t path_cr3, path_insns, path_branches;
    bool differs;
    char difference[256];
};

/* ---- Images ---- */

static int reason_of_image(struct reason *why, int error, const char *path)
{
    return reason_set(why, error == PTD_E_NOMEM ? -ENOMEM : -EBADMSG, "%s: %s", path,
                      ptd_strerror(error));
}

static int load_images(struct view *view, struct reason *why)
{
    const struct run_result *result = view->result;
    int error = ptd_image_add_elf(view->image, view->options->image, 0, PTD_ANY_CR3);
    char path[PATH_MAX];

    if (error)
        return reason_of_image(why, error, view->options->image);
    for (unsigned i = 0; i < result->process_count; i++) {
        const struct process *process = &result->processes[i];

        beside(view->options->image, process->image, path, sizeof(path));
        error = ptd_image_add_elf(view->image, path, 0, process->cr3);
        if (error)
            return reason_of_image(why, error, path);
    }
    return 0;
}

/* ---- Counting ---- */

static unsigned process_of(const struct view *view, uint64_t cr3)
{
    for (unsigned i = 0; i < view->result->process_count; i++) {
        if (view->result->processes[i].cr3 >> 12 == cr3 >> 12)
            return i;
    }
    return KERNEL;
}

/* False: no memory. */
static bool count_function(struct view *view, const struct ptd_item *block, unsigned process)
{
    const uint32_t function = hot_function(&view->hot, view->image, block);

    return function != UINT32_MAX && hot_add(&view->hot, function, process, 1, block->insns);
}

static bool is_branch(uint8_t class)
{
    return class >= PTD_INSN_COND && class <= PTD_INSN_IRET;
}

/* ---- Comparison ---- */

/* The next executed instruction; false at the end of the path. */
static bool next_executed(struct view *view, uint64_t *ip)
{
    const struct bytes *path = &view->cpu->path;
    uint64_t word;

    while (view->path_pos + sizeof(word) <= path->len) {
        memcpy(&word, path->data + view->path_pos, sizeof(word));
        view->path_pos += sizeof(word);
        if (word >> 48 != PATH_CR3_MARK >> 48) {
            *ip = word;
            return true;
        }
        view->path_cr3 = word << 12 & 0x000ffffffffff000ull;
    }
    return false;
}

static void differ(struct view *view, const char *text)
{
    view->differs = true;
    snprintf(view->difference, sizeof(view->difference), "%s", text);
}

static void compare_insn(struct view *view, const struct ptd_item *block, uint64_t ip)
{
    uint64_t executed;
    char text[256];

    if (!next_executed(view, &executed)) {
        snprintf(text, sizeof(text),
                 "the trace goes on at %#" PRIx64 " after the last of %" PRIu64
                 " executed instructions",
                 ip, view->path_insns);
        differ(view, text);
        return;
    }
    view->path_insns++;
    if (executed == ip && view->path_cr3 == (block->cr3 & 0x000ffffffffff000ull))
        return;
    snprintf(text, sizeof(text),
             "instruction %" PRIu64 ": executed %#" PRIx64 " with CR3 %#" PRIx64
             ", decoded %#" PRIx64 " with CR3 %#" PRIx64 " near trace offset %" PRIu64,
             view->path_insns, executed, view->path_cr3, ip, block->cr3, block->offset);
    differ(view, text);
}

static void compare_block(struct view *view, const struct ptd_item *block)
{
    struct ptd_insn insn;
    uint64_t ip = block->ip;

    while (!view->differs) {
        const int error = ptd_block_insn(view->image, block, &ip, &insn);

        if (error == PTD_END)
            return;
        if (error) {
            differ(view, ptd_strerror(error));
            return;
        }
        compare_insn(view, block, insn.ip);
        view->path_branches += is_branch(insn.iclass);
    }
}

/* ---- Decoding ---- */

static void see(struct view *view, const struct ptd_item *item)
{
    unsigned process;

    switch (item->type) {
    case PTD_ITEM_BLOCK:
        view->insns += item->insns;
        view->blocks++;
        view->branches += is_branch(item->last_class);
        process = process_of(view, item->cr3);
        view->process_insns[process] += item->insns;
        if (!count_function(view, item, process))
            view->no_memory = true;
        if (view->options->verify && !view->differs)
            compare_block(view, item);
        break;
    case PTD_ITEM_ASYNC:
        view->async++;
        break;
    case PTD_ITEM_CR3:
        view->cr3_switches++;
        break;
    case PTD_ITEM_ERROR:
        view->no_memory = view->no_memory || item->error == PTD_E_NOMEM;
        if (view->errors++ == 0) {
            view->first_error = item->error;
            view->first_error_offset = item->offset;
        }
        view->lost_bytes += item->value;
        break;
    default:
        break;
    }
}

static int decode(struct view *view, struct reason *why)
{
    const struct bytes *trace = &view->cpu->trace;
    const struct ptd_flow_config config = {
        .mode = PTD_MODE_64,
        .errata = ptd_errata((unsigned)view->cpu->family, (unsigned)view->cpu->model)};
    struct trace_flow flow;
    struct ptd_item item;
    uint64_t executed;

    if (!trace_flow_open(&flow, trace, view->image, &config,
                         view->cpu->is_rtit ? &view->cpu->rtit : NULL))
        return reason_no_memory(why);
    while (!view->no_memory && trace_flow_next(&flow, &item) == PTD_OK)
        see(view, &item);
    trace_flow_close(&flow);
    if (view->no_memory)
        return reason_no_memory(why);

    if (view->options->verify && !view->differs && next_executed(view, &executed)) {
        char text[128];

        snprintf(text, sizeof(text),
                 "the trace ends after %" PRIu64 " instructions, execution went on at %#" PRIx64,
                 view->path_insns, executed);
        differ(view, text);
    }
    return 0;
}

/* ---- Text ---- */

static const char *process_name(const struct view *view, unsigned process)
{
    return process == KERNEL ? "no process" : view->result->processes[process].name;
}

static const char *handed_verdict(const struct cpu_result *cpu)
{
    const struct bytes *handed = &cpu->handed, *trace = &cpu->trace;

    if (handed->len == 0)
        return "none";
    if (handed->len == trace->len && memcmp(handed->data, trace->data, trace->len) == 0)
        return "identical";
    return "different";
}

static double bits_per_insn(const struct view *view)
{
    return view->insns ? 8.0 * (double)view->cpu->trace.len / (double)view->insns : 0;
}

static void print_functions(const struct view *view, unsigned process)
{
    struct escaped room;
    unsigned shown = 0;

    printf("  %s: %" PRIu64 " instructions\n", escaped(process_name(view, process), &room),
           view->process_insns[process]);
    for (size_t i = 0; i < view->hot.sums.count && shown < HOTTEST; i++) {
        const struct sum *const sum = &view->hot.sums.sums[i];

        if (sum->key[1] != process)
            continue;
        printf("    %5.1f %%  %s\n",
               100.0 * (double)sum->cost / (double)view->process_insns[process],
               escaped(hot_name(&view->hot, sum), &room));
        shown++;
    }
}

static void print_text(const struct view *view)
{
    const struct cpu_result *cpu = view->cpu;
    struct escaped room;

    printf("backend: %s\n", escaped(view->result->backend, &room));
    if (view->result->cpu_count > 1)
        printf("processor: %u\n", (unsigned)(cpu - view->result->cpus));
    printf("trace: %" PRIu64 " packets, %zu bytes, %.2f bits per instruction\n", cpu->packets,
           cpu->trace.len, bits_per_insn(view));
    if (cpu->dropped_bytes)
        printf("dropped: %" PRIu64 " bytes\n", cpu->dropped_bytes);
    if (cpu->unrecorded_bytes)
        printf("not recorded: %" PRIu64 " bytes more, which the guest has\n",
               cpu->unrecorded_bytes);
    if (cpu->followed_insns)
        printf("overflows: %" PRIu64 " in %" PRIu64 " instructions that were followed\n",
               cpu->lost_pieces, cpu->followed_insns);
    if (cpu->handed.len)
        printf("guest buffers: %s (%zu bytes handed over, %" PRIu64 " PMIs)\n", handed_verdict(cpu),
               cpu->handed.len, cpu->pmis);
    printf("decoded: %" PRIu64 " instructions, %" PRIu64 " branches, %" PRIu64
           " interrupts and exceptions, %" PRIu64 " CR3 switches, %" PRIu64 " errors\n",
           view->insns, view->branches, view->async, view->cr3_switches, view->errors);
    if (view->errors)
        printf("first error: offset %" PRIu64 ": %s; %" PRIu64 " bytes lost\n",
               view->first_error_offset, ptd_strerror(view->first_error), view->lost_bytes);
    if (cpu->output_faults)
        printf("output faults: %" PRIu64 ", resolved\n", cpu->output_faults);
    printf("hottest functions:\n");
    for (unsigned process = 0; process <= KERNEL; process++) {
        if (view->process_insns[process])
            print_functions(view, process);
    }
}

static json_object *process_json(const struct view *view, unsigned process)
{
    json_object *const entry = json_object_new_object(), *const functions =
                                                             json_object_new_object();

    for (size_t i = 0; i < view->hot.sums.count; i++) {
        const struct sum *const sum = &view->hot.sums.sums[i];

        if (sum->key[1] == process)
            json_add_number(functions, hot_name(&view->hot, sum), sum->cost);
    }
    json_object_object_add(entry, "name", json_object_new_string(process_name(view, process)));
    json_add_number(entry, "insns", view->process_insns[process]);
    json_object_object_add(entry, "functions", functions);
    return entry;
}

static json_object *to_json(const struct view *view, bool identical)
{
    const struct cpu_result *cpu = view->cpu;
    json_object *root = json_object_new_object();
    json_object *processes = json_object_new_array();

    json_object_object_add(root, "backend", json_object_new_string(view->result->backend));
    json_add_number(root, "packets", cpu->packets);
    json_add_number(root, "trace_bytes", cpu->trace.len);
    json_add_number(root, "dropped_bytes", cpu->dropped_bytes);
    if (cpu->output_faults)
        json_add_number(root, "output_faults", cpu->output_faults);
    if (cpu->followed_insns) {
        json_add_number(root, "unrecorded_bytes", cpu->unrecorded_bytes);
        json_add_number(root, "followed_insns", cpu->followed_insns);
        json_add_number(root, "overflows", cpu->lost_pieces);
    }
    json_object_object_add(root, "bits_per_insn", json_object_new_double(bits_per_insn(view)));
    json_object_object_add(root, "guest_buffers", json_object_new_string(handed_verdict(cpu)));
    json_add_number(root, "pmis", cpu->pmis);
    json_add_number(root, "insns", view->insns);
    json_add_number(root, "branches", view->branches);
    json_add_number(root, "interrupts", view->async);
    json_add_number(root, "cr3_switches", view->cr3_switches);
    json_add_number(root, "errors", view->errors);
    json_add_number(root, "lost_bytes", view->lost_bytes);
    for (unsigned process = 0; process <= KERNEL; process++) {
        if (view->process_insns[process])
            json_object_array_add(processes, process_json(view, process));
    }
    json_object_object_add(root, "processes", processes);
    if (view->options->verify) {
        json_object_object_add(root, "path",
                               json_object_new_string(identical ? "identical" : "different"));
        json_add_number(root, "path_insns", view->path_insns);
        if (!identical)
            json_object_object_add(root, "difference", json_object_new_string(view->difference));
    }
    return root;
}

/* ---- One processor ---- */

static void judge(struct view *view)
{
    if (view->errors && !view->differs)
        differ(view, "the trace has errors");
    if (view->path_insns == 0 && !view->differs)
        differ(view, "nothing was traced");
}

static void print_verdict(const struct view *view)
{
    if (!view->differs)
        printf("path: identical (%" PRIu64 " instructions, %" PRIu64 " branches)\n",
               view->path_insns, view->path_branches);
    else
        printf("path: different: %s\n", view->difference);
}

/* What was seen, into *object with --json, else to standard output. Whether it is as expected. */
static bool show(struct view *view, json_object **object)
{
    const struct run_options *const options = view->options;

    hot_sort(&view->hot);
    judge(view);
    if (options->json)
        *object = to_json(view, !view->differs);
    else
        print_text(view);
    if (options->verify && !options->json)
        print_verdict(view);
    return !options->verify ||
           (!view->differs && strcmp(handed_verdict(view->cpu), "different") != 0);
}

/* As report(), of one processor. */
static int report_cpu(const struct run_options *options, const struct run_result *result,
                      const struct cpu_result *cpu, json_object **object, struct reason *why)
{
    struct view *view = calloc(1, sizeof(*view));
    int error;

    if (!view)
        return reason_no_memory(why);
    view->options = options;
    view->result = result;
    view->cpu = cpu;
    view->path_cr3 = UINT64_MAX;
    view->image = ptd_image_new();
    error = view->image ? load_images(view, why) : reason_no_memory(why);
    if (!error)
        error = decode(view, why);
    if (!error)
        error = show(view, object) ? 0 : 1;
    hot_free(&view->hot);
    ptd_image_free(view->image);
    free(view);
    return error;
}

/* ---- All of them ---- */

/* A processor that never traced has nothing to show, unless all are like that. */
static bool has_something(const struct run_result *result, const struct cpu_result *cpu)
{
    if (cpu->trace.len || cpu->path.len)
        return true;
    for (unsigned i = 0; i < result->cpu_count; i++) {
        if (result->cpus[i].trace.len || result->cpus[i].path.len)
            return false;
    }
    return cpu == result->cpus;
}

static void print_json(json_object *root)
{
    json_print(root, JSON_C_TO_STRING_PRETTY);
}

int report(const struct run_options *options, const struct run_result *result, struct reason *why)
{
    json_object *all = result->cpu_count > 1 && options->json ? json_object_new_array() : NULL;
    int worst = 0;

    for (unsigned i = 0; i < result->cpu_count; i++) {
        const struct cpu_result *cpu = &result->cpus[i];
        json_object *object = NULL;
        int status;

        if (!has_something(result, cpu))
            continue;
        status = report_cpu(options, result, cpu, &object, why);
        worst = worst < 0 || status == 0 ? worst : status;
        if (object && all) {
            json_add_number(object, "processor", i);
            json_object_array_add(all, object);
        } else if (object) {
            print_json(object);
        }
    }
    if (all) {
        json_object *root = json_object_new_object();

        json_object_object_add(root, "processors", all);
        print_json(root);
    }
    return worst;
}
