# `make demo` sets up and runs the main job; `make test` sets up and runs the tests. Both start from nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# What random tests draw from, where a target says so.
SEED ?= 1

.PHONY: demo test test-changed test-nightly test-oldest check-r check-proofs coverage soak seeded-bugs mutants auditors auditors-power attacks soak-releases fuzz lint lint-js test-browser docs wheel bundle test-bundle lock benchmark benchmark-long clean

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

# Bytecode is kept even where the shell forbids it: the tests start many processes, and each would compile every module.
TESTING := PYTHONDONTWRITEBYTECODE=
test: $(VENV)/.installed-dev
	$(TESTING) $(BIN)/pytest -n 2

# The tests that can notice what changed since a commit, for whoever is changing it, those of the nightly run among them.
# `make test-changed SINCE=main`
SINCE ?= HEAD
test-changed: $(VENV)/.installed-dev
	tests=$$($(BIN)/python tests/changed.py --since $(SINCE)) || exit 1; \
		if [ -z "$$tests" ]; then echo "nothing changed since $(SINCE)"; else \
		$(TESTING) $(BIN)/pytest -n 2 -m "not soak and not bundle" $$tests; fi

# Statistical, slow and exhaustive rows, the properties once more with examples drawn anew, and what is installed from
# archives.
test-nightly: $(VENV)/.installed-dev
	$(TESTING) $(BIN)/pytest -n 2 -m nightly
	$(TESTING) $(BIN)/pytest -n 2 -m "not soak and not bundle" --hypothesis-profile=nightly tests/property
	$(MAKE) test-bundle

# The oldest version that pyproject.toml allows of every dependency, in an environment of its own.
OLDEST := .venv-oldest
$(OLDEST)/.installed: pyproject.toml tests/oldest.py
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python tests/oldest.py > $(OLDEST)/oldest.txt
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check --constraint $(OLDEST)/oldest.txt -e '.[dev]'
	@touch $@

test-oldest: $(OLDEST)/.installed
	$(TESTING) $(OLDEST)/bin/pytest -n 2 -p no:cacheprovider tests/unit tests/system/test_release.py

# `R CMD check` of the package for R, with R and the packages that r/tallyveilr/DESCRIPTION imports; a warning is an error.
check-r:
	rm -rf build/r && mkdir -p build/r
	cd build/r && R CMD build $(CURDIR)/r/tallyveilr
	cd build/r && _R_CHECK_FORCE_SUGGESTS_=false R CMD check --no-manual tallyveilr_*.tar.gz
	! grep -q '^Status: .*WARNING' build/r/tallyveilr.Rcheck/00check.log

