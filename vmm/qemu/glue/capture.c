/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Capture from outside: x-vpt-start, x-vpt-save, x-vpt-stop, x-vpt-query. Each vCPU gets a second
 * model, fed with the same events, whose packets go to a file; or to a ring in memory, which is
 * written when it is asked for and at the end. The guest sees nothing of it, and its own trace goes
 * on.
 *
 * A model is changed by the thread of its vCPU alone, between two blocks. What may take long, as
 * files may, is done by that thread without QEMU's main lock, so that all else goes on.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-misc-target.h"
#include "qemu/error-report.h"
#include "exec/exec-all.h"
#include "hw/i386/apic_internal.h"
#include "monitor/hmp-target.h"
#include "monitor/monitor.h"
#include "capture.h"

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

    x86_vpt_clocks(watch->cpu, &watch->model, now);
}

/* Where the trace is, and when. */
static uint64_t offset_now(void *owner)
{
    struct X86VptWatch *watch = owner;

    vpt_flush(&watch->model);
    return watch->bytes;
}

static uint64_t tsc_now(void *owner)
{
    struct vpt_clocks now;

    clocks(owner, &now);
    return now.tsc;
}

static const struct vpt_ops watch_ops = {
    .translate = no_memory,
    .transport = take_packets,
    .clocks = clocks,
};

/* ---- The code that runs, and who runs it ---- */

static uint64_t settle(void *owner)
{
    struct X86VptWatch *watch = owner;

    vpt_flush_branches(&watch->model);
    return watch->bytes;
}

/*
 * A vCPU whose code is told runs blocks of its own: those of a cluster that no other vCPU has. They
 * are chained as all blocks are. A chain is made only behind a lookup of the block that it leads
 * to, stays within a page, and is cut when its target becomes invalid. So x86_vpt_use_tb() sees
 * each block before it runs for the first time, and again when its bytes are others; and it sees
 * the first block of each page that the vCPU comes to after its mappings may have changed.
 *
 * There are fewer clusters than there may be vCPUs. Those beyond share their blocks, which are then
 * not chained.
 */
static bool has_own_blocks(const CPUState *cs)
{
    return cs->cpu_index < X86_VPT_SHARED_CLUSTER;
}

static uint32_t of_own_blocks(const CPUState *cs, uint32_t cflags)
{
    return has_own_blocks(cs) ? deposit32(cflags, CF_CLUSTER_SHIFT, 8, cs->cpu_index)
                              : cflags | CF_NO_GOTO_TB;
}

/* No block runs again before it was looked up. */
static void look_up_all(CPUState *cs)
{
    if (has_own_blocks(cs)) {
        tb_unlink_cluster(cs);
    }
    tcg_flush_jmp_cache(cs);
}

/* An earlier capture may have left blocks of this cluster, whose chains are cut. */
static void own_blocks(CPUState *cs)
{
    struct X86Vpt *vpt = X86_CPU(cs)->vpt;

    vpt->shared_cflags = cs->tcg_cflags;
    vpt->looks_up = !has_own_blocks(cs);
    cs->tcg_cflags = of_own_blocks(cs, cs->tcg_cflags);
    if (cs->cflags_next_tb != -1) {
        cs->cflags_next_tb = of_own_blocks(cs, cs->cflags_next_tb);
    }
    look_up_all(cs);
}

static void share_blocks(CPUState *cs)
{
    struct X86Vpt *vpt = X86_CPU(cs)->vpt;
    const uint32_t mask = CF_CLUSTER_MASK;

    vpt->looks_up = false;
    cs->tcg_cflags = vpt->shared_cflags;
    if (cs->cflags_next_tb != -1) {
        cs->cflags_next_tb = (cs->cflags_next_tb & ~mask) | (vpt->shared_cflags & mask);
    }
    tcg_flush_jmp_cache(cs);
}

/* From here on, all that was told holds no more. */
static void tell_anew(CPUState *cs, struct X86VptWatch *watch)
{
    settle(watch);
    x86_vpt_ring_turn(watch->ring);
    if (watch->names) {
        x86_vpt_names_anew(watch->names);
    }
    if (watch->code) {
        x86_vpt_code_forget(watch->code);
        look_up_all(cs);
    } else {
        tcg_flush_jmp_cache(cs);
    }
}

