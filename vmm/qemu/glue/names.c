/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names log of a capture: who runs, and which files its code is from, told where in the trace
 * that begins (docs/trace-files.md). So what lived for a moment only has a name.
 *
 * A vCPU looks at the guest's memory when something may have changed, with the lay-out of its Linux
 * that somebody has found before. What stands there is hostile: the walks are those of linux/look/,
 * which are bounded, each look may read so much and no more, and all looks of a second too.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "exec/address-spaces.h"
#include "exec/exec-all.h"
#include "qemu/guest-random.h"
#include "qemu/host-utils.h"
#include "qemu/timer.h"
#include "compat.h"
#include "linux/look/maps.h"
#include "linux/look/numbers.h"
#include "linux/look/tasks.h"
#include "names.h"

#define READS_A_LOOK    (1 << 14)
#define READS_A_SECOND  (1 << 21)
#define READS_SAVED_MAX (1 << 20) /* of seconds with fewer */
#define FREE_BYTES      (1 * MiB) /* of the log, besides as many as the trace has */
#define REMEMBERED_MAX  (1 << 16) /* of each kind, of each vCPU: 12 MiB in all */
#define CR3_ADDRESS     0x000ffffffffff000ull
#define USER_TABLES     0x1000ull /* page-table isolation: the bit of CR3 that user code has */
#define LOWER_HALF_END  (1ull << 63)
#define ROOTS_MAX       16 /* page tables that are remembered while no kernel is known */
#define KERNEL_COMM     "swapper"
#define NO_KERNEL_COMM  "before Linux"

/* The task that ran when it was looked at, in what address space. */
struct now {
    struct look_task task;
    uint64_t root, user_root; /* 0: a thread of the kernel; there are none */
    uint64_t space;           /* the number of its address space; 0: not known */
    uint64_t comm;            /* the physical address of its name; 0: not known */
};

/* The address space of a process, until the process has another one, or another process it. */
struct space {
    uint64_t key; /* a process's tgid; or its root, for the number alone */
    uint64_t root, mm, number;
};

/* A page of code, or a mapping by its begin, in the address space of this number. */
struct place {
    uint64_t space, address;
    uint64_t physical;          /* of a page */
    uint64_t end, offset, file; /* of a mapping */
};

/* Page tables that were loaded, and where that was first. */
struct root_at {
    uint64_t root, at;
};

struct X86VptNames {
    struct X86VptNamesTo to;
    FILE *file; /* or a ring */
    struct look_memory memory;
    bool has_kernel; /* it is known where that of the guest keeps what follows */
    struct look_kernel kernel;
    bool has_maps, has_pages;

    /* While it is not. */
    uint64_t since;   /* so long nothing is told */
    bool told_before; /* that no Linux runs since then */
    struct root_at roots[ROOTS_MAX];
    unsigned root_count;

    uint64_t gs_base, current; /* where a task's address is, physically: known for this GS base */
    bool in_user;              /* it was, when it was looked at last */
    bool moved;                /* CR3 was loaded since: */
    uint64_t moved_root, moved_at;
    struct now now;

    GHashTable *of_process, *of_root; /* struct space */
    GHashTable *pages, *maps;         /* struct place */
    uint64_t last_number;

    int64_t filled_ns, reads_saved; /* when reads were given last; how many there are */
    int reads_left;                 /* of this look */
    uint64_t begin_bytes;           /* of the trace, where all was told anew */
    uint64_t bytes;                 /* of the log since */
    uint64_t left_out, left_out_told;
    int error; /* errno of the first write that failed */
};

/* ---- The guest's memory ---- */

static bool read_ram(void *owner, uint64_t paddr, void *into, size_t len_bytes)
{
    struct X86VptNames *names = owner;
    hwaddr offset, len = len_bytes;
    MemoryRegion *mr;

    if (names->reads_left == 0) {
        return false;
    }
    names->reads_left--;
    RCU_READ_LOCK_GUARD();
    mr = address_space_translate(names->to.cs->as, paddr, &offset, &len, false,
                                 MEMTXATTRS_UNSPECIFIED);
    if (len < len_bytes || !memory_region_is_ram(mr) || memory_region_is_ram_device(mr)) {
        return false;
    }
    memcpy(into, (const uint8_t *)memory_region_get_ram_ptr(mr) + offset, len_bytes);
    return true;
}

/* ---- How much may be looked at ---- */

