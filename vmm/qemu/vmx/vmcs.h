/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fields of a VMCS: one table from which VMREAD and VMWRITE, the lay-out in guest memory and
 * the saved state are made.
 *
 * An encoding says all else of a field: bits 14:13 its width, bits 11:10 its type, bits 9:1 which
 * of these it is. A field is there if the control is enumerated that gives it a meaning.
 */
#ifndef I386_VMX_VMCS_H
#define I386_VMX_VMCS_H

#include "cpu.h"

#define VMX_ALWAYS       FEAT_1_ECX, CPUID_EXT_VMX
#define VMX_SECONDARY(x) FEAT_VMX_SECONDARY_CTLS, VMX_SECONDARY_EXEC_##x
#define VMX_PRIMARY(x)   FEAT_VMX_PROCBASED_CTLS, VMX_CPU_BASED_##x
#define VMX_PIN(x)       FEAT_VMX_PINBASED_CTLS, VMX_PIN_BASED_##x
#define VMX_EXIT(x)      FEAT_VMX_EXIT_CTLS, VMX_VM_EXIT_##x
#define VMX_ENTRY(x)     FEAT_VMX_ENTRY_CTLS, VMX_VM_ENTRY_##x

/* X(name, encoding, the feature word and bit that enumerate it) */
#define VMCS_FIELDS_16(X)                                                                          \
    X(VPID, 0x0000, VMX_SECONDARY(ENABLE_VPID))                                                    \
    X(GUEST_ES_SELECTOR, 0x0800, VMX_ALWAYS)                                                       \
    X(GUEST_CS_SELECTOR, 0x0802, VMX_ALWAYS)                                                       \
    X(GUEST_SS_SELECTOR, 0x0804, VMX_ALWAYS)                                                       \
    X(GUEST_DS_SELECTOR, 0x0806, VMX_ALWAYS)                                                       \
    X(GUEST_FS_SELECTOR, 0x0808, VMX_ALWAYS)                                                       \
    X(GUEST_GS_SELECTOR, 0x080a, VMX_ALWAYS)                                                       \
    X(GUEST_LDTR_SELECTOR, 0x080c, VMX_ALWAYS)                                                     \
    X(GUEST_TR_SELECTOR, 0x080e, VMX_ALWAYS)                                                       \
    X(HOST_ES_SELECTOR, 0x0c00, VMX_ALWAYS)                                                        \
    X(HOST_CS_SELECTOR, 0x0c02, VMX_ALWAYS)                                                        \
    X(HOST_SS_SELECTOR, 0x0c04, VMX_ALWAYS)                                                        \
    X(HOST_DS_SELECTOR, 0x0c06, VMX_ALWAYS)                                                        \
    X(HOST_FS_SELECTOR, 0x0c08, VMX_ALWAYS)                                                        \
    X(HOST_GS_SELECTOR, 0x0c0a, VMX_ALWAYS)                                                        \
    X(HOST_TR_SELECTOR, 0x0c0c, VMX_ALWAYS)

