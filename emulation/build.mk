# SPDX-License-Identifier: BSD-3-Clause
# libvpt: the model. Uses the C library only.

EMULATION_SRC := $(wildcard emulation/*.c)
EMULATION_OBJ := $(EMULATION_SRC:%.c=$(BUILD)/%.o)
LIBVPT        := $(BUILD)/libvpt.a

$(LIBVPT): $(EMULATION_OBJ)
	@rm -f $@
	ar rcs $@ $^

ALL += $(LIBVPT)

EMULATION_TEST_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard emulation/tests/*.c))

$(BUILD)/tests/emulation: $(EMULATION_TEST_OBJ) $(LIBVPT)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcunit -lipt

TESTS += $(BUILD)/tests/emulation
