/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The threads of a capture, without a QEMU: a vCPU that puts packets, the writer's thread, and who
 * ends or saves the capture meanwhile. Compiled with stand-in.h and ThreadSanitizer (make tsan).
 * Ends with 'N passed, N failed'.
 */
#include "qemu/glue/vpt-i386.h"

#include <sched.h>
#include <signal.h>
#include <sys/stat.h>

#define TOTAL_BYTES (3 * X86_VPT_WRITER_BYTES) /* so that it is full most of the time */
#define RING_SIZE   X86_VPT_RING_MIN
#define SAVES       20u

static unsigned passed, failed;

static void expect(const char *name, bool ok)
{
    printf("%s: %s\n", ok ? "PASS" : "FAIL", name);
    if (ok) {
        passed++;
    } else {
        failed++;
    }
}

/* In place of code.c: records are told by whole logs. */
void x86_vpt_code_copy(GByteArray *log, const GByteArray *records, uint64_t begin)
{
    (void)begin;
    if (records->len) {
        g_byte_array_append(log, records->data, records->len);
    }
}

/* In place of file.c: what it does with descriptors, but for who may open what. */
struct X86VptFile x86_vpt_file_steal(struct X86VptFile *file)
{
    const struct X86VptFile stolen = *file;

    *file = (struct X86VptFile){.fd = -1};
    return stolen;
}

bool x86_vpt_file_write(struct X86VptFile *file, const struct iovec *parts, size_t count,
                        Error **errp)
{
    bool good = ftruncate(file->fd, 0) == 0 && lseek(file->fd, 0, SEEK_SET) == 0;

    (void)errp;
    for (size_t i = 0; i < count && good; i++) {
        good = qemu_write_full(file->fd, parts[i].iov_base, parts[i].iov_len) ==
               (ssize_t)parts[i].iov_len;
    }
    return good;
}

int x86_vpt_file_close(struct X86VptFile *file)
{
    const int error = file->name && file->fd >= 0 && close(file->fd) != 0 ? errno : 0;

    free(file->name);
    *file = (struct X86VptFile){.fd = -1};
    return error;
}

/* Byte number at of what is put. */
static uint8_t pattern(uint64_t at)
{
    return (uint8_t)(at * 31 + (at >> 13));
}

/* ---- Opening, as the glue does it ---- */

static struct X86VptFile open_file(const char *path, const char *suffix)
{
    struct X86VptFile file = {0};

    if (asprintf(&file.name, "%s%s", path, suffix) < 0) {
        abort();
    }
    file.fd = open(file.name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return file;
}
static struct X86VptWriter *open_writer(const char *path)
{
    struct X86VptFile file = open_file(path, "");

