"""The losses: known numbers, equivalences, micro-batches, masks, and what they refuse.

pytest tests/unit/test_grpo_losses.py -q -n 0
"""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from trustvid.errors import ConfigError  # noqa: E402
from trustvid.grpo.losses import (  # noqa: E402
    Normaliser,
    averages,
    normaliser,
    per_token_kl,
    policy_loss,
)
from trustvid.grpo.settings import LEVELS, LOSS_TYPES, AdvantageConfig, LossConfig, group_faults  # noqa: E402

CASES = json.loads((Path(__file__).parents[1] / "data" / "metrics" / "grpo_cases.json").read_text(encoding="utf-8"))
N, L = 6, 9
ALL = list(itertools.product(LOSS_TYPES, LEVELS))


def config(loss_type: str = "grpo", level: str = "token", **changes) -> LossConfig:
    length = 20 if loss_type == "dr_grpo" else None
    return LossConfig(loss_type, level, **{"beta": 0.1, "max_completion_length": length, **changes})


def batch(seed: int = 0, n: int = N, length: int = L) -> dict[str, torch.Tensor]:
    """A batch with sequences of different lengths, holes where tools spoke, and one row without anything of its own."""
    rng = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=rng, dtype=torch.float64)  # noqa: E731
    logp = -draw(n, length).abs() - 0.1
    mask = (torch.arange(length)[None] < torch.randint(2, length + 1, (n, 1), generator=rng)).long()
    mask[0, 2:4] = 0
    mask[1] = 0
    return {
        "logp": logp,
        "advantages": draw(n),
        "loss_mask": mask,
        "old_logp": logp + 0.3 * draw(n, length),
        "ref_logp": logp + 0.3 * draw(n, length),
        "entropy": draw(n, length).abs(),
    }


def graded(inputs: dict[str, torch.Tensor], settings: LossConfig, **more) -> tuple[torch.Tensor, torch.Tensor, dict]:
    """Loss, gradients with respect to log-probabilities and entropy side by side, metrics."""
    logp = inputs["logp"].clone().requires_grad_()
    entropy = inputs["entropy"].clone().requires_grad_()
    loss, metrics = policy_loss(config=settings, **{**inputs, "logp": logp, "entropy": entropy, **more})
    loss.backward()
    bonus = torch.zeros_like(entropy) if entropy.grad is None else entropy.grad
    return loss.detach(), torch.cat([logp.grad, bonus], dim=1), metrics


# -- known numbers ---------------------------------------------------------------------------------------------------


def test_k3_has_the_known_values_and_is_never_negative():
    case = CASES["k3"]
    values = per_token_kl(torch.tensor([case["logp"]]), torch.tensor([case["ref"]]))
    assert values[0].tolist() == pytest.approx(case["expected"], abs=1e-5)
    both = torch.linspace(-60, 0, 121)
    assert (per_token_kl(both[:, None], both[None]) >= 0).all() and per_token_kl(both, both).abs().max() == 0


@pytest.mark.parametrize("case", CASES["clip"]["cases"])
def test_clipping_has_the_known_values(case):
    new = torch.tensor([[math.log(case["ratio"]) - 1]])
    settings = LossConfig(epsilon=CASES["clip"]["eps"])
    loss, metrics = policy_loss(
        new, torch.tensor([float(case["adv"])]), torch.ones(1, 1), settings, old_logp=-torch.ones(1, 1)
    )
    assert loss.item() == pytest.approx(-case["objective"], abs=1e-6)
    clipped = averages([metrics])
    high, low = (case["ratio"], case["adv"]) == (1.5, 1), (case["ratio"], case["adv"]) == (0.5, -1)
    assert (clipped["clip_ratio/high_mean"], clipped["clip_ratio/low_mean"]) == (high, low)
    assert clipped["clip_ratio/region_mean"] == high + low


