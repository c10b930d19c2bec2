"""labeldp admin: tokens, budgets and the log of a server."""

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

import labeldp as ldp
from labeldp.cli.serve import admin
from labeldp.serve import Analyst
from serve.server import Server, labels
from serve.test_vault import release, vault


def said(*arguments: str) -> str:
    result = CliRunner().invoke(admin, arguments, catch_exceptions=False)
    return result.output


def test_a_token_and_what_the_configuration_holds_of_it_belong_together() -> None:
    words = said("token", "ana").split()
    token = next(word for word in words if word.startswith("ldp_"))
    salted = words[-1].strip('"')
    assert Analyst("ana", salted).knows(token, datetime.now(UTC))
    assert "[analyst.ana]" in words and token not in said("token", "ana")


@pytest.mark.parametrize("name", ["ana", "Ana Müller", 'a "b" \\', "a.b", "x]\\u000a"])
def test_the_configuration_of_a_token_is_toml_with_the_name_of_the_analyst(name: str) -> None:
    table = said("token", name).partition("configuration:\n")[2]
    assert list(tomllib.loads(table)["analyst"]) == [name]


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\x1b[2J", "a\u202eb", "\x7f"])
def test_a_name_that_is_not_printable_gets_no_token(name: str) -> None:
    with pytest.raises(ldp.privacy.InputError, match="must be a name of printable characters"):
        said("token", name)


def test_budget_and_log_say_who_asked_for_what(tmp_path: Path) -> None:
    one = vault(tmp_path / "s", budget="epsilon = 4")
    release(one, 1, reason="to see")
    release(one, 1)
    one.close()
    file = str(tmp_path / "s" / "serve.toml")
    assert "'people': ε 1 of 4 spent" in said("budget", file)
    assert "ana: has a share of 0.5, used 50 % of it" in said("budget", file)
    text = said("log", file)
    assert "release, ana, people, RandomizedResponse" in text and "'to see'" in text and "found again" in text
    head = text.rpartition("Head: ")[2].strip()
    assert "4 lines, chained" in said("log", file, "--lines", "1", "--head", head)
    log = tmp_path / "s" / "state" / "log.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    assert said("log", file).startswith("2")  # the chain alone does not find lines that were cut off
    with pytest.raises(ldp.privacy.LedgerError, match="does not hold this head"):
        said("log", file, "--head", head)


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    file = Server(tmp_path / "s", labels()).folder / "serve.toml"
    with pytest.raises(ldp.privacy.LedgerError, match="there is no log"):
        said("log", str(file))
    file.write_text("address = 3")
    with pytest.raises(ldp.privacy.InputError, match="address must be of type str"):
        said("budget", str(file))
