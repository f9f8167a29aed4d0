# SPDX-License-Identifier: Apache-2.0
"""The copies that copy=True allows."""


def _moved(x, source, destination):
    if hasattr(x, "movedim"):  # torch
        return x.movedim(source, destination)
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__().moveaxis(x, source, destination)
    import importlib

    return importlib.import_module(type(x).__module__.partition(".")[0]).moveaxis(
        x, source, destination
    )


def with_last_axis(function, x, axis):
    """x with `axis` as its last, in contiguous memory."""
    if x.ndim == 0:  # which the module refuses
        return x
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"{function}: axis is {axis}, expected {-x.ndim} to {x.ndim - 1}")
    moved = x if axis in (-1, x.ndim - 1) else _moved(x, axis, -1)
    if hasattr(moved, "contiguous"):  # torch
        return moved.contiguous()
    if hasattr(moved, "strides") and hasattr(moved, "flags"):  # NumPy, CuPy
        return moved.copy(order="C")
    # An array of the array API says nothing of its strides; one made of its elements is contiguous.
    xp = moved.__array_namespace__()
    return xp.reshape(xp.concat([xp.reshape(moved, (-1,))]), moved.shape)


def with_axis(y, axis):
    """with_last_axis undone, without a copy."""
    return _moved(y, -1, axis)
