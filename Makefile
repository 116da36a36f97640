# Each target does all of its own set-up: a virtual environment, the compiler's wheels, and this package.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
KERNEL := examples/kernels/hopper/gemm.cu
TASK := PTXBench-GEMM-H100
ENVS ?= .venv

.PHONY: quickstart test test-integrations fuzz test-gpu lint format bench docs clean

quickstart: $(READY)  ## judge the example kernel on whatever this machine has
	$(BIN)/ptxgym doctor
	$(BIN)/ptxgym evaluate $(KERNEL) --env $(TASK) || test $$? -eq 3

test: $(READY) lint  ## everything that needs no GPU
	$(BIN)/python -m pytest -m "not gpu" -n auto

test-integrations: $(ENVS)-openenv/ready $(ENVS)-verl/ready  ## the RL frameworks that want environments of their own
	$(ENVS)-openenv/bin/python -m pytest tests/integrations/test_openenv.py tests/integrations/test_imports.py
	$(ENVS)-verl/bin/python -m pytest tests/integrations/test_verl.py tests/integrations/test_verifiers.py

fuzz: $(READY)  ## 100,000 mutated inputs for every parser of what candidates and tools write
	PTXGYM_FUZZ=100000 $(BIN)/python -m pytest tests/adversarial/test_fuzz.py -n auto --timeout 1800

test-gpu: $(READY)  ## everything that needs a Hopper GPU
	$(BIN)/python -m pytest -m gpu

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## measure ptxgym itself
	$(BIN)/ptxgym bench --json bench.json

docs: $(READY)  ## write the generated pages of docs/
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) $(ENVS)-openenv $(ENVS)-verl build dist .pytest_cache .mypy_cache .ruff_cache

# torch first and pinned: the build that lies on the CI machines' disk. `make TORCH='torch>=2.6'` takes another.
TORCH ?= torch==2.13.0
# Where there is an NVIDIA driver, what times and watches a GPU too.
EXTRAS := $(shell test -e /dev/nvidiactl && echo dev,cuda || echo dev)

$(READY): pyproject.toml requirements-ci.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ptxgym needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check '$(TORCH)'
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint requirements-ci.txt --editable '.[$(EXTRAS)]'
	touch $@

# OpenEnv and verifiers exclude each other, and verl holds transformers back. torch in the same command keeps its build.
$(ENVS)-openenv/ready: FRAMEWORKS := openenv
$(ENVS)-verl/ready: FRAMEWORKS := verl,verifiers
$(ENVS)-%/ready: pyproject.toml
	$(PYTHON) -m venv $(ENVS)-$*
	$(ENVS)-$*/bin/pip install --quiet --disable-pip-version-check '$(TORCH)' --editable '.[$(FRAMEWORKS)]' \
		pytest pytest-timeout hypothesis
	touch $@
