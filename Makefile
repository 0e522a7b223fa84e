# make demo and make test set up what is missing by themselves.
.PHONY: setup demo test test-slow test-benchmarks up lint docs clean
PYTHON ?= python3
# studies that `make up` runs at once
LIMIT ?= 1
BIN := .venv/bin
READY := .venv/.ready

demo: $(READY)
	$(BIN)/dreamer run demo

# Tests wait for other processes a third of their time, so there is a process more than there are cores.
# Each takes whole files, whose tests share what they have made, in their order: short tests come last.
processes = $$($(BIN)/python -c 'import os; print(min($(1), os.cpu_count() + 1))')

test: $(READY)
	$(BIN)/pytest -m "not slow" -n $(call processes,8) --dist loadfile --no-loadscope-reorder --durations 15

# The slow tests of the benchmarks have a command of their own: they are for changes of benchmarks/, and of
# what benchmarks/gpu measures.
test-slow: $(READY)
	$(BIN)/pytest -m slow --ignore tests/benchmarks -n $(call processes,4) --dist loadfile --no-loadscope-reorder --durations 40

test-benchmarks: $(READY)
	$(BIN)/pytest -m slow tests/benchmarks -n $(call processes,4) --dist loadfile --durations 10

up: $(READY)
	$(BIN)/python -m dreamer_study.flows.commands.make_up --limit "$(LIMIT)"

lint: $(READY)
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python tests/dense_lines.py && $(BIN)/lint-imports --no-logo && $(BIN)/mypy

# The documents as a site, in build/site; without a network. A dead link or anchor is an error (not with --quiet).
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "build/site/index.html"

setup: $(READY)

# uv where it is installed (seconds), pip where it is not (minutes).
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed"'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	if command -v uv >/dev/null; then uv pip install -q -p $(BIN)/python --reinstall-package dreamer-study -e '.[dev]' -c constraints.txt; \
	else $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]' -c constraints.txt; fi
	touch $(READY)

clean:
	rm -rf .venv runs .prefect build src/*.egg-info
