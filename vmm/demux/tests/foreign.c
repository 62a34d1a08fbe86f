/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * foreign MAP CAPTURE VM FOLDER: is anything in FOLDER/VM.0, which `vpt demux` made of a capture,
 * that is not this VM's? Is it exactly what ran, by libptdec and by libipt? And would something
 * foreign be found, if it was there? What ran is taken from the capture. The VM has one virtual
 * processor, with a VMCS pointer for each time that it sets its TSC. Status 0 if all is well.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/file.h"
#include "demux/tests/agree.h"
#include "demux/tests/scan.h"
#include "ptdec.h"
#include "trace/code-files.h"
#include "trace/mapfile.h"
#include "trace/sidecar.h"

#define INSN_BYTES 15u
#define HOST_IPS   4096u

/* What a capture says of one VM. */
struct seen {
    struct ptd_image *image;
    struct truth *truth;
    struct decoded ran;
    const struct ptd_time_vm *clocks; /* of all VMs */
    size_t clock_count;
    struct ptd_time_vm clock; /* by the VMCS pointer that holds */
    bool has_clock;
    unsigned vm;
    uint64_t since; /* of its TSC, if it runs; of another one: */
    bool runs;
    uint64_t host_cr3, vmcs, host_tsc;
    uint64_t host_ips[HOST_IPS]; /* the last ones */
    size_t host_ip_count;        /* of all */
    bool ok;
};

static bool is_its(const struct seen *seen, const struct ptd_item *item)
{
    return item->nr && ptd_space_vm(item->cr3) == seen->vm;
}

static void add_ran(struct seen *seen, uint64_t ip)
{
    struct decoded *const ran = &seen->ran;

    if (ran->count == ran->room) {
        const size_t room = ran->room ? 2 * ran->room : 1u << 20;
        struct ran *const more = reallocarray(ran->list, room, sizeof(*more));

        if (!more) {
            seen->ok = false;
            return;
        }
        ran->list = more;
        ran->room = room;
    }
    ran->list[ran->count++] = (struct ran){.ip = ip};
}

static void see_insn(struct seen *seen, uint64_t space, const struct ptd_insn *insn)
{
    uint8_t bytes[INSN_BYTES];
    const uint8_t *found;
    size_t len = 0, more;

    while (len < insn->size_bytes &&
           ptd_image_find(seen->image, space, insn->ip + len, &found, &more) == PTD_OK)
        for (size_t i = 0; i < more && len < insn->size_bytes; i++)
            bytes[len++] = found[i];
    seen->ok = seen->ok && truth_add_insn(seen->truth, ptd_space_cr3(space), insn->ip, bytes, len);
    add_ran(seen, insn->ip);
}

static void see_block(struct seen *seen, const struct ptd_item *block)
{
    uint64_t ip = block->ip;
    struct ptd_insn insn;

    if (!is_its(seen, block)) {
        if (!block->nr) {
            seen->host_ips[seen->host_ip_count++ % HOST_IPS] = block->ip;
            seen->host_cr3 = ptd_space_cr3(block->cr3);
        }
        return;
    }
    while (ptd_block_insn(seen->image, block, &ip, &insn) == PTD_OK)
        see_insn(seen, block->cr3, &insn);
    if (block->has_to)
        seen->ok = seen->ok && truth_add_ip(seen->truth, block->to);
}

/* It runs from one time on, up to another. */
static void see_time(struct seen *seen, const struct ptd_item *item, uint64_t tsc)
{
    const bool runs = is_its(seen, item);
    const uint64_t guest = ptd_time_guest_tsc(&seen->clock, tsc);

    if (item->type != PTD_ITEM_BLOCK && item->type != PTD_ITEM_ASYNC)
        return;
    if (seen->runs)
        seen->ok = seen->ok && truth_add_time(seen->truth, seen->since, guest);
    seen->runs = runs;
    seen->since = guest;
    if (!runs)
        seen->host_tsc = tsc;
}

static void see_vmcs(struct seen *seen, uint64_t vmcs)
{
    seen->vmcs = vmcs;
    if (ptd_space_vm(ptd_image_space(seen->image, true, vmcs, 0)) != seen->vm)
        return;
    for (size_t i = 0; i < seen->clock_count; i++)
        if (seen->clocks[i].vmcs == vmcs) {
            seen->clock = seen->clocks[i];
            seen->has_clock = true;
        }
}

static void see(struct seen *seen, const struct ptd_item *item, uint64_t tsc)
{
    if (tsc != PTD_TIME_UNKNOWN)
        see_time(seen, item, tsc);
    if (item->type == PTD_ITEM_BLOCK)
        see_block(seen, item);
    if (item->type == PTD_ITEM_VMCS)
        see_vmcs(seen, item->value);
    if (item->type == PTD_ITEM_ASYNC && is_its(seen, item))
        seen->ok = seen->ok && truth_add_ip(seen->truth, item->from);
}

