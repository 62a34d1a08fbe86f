/* SPDX-License-Identifier: BSD-3-Clause */
/* Text of others, as it may be shown on a terminal. */
#include "common/escape.h"

#include <stdint.h>
#include <string.h>

#define ESCAPE_BYTES 4u /* \xNN */

/* The lowest character that so many bytes may hold: what is lower has a shorter form. */
static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};

/* How many bytes a character has by its first; 0: it is none. */
static size_t sequence_bytes(uint8_t first)
{
    return first < 0x80             ? 1
           : (first & 0xe0) == 0xc0 ? 2
           : (first & 0xf0) == 0xe0 ? 3
           : (first & 0xf8) == 0xf0 ? 4
                                    : 0;
}

static bool is_shown(uint32_t character)
{
    if (character < 0x20 || (character >= 0x7f && character <= 0x9f))
        return false;
    if (character == 0x061c || character == 0x200e || character == 0x200f) /* ALM, LRM, RLM */
        return false;
    if (character >= 0x2028 && character <= 0x202e) /* separators; LRE to RLO */
        return false;
    return character < 0x2066 || character > 0x2069; /* LRI to PDI */
}

/* The character at text, and how many bytes it has; 0: this is no UTF-8. */
static size_t decode(const char *text, uint32_t *character)
{
    const uint8_t *const bytes = (const uint8_t *)text;
    const size_t count = sequence_bytes(bytes[0]);
    uint32_t found = count > 1 ? bytes[0] & (0x7fu >> count) : bytes[0];

    for (size_t i = 1; i < count; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        found = found << 6 | (bytes[i] & 0x3fu);
    }
    if (count == 0 || found < lowest[count] || found > 0x10ffff ||
        (found >= 0xd800 && found <= 0xdfff))
        return 0;
    *character = found;
    return count;
}

/* The bytes of the character at text if it is shown as it is; 0: it is not. */
static size_t shown_bytes(const char *text)
{
    uint32_t character = 0;
    const size_t count = decode(text, &character);

    return count && is_shown(character) ? count : 0;
}

/* The first byte that is not printable ASCII. */
static const char *skip_ascii(const char *text)
{
    while (*text >= 0x20 && *text < 0x7f)
        text++;
    return text;
}

bool is_plain(const char *text)
{
    size_t bytes;

    for (text = skip_ascii(text); *text; text = skip_ascii(text + bytes)) {
        bytes = shown_bytes(text);
        if (bytes == 0)
            return false;
    }
    return true;
}

/* The next character of text, as it is shown, with its end: up to ESCAPE_BYTES. */
static const char *next(const char *text, char *shown)
{
    const size_t bytes = shown_bytes(text);

    if (bytes == 0) {
        (void)snprintf(shown, ESCAPE_BYTES + 1, "\\x%02x", (unsigned)(uint8_t)*text);
        return text + 1;
    }
    memcpy(shown, text, bytes);
    shown[bytes] = '\0';
    return text + bytes;
}

const char *escaped(const char *text, struct escaped *room)
{
    size_t used = 0;

    if (is_plain(text))
        return text;
    while (*text && used + ESCAPE_BYTES < sizeof(room->text)) {
        text = next(text, room->text + used);
        used += strlen(room->text + used);
    }
    return room->text;
}

void put_escaped(const char *text, FILE *to)
{
    char shown[ESCAPE_BYTES + 1];

    if (is_plain(text)) {
        (void)fputs(text, to);
        return;
    }
    while (*text) {
        text = next(text, shown);
        (void)fputs(shown, to);
    }
}

void put_json_escaped(const char *json, FILE *to)
{
    while (*json) {
        const char *plain = json;
        uint32_t character = 0;
        size_t count;

        while (*plain && (uint8_t)*plain < 0x7f)
            plain++;
        (void)fwrite(json, 1, (size_t)(plain - json), to);
        json = plain;
        if (!*json)
            return;
        count = decode(json, &character);
        if (count && !is_shown(character))
            (void)fprintf(to, "\\u%04x", (unsigned)character);
        else
            (void)fwrite(json, 1, count ? count : 1, to);
        json += count ? count : 1;
    }
}

void put_quoted(const char *word, FILE *to)
{
    fputc('\'', to);
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", to);
        else
            fputc(*word, to);
    }
    fputc('\'', to);
}
