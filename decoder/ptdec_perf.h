/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A part of libptdec: perf.data, the file that Linux's `perf record` writes. docs/perf-data.md says
 * what each record means here, docs/glossary.md explains the terms.
 *
 *   reader   the records of a file or a pipe's bytes, one after the other     (ptd_perf_*)
 *   session  what a decoder needs of them: traces, code, who ran, time        (ptd_perf_session_*)
 *   writer   packets into a file that stock perf decodes                      (ptd_perf_write)
 *
 * The format is that of tools/perf/Documentation/perf.data-file-format.txt and
 * include/uapi/linux/perf_event.h. The conventions are those of ptdec.h. Files are hostile input:
 * nothing in them is believed that is not checked against the bytes that are there.
 */
#ifndef PTDEC_PERF_H
#define PTDEC_PERF_H

#include "ptdec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Reader ------------------------------------------------------------------------------- */

/* Types of records: those of the kernel, PERF_RECORD_..., and from 64 on those of the tool. */
enum ptd_perf_type {
    PTD_PERF_MMAP = 1,
    PTD_PERF_LOST = 2,
    PTD_PERF_COMM = 3,
    PTD_PERF_EXIT = 4,
    PTD_PERF_THROTTLE = 5,
    PTD_PERF_UNTHROTTLE = 6,
    PTD_PERF_FORK = 7,
    PTD_PERF_READ = 8,
    PTD_PERF_SAMPLE = 9,
    PTD_PERF_MMAP2 = 10,
    PTD_PERF_AUX = 11,
    PTD_PERF_ITRACE_START = 12,
    PTD_PERF_LOST_SAMPLES = 13,
    PTD_PERF_SWITCH = 14,
    PTD_PERF_SWITCH_CPU_WIDE = 15,
    PTD_PERF_NAMESPACES = 16,
    PTD_PERF_KSYMBOL = 17,
    PTD_PERF_BPF_EVENT = 18,
    PTD_PERF_CGROUP = 19,
    PTD_PERF_TEXT_POKE = 20,
    PTD_PERF_AUX_OUTPUT_HW_ID = 21,

    PTD_PERF_HEADER_ATTR = 64,
    PTD_PERF_HEADER_EVENT_TYPE = 65,
    PTD_PERF_HEADER_TRACING_DATA = 66,
    PTD_PERF_HEADER_BUILD_ID = 67,
    PTD_PERF_FINISHED_ROUND = 68,
    PTD_PERF_ID_INDEX = 69,
    PTD_PERF_AUXTRACE_INFO = 70,
    PTD_PERF_AUXTRACE = 71,
    PTD_PERF_AUXTRACE_ERROR = 72,
    PTD_PERF_THREAD_MAP = 73,
    PTD_PERF_CPU_MAP = 74,
    PTD_PERF_STAT_CONFIG = 75,
    PTD_PERF_STAT = 76,
    PTD_PERF_STAT_ROUND = 77,
    PTD_PERF_EVENT_UPDATE = 78,
    PTD_PERF_TIME_CONV = 79,
    PTD_PERF_HEADER_FEATURE = 80,
    PTD_PERF_COMPRESSED = 81, /* never handed out: the records inside are */
    PTD_PERF_FINISHED_INIT = 82,
    PTD_PERF_COMPRESSED2 = 83, /* likewise */
};

/* Bits of a record's misc. */
#define PTD_PERF_MISC_CPUMODE       0x0007u
#define PTD_PERF_MISC_KERNEL        1u /* values of CPUMODE */
#define PTD_PERF_MISC_USER          2u
#define PTD_PERF_MISC_GUEST_KERNEL  4u
#define PTD_PERF_MISC_GUEST_USER    5u
#define PTD_PERF_MISC_COMM_EXEC     0x2000u /* COMM: by execve() */
#define PTD_PERF_MISC_SWITCH_OUT    0x2000u /* SWITCH, SWITCH_CPU_WIDE */
#define PTD_PERF_MISC_MMAP_BUILD_ID 0x4000u /* MMAP2 */

/* Bits of an AUX record's flags. */
#define PTD_PERF_AUX_TRUNCATED 0x01u /* bytes behind it were lost: the buffer was full */
#define PTD_PERF_AUX_OVERWRITE 0x02u /* snapshot mode */
#define PTD_PERF_AUX_PARTIAL   0x04u /* gaps: something else used the hardware */
#define PTD_PERF_AUX_COLLISION 0x08u

