/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A plugin of QEMU that writes the address of each instruction that begins, as 64-bit words: the
 * witness for traces. Iterations of a repeated string instruction behind the first are left out.
 *
 *   -plugin execlog.so,out=FILE[,from=ADDRESS,to=ADDRESS]
 *   -plugin execlog.so,count=FILE
 *
 * With from and to, only instructions from the one up to the other are logged. count writes how
 * many instructions began, and no more.
 */
#include <glib.h>
#include <inttypes.h>
#include <qemu-plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

#define CHUNK_WORDS    65536
#define MAX_INSN_BYTES 15

static FILE *out, *count;
static uint64_t begun;
static uint64_t chunk[CHUNK_WORDS], last;
static size_t fill;
static uint64_t from, to = UINT64_MAX;
static GMutex mutex;

/* ---- What QEMU 9 changed in the interface of plugins ---- */

#if QEMU_PLUGIN_VERSION < 3
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
#else
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
#endif

static void flush(void)
{
    if (fwrite(chunk, sizeof(chunk[0]), fill, out) != fill) {
        perror("execlog");
        exit(1);
    }
    fill = 0;
}

static void log_insn(unsigned vcpu, void *address)
{
    const uint64_t ip = (uintptr_t)address;

    (void)vcpu;
    g_mutex_lock(&mutex);
    last = ip;
    chunk[fill++] = ip;
    if (fill == CHUNK_WORDS)
        flush();
    g_mutex_unlock(&mutex);
}

static void log_string(unsigned vcpu, void *address)
{
    if (last != (uintptr_t)address)
        log_insn(vcpu, address);
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

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        const uint64_t ip = qemu_plugin_insn_vaddr(insn);
        void *address = (void *)(uintptr_t)ip;

        if (ip < from || ip >= to)
            continue;
        if (count && is_repeated(insn))
            continue;
        if (count) {
            count_insn(insn);
            continue;
        }
        qemu_plugin_register_vcpu_insn_exec_cb(insn, is_repeated(insn) ? log_string : log_insn,
                                               QEMU_PLUGIN_CB_NO_REGS, address);
    }
}

static void finished(qemu_plugin_id_t id, void *data)
{
    (void)id;
    (void)data;
    if (count) {
        fprintf(count, "%" PRIu64 "\n", begun);
        fclose(count);
        return;
    }
    flush();
    fclose(out);
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                           char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "out=", 4) == 0)
            out = fopen(argv[i] + 4, "wb");
        else if (strncmp(argv[i], "count=", 6) == 0)
            count = fopen(argv[i] + 6, "w");
        else if (strncmp(argv[i], "from=", 5) == 0)
            from = strtoull(argv[i] + 5, NULL, 0);
        else if (strncmp(argv[i], "to=", 3) == 0)
            to = strtoull(argv[i] + 3, NULL, 0);
    }
    if (!out && !count) {
        fprintf(stderr, "execlog: out=FILE is missing or cannot be written\n");
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
