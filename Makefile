# Set-up, checks and the two commands that everything starts from. Every target is idempotent.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test check docs format bench clean install uninstall

help: ## say what can be made
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## the whole story on one machine, about 20 s
	@$(BIN)/lastcall demo

test: $(READY) ## set up and run the tests
	@$(BIN)/python -m pytest -n 6 --dist worksteal

check: $(READY) ## format, lint, strict types, direction of imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@PYTHONPATH=agent $(BIN)/lint-imports --no-cache

docs: $(READY) ## rewrite the pages that are made from the program
	@$(BIN)/python tools/docs.py
	@$(BIN)/python tools/chart.py

format: $(READY) ## rewrite the sources as `make check` wants them
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY) ## measure speed and size; results are tabulated in docs/performance.md
	@$(BIN)/python benchmarks/run.py

install: ## install it as a systemd service; tools/install says what can be set
	@tools/install install

uninstall: ## remove what `make install` made; configuration and journal stay
	@tools/install uninstall

clean: ## remove what the other targets made
	rm -rf .venv .mypy_cache .ruff_cache build dist

$(READY): pyproject.toml tools/venv
	@tools/venv "$(PYTHON)" "$(VENV)"
	@touch $@
