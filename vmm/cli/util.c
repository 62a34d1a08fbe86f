/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small things that every part of the program uses.
 */
#include "cli/vmm.h"

#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int complain(enum exit_code code, const char *format, ...)
{
    va_list args;

    (void)fflush(stdout);
    fputs("vpt: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return (int)code;
}

int file_error(const char *name, int error)
{
    return complain(error == -ENOMEM ? EXIT_CODE_HOST : EXIT_CODE_FILE, "%s: %s", name,
                    strerror(-error));
}

int no_memory(void)
{
    return complain(EXIT_CODE_HOST, "no memory");
}

int bad_option(int option, char *const *argv)
{
    if (option == ':')
        return complain(EXIT_CODE_USAGE, "%s needs a value", argv[optind - 1]);
    return complain(EXIT_CODE_USAGE, "unknown option %s; see vpt %s --help", argv[optind - 1],
                    argv[0]);
}

bool bytes_add(struct bytes *bytes, const void *data, size_t len)
{
    if (len == 0)
        return true;
    if (len > bytes->capacity - bytes->len) {
        size_t capacity = bytes->capacity ? bytes->capacity : 4096;
        uint8_t *grown;

        while (capacity - bytes->len < len) {
            if (capacity > SIZE_MAX / 2)
                return false;
            capacity *= 2;
        }
        grown = realloc(bytes->data, capacity);
        if (!grown)
            return false;
        bytes->data = grown;
        bytes->capacity = capacity;
    }
    memcpy(bytes->data + bytes->len, data, len);
    bytes->len += len;
    return true;
}

void bytes_free(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){0};
}

bool parse_number(const char *text, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, 0);
    return !errno && end != text && !*end && *text != '-';
}

bool parse_bytes(const char *text, int base, uint64_t max, const char **end_of, uint64_t *bytes)
{
    char *end;
    unsigned shift = 0;

    errno = 0;
    *bytes = strtoull(text, &end, base);
    if (errno || end == text || *text == '-')
        return false;
    if (*end == 'K' || *end == 'k')
        shift = 10;
    else if (*end == 'M' || *end == 'm')
        shift = 20;
    else if (*end == 'G' || *end == 'g')
        shift = 30;
    if (shift)
        end++;
    if (*bytes > max >> shift)
        return false;
    *bytes <<= shift;
    *end_of = end;
    return true;
}

int option_number(const char *option, const char *text, uint64_t *value)
{
    if (parse_number(text, value))
        return 0;
    return complain(EXIT_CODE_USAGE, "%s takes a number, not '%s'", option, text);
}

char *split_bias(const char *argument, uint64_t *bias)
{
    char *path = strdup(argument), *at = path ? strrchr(path, '@') : NULL;

    if (at && parse_number(at + 1, bias))
        *at = 0;
    else
        *bias = 0;
    return path;
}

int64_t json_number(json_object *object, const char *key)
{
    json_object *value;

    return json_object_object_get_ex(object, key, &value) ? json_object_get_int64(value) : 0;
}

void json_add_number(json_object *object, const char *key, uint64_t value)
{
    json_object_object_add(object, key, json_object_new_uint64(value));
}

json_object *json_parse(const char *text, size_t len, char *why, size_t why_bytes)
{
    json_tokener *const tokener = len <= INT_MAX ? json_tokener_new() : NULL;
    enum json_tokener_error error;
    json_object *value;

    snprintf(why, why_bytes, len <= INT_MAX ? "no memory" : "too long");
    if (!tokener)
        return NULL;
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    value = json_tokener_parse_ex(tokener, len ? text : "", (int)len);
    error = json_tokener_get_error(tokener);
    if (error == json_tokener_continue)
        snprintf(why, why_bytes, "not JSON: it ends too early");
    else if (error == json_tokener_success && !value)
        snprintf(why, why_bytes, "nothing but null");
    else if (error != json_tokener_success)
        snprintf(why, why_bytes, "not JSON, near byte %zu: %s", json_tokener_get_parse_end(tokener),
                 json_tokener_error_desc(error));
    json_tokener_free(tokener);
    if (error == json_tokener_success)
        return value;
    json_object_put(value);
    return NULL;
}

void json_print(json_object *object, int flags)
{
    puts(json_object_to_json_string_ext(object, flags));
    json_object_put(object);
}

void run_result_free(struct run_result *result)
{
    for (unsigned i = 0; i < MAX_CPUS; i++) {
        bytes_free(&result->cpus[i].trace);
        bytes_free(&result->cpus[i].handed);
        bytes_free(&result->cpus[i].path);
    }
}
