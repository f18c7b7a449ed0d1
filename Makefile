# `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# torch's CPU build, the one the tests are measured with; `make setup TORCH=torch` takes the newest,
# with CUDA, for a machine with GPUs.
TORCH ?= torch==2.13.0
# pip compiles 15,000 modules, of which the tests import a tenth; `--no-compile` leaves that to the
# first import, which is sooner done in an environment that is used once.
PIP_OPTIONS ?=
# The number of test processes. Each starts its own clusters and trainings, and waits for them much of
# the time. An idle process takes tests from a busy one.
WORKERS ?= 4
# `make bench-parse BEFORE=DIR` also measures the version of teralog in the folder DIR.
BEFORE ?=
# DeepSpeed compiles its extensions once into this folder.
export TORCH_EXTENSIONS_DIR ?= $(HOME)/.cache/teralog/torch_extensions
# DeepSpeed finds ninja there; with another version than before it compiles all again.
IN_VENV := PATH="$(abspath $(BIN)):$$PATH"
# Tests start hundreds of Pythons: without bytecode each compiles all that it imports again.
unexport PYTHONDONTWRITEBYTECODE

##@ Work

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^##@ / {print substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(VENV)/.installed ## Make .venv with everything: torch, DeepSpeed, the tools of development.

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check $(PIP_OPTIONS) '$(TORCH)'
	$(BIN)/pip install --quiet --disable-pip-version-check $(PIP_OPTIONS) --editable '.[train,hf,html,dev]'
	touch $@

.PHONY: demo
demo: $(VENV)/.installed ## Train seven small models for real and print their table.
	$(BIN)/teralog submit examples/zero-stages.yaml || failed=1; \
	  $(BIN)/teralog report examples/zero-stages.yaml; exit $${failed:-0}

# A first use in a job would have the compiler's memory count as the job's.
.PHONY: extensions
extensions: $(VENV)/.installed ## Compile what DeepSpeed compiles at its first use on a CPU.
	$(IN_VENV) DS_ACCELERATOR=cpu $(BIN)/python -c \
	  'from deepspeed.ops.op_builder.cpu import CPUAdamBuilder, ShareMemCommBuilder; \
	  CPUAdamBuilder().load(); ShareMemCommBuilder().load()'

.PHONY: test
test: $(VENV)/.installed slurm-packages extensions ## Run all tests; real training and a real Slurm among them.
	$(IN_VENV) $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

.PHONY: quick
quick: $(VENV)/.installed ## Run the tests without Slurm, torch and a browser: while you work.
	$(IN_VENV) $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal \
	  -m 'not slurm and not train and not browser' --ignore tests/training

.PHONY: check
check: lint types test ## What CI runs: lint, types, test.

.PHONY: lint
lint: $(VENV)/.installed ## Check style and format.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

.PHONY: types
types: $(VENV)/.installed ## Check types, strictly.
	$(BIN)/mypy

.PHONY: hooks
hooks: $(VENV)/.installed ## Check style and types before every commit of this checkout.
	$(BIN)/pre-commit install

##@ Documentation

SITE := docs/_build/html

.PHONY: docs
docs: $(VENV)/.installed ## Build the documentation site; a broken link or reference fails.
	$(BIN)/sphinx-build -W -n --keep-going --quiet -b html docs $(SITE)

.PHONY: docs-serve
docs-serve: docs ## Build the site and serve it at http://localhost:8000.
	$(BIN)/python -m http.server --bind localhost --directory $(SITE) 8000

##@ Measure

.PHONY: bench
bench: $(VENV)/.installed ## Measure how fast teralog itself is.
	$(BIN)/python tests/benchmarks/command_line.py
	$(BIN)/python tests/benchmarks/regenerate.py

.PHONY: bench-parse
bench-parse: $(VENV)/.installed ## Measure how fast logs are read, next to perl, grep and ripgrep.
	$(BIN)/python tests/benchmarks/parse_logs.py
	$(BIN)/python tests/benchmarks/real_logs.py --rounds 1 $(if $(BEFORE),--before '$(BEFORE)')

.PHONY: bench-slurm
bench-slurm: $(VENV)/.installed slurm-packages ## Measure submit and status on a practice cluster, next to submitit.
	$(BIN)/python tests/benchmarks/slurm.py

.PHONY: bench-compare
bench-compare: $(VENV)/.installed ## Measure on simulated runs how often compare errs, and what it finds.
	$(BIN)/python tests/benchmarks/compare_simulation.py

.PHONY: bench-report
bench-report: $(VENV)/.installed ## Measure how fast the HTML page of a campaign is written and opened.
	$(BIN)/python tests/benchmarks/report_page.py

.PHONY: soak
soak: $(VENV)/.installed slurm-packages ## Read 100,000 damaged logs; kill 100 submits; compare real runs; train with every stage.
	TERALOG_SOAK=100000 $(BIN)/python -m pytest --timeout 7200 tests/parsers/test_soak.py
	TERALOG_MOMENTS=34 $(BIN)/python -m pytest -vv tests/cluster/test_exactly_once.py \
	  tests/orchestrator/submit/test_local.py
	TERALOG_DISTURBED=1 $(BIN)/python -m pytest -s tests/cluster/test_compare_real.py
	TERALOG_ALL_STAGES=1 $(BIN)/python -m pytest tests/training/test_hf_gpt.py tests/cluster/test_kinds_of_training.py

##@ Practice cluster

# NODES have 32 GB GPUs, two more 16 GB; ACCOUNTING=1 adds slurmdbd, for sacct.
NODES ?= 4
PRACTICE := tools/practice_cluster.py
PRACTICE_OPTIONS = --nodes $(NODES) $(if $(ACCOUNTING),--accounting)

.PHONY: slurm-up
slurm-up: slurm-packages ## Start a real Slurm cluster on this machine: NODES=16, ACCOUNTING=1.
	@$(PYTHON) $(PRACTICE) up $(PRACTICE_OPTIONS)

.PHONY: slurm-shell
slurm-shell: $(VENV)/.installed slurm-packages ## Open a shell on the cluster; start the cluster if none is up.
	@$(IN_VENV) $(PYTHON) $(PRACTICE) shell $(PRACTICE_OPTIONS)

.PHONY: slurm-down
slurm-down: ## Stop the cluster and all its jobs.
	@$(PYTHON) $(PRACTICE) down

.PHONY: slurm-packages
slurm-packages: ## Install the packages of the cluster, or print what to type.
	@$(PYTHON) $(PRACTICE) packages

##@ Records

.PHONY: record
record: $(VENV)/.installed ## Rewrite recorded scripts, generated docs, options, tables, output in the README and docs.
	$(BIN)/python tools/record_scripts.py
	$(BIN)/python tools/record_reference.py
	DS_ACCELERATOR=cpu $(BIN)/python tools/record_deepspeed_keys.py
	$(BIN)/python tools/record_options_of_parsers.py
	$(BIN)/python tools/published.py
	$(BIN)/python tools/record_output.py

.PHONY: picture
picture: demo ## Write the README's picture of a report, with Chromium.
	$(BIN)/teralog report examples/zero-stages.yaml --html
	$(BIN)/python tools/record_picture.py

##@ Housekeeping

.PHONY: wheel
wheel: $(VENV)/.installed ## Build the wheel into dist/.
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .

.PHONY: clean
clean: ## Remove .venv, caches and dist/; keep results/.
	rm -rf $(VENV) dist docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
