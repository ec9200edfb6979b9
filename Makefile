# Everything runs in a virtual environment inside the clone; nothing else is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SERIES := $(shell $(PYTHON) -c 'import sys; print(*sys.version_info[:2], sep=".")')
READY := $(VENV)/.ready-$(SERIES)
DOCS_READY := $(VENV)/.docs-ready-$(SERIES)
# The JAX of newer Pythons ends the process over a flag it knows no more.
EMITTERS := $(if $(filter 3.11,$(SERIES)),--xla_cpu_use_fusion_emitters=false)

# Newer Pythons tell which lines run at next to no cost; on 3.11 tests take half as long again, so that there one asks
# for it: make test COVERAGE="--cov=gpnode".
COVERAGE := $(if $(filter 3.11,$(SERIES)),,--cov=gpnode --cov-report=term:skip-covered)

# Types are checked against the stubs of one set of libraries: those of newer ones differ from release to release.
TYPES := $(if $(filter 3.11,$(SERIES)),$(BIN)/mypy)

.PHONY: demo test fast-tests test-bits test-slow lint bench bench-discovery bench-sbml docs docs-results clean

# The main job: predator and prey from cold, equations, verdicts, pictures.
demo: $(READY)
	$(BIN)/python -m gpnode.studies.demo -o demo-output

# Most of the time goes into compiling, which two processes do side by side, XLA without optimising and numba with
# little of it. Coverage does not see code compiled by either.
test: $(READY)
	$(MAKE) --no-print-directory -j 2 lint fast-tests

fast-tests: $(READY)
	COVERAGE_CORE=$(if $(filter 3.11,$(SERIES)),ctrace,sysmon) NUMBA_OPT=1 NUMBA_CACHE_DIR="$(CURDIR)/.cache/numba" \
	XLA_FLAGS="--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true \
	$(EMITTERS) --xla_cpu_parallel_codegen_split_count=1" \
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations 30 $(COVERAGE)

# Same seed, same draws, whatever is compiled already, wherever chains run.
test-bits: $(READY)
	$(BIN)/python -m pytest -m slow tests/robustness/test_same_bits.py

test-slow: $(DOCS_READY)
	$(BIN)/python -m pytest -m slow

# Speed, as ratios within one run; writes benchmarks/results.json.
bench: $(READY)
	$(BIN)/python benchmarks/all.py $(if $(AMC),--amc $(AMC))

# Equations of many textbook systems, beside PySINDy's: make bench-discovery SYSTEMS=systems.json [OPTIONS="--ids 27"].
bench-discovery: $(READY)
	$(BIN)/python benchmarks/discovery.py $(SYSTEMS) -o discovery-output $(OPTIONS)

# The semantic test suite of SBML, and the table of it in docs/results-sbml.md: make bench-sbml CASES=dir.
bench-sbml: $(READY)
	$(BIN)/python benchmarks/sbml_suite.py $(CASES) -o docs/results-sbml.md

# The site, into site/; every example on its pages is run.
docs: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --clean

# Keeps what studies and benchmark measured for the page of results: make docs-results STUDIES="dir dir".
docs-results: $(READY)
	$(BIN)/python docs/hooks/results.py $(STUDIES)

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/ruff format --check src tests benchmarks docs
	$(TYPES)
	$(BIN)/lint-imports

# Byte code is made by all processors at once, which pip cannot do, and not of what few runs import.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python$(SERIES) || rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m compileall -q -j 0 -x '/(tests|sklearn|mypy|fontTools|pip|pygments|dask|mkdocs)/' $(VENV)/lib
	touch $@

# Apart from the rest because the site's theme has fifteen thousand files.
$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	touch $@

clean:
	rm -rf $(VENV) demo-output discovery-output site .cache .pytest_cache .mypy_cache .ruff_cache
