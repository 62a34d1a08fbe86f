/* SPDX-License-Identifier: BSD-3-Clause */
/* What the steps of a run stand for: instructions, edges and blocks. */
#include <string.h>

#include "flow/compound.h"
#include "flow/core.h"
#include "flow/graph.h"

const uint32_t *ptd_flow_insns(const struct ptd_flow *flow, size_t *count)
{
    if (count)
        *count = flow->graph ? ptd_graph_node_count(flow->graph) : 0;
    return flow->graph ? flow->graph->insns : NULL;
}

/* Where a block goes on, as far as its code and the step's bit tell. */
static void tell_target(const struct part *part, bool taken, struct ptd_item *block)
{
    switch ((enum ptd_insn_class)part->last_class) {
    case PTD_INSN_RET:
    case PTD_INSN_JMP_INDIRECT:
    case PTD_INSN_CALL_INDIRECT:
    case PTD_INSN_FAR:
    case PTD_INSN_IRET:
    case PTD_INSN_VMENTRY:
        return; /* where the next step begins */
    case PTD_INSN_COND:
        block->taken = taken;
        block->to = taken ? part->target : ptd_part_next_ip(part);
        break;
    case PTD_INSN_JMP_DIRECT:
    case PTD_INSN_CALL_DIRECT:
        block->to = part->target;
        break;
    default:
        block->to = ptd_part_next_ip(part);
        break;
    }
    block->has_to = true;
}

/* NULL: there is no such step. */
static const struct node *node_of(const struct ptd_flow *flow, uint32_t step)
{
    const struct node *node;
    size_t count;

    (void)ptd_flow_insns(flow, &count);
    if (step / NODE_STEPS >= count)
        return NULL;
    node = ptd_node(flow->graph, ptd_step_node(step));
    return node->parts > 0 ? node : NULL;
}

int ptd_step_edges(const struct ptd_flow *flow, uint32_t step, uint32_t edges[PTD_STEP_EDGES])
{
    const struct node *const node = node_of(flow, step);

    if (!node)
        return PTD_E_ARG;
    if (ptd_node_kind(node) == NODE_COMPOUND)
        return (int)ptd_compound_edges(flow->graph, step, edges);
    edges[0] = step;
    return 1;
}

/* Goes over steps until one of them has the block with an index. False: they end before. */
static bool find_edge(const struct graph *graph, uint32_t *step, size_t *index)
{
    uint32_t edges[PTD_STEP_EDGES];
    const unsigned count = ptd_compound_edges(graph, *step, edges);

    for (unsigned i = 0; i < count; i++) {
        const unsigned parts = ptd_node(graph, ptd_step_node(edges[i]))->parts;

        if (*index < parts) {
            *step = edges[i];
            return true;
        }
        *index -= parts;
    }
    return false;
}

int ptd_step_block(const struct ptd_flow *flow, uint32_t step, size_t index, struct ptd_item *block)
{
    const struct node *const node = node_of(flow, step);
    const struct node_info *info;
    const struct part *part;

    if (!node)
        return PTD_E_ARG;
    if (ptd_node_kind(node) == NODE_COMPOUND ? !find_edge(flow->graph, &step, &index)
                                             : index >= node->parts)
        return PTD_END;
    info = ptd_node_info(flow->graph, ptd_step_node(step));
    part = &flow->graph->parts[info->first_part + index];
    memset(block, 0, sizeof(*block));
    block->type = PTD_ITEM_BLOCK;
    block->cr3 = flow->graph->spaces[info->space].cr3;
    block->mode = flow->graph->spaces[info->space].mode;
    block->ip = part->ip;
    block->last_ip = ptd_part_last_ip(part);
    block->insns = part->insns;
    block->last_class = part->last_class;
    block->last_bytes = part->last_bytes;
    tell_target(part, step & 1, block);
    return PTD_OK;
}
