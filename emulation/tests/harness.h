/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fake owner for the model's tests: a few MiB of guest RAM with canaries around it, places that
 * are not RAM, clocks that a test sets, and a tap of every byte that the model stores.
 *
 * The RAM has a shadow that follows only what the model reports through ops->wrote and what tests
 * poke themselves. fake_close() compares the two: a stray store anywhere in RAM fails the test.
 */
#ifndef VPT_TESTS_HARNESS_H
#define VPT_TESTS_HARNESS_H

#include "vpt.h"
#include "reader.h"

#define RAM_BYTES    (4u << 20)
#define TABLE_GPA    0x1000ull   /* the ToPA table of fake_output() */
#define REGION_GPA   0x200000ull /* and its one region, 2 MiB */
#define REGION_BYTES 0x200000ull

/* Linear addresses that tests share. */
#define IP_ON    0x400ffeull /* the WRMSR that enables */
#define IP_START 0x401000ull /* and what follows it */
#define IP_OFF   0x40fff0ull /* the WRMSR that disables */
#define IP_END   0x40fff2ull
#define KERNEL   0xffffffff81000000ull

#define MAPPINGS 8

/* What stands at [gpa, gpa + len_bytes) instead of RAM; the first match counts. */
struct mapping {
    uint64_t gpa, len_bytes;
    enum vpt_span_kind kind;
    uint8_t *host; /* RAM and READONLY */
    bool alias;    /* every page of the mapping is the page at host */
};

/* One store, as the model reported it. */
struct store {
    uint64_t gpa;
    uint32_t len_bytes;
};

struct fake {
    struct vpt_cpu cpu;
    struct vpt_caps caps;
    uint8_t *arena; /* canary, RAM, canary */
    uint8_t *ram, *shadow;
    struct mapping map[MAPPINGS];
    size_t maps;
    uint32_t most_bytes; /* the longest span that translate answers for; 0: no limit */
    struct vpt_clocks clocks;
    uint64_t guest_tsc_offset; /* of the TSC in VMX non-root operation */
    unsigned pmis;
    uint64_t pmi_at;       /* tap_total when the last PMI came */
    unsigned bad_requests; /* translate requests that break its contract */
    unsigned table_reads;
    bool tap_off; /* count stores, but keep neither bytes nor addresses */
    uint64_t tap_total;
    uint8_t *tap;
    size_t tap_len, tap_size, mark;
    struct store *stores;
    size_t store_count, store_size;
    uint8_t other[4096]; /* what MMIO and the transport took */
    size_t other_len;
    uint64_t other_gpa;
};

/* NULL ends a list of tests. */
struct test {
    const char *name;
    void (*run)(void);
};

void add_suite(const char *name, const struct test *tests);

