/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The VMCS as software sees it: fields and their encodings, controls, exit reasons and the numbers
 * of VM-instruction errors (Intel's manual, volume 3, appendices B and C, and the chapters on the
 * VMCS and on VM exits).
 */
#ifndef GUEST_VMX_VMCS_H
#define GUEST_VMX_VMCS_H

/* ---- Controls ----------------------------------------------------------------------------- */

enum control { NO_CONTROL, PIN, PROC, PROC2, EXIT, ENTRY, CONTROL_KINDS };

#define PIN_EXTERNAL_INTERRUPT (1u << 0)
#define PIN_NMI                (1u << 3)
#define PIN_VIRTUAL_NMIS       (1u << 5)
#define PIN_PREEMPTION_TIMER   (1u << 6)
#define PIN_POSTED_INTERRUPTS  (1u << 7)

#define PROC_INTERRUPT_WINDOW (1u << 2)
#define PROC_TSC_OFFSETTING   (1u << 3)
#define PROC_HLT              (1u << 7)
#define PROC_INVLPG           (1u << 9)
#define PROC_MWAIT            (1u << 10)
#define PROC_RDPMC            (1u << 11)
#define PROC_RDTSC            (1u << 12)
#define PROC_CR3_LOAD         (1u << 15)
#define PROC_CR3_STORE        (1u << 16)
#define PROC_CR8_LOAD         (1u << 19)
#define PROC_CR8_STORE        (1u << 20)
#define PROC_TPR_SHADOW       (1u << 21)
#define PROC_NMI_WINDOW       (1u << 22)
#define PROC_MOV_DR           (1u << 23)
#define PROC_UNCONDITIONAL_IO (1u << 24)
#define PROC_IO_BITMAPS       (1u << 25)
#define PROC_MTF              (1u << 27)
#define PROC_MSR_BITMAPS      (1u << 28)
#define PROC_MONITOR          (1u << 29)
#define PROC_PAUSE            (1u << 30)
#define PROC_SECONDARY        (1u << 31)

#define PROC2_APIC_ACCESSES      (1u << 0)
#define PROC2_EPT                (1u << 1)
#define PROC2_DESCRIPTOR_TABLE   (1u << 2)
#define PROC2_RDTSCP             (1u << 3)
#define PROC2_X2APIC             (1u << 4)
#define PROC2_VPID               (1u << 5)
#define PROC2_WBINVD             (1u << 6)
#define PROC2_UNRESTRICTED       (1u << 7)
#define PROC2_APIC_REGISTERS     (1u << 8)
#define PROC2_VIRTUAL_INTERRUPTS (1u << 9)
#define PROC2_PAUSE_LOOP         (1u << 10)
#define PROC2_RDRAND             (1u << 11)
#define PROC2_INVPCID            (1u << 12)
#define PROC2_VMFUNC             (1u << 13)
#define PROC2_SHADOW_VMCS        (1u << 14)
#define PROC2_ENCLS              (1u << 15)
#define PROC2_RDSEED             (1u << 16)
#define PROC2_PML                (1u << 17)
#define PROC2_VE                 (1u << 18)
#define PROC2_CONCEAL            (1u << 19)
#define PROC2_XSAVES             (1u << 20)
#define PROC2_MODE_BASED_EXECUTE (1u << 22)
#define PROC2_PT_USES_GPA        (1u << 24)
#define PROC2_TSC_SCALING        (1u << 25)
#define PROC2_USER_WAIT          (1u << 26)

#define EXIT_SAVE_DEBUG      (1u << 2)
#define EXIT_HOST_64         (1u << 9)
#define EXIT_LOAD_PERF       (1u << 12)
#define EXIT_ACKNOWLEDGE     (1u << 15)
#define EXIT_SAVE_PAT        (1u << 18)
#define EXIT_LOAD_PAT        (1u << 19)
#define EXIT_SAVE_EFER       (1u << 20)
#define EXIT_LOAD_EFER       (1u << 21)
#define EXIT_SAVE_PREEMPTION (1u << 22)
#define EXIT_CLEAR_BNDCFGS   (1u << 23)
#define EXIT_CONCEAL         (1u << 24)
#define EXIT_CLEAR_RTIT_CTL  (1u << 25)

