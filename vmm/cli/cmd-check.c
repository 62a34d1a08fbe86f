/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt check: what the KVM of this machine can do. vpt profiles: what can be modelled.
 */
#include "cli/commands.h"
#include "common/json.h"
#include "common/say.h"
#include "kvm/backend.h"
#include "run/run.h"
#include "vpt.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

struct flag {
    const char *name, *text;
    bool value;
};

static int usage(const char *command, const char *about, FILE *to)
{
    fprintf(to, "usage: vpt %s [--json]\n\n%s\n\n  --json  print one JSON object\n  --help\n",
            command, about);
    return EXIT_CODE_OK;
}

/* Whether --json was given; *code is set and true returned when there is nothing more to do. */
static bool only_json(int argc, char **argv, const char *about, bool *json, int *code)
{
    *json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            *json = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            *code = usage(argv[0], about, stdout);
            return true;
        } else {
            *code = complain(EXIT_CODE_USAGE, "vpt %s takes no '%s'", argv[0], argv[i]);
            return true;
        }
    }
    return false;
}

static void print_flags(const struct flag *flags, size_t count, const struct probe *probe,
                        const char *verdict)
{
    for (size_t i = 0; i < count; i++)
        printf("%-44s %s\n", flags[i].text, flags[i].value ? "yes" : "no");
    if (probe->steps_per_s)
        printf("%-44s %u\n", "steps a second", probe->steps_per_s);
    if (!probe->kvm)
        printf("no KVM: %s\n", probe->why);
    printf("%s\n", verdict);
}

static void print_json(const struct flag *flags, size_t count, const struct probe *probe,
                       const char *verdict)
{
    json_object *root = json_object_new_object();

    for (size_t i = 0; i < count; i++)
        json_object_object_add(root, flags[i].name, json_object_new_boolean(flags[i].value));
    json_add_number(root, "steps_per_s", probe->steps_per_s);
    json_object_object_add(root, "verdict", json_object_new_string(verdict));
    json_print(root, JSON_C_TO_STRING_PRETTY);
}

int cmd_check(int argc, char **argv)
{
    struct probe probe;
    const char *verdict;
    bool json;
    int code;

    if (only_json(argc, argv,
                  "Runs a tiny guest that finds out what the KVM of this machine can do.", &json,
                  &code))
        return code;
    kvm_probe(&probe);

    const struct flag flags[] = {
        {"kvm", "/dev/kvm", probe.kvm},
        {"msr_exits", "MSR accesses leave KVM", probe.msr_exits},
        {"gp_injection", "#GP can be injected for them", probe.gp_injection},
        {"nmi", "NMIs can be injected", probe.nmi},
        {"step_supervisor", "single-step in supervisor mode", probe.step_supervisor},
        {"step_user", "single-step in user mode", probe.step_user == STEP_USER_NATIVE},
        {"step_user_by_handler", "  or by way of the guest's #DB handler",
         probe.step_user == STEP_USER_BY_HANDLER},
        {"exceptions", "exceptions are caught while stepping", probe.exceptions},
    };
    const bool base = probe.msr_exits && probe.gp_injection && probe.nmi && probe.step_supervisor;

    if (base && probe.step_user)
        verdict = "every guest runs here";
    else if (base)
        verdict = "guests that trace user mode run in the lab, others here";
    else
        verdict = "guests run in the lab";
    (json ? print_json : print_flags)(flags, sizeof(flags) / sizeof(flags[0]), &probe, verdict);
    return EXIT_CODE_OK;
}

int cmd_profiles(int argc, char **argv)
{
    json_object *list;
    bool json;
    int code;

    if (only_json(argc, argv, "Lists the processors whose Intel PT can be modelled.", &json, &code))
        return code;
    list = json_object_new_object();
    for (size_t i = 0; i < vpt_profile_count(); i++) {
        if (json)
            json_object_object_add(list, vpt_profile_name(i),
                                   json_object_new_string(vpt_profile_about(i)));
        else
            printf("%-16s %s\n", vpt_profile_name(i), vpt_profile_about(i));
    }
    if (json)
        json_print(list, JSON_C_TO_STRING_PRETTY);
    return EXIT_CODE_OK;
}
