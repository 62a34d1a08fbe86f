/* SPDX-License-Identifier: BSD-3-Clause */
#include "monitor/monitor.h"
#include "common/json.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void monitor_close(struct monitor *monitor)
{
    if (monitor->close)
        monitor->close(monitor);
    *monitor = (struct monitor){0};
}

/* The member "return" of an answer, or what its error says. */
static json_object *take_answer(struct monitor *monitor, const char *text)
{
    char why[128];
    json_object *answer = json_parse(text, strlen(text), why, sizeof(why));
    json_object *error, *value = NULL;

    if (!answer) {
        snprintf(monitor->why, sizeof(monitor->why), "QEMU's answer: %s", why);
    } else if (json_object_object_get_ex(answer, "return", &value) && value) {
        json_object_get(value);
    } else if (json_object_object_get_ex(answer, "error", &error) &&
               json_object_object_get_ex(error, "desc", &value)) {
        snprintf(monitor->why, sizeof(monitor->why), "QEMU: %.400s", json_object_get_string(value));
        value = NULL;
    } else {
        snprintf(monitor->why, sizeof(monitor->why), "QEMU's answer is neither result nor error");
        value = NULL;
    }
    json_object_put(answer);
    return value;
}

json_object *monitor_execute(struct monitor *monitor, const char *command, json_object *arguments)
{
    return monitor_execute_with(monitor, command, arguments, -1);
}

json_object *monitor_execute_with(struct monitor *monitor, const char *command,
                                  json_object *arguments, int fd)
{
    json_object *const request = json_object_new_object(), *result = NULL;
    const char *text;
    char *answer;

    json_object_object_add(request, "execute", json_object_new_string(command));
    if (arguments)
        json_object_object_add(request, "arguments", arguments);
    text = json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN);
    answer = text ? monitor->send(monitor, text, fd) : NULL;
    if (!text)
        snprintf(monitor->why, sizeof(monitor->why), "no memory");
    else if (answer)
        result = take_answer(monitor, answer);
    free(answer);
    json_object_put(request);
    return result;
}
