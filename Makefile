# `make demo` sets up and runs the main job; `make test` sets up and runs the tests. Both start from nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-oldest coverage soak lint benchmark benchmark-long clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed
	$(BIN)/tallyveil demo --out demo-release

test: $(VENV)/.installed-dev
	$(BIN)/pytest -n 2

# `make coverage COVERED=tests/unit` measures every room; without it, the privacy core is measured by its own unit tests.
COVERED ?= tests/unit/noise tests/unit/accounting tests/unit/confidential tests/unit/run
coverage: $(VENV)/.installed-dev
	$(BIN)/coverage run -m pytest $(COVERED)
	$(BIN)/python tests/coverage_by_room.py

soak: $(VENV)/.installed-dev
	$(BIN)/python tests/soak/kills.py --number 1000
	$(BIN)/python tests/soak/bad_inputs.py --number 1000

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

benchmark: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/noise.py

clean:
	rm -rf $(VENV) demo-release build dist
