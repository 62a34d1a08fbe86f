/* SPDX-License-Identifier: BSD-3-Clause */
/* The host and its KVM, see host.h. */
#include "hostpt/host.h"
#include "hostpt/event.h"
#include "vpt_caps.h"

#include <errno.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#define EPT_FILE "/sys/module/kvm_intel/parameters/ept"

int host_limit(struct vpt_caps *caps, struct reason *why)
{
    struct pt_event_setting setting;
    const int error = pt_event_setting(PT_EVENT_FOLDER, &setting, why);

    if (error)
        return error;
    caps->leaf14_0_ebx &= ~VPT_CAP_EVENT; /* no packet of ours has a vector */
    if (!setting.has_ptwrite)
        caps->leaf14_0_ebx &= ~VPT_CAP_PTWRITE;
    return 0;
}

/* Without EPT, CR3 in VMX non-root operation is the host's. */
int host_check_kvm(struct reason *why)
{
    FILE *const file = fopen(EPT_FILE, "re");
    const int answer = file ? fgetc(file) : EOF;

    if (file)
        (void)fclose(file);
    if (answer == 'Y' || answer == '1')
        return 0;
    return reason_set(why, -ENOTSUP, "the host's Intel PT needs kvm_intel with ept=1 (%s)",
                      EPT_FILE);
}

int host_tsc_offset(int vcpu, uint64_t *offset, struct reason *why)
{
    const struct kvm_device_attr attr = {
        .group = KVM_VCPU_TSC_CTRL, .attr = KVM_VCPU_TSC_OFFSET, .addr = (uintptr_t)offset};

    if (ioctl(vcpu, KVM_GET_DEVICE_ATTR, &attr) < 0)
        return reason_set(why, -errno,
                          "this KVM does not tell the TSC offset of a vCPU (Linux 5.16 does): %s",
                          strerror(errno));
    return 0;
}
