"""How every figure looks, and its bytes: sizes of a paper's column, colours told apart by colour-blind readers too.

Axes, text and grid have the one colour :data:`INK`, so that a page may draw them in its own; the ground is transparent
there and white in files. Equal figures give equal bytes: no date, no version, no random ids.
"""

from __future__ import annotations

import contextlib
import io
import logging
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1f2328"
COLUMN, PAGE = 3.5, 7.0  # inches: one column of a paper, and both
# Okabe and Ito (2008), without black and yellow, which vanish on a dark or a white ground.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", ":", "-.")
REFERENCE_COLOUR = "#7f7f7f"  # yardsticks, and whatever is no method
PERCENT = 100.0

_SETTINGS = {
    **{f"{name}.labelsize": 8 for name in ("axes", "xtick", "ytick")},
    **{f"{name}.color": INK for name in ("text", "xtick", "ytick", "grid")},
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.18,
    "grid.linewidth": 0.6,
    "figure.facecolor": "none",
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "mathtext.default": "regular",
    "path.simplify": True,
    "pdf.fonttype": 42,  # text that a journal can embed and a reader can search
    "svg.hashsalt": "trustvid",
}


@dataclass(frozen=True)
class Plot:
    """A figure with its words.

    Attributes:
        figure: a matplotlib figure without a caption in it.
        title: a few words.
        caption: what is shown of what data; it names benchmark, split and policy.
        alt: what a reader who cannot see it needs: axes, series and their ends.
    """

    figure: Figure
    title: str
    caption: str
    alt: str


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """While the block runs, figures that are made or saved look like ours."""
    import matplotlib

    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_SETTINGS, "backend": "agg"}):
        yield


def panels(
    rows: int = 1, columns: int = 1, width: float = COLUMN, height: float = 2.4, **shared: bool | str
) -> tuple[Figure, list[Axes]]:
    """A figure with rows × columns axes, listed row by row.

    Args:
        width, height: of the whole figure, inches.
        shared: ``sharex`` and ``sharey`` as in matplotlib.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, **shared).flat)


def line_style(index: int, reference: bool = False) -> dict[str, object]:
    """Colour, dashes and marker of the index-th series; yardsticks are grey and thin."""
    colour = REFERENCE_COLOUR if reference else COLOURS[index % len(COLOURS)]
    dash = ":" if reference else DASHES[index // len(COLOURS) % len(DASHES)]
    return {
        "color": colour,
        "linestyle": dash,
        "marker": MARKERS[index % len(MARKERS)],
        "linewidth": 1.0 if reference else 1.4,
    }


def legend_below(figure: Figure, axes: Axes, columns: int = 3) -> None:
    """One legend under all panels, never over data, of the named series of ``axes``."""
    handles, labels = axes.get_legend_handles_labels()
    place_below(figure, handles, labels, columns)


def legend_height(series: int, columns: int) -> float:
    """Inches that :func:`legend_below` needs."""
    return 0.2 + 0.16 * -(-series // columns)


def place_below(figure: Figure, handles: Sequence[Artist], labels: Sequence[str], columns: int) -> None:
    """A legend under all panels."""
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)), handlelength=2.2)


def drop_unused(figure: Figure, axes: Sequence[Axes], used: int) -> None:
    """Remove the panels of a grid beyond the first ``used``."""
    for spare in axes[used:]:
        figure.delaxes(spare)


# -- bytes -------------------------------------------------------------------------------------------------------------


def to_png(plot: Plot, dpi: int = 200) -> bytes:
    """A PNG on white with the caption under the figure."""
    return _saved(plot, format="png", dpi=dpi, metadata={"Software": None})


def to_pdf(plot: Plot) -> bytes:
    """A PDF on white with the caption under the figure; text stays text."""
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # it tells of every table of a font that it embeds
    return _saved(plot, format="pdf", metadata={"CreationDate": None, "Producer": None, "Creator": None})


def to_svg(plot: Plot) -> str:
    """An ``<svg>`` element for a page: transparent, without a caption, its ink the page's own (``currentColor``)."""
    out = io.StringIO()
    with styled():
        _settle(plot.figure)
        plot.figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, **_tight(plot.figure))
    text = out.getvalue()
    element = text[text.index("<svg") :]
    return element.replace(INK, "currentColor")


def _saved(plot: Plot, **how: object) -> bytes:
    """The figure with its caption, which is taken away again: the figure stays as it was."""
    figure = plot.figure
    with styled():
        _settle(figure)
        lines = textwrap.wrap(plot.caption, width=round(24 * figure.get_figwidth()))
        note = figure.text(0.01, -0.02, "\n".join(lines), fontsize=5.5, va="top", ha="left", linespacing=1.3)
        out = io.BytesIO()
        figure.savefig(out, facecolor="white", **how, **_tight(figure))
        note.remove()
    return out.getvalue()


def _settle(figure: Figure) -> None:
    """Lay the figure out once and hold its legends there: else they would follow the page to the caption's foot."""
    if figure.get_layout_engine() is None:
        return
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for legend in figure.legends:
        place = legend.get_window_extent().transformed(figure.transFigure.inverted())
        legend.borderaxespad = 0
        legend.set_bbox_to_anchor(place, transform=figure.transFigure)


def _tight(figure: Figure) -> dict[str, object]:
    return {"bbox_inches": "tight", "pad_inches": 0.04}
