# make demo   an environment, the package, and the main job on data that scikit-learn ships
# make test   an environment with the tools, and every check
# make test-all   the tests marked slow, which make test leaves out
# make test-torch   a second environment, with a CPU build of torch and the public encoders, and the tests of networks
#             and encoders, on one core
# make test-papers   the tests of papers/: the comparisons with the four papers and with other methods
# make docs   a third environment, with Sphinx, and the site in build/docs; it runs the example notebooks
# make pythons   the demo and the quicker tests with every Python from 3.11 to 3.14 on the path, and the newest of what it needs
# make trial  the first day of three users, timed, in the second environment
# make serve-faults  the long version of tests/serve/test_storm.py: a server that is killed 200 times
# make hostile the long version of tests/hostile: changed files, read or refused
# make faults  the long version of tests/faults: kills, full disks, jumping clocks
# make supply licenses, bill of materials and hashes of what is installed, made anew from the pins; needs PyPI
# make locked an environment from PyPI's files with the hashes in requirements-locked.txt, and nothing else
# make mutation  whether the tests notice changed lines of the rooms that keep the promise; an hour and more for 1,000 of them
# make dist   the release checklist, and the wheel and the sdist in dist
# make test-spark   a fourth environment, with pyspark, and the tests on a Spark of two cores; needs Java 17

PYTHON      ?= python3
CONSTRAINTS ?= constraints.txt

# make VENV=.venv-3.13 PYTHON=python3.13 test: the same with another Python, in a folder of its own.
VENV        ?= .venv
BIN         := $(VENV)/bin
TORCH       := .venv-torch/bin
SPARK       := .venv-spark/bin
DOCS        := .venv-docs/bin
INSTALL     := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS:%=-c %)
SOURCES     := pyproject.toml $(CONSTRAINTS)
# scikit-learn 1.6 reads names of columns by the interchange protocol, which polars 1.40 deprecates and polars 2 lacks.
LOWEST_TOOLS := pytest hypothesis 'pandas<3' 'polars<1.40' dp-accounting mpmath python-flint jsonschema pyyaml

# Two workers share two cores, so each keeps to one thread; matplotlib's cache stays inside the checkout.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MPLCONFIGDIR := $(CURDIR)/.cache/matplotlib
# Without bytecode each process that a test starts compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-papers test-torch test-spark docs pythons pythons-quick tests-quick lowest check format-check lint spelling types arrows tests format proofs stamps words reference papers trial faults hostile serve-faults dist release-check supply locked mutation clean

demo: $(VENV)/package
	$(BIN)/labeldp demo

test: $(VENV)/tools
	@$(MAKE) --no-print-directory check

# Durations are printed and never asserted.
test-all: $(VENV)/tools
	$(BIN)/pytest -q -n 2 --dist worksteal -m slow --durations=15

# Outside of the package; what needs torch is in test-torch.
test-papers: $(VENV)/tools
	$(BIN)/pytest -q -n 2 --dist worksteal papers --durations=15

