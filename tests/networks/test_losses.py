"""Every loss by hand, and what makes it right: its expectation over the noise, or its gradient."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import labeldp as ldp
from labeldp.learners import Evidence, Posterior
from labeldp.learners.evidence import SumsTerm
from labeldp.networks import forward_loss, objective_of, preference_loss, released_loss, targets
from labeldp.privacy import InputError, Public

DOMAIN = ldp.Classes(3)

LOGS = torch.log(torch.tensor([[0.7, 0.2, 0.1]]))

FIRST = torch.tensor([0])


def evidence(code: int, epsilon: float = 1.0) -> Evidence:
    return Evidence.made_by(ldp.RandomizedResponse(domain=DOMAIN, epsilon=epsilon), np.array([code], dtype=np.uint8))


def loss(name: str, code: int, **arguments: object) -> float:
    return float(objective_of(evidence(code), name, **arguments)(LOGS, FIRST))


def test_cross_entropy_by_hand() -> None:
    assert loss("cross-entropy", 1) == pytest.approx(-np.log(0.2))


def test_the_forward_loss_by_hand() -> None:
    keep = np.e / (np.e + 2)
    lie = (1 - keep) / 2
    assert loss("forward", 1) == pytest.approx(-np.log(0.2 * keep + 0.8 * lie))


def test_the_debiased_loss_by_hand() -> None:
    # Ghazi et al., eq. (17): p = 1 / (e + 2), all three classes may be answered.
    p, every = 1 / (np.e + 2), -np.log([0.7, 0.2, 0.1])
    assert loss("debiased", 1) == pytest.approx((every[1] - p * every.sum()) / (1 - 3 * p))


def test_the_debiased_loss_is_unbiased() -> None:
    matrix = evidence(0).matrix
    for truth in range(3):
        expected = sum(matrix[truth, code] * loss("debiased", code) for code in range(3))
        assert expected == pytest.approx(-float(LOGS[0, truth]))


def test_the_posterior_loss_by_hand() -> None:
    keep = np.e / (np.e + 2)
    joint = np.array([0.5, 0.3, 0.2]) * [(1 - keep) / 2, keep, (1 - keep) / 2]
    prior = np.array([[0.5, 0.3, 0.2]])
    assert loss("posterior", 1, prior=prior) == pytest.approx(-(joint / joint.sum()) @ np.log([0.7, 0.2, 0.1]))


def test_the_forward_gradient_is_that_of_the_posterior_under_the_network_itself() -> None:
    logits = torch.tensor([[0.3, -0.2, 0.5]], requires_grad=True)
    own = torch.softmax(logits, dim=1).detach().numpy()
    gradients = []
    for each in (objective_of(evidence(2), "forward"), objective_of(evidence(2), "posterior", own)):
        (gradient,) = torch.autograd.grad(each(torch.log_softmax(logits, dim=1), FIRST).sum(), logits)
        gradients.append(gradient)
    assert torch.allclose(gradients[0], gradients[1], atol=1e-6)


def test_distillation_is_smallest_at_the_teacher() -> None:
    teacher = targets([[0.6, 0.3, 0.1]])
    own = float(teacher(torch.log(torch.tensor([[0.6, 0.3, 0.1]])), FIRST))
    assert own < float(teacher(LOGS, FIRST))


def test_labels_that_were_answered_among_few_candidates_have_no_debiased_loss() -> None:
    prior = Public(np.array([[0.98, 0.01, 0.01]]), why="a test")
    mechanism = ldp.mechanisms.RandomizedResponseWithPrior(domain=DOMAIN, epsilon=1.0, prior=prior)
    found = Evidence.made_by(mechanism, np.array([0], dtype=np.uint8))
    with pytest.raises(ldp.privacy.NotInvertibleError, match="one stage without a prior"):
        objective_of(found, "debiased")
    with pytest.raises(ldp.privacy.InputError, match="loss must be one of"):
        objective_of(found, "hinge")


def test_the_loss_of_scores_is_that_of_the_objective() -> None:
    found = evidence(1)
    scores = LOGS + 3.0  # scores need not be normalized
    rows = torch.tensor(found.likelihood)
    assert float(forward_loss(scores, rows)) == pytest.approx(loss("forward", 1), rel=1e-6)
    for wrong in (rows[:, :2], rows[0]):
        with pytest.raises(InputError, match="likelihood must have the shape of scores"):
            forward_loss(scores, wrong)


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_a_class_that_was_given_up_comes_back_by_smoothing(epsilon: float) -> None:
    """Without smoothing its gradient is as good as none, however many answers speak for it."""
    labels = np.arange(3000, dtype=np.uint8) % 3
    mechanism = ldp.RandomizedResponse(domain=DOMAIN, epsilon=epsilon)
    held = ldp.Curator(labels, domain=DOMAIN, budget=ldp.Budget(epsilon))
    known = torch.tensor(Evidence.of(held.release(mechanism, rng=np.random.default_rng(1))).likelihood)
    truth = torch.from_numpy(labels.astype(np.int64))
    start = torch.full((3, 3), -12.0) + 12.0 * torch.eye(3)
    start[:, 2] = -40.0  # of the three classes the last one is never answered
    informative = ((np.exp(epsilon) - 1) / (np.exp(epsilon) + 2)) ** 2  # the gradient is as small as what answers say
    found = []
    for smoothing in (0.0, 0.1):
        table = start.clone().requires_grad_()
        for step in range(400):
            loss = forward_loss(table[truth], known, smoothing * (1 - step / 400)).mean()
            (gradient,) = torch.autograd.grad(loss, table)
            table = (table - 9.0 / informative * gradient).detach().requires_grad_()
        found.append(table.argmax(dim=1).tolist())
    assert found[0][:2] == [0, 1] and found[0][2] != 2
    assert found[1] == [0, 1, 2]


def test_smoothing_changes_the_gradient_alone() -> None:
    rows = torch.tensor(evidence(1).likelihood)
    scores = LOGS.clone().requires_grad_()
    plain, smooth = forward_loss(scores, rows), forward_loss(scores, rows, smoothing=0.5)
    assert torch.allclose(plain.detach(), smooth.detach(), rtol=1e-6)
    (gradient,) = torch.autograd.grad(smooth.sum(), scores)
    own = LOGS.exp()
    shares = rows / rows.sum(dim=1, keepdim=True)
    weight = 0.5 * (3 * shares.square().sum(dim=1, keepdim=True) - 1) / 2
    posterior = (((1 - weight) * own + weight / 3) * rows).float()
    assert torch.allclose(gradient, own - posterior / posterior.sum(), atol=1e-6)
    for wrong in (-0.1, 1.5):
        with pytest.raises(InputError, match="smoothing must be a share"):
            forward_loss(scores, rows, wrong)


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1.0, 2.0, 4.0])
def test_smoothing_is_a_share_of_what_the_answers_say(epsilon: float) -> None:
    """Randomized labels say next to nothing at a small epsilon: a smoothing that did not know it would outweigh them.

    Where answers follow classes of probabilities .8, .1, .1, and their number is without limit, the gradient with
    smoothing must vanish near these, at every epsilon alike.
    """
    truth, odds = torch.tensor([0.8, 0.1, 0.1], dtype=torch.float64), np.exp(epsilon)
    channel = torch.tensor((np.eye(3) * (odds - 1) + 1) / (odds + 2))  # P(class | answer) = P(answer | class)
    answers = channel @ truth
    scores = torch.zeros(3, dtype=torch.float64)
    informative = ((odds - 1) / (odds + 2)) ** 2
    for _ in range(3000):
        scores = scores.detach().requires_grad_()
        losses = forward_loss(scores.expand(3, 3), channel, smoothing=0.1)
        (gradient,) = torch.autograd.grad((answers * losses).sum(), scores)
        scores = scores - gradient / informative
    assert float((torch.softmax(scores, dim=0) - truth).abs().max().detach()) < 0.1


def test_a_plain_loop_learns_the_true_classes() -> None:
    """Of labels that are true in 58 of 100 cases, a module learns probabilities of the true ones."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(4000, 2)).astype("float32")
    labels = (table[:, 0] > 0).astype(int)
    mechanism = ldp.RandomizedResponse(domain=ldp.Classes(2), epsilon=1 / 3)
    held = ldp.Curator(labels, domain=mechanism.domain, budget=ldp.Budget(1))
    rows = torch.tensor(Evidence.of(held.release(mechanism, rng=rng)).likelihood, dtype=torch.float32)
    torch.manual_seed(0)
    module = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    data = torch.utils.data.TensorDataset(torch.from_numpy(table), rows)
    for _ in range(8):
        for batch, known in torch.utils.data.DataLoader(data, batch_size=256, shuffle=True):
            optimizer.zero_grad()
            forward_loss(module(batch), known).mean().backward()
            optimizer.step()
    chances = functional.softmax(module(torch.from_numpy(table)), dim=1).detach().numpy()
    assert (chances.argmax(axis=1) == labels).mean() > 0.95
    assert chances[np.arange(4000), labels].mean() > 0.8  # and not the 0.58 of what was released


