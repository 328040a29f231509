"""Barriers, warp-level exchange, jumps, calls and the end of a thread."""

from __future__ import annotations

import numpy as np

from ..decode.emitter import BlockWriter, Entries, Fidelity, Match, approximated, expression, nothing, paired, statement
from ..decode.names import PTX_DTYPE
from ..decode.ptx import call_operands


def barrier(e: BlockWriter, m: Match) -> None:
    """Emit .sync, .arrive or .red of bar or barrier, which ends a basic block; the machine records the arrivals."""
    operands = list(e.ins.operands)
    how = m["how"]
    result = operands.pop(0) if how == "red" else ""
    predicate = operands.pop() if how == "red" else ""
    if how == "red" and not operands:
        e.fail(f"{e.ins.root}.red needs a barrier number")
    number = e.source(operands[0], "u4")
    count = e.source(operands[1], "u4") if len(operands) > 1 else "None"
    aligned = e.ins.root == "bar" or m["aligned"] is not None
    if how == "arrive" and count == "None":
        e.fail(f"{e.ins.root}.arrive needs a thread count")
    value = e.source(predicate, "p") if predicate else "None"
    e.extra = f"({how!r}, {number}, {count}, {aligned}, {value}, {m.get('op') or ''!r})"
    if result:
        # the machine writes the result when the barrier completes
        e.barrier_result(result, "u4" if m["op"] == "popc" else "p")


def warp_barrier(e: BlockWriter, m: Match) -> None:
    e.stmt(f"S.warp_sync({e.src(0, 'u4')}, {e.pc})")


def shfl(e: BlockWriter, m: Match) -> None:
    value, lane, clamp = e.src(1, "u4"), e.src(2, "u4"), e.src(3, "u4")
    mask = e.src(4, "u4") if m["sync"] else "None"
    both = e.temp(f"S.shfl({m['mode']!r}, {value}, {lane}, {clamp}, {mask}, {e.pc})")
    write_both(e, both)


def write_both(e: BlockWriter, both: str) -> None:
    """Assign the elements of the pair `both` to the destination `r|p`, or only the first to `r`."""
    e.write_each(paired(e.ins.operands[0])[:2], ("u4", "p"), both)


def vote(e: BlockWriter, m: Match) -> None:
    mask = e.src(2, "u4") if m["sync"] else "None"
    call = f"S.warps.vote({m['mode']!r}, {e.src(1, 'p')}, {mask}, {e.pc})"
    e.dst("u4" if m["mode"] == "ballot" else "p", call)


def match(e: BlockWriter, m: Match) -> None:
    both = e.temp(f"S.warps.match({m['mode']!r}, {e.src(1, PTX_DTYPE[m['t']])}, {e.src(2, 'u4')}, {e.pc})")
    write_both(e, both)


def redux(e: BlockWriter, m: Match) -> None:
    dtype = PTX_DTYPE[m["t"]]
    value = f"abs({e.src(1, dtype)})" if m.get("abs") else e.src(1, dtype)
    e.dst(dtype, f"S.warps.redux({m['op']!r}, {value}, {e.src(2, 'u4')}, {e.pc}, {bool(m.get('nan'))})")


def elect(e: BlockWriter, m: Match) -> None:
    both = e.temp(f"S.elect({e.src(1, 'u4')}, {e.pc})")
    write_both(e, both)


def call(e: BlockWriter, m: Match) -> None:
    """Emit a call of vprintf(format, arguments), __breakpoint(text, values) or __assertfail; others are an error."""
    results, name, arguments, _ = call_operands(e.ins)
    if name == "vprintf" and len(arguments) == 2:
        values = [e.read(f"{x}+0", "u8") for x in arguments]
        printed = e.temp(f"S.vprintf({e.pc}, {values[0]}, {values[1]})")
        for result in results:
            e.names.register_bits[f"{result}+0"] = 32
            e.write(f"{result}+0", "u4", printed)
        return
    if name == "__breakpoint":
        text, place = [e.read(f"{x}+0", "u8") for x in arguments]
        e.stmt(f"S.breakpoint({text}, {place})")
        return
    if name == "__assertfail":
        values = [e.read(f"{x}+0", "u4" if i == 2 else "u8") for i, x in enumerate(arguments)]
        e.stmt(f"S.assertfail({e.pc}, {', '.join(values)})")
        return
    e.fail(f"call of {name}: vprintf must have two arguments")