# Networks are checked where torch is; everything else runs without it.
test-torch: .venv-torch/tools
	$(TORCH)/pytest -q src/labeldp/networks tests/networks tests/encoders $(wildcard papers/tests/*/test_networks.py) $(foreach room,exports imports reprs,tests/architecture/test_$(room).py) 'tests/guide/test_pages.py::test_every_example_of_a_page_runs[docs/how-to/train-with-pytorch.md]'

# Spark is checked where pyspark and Java are.
# The page first, alone: a Spark that is there already would read its files from another folder.
test-spark: .venv-spark/tools
	$(SPARK)/pytest -q 'tests/guide/test_pages.py::test_every_example_of_a_page_runs[docs/how-to/spark.md]'
	$(SPARK)/pytest -q src/labeldp/spark tests/releases/test_grants.py tests/releases/test_parts.py tests/spark

# Warnings are errors: a link that leads nowhere, a notebook that fails, a docstring that does not render.
docs: .venv-docs/tools
	$(DOCS)/sphinx-build --quiet --fail-on-warning --keep-going -j 2 -d .cache/docs docs build/docs
	@echo build/docs/index.html

check: format-check lint spelling types arrows tests

format-check: $(VENV)/tools
	$(BIN)/ruff format --quiet --check .

lint: $(VENV)/tools
	$(BIN)/ruff check --quiet .

spelling: $(VENV)/tools
	$(BIN)/codespell *.md docs src papers tests benchmarks tools

types: $(VENV)/tools
	$(BIN)/mypy

arrows: $(VENV)/tools
	$(BIN)/lint-imports --no-logo

tests: $(VENV)/tools
	$(BIN)/pytest -q -n 2 --dist worksteal -m 'not slow' --durations=15

format: $(VENV)/tools
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format --quiet .

# Words and sentences to write otherwise; a report, which fails nothing.
words: $(VENV)/tools
	PYTHONPATH=tests $(BIN)/python tests/architecture/words.py

# The API page, from what the subpackages export.
reference: $(VENV)/tools
	$(BIN)/python tests/architecture/reference.py --write

# The index of the papers' tables and figures, from its list.
papers: $(VENV)/tools
	$(BIN)/python -m papers.index
	$(BIN)/python benchmarks/pages.py

# The two commands of the README with each Python; CONSTRAINTS= takes the newest of what labeldp needs.
pythons:
	@mkdir -p build
	$(PYTHON) tests/trial/pythons.py >build/pythons
	while read -r version path; do \
		echo "Python $$version: $$path"; \
		$(MAKE) --no-print-directory VENV=.venv-$$version PYTHON=$$path demo test </dev/null || exit 1; \
	done <build/pythons

# What depends most on the version of Python, with the distribution's and the newest, at once; nothing where there is none.
pythons-quick:
	@mkdir -p build
	$(PYTHON) tests/trial/pythons.py --ends >build/pythons
	xargs -r -n 2 -P 2 sh -c 'exec $(MAKE) --no-print-directory VENV=.venv-$$0 PYTHON=$$1 tests-quick' <build/pythons

tests-quick: $(VENV)/tools
	$(BIN)/python --version
	$(BIN)/pytest -q -p no:xdist -m 'not slow' tests/learners/test_conventions.py tests/architecture/test_exports.py tests/trial tests/cli/test_main_job.py tests/cli/test_streams.py tests/cli/test_online.py tests/tables

# The oldest versions that pyproject.toml names.
lowest: .venv-lowest/tools
	.venv-lowest/bin/labeldp demo --out build/demo-lowest
	.venv-lowest/bin/pytest -q -m 'not slow' tests/privacy tests/mechanisms tests/curator tests/tables tests/learners tests/fit tests/cli

.venv-lowest/tools: $(SOURCES)
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct -e .
	.venv-lowest/bin/python -m pip freeze --disable-pip-version-check --exclude-editable >.venv-lowest/lowest.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-lowest/lowest.txt $(LOWEST_TOOLS)
	@touch $@

# The first day of three users, with torch, on a table of 80,000 stays; writes docs/results/first-day.md.
trial: .venv-torch/tools
	$(TORCH)/python tests/trial/day.py --out docs/results/first-day.md

# The checklist of a release: versions agree, builds are the same bytes twice, the wheel installs and runs on its own.
release-check: $(VENV)/bin/python
	$(BIN)/python tests/trial/release.py

# The same, and wheel and sdist in dist.
dist: $(VENV)/bin/python
	$(BIN)/python tests/trial/release.py dist

# Two hundred kills of a server that 64 clients ask; fills docs/results/faults.md.
serve-faults: $(VENV)/tools
	mkdir -p build
	PYTHONPATH=tests $(BIN)/python tests/serve/storm.py --page build/serve.md
	$(BIN)/python benchmarks/pages.py --store build/serve.md serve

# Ten thousand kills, and other faults; fills docs/results/faults.md. An hour on one core.
faults: $(VENV)/tools
	PYTHONPATH=tests $(BIN)/python tests/faults/run.py --log build/faults.jsonl
	PYTHONPATH=tests $(BIN)/python tests/faults/run.py --log build/faults.jsonl --page build/faults.md
	$(BIN)/python benchmarks/pages.py --store build/faults.md faults faults-other

# Licenses of all four environments, the bill of materials of the wheel, and the hashes that PyPI has.
supply: $(VENV)/tools .venv-torch/tools .venv-spark/tools .venv-docs/tools
	$(BIN)/python tests/trial/supply.py $(wildcard $(foreach room,$(BIN) $(TORCH) $(SPARK) $(DOCS),$(room)/../lib/python3*/site-packages))

