# SPDX-License-Identifier: Apache-2.0
"""What the functions compute, in wider arithmetic by NumPy, with the rules and bounds of docs/semantics.md."""

import numpy as np

FLOATS = ("float32", "float64", "float16", "bfloat16")


def dtype_of(name):
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def unit(dtype):
    """The unit roundoff of the arithmetic."""
    return 2.0**-53 if dtype == np.float64 else 2.0**-24


def slack(dtype, columns):
    return (16 + np.log2(max(columns, 1))) * unit(dtype)


def state(x, scale=1.0):
    """The maximum and the sum of each row, of numbers."""
    z = np.longdouble(scale) * x.astype(np.float64).astype(np.longdouble)
    with np.errstate(invalid="ignore", over="ignore"):
        m = z.max(-1, initial=-np.inf)
        d = np.where(np.isneginf(m), 0.0, np.exp(z - m[..., None]).sum(-1))
    return z, m, d


def softmax(x, scale=1.0):
    z, m, d = state(x, scale)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.exp(z - m[..., None]) / d[..., None]


def logsumexp(x, scale=1.0):
    _, m, d = state(x, scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isinf(m), m, m + np.log(d))


def log_softmax(x, scale=1.0):
    z, m, d = state(x, scale)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (z - m[..., None]) - np.log(d)[..., None]


def order(x, k):
    """The columns of the k first elements: NaN first, then large to small, then by column."""
    v = x.astype(np.float64)
    keys = np.where(np.isnan(v), -np.inf, -v)
    return np.lexsort((np.broadcast_to(np.arange(v.shape[-1]), v.shape), keys, ~np.isnan(v)))[
        ..., :k
    ]


def assert_rounded(found, exact, bound):
    """found is exact up to the bound, or, in a 16-bit type, to its neighbours."""
    wide = found.astype(np.float64).astype(np.longdouble)
    bound = np.broadcast_to(bound, exact.shape)
    if found.dtype.itemsize == 2:
        digits = 8 if found.dtype.name == "bfloat16" else 11
        smallest = 2.0**-133 if found.dtype.name == "bfloat16" else 2.0**-24
        with np.errstate(divide="ignore", invalid="ignore"):
            exponent = np.floor(np.log2(np.abs(exact)))
        ulp = np.where(np.isfinite(exponent), 2.0 ** (exponent - digits + 1), 0.0)
        bound = bound + np.maximum(ulp, smallest)
    else:  # below the smallest normal number either 0 or rounded
        bound = bound + np.longdouble(np.finfo(found.dtype).smallest_normal)
    same = np.isnan(wide) & np.isnan(exact) | (wide == exact)
    with np.errstate(invalid="ignore"):
        near = np.abs(wide - exact) <= bound
    assert (same | near).all(), (found[~(same | near)], exact[~(same | near)])


def logcumsumexp(x, scale=1.0, exclusive=False, reverse=False):
    """The logsumexp of every prefix."""
    z = x[..., ::-1] if reverse else x
    columns = range(z.shape[-1])
    lse = [logsumexp(z[..., : column + (not exclusive)], scale) for column in columns]
    lse = np.stack(lse, -1) if lse else np.zeros(x.shape, np.longdouble)
    return lse[..., ::-1] if reverse else lse


# ---- docs/sampling.md ----