#define ENTRY_LOAD_DEBUG    (1u << 2)
#define ENTRY_IA32E         (1u << 9)
#define ENTRY_TO_SMM        (1u << 10)
#define ENTRY_NO_DUAL       (1u << 11)
#define ENTRY_LOAD_PERF     (1u << 13)
#define ENTRY_LOAD_PAT      (1u << 14)
#define ENTRY_LOAD_EFER     (1u << 15)
#define ENTRY_LOAD_BNDCFGS  (1u << 16)
#define ENTRY_CONCEAL       (1u << 17)
#define ENTRY_LOAD_RTIT_CTL (1u << 18)

/* ---- Fields ------------------------------------------------------------------------------- */

/*
 * Name, encoding, and the control whose 1-setting brings the field with it, of whatever bit of it
 * (appendix B). CR3-target values are counted by IA32_VMX_MISC instead.
 */
#define VMCS_FIELDS(FIELD)                                                                         \
    FIELD(VPID, 0x0000, PROC2, PROC2_VPID)                                                         \
    FIELD(POSTED_VECTOR, 0x0002, PIN, PIN_POSTED_INTERRUPTS)                                       \
    FIELD(EPTP_INDEX, 0x0004, PROC2, PROC2_VE)                                                     \
    FIELD(GUEST_ES, 0x0800, NO_CONTROL, 0)                                                         \
    FIELD(GUEST_CS, 0x0802, NO_CONTROL, 0)                                                         \
    FIELD(GUEST_SS, 0x0804, NO_CONTROL, 0)                                                         \
    FIELD(GUEST_DS, 0x0806, NO_CONTROL, 0)                                                         \
    FIELD(GUEST_FS, 0x0808, NO_CONTROL, 0)                                                         \
    FIELD(GUEST_GS, 0x080a, NO_CONTROL, 0)                                                         \
    FIELD(GUEST_LDTR, 0x080c, NO_CONTROL, 0)                                                       \
    FIELD(GUEST_TR, 0x080e, NO_CONTROL, 0)                                                         \
    FIELD(GUEST_INTERRUPT_STATUS, 0x0810, PROC2, PROC2_VIRTUAL_INTERRUPTS)                         \
    FIELD(PML_INDEX, 0x0812, PROC2, PROC2_PML)                                                     \
    FIELD(HOST_ES, 0x0c00, NO_CONTROL, 0)                                                          \
    FIELD(HOST_CS, 0x0c02, NO_CONTROL, 0)                                                          \
    FIELD(HOST_SS, 0x0c04, NO_CONTROL, 0)                                                          \
    FIELD(HOST_DS, 0x0c06, NO_CONTROL, 0)                                                          \
    FIELD(HOST_FS, 0x0c08, NO_CONTROL, 0)                                                          \
    FIELD(HOST_GS, 0x0c0a, NO_CONTROL, 0)                                                          \
    FIELD(HOST_TR, 0x0c0c, NO_CONTROL, 0)                                                          \
    FIELD(IO_BITMAP_A, 0x2000, NO_CONTROL, 0)                                                      \
    FIELD(IO_BITMAP_B, 0x2002, NO_CONTROL, 0)                                                      \
    FIELD(MSR_BITMAPS, 0x2004, PROC, PROC_MSR_BITMAPS)                                             \
    FIELD(EXIT_MSR_STORE, 0x2006, NO_CONTROL, 0)                                                   \
    FIELD(EXIT_MSR_LOAD, 0x2008, NO_CONTROL, 0)                                                    \
    FIELD(ENTRY_MSR_LOAD, 0x200a, NO_CONTROL, 0)                                                   \
    FIELD(EXECUTIVE_VMCS, 0x200c, NO_CONTROL, 0)                                                   \
    FIELD(PML_ADDRESS, 0x200e, PROC2, PROC2_PML)                                                   \
    FIELD(TSC_OFFSET, 0x2010, NO_CONTROL, 0)                                                       \
    FIELD(VIRTUAL_APIC, 0x2012, PROC, PROC_TPR_SHADOW)                                             \
    FIELD(APIC_ACCESS, 0x2014, PROC2, PROC2_APIC_ACCESSES)                                         \
    FIELD(POSTED_DESCRIPTOR, 0x2016, PIN, PIN_POSTED_INTERRUPTS)                                   \
    FIELD(VMFUNC_CONTROLS, 0x2018, PROC2, PROC2_VMFUNC)                                            \
    FIELD(EPTP, 0x201a, PROC2, PROC2_EPT)                                                          \
    FIELD(EOI_EXIT_0, 0x201c, PROC2, PROC2_VIRTUAL_INTERRUPTS)                                     \
    FIELD(EOI_EXIT_1, 0x201e, PROC2, PROC2_VIRTUAL_INTERRUPTS)                                     \
    FIELD(EOI_EXIT_2, 0x2020, PROC2, PROC2_VIRTUAL_INTERRUPTS)                                     \
    FIELD(EOI_EXIT_3, 0x2022, PROC2, PROC2_VIRTUAL_INTERRUPTS)                                     \
    FIELD(VMREAD_BITMAP, 0x2026, PROC2, PROC2_SHADOW_VMCS)                                         \
    FIELD(VMWRITE_BITMAP, 0x2028, PROC2, PROC2_SHADOW_VMCS)                                        \
    FIELD(VE_INFORMATION, 0x202a, PROC2, PROC2_VE)                                                 \
    FIELD(XSS_EXITING, 0x202c, PROC2, PROC2_XSAVES)                                                \
    FIELD(ENCLS_EXITING, 0x202e, PROC2, PROC2_ENCLS)                                               \
    FIELD(TSC_MULTIPLIER, 0x2032, PROC2, PROC2_TSC_SCALING)                                        \
    FIELD(GUEST_PHYSICAL, 0x2400, PROC2, PROC2_EPT)                                                \
    FIELD(LINK_POINTER, 0x2800, NO_CONTROL, 0)                                                     \
    FIELD(GUEST_DEBUGCTL, 0x2802, NO_CONTROL, 0)                                                   \
    FIELD(GUEST_PAT, 0x2804, ENTRY, ENTRY_LOAD_PAT)                                                \
    FIELD(GUEST_EFER, 0x2806, ENTRY, ENTRY_LOAD_EFER)                                              \
    FIELD(GUEST_PERF_CTRL, 0x2808, ENTRY, ENTRY_LOAD_PERF)                                         \
    FIELD(GUEST_PDPTE_0, 0x280a, PROC2, PROC2_EPT)                                                 \
    FIELD(GUEST_PDPTE_1, 0x280c, PROC2, PROC2_EPT)                                                 \
    FIELD(GUEST_PDPTE_2, 0x280e, PROC2, PROC2_EPT)                                                 \
    FIELD(GUEST_PDPTE_3, 0x2810, PROC2, PROC2_EPT)                                                 \
    FIELD(GUEST_BNDCFGS, 0x2812, ENTRY, ENTRY_LOAD_BNDCFGS)                                        \
    FIELD(GUEST_RTIT_CTL, 0x2814, ENTRY, ENTRY_LOAD_RTIT_CTL)                                      \
    FIELD(HOST_PAT, 0x2c00, EXIT, EXIT_LOAD_PAT)                                                   \
    FIELD(HOST_EFER, 0x2c02, EXIT, EXIT_LOAD_EFER)                                                 \
    FIELD(HOST_PERF_CTRL, 0x2c04, EXIT, EXIT_LOAD_PERF)                                            \
    FIELD(PIN_CONTROLS, 0x4000, NO_CONTROL, 0)                                                     \
    FIELD(PROC_CONTROLS, 0x4002, NO_CONTROL, 0)                                                    \
    FIELD(EXCEPTION_BITMAP, 0x4004, NO_CONTROL, 0)                                                 \
    FIELD(PAGE_FAULT_MASK, 0x4006, NO_CONTROL, 0)                                                  \
    FIELD(PAGE_FAULT_MATCH, 0x4008, NO_CONTROL, 0)                                                 \
    FIELD(CR3_TARGET_COUNT, 0x400a, NO_CONTROL, 0)                                                 \
    FIELD(EXIT_CONTROLS, 0x400c, NO_CONTROL, 0)                                                    \
    FIELD(EXIT_STORE_COUNT, 0x400e, NO_CONTROL, 0)                                                 \
    FIELD(EXIT_LOAD_COUNT, 0x4010, NO_CONTROL, 0)                                                  \
    FIELD(ENTRY_CONTROLS, 0x4012, NO_CONTROL, 0)                                                   \
    FIELD(ENTRY_LOAD_COUNT, 0x4014, NO_CONTROL, 0)                                                 \
    FIELD(ENTRY_EVENT, 0x4016, NO_CONTROL, 0)                                                      \
    FIELD(ENTRY_ERROR_CODE, 0x4018, NO_CONTROL, 0)                                                 \
    FIELD(ENTRY_LENGTH, 0x401a, NO_CONTROL, 0)                                                     \
    FIELD(TPR_THRESHOLD, 0x401c, PROC, PROC_TPR_SHADOW)                                            \
    FIELD(PROC2_CONTROLS, 0x401e, PROC, PROC_SECONDARY)                                            \
    FIELD(PLE_GAP, 0x4020, PROC2, PROC2_PAUSE_LOOP)                                                \
    FIELD(PLE_WINDOW, 0x4022, PROC2, PROC2_PAUSE_LOOP)                                             \
    FIELD(INSTRUCTION_ERROR, 0x4400, NO_CONTROL, 0)                                                \
    FIELD(EXIT_REASON, 0x4402, NO_CONTROL, 0)                                                      \
    FIELD(EXIT_EVENT, 0x4404, NO_CONTROL, 0)                                                       \
    FIELD(EXIT_ERROR_CODE, 0x4406, NO_CONTROL, 0)                                                  \
    FIELD(VECTORING_EVENT, 0x4408, NO_CONTROL, 0)                                                  \
    FIELD(VECTORING_ERROR_CODE, 0x440a, NO_CONTROL, 0)                                             \
    FIELD(EXIT_LENGTH, 0x440c, NO_CONTROL, 0)                                                      \
    FIELD(INSTRUCTION_INFO, 0x440e, NO_CONTROL, 0)                                                 \
    FIELD(GUEST_ES_LIMIT, 0x4800, NO_CONTROL, 0)                                                   \
    FIELD(GUEST_CS_LIMIT, 0x4802, NO_CONTROL, 0)                                                   \
    FIELD(GUEST_SS_LIMIT, 0x4804, NO_CONTROL, 0)                                                   \
    FIELD(GUEST_DS_LIMIT, 0x4806, NO_CONTROL, 0)                                                   \
    FIELD(GUEST_FS_LIMIT, 0x4808, NO_CONTROL, 0)                                                   \
    FIELD(GUEST_GS_LIMIT, 0x480a, NO_CONTROL, 0)                                                   \
    FIELD(GUEST_LDTR_LIMIT, 0x480c, NO_CONTROL, 0)                                                 \
    FIELD(GUEST_TR_LIMIT, 0x480e, NO_CONTROL, 0)                                                   \
    FIELD(GUEST_GDTR_LIMIT, 0x4810, NO_CONTROL, 0)                                                 \
    FIELD(GUEST_IDTR_LIMIT, 0x4812, NO_CONTROL, 0)                                                 \
    FIELD(GUEST_ES_RIGHTS, 0x4814, NO_CONTROL, 0)                                                  \
    FIELD(GUEST_CS_RIGHTS, 0x4816, NO_CONTROL, 0)                                                  \
    FIELD(GUEST_SS_RIGHTS, 0x4818, NO_CONTROL, 0)                                                  \
    FIELD(GUEST_DS_RIGHTS, 0x481a, NO_CONTROL, 0)                                                  \
    FIELD(GUEST_FS_RIGHTS, 0x481c, NO_CONTROL, 0)                                                  \
    FIELD(GUEST_GS_RIGHTS, 0x481e, NO_CONTROL, 0)                                                  \
    FIELD(GUEST_LDTR_RIGHTS, 0x4820, NO_CONTROL, 0)                                                \
    FIELD(GUEST_TR_RIGHTS, 0x4822, NO_CONTROL, 0)                                                  \
    FIELD(INTERRUPTIBILITY, 0x4824, NO_CONTROL, 0)                                                 \
    FIELD(ACTIVITY, 0x4826, NO_CONTROL, 0)                                                         \
    FIELD(GUEST_SMBASE, 0x4828, NO_CONTROL, 0)                                                     \
    FIELD(GUEST_SYSENTER_CS, 0x482a, NO_CONTROL, 0)                                                \
    FIELD(PREEMPTION_TIMER, 0x482e, PIN, PIN_PREEMPTION_TIMER)                                     \
    FIELD(HOST_SYSENTER_CS, 0x4c00, NO_CONTROL, 0)                                                 \
    FIELD(CR0_MASK, 0x6000, NO_CONTROL, 0)                                                         \
    FIELD(CR4_MASK, 0x6002, NO_CONTROL, 0)                                                         \
    FIELD(CR0_SHADOW, 0x6004, NO_CONTROL, 0)                                                       \
    FIELD(CR4_SHADOW, 0x6006, NO_CONTROL, 0)                                                       \
    FIELD(CR3_TARGET_0, 0x6008, NO_CONTROL, 0)                                                     \
    FIELD(CR3_TARGET_1, 0x600a, NO_CONTROL, 0)                                                     \
    FIELD(CR3_TARGET_2, 0x600c, NO_CONTROL, 0)                                                     \
    FIELD(CR3_TARGET_3, 0x600e, NO_CONTROL, 0)                                                     \
    FIELD(QUALIFICATION, 0x6400, NO_CONTROL, 0)                                                    \
    FIELD(IO_RCX, 0x6402, NO_CONTROL, 0)                                                           \
    FIELD(IO_RSI, 0x6404, NO_CONTROL, 0)                                                           \
    FIELD(IO_RDI, 0x6406, NO_CONTROL, 0)                                                           \
    FIELD(IO_RIP, 0x6408, NO_CONTROL, 0)                                                           \
    FIELD(GUEST_LINEAR, 0x640a, NO_CONTROL, 0)                                                     \
    FIELD(GUEST_CR0, 0x6800, NO_CONTROL, 0)                                                        \
    FIELD(GUEST_CR3, 0x6802, NO_CONTROL, 0)                                                        \
    FIELD(GUEST_CR4, 0x6804, NO_CONTROL, 0)                                                        \
    FIELD(GUEST_ES_BASE, 0x6806, NO_CONTROL, 0)                                                    \
    FIELD(GUEST_CS_BASE, 0x6808, NO_CONTROL, 0)                                                    \
    FIELD(GUEST_SS_BASE, 0x680a, NO_CONTROL, 0)                                                    \
    FIELD(GUEST_DS_BASE, 0x680c, NO_CONTROL, 0)                                                    \
    FIELD(GUEST_FS_BASE, 0x680e, NO_CONTROL, 0)                                                    \
    FIELD(GUEST_GS_BASE, 0x6810, NO_CONTROL, 0)                                                    \
    FIELD(GUEST_LDTR_BASE, 0x6812, NO_CONTROL, 0)                                                  \
    FIELD(GUEST_TR_BASE, 0x6814, NO_CONTROL, 0)                                                    \
    FIELD(GUEST_GDTR_BASE, 0x6816, NO_CONTROL, 0)                                                  \
    FIELD(GUEST_IDTR_BASE, 0x6818, NO_CONTROL, 0)                                                  \
    FIELD(GUEST_DR7, 0x681a, NO_CONTROL, 0)                                                        \
    FIELD(GUEST_RSP, 0x681c, NO_CONTROL, 0)                                                        \
    FIELD(GUEST_RIP, 0x681e, NO_CONTROL, 0)                                                        \
    FIELD(GUEST_RFLAGS, 0x6820, NO_CONTROL, 0)                                                     \
    FIELD(PENDING_DEBUG, 0x6822, NO_CONTROL, 0)                                                    \
    FIELD(GUEST_SYSENTER_ESP, 0x6824, NO_CONTROL, 0)                                               \
    FIELD(GUEST_SYSENTER_EIP, 0x6826, NO_CONTROL, 0)                                               \
    FIELD(HOST_CR0, 0x6c00, NO_CONTROL, 0)                                                         \
    FIELD(HOST_CR3, 0x6c02, NO_CONTROL, 0)                                                         \
    FIELD(HOST_CR4, 0x6c04, NO_CONTROL, 0)                                                         \
    FIELD(HOST_FS_BASE, 0x6c06, NO_CONTROL, 0)                                                     \
    FIELD(HOST_GS_BASE, 0x6c08, NO_CONTROL, 0)                                                     \
    FIELD(HOST_TR_BASE, 0x6c0a, NO_CONTROL, 0)                                                     \
    FIELD(HOST_GDTR_BASE, 0x6c0c, NO_CONTROL, 0)                                                   \
    FIELD(HOST_IDTR_BASE, 0x6c0e, NO_CONTROL, 0)                                                   \
    FIELD(HOST_SYSENTER_ESP, 0x6c10, NO_CONTROL, 0)                                                \
    FIELD(HOST_SYSENTER_EIP, 0x6c12, NO_CONTROL, 0)                                                \
    FIELD(HOST_RSP, 0x6c14, NO_CONTROL, 0)                                                         \
    FIELD(HOST_RIP, 0x6c16, NO_CONTROL, 0)

