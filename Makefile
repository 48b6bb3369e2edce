# Each target creates .venv and installs what it needs, when that is missing or stale.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
export PYTHONHASHSEED ?= 0

.PHONY: run test coverage check dist docs bench integrations published league calculator proofs paper paper-full clean help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

run: $(VENV)/.core ## the main job on the example
	$(BIN)/evr certify examples/dpsgd.toml --method both --force

test: $(VENV)/.test $(VENV)/.docs ## all tests
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q --durations=25

coverage: $(VENV)/.test $(VENV)/.docs ## all tests, and which lines they reach; takes a fifth longer
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --cov --cov-report=term:skip-covered -q

check: $(VENV)/.check ## ruff, mypy (strict for the package), import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.check ## rewrite the sources in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.test ## every benchmark and the full statistical tables
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script; done
	$(BIN)/python -m pytest tests -m full -n auto --durations=0

dist: $(VENV)/.core ## the distribution in dist/, checked, and run from its wheel in an empty environment
	rm -rf dist build/dist-env
	$(BIN)/python -m pip install --quiet build twine
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/dist-env
	build/dist-env/bin/python -m pip install --quiet -c constraints.txt dist/*.whl
	cd build && dist-env/bin/evr certify --noise-multiplier 1 --sampling-probability 0.001 --steps 1000 --delta 1e-9 --force --proof wheel.proof
	cd build && dist-env/bin/python -I -S check_proof.py wheel.proof

EXTRAS := .venv-integrations
# Flower wants other versions of command-line libraries. NEWEST=1 takes the newest versions of everything.
FLOWER := .venv-flower
NEWEST ?=

integrations: $(EXTRAS)/.ready $(FLOWER)/.ready ## tests with Opacus, Lightning, Hugging Face, JAX Privacy, Keras, Flower and Dask, in environments of their own
	$(EXTRAS)/bin/python -m pytest tests/integrations src/evr/integrations -n $(JOBS) --dist worksteal -q
	$(FLOWER)/bin/python -m pytest tests/integrations/test_flower.py tests/integrations/test_loops.py tests/integrations/test_guides.py -q

published: $(VENV)/.test ## certify the published trainings, and write their page
	$(BIN)/python examples/published/make_page.py

LEAGUE := .venv-league

league: $(LEAGUE)/.ready ## other accountants against the conformance suite, and their page; some minutes
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(LEAGUE)/bin/python conformance/league.py

calculator: $(VENV)/.core ## docs/calculator.html, of its parts
	$(BIN)/python proofs/make_calculator.py

docs: $(VENV)/.docs ## the documentation, as a site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

proofs: ## the strict kernel's mathematics, checked by Coq, and the checkers made from it; a minute
	$(MAKE) -C proofs

PAPER := gaussian_composition evr_vs_bound utility second_moments steps_to_epsilon throughput online offline

paper: $(VENV)/.test ## every figure and table of the paper, small, into paper/out
	@set -e; for script in $(PAPER); do $(BIN)/python paper/$$script.py --quick --out paper/out; done
	$(BIN)/python paper/slips.py --quick --out paper/out

paper-full: $(VENV)/.test ## the same at full size, into paper/results; by estimate half an hour on two cores
	@set -e; for script in $(PAPER); do $(BIN)/python paper/$$script.py --full --out paper/results; done
	$(BIN)/python paper/slips.py --out paper/results
	$(BIN)/python paper/check_truth.py --out paper/results

clean: ## forget the environment and every cache
	rm -rf $(VENV) $(EXTRAS) $(FLOWER) $(LEAGUE) build dist *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis site

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .[test]
	@touch $@

# The tests are type-checked too, so what they import must be there.
$(VENV)/.check: $(VENV)/.core
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .[check,test,docs]
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .[docs]
	@touch $@

# pip takes torch 2.13.0+cpu, a tenth of the size, where it is offered. Its sympy wants an older mpmath.
$(EXTRAS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(EXTRAS)
	$(if $(NEWEST),true,grep -v '^mpmath' constraints.txt) >$(EXTRAS)/constraints.txt
	$(EXTRAS)/bin/python -m pip install --quiet -c $(EXTRAS)/constraints.txt \
		-e .[lightning,huggingface,keras,dask] peft $(if $(NEWEST),torch,torch==2.13.0 jax-privacy==2.0.0) \
		pytest pytest-xdist hypothesis mpmath scikit-learn
	@touch $@

$(FLOWER)/.ready: pyproject.toml
	$(PYTHON) -m venv $(FLOWER)
	$(FLOWER)/bin/python -m pip install --quiet -e .[flower] ray pytest hypothesis mpmath
	@touch $@

# Opacus without PyTorch, which its accountants do not need.
$(LEAGUE)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(LEAGUE)
	$(LEAGUE)/bin/python -m pip install --quiet -c constraints.txt -e .[compare]
	$(LEAGUE)/bin/python -m pip install --quiet --no-deps opacus==1.6.0
	@touch $@
