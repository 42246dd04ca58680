# Everyday commands. `make` alone is what CI runs; every target sets up what it needs in .venv.
BIN := .venv/bin
READY := .venv/ready
CLIENTS := .venv/clients/ready
MODEL := .venv/model/ready
# Processes that run tests: one a core, and one more for the time in which the others wait (docs/decisions/0043).
TEST_WORKERS ?= $(shell expr $$(nproc) + 1)
export PYTHON
# Many images forbid Python to write bytecode: each of a thousand processes would compile anew what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: all serve run lint check test test-fresh test-model kubernetes cover fix record lock bench soak size clean
all: lint test

serve: $(READY)
	$(BIN)/belljar serve

run: $(READY)
	$(BIN)/belljar run -c "import pandas as pd; pd.DataFrame({'x': [1, 2, 3]}).describe()"

lint: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/map.py --check
	$(BIN)/python scripts/reference.py --check
	$(BIN)/python scripts/reachable.py

check: lint
	$(BIN)/pytest -q -n $(TEST_WORKERS) --dist worksteal tests/unit

test: $(READY) $(CLIENTS)
	sh scripts/programs
	$(BIN)/pytest -n $(TEST_WORKERS) --dist worksteal --vendor-coverage

# The same on bare Debians, as root and as an ordinary user: what passes here must pass where nothing is set up.
test-fresh:
	sh scripts/fresh $(TRIES)

# With a real small model on llama.cpp, which is compiled the first time.
test-model: $(READY) $(MODEL)
	$(BIN)/pytest -n 0 -m model tests/model

# A real API server for the tests of claims, built from Debian's sources the first time; `make test` uses it from then on.
kubernetes:
	sh scripts/kubernetes

cover: $(READY)
	$(BIN)/pytest -q -n $(TEST_WORKERS) --vendor-coverage tests/unit/vendors

fix: $(READY)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix
	$(BIN)/python scripts/map.py
	$(BIN)/python scripts/reference.py

record: $(READY)
	$(BIN)/python scripts/record.py

lock: $(READY)
	sh scripts/lock --upgrade
	sh scripts/clients --lock
	sh scripts/model --lock

bench: $(READY)
	$(BIN)/python bench/sandbox.py
	$(BIN)/python bench/gateway.py
	$(BIN)/python bench/workspace.py

# SOAK_CLIENTS=200 SOAK_STEPS=30 SOAK_SEED=7 SOAK_MINUTES=10 for several gateways under faults (tests/consistency).
soak: $(READY)
	$(BIN)/pytest -m soak --timeout 0 -o faulthandler_timeout=0

size: $(READY)
	$(BIN)/python scripts/size.py

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage build dist
	find src tests scripts bench -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml scripts/setup scripts/common.sh
	sh scripts/setup

$(CLIENTS): $(READY) $(wildcard tests/gateway/clients/*lock*) scripts/clients
	sh scripts/clients

$(MODEL): $(READY) $(wildcard tests/model/*.lock) scripts/model
	sh scripts/model
