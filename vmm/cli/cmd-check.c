/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt check: what the KVM of this machine can do, and what can be recorded on it. vpt profiles:
 * what can be modelled.
 */
#include "cli/commands.h"
#include "common/json.h"
#include "common/say.h"
#include "kvm/backend.h"
#include "record/machine.h"
#include "run/run.h"
#include "vpt_caps.h"

#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

struct flag {
    const char *name, *text;
    bool value;
};

struct options {
    bool json;
};

static const struct option_row options_of_both[] = {
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct options, json),
     .help = "Prints one JSON object."},
    {0},
};

static const struct exit_row exits[] = {
    {EXIT_CODE_OK, "Success, whatever was found."},
    {EXIT_CODE_USAGE, "Usage."},
    {0},
};

/* Whether --json was given. 0 to go on, or an exit code + 1. */
static int only_json(const struct subcommand *command, int argc, char **argv, bool *json)
{
    struct options options = {0};
    const int code = options_parse(command, argc, argv, &options);

    *json = options.json;
    if (!code && optind < argc)
        return 1 + complain(EXIT_CODE_USAGE, "vpt %s takes no '%s'", command->name, argv[optind]);
    return code;
}

static const char *record_verdict(const struct findings *findings)
{
    return machine_obstacle(findings) ? "vpt record cannot record here"
                                      : "vpt record can record here";
}

static void print_findings(const struct findings *findings)
{
    static const char marks[] = {
        [FINDING_GOOD] = '+', [FINDING_LIMIT] = '~', [FINDING_BAD] = '-', [FINDING_UNKNOWN] = '?'};

    printf("\nRecording this host and its guests with Intel PT (vpt record):\n");
    for (size_t i = 0; i < findings->count; i++)
        printf("%c %s\n", marks[findings->list[i].state], findings->list[i].text);
    printf("%s\n", record_verdict(findings));
}

static json_object *findings_object(const struct findings *findings)
{
    json_object *const object = json_object_new_object(), *list = json_object_new_array();

    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *const finding = &findings->list[i];
        json_object *const one = json_object_new_object();

        json_object_object_add(one, "name", json_object_new_string(finding->name));
        json_object_object_add(one, "state", json_object_new_string(finding_word(finding->state)));
        json_object_object_add(one, "text", json_object_new_string(finding->text));
        json_object_array_add(list, one);
    }
    json_object_object_add(object, "possible",
                           json_object_new_boolean(!machine_obstacle(findings)));
    json_object_object_add(object, "findings", list);
    return object;
}

static void print_flags(const struct flag *flags, size_t count, const struct probe *probe,
                        const char *verdict, const struct findings *findings)
{
    for (size_t i = 0; i < count; i++)
        printf("%-44s %s\n", flags[i].text, flags[i].value ? "yes" : "no");
    if (probe->steps_per_s)
        printf("%-44s %u\n", "steps a second", probe->steps_per_s);
    if (!probe->kvm)
        printf("no KVM: %s\n", probe->why);
    printf("%s\n", verdict);
    print_findings(findings);
}

static void print_json(const struct flag *flags, size_t count, const struct probe *probe,
                       const char *verdict, const struct findings *findings)
{
    json_object *root = json_object_new_object();

    for (size_t i = 0; i < count; i++)
        json_object_object_add(root, flags[i].name, json_object_new_boolean(flags[i].value));
    json_add_number(root, "steps_per_s", probe->steps_per_s);
    json_object_object_add(root, "verdict", json_object_new_string(verdict));
    json_object_object_add(root, "record", findings_object(findings));
    json_print(root, JSON_C_TO_STRING_PRETTY);
}

static int run_check(int argc, char **argv)
{
    struct findings findings;
    struct probe probe;
    const char *verdict;
    bool json;
    const int code = only_json(&command_check, argc, argv, &json);

    if (code)
        return code - 1;
    kvm_probe(&probe);
    machine_look("", &findings);

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
    (json ? print_json : print_flags)(flags, sizeof(flags) / sizeof(flags[0]), &probe, verdict,
                                      &findings);
    return EXIT_CODE_OK;
}

const struct subcommand command_check = {
    .name = "check",
    .about = "say what KVM can do here, and what can be recorded",
    .synopsis = "[--json]",
    .text = "Runs a tiny guest that finds out what the KVM of this machine can do, and prints a "
            "line for each ability, and then which guests run here.\n"
            "What stands below is about recording this host and its guests with Intel PT: one "
            "finding a line, with + where all is well, ~ where something is limited, - where it "
            "prevents a recording, and ? where it could not be found out. The last line says "
            "whether vpt record can record here.",
    .document = "record",
    .options = options_of_both,
    .exits = exits,
    .run = run_check,
};

static int run_profiles(int argc, char **argv)
{
    json_object *list;
    bool json;
    const int code = only_json(&command_profiles, argc, argv, &json);

    if (code)
        return code - 1;
    list = json ? json_object_new_object() : NULL;
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

const struct subcommand command_profiles = {
    .name = "profiles",
    .about = "list the processors that can be modelled",
    .synopsis = "[--json]",
    .text = "Lists the processors whose Intel PT or RTIT can be modelled: the names that --profile "
            "takes, and what each is.",
    .options = options_of_both,
    .exits = exits,
    .run = run_profiles,
};
