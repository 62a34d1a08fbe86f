/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of VM entry on guest segment registers: each is a VM exit with reason 33 and bit 31
 * (volume 3, "Checks on Guest Segment Registers").
 *
 * What concerns several registers alike is one table, played for each of them.
 */
#include "console.h"
#include "tests.h"
#include "vm.h"

#define FAILED       (REASON_ENTRY_FAILED | REASON_GUEST_STATE)
#define BAD          .reason = FAILED
#define NO_CANONICAL (1ull << 62) /* with 48 bits and with 57 */
#define TI           4u
#define RPL_3        3u
#define S            (1u << 4)
#define DPL_3        (3u << 5)
#define P            (1u << 7)
#define D            (1u << 14)
#define G            (1u << 15)
#define UNUSABLE     (1u << 16)
#define TYPE(type)                                                                                 \
    {CLEAR, RIGHTS, 15},                                                                           \
    {                                                                                              \
        SET, RIGHTS, type                                                                          \
    }
#define LDT 0x82u /* present, type 2 */

/* ---- Rules for each register -------------------------------------------------------------- */

/* Stands for the rights, limit and base of the register that a table is played for. */
enum part { SELECTOR, RIGHTS, LIMIT, BASE, PARTS };

/* Fields of ES; those of the other registers follow in steps of 2, in this order. */
static const unsigned first_field[PARTS] = {VMCS_GUEST_ES, VMCS_GUEST_ES_RIGHTS,
                                            VMCS_GUEST_ES_LIMIT, VMCS_GUEST_ES_BASE};
enum segment { ES, CS, SS, DS, FS, GS, LDTR, TR, SEGMENTS };
static const char *const names[SEGMENTS] = {"ES", "CS", "SS", "DS", "FS", "GS", "LDTR", "TR"};

#define IN(segment) (1u << (segment))
#define DATA        (IN(ES) | IN(DS) | IN(FS) | IN(GS))
#define EVERY       (DATA | IN(CS) | IN(SS) | IN(LDTR) | IN(TR))

struct rule {
    const char *name;
    unsigned segments;
    struct change changes[3]; /* of parts instead of fields */
};

static const struct rule rules[] = {
    {"P = 0", EVERY, {{CLEAR, RIGHTS, P}}},
    {"reserved bit 8 of the rights", EVERY, {{SET, RIGHTS, 1u << 8}}},
    {"reserved bit 11 of the rights", EVERY, {{SET, RIGHTS, 1u << 11}}},
    {"reserved bit 17 of the rights", EVERY, {{SET, RIGHTS, 1u << 17}}},
    {"reserved bit 31 of the rights", EVERY, {{SET, RIGHTS, 1u << 31}}},
    {"G = 1 and limit bits 11:0 not all 1", EVERY, {{SET, RIGHTS, G}, {PUT, LIMIT, 0xffffeffe}}},
    {"G = 0 and limit bit 20", EVERY, {{CLEAR, RIGHTS, G}, {PUT, LIMIT, 1u << 20}}},
    {"G = 0 and limit bit 31", EVERY, {{CLEAR, RIGHTS, G}, {PUT, LIMIT, 1u << 31}}},
    {"the wrong S", EVERY, {{SET, RIGHTS, S}}},
    {"RPL 3 with DPL 0", DATA, {{SET, SELECTOR, RPL_3}}},
    {"type 2 (not accessed)", DATA, {TYPE(2)}},
    {"type 9 (code that cannot be read)", DATA, {TYPE(9)}},
    {"type 1 (cannot be written)", IN(SS), {TYPE(1)}},
    {"type 2 (not accessed)", IN(SS), {TYPE(2)}},
    {"type 11 (code)", IN(SS), {TYPE(11)}},
    {"type 3 (data)", IN(CS), {TYPE(3)}},
    {"type 8 (not accessed)", IN(CS), {TYPE(8)}},
    {"type 10 (not accessed)", IN(CS), {TYPE(10)}},
    {"D together with L", IN(CS), {{SET, RIGHTS, D}}},
    {"DPL 3 with SS.DPL 0", IN(CS), {{SET, RIGHTS, DPL_3}}},
    {"conforming code with a DPL above SS.DPL", IN(CS), {{SET, RIGHTS, DPL_3 | 15}}},
    {"DPL 3 with RPL 0", IN(SS), {{SET, RIGHTS, DPL_3}}},
    {"RPL 3 with CS.RPL 0", IN(SS), {{SET, SELECTOR, RPL_3}}},
    {"type 3 (16-bit TSS)", IN(TR), {TYPE(3)}},
    {"type 9 (TSS that is not busy)", IN(TR), {TYPE(9)}},
    {"unusable", IN(TR), {{SET, RIGHTS, UNUSABLE}}},
    {"TI", IN(TR) | IN(LDTR), {{SET, SELECTOR, TI}}},
    {"type 1", IN(LDTR), {TYPE(1)}},
    {"type 3", IN(LDTR), {TYPE(3)}},
    {"a base that is not canonical",
     IN(FS) | IN(GS) | IN(TR) | IN(LDTR),
     {{PUT, BASE, NO_CANONICAL}}},
    {"base bit 32", IN(ES) | IN(CS) | IN(SS) | IN(DS), {{PUT, BASE, 1ull << 32}}},
    {"base bit 63", IN(ES) | IN(CS) | IN(SS) | IN(DS), {{PUT, BASE, 1ull << 63}}},
};

