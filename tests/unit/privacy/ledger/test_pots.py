"""Two pots: what is admitted, what a lifetime is worth, an adversary who watches, and ledgers from before."""

import math
import random
import shutil
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from tests.unit.privacy.ledger.rows import reserved, write_row

from shoal.auditing.planted.ledger import MemoryStore, agrees
from shoal.errors import BudgetExceeded, LedgerError
from shoal.kinds.plan import law_of
from shoal.privacy.accounting import GDP, NANO, PURE, TAU, ZCDP, Loss, epsilon_for, rho_for
from shoal.privacy.gaussian import delta_of, mu_of_pure
from shoal.privacy.ledger import Ledger, open_ledger, pots_within
from shoal.release.verify import check_release

BEFORE = Path(__file__).parents[3] / "golden" / "one_limit"


def opened(epsilon: float, delta: float | None, pure: float | None = None) -> Ledger:
    ledger = Ledger(MemoryStore())
    ledger.create("town", pots=pots_within(epsilon, delta, pure), delta=delta)
    return ledger


def admit(ledger: Ledger, loss: Loss, key: str, pot: str) -> None:
    ledger.reserve("town", loss, key, "a release", pot=pot)


def a_loss(rng: random.Random) -> Loss:
    """Gaussian, pure, or a mixture of both with a choice."""
    kind = rng.randrange(4)
    gaussian, pure = Loss.gaussian(rng.randrange(1, 10**7)), Loss.pure(rng.randrange(1, 4 * 10**8))
    return (gaussian, pure, gaussian + pure, gaussian + Loss.choice(rng.randrange(1, 10**6)))[kind]


def test_a_release_is_admitted_exactly_if_it_fits_its_pot():
    """1,000 random sequences against sums of whole numbers, with and without a pot that is named."""
    rng, refused = random.Random(5), 0
    for _ in range(1000):
        epsilon = rng.choice((0.5, 1.0, 2.0))
        limits = pots_within(epsilon, 1e-6, rng.choice((None, 0.0, epsilon, epsilon / 3)))
        ledger, spent = Ledger(MemoryStore()), dict.fromkeys(limits, 0)
        ledger.create("town", pots=limits, delta=1e-6)
        for number in range(rng.randrange(1, 6)):
            loss, named = a_loss(rng), rng.choice(("", "", "gaussian", "pure"))
            pot = named or ("gaussian" if loss.pure_epsilon_nano is None else "pure")
            price = loss.pure_epsilon_nano if pot == "pure" else loss.gdp_nano
            fits = price is not None and spent[pot] + price <= limits[pot]
            ask = (ledger, loss, f"{number}", named)
            if fits:
                admit(*ask)
                spent[pot] += price
                continue
            with pytest.raises(LedgerError, match="budget-exceeded" if price is not None else "not-pure"):
                admit(*ask)
            refused += 1
        held = {name: pot.spent_nano for name, pot in ledger.state().population("town").pots.items()}
        assert held == spent
        assert ledger.verify() == []
    assert 500 < refused < 2500


def test_rows_say_law_slack_and_pot():
    ledger = opened(2.0, 1e-6)
    ledger.reserve("town", Loss.gaussian(10**6), "a", "density")
    ledger.reserve("town", Loss.pure(10**8), "b", "histogram")
    ledger.reserve("town", Loss.pure(10**8), "c", "histogram", pot="gaussian")
    spends = ledger.state().population("town").spends
    assert [(each.law, each.tau, each.pot) for each in spends] == [
        (GDP, TAU, "gaussian"),
        (PURE, 0, "pure"),
        (PURE, 0, "gaussian"),
    ]
    assert spends[2].cost_nano == math.ceil(mu_of_pure(0.1) ** 2 / 2 * NANO)
    with pytest.raises(LedgerError, match="not-gaussian"):
        ledger.reserve("town", Loss(10), "d", "of zCDP alone")
    assert ledger.state().population("town").pots["gaussian"].tau == TAU


@pytest.mark.parametrize(
    "change",
    [
        {"pot": "one"},
        {"law": "zcdp"},
        {"pot": "pure"},
        {"cost_nano": 10**9},
        {"tau": 10**24},
    ],
)
def test_rows_that_a_pot_does_not_take_do_not_verify(change):
    ledger = opened(2.0, 1e-6)
    row = {"kind": "reserve", "population": "town", "reservation": "00", "token_sha256": "0" * 64}
    row |= {"key": "k", "what": "w", "unit": "user", "law": "gaussian", "pot": "gaussian", "tau": TAU}
    sound = {**row, "cost_nano": 10**6, "pure_epsilon_nano": None, "source_digest": None, "at": "2999"}
    write_row(ledger, **sound)
    assert ledger.verify() == []
    write_row(ledger, **{**sound, "reservation": "01", **change})
    assert [finding.code for finding in ledger.verify()] == ["rule"]


