# Ratchet. `make demo` shows it, `make test` proves it; both install what they need and are safe to run again.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
# Many container images ask Python not to keep what it compiles; each process would then compile all of Airflow again.
unexport PYTHONDONTWRITEBYTECODE

help:  ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1|/' | awk -F'|' '{printf "make %-10s %s\n", $$1, $$2}'

environment:  ## A virtual environment in .venv, with `ratchet` in it
	@scripts/environment.sh

engine: environment  ## A Docker engine: found, or installed and started (RATCHET_NO_ENGINE_INSTALL=1 to leave it be)
	@scripts/engine.sh || [ $$? -eq 3 ]

images: engine  ## The stage image
	@scripts/images.sh || [ $$? -eq 3 ]

demo: images  ## Three nights through a real Airflow: a first model, a better one, and a poisoned day that is refused
	@PYTHONPATH=plugins $(PYTHON) -m demo

check: environment  ## Lint, types, layers, pipelines; no test is run
	@scripts/check.sh

test-fast: environment  ## Tests that need no engine, no Airflow and no server: the inner loop
	@scripts/test.sh fast

test: images  ## Checks, then every test but those of the team set-up
	@scripts/test.sh

test-stack: images  ## The tests of the team set-up, which they bring up
	@scripts/images.sh team >/dev/null || [ $$? -eq 3 ]
	@scripts/test.sh stack

serve: images  ## The demo's servers for your own pipelines (RATCHET_DATA, RATCHET_STORE), without the demo
	@PYTHONPATH=plugins $(PYTHON) -m local serve

bench: images  ## All benchmarks; one: .venv/bin/python -m benchmarks NAME
	@PYTHONPATH=plugins $(PYTHON) -m benchmarks

up: engine  ## The team set-up, by docker-compose.yaml: PostgreSQL, Redis, S3, MLflow, Airflow on Celery workers
	@scripts/compose.sh
	@$(PYTHON) -m team up

down: environment  ## End the team set-up; its data stay
	@$(PYTHON) -m team down

ps: environment  ## How each container of the team set-up is, and the addresses
	@$(PYTHON) -m team ps

logs: environment  ## What the team set-up says; SERVICE=worker for one service
	@$(PYTHON) -m team logs $(SERVICE)

backup: environment  ## Databases, buckets and secrets of the team set-up into a new folder
	@$(PYTHON) -m team backup

restore: environment  ## Put back what `make backup` saved: FROM=FOLDER
	@$(PYTHON) -m team restore $(FROM)

stop:  ## End what `make demo` and `make serve` started, and only that; an engine of theirs, unless containers run on it
	@[ ! -x $(PYTHON) ] || PYTHONPATH=plugins $(PYTHON) -m local stop
	@scripts/engine.sh release

wheels: environment  ## Both wheels into dist/: ratchet (library, Airflow plugin) and ratchet-stages
	@scripts/wheels.sh

lock: environment  ## Resolve requirements*.in and docker/stage.in again
	@scripts/lock.sh

clean: stop  ## Remove the demo's state, caches and byte code; the environment and the images stay
	@rm -rf .ratchet/demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage* build dist *.egg-info
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
	@echo "clean: demo state, caches and byte code are gone"

.PHONY: help environment engine images demo check test-fast test test-stack serve up down ps logs backup restore bench stop wheels lock clean
