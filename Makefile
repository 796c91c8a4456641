# One command each: demo, test, lint, types, format, bench, docs. Everything happens in .venv.
PYTHON ?= python3
# The CPU build; any torch that pip understands: make test TORCH=torch==2.13.0
TORCH ?= torch==2.13.0
WORKERS ?= 2
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-backends lint types format bench docs clean

demo: $(READY)
	@echo "--- samples/failing.py fails under torch.compile; minify run finds out why"
	$(BIN)/minify run samples/failing.py
	@echo "--- the repro"
	@cat "$$(ls -td minify-out/failing-*/ | head -1)repro.py"

test: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

# Third parties' backends, each in an environment of its own beside torch.
test-backends: .venv-openvino/.ready .venv-iree-turbine/.ready .venv-triton/.ready
	.venv-openvino/bin/python -m pytest $(PYTEST_ARGS) tests_of_backends/test_openvino.py
	.venv-iree-turbine/bin/python -m pytest $(PYTEST_ARGS) tests_of_backends/test_iree_turbine.py
	.venv-triton/bin/python -m pytest $(PYTEST_ARGS) tests_of_backends/test_triton.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m pip install --quiet -e ".[bench]"
	$(BIN)/python benchmarks/compare.py --write

docs: $(READY)
	$(BIN)/python -m mkdocs build --strict

clean:
	rm -rf site .venv .venv-openvino .venv-iree-turbine .venv-triton minify-out

.venv-%/.ready: pyproject.toml
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet "$(TORCH)"
	.venv-$*/bin/python -m pip install --quiet $*
	.venv-$*/bin/python -m pip install --quiet -e ".[dev]"
	touch $@

# Torch first: the project itself never asks for it, so that it cannot replace the one that is there.
$(READY): pyproject.toml backends/pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet -e ".[dev]" -e backends
	touch $@
