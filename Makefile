# Set-up happens inside the targets: a clean clone needs python3 (3.11 or later) and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(shell command -v uv 2>/dev/null)
QUICK  ?=
export QUICK

ifeq ($(UV),)
INSTALL = $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check
else
INSTALL = $(UV) pip install --quiet --python $(BIN)/python
endif

.PHONY: help demo studio test test-all fuzz check lint types sizes slowest bench setup setup-dev lock clean
help:
	@echo "make demo          the whole way on a simulated city, into demo/"
	@echo "make studio        the local page on a simulated city, in studio-demo/"
	@echo "make test          the tests that a commit can break"
	@echo "make test-all      every test, the exhaustive ones included"
	@echo "make slowest       make test, with the 30 tests that take most CPU time"
	@echo "make sizes         lines and files by package; fails where one has grown by 3 %"
	@echo "make fuzz          TARGET=csv N=2000 SEED=1: inputs of one target, on from where it stopped"
	@echo "make check         lint, types, sizes and make test"
	@echo "make bench         all benchmarks (bench-NAME for one, QUICK=1 for a small run)"
	@echo "make lock          pin the dependencies anew (needs uv)"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("shoal needs Python 3.11 or later; set PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.lock pyproject.toml src/shoal_baselines/pyproject.toml | $(VENV)/bin/python
	@echo "installing the pinned dependencies"
	@$(INSTALL) --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation -e . -e src/shoal_baselines
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.run
	@echo "installing the pinned test tools"
	@$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

setup: $(VENV)/.run
setup-dev: $(VENV)/.dev

demo: setup
	$(BIN)/shoal demo --out demo

studio: setup
	SHOAL_LEDGER=$(CURDIR)/studio-demo/ledger.sqlite $(BIN)/shoal studio --simulated --folder studio-demo

# Tests of a file run in one process, in the order of the folders: pages and Spark, which take longest, come first.
PYTEST = $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test: setup-dev
	$(PYTEST) -m "not exhaustive"

# Exhaustive tests, most of which take long, are shared out one by one.
test-all: setup-dev
	$(PYTEST) -m "not exhaustive"; status=$$?; \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m exhaustive && exit $$status

slowest: setup-dev
	$(PYTEST) -m "not exhaustive" --cpu 30

sizes:
	@$(PYTHON) -m tests.sizes

TARGET ?= csv
N      ?= 2000
SEED   ?= 1
fuzz: setup-dev
	$(BIN)/python -m tests.fuzz.run $(TARGET) $(N) --seed $(SEED)

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup-dev
	$(BIN)/pyright

check: lint types sizes test

bench: bench-engine bench-command bench-audit bench-density bench-honest bench-density-cost bench-query bench-commute bench-attack-sfc bench-attack-scale bench-attack-recovery bench-attack-reconstruct bench-kmerge bench-trajectories bench-histogram bench-synthetic bench-scale bench-memory bench-studio

bench-%: setup-dev
	$(BIN)/python -m benchmarks.$(subst -,_,$*) $(if $(QUICK),--quick,)

lock:
	uv pip compile pyproject.toml --extra build --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header -q -o requirements.lock
	uv pip compile pyproject.toml --extra build --extra dev -c requirements.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header -q -o requirements-dev.lock

clean:
	rm -rf $(VENV) demo build dist .pytest_cache .ruff_cache
