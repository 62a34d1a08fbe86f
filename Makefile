# SPDX-License-Identifier: BSD-3-Clause
# vpt: see README.md. `make help` lists the targets. Each folder's build.mk says what is built from it.
#
# A build.mk appends to these:
#   ALL          libraries, programs and guest images
#   TESTS        CUnit programs, $(BUILD)/tests/NAME
#   COUNTED      test programs that end with 'N passed, N failed', $(BUILD)/tests/NAME
#   SHELL_TESTS  scripts in the tree that end with 'N passed, N failed'
#   FUZZERS      libFuzzer programs, $(BUILD)/fuzz/NAME
#   MAN_PAGES    pages of the manual, and COMPLETIONS, of bash, that make install brings; ALL has them, too
#   BENCHES      programs that take --json FILE, $(BUILD)/bench/bin/NAME
#   LONG_TESTS   targets of `make test-all` that are too long for `make test`

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

VERSION := 0.1.0
# Of both shared libraries, a part of their sonames. 0 until the interfaces are settled.
ABI     := 0

BUILD   ?= build
CC      := $(if $(filter default,$(origin CC)),gcc,$(CC))
CLANG   ?= clang
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
DESTDIR ?=
PYTHONDIR ?= $(PREFIX)/lib/python3/dist-packages
CACHE   ?= $(or $(VPT_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/vpt)
JOBS    ?= $(shell nproc)
V       ?= 0

LONG_FUZZ    := $(or $(FUZZ_SECONDS),600)
FUZZ_SECONDS ?= 10

# Headers are named from the root of the part that holds them: "flow/flow.h", "trace/sidecar.h".
ROOTS := -iquote emulation -iquote decoder -iquote vmm

CFLAGS ?= -O2 -g

# What makes a mistake in memory harder to use. Of -fcf-protection it is the shadow stack, the half that
# Linux has for programs; landing pads would cost 1 % of decoding. _FORTIFY_SOURCE needs an optimizing
# compiler, and it takes from the sanitizers what they look at.
HARDENING := -fstack-protector-strong -fstack-clash-protection -fcf-protection=return
ifneq ($(filter -O%,$(CFLAGS)),)
ifeq ($(filter -O0 -fsanitize%,$(CFLAGS) $(EXTRA_CFLAGS)),)
HARDENING += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
endif
endif
HARDENED_LINK := -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack

WERROR ?= -Werror
override CFLAGS   += -std=c11 -Wall -Wextra $(WERROR) -Wshadow -Wstrict-prototypes \
                     -Wmissing-prototypes -fno-strict-aliasing -fPIC -fno-semantic-interposition \
                     $(HARDENING) $(EXTRA_CFLAGS)
override CPPFLAGS += -D_GNU_SOURCE $(ROOTS) -MMD -MP
override LDFLAGS  += $(HARDENED_LINK) $(EXTRA_LDFLAGS)

# Changes when the compiler or its flags do: every object depends on it.
FLAGS_STAMP := $(BUILD)/.flags

ALL         :=
TESTS       :=
SHELL_TESTS :=
COUNTED     :=
FUZZERS     :=
BENCHES     :=
LONG_TESTS  :=
MAN_PAGES   :=
COMPLETIONS :=

# Fuzzers are made of objects that are compiled with the sanitizers, once for all of them.
FUZZ_OBJ    := $(BUILD)/fuzz/obj
FUZZ_CFLAGS := -O1 -g -std=c11 -D_GNU_SOURCE -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION \
               $(ROOTS) \
               -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

# What is told about the libraries, what make install brings, and the scripts of .ci themselves.
SHELL_TESTS += .ci/tests/interface.sh .ci/tests/install.sh .ci/tests/scripts.sh

include emulation/build.mk
include decoder/build.mk
include decoder/python/build.mk
include decoder/roundtrip/build.mk
include vmm/build.mk
include guest-tests/build.mk
include vmm/qemu/build.mk
include vmm/kvm-linux/build.mk
include vmm/packaging/build.mk

# Says in a line what is made, or with V=1 how: the command itself.
ifeq ($(V),1)
Q   :=
say :=
else
Q   := @
say = $(if $(findstring s,$(firstword -$(MAKEFLAGS))),,$(info $(EMPTY)  $(1)  $@))
endif

# The head of a recipe that links a program, or a shared object.
LINK        = $(Q)$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -pie
LINK_SHARED = $(Q)$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -shared

# A shared library NAME.so.$(ABI) from its objects and its version script $(BUILD)/NAME.map. What it
# needs is named, and all of it: it links nothing else of this project. $(call shared,NAME,OBJECTS,LIBS)
shared = $(LINK_SHARED) -Wl,-soname,$(1).so.$(ABI) -Wl,--version-script=$(BUILD)/$(1).map \
         -Wl,--no-undefined -Wl,-Bsymbolic-functions -o $@ $(2) $(3)

# What a library exports is what its public headers declare. $(call version_script,NAME,PREFIX,HEADERS)
version_script = $(Q)CC='$(CC)' .ci/exports.sh --map $(shell echo $(1) | tr a-z A-Z)_$(ABI) $(2) $(3) >$@

# A sub-make with all cores, unless the caller chose a number of jobs already.
SUBMAKE = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))

