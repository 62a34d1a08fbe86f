/* SPDX-License-Identifier: BSD-3-Clause */
/* The suites of unit tests of vmm/, and a machine without KVM for them. */
#ifndef VMM_TESTS_SUITES_H
#define VMM_TESTS_SUITES_H

#include "kvm/machine.h"
#include "kvm/memory.h"
#include "run/run.h"

#define FAKE_RAM_BYTES (1u << 20)

/* Guest memory, registers and a result, but no KVM: enough for everything that is not an ioctl. */
struct fake {
    struct vmm vmm;
    struct vcpu *cpu; /* its only one */
    struct run_options options;
    struct run_result result;
    struct kvm_run run;
    _Alignas(4096) uint8_t ram[FAKE_RAM_BYTES];
};

/* In 64-bit mode at CPL 0, NX and WP on, CR3 0x1000, RSP 0x8000; memory is zero. */
struct fake *fake_new(void);
void fake_free(struct fake *fake);
/* Stores a little-endian 64-bit word at a guest-physical address. */
void fake_put(struct fake *fake, uint64_t gpa, uint64_t value);
uint64_t fake_get(const struct fake *fake, uint64_t gpa);
/* Maps the whole of memory one to one with 4 KiB pages, with these rights; tables from 0x1000. */
void fake_identity_map(struct fake *fake, uint64_t rights);

void add_annotate_suite(void);
void add_apic_suite(void);
void add_archive_suite(void);
void add_calls_suite(void);
void add_chrome_suite(void);
void add_between_suite(void);
void add_kit_suite(void);
void add_origins_suite(void);
void add_condition_suite(void);
void add_escape_suite(void);
void add_hosts_suite(void);
void add_hostpt_suite(void);
void add_image_suite(void);
void add_flat_code_suite(void);
void add_jitdump_suite(void);
void add_linux_suite(void);
void add_linux_names_suite(void);
void add_linux_live_suite(void);
void add_memory_suite(void);
void add_map_suite(void);
void add_monitor_suite(void);
void add_names_log_suite(void);
void add_note_suite(void);
void add_outline_suite(void);
void add_output_suite(void);
void add_path_suite(void);
void add_perf_data_suite(void);
void add_perf_map_suite(void);
void add_predict_suite(void);
void add_record_suite(void);
void add_report_suite(void);
void add_sandbox_suite(void);
void add_sidecar_suite(void);
void add_program_suite(void);
void add_suggest_suite(void);
void add_symbols_suite(void);
void add_tracer_suite(void);
void add_transfer_suite(void);
void add_walk_suite(void);
void add_watch_suite(void);

#endif
