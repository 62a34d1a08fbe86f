/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of the host's own.
 */
#ifndef KVM_LINUX_HOST_H
#define KVM_LINUX_HOST_H

/*
 * An event of Intel PT for this thread, which does not run yet. As long as it is there, Linux looks
 * whose the interrupts of a trace are. -1: errno says why there is none.
 */
int host_event(void);

#endif