/* Fails the running test, with a message, unless ok. Goes on in any case; gives ok back. */
bool check_at(bool ok, const char *file, unsigned line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define CHECK(ok, ...) check_at((ok), __FILE__, __LINE__, __VA_ARGS__)

/* A fake owner and its processor. fake_open() takes a profile without long TNTs, deferred TIPs or
 * TSX, so that packets have one form only. */
struct fake *fake_open(const char *profile);
struct fake *fake_open_caps(const struct vpt_caps *caps);
/* Checks canaries, shadow and requests, and frees. */
void fake_close(struct fake *fake);

/* The capabilities of a profile, which must exist, with packets in one form only. */
struct vpt_caps plain_caps(const char *profile);
/* "max" with every encoding of every bitmap allowed. */
struct vpt_caps rich_caps(void);
void allow_all_encodings(struct vpt_caps *caps);

void fake_map(struct fake *fake, uint64_t gpa, uint64_t len_bytes, enum vpt_span_kind kind,
              uint8_t *host, bool alias);
/* Forgets all mappings: only RAM is left. */
void fake_unmap(struct fake *fake);
/* Stores a ToPA entry or other 8 bytes into RAM. */
void fake_poke(struct fake *fake, uint64_t gpa, uint64_t value);

uint64_t fake_read(struct fake *fake, uint32_t msr);
/* WRMSR that must succeed. */
void fake_write(struct fake *fake, uint32_t msr, uint64_t value);
bool fake_status(struct fake *fake, uint64_t bits); /* all of these STATUS bits are 1 */

/* A 64-bit context at CPL cpl with CR3 1000H. */
struct vpt_context context_of(uint8_t cpl);

/* Output to one 2-MiB ToPA region that wraps; works with every ToPA profile. */
void fake_output(struct fake *fake);
/* fake_output(), CPL 0, and CTL := ctl | ToPA | TraceEn at IP_ON. */
void fake_start(struct fake *fake, uint64_t ctl);
/* Clears TraceEn at IP_OFF. */
void fake_stop(struct fake *fake);
/* Packets before now are of no further interest. */
void fake_mark(struct fake *fake);
/* Emits about that many bytes of TIP packets. */
void fake_noise(struct fake *fake, size_t bytes);

/* The packets since the mark as words (see reader.h). */
const char *fake_words(struct fake *fake, bool spell_psb);
/* Stops tracing (with its FUP and TIP.PGD expected if PacketEn is 1) and matches the words. */
bool fake_expect_at(struct fake *fake, const char *pattern, const char *rule, const char *file,
                    unsigned line);
#define EXPECT(fake, pattern, rule) fake_expect_at(fake, pattern, rule, __FILE__, __LINE__)

/* An event, in short. */
void fake_transfer(struct fake *fake, enum vpt_transfer_type type, uint64_t ip, uint64_t target,
                   const struct vpt_context *after);

/* Numbers at random of 40 bits; and events that they choose: a near branch to ip, or another one.
 */
uint64_t fake_random(uint64_t *seed);
void fake_branch(struct fake *fake, uint64_t r, uint64_t ip);
void fake_event(struct fake *fake, uint64_t r, uint64_t ip);

/* VMX: a VM exit ends at VMX_HOST, a VM entry from 401010H at VMX_GUEST; CPL 0 on both sides. */
#define VMX_GUEST 0x600000ull
#define VMX_HOST  0x500000ull
struct vpt_vm_entry vmx_entry(void);
struct vpt_vm_exit vmx_exit(void);
/* A guest whose IA32_RTIT_CTL VM entry loads and VM exit clears, with output by EPT. */
struct vpt_vm_entry vmx_entry_by_ept(uint64_t guest_ctl);
/* Three ToPA tables on the pages from gpa on, each of which ends in one before it, or in itself. */
void fake_tables(struct fake *fake, uint64_t gpa);
/* In VMX root operation, with output, TraceEn 0. */
struct fake *vmx_open(const char *profile);

/* Golden bytes as text, "02 82": how many there were; and back, in a buffer of its own. */
size_t from_hex(const char *hex, uint8_t *bytes);
const char *to_hex(const uint8_t *bytes, size_t n);

void suite_caps(void);
void suite_msr(void);
void suite_output(void);
void suite_topa(void);
void suite_memory(void);
void suite_enables(void);
void suite_packets(void);
void suite_compression(void);
void suite_psb(void);
void suite_choices(void);
void suite_timing(void);
void suite_ptwrite(void);
void suite_events(void);
void suite_tsx(void);
void suite_power(void);
void suite_pebs(void);
void suite_smm(void);
void suite_reset_vector(void);
void suite_overflow(void);
void suite_hand(void);
void suite_waiting(void);
void suite_branches(void);
void suite_vmx(void);
void suite_vmx_ctl(void);
void suite_vmx_switch(void);
void suite_ahead(void);
void suite_guest_trace(void);
void suite_xsave(void);
void suite_save(void);
void suite_corners(void);
void suite_edges(void);
void suite_rtit_edges(void);
void suite_rtit(void);
void suite_rtit_output(void);
void suite_state(void);
void suite_witness(void);
void suite_witness_packets(void);
void suite_newest(void);

#endif
