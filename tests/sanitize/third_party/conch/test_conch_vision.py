"""Pooling, suppression and voxels of conch-triton-kernels against loops in plain torch."""

import os

import pytest
import torch
from conch.ops.vision.bev_pool import bev_pool, bev_pool_backward
from conch.ops.vision.nms import nms
from conch.ops.vision.voxelization import VoxelizationParameter, generate_voxels

DEVICE = os.environ.get("DEVICE", "cuda")
# float32 has 24 bits of mantissa; a handful of elements are summed
FLOAT32 = 2.0**-22


@pytest.fixture
def intervals():
    """Return cells of points that are sorted by cell, and where each cell's points start and how many there are."""
    torch.manual_seed(161)
    cells = torch.tensor([[0, 2, 1, 0], [3, 1, 0, 0], [1, 1, 1, 1], [2, 0, 0, 1], [3, 2, 1, 1]])
    lengths = torch.tensor([4, 1, 6, 2, 3])
    starts = lengths.cumsum(0) - lengths
    geometry = cells.repeat_interleave(lengths, 0).to(DEVICE, torch.int32)
    return geometry, starts.to(DEVICE, torch.int32), lengths.to(DEVICE, torch.int32)


@pytest.mark.parametrize("channels", [16, 21])
def test_bev_pool(near, intervals, channels):
    geometry, starts, lengths = intervals
    features = torch.randn(16, channels).to(DEVICE)
    output = bev_pool(features, geometry, starts, lengths, 2, 2, 4, 3)
    expected = torch.zeros(2, 2, 4, 3, channels, dtype=torch.float64, device=DEVICE)
    x, y, z, batch = geometry.long().unbind(1)
    expected.index_put_((batch, z, x, y), features.double(), accumulate=True)
    near(output, expected, FLOAT32)


def test_bev_pool_backward(intervals):
    geometry, starts, lengths = intervals
    gradient = torch.randn(2, 2, 4, 3, 19).to(DEVICE)
    x, y, z, batch = geometry.long().unbind(1)
    assert torch.equal(bev_pool_backward(gradient, geometry, starts, lengths), gradient[batch, z, x, y])


def overlap(first, second):
    """Return the quotient of the areas of the intersection and of the union of two boxes."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    common = max(width, 0) * max(height, 0)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (first, second))
    return common / (areas - common)


def test_nms():
    torch.manual_seed(162)
    corners = torch.rand(16, 2) * 20
    boxes = torch.cat([corners, corners + 5 + torch.rand(16, 2) * 10], -1)
    scores = torch.rand(16)
    kept = []
    for n in scores.argsort(descending=True).tolist():
        if all(overlap(boxes[n].tolist(), boxes[k].tolist()) <= 0.3 for k in kept):
            kept.append(n)
    # the seed gives boxes of both kinds
    assert 1 < len(kept) < 16
    assert nms(boxes.to(DEVICE), scores.to(DEVICE), 0.3).tolist() == kept


def test_generate_voxels():
    torch.manual_seed(163)
    limit = 4
    parameters = VoxelizationParameter((0.0, -2.0, 1.0), (8.0, 4.0, 3.0), (2.0, 1.5, 1.0), limit)
    assert parameters.grid_dim == (4, 4, 2)
    # points lie well inside of their voxels; some voxels are outside of the grid, some get more points than the limit
    cells = torch.randint(-1, 5, (90, 3))
    cells[:7] = torch.tensor([1, 2, 0])
    inside = cells + 0.1 + 0.8 * torch.rand(90, 3)
    points = torch.cat([inside * torch.tensor([2.0, 1.5, 1.0]) + torch.tensor([0.0, -2.0, 1.0]), torch.rand(90, 1)], -1)
    members = {}
    for cell, point in zip(cells.tolist(), points.tolist(), strict=True):
        if all(0 <= n < size for n, size in zip(cell, (4, 4, 2), strict=True)):
            members.setdefault(tuple(cell), []).append(tuple(point))
    count, features, indices, sizes = generate_voxels(points.to(DEVICE), parameters)
    count = count.item()
    found = [tuple(index) for index in indices[:count, :3].tolist()]
    assert sorted(found) == sorted(members)
    for n, cell in enumerate(found):
        size = min(limit, len(members[cell]))
        assert sizes[n].item() == size
        chosen = [tuple(point) for point in features[n].tolist()]
        # the order of a voxel's points, and those of too many that are kept, are free
        assert len(set(chosen[:size])) == size
        assert set(chosen[:size]) <= set(members[cell])
        assert chosen[size:] == [(0.0, 0.0, 0.0, 0.0)] * (limit - size)
