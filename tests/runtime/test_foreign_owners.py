"""What torch and JAX, where they are installed, say of their arrays beyond address, shape and strides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tilejit.errors import LaunchError
from tilejit.runtime.fast_launch import memory
from tilejit.runtime.readers import view_of


@tj.kernel(threads=64)
def copy(A: tj.Tensor, B: tj.Tensor):
    B[tj.thread_id()] = A[tj.thread_id()]


@pytest.fixture(autouse=True)
def simulator() -> Iterator[None]:
    with tj.use_device("sim"):
        yield


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def jax(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    return pytest.importorskip("jax")


def negated(torch: Any) -> Any:
    """A tensor whose memory holds 1, 2, ... and whose values are -1, -2, ..."""
    x = torch.arange(1.0, 65.0)
    return torch.complex(x, x).conj().imag


def test_a_negative_bit_is_refused_read_and_written(torch: Any) -> None:
    x, out = negated(torch), torch.zeros(64)
    for arguments in ((x, out), (out, x)):
        with pytest.raises(LaunchError, match=r"[AB]: a tensor has its negative bit set.*\n.*a\.resolve_neg\(\)"):
            copy[1](*arguments)
    copy[1](x.resolve_neg(), out)
    assert torch.equal(out, x.resolve_neg()) and out[0] == -1


def test_a_conjugate_bit_is_refused_and_the_help_works(torch: Any) -> None:
    z = torch.complex(torch.arange(32.0), torch.ones(32)).conj()
    with pytest.raises(LaunchError, match=r"its conjugate bit set.*\n.*torch\.view_as_real\(a\.resolve_conj\(\)\)"):
        copy[1](z, torch.zeros(64))
    out = torch.zeros(64)
    copy[1](torch.view_as_real(z.resolve_conj()).reshape(64), out)
    assert torch.equal(out.reshape(32, 2)[:, 1], torch.full((32,), -1.0))


#: what makes a tensor of torch's that has no dense memory of its own
WITHOUT_MEMORY: dict[str, Callable[[Any], Any]] = {
    "coo": lambda torch: torch.ones(64).to_sparse(),
    "csr": lambda torch: torch.ones(8, 8).to_sparse_csr(),
    "csc": lambda torch: torch.ones(8, 8).to_sparse_csc(),
    "meta": lambda torch: torch.ones(64, device="meta"),
    "zero": lambda torch: torch._efficientzerotensor((64,)),
    "nested": lambda torch: torch.nested.nested_tensor([torch.ones(3), torch.ones(4)]),
    "jagged": lambda torch: torch.nested.nested_tensor([torch.ones(3), torch.ones(4)], layout=torch.jagged),
    "mkldnn": lambda torch: torch.ones(64).to_mkldnn(),
    "quantized": lambda torch: torch.quantize_per_tensor(torch.ones(64), 0.1, 0, torch.qint8),
    "fake": lambda torch: _fake(torch),
    "freed": lambda torch: _freed(torch),
}


def _fake(torch: Any) -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(64)


def _freed(torch: Any) -> Any:
    x = torch.ones(64)
    x.untyped_storage().resize_(0)
    return x


@pytest.mark.parametrize("name", WITHOUT_MEMORY)
@pytest.mark.filterwarnings("ignore")
def test_tensors_without_memory_are_refused(torch: Any, name: str) -> None:
    try:
        value = WITHOUT_MEMORY[name](torch)
    except (RuntimeError, NotImplementedError, AttributeError) as missing:
        pytest.skip(f"not in this torch: {missing}")
    out = torch.zeros(64)
    for arguments in ((value, out), (out, value)):
        with pytest.raises(LaunchError, match=r"^[AB]: ") as refused:
            copy[1](*arguments)
        assert "\nhelp: " in str(refused.value)


@pytest.mark.parametrize("transform", ["vmap", "grad", "functionalize"])
def test_tensors_inside_a_transform_are_refused(torch: Any, transform: str) -> None:
    def launched(x: Any) -> Any:
        copy[1](x, torch.zeros(64))
        return x.sum()

    with pytest.raises(LaunchError, match="A: a Tensor can't be passed: (RuntimeError|it has no memory)"):
        getattr(torch.func, transform)(launched)(torch.ones(2, 64) if transform == "vmap" else torch.ones(64))


def test_tensors_without_elements_need_no_memory(torch: Any) -> None:
    for empty in (torch.zeros(0), torch.zeros(0, 3), torch.zeros(3, 0)[1:]):
        assert view_of(empty).facts.high_bytes == 0


def test_torchs_guards_tell_what_the_key_does_not(torch: Any) -> None:
    """Generated launchers ask for the negative bit only where the guards refuse."""
    if not memory.has_guards():
        pytest.skip("this torch has no guards")
    x = torch.zeros(128)[::2]
    check = memory.guard_of([x])
    assert check(torch.zeros(128)[::2]) and negated(torch).stride() == x.stride()
    assert not check(negated(torch))
    assert not memory.guard_of([torch.zeros(64)])(torch._efficientzerotensor((64,)))


def test_jaxs_arrays_are_read_and_never_written(jax: Any) -> None:
    with jax.default_device(jax.devices("cpu")[0]):
        j = jax.numpy.arange(64, dtype=np.float32)
    alias, out = j.astype(np.float32), np.zeros(64, np.float32)
    copy[1](j, out)
    np.testing.assert_array_equal(out, np.arange(64))
    launch = copy[1].bind(j, out)
    for write in (lambda: copy[1](out[::-1].copy(), j), copy[1].bind(out, j), lambda: launch(out, j)):
        with pytest.raises(LaunchError, match=r"B is a read-only array, but the kernel writes it\n.*JAX"):
            write()
    np.testing.assert_array_equal(np.asarray(alias), np.arange(64))


def test_jaxs_deleted_and_traced_arrays_are_refused(jax: Any) -> None:
    deleted, out = jax.numpy.arange(64) + 1, np.zeros(64, np.float32)
    deleted.delete()
    with pytest.raises(LaunchError, match="A: an ArrayImpl can't be passed: "):
        copy[1](deleted, out)

    def traced(x: Any) -> Any:
        with pytest.raises(LaunchError, match="A: an? .*Tracer can't be passed: "):
            copy[1](x, out)
        return x.sum()

    x = jax.numpy.zeros((2, 64), np.float32)
    jax.jit(traced)(x)
    jax.vmap(traced)(x)
    jax.grad(traced)(x)
    with pytest.raises(LaunchError, match="PRNGKeyArray"):
        copy[1](jax.random.key(0), out)
