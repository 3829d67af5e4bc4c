# Spillway's commands. `make help` lists them; `sudo make demo` and `sudo make test` need nothing but make and Go.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# sudo resets PATH, so Go is looked for where its installers and version managers put it.
SUDO_HOME := $(if $(SUDO_USER),$(shell getent passwd $(SUDO_USER) | cut -d: -f6))
export PATH := $(PATH):/usr/local/go/bin:/usr/lib/go/bin:/snap/bin$(if $(SUDO_HOME),:$(SUDO_HOME)/go/bin:$(SUDO_HOME)/sdk/go/bin:$(SUDO_HOME)/.local/go/bin)
# Under sudo the caches are root's own, so that the user's stay free of files that only root can remove.
ifneq ($(SUDO_HOME),)
export HOME := $(shell getent passwd root | cut -d: -f6)
endif

# Static binaries, which take no C compiler. Only the C library (make lib) is built with cgo, by its own command.
export CGO_ENABLED := 0
# No version stamp from git: it refuses to look into a checkout that belongs to another user, as root's view of it does.
GO_BUILD := go build -trimpath -buildvcs=false

# The compiler that the committed BPF objects come from: another version makes other bytes (docs/decisions/0007).
CLANG_VERSION := 14
export BPF2GO_CC := clang-$(CLANG_VERSION)
export BPF2GO_STRIP := llvm-strip-$(CLANG_VERSION)
# Debian keeps asm/types.h per architecture, where a compiler for BPF does not look by itself. Others must not look there: a cross compiler has its own.
generate: export C_INCLUDE_PATH := /usr/include/$(shell uname -m)-linux-gnu
# What the test of the package boots a Debian with.
SYSTEMD_PACKAGES := debootstrap systemd-container
# What builds the C library, and the programs in C that test it; and for the other architecture, whose programs qemu runs in the tests.
LIB_PACKAGES := gcc libc6-dev
CROSS_PACKAGES := $(if $(filter aarch64,$(shell uname -m)),gcc-x86-64-linux-gnu libc6-dev-amd64-cross,gcc-aarch64-linux-gnu libc6-dev-arm64-cross) qemu-user
# What the Python package is tested with, and the wheel is built with.
PYTHON_PACKAGES := python3-torch python3-numpy python3-setuptools python3-wheel flake8
# What has assembly for arm64, or is the pure Go that the protocol is made of.
ARM64_TESTS := ./worker/fixedpoint ./wire ./worker/engine
# What Spillway is compared with (spill-load compare, make bench), and the browser that its page is tested in.
COMPARE_PACKAGES := python3-torch python3-numpy openmpi-bin python3-mpi4py
BROWSER_PACKAGES := chromium
# The external etcd that appliances of a cluster are tested with; the one that runs in the daemon needs no package.
ETCD_PACKAGES := etcd-server
GENERATE_PACKAGES := clang-$(CLANG_VERSION) llvm-$(CLANG_VERSION) libbpf-dev linux-libc-dev

SEEDS ?= 2800
FIRST ?= 1

.PHONY: help build lib wheel deb test test-arm64 test-systemd test-bmv2 demo sim bench generate p4 lint clean need-go need-root generate-deps systemd-deps lib-deps python-deps compare-deps browser-deps cross-deps etcd-deps

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 15

build: need-go ## static binaries in bin/
	@mkdir -p bin
	$(GO_BUILD) -o bin/spill-load ./loadtest
	$(GO_BUILD) -o bin/spill-tor ./p4/softtor/spill-tor
	$(GO_BUILD) -ldflags "-X spillway/appliance/command.builtVersion=$$(<appliance/packaging/VERSION)" -o bin/spillwayd ./appliance
	$(GO_BUILD) -ldflags "-X spillway/ctl/command.builtVersion=$$(<appliance/packaging/VERSION)" -o bin/spillctl ./ctl
	@if [[ -n "$(SUDO_USER)" ]]; then chown -R "$(SUDO_USER):" bin; fi

lib: need-go lib-deps ## the C library in bin/: libspillway.so.1, spillway.h and a file for pkg-config (needs gcc)
	go run ./worker/capi/library/makelib -out bin -version "$$(<appliance/packaging/VERSION)"
	@if [[ -n "$(SUDO_USER)" ]]; then chown -Rh "$(SUDO_USER):" bin; fi

wheel: python-deps ## the Python package in dist/, for every version and architecture; it needs libspillway.so.1 (make lib, or the Debian package)
	@mkdir -p dist .cache && rm -rf .cache/python && cp -r worker/python .cache/python
	cd .cache/python && /usr/bin/python3 -c "import setuptools.build_meta; print(setuptools.build_meta.build_wheel('../../dist'))"
	@if [[ -n "$(SUDO_USER)" ]]; then chown -R "$(SUDO_USER):" dist; fi

deb: need-go lib-deps cross-deps ## Debian packages of the appliance and the libraries for amd64 and arm64 in dist/
	go run ./appliance/packaging/makedeb -out dist
	@if [[ -n "$(SUDO_USER)" ]]; then chown -R "$(SUDO_USER):" dist; fi