def philox(counter, key, rounds):
    """Philox4x32 of Salmon, Moraes, Dror and Shaw: four words of 32 bits."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (
            (p1 >> 32) ^ c1 ^ k0,
            p1 & 0xFFFFFFFF,
            (p0 >> 32) ^ c3 ^ k1,
            p0 & 0xFFFFFFFF,
        )
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def random_bits(columns, seed, offset, draw):
    """64 bits for each column."""
    key = seed & 0xFFFFFFFF, seed >> 32

    def words(block, kind, rounds):
        high = (block >> 32 << 22) + 2 * draw + kind
        return philox((block & 0xFFFFFFFF, high, offset & 0xFFFFFFFF, offset >> 32), key, rounds)

    found = []
    for column in range(columns):
        top = words(column // 8, 0, 7)[column % 8 // 2] >> 16 * (column % 2) & 0xFFFF
        w0, w1, _, _ = words(column, 1, 10)
        found.append((top << 48) + (w0 << 16) + (w1 >> 16))
    return found


def noise(columns, seed, offset, draw):
    """-log E of each column, E an exponential random number."""
    bits = np.array([np.longdouble(r) for r in random_bits(columns, seed, offset, draw)])
    return -np.log(-np.log1p(-(bits + np.longdouble(0.5)) * np.longdouble(2) ** -64))


def filtered(x, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, joint=False):
    """Which columns of a row the filters keep, and z = x / temperature."""
    z = x.astype(np.longdouble) / np.longdouble(temperature)
    ranks = np.empty(len(x), int)
    ranks[order(x, len(x))] = np.arange(len(x))
    p = np.exp(z - z.max())
    kept = p >= min_p
    if top_k:
        kept &= ranks < top_k
    counted = p if joint else np.where(kept, p, 0)
    if top_p < 1:
        first = order(x, len(x))
        before = np.cumsum(counted[first]) - counted[first]
        kept &= (before < top_p * counted.sum())[ranks]
        kept[first[0]] = True
    return kept, z


def sample(x, seed=0, offset=0, draws=1, **filters):
    """The tokens of a row, the log-probability of each, and of each in x as it is."""
    kept, z = filtered(x, **filters)
    tokens = [
        int(np.argmax(np.where(kept, z + noise(len(x), seed, offset, draw), -np.inf)))
        for draw in range(draws)
    ]
    drawn = log_softmax(np.where(kept, z, -np.inf).astype(np.float64))[tokens]
    return tokens, drawn, log_softmax(x)[tokens]


def verify(target, drafts, draft, seed, offsets, **filters):
    """The tokens of a chain, by the ratio of probabilities."""

    def probabilities(x):
        kept, z = filtered(x, **filters)
        return softmax(np.where(kept, z, -np.inf).astype(np.float64))

    tokens = []
    for place, token in enumerate(drafts):
        p, q, offset = probabilities(target[place]), probabilities(draft[place]), offsets[place]
        u = np.longdouble((random_bits(1, seed, offset, 1)[0] >> 12) + 0.5) * np.longdouble(2) ** -52
        if not (0 <= token < len(p) and u * q[token] < p[token]):
            more = p - q if (p > q).any() else p
            with np.errstate(divide="ignore", invalid="ignore"):
                keys = np.where(more > 0, np.log(more), -np.inf) + noise(len(p), seed, offset, 2)
            return [*tokens, int(np.argmax(keys))]
        tokens.append(int(token))
    return tokens + sample(target[-1], seed, offsets[len(drafts)], **filters)[0]


# ---- docs/attention.md ----


def attention(
    q, k, v, *, scale=None, softcap=0.0, bias=None, alibi_slopes=None, causal=None, window_left=-1,
    window_right=-1, key_lengths=None, key_offset=0, query_offset=0, sinks=None
):  # fmt: skip
    """Of [batches, heads, tokens, dim]: out and the logsumexp, with the documents' bounds on both."""
    heads, queries, keys, dim, dtype = q.shape[1], q.shape[2], k.shape[2], q.shape[3], q.dtype
    wide = lambda x: np.asarray(x, np.float64).astype(np.longdouble)  # noqa: E731
    q, k, v = wide(q), *(np.repeat(wide(x), heads // max(k.shape[1], 1), 1) for x in (k, v))
    arithmetic = np.float64 if dtype == np.float64 else np.float32
    scale = np.longdouble(arithmetic(dim**-0.5 if scale is None else scale))
    s = scale * (q @ k.mT)
    error = (dim + 2) * abs(scale) * (abs(q) @ abs(k).mT)
    if softcap:
        s = softcap * np.tanh(s / softcap)

    first = key_offset + np.arange(keys)
    lengths = [key_offset + keys] if key_lengths is None else key_lengths
    ends = np.reshape(np.maximum(lengths, 0), (-1, 1, 1, 1))
    at = query_offset + np.arange(queries)[:, None]
    if causal == "bottom_right":
        at = at + ends - queries
    seen = first < ends
    if causal is not None:
        seen = seen & (first <= at)
    if window_left >= 0:
        seen = seen & (at - window_left <= first)
    if window_right >= 0:
        seen = seen & (first <= at + window_right)

    added = np.longdouble(0) if bias is None else wide(bias)
    if alibi_slopes is not None:
        added = added - wide(alibi_slopes)[:, None, None] * abs(at - first)
    s = np.where(seen, s + added, -np.inf)
    with np.errstate(invalid="ignore"):
        error = np.where(np.isinf(s), 0, error + np.where(added != 0, 2 * abs(added) + abs(s), 0))
    g = error.max(-1, initial=0)

    sink = np.full(heads, -np.inf) if sinks is None else wide(sinks)
    m = np.maximum(s.max(-1, initial=-np.inf), sink[:, None])
    known = np.where(np.isneginf(m), 0, m)
    p = np.exp(s - known[..., None])
    d = p.sum(-1) + np.exp(sink[:, None] - known)
    p = p / np.where(d == 0, 1, d)[..., None]
    with np.errstate(divide="ignore"):
        lse = known + np.log(d)
    u, size = unit(dtype), np.where(np.isinf(lse), 0, abs(lse))
    rounded = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype.name, 0)
    terms = 16 + np.log2(keys + 1)
    bound = (rounded + (2 * g[..., None] + terms) * u) * (p @ abs(v))
    return p @ v, lse, bound + u * abs(p @ v), (size + g + terms) * u
