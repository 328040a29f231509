"""`python -m tilejit layouts`: the place of each element of a layout."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import numpy as np

from .. import layout as layouts
from ..errors import LaunchError, LayoutError, TilejitError
from ..layout import Swizzle, TileLayout
from ..wording import with_article
from .schema import VERSION, AxisData, LayoutDocument

#: maximum number of elements, copies counted, whose places are listed
MOST = 1 << 16
_EXAMPLE = "S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]"


def places(expression: str, shape: str | None, style: str, version: str) -> Iterator[str]:
    """Yield the lines of a report on the layout that a Python expression gives, with the names of `tilejit.layout`.

    shape: extents of the tile with commas between them; by default those of the layout. style: "text" or "json".
    raises: TilejitError for bad input.
    """
    data = _report(_evaluated(expression), shape, version)
    yield from as_text(data) if style == "text" else (json.dumps(data),)


def _evaluated(expression: str) -> TileLayout:
    names = {name: getattr(layouts, name) for name in layouts.__all__}
    try:
        value = eval(expression, names)
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


def _report(layout: TileLayout, shape: str | None, version: str) -> LayoutDocument:
    extents = list(layout.shape) if shape is None else _extents(shape)
    if math.prod(extents) != layout.size():
        raise LayoutError(
            f"{layout!r} has {layout.size():,} elements, but shape {tuple(extents)} has {math.prod(extents):,}",
            hint="leave the shape out, or write one with as many elements",
        )
    copies = math.prod(each.extent for each in layout.replica)
    if copies * layout.size() > MOST:
        raise LayoutError(
            f"{layout!r} has {copies * layout.size():,} places; at most {MOST:,} can be listed",
            hint="use a smaller layout",
        )
    axes: list[AxisData] = [
        {"axis": name, "copies": np.reshape(table, (copies, -1)).tolist()} for name, table in layout.map_all().items()
    ]
    return {"version": VERSION, "tilejit": version, "layout": repr(layout), "shape": extents, "axes": axes}


def _extents(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise LaunchError(f"--shape {text} is not integers with commas between them", hint="write --shape 8,8")
    return list(map(int, parts))


def as_text(data: LayoutDocument) -> Iterator[str]:
    """Yield the layout, then a table of each axis: a line for each row of the tile, copies below each other."""
    yield f"{data['layout']}, shape ({', '.join(map(str, data['shape']))})"
    columns = data["shape"][-1] if data["shape"] else 1
    for axis in data["axes"]:
        width = max((len(str(place)) for copy in axis["copies"] for place in copy), default=1)
        for number, copy in enumerate(axis["copies"], 1):
            yield f"{axis['axis']}{f', copy {number}' if len(axis['copies']) > 1 else ''}:"
            for start in range(0, len(copy), max(1, columns)):
                yield "  " + " ".join(f"{place:>{width}}" for place in copy[start : start + columns])
