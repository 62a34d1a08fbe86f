# SPDX-License-Identifier: BSD-3-Clause
# libptdec: the decoder. Uses Zydis and elfutils; its tests use libipt as an independent witness.

# Each of these folders is a layer; docs/design.md says which may include which.
DECODER_PARTS := base packets code flow time whole rtit perf
DECODER_SRC   := $(wildcard $(DECODER_PARTS:%=decoder/%/*.c))
DECODER_OBJ := $(DECODER_SRC:%.c=$(BUILD)/%.o)
LIBPTDEC    := $(BUILD)/libptdec.a

# The walk gives away the addresses of single values, at each of its steps: to guard those as if they
# were arrays costs 2 % of decoding item by item. Arrays of bytes are guarded here, too.
$(filter $(BUILD)/decoder/flow/%,$(DECODER_OBJ)): override CFLAGS += -fstack-protector

$(LIBPTDEC): $(DECODER_OBJ)
	@rm -f $@
	$(Q)$(call say,AR)ar qcs $@ $^

DECODER_LIBS := -lZydis -lelf -lzstd

LIBPTDEC_HEADERS := decoder/ptdec.h decoder/ptdec_rtit.h decoder/ptdec_perf.h \
    decoder/ptdec_coverage.h
LIBPTDEC_SO      := $(BUILD)/libptdec.so.$(ABI)

$(BUILD)/libptdec.map: $(LIBPTDEC_HEADERS) .ci/exports.sh
	@mkdir -p $(@D)
	$(call version_script,libptdec,ptd,$(LIBPTDEC_HEADERS))

$(LIBPTDEC_SO): $(DECODER_OBJ) $(BUILD)/libptdec.map
	$(call shared,libptdec,$(DECODER_OBJ),$(DECODER_LIBS))

ALL += $(LIBPTDEC) $(LIBPTDEC_SO)

# The unit tests, and the witness program that compares a trace of `vpt run` with the executed path.
# libipt.c drives libipt for both.
DECODER_WITNESS_OBJ := $(addprefix $(BUILD)/decoder/tests/,witness.o libipt.o referee.o)
DECODER_TEST_OBJ    := $(filter-out %/witness.o,\
    $(patsubst %.c,$(BUILD)/%.o,$(wildcard decoder/tests/*.c)))

$(BUILD)/tests/decoder: $(DECODER_TEST_OBJ) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lcunit -lipt $(DECODER_LIBS)

$(BUILD)/tests/witness: $(DECODER_WITNESS_OBJ) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lipt -ljson-c $(DECODER_LIBS)

TESTS += $(BUILD)/tests/decoder

# Instructions by their first bytes, against Zydis.
$(BUILD)/tests/shapes: $(BUILD)/decoder/tests/shapes/main.o $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(DECODER_LIBS)

COUNTED += $(BUILD)/tests/shapes

# The .../NAME-reproduce programs take one input on stdin and need no libFuzzer.
DECODER_FUZZ_OBJ := $(DECODER_SRC:%.c=$(FUZZ_OBJ)/%.o) \
    $(addprefix $(FUZZ_OBJ)/decoder/tests/referee,.o _coverage.o _scan.o)

$(BUILD)/fuzz/decoder-%-reproduce: decoder/fuzz/%.c decoder/fuzz/reproduce.c $(DECODER_SRC)
	@mkdir -p $(@D)
	$(Q)$(call say,LD)$(CC) $(FUZZ_CFLAGS) -o $@ $< decoder/fuzz/reproduce.c $(DECODER_SRC) decoder/tests/referee*.c $(DECODER_LIBS)

$(BUILD)/fuzz/decoder-%: $(FUZZ_OBJ)/decoder/fuzz/%.o $(DECODER_FUZZ_OBJ)
	@mkdir -p $(@D)
	$(Q)$(call say,LD)$(CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer -o $@ $^ $(DECODER_LIBS)

$(FUZZ_OBJ)/decoder/perf/scan.o: FUZZ_CFLAGS += -DPTD_PERF_SMALL

FUZZERS += $(BUILD)/fuzz/decoder-packets $(BUILD)/fuzz/decoder-flow $(BUILD)/fuzz/decoder-perf
FUZZERS += $(BUILD)/fuzz/decoder-time $(BUILD)/fuzz/decoder-core $(BUILD)/fuzz/decoder-rtit
FUZZERS += $(BUILD)/fuzz/decoder-guests $(BUILD)/fuzz/decoder-stream $(BUILD)/fuzz/decoder-elf

DECODER_BENCH := $(BUILD)/decoder/bench

$(BUILD)/bench/bin/decoder: $(addprefix $(DECODER_BENCH)/,packets.o libipt.o measure.o ways.o) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lipt -lm $(DECODER_LIBS)

BENCHES += $(BUILD)/bench/bin/decoder

# Flow: traces of real programs, recorded by a plugin of QEMU's user mode (roundtrip/).
$(BUILD)/bench/bin/decode: $(addprefix $(DECODER_BENCH)/,decode.o check.o libipt.o measure.o threads.o trace.o ways.o) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lipt -lm $(DECODER_LIBS)

# The same traces into a fuzzer's map.
$(BUILD)/bench/bin/coverage: $(addprefix $(DECODER_BENCH)/,coverage.o measure.o trace.o) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lm $(DECODER_LIBS)

# How much of such a trace is told when a part of its code is missing.
$(BUILD)/bench/bin/resync: $(addprefix $(DECODER_BENCH)/,resync.o trace.o) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(DECODER_LIBS)

##@ Measuring the decoder

bench-decode: ## decode traces of real programs, next to libipt
	@.ci/deps.sh run bench
	@$(SUBMAKE) $(BENCH_RECORDER) $(BUILD)/bench/bin/decode
	@decoder/bench/traces.sh $(BENCH_RECORDER) $(BUILD)/bench/traces >$(BUILD)/bench/traces.list
	@$(BUILD)/bench/bin/decode --json $(BUILD)/bench/decode.json $$(cat $(BUILD)/bench/traces.list)
	@echo 'written: $(BUILD)/bench/decode.json'

bench-coverage: ## fill coverage from the same traces
	@.ci/deps.sh run bench
	@$(SUBMAKE) $(BENCH_RECORDER) $(BUILD)/bench/bin/coverage
	@decoder/bench/traces.sh $(BENCH_RECORDER) $(BUILD)/bench/traces >$(BUILD)/bench/traces.list
	@$(BUILD)/bench/bin/coverage --json $(BUILD)/bench/coverage.json $$(cat $(BUILD)/bench/traces.list)
	@echo 'written: $(BUILD)/bench/coverage.json'

.PHONY: bench-decode bench-coverage
