/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads map files. They are written by hand: a member that is unknown, or is not what it should be,
 * is an error that names its place. JSON is read here and not in the decoder's library, which needs
 * no more than Zydis and elfutils.
 */
#include "trace/mapfile.h"
#include "common/bytes.h"
#include "common/file.h"
#include "common/json.h"
#include "common/list.h"
#include "common/open.h"
#include "ptdec.h"
#include "trace/code-files.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAP_VERSION 1
#define PLACE_BYTES 128

/* A value, and where in the file it stands: "vms[0].processes[2]". */
struct node {
    json_object *value;
    char place[PLACE_BYTES];
};

struct reader {
    const char *path;
    struct code_files *files;
    struct ptd_image *image;
    struct map *map;
    const struct ptd_file *symbols; /* of mapped files of the machine; or NULL */
};

typedef int (*read_fn)(struct reader *reader, const struct node *node, void *into);

struct member {
    const char *name;
    read_fn read;
    size_t offset; /* in what into points to */
    bool required;
};

__attribute__((format(printf, 3, 4))) static int
wrong(struct reader *reader, const struct node *node, const char *format, ...)
{
    char what[256];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return reason_set(&reader->map->why, -EINVAL, "%.160s: %s%s%.200s", reader->path, node->place,
                      node->place[0] ? ": " : "", what);
}

/* An error of the decoder's library, about what node says. */
static int library_error(struct reader *reader, const struct node *node, int status)
{
    if (status == PTD_E_NOMEM)
        return -ENOMEM;
    return wrong(reader, node, "%s", ptd_strerror(status));
}

/* ---- Values ---- */

static bool parse_text(const char *text, uint64_t *value)
{
    const bool negative = text[0] == '-';
    const char *const digits = text + negative;
    char *end;

    if (digits[0] < '0' || digits[0] > '9')
        return false;
    errno = 0;
    *value = strtoull(digits, &end, 0);
    if (errno || *end)
        return false;
    if (negative)
        *value = UINT64_C(0) - *value;
    return true;
}

/* An integer, or a text of one: "0x1000", "-5". Negative ones count modulo 2^64. */
static int read_number(struct reader *reader, const struct node *node, void *into)
{
    if (json_object_is_type(node->value, json_type_int)) {
        *(uint64_t *)into = json_object_get_int64(node->value) < 0
                                ? (uint64_t)json_object_get_int64(node->value)
                                : json_object_get_uint64(node->value);
        return 0;
    }
    if (json_object_is_type(node->value, json_type_string) &&
        parse_text(json_object_get_string(node->value), into))
        return 0;
    return wrong(reader, node, "not a number such as 4096 or \"0x1000\"");
}

static int read_text(struct reader *reader, const struct node *node, void *into)
{
    if (!json_object_is_type(node->value, json_type_string))
        return wrong(reader, node, "not a text");
    *(const char **)into = json_object_get_string(node->value);
    return 0;
}

static int read_node(struct reader *reader, const struct node *node, void *into)
{
    (void)reader;
    *(struct node *)into = *node;
    return 0;
}

static const struct member *find_member(const struct member *members, const char *name)
{
    while (members->name && strcmp(members->name, name) != 0)
        members++;
    return members->name ? members : NULL;
}

static struct node child(const struct node *parent, json_object *value, const char *name)
{
    struct node node = {.value = value};

    (void)snprintf(node.place, sizeof(node.place), "%.80s%s%.32s", parent->place,
                   parent->place[0] ? "." : "", name);
    return node;
}

static struct node element(const struct node *list, size_t i)
{
    struct node node = {.value = json_object_array_get_idx(list->value, i)};

    (void)snprintf(node.place, sizeof(node.place), "%.100s[%zu]", list->place, i);
    return node;
}

/* All members of an object into a structure; members ends with a name of NULL. */
static int read_object(struct reader *reader, const struct node *node, const struct member *members,
                       void *into)
{
    if (!json_object_is_type(node->value, json_type_object))
        return wrong(reader, node, "not an object");
    json_object_object_foreach(node->value, name, value)
    {
        const struct member *const member = find_member(members, name);
        const struct node at = child(node, value, name);
        int error;

        if (!member)
            return wrong(reader, node, "no such member: \"%.64s\"", name);
        error = member->read(reader, &at, (char *)into + member->offset);
        if (error)
            return error;
    }
    for (; members->name; members++)
        if (members->required && !json_object_object_get_ex(node->value, members->name, NULL))
            return wrong(reader, node, "\"%s\" is missing", members->name);
    return 0;
}

