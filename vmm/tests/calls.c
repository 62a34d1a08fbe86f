/* SPDX-License-Identifier: BSD-3-Clause */
/* The call stack behind a flow: what each kind of transfer makes of it, and the sums of table.c. */
#include "view/calls.h"
#include "common/table.h"
#include "ptdec.h"
#include "suites.h"

#include <CUnit/CUnit.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Functions of 0x100 bytes, each of them CALLs (5 bytes) and, from +0x80 on, SYSCALLs and SYSRETs.
 */
#define A       0x1000u
#define B       0x1100u
#define C       0x1200u
#define K       0xffffffff81000000u /* of the kernel, and so is */
#define S       0xffffffff81000100u
#define SYSCALL 0x80u
#define SYSRET  0x90u
#define NEXT    5u /* behind the CALL at the start */

static char log_text[1024];

/* With the number of the thread, if one is told. */
static void say(const struct calls *calls, const struct call_stack *stack, const char *what)
{
    const uint32_t tid = calls_who(calls, stack, 0).tid;
    const size_t len = strlen(log_text);
    char number[16] = "";

    if (tid)
        (void)snprintf(number, sizeof(number), "%" PRIu32, tid);
    (void)snprintf(log_text + len, sizeof(log_text) - len, "%s%s%s ", what, number,
                   calls->names.list[stack->frames[stack->depth - 1].function]);
}

static void say_end(void)
{
    const size_t len = strlen(log_text);

    (void)snprintf(log_text + len, sizeof(log_text) - len, ". ");
}

static void on_enter(void *owner, struct call_stack *stack, uint64_t time)
{
    (void)time;
    say(owner, stack, "+");
}

static void on_leave(void *owner, struct call_stack *stack, uint64_t time)
{
    (void)time;
    say(owner, stack, "-");
}

static void on_ran(void *owner, struct call_stack *stack, const struct ptd_item *block,
                   uint64_t from, uint64_t to)
{
    char text[32];

    (void)block;
    (void)snprintf(text, sizeof(text), "%" PRIu64, to - from);
    say(owner, stack, text);
}

static const struct calls_sink events = {.enter = on_enter, .leave = on_leave};
static const struct calls_sink times = {.ran = on_ran};

static void add_function(struct ptd_image *image, const char *name, uint64_t start)
{
    static const uint8_t call[] = {0xe8, 0, 0, 0, 0}, syscall[] = {0x0f, 5};
    static const uint8_t sysret[] = {0x48, 0x0f, 7};
    uint8_t code[0x100];

    for (size_t i = 0; i < sizeof(code); i++)
        code[i] = 0x90;
    memcpy(code, call, sizeof(call));
    memcpy(code + SYSCALL, syscall, sizeof(syscall));
    memcpy(code + SYSRET, sysret, sizeof(sysret));
    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, name, start, code, sizeof(code), PTD_ANY_CR3),
                    PTD_OK);
}

/* What a test says of an item. */
struct step {
    enum ptd_item_type type;
    enum ptd_insn_class class;
    uint64_t cr3, ip, last_ip, from, to;
    uint32_t tid; /* who runs then, as a log of names says it; 0: there is none */
};

/* A block from ip to last_ip that ends with an instruction of this class. */
static struct step block(uint64_t cr3, uint64_t ip, uint64_t last_ip, enum ptd_insn_class class)
{
    return (struct step){
        .type = PTD_ITEM_BLOCK, .class = class, .cr3 = cr3, .ip = ip, .last_ip = last_ip};
}

static struct step event(enum ptd_item_type type, uint64_t from, uint64_t to)
{
    return (struct step){.type = type, .from = from, .to = to};
}

static struct step on(uint32_t tid, struct step step)
{
    step.tid = tid;
    return step;
}

/* What a log of names says. */
struct turn {
    uint32_t tid;
    uint64_t changes;
};

