"""nvcc's users' programs on texts, graphs, hash tables and bits: launches and references."""

from __future__ import annotations

import base64 as encodings
import hashlib
import heapq
import re
import zlib
from itertools import combinations, groupby
from typing import Any

import numpy as np

from .case import Launch
from .nvcc_entries import kernel, rng

f4, i4, u4, u8 = np.float32, np.int32, np.uint32, np.uint64


def letters(alphabet: bytes, *shape: int) -> Any:
    return rng().choice(list(alphabet), shape).astype(np.uint8)


def pattern(text: bytes) -> dict[str, Any]:
    """The variable of the module that holds what is looked for."""
    return {"pattern": np.frombuffer(text.ljust(16, b"\0"), np.uint8)}


@kernel("searching", (5,), (64,))
def string_search(device: Any) -> Launch:
    text = letters(b"ab", 300)
    found = [m.start() for m in re.finditer(b"(?=abba)", text.tobytes())]
    hits = np.zeros(320, np.uint8)
    hits[found] = 1
    packed = np.packbits(hits, bitorder="little").view(u4)
    args = [text, i4(300), i4(4), np.zeros(10, u4), np.zeros(1, i4)]
    return Launch(args, {3: packed, 4: np.array([len(found)], i4)}, variables=pattern(b"abba"))


@kernel("searching", (2,), (32,))
def rolling_hash(device: Any) -> Launch:
    text = letters(b"abc", 500)
    wanted = text[333:345].tobytes()
    value = 0
    for c in wanted:
        value = (value * 257 + c) % 2**32
    args = [text, i4(500), i4(12), u4(value), i4(8), np.array([9999], i4)]
    return Launch(args, {5: np.array([text.tobytes().index(wanted)], i4)})


@kernel("searching", (1,), (32,))
def knuth_morris_pratt(device: Any) -> Launch:
    lines = letters(b"ab", 32, 60)
    lines[0] = ord("a")
    word = b"aabaa"
    failure = [max(k for k in range(i + 1) if word[:k] == word[i + 1 - k : i + 1]) for i in range(5)]
    counts = np.array([len(re.findall(b"(?=aabaa)", line.tobytes())) for line in lines], i4)
    args = [lines, i4(60), np.array(failure, i4), i4(5), np.zeros(32, i4)]
    return Launch(args, {4: counts}, variables=pattern(word))


@kernel("searching", (3,), (64,))
def hash_insert(device: Any) -> Launch:
    """The table's order depends on the order of the threads; the count of each key doesn't."""
    keys = rng().integers(0, 90, 180).astype(u4)
    counts = np.bincount(keys, minlength=90).astype(i4)
    return Launch([keys, np.full(128, 2**32 - 1, u4), np.zeros(90, i4), i4(180), u4(128)], {2: counts})


@kernel("searching", (1,), (64,))
def hash_join(device: Any) -> Launch:
    keys = (rng().permutation(900)[:150] + 1).astype(u4)
    values = rng().integers(0, 10**6, 150).astype(u4)
    wanted = np.where(rng().random(150) < 0.5, keys[::-1], 1000 + keys).astype(u4)
    table = dict(zip(keys.tolist(), values.tolist(), strict=True))
    found = np.array([table.get(w, 2**32 - 1) for w in wanted.tolist()], u4)
    return Launch([keys, values, wanted, np.zeros(150, u4), i4(150)], {3: found})


@kernel("searching", (1,), (64,))
def bloom_filter(device: Any) -> Launch:
    members = rng().integers(0, 2**32, 200, u8).astype(u4)
    asked = np.concatenate([members[:50], rng().integers(0, 2**32, 150, u8).astype(u4) ^ u4(1)])
    factors = u4(2654435761) + u4(2) * np.arange(1, 4, dtype=u4)

    def places(x: Any) -> Any:
        return x[:, None] * factors >> u4(21)

    maybe = np.isin(places(asked), places(members)).all(1)
    assert maybe[:50].all() and not maybe.all()
    return Launch([members, i4(200), asked, np.full(200, 9, np.uint8), i4(200)], {3: maybe.astype(np.uint8)})


def graph(n: int, m: int) -> Any:
    """Directed edges without repetition, sorted by their sources."""
    edges = rng().integers(0, n, (m, 2))
    return np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0)


def rows_of(keys: Any, n: int) -> Any:
    return np.append(0, np.cumsum(np.bincount(keys, minlength=n))).astype(i4)