/* Calls read for each element of a list that may be absent; one value that is no list counts as one
 * element if single. */
static int read_list(struct reader *reader, const struct node *list, bool single, read_fn read,
                     void *into)
{
    int error = 0;

    if (!list->value)
        return 0;
    if (!json_object_is_type(list->value, json_type_array))
        return single ? read(reader, list, into) : wrong(reader, list, "not a list");
    for (size_t i = 0; !error && i < json_object_array_length(list->value); i++) {
        const struct node node = element(list, i);

        error = read(reader, &node, into);
    }
    return error;
}

/* ---- Images ---- */

struct image_entry {
    const char *path;
    uint64_t bias, address;
};

static const struct member image_members[] = {
    {"path", read_text, offsetof(struct image_entry, path), true},
    {"bias", read_number, offsetof(struct image_entry, bias), false},
    {"address", read_number, offsetof(struct image_entry, address), false},
    {0},
};

/* What is wrong with a file that node names. */
static int wrong_file(struct reader *reader, const struct node *node, int error,
                      const struct reason *why)
{
    return error == -ENOMEM ? error : wrong(reader, node, "%s", why->text);
}

static int add_raw_code(struct reader *reader, const struct node *node, const char *path,
                        uint64_t address, uint64_t space)
{
    const struct file_name name = {.path = path};
    struct bytes code = {0};
    struct reason why;
    int error = code_files_read(reader->files, &name, &code, &why), status;

    if (error)
        return wrong_file(reader, node, error, &why);
    status = ptd_image_add_bytes(reader->image, NULL, address, code.data, code.len, space);
    bytes_free(&code);
    return status == PTD_OK ? 0 : library_error(reader, node, status);
}

static int read_image(struct reader *reader, const struct node *node, void *into)
{
    const uint64_t space = *(uint64_t *)into;
    struct image_entry entry = {0};
    char path[PATH_MAX];
    const struct file_name name = {.path = path};
    struct reason why;
    int error = read_object(reader, node, image_members, &entry);

    if (error)
        return error;
    beside(reader->path, entry.path, path, sizeof(path));
    if (json_object_object_get_ex(node->value, "address", NULL)) {
        if (json_object_object_get_ex(node->value, "bias", NULL))
            return wrong(reader, node, "\"bias\" is for ELF files, \"address\" for others");
        if (reader->map->is_of_trace)
            return wrong(reader, node, "only --map may name bare code");
        return add_raw_code(reader, node, path, entry.address, space);
    }
    error = code_files_add_elf(reader->files, &name, entry.bias, space, reader->image, &why);
    return error ? wrong_file(reader, node, error, &why) : 0;
}

/* The file that a member names, beside the map. 0 or -errno. */
static int read_file_name(struct reader *reader, const struct node *node, char path[PATH_MAX])
{
    const char *entry = "";
    const int error = read_text(reader, node, (void *)&entry);

    if (error)
        return error;
    if (reader->map->is_of_trace && strchr(entry, '/'))
        return wrong(reader, node, "only --map may name files elsewhere");
    beside(reader->path, entry, path, PATH_MAX);
    return 0;
}

/* The names of the kernel's code. */
static int read_kallsyms(struct reader *reader, const struct node *node, uint64_t space)
{
    char path[PATH_MAX];
    const struct file_name name = {.path = path};
    struct reason why;
    int error;

    if (!node->value)
        return 0;
    error = read_file_name(reader, node, path);
    if (error)
        return error;
    error = code_files_add_kallsyms(reader->files, &name, space, reader->image, &why);
    return error ? wrong_file(reader, node, error, &why) : 0;
}

/* ---- Mapped files ---- */

