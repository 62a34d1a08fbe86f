/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON, read and written with json-c.
 */
#ifndef VMM_JSON_H
#define VMM_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;
/* A member that is a number; 0 if there is none. */
int64_t json_number(struct json_object *object, const char *key);
/* Takes value over, in any case. False: no memory, for value or for the object either. */
bool json_add(struct json_object *object, const char *key, struct json_object *value);
void json_add_number(struct json_object *object, const char *key, uint64_t value);
/* A text that is one JSON value, to be put. NULL, and in why what is wrong. */
struct json_object *json_parse(const char *text, size_t len, char *why, size_t why_bytes);
/* Prints it, with json-c's flags and a newline, and frees it. A terminal may show it (escape.h). */
void json_print(struct json_object *object, int flags);
/* The same as a text of malloc(); the object stays. NULL: no memory. */
char *json_text(struct json_object *object, int flags);

#endif
