# SPDX-License-Identifier: BSD-3-Clause
# libptdec: the decoder. Uses Zydis and elfutils.

DECODER_SRC := $(wildcard decoder/*.c)
DECODER_OBJ := $(DECODER_SRC:%.c=$(BUILD)/%.o)
LIBPTDEC    := $(BUILD)/libptdec.a

$(LIBPTDEC): $(DECODER_OBJ)
	@rm -f $@
	ar rcs $@ $^

ALL += $(LIBPTDEC)

DECODER_LIBS := -lZydis -lelf
DECODER_TEST_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard decoder/tests/*.c))

$(BUILD)/tests/decoder: $(DECODER_TEST_OBJ) $(LIBPTDEC) $(LIBVPT)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcunit -lipt $(DECODER_LIBS)

TESTS += $(BUILD)/tests/decoder
