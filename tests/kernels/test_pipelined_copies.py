"""A pipeline as a matrix product has it: cp.async to swizzled stages, ldmatrix, stmatrix, and out."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tilejit.dtypes import DTYPES
from tilejit.layout import TileLayout
from tilejit.runtime.device import Device
from tilejit.testing import check

#: 64x64 in the fragments of a product: four warps, each 16 rows
OWNERS = TileLayout.from_iters(
    [(4, 1, "wid_in_wg"), (2, 2, "m"), (8, 4, "laneid"), (8, 4, "m"), (4, 1, "laneid"), (2, 1, "m")]
)


@tj.kernel(threads=128)
def streamed(A: tj.Tensor, B: tj.Tensor, STAGES: tj.constexpr, OWNERS: tj.constexpr):
    staged = tj.alloc_shared((STAGES, 64, 64), A.dtype, swizzle="128B")
    back = tj.alloc_shared((64, 64), A.dtype, swizzle="128B")
    row = tj.cta_id() * 64
    for s in tj.static_range(STAGES - 1):
        tj.cta.copy_async(staged[s, :, :], A[row : row + 64, s * 64 : s * 64 + 64])
        tj.cp_async.commit()
    for k in range((A.shape[1] + 63) // 64):
        tj.cp_async.wait(STAGES - 2)
        tj.cta_sync()
        ahead = k + STAGES - 1
        tj.cta.copy_async(staged[ahead % STAGES, :, :], A[row : row + 64, ahead * 64 : ahead * 64 + 64])
        tj.cp_async.commit()
        tile = tj.warpgroup.load(staged[k % STAGES, :, :], layout=OWNERS)
        tj.warpgroup.store(back, tile)
        tj.cta_sync()
        tj.cta.copy(B[row : row + 64, k * 64 : k * 64 + 64], back)


@pytest.fixture
def device_name(device: Device) -> str:
    if device.number >= 0 and device.target.number < 90:
        pytest.skip("the device has no stmatrix")
    return "cuda" if device.number >= 0 else "sim"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (128, 256), (65, 72), (63, 200), (1, 8), (100, 33), (64, 130)])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_matrix_passes_through_a_pipeline(
    device_name: str, dtype: str, rows: int, columns: int, stages: int
) -> None:
    # rows start at multiples of 16 bytes, wherever they end
    pitch = -(-columns // 8) * 8
    values = np.arange(rows * pitch).reshape(rows, pitch) % 251
    a = values.astype(DTYPES[dtype].numpy)[:, :columns]
    b = np.zeros((rows, pitch), a.dtype)[:, :columns]
    check(streamed, -(-rows // 64), a, b, expected={"B": a}, device=device_name, STAGES=stages, OWNERS=OWNERS)


def test_its_copies_take_the_instructions_made_for_them() -> None:
    matrix = tj.spec((1024, 1024), tj.float16)
    made = streamed.compile(matrix, matrix, STAGES=3, OWNERS=OWNERS, target="sm_90a")
    variants = [v.variant for v in made.verdicts]
    assert variants == ["ldgsts", "ldgsts", "ldgsts", "ldstmatrix", "ldstmatrix", "gmem_smem"]
    assert "cp.async.wait_group 1;" in made.ptx and "cp.async.cg.shared.global" in made.ptx
    assert made.ptx.count("ldmatrix.sync.aligned.m8n8.x4.shared.b16") == 4
    assert made.ptx.count("stmatrix.sync.aligned.m8n8.x4.shared.b16") == 4


def test_swizzled_stages_have_no_bank_conflicts() -> None:
    a = np.arange(128 * 192).reshape(128, 192).astype(np.float16)
    matrix = tj.spec(a.shape, tj.float16)
    lines = {v.span.line for v in streamed.compile(matrix, matrix, STAGES=3, OWNERS=OWNERS).verdicts if v.span}
    report = tj.simulate(streamed, 2, a, np.zeros_like(a), STAGES=3, OWNERS=OWNERS, profile=True)
    traffic = [report.line(n) for n in sorted(lines)]
    assert sum(t.traffic.wavefronts > 0 for t in traffic) == len(lines) == 5
    assert [t.bank_conflicts for t in traffic] == [0] * 5
