/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What packets tell of CR3, VMCS and modes, what a PSB+ means, and which state goes on over a PSB
 * (SDM 33.3.7, 33.4.2.7, 33.4.2.8, 33.4.2.15).
 */
#include <string.h>

#include "base/hash.h"
#include "code/image.h"
#include "flow/state.h"

static uint8_t exec_mode(const struct ptd_packet *packet)
{
    if (packet->mode_exec.csl)
        return PTD_MODE_64;
    return packet->mode_exec.csd ? PTD_MODE_32 : PTD_MODE_16;
}

static uint8_t tsx_state(const struct ptd_packet *packet)
{
    return (uint8_t)(packet->mode_tsx.in_tx | packet->mode_tsx.abort << 1);
}

bool ptd_state_fact(const struct ptd_packet *packet, struct flow_fact *fact)
{
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_PIP:
        *fact = (struct flow_fact){PTD_ITEM_CR3, packet->pip.nr, packet->pip.cr3};
        return true;
    case PTD_VMCS:
        *fact = (struct flow_fact){PTD_ITEM_VMCS, false, packet->vmcs};
        return true;
    case PTD_MODE_EXEC:
        *fact = (struct flow_fact){PTD_ITEM_MODE, false, exec_mode(packet)};
        return true;
    case PTD_MODE_TSX:
        *fact = (struct flow_fact){PTD_ITEM_TSX, false, tsx_state(packet)};
        return true;
    default:
        return false;
    }
}

uint32_t ptd_state_fact_bit(uint8_t item_type)
{
    switch ((enum ptd_item_type)item_type) {
    case PTD_ITEM_CR3:
    case PTD_ITEM_VMCS:
    case PTD_ITEM_MODE:
    case PTD_ITEM_TSX:
        return UINT32_C(1) << item_type;
    default:
        return 0;
    }
}

void ptd_state_set(struct flow_state *state, const struct ptd_image *image,
                   const struct flow_fact *fact)
{
    switch ((enum ptd_item_type)fact->type) {
    case PTD_ITEM_CR3:
        state->nr = fact->nr;
        state->cr3 = ptd_image_space(image, state->nr, state->vmcs, fact->value);
        state->told |= ptd_state_fact_bit(PTD_ITEM_CR3);
        break;
    case PTD_ITEM_VMCS:
        state->vmcs = fact->value;
        state->told |= ptd_state_fact_bit(PTD_ITEM_VMCS);
        if (state->nr)
            state->cr3 = ptd_image_space(image, true, state->vmcs, ptd_space_cr3(state->cr3));
        break;
    case PTD_ITEM_MODE:
        state->mode = (uint8_t)fact->value;
        break;
    case PTD_ITEM_TSX:
        state->tsx = (uint8_t)fact->value;
        break;
    default:
        break;
    }
}

static bool knows(const struct flow_state *state, const struct flow_fact *fact)
{
    switch ((enum ptd_item_type)fact->type) {
    case PTD_ITEM_CR3:
        return ptd_space_cr3(state->cr3) == fact->value && state->nr == fact->nr;
    case PTD_ITEM_VMCS:
        return state->vmcs == fact->value;
    case PTD_ITEM_MODE:
        return state->mode == fact->value;
    default:
        return state->tsx == fact->value;
    }
}

bool ptd_state_learn(struct flow_state *state, const struct ptd_image *image,
                     const struct flow_fact *fact)
{
    if (!state->fresh && knows(state, fact))
        return false;
    ptd_state_set(state, image, fact);
    return true;
}

/*
 * A PSB+ has a PIP and a VMCS packet only while ContextEn is 1, and ContextEn can become 1 later
 * without a PIP, by a change of CPL. There is no transaction across that, so InTX is 0 where the
 * PSB+ says nothing of it (33.2.9.2). A MODE.Exec comes with the PSB+ or in front of the TIP.PGE.
 */
void ptd_state_forget(struct flow_state *state, const struct ptd_image *image)
{
    state->fresh = true;
    state->tsx = 0;
    if (state->told & ptd_state_fact_bit(PTD_ITEM_CR3)) {
        state->nr = false;
        state->cr3 = ptd_image_unknown_space(image);
    }
    if (state->told & ptd_state_fact_bit(PTD_ITEM_VMCS))
        state->vmcs = PTD_ANY_VMCS;
}

bool ptd_state_agrees(const struct flow_state *state, const struct flow_state *other, uint32_t told)
{
    const bool tells_cr3 = told & ptd_state_fact_bit(PTD_ITEM_CR3);
    const bool tells_mode = told & ptd_state_fact_bit(PTD_ITEM_MODE);
    const bool tells_tsx = told & ptd_state_fact_bit(PTD_ITEM_TSX);
    const bool tells_vmcs = told & ptd_state_fact_bit(PTD_ITEM_VMCS);

    return state->phase == other->phase && state->at_mov_cr3 == other->at_mov_cr3 &&
           (state->told | told) == (other->told | told) &&
           (tells_cr3 || (state->cr3 == other->cr3 && state->nr == other->nr)) &&
           (tells_mode || state->mode == other->mode) && (tells_tsx || state->tsx == other->tsx) &&
           (tells_vmcs || state->vmcs == other->vmcs);
}

uint64_t ptd_state_fingerprint(const struct flow_state *state)
{
    const uint64_t parts[] = {state->offset, state->phase, state->fresh,      state->at_mov_cr3,
                              state->told,   state->cr3,   state->nr,         state->mode,
                              state->tsx,    state->vmcs,  state->gap.is_open};
    uint64_t hash = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        hash = hash_more(hash, parts[i]);
    return hash;
}

struct flow_state ptd_state_at_psb(const struct flow_state *state, uint64_t offset)
{
    struct flow_state next = *state;

    if (next.phase == FLOW_ENDED)
        next.phase = next.other;
    flow_disable(&next);
    memset(&next.bind, 0, sizeof(next.bind));
    next.tnt_count = 0;
    next.behind_mode = false;
    next.offset = offset;
    return next;
}
