/* SPDX-License-Identifier: BSD-3-Clause */
/* TRACE.json (docs/trace-files.md): what is read of one, and what is said of one that is wrong. */
#include "trace/sidecar.h"
#include "common/file.h"
#include "trace/code-files.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char folder[] = "/tmp/vpt-sidecar-XXXXXX";
static char trace[64];

static int make_folder(void)
{
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(trace, sizeof(trace), "%s/t.pt", folder);
    return 0;
}

static int remove_folder(void)
{
    char path[80];

    (void)snprintf(path, sizeof(path), "%s.json", trace);
    (void)unlink(path);
    return rmdir(folder);
}

static void write_sidecar(const char *text)
{
    char path[80];

    (void)snprintf(path, sizeof(path), "%s.json", trace);
    CU_ASSERT_EQUAL_FATAL(write_file(path, text, strlen(text)), 0);
}

static void test_all(void)
{
    struct sidecar_image image;
    struct sidecar sidecar;
    char path[80];

    write_sidecar("{ \"vpt\": 1, \"cpu\": { \"family\": 6, \"model\": 94 }, \"tsc_ctc\": [2, 168],"
                  "  \"mtc_freq\": 3, \"max_nonturbo_ratio\": 24, \"unknown\": {}, \"mode\": 32,"
                  "  \"images\": [ { \"path\": \"k.elf\", \"bias\": -4096, \"cr3\": null },"
                  "                { \"path\": \"/p.elf\", \"cr3\": 2113536 } ] }\n");
    CU_ASSERT_EQUAL(sidecar_open(&sidecar, trace), 0);
    CU_ASSERT_TRUE(sidecar.is_there && !sidecar.is_rtit);
    CU_ASSERT_EQUAL(sidecar.mode, PTD_MODE_32);
    CU_ASSERT_EQUAL(sidecar.errata, ptd_errata(6, 94));
    CU_ASSERT_NOT_EQUAL(sidecar.errata, 0);
    CU_ASSERT_EQUAL(sidecar.clocks.errata, sidecar.errata);
    CU_ASSERT_EQUAL(sidecar.resync, PTD_RESYNC_IP);
    CU_ASSERT_EQUAL(sidecar.clocks.tsc_den, 2);
    CU_ASSERT_EQUAL(sidecar.clocks.tsc_num, 168);
    CU_ASSERT_EQUAL(sidecar.clocks.mtc_freq, 3);
    CU_ASSERT_EQUAL(sidecar.clocks.max_nonturbo_ratio, 24);
    CU_ASSERT_EQUAL_FATAL(sidecar_images(&sidecar), 2);
    CU_ASSERT_EQUAL(sidecar_image(&sidecar, 0, &image), 0);
    (void)snprintf(path, sizeof(path), "%s/k.elf", folder);
    CU_ASSERT_STRING_EQUAL(image.path, path);
    CU_ASSERT_EQUAL(image.bias, -UINT64_C(4096));
    CU_ASSERT_EQUAL(image.cr3, PTD_ANY_CR3);
    CU_ASSERT_EQUAL(sidecar_image(&sidecar, 1, &image), 0);
    CU_ASSERT_STRING_EQUAL(image.path, "/p.elf");
    CU_ASSERT_EQUAL(image.bias, 0);
    CU_ASSERT_EQUAL(image.cr3, 2113536);
    sidecar_close(&sidecar);
}