/* An ELF file with the symbols of all mapped files of a machine. */
static int read_symbols(struct reader *reader, const struct node *node)
{
    const struct code_file *file = NULL;
    char path[PATH_MAX];
    const struct file_name name = {.path = path};
    struct reason why;
    int error;

    reader->symbols = NULL;
    if (!node->value)
        return 0;
    error = read_file_name(reader, node, path);
    if (error)
        return error;
    error = code_files_elf(reader->files, &name, NULL, &file, &why);
    if (error)
        return wrong_file(reader, node, error, &why);
    reader->symbols = file->content;
    return 0;
}

struct mapped_entry {
    const char *path, *build_id;
    uint64_t start, end, offset, symbols_at;
};

static const struct member mapped_members[] = {
    {"path", read_text, offsetof(struct mapped_entry, path), true},
    {"start", read_number, offsetof(struct mapped_entry, start), true},
    {"end", read_number, offsetof(struct mapped_entry, end), true},
    {"offset", read_number, offsetof(struct mapped_entry, offset), false},
    {"build_id", read_text, offsetof(struct mapped_entry, build_id), false},
    {"symbols_at", read_number, offsetof(struct mapped_entry, symbols_at), false},
    {0},
};

/* Its names, by its build id or from the machine's symbols, and how far below the code they are. */
static const struct ptd_file *names_of(struct reader *reader, const struct mapped_entry *entry,
                                       uint64_t *bias)
{
    const struct ptd_file *names = entry->symbols_at ? reader->symbols : NULL;
    uint64_t linked_for = entry->symbols_at;
    struct elf_id id;

    if (entry->build_id && elf_id_parse(entry->build_id, &id))
        (void)code_files_names(reader->files, &id, entry->end - entry->start, &names, &linked_for);
    *bias = entry->start - linked_for;
    return names;
}

/* The first that is told of a file counts. False: no memory. */
static bool note_symbols(struct map *map, const char *name, const struct map_symbols *symbols)
{
    const size_t known = map->mapped.count;
    struct map_symbols *const grown =
        list_grow(map->symbols, known, &map->symbols_room, sizeof(*grown));

    if (!grown)
        return false;
    map->symbols = grown;
    map->symbols[known] = *symbols; /* its number, if it is new */
    return names_add(&map->mapped, name) != UINT32_MAX;
}

/* For mappings of the same file that others tell of. */
static int take_symbols(struct reader *reader, const struct mapped_entry *entry,
                        const struct map_symbols *symbols)
{
    if (!symbols->symbols)
        return 0;
    return note_symbols(reader->map, entry->path, symbols) &&
                   (!entry->build_id || note_symbols(reader->map, entry->build_id, symbols))
               ? 0
               : -ENOMEM;
}

/* What is mapped, where that stands, and its names. 0 or -errno. */
static int read_entry(struct reader *reader, const struct node *node, struct mapped_entry *entry)
{
    const int error = read_object(reader, node, mapped_members, entry);

    if (!error && entry->start >= entry->end)
        return wrong(reader, node, "\"end\" is not behind \"start\"");
    return error;
}

/* One that no process of the map has mapped: others may tell of it. */
static int read_file_names(struct reader *reader, const struct node *node, void *into)
{
    struct mapped_entry entry = {0};
    const struct ptd_file *names;
    uint64_t bias;
    const int error = read_entry(reader, node, &entry);

    (void)into;
    if (error)
        return error;
    names = names_of(reader, &entry, &bias);
    if (names && !code_files_call(reader->files, names, entry.start - bias, entry.path))
        return -ENOMEM;
    return take_symbols(reader, &entry,
                        &(const struct map_symbols){names, entry.offset, entry.start - bias});
}

/* A file of the guest's, which is not here: its name is that of code that comes from elsewhere. */
static int read_mapped(struct reader *reader, const struct node *node, void *into)
{
    const uint64_t space = *(uint64_t *)into;
    struct mapped_entry entry = {0};
    const struct ptd_file *names;
    const char *last;
    uint64_t bias;
    char name[NAME_MAX + 3];
    int error = read_entry(reader, node, &entry), status;

    if (error)
        return error;
    last = strrchr(entry.path, '/');
    (void)snprintf(name, sizeof(name), "[%.*s]", NAME_MAX, last ? last + 1 : entry.path);
    names = names_of(reader, &entry, &bias);
    if (names && !code_files_call(reader->files, names, entry.start - bias, entry.path))
        return -ENOMEM;
    status = ptd_image_add_region(reader->image, name, entry.start, entry.end - entry.start, names,
                                  bias, space);
    if (status != PTD_OK)
        return library_error(reader, node, status);
    return take_symbols(reader, &entry,
                        &(const struct map_symbols){names, entry.offset, entry.start - bias});
}

