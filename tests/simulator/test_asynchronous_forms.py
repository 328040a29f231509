"""ptxas accepts the forms of asynchronous instructions that the simulator does, and refuses those that it refuses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulator.cluster_kernels import module
from tests.simulator.ring_kernels import HEADER
from tests.support.ptxas import complaint_of, ptxas_accepts, ptxas_path
from tilejit.errors import UnsupportedInstructionError
from tilejit.simulator.decode.translate import translate

TARGET = "sm_100a"
SIGNAL = "mbarrier::complete_tx::bytes"
OPS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "add.noftz")
TYPES = ("b32", "u32", "s32", "b64", "u64", "s64", "f16", "bf16", "f32", "f64")
FIELDS = ("global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride", "elemtype",
          "interleave_layout", "swizzle_mode", "swizzle_atomicity", "fill_mode")


def text(body: str) -> str:
    body = f".reg .f32 %f<4>; .reg .f64 %d<4>; mov.u32 %r1, sm; cvta.shared.u64 %x3, %x2;\n{body}\nret;"
    return module(body, "", (2, 1, 1)).replace(HEADER, f".version 8.8\n.target {TARGET}\n.address_size 64\n")


def is_translated(body: str) -> bool:
    try:
        translate(text(body), "k", 0)
    except UnsupportedInstructionError:
        return False
    return True


def reductions() -> Iterator[str]:
    for op in OPS:
        for t in TYPES:
            value = "%x4" if t[1:] == "64" else "%r4"
            yield f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{t} [%x2], [%r2], 16;"
            yield f"cp.reduce.async.bulk.shared::cluster.shared::cta.{SIGNAL}.{op}.{t} [%r1], [%r2], 16, [%r3];"
            yield f"red.async.relaxed.cluster.shared::cluster.{SIGNAL}.{op}.{t} [%r1], {value}, [%r3];"


def stores() -> Iterator[str]:
    for t in ("b8", "b16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"):
        for count in (1, 2, 4):
            prefix = {"f32": "f", "f64": "d"}.get(t, "x" if t[1:] == "64" else "r")
            names = [f"%{prefix}{i}" for i in range(count)]
            value, vec = (names[0], "") if count == 1 else ("{" + ", ".join(names) + "}", f".v{count}")
            for weak in ("", ".weak"):
                yield f"st.async{weak}.shared::cluster.{SIGNAL}{vec}.{t} [%r1], {value}, [%r3];"


def copies() -> Iterator[str]:
    for space, place in (("", "%x3"), (".shared", "%r1"), (".shared::cta", "%r1"), (".shared::cluster", "%r1")):
        for noinc in ("", ".noinc"):
            yield f"cp.async.mbarrier.arrive{noinc}{space}.b64 [{place}];"
    yield f"cp.async.bulk.shared::cluster.shared::cta.{SIGNAL} [%r1], [%r2], 16, [%r3];"
    for to in ("cluster", "cta"):
        yield f"cp.async.bulk.shared::{to}.global.{SIGNAL}.multicast::cluster [%r1], [%x2], 16, [%r3], %h1;"
    for hint, policy in (("", ""), (".L2::cache_hint", ", %x4")):
        yield f"cp.async.bulk.prefetch.L2.global{hint} [%x2], 64{policy};"
        yield f"cp.async.bulk.prefetch.tensor.2d.L2.global.tile{hint} [%x2, {{%r1, %r2}}]{policy};"
        to_all = f"cp.async.bulk.shared::cluster.global.{SIGNAL}.multicast::cluster{hint}"
        yield f"{to_all} [%r1], [%x2], 16, [%r3], %h1{policy};"
        yield f"cp.reduce.async.bulk.global.shared::cta.bulk_group{hint}.add.u32 [%x2], [%r2], 16{policy};"


def maps() -> Iterator[str]:
    for scope in ("cta", "cluster", "gpu", "sys"):
        yield f"fence.proxy.tensormap::generic.release.{scope};"
        yield f"fence.proxy.tensormap::generic.acquire.{scope} [%x2], 128;"
        release = f"tensormap::generic.release.{scope}.sync.aligned"
        yield f"tensormap.cp_fenceproxy.global.shared::cta.{release} [%x2], [%r1], 128;"
    for name in FIELDS:
        for bits, value in ((32, "%r4"), (32, "1"), (64, "%x4"), (64, "1")):
            for space, place in ((".shared::cta", "%r1"), (".global", "%x2"), ("", "%x3"), (".shared", "%r1")):
                for ordinal in ("", ", 0", ", 3", ", 5"):
                    yield f"tensormap.replace.tile.{name}{space}.b1024.b{bits} [{place}]{ordinal}, {value};"


def addresses() -> Iterator[str]:
    for space, place in ((".shared", "%r1"), (".shared::cta", "%r1"), (".shared::cluster", "%r1"),
                         (".global::cluster", "%x2")):
        yield f"cvta{space}.u64 %x4, %x2;"
        yield f"cvta.to{space}.u64 %x4, %x2;"
        yield f"isspacep{space} %p1, %x2;"
        yield f"ld{space}.u32 %r4, [{place}];"
        yield f"st{space}.v2.u32 [{place}], {{%r4, %r5}};"
        yield f"atom{space}.add.u32 %r4, [{place}], 1;"
        yield f"red.release.cluster{space}.add.u32 [{place}], 1;"
        yield f"ld.acquire.cluster{space}.u32 %r4, [{place}];"
        yield f"st.release.cluster{space}.u32 [{place}], %r4;"
    for name in ("envreg1", "envreg2", *(f"reserved_smem_offset_{x}" for x in ("begin", "end", "cap", "0", "1"))):
        yield f"mov.u32 %r4, %{name}; st.shared.u32 [%r1], %r4;"


FORMS = [*reductions(), *stores(), *copies(), *maps(), *addresses()]
KNOWN = [x for x in FORMS if is_translated(x)]
OTHERS = [x for x in FORMS if x not in set(KNOWN)]


def test_ptxas_accepts_what_the_simulator_does() -> None:
    assert len(KNOWN) > 150
    ptxas_accepts(text("\n".join(KNOWN)), TARGET)


@pytest.mark.parametrize("form", OTHERS)
def test_ptxas_refuses_what_the_simulator_does(form: str) -> None:
    if ptxas_path() is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")
    assert complaint_of(text(form), TARGET) is not None
