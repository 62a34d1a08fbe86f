/* SPDX-License-Identifier: BSD-3-Clause */
/* What rules about enables and about what packets depend on share. */
#ifndef VPT_CONFORMANCE_ENABLES_H
#define VPT_CONFORMANCE_ENABLES_H

#include "conformance.h"

#define EN_TRIGGER 1u
#define EN_CONTEXT 2u
#define EN_FILTER  4u
#define EN_BRANCH  8u
#define EN_ALL     15u

/*
 * TraceEn is 1, with OS, User, these further RTIT_CTL bits, and just these enables. Without
 * EN_TRIGGER the trace is stopped, without EN_CONTEXT it runs in an enclave, without EN_FILTER
 * the only range is elsewhere.
 */
struct fake *enabled(const struct vpt_caps *caps, uint64_t ctl, unsigned enables);
/* A context that leaves ContextEn as it is. */
struct vpt_context context_as(unsigned enables, uint8_t cpl);
/* Packets of a kind since the mark, those in PSB+ left out unless it is PSBEND. */
unsigned count_kind(struct fake *fake, enum packet_kind kind);

#endif