# Fresh each time; no other index, no folder of wheels, and no file whose hash is not in the list.
locked:
	$(PYTHON) -m venv --clear .venv-locked
	.venv-locked/bin/python -m pip install --quiet --disable-pip-version-check --isolated --require-hashes --only-binary :all: -r requirements-locked.txt
	.venv-locked/bin/python -m pip install --quiet --disable-pip-version-check --isolated --no-index --no-deps --no-build-isolation -e .
	.venv-locked/bin/python -m pip check --disable-pip-version-check
	.venv-locked/bin/labeldp --version

# Three hundred changed files for each kind of file and of change.
hostile: $(VENV)/tools
	HOSTILE_EXAMPLES=300 $(BIN)/pytest -q tests/hostile

# An interrupted run resumes; the findings are in .cache/mutation.
mutation: .venv-mutation/tools
	[ -e .cache/mutation/map.json ] || .venv-mutation/bin/python benchmarks/mutation.py map
	.venv-mutation/bin/python benchmarks/mutation.py run --sample 1000 --small
	.venv-mutation/bin/python benchmarks/mutation.py show

# The proofs whose code changed since they were read; a step of the release checklist.
proofs: $(VENV)/tools
	$(BIN)/python tests/architecture/stamps.py

# After a proof was read again beside the code that it proves.
stamps: $(VENV)/tools
	$(BIN)/python tests/architecture/stamps.py --write

clean:
	rm -rf .venv .venv-torch .venv-spark .venv-docs .venv-locked .venv-lowest .venv-mutation .venv-3.* .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist docs/api
	find src papers tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# The two stamps: `pip` runs again only when a requirement or a pin changed.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("labeldp needs Python 3.11 or newer: make PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/package: $(VENV)/bin/python $(SOURCES)
	$(INSTALL) -e .
	@touch $@

$(VENV)/tools: $(VENV)/bin/python $(SOURCES)
	$(INSTALL) -e '.[dev,papers]'
	@touch $@ $(VENV)/package

.venv-torch/tools: $(SOURCES) constraints-torch.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("labeldp needs Python 3.11 or newer: make PYTHON=python3.x")'
	$(PYTHON) -m venv .venv-torch
	$(TORCH)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS:%=-c %) -c constraints-torch.txt -e '.[dev,papers,torch,image-encoder,text-encoder]'
	@touch $@

.venv-spark/tools: $(SOURCES) constraints-spark.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("labeldp needs Python 3.11 or newer: make PYTHON=python3.x")'
	$(PYTHON) -m venv .venv-spark
	$(SPARK)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS:%=-c %) -c constraints-spark.txt -e '.[dev,spark]' duckdb dask
	@touch $@

.venv-mutation/tools: $(SOURCES)
	$(PYTHON) -m venv .venv-mutation
	.venv-mutation/bin/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS:%=-c %) -e '.[dev]' mutmut==3.8.1
	@touch $@

.venv-docs/tools: $(SOURCES) constraints-docs.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("labeldp needs Python 3.11 or newer: make PYTHON=python3.x")'
	$(PYTHON) -m venv .venv-docs
	$(DOCS)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS:%=-c %) -c constraints-docs.txt -e '.[docs]'
	@touch $@
