/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Linux guest's memory: the kernel is found, and what it tells is read; what is broken in it ends
 * each walk.
 */
#include "linux/btf.h"
#include "common/json.h"
#include "linux/guest.h"
#include "linux/layout-json.h"
#include "linux/look/maps.h"
#include "linux/look/modules.h"
#include "linux/look/numbers.h"
#include "linux/look/tasks.h"
#include "made_btf.h"
#include "made_linux.h"
#include "suites.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A guest that was opened. */
struct opened {
    struct made_linux made;
    struct core core;
    struct linux_guest guest;
    struct reason why;
    int error;
};

static struct opened *reopen(struct opened *opened)
{
    const struct guest_source source = core_source(&opened->core);

    guest_close(&opened->guest);
    opened->error = guest_open(&opened->guest, &source, &opened->why);
    return opened;
}

static struct opened *open_made(struct made_kind kind)
{
    struct opened *const opened = calloc(1, sizeof(*opened));

    if (!opened)
        abort();
    made_linux(&opened->made, kind);
    made_core(&opened->made, &opened->core);
    return reopen(opened);
}

static void close_made(struct opened *opened)
{
    guest_close(&opened->guest);
    core_close(&opened->core);
    made_linux_free(&opened->made);
    free(opened);
}

/* ---- Page tables ---- */

struct flat {
    uint8_t bytes[16 * 4096];
};

static bool read_flat(void *owner, uint64_t paddr, void *into, size_t len_bytes)
{
    const struct flat *const flat = owner;

    if (paddr > sizeof(flat->bytes) || len_bytes > sizeof(flat->bytes) - paddr)
        return false;
    memcpy(into, flat->bytes + paddr, len_bytes);
    return true;
}

static void put_entry(struct flat *flat, uint64_t table, unsigned index, uint64_t entry)
{
    memcpy(flat->bytes + table + (size_t)8 * index, &entry, sizeof(entry));
}

/* Linear 0 and 1000H are the physical pages 8000H and A000H; 40000000H is a page of 1 GiB. */
static void make_flat(struct flat *flat)
{
    memset(flat, 0, sizeof(*flat));
    put_entry(flat, 0x1000, 0, 0x2000 | 1); /* level 5 */
    put_entry(flat, 0x2000, 0, 0x3000 | 1);
    put_entry(flat, 0x3000, 0, 0x4000 | 1);
    put_entry(flat, 0x3000, 1, 0x80 | 1);
    put_entry(flat, 0x4000, 0, 0x5000 | 1);
    put_entry(flat, 0x4000, 1, 0x80 | 1);
    put_entry(flat, 0x5000, 0, 0x8000 | 1 | UINT64_C(1) << 63);
    put_entry(flat, 0x5000, 1, 0xa000 | 1);
    put_entry(flat, 0x5000, 2, 0xb000);
    put_entry(flat, 0x5000, 3, 0x8000 | 1 | UINT64_C(1) << 47);
    memcpy(flat->bytes + 0x8ffc, "over", 4);
    memcpy(flat->bytes + 0xa000, "there", 6);
}

static void page_walk(void)
{
    static struct flat flat;
    const struct look_memory memory = {&flat, read_flat};
    struct look_space space = {&memory, 0x2000, 0, false};
    uint64_t paddr;
    char text[16];

    make_flat(&flat);
    for (unsigned levels = 4; levels <= 5; levels++) {
        CU_ASSERT_TRUE(look_translate(&space, 0x1234, &paddr) && paddr == 0xa234);
        CU_ASSERT_TRUE(look_translate(&space, 0x40008765, &paddr) && paddr == 0x8765);
        CU_ASSERT_TRUE(look_translate(&space, 0x201003, &paddr) && paddr == 0x1003);
        CU_ASSERT_FALSE(look_translate(&space, 0x2000, &paddr));
        CU_ASSERT_FALSE(look_translate(&space, UINT64_C(1) << (levels == 4 ? 47 : 56), &paddr));
        CU_ASSERT_TRUE(look_text(&space, 0xffc, text, sizeof(text)));
        CU_ASSERT_STRING_EQUAL(text, "overthere");
        CU_ASSERT_TRUE(look_text(&space, 0xffc, text, 7));
        CU_ASSERT_STRING_EQUAL(text, "overth");
        CU_ASSERT_FALSE(look_read(&space, 0x1ff8, text, sizeof(text)));
        CU_ASSERT_FALSE(look_read(&space, UINT64_MAX - 3, text, 8));
        space = (struct look_space){&memory, 0x1000, 0, true};
    }
    /* A bit of the address that is none, where memory is encrypted. */
    space = (struct look_space){&memory, 0x2000, 0, false};
    CU_ASSERT_TRUE(look_translate(&space, 0x3000, &paddr) && paddr == (UINT64_C(1) << 47 | 0x8000));
    space.ignored = UINT64_C(1) << 47;
    CU_ASSERT_TRUE(look_translate(&space, 0x3000, &paddr) && paddr == 0x8000);
    memset(&flat, 0, sizeof(flat));
    CU_ASSERT_FALSE(look_text(&space, 0, text, sizeof(text)));
}