test: need-go need-root systemd-deps lib-deps python-deps compare-deps browser-deps cross-deps etcd-deps ## the whole test suite (root: it loads BPF programs and makes network namespaces)
	go build -buildvcs=false ./...
	@$(MAKE) --no-print-directory test-arm64
	go run ./loadtest/testsummary -count=1 -p=1 -timeout=20m ./...

test-arm64: need-go cross-deps ## the tests of the conversions, the packets and the worker's engine, run as arm64 (emulated on other machines)
	GOOS=linux GOARCH=arm64 go test -count=1 $(if $(filter-out aarch64,$(shell uname -m)),-exec qemu-aarch64) -timeout 9m $(ARM64_TESTS)

test-systemd: need-go need-root systemd-deps ## the Debian package in a Debian that a real systemd boots (fetched once, some 60 MB, and kept in ~/.cache/spillway)
	go test -count=1 -v -timeout 20m ./appliance/packaging/systemdtest

test-bmv2: need-go need-root ## what can be tested on BMv2 only: needs simple_switch_grpc on PATH, from p4lang's packages
	@command -v simple_switch_grpc >/dev/null || { echo "simple_switch_grpc is not on PATH: it comes with p4lang's package bmv2, or from https://github.com/p4lang/behavioral-model" >&2; exit 1; }
	go test -count=1 -v -run BMv2 -timeout 20m ./p4/client ./p4/vectors/rig ./appliance/fabric

demo: need-root build ## train a network on four workers through the XDP aggregator, without loss and with
	bin/spill-load demo

sim: need-go need-root ## SEEDS=2800 FIRST=1: that many seeds of the simulated network
	go test ./sim -run '^TestSeeds$$' -count=1 -v -timeout 120m -args -seeds $(SEEDS) -first $(FIRST)
	go test ./sim -run '^TestQuorumSeeds$$' -count=1 -v -timeout 120m -args -quorum-seeds $(SEEDS) -first $(FIRST)
	go test ./sim -run '^TestTreeSeeds$$' -count=1 -v -timeout 120m -args -tree-seeds $(SEEDS) -first $(FIRST)

bench: need-root build lib python-deps compare-deps ## measure everything again and write docs/benchmarks.md; SECTION=words of a title: only that
	bin/spill-load benchmarks --write docs/benchmarks.md $(if $(SECTION),--section "$(SECTION)")

generate: need-go generate-deps ## everything that is generated: the BPF objects and their Go bindings (needs clang)
	go generate ./...

p4: need-go ## compile the P4 programs and check what comes of it (needs p4c; P4C_NOTE= is added to SOURCE)
	go run ./p4/check -dir p4 -note "$(P4C_NOTE)"

lint: need-go ## gofmt, go vet, staticcheck, and buf for the API
	@unformatted="$$(gofmt -l .)"; if [[ -n "$$unformatted" ]]; then printf 'not gofmt-ed:\n%s\n' "$$unformatted" >&2; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	cd appliance/api && go tool buf lint && go tool buf format --diff --exit-code

clean: ## remove what make built
	rm -rf bin dist .cache

# Go 1.21 and later fetch the toolchain that go.mod names; an older one cannot even read go.mod.
need-go:
	@version="$$(cd / && go env GOVERSION 2>/dev/null || true)"; minor="$${version#go1.}"; minor="$${minor%%[!0-9]*}"; \
	if [[ "$${minor:-0}" -lt 21 ]]; then echo "Go 1.21 or newer is needed, found: $${version:-none on PATH or in the usual places}; install it from https://go.dev/dl" >&2; exit 1; fi

need-root:
	@[[ "$$(id -u)" == 0 ]] || { echo "this needs root, to load BPF programs and make network namespaces: sudo make $(MAKECMDGOALS)" >&2; exit 1; }

# Debian packages that are missing are installed where root can, and named where not.
define install
	@missing=(); for p in $(1); do dpkg-query -W -f '$${Status}' "$$p" 2>/dev/null | grep -q ' installed$$' || missing+=("$$p"); done; \
	if [[ "$${#missing[@]}" == 0 ]]; then exit 0; fi; \
	if [[ "$$(id -u)" != 0 ]] || ! command -v apt-get >/dev/null; then echo "missing: $${missing[*]} (Debian 12 names; see $(2))" >&2; exit 1; fi; \
	apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$${missing[@]}"
endef

generate-deps:
	$(call install,$(GENERATE_PACKAGES),docs/decisions/0007)

systemd-deps:
	$(call install,$(SYSTEMD_PACKAGES),docs/packaging.md)

lib-deps:
	$(call install,$(LIB_PACKAGES),docs/c-api.md)

cross-deps:
	$(call install,$(CROSS_PACKAGES),docs/c-api.md)

etcd-deps:
	$(call install,$(ETCD_PACKAGES),docs/packaging.md)

python-deps:
	$(call install,$(PYTHON_PACKAGES),docs/pytorch.md)

compare-deps:
	$(call install,$(COMPARE_PACKAGES),docs/operations.md)

browser-deps:
	$(call install,$(BROWSER_PACKAGES),docs/operations.md)
