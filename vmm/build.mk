# SPDX-License-Identifier: BSD-3-Clause
# The program vpt: the KVM backend, the lab, the subcommands.

VMM_PARTS := cli demux common linux linux/look view report trace symbols run kvm lab monitor libvirt kit program record hostpt
VMM_SRC  := $(wildcard $(VMM_PARTS:%=vmm/%/*.c))
VMM_OBJ  := $(VMM_SRC:%.c=$(BUILD)/%.o)
VMM_LIBS := $(DECODER_LIBS) -ljson-c

# Without libseccomp there is less of a sandbox; `vpt --version` says what there is.
VMM_SECCOMP := $(shell pkg-config --libs libseccomp 2>/dev/null)
VMM_LIBS    += $(VMM_SECCOMP)

$(FUZZ_OBJ)/vmm/view/piece.o: FUZZ_CFLAGS += -DVPT_VERSION='"$(VERSION)"'

$(BUILD)/vmm/common/sandbox.o: override CPPFLAGS += $(if $(VMM_SECCOMP),-DVPT_SECCOMP)

# Without protobuf-c there is no --format perfetto. Its header is made from the messages.
VMM_PROTOBUF := $(if $(shell command -v protoc-c),$(shell pkg-config --libs libprotobuf-c 2>/dev/null))
VMM_LIBS     += $(VMM_PROTOBUF)
VMM_MESSAGES := $(if $(VMM_PROTOBUF),$(BUILD)/messages/perfetto.pb-c)

$(BUILD)/messages/%.pb-c.c $(BUILD)/messages/%.pb-c.h &: vmm/view/%.proto
	@mkdir -p $(@D)
	$(Q)$(call say,GEN)protoc-c --proto_path=$(<D) --c_out=$(@D) $<

$(BUILD)/messages/%.o: $(BUILD)/messages/%.c
	$(Q)$(call say,CC)$(CC) $(CPPFLAGS) $(CFLAGS) -w -c -o $@ $<

ifneq ($(VMM_MESSAGES),)
VMM_OBJ += $(VMM_MESSAGES).o
$(BUILD)/vmm/view/out-perfetto.o: override CPPFLAGS += -DVPT_PERFETTO -isystem $(BUILD)/messages
$(BUILD)/vmm/view/out-perfetto.o: $(VMM_MESSAGES).h
endif

# Names of functions. Without libiberty those of C++ and Rust stay mangled, without liblzma there is no
# MiniDebugInfo, without libdw there are no lines. $(call has_header,HEADER,WHAT)
has_header    = $(if $(shell printf '\#include <$(1)>\n' | $(CC) -E - 2>/dev/null | head -c 1),$(2))
VMM_LIBIBERTY := $(call has_header,libiberty/demangle.h,-liberty)
VMM_LZMA      := $(shell pkg-config --libs liblzma 2>/dev/null)
VMM_LIBDW     := $(shell pkg-config --libs libdw 2>/dev/null)
VMM_SYMBOLS   := $(if $(VMM_LIBDW),-DVPT_LIBDW) $(if $(VMM_LIBIBERTY),-DVPT_LIBIBERTY) $(if $(VMM_LZMA),-DVPT_LZMA)
VMM_LIBS      += $(VMM_LIBDW) $(VMM_LIBIBERTY) $(VMM_LZMA)

$(BUILD)/vmm/symbols/%.o: override CPPFLAGS += $(VMM_SYMBOLS)
$(FUZZ_OBJ)/vmm/symbols/%.o: FUZZ_CFLAGS += $(VMM_SYMBOLS)

# The page of vpt report --html, a part of the program. Without npm it is empty, and there is no page.
VMM_PAGE       := $(BUILD)/page/page.html
VMM_PAGE_OBJ   := $(BUILD)/vmm/report/page-template.o
VMM_PAGE_SRC   := $(wildcard vmm/page/*.js vmm/page/*.css vmm/page/*.html vmm/page/*.mjs vmm/page/*.json)
VMM_NPM        := $(shell command -v npm)
VMM_OBJ        += $(VMM_PAGE_OBJ)
VMM_LIBS       += -lz

VMM_NPM_STAMP  := $(BUILD)/.npm
ifneq ($(strip $(VMM_NPM)),$(strip $(file <$(VMM_NPM_STAMP))))
$(VMM_NPM_STAMP): FORCE
endif
$(VMM_NPM_STAMP):
	@mkdir -p $(@D)
	@printf '%s\n' '$(VMM_NPM)' >$@

$(VMM_PAGE): vmm/page/build.sh $(VMM_PAGE_SRC) $(VMM_NPM_STAMP)
	$(Q)$(call say,GEN)vmm/page/build.sh $(CACHE)/page $@

$(VMM_PAGE_OBJ): vmm/report/page-template.S $(VMM_PAGE) $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(call say,AS)$(CC) -DPAGE='"$(VMM_PAGE)"' -c -o $@ $<

# What depends on a library that may come or go is compiled again when it does.
VMM_FEATURES       := $(if $(VMM_SECCOMP),seccomp) $(if $(VMM_PROTOBUF),protobuf) $(VMM_SYMBOLS)
VMM_FEATURES_STAMP := $(BUILD)/.features
ifneq ($(strip $(VMM_FEATURES)),$(strip $(file <$(VMM_FEATURES_STAMP))))
$(VMM_FEATURES_STAMP): FORCE
endif
$(VMM_FEATURES_STAMP):
	@mkdir -p $(@D)
	@printf '%s\n' '$(strip $(VMM_FEATURES))' >$@

$(BUILD)/vmm/common/sandbox.o $(BUILD)/vmm/view/out-perfetto.o: $(VMM_FEATURES_STAMP)
$(patsubst %.c,$(BUILD)/%.o,$(wildcard vmm/symbols/*.c)): $(VMM_FEATURES_STAMP)
VPT      := $(BUILD)/vpt

include vmm/program/build.mk

$(VPT): $(VMM_OBJ) $(LIBVPT) $(LIBPTDEC)
	$(LINK) -o $@ $^ $(VMM_LIBS)

ALL += $(VPT)

include vmm/cli/build.mk
include vmm/tests/faults/build.mk

# Everything but main(), for the unit tests.
VMM_TEST_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard vmm/tests/*.c))
VMM_PART_OBJ := $(filter-out $(BUILD)/vmm/cli/main.o,$(VMM_OBJ))

$(BUILD)/tests/vmm: $(VMM_TEST_OBJ) $(VMM_PART_OBJ) $(LIBVPT) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lcunit $(VMM_LIBS)

TESTS += $(BUILD)/tests/vmm

include vmm/demux/tests/build.mk

# Fuzzes map files, TRACE.json, perf.data with the files that they name, guests' memory, and symbols.
VMM_FUZZ_OBJ := $(patsubst %.c,$(FUZZ_OBJ)/%.o,$(filter-out vmm/cli/main.c,$(VMM_SRC)))

$(BUILD)/fuzz/vmm-%: $(FUZZ_OBJ)/vmm/fuzz/%.o $(VMM_FUZZ_OBJ) $(VMM_PAGE_OBJ) $(TRACE_AGENT_OBJ) $(DECODER_FUZZ_OBJ) $(LIBVPT)
	@mkdir -p $(@D)
	$(Q)$(call say,LD)$(CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer -o $@ $^ $(VMM_LIBS)

FUZZERS += $(BUILD)/fuzz/vmm-mapfile $(BUILD)/fuzz/vmm-sidecar $(BUILD)/fuzz/vmm-perf-data \
           $(BUILD)/fuzz/vmm-linux $(BUILD)/fuzz/vmm-symbols $(BUILD)/fuzz/vmm-names-log \
           $(BUILD)/fuzz/vmm-jitdump $(BUILD)/fuzz/vmm-perf-map $(BUILD)/fuzz/vmm-piece

$(BUILD)/fuzz/vmm-linux: $(FUZZ_OBJ)/vmm/tests/made_linux.o $(FUZZ_OBJ)/vmm/tests/made_btf.o

# Guests for the tests of the program itself.
CLI_GUESTS := $(patsubst vmm/tests/guests/%.S,$(BUILD)/vmm/tests/guests/%.elf,\
    $(wildcard vmm/tests/guests/*.S)) $(BUILD)/vmm/tests/guests/small32.elf
CLI_LINK   := -nostdlib -static -no-pie -Wl,--build-id=none -Wl,--no-warn-rwx-segments \
    -T vmm/tests/guests/guest.ld

$(BUILD)/vmm/tests/guests/%.elf: vmm/tests/guests/%.S vmm/tests/guests/guest.ld vmm/tests/guests/guest.inc
	@mkdir -p $(@D)
	$(Q)$(call say,LD)$(CC) -m64 $(CLI_LINK) -o $@ $<

$(BUILD)/vmm/tests/guests/small32.elf: vmm/tests/guests/status.S vmm/tests/guests/guest.ld
	@mkdir -p $(@D)
	$(Q)$(call say,LD)$(CC) -m32 $(CLI_LINK) -o $@ $<

ALL         += $(CLI_GUESTS)
SHELL_TESTS += vmm/tests/cli.sh vmm/tests/options.sh vmm/tests/outputs.sh vmm/tests/terminal.sh \
               vmm/tests/files.sh vmm/tests/long.sh vmm/tests/migrate.sh vmm/tests/smp.sh vmm/tests/perf.sh \
               vmm/tests/perf-report.sh vmm/tests/shards.sh vmm/tests/annotate.sh vmm/tests/coverage.sh \
               vmm/tests/report.sh \
               vmm/tests/filters.sh vmm/tests/between.sh vmm/tests/calls.sh \
               vmm/tests/kit.sh vmm/tests/perfetto.sh vmm/tests/several.sh vmm/tests/older-guest.sh \
               vmm/tests/page.sh vmm/tests/memory.sh

$(BUILD)/bench/bin/vmm: $(BUILD)/vmm/bench/kvm.o $(VMM_PART_OBJ) $(LIBVPT) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(VMM_LIBS)

BENCHES += $(BUILD)/bench/bin/vmm

# What is known of addresses in a file, for a script that asks other programs too.
$(BUILD)/tests/ask: $(BUILD)/vmm/tests/symbols/ask.o $(VMM_PART_OBJ) $(LIBVPT) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(VMM_LIBS)

ALL         += $(BUILD)/tests/ask
SHELL_TESTS += vmm/tests/symbols/compare.sh

# How much memory a long perf.data takes: recordings, and a command's peak.
$(BUILD)/tests/long-perf: $(BUILD)/vmm/tests/memory/long-perf.o $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(DECODER_LIBS)

ALL += $(BUILD)/tests/long-perf

# Hostile inputs of two sizes, each measured in instructions.
$(BUILD)/tests/scaling: $(patsubst %.c,$(BUILD)/%.o,$(wildcard vmm/tests/scaling/*.c)) $(LIBPTDEC) | $(VPT)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(DECODER_LIBS)

COUNTED += $(BUILD)/tests/scaling

memory-long: ## a perf.data of 1 GiB, reported and taken apart in bounded memory
	@$(SUBMAKE) all
	@vmm/tests/memory.sh 1024

scaling: ## hostile inputs of two sizes: does what is linear stay linear?
	@.ci/deps.sh run test
	@$(SUBMAKE) $(BUILD)/tests/scaling
	@$(BUILD)/tests/scaling --all

# Of GRUB, since stock QEMU boots an image without it.
kit-test: deps ## the guest tests on other hypervisors, by vpt guest-tests: stock QEMU, KVM, a disc of GRUB
	@.ci/deps.sh kit
	@$(SUBMAKE) all
	@vmm/tests/kit.sh

kit-doc: deps ## write the tables of docs/test-a-hypervisor.md: what comes of the kit on QEMU and KVM
	@$(SUBMAKE) all
	@vmm/tests/kit-doc.sh $(VPT) docs/test-a-hypervisor.md

shard-test: deps ## traces in pieces by array jobs of a Slurm that runs here, and by GNU parallel
	@.ci/deps.sh shard || echo 'going on with what there is'
	@$(SUBMAKE) all
	@vmm/tests/shards.sh
	@vmm/tests/slurm.sh

page-test: deps ## the page of vpt report --html in a browser; one of a trace of some 20 million branches
	@.ci/deps.sh page || echo 'going on without npm or a browser'
	@.ci/deps.sh bench || echo 'going on without what records a long trace'
	@$(SUBMAKE) all $(BENCH_RECORDER) $(BUILD)/tests/stepped
	@decoder/bench/traces.sh $(BENCH_RECORDER) $(BUILD)/bench/traces >/dev/null
	@VPT_CACHE='$(CACHE)' BUILD='$(BUILD)' LONG=1 vmm/tests/page.sh

LONG_TESTS += kit-test shard-test page-test memory-long

.PHONY: page-test shard-test memory-long scaling kit-test kit-doc

##@ Measuring hosts with guests

# Programs that take --json FILE and traces: $(HOSTS_BENCHES).
# Two pieces of a trace, next to one process.
$(BUILD)/bench/bin/shards: vmm/bench/shards.sh $(VPT)
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec %s %s "$$@"\n' '$(CURDIR)/vmm/bench/shards.sh' '$(abspath $(VPT))' >$@
	@chmod +x $@

HOSTS_BENCHES += $(BUILD)/bench/bin/shards

bench-hosts: ## take hosts' traces apart, and long ones in pieces, next to decoding them
	@.ci/deps.sh run bench
	@$(SUBMAKE) $(BENCH_RECORDER) $(HOSTS_BENCHES)
	@decoder/bench/traces.sh $(BENCH_RECORDER) $(BUILD)/bench/traces >$(BUILD)/bench/traces.list
	@vmm/bench/hosts.sh $(BUILD)/bench $(BUILD)/bench/traces.list $(HOSTS_BENCHES)

.PHONY: bench-hosts