#define PTD_PERF_BUILD_ID_BYTES 20
#define PTD_PERF_ID_BYTES       32

/* A record. A string in it ends with a zero inside the record. */
struct ptd_perf_record {
    uint64_t offset; /* in the file; of a record in compressed ones: of the last of these */
    uint32_t type;   /* enum ptd_perf_type, or one that is not known */
    uint16_t misc;
    bool compressed;     /* it came out of compressed records */
    const uint8_t *body; /* behind the header; valid until the next call */
    size_t body_bytes;
    /* Who and when, as the trailer (or the sample) says. Records of the tool have none. */
    bool has_tid, has_time, has_cpu, has_id;
    uint32_t pid, tid, cpu;
    uint64_t time, id;
    uint32_t event; /* index of the ptd_perf_event, 0 if the record does not say */
    union {
        struct {
            uint32_t pid, tid, prot, flags;
            uint64_t start, len, pgoff;
            uint8_t build_id[PTD_PERF_BUILD_ID_BYTES];
            uint8_t build_id_bytes; /* 0: not known */
            const char *file;
        } mmap; /* MMAP, MMAP2; prot and flags of MMAP2 only */
        struct {
            uint64_t id, lost; /* id of LOST only */
        } lost;                /* LOST, LOST_SAMPLES */
        struct {
            uint32_t pid, tid;
            const char *name;
        } comm;
        struct {
            uint32_t pid, parent_pid, tid, parent_tid;
            uint64_t time;
        } task; /* FORK, EXIT */
        struct {
            uint64_t offset, size, flags;
        } aux;
        struct {
            uint32_t pid, tid;
        } itrace_start;
        struct {
            bool out;
            bool has_other; /* SWITCH_CPU_WIDE: who is next, or who was before */
            uint32_t other_pid, other_tid;
        } context_switch;
        struct {
            uint64_t start;
            uint32_t len;
            uint16_t kind, flags; /* flags bit 0: it goes away */
            const char *name;
        } ksymbol;
        struct {
            uint64_t address;
            uint16_t old_bytes, new_bytes;
            const uint8_t *before, *after;
        } text_poke;
        struct {
            uint64_t shift, mult, zero;
        } time_conv;
        struct {
            uint32_t kind; /* 1: Intel PT */
            const uint8_t *priv;
            size_t priv_bytes;
        } auxtrace_info;
        struct {
            uint64_t size, offset, reference;
            uint32_t idx;
            int32_t tid, cpu;     /* -1: any */
            const uint8_t *bytes; /* size of them */
        } auxtrace;
        struct {
            uint32_t code, cpu, pid, tid;
            uint64_t ip;
        } auxtrace_error;
        struct {
            uint64_t ip; /* if has_ip */
            bool has_ip;
            const uint8_t *aux; /* packets; NULL: the event has none in its samples */
            size_t aux_bytes;
            const uint8_t *raw; /* what a tracepoint says; NULL: nothing */
            size_t raw_bytes;
        } sample;
        struct {
            uint64_t count;
            const uint8_t *entries; /* count of PTD_PERF_ID_BYTES: id, index, CPU, thread */
        } id_index;
        uint64_t feature; /* HEADER_FEATURE: its number */
    };
};

/* One perf_event_attr. */
struct ptd_perf_event {
    uint32_t type;
    uint64_t config, config1, config2, sample_type, read_format, flags;
    uint64_t branch_sample_type, sample_regs_user, sample_regs_intr;
    char name[64]; /* "cpu-clock"; "type 1 config 0" if the file does not name it */
};

struct ptd_perf;

/* What is wrong with a file, as one line without a newline, and where. */
struct ptd_perf_fault {
    uint64_t offset;
    char text[192];
};

/* Whether bytes begin as a perf.data does. */
bool ptd_perf_detect(const void *bytes, size_t len_bytes);
/*
 * Reads the header. bytes are the whole file, or all that came out of a pipe; they must outlive the
 * reader. PTD_OK and *perf; PTD_E_FORMAT, PTD_E_TRUNCATED (and *fault), PTD_E_NOMEM.
 */
int ptd_perf_open(const void *bytes, size_t len_bytes, struct ptd_perf **perf,
                  struct ptd_perf_fault *fault);
