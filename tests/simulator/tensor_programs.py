"""Pieces of tcgen05 kernels, and where the PTX ISA's figures put each register of each lane, cell by cell."""

#: shape -> nums that exist
NUMS = {
    "32x32b": [1, 2, 4, 8, 16, 32, 64, 128], "16x64b": [1, 2, 4, 8, 16, 32, 64, 128],
    "16x128b": [1, 2, 4, 8, 16, 32, 64], "16x256b": [1, 2, 4, 8, 16, 32], "16x32bx2": [1, 2, 4, 8, 16, 32, 64, 128],
}
EACH = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
WIDTH = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 1}


def registers_of(shape, num):
    return EACH[shape] * num


def columns_of(shape, num, split=0, packed=False):
    """How many columns an instruction spans."""
    return (2 if packed else 1) * WIDTH[shape] * num + split


def cell(shape, lane, register, split=0):
    """(row, 32-bit column) from the instruction's address on, read off figures 183 to 187.

    Every figure draws one repetition as a table of rows by threads; the next repetition continues to the right.
    """
    repetition, r = divmod(register, EACH[shape])
    if shape == "32x32b":
        # One row per thread.
        return lane, repetition
    if shape == "16x32bx2":
        # Threads 0-15 take the first access, 16-31 the second one.
        return (lane, repetition) if lane < 16 else (lane - 16, repetition + split)
    four, within = divmod(lane, 4)
    if shape == "16x64b":
        # Rows 0-7: threads 0, 2 | 4, 6 | ...; rows 8-15: threads 1, 3 | 5, 7 | ...
        return (four, 2 * repetition + within // 2) if within % 2 == 0 else (four + 8, 2 * repetition + within // 2)
    if shape == "16x128b":
        # r0: rows 0-7, r1: rows 8-15; four threads to a row, one column each.
        return four + 8 * r, 4 * repetition + within
    # r0, r1: rows 0-7, r2, r3: rows 8-15; four threads to a row, two columns each.
    return (four if r < 2 else four + 8), 8 * repetition + 2 * within + r % 2


START = """
.shared .align 4 .b8 slot[4];
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; and.b32 %r3, %r2, 3; shl.b32 %r3, %r3, 21; mov.u32 %r4, %ctaid.x;
setp.ne.u32 %p1, %r2, 0;
"""


def allocate(columns):
    """Warp 0 allocates; %r5 is the address for each warp, its own lanes in the upper half."""
    return f"""
    @%p1 bra ALLOCATED;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {columns};
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    ALLOCATED: bar.sync 0; ld.shared.b32 %r6, [slot]; add.u32 %r5, %r6, %r3;
    """


def free(columns):
    return f"""
    bar.sync 0; @%p1 bra FREED;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, {columns};
    FREED:
    """


WAIT_LD = "tcgen05.wait::ld.sync.aligned;\n"
WAIT_ST = "tcgen05.wait::st.sync.aligned;\n"


def names(first, count):
    return [f"%d{first + i}" for i in range(count)]


def ld(shape, num, first, address="%r5", packed=False, split=0):
    registers = ", ".join(names(first, registers_of(shape, num)))
    middle = f", {split}" if shape == "16x32bx2" else ""
    form = f"tcgen05.ld.sync.aligned.{shape}.x{num}{'.pack::16b' if packed else ''}.b32"
    return f"{form} {{{registers}}}, [{address}]{middle};\n"


def st(shape, num, first, address="%r5", packed=False, split=0):
    registers = ", ".join(names(first, registers_of(shape, num)))
    middle = f"{split}, " if shape == "16x32bx2" else ""
    form = f"tcgen05.st.sync.aligned.{shape}.x{num}{'.unpack::16b' if packed else ''}.b32"
    return f"{form} [{address}], {middle}{{{registers}}};\n"


def read_input(param, first, count):
    """Load `count` words of each thread from an array into registers."""
    lines = [
        "mov.u32 %r7, %ntid.x; mad.lo.u32 %r8, %r4, %r7, %r1;",
        f"ld.param.u64 %x1, [{param}]; mad.wide.u32 %x1, %r8, {4 * count}, %x1;",
    ]
    return "\n".join([*lines, *[f"ld.global.b32 {r}, [%x1+{4 * i}];" for i, r in enumerate(names(first, count))]])


def write_output(param, first, count):
    lines = [
        "mov.u32 %r7, %ntid.x; mad.lo.u32 %r8, %r4, %r7, %r1;",
        f"ld.param.u64 %x1, [{param}]; mad.wide.u32 %x1, %r8, {4 * count}, %x1;",
    ]
    return "\n".join([*lines, *[f"st.global.b32 [%x1+{4 * i}], {r};" for i, r in enumerate(names(first, count))], ""])


DATA = ".reg .b32 %d<520>;\n"