static void tell_code(CPUState *cs, struct X86VptWatch *watch, TranslationBlock *tb, vaddr pc)
{
    const struct X86VptTrace trace = {offset_now, settle, watch};

    if (unlikely(x86_vpt_code_is_full(watch->code))) {
        settle(watch);
        x86_vpt_code_forget_full(watch->code);
        look_up_all(cs);
    }
    x86_vpt_code_block(watch->code, tb, watch->cpu->env.cr[3], pc, &trace);
}

bool x86_vpt_use_tb(CPUState *cs, TranslationBlock *tb, vaddr pc)
{
    X86CPU *cpu = container_of(cs, X86CPU, parent_obj); /* X86_CPU() checks, which is slow here */
    struct X86VptWatch *watch = cpu->vpt->capture;

    if (likely(!watch || (!watch->code && !watch->names))) {
        return true;
    }
    if (watch->ring && x86_vpt_ring_is_due(watch->ring)) {
        tell_anew(cs, watch);
    }
    if (watch->names) {
        x86_vpt_names_code(watch->names, tb, pc);
    }
    if (watch->code) {
        tell_code(cs, watch, tb, pc);
    }
    /* Whoever writes to the block makes it invalid first. */
    smp_rmb();
    return !(tb_cflags(tb) & CF_INVALID);
}

void x86_vpt_new_space(X86CPU *cpu)
{
    const struct X86VptWatch *watch = cpu->vpt->capture;

    if (watch && (watch->code || watch->names)) {
        tcg_flush_jmp_cache(CPU(cpu));
    }
    if (watch && watch->names) {
        x86_vpt_names_new_space(watch->names);
    }
}

void x86_vpt_look(X86CPU *cpu)
{
    const struct X86VptWatch *watch = cpu->vpt->capture;

    if (unlikely(watch && watch->names)) {
        x86_vpt_names_look(watch->names);
    }
}

void x86_vpt_forget_kernel(X86CPU *cpu)
{
    const struct X86VptWatch *watch = cpu->vpt->capture;

    if (watch && watch->names) {
        x86_vpt_names_reset(watch->names);
    }
}

/* ---- Files ---- */

/* False: one of them was not written. */
static bool close_outputs(struct X86VptOutputs *outputs)
{
    const int errors[] = {
        x86_vpt_file_close(&outputs->trace), x86_vpt_file_close(&outputs->code),
        x86_vpt_file_close(&outputs->names), x86_vpt_file_close(&outputs->json),
        x86_vpt_file_close(&outputs->map),
    };

    for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
        if (errors[i] != 0) {
            errno = errors[i];
            return false;
        }
    }
    return true;
}

static bool open_beside(struct X86VptFile *file, const char *trace, const char *suffix,
                        const VptFileList *handed, Error **errp)
{
    g_autofree char *name = g_strdup_printf("%s%s", trace, suffix);

    return x86_vpt_file_open(file, name, handed, errp);
}

/* A map is not known to be needed: by its name, it is opened when it is. */
static bool open_outputs(struct X86VptOutputs *outputs, const char *trace, bool code, bool names,
                         const VptFileList *handed, Error **errp)
{
    return x86_vpt_file_open(&outputs->trace, trace, handed, errp) &&
           (!code || open_beside(&outputs->code, trace, ".code", handed, errp)) &&
           (!names || open_beside(&outputs->names, trace, ".names", handed, errp)) &&
           open_beside(&outputs->json, trace, ".json", handed, errp) &&
           (!handed || open_beside(&outputs->map, trace, ".map", handed, errp));
}

/* The ring as it is, below another name, perhaps. */
static bool save_ring(const struct X86VptWatch *watch, const char *trace,
                      struct X86VptOutputs *outputs, Error **errp)
{
    return x86_vpt_ring_save(watch->ring, &outputs->trace, watch->code ? &outputs->code : NULL,
                             watch->names ? &outputs->names : NULL, errp) &&
           x86_vpt_write_sidecar(watch, trace, &outputs->json, errp);
}

static void cannot_write(const char *trace, const char *suffix, int error, Error **errp)
{
    error_setg(errp, "%s%s could not be written to its end: %s", trace, suffix, strerror(error));
}

