/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A plugin of QEMU that writes the address of each instruction that begins, as 64-bit words: the
 * witness for traces. Iterations of a repeated string instruction behind the first are left out.
 *
 *   -plugin execlog.so,out=FILE[,from=ADDRESS,to=ADDRESS[,also_from=ADDRESS,also_to=ADDRESS]]
 *                      [,when=FILE][,during=FILE][,pages=on][,times=FILE][,vcpus=on]
 *   -plugin execlog.so,count=FILE
 *   -plugin execlog.so,blocks=FILE[,code=on][,start=ADDRESS][,most=BLOCKS][,when=FILE]
 *
 * With from and to, only instructions from the one up to the other are logged, and those of a
 * second such range; with when, those that are translated when this file is there. A capture that
 * begins has all code translated anew: make the file while the guest is stopped, then begin the
 * capture, and the log begins with it. With during, what runs while this file is there is logged,
 * give or take some thousands of instructions; it takes no capture, and time from the beginning on.
 * With start, no block or instruction before the first at
 * that address is logged; with most, no more blocks of a vCPU than that. count writes how many
 * instructions began, and no more.
 *
 * With pages, bits 63:48 are the number of the page of memory that holds the instruction: pages are
 * numbered from 1 as they come, by where they are in QEMU's own memory, so that no address space of
 * the guest has a say in it. 0: not from memory. Bits 47:0 are those of the (canonical) address.
 *
 * With times, a second file has a word for each of the log: the TSC (neither ratio nor offset),
 * with -icount that at the end of the block of translated code. For the branch at its end it is
 * exact.
 *
 * With vcpus, each vCPU has a log of its own, FILE.0 and so on, and a second file of its own, too.
 * Without, all of them share one.
 *
 * With blocks, FILE.table has each block of translated code: how many instructions it has, and
 * their addresses. Each vCPU has a log of its own, FILE.0 and so on, of the numbers of the blocks
 * that it ran. With code as well, FILE.code has 16 bytes for each instruction of the table, in the
 * same order: how long it is, and its bytes as they were translated. Code that changes is
 * translated anew and becomes another block, so these are the bytes that ran.
 */
#include <glib.h>
#include <inttypes.h>
#include <qemu-plugin.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

#define CHUNK_WORDS    65536
#define LOOK_EACH      4096 /* instructions */
#define MAX_INSN_BYTES 15
#define MAX_VCPUS      64
#define PAGE_BYTES     4096
#define PAGE_SHIFT     48 /* of a page's number in a word of the log */
#define MAX_PAGES      0xffff
#define ADDRESS_MASK   ((UINT64_C(1) << PAGE_SHIFT) - 1)

/* Of our QEMU. */
extern uint64_t x86_vpt_plugin_tsc(unsigned vcpu) __attribute__((weak));

static const char *out_name, *times_name; /* NULL: not asked for */
static FILE *count;
static uint64_t begun;
static uint64_t now;
static uint64_t from, to = UINT64_MAX, also_from, also_to, start;
static bool started;
static const char *when; /* NULL: it is there */
static const char *during;
static GHashTable *pages; /* their numbers; NULL: they are not asked for */
static GMutex mutex;

/* ---- What QEMU 9 changed in the interface of plugins ---- */

#if QEMU_PLUGIN_VERSION < 3
#define BLOCKS_MOVE false

static void count_insn(struct qemu_plugin_insn *insn)
{
    qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, &begun, 1);
}

static size_t insn_bytes(struct qemu_plugin_insn *insn, uint8_t bytes[MAX_INSN_BYTES])
{
    const size_t len = MIN(qemu_plugin_insn_size(insn), MAX_INSN_BYTES);

    memcpy(bytes, qemu_plugin_insn_data(insn), len);
    return len;
}

static void find_registers(unsigned vcpu)
{
    (void)vcpu;
}

/* Blocks are kept by their linear address, too. */
static uint64_t executed_at(unsigned vcpu, uint64_t translated_at)
{
    (void)vcpu;
    return translated_at;
}
#else
#define BLOCKS_MOVE true

static void one_more(unsigned vcpu, void *data)
{
    (void)vcpu;
    (void)data;
    __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
}

