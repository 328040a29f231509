"""Speed of the simulator: python tests/bench/bench_simulator.py

Prints thread instructions per second for chains of additions, beside what NumPy alone needs for one addition of as
many elements; a copy through shared memory unchecked, checked and profiled; and translation time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tilejit.simulator import Pointer, run
from tilejit.simulator.translate import clear_cache, translate

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<32>; .reg .f32 %f<32>; .reg .b64 %x<16>;\n"


def best(function: Callable[[], object], repeat: int = 7) -> float:
    """The shortest of several times in seconds of this process, which other processes disturb least."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def pointer(array: np.ndarray, **options: bool) -> Pointer:
    return Pointer(array.reshape(-1).view(np.uint8), **options)


def chain(length: int) -> str:
    """A loop around `length` additions, alternately integer and float."""
    ops = []
    for i in range(length // 2):
        ops.append(f"add.s32 %r{i % 8}, %r{(i + 1) % 8}, %r{(i + 3) % 8};")
        ops.append(f"add.rn.f32 %f{i % 8}, %f{(i + 1) % 8}, %f{(i + 2) % 8};")
    start = "\n".join(f"add.s32 %r{i}, %r10, {i}; cvt.rn.f32.s32 %f{i}, %r{i};" for i in range(8))
    total = "\n".join(
        f"add.rn.f32 %f8, %f8, %f{i}; cvt.rn.f32.s32 %f9, %r{i}; add.rn.f32 %f8, %f8, %f9;" for i in range(8)
    )
    return (
        f"{HEADER}.visible .entry k(.param .u64 p0, .param .u32 p1)\n{{\n{REGISTERS}"
        f"mov.u32 %r10, %tid.x; ld.param.u64 %x1, [p0]; ld.param.u32 %r12, [p1];\n{start}\nmov.u32 %r11, 0;\n"
        f"LOOP:\n" + "\n".join(ops) + "\nadd.s32 %r11, %r11, 1; setp.lt.u32 %p1, %r11, %r12; @%p1 bra LOOP;\n"
        f"mov.f32 %f8, 0f00000000;\n{total}\nmul.wide.u32 %x2, %r10, 4; add.s64 %x2, %x2, %x1;\n"
        "st.global.f32 [%x2], %f8; ret;\n}\n"
    )


def copy_through_shared() -> str:
    """512 x 512 float32: each CTA of 256 threads moves 1024 elements through shared memory, transposed inside."""
    body = "".join(
        f"add.s32 %r3, %r1, {256 * i}; mul.wide.s32 %x4, %r3, 4; add.s64 %x5, %x1, %x4; ld.global.f32 %f{i}, [%x5];\n"
        f"shl.b32 %r4, %r3, 2; add.s32 %r4, %r4, %r5; st.shared.f32 [%r4], %f{i};\n"
        for i in range(4)
    )
    back = "".join(
        f"add.s32 %r3, %r1, {256 * i}; xor.b32 %r6, %r3, 1; shl.b32 %r4, %r6, 2; add.s32 %r4, %r4, %r5;\n"
        f"ld.shared.f32 %f{i}, [%r4]; mul.wide.s32 %x4, %r3, 4; add.s64 %x5, %x2, %x4; st.global.f32 [%x5], %f{i};\n"
        for i in range(4)
    )
    return (
        f"{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n{REGISTERS}.shared .align 16 .b8 tile[4096];\n"
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1];\n"
        "mul.wide.u32 %x3, %r2, 4096; add.s64 %x1, %x1, %x3; add.s64 %x2, %x2, %x3; mov.u32 %r5, tile;\n"
        f"{body}bar.sync 0;\n{back}ret;\n}}\n"
    )


def add_repeatedly(a: np.ndarray, f: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        for _ in range(500):
            a = a + a
            f = f + f


def main() -> None:
    out = np.zeros(1024, np.float32)
    text = chain(64)
    for ctas, threads in ((1, 128), (64, 128), (256, 128)):
        args = [pointer(out), 300 if ctas == 1 else 40]
        report = run(text, "k", (ctas,), (threads,), args, checks=False)
        seconds = best(lambda c=ctas, t=threads, a=args: run(text, "k", (c,), (t,), a, checks=False))
        lanes = min(ctas * threads, 8192)
        a, f = np.arange(lanes, dtype=np.int32), np.arange(lanes, dtype=np.float32)
        numpy = best(lambda a=a, f=f: add_repeatedly(a, f)) / 1000
        print(
            f"additions, {ctas} x {threads}: {report.thread_instructions / seconds / 1e6:.0f} M/s; "
            f"NumPy alone {lanes / numpy / 1e6:.0f} M/s"
        )
    source = np.random.default_rng(0).random((512, 512), np.float32)
    target = np.zeros_like(source)
    text = copy_through_shared()
    for name, options in (("unchecked", {"checks": False}), ("checked", {}), ("profiled", {"profile": True})):
        args = [pointer(source, writable=False), pointer(target, initialized=False)]
        seconds = best(lambda a=args, o=options: run(text, "k", (256,), (256,), a, **o))
        print(f"copy of 512 x 512 through shared memory, {name}: {seconds * 1e3:.1f} ms")
    text = chain(1000)

    def fresh() -> None:
        clear_cache()
        translate(text, "k", 0)

    count = len(translate(text, "k", 0).function.body)
    print(f"translation: {best(fresh) / count * 1e6:.1f} us an instruction")


if __name__ == "__main__":
    main()