/* ---- Processes ---- */

struct process_entry {
    const char *name;
    uint64_t pid;
    struct node cr3, images, threads, files;
};

struct thread_entry {
    uint64_t tid;
    const char *name;
};

static const struct member thread_members[] = {
    {"tid", read_number, offsetof(struct thread_entry, tid), true},
    {"name", read_text, offsetof(struct thread_entry, name), false},
    {0},
};

/* For people: no packet of a trace says which thread runs. */
static int read_thread(struct reader *reader, const struct node *node, void *into)
{
    struct thread_entry entry = {0};

    (void)into;
    return read_object(reader, node, thread_members, &entry);
}

static const struct member process_members[] = {
    {"name", read_text, offsetof(struct process_entry, name), false},
    {"pid", read_number, offsetof(struct process_entry, pid), false},
    {"cr3", read_node, offsetof(struct process_entry, cr3), true},
    {"images", read_node, offsetof(struct process_entry, images), false},
    {"threads", read_node, offsetof(struct process_entry, threads), false},
    {"files", read_node, offsetof(struct process_entry, files), false},
    {0},
};

/* A CR3 of a process of a VM. */
struct address_space {
    const struct process_entry *process;
    unsigned vm;
};

static int read_cr3(struct reader *reader, const struct node *node, void *into)
{
    const struct address_space *const where = into;
    uint64_t cr3 = 0, space;
    int error = read_number(reader, node, &cr3), status;

    if (error)
        return error;
    if (cr3 >> 52)
        return wrong(reader, node, "not a value of CR3");
    status = ptd_contexts_add_process(reader->map->contexts, where->vm, cr3, where->process->name,
                                      (int64_t)where->process->pid);
    if (status != PTD_OK)
        return library_error(reader, node, status);
    space = ptd_space(where->vm, cr3);
    error = read_list(reader, &where->process->images, false, read_image, &space);
    return error ? error : read_list(reader, &where->process->files, false, read_mapped, &space);
}

static int read_process(struct reader *reader, const struct node *node, void *into)
{
    struct process_entry entry = {.pid = UINT64_MAX};
    struct address_space where = {&entry, *(unsigned *)into};
    int error = read_object(reader, node, process_members, &entry);

    if (error)
        return error;
    if (entry.pid != UINT64_MAX && entry.pid > INT32_MAX)
        return wrong(reader, node, "\"pid\" is out of range");
    error = read_list(reader, &entry.threads, false, read_thread, NULL);
    return error ? error : read_list(reader, &entry.cr3, true, read_cr3, &where);
}

/* ---- Memory ---- */

struct memory_entry {
    const char *core, *raw, *paging;
    uint64_t address;
};

static const struct member memory_members[] = {
    {"core", read_text, offsetof(struct memory_entry, core), false},
    {"raw", read_text, offsetof(struct memory_entry, raw), false},
    {"address", read_number, offsetof(struct memory_entry, address), false},
    {"paging", read_text, offsetof(struct memory_entry, paging), false},
    {0},
};

static const char *const paging_names[] = {
    [PTD_PAGING_UNKNOWN] = "",        [PTD_PAGING_32] = "32-bit",       [PTD_PAGING_PAE] = "pae",
    [PTD_PAGING_4_LEVEL] = "4-level", [PTD_PAGING_5_LEVEL] = "5-level",
};

static int find_paging(struct reader *reader, const struct node *node, const char *name,
                       enum ptd_paging *paging)
{
    for (unsigned i = PTD_PAGING_32; name && i <= PTD_PAGING_5_LEVEL; i++)
        if (strcmp(paging_names[i], name) == 0) {
            *paging = (enum ptd_paging)i;
            return 0;
        }
    if (name)
        return wrong(reader, node, "\"paging\" is 32-bit, pae, 4-level or 5-level");
    return *paging == PTD_PAGING_UNKNOWN
               ? wrong(reader, node, "\"paging\" is missing, and the file does not tell it")
               : 0;
}

