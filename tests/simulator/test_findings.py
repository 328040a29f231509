"""Findings: records that launches raise, and that a simulation collects, grouped by both lines."""

import ast
from pathlib import Path

import numpy as np
import pytest

import tilejit as tj
import tilejit.simulator.machine
from tests.simulator.small_kernels import simulate
from tilejit.errors import DeadlockError, OutOfBoundsError, RaceError
from tilejit.simulator.decode.ptx import Source

THREAD = "mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0]; mad.wide.u32 %x2, %r1, 4, %x1;\n"


@tj.kernel(threads=64)
def two_races(X: tj.Tensor, Y: tj.Tensor):
    i = tj.thread_id()
    for k in range(3):
        X[0] = i + k
        Y[0] = i - k


def test_a_launch_raises_the_first_finding():
    with pytest.raises(RaceError, match="X"):
        tj.simulate(two_races, 1, np.zeros(4, "i4"), np.zeros(4, "i4"))


def test_a_collecting_simulation_goes_on_and_groups_by_both_lines():
    report = tj.simulate(two_races, 1, np.zeros(4, "i4"), np.zeros(4, "i4"), on_finding="collect")
    pairs = [(x.first.location.text, x.second.location.text) for x in report.findings]
    assert len(pairs) == len(set(pairs))
    assert any("X[0] = i + k" in a and "X[0] = i + k" in b for a, b in pairs)
    assert any("Y[0] = i - k" in a and "Y[0] = i - k" in b for a, b in pairs)
    first = report.findings[0]
    assert (first.rule, first.level) == ("race", "error")
    assert first.count >= 63 and len(first.threads) == 32
    assert "race in global memory" in first.message and first.message in str(report)


def test_the_right_kernel_gives_no_findings():
    @tj.kernel(threads=64)
    def right(X: tj.Tensor):
        X[tj.thread_id()] = tj.thread_id()

    assert tj.simulate(right, 1, np.zeros(64, "i4"), on_finding="collect").findings == ()


def test_a_failed_check_says_what_to_do():
    with pytest.raises(OutOfBoundsError, match="index 64 is outside dimension 0 of A") as e:
        tj.simulate(check_then_race, 1, np.zeros(64, "i4"), np.zeros(64, "i4"), 40)
    assert "test the index before it is used" in e.value.hint


@tj.kernel(threads=64)
def check_then_race(A: tj.Tensor, B: tj.Tensor, n):
    s = tj.alloc_shared((64,), tj.int32)
    i = tj.thread_id()
    s[i] = 0
    tj.cta_sync()
    s[i] = A[i + n]
    tj.cta_sync()
    s[i] = 1
    B[i] = s[(i + 1) % 16]


def test_what_threads_do_after_one_has_failed_a_check_is_found_too():
    report = tj.simulate(check_then_race, 1, np.zeros(64, "i4"), np.zeros(64, "i4"), 40, on_finding="collect")
    assert [x.rule for x in report.findings] == ["divergence", "race", "bounds"]
    divergence, race, bounds = report.findings
    assert "thread 24 (warp 0, lane 24) of CTA (0, 0, 0) has exited without reaching it" in divergence.message
    assert "B[i] = s[(i + 1) % 16]" in race.first.location.text
    assert bounds.threads == (24,) and "index 64 is outside dimension 0 of A" in bounds.message