def test_a_refusal_names_the_largest_epsilon_that_fits_and_it_fits():
    ledger = opened(2.0, 1e-6)
    ledger.reserve("town", Loss.gaussian(rho_for(0.8, 1e-6, GDP)), "a", "density")
    for pot, wanted in (("", Loss.gaussian(rho_for(0.9, 1e-6, GDP))), ("gaussian", Loss.pure(9 * 10**8))):
        with pytest.raises(BudgetExceeded) as refused:
            ledger.reserve("town", wanted, "b", "density", pot=pot)
        remedy = refused.value.remedy
        assert remedy.startswith("The largest epsilon that fits is ")
        assert "raise" not in remedy.partition("pass --epsilon")[0]
        largest = float(remedy.split()[6].rstrip(":,"))
        pure = wanted.law == PURE

        def of(epsilon, pure=pure):
            return Loss.pure(round(epsilon * NANO)) if pure else Loss.gaussian(rho_for(epsilon, 1e-6, GDP))

        ledger.check_fits("town", of(largest), pot=pot)
        with pytest.raises(BudgetExceeded):
            ledger.check_fits("town", of(largest + 2e-4), pot=pot)


def test_half_of_epsilon_each_or_as_much_pure_as_is_said():
    for epsilon, pure in ((2.0, None), (2.0, 0.0), (2.0, 2.0), (0.3, 0.1)):
        limits = pots_within(epsilon, 1e-6, pure)
        assert limits["pure"] == round((epsilon / 2 if pure is None else pure) * NANO)
        ledger = opened(epsilon, 1e-6, pure)
        lifetime = ledger.state().population("town").lifetime
        assert lifetime is not None
        assert lifetime[0] == pytest.approx(epsilon, abs=1e-6)
        assert lifetime[0] <= epsilon
        assert lifetime[1] == (0.0 if pure == epsilon else 1e-6)
    for epsilon, delta, pure in ((1.0, 1e-6, 1.1), (1.0, 1e-6, -0.1), (1.0, None, 0.5), (80.0, 1e-6, None)):
        with pytest.raises(LedgerError, match="pots-range"):
            pots_within(epsilon, delta, pure)


def test_a_lifetime_is_worth_more_with_every_limit():
    def lifetime(gaussian: int, pure: int) -> float:
        ledger = Ledger(MemoryStore())
        ledger.create("town", pots={"gaussian": gaussian, "pure": pure}, delta=1e-6)
        found = ledger.state().population("town").lifetime
        assert found is not None
        return found[0]

    amounts = (10**5, 10**6, 10**7, 10**8, 4 * 10**8)
    for other in amounts:
        by_gaussian = [lifetime(each, other) for each in amounts]
        by_pure = [lifetime(other, each) for each in amounts]
        assert by_gaussian == sorted(set(by_gaussian))
        assert by_pure == sorted(set(by_pure))


def best_strategy(mu: float, pure: float, whole: float, *, steps: int = 4) -> float:
    """delta at epsilon = `whole` of the best strategy that sees the privacy loss after every step.

    A step is a share of either pot: Gaussian noise, or randomized response, the strongest of pure steps. The
    value of a state is the largest expected gain, over stopping and both kinds of step.
    """
    grid = np.linspace(-6, 7, 5201)
    share, part = mu / math.sqrt(steps), pure / steps
    nodes = np.linspace(-8, 8, 161)
    weight = norm.pdf(nodes) / norm.pdf(nodes).sum()
    p = 1 / (1 + math.exp(-part))
    gain = np.maximum(0.0, -np.expm1(np.minimum(whole - grid, 0.0)))
    value = {}
    for gaussian in range(steps + 1):
        for other in range(steps + 1):
            best = gain
            if gaussian:
                to = grid[:, None] + share * nodes + share**2 / 2
                best = np.maximum(best, np.interp(to, grid, value[gaussian - 1, other]) @ weight)
            if other:
                held = value[gaussian, other - 1]
                answered = p * np.interp(grid + part, grid, held) + (1 - p) * np.interp(
                    grid - part, grid, held
                )
                best = np.maximum(best, answered)
            value[gaussian, other] = best
    return float(np.interp(0.0, grid, value[steps, steps]))