static bool see_all(struct seen *seen, const char *trace, const struct ptd_contexts *contexts)
{
    struct ptd_time_config clocks;
    struct ptd_time_point point;
    struct sidecar sidecar;
    struct bytes bytes = {0};
    struct ptd_stream *stream;
    struct ptd_item item;

    if (sidecar_open(&sidecar, trace) || read_file(trace, &bytes))
        return false;
    clocks = sidecar.clocks;
    sidecar_close(&sidecar);
    clocks.vms = ptd_contexts_time_vms(contexts, &clocks.vm_count);
    seen->clocks = clocks.vms;
    seen->clock_count = clocks.vm_count;
    stream = ptd_stream_new(seen->image, NULL, &clocks);
    if (!stream || ptd_stream_feed(stream, bytes.data, bytes.len) != PTD_OK)
        return false;
    ptd_stream_end(stream);
    while (ptd_stream_next(stream, &item, &point) == PTD_OK)
        see(seen, &item, point.tsc);
    ptd_stream_free(stream);
    bytes_free(&bytes);
    return seen->ok && seen->has_clock;
}

/* ---- Verdicts ---- */

static bool agrees(const struct seen *seen, const struct decoded *decoded, const char *who)
{
    const size_t at = agree_difference(&seen->ran, decoded);

    printf("%s: %zu instructions, %" PRIu64 " errors, %" PRIu64 " gaps", who, decoded->count,
           decoded->errors, decoded->gaps);
    if (decoded->errors)
        printf("; %s", decoded->first);
    if (at != SIZE_MAX)
        printf("; instruction %zu of %zu is another one", at, seen->ran.count);
    putchar('\n');
    return at == SIZE_MAX && decoded->errors == 0 && !decoded->no_memory;
}

static bool all_agree(const struct seen *seen, const struct bytes *trace, const struct bytes *code)
{
    const struct agree_trace both = {trace->data, trace->len, code->data, code->len};
    struct decoded ptdec = {0}, libipt = {0};
    bool ok;

    agree_ptdec(&both, &ptdec);
    ok = agrees(seen, &ptdec, "libptdec");
    free(ptdec.list);
    agree_libipt(&both, &libipt);
    ok = agrees(seen, &libipt, "libipt") && ok;
    free(libipt.list);
    return ok;
}

static bool is_clean(const struct seen *seen, const struct bytes *trace, const struct bytes *code)
{
    struct scan scan = {0};

    scan_trace(seen->truth, trace->data, trace->len, &scan);
    scan_code(seen->truth, code->data, code->len, &scan);
    printf("%" PRIu64 " packets, %" PRIu64 " bytes of code, %" PRIu64 " foreign", scan.packets,
           scan.code_bytes, scan_sum(&scan));
    printf(scan_sum(&scan) ? ": %s\n" : "%s\n", scan.first);
    return scan_sum(&scan) == 0;
}

/*
 * An address of the host at which the guest was not. Both may have a kernel at the same address: it
 * is one of some hundreds, and the kernel may be the same. 0: there is none.
 */
static uint64_t host_ip(const struct seen *seen)
{
    for (size_t i = 0; i < HOST_IPS && i < seen->host_ip_count; i++)
        if (!truth_has_ip(seen->truth, seen->host_ips[i]))
            return seen->host_ips[i];
    return 0;
}

/* Something foreign is found wherever it is: of this host, and of its time. */
static bool is_sharp(const struct seen *seen, const struct bytes *trace)
{
    const uint64_t values[FOREIGN_KINDS] = {[FOREIGN_IP] = host_ip(seen),
                                            [FOREIGN_CR3] = seen->host_cr3,
                                            [FOREIGN_VMCS] = seen->vmcs,
                                            [FOREIGN_NR] = seen->host_cr3,
                                            [FOREIGN_TIME] = seen->host_tsc};
    bool ok = true;

    for (enum foreign what = 0; what < FOREIGN_KINDS; what++) {
        struct scan scan = {0};
        size_t len;
        uint8_t *const planted = scan_plant(what, values[what], trace->data, trace->len, &len);

        if (planted)
            scan_trace(seen->truth, planted, len, &scan);
        ok = ok && planted && scan.foreign[what] == 1 && scan_sum(&scan) == 1;
        printf("planted: %s %#" PRIx64 "; found: %s\n", scan_word(what), values[what], scan.first);
        free(planted);
    }
    return ok;
}

static bool read_made(const char *folder, unsigned vm, struct bytes *trace, struct bytes *code)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%u.0", folder, vm);
    if (read_file(path, trace))
        return false;
    snprintf(path, sizeof(path), "%s/%u.0.code", folder, vm);
    return read_file(path, code) == 0;
}

int main(int argc, char **argv)
{
    struct code_files *const files = code_files_new(CODE_BYTES_MAX);
    struct seen seen = {.image = ptd_image_new(), .truth = truth_new(), .ok = true};
    struct bytes trace = {0}, code = {0};
    struct map map = {0};
    bool ok;

    if (argc != 5) {
        fputs("usage: foreign MAP CAPTURE VM FOLDER\n", stderr);
        return 2;
    }
    seen.vm = (unsigned)strtoul(argv[3], NULL, 10);
    ok = files && seen.image && seen.truth && map_load(argv[1], files, seen.image, &map) == 0 &&
         see_all(&seen, argv[2], map.contexts) && read_made(argv[4], seen.vm, &trace, &code);
    if (!ok)
        fprintf(stderr, "foreign: %s\n", *map.why.text ? map.why.text : "a file cannot be read");
    else
        ok = all_agree(&seen, &trace, &code) && is_clean(&seen, &trace, &code) &&
             is_sharp(&seen, &trace);
    bytes_free(&trace);
    bytes_free(&code);
    free(seen.ran.list);
    truth_free(seen.truth);
    ptd_image_free(seen.image);
    map_free(&map);
    code_files_free(files);
    return ok ? 0 : 1;
}