/* All files are whole, or the error says which is not. */
static void complete(struct X86VptWatch *watch, Error **errp)
{
    int error;

    if (watch->ring) {
        if (!save_ring(watch, watch->name, &watch->outputs, errp)) {
            return;
        }
    } else if ((error = x86_vpt_writer_end(watch->writer))) {
        cannot_write(watch->name, "", error, errp);
        return;
    }
    error = x86_vpt_code_free(g_steal_pointer(&watch->code));
    if (error) {
        cannot_write(watch->name, ".code", error, errp);
        return;
    }
    error = x86_vpt_names_free(g_steal_pointer(&watch->names));
    if (error) {
        cannot_write(watch->name, ".names", error, errp);
        return;
    }
    if (x86_vpt_write_map(watch, watch->name, &watch->outputs.map, errp) &&
        !close_outputs(&watch->outputs)) {
        cannot_write(watch->name, "", errno, errp);
    }
}

/* ---- Start and stop ---- */

static void watch_free(struct X86VptWatch *watch)
{
    x86_vpt_writer_free(watch->writer);
    x86_vpt_ring_free(watch->ring);
    x86_vpt_code_free(watch->code);
    (void)x86_vpt_names_free(watch->names);
    x86_vpt_vms_free(watch->vms);
    (void)close_outputs(&watch->outputs);
    g_free(watch->name);
    qobject_unref(watch->sidecar);
    qobject_unref(watch->host);
    g_free(watch);
}

static bool has_names(const VptStart *start)
{
    return start->names || (start->has_names_later && start->names_later);
}

static bool open_names(struct X86VptWatch *watch, const VptStart *start, Error **errp)
{
    const struct X86VptNamesTo to = {
        .cs = CPU(watch->cpu),
        .env = &watch->cpu->env,
        .ring = watch->ring,
        .offset = offset_now,
        .tsc = tsc_now,
        .owner = watch,
    };

    if (!has_names(start)) {
        return true;
    }
    watch->names = x86_vpt_names_new(&to, start->names, &watch->outputs.names, errp);
    return watch->names;
}

/* Where packets, code and names go to. */
static bool open_sinks(struct X86VptWatch *watch, const VptStart *start, Error **errp)
{
    const bool code = start->has_code && start->code;

    if (start->has_ring) {
        watch->ring = x86_vpt_ring_new(start->ring, errp);
        if (!watch->ring) {
            return false;
        }
    }
    if (!open_outputs(&watch->outputs, watch->name, code, has_names(start), start->files, errp) ||
        !open_names(watch, start, errp)) {
        return false;
    }
    if (watch->ring) {
        watch->code = code ? x86_vpt_code_in_ring(watch->ring) : NULL;
        return true;
    }
    watch->writer = x86_vpt_writer_new(&watch->outputs.trace);
    watch->code = code ? x86_vpt_code_new(&watch->outputs.code, errp) : NULL;
    return watch->code || !code;
}

static struct X86VptWatch *watch_new(X86CPU *cpu, const VptStart *start, Error **errp)
{
    struct X86VptWatch *watch = g_new0(struct X86VptWatch, 1);
    struct vpt_caps caps;
    const char *wrong;

