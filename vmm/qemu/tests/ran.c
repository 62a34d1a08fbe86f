/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares what `vpt decode` prints of one buffer, on standard input, with the log of execlog.c,
 * instruction by instruction. For traces whose code only vpt decode puts together (perf.data).
 *
 *   vpt decode PERF.DATA | ran LOG [TABLE]
 *
 * Each piece of the trace, from where tracing began to where it ended, has to stand as a whole in
 * the log, behind the piece before it. Between two instructions the log may have one more only
 * where the trace has an interrupt or exception: the one that began and did not retire. With a log
 * that begins amid the first piece, the part of that piece in front of the log's first address is
 * left out, and counted.
 */
#include "log.h"
#include "common/say.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IP_DIGITS 16
#define KERNEL    (UINT64_C(1) << 63)

struct insn {
    uint64_t ip;
    bool behind_event; /* an interrupt or exception stands in front of it */
};

struct piece {
    struct insn *insns;
    size_t count, room;
    size_t line; /* of its begin, in the input */
};

struct ran {
    struct log log;
    struct piece piece;
    size_t pos; /* in the log: behind the piece before */
    bool behind_event, begun;
    size_t line;
    uint64_t pieces, insns, kernel, attempts, left_out, errors;
};

static void add_insn(struct ran *ran, uint64_t ip)
{
    struct piece *const piece = &ran->piece;

    /* The log has an instruction that follows itself once. */
    if (piece->count && piece->insns[piece->count - 1].ip == ip)
        return;
    if (piece->count == piece->room) {
        piece->room = piece->room ? piece->room * 2 : 65536;
        piece->insns = reallocarray(piece->insns, piece->room, sizeof(*piece->insns));
        if (!piece->insns)
            abort();
    }
    if (!piece->count)
        piece->line = ran->line;
    piece->insns[piece->count++] = (struct insn){.ip = ip, .behind_event = ran->behind_event};
    ran->behind_event = false;
}

/* How many instructions from number first on are those of the log at *pos, which moves on. */
static size_t follow(struct ran *ran, size_t first, size_t *pos, uint64_t *attempts)
{
    const struct piece *const piece = &ran->piece;
    size_t i = first;

    *attempts = 0;
    for (; i < piece->count && log_has(&ran->log, *pos + 1); i++, (*pos)++) {
        const struct insn *const insn = &piece->insns[i];

        if (log_ip(&ran->log, *pos) == insn->ip)
            continue;
        if (!insn->behind_event || !log_has(&ran->log, *pos + 2) ||
            log_ip(&ran->log, *pos + 1) != insn->ip)
            break;
        (*pos)++;
        (*attempts)++;
    }
    return i - first;
}

/* Takes the instructions of the first piece that the log does not have. */
static size_t skip_unlogged(struct ran *ran)
{
    const struct piece *const piece = &ran->piece;
    size_t first = 0;

    if (ran->begun || !log_has(&ran->log, 1))
        return 0;
    while (first < piece->count && piece->insns[first].ip != log_ip(&ran->log, 0))
        first++;
    return first;
}

static void count_insns(struct ran *ran, size_t first)
{
    for (size_t i = first; i < ran->piece.count; i++)
        ran->kernel += (ran->piece.insns[i].ip & KERNEL) != 0;
    ran->insns += ran->piece.count - first;
}

/* The piece is at its end. False: it did not run. */
static bool end_piece(struct ran *ran)
{
    struct piece *const piece = &ran->piece;
    const size_t first = skip_unlogged(ran);
    size_t best = 0, best_pos = ran->pos;

    ran->behind_event = false;
    ran->left_out += first;
    if (first == piece->count) {
        piece->count = 0;
        return true;
    }
    for (size_t at = ran->pos; log_has(&ran->log, at + 1); at++) {
        size_t pos = at, same;
        uint64_t attempts;

        if (log_ip(&ran->log, at) != piece->insns[first].ip)
            continue;
        same = follow(ran, first, &pos, &attempts);
        if (first + same == piece->count) {
            count_insns(ran, first);
            ran->pieces++;
            ran->begun = true;
            ran->attempts += attempts;
            ran->pos = pos;
            log_forget(&ran->log, pos);
            piece->count = 0;
            return true;
        }
        if (same > best) {
            best = same;
            best_pos = pos;
        }
        if (!ran->begun)
            break; /* the first one is where the log begins */
    }
    printf("different: the piece of %zu instructions from line %zu on: at most %zu of them ran so; "
           "then decoded %#" PRIx64 ", executed %#" PRIx64 "\n",
           piece->count - first, piece->line, best, piece->insns[first + best].ip,
           log_has(&ran->log, best_pos + 1) ? log_ip(&ran->log, best_pos) : 0);
    return false;
}

static bool begins(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

static bool see_line(struct ran *ran, const char *line)
{
    char *behind;
    const uint64_t ip = strtoull(line, &behind, 16);

    ran->line++;
    if (behind == line + IP_DIGITS && *behind == ' ') {
        add_insn(ran, ip);
    } else if (begins(line, "  -- interrupt")) {
        ran->behind_event = true;
    } else if (begins(line, "error:")) {
        ran->errors++;
        fprintf(stderr, "ran: line %zu: %s", ran->line, line);
        return end_piece(ran);
    } else if (begins(line, "  -- enabled") || begins(line, "  -- disabled") ||
               begins(line, "  -- stop") || begins(line, "  -- overflow") ||
               begins(line, "-- buffer")) {
        return end_piece(ran);
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct ran ran;
    char *line = NULL;
    size_t room = 0;
    bool held = true;
    int error;

    if (argc != 2 && argc != 3)
        return complain(EXIT_CODE_USAGE, "usage: vpt decode PERF.DATA | ran LOG [TABLE]");
    error = log_open(&ran.log, argv[1], argv[2]);
    if (error)
        return complain(EXIT_CODE_FILE, "%s: %s", argv[1], strerror(-error));
    while (held && getline(&line, &room, stdin) > 0)
        held = see_line(&ran, line);
    held = held && end_piece(&ran);
    printf("%" PRIu64 " instructions ran, %" PRIu64 " of them kernel code, in %" PRIu64 " pieces, "
           "%" PRIu64 " begun and not retired, %" PRIu64 " in front of the log, %" PRIu64
           " errors\n",
           ran.insns, ran.kernel, ran.pieces, ran.attempts, ran.left_out, ran.errors);
    free(line);
    free(ran.piece.insns);
    log_close(&ran.log);
    if (!held)
        return EXIT_CODE_MISMATCH;
    return ran.errors || !ran.insns ? EXIT_CODE_FILE : EXIT_CODE_OK;
}
