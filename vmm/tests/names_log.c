/* SPDX-License-Identifier: BSD-3-Clause */
/* Logs of names: who ran where, what changed, and lines that nobody's capture wrote. */
#include "elf_file.h"
#include "ptdec.h"
#include "suites.h"
#include "trace/code-files.h"
#include "trace/mapfile.h"
#include "trace/names-log.h"
#include "view/named.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HEAD         "{\"vpt-names\":1,\"begin\":1000}\n"

static struct names_log *parse(const char *text)
{
    struct names_log *log;
    struct reason why = {0};

    if (names_log_parse("log", text, strlen(text), &log, &why) != 0)
        CU_FAIL(why.text);
    return log;
}

/* Who ran at an offset of the trace with this CR3: "pid.tid comm". */
static const char *who(const struct names_log *log, uint64_t offset, uint64_t cr3)
{
    static char text[64];
    struct names_log_task task;

    if (!names_log_who(log, offset, cr3, &task))
        return "nobody";
    (void)snprintf(text, sizeof(text), "%u.%u %s", task.pid, task.tid, task.comm);
    return text;
}

/* A shell, its child, which becomes another program, a thread of the kernel, another process. */
static const char processes[] =
    HEAD "{\"at\":900,\"tsc\":5,\"pid\":10,\"tid\":10,\"comm\":\"sh\",\"cr3\":[4096,8192],"
         "\"new\":true}\n"
         "{\"at\":1100,\"pid\":11,\"tid\":11,\"comm\":\"sh\",\"cr3\":[16384],\"new\":true}\n"
         "{\"at\":1200,\"pid\":11,\"tid\":11,\"comm\":\"true\",\"cr3\":[20480],\"new\":true}\n"
         "{\"at\":1250,\"later\":\"versions may say more\"}\n"
         "{\"at\":1300,\"pid\":9,\"tid\":9,\"comm\":\"kworker\"}\n"
         "{\"at\":1400,\"pid\":12,\"tid\":13,\"comm\":\"cc\",\"cr3\":[16384],\"new\":true}\n"
         "{\"at\":1400,\"left_out\":3}\n";

static void who_ran(void)
{
    struct names_log *const log = parse(processes);

    CU_ASSERT_STRING_EQUAL(who(log, 0, 4096), "10.10 sh"); /* it held where the trace begins */
    CU_ASSERT_STRING_EQUAL(who(log, 99, 8192 + 0xfff), "10.10 sh");
    CU_ASSERT_STRING_EQUAL(who(log, 99, PTD_ANY_CR3), "10.10 sh");
    CU_ASSERT_STRING_EQUAL(who(log, 100, 16384), "11.11 sh");
    CU_ASSERT_STRING_EQUAL(who(log, 200, 20480), "11.11 true");
    CU_ASSERT_STRING_EQUAL(who(log, 299, 16384), "11.11 sh"); /* for a moment, in its kernel */
    CU_ASSERT_STRING_EQUAL(who(log, 299, 4096), "10.10 sh");
    CU_ASSERT_STRING_EQUAL(who(log, 299, 0x7000), "nobody");
    CU_ASSERT_STRING_EQUAL(who(log, 300, 20480), "9.9 kworker");
    CU_ASSERT_STRING_EQUAL(who(log, 399, 0x7000), "9.9 kworker");
    CU_ASSERT_STRING_EQUAL(who(log, 400, 16384), "12.13 cc"); /* page tables are used again */
    CU_ASSERT_STRING_EQUAL(who(log, UINT64_MAX, 16384), "12.13 cc");
    CU_ASSERT_EQUAL(names_log_left_out(log), 3);
    names_log_free(log);
}

static void before_the_first(void)
{
    struct names_log *const log =
        parse(HEAD "{\"at\":1001,\"pid\":1,\"tid\":1,\"comm\":\"init\",\"cr3\":[4096]}\n");

    CU_ASSERT_STRING_EQUAL(who(log, 0, 4096), "nobody");
    CU_ASSERT_STRING_EQUAL(who(log, 1, 4096), "1.1 init");
    CU_ASSERT_PTR_NULL(names_log_change(log, 0));
    names_log_free(log);
}

