/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The views of vpt decode: instructions, blocks or calls, as text or as JSON, and events among
 * them.
 */
#include "view/decode.h"
#include "common/escape.h"
#include "common/hash.h"
#include "common/json.h"
#include "view/filter.h"
#include "view/out.h"
#include "view/source.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define SYMBOL_ROOM (DEMANGLED_MAX + 24) /* a name and an offset */

/* A name that is too long is cut off, its offset never. */
static const char *symbol(const struct stream *stream, uint64_t cr3, uint64_t ip,
                          char text[SYMBOL_ROOM])
{
    uint64_t offset;
    const char *const name =
        shown_name(stream->thread.shown, ptd_image_symbol(stream->image, cr3, ip, &offset));

    if (!name)
        snprintf(text, SYMBOL_ROOM, "%#" PRIx64, ip);
    else if (offset)
        snprintf(text, SYMBOL_ROOM, "%.*s+%#" PRIx64, (int)DEMANGLED_MAX, name, offset);
    else
        snprintf(text, SYMBOL_ROOM, "%s", name);
    return text;
}

static const char *const who_names[] = {
    [PTD_HOST_KERNEL] = "host kernel",
    [PTD_HOST_PROCESS] = "host process",
    [PTD_GUEST_KERNEL] = "guest kernel",
    [PTD_GUEST_PROCESS] = "guest process",
};

/* What a map says of an address; a log of names knows better which process it was. */
static void find_context(const struct decode_options *options, uint64_t cr3, uint64_t ip,
                         struct ptd_context *who)
{
    ptd_contexts_find(options->map.contexts, cr3, ip, who);
    if (options->thread->changes && who->vm == 0)
        who->process = out_who(options->thread, cr3, options->now).comm;
}

/* Who ran, if several threads did; whose item it is, if a map says names. */
static void add_who(json_object *line, const struct decode_options *options,
                    const struct ptd_item *item)
{
    struct ptd_context who;

    if (options->thread->who) {
        const struct out_who thread = out_who(options->thread, item->cr3, options->now);

        json_add_number(line, "pid", thread.pid);
        json_add_number(line, "tid", thread.tid);
        json_object_object_add(line, "comm", json_object_new_string(thread.comm));
    }
    if (!options->map.contexts || ptd_space_cr3(item->cr3) == PTD_ANY_CR3)
        return;
    find_context(options, item->cr3, item->ip, &who);
    if (item->type == PTD_ITEM_BLOCK) /* else it has no address that says it */
        json_object_object_add(line, "who", json_object_new_string(who_names[who.who]));
    if (who.vm_name)
        json_object_object_add(line, "vm", json_object_new_string(who.vm_name));
    if (who.process)
        json_object_object_add(line, "process", json_object_new_string(who.process));
}

/* A line where it is another thread's turn, or where the thread has got another name. */
static void note_thread(const struct decode_options *options, struct stream *stream,
                        const struct ptd_item *block)
{
    const struct out_who thread = out_who(options->thread, block->cr3, options->now);
    struct escaped room;

    if (stream->told.insns && stream->told.cr3 == block->cr3 && stream->last_comm &&
        strcmp(stream->last_comm, thread.comm) == 0 && stream->last_tid == thread.tid)
        return;
    stream->last_comm = thread.comm;
    stream->last_tid = thread.tid;
    if (!options->is_muted)
        printf("  == %s, pid %" PRIu32 ", tid %" PRIu32 "\n", escaped(thread.comm, &room),
               thread.pid, thread.tid);
}