def test_each_loss_type_divides_as_it_says():
    # Two sequences of 1 and 3 tokens, advantages 1 and -2, on policy: token losses are -1 and 2.
    inputs = {"logp": torch.zeros(2, 4), "advantages": torch.tensor([1.0, -2.0])}
    inputs["loss_mask"] = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 1]])
    expected = {"grpo": (-1 + 2) / 2, "dapo": (-1 + 6) / 4, "bnpo": (-1 + 6) / 4, "dr_grpo": (-1 + 6) / (2 * 10)}
    for loss_type, value in expected.items():
        settings = LossConfig(loss_type, max_completion_length=10)
        assert policy_loss(config=settings, **inputs)[0].item() == pytest.approx(value), loss_type


def test_clip_higher_leaves_more_room_above():
    inputs = {"logp": torch.tensor([[math.log(1.25)]]), "old_logp": torch.zeros(1, 1), "loss_mask": torch.ones(1, 1)}
    narrow, wide = (
        policy_loss(advantages=torch.ones(1), config=LossConfig(epsilon_high=high), **inputs)[0].item()
        for high in (None, 0.28)
    )
    assert (narrow, wide) == (pytest.approx(-1.2), pytest.approx(-1.25))


def test_on_policy_the_gradient_is_that_of_reinforce():
    inputs = batch()
    _, grad, _ = graded(inputs, config("dapo", beta=0.0), old_logp=None)
    mask = inputs["loss_mask"]
    assert torch.allclose(grad[:, :L], -inputs["advantages"][:, None] * mask / mask.sum())


@pytest.mark.parametrize(("loss_type", "level"), ALL)
def test_the_penalty_raises_the_loss_and_pulls_towards_the_reference(loss_type, level):
    inputs = batch() | {"advantages": torch.zeros(N, dtype=torch.float64), "old_logp": None}
    free, grad, metrics = graded(inputs, config(loss_type, level, beta=0.0))
    assert free == 0 and grad.abs().max() == 0 and "kl" not in metrics
    loss, grad, metrics = graded(inputs, config(loss_type, level, beta=0.5))
    assert loss > 0 and averages([metrics])["kl"] > 0
    moved = (inputs["logp"] - inputs["ref_logp"]) * inputs["loss_mask"]
    assert (grad[:, :L] * moved >= 0).all() and (grad[:, :L] * moved).sum() > 0


def test_equal_rewards_give_no_gradient():
    _, grad, _ = graded(batch() | {"advantages": torch.zeros(N, dtype=torch.float64)}, config(beta=0.0))
    assert grad.abs().max() == 0


def test_the_entropy_bonus_raises_entropy_on_its_tokens_only():
    inputs = batch()
    where = torch.zeros(N, L, dtype=torch.long)
    where[:, 0] = 1
    _, grad, metrics = graded(inputs, config("dr_grpo", entropy_coef=0.3), entropy_mask=where)
    expected = -0.3 * (where * inputs["loss_mask"]).double() / 5  # row 1 counts nowhere
    assert torch.allclose(grad[:, L:], expected)
    mask = inputs["loss_mask"]
    assert averages([metrics])["entropy"] == pytest.approx(((inputs["entropy"] * mask).sum() / mask.sum()).item())


# -- equivalences ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_loss_types_agree_where_they_must(level):
    inputs = batch() | {"loss_mask": torch.ones(N, L, dtype=torch.long)}
    full = config("dr_grpo", level, max_completion_length=L)
    results = [graded(inputs, config(loss_type, level)) for loss_type in ("grpo", "dapo", "bnpo")]
    results.append(graded(inputs, full))
    for loss, grad, _ in results[1:]:
        assert torch.allclose(loss, results[0][0]) and torch.allclose(grad, results[0][1])
    ragged = batch()
    assert torch.equal(graded(ragged, config("dapo", level))[1], graded(ragged, config("bnpo", level))[1])
    assert not torch.allclose(graded(ragged, config("grpo", level))[0], graded(ragged, config("dapo", level))[0])


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_the_levels_agree_when_all_tokens_moved_alike(loss_type):
    inputs = batch()
    inputs["old_logp"] = inputs["logp"] - torch.linspace(-0.5, 0.5, N, dtype=torch.float64)[:, None]
    token, sequence = (graded(inputs, config(loss_type, level, beta=0.0)) for level in LEVELS)
    assert torch.allclose(token[0], sequence[0])
    assert torch.allclose(token[1].sum(1), sequence[1].sum(1))


