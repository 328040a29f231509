"""Faults of one line each, as data: the tests must catch every one of them.

The package imports with each fault, and computes something else than without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Fault(NamedTuple):
    """A change of one line. file: within the package. old, new: the line without its indentation."""

    name: str
    file: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """The file's text with the fault. Raise ValueError unless the old line is in it exactly once."""
        lines = text.split("\n")
        found = [number for number, line in enumerate(lines) if line.strip() == self.old]
        if len(found) != 1:
            raise ValueError(f"fault {self.name!r}: {self.file} has {len(found)} lines {self.old!r}")
        line = lines[found[0]]
        lines[found[0]] = line[: len(line) - len(line.lstrip())] + self.new
        return "\n".join(lines)

    def plant(self, root: Path) -> None:
        """Write the fault into a copy of the project."""
        path = root / "tilejit" / self.file
        path.write_text(self.applied(path.read_text()))


FAULTS = (
    # codegen
    Fault(
        "a loop's index may wrap past the greatest value of its type",
        "codegen/counting.py",
        "return greatest_stop - 1 + greatest_step <= high",
        "return greatest_stop - 1 + greatest_step <= high + 1",
    ),
    Fault(
        "a float above an unsigned type's range wraps to 0 instead of saturating",
        "codegen/casts.py",
        'low = w.intrinsic("i32", "llvm.umin.i32", ("i32", whole), ("i32", str(2**dtype.bits - 1)))',
        'low = w.intrinsic("i32", "llvm.umin.i32", ("i32", whole), ("i32", str(2**dtype.bits)))',
    ),
    # commands
    Fault(
        "the extents of a grid are taken in reverse order",
        "commands/kernel_files.py",
        "extents = _integers(text)",
        "extents = _integers(text)[::-1]",
    ),
    Fault(
        "only the last copy of a layout's places is listed",
        "commands/layouts.py",
        '"axes": [{"axis": name, "copies": np.reshape(table, (copies, -1)).tolist()} for name, table in tables],',
        '"axes": [{"axis": name, "copies": np.reshape(table, (copies, -1))[-1:].tolist()} for name, table in tables],',
    ),
    # executable
    Fault(
        "lists, such as a cluster's extents, are read from a file in reverse order",
        "executable/encoding.py",
        "return tuple([decoded(item, spans, classes) for item in value])",
        "return tuple([decoded(item, spans, classes) for item in value[::-1]])",
    ),
    Fault(
        "the census counts a vector access as one element",
        "executable/census.py",
        "moved[access[1]] += count * int(access[2] or 1) * int(access[3]) // 8",
        "moved[access[1]] += count * int(access[3]) // 8",
    ),
    # frontend
    Fault(
        "the greatest index of a range loop is taken to be one less",
        "frontend/loops.py",
        "low, high = min(known[::2]), max(known[1::2])",
        "low, high = min(known[::2]), max(known[1::2]) - 1",
    ),
    Fault(
        "split gives the parts of a tile in reverse order",
        "frontend/reductions.py",
        "return Items(tuple(section(tile, axis, k * width, width).at(ctx.span(node)) for k in range(count)))",
        "return Items(tuple(section(tile, axis, k * width, width).at(ctx.span(node)) for k in range(count)[::-1]))",
    ),
    # ir
    Fault(
        "x % n becomes x where x may be n",
        "ir/arithmetic/build.py",
        "if low is not None and high is not None and low >= 0 and high < by:",
        "if low is not None and high is not None and low >= 0 and high <= by:",
    ),
    Fault(
        "regions that share their last and first element are taken to be apart",
        "ir/analyses/overlap.py",
        "apart = build.logical_or(apart, build.less_equal(build.add(first, build.const(n, int64)), second))",
        "apart = build.logical_or(apart, build.less_equal(build.add(first, build.const(n - 1, int64)), second))",
    ),
    Fault(
        "a checked build lets a region end one element past its tensor",
        "ir/checks/indices.py",
        "cond = _within(start, build.add(build.sub(extent, count), 1), conditions, may_be_negative=may_be_larger)",
        "cond = _within(start, build.add(build.sub(extent, count), 2), conditions, may_be_negative=may_be_larger)",
    ),
    Fault(
        "the verifier lets a region end one element past its buffer",
        "ir/verify/memory.py",
        "if (high is not None and high < 0) or (low is not None and low + extent > size):",
        "if (high is not None and high < 0) or (low is not None and low + extent > size + 1):",
    ),
    # isa
    Fault(
        "atomic sums of vectors are emitted for sm_80, which lacks them",
        "isa/atomics.py",
        "since=90 if is_new else 75, ptx=(8, 1) if form.count > 1 else (7, 8) if is_new else (6, 3), memory=True,",
        "since=80 if is_new else 75, ptx=(8, 1) if form.count > 1 else (7, 8) if is_new else (6, 3), memory=True,",
    ),
    Fault(
        "the barriers of warpgroups begin with the last one that users may name",
        "isa/barriers.py",
        "OF_WARPGROUPS = 8",
        "OF_WARPGROUPS = 7",
    ),
    # kernels
    Fault(
        "a product's columns after the first tile get the bias of the first",
        "kernels/flex.py",
        "tj.wg.copy(near[g], bias[c : c + BN])",
        "tj.wg.copy(near[g], bias[0:BN])",
    ),
    Fault(
        "leading dimensions merge though their elements aren't equally far apart",
        "kernels/arguments.py",
        "elif s != outer:",
        "elif s < outer:",
    ),
    # layout
    Fault(
        "a swizzle is taken to repeat before all of its rows have passed",
        "layout/swizzle.py",
        "return 1 << (self.base + self.shift + self.bits)",
        "return 1 << (self.base + self.shift)",
    ),
    Fault(
        "a negative stride shortens the span of a tiled layout",
        "layout/tiling.py",
        "span[it.axis] += (it.extent - 1) * abs(it.stride)",
        "span[it.axis] += (it.extent - 1) * it.stride",
    ),
    # lower
    Fault(
        "a fold across lanes swaps its operands",
        "lower/moves/fold.py",
        'upper = self.b.let("upper", build.not_equal(build.bitwise_and(self.thread, distance), 0))',
        'upper = self.b.let("upper", build.equal(build.bitwise_and(self.thread, distance), 0))',
    ),
    Fault(
        "a vector may cross the end of a run that it doesn't divide",
        "lower/schedule/access.py",
        "if not ragged and run % width:",
        "if not ragged and width > run:",
    ),
    Fault(
        "a product takes the first element past its depth for one of its own",
        "lower/variants/gemm_mma.py",
        "Within.ALL if last < depth.count else Within.SOME if first < depth.count else Within.NONE",
        "Within.ALL if last <= depth.count else Within.SOME if first < depth.count else Within.NONE",
    ),
    # ops
    Fault(
        "a sum of negative zeros is positive",
        "ops/reduce.py",
        "return -0.0 if dtype.is_float else 0",
        "return 0.0 if dtype.is_float else 0",
    ),
    Fault(
        "an exact quotient by a negative divisor is one too small",
        "ops/elementwise/division.py",
        "is_inexact_negative = remainder.differs(0) & ((remainder ^ divisor) < 0)",
        "is_inexact_negative = (remainder ^ divisor) < 0",
    ),
    # runtime
    Fault(
        "arrays with less aligned strides share the variant of more aligned ones",
        "runtime/signature.py",
        "return facts.key, view.align",
        "return facts.key, view.pointer_align",
    ),
    Fault(
        "a generated launcher takes 2**31 for an int32",
        "runtime/fast_launch/parts.py",
        'key = (f"-2147483648 <= {number} <= 2147483647",) if has_two_types else ()',
        'key = (f"-2147483648 <= {number} <= 2147483648",) if has_two_types else ()',
    ),
    # sanitize
    Fault(
        "a clean kernel hides the findings of another one",
        "sanitize/report.py",
        'return min(verdicts, key=order.index, default="incomplete")',
        'return max(verdicts, key=order.index, default="incomplete")',
    ),
    Fault(
        "an array that is asked to hold one value holds zeros",
        "sanitize/arguments.py",
        "return np.full(self.shape, self.value, self.dtype)",
        "return np.zeros(self.shape, self.dtype)",
    ),
    # simulator
    Fault(
        "a store after a single thread's read is no race",
        "simulator/checks/races.py",
        "touched |= shadow.first_reads[cells] >= base",
        "touched |= shadow.last_reads[cells] >= base",
    ),
    Fault(
        "an atomic inc of a number above its bound counts from the bound",
        "simulator/machine/atomics.py",
        'last = bound if name == "inc" else np.zeros_like(bound)',
        "last = np.zeros_like(bound)",
    ),
    Fault(
        "a signed remainder has the divisor's sign",
        "simulator/numerics/integer.py",
        'r = a % b if a.dtype.kind == "u" else np.fmod(a, b)',
        'r = a % b if a.dtype.kind == "u" else np.mod(a, b)',
    ),
    # testing
    Fault(
        "arrays that are asked to be misaligned are aligned",
        "testing/arrays.py",
        "start = low + (residue - room.ctypes.data) % 128",
        "start = low + -room.ctypes.data % 128",
    ),
    Fault(
        "check compares expected values with the first arrays instead of the last",
        "testing/comparing.py",
        "return {**arguments, **dict(zip(outputs[len(outputs) - len(values) :], values, strict=True))}",
        "return {**arguments, **dict(zip(outputs[: len(values)], values, strict=True))}",
    ),
    # tuning
    Fault(
        "the launch that warms a configuration up is timed",
        "tuning/search.py",
        "trial.samples.extend(first if bench.is_exact else ())",
        "trial.samples.extend(first)",
    ),
    Fault(
        "the first parameter of a tuning key is ignored",
        "tuning/kernel.py",
        "return [each for name in self.choices.key for each in passed if is_inside(each[0], name)]",
        "return [each for name in self.choices.key[1:] for each in passed if is_inside(each[0], name)]",
    ),
    # top level
    Fault(
        "a device newer than all targets gets one for another architecture alone",
        "target.py",
        "older = [t for t in TARGETS.values() if not t.is_arch_specific and t.number <= 10 * major + minor]",
        "older = [t for t in TARGETS.values() if t.number <= 10 * major + minor]",
    ),
    Fault(
        "an int32 and a uint32 are combined as int32",
        "dtypes.py",
        'bits = max(t.bits if t.kind == "int" else 2 * t.bits for t in highest)',
        'bits = max(t.bits if t.kind == "int" else t.bits for t in highest)',
    ),
)