/* A new one, which belongs to the map. */
static struct ptd_memory *new_memory(struct map *map)
{
    struct ptd_memory **const bigger =
        reallocarray(map->memories, map->memory_count + 1, sizeof(struct ptd_memory *));

    if (!bigger)
        return NULL;
    map->memories = bigger;
    map->memories[map->memory_count] = ptd_memory_new();
    return map->memories[map->memory_count] ? map->memories[map->memory_count++] : NULL;
}

/* The memory that a file holds: it is mapped, so that only what is used of it takes memory. */
static int map_memory(struct reader *reader, const struct node *node,
                      const struct memory_entry *entry, struct ptd_memory *memory,
                      enum ptd_paging *paging)
{
    char path[PATH_MAX];
    const struct file_name name = {.path = path};
    struct reason why;
    int fd, status;

    beside(reader->path, entry->core ? entry->core : entry->raw, path, sizeof(path));
    fd = open_named(&name, &why);
    if (fd < 0)
        return wrong_file(reader, node, fd, &why);
    status = entry->core ? ptd_memory_add_core_fd(memory, fd, paging)
                         : ptd_memory_add_raw_fd(memory, fd, entry->address);
    (void)close(fd);
    if (status == PTD_E_NOMEM)
        return -ENOMEM;
    return status == PTD_OK ? 0 : wrong(reader, node, "%.160s: %s", path, ptd_strerror(status));
}

static int read_memory(struct reader *reader, const struct node *node, unsigned vm)
{
    struct memory_entry entry = {0};
    enum ptd_paging paging = PTD_PAGING_UNKNOWN;
    struct ptd_memory *memory;
    int error, status;

    if (!node->value)
        return 0;
    error = read_object(reader, node, memory_members, &entry);
    if (error)
        return error;
    if (!entry.core == !entry.raw)
        return wrong(reader, node, "either \"core\" or \"raw\" names a file");
    if (reader->map->is_of_trace && (entry.raw || strchr(entry.core, '/')))
        return wrong(reader, node, "only --map may name memory elsewhere, or bare memory");
    memory = new_memory(reader->map);
    if (!memory)
        return -ENOMEM;
    error = map_memory(reader, node, &entry, memory, &paging);
    if (error)
        return error;
    error = find_paging(reader, node, entry.paging, &paging);
    if (error)
        return error;
    status = ptd_image_add_memory(reader->image, vm, memory, paging);
    return status == PTD_OK ? 0 : library_error(reader, node, status);
}

/* ---- The host and its VMs ---- */

struct machine_entry {
    const char *name;
    struct node vmcs, vcpus, images, kallsyms, symbols, processes, files, memory;
    uint64_t pid, tsc_offset, tsc_multiplier, kernel_from;
};

#define MACHINE_MEMBERS                                                                            \
    {"images", read_node, offsetof(struct machine_entry, images), false},                          \
        {"kallsyms", read_node, offsetof(struct machine_entry, kallsyms), false},                  \
        {"symbols", read_node, offsetof(struct machine_entry, symbols), false},                    \
        {"processes", read_node, offsetof(struct machine_entry, processes), false},                \
        {"files", read_node, offsetof(struct machine_entry, files), false},                        \
        {"memory", read_node, offsetof(struct machine_entry, memory), false},                      \
        {"kernel_from", read_number, offsetof(struct machine_entry, kernel_from), false},          \
    {                                                                                              \
        0                                                                                          \
    }

static const struct member host_members[] = {MACHINE_MEMBERS};

static const struct member vm_members[] = {
    {"name", read_text, offsetof(struct machine_entry, name), false},
    {"vmcs", read_node, offsetof(struct machine_entry, vmcs), false},
    {"pid", read_number, offsetof(struct machine_entry, pid), false},
    {"vcpus", read_node, offsetof(struct machine_entry, vcpus), false},
    {"tsc_offset", read_number, offsetof(struct machine_entry, tsc_offset), false},
    {"tsc_multiplier", read_number, offsetof(struct machine_entry, tsc_multiplier), false},
    MACHINE_MEMBERS,
};

