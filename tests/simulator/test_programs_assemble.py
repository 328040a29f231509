"""ptxas accepts the kernels with which the matrix and tensor memory instructions are tested."""

from itertools import product

import pytest

from tests.simulator import matrix_programs as programs
from tests.simulator import tensor_programs as t
from tests.simulator import wmma_programs as wmma
from tests.simulator.cluster_kernels import ClusterRing, module
from tests.simulator.small_kernels import kernel
from tests.support.ptxas import ptxas_accepts
from tilejit.simulator.decode.translate import translate

PARAMS = ", ".join(f".param .u64 p{i}" for i in range(4))


def header(version, target):
    return f".version {version}\n.target {target}\n.address_size 64\n"


@pytest.mark.parametrize("form", [*programs.PRODUCTS, *programs.NEW_PRODUCTS], ids="-".join)
def test_products(form):
    program, _ = programs.product_of(*form)
    target = "sm_89" if form[1] in ("e4m3", "e5m2") else "sm_80"
    ptxas_accepts(kernel(program.text, PARAMS, header=header("8.7", target)), target)


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_matrix_loads_and_stores(num, trans):
    for text in (programs.ldmatrix_text(num, trans), programs.stmatrix_text(num, trans)):
        ptxas_accepts(kernel(text, PARAMS, header=header("8.0", "sm_90")), "sm_90")


def test_wmma():
    texts = []
    for i, (shape, a, d, c) in enumerate(wmma.PRODUCTS):
        for orders in product(wmma.orders("a", a), wmma.orders("b", a), ("row", "col")):
            op = ("xor", "and")[i % 2] if a == "b1" else ""
            for space, pad in (("global", 0), ("shared", None), ("generic", 1)):
                texts.append(wmma.Program(shape, a, d, c, orders, space, pad, op=op).text)
    texts += [wmma.load_text(*form, order, 256) for form in wmma.LOADS for order in wmma.orders(form[0], form[2])]
    texts += [wmma.Program("m16n16k16", "u8", "s32", "s32", end=".satfinite").text]
    texts += [wmma.Program("m8n8k4", "f64", "f64", "f64", end=f".{mode}").text for mode in ("rn", "rz", "rm", "rp")]
    # one module, which ptxas reads much faster than many
    kernels = [kernel(text, PARAMS, header="").replace("entry k", f"entry k{i}") for i, text in enumerate(texts)]
    ptxas_accepts(header("8.0", "sm_90") + "".join(kernels), "sm_90")


@pytest.mark.parametrize("shape", ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"])
def test_products_in_double_precision(shape):
    for mode in ("", "rn", "rz", "rm", "rp"):
        text = wmma.DoubleProduct(shape, mode, *wmma.double_matrices(shape, 0)).text
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


@pytest.mark.parametrize("ring", [ClusterRing(), ClusterRing((2, 2, 1), 3, ordinary=True)], ids=str)
def test_rings_of_clusters(ring):
    ptxas_accepts(ring.text(), "sm_90a")


def test_forms_of_clusters():
    sync = "barrier.cluster.arrive{}{};\nbarrier.cluster.wait{}{};\n"
    body = "".join(sync.format(sem, aligned, ".acquire" if sem else "", aligned)
                   for sem in ("", ".release", ".relaxed") for aligned in ("", ".aligned"))
    body += "mov.u32 %r1, sm; mov.u64 %x4, sm; cvta.shared.u64 %x4, %x4; mapa.shared::cluster.u32 %r2, %r1, 1;\n"
    body += "mapa.u64 %x5, %x4, 1; getctarank.shared::cluster.u32 %r3, %r2; getctarank.u64 %r4, %x5;\n"
    for sem in ("", ".release.cta", ".release.cluster", ".relaxed.cluster"):
        body += f"mbarrier.arrive{sem}.shared::cluster.b64 _, [%r2];\n"
        body += f"mbarrier.arrive{sem}.shared::cluster.b64 _, [%r2], 3;\n"
        body += f"mbarrier.arrive.expect_tx{sem}.shared::cluster.b64 _, [%r2], 16;\n"
    for name in (*(f"%{x}.{y}" for x in ("cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid") for y in "xyz"),
                 "%cluster_ctarank", "%cluster_nctarank"):
        body += f"mov.u32 %r5, {name}; st.shared.u32 [%r1], %r5;\n"
    text = module(body + "mov.pred %p1, %is_explicit_cluster; @%p1 ret;\nret;", "", (2, 1, 1))
    ptxas_accepts(text, "sm_90a")
    translate(text, "k", 0)
