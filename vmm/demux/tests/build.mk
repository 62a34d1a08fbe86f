# SPDX-License-Identifier: BSD-3-Clause
# Traces of guests out of a host's: what is in them, by other decoders and a scanner.

DEMUX_TESTS := $(BUILD)/vmm/demux/tests

$(BUILD)/tests/demux: $(DEMUX_TESTS)/demux.o $(DEMUX_TESTS)/hosts.o $(DEMUX_TESTS)/check.o $(DEMUX_TESTS)/agree.o $(DEMUX_TESTS)/command.o $(DEMUX_TESTS)/scan.o \
    $(ROUNDTRIP)/world.o $(BUILD)/emulation/tests/program.o $(VMM_PART_OBJ) $(LIBVPT) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lcunit -lipt $(VMM_LIBS)

TESTS += $(BUILD)/tests/demux

# The same of a capture, for scripts.
$(BUILD)/tests/foreign: $(DEMUX_TESTS)/foreign.o $(DEMUX_TESTS)/agree.o $(DEMUX_TESTS)/command.o $(DEMUX_TESTS)/scan.o \
    $(VMM_PART_OBJ) $(LIBVPT) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lipt $(VMM_LIBS)

ALL += $(BUILD)/tests/foreign

# How fast a host's trace is taken apart: of programs that ran as guests.
$(BUILD)/bench/bin/demux: $(DEMUX_TESTS)/speed.o $(VMM_PART_OBJ) $(LIBVPT) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(VMM_LIBS)

HOSTS_BENCHES += $(BUILD)/bench/bin/demux
