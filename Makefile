# python-sandbox-mcp
#
#   make run      install what is missing, build, serve on 127.0.0.1:18080
#   make test     install what is missing, build, run every test
#   make conformance   the official MCP suite (needs npm and the network)
#   make bench    speed and memory as ratios against a peer of the same run
#   make lint     form, layers, banned functions, headers
#   make          build only
#
# Knobs: CC=clang  SANITIZE=address,undefined|thread  WERROR=1  V=1
#        PREFIX=/usr/local DESTDIR=  WRAP="valgrind -q …"
#        PORT=18080 SNEKBOX_URL=… PROCESSES=4 (run)

VERSION = 0.1.0

PREFIX ?= /usr/local
DESTDIR ?=
PORT ?= 18080
PROCESSES ?= 4
SNEKBOX_URL ?=
SANITIZE ?=
WRAP ?=
V ?=

comma := ,
VARIANT := $(subst $(comma),-,$(SANITIZE))$(if $(filter clang%,$(CC)),-clang)
BUILD ?= build$(if $(VARIANT),/$(patsubst -%,%,$(VARIANT)))
Q := $(if $(V),,@)

# ---- what Debian packages each goal needs --------------------------------
PACKAGES_BUILD = gcc make pkg-config libc6-dev libfcgi-dev \
	libcurl4-openssl-dev libcjson-dev libevent-dev libseccomp-dev nettle-dev \
	libmagic-dev
PACKAGES_RUN = $(PACKAGES_BUILD) lighttpd bubblewrap util-linux curl python3 \
	python3-numpy python3-matplotlib python3-pandas \
	python3-openpyxl fonts-wqy-microhei
PACKAGES_TEST = $(PACKAGES_RUN) libcmocka-dev clang libclang-rt-14-dev \
	clang-format valgrind apache2 spawn-fcgi python3-venv shellcheck git
INSTALL_PACKAGES = sh tests/packages.sh

# ---- flags ---------------------------------------------------------------
LIBS = fcgi libcurl libcjson libevent_core libevent_extra libevent_pthreads \
	libseccomp nettle