/* ---- BTF ---- */

static int open_btf(const uint8_t *bytes, size_t len_bytes)
{
    struct reason why = {0};
    struct btf btf;
    const int error = btf_open(&btf, bytes, len_bytes, &why);

    CU_ASSERT_TRUE(error == 0 || why.text[0]);
    btf_close(&btf);
    return error;
}

static size_t small_btf(struct made_btf *made)
{
    uint32_t inner, wrapped;

    made_btf_begin(made);
    inner = made_btf_struct(made, "", 24, (struct made_member[]){{"x", 8, 1}, {"y", 16, 1}}, 2);
    wrapped = made_btf_wrap(made, "pair_t", MADE_TYPEDEF, inner);
    wrapped = made_btf_wrap(made, "", MADE_CONST, wrapped);
    made_btf_struct(made, "pair", 4, (struct made_member[]){{"x", 0, 1}}, 1);
    made_btf_struct(made, "thing", 64,
                    (struct made_member[]){{"first", 0, 1},
                                           {"", 8, wrapped},
                                           {"second", 32, wrapped},
                                           {"list", 56, made_btf_array(made, 1, 7)}},
                    4);
    made_btf_struct(made, "thing", 8, (struct made_member[]){{"other", 4, 1}}, 1);
    return made_btf_end(made);
}

static void btf_members(void)
{
    static const struct {
        const char *path;
        uint32_t offset, elements;
    } cases[] = {{"first", 0, 1}, {"x", 16, 1},        {"y", 24, 1},
                 {"list", 56, 7}, {"second.x", 40, 1}, {"second.y", 48, 1}};
    static const char *const none[] = {"", "z", "second.z", "first.x", "firs", "second."};
    static struct made_btf made;
    const size_t len = small_btf(&made);
    struct btf_member member;
    struct reason why = {0};
    struct btf btf;
    uint32_t thing;

    CU_ASSERT_EQUAL_FATAL(btf_open(&btf, made.all, len, &why), 0);
    thing = btf_struct(&btf, "thing", 0);
    CU_ASSERT_NOT_EQUAL_FATAL(thing, 0);
    CU_ASSERT_EQUAL(btf_bytes(&btf, thing), 64);
    for (size_t i = 0; i < COUNT(cases); i++) {
        CU_ASSERT_EQUAL(btf_member(&btf, thing, cases[i].path, &member), 0);
        CU_ASSERT_EQUAL(member.offset, cases[i].offset);
        CU_ASSERT_EQUAL(member.elements, cases[i].elements);
    }
    for (size_t i = 0; i < COUNT(none); i++)
        CU_ASSERT_EQUAL(btf_member(&btf, thing, none[i], &member), -ENOENT);
    thing = btf_struct(&btf, "thing", thing);
    CU_ASSERT_EQUAL(btf_member(&btf, thing, "other", &member), 0);
    CU_ASSERT_EQUAL(btf_struct(&btf, "thing", thing), 0);
    CU_ASSERT_EQUAL(btf_struct(&btf, "pair_t", 0), 0);
    btf_close(&btf);
}

/* Each number of the head made wrong; each end that is too early; a type that is none. */
static void btf_mistakes(void)
{
    static struct made_btf made;
    static uint8_t broken[sizeof(made.all)];
    const size_t len = small_btf(&made);

    CU_ASSERT_EQUAL(open_btf(made.all, len), 0);
    for (size_t i = 0; i < len; i++)
        CU_ASSERT_EQUAL(open_btf(made.all, i), -EINVAL);
    for (size_t i = 0; i < 24; i += 4) {
        memcpy(broken, made.all, len);
        memset(broken + i, 0xff, 4);
        CU_ASSERT_EQUAL(open_btf(broken, len), -EINVAL);
    }
    memcpy(broken, made.all, len);
    broken[24 + 7] = 31; /* the kind of type 1 */
    CU_ASSERT_EQUAL(open_btf(broken, len), -EINVAL);
    memcpy(broken, made.all, len);
    broken[len - 1] = 'x';
    CU_ASSERT_EQUAL(open_btf(broken, len), -EINVAL);
}

