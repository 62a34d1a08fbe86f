/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of rules: see rules.h. */
#include "kit/rules.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static const struct kit_rule by_section[] = {
    {"33.2.1.1",
     "A direct conditional branch gives one TNT bit; a direct jump or call gives none."},
    {"33.2.1.2", "An indirect branch, and a RET that is not compressed, gives a TIP with its "
                 "target."},
    {"33.2.2", "PTWRITE gives a PTW packet with its operand, and a FUP if FUPonPTW is 1."},
    {"33.2.3", "With PwrEvtEn, MWAIT and changes of the power state give MWAIT, PWRE, EXSTOP and "
               "PWRX."},
    {"33.2.4", "With EventEn, asynchronous events give CFE and EVD packets, and MODE.Exec tells of "
               "RFLAGS.IF."},
    {"33.2.5", "Filters of CPL, CR3 and IP say when packets are generated."},
    {"33.2.5.1", "OS and User say at which CPL ContextEn may be 1; a change of CPL toggles it."},
    {"33.2.5.2", "With CR3Filter, ContextEn is 1 only while CR3 equals IA32_RTIT_CR3_MATCH."},
    {"33.2.5.3", "With ADDRn_CFG, FilterEn is 1 inside of the ranges; a TraceStop range ends the "
                 "trace."},
    {"33.2.6", "PacketEn is TriggerEn, ContextEn, FilterEn and BranchEn taken together."},
    {"33.2.6.2", "TriggerEn follows TraceEn, and is 0 after an operational error or a TraceStop."},
    {"33.2.6.3", "ContextEn follows CPL, CR3 and what the hypervisor conceals."},
    {"33.2.6.4", "Without BranchEn there are no TNT, TIP and FUP of branches, and other packets go "
                 "on."},
    {"33.2.6.5", "FilterEn is 1 where no range is configured; what changes it is a branch."},
    {"33.2.7", "Packets go to physical memory, by a single range or by ToPA."},
    {"33.2.7.1", "A single range is a ring; an illegal base or mask is an operational error."},
    {"33.2.7.2", "ToPA: entries by size, END, INT and STOP; a full region with INT pends a PMI, "
                 "with STOP it ends the trace, and an illegal table is an operational error."},
    {"33.2.7.4", "Output to restricted memory (APIC page, SMRR) is dropped or is an error, and "
                 "harms nothing."},
    {"33.2.8", "The MSRs of the trace exist if, and only if, CPUID enumerates them."},
    {"33.2.8.1",
     "An MSR that CPUID does not enumerate gives #GP; while TraceEn is 1, writes of the "
     "configuration give #GP."},
    {"33.2.8.2", "A WRMSR of IA32_RTIT_CTL that sets a reserved bit or a value that is not "
                 "enumerated gives #GP."},
    {"33.2.8.3", "While TraceEn is 1, a WRMSR of IA32_RTIT_CTL may change nothing but TraceEn; "
                 "enabling takes the output from where IA32_RTIT_OUTPUT_MASK_PTRS says."},
    {"33.2.8.4",
     "IA32_RTIT_STATUS shows enables and errors; some of its bits ignore writes, others "
     "give #GP if reserved."},
    {"33.2.8.5", "IA32_RTIT_ADDRn_A and _B hold linear addresses; one that is not canonical gives "
                 "#GP."},
    {"33.2.8.6", "IA32_RTIT_CR3_MATCH: bits 4:0 are reserved and give #GP."},
    {"33.2.8.8", "IA32_RTIT_OUTPUT_MASK_PTRS: the low 7 bits are 1, and the rest says where output "
                 "goes on."},
    {"33.2.9.1", "Transactions give MODE.TSX packets; an abort shows where it went."},
    {"33.2.9.3", "SMM is entered with TraceEn 0, which RSM brings back."},
    {"33.3.1", "CPUID.7.0:EBX[25] says that there is Intel PT, and leaf 14H what it has."},
    {"33.3.2.1", "A trace begins with a PSB+ and, if PacketEn is 1, with a TIP.PGE."},
    {"33.3.3", "When TraceEn is cleared, all packets are on their way, and a fence makes them "
               "visible in memory."},
    {"33.3.5.2", "XSAVES and XRSTORS switch the MSRs of the trace as state component 8."},
    {"33.3.6", "With CYCEn, CYC packets tell core clock cycles in front of the packets that they "
               "belong to."},
    {"33.3.6.3", "CycThresh says how many cycles there are at least between CYC packets."},
    {"33.3.7", "A PSB+ comes first and by PSBFreq, with the state of the processor, and ends with "
               "a PSBEND."},
    {"33.3.8",
     "An overflow of the internal buffer gives an OVF, and then packets that say where it "
     "goes on."},
    {"33.3.9", "With DisTNT there are no TNTs, and RETs are not compressed."},
    {"33.3.10", "An operational error sets IA32_RTIT_STATUS.Error and ends packets, and nothing "
                "else."},
    {"33.4", "Packets are as this section lays them out, and nothing else is in the buffer."},
    {"33.4.1", "Packets that belong together stand together, and nothing comes between."},
    {"33.4.2", "Packets are as this section lays them out, and nothing else is in the buffer."},
    {"33.4.2.1", "A TNT holds the results of branches, the oldest in the highest bit."},
    {"33.4.2.2", "A TIP names a target; its IP is compressed against the last IP, and a RET to "
                 "behind its CALL may be a TNT bit instead."},
    {"33.4.2.3", "A TIP may come behind TNT bits of later branches, as far as this section "
                 "allows."},
    {"33.4.2.4", "A TIP.PGE says where PacketEn became 1."},
    {"33.4.2.5", "A TIP.PGD says that PacketEn became 0, with an IP where the filter did it."},
    {"33.4.2.7", "A PIP tells a new CR3, and by NR whether it is that of a VM."},
    {"33.4.2.8", "MODE.Exec tells the mode of execution; MODE.TSX tells of transactions."},
    {"33.4.2.9", "A TraceStop range ends the trace with a TraceSTOP packet behind the TIP.PGD."},
    {"33.4.2.10", "A CBR tells the ratio of the core's clock to the bus's."},
    {"33.4.2.11", "A TSC packet has the low 7 bytes of the time stamp counter."},
    {"33.4.2.12", "An MTC has 8 bits of the crystal clock, at the period that MTCFreq says."},
    {"33.4.2.13", "A TMA joins TSC and MTC, and follows a TSC packet if MTCs are on."},
    {"33.4.2.14", "A CYC counts the core's cycles since the last one."},
    {"33.4.2.15", "A VMCS packet names the VMCS pointer at VMPTRLD and in PSB+, unless it is "
                  "concealed."},
    {"33.4.2.17", "A PSB is 16 bytes that no other packet holds, and sets the last IP to 0."},
    {"33.4.2.18", "A PSBEND ends what stands behind a PSB."},
    {"33.4.2.20", "PADs may stand between packets, and mean nothing."},
    {"33.4.2.21", "A PTW has 4 or 8 bytes of an operand, and says whether a FUP follows."},
    {"33.4.2.29",
     "A CFE tells the kind of an event and its vector, and by its IP bit whether a FUP "
     "follows."},
    {"33.5", "IA32_VMX_MISC[14] says whether Intel PT works in VMX operation; if not, VMXON clears "
             "TraceEn, and setting it gives #GP until VMXOFF."},
    {"33.5.1", "The conceal controls keep VMX out of packets; PIP.NR, VMCS and PIPs of transitions "
               "follow them."},
    {"33.5.2", "A VMM says by controls and MSR areas whose trace goes on over VM transitions."},
    {"33.5.2.1", "In a trace of the whole system, transitions give PIPs with NR and TIPs, and "
                 "nothing is lost."},
    {"33.5.2.2", "IA32_RTIT_CTL can be loaded at VM entry and cleared at VM exit, so that a guest "
                 "alone is traced; output may go through EPT."},
    {"33.5.2.3", "What a VMM emulates for a guest that traces has to leave the packets that the "
                 "guest expects."},
    {"33.8.3",
     "TSC, crystal clock and core clock are related by CPUID leaf 15H and the bus ratio."},
    {"33.8.3.1", "TSC, crystal clock and core clock are related by CPUID leaf 15H and the bus "
                 "ratio."},
    {"Table 33-1",
     "Which instructions of COFI are of which type, and what packet each type gives."},
    {"Table 33-2", "The example of packets where code enters and leaves an IP range."},
    {"Table 33-3", "What END, INT and STOP of a ToPA entry do when its region is full."},
    {"Table 33-6", "Which bits of IA32_RTIT_CTL there are, and by which bit of CPUID; others are "
                   "reserved and give #GP."},
    {"Table 33-7", "Which bits of IA32_RTIT_STATUS there are, and what a write of each does."},
    {"Table 33-8", "IA32_RTIT_OUTPUT_BASE: bits below 7 and above MAXPHYADDR are reserved."},
    {"Table 33-9",
     "IA32_RTIT_OUTPUT_MASK_PTRS: mask or offset of the table in the low half, offset "
     "of output in the high one."},
    {"Table 33-10", "Which packets transactions give, case by case."},
    {"Table 33-11", "CPUID leaf 14H, subleaf 0: each bit and what it promises."},
    {"Table 33-12", "CPUID leaf 14H, subleaf 1: ranges, MTC periods, CYC thresholds, PSB "
                    "frequencies; a value that is not listed gives #GP in IA32_RTIT_CTL."},
    {"Table 33-14", "Which packets stand together for one event."},
    {"Table 33-16", "The layout of TNT packets, short and long."},
    {"Table 33-18", "How the IP of a packet is compressed against the last IP, by IPBytes."},
    {"Table 33-21", "When TIP.PGD has an IP, and when it has none."},
    {"Table 33-23", "What IP a FUP has, event by event."},
    {"Table 33-26", "The layout of MODE.Exec, and when there is one."},
    {"Table 33-28", "The layout of a TraceStop packet, and when there is one."},
    {"Table 33-36", "The layout of a PSB, and what state follows it."},
    {"Table 33-49", "The layout of a CFE, and which events give one."},
    {"Table 33-50", "The types of CFE, and which of them have a vector."},
    {"Table 33-51", "Which types of EVD there are."},
    {"Table 33-52", "The VMX controls of Intel PT, and what each does."},
    {"Table 33-53", "Which packets VM entries and exits give, by the settings of the conceal "
                    "controls."},
    {"Table 33-54", "Which packets a VM entry that fails gives."},
    {"Table 33-55", "Which packets each operation gives while PacketEn stays 1."},
    {"Table 33-56", "Which packets an operation gives that turns PacketEn on or off."},
    {"Table 33-57", "Which packets power events give (its title names PTWRITE)."},
    {"Table 33-58", "Which packets PTWRITE gives (its title names power events)."},
    {"Table 33-59", "Which packets events give with Event Trace, and in which order."},
    {"appendix A", "What the VMX capability MSRs say, and what has to hold among them."},
    {"A.1", "IA32_VMX_BASIC."},
    {"A.2", "Reserved controls have a default setting, and the true MSRs may say more."},
    {"A.3 to A.5", "A control is reported as one that may be 0, may be 1, or both."},
    {"A.6", "IA32_VMX_MISC."},
    {"A.7", "IA32_VMX_CR0_FIXED and CR4_FIXED: which bits are fixed in VMX operation."},
    {"A.8", "IA32_VMX_VMCS_ENUM covers every field that there is."},
    {"volume 4", "The MSR exists and behaves as volume 4 of the SDM lists it."},
};

