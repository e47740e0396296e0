# Ratchet. `make demo` shows it and `make test` tests it. Both install what they need, and you can repeat both.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
# Many container images set this variable. Then every process would compile all of Airflow again.
unexport PYTHONDONTWRITEBYTECODE

help:  ## Print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1|/' | awk -F'|' '{printf "make %-10s %s\n", $$1, $$2}'

environment:  ## Make the virtual environment .venv with `ratchet` in it
	@scripts/environment.sh

engine: environment  ## Find, or install and start, a Docker engine (RATCHET_NO_ENGINE_INSTALL=1 prevents both)
	@scripts/engine.sh || [ $$? -eq 3 ]

images: engine  ## Build the stage image
	@scripts/images.sh || [ $$? -eq 3 ]

demo: images  ## Run three nights in a real Airflow: a first model, a better one, and a poisoned day that Ratchet refuses
	@PYTHONPATH=plugins $(PYTHON) -m demo

check: environment  ## Check format, lint, types, layers, shape and pipelines; run no test
	@scripts/check.sh

test-fast: environment  ## Run the tests that need no engine, no Airflow and no server (4 minutes at most)
	@scripts/test.sh fast

test: images  ## Run the checks, then all tests except those of the team set-up
	@scripts/test.sh

test-stack: images  ## Run the tests of the team set-up, which they start
	@scripts/images.sh team >/dev/null || [ $$? -eq 3 ]
	@scripts/test.sh stack

serve: images  ## Start Airflow and MLflow for your own pipelines (RATCHET_DATA, RATCHET_STORE)
	@PYTHONPATH=plugins $(PYTHON) -m local serve

soak: environment  ## Run the tests of many steps or draws with many more of them, such as 10,000 over production (minutes)
	@RATCHET_PRODUCTION_STEPS=10000 $(PYTHON) -m pytest -q -n 0 tests/production/test_machine.py -k everything_that
	@RATCHET_STEPS=1000 RATCHET_TRAININGS=10000 $(PYTHON) -m pytest -q -n 0 --timeout 1800 \
		tests/runs/test_data_machine.py tests/collection/test_machine.py tests/train/test_epochs.py

bench: images  ## Run all benchmarks; for one: .venv/bin/python -m benchmarks NAME
	@PYTHONPATH=plugins $(PYTHON) -m benchmarks

up: engine  ## Start the team set-up (docker-compose.yaml): PostgreSQL, Redis, S3, MLflow, Airflow with Celery workers
	@scripts/compose.sh
	@$(PYTHON) -m team up

down: environment  ## Stop the team set-up and keep its data
	@$(PYTHON) -m team down

ps: environment  ## Show the state of each container of the team set-up, and the addresses
	@$(PYTHON) -m team ps

logs: environment  ## Show the logs of the team set-up; SERVICE=worker shows those of one service
	@$(PYTHON) -m team logs $(SERVICE)

backup: environment  ## Save databases, buckets and secrets of the team set-up, and copy them off this host; SOURCES=1: all sources
	@$(PYTHON) -m team backup $(if $(SOURCES),--sources)

restore: environment  ## Restore what `make backup` saved: FROM=FOLDER, or s3://BUCKET/PREFIX/TIME
	@$(PYTHON) -m team restore $(FROM)

stop:  ## Stop what `make demo` and `make serve` started, and their Docker engine unless containers run on it
	@[ ! -x $(PYTHON) ] || PYTHONPATH=plugins $(PYTHON) -m local stop
	@scripts/engine.sh release

wheels: environment  ## Build both wheels into dist/: ratchet (library, Airflow plugin) and ratchet-stages
	@scripts/wheels.sh

lock: environment  ## Resolve requirements*.in and docker/*.in again
	@scripts/lock.sh

clean: stop  ## Remove the demo's state, caches and bytecode; keep the environment and the images
	@rm -rf .ratchet/demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage* build dist *.egg-info
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
	@echo "clean: removed demo state, caches and bytecode"

.PHONY: help environment engine images demo check test-fast test test-stack serve soak up down ps logs backup restore bench stop wheels lock clean
