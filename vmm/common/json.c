/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON, read and written with json-c. */
#include "common/json.h"
#include "common/escape.h"

#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

int64_t json_number(json_object *object, const char *key)
{
    json_object *value;

    return json_object_object_get_ex(object, key, &value) ? json_object_get_int64(value) : 0;
}

bool json_add(json_object *object, const char *key, json_object *value)
{
    if (object && value && json_object_object_add(object, key, value) == 0)
        return true;
    json_object_put(value);
    return false;
}

void json_add_number(json_object *object, const char *key, uint64_t value)
{
    (void)json_add(object, key, json_object_new_uint64(value));
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
    const char *const text = json_object_to_json_string_ext(object, flags);

    if (text) {
        put_json_escaped(text, stdout);
        (void)putchar('\n');
    }
    json_object_put(object);
}

char *json_text(json_object *object, int flags)
{
    const char *const raw = json_object_to_json_string_ext(object, flags);
    char *text = NULL;
    size_t len;
    FILE *const to = raw ? open_memstream(&text, &len) : NULL;

    if (!to)
        return NULL;
    put_json_escaped(raw, to);
    if (fclose(to) == 0)
        return text;
    free(text);
    return NULL;
}