def released(rng: np.random.Generator) -> tuple[torch.Tensor, Posterior]:
    rows = rng.normal(size=(50, 4))
    labels = np.eye(3)[rng.integers(0, 3, 50)]
    sums = SumsTerm.of(rows, rows.T @ labels + rng.normal(size=(4, 3)), 1.0, 0.1)
    likelihood = rng.uniform(0.1, 1.0, (50, 3))
    return torch.tensor(rows), Posterior(rows, np.ones(4), sums=(sums,), likelihood=likelihood, soft=labels)


def whole(module: nn.Module, inputs: torch.Tensor, posterior: Posterior) -> torch.Tensor:
    """The same by its definition, in one graph."""
    logarithms = functional.log_softmax(module(inputs), dim=1)
    [term] = posterior.sums
    gap = torch.tensor(term.rows).T @ logarithms.exp() - torch.tensor(term.moment)
    sums = 0.5 * (gap**2 / torch.tensor(term.variance)[:, None]).sum()
    noisy = (torch.tensor(posterior.likelihood) * logarithms.exp()).sum(dim=1).log().sum()
    return sums - noisy - (torch.tensor(posterior.soft) * logarithms).sum()


@pytest.mark.parametrize("micro", [7, 50, 1000])
def test_two_passes_give_the_gradient_of_the_whole(micro: int) -> None:
    inputs, posterior = released(np.random.default_rng(0))
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    expected = whole(module, inputs, posterior)
    expected.backward()
    gradients = [each.grad.clone() for each in module.parameters()]
    module.zero_grad()
    assert released_loss(module, inputs, posterior, micro) == pytest.approx(float(expected.detach()), rel=1e-9)
    for parameter, gradient in zip(module.parameters(), gradients, strict=True):
        assert torch.allclose(parameter.grad, gradient, rtol=1e-9)


