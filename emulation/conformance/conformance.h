/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance suite: every row of the specification's tables, and what its sections say
 * besides, as a rule with a test. A rule says what must hold in our own words; its test drives the
 * model as an owner would, with the harness of the unit tests. Tests come from the specification
 * alone.
 */
#ifndef VPT_CONFORMANCE_H
#define VPT_CONFORMANCE_H

#include "tests/harness.h"

struct rule {
    const char *row;  /* the table's own name or number of it; of sections, what it is about */
    const char *must; /* what must hold */
    void (*test)(void);
    const char *name;  /* of the test */
    const char *unmet; /* why a model cannot meet it, if test is NULL */
};
#define TEST(function) function, #function, NULL
#define UNMET(reason)  NULL, NULL, reason

/* A table of the specification, or a section of it ("33.2.5.1"). Rules end with a row NULL. */
struct table {
    const char *number;
    const char *title;
    unsigned rows; /* how many the table has in the text; 0: sections have no rows */
    const struct rule *rules;
};

/* Each file's tables, ended by one without number. */
extern const struct table filtering_tables[], output_tables[], msr_tables[], cpuid_tables[],
    packet_tables[], event_tables[], vmx_tables[], scenario_tables[], power_tables[], rtit_tables[],
    rtit_msr_tables[], rtit_packet_tables[];
extern const struct table depends_tables[], generation_tables[], generation_time_tables[],
    generation_event_tables[];
extern const struct table flow_tables[], enable_tables[], topa_tables[], enabling_tables[],
    feature_tables[], compression_tables[], cycle_tables[], sync_tables[], format_tables[],
    block_tables[];
extern const struct table vmx_operation_tables[], vmx_use_tables[], ept_tables[], time_tables[],
    rtit_text_tables[], rtit_ch4_tables[];

/* The tables of the file with this index, and its name; NULL behind the last. */
const struct table *conformance_tables(size_t index, const char **file);

/* Short forms. */
#define OS       VPT_CTL_OS
#define USER     VPT_CTL_USER
#define BRANCHEN VPT_CTL_BRANCHEN
#define TRACED   (OS | USER | BRANCHEN)

/* A processor that traces with these RTIT_CTL bits, at CPL 0, 64-bit, CR3 1000H, IP 401000H. */
struct fake *begin(const char *profile, uint64_t ctl);
struct fake *begin_caps(const struct vpt_caps *caps, uint64_t ctl);
/* The same with range ADDR0 from first to last, used as cfg says. */
struct fake *begin_range(const char *profile, unsigned cfg, uint64_t first, uint64_t last,
                         uint64_t ctl);
/* Compares the packets since begin() or the last look (see tests/reader.h); tracing goes on. */
void so_far_at(struct fake *fake, const char *pattern, const char *file, unsigned line);
#define SO_FAR(fake, pattern) so_far_at(fake, pattern, __FILE__, __LINE__)
/* Stops it and compares the packets since begin(), fake_mark() or SO_FAR(). */
void end_at(struct fake *fake, const char *pattern, const char *file, unsigned line);
#define END(fake, pattern) end_at(fake, pattern, __FILE__, __LINE__)
/* Stops it; what it sends is of no interest. */
void end_quietly(struct fake *fake);
/* The bytes since begin(), fake_mark() or SO_FAR(), which must be these; then as end_quietly(). */
void bytes_at(struct fake *fake, const uint8_t *bytes, size_t count, const char *file,
              unsigned line);
#define BYTES(fake, ...)                                                                           \
    bytes_at(fake, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}),         \
             __FILE__, __LINE__)

/* The harness's processor on a profile; NULL if the profile has no Intel PT. */
struct fake *open_profile(size_t index);

/* WRMSR with IP_ON as its address, and whether RDMSR does not fault. */
enum vpt_result wrmsr(struct fake *fake, uint32_t msr, uint64_t value);
bool reads(struct fake *fake, uint32_t msr);

/* Transfers with one thing said of the state after. */
struct vpt_context at_cpl(uint8_t cpl);
struct vpt_context at_cr3(uint64_t cr3);
struct vpt_context in_mode(enum vpt_exec_mode mode);
void transfer(struct fake *fake, enum vpt_transfer_type type, struct vpt_context after);

/* Where transfer() comes from and goes to. */
#define SOURCE 0x401010ull
#define TARGET 0x402000ull

#endif
