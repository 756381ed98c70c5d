"""The scripted policy: decomposes by the words of the question, answers by the solvers, and says how sure it is."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from trustvid.policy.base import PolicyRequest
from trustvid.policy.scripted.captions import asks_for_caption, write_caption
from trustvid.policy.scripted.reading import Scene, read_scene
from trustvid.policy.scripted.routing import asks_for_routing, choose_tools
from trustvid.policy.scripted.solvers import Finding, by_scores, solver_for
from trustvid.policy.scripted.support import believed, solve, tier_discount
from trustvid.seeding import derive_seed

READ = {"sub_query": "Which words are written in the picture, and where?", "type": "text"}
LOOK = {"sub_query": "Which coloured things are there, and where in the picture?", "type": "spatial"}
MOVE = {"sub_query": "How does the camera move and turn?", "type": "action"}

# Wording of the embedded benchmark → perceptual needs; the first pattern that fits decides alone.
KNOWN_NEEDS: tuple[tuple[str, tuple[dict[str, str], ...]], ...] = (
    (r"How many steps of the route", (MOVE,)),
    (r"level, [\d.]+ m above", (READ, LOOK, MOVE)),
)
# Wording of any other question → one need each; a question that fits none has all three.
GENERAL_NEEDS: tuple[tuple[str, dict[str, str]], ...] = (
    (r"(?i)\b(sign|signs|read|written|text|words?|letters?|says?)\b", READ),
    (r"(?i)\b(where|colou?r(s|ed)?|objects?|things?|how many|left|right|seen?|visible)\b", LOOK),
    (r"(?i)\b(camera|moves?|moving|motion|turns?|turning|direction|pans?|fly|flies|action)\b", MOVE),
)


class ScriptedPolicy:
    """Deterministic stand-in for a VLM, for machines without one. It reads the rendered messages and nothing else.

    Its perception is the tools' and its reasoning is explicit geometry on what they report, so its accuracy rises and
    falls with the evidence. It states the probability that its answer is right: the share of draws of what the tools'
    errors leave possible in which the answer wins. Questions outside its repertoire are answered from the tools' own
    sentences; a question that the evidence does not reach gets a guess that is stated as one.
    """

    name = "scripted"

    def generate(self, requests: Sequence[PolicyRequest]) -> list[str]:
        """One reply for each conversation: a caption, a choice of tools, a decomposition, or an answer."""
        return [self._reply([message.text for message in request.messages]) for request in requests]

    def _reply(self, texts: list[str]) -> str:
        if asks_for_caption(texts):
            return write_caption(texts)
        if asks_for_routing(texts[-1]):
            return choose_tools(texts[-1])
        scene = read_scene(texts)
        if "## Evidence" not in texts[-1]:
            return json.dumps(decompose(scene.question))
        if scene.options:
            return _choose(scene, _find(scene))
        return _describe(scene)


def decompose(question: str) -> list[dict[str, str]]:
    """Sub-queries for a question, by its wording."""
    for pattern, needs in KNOWN_NEEDS:
        if re.search(pattern, question):
            return list(needs)
    return [need for pattern, need in GENERAL_NEEDS if re.search(pattern, question)] or [READ, LOOK, MOVE]


def _find(scene: Scene) -> Finding | None:
    """What the evidence says of the options: by the solver of the question, or by its words where there is none."""
    if not scene.has_evidence:
        return None
    return solve(scene) if solver_for(scene.question) else _by_wording(scene)


def _choose(scene: Scene, finding: Finding | None) -> str:
    """The answer of the finding with its probability; a guess, seeded by the question, when there is none."""
    letters = sorted(scene.options)
    if finding is None:
        pick = letters[derive_seed("guess", scene.question, *scene.options.values()) % len(letters)]
        return _answer("The evidence does not settle the question, so this is a guess.", pick, 1 / len(letters))
    note = " Only low-tier evidence supports this." if _all_low(scene) else ""
    return _answer(finding.reason + "." + note, finding.answer, believed(scene, finding)[finding.answer])


def _all_low(scene: Scene) -> bool:
    return bool(scene.tiers) and all(tier == "low" for tier in scene.tiers.values())


def _by_wording(scene: Scene) -> Finding | None:
    """For questions without a solver: the option whose words occur most in what the tools said."""
    said = " ".join([*scene.results.values(), *(r.label for r in scene.reads)]).lower()
    words = set(re.findall(r"[^\W_]{3,}", said))
    scores = {}
    for letter, option in scene.options.items():
        mine = set(re.findall(r"[^\W_]{3,}", option.lower()))
        scores[letter] = len(mine & words) / max(len(mine), 1)
    best = max(scores.values(), default=0.0)
    if best == 0.0 or list(scores.values()).count(best) > 1:
        return None
    return by_scores(scores, 0.5, "the words of this option occur most in what the tools report")


def _describe(scene: Scene) -> str:
    """An answer in words, for questions without options: what the tools found, tool by tool."""
    if not scene.results:
        return _answer("No tool reported anything.", "The video does not show it, as far as the tools can see.", 0.0)
    found = " ".join(f"{result.rstrip('.')}." for result in scene.results.values())
    scores = [seen.score for seen in (*scene.reads, *scene.boxes)] + [part.score for part in scene.motion]
    confidence = sum(scores) / len(scores) * tier_discount(scene) if scores else 0.0
    return _answer("This is what the tools report.", found, confidence)


def _answer(reason: str, answer: str, confidence: float) -> str:
    return f"<think>{reason}</think><answer>{answer}</answer><confidence>{confidence:.3f}</confidence>"