static void test_rtit(void)
{
    struct sidecar sidecar;

    write_sidecar("{ \"rtit\": { \"cr3\": 1052672, \"cycle_acc\": true, \"tnt_buff\": 5,"
                  "  \"filter\": [ [4198400, 18446744073709551615] ] }, \"images\": [] }");
    CU_ASSERT_EQUAL(sidecar_open(&sidecar, trace), 0);
    CU_ASSERT_TRUE(sidecar.is_rtit);
    CU_ASSERT_EQUAL(sidecar.mode, PTD_MODE_64);
    CU_ASSERT_EQUAL(sidecar.rtit.cr3, 1052672);
    CU_ASSERT_TRUE(sidecar.rtit.cycle_acc && !sidecar.rtit.cycles_minus_one);
    CU_ASSERT_EQUAL(sidecar.rtit.tnt_buff, 5);
    CU_ASSERT_EQUAL(sidecar.rtit.filters, 1);
    CU_ASSERT_EQUAL(sidecar.rtit.filter[0].base, 4198400);
    CU_ASSERT_EQUAL(sidecar.rtit.filter[0].limit, UINT64_MAX);
    CU_ASSERT_EQUAL(sidecar.rtit.mode, PTD_MODE_64);
    CU_ASSERT_EQUAL(sidecar_images(&sidecar), 0);
    sidecar_close(&sidecar);
}

/* Where decoding goes on after an error, by what is known of deferred TIPs. */
static void test_deferred_tips(void)
{
    static const struct {
        const char *text;
        enum ptd_resync resync;
        bool defers_tips;
    } cases[] = {
        {"{}", PTD_RESYNC_PSB, false},
        {"{ \"cpu\": { \"family\": 6, \"model\": 94 } }", PTD_RESYNC_IP, false},
        {"{ \"cpu\": { \"family\": 6, \"model\": 1 } }", PTD_RESYNC_PSB, false},
        {"{ \"cpu\": { \"family\": 6, \"model\": 94 }, \"deferred_tips\": true }", PTD_RESYNC_PSB,
         true},
        {"{ \"cpu\": { \"family\": 0, \"model\": 0 }, \"deferred_tips\": false }", PTD_RESYNC_IP,
         false},
        {"{ \"deferred_tips\": null }", PTD_RESYNC_PSB, false},
    };
    struct sidecar sidecar;

    for (size_t i = 0; i < COUNT(cases); i++) {
        write_sidecar(cases[i].text);
        CU_ASSERT_EQUAL(sidecar_open(&sidecar, trace), 0);
        CU_ASSERT_EQUAL(sidecar.resync, cases[i].resync);
        CU_ASSERT_EQUAL(sidecar.defers_tips, cases[i].defers_tips);
        sidecar_close(&sidecar);
    }
    write_sidecar("{ \"deferred_tips\": 1 }");
    CU_ASSERT_EQUAL(sidecar_open(&sidecar, trace), -EBADMSG);
    CU_ASSERT_PTR_NOT_NULL(strstr(sidecar.why.text, "deferred_tips: neither true nor false"));
    sidecar_close(&sidecar);
}

/* Not there: nothing is wrong until code is wanted. */
static void test_none(void)
{
    static const char *const traces[] = {"/nonexistent/t.pt", "/dev/null/t.pt", "-"};
    struct sidecar sidecar;

    for (size_t i = 0; i < COUNT(traces); i++) {
        CU_ASSERT_EQUAL(sidecar_open(&sidecar, traces[i]), 0);
        CU_ASSERT_FALSE(sidecar.is_there);
        CU_ASSERT_EQUAL(sidecar.why.text[0], 0);
        CU_ASSERT_EQUAL(sidecar_images(&sidecar), -EBADMSG);
        CU_ASSERT_NOT_EQUAL(sidecar.why.text[0], 0);
        sidecar_close(&sidecar);
    }
}

