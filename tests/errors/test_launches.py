"""Launches that are refused: the class, the words, what to do, and that no argument has changed."""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import pytest

import tilejit as tj
from tests.support.marked import HEADER, Marked, execute, kernel_text, points_at
from tilejit.errors import GridWarning

LAUNCH, RESOURCE, DEVICE = tj.LaunchError, tj.ResourceError, tj.DeviceError


@pytest.fixture(autouse=True)
def simulator(monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")


@tj.kernel(threads=32)
def add(A: tj.Tensor, B: tj.Tensor, n=0):
    i = tj.cta_id(0) * 32 + tj.thread_id()
    if i < A.shape[0]:
        B[i] = A[i] + n


@tj.kernel(threads=32)
def pinned(A: tj.Tensor = tj.spec((4, 8), tj.float32)):  # noqa: B008
    A[tj.thread_id() // 8, tj.thread_id() % 8] = 1


@tj.kernel(threads=32)
def typed(A: tj.Tensor, n: tj.int8, x: tj.float32, u: tj.uint16, K: tj.constexpr = 1):
    A[0] = x + n + u + K


@tj.kernel(threads=32)
def big(A: tj.Tensor):
    small = tj.alloc_shared((16,), tj.float32)
    large = tj.alloc_shared((64, 1024), tj.float32)
    large[0, 0] = A[0]
    small[0] = A[0]
    A[0] = large[0, 0] + small[0]


class CudaArray:
    """What CuPy's arrays look like."""

    __cuda_array_interface__ = {"shape": (64,), "typestr": "<f4", "data": (0x7F0000000000, False), "version": 3}

    def method(self, A):
        A[0] = 1


class BrokenArray:
    """An object whose interface is not what it should be, or can't be asked for."""

    def __init__(self, without=None, **changes):
        whole = {**CudaArray.__cuda_array_interface__, **changes}
        self.entries = {name: entry for name, entry in whole.items() if name != without}

    @property
    def __cuda_array_interface__(self):
        if "fails" in self.entries:
            raise KeyError("fails")
        return self.entries.get("whole", self.entries)


class TorchDevice:
    """The device of a tensor on a GPU."""

    type, index = "cuda", 0

    def __str__(self):
        return "cuda:0"


class TorchTensor:
    """What a tensor on a GPU looks like."""

    device, dtype, shape = TorchDevice(), "torch.float32", (64,)

    def data_ptr(self):
        return 0x7F0000000000

    def stride(self):
        return (1,)


class ClosedStream:
    """What a closed stream of cuda.core looks like."""

    is_closed = True
    __cuda_stream__ = 0, 7


class TorchStream:
    """What a stream of PyTorch looks like."""

    cuda_stream = 7


A = np.arange(64, dtype=np.float32)
B = np.zeros(64, np.float32)
READ_ONLY = B.view()
READ_ONLY.flags.writeable = False


def freed():
    array = tj.to_device(A)
    array.free()
    add[1](array, B)


def on(device):
    with tj.use_device(device):
        add[1](A, B)


# the launch, its error's class, what the message says, what the help says
ARGUMENTS = [
    (lambda: add(A, B), LAUNCH, "add is a kernel and needs a grid", "write add[grid](...)"),
    (lambda: add[1](A), LAUNCH, "add is missing B", "pass every parameter that has no default"),
    (lambda: add[1](), LAUNCH, "add is missing A, B", "pass every parameter that has no default"),
    (lambda: add[1](A, B, 1, 2), LAUNCH, "add takes 3 arguments; got 4 by position", "A, B, n"),
    (lambda: add[1](A, B, m=1), LAUNCH, "add has no parameter 'm'", "its parameters: A, B, n"),
    (lambda: add[1](A, B, A=A), LAUNCH, "add got 'A' twice", "by position or by keyword"),
    (lambda: add[1]([1, 2], B), LAUNCH, "A: list is not an array", "a NumPy array"),
    (lambda: add[1](A, "text"), LAUNCH, "B: str is not an array", "a NumPy array"),
    (lambda: add[1](A, None), LAUNCH, "B: None is not an array", "`tj.Tensor | None`"),
    (lambda: add[1](3, B), LAUNCH, "A is an array parameter; got int 3", "A: tj.int32"),
    (lambda: add[1](A, B.astype(object)), LAUNCH, "B: an array of dtype object", "float32"),
    (lambda: add[1](A.astype(complex), B), LAUNCH, "A: an array of dtype complex128", "float32"),
    (lambda: add[1](A.astype(">f4"), B), LAUNCH, "A: an array of dtype >f4 can't be passed: its byte order "
     "is not native", "a.astype(np.float32)"),
    (lambda: add[1](np.zeros(3, [("x", "f4")]), B), LAUNCH, "A: an array of dtype", "float32"),
    (lambda: add[1](A, B, "x"), LAUNCH, "n can't be a str", "`n: tj.constexpr`"),
    (lambda: add[1](A, B, 1j), LAUNCH, "n can't be a complex", "`n: tj.constexpr`"),
    (lambda: add[1](A, B, 2**70), LAUNCH, "n is int64, which holds -9223372036854775808 to", "no integer type"),
    (lambda: add[1](A, B, [1, 2]), LAUNCH, "n can't be a list", "pass np.array(...), or a tuple"),
    (lambda: add[1](A, B, {"a": 1}), LAUNCH, "n can't be a dict", "pass its values"),
    (lambda: add[1](A, READ_ONLY), LAUNCH, "B is a read-only array, but the kernel writes it", "a writable array"),
    (lambda: add[1](CudaArray(), B), LAUNCH, "cuda:0, and the simulator can't read", "copy it to host memory"),
    (lambda: add[1](TorchTensor(), B), LAUNCH, "cuda:0, and the simulator can't read", "copy it to host memory"),
    (lambda: tj.to_device(A).copy_from(A[:9]), LAUNCH, "float32[9] doesn't fit into DeviceArray([64]", "reshape it"),
    (freed, LAUNCH, "DeviceArray([64], float32, 'sim') was freed", "tj.to_device or tj.empty"),
    (lambda: typed[1](B, 200, 1.0, 1), LAUNCH, "n is int8, which holds -128 to 127; got 200", "wider type"),
    (lambda: typed[1](B, 1.5, 1.0, 1), LAUNCH, "n is int8; got float 1.5", "pass ints"),
    (lambda: typed[1](B, 1, "x", 1), LAUNCH, "x is float32; got str 'x'", "pass floats"),
    (lambda: typed[1](B, 1, 1.0, -1), LAUNCH, "u is uint16, which holds 0 to 65535; got -1", "signed type"),
    (lambda: typed[1](B, 1, 1.0, 1, [1]), LAUNCH, "K is a constexpr; a list can't be one", "dicts of these"),
    (lambda: add[1].bind(A), LAUNCH, "add is missing B", "pass every parameter that has no default"),
    (lambda: add[1](np.zeros(17, np.uint8)[1:].view(np.float32), B), LAUNCH, "the address of A", "copy"),
    (lambda: add[1].bind(A, B, 1)(A), LAUNCH, "add takes 3 arguments that aren't constexprs; got 1", "pass all"),
    (lambda: add[1].bind(A, B, 1)(A, "x", 1), LAUNCH, "B: str is not an array", "a NumPy array"),
]

PINNED = [
    (lambda: pinned[1](np.zeros((4, 8))), "A is pinned to float32; got float64"),
    (lambda: pinned[1](np.zeros((8, 4), np.float32)), "A is pinned to shape (4, 8); got (8, 4)"),
    (lambda: pinned[1](np.zeros((4, 8, 1), np.float32)), "A is pinned to shape (4, 8); got (4, 8, 1)"),
    (lambda: pinned[1](np.zeros(32, np.float32)), "A is pinned to shape (4, 8); got (32,)"),
    (lambda: pinned[1](np.zeros((8, 4), np.float32).T), "row-major strides (8, 1) (elements); got (1, 4)"),
    (lambda: pinned[1](np.zeros((4, 16), np.float32)[:, ::2]), "row-major strides (8, 1) (elements); got (16, 2)"),
]
ARGUMENTS += [(launch, LAUNCH, words, "pass a matching array") for launch, words in PINNED]

GRIDS = [
    (lambda: add[1, 128, 1, 0](A, B), LAUNCH, "(1, 128, 1, 0) is not a grid", "k[(4,), 128, stream]"),
    (lambda: add[(1,), (128,)](A, B), LAUNCH, "(128,) is not a number of threads", "write 128"),
    (lambda: add[1](A, B, num_warps=4), LAUNCH, "add has no parameter 'num_warps'", "pass threads= to @tj.kernel or"),
    (lambda: add[-1](A, B), LAUNCH, "grid (-1,) has -1 CTAs along axis 0", "0 to launch nothing"),
    (lambda: add[0, -1](A, B), LAUNCH, "grid (0, -1) has -1 CTAs along axis 1", "0 to launch nothing"),
    (lambda: add[lambda A: -1](A, B), LAUNCH, "grid (-1,) has -1 CTAs along axis 0", "0 to launch nothing"),
    (lambda: add[0](A), LAUNCH, "add is missing B", "pass every parameter"),
    (lambda: add[0](A, "text"), LAUNCH, "B: str is not an array", "pass a NumPy array"),
    (lambda: add[0](A, READ_ONLY), LAUNCH, "B is a read-only array, but the kernel writes it", "pass a copy"),
    (lambda: add[0].bind(A, READ_ONLY)(), LAUNCH, "B is a read-only array, but the kernel writes it", "pass a copy"),
    (lambda: tj.simulate(add, 0, A, READ_ONLY), LAUNCH, "B is a read-only array", "pass a copy"),
    (lambda: add[(0,), 32, "fast"](A, B), LAUNCH, "str is not a stream", "__cuda_stream__ or .cuda_stream"),
    (lambda: add[False](A, B), LAUNCH, "False is not a grid", "an int, a tuple of one to three ints"),
    (lambda: add[np.bool_(False)](A, B), LAUNCH, "np.False_ is not a grid", "an int, a tuple of one to three ints"),
    (lambda: add[0.0](A, B), LAUNCH, "0.0 is not a grid", "an int, a tuple of one to three ints"),
    (lambda: add[1.5](A, B), LAUNCH, "1.5 is not a grid", "an int, a tuple of one to three ints"),
    (lambda: add["x"](A, B), LAUNCH, "'x' is not a grid", "an int, a tuple of one to three ints"),
    (lambda: add[None](A, B), LAUNCH, "None is not a grid", "an int, a tuple of one to three ints"),
    (lambda: add[()](A, B), LAUNCH, "() is not a grid", "an int, a tuple of one to three ints"),
    (lambda: add[(1, 2, 3, 4)](A, B), LAUNCH, "(1, 2, 3, 4) is not a grid", "an int, a tuple of one to three ints"),
    (lambda: add[lambda m: "x"](A, B), LAUNCH, "'x' is not a grid", "a function that returns one"),
    (lambda: add[2**31](A, B), LAUNCH, "2147483648 CTAs along axis 0; at most 2147483647 fit", "each CTA more work"),
    (lambda: add[1, 65536](A, B), LAUNCH, "65536 CTAs along axis 1; at most 65535 fit", "axis 0"),
    (lambda: add[(1,), 0](A, B), LAUNCH, "0 is not a number of threads", "from 1 to 1024"),
    (lambda: add[(1,), "x"](A, B), LAUNCH, "'x' is not a number of threads", "from 1 to 1024"),
    (lambda: add[(1,), 2000](A, B), RESOURCE, "a CTA of 2000 threads exceeds the limit of 1024", "more CTAs"),
    (lambda: add[(1,), 32, None, 3](A, B), LAUNCH, "takes a grid, threads and a stream; got 4 values", "k[grid]"),
    (lambda: tj.simulate(add, -1, A, B), LAUNCH, "grid (-1,) has -1 CTAs along axis 0", "0 to launch nothing"),
    (lambda: add[(1,), 32, "fast"](A, B), LAUNCH, "str is not a stream", "__cuda_stream__ or .cuda_stream"),
    (lambda: add[(1,), 32, True](A, B), LAUNCH, "bool is not a stream", "an int handle"),
    (lambda: add[(1,), 32, ClosedStream()](A, B), LAUNCH, "the stream was closed", "create another one"),
    (lambda: add[(1,), 32, "fast"].bind(A, B)(), LAUNCH, "str is not a stream", "a cuda.core stream"),
]

DEVICES = [
    (lambda: on("abacus"), "unknown device 'abacus'", "sim:sm_100a"),
    (lambda: on(3), "unknown device 3", "sim:sm_100a"),
    (lambda: on("cuda:x"), "unknown device 'cuda:x'", "cuda:1"),
    (lambda: on("cuda:99"), "no device cuda:99", ""),
    (lambda: on("sim:sm_1"), "unknown target 'sm_1'", "sm_90a"),
    (lambda: add.compile(A, B, 1, target="sm_999"), "unknown target 'sm_999'", "sm_90a"),
    (lambda: add.compile(A, B, 1, target=90), "unknown target 90", "sm_90a"),
    (lambda: tj.kernel(target="gfx90a"), "unknown target 'gfx90a'", "sm_90a"),
    (lambda: tj.simulate(add, 1, A, B, target="sm_2"), "unknown target 'sm_2'", "sm_90a"),
    (lambda: tj.empty(3, tj.float32, "abacus"), "unknown device 'abacus'", "sim:sm_100a"),
]

OPTIONS = [
    (lambda: tj.kernel(threads=0), LAUNCH, "0 is not a number of threads", "from 1 to 1024"),
    (lambda: tj.kernel(threads=2.5), LAUNCH, "2.5 is not a number of threads", "from 1 to 1024"),
    (lambda: tj.kernel(threads=1025), RESOURCE, "a CTA of 1025 threads exceeds the limit of 1024", "more CTAs"),
    (lambda: tj.kernel(max_registers=0), RESOURCE, "max_registers=0 is not between 1 and 255", "leave it out"),
    (lambda: tj.kernel(max_registers=300), RESOURCE, "max_registers=300 is not between 1 and 255", "leave it out"),
    (lambda: tj.kernel(cluster=(1, 2, 3, 4)), LAUNCH, "(1, 2, 3, 4) is not a cluster", "one to three positive"),
    (lambda: tj.kernel(cluster=2.5), LAUNCH, "2.5 is not a cluster", "one to three positive"),
    (lambda: tj.kernel(cluster=np.array([2, 1])), LAUNCH, "ndarray of shape (2,) and int64 is not a cluster", "one to"),
    (lambda: tj.kernel(32), tj.KernelSyntaxError, "@tj.kernel(32): 32 is not a Python function", "(threads=32)"),
    (lambda: tj.kernel(True), tj.KernelSyntaxError, "True is not a Python function", "above a def"),
    (lambda: tj.kernel("x"), tj.KernelSyntaxError, "'x' is not a Python function", "above a def"),
    (lambda: tj.kernel(add), tj.KernelSyntaxError, "add is already a kernel", "one @tj.kernel"),
    (lambda: tj.kernel(threads=32)(add), tj.KernelSyntaxError, "add is already a kernel", "one @tj.kernel"),
    (lambda: tj.kernel(CudaArray().method), tj.KernelSyntaxError, "CudaArray.method is a method", "outside the class"),
    (lambda: tj.kernel(CudaArray.method), tj.KernelSyntaxError, "method is a method: a kernel has no self", "outside"),
    (lambda: tj.kernel(staticmethod(add)), tj.KernelSyntaxError, "is a staticmethod", "below @staticmethod"),
    (lambda: tj.kernel(lambda A: None), tj.KernelSyntaxError, "a kernel or tj.function can't be a lambda", "def"),
    (lambda: tj.empty((3,), complex), LAUNCH, "is not an element type", "float32"),
    (lambda: tj.empty((-3,), tj.float32), LAUNCH, "an array can't have shape (-3,)", "an integer >= 0 or a tuple"),
    (lambda: tj.empty("x", tj.float32), LAUNCH, "an array can't have shape 'x'", "an integer >= 0 or a tuple"),
    (lambda: tj.to_device(["a"]), LAUNCH, "dtype('<U1') is not an element type", "float32"),
    (lambda: tj.spec(None, tj.float32), tj.KernelTypeError, "None is not a shape", "a tuple of integers"),
    (lambda: tj.spec((3,), "float33"), tj.KernelTypeError, "'float33' is not an element type", "tj.float32"),
    (lambda: tj.spec((-1,), tj.float32), tj.KernelTypeError, "non-negative integers; got (-1,)", "change the shape"),
    (lambda: tj.spec((3, 4), tj.float32, (1,)), tj.KernelTypeError, "1 stride (1,) can't describe shape", "one stride"),
    (lambda: tj.spec(3, tj.float32, 1), tj.KernelTypeError, "strides=1 is not valid", "a tuple of integers"),
    (lambda: tj.spec(3, tj.float32, ("a",)), tj.KernelTypeError, "strides must be integers; got ('a',)", "elements"),
    (lambda: tj.TileLayout(3), tj.LayoutError, "3 is not a layout", "S[extents : strides]"),
]
#: what is broken in an array's interface, what the message says of it, what the help says
INTERFACES = [
    (BrokenArray(without="data"), "is broken: data is missing", "the address"),
    (BrokenArray(data=7), "is broken: data is 7", "the address"),
    (BrokenArray(data=("x", False)), "is broken: data is ('x', False)", "the address"),
    (BrokenArray(without="shape"), "is broken: shape is missing", "integers"),
    (BrokenArray(shape=64), "is broken: shape is 64", "integers"),
    (BrokenArray(shape=(-1,)), "is broken: shape is (-1,)", "integers"),
    (BrokenArray(data=(-4, False)), "is broken: data is (-4, False)", "from 0 to 2**64 - 1"),
    (BrokenArray(data=(2**64, False)), "is broken: data is (18446744073709551616, False)", "from 0 to 2**64 - 1"),
    (BrokenArray(strides=(4, 4)), "is broken: strides is (4, 4)", "one integer per dimension"),
    (BrokenArray(without="typestr"), "is broken: typestr is missing", "'<f4'"),
    (BrokenArray(typestr="what"), "is broken: typestr is 'what'", "'<f4'"),
    (BrokenArray(typestr=4), "is broken: typestr is 4", "'<f4'"),
    (BrokenArray(whole=3), "is 3", "data, shape and typestr"),
    (BrokenArray(fails=True), "can't be read: KeyError: 'fails'", "address, shape and type"),
]
ARGUMENTS += [
    (lambda array=array: add[1](array, B), LAUNCH, f"A: __cuda_array_interface__ of a BrokenArray {words}", help)
    for array, words, help in INTERFACES
]
CASES = [*ARGUMENTS, *GRIDS, *((call, DEVICE, words, help) for call, words, help in DEVICES), *OPTIONS]


@pytest.mark.parametrize(("call", "kind", "words", "help"), CASES, ids=[f"{c[2]}-{n}" for n, c in enumerate(CASES)])
def test_a_refused_call_says_why_and_leaves_arrays_alone(call, kind, words, help):
    before = A.tobytes(), B.tobytes()
    with pytest.raises(tj.TilejitError) as caught:
        call()
    assert type(caught.value) is kind, caught.value
    assert words in caught.value.message
    assert help in (caught.value.hint or "")
    assert (A.tobytes(), B.tobytes()) == before


@pytest.mark.parametrize("stream", [None, 0, 7, TorchStream()])
def test_the_simulator_takes_any_stream_that_is_one(stream):
    b = np.zeros(64, np.float32)
    add[(2,), 32, stream](A, b, 1)
    assert (b == A + 1).all()


def test_shared_memory_beyond_the_target_is_refused_at_the_launch():
    a = A.copy()
    with pytest.raises(RESOURCE, match="needs 262,272 bytes.*sm_90a has 232,448.*Largest: large 262,144, small 64"):
        big[1](a)
    with tj.use_device("sim:sm_75"), pytest.raises(RESOURCE, match="sm_75 has 65,536"):
        big[1](a)
    assert (a == A).all()


def marks(**options):
    @tj.kernel(threads=1, **options)
    def mark(A):
        A[0] = 1

    return mark


@pytest.mark.parametrize("cluster", [(4, 4, 4), (17, 1, 1), 32, (1, 64, 1024)])
@pytest.mark.parametrize("nonportable", [False, True])
def test_no_cluster_has_more_than_16_ctas(cluster, nonportable):
    a = A.copy()
    with pytest.raises(RESOURCE, match=r"has \d+ CTAs; a cluster can have at most 16") as caught:
        marks(cluster=cluster, nonportable_cluster=nonportable)[cluster](a)
    assert caught.value.span.text.strip().startswith("def mark")
    assert (a == A).all()


@pytest.mark.parametrize("cluster", [(3, 3, 1), 16, (1, 4, 4)])
def test_a_cluster_of_more_than_8_ctas_is_asked_for(cluster):
    a = A.copy()
    with pytest.raises(RESOURCE, match="more than 8 run only on some GPUs") as caught:
        marks(cluster=cluster)[cluster](a)
    assert "nonportable_cluster=True" in caught.value.hint
    marks(cluster=cluster, nonportable_cluster=True)[cluster](a)
    assert a[0] == 1
    marks(cluster=(2, 2, 2))[2, 2, 2](a)


@pytest.mark.parametrize("cluster", [np.int64(2), (np.int32(2), 1), [2, np.uint8(1)]])
def test_a_clusters_sizes_may_be_integers_of_numpy(cluster):
    kernel = marks(cluster=cluster)
    assert kernel.options.cluster == (2, 1, 1) and {type(n) for n in kernel.options.cluster} == {int}


@tj.kernel(threads=32)
def fills(A: tj.Tensor, N: tj.constexpr):
    r = tj.warp.full((32, N), 1.0, tj.float32)
    q = r + 1.0
    A[0] = q.registers[0]


@tj.kernel(threads=32)
def fills_shared(A: tj.Tensor, N: tj.constexpr):
    s = tj.alloc_shared((32, N), tj.float32)
    tj.warp.fill(s, 1.0)
    A[0] = s[0, 0]


@pytest.mark.parametrize(
    ("kernel", "words"), [(fills, "bytes of local memory per thread"), (fills_shared, "bytes of shared memory")]
)
@pytest.mark.parametrize("log", [16, 24, 30, 60])
def test_memory_that_nothing_has_is_refused_before_it_costs_any(kernel, words, log):
    start = time.process_time()
    with pytest.raises(RESOURCE, match=words):
        kernel.compile(A, 2**log, target="sm_90a")
    assert time.process_time() - start < 2


@tj.kernel(threads=32)
def fills_many(A: tj.Tensor, N: tj.constexpr, TOGETHER: tj.constexpr):
    """N tiles of 16 KiB a thread: all needed until the end, or each only until the next one."""
    tiles = ()
    total = tj.float32(0)
    for _ in tj.static_range(N):
        r = tj.warp.full((32, 4096), A[0], tj.float32)
        tiles = tiles + (r,)
        total = total if TOGETHER else total + r.registers[0]
    for k in tj.static_range(N):
        total = total + tiles[k].registers[0] if TOGETHER else total
    A[0] = total


def test_tiles_that_no_thread_could_hold_together_are_refused():
    needs = r"fills_many needs 655,360 bytes of registers and local memory per thread; the limit is 524,288\. Largest: "
    with pytest.raises(RESOURCE, match=needs + r"r\S* 16,384, ") as caught:
        fills_many.compile(A, 40, True, target="sm_90a")
    assert "tj.warp.full" in caught.value.span.text


def test_a_refused_kernel_leaves_arrays_alone():
    a, b = A.copy(), B.copy()
    with pytest.raises(tj.KernelTypeError, match="global region") as caught:
        add[1](a, b, a)
    assert caught.value.span.text.strip() == "B[i] = A[i] + n"
    assert (a == A).all() and (b == B).all()


@pytest.mark.parametrize("name", ["abacus", "sim:sm_1", "cuda:-1", "sim:sm_90a:0", "gpu"])
def test_nonsense_in_the_environment_is_a_device_error(name, monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", name)
    before = B.tobytes()
    with pytest.raises(DEVICE, match="unknown (device|target)"):
        add[1](A, B)
    assert B.tobytes() == before


@pytest.mark.parametrize(
    "call",
    [
        lambda: tj.cta_id(0), lambda: tj.cta.copy(A, B), lambda: tj.alloc_shared((3,), tj.float32), lambda: tj.exp(3),
        lambda: tj.static_range(3), lambda: tj.cta_sync(), lambda: tj.atomic.add(A, 1), lambda: tj.warp.load(A),
    ],
)
def test_names_of_kernels_called_on_the_host_say_so(call):
    with pytest.raises(tj.KernelTypeError, match=r"tj\.[\w.]+ can only be called inside a kernel") as caught:
        call()
    assert "@tj.kernel" in caught.value.hint


def test_a_helper_called_on_the_host_says_so():
    @tj.function
    def helper(x):
        return x

    with pytest.raises(tj.KernelTypeError, match=r"helper is a @tj.function: it can only be called inside a kernel"):
        helper(3)


@pytest.mark.parametrize("edit", ["    A[0] = 2", "    A[0] = 1\n    A[1] = 2", "    pass"])
def test_an_edited_file_is_an_error_and_never_another_text(edit, tmp_path, monkeypatch):
    text = "import tilejit as tj\n\ndef k(A):\n    A[0] = 1\n"
    path = tmp_path / "edited_kernel.py"
    path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import edited_kernel

    path.write_text(text.replace("    A[0] = 1", edit))
    with pytest.raises(tj.KernelSyntaxError, match=r"edited_kernel.py differs from the compiled function") as caught:
        tj.kernel(edited_kernel.k)
    assert "import it again" in caught.value.hint
    del sys.modules["edited_kernel"]


def test_text_that_was_never_registered_has_no_source():
    with pytest.raises(tj.KernelSyntaxError, match=r"the source of k is not available") as caught:
        execute(kernel_text("A[0] = 1", "A"), header="import tilejit as tj\n", registered=False)
    assert "linecache" in caught.value.hint


PARAMETERS = [
    ("A, *«rest»", tj.KernelSyntaxError, r"can't have \*rest"),
    ("A, **«rest»", tj.KernelSyntaxError, r"can't have \*\*rest"),
    ("A: «'nonsense'»", tj.KernelTypeError, "the annotation 'nonsense' of A can't be evaluated"),
    ("A, n: «tj.int32» = tj.spec((3,), tj.float32)", tj.KernelTypeError, "n has a tj.spec as its default"),
]


@pytest.mark.parametrize(("parameters", "kind", "words"), PARAMETERS)
def test_a_parameter_that_means_nothing_is_refused_by_the_decorator(parameters, kind, words):
    text = kernel_text("pass", parameters)
    with pytest.raises(kind, match=words) as caught:
        execute(text)
    points_at(caught.value, Marked.of(HEADER + text))


def test_an_expression_deeper_than_python_recurses_is_refused():
    names, _ = execute("@tj.kernel\ndef deep(A):\n    A[0] = " + " + ".join(["A[0]"] * 900) + "\n")
    with pytest.raises(tj.KernelSyntaxError, match="beyond Python.s recursion limit") as caught:
        names["deep"][1](np.zeros(1, np.float32))
    assert caught.value.hint == "assign parts of it to variables, or split the chain"


def test_captures_of_a_deep_expression_are_read():
    names, _ = execute("LIMIT = 3.0\n@tj.kernel\ndef deep(A):\n    A[0] = " + " + ".join(["LIMIT"] * 980) + "\n")
    with pytest.raises(tj.KernelSyntaxError, match="beyond Python.s recursion limit"):
        names["deep"][1](np.zeros(1, np.float32))


def test_a_constexpr_deeper_than_python_recurses_is_refused():
    names, _ = execute(kernel_text("pass", "A, n: tj.constexpr"))
    deep = ()
    for _ in range(5000):
        deep = (deep,)
    with pytest.raises(tj.LaunchError, match="n is a constexpr nested several hundred levels deep") as caught:
        names["k"][1](np.zeros(1, np.float32), deep)
    assert caught.value.hint == "pass a flat tuple"


@pytest.mark.parametrize("text", ["many", "nan", "inf", "-1", "0"])
def test_a_simulation_limit_that_is_no_number_is_refused(monkeypatch, text):
    names, _ = execute(kernel_text("A[0] = 1", "A"))
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    monkeypatch.setenv("TILEJIT_SIM_LIMIT", text)
    array = np.zeros(1, np.float32)
    with pytest.raises(tj.LaunchError, match=f"TILEJIT_SIM_LIMIT='{text}'"):
        names["k"][1](array)
    assert array[0] == 0


@pytest.mark.parametrize("text", ["nonsense", "off", "2"])
def test_simulation_checks_that_are_none_are_refused(monkeypatch, text):
    names, _ = execute(kernel_text("A[0] = 1", "A"))
    monkeypatch.setenv("TILEJIT_SIM_CHECKS", text)
    array = np.zeros(1, np.float32)
    with pytest.raises(tj.LaunchError, match=f"TILEJIT_SIM_CHECKS='{text}' is not one of 0, 1, strict"):
        names["k"][1](array)
    assert array[0] == 0


@pytest.mark.parametrize("schedule", [-1, "first", 0.5])
def test_a_schedule_is_a_number_from_zero(schedule):
    names, _ = execute(kernel_text("pass", "A"))
    with pytest.raises(tj.LaunchError, match="is not the number of a schedule"):
        tj.simulate(names["k"], 1, np.zeros(1, np.float32), schedule=schedule)


@pytest.mark.parametrize("checks", ["x", None, 2])
def test_checks_are_on_off_or_strict(checks):
    names, _ = execute(kernel_text("pass", "A"))
    with pytest.raises(tj.LaunchError, match=f"checks={checks!r} is not valid"):
        tj.simulate(names["k"], 1, np.zeros(1, np.float32), checks=checks)


def test_only_kernels_are_simulated():
    with pytest.raises(tj.LaunchError, match="is not a kernel"):
        tj.simulate(len, 1, np.zeros(1, np.float32))


@pytest.mark.parametrize(
    ("threads", "hint"),
    [
        ((32, 8), "write threads=256, and in the kernel t = tj.thread_id(); x = t % 32; y = t // 32"),
        ([64], "write 64"),
        ((8, 4, 2), "write threads=64, and in the kernel t = tj.thread_id(); x = t % 8; y = t // 8 % 4; z = t // 32"),
        ((1, 2, 3, 4), "write a number from 1 to 1024"),
        ("many", "write a number from 1 to 1024"),
    ],
)
def test_threads_of_several_dimensions_are_made_of_one_index(threads, hint):
    for refuse in (lambda: tj.kernel(threads=threads), lambda: add[(1,), threads]):
        with pytest.raises(LAUNCH, match="is not a number of threads") as caught:
            refuse()
        assert caught.value.hint == hint


def test_the_indices_that_the_help_makes_count_as_cuda_does():
    @tj.kernel(threads=64)
    def indices(X):
        t = tj.thread_id()
        x = t % 8
        y = t // 8 % 4
        z = t // 32
        X[z, y, x] = t

    X = np.zeros((2, 4, 8), np.int32)
    indices[1](X)
    assert np.array_equal(X.ravel(), np.arange(64))


def test_what_a_kernel_has_is_asked_of_it_without_a_grid():
    for name in ("compile", "explain", "signatures"):
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}': write add\.{name}, without \[...\]"):
            getattr(add[1], name)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense': call it, or use bind"):
        add[1].nonsense  # noqa: B018
    assert not hasattr(add[1], "__array_interface__")


# a launch with an array in a wrong place, and what the message says of it
ARRAYS = np.arange(1000.0).reshape(10, 100)
DUMPS = [
    (lambda: add[ARRAYS], "ndarray of shape (10, 100) and float64 is not a grid"),
    (lambda: add[[ARRAYS, 1]](A, B), "[ndarray of shape (10, 100) and float64, 1] is not a grid"),
    (lambda: tj.kernel(threads=ARRAYS), "ndarray of shape (10, 100) and float64 is not a number of threads"),
    (lambda: typed[1](B, ARRAYS, 1.0, 1), "n is int8; got ndarray of shape (10, 100) and float64"),
    (lambda: tj.spec(ARRAYS, tj.float32), "ndarray of shape (10, 100) and float64 is not a shape"),
    (lambda: tj.spec((1,), ARRAYS), "ndarray of shape (10, 100) and float64 is not an element type"),
    (lambda: tj.simulate(ARRAYS, 1), "ndarray of shape (10, 100) and float64 is not a kernel"),
    (lambda: typed[1](B, 1, 1.0, 1, K=ARRAYS), "K is a constexpr; an ndarray can't be one"),
]


@pytest.mark.parametrize(("call", "words"), DUMPS, ids=[case[1] for case in DUMPS])
def test_an_array_in_a_message_is_its_shape_and_dtype(call, words):
    with pytest.raises(tj.TilejitError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in caught.value.message and " 1., " not in str(caught.value)


@tj.kernel(threads=32)
def by_columns(A: tj.Tensor):
    A[0, tj.cta_id(1)] = 1


@tj.kernel(threads=32)
def counts(A: tj.Tensor):
    tj.atomic.add(A[0], 1)


SAME_WORK = [
    (lambda: add[4, 8](A, B), r"^add\[4, 8\] starts 4 x 8 CTAs, and add never reads tj\.cta_id\(1\): the same work "
     r"is done 8 times\nhelp: for 8 threads, write add\[\(4,\), 8\]; otherwise leave that axis of the grid out$"),
    (lambda: add[4, 1, 2](A, B), r"4 x 1 x 2 CTAs.*cta_id\(2\): the same work is done 2 times\nhelp: leave that axis"),
    (lambda: add[lambda m: (1, 2)](A, B), r"add\[1, 2\]"),
    (lambda: add[4, 8].bind(A, B), r"add\[4, 8\]"),
    (lambda: add[1, 128, 0](A, B), r"1 x 128 x 0 CTAs.*cta_id\(2\): nothing is launched\nhelp: .*k\[\(4,\), 128, str"),
]


@pytest.mark.parametrize(("launch", "words"), SAME_WORK)
def test_a_grid_along_which_all_ctas_do_the_same_is_warned_of(launch, words):
    """Numba's `k[blocks, threads]` is a grid of two dimensions here."""
    with pytest.warns(GridWarning, match=words) as caught:
        launch()
    (warned,) = caught
    assert warned.filename == __file__


def test_what_a_kernel_has_and_its_launcher_has_not_is_named():
    with pytest.raises(AttributeError, match=r"no attribute 'compile': write add\.compile, without \[\.\.\.\]"):
        add[1].compile(A, B)


def test_grids_that_a_kernel_asks_for_and_kernels_that_ask_for_nothing_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add[4](A, B)
        by_columns[1, 4](np.zeros((1, 4), np.float32))
        counts[2, 2](np.zeros(1, np.int32))
