"""The configuration of a server: what it takes, and what it refuses by name."""

import hmac
import os
import pwd
import shutil
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import labeldp as ldp
from labeldp.serve import Analyst, Config, hashed, new_token
from labeldp.serve.front import check_isolation
from labeldp.serve.isolation import opens
from serve.server import Server, labels

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def read(folder: Path, old: str = "", new: str = "", **more: Any) -> Config:
    file = Server(folder / "s", labels(9), **more).folder / "serve.toml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return Config.read(file)


def test_a_configuration_says_what_is_held_and_for_whom(tmp_path: Path) -> None:
    config = read(tmp_path, expires="expires = 2027-01-01T00:00:00Z", budget='epsilon = "1.5"\ndelta = 1e-6')
    people = config.datasets["people"]
    assert (people.budget, people.shares) == (ldp.Budget("1.5", 1e-6), {"ana": "0.5", "ben": "0.5"})
    assert config.socket == tmp_path / "s" / "door.sock"
    assert config.analysts["ana"].expires == datetime(2027, 1, 1, tzinfo=UTC)
    assert config.limits.quantum == 0.002 and config.limits.rate == 600


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('address = "unix:door.sock"', "", "address is missing"),
        ('address = "unix:door.sock"', 'address = "0.0.0.0:80"', "certificate"),
        ('address = "unix:door.sock"', 'address = "example.org:443"', "TLS"),
        ('address = "unix:door.sock"', 'address = "nowhere"', "HOST:PORT"),
        ('state = "state"', "state = 3", "state must be of type str"),
        ('state = "state"', 'state = "state"\ncertificate = "c.pem"', "together"),
        ('isolation = "none', 'isolation = "no', "isolation must be a table"),
        ("quantum = 0.002", "quantum = 0", "limits.quantum must be positive"),
        ("quantum = 0.002", "quantums = 1", "limits.quantums is not known; did you mean 'quantum'"),
        ('label = "answer"', "", "dataset.people.label is missing"),
        ("epsilon = 100", "epsilon = true", "dataset.people.epsilon must be of type"),
        ("classes =", "class =", "must be declared"),
        ("ana = 0.5", "eve = 0.5", "no table"),
        ("ledger =", 'mechanisms = ["RandomisedResponse"]\nledger =', "did you mean 'RandomizedResponse'"),
        ("ledger =", 'features = ["day", "answer"]\nledger =', "features must not hold 'answer': features are public"),
        ("ledger =", 'features = ["id"]\nledger =', "features must not hold 'id'"),
        ("ledger =", 'features = ["day", "day"]\nledger =', "dataset.people.features must be different names"),
        ("ledger =", "features = [1]\nledger =", "dataset.people.features must be different names"),
        ("[limits]", "[limits", "is not TOML"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(ldp.privacy.InputError, match=words.replace("[", "\\[")):
        read(tmp_path, old, new)


def test_a_token_itself_is_refused_in_a_configuration(tmp_path: Path) -> None:
    text = Server(tmp_path / "s", labels(9)).folder / "serve.toml"
    salted = next(line for line in text.read_text().splitlines() if line.startswith("token"))
    with pytest.raises(ldp.privacy.InputError, match="not the token itself"):
        read(tmp_path, "[analyst.ana]", f'[analyst.eve]\ntoken = "{new_token()}"\n[analyst.ana]')
    assert "ldp_" not in salted


def test_no_isolation_is_taken_only_in_words_that_say_what_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "s" / "serve.toml"
    check_isolation(read(tmp_path), file)
    line = next(each for each in file.read_text().splitlines() if "isolation" in each)
    with pytest.raises(ldp.privacy.InputError, match="isolation must name two users"):
        check_isolation(read(tmp_path, line, ""), file)
    users = 'isolation = { front = "daemon", vault = "daemon" }'
    with pytest.raises(ldp.privacy.InputError, match="two users"):
        read(tmp_path, line, users)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("name", ["labels.csv", "people.db", "state", "state/log.key", "tls.key", "serve.toml"])
def test_with_isolation_no_file_may_be_open_to_others(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = read(tmp_path, top='certificate = "tls.pem"\nkey = "tls.key"')
    config, folder = replace(config, isolation=None, front="nobody", vault="daemon"), tmp_path / "s"
    (folder / "state").mkdir()
    for each in ("people.db", "state/log.key", "tls.key"):
        (folder / each).touch()
    for each in ("labels.csv", "people.db", "state", "state/log.key"):
        shutil.chown(folder / each, "daemon")
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o755 if each == folder else 0o700)
    check_isolation(config, folder / "serve.toml")
    place = folder / name
    for rights in (0o744, 0o770, 0o702):
        place.chmod(rights)
        if name != "serve.toml" or rights & 0o022:
            with pytest.raises(ldp.privacy.InputError, match=f"{place} is open to other users: run chmod go-"):
                check_isolation(config, folder / "serve.toml")
    place.chmod(0o700)
    shutil.chown(place, "nobody")
    with pytest.raises(ldp.privacy.InputError, match=f"{place} belongs to neither .* run chown"):
        check_isolation(config, folder / "serve.toml")
    shutil.chown(place, "root" if name in ("tls.key", "serve.toml") else "daemon")
    folder.chmod(0o777)
    with pytest.raises(ldp.privacy.InputError, match=f"{folder} is open to other users: run chmod go-w"):
        check_isolation(config, folder / "serve.toml")
    folder.chmod(0o755)
    if place.is_file():
        os.link(place, folder / "another")
        with pytest.raises(ldp.privacy.InputError, match="another name, a hard link"):
            check_isolation(config, folder / "serve.toml")
        (folder / "another").unlink()
    check_isolation(config, folder / "serve.toml")
    if name != "serve.toml":
        monkeypatch.setattr("labeldp.serve.isolation.opens", lambda path, user: path == place)
        with pytest.raises(ldp.privacy.InputError, match=f"{place} can be opened by 'nobody'"):
            check_isolation(config, folder / "serve.toml")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root tries as somebody else")
def test_a_file_is_opened_as_the_front_would_open_it() -> None:
    with tempfile.TemporaryDirectory() as name:
        file, nobody = Path(name) / "f", pwd.getpwnam("nobody")
        file.parent.chmod(0o755)
        file.touch(0o600)
        assert not opens(file, nobody)
        file.chmod(0o604)
        assert opens(file, nobody) and os.geteuid() == 0
        assert not opens(file.parent / "none", nobody)


def test_only_the_token_is_known_and_only_until_it_expires() -> None:
    token = new_token()
    ana = Analyst("ana", hashed(token), datetime(2026, 12, 1, tzinfo=UTC))
    assert ana.knows(token, NOW) and not ana.knows(token, datetime(2026, 12, 1, tzinfo=UTC))
    for wrong in (token[:-1], token + "a", "", token.upper(), "\ud800", new_token()):
        assert not ana.knows(wrong, NOW)
    assert token not in repr(ana) and hashed(token) != hashed(token)


def test_tokens_are_compared_in_a_time_that_does_not_depend_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    whole = hmac.compare_digest
    monkeypatch.setattr(
        "hmac.compare_digest", lambda *both: compared.append([len(each) for each in both]) or whole(*both)
    )
    ana = Analyst("ana", hashed("right"))
    for token in ("right", "wrong", "", "a" * 1000):
        ana.knows(token, NOW)
    assert compared == [[64, 64]] * 4
