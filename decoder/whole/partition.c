/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A quick pass over a trace: whose each part is (SDM 33.4.2.7 PIP, 33.4.2.15 VMCS, 33.4.2.29 CFE,
 * 33.3.7 PSB+).
 */
#include <stdlib.h>

#include "base/array.h"
#include "pt_packets.h"
#include "ptdec.h"

struct pass {
    const struct ptd_image *image;
    int (*part)(void *owner, const struct ptd_part *part);
    void *owner;
    struct ptd_part now;  /* goes on */
    struct ptd_part next; /* will go on from .begin, when what changes is complete */
    bool changing;
};

static struct ptd_part *change(struct pass *pass, uint64_t offset)
{
    if (!pass->changing) {
        pass->next = pass->now;
        pass->next.begin = offset;
        pass->changing = true;
    }
    return &pass->next;
}

static bool same(const struct ptd_part *a, const struct ptd_part *b)
{
    return a->known == b->known && a->nr == b->nr && a->cr3 == b->cr3 && a->segment == b->segment &&
           (a->vmcs == b->vmcs || !a->nr);
}

static int give(struct pass *pass, uint64_t end)
{
    struct ptd_part *const part = &pass->now;

    if (part->begin == end)
        return PTD_OK;
    part->end = end;
    part->space =
        pass->image ? ptd_image_space(pass->image, part->nr, part->vmcs, part->cr3) : part->cr3;
    return pass->part(pass->owner, part);
}

static int complete(struct pass *pass)
{
    int status = PTD_OK;

    if (!pass->changing)
        return PTD_OK;
    pass->changing = false;
    if (same(&pass->now, &pass->next)) {
        pass->now.vmcs = pass->next.vmcs;
        return PTD_OK;
    }
    status = give(pass, pass->next.begin);
    pass->now = pass->next;
    return status;
}

/* Without a PIP (RTIT_CTL.OS is 0) the address space is not known. */
static void cross(struct pass *pass, const struct ptd_packet *packet, bool nr)
{
    struct ptd_part *part;

    if (pass->now.known && pass->now.nr == nr)
        return;
    part = change(pass, packet->offset);
    part->nr = nr;
    part->cr3 = PTD_ANY_CR3;
    part->known = true;
}

static void read_cfe(struct pass *pass, const struct ptd_packet *packet)
{
    switch (packet->cfe.type) {
    case PT_CFE_VMENTRY:
        cross(pass, packet, true);
        break;
    case PT_CFE_VMEXIT:
    case PT_CFE_VMEXIT_INTR:
        cross(pass, packet, false);
        break;
    default:
        break;
    }
}

static int read_packet(struct pass *pass, const struct ptd_packet *packet)
{
    struct ptd_part *part;
    int status = PTD_OK;

    switch ((enum ptd_packet_type)packet->type) {
    case PTD_PSB:
        status = complete(pass);
        change(pass, packet->offset)->segment = packet->offset;
        break;
    case PTD_PIP:
        part = change(pass, packet->offset);
        part->nr = packet->pip.nr;
        part->cr3 = packet->pip.cr3;
        part->known = true;
        break;
    case PTD_VMCS:
        change(pass, packet->offset)->vmcs = packet->vmcs;
        break;
    case PTD_CFE:
        read_cfe(pass, packet);
        break;
    case PTD_PSBEND:
    case PTD_TIP:
    case PTD_TIP_PGE:
    case PTD_TIP_PGD:
    case PTD_TNT:
    case PTD_OVF:
        status = complete(pass);
        break;
    default:
        break;
    }
    return status;
}

/* Bytes that are no packets, from offset to the next PSB. */
static int lose(struct pass *pass, uint64_t offset)
{
    const int status = complete(pass);

    change(pass, offset)->known = false;
    return status != PTD_OK ? status : complete(pass);
}

int ptd_partition(const void *bytes, size_t len_bytes, const struct ptd_image *image,
                  int (*part)(void *owner, const struct ptd_part *part), void *owner)
{
    struct pass pass = {
        .image = image,
        .part = part,
        .owner = owner,
        .now = {.vmcs = PTD_ANY_VMCS, .cr3 = PTD_ANY_CR3},
    };
    struct ptd_packets packets;
    struct ptd_packet packet;
    int status;

    ptd_packets_init(&packets, bytes, len_bytes);
    (void)ptd_packets_sync(&packets); /* or to the end */
    for (;;) {
        status = ptd_packets_next(&packets, &packet);
        if (status == PTD_END)
            break;
        if (status == PTD_OK) {
            status = read_packet(&pass, &packet);
        } else {
            status = lose(&pass, ptd_packets_offset(&packets));
            (void)ptd_packets_resync(&packets);
        }
        if (status != PTD_OK)
            return status;
    }
    status = complete(&pass);
    return status != PTD_OK ? status : give(&pass, len_bytes);
}

/* ---- Segments ---- */

struct selection {
    bool (*wanted)(void *owner, const struct ptd_part *part);
    void *owner;
    struct ptd_range *ranges;
    size_t count, room;
    uint64_t segment; /* and its end so far, if it is wanted */
    bool taken, any;
};

static int take(struct selection *selection, const struct ptd_part *part)
{
    if (selection->count > 0 && selection->ranges[selection->count - 1].end >= part->segment) {
        selection->ranges[selection->count - 1].end = part->end;
        return PTD_OK;
    }
    if (!array_grow((void **)&selection->ranges, &selection->room, selection->count,
                    sizeof(*selection->ranges)))
        return PTD_E_NOMEM;
    selection->ranges[selection->count++] = (struct ptd_range){part->segment, part->end};
    return PTD_OK;
}

static int select_part(void *owner, const struct ptd_part *part)
{
    struct selection *const selection = owner;

    if (!selection->any || selection->segment != part->segment)
        selection->taken = false;
    selection->any = true;
    selection->segment = part->segment;
    if (!selection->taken && !selection->wanted(selection->owner, part))
        return PTD_OK;
    selection->taken = true;
    return take(selection, part);
}

int ptd_partition_select(const void *bytes, size_t len_bytes, const struct ptd_image *image,
                         bool (*wanted)(void *owner, const struct ptd_part *part), void *owner,
                         struct ptd_range **ranges)
{
    struct selection selection = {.wanted = wanted, .owner = owner};
    const int status = ptd_partition(bytes, len_bytes, image, select_part, &selection);

    if (status != PTD_OK || selection.count > INT32_MAX) {
        free(selection.ranges);
        return status != PTD_OK ? status : PTD_E_NOMEM;
    }
    *ranges = selection.ranges;
    return (int)selection.count;
}
