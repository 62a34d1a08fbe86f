/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ways that are taken, and others that are not: what vpt coverage says of its lines is compared
 * with what gcov counts.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static unsigned collatz(unsigned n)
{
    unsigned steps = 0;

    while (n != 1) {
        if (n % 2 == 0)
            n /= 2;
        else
            n = 3 * n + 1;
        steps++;
    }
    return steps;
}

static int choose(int which)
{
    switch (which) {
    case 0:
        return 7;
    case 1:
        return 9;
    case 2:
        return 11;
    default:
        break;
    }
    return which > 100 ? 1 : -1;
}

static int apply(int (*function)(int), int value)
{
    return function(value);
}

static int never(int value)
{
    return value + 1;
}

static unsigned all_ways(int count)
{
    unsigned sum = 0;

    for (unsigned i = 1; i < 30; i++)
        sum += collatz(i);
    for (int i = 0; i < 9; i++) {
        if (i == 2)
            continue;
        sum += (unsigned)apply(choose, i);
    }
    if (count > 5) {
        sum += (unsigned)never(count);
        printf("many\n");
    }
    do {
        sum /= 2;
    } while (sum > 3);
    return sum;
}

/* It is the last one: what of it comes before the stop is not traced. */
int main(int argc, char **argv)
{
    (void)argv;
    if (argc < 2)
        (void)kill(getpid(), SIGSTOP);
    return all_ways(3) == 1000;
}
