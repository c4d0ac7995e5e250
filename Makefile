# Everything runs in .venv, which is made on first use. A second run of a target installs nothing.
.PHONY: demo test lint bench sweep coverage clean
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find api ir frontends passes backends -name '*.py')
# One thread a process: tests run side by side, and benchmarks compare work, not cores.
export OMP_NUM_THREADS ?= 1

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.dev build/installed/.stamp
	$(BIN)/ruff check .
	$(BIN)/mypy -p isthmus

bench: $(VENV)/.dev
	PYTHONPATH=examples $(BIN)/python bench/compile.py
	PYTHONPATH=examples $(BIN)/python bench/speed.py
	PYTHONPATH=examples $(BIN)/python bench/simplify.py
	$(BIN)/python bench/scale.py
	$(BIN)/python bench/size.py

sweep: $(VENV)/.dev
	$(BIN)/python bench/sweep_operators.py
	$(BIN)/python bench/sweep_standard.py --peers
	PYTHONPATH=examples $(BIN)/python bench/sweep_models.py --jobs 2

coverage: $(VENV)/.dev
	$(BIN)/python tests/project/test_coverage.py

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("isthmus needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "setting up $(VENV) for the demo; this takes minutes, once"
	$(BIN)/python -m pip install -qq --constraint constraints.txt --editable '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "setting up $(VENV) for development; this takes minutes, once"
	$(BIN)/python -m pip install -qq --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.demo

# The package as a user gets it: mypy reads this, not the folders of the repository.
build/installed/.stamp: $(SOURCES) pyproject.toml $(VENV)/.dev
	rm -rf build/installed build/lib build/bdist.*
	$(BIN)/python -m pip install -qq --no-deps --no-build-isolation --target build/installed .
	@touch $@
