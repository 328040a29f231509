"""Entries of generated launchers: a loaded kernel, and memory for its parameters.

A launch takes a slot from its entry's pool, writes pointers, scalars and tensor maps to it and returns it. `list.pop`
and `append` are atomic, so no lock is needed; with a lock, a finalizer that launches the same kernel could deadlock.

```
slot   pointers  scalars  maps │ extents  strides  record │ scratch        │ addresses of the parameters
       at each launch          │ when the slot is created │ at each launch │
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import LaunchError
from ...executable.record import Field, Packing, field_of, field_of_scalar
from ...ir.params import AssertionsParam, BarrierParam, TensorMapParam
from ...ir.types import ScalarType
from ..arrays import Argument, ArrayView
from ..device import DirectLaunch
from ..packing import ParameterBlock, Workspace, argument_of, getter
from ..rounding import checked_packer
from .generated import ResolvedLaunch
from .text import ALIGN, Bounds, LauncherText, overlapping_pairs

if TYPE_CHECKING:
    from ...executable import Executable

#: memory of the parameters; the address of the array of their addresses, or the block if `SlotLayout.launcher` needs
#: it; and the block, which owns both
Slot = tuple[Any, Any, ParameterBlock]

_POINTER, _WORD_BYTES = Field("Q", 8), 8


def bounds_of(views: Sequence[ArrayView]) -> Bounds:
    """Return, for each array, the offsets in bytes from its address to its lowest byte and to its end."""
    return tuple((view.facts.low_bytes, view.facts.high_bytes) for view in views)


def entry_key(text: LauncherText, key: tuple[Any, ...], pointers: Sequence[int], bounds: Bounds) -> tuple[Any, ...]:
    """Return the key of the launcher's second lookup; for disjoint, aligned arrays with memory, `key` itself."""
    overlapping = overlapping_pairs(pointers, bounds)
    residues = [p % ALIGN if p else -1 for p in pointers]
    if not overlapping and not any(residues):
        return key
    numbers = [i for i, _ in text.arrays]
    pairs = [(numbers.index(a), numbers.index(b)) for a, b in text.pairs]
    verdicts = [pair in overlapping for pair in pairs] if pairs or len(numbers) == 1 else [overlapping]
    return (key, *residues, *verdicts)


def special_entry(text: LauncherText, bounds: Bounds, check: Any) -> tuple[Any, ...]:
    """Return an entry with only bounds and `check`, for a key that has no entry for disjoint, aligned arrays."""
    return (True, bounds, *_limits(text, bounds), *(check if name == "check" else None for name in text.entry))


def entry_of(
    text: LauncherText, layout: SlotLayout, direct: DirectLaunch, bounds: Bounds, resolved: ResolvedLaunch, check: Any
) -> tuple[Any, ...]:
    """Return the entry that launches the kernel. check: compares tensors with those of this launch."""
    call = resolved.call
    assert call.first is not None
    pool: list[Slot] = []
    fields = {
        "device": call.first.facts.device,
        "launch": layout.launcher(direct, call.arguments),
        "handle": direct.handle,
        "threads": resolved.function.compiled.threads,
        "dynamic_bytes": direct.dynamic_bytes,
        "streams": direct.streams,
        "picked": resolved.picked,
        "pack": layout.packer(call.arguments),
        "pop": pool.pop,
        "push": pool.append,
        "new": layout.maker(call.arguments),
        "check": check,
    }
    return (False, bounds, *_limits(text, bounds), *(fields[name] for name in text.entry))


def _limits(text: LauncherText, bounds: Bounds) -> Iterator[int]:
    """Yield two bounds for each (a, b) of `text.pairs`: the arrays overlap if b's address minus a's is in between."""
    bounds_by_number = dict(zip((i for i, _ in text.arrays), bounds, strict=True))
    for a, b in text.pairs:
        (low_a, high_a), (low_b, high_b) = bounds_by_number[a], bounds_by_number[b]
        yield from (low_a - high_b, high_a - low_b) if high_a and high_b else (0, 0)


