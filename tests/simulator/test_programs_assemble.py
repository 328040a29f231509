"""ptxas accepts the kernels with which the matrix and tensor memory instructions are tested."""

import pytest

from tests.simulator import matrix_programs as programs
from tests.simulator import tensor_programs as t
from tests.simulator.small_kernels import kernel
from tests.support.ptxas import ptxas_accepts

PARAMS = ", ".join(f".param .u64 p{i}" for i in range(4))


def header(version, target):
    return f".version {version}\n.target {target}\n.address_size 64\n"


@pytest.mark.parametrize("product", [*programs.PRODUCTS, *programs.NEW_PRODUCTS], ids="-".join)
def test_products(product):
    program, _ = programs.product_of(*product)
    target = "sm_89" if product[1] in ("e4m3", "e5m2") else "sm_80"
    ptxas_accepts(kernel(program.text, PARAMS, header=header("8.7", target)), target)


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_matrix_loads_and_stores(num, trans):
    for text in (programs.ldmatrix_text(num, trans), programs.stmatrix_text(num, trans)):
        ptxas_accepts(kernel(text, PARAMS, header=header("8.0", "sm_90")), "sm_90")


@pytest.mark.parametrize("shape", list(t.NUMS))
@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
def test_tensor_memory(shape, target):
    body = t.START + t.allocate(512)
    for num in t.NUMS[shape]:
        count = t.registers_of(shape, num)
        for packed in (False, True):
            body += t.read_input("p0", 0, count) + t.st(shape, num, 0, packed=packed, split=8) + t.WAIT_ST
            body += t.ld(shape, num, 200, packed=packed, split=8) + t.WAIT_LD + t.write_output("p1", 200, count)
    text = kernel(body + t.free(512) + "ret;", PARAMS, t.DATA, header=header("8.8", target))
    ptxas_accepts(text, target)
