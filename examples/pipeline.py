"""A ring: a producer fills stages of shared memory while consumers empty others.

Y = the running sum of X's rows, tile by tile, which one warpgroup loads and another adds up. A ring of STAGES has two
barriers for each stage: `full`, at which the producer arrives, and `empty`, at which the consumers do. Both sides count
steps from 0, without a reset; step i uses stage i % STAGES.

    producer    t = ring[i]    t.acquire(): wait until consumers are done with the stage's last use
                               write stage t.stage
                               tj.wg.commit(t): arrive at `full`
    consumer    t = ring[i]    t.wait(): wait until the stage is filled
                               read stage t.stage
                               tj.wg.release(t): arrive at `empty`

A warpgroup arrives once, by its leader, when all of its threads have completed the preceding code. So loading one tile
overlaps with adding another, which barriers of the whole CTA would prevent.

Two kernels show mistakes. `early` releases its stages before it has read them. On a GPU it gives the right result as
long as the consumer keeps up, but it may fail at any time. The simulator finds the race at once, and names the two
lines. `unreleased` omits a release, so that no thread can make progress. The simulator reports this deadlock: each
waiter, the phase and barrier that it waits for, and the number of missing arrivals.

Needs sm_90 or newer; on other machines it runs on the simulator: `python examples/pipeline.py`.
"""

import numpy as np

import tilejit as tj

STAGES, ROWS, COLUMNS = 3, 16, 128


@tj.kernel(threads=256)
def running_sum(X: tj.Tensor, Y: tj.Tensor) -> None:
    tiles = tj.alloc_shared((STAGES, ROWS, COLUMNS), tj.float32)
    ring = tj.alloc_ring(STAGES)
    steps = tj.cdiv(X.shape[0], ROWS)
    i = 0
    if tj.warpgroup_id() == 0:
        for k in range(steps):
            t = ring[i]
            t.acquire()
            tj.wg.copy(tiles[t.stage], X.tile((ROWS, COLUMNS), (k, 0)))
            tj.wg.commit(t)
            i += 1
    else:
        column = tj.thread_id() % COLUMNS
        total = 0.0
        for k in range(steps):
            t = ring[i]
            t.wait()
            for row in range(ROWS):
                total += tiles[t.stage, row, column]
                if k * ROWS + row < Y.shape[0]:
                    Y[k * ROWS + row, column] = total
            tj.wg.release(t)
            i += 1


@tj.kernel(threads=256)
def early(X: tj.Tensor, Y: tj.Tensor) -> None:
    """A copy that releases each stage before it has read it."""
    tiles = tj.alloc_shared((STAGES, ROWS, COLUMNS), tj.float32)
    ring = tj.alloc_ring(STAGES)
    i = 0
    if tj.warpgroup_id() == 0:
        for k in range(tj.cdiv(X.shape[0], ROWS)):
            t = ring[i]
            t.acquire()
            tj.wg.copy(tiles[t.stage], X.tile((ROWS, COLUMNS), (k, 0)))
            tj.wg.commit(t)
            i += 1
    else:
        for k in range(tj.cdiv(X.shape[0], ROWS)):
            t = ring[i]
            t.wait()
            tj.wg.release(t)
            tj.wg.copy(Y.tile((ROWS, COLUMNS), (k, 0)), tiles[t.stage])
            i += 1


@tj.kernel(threads=256)
def unreleased(X: tj.Tensor, Y: tj.Tensor) -> None:
    """A copy without `release`: the producer waits for a stage that is never released."""
    tiles = tj.alloc_shared((STAGES, ROWS, COLUMNS), tj.float32)
    ring = tj.alloc_ring(STAGES)
    i = 0
    if tj.warpgroup_id() == 0:
        for k in range(tj.cdiv(X.shape[0], ROWS)):
            t = ring[i]
            t.acquire()
            tj.wg.copy(tiles[t.stage], X.tile((ROWS, COLUMNS), (k, 0)))
            tj.wg.commit(t)
            i += 1
    else:
        for k in range(tj.cdiv(X.shape[0], ROWS)):
            t = ring[i]
            t.wait()
            tj.wg.copy(Y.tile((ROWS, COLUMNS), (k, 0)), tiles[t.stage])
            i += 1


def check(rows: int) -> None:
    x = np.random.default_rng(rows).integers(-4, 5, (rows, COLUMNS)).astype(np.float32)
    y = np.zeros_like(x)
    running_sum[1](x, y)
    np.testing.assert_array_equal(y, np.cumsum(x, axis=0))
    print(f"{rows} rows on {tj.device()}: right")


def reported(kernel: tj.Kernel) -> str:
    """The simulator's report on a kernel with a mistake."""
    x = np.zeros((12 * ROWS, COLUMNS), np.float32)
    try:
        tj.simulate(kernel, 1, x, np.zeros_like(x))
    except tj.SimulationError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError(f"{kernel} ran without an error")


def main() -> None:
    check(160)
    check(1)
    check(100)
    x = tj.spec((8192, COLUMNS), tj.float32)
    print(running_sum.explain(x, x))
    print(reported(early))
    print(reported(unreleased))


if __name__ == "__main__":
    main()
