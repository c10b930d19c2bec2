# make demo   an environment, the package, and the main job on data that scikit-learn ships
# make test   an environment with the tools, and every check
# make test-torch   a second environment, with a CPU build of torch, and the tests of the networks, on one core
# make test-spark   a third environment, with pyspark, and the tests on a Spark of two cores; needs Java 17

PYTHON      ?= python3
CONSTRAINTS ?= constraints.txt

BIN         := .venv/bin
TORCH       := .venv-torch/bin
SPARK       := .venv-spark/bin
INSTALL     := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS:%=-c %)
SOURCES     := pyproject.toml $(CONSTRAINTS)

# Two workers share two cores, so each keeps to one thread; matplotlib's cache stays inside the checkout.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MPLCONFIGDIR := $(CURDIR)/.cache/matplotlib

.PHONY: demo test test-torch test-spark check format-check lint types arrows tests format stamps reference clean

demo: .venv/package
	$(BIN)/labeldp demo

test: .venv/tools
	@$(MAKE) --no-print-directory check

# Networks are checked where torch is; everything else runs without it.
test-torch: .venv-torch/tools
	$(TORCH)/pytest -q src/labeldp/networks tests/networks tests/architecture 'tests/guide/test_pages.py::test_every_example_of_a_page_runs[docs/guide/8-networks.md]'

# Spark is checked where pyspark and Java are.
# The page first, alone: a Spark that is there already would read its files from another folder.
test-spark: .venv-spark/tools
	$(SPARK)/pytest -q 'tests/guide/test_pages.py::test_every_example_of_a_page_runs[docs/guide/13-cluster.md]'
	$(SPARK)/pytest -q src/labeldp/cluster src/labeldp/spark tests/cluster tests/spark

check: format-check lint types arrows tests

format-check: .venv/tools
	$(BIN)/ruff format --quiet --check .

lint: .venv/tools
	$(BIN)/ruff check --quiet .

types: .venv/tools
	$(BIN)/mypy

arrows: .venv/tools
	$(BIN)/lint-imports --no-logo

tests: .venv/tools
	$(BIN)/pytest -q -n 2

format: .venv/tools
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format --quiet .

# The reference page, from the docstrings.
reference: .venv/tools
	$(BIN)/python tests/architecture/reference.py --write

# After a proof was read again beside the code that it proves.
stamps: .venv/tools
	$(BIN)/python tests/architecture/stamps.py --write

clean:
	rm -rf .venv .venv-torch .venv-spark .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# The two stamps: `pip` runs again only when a requirement or a pin changed.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("labeldp needs Python 3.11 or newer: make PYTHON=python3.x")'
	$(PYTHON) -m venv .venv

.venv/package: .venv/bin/python $(SOURCES)
	$(INSTALL) -e .
	@touch $@

.venv/tools: .venv/bin/python $(SOURCES)
	$(INSTALL) -e '.[dev]'
	@touch $@ .venv/package

.venv-torch/tools: $(SOURCES) constraints-torch.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("labeldp needs Python 3.11 or newer: make PYTHON=python3.x")'
	$(PYTHON) -m venv .venv-torch
	$(TORCH)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS:%=-c %) -c constraints-torch.txt -e '.[dev,torch]'
	@touch $@

.venv-spark/tools: $(SOURCES) constraints-spark.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("labeldp needs Python 3.11 or newer: make PYTHON=python3.x")'
	$(PYTHON) -m venv .venv-spark
	$(SPARK)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS:%=-c %) -c constraints-spark.txt -e '.[dev,spark]' duckdb
	@touch $@
