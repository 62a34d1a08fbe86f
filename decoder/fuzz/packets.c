/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzes the packet decoder: any bytes, from the start and from each PSB, to text and back to IPs.
 */
#include <stdlib.h>
#include <string.h>

#include "ptdec.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

/* Packets up to the end or an error; each must lie where it says. */
static void run(struct ptd_packets *packets)
{
    struct ptd_packet packet;
    uint64_t last_ip = 0, ip;
    char text[80];

    for (;;) {
        const uint64_t before = ptd_packets_offset(packets);

        if (ptd_packets_next(packets, &packet) != PTD_OK) {
            if (ptd_packets_offset(packets) != before)
                abort();
            return;
        }
        if (packet.offset != before || packet.size_bytes == 0 ||
            ptd_packets_offset(packets) != before + packet.size_bytes ||
            packet.type >= PTD_PACKET_TYPES)
            abort();
        if (ptd_packet_format(&packet, text, sizeof(text)) < 0)
            abort();
        if (packet.type == PTD_TIP || packet.type == PTD_TIP_PGE || packet.type == PTD_TIP_PGD ||
            packet.type == PTD_FUP)
            (void)ptd_packet_ip(&packet, &last_ip, &ip);
    }
}

static void expect_same(const struct ptd_packet *one, const struct ptd_packet *other)
{
    char want[128], got[128];

    (void)ptd_packet_format(one, want, sizeof(want));
    (void)ptd_packet_format(other, got, sizeof(got));
    if (one->offset != other->offset || one->size_bytes != other->size_bytes ||
        strcmp(want, got) != 0)
        abort();
}

/* What is read where nothing follows, without the table of common packets; reader is in front. */
static void compare_alone(struct ptd_packets reader, const uint8_t *bytes,
                          const struct ptd_packet *packet)
{
    struct ptd_packet again;

    ptd_packets_slide(&reader, bytes, (size_t)packet->offset + packet->size_bytes, 0);
    if (ptd_packets_next(&reader, &again) != PTD_OK)
        abort();
    expect_same(&again, packet);
}

/* In batches they must be the same, as far as there is no error. */
static void compare_batches(const uint8_t *bytes, size_t len_bytes)
{
    struct ptd_packets singly, many;
    struct ptd_packet packet, list[5];
    int status = PTD_OK;

    ptd_packets_init(&singly, bytes, len_bytes);
    ptd_packets_init(&many, bytes, len_bytes);
    while (status == PTD_OK) {
        const size_t count = ptd_packets_read(&many, list, sizeof(list) / sizeof(list[0]), &status);

        for (size_t i = 0; i < count; i++) {
            const struct ptd_packets before = singly;

            if (ptd_packets_next(&singly, &packet) != PTD_OK)
                abort();
            expect_same(&packet, &list[i]);
            compare_alone(before, bytes, &list[i]);
        }
    }
    if (ptd_packets_next(&singly, &packet) != status)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    struct ptd_packets packets;

    compare_batches(bytes, len_bytes);

    ptd_packets_init(&packets, bytes, len_bytes);
    run(&packets);
    (void)ptd_packets_seek(&packets, 0);
    while (ptd_packets_sync(&packets) == PTD_OK) {
        const uint64_t psb = ptd_packets_offset(&packets);

        run(&packets);
        if (ptd_packets_offset(&packets) < psb + 16)
            abort();
    }
    return 0;
}
