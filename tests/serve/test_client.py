"""A curator whose labels a server holds is a curator to everything that takes one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.curator import Curator, copy_ledger
from labeldp.privacy import CuratorLike
from labeldp.serve import RemoteCurator, ServerConnection, connect
from serve.server import CLASSES, Server, labels
from slow import slow_cases

ROWS = np.random.default_rng(1).normal(size=(300, 4)).round(3)

TABLE = ldp.Public(ROWS, why="made up")

NUMBERS = np.random.default_rng(2).integers(0, 101, size=300)


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("serve") / "classes", labels()) as server:
        yield server


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder, domain = tmp_path_factory.mktemp("serve") / "numbers", "range = [0, 100]\ngrid = 101"
    with Server(folder, NUMBERS, domain, "epsilon = 40\ndelta = 1e-5") as server:
        yield server


def both(server: Server, path: Path, domain: Any, run: str) -> dict[str, tuple[CuratorLike, Any]]:
    """The same analyst's curators through the door and in this process, with the same secrets."""
    account = copy_ledger(server.folder / "people.db", path, values=True).dataset("people", analyst="ana")
    values = labels() if isinstance(domain, ldp.Classes) else NUMBERS
    ids = np.arange(100, 400).astype(str)
    here = Curator(values, domain=domain, ledger=account, ids=ids, run=run)
    return {"there": (server.curator(run=run), ldp.SystemRandomness()), "here": (here, account.randomness)}


def same(one: ldp.Release[Any], other: ldp.Release[Any], seen: Callable[[Any], Any]) -> None:
    assert np.array_equal(seen(one.value), seen(other.value))
    left, right = (each.certificate for each in (one, other))
    assert [(each.path, each.loss, each.mechanism) for each in left.entries] == [
        (each.path, each.loss, each.mechanism) for each in right.entries
    ]
    assert not {each.id for each in left.entries} & {each.id for each in right.entries}  # both were drawn
    assert (left.assumptions, left.published, left.randomness) == (right.assumptions, right.published, right.randomness)


LEARNERS: dict[str, Callable[[Any, Any], ldp.Release[Any]]] = {
    "fit_multistage": lambda curator, rng: ldp.fit_multistage(ROWS, curator, epsilon=2, rng=rng, stages=2),
    "fit_multistage with a prior": lambda curator, rng: ldp.fit_multistage(
        ROWS, curator, epsilon=2, rng=rng,
        prior=ldp.learners.cluster_prior(ROWS, curator, rng=rng, epsilon=1, clusters=4),
    ),
    "fit_linear": lambda curator, rng: ldp.fit_linear(ROWS, curator, epsilon=2, delta=0, rng=rng),
    "fit_cells": lambda curator, rng: ldp.fit_cells(ROWS, curator, epsilon=2, rng=rng),
    "cluster_prior": lambda curator, rng: ldp.learners.cluster_prior(ROWS, curator, rng=rng, epsilon=1, clusters=4),
}  # fmt: skip

DOMAIN = ldp.Interval(0, 100, grid=101)


def fit_bags(curator: Any, rng: Any, mechanism: Any) -> ldp.Release[Any]:
    return ldp.fit_bags(ROWS, curator.release(mechanism, rng=rng, step="bags"))


def test_features_in_another_order_than_the_labels_are_noticed_by_their_ids(classes: Server) -> None:
    ids = np.arange(100, 400)
    assert classes.curator(ids=ids).records == classes.curator(ids=[str(each) for each in ids]).records == 300
    for other in (ids[::-1], ids[:-1], ids + 1):
        with pytest.raises(ldp.privacy.InputError, match="ids must be the ids of the labels"):
            classes.curator(ids=other)


def test_what_was_released_is_known_and_what_is_too_much_is_refused_before_the_first(classes: Server) -> None:
    curator = classes.curator("ben", run="known")
    mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=0.25)
    assert not curator.has_released(mechanism, step="labels")
    curator.release(mechanism, rng=ldp.SystemRandomness(), step="labels")
    assert curator.has_released(mechanism, step="labels")
    curator.require({})
    curator.require({"more": mechanism})
    before = curator.budget["used"]
    with pytest.raises(ldp.BudgetExceeded, match=r"budget exceeded for your share of .* Nothing was charged"):
        curator.require(dict.fromkeys(("much", "more"), mechanism.with_epsilon(30)))
    assert curator.budget["used"] == before


