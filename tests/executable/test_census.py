"""Instructions and bytes counted in PTX, and how many instructions the functions take."""

from __future__ import annotations

import pytest

import tilejit as tj
from tilejit.dtypes import DType
from tilejit.executable.census import census

KERNEL = """
.visible .entry k(
	.param .u64 k_param_0
)
{
	.reg .pred 	%p<2>;
$L__func_begin0:
	.loc	1 6 2
	ld.param.b64 	%rd1, [k_param_0];
	mov.u32 	%r1, %tid.x;
	@%p1 bra 	$L__BB0_2;
	ld.global.nc.v4.b32 	{%r2, %r3, %r4, %r5}, [%rd1];
	ld.relaxed.gpu.global.b64 	%rd2, [%rd1];
	ld.shared.b32 	%r6, [%r1];
	@!%p1 st.global.b16 	[%rd1], %rs1;
$L__BB0_2:
	ret;
}
"""


@tj.kernel(threads=32)
def copied(X: tj.Tensor, Y: tj.Tensor):
    i = tj.thread_id()
    Y[i] = X[i]


@tj.kernel(threads=32)
def exponential(X: tj.Tensor, Y: tj.Tensor):
    i = tj.thread_id()
    Y[i] = tj.exp(X[i])


@tj.kernel(threads=32)
def gelu(X: tj.Tensor, Y: tj.Tensor):
    i = tj.thread_id()
    Y[i] = tj.gelu(X[i])


def instructions(kernel, dtype: DType) -> int:
    """How many more than a copy takes."""
    array = tj.spec((32,), dtype)
    counts = [census(k.compile(array, array, target="sm_90a").ptx).instructions for k in (kernel, copied)]
    return counts[0] - counts[1]


def test_instructions_are_counted_and_labels_and_directives_are_not():
    counted = census(KERNEL)
    assert counted.instructions == 7
    assert counted.mnemonics["bra"] == counted.mnemonics["ld.shared.b32"] == 1
    assert "ret" not in counted.mnemonics and ".loc" not in counted.mnemonics


def test_bytes_of_global_memory_are_counted_whatever_qualifies_the_access():
    assert (census(KERNEL).loaded_bytes, census(KERNEL).stored_bytes) == (16 + 8, 2)


@pytest.mark.parametrize(
    ("kernel", "dtype", "most"),
    [
        (exponential, tj.float32, 13),
        # with the load and the store 35 are few enough for memory to be the limit
        (gelu, tj.float16, 28),
        (gelu, tj.bfloat16, 28),
    ],
    ids=str,
)
def test_a_function_takes_no_more_instructions_than_were_counted(kernel, dtype, most):
    assert 0 < instructions(kernel, dtype) <= most
