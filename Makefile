# Ratchet. `make demo` shows it, `make test` proves it; both install what they need and are safe to run again.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
WORKERS ?= 3

help:  ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1|/' | awk -F'|' '{printf "make %-8s %s\n", $$1, $$2}'

environment:  ## A virtual environment in .venv, with `ratchet` in it
	@scripts/environment.sh

engine: environment  ## A Docker engine: found, or installed and started (RATCHET_NO_ENGINE_INSTALL=1 to leave it be)
	@scripts/engine.sh || [ $$? -eq 3 ]

images: engine  ## The stage image
	@scripts/images.sh || [ $$? -eq 3 ]

demo: images  ## Two nights through a real Airflow, with verdicts, versions and a report
	@PYTHONPATH=plugins $(PYTHON) -m demo demo

check: environment  ## Lint, types, layers, pipelines; no test is run
	@scripts/check.sh

test: images check  ## Everything: checks, then every test
	@scripts/test.sh

up: images  ## Airflow and MLflow on loopback for your own pipelines (RATCHET_DATA, RATCHET_STORE), without the demo
	@PYTHONPATH=plugins $(PYTHON) -m demo up

down:  ## End what `make up` started
	@[ ! -x $(PYTHON) ] || PYTHONPATH=plugins $(PYTHON) -m demo down

bench: images  ## All benchmarks; one: .venv/bin/python -m benchmarks NAME
	@PYTHONPATH=plugins $(PYTHON) -m benchmarks

stop:  ## End what `make demo` started, and only that
	@[ ! -x $(PYTHON) ] || PYTHONPATH=plugins $(PYTHON) -m demo stop

lock: environment  ## Resolve requirements*.in and docker/stage.in again
	@scripts/lock.sh

clean: stop  ## Remove the demo's state, caches and byte code; the environment and the images stay
	@rm -rf .ratchet/demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage* build *.egg-info
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
	@echo "clean: demo state, caches and byte code are gone"

.PHONY: help environment engine images demo check test up down bench stop lock clean
