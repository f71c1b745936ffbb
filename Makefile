# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Equal bits need BLAS on one thread; parallelism is our own.
export OPENBLAS_NUM_THREADS := 1
# Hundreds of processes of the tests would each compile all modules that they import.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test shared check client docs site generated long soundness torture protocol fuzz bench screenshots docker clean
.DEFAULT_GOAL := help

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.compiled $(VENV)/.site ## Start the service at http://127.0.0.1:8000 (or PORT=9000), data in ./var
	exec $(BIN)/svm-service serve $(if $(PORT),--port $(PORT))

test: $(VENV)/.test $(VENV)/.site ## Run all tests, three files at a time: two of them wait now and then
	$(BIN)/python -m pytest -n 3 --dist loadfile

shared: $(VENV)/.test ## Run the tests of the routes on PostgreSQL and S3
	$(BIN)/python -m pytest --shared tests/service/datasets/test_routes.py tests/service/models tests/service/jobs/test_routes.py

check: $(VENV)/.test ## Check format, lint, types and import contracts; count the code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.count_code

client: $(VENV)/.test ## Make the synchronous client of the asynchronous one, and the members of the resources
	$(BIN)/python -m tools.make_sync_client
	$(BIN)/python -m tools.make_members

docs: $(VENV)/.test ## Make the tables in docs/, and the replies that /docs shows
	$(BIN)/python -m tools.make_tables
	$(BIN)/python -m tools.make_replies

site: $(VENV)/.site ## Build the documentation that the service shows at /guide

generated: $(VENV)/.test ## Make clients of the OpenAPI document in Python and TypeScript, and have them go the whole way
	$(BIN)/python -m pytest -m generated

long: $(VENV)/.test $(VENV)/.site ## Run tests of processes that take seconds, and the cases that `make test` leaves out
	$(BIN)/python -m pytest -m long -n 2 --dist loadfile

soundness: $(VENV)/.test ## Check 5,000 certificates, exports on 100,000 rows, 64 tables of R, course results over 20 seeds
	$(BIN)/python -m pytest -m soundness -s

torture: $(VENV)/.test ## Break connections, kill processes and fill disks, for an hour or so
	$(BIN)/python -m pytest -m torture -s

protocol: $(VENV)/.test ## Explore the largest models of the protocol of jobs, and run 30,000 schedules, for hours
	$(BIN)/python -m pytest -m protocol -s tests/service/protocol

fuzz: $(VENV)/.test ## Send hostile input and use bad timing, for an hour or so
	$(BIN)/python -m pytest -m fuzz -s

bench: $(VENV)/.test ## Measure against scikit-learn
	$(BIN)/python -m benchmarks

screenshots: $(VENV)/.test $(VENV)/.compiled $(VENV)/.site ## Photograph today's pages for README.md, if Chromium is there
	$(BIN)/python -m tools.make_screenshots

docker: ## Build the image svm-service
	docker build --tag svm-service .

clean: ## Remove the virtual environment and caches; data in ./var stays
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Stamps: a second run installs nothing.
$(VENV)/.service: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[service]'
	@touch $@

# What the first job would wait for. If this fails, the job compiles it.
$(VENV)/.compiled: $(wildcard svm/loops/*.py) | $(VENV)/.service
	-$(BIN)/python -m service.jobs.engine.compiling
	@touch $@

# If this fails, the service has no /guide.
$(VENV)/.site: tools/make_site.py service/web/frame.py service/web/assets/frame.css $(wildcard tools/site/*) $(wildcard docs/*.md docs/decisions/*.md) | $(VENV)/.service
	-$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]' && $(BIN)/python -m tools.make_site
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,docs]'
	@touch $@ $(VENV)/.service
