"""`tj.set_registers`: the threads that may call it, and their counts."""

from __future__ import annotations

import pytest

import tilejit as tj
from tests.support.programs import array, source_of, statements, tile_ir
from tilejit.dtypes import float32, int32
from tilejit.errors import DispatchError, KernelTypeError, ResourceError
from tilejit.ir import nodes as ir


def kernel(*lines: str, threads: int = 384, on: str = "sm_90a") -> ir.Kernel:
    text = "def k(A, n):\n" + "".join(f"    {line}\n" for line in lines)
    return tile_ir(text, array(float32), int32, threads=threads, on=on)


def roles(*counts: int) -> tuple[str, ...]:
    lines: list[str] = []
    for group, count in enumerate(counts):
        lines += [f"if tj.warpgroup_id() == {group}:", f"    tj.set_registers({count})", f"    A[{group}] = 1.0"]
    return tuple(lines)


def test_the_instruction_is_that_of_the_count_at_entry() -> None:
    def names(*counts: int, threads: int = 384) -> list[str]:
        return [s.name for s in statements(kernel(*roles(*counts), threads=threads).body, ir.Instruction)]

    assert names(24, 240, 240) == ["setmaxnreg.dec", "setmaxnreg.inc", "setmaxnreg.inc"]
    assert names(168, 160) == ["setmaxnreg.dec", "setmaxnreg.dec"]
    # a thread has 255 at most, of which whole steps of 8 count
    assert names(248, 240, threads=256) == ["setmaxnreg.dec", "setmaxnreg.dec"]


@pytest.mark.parametrize("counts", [(24, 240, 240), (40, 232, 232), (24,), (88, 248), (24, 24, 256)])
def test_a_pool_that_has_enough(counts: tuple[int, ...]) -> None:
    kernel(*roles(*counts))


@pytest.mark.parametrize(
    ("counts", "threads", "sums"),
    [
        ((32, 240, 240), 384, ("32 + 240 + 240 = 512", "3 × 168 = 504")),
        ((168, 176), 384, ("168 + 176 + 168 = 512", "3 × 168 = 504")),
        ((24, 240), 512, ("24 + 240 + 128 + 128 = 520", "4 × 128 = 512")),
    ],
)
def test_a_pool_that_is_too_small_is_refused(counts: tuple[int, ...], threads: int, sums: tuple[str, str]) -> None:
    with pytest.raises(ResourceError) as error:
        kernel(*roles(*counts), threads=threads)
    needed, there = sums
    sentence = f"warpgroups need {needed} registers per thread; a CTA of {threads} threads starts with {there}"
    assert error.value.message == sentence
    assert error.value.span is not None and "set_registers" in error.value.span.text


ABSENT = (
    "648 registers per thread if the branch of warpgroup 0 isn't taken; "
    "a CTA of 384 threads starts with 3 × 168 = 504"
)


