"""One digest over a benchmark's questions: a changed data set is another run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from trustvid.benchmarks.sample import Sample


def questions_digest(samples: Sequence[Sample]) -> str:
    """SHA-256 (hex) over the questions, options, answers and which videos they are about, in order; not over pixels."""
    rows = [[s.id, s.cluster, s.task, s.question, list(s.options), s.answer, s.kind] for s in samples]
    text = json.dumps(rows, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
