/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A capture of one vCPU: what capture.c runs and sidecar.c describes.
 */
#ifndef TARGET_I386_VPT_CAPTURE_H
#define TARGET_I386_VPT_CAPTURE_H

#include "qapi/qapi-types-misc-target.h"
#include "compat.h"
#include "names.h"
#include "vpt-i386.h"

#define X86_VPT_CAPTURE_PROFILE "max"
#define X86_VPT_CAPTURE_PSB     5ull /* PSBFreq: 64 KiB */
#define X86_VPT_CAPTURE_MTC     6ull /* MTCFreq */

/* The files of one trace. Those that are not needed, or not yet, are empty. */
struct X86VptOutputs {
    struct X86VptFile trace, code, names, json, map;
};

struct X86VptWatch {
    struct vpt_cpu model;
    X86CPU *cpu;
    char *name;                   /* of the trace */
    struct X86VptWriter *writer;  /* of the trace */
    struct X86VptRing *ring;      /* or, without a writer */
    struct X86VptOutputs outputs; /* what is left to be written at the end */
    struct X86VptCode *code;      /* or NULL */
    struct X86VptNames *names;    /* or NULL */
    struct X86VptVms *vms;
    uint64_t bytes;
    bool waits; /* was reset; begins anew when the machine goes on */
    QDict *sidecar;
    QDict *host; /* of the map file: images and processes */
};

/* The sidecar of a trace, and what its map file says of the host. */
QDict *x86_vpt_sidecar(const struct X86VptWatch *watch, const VptStart *start);
QDict *x86_vpt_host(const VptImageList *images);

/* Writes the sidecar, with the name of the code log if there is one beside the trace. */
bool x86_vpt_write_sidecar(const struct X86VptWatch *watch, const char *trace,
                           struct X86VptFile *file, Error **errp);
/* Writes the map file if there were VMs. An empty file is opened by its name. */
bool x86_vpt_write_map(const struct X86VptWatch *watch, const char *trace, struct X86VptFile *file,
                       Error **errp);

#endif