static void who_runs(const void *owner, uint64_t cr3, uint64_t ns, struct out_who *who)
{
    const struct turn *const turn = owner;

    (void)cr3;
    (void)ns;
    *who = (struct out_who){.pid = 1, .tid = turn->tid, .comm = "demo", .knows_thread = true};
}

static void take_turn(struct turn *turn, uint32_t tid)
{
    turn->changes += turn->tid != tid;
    turn->tid = tid;
}

/* Of the instructions in add_function(). */
static uint8_t last_bytes(enum ptd_insn_class class)
{
    return class == PTD_INSN_CALL_DIRECT ? 5 : class == PTD_INSN_FAR ? 2 : 1;
}

static struct ptd_item item_of(const struct step *step)
{
    return (struct ptd_item){.type = (uint8_t)step->type,
                             .cr3 = step->cr3,
                             .ip = step->ip,
                             .last_ip = step->last_ip,
                             .last_bytes = last_bytes(step->class),
                             .insns = 1,
                             .mode = PTD_MODE_64,
                             .last_class = (uint8_t)step->class,
                             .has_from = step->from != 0,
                             .from = step->from,
                             .has_to = step->to != 0,
                             .to = step->to};
}

/* What the items make of the stack, up to the end of the trace (shown as '.'). */
static const char *stack_of(const struct step *steps, size_t count, const struct calls_sink *sink)
{
    struct ptd_image *const image = ptd_image_new();
    struct out_thread thread = {.image = image, .comm = "demo", .start = 100};
    struct turn turn = {0};
    struct calls calls;

    add_function(image, "a", A);
    add_function(image, "b", B);
    add_function(image, "c", C);
    add_function(image, "k", K);
    add_function(image, "s", S);
    if (steps[0].tid) {
        thread.who = who_runs;
        thread.who_owner = &turn;
        thread.changes = &turn.changes;
    }
    log_text[0] = 0;
    calls_init(&calls, sink, &calls);
    calls_begin(&calls, &thread);
    for (size_t i = 0; i < count; i++) {
        const struct ptd_item item = item_of(&steps[i]);

        take_turn(&turn, steps[i].tid);
        calls_item(&calls, &item, 101 + 10 * i);
    }
    say_end();
    calls_end(&calls);
    calls_free(&calls);
    ptd_image_free(image);
    return log_text;
}

#define EXPECT(text, ...)                                                                          \
    do {                                                                                           \
        const struct step steps[] = {__VA_ARGS__};                                                 \
        CU_ASSERT_STRING_EQUAL(stack_of(steps, sizeof(steps) / sizeof(*steps), &events), text);    \
    } while (0)

static void calls_and_returns(void)
{
    EXPECT("+a +b +c -c -b . -a ", block(1, A, A, PTD_INSN_CALL_DIRECT),
           block(1, B, B, PTD_INSN_CALL_INDIRECT), block(1, C, C + 9, PTD_INSN_RET),
           block(1, B + NEXT, B + 9, PTD_INSN_RET), block(1, A + NEXT, A + 9, PTD_INSN_OTHER));
    /* A RET may skip frames (longjmp), and a CALL to the next instruction is none. */
    EXPECT("+a +b +c -c -b . -a ", block(1, A, A, PTD_INSN_CALL_DIRECT),
           block(1, B, B, PTD_INSN_CALL_DIRECT), block(1, C, C + 9, PTD_INSN_RET),
           block(1, A + NEXT, A + 9, PTD_INSN_OTHER));
    EXPECT("+a . -a ", block(1, A, A, PTD_INSN_CALL_DIRECT),
           block(1, A + NEXT, A + 9, PTD_INSN_RET));
    /* A RET whose CALL was not seen leads into the function that is then at the bottom. */
    EXPECT("+b -b +a . -a ", block(1, B, B, PTD_INSN_RET), block(1, A + 9, A + 9, PTD_INSN_OTHER));
    /* One that is not known to come from anywhere returns in the midst of another. */
    EXPECT("+b +c -c -b +a . -a ", block(1, B, B, PTD_INSN_CALL_DIRECT),
           block(1, C, C + 9, PTD_INSN_RET), block(1, A + 9, A + 9, PTD_INSN_OTHER));
    /* A RET that serves as a CALL or a jump leads to where a function begins. */
    EXPECT("+a +b -b +c -c . -a ", block(1, A, A, PTD_INSN_CALL_DIRECT),
           block(1, B, B, PTD_INSN_RET), block(1, C, C, PTD_INSN_RET),
           block(1, A + NEXT, A + 9, PTD_INSN_OTHER));
    /* Recursion. */
    EXPECT("+a +a -a . -a ", block(1, A, A, PTD_INSN_CALL_DIRECT), block(1, A, A + 9, PTD_INSN_RET),
           block(1, A + NEXT, A + 9, PTD_INSN_OTHER));
}

