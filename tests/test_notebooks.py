"""What IPython and Jupyter show: places in cells, tracebacks without our frames, values in a few words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import tilejit as tj

pytestmark = pytest.mark.integration

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


def test_a_variant_names_the_cell_that_made_it():
    made = "@tj.kernel(threads=32)\ndef one(A):\n    A[0] = 1\none[1](np.zeros(1))\n"
    assert " by Cell In[2]:4; ms: " in shown(IMPORTS, made, "print(one.signatures[0])")


def test_all_frames_are_shown_where_that_is_asked_for():
    text = shown(IMPORTS, UNKNOWN, full="1")
    assert "at Cell In[2]:3:12" in text and "errors.py" in text


def test_a_cell_that_defines_a_kernel_again_runs_the_new_one():
    first = "@tj.kernel(threads=1)\ndef k(A):\n    A[0] = 1\na = np.zeros(1)\nk[1](a)\nprint('gives', a[0])"
    text = shown(IMPORTS, first, first.replace("= 1\n", "= 2\n", 1))
    assert "gives 1.0" in text and "gives 2.0" in text


def test_a_cell_that_defines_a_helper_again_is_heard_by_kernels_of_other_cells():
    helper = "@tj.function\ndef value():\n    return 1"
    kernel = "@tj.kernel(threads=1)\ndef k(A):\n    A[0] = value()\na = np.zeros(1)"
    launch = "k[1](a)\nprint('gives', a[0])"
    text = shown(IMPORTS, helper, kernel, launch, helper.replace("1", "2"), launch)
    assert text.count("gives 1.0") == 1 and text.count("gives 2.0") == 1


#: in a kernel of Jupyter's: what is long shows a line, which is gone in the end; what is interrupted can be run again
CELLS = [
    """
    import _thread, threading
    import numpy as np
    import tilejit as tj
    from tilejit import progress
    progress._DELAY = 0.05

    @tj.kernel(threads=32)
    def counts(A, n: tj.int32):
        i = tj.int32(0)
        while i < n:
            A[tj.thread_id()] += 1
            i += 1

    A = np.zeros(32, np.float32)
    counts[1](A, 1)
    """,
    "counts[1](A, 2000)",
    """
    threading.Timer(0.3, _thread.interrupt_main).start()
    counts[1](A, 1_000_000_000)
    """,
    "A[:] = 0; counts[1](A, 3); print('usable', A[0])",
    "counts",
]


def test_in_a_notebook_the_line_is_gone_in_the_end_and_what_is_interrupted_can_go_on(tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for name, value in {"TILEJIT_DEVICE": "sim", "TILEJIT_CACHE": "0", "IPYTHONDIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell)) for cell in CELLS])
    client = nbclient.NotebookClient(notebook, timeout=60, allow_errors=True)
    lines = []
    hears = client.process_message

    def process_message(message, cell, number):
        if message["msg_type"] in ("display_data", "update_display_data"):
            lines.append((number, message["content"]["data"].get("text/plain", "")))
        return hears(message, cell, number)

    client.process_message = process_message
    client.execute()
    simulating = [text for number, text in lines if number == 1]
    assert any(text == "simulating counts, 0 s" for text in simulating) and simulating[-1] == "", lines
    (error,) = [o for cell in notebook.cells for o in cell.outputs if o.output_type == "error"]
    assert error.ename == "KeyboardInterrupt" and len(error.traceback) < 12, error.traceback
    assert notebook.cells[3].outputs[-1].text == "usable 3.0\n"
    assert "<b>counts</b>(A, n)" in notebook.cells[4].outputs[-1].data["text/html"]


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
    assert repr(ones[2]) == "<ones with grid (2, 1, 1), 32 threads>"
    assert repr(ones[lambda A: 1]) == "<ones with grid a function, 32 threads>"
    assert repr(ones[1].bind(np.zeros(64, np.float32))) == "<prepared launch: <ones with grid (1, 1, 1), 32 threads>>"
    assert repr(ones.signatures[-1]).startswith("<variant (") and "\n" not in repr(ones.signatures[-1])
    assert repr(compiled.explain()) == "<explanation of ones for sm_90a: 0 tile operations>"
    sides = (tj.operand(space, (32, 32), tj.float16) for space in ("shared", "global"))
    assert repr(tj.dispatch("copy", "warp", *sides, threads=32)) == "<verdict: warp.copy by gmem_smem>"


class Page(HTMLParser):
    """A part of a page: its texts, and the tags that are open."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def page(value):
    """What Jupyter shows of a value: a box that is no higher than a screen, and closes what it opens."""
    text = value._repr_html_()
    assert re.match("<(div|pre) style='max-height:32em;max-width:100%;overflow:auto'>", text), text
    shown = Page(text)
    assert not shown.open, text
    return shown.texts


