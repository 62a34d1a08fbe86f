/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of a Linux guest whose processes and threads live for a moment, each under a name of
 * its own. Each says who it is: "ran PID TID NAME".
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 24u
#define THREADS  4u

static volatile uint64_t sum;

__attribute__((noinline)) static void add_up(uint64_t to)
{
    for (uint64_t i = 0; i < to; i++)
        sum += i;
}

static void tell(const char *name)
{
    char line[64];
    const int len =
        snprintf(line, sizeof(line), "ran %d %ld %s\n", getpid(), syscall(SYS_gettid), name);

    (void)!write(1, line, (size_t)len);
}

static void live(const char *kind, unsigned number)
{
    char name[16];

    (void)snprintf(name, sizeof(name), "%s-%u", kind, number);
    (void)prctl(PR_SET_NAME, name);
    add_up(2000);
    tell(name);
}

static void *thread_main(void *argument)
{
    live("thread", (unsigned)(uintptr_t)argument);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];

    tell("brief");
    for (unsigned i = 0; i < CHILDREN; i++) {
        const pid_t child = fork();

        if (child < 0)
            return 1;
        if (child == 0) {
            live("child", i);
            _exit(0);
        }
        (void)waitpid(child, NULL, 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, thread_main, (void *)(uintptr_t)i) != 0)
            return 1;
    for (unsigned i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    return 0;
}
