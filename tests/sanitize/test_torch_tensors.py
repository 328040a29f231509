"""CPU tensors that represent CUDA tensors: what programs ask torch, and its answers."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tilejit import sanitize

pytestmark = pytest.mark.integration

torch = pytest.importorskip("torch", reason="torch isn't installed")
pytest.importorskip("triton", reason="Triton isn't installed")


@pytest.fixture(autouse=True)
def session() -> Iterator[Any]:
    with sanitize.triton("sm_90") as session:
        yield session


def gpu() -> Any:
    return torch.tensor([1.0, 2.0], device="cuda")


def test_the_device_of_tensors_that_name_one() -> None:
    made = [
        torch.empty(2, device="cuda"), torch.zeros(2, device="cuda:0"), torch.ones(2, device=torch.device("cuda")),
        torch.tensor([1], device="cuda"), torch.as_tensor([1], device="cuda"), torch.arange(3, device="cuda"),
        torch.randn(2, device="cuda", dtype=torch.float16), torch.rand(2, device="cuda", requires_grad=True),
        torch.full((2,), 3, device="cuda"), torch.ones(2).cuda(), torch.ones(2).to("cuda"), torch.ones(2).to(gpu()),
        torch.ones(2).to(device="cuda", dtype=torch.float16), torch.ones(2).type_as(gpu()), gpu().new_empty(2),
        torch.empty(2, device=gpu().device), torch.from_numpy(np.ones(2)).cuda(), torch.ones(2, device=0),
    ]
    for x in made:
        assert x.device == torch.device("cuda", 0) and x.is_cuda and not x.is_cpu and x.get_device() == 0
    assert made[6].dtype == torch.float16 and made[7].requires_grad and made[12].dtype == torch.float16


def test_the_device_of_tensors_that_are_created_without_overrides() -> None:
    with torch._C.DisableTorchFunction():
        x = torch.ones(2, device="cuda")
    assert x.is_cuda


def test_the_device_of_the_hosts_tensors() -> None:
    for x in (torch.ones(2), gpu().cpu(), gpu().to("cpu"), torch.zeros_like(gpu(), device="cpu"), torch.tensor(1)):
        assert x.device == torch.device("cpu") and not x.is_cuda and x.is_cpu and x.get_device() == -1


def test_results_are_on_the_gpu_if_an_operand_is() -> None:
    x, host = gpu(), torch.ones(2)
    for y in (x + 1, x * host[0], torch.zeros_like(x), torch.stack([x, x]), x[:, None] @ x[None], x.half(), x.T,
              x.clone().detach(), x.data, x.sum(), copy.deepcopy(x), x.view(2, 1), torch.nn.Parameter(x)):
        assert y.is_cuda
    assert not (host + 1).is_cuda and not host.view_as(x).is_cuda


def test_results_that_operators_allocate_on_the_cpu_are_on_the_gpu() -> None:
    x, host = gpu(), torch.ones(2)
    assert torch.nn.utils.rnn.pad_sequence([x, x]).is_cuda and not torch.nn.utils.rnn.pad_sequence([host, host]).is_cuda
    assert host.copy_(x) is host and not host.is_cuda


def test_tensors_without_storage_are_moved() -> None:
    sparse = torch.eye(3).to_sparse()
    assert torch.equal(sparse.to("cuda").cpu().to_dense(), torch.eye(3))
    doubled = torch.vmap(lambda row: 2 * row.cuda())(torch.eye(3))
    assert torch.equal(doubled.cpu(), 2 * torch.eye(3))


def test_memory_of_the_host_may_be_pinned() -> None:
    for x in (torch.tensor([1.0, 2.0], pin_memory=True), torch.ones(2).pin_memory(), torch.zeros(2, pin_memory=True)):
        assert not x.is_cuda and x.cuda(non_blocking=True).is_cuda


def test_moves_copy() -> None:
    host = torch.ones(2)
    moved = host.cuda()
    moved += 1
    assert host.tolist() == [1, 1]
    back = moved.cpu()
    back += 1
    assert moved.tolist() == [2, 2]
    assert moved.to("cuda") is moved and moved.to(moved.device).data_ptr() == moved.data_ptr()


def test_numpy_does_not_share_the_gpus_memory() -> None:
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        gpu().numpy()
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        np.asarray(gpu())
    assert gpu().cpu().numpy().tolist() == [1, 2] and torch.ones(1).numpy().tolist() == [1]
    x = gpu()
    x.numpy(force=True)[:] = 0
    assert x.tolist() == [1, 2]


def test_modules_and_gradients() -> None:
    linear = torch.nn.Linear
    for module in (linear(3, 2).cuda(), linear(3, 2).to("cuda"), linear(3, 2, device="cuda")):
        out = module(torch.ones(1, 3, device="cuda"))
        out.sum().backward()
        assert out.is_cuda and module.weight.is_cuda and module.weight.grad.is_cuda
        assert copy.deepcopy(module).bias.is_cuda


def test_functions_of_a_backward_pass_see_the_gpu() -> None:
    seen = []

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append((grad.device.type, torch.empty(2, device=grad.device).is_cuda))
            return grad * 2

    x = gpu().requires_grad_()
    Doubled.apply(x).sum().backward()
    torch.autograd.grad(Doubled.apply(x).sum(), x)
    torch.autograd.backward(Doubled.apply(x).sum())
    assert seen == [("cuda", True)] * 3


def test_default_devices() -> None:
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda and torch.tensor([1]).is_cuda and torch.nn.Linear(2, 2).weight.is_cuda
        assert torch.get_default_device() == torch.device("cuda", 0)
    torch.set_default_device("cuda")
    try:
        assert torch.ones(2).is_cuda and not torch.ones(2, device="cpu").is_cuda
    finally:
        torch.set_default_device(None)
    assert not torch.ones(2).is_cuda


def test_questions_about_the_gpu() -> None:
    cuda = torch.cuda
    assert cuda.is_available() and cuda.device_count() == 1 and cuda.current_device() == 0
    assert cuda.get_device_capability() == (9, 0) and torch.version.cuda is not None
    described = cuda.get_device_properties(0)
    assert (described.major, described.minor, described.warp_size) == (9, 0, 32)
    assert described.multi_processor_count == 132 and described.shared_memory_per_block_optin == 227 * 1024
    assert described.name == cuda.get_device_name() and cuda.is_bf16_supported()
    assert torch.accelerator.current_accelerator() == torch.device("cuda", 0)


def test_streams_events_and_generators() -> None:
    with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()) as _, torch.cuda.device(gpu().device):
        torch.cuda.synchronize()
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        gpu().record_stream(torch.cuda.current_stream())
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    end.record()
    assert start.elapsed_time(end) == 0 and end.query()
    generator = torch.Generator(device="cuda")
    assert generator.device == torch.device("cuda", 0) and torch.Generator().device == torch.device("cpu")
    draws = [torch.randn(3, device="cuda", generator=generator.manual_seed(5)).tolist() for _ in range(2)]
    assert draws[0] == draws[1]
    torch.cuda.manual_seed(3)
    first = torch.rand(2, device="cuda").tolist()
    torch.cuda.manual_seed(3)
    assert first == torch.rand(2, device="cuda").tolist()


def test_autocast_applies() -> None:
    x = torch.ones(4, 4, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        with torch.autocast("cuda", enabled=False):
            assert (x @ x).dtype == torch.float32
    with torch.cuda.amp.autocast(dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
    assert (x @ x).dtype == torch.float32


def test_printing_saving_and_comparing() -> None:
    x = gpu()
    assert "1., 2." in repr(x)
    buffer = io.BytesIO()
    torch.save(x, buffer)
    buffer.seek(0)
    assert torch.load(buffer).tolist() == [1, 2]
    torch.testing.assert_close(x, gpu())
    with pytest.raises(AssertionError, match="device"):
        torch.testing.assert_close(x, x.cpu())


def test_addresses_are_those_of_the_simulated_gpu() -> None:
    x, y = torch.ones(100, device="cuda"), torch.ones(100, device="cuda")
    assert x.data_ptr() % 512 == 0 and x[3:].data_ptr() == x.data_ptr() + 12
    assert abs(x.data_ptr() - y.data_ptr()) > 16 << 20
    assert x.view(10, 10)[2].data_ptr() == x.data_ptr() + 80


def test_products_with_a_wider_result(session: Any) -> None:
    a, b = (torch.randn(2, 4, 4, device="cuda", dtype=torch.float16) for _ in range(2))
    wide = torch.bmm(a, b, out_dtype=torch.float32)
    # exact products, four of which are added
    torch.testing.assert_close(wide, a.float() @ b.float(), rtol=1e-6, atol=1e-6)
    assert wide.is_cuda
    sums, out = torch.ones(4, 4, device="cuda"), torch.empty(4, 4, device="cuda")
    torch.addmm(sums, a[0], b[0], out_dtype=torch.float32, out=out)
    assert session.memory.record(out).written is None
    torch.testing.assert_close(out, 1 + a[0].float() @ b[0].float(), rtol=1e-6, atol=1e-6)