void ptd_perf_close(struct ptd_perf *perf);
/*
 * The next record, of compressed ones those inside. PTD_OK; PTD_END; PTD_E_FORMAT, PTD_E_TRUNCATED
 * or PTD_E_NOMEM: ptd_perf_fault() tells more, and reading is over.
 */
int ptd_perf_next(struct ptd_perf *perf, struct ptd_perf_record *record);
const struct ptd_perf_fault *ptd_perf_fault(const struct ptd_perf *perf);
/* The events seen so far: in a pipe, they are records too. Valid until the next call. */
const struct ptd_perf_event *ptd_perf_events(const struct ptd_perf *perf, size_t *count);
/* The one with an id, as ID_INDEX has them. NULL: no such is known. */
const struct ptd_perf_event *ptd_perf_event_of(const struct ptd_perf *perf, uint64_t id);
/* "GenuineIntel,6,85,7", or "" if the file does not say. */
const char *ptd_perf_cpuid(const struct ptd_perf *perf);
/* "MMAP2", ...; "?" for a type that is not known. */
const char *ptd_perf_type_name(uint32_t type);
/* One line about a record without a newline. Returns as snprintf does. */
int ptd_perf_format(const struct ptd_perf_record *record, char *text, size_t text_bytes);

/* ---- Session ------------------------------------------------------------------------------ */

/*
 * AUXTRACE_INFO of Intel PT. The bits are masks of RTIT_CTL as the attr's config has it. Times,
 * here and below, are perf's: nanoseconds of the clock that the file was recorded with.
 */
struct ptd_perf_pt {
    uint32_t pmu_type;
    uint64_t time_shift, time_mult, time_zero;
    bool has_time; /* these three convert between TSC and perf's time */
    uint64_t tsc_bit, noretcomp_bit, mtc_bit, mtc_freq_bits, cyc_bit;
    uint64_t tsc_ctc_num, tsc_ctc_den;
    uint64_t max_nonturbo_ratio;
    uint64_t sched_switch; /* 0: no context switches were recorded */
    bool snapshot, per_cpu;
};

/* A part of a trace as it stands in the file. */
struct ptd_perf_piece {
    const uint8_t *bytes;
    size_t len_bytes;
};

/*
 * Packets that stand one after the other. A gap in a buffer makes two of them. So do two samples
 * (AUX area sampling) that do not overlap; the buffers of samples are those of CPUs, or of threads.
 */
struct ptd_perf_trace {
    uint32_t idx;         /* of the buffer */
    int32_t cpu, tid;     /* -1: any. Of a CPU's buffer, tid is only who was to be traced first */
    uint64_t aux_offset;  /* of the first byte, in all that the buffer ever held */
    uint64_t reference;   /* TSC, roughly, when the first bytes were read */
    const uint8_t *bytes; /* all of them; NULL: they are in several pieces */
    size_t len_bytes;
    const struct ptd_perf_piece *pieces; /* in order; a session's traces have them in any case */
    size_t piece_count;
};

/* Memory that holds code of a file, from a time on. */
struct ptd_perf_map {
    uint64_t time;              /* 0: from the beginning */
    uint64_t start, len, pgoff; /* bytes; pgoff in the file */
    uint32_t pid;               /* UINT32_MAX: the kernel */
    uint32_t prot;
    bool executable; /* or not known */
    uint8_t build_id[PTD_PERF_BUILD_ID_BYTES];
    uint8_t build_id_bytes;
    const char *file;
};

/* From this time on, a thread has this name. */
struct ptd_perf_comm {
    uint64_t time;
    uint32_t pid, tid;
    bool exec; /* by execve(): the process has new code */
    const char *name;
};

/* A thread, or with a pid of its own a process, was made by another. */
struct ptd_perf_task {
    uint64_t time;
    uint32_t pid, tid, parent_pid, parent_tid;
};

/* At this time, pid/tid began to run on the CPU, or stopped. */
struct ptd_perf_switch {
    uint64_t time;
    uint32_t cpu, pid, tid;
    bool out;
    bool has_other; /* of the thread that runs next, or ran before */
    uint32_t other_pid, other_tid;
};

/* The name of code that the kernel made while it ran. */
struct ptd_perf_symbol {
    uint64_t time, start;
    uint32_t len;  /* bytes */
    uint16_t kind; /* 1: BPF, 2: out of line, as trampolines are */
    bool gone;     /* from this time on */
    const char *name;
};

#define PTD_PERF_POKE_BYTES 0x8000u /* the most that a record has, before and after together */

