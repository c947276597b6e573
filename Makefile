# Needs Python 3.11 to 3.13 with venv and pip, make and git; everything else is installed into .venv.
# Settings may follow the target: make run MQUEUE_PORT=8090

PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && \
	echo $$python && exit; done; echo python3)
VENV := .venv/bin
RUN := $(VENV)/python -m launch
INSTALL = @$(PYTHON) launch/install.py
SHARD ?= 0
ARGS ?=
ROOMS := mqueue tenants shards daemons pipeline launch tests

.DEFAULT_GOAL := help
.PHONY: help run restart test test-quick lint format chaos bench bench-peers bench-pipeline screenshots psql superuser token migrate check lock env reset clean install install-dev
export

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: install ## Install, start everything and keep it running; Ctrl-C stops it
	$(if $(LAKE_URL),$(INSTALL) pipeline)
	@exec $(RUN) run

restart: install ## Renew every process of what runs, one after another, with the code of now; no request fails
	@exec $(RUN) restart

test: install-dev ## Run every test on servers of its own; narrow it with ARGS="-k routing"
	$(INSTALL) pipeline
	@exec $(VENV)/python -m pytest $(ARGS)

test-quick: install-dev ## The tests without the fault and pipeline marks
	@exec $(VENV)/python -m pytest -m "not fault and not pipeline" $(ARGS)

lint: install-dev ## Format check, ruff, mypy and the directions between the rooms
	$(VENV)/ruff format --check .
	$(VENV)/ruff check .
	$(VENV)/mypy
	$(VENV)/lint-imports

format: install-dev ## Format the code and mend what ruff can
	$(VENV)/ruff format .
	$(VENV)/ruff check --fix .

chaos: install-dev ## Break everything by turns for MINUTES=5, and judge what it keeps; SEED=… repeats, ARGS=--list
	@exec $(VENV)/python -m tests.faults.checker $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(ARGS)

bench: install ## Measure it beside the raw limits, in a few minutes; more with ARGS="--full", ARGS=--list
	@exec $(VENV)/python -m bench $(ARGS)

bench-peers: install ## Measure other queues on the same servers, in an environment of their own
	@exec $(VENV)/python -m bench --peers $(ARGS)

bench-pipeline: install ## Measure archive, replay and roll-ups beside plain ways; ARGS="--rows 2000000" for the whole
	$(INSTALL) pipeline
	@exec $(VENV)/python -m bench.pipeline $(ARGS)

screenshots: install-dev ## Take the pictures of docs/figures anew; needs Chromium
	@mkdir -p docs/figures
	@MQUEUE_FIGURES=docs/figures $(VENV)/python -m pytest -n 0 tests/acceptance/test_browser.py -k ways

psql: install ## Open psql on a shard (SHARD=0, SHARD=1, ...) or SHARD=control
	@exec $(RUN) psql $(SHARD) $(ARGS)

token: install ## Print a token for every namespace; others: .venv/bin/python manage.py token --help
	@$(VENV)/python manage.py token --namespace '*' --days 30

superuser: install ## Make an account for the admin
	@exec $(VENV)/python manage.py createsuperuser

migrate: install ## Bring the control database and every shard up to date (make run does it too)
	@exec $(VENV)/python manage.py migrate_shards

check: install ## Check the configuration, and that every database answers
	@exec $(VENV)/python manage.py check

env: ## Write .env with random secrets for docker compose
	@$(PYTHON) docker/env.py

reset: install ## Delete the embedded servers' data; asks for YES=1
	@exec $(RUN) reset $(if $(YES),--yes)

clean: ## Delete .venv and caches; data stays
	rm -rf .venv .install.lock .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

lock: ## Resolve pyproject.toml anew into the hashed requirements files
	$(INSTALL) bootstrap
	$(VENV)/python launch/lock.py

install:
	$(INSTALL) base

install-dev:
	$(INSTALL) base dev
