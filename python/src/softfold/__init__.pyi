# SPDX-License-Identifier: Apache-2.0
from typing import Any, Literal, TypeVar

import numpy
from numpy.typing import NDArray

__all__ = [
    "States",
    "attention",
    "combine_attention",
    "fold_attention",
    "info",
    "log_softmax",
    "log_softmax_backward",
    "logcumsumexp",
    "logsumexp",
    "normalize_attention",
    "sample",
    "set_threads",
    "softmax",
    "softmax_backward",
    "softmax_topk",
    "topk",
    "verify",
]
__version__: str

# An array of NumPy, torch, CuPy, JAX, or any object with __dlpack__.
Array = TypeVar("Array")
EmptyRow = Literal["nan", "zero"]
Causal = Literal["top_left", "bottom_right"]

def softmax(
    x: Array,
    axis: int = -1,
    *,
    scale: float = 1.0,
    empty_row: EmptyRow = "nan",
    out: Array | None = None,
    out_dtype: Any = None,
    stream: Any = None,
    copy: bool = False,
    bias: Any = None,
    mask: Any = None,
    lengths: Any = None,
    causal: Causal | None = None,
    window: int = 0,
    softcap: float = 0.0,
    penalties: tuple[Any, Any, Any] | None = None,
    repetition: Any = None,
    frequency: Any = None,
    presence: Any = None,
) -> Array: ...
def log_softmax(
    x: Array,
    axis: int = -1,
    *,
    scale: float = 1.0,
    empty_row: EmptyRow = "nan",
    out: Array | None = None,
    out_dtype: Any = None,
    stream: Any = None,
    copy: bool = False,
    bias: Any = None,
    mask: Any = None,
    lengths: Any = None,
    causal: Causal | None = None,
    window: int = 0,
    softcap: float = 0.0,
    penalties: tuple[Any, Any, Any] | None = None,
    repetition: Any = None,
    frequency: Any = None,
    presence: Any = None,
) -> Array: ...
def logsumexp(
    x: Array,
    axis: int = -1,
    *,
    scale: float = 1.0,
    out: Array | None = None,
    out_dtype: Any = None,
    stream: Any = None,
    copy: bool = False,
    bias: Any = None,
    mask: Any = None,
    lengths: Any = None,
    causal: Causal | None = None,
    window: int = 0,
    softcap: float = 0.0,
    penalties: tuple[Any, Any, Any] | None = None,
    repetition: Any = None,
    frequency: Any = None,
    presence: Any = None,
) -> Array: ...
def topk(
    x: Array,
    k: int,
    axis: int = -1,
    *,
    out: tuple[Array, Array] | None = None,
    out_dtype: Any = None,
    index_dtype: Any = None,
    stream: Any = None,
    copy: bool = False,
    bias: Any = None,
    mask: Any = None,
    lengths: Any = None,
    causal: Causal | None = None,
    window: int = 0,
    softcap: float = 0.0,
    penalties: tuple[Any, Any, Any] | None = None,
    repetition: Any = None,
    frequency: Any = None,
    presence: Any = None,
) -> tuple[Array, Array]: ...
def softmax_topk(
    x: Array,
    k: int,
    axis: int = -1,
    *,
    scale: float = 1.0,
    empty_row: EmptyRow = "nan",
    with_logits: bool = False,
    with_lse: bool = False,
    out: tuple[Array, Array] | None = None,
    out_dtype: Any = None,
    index_dtype: Any = None,
    stream: Any = None,
    copy: bool = False,
    bias: Any = None,
    mask: Any = None,
    lengths: Any = None,
    causal: Causal | None = None,
    window: int = 0,
    softcap: float = 0.0,
    penalties: tuple[Any, Any, Any] | None = None,
    repetition: Any = None,
    frequency: Any = None,
    presence: Any = None,
) -> tuple[Array, ...]: ...
def softmax_backward(
    y: Array,
    dy: Array,
    axis: int = -1,
    *,
    scale: float = 1.0,
    out: Array | None = None,
    out_dtype: Any = None,
    stream: Any = None,
    bias: Any = None,
    mask: Any = None,
    lengths: Any = None,
    causal: Causal | None = None,
    window: int = 0,
) -> Array: ...
def log_softmax_backward(
    y: Array,
    dy: Array,
    axis: int = -1,
    *,
    scale: float = 1.0,
    out: Array | None = None,
    out_dtype: Any = None,
    stream: Any = None,
    bias: Any = None,
    mask: Any = None,
    lengths: Any = None,
    causal: Causal | None = None,
    window: int = 0,
) -> Array: ...
def logcumsumexp(
    x: Array,
    axis: int = -1,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    scale: float = 1.0,
    carry: Any = None,
    with_carry: bool = False,
    out: Array | None = None,
    out_dtype: Any = None,
    stream: Any = None,
    copy: bool = False,
    bias: Any = None,
    mask: Any = None,
    lengths: Any = None,
    causal: Causal | None = None,
    window: int = 0,
    softcap: float = 0.0,
    penalties: tuple[Any, Any, Any] | None = None,
    repetition: Any = None,
    frequency: Any = None,
    presence: Any = None,
) -> Any: ...
def sample(
    x: Array,
    *,
    temperature: Any = 1.0,
    top_k: Any = 0,
    top_p: Any = 1.0,
    min_p: Any = 0.0,
    seed: Any = 0,
    offset: Any = 0,
    draws: int = 1,
    joint: bool = False,
    with_log_probability: bool = False,
    with_raw_log_probability: bool = False,
    with_lse: bool = False,
    with_kept: bool = False,
    with_top: int = 0,
    out: Array | None = None,
    out_dtype: Any = None,
    index_dtype: Any = None,
    stream: Any = None,
    copy: bool = False,
    bias: Any = None,
    mask: Any = None,
    lengths: Any = None,
    causal: Causal | None = None,
    window: int = 0,
    softcap: float = 0.0,
    penalties: tuple[Any, Any, Any] | None = None,
    repetition: Any = None,
    frequency: Any = None,
    presence: Any = None,
) -> Any: ...
def verify(
    target: Array,
    draft_tokens: Any,
    draft: Any = None,
    *,
    temperature: Any = 1.0,
    top_k: Any = 0,
    top_p: Any = 1.0,
    min_p: Any = 0.0,
    seed: Any = 0,
    offset: Any = 0,
    joint: bool = False,
    index_dtype: Any = None,
    stream: Any = None,
    bias: Any = None,
    mask: Any = None,
    lengths: Any = None,
    causal: Causal | None = None,
    window: int = 0,
    softcap: float = 0.0,
    penalties: tuple[Any, Any, Any] | None = None,
    repetition: Any = None,
    frequency: Any = None,
    presence: Any = None,
) -> tuple[Array, Array]: ...
def attention(
    query: Array,
    key: Any,
    value: Any,
    *,
    scale: float | None = None,
    softcap: float = 0.0,
    bias: Any = None,
    alibi_slopes: Any = None,
    causal: Causal | None = None,
    window_left: int = -1,
    window_right: int = -1,
    key_lengths: Any = None,
    key_offset: int = 0,
    query_offset: int = 0,
    sinks: Any = None,
    query_starts: Any = None,
    key_starts: Any = None,
    most_queries: int = 0,
    most_keys: int = 0,
    stream: Any = None,
    empty_row: EmptyRow = "zero",
    with_lse: bool = False,
    out: Array | None = None,
    out_dtype: Any = None,
) -> Any: ...
def fold_attention(
    query: Array,
    key: Any,
    value: Any,
    *,
    scale: float | None = None,
    softcap: float = 0.0,
    bias: Any = None,
    alibi_slopes: Any = None,
    causal: Causal | None = None,
    window_left: int = -1,
    window_right: int = -1,
    key_lengths: Any = None,
    key_offset: int = 0,
    query_offset: int = 0,
    sinks: Any = None,
    query_starts: Any = None,
    key_starts: Any = None,
    most_queries: int = 0,
    most_keys: int = 0,
    stream: Any = None,
) -> tuple[Array, Array]: ...
def combine_attention(
    states: Any, weighted: Any, more: Any, more_weighted: Any, *, stream: Any = None
) -> None: ...
def normalize_attention(
    states: Any,
    weighted: Array,
    *,
    empty_row: EmptyRow = "zero",
    out: Array | None = None,
    out_dtype: Any = None,
    stream: Any = None,
) -> Array: ...
def info(backend: Literal["cpu", "cuda"] = "cpu") -> dict[str, Any]: ...
def set_threads(threads: int) -> None: ...