@tj.kernel(threads=32)
def staged(A, B, N: tj.constexpr):
    tj.cta.store(B[0:N], tj.cta.load(A[0:N]))


def test_in_jupyter_they_are_small_tables(simulator):
    A = np.zeros(32, np.float32)
    compiled = ones.compile(A, target="sm_90a")
    assert {"ones", "registers", "milliseconds"} <= set(page(compiled)) and len(compiled._repr_html_()) < 2000
    assert "grid (1, 1, 1)" in "".join(page(tj.simulate(ones, 1, A, profile=True)))
    explained = page(staged.explain(A, A.copy(), N=32, target="sm_90a"))
    assert {"why not another", "cta.copy", "staged"} <= set(explained)


def test_in_jupyter_a_kernel_shows_what_it_was_compiled_for(simulator):
    @tj.kernel(threads=32, max_registers=64)
    def fresh(A):
        A[tj.thread_id()] = 1

    assert page(fresh) == ["fresh", "(A)", "threads", "32", "max_registers", "64", "not compiled yet"]
    for count in range(1, 12):
        fresh.compile(tj.spec(32, tj.float32), target="sm_90a", threads=32 * count)
    shown = page(fresh)
    assert any(text.startswith("A: float32[:1]") for text in shown) and "sm_90a" in shown
    # the newest eight
    assert "352" in shown and "96" not in shown


def test_in_jupyter_an_array_shows_its_ends(simulator):
    shown = page(tj.to_device(np.arange(10_000, dtype=np.float32).reshape(100, 100)))
    assert {"[100, 100]", "float32", "40,000"} <= set(shown)
    assert "0.000e+00" in shown[-1] and "9.999e+03" in shown[-1] and len(shown[-1]) < 1000
    large = tj.to_device(np.zeros(1 << 20))
    assert page(large)[-1] == "..."
    large.free()
    assert ", freed" in page(large)


def test_in_jupyter_a_layout_is_no_wider_than_a_screen():
    for layout in (tj.S[(1024, 1024) : (1024, 1)], tj.S[(4096,) : (1 @ tj.tx,)]):
        assert layout.draw().width < 1600 and layout.draw().height < 1200


def interrupted(monkeypatch, place, name):
    """The function raises KeyboardInterrupt, as where Ctrl-C is pressed while it runs."""

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, name, interrupt)


def test_an_interrupted_compilation_keeps_nothing(simulator, monkeypatch):
    from tilejit.frontend import kernel as reading

    @tj.kernel(threads=32)
    def twos(A):
        A[tj.thread_id()] = 2

    A = np.zeros(32, np.float32)
    with monkeypatch.context() as patched:
        interrupted(patched, reading, "with_fixed")
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

        # prints a traceback if the interrupt gets lost
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
        env={**os.environ, "PYTHONPATH": str(Path(tj.__file__).parents[1]), "TILEJIT_DEVICE": "sim"},
    )
    assert run.stdout == "interrupted 3.0\n", run.stderr
