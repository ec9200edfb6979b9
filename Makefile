# Everything runs in a virtual environment inside the clone; nothing else is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-slow lint bench clean

# The main job: predator and prey from cold, equations, verdicts, pictures.
demo: $(READY)
	$(BIN)/python -m gpnode.studies.demo -o demo-output

# Most of the time goes into compiling, which two processes do side by side.
test: $(READY) lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations 15

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

# Speed, as ratios within one run; writes benchmarks/results.json.
bench: $(READY)
	$(BIN)/python benchmarks/all.py $(if $(AMC),--amc $(AMC))

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo-output .pytest_cache .mypy_cache .ruff_cache
