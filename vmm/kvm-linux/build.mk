# SPDX-License-Identifier: BSD-3-Clause
# Intel PT that KVM gives to its guests: KVM built with pt_mode, programs for its host, and the rules.

KVM_LINUX        := vmm/kvm-linux
KVM_LINUX_GUESTS := $(KVM_LINUX)/guests
KVM_LINUX_CFLAGS := -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra $(WERROR) -Wshadow -Wmissing-prototypes \
                    -pthread -I$(KVM_LINUX_GUESTS) -iquote decoder
KVM_LINUX_TOOLS  := $(BUILD)/kvm-linux/image $(BUILD)/kvm-linux/rules

$(BUILD)/kvm-linux/image: $(addprefix $(KVM_LINUX_GUESTS)/,image.c vm.c host.c)
$(BUILD)/kvm-linux/rules: $(wildcard $(KVM_LINUX_GUESTS)/rules*.c) \
    $(addprefix $(KVM_LINUX_GUESTS)/,guest.c vm.c host.c code.S) $(LIBPTDEC)
$(KVM_LINUX_TOOLS): $(wildcard $(KVM_LINUX_GUESTS)/*.h) $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(call say,LD)$(CC) $(KVM_LINUX_CFLAGS) -o $@ $(filter %.c %.S %.a,$^) $(if $(filter %.a,$^),$(DECODER_LIBS))

##@ Intel PT of KVM

kvm-pt: deps ## KVM's own Intel PT for guests (pt_mode=1) on that QEMU: a table of rules, and our suites in its guests
	@$(KVM_PT)

kvm-pt-doc: deps ## the same, and write the table into docs/kvm-pt.md
	@$(KVM_PT) --write

kvm-pt-linux: deps ## Debian in a guest of that KVM: what its own perf record writes through EPT decodes to what ran
	@$(KVM_PT_NEEDS) && $(SUBMAKE) qemu-tools && $(QEMU_ENV) $(KVM_LINUX)/tests/linux.sh

KVM_PT_NEEDS = .ci/deps.sh qemu kvm && $(SUBMAKE) all $(KVM_LINUX_TOOLS) && { $(PREPARE_LAB); } && \
    $(BUILD_QEMU) && { $(BUILD_KVM); }
KVM_PT = $(KVM_PT_NEEDS) && $(QEMU_ENV) $(KVM_LINUX)/tests/kvm-pt.sh

# Of the kernel that the lab boots. Where a package cannot be had, the test says so itself.
BUILD_KVM = package=$$(find $(CACHE)/lab/packages -name 'linux-image-*.deb' 2>/dev/null | sort | tail -n 1); \
    [ -z "$$package" ] || $(KVM_LINUX)/build.sh "$$package" $(CACHE)/kvm-linux $(JOBS) || [ $$? = 77 ]

LONG_TESTS += kvm-pt kvm-pt-linux

.PHONY: kvm-pt kvm-pt-doc kvm-pt-linux
