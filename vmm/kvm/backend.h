/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backend on the KVM of this machine, as the program sees it.
 */
#ifndef VMM_KVM_BACKEND_H
#define VMM_KVM_BACKEND_H

#include "common/reason.h"
#include "run/run.h"
#include "vpt_caps.h"

/* Runs the image on the KVM of this machine. Fills *result, also when it returns an error. */
void kvm_run(const struct run_options *options, const struct vpt_caps *caps,
             struct run_result *result);
/* 0, or -errno and in why what is wrong with the image. */
int image_check(const char *path, char *why, size_t why_bytes);
/* What has to be known of a saved guest before its machine can be made. */
struct saved_guest {
    char profile[64];
    uint64_t mem_bytes;
    unsigned cpus;
};
/* 0, or -errno and in why what is wrong with the file. */
int migrate_peek(const char *path, struct saved_guest *guest, char *why, size_t why_bytes);
/* What the KVM under us can do. */
struct probe {
    bool kvm, msr_exits, gp_injection, nmi, step_supervisor, exceptions;
    enum step_user step_user;
    unsigned steps_per_s;
    char why[256]; /* without kvm: why not */
};
void kvm_probe(struct probe *probe);
/*
 * Of a processor, takes away what the host's Intel PT cannot tell of a guest. 0, or -errno and why:
 * there is none.
 */
int host_pt_limit(struct vpt_caps *caps, struct reason *why);

#endif