WARNINGS = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wvla -Wformat=2 -Wundef -Wswitch-enum
CFLAGS ?= -O2 -g
HARDEN = $(if $(SANITIZE),-fno-omit-frame-pointer,-D_FORTIFY_SOURCE=2) \
	-fstack-protector-strong -fPIE
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -DVERSION='"$(VERSION)"' $(WARNINGS) \
	$(if $(WERROR),-Werror) $(HARDEN) -pthread -Isrc -I$(BUILD)/gen \
	$(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(CFLAGS)
ALL_LDFLAGS = -pie -pthread -Wl,-z,relro,-z,now \
	$(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LDFLAGS)
LDLIBS = -lfcgi -lcurl -lcjson -levent_core -levent_extra -levent_pthreads \
	-lnettle -lseccomp -lmagic -lrt

# ---- sources -------------------------------------------------------------
LIB_SRC = $(wildcard $(addprefix src/,$(addsuffix /*.c,\
	base state sandbox mcp transport server)))
SANDBOXD_SRC = $(filter-out %/main.c,$(wildcard src/sandboxd/*.c))
RUNNER_GEN = $(if $(wildcard src/sandbox/runner/embed.sh),\
	$(BUILD)/gen/runner_text.c)
obj = $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(BUILD)/%,$(1))) \
	$(patsubst $(BUILD)/%.c,$(BUILD)/%.o,$(filter $(BUILD)/%,$(1)))
LIB_OBJ = $(call obj,$(LIB_SRC) $(RUNNER_GEN))
SANDBOXD_OBJ = $(call obj,$(SANDBOXD_SRC))
UNIT_SRC = $(wildcard tests/unit/test_*.c)
UNIT_BIN = $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(UNIT_SRC))
FUZZ_SRC = $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN = $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(FUZZ_SRC))
CLI_OBJ = $(call obj,$(wildcard src/cli/*.c))
PROGRAMS = $(BUILD)/python-sandbox.fcgi $(BUILD)/python-sandbox \
	$(BUILD)/sandboxd

.PHONY: all run test unit fuzz integration runner-test conformance bench lint install \
	dist clean unit-programs packages-run packages-test programs readme-table
.SECONDARY:
.DELETE_ON_ERROR:

all: programs
ifeq ($(VARIANT),)
programs: cgi-bin/python-sandbox.fcgi
endif
programs: $(PROGRAMS)
	@:

# ---- building ------------------------------------------------------------
# the stamp changes when the flags do, and everything depends on it
FLAGS_NOW = $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS)
$(BUILD)/flags: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' | cmp -s - $@ || \
	    printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' > $@
FORCE:

$(BUILD)/gen/runner_text.c: $(wildcard src/sandbox/runner/*)
	$(Q)mkdir -p $(@D)
	$(Q)sh src/sandbox/runner/embed.sh src/sandbox/runner/runner.py > $@

# the program that waits in a jail: static, without sanitizers (they need
# /proc), and carried by sandboxd as bytes
JAIL_INIT = src/sandboxd/init/init.c src/sandboxd/launch.h
$(BUILD)/gen/sandboxd_init.inc: $(JAIL_INIT) $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) $(if $(WERROR),-Werror) \
	    -Isrc -Os -static -s -o $(@:.inc=) $<
	$(Q)od -An -v -tx1 $(@:.inc=) | sed 's/ \(..\)/0x\1,/g' > $@
$(BUILD)/src/sandboxd/init_image.o $(BUILD)/fuzz-obj/src/sandboxd/init_image.o: \
    $(BUILD)/gen/sandboxd_init.inc

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c $(BUILD)/flags
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/%.o: %.c $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(if $(Q),@echo "  CC    $<")
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/libpython-sandbox.a: $(LIB_OBJ)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/libsandboxd.a: $(SANDBOXD_OBJ)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/python-sandbox.fcgi: $(BUILD)/cgi-bin/python-sandbox.o \
    $(BUILD)/libpython-sandbox.a
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/python-sandbox: $(CLI_OBJ) $(BUILD)/libpython-sandbox.a
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(filter-out -lfcgi \
	    -lseccomp,$(LDLIBS))

cgi-bin/python-sandbox.fcgi: build/python-sandbox.fcgi
	$(Q)install -m 755 $< $@

$(BUILD)/sandboxd: $(BUILD)/src/sandboxd/main.o $(BUILD)/libsandboxd.a \
    $(BUILD)/libpython-sandbox.a
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS)

# a second build of the table that can die after each store under its lock
STATE_KILL_OBJ = $(patsubst src/state/%.c,$(BUILD)/kill/%.o,\
	$(wildcard src/state/*.c))
$(BUILD)/kill/%.o: src/state/%.c $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -DSTATE_KILL_POINTS -MMD -MP -c -o $@ $<

$(BUILD)/tests/%_kill: $(BUILD)/tests/unit/%_kill.o $(STATE_KILL_OBJ) \
    $(BUILD)/libpython-sandbox.a
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

$(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(BUILD)/libsandboxd.a \
    $(BUILD)/libpython-sandbox.a
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

# fuzz targets are whole programs of clang, every source built once more with
# its coverage counters
FUZZ_CFLAGS = -std=c11 -D_GNU_SOURCE -DVERSION='"$(VERSION)"' -Isrc \
	-I$(BUILD)/gen -g -O1 -pthread -fsanitize=fuzzer-no-link,address,undefined \
	-fno-sanitize-recover=undefined
FUZZ_OBJ = $(patsubst %.c,$(BUILD)/fuzz-obj/%.o,$(LIB_SRC) $(SANDBOXD_SRC)) \
	$(if $(RUNNER_GEN),$(BUILD)/fuzz-obj/runner_text.o)
$(BUILD)/fuzz-obj/%.o: %.c
	$(Q)mkdir -p $(@D)
	$(Q)clang $(FUZZ_CFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/fuzz-obj/runner_text.o: $(RUNNER_GEN)
	$(Q)mkdir -p $(@D)
	$(Q)clang $(FUZZ_CFLAGS) -c -o $@ $<
$(BUILD)/fuzz/libfuzzed.a: $(FUZZ_OBJ)
	$(Q)mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/fuzz/fuzz_%: $(BUILD)/fuzz-obj/tests/fuzz/fuzz_%.o \
    $(BUILD)/fuzz/libfuzzed.a
	$(Q)clang -fsanitize=fuzzer,address,undefined -pthread -o $@ $^ $(LDLIBS)

DEPS = $(shell find build -name '*.d' 2>/dev/null)
-include $(DEPS)

# ---- running -------------------------------------------------------------
packages-run:
	@$(INSTALL_PACKAGES) $(PACKAGES_RUN)

packages-test:
	@$(INSTALL_PACKAGES) $(PACKAGES_TEST)

run: packages-run
	@$(MAKE) --no-print-directory -j$$(nproc) programs
	@PORT='$(PORT)' SNEKBOX_URL='$(SNEKBOX_URL)' PROCESSES='$(PROCESSES)' \
	    exec bash src/cli/serve.sh

# ---- testing -------------------------------------------------------------
VENV = build/venv
# most tests wait for programs and time limits, so several run side by side; a
# Snekbox that is given is not to be overrun by them
PYTEST_JOBS ?= $(if $(SNEKBOX_URL),1,4)
PYTEST = $(VENV)/bin/python -m pytest -q -n $(PYTEST_JOBS)
export BUILD_DIR = $(BUILD)

$(VENV)/stamp: tests/requirements.txt
	@echo "installing the tests' Python packages into $(VENV)"
	$(Q)/usr/bin/python3 -m venv $(VENV)
	$(Q)$(VENV)/bin/pip install -q --disable-pip-version-check \
	    -r tests/requirements.txt
	$(Q)touch $@

test: packages-test
	@$(MAKE) --no-print-directory -j$$(nproc) programs unit-programs $(FUZZ_BIN)
	@$(MAKE) --no-print-directory unit runner-test fuzz integration

unit-programs: programs $(UNIT_BIN)
	@:

unit: unit-programs
	@sh tests/run-unit.sh "$(WRAP)" $(UNIT_BIN)

runner-test: $(VENV)/stamp
	$(PYTEST) tests/unit

FUZZ_RUNS ?= 20000
fuzz: $(FUZZ_BIN)
	@sh tests/run-fuzz.sh $(FUZZ_RUNS) $(FUZZ_BIN)

integration: programs $(VENV)/stamp
	SNEKBOX_URL='$(SNEKBOX_URL)' $(PYTEST) --dist loadfile \
	    tests/integration $(PYTEST_ARGS)

# the official suite, brought by npm with the Node.js it needs
conformance: packages-test
	@$(MAKE) --no-print-directory programs $(VENV)/stamp
	$(VENV)/bin/python tests/conformance/run.py build/conformance \
	    2025-11-25 2026-07-28

bench: packages-test
	@$(MAKE) --no-print-directory programs $(VENV)/stamp
	$(VENV)/bin/python tests/bench/bench.py $(BENCH_ARGS)

lint: packages-test
	@$(MAKE) --no-print-directory programs
	@sh tests/lint.sh $(CC)

readme-table: programs
	sh tests/readme-table.sh $(BUILD)/python-sandbox.fcgi

# ---- installing ----------------------------------------------------------
install: programs
	install -d $(DESTDIR)$(PREFIX)/lib/python-sandbox \
	    $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/sbin \
	    $(DESTDIR)$(PREFIX)/share/doc/python-sandbox
	install -m 755 $(BUILD)/python-sandbox.fcgi \
	    $(DESTDIR)$(PREFIX)/lib/python-sandbox/
	install -m 755 $(BUILD)/python-sandbox $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(BUILD)/sandboxd $(DESTDIR)$(PREFIX)/sbin/
	install -m 644 README.md lighttpd.conf.example apache.conf.example \
	    $(DESTDIR)$(PREFIX)/share/doc/python-sandbox/

dist:
	mkdir -p dist
	git archive --prefix=python-sandbox-mcp-$(VERSION)/ \
	    -o dist/python-sandbox-mcp-$(VERSION).tar.gz HEAD

clean:
	rm -rf build dist cgi-bin/python-sandbox.fcgi