static void count_insn(struct qemu_plugin_insn *insn)
{
    qemu_plugin_register_vcpu_insn_exec_cb(insn, one_more, QEMU_PLUGIN_CB_NO_REGS, NULL);
}

static size_t insn_bytes(struct qemu_plugin_insn *insn, uint8_t bytes[MAX_INSN_BYTES])
{
    return qemu_plugin_insn_data(insn, bytes, MAX_INSN_BYTES);
}

#define EFER_LMA 0x400

static struct registers {
    struct qemu_plugin_register *rip, *efer;
    GByteArray *value;
} registers[MAX_VCPUS];

static void find_registers(unsigned vcpu)
{
    GArray *all = qemu_plugin_get_registers();

    for (guint i = 0; i < all->len; i++) {
        const qemu_plugin_reg_descriptor *one = &g_array_index(all, qemu_plugin_reg_descriptor, i);

        if (strcmp(one->name, "rip") == 0)
            registers[vcpu].rip = one->handle;
        else if (strcmp(one->name, "efer") == 0)
            registers[vcpu].efer = one->handle;
    }
    g_array_free(all, true);
    registers[vcpu].value = g_byte_array_new();
    if (!registers[vcpu].rip || !registers[vcpu].efer) {
        fprintf(stderr, "execlog: no RIP or no EFER\n");
        exit(1);
    }
}

static uint64_t register_value(unsigned vcpu, struct qemu_plugin_register *which)
{
    GByteArray *value = registers[vcpu].value;
    uint64_t number = 0;

    g_byte_array_set_size(value, 0);
    qemu_plugin_read_register(which, value);
    memcpy(&number, value->data, MIN(value->len, sizeof(number)));
    return number;
}

/*
 * Blocks are kept by their physical address only, and the one translation runs wherever that is
 * mapped. In long mode RIP is the linear address (nobody uses a segment with a base there, but for
 * the far jump into it, whose 16-bit segment is that of before); outside of it, nobody maps code
 * twice.
 */
static uint64_t executed_at(unsigned vcpu, uint64_t translated_at)
{
    const uint64_t rip = register_value(vcpu, registers[vcpu].rip);

    if (rip == translated_at || rip == (translated_at & 0xffff) ||
        !(register_value(vcpu, registers[vcpu].efer) & EFER_LMA))
        return translated_at;
    return rip;
}
#endif

/* A log of addresses; with the mutex held. */
static struct log {
    FILE *out, *times; /* NULL: not open; no times */
    uint64_t chunk[CHUNK_WORDS], chunk_times[CHUNK_WORDS];
    size_t fill;
    uint64_t last;
} logs[MAX_VCPUS];
static bool each_vcpu; /* has its own; without, all have the first */

static struct log *log_of(unsigned vcpu)
{
    return &logs[each_vcpu ? vcpu : 0];
}

static void flush(struct log *log)
{
    if (fwrite(log->chunk, sizeof(log->chunk[0]), log->fill, log->out) != log->fill ||
        (log->times && fwrite(log->chunk_times, sizeof(log->chunk_times[0]), log->fill,
                              log->times) != log->fill)) {
        perror("execlog");
        exit(1);
    }
    log->fill = 0;
}

/* How far the block that a vCPU runs is from where it was translated. */
static uint64_t moved_by[MAX_VCPUS];

static void block_moved(unsigned vcpu, void *translated_at)
{
    moved_by[vcpu] = executed_at(vcpu, (uintptr_t)translated_at) - (uintptr_t)translated_at;
}

static uint64_t word_executed(unsigned vcpu, const void *word)
{
    const uint64_t page = pages ? (uintptr_t)word & ~ADDRESS_MASK : 0;

    return page | (((uintptr_t)word + moved_by[vcpu]) & (pages ? ADDRESS_MASK : UINT64_MAX));
}

/* Whether the log goes on by that file, at which it looks now and then. */
static bool goes_on(void)
{
    static unsigned since;
    static bool is_there;

    if (since++ % LOOK_EACH == 0)
        is_there = g_file_test(during, G_FILE_TEST_EXISTS);
    return is_there;
}