static void jumps(void)
{
    /* A tail call takes the place of its caller: its RET goes to the caller's caller. */
    EXPECT("+a +b -b +c -c . -a ", block(1, A, A, PTD_INSN_CALL_DIRECT),
           block(1, B, B, PTD_INSN_JMP_DIRECT), block(1, C, C, PTD_INSN_RET),
           block(1, A + NEXT, A + 9, PTD_INSN_OTHER));
    EXPECT("+a . -a ", block(1, A, A, PTD_INSN_COND), block(1, A + 9, A + 9, PTD_INSN_OTHER));
}

static void interrupts(void)
{
    EXPECT("+a +b -b . -a ", block(1, A, A + 7, PTD_INSN_OTHER), event(PTD_ITEM_ASYNC, A + 8, B),
           block(1, B, B, PTD_INSN_IRET), block(1, A + 8, A + 9, PTD_INSN_OTHER));
    /* Before the first instruction of what was called. */
    EXPECT("+a +b +c -c -b . -a ", block(1, A, A, PTD_INSN_CALL_DIRECT),
           event(PTD_ITEM_ASYNC, B, C), block(1, C, C, PTD_INSN_IRET), block(1, B, B, PTD_INSN_RET),
           block(1, A + NEXT, A + 9, PTD_INSN_OTHER));
    EXPECT("+a +b -b . -a ", block(1, A, A + SYSCALL, PTD_INSN_FAR),
           block(1, B, B + SYSRET, PTD_INSN_FAR),
           block(1, A + SYSCALL + 2, A + 0x88, PTD_INSN_OTHER));
}

/* They have one address space. */
static void threads(void)
{
    EXPECT("+1a +1b +2a +2c -1b . -1a -2c -2a ", on(1, block(1, A, A, PTD_INSN_CALL_DIRECT)),
           on(1, block(1, B, B, PTD_INSN_OTHER)), on(2, block(1, A, A, PTD_INSN_CALL_DIRECT)),
           on(2, block(1, C, C, PTD_INSN_OTHER)), on(1, block(1, B + 9, B + 9, PTD_INSN_RET)),
           on(1, block(1, A + NEXT, A + 9, PTD_INSN_OTHER)));
    /* An interrupt is that of who runs then, even if nothing of him ran before. */
    EXPECT("+1a +1b +2a +2k -2k . -2a -1b -1a ", on(1, block(1, A, A, PTD_INSN_CALL_DIRECT)),
           on(1, block(1, B, B, PTD_INSN_OTHER)), on(2, block(1, A, A, PTD_INSN_OTHER)),
           on(1, block(1, B, B, PTD_INSN_OTHER)), on(2, event(PTD_ITEM_ASYNC, A + 8, K)),
           on(2, block(1, K, K, PTD_INSN_IRET)), on(2, block(1, A + 8, A + 9, PTD_INSN_OTHER)));
    /* The names of one do not change those of another: who is told anew goes on. */
    EXPECT("+1a +1b -1b . -1a ", on(1, block(1, A, A, PTD_INSN_CALL_DIRECT)),
           on(1, block(2, B, B, PTD_INSN_RET)), on(1, block(1, A + NEXT, A + 9, PTD_INSN_OTHER)));
}