static const char mappings[] =
    HEAD "{\"at\":1000,\"pid\":1,\"tid\":1,\"comm\":\"a\",\"cr3\":[4096,8192],\"new\":true}\n"
         "{\"at\":1010,\"cr3\":[4096,8192],\"start\":65536,\"end\":131072,\"offset\":0,"
         "\"path\":\"/lib/libc.so\",\"cache\":18446744071562067968,\"build_id\":\"00ff\"}\n"
         "{\"at\":1020,\"cr3\":[4096],\"start\":131072,\"end\":135168,\"offset\":4096}\n"
         "{\"at\":1030,\"pid\":2,\"tid\":2,\"comm\":\"b\",\"cr3\":[4096],\"new\":true}\n";

static void changes(void)
{
    struct names_log *const log = parse(mappings);
    const struct names_log_change *const map = names_log_change(log, 1);

    CU_ASSERT_TRUE(names_log_change(log, 0)->is_new);
    CU_ASSERT_FALSE(map->is_new);
    CU_ASSERT_EQUAL(map->at, 10);
    CU_ASSERT_EQUAL(map->user_cr3, 8192);
    CU_ASSERT_STRING_EQUAL(map->path, "/lib/libc.so");
    CU_ASSERT_EQUAL(map->build_id_bytes, 2);
    CU_ASSERT_EQUAL(map->build_id[1], 0xff);
    CU_ASSERT_EQUAL(map->cache, 0xffffffff80000000);
    CU_ASSERT_TRUE(names_log_tells(log));
    CU_ASSERT_PTR_NULL(names_log_change(log, 2)->path);
    CU_ASSERT_EQUAL(names_log_change(log, 2)->offset, 4096);
    CU_ASSERT_PTR_NOT_NULL(names_log_change(log, 3));
    CU_ASSERT_PTR_NULL(names_log_change(log, 4));
    names_log_free(log);
}

static const char *symbol(const struct ptd_image *image, uint64_t cr3, uint64_t vaddr)
{
    const char *const name = ptd_image_symbol(image, cr3, vaddr, NULL);

    return name ? name : "none";
}

/* What is shown of the log as a trace goes on. */
static void followed(void)
{
    struct ptd_image *const image = ptd_image_new();
    struct map map = {0};
    struct named named = {0};
    struct out_who shown;

    named_open(&named, parse(mappings), image, &map);
    CU_ASSERT_TRUE(named_go_to(&named, 9));
    CU_ASSERT_STRING_EQUAL(symbol(image, 4096, 65536), "none");
    CU_ASSERT_TRUE(named_go_to(&named, 10));
    CU_ASSERT_STRING_EQUAL(symbol(image, 4096, 65536), "[libc.so]");
    CU_ASSERT_STRING_EQUAL(symbol(image, 8192, 131071), "[libc.so]");
    CU_ASSERT_STRING_EQUAL(symbol(image, 16384, 65536), "none");
    CU_ASSERT_TRUE(named_go_to(&named, 25));
    CU_ASSERT_STRING_EQUAL(symbol(image, 4096, 131072), "[anon]");
    named_who(&named, 4096, UINT64_MAX, &shown);
    CU_ASSERT_STRING_EQUAL(shown.comm, "a");
    CU_ASSERT_TRUE(named_go_to(&named, 1000));
    CU_ASSERT_STRING_EQUAL(symbol(image, 4096, 65536), "none");
    CU_ASSERT_STRING_EQUAL(symbol(image, 8192, 65536), "[libc.so]");
    named_who(&named, 4096, UINT64_MAX, &shown);
    CU_ASSERT_STRING_EQUAL(shown.comm, "b");
    CU_ASSERT_EQUAL(shown.tid, 2);
    CU_ASSERT_TRUE(named_go_to(&named, 25)); /* an item may stand behind one of a later place */
    named_who(&named, 4096, UINT64_MAX, &shown);
    CU_ASSERT_STRING_EQUAL(shown.comm, "b");
    named_who(&named, 0x9000, UINT64_MAX, &shown);
    CU_ASSERT_STRING_EQUAL(shown.comm, "?");
    CU_ASSERT_EQUAL(shown.cr3, 0x9000);
    named_close(&named);
    ptd_image_free(image);
}

