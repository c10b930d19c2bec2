"""Private columns of one dataset: each has labels, domains and noise of its own, and all of them one budget."""


def column_name(dataset: str, column: str) -> str:
    """Return how a column of a dataset is called, such as "survey/income"; without one the dataset's name."""
    return f"{dataset}/{column}" if column else dataset


def dataset_and_column(name: str) -> tuple[str, str]:
    """Return the dataset and the column that a name would be of, an empty column where it is of none."""
    dataset, slash, column = name.rpartition("/")
    return (dataset, column) if slash and dataset.strip() and column.strip() else (name, "")