@kernel("searching", (1,), (32,))
def bfs_level(device: Any) -> Launch:
    edges = graph(80, 240)
    distance = np.full(80, -1, i4)
    front = np.arange(0, 80, 9).astype(i4)
    distance[front] = 2
    distance[1::5] = np.where(distance[1::5] < 0, 1, distance[1::5])
    reached = np.unique(edges[np.isin(edges[:, 0], front), 1])
    reached = reached[distance[reached] < 0]
    after, marks = distance.copy(), np.zeros(80, np.uint8)
    after[reached], marks[reached] = 3, 1
    args = [rows_of(edges[:, 0], 80), edges[:, 1].astype(i4), front, i4(len(front)), distance]
    args += [np.zeros(80, np.uint8), np.zeros(1, i4), i4(3)]
    return Launch(args, {4: after, 5: marks, 6: np.array([len(reached)], i4)})


@kernel("searching", (1,), (64,))
def shortest_paths(device: Any) -> Launch:
    """By Dijkstra's algorithm; some vertices can't be reached."""
    edges = graph(50, 110)
    weights = rng().integers(1, 20, len(edges))
    triples = np.column_stack([edges, weights]).astype(i4)
    distance = np.full(50, 10**9, i4)
    queue = [(0, 0)]
    while queue:
        far, v = heapq.heappop(queue)
        if far < distance[v]:
            distance[v] = far
            for w, weight in zip(edges[edges[:, 0] == v, 1], weights[edges[:, 0] == v], strict=True):
                heapq.heappush(queue, (far + int(weight), int(w)))
    assert 25 < (distance < 10**9).sum() < 50
    return Launch([triples, np.zeros(50, i4), i4(50), i4(len(edges))], {1: distance})


@kernel("searching", (1,), (64,))
def connected_components(device: Any) -> Launch:
    """Each vertex gets the smallest number of its component."""
    edges = graph(100, 90)
    label = np.arange(100)
    for _ in range(100):
        for a, b in edges:
            label[a] = label[b] = min(label[a], label[b])
    assert 5 < len(set(label.tolist())) < 50
    return Launch([edges.astype(i4), np.zeros(100, i4), i4(100), i4(len(edges))], {1: label.astype(i4)})


@kernel("searching", (1,), (64,))
def count_triangles(device: Any) -> Launch:
    near = np.triu(rng().random((60, 60)) < 0.15, 1)
    near = near | near.T
    rows = [sum(1 << j for j in range(60) if near[i, j]) for i in range(60)]
    total = sum(bool(near[a, b] and near[b, c] and near[a, c]) for a, b, c in combinations(range(60), 3))
    return Launch([np.array(rows, u8), i4(60), np.zeros(1, i4)], {2: np.array([total], i4)})


@kernel("searching", (2,), (64,))
def page_rank_step(device: Any) -> Launch:
    """The same operations in the same order."""
    edges = graph(100, 400)[:, ::-1]
    edges = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
    degree = np.bincount(edges[:, 1], minlength=100).astype(i4)
    rank = rng().random(100)
    after = np.zeros(100)
    for target, source in edges:
        after[target] += rank[source] / degree[source]
    after = 0.25 / 100 + 0.75 * after
    args = [rows_of(edges[:, 0], 100), edges[:, 1].astype(i4), degree, rank, np.zeros(100), i4(100)]
    return Launch(args, {4: after})


@kernel("searching", (3,), (32,))
def edit_distance(device: Any) -> Launch:
    a, b = letters(b"abc", 2, 3, 28)
    b[2] = np.roll(a[2], 2)
    out = []
    for s, t in zip(a, b, strict=True):
        row = list(range(29))
        for i, x in enumerate(s, 1):
            last, row[0] = row[0], i
            for j, y in enumerate(t, 1):
                last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + int(x != y))
        out.append(row[28])
    assert out[2] <= 4 < out[0]
    return Launch([a, b, np.zeros(3, i4), i4(28)], {2: np.array(out, i4)})


@kernel("searching", (1,), (32,))
def local_alignment(device: Any) -> Launch:
    a, b = letters(b"acgt", 32, 25), letters(b"tgca", 32, 20)
    best = np.zeros(32, i4)
    for p in range(32):
        table = np.zeros((26, 21), int)
        for i in range(25):
            for j in range(20):
                match = table[i, j] + (3 if a[p, i] == b[p, j] else -2)
                table[i + 1, j + 1] = max(0, match, table[i, j + 1] - 2, table[i + 1, j] - 2)
        best[p] = table.max()
    return Launch([a, b, np.zeros(32, i4), i4(25), i4(20)], {2: best})


@kernel("searching", (1,), (64,))
def crc32_rows(device: Any) -> Launch:
    x = rng().integers(0, 256, (50, 37)).astype(np.uint8)
    table = np.arange(256, dtype=u4)
    for _ in range(8):
        table = np.where(table & u4(1), u4(0xEDB88320) ^ table >> u4(1), table >> u4(1))
    out = np.array([zlib.crc32(row.tobytes()) for row in x], u4)
    return Launch([x, i4(37), np.zeros(50, u4), i4(50)], {2: out}, variables={"crc_table": table})


