/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of a console to cases: see suite.h. */
#include "kit/suite.h"
#include "common/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CASES        100000u
#define MAX_DETAIL_BYTES 4096u
#define ESCAPE           '\033'

void kit_suite_begin(struct kit_suite *suite, const char *name)
{
    memset(suite, 0, sizeof(*suite));
    suite->name = name;
}

void kit_suite_free(struct kit_suite *suite)
{
    for (size_t i = 0; i < suite->count; i++) {
        free(suite->cases[i].name);
        free(suite->cases[i].reason);
        free(suite->cases[i].detail);
    }
    free(suite->cases);
    suite->cases = NULL;
    suite->count = suite->capacity = 0;
}

/* ---- Cases -------------------------------------------------------------------------------- */

/* Takes the texts over, in any case. */
static int add(struct kit_suite *suite, const struct kit_case *one)
{
    struct kit_case *const grown =
        list_grow(suite->cases, suite->count, &suite->capacity, sizeof(*grown));

    if (grown)
        suite->cases = grown;
    if (!grown || !one->name || !one->reason || !one->detail) {
        free(one->name);
        free(one->reason);
        free(one->detail);
        return -ENOMEM;
    }
    suite->cases[suite->count++] = *one;
    suite->counts[one->result]++;
    return 0;
}

static int add_texts(struct kit_suite *suite, enum kit_result result, const char *name,
                     size_t name_bytes, const char *reason, size_t reason_bytes)
{
    const struct kit_case one = {.result = result,
                                 .name = strndup(name, name_bytes),
                                 .reason = strndup(reason, reason_bytes),
                                 .detail = strdup("")};

    return add(suite, &one);
}

/* Where the group in parentheses begins that ends the text; NULL: it ends with none. */
static const char *last_group(const char *text)
{
    const char *at = text + strlen(text);
    unsigned depth = 0;

    if (at == text || at[-1] != ')')
        return NULL;
    while (at-- > text) {
        depth += *at == ')';
        depth -= *at == '(';
        if (!depth)
            return at > text && at[-1] == ' ' ? at : NULL;
    }
    return NULL;
}

/* What stands behind "PASS: " and the like. */
static int take_case(struct kit_suite *suite, enum kit_result result, const char *text)
{
    const char *const group = last_group(text);

    if (suite->count >= MAX_CASES) {
        suite->too_many = true;
        return 0;
    }
    if (group && (result == KIT_SKIP || (result == KIT_FAIL && !strncmp(group, "(got ", 5))))
        return add_texts(suite, result, text, (size_t)(group - 1 - text), group + 1,
                         strlen(group) - 2);
    return add_texts(suite, result, text, strlen(text), "", 0);
}

static int take_detail(struct kit_case *one, const char *text)
{
    const size_t had = strlen(one->detail), bytes = had + strlen(text) + 2;
    char *detail;

    if (bytes > MAX_DETAIL_BYTES)
        return 0;
    detail = realloc(one->detail, bytes);
    if (!detail)
        return -ENOMEM;
    snprintf(detail + had, bytes - had, "%s\n", text);
    one->detail = detail;
    return 0;
}

/* ---- Lines -------------------------------------------------------------------------------- */

static bool take_closing(struct kit_suite *suite, const char *line)
{
    size_t *const closing = suite->closing;
    int end = 0;

    closing[KIT_SKIP] = 0;
    if (sscanf(line, "%8zu passed, %8zu failed%n", &closing[KIT_PASS], &closing[KIT_FAIL], &end) !=
            2 ||
        !end)
        return false;
    line += end;
    end = 0;
    if (*line && (sscanf(line, ", %8zu skipped%n", &closing[KIT_SKIP], &end) != 1 || !end))
        return false;
    return line[end] == '\0';
}

static int take_line(struct kit_suite *suite, const char *line)
{
    static const char words[KIT_RESULTS][7] = {"PASS: ", "FAIL: ", "SKIP: "};
    struct kit_case *const last = suite->count ? &suite->cases[suite->count - 1] : NULL;

    if (suite->at_end)
        return 0;
    for (unsigned i = 0; i < KIT_RESULTS; i++) {
        if (strncmp(line, words[i], sizeof(words[i]) - 1) == 0)
            return take_case(suite, (enum kit_result)i, line + sizeof(words[i]) - 1);
    }
    if (take_closing(suite, line))
        suite->at_end = true;
    else if (strncmp(line, "    ", 4) == 0 && last && last->result == KIT_FAIL)
        return take_detail(last, line + 4);
    else if (*line)
        snprintf(suite->last, sizeof(suite->last), "%.*s", (int)sizeof(suite->last) - 1, line);
    return 0;
}

/* Takes out what a terminal obeys: ESC [ up to a letter, ESC and one more, control characters. */
static void make_plain(char *line)
{
    char *to = line;

    for (const char *from = line; *from; from++) {
        if (*from == ESCAPE && from[1] == '[') {
            from++;
            while (from[1] && (from[1] < '@' || from[1] > '~'))
                from++;
            from += from[1] != '\0';
        } else if (*from == ESCAPE) {
            from += from[1] != '\0';
        } else if (((unsigned char)*from >= ' ' && *from != 0x7f) || *from == '\t') {
            *to++ = *from;
        }
    }
    *to = '\0';
}

static int end_line(struct kit_suite *suite)
{
    suite->line[suite->line_bytes] = '\0';
    suite->line_bytes = 0;
    make_plain(suite->line);
    return take_line(suite, suite->line);
}

int kit_suite_read(struct kit_suite *suite, const char *bytes, size_t count)
{
    int error = 0;

    for (size_t i = 0; i < count && !error; i++) {
        if (bytes[i] == '\n')
            error = end_line(suite);
        else if (bytes[i] && suite->line_bytes + 1 < sizeof(suite->line))
            suite->line[suite->line_bytes++] = bytes[i];
    }
    return error;
}

bool kit_suite_at_end(const struct kit_suite *suite)
{
    return suite->at_end;
}

int kit_suite_end(struct kit_suite *suite, const char *why)
{
    const char *const name = "the suite comes to its end, and each of its cases is seen";
    const size_t *const closing = suite->closing, *const counts = suite->counts;
    int error = suite->line_bytes ? end_line(suite) : 0;
    char reason[512] = "";

    if (error)
        return error;
    if (suite->too_many)
        snprintf(reason, sizeof(reason), "it has more than %u cases", MAX_CASES);
    else if (!suite->at_end)
        snprintf(reason, sizeof(reason), "%s; %s%s", why ? why : "there is no closing line",
                 *suite->last ? "the last line that is no case: " : "there is no line but of cases",
                 suite->last);
    else if (memcmp(closing, counts, sizeof(suite->closing)) != 0)
        snprintf(reason, sizeof(reason),
                 "its closing line counts %zu passed, %zu failed, %zu skipped, and on the console "
                 "are %zu, %zu, %zu",
                 closing[KIT_PASS], closing[KIT_FAIL], closing[KIT_SKIP], counts[KIT_PASS],
                 counts[KIT_FAIL], counts[KIT_SKIP]);
    return *reason ? add_texts(suite, KIT_FAIL, name, strlen(name), reason, strlen(reason)) : 0;
}