/* A process that ends runs in the page tables of the kernel, which a map knows, and no log. */
static void in_the_kernels_tables(void)
{
    static const char text[] = "{\"vpt-map\":1,\"host\":{\"processes\":["
                               "{\"name\":\"swapper\",\"pid\":0,\"cr3\":\"0x9000\"},"
                               "{\"name\":\"init\",\"pid\":1,\"cr3\":\"0xa000\"}]}}";
    struct code_files *const files = code_files_new(CODE_BYTES_MAX);
    struct ptd_image *const image = ptd_image_new();
    struct map map = {0};
    struct named named = {0};
    struct out_who shown;

    CU_ASSERT_EQUAL_FATAL(map_parse("map", text, sizeof(text) - 1, files, image, &map), 0);
    named_open(&named, parse(mappings), image, &map);
    CU_ASSERT_TRUE(named_go_to(&named, 25));
    named_who(&named, 0x9000, UINT64_MAX, &shown);
    CU_ASSERT_STRING_EQUAL(shown.comm, "a");
    CU_ASSERT_TRUE(shown.knows_thread);
    named_who(&named, 0xa000, UINT64_MAX, &shown);
    CU_ASSERT_STRING_EQUAL(shown.comm, "init");
    CU_ASSERT_FALSE(shown.knows_thread);
    named_close(&named);
    ptd_image_free(image);
    map_free(&map);
    code_files_free(files);
}

#define FILES                                                                                      \
    "\"files\":[{\"path\":\"/other/"                                                               \
    "name\",\"build_id\":\"00ff\",\"start\":1048576,\"end\":1052672,"                              \
    "\"offset\":4096,\"symbols_at\":4096}]"

/*
 * A map knows functions of the same build, which was mapped elsewhere when it was made; or nowhere
 * any more, so that nothing stands there.
 */
static void functions_of(const char *text, const char *at_its_place)
{
    char folder[] = "/tmp/vpt-names-log-XXXXXX", path[64];
    struct code_files *const files = code_files_new(CODE_BYTES_MAX);
    struct ptd_image *const image = ptd_image_new();
    struct map map = {0};
    struct named named = {0};

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/symbols", folder);
    write_elf_file(path, "libcall", "\xc3\xc3", 2);
    (void)snprintf(path, sizeof(path), "%s/map", folder);
    CU_ASSERT_EQUAL_FATAL(map_parse(path, text, strlen(text), files, image, &map), 0);
    CU_ASSERT_STRING_EQUAL(symbol(image, 0x5000, 1048576), at_its_place);
    named_open(&named, parse(mappings), image, &map);
    CU_ASSERT_TRUE(named_go_to(&named, 10));
    CU_ASSERT_STRING_EQUAL(symbol(image, 4096, 65536 + 4097), "libcall");
    CU_ASSERT_STRING_EQUAL(symbol(image, 4096, 65536 + 4098), "[libc.so]");
    CU_ASSERT_STRING_EQUAL(symbol(image, 4096, 65536), "[libc.so]");
    CU_ASSERT_PTR_NULL(map_symbols_of(&map, "none").symbols);
    CU_ASSERT_EQUAL(map_symbols_of(&map, "/other/name").address, 4096);
    named_close(&named);
    ptd_image_free(image);
    map_free(&map);
    code_files_free(files);
    (void)snprintf(path, sizeof(path), "%s/symbols", folder);
    (void)unlink(path);
    (void)rmdir(folder);
}

static void functions(void)
{
    functions_of("{\"vpt-map\":1,\"host\":{\"symbols\":\"symbols\",\"processes\":"
                 "[{\"cr3\":\"0x5000\"," FILES "}]}}",
                 "libcall");
    functions_of("{\"vpt-map\":1,\"host\":{\"symbols\":\"symbols\"," FILES "}}", "none");
}

/* A capture that never found a kernel. */
static void nothing_told(void)
{
    struct names_log *const log = parse(HEAD);

    CU_ASSERT_FALSE(names_log_tells(log));
    names_log_free(log);
}

/* A capture that was killed leaves a part of a line. */
static void cut_off(void)
{
    struct names_log *const log = parse(HEAD "{\"at\":1000,\"pid\":1,\"tid\":1,\"comm\":\"a\"}\n"
                                             "{\"at\":1001,\"pid\":2,\"ti");

    CU_ASSERT_STRING_EQUAL(who(log, 1, 4096), "1.1 a");
    names_log_free(log);
}

