"""The files of answered queries: answers with intervals, and the queries as they were understood."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from shoal.release.readme import as_cell
from shoal.space.setting import Question
from shoal.stages.noisy import Answers

FILES = {
    "answers.csv": {
        "query": "name of the query, as in queries.jsonl",
        "zones": "number of zones it covers",
        "slots": "number of slots it covers",
        "visits": "visits in these zones and slots, with noise, not negative; see README.md",
        "visits_low": "lower end of the 95 % interval, not below zero",
        "visits_high": "upper end of the 95 % interval",
        "clip": "visits of one user that were counted there, at most; what this omits is estimated (not for "
        "weights)",
        "how": "noise: measured with noise of its own. weights: answered by the trained table",
    },
    "queries.jsonl": {
        "name": "name of the query",
        "zones": "ids of its zones",
        "slots": "numbers of its slots, from 0",
    },
}


def write_queries(folder: Path, written: str) -> None:
    """The queries themselves, which are public."""
    (folder / "queries.jsonl").write_text(written, "utf-8")


def write_answers(folder: Path, answers: Answers, questions: Sequence[Question]) -> None:
    """The noisy answers into `folder`, one row per query."""
    with open(folder / "answers.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FILES["answers.csv"])
        numbers = (answers.visits, answers.low, answers.high, answers.clip)
        columns = (*(each.tolist() for each in numbers), answers.how)
        for question, *numbers in zip(questions, *columns, strict=True):
            writer.writerow([as_cell(question.name), len(question.zones), len(question.slots), *numbers])


def read_answers(folder: Path) -> list[dict]:
    """The rows of answers.csv, numbers as numbers."""
    with open(folder / "answers.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    whole, real = ("zones", "slots"), ("visits", "visits_low", "visits_high", "clip")
    return [
        {
            name: int(value) if name in whole else float(value) if name in real else value
            for name, value in row.items()
        }
        for row in rows
    ]