static unsigned field_of(enum segment segment, unsigned part)
{
    return first_field[part] + 2 * segment;
}

static bool is_system(enum segment segment)
{
    return segment == LDTR || segment == TR;
}

static void apply(const struct rule *rule, enum segment segment)
{
    for (unsigned i = 0; i < 3; i++) {
        struct change change = rule->changes[i];

        change.field = field_of(segment, change.field);
        /* S of code and data is 1, of system segments 0. */
        if (change.kind == SET && change.value == S && !is_system(segment))
            change.kind = CLEAR;
        if (change.kind != NO_CHANGE)
            vm_change(&change);
    }
}

static void test_rule(const struct rule *rule, enum segment segment)
{
    struct outcome outcome;

    vm_reset(&nop_code);
    if (segment == LDTR)
        put(VMCS_GUEST_LDTR_RIGHTS, LDT);
    apply(rule, segment);
    outcome = vm_launch();
    report(outcome.result == VM_SUCCEED && outcome.reason == FAILED && outcome.qualification == 0,
           "guest %s: %s", names[segment], rule->name);
}

static void test_rules(void)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        for (unsigned segment = 0; segment < SEGMENTS; segment++)
            if (rules[i].segments & IN(segment))
                test_rule(&rules[i], (enum segment)segment);
}

/* ---- What is good ------------------------------------------------------------------------- */

static const struct vm_row good[] = {
    {"guest LDTR as it should be", .changes = {{PUT, VMCS_GUEST_LDTR_RIGHTS, LDT}}, DONE},
    {"unusable registers may hold anything",
     .changes = {{PUT, VMCS_GUEST_ES_RIGHTS, UNUSABLE},
                 {PUT, VMCS_GUEST_ES_LIMIT, 0xffff1234},
                 {PUT, VMCS_GUEST_DS_RIGHTS, UNUSABLE | 0xf00},
                 {PUT, VMCS_GUEST_LDTR_BASE, NO_CANONICAL},
                 {PUT, VMCS_GUEST_LDTR, TI}},
     DONE},
    {"guest SS may be unusable in 64-bit mode", .changes = {{PUT, VMCS_GUEST_SS_RIGHTS, UNUSABLE}},
     DONE},
    {"guest CS of conforming code", .changes = {{SET, VMCS_GUEST_CS_RIGHTS, 15}}, DONE},
    {"guest CS that was never read", .changes = {{CLEAR, VMCS_GUEST_CS_RIGHTS, 2}}, DONE},
    {"guest data that grows down", .changes = {{SET, VMCS_GUEST_DS_RIGHTS, 7}}, DONE},
    {"guest data in readable code", .changes = {{SET, VMCS_GUEST_DS_RIGHTS, 11}}, DONE},
    {"guest data of DPL 3", .changes = {{SET, VMCS_GUEST_DS_RIGHTS, DPL_3}}, DONE},
};

void test_segment_checks(void)
{
    test_rules();
    RUN_ROWS(good);
}
