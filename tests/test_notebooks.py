"""What IPython and Jupyter show: places in cells, tracebacks without our frames, values in a few words."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tilejit as tj

SESSION = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="NoColor")
for cell in {cells!r}:
    shell.run_cell(cell, store_history=True)
"""

IMPORTS = "import numpy as np\nimport tilejit as tj"
OUTSIDE = """\
@tj.kernel(threads=32)
def outside(A):
    A[tj.thread_id() * 2] = 1
outside[1](np.zeros(32, np.float32))
"""
UNKNOWN = """\
@tj.kernel(threads=32)
def unknown(A):
    A[0] = tj.program_id(0)
unknown[1](np.zeros(32, np.float32))
"""


def shown(*cells: str, full: str = "0") -> str:
    """What a session prints that runs the cells."""
    pytest.importorskip("IPython")
    environment = {"TILEJIT_DEVICE": "sim", "TILEJIT_FULL_TRACEBACK": full}
    run = subprocess.run(
        [sys.executable, "-c", SESSION.format(cells=cells)], capture_output=True, text=True, check=True,
        env={**os.environ, **environment},
    )
    return run.stdout


def test_an_error_in_a_cell_names_the_cell_and_hides_our_frames():
    text = shown(IMPORTS, UNKNOWN, OUTSIDE)
    assert "KernelTypeError: tilejit has no program_id\n  at Cell In[2]:3:12\n" in text
    assert "  at Cell In[3]:3:5\n    A[tj.thread_id() * 2] = 1\n    ^^^" in text
    assert "----> 4 unknown[1](np.zeros(32, np.float32))" in text
    assert "ipython-input" not in text and "tilejit/errors.py" not in text and "hidden" not in text


def test_all_frames_are_shown_where_that_is_asked_for():
    text = shown(IMPORTS, UNKNOWN, full="1")
    assert "at Cell In[2]:3:12" in text and "errors.py" in text


def test_a_cell_that_defines_a_kernel_again_runs_the_new_one():
    first = "@tj.kernel(threads=1)\ndef k(A):\n    A[0] = 1\na = np.zeros(1)\nk[1](a)\nprint('gives', a[0])"
    text = shown(IMPORTS, first, first.replace("= 1\n", "= 2\n", 1))
    assert "gives 1.0" in text and "gives 2.0" in text


@pytest.fixture
def simulator(monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")


@tj.kernel(threads=32)
def ones(A):
    A[tj.thread_id()] = 1


def test_what_a_cell_ends_with_is_shown_in_a_line(simulator):
    A = np.zeros(32, np.float32)
    compiled = ones.compile(A, target="sm_90a")
    report = tj.simulate(ones, 1, A)
    assert repr(compiled) == "<compiled ones for sm_90a, 32 threads>"
    assert repr(report).startswith("<report of ones: grid (1, 1, 1), ") and repr(report).endswith("0 findings>")
    assert repr(tj.to_device(np.zeros((1000, 1000)))) == "DeviceArray([1000, 1000], float64, 'sim')"
    assert repr(ones) == "<kernel ones(A)>"


def test_in_jupyter_compiled_kernels_and_reports_are_small_tables(simulator):
    A = np.zeros(32, np.float32)
    table = ones.compile(A, target="sm_90a")._repr_html_()
    assert "<b>ones</b> for sm_90a" in table and "registers</th>" in table and len(table) < 2000
    shown_report = tj.simulate(ones, 1, A)._repr_html_()
    assert "max-height" in shown_report and "grid (1, 1, 1)" in shown_report


def interrupted(monkeypatch, place, name):
    """The function raises KeyboardInterrupt, as where Ctrl-C is pressed while it runs."""

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, name, interrupt)


def test_an_interrupted_compilation_leaves_nothing_behind(simulator, monkeypatch):
    from tilejit.frontend import kernel as reading

    @tj.kernel(threads=32)
    def twos(A):
        A[tj.thread_id()] = 2

    A = np.zeros(32, np.float32)
    with monkeypatch.context() as patched:
        interrupted(patched, reading, "coalesced")
        with pytest.raises(KeyboardInterrupt) as caught:
            twos[1](A)
    assert {entry.path.name for entry in caught.traceback} == {"test_notebooks.py", "errors.py"}
    assert twos.signatures == ()
    twos[1](A)
    assert (A == 2).all()


def test_an_interrupted_simulation_leaves_the_kernel_usable(tmp_path):
    program = textwrap.dedent("""
        import _thread, faulthandler, threading
        import numpy as np
        import tilejit as tj

        # says where it stands, if the interrupt gets lost
        faulthandler.dump_traceback_later(45, exit=True)

        @tj.kernel(threads=32)
        def counts(A, n: tj.int32):
            i = tj.int32(0)
            while i < n:
                A[tj.thread_id()] += 1
                i += 1

        A = np.zeros(32, np.float32)
        counts[1](A, 1)
        threading.Timer(0.5, _thread.interrupt_main).start()
        try:
            counts[1](A, 1_000_000_000)
        except KeyboardInterrupt:
            A[:] = 0
            counts[1](A, 3)
            print("interrupted", A[0])
    """)
    file = tmp_path / "interrupted.py"
    file.write_text(program)
    run = subprocess.run(
        [sys.executable, file], capture_output=True, text=True, timeout=60,
        env={**os.environ, "TILEJIT_DEVICE": "sim"},
    )
    assert run.stdout == "interrupted 3.0\n", run.stderr