/* A look begins. False: there were too many. */
static bool begin_look(struct X86VptNames *names)
{
    const int64_t now_ns = get_clock();
    const int64_t passed_ns = MIN(now_ns - names->filled_ns, NANOSECONDS_PER_SECOND);

    names->filled_ns = now_ns;
    names->reads_saved = MIN(
        names->reads_saved + passed_ns * READS_A_SECOND / NANOSECONDS_PER_SECOND, READS_SAVED_MAX);
    if (names->reads_saved < READS_A_LOOK) {
        qatomic_set(&names->left_out, names->left_out + 1);
        return false;
    }
    names->reads_left = READS_A_LOOK;
    return true;
}

static void end_look(struct X86VptNames *names)
{
    names->reads_saved -= READS_A_LOOK - names->reads_left;
    names->reads_left = 0;
}

/* ---- Lines ---- */

/* Text of the guest's: UTF-8 that can be printed stays as it is, all else is \xNN. */
static void put_text(GString *line, const char *text)
{
    while (*text) {
        const gunichar character = g_utf8_get_char_validated(text, -1);
        const bool is_shown = character < 0x110000 && g_unichar_isprint(character);
        const char *const next = is_shown ? g_utf8_next_char(text) : text + 1;

        if (is_shown && (*text == '"' || *text == '\\')) {
            g_string_append_c(line, '\\');
        }
        if (is_shown) {
            g_string_append_len(line, text, next - text);
        } else {
            g_string_append_printf(line, "\\\\x%02x", (uint8_t)*text);
        }
        text = next;
    }
}

static void write_line(struct X86VptNames *names, GString *line)
{
    g_string_append(line, "}\n");
    names->bytes += line->len;
    if (names->to.ring) {
        x86_vpt_ring_add_names(names->to.ring, line->str, line->len);
    } else if (!names->error && fwrite(line->str, line->len, 1, names->file) != 1) {
        qatomic_set(&names->error, errno);
    }
}

static GString *new_line(uint64_t at)
{
    GString *line = g_string_new(NULL);

    g_string_printf(line, "{\"at\":%" PRIu64, at);
    return line;
}

static void tell_left_out(struct X86VptNames *names, uint64_t at)
{
    g_autoptr(GString) line = NULL;

    if (names->left_out == names->left_out_told) {
        return;
    }
    names->left_out_told = names->left_out;
    line = new_line(at);
    g_string_append_printf(line, ",\"left_out\":%" PRIu64, names->left_out);
    write_line(names, line);
}

/* A log that is longer than its trace, but for a little, is a guest's doing: it ends there. */
static void put_line(struct X86VptNames *names, GString *line, uint64_t at)
{
    const uint64_t trace_bytes = at - MIN(at, names->begin_bytes);

    if (names->bytes + line->len > FREE_BYTES + trace_bytes) {
        qatomic_set(&names->left_out, names->left_out + 1);
        return;
    }
    tell_left_out(names, at);
    write_line(names, line);
}

static void put_roots(GString *line, const struct now *now)
{
    if (now->user_root) {
        g_string_append_printf(line, ",\"cr3\":[%" PRIu64 ",%" PRIu64 "]", now->root,
                               now->user_root);
    } else if (now->root) {
        g_string_append_printf(line, ",\"cr3\":[%" PRIu64 "]", now->root);
    }
}

static void tell_task(struct X86VptNames *names, uint64_t at, bool is_new_space)
{
    const struct now *now = &names->now;
    g_autoptr(GString) line = new_line(at);

    g_string_append_printf(line, ",\"tsc\":%" PRIu64 ",\"pid\":%u,\"tid\":%u,\"comm\":\"",
                           names->to.tsc(names->to.owner), now->task.tgid, now->task.pid);
    put_text(line, now->task.comm);
    g_string_append_c(line, '"');
    put_roots(line, now);
    g_string_append(line, is_new_space ? ",\"new\":true" : "");
    put_line(names, line, at);
}

/* With the build id, what is found in the page cache later can be told from another file's. */
static void put_build_id(struct X86VptNames *names, GString *line, uint64_t file)
{
    struct look_build_id id;
    uint64_t cache;

    if (!names->has_pages || !look_cache(&names->kernel, file, &cache) ||
        !look_build_id(&names->kernel, cache, &id) || id.count == 0) {
        return;
    }
    g_string_append_printf(line, ",\"cache\":%" PRIu64 ",\"build_id\":\"", cache);
    for (unsigned i = 0; i < id.count; i++) {
        g_string_append_printf(line, "%02x", id.bytes[i]);
    }
    g_string_append_c(line, '"');
}

