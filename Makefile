# One command each: demo, quick, test, soak, corpus, lint, types, format, bench, docs, packages. Everything happens in .venv,
# and each command installs its own extra of pyproject.toml there when it is first used.
PYTHON ?= python3
# The CPU build; any torch that pip understands: make test TORCH=torch==2.13.0
TORCH ?= torch==2.13.0
# Half as many again as cores: tests wait for their children now and then.
WORKERS ?= 3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
READY := .venv/.ready

# Tests start many interpreters, which would compile the same modules each time.
unexport PYTHONDONTWRITEBYTECODE

# Third parties' backends, and the packages that each needs beside torch. The failures in tests_of_backends/ are those of
# these versions.
OUT_OF_TREE := openvino iree triton thunder tvm max
PACKAGES_openvino := openvino==2026.4.1
PACKAGES_iree := iree-turbine==3.9.0 iree-base-compiler==3.13.0 iree-base-runtime==3.13.0
PACKAGES_triton := triton
PACKAGES_thunder := lightning-thunder==0.2.6
PACKAGES_tvm := apache-tvm==0.27.0.post1
PACKAGES_max := torch-max-backend==0.2.0 max==25.6.1

.PHONY: demo quick test soak corpus coverage test-backends torches lint types format bench docs packages clean

demo: $(READY)
	@echo "--- samples/failing.py fails under torch.compile; minify run finds out why"
	$(BIN)/minify run samples/failing.py
	@echo "--- the repro"
	@cat "$$(ls -td minify-out/failing-*/ | head -1)repro.py"

# Everything that runs in the test process.
quick: .venv/.test
	$(PYTEST) -m quick $(PYTEST_ARGS)

# With real captures, forks, deaths, compiles and whole runs; quick is part of it.
test: .venv/.test
	$(PYTEST) -m "not soak" $(PYTEST_ARGS)

# What takes long, or a program of its own: many kills, a browser, the documentation, most of tests/corpus.
soak: .venv/.soak
	$(PYTEST) -m "soak or hypothesis" --hypothesis-profile=soak $(PYTEST_ARGS)

# Every failing program of tests/corpus, one after the other, and the table of reported failures; two hours.
corpus: .venv/.test
	$(BIN)/python benchmarks/scale.py --write > corpus.json

# Which lines of the tool the tests run, in forks and commands too; slower than the tests alone.
coverage: .venv/.test
	$(BIN)/coverage erase
	-$(BIN)/coverage run -m pytest -n $(WORKERS) --dist worksteal -m "not soak" $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --sort=cover

# Releases of torch, each in an environment of its own, which is removed afterwards unless KEEP is set; writes
# docs/reference/versions.md.
TORCHES ?= 2.8.0 2.10.0 2.12.1 2.15.0
torches:
	$(PYTHON) scripts/torches.py --workers $(WORKERS) $(if $(KEEP),--keep) $(TORCHES)

# Third parties' backends, each in an environment of its own beside torch.
test-backends: $(OUT_OF_TREE:%=.venv-%/.ready)
	@set -e; for name in $(OUT_OF_TREE); do \
		.venv-$$name/bin/python -m pytest $(PYTEST_ARGS) tests_of_backends/test_$$name.py; \
	done

# The tests, and the scripts in them, wait by tests/clock.py alone.
TIMED := sleep\(|time\.sleep|(monotonic|perf_counter|time\.time)(_ns)?\(

lint: .venv/.lint
	! grep -rnE '$(TIMED)' tests --include='*.py' --exclude=clock.py --exclude-dir=goldens
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/lines.py
	$(BIN)/lint-imports

format: .venv/.lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: .venv/.types
	$(BIN)/mypy

bench: .venv/.bench
	$(BIN)/python benchmarks/compare.py --write

# The site, in site/: open site/index.html, after the tables of docs/ that repeat the code. The theme's notice about its
# successor is no error of ours.
docs: .venv/.docs
	$(BIN)/python scripts/docs_tables.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

# The wheels and the source distribution: built, installed outside this folder, and used there.
packages:
	PYTHON="$(PYTHON)" TORCH="$(TORCH)" WORKERS="$(WORKERS)" .ci/packages

clean:
	rm -rf build dist site .venv .venv-* minify-out

.venv-%/.ready: pyproject.toml
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet "$(TORCH)"
	.venv-$*/bin/python -m pip install --quiet "$(TORCH)" $(PACKAGES_$*)
	.venv-$*/bin/python -m pip install --quiet -e ".[test]"
	touch $@

# Torch first: the project itself never asks for it, so that it cannot replace the one that is there. Compiling all of
# torch's modules would take longer than the demonstration, which imports few of them. Without build isolation pip
# needs the build system here (see pyproject.toml), and does not fetch it anew for each installation.
$(READY): pyproject.toml setup.py backends/pyproject.toml
	@echo "--- installs $(TORCH) and the tool into .venv; where torch has to be downloaded, that takes minutes"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --no-compile "$(TORCH)" "setuptools>=77.0.3"
	$(PIP) --no-compile --no-build-isolation -e . -e backends
	touch $@

# Tests start many interpreters that write no bytecode, and would compile what they import each time. What torch brings
# for later Pythons fails to compile, which matters as little as in pip's own compilation.
.venv/.test .venv/.soak: .venv/.%: $(READY)
	$(PIP) --no-build-isolation -e ".[$*]"
	-$(BIN)/python -m compileall -qq -j $(WORKERS) .venv/lib
	touch $@

.venv/.%: $(READY)
	$(PIP) --no-build-isolation -e ".[$*]"
	touch $@
