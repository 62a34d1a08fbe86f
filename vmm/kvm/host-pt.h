/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's Intel PT as the source of events (docs/host-pt.md).
 */
#ifndef VMM_KVM_HOST_PT_H
#define VMM_KVM_HOST_PT_H

struct vmm;

/* Into vmm->host_pt, for the calling thread. 0 or -errno. */
int host_pt_create(struct vmm *vmm);
void host_pt_destroy(struct vmm *vmm);

#endif
