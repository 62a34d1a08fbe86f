# SPDX-License-Identifier: BSD-3-Clause
# Debian packages in $(BUILD)/deb. vmm/packaging/deb.sh says how, and the folders beside it hold debian/.

DEB     := $(BUILD)/deb
DEB_ENV  = BUILD='$(BUILD)' VERSION='$(VERSION)' JOBS='$(JOBS)' QEMU_DIR='$(QEMU_DIR)' VPT_CACHE='$(CACHE)'

##@ Packages

deb: deb-vpt deb-qemu ## Debian packages of all, by debhelper, without a network while they are built, seen by lintian

deb-vpt: ## only those of this project's own: program, libraries, guest tests, module for Python
	@.ci/deps.sh deb
	@$(DEB_ENV) vmm/packaging/deb.sh vpt $(DEB)

deb-qemu: ## only vpt-qemu, with its source; takes minutes the first time
	@.ci/deps.sh deb
	@$(DEB_ENV) vmm/packaging/deb.sh vpt-qemu $(DEB)

deb-test: deb ## install the packages in a clean Debian, and run the first command of each tutorial there
	@$(DEB_ENV) vmm/packaging/deb-test.sh $(DEB)

LONG_TESTS += deb-test

.PHONY: deb deb-vpt deb-qemu deb-test
