/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libipt's packet decoder reads the packets that no program of the other witness makes: type and
 * payload of each. It does not know blocks (BBP, BIP, BEP), CFE and EVD.
 */
#include "harness.h"

#include <intel-pt.h>
#include <string.h>

#define MOST 64

struct found {
    struct pt_packet packet[MOST];
    size_t count;
};

/* Every packet from the mark on. */
static void read_all(struct fake *fake, struct found *found)
{
    struct pt_config config;
    struct pt_packet_decoder *decoder;

    pt_config_init(&config);
    config.begin = fake->tap;
    config.end = fake->tap + fake->tap_len;
    decoder = pt_pkt_alloc_decoder(&config);
    if (!CHECK(decoder && pt_pkt_sync_set(decoder, fake->mark) == 0, "libipt's packet decoder"))
        return;
    found->count = 0;
    while (found->count < MOST &&
           pt_pkt_next(decoder, &found->packet[found->count], sizeof(found->packet[0])) > 0)
        found->count++;
    pt_pkt_free_decoder(decoder);
}

static const struct pt_packet *expect(const struct found *found, size_t i, enum pt_packet_type type)
{
    static const struct pt_packet none;

    if (!CHECK(i < found->count && found->packet[i].type == type, "packet %zu: %d, not %d", i,
               i < found->count ? (int)found->packet[i].type : -1, (int)type))
        return &none;
    return &found->packet[i];
}

static void test_power(void)
{
    const struct vpt_power_entry entry = {
        .ip = 0x401010, .mwait = true, .hints = 0x61, .ext = 1, .hw = true, .state = 0x53};
    const struct vpt_power_exit wake = {
        .last_core_state = 4, .deepest_core_state = 6, .reason = VPT_WAKE_STORE, .core_ratio = 19};
    struct fake *fake = fake_open("max");
    struct found found = {.count = 0};
    const struct pt_packet *p;

    fake_start(fake, VPT_CTL_OS | VPT_CTL_PWREVTEN);
    vpt_power_entry(&fake->cpu, &entry);
    vpt_power_exit(&fake->cpu, &wake);
    fake_stop(fake);
    read_all(fake, &found);
    p = expect(&found, 0, ppt_mwait);
    CHECK(p->payload.mwait.hints == 0x61 && p->payload.mwait.ext == 1, "MWAIT");
    p = expect(&found, 1, ppt_pwre);
    /* libipt 2.0.5 looks for HW in bit 3 of its byte; Table 33-43 has it in bit 7. */
    CHECK(p->payload.pwre.state == 5 && p->payload.pwre.sub_state == 3, "PWRE %u %u",
          p->payload.pwre.state, p->payload.pwre.sub_state);
    p = expect(&found, 2, ppt_exstop);
    CHECK(p->payload.exstop.ip, "EXSTOP");
    p = expect(&found, 3, ppt_fup);
    CHECK(p->payload.ip.ip == 0x401010, "FUP");
    p = expect(&found, 4, ppt_cbr);
    CHECK(p->payload.cbr.ratio == 19, "CBR");
    p = expect(&found, 5, ppt_pwrx);
    CHECK(p->payload.pwrx.last == 4 && p->payload.pwrx.deepest == 6 && p->payload.pwrx.store &&
              !p->payload.pwrx.interrupt && !p->payload.pwrx.autonomous,
          "PWRX %u %u", p->payload.pwrx.last, p->payload.pwrx.deepest);
    CHECK(found.count == 6, "%zu packets", found.count);
    fake_close(fake);
}

static void test_transactions(void)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct fake *fake;
    struct found found = {.count = 0};
    const struct pt_packet *p;

    caps.tsx = true;
    fake = fake_open_caps(&caps);
    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    vpt_tx_begin(&fake->cpu, 0x401010);
    vpt_tx_abort(&fake->cpu, 0x401020, 0x401030);
    fake_stop(fake);
    read_all(fake, &found);
    p = expect(&found, 0, ppt_mode);
    CHECK(p->payload.mode.leaf == pt_mol_tsx && p->payload.mode.bits.tsx.intx &&
              !p->payload.mode.bits.tsx.abrt,
          "begin");
    expect(&found, 1, ppt_fup);
    p = expect(&found, 2, ppt_mode);
    CHECK(p->payload.mode.leaf == pt_mol_tsx && !p->payload.mode.bits.tsx.intx &&
              p->payload.mode.bits.tsx.abrt,
          "abort");
    expect(&found, 3, ppt_fup);
    expect(&found, 4, ppt_tip);
    fake_close(fake);
}

static void test_others(void)
{
    struct fake *fake = fake_open("max");
    struct found found = {.count = 0};
    const struct pt_packet *p;

    fake_start(fake, VPT_CTL_OS | VPT_CTL_PTWEN | VPT_CTL_FUPONPTW);
    vpt_maintenance(&fake->cpu, 0x1020304050607080);
    vpt_ptwrite(&fake->cpu, 0xa1b2c3d4e5f60718, 8, 0x401010);
    fake_stop(fake);
    read_all(fake, &found);
    p = expect(&found, 0, ppt_mnt);
    CHECK(p->payload.mnt.payload == 0x1020304050607080, "MNT");
    p = expect(&found, 1, ppt_ptw);
    CHECK(p->payload.ptw.payload == 0xa1b2c3d4e5f60718 && p->payload.ptw.ip, "PTW");
    p = expect(&found, 2, ppt_fup);
    CHECK(p->payload.ip.ip == 0x401010, "FUP");
    fake_close(fake);
}

static void test_vmx(void)
{
    const struct vpt_vm_entry entry = {.ip = 0x401010,
                                       .next_ip = 0x401013,
                                       .guest_ip = 0x600000,
                                       .guest = {.cr3 = 0x123456789000, .exec_mode = VPT_EXEC_64}};
    struct fake *fake = fake_open("max");
    struct found found = {.count = 0};
    const struct pt_packet *p;

    vpt_vmxon(&fake->cpu, 0x400000);
    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    vpt_vmptrld(&fake->cpu, 0xabcdef000);
    vpt_vm_entry(&fake->cpu, &entry);
    fake_stop(fake);
    read_all(fake, &found);
    p = expect(&found, 0, ppt_vmcs);
    CHECK(p->payload.vmcs.base == 0xabcdef000, "VMCS");
    p = expect(&found, 1, ppt_pip);
    CHECK(p->payload.pip.cr3 == 0x123456789000 && p->payload.pip.nr, "PIP");
    p = expect(&found, 2, ppt_tip);
    CHECK(p->payload.ip.ip == 0x600000, "TIP");
    fake_close(fake);
}

void suite_witness_packets(void)
{
    static const struct test tests[] = {
        {"power events", test_power},
        {"transactions", test_transactions},
        {"MNT, PTW", test_others},
        {"VMCS, PIP.NR", test_vmx},
        {NULL, NULL},
    };

    add_suite("libipt reads the packets", tests);
}