    return x86_vpt_writer_new(&file);
}
static bool end_writer(struct X86VptWriter *writer)
{
    return x86_vpt_writer_end(writer) == 0;
}
static bool writer_failed(const struct X86VptWriter *writer)
{
    return x86_vpt_write_error(writer) != 0;
}
static bool save_ring(struct X86VptRing *ring, const char *path)
{
    struct X86VptFile trace = open_file(path, ""), code = open_file(path, ".code");
    struct X86VptFile names = open_file(path, ".names");
    const bool saved = x86_vpt_ring_save(ring, &trace, &code, &names, NULL);

    return x86_vpt_file_close(&names) == 0 && x86_vpt_file_close(&code) == 0 &&
           x86_vpt_file_close(&trace) == 0 && saved;
}

/* ---- The writer ---- */

struct vcpu {
    struct X86VptWriter *writer;
    struct X86VptRing *ring;
    bool stop;      /* atomic */
    unsigned calls; /* atomic: how often something was put */
    uint64_t put;
};

static void put_some(struct vcpu *cpu)
{
    uint8_t bytes[4096];
    const size_t len = 1 + cpu->put % sizeof(bytes); /* of any length */

    for (size_t i = 0; i < len; i++) {
        bytes[i] = pattern(cpu->put + i);
    }
    if (cpu->writer) {
        x86_vpt_write(cpu->writer, bytes, len);
    } else {
        x86_vpt_ring_write(cpu->ring, bytes, len);
    }
    cpu->put += len;
    qatomic_store_release(&cpu->calls, cpu->calls + 1);
}

static void *put_all(void *opaque)
{
    struct vcpu *const cpu = opaque;

    while (cpu->put < TOTAL_BYTES) {
        put_some(cpu);
    }
    return NULL;
}

static void *put_until_told(void *opaque)
{
    struct vcpu *const cpu = opaque;

    while (!qatomic_load_acquire(&cpu->stop)) {
        put_some(cpu);
    }
    return NULL;
}

/* The vCPU has put something so many times more. */
static void wait_for_calls(const struct vcpu *cpu, unsigned more)
{
    const unsigned from = qatomic_load_acquire(&cpu->calls);

    while (qatomic_load_acquire(&cpu->calls) - from < more) {
        sched_yield();
    }
}

/*
 * How many bytes can be read, if all of them are as they were put; else UINT64_MAX. With slower,
 * the vCPU is ahead all the time, and told to stop if that does not end.
 */
static uint64_t read_pattern(int fd, struct vcpu *slower)
{
    static uint8_t bytes[1u << 15];
    uint64_t at = 0;
    bool good = true;
    ssize_t len;

    while ((len = read(fd, bytes, sizeof(bytes))) > 0) {
        for (ssize_t i = 0; i < len; i++) {
            good = good && bytes[i] == pattern(at + i);
        }
        at += len;
        if (slower && at > TOTAL_BYTES) {
            good = false;
            qatomic_store_release(&slower->stop, true);
        } else if (slower) {
            wait_for_calls(slower, 64);
        }
    }
    return good ? at : UINT64_MAX;
}

/* A writer into a pipe, whose other end is *from. */
static struct X86VptWriter *open_pipe(int *from)
{
    struct X86VptWriter *writer;
    char path[32];
    int ends[2];