#define FIELD_NUMBER(name, encoding, kind, bits) VMCS_##name = (encoding),
enum vmcs_field { VMCS_FIELDS(FIELD_NUMBER) };
#undef FIELD_NUMBER

/* Bit 0 of an encoding: the high half of a 64-bit field. */
#define FIELD_HIGH 1u

enum field_type { FIELD_CONTROL, FIELD_READ_ONLY, FIELD_GUEST, FIELD_HOST };
enum field_width { FIELD_16, FIELD_64, FIELD_32, FIELD_NATURAL };

static inline enum field_type field_type(unsigned field)
{
    return (enum field_type)(field >> 10 & 3);
}

static inline enum field_width field_width(unsigned field)
{
    return (enum field_width)(field >> 13 & 3);
}

/* ---- Exit reasons ------------------------------------------------------------------------- */

#define REASON_EXCEPTION          0u
#define REASON_EXTERNAL_INTERRUPT 1u
#define REASON_TRIPLE_FAULT       2u
#define REASON_INIT               3u
#define REASON_INTERRUPT_WINDOW   7u
#define REASON_NMI_WINDOW         8u
#define REASON_TASK_SWITCH        9u
#define REASON_CPUID              10u
#define REASON_HLT                12u
#define REASON_INVD               13u
#define REASON_INVLPG             14u
#define REASON_RDPMC              15u
#define REASON_RDTSC              16u
#define REASON_VMCALL             18u
#define REASON_VMCLEAR            19u
#define REASON_VMLAUNCH           20u
#define REASON_VMPTRLD            21u
#define REASON_VMPTRST            22u
#define REASON_VMREAD             23u
#define REASON_VMRESUME           24u
#define REASON_VMWRITE            25u
#define REASON_VMXOFF             26u
#define REASON_VMXON              27u
#define REASON_CR                 28u
#define REASON_DR                 29u
#define REASON_IO                 30u
#define REASON_RDMSR              31u
#define REASON_WRMSR              32u
#define REASON_GUEST_STATE        33u
#define REASON_MSR_LOADING        34u
#define REASON_MWAIT              36u
#define REASON_MTF                37u
#define REASON_MONITOR            39u
#define REASON_PAUSE              40u
#define REASON_GDTR_IDTR          46u
#define REASON_LDTR_TR            47u
#define REASON_EPT_VIOLATION      48u
#define REASON_EPT_MISCONFIG      49u
#define REASON_INVEPT             50u
#define REASON_RDTSCP             51u
#define REASON_PREEMPTION_TIMER   52u
#define REASON_INVVPID            53u
#define REASON_WBINVD             54u
#define REASON_XSETBV             55u
#define REASON_RDRAND             57u
#define REASON_INVPCID            58u
#define REASON_RDSEED             61u
#define REASON_XSAVES             63u
#define REASON_XRSTORS            64u
#define REASON_ENTRY_FAILED       (1u << 31)

