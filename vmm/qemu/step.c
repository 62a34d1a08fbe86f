/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tracing by single-step costs: a client of QEMU's gdbstub (GDB's remote protocol) that runs a
 * guest up to an address, steps from there, and asks after each step where the guest is, as
 * whoever wants the path has to.
 *
 *   step SOCKET ADDRESS STEPS
 *
 * prints how many seconds of processor time the steps took, QEMU's and its own.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PACKET_BYTES     4096
#define CONNECT_ATTEMPTS 500
#define CONNECT_PAUSE_NS 20000000
#define ANSWER_S         120
#define RIP              "p10" /* number 10H among the registers of x86-64 */
/* QEMU answers p only after this. */
#define DESCRIPTION "qXfer:features:read:target.xml:0,ff"

static int stub;
static clockid_t stub_clock;

static void fail(const char *what)
{
    fprintf(stderr, "step: %s\n", what);
    exit(EXIT_FAILURE);
}

static double seconds(clockid_t clock)
{
    struct timespec time;

    if (clock_gettime(clock, &time) != 0)
        fail("QEMU's processor time is not to be had");
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double processor_time(void)
{
    return seconds(stub_clock) + seconds(CLOCK_PROCESS_CPUTIME_ID);
}

/* QEMU may not have made its socket yet. */
static bool connect_socket(const char *path)
{
    const struct timespec pause = {.tv_nsec = CONNECT_PAUSE_NS};
    const struct timeval patience = {.tv_sec = ANSWER_S};
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(address.sun_path))
        return false;
    memcpy(address.sun_path, path, strlen(path) + 1);
    for (unsigned i = 0; i < CONNECT_ATTEMPTS; i++) {
        stub = socket(AF_UNIX, SOCK_STREAM, 0);
        if (stub < 0)
            return false;
        if (connect(stub, (const struct sockaddr *)&address, sizeof(address)) == 0)
            return setsockopt(stub, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0;
        close(stub);
        nanosleep(&pause, NULL);
    }
    return false;
}

static void connect_stub(const char *path)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (!connect_socket(path))
        fail(strerror(errno));
    if (getsockopt(stub, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 ||
        clock_getcpuclockid(peer.pid, &stub_clock) != 0)
        fail("who listens is not known");
}

/* ---- Packets: $TEXT#SUM, each acknowledged by + ---- */

/* Acknowledges the last answer, too. */
static void put_packet(const char *text)
{
    char packet[PACKET_BYTES];
    uint8_t sum = 0;
    int len;

    for (const char *c = text; *c; c++)
        sum += (uint8_t)*c;
    len = snprintf(packet, sizeof(packet), "+$%s#%02x", text, sum);
    if (send(stub, packet, (size_t)len, MSG_NOSIGNAL) != len)
        fail("QEMU is gone");
}

static char get_byte(void)
{
    static char bytes[PACKET_BYTES];
    static size_t next, end;

    if (next == end) {
        const ssize_t len = recv(stub, bytes, sizeof(bytes), 0);

        if (len <= 0)
            fail(len == 0 ? "QEMU ended" : "QEMU does not answer");
        next = 0;
        end = (size_t)len;
    }
    return bytes[next++];
}

static void get_packet(char text[PACKET_BYTES])
{
    size_t len = 0;
    char byte;

    while (get_byte() != '$')
        ;
    while ((byte = get_byte()) != '#') {
        if (len == PACKET_BYTES - 1)
            fail("an answer is too long");
        text[len++] = byte;
    }
    text[len] = '\0';
    (void)get_byte(); /* a socket loses nothing: the sum need not be looked at */
    (void)get_byte();
}

/* ---- Commands ---- */

static void ask(const char *command, char answer[PACKET_BYTES])
{
    put_packet(command);
    get_packet(answer);
}

static void expect(const char *command, const char *begins)
{
    char answer[PACKET_BYTES];

    ask(command, answer);
    if (strncmp(answer, begins, strlen(begins)) != 0) {
        fprintf(stderr, "step: to %s, QEMU says %s\n", command, answer);
        exit(EXIT_FAILURE);
    }
}

static uint64_t where(void)
{
    char answer[PACKET_BYTES], *end;
    uint64_t ip;

    ask(RIP, answer);
    ip = strtoull(answer, &end, 16);
    if (end != answer + 16)
        fail("RIP is not 16 digits");
    return __builtin_bswap64(ip); /* in the target's order of bytes */
}

static void run_to(uint64_t address)
{
    char text[64];

    snprintf(text, sizeof(text), "Z1,%" PRIx64 ",1", address);
    expect(text, "OK");
    expect("c", "T05");
    text[0] = 'z';
    expect(text, "OK");
    if (where() != address)
        fail("the guest stopped elsewhere");
}

int main(int argc, char **argv)
{
    const uint64_t address = argc == 4 ? strtoull(argv[2], NULL, 16) : 0;
    const unsigned long steps = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    uint64_t ip = address;
    double begin;

    if (!steps) {
        fprintf(stderr, "usage: step SOCKET ADDRESS STEPS\n");
        return 2;
    }
    connect_stub(argv[1]);
    expect(DESCRIPTION, "");
    run_to(address);
    begin = processor_time();
    for (unsigned long i = 0; i < steps; i++) {
        const uint64_t before = ip;

        expect("s", "T05");
        ip = where();
        if (i == 0 && ip == before)
            fail("a step leads nowhere");
    }
    printf("%.6f\n", processor_time() - begin);
    put_packet("k");
    return EXIT_SUCCESS;
}
