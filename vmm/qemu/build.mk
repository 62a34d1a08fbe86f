# SPDX-License-Identifier: BSD-3-Clause
# QEMU with virtual PT: built outside the tree, in the cache. See vmm/qemu/README.md.

QEMU_DIR ?= $(CACHE)/qemu
SELFTESTS ?= $(CACHE)/selftests
EXECLOG ?= $(BUILD)/qemu/execlog.so
SEEDS ?= 200
# Lists and modules are others in it than in the lab's 6.1.
NEWER_KERNEL ?= 6.12

##@ QEMU

qemu: ## fetch Debian's QEMU, apply vmm/qemu/patches, build it in the cache
	@.ci/deps.sh qemu
	@vmm/qemu/build.sh $(QEMU_DIR) $(JOBS)

qemu-test: deps ## guests on that QEMU: tests, traces decoded to the executed path, capture, migration
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@$(BUILD_QEMU) && $(SUBMAKE) qemu-tools
	@$(QEMU_ENV) vmm/qemu/tests/qemu.sh
	@$(QEMU_ENV) vmm/qemu/tests/svm.sh
	@$(QEMU_ENV) vmm/qemu/tests/vmx.sh
	@$(QEMU_ENV) vmm/qemu/tests/flood.sh
	@$(QEMU_ENV) vmm/qemu/tests/live.sh
	@$(QEMU_ENV) vmm/qemu/tests/older-stream.sh
	@$(QEMU_ENV) vmm/libvirt/tests/libvirt.sh

kvm-test: deps ## that QEMU on KVM, in the lab, with a Linux guest, too; and Linux with a KVM guest on that QEMU, captured
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@$(PREPARE_LAB)
	@$(BUILD_QEMU) && $(SUBMAKE) qemu-tools
	@$(QEMU_ENV) vmm/qemu/tests/kvm.sh
	@$(QEMU_ENV) vmm/qemu/tests/linux-kvm.sh
	@$(QEMU_ENV) vmm/qemu/tests/svm-linux.sh

vmx-test: deps ## VMX in TCG on that QEMU: vmx-tests on each profile, traced; Linux with kvm_intel and guests, captured, moved, and in each of its modes
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@$(PREPARE_LAB)
	@$(BUILD_QEMU) && $(SUBMAKE) qemu-tools
	@$(QEMU_ENV) vmm/qemu/tests/vmx.sh --all
	@$(QEMU_ENV) vmm/qemu/tests/vmx-hostile.sh
	@$(QEMU_ENV) vmm/qemu/tests/vmx-linux.sh
	@$(QEMU_ENV) vmm/qemu/tests/vmx-perf.sh
	@$(QEMU_ENV) vmm/qemu/tests/vmx-guests.sh
	@$(QEMU_ENV) vmm/qemu/tests/vmx-boot.sh
	@$(QEMU_ENV) vmm/qemu/tests/vmx-perf-boot.sh
	@$(QEMU_ENV) vmm/qemu/tests/vmx-move.sh
	@$(BUILD_SELFTESTS)
	@$(QEMU_ENV) SELFTESTS='$(SELFTESTS)' vmm/qemu/tests/kvm-selftests.sh

hosts-test: deps ## a Linux host with kvm_intel records itself and two guests by vpt record, in several settings: what ran, who, when, and exits; guests that move, and that trace themselves meanwhile
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@$(PREPARE_LAB)
	@$(BUILD_QEMU) && $(SUBMAKE) qemu-tools
	@$(QEMU_ENV) vmm/qemu/tests/hosts.sh
	@$(QEMU_ENV) vmm/qemu/tests/hosts-end.sh
	@$(QEMU_ENV) vmm/qemu/tests/hosts-move.sh
	@$(QEMU_ENV) vmm/qemu/tests/hosts-lent.sh

