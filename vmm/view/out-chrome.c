/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The trace event format of Chrome, which Perfetto reads too: a B and an E event for each call.
 * Times are microseconds; a trace without TSC counts an instruction as a nanosecond. Processes of
 * guests have numbers of their own, since each guest has a process 1.
 */
#include "common/escape.h"
#include "common/table.h"
#include "view/calls.h"
#include "view/filter.h"
#include "view/out.h"
#include "ptdec.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>

/* Linux has no more: tracks that are no thread's, and processes of guests, come behind. */
#define TIDS (UINT64_C(1) << 22)

struct chrome {
    FILE *to;
    struct calls calls;
    struct out_thread thread;
    /* Key: thread, CPU + 1, call stack; a track's number is its place here. */
    struct table tracks;
    /* Key: the VM's name + 1 or 0, pid, CR3; .count: it was named. */
    struct table processes;
    bool any;
};

static void print_string(struct chrome *chrome, const char *text)
{
    json_object *const string = json_object_new_string(text);

    const char *const quoted =
        string ? json_object_to_json_string_ext(string, JSON_C_TO_STRING_PLAIN) : NULL;

    if (quoted)
        put_json_escaped(quoted, chrome->to);
    else
        chrome->calls.no_memory = true;
    json_object_put(string);
}

/*
 * Each call stack has a track, so that calls nest: that of the thread, or one beside it; of threads
 * that moved, one for each CPU. stack NULL: what concerns all of them. Numbers of tracks have 32
 * bits: Perfetto reads a larger one as if it were the same as all the others.
 */
static uint64_t track_of(struct chrome *chrome, const struct call_stack *stack,
                         const struct out_who *who)
{
    const uint64_t of_cpu = chrome->thread.who ? (uint64_t)chrome->thread.cpu + 1 : 0;
    uint64_t of_stack = 0;

    if (stack && (!chrome->thread.who || ptd_space_vm(stack->cr3)))
        of_stack = stack->id;
    if (!of_cpu && !of_stack)
        return who->tid;

    const struct sum *const track = table_at(&chrome->tracks, who->tid, of_cpu, of_stack);

    if (!track) {
        chrome->calls.no_memory = true;
        return who->tid;
    }
    return TIDS + (uint64_t)(track - chrome->tracks.sums);
}

/* Who ran, among the processes. NULL: no memory. */
static struct sum *process_at(struct chrome *chrome, const struct out_who *who)
{
    const uint32_t vm = who->vm ? names_add(&chrome->calls.names, who->vm) : 0;
    struct sum *const process =
        vm == UINT32_MAX
            ? NULL
            : table_at(&chrome->processes, who->vm ? (uint64_t)vm + 1 : 0, who->pid, who->cr3);

    if (!process)
        chrome->calls.no_memory = true;
    return process;
}

/* The number that it goes by. */
static uint64_t process_of(struct chrome *chrome, const struct out_who *who)
{
    const struct sum *const process = who->vm ? process_at(chrome, who) : NULL;

    return process ? TIDS + (uint64_t)(process - chrome->processes.sums) : who->pid;
}

/* An event up to its time, still open. */
static void print_event(struct chrome *chrome, const char *phase, const char *name,
                        const struct call_stack *stack, uint64_t time)
{
    const uint64_t ns = out_ns(&chrome->thread, time);
    const struct out_who who =
        stack ? calls_who(&chrome->calls, stack, time) : out_who(&chrome->thread, 0, time);

    fputs(chrome->any ? ",\n{\"name\":" : "\n{\"name\":", chrome->to);
    chrome->any = true;
    print_string(chrome, name);
    fprintf(chrome->to,
            ",\"ph\":\"%s\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64 ",\"ts\":%" PRIu64 ".%03" PRIu64,
            phase, process_of(chrome, &who), track_of(chrome, stack, &who), ns / 1000, ns % 1000);
}

