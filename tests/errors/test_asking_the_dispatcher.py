"""`tj.operand` and `tj.dispatch` with operands that mean nothing, or that no variant accepts."""

from __future__ import annotations

import pytest

import tilejit as tj
from tilejit import S
from tilejit.isa.row import ANOTHER_TARGET

F32 = tj.float32
SHARED = tj.operand("shared", (32, 8), F32)
SEVEN = tj.operand("shared", (32, 7), F32)
GLOBAL = tj.operand("global", (32, 8), F32)


def ask(*operands, name="copy", scope="warp", threads=32, target="sm_90a", **options):
    return tj.dispatch(name, scope, *operands, threads=threads, target=target, **options)


REFUSED = [
    (lambda: tj.operand("texture", (3,), F32), tj.KernelTypeError, "no memory space 'texture'", "shared"),
    (lambda: tj.operand("shared", (3,), float), tj.KernelTypeError, "<class 'float'> is not an element", "tj.float32"),
    (lambda: tj.operand("shared", (3, 0), F32), tj.KernelTypeError, "must be positive; got (3, 0)", "at least 1"),
    (lambda: tj.operand("shared", (3,), F32, 8), tj.KernelTypeError, "8 is not a layout", "S["),
    (lambda: tj.operand("shared", (32, 8), F32, S[(8, 8)]), tj.LayoutError, "shape (32, 8) has 256", "size"),
    (lambda: tj.operand("shared", (8, 8), F32, region=((0, 8),)), tj.KernelTypeError, "1 dimension ", "extent)"),
    (
        lambda: tj.operand("shared", (8, 8), F32, region=((4, 8), (0, 8))),
        tj.KernelTypeError, "[4 : 4 + 8] is out of bounds for dimension 0 of the shared buffer, whose extent is 8",
        "global tensors",
    ),
    (lambda: tj.operand("shared", (8, 8), F32, strides="runtime"), tj.KernelTypeError, "only global", "layout="),
    (lambda: ask(SHARED, GLOBAL, name="teleport"), tj.DispatchError, "no tile operation 'teleport'", "copy"),
    (lambda: ask(SHARED, GLOBAL, scope="block"), tj.DispatchError, "no scope 'block'", "cta"),
    (lambda: ask(SHARED), tj.DispatchError, "copy takes 2 to 4 operands; got 1", "the destination first"),
    (lambda: ask(SHARED, "A"), tj.KernelTypeError, "'A' is not an operand", "tj.operand"),
    (lambda: ask(SHARED, GLOBAL, variant="tma"), tj.DispatchError, "copy has no variant 'tma'", "gmem_smem"),
    (lambda: ask(SHARED, GLOBAL, target="sm_1"), tj.DeviceError, "unknown target 'sm_1'", "sm_90a"),
]


@pytest.mark.parametrize(("call", "kind", "words", "hint"), REFUSED, ids=[case[2] for case in REFUSED])
def test_a_question_that_means_nothing_says_why(call, kind, words, hint):
    with pytest.raises(tj.TilejitError) as caught:
        call()
    assert type(caught.value) is kind
    assert words in caught.value.message and hint in caught.value.hint


DECLINED = [
    (lambda: ask(SHARED, tj.operand("global", (32, 4), F32)), "gmem_smem", "needs equal shapes; got (32, 8) and"),
    (lambda: ask(SHARED, tj.operand("global", (32, 8), tj.float16)), "gmem_smem", "got float32 and float16"),
    (lambda: ask(SHARED, GLOBAL, threads=16), "gmem_smem", "a warp has 32 threads; the CTA has 16"),
    (lambda: ask(SHARED, GLOBAL, variant="reg"), "reg", "moves local <-> shared or global; got global -> shared"),
    (
        lambda: ask(SEVEN, tj.operand("global", (32, 8), F32, region=((0, 32), (0, 7))), require_bits=128),
        "gmem_smem", "require_bits=128",
    ),
]


@pytest.mark.parametrize(("call", "variant", "words"), DECLINED, ids=[case[2] for case in DECLINED])
def test_what_no_variant_accepts_is_refused_with_every_reason(call, variant, words):
    with pytest.raises(tj.DispatchError) as caught:
        call()
    assert any(words in reason for reason in caught.value.declines[variant])
    assert all(reasons for reasons in caught.value.declines.values())
    assert f"{variant}: " in caught.value.message


def test_another_target_helps_where_no_variant_says_what_helps_on_this_one():
    rows = tj.operand("local", (128, 8), F32, S[(128, 8) : (1 @ tj.tid_in_wg, 1)])
    with pytest.raises(tj.DispatchError) as caught:
        ask(rows, tj.operand("tmem", (128, 8), F32), name="copy_async", scope="warpgroup", threads=128)
    assert caught.value.hint == ANOTHER_TARGET
    with pytest.raises(tj.DispatchError) as caught:
        ask(SHARED, GLOBAL, name="copy_async", target="sm_75")
    assert any("tma.load needs sm_90" in reason for reason in caught.value.declines["tma_load"])
    assert 'target="sm_80"' in caught.value.hint