host-pt-test: deps ## vpt run --source host-pt, and that QEMU on KVM with vpt-source=host-pt, on a host with stock kernel and perf, which that QEMU runs
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@$(PREPARE_LAB)
	@$(BUILD_QEMU) && $(SUBMAKE) qemu-tools
	@$(QEMU_ENV) vmm/qemu/tests/host-pt.sh
	@$(QEMU_ENV) vmm/qemu/tests/host-pt-qemu.sh

vmx-selftests: deps ## Linux's own KVM selftests on kvm_intel, on VMX in TCG on that QEMU (ONLY=vmx: those whose names have it)
	@.ci/deps.sh qemu
	@$(PREPARE_LAB)
	@$(BUILD_QEMU)
	@$(BUILD_SELFTESTS)
	@$(QEMU_ENV) SELFTESTS='$(SELFTESTS)' vmm/qemu/tests/kvm-selftests.sh '$(ONLY)'

vmx-hostile: deps ## hostile VMMs in guests of that QEMU, many of them (SEEDS=200, from FIRST_SEED=1)
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@$(BUILD_QEMU)
	@$(QEMU_ENV) vmm/qemu/tests/vmx-hostile.sh $(SEEDS)

qemu-port: deps ## the port to QEMU 10.0: built, and the same tests of guests on it
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@status=0; vmm/qemu/build.sh $(QEMU_DIR) $(JOBS) 10.0 || status=$$?; \
	    [ $$status != 77 ] || { echo 'SKIP: the port to QEMU 10.0: its source cannot be had'; \
	        echo '0 passed, 0 failed, 1 skipped'; exit 0; }; \
	    [ $$status = 0 ] && $(SUBMAKE) QEMU_DIR=$(QEMU_DIR)/10.0 EXECLOG=$(BUILD)/qemu/execlog-10.0.so \
	        qemu-tools && { $(PREPARE_LAB); } && for test in qemu.sh live.sh svm.sh vmx.sh names.sh names-log.sh \
            svm-linux.sh vmx-linux.sh vmx-perf.sh vmx-boot.sh vmx-move.sh vmx-guests.sh 'boot.sh --all' \
            kvm.sh linux-kvm.sh host-pt-qemu.sh; do \
	            $(QEMU_ENV) QEMU_DIR=$(QEMU_DIR)/10.0 EXECLOG=$(BUILD)/qemu/execlog-10.0.so \
	                vmm/qemu/tests/$$test || exit 1; \
	        done

qemu-asan: deps ## QEMU with sanitizers: the same tests of guests, and no report
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@{ vmm/qemu/build.sh $(QEMU_DIR) $(JOBS) asan || [ $$? = 77 ]; } && $(SUBMAKE) qemu-tools
	@$(QEMU_ENV) QEMU_DIR=$(QEMU_DIR)/asan vmm/qemu/tests/sanitized.sh

qemu-hostile: deps ## many random trace configurations in guests (SEEDS=200, from FIRST_SEED=1), and guests that make up ever more
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@$(BUILD_QEMU) && $(SUBMAKE) qemu-tools
	@$(QEMU_ENV) vmm/qemu/tests/hostile.sh $(SEEDS)
	@$(QEMU_ENV) vmm/qemu/tests/flood.sh --all

linux-test: deps ## a Linux guest on that QEMU: its own perf record, decoded to the executed path; moved, too
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@$(PREPARE_LAB)
	@$(BUILD_QEMU) && $(SUBMAKE) qemu-tools
	@$(QEMU_ENV) vmm/qemu/tests/linux.sh --all
	@$(QEMU_ENV) vmm/qemu/tests/move.sh --all

profiles-test: deps ## the profiles of hardware: vpt run in the lab, and Linux's own perf on that QEMU
	@.ci/deps.sh qemu
	@$(SUBMAKE) all $(BUILD)/tests/witness
	@$(PREPARE_LAB)
	@$(BUILD_QEMU) && $(SUBMAKE) qemu-tools
	@$(QEMU_ENV) vmm/qemu/tests/profiles.sh

