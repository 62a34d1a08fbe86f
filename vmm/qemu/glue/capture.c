/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Capture from outside: x-vpt-start, x-vpt-save, x-vpt-stop, x-vpt-query. Each vCPU gets a second
 * model, fed with the same events, whose packets go to a file; or to a ring in memory, which is
 * written when it is asked for and at the end. The guest sees nothing of it, and its own trace goes
 * on.
 *
 * A model is changed by the thread of its vCPU alone, between two blocks.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-misc-target.h"
#include "qemu/error-report.h"
#include "exec/exec-all.h"
#include "hw/i386/apic_internal.h"
#include "monitor/hmp-target.h"
#include "monitor/monitor.h"
#include "compat.h"
#include "vpt-i386.h"

#define PROFILE  "max"
#define PSB_FREQ 5ull /* 64 KiB */
#define MTC_FREQ 6ull

struct X86VptWatch {
    struct vpt_cpu model;
    X86CPU *cpu;
    struct X86VptWriter *writer; /* of the file */
    struct X86VptRing *ring;     /* or, without a writer */
    char *name;
    struct X86VptCode *code; /* or NULL */
    uint64_t bytes;
    QDict *sidecar;
    QDict *host; /* of the map file: images and processes */
};

/* ---- The models' callbacks ---- */

static void no_memory(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    *span = (struct vpt_span){.kind = VPT_SPAN_UNBACKED, .len_bytes = len_bytes};
}

static void take_packets(void *owner, const uint8_t *bytes, uint32_t len_bytes)
{
    struct X86VptWatch *watch = owner;

    if (watch->ring) {
        x86_vpt_ring_write(watch->ring, bytes, len_bytes);
    } else {
        x86_vpt_write(watch->writer, bytes, len_bytes);
    }
    watch->bytes += len_bytes;
}

static void clocks(void *owner, struct vpt_clocks *now)
{
    struct X86VptWatch *watch = owner;

    x86_vpt_clocks(watch->cpu, &watch->model.caps, now);
}

static const struct vpt_ops watch_ops = {
    .translate = no_memory,
    .transport = take_packets,
    .clocks = clocks,
};

/* ---- The sidecar (docs/trace-files.md) ---- */

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

/* ---- The map file (docs/decoder.md): a capture with VMs in it has one ---- */

static QDict *host_of(const VptImageList *images)
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

static bool write_json(const char *trace, const char *suffix, const QDict *root, Error **errp)
{
    g_autofree char *path = g_strdup_printf("%s%s", trace, suffix);
    g_autoptr(GString) text = qobject_to_json_pretty(QOBJECT(root), true);

    g_string_append_c(text, '\n');
    if (!g_file_set_contents(path, text->str, text->len, NULL)) {
        error_setg(errp, "%s cannot be written", path);
        return false;
    }
    return true;
}

static bool write_map(const struct X86VptWatch *watch, const char *trace, Error **errp)
{
    QList *vms = x86_vpt_vms(watch->cpu);
    QDict *root = qdict_new();
    const bool any = !qlist_empty(vms);
    bool done;

    qdict_put_int(root, "vpt-map", 1);
    qdict_put(root, "host", qobject_ref(watch->host));
    qdict_put(root, "vms", vms);
    done = !any || write_json(trace, ".map", root, errp);
    qobject_unref(root);
    return done;
}

static QDict *sidecar_of(const struct X86VptWatch *watch, const VptStart *start)
{
    const struct vpt_caps *caps = &watch->model.caps;
    QDict *root = qdict_new(), *kind = qdict_new();
    QList *tsc_ctc = qlist_new();

    qdict_put_int(kind, "family", 0); /* no processor with errata: the model */
    qdict_put_int(kind, "model", 0);
    qdict_put_int(kind, "stepping", 0);
    qlist_append_int(tsc_ctc, caps->tsc_den);
    qlist_append_int(tsc_ctc, caps->tsc_num);
    qdict_put_int(root, "vpt", 1);
    qdict_put_str(root, "profile", PROFILE);
    qdict_put(root, "cpu", kind);
    qdict_put_int(root, "vcpu", CPU(watch->cpu)->cpu_index);
    qdict_put_int(root, "mode", 64);
    qdict_put(root, "tsc_ctc", tsc_ctc);
    qdict_put_int(root, "tsc_offset", watch->cpu->env.tsc_offset);
    qdict_put_int(root, "mtc_freq", MTC_FREQ);
    qdict_put_int(root, "max_nonturbo_ratio", caps->max_nonturbo_ratio);
    qdict_put(root, "images", images_of(start->images));
    return root;
}

