# SPDX-License-Identifier: BSD-3-Clause
# The module ptdec for Python. What it knows of the library is made from the public headers; without
# python3-cffi that is an empty file, which is tried again.
PTDEC_PY := $(BUILD)/python/ptdec/_declared.py

$(PTDEC_PY): $(wildcard decoder/python/*.py decoder/python/*.sh decoder/python/ptdec/*.py) \
    $(LIBPTDEC_HEADERS) $(if $(file <$(PTDEC_PY)),,FORCE)
	$(Q)$(call say,GEN)decoder/python/build.sh '$(CC)' $(notdir $(LIBPTDEC_SO)) $(@D) $(LIBPTDEC_HEADERS)

ALL         += $(PTDEC_PY)
SHELL_TESTS += decoder/python/tests/test.sh
