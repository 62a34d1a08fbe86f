# SPDX-License-Identifier: BSD-3-Clause
# What needs both libraries: the model makes a trace, the decoder reads it, and what ran is the truth.

ROUNDTRIP := $(BUILD)/decoder/roundtrip

# Random programs and the model's harness are those of the model's own tests.
ROUNDTRIP_HARNESS := $(patsubst %,$(BUILD)/emulation/tests/%.o,harness reader program)

# What repeats a trace of hardware, without its command line.
REPLAY_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard decoder/roundtrip/replay/*.c))
REPLAY_LIB := $(filter-out %/main.o %/options.o %/perf.o,$(REPLAY_OBJ))

$(BUILD)/tests/roundtrip: $(patsubst %.c,$(BUILD)/%.o,$(wildcard decoder/roundtrip/tests/*.c)) $(REPLAY_LIB) \
    $(ROUNDTRIP)/gaps.o $(ROUNDTRIP)/world.o $(BUILD)/decoder/tests/support.o $(BUILD)/decoder/tests/referee.o \
    $(ROUNDTRIP_HARNESS) $(LIBPTDEC) $(LIBVPT)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lcunit -lipt -ljson-c $(DECODER_LIBS)

TESTS += $(BUILD)/tests/roundtrip

# Records a program of the system as `perf record` would, by single-stepping it.
$(BUILD)/tests/stepped: $(ROUNDTRIP)/stepped.o $(LIBPTDEC) $(LIBVPT)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(DECODER_LIBS)

tests: $(BUILD)/tests/stepped

# Random streams, decoded by libipt and by libptdec; and what is left of a damaged one.
$(BUILD)/tests/streams: $(ROUNDTRIP)/streams/main.o $(ROUNDTRIP)/gaps.o $(BUILD)/decoder/tests/referee.o $(ROUNDTRIP_HARNESS) $(LIBVPT) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lcunit -lipt $(DECODER_LIBS)

$(BUILD)/tests/damage: $(ROUNDTRIP)/streams/damage.o $(ROUNDTRIP_HARNESS) $(LIBVPT) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lcunit $(DECODER_LIBS)

# Same trace, same answer: what ran, libptdec, libipt and stock perf.
SAME_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard decoder/roundtrip/same/*.c)) $(ROUNDTRIP_HARNESS)

$(BUILD)/tests/same: $(SAME_OBJ) $(LIBVPT) $(LIBPTDEC) | $(BUILD)/bench/bin/record.so
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lcunit -lipt $(DECODER_LIBS)

# Invariants of a trace, over every setting of the model.
INVARIANTS_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard decoder/roundtrip/invariants/*.c)) \
    $(BUILD)/emulation/tests/reader.o

$(BUILD)/tests/invariants: $(INVARIANTS_OBJ) $(LIBVPT) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lipt $(DECODER_LIBS)

COUNTED += $(BUILD)/tests/streams $(BUILD)/tests/damage $(BUILD)/tests/same $(BUILD)/tests/invariants

# Records what a program executes under QEMU's user mode, and its trace by the model.
BENCH_RECORDER := $(BUILD)/bench/bin/record.so

$(BENCH_RECORDER): $(ROUNDTRIP)/record.o $(LIBVPT) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK_SHARED) -o $@ $^ $(DECODER_LIBS)

# Traces of hardware, repeated by the model.
$(BUILD)/tests/replay: $(REPLAY_OBJ) $(LIBVPT) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -ljson-c $(DECODER_LIBS)

# The script needs the program, and runs it on what there is.
tests: $(BUILD)/tests/replay
SHELL_TESTS += decoder/roundtrip/replay/replay.sh

replay: ## traces of hardware, repeated by the model and compared packet by packet
	@$(SUBMAKE) $(BUILD)/tests/replay
	@BUILD='$(BUILD)' decoder/roundtrip/replay/replay.sh

.PHONY: replay
