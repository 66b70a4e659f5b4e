# Every target bootstraps itself: `make test` in a fresh clone installs first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UV := .tools/bin/uv
NODES := .tools/nodes/.installed
CORE := $(VENV)/.core
CORE_LOG := native/target/install.log
CORE_SOURCES := $(shell find native -name target -prune -o -path native/fuzz -prune -o -type f ! -name NOTICES -print 2> /dev/null)
FUZZ_SECONDS := 30
FUZZ_TARGETS := read rows values
COVERAGE_FLAGS := --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares
RUST_HOST = $(shell rustc -vV | sed -n 's/^host: //p')
HAS_CARGO := $(shell command -v cargo 2> /dev/null)
# In syntax that old versions of Python can parse.
REFUSE_OLD_PYTHON := import sys; sys.exit(None if sys.version_info >= (3, 11) else \
	"Gapless needs Python 3.11 or newer; $(PYTHON) is %d.%d.%d. Set PYTHON=python3.11 or newer." \
	% sys.version_info[:3])
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check

# Compile bytecode once, not in each of hundreds of processes, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE
# Numpy would start a thread per core in each of them, which no code here needs.
export OPENBLAS_NUM_THREADS := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' Makefile

.PHONY: install
install: $(STAMP) $(CORE) ## Create .venv with the locked dependencies, gapless itself and its compiled core

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c '$(REFUSE_OLD_PYTHON)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --no-deps --require-hashes -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -qq src
	@touch $@

# Nothing requires the compiled core: without it, Python does its work.
$(CORE): $(STAMP) $(CORE_SOURCES)
	@if [ -z "$(HAS_CARGO)" ]; then \
		echo "Continuing without the compiled core: cargo is not installed. Python decodes blocks, more slowly."; \
	elif ! $(MAKE) --no-print-directory native > /dev/null 2>&1; then \
		$(PIP) uninstall -y gapless-native > /dev/null 2>&1; \
		echo "Continuing without the compiled core: its build failed (see $(CORE_LOG)). Python decodes blocks, more slowly."; \
	fi
	@touch $@

.PHONY: native
native: $(STAMP) ## Build the compiled core and install it, or fail
	@mkdir -p $(dir $(CORE_LOG))
	@PATH="$(CURDIR)/$(BIN):$$PATH" CARGO_TARGET_DIR="$(CURDIR)/native/target" $(BIN)/python -m pip -v \
		--disable-pip-version-check install --no-deps --no-build-isolation --force-reinstall ./native \
		> $(CORE_LOG) 2>&1 || { tail -n 30 $(CORE_LOG); exit 1; }
	@touch $(CORE)

.PHONY: notices
notices: $(STAMP) ## Write the licenses of what is linked into the compiled core, for its wheels
	$(BIN)/python -m scripts.core_notices native/NOTICES

.PHONY: wheel
wheel: $(STAMP) notices ## Build wheels of gapless and of the compiled core into dist
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	PATH="$(CURDIR)/$(BIN):$$PATH" CARGO_TARGET_DIR="$(CURDIR)/native/target" \
		$(BIN)/maturin build --release --manifest-path native/Cargo.toml --out dist

.PHONY: check
check: ## Lint, check formatting, types and the layers
	@$(MAKE) --no-print-directory --jobs=2 check-core check-python

.PHONY: check-python
check-python: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: check-core
# Built first, because clippy reuses half of what a release build compiles.
check-core: $(CORE)
ifneq ($(HAS_CARGO),)
	cargo fmt --check --manifest-path native/Cargo.toml
	CARGO_TARGET_DIR="$(CURDIR)/native/target" cargo clippy --quiet --locked --release --all-targets \
		--manifest-path native/Cargo.toml -- -D warnings
endif

# What kills processes, breaks nodes and servers, alters data, or tries a great many cases.
ORDEALS := $(addprefix tests/, stateful \
	$(addprefix acceptance/test_, budget.py crash.py fetch_crash.py leaving.py one_transaction.py publish.py \
		repair.py repair_postgres.py secrets.py stopping.py wallet_crash.py wallet_scale.py) \
	$(addprefix conformance/, engine/test_outages.py engine/test_troubled_rows.py family \
		fetch/test_fault_matrix.py fetch/test_metered.py fetch/test_truth.py \
		follow/test_beginning.py follow/test_endpoints.py follow/test_reorgs.py ledger/test_silence.py \
		sink/test_fold.py sink/test_machine.py sink/test_processes.py verify) \
	$(addprefix data/test_, core.py core_rows.py real_blocks_restore.py) \
	$(addprefix unit/, evm/test_core.py evm/test_core_rows.py evm/test_wallet_laws.py \
		rpc/test_whole_batches.py wallets/test_laws.py))
PYTEST := $(BIN)/pytest -n 4 --dist worksteal