static bool write_sidecar(const struct X86VptWatch *watch, const char *trace, Error **errp)
{
    if (watch->code) {
        g_autofree char *code = g_strdup_printf("%s.code", trace);
        g_autofree char *beside = g_path_get_basename(code);

        qdict_put_str(watch->sidecar, "code", beside);
    }
    return write_json(trace, ".json", watch->sidecar, errp);
}

/* ---- The code that runs ---- */

static uint64_t settle(void *owner)
{
    struct X86VptWatch *watch = owner;

    vpt_flush_branches(&watch->model);
    return watch->bytes;
}

bool x86_vpt_use_tb(CPUState *cs, const TranslationBlock *tb, vaddr pc)
{
    X86CPU *cpu = container_of(cs, X86CPU, parent_obj); /* X86_CPU() checks, which is slow here */
    struct X86VptWatch *watch = cpu->vpt->capture;

    if (likely(!watch || !watch->code)) {
        return true;
    }
    vpt_flush(&watch->model);
    if (watch->ring && x86_vpt_ring_is_due(watch->ring)) {
        settle(watch);
        x86_vpt_ring_turn(watch->ring);
        x86_vpt_code_forget(watch->code);
        tcg_flush_jmp_cache(cs);
    }
    x86_vpt_code_block(watch->code, tb, cpu->env.cr[3], pc, watch->bytes, settle, watch);
    /* Whoever writes to the block makes it invalid first. */
    smp_rmb();
    return !(tb_cflags(tb) & CF_INVALID);
}

/*
 * Every block is looked up from now on (or need not be any more): none leads to the next by itself,
 * and those that were found are forgotten.
 */
static void look_up_all(CPUState *cs, bool all)
{
    cs->tcg_cflags = all ? cs->tcg_cflags | CF_NO_GOTO_TB : cs->tcg_cflags & ~CF_NO_GOTO_TB;
    X86_CPU(cs)->vpt->looks_up = all;
    tcg_flush_jmp_cache(cs);
}

void x86_vpt_new_space(X86CPU *cpu)
{
    if (cpu->vpt->capture && cpu->vpt->capture->code) {
        tcg_flush_jmp_cache(CPU(cpu));
    }
}

/* ---- Start and stop ---- */

static void watch_free(struct X86VptWatch *watch)
{
    x86_vpt_writer_free(watch->writer);
    x86_vpt_ring_free(watch->ring);
    x86_vpt_code_free(watch->code);
    g_free(watch->name);
    qobject_unref(watch->sidecar);
    qobject_unref(watch->host);
    g_free(watch);
}

/* The ring as it is, below another name, perhaps. */
static bool save_ring(const struct X86VptWatch *watch, const char *trace, Error **errp)
{
    return x86_vpt_ring_save(watch->ring, trace, watch->code, errp) &&
           write_sidecar(watch, trace, errp);
}

/* All files are whole, or the error says which is not. */
static void complete(struct X86VptWatch *watch, Error **errp)
{
    if (watch->ring) {
        if (!save_ring(watch, watch->name, errp)) {
            return;
        }
    } else if (!x86_vpt_writer_end(watch->writer)) {
        error_setg(errp, "%s could not be written to its end", watch->name);
        return;
    }
    if (!x86_vpt_code_free(g_steal_pointer(&watch->code))) {
        error_setg(errp, "%s.code could not be written to its end", watch->name);
        return;
    }
    write_map(watch, watch->name, errp);
}

/* Where packets and code go to. */
static bool open_files(struct X86VptWatch *watch, const VptStart *start, Error **errp)
{
    const bool code = start->has_code && start->code;

    if (start->has_ring) {
        watch->ring = x86_vpt_ring_new(start->ring, errp);
        watch->code = watch->ring && code ? x86_vpt_code_in_ring(watch->ring) : NULL;
        return watch->ring;
    }
    if (code) {
        g_autofree char *path = g_strdup_printf("%s.code", watch->name);

        watch->code = x86_vpt_code_new(path, errp);
        if (!watch->code) {
            return false;
        }
    }
    watch->writer = x86_vpt_writer_new(watch->name, errp);
    return watch->writer;
}

