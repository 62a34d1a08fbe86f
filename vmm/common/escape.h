/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text of others, as it may be shown on a terminal. Names in a trace, an ELF file, a perf.data or a
 * guest may hold anything: sequences that a terminal obeys, line feeds that begin a line which
 * looks like one of ours, marks that turn the order of letters around. Such bytes are shown as
 * \xNN.
 *
 * Shown as they are: printable ASCII, and letters in valid UTF-8. Shown as \xNN, byte by byte:
 * control characters (C0, DEL, C1), bytes that are no UTF-8, line and paragraph separators, and the
 * marks of bidirectional text. In JSON these are \uNNNN, which whoever parses it reads as the same
 * string; bytes that are no UTF-8 have no such form, and stand there as they are.
 */
#ifndef VMM_ESCAPE_H
#define VMM_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define ESCAPE_ROOM 1024u

/* Room for a text that has to be changed. */
struct escaped {
    char text[ESCAPE_ROOM];
};

/* Whether a text is shown as it is. */
bool is_plain(const char *text);
/* text itself if it is plain, as nearly all are; else the escaped one in room, cut off if need be.
 */
const char *escaped(const char *text, struct escaped *room);
/* The same of any length, to a file. */
void put_escaped(const char *text, FILE *to);
/* One word for a shell that takes it as it is, in single quotes. */
void put_quoted(const char *word, FILE *to);
/* A JSON text in which C0 is escaped already, as by json-c. */
void put_json_escaped(const char *json, FILE *to);

#endif
