/* SPDX-License-Identifier: BSD-3-Clause */
/* Forms of what suites came to: see out.h. Text of a guest is hostile in each of them. */
#include "kit/out.h"
#include "common/escape.h"
#include "common/json.h"
#include "kit/rules.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

const char *const kit_format_names[KIT_FORMATS] = {"text", "tap", "junit", "json"};

static const char *const words[KIT_RESULTS] = {"PASS", "FAIL", "SKIP"};
static const char *const members[KIT_RESULTS] = {"passed", "failed", "skipped"};

/* ---- Text --------------------------------------------------------------------------------- */

/* Each line of a text behind so many spaces. */
static void put_lines(const char *text, const char *before, FILE *to)
{
    struct escaped room;

    while (*text) {
        const size_t len = strcspn(text, "\n");
        char line[ESCAPE_ROOM / 4];

        snprintf(line, sizeof(line), "%.*s", (int)len, text);
        fprintf(to, "%s%s\n", before, escaped(line, &room));
        text += len + (text[len] == '\n');
    }
}

static void put_text(const struct kit_out *out, const char *suite, const struct kit_case *one)
{
    const struct kit_rule *rule;

    if (one->result != KIT_FAIL && !out->all)
        return;
    fprintf(out->to, "%s: %s: ", words[one->result], suite);
    put_escaped(one->name, out->to);
    if (*one->reason) {
        fputs(" (", out->to);
        put_escaped(one->reason, out->to);
        fputc(')', out->to);
    }
    fputc('\n', out->to);
    if (one->result != KIT_FAIL)
        return;
    put_lines(one->detail, "      ", out->to);
    rule = kit_rule_of(suite, one->name);
    if (rule)
        fprintf(out->to, "      %s: %s\n", rule->name, rule->text);
}

static void put_counts(FILE *to, const size_t counts[KIT_RESULTS])
{
    fprintf(to, "%zu passed, %zu failed", counts[KIT_PASS], counts[KIT_FAIL]);
    if (counts[KIT_SKIP])
        fprintf(to, ", %zu skipped", counts[KIT_SKIP]);
}

/* ---- TAP 13 ------------------------------------------------------------------------------- */

/* A # begins a directive, so it has a \ before it, and so has that. */
static void put_tap_words(const char *text, FILE *to)
{
    char one[2] = "";

    for (; *text; text++) {
        if (*text == '#' || *text == '\\')
            fputc('\\', to);
        if ((unsigned char)*text >= 0x80) {
            fprintf(to, "x%02x", (unsigned char)*text);
            continue;
        }
        one[0] = *text;
        put_escaped(one, to);
    }
}

/* A scalar of YAML in double quotes. */
static void put_yaml(const char *key, const char *text, FILE *to)
{
    fprintf(to, "  %s: \"", key);
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", to);
        else if (c < ' ' || c >= 0x7f)
            fprintf(to, "\\x%02x", c);
        else
            fputc(c, to);
    }
    fputs("\"\n", to);
}

static void put_tap(struct kit_out *out, const char *suite, const struct kit_case *one, size_t id)
{
    const struct kit_rule *rule;
    FILE *const to = out->to;

    fprintf(to, "%sok %zu - %s: ", one->result == KIT_FAIL ? "not " : "", id, suite);
    put_tap_words(one->name, to);
    if (one->result == KIT_SKIP) {
        fputs(" # SKIP ", to);
        put_tap_words(one->reason, to);
    }
    fputc('\n', to);
    if (one->result != KIT_FAIL)
        return;
    fputs("  ---\n", to);
    put_yaml("message", one->reason, to);
    if (*one->detail)
        put_yaml("detail", one->detail, to);
    rule = kit_rule_of(suite, one->name);
    if (rule) {
        put_yaml("rule", rule->name, to);
        put_yaml("explanation", rule->text, to);
    }
    fputs("  ...\n", to);
}

/* ---- JUnit -------------------------------------------------------------------------------- */

/* XML has no control characters, not even escaped. What is not ASCII stands as ? in its place. */
static void put_xml(const char *text, FILE *to)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;

        if (c == '&')
            fputs("&amp;", to);
        else if (c == '<')
            fputs("&lt;", to);
        else if (c == '>')
            fputs("&gt;", to);
        else if (c == '"')
            fputs("&quot;", to);
        else if (c == '\n')
            fputs("&#10;", to);
        else
            fputc((c < ' ' && c != '\t') || c >= 0x7f ? '?' : c, to);
    }
}