boot-test: deps ## Linux captured from its first instruction to the shell, with the code that it runs
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@$(PREPARE_LAB)
	@$(BUILD_QEMU) && $(SUBMAKE) qemu-tools
	@$(QEMU_ENV) vmm/qemu/tests/boot.sh --all

names-test: deps ## names of Linux guests (kernels 6.1 and 6.12): of a dump, against the guests' own /proc, and while a capture goes on
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@$(PREPARE_LAB)
	@$(BUILD_QEMU) && $(SUBMAKE) qemu-tools
	@$(QEMU_ENV) vmm/qemu/tests/names.sh
	@vmm/lab/prepare.sh $(CACHE)/lab-$(NEWER_KERNEL) $(NEWER_KERNEL) || echo 'going on without it'
	@$(QEMU_ENV) NAMES_LAB='$(CACHE)/lab-$(NEWER_KERNEL)' vmm/qemu/tests/names.sh
	@$(QEMU_ENV) vmm/qemu/tests/names-log.sh
	@$(QEMU_ENV) vmm/qemu/tests/names-boot.sh

report-test: deps ## what happened in a Linux guest: vpt report and annotate, against the guest's /proc, perf, single steps and executed blocks
	@.ci/deps.sh qemu
	@$(SUBMAKE) all $(BUILD)/tests/stepped
	@$(PREPARE_LAB)
	@$(BUILD_QEMU) && $(SUBMAKE) qemu-tools
	@$(QEMU_ENV) vmm/tests/perf-report.sh
	@$(QEMU_ENV) vmm/tests/annotate.sh
	@$(QEMU_ENV) vmm/qemu/tests/report.sh

bench-qemu: deps ## what tracing costs under TCG, against an unchanged QEMU (builds one, too)
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@$(PREPARE_LAB)
	@vmm/qemu/build.sh $(QEMU_DIR) $(JOBS) && vmm/qemu/build.sh $(QEMU_DIR) $(JOBS) stock
	@$(SUBMAKE) qemu-tools
	@$(QEMU_ENV) vmm/qemu/bench.sh $(BUILD)/bench/qemu.json

bench-vmx: deps ## how long a nested Linux takes to boot on VMX in TCG, against SVM
	@.ci/deps.sh qemu
	@$(SUBMAKE) all
	@$(PREPARE_LAB)
	@$(BUILD_QEMU)
	@$(QEMU_ENV) vmm/qemu/tests/vmx-time.sh

# Where the source cannot be had, the tests say so themselves, and count what they skip.
BUILD_SELFTESTS = { vmm/qemu/selftests.sh $(SELFTESTS) $(CACHE)/lab $(JOBS) || [ $$? = 77 ]; }
BUILD_QEMU = { vmm/qemu/build.sh $(QEMU_DIR) $(JOBS) || [ $$? = 77 ]; }
QEMU_ENV   = VPT_CACHE='$(CACHE)' BUILD='$(BUILD)' QEMU_DIR='$(QEMU_DIR)'

qemu-tools: $(patsubst %,$(BUILD)/qemu/%,compare ran perf_aux perf_whose dump step work remap named brief mover) \
    $(if $(wildcard $(QEMU_DIR)/tree),$(if $(shell pkg-config --exists glib-2.0 && echo yes),$(EXECLOG)))

# In `make test` they are skipped by name where QEMU could not be built.
tests: qemu-tools
SHELL_TESTS += vmm/qemu/tests/qemu.sh vmm/qemu/tests/hostile.sh vmm/qemu/tests/linux.sh \
    vmm/qemu/tests/boot.sh vmm/qemu/tests/move.sh vmm/qemu/tests/svm.sh vmm/qemu/tests/svm-linux.sh \
    vmm/qemu/tests/vmx.sh vmm/qemu/tests/vmx-hostile.sh \
    vmm/qemu/tests/flood.sh vmm/qemu/tests/live.sh vmm/qemu/tests/older-stream.sh \
    vmm/libvirt/tests/libvirt.sh

