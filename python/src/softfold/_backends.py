# SPDX-License-Identifier: Apache-2.0
"""Where the libraries of backends are that come in packages of their own."""

import importlib.metadata
import importlib.util
import os
import pathlib

GROUP = "softfold.backends"


def library_path(backend):
    """The path of the shared library of a backend: that of SOFTFOLD_CUDA_LIBRARY, or of the package
    whose entry point names it."""
    variable = f"SOFTFOLD_{backend.upper()}_LIBRARY"
    if os.environ.get(variable):
        return os.environ[variable]
    for entry in importlib.metadata.entry_points(group=GROUP, name=backend):
        spec = importlib.util.find_spec(entry.value)
        for folder in spec.submodule_search_locations if spec else ():
            path = pathlib.Path(folder) / f"libsoftfold_{backend}.so"
            if path.exists():
                return str(path)
    raise RuntimeError(
        f"softfold: the {backend} backend is in the package softfold-cu13, which is not installed"
    )