static void test_wrong(void)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "ends too early"},
        {"{ \"images\": [", "ends too early"},
        {"{ images: [] }", "not JSON, near byte 2"},
        {"{} {}", "not JSON"},
        {"null\n", "nothing but null"},
        {"[]", "not an object"},
        {"{ \"vpt\": 2 }", "version"},
        {"{ \"vpt\": \"1\" }", "version"},
        {"{ \"images\": {} }", "images: not a list"},
        {"{ \"cpu\": 6 }", "cpu:"},
        {"{ \"cpu\": { \"family\": \"6\" } }", "cpu:"},
        {"{ \"cpu\": { \"model\": 65536 } }", "cpu:"},
        {"{ \"tsc_ctc\": 84 }", "tsc_ctc"},
        {"{ \"tsc_ctc\": [1] }", "tsc_ctc"},
        {"{ \"tsc_ctc\": [1, 2, 3] }", "tsc_ctc"},
        {"{ \"tsc_ctc\": [1, 4294967296] }", "tsc_ctc"},
        {"{ \"tsc_ctc\": [-1, 2] }", "tsc_ctc"},
        {"{ \"tsc_ctc\": [2, 1] }", "tsc_ctc"},
        {"{ \"mode\": 8 }", "mode: not"},
        {"{ \"mode\": \"32\" }", "mode: not"},
        {"{ \"mtc_freq\": 16 }", "mtc_freq"},
        {"{ \"mtc_freq\": 3.5 }", "mtc_freq"},
        {"{ \"max_nonturbo_ratio\": 256 }", "max_nonturbo_ratio"},
        {"{ \"rtit\": 1 }", "rtit: malformed"},
        {"{ \"rtit\": { \"cr3\": \"0x1000\" } }", "rtit: malformed"},
        {"{ \"rtit\": { \"cycle_acc\": 1 } }", "rtit: malformed"},
        {"{ \"rtit\": { \"tnt_buff\": 256 } }", "rtit: malformed"},
        {"{ \"rtit\": { \"filter\": [[1]] } }", "rtit: malformed"},
        {"{ \"rtit\": { \"filter\": [[1, \"2\"]] } }", "rtit: malformed"},
        {"{ \"rtit\": { \"stop\": [[1, 2], [3, 4], [5, 6]] } }", "rtit: malformed"},
    };
    struct sidecar sidecar;

    for (size_t i = 0; i < COUNT(cases); i++) {
        write_sidecar(cases[i].text);
        CU_ASSERT_EQUAL(sidecar_open(&sidecar, trace), -EBADMSG);
        CU_ASSERT_PTR_NOT_NULL(strstr(sidecar.why.text, cases[i].why));
        CU_ASSERT_PTR_NOT_NULL(strstr(sidecar.why.text, "t.pt.json: "));
        sidecar_close(&sidecar);
    }
}

static void test_wrong_code(void)
{
    static const struct {
        const char *text, *why;
        int error;
    } cases[] = {
        {"{}", "no list of images", -EBADMSG},
        {"{ \"images\": [ 1 ] }", "images[0]: not an object", -EBADMSG},
        {"{ \"images\": [ {} ] }", "images[0]: an image without a path", -EBADMSG},
        {"{ \"images\": [ { \"path\": 1 } ] }", "images[0]: an image without a path", -EBADMSG},
        {"{ \"images\": [ { \"path\": \"x\", \"cr3\": \"0x1000\" } ] }", "images[0]: cr3",
         -EBADMSG},
        {"{ \"images\": [ { \"path\": \"x\", \"cr3\": -1 } ] }", "images[0]: cr3", -EBADMSG},
        {"{ \"images\": [ { \"path\": \"x\", \"bias\": \"0x1000\" } ] }", "images[0]: bias",
         -EBADMSG},
        {"{ \"images\": [ { \"path\": \"nothing.elf\" } ] }", "/nothing.elf: ", -ENOENT},
        {"{ \"images\": [], \"code\": 5 }", "code: not the name", -EBADMSG},
        {"{ \"images\": [], \"code\": \"t.pt.json\" }", "/t.pt.json: ", -EBADMSG},
        {"{ \"images\": [], \"code\": \"nothing\" }", "/nothing: No such file", -ENOENT},
    };
    struct sidecar sidecar;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct code_files *const files = code_files_new(CODE_BYTES_MAX);
        struct ptd_image *const image = ptd_image_new();

        write_sidecar(cases[i].text);
        CU_ASSERT_EQUAL(sidecar_open(&sidecar, trace), 0);
        CU_ASSERT_EQUAL(sidecar_add_images(&sidecar, files, image), cases[i].error);
        CU_ASSERT_PTR_NOT_NULL(strstr(sidecar.why.text, cases[i].why));
        sidecar_close(&sidecar);
        ptd_image_free(image);
        code_files_free(files);
    }
}

