/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the replay reads besides traces: descriptions of them, which are hostile; and by which
 * family and model it chooses a profile.
 */
#include <CUnit/CUnit.h>
#include <string.h>

#include "roundtrip/replay/bundle.h"
#include "roundtrip/replay/models.h"
#include "suites.h"
#include "vpt.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static unsigned runs;

static void count_run(const char *name, const struct options *options, const uint8_t *bytes,
                      size_t len_bytes, uint64_t base)
{
    (void)name;
    (void)bytes;
    (void)base;
    CU_ASSERT_EQUAL(options->family, 6);
    CU_ASSERT_EQUAL(options->model, 79);
    CU_ASSERT_TRUE(len_bytes > 0);
    runs++;
}

/* What a bundle of this text, in a folder that has nothing else, is found to be. */
static const char *read_text(const char *text, size_t len_bytes)
{
    const struct options options = {.image = ptd_image_new()};
    const char *wrong;

    runs = 0;
    wrong = bundle_each_trace("/nowhere/trace.json", (const uint8_t *)text, len_bytes, &options,
                              count_run);
    ptd_image_free(options.image);
    return wrong;
}

static void descriptions(void)
{
    static const char good[] =
        "{\"type\":\"intel-pt\",\"cpuInfo\":{\"family\":6,\"model\":\"0x4f\"},"
        "\"processes\":[1,{\"threads\":7},{\"threads\":[{},{\"iptTrace\":5},"
        "{\"iptTrace\":\"gone\"},{\"tid\":-1,\"iptTrace\":\"/proc/self/exe\"}],"
        "\"modules\":[{\"loadAddress\":-5},{\"loadAddress\":4096},"
        "{\"loadAddress\":4096,\"file\":\"/dev/null\"}]}],\"cpus\":{}} \n";
    static const char *const bad[] = {"", "{", "[]", "{} {}", "{\"type\":1}", "{\"type\":\"x\"}"};
    char deep[100];

    CU_ASSERT_PTR_NULL(read_text(good, strlen(good)));
    CU_ASSERT_EQUAL(runs, 1);
    for (size_t len = 0; len < strlen(good) - 2; len++)
        CU_ASSERT_PTR_NOT_NULL(read_text(good, len));
    for (size_t i = 0; i < COUNT(bad); i++)
        CU_ASSERT_PTR_NOT_NULL(read_text(bad[i], strlen(bad[i])));
    memset(deep, '[', sizeof(deep));
    CU_ASSERT_PTR_NOT_NULL(read_text(deep, sizeof(deep)));
}

static bool is_bundle(const char *text)
{
    return bundle_detect((const uint8_t *)text, strlen(text));
}

static void detection(void)
{
    CU_ASSERT_TRUE(is_bundle("{\n  \"type\": \"intel-pt\"}"));
    CU_ASSERT_FALSE(is_bundle("{\"type\": \"other\"}"));
    CU_ASSERT_FALSE(is_bundle("{ intel-pt"));
    CU_ASSERT_FALSE(is_bundle("{"));
    CU_ASSERT_FALSE(is_bundle(""));
}

static void check_model(unsigned family, unsigned model, const char *name, bool is_near)
{
    const struct model_profile found = model_profile(family, model);
    struct vpt_caps caps;

    CU_ASSERT_PTR_NOT_NULL(found.name);
    if (!found.name)
        return;
    CU_ASSERT_STRING_EQUAL(found.name, name);
    CU_ASSERT_EQUAL(found.is_near, is_near);
    CU_ASSERT_TRUE(vpt_profile(found.name, &caps));
    if (!is_near) {
        CU_ASSERT_EQUAL(caps.choices.family, family);
        CU_ASSERT_EQUAL(caps.choices.model, model);
    }
}

static void models(void)
{
    check_model(6, 79, "broadwell", false);
    check_model(6, 85, "cascade-lake", false);
    check_model(6, 94, "skylake", false);
    check_model(6, 126, "icelake-client", false);
    check_model(6, 158, "skylake", true);
    check_model(6, 106, "icelake-server", true);
    check_model(6, 143, "icelake-server", true);
    check_model(6, 151, "icelake-client", true);
    check_model(6, 122, "goldmont-plus", true);
    check_model(6, 190, "gracemont", true);
    check_model(18, 1, "icelake-client", true);
    check_model(19, 1, "icelake-server", true);
    CU_ASSERT_PTR_NULL(model_profile(6, 0).name);
    CU_ASSERT_PTR_NULL(model_profile(25, 94).name);
    CU_ASSERT_TRUE(model_knows_pads("skylake"));
    CU_ASSERT_FALSE(model_knows_pads("broadwell"));
}

void add_bundle_suite(void)
{
    CU_pSuite const suite = CU_add_suite("bundles", NULL, NULL);

    CU_add_test(suite, "descriptions of traces", descriptions);
    CU_add_test(suite, "what is a bundle", detection);
    CU_add_test(suite, "profiles by model", models);
}
