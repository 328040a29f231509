"""The shapes of `bench_kernels.py`, which needs torch and a GPU for all else."""

from tests.bench.bench_kernels import drawn, summary


def test_shapes_are_drawn_by_a_seed_within_their_limits() -> None:
    cases = list(drawn())
    assert len(set(cases)) == 40 and cases == list(drawn())
    assert all(n % 8 == 0 and 8 <= n <= 16384 for case in cases for n in case[:3])
    assert max(case.operations for case in cases) <= 1e12
    assert min(case.m for case in cases) < 64 and max(case.m for case in cases) > 4096


def test_a_summary_names_the_least_the_tenth_and_the_median() -> None:
    assert summary([1.0, 0.5, *[2.0] * 18]) == "least 0.500, a tenth below 2.000, median 2.000"
