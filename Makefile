# Shortcuts for people with make; ./up and ./check do without it.
# `make check` is what CI runs: format, lint, types, tests, and whether Dagster accepts the definitions.

PYTHON ?= .venv/bin/python
LOCK = uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-strip-extras \
	--custom-compile-command "make lock" --quiet

.PHONY: check format lint types test definitions lock up

check: format lint types test definitions

format:
	$(PYTHON) -m ruff format --check

lint:
	$(PYTHON) -m ruff check

types:
	$(PYTHON) -m mypy

test:
	$(PYTHON) -m pytest

definitions:
	$(PYTHON) -m dagster definitions validate

# The dev lock adds tools to the run-time lock and never moves a version of it.
lock:
	$(LOCK) pyproject.toml --group build --output-file requirements.lock
	$(LOCK) pyproject.toml --group build --group dev --constraints requirements.lock --output-file requirements-dev.lock

up:
	./up
