/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers in packets, from the tables of 33.4.2 alone: emulation/pt_packets.h, which the model and
 * the decoder share, is not looked at.
 */
#ifndef PTD_INVARIANTS_PACKETS_H
#define PTD_INVARIANTS_PACKETS_H

/* CFE types, Table 33-50. */
enum {
    CFE_INTR = 0x1,
    CFE_IRET = 0x2,
    CFE_SMI = 0x3,
    CFE_RSM = 0x4,
    CFE_SIPI = 0x5,
    CFE_INIT = 0x6,
    CFE_VMENTRY = 0x7,
    CFE_VMEXIT = 0x8,
    CFE_VMEXIT_INTR = 0x9,
    CFE_SHUTDOWN = 0xa,
    CFE_UINTR = 0xc,
    CFE_UIRET = 0xd,
};

/* EVD types, Table 33-51. */
enum {
    EVD_PFA = 0,
    EVD_VMXQ = 1,
    EVD_VMXR = 2,
};

/* MODE.Exec, Table 33-26. */
enum {
    MODE_CSL = 1,
    MODE_CSD = 2,
    MODE_IF = 4,
};

#endif
