# SPDX-License-Identifier: Apache-2.0
"""The package as it is installed: its documentation runs, its stubs are its functions'."""

import ast
import doctest
import importlib
import importlib.metadata
import operator
import pathlib
import re

import pytest
from conftest import has

import softfold

HERE = pathlib.Path(softfold.__file__).parent


def run_examples(text, name, names):
    test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    assert test.examples, f"{name} has no example"
    output = []
    results = doctest.DocTestRunner(verbose=False).run(test, out=output.append)
    assert results.failed == 0, "".join(output)


@pytest.mark.parametrize(
    "name",
    [*softfold.__all__, "States.fold", "States.finish_sample", "AttentionStates.fold"],
)
def test_examples(name):
    run_examples(operator.attrgetter(name)(softfold).__doc__, name, dict(vars(softfold)))


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_examples_of_frameworks(name):
    if not has(name):
        pytest.skip(f"no {name} here")
    module = importlib.import_module(f"softfold.{name}")
    run_examples(module.__doc__, name, {"softfold": softfold})


def names_of(function, shared):
    """Arguments in order, keywords in any; of keywords in one argument the names in its type."""
    arguments = function.args
    names = [a.arg for a in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        names += shared[arguments.kwarg.annotation.slice.id]
    assert len(names) == len(set(names)), function.name
    return [a.arg for a in arguments.args], sorted(names)


def defaults_of(function):
    arguments = function.args
    named = [*arguments.args[len(arguments.args) - len(arguments.defaults) :], *arguments.kwonlyargs]
    given = [*arguments.defaults, *arguments.kw_defaults]
    return {a.arg: value and ast.dump(value) for a, value in zip(named, given)}


def test_stubs_are_the_functions():
    stubs = ast.parse((HERE / "__init__.pyi").read_text())
    functions = {n.name: n for n in stubs.body if isinstance(n, ast.FunctionDef)}
    classes = [n for n in stubs.body if isinstance(n, ast.ClassDef)]
    states = [n for n in classes if n.name.endswith("States")]
    assert {*functions, *(n.name for n in states)} == set(softfold.__all__)
    shared = {}
    for kind in classes:
        if kind not in states:
            inherited = [name for base in kind.bases for name in shared.get(base.id, [])]
            shared[kind.name] = inherited + [field.target.id for field in kind.body]
    methods = {
        f"{of.name}.{n.name}": n for of in states for n in of.body if isinstance(n, ast.FunctionDef)
    }
    real_methods = [
        "States.fold", "States.finish", "States.finish_sample", "AttentionStates.fold", "AttentionStates.finish"
    ]  # fmt: skip
    for name, stub in {**functions, **{name: methods[name] for name in real_methods}}.items():
        # nanobind's own line: name(x: object, axis: int = -1, *, ...) -> object
        line = operator.attrgetter(name)(softfold).__doc__.splitlines()[0]
        real = ast.parse(f"def {line}: ...").body[0]
        assert names_of(real, shared) == names_of(stub, shared), name
        assert defaults_of(stub).items() <= defaults_of(real).items(), name
    for of in states:
        public = {f"{of.name}.{n}" for n in vars(getattr(softfold, of.name)) if not n.startswith("_")}
        assert {n for n in methods if n.startswith(f"{of.name}.")} - {f"{of.name}.__init__"} == public


def test_versions_are_one():
    assert softfold.__version__ == softfold.info()["version"]
    assert importlib.metadata.version("softfold") == softfold.__version__
    assert (HERE / "py.typed").exists()


def test_the_licence_is_in_it():
    (licence,) = (f for f in importlib.metadata.files("softfold") if f.name == "LICENSE")
    assert "Apache License" in licence.read_text()


def test_the_modules_functions_are_private():
    import subprocess

    library = softfold._softfold.__file__
    exported = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True)
    assert "PyInit__softfold" in exported.stdout
    assert not re.search(r" softfold_\w+", exported.stdout), exported.stdout


def test_info():
    found = softfold.info()
    assert found["backend"] == "cpu" and found["threads"] >= 1 and found["isa"]
    with pytest.raises(ValueError, match='backend is "tpu", expected "cpu" or "cuda"'):
        softfold.info("tpu")
