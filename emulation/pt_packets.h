/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of Intel PT packets: opcodes, field positions and sizes (SDM 33.4.2).
 *
 * The one header that the encoder (emulation/) and the decoder (decoder/) share. It holds layouts
 * only: neither side learns from it how the other works.
 */
#ifndef VPT_PT_PACKETS_H
#define VPT_PT_PACKETS_H

#include <stdbool.h>
#include <stdint.h>

/* One-byte opcodes. */
#define PT_OPC_PAD  0x00u /* Table 33-39 */
#define PT_OPC_EXT  0x02u /* first byte of every two-byte opcode */
#define PT_OPC_TSC  0x19u /* Table 33-30 */
#define PT_OPC_MTC  0x59u /* Table 33-31 */
#define PT_OPC_MODE 0x99u /* Table 33-25 */
#define PT_OPC_TRIG 0xd9u /* newer than chapter 33 as its tables are cited here */

/* Opcodes that share their byte with a field. */
#define PT_TIP_MASK    0x1fu /* bits 4:0 of an IP packet; bits 7:5 are IPBytes */
#define PT_TIP_PGD     0x01u /* Table 33-21 */
#define PT_TIP         0x0du /* Table 33-17 */
#define PT_TIP_PGE     0x11u /* Table 33-20 */
#define PT_FUP         0x1du /* Table 33-22 */
#define PT_IPBYTES_SHR 5
#define PT_CYC_MASK    0x03u /* Table 33-33: bits 1:0 are 11 */
#define PT_CYC         0x03u
#define PT_CYC_EXP0    0x04u /* byte 0: another byte follows */
#define PT_CYC_EXP     0x01u /* later bytes: another byte follows */
#define PT_CYC_SHR0    3
#define PT_CYC_SHR     1
#define PT_TNT8_MASK   0x01u /* Table 33-16: bit 0 is 0 (and the byte is neither PAD nor EXT) */
#define PT_TNT8_SHR    1
#define PT_BIP_MASK    0x07u /* Table 33-46, inside a block only: bits 2:0 are 100 */
#define PT_BIP         0x04u
#define PT_BIP_ID_SHR  3

/* Whether a byte where a packet begins is a short TNT. */
static inline bool pt_is_tnt8(uint8_t byte)
{
    return !(byte & PT_TNT8_MASK) && byte > PT_OPC_EXT;
}

/*
 * The bytes of IP behind the first byte of a packet that has one (Table 33-18), a nibble for each
 * IPBytes; 0: none, or a reserved encoding.
 */
static inline unsigned pt_ip_payload_bytes(uint8_t byte)
{
    return 0x08066420u >> 4 * (byte >> PT_IPBYTES_SHR) & 15;
}

/* Second byte after PT_OPC_EXT. */
#define PT_EXT_CBR       0x03u /* Table 33-29 */
#define PT_EXT_PTW       0x12u /* Table 33-40; IP in bit 7, PayloadBytes in bits 6:5 */
#define PT_EXT_PTW_MASK  0x1fu
#define PT_EXT_CFE       0x13u /* Table 33-49 */
#define PT_EXT_PWRE      0x22u /* Table 33-43 */
#define PT_EXT_PSBEND    0x23u /* Table 33-37 */
#define PT_EXT_BEP       0x33u /* Table 33-48 */
#define PT_EXT_BEP_IP    0xb3u
#define PT_EXT_PIP       0x43u /* Table 33-24 */
#define PT_EXT_EVD       0x53u /* Table 33-51 */
#define PT_EXT_EXSTOP    0x62u /* Table 33-41 */
#define PT_EXT_EXSTOP_IP 0xe2u
#define PT_EXT_BBP       0x63u /* Table 33-45 */
#define PT_EXT_TMA       0x73u /* Table 33-32 */
#define PT_EXT_PSB       0x82u /* Table 33-36 */
#define PT_EXT_TRACESTOP 0x83u /* Table 33-28 */
#define PT_EXT_PWRX      0xa2u /* Table 33-44 */
#define PT_EXT_TNT64     0xa3u /* Table 33-16, long TNT */
#define PT_EXT_MWAIT     0xc2u /* Table 33-42 */
#define PT_EXT_MNT       0xc3u /* Table 33-38; third byte PT_EXT3_MNT */
#define PT_EXT_VMCS      0xc8u /* Table 33-34 */
#define PT_EXT_OVF       0xf3u /* Table 33-35 */
#define PT_EXT3_MNT      0x88u
#define PT_EXT_IP        0x80u /* bit 7 of PTW, EXSTOP and BEP: a FUP follows */

