/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host and two VMs, traced as one by the model: who ran, when, and how to decode one VM alone
 * (SDM 33.5.1, 33.8.3.3). What was executed is the truth.
 */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptdec.h"
#include "roundtrip/world.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Who ran ---- */

/* Takes the instructions of a trace off a list. */
struct check {
    const struct world *world;
    const struct ptd_contexts *contexts;
    const struct ptd_image *image; /* check_run() only */
    size_t at, errors, wrong;
    unsigned only; /* machine; 0: all */
};

static bool right_context(const struct step *step, const struct ptd_context *context)
{
    const unsigned process = step->cr3 == walk_cr3(0) ? 0 : 1;
    const bool kernel = step->ip >> 63;
    enum ptd_who who = kernel ? PTD_HOST_KERNEL : PTD_HOST_PROCESS;

    if (step->machine)
        who = kernel ? PTD_GUEST_KERNEL : PTD_GUEST_PROCESS;
    return context->who == who && context->vm == step->machine && context->cr3 == step->cr3 &&
           context->vm_name == (step->machine ? context->vm_name : NULL) &&
           (!step->machine || strcmp(context->vm_name, vm_names[step->machine]) == 0) &&
           strcmp(context->process, process_names[step->machine][process]) == 0 &&
           context->pid == INT64_C(100) * step->machine + process;
}

static void check_insn(struct check *check, uint64_t ip, uint64_t space)
{
    const struct world *const world = check->world;
    struct ptd_context context;

    ptd_contexts_find(check->contexts, space, ip, &context);
    if (check->only && context.vm != check->only)
        return;
    while (check->only && check->at < world->step_count &&
           world->steps[check->at].machine != check->only)
        check->at++;
    if (check->at == world->step_count || world->steps[check->at].ip != ip ||
        !right_context(&world->steps[check->at], &context))
        check->wrong++;
    check->at++;
}

static void check_flow(struct check *check, const struct ptd_image *image, const uint8_t *bytes,
                       size_t len_bytes)
{
    struct ptd_flow *const flow = ptd_flow_new(bytes, len_bytes, image, NULL);
    struct ptd_item item;

    CU_ASSERT_PTR_NOT_NULL_FATAL(flow);
    while (ptd_flow_next(flow, &item) == PTD_OK) {
        uint64_t ip = item.ip;
        struct ptd_insn insn;

        check->errors += item.type == PTD_ITEM_ERROR;
        if (item.type != PTD_ITEM_BLOCK)
            continue;
        while (ptd_block_insn(image, &item, &ip, &insn) == PTD_OK)
            check_insn(check, insn.ip, item.cr3);
    }
    ptd_flow_free(flow);
}

static void check_block(struct check *check, const struct ptd_item *block)
{
    uint64_t ip = block->ip;
    struct ptd_insn insn;

    while (ptd_block_insn(check->image, block, &ip, &insn) == PTD_OK)
        check_insn(check, insn.ip, block->cr3);
}

static int check_run(void *context, const struct ptd_flow *flow, const struct ptd_run *run)
{
    struct check *const check = context;

    for (size_t i = 0; i < run->count; i++) {
        struct ptd_item block;

        for (size_t b = 0; ptd_step_block(flow, run->steps[i], b, &block) == PTD_OK; b++)
            check_block(check, &block);
    }
    if (run->has_item && run->item.type == PTD_ITEM_BLOCK)
        check_block(check, &run->item);
    check->errors += run->has_item && run->item.type == PTD_ITEM_ERROR;
    return PTD_OK;
}

/* The same in bulk and on threads: each piece finds out by itself who runs. */
static void check_parallel(const struct world *world, const struct ptd_image *image,
                           const struct ptd_contexts *contexts)
{
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct check check = {.world = world, .contexts = contexts, .image = image};

        CU_ASSERT_EQUAL(ptd_flow_parallel(world->region, (size_t)world->cpu.output_bytes, image,
                                          NULL, true, threads, check_run, &check),
                        PTD_OK);
        CU_ASSERT_EQUAL(check.errors, 0);
        CU_ASSERT_EQUAL(check.wrong, 0);
        CU_ASSERT_EQUAL(check.at, world->step_count);
    }
}

/* One VM alone, by the segments that the partition names. */
static bool is_vm(void *owner, const struct ptd_part *part)
{
    return part->known && ptd_space_vm(part->space) == *(unsigned *)owner;
}

