"""The one table of instructions beyond scalar code.

LLVM does scalar arithmetic, addresses, plain loads and stores, and control flow. Every other instruction stands here
once, as inline assembly: its text, its operands, the oldest target and PTX version that have it, and its meaning.
A module's `.version` is the newest of what its target and the instructions in it need, and no newer.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ops.gemm import MMA, Mma
from ..target import Target


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """One instruction, or a short sequence that belongs together.

    text: in LLVM's inline assembly syntax: `$0` is the first operand, outputs first; `$$` is a dollar sign. An address
    in shared memory stands alone in its brackets, `[$0]`, where a constant may follow it.
    outputs, inputs: constraint letters: r, l, h, f, d for 32-, 64-, 16-bit, float32, float64 registers, n for a
    constant, b for a predicate.
    since: the oldest target, as 90 for sm_90. ptx: the oldest PTX version, as (major, minor).
    only: the targets that have it, where that isn't all since `since`.
    memory: it reads, writes or orders memory. convergent: it may not be moved into or out of divergent code.
    tied: it also takes any number of 32-bit registers and returns them, so that what uses them stays behind it.
    """

    name: str
    text: str
    outputs: str
    inputs: str
    since: int
    ptx: tuple[int, int]
    meaning: str
    only: tuple[str, ...] = ()
    memory: bool = False
    convergent: bool = False
    tied: bool = False

    def missing(self, target: Target) -> str | None:
        """Why `target` doesn't have it, or None where it does."""
        if self.only and target.name not in self.only:
            return f"needs {' or '.join(self.only)}; target is {target}"
        if target.number < self.since:
            return f"needs sm_{self.since} or newer; target is {target}"
        return None


TCGEN05_TARGETS = ("sm_100a", "sm_101a", "sm_103a", "sm_110a")

#: 32-bit registers a thread for each unit of a tcgen05 shape's `.xN`, and the greatest N
TCGEN05_REGISTERS = {"32x32b": (1, 128), "16x64b": (1, 128), "16x128b": (2, 64), "16x256b": (4, 32)}


def _sync(name: str, text: str, inputs: str, meaning: str) -> MachineInstruction:
    return MachineInstruction(name, text, "", inputs, 75, (6, 0), meaning, memory=True, convergent=True)


_BARRIERS = (
    _sync("bar.sync", "bar.sync 0;", "", "waits for all threads of the CTA; orders their memory accesses"),
    _sync("bar.warp.sync", "bar.warp.sync -1;", "", "waits for all lanes of the warp; orders their memory accesses"),
    _sync("bar.sync.named", "bar.sync $0, 128;", "r", "waits for the 128 threads that name barrier $0"),
)


def _warp(name: str, text: str, outputs: str, inputs: str, meaning: str) -> MachineInstruction:
    return MachineInstruction(name, text, outputs, inputs, 75, (6, 0), meaning, convergent=True)


_WARP = (
    _warp("shfl.idx", "shfl.sync.idx.b32 $0, $1, $2, 31, -1;", "r", "rr", "$1 of lane $2"),
    _warp("shfl.bfly", "shfl.sync.bfly.b32 $0, $1, $2, 31, -1;", "r", "rr", "$1 of lane (own xor $2)"),
    _warp("shfl.up", "shfl.sync.up.b32 $0, $1, $2, 0, -1;", "r", "rr", "$1 of lane (own - $2), else own"),
    _warp("shfl.down", "shfl.sync.down.b32 $0, $1, $2, 31, -1;", "r", "rr", "$1 of lane (own + $2), else own"),
    _warp("vote.any", "vote.sync.any.pred $0, $1, -1;", "b", "b", "whether any lane's predicate holds"),
    _warp("vote.all", "vote.sync.all.pred $0, $1, -1;", "b", "b", "whether every lane's predicate holds"),
    _warp("vote.ballot", "vote.sync.ballot.b32 $0, $1, -1;", "r", "b", "bit i is lane i's predicate"),
    MachineInstruction(
        "elect", "elect.sync _|$0, -1;", "b", "", 90, (8, 0), "true in one lane of the warp", convergent=True
    ),
)

_CONVERSIONS = (
    MachineInstruction("cvt.rn.bf16.f32", "cvt.rn.bf16.f32 $0, $1;", "h", "f", 80, (7, 0), "to nearest even"),
    *(
        entry
        for kind in ("e4m3x2", "e5m2x2")
        for entry in (
            MachineInstruction(
                f"cvt.rn.satfinite.{kind}.f32", f"cvt.rn.satfinite.{kind}.f32 $0, $1, $2;", "h", "ff", 89, (8, 1),
                "two float32 to fp8, to nearest even, saturating; $1 to the upper byte",
            ),
            MachineInstruction(
                f"cvt.rn.f16x2.{kind}", f"cvt.rn.f16x2.{kind} $0, $1;", "r", "h", 89, (8, 1),
                "two fp8 to two float16, exactly",
            ),
        )
    ),
)  # fmt: skip