@pytest.mark.parametrize(
    ("lines", "refusal"),
    [
        # all of them or none: there are enough either way
        (("if n > 0:", *(f"    {line}" for line in roles(24, 240, 240))), None),
        (("if n > 0:", "    return", *roles(24, 240, 240)), None),
        (("if n > 0:", *(f"    {line}" for line in roles(24, 240))), None),
        # what one gives back others count on; two branches may be taken apart
        (
            ("if tj.warpgroup_id() == 0:", "    if n > 0:", "        tj.set_registers(24)", "else:",
             "    tj.set_registers(240)"),
            ABSENT,
        ),
        (
            ("if tj.warpgroup_id() == 0:", "    if n > 0:", "        tj.set_registers(24)", "    else:",
             "        A[0] = 1.0", "else:", "    if n > 1:", "        tj.set_registers(240)"),
            ABSENT,
        ),
        (
            ("if tj.warpgroup_id() == 0:", "    if n > 0:", "        tj.set_registers(24)", "elif n > 0:",
             "    A[0] = 1.0", "else:", "    tj.set_registers(240)"),
            ABSENT,
        ),
        # the same condition may have another value there: of a variable, of memory
        (
            ("i = n", "if n > 7:", "    i = 0", "if tj.warpgroup_id() == 0:", "    if i > 0:",
             "        tj.set_registers(24)", "if n > 3:", "    i = 5", "if tj.warpgroup_id() > 0:", "    if i > 0:",
             "        tj.set_registers(240)"),
            ABSENT,
        ),
        (
            ("if tj.warpgroup_id() == 0:", "    if A[0] > 0:", "        tj.set_registers(24)", "elif A[0] > 0:",
             "    tj.set_registers(240)"),
            ABSENT,
        ),
        # all have ended before what the others count on, or haven't
        (
            ("if tj.warpgroup_id() == 0:", "    if n > 5:", "        tj.set_registers(24)", "if n == 6:", "    return",
             "if tj.warpgroup_id() > 0:", "    tj.set_registers(240)"),
            ABSENT,
        ),
        (
            ("if tj.warpgroup_id() > 0:", "    tj.set_registers(240)", "if n == 6:", "    return",
             "if tj.warpgroup_id() == 0:", "    tj.set_registers(24)"),
            ABSENT,
        ),
        # all that follow it come together
        (
            ("if n == 6:", "    return", "if tj.warpgroup_id() > 0:", "    tj.set_registers(240)",
             "if tj.warpgroup_id() == 0:", "    tj.set_registers(24)"),
            None,
        ),
        # what never changes is the same for both
        (
            ("if tj.warpgroup_id() == 0:", "    if n > 0:", "        tj.set_registers(24)", "    else:",
             "        A[0] = 1.0", "else:", "    if n > 0:", "        tj.set_registers(240)"),
            None,
        ),
        # where others count on what one gives back, it has
        (
            ("if n > 0:", "    if tj.warpgroup_id() == 0:", "        tj.set_registers(24)", "    elif n > 4:",
             "        tj.set_registers(240)"),
            None,
        ),
        # an exited warp keeps the registers that it started with, and relies on nothing
        (
            ("if tj.warpgroup_id() == 2:", "    return", "if n > 0:", "    if tj.warpgroup_id() == 0:",
             "        tj.set_registers(88)", "    else:", "        tj.set_registers(248)"),
            None,
        ),
        # of two branches one runs: what each asks for isn't added up
        (
            ("if tj.warpgroup_id() == 0:", "    if n > 0:", "        tj.set_registers(24)", "    else:",
             "        tj.set_registers(40)", "elif n > 0:", "    tj.set_registers(240)", "else:",
             "    tj.set_registers(232)"),
            None,
        ),
        (
            ("if tj.warpgroup_id() == 0:", "    if A[0] > 0:", "        tj.set_registers(24)", "    elif n > 3:",
             "        tj.set_registers(32)", "    else:", "        tj.set_registers(40)", "else:",
             "    tj.set_registers(232)"),
            None,
        ),
        # a request for more that depends on run time is accepted
        (
            ("if tj.warpgroup_id() == 0:", "    tj.set_registers(24)", "else:", "    if n > 0:",
             "        tj.set_registers(240)"),
            None,
        ),
    ],
)
def test_what_run_time_decides_counts_as_it_takes_the_most(lines: tuple[str, ...], refusal: str | None) -> None:
    if refusal is None:
        kernel(*lines)
        return
    with pytest.raises(ResourceError) as error:
        kernel(*lines)
    assert error.value.message.endswith(refusal)
    assert error.value.hint is not None and "in a branch on tj.warpgroup_id() alone" in error.value.hint


def test_of_two_branches_the_one_that_asks_for_more_counts() -> None:
    lines = (
        "if tj.warpgroup_id() == 0:", "    if n > 0:", "        tj.set_registers(24)", "    else:",
        "        tj.set_registers(40)", "else:", "    tj.set_registers(240)",
    )
    with pytest.raises(ResourceError, match="40 \\+ 240 \\+ 240 = 520 registers per thread; a CTA of 384 threads"):
        kernel(*lines)
    many = [
        line for k in range(20)
        for line in (f"    {'el' * (k > 0)}if n == {k}:", f"        tj.set_registers({24 + k % 3 * 8})")
    ]
    last = ("    else:", "        tj.set_registers(24)")
    kernel("if tj.warpgroup_id() == 0:", *many, *last, "else:", "    tj.set_registers(232)")


