# Everything a newcomer runs. Needs Python 3.11+ and make; uv is used where it is installed.

.DEFAULT_GOAL := help
# Tests start many processes; without bytecode on disk each of them compiles everything anew.
unexport PYTHONDONTWRITEBYTECODE
MAKEFLAGS += --no-print-directory

PYTHON_IN_VENV := .venv/bin/python
OUTCOMES := .cache/requirements.json
# Tests wait for disks and other processes as much as they compute.
WORKERS ?= 6
# The revision that `make check` compares with to choose mutants.
BASE ?= main
# Recorded agent traces to measure on; they are no part of the project, and without them a generated log serves.
TRACES ?= $(wildcard ../shared/data)
ARGS ?=

.PHONY: help setup demo demo-governed browser test check types claims reqs mutants bench soak stalls coverage lock dist docs clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

setup: ## make .venv, with the command at .venv/bin/twinraven
	@PYTHON='$(PYTHON)' sh tools/setup.sh

demo: ## a support desk at work, and what was remembered of it
	@PYTHON='$(PYTHON)' sh tools/setup.sh requirements-run.lock
	@$(PYTHON_IN_VENV) -m examples.support_desk $(ARGS)

demo-governed: ## a campaign whose agents publish and pay: judged, decided by people, sent once, traced
	@PYTHON='$(PYTHON)' sh tools/setup.sh requirements-run.lock
	@$(PYTHON_IN_VENV) -m examples.governed_campaign $(ARGS)

browser: setup ## a headless Chromium for the tests of the console, in .cache, where none is installed
	@$(PYTHON_IN_VENV) -m tools.browser

test: setup browser ## all tests, on SQLite and on Postgres; the console in a real browser
	@$(PYTHON_IN_VENV) -m pytest -q -p tools.forked_tests --workers $(WORKERS) $(if $(ARGS),$(ARGS),--requirements=$(OUTCOMES))

check: setup ## lint, format, types, layers, requirements, a few mutants of what changed since BASE
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@$(MAKE) -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) types claims

# The type checker keeps one processor busy for longer than everything else together keeps the other.
types:
	@.venv/bin/basedpyright

claims:
	@.venv/bin/lint-imports
	@$(PYTHON_IN_VENV) -m tools.reqs
	@$(PYTHON_IN_VENV) -m tools.mutants --changed $(BASE) --at-most 4 --workers $(WORKERS)

reqs: setup ## which requirements have a passing test (ARGS=--json for programs)
	@$(PYTHON_IN_VENV) -m tools.reqs $(ARGS)

screenshots: setup browser ## the pictures of the console in docs/images, light and dark
	@$(PYTHON_IN_VENV) -m tools.screenshots $(ARGS)

mutants: setup ## break what each requirement promises; its tests must fail (ARGS='TR-09 muninn' for some)
	@$(PYTHON_IN_VENV) -m tools.mutants --workers $(WORKERS) $(ARGS)

bench: setup ## ratios against peers, into bench/results.json (ARGS=NAME for one)
	@TWINRAVEN_TRACES='$(TRACES)' $(PYTHON_IN_VENV) -m bench $(ARGS)

soak: setup browser ## the long form: faults in full, ten million events, all mutants
	@$(PYTHON_IN_VENV) -m pytest -q --soak $(ARGS)
	@$(PYTHON_IN_VENV) -m tools.mutants --workers $(WORKERS)

stalls: setup browser ## all tests while their processes are stopped at random for seconds (ARGS=PATH for some)
	@$(PYTHON_IN_VENV) -m tools.stalls $(PYTHON_IN_VENV) -m pytest -q -p tools.forked_tests --workers $(WORKERS) $(ARGS)

coverage: setup ## branches of the ledger, of effects and of the judge that no test of theirs takes (installs coverage)
	@sh tools/coverage.sh $(PYTHON_IN_VENV)

dist: setup ## build the sdist and the wheel into dist/
	@$(PYTHON_IN_VENV) -m hatchling build -d dist

docs: setup ## build the docs site into build/site (installs mkdocs-material into .venv)
	@sh tools/docs.sh $(ARGS)

lock: ## solve the dependencies anew into the two locks (needs uv)
	@sh tools/lock.sh $(ARGS)

clean: ## remove what can be made again
	@rm -rf .venv .cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis bench/.peers dist build
