# SPDX-License-Identifier: Apache-2.0
from typing import Any, Literal, TypeVar

import numpy
from numpy.typing import NDArray
from typing_extensions import TypedDict, Unpack

__all__ = [
    "AttentionStates",
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
    "set_numerics",
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

# Keywords that functions share. One that is left out changes nothing.

class Removals(TypedDict, total=False):
    bias: Any
    mask: Any
    lengths: Any
    causal: Causal | None
    window: int

class Edits(Removals, total=False):
    softcap: float
    penalties: tuple[Any, Any, Any] | None
    repetition: Any
    frequency: Any
    presence: Any

class Scores(TypedDict, total=False):
    scale: float | None
    softcap: float
    bias: Any
    alibi_slopes: Any
    causal: Causal | None
    window_left: int
    window_right: int
    key_lengths: Any
    key_offset: int
    query_offset: int
    sinks: Any
    query_starts: Any
    key_starts: Any
    most_queries: int
    most_keys: int
    stream: Any

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
    **edits: Unpack[Edits],
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
    **edits: Unpack[Edits],
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
    **edits: Unpack[Edits],
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
    **edits: Unpack[Edits],
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
    **edits: Unpack[Edits],
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
    **removals: Unpack[Removals],
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
    **removals: Unpack[Removals],
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
    **edits: Unpack[Edits],
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
    **edits: Unpack[Edits],
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
    **edits: Unpack[Edits],
) -> tuple[Array, Array]: ...
def attention(
    query: Array,
    key: Any,
    value: Any,
    *,
    empty_row: EmptyRow = "zero",
    with_lse: bool = False,
    out: Array | None = None,
    out_dtype: Any = None,
    **scores: Unpack[Scores],
) -> Any: ...
def fold_attention(
    query: Array,
    key: Any,
    value: Any,
    **scores: Unpack[Scores],
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
def set_numerics(numerics: Literal["fast", "reproducible"]) -> None: ...
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
        numerics: Literal["fast", "reproducible"] = "fast",
    ) -> None: ...
    def fold(
        self,
        x: Any,
        column_offset: int = 0,
        *,
        stream: Any = None,
        **edits: Unpack[Edits],
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
    def numerics(self) -> Literal["fast", "reproducible"]: ...
    @property
    def columns(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def partials(self) -> NDArray[Any] | None: ...
    @property
    def values(self) -> NDArray[Any]: ...
    @property
    def indices(self) -> NDArray[numpy.int64]: ...

class AttentionStates:
    def __init__(
        self,
        batches: int,
        heads: int,
        tokens: int,
        dim: int,
        *,
        dtype: Any = "float32",
    ) -> None: ...
    def fold(
        self,
        query: Any,
        key: Any,
        value: Any,
        **scores: Unpack[Scores],
    ) -> None: ...
    def combine(self, more: AttentionStates) -> None: ...
    def finish(
        self,
        *,
        empty_row: EmptyRow = "zero",
        with_lse: bool = False,
        out_dtype: Any = None,
    ) -> Any: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> AttentionStates: ...
    @property
    def batches(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def keys(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def has_sinks(self) -> bool: ...
    @property
    def states(self) -> NDArray[Any]: ...
    @property
    def weighted(self) -> NDArray[Any]: ...