def test_warps_that_may_have_exited_set_no_registers() -> None:
    """A warpgroup that returned has given nothing back."""
    ended = ("if tj.warpgroup_id() == 0:", "    if n > 0:", "        return")
    with pytest.raises(KernelTypeError, match="known only at run time"):
        kernel(*ended, *roles(24, 240, 240))
    another = ("if tj.warpgroup_id() == 2:", "    return")
    with pytest.raises(KernelTypeError, match="known only at run time"):
        kernel(*another, *ended, *roles(24, 240))
    some_turn = ("for i in range(n):", "    if tj.warpgroup_id() == 0:", "        return")
    for before in ((), another):
        with pytest.raises(KernelTypeError, match="known only at run time"):
            kernel(*before, *some_turn, *roles(24, 240))
    kernel("if tj.warpgroup_id() == 2:", "    return", *roles(88, 248))


def test_a_limit_of_the_kernels_makes_the_pool_smaller() -> None:
    text = "\n".join(["def k(A):", *(f"    {line}" for line in roles(24, 240, 240)), ""])
    spec = tj.spec(8, float32)
    tj.kernel(threads=384)(source_of(text)).compile(spec, target="sm_90a")
    with pytest.raises(ResourceError, match="starts with 3 × 160 = 480"):
        tj.kernel(threads=384, max_registers=160)(source_of(text)).compile(spec, target="sm_90a")


REFUSED = [
    (("tj.set_registers(«n»)",), "the number of registers must be known"),
    (("tj.set_registers(«28»)",), "a thread can't have 28 registers, only 24 to 256 in steps of 8"),
    (("tj.set_registers(«16»)",), "16 registers"),
    (("if tj.warpgroup_id() == 0:", "    A[0] = 1.0", "    «tj.set_registers(24)»"), "must be the first statement"),
    (("for i in range(n):", "    «tj.set_registers(24)»"), "outside loops"),
    (
        ("w = tj.warpgroup_id()", "if w < 2:", "    tj.set_registers(24)", "if w > 0:", "    tj.set_registers(32)"),
        "warpgroup 1 may set its registers twice",
    ),
    (("if tj.uniform(A[tj.warpgroup_id()] > 0, tj.warpgroup):", "    «tj.set_registers(24)»"), "only at run time"),
]


@pytest.mark.parametrize(("lines", "reason"), REFUSED)
def test_what_is_refused(lines: tuple[str, ...], reason: str) -> None:
    with pytest.raises(KernelTypeError, match=reason):
        kernel(*(line.replace("«", "").replace("»", "") for line in lines))


def test_whole_warpgroups_set_them() -> None:
    with pytest.raises(DispatchError, match="set_registers.*needs all threads of its warpgroup"):
        kernel("if tj.warp_id() == 0:", "    tj.set_registers(24)")
    with pytest.raises(DispatchError, match="whole warpgroups of 128 threads"):
        kernel("tj.set_registers(24)", threads=160)


def test_older_targets_have_no_pool() -> None:
    with pytest.raises(DispatchError, match="needs sm_90a"):
        kernel("tj.set_registers(24)", on="sm_90")
    with pytest.raises(DispatchError, match="needs sm_90a"):
        kernel("tj.set_registers(24)", on="sm_89")


def test_ptx_says_that_one_cta_has_all_registers() -> None:
    text = "\n".join(["def k(A):", *(f"    {line}" for line in roles(24, 240, 240)), ""])
    made = tj.kernel(threads=384)(source_of(text)).compile(tj.spec(8, float32), target="sm_90a")
    assert ".minnctapersm 1" in made.ptx and "setmaxnreg.dec.sync.aligned.u32 24;" in made.ptx
    assert made.executable.entry_registers == 168


def test_tiles_may_take_what_a_warpgroup_has_set() -> None:
    def source(head: str) -> str:
        return "\n".join([
            "def k(A, B):",
            "    w = tj.warpgroup_id()",
            "    if w == 2:",
            *(["        tj.set_registers(24)"] if head else []),
            "        B[0, 0, 0] = 0.0",
            "    else:",
            *([head] if head else []),
            "        x = tj.wg.load(A[w, 0:64, 0:440])",
            "        tj.wg.store(B[w, 0:64, 0:440], x / tj.sum(x))",
            "",
        ])

    spec = tj.spec((2, 64, 440), float32)
    whole = tj.kernel(threads=384)(source_of(source("")))
    with pytest.raises(ResourceError, match="the limit is 168: 384 threads share 65,536"):
        whole.compile(spec, spec, target="sm_90a")
    tj.kernel(threads=384)(source_of(source("        tj.set_registers(240)"))).compile(spec, spec, target="sm_90a")
