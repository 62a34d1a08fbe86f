/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What stands beside a captured trace: its sidecar (docs/trace-files.md), and if there were VMs in
 * it, its map file (docs/decoder.md).
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "capture.h"

/* ---- What it says ---- */

static QList *images_of(const VptImageList *images)
{
    QList *list = qlist_new();

    for (; images; images = images->next) {
        const VptImage *image = images->value;
        QDict *entry = qdict_new();

        qdict_put_str(entry, "path", image->path);
        qdict_put_int(entry, "bias", image->has_bias ? image->bias : 0);
        qdict_put_obj(entry, "cr3",
                      image->has_cr3 ? QOBJECT(qnum_from_int(image->cr3)) : QOBJECT(qnull()));
        qdict_put_str(entry, "name", image->name ? image->name : image->path);
        qlist_append(list, entry);
    }
    return list;
}

QDict *x86_vpt_sidecar(const struct X86VptWatch *watch, const VptStart *start)
{
    const struct vpt_caps *caps = &watch->model.caps;
    QDict *root = qdict_new(), *kind = qdict_new();
    QList *tsc_ctc = qlist_new();

    qdict_put_int(kind, "family", caps->choices.family);
    qdict_put_int(kind, "model", caps->choices.model);
    qdict_put_int(kind, "stepping", caps->choices.stepping);
    qlist_append_int(tsc_ctc, caps->tsc_den);
    qlist_append_int(tsc_ctc, caps->tsc_num);
    qdict_put_int(root, "vpt", 1);
    qdict_put_str(root, "profile", X86_VPT_CAPTURE_PROFILE);
    qdict_put(root, "cpu", kind);
    qdict_put_int(root, "vcpu", CPU(watch->cpu)->cpu_index);
    qdict_put_int(root, "mode", 64);
    qdict_put(root, "tsc_ctc", tsc_ctc);
    qdict_put_int(root, "tsc_offset", watch->cpu->env.tsc_offset);
    qdict_put_int(root, "mtc_freq", X86_VPT_CAPTURE_MTC);
    qdict_put_int(root, "max_nonturbo_ratio", caps->max_nonturbo_ratio);
    qdict_put_bool(root, "deferred_tips", caps->deferred_tips);
    qdict_put(root, "images", images_of(start->images));
    return root;
}

QDict *x86_vpt_host(const VptImageList *images)
{
    QDict *host = qdict_new();
    QList *everywhere = qlist_new(), *processes = qlist_new();

    for (; images; images = images->next) {
        const VptImage *image = images->value;
        QDict *entry = qdict_new(), *process;
        QList *own;

        qdict_put_str(entry, "path", image->path);
        qdict_put_int(entry, "bias", image->has_bias ? image->bias : 0);
        if (!image->has_cr3) {
            qlist_append(everywhere, entry);
            continue;
        }
        process = qdict_new();
        own = qlist_new();
        qlist_append(own, entry);
        qdict_put_str(process, "name", image->name ? image->name : image->path);
        qdict_put_int(process, "cr3", image->cr3);
        qdict_put(process, "images", own);
        qlist_append(processes, process);
    }
    qdict_put(host, "images", everywhere);
    qdict_put(host, "processes", processes);
    return host;
}

/* ---- Files ---- */

static bool write_text(struct X86VptFile *file, GString *text, Error **errp)
{
    struct iovec all;

    g_string_append_c(text, '\n');
    all = (struct iovec){text->str, text->len};
    return x86_vpt_file_write(file, &all, 1, errp);
}

/* The name of a file beside the trace, if there is one. */
static void put_beside(const struct X86VptWatch *watch, const char *trace, const char *kind,
                       bool is_there)
{
    g_autofree char *name = g_strdup_printf("%s.%s", trace, kind);
    g_autofree char *beside = g_path_get_basename(name);

    if (is_there) {
        qdict_put_str(watch->sidecar, kind, beside);
    }
}

bool x86_vpt_write_sidecar(const struct X86VptWatch *watch, const char *trace,
                           struct X86VptFile *file, Error **errp)
{
    g_autoptr(GString) text = NULL;

    put_beside(watch, trace, "code", watch->code);
    put_beside(watch, trace, "names", watch->names);
    text = qobject_to_json_pretty(QOBJECT(watch->sidecar), true);
    return write_text(file, text, errp);
}

bool x86_vpt_write_map(const struct X86VptWatch *watch, const char *trace, struct X86VptFile *file,
                       Error **errp)
{
    g_autofree char *name = g_strdup_printf("%s.map", trace);
    g_autoptr(GString) host = NULL;
    g_autoptr(GString) text = NULL;

    if (!x86_vpt_vms_any(watch->vms)) {
        return true;
    }
    if (!file->name && !x86_vpt_file_open(file, name, NULL, errp)) {
        return false;
    }
    host = qobject_to_json_pretty(QOBJECT(watch->host), true);
    text = g_string_new("{\"vpt-map\": 1, \"host\": ");
    g_string_append_len(text, host->str, host->len);
    g_string_append(text, ",\n\"vms\": ");
    x86_vpt_vms_to_json(watch->vms, text);
    g_string_append_c(text, '}');
    return write_text(file, text, errp);
}