# What `make test` has a part of, or nothing.
LONG_TESTS += profiles-test linux-test boot-test names-test report-test kvm-test vmx-test hosts-test host-pt-test

.PHONY: qemu qemu-port qemu-asan qemu-hostile qemu-test kvm-test vmx-test hosts-test host-pt-test vmx-selftests vmx-hostile linux-test profiles-test boot-test \
    names-test report-test bench-qemu bench-vmx qemu-tools

# The threads of a capture without a QEMU: its headers are empty files, and what is used of them
# stands in stand-in.h. Always under ThreadSanitizer.
CAPTURE_THREADS := $(BUILD)/tests/threads
STAND_IN        := $(BUILD)/qemu/stand-in
STAND_IN_EMPTY  := $(addprefix $(STAND_IN)/,cpu.h libvpt/vpt.h qapi/error.h qemu/error-report.h \
    qemu/lockable.h qemu/osdep.h qemu/thread.h qemu/units.h)
CAPTURE_SRC     := vmm/qemu/tests/threads.c vmm/qemu/glue/writer.c vmm/qemu/glue/ring.c

$(STAND_IN_EMPTY):
	@mkdir -p $(@D) && touch $@

$(CAPTURE_THREADS): $(CAPTURE_SRC) vmm/qemu/tests/stand-in.h vmm/qemu/glue/vpt-i386.h \
    $(STAND_IN_EMPTY) $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(call say,LD)$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra $(WERROR) -fsanitize=thread \
	    -iquote vmm -I$(STAND_IN) -Iemulation \
	    -include vmm/qemu/tests/stand-in.h -include emulation/vpt.h -o $@ $(CAPTURE_SRC)

COUNTED += $(CAPTURE_THREADS)

# The witness: a plugin that logs what runs, and what compares a decoded trace with the log. And what
# takes a trace out of a perf.data, and memory out of a domain.
QEMU_TOOLS := $(patsubst %,$(BUILD)/qemu/%,compare ran perf_aux perf_whose dump)
$(BUILD)/qemu/compare $(BUILD)/qemu/ran: $(BUILD)/vmm/qemu/tests/log.o
$(BUILD)/qemu/compare: $(BUILD)/vmm/qemu/tests/follow.o
$(QEMU_TOOLS): $(BUILD)/qemu/%: $(BUILD)/vmm/qemu/tests/%.o $(VMM_PART_OBJ) \
    $(LIBVPT) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(VMM_LIBS)

# Installed with the program: what tracing by single-step costs on a QEMU of the user's.
ALL += $(BUILD)/qemu/step

$(BUILD)/qemu/step: $(BUILD)/vmm/qemu/step.o
	@mkdir -p $(@D)
	$(LINK) -o $@ $^

# After `make qemu`: the header is QEMU's.
$(EXECLOG): vmm/qemu/tests/execlog.c FORCE
	@mkdir -p $(@D)
	$(LINK_SHARED) -Wno-missing-prototypes -I$(QEMU_DIR)/tree/include/qemu \
	    $$(pkg-config --cflags glib-2.0) -o $@ $<

# The programs that the Linux guest traces: not relocated, at an address that nothing else uses, one at a time.
$(BUILD)/qemu/work $(BUILD)/qemu/remap: $(BUILD)/qemu/%: vmm/qemu/linux/%.c $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(call say,LD)$(CC) -std=gnu11 -O1 -g -Wall -Wextra $(WERROR) -fno-pie -no-pie -static \
	    -Wl,-Ttext-segment=0x55000000 -o $@ $<

# Programs of the guest whose threads, mappings and BPF program are to be named, and whose processes; and
# what moves others between processors.
$(BUILD)/qemu/named $(BUILD)/qemu/brief $(BUILD)/qemu/mover: $(BUILD)/qemu/%: vmm/qemu/linux/%.c $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(call say,LD)$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra $(WERROR) -fPIE -pie -pthread \
	    -Wl,--build-id=sha1 -o $@ $<