static struct X86VptWatch *watch_new(X86CPU *cpu, const VptStart *start, Error **errp)
{
    struct X86VptWatch *watch = g_new0(struct X86VptWatch, 1);
    struct vpt_caps caps;
    const char *wrong;

    watch->cpu = cpu;
    watch->host = host_of(start->images);
    watch->name = g_strdup_printf("%s.%d", start->file, CPU(cpu)->cpu_index);
    vpt_profile(PROFILE, &caps);
    x86_vpt_restrict_caps(cpu, &caps);
    caps.leaf14_0_ecx |= VPT_CAP_FABRIC;
    wrong = vpt_caps_check(&caps);
    if (wrong || !vpt_init(&watch->model, &caps, &watch_ops, watch)) {
        error_setg(errp, "this vCPU cannot be traced: %s", wrong ? wrong : "no model");
        watch_free(watch);
        return NULL;
    }
    watch->sidecar = sidecar_of(watch, start);
    if (!open_files(watch, start, errp) || !write_sidecar(watch, watch->name, errp)) {
        watch_free(watch);
        return NULL;
    }
    return watch;
}

static bool set(struct vpt_cpu *model, uint32_t msr, uint64_t value, uint64_t ip)
{
    return vpt_wrmsr(model, msr, value, ip, ip) == VPT_OK;
}

/* All but TraceEn. */
static uint64_t configure(struct vpt_cpu *model, const VptStart *start, Error **errp)
{
    uint64_t ctl =
        VPT_CTL_BRANCHEN | VPT_CTL_FABRICEN | VPT_CTL_TSCEN | PSB_FREQ << VPT_CTL_PSBFREQ_SHR;
    unsigned n = 0;

    ctl |= !start->has_os || start->os ? VPT_CTL_OS : 0;
    ctl |= !start->has_user || start->user ? VPT_CTL_USER : 0;
    if (start->has_timing && start->timing) {
        ctl |= VPT_CTL_MTCEN | VPT_CTL_CYCEN | MTC_FREQ << VPT_CTL_MTCFREQ_SHR;
    }
    if (start->has_cr3) {
        ctl |= VPT_CTL_CR3FILTER;
        if (!set(model, VPT_MSR_CR3_MATCH, start->cr3, 0)) {
            error_setg(errp, "cr3 is not that of an address space");
        }
    }
    for (const VptRangeList *range = start->ranges; range && !*errp; range = range->next, n++) {
        if (n == VPT_MAX_RANGES) {
            error_setg(errp, "no more than %d ranges", VPT_MAX_RANGES);
        } else if (range->value->first > range->value->last ||
                   !set(model, VPT_MSR_ADDR0_A + 2 * n, range->value->first, 0) ||
                   !set(model, VPT_MSR_ADDR0_A + 2 * n + 1, range->value->last, 0)) {
            error_setg(errp, "a range is not one of linear addresses");
        }
        ctl |= (uint64_t)VPT_ADDR_CFG_FILTER << (VPT_CTL_ADDR_CFG_SHR + 4 * n);
    }
    return ctl;
}

struct begin {
    struct X86VptWatch *watch;
    uint64_t ctl;
};

static void begin(CPUState *cs, run_on_cpu_data data)
{
    const struct begin *how = data.host_ptr;
    X86CPU *cpu = X86_CPU(cs);
    struct vpt_transfer reset = {.type = VPT_INIT_WAIT};
    struct vpt_context ctx;
    uint64_t ip;

    if (x86_vpt_beside_kvm()) {
        x86_vpt_synchronize(cpu);
    }
    ip = x86_vpt_linear(&cpu->env);
    x86_vpt_context(&cpu->env, &ctx);
    if (x86_vpt_waits_for_sipi(cpu)) {
        reset.after = ctx;
        vpt_transfer(&how->watch->model, &reset);
    }
    x86_vpt_watch_begin_vm(&cpu->env, &how->watch->model);
    vpt_set_context(&how->watch->model, &ctx);
    set(&how->watch->model, VPT_MSR_CTL, how->ctl | VPT_CTL_TRACEEN, ip);
    cpu->vpt->capture = how->watch;
    cpu->vpt->watch = &how->watch->model;
    if (how->watch->code) {
        look_up_all(cs, true);
    }
    if (x86_vpt_beside_kvm() && !cpu->vpt->in_tcg) {
        x86_vpt_hold_time(cpu);
    }
    x86_vpt_sync(&cpu->env);
}

