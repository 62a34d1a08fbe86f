/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of a Linux guest that has something to be named: a thread of another name, which works,
 * a BPF program, and libraries. It makes the file that it is told of, and goes on for ever.
 */
#include <fcntl.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile uint64_t sum;

__attribute__((noinline)) static void add_up(uint64_t to)
{
    for (uint64_t i = 0; i < to; i++)
        sum += i;
}

static void *work(void *argument)
{
    (void)pthread_setname_np(pthread_self(), "worker");
    for (;;) {
        add_up(10000);
        (void)syscall(SYS_getppid);
    }
    return argument;
}

/* "return 0;", as a filter of sockets. */
static int load_bpf(void)
{
    static const struct bpf_insn program[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr attributes = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
                                 .insns = (uintptr_t)program,
                                 .insn_cnt = 2,
                                 .license = (uintptr_t) "BSD",
                                 .prog_name = "named"};

    return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof(attributes));
}

int main(int argc, char **argv)
{
    pthread_t thread;

    if (argc != 2 || load_bpf() < 0 || pthread_create(&thread, NULL, work, NULL) != 0 ||
        open(argv[1], O_WRONLY | O_CREAT, 0600) < 0) {
        perror("named");
        return 1;
    }
    for (;;)
        (void)pause();
}