/* A structure that is in itself without a name, and a name for itself, end all the same. */
static void btf_circles(void)
{
    static struct made_btf made;
    struct btf_member member;
    struct reason why = {0};
    struct btf btf;
    size_t len;

    made_btf_begin(&made);
    made_btf_struct(&made, "self", 8, (struct made_member[]){{"", 0, 2}, {"", 0, 2}, {"a", 0, 1}},
                    3);
    made_btf_wrap(&made, "name", MADE_TYPEDEF, 3);
    made_btf_struct(&made, "user", 8, (struct made_member[]){{"m", 0, 3}, {"far", 8, 4000}}, 2);
    len = made_btf_end(&made);
    CU_ASSERT_EQUAL_FATAL(btf_open(&btf, made.all, len, &why), 0);
    CU_ASSERT_EQUAL(btf_member(&btf, 2, "a", &member), 0);
    CU_ASSERT_EQUAL(btf_member(&btf, 2, "b", &member), -ENOENT);
    CU_ASSERT_EQUAL(btf_member(&btf, 4, "m.a", &member), -ENOENT);
    CU_ASSERT_EQUAL(btf_member(&btf, 4, "far.a", &member), -ENOENT);
    btf_close(&btf);
}

/* ---- VMCOREINFO ---- */

#define LINES                                                                                      \
    "OSRELEASE=6.9.0\nSYMBOL(swapper_pg_dir)=ffffffff82000000\nNUMBER(phys_base)=-4096\n"          \
    "SYMBOL(_stext)=ffffffff81000000\nSYMBOL(kallsyms_names)=1\nSYMBOL(kallsyms_num_syms)=2\n"     \
    "SYMBOL(kallsyms_token_table)=3\nSYMBOL(kallsyms_token_index)=4\n"                             \
    "SYMBOL(kallsyms_offsets)=5\nSYMBOL(kallsyms_relative_base)=6"

static void vmcoreinfo(void)
{
    static const char good[] = LINES;
    struct vmcoreinfo info;
    char text[sizeof(good)];

    CU_ASSERT_TRUE(vmcoreinfo_parse(&info, good, sizeof(good) - 1));
    CU_ASSERT_STRING_EQUAL(info.release, "6.9.0");
    CU_ASSERT_EQUAL(info.phys_base, UINT64_MAX - 4095);
    CU_ASSERT_EQUAL(info.page_table, 0xffffffff82000000);
    CU_ASSERT_EQUAL(info.relative_base, 6);
    CU_ASSERT_EQUAL(info.ignored_bits, 0);
    CU_ASSERT_FALSE(info.has_five_levels);
    CU_ASSERT_TRUE(vmcoreinfo_parse(
        &info, LINES "\nNUMBER(pgtable_l5_enabled)=1\nNUMBER(sme_mask)=140737488355328\n",
        sizeof(LINES) + 63));
    CU_ASSERT_TRUE(info.has_five_levels);
    CU_ASSERT_EQUAL(info.ignored_bits, UINT64_C(1) << 47);
    /* Every line but the first is needed, and has to have a value. */
    for (size_t i = 1; i < sizeof(good) - 1; i++) {
        memcpy(text, good, sizeof(good));
        if (good[i] != '=' || i < 16)
            continue;
        text[i] = '-';
        CU_ASSERT_FALSE(vmcoreinfo_parse(&info, text, sizeof(good) - 1));
        text[i] = '=';
        text[i + 1] = 'x';
        CU_ASSERT_FALSE(vmcoreinfo_parse(&info, text, sizeof(good) - 1));
    }
}

/* ---- The kernel ---- */

static void kernels(void)
{
    static const struct made_kind kinds[] = {
        {false, false, false}, {true, false, false}, {false, true, false}, {false, false, true}};

    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct opened *const opened = open_made(kinds[i]);
        const struct kernel_symbols *const symbols = &opened->guest.symbols;

        CU_ASSERT_EQUAL(opened->error, 0);
        CU_ASSERT_STRING_EQUAL(opened->guest.info.release, "6.1.0-made");
        CU_ASSERT_EQUAL(symbols->count, kinds[i].counts_up ? 12 : 13);
        CU_ASSERT_EQUAL(kallsyms_find(symbols, "_stext"), MADE_TEXT);
        CU_ASSERT_EQUAL(kallsyms_find(symbols, "init_task"), MADE_KERNEL + opened->made.tasks[0]);
        CU_ASSERT_EQUAL(kallsyms_find(symbols, "of_each_cpu"),
                        kinds[i].counts_up ? LOOK_NONE : 0x1000);
        CU_ASSERT_EQUAL(kallsyms_find(symbols, "none"), LOOK_NONE);
        CU_ASSERT_STRING_EQUAL(opened->guest.no_layout.text, "");
        for (unsigned part = 0; part < LAYOUT_PARTS; part++)
            CU_ASSERT_TRUE(guest_has(&opened->guest, (enum layout_part)part));
        close_made(opened);
    }
}

static void long_names(void)
{
    struct opened *const opened = open_made((struct made_kind){0});
    const char *const name = kallsyms_name(&opened->guest.symbols, 4);

    CU_ASSERT_EQUAL(strlen(name), MADE_LONG_NAME);
    CU_ASSERT_EQUAL(strspn(name, "x"), MADE_LONG_NAME);
    CU_ASSERT_EQUAL(opened->guest.symbols.list[4].letter, 't');
    close_made(opened);
}

/* Overwrites the first place where memory has a text with another one that is not longer. */
static void overwrite(uint8_t *bytes, size_t len_bytes, const char *from, const char *to)
{
    uint8_t *at = memmem(bytes, len_bytes, from, strlen(from));

    if (!at)
        abort();
    while (*to)
        *at++ = (uint8_t)*to++;
}

/* In the page with the lines. */
static void replace(struct made_linux *made, const char *from, const char *to)
{
    overwrite(made->ram + made->vmcoreinfo, LOOK_PAGE_BYTES, from, to);
}

static void no_kernel(void)
{
    struct opened *const opened = open_made((struct made_kind){0});
    struct made_linux *const made = &opened->made;

    replace(made, "SYMBOL(_stext)=ffffffff80100000", "SYMBOL(_stext)=ffffffff80100008");
    CU_ASSERT_EQUAL(reopen(opened)->error, -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(opened->why.text, "_stext is not where"));
    replace(made, "SYMBOL(kallsyms_names)", "SYMBOL(kallsyms_nameX)");
    CU_ASSERT_EQUAL(reopen(opened)->error, -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(opened->why.text, "without what Linux 6.0"));
    replace(made, "OSRELEASE", "osrelease");
    CU_ASSERT_EQUAL(reopen(opened)->error, -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(opened->why.text, "has no VMCOREINFO"));
    close_made(opened);
}

/* Memory has the lines of a kernel that ran before, in front of those of the one that runs. */
static void old_kernel(void)
{
    struct opened *const opened = open_made((struct made_kind){0});
    struct made_linux *const made = &opened->made;

    memcpy(made->ram, made->ram + made->vmcoreinfo, LOOK_PAGE_BYTES);
    overwrite(made->ram, LOOK_PAGE_BYTES, "_stext)=ffffffff8", "_stext)=ffffffff9");
    CU_ASSERT_EQUAL(reopen(opened)->error, 0);
    CU_ASSERT_EQUAL(kallsyms_find(&opened->guest.symbols, "_stext"), MADE_TEXT);
    close_made(opened);
}

/* A note of the dump counts before all pages, and where it leads to no kernel, pages do. */
static void note_of_dump(void)
{
    struct opened *const opened = open_made((struct made_kind){0});
    struct core *const core = &opened->core;
    uint8_t *const page = opened->made.ram + opened->made.vmcoreinfo;
    const size_t head = 12 + 12; /* of the note in memory, and its name */

    core->vmcoreinfo_bytes = 2048;
    memcpy(core->vmcoreinfo, page + head, core->vmcoreinfo_bytes);
    memset(page, 0, head + 9);
    CU_ASSERT_EQUAL(reopen(opened)->error, 0);
    CU_ASSERT_EQUAL(kallsyms_find(&opened->guest.symbols, "_stext"), MADE_TEXT);
    core->vmcoreinfo[0] = 'X'; /* the first line is for people */
    CU_ASSERT_EQUAL(reopen(opened)->error, 0);
    CU_ASSERT_STRING_EQUAL(opened->guest.info.release, "");
    memset(core->vmcoreinfo, 0, sizeof(core->vmcoreinfo));
    CU_ASSERT_EQUAL(reopen(opened)->error, -EINVAL);
    close_made(opened);
}

static void no_btf(void)
{
    struct opened *const opened = open_made((struct made_kind){0});

    opened->made.ram[opened->made.btf] = 0;
    CU_ASSERT_EQUAL(reopen(opened)->error, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(opened->guest.no_layout.text, "not BTF"));
    CU_ASSERT_FALSE(guest_has(&opened->guest, LAYOUT_TASKS));
    CU_ASSERT_EQUAL(kallsyms_find(&opened->guest.symbols, "_stext"), MADE_TEXT);
    close_made(opened);
}

/* A structure that the kernel does not have under this name takes away what needs it, and no more.
 */
/* ---- The numbers of a lay-out ---- */

static void numbers(void)
{
    bool is_there[sizeof(struct look_layout) / sizeof(uint64_t)] = {false};
    size_t count = 0;

    for (const struct look_number *number = look_numbers; number->name; number++, count++) {
        is_there[number->offset / sizeof(uint64_t)] = true;
        CU_ASSERT_PTR_EQUAL(look_number_find(number->name), number);
    }
    CU_ASSERT_EQUAL(count, COUNT(is_there));
    for (size_t i = 0; i < COUNT(is_there); i++)
        CU_ASSERT_TRUE(is_there[i]);
    CU_ASSERT_PTR_NULL(look_number_find("none"));
    CU_ASSERT_TRUE(look_number_is_good(look_number_find("init_task"), MADE_KERNEL));
    CU_ASSERT_FALSE(look_number_is_good(look_number_find("init_task"), LOOK_NONE));
    CU_ASSERT_TRUE(look_number_is_good(look_number_find("task_pid"), LOOK_OFFSET_MAX));
    CU_ASSERT_FALSE(look_number_is_good(look_number_find("task_pid"), LOOK_OFFSET_MAX + 1));
}

/* What is handed over is what a walk needs. */
static void handed_over(void)
{
    struct opened *const opened = open_made((struct made_kind){0});
    struct look_kernel *const kernel = &opened->guest.kernel;
    json_object *const names = layout_to_json(&opened->guest), *layout;

    CU_ASSERT_EQUAL(json_number(names, "root"), (int64_t)kernel->space.root);
    CU_ASSERT_EQUAL(json_number(names, "early-root"), 0x1000);
    CU_ASSERT_TRUE(json_object_object_get_ex(names, "layout", &layout));
    CU_ASSERT_EQUAL(json_number(layout, "current"), MADE_CURRENT);
    CU_ASSERT_EQUAL(json_number(layout, "task_pid"), (int64_t)kernel->layout.task_pid);
    CU_ASSERT_FALSE(json_object_object_get_ex(layout, "mm_rb", NULL)); /* it has none */
    CU_ASSERT_TRUE(look_has(&kernel->layout, LOOK_TASKS));
    CU_ASSERT_TRUE(look_has(&kernel->layout, LOOK_MAPS));
    CU_ASSERT_TRUE(look_has(&kernel->layout, LOOK_PAGES));
    kernel->layout.mm_tree = LOOK_NONE;
    CU_ASSERT_FALSE(look_has(&kernel->layout, LOOK_MAPS));
    kernel->layout.mm_pgd = LOOK_NONE;
    CU_ASSERT_FALSE(look_has(&kernel->layout, LOOK_TASKS));
    json_object_put(names);
    close_made(opened);
}

/* Where a processor says who runs on it. */
static void current(void)
{
    struct opened *const opened = open_made((struct made_kind){0});
    const struct look_kernel *const kernel = &opened->guest.kernel;
    uint64_t paddr = 0;

    CU_ASSERT_TRUE(look_current(kernel, MADE_DIRECT + 0x3000 - MADE_CURRENT, &paddr));
    CU_ASSERT_EQUAL(paddr, 0x3000);
    CU_ASSERT_TRUE(look_current(kernel, MADE_DIRECT + 0x3ff8 - MADE_CURRENT, &paddr));
    CU_ASSERT_FALSE(look_current(kernel, MADE_DIRECT + 0x3ff9 - MADE_CURRENT, &paddr));
    CU_ASSERT_FALSE(look_current(kernel, 0, &paddr));
    close_made(opened);
}

static void lacks(void)
{
    struct opened *const opened = open_made((struct made_kind){0});
    uint8_t *const btf = opened->made.ram + opened->made.btf;

    overwrite(btf, opened->made.btf_bytes, "bpf_ksym", "bpf_kXXX");
    CU_ASSERT_EQUAL(reopen(opened)->error, 0);
    CU_ASSERT_FALSE(guest_has(&opened->guest, LAYOUT_BPF));
    CU_ASSERT_STRING_EQUAL(opened->guest.found.lacks[LAYOUT_BPF], "bpf_ksym start");
    CU_ASSERT_TRUE(guest_has(&opened->guest, LAYOUT_MODULES));
    overwrite(btf, opened->made.btf_bytes, "maple_arange_64", "maple_arange_XX");
    CU_ASSERT_EQUAL(reopen(opened)->error, 0);
    CU_ASSERT_FALSE(guest_has(&opened->guest, LAYOUT_MAPS));
    close_made(opened);
}

/* ---- Tasks ---- */

static unsigned count_processes(const struct opened *opened, bool *is_broken)
{
    struct look_list list;
    struct look_task task;
    unsigned count = 0;

    look_processes_begin(&list, &opened->guest.kernel);
    while (look_processes_next(&list, &task))
        count++;
    *is_broken = list.is_broken;
    return count;
}

static void tasks(void)
{
    struct opened *const opened = open_made((struct made_kind){0});
    const struct look_kernel *const kernel = &opened->guest.kernel;
    struct look_task process, thread;
    struct look_list list;
    uint64_t root;

    look_processes_begin(&list, kernel);
    CU_ASSERT_TRUE(look_processes_next(&list, &process));
    CU_ASSERT_STRING_EQUAL(process.comm, "init");
    CU_ASSERT_TRUE(look_root(kernel, process.mm, &root));
    CU_ASSERT_FALSE(look_user_root(kernel, root, &root));
    CU_ASSERT_TRUE(look_processes_next(&list, &process));
    CU_ASSERT_TRUE(process.pid == 41 && process.tgid == 41);
    CU_ASSERT_EQUAL(process.mm, MADE_KERNEL + opened->made.mm);
    CU_ASSERT_FALSE(look_processes_next(&list, &thread) || list.is_broken);
    CU_ASSERT_TRUE(look_root(kernel, process.mm, &root) && root == opened->made.root);
    CU_ASSERT_TRUE(look_user_root(kernel, root, &root) && root == opened->made.user_root);
    CU_ASSERT_TRUE(look_threads_begin(&list, kernel, &process));
    CU_ASSERT_TRUE(look_threads_next(&list, &thread) && thread.pid == 41);
    CU_ASSERT_TRUE(look_threads_next(&list, &thread) && thread.pid == 42 && thread.tgid == 41);
    CU_ASSERT_FALSE(look_threads_next(&list, &thread) || list.is_broken);
    close_made(opened);
}

/* A list that runs into itself, one that leads nowhere, and one that points at other memory. */
static void broken_lists(void)
{
    struct opened *const opened = open_made((struct made_kind){0});
    struct made_linux *const made = &opened->made;
    const uint64_t tasks_at = opened->guest.kernel.layout.task_tasks;
    const uint64_t last = made->tasks[2] + tasks_at, end = made_get(made, last);
    const uint64_t wrong[] = {MADE_KERNEL + made->tasks[1] + tasks_at, MADE_KERNEL + last, 0,
                              UINT64_MAX - 7, MADE_KERNEL + made->btf};
    bool is_broken;

    CU_ASSERT_EQUAL(count_processes(opened, &is_broken), 2);
    CU_ASSERT_FALSE(is_broken);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        made_put(made, last, wrong[i]);
        CU_ASSERT_EQUAL(count_processes(opened, &is_broken), 2);
        CU_ASSERT_TRUE(is_broken);
    }
    made_put(made, last, end);
    CU_ASSERT_EQUAL(count_processes(opened, &is_broken), 2);
    CU_ASSERT_FALSE(is_broken);
    close_made(opened);
}

/* ---- Mappings ---- */

static void check_maps(const struct opened *opened)
{
    static const struct look_map wanted[] = {{0x400000, 0x402000, 0x2000, 1, true},
                                             {0x7f0000000000, 0x7f0000010000, 0x2000, 1, true},
                                             {0x7f0000010000, 0x7f0000020000, 0x2000, 1, false}};
    const uint64_t mm = MADE_KERNEL + opened->made.mm;
    struct look_map map;
    uint64_t at = 0;

    for (size_t i = 0; i < COUNT(wanted); i++) {
        CU_ASSERT_TRUE_FATAL(look_map(&opened->guest.kernel, mm, at, &map));
        CU_ASSERT_TRUE(map.start == wanted[i].start && map.end == wanted[i].end);
        CU_ASSERT_EQUAL(map.offset, wanted[i].offset);
        CU_ASSERT_EQUAL(map.is_executable, wanted[i].is_executable);
        CU_ASSERT_TRUE(look_map(&opened->guest.kernel, mm, map.end - 1, &map));
        CU_ASSERT_EQUAL(map.start, wanted[i].start);
        at = map.end;
    }
    CU_ASSERT_FALSE(look_map(&opened->guest.kernel, mm, at, &map));
    CU_ASSERT_FALSE(look_map(&opened->guest.kernel, mm, UINT64_MAX, &map));
}

static void mappings(void)
{
    struct opened *opened = open_made((struct made_kind){0});
    struct look_map map;

    check_maps(opened);
    CU_ASSERT_FALSE(
        look_map(&opened->guest.kernel, MADE_KERNEL + opened->made.mm + 0x100000000, 0, &map));
    close_made(opened);
    opened = open_made((struct made_kind){.has_rb_tree = true});
    check_maps(opened);
    close_made(opened);
}

/* Nodes that lead to themselves or nowhere, kinds that are none, mappings that end too early. */
static void broken_trees(void)
{
    struct opened *const opened = open_made((struct made_kind){0});
    struct made_linux *const made = &opened->made;
    const uint64_t slot = made->tree_root + 80, mm = MADE_KERNEL + made->mm;
    const uint64_t wrong[] = {(MADE_KERNEL + made->tree_root) | 3 << 3 | 4,
                              (MADE_KERNEL + made->tree_leaf) | 4,
                              (MADE_KERNEL + made->tree_leaf) | 4 << 3 | 4,
                              (MADE_KERNEL + made->tree_leaf) | 1, UINT64_MAX - 1};
    struct look_map map;

    for (size_t i = 0; i < COUNT(wrong); i++) {
        made_put(made, slot, wrong[i]);
        CU_ASSERT_FALSE(look_map(&opened->guest.kernel, mm, 0, &map));
    }
    made_put(made, slot, (MADE_KERNEL + made->tree_leaf) | 1 << 3 | 4);
    CU_ASSERT_TRUE(look_map(&opened->guest.kernel, mm, 0x401000, &map));
    made_put(made, made->maps[0] + 8, 0x400800); /* its end, in front of what was asked for */
    CU_ASSERT_FALSE(look_map(&opened->guest.kernel, mm, 0x401000, &map));
    made_put(made, made->maps[0] + 8, 0x300000); /* and in front of its start */
    CU_ASSERT_FALSE(look_map(&opened->guest.kernel, mm, 0x400000, &map));
    made_put(made,
             made->mm + opened->guest.kernel.layout.mm_tree +
                 opened->guest.kernel.layout.maple_root,
             (MADE_KERNEL + made->tree_root) | 3 << 3); /* a root is marked as one */
    CU_ASSERT_FALSE(look_map(&opened->guest.kernel, mm, 0x7f0000000000, &map));
    close_made(opened);
}

static void broken_rb_tree(void)
{
    struct opened *const opened = open_made((struct made_kind){.has_rb_tree = true});
    struct made_linux *const made = &opened->made;
    const uint64_t rb = opened->guest.kernel.layout.map_rb, mm = MADE_KERNEL + made->mm;
    struct look_map map;

    CU_ASSERT_TRUE(look_map(&opened->guest.kernel, mm, 0, &map));
    made_put(made, made->maps[0] + rb + 16, MADE_KERNEL + made->maps[1] + rb);
    CU_ASSERT_FALSE(look_map(&opened->guest.kernel, mm, 0, &map));
    close_made(opened);
}

/* ---- Files ---- */

static void files(void)
{
    struct opened *const opened = open_made((struct made_kind){0});
    const struct look_kernel *const kernel = &opened->guest.kernel;
    const uint64_t file = MADE_KERNEL + opened->made.file;
    char path[LOOK_PATH_BYTES], magic[4];
    struct look_build_id id;
    uint64_t cache;

    CU_ASSERT_TRUE(look_path(kernel, file, path));
    CU_ASSERT_STRING_EQUAL(path, "/usr/lib/libc.so");
    CU_ASSERT_TRUE_FATAL(look_cache(kernel, file, &cache));
    CU_ASSERT_TRUE(look_file(kernel, cache, 0, magic, 4) && memcmp(magic,
                                                                   "\x7f"
                                                                   "ELF",
                                                                   4) == 0);
    CU_ASSERT_FALSE(look_file(kernel, cache, 4094, magic, 4)); /* the second page is not there */
    CU_ASSERT_TRUE(look_build_id(kernel, cache, &id));
    CU_ASSERT_EQUAL(id.count, 20);
    for (unsigned i = 0; i < 20; i++)
        CU_ASSERT_EQUAL(id.bytes[i], i + 1);
    close_made(opened);
}

/* A directory that is in itself or in what is in it, names that are too long or not there. */
static void broken_paths(void)
{
    struct opened *const opened = open_made((struct made_kind){0});
    struct made_linux *const made = &opened->made;
    const struct look_layout *const layout = &opened->guest.kernel.layout;
    const uint64_t parent = made->dentry + layout->dentry_parent, lib = made_get(made, parent);
    const uint64_t len = made->dentry + layout->dentry_name_len, of_lib = lib - MADE_KERNEL;
    const uint64_t file = MADE_KERNEL + made->file;
    char path[LOOK_PATH_BYTES];

    made_put(made, of_lib + layout->dentry_parent, MADE_KERNEL + made->dentry);
    CU_ASSERT_FALSE(look_path(&opened->guest.kernel, file, path));
    made_put(made, parent, 0);
    CU_ASSERT_FALSE(look_path(&opened->guest.kernel, file, path));
    made_put(made, parent, MADE_KERNEL + made->dentry); /* what is mounted nowhere: a name alone */
    CU_ASSERT_TRUE(look_path(&opened->guest.kernel, file, path));
    CU_ASSERT_STRING_EQUAL(path, "/libc.so");
    made->ram[len + 1] = 1;
    CU_ASSERT_FALSE(look_path(&opened->guest.kernel, file, path));
    close_made(opened);
}

/* ---- Modules ---- */

static void modules(void)
{
    struct opened *const opened = open_made((struct made_kind){0});
    const struct look_kernel *const kernel = &opened->guest.kernel;
    struct look_module module;
    struct look_list list;
    struct look_name name;

    look_modules_begin(&list, kernel);
    CU_ASSERT_TRUE(look_modules_next(&list, &module));
    CU_ASSERT_STRING_EQUAL(module.name, "virtio");
    CU_ASSERT_EQUAL(module.symbol_count, 3);
    CU_ASSERT_TRUE(look_module_name(kernel, &module, 0, &name) && name.letter == 0);
    CU_ASSERT_TRUE(look_module_name(kernel, &module, 1, &name) && name.letter == 't');
    CU_ASSERT_STRING_EQUAL(name.text, "add_disk");
    CU_ASSERT_EQUAL(name.address, MADE_KERNEL + 0x40000000);
    CU_ASSERT_FALSE(look_modules_next(&list, &module) || list.is_broken);
    made_put(&opened->made, opened->made.module_tables + 8, LOOK_MODULE_NAMES_MAX + 1);
    look_modules_begin(&list, kernel);
    CU_ASSERT_TRUE(look_modules_next(&list, &module) && module.symbol_count == 0);
    opened->made.ram[opened->made.module] = 3; /* not formed yet */
    look_modules_begin(&list, kernel);
    CU_ASSERT_FALSE(look_modules_next(&list, &module) || list.is_broken);
    look_bpf_begin(&list, kernel);
    CU_ASSERT_TRUE(look_bpf_next(&list, &name));
    CU_ASSERT_STRING_EQUAL(name.text, "bpf_prog_1_x");
    CU_ASSERT_FALSE(look_bpf_next(&list, &name) || list.is_broken);
    look_ftrace_begin(&list, kernel);
    CU_ASSERT_TRUE(look_ftrace_next(&list, &name) && name.address == MADE_KERNEL + 0x60000000);
    CU_ASSERT_FALSE(look_ftrace_next(&list, &name) || list.is_broken);
    close_made(opened);
}

void add_linux_suite(void)
{
    CU_pSuite const suite = CU_add_suite("Linux guests", NULL, NULL);

    CU_add_test(suite, "page walk", page_walk);
    CU_add_test(suite, "BTF: members", btf_members);
    CU_add_test(suite, "BTF: mistakes", btf_mistakes);
    CU_add_test(suite, "BTF: circles", btf_circles);
    CU_add_test(suite, "VMCOREINFO", vmcoreinfo);
    CU_add_test(suite, "kernels", kernels);
    CU_add_test(suite, "long names", long_names);
    CU_add_test(suite, "no kernel", no_kernel);
    CU_add_test(suite, "a kernel of before", old_kernel);
    CU_add_test(suite, "a note of the dump", note_of_dump);
    CU_add_test(suite, "no BTF", no_btf);
    CU_add_test(suite, "what a kernel lacks", lacks);
    CU_add_test(suite, "the numbers of a lay-out", numbers);
    CU_add_test(suite, "a lay-out that is handed over", handed_over);
    CU_add_test(suite, "who runs on a processor", current);
    CU_add_test(suite, "tasks", tasks);
    CU_add_test(suite, "broken lists", broken_lists);
    CU_add_test(suite, "mappings", mappings);
    CU_add_test(suite, "broken maple trees", broken_trees);
    CU_add_test(suite, "a broken red-black tree", broken_rb_tree);
    CU_add_test(suite, "files", files);
    CU_add_test(suite, "broken paths", broken_paths);
    CU_add_test(suite, "modules, BPF and ftrace", modules);
}
