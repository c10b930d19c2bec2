"""What a report says of charges of any mechanism."""

from labeldp.privacy import Charge, PrivacyLoss
from labeldp.workflows.summarize import _mechanism


def test_a_mechanism_without_an_epsilon_is_named() -> None:
    loss = PrivacyLoss.gaussian(1.0)
    assert _mechanism(Charge("1", (), loss, {"mechanism": "GaussianMoment", "mu": "1"})) == "GaussianMoment"
    assert _mechanism(Charge("1", (), loss, {"mechanism": "Plain", "epsilon": "1/2"})) == "Plain, epsilon = 0.5"
    assert _mechanism(Charge("1", (), loss, {})) == "a mechanism"
