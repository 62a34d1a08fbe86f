# SPDX-License-Identifier: BSD-3-Clause
# What the program says of itself: manual pages, completion for bash, the tables of docs/vpt.md.

VPT_COMMANDS := run qemu trace capture record check dump decode report annotate coverage index parts demux shard merge convert names guest-tests profiles
MAN_PAGES    += $(BUILD)/man/vpt.1 $(VPT_COMMANDS:%=$(BUILD)/man/vpt-%.1)
COMPLETIONS  += $(BUILD)/completions/vpt

$(BUILD)/vmm/cli/main.o $(BUILD)/vmm/cli/manual.o $(BUILD)/vmm/view/piece.o: \
    override CPPFLAGS += -DVPT_VERSION='"$(VERSION)"'

$(BUILD)/man/vpt.1: $(VPT)
	@mkdir -p $(@D)
	$(Q)$(VPT) help --man >$@

$(BUILD)/man/vpt-%.1: $(VPT)
	@mkdir -p $(@D)
	$(Q)$(VPT) help --man $* >$@

$(BUILD)/completions/vpt: $(VPT)
	@mkdir -p $(@D)
	$(Q)$(VPT) help --bash >$@

ALL += $(MAN_PAGES) $(COMPLETIONS)

##@ Documents

options-doc: $(VPT) ## write the tables of options in docs/vpt.md, which tests compare
	@vmm/cli/options-doc.sh --write $(VPT) docs/vpt.md

.PHONY: options-doc
