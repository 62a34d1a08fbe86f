/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes the trace of one CPU out of a perf.data as vpt decode sees it with a map whose VMs have
 * "vcpus": VMCS packets say whose guest ran. It decodes with that map and no perf.data.
 *
 *   perf_whose [--strip] PERF.DATA MAP CPU TRACE
 *
 * With --strip, the perf.data's own VMCS packets become PADs before anything looks at them, as if
 * the processor had none. Prints how it was found out whose guest ran.
 */
#include "common/bytes.h"
#include "common/file.h"
#include "common/say.h"
#include "ptdec_perf.h"
#include "trace/code-files.h"
#include "trace/mapfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CODE_MAX (1ull << 30)

struct whose {
    struct bytes file;
    struct ptd_perf_session *session;
    struct code_files *files;
    struct ptd_image *image;
    struct map map;
};

/* The bytes of a session's traces are the file's, which is ours. */
static void erase(const struct ptd_perf_trace *trace, uint64_t offset, size_t len)
{
    const struct ptd_perf_piece *piece = trace->pieces;
    const struct ptd_perf_piece *const end = piece + trace->piece_count;

    for (; len > 0; len--, offset++) {
        for (; piece < end && offset >= piece->len_bytes; piece++)
            offset -= piece->len_bytes;
        if (piece < end)
            *((uint8_t *)piece->bytes + offset) = 0;
    }
}

static void strip(const struct ptd_perf_session *session)
{
    uint64_t count = 0;

    for (size_t i = 0; i < session->trace_count; i++) {
        const struct ptd_perf_trace *const trace = &session->traces[i];
        struct ptd_perf_whole whole;
        struct ptd_packets packets;
        struct ptd_packet packet;

        if (ptd_perf_whole(session, trace, &whole) != PTD_OK)
            return;
        ptd_packets_init(&packets, whole.bytes, whole.len_bytes);
        while (ptd_time_next(NULL, &packets, &packet)) {
            if (packet.type != PTD_VMCS)
                continue;
            erase(trace, packet.offset, packet.size_bytes);
            count++;
        }
        ptd_perf_whole_free(&whole);
    }
    printf("%" PRIu64 " VMCS packets stripped\n", count);
}

static int load(struct whose *whose, const char *data, const char *map)
{
    struct ptd_perf_fault fault;

    whose->files = code_files_new(CODE_MAX);
    whose->image = ptd_image_new();
    if (!whose->files || !whose->image || read_file(data, &whose->file) != 0)
        return complain(EXIT_CODE_FILE, "%s cannot be read", data);
    if (ptd_perf_session_new(whose->file.data, whose->file.len, &whose->session, &fault) != PTD_OK)
        return complain(EXIT_CODE_FILE, "%s: %s", data, fault.text);
    if (map_load(map, whose->files, whose->image, &whose->map) != 0)
        return complain(EXIT_CODE_FILE, "%s", whose->map.why.text);
    whose->session->vms = ptd_contexts_time_vms(whose->map.contexts, &whose->session->vm_count);
    return 0;
}

static int write_copies(const struct whose *whose, int cpu, const char *path)
{
    const struct ptd_perf_session *const session = whose->session;
    struct bytes all = {0};
    bool ok = true;

    for (size_t i = 0; ok && i < session->trace_count; i++) {
        struct ptd_perf_guest_trace copy;

        if (session->traces[i].cpu != cpu)
            continue;
        ok = ptd_perf_guest_trace(session, &session->traces[i], &copy) == PTD_OK;
        if (!ok)
            break;
        ok = bytes_add(&all, copy.bytes, copy.len_bytes);
        ptd_perf_guest_trace_free(&copy);
    }
    ok = ok && write_file(path, all.data, all.len) == 0;
    bytes_free(&all);
    return ok ? 0 : complain(EXIT_CODE_FILE, "%s cannot be written", path);
}

static int run(struct whose *whose, char **arguments, bool stripped)
{
    const struct ptd_perf_guest_sums *sums;
    struct ptd_perf_guests *guests;
    int code = load(whose, arguments[0], arguments[1]);

    if (code || !whose->session)
        return code;
    if (stripped)
        strip(whose->session);
    if (ptd_perf_guests_new(whose->session, whose->map.vcpus, whose->map.vcpu_count, &guests) !=
        PTD_OK)
        return complain(EXIT_CODE_HOST, "no memory");
    whose->session->guests = guests;
    sums = ptd_perf_guests_sums(guests);
    printf("%" PRIu64 " runs of guests: %" PRIu64 " by both, %" PRIu64 " by VMCS, %" PRIu64
           " by thread, %" PRIu64 " unknown\n",
           sums->runs, sums->by_both, sums->by_vmcs, sums->by_thread, sums->unknown);
    code = write_copies(whose, atoi(arguments[2]), arguments[3]);
    ptd_perf_guests_free(guests);
    return code;
}

int main(int argc, char **argv)
{
    const bool stripped = argc == 6 && strcmp(argv[1], "--strip") == 0;
    struct whose whose = {0};
    int code;

    if (argc != 5 && !stripped)
        return complain(EXIT_CODE_USAGE, "usage: perf_whose [--strip] PERF.DATA MAP CPU TRACE");
    code = run(&whose, argv + 1 + stripped, stripped);
    ptd_perf_session_free(whose.session);
    ptd_image_free(whose.image);
    map_free(&whose.map);
    code_files_free(whose.files);
    bytes_free(&whose.file);
    return code;
}