#define VMCS_FIELDS_64(X)                                                                          \
    X(IO_BITMAP_A, 0x2000, VMX_PRIMARY(USE_IO_BITMAPS))                                            \
    X(IO_BITMAP_B, 0x2002, VMX_PRIMARY(USE_IO_BITMAPS))                                            \
    X(MSR_BITMAP, 0x2004, VMX_PRIMARY(USE_MSR_BITMAPS))                                            \
    X(EXIT_MSR_STORE, 0x2006, VMX_ALWAYS)                                                          \
    X(EXIT_MSR_LOAD, 0x2008, VMX_ALWAYS)                                                           \
    X(ENTRY_MSR_LOAD, 0x200a, VMX_ALWAYS)                                                          \
    X(EXECUTIVE_VMCS, 0x200c, VMX_ALWAYS)                                                          \
    X(TSC_OFFSET, 0x2010, VMX_PRIMARY(USE_TSC_OFFSETING))                                          \
    X(EPT_POINTER, 0x201a, VMX_SECONDARY(ENABLE_EPT))                                              \
    X(TSC_MULTIPLIER, 0x2032, VMX_SECONDARY(TSC_SCALING))                                          \
    X(GUEST_PHYSICAL, 0x2400, VMX_SECONDARY(ENABLE_EPT))                                           \
    X(LINK_POINTER, 0x2800, VMX_ALWAYS)                                                            \
    X(GUEST_DEBUGCTL, 0x2802, VMX_ALWAYS)                                                          \
    X(GUEST_PAT, 0x2804, VMX_ENTRY(LOAD_IA32_PAT))                                                 \
    X(GUEST_EFER, 0x2806, VMX_ENTRY(LOAD_IA32_EFER))                                               \
    X(GUEST_PDPTE0, 0x280a, VMX_SECONDARY(ENABLE_EPT))                                             \
    X(GUEST_PDPTE1, 0x280c, VMX_SECONDARY(ENABLE_EPT))                                             \
    X(GUEST_PDPTE2, 0x280e, VMX_SECONDARY(ENABLE_EPT))                                             \
    X(GUEST_PDPTE3, 0x2810, VMX_SECONDARY(ENABLE_EPT))                                             \
    X(GUEST_RTIT_CTL, 0x2814, VMX_ENTRY(LOAD_IA32_RTIT_CTL))                                       \
    X(HOST_PAT, 0x2c00, VMX_EXIT(LOAD_IA32_PAT))                                                   \
    X(HOST_EFER, 0x2c02, VMX_EXIT(LOAD_IA32_EFER))

#define VMCS_FIELDS_32(X)                                                                          \
    X(PIN_CONTROLS, 0x4000, VMX_ALWAYS)                                                            \
    X(PRIMARY_CONTROLS, 0x4002, VMX_ALWAYS)                                                        \
    X(EXCEPTION_BITMAP, 0x4004, VMX_ALWAYS)                                                        \
    X(PAGE_FAULT_MASK, 0x4006, VMX_ALWAYS)                                                         \
    X(PAGE_FAULT_MATCH, 0x4008, VMX_ALWAYS)                                                        \
    X(CR3_TARGET_COUNT, 0x400a, VMX_ALWAYS)                                                        \
    X(EXIT_CONTROLS, 0x400c, VMX_ALWAYS)                                                           \
    X(EXIT_MSR_STORE_COUNT, 0x400e, VMX_ALWAYS)                                                    \
    X(EXIT_MSR_LOAD_COUNT, 0x4010, VMX_ALWAYS)                                                     \
    X(ENTRY_CONTROLS, 0x4012, VMX_ALWAYS)                                                          \
    X(ENTRY_MSR_LOAD_COUNT, 0x4014, VMX_ALWAYS)                                                    \
    X(ENTRY_EVENT, 0x4016, VMX_ALWAYS)                                                             \
    X(ENTRY_EVENT_ERROR, 0x4018, VMX_ALWAYS)                                                       \
    X(ENTRY_EVENT_LENGTH, 0x401a, VMX_ALWAYS)                                                      \
    X(SECONDARY_CONTROLS, 0x401e, VMX_PRIMARY(ACTIVATE_SECONDARY_CONTROLS))                        \
    X(INSTRUCTION_ERROR, 0x4400, VMX_ALWAYS)                                                       \
    X(EXIT_REASON, 0x4402, VMX_ALWAYS)                                                             \
    X(EXIT_EVENT, 0x4404, VMX_ALWAYS)                                                              \
    X(EXIT_EVENT_ERROR, 0x4406, VMX_ALWAYS)                                                        \
    X(VECTORING, 0x4408, VMX_ALWAYS)                                                               \
    X(VECTORING_ERROR, 0x440a, VMX_ALWAYS)                                                         \
    X(EXIT_LENGTH, 0x440c, VMX_ALWAYS)                                                             \
    X(EXIT_INSTRUCTION, 0x440e, VMX_ALWAYS)                                                        \
    X(GUEST_ES_LIMIT, 0x4800, VMX_ALWAYS)                                                          \
    X(GUEST_CS_LIMIT, 0x4802, VMX_ALWAYS)                                                          \
    X(GUEST_SS_LIMIT, 0x4804, VMX_ALWAYS)                                                          \
    X(GUEST_DS_LIMIT, 0x4806, VMX_ALWAYS)                                                          \
    X(GUEST_FS_LIMIT, 0x4808, VMX_ALWAYS)                                                          \
    X(GUEST_GS_LIMIT, 0x480a, VMX_ALWAYS)                                                          \
    X(GUEST_LDTR_LIMIT, 0x480c, VMX_ALWAYS)                                                        \
    X(GUEST_TR_LIMIT, 0x480e, VMX_ALWAYS)                                                          \
    X(GUEST_GDTR_LIMIT, 0x4810, VMX_ALWAYS)                                                        \
    X(GUEST_IDTR_LIMIT, 0x4812, VMX_ALWAYS)                                                        \
    X(GUEST_ES_RIGHTS, 0x4814, VMX_ALWAYS)                                                         \
    X(GUEST_CS_RIGHTS, 0x4816, VMX_ALWAYS)                                                         \
    X(GUEST_SS_RIGHTS, 0x4818, VMX_ALWAYS)                                                         \
    X(GUEST_DS_RIGHTS, 0x481a, VMX_ALWAYS)                                                         \
    X(GUEST_FS_RIGHTS, 0x481c, VMX_ALWAYS)                                                         \
    X(GUEST_GS_RIGHTS, 0x481e, VMX_ALWAYS)                                                         \
    X(GUEST_LDTR_RIGHTS, 0x4820, VMX_ALWAYS)                                                       \
    X(GUEST_TR_RIGHTS, 0x4822, VMX_ALWAYS)                                                         \
    X(GUEST_INTERRUPTIBILITY, 0x4824, VMX_ALWAYS)                                                  \
    X(GUEST_ACTIVITY, 0x4826, VMX_ALWAYS)                                                          \
    X(GUEST_SMBASE, 0x4828, VMX_ALWAYS)                                                            \
    X(GUEST_SYSENTER_CS, 0x482a, VMX_ALWAYS)                                                       \
    X(PREEMPTION_TIMER, 0x482e, VMX_PIN(VMX_PREEMPTION_TIMER))                                     \
    X(HOST_SYSENTER_CS, 0x4c00, VMX_ALWAYS)

