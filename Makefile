# Everything a person runs here, one word each; `make` alone lists them.
# PYTHON=/path/to/python3 selects the interpreter; pip's own settings (PIP_*, pip.conf) apply as they are.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Without it thousands of starts, and every worker of pytest, would compile the code anew.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
SUITE ?= waits
SUITES := $(filter-out size account_% fabric_% place_% plan_% peers,$(basename $(notdir $(wildcard tests/bench/*.py))))
ARGS ?=
WORKERS ?= $(shell expr $$(nproc) + 1)
NODES ?= 4
TARGET ?= mpi
RELEASE ?= trixie
TOPOLOGY ?= tree
PIP ?=
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses=8 --dist=loadgroup -rs $(ARGS)
FAULTS = tests/property tests/local $(sort $(shell grep -rlE --include='test_*.py' 'tests.sizes|mark.slow|alike' tests/unit tests/cluster))
CLUSTER_IMAGE = --suite $(RELEASE) --target $(TARGET) --pip '$(PIP)'
SCRIPTS := .ci/run docker/base-image docker/cluster docker/conf/task-prolog docker/conf/unkillable docker/engine docker/entrypoint docker/pyslurm docker/reserve docker/wheelhouse
PURE_CORE := $(addprefix hpckit/,core/units.py core/hostlist.py core/findings.py slurm/[!a]*.py spec/[!s]*.py script/*.py node/* fabric/* placement/* binding/* comm/* account/*)
PYTHON ?=
PYTHONS := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)

# ok: usable as it is · install: hpckit is not in it · clear: absent, too old, moved, or its Python is gone
VENV_STATE := $(or $(shell $(BIN)/python -I -c 'import os, sys; from importlib.util import find_spec; \
	here = sys.prefix in open(sys.prefix + "/bin/pip").read(800); pkg = find_spec("hpckit"); \
	print("clear" if sys.version_info < (3, 11) or not here else "install" if pkg is None \
	else "ok" if os.path.samefile(os.path.dirname(pkg.origin), "hpckit") else "clear")' 2>/dev/null),clear)

.PHONY: help
help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## */  make \1|/' | column -t -s '|'

.PHONY: demo
demo: $(VENV)/.runtime  ## show what hpckit does: a job of four ranks here, a node, a placement, a report
	rm -rf build/demo
	$(BIN)/hpckit demo build/demo

.PHONY: test
test: $(VENV)/.dev  ## run every test; ARGS="-m 'not cluster'" leaves out those that need a Slurm
	$(PYTEST)

.PHONY: coverage
coverage: $(VENV)/.dev  ## run every test under coverage, and hold it to its limits; takes ARGS too
	rm -f .coverage .coverage.*
	$(PYTEST) --cov --cov-report=
	$(BIN)/python -m coverage report --fail-under=85
	$(BIN)/python -m coverage report --fail-under=95 --include="$$(echo '$(PURE_CORE)' | tr ' ' ,)"

.PHONY: faults
faults: $(VENV)/.dev  ## run the statistical and fault suites at their whole size, on new random examples
	HYPOTHESIS_PROFILE=faults $(PYTEST) $(FAULTS)

.PHONY: frameworks
frameworks: $(VENV)/.dev  ## run every framework on the test cluster, twenty starts each, and Ray
	HYPOTHESIS_PROFILE=faults $(BIN)/python -m pytest -q -rs tests/cluster/test_frameworks.py $(ARGS)

.PHONY: lowest
lowest: $(VENV)/.dev  ## run tests with the oldest dependencies that are taken (Python 3.11 or 3.12)
	$(BIN)/python -m venv --clear .venv-lowest
	sed -nE '/^(dependencies|parquet) =/,/\]/s/.*"([^">]*)>=([0-9.]*).*/\1==\2/p' pyproject.toml >.venv-lowest/pins
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-lowest/pins \
	    --editable '.[dev]'
	.venv-lowest/bin/python -m pytest -n $(WORKERS) --maxprocesses=8 -q $(addprefix tests/,unit/cli unit/core \
	    unit/jobs unit/script unit/slurm unit/spec contract golden) $(ARGS)

.PHONY: cluster-up
cluster-up: $(VENV)/.runtime  ## start a Slurm of four nodes in containers (NODES=8; RELEASE=bookworm or forky)
	docker/cluster up --nodes $(NODES) --topology $(TOPOLOGY) $(CLUSTER_IMAGE)

.PHONY: cluster-image
cluster-image: $(VENV)/.runtime  ## build what cluster-up starts, and start nothing
	docker/cluster build $(CLUSTER_IMAGE)

.PHONY: cluster-shell
cluster-shell:  ## open a shell on the cluster's login host, as the user alice
	docker/cluster shell

.PHONY: cluster-down
cluster-down:  ## remove the cluster's containers, network and volumes
	docker/cluster down

.PHONY: check
check: $(VENV)/.dev  ## lint, format, types, layers and documentation: run it before a commit
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports --no-logo
	for script in $(SCRIPTS); do bash -n $$script; done
	$(BIN)/shellcheck $(SCRIPTS)
	$(BIN)/python docs/generate.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

.PHONY: docs
docs: $(VENV)/.dev  ## rewrite the generated pages, and build the site into site/
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

.PHONY: man
man: $(VENV)/.dev  ## write the man pages of all commands to build/man/man1
	$(BIN)/python docs/man.py

.PHONY: release
release: man  ## build and check what a release consists of, in dist/; publishes nothing
	$(BIN)/python docs/release.py

.PHONY: size
size:  ## count modules, lines, importers and circles
	@$(or $(wildcard $(BIN)/python),python3) tests/bench/size.py

.PHONY: calibrate
calibrate: $(VENV)/.dev  ## fit the constants of hpckit plan anew, and say how well they fit
	$(BIN)/python -m tests.bench.plan_calibrate $(ARGS)

.PHONY: bench
bench: $(VENV)/.dev  ## print all figures that hpckit is held to; one suite: SUITE=cli
	@[ -f tests/bench/$(SUITE).py ] || { echo "no suite $(SUITE); there are: $(SUITES)" >&2; exit 1; }
	$(BIN)/python -m tests.bench.$(SUITE) $(ARGS)  # as a file, inspect.py would hide the module of that name

ifneq ($(VENV_STATE),ok)
.PHONY: $(VENV)/.runtime
endif
AXE := axe-core@4.14.1

$(VENV)/.runtime: pyproject.toml
ifeq ($(VENV_STATE),clear)
	@for python in $(PYTHONS); do \
	    if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "$$python -m venv --clear $(VENV)"; exec "$$python" -m venv --clear $(VENV); \
	    fi; \
	done; \
	echo "hpckit needs Python 3.11 or newer with venv, and found none (tried: $(PYTHONS)): run \`apt install python3 python3-venv\` (Debian 12, Ubuntu 24.04 or later) or \`dnf install python3.11\` (RHEL 8 and 9), or name one with \`make PYTHON=/path/to/python3\`." >&2; \
	exit 1
endif
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@npm install --prefix $(VENV) --no-save --silent --no-audit --no-fund --ignore-scripts --fetch-retries=1 $(AXE) || \
	    echo "npm did not bring $(AXE): the report's page is not tested for accessibility"
	@touch $@
