# SPDX-License-Identifier: BSD-3-Clause
# The program vpt: the KVM backend, the lab, the subcommands.

VMM_SRC  := $(wildcard vmm/*.c vmm/kvm/*.c vmm/lab/*.c)
VMM_OBJ  := $(VMM_SRC:%.c=$(BUILD)/%.o)
VMM_LIBS := $(DECODER_LIBS) -ljson-c
VPT      := $(BUILD)/vpt

$(VPT): $(VMM_OBJ) $(LIBVPT) $(LIBPTDEC)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(VMM_LIBS)

ALL += $(VPT)

# Everything but main(), for the unit tests.
VMM_TEST_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard vmm/tests/*.c))
VMM_PART_OBJ := $(filter-out $(BUILD)/vmm/main.o,$(VMM_OBJ))

$(BUILD)/tests/vmm: $(VMM_TEST_OBJ) $(VMM_PART_OBJ) $(LIBVPT) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcunit $(VMM_LIBS)

TESTS += $(BUILD)/tests/vmm
