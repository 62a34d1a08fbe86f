/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of trace events: which track each call stack has. */
#include "suites.h"
#include "view/out.h"
#include "ptdec.h"

#include <CUnit/CUnit.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#define CODE   0x1000u
#define SPACES 3u

/* All of one thread, as a trace of several threads says. */
static void one_thread(const void *owner, uint64_t cr3, uint64_t ns, struct out_who *who)
{
    (void)owner;
    (void)cr3;
    (void)ns;
    *who = (struct out_who){.pid = 7, .tid = 4194303, .comm = "busy"};
}

/* The events of a trace in which a function runs in each of several address spaces. */
static json_object *events_of(const struct out_thread *thread)
{
    json_object *root;
    char *text = NULL;
    size_t len;
    FILE *const to = open_memstream(&text, &len);
    void *const out = out_chrome.open(to);

    CU_ASSERT_TRUE(out_chrome.begin(out, thread));
    for (uint64_t i = 0; i < SPACES; i++) {
        const struct ptd_item block = {.type = PTD_ITEM_BLOCK,
                                       .cr3 = (i + 1) << 12,
                                       .ip = CODE,
                                       .last_ip = CODE,
                                       .insns = 1,
                                       .mode = PTD_MODE_64};

        CU_ASSERT_TRUE(out_chrome.item(out, &block, i));
    }
    CU_ASSERT_TRUE(out_chrome.end(out));
    CU_ASSERT_TRUE(out_chrome.close(out));
    (void)fclose(to);
    root = json_tokener_parse(text);
    free(text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(root);
    return root;
}

/* How many tracks were named; all of their numbers have to fit into 32 bits. */
static unsigned tracks_of(const struct out_thread *thread)
{
    json_object *const root = events_of(thread), *const events =
                                                     json_object_object_get(root, "traceEvents");
    int64_t seen[2 * SPACES];
    unsigned count = 0;

    for (size_t i = 0; i < json_object_array_length(events); i++) {
        json_object *const event = json_object_array_get_idx(events, i);
        const int64_t tid = json_object_get_int64(json_object_object_get(event, "tid"));
        bool is_new = json_object_get_string(json_object_object_get(event, "ph"))[0] == 'M';

        CU_ASSERT_TRUE(tid >= 0 && tid <= UINT32_MAX);
        for (unsigned j = 0; j < count; j++)
            is_new = is_new && seen[j] != tid;
        if (is_new && count < 2 * SPACES)
            seen[count++] = tid;
    }
    json_object_put(root);
    return count;
}

static void test_tracks(void)
{
    static const uint8_t code[] = {0x90, 0xc3};
    struct ptd_image *const image = ptd_image_new();
    const struct out_thread raw = {.image = image, .comm = "raw", .pid = 1, .tid = 1, .cpu = -1};
    const struct out_thread moved = {.image = image, .comm = "cpu", .cpu = 8191, .who = one_thread};

    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, "f", CODE, code, sizeof(code), PTD_ANY_CR3), PTD_OK);
    CU_ASSERT_EQUAL(tracks_of(&raw), SPACES);
    CU_ASSERT_EQUAL(tracks_of(&moved), 1);
    ptd_image_free(image);
}

void add_chrome_suite(void)
{
    const CU_pSuite suite = CU_add_suite("trace events", NULL, NULL);

    CU_add_test(suite, "tracks", test_tracks);
}
