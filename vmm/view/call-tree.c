/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes of the tree of calls. */
#include "view/call-tree.h"

#include <stdio.h>
#include <stdlib.h>

/* A sum's place in the table is its name. */
uint64_t call_tree_node(struct call_tree *tree, uint64_t parent, uint32_t function)
{
    struct sum *const sum = table_at(&tree->nodes, parent, function, 0);

    if (!sum) {
        tree->no_memory = true;
        return 0;
    }
    return (uint64_t)(sum - tree->nodes.sums) + 1;
}

/* The node of something else below another; its name may be NULL for no memory. */
static uint64_t named_node(struct call_tree *tree, uint64_t parent, const char *text)
{
    const uint32_t name = text ? names_add(&tree->calls->names, text) : UINT32_MAX;

    if (name == UINT32_MAX) {
        tree->no_memory = true;
        return 0;
    }
    return call_tree_node(tree, parent, name);
}

uint64_t call_tree_root(struct call_tree *tree, const struct call_stack *stack, uint64_t time)
{
    const struct out_who who = calls_who(tree->calls, stack, time);
    uint64_t vm = 0;
    char *name;

    if (who.vm) {
        if (asprintf(&name, "VM %s", who.vm) < 0)
            name = NULL;
        vm = named_node(tree, 0, name);
        free(name);
    }
    return named_node(tree, vm, who.comm);
}

void call_tree_free(struct call_tree *tree)
{
    table_free(&tree->nodes);
}
