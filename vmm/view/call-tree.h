/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tree of calls: a node for each function below those that led to it. Its roots are VMs and
 * threads.
 */
#ifndef VMM_CALL_TREE_H
#define VMM_CALL_TREE_H

#include "common/table.h"
#include "view/calls.h"

/* Begins as zeros, but for calls. Nodes have numbers from 1 on; 0: none. */
struct call_tree {
    struct calls *calls; /* whose names are those of nodes */
    struct table nodes;  /* key: the caller's node, function; count and cost: the user's */
    bool no_memory;
};

/* The node of a function below another, made if need be. */
uint64_t call_tree_node(struct call_tree *tree, uint64_t parent, uint32_t function);
/* The node of the thread or the process, that of a guest below its VM. */
uint64_t call_tree_root(struct call_tree *tree, const struct call_stack *stack, uint64_t time);
void call_tree_free(struct call_tree *tree);

#endif