def fraction_bits(root: int, number: int) -> int:
    """The first 32 bits of the fraction of a root of a number."""
    scaled = number << 32 * root
    low, high = 0, 1 << 48
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**root <= scaled else (low, middle)
    return low & 0xFFFFFFFF


@kernel("searching", (1,), (32,))
def sha256(device: Any) -> Launch:
    primes = [p for p in range(2, 312) if all(p % q for q in range(2, p))]
    messages = [bytes(rng().integers(0, 256, 3 * i + 1).astype(np.uint8)) for i in range(18)]
    blocks = b"".join(m + b"\x80" + bytes(55 - len(m)) + (8 * len(m)).to_bytes(8, "big") for m in messages)
    digests = b"".join(hashlib.sha256(m).digest() for m in messages)
    return Launch(
        [np.frombuffer(blocks, u4).reshape(18, 16).copy(), np.zeros((18, 8), u4), i4(18)],
        {1: np.frombuffer(digests, u4).reshape(18, 8)},
        variables={"sha_constants": np.array([fraction_bits(3, p) for p in primes], u4)},
    )


@kernel("searching", (2,), (64,))
def base64(device: Any) -> Launch:
    x = rng().integers(0, 256, 300).astype(np.uint8)
    y = np.frombuffer(encodings.b64encode(x.tobytes()), np.int8).reshape(100, 4)
    return Launch([x, np.zeros((100, 4), np.int8), i4(100)], {1: y})


@kernel("searching", (3,), (128,))
def word_count(device: Any) -> Launch:
    text = "".join(rng().choice(list("aé漢 \n 😀b"), 160))
    data = np.frombuffer(text.encode(), np.uint8).copy()
    assert 256 < len(data) < 384
    counts = np.array([len(text.split()), text.count("\n"), len(text)], i4)
    return Launch([data, i4(len(data)), np.zeros(3, i4)], {2: counts})


@kernel("searching", (1,), (64,))
def prime_sieve(device: Any) -> Launch:
    n = 1000
    composite = np.array([x > 1 and any(x % d == 0 for d in range(2, x)) for x in range(1024)])
    composite[n:] = False
    return Launch([np.zeros(32, u4), i4(n)], {0: np.packbits(composite, bitorder="little").view(u4)})


@kernel("searching", (1,), (32,))
def modular_powers(device: Any) -> Launch:
    base = rng().integers(0, 2**64, 30, u8)
    exponent = rng().integers(0, 2**64, 30, u8) >> rng().integers(0, 60, 30).astype(u8)
    exponent[:2] = 0, 1
    out = [pow(b, e, 2**61 - 1) for b, e in zip(base.tolist(), exponent.tolist(), strict=True)]
    return Launch([base, exponent, np.zeros(30, u8), i4(30)], {2: np.array(out, u8)})


def number(words: Any) -> int:
    return int.from_bytes(words.tobytes(), "little")


@kernel("searching", (1,), (64,))
def long_addition(device: Any) -> Launch:
    a, b = rng().integers(0, 2**32, (2, 60, 4), u8).astype(u4)
    b[:4] = ~a[:4]
    b[4] = ~a[4]
    b[4, 0] += u4(1)
    sums = b"".join((number(x) + number(y)).to_bytes(20, "little") for x, y in zip(a, b, strict=True))
    return Launch([a, b, np.zeros((60, 5), u4), i4(60)], {2: np.frombuffer(sums, u4).reshape(60, 5)})


@kernel("searching", (5,), (32,))
def long_product(device: Any) -> Launch:
    a, b = rng().integers(0, 2**32, (2, 5, 8), u8).astype(u4)
    a[0] = b[0] = 2**32 - 1
    products = b"".join((number(x) * number(y)).to_bytes(64, "little") for x, y in zip(a, b, strict=True))
    return Launch([a, b, np.zeros((5, 16), u4), i4(8)], {2: np.frombuffer(products, u4).reshape(5, 16)})


@kernel("searching", (1,), (256,))
def run_lengths(device: Any) -> Launch:
    x = np.sort(letters(b"abcdefgh", 250).reshape(10, 25), 1).reshape(-1)
    runs = [(value, len(list(run))) for value, run in groupby(x.tolist())]
    values, lengths = np.zeros(250, np.uint8), np.zeros(250, i4)
    values[: len(runs)], lengths[: len(runs)] = np.array(runs).T
    args = [x, i4(250), np.zeros(250, np.uint8), np.zeros(250, i4), np.zeros(1, i4)]
    return Launch(args, {2: values, 3: lengths, 4: np.array([len(runs)], i4)})
