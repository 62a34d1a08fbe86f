/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A plugin of QEMU's user mode that traces a real program: what QEMU executes goes to the model as
 * events, and the model's packets into a file, with the code that ran and what really happened.
 *
 *   qemu-x86_64 -plugin record.so,out=PREFIX[,limit=BYTES][,noretcomp=on] PROGRAM ...
 *   qemu-x86_64 -plugin record.so,out=PREFIX,count=on PROGRAM ...
 *
 * PREFIX.pt is the trace; PREFIX.mtc.pt one of the same execution with TSC and MTC packets, as perf
 * asks for, and PREFIX.cyc.pt one with CYC packets, too; PREFIX.code the pages of code, one behind
 * the other; PREFIX.map a line "address bytes" for each run of them; PREFIX.truth "instructions
 * branches sum", where sum tells two sequences of branches apart (see truth_add()). When the first
 * trace has limit bytes, the program is ended. It may have one thread, and signals are not
 * understood: recording fails then. With noretcomp, no RET is compressed (RTIT_CTL.DisRETC). With
 * count, nothing is traced: PREFIX.count says how many instructions the whole program has.
 *
 * QEMU exports the plugin interface of version 1; Debian has no package with its header, so that
 * what is used of it is declared here.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptdec.h"
#include "bench/truth.h"
#include "roundtrip/near.h"
#include "vpt.h"

/* ---- QEMU's interface ---- */

struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { NO_REGS };

#define PUBLIC __attribute__((visibility("default")))

PUBLIC int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);
extern PUBLIC int qemu_plugin_version;
PUBLIC int qemu_plugin_version = 1;

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                           void (*callback)(uint64_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
                                          void (*callback)(unsigned, void *), int flags,
                                          void *data);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*callback)(uint64_t, void *), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

/* ---- State ---- */

#define KERNEL_IP  0xffffffff81000000u
#define CR3        0x1000u
#define PAGE_BYTES 4096u
#define PAGES_ROOM (1u << 17) /* of the table of pages; a power of two */
#define PSB_16K    3u         /* what perf asks for */

/* One of QEMU's translation blocks. */
struct block {
    uint64_t ip, insns;
    struct ptd_insn last;
};

struct page {
    uint64_t address;
    uint8_t *bytes; /* NULL: a free place */
};

struct tracer {
    struct vpt_cpu cpu;
    FILE *trace;
};

enum { PLAIN, MTC, CYC, TRACERS };

static struct {
    struct tracer tracers[TRACERS];
    const char *prefix;
    uint64_t limit, more_ctl; /* bits that all traces have besides */
    const struct block *previous;
    struct truth truth;
    struct page pages[PAGES_ROOM];
    size_t page_count;
    uint8_t sink[PAGE_BYTES];
    bool finished;
    bool counts; /* and does not trace */
} recorder;

static void die(const char *why, uint64_t ip)
{
    fprintf(stderr, "record: %s at %" PRIx64 "\n", why, ip);
    _Exit(EXIT_FAILURE);
}

/* ---- The model's owner ---- */

static void translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    (void)owner;
    (void)access;
    *span = (struct vpt_span){VPT_SPAN_RAM, len_bytes, recorder.sink + gpa % PAGE_BYTES};
}

static void wrote(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    const struct tracer *const tracer = owner;

    (void)gpa;
    if (fwrite(bytes, 1, len_bytes, tracer->trace) != len_bytes)
        die("the trace cannot be written", 0);
}

/* A processor that needs a cycle for an instruction. */
static void clocks(void *owner, struct vpt_clocks *now)
{
    const struct tracer *const tracer = owner;

    vpt_clocks_from_tsc(&tracer->cpu.caps, recorder.truth.insns, now);
}

static const struct vpt_ops ops = {.translate = translate, .wrote = wrote, .clocks = clocks};

static const struct vpt_context user = {.cr3 = CR3, .cpl = 3, .exec_mode = VPT_EXEC_64};
static const struct vpt_context kernel = {.cr3 = CR3, .cpl = 0, .exec_mode = VPT_EXEC_64};

static void transfer(enum vpt_transfer_type type, uint64_t ip, uint64_t target,
                     const struct vpt_context *after)
{
    const struct vpt_transfer event = {.type = type, .ip = ip, .target = target, .after = *after};

    for (unsigned i = 0; i < TRACERS; i++)
        vpt_transfer(&recorder.tracers[i].cpu, &event);
}

#define CTL_BRANCHES                                                                               \
    (VPT_CTL_TRACEEN | VPT_CTL_USER | VPT_CTL_BRANCHEN | (uint64_t)PSB_16K << VPT_CTL_PSBFREQ_SHR)
#define CTL_TIME (VPT_CTL_MTCEN | VPT_CTL_TSCEN | (uint64_t)TRUTH_MTC_FREQ << VPT_CTL_MTCFREQ_SHR)

