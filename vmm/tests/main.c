/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the unit tests of vmm/. */
#include "suites.h"
#include "run/run.h"

#include <CUnit/Basic.h>
#include <stdlib.h>
#include <string.h>

#define PTE_P 1u
#define PTE_W 2u
#define PTE_U 4u

struct fake *fake_new(void)
{
    struct fake *fake = aligned_alloc(4096, (sizeof(*fake) + 4095) & ~(size_t)4095);

    if (!fake)
        abort();
    memset(fake, 0, sizeof(*fake));
    fake->options = (struct run_options){.image = "test", .mem_bytes = FAKE_RAM_BYTES};
    fake->vmm.options = &fake->options;
    fake->vmm.result = &fake->result;
    fake->vmm.ram = fake->ram;
    fake->vmm.ram_bytes = FAKE_RAM_BYTES;
    fake->vmm.kvm_fd = fake->vmm.vm_fd = -1;
    fake->vmm.cpu_count = 1;
    fake->cpu = &fake->vmm.cpus[0];
    fake->cpu->vmm = &fake->vmm;
    fake->cpu->record = &fake->result.cpus[0];
    fake->cpu->run = &fake->run;
    fake->cpu->fd = -1;
    *vcpu_regs(fake->cpu) = (struct kvm_regs){.rflags = 2, .rsp = 0x8000};
    *vcpu_sregs(fake->cpu) =
        (struct kvm_sregs){.cr0 = 0x80010001, .cr3 = 0x1000, .cr4 = 0x20, .efer = 0xd00, .cs.l = 1};
    return fake;
}

void fake_free(struct fake *fake)
{
    run_result_free(&fake->result);
    free(fake);
}

void fake_put(struct fake *fake, uint64_t gpa, uint64_t value)
{
    memcpy(fake->ram + gpa, &value, sizeof(value));
}

uint64_t fake_get(const struct fake *fake, uint64_t gpa)
{
    uint64_t value;

    memcpy(&value, fake->ram + gpa, sizeof(value));
    return value;
}

void fake_identity_map(struct fake *fake, uint64_t rights)
{
    const uint64_t all = PTE_P | PTE_W | PTE_U;

    fake_put(fake, 0x1000, 0x2000 | all);
    fake_put(fake, 0x2000, 0x3000 | all);
    fake_put(fake, 0x3000, 0x4000 | all);
    for (uint64_t page = 0; page < FAKE_RAM_BYTES / PAGE_BYTES; page++)
        fake_put(fake, 0x4000 + 8 * page, page * PAGE_BYTES | rights);
}

int main(void)
{
    unsigned failed;

    if (CU_initialize_registry() != CUE_SUCCESS)
        return EXIT_FAILURE;
    add_annotate_suite();
    add_apic_suite();
    add_archive_suite();
    add_calls_suite();
    add_chrome_suite();
    add_between_suite();
    add_kit_suite();
    add_origins_suite();
    add_condition_suite();
    add_escape_suite();
    add_hosts_suite();
    add_image_suite();
    add_flat_code_suite();
    add_jitdump_suite();
    add_linux_suite();
    add_linux_names_suite();
    add_linux_live_suite();
    add_memory_suite();
    add_map_suite();
    add_monitor_suite();
    add_names_log_suite();
    add_note_suite();
    add_outline_suite();
    add_output_suite();
    add_path_suite();
    add_perf_data_suite();
    add_perf_map_suite();
    add_predict_suite();
    add_record_suite();
    add_report_suite();
    add_sandbox_suite();
    add_sidecar_suite();
    add_program_suite();
    add_suggest_suite();
    add_symbols_suite();
    add_hostpt_suite();
    add_tracer_suite();
    add_transfer_suite();
    add_walk_suite();
    add_watch_suite();
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    failed = CU_get_number_of_failures() + CU_get_number_of_suites_failed();
    CU_cleanup_registry();
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
