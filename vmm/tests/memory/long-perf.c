/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For a script that asks how much memory vpt takes:
 *
 *   long-perf FOLDER MIB            writes a recording of so many MiB, as vpt record leaves one
 *   long-perf --peak FILE COMMAND   runs a command, and writes its peak resident memory into FILE,
 * in KiB
 *
 * One processor, of which each MiB is alike: 256 MTC packets of which half belong to a guest in
 * between. The host and the guest run a loop of one branch each. So it is known what ran:
 * GUEST_INSNS of the guest, and HOST_INSNS of the host. What fills the rest are MNT packets, which
 * mean nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ptdec_perf.h"

#define UNIT        (1u << 20)
#define MTCS        256u
#define MTC_BYTES   (UNIT / MTCS)
#define ENTRY       128u /* the MTC in front of the VM entry, */
#define EXIT        250u /*   and of the VM exit */
#define TNTS        20u  /* behind each MTC, of six branches each */
#define MTC_TICKS   (8u * 84u)
#define UNIT_TICKS  (MTCS * MTC_TICKS)
#define FIRST_TSC   1000000u
#define HOST_CODE   0x401000u
#define HOST_EXIT   0x401005u
#define GUEST_CODE  0x501000u
#define GUEST_INSNS ((EXIT - ENTRY) * TNTS * 6)
#define VCPU        101u
#define OTHER       1u

static const uint8_t host_code[] = {
    0x75, 0xfe,       /* jne to itself */
    0x0f, 0x01, 0xc3, /* vmresume */
    0xeb, 0xf9,       /* where VM exits lead: jmp to the begin */
};
static const uint8_t guest_code[] = {0x75, 0xfe, 0xf4};

/* ---- Packets ---- */

struct unit {
    uint8_t bytes[UNIT];
    size_t len;
};

static void put(struct unit *unit, const void *bytes, size_t len)
{
    memcpy(unit->bytes + unit->len, bytes, len);
    unit->len += len;
}

#define PUT(unit, ...)                                                                             \
    put(unit, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* FUP or TIP with all of an address. */
static void put_ip(struct unit *unit, uint8_t opcode, uint64_t ip)
{
    PUT(unit, opcode);
    put(unit, &ip, 6);
}

static void put_pip(struct unit *unit, bool nr)
{
    PUT(unit, 0x02, 0x43, nr ? 0x01 : 0x00, 0x01, 0, 0, 0, 0);
}

static void fill_up(struct unit *unit, size_t end)
{
    while (unit->len + 11 <= end)
        PUT(unit, 0x02, 0xc3, 0x88, 1, 2, 3, 4, 5, 6, 7, 8);
    while (unit->len < end)
        PUT(unit, 0);
}

static void put_psb(struct unit *unit, bool is_first)
{
    for (unsigned i = 0; i < 8; i++)
        PUT(unit, 0x02, 0x82);
    if (is_first) { /* TSC and TMA, the crystal's clock being 0 */
        PUT(unit, 0x19, FIRST_TSC & 0xff, FIRST_TSC >> 8 & 0xff, FIRST_TSC >> 16, 0, 0, 0, 0);
        PUT(unit, 0x02, 0x73, 0, 0, 0, 0, 0);
    }
    PUT(unit, 0x99, 0x01);
    put_pip(unit, false);
    put_ip(unit, 0x7d, HOST_CODE);
    PUT(unit, 0x02, 0x23);
}

static void make_unit(struct unit *unit, bool is_first)
{
    unit->len = 0;
    put_psb(unit, is_first);
    for (unsigned mtc = 0; mtc < MTCS; mtc++) {
        if (mtc == ENTRY) {
            PUT(unit, 0x04); /* not taken: to VMRESUME */
            put_pip(unit, true);
            put_ip(unit, 0x6d, GUEST_CODE);
        }
        if (mtc == EXIT) {
            put_ip(unit, 0x7d, GUEST_CODE);
            put_pip(unit, false);
            put_ip(unit, 0x6d, HOST_EXIT);
        }
        PUT(unit, 0x59, (uint8_t)(mtc + 1));
        for (unsigned i = 0; i < TNTS; i++)
            PUT(unit, 0xfe);
        fill_up(unit, (mtc + 1) * MTC_BYTES);
    }
}

/* ---- Files ---- */

static FILE *file_in(const char *folder, const char *name)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "wb");
    if (!file)
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return file;
}

static int put_file(void *owner, const void *bytes, size_t len)
{
    return fwrite(bytes, 1, len, owner) == len ? 0 : -1;
}

