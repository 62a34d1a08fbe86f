# SPDX-License-Identifier: BSD-3-Clause
# What vpt trace boots, and its tests.

# The first process of vpt trace's guest, a part of the program: static, at an address that no program
# is linked for, so that a test finds it in a log.
TRACE_AGENT     := $(BUILD)/trace-agent
TRACE_AGENT_SRC := $(wildcard vmm/program/agent/*.c)
TRACE_AGENT_OBJ := $(BUILD)/vmm/program/agent-image.o
VMM_OBJ         += $(TRACE_AGENT_OBJ)

$(TRACE_AGENT): $(TRACE_AGENT_SRC) $(wildcard vmm/program/agent/*.h) vmm/program/wire.h $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(call say,LD)$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra $(WERROR) -iquote vmm -fno-pie -no-pie \
	    -static -fstack-protector-strong -Wl,-Ttext-segment=0x5a000000 -o $@ $(TRACE_AGENT_SRC)

$(TRACE_AGENT).stripped: $(TRACE_AGENT)
	$(Q)strip -o $@ $<

$(TRACE_AGENT_OBJ): vmm/program/agent-image.S $(TRACE_AGENT).stripped $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(call say,AS)$(CC) -DAGENT='"$(TRACE_AGENT).stripped"' -c -o $@ $<

TRACE_KERNEL         := $(CACHE)/trace
PREPARE_TRACE_KERNEL  = vmm/program/prepare.sh $(TRACE_KERNEL)

##@ Tracing programs of this machine

trace-kernel: deps-run ## fetch and unpack the kernel that vpt trace boots
	@$(PREPARE_TRACE_KERNEL)

trace-test: deps ## programs of this machine by vpt trace: their output, exit codes and reports; each instruction, by QEMU's log
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@$(PREPARE_TRACE_KERNEL) || [ $$? = 77 ]
	@$(BUILD_QEMU) && $(SUBMAKE) qemu-tools
	@$(QEMU_ENV) vmm/program/tests/trace.sh --all

SHELL_TESTS += vmm/program/tests/trace.sh
LONG_TESTS  += trace-test

.PHONY: trace-kernel trace-test
