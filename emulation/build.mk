# SPDX-License-Identifier: BSD-3-Clause
# libvpt: the model. Uses the C library only.

EMULATION_SRC := $(wildcard emulation/*.c)
EMULATION_OBJ := $(EMULATION_SRC:%.c=$(BUILD)/%.o)
LIBVPT        := $(BUILD)/libvpt.a

# Its arrays hold one packet each, of a length that is a constant; guards cost 6 % of a traced branch.
$(BUILD)/emulation/packets.o: override CFLAGS += -fno-stack-protector

$(LIBVPT): $(EMULATION_OBJ)
	@rm -f $@
	$(Q)$(call say,AR)ar qcs $@ $^

LIBVPT_HEADERS := emulation/vpt.h emulation/vpt_caps.h emulation/vpt_rtit.h
LIBVPT_SO      := $(BUILD)/libvpt.so.$(ABI)

$(BUILD)/libvpt.map: $(LIBVPT_HEADERS) .ci/exports.sh
	@mkdir -p $(@D)
	$(call version_script,libvpt,vpt,$(LIBVPT_HEADERS))

$(LIBVPT_SO): $(EMULATION_OBJ) $(BUILD)/libvpt.map
	$(call shared,libvpt,$(EMULATION_OBJ))

ALL += $(LIBVPT) $(LIBVPT_SO)

EMULATION_TEST_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard emulation/tests/*.c))

$(BUILD)/tests/emulation: $(EMULATION_TEST_OBJ) $(LIBVPT)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lcunit -lipt

TESTS += $(BUILD)/tests/emulation

# The conformance suite drives the model with the harness of the unit tests.
CONFORMANCE_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard emulation/conformance/*.c)) \
    $(patsubst %,$(BUILD)/emulation/tests/%.o,harness reader rtit_harness)

$(BUILD)/tests/conformance: $(CONFORMANCE_OBJ) $(LIBVPT)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lcunit

COUNTED     += $(BUILD)/tests/conformance
SHELL_TESTS += emulation/conformance/doc.sh

EMULATION_FUZZ_OBJ := $(EMULATION_SRC:%.c=$(FUZZ_OBJ)/%.o)

$(BUILD)/fuzz/emulation-%: $(FUZZ_OBJ)/emulation/fuzz/%.o $(EMULATION_FUZZ_OBJ)
	@mkdir -p $(@D)
	$(Q)$(call say,LD)$(CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer -o $@ $^

FUZZERS += $(BUILD)/fuzz/emulation-guest $(BUILD)/fuzz/emulation-rtit

# Its loops take a nanosecond: where they happen to begin in a line of cache must not count.
$(BUILD)/emulation/bench/model.o: override CFLAGS += -falign-functions=64 -falign-loops=32

$(BUILD)/bench/bin/model: $(BUILD)/emulation/bench/model.o $(LIBVPT)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^

BENCHES += $(BUILD)/bench/bin/model
