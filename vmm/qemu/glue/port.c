/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The vpt port: guests hand notes to the host (docs/guests.md), which end in a trace file and its
 * sidecar (docs/trace-files.md).
 *
 *   -device vpt-port[,trace=FILE[,image=ELF]][,limit=SIZE][,exit=on]
 *
 * A guest may hand over as much as it likes: of the trace, `limit` bytes are kept, and the names of
 * the first PROCESSES_MAX address spaces. What more there was is told once, and counted.
 *
 * With exit, it is the exit port, too, and QEMU ends with one of two statuses that it has for
 * nothing else: the guest's was 0, or was not.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "exec/address-spaces.h"
#include "hw/isa/isa.h"
#include "compat.h"
#include "vpt-i386.h"

#define TYPE_VPT_PORT "vpt-port"
OBJECT_DECLARE_SIMPLE_TYPE(VptPort, VPT_PORT)

#define PORT      0x5b0
#define EXIT_PORT 0xf4
#define MAGIC     0x30545056

#define NOTE_TRACE   1
#define NOTE_PROCESS 2
#define NAME_BYTES   32
#define COPY_BYTES   4096

#define PROCESSES_MAX 1024
#define LIMIT_DEFAULT (1 * GiB)

#define STATUS_PASSED 96
#define STATUS_FAILED 97

struct VptPort {
    ISADevice parent;
    MemoryRegion io, exit_io;
    Notifier at_exit;
    bool exit;
    char *trace_name, *image;
    struct X86VptFile trace, sidecar;
    QList *images;
    uint64_t limit, kept_bytes;
    GHashTable *processes; /* the images of those that were named, by CR3 */
    uint64_t dropped_bytes, dropped_processes;
    bool warned_of_memory, warned_of_bytes, warned_of_processes; /* on stderr */
    bool failed;                                                 /* the trace cannot be written */
};

/* Once: a guest can go on for ever. */
static void warn_once(bool *warned, const char *what)
{
    if (!*warned) {
        warn_report("vpt-port: %s", what);
        *warned = true;
    }
}

static QDict *add_image(VptPort *port, const char *path, const char *name, QObject *cr3)
{
    QDict *image = qdict_new();

    qdict_put_str(image, "path", path);
    qdict_put_int(image, "bias", 0);
    qdict_put_obj(image, "cr3", cr3);
    qdict_put_str(image, "name", name);
    qlist_append(port->images, image);
    return image;
}

/* False: no more is taken. */
static bool keep_bytes(VptPort *port, uint64_t gpa, size_t len)
{
    uint8_t bytes[COPY_BYTES];

    if (address_space_read(&address_space_memory, gpa, MEMTXATTRS_UNSPECIFIED, bytes, len) !=
        MEMTX_OK) {
        warn_once(&port->warned_of_memory, "a note names memory that is not there");
        return false;
    }
    if (qemu_write_full(port->trace.fd, bytes, len) != (ssize_t)len) {
        error_report("vpt-port: %s: %s", port->trace_name, strerror(errno));
        port->failed = true;
        return false;
    }
    port->kept_bytes += len;
    return true;
}

static void note_trace(VptPort *port, uint64_t gpa, uint64_t len)
{
    const uint64_t room = port->limit - port->kept_bytes;

    if (!port->trace.name || port->failed) {
        return;
    }
    if (len > room) {
        warn_once(&port->warned_of_bytes,
                  "the guest hands over more bytes of trace than limit= allows");
        port->dropped_bytes += MIN(len - room, UINT64_MAX - port->dropped_bytes);
        len = room;
    }
    while (len > 0) {
        const size_t part = MIN(len, COPY_BYTES);

        if (!keep_bytes(port, gpa, part)) {
            return;
        }
        gpa += part;
        len -= part;
    }
}