##@ Building

all: $(ALL) ## libraries, the program vpt, guest images

tests: all $(TESTS) $(COUNTED) $(FUZZERS) $(BUILD)/tests/witness ## the same, and what `make test` runs

FLAGS_NOW   := $(CC) | $(CLANG) | $(CPPFLAGS) | $(CFLAGS) | $(LDFLAGS)
ifneq ($(strip $(FLAGS_NOW)),$(strip $(file <$(FLAGS_STAMP))))
$(FLAGS_STAMP): FORCE
endif
$(FLAGS_STAMP):
	@mkdir -p $(@D)
	@printf '%s\n' '$(FLAGS_NOW)' >$@

$(BUILD)/%.o: %.c $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(call say,CC)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(FUZZ_OBJ)/%.o: %.c $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(call say,CC)$(CLANG) $(FUZZ_CFLAGS) -MMD -MP -fsanitize=fuzzer-no-link -c -o $@ $<

.PRECIOUS: $(FUZZ_OBJ)/%.o

# What packages are made of (make deb) has a build of its own.
-include $(shell find $(BUILD) -path $(BUILD)/deb -prune -o -name '*.d' -type f -print 2>/dev/null)

deps: ## install the Debian packages that building, running and testing need
	@.ci/deps.sh run test

deps-run: ## only those that `make run` needs
	@.ci/deps.sh run

lab: deps-run ## fetch and lay out the lab: a kernel and an initramfs for a full KVM anywhere
	@vmm/lab/prepare.sh $(CACHE)/lab

# Where the lab cannot be had, guests that need it say so themselves.
PREPARE_LAB = vmm/lab/prepare.sh $(CACHE)/lab || echo 'going on without the lab'

clean: ## remove everything that was built (not the lab)
	@rm -rf $(BUILD) guest-tests/build

##@ Running

run: deps-run ## a guest traces itself, and the host reads the path back
	@$(SUBMAKE) all
	@$(PREPARE_LAB)
	@mkdir -p $(BUILD)/run
	@VPT_CACHE='$(CACHE)' BUILD='$(BUILD)' .ci/demo.sh

##@ Testing

test: deps ## everything: unit tests, fuzzing for a short time, guests end to end
	@if .ci/deps.sh qemu; then $(BUILD_QEMU); else echo 'going on without a QEMU of our own'; fi
	@$(SUBMAKE) tests
	@$(PREPARE_LAB)
	@VPT_CACHE='$(CACHE)' BUILD='$(BUILD)' CC='$(CC)' FUZZ_SECONDS='$(FUZZ_SECONDS)' JOBS='$(JOBS)' .ci/test.sh \
	    --units '$(TESTS)' --scripts '$(COUNTED) $(SHELL_TESTS)' --fuzzers '$(FUZZERS)' --guests

test-all: ## make test, and guests that take longer: each profile of hardware, Linux, QEMU on KVM
	@status=0; for target in test $(LONG_TESTS); do \
	    $(MAKE) --no-print-directory $$target || status=1; \
	done; exit $$status

unit: ## only the unit tests
	@$(SUBMAKE) $(TESTS)
	@BUILD='$(BUILD)' JOBS='$(JOBS)' .ci/test.sh --units '$(TESTS)'

conformance: ## every rule of the specification that has a test, one line each
	@$(SUBMAKE) $(BUILD)/tests/conformance
	@$(BUILD)/tests/conformance

conformance-doc: ## write docs/conformance.md and docs/conformance-text.md
	@$(SUBMAKE) $(BUILD)/tests/conformance
	@$(BUILD)/tests/conformance --markdown >docs/conformance.md
	@$(BUILD)/tests/conformance --inventory >docs/conformance-text.md

streams: ## random programs on random processors, decoded by libipt and libptdec
	@$(SUBMAKE) $(BUILD)/tests/streams
	@$(BUILD)/tests/streams 200000000

invariants: ## 1,000,000,000 random events under every setting, checked from the packets alone
	@$(SUBMAKE) $(BUILD)/tests/invariants
	@$(BUILD)/tests/invariants --events 1000000000

coverage: ## line and branch coverage of the model by its tests
	@$(SUBMAKE) BUILD=$(BUILD)/coverage EXTRA_CFLAGS='--coverage -O0' EXTRA_LDFLAGS=--coverage \
	    $(BUILD)/coverage/tests/emulation $(BUILD)/coverage/tests/conformance
	@find $(BUILD)/coverage -name '*.gcda' -delete
	@$(BUILD)/coverage/tests/emulation >/dev/null && $(BUILD)/coverage/tests/conformance >/dev/null
	@.ci/coverage.sh $(BUILD)/coverage emulation

mutants: ## change the model in 300 ways, and see whether the tests notice (needs python3; long)
	@emulation/mutation/run.py --count 300 $(if $(CONFORMANCE),--only conformance)

SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

