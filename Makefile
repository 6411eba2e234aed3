# Every command that the README names. `make` alone lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

export CARGO_TARGET_DIR ?= $(HOME)/.cache/toller/target
# The binary that the demo runs and that the tests start as real processes.
export TOLLER_BIN := $(CARGO_TARGET_DIR)/fast/toller

cargo := scripts/cargo
# One profile for everything but images, so that heavy crates are built once.
fast := --profile fast --locked
# Cargo chooses the features of a shared dependency anew for each selection of packages and kinds of target, and builds it
# anew where they differ. --workspace with --examples (there are none) selects what `cargo test --workspace` does, so that the
# binary and the tests share all of their dependencies.
build_binary := $(cargo) build $(fast) --workspace --bins --examples
image := toller:$(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
contract := proto/toller-v1.released.binpb
kubernetes_version := 1.33

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: binary ## build the toller binary and get an embedding model
	@echo "model: $$(scripts/setup-model)"
	@echo "binary: $(TOLLER_BIN)"

.PHONY: demo
demo: binary ## start a server, index docs/, run four queries, show a span
	scripts/demo

.PHONY: test
test: binary ## run every test but the long ones
	TOLLER_TEST_MODEL="$$(scripts/setup-model --minilm)"; export TOLLER_TEST_MODEL; \
	$(cargo) test $(fast) --workspace --no-fail-fast

.PHONY: test-long
test-long: binary ## run the long tests: soak, kill loops, fuzzing (TOLLER_LONG_SECONDS each, 120)
	$(cargo) test $(fast) --workspace --test long -- --ignored --nocapture

.PHONY: verify-bge
verify-bge: ## compare vectors of the real BGE weights with the reference (needs the model hub)
	$(cargo) test $(fast) --workspace --test embedder -- --ignored verify_bge --nocapture

.PHONY: bench
bench: ## run the benchmarks
	TOLLER_TEST_MODEL="$$(scripts/setup-model --minilm)"; export TOLLER_TEST_MODEL; \
	$(cargo) bench $(fast) --workspace --bench '*'
	@echo "results: $(CARGO_TARGET_DIR)/criterion/report/index.html"

.PHONY: bench-embed
bench-embed: binary ## measure the embedder against this machine's peak and candle's stock BERT (minutes)
	TOLLER_TEST_MODEL="$$(scripts/setup-model --minilm)"; export TOLLER_TEST_MODEL; \
	$(cargo) bench $(fast) --package toller-benches --features peers --bench embed_report

.PHONY: bench-embed-peers
bench-embed-peers: bench-embed ## the same beside onnxruntime and sentence-transformers, in a Python of their own
	TOLLER_TEST_MODEL="$$(scripts/setup-model --minilm)"; export TOLLER_TEST_MODEL; \
	scripts/bench-embed-peers

.PHONY: bench-store
bench-store: ## measure the memory and edge stores at 100,000 vectors, and MMR beside LangChain's (minutes)
	$(cargo) bench $(fast) --workspace --bench store_report
	scripts/bench-store-peers

.PHONY: bench-ingest
bench-ingest: binary ## measure indexing over gRPC: speed beside the embedder's own, memory, a run with nothing changed (minutes)
	TOLLER_TEST_MODEL="$$(scripts/setup-model --minilm)"; export TOLLER_TEST_MODEL; \
	$(cargo) bench $(fast) --workspace --bench ingest_report

.PHONY: bench-retrieval
bench-retrieval: binary ## measure retrievers over gRPC at 100,000 chunks, and the retriever layer alone (minutes)
	TOLLER_TEST_MODEL="$$(scripts/setup-model --minilm)"; export TOLLER_TEST_MODEL; \
	$(cargo) bench $(fast) --workspace --bench retrieval_report

.PHONY: fmt
fmt: ## format Rust and proto files
	$(cargo) fmt --all
	scripts/tools buf format --write

.PHONY: lint
lint: lint-format lint-scripts lint-proto lint-deploy lint-dependencies lint-rust ## run every check that is not a test

.PHONY: lint-format
lint-format:
	$(cargo) fmt --all --check
	scripts/tools buf format --diff --exit-code

.PHONY: lint-scripts
lint-scripts:
	git grep --untracked -lE '^#!/(usr/)?bin/(env )?(ba)?sh' -- scripts .ci | xargs scripts/tools shellcheck
	scripts/check-registry-hosts

.PHONY: lint-proto
lint-proto:
	scripts/tools buf lint
	scripts/tools buf breaking --against $(contract)

.PHONY: lint-deploy
lint-deploy:
	scripts/tools hadolint deploy/docker/Dockerfile
	scripts/tools yamllint --strict buf.yaml .yamllint.yaml deploy deploy/kubernetes/secret.yaml.example
	scripts/tools python scripts/check-compose
	scripts/tools kubernetes-validate --quiet --strict --kubernetes-version $(kubernetes_version) \
		deploy/kubernetes/*.yaml deploy/kubernetes/secret.yaml.example

.PHONY: lint-dependencies
lint-dependencies:
	scripts/tools cargo-deny --locked check licenses bans sources
	scripts/check-advisories

.PHONY: lint-rust
lint-rust:
	$(cargo) clippy $(fast) --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(cargo) doc $(fast) --workspace --no-deps

.PHONY: proto-release
proto-release: ## record proto/ as the released contract that changes are checked against
	scripts/tools buf lint
	scripts/tools buf build --exclude-source-info --output $(contract)

.PHONY: images
images: ## build the container image (needs Docker)
	docker build --file deploy/docker/Dockerfile --tag $(image) \
		--build-arg VERSION=$(lastword $(subst :, ,$(image))) --build-arg REVISION=$$(git rev-parse HEAD) .

.PHONY: binary
binary:
	$(build_binary)
