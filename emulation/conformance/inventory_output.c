/* SPDX-License-Identifier: BSD-3-Clause */
/* The inventory of 33.2.7 to 33.2.9: output, MSRs, other features of the processor. */
#include "inventory.h"

#define FREEZE "the model has no performance counters and no LBRs"

/* ---- 33.2.7 --------------------------------------------------------------------------------- */

static const struct demand output[] = {
    {"2.1", "ToPA and FabricEn choose the scheme", RULE(topa, schemes)},
    {"3.1", "a contiguous region", RULE(topa, single_address)},
    {"4.1", "regions of several sizes", RULE(output, region_size)},
    {"4.2", "linked by tables", RULE(topa, table_any_length)},
    {"4.3", "stores bypass caches", NONE(HARDWARE)},
    {"5.1", "the platform's transport", RULE(topa, schemes)},
    {"6.1", "caches are bypassed by default", NONE(HARDWARE)},
    {"6.3", "no MTRR makes the output UC", NONE(SOFTWARE)},
    {"7.1", "no fixed time to reach memory", NONE(PERMITS)},
    {"7.2", "clearing TraceEn flushes everything", RULE(enabling, disable_flush)},
    {0},
};
static const struct demand single[] = {
    {"1.1", "to the range of base and mask", RULE(topa, single_address)},
    {"1.2", "MASK_PTRS holds the write pointer", RULE(topa, single_pointer)},
    {"1.3", "it is circular", RULE(topa, single_pointer)},
    {"4.2", "a device gets the writes", RULE(topa, single_mmio)},
    {"4.3", "of which none overwrites another", RULE(topa, single_mmio)},
    {"6.1", "how the address is made", RULE(topa, single_address)},
    {0},
};
static const struct demand single_errors[] = {
    {"1.1", "a bad base or mask is an error, and disables tracing", RULE(topa, single_errors)},
    {"3.1", "a 0 below the mask's highest 1", RULE(topa, single_errors)},
    {"5.1", "base and mask share a bit", RULE(topa, single_errors)},
    {"7.1", "the offset is beyond the mask", RULE(topa, single_errors)},
    {"8.1", "restricted memory is an error too", RULE(topa, single_restricted)},
    {0},
};
static const struct demand topa[] = {
    {"1.1", "used with ToPA = 1 and FabricEn = 0", RULE(topa, schemes)},
    {"1.3", "an entry has attributes, pointer and size", RULE(output, region_base)},
    {"1.4", "the last entry may name the next table", RULE(topa, table_any_length)},
    {"1.5", "the same table or another", RULE(output, region_end)},
    {"1.6", "at any entry", RULE(topa, table_any_length)},
    {"2.1", "all regions are one buffer", RULE(topa, table_unified)},
    {"2.2", "a packet may lie in two", RULE(topa, table_unified)},
    {"5.2", "the table's base comes from OUTPUT_BASE", RULE(topa, table_start)},
    {"5.3", "updated while tracing, not at once", NONE(PERMITS)},
    {"5.4", "and exact when tracing is disabled", RULE(topa, table_any_length)},
    {"7.3", "bits 31:7 are the offset of the entry", RULE(topa, table_start)},
    {"7.4", "updated while tracing, not at once", NONE(PERMITS)},
    {"7.5", "and exact when tracing is disabled", RULE(topa, table_start)},
    {"9.2", "bits 63:32 are the offset in the region", RULE(topa, table_start)},
    {"9.3", "updated while tracing, not at once", NONE(PERMITS)},
    {"9.4", "and exact when tracing is disabled", RULE(topa, table_start)},
    {"10.1", "packets go to the current region", RULE(topa, table_start)},
    {"10.2", "to its offset", RULE(topa, table_start)},
    {"10.3", "when it is full, to the next entry's at 0", RULE(topa, table_start)},
    {"12.1", "how the address is made", RULE(topa, table_start)},
    {"13.3", "END leads to a table", RULE(output, region_end)},
    {"13.4", "STOP ends tracing when the region is full", RULE(output, region_stop)},
    {"14.1", "END loads the base of the table", RULE(output, region_end)},
    {"14.2", "and both offsets are 0", RULE(topa, table_end_first)},
    {"15.2", "behind the largest offset the table starts again", RULE(topa, table_wrap)},
    {"16.2", "reads while tracing may be stale", NONE(PERMITS)},
    {"16.3", "do not trust them", NONE(SOFTWARE)},
    {"16.4", "with TraceEn cleared they are final", RULE(enabling, disable_flush)},
    {"17.1", "entries may be cached", NONE(PERMITS)},
    {"17.2", "changes of tables may be seen late", NONE(PERMITS)},
    {"17.3", "clear TraceEn before changing them", NONE(SOFTWARE)},
    {0},
};
static const struct demand one_region[] = {
    {"1.2", "CPUID says so", RULE(cpuid, each_entries)},
    {"2.1", "one entry, and END that leads back", RULE(output, region_end)},
    {"3.1", "INT and STOP are allowed, END must follow", RULE(topa, table_one_region)},
    {"3.2", "the PMI comes before the region is full", RULE(topa, table_one_region)},
    {0},
};
static const struct demand entry_format[] = {
    {"1.2", "the address has MAXPHYADDR bits", RULE(topa, error_reserved)},
    {"2.1", "reserved bits are an error", RULE(topa, error_reserved)},
    {"n1.1", "the WRMSR that flushes does not make it visible everywhere", NONE(HARDWARE)},
    {0},
};
static const struct demand topa_stop[] = {
    {"1.2", "a full region sets Stopped", RULE(output, region_stop)},
    {"1.3", "which clears TriggerEn", RULE(output, region_stop)},
    {"2.1", "no TIP.PGD", RULE(topa, stop_cut)},
    {"2.2", "output ends with the last byte, within a packet", RULE(topa, stop_cut)},
    {"2.3", "what is buffered is lost", RULE(topa, stop_cut)},
    {"3.1", "OUTPUT_BASE is the table of the entry", RULE(topa, stop_where)},
    {"3.2", "MASK_PTRS has its index, and the end of the region", RULE(topa, stop_where)},
    {"4.1", "enabling with these values is an error", RULE(topa, stop_where)},
    {"4.1", "with others tracing goes on", RULE(topa, stop_resumed)},
    {0},
};
static const struct demand topa_pmi[] = {
    {"1.2", "INT: a PMI when the region is full", RULE(output, region_int)},
    {"1.3", "it need not be precise", NONE(PERMITS)},
    {"3.1", "enable it in the LVT", NONE(SOFTWARE)},
    {"4.1", "set up a handler", NONE(SOFTWARE)},
    {"5.1", "enable interrupts", NONE(SOFTWARE)},
    {"6.1", "set INT and enable tracing", NONE(SOFTWARE)},
    {"7.1", "the interrupt is signalled", RULE(output, region_int)},
    {"7.2", "bit 55 of GLOBAL_STATUS tells it", RULE(output, region_int)},
    {"7.3", "writing 1 to bit 55 of 390H clears it", RULE(topa, pmi_twice)},
    {"8.1", "tracing is not frozen", RULE(topa, pmi_twice)},
    {"8.2", "counters may be frozen", NONE(FREEZE)},
    {"9.1", "the handler clears TraceEn first", NONE(SOFTWARE)},
    {"9.2", "which writes all packets", RULE(enabling, disable_flush)},
    {"9.4", "and sets it again", NONE(SOFTWARE)},
    {"10.3", "a second PMI may come before the first was handled", RULE(topa, pmi_twice)},
    {"10.4", "clear TraceEn at the beginning", NONE(SOFTWARE)},
    {"10.5", "look at IRR and the pointers", NONE(SOFTWARE)},
    {0},
};
static const struct demand preservation[] = {
    {"1.3", "CPUID says whether it is there", RULE(cpuid, each_preserve)},
    {"2.1", "InjectPsbPmiOnEnable enables it", RULE(topa, preserve_pends)},
    {"2.2", "PendTopaPMI is set with the PMI", RULE(topa, preserve_pends)},
    {"2.3", "enabling tracing then gives a PMI", RULE(topa, preserve_pends)},
    {"2.4", "so that one in XSAVES is not lost", RULE(topa, preserve_xsaves)},
    {"4.1", "the handler ignores a PMI with TraceEn = 0", NONE(SOFTWARE)},
    {"4.3", "and leaves PendTopaPMI", NONE(SOFTWARE)},
    {"5.1", "else it clears the bit", NONE(SOFTWARE)},
    {"5.2", "then no PMI comes again", RULE(topa, preserve_pends)},
    {"5.3", "before it unmasks the LVT", NONE(SOFTWARE)},
    {0},
};
static const struct demand pmi_one_region[] = {
    {"1.1", "the PMI comes before the output wraps", RULE(topa, table_one_region)},
    {"1.2", "disable tracing soon", NONE(SOFTWARE)},
    {"2.2", "STOP avoids a wrap", RULE(topa, table_one_region)},
    {"2.4", "clear Stopped before going on", NONE(SOFTWARE)},
    {0},
};
static const struct demand pmi_xsaves[] = {
    {"1.2", "change the tables, not the MSRs", NONE(SOFTWARE)},
    {"1.3", "with preservation, PendTopaPMI is saved", RULE(topa, preserve_xsaves)},
    {"1.4", "and the PMI comes when it is restored", RULE(topa, preserve_xsaves)},
    {"2.1", "the handler that Table 33-4 recommends", NONE(SOFTWARE)},
    {0},
};
static const struct demand topa_errors[] = {
    {"1.1", "a malformed entry is an operational error", RULE(topa, error_when_reached)},
    {"3.1", "reserved bits", RULE(topa, error_reserved)},
    {"6.2", "a table that is not on a page", RULE(topa, error_alignment)},
    {"6.3", "by WRMSR or by an END entry", RULE(topa, error_alignment)},
    {"7.2", "a region that is not aligned to its size", RULE(topa, error_alignment)},
    {"8.2", "address bits above MAXPHYADDR", RULE(topa, error_reserved)},
    {"10.1", "an offset beyond the region", RULE(topa, error_offset)},
    {"13.2", "STOP or INT with END", RULE(topa, error_end_flags)},
    {"14.2", "END in entry 0", RULE(topa, error_when_reached)},
    {"16.1", "one region only: entry 1 without END", RULE(topa, table_one_region)},
    {"17.1", "or one that leads elsewhere", RULE(output, region_base)},
    {"18.1", "Error is set when the entry is reached", RULE(topa, error_when_reached)},
    {"18.2", "what is buffered may be lost", NONE(PERMITS)},
    {"19.1", "restricted memory is an error as well", RULE(output, restricted_table)},
    {0},
};
static const struct demand transport[] = {
    {"1.1", "FabricEn: ToPA is ignored, output goes to the transport", RULE(topa, schemes)},
    {"1.3", "CPUID says whether it can be set", RULE(cpuid, each_fabric)},
    {0},
};
static const struct demand restricted[] = {
    {"1.1", "no output to restricted memory", RULE(output, restricted_region)},
    {"1.2", "each access is checked against SMRR", RULE(output, restricted_table)},
    {"2.1", "do not route output to the APIC page", NONE(SOFTWARE)},
    {"2.3", "there is no error for it", RULE(topa, apic_page)},
    {0},
};
static const struct demand restricted_changes[] = {
    {"1.1", "disable tracing before changing the SMRRs", NONE(SOFTWARE)},
    {"1.2", "entries may be cached", NONE(PERMITS)},
    {"1.3", "and are not checked again", NONE(PERMITS)},
    {"1.4", "clear TraceEn for that", NONE(SOFTWARE)},
    {0},
};

