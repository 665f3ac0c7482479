# make demo: see it work. make test: everything CI checks. make quick: the same without the slowest tests.
# make fix: format and fix what can be fixed automatically. make docs: the site. make dist: the wheel and the sdist, checked.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := .venv-demo
DIST := .venv-dist
LOWEST := .venv-lowest
CONTRACTS := .venv-contracts
ADAPTERS := .venv-adapters
RAY := .venv-ray
PYTEST := $(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

.PHONY: demo install lint test quick soak adapters ray contracts lowest fix docs dist clean

# The base install alone, in an environment of its own: no torch.
demo: $(DEMO)/installed
	$(DEMO)/bin/demitasse demo

$(DEMO)/installed: pyproject.toml constraints.txt
	test -x $(DEMO)/bin/python || $(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

install: $(VENV)/installed

# --group needs pip 25.1, so pip itself is upgraded first.
$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[train,export,serve,data,plots,mteb,ann]' --group dev --group docs
	touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	tests/browser.sh
	tests/node.sh
	$(PYTEST)

# Without tests that build a wheel or make an environment.
quick: lint
	$(PYTEST) -m 'not packaging'

# Fuzzing and crashes at length; prints how many files, mutations, kills and full disks were tried.
soak: install
	$(PYTEST) -m soak -s

# The integrations whose libraries are large (Chroma, LanceDB, LlamaIndex), and a Postgres server, in an environment of
# their own.
LARGE := $(addprefix src/demitasse/integrations/,chroma.py lancedb.py llama_index.py)
LARGE_TESTS := $(addprefix tests/integrations/test_,chroma.py lancedb.py llama_index.py pgvector.py)
adapters: $(ADAPTERS)/installed
	tests/postgres.sh
	$(ADAPTERS)/bin/mypy $(LARGE)
	$(ADAPTERS)/bin/pytest -m adapters $(LARGE_TESTS) tests/docs/test_frameworks.py
	$(ADAPTERS)/bin/pytest $(LARGE)

$(ADAPTERS)/installed: pyproject.toml constraints.txt
	test -x $(ADAPTERS)/bin/python || $(PYTHON) -m venv $(ADAPTERS)
	$(ADAPTERS)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(ADAPTERS)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[train,data]' --group large-adapters
	touch $@

# Corpora on Ray, which is large, in an environment of its own: actors, nodes and drivers are killed.
ray: $(RAY)/installed
	$(RAY)/bin/python -m pytest --noconftest -W default -m ray tests/corpora/test_ray_corpus.py

$(RAY)/installed: pyproject.toml constraints.txt
	test -x $(RAY)/bin/python || $(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(RAY)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[ray]' pytest
	touch $@

# The server against more clients than `make test` installs, and its OpenAPI document against a fuzzer.
contracts: $(CONTRACTS)/installed
	$(CONTRACTS)/bin/python -m pytest --noconftest -W default --disable-warnings -s tests/contracts

$(CONTRACTS)/installed: pyproject.toml constraints.txt
	test -x $(CONTRACTS)/bin/python || $(PYTHON) -m venv $(CONTRACTS)
	$(CONTRACTS)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(CONTRACTS)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[serve]' --group contracts
	touch $@

# The base install with the lowest versions that pyproject.toml allows, in an environment of its own.
lowest: $(LOWEST)/installed
	$(LOWEST)/bin/python tests/helpers/base_install.py
	$(LOWEST)/bin/demitasse demo --report $(LOWEST)/demo.html

$(LOWEST)/installed: pyproject.toml constraints-lowest.txt
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt --editable .
	touch $@

fix: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The documentation, in site/. Sources are read and not imported, so this needs nothing of what the tests need. No
# --quiet: it hides warnings from --strict, which then fails on nothing.
docs: $(VENV)/docs-installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html, or run $(BIN)/mkdocs serve"

$(VENV)/docs-installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	touch $@

# The sdist, the wheel built from it, and each of them installed in a clean environment and run.
dist: $(DIST)/installed
	rm -rf dist
	$(DIST)/bin/python -m build --no-isolation --outdir dist .
	$(DIST)/bin/python -m twine check --strict dist/*
	$(DIST)/bin/python tests/helpers/clean_install.py dist/*

$(DIST)/installed: pyproject.toml constraints.txt
	test -x $(DIST)/bin/python || $(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(DIST)/bin/python -m pip install --quiet --constraint constraints.txt --group dist
	touch $@

clean:
	rm -rf $(VENV) $(DEMO) $(DIST) $(LOWEST) $(CONTRACTS) $(ADAPTERS) $(RAY) dist build site
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
