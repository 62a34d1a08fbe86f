/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The code that a guest was seen to run, and whether it is still the same: what is known of code
 * holds as long as its bytes and its page tables do.
 */
#ifndef VMM_HOSTPT_CODE_WATCH_H
#define VMM_HOSTPT_CODE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a guest's memory is looked at. */
struct guest_memory {
    /*
     * The page of code at an address, in the address space of a CR3: 4 KiB that stay where they
     * are, and whether CPL 3 may run them. NULL: there is none.
     */
    const uint8_t *(*page)(void *owner, uint64_t cr3, uint64_t address, bool *user);
    void *owner;
};

struct code_watch;

/* NULL: no memory. memory is copied. */
struct code_watch *code_watch_new(const struct guest_memory *memory);
void code_watch_free(struct code_watch *watch);
/* Nothing was seen. */
void code_watch_forget(struct code_watch *watch);
/* Code from an address up to another ran. False: there is no room for more, so it is to be
 * forgotten. */
bool code_watch_see(struct code_watch *watch, uint64_t cr3, uint64_t from, uint64_t end);
/* How many pages have other code by now than when it was seen; they are marked. */
size_t code_watch_compare(struct code_watch *watch);
/* It is time to forget, before there is no room. */
bool code_watch_is_crowded(const struct code_watch *watch);
/* Whether one of these addresses is on a page that is marked. */
bool code_watch_changed(const struct code_watch *watch, uint64_t cr3, uint64_t from, uint64_t end);
/* Whether CPL 3 may run the code at an address. False: there is none, or no room. */
bool code_watch_is_user(struct code_watch *watch, uint64_t cr3, uint64_t address, bool *user);

#endif