static void hostile(void)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "line 0: no log of names: it has no line"},
        {"{\"vpt-names\":1}", "line 0: no log of names: it has no line"},
        {"[]\n", "line 1: no object"},
        {"{}\n", "line 1: no log of names, or one of a version that is not known"},
        {"{\"vpt-names\":2}\n", "line 1: no log of names, or one of a version that is not known"},
        {"{\"vpt-names\":-1}\n", "line 1: \"vpt-names\" is no such number"},
        {"{\"vpt-names\":1,\"begin\":\"0\"}\n", "line 1: \"begin\" is no such number"},
        {HEAD "nothing\n", "line 2: not JSON"},
        {HEAD "{}\n", "line 2: its place is missing, or goes backwards"},
        {HEAD "{\"at\":5}\n{\"at\":4}\n", "line 3: its place is missing, or goes backwards"},
        {HEAD "{\"at\":1.5}\n", "line 2: \"at\" is no such number"},
        {HEAD "{\"at\":1,\"tid\":4294967296}\n", "line 2: \"tid\" is no such number"},
        {HEAD "{\"at\":1,\"tid\":1,\"comm\":5}\n", "line 2: \"comm\" is no text"},
        {HEAD "{\"at\":1,\"tid\":1,\"cr3\":4096}\n", "line 2: \"cr3\" is no list of one or two"},
        {HEAD "{\"at\":1,\"tid\":1,\"cr3\":[]}\n", "line 2: \"cr3\" is no list of one or two"},
        {HEAD "{\"at\":1,\"tid\":1,\"cr3\":[4096,8192,12288]}\n",
         "line 2: \"cr3\" is no list of one or two"},
        {HEAD "{\"at\":1,\"tid\":1,\"cr3\":[4097]}\n", "line 2: \"cr3\" is no page"},
        {HEAD "{\"at\":1,\"tid\":1,\"cr3\":[-4096]}\n", "line 2: \"cr3\" is no page"},
        {HEAD "{\"at\":1,\"tid\":1,\"cr3\":[null]}\n", "line 2: \"cr3\" is no page"},
        {HEAD "{\"at\":1,\"start\":4096,\"end\":8192}\n", "line 2: a mapping without a place"},
        {HEAD "{\"at\":1,\"start\":8192,\"end\":8192,\"cr3\":[4096]}\n",
         "line 2: a mapping without a place"},
        {HEAD "{\"at\":1,\"start\":1,\"end\":2,\"cr3\":[4096],\"build_id\":\"0\"}\n",
         "line 2: \"build_id\" is none"},
        {HEAD "{\"at\":1,\"start\":1,\"end\":2,\"cr3\":[4096],\"build_id\":"
              "\"000000000000000000000000000000000000000000\"}\n",
         "line 2: \"build_id\" is none"},
        {HEAD "{\"at\":1,\"start\":1,\"end\":2,\"cr3\":[4096],\"path\":[]}\n",
         "line 2: \"path\" is no text"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct reason why = {0};
        struct names_log *log;
        char says[128];

        (void)snprintf(says, sizeof(says), "log: %s", cases[i].says);
        CU_ASSERT_EQUAL(names_log_parse("log", cases[i].text, strlen(cases[i].text), &log, &why),
                        -EBADMSG);
        CU_ASSERT_PTR_NULL(log);
        CU_ASSERT_NSTRING_EQUAL(why.text, says, strlen(says));
    }
}

void add_names_log_suite(void)
{
    CU_pSuite suite = CU_add_suite("logs of names", NULL, NULL);

    CU_add_test(suite, "who ran", who_ran);
    CU_add_test(suite, "before the first", before_the_first);
    CU_add_test(suite, "what changed", changes);
    CU_add_test(suite, "followed along a trace", followed);
    CU_add_test(suite, "page tables of the kernel", in_the_kernels_tables);
    CU_add_test(suite, "functions of a map", functions);
    CU_add_test(suite, "nothing is told", nothing_told);
    CU_add_test(suite, "cut off", cut_off);
    CU_add_test(suite, "hostile", hostile);
}
