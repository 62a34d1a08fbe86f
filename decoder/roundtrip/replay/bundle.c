/* SPDX-License-Identifier: BSD-3-Clause */
/* Bundles of LLDB, of the present schema and of the one before it, see bundle.h. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "code.h"

#define FILE_MAX   ((size_t)16 << 20)
#define DETECT_MAX ((size_t)64 << 10)
#define DEPTH_MAX  32
#define BLANKS     " \t\r\n"
#define PATH_BYTES 4096u
#define NAME_BYTES (PATH_BYTES + 64)
#define KERNEL     0xffffffff81000000ull /* where Linux is linked for */

struct bundle {
    const char *path;
    const struct options *options;
    trace_fn run;
};

/* ---- Values ---- */

/* NULL: there is none of this name, or object is NULL or no object. */
static struct json_object *member(struct json_object *object, const char *name)
{
    struct json_object *value = NULL;

    (void)json_object_object_get_ex(object, name, &value);
    return value;
}

static struct json_object *either(struct json_object *object, const char *name, const char *older)
{
    struct json_object *const value = member(object, name);

    return value ? value : member(object, older);
}

static size_t count(struct json_object *array)
{
    return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

/* A number of C, in a string or not: 4194304, "0x400000". */
static bool number(struct json_object *value, uint64_t *result)
{
    const bool is_text = json_object_is_type(value, json_type_string);
    const char *text;
    char *end;

    if (!is_text && !json_object_is_type(value, json_type_int))
        return false;
    text = json_object_get_string(value);
    errno = 0;
    *result = strtoull(text, &end, 0);
    return text[0] >= '0' && text[0] <= '9' && errno == 0 && !*end;
}

/* A file that a string names, seen from the folder of the bundle. */
static bool file_of(const struct bundle *bundle, struct json_object *name, char *path)
{
    const char *const slash = strrchr(bundle->path, '/');
    const size_t folder = slash ? (size_t)(slash - bundle->path) + 1 : 0;
    const char *file;

    if (!json_object_is_type(name, json_type_string))
        return false;
    file = json_object_get_string(name);
    return file[0] && snprintf(path, PATH_BYTES, "%.*s%s", file[0] == '/' ? 0 : (int)folder,
                               bundle->path, file) < (int)PATH_BYTES;
}

/* ---- Code ---- */

static int add_file(struct ptd_image *image, const char *path, uint64_t address)
{
    uint64_t lowest;
    int status = code_lowest(path, &lowest);

    if (status == PTD_OK)
        status = ptd_image_add_elf(image, path, address - lowest, PTD_ANY_CR3);
    return status == PTD_E_FORMAT ? code_add_raw(image, path, 0, UINT64_MAX, address) : status;
}

/* The copy in the bundle, or what is at its place on this machine. */
static void add_module(const struct bundle *bundle, struct ptd_image *image,
                       struct json_object *module, uint64_t address)
{
    static const char *const names[] = {"file", "systemPath"};
    char path[PATH_BYTES] = "a module without a name";
    bool added = false;

    for (unsigned i = 0; i < 2 && !added; i++)
        added = file_of(bundle, member(module, names[i]), path) &&
                add_file(image, path, address) == PTD_OK;
    if (!added)
        printf("%s: there is no code of %s\n", bundle->path, path);
}

static void add_modules(const struct bundle *bundle, struct ptd_image *image,
                        struct json_object *process)
{
    struct json_object *const modules = member(process, "modules");

    for (size_t i = 0; i < count(modules); i++) {
        struct json_object *const module = json_object_array_get_idx(modules, i);
        uint64_t address;

        if (number(member(module, "loadAddress"), &address))
            add_module(bundle, image, module, address);
    }
}

static void add_kernel(const struct bundle *bundle, struct ptd_image *image,
                       struct json_object *kernel)
{
    uint64_t address = KERNEL;

    if (!kernel)
        return;
    (void)number(member(kernel, "loadAddress"), &address);
    add_module(bundle, image, kernel, address);
}

/* ---- Traces ---- */

static void run_trace(const struct bundle *bundle, struct ptd_image *image, const char *what,
                      struct json_object *number_of, struct json_object *file_name)
{
    struct options own = *bundle->options;
    char path[PATH_BYTES], name[NAME_BYTES];
    struct mapped file;
    uint64_t id = 0;

    if (!file_of(bundle, file_name, path))
        return; /* a thread need not have one */
    (void)number(number_of, &id);
    (void)snprintf(name, sizeof(name), "%s, %s %" PRIu64, bundle->path, what, id);
    if (code_map(path, &file) != PTD_OK) {
        printf("not compared: %s: %s cannot be read, or is empty\n", name, path);
        return;
    }
    own.image = image;
    own.has_image = true;
    bundle->run(name, &own, file.bytes, file.len_bytes, 0);
    code_unmap(&file);
}

static void run_threads(const struct bundle *bundle, struct json_object *process,
                        struct json_object *kernel)
{
    struct json_object *const threads = member(process, "threads");
    struct ptd_image *const image = ptd_image_new_on(bundle->options->image);

    if (!image)
        return;
    add_kernel(bundle, image, kernel);
    add_modules(bundle, image, process);
    for (size_t i = 0; i < count(threads); i++) {
        struct json_object *const thread = json_object_array_get_idx(threads, i);

        run_trace(bundle, image, "thread", member(thread, "tid"),
                  either(thread, "iptTrace", "traceBuffer"));
    }
    ptd_image_free(image);
}

/* A CPU's trace has what all processes ran there; code at one address is that of the last one. */
static void run_cpus(const struct bundle *bundle, struct json_object *root,
                     struct json_object *cpus)
{
    struct json_object *const processes = member(root, "processes");
    struct ptd_image *const image = ptd_image_new_on(bundle->options->image);

    if (!image)
        return;
    add_kernel(bundle, image, member(root, "kernel"));
    for (size_t i = 0; i < count(processes); i++)
        add_modules(bundle, image, json_object_array_get_idx(processes, i));
    for (size_t i = 0; i < count(cpus); i++) {
        struct json_object *const cpu = json_object_array_get_idx(cpus, i);

        run_trace(bundle, image, "CPU", either(cpu, "id", "coreId"),
                  either(cpu, "iptTrace", "traceBuffer"));
    }
    ptd_image_free(image);
}

static void read_cpu(struct json_object *info, struct options *options)
{
    uint64_t family, model, stepping = 0;

    if (options->has_cpu || !number(member(info, "family"), &family) ||
        !number(member(info, "model"), &model))
        return;
    (void)number(member(info, "stepping"), &stepping);
    options->has_cpu = true;
    options->family = (unsigned)family;
    options->model = (unsigned)model;
    options->stepping = (unsigned)stepping;
}

static const char *run_all(const struct bundle *bundle, struct json_object *root,
                           struct options *options)
{
    struct json_object *const type = member(root, "type");
    struct json_object *const processes = member(root, "processes");

    if (!json_object_is_type(type, json_type_string) ||
        strcmp(json_object_get_string(type), "intel-pt") != 0)
        return "its type is not intel-pt";
    read_cpu(member(root, "cpuInfo"), options);
    for (size_t i = 0; i < count(processes); i++)
        run_threads(bundle, json_object_array_get_idx(processes, i), member(root, "kernel"));
    run_cpus(bundle, root, either(root, "cpus", "cores"));
    return NULL;
}

/* ---- The file ---- */

bool bundle_detect(const uint8_t *bytes, size_t len_bytes)
{
    static const char type[] = "intel-pt";
    size_t i = 0;

    if (len_bytes == 0 || bytes[0] != '{')
        return false;
    do {
        i++;
    } while (i < len_bytes && bytes[i] && strchr(BLANKS, bytes[i]));
    if (i == len_bytes || bytes[i] != '"')
        return false;
    for (i = 0; i + sizeof(type) <= len_bytes && i < DETECT_MAX; i++)
        if (memcmp(bytes + i, type, sizeof(type) - 1) == 0)
            return true;
    return false;
}

/* NULL: it is no JSON, or something stands behind it. */
static struct json_object *parse(const char *text, size_t len_bytes)
{
    struct json_tokener *const tokener = json_tokener_new_ex(DEPTH_MAX);
    struct json_object *root = NULL;
    size_t end;

    if (!tokener)
        return NULL;
    root = json_tokener_parse_ex(tokener, text, (int)len_bytes);
    end = json_tokener_get_parse_end(tokener);
    while (end < len_bytes && text[end] && strchr(BLANKS, text[end]))
        end++;
    json_tokener_free(tokener);
    if (end == len_bytes)
        return root;
    json_object_put(root);
    return NULL;
}

const char *bundle_each_trace(const char *path, const uint8_t *bytes, size_t len_bytes,
                              const struct options *options, trace_fn run)
{
    struct options own = *options;
    const struct bundle bundle = {.path = path, .options = &own, .run = run};
    struct json_object *root;
    const char *wrong;

    if (len_bytes > FILE_MAX)
        return "it is too large for a description of traces";
    root = parse((const char *)bytes, len_bytes);
    if (!root)
        return "it is no JSON";
    wrong = run_all(&bundle, root, &own);
    json_object_put(root);
    return wrong;
}