/* What a vCPU is asked for: a name but for its number, and what went wrong. */
struct request {
    const char *file;
    Error *error; /* the first */
};

static void save(CPUState *cs, run_on_cpu_data data)
{
    struct request *request = data.host_ptr;
    struct X86VptWatch *watch = X86_CPU(cs)->vpt->capture;
    g_autofree char *trace = NULL;
    Error *error = NULL;

    if (!watch || !watch->ring) {
        error_setg(&error, watch ? "the capture goes to files" : "no capture runs");
        error_propagate(&request->error, error);
        return;
    }
    trace = request->file ? g_strdup_printf("%s.%d", request->file, cs->cpu_index)
                          : g_strdup(watch->name);
    vpt_flush(&watch->model);
    settle(watch);
    if (!save_ring(watch, trace, &error) || !write_map(watch, trace, &error)) {
        error_propagate(&request->error, error);
    }
}

static void end(CPUState *cs, run_on_cpu_data data)
{
    X86CPU *cpu = X86_CPU(cs);
    struct X86VptWatch *watch = cpu->vpt->capture;
    struct request *request = data.host_ptr;
    Error *error = NULL;

    if (!watch) {
        return;
    }
    set(&watch->model, VPT_MSR_CTL, watch->model.ctl & ~VPT_CTL_TRACEEN, x86_vpt_linear(&cpu->env));
    cpu->vpt->watch = NULL;
    cpu->vpt->capture = NULL;
    if (watch->code) {
        look_up_all(cs, false);
    }
    x86_vpt_sync(&cpu->env);
    complete(watch, &error);
    x86_vpt_forget_vms(cpu);
    watch_free(watch);
    error_propagate(&request->error, error);
}

static void report(Error *error)
{
    if (error) {
        error_reportf_err(error, "vpt capture: ");
    }
}

void x86_vpt_capture_end(X86CPU *cpu)
{
    struct request request = {0};

    end(CPU(cpu), RUN_ON_CPU_HOST_PTR(&request));
    report(request.error);
}

static void ask_all(run_on_cpu_func what, const char *file, Error **errp)
{
    struct request request = {.file = file};
    CPUState *cs;

    CPU_FOREACH(cs)
    {
        run_on_cpu(cs, what, RUN_ON_CPU_HOST_PTR(&request));
    }
    error_propagate(errp, request.error);
}

/* QEMU is about to end, in good order: the files are whole before its monitors say goodbye. */
static void at_shutdown(Notifier *notifier, void *data)
{
    Error *error = NULL;

    if (shutdown_action != SHUTDOWN_ACTION_PAUSE) {
        ask_all(end, NULL, &error);
        report(error);
    }
}

/*
 * QEMU ends. Other vCPUs' threads may still run if a guest ended it: what theirs tell from now on
 * is dropped, and what the guest's VMs were is not told.
 */
static void at_exit(Notifier *notifier, void *data)
{
    CPUState *cs;

    CPU_FOREACH(cs)
    {
        struct X86VptWatch *watch = X86_CPU(cs)->vpt->capture;
        Error *error = NULL;

        if (!watch) {
            continue;
        }
        if (!current_cpu || current_cpu == cs) {
            x86_vpt_capture_end(X86_CPU(cs));
        } else if (watch->ring) {
            x86_vpt_ring_close(watch->ring);
            save_ring(watch, watch->name, &error);
            report(error);
        } else {
            (void)x86_vpt_writer_end(watch->writer);
        }
    }
}

static Notifier shutdown_notifier = {.notify = at_shutdown};
static Notifier exit_notifier = {.notify = at_exit};