def test_a_linear_module_ends_where_the_head_does() -> None:
    inputs, posterior = released(np.random.default_rng(1))
    weak = Posterior(posterior.rows, np.full(4, 1e-9), sums=posterior.sums, likelihood=posterior.likelihood)
    best = torch.tensor(weak.largest(np.zeros((4, 3))))
    module = nn.Linear(4, 3, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(best.T)
    released_loss(module, inputs, weak)
    assert float(module.weight.grad.abs().max()) < 0.05


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("keep", [0.6, 0.75, 0.99])
@pytest.mark.parametrize("margin", [-3.0, -0.2, 0.0, 2.5])
def test_the_formulas(margin: float, keep: float) -> None:
    given = torch.tensor([margin], dtype=torch.float64)
    forward = -math.log(keep * sigmoid(margin) + (1 - keep) * sigmoid(-margin))
    assert float(preference_loss(given, keep)) == pytest.approx(forward)
    unbiased = (-keep * math.log(sigmoid(margin)) + (1 - keep) * math.log(sigmoid(-margin))) / (2 * keep - 1)
    assert float(preference_loss(given, keep, "unbiased")) == pytest.approx(unbiased)


def test_the_unbiased_loss_averages_to_that_of_the_truth() -> None:
    margin, keep = torch.tensor([0.7, -0.7], dtype=torch.float64), 0.8
    mean = keep * preference_loss(margin[:1], keep, "unbiased") + (1 - keep) * preference_loss(
        margin[1:], keep, "unbiased"
    )
    assert float(mean) == pytest.approx(-math.log(sigmoid(0.7)))


def test_the_forward_loss_is_bounded_and_finite_where_the_model_is_sure() -> None:
    margins = torch.tensor([-500.0, 500.0], requires_grad=True)
    losses = preference_loss(margins, 0.8)
    assert losses.tolist() == pytest.approx([-math.log(0.2), -math.log(0.8)], rel=1e-5)
    losses.sum().backward()
    assert torch.isfinite(margins.grad).all()
    assert float(preference_loss(torch.tensor([30.0]), 1.0)) == pytest.approx(0, abs=1e-6)


def test_what_is_no_probability_is_refused() -> None:
    for keep in (0.5, 0.2, 1.5, math.nan):
        with pytest.raises(InputError, match="keep must be a probability"):
            preference_loss(torch.zeros(1), keep)
    with pytest.raises(InputError, match="kind must be"):
        preference_loss(torch.zeros(1), 0.8, "robust")


def test_probabilities_are_no_scores() -> None:
    likelihood = torch.tensor([[0.75, 0.25]])
    with pytest.raises(InputError, match=r"scores are probabilities: each row sums to 1. Pass the scores before"):
        forward_loss(torch.tensor([[0.25, 0.75]]), likelihood)
    assert math.isfinite(forward_loss(torch.log(torch.tensor([[0.25, 0.75]])), likelihood).item())
