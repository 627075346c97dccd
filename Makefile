# Everything a developer needs. `make check` does what the CI does.
PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
EXTRAS := test dev docs river arrow plot onnx
BIN := $(VENV)/bin
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)

.PHONY: venv build

venv: $(VENV)/.ready

# The environment is refreshed when requirements change; packages that fit are kept.
$(VENV)/.ready: pyproject.toml tools/requirements.py
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PYTHON) tools/requirements.py $(EXTRAS) > $(VENV)/requirements.txt
	$(BIN)/python -m pip install --quiet --requirement $(VENV)/requirements.txt
	@touch $@

# Incremental: CMake's build directory (build/) persists, only changed sources are compiled.
# The lock lets several shells build in one checkout. The environment's cmake and ninja come first.
build: venv
	@mkdir -p build
	PATH="$(abspath $(BIN)):$$PATH" flock build/lock \
	  $(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
