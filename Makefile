# SPDX-License-Identifier: Apache-2.0
#
# The front door: `make help` says what there is. Meson does the work; every
# target installs what it needs on Debian and Ubuntu as root, and says what is
# missing elsewhere.

BENCH ?=
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local
export FUZZ_SECONDS

all: ## build the program at build/lapse, with the dashboard where Node.js is there
	@tools/setup build
	@tools/web --no-check --optional
	@tools/build build

web: ## build the dashboard (needs Node.js); the next make puts it into the program
	@tools/setup web
	@tools/web

demo: all ## train a small language model for half a minute under lapse
	@tools/demo

test: ## everything that must hold, in about three quarters of an hour on 2 cores
	@tools/setup test
	@tools/test

bench: all ## measure the promises of speed; BENCH=name measures one
	@tools/bench $(BENCH)

asan: ## unit tests under the address and undefined-behaviour sanitizers
	@tools/setup test
	@tools/test asan

tsan: ## unit tests under the thread sanitizer
	@tools/setup test
	@tools/test tsan

fuzz: ## fuzz every parser for FUZZ_SECONDS (60) each
	@tools/setup fuzz
	@tools/fuzz

lint: ## static analysis and format
	@tools/setup lint
	@tools/lint

install: all ## install under PREFIX (/usr/local), staged in DESTDIR if set
	@tools/build build -Dprefix=$(PREFIX) -Dlibdir=lib
	@meson install -C build --no-rebuild $(if $(DESTDIR),--destdir "$(abspath $(DESTDIR))")
	@$(if $(DESTDIR),,[ "$$(id -u)" != 0 ] || ldconfig)

clean: ## remove all build folders
	rm -rf build build-asan build-tsan build-fuzz web/dist

help: ## this text
	@sed -n 's/^\([a-z]*\):[^#]*## /\1\t/p' Makefile | \
		while IFS='	' read -r name text; do printf '  make %-8s %s\n' "$$name" "$$text"; done

.PHONY: all web demo test bench asan tsan fuzz lint install clean help
