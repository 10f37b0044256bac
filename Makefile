## make tour               build and install a wheel in .venv, find edges in a photograph, measure three ladders
## make test               build and install the same wheel, run the whole test suite on it
##
## make dev                install in editable mode: Python edits need no build
## make check T=max_plus   compile what changed, run the tests of one routine; without T: all tests
## make fuzz N=1000000     run new random cases on all processors; SECONDS=60 limits each suite
## make lint               check format, lint and types of all files
## make format             format all files, apply the linter's safe fixes
## make generate           regenerate type stubs, tables, pages and charts that are out of date
## make notebooks          execute the sources in notebooks/text; N=01_transpose renders one notebook
## make architectures      compile for all architectures: registers, spills, kernels that cannot be launched
## make wheel              build and test the wheels of a release in dist, for every installed Python version
## make docs               build the documentation site of the installed package in build/docs/html
## make clean              remove .venv and build
##
## ADOKERNELS_CUDA=AUTO|ON|OFF   OFF builds without the CUDA ladders; otherwise nvcc is from the PATH, or else from PyPI
## ADOKERNELS_CUDA_ARCHITECTURES=AUTO|release|90   AUTO is the GPU of this machine, or else Hopper
## PRESET=asan   check and generate use the build of this CMake preset; tsan: the thread sanitizer
## ARGS='-x --seed random'   further arguments: of pytest for check and test, of .ci/wheels.py for wheel

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHELL := bash
.SHELLFLAGS := -eo pipefail -c
export ADOKERNELS_CUDA ?= AUTO
export ADOKERNELS_CUDA_ARCHITECTURES ?= AUTO
export CMAKE_EXPORT_COMPILE_COMMANDS ?= ON

.NOTPARALLEL: # ninja compiles in parallel
.PHONY: help tour test dev check fuzz module lint format generate notebooks docs architectures wheel clean FORCE
help:
	@sed -n 's/^## \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

tour: $(VENV)/wheel
	$(BIN)/adokernels tour

# Number of pytest-xdist workers. With a GPU 0 (one process): large tests would share GPU memory.
WORKERS ?= $(if $(wildcard /dev/nvidiactl),0,auto)
# With worksteal, a worker runs neighbouring tests, which share expected results. The slowest 20 tests are listed.
test: $(VENV)/wheel $(VENV)/with-test
	$(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal --durations 20 $(ARGS)

dev: module $(VENV)/with-test

# --- One routine ----------------------------------------------------------------------------------

# The tests whose file, name or parameters contain the routine's name.
TESTS = $(if $(T),tests -k $(T))

check: module $(VENV)/with-test
	$(RUN) -m pytest $(TESTS) $(ARGS)

generate: module $(VENV)/with-test
	$(RUN) .ci/generate.py

notebooks: module $(VENV)/with-notebook
	$(RUN) -m adobook.render $(N)

# The documentation site describes the installed package: the wheel, or else the editable package.
docs: $(VENV)/with-docs $(if $(wildcard $(VENV)/wheel),$(VENV)/wheel,module)
	$(BIN)/python .ci/docs.py

# The editable installation finds Python files in python/ and the compiled module through a link.
# ninja alone builds it; nvcc compiles one file for several architectures in parallel.
BUILD = build/$(or $(PRESET),make)
# Python is not instrumented, so the sanitizer's library and the C++ runtime are preloaded.
SANITIZER = LD_PRELOAD="$$(g++ -print-file-name=lib$(PRESET).so) $$(g++ -print-file-name=libstdc++.so)" \
  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
  TSAN_OPTIONS=allocator_may_return_null=1:suppressions=$(CURDIR)/tests/fuzz/tsan_suppressions.txt
RUN = $(if $(filter asan tsan,$(PRESET)),$(SANITIZER)) $(BIN)/python
module: $(VENV)/editable
	$(if $(PRESET),@$(BIN)/cmake --preset $(PRESET) >/dev/null)
	@NVCC_APPEND_FLAGS='$(NVCC_APPEND_FLAGS) --threads 0' $(BIN)/ninja -C $(BUILD)
	@ln -sf $(CURDIR)/$(BUILD)/_core*.so $(VENV)/lib/python3*/site-packages/adokernels/
	@ln -sf $(BUILD)/compile_commands.json .

# Random cases, new in each run; tests/fuzz describes them. ARGS="--device cuda", "--seed 7" and others.
N = 100000
fuzz: module $(VENV)/with-test
	$(RUN) tests/fuzz --total $(N) --processes 0 $(addprefix --seconds ,$(SECONDS)) $(ARGS)

# --- Format, lint, types --------------------------------------------------------------------------

CPP_FILES = find . \( -name build -o -name '.?*' \) -prune -o -type f \
  \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' \) -print0

lint: $(VENV)/with-lint
	$(CPP_FILES) | xargs -0 $(BIN)/clang-format --dry-run -Werror
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/with-lint
	$(CPP_FILES) | xargs -0 $(BIN)/clang-format -i
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# --- Kernels on other GPUs ------------------------------------------------------------------------

architectures: module
	$(BIN)/python .ci/architectures.py $(ARGS)

# --- Wheels of a release ---------------------------------------------------------------------------

wheel: $(VENV)/with-wheel
	$(BIN)/python .ci/wheels.py $(ARGS)

# --- Installations in .venv -----------------------------------------------------------------------

PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check
REQUIREMENTS = $(BIN)/python .ci/requirements.py
# The build tools, and nvcc if the PATH has none, are installed next to the package, not in a temporary environment of
# pip: the build folder then stays valid from one build to the next.
define INSTALL
@$(REQUIREMENTS) build | $(PIP) install -r /dev/stdin
@.ci/progress $(BIN)/python -m pip --verbose install --no-deps --no-build-isolation \
  --config-settings=build-dir=build/make
endef

$(VENV)/pip:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip 'tomli; python_version < "3.11"'
	touch $@

$(VENV)/tools: pyproject.toml .ci/requirements.py $(VENV)/pip
	$(REQUIREMENTS) run | $(PIP) install -r /dev/stdin
	touch $@

# The tests also compile CUDA C++ source. The package in book/ renders the notebooks.
EXTRAS_test = test kernels
$(VENV)/with-%: pyproject.toml .ci/requirements.py $(VENV)/tools
	$(REQUIREMENTS) $(or $(EXTRAS_$*),$*) | $(PIP) install -r /dev/stdin
	$(if $(filter notebook,$*),$(PIP) install --no-deps --no-build-isolation --editable book)
	touch $@

# Wheel and editable installation replace each other; both use the objects in build/make.
SOURCES := CMakeLists.txt $(shell find src cuda python -type f -not -name '*.pyc')
$(VENV)/wheel: $(VENV)/tools $(VENV)/config $(SOURCES)
	rm -f $(VENV)/editable
	$(INSTALL) .
	touch $@

$(VENV)/editable: $(VENV)/tools $(VENV)/config
	rm -f $(VENV)/wheel
	$(INSTALL) --editable .
	touch $@

# This file changes if the settings or the CUDA compiler change. The package is then built again.
CONFIG := $(ADOKERNELS_CUDA) $(ADOKERNELS_CUDA_ARCHITECTURES) $(CMAKE_ARGS) $(shell command -v nvcc)
$(VENV)/config: $(VENV)/tools FORCE
	@echo '$(CONFIG)' | cmp -s - $@ || echo '$(CONFIG)' > $@

clean:
	rm -rf $(VENV) build compile_commands.json