static void tell_map(struct X86VptNames *names, const struct look_map *map)
{
    const uint64_t at = names->to.offset(names->to.owner);
    g_autoptr(GString) line = new_line(at);
    char path[LOOK_PATH_BYTES];

    g_string_append_printf(line, ",\"tsc\":%" PRIu64, names->to.tsc(names->to.owner));
    put_roots(line, &names->now);
    g_string_append_printf(line, ",\"start\":%" PRIu64 ",\"end\":%" PRIu64 ",\"offset\":%" PRIu64,
                           map->start, map->end, map->offset);
    if (map->file && look_path(&names->kernel, map->file, path)) {
        g_string_append(line, ",\"path\":\"");
        put_text(line, path);
        g_string_append_c(line, '"');
        put_build_id(names, line, map->file);
    }
    put_line(names, line, at);
}

/* One of the kernel's, from a place on that is past. */
static void tell_kernel(struct X86VptNames *names, uint64_t at, const char *comm, uint64_t root)
{
    g_autoptr(GString) line = new_line(at);

    g_string_append_printf(line, ",\"pid\":0,\"tid\":0,\"comm\":\"%s\"", comm);
    put_roots(line, &(const struct now){.root = root});
    put_line(names, line, at);
}

/* ---- What was told ---- */

/* A guest chooses places; that all of them fall together it cannot choose without this. */
static uint64_t place_key[2];

static guint hash_of(uint64_t a, uint64_t b)
{
    uint64_t low, high;

    mulu64(&low, &high, a ^ place_key[0], b ^ place_key[1]);
    low = (low ^ high ^ (low ^ high) >> 32) * 0x9e3779b97f4a7c15ull;
    return low >> 32;
}

static guint space_hash(gconstpointer key)
{
    return hash_of(((const struct space *)key)->key, 0);
}

static gboolean space_equal(gconstpointer a, gconstpointer b)
{
    return ((const struct space *)a)->key == ((const struct space *)b)->key;
}

static guint place_hash(gconstpointer key)
{
    const struct place *place = key;

    return hash_of(place->space, place->address);
}

static gboolean place_equal(gconstpointer a, gconstpointer b)
{
    const struct place *left = a, *right = b;

    return left->space == right->space && left->address == right->address;
}

static void forget_all(struct X86VptNames *names)
{
    g_hash_table_remove_all(names->of_process);
    g_hash_table_remove_all(names->of_root);
    g_hash_table_remove_all(names->pages);
    g_hash_table_remove_all(names->maps);
    names->now = (struct now){0};
}

static bool is_full(const struct X86VptNames *names)
{
    return g_hash_table_size(names->of_process) >= REMEMBERED_MAX ||
           g_hash_table_size(names->of_root) >= REMEMBERED_MAX ||
           g_hash_table_size(names->pages) >= REMEMBERED_MAX ||
           g_hash_table_size(names->maps) >= REMEMBERED_MAX;
}

/* Copies what begins with its key into a table. */
static void remember(GHashTable *table, const void *what, size_t size)
{
    void *copy = g_malloc(size);

    memcpy(copy, what, size);
    g_hash_table_replace(table, copy, copy);
}

/*
 * The number of the address space that a process has. Page tables and mm_struct are used again by
 * others, so it is the same one only if nobody else had these, and the process no others, since.
 */
static uint64_t number_of_space(struct X86VptNames *names, const struct now *now, bool *is_new)
{
    struct space of_process = {.key = now->task.tgid, .root = now->root, .mm = now->task.mm};
    struct space of_root = {.key = now->root};
    const struct space *known = g_hash_table_lookup(names->of_process, &of_process);
    const struct space *owner = g_hash_table_lookup(names->of_root, &of_root);

    *is_new = !known || !owner || known->root != now->root || known->mm != now->task.mm ||
              owner->number != known->number;
    if (!*is_new) {
        return known->number;
    }
    of_process.number = of_root.number = ++names->last_number;
    remember(names->of_process, &of_process, sizeof(of_process));
    remember(names->of_root, &of_root, sizeof(of_root));
    return of_process.number;
}

/* ---- Who runs ---- */

static bool is_user(const struct X86VptNames *names)
{
    return (names->to.env->hflags & HF_CPL_MASK) == 3;
}

