"""What notebooks show below a cell: tables in HTML that fit a screen, in the colours of the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

__all__ = ["box", "escaped", "facts_table", "rows_table", "text_box"]

#: a screen shows the beginning of what is higher or wider, and scrolls
_BOX = "max-height:32em;max-width:100%;overflow:auto"

_LEFT = "style='text-align:left'"


def escaped(content: object) -> str:
    """Text as HTML shows it, in elements and in quoted attributes."""
    # 2 ms to import, and most programs show no cells
    import html

    return html.escape(str(content))


def text_box(content: str) -> str:
    """Plain text, a part of which is shown."""
    return f"<pre style='{_BOX}'>{escaped(content)}</pre>"


def box(title: str, *parts: str) -> str:
    """Parts in HTML below a title in HTML."""
    return f"<div style='{_BOX}'>{title}{''.join(parts)}</div>"


def facts_table(named: Mapping[str, object]) -> str:
    """A table of two columns."""
    rows = "".join(f"<tr><th>{what}</th><td>{escaped(fact)}</td></tr>" for what, fact in named.items())
    return f"<table>{rows}</table>"


def rows_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, is_html: bool = False) -> str:
    """Rows of cells below their headings. is_html: the cells of the rows are."""
    heads = "".join(f"<th {_LEFT}>{escaped(heading)}</th>" for heading in headings)
    body = "".join(
        "<tr>" + "".join(f"<td {_LEFT}>{cell if is_html else escaped(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