def test_an_adversary_who_watches_stays_below_delta_with_pots_and_not_with_the_least_over_rules():
    """Spends what is left as the loss suggests: one sum that is split as it fits is broken, pots are not."""
    delta, epsilon = 1e-3, 1.0
    limits = pots_within(epsilon, delta)
    mu, pure = math.sqrt(2 * limits["gaussian"] / NANO), limits["pure"] / NANO
    assert 0.05 * delta < best_strategy(mu, pure, epsilon) <= delta
    # the least over rules: all of epsilon Gaussian, or what the first part leaves of the plain sum as pure
    assert stopping_delta(epsilon, delta) > 1.3 * delta


def stopping_delta(epsilon: float, delta: float) -> float:
    """Half of a Gaussian budget for all of epsilon; then, as the loss says, the rest of it or a pure release.

    The pure release has the epsilon that the plain sum leaves after what the first half converts to.
    """
    whole = rho_for(epsilon, delta, GDP)
    first = math.sqrt(whole / NANO)
    pure = max(0.0, epsilon - epsilon_for(whole // 2, delta, GDP))
    grid = np.linspace(-8, 8, 8001) * first + first * first / 2
    weight = norm.pdf(grid, first * first / 2, first)
    weight /= weight.sum()
    rest = math.sqrt(2 * whole / NANO - first**2)
    gaussian = np.array([delta_of(rest, epsilon - loss) if epsilon > loss else 1.0 for loss in grid])
    above = np.maximum(0.0, -np.expm1(np.minimum(epsilon - grid - pure, 0.0)))
    below = np.maximum(0.0, -np.expm1(np.minimum(epsilon - grid + pure, 0.0)))
    p = 1 / (1 + math.exp(-pure))
    return float(weight @ np.maximum(gaussian, p * above + (1 - p) * below))


def test_the_model_sees_admission_against_the_sum_of_both_pots():
    class Together(Ledger):
        def _check_fits(self, owner, pot, cost, loss):
            if cost > sum(each.left_nano for each in owner.pots.values()):
                super()._check_fits(owner, pot, cost, loss)

        def _check_row(self, state, row):
            return None

    assert agrees(lambda: Ledger(MemoryStore()), length=3)
    assert not agrees(lambda: Together(MemoryStore()), length=3)


def test_a_ledger_of_the_version_before_keeps_its_limit_law_and_noise(tmp_path, monkeypatch):
    shutil.copy(BEFORE / "ledger.sqlite", tmp_path / "ledger.sqlite")
    (tmp_path / "ledger.sqlite").chmod(0o600)
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))
    ledger = open_ledger()
    assert ledger.verify() == []
    golden, pure = (ledger.state().population(name) for name in ("golden", "golden-pure"))
    assert (golden.law, law_of("golden"), law_of("of nobody")) == (ZCDP, ZCDP, GDP)
    assert (golden.limit_nano, golden.spent_nano) == (rho_for(2.0, 1e-6), 44_355_970)
    assert [(each.law, each.pot, each.tau) for each in golden.spends] == [
        ("zcdp", "one", 0),
        ("pure", "one", 0),
    ]
    assert (pure.currency, pure.left_nano) == ("epsilon", 1_500_000_000)
    assert golden.line == "budget: epsilon 1.3797 of 2 spent"
    held = reserved(ledger.reserve("golden", Loss.gaussian(10**6), "k", "density", unit="user"))
    assert held.cost_nano == 10**6
    ledger.reserve("golden", Loss.pure(10**8), "l", "histogram", unit="user")
    last, pure_one = ledger.state().population("golden").spends[-2:]
    assert (last.law, last.tau, last.pot) == ("zcdp", 0, "one")
    assert pure_one.cost_nano == 5_000_000  # epsilon^2 / 2
    with pytest.raises(LedgerError, match="pot-unknown"):
        ledger.reserve("golden", Loss.pure(1), "m", "histogram", unit="user", pot="pure")
    assert ledger.verify() == []


@pytest.mark.parametrize("name", ["density-gaussian", "density-laplace"])
def test_releases_of_the_version_before_verify(name):
    assert check_release(BEFORE / name).problems == ()


def test_a_raise_is_dated():
    ledger = opened(2.0, 1e-6)
    ledger.raise_limit("town", 2 * NANO, pot="pure", note="a second year")
    (note,) = ledger.state().population("town").notes
    assert (note["kind"], note["pot"], note["note"]) == ("raise", "pure", "a second year")
    assert datetime.fromisoformat(note["at"]).tzinfo == UTC


