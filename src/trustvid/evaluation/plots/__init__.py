"""Figures of runs: pure functions from numbers to matplotlib figures, and the report form that writes them."""

from __future__ import annotations

from trustvid.errors import ConfigError
from trustvid.evaluation.report_forms import Report

FORMATS = ("png", "pdf", "svg")


class Figures:
    """``figures/*.png`` and ``*.pdf``, and ``figures/figures.md`` with their captions and what could not be drawn.

    Args:
        formats: any of "png", "pdf" and "svg".
        dpi: dots per inch of the PNG files; 200 makes 700 pixels of a paper's column.

    Raises:
        ConfigError: an unknown format, none, or a resolution out of range.
    """

    def __init__(self, formats: tuple[str, ...] | list[str] = ("png", "pdf"), dpi: int = 200):
        faults = [
            f"report.figures.formats: {f} is unknown; known: {', '.join(FORMATS)}" for f in formats if f not in FORMATS
        ]
        if not formats:
            faults.append(f"report.figures.formats is empty; expected any of {', '.join(FORMATS)}")
        if not 50 <= dpi <= 1200:
            faults.append(f"report.figures.dpi={dpi}; expected 50 to 1200")
        if faults:
            raise ConfigError(faults)
        self.formats, self.dpi = tuple(formats), dpi

    def render(self, report: Report) -> dict[str, str | bytes]:
        """The files by name; one line is printed for each figure that the data do not allow."""
        from trustvid.evaluation.plots.catalogue import plots_of
        from trustvid.evaluation.plots.inputs import readable_runs
        from trustvid.evaluation.plots.style import to_pdf, to_png, to_svg

        runs, missing = readable_runs(report.folders)
        found = plots_of(runs)
        makers = {"png": lambda plot: to_png(plot, self.dpi), "pdf": to_pdf, "svg": to_svg}
        files: dict[str, str | bytes] = {}
        lines = []
        for name, plot in found.plots.items():
            names = [f"{name}.{kind}" for kind in self.formats]
            files |= {f"figures/{file}": makers[kind](plot) for file, kind in zip(names, self.formats, strict=True)}
            lines += [f"## {plot.title}", "", f"{', '.join(names)}: {plot.caption}", ""]
        for line in found.left_out:
            print(f"no figure {line}")
        for line in missing:
            print(f"left out of the figures: {line}")
        lines += [f"- not drawn, {line}" for line in found.left_out] + [f"- left out, {line}" for line in missing]
        files["figures/figures.md"] = "\n".join(lines).rstrip() + "\n"
        return files
