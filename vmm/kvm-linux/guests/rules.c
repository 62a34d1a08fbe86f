/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rules [--list | NAME...]: tries each rule on the KVM of this machine, with pt_mode=1, and prints
 * a line for each, of fields with a tab between: 'RULE', name, verdict, what KVM did. With --list
 * nothing is tried: the lines are name, rule, where it is specified, case. With names, only those
 * are tried.
 */
#include "rules.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/klog.h>
#include <unistd.h>

/* Actions of syslog(2). */
#define LOG_READ_ALL 3
#define LOG_CLEAR    5

static const struct rule *const files[] = {access_rules, walk_rules, run_rules, host_rules};

struct outcome outcome(enum verdict verdict, const char *format, ...)
{
    struct outcome result = {.verdict = verdict};
    va_list args;

    va_start(args, format);
    vsnprintf(result.did, sizeof(result.did), format, args);
    va_end(args);
    return result;
}

/* Warnings that come once a boot come again, where debugfs is there. */
void kernel_forgets(void)
{
    const int fd = open("/sys/kernel/debug/clear_warn_once", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        if (write(fd, "1", 1) != 1)
            perror("clear_warn_once");
        close(fd);
    }
    klogctl(LOG_CLEAR, NULL, 0);
}

const char *kernel_warned(void)
{
    static char log[1 << 16];
    const int bytes = klogctl(LOG_READ_ALL, log, sizeof(log) - 1);
    char *line, *end;

    log[bytes < 0 ? 0 : bytes] = 0;
    line = strstr(log, "unchecked MSR access error: ");
    if (!line)
        return NULL;
    line += strlen("unchecked MSR access error: ");
    /* Not the value, nor the address of the instruction. */
    line[strcspn(line, "(\n")] = 0;
    end = strstr(line, " at rIP");
    if (!end)
        end = line + strlen(line) - (*line && line[strlen(line) - 1] == ' ');
    *end = 0;
    return line;
}

static bool named(const char *name, char **words)
{
    for (; *words; words++) {
        if (strcmp(name, *words) == 0)
            return true;
    }
    return false;
}

static void print(const struct rule *rule)
{
    static const char *const verdicts[] = {"as specified", "not", "not tried"};
    const struct outcome result = rule->test();

    printf("RULE\t%s\t%s\t%s\n", rule->name, verdicts[result.verdict], result.did);
    fflush(stdout);
}

int main(int count, char **words)
{
    const bool list = count > 1 && strcmp(words[1], "--list") == 0;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        for (const struct rule *rule = files[i]; rule->name; rule++) {
            if (list)
                printf("%s\t%s\t%s\t%s\n", rule->name, rule->must, rule->section, rule->test_name);
            else if (count == 1 || named(rule->name, words + 1))
                print(rule);
        }
    }
    return 0;
}