/* word: as it is logged, unless the block has moved */
static void log_insn(unsigned vcpu, void *word)
{
    struct log *log = log_of(vcpu);

    if (during && !goes_on())
        return;
    g_mutex_lock(&mutex);
    log->last = word_executed(vcpu, word);
    started = started || log->last == start;
    if (!started) {
        g_mutex_unlock(&mutex);
        return;
    }
    log->chunk_times[log->fill] = now;
    log->chunk[log->fill++] = log->last;
    if (log->fill == CHUNK_WORDS)
        flush(log);
    g_mutex_unlock(&mutex);
}

static void log_string(unsigned vcpu, void *word)
{
    if (log_of(vcpu)->last != word_executed(vcpu, word))
        log_insn(vcpu, word);
}

static uint64_t page_number(const struct qemu_plugin_insn *insn)
{
    const uintptr_t at = (uintptr_t)qemu_plugin_insn_haddr(insn);
    void *const page = (void *)(at / PAGE_BYTES);
    uintptr_t number;

    if (at == 0)
        return 0;
    g_mutex_lock(&mutex);
    number = (uintptr_t)g_hash_table_lookup(pages, page);
    if (number == 0) {
        number = g_hash_table_size(pages) + 1;
        g_hash_table_insert(pages, page, (void *)number);
    }
    g_mutex_unlock(&mutex);
    if (number > MAX_PAGES) {
        fprintf(stderr, "execlog: code on more than %d pages\n", MAX_PAGES);
        exit(1);
    }
    return number;
}

/* What the log has for an instruction. */
static void *log_word(const struct qemu_plugin_insn *insn)
{
    const uint64_t ip = qemu_plugin_insn_vaddr(insn);

    if (!pages)
        return (void *)(uintptr_t)ip;
    return (void *)(uintptr_t)(page_number(insn) << PAGE_SHIFT | (ip & ADDRESS_MASK));
}

/* Whether the bytes are those of a repeated string instruction. */
static bool is_repeated(struct qemu_plugin_insn *insn)
{
    uint8_t bytes[MAX_INSN_BYTES];
    const size_t len = insn_bytes(insn, bytes);
    bool repeat = false;
    size_t i = 0;

    for (; i < len; i++) {
        const uint8_t byte = bytes[i];

        if (byte == 0xf2 || byte == 0xf3)
            repeat = true;
        else if (byte != 0x66 && byte != 0x67 && (byte & 0xf0) != 0x40 && byte != 0x26 &&
                 byte != 0x2e && byte != 0x36 && byte != 0x3e && byte != 0x64 && byte != 0x65)
            break;
    }
    if (!repeat || i == len)
        return false;
    return (bytes[i] >= 0xa4 && bytes[i] <= 0xa7) || (bytes[i] >= 0xaa && bytes[i] <= 0xaf) ||
           (bytes[i] >= 0x6c && bytes[i] <= 0x6f);
}

/* ---- blocks ---- */

#define PARTIAL 0x80000000u

struct code { /* of an instruction; log.h has the same */
    uint8_t len, bytes[MAX_INSN_BYTES];
};

struct block {
    uint32_t number, insns;
    uint64_t ip;         /* of the first instruction, and all of them as */
    uint64_t *ips;       /* they were translated */
    struct code *code;   /* NULL: not asked for */
    struct block *moved; /* the same at other addresses; with the mutex held */
};

static struct vcpu {
    FILE *out;
    uint64_t count;
    const struct block *block, *written; /* that it runs; that was the last in out */
    uint32_t begun;                      /* instructions of it */
} vcpus[MAX_VCPUS];
static FILE *table, *code;
static uint32_t blocks;
static uint64_t most = UINT64_MAX;
static const char *blocks_name;

static void put(FILE *file, const void *data, size_t bytes)
{
    if (fwrite(data, 1, bytes, file) != bytes) {
        perror("execlog");
        exit(1);
    }
}

/* A block of one instruction that runs again and again (a string instruction) is one word. */
static void finish_block(struct vcpu *vcpu)
{
    uint32_t words[2];

    if (!vcpu->block || (vcpu->block == vcpu->written && vcpu->block->insns == 1) ||
        vcpu->count == most)
        return;
    vcpu->count++;
    vcpu->written = vcpu->block;
    words[0] = vcpu->block->number;
    words[1] = vcpu->begun;
    if (vcpu->begun != vcpu->block->insns)
        words[0] |= PARTIAL;
    put(vcpu->out, words, words[0] & PARTIAL ? sizeof(words) : sizeof(words[0]));
}