/* An address space that is named again is what it was named last. */
static void note_process(VptPort *port, uint64_t cr3, const char *name, const char *file)
{
    g_autofree char *folder = g_path_get_dirname(port->image ? port->image : ".");
    g_autofree char *path = g_build_filename(folder, file, NULL);
    QDict *known = g_hash_table_lookup(port->processes, &cr3);

    if (known) {
        qdict_put_str(known, "path", path);
        qdict_put_str(known, "name", name);
    } else if (g_hash_table_size(port->processes) < PROCESSES_MAX) {
        known = add_image(port, path, name, QOBJECT(qnum_from_int(cr3)));
        g_hash_table_insert(port->processes, g_memdup2(&cr3, sizeof(cr3)), known);
    } else {
        warn_once(&port->warned_of_processes, "the guest names more processes than are kept");
        port->dropped_processes++;
    }
}

static bool read_note(uint32_t gpa, void *note, size_t len)
{
    return address_space_read(&address_space_memory, gpa, MEMTXATTRS_UNSPECIFIED, note, len) ==
           MEMTX_OK;
}

static void port_write(void *opaque, hwaddr addr, uint64_t gpa, unsigned width)
{
    VptPort *port = opaque;
    struct {
        uint32_t type, size_bytes;
    } head;
    struct {
        uint64_t gpa, len_bytes;
    } trace;
    struct {
        uint64_t cr3;
        char name[NAME_BYTES], image[NAME_BYTES];
    } process;

    if (!read_note(gpa, &head, sizeof(head))) {
        return;
    }
    gpa += sizeof(head);
    if (le32_to_cpu(head.type) == NOTE_TRACE && read_note(gpa, &trace, sizeof(trace))) {
        note_trace(port, le64_to_cpu(trace.gpa), le64_to_cpu(trace.len_bytes));
    } else if (le32_to_cpu(head.type) == NOTE_PROCESS &&
               read_note(gpa, &process, sizeof(process))) {
        g_autofree char *name = g_strndup(process.name, NAME_BYTES);
        g_autofree char *image = g_strndup(process.image, NAME_BYTES);

        /* A name in the image's own folder, never a path out of it. */
        if (!strchr(image, '/')) {
            note_process(port, le64_to_cpu(process.cr3), name, image);
        }
    }
}

static uint64_t port_read(void *opaque, hwaddr addr, unsigned width)
{
    return MAGIC;
}

static const MemoryRegionOps port_ops = {
    .read = port_read,
    .write = port_write,
    .valid.min_access_size = 4,
    .valid.max_access_size = 4,
    .impl.min_access_size = 4,
    .impl.max_access_size = 4,
    .endianness = DEVICE_LITTLE_ENDIAN,
};

static void exit_write(void *opaque, hwaddr addr, uint64_t status, unsigned width)
{
    const VptPort *port = opaque;

    exit(port->failed ? EXIT_FAILURE : status ? STATUS_FAILED : STATUS_PASSED);
}

static const MemoryRegionOps exit_ops = {
    .read = port_read,
    .write = exit_write,
    .valid.min_access_size = 1,
    .valid.max_access_size = 4,
    .endianness = DEVICE_LITTLE_ENDIAN,
};

/* A trace that is not whole says so. */
static void put_dropped(const VptPort *port, QDict *root)
{
    if (port->dropped_bytes > 0) {
        qdict_put_int(root, "dropped_bytes", MIN(port->dropped_bytes, INT64_MAX));
    }
    if (port->dropped_processes > 0) {
        qdict_put_int(root, "dropped_processes", port->dropped_processes);
    }
}

