"""Pictures as pixels, drawn by librsvg where this machine has it."""

from __future__ import annotations

import ctypes
from ctypes.util import find_library
from functools import cache

import numpy as np

from tilejit.svg import Picture

_RGB24, _DONE = 1, 0


class _Rectangle(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("x", "y", "width", "height")]


@cache
def libraries() -> tuple[ctypes.CDLL, ctypes.CDLL, ctypes.CDLL] | None:
    """librsvg, cairo and gobject; None if one isn't installed, or librsvg is older than 2.46."""
    paths = [find_library(name) for name in ("rsvg-2", "cairo", "gobject-2.0")]
    if None in paths:
        return None
    rsvg, cairo, gobject = map(ctypes.CDLL, paths)
    if not hasattr(rsvg, "rsvg_handle_render_document"):
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_double
    rsvg.rsvg_handle_new_from_data.argtypes = [ctypes.c_char_p, ctypes.c_size_t, pointer]
    rsvg.rsvg_handle_render_document.argtypes = [pointer, pointer, ctypes.POINTER(_Rectangle), pointer]
    cairo.cairo_image_surface_create.argtypes = [ctypes.c_int] * 3
    cairo.cairo_image_surface_get_data.argtypes = cairo.cairo_surface_flush.argtypes = [pointer]
    cairo.cairo_create.argtypes = cairo.cairo_paint.argtypes = cairo.cairo_destroy.argtypes = [pointer]
    cairo.cairo_surface_destroy.argtypes = gobject.g_object_unref.argtypes = [pointer]
    cairo.cairo_surface_status.argtypes = cairo.cairo_image_surface_get_stride.argtypes = [pointer]
    cairo.cairo_set_source_rgb.argtypes = [pointer, number, number, number]
    for function in (
        rsvg.rsvg_handle_new_from_data, cairo.cairo_image_surface_create, cairo.cairo_create,
        cairo.cairo_image_surface_get_data,
    ):
        function.restype = pointer
    return rsvg, cairo, gobject


def rendered(picture: Picture, page: tuple[float, float, float]) -> np.ndarray:
    """A picture's whole pixels on a page of this colour. shape: height x width x 3, red first."""
    width, height = int(picture.width), int(picture.height)
    loaded = libraries()
    assert loaded is not None
    rsvg, cairo, gobject = loaded
    text = picture.svg.encode()
    handle = rsvg.rsvg_handle_new_from_data(text, len(text), None)
    assert handle, "librsvg doesn't read it"
    surface = cairo.cairo_image_surface_create(_RGB24, width, height)
    drawing = cairo.cairo_create(surface)
    cairo.cairo_set_source_rgb(drawing, *page)
    cairo.cairo_paint(drawing)
    is_drawn = rsvg.rsvg_handle_render_document(handle, drawing, _Rectangle(0, 0, picture.width, picture.height), None)
    cairo.cairo_surface_flush(surface)
    assert is_drawn and cairo.cairo_surface_status(surface) == _DONE
    stride = cairo.cairo_image_surface_get_stride(surface)
    data = ctypes.string_at(cairo.cairo_image_surface_get_data(surface), stride * height)
    cairo.cairo_destroy(drawing)
    cairo.cairo_surface_destroy(surface)
    gobject.g_object_unref(handle)
    # a pixel is a word of 0xrrggbb
    return np.frombuffer(data, np.uint8).reshape(height, stride // 4, 4)[:, :width, 2::-1]