/* A line where it is another's turn. */
static void print_who(const struct decode_options *options, struct stream *stream,
                      const struct ptd_item *block)
{
    const struct ptd_item *const last = &stream->told;
    struct ptd_context before, who;
    struct escaped rooms[2];
    char cr3[OUT_CR3_ROOM];

    if (options->json)
        return;
    if (options->thread->who)
        note_thread(options, stream, block);
    if (!options->map.contexts)
        return;
    ptd_contexts_find(options->map.contexts, last->cr3, last->ip, &before);
    find_context(options, block->cr3, block->ip, &who);
    if (last->insns && last->cr3 == block->cr3 && before.who == who.who)
        return;
    printf("  == %s%s%s%s%s, CR3 %s\n", who_names[who.who], who.vm_name ? ", VM " : "",
           who.vm_name ? escaped(who.vm_name, &rooms[0]) : "", who.process ? ", process " : "",
           who.process ? escaped(who.process, &rooms[1]) : "", out_cr3(block->cr3, cr3));
}

static json_object *line_begin(const struct decode_options *options, const struct ptd_item *item,
                               const char *type)
{
    json_object *line = json_object_new_object();

    json_object_object_add(line, "type", json_object_new_string(type));
    json_add_number(line, "offset", item->offset);
    if (ptd_space_cr3(item->cr3) != PTD_ANY_CR3) /* else it is not known, behind a gap */
        json_add_number(line, "cr3", ptd_space_cr3(item->cr3));
    if (options->by_time) {
        json_object_object_add(line, "cpu", json_object_new_int(options->thread->cpu));
        json_add_number(line, "time", options->now);
    }
    add_who(line, options, item);
    return line;
}

static void add_hex(json_object *line, const char *key, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%#" PRIx64, value);
    json_object_object_add(line, key, json_object_new_string(text));
}

static void line_end(json_object *line)
{
    json_print(line, JSON_C_TO_STRING_PLAIN);
}

static void print_insns(const struct decode_options *options, const struct stream *stream,
                        const struct ptd_item *block)
{
    uint64_t ip = block->ip;
    struct ptd_insn insn;

    while (ptd_block_insn(stream->image, block, &ip, &insn) == PTD_OK) {
        char text[128] = "?", where[SYMBOL_ROOM];
        const uint8_t *bytes;
        size_t len;

        if (!out_takes_at(&stream->thread, block->cr3, insn.ip))
            continue;
        if (ptd_image_find(stream->image, block->cr3, insn.ip, &bytes, &len) == PTD_OK)
            ptd_insn_format(block->mode, insn.ip, bytes, len, text, sizeof(text));
        symbol(stream, block->cr3, insn.ip, where);
        if (options->json) {
            json_object *line = line_begin(options, block, "insn");

            add_hex(line, "ip", insn.ip);
            json_object_object_add(line, "symbol", json_object_new_string(where));
            json_object_object_add(line, "text", json_object_new_string(text));
            source_to_json(options, stream, block->cr3, insn.ip, line);
            line_end(line);
        } else {
            struct escaped room;

            printf("%016" PRIx64 "  %-40s %s", insn.ip, escaped(where, &room), text);
            source_print(options, stream, block->cr3, insn.ip);
            putchar('\n');
        }
    }
}

static void print_block(const struct decode_options *options, const struct stream *stream,
                        const struct ptd_item *block)
{
    char where[SYMBOL_ROOM];

    symbol(stream, block->cr3, block->ip, where);
    if (options->json) {
        json_object *line = line_begin(options, block, "block");

        add_hex(line, "ip", block->ip);
        add_hex(line, "last_ip", block->last_ip);
        json_add_number(line, "insns", block->insns);
        json_object_object_add(line, "symbol", json_object_new_string(where));
        source_to_json(options, stream, block->cr3, block->ip, line);
        line_end(line);
    } else {
        struct escaped room;

        printf("%016" PRIx64 "..%016" PRIx64 " %5u  %s", block->ip, block->last_ip, block->insns,
               escaped(where, &room));
        source_print(options, stream, block->cr3, block->ip);
        putchar('\n');
    }
}

/* A block that ends in a call or return, with where the next one begins; as text, see out-calls.c.
 */