static void put_junit_case(FILE *to, const char *suite, const struct kit_case *one)
{
    const struct kit_rule *rule;

    fprintf(to, "    <testcase classname=\"%s\" name=\"", suite);
    put_xml(one->name, to);
    if (one->result == KIT_PASS) {
        fputs("\"/>\n", to);
        return;
    }
    fprintf(to, "\">\n      <%s message=\"", one->result == KIT_FAIL ? "failure" : "skipped");
    put_xml(one->reason, to);
    if (one->result == KIT_SKIP) {
        fputs("\"/>\n    </testcase>\n", to);
        return;
    }
    fputs("\">", to);
    put_xml(one->detail, to);
    rule = kit_rule_of(suite, one->name);
    if (rule) {
        put_xml(rule->name, to);
        fputs(": ", to);
        put_xml(rule->text, to);
    }
    fputs("</failure>\n    </testcase>\n", to);
}

static void put_junit(FILE *to, const struct kit_suite *suite)
{
    fprintf(to,
            "  <testsuite name=\"%s\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\" "
            "time=\"%.3f\">\n",
            suite->name, suite->count, suite->counts[KIT_FAIL], suite->counts[KIT_SKIP],
            suite->seconds);
    for (size_t i = 0; i < suite->count; i++)
        put_junit_case(to, suite->name, &suite->cases[i]);
    fputs("  </testsuite>\n", to);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static bool add_text(struct json_object *object, const char *key, const char *text)
{
    return !*text || json_add(object, key, json_object_new_string(text));
}

static struct json_object *json_of_case(const char *suite, const struct kit_case *one)
{
    const struct kit_rule *const rule =
        one->result == KIT_FAIL ? kit_rule_of(suite, one->name) : NULL;
    struct json_object *const object = json_object_new_object();

    if (object && add_text(object, "result", words[one->result]) &&
        add_text(object, "name", one->name) && add_text(object, "reason", one->reason) &&
        add_text(object, "detail", one->detail) &&
        (!rule ||
         (add_text(object, "rule", rule->name) && add_text(object, "explanation", rule->text))))
        return object;
    json_object_put(object);
    return NULL;
}

/* One line, of one suite. */
static bool put_json(FILE *to, const struct kit_suite *suite)
{
    struct json_object *const object = json_object_new_object();
    struct json_object *const cases = json_object_new_array();
    bool whole = object && json_add(object, "suite", json_object_new_string(suite->name)) && cases;
    char *text = NULL;

    for (size_t i = 0; whole && i < KIT_RESULTS; i++)
        whole = json_add(object, members[i], json_object_new_uint64(suite->counts[i]));
    whole = whole && json_add(object, "seconds", json_object_new_double(suite->seconds));
    for (size_t i = 0; whole && i < suite->count; i++) {
        struct json_object *const one = json_of_case(suite->name, &suite->cases[i]);

        whole = one && json_object_array_add(cases, one) == 0;
    }
    if (!whole)
        json_object_put(cases);
    else if (json_add(object, "cases", cases))
        text = json_text(object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    if (text) {
        put_json_escaped(text, to);
        fputc('\n', to);
    }
    free(text);
    json_object_put(object);
    return text != NULL;
}

/* ---- A run -------------------------------------------------------------------------------- */

void kit_out_begin(struct kit_out *out, FILE *to, enum kit_format format, bool all)
{
    *out = (struct kit_out){.to = to, .format = format, .all = all};
    if (format == KIT_TAP)
        fputs("TAP version 13\n", to);
    else if (format == KIT_JUNIT)
        fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"vpt\">\n", to);
}

void kit_out_suite(struct kit_out *out, const struct kit_suite *suite)
{
    size_t id = out->counts[KIT_PASS] + out->counts[KIT_FAIL] + out->counts[KIT_SKIP];

    if (out->format == KIT_JUNIT)
        put_junit(out->to, suite);
    else if (out->format == KIT_JSON)
        out->failed |= !put_json(out->to, suite);
    for (size_t i = 0; i < suite->count; i++) {
        if (out->format == KIT_TAP)
            put_tap(out, suite->name, &suite->cases[i], ++id);
        else if (out->format == KIT_TEXT)
            put_text(out, suite->name, &suite->cases[i]);
    }
    if (out->format == KIT_TEXT) {
        fprintf(out->to, "%s: ", suite->name);
        put_counts(out->to, suite->counts);
        fputc('\n', out->to);
    }
    fflush(out->to);
    for (size_t i = 0; i < KIT_RESULTS; i++)
        out->counts[i] += suite->counts[i];
    out->suites++;
}

int kit_out_end(struct kit_out *out)
{
    const size_t *const counts = out->counts;

    if (out->format == KIT_TAP) {
        fprintf(out->to, "1..%zu\n", counts[KIT_PASS] + counts[KIT_FAIL] + counts[KIT_SKIP]);
    } else if (out->format == KIT_JUNIT) {
        fputs("</testsuites>\n", out->to);
    } else if (out->format == KIT_TEXT && out->suites > 1) {
        put_counts(out->to, counts);
        fputc('\n', out->to);
    }
    if (out->failed)
        return -ENOMEM;
    return fflush(out->to) != 0 || ferror(out->to) ? -EIO : 0;
}