static const struct machine_entry no_machine = {.kernel_from = UINT64_C(1) << 63};

/* What the host and a VM have in common. */
static int add_machine(struct reader *reader, const struct node *node,
                       const struct machine_entry *entry, unsigned vm)
{
    uint64_t space = ptd_space(vm, PTD_ANY_CR3);
    const int status = ptd_contexts_set_kernel(reader->map->contexts, vm, entry->kernel_from);
    int error = status == PTD_OK ? 0 : library_error(reader, node, status);

    if (!error)
        error = read_memory(reader, &entry->memory, vm);
    if (!error)
        error = read_list(reader, &entry->images, false, read_image, &space);
    if (!error)
        error = read_kallsyms(reader, &entry->kallsyms, space);
    if (!error)
        error = read_symbols(reader, &entry->symbols);
    if (!error)
        error = read_list(reader, &entry->processes, false, read_process, &vm);
    if (!error)
        error = read_list(reader, &entry->files, false, read_file_names, NULL);
    return error;
}

static int read_host(struct reader *reader, const struct node *node, void *into)
{
    struct machine_entry entry = no_machine;
    const int error = read_object(reader, node, host_members, &entry);

    (void)into;
    return error ? error : add_machine(reader, node, &entry, 0);
}

static int read_vmcs(struct reader *reader, const struct node *node, void *into)
{
    uint64_t vmcs = 0;
    int error = read_number(reader, node, &vmcs), status;

    if (error)
        return error;
    if (vmcs & 0xfff || vmcs >> 52)
        return wrong(reader, node, "not a VMCS pointer");
    status = ptd_contexts_add_vmcs(reader->map->contexts, *(unsigned *)into, vmcs);
    if (status == PTD_E_ARG)
        return wrong(reader, node, "this VMCS pointer was told before");
    return status == PTD_OK ? 0 : library_error(reader, node, status);
}

struct vcpu_entry {
    uint64_t vcpu, tid, from, tsc_offset, tsc_multiplier;
};

static const struct member vcpu_members[] = {
    {"vcpu", read_number, offsetof(struct vcpu_entry, vcpu), false}, /* for people */
    {"tid", read_number, offsetof(struct vcpu_entry, tid), true},
    {"from", read_number, offsetof(struct vcpu_entry, from), false},
    {"tsc_offset", read_number, offsetof(struct vcpu_entry, tsc_offset), false},
    {"tsc_multiplier", read_number, offsetof(struct vcpu_entry, tsc_multiplier), false},
    {0},
};