class States:
    def __init__(
        self,
        rows: int,
        k: int = 0,
        *,
        scale: float = 1.0,
        dtype: Any = "float32",
        sampling: dict[str, float] | None = None,
    ) -> None: ...
    def fold(
        self,
        x: Any,
        column_offset: int = 0,
        *,
        stream: Any = None,
        bias: Any = None,
        mask: Any = None,
        lengths: Any = None,
        causal: Causal | None = None,
        window: int = 0,
        softcap: float = 0.0,
        penalties: tuple[Any, Any, Any] | None = None,
        repetition: Any = None,
        frequency: Any = None,
        presence: Any = None,
    ) -> None: ...
    def combine(self, more: States) -> None: ...
    def append_rows(self, more: States) -> None: ...
    def finish(
        self, *, empty_row: EmptyRow = "nan"
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    def finish_sample(
        self,
        *,
        with_log_probability: bool = False,
        with_raw_log_probability: bool = False,
        with_lse: bool = False,
        with_kept: bool = False,
    ) -> Any: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> States: ...
    @property
    def rows(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def scale(self) -> float: ...
    @property
    def dtype(self) -> str: ...
    @property
    def columns(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def partials(self) -> NDArray[Any]: ...
    @property
    def values(self) -> NDArray[Any]: ...
    @property
    def indices(self) -> NDArray[numpy.int64]: ...
