"""PEP 517 backend: maturin, with the Cython codec compiled first.

maturin has no build hook and would silently omit the codec, so every wheel is checked. It finds the
crates of an sdist by itself, so that is checked too.
"""

import pathlib
import subprocess
import sys
import tarfile
import zipfile

import maturin
from maturin import (  # noqa: F401  (the hooks a PEP 517 front end looks up)
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ROOT = pathlib.Path(__file__).parent


def build_codec() -> None:
    """Compile csrc/_codec.pyx next to the Python package mqstore."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=ROOT, check=True)


SOURCES = (
    *("pyproject.toml", "setup.py", "build_backend.py", "csrc/*.p[yx][xd]"),
    *("rust/Cargo.*", "rust/*/Cargo.toml", "rust/*/src/**/*.rs"),
    *("mq*/**/*.py", "mq*/py.typed", "pyspark_*/**/*.py"),
)
"""What a build from the sdist compiles or packs."""


def build_sdist(sdist_directory, config_settings=None):
    """Build the sdist; it must hold every source."""
    name = maturin.build_sdist(sdist_directory, config_settings)
    with tarfile.open(pathlib.Path(sdist_directory) / name) as sdist:
        held = {path.partition("/")[2] for path in sdist.getnames()}
    needed = {path.relative_to(ROOT) for glob in SOURCES for path in ROOT.glob(glob)}
    needed = {path.as_posix() for path in needed if "fuzz" not in path.parts}
    if missing := sorted(needed - held):
        raise RuntimeError(f"sdist {name} lacks {len(missing)} sources, first {missing[0]}")
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Build the wheel; it must hold exactly one of each extension."""
    build_codec()
    name = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name) as wheel:
        names = wheel.namelist()
    for module in ("_core", "_codec"):
        found = [
            n for n in names if n.startswith(f"mqcommon/{module}.") and n.endswith((".so", ".pyd"))
        ]
        if len(found) != 1:
            raise RuntimeError(f"wheel {name} must hold one mqcommon/{module}, has {found}")
    return name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Build the codec in the tree, then maturin's editable wheel."""
    build_codec()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)
