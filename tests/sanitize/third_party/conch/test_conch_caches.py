"""Attention over paged caches, and copies of cache blocks, of conch-triton-kernels."""

import os

import pytest
import torch
from conch.ops.attention.paged_attention import paged_attention
from conch.ops.attention.varlen_attention import varlen_attention
from conch.ops.vllm.copy_blocks import copy_blocks
from conch.ops.vllm.reshape_and_cache import reshape_and_cache

DEVICE = os.environ.get("DEVICE", "cuda")
# tensor cores round float32 factors to TF32, which has 11 bits of mantissa like float16: an error of 2**-10 for each
# factor of a product when they cut; scores and products are computed so, and running sums are kept in float16
TENSOR_CORES = 2.0**-8


def rows(*shape, dtype=torch.float32):
    """Return normally distributed numbers, the same on each device."""
    return torch.randn(shape).to(DEVICE, dtype)


def pages(lengths, block, count):
    """Return a table of cache blocks in random order, as many as the longest of `lengths` needs in each row."""
    width = -(-max(lengths) // block)
    return torch.randperm(count)[: len(lengths) * width].view(len(lengths), width).to(DEVICE, torch.int32)


def gather(cache, table, length):
    """Return the first `length` entries of one sequence in float64."""
    return cache.double()[table.long()].flatten(0, 1)[:length]


def attention(query, key, value, softcap=0.0, causal=False):
    """Compute attention of heads of `query` over those of `key` and `value`, of which each serves a group."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", query.double(), key) / query.shape[-1] ** 0.5
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if causal:
        past = torch.ones(scores.shape[1:], device=query.device).tril().bool()
        scores = scores.masked_fill(~past, float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), value)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "dim", "softcap", "dtype"),
    [(4, 2, 32, 0.0, torch.float16), (3, 1, 24, 0.0, torch.float32), (2, 2, 16, 5.0, torch.float16)],
)
def test_paged_attention(near, heads, kv_heads, dim, softcap, dtype):
    torch.manual_seed(141)
    lengths, block = [37, 5], 16
    keys, values = rows(8, block, kv_heads, dim, dtype=dtype), rows(8, block, kv_heads, dim, dtype=dtype)
    table = pages(lengths, block, 8)
    query = rows(2, heads, dim, dtype=dtype)
    output = paged_attention(query, keys, values, table, torch.tensor(lengths, device=DEVICE, dtype=torch.int32),
                             softcap=softcap)
    for n, length in enumerate(lengths):
        key, value = gather(keys, table[n], length), gather(values, table[n], length)
        near(output[n : n + 1], attention(query[n : n + 1], key, value, softcap), TENSOR_CORES)


def test_paged_attention_in_splits(near):
    torch.manual_seed(142)
    lengths, block = [200, 129], 32
    keys, values = rows(14, block, 1, 16, dtype=torch.float16), rows(14, block, 1, 16, dtype=torch.float16)
    table = pages(lengths, block, 14)
    query = rows(2, 2, 16, dtype=torch.float16)
    output = paged_attention(query, keys, values, table, torch.tensor(lengths, device=DEVICE, dtype=torch.int32))
    for n, length in enumerate(lengths):
        key, value = gather(keys, table[n], length), gather(values, table[n], length)
        near(output[n : n + 1], attention(query[n : n + 1], key, value), TENSOR_CORES)


@pytest.mark.parametrize(("causal", "dim", "dtype"), [(True, 32, torch.float16), (False, 24, torch.float32)])
def test_varlen_attention(near, causal, dim, dtype):
    torch.manual_seed(143)
    # the second sequence decodes one token, the others are prompts
    query_lengths, lengths, block = [20, 1, 33], [20, 27, 33], 16
    keys, values = rows(12, block, 2, dim, dtype=dtype), rows(12, block, 2, dim, dtype=dtype)
    table = pages(lengths, block, 12)
    starts = [0, 20, 21, 54]
    query = rows(54, 4, dim, dtype=dtype)
    output = varlen_attention(
        query,
        keys,
        values,
        torch.tensor(starts, device=DEVICE, dtype=torch.int32),
        max(query_lengths),
        torch.tensor(lengths, device=DEVICE, dtype=torch.int32),
        max(lengths),
        table,
        causal=causal,
    )
    for n, length in enumerate(lengths):
        part = slice(starts[n], starts[n + 1])
        key, value = gather(keys, table[n], length), gather(values, table[n], length)
        expected = attention(query[part], key, value, causal=causal and query_lengths[n] > 1)
        near(output[part], expected, TENSOR_CORES)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_copy_blocks(dtype):
    torch.manual_seed(144)
    keys, values = ([rows(6, 8 * 2 * 10, dtype=dtype) for _ in range(2)] for _ in range(2))
    mapping = torch.tensor([[0, 3], [5, 1], [0, 4]], device=DEVICE)
    expected = [cache.clone() for cache in keys + values]
    for cache in expected:
        for source, target in mapping.tolist():
            cache[target] = cache[source]
    copy_blocks(keys, values, mapping)
    for cache, correct in zip(keys + values, expected, strict=True):
        assert torch.equal(cache, correct)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_reshape_and_cache(dtype):
    torch.manual_seed(145)
    key, value = rows(5, 2, 24, dtype=dtype), rows(5, 2, 24, dtype=dtype)
    keys, values = rows(3, 4, 2, 24, dtype=dtype), rows(3, 4, 2, 24, dtype=dtype)
    # a negative slot belongs to a token that only pads
    slots = [7, 0, -1, 11, 5]
    expected_keys, expected_values = keys.clone(), values.clone()
    for token, slot in enumerate(slots):
        if slot >= 0:
            expected_keys[slot // 4, slot % 4] = key[token]
            expected_values[slot // 4, slot % 4] = value[token]
    reshape_and_cache(key, value, keys, values, torch.tensor(slots, device=DEVICE), strict=True)
    assert torch.equal(keys, expected_keys)
    assert torch.equal(values, expected_values)
