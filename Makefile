# Everything a newcomer runs. Needs Python 3.11+ and make; uv is used where it is installed.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON_IN_VENV := .venv/bin/python
OUTCOMES := .cache/requirements.json
WORKERS ?= 2
# Recorded agent traces to measure on; they are no part of the project, and without them a generated log serves.
TRACES ?= $(wildcard ../shared/data)
ARGS ?=

.PHONY: help setup demo test check reqs bench soak lock clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

setup: ## make .venv, with the command at .venv/bin/twinraven
	@PYTHON='$(PYTHON)' sh tools/setup.sh

demo: setup ## a support desk at work, and what was remembered of it
	@$(PYTHON_IN_VENV) -m twinraven.demo $(ARGS)

test: setup ## all tests, on SQLite and on Postgres
	@$(PYTHON_IN_VENV) -m pytest -q -n $(WORKERS) $(if $(ARGS),$(ARGS),--requirements=$(OUTCOMES))

check: setup ## lint, format, types, layers, requirements
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/basedpyright
	@.venv/bin/lint-imports
	@$(PYTHON_IN_VENV) -m tools.reqs

reqs: setup ## which requirements have a passing test (ARGS=--json for programs)
	@$(PYTHON_IN_VENV) -m tools.reqs $(ARGS)

bench: setup ## ratios against peers, into bench/results.json (ARGS=NAME for one)
	@TWINRAVEN_TRACES='$(TRACES)' $(PYTHON_IN_VENV) -m bench $(ARGS)

soak: setup ## the long form: faults in full, ten million events
	@$(PYTHON_IN_VENV) -m pytest -q --soak $(ARGS)

lock: ## solve the dependencies anew into requirements.lock (needs uv)
	@sh tools/lock.sh $(ARGS)

clean: ## remove what can be made again
	@rm -rf .venv .cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis bench/.peers dist build
