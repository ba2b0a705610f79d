"""The public names, and what may not stand in the package."""

import ast
from pathlib import Path

import pytest

import tinyllm

PACKAGE = Path(tinyllm.__file__).parent


def test_every_public_name_is_there_and_explained():
    assert dir(tinyllm) == sorted(tinyllm.__all__) and len(set(tinyllm.__all__)) == len(tinyllm.__all__)
    for name in tinyllm.__all__:
        value = getattr(tinyllm, name)
        assert value.__doc__ and value.__name__ == name and value.__module__.startswith("tinyllm."), name


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="tinyllm.*Tokenizer"):
        tinyllm.Tokenizer


def test_nothing_in_the_package_can_run_code_from_data():
    """No eval, no exec, no pickle in any of its forms."""
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
            assert name not in ("eval", "exec", "compile", "__import__", "torch.load", "os.system"), path
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                modules = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                assert not modules & {"pickle", "marshal", "shelve", "dill", "joblib", "subprocess"}, path
