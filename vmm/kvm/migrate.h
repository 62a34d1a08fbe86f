/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest that traces goes on in another process (docs/migration.md).
 */
#ifndef VMM_KVM_MIGRATE_H
#define VMM_KVM_MIGRATE_H

struct vmm;

/* Between two steps: writes everything to options->save_to. 0 or -errno. */
int migrate_out(struct vmm *vmm);
/* Into a machine that was just created. 0 or -errno. */
int migrate_in(struct vmm *vmm);

#endif
