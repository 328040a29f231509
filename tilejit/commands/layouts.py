"""`python -m tilejit layouts`: the place of each element of a layout."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .. import layout as names_of_layouts
from ..errors import LaunchError, LayoutError, TilejitError
from ..layout import Swizzle, TileLayout
from ..wording import with_article
from .kernel_files import extents_of, printing_to_stderr
from .schema import VERSIONS, LayoutDocument, formatted

#: maximum number of elements, copies counted, whose places are listed
MOST = 1 << 16
_EXAMPLE = "S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]"


@printing_to_stderr()
def layouts(expression: str, shape: str | None, style: str) -> Iterator[str]:
    """Return the lines of a report on the layout that a Python expression gives, with the names of `tilejit.layout`.

    shape: extents of the tile with commas between them; by default those of the layout. style: "text" or "json".
    raises: TilejitError for bad input.
    """
    layout = _evaluated(expression)
    extents = layout.shape if shape is None else extents_of("--shape", shape)
    if math.prod(extents) != layout.size():
        raise LayoutError(
            f"{layout!r} has {layout.size():,} elements, but shape {extents} has {math.prod(extents):,}",
            hint="leave the shape out, or write one with as many elements",
        )
    copies = math.prod(each.extent for each in layout.replica)
    if copies * layout.size() > MOST:
        raise LayoutError(
            f"{layout!r} has {copies * layout.size():,} places; at most {MOST:,} can be listed",
            hint="use a smaller layout",
        )
    try:
        tables = layout.map_all().items()
    except OverflowError:
        raise LayoutError(f"{layout!r} has places beyond 64 bits", hint="use smaller strides") from None
    data: LayoutDocument = {
        **VERSIONS, "layout": repr(layout), "shape": list(extents),
        "axes": [{"axis": name, "copies": np.reshape(table, (copies, -1)).tolist()} for name, table in tables],
    }
    return formatted(style, data, _text(data))


def _evaluated(expression: str) -> TileLayout:
    names = {name: getattr(names_of_layouts, name) for name in names_of_layouts.__all__}
    try:
        value = eval(expression, names)
        # fails for integers of very many digits
        repr(value)
    except TilejitError:
        raise
    except Exception as error:
        # an expression may raise anything
        raise LaunchError(
            f"{expression} raised {type(error).__name__}: {error}",
            hint=f"write an expression such as {_EXAMPLE}, with names of tilejit.layout",
        ) from error
    if not isinstance(value, TileLayout):
        what = "a swizzle, which needs a layout" if isinstance(value, Swizzle) else with_article(type(value).__name__)
        raise LaunchError(f"{expression} is {what}", hint=f"write a layout, such as {_EXAMPLE}")
    return value


def _text(data: LayoutDocument) -> Iterator[str]:
    """Yield the layout, then a table of each axis: a line for each row of the tile, copies below each other."""
    yield f"{data['layout']}, shape ({', '.join(map(str, data['shape']))})"
    columns = data["shape"][-1] if data["shape"] else 1
    for axis in data["axes"]:
        width = max(len(str(place)) for copy in axis["copies"] for place in copy)
        for number, copy in enumerate(axis["copies"], 1):
            yield f"{axis['axis']}{f', copy {number}' if len(axis['copies']) > 1 else ''}:"
            for start in range(0, len(copy), columns):
                yield "  " + " ".join(f"{place:>{width}}" for place in copy[start : start + columns])