    watch->cpu = cpu;
    watch->vms = x86_vpt_vms_new();
    watch->host = x86_vpt_host(start->images);
    watch->name = g_strdup_printf("%s.%d", start->file, CPU(cpu)->cpu_index);
    vpt_profile(X86_VPT_CAPTURE_PROFILE, &caps);
    x86_vpt_restrict_caps(cpu, &caps);
    caps.leaf14_0_ecx |= VPT_CAP_FABRIC;
    caps.choices.tips_wait = true;
    wrong = vpt_caps_check(&caps);
    if (wrong || !vpt_init(&watch->model, &caps, &watch_ops, watch)) {
        error_setg(errp, "this vCPU cannot be traced: %s", wrong ? wrong : "no model");
        watch_free(watch);
        return NULL;
    }
    watch->sidecar = x86_vpt_sidecar(watch, start);
    if (!open_sinks(watch, start, errp) ||
        !x86_vpt_write_sidecar(watch, watch->name, &watch->outputs.json, errp)) {
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
    uint64_t ctl = VPT_CTL_BRANCHEN | VPT_CTL_FABRICEN | VPT_CTL_TSCEN |
                   X86_VPT_CAPTURE_PSB << VPT_CTL_PSBFREQ_SHR;
    unsigned n = 0;

    ctl |= !start->has_os || start->os ? VPT_CTL_OS : 0;
    ctl |= !start->has_user || start->user ? VPT_CTL_USER : 0;
    if (start->has_timing && start->timing) {
        ctl |= VPT_CTL_MTCEN | VPT_CTL_CYCEN | X86_VPT_CAPTURE_MTC << VPT_CTL_MTCFREQ_SHR;
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

/* Where the vCPU stands now. TraceEn is 0, so that what leads there is no packet. */
static void begin_here(X86CPU *cpu, struct vpt_cpu *model, uint64_t ctl)
{
    struct vpt_transfer place = {.type = x86_vpt_waits_for_sipi(cpu) ? VPT_INIT_WAIT : VPT_INIT};

    x86_vpt_context(&cpu->env, &place.after);
    vpt_transfer(model, &place);
    x86_vpt_watch_begin_vm(&cpu->env, model);
    vpt_set_context(model, &place.after);
    set(model, VPT_MSR_CTL, ctl | VPT_CTL_TRACEEN, x86_vpt_linear(&cpu->env));
}

static void begin(CPUState *cs, run_on_cpu_data data)
{
    const struct begin *how = data.host_ptr;
    X86CPU *cpu = X86_CPU(cs);

    if (kvm_enabled()) {
        x86_vpt_synchronize(cpu);
    }
    cpu->vpt->vms = how->watch->vms;
    begin_here(cpu, &how->watch->model, how->ctl);
    cpu->vpt->capture = how->watch;
    cpu->vpt->watch = &how->watch->model;
    if (how->watch->code) {
        own_blocks(cs);
    }
    if (kvm_enabled() && !cpu->vpt->in_tcg) {
        x86_vpt_hold_time(cpu);
    }
    if (how->watch->names) {
        tcg_flush_jmp_cache(cs);
        x86_vpt_look(cpu);
    }
    x86_vpt_sync(&cpu->env);
}

/* Behind a reset: before the vCPU executes anything. */
static void begin_again(CPUState *cs, run_on_cpu_data data)
{
    X86CPU *cpu = X86_CPU(cs);
    struct vpt_cpu *model = cpu->vpt->watch;

    if (!model || model->ctl & VPT_CTL_TRACEEN) {
        return; /* of several resets, one is enough */
    }
    if (kvm_enabled()) {
        x86_vpt_synchronize(cpu);
    }
    set(model, VPT_MSR_STATUS, 0, 0); /* so that it begins with a PSB+ */
    begin_here(cpu, model, model->ctl);
    x86_vpt_look(cpu);
    x86_vpt_sync(&cpu->env);
}

void x86_vpt_watch_reset(X86CPU *cpu, uint64_t ip)
{
    struct vpt_transfer end = {.type = VPT_INIT_WAIT, .ip = ip};
    struct vpt_cpu *model = cpu->vpt->watch;

    if (model) {
        x86_vpt_context(&cpu->env, &end.after);
        vpt_transfer(model, &end);
        set(model, VPT_MSR_CTL, model->ctl & ~VPT_CTL_TRACEEN, 0); /* clocks may go back now */
        cpu->vpt->capture->waits = !runstate_is_running();
        if (runstate_is_running()) {
            async_run_on_cpu(CPU(cpu), begin_again, RUN_ON_CPU_NULL);
        }
    }
}

/* A machine that stands still may get another state behind its reset, before it goes on. */
static void state_changes(void *opaque, bool running, RunState state)
{
    CPUState *cs;

    CPU_FOREACH(cs)
    {
        struct X86VptWatch *watch = X86_CPU(cs)->vpt->capture;

        if (running && watch && watch->waits) {
            watch->waits = false;
            async_run_on_cpu(cs, begin_again, RUN_ON_CPU_NULL);
        }
    }
}

/* Held while files are completed without the main lock: QEMU does not end amid. */
static QemuMutex files_lock;

/* What a vCPU is asked for: a name but for its number, and what went wrong. */
struct request {
    const char *file;
    const VptFileList *handed;
    bool unlocks; /* the vCPU's thread may let go of the main lock */
    Error *error; /* the first */
    /* Of those that ended. */
    VptCaptureList *list, **tail;
    int64_t since_ns, locked_ns; /* processor time: when the lock was taken, and all of it */
};

static int64_t thread_time_ns(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* Whoever waits for the vCPU does not hold the lock either. */
static void let_go(struct request *request)
{
    if (request->unlocks) {
        request->locked_ns += thread_time_ns() - request->since_ns;
        bql_unlock();
    }
}

static void take_back(struct request *request)
{
    if (request->unlocks) {
        bql_lock();
        request->since_ns = thread_time_ns();
    }
}

static VptCapture *describe(const struct X86VptWatch *watch)
{
    VptCapture *capture = g_new0(VptCapture, 1);
    int error = watch->writer ? x86_vpt_write_error(watch->writer) : 0;

    error = error ? error : x86_vpt_code_error(watch->code);
    error = error ? error : x86_vpt_names_error(watch->names);
    capture->vcpu = CPU(watch->cpu)->cpu_index;
    capture->file = g_strdup(watch->name);
    capture->bytes = qatomic_read(&watch->bytes);
    capture->failed = error != 0;
    if (error) {
        X86_VPT_HAS(capture, why);
        capture->why = g_strdup(strerror(error));
    }
    if (watch->ring) {
        capture->has_ring = true;
        capture->ring = x86_vpt_ring_size(watch->ring);
    }
    capture->code_forgotten = x86_vpt_code_forgotten(watch->code);
    capture->vmcbs_forgotten = x86_vpt_vms_forgotten(watch->vms);
    capture->names_left_out = x86_vpt_names_left_out(watch->names);
    capture->names_wanted = x86_vpt_names_wanted(watch->names);
    return capture;
}

/* What the rings hold, to other files than those of the capture. */
static void save_to(const struct X86VptWatch *watch, const char *trace, const VptFileList *handed,
                    Error **errp)
{
    struct X86VptOutputs outputs = {0};

    if (open_outputs(&outputs, trace, watch->code, watch->names, handed, errp) &&
        save_ring(watch, trace, &outputs, errp) &&
        x86_vpt_write_map(watch, trace, &outputs.map, errp) && !close_outputs(&outputs)) {
        cannot_write(trace, "", errno, errp);
    }
    (void)close_outputs(&outputs);
}

static void save(CPUState *cs, run_on_cpu_data data)
{
    struct request *request = data.host_ptr;
    struct X86VptWatch *watch = X86_CPU(cs)->vpt->capture;
    Error *error = NULL;

    if (!watch || !watch->ring) {
        error_setg(&error, watch ? "the capture goes to files" : "no capture runs");
        error_propagate(&request->error, error);
        return;
    }
    request->since_ns = thread_time_ns();
    let_go(request);
    qemu_mutex_lock(&files_lock);
    vpt_flush(&watch->model);
    settle(watch);
    if (request->file) {
        g_autofree char *trace = g_strdup_printf("%s.%d", request->file, cs->cpu_index);

        save_to(watch, trace, request->handed, &error);
    } else if (save_ring(watch, watch->name, &watch->outputs, &error)) {
        (void)x86_vpt_write_map(watch, watch->name, &watch->outputs.map, &error);
    }
    qemu_mutex_unlock(&files_lock);
    take_back(request);
    error_propagate(&request->error, error);
}

static void end(CPUState *cs, run_on_cpu_data data)
{
    X86CPU *cpu = X86_CPU(cs);
    struct X86VptWatch *watch = cpu->vpt->capture;
    struct request *request = data.host_ptr;
    VptCapture *told;
    Error *error = NULL;

    if (!watch) {
        return;
    }
    request->since_ns = thread_time_ns();
    request->locked_ns = 0;
    let_go(request); /* what the model still has may have to wait for the file */
    set(&watch->model, VPT_MSR_CTL, watch->model.ctl & ~VPT_CTL_TRACEEN, x86_vpt_linear(&cpu->env));
    if (watch->names) {
        x86_vpt_names_end(watch->names);
    }
    take_back(request);
    cpu->vpt->watch = NULL;
    cpu->vpt->capture = NULL;
    cpu->vpt->vms = NULL;
    if (watch->code) {
        share_blocks(cs);
    }
    x86_vpt_sync(&cpu->env);
    let_go(request);
    qemu_mutex_lock(&files_lock);
    told = describe(watch);
    complete(watch, &error);
    watch_free(watch);
    qemu_mutex_unlock(&files_lock);
    take_back(request);
    told->has_locked_ns = true;
    told->locked_ns = request->locked_ns + thread_time_ns() - request->since_ns;
    QAPI_LIST_APPEND(request->tail, told);
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
    struct request request = {.tail = &request.list};

    end(CPU(cpu), RUN_ON_CPU_HOST_PTR(&request));
    qapi_free_VptCaptureList(request.list);
    report(request.error);
}

/* Gives what is told of captures that ended. */
static VptCaptureList *ask_all(run_on_cpu_func what, const char *file, const VptFileList *handed,
                               Error **errp)
{
    struct request request = {
        .file = file, .handed = handed, .unlocks = true, .tail = &request.list};
    CPUState *cs;

    CPU_FOREACH(cs)
    {
        run_on_cpu(cs, what, RUN_ON_CPU_HOST_PTR(&request));
    }
    if (request.error) {
        error_propagate(errp, request.error);
        qapi_free_VptCaptureList(request.list);
        return NULL;
    }
    return request.list;
}

/* QEMU is about to end, in good order: the files are whole before its monitors say goodbye. */
static void at_shutdown(Notifier *notifier, void *data)
{
    Error *error = NULL;

    if (shutdown_action != SHUTDOWN_ACTION_PAUSE) {
        x86_vpt_hold();
        qapi_free_VptCaptureList(ask_all(end, NULL, NULL, &error));
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

    qemu_mutex_lock(&files_lock); /* what is being completed is */
    qemu_mutex_unlock(&files_lock);
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
            save_ring(watch, watch->name, &watch->outputs, &error);
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
    if (runstate_check(RUN_STATE_INMIGRATE)) {
        error_setg(errp, "the guest has not come yet: capture it when it has");
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
        qemu_add_vm_change_state_handler(state_changes, NULL);
        qemu_mutex_init(&files_lock);
        registered = true;
    }
    for (guint i = 0; i < watches->len; i++) {
        how.watch = g_ptr_array_index(watches, i);
        run_on_cpu(CPU(how.watch->cpu), begin, RUN_ON_CPU_HOST_PTR(&how));
    }
}

struct names_request {
    const VptNames *kernel;
    bool has_capture;
    Error *error; /* the first */
};

static void take_names(CPUState *cs, run_on_cpu_data data)
{
    struct names_request *request = data.host_ptr;
    const struct X86VptWatch *watch = X86_CPU(cs)->vpt->capture;
    Error *error = NULL;

    if (watch && watch->names) {
        request->has_capture = true;
        (void)x86_vpt_names_take(watch->names, request->kernel, &error);
        error_propagate(&request->error, error);
    }
}

void qmp_x_vpt_names(VptNames *kernel, Error **errp)
{
    struct names_request request = {.kernel = kernel};
    CPUState *cs;

    CPU_FOREACH(cs)
    {
        run_on_cpu(cs, take_names, RUN_ON_CPU_HOST_PTR(&request));
    }
    if (!request.has_capture) {
        error_setg(&request.error, "no capture with names runs");
    }
    error_propagate(errp, request.error);
}

void qmp_x_vpt_save(VptSave *where, Error **errp)
{
    (void)ask_all(save, where->file, where->files, errp);
}

VptCaptureList *qmp_x_vpt_stop(Error **errp)
{
    return ask_all(end, NULL, NULL, errp);
}

VptCaptureList *qmp_x_vpt_query(Error **errp)
{
    VptCaptureList *list = NULL, **tail = &list;
    CPUState *cs;

    CPU_FOREACH(cs)
    {
        const struct X86VptWatch *watch = X86_CPU(cs)->vpt->capture;

        if (watch) {
            QAPI_LIST_APPEND(tail, describe(watch));
        }
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

    (void)ask_all(save, qdict_get_try_str(qdict, "file"), NULL, &error);
    say(mon, error);
}

void hmp_vpt_stop(Monitor *mon, const QDict *qdict)
{
    Error *error = NULL;

    qapi_free_VptCaptureList(qmp_x_vpt_stop(&error));
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

        monitor_printf(mon, "vCPU %" PRId64 ": %s: %" PRIu64 " bytes%s%s%s\n", capture->vcpu,
                       capture->file, capture->bytes,
                       capture->has_ring ? ", the last in a ring" : "",
                       capture->failed ? ", and the file cannot be written: " : "",
                       capture->failed ? capture->why : "");
    }
    qapi_free_VptCaptureList(list);
}