static void print_call(const struct decode_options *options, const struct stream *stream,
                       const struct ptd_item *from, const struct ptd_item *to)
{
    const bool call =
        from->last_class == PTD_INSN_CALL_DIRECT || from->last_class == PTD_INSN_CALL_INDIRECT;
    char caller[SYMBOL_ROOM], callee[SYMBOL_ROOM];
    json_object *line;

    if (!call && from->last_class != PTD_INSN_RET)
        return;
    symbol(stream, from->cr3, from->last_ip, caller);
    symbol(stream, to->cr3, to->ip, callee);
    line = line_begin(options, from, call ? "call" : "return");
    json_object_object_add(line, "from", json_object_new_string(caller));
    json_object_object_add(line, "to", json_object_new_string(callee));
    line_end(line);
}

static const char *item_name(uint8_t type)
{
    switch (type) {
    case PTD_ITEM_ENABLED:
        return "enabled";
    case PTD_ITEM_DISABLED:
        return "disabled";
    case PTD_ITEM_ASYNC:
        return "interrupt";
    case PTD_ITEM_CR3:
        return "cr3";
    case PTD_ITEM_MODE:
        return "mode";
    case PTD_ITEM_TSX:
        return "tsx";
    case PTD_ITEM_STOP:
        return "stop";
    case PTD_ITEM_OVERFLOW:
        return "overflow";
    case PTD_ITEM_TSC:
        return "tsc";
    case PTD_ITEM_CBR:
        return "cbr";
    case PTD_ITEM_PTWRITE:
        return "ptwrite";
    case PTD_ITEM_VMCS:
        return "vmcs";
    default:
        return NULL;
    }
}

/* A gap: since where and why, how much was lost, and where the code goes on. */
static void print_error(const struct decode_options *options, const struct stream *stream,
                        const struct ptd_item *item)
{
    const char *const text = ptd_strerror(item->error);
    char from[SYMBOL_ROOM], to[SYMBOL_ROOM];
    struct escaped rooms[2];

    symbol(stream, item->cr3, item->from, from);
    symbol(stream, item->cr3, item->to, to);
    if (options->json) {
        json_object *const line = line_begin(options, item, "error");

        json_object_object_add(line, "text", json_object_new_string(text));
        if (item->has_from) {
            add_hex(line, "address", item->from);
            json_object_object_add(line, "from", json_object_new_string(from));
        }
        if (item->has_to)
            json_object_object_add(line, "to", json_object_new_string(to));
        json_add_number(line, "lost_bytes", item->value);
        add_hex(line, "value", item->value);
        line_end(line);
        return;
    }
    printf("error: %s", text);
    if (item->has_from)
        printf(": %#" PRIx64 "%s%s", item->from, strncmp(from, "0x", 2) ? ", " : "",
               strncmp(from, "0x", 2) ? escaped(from, &rooms[0]) : "");
    printf("; %" PRIu64 " bytes lost", item->value);
    if (item->has_to)
        printf("; goes on at %s", escaped(to, &rooms[1]));
    printf("\n");
}

static void print_event(const struct decode_options *options, const struct stream *stream,
                        const struct ptd_item *item)
{
    const char *name = item_name(item->type);
    char from[SYMBOL_ROOM] = "", to[SYMBOL_ROOM] = "", packet[256];
    struct escaped rooms[2];

    if (item->type == PTD_ITEM_PSB)
        return;
    if (item->type == PTD_ITEM_ERROR) {
        print_error(options, stream, item);
        return;
    }
    if (item->type == PTD_ITEM_PACKET) {
        if (options->is_rtit)
            ptd_rtit_packet_format(item->rtit, packet, sizeof(packet));
        else
            ptd_packet_format(&item->packet, packet, sizeof(packet));
        name = packet;
    }
    if (item->has_from)
        symbol(stream, item->cr3, item->from, from);
    if (item->has_to)
        symbol(stream, item->cr3, item->to, to);
    if (options->json) {
        json_object *line =
            line_begin(options, item, item->type == PTD_ITEM_PACKET ? "packet" : name);

        if (item->type == PTD_ITEM_PACKET)
            json_object_object_add(line, "text", json_object_new_string(name));
        if (item->has_from)
            json_object_object_add(line, "from", json_object_new_string(from));
        if (item->has_to)
            json_object_object_add(line, "to", json_object_new_string(to));
        add_hex(line, "value", item->value);
        line_end(line);
        return;
    }
    printf("  -- %s%s%s%s%s %#" PRIx64 "\n", name, *from ? " from " : "", escaped(from, &rooms[0]),
           *to ? " to " : "", escaped(to, &rooms[1]), item->value);
}

