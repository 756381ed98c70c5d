"""One page on a run: tables, plots and a list of samples, in a single file that needs no network."""

from __future__ import annotations

from trustvid.errors import ConfigError
from trustvid.evaluation.report_forms import Report


class Html:
    """``report.html``.

    Args:
        samples: questions under a condition (captions: instructions) that are listed; chosen by their ids.
        thumbnails: frames shown of each answer; of more an even choice.
        thumbnail_height: pixels.
        max_mb: size that the page may have, 10^6 bytes; frames and conversations that do not fit are left out, and the
            page says so.

    Raises:
        ConfigError: values out of range, all in one message.
    """

    def __init__(self, samples: int = 60, thumbnails: int = 12, thumbnail_height: int = 96, max_mb: float = 14.0):
        limits = (("samples", samples, 0, 2000), ("thumbnails", thumbnails, 0, 128))
        limits += (("thumbnail_height", thumbnail_height, 32, 480), ("max_mb", max_mb, 1, 200))
        faults = [
            f"report.html.{name}={value}; expected {low} to {high}"
            for name, value, low, high in limits
            if not low <= value <= high
        ]
        if faults:
            raise ConfigError(faults)
        self.samples, self.thumbnails = samples, thumbnails
        self.thumbnail_height, self.max_mb = thumbnail_height, max_mb

    def render(self, report: Report) -> dict[str, str | bytes]:
        """The file.

        Raises:
            DataError: a run folder cannot be read.
        """
        from trustvid.evaluation.page.build import page_of

        size = {"thumbnails": self.thumbnails, "thumbnail_height": self.thumbnail_height, "max_mb": self.max_mb}
        return {"report.html": page_of(report, samples=self.samples, **size)}
