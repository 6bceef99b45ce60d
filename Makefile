# PYTHON: any of 3.11, 3.12, 3.13. Pictures are painted several times faster with jax 0.12, which needs 3.12.
PYTHON ?= $(shell for p in python3.12 python3.13 python3; do $$p -c "" 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
RUN = $(VENV)/bin/python
ARGS ?=
STUDIES = tests/test_study.py tests/test_aes_study.py

.PHONY: quickstart test test-all test-studies test-parity check format bench gallery goldens tokenizer

quickstart: $(VENV)/run.stamp
	$(RUN) -m experiments.quickstart $(ARGS)

# Tests spend most of their time compiling: a third less without LLVM's optimisations. `test-all` has them.
test: $(VENV)/test.stamp
	XLA_FLAGS="$$XLA_FLAGS --xla_backend_optimization_level=0" $(RUN) -m pytest -n 2 --dist loadgroup $(ARGS)

test-all: $(VENV)/test.stamp
	$(RUN) -m pytest -n 2 --dist loadgroup --slow $(ARGS)

test-studies: $(VENV)/test.stamp
	XLA_FLAGS="$$XLA_FLAGS --xla_backend_optimization_level=0" $(RUN) -m pytest -n 2 --dist loadgroup --slow $(STUDIES) $(ARGS)

test-parity: $(VENV)/parity.stamp
	$(RUN) -m pytest tests/parity $(ARGS)

check: $(VENV)/test.stamp
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(VENV)/test.stamp
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(VENV)/test.stamp
	$(RUN) scripts/bench.py $(ARGS)

gallery: $(VENV)/run.stamp
	$(RUN) scripts/gallery.py $(ARGS)

goldens: $(VENV)/test.stamp
	$(RUN) scripts/goldens.py $(ARGS)

tokenizer: $(VENV)/run.stamp
	$(RUN) scripts/train_tokenizer.py $(ARGS)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --upgrade pip

$(VENV)/run.stamp: requirements.txt | $(VENV)/bin/python
	$(RUN) -m pip install --quiet -r requirements.txt
	touch $@

$(VENV)/test.stamp: requirements.txt requirements-test.txt | $(VENV)/bin/python
	$(RUN) -m pip install --quiet -r requirements-test.txt
	touch $@ $(VENV)/run.stamp

$(VENV)/parity.stamp: requirements-parity.txt requirements.txt requirements-test.txt | $(VENV)/bin/python
	$(RUN) -m pip install --quiet -r requirements-parity.txt
	touch $@ $(VENV)/test.stamp $(VENV)/run.stamp
