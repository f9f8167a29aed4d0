# SPDX-License-Identifier: Apache-2.0
"""The kinds of arrays that the functions take, for the tests that are the same for all of them."""

import importlib.util

import hypothesis
import numpy as np
import pytest
from reference import FLOATS

# The machine that runs the tests is shared: no deadline for an example. Derandomised: a failure
# comes again.
hypothesis.settings.register_profile("softfold", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("softfold")


def has(name):
    return importlib.util.find_spec(name) is not None


class Kind:
    """A library of arrays: how its arrays are made of NumPy's, and made into these; its types."""

    def __init__(self, name, make, back, types=FLOATS):
        self.name, self.make, self.back, self.types = name, make, back, types

    def __repr__(self):
        return self.name


def _kinds():
    yield "numpy", lambda: Kind("numpy", lambda x: x, lambda y: y)
    if has("array_api_strict"):

        def strict():
            import array_api_strict

            # Its arrays are NumPy's underneath.
            return Kind("array_api_strict", array_api_strict.asarray, np.from_dlpack, FLOATS[:2])

        yield "array_api_strict", strict
    if has("torch"):

        def torch_kind():
            import torch

            def make(x):
                if x.dtype.name == "bfloat16":
                    return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
                return torch.from_numpy(x)

            def back(y):
                if y.dtype == torch.bfloat16:
                    import ml_dtypes

                    return y.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
                return y.numpy()

            return Kind("torch", make, back)

        yield "torch", torch_kind
    if has("jax"):

        def jax_kind():
            import jax

            jax.config.update("jax_enable_x64", True)
            return Kind("jax", jax.numpy.asarray, np.asarray)

        yield "jax", jax_kind


KINDS = dict(_kinds())


@pytest.fixture(params=list(KINDS))
def kind(request):
    return KINDS[request.param]()
