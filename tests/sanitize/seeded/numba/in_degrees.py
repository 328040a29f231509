"""Count the edges that enter each node of a graph."""

import numpy as np
from numba import cuda


@cuda.jit
def count_edges(targets, degrees):
    for edge in range(cuda.grid(1), targets.size, cuda.gridsize(1)):
        cuda.atomic.add(degrees, targets[edge], 1)


def in_degrees(targets, nodes):
    degrees = cuda.to_device(np.zeros(nodes, np.int32))
    count_edges[4, 128](cuda.to_device(targets), degrees)
    return degrees.copy_to_host()


def main():
    nodes = 50
    targets = np.random.default_rng(0).integers(0, nodes, 2000).astype(np.int32)
    np.testing.assert_array_equal(in_degrees(targets, nodes), np.bincount(targets, minlength=nodes))


if __name__ == "__main__":
    main()
