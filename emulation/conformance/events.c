/* SPDX-License-Identifier: BSD-3-Clause */
/* Event Trace: CFE and EVD packets (33.4.2.29, 33.4.2.30, Table 33-59). */
#include "conformance.h"

#define EVENTS (OS | USER | VPT_CTL_EVENTEN)

static void event(uint64_t ctl, enum vpt_transfer_type type, uint8_t vector, uint8_t cpl,
                  const char *pattern)
{
    struct fake *fake = begin("gracemont", ctl);
    const struct vpt_transfer far = {.type = type,
                                     .vector = vector,
                                     .ip = SOURCE,
                                     .target = TARGET,
                                     .cr2 = 0x7000,
                                     .after = at_cpl(cpl)};

    vpt_transfer(&fake->cpu, &far);
    END(fake, pattern);
}

static struct vpt_vm_exit exit_of(bool by_event)
{
    return (struct vpt_vm_exit){.ip = SOURCE,
                                .reason = by_event ? 0 : 12,
                                .qualification = 0x44,
                                .by_event = by_event,
                                .vector = by_event ? 0x31 : 0,
                                .host_ip = TARGET,
                                .host = at_cpl(0)};
}

static void vm_exit(uint64_t ctl, bool by_event, const char *pattern)
{
    struct fake *fake = begin("gracemont", ctl);
    const struct vpt_vm_exit exit = exit_of(by_event);

    fake->cpu.vmx_on = fake->cpu.vmx_nonroot = true;
    vpt_vm_exit(&fake->cpu, &exit);
    END(fake, pattern);
}

static void vm_entry(uint64_t ctl, const char *pattern)
{
    struct fake *fake = begin("gracemont", ctl);
    const struct vpt_vm_entry entry = {
        .ip = SOURCE, .next_ip = SOURCE + 3, .guest_ip = TARGET, .guest = at_cpl(0)};

    fake->cpu.vmx_on = true;
    vpt_vm_entry(&fake->cpu, &entry);
    END(fake, pattern);
}

/* ---- Table 33-50 ---------------------------------------------------------------------------- */

static void intr(void)
{
    event(EVENTS, VPT_INTERRUPT, 0x31, 0, "CFE(1,31)+ FUP(401010)");
    event(EVENTS, VPT_SOFT_INTERRUPT, 0x80, 0, "CFE(1,80)+ FUP(401010)");
    event(EVENTS, VPT_FAULT, 13, 0, "CFE(1,d)+ FUP(401010)");
    event(EVENTS, VPT_INTERRUPT, 2, 0, "CFE(1,2)+ FUP(401010)");
}
static void iret(void)
{
    event(EVENTS, VPT_IRET, 0x31, 0, "CFE(2,0)+ FUP(401010)");
}
static void smi(void)
{
    struct fake *fake = begin("gracemont", EVENTS);

    vpt_smi(&fake->cpu, SOURCE);
    END(fake, "CFE(3,0)+ FUP(401010)");
}
static void rsm(void)
{
    struct fake *fake = begin("gracemont", EVENTS);
    const struct vpt_context back = at_cpl(0);

    vpt_smi(&fake->cpu, SOURCE);
    fake_mark(fake);
    vpt_rsm(&fake->cpu, true, SOURCE, &back);
    END(fake, "CBR(28) CFE(4,0)");
}
static void sipi(void)
{
    struct fake *fake = begin("gracemont", EVENTS);
    const struct vpt_transfer start = {
        .type = VPT_SIPI, .vector = 0x9f, .target = 0x9f000, .after = in_mode(VPT_EXEC_16)};

    transfer(fake, VPT_INIT_WAIT, in_mode(VPT_EXEC_16));
    fake_mark(fake);
    vpt_transfer(&fake->cpu, &start);
    END(fake, "CFE(5,9f)");
}
static void init(void)
{
    event(EVENTS, VPT_INIT, 0x31, 0, "CFE(6,0)+ FUP(401010)");
    event(EVENTS, VPT_INIT_WAIT, 0x31, 0, "CFE(6,0)+ FUP(401010)");
}
static void vmentry(void)
{
    vm_entry(EVENTS & ~OS, "");
    vm_entry(EVENTS, "CFE(7,0)+ FUP(401010) PIP(1000,NR)");
}
static void vmexit(void)
{
    vm_exit(EVENTS, false, "EVD(1,44) EVD(2,c) CFE(8,0)+ FUP(401010) PIP(1000)");
}
static void vmexit_intr(void)
{
    vm_exit(EVENTS, true, "EVD(1,44) EVD(2,0) CFE(9,31)+ FUP(401010) PIP(1000)");
}
static void shut_down(void)
{
    struct fake *fake = begin("gracemont", EVENTS);

    vpt_shutdown(&fake->cpu, SOURCE);
    END(fake, "CFE(a,0)+ FUP(401010)");
}
static void uintr(void)
{
    event(EVENTS, VPT_UINTR, 0x3e, 3, "CFE(c,3e)+ FUP(401010)");
}
static void uiret(void)
{
    event(EVENTS, VPT_UIRET, 0x3e, 3, "CFE(d,0)+ FUP(401010)");
}

