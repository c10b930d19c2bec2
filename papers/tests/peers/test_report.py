"""The table has a row for each method, its command, what was published, and why ours differ."""

from papers.peers.published import PUBLISHED
from papers.peers.report import peers_markdown
from papers.peers.run import PEER_METHODS, PeerResult, PeerRun


def result(method: str, epsilon: float, value: float, seed: int = 0, dataset: str = "mnist") -> PeerResult:
    delta = 1e-6 if method != "labels" and PEER_METHODS[method].delta else 0.0
    run = PeerRun(dataset, method, epsilon, delta, 6000, seed)
    trust = "central" if delta else "local"
    return PeerResult(run, "accuracy", value, trust, "a promise", (6000, 5000), {}, 60.0, {}, "today")


RESULTS = [
    result("labels", 0.0, 0.95),
    *(result("alibi", 1.0, value, seed) for seed, value in enumerate((0.80, 0.82))),
    result("walr", 1.0, 0.7),
]


def test_a_row_holds_mean_and_spread_and_what_was_published_stands_beside_it() -> None:
    text = peers_markdown(RESULTS)
    assert "| `alibi` | ALIBI | local | 0 | 81.00 ± 1.41 |" in text
    assert "| `walr` | WALR | central | 1e-06 | 70.00 |" in text
    assert "From the labels themselves the same learner gets 95.00." in text and "4 minutes on the clock" in text
    assert "--dataset mnist --data DIR --records 6000 --epsilon 1 --seeds 2 --out peers --method NAME" in text
    assert "| mnist | 1 | 94.1 | 81.00 ± 1.41 |" in text and "| mnist | 0.5 | 82.5 | – |" in text
    assert "### ALIBI: `alibi`" in text and "### VLP" not in text


def test_every_method_of_another_paper_says_what_was_published_and_what_is_wrong_in_the_code() -> None:
    own = {"local", "central", "local-numbers", "central-numbers"}
    assert set(PUBLISHED) == set(PEER_METHODS) - own
    assert all(each.source and each.code for each in PUBLISHED.values())
    assert all(0 < figure < 100 for each in PUBLISHED.values() for figure in each.figures.values())
