"""Which samples a step takes: a function of seed and step alone, so that a run goes on exactly where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from trustvid.errors import ConfigError
from trustvid.seeding import derive_rng


class StepOrder:
    """The samples of every step, epoch after epoch, each in an order of its own; a last incomplete step is left out.

    Args:
        size: number of samples.
        batch: samples of one step, over all processes.
        seed: of the order.

    Raises:
        ConfigError: there are fewer samples than a step takes.
    """

    def __init__(self, size: int, batch: int, seed: int):
        if size < batch:
            raise ConfigError([f"a step takes {batch} samples and there are {size}; expected at least as many"])
        self.size, self.batch, self.seed = size, batch, seed

    @property
    def per_epoch(self) -> int:
        """Steps of an epoch."""
        return self.size // self.batch

    @property
    def left_out(self) -> int:
        """Samples that an epoch leaves out; others in each."""
        return self.size - self.per_epoch * self.batch

    def epoch_of(self, step: int) -> int:
        """The epoch that a step belongs to, from 0."""
        return step // self.per_epoch

    def samples(self, step: int) -> list[int]:
        """The samples of a step, over all processes."""
        order = derive_rng("order", self.seed, self.epoch_of(step)).permutation(self.size)
        start = (step % self.per_epoch) * self.batch
        return order[start : start + self.batch].tolist()


class PhasedOrder(StepOrder):
    """Phases of a run one after another, each with an order of its own over samples of its own.

    Args:
        phases: (numbers of its samples, its steps) for each.
        batch, seed: as of :class:`StepOrder`.

    Raises:
        ConfigError: there is no phase, one has no steps, or fewer samples than a step takes.
    """

    def __init__(self, phases: Sequence[tuple[Sequence[int], int]], batch: int, seed: int):
        if not phases or any(steps < 1 for _, steps in phases):
            raise ConfigError([f"phases of {[steps for _, steps in phases]} steps; expected one or more, 1 step each"])
        super().__init__(sum(len(numbers) for numbers, _ in phases), batch, seed)
        self._phases = [(list(numbers), StepOrder(len(numbers), batch, seed), steps) for numbers, steps in phases]

    @property
    def steps(self) -> int:
        """Steps of all phases."""
        return sum(steps for _, _, steps in self._phases)

    def epoch_of(self, step: int) -> int:
        """The epoch, within its phase, that a step belongs to; the last phase goes on for ever."""
        _, order, own = self._phase(step)
        return order.epoch_of(own)

    def samples(self, step: int) -> list[int]:
        """The samples of a step, over all processes."""
        numbers, order, own = self._phase(step)
        return [numbers[place] for place in order.samples(own)]

    def _phase(self, step: int) -> tuple[list[int], StepOrder, int]:
        """Samples and order of the phase that a step is in, and the step's number within it."""
        for numbers, order, steps in self._phases[:-1]:
            if step < steps:
                return numbers, order, step
            step -= steps
        numbers, order, _ = self._phases[-1]
        return numbers, order, step


class StepSampler:
    """What a DataLoader asks for batches: (step, samples of this process) from the step that the run has come to.

    Args:
        order: of all processes.
        step: the next step, asked when iteration begins.
        steps: the number of steps of the whole run.
        rank, world: this process's number, and how many there are.

    Raises:
        ConfigError: a step's samples cannot be dealt out evenly.
    """

    def __init__(self, order: StepOrder, step: Callable[[], int], steps: int, rank: int = 0, world: int = 1):
        if order.batch % world:
            raise ConfigError([f"a step of {order.batch} samples cannot be dealt to {world} processes evenly"])
        self.order, self.step, self.steps, self.rank, self.world = order, step, steps, rank, world

    def __len__(self) -> int:
        """Steps of the whole run: a trainer that goes on counts those that are done itself."""
        return self.steps

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        share = self.order.batch // self.world
        for step in range(self.step(), self.steps):
            mine = self.order.samples(step)[self.rank * share : (self.rank + 1) * share]
            yield [(step, sample) for sample in mine]


class Numbers:
    """A data set of (step, sample) pairs: a module fetches what they stand for itself."""

    def __getitem__(self, item: tuple[int, int]) -> tuple[int, int]:
        return item

    def __len__(self) -> int:
        return 0