/* In place of VMCS pointers, which a thread of the host has besides. */
static int read_vcpu(struct reader *reader, const struct node *node, void *into)
{
    struct map *const map = reader->map;
    struct vcpu_entry entry = {0};
    int error = read_object(reader, node, vcpu_members, &entry), status;
    struct ptd_perf_vcpu *grown;

    if (error)
        return error;
    if (entry.tid == 0 || entry.tid > INT32_MAX)
        return wrong(reader, node, "\"tid\" is out of range");
    grown = list_grow(map->vcpus, map->vcpu_count, &map->vcpu_room, sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    map->vcpus = grown;
    map->vcpus[map->vcpu_count] = (struct ptd_perf_vcpu){
        .tid = (uint32_t)entry.tid,
        .has_tsc = json_object_object_get_ex(node->value, "tsc_offset", NULL),
        .from = entry.from,
        .vmcs = PTD_PERF_VMCS(map->vcpu_count),
    };
    status =
        ptd_contexts_add_vcpu(map->contexts, *(unsigned *)into, map->vcpus[map->vcpu_count].vmcs,
                              entry.tsc_offset, entry.tsc_multiplier);
    if (status == PTD_E_ARG)
        return wrong(reader, node, "\"tsc_multiplier\" is out of range");
    map->vcpu_count++;
    return status == PTD_OK ? 0 : library_error(reader, node, status);
}

static int read_vm(struct reader *reader, const struct node *node, void *into)
{
    struct machine_entry entry = no_machine;
    int error = read_object(reader, node, vm_members, &entry), number;
    unsigned vm;

    (void)into;
    if (error)
        return error;
    if (!entry.vmcs.value && !entry.vcpus.value)
        return wrong(reader, node, "neither \"vmcs\" nor \"vcpus\" says which VM it is");
    number = ptd_contexts_add_vm(reader->map->contexts, entry.name, entry.tsc_offset,
                                 entry.tsc_multiplier);
    if (number == PTD_E_ARG)
        return wrong(reader, node, "too many VMs, or \"tsc_multiplier\" is out of range");
    if (number < 0)
        return library_error(reader, node, number);
    vm = (unsigned)number;
    error = read_list(reader, &entry.vmcs, true, read_vmcs, &vm);
    if (!error)
        error = read_list(reader, &entry.vcpus, false, read_vcpu, &vm);
    return error ? error : add_machine(reader, node, &entry, vm);
}

/* ---- The file ---- */

struct file_entry {
    uint64_t version;
    struct node host, vms;
};

static const struct member file_members[] = {
    {"vpt-map", read_number, offsetof(struct file_entry, version), true},
    {"host", read_node, offsetof(struct file_entry, host), false},
    {"vms", read_node, offsetof(struct file_entry, vms), false},
    {0},
};

static int read_map(struct reader *reader, json_object *value)
{
    const struct node root = {.value = value};
    struct file_entry entry = {0};
    int error = read_object(reader, &root, file_members, &entry);

    if (!error && entry.version != MAP_VERSION)
        error = wrong(reader, &root, "version %llu is not known, only %d",
                      (unsigned long long)entry.version, MAP_VERSION);
    if (!error && entry.host.value)
        error = read_host(reader, &entry.host, NULL);
    if (!error)
        error = read_list(reader, &entry.vms, false, read_vm, NULL);
    return error;
}

static int map_no_memory(struct reader *reader)
{
    return reason_set(&reader->map->why, -ENOMEM, "%.300s: no memory", reader->path);
}

int map_parse(const char *path, const char *text, size_t len_bytes, struct code_files *files,
              struct ptd_image *image, struct map *map)
{
    struct reader reader = {.path = path, .files = files, .image = image, .map = map};
    const struct node root = {0};
    char why[160];
    json_object *value;
    int error;

    if (!map->contexts)
        map->contexts = ptd_contexts_new(image);
    if (!map->contexts)
        return map_no_memory(&reader);
    value = json_parse(text, len_bytes, why, sizeof(why));
    error = value ? read_map(&reader, value) : wrong(&reader, &root, "%s", why);
    json_object_put(value);
    return error == -ENOMEM ? map_no_memory(&reader) : error;
}

/* Who names it by an option may name a pipe. */
static int read_text_of(const char *path, struct map *map, struct bytes *text)
{
    const struct file_name name = {.path = path};
    int error;

    if (map->is_of_trace)
        return read_named(&name, MAP_BYTES_MAX, text, &map->why);
    error = read_file_within(path, MAP_BYTES_MAX, text);
    return error ? reason_set(&map->why, error, "%.300s: %s", path, strerror(-error)) : 0;
}

int map_load(const char *path, struct code_files *files, struct ptd_image *image, struct map *map)
{
    struct bytes text = {0};
    int error = read_text_of(path, map, &text);

    if (!error)
        error = map_parse(path, text.data ? (char *)text.data : "", text.len, files, image, map);
    bytes_free(&text);
    return error;
}

struct map_symbols map_symbols_of(const struct map *map, const char *name)
{
    const uint32_t number = names_find(&map->mapped, name);

    if (number == UINT32_MAX)
        return (struct map_symbols){0};
    return map->symbols[number];
}

void map_free(struct map *map)
{
    ptd_contexts_free(map->contexts);
    names_free(&map->mapped);
    free(map->symbols);
    free(map->vcpus);
    map->vcpus = NULL;
    map->vcpu_count = map->vcpu_room = 0;
    map->symbols = NULL;
    map->symbols_room = 0;
    for (size_t i = 0; i < map->memory_count; i++)
        ptd_memory_free(map->memories[i]);
    free(map->memories);
    map->contexts = NULL;
    map->memories = NULL;
    map->memory_count = 0;
}