/* Every event that there is, at random: no type but those of the table. */
static void no_type_in(unsigned low, unsigned high)
{
    struct fake *fake = begin("gracemont", EVENTS | BRANCHEN);
    struct reader reader;
    struct packet packet;
    unsigned seen = 0;

    for (unsigned i = 0; i < 256; i++) {
        const struct vpt_vm_exit exit = exit_of(i & 1);

        transfer(fake, (enum vpt_transfer_type)(i % (VPT_SIPI + 1)), at_cpl(i & 16 ? 3 : 0));
        vpt_shutdown(&fake->cpu, SOURCE);
        vpt_vm_exit(&fake->cpu, &exit);
    }
    fake_stop(fake);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet)) {
        seen += packet.kind == PACKET_CFE;
        CHECK(packet.kind != PACKET_CFE || packet.value < low || packet.value > high, "type %u",
              (unsigned)packet.value);
    }
    CHECK(seen > 500, "%u CFE packets", seen);
    fake_close(fake);
}
static void reserved_b(void)
{
    no_type_in(0xb, 0xb);
}
static void reserved_e(void)
{
    no_type_in(0xe, 0x1f);
}

static const struct rule table_50[] = {
    {"INTR", "type 1 with the vector; the FUP is the instruction that is not complete", TEST(intr)},
    {"IRET", "type 2; the FUP is the IRET", TEST(iret)},
    {"SMI", "type 3; the FUP is the next instruction", TEST(smi)},
    {"RSM", "type 4; no FUP", TEST(rsm)},
    {"SIPI", "type 5 with the vector; no FUP", TEST(sipi)},
    {"INIT", "type 6; the FUP is the next instruction", TEST(init)},
    {"VMENTRY", "type 7; the FUP is the VMLAUNCH or VMRESUME", TEST(vmentry)},
    {"VMEXIT", "type 8; the FUP is the guest's RIP", TEST(vmexit)},
    {"VMEXIT_INTR", "type 9 with the vector of the event that caused the exit", TEST(vmexit_intr)},
    {"SHUTDOWN", "type 0AH; the FUP is the instruction that is not complete", TEST(shut_down)},
    {"0BH", "reserved", TEST(reserved_b)},
    {"UINTR", "type 0CH with the vector; the FUP is the next instruction", TEST(uintr)},
    {"UIRET", "type 0DH; the FUP is the UIRET", TEST(uiret)},
    {"0EH to 1FH", "reserved", TEST(reserved_e)},
    {0},
};

/* ---- Table 33-59 ---------------------------------------------------------------------------- */