/* In the order in which they are tried. */
static const struct kit_rule of_vmx[] = {
    {"VMX: VMXON", "When VMXON and VMXOFF work, and what gives #UD, #GP or VMfailInvalid."},
    {"VMX: VMX", "When VMXON and VMXOFF work, and what gives #UD, #GP or VMfailInvalid."},
    {"VMX: VMPTR", "Which addresses VMPTRLD takes, and what VMPTRST tells."},
    {"VMX: VMCLEAR", "What VMCLEAR takes, and that it ends the launch state."},
    {"VMX: VMREAD", "Each field exists, has its width, and keeps what was written."},
    {"VMX: VMWRITE", "Each field exists, has its width, and keeps what was written."},
    {"VMX: INVEPT", "INVEPT: its types, its descriptor, and what it forgets."},
    {"VMX: INVVPID", "INVVPID: its types, its descriptor, and what it forgets."},
    {"VMX: guest", "Checks of the guest-state area: a VM entry that breaks one fails late, with "
                   "exit reason 33."},
    {"VMX: host",
     "Checks of the host-state area: a VM entry that breaks one fails with VM-instruction "
     "error 8."},
    {"VMX: pin-based",
     "Checks of the controls: a VM entry that breaks one fails with VM-instruction "
     "error 7."},
    {"VMX: primary processor-based",
     "Checks of the controls: a VM entry that breaks one fails with "
     "VM-instruction error 7."},
    {"VMX: secondary processor-based", "Checks of the controls: a VM entry that breaks one fails "
                                       "with VM-instruction error 7."},
    {"VMX: VM-entry controls", "Checks of the controls: a VM entry that breaks one fails with "
                               "VM-instruction error 7."},
    {"VMX: VM-exit controls", "Checks of the controls: a VM entry that breaks one fails with "
                              "VM-instruction error 7."},
    {"VMX: VM-entry MSR-load", "MSRs loaded at VM entry: what is refused ends it with exit reason "
                               "34."},
    {"VMX: VM-exit MSR", "MSR areas of VM exits: what is stored and loaded, and what ends in a VMX "
                         "abort."},
    {"VMX: EPT", "Translation by EPT: which entries are violations or misconfigurations, and what "
                 "the exit tells."},
    {"VMX: injection", "Event injection: which events may be, and how the guest takes them."},
    {"VMX: an injected", "Event injection: which events may be, and how the guest takes them."},
    {"VMX: PDPTE", "PDPTEs of a PAE guest are loaded and checked."},
    {"VMX: PT", "What Intel PT does in VMX operation (33.5)."},
};

