# make tour    builds everything into .venv and runs every ladder on a photograph and a large array
# make test    the same, and runs the whole test suite
#
# ADOKERNELS_CUDA = AUTO (default), ON or OFF; ADOKERNELS_CUDA_ARCHITECTURES = AUTO, release, 90 ...

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export ADOKERNELS_CUDA ?= AUTO
export ADOKERNELS_CUDA_ARCHITECTURES ?= AUTO

SOURCES := CMakeLists.txt pyproject.toml $(shell find src cuda python -type f -not -name '*.pyc')
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: tour test clean
tour: $(VENV)/installed
	$(BIN)/adokernels tour

test: $(VENV)/installed $(VENV)/with-tests
	$(BIN)/python -m pytest

# The tools that build are installed beside what they build: the build folder then stays valid from
# one build to the next, which it would not in pip's throw-away environments.
$(VENV)/tools:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip
	$(PIP) install 'scikit-build-core>=0.11' 'pybind11>=3.0' 'cmake>=3.26' ninja
	touch $@

$(VENV)/installed: $(VENV)/tools $(VENV)/config $(SOURCES)
	$(PIP) install --no-build-isolation --config-settings=build-dir=build/make .
	touch $@

$(VENV)/with-tests: pyproject.toml $(VENV)/installed
	$(PIP) install --no-build-isolation --config-settings=build-dir=build/make '.[test]'
	touch $@

# Changes when the settings or the CUDA compiler do, so that another one builds again.
CONFIG := $(ADOKERNELS_CUDA) $(ADOKERNELS_CUDA_ARCHITECTURES) $(shell command -v nvcc)
$(VENV)/config: $(VENV)/tools FORCE
	@echo '$(CONFIG)' | cmp -s - $@ || echo '$(CONFIG)' > $@
FORCE:

clean:
	rm -rf $(VENV) build