/* ---- 33.2.8 --------------------------------------------------------------------------------- */

static const struct demand general[] = {
    {"2.1", "no Intel PT: #GP", RULE(enabling, general_unsupported)},
    {"3.1", "WRMSR while TraceEn is 1: #GP", RULE(enabling, general_locked)},
    {"3.2", "TraceEn must be cleared first", RULE(enabling, general_locked)},
    {"4.1", "RTIT_CTL may be written with its own value", RULE(enabling, general_same)},
    {"5.1", "one set for each logical processor", RULE(enabling, general_two)},
    {"6.1", "reserved bits and encodings: #GP", RULE(msrs, bits_60_63)},
    {"7.1", "a reset clears them", RULE(enabling, reset_cold)},
    {"7.1", "and nothing of before is in a trace behind it", RULE(enabling, reset_anew)},
    {"8.1", "a warm one clears only TraceEn with EBX[2]", RULE(enabling, reset_warm)},
    {"8.2", "and keeps the rest", RULE(enabling, reset_warm)},
    {"9.1", "load areas, XRSTORS and XSAVES as WRMSR", RULE(enabling, general_ways)},
    {0},
};
static const struct demand ctl[] = {
    {"1.1", "it is MSR 570H", RULE(enabling, general_same)},
    {0},
};
static const struct demand traceen[] = {
    {"1.1", "packets when TraceEn is set", RULE(enabling, enable_psb)},
    {"1.3", "PSB+ if PacketByteCnt is 0", RULE(enabling, enable_psb)},
    {"1.4", "else TSC, TMA, CBR", RULE(enabling, enable_psb)},
    {"2.1", "TIP.PGE when PacketEn becomes 1", RULE(enabling, enable_later)},
    {"3.1", "entries may be read and cached", NONE(PERMITS)},
    {"3.2", "disable tracing before changing tables", NONE(SOFTWARE)},
    {0},
};
static const struct demand disabling[] = {
    {"1.1", "everything is flushed, then the output MSRs are stable",
     RULE(enabling, disable_flush)},
    {"1.2", "a fence may be needed", NONE(HARDWARE)},
    {"1.3", "no packet but a TIP.PGD if PacketEn is 1", RULE(enabling, disable_quiet)},
    {0},
};
static const struct demand other_writes[] = {
    {"1.1", "changing RTIT_CTL while TraceEn stays 1: #GP", RULE(enabling, general_same)},
    {"1.2", "writes that change nothing: none", RULE(enabling, general_same)},
    {0},
};
static const struct demand status[] = {
    {"1.1", "it can be read and written", RULE(msrs, status_stopped)},
    {"1.3", "writes to some bits are ignored", RULE(msrs, filteren)},
    {"2.1", "only while TraceEn is 0", RULE(enabling, general_locked)},
    {"2.2", "the processor leaves it alone then", RULE(enabling, disable_flush)},
    {0},
};
static const struct demand addr[] = {
    {"1.1", "ADDRn_CFG says what they are for", RULE(msrs, addr0)},
    {"1.2", "CPUID says how many there are", RULE(cpuid, each_range_count)},
    {"2.1", "the registers of 1 range", RULE(cpuid, each_range_count)},
    {"4.1", "of 2", RULE(cpuid, each_range_count)},
    {"7.1", "of 3", RULE(cpuid, each_range_count)},
    {"11.1", "of 4", RULE(cpuid, each_range_count)},
    {"16.1", "64 bits", RULE(enabling, addr_canonical)},
    {"16.2", "canonical, else #GP", RULE(enabling, addr_canonical)},
    {"16.2", "also where linear addresses have 32 bits", RULE(enabling, addr_32)},
    {"17.1", "only while TraceEn is 0", RULE(enabling, general_locked)},
    {0},
};
static const struct demand cr3_match[] = {
    {"1.1", "compared with CR3 if CR3Filter is 1", RULE(filtering, cr3_bits)},
    {"1.2", "bits 63:5", RULE(enabling, match_reserved)},
    {"2.1", "it exists with EBX[0]", RULE(cpuid, each_cr3)},
    {"2.2", "only while TraceEn is 0", RULE(enabling, general_locked)},
    {"2.3", "bits 4:0: #GP", RULE(enabling, match_reserved)},
    {0},
};
static const struct demand output_base[] = {
    {"1.1", "where output goes if FabricEn is 0", RULE(topa, schemes)},
    {"1.2", "MAXPHYADDR bits", RULE(msrs, base_high)},
    {"2.1", "updated while tracing, at any time", NONE(PERMITS)},
    {"2.2", "unreliable until TraceEn is 0", NONE(SOFTWARE)},
    {"3.1", "it exists with ECX[0] or ECX[2]", RULE(cpuid, each_single)},
    {"3.2", "else #GP", RULE(cpuid, each_topa)},
    {"3.3", "only while TraceEn is 0", RULE(enabling, general_locked)},
    {0},
};
static const struct demand mask_ptrs[] = {
    {"1.1", "where the next byte goes", RULE(topa, single_pointer)},
    {"1.2", "by the scheme in use", RULE(msrs, mask_middle)},
    {"2.1", "updated while tracing, at any time", NONE(PERMITS)},
    {"2.2", "unreliable until TraceEn is 0", NONE(SOFTWARE)},
    {"3.1", "it exists with ECX[0] or ECX[2]", RULE(cpuid, each_single)},
    {"3.2", "else #GP", RULE(cpuid, each_topa)},
    {"3.3", "only while TraceEn is 0", RULE(enabling, general_locked)},
    {0},
};