static bool write_bytes(const char *folder, const char *name, const void *bytes, size_t len)
{
    FILE *const file = file_in(folder, name);

    return file && put_file(file, bytes, len) == 0 && fclose(file) == 0;
}

/* The thread of the virtual processor comes in front of the VM entry, and goes behind the exit. */
static struct ptd_perf_switch switch_of(size_t unit, bool comes)
{
    const uint64_t at = FIRST_TSC + unit * UNIT_TICKS + (comes ? ENTRY - 8 : EXIT + 3) * MTC_TICKS;
    const uint32_t from = comes ? OTHER : VCPU, to = comes ? VCPU : OTHER;

    return (struct ptd_perf_switch){.time = at,
                                    .pid = from,
                                    .tid = from,
                                    .out = true,
                                    .has_other = true,
                                    .other_pid = to,
                                    .other_tid = to};
}

static bool write_perf_data(const char *folder, size_t mib)
{
    static struct unit first, other;
    const struct ptd_perf_comm comms[] = {{.pid = OTHER, .tid = OTHER, .name = "other"},
                                          {.pid = VCPU, .tid = VCPU, .name = "vcpu"}};
    struct ptd_perf_trace *const traces = calloc(mib, sizeof(*traces));
    struct ptd_perf_switch *const switches = calloc(2 * mib, sizeof(*switches));
    FILE *const file = file_in(folder, "perf.data");
    const struct ptd_perf_out out = {
        .pt = {.time_mult = 1, .has_time = true, .tsc_ctc_num = 84, .tsc_ctc_den = 1},
        .config = 1u << 10 | 1u << 9 | 3u << 14,
        .traces = traces,
        .comms = comms,
        .switches = switches,
        .trace_count = mib,
        .comm_count = 2,
        .switch_count = 2 * mib,
        .write = put_file,
        .owner = file,
    };
    bool ok = traces && switches && file;

    make_unit(&first, true);
    make_unit(&other, false);
    for (size_t i = 0; ok && i < mib; i++) {
        traces[i] = (struct ptd_perf_trace){.tid = -1,
                                            .reference = FIRST_TSC,
                                            .aux_offset = i * UNIT,
                                            .bytes = i ? other.bytes : first.bytes,
                                            .len_bytes = UNIT};
        switches[2 * i] = switch_of(i, true);
        switches[2 * i + 1] = switch_of(i, false);
    }
    ok = ok && ptd_perf_write(&out) == PTD_OK && fclose(file) == 0;
    free(traces);
    free(switches);
    return ok;
}

static bool write_map(const char *folder)
{
    FILE *const file = file_in(folder, "map");

    return file &&
           fprintf(file,
                   "{\"vpt-map\": 1,\n"
                   " \"host\": {\"images\": [{\"path\": \"host.bin\", \"address\": \"%#x\"}]},\n"
                   " \"vms\": [{\"name\": \"long\",\n"
                   "  \"vcpus\": [{\"tid\": %u, \"tsc_offset\": 5000000}],\n"
                   "  \"images\": [{\"path\": \"guest.bin\", \"address\": \"%#x\"}]}]}\n",
                   HOST_CODE, VCPU, GUEST_CODE) > 0 &&
           fclose(file) == 0;
}

static int write_all(const char *folder, size_t mib)
{
    const bool ok = (mkdir(folder, 0700) == 0 || errno == EEXIST) && mib > 0 &&
                    write_perf_data(folder, mib) && write_map(folder) &&
                    write_bytes(folder, "host.bin", host_code, sizeof(host_code)) &&
                    write_bytes(folder, "guest.bin", guest_code, sizeof(guest_code));

    if (ok)
        printf("%" PRIu64 "\n", (uint64_t)mib * GUEST_INSNS);
    return ok ? 0 : 1;
}

/* ---- How much memory ---- */

static int tell_peak(const char *path, char **command)
{
    FILE *const file = fopen(path, "w");
    const pid_t child = file ? fork() : -1;
    struct rusage usage;
    int status;

    if (child == 0) {
        execvp(command[0], command);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) != child)
        return 126;
    fprintf(file, "%ld\n", usage.ru_maxrss);
    (void)fclose(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}

int main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[1], "--peak") == 0)
        return tell_peak(argv[2], argv + 3);
    if (argc == 3)
        return write_all(argv[1], strtoul(argv[2], NULL, 10));
    fputs("usage: long-perf FOLDER MIB\n       long-perf --peak FILE COMMAND...\n", stderr);
    return 2;
}
