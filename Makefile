# make demo   set up everything and run the main job, in namespaces of its own
# make test   install what the tests need, and pass them
# make build  bin/proa        make lint   golangci-lint        make bench   the Go benchmarks

GO      ?= go
CACHE   ?= $(CURDIR)/.cache
VERSION ?= $(shell git describe --always --dirty 2>/dev/null || echo dev)
export PROA_CACHE = $(CACHE)
export PATH := $(CACHE)/bin:$(PATH)
export GOTOOLCHAIN = local

.PHONY: all build demo test setup lint bench clean
all: build

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/proa ./cmd/proa

# What the demo and the tests need beside Go: a few Debian packages, a
# container runtime built from its modules, kubectl.
setup:
	@test/tools/setup.sh

demo: setup build
	$(GO) run ./test/demo

test: setup build
	$(GO) vet ./...
	@mkdir -p $(CACHE)
	@echo 'the demo, as a user runs it; its output is in $(CACHE)/demo.log'
	@$(GO) run ./test/demo >$(CACHE)/demo.log 2>&1 || { cat $(CACHE)/demo.log; exit 1; }
	$(GO) test -race -timeout 20m -json ./... | $(GO) run ./test/summary

lint:
	$(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.13.0 run ./...

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

clean:
	rm -rf bin $(CACHE)