static const struct {
    const char *suffix;
    uint64_t ctl;
} traces[TRACERS] = {
    [PLAIN] = {"pt", CTL_BRANCHES},
    [MTC] = {"mtc.pt", CTL_BRANCHES | CTL_TIME},
    [CYC] = {"cyc.pt", CTL_BRANCHES | CTL_TIME | VPT_CTL_CYCEN},
};

/* Tracing of user code begins in the kernel. */
static void start(uint64_t ip)
{
    struct vpt_caps caps;

    if (!vpt_profile("skylake", &caps) || caps.tsc_den != TRUTH_TSC_DEN ||
        caps.tsc_num != TRUTH_TSC_NUM || caps.max_nonturbo_ratio != TRUTH_RATIO)
        die("no such processor", 0);
    caps.choices = (struct vpt_choices){0}; /* a decoder's speed is measured on packets, not PADs */
    caps.psb_align_bytes = 0;
    for (unsigned i = 0; i < TRACERS; i++) {
        struct vpt_cpu *const cpu = &recorder.tracers[i].cpu;

        if (!vpt_init(cpu, &caps, &ops, &recorder.tracers[i]))
            die("no such processor", 0);
        vpt_set_context(cpu, &kernel);
        vpt_wrmsr(cpu, VPT_MSR_OUTPUT_MASK_PTRS, 0xffffff, 0, 0);
        if (vpt_wrmsr(cpu, VPT_MSR_CTL, traces[i].ctl | recorder.more_ctl, KERNEL_IP,
                      KERNEL_IP + 2) != VPT_OK)
            die("tracing cannot be enabled", 0);
    }
    transfer(VPT_FAR_BRANCH, KERNEL_IP, ip, &user);
}

/* ---- Code ---- */

static void keep_byte(uint64_t address, uint8_t byte)
{
    const uint64_t base = address & ~(uint64_t)(PAGE_BYTES - 1);

    for (uint64_t i = base / PAGE_BYTES;; i++) {
        struct page *const page = &recorder.pages[i & (PAGES_ROOM - 1)];

        if (!page->bytes) {
            if (2 * ++recorder.page_count > PAGES_ROOM)
                die("too much code", address);
            page->address = base;
            page->bytes = calloc(1, PAGE_BYTES);
            if (!page->bytes)
                die("no memory", address);
        }
        if (page->address == base) {
            page->bytes[address - base] = byte;
            return;
        }
    }
}

static void executed(unsigned vcpu, void *data);
static void counted(unsigned vcpu, void *data);

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
    const size_t count = qemu_plugin_tb_n_insns(tb);
    struct block *const block = calloc(1, sizeof(*block));

    (void)id;
    if (!block)
        die("no memory", 0);
    for (size_t i = 0; i < count; i++) {
        const struct qemu_plugin_insn *const insn = qemu_plugin_tb_get_insn(tb, i);
        const uint64_t ip = qemu_plugin_insn_vaddr(insn);
        const uint8_t *const bytes = qemu_plugin_insn_data(insn);
        const size_t len = qemu_plugin_insn_size(insn);

        /*
         * Where an instruction crosses a page, QEMU begins to translate it and ends the block in
         * front of it after all, but shows its first bytes.
         */
        struct ptd_insn decoded;

        if (ptd_insn_decode(PTD_MODE_64, ip, bytes, len, &decoded) != PTD_OK) {
            if (i == 0 || i + 1 < count)
                die("not an instruction", ip);
            break;
        }
        block->last = decoded;
        for (size_t j = 0; j < len; j++)
            keep_byte(ip + j, bytes[j]);
        if (i == 0)
            block->ip = ip;
        block->insns++;
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, recorder.counts ? counted : executed, NO_REGS, block);
}

/* ---- Events ---- */

/* Whether an instruction can have been followed by what is at ip. */
static bool can_lead_to(const struct ptd_insn *insn, uint64_t ip)
{
    const uint64_t next_ip = insn->ip + insn->size_bytes;

    switch ((enum ptd_insn_class)insn->iclass) {
    case PTD_INSN_COND:
        return ip == insn->target || ip == next_ip;
    case PTD_INSN_JMP_DIRECT:
    case PTD_INSN_CALL_DIRECT:
        return ip == insn->target;
    case PTD_INSN_OTHER:
        return ip == next_ip || ip == insn->ip; /* REP comes back to itself */
    default:
        return true;
    }
}

/* The last instruction of a block has run, and ip comes next. */
static void retired(const struct ptd_insn *insn, uint64_t ip)
{
    if (!can_lead_to(insn, ip))
        die("a signal, or another thread", insn->ip);
    if (insn->iclass == PTD_INSN_OTHER)
        return;
    if (insn->iclass == PTD_INSN_FAR) { /* SYSCALL, and the kernel's way back */
        transfer(VPT_FAR_BRANCH, insn->ip, KERNEL_IP, &kernel);
        transfer(VPT_FAR_BRANCH, KERNEL_IP, ip, &user);
    } else {
        for (unsigned i = 0; i < TRACERS; i++)
            if (!tell_near(&recorder.tracers[i].cpu, insn, ip))
                die("an instruction that is not understood", insn->ip);
    }
    truth_add(&recorder.truth, insn->ip, ip);
}