class SlotLayout:
    """The layout of a loaded kernel's parameters in a slot."""

    def __init__(self, text: LauncherText, executable: Executable, workspace: Workspace, warned: set[str]) -> None:
        index = executable.positions
        types = [kind for _, kind in executable.signature.arguments]
        scalars = [(i, kind.dtype) for i, kind in enumerate(types) if isinstance(kind, ScalarType)]
        scratch = {each.of for each in executable.scratch}
        late = [p for p in executable.params if not isinstance(p, (AssertionsParam, BarrierParam)) and p.of in scratch]
        maps = [p for p in executable.params if isinstance(p, TensorMapParam) and p not in late]
        numbers = [field_of_scalar(dtype) for _, dtype in scalars]
        written = Packing([*(_POINTER for _ in text.arrays), *numbers, *(field_of(p) for p in maps)])
        once = [p for p in executable.params if argument_of(p) is None and p not in late]
        constants, of_launch = Packing([field_of(p) for p in once]), Packing([field_of(p) for p in late])
        self._pack_into, self._count = written.pack_into, len(text.arrays) + len(numbers)
        arrays = [i for i, _ in text.arrays]
        if executable.widened:
            numbers_of = {i: len(text.arrays) + n for n, (i, _) in enumerate(scalars)}
            self._pack_into = checked_packer(self._pack_into, executable, numbers_of, warned)
        self._maps = [(index[p.of], arrays.index(index[p.of]), workspace.maps(p)) for p in maps]
        self._getters = [getter(p, index, workspace) for p in once]
        self._pack_once = constants.pack_into
        self._align_bytes = max(each.align_bytes for each in (written, constants, of_launch))
        self._start_bytes = -(-written.size_bytes // _WORD_BYTES) * _WORD_BYTES
        self._size_bytes = self._start_bytes + constants.size_bytes
        self._late = [getter(p, index, workspace) for p in late]
        self._pack_late = of_launch.pack_into
        self._late_bytes = -(-self._size_bytes // of_launch.align_bytes) * of_launch.align_bytes
        self._size_bytes = self._late_bytes + of_launch.size_bytes
        of_argument = dict(zip((*arrays, *(i for i, _ in scalars), *map(id, maps)), written.offsets, strict=True))
        others = zip((*once, *late), (
            *(self._start_bytes + at for at in constants.offsets), *(self._late_bytes + at for at in of_launch.offsets)
        ), strict=True)
        of_argument |= {id(p): at for p, at in others}
        self._offsets = [
            of_argument[id(p) if id(p) in of_argument else index[argument_of(p) or ""]] for p in executable.params
        ]

    def packer(self, arguments: Sequence[Argument]) -> Callable[..., None]:
        """Return a function that packs values and tensor maps into memory, for arrays with the facts of `arguments`."""
        if not self._maps:
            return self._pack_into
        maps = [(k, each.of(view.facts)) for i, k, each in self._maps if type(view := arguments[i]) is ArrayView]
        # the values are named parameters, because passing them on by `*` takes three times as long
        values = [f"v{k}" for k in range(self._count)]
        packed = [*values, *(f"map{n}[v{k}]" for n, (k, _) in enumerate(maps))]
        names = {f"map{n}": of_address for n, (_, of_address) in enumerate(maps)}
        pack: Callable[..., None] = eval(
            f"lambda memory, at, {', '.join(values)}: pack_into(memory, at, {', '.join(packed)})",
            {"pack_into": self._pack_into, **names},
        )
        return pack

    def launcher(self, direct: DirectLaunch, arguments: Sequence[Argument]) -> Callable[..., tuple[Any, ...]]:
        """Return `direct.launch`, or a function that first packs the addresses and extents of the launch's scratch."""
        if not self._late:
            return direct.launch
        getters, pack, at, enqueue = self._late, self._pack_late, self._late_bytes, direct.launch
        # only facts of the arrays matter, and entries don't keep arrays alive
        facts = [a._replace(pointer=0, owner=None, host=None) if type(a) is ArrayView else a for a in arguments]

        def launch(
            handle: Any, x: int, y: int, z: int, threads: int, one_y: int, one_z: int, dynamic_bytes: int, stream: Any,
            block: ParameterBlock, extra: int,
        ) -> tuple[Any, ...]:
            try:
                layout, blocks = direct.pin((x, y, z), facts, int(stream))
            except LaunchError:
                # the slow path tries again and raises the error
                return (True,)
            try:
                complete = [*facts, *layout.views(blocks)]
                pack(block.memory, at, *[get(complete) for get in getters])
                return enqueue(
                    handle, x, y, z, threads, one_y, one_z, dynamic_bytes, stream, block.address, extra
                )
            finally:
                direct.unpin(blocks)

        return launch

    def maker(self, arguments: Sequence[Argument]) -> Callable[[], Slot]:
        once = [get(arguments) for get in self._getters]

        def new() -> Slot:
            block = ParameterBlock(self._size_bytes, self._align_bytes, self._offsets)
            self._pack_once(block.memory, self._start_bytes, *once)
            return block.memory, block if self._late else block.address, block

        return new