/* The kernel's part of a thread. */
static void threads_in_the_kernel(void)
{
    /* With page tables of its own, as page-table isolation has it. */
    EXPECT("+1a +1k +1s -1s -1k . -1a ", on(1, block(2, A, A + SYSCALL, PTD_INSN_FAR)),
           on(1, block(1, K, K, PTD_INSN_CALL_DIRECT)), on(1, block(1, S, S, PTD_INSN_RET)),
           on(1, block(1, K + NEXT, K + SYSRET, PTD_INSN_FAR)),
           on(1, block(2, A + SYSCALL + 2, A + 0x88, PTD_INSN_OTHER)));
    /* It switches to another thread, which is not told before its user's code runs. */
    EXPECT("+1a +1k +2b -1k . -1a -2b ", on(1, block(1, A, A + SYSCALL, PTD_INSN_FAR)),
           on(1, block(1, K, K + SYSRET, PTD_INSN_FAR)),
           on(2, block(1, B, B + SYSCALL, PTD_INSN_OTHER)),
           on(1, block(1, A + SYSCALL + 2, A + 0x88, PTD_INSN_OTHER)));
    /* It is told that another one runs: where it was, or where it never was seen. */
    EXPECT("+1a +1k +1s +2b +2k -1s . -1k -1a -2k -2b ",
           on(1, block(1, A, A + SYSCALL, PTD_INSN_FAR)),
           on(1, block(1, K, K, PTD_INSN_CALL_DIRECT)), on(1, block(1, S, S, PTD_INSN_OTHER)),
           on(2, block(1, B, B + SYSCALL, PTD_INSN_FAR)), on(2, block(1, K, K, PTD_INSN_OTHER)),
           on(1, block(1, K + 9, K + 9, PTD_INSN_OTHER)));
    EXPECT("+1a +1k +2b -1k +1s . -1s -1a -2b ", on(1, block(1, A, A + SYSCALL, PTD_INSN_FAR)),
           on(1, block(1, K, K, PTD_INSN_OTHER)), on(2, block(1, B, B, PTD_INSN_OTHER)),
           on(1, block(1, S, S + 9, PTD_INSN_OTHER)));
    /* It makes another program of it. */
    EXPECT("+1a +1b +1k -1k -1b -1a +1c . -1c ", on(1, block(1u << 12, A, A, PTD_INSN_CALL_DIRECT)),
           on(1, block(1u << 12, B, B + SYSCALL, PTD_INSN_FAR)),
           on(1, block(2u << 12, K, K + SYSRET, PTD_INSN_FAR)),
           on(1, block(2u << 12, C, C + 9, PTD_INSN_OTHER)));
    /* No RET leads out of a system call. */
    EXPECT("+1a +1k -1k +1s . -1s -1a ", on(1, block(1, A, A + SYSCALL, PTD_INSN_FAR)),
           on(1, block(1, K, K + 9, PTD_INSN_RET)), on(1, block(1, S + 9, S + 9, PTD_INSN_OTHER)));
}

static void gaps(void)
{
    /* Tracing pauses in a function, or behind a CALL: the stack stays. */
    EXPECT("+a +b -b . -a ", block(1, A, A, PTD_INSN_CALL_DIRECT), event(PTD_ITEM_DISABLED, B, 0),
           event(PTD_ITEM_ENABLED, 0, B), block(1, B, B, PTD_INSN_RET),
           block(1, A + NEXT, A + 9, PTD_INSN_OTHER));
    /* Lost packets: nothing is known any more. */
    EXPECT("+a +b -b -a +a . -a ", block(1, A, A, PTD_INSN_CALL_DIRECT),
           block(1, B, B, PTD_INSN_RET), event(PTD_ITEM_OVERFLOW, 0, A + 9),
           block(1, A + NEXT, A + 9, PTD_INSN_OTHER));
    EXPECT("+a -a +a . -a ", block(1, A, A, PTD_INSN_RET), event(PTD_ITEM_ERROR, 0, 0),
           block(1, A, A + 9, PTD_INSN_OTHER));
    /* Each address space has a stack. */
    EXPECT("+a +b . -a -b ", block(1, A, A, PTD_INSN_CALL_DIRECT), block(2, B, B, PTD_INSN_OTHER),
           block(1, A + NEXT, A + 9, PTD_INSN_OTHER));
}

