/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves virtual machines between two processors of a Linux host, while nothing else runs there.
 *
 *   mover TURNS PID PID      the first process goes on by itself for a while, then both do; at each
 *                            turn all threads of one of them go to the other processor; in the end
 *                            both are stopped. Status 0: all of that was done.
 *
 * It waits by counting, since the clock of an idle machine may leap.
 */
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define BEFORE UINT64_C(200000) /* counts: a log of what runs begins */
#define ALONE  UINT64_C(6000000)
#define TURN   UINT64_C(200000)
#define STOP   UINT64_C(1000000)
#define BEHIND UINT64_C(15000000) /* the log ends */

static volatile uint64_t counted;

static void wait_by_counting(uint64_t count)
{
    for (counted = 0; counted < count; counted++)
        ;
}

/* False: not all of its threads are there now. */
static bool move(int pid, int processor)
{
    char path[64];
    const struct dirent *entry;
    bool moved = true;
    cpu_set_t set;
    DIR *tasks;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
    tasks = opendir(path);
    if (!tasks)
        return false;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    while ((entry = readdir(tasks)))
        if (entry->d_name[0] != '.')
            moved =
                sched_setaffinity((pid_t)strtol(entry->d_name, NULL, 10), sizeof(set), &set) == 0 &&
                moved;
    (void)closedir(tasks);
    return moved;
}

int main(int argc, char **argv)
{
    const int turns = argc == 4 ? (int)strtol(argv[1], NULL, 10) : 0;
    int on[2] = {0, 1};
    bool ok = turns > 0;
    int pids[2];

    if (!ok) {
        (void)fprintf(stderr, "usage: mover TURNS PID PID\n");
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        pids[i] = (int)strtol(argv[2 + i], NULL, 10);
        ok = move(pids[i], on[i]) && ok;
    }
    wait_by_counting(BEFORE);
    ok = kill(pids[0], SIGCONT) == 0 && ok;
    wait_by_counting(ALONE);
    ok = kill(pids[1], SIGCONT) == 0 && ok;
    for (int turn = 0; turn < turns; turn++) {
        const int one = turn % 3 == 0; /* not in step: now on one processor, now on two */

        wait_by_counting(TURN);
        on[one] = !on[one];
        ok = move(pids[one], on[one]) && ok;
    }
    for (int i = 0; i < 2; i++)
        ok = kill(pids[i], SIGSTOP) == 0 && ok;
    wait_by_counting(STOP);
    (void)puts("stopped");
    (void)fflush(stdout);
    wait_by_counting(BEHIND);
    return ok ? 0 : 1;
}
