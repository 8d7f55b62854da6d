"""Imports packages of extras on use, with a clear error if a package is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

EXTRAS = {
    "deltalake": "delta",
    "lz4": "lz4",
    "numpy": "views",
    "opentelemetry": "otel",
    "prometheus_client": "metrics",
    "pyarrow": "arrow",
}
"""The extra of `mqstack` that installs each package."""


def load(module: str, purpose: str) -> Any:
    """Import a module of one of `EXTRAS`.

    purpose: the subject of the error, for example "Parquet". Raises ImportError that says what to
    install.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise  # the package is installed, but one of its dependencies is missing
        raise ImportError(advice(package, purpose), name=package) from None


def advice(package: str, purpose: str) -> str:
    """The error text for a missing package: what needs it and how to install it."""
    installed_as = package.replace("_", "-")
    return f"{purpose} needs {installed_as}: pip install 'mqstack[{EXTRAS[package]}]'"
