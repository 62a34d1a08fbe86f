# SPDX-License-Identifier: BSD-3-Clause
# libvpt: the model. Uses the C library only.

EMULATION_SRC := $(wildcard emulation/*.c)
EMULATION_OBJ := $(EMULATION_SRC:%.c=$(BUILD)/%.o)
LIBVPT        := $(BUILD)/libvpt.a

$(LIBVPT): $(EMULATION_OBJ)
	@rm -f $@
	ar rcs $@ $^

ALL += $(LIBVPT)

EMULATION_TEST_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard emulation/tests/*.c))

$(BUILD)/tests/emulation: $(EMULATION_TEST_OBJ) $(LIBVPT)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcunit -lipt

TESTS += $(BUILD)/tests/emulation

# The conformance suite drives the model with the harness of the unit tests.
CONFORMANCE_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard emulation/conformance/*.c)) \
    $(patsubst %,$(BUILD)/emulation/tests/%.o,harness reader rtit_harness)

$(BUILD)/tests/conformance: $(CONFORMANCE_OBJ) $(LIBVPT)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcunit

COUNTED     += $(BUILD)/tests/conformance $(BUILD)/tests/streams $(BUILD)/tests/damage
SHELL_TESTS += emulation/conformance/doc.sh

# Random streams, decoded by libipt and by libptdec; and what is left of a damaged one.
STREAMS_OBJ := $(patsubst %,$(BUILD)/emulation/tests/%.o,harness reader program)

$(BUILD)/tests/streams: $(BUILD)/emulation/streams/main.o $(BUILD)/decoder/tests/referee.o $(STREAMS_OBJ) $(LIBVPT) $(BUILD)/libptdec.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcunit -lipt -lZydis -lelf

$(BUILD)/tests/damage: $(BUILD)/emulation/streams/damage.o $(STREAMS_OBJ) $(LIBVPT) $(BUILD)/libptdec.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcunit -lZydis -lelf

EMULATION_FUZZ_OBJ := $(EMULATION_SRC:%.c=$(FUZZ_OBJ)/%.o)

$(BUILD)/fuzz/emulation-%: $(FUZZ_OBJ)/emulation/fuzz/%.o $(EMULATION_FUZZ_OBJ)
	@mkdir -p $(@D)
	$(CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer -o $@ $^

FUZZERS += $(BUILD)/fuzz/emulation-guest $(BUILD)/fuzz/emulation-rtit

$(BUILD)/bench/bin/model: $(BUILD)/emulation/bench/model.o $(LIBVPT)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^

BENCHES += $(BUILD)/bench/bin/model