static void time_goes_to_who_ran(void)
{
    const struct step steps[] = {
        block(1, A, A, PTD_INSN_CALL_DIRECT),
        event(PTD_ITEM_TSC, 0, 0), /* time up to the next block is that block's */
        block(1, B, B, PTD_INSN_OTHER),
        event(PTD_ITEM_DISABLED, 0, 0),
        event(PTD_ITEM_ENABLED, 0, B), /* but not while nothing was traced */
        block(1, B, B, PTD_INSN_OTHER),
    };

    CU_ASSERT_STRING_EQUAL(stack_of(steps, 6, &times), "1a 20b 10b . ");
}

/* Calls for ever, and address spaces for ever. */
static void bounded(void)
{
    struct ptd_image *const image = ptd_image_new();
    struct calls_sink quiet = {0};
    struct calls calls;

    add_function(image, "a", A);
    calls_init(&calls, &quiet, NULL);
    calls_begin(&calls, &(struct out_thread){.image = image, .comm = "demo"});
    for (unsigned i = 0; i < 3 * CALLS_DEPTH_MAX; i++) {
        const struct step step = block(1, A, A, PTD_INSN_CALL_DIRECT);
        const struct ptd_item item = item_of(&step);

        calls_item(&calls, &item, i);
    }
    CU_ASSERT_EQUAL(calls.stacks[0]->depth, CALLS_DEPTH_MAX);
    for (unsigned i = 0; i < 1000; i++) {
        const struct step step = block(i, A, A, PTD_INSN_OTHER);
        const struct ptd_item item = item_of(&step);

        calls_item(&calls, &item, i);
    }
    CU_ASSERT_TRUE(calls.stack_count < 1000);
    CU_ASSERT_FALSE(calls.no_memory);
    calls_end(&calls);
    calls_free(&calls);
    ptd_image_free(image);
}

static void sums(void)
{
    struct table table = {0};
    struct names names = {0};
    char text[16];

    for (uint64_t i = 0; i < 30000; i++)
        table_at(&table, i % 1000, i % 10, 7)->count++;
    CU_ASSERT_EQUAL(table.count, 1000);
    for (uint64_t i = 0; i < 1000; i++)
        CU_ASSERT_EQUAL(table_at(&table, i, i % 10, 7)->count, 30);
    CU_ASSERT_EQUAL(table_at(&table, 1, 2, 7)->count, 0);
    table_free(&table);
    for (unsigned i = 0; i < 3000; i++) {
        (void)snprintf(text, sizeof(text), "n%u", i % 300);
        CU_ASSERT_EQUAL(names_add(&names, text), i % 300);
    }
    names_free(&names);
}

void add_calls_suite(void)
{
    const CU_pSuite suite = CU_add_suite("call stacks", NULL, NULL);

    CU_add_test(suite, "calls and returns", calls_and_returns);
    CU_add_test(suite, "jumps", jumps);
    CU_add_test(suite, "interrupts and system calls", interrupts);
    CU_add_test(suite, "threads", threads);
    CU_add_test(suite, "threads in the kernel", threads_in_the_kernel);
    CU_add_test(suite, "gaps and address spaces", gaps);
    CU_add_test(suite, "time goes to who ran", time_goes_to_who_ran);
    CU_add_test(suite, "bounded", bounded);
    CU_add_test(suite, "sums and names", sums);
}