/* What decodes the trace, as docs/trace-files.md has it. */
static void port_exit(Notifier *notifier, void *data)
{
    VptPort *port = container_of(notifier, VptPort, at_exit);
    const X86CPU *cpu = X86_CPU(first_cpu);
    const struct vpt_cpu *model = &cpu->vpt->guest;
    QDict *root = qdict_new(), *kind = qdict_new();
    QList *tsc_ctc = qlist_new();
    g_autoptr(GString) text = NULL;
    Error *error = NULL;
    int failure = x86_vpt_file_close(&port->trace);

    if (failure) {
        error_report("vpt-port: %s: %s", port->trace_name, strerror(failure));
    }
    qdict_put_int(kind, "family", model->caps.choices.family);
    qdict_put_int(kind, "model", model->caps.choices.model);
    qdict_put_int(kind, "stepping", model->caps.choices.stepping);
    qlist_append_int(tsc_ctc, model->caps.tsc_den);
    qlist_append_int(tsc_ctc, model->caps.tsc_num);
    qdict_put_int(root, "vpt", 1);
    qdict_put_str(root, "profile", cpu->vpt_profile ? cpu->vpt_profile : "none");
    qdict_put(root, "cpu", kind);
    qdict_put_int(root, "mode", 64);
    qdict_put(root, "tsc_ctc", tsc_ctc);
    qdict_put_int(root, "mtc_freq", model->ctl >> VPT_CTL_MTCFREQ_SHR & 0xf);
    qdict_put_int(root, "max_nonturbo_ratio", model->caps.max_nonturbo_ratio);
    qdict_put_bool(root, "deferred_tips", model->caps.deferred_tips);
    qdict_put(root, "images", qlist_copy(port->images));
    put_dropped(port, root);
    text = qobject_to_json_pretty(QOBJECT(root), true);
    g_string_append_c(text, '\n');
    if (!x86_vpt_file_write(&port->sidecar, &(struct iovec){text->str, text->len}, 1, &error)) {
        error_reportf_err(error, "vpt-port: ");
    }
    x86_vpt_file_close(&port->sidecar);
    qobject_unref(root);
}

static void port_realize(DeviceState *d, Error **errp)
{
    VptPort *port = VPT_PORT(d);

    if (port->trace_name) {
        g_autofree char *sidecar = g_strdup_printf("%s.json", port->trace_name);

        if (!x86_vpt_file_open(&port->trace, port->trace_name, NULL, errp)) {
            return;
        }
        if (!x86_vpt_file_open(&port->sidecar, sidecar, NULL, errp)) {
            x86_vpt_file_close(&port->trace);
            return;
        }
        port->at_exit.notify = port_exit;
        qemu_add_exit_notifier(&port->at_exit);
    }
    port->images = qlist_new();
    port->processes = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    if (port->image) {
        char *path = realpath(port->image, NULL);

        if (path) {
            g_free(port->image);
            port->image = g_strdup(path);
            free(path);
        }
        add_image(port, port->image, "kernel", QOBJECT(qnull()));
    }
    memory_region_init_io(&port->io, OBJECT(d), &port_ops, port, TYPE_VPT_PORT, 4);
    memory_region_add_subregion(isa_address_space_io(ISA_DEVICE(d)), PORT, &port->io);
    if (port->exit) {
        memory_region_init_io(&port->exit_io, OBJECT(d), &exit_ops, port, "vpt-exit", 4);
        memory_region_add_subregion(isa_address_space_io(ISA_DEVICE(d)), EXIT_PORT, &port->exit_io);
    }
}

X86_VPT_PROPERTIES(port_properties, DEFINE_PROP_STRING("trace", VptPort, trace_name),
                   DEFINE_PROP_STRING("image", VptPort, image),
                   DEFINE_PROP_SIZE("limit", VptPort, limit, LIMIT_DEFAULT),
                   DEFINE_PROP_BOOL("exit", VptPort, exit, false));

static void port_class_init(ObjectClass *klass, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    dc->realize = port_realize;
    dc->user_creatable = true;
    device_class_set_props(dc, port_properties);
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
}

static const TypeInfo port_info = {
    .name = TYPE_VPT_PORT,
    .parent = TYPE_ISA_DEVICE,
    .instance_size = sizeof(VptPort),
    .class_init = port_class_init,
};

static void port_register(void)
{
    type_register_static(&port_info);
}

type_init(port_register)
