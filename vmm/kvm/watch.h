/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exceptions that nobody foresaw.
 */
#ifndef VMM_KVM_WATCH_H
#define VMM_KVM_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct vcpu;

struct watch {
    uint64_t ip;
    unsigned count;
    struct watched {
        uint64_t address;
        uint8_t *byte, saved, vector;
    } handlers[4];
};

/*
 * Watches the handlers that the instruction at RIP may lead to: of #DB (or else #PF), #GP, #UD and
 * one other. Every watch_begin() needs its watch_end().
 */
void watch_begin(struct vcpu *cpu, bool debug, unsigned other_vector, struct watch *watch);
/* The exception whose handler is about to run; -1: none. */
int watch_end(struct vcpu *cpu, const struct watch *watch);

#endif