/* The kernel changed its code: old_bytes at an address became new_bytes. 0 of them: none were
 * there.
 */
struct ptd_perf_poke {
    uint64_t time, address;
    uint16_t old_bytes, new_bytes;
    const uint8_t *before, *after;
};

struct ptd_perf_lookup;
struct ptd_perf_guests;

#define PTD_PERF_PASS_BYTES (UINT64_C(16) << 20)

/*
 * Where the caller wants to have copies of traces, which are as long as the traces are: in memory
 * that is a file's, say, so that the system can have it back.
 */
struct ptd_perf_store {
    /* As realloc() of old_bytes; new_bytes 0: frees them. NULL: no room, and nothing changed. */
    void *(*resize)(void *owner, void *bytes, size_t old_bytes, size_t new_bytes);
    /*
     * PTD_PERF_PASS_BYTES of the file or of a copy were looked at since the last call, or about so
     * many, and are not needed soon. NULL: nobody wants to know.
     */
    void (*passed)(void *owner);
    void *owner;
};

/* All of it is for reading; each list is in order of time, and of the file where times are equal.
 */
struct ptd_perf_session {
    bool has_pt; /* else there is no Intel PT in the file */
    struct ptd_perf_pt pt;
    const struct ptd_perf_trace *traces;
    const struct ptd_perf_map *maps;
    const struct ptd_perf_comm *comms;
    const struct ptd_perf_task *forks; /* of threads and processes */
    const struct ptd_perf_switch *switches;
    const struct ptd_perf_switch *starts; /* ITRACE_START: who ran when tracing began */
    const struct ptd_perf_symbol *symbols;
    const struct ptd_perf_poke *pokes;
    size_t start_count, poke_count;
    size_t trace_count, map_count, comm_count, fork_count, switch_count, symbol_count;
    const struct ptd_perf_event *events;
    size_t event_count;
    const char *cpuid; /* as ptd_perf_cpuid() */
    uint64_t record_count, sample_count;
    uint64_t lost_count;      /* records and samples that LOST and LOST_SAMPLES tell of */
    uint64_t error_count;     /* AUXTRACE_ERROR */
    uint64_t guest_map_count; /* maps of guests, which are not kept */
    uint64_t truncated, partial, collisions; /* AUX records with these flags */
    uint64_t aux_sample_count;               /* samples with packets */
    /* To be set by the user: VMs whose TSC differs. They must outlive the session. */
    const struct ptd_time_vm *vms;
    size_t vm_count;
    const struct ptd_perf_lookup *lookup; /* private */
    int error; /* what ended reading early (the rest is here), or PTD_OK */
    struct ptd_perf_fault fault;
    /* To be set by the user, as vms: which threads are virtual processors; NULL: nobody says. */
    const struct ptd_perf_guests *guests;
    /* The same: what keeps copies of traces; NULL: the C library. */
    const struct ptd_perf_store *store;
};

/*
 * Reads a whole file; bytes must outlive the session. PTD_OK, also if the records end early: see
 * session->error. PTD_E_FORMAT, PTD_E_TRUNCATED: the header is not usable, see *fault.
 * PTD_E_NOMEM.
 */
int ptd_perf_session_new(const void *bytes, size_t len_bytes, struct ptd_perf_session **session,
                         struct ptd_perf_fault *fault);
void ptd_perf_session_free(struct ptd_perf_session *session);

/* A trace in one place: bytes of the file, or a copy. */
struct ptd_perf_whole {
    const uint8_t *bytes;
    size_t len_bytes;
    uint8_t *copy; /* these are private */
    size_t room;
    const struct ptd_perf_store *store;
};

/* PTD_OK, PTD_E_NOMEM. */
int ptd_perf_whole(const struct ptd_perf_session *session, const struct ptd_perf_trace *trace,
                   struct ptd_perf_whole *whole);
void ptd_perf_whole_free(struct ptd_perf_whole *whole);
/* The process of a thread: tid itself if no record says. */
uint32_t ptd_perf_pid_of(const struct ptd_perf_session *session, uint32_t tid);
/*
 * The name of a thread at a time (UINT64_MAX: its last one), else that of its process, else what it
 * inherited when it was made; NULL: not known. The names change: ask for each time.
 */
const char *ptd_perf_comm_of(const struct ptd_perf_session *session, uint32_t pid, uint32_t tid,
                             uint64_t time);
