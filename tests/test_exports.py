"""Public names: listed, sorted, present, and explained."""

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

PACKAGES = ["mqstore", "mqclient", "mqclient.aio", "mqpipeline", "mqserver"]


@pytest.mark.parametrize("package", PACKAGES)
def test_exported_names_exist_are_sorted_and_documented(package: str) -> None:
    module = importlib.import_module(package)
    names = module.__all__
    assert names == sorted(names)
    for name in names:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            assert inspect.getdoc(value), f"{package}.{name} has no docstring"
        if inspect.isclass(value):
            undocumented = [
                f"{package}.{name}.{member}"
                for member, attribute in vars(value).items()
                if not member.startswith("_")
                and (inspect.isroutine(attribute) or isinstance(attribute, property))
                and not inspect.getdoc(getattr(value, member))
            ]
            assert not undocumented


def test_both_faces_of_the_client_export_the_same_errors() -> None:
    """The errors of `aio` can be caught with exported names only."""
    import mqclient
    from mqclient import aio, errors

    for name in errors.__all__:
        assert getattr(aio, name) is getattr(mqclient, name) is getattr(errors, name)
    assert {*mqclient.__all__} <= {*aio.__all__}


@pytest.mark.parametrize(
    "package", ["mqcommon", "mqstore", "mqclient", "mqadmin", "mqserver", "mqpipeline"]
)
def test_every_module_says_what_it_is_for(package: str) -> None:
    root = importlib.import_module(package)
    for found in pkgutil.walk_packages(root.__path__, f"{package}."):
        if found.name.endswith("__main__") or ".spark" in found.name:
            continue
        module = importlib.import_module(found.name)
        assert (module.__doc__ or "").strip(), f"{found.name} has no docstring"


def test_importing_the_client_loads_nothing_heavy() -> None:
    heavy = ["numpy", "click", "rich", "zstandard", "pyarrow", "pyspark", "mqserver"]
    script = f"import sys, mqclient; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
