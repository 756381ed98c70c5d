"""The policy's prompt files: a folder with system.j2, decompose.j2, synthesise.j2; some methods need more."""

from __future__ import annotations

from pathlib import Path

from trustvid.llm.prompting import PromptFolder

SHIPPED = Path(__file__).parent / "prompts"
ROLES = ("system", "decompose", "synthesise")


class Prompts(PromptFolder):
    """The prompts of the policy.

    Args:
        folder: "full", "compact" or "tiny" (shipped), or the path of a folder with the files.

    Slots: ``question``, ``frames``, ``profile`` (decompose); ``sub_queries``, ``disturbance`` (route, for
    routing=policy); ``evidence`` (synthesise); ``question``, ``frames`` (direct, for methods without tools);
    ``letters`` ("A to E", empty when the question has no options), ``numeric`` (the last two). In a few words instead:
    ``brief_question`` (decompose), ``brief_sub_queries`` (route).

    Raises:
        ConfigError: the folder or a file of it is missing.
    """

    def __init__(self, folder: str = "full"):
        super().__init__(folder, SHIPPED, required=ROLES, optional=("route", "direct"), setting="prompts.folder")