/* The address of the task that runs. False: the kernel's GS base is not there now, or no Linux. */
static bool find_task(struct X86VptNames *names, uint64_t *task)
{
    const CPUX86State *env = names->to.env;
    const uint64_t gs_base = is_user(names) ? env->kernelgsbase : env->segs[R_GS].base;

    if ((env->hflags & HF_GUEST_MASK) || !(env->hflags & HF_LMA_MASK) || gs_base < LOWER_HALF_END) {
        return false;
    }
    names->reads_left = 8; /* a walk of five levels, and what is looked for */
    if (gs_base != names->gs_base && !look_current(&names->kernel, gs_base, &names->current)) {
        return false;
    }
    names->gs_base = gs_base;
    return read_ram(names, names->current, task, sizeof(*task)) && *task >= LOWER_HALF_END;
}

/* Whether the task that was looked at last is still what it was, as far as it is cheap to say. */
static bool is_same(struct X86VptNames *names, uint64_t task)
{
    char comm[LOOK_COMM_BYTES];

    names->reads_left = 2;
    return task == names->now.task.address && !names->moved && names->now.comm &&
           look_physical(&names->memory, names->now.comm, comm, sizeof(comm)) &&
           strncmp(comm, names->now.task.comm, sizeof(comm) - 1) == 0;
}

/* The page tables that it runs with. User code does now; others will, when they return to it. */
static void find_roots(struct X86VptNames *names, struct now *now)
{
    const uint64_t cr3 = names->to.env->cr[3] & CR3_ADDRESS;

    if (!now->task.mm || !look_root(&names->kernel, now->task.mm, &now->root)) {
        return;
    }
    if (cr3 == (now->root | USER_TABLES) && cr3 != now->root) {
        now->user_root = cr3;
    } else if (now->task.address == names->now.task.address && now->root == names->now.root) {
        now->user_root = names->now.user_root;
    }
}

static bool look_at_task(struct X86VptNames *names, uint64_t address, struct now *now)
{
    *now = (struct now){0};
    if (!look_task(&names->kernel, address, &now->task)) {
        return false;
    }
    if (!look_translate(&names->kernel.space, address + names->kernel.layout.task_comm,
                        &now->comm)) {
        now->comm = 0;
    }
    find_roots(names, now);
    return true;
}

static bool is_told(const struct now *told, const struct now *now)
{
    return told->task.address == now->task.address && told->task.pid == now->task.pid &&
           told->task.tgid == now->task.tgid && strcmp(told->task.comm, now->task.comm) == 0 &&
           told->root == now->root && told->user_root == now->user_root;
}

/* Where it began: if it was told to have page tables that CR3 was loaded with, there. */
static uint64_t begin_of(const struct X86VptNames *names)
{
    return names->moved && names->now.root && names->moved_root == names->now.root
               ? names->moved_at
               : names->to.offset(names->to.owner);
}

static void take_task(struct X86VptNames *names, struct now *now)
{
    const bool is_known = is_told(&names->now, now);
    bool is_new = false;

    if (is_full(names)) {
        forget_all(names);
    }
    now->space = now->root ? number_of_space(names, now, &is_new) : 0;
    names->now = *now;
    if (is_new) {
        tcg_flush_jmp_cache(names->to.cs); /* its code is looked up, and so its mappings are told */
    }
    if (!is_known || is_new) {
        tell_task(names, begin_of(names), is_new);
    }
}

/* ---- Before a kernel is known ---- */

static void remember_root(struct X86VptNames *names)
{
    const uint64_t root = names->to.env->cr[3] & CR3_ADDRESS;

    for (unsigned i = 0; i < names->root_count; i++) {
        if (names->roots[i].root == root) {
            return;
        }
    }
    if (names->root_count < ROOTS_MAX) {
        names->roots[names->root_count++] =
            (struct root_at){root, names->to.offset(names->to.owner)};
    }
}

/*
 * What can be told now of what ran before: Linux begins where page tables of its own were loaded.
 * In front of that were firmware, what loads the kernel, or another system.
 */
static void tell_before(struct X86VptNames *names, uint64_t early_root)
{
    bool has_begun = names->told_before;

    for (unsigned i = 0; i < names->root_count; i++) {
        const struct root_at *loaded = &names->roots[i];

        if (loaded->root == 0 ||
            (loaded->root != names->kernel.space.root && loaded->root != early_root)) {
            continue;
        }
        if (!has_begun && loaded->at > names->since) {
            tell_kernel(names, names->since, NO_KERNEL_COMM, 0);
        }
        tell_kernel(names, loaded->at, KERNEL_COMM, loaded->root);
        has_begun = true;
    }
}

