/* SPDX-License-Identifier: BSD-3-Clause */
/* What a guest of rules.c and its VMM share: ports, and where things are in its memory. */
#ifndef KVM_LINUX_LAYOUT_H
#define KVM_LINUX_LAYOUT_H

#define PORT_DONE   0xf4
#define PORT_FAULT  0xf5
#define PORT_FAILED 0xf6

#define IDT       0xb000
#define CODE      0x10000
#define STACK_TOP 0x20000
#define PMI_COUNT 0x21000
#define SMM_ENTRY 0x38000 /* where a processor begins in SMM, unless it is told another place */

#define MSR_RTIT_CTL 0x570 /* of guest_smm */

/* Of guest_walk. */
#define WALK_FACTOR    0x5851f42d4c957f2d
#define WALK_TERM      0x14057b7f
#define WALK_TAKEN_BIT 40
#define WALK_OTHER_BIT 50

#define PMI_VECTOR 0x40
#define APIC_PAGE  0xfee00000
#define APIC_EOI   0xb0
#define APIC_SVR   0xf0
#define APIC_LVTPC 0x340

#endif