/* Whole packets, in bytes. */
#define PT_PSB_LEN     16u
#define PT_PSB_REPEAT  8u /* times the pair 02 82 */
#define PT_TSC_LEN     8u
#define PT_MTC_LEN     2u
#define PT_MODE_LEN    2u
#define PT_CBR_LEN     4u
#define PT_PIP_LEN     8u
#define PT_TMA_LEN     7u
#define PT_VMCS_LEN    7u
#define PT_MNT_LEN     11u
#define PT_MWAIT_LEN   10u
#define PT_PWRE_LEN    4u
#define PT_PWRX_LEN    7u
#define PT_BBP_LEN     3u
#define PT_CFE_LEN     4u
#define PT_EVD_LEN     11u
#define PT_TNT64_LEN   8u
#define PT_TRIG_LEN    3u
#define PT_TRIG5_LEN   5u /* with an instruction count */
#define PT_EXT_LEN     2u /* PSBEND, OVF, TraceStop, EXSTOP, BEP */
#define PT_CYC_MAX_LEN 15u
#define PT_PACKET_MAX  16u

/* IPBytes, Table 33-18. */
#define PT_IPB_NONE   0u /* out of context */
#define PT_IPB_UPD16  1u /* last IP[63:16] : payload[15:0] */
#define PT_IPB_UPD32  2u /* last IP[63:32] : payload[31:0] */
#define PT_IPB_SEXT48 3u /* payload[47:0], sign-extended */
#define PT_IPB_UPD48  4u /* last IP[63:48] : payload[47:0] */
#define PT_IPB_FULL   6u /* payload[63:0] */

/* MODE leaves, Tables 33-26 and 33-27. */
#define PT_MODE_LEAF_SHR 5
#define PT_MODE_EXEC     0u
#define PT_MODE_TSX      1u
#define PT_MODE_EXEC_CSL 0x01u
#define PT_MODE_EXEC_CSD 0x02u
#define PT_MODE_EXEC_IF  0x04u
#define PT_MODE_TSX_INTX 0x01u
#define PT_MODE_TSX_ABRT 0x02u

/* PIP: byte 2 bit 0 is NR; CR3[51:5] begins at bit 1 of byte 2. */
#define PT_PIP_NR      0x01u
#define PT_PIP_CR3_SHR 5
#define PT_PIP_SHL     1

/* Block types and sizes, Table 33-45. */
#define PT_BBP_SZ4       0x80u /* items of 4 bytes; else 8 */
#define PT_BBP_TYPE_MASK 0x1fu

/* CFE types, Table 33-50. */
#define PT_CFE_IP          0x80u
#define PT_CFE_TYPE_MASK   0x1fu
#define PT_CFE_INTR        0x01u
#define PT_CFE_IRET        0x02u
#define PT_CFE_SMI         0x03u
#define PT_CFE_RSM         0x04u
#define PT_CFE_SIPI        0x05u
#define PT_CFE_INIT        0x06u
#define PT_CFE_VMENTRY     0x07u
#define PT_CFE_VMEXIT      0x08u
#define PT_CFE_VMEXIT_INTR 0x09u
#define PT_CFE_SHUTDOWN    0x0au
#define PT_CFE_UINTR       0x0cu
#define PT_CFE_UIRET       0x0du
#define PT_CFE_SWINT       0x0eu /* newer than the table: a software interrupt, by FRED, */
#define PT_CFE_SYSCALL     0x0fu /* and SYSCALL */

/* EVD types, Table 33-51. */
#define PT_EVD_TYPE_MASK 0x3fu
#define PT_EVD_PFA       0u
#define PT_EVD_VMXQ      1u
#define PT_EVD_VMXR      2u

#define PT_PWRE_HW 0x80u

/* TRIG: a byte of flags, a byte with one bit a trigger, and the count if there is one. */
#define PT_TRIG_IP    0x80u /* a FUP follows */
#define PT_TRIG_ICNTV 0x40u /* 16 bits of instruction count follow */
#define PT_TRIG_MULT  0x20u /* other triggers fired that are not told */

#endif