/* ---- 33.2.9 --------------------------------------------------------------------------------- */

static const struct demand tsx[] = {
    {"1.2", "HLE and RTM are told alike", NONE(OWNER)},
    {"1.3", "packets as instructions complete, aborted ones too", RULE(features, tsx_goes_on)},
    {"2.1", "a MODE packet tells", RULE(packets, tsx_begin)},
    {"3.1", "InTX from begin to commit or abort", RULE(packets, tsx_commit)},
    {"4.1", "TXAbort on an abort", RULE(packets, tsx_abort)},
    {"4.2", "else it is 0", RULE(packets, tsx_commit)},
    {"5.1", "BranchEn: each change is told", RULE(generation, tsx_changes)},
    {"6.1", "CurrentIP is the instruction's", RULE(packets, tsx_begin)},
    {"6.2", "TargetIP is where it goes on", RULE(packets, tsx_abort)},
    {"7.1", "stores are not rolled back", RULE(features, tsx_goes_on)},
    {0},
};
static const struct demand tsx_filter[] = {
    {"1.2", "changes of CPL and CR3 abort", NONE(OWNER)},
    {"2.1", "MODE.TSX without FUP while FilterEn is 0", RULE(features, tsx_filtered)},
    {"2.3", "the last one before TIP.PGE tells the state", RULE(features, tsx_filtered)},
    {0},
};
static const struct demand smm[] = {
    {"1.2", "the handler is not seen from outside", RULE(features, smm_secret)},
    {"1.3", "no output to memory of SMM", RULE(output, restricted_region)},
    {"2.2", "SMI saves TraceEn and clears it", RULE(features, smm_secret)},
    {"4.1", "packets are flushed before", RULE(features, smm_secret)},
    {"5.1", "tracing does not go on in SMM", RULE(features, smm_secret)},
    {"5.2", "no IP or state of SMM", RULE(features, smm_secret)},
    {"6.1", "RSM restores TraceEn", RULE(time, rsm_restores)},
    {"6.2", "and ContextEn is evaluated", RULE(features, smm_context)},
    {"7.1", "FUP of the next instruction", RULE(scenarios, pkt_9)},
    {"7.2", "TIP.PGD and TIP.PGE", RULE(features, smm_secret)},
    {"8.1", "no PIP", RULE(generation, pip_smm)},
    {"8.2", "TraceEn is 0 while CR3 changes", RULE(features, smm_context)},
    {"9.1", "RSM with TraceEn = 1 is a shutdown", RULE(features, smm_shutdown)},
    {"9.2", "or one that enables LBRs as well", NONE(FREEZE)},
    {0},
};
static const struct demand vmx[] = {
    {"1.2", "VMX_MISC[14] = 0 says that it does not go together", RULE(features, vmx_old)},
    {"1.3", "VMXON clears TraceEn, writes of RTIT_CTL are #GP", RULE(features, vmx_old)},
    {"2.1", "VMX_MISC[14] = 1 that it does", RULE(features, vmx_new)},
    {0},
};
static const struct demand sgx[] = {
    {"1.2", "no packets of the flow in a production enclave", RULE(features, enclave_production)},
    {"1.3", "entry clears ContextEn", RULE(features, enclave_production)},
    {"1.4", "TIP.PGD if PacketEn was 1", RULE(features, enclave_production)},
    {"2.1", "exit: ContextEn is not forced", RULE(features, enclave_exit)},
    {"2.2", "TIP.PGE", RULE(features, enclave_production)},
    {"3.1", "timing packets and PSB go on", RULE(features, enclave_periodic)},
    {"3.2", "no IP or state is shown", RULE(features, enclave_periodic)},
    {0},
};
static const struct demand debug_enclaves[] = {
    {"1.2", "tracing goes on", RULE(features, enclave_debug)},
    {"1.3", "ContextEn is not changed by entry and exit", RULE(features, enclave_debug)},
    {"1.4", "packets that need it appear", RULE(features, enclave_debug)},
    {0},
};
static const struct demand getsec[] = {
    {"1.1", "SENTER and ENTERACCS clear TraceEn for good", RULE(features, getsec)},
    {"1.2", "SENTER on the other processors too", RULE(features, getsec)},
    {"1.3", "the flush is not guaranteed", NONE(PERMITS)},
    {"1.4", "packets may be lost", NONE(PERMITS)},
    {"2.1", "a module disables tracing in silence", RULE(features, acm)},
    {"2.2", "TraceEn is cleared, no TIP.PGD", RULE(features, acm)},
    {"2.3", "TraceEn is restored", RULE(features, acm)},
    {"2.4", "no TIP.PGE, but timing packets", RULE(features, acm)},
    {0},
};
static const struct demand mpx[] = {
    {"1.1", "#BR as other exceptions", RULE(features, bounds)},
    {0},
};

