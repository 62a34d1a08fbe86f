# SPDX-License-Identifier: BSD-3-Clause
# Guest images: freestanding x86-64, built with flags of their own. Each NAME of GUEST_IMAGES is built
# from NAME.c, NAME-*.c and NAME-*.S into guest-tests/build/NAME.elf, and NAME-tests from the folder
# NAME besides.

GUEST       := guest-tests
GUEST_BUILD := $(GUEST)/build
GUEST_OBJ   := $(GUEST_BUILD)/obj

GUEST_IMAGES := demo msr-tests packet-tests hostile-tests rtit-tests smp-tests torture svm-tests vmx-tests vmx-hostile flood patching
GUEST_USERS  := sort hash

# No SSE, so that interrupts need not save it; no red zone, since they use the same stack.
GUEST_CFLAGS := -std=gnu11 -O2 -g -Wall -Wextra $(WERROR) -Wshadow -Wstrict-prototypes \
                -Wmissing-prototypes -m64 -ffreestanding -fno-pic -fno-stack-protector \
                -fcf-protection=none -fno-asynchronous-unwind-tables -fno-strict-aliasing \
                -mgeneral-regs-only -mno-red-zone -MMD -MP -I$(GUEST)/lib
GUEST_KERNEL_CFLAGS := $(GUEST_CFLAGS) -mcmodel=kernel
GUEST_LDFLAGS := -m elf_x86_64 -static -no-pie -nostdlib -z noexecstack -z max-page-size=0x1000 \
                 --no-warn-rwx-segments --build-id=none

GUEST_LIB_OBJ := $(patsubst $(GUEST)/%.c,$(GUEST_OBJ)/%.o,$(wildcard $(GUEST)/lib/*.c)) \
                 $(patsubst $(GUEST)/%.S,$(GUEST_OBJ)/%.o,$(wildcard $(GUEST)/lib/*.S))
GUEST_USER_ELF := $(GUEST_USERS:%=$(GUEST_BUILD)/%.elf)
GUEST_ELF      := $(GUEST_IMAGES:%=$(GUEST_BUILD)/%.elf)

$(GUEST_OBJ)/user/%.o: $(GUEST)/user/%.c $(GUEST)/build.mk $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(call say,CC)$(CC) $(GUEST_CFLAGS) -c -o $@ $<

$(GUEST_OBJ)/user/%.o: $(GUEST)/user/%.S $(GUEST)/build.mk $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(call say,CC)$(CC) $(GUEST_CFLAGS) -c -o $@ $<

$(GUEST_OBJ)/%.o: $(GUEST)/%.c $(GUEST)/build.mk $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(call say,CC)$(CC) $(GUEST_KERNEL_CFLAGS) -c -o $@ $<

$(GUEST_OBJ)/%.o: $(GUEST)/%.S $(GUEST)/build.mk $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(call say,CC)$(CC) $(GUEST_KERNEL_CFLAGS) -Wa,-I$(GUEST_BUILD) -c -o $@ $<

# The demo carries its user programs inside.
$(GUEST_OBJ)/demo-programs.o: $(GUEST_USER_ELF)

$(GUEST_USER_ELF): $(GUEST_BUILD)/%.elf: $(GUEST_OBJ)/user/%.o $(GUEST_OBJ)/user/crt.o \
                                         $(GUEST)/user/user.ld
	$(Q)$(call say,LD)ld $(GUEST_LDFLAGS) -T $(GUEST)/user/user.ld -o $@ $(filter %.o,$^)

# NAME.elf: NAME.c, NAME-*.c, NAME-*.S and the folder with the runtime.
guest_folder  = $(GUEST)/$(patsubst %-tests,%,$(1))
guest_sources = $(wildcard $(GUEST)/$(1).c $(GUEST)/$(1)-*.c $(GUEST)/$(1)-*.S \
                           $(guest_folder)/*.c $(guest_folder)/*.S)
guest_objects = $(patsubst $(GUEST)/%,$(GUEST_OBJ)/%.o,$(basename $(call guest_sources,$(1))))

define guest_image
$(GUEST_BUILD)/$(1).elf: $(call guest_objects,$(1)) $(GUEST_LIB_OBJ) $(GUEST)/lib/image.ld
	$$(Q)$$(call say,LD)ld $(GUEST_LDFLAGS) -T $(GUEST)/lib/image.ld -o $$@ $$(filter %.o,$$^)
endef
$(foreach image,$(GUEST_IMAGES),$(eval $(call guest_image,$(image))))

# The hostile VMM has the VM of vmx-tests.
$(GUEST_BUILD)/vmx-hostile.elf: $(patsubst %,$(GUEST_OBJ)/vmx/%.o,vm insn ept-tables)

# Its second processor begins as those of smp-tests do.
$(GUEST_BUILD)/patching.elf: $(GUEST_OBJ)/smp-tests-start.o

# Whether packet-tests notice what they are about. Slow: not part of `make test`.
##@ Testing the tests

.PHONY: guest-defects
guest-defects: all ## put mistakes into the model, and see whether packet-tests notice (long)
	@$(GUEST)/defects.py

-include $(shell find $(GUEST_OBJ) -name '*.d' 2>/dev/null)

ALL += $(GUEST_ELF)
