/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * VMREAD and VMWRITE of every field: those that the controls bring along keep what was written, in
 * their width, and the others do not exist (volume 3, VMREAD, VMWRITE and appendix B).
 */
#include "console.h"
#include "tests.h"
#include "vm.h"

static const struct {
    unsigned field;
    const char *name;
} fields[] = {
#define NAMED(name, encoding, kind, bits) {encoding, #name},
    VMCS_FIELDS(NAMED)
#undef NAMED
};

/* In each half, bits that differ from those of their neighbours. */
#define PATTERN 0x5a96c3e187f01b2dull

static uint64_t width_mask(unsigned field)
{
    switch (field_width(field)) {
    case FIELD_16:
        return UINT16_MAX;
    case FIELD_32:
        return UINT32_MAX;
    case FIELD_64:
    case FIELD_NATURAL:
        break;
    }
    return UINT64_MAX;
}

static void test_absent(unsigned field, const char *name)
{
    uint64_t value = 0;

    report_value(vmread(field, &value), VM_FAIL_VALID, "VMREAD %s, which is not there", name);
    report_value(get(VMCS_INSTRUCTION_ERROR), ERROR_NO_COMPONENT, "VMREAD %s: error 12", name);
    report_value(vmwrite(field, 0), VM_FAIL_VALID, "VMWRITE %s, which is not there", name);
}

/* Some processors let software write exit information (IA32_VMX_MISC[29]). */
static void test_read_only(unsigned field, const char *name)
{
    uint64_t value = 0;

    report_value(vmread(field, &value), VM_SUCCEED, "VMREAD %s", name);
    if (vmx_misc() & MISC_WRITE_READ_ONLY) {
        report_value(vmwrite(field, value), VM_SUCCEED, "VMWRITE %s (A.6)", name);
        return;
    }
    report_value(vmwrite(field, value), VM_FAIL_VALID, "VMWRITE %s, which is read-only", name);
    report_value(get(VMCS_INSTRUCTION_ERROR), ERROR_READ_ONLY, "VMWRITE %s: error 13", name);
}

/* No entry follows, so that no value is wrong, and a field may lack bits that are reserved. */
static void test_halves(unsigned field, const char *name)
{
    const uint64_t low = PATTERN & UINT32_MAX, high = PATTERN >> 32;

    put(field, PATTERN);
    report_value(get(field | FIELD_HIGH), high, "VMREAD of the high half of %s", name);
    put(field | FIELD_HIGH, low);
    report_value(get(field), low << 32 | low, "VMWRITE of the high half of %s", name);
}

static void test_writable(unsigned field, const char *name)
{
    uint64_t value = 0;

    report_value(vmwrite(field, PATTERN), VM_SUCCEED, "VMWRITE %s", name);
    report_value(vmread(field, &value), VM_SUCCEED, "VMREAD %s", name);
    report_value(value, PATTERN & width_mask(field), "%s keeps what was written", name);
    if (field_width(field) == FIELD_64)
        test_halves(field, name);
}

/*
 * Access rights are the exception: of bits 11:8 and 31:17, which are reserved, some processors keep
 * nothing.
 */
#define RIGHTS_BITS 0x1f0ffu

static bool is_rights(unsigned field)
{
    return field >= VMCS_GUEST_ES_RIGHTS && field <= VMCS_GUEST_TR_RIGHTS;
}

static void test_rights(unsigned field, const char *name)
{
    put(field, PATTERN);
    report_value(get(field) & RIGHTS_BITS, PATTERN & RIGHTS_BITS, "%s keeps what was written",
                 name);
}

static bool is_target(unsigned field, unsigned *index)
{
    *index = (field - VMCS_CR3_TARGET_0) / 2;
    return field >= VMCS_CR3_TARGET_0 && field <= VMCS_CR3_TARGET_3;
}

static bool exists(unsigned field)
{
    unsigned index;

    if (is_target(field, &index))
        return index < (vmx_misc() >> 16 & 0x1ff);
    return field_exists(field);
}

static void test_field(unsigned field, const char *name)
{
    if (!exists(field))
        test_absent(field, name);
    else if (field_type(field) == FIELD_READ_ONLY)
        test_read_only(field, name);
    else if (is_rights(field))
        test_rights(field, name);
    else
        test_writable(field, name);
}

/* Encodings that no field has: reserved bits, the high half of what has none, an index beyond. */
static const struct {
    const char *name;
    uint64_t field;
} nowhere[] = {
    {"bit 12", VMCS_GUEST_RIP | 1u << 12},
    {"bit 15", VMCS_GUEST_RIP | 1u << 15},
    {"bit 31", VMCS_GUEST_RIP | 1u << 31},
    {"bit 32", VMCS_GUEST_RIP | 1ull << 32},
    {"bit 63", VMCS_GUEST_RIP | 1ull << 63},
    {"the high half of 16 bits", VMCS_GUEST_ES | FIELD_HIGH},
    {"the high half of 32 bits", VMCS_PIN_CONTROLS | FIELD_HIGH},
    {"the high half of natural width", VMCS_GUEST_RIP | FIELD_HIGH},
    {"index 511 of 32-bit controls", 0x4000 | 0x3fe},
    {"index 511 of natural-width guest state", 0x6800 | 0x3fe},
};

static void test_nowhere(void)
{
    uint64_t value = 0;

    for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
        report_value(vmread(nowhere[i].field, &value), VM_FAIL_VALID, "VMREAD of no field: %s",
                     nowhere[i].name);
        report_value(vmwrite(nowhere[i].field, 0), VM_FAIL_VALID, "VMWRITE of no field: %s",
                     nowhere[i].name);
    }
}

void test_fields(void)
{
    vm_reset(&nop_code);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        test_field(fields[i].field, fields[i].name);
    test_nowhere();
}