/* The same with an RFLAGS.IF that the operation changes. */
static void event_if(uint64_t ctl, enum vpt_transfer_type type, bool before, const char *pattern)
{
    struct fake *fake = fake_open("gracemont");
    struct vpt_context ctx = at_cpl(0);

    ctx.interrupts = before;
    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, ctl | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_mark(fake);
    ctx.interrupts = !before;
    transfer(fake, type, ctx);
    END(fake, pattern);
}
static void case_1(void)
{
    event(EVENTS, VPT_IRET, 0, 0, "CFE(2,0)+ FUP(401010)");
    event(OS | VPT_CTL_EVENTEN, VPT_IRET, 0, 3, "CFE(2,0)+ FUP(401010)");
    event_if(EVENTS, VPT_IRET, false, "CFE(2,0)+ FUP(401010) MODE(64+IF)");
    event_if(EVENTS | BRANCHEN, VPT_IRET, false, "CFE(2,0)+ FUP(401010) MODE(64+IF) TIP(402000)");
    event_if(OS | USER, VPT_IRET, false, "");
}
static void case_2(void)
{
    event(USER | VPT_CTL_EVENTEN, VPT_IRET, 0, 3, "CFE(2,0)");
}
static void case_3(void)
{
    event(EVENTS, VPT_INTERRUPT, 0x31, 0, "CFE(1,31)+ FUP(401010)");
    event(OS | VPT_CTL_EVENTEN, VPT_INTERRUPT, 2, 3, "CFE(1,2)+ FUP(401010)");
    event_if(EVENTS, VPT_INTERRUPT, true, "CFE(1,31)+ FUP(401010) MODE(64)");
    event_if(EVENTS, VPT_INTERRUPT, false, "CFE(1,31)+ FUP(401010) MODE(64+IF)");
}
static void case_4(void)
{
    event(EVENTS | BRANCHEN, VPT_INTERRUPT, 0x31, 0, "CFE(1,31) FUP(401010) TIP(402000)");
}
static void case_5(void)
{
    event(EVENTS, VPT_SOFT_INTERRUPT, 0x80, 0, "CFE(1,80)+ FUP(401010)");
    event(EVENTS, VPT_FAULT, 6, 0, "CFE(1,6)+ FUP(401010)");
}
static void case_6(void)
{
    event(EVENTS, VPT_FAULT, 14, 0, "EVD(0,7000) CFE(1,e)+ FUP(401010)");
}
static void case_7(void)
{
    event(USER | VPT_CTL_EVENTEN, VPT_FAULT, 14, 0, "");
    event(USER | VPT_CTL_EVENTEN, VPT_FAULT, 14, 3, "");
}
static void case_12(void)
{
    shut_down();
}
static void case_13(void)
{
    vmexit_intr();
}
static void case_14(void)
{
    vmexit();
}
static void case_15(void)
{
    struct fake *fake = begin("gracemont", USER | VPT_CTL_EVENTEN);
    struct vpt_vm_exit exit = exit_of(false);

    exit.host = at_cpl(3);
    fake->cpu.vmx_on = fake->cpu.vmx_nonroot = true;
    vpt_vm_exit(&fake->cpu, &exit);
    END(fake, "CFE(8,0)");
}
static void aex(uint64_t ctl, bool opt_out, const char *pattern)
{
    struct fake *fake = begin("gracemont", ctl);
    struct vpt_context inside = at_cpl(3);

    inside.enclave = opt_out;
    fake_transfer(fake, VPT_ENCLAVE, SOURCE, TARGET, &inside);
    fake_mark(fake);
    transfer(fake, VPT_INTERRUPT, at_cpl(0));
    END(fake, pattern);
}
static void case_17(void)
{
    aex(USER | VPT_CTL_EVENTEN, true, "");
}
static void case_18(void)
{
    aex(EVENTS, true, "CFE(1,31)");
}
static void case_19(void)
{
    aex(EVENTS, false, "CFE(1,31)+ FUP(401010)");
}
static void case_22(void)
{
    struct fake *fake = begin("gracemont", EVENTS);

    vpt_interrupt_flag(&fake->cpu, true, SOURCE);
    vpt_interrupt_flag(&fake->cpu, true, SOURCE + 1);
    vpt_interrupt_flag(&fake->cpu, false, SOURCE + 2);
    END(fake, "MODE(64+IF) FUP(401010) MODE(64) FUP(401012)");
    /* An interrupt masks, and its handler's STI unmasks: each change is told. */
    event_if(EVENTS, VPT_INTERRUPT, true, "CFE(1,31)+ FUP(401010) MODE(64)");
    fake = begin("gracemont", EVENTS);
    vpt_interrupt_flag(&fake->cpu, true, SOURCE);
    transfer(fake, VPT_INTERRUPT, at_cpl(0));
    fake_mark(fake);
    vpt_interrupt_flag(&fake->cpu, true, TARGET + 4);
    END(fake, "MODE(64+IF) FUP(402004)");
}

static const struct rule table_59[] = {
    {"1 IRET", "in context before: CFE.IRET with IP, FUP", TEST(case_1)},
    {"2 IRET", "into context: CFE.IRET alone", TEST(case_2)},
    {"3 interrupt", "CFE.INTR with IP and vector, FUP", TEST(case_3)},
    {"4 interrupt", "with BranchEn the FUP is shared", TEST(case_4)},
    {"5 software interrupt, fault", "CFE.INTR with IP and vector, FUP", TEST(case_5)},
    {"6 page fault", "EVD.PFA first", TEST(case_6)},
    {"7 page fault", "out of context: none", TEST(case_7)},
    {"10 SMI", "CFE.SMI with IP, FUP", TEST(smi)},
    {"11 RSM", "CFE.RSM without IP", TEST(rsm)},
    {"12 shutdown", "CFE.SHUTDOWN with IP, FUP", TEST(case_12)},
    {"13 VM exit by an event", "EVD.VMXQ, EVD.VMXR, CFE.VMEXIT_INTR with IP, FUP", TEST(case_13)},
    {"14 VM exit", "EVD.VMXQ, EVD.VMXR, CFE.VMEXIT with IP, FUP", TEST(case_14)},
    {"15 VM exit", "into context: CFE.VMEXIT alone", TEST(case_15)},
    {"16 VM entry", "CFE.VMENTRY with IP, FUP", TEST(vmentry)},
    {"17 AEX from an opt-out enclave", "out of context: none", TEST(case_17)},
    {"18 AEX from an opt-out enclave", "into context: CFE.INTR without IP", TEST(case_18)},
    {"19 AEX from a debug enclave", "CFE.INTR with IP, FUP of the AEP", TEST(case_19)},
    {"20 INIT", "CFE.INIT with IP, FUP", TEST(init)},
    {"21 SIPI", "CFE.SIPI without IP", TEST(sipi)},
    {"22 STI, CLI, POPF", "MODE.Exec, FUP", TEST(case_22)},
    {0},
};

const struct table event_tables[] = {
    {"33-50", "CFE types and vectors", 14, table_50},
    {"33-59", "Event Trace", 20, table_59},
    {0},
};