_PAIRS = (
    *(
        MachineInstruction(
            f"cvt.rn.{kind}.f32", f"cvt.rn.{kind}.f32 $0, $2, $1;", "r", "ff", 80, (7, 0),
            "two float32 to nearest even; $2 to the upper half",
        )
        for kind in ("f16x2", "bf16x2")
    ),
    *(
        MachineInstruction(
            f"{name}.rn.f32x2", f"{name}.rn.f32x2 $0, " + ", ".join(f"${k + 1}" for k in range(arity)) + ";",
            "l", "l" * arity, 100, (8, 6), f"{name} of two float32 at once, each to nearest even",
        )
        for name, arity in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3))
    ),
)  # fmt: skip


def _fast(name: str, meaning: str, ptx: tuple[int, int] = (6, 0)) -> MachineInstruction:
    return MachineInstruction(name, f"{name} $0, $1;", "f", "f", 75, ptx, meaning)


_APPROXIMATIONS = (
    _fast("ex2.approx.f32", "2 to the power $1"),
    _fast("lg2.approx.f32", "logarithm to base 2"),
    _fast("sin.approx.f32", "sine"),
    _fast("cos.approx.f32", "cosine"),
    _fast("tanh.approx.f32", "hyperbolic tangent", (7, 0)),
    _fast("rcp.approx.f32", "1 / $1"),
    _fast("sqrt.approx.f32", "square root"),
    _fast("rsqrt.approx.f32", "1 / square root"),
    MachineInstruction("div.approx.f32", "div.approx.f32 $0, $1, $2;", "f", "ff", 75, (6, 0), "$1 / $2"),
)

_ATOMICS = (
    MachineInstruction(
        "atom.global.cas.b32", "atom.global.cas.b32 $0, [$1], $2, $3;", "r", "lrr", 75, (6, 0),
        "the word at $1, which becomes $3 where it was $2", memory=True,
    ),
)  # fmt: skip


def _matrix(direction: str, num: int, trans: str) -> MachineInstruction:
    """ldmatrix or stmatrix of `num` 8x8 tiles of 16-bit elements; the shared address is each lane's row.

    source: PTX ISA, "Warp-level matrix load instruction: ldmatrix" and "... store instruction: stmatrix".
    """
    mnemonic = f"{direction}.sync.aligned.m8n8.x{num}{trans}.shared.b16"
    name = f"{direction}.x{num}{trans}"
    if direction == "ldmatrix":
        registers, place = _registers(0, num), f"${num}"
        text, outputs, inputs = f"{mnemonic} {registers}, [{place}];", "r" * num, "r"
        since, ptx, meaning = 75, (6, 5), f"{num} 8x8 tiles to registers"
    else:
        text, outputs, inputs = f"{mnemonic} [$0], {_registers(1, num)};", "", "r" + "r" * num
        since, ptx, meaning = 90, (7, 8), f"{num} 8x8 tiles from registers"
    return MachineInstruction(name, text, outputs, inputs, since, ptx, meaning, memory=True, convergent=True)


def _registers(first: int, count: int) -> str:
    return "{" + ", ".join(f"${first + i}" for i in range(count)) + "}"


_MATRIX = tuple(
    _matrix(direction, num, trans)
    for direction in ("ldmatrix", "stmatrix")
    for num in (1, 2, 4)
    for trans in ("", ".trans")
)


#: registers of an accumulator by its type: constraint letters
_SUMS = {"float32": "ffff", "float16": "rr", "int32": "rrrr"}


def _mma(form: Mma) -> MachineInstruction:
    """The product of one form; the registers of A, of B and of the accumulator."""
    sums, left, right = _SUMS[form.acc.name], 2 * form.halves, form.halves
    count = len(sums)
    listed = (_registers(0, count), _registers(count, left), _registers(count + left, right))
    text = f"{form.name} {', '.join(listed)}, {_registers(count + left + right, count)};"
    meaning = f"a 16x8 tile: {form.a} 16x{form.k} times {form.b} {form.k}x8, plus {form.acc}"
    return MachineInstruction(
        form.name, text, sums, "r" * (left + right) + sums, form.since, form.ptx, meaning, convergent=True
    )


_PRODUCTS = (
    *map(_mma, MMA),
    MachineInstruction(
        "cvt.rna.tf32.f32", "cvt.rna.tf32.f32 $0, $1;", "r", "f", 80, (7, 0), "to nearest, ties away from zero"
    ),
)


