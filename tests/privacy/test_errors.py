"""Errors: they name their arguments in Python and on a command line, and survive pickling."""

import copy
import pickle

import pytest

from labeldp.privacy import Argument, DomainError, InputError, NotInvertibleError, decimal

FLAGS = {"epsilon": "--epsilon", "noisy_set": "--noisy-set", "low": "--range", "high": "--range", "out": "--out"}


@pytest.mark.parametrize(
    ("error", "said", "typed"),
    [
        (InputError("must be positive", argument="epsilon"), "epsilon must be positive", "--epsilon must be positive"),
        (InputError("must be positive", argument="mu"), "mu must be positive", "mu must be positive"),
        (InputError("epsilon is a word here"), "epsilon is a word here", "epsilon is a word here"),
        (InputError(": there is no file", argument="out"), "out: there is no file", "--out: there is no file"),
        (
            InputError("is for ", Argument("noisy_set", "fixed"), " alone", argument="records"),
            "records is for noisy_set=fixed alone",
            "records is for --noisy-set fixed alone",
        ),
        (
            InputError("must be given", argument=("epsilon", "noisy_set")),
            "epsilon and noisy_set must be given",
            "--epsilon and --noisy-set must be given",
        ),
        (InputError("must be numbers", argument=("low", "high")), "low and high must be numbers", None),
        (DomainError(Argument("out"), " or ", Argument("low", "1")), "out or low=1", "--out or --range 1"),
    ],
)
def test_sentence_in_python_and_on_a_command_line(error: InputError, said: str, typed: str | None) -> None:
    assert str(error) == said and error.args == (said,)
    assert error.typed(FLAGS) == ("--range must be numbers" if typed is None else typed)


@pytest.mark.parametrize("kind", [InputError, DomainError, NotInvertibleError])
def test_errors_are_pickled_and_copied_with_their_arguments(kind: type[InputError]) -> None:
    error = kind("must lie below ", Argument("epsilon", "1"), argument="noisy_set")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is kind and str(other) == str(error) and other.arguments == ("noisy_set",)
        assert other.typed(FLAGS) == "--noisy-set must lie below --epsilon 1"


def test_a_value_that_is_refused_is_named_by_its_argument() -> None:
    with pytest.raises(InputError) as caught:
        decimal("x", "epsilon")
    assert caught.value.arguments == ("epsilon",)
    assert caught.value.typed(FLAGS) == "--epsilon must be a number, such as 1.0"
