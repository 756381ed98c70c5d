"""Gates of BoxWorld: no agent without evidence beats chance, and the oracle that reads id masks is always right.

    python benchmarks/boxworld_gates.py [--questions 2000] [--workers 2] [--oracle-questions 2000]

Questions are generated without pixels. Agents that learn do so on another series of clips. Their scores are tested task
by task against guessing (exact Poisson-binomial, one-sided, since the number of options varies), Holm-corrected over
all agents and tasks. The printed table shows accuracy beside chance; the last lines say which gates hold.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from trustvid.benchmarks.boxworld.generate import make_clip
from trustvid.benchmarks.boxworld.questions import Question
from trustvid.seeding import derive_rng

SERIES = 1000  # offset of the clips used here; no table and no test uses it
QUESTIONS_PER_CLIP = 4
ALPHA = 0.05


@dataclass(frozen=True)
class Item:
    """A question with what an agent may know of it without looking: its clip's name and length, its place."""

    question: Question
    clip: str
    n_frames: int


Agent = Callable[[Item], int]  # index of the chosen option


# -- agents that see no video ----------------------------------------------------------------------------------


def guess(item: Item) -> int:
    """A seeded guess."""
    return int(derive_rng("guess", item.clip, item.question.task).integers(len(item.question.options)))


def by_key(key: Callable[[str], float], sign: int) -> Agent:
    """The option with the smallest (sign 1) or largest (sign -1) key; the first of equals."""
    return lambda item: int(np.argmin([sign * key(option) for option in item.question.options]))


def mentioned(item: Item) -> int:
    """The option whose words come earliest in the question, in the question's order."""
    text = item.question.text
    keys = [[text.find(word) if word in text else 9999 for word in _words(o)] for o in item.question.options]
    return keys.index(min(keys))


def consensus(item: Item) -> int:
    """The option most like the others: gives away wrong options made by changing the right one."""
    options = [_words(option) for option in item.question.options]
    likeness = [
        sum(a == b for other in options for a, b in zip(own, other, strict=False)) / max(len(own), 1) for own in options
    ]
    return int(np.argmax(likeness))


def middle_number(item: Item) -> int:
    """The option next to the mean of the numbers; the first when there are none."""
    if not all(option.isdigit() for option in item.question.options):
        return 0
    numbers = np.array([int(option) for option in item.question.options])
    return int(np.argmin(np.abs(numbers - numbers.mean())))


def _words(text: str) -> list[str]:
    return text.replace(",", "").split()


# -- agents that have learned from other clips -----------------------------------------------------------------


def learned_by(feature: Callable[[Item, int], object], training: Sequence[Item]) -> Agent:
    """Chooses the option whose feature was most often right where offered, shrunk to chance by four questions."""
    right: Counter = Counter()
    offered: Counter = Counter()
    for item in training:
        for index in range(len(item.question.options)):
            key = (item.question.task, feature(item, index))
            offered[key] += 1
            right[key] += index == item.question.answer

    def score(item: Item, index: int) -> float:
        key = (item.question.task, feature(item, index))
        prior = 1 / len(item.question.options)
        return (right[key] + prior * 4) / (offered[key] + 4)

    return lambda item: int(np.argmax([score(item, index) for index in range(len(item.question.options))]))