/* ---- Events, interruptibility, activity --------------------------------------------------- */

#define EVENT_VALID          (1u << 31)
#define EVENT_ERROR_CODE     (1u << 11)
#define EVENT_NMI_UNBLOCKING (1u << 12)
#define EVENT_INTERRUPT      (0u << 8)
#define EVENT_NMI            (2u << 8)
#define EVENT_EXCEPTION      (3u << 8)
#define EVENT_SOFTWARE       (4u << 8)
#define EVENT_PRIVILEGED     (5u << 8)
#define EVENT_SOFT_EXCEPTION (6u << 8)
#define EVENT_OTHER          (7u << 8)

#define BLOCKING_STI    (1u << 0)
#define BLOCKING_MOV_SS (1u << 1)
#define BLOCKING_SMI    (1u << 2)
#define BLOCKING_NMI    (1u << 3)

#define ACTIVITY_ACTIVE   0u
#define ACTIVITY_HLT      1u
#define ACTIVITY_SHUTDOWN 2u
#define ACTIVITY_SIPI     3u

/* ---- VM-instruction errors ---------------------------------------------------------------- */

#define ERROR_VMCALL_IN_ROOT      1u
#define ERROR_VMCLEAR_ADDRESS     2u
#define ERROR_VMCLEAR_VMXON       3u
#define ERROR_VMLAUNCH_NOT_CLEAR  4u
#define ERROR_VMRESUME_NOT_LAUNCH 5u
#define ERROR_CONTROLS            7u
#define ERROR_HOST_STATE          8u
#define ERROR_VMPTRLD_ADDRESS     9u
#define ERROR_VMPTRLD_VMXON       10u
#define ERROR_VMPTRLD_REVISION    11u
#define ERROR_NO_COMPONENT        12u
#define ERROR_READ_ONLY           13u
#define ERROR_VMXON_IN_ROOT       15u
#define ERROR_MOV_SS              26u
#define ERROR_INV_OPERAND         28u

