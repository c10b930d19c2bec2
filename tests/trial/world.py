"""A user's folder: tables, a ledger with a budget, a model, released labels, losses, images, and broken files."""

import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd

from labeldp.cli import main
from people import table_of_people

SECRET = "zebra"
"""A label that no domain has: no message may repeat it."""

SECRET_NUMBER = "77351"
"""A number outside of every range."""


@dataclass(frozen=True)
class Ran:
    """What a command left: its exit status and what it said."""

    status: int
    out: str
    err: str


def labeldp(*words: str) -> Ran:
    """Run `labeldp WORDS` in this process, in the current folder, as the shell runs it."""
    out, err = StringIO(), StringIO()
    with patch.object(sys, "argv", ["labeldp", *words]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            status = 0
        except SystemExit as done:
            status = done.code if isinstance(done.code, int) else int(done.code is not None)
    return Ran(status, out.getvalue(), err.getvalue())


def prepare() -> None:
    """Fill the current folder with everything that the tables of mistakes name."""
    people = table_of_people(300, seed=1)
    people.to_csv("people.csv", index=False)
    people.to_parquet("people.parquet", index=False)
    people.assign(hours=people["hours"].clip(1, 79)).to_csv("clean.csv", index=False)
    table_of_people(30, seed=2).drop(columns="bought").to_csv("new_people.csv", index=False)
    table_of_people(60, seed=3).to_csv("public.csv", index=False)
    people.assign(user=people["id"] // 3).to_csv("visits.csv", index=False)
    _broken_tables(people)
    pictures = np.random.default_rng(0).integers(0, 255, (40, 8, 8), np.uint8)
    np.savez("digits.npz", images=pictures, labels=np.arange(40) % 4)
    np.savez("blank.npz", images=0 * pictures, labels=np.arange(40) % 4)
    np.savez("texts.npz", images=np.array(["a"] * 4), labels=np.arange(4))
    np.savez("lengths.npz", images=np.zeros((40, 8, 8), np.uint8), labels=np.arange(39) % 4)
    Path("pickled.npz").write_bytes(b"\x80\x04K\x01.")
    Path("empty-folder").mkdir()
    Path("full-folder").mkdir()
    Path("full-folder/mine.txt").write_text("mine")
    Path("mine.csv").write_text("mine\n1\n")
    Path("not-a.ledger").write_text("something else, and not a database")
    Path("notes.txt").write_text("age,bought\n31,yes\n")
    losses = pd.DataFrame(np.random.default_rng(0).random((60, 3)).round(2), columns=["red", "green", "blue"])
    losses.to_csv("losses.csv", index=False)
    losses.assign(red=1.5).to_csv("high-losses.csv", index=False)
    losses.assign(red=SECRET).to_csv("text-losses.csv", index=False)
    losses.assign(red=[None] + [0.5] * 59).to_csv("gap-losses.csv", index=False)
    losses[["red"]].to_csv("one-expert.csv", index=False)
    paid = "people.csv --label bought --classes no,yes --epsilon 0.75 --ledger spent.ledger --dataset bought --id id"
    for words in (
        "ledger add spent.ledger --dataset bought --epsilon 1 --classes no,yes",
        "ledger add spent.ledger --dataset hours --epsilon 1 --range 0,80",
        "ledger add spent.ledger --dataset digits --epsilon 1 --delta 1e-6",
        f"release {paid} --out noisy.csv",
        f"fit {paid} --features age,region --model boosting --out model",
        "sign model --key me.pem --new-key",
    ):
        ran = labeldp(*words.split())
        assert ran.status == 0, (words, ran)
    noisy = Path("noisy.csv").read_text()
    Path("changed.csv").write_text(noisy.replace("yes", "no"))
    Path("changed.csv.certificate.json").write_bytes(Path("noisy.csv.certificate.json").read_bytes())
    Path("unsigned.csv").write_text(noisy)
    Path("torn.json").write_text('{"entries": [')
    Path("list.json").write_text("[1, 2]")
    Path("them.pem.pub").write_text("no key at all")
    Path("old-model").mkdir()
    for each in Path("model").iterdir():
        (Path("old-model") / each.name).write_bytes(each.read_bytes())
    with open("old-model/model.skops", "ab") as stream:
        stream.write(b"one byte more")


def _broken_tables(people: pd.DataFrame) -> None:
    """Tables that a user may hold, each wrong in one way."""
    write = {
        "empty.csv": "",
        "header.csv": "id,age,bought\n",
        "ragged.csv": "id,age,bought\n1,31,yes\n2,40\n3,50,no\n",
        "twice.csv": "id,age,age,bought\n1,2,3,yes\n2,3,4,no\n",
        "unnamed.csv": "id,,bought\n1,2,yes\n2,3,no\n",
        "semicolons.csv": "id;age;bought\n1;31,5;yes\n2;40,5;no\n",
        "table.json": '{"id": [1, 2], "bought": ["yes", "no"]}',
        "only-label.csv": "bought\nyes\nno\n",
        "mechanism.csv": "label,no,yes\nno,0.7,0.3\nyes,0.3,0.7\n",
        "halves.csv": "label,no,yes\nno,0.7,0.2\nyes,0.3,0.7\n",
        "negative.csv": "label,no,yes\nno,1.7,-0.7\nyes,0.3,0.7\n",
        "one-label.csv": "label,no,yes\nno,0.7,0.3\n",
        "letters.csv": "label,no,yes\nno,a,b\nyes,c,d\n",
        "quote.csv": 'id,age,bought\n1,"31,yes\n2,40,no\n',
    }
    for name, text in write.items():
        Path(name).write_text(text)
    Path("upper.csv").write_text(Path("people.csv").read_text().replace("bought", "BOUGHT", 1))
    Path("junk.parquet").write_bytes(b"PAR1 and nothing of the kind")
    Path("junk.csv.gz").write_bytes(b"not compressed")
    Path("binary.csv").write_bytes(bytes(range(256)) * 8)
    Path("latin.csv").write_bytes("id,city,bought\n1,Köln,yes\n2,Bonn,no\n".encode("latin-1"))
    Path("sheet.xlsx").write_bytes(b"PK\x03\x04 a sheet")
    people.assign(bought=[SECRET, *people["bought"][1:]]).to_csv("odd.csv", index=False)
    people.assign(bought=[None, *people["bought"][1:]]).to_csv("missing.csv", index=False)
    people.assign(hours=[int(SECRET_NUMBER), *people["hours"][1:]]).to_csv("far.csv", index=False)
    people.assign(hours=[SECRET, *people["hours"][1:]]).to_csv("words.csv", index=False)
    people.assign(hours=[str(each).replace(".", ",") for each in people["hours"]]).to_csv("commas.csv", index=False)
    people.assign(id=0).to_csv("same-id.csv", index=False)
    people.assign(id=[None, *people["id"][1:]]).to_csv("no-id.csv", index=False)
    people.assign(id=people["id"] + 0.5).to_csv("half-id.csv", index=False)
    people.assign(user=[None] + ["p"] * 299).to_csv("nobody.csv", index=False)
    people.assign(age=7).to_csv("constant.csv", index=False)
