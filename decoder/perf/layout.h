/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: sizes, numbers of features, and bits, as the kernel and perf lay them out. */
#ifndef PTD_PERF_LAYOUT_H
#define PTD_PERF_LAYOUT_H

#define PERF_MAGIC             "PERFILE2"
#define PERF_HEADER_BYTES      104
#define PERF_PIPE_HEADER_BYTES 16
#define PERF_ATTR_BYTES_MIN    64 /* PERF_ATTR_SIZE_VER0 */
#define PERF_ATTR_BYTES        128
#define PERF_RECORD_HEADER     8
#define PERF_FEATURE_BITS      256
#define PERF_AUXTRACE_INTEL_PT 1

enum perf_feature {
    FEATURE_BUILD_ID = 2,
    FEATURE_CPUID = 9,
    FEATURE_EVENT_DESC = 12,
    FEATURE_AUXTRACE = 18,
    FEATURE_COMPRESSED = 27,
};

/* Bits of sample_type. */
#define SAMPLE_IP             (1u << 0)
#define SAMPLE_TID            (1u << 1)
#define SAMPLE_TIME           (1u << 2)
#define SAMPLE_ADDR           (1u << 3)
#define SAMPLE_READ           (1u << 4)
#define SAMPLE_CALLCHAIN      (1u << 5)
#define SAMPLE_ID             (1u << 6)
#define SAMPLE_CPU            (1u << 7)
#define SAMPLE_PERIOD         (1u << 8)
#define SAMPLE_STREAM_ID      (1u << 9)
#define SAMPLE_RAW            (1u << 10)
#define SAMPLE_BRANCH_STACK   (1u << 11)
#define SAMPLE_REGS_USER      (1u << 12)
#define SAMPLE_STACK_USER     (1u << 13)
#define SAMPLE_WEIGHT         (1u << 14)
#define SAMPLE_DATA_SRC       (1u << 15)
#define SAMPLE_IDENTIFIER     (1u << 16)
#define SAMPLE_TRANSACTION    (1u << 17)
#define SAMPLE_REGS_INTR      (1u << 18)
#define SAMPLE_PHYS_ADDR      (1u << 19)
#define SAMPLE_AUX            (1u << 20)
#define SAMPLE_CGROUP         (1u << 21)
#define SAMPLE_DATA_PAGE_SIZE (1u << 22)
#define SAMPLE_CODE_PAGE_SIZE (1u << 23)
#define SAMPLE_WEIGHT_STRUCT  (1u << 24)

/* Bits of an attr's flags. */
#define ATTR_MMAP           (1ull << 8)
#define ATTR_COMM           (1ull << 9)
#define ATTR_SAMPLE_ID_ALL  (1ull << 18)
#define ATTR_MMAP2          (1ull << 23)
#define ATTR_COMM_EXEC      (1ull << 24)
#define ATTR_CONTEXT_SWITCH (1ull << 26)
#define ATTR_KSYMBOL        (1ull << 29)
#define ATTR_TEXT_POKE      (1ull << 33)

#endif
