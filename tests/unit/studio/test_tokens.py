"""Tickets open one file for a short while."""

from shoal.studio import guard as tokens
from shoal.studio.guard import MOST_TICKETS, Tickets, new_token, same_token


def test_tokens_are_long_and_new():
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) >= 43
    assert same_token("abc", "abc")
    assert not same_token("abd", "abc")


def test_a_ticket_expires(tmp_path, monkeypatch):
    tickets = Tickets()
    name = tickets.issue(tmp_path)
    assert tickets.find(name).path == tmp_path
    assert tickets.find("other") is None
    now = tokens.time.monotonic()
    monkeypatch.setattr(tokens.time, "monotonic", lambda: now + tokens.TICKET_SECONDS + 1)
    assert tickets.find(name) is None


def test_tickets_do_not_pile_up(tmp_path):
    tickets = Tickets()
    names = [tickets.issue(tmp_path) for _ in range(MOST_TICKETS + 5)]
    assert tickets.find(names[0]) is None
    assert tickets.find(names[-1]) is not None