@pytest.mark.parametrize(("loss_type", "level"), ALL)
def test_advantages_by_token_that_are_all_alike_are_those_of_the_sequence(loss_type, level):
    inputs = batch()
    wide = inputs["advantages"][:, None].expand(N, L).clone()
    wide[inputs["loss_mask"] == 0] = torch.nan
    one, other = graded(inputs, config(loss_type, level)), graded(inputs, config(loss_type, level), advantages=wide)
    assert torch.allclose(one[0], other[0]) and torch.allclose(one[1], other[1])


def test_the_bias_correction_changes_nothing_but_the_gradient_on_policy():
    inputs = batch() | {"old_logp": None, "advantages": torch.zeros(N, dtype=torch.float64)}
    plain, corrected = (graded(inputs, config(use_bias_correction_kl=flag)) for flag in (False, True))
    assert torch.allclose(plain[0], corrected[0]) and not torch.allclose(plain[1], corrected[1])


# -- batches and masks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [[3, 3], [1, 2, 3], [1] * 6])
@pytest.mark.parametrize(("loss_type", "level"), ALL)
def test_micro_batches_add_up_to_the_batch_whatever_their_order_and_padding(loss_type, level, pieces):
    inputs = batch()
    settings = config(loss_type, level, entropy_coef=0.05)
    whole, grad, metrics = graded(inputs, settings)
    norm = normaliser(inputs["loss_mask"], settings)
    order = torch.tensor([4, 0, 5, 2, 1, 3])
    total, parts = torch.zeros(()), []
    for rows in order.split(pieces):
        part = {name: values[rows] for name, values in inputs.items()}
        longest = int((part["loss_mask"] * torch.arange(1, L + 1)).max())  # padded to its own longest row
        part = {name: v[:, : max(longest, 1)] if v.dim() == 2 else v for name, v in part.items()}
        loss, piece, some = graded(part, settings, normalised_by=norm)
        total, width = total + loss, piece.shape[1] // 2
        for at, block in ((0, piece[:, :width]), (L, piece[:, width:])):
            assert torch.allclose(grad[rows, at : at + width], block, atol=1e-12)
        parts.append(some)
    assert torch.allclose(total.double(), whole, atol=1e-6)
    assert averages(parts) == pytest.approx(averages([metrics]), abs=1e-6)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_processes_whose_gradients_are_averaged_are_one_batch(loss_type):
    inputs, settings = batch(), config(loss_type)
    whole, grad, _ = graded(inputs, settings)
    tokens = inputs["loss_mask"].sum()
    halves = []
    for rows in (slice(0, 3), slice(3, 6)):
        part = {name: values[rows] for name, values in inputs.items()}
        norm = normaliser(part["loss_mask"], settings, tokens_everywhere=tokens, processes=2)
        halves.append(graded(part, settings, normalised_by=norm))
    loss = (halves[0][0] + halves[1][0]) / 2
    together = torch.cat([half[1] for half in halves]) / 2
    equal = torch.allclose(loss, whole, atol=1e-6) and torch.allclose(together, grad, atol=1e-7)
    assert equal is (loss_type != "bnpo"), "BNPO, as in TRL, counts the tokens of each process"


@pytest.mark.parametrize(("loss_type", "level"), ALL)
@pytest.mark.parametrize("rubbish", [math.nan, -math.inf, 1e4])
def test_what_stands_where_nothing_counts_never_matters(loss_type, level, rubbish):
    inputs, settings = batch(), config(loss_type, level, entropy_coef=0.05)
    spoiled = {
        name: values.masked_fill(inputs["loss_mask"] == 0, rubbish) if values.is_floating_point() and values.dim() == 2
        else values
        for name, values in inputs.items()
    }  # fmt: skip
    clean, dirty = graded(inputs, settings), graded(spoiled, settings)
    assert torch.equal(clean[0], dirty[0]) and torch.equal(clean[1], dirty[1])
    assert averages([clean[2]]) == averages([dirty[2]])