static void check_vm_alone(const struct world *world, const struct ptd_image *image,
                           const struct ptd_contexts *contexts, unsigned vm)
{
    struct check check = {.world = world, .contexts = contexts, .only = vm};
    const size_t all = (size_t)world->cpu.output_bytes;
    struct ptd_range *ranges = NULL;
    size_t bytes = 0;
    const int count = ptd_partition_select(world->region, all, image, is_vm, &vm, &ranges);

    CU_ASSERT_TRUE(count > 0);
    for (int i = 0; i < count; i++) {
        check_flow(&check, image, world->region + ranges[i].begin,
                   (size_t)(ranges[i].end - ranges[i].begin));
        bytes += (size_t)(ranges[i].end - ranges[i].begin);
    }
    while (check.at < world->step_count && world->steps[check.at].machine != vm)
        check.at++;
    CU_ASSERT_EQUAL(check.at, world->step_count);
    CU_ASSERT_EQUAL(check.errors, 0);
    CU_ASSERT_EQUAL(check.wrong, 0);
    CU_ASSERT_TRUE(bytes < all * 3 / 4);
    free(ranges);
}

/* ---- When ---- */

struct times {
    size_t wrong, backwards, unknown, known;
    uint64_t width; /* of all intervals together */
    uint64_t set_backs;
};

/* contexts NULL: nothing is known of offsets and multipliers. */
static struct times read_times(const struct world *world, const struct ptd_contexts *contexts)
{
    struct ptd_time_config config = {
        .tsc_den = world->caps.tsc_den,
        .tsc_num = world->caps.tsc_num,
        .mtc_freq = 3,
        .max_nonturbo_ratio = world->caps.max_nonturbo_ratio,
    };
    struct times times = {0};
    size_t stamp = 0;
    struct ptd_packets packets;
    struct ptd_packet packet;
    struct ptd_time *time;
    uint64_t last = 0;

    if (contexts)
        config.vms = ptd_contexts_time_vms(contexts, &config.vm_count);
    time = ptd_time_new(&config);
    CU_ASSERT_PTR_NOT_NULL_FATAL(time);
    ptd_packets_init(&packets, world->region, (size_t)world->cpu.output_bytes);
    while (ptd_packets_next(&packets, &packet) == PTD_OK) {
        struct ptd_time_point point;
        uint64_t tsc;

        ptd_time_packet(time, &packet);
        ptd_time_point_ahead(time, &packets, &point);
        while (world->stamps[stamp].end <= packet.offset)
            stamp++;
        tsc = world->stamps[stamp].tsc;
        if (point.tsc == PTD_TIME_UNKNOWN || point.latest == PTD_TIME_UNKNOWN) {
            times.unknown++;
            continue;
        }
        times.known++;
        /* Branches of a TNT were before it was sent. */
        times.wrong += point.earliest > tsc || (point.latest < tsc && packet.type != PTD_TNT);
        times.backwards += point.tsc < last;
        times.width += point.latest - point.earliest;
        last = point.tsc;
    }
    times.set_backs = ptd_time_set_backs(time);
    ptd_time_free(time);
    return times;
}

static void check_times(const struct world *world, const struct ptd_contexts *contexts)
{
    struct times times = read_times(world, contexts);

    CU_ASSERT_EQUAL(times.wrong, 0);
    CU_ASSERT_EQUAL(times.backwards, 0);
    CU_ASSERT_EQUAL(times.set_backs, 0);
    CU_ASSERT_TRUE(times.unknown < 100);
    CU_ASSERT_TRUE(times.known > 10000 && times.width < 100 * times.known);
    /* The trace has TSC packets of guests. */
    times = read_times(world, NULL);
    CU_ASSERT_TRUE(times.wrong > 1000);
    CU_ASSERT_TRUE(times.set_backs > 0);
}

/* ---- Without images: the page tables of the guests ---- */

#define GUEST_RAM   0x80000u
#define PAGE        0x1000u
#define FIRST_TABLE 0x20000u

struct guest_ram {
    uint8_t *bytes;
    uint64_t next_table, next_page;
};

/* The table that an entry leads to, a new one if there is none yet. */
static uint64_t table_at(struct guest_ram *ram, uint64_t entry_paddr)
{
    uint64_t entry;

    memcpy(&entry, ram->bytes + entry_paddr, sizeof(entry));
    if (entry == 0) {
        entry = ram->next_table | 7;
        ram->next_table += PAGE;
        memcpy(ram->bytes + entry_paddr, &entry, sizeof(entry));
    }
    return entry & ~UINT64_C(0xfff);
}

static void map_page(struct guest_ram *ram, uint64_t cr3, uint64_t vaddr, uint64_t paddr)
{
    const uint64_t entry = paddr | 7;
    uint64_t table = cr3;

    for (unsigned shift = 39; shift > 12; shift -= 9)
        table = table_at(ram, table + (vaddr >> shift & 0x1ff) * 8);
    memcpy(ram->bytes + table + (vaddr >> 12 & 0x1ff) * 8, &entry, sizeof(entry));
}

/* Code in pages of its own, at the same place in all processes. */
static void map_code(struct guest_ram *ram, const struct image *image)
{
    const uint64_t first = image->base & ~UINT64_C(0xfff);
    uint64_t pages = 0;

    for (; first + pages * PAGE < image->base + image->len_bytes; pages++)
        for (unsigned p = 0; p < PROCESSES; p++)
            map_page(ram, walk_cr3(p), first + pages * PAGE, ram->next_page + pages * PAGE);
    memcpy(ram->bytes + ram->next_page + (image->base - first), image->code, image->len_bytes);
    ram->next_page += pages * PAGE;
}

static bool make_ram(struct guest_ram *ram, const struct world *world, unsigned machine)
{
    *ram = (struct guest_ram){calloc(1, GUEST_RAM), FIRST_TABLE, 0x40000};
    if (!ram->bytes)
        return false;
    map_code(ram, &world->user[machine]);
    map_code(ram, &world->kernel[machine]);
    return true;
}

static void guests_from_memory(void)
{
    struct ptd_image *const image = ptd_image_new();
    struct ptd_contexts *const contexts = ptd_contexts_new(image);
    struct world *const world = calloc(1, sizeof(*world));
    struct check check = {.world = world, .contexts = contexts};
    struct ptd_memory *memory[MACHINES] = {NULL};
    struct guest_ram ram[MACHINES] = {{0}};

    CU_ASSERT_TRUE_FATAL(image && contexts && world);
    CU_ASSERT_TRUE_FATAL(make_world(world, 4711, 0));
    run_world(world);
    CU_ASSERT_TRUE_FATAL(add_names(contexts));
    for (unsigned i = 0; i < MACHINES; i++) {
        memory[i] = ptd_memory_new();
        CU_ASSERT_TRUE_FATAL(memory[i] && make_ram(&ram[i], world, i));
        CU_ASSERT_EQUAL(ptd_memory_add(memory[i], 0, ram[i].bytes, GUEST_RAM), PTD_OK);
        CU_ASSERT_EQUAL(ptd_image_add_memory(image, i, memory[i], PTD_PAGING_4_LEVEL), PTD_OK);
    }
    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, "hypervisor", HYPERVISOR, hypervisor,
                                        sizeof(hypervisor), PTD_ANY_CR3),
                    PTD_OK);
    check_flow(&check, image, world->region, (size_t)world->cpu.output_bytes);
    CU_ASSERT_EQUAL(check.errors, 0);
    CU_ASSERT_EQUAL(check.wrong, 0);
    CU_ASSERT_EQUAL(check.at, world->step_count);
    for (unsigned i = 0; i < MACHINES; i++) {
        ptd_memory_free(memory[i]);
        free(ram[i].bytes);
    }
    ptd_contexts_free(contexts);
    ptd_image_free(image);
    free_world(world);
    free(world);
}

/* ---- Together ---- */

static void host_and_guests(void)
{
    static const uint64_t more_ctl[] = {0, VPT_CTL_DISRETC, VPT_CTL_EVENTEN};

    for (unsigned i = 0; i < 2 * COUNT(more_ctl); i++) {
        struct ptd_image *const image = ptd_image_new();
        struct ptd_contexts *const contexts = ptd_contexts_new(image);
        struct world *const world = calloc(1, sizeof(*world));
        struct check check = {.world = world, .contexts = contexts};

        CU_ASSERT_TRUE_FATAL(image && contexts && world);
        CU_ASSERT_TRUE_FATAL(make_world(world, 1000 + i, more_ctl[i / 2]));
        run_world(world);
        CU_ASSERT_TRUE_FATAL(add_names(contexts));
        CU_ASSERT_TRUE_FATAL(add_code(image, world));
        check_flow(&check, image, world->region, (size_t)world->cpu.output_bytes);
        CU_ASSERT_EQUAL(check.errors, 0);
        CU_ASSERT_EQUAL(check.wrong, 0);
        CU_ASSERT_EQUAL(check.at, world->step_count);
        check_parallel(world, image, contexts);
        check_vm_alone(world, image, contexts, 1);
        check_vm_alone(world, image, contexts, 2);
        check_times(world, contexts);
        ptd_contexts_free(contexts);
        ptd_image_free(image);
        free_world(world);
        free(world);
    }
}

/* ---- Contexts ---- */

static void check_context(const struct ptd_contexts *contexts, uint64_t space, uint64_t ip,
                          enum ptd_who who, const char *process)
{
    struct ptd_context context;

    ptd_contexts_find(contexts, space, ip, &context);
    CU_ASSERT_EQUAL(context.who, who);
    CU_ASSERT_EQUAL(context.vm, ptd_space_vm(space));
    CU_ASSERT_EQUAL(context.cr3, ptd_space_cr3(space));
    CU_ASSERT_TRUE(process ? context.process && strcmp(context.process, process) == 0
                           : !context.process && context.pid == -1);
}

static void names(void)
{
    struct ptd_image *const image = ptd_image_new();
    struct ptd_contexts *const contexts = ptd_contexts_new(image);
    size_t count = 9;

    (void)ptd_contexts_time_vms(contexts, &count);
    CU_ASSERT_EQUAL(count, 0);
    CU_ASSERT_EQUAL(ptd_contexts_add_vm(contexts, "32-bit", 0, 0), 1);
    CU_ASSERT_EQUAL(ptd_contexts_add_vm(contexts, NULL, 0, 1), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_contexts_add_vmcs(contexts, 0, 0x1000), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_contexts_add_vmcs(contexts, 2, 0x1000), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_contexts_add_vmcs(contexts, 1, 0x1000), PTD_OK);
    CU_ASSERT_EQUAL(ptd_contexts_add_vmcs(contexts, 1, 0x1000), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_contexts_add_vmcs(contexts, 1, 0x2000), PTD_OK);
    CU_ASSERT_EQUAL(ptd_contexts_time_vms(contexts, &count)[1].vmcs, 0x2000);
    CU_ASSERT_EQUAL(count, 2);
    CU_ASSERT_EQUAL(ptd_contexts_set_kernel(contexts, 2, 0), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_contexts_set_kernel(contexts, 1, 0xc0000000), PTD_OK);
    CU_ASSERT_EQUAL(ptd_contexts_add_process(contexts, 2, 0x5000, "x", 1), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_contexts_add_process(contexts, 1, PTD_ANY_CR3, "x", 1), PTD_E_ARG);
    for (unsigned i = 100; i > 0; i--) {
        CU_ASSERT_EQUAL(ptd_contexts_add_process(contexts, 1, i << 12, "guest", i), PTD_OK);
        CU_ASSERT_EQUAL(ptd_contexts_add_process(contexts, 0, i << 12, "host", i), PTD_OK);
    }
    CU_ASSERT_EQUAL(ptd_contexts_add_process(contexts, 0, 0x5001, "renamed", 5), PTD_OK);
    check_context(contexts, ptd_space(1, 0x5000), 0xbfffffff, PTD_GUEST_PROCESS, "guest");
    check_context(contexts, ptd_space(1, 0x5000), 0xc0000000, PTD_GUEST_KERNEL, "guest");
    check_context(contexts, 0x6020, 0xc0000000, PTD_HOST_PROCESS, "host");
    check_context(contexts, 0x5000, UINT64_MAX, PTD_HOST_KERNEL, "renamed");
    check_context(contexts, 0x200000, 0, PTD_HOST_PROCESS, NULL);
    check_context(contexts, ptd_space(PTD_VM_UNKNOWN, 0x5000), UINT64_MAX, PTD_GUEST_KERNEL, NULL);
    ptd_contexts_free(contexts);
    ptd_image_free(image);
}

/* ---- Parts ---- */

#define PSB8       2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82
#define PSBEND     2, 0x23
#define PIP(byte)  2, 0x43, (byte), 0, 0, 0, 0, 0 /* CR3[11:5] and NR */
#define VMCS(page) 2, 0xc8, (page), 0, 0, 0, 0
#define TIP        0x2d, 0, 0x10
#define CFE(type)  2, 0x13, (type), 0

struct text {
    char at[2048];
    size_t len;
};

static int write_part(void *owner, const struct ptd_part *part)
{
    struct text *const text = owner;

    text->len += (size_t)snprintf(
        text->at + text->len, sizeof(text->at) - text->len, "%d-%d psb %d%s", (int)part->begin,
        (int)part->end, (int)part->segment, part->known ? part->nr ? " guest" : " host" : " ?");
    if (part->known && part->cr3 != PTD_ANY_CR3)
        text->len += (size_t)snprintf(text->at + text->len, sizeof(text->at) - text->len, " cr3 %x",
                                      (unsigned)part->cr3);
    if (part->known && part->nr && part->vmcs != PTD_ANY_VMCS)
        text->len += (size_t)snprintf(text->at + text->len, sizeof(text->at) - text->len,
                                      " vmcs %x", (unsigned)part->vmcs);
    text->len += (size_t)snprintf(text->at + text->len, sizeof(text->at) - text->len, "\n");
    return PTD_OK;
}

static int stop_at_once(void *owner, const struct ptd_part *part)
{
    (void)owner;
    (void)part;
    return PTD_E_NOMEM;
}

static void parts(void)
{
    static const struct {
        const char *name, *parts;
        uint8_t trace[96];
        size_t len_bytes;
    } cases[] = {
        {"nothing", "", {0}, 0},
        {"no PSB", "0-3 psb 0 ?\n", {TIP}, 3},
        {"state of PSB+, whatever its order",
         "0-36 psb 0 guest cr3 20 vmcs 7000\n",
         {PSB8, PIP(3), VMCS(7), PSBEND, TIP},
         36},
        {"VM entry and exit",
         "0-29 psb 0 host cr3 20\n29-40 psb 0 guest cr3 40\n40-58 psb 0 host cr3 20\n",
         {PSB8, PIP(2), PSBEND, TIP, PIP(5), TIP, VMCS(7), PIP(2), TIP},
         58},
        {"events only",
         "0-18 psb 0 ?\n18-25 psb 0 guest\n25-32 psb 0 host\n",
         {PSB8, PSBEND, CFE(7), TIP, CFE(8), TIP},
         32},
        {"an event without PIP: CR3 is not known any more",
         "0-29 psb 0 host cr3 20\n29-36 psb 0 guest\n",
         {PSB8, PIP(2), PSBEND, TIP, CFE(7), TIP},
         36},
        {"an event and its PIP: one change",
         "0-29 psb 0 host cr3 20\n29-44 psb 0 guest cr3 40\n",
         {PSB8, PIP(2), PSBEND, TIP, CFE(7), PIP(5), TIP},
         44},
        {"the same again is no change; each PSB begins a part",
         "0-40 psb 0 host cr3 20\n40-58 psb 40 host cr3 20\n",
         {PSB8, PIP(2), PSBEND, TIP, PIP(2), TIP, PSB8, PSBEND},
         58},
        {"bytes that are no packets",
         "0-29 psb 0 host cr3 20\n29-31 psb 0 ?\n31-57 psb 31 host cr3 40\n",
         {PSB8, PIP(2), PSBEND, TIP, 2, 0xff, PSB8, PIP(4), PSBEND},
         57},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct text text = {.len = 0};

        CU_ASSERT_EQUAL(ptd_partition(cases[i].trace, cases[i].len_bytes, NULL, write_part, &text),
                        PTD_OK);
        CU_ASSERT_STRING_EQUAL(text.at, cases[i].parts);
        if (strcmp(text.at, cases[i].parts) != 0)
            printf("\n--- %s, want:\n%s--- got:\n%s---", cases[i].name, cases[i].parts, text.at);
    }
    CU_ASSERT_EQUAL(ptd_partition(cases[3].trace, 58, NULL, stop_at_once, NULL), PTD_E_NOMEM);
}

void add_guest_suite(void)
{
    CU_pSuite const suite = CU_add_suite("host and guests", NULL, NULL);

    CU_add_test(suite, "two VMs of two processes each: who and when", host_and_guests);
    CU_add_test(suite, "code from guest memory", guests_from_memory);
    CU_add_test(suite, "names", names);
    CU_add_test(suite, "parts", parts);
}
