# SPDX-License-Identifier: BSD-3-Clause
# libptdec: the decoder. Uses Zydis and elfutils; its tests use libipt as an independent witness.

DECODER_SRC := $(wildcard decoder/*.c)
DECODER_OBJ := $(DECODER_SRC:%.c=$(BUILD)/%.o)
LIBPTDEC    := $(BUILD)/libptdec.a

$(LIBPTDEC): $(DECODER_OBJ)
	@rm -f $@
	ar rcs $@ $^

ALL += $(LIBPTDEC)

DECODER_LIBS := -lZydis -lelf -lzstd

# The unit tests, and the witness program that compares a trace of `vpt run` with the executed path.
# libipt.c drives libipt for both.
DECODER_WITNESS_OBJ := $(addprefix $(BUILD)/decoder/tests/,witness.o libipt.o referee.o)
DECODER_TEST_OBJ    := $(filter-out %/witness.o,\
    $(patsubst %.c,$(BUILD)/%.o,$(wildcard decoder/tests/*.c)))

# Tests that need a trace of known truth have the model make one, from random programs.
$(BUILD)/tests/decoder: $(DECODER_TEST_OBJ) $(BUILD)/emulation/tests/program.o $(LIBPTDEC) $(LIBVPT)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcunit -lipt $(DECODER_LIBS)

$(BUILD)/tests/witness: $(DECODER_WITNESS_OBJ) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lipt -ljson-c $(DECODER_LIBS)

TESTS += $(BUILD)/tests/decoder

# Fuzzers: the library is compiled again, with the sanitizers. The .../NAME-reproduce programs take
# one input on stdin and need no libFuzzer.
DECODER_FUZZ_FLAGS := -O1 -g -std=c11 -D_GNU_SOURCE -Iemulation -Idecoder \
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
DECODER_FUZZ_SRC   := $(DECODER_SRC) decoder/tests/referee.c
DECODER_FUZZ_DEPS  := $(DECODER_FUZZ_SRC) $(wildcard decoder/*.h decoder/tests/*.h) emulation/pt_packets.h

$(BUILD)/fuzz/decoder-%-reproduce: decoder/fuzz/%.c decoder/fuzz/reproduce.c $(DECODER_FUZZ_DEPS)
	@mkdir -p $(@D)
	$(CC) $(DECODER_FUZZ_FLAGS) -o $@ $< decoder/fuzz/reproduce.c $(DECODER_FUZZ_SRC) $(DECODER_LIBS)

$(BUILD)/fuzz/decoder-%: decoder/fuzz/%.c $(DECODER_FUZZ_DEPS)
	@mkdir -p $(@D)
	$(CLANG) $(DECODER_FUZZ_FLAGS) -fsanitize=fuzzer -o $@ $< $(DECODER_FUZZ_SRC) $(DECODER_LIBS)

FUZZERS += $(BUILD)/fuzz/decoder-packets $(BUILD)/fuzz/decoder-flow $(BUILD)/fuzz/decoder-perf
FUZZERS += $(BUILD)/fuzz/decoder-time $(BUILD)/fuzz/decoder-core

$(BUILD)/bench/bin/decoder: $(BUILD)/decoder/bench/packets.o $(LIBPTDEC)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lipt -lm $(DECODER_LIBS)

BENCHES += $(BUILD)/bench/bin/decoder

# Flow: traces of real programs, recorded by a plugin of QEMU's user mode.
BENCH_RECORDER := $(BUILD)/bench/bin/record.so

$(BENCH_RECORDER): $(BUILD)/decoder/bench/record.o $(LIBVPT) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -shared -o $@ $^ $(DECODER_LIBS)

$(BUILD)/bench/bin/decode: $(BUILD)/decoder/bench/decode.o $(LIBPTDEC)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lipt -lm $(DECODER_LIBS)

bench-decode: ## decode traces of real programs, next to libipt
	@.ci/deps.sh run bench
	@$(SUBMAKE) $(BENCH_RECORDER) $(BUILD)/bench/bin/decode
	@decoder/bench/traces.sh $(BENCH_RECORDER) $(BUILD)/bench/traces >$(BUILD)/bench/traces.list
	@$(BUILD)/bench/bin/decode --json $(BUILD)/bench/decode.json $$(cat $(BUILD)/bench/traces.list)
	@echo 'written: $(BUILD)/bench/decode.json'

.PHONY: bench-decode