#define VMCS_FIELDS_NATURAL(X)                                                                     \
    X(CR0_MASK, 0x6000, VMX_ALWAYS)                                                                \
    X(CR4_MASK, 0x6002, VMX_ALWAYS)                                                                \
    X(CR0_SHADOW, 0x6004, VMX_ALWAYS)                                                              \
    X(CR4_SHADOW, 0x6006, VMX_ALWAYS)                                                              \
    X(CR3_TARGET0, 0x6008, VMX_ALWAYS)                                                             \
    X(CR3_TARGET1, 0x600a, VMX_ALWAYS)                                                             \
    X(CR3_TARGET2, 0x600c, VMX_ALWAYS)                                                             \
    X(CR3_TARGET3, 0x600e, VMX_ALWAYS)                                                             \
    X(EXIT_QUALIFICATION, 0x6400, VMX_ALWAYS)                                                      \
    X(IO_RCX, 0x6402, VMX_ALWAYS)                                                                  \
    X(IO_RSI, 0x6404, VMX_ALWAYS)                                                                  \
    X(IO_RDI, 0x6406, VMX_ALWAYS)                                                                  \
    X(IO_RIP, 0x6408, VMX_ALWAYS)                                                                  \
    X(GUEST_LINEAR, 0x640a, VMX_ALWAYS)                                                            \
    X(GUEST_CR0, 0x6800, VMX_ALWAYS)                                                               \
    X(GUEST_CR3, 0x6802, VMX_ALWAYS)                                                               \
    X(GUEST_CR4, 0x6804, VMX_ALWAYS)                                                               \
    X(GUEST_ES_BASE, 0x6806, VMX_ALWAYS)                                                           \
    X(GUEST_CS_BASE, 0x6808, VMX_ALWAYS)                                                           \
    X(GUEST_SS_BASE, 0x680a, VMX_ALWAYS)                                                           \
    X(GUEST_DS_BASE, 0x680c, VMX_ALWAYS)                                                           \
    X(GUEST_FS_BASE, 0x680e, VMX_ALWAYS)                                                           \
    X(GUEST_GS_BASE, 0x6810, VMX_ALWAYS)                                                           \
    X(GUEST_LDTR_BASE, 0x6812, VMX_ALWAYS)                                                         \
    X(GUEST_TR_BASE, 0x6814, VMX_ALWAYS)                                                           \
    X(GUEST_GDTR_BASE, 0x6816, VMX_ALWAYS)                                                         \
    X(GUEST_IDTR_BASE, 0x6818, VMX_ALWAYS)                                                         \
    X(GUEST_DR7, 0x681a, VMX_ALWAYS)                                                               \
    X(GUEST_RSP, 0x681c, VMX_ALWAYS)                                                               \
    X(GUEST_RIP, 0x681e, VMX_ALWAYS)                                                               \
    X(GUEST_RFLAGS, 0x6820, VMX_ALWAYS)                                                            \
    X(GUEST_PENDING_DEBUG, 0x6822, VMX_ALWAYS)                                                     \
    X(GUEST_SYSENTER_ESP, 0x6824, VMX_ALWAYS)                                                      \
    X(GUEST_SYSENTER_EIP, 0x6826, VMX_ALWAYS)                                                      \
    X(HOST_CR0, 0x6c00, VMX_ALWAYS)                                                                \
    X(HOST_CR3, 0x6c02, VMX_ALWAYS)                                                                \
    X(HOST_CR4, 0x6c04, VMX_ALWAYS)                                                                \
    X(HOST_FS_BASE, 0x6c06, VMX_ALWAYS)                                                            \
    X(HOST_GS_BASE, 0x6c08, VMX_ALWAYS)                                                            \
    X(HOST_TR_BASE, 0x6c0a, VMX_ALWAYS)                                                            \
    X(HOST_GDTR_BASE, 0x6c0c, VMX_ALWAYS)                                                          \
    X(HOST_IDTR_BASE, 0x6c0e, VMX_ALWAYS)                                                          \
    X(HOST_SYSENTER_ESP, 0x6c10, VMX_ALWAYS)                                                       \
    X(HOST_SYSENTER_EIP, 0x6c12, VMX_ALWAYS)                                                       \
    X(HOST_RSP, 0x6c14, VMX_ALWAYS)                                                                \
    X(HOST_RIP, 0x6c16, VMX_ALWAYS)

