/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes a trace on one thread and on two, between loops that say what the machine is worth. */
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"
#include "threads.h"
#include "ways.h"

#define LOOP_TURNS  20000000u
#define ROUNDS_MAX  200
#define ROUNDS_MIN  15
#define QUIET       9    /* so many undisturbed rounds are enough */
#define QUIET_LEAST 5    /* fewer are too few */
#define QUIET_S     60.0 /* how long they are waited for, a trace */
#define WHOLE       0.97 /* of what a processor can do, if nobody shares its core */

/*
 * Nothing but computing, in registers, four things at a time: a core that two of them share is
 * about as fast as one of them. A single chain of instructions would not notice.
 */
static void *loop(void *unused)
{
    uint64_t a = 1, b = 2, c = 3, d = 4;

    for (unsigned i = 0; i < LOOP_TURNS; i++) {
        a ^= a << 13, b ^= b << 13, c ^= c << 13, d ^= d << 13;
        a ^= a >> 7, b ^= b >> 7, c ^= c >> 7, d ^= d >> 7;
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    }
    return unused;
}

static double time_loop(void)
{
    const double begin = now(CLOCK_MONOTONIC);

    (void)loop(NULL);
    return now(CLOCK_MONOTONIC) - begin;
}

/* NaN: there is no second thread. */
static double time_two_loops(void)
{
    const double begin = now(CLOCK_MONOTONIC);
    pthread_t other;

    if (pthread_create(&other, NULL, loop, NULL) != 0)
        return NAN;
    (void)loop(NULL);
    (void)pthread_join(other, NULL);
    return now(CLOCK_MONOTONIC) - begin;
}

/* Rounds of one thread, then two, with loops before, between and behind. */
struct rounds {
    double speedup[ROUNDS_MAX];
    double slowest_s[ROUNDS_MAX]; /* of the loops, on one or two processors */
    unsigned count;
};

/* The speedups of the rounds in which nothing disturbed: all loops had all they need. */
static unsigned quiet_speedups(const struct rounds *rounds, double least_s, double *speedups)
{
    unsigned quiet = 0;

    for (unsigned i = 0; i < rounds->count; i++)
        if (rounds->slowest_s[i] * WHOLE <= least_s)
            speedups[quiet++] = rounds->speedup[i];
    return quiet;
}

bool measure_threads(const struct trace *trace, struct threads *threads)
{
    static struct rounds rounds;
    static double loops[ROUNDS_MAX], quiet_speedup[ROUNDS_MAX];
    const uint64_t insns = trace->truth.insns;
    const double begin = now(CLOCK_MONOTONIC);
    double least = time_loop();
    unsigned quiet;

    rounds.count = 0;
    for (unsigned i = 1; i < ROUNDS_MIN; i++)
        least = fmin(least, time_loop());
    do {
        const double loop_s = time_loop();
        const double one_s = measure(run_one_thread, trace, insns, 1, CLOCK_MONOTONIC, "a thread");
        const double loop_behind_s = time_loop(), loops_s = time_two_loops();
        const double two_s =
            measure(run_two_threads, trace, insns, 1, CLOCK_MONOTONIC, "two threads");
        const double loops_behind_s = time_two_loops();

        if (isnan(one_s + two_s + loops_s + loops_behind_s))
            return false;
        rounds.speedup[rounds.count] = one_s / two_s;
        rounds.slowest_s[rounds.count] =
            fmax(fmax(loop_s, loop_behind_s), fmax(loops_s, loops_behind_s));
        loops[rounds.count++] = 2 * least / loops_s;
        least = fmin(least, fmin(loop_s, loop_behind_s));
        quiet = quiet_speedups(&rounds, least, quiet_speedup);
    } while (rounds.count < ROUNDS_MIN || (rounds.count < ROUNDS_MAX && quiet < QUIET &&
                                           now(CLOCK_MONOTONIC) - begin <= QUIET_S));
    threads->loops = median(loops, rounds.count);
    threads->quiet_rounds = quiet;
    threads->is_quiet = quiet >= QUIET_LEAST;
    threads->speedup_all = median(rounds.speedup, rounds.count);
    threads->speedup = threads->is_quiet ? median(quiet_speedup, quiet) : threads->speedup_all;
    return true;
}

double measure_memory(const struct trace *trace)
{
    struct rusage before, after;
    int status;

    (void)fflush(NULL);
    (void)malloc_trim(0);

    const pid_t child = fork();

    if (child == 0) {
        (void)getrusage(RUSAGE_SELF, &before);
        (void)run_two_threads(trace);
        (void)getrusage(RUSAGE_SELF, &after);

        const long MiB = (after.ru_maxrss - before.ru_maxrss) >> 10;

        _exit(MiB < 255 ? (int)MiB : 255); /* as far as a status can tell */
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return NAN;
    return WEXITSTATUS(status) * 1.048576;
}
