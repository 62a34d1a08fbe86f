/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT as a guest sees it: MSRs and their bits ("Real Time Instruction Trace Programming Reference"
 * v1.05, 3.3).
 */
#ifndef GUEST_RTIT_H
#define GUEST_RTIT_H

#include <stdbool.h>
#include <stdint.h>

#define MSR_RTIT_LIP0           0x760u /* then LIP1, LIP2, LIP3 */
#define MSR_RTIT_OLD_CTL        0x768u
#define MSR_RTIT_OLD_STATUS     0x769u
#define MSR_RTIT_CNTP           0x76bu
#define MSR_RTIT_EVENTS         0x76cu
#define MSR_RTIT_LAST_LIP       0x76eu
#define MSR_RTIT_LAST_CALL_NLIP 0x76fu
#define MSR_RTIT_BASE_ADDR      0x770u
#define MSR_RTIT_LIMIT_MASK     0x771u
#define MSR_RTIT_OFFSET         0x772u
#define MSR_RTIT_OLD_CR3_MATCH  0x777u
#define MSR_RTIT_PKT_CNT        0x77cu
#define MSR_RTIT_TNT_BUFF       0x77du

/* RTIT_CTL, Table 4 */
#define RTIT_TRACE_EN     (1ull << 0)
#define RTIT_CYCLE_ACC    (1ull << 1)
#define RTIT_OS           (1ull << 2)
#define RTIT_USER         (1ull << 3)
#define RTIT_STS_ON_CR3   (1ull << 4)
#define RTIT_CR3EN        (1ull << 7)
#define RTIT_DEST         (1ull << 8)
#define RTIT_MTC_EN       (1ull << 9)
#define RTIT_STS_EN       (1ull << 10)
#define RTIT_CMPRS_RET    (1ull << 11)
#define RTIT_LESS_PKTS    (1ull << 12)
#define RTIT_TRACE_ACTIVE (1ull << 13)

/* RTIT_STATUS (3.3.3) */
#define RTIT_STATUS_FILTEREN  (1ull << 0)
#define RTIT_STATUS_CONTEXTEN (1ull << 1)
#define RTIT_STATUS_TRIGGEREN (1ull << 2)
#define RTIT_STATUS_OVERFLOW  (1ull << 3)

/* RTIT_EVENTS, Tables 6 and 7 */
#define RTIT_EVENTS_OF(filter, stop) ((filter) | (stop) << 3)
#define RTIT_ID_RANGE0               0ull
#define RTIT_ID_RANGE1               1ull
#define RTIT_ID_EITHER               2ull
#define RTIT_ID_OFF                  6ull
#define RTIT_ID_ON                   7ull

#define RTIT_MASK_FORCED 0x3full /* of RTIT_LIMIT_MASK, Table 13 */

/* Whether the processor answers at these MSRs. It has no bit of CPUID. Unlocks them (3.3.1). */
bool rtit_present(void);

#endif