WRONG = {
    "a store": ("st.global.u32 [%x2+{}], 7;", "bounds", 400, [1, 2, 3, 4]),
    "a load": ("ld.global.u32 %r2, [%x2+{}]; st.global.u32 [%x2], %r2;", "bounds", 400, [0, 0, 0, 0]),
    "an update": ("atom.global.add.u32 %r2, [%x2+{}], 1; st.global.u32 [%x2], %r2;", "bounds", 400, [0, 0, 0, 0]),
    "a reduction": ("red.global.add.u32 [%x2+{}], 1;", "bounds", 400, [1, 2, 3, 4]),
    "a misaligned store": ("st.global.u32 [%x2+{}], 7;", "alignment", 2, [1, 2, 3, 4]),
    "a misaligned load": ("ld.global.u32 %r2, [%x2+{}]; st.global.u32 [%x2], %r2;", "alignment", 2, [0, 0, 0, 0]),
    "a copy": (
        "cp.async.ca.shared.global [tile], [%x2+{}], 4; cp.async.wait_all; ld.shared.u32 %r2, [tile];"
        "st.global.u32 [%x2], %r2;", "bounds", 400, [0, 0, 0, 0],
    ),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_access_is_left_out_and_the_collecting_simulation_goes_on(how):
    access, rule, offset, result = WRONG[how]
    body = THREAD + f""".loc 1 31 5
    {access.format(offset)}
    st.global.u32 [%x2+16], 5; ret;"""
    out = np.array([1, 2, 3, 4, 0, 0, 0, 0], "u4")
    tile = ".shared .align 4 .b8 tile[4];"
    report = simulate(body, out, block=4, grid=1, registers=tile, on_finding="collect")
    found = [x for x in report.findings if x.rule == rule]
    assert len(found) == 1 and found[0].count == 4 and found[0].threads == (0, 1, 2, 3)
    assert (found[0].first.location.line, found[0].first.location.column) == (31, 5)
    assert found[0].first.text and found[0].second is None
    np.testing.assert_array_equal(out, [*result, 5, 5, 5, 5])


def test_only_the_threads_whose_address_is_wrong_are_left_out():
    out = np.zeros(4, "u4")
    report = simulate(THREAD + "st.global.u32 [%x2+8], 7; ret;", out, block=4, on_finding="collect")
    assert [(x.rule, x.threads) for x in report.findings] == [("bounds", (2, 3))]
    np.testing.assert_array_equal(out, [0, 0, 7, 7])
    with pytest.raises(OutOfBoundsError) as e:
        simulate(THREAD + "st.global.u32 [%x2+8], 7; ret;", out, block=4)
    assert e.value.threads == (2, 3) and len(e.value.instructions) == 1


ENDS = {
    "divergence": ".loc 1 31 5\nbar.warp.sync 1; ret;",
    "deadlock": ".loc 1 31 5\nS: ld.volatile.global.u32 %r2, [%x1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra S; ret;",
    "failure": ".loc 1 31 5\ntrap;",
}


@pytest.mark.parametrize("rule", ENDS)
def test_an_error_that_ends_the_launch_is_the_last_finding_and_has_its_place(rule):
    body = THREAD + "st.global.u32 [%x1+4], %r1;\n" + ENDS[rule]
    report = simulate(body, np.zeros(4, "u4"), block=4, on_finding="collect")
    assert [x.rule for x in report.findings] == ["race", rule]
    last = report.findings[-1]
    assert (last.first.location.line, last.first.location.column) == (31, 5)
    assert last.threads and set(last.threads) <= {0, 1, 2, 3}


def test_every_error_of_the_machine_names_its_instruction():
    places = []
    for path in sorted(Path(tilejit.simulator.machine.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                name = ast.unparse(node.exc.func)
                if name.endswith("Error") and name not in ("AssertionError", "LaunchError"):
                    named = {k.arg for k in node.exc.keywords}
                    # **parties(…) has no name
                    if not named & {"instructions", None}:
                        places.append((path.name, node.lineno))
    # printf's reader of memory doesn't know the call; the machine adds it
    assert [name for name, _ in places] == ["printf.py"]


def test_a_failed_assertion_is_a_finding_with_its_line_and_its_thread():
    @tj.kernel(threads=32)
    def fails(X: tj.Tensor):
        assert tj.thread_id() + 32 * tj.cta_id() < 35, "too many"
        X[tj.thread_id(), tj.cta_id()] = 1

    report = tj.simulate(fails, 2, np.zeros((32, 2), "i4"), on_finding="collect")
    assert [x.rule for x in report.findings] == ["failure"] and "too many" in report.findings[0].message
    assert 'assert tj.thread_id() + 32 * tj.cta_id() < 35, "too many"' in report.findings[0].first.location.text
    assert report.findings[0].threads == (35,)


@pytest.mark.parametrize("seed", range(4))
def test_results_dont_depend_on_the_schedule(seed):
    body = THREAD + """
    st.shared.u32 [tile], 0; bar.sync 0; red.shared.add.u32 [tile], %r1; bar.sync 0;
    ld.shared.u32 %r2, [tile]; st.global.u32 [%x2], %r2; ret;
    """
    out = np.zeros(128, "u4")
    simulate(body, out, block=128, registers=".shared .align 4 .b8 tile[4];", schedule=seed)
    assert (out == sum(range(128))).all()


def test_schedules_are_different_orders():
    body = THREAD + "atom.global.add.u32 %r2, [%x1+512], 1; st.global.u32 [%x2], %r2; ret;"
    orders = set()
    for seed in range(4):
        out = np.zeros(129, "u4")
        simulate(body, out, block=128, schedule=seed)
        assert sorted(out[:128]) == list(range(128))
        orders.add(tuple(out))
    assert len(orders) > 1


def test_a_deadlock_is_the_end_of_a_collecting_simulation():
    spin = "S: ld.volatile.global.u32 %r2, [%x1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra S; ret;"
    report = simulate(THREAD + spin, np.zeros(4, "u4"), on_finding="collect")
    assert [x.rule for x in report.findings] == ["deadlock"]
    with pytest.raises(DeadlockError):
        simulate(THREAD + spin, np.zeros(4, "u4"))


@tj.kernel(threads=32)
def load_in_store(X: tj.Tensor, Y: tj.Tensor):
    tj.cta.store(Y.tile(32, 0), tj.cta.load(X.tile(32, 0)))


@tj.kernel(threads=32)
def store_in_branch(X: tj.Tensor, Y: tj.Tensor):
    if X[tj.thread_id()] == 0: Y[tj.thread_id()] = 1  # noqa: E701


@pytest.mark.parametrize(("kernel", "marked"), [
    (load_in_store, "tj.cta.store(Y.tile(32, 0), tj.cta.load(X.tile(32, 0)))"),
    (store_in_branch, "Y[tj.thread_id()]"),
])
def test_the_caret_marks_the_first_party_where_both_are_on_one_line(kernel, marked):
    numbers = np.zeros(33, "i4")
    with pytest.raises(RaceError, match="writes") as e:
        tj.simulate(kernel, 1, numbers[:-1], numbers[1:])
    assert e.value.span.marked.startswith(marked), str(e.value)


def test_a_finding_about_a_large_instruction_fits_a_screen():
    registers = ", ".join(f"%q{i}" for i in range(500))
    body = (
        f"{THREAD} ld.global.b32 %r2, [%x1]; st.global.b32 [%x1], %r1;"
        f" {{ .reg .b32 {registers}; {' '.join(f'mov.u32 %q{i}, {i};' for i in range(500))} }}\nret;"
    )
    with pytest.raises(RaceError) as e:
        simulate(body.replace("\n", " "), np.zeros(32, "u4"))
    assert "ld.param.u64" in str(e.value) and "ret;" in str(e.value)
    assert len(str(e.value)) < 1500


def test_a_message_shows_the_ends_of_a_long_list_of_registers():
    registers = ", ".join(f"%r{i}" for i in range(128))
    source = Source(f"\nfoo.mma {{{registers}}}, %x1, {{%r1, %r2}};")
    assert source.shown(2) == "foo.mma {%r0, ..., %r127}, %x1, {%r1, %r2};"
    assert source.line_text(2).count("%r") == 130
