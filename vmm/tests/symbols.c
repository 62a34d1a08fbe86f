/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of names as people write them, of build ids, and of names from debug files. */
#include "suites.h"
#include "symbols/demangle.h"
#include "symbols/elf-id.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

static void mangled(void)
{
    static const struct {
        const char *name, *shown; /* NULL: as it is */
    } cases[] = {
        {"_ZN4demo4workERKSt6vectorIiSaIiEE",
         "demo::work(std::vector<int, std::allocator<int> > const&)"},
        {"_ZNSt6vectorIiSaIiEED2Ev", "std::vector<int, std::allocator<int> >::~vector()"},
        {"_ZN4demo4workEi.part.0", "demo::work(int) [clone .part.0]"},
        {"_ZdlPv@plt", "operator delete(void*)@plt"},
        {"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"},
        {"_ZN66_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop"
         "17h0123456789abcdefE",
         "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop"},
        {"_RNvC6_123foo3bar", "123foo::bar"},
        {"_RNvMs_C4demoNtB4_5Point4norm", "<demo::Point>::norm"},
        {"_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>"},
        {"main", NULL},
        {"_Z", NULL},
        {"_R", NULL},
        {"__libc_start_main", NULL},
        {"_ZN", NULL},
        {"", NULL},
    };
    struct shown_names *const names = shown_names_new();

    CU_ASSERT_PTR_NOT_NULL_FATAL(names);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const bool is_changed = cases[i].shown && demangle_is_there();

        CU_ASSERT_STRING_EQUAL(shown_name(names, cases[i].name),
                               is_changed ? cases[i].shown : cases[i].name);
        CU_ASSERT_PTR_EQUAL(shown_name(NULL, cases[i].name), cases[i].name);
    }
    CU_ASSERT_PTR_NULL(shown_name(names, NULL));
    shown_names_free(names);
}

/* Each part doubles the one before: the whole would have 2^30 names. */
static void no_end(void)
{
    static const char numbers[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char name[512] = "_Z1f1aIS_S_E", text[DEMANGLED_MAX];

    CU_ASSERT_EQUAL(demangle(name, text), demangle_is_there());
    for (unsigned i = 0; i < 30; i++) {
        const size_t len = strlen(name);

        (void)snprintf(name + len, sizeof(name) - len, "S_IS%c_S%c_E", numbers[i], numbers[i]);
    }
    CU_ASSERT_FALSE(demangle(name, text));
    memset(name, 'P', sizeof(name) - 1);
    memcpy(name, "_Z1f", 4);
    name[sizeof(name) - 1] = 0;
    CU_ASSERT_FALSE(demangle(name, text));
}

/* A name that is not ASCII, again and again: each of its bytes is where the room ends once. */
static void no_room_in_a_name(void)
{
    char other[100] = "", name[512], text[DEMANGLED_MAX];

    for (unsigned len = 1; len < sizeof(other); len++) {
        memset(other, 'x', len);
        (void)snprintf(name, sizeof(name),
                       "_RINvC1a4nameTNtC1bu30____7hkackfecea1cbdathfdh9hlq6y%s%u%s%s", "NtC1c",
                       len, other, "Bb_Bb_Bb_Bb_Bb_Bb_Bb_Bb_Bb_Bb_EE");
        CU_ASSERT_FALSE(demangle(name, text));
    }
    CU_ASSERT_EQUAL(demangle("_RINvC1a4nameTNtC1bu30____7hkackfecea1cbdathfdh9hlq6yBb_EE", text),
                    demangle_is_there());
}

/* More than are kept: those that were forgotten are made anew. */
static void many_names(void)
{
    struct shown_names *const names = shown_names_new();
    char name[32], shown[32];

    CU_ASSERT_PTR_NOT_NULL_FATAL(names);
    for (unsigned i = 0; i < 40000; i++) {
        (void)snprintf(name, sizeof(name), "_Z6f%05uv", i % 20000);
        (void)snprintf(shown, sizeof(shown), "f%05u()", i % 20000);
        if (strcmp(shown_name(names, name), demangle_is_there() ? shown : name) != 0)
            CU_FAIL_FATAL("another name");
    }
    shown_names_free(names);
}

static void build_ids(void)
{
    static const char *const wrong[] = {"", "1", "zz", "12345", "0x12", "AB"};
    char text[ELF_ID_TEXT], longest[ELF_ID_TEXT + 2] = "";
    struct elf_id id, other;

    CU_ASSERT_TRUE_FATAL(elf_id_parse("00ff7f", &id));
    CU_ASSERT_EQUAL(id.len, 3);
    CU_ASSERT_STRING_EQUAL(elf_id_text(&id, text), "00ff7f");
    CU_ASSERT_TRUE(elf_id_parse("00ff", &other));
    CU_ASSERT_FALSE(elf_id_is_same(&id, &other));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        CU_ASSERT_FALSE(elf_id_parse(wrong[i], &id));
    memset(longest, 'a', 2 * ELF_ID_BYTES_MAX);
    CU_ASSERT_TRUE(elf_id_parse(longest, &id));
    memset(longest, 'a', 2 * ELF_ID_BYTES_MAX + 2);
    CU_ASSERT_FALSE(elf_id_parse(longest, &id));
}

void add_symbols_suite(void)
{
    CU_pSuite const suite = CU_add_suite("symbols", NULL, NULL);

    CU_add_test(suite, "names of C++ and Rust", mangled);
    CU_add_test(suite, "a name without end", no_end);
    CU_add_test(suite, "no room within a name that is not ASCII", no_room_in_a_name);
    CU_add_test(suite, "more names than are kept", many_names);
    CU_add_test(suite, "build ids", build_ids);
}
