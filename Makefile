# SPDX-License-Identifier: BSD-3-Clause
# vpt: see README.md. Each folder's build.mk says what is built from it.
#
#   make / make run / make test / make bench / make asan / make lint / make install / make help

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

BUILD   ?= build
CC      ?= gcc
PREFIX  ?= /usr/local
DESTDIR ?=
CACHE   ?= $(or $(VPT_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/vpt)
VERSION := 0.1.0

CFLAGS   ?= -O2 -g
WERROR   ?= -Werror
CFLAGS   += -std=c11 -Wall -Wextra $(WERROR) -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
            -fno-strict-aliasing -fPIC $(EXTRA_CFLAGS)
CPPFLAGS += -D_GNU_SOURCE -Iemulation -Idecoder -MMD -MP
LDFLAGS  += $(EXTRA_LDFLAGS)

ALL     :=
TESTS   :=  # programs that `make test` runs: $(BUILD)/tests/NAME
BENCHES :=

include emulation/build.mk
include decoder/build.mk
include vmm/build.mk
include guest-tests/build.mk

all: $(ALL)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

clean:
	rm -rf $(BUILD) guest-tests/build

.PHONY: all clean
