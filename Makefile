# Every target sets up what it needs. Needs: Python 3.11+, a Rust toolchain, a C compiler.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CARGO := cargo --config term.quiet=true
LINT_TARGET ?= target/lint
BUILD_NEEDS := import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'])
# With --jobs: cargo is not to share make's job slots.
unexport MAKEFLAGS
# Commands and servers start in half the time when their bytecode is kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup quickstart test test-rust test-python jars lint format wheel bench bench-all bench-smoke optimised soak clean

$(VENV)/.installed: pyproject.toml setup.py build_backend.py rust/Cargo.toml rust/py/Cargo.toml rust/Cargo.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=24'
	$(BIN)/python -m pip install --quiet $$($(PYTHON) -c "$(BUILD_NEEDS)")
	. $(BIN)/activate && python setup.py -q build_ext --inplace && PIP_QUIET=1 maturin develop --quiet --extras dev
	touch $@

# The compiled parts follow their sources; cargo and Cython decide what is stale.
setup: $(VENV)/.installed
	. $(BIN)/activate && python setup.py -q build_ext --inplace && maturin develop --quiet --skip-install

quickstart: setup
	$(BIN)/mqserver quickstart

test: setup test-rust test-python bench-smoke

test-rust:
	cd rust && $(CARGO) test

test-python: setup
	scripts/system-packages
	$(BIN)/python -m pytest -n 4 --dist loadgroup --no-loadscope-reorder

# RocketMQ's, over the network; without them the tests say what they miss.
jars:
	-$(PYTHON) scripts/java_rocketmq.py >/dev/null

bench-smoke: setup
	$(BIN)/python -m benches --smoke

# Fuzzing, property tests with many examples, floods at full size: half an hour and more, by hand.
soak: setup
	scripts/soak

# Fails where something is over 15 % slower than benches/baseline.json says.
bench: setup optimised
	$(BIN)/python -m benches regression

# Everything at full size, Java RocketMQ included where there is a JDK: an hour.
bench-all: setup optimised
	$(BIN)/python -m benches

optimised:
	. $(BIN)/activate && maturin develop --quiet --skip-install --profile release

lint: setup
	cd rust && cargo fmt --check
	cd rust && ! cargo tree --edges normal | grep pyo3
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest mqstore._core mqstore._codec --allowlist scripts/stubtest-allowlist.txt \
		--mypy-config-file pyproject.toml
	cd rust && cargo clippy --quiet --workspace --all-targets --target-dir $(LINT_TARGET) -- -D warnings

format:
	cd rust && cargo fmt
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: setup
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	scripts/smoke-wheel $(PYTHON)

clean:
	rm -rf build dist $(VENV) rust/target mqstore/*.so