@pytest.mark.parametrize(("loss_type", "level"), ALL)
def test_nothing_to_learn_from_is_zero_not_nan(loss_type, level):
    inputs = batch() | {"loss_mask": torch.zeros(N, L, dtype=torch.long)}
    loss, grad, metrics = graded(inputs, config(loss_type, level, entropy_coef=0.1))
    assert loss == 0 and grad.abs().max() == 0 and all(map(math.isfinite, averages([metrics]).values()))


def test_a_policy_that_ran_away_gives_finite_numbers():
    inputs = {name: values.float() for name, values in batch().items()}
    inputs["advantages"][0] = 0.0  # an infinite ratio times this would be NaN
    far = inputs["logp"] - 300
    loss, grad, _ = graded(inputs, config(), old_logp=far, ref_logp=far + 500)
    assert loss.isfinite() and grad.isfinite().all()


def test_sequence_ratios_are_counted_by_sequence_not_by_token():
    old = torch.zeros(2, 4)
    mask = torch.tensor([[1, 0, 0, 0], [1, 1, 1, 1]])
    new = torch.stack([torch.full((4,), 0.5), torch.zeros(4)])  # the short sequence is clipped
    _, metrics = policy_loss(new, torch.ones(2), mask, LossConfig(importance_sampling_level="sequence"), old_logp=old)
    assert averages([metrics])["clip_ratio/high_mean"] == 0.5
    _, metrics = policy_loss(new, torch.ones(2), mask, LossConfig(), old_logp=old)
    assert averages([metrics])["clip_ratio/high_mean"] == pytest.approx(0.2)


# -- refusals --------------------------------------------------------------------------------------------------------


def test_all_faults_of_a_loss_come_together():
    with pytest.raises(ConfigError) as caught:
        LossConfig("ppo", "word", epsilon=0.0, epsilon_high=-1.0, beta=-0.1, max_completion_length=0, entropy_coef=-1.0)
    assert len(caught.value.faults) == 7
    assert "loss.loss_type=ppo is unknown; known: grpo, dr_grpo, dapo, bnpo" in str(caught.value)
    with pytest.raises(ConfigError, match=r"set loss\.max_completion_length"):
        LossConfig("dr_grpo")
    assert not LossConfig().needs_reference and replace(LossConfig(), beta=0.1).needs_reference


def test_all_faults_of_an_advantage_come_together():
    with pytest.raises(ConfigError) as caught:
        AdvantageConfig("mean", "word", kappa=math.nan)
    assert len(caught.value.faults) == 3
    with pytest.raises(ConfigError, match="costs outweigh answers"):
        AdvantageConfig(credit="turn")


def test_groups_must_be_whole_and_of_at_least_two():
    assert "expected at least 2" in next(group_faults(1))
    assert "2, 3 or 6" in next(group_faults(4, 6)) and "it could be 7" in next(group_faults(2, 7))
    assert not [*group_faults(2, 6), *group_faults(8)]


def test_inputs_that_do_not_fit_are_named_together():
    inputs = batch()
    with pytest.raises(ValueError, match=r"old_logp has shape.*advantages have shape.*needs ref_logp.*needs entropy"):
        policy_loss(
            inputs["logp"], torch.ones(3), inputs["loss_mask"], config(entropy_coef=0.1), old_logp=inputs["logp"][:, 1:]
        )
    with pytest.raises(ValueError, match=r"expected \[N, L\]"):
        policy_loss(torch.zeros(4), torch.ones(4), torch.ones(4), LossConfig())


def test_the_normaliser_is_never_zero():
    for loss_type in LOSS_TYPES:
        norm = normaliser(torch.zeros(2, 3), config(loss_type))
        assert isinstance(norm, Normaliser) and norm.loss >= 1 and norm.entropy == 1


def test_settings_import_no_framework():
    code = "import sys, trustvid.grpo.settings, trustvid.grpo.reward; print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr
