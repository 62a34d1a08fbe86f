# SPDX-License-Identifier: BSD-3-Clause
# Each call that allocates, opens, reads or writes made to fail once: vpt, linked so that our own
# calls lead to wraps.c.

FAULTS_CALLS := malloc calloc realloc reallocarray aligned_alloc strdup strndup realpath mmap \
    pthread_create fopen fdopen open_memstream fstat stat ftruncate rename read pread write pwrite \
    open asprintf fread fgets fwrite fflush fclose main
FAULTS_OBJ   := $(patsubst %,$(BUILD)/vmm/tests/faults/%.o,faults wraps)
FAULTS_WRAP  := $(FAULTS_CALLS:%=-Wl,--wrap=%)

$(BUILD)/vpt-faults: $(VMM_OBJ) $(FAULTS_OBJ) $(LIBVPT) $(LIBPTDEC)
	$(LINK) $(FAULTS_WRAP) -o $@ $^ $(VMM_LIBS)

# A guest for `vpt names` to look at.
$(BUILD)/tests/guest-core: $(patsubst %,$(BUILD)/vmm/tests/%.o,faults/guest-core made_linux made_btf) $(LIBPTDEC)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(DECODER_LIBS)

# In `make test` some of the calls, of the program as it is; in `make faults` all of them, with
# AddressSanitizer, which says what a failure leaks.
tests: $(BUILD)/vpt-faults $(BUILD)/tests/guest-core
SHELL_TESTS += vmm/tests/faults/some.sh

FAULTS_SANE  = $(SANITIZE) -U_FORTIFY_SOURCE

faults: ## each call that allocates, opens, reads or writes made to fail, one at a time
	@$(SUBMAKE) all $(BUILD)/tests/guest-core
	@$(SUBMAKE) BUILD=$(BUILD)/faults EXTRA_CFLAGS='$(FAULTS_SANE)' EXTRA_LDFLAGS='$(SANITIZE)' \
	    $(BUILD)/faults/vpt-faults
	@BUILD='$(BUILD)' vmm/tests/faults/run.sh $(BUILD)/faults/vpt-faults

.PHONY: faults
