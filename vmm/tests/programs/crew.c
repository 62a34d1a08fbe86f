/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program to be traced: threads with names of their own, a process that it makes, and a shared
 * library. It gets no signals and asks for no time.
 *
 *   crew                stops itself; then it ends, with status 0 if all have done their work
 *   crew ROUNDS         does it so often
 *   crew ROUNDS FILE    the same, then makes FILE, and stays
 */
#include "tools.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 16u
#define ALONE __attribute__((noinline))

/* tools.c has another function of this name. */
ALONE static unsigned spread(unsigned value)
{
    return value * 40503u + 7;
}

ALONE static unsigned choose(unsigned kind, unsigned value)
{
    switch (kind % 6) {
    case 0:
        return spread(value);
    case 1:
        return value ^ 0x5555;
    case 2:
        return tool_by_label(value & 31);
    case 3:
        return value << 3 | value >> 29;
    case 4:
        return tool_stir(value, kind);
    default:
        return value + 1;
    }
}

ALONE static void fill(unsigned *list, unsigned seed)
{
    for (unsigned i = 0; i < COUNT; i++) {
        seed = choose(i, seed);
        list[i] = seed;
    }
}

ALONE unsigned crew_sum(unsigned a, unsigned b)
{
    return a * 31 + b;
}

/* What each of them does, some more than others. */
ALONE static int work(unsigned share)
{
    unsigned list[COUNT] = {0}, copy[COUNT], sum = 0;

    for (unsigned i = 0; i < share; i++) {
        fill(list, share + i);
        memcpy(copy, list, sizeof(copy));
        tool_sort(list, COUNT);
        sum += tool_fold(list, COUNT, crew_sum) + tool_fold(copy, COUNT, tool_mix);
    }
    for (unsigned i = 1; i < COUNT; i++) {
        if (list[i - 1] > list[i])
            return 1;
    }
    return tool_fibonacci(5 + share) == 0 || sum == 0;
}

struct hand {
    const char *name;
    unsigned share;
};

static void *lend_hand(void *argument)
{
    const struct hand *const hand = argument;

    (void)prctl(PR_SET_NAME, hand->name);
    return (void *)(intptr_t)work(hand->share);
}

static int child(void)
{
    (void)prctl(PR_SET_NAME, "offspring");
    return work(1);
}

/* False: somebody failed. */
static bool all_work(void)
{
    struct hand hands[] = {{"left", 1}, {"right", 2}};
    pthread_t threads[2];
    int status = 0, failed = 0;
    const pid_t pid = fork();

    if (pid == 0)
        _exit(child());
    for (unsigned i = 0; i < 2; i++)
        failed += pthread_create(&threads[i], NULL, lend_hand, &hands[i]) != 0;
    failed += work(1);
    for (unsigned i = 0; i < 2; i++) {
        void *result = NULL;

        failed += pthread_join(threads[i], &result) != 0 || result;
    }
    failed += waitpid(pid, &status, 0) != pid || status != 0;
    return failed == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)kill(getpid(), SIGSTOP);
        return !all_work();
    }
    for (unsigned long i = strtoul(argv[1], NULL, 10); i > 0; i--) {
        if (!all_work())
            return 1;
    }
    if (argc < 3)
        return 0;
    if (open(argv[2], O_WRONLY | O_CREAT, 0600) < 0)
        return 1;
    for (;;)
        pause();
}