# The theorems that a proof assistant checks. Needs Debian's packages coq and libcoq-mathcomp-algebra.
check-proofs:
	mkdir -p build/coq && cp tests/proofs/coq/*.v build/coq
	cd build/coq && for theorem in *.v; do coqc -q -w none "$$theorem" > "$$theorem.said" || exit 1; \
		grep -q 'Closed under the global context' "$$theorem.said" || exit 1; echo "$$theorem: proved, without axioms"; done

# `make coverage COVERED=tests/unit` measures every room; without it, the privacy core is measured by its own unit tests.
COVERED ?= tests/unit/noise tests/unit/accounting tests/unit/confidential tests/unit/runs
coverage: $(VENV)/.installed-dev
	$(BIN)/coverage run -m pytest $(COVERED)
	$(BIN)/python tests/coverage_by_room.py

soak: $(VENV)/.installed-dev
	$(TESTING) $(BIN)/pytest -n 2 -m soak -rP --log-level=INFO
	$(BIN)/python tests/soak/kills.py --number 1000
	$(BIN)/python tests/soak/bad_inputs.py --number 1000
	$(BIN)/python tests/soak/cluster_kills.py --number 20

# Random releases of every product under random disturbances. `make soak-releases HOURS=6 SEED=2`
HOURS ?= 1
soak-releases: $(VENV)/.installed-dev
	$(TESTING) $(BIN)/python tests/soak/releases.py --hours $(HOURS) --seed $(SEED)

# Changed files for every reader, guided by coverage. `make fuzz TARGET=ledger MINUTES=60`; without TARGET, all of them.
FUZZ := .venv-fuzz
MINUTES ?= 10
TARGET ?=
$(FUZZ)/.installed: pyproject.toml
	$(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/pip install --quiet --disable-pip-version-check -e '.[dev,fuzz]'
	@touch $@

fuzz: $(FUZZ)/.installed
	$(TESTING) $(FUZZ)/bin/python tests/fuzz/fuzz.py $(TARGET) --minutes $(MINUTES) --seed $(SEED)

# Faults of the kinds that have broken real systems, seeded one by one in a copy: the suite must catch each of them.
seeded-bugs: $(VENV)/.installed-dev
	$(BIN)/python -m tests.seeded.run

$(VENV)/.installed-mutants: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev,mutants]'
	@touch $@ $(VENV)/.installed

# Changes one small thing at a time in rooms of the privacy core: does a test fail? `make mutants ROOM=noise SAMPLE=` runs
# all mutants of a room, which takes hours. Stopped and given again, the command goes on.
ROOM ?= noise budget confidential runs accounting
SAMPLE ?= 150
mutants: $(VENV)/.installed-mutants
	failed=0; for room in $(ROOM); do \
		$(BIN)/python -m tests.mutants.run --room $$room $(if $(SAMPLE),--sample $(SAMPLE)) --seed $(SEED) || failed=1; \
	done; exit $$failed

# Lower bounds on what releases really cost, beside what is claimed, by auditors in environments of their own; nightly.
auditors: $(VENV)/.installed-dev
	rm -rf build/audits
	$(BIN)/python -m tests.auditors.run --out build/audits
	$(BIN)/python -m tests.auditors.secrets

# What these auditors catch: the same with seeded faults.
auditors-power: $(VENV)/.installed-dev
	rm -rf build/audits-power
	$(BIN)/python -m tests.auditors.run --power --out build/audits-power

# Made-up releases are attacked at several budgets: docs/attacks.md. What was learnt is written to build/attacks.
attacks: $(VENV)/.installed-dev
	$(BIN)/python -m tests.attacks.run

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Types of the pages' JavaScript. Node is needed for this check only: the pages have no build step.
JS := tools/js/node_modules
$(JS)/.installed: tools/js/package-lock.json
	npm ci --prefix tools/js --ignore-scripts --no-audit --no-fund
	@touch $@

# Journeys through the pages in Chromium, which the machine must have.
$(VENV)/.installed-browser: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev,browser,maps]'
	@touch $@ $(VENV)/.installed

test-browser: $(VENV)/.installed-browser $(JS)/.installed
	$(TESTING) $(BIN)/pytest -n 2 tests/browser

lint-js: $(JS)/.installed
	$(JS)/.bin/tsc --project tools/js

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

# The site is docs/_build/html/index.html. Its notebooks are executed; a warning or a broken link is an error. Kernels are
# compiled first, because a cell of a notebook has a time limit.
docs: $(VENV)/.installed-docs
	$(BIN)/tallyveil warm-up
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python -m sphinx -b html -W --keep-going docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

$(VENV)/.installed-bundle: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bundle]'
	@touch $@ $(VENV)/.installed

# The wheel of this platform and Python in dist/, with compiled kernels: whoever installs it with the same version of numba
# compiles nothing. On x86-64 it has code for the level x86-64-v3 and for any processor.
wheel: $(VENV)/.installed
	$(BIN)/python tools/bundle/kernels.py --out dist

# One archive in dist/, from which a machine without a network installs this version, for this platform and Python.
bundle: $(VENV)/.installed-bundle
	$(BIN)/python tools/bundle --out dist

# Makes the archive, installs it without a network, and runs the self-test and the job of `make demo` there. No kernel is
# compiled there.
test-bundle: $(VENV)/.installed-dev $(VENV)/.installed-bundle
	$(TESTING) $(BIN)/pytest -m bundle tests/system/test_bundle.py tests/system/test_wheel.py

# The newest versions that pyproject.toml allows, with the hashes of their files for every platform.
lock: $(VENV)/.installed-bundle
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --python-version 3.11 --no-annotate --no-header --output-file tools/bundle/requirements.lock pyproject.toml

# Small sizes, some minutes; `make benchmark NAMES="noise spine"` runs only those.
benchmark: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/run_all.py $(NAMES)

# The sizes of benchmarks/README.md, many hours.
benchmark-long: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/run_all.py --long $(NAMES)

clean:
	rm -rf $(VENV) $(OLDEST) .venv-auditors $(FUZZ) demo-release build dist docs/_build docs/generated
