/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of C++ and Rust, by libiberty. A name may refer to parts of itself, so that a short one can
 * stand for one of any length: libiberty hands a text over piece by piece, and is left where there
 * is no more room.
 */
#include "symbols/demangle.h"
#include "common/table.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_MAX 16384u

/* ---- One name ---- */

#ifdef VPT_LIBIBERTY

#include <libiberty/demangle.h>

struct sink {
    char *text;
    size_t len;
    jmp_buf is_full;
};

static void take(const char *piece, size_t len, void *of)
{
    struct sink *const sink = of;

    if (len >= DEMANGLED_MAX - sink->len)
        longjmp(sink->is_full, 1);
    if (len > 0) /* else there may be no piece */
        memcpy(sink->text + sink->len, piece, len);
    sink->len += len;
}

static bool is_ascii(const char *piece, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)piece[i] >= 0x80)
            return false;
    return true;
}

/*
 * An identifier of Rust that is not ASCII is one piece, which libiberty allocates and frees behind
 * the call: it is left at the sign behind it.
 */
static void take_rust(const char *piece, size_t len, void *of)
{
    struct sink *const sink = of;

    if (len >= DEMANGLED_MAX - sink->len && !is_ascii(piece, len))
        sink->len = DEMANGLED_MAX;
    else
        take(piece, len, of);
}

/* A symbol of Rust may look like one of C++, so that it is asked for first. */
static bool demangle_whole(const char *name, struct sink *sink)
{
    if (setjmp(sink->is_full) != 0)
        return false;
    sink->len = 0;
    if (rust_demangle_callback(name, DMGL_PARAMS | DMGL_ANSI, take_rust, sink))
        return sink->len < DEMANGLED_MAX;
    sink->len = 0;
    return cplus_demangle_v3_callback(name, DMGL_PARAMS | DMGL_ANSI, take, sink);
}

bool demangle_is_there(void)
{
    return true;
}

/* Behind an @ stands what is not a part of the mangled name: a version, or that it is of a PLT. */
bool demangle(const char *name, char text[DEMANGLED_MAX])
{
    const size_t len = strnlen(name, MANGLED_MAX);
    const char *const tail = strchrnul(name, '@');
    struct sink sink = {.text = text};
    char head[MANGLED_MAX];

    if (name[0] != '_' || len == MANGLED_MAX)
        return false;
    memcpy(head, name, (size_t)(tail - name));
    head[tail - name] = 0;
    if (!demangle_whole(head, &sink) || sink.len == 0 || strlen(tail) >= DEMANGLED_MAX - sink.len)
        return false;
    memcpy(text + sink.len, tail, strlen(tail) + 1);
    return true;
}

#else

bool demangle_is_there(void)
{
    return false;
}

bool demangle(const char *name, char text[DEMANGLED_MAX])
{
    (void)name;
    (void)text;
    return false;
}

#endif

/* ---- Names that are kept ---- */

struct shown_names {
    struct names names;    /* mangled */
    char *texts[KEPT_MAX]; /* of each, what it stands for; NULL: itself */
};

struct shown_names *shown_names_new(void)
{
    return calloc(1, sizeof(struct shown_names));
}

static void forget(struct shown_names *names)
{
    for (size_t i = 0; i < names->names.count; i++) {
        free(names->texts[i]);
        names->texts[i] = NULL;
    }
    names_free(&names->names);
}

void shown_names_free(struct shown_names *names)
{
    if (names)
        forget(names);
    free(names);
}

/* The number of a name; UINT32_MAX: no memory. */
static uint32_t keep(struct shown_names *names, const char *name)
{
    const size_t known = names->names.count;
    const uint32_t number = names_add(&names->names, name);
    char text[DEMANGLED_MAX];

    if (number != UINT32_MAX && number == known && demangle(name, text))
        names->texts[number] = strdup(text);
    return number;
}

const char *shown_name(struct shown_names *names, const char *name)
{
    uint32_t number;

    /* Other names cost no more than this. */
    if (!names || !name || name[0] != '_' || (name[1] != 'Z' && name[1] != 'R') ||
        strnlen(name, MANGLED_MAX) == MANGLED_MAX)
        return name;
    if (names->names.count == KEPT_MAX)
        forget(names);
    number = keep(names, name);
    return number != UINT32_MAX && names->texts[number] ? names->texts[number] : name;
}
