"""Speed of the simulator: python tests/bench/bench_simulator.py

Prints thread instructions per second for chains of additions, beside what NumPy alone needs for one addition of as
many elements; copies through shared memory and the quickstart's full-HD picture unchecked, checked and profiled;
the time of a tiny launch; grid barriers, contended compare-and-swap loops and look-back, whose order the race check
must follow from release to acquire; and translation time.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
from simulated import HEADER, REGISTERS, copy_line, look_back, pointer

import tilejit as tj
from tilejit.simulator import run
from tilejit.simulator.decode.parser import parse
from tilejit.simulator.decode.translate import translate

TILE = (32, 64)
MODES: dict[str, dict[str, bool]] = {"unchecked": {"checks": False}, "checked": {}, "profiled": {"profile": True}}


@tj.kernel(threads=128)
def copy_tiles(A: tj.Tensor, B: tj.Tensor):
    row, column = tj.cta_id(1), tj.cta_id(0)
    staged = tj.alloc_shared(TILE, A.dtype)
    tj.cta.copy(staged, A.tile(TILE, (row, column)))
    tj.cta_sync()
    tj.cta.copy(B.tile(TILE, (row, column)), staged)


def best(function: Callable[[], object], repeat: int = 7) -> float:
    """The shortest of several times in seconds of this process, which other processes disturb least."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


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


def grid_barriers() -> str:
    """Rounds of a store, a grid barrier, a load of the next CTA's word, and another grid barrier."""
    barrier = """
    add.u32 %r9, %r9, %r4; bar.sync 0; setp.ne.u32 %p1, %r1, 0; @%p1 bra JOIN{0};
    fence.acq_rel.gpu; atom.global.add.u32 %r10, [%x2], 1;
    SPIN{0}: ld.volatile.global.u32 %r10, [%x2]; setp.lt.u32 %p2, %r10, %r9; @%p2 bra SPIN{0}; fence.acq_rel.gpu;
    JOIN{0}: bar.sync 0;"""
    return (
        f"{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 p2)\n{{\n{REGISTERS}"
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %nctaid.x;\n"
        "ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; ld.param.u32 %r5, [p2]; mov.u32 %r8, 0; mov.u32 %r9, 0;\n"
        "mad.lo.u32 %r6, %r2, %r3, %r1; mul.wide.u32 %x3, %r6, 4; add.s64 %x3, %x3, %x1; add.u32 %r7, %r2, 1;\n"
        "rem.u32 %r7, %r7, %r4; mad.lo.u32 %r7, %r7, %r3, %r1; mul.wide.u32 %x4, %r7, 4; add.s64 %x4, %x4, %x1;\n"
        f"ROUND: st.global.u32 [%x3], %r8; {barrier.format(1)}\nld.global.u32 %r11, [%x4]; {barrier.format(2)}\n"
        "add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, %r5; @%p3 bra ROUND; ret;\n}\n"
    )


def contended() -> str:
    """All threads increment one word by compare-and-swap."""
    return (
        f"{HEADER}.visible .entry k(.param .u64 p0)\n{{\n{REGISTERS}"
        "ld.param.u64 %x1, [p0]; ld.relaxed.gpu.global.u32 %r1, [%x1];\n"
        "AGAIN: add.u32 %r2, %r1, 1; mov.u32 %r3, %r1; atom.acq_rel.gpu.global.cas.b32 %r1, [%x1], %r3, %r2;\n"
        "setp.ne.u32 %p1, %r1, %r3; @%p1 bra AGAIN; ret;\n}\n"
    )


def add_repeatedly(a: np.ndarray, f: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        for _ in range(500):
            a = a + a
            f = f + f


def quickstart() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "quickstart.py"
    spec = importlib.util.spec_from_file_location("quickstart", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report_modes(what: str, call: Callable[[dict[str, bool]], object], repeat: int) -> None:
    """Prints the time of a launch without checks, with all of them, and with the profile too."""
    times = []
    for options in MODES.values():
        call(options)
        times.append(best(lambda o=options: call(o), repeat))
    print(f"{what}: " + ", ".join(f"{name} {t * 1e3:.2f} ms" for name, t in zip(MODES, times, strict=True)))


def report_order() -> None:
    def barriers(options: dict[str, bool]) -> None:
        words, arrived = np.zeros(64 * 32, np.uint32), np.zeros(1, np.uint32)
        run(grid_barriers(), "k", (64,), (32,), [pointer(words), pointer(arrived), 20], **options)

    def swaps(options: dict[str, bool], threads: int) -> None:
        word = np.zeros(1, np.uint32)
        run(contended(), "k", (1,), (threads,), [pointer(word)], **options)
        assert word[0] == threads

    def sums(options: dict[str, bool]) -> None:
        words, flags = np.zeros(200, np.uint32), np.zeros(200, np.uint32)
        run(look_back(), "k", (200,), (32,), [pointer(words), pointer(flags)], **options)
        assert words[-1] == 199 * 200 // 2

    report_modes("grid barrier, 64 CTAs, 40 times", barriers, 3)
    for threads in (40, 80, 160, 320):
        report_modes(f"compare-and-swap by {threads} threads", lambda o, t=threads: swaps(o, t), 3)
    report_modes("look-back, 200 CTAs", sums, 3)


def report_kernels() -> None:
    source = np.random.default_rng(0).random((512, 512), np.float32)
    target = np.zeros_like(source)
    tiles = (8, 16)
    report_modes(
        "copy of 512 x 512, 16 bytes a thread", lambda o: tj.simulate(copy_tiles, tiles, source, target, **o), 15
    )
    assert (source == target).all()
    line = np.arange(32, dtype=np.float32)
    report_modes("tiny launch", lambda o: tj.simulate(copy_line, 1, line, line.copy(), **o), 100)
    q = quickstart()
    image = q.picture(q.HEIGHT, q.WIDTH)
    out = np.empty_like(image)
    grid = (tj.cdiv(q.WIDTH, q.TILE[1]), tj.cdiv(q.HEIGHT, q.TILE[0]))
    report_modes("quickstart, 1920 x 1080", lambda o: tj.simulate(q.tone_map, grid, image, out, 0.8, 1 / 2.2, **o), 3)


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
    args = [pointer(source, writable=False), pointer(target, initialized=False)]
    report_modes("copy of 512 x 512, 4 bytes a thread", lambda o: run(text, "k", (256,), (256,), args, **o), 7)
    report_kernels()
    report_order()
    text = chain(1000)

    def fresh() -> None:
        parse.cache_clear()
        translate.cache_clear()
        translate(text, "k", 0)

    count = len(translate(text, "k", 0).function.body)
    print(f"translation: {best(fresh) / count * 1e6:.1f} us an instruction")


if __name__ == "__main__":
    main()
