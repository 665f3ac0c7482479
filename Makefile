# make demo: see it work. make test: everything CI checks. make fix: what a machine can mend.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := .venv-demo

.PHONY: demo install test fix clean

# The base install alone, in an environment of its own: no torch.
demo: $(DEMO)/installed
	$(DEMO)/bin/demitasse demo

$(DEMO)/installed: pyproject.toml constraints.txt
	test -x $(DEMO)/bin/python || $(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

install: $(VENV)/installed

# --group needs pip 25.1, so the newest pip comes first.
$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[train,export,plots,mteb]' --group dev
	touch $@

test: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	tests/browser.sh
	$(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

fix: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(DEMO) .mypy_cache .pytest_cache .ruff_cache .hypothesis