/* The item is behind that block now, if there is one that leads to what comes next. */
static void pass(struct ptd_item *block, const struct ptd_item *item)
{
    if (item->type == PTD_ITEM_BLOCK)
        *block = *item;
    else if (item->type == PTD_ITEM_ERROR || item->type == PTD_ITEM_DISABLED)
        block->insns = 0;
}

void view_skip(struct stream *stream)
{
    pass(&stream->last, &stream->item);
    pass(&stream->told, &stream->item);
}

static uint64_t add_block(uint64_t hash, const struct ptd_item *block)
{
    if (block->insns == 0)
        return hash_more(hash, 0);
    hash = hash_more(hash_more(hash, block->cr3), block->ip);
    return hash_more(hash_more(hash, block->last_ip), block->last_class);
}

uint64_t view_fingerprint(const struct stream *stream)
{
    const uint64_t hash = add_block(add_block(0, &stream->last), &stream->told);

    return hash_text(hash_more(hash, stream->last_tid), stream->last_comm);
}

/* ---- What is wanted ---- */

static bool has_wanted_insn(const struct stream *stream, const struct ptd_item *block)
{
    uint64_t ip = block->ip;
    struct ptd_insn insn;

    if (!stream->thread.filter || !stream->thread.filter->symbol)
        return true;
    while (ptd_block_insn(stream->image, block, &ip, &insn) == PTD_OK) {
        if (out_takes_at(&stream->thread, block->cr3, insn.ip))
            return true;
    }
    return false;
}

/* A call is wanted by either of its functions. */
static bool is_wanted(const struct decode_options *options, const struct stream *stream)
{
    const struct out_thread *const thread = &stream->thread;
    const struct ptd_item *const item = &stream->item, *const last = &stream->last;

    if (item->type != PTD_ITEM_BLOCK)
        return out_takes_event(thread, item, stream->time);
    if (!out_takes_who(thread, item->cr3, stream->time))
        return false;
    if (options->view == VIEW_INSNS)
        return has_wanted_insn(stream, item);
    return out_takes_at(thread, item->cr3, item->ip) ||
           (options->view == VIEW_CALLS && out_takes_at(thread, last->cr3, last->last_ip));
}

/* A line where it is another processor's turn. */
static void print_processor(const struct decode_options *options, const struct stream *stream)
{
    if (!options->by_time || *options->shown == stream)
        return;
    *options->shown = stream;
    if (!options->json)
        printf("  == processor %d, TSC %" PRIu64 "\n", stream->thread.cpu, stream->time);
}

void view_print(const struct decode_options *options, struct stream *stream)
{
    const struct ptd_item *const item = &stream->item;

    if (!is_wanted(options, stream)) {
        pass(&stream->last, item);
        return;
    }
    if (options->is_muted) {
        if (item->type == PTD_ITEM_BLOCK && !options->json && options->thread->who)
            note_thread(options, stream, item);
        view_skip(stream);
        return;
    }
    print_processor(options, stream);
    if (item->type != PTD_ITEM_BLOCK) {
        print_event(options, stream, item);
        view_skip(stream);
        return;
    }
    print_who(options, stream, item);
    if (options->view == VIEW_INSNS)
        print_insns(options, stream, item);
    else if (options->view == VIEW_BLOCKS)
        print_block(options, stream, item);
    else if (stream->last.insns)
        print_call(options, stream, &stream->last, item);
    view_skip(stream);
}