def check_stack(e: BlockWriter, m: Match) -> None:
    """Emit a check that the stack has room for a call. Operands: [%fp], the link register, site, the frame's size."""
    frame, link, site, size = e.ins.operands
    e.stmt(f"S.check_stack({e.pc}, {e.read(frame.strip('[]'), 'u8')}, {e.source(link, 'u4')}, {site}, {size})")


def index_of_callee(e: BlockWriter, m: Match) -> None:
    """Emit a search for a function's address. Operands: the result, the address, the functions' names."""
    target, source, names = e.ins.operands
    addresses = [e.module.code_addresses[x.strip()] for x in names.strip("()").split(",")]
    table = e.names.value(np.array(addresses, np.uint64))
    e.write(target, "u4", f"S.index_of_callee({e.pc}, {e.read(source, 'u8')}, {table})")


_ALIGNED = r"(?P<aligned>\.aligned)?"
_BARRIER = (
    (r"(?:\.cta)?\.(?P<how>sync|arrive)" + _ALIGNED, barrier),
    (r"(?:\.cta)?\.(?P<how>red)\.(?P<op>popc)" + _ALIGNED + r"\.u32", barrier),
    (r"(?:\.cta)?\.(?P<how>red)\.(?P<op>and|or)" + _ALIGNED + r"\.pred", barrier),
)
#: instructions that `decode.functions` inserts
INTERNAL: Entries = {"call": ((r"\.%stack", check_stack), (r"\.%index", index_of_callee))}
ENTRIES: Entries = {
    "bar": (*_BARRIER, (r"\.warp\.sync", warp_barrier)),
    "barrier": _BARRIER,
    "shfl": ((r"(?P<sync>\.sync)?\.(?P<mode>up|down|bfly|idx)\.b32", shfl),),
    "vote": ((r"(?P<sync>\.sync)?\.(?P<mode>all|any|uni)\.pred", vote),
             (r"(?P<sync>\.sync)?\.(?P<mode>ballot)\.b32", vote)),
    "activemask": ((r"\.b32", expression("u4", "S.warps.members(None, -1)")),),
    "match": ((r"\.(?P<mode>any|all)\.sync\.(?P<t>b32|b64)", match),),
    "redux": ((r"\.sync\.(?P<op>add|min|max)\.(?P<t>[us]32)", redux),
              (r"\.sync\.(?P<op>and|or|xor)\.(?P<t>b32)", redux),
              (r"\.sync\.(?P<op>min|max)(?P<abs>\.abs)?(?P<nan>\.NaN)?\.(?P<t>f32)", redux)),
    "elect": ((r"\.sync", elect),),
    "bra": ((r"(?:\.uni)?", nothing),),
    "brx": ((r"\.idx(?:\.uni)?", nothing),),
    "ret": ((r"(?:\.uni)?", nothing),),
    "exit": ((r"", nothing),),
    "call": ((r"(?:\.uni)?", call, Fidelity(
        "exact", "vprintf, __assertfail, __breakpoint; functions of the PTX become part of the kernel", races=False)),),
    "trap": ((r"", statement("S.trap({pc})")),),
    "brkpt": ((r"", nothing, approximated("ignored")),),
    "nanosleep": ((r"\.u32", nothing, Fidelity("exact", "takes no time")),),
    "pmevent": ((r"(?:\.mask)?", nothing),),
    "griddepcontrol": ((r"\.(?:launch_dependents|wait)", nothing, Fidelity("exact", "launches do not overlap")),),
}
