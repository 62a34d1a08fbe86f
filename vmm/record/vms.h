/* SPDX-License-Identifier: BSD-3-Clause */
/* The VMs of this host: their processes, and which of their threads are virtual processors. */
#ifndef VMM_RECORD_VMS_H
#define VMM_RECORD_VMS_H

#include "common/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VM_NAME_BYTES 128

struct json_object;

/* What is known of a virtual processor from a time on. */
struct vm_cpu {
    unsigned number;
    uint32_t tid;
    bool has_tsc; /* the two below are known; KVM tells them in debugfs */
    uint64_t tsc_offset;
    uint64_t tsc_multiplier; /* 48 fractional bits; 0: none */
    uint64_t from;           /* the host's TSC; 0: since before it was looked at first */
    bool is_seen;            /* a look found that the offset, and nothing else, has changed */
};

struct vm {
    uint32_t pid;
    uint64_t started; /* as /proc has it: tells a process from another one of its number */
    char key[32];     /* what KVM calls it: PID-FD */
    char name[VM_NAME_BYTES];
    char uuid[40];
    bool is_there;       /* was seen by the last look */
    struct vm_cpu *cpus; /* of one thread, a later one takes the place of those in front of it */
    size_t cpu_count, cpu_room;
    struct json_object *told; /* members that the map has besides; NULL: none */
};

/* Begins as zeros but for the root. */
struct vms {
    const char *root; /* the folder with /proc and /sys; "" is that of this machine */
    struct vm *list;  /* those that ended, too */
    size_t count, room;
    bool no_debugfs; /* KVM's part of it could not be read: offsets of TSCs are not known */
    bool looked;     /* at least once */
    bool is_unsure;  /* an offset is that of one of several VMs of a process */
};

/*
 * Looks at the machine again: new VMs and processors are added, and what has changed of one is told
 * from this time (the host's TSC) on. *changed: something is new. 0, or -errno and the reason.
 */
int vms_look(struct vms *vms, uint64_t tsc, bool *changed, struct reason *why);
/* The VM of this name, UUID or pid; NULL: there is none. */
const struct vm *vms_find(const struct vms *vms, const char *name);
/*
 * A change that somebody else tells of: in this thread of a process, a processor got another TSC
 * offset at a time. False: no memory.
 */
bool vms_offset(struct vms *vms, uint32_t pid, uint32_t tid, unsigned number, uint64_t offset,
                uint64_t tsc);
/*
 * All changes of offsets were told, so that those which looks found are not needed: a look knows
 * their times less well. Nothing is done if it was not clear of which VM one was.
 */
void vms_prefer_told(struct vms *vms);
/* Members of a JSON object that the map shall have of a VM besides; it is taken over. */
void vms_tell(struct vm *vm, struct json_object *told);
/* Of how many VMs nothing was told. */
size_t vms_untold(const struct vms *vms);
/* How many virtual processors have been seen. */
size_t vms_cpus(const struct vms *vms);
/* Writes them as a map file (docs/decoder.md), complete or not at all. 0, or -errno and the reason.
 */
int vms_write(const struct vms *vms, const char *path, struct reason *why);
void vms_free(struct vms *vms);

#endif