/* What would keep a reader waiting, or never ends, is refused wherever it is named. */
static void test_no_files(void)
{
    static const char *const texts[] = {"{ \"images\": [ { \"path\": \"%s\" } ] }",
                                        "{ \"images\": [], \"code\": \"%s\" }"};
    static const char *const names[] = {"t.pt", "/dev/zero", "/dev/tty", "."};
    struct code_files *const files = code_files_new(CODE_BYTES_MAX);
    struct sidecar sidecar;
    char path[80], text[256];

    CU_ASSERT_EQUAL_FATAL(mkfifo(trace, 0600), 0);
    for (size_t i = 0; i < COUNT(texts) * COUNT(names); i++) {
        struct ptd_image *const image = ptd_image_new();

        (void)snprintf(text, sizeof(text), texts[i % 2], names[i / 2]);
        write_sidecar(text);
        CU_ASSERT_EQUAL(sidecar_open(&sidecar, trace), 0);
        CU_ASSERT_EQUAL(sidecar_add_images(&sidecar, files, image), -EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(sidecar.why.text, "not a regular file"));
        sidecar_close(&sidecar);
        ptd_image_free(image);
    }
    (void)snprintf(path, sizeof(path), "%s.json", trace);
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(rename(trace, path), 0); /* TRACE.json itself */
    CU_ASSERT_EQUAL(sidecar_open(&sidecar, trace), -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(sidecar.why.text, "t.pt.json: not a regular file"));
    sidecar_close(&sidecar);
    CU_ASSERT_EQUAL(unlink(path), 0);
    code_files_free(files);
}

/* What the program writes, it reads. */
static void test_written(void)
{
    const struct sidecar_facts facts = {
        .profile = "p",
        .processor = 1,
        .clocks = {.tsc_den = 2, .tsc_num = 168, .mtc_freq = 3, .max_nonturbo_ratio = 24},
        .rtit = &(struct ptd_rtit_config){.cr3 = 4096, .tnt_buff = 1}};
    const uint64_t cr3 = 8192;
    json_object *const root = sidecar_new(&facts);
    struct sidecar_image image;
    struct sidecar sidecar;

    CU_ASSERT_EQUAL(sidecar_put_image(root, "/nonexistent/k.elf", "kernel", NULL), 0);
    CU_ASSERT_EQUAL(sidecar_put_image(root, "/nonexistent/p.elf", "p", &cr3), 0);
    CU_ASSERT_EQUAL(sidecar_put_path(root, "/nonexistent/path"), 0);
    CU_ASSERT_STRING_EQUAL(
        json_object_to_json_string_ext(root,
                                       JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE),
        "{\"vpt\":1,\"profile\":\"p\",\"cpu\":{\"family\":0,\"model\":0,\"stepping\":0},"
        "\"processor\":1,\"mode\":64,\"tsc_ctc\":[2,168],\"mtc_freq\":3,"
        "\"max_nonturbo_ratio\":24,\"rtit\":{\"cr3\":4096,\"cycle_acc\":false,"
        "\"cycles_minus_one\":false,\"tnt_buff\":1,\"filter\":[],\"stop\":[]},"
        "\"images\":[{\"path\":\"/nonexistent/k.elf\",\"bias\":0,\"cr3\":null,\"name\":\"kernel\"},"
        "{\"path\":\"/nonexistent/p.elf\",\"bias\":0,\"cr3\":8192,\"name\":\"p\"}],"
        "\"path\":\"/nonexistent/path\"}");
    write_sidecar(json_object_to_json_string(root));
    json_object_put(root);
    CU_ASSERT_EQUAL(sidecar_open(&sidecar, trace), 0);
    CU_ASSERT_TRUE(sidecar.is_rtit && sidecar.rtit.cr3 == 4096 && sidecar.errata == 0);
    CU_ASSERT_TRUE(sidecar.clocks.tsc_num == 168 && sidecar.clocks.mtc_freq == 3);
    CU_ASSERT_EQUAL(sidecar_images(&sidecar), 2);
    CU_ASSERT_EQUAL(sidecar_image(&sidecar, 1, &image), 0);
    CU_ASSERT_EQUAL(image.cr3, cr3);
    sidecar_close(&sidecar);
    CU_ASSERT_EQUAL(sidecar_put_path(NULL, "x"), -ENOMEM);
}