def _async(
    name: str, text: str, inputs: str, meaning: str, ptx: tuple[int, int] = (7, 0)
) -> MachineInstruction:
    """source: PTX ISA, "Data Movement and Conversion Instructions: cp.async"."""
    return MachineInstruction(name, text, "", inputs, 80, ptx, meaning, memory=True)


_COPY_ASYNC = (
    *(
        entry
        for size, cache in ((4, "ca"), (8, "ca"), (16, "cg"))
        for entry in (
            _async(
                f"cp.async.{size}", f"cp.async.{cache}.shared.global [$0], [$1], {size};", "rl",
                f"starts to copy {size} bytes from global $1 to shared $0",
            ),
            _async(
                f"cp.async.{size}.zfill", f"cp.async.{cache}.shared.global [$0], [$1], {size}, $2;", "rlr",
                f"starts to copy $2 bytes, and zeros up to {size}, from global $1 to shared $0",
            ),
            # ptxas refuses the predicate before PTX 7.5
            _async(
                f"cp.async.{size}.ignore", f"cp.async.{cache}.shared.global [$0], [$1], {size}, $2;", "rlb",
                f"starts to copy {size} bytes from global $1 to shared $0, zeros where $2", (7, 5),
            ),
        )
    ),
    _async("cp.async.commit", "cp.async.commit_group;", "", "the copies started since the last one are a group"),
    _async("cp.async.wait", "cp.async.wait_group $0;", "n", "waits until at most $0 groups are unfinished"),
)  # fmt: skip


def _tmem(name: str, text: str, outputs: str, inputs: str, meaning: str, tied: bool = False) -> MachineInstruction:
    """source: PTX ISA, "TensorCore 5th Generation Instructions"."""
    return MachineInstruction(
        name, text, outputs, inputs, 100, (8, 6), meaning, TCGEN05_TARGETS, memory=True, convergent=True, tied=tied
    )


def _tmem_transfers(shape: str) -> tuple[MachineInstruction, ...]:
    """tcgen05.ld and tcgen05.st of every size of one shape."""
    per, most = TCGEN05_REGISTERS[shape]
    entries: list[MachineInstruction] = []
    for num in (n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n <= most):
        count, size = per * num, f"{shape}.x{num}"
        load = f"tcgen05.ld.sync.aligned.{size}.b32 {_registers(0, count)}, [${count}];"
        store = f"tcgen05.st.sync.aligned.{size}.b32 [$0], {_registers(1, count)};"
        entries.append(_tmem(f"tcgen05.ld.{size}", load, "r" * count, "r", "starts to load registers from tmem"))
        entries.append(_tmem(f"tcgen05.st.{size}", store, "", "r" * (count + 1), "starts to store registers to tmem"))
    return tuple(entries)


_TMEM = (
    *(entry for shape in TCGEN05_REGISTERS for entry in _tmem_transfers(shape)),
    _tmem("tcgen05.wait.ld", "tcgen05.wait::ld.sync.aligned;", "", "", "waits for this thread's loads", tied=True),
    _tmem("tcgen05.wait.st", "tcgen05.wait::st.sync.aligned;", "", "", "waits for this thread's stores", tied=True),
    _tmem(
        "tcgen05.alloc", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [$0], $1;", "", "rr",
        "reserves $1 columns and writes their address to shared $0",
    ),
    _tmem(
        "tcgen05.relinquish", "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;", "", "",
        "this CTA reserves no more",
    ),
    _tmem("tcgen05.dealloc", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 $0, $1;", "", "rr", "frees $1 columns"),
    _tmem("tcgen05.fence.before", "tcgen05.fence::before_thread_sync;", "", "", "orders what is before a barrier"),
    _tmem("tcgen05.fence.after", "tcgen05.fence::after_thread_sync;", "", "", "orders what is after a barrier"),
)  # fmt: skip

_FENCES = (
    MachineInstruction(
        "fence.proxy.async", "fence.proxy.async;", "", "", 90, (8, 0),
        "orders ordinary accesses and those of the asynchronous proxy", memory=True,
    ),
)  # fmt: skip

#: 32 bytes in one access; LLVM writes it as a plain load or store once the PTX version has it
WIDE_ACCESS = "global.256"

_WIDE = (MachineInstruction(WIDE_ACCESS, "", "", "", 100, (8, 8), "ld.global or st.global of 32 bytes", memory=True),)

#: name -> instruction
TABLE: dict[str, MachineInstruction] = {
    entry.name: entry
    for entry in (
        *_BARRIERS, *_WARP, *_CONVERSIONS, *_PAIRS, *_APPROXIMATIONS, *_ATOMICS, *_MATRIX, *_PRODUCTS, *_COPY_ASYNC,
        *_TMEM, *_FENCES, *_WIDE,
    )
}  # fmt: skip