FEATURES: dict[str, Callable[[Item, int], object]] = {
    "learned letter": lambda item, i: (i, len(item.question.options)),
    "learned text": lambda item, i: item.question.options[i],
    "learned words": lambda item, i: frozenset(_words(item.question.options[i])[:2]),
    "learned text + length": lambda item, i: (item.question.options[i], item.n_frames // 8),
    "learned text + route": lambda item, i: (item.question.options[i], _route(item.question.text)),
    "learned text + parity": lambda item, i: (item.question.options[i], len(item.question.text) % 2),
}


def _route(text: str) -> tuple[str, ...]:
    """The first turns that a question's text names."""
    return tuple(word for word in text.replace(";", " ").replace(".", " ").split() if word in ("left", "right"))[:2]


def agents(training: Sequence[Item]) -> dict[str, Agent]:
    """All agents by name."""
    fixed: dict[str, Agent] = {
        "guess": guess,
        "first option": lambda item: 0,
        "last option": lambda item: len(item.question.options) - 1,
        **{f"always {'ABCD'[k]}": (lambda item, k=k: min(k, len(item.question.options) - 1)) for k in (1, 2, 3)},
        "longest text": by_key(len, -1),
        "shortest text": by_key(len, 1),
        "alphabetical": by_key(lambda option: sum(ord(c) / 256**i for i, c in enumerate(option[:6])), 1),
        "mentioned first": mentioned,
        "consensus": consensus,
        "middle number": middle_number,
        "largest number": by_key(lambda option: float(option) if option.isdigit() else 0.0, -1),
        "smallest number": by_key(lambda option: float(option) if option.isdigit() else 0.0, 1),
    }
    return fixed | {name: learned_by(feature, training) for name, feature in FEATURES.items()}


# -- statistics ------------------------------------------------------------------------------------------------


def tail_probability(chances: Iterable[float], right: int) -> float:
    """P(at least ``right`` correct) when question i is guessed with chance p_i, exactly.

    >>> round(tail_probability([0.5, 0.5], 2), 3)
    0.25
    """
    distribution = np.ones(1)
    for p in chances:
        distribution = np.convolve(distribution, [1 - p, p])
    return float(min(1.0, distribution[right:].sum()))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-corrected p-values in the given order."""
    order = np.argsort(p_values)
    corrected, running = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[int(index)] = running
    return corrected


@dataclass(frozen=True)
class Cell:
    """One agent on one task."""

    agent: str
    task: str
    right: int
    n: int
    chance: float
    p: float


def evaluate(items: Sequence[Item], training: Sequence[Item]) -> list[Cell]:
    """Every agent on every task."""
    by_task: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        by_task[item.question.task].append(item)
    cells = []
    for name, agent in agents(training).items():
        for task, chosen in by_task.items():
            right = sum(agent(item) == item.question.answer for item in chosen)
            chances = [1 / len(item.question.options) for item in chosen]
            p = tail_probability(chances, right)
            cells.append(Cell(name, task, right, len(chosen), float(np.mean(chances)), p))
    return cells


# -- running ---------------------------------------------------------------------------------------------------


def _solve(job: tuple[str, int, bool]) -> tuple[list[Item], list[bool], float, float]:
    """(items, oracle right or wrong, CPU seconds to generate, CPU seconds of the oracle) of one clip."""
    import cv2

    cv2.setNumThreads(1)
    split, number, with_oracle = job
    start = time.process_time()
    clip = make_clip(split, SERIES, number)
    made = time.process_time()
    items = [Item(question, clip.name, clip.scene.n_frames) for question in clip.questions]
    verdicts: list[bool] = []
    if with_oracle:
        from trustvid.benchmarks.boxworld.masks import MaskPainter, id_table
        from trustvid.benchmarks.boxworld.oracle import MaskOracle

        oracle = MaskOracle(MaskPainter(clip.scene).frames(), id_table(clip.scene))
        verdicts = [oracle.answer(item.question.text, item.question.options) == item.question.answer for item in items]
    return items, verdicts, made - start, time.process_time() - made


def run(split: str, clips: int, oracle_clips: int, workers: int) -> tuple[list[Item], list[bool], float]:
    """(items, oracle verdicts, CPU seconds of the generation) of a series of clips."""
    jobs = [(split, number, number < oracle_clips) for number in range(clips)]
    if workers <= 1:
        results = [_solve(job) for job in jobs]
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            results = list(pool.map(_solve, jobs, chunksize=4))
    items = [item for result in results for item in result[0]]
    return items, [verdict for result in results for verdict in result[1]], sum(result[2] for result in results)


def _print_table(cells: Sequence[Cell], corrected: Sequence[float]) -> None:
    tasks = list(dict.fromkeys(cell.task for cell in cells))
    print(f"{'accuracy, % (* = above chance, Holm)':38s}" + "".join(f"{task:>8s}" for task in tasks))
    chance = {cell.task: cell.chance for cell in cells}
    print(f"{'chance':38s}" + "".join(f"{100 * chance[task]:8.1f}" for task in tasks))
    for name in dict.fromkeys(cell.agent for cell in cells):
        row = [(cell, p) for cell, p in zip(cells, corrected, strict=True) if cell.agent == name]
        marks = "".join(f"{100 * cell.right / cell.n:7.1f}{'*' if p < ALPHA else ' '}" for cell, p in row)
        print(f"{name:38s}{marks}")


def _print_histograms(items: Sequence[Item]) -> None:
    letters = Counter((len(item.question.options), item.question.letter) for item in items)
    for size in sorted({size for size, _ in letters}):
        print(f"answers among {size} options:", *(f"{k} {v}" for (s, k), v in sorted(letters.items()) if s == size))
    for task in ("LP", "AG", "PE", "RDir", "RP"):
        labels = Counter(i.question.options[i.question.answer] for i in items if i.question.task == task)
        print(f"{task} answers:", ", ".join(f"{label} {count}" for label, count in sorted(labels.items())))


def main() -> None:
    """Runs the gates and prints what they show; exit code 1 when one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--oracle-questions", type=int, default=2000, help="how many of them the oracle answers")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    arguments = parser.parse_args()
    clips = math.ceil(arguments.questions / QUESTIONS_PER_CLIP)
    oracle_clips = math.ceil(arguments.oracle_questions / QUESTIONS_PER_CLIP)
    items, verdicts, seconds = run("dev", clips, oracle_clips, arguments.workers)
    training, _, _ = run("train", clips, 0, arguments.workers)
    cells = evaluate(items, training)
    corrected = holm([cell.p for cell in cells])
    _print_table(cells, corrected)
    _print_histograms(items)
    pace = 2000 * seconds / len(items)
    print(f"generated {len(items)} questions in {seconds:.0f} CPU-seconds ({pace:.0f} s for 2000)")
    worst = min(range(len(cells)), key=lambda i: corrected[i])
    at_chance = corrected[worst] >= ALPHA
    print(f"gate: no evidence at chance: {'holds' if at_chance else 'FAILS'}; smallest corrected p "
          f"{corrected[worst]:.3f} ({cells[worst].agent}, {cells[worst].task})")  # fmt: skip
    print(f"gate: mask oracle {sum(verdicts)} of {len(verdicts)} right: {'holds' if all(verdicts) else 'FAILS'}")
    if not (at_chance and all(verdicts)):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