/* What a process or a thread is called: "VM small, init", or "init". */
static void print_name(struct chrome *chrome, const char *what, const struct call_stack *stack,
                       const char *vm, uint64_t time)
{
    const struct out_who last = calls_who(&chrome->calls, stack, OUT_LAST);
    char *name = NULL;

    if (vm && asprintf(&name, "VM %s, %s", vm, last.comm) < 0) {
        chrome->calls.no_memory = true;
        return;
    }
    print_event(chrome, "M", what, stack, time);
    fputs(",\"args\":{\"name\":", chrome->to);
    print_string(chrome, vm ? name : last.comm);
    fputs("}}", chrome->to);
    free(name);
}

/* At the first event of each process and of each stack. */
static void print_names(struct chrome *chrome, struct call_stack *stack, uint64_t time)
{
    const struct out_who who = calls_who(&chrome->calls, stack, time);
    struct sum *const process = process_at(chrome, &who);

    if (process && process->count++ == 0)
        print_name(chrome, "process_name", stack, who.vm, time);
    if (!stack->named)
        print_name(chrome, "thread_name", stack, NULL, time);
    stack->named = true;
}

static void enter(void *owner, struct call_stack *stack, uint64_t time)
{
    struct chrome *const chrome = owner;
    const struct call_frame *const frame = &stack->frames[stack->depth - 1];

    if (!frame->is_wanted)
        return;
    print_names(chrome, stack, time);
    print_event(chrome, "B", chrome->calls.names.list[frame->function], stack, time);
    fprintf(chrome->to, ",\"cat\":\"%s\"}", frame->async ? "async" : "call");
}

static void leave(void *owner, struct call_stack *stack, uint64_t time)
{
    struct chrome *const chrome = owner;
    const struct call_frame *const frame = &stack->frames[stack->depth - 1];

    if (!frame->is_wanted)
        return;
    print_event(chrome, "E", chrome->calls.names.list[frame->function], stack, time);
    fputc('}', chrome->to);
}

static const struct calls_sink sink = {.enter = enter, .leave = leave};

static void *chrome_open(FILE *to)
{
    struct chrome *const chrome = calloc(1, sizeof(*chrome));

    if (!chrome)
        return NULL;
    chrome->to = to;
    calls_init(&chrome->calls, &sink, chrome);
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", to);
    return chrome;
}

static bool chrome_begin(void *out, const struct out_thread *thread)
{
    struct chrome *const chrome = out;

    chrome->thread = *thread;
    calls_begin(&chrome->calls, thread);
    return true;
}

static bool chrome_item(void *out, const struct ptd_item *item, uint64_t time)
{
    struct chrome *const chrome = out;
    const struct call_stack *const stack =
        chrome->calls.stack_count ? chrome->calls.stacks[0] : NULL;

    calls_item(&chrome->calls, item, time);
    if ((item->type == PTD_ITEM_ERROR || item->type == PTD_ITEM_OVERFLOW) &&
        out_takes_event(&chrome->thread, item, time)) {
        print_event(chrome, "i",
                    item->type == PTD_ITEM_ERROR ? ptd_strerror(item->error) : "overflow", stack,
                    time);
        fputs(",\"s\":\"t\"}", chrome->to);
    }
    return !chrome->calls.no_memory;
}

static bool chrome_end(void *out)
{
    calls_end(&((struct chrome *)out)->calls);
    return true;
}

static bool chrome_close(void *out)
{
    struct chrome *const chrome = out;

    fprintf(chrome->to, "\n],\"otherData\":{\"clock\":\"%s\"}}\n",
            !chrome->thread.is_tsc ? "instructions"
            : chrome->thread.to_ns ? "ns"
                                   : "TSC");
    table_free(&chrome->tracks);
    table_free(&chrome->processes);
    calls_free(&chrome->calls);
    free(chrome);
    return true;
}

const struct out_format out_chrome = {
    .name = "chrome",
    .open = chrome_open,
    .begin = chrome_begin,
    .item = chrome_item,
    .end = chrome_end,
    .close = chrome_close,
};
