/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of RTIT packets (RTIT v1.05, chapter 4): layouts only, for encoder and decoder.
 */
#ifndef VPT_RTIT_PACKETS_H
#define VPT_RTIT_PACKETS_H

#define RTIT_TNT_FULL  0x40u /* bit 7 is 0; the highest 1 is the stop bit (Figure 4) */
#define RTIT_FUP       0x80u /* bits 7:6 are 10; event in 5:3, Zext in 2, CNT in 1:0 (Figure 8) */
#define RTIT_FUP_MASK  0xc0u
#define RTIT_EVENT_SHR 3
#define RTIT_EVENT_PGE 0u
#define RTIT_EVENT_PGD 1u
#define RTIT_EVENT_OVF 2u
#define RTIT_EVENT_PCC 3u
#define RTIT_EVENT_TIP 6u
#define RTIT_EVENT_FAR 7u
#define RTIT_ZEXT      0x04u
#define RTIT_PSB       0xc0u
#define RTIT_STOP      0xc1u
#define RTIT_PIP       0xc2u /* bit 0 is CR0.PG */
#define RTIT_MTC       0xc4u /* bits 1:0 are RNG */
#define RTIT_STS       0xd0u /* bits 3:0 are ACBR[5:2] */
#define RTIT_PSB_LEN   9u
#define RTIT_PIP_LEN   6u
#define RTIT_MTC_LEN   2u
#define RTIT_STS_LEN   7u
#define RTIT_IP_MAX    7u
#define RTIT_CCP_MAX   3u

#endif