/* A map is named where there is a sidecar, which keeps what else it says; and stands beside it. */
static void test_map(void)
{
    struct sidecar sidecar;
    struct reason why = {0};
    char path[PATH_MAX], wanted[80];

    CU_ASSERT_FALSE(sidecar_map("-", path));
    CU_ASSERT_EQUAL(sidecar_name_map("/nonexistent/t", "t.map", &why), -ENOENT);
    CU_ASSERT_PTR_NOT_NULL(strstr(why.text, "/nonexistent/t.json"));
    write_sidecar("{ \"vpt\": 1, \"mode\": 32, \"unknown\": [1] }");
    CU_ASSERT_FALSE(sidecar_map(trace, path));
    CU_ASSERT_EQUAL(sidecar_name_map(trace, "other.map", &why), 0);
    CU_ASSERT_EQUAL(sidecar_name_map(trace, "t.map", &why), 0);
    CU_ASSERT_TRUE(sidecar_map(trace, path));
    (void)snprintf(wanted, sizeof(wanted), "%s/t.map", folder);
    CU_ASSERT_STRING_EQUAL(path, wanted);
    CU_ASSERT_EQUAL(sidecar_open(&sidecar, trace), 0);
    CU_ASSERT_EQUAL(sidecar.mode, PTD_MODE_32);
    CU_ASSERT_TRUE(json_object_object_get_ex(sidecar.root, "unknown", NULL));
    sidecar_close(&sidecar);
    write_sidecar("{ \"vpt\": 1, \"map\": \"../t.map\" }");
    CU_ASSERT_FALSE(sidecar_map(trace, path));
    CU_ASSERT_EQUAL(sidecar_drop_names(trace, &why), 0); /* it has none */
    write_sidecar("{ \"vpt\": 1, \"map\": \"t.map\", \"names\": \"t.names\" }");
    CU_ASSERT_EQUAL(sidecar_drop_names(trace, &why), 0);
    CU_ASSERT_EQUAL(sidecar_open(&sidecar, trace), 0);
    CU_ASSERT_FALSE(json_object_object_get_ex(sidecar.root, "names", NULL));
    CU_ASSERT_TRUE(json_object_object_get_ex(sidecar.root, "map", NULL));
    sidecar_close(&sidecar);
    write_sidecar("{ \"vpt\": 1, \"map\": 5 }");
    CU_ASSERT_FALSE(sidecar_map(trace, path));
    write_sidecar("[");
    CU_ASSERT_FALSE(sidecar_map(trace, path));
    CU_ASSERT_EQUAL(sidecar_name_map(trace, "t.map", &why), -EBADMSG);
}

void add_sidecar_suite(void)
{
    CU_pSuite suite = CU_add_suite("TRACE.json", make_folder, remove_folder);

    CU_add_test(suite, "settings and images", test_all);
    CU_add_test(suite, "settings of RTIT", test_rtit);
    CU_add_test(suite, "deferred TIPs", test_deferred_tips);
    CU_add_test(suite, "written and read", test_written);
    CU_add_test(suite, "a trace without one", test_none);
    CU_add_test(suite, "a map that it names", test_map);
    CU_add_test(suite, "what is wrong is said", test_wrong);
    CU_add_test(suite, "what is wrong with code is said", test_wrong_code);
    CU_add_test(suite, "neither FIFOs nor devices", test_no_files);
}