/* The last name that the kernel gave to what it made at an address; NULL: none. */
const char *ptd_perf_symbol_of(const struct ptd_perf_session *session, uint64_t address);
/*
 * Hands out the maps of a process, those that it inherited by fork() first. Ends early if the
 * callback returns other than 0, and returns that; else 0.
 */
int ptd_perf_each_map(const struct ptd_perf_session *session, uint32_t pid,
                      int (*map)(void *owner, const struct ptd_perf_map *map), void *owner);
/* "cpu-clock, dummy:u": the names of the events. Returns as snprintf does. */
int ptd_perf_event_names(const struct ptd_perf_session *session, char *text, size_t text_bytes);
/* What the file says of the clocks: a config for ptd_time_new(), valid as long as the session. */
void ptd_perf_clocks(const struct ptd_perf_session *session, struct ptd_time_config *config);
/* perf's time (ns) and TSC. 0 without pt->has_time. */
uint64_t ptd_perf_time_of_tsc(const struct ptd_perf_pt *pt, uint64_t tsc);
uint64_t ptd_perf_tsc_of_time(const struct ptd_perf_pt *pt, uint64_t time);

/* ---- Code that changes --------------------------------------------------------------------- */

/* Code that becomes other code: from which time on, and from where on in the packets of a trace. */
struct ptd_perf_change {
    uint64_t time;   /* perf's */
    uint64_t offset; /* UINT64_MAX: not in this trace any more */
    bool of_kernel;
    size_t which; /* the caller's */
};

/*
 * Where in a trace changes take place: fills in .offset, for ptd_flow_next_before(). changes come
 * in order of time, and leave in order of offset. bytes are those of a trace of the session, or of
 * the copy that ptd_perf_cpu_trace() made of one.
 *
 * A process maps code in a system call. So the code of a process changes between two stretches of
 * user code, if the times of packets allow that. Without a conversion of time, all offsets are 0.
 * PTD_OK, PTD_E_NOMEM.
 */
int ptd_perf_place(const struct ptd_perf_session *session, const uint8_t *bytes, size_t len_bytes,
                   struct ptd_perf_change *changes, size_t count);

/* ---- Guests by thread ---------------------------------------------------------------------- */

/*
 * A thread of the host that is a virtual processor of a VM. Several entries may have the same
 * thread: what each says holds from its time on, such as another TSC.
 */
struct ptd_perf_vcpu {
    uint32_t tid;
    bool has_tsc;  /* session->vms says how its TSC differs; else its TSC packets tell no time */
    uint64_t from; /* the host's TSC; 0: from the beginning */
    uint64_t vmcs; /* what VMCS packets shall say of it: PTD_PERF_VMCS() */
};

/* Numbers in place of VMCS pointers, 32 bits: no pointer of a processor is that. */
#define PTD_PERF_VMCS(number) (UINT64_C(1) << 51 | (uint64_t)(uint32_t)(number) << 12)
/* A guest of which nobody knows whose it is. */
#define PTD_PERF_VMCS_NOBODY PTD_PERF_VMCS(UINT32_MAX)

/* How it was found out whose guest it was that ran, counted from VM entry to VM exit. */
struct ptd_perf_guest_sums {
    uint64_t runs;       /* all of them */
    uint64_t by_both;    /* the VMCS pointer and the thread say the same */
    uint64_t by_vmcs;    /* the VMCS pointer alone: times are too near to a switch of threads */
    uint64_t by_thread;  /* the thread alone: no packet had told a VMCS pointer */
    uint64_t unknown;    /* neither says whose it was */
    uint64_t vmcs_count; /* VMCS pointers that were seen */
};

/*
 * Looks at all traces of a session for guests: which VMCS pointer belongs to which thread, where
 * there are VMCS packets, and who ran where there are none. NR of PIP packets says that a guest
 * ran. The session must outlive it, and has its .vms. Of two entries of a thread from the
 * same time on, the one with the greater number counts. PTD_OK, PTD_E_NOMEM.
 */
int ptd_perf_guests_new(const struct ptd_perf_session *session, const struct ptd_perf_vcpu *vcpus,
                        size_t count, struct ptd_perf_guests **guests);
void ptd_perf_guests_free(struct ptd_perf_guests *guests);
const struct ptd_perf_guest_sums *ptd_perf_guests_sums(const struct ptd_perf_guests *guests);