/* With the mutex held. */
static void add_block(struct block *block)
{
    const uint64_t insns = block->insns;

    block->number = blocks++;
    put(table, &insns, sizeof(insns));
    for (uint64_t i = 0; i < insns; i++) {
        const uint64_t ip = block->ip + (block->ips[i] - block->ips[0]);

        put(table, &ip, sizeof(ip));
    }
    if (code)
        put(code, block->code, insns * sizeof(*block->code));
}

/* The block as it is at another address than the one of its translation. */
static const struct block *block_at(struct block *block, uint64_t ip)
{
    struct block *moved;

    g_mutex_lock(&mutex);
    for (moved = block->moved; moved && moved->ip != ip; moved = moved->moved)
        ;
    if (!moved) {
        moved = g_memdup2(block, sizeof(*block));
        moved->ip = ip;
        block->moved = moved;
        add_block(moved);
    }
    g_mutex_unlock(&mutex);
    return moved;
}

static void block_begins(unsigned index, void *data)
{
    struct vcpu *vcpu = &vcpus[index];
    struct block *block = data;
    const uint64_t ip = executed_at(index, block->ip);

    if (!started && ip != start)
        return;
    started = true;
    finish_block(vcpu);
    vcpu->block = ip == block->ip ? block : block_at(block, ip);
    vcpu->begun = 0;
}

static void insn_begins(unsigned index, void *data)
{
    (void)data;
    vcpus[index].begun++;
}

static void block_translated(struct qemu_plugin_tb *tb)
{
    struct block *block = g_new0(struct block, 1);

    block->insns = (uint32_t)qemu_plugin_tb_n_insns(tb);
    block->ips = g_new(uint64_t, block->insns);
    if (code)
        block->code = g_new0(struct code, block->insns);
    for (uint32_t i = 0; i < block->insns; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

        block->ips[i] = qemu_plugin_insn_vaddr(insn);
        if (code)
            block->code[i].len = (uint8_t)insn_bytes(insn, block->code[i].bytes);
        qemu_plugin_register_vcpu_insn_exec_cb(insn, insn_begins, QEMU_PLUGIN_CB_NO_REGS, NULL);
    }
    block->ip = block->ips[0];
    g_mutex_lock(&mutex);
    add_block(block);
    g_mutex_unlock(&mutex);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, block_begins, QEMU_PLUGIN_CB_R_REGS, block);
}

/* A log, of this vCPU or of all. */
static FILE *log_file(const char *name, unsigned vcpu)
{
    char *own = each_vcpu ? g_strdup_printf("%s.%u", name, vcpu) : g_strdup(name);
    FILE *file = fopen(own, "wb");

    if (!file) {
        fprintf(stderr, "execlog: %s cannot be written\n", own);
        exit(1);
    }
    g_free(own);
    return file;
}

static void open_log(unsigned vcpu)
{
    struct log *log = log_of(vcpu);

    g_mutex_lock(&mutex);
    if (!log->out)
        log->out = log_file(out_name, vcpu);
    if (times_name && !log->times)
        log->times = log_file(times_name, vcpu);
    g_mutex_unlock(&mutex);
}

static void vcpu_begins(qemu_plugin_id_t id, unsigned index)
{
    (void)id;
    if (index >= MAX_VCPUS) {
        fprintf(stderr, "execlog: more than %d vCPUs\n", MAX_VCPUS);
        exit(1);
    }
    find_registers(index);
    if (blocks_name)
        vcpus[index].out = log_file(blocks_name, index);
    else
        open_log(index);
}

static void end_blocks(void)
{
    for (unsigned i = 0; i < MAX_VCPUS && vcpus[i].out; i++) {
        finish_block(&vcpus[i]);
        fclose(vcpus[i].out);
    }
    fclose(table);
    if (code)
        fclose(code);
}

/* ---- Instructions ---- */