/* Nothing of a kernel is known from here on. */
static void begin_without(struct X86VptNames *names)
{
    qatomic_set(&names->has_kernel, false);
    names->since = names->to.offset(names->to.owner);
    names->root_count = 0;
    names->gs_base = 0;
    names->moved = false;
}

void x86_vpt_names_reset(struct X86VptNames *names)
{
    forget_all(names);
    begin_without(names);
    names->in_user = false;
    names->told_before = true;
    tell_kernel(names, names->since, NO_KERNEL_COMM, 0);
}

bool x86_vpt_names_wanted(const struct X86VptNames *names)
{
    return names && !qatomic_read(&names->has_kernel);
}

/* ---- Who runs now ---- */

void x86_vpt_names_look(struct X86VptNames *names)
{
    const bool was_user = names->in_user;
    struct now now;
    uint64_t task;

    if (!names->has_kernel) {
        remember_root(names);
        return;
    }
    names->in_user = is_user(names);
    if (was_user && !names->in_user) {
        return; /* the way in: it is nobody else yet */
    }
    if (!find_task(names, &task) || is_same(names, task) || !begin_look(names)) {
        return;
    }
    if (look_at_task(names, task, &now)) {
        take_task(names, &now);
        names->moved = false;
    }
    end_look(names);
}

void x86_vpt_names_new_space(struct X86VptNames *names)
{
    const uint64_t root = names->to.env->cr[3] & CR3_ADDRESS;

    if (!names->has_kernel) {
        remember_root(names);
        return;
    }
    /* With page-table isolation, the way in and out loads CR3 too, and changes nobody. */
    if (names->moved
            ? (root | USER_TABLES) == (names->moved_root | USER_TABLES)
            : names->now.root && (root == names->now.root || root == names->now.user_root)) {
        return;
    }
    names->moved = true;
    names->moved_root = root;
    names->moved_at = names->to.offset(names->to.owner);
}

/* ---- What it runs ---- */

static void look_at_map(struct X86VptNames *names, uint64_t pc)
{
    struct place place = {.space = names->now.space};
    const struct place *told;
    struct look_map map;

    if (!look_map(&names->kernel, names->now.task.mm, pc, &map) || map.start > pc) {
        return;
    }
    place = (struct place){.space = names->now.space,
                           .address = map.start,
                           .end = map.end,
                           .offset = map.offset,
                           .file = map.file};
    told = g_hash_table_lookup(names->maps, &place);
    if (told && told->end == place.end && told->offset == place.offset &&
        told->file == place.file) {
        return;
    }
    remember(names->maps, &place, sizeof(place));
    tell_map(names, &map);
}

void x86_vpt_names_code(struct X86VptNames *names, const TranslationBlock *tb, uint64_t pc)
{
    const struct place page = {.space = names->now.space,
                               .address = pc & TARGET_PAGE_MASK,
                               .physical = tb_page_addr0(tb) & TARGET_PAGE_MASK};
    const struct place *known;

    if (!names->has_kernel || !names->has_maps || !page.space || pc >= LOWER_HALF_END ||
        (tb->flags & (HF_CPL_MASK | HF_GUEST_MASK)) != 3) {
        return;
    }
    known = g_hash_table_lookup(names->pages, &page);
    if ((known && known->physical == page.physical) || !begin_look(names)) {
        return;
    }
    look_at_map(names, pc);
    end_look(names);
    remember(names->pages, &page, sizeof(page));
}

void x86_vpt_names_anew(struct X86VptNames *names)
{
    forget_all(names);
    names->begin_bytes = names->to.offset(names->to.owner);
    names->bytes = 0;
    names->in_user = false;
    if (!names->has_kernel && names->told_before) {
        tell_kernel(names, names->begin_bytes, NO_KERNEL_COMM, 0);
    }
    x86_vpt_names_look(names);
}

/* ---- Begin and end ---- */

static bool take_number(struct look_layout *layout, const char *name, QObject *value, Error **errp)
{
    const struct look_number *number = look_number_find(name);
    QNum *given = qobject_to(QNum, value);
    uint64_t found;

    if (!number || !given || !qnum_get_try_uint(given, &found) ||
        !look_number_is_good(number, found)) {
        error_setg(errp, "names: '%s' is no number of a lay-out", name);
        return false;
    }
    *look_number_in(layout, number) = found;
    return true;
}

