"""Boxes between pixels and shares of the frame."""

from __future__ import annotations

Box = tuple[float, float, float, float]  # x0, y0, x1, y1, right and lower ends exclusive

# Boxes within this many pixels of the frame's border are cut off by it.
_BORDER_PX = 1.0


def as_shares(box: Box, width: int, height: int) -> Box:
    """A box in pixels as shares of width and height, kept within 0–1."""
    x0, y0, x1, y1 = box
    return (
        round(max(0.0, x0 / width), 5),
        round(max(0.0, y0 / height), 5),
        round(min(1.0, x1 / width), 5),
        round(min(1.0, y1 / height), 5),
    )


def cut_sides(box: Box, width: int, height: int) -> dict[str, float]:
    """``clipped``, ``clipped_left``, ``_top``, ``_right``, ``_bottom`` (1.0) where the border cuts a box (pixels)."""
    sides = {
        "clipped_left": box[0] <= _BORDER_PX,
        "clipped_top": box[1] <= _BORDER_PX,
        "clipped_right": box[2] >= width - _BORDER_PX,
        "clipped_bottom": box[3] >= height - _BORDER_PX,
    }
    cut = {name: 1.0 for name, touches in sides.items() if touches}
    return {"clipped": 1.0, **cut} if cut else {}