static void read_time(unsigned vcpu, void *data)
{
    (void)data;
    now = x86_vpt_plugin_tsc(vcpu);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    if (when && g_file_test(when, G_FILE_TEST_EXISTS))
        when = NULL;
    if (when)
        return;
    if (table) {
        block_translated(tb);
        return;
    }
    if (out_name && BLOCKS_MOVE)
        qemu_plugin_register_vcpu_tb_exec_cb(
            tb, block_moved, QEMU_PLUGIN_CB_R_REGS,
            (void *)(uintptr_t)qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0)));
    if (times_name)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, read_time, QEMU_PLUGIN_CB_NO_REGS, NULL);
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        const uint64_t ip = qemu_plugin_insn_vaddr(insn);

        if ((ip < from || ip >= to) && (ip < also_from || ip >= also_to))
            continue;
        if (count && is_repeated(insn))
            continue;
        if (count) {
            count_insn(insn);
            continue;
        }
        qemu_plugin_register_vcpu_insn_exec_cb(insn, is_repeated(insn) ? log_string : log_insn,
                                               QEMU_PLUGIN_CB_NO_REGS, log_word(insn));
    }
}

static void finished(qemu_plugin_id_t id, void *data)
{
    (void)id;
    (void)data;
    if (table) {
        end_blocks();
        return;
    }
    if (count) {
        fprintf(count, "%" PRIu64 "\n", begun);
        fclose(count);
        return;
    }
    for (unsigned i = 0; i < MAX_VCPUS; i++) {
        if (!logs[i].out)
            continue;
        flush(&logs[i]);
        fclose(logs[i].out);
        if (logs[i].times)
            fclose(logs[i].times);
    }
}

/* FILE.what; NULL: it cannot be written. */
static FILE *beside_log(const char *what)
{
    char *name = g_strdup_printf("%s.%s", blocks_name, what);
    FILE *file = fopen(name, "wb");

    g_free(name);
    return file;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                           char **argv)
{
    bool with_code = false;

    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "out=", 4) == 0)
            out_name = g_strdup(argv[i] + 4);
        else if (strncmp(argv[i], "count=", 6) == 0)
            count = fopen(argv[i] + 6, "w");
        else if (strncmp(argv[i], "blocks=", 7) == 0)
            blocks_name = g_strdup(argv[i] + 7);
        else if (strncmp(argv[i], "from=", 5) == 0)
            from = strtoull(argv[i] + 5, NULL, 0);
        else if (strncmp(argv[i], "to=", 3) == 0)
            to = strtoull(argv[i] + 3, NULL, 0);
        else if (strncmp(argv[i], "also_from=", 10) == 0)
            also_from = strtoull(argv[i] + 10, NULL, 0);
        else if (strncmp(argv[i], "also_to=", 8) == 0)
            also_to = strtoull(argv[i] + 8, NULL, 0);
        else if (strncmp(argv[i], "start=", 6) == 0)
            start = strtoull(argv[i] + 6, NULL, 0);
        else if (strncmp(argv[i], "most=", 5) == 0)
            most = strtoull(argv[i] + 5, NULL, 0);
        else if (strncmp(argv[i], "when=", 5) == 0)
            when = g_strdup(argv[i] + 5);
        else if (strncmp(argv[i], "during=", 7) == 0)
            during = g_strdup(argv[i] + 7);
        else if (strncmp(argv[i], "times=", 6) == 0)
            times_name = g_strdup(argv[i] + 6);
        else if (strcmp(argv[i], "pages=on") == 0)
            pages = g_hash_table_new(NULL, NULL);
        else if (strcmp(argv[i], "code=on") == 0)
            with_code = true;
        else if (strcmp(argv[i], "vcpus=on") == 0)
            each_vcpu = true;
    }
    started = start == 0;
    if (blocks_name) {
        table = beside_log("table");
        code = with_code ? beside_log("code") : NULL;
        each_vcpu = true;
    }
    if (blocks_name || out_name)
        qemu_plugin_register_vcpu_init_cb(id, vcpu_begins);
    if (times_name && !x86_vpt_plugin_tsc) {
        fprintf(stderr, "execlog: no times: this QEMU does not tell them\n");
        return 1;
    }
    if (with_code && !code) {
        fprintf(stderr, "execlog: code=on needs blocks=FILE, beside which it can be written\n");
        return 1;
    }
    if (!out_name && !count && !table) {
        fprintf(stderr, "execlog: out=FILE is missing, or another file cannot be written\n");
        return 1;
    }
    if (out_name && !each_vcpu)
        open_log(0);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
