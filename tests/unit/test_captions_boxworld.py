"""BoxWorld captions: all constraint types, sound checklists, responses of known truth, and how well a judge does.

pytest tests/unit/test_captions_boxworld.py -q -n 0
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from trustvid.benchmarks.boxworld.generate import make_clip
from trustvid.benchmarks.boxworld_captions.compose import FIELDS, Plan, plans_of
from trustvid.benchmarks.boxworld_captions.facts import ClipFacts, facts_of
from trustvid.benchmarks.boxworld_captions.files import planted_responses, true_result
from trustvid.captioning.agreement import Pair, pairs_of
from trustvid.captioning.checklist import Checklist
from trustvid.captioning.rules import check
from trustvid.captioning.scoring import score
from trustvid.captioning.taxonomy import CONSTRAINT_TYPES
from trustvid.captioning.validation import validate_checklist
from trustvid.errors import ConfigError
from trustvid.judge.base import JudgeTask
from trustvid.judge.rules_only import RulesOnlyJudge

N_CLIPS = 12
SEED = ("test", "captions")


@pytest.fixture(scope="module")
def facts() -> list[ClipFacts]:
    return [facts_of(make_clip("val", 0, number).scene) for number in range(N_CLIPS)]


@pytest.fixture(scope="module")
def plans(facts) -> list[Plan]:
    return [plan for of_clip in plans_of(facts, SEED) for plan in of_clip]


@pytest.fixture(scope="module")
def pairs(plans) -> list[Pair]:
    """Every item of every response beside its truth, under the judge that needs no model."""
    judge, found = RulesOnlyJudge(), []
    for number, plan in enumerate(plans):
        checklist = Checklist.from_json(plan.checklist())
        for made in [plan.right(), *planted_responses(plan, 6, number)]:
            judgement = judge.judge(JudgeTask(str(number), plan.instruction, made.text, checklist))
            verdicts = score(checklist, judgement.strict, "strict")
            found += pairs_of(f"clip {number // 4}", checklist, verdicts, true_result(plan, made))
    return found


def test_facts_are_those_of_the_scene():
    clip = make_clip("val", 0, 0)
    facts, scene = facts_of(clip.scene), clip.scene
    colours = {box.word: box.colour for box in scene.landmarks}
    assert len(facts.things) >= 2 and all(colours[thing.word] == thing.colour for thing in facts.things)
    assert not set(facts.absent) & set(colours)
    assert facts.turns[0] == scene.steps[1].action and facts.seconds == scene.n_frames / 10
    assert all(later.first > earlier.first for earlier, later in facts.clear_pairs())


def test_a_dozen_clips_have_every_constraint_type_and_every_level(plans):
    types = Counter(key for plan in plans for key in set(plan.type_keys))
    assert set(types) == {type_.key for type_ in CONSTRAINT_TYPES} and min(types.values()) >= 3
    sizes = {level: {len(plan.type_keys) for plan in plans if plan.level == level} for level in (1, 2, 3)}
    assert sizes[1] <= {4, 5} and sizes[2] <= {6, 7} and sizes[3] <= {8, 9, 10}
    assert Counter(plan.field for plan in plans) == dict.fromkeys(FIELDS, N_CLIPS)


def test_checklists_are_official_and_agree_with_their_instructions(plans):
    faults = [f for i, plan in enumerate(plans) for f in validate_checklist(plan.checklist(), str(i), plan.instruction)]
    assert not faults
    assert all(group["constraint_id"] for plan in plans for group in plan.checklist()["open_ended_check"])


def test_plans_depend_on_nothing_but_seed_and_facts(facts, plans):
    few = [plan for of_clip in plans_of(facts[:3], SEED) for plan in of_clip]
    assert [plan.instruction for plan in few] == [plan.instruction for plan in plans[:12]], "a longer set begins alike"
    assert [plan.right().text for plan in few] == [plan.right().text for plan in plans[:12]]
    other = [plan for of_clip in plans_of(facts[:3], ("test", "others")) for plan in of_clip]
    assert [plan.instruction for plan in other] != [plan.instruction for plan in few]


def test_right_responses_satisfy_everything_and_violations_exactly_one_constraint(plans):
    violated = Counter()
    for plan in plans:
        right = true_result(plan, plan.right())
        assert all(item["result"] for item in items_of(right))
        for place, key in enumerate(plan.type_keys):
            for made in plan.violations(place):
                failed = failed_constraints(true_result(plan, made))
                assert failed == [place] and made.violated == key and made.text != plan.right().text
                violated[key] += 1
    assert set(violated) == {type_.key for type_ in CONSTRAINT_TYPES}, "every type can be violated alone somewhere"


def items_of(result: dict) -> list[dict]:
    return result["ruled_based_check"] + [i for group in result["open_ended_check"] for i in group["check_items"]]


def failed_constraints(result: dict) -> list[int]:
    rules = [item["result"] for item in result["ruled_based_check"]]
    groups = [all(item["result"] for item in group["check_items"]) for group in result["open_ended_check"]]
    return [place for place, holds in enumerate(rules + groups) if not holds]


def test_the_truth_of_rules_is_what_the_rules_say_of_texts_that_stand_in_the_response(plans):
    for number, plan in enumerate(plans):
        for made in planted_responses(plan, 4, number):
            for item in true_result(plan, made)["ruled_based_check"]:
                assert check(item["constraint_id"], item["parameters"], "strict").value is item["result"]
                if item["constraint_id"] != "count":
                    assert all(text in made.text or "\\" in made.text for text in item["parameters"]["content"])


def test_what_a_response_may_not_mention_it_does_not(plans):
    for plan in plans:
        for claim in plan.claims:
            if claim.type_key == "exclude":
                assert claim.names[0] not in plan.right().text
            if claim.type_key == "include":
                assert claim.names[0] in plan.right().text.upper()


def test_planted_sets_take_the_constraints_in_turn(plans):
    plan = next(plan for plan in plans if plan.level == 1)
    found = [made.violated for made in planted_responses(plan, len(plan.type_keys))]
    assert len(set(found)) > len(found) // 2 and all(found)
    assert planted_responses(plan, 3, 1)[0].violated == planted_responses(plan, 3)[1].violated


def test_the_judge_without_a_model_agrees_on_rules_and_is_honest_about_questions(pairs):
    rules = [pair for pair in pairs if pair.family == "rule"]
    planted = [pair for pair in rules if not pair.truth]
    assert len(planted) > 80
    assert sum(pair.verdict == pair.truth for pair in rules) / len(rules) >= 0.95
    assert sum(pair.verdict is False for pair in planted) / len(planted) >= 0.95
    questions = [pair for pair in pairs if pair.family == "open"]
    assert 0.6 < sum(pair.verdict == pair.truth for pair in questions) / len(questions) < 1.0


def test_the_files_are_read_by_the_official_loader_and_made_once(tmp_path):
    from trustvid.benchmarks.boxworld_captions.benchmark import BoxWorldCaptions

    benchmark = BoxWorldCaptions(tmp_path, n_videos=1, workers=0)
    tasks, problems = benchmark.tasks()
    assert len(tasks) == 4 and not problems and all(isinstance(task.video, Path) for task in tasks)
    folder = benchmark.folder
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    again = BoxWorldCaptions(tmp_path, n_videos=1, workers=0)
    assert [task.instruction for task in again.tasks()[0]] == [task.instruction for task in tasks]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in benchmark.known_responses().iterdir())[0] == "planted_1_response.json"
    truth = json.loads((folder / "truth" / "right_check_result.json").read_text(encoding="utf-8"))
    assert all(item["result"] for rows in truth.values() for row in rows for item in items_of(row["check_result"]))
    assert not [path for path in (folder / "annotation").iterdir() if "truth" in path.name]
    _further_rounds_leave_the_first_as_it_is(tmp_path, tasks)


def _further_rounds_leave_the_first_as_it_is(root: Path, first: list) -> None:
    from trustvid.benchmarks.boxworld_captions.benchmark import BoxWorldCaptions

    three = BoxWorldCaptions(root, n_videos=1, rounds=3, workers=0)
    tasks, problems = three.tasks()
    assert [task.instruction for task in tasks[:4]] == [task.instruction for task in first] and not problems
    assert len({task.instruction.text for task in tasks}) == 12 == len({task.id for task in tasks})
    rows = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in three.known_responses().iterdir()}
    assert len(rows["right_response.json"]["clip_001"]) == 12 and len(rows["planted_1_response.json"]["clip_001"]) == 4
    truth = json.loads((three.folder / "truth" / "right_check_result.json").read_text(encoding="utf-8"))
    assert all(item["result"] for row in truth["clip_001"] for item in items_of(row["check_result"]))
    with pytest.raises(ConfigError, match="rounds=0 gives no instruction"):
        BoxWorldCaptions(root, rounds=0)