static bool take_layout(struct look_layout *layout, const VptNames *given, Error **errp)
{
    QDict *numbers = qobject_to(QDict, given->layout);

    memset(layout, 0xff, sizeof(*layout)); /* LOOK_NONE, everywhere */
    if (!numbers) {
        error_setg(errp, "names: 'layout' is no object");
        return false;
    }
    for (const QDictEntry *entry = qdict_first(numbers); entry;
         entry = qdict_next(numbers, entry)) {
        if (!take_number(layout, qdict_entry_key(entry), qdict_entry_value(entry), errp)) {
            return false;
        }
    }
    if (!look_has(layout, LOOK_TASKS)) {
        error_setg(errp, "names: the lay-out does not tell who runs");
        return false;
    }
    return true;
}

static bool take_kernel(struct X86VptNames *names, const VptNames *given, Error **errp)
{
    struct look_layout layout;

    if (!take_layout(&layout, given, errp)) {
        return false;
    }
    names->has_maps = look_has(&layout, LOOK_MAPS);
    names->has_pages = look_has(&layout, LOOK_PAGES);
    names->memory = (struct look_memory){names, read_ram};
    names->kernel.layout = layout;
    names->kernel.space = (struct look_space){
        .memory = &names->memory,
        .root = given->root & CR3_ADDRESS,
        .ignored = given->has_ignored ? given->ignored : 0,
        .has_five_levels = given->has_five_levels && given->five_levels,
    };
    return true;
}

bool x86_vpt_names_take(struct X86VptNames *names, const VptNames *given, Error **errp)
{
    if (!take_kernel(names, given, errp)) {
        return false;
    }
    if (!names->has_kernel) {
        tell_before(names, given->has_early_root ? given->early_root & CR3_ADDRESS : 0);
    }
    forget_all(names);
    begin_without(names);
    qatomic_set(&names->has_kernel, true);
    names->in_user = false;
    tcg_flush_jmp_cache(names->to.cs);
    x86_vpt_names_look(names);
    return true;
}

struct X86VptNames *x86_vpt_names_new(const struct X86VptNamesTo *to, const VptNames *kernel,
                                      struct X86VptFile *file, Error **errp)
{
    struct X86VptNames *names = g_new0(struct X86VptNames, 1);

    if (!place_key[0]) {
        qemu_guest_getrandom_nofail(place_key, sizeof(place_key));
    }
    names->to = *to;
    names->filled_ns = get_clock();
    names->reads_saved = READS_SAVED_MAX;
    names->of_process = g_hash_table_new_full(space_hash, space_equal, g_free, NULL);
    names->of_root = g_hash_table_new_full(space_hash, space_equal, g_free, NULL);
    names->pages = g_hash_table_new_full(place_hash, place_equal, g_free, NULL);
    names->maps = g_hash_table_new_full(place_hash, place_equal, g_free, NULL);
    names->has_kernel = kernel && take_kernel(names, kernel, errp);
    if (!*errp && to->ring) {
        return names;
    }
    if (!*errp) {
        names->file = fdopen(file->fd, "wb");
    }
    if (names->file) {
        file->fd = -1;
        if (fputs(X86_VPT_NAMES_HEAD "0}\n", names->file) < 0) {
            names->error = errno;
        }
        return names;
    }
    if (!*errp) {
        error_setg_errno(errp, errno, "%s", file->name);
    }
    (void)x86_vpt_names_free(names);
    return NULL;
}

void x86_vpt_names_end(struct X86VptNames *names)
{
    tell_left_out(names, names->to.offset(names->to.owner));
}

int x86_vpt_names_free(struct X86VptNames *names)
{
    int error;

    if (!names) {
        return 0;
    }
    error = names->file && fclose(names->file) != 0 ? errno : 0;
    error = names->error ? names->error : error;
    g_hash_table_destroy(names->of_process);
    g_hash_table_destroy(names->of_root);
    g_hash_table_destroy(names->pages);
    g_hash_table_destroy(names->maps);
    g_free(names);
    return error;
}

int x86_vpt_names_error(const struct X86VptNames *names)
{
    return names ? qatomic_read(&names->error) : 0;
}

uint64_t x86_vpt_names_left_out(const struct X86VptNames *names)
{
    return names ? qatomic_read(&names->left_out) : 0;
}