#define VMCS_FIELDS(X) VMCS_FIELDS_16(X) VMCS_FIELDS_64(X) VMCS_FIELDS_32(X) VMCS_FIELDS_NATURAL(X)

#define VMCS_ENUM(name, ...) VMCS_##name,
enum vmcs_field { VMCS_FIELDS(VMCS_ENUM) VMCS_FIELD_COUNT };

enum vmcs_width { VMCS_16, VMCS_64, VMCS_32, VMCS_NATURAL };
enum vmcs_type { VMCS_CONTROL, VMCS_READ_ONLY, VMCS_GUEST, VMCS_HOST };

/* A region begins with its revision and the VMX-abort indicator. */
#define VMCS_BYTES    4096
#define VMCS_REVISION 0x56505401
#define VMCS_NONE     UINT64_MAX

/* The field that the encoding names, or -1; *high: its upper half. */
int vmcs_find(CPUX86State *env, uint64_t encoding, bool *high);
enum vmcs_type vmcs_type_of(enum vmcs_field field);
/* As VMREAD and VMWRITE do it, after all checks. */
uint64_t vmcs_read(CPUX86State *env, enum vmcs_field field, bool high);
void vmcs_write(CPUX86State *env, enum vmcs_field field, bool high, uint64_t value);
/* For IA32_VMX_VMCS_ENUM: the highest index, in bits 9:1. */
uint64_t vmcs_highest_index(CPUX86State *env);

/* The current VMCS, to guest memory and from there. */
void vmcs_store(CPUX86State *env);
void vmcs_load(CPUX86State *env, uint64_t address);
/* Sets the VMX-abort indicator. */
void vmcs_abort(CPUX86State *env, uint32_t why);
/* Of a VMCS that is not current: not launched. */
void vmcs_clear(CPUX86State *env, uint64_t address);

#endif