def test_what_is_asked_for_is_checked_before_it_is_sent(classes: Server) -> None:
    curator = classes.curator()
    mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=1)
    with pytest.raises(ldp.privacy.InputError, match="rng must be SystemRandomness"):
        curator.release(mechanism, rng=np.random.default_rng(0))
    with pytest.raises(ldp.privacy.InputError, match="mechanism must be one"):
        curator.release("response", rng=ldp.SystemRandomness())  # type: ignore[arg-type]
    with pytest.raises(ldp.privacy.InputError, match="parts must be Public"):
        curator.split(np.zeros(300))  # type: ignore[arg-type]
    with pytest.raises(ldp.privacy.InputError, match="one non-negative integer"):
        curator.split(ldp.Public(np.zeros(299, dtype=int), why="so"))
    with pytest.raises(ldp.privacy.InputError, match="must be one that you have a share of"):
        classes.curator(dataset="nobody")
    with pytest.raises(ldp.LabelDPError, match="token"):
        connect(classes.address, token="ldp_wrong")
    with pytest.raises(ldp.privacy.InputError, match="nothing to limit"):
        curator.limited(1)
    assert "RemoteCurator('people', records=300" in repr(curator) and curator.users is None


OF_NUMBERS: dict[str, Callable[[Any, Any], ldp.Release[Any]]] = {
    "fit_linear": lambda curator, rng: ldp.fit_linear(ROWS, curator, epsilon=2, delta=1e-6, rng=rng),
    "fit_cells": lambda curator, rng: ldp.fit_cells(ROWS, curator, epsilon=0.5, rng=rng),
    "fit_bags": lambda curator, rng: fit_bags(curator, rng, ldp.BagSum(20, epsilon=2, features=TABLE, domain=DOMAIN)),
    "fit_bags of published weights": lambda curator, rng: fit_bags(
        curator,
        rng,
        ldp.bags.NoisyWeightedLLP(10, 10, "auto", epsilon=1, delta=1e-6, features=TABLE, domain=DOMAIN),
    ),
    "fit_bags of secret weights": lambda curator, rng: fit_bags(
        curator, rng, ldp.bags.WeightedLBA(100, epsilon=1, delta=1e-6, features=TABLE, domain=DOMAIN)
    ),
}


def predicted(value: Any) -> Any:
    return value.predict(ROWS) if hasattr(value, "predict") else np.asarray(getattr(value, "value", value))


@pytest.mark.guarantee("labeldp.serve:RemoteCurator", "labels_stay")
@pytest.mark.guarantee("labeldp.serve:RemoteCurator", "same_bits")
@pytest.mark.parametrize("name", slow_cases(LEARNERS, ["fit_multistage", "fit_multistage with a prior"]))
def test_what_is_released_is_what_a_curator_in_its_process_would_release(
    name: str, classes: Server, tmp_path: Path
) -> None:
    pair = both(classes, tmp_path / "l.db", ldp.Classes(CLASSES), name)
    same(*(LEARNERS[name](*each) for each in pair.values()), predicted)


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_learners_of_numbers_give_the_same_through_the_door(name: str, numbers: Server, tmp_path: Path) -> None:
    pair = both(numbers, tmp_path / "l.db", DOMAIN, name)
    same(*(OF_NUMBERS[name](*each) for each in pair.values()), predicted)


def test_a_socket_that_does_not_exist_is_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", None)
    with pytest.raises(
        ldp.LabelDPError, match=r"no server is at unix:.*: No such file or directory. Check the address"
    ):
        connect(f"unix:{tmp_path / 'none.sock'}", token="ldp_x")


@pytest.mark.parametrize("answer", [{}, {"value": 1}, {"released": {}}, {"released": None}, {"datasets": [{}]}])
def test_an_answer_without_its_parts_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]) -> None:
    monkeypatch.setattr(ServerConnection, "ask", lambda self, call, content: answer)
    server, domain = ServerConnection("unix:nowhere", "token"), ldp.Classes(("no", "yes"))
    curator, mechanism = RemoteCurator(server, "people", domain, 10), ldp.RandomizedResponse(domain=domain, epsilon=1)
    for ask in (
        lambda: connect("unix:nowhere", token="token"),
        lambda: curator.release(mechanism, rng=ldp.SystemRandomness()),
        lambda: curator.has_released(mechanism, step="a"),
        lambda: curator.certificate("charge"),
        lambda: curator.check_ids([1]),
    ):
        with pytest.raises(ldp.LabelDPError, match="sent an answer without"):
            ask()
