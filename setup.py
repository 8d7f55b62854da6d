"""Compiles the Cython codec in place; the wheel itself is maturin's (see build_backend.py)."""

import sys
import sysconfig

from Cython.Build import cythonize
from setuptools import Extension, setup

STABLE_ABI = not sysconfig.get_config_var("Py_GIL_DISABLED")  # no abi3 on free-threaded Python

# Cython's own, which it would ask of the module `inspect`, for the limited API has none.
CODE_FLAGS = {
    "CO_OPTIMIZED": "0x0001",
    "CO_NEWLOCALS": "0x0002",
    "CO_VARARGS": "0x0004",
    "CO_VARKEYWORDS": "0x0008",
    "CO_GENERATOR": "0x0020",
    "CO_COROUTINE": "0x0080",
    "CO_ASYNC_GENERATOR": "0x0200",
}
LIMITED = {"Py_LIMITED_API": "0x030b0000", **CODE_FLAGS}

codec = Extension(
    "mqcommon._codec",
    ["csrc/_codec.pyx"],
    include_dirs=["csrc"],
    depends=["csrc/endian.h", "setup.py"],  # else a changed header or flag does not rebuild
    py_limited_api=STABLE_ABI,
    define_macros=list(LIMITED.items()) if STABLE_ABI else [],
    extra_compile_args=["-O2", "-g0", "-Wno-unused-function"] if sys.platform != "win32" else [],
    extra_link_args=["-s"] if sys.platform == "linux" else [],
)

if __name__ == "__main__":
    setup(
        name="mqstack-codec",
        packages=[],
        ext_modules=cythonize([codec], build_dir="build/cython"),
    )