void qmp_x_vpt_start(VptStart *start, Error **errp)
{
    static bool registered;
    g_autoptr(GPtrArray) watches = g_ptr_array_new();
    Error *error = NULL;
    struct begin how = {0};
    CPUState *cs;

    if (!tcg_enabled()) {
        error_setg(errp, "capture needs -accel tcg, or -accel kvm,vpt=on");
        return;
    }
    CPU_FOREACH(cs)
    {
        struct X86VptWatch *watch = NULL;

        if (X86_CPU(cs)->vpt->capture) {
            error_setg(&error, "capture runs already");
        } else {
            watch = watch_new(X86_CPU(cs), start, &error);
        }
        if (watch) {
            g_ptr_array_add(watches, watch);
            how.ctl = configure(&watch->model, start, &error);
        }
        if (error) {
            g_ptr_array_foreach(watches, (GFunc)watch_free, NULL);
            error_propagate(errp, error);
            return;
        }
    }
    if (!registered) {
        qemu_register_shutdown_notifier(&shutdown_notifier);
        qemu_add_exit_notifier(&exit_notifier);
        registered = true;
    }
    for (guint i = 0; i < watches->len; i++) {
        how.watch = g_ptr_array_index(watches, i);
        run_on_cpu(CPU(how.watch->cpu), begin, RUN_ON_CPU_HOST_PTR(&how));
    }
}

void qmp_x_vpt_save(VptSave *where, Error **errp)
{
    ask_all(save, where->file, errp);
}

void qmp_x_vpt_stop(Error **errp)
{
    ask_all(end, NULL, errp);
}

VptCaptureList *qmp_x_vpt_query(Error **errp)
{
    VptCaptureList *list = NULL, **tail = &list;
    CPUState *cs;

    CPU_FOREACH(cs)
    {
        const struct X86VptWatch *watch = X86_CPU(cs)->vpt->capture;
        VptCapture *capture;

        if (!watch) {
            continue;
        }
        capture = g_new0(VptCapture, 1);
        capture->vcpu = cs->cpu_index;
        capture->file = g_strdup(watch->name);
        capture->bytes = qatomic_read(&watch->bytes);
        capture->failed = (watch->writer && x86_vpt_write_failed(watch->writer)) ||
                          x86_vpt_code_failed(watch->code);
        if (watch->ring) {
            capture->has_ring = true;
            capture->ring = x86_vpt_ring_size(watch->ring);
        }
        QAPI_LIST_APPEND(tail, capture);
    }
    return list;
}

/* ---- HMP ---- */

static void say(Monitor *mon, Error *error)
{
    if (error) {
        monitor_printf(mon, "%s\n", error_get_pretty(error));
        error_free(error);
    }
}

void hmp_vpt_start(Monitor *mon, const QDict *qdict)
{
    VptStart start = {
        .file = (char *)qdict_get_str(qdict, "file"),
        .has_ring = qdict_haskey(qdict, "ring"),
        .ring = qdict_get_try_int(qdict, "ring", 0),
    };
    Error *error = NULL;

    qmp_x_vpt_start(&start, &error);
    say(mon, error);
}

void hmp_vpt_save(Monitor *mon, const QDict *qdict)
{
    Error *error = NULL;

    ask_all(save, qdict_get_try_str(qdict, "file"), &error);
    say(mon, error);
}

void hmp_vpt_stop(Monitor *mon, const QDict *qdict)
{
    Error *error = NULL;

    qmp_x_vpt_stop(&error);
    say(mon, error);
}

void hmp_info_vpt(Monitor *mon, const QDict *qdict)
{
    VptCaptureList *list = qmp_x_vpt_query(&error_abort);

    if (!list) {
        monitor_printf(mon, "no capture\n");
    }
    for (const VptCaptureList *entry = list; entry; entry = entry->next) {
        const VptCapture *capture = entry->value;

        monitor_printf(mon, "vCPU %" PRId64 ": %s: %" PRIu64 " bytes%s%s\n", capture->vcpu,
                       capture->file, capture->bytes,
                       capture->has_ring ? ", the last in a ring" : "",
                       capture->failed ? ", and the file cannot be written" : "");
    }
    qapi_free_VptCaptureList(list);
}
