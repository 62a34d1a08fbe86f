/* SPDX-License-Identifier: BSD-3-Clause */
/* How far long work has come, as one line on a terminal. */
#include "common/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL_MS 100
#define LOOK_BYTES  4096u /* that pass before the clock is looked at again */
#define KB          1000u
#define MB          1000000u

struct progress_state progress_state;

static struct {
    const char *what;
    uint64_t total;
    int64_t shown_ms;
    bool is_shown;
    bool in_line; /* of the guest */
} line;

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void progress_clear(void)
{
    if (line.is_shown)
        (void)fputs("\r\033[K", stderr);
    line.is_shown = false;
}

/* Whether what goes to standard output never comes to a terminal. */
static bool output_is_apart(void)
{
    struct stat status;

    return fstat(STDOUT_FILENO, &status) == 0 && !S_ISFIFO(status.st_mode) &&
           !S_ISSOCK(status.st_mode) && !isatty(STDOUT_FILENO);
}

static uint64_t percent(uint64_t done)
{
    return done >= line.total ? 100 : (uint64_t)(100.0 * (double)done / (double)line.total);
}

static void show(void)
{
    const bool is_small = line.total < 10 * MB && progress_state.done < 10 * MB;
    const uint64_t unit = is_small ? KB : MB, done = progress_state.done;
    const char *const name = is_small ? "kB" : "MB";

    progress_clear();
    if (line.total)
        (void)fprintf(stderr, "vpt: %s: %" PRIu64 " of %" PRIu64 " %s, %" PRIu64 " %%", line.what,
                      done / unit, line.total / unit, name, percent(done));
    else
        (void)fprintf(stderr, "vpt: %s: %" PRIu64 " %s", line.what, done / unit, name);
    line.is_shown = true;
    line.shown_ms = now_ms();
}

void progress_begin(const char *what, uint64_t total_bytes, enum progress_beside beside)
{
    progress_state = (struct progress_state){0};
    if (!isatty(STDERR_FILENO) || (beside == PROGRESS_BESIDE_LINES && !output_is_apart()))
        return;
    progress_state.is_on = true;
    progress_state.next = LOOK_BYTES;
    line.what = what;
    line.total = total_bytes;
    show();
}

void progress_update(void)
{
    progress_state.next = progress_state.done + LOOK_BYTES;
    if (now_ms() - line.shown_ms >= INTERVAL_MS)
        show();
}

void progress_end(void)
{
    progress_clear();
    progress_state.is_on = false;
}

void progress_say(const char *format, ...)
{
    va_list args;

    if (!isatty(STDERR_FILENO) || line.in_line)
        return;
    progress_clear();
    (void)fputs("vpt: ", stderr);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    line.is_shown = true;
}

void progress_guest(FILE *to, char printed)
{
    static int on_terminal = -1;

    if (on_terminal < 0)
        on_terminal = isatty(fileno(to));
    progress_clear();
    line.in_line = on_terminal && printed != '\n';
}
