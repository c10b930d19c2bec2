"""Private columns of one dataset: each has labels, domains and noise of its own, and all of them one budget."""

MARK = "\x1f"
"""Stands around the name of a column; names are printable, so that none holds it."""


def marked(text: str, column: str) -> str:
    """Return what a ledger keeps of a column in place of a text, such as the form of a domain; without one the text."""
    return f"{MARK}{column}{MARK}{text}" if column else text


def unmarked(text: str) -> tuple[str, str]:
    """Return the column and the text of what `marked` returned, an empty column where there is none."""
    if not text.startswith(MARK):
        return "", text
    column, _, rest = text[1:].partition(MARK)
    return column, rest


def column_name(dataset: str, column: str) -> str:
    """Return how a column of a dataset is called, such as "survey/income"; without one the dataset's name."""
    return f"{dataset}/{column}" if column else dataset


def dataset_and_column(name: str) -> tuple[str, str]:
    """Return the dataset and the column that a name would be of, an empty column where it is of none."""
    dataset, slash, column = name.rpartition("/")
    return (dataset, column) if slash and dataset.strip() and column.strip() else (name, "")