def test_a_lifetime_says_when_a_limit_was_moved_after_the_first_reserve():
    ledger = opened(2.0, 1e-6)
    ledger.raise_limit("town", 2 * NANO, pot="pure")
    assert "however they are chosen" in ledger.state().population("town").lifetime_line
    admit(ledger, Loss.gaussian(10**6), "a", "")
    assert "however they are chosen" in ledger.state().population("town").lifetime_line
    ledger.raise_limit("town", rho_for(1.5, 1e-6, GDP), pot="gaussian")
    assert "if no limit was moved because of answers" in ledger.state().population("town").lifetime_line


def test_a_limit_is_not_raised_beyond_what_the_slack_of_the_noise_spent_allows():
    """Delta must cover (1 + e^epsilon) tau at the new limit, too; a forged row is found."""
    ledger = opened(2.0, 1e-6)
    admit(ledger, Loss.gaussian(10**6), "a", "")
    high = rho_for(60.0, 1e-6, GDP)
    with pytest.raises(LedgerError, match="limit-slack"):
        ledger.raise_limit("town", high, pot="gaussian")
    row = {"kind": "raise", "population": "town", "limit_nano": high, "note": "", "pot": "gaussian"}
    write_row(ledger, at="9999-01-01", **row)
    assert [each.code for each in ledger.verify()] == ["rule"]


def test_rows_with_a_delta_or_a_limit_that_no_ledger_writes_are_found():
    """Such a row would make every later question fail, not only the check of the ledger."""
    whole = {"gaussian": 10**7, "pure": 5}
    cases = [(delta, whole) for delta in ("nan", "inf", "0", "-1", "7", "1e-300")]
    cases += [("1e-06", {**whole, "gaussian": limit}) for limit in (10**30, -1, True, 1.5)]
    for delta, pots in cases:
        ledger = Ledger(MemoryStore())
        row = {"kind": "population", "population": "town", "currency": "pots", "pots": pots, "note": ""}
        if isinstance(pots["gaussian"], float):
            with pytest.raises(LedgerError, match="ledger-float"):
                write_row(ledger, delta=delta, **row)
            continue
        write_row(ledger, delta=delta, **row)
        assert [each.code for each in ledger.verify()] == ["rule"]
    ledger = opened(2.0, 1e-6)
    write_row(ledger, at="9999", kind="raise", population="town", limit_nano=10**30, note="", pot="gaussian")
    assert [each.code for each in ledger.verify()] == ["rule"]


def test_an_unknown_part_is_named():
    ledger = opened(2.0, 1e-6)
    with pytest.raises(LedgerError, match="pot-unknown"):
        ledger.raise_limit("town", 10**9)
    with pytest.raises(LedgerError, match="pot-unknown"):
        ledger.check_fits("town", Loss.gaussian(5), pot="other")


def composed_delta(mu: float, pures: list[float], epsilon: float) -> float:
    """delta of Gaussian noise of mu with randomized responses, exactly: a normal loss plus signed epsilons.

    By scipy's normal distribution, and no code of the package.
    """
    total = 0.0
    for signs in product((1, -1), repeat=len(pures)):
        weight = math.prod(1 / (1 + math.exp(-sign * each)) for sign, each in zip(signs, pures, strict=True))
        rest = epsilon - sum(sign * each for sign, each in zip(signs, pures, strict=True))
        total += weight * (norm.cdf(-rest / mu + mu / 2) - math.exp(rest) * norm.cdf(-rest / mu - mu / 2))
    return total


def test_a_lifetime_is_never_below_the_composition_at_its_limits():
    """200 mixtures of Gaussian noise and randomized response that use both limits up."""
    rng, closest = random.Random(11), 1.0
    for _ in range(200):
        epsilon, delta = rng.uniform(0.2, 6.0), rng.choice((1e-5, 1e-6, 1e-9))
        limits = pots_within(epsilon, delta, rng.uniform(0.0, 0.95) * epsilon)
        ledger = Ledger(MemoryStore())
        ledger.create("town", pots=limits, delta=delta)
        lifetime = ledger.state().population("town").lifetime
        assert lifetime is not None
        cuts = sorted(rng.random() for _ in range(rng.randrange(5)))
        pures = [limits["pure"] / NANO * (b - a) for a, b in zip([0.0, *cuts], [*cuts, 1.0], strict=True)]
        mu = math.sqrt(2 * limits["gaussian"] / NANO)
        assert composed_delta(mu, pures, lifetime[0]) <= delta
        low, high = 0.0, lifetime[0]
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if composed_delta(mu, pures, middle) <= delta else (middle, high)
        closest = min(closest, lifetime[0] / high - 1)
    assert 0 <= closest < 0.05  # near where nearly all of it is Gaussian
