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

.PHONY: setup quickstart check docs pages unit unit-rust unit-python test test-rust test-python jars lint lint-rust
.PHONY: lint-python lint-format lint-types lint-public format wheel wheels newest-python bench bench-all
.PHONY: bench-smoke optimised soak clean

$(VENV)/.tools: pyproject.toml
	@command -v cargo >/dev/null || { echo "there is no cargo: install Rust, https://rustup.rs" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "there is no C compiler; on Debian: apt-get install gcc libc6-dev" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=24'
	$(BIN)/python -m pip install --quiet $$($(PYTHON) -c "$(BUILD_NEEDS)") 'build>=1.2,<2'
	touch $@

$(VENV)/.installed: $(VENV)/.tools setup.py build_backend.py rust/Cargo.toml rust/py/Cargo.toml rust/Cargo.lock
	. $(BIN)/activate && python setup.py -q build_ext --inplace && PIP_QUIET=1 maturin develop --quiet --extras dev,docs
	touch $@

# The compiled parts follow their sources; cargo and Cython decide what is stale.
setup: $(VENV)/.installed
	. $(BIN)/activate && python setup.py -q build_ext --inplace && maturin develop --quiet --skip-install

# Optimised, without the minutes that link-time optimisation takes; nothing but what runs is installed.
quickstart: $(VENV)/.tools
	. $(BIN)/activate && python setup.py -q build_ext --inplace && PIP_QUIET=1 maturin develop --quiet --profile fast
	$(BIN)/mqserver quickstart

# The inner loop, within a minute once all is built: format, lint, types, unit tests. The longest part
# starts first; it has one process, because each of pytest's workers would import all tests again.
check: setup format
	make --jobs=2 --output-sync --assume-old=setup unit-python lint-rust lint-python unit-rust

unit: unit-rust unit-python

unit-rust:
	cd rust && PROPTEST_CASES=32 $(CARGO) test --lib

unit-python: setup
	$(BIN)/python -m pytest -q -m unit --hypothesis-profile=check

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

# What needs no Java, on the newest CPython of this machine.
newest-python:
	scripts/newest-python

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

lint: lint-rust lint-python

lint-rust:
	cd rust && cargo fmt --check
	cd rust && ! cargo tree --edges normal | grep pyo3
	cd rust && cargo clippy --quiet --workspace --all-targets --target-dir $(LINT_TARGET) -- -D warnings

# Each of these uses one core: `make --jobs lint-python` is quicker.
lint-python: lint-format lint-types lint-public $(VENV)/.stubtest

lint-format: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

lint-types: setup
	$(BIN)/mypy
	$(BIN)/mypy examples tests/typing/handlers.py

lint-public: setup
	$(BIN)/pyright

# The stubs against the compiled modules, again only when one of their sources changed. After the
# types: both write mypy's cache.
STUBBED := $(wildcard mqcommon/*.pyi csrc/*.pyx csrc/*.pxd rust/py/src/*.rs rust/py/src/*/*.rs)
$(VENV)/.stubtest: $(STUBBED) scripts/stubtest-allowlist.txt | setup lint-types
	$(BIN)/python -m mypy.stubtest mqcommon._core mqcommon._codec --allowlist scripts/stubtest-allowlist.txt \
		--mypy-config-file pyproject.toml
	touch $@

format:
	cd rust && cargo fmt
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What is released: optimised with link-time optimisation, tried in an environment of its own. The
# wheel is built from the sdist, or beside it from the tree: WHEEL_BUILD="--sdist --wheel".
WHEEL_BUILD ?=
wheel: $(VENV)/.tools
	rm -rf dist
	$(BIN)/python -m build $(WHEEL_BUILD) --outdir dist .
	scripts/smoke-wheel $(PYTHON)

# What a release publishes for this kind of machine: zig links it for older systems.
wheels:
	scripts/wheels

# The pages of docs/ and the API, in build/site. Fails on a broken link; needs no network.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Every page and table that is made from the code: settings, options, codes, metrics.
pages: setup
	$(BIN)/python -m scripts.pages

clean:
	rm -rf build dist $(VENV) rust/target mqcommon/*.so