    if (pipe(ends) != 0) {
        return NULL;
    }
    snprintf(path, sizeof(path), "/dev/fd/%d", ends[1]);
    writer = open_writer(path);
    close(ends[1]);
    *from = ends[0];
    return writer;
}

struct ender {
    struct X86VptWriter *writer;
    pthread_t vcpu;
    bool good;
};

static void *join_and_end(void *opaque)
{
    struct ender *const ender = opaque;

    pthread_join(ender->vcpu, NULL);
    ender->good = end_writer(ender->writer);
    return NULL;
}

static void test_slow_file(void)
{
    int from;
    struct vcpu cpu = {.writer = open_pipe(&from)};
    struct ender ender = {.writer = cpu.writer};
    pthread_t thread;
    uint64_t got;

    pthread_create(&ender.vcpu, NULL, put_all, &cpu);
    pthread_create(&thread, NULL, join_and_end, &ender);
    got = read_pattern(from, NULL);
    pthread_join(thread, NULL);
    expect("what a vCPU puts arrives, by a pipe that is full most of the time",
           ender.good && got == cpu.put);
    x86_vpt_writer_free(cpu.writer);
    close(from);
}

static void test_file_fails(void)
{
    int from;
    struct vcpu cpu = {.writer = open_pipe(&from)};
    pthread_t thread;

    close(from);
    pthread_create(&thread, NULL, put_all, &cpu);
    while (!writer_failed(cpu.writer)) {
        sched_yield();
    }
    pthread_join(thread, NULL);
    expect("a file that fails stops no vCPU, and is told at the end", !end_writer(cpu.writer));
    x86_vpt_writer_free(cpu.writer);
}

static void *end_now(void *opaque)
{
    struct ender *const ender = opaque;

    ender->good = end_writer(ender->writer);
    return NULL;
}

/* As at the exit of QEMU, which waits for no vCPU. */
static void test_end_amid(void)
{
    int from;
    struct vcpu cpu = {.writer = open_pipe(&from)};
    struct ender ender = {.writer = cpu.writer};
    pthread_t vcpu, thread;
    uint64_t got;

    pthread_create(&vcpu, NULL, put_until_told, &cpu);
    wait_for_calls(&cpu, 1);
    pthread_create(&thread, NULL, end_now, &ender);
    got = read_pattern(from, &cpu);
    pthread_join(thread, NULL);
    qatomic_store_release(&cpu.stop, true);
    pthread_join(vcpu, NULL);
    expect("a writer ends while a vCPU puts, and what was put before is there",
           ender.good && got > 0 && got != UINT64_MAX);
    x86_vpt_writer_free(cpu.writer);
    close(from);
}

/* ---- The ring ---- */

/* What a capture in a ring does for a block of code. */
static void *put_in_ring(void *opaque)
{
    struct vcpu *const cpu = opaque;

    while (!qatomic_load_acquire(&cpu->stop)) {
        put_some(cpu);
        x86_vpt_ring_add_code(cpu->ring, (const uint8_t *)"record", 6);
        x86_vpt_ring_add_names(cpu->ring, "line\n", 5);
        if (x86_vpt_ring_is_due(cpu->ring)) {
            x86_vpt_ring_turn(cpu->ring);
        }
    }
    return NULL;
}

/* Whether the file holds as many bytes as a ring at most, one after the other. */
static bool is_saved(const char *path, uint64_t *len)
{
    const int fd = open(path, O_RDONLY);
    struct stat status;
    bool good = fd >= 0 && fstat(fd, &status) == 0 && status.st_size <= RING_SIZE;

    *len = good ? (uint64_t)status.st_size : 0;
    if (fd >= 0) {
        close(fd);
    }
    return good;
}

static void remove_saved(const char *path)
{
    static const char *const suffixes[] = {"", ".code", ".names"};
    char name[4104];

    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

static void test_ring(const char *folder)
{
    struct vcpu cpu = {.ring = x86_vpt_ring_new(RING_SIZE, NULL)};
    pthread_t vcpu;
    char path[4096];
    bool good = true;
    uint64_t len, last;

    snprintf(path, sizeof(path), "%s/ring.pt", folder);
    pthread_create(&vcpu, NULL, put_in_ring, &cpu);
    wait_for_calls(&cpu, 1);
    for (unsigned i = 0; i < SAVES; i++) {
        good = good && save_ring(cpu.ring, path) && is_saved(path, &len) && len > 0;
    }
    expect("a ring is saved while the vCPU puts", good);
    x86_vpt_ring_close(cpu.ring);
    good = save_ring(cpu.ring, path) && is_saved(path, &last);
    good = good && save_ring(cpu.ring, path) && is_saved(path, &len) && len == last;
    expect("a ring that is closed takes no more", good);
    qatomic_store_release(&cpu.stop, true);
    pthread_join(vcpu, NULL);
    x86_vpt_ring_free(cpu.ring);
    remove_saved(path);
}

/* Turns and puts as many packets as fill the ring, with a line. */
static void put_generation(struct X86VptRing *ring, const char *line)
{
    static const uint8_t packets[RING_SIZE];

    x86_vpt_ring_turn(ring);
    x86_vpt_ring_add_names(ring, line, strlen(line));
    x86_vpt_ring_write(ring, packets, sizeof(packets));
}

/* Lines of names are those of two generations, and the first line says where the packets begin. */
static void test_names(const char *folder)
{
    struct X86VptRing *ring = x86_vpt_ring_new(RING_SIZE, NULL);
    char path[4096], name[4104], wanted[80], found[80] = "";
    FILE *file;

    snprintf(path, sizeof(path), "%s/names.pt", folder);
    snprintf(name, sizeof(name), "%s.names", path);
    put_generation(ring, "a\n");
    put_generation(ring, "b\n");
    put_generation(ring, "c\n");
    snprintf(wanted, sizeof(wanted), X86_VPT_NAMES_HEAD "%d}\nb\nc\n", 2 * RING_SIZE);
    if (save_ring(ring, path) && (file = fopen(name, "r"))) {
        (void)!fread(found, 1, sizeof(found) - 1, file);
        fclose(file);
    }
    expect("a ring has the names of what it holds", strcmp(found, wanted) == 0);
    x86_vpt_ring_free(ring);
    remove_saved(path);
}

int main(void)
{
    char folder[] = "/tmp/vpt-threads-XXXXXX";

    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || !mkdtemp(folder)) {
        return EXIT_FAILURE;
    }
    test_slow_file();
    test_file_fails();
    test_end_amid();
    test_ring(folder);
    test_names(folder);
    rmdir(folder);
    printf("%u passed, %u failed\n", passed, failed);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