asan: ## the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@UNIT_LIMIT=1500 $(SUBMAKE) BUILD=$(BUILD)/asan EXTRA_CFLAGS='$(SANITIZE)' EXTRA_LDFLAGS='$(SANITIZE)' unit

# libvpt has neither threads nor globals, and its tests would take minutes: all others.
RACES := -fsanitize=thread -fno-omit-frame-pointer

tsan: ## the unit tests with threads, and the threads of a capture, under ThreadSanitizer
	@$(SUBMAKE) BUILD=$(BUILD)/tsan EXTRA_CFLAGS='$(RACES)' EXTRA_LDFLAGS='$(RACES)' tsan-tests

tsan-tests: $(filter-out %/emulation,$(TESTS)) $(CAPTURE_THREADS)
	@BUILD='$(BUILD)' JOBS='$(JOBS)' UNIT_LIMIT=3600 .ci/test.sh --units '$(filter-out %/emulation,$(TESTS))' --scripts '$(CAPTURE_THREADS)'

.PHONY: tsan tsan-tests

valgrind: ## the unit tests under valgrind
	@$(SUBMAKE) $(TESTS)
	@BUILD='$(BUILD)' JOBS='$(JOBS)' .ci/test.sh --valgrind --units '$(TESTS)'

fuzz: ## each fuzzer for FUZZ_SECONDS (600)
	@$(SUBMAKE) $(FUZZERS)
	@BUILD='$(BUILD)' FUZZ_SECONDS='$(LONG_FUZZ)' JOBS='$(JOBS)' .ci/test.sh --fuzzers '$(FUZZERS)'

bench: ## measure, print medians, write $(BUILD)/bench/model.json
	@$(SUBMAKE) all $(BENCHES)
	@.ci/bench.sh $(BUILD)/bench $(BENCHES)

abi: ## what changed in the interfaces of the shared libraries; fails if a function is gone
	@.ci/deps.sh abi || echo 'going on without abidiff'
	@$(SUBMAKE) $(LIBVPT) $(LIBVPT_SO) $(LIBPTDEC_SO)
	@BUILD='$(BUILD)' CC='$(CC)' ABI='$(ABI)' .ci/abi.sh check

abi-update: ## write the interfaces as they are now to .ci/abi
	@$(SUBMAKE) $(LIBVPT_SO) $(LIBPTDEC_SO)
	@BUILD='$(BUILD)' ABI='$(ABI)' .ci/abi.sh update

lint: ## clang-format, clang-tidy, cppcheck, shellcheck
	@.ci/deps.sh run test
	@JOBS=$(JOBS) .ci/lint.sh

docs-test: deps ## the commands of the tutorials, line by line as their reader types them
	@.ci/deps.sh qemu
	@VPT_CACHE='$(CACHE)' .ci/docs-test.py $(PAGES)

LONG_TESTS += docs-test

format: ## clang-format every C file in place
	@git ls-files -co --exclude-standard -- '*.c' '*.h' | xargs -r clang-format -i

##@ Installing

# Not INSTALL, which tools that build packages set to a program.
DO_INSTALL = DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' PYTHONDIR='$(PYTHONDIR)' \
    VERSION='$(VERSION)' ABI='$(ABI)' BUILD='$(BUILD)' MAN_PAGES='$(MAN_PAGES)' COMPLETIONS='$(COMPLETIONS)' .ci/install.sh

install: all ## into $(DESTDIR)$(PREFIX): program, libraries, headers, guests, scripts, docs
	@$(DO_INSTALL) install

uninstall: ## remove what install put there
	@$(DO_INSTALL) uninstall

help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
	    /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	    /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile $(filter %.mk,$(MAKEFILE_LIST))
	@printf '\nVariables, as in make V=1 CFLAGS=-O3:\n'
	@printf '  %-18s %s\n' \
	    V 'with V=1 the commands are shown' \
	    JOBS 'how many at once where make was given no -j ($(JOBS))' \
	    BUILD 'where to build ($(BUILD))' \
	    VPT_CACHE 'where the lab and QEMU are kept ($(CACHE))' \
	    'CC, CLANG' 'the compilers of programs and of fuzzers' \
	    'CFLAGS, WERROR' 'optimisation and debug information; WERROR= lets warnings pass' \
	    'PREFIX, LIBDIR' 'where to install ($(PREFIX), $(LIBDIR))' \
	    PYTHONDIR 'where to install the module for Python ($(PYTHONDIR))' \
	    DESTDIR 'a root to install below' \
	    FUZZ_SECONDS 'how long each fuzzer runs in make test and make fuzz' \
	    'SEEDS, FIRST_SEED' 'of make qemu-hostile' \
	    PAGES 'of make docs-test: those pages alone' \
	    CONFORMANCE 'with CONFORMANCE=1, make mutants runs the conformance suite alone'

FORCE:
.PHONY: docs-test abi abi-update streams invariants conformance conformance-doc coverage mutants all tests deps deps-run lab clean run test test-all unit asan valgrind fuzz bench lint format \
        install uninstall help FORCE