static bool comes_back(const struct ptd_insn *insn, uint64_t ip)
{
    return insn->iclass == PTD_INSN_OTHER && insn->ip == ip;
}

static void finish(uint64_t ip);

static void executed(unsigned vcpu, void *data)
{
    const struct block *const block = data, *const previous = recorder.previous;

    bool again = false; /* a REP that goes on */

    (void)vcpu;
    if (recorder.finished)
        return;
    if (!previous) {
        start(block->ip);
    } else {
        again = comes_back(&previous->last, block->ip);
        retired(&previous->last, block->ip);
    }
    if (recorder.limit && recorder.tracers[PLAIN].cpu.output_bytes >= recorder.limit && !again) {
        finish(block->ip);
        exit(EXIT_SUCCESS);
    }
    recorder.truth.insns += block->insns - again;
    recorder.previous = block;
}

static void counted(unsigned vcpu, void *data)
{
    const struct block *const block = data, *const previous = recorder.previous;

    (void)vcpu;
    recorder.truth.insns += block->insns - (previous && comes_back(&previous->last, block->ip));
    recorder.previous = block;
}

/* ---- Files ---- */

static int compare_pages(const void *left, const void *right)
{
    const struct page *const a = left, *const b = right;

    return (a->address > b->address) - (a->address < b->address);
}

static FILE *open_file(const char *suffix)
{
    char path[4096];
    FILE *file = NULL;

    if (snprintf(path, sizeof(path), "%s.%s", recorder.prefix, suffix) < (int)sizeof(path))
        file = fopen(path, "wb");
    if (!file)
        die("a file cannot be created", 0);
    return file;
}

static void close_file(FILE *file)
{
    const bool failed = ferror(file);

    if (fclose(file) != 0 || failed)
        die("a file cannot be written", 0);
}

static void write_code(void)
{
    FILE *const code = open_file("code"), *const map = open_file("map");
    uint64_t first = 0, bytes = 0;
    size_t count = 0;

    for (size_t i = 0; i < PAGES_ROOM; i++)
        if (recorder.pages[i].bytes)
            recorder.pages[count++] = recorder.pages[i];
    qsort(recorder.pages, count, sizeof(recorder.pages[0]), compare_pages);
    for (size_t i = 0; i < count; i++) {
        const struct page *const page = &recorder.pages[i];

        if (bytes == 0)
            first = page->address;
        bytes += PAGE_BYTES;
        (void)fwrite(page->bytes, 1, PAGE_BYTES, code);
        if (i + 1 < count && page[1].address == first + bytes)
            continue;
        fprintf(map, "%" PRIx64 " %" PRIx64 "\n", first, bytes);
        bytes = 0;
    }
    close_file(code);
    close_file(map);
}

/* Tracing ends in front of ip: an interrupt takes the processor away. */
static void finish(uint64_t ip)
{
    FILE *truth;

    if (recorder.finished)
        return;
    recorder.finished = true;
    transfer(VPT_INTERRUPT, ip, KERNEL_IP, &kernel);
    for (unsigned i = 0; i < TRACERS; i++) {
        vpt_wrmsr(&recorder.tracers[i].cpu, VPT_MSR_CTL, 0, KERNEL_IP, KERNEL_IP + 2);
        close_file(recorder.tracers[i].trace);
    }
    write_code();
    truth = open_file("truth");
    truth_write(&recorder.truth, truth);
    close_file(truth);
}

/* The program's last instruction was a SYSCALL that did not come back. */
static void at_exit(uint64_t id, void *data)
{
    (void)id;
    (void)data;
    if (!recorder.previous || recorder.finished)
        return;
    transfer(VPT_FAR_BRANCH, recorder.previous->last.ip, KERNEL_IP, &kernel);
    finish(KERNEL_IP);
}

static void write_count(uint64_t id, void *data)
{
    FILE *const count = open_file("count");

    (void)id;
    (void)data;
    fprintf(count, "%" PRIu64 "\n", recorder.truth.insns);
    close_file(count);
}

PUBLIC int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "out=", 4) == 0)
            recorder.prefix = strdup(argv[i] + 4);
        else if (strncmp(argv[i], "limit=", 6) == 0)
            recorder.limit = strtoull(argv[i] + 6, NULL, 0);
        else if (strcmp(argv[i], "noretcomp=on") == 0)
            recorder.more_ctl = VPT_CTL_DISRETC;
        else if (strcmp(argv[i], "count=on") == 0)
            recorder.counts = true;
        else
            return -1;
    }
    if (!recorder.prefix)
        return -1;
    truth_start(&recorder.truth);
    for (unsigned i = 0; i < TRACERS && !recorder.counts; i++)
        recorder.tracers[i].trace = open_file(traces[i].suffix);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, recorder.counts ? write_count : at_exit, NULL);
    return 0;
}
