/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invariants of a trace, over every setting of the model (33.2 to 33.7).
 *
 * Random processors with random settings have random events, and from the packets alone it is put
 * together again what happened: each FUP belongs to something, TIP.PGE and TIP.PGD alternate,
 * RFLAGS.IF, CR3, mode, NR, VMCS and the path are what was told to the model, and nothing is lost
 * without an OVF.
 *
 * usage: invariants [--events N] [--seed S] [--only LIST]
 *   --events N   so many events in all (10,000,000), in runs of some 2,000
 *   --seed S     of the first run (1); the next run has the next seed
 *   --only LIST  one run, and of its events only these: 3,17-20,44
 * A run that fails is made short. What is printed then has the words to see it again.
 * Ends with 'N passed, N failed'.
 */
#include "roundtrip/invariants/peers.h"
#include "roundtrip/invariants/run.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_TRIES 4000u
#define WORDS      (1u << 16)

static struct run run; /* large, and one at a time */
static bool wanted[RUN_EVENTS];

/* Plays the wanted events up to the end. The event that fails; RUN_EVENTS: none does. */
static unsigned play(uint64_t seed, unsigned end)
{
    run_open(&run, seed);
    for (unsigned n = 0; n < end; n++)
        if (wanted[n] && !run_event(&run, n))
            return n;
    if (!run_close(&run))
        return end - 1;
    return RUN_EVENTS;
}

/* ---- A run that fails ----------------------------------------------------------------------- */

static void forget(unsigned from, unsigned to, bool *kept)
{
    memcpy(kept, wanted, sizeof(wanted));
    memset(wanted + from, 0, (to - from) * sizeof(*wanted));
}

/* Leaves out what the violation does not need: halves, quarters, down to single events. */
static unsigned shrink(uint64_t seed, unsigned end, const char *rule)
{
    static bool kept[RUN_EVENTS];
    unsigned tries = 0;

    for (unsigned size = end; size >= 1; size /= 2) {
        for (unsigned from = 0; from < end && tries < MOST_TRIES; from += size) {
            const unsigned to = from + size < end ? from + size : end;
            unsigned failed;

            if (!memchr(wanted + from, 1, to - from))
                continue;
            forget(from, to, kept);
            tries++;
            failed = play(seed, end + 1);
            if (failed == RUN_EVENTS || run.rebuilt.rule != rule)
                memcpy(wanted, kept, sizeof(wanted));
            else
                end = failed;
        }
    }
    return end;
}

static void print_wanted(unsigned end)
{
    const char *comma = "";

    for (unsigned n = 0; n <= end; n++) {
        const unsigned first = n;

        if (!wanted[n])
            continue;
        while (n < end && wanted[n + 1])
            n++;
        printf(first == n ? "%s%u" : "%s%u-%u", comma, first, n);
        comma = ",";
    }
}

static void print_last(void)
{
    static char words[WORDS];
    const unsigned first = run.said_count > LAST ? run.said_count - LAST : 0;

    for (unsigned i = first; i < run.said_count; i++) {
        const unsigned slot = i % LAST;
        const size_t gap_at = run.said[slot].gap_at, from = run.said[slot].from;
        const size_t to = i + 1 < run.said_count ? run.said[(i + 1) % LAST].from : run.trace_len;

        printf("  %4u  %s\n", run.said[slot].event, run.said[slot].text);
        if (to > from) {
            reader_text(run.trace + gap_at, to - gap_at, from - gap_at, true, words, sizeof(words));
            printf("        %.2000s\n", words);
        }
    }
}

static void report(uint64_t seed, unsigned failed)
{
    const char *const rule = run.rebuilt.rule;

    printf("FAILED: seed %" PRIu64 ", event %u: %s\n", seed, failed, run.rebuilt.why);
    failed = shrink(seed, failed, rule);
    run.saying = true;
    play(seed, failed + 1);
    run.saying = false;
    printf("made short: event %u: %s\n", failed, run.rebuilt.why);
    printf("RTIT_CTL %" PRIx64 ", CPUID.14H.0 EBX %x ECX %x, %u linear bits%s%s\n", run.truth.ctl,
           run.truth.caps.leaf14_0_ebx, run.truth.caps.leaf14_0_ecx, run.truth.caps.linear_bits,
           run.truth.caps.deferred_tips ? ", deferred TIPs" : "",
           run.truth.caps.long_tnt ? ", long TNT" : "");
    print_last();
    printf("again: build/tests/invariants --seed %" PRIu64 " --only ", seed);
    print_wanted(failed);
    printf("\n");
}

/* ---- All runs ------------------------------------------------------------------------------- */

static void progress(uint64_t done, uint64_t events)
{
    static uint64_t shown;

    if (!isatty(STDERR_FILENO) || done - shown < 1000000)
        return;
    shown = done;
    fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " million events", done / 1000000,
            events / 1000000);
}

/* How many runs failed: it stops at the first. */
static unsigned all_runs(uint64_t seed, uint64_t events)
{
    uint64_t done = 0, packets = 0, overflows = 0, psbs = 0, traced = 0;

    for (; done < events; seed++) {
        unsigned failed;

        memset(wanted, 1, sizeof(wanted));
        failed = play(seed, RUN_EVENTS);
        done += RUN_EVENTS;
        packets += run.rebuilt.packets;
        overflows += run.rebuilt.ovfs;
        psbs += run.rebuilt.psbs;
        traced += run.traced;
        if (run.rebuilt.wrong) {
            report(seed, failed);
            return 1;
        }
        progress(done, events);
    }
    printf("%" PRIu64 " events, %" PRIu64 " of them traced; %" PRIu64 " packets, %" PRIu64
           " PSBs, %" PRIu64 " overflows\n",
           done, traced, packets, psbs, overflows);
    peers_summary();
    return 0;
}

static bool read_list(const char *list)
{
    memset(wanted, 0, sizeof(wanted));
    while (*list) {
        char *end;
        unsigned long from = strtoul(list, &end, 10), to = from;

        if (end == list)
            return false;
        if (*end == '-')
            to = strtoul(end + 1, &end, 10);
        if (to < from || to >= RUN_EVENTS || (*end && *end != ','))
            return false;
        memset(wanted + from, 1, to - from + 1);
        list = *end ? end + 1 : end;
    }
    return true;
}

static unsigned one_run(uint64_t seed)
{
    unsigned failed;

    run.saying = true;
    failed = play(seed, RUN_EVENTS);
    print_last();
    if (run.rebuilt.wrong)
        printf("FAILED: event %u: %s\n", failed, run.rebuilt.why);
    return run.rebuilt.wrong;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"events", required_argument, NULL, 'e'},
        {"seed", required_argument, NULL, 's'},
        {"only", required_argument, NULL, 'o'},
        {NULL, 0, NULL, 0},
    };
    uint64_t events = 10000000, seed = 1;
    const char *only = NULL;
    unsigned failed;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'e')
            events = strtoull(optarg, NULL, 0);
        else if (option == 's')
            seed = strtoull(optarg, NULL, 0);
        else if (option == 'o')
            only = optarg;
        else
            return 2;
    }
    if (optind < argc || (only && !read_list(only))) {
        fprintf(stderr, "usage: invariants [--events N] [--seed S] [--only LIST]\n");
        return 2;
    }
    failed = only ? one_run(seed) : all_runs(seed, events);
    printf("%d passed, %u failed\n", !failed, failed);
    return failed != 0;
}
