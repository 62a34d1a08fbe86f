/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/signals.h"

volatile sig_atomic_t signals_end, signals_save;

static void end(int number)
{
    (void)number;
    signals_end = 1;
}

static void save(int number)
{
    (void)number;
    signals_save = 1;
}

static void handle(int number, void (*handler)(int))
{
    const struct sigaction action = {.sa_handler = handler};

    (void)sigaction(number, &action, NULL);
}

void signals_listen(bool ring)
{
    struct sigaction hangup;

    handle(SIGINT, end);
    handle(SIGTERM, end);
    if (sigaction(SIGHUP, NULL, &hangup) || hangup.sa_handler != SIG_IGN) /* else: nohup */
        handle(SIGHUP, end);
    if (ring)
        handle(SIGUSR2, save);
}
