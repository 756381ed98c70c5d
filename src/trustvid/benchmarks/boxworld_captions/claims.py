"""The makers of the 13 content constraints by type."""

from __future__ import annotations

from trustvid.benchmarks.boxworld_captions import claims_element, claims_idea
from trustvid.benchmarks.boxworld_captions.claim import Maker

MAKERS: dict[str, Maker] = {
    maker.__name__: maker
    for maker in (
        *(claims_element.entity, claims_element.attribute, claims_element.event),
        *(claims_element.action, claims_element.cinematic),
        *(claims_idea.detail, claims_idea.summary, claims_idea.inference),
        *(claims_idea.perspective, claims_idea.focus, claims_idea.include),
        *(claims_idea.exclude, claims_idea.comparative),
    )
}
"""By the taxonomy's key of the content type."""

IN_CHINESE = ("entity", "attribute", "action", "summary", "inference", "include", "comparative")

APART = (("perspective", "action"),)
"""Types that do not stand in one instruction, because one answers the other's questions."""