.PHONY: test
# Some of the tests show what they cover: see tests/conftest.py.
test: install $(NODES) ## Run the tests; 95 % of what they cover must stay covered
	$(PYTEST) --cov --cov-report= $(addprefix --ignore=, tests/simulation $(ORDEALS))
	$(BIN)/coverage report --fail-under=95

.PHONY: ordeals
ordeals: install $(NODES) ## Run the tests that kill processes, break nodes and servers, and alter data
	$(PYTEST) $(ORDEALS)

.PHONY: simulate
simulate: install ## Test the simulation, and run it two hundred times each for fetches, follows and publishers
	$(BIN)/pytest -n 2 --dist worksteal tests/simulation
	$(BIN)/python -m tests.simulation --runs 200 --jobs 2
	$(BIN)/python -m tests.simulation --follow --runs 200 --seed 1000 --jobs 2
	$(BIN)/python -m tests.simulation --publish --runs 200 --jobs 2
	$(BIN)/python -m tests.simulation --wallets --runs 30 --jobs 2

.PHONY: fuzz
# libFuzzer needs coverage counters, which the stable compiler inserts if asked in LLVM's words.
fuzz: install ## Give the compiled core random answers for a minute; compare it with the reference
ifeq ($(HAS_CARGO),)
	@echo "Nothing to fuzz: cargo is not installed."
else
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)
	$(BIN)/python -m tests.fuzz.seeds native/fuzz/corpus
	RUSTFLAGS="$(COVERAGE_FLAGS)" cargo build --quiet --release --locked --target-dir native/fuzz/target \
		--target $(RUST_HOST) --manifest-path native/fuzz/Cargo.toml
	@mkdir -p native/fuzz/artifacts
	@set -e; for target in $(FUZZ_TARGETS); do \
		native/fuzz/target/$(RUST_HOST)/release/$$target native/fuzz/corpus/$$target \
			-max_total_time=$$(($(FUZZ_SECONDS) / 3)) -artifact_prefix=native/fuzz/artifacts/$$target- -max_len=65536 \
			-timeout=10 -rss_limit_mb=512 -verbosity=0 -print_final_stats=1; \
	done
endif

.PHONY: soak
soak: install ## Simulate thousands of runs, crash databases, follow a long chain, read many wallets, try many examples
	$(BIN)/python -m tests.simulation --runs 10000 --jobs 2
	$(BIN)/python -m tests.simulation --follow --runs 2000 --jobs 2
	$(BIN)/python -m tests.simulation --publish --runs 5000 --jobs 2
	$(BIN)/python -m tests.simulation --wallets --runs 1000 --jobs 2
	$(BIN)/python -m tests.soak.one_transaction --rounds 200
	$(BIN)/python -m tests.soak.head --blocks 100000
	WALLET_BLOCKS=100000 WALLET_MOVEMENTS=10000000 $(BIN)/python -m bench wallets
	GAPLESS_EXAMPLES=1000 $(BIN)/pytest -n 2 --timeout 0 tests/stateful tests/unit/evm tests/unit/devnode \
		tests/conformance/sink/test_machine.py tests/conformance/wallet_store/test_machine.py \
		tests/conformance/fetch/test_fault_matrix.py

.PHONY: demo
demo: install ## Run the demonstration
	$(BIN)/python examples/demo.py

.PHONY: bench
bench: install ## Run the benchmarks
	$(BIN)/python -m bench

.PHONY: bench-peers
bench-peers: install ## Compare with other tools, and write docs/benchmarks.md
	$(BIN)/python -m bench.peers

.PHONY: docs
docs: install ## Write the generated references and the outputs in the docs
	$(BIN)/python -m scripts.cli_reference
	$(BIN)/python -m scripts.data_reference
	$(BIN)/python -m scripts.doc_outputs

.PHONY: lock
# Keep extras in the lock: without them, pip looks for a newer release, which has no hash here.
lock: $(UV) ## Resolve the newest dependencies into requirements.lock
	$(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-strip-extras \
		--system-certs --group dev --custom-compile-command 'make lock' \
		--output-file requirements.lock pyproject.toml

# anvil, a real node, comes from npm; without npm, its tests are skipped with a message.
$(NODES): tests/nodes/package.json tests/nodes/package-lock.json
	@mkdir -p $(@D) && cp $^ $(@D)
	@if command -v npm > /dev/null; then npm install --prefix $(@D) --no-save --ignore-scripts --no-audit --no-fund --silent; fi
	@touch $@

$(UV):
	$(PYTHON) -m venv .tools
	.tools/bin/python -m pip -qq --disable-pip-version-check install uv

.PHONY: clean
clean: ## Remove everything that the other targets made
	rm -rf $(VENV) .tools .coverage .coverage.* .hypothesis .*_cache dist native/target \
		native/fuzz/target native/fuzz/corpus native/fuzz/artifacts
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