const struct section output_sections[] = {
    {"33.2.7", "Trace output", 10, output},
    {"33.2.7.1", "Single range", 6, single},
    {"33.2.7.1 errors", "Single-range output errors", 5, single_errors},
    {"33.2.7.2", "Table of physical addresses", 31, topa},
    {"33.2.7.2 one region", "Single output region", 4, one_region},
    {"33.2.7.2 entry", "ToPA table entry format", 3, entry_format},
    {"33.2.7.2 STOP", "ToPA STOP", 9, topa_stop},
    {"33.2.7.2 PMI", "ToPA PMI", 17, topa_pmi},
    {"33.2.7.2 preservation", "PMI preservation", 10, preservation},
    {"33.2.7.2 PMI and one region", "ToPA PMI and single output region", 4, pmi_one_region},
    {"33.2.7.2 PMI and XSAVES", "ToPA PMI and XSAVES", 4, pmi_xsaves},
    {"33.2.7.2 errors", "ToPA errors", 14, topa_errors},
    {"33.2.7.3", "Trace transport", 2, transport},
    {"33.2.7.4", "Restricted memory", 4, restricted},
    {"33.2.7.4 modifications", "Modifications to restricted memory", 4, restricted_changes},
    {"33.2.8.1", "General considerations", 11, general},
    {"33.2.8.2", "RTIT_CTL", 1, ctl},
    {"33.2.8.3", "TraceEn", 6, traceen},
    {"33.2.8.3 disabling", "Disabling", 3, disabling},
    {"33.2.8.3 other writes", "Other writes to RTIT_CTL", 2, other_writes},
    {"33.2.8.4", "RTIT_STATUS", 4, status},
    {"33.2.8.5", "ADDRn_A and ADDRn_B", 10, addr},
    {"33.2.8.6", "CR3_MATCH", 5, cr3_match},
    {"33.2.8.7", "OUTPUT_BASE", 7, output_base},
    {"33.2.8.8", "OUTPUT_MASK_PTRS", 7, mask_ptrs},
    {"33.2.9.1", "TSX", 10, tsx},
    {"33.2.9.2", "TSX and IP filtering", 3, tsx_filter},
    {"33.2.9.3", "System management mode", 14, smm},
    {"33.2.9.4", "VMX", 3, vmx},
    {"33.2.9.5", "SGX", 7, sgx},
    {"33.2.9.5 debug enclaves", "Debug enclaves", 3, debug_enclaves},
    {"33.2.9.6", "SENTER, ENTERACCS, modules", 8, getsec},
    {"33.2.9.7", "MPX", 1, mpx},
    {0},
};
