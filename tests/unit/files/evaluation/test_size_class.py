import numpy as np

from tallyveil.files.evaluation import SizeClass, size_classes


def test_edges_of_the_classes() -> None:
    totals = np.array([0, 1, 9, 10, 99, 100, 999, 1_000, 9_999, 10_000, 10**9])
    labels = [list(SizeClass)[number].value for number in size_classes(totals)]
    assert labels == [
        "0", "1-9", "1-9", "10-99", "10-99", "100-999", "100-999", "1,000-9,999", "1,000-9,999", "10,000+",
        "10,000+",
    ]  # fmt: skip