/* ---- Capabilities ------------------------------------------------------------------------- */

#define MSR_FEATURE_CONTROL     0x3au
#define FEATURE_LOCK            (1ull << 0)
#define FEATURE_VMX             (1ull << 2)
#define MSR_VMX_BASIC           0x480u
#define MSR_VMX_MISC            0x485u
#define MSR_VMX_CR0_FIXED0      0x486u
#define MSR_VMX_CR0_FIXED1      0x487u
#define MSR_VMX_CR4_FIXED0      0x488u
#define MSR_VMX_CR4_FIXED1      0x489u
#define MSR_VMX_VMCS_ENUM       0x48au
#define MSR_VMX_PROC2           0x48bu
#define MSR_VMX_EPT_VPID        0x48cu
#define BASIC_32_BIT_ADDRESSES  (1ull << 48)
#define BASIC_IO_INFORMATION    (1ull << 54)
#define BASIC_TRUE_CONTROLS     (1ull << 55)
#define BASIC_ANY_ERROR_CODE    (1ull << 56)
#define MISC_SAVES_LMA          (1ull << 5)
#define MISC_ACTIVITY_HLT       (1ull << 6)
#define MISC_ACTIVITY_SHUTDOWN  (1ull << 7)
#define MISC_ACTIVITY_SIPI      (1ull << 8)
#define MISC_PT                 (1ull << 14)
#define MISC_WRITE_READ_ONLY    (1ull << 29)
#define MISC_ZERO_LENGTH        (1ull << 30)
#define EPT_EXECUTE_ONLY        (1ull << 0)
#define EPT_LEVELS_4            (1ull << 6)
#define EPT_UNCACHED            (1ull << 8)
#define EPT_WRITE_BACK          (1ull << 14)
#define EPT_PAGES_2M            (1ull << 16)
#define EPT_PAGES_1G            (1ull << 17)
#define EPT_INVEPT              (1ull << 20)
#define EPT_ACCESSED_DIRTY      (1ull << 21)
#define EPT_ADVANCED_VIOLATIONS (1ull << 22)
#define EPT_INVEPT_SINGLE       (1ull << 25)
#define EPT_INVEPT_ALL          (1ull << 26)
#define VPID_INVVPID            (1ull << 32)
#define VPID_INVVPID_ADDRESS    (1ull << 40)
#define VPID_INVVPID_SINGLE     (1ull << 41)
#define VPID_INVVPID_ALL        (1ull << 42)
#define VPID_INVVPID_GLOBALS    (1ull << 43)

#endif
