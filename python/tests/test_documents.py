# SPDX-License-Identifier: Apache-2.0
"""The examples, and the Python in the documents, with the output that stands below it."""

import contextlib
import io
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import has

ROOT = pathlib.Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples" / "python"
DOCUMENTS = [
    ROOT / name for name in ("README.md", "docs/guide.md", "docs/python.md", "python/README.md")
]


@pytest.mark.parametrize(
    "name, words",
    [
        ("sample_tokens.py", "In the beginning God created the heaven and the["),
        ("sharded_rows.py", "4 parts"),
        ("training_step.py", "after one step"),
    ],
)
def test_examples(name, words):
    if name == "training_step.py" and not has("torch"):
        pytest.skip("no torch here")
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


def blocks(path):
    """Each Python block of a document, with the text block that follows at once or None."""
    found = re.findall(
        r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", path.read_text(), re.M | re.S
    )
    assert found, f"{path} has no Python"
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents(path):
    names = {}
    for code, output in blocks(path):
        if any(f"import {name}" in code and not has(name) for name in ("torch", "jax", "cupy")):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(path), "exec"), names)
        assert printed.getvalue() == (output or ""), code