static bool stands_at(const char *at, const char *name)
{
    const size_t len = strlen(name);

    return strncmp(at, name, len) == 0 && !isdigit((unsigned char)at[len]) &&
           !(at[len] == '.' && isdigit((unsigned char)at[len + 1]));
}

/* "33-55" without the word stands in lists of tables; the rule at `at` of a name. */
static const struct kit_rule *rule_at(const char *at)
{
    for (size_t i = 0; i < sizeof(by_section) / sizeof(by_section[0]); i++) {
        const char *const name = by_section[i].name;
        const char *const number = strncmp(name, "Table ", 6) == 0 ? name + 6 : name;

        if (stands_at(at, number))
            return &by_section[i];
    }
    return NULL;
}

const struct kit_rule *kit_rule_of(const char *suite, const char *case_name)
{
    for (const char *at = case_name; *at; at++) {
        const bool begins = at == case_name || !(isalnum((unsigned char)at[-1]) || at[-1] == '.');
        const struct kit_rule *const rule = begins ? rule_at(at) : NULL;

        if (rule)
            return rule;
    }
    for (size_t i = 0; strcmp(suite, "vmx-tests") == 0 && i < sizeof(of_vmx) / sizeof(of_vmx[0]);
         i++) {
        const char *const subject = of_vmx[i].name + strlen("VMX: ");

        if (strncmp(case_name, subject, strlen(subject)) == 0)
            return &of_vmx[i];
    }
    return NULL;
}

const struct kit_rule *kit_rule(size_t index)
{
    const size_t sections = sizeof(by_section) / sizeof(by_section[0]);

    if (index < sections)
        return &by_section[index];
    index -= sections;
    return index < sizeof(of_vmx) / sizeof(of_vmx[0]) ? &of_vmx[index] : NULL;
}
