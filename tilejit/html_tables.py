"""Tables as aligned text, and HTML for notebooks: tables and scrollable boxes, in the colors of the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

#: style of a box of limited size, with scroll bars if the content is larger
_BOX = "max-height:32em;max-width:100%;overflow:auto"

_LEFT = "style='text-align:left'"


def escaped(content: object) -> str:
    """Return `content` as text, escaped for HTML elements and quoted attributes."""
    # imported here, because the import takes 2 ms, and most programs show no HTML
    import html

    return html.escape(str(content))


def text_box(content: str) -> str:
    """Return preformatted text in a scrollable box."""
    return f"<pre style='{_BOX}'>{escaped(content)}</pre>"


def box(title: str, *parts: str) -> str:
    """Return a scrollable box with a title above other parts, all of which are HTML already."""
    return f"<div style='{_BOX}'>{title}{''.join(parts)}</div>"


def facts_table(named: Mapping[str, object]) -> str:
    """Return a table with a row for each name and its value; only the values are escaped."""
    rows = "".join(f"<tr><th>{what}</th><td>{escaped(fact)}</td></tr>" for what, fact in named.items())
    return f"<table>{rows}</table>"


def rows_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, is_html: bool = False) -> str:
    """Return a table with headings. is_html: True if the cells of `rows` are HTML already."""
    heads = "".join(f"<th {_LEFT}>{escaped(heading)}</th>" for heading in headings)
    body = "".join(
        "<tr>" + "".join(f"<td {_LEFT}>{cell if is_html else escaped(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table as text, with its columns aligned."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