/*
 * A copy of a trace in which VMCS packets say whose guest runs, as PTD_PERF_VMCS() does; what
 * nobody knows stays as it is, or is PTD_PERF_VMCS_NOBODY. VMCS packets that are missing are put
 * in, with a PAD behind each, so that each makes the copy 8 bytes longer.
 */
struct ptd_perf_guest_trace {
    uint8_t *bytes;
    size_t len_bytes;
    uint64_t *inserted; /* offsets in bytes */
    size_t inserted_count;
    size_t room; /* private, as is .store */
    const struct ptd_perf_store *store;
};

/* trace is one of session, which has .guests. PTD_OK, PTD_E_NOMEM. */
int ptd_perf_guest_trace(const struct ptd_perf_session *session, const struct ptd_perf_trace *trace,
                         struct ptd_perf_guest_trace *out);
void ptd_perf_guest_trace_free(struct ptd_perf_guest_trace *trace);

/* ---- Traces by thread ----------------------------------------------------------------------- */

struct ptd_perf_thread {
    uint32_t tid, pid;
};

/*
 * A copy of a CPU's trace, for ptd_flow_*(): CR3 says which thread runs, PTD_PERF_CR3(tid), by the
 * context switches of the file. ptd_image_alias() gives a thread the code of its process. The
 * kernel's code belongs into PTD_ANY_CR3. Guests keep the CR3 that the trace says. With
 * session->guests, VMCS packets are those of ptd_perf_guest_trace().
 */
struct ptd_perf_cpu_trace {
    uint8_t *bytes;
    size_t len_bytes;
    struct ptd_perf_thread *threads; /* that may occur; tid ascends */
    size_t thread_count;
    uint64_t *inserted; /* offsets in bytes of what the original does not have: 8 bytes each */
    size_t inserted_count;
    bool switched; /* the file has context switches of this CPU; else one thread had it alone */
    bool guests;   /* VMX non-root operation was traced */
    size_t room;   /* private, as is .store */
    const struct ptd_perf_store *store;
};

#define PTD_PERF_CR3(tid) ((uint64_t)(uint32_t)(tid) << 12)

/* PTD_OK, PTD_E_NOMEM. */
int ptd_perf_cpu_trace(const struct ptd_perf_session *session, const struct ptd_perf_trace *trace,
                       struct ptd_perf_cpu_trace *out);
void ptd_perf_cpu_trace_free(struct ptd_perf_cpu_trace *trace);
/* An offset in the copy as one in the original. */
uint64_t ptd_perf_cpu_trace_offset(const struct ptd_perf_cpu_trace *trace, uint64_t offset);

/* ---- Writer ------------------------------------------------------------------------------- */

/*
 * What goes into the file. Lists are as a session has them; the names in them are at most 4,095
 * bytes. A trace with cpu -1 is that of the thread tid; those with a CPU need the context switches
 * of that CPU. The packets must be complete: zeros (PAD) may be added behind.
 */
struct ptd_perf_out {
    struct ptd_perf_pt pt; /* time, tsc_ctc_*, max_nonturbo_ratio; the other fields are not used */
    uint64_t config;       /* RTIT_CTL: CYCEn, MTCEn, TSCEn, DisRETC, MTCFreq, CycThresh, PSBFreq */
    const char *cpuid;     /* as ptd_perf_cpuid() has it; may be NULL */
    const struct ptd_perf_trace *traces;
    const struct ptd_perf_map *maps;
    const struct ptd_perf_comm *comms;
    const struct ptd_perf_task *forks;
    const struct ptd_perf_switch *switches;
    const struct ptd_perf_symbol *symbols;
    const struct ptd_perf_poke
        *pokes; /* of PTD_PERF_POKE_BYTES at most, before and after together */
    size_t trace_count, map_count, comm_count, fork_count, switch_count, symbol_count, poke_count;
    /* Takes the bytes of the file in order; other than 0: that failed. */
    int (*write)(void *owner, const void *bytes, size_t len_bytes);
    void *owner;
};

/* All that a session holds, to be written anew; .write and .owner are left to the caller. */
void ptd_perf_out_of(const struct ptd_perf_session *session, struct ptd_perf_out *out);
/* PTD_OK, PTD_E_IO (write failed), PTD_E_NOMEM. */
int ptd_perf_write(const struct ptd_perf_out *out);

#ifdef __cplusplus
}
#endif
#endif
