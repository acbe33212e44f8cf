"""Synthetic trips by TGM, with the noise the thesis prints; claims epsilon for each generated trip.

Exact counts of trips by prefix are the model. A trip is drawn cell by cell by the exponential
mechanism: the first cell of all visited ones, then one of eight neighbours, a stay or the end, until the end
is drawn or a step's budget is at most eta. epsilon_1 = r epsilon is for choices: a third for the first cell,
the rest by the series 1/3, 1/6, 1/10, ...; epsilon_2 is for noise on the threshold theta.

Source  Ghane's thesis, chapter 5: algorithms 7 to 9, sections 5.4.1 to 5.4.4.

Switches of section 5.6.3: adaptive=False is "fixed", restoring=False "ndbr", private=False "np", window=0.
  line_13    "printed": a choice that turns more than theta is replaced by a step straight on, and paid for.
             "text" (5.4.3): one that does not turn so far is replaced, and its budget kept for the next step.
  utilities  "probabilities": equations 5.1 to 5.4 as printed. "counts": their numerators.

Where the thesis is silent or says two things:
  threshold  noise of scale 1 / epsilon_2: Lap(epsilon_2) in line 13 would be a scale by its notation, and
             more budget more noise. Once for each generated trip, as the proof has it; theta_once=False: at
             each comparison, as line 13 has it.
  direction  a stay and the end do not turn and are never replaced; nor is the first move, nor a move where
             straight on leaves the grid. Straight on is the direction of the last move, stays left out.
  weights    multiply utilities. A corner direction counts for both its sides and has the better one's weight;
             stays are a direction; the end has weight 1.
  prefix     not in the model, after a choice by noise: what all trips did at the cell, the shortest end of
             the prefix. Longer ends have smaller counts and gave worse trips. In a cell nobody visited all
             options are equal. A prefix that is left is not found again.
  fixed      `portion` of what is left of epsilon_1 for each step, the first cell too. No value is given; 0.1
             lasts about as long as the series.
  np         no budget, so no eta and nothing to restore: options are drawn in proportion to their utility.
  times      are not in the model: all trips start at 0. One step is one tick.

What the claim misses, and what is true instead, for one trip (more for a user with several):
  data set     each generated trip is another run on the same trips: N of them claim N epsilon.
  support      only visited cells can be first. A cell that one trip alone has visited gives it away.
  theta        what it is compared with is drawn already: its noise hides nothing, and is no cost either.
  weights      utilities times up to alpha^m move by as much: a choice costs up to that many times its budget.
  restoring    as printed, the step counter moves on and nothing is restored. By the text, a choice that is
               withdrawn has been made, and is not paid for.
  counts       a trip that stays for k steps moves a count by k, and one that makes a prefix known replaces
               the counts of a whole cell by its own: nothing bounds a choice.
  replay       long prefixes have one trip: the more budget, the more of it is copied, step by step.

Compiled walk of TGM: one synthetic trip after the other, algorithm 9 without its first line.

Counts of trips by prefix: the graphical model of TGM, exact and only where trips were.

A node is a way of cells that some trip has gone; its children are that way and one cell more. Every node has
three counts: trips that came this way, steps they stayed at its end, trips that ended there. Children of a
node lie together, so that a choice reads its numbers and at most eight others.

Source  Ghane's thesis, algorithm 8. As printed, line 12 does not extend the prefix where a cell is new to the
        model, so that counts would depend on the order of trips; taken as a slip, for line 17 extends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from shoal.errors import PlanError
from shoal.postprocess.synthetic.numbers import pick, stream, uniform, uniforms
from shoal.privacy.noise import Noise
from shoal.space.cell_paths import DIRECTIONS, DX, DY, CellPaths, direction_between
from shoal.stages.synthetic import SyntheticPaths
from shoal.stages.trips import ExactPaths

FIRST_CELL = 1  # purpose of a stream; those of walks are in the kernels


@dataclass(frozen=True, kw_only=True)
class PublishedTgm:
    """Trips drawn step by step from exact counts of prefixes."""

    epsilon: float = 0.5  # claimed, for each generated trip
    ratio: float = 0.25  # r: the part for choices
    theta: float = 0.707
    eta: float = 1e-4
    alpha: float = 1.4
    window: int = 10  # m; 0: no weights
    adaptive: bool = True
    portion: float = 0.1  # of what is left, where not adaptive
    restoring: bool = True
    line_13: str = "printed"
    theta_once: bool = True
    utilities: str = "probabilities"
    private: bool = True

    name = "published-tgm"
    takes = "paths"

    def __post_init__(self) -> None:
        for name, known in (("line_13", ("printed", "text")), ("utilities", ("probabilities", "counts"))):
            if getattr(self, name) not in known:
                raise PlanError("tgm-switch", f"{name} must be {known[0]} or {known[1]}.")
        positive = self.epsilon > 0 and self.eta > 0 and 0 < self.ratio < 1 and 0 < self.portion < 1
        if not (positive and self.alpha >= 1 and self.window >= 0):
            raise PlanError("tgm-range", "epsilon, ratio, eta, portion, alpha or window is out of range.")

    def __call__(self, exact: ExactPaths, noise: Noise, count: int) -> SyntheticPaths:
        """`count` trips; none where there is no trip to learn from."""
        seed = np.uint64(int.from_bytes(noise.run_key()[:8], "little"))
        starts = self.first_cells(exact, seed, count)
        model = prefixes(exact), parts(exact, longest=2)
        rules = self.rules(exact.grid.columns, exact.grid.rows)
        first = sizes(*model, rules, seed, starts)
        cells, tick, stay = (np.zeros(int(first[-1]), np.int32) for _ in range(3))
        fill(*model, rules, seed, starts, first, cells, tick, stay)
        return SyntheticPaths(
            grid=exact.grid,
            step_s=exact.step_s,
            first=first,
            cells=cells,
            tick=tick,
            stay=stay,
            start_us=np.zeros(starts.size, np.int64),
        )

    def first_cells(self, exact: ExactPaths, seed: np.uint64, count: int) -> np.ndarray:
        """int64 [count]: lines 5 and 6, equation 5.1. Visited cells only, also those where no trip starts."""
        visited = np.unique(exact.cells).astype(np.int64)
        if not visited.size:
            return visited
        utility = np.bincount(exact.starts, minlength=exact.grid.count)[visited].astype(float)
        if self.utilities == "probabilities":
            utility /= utility.sum()
        if self.private:
            utility = np.exp(self.budget(0) * (utility - utility.max()) / 2)
        return visited[pick(utility, uniforms(int(seed), FIRST_CELL, count))]

    def rules(self, columns: int, rows: int) -> Rules:
        return Rules(
            columns=columns,
            rows=rows,
            private=self.private,
            probabilities=self.utilities == "probabilities",
            budgets=self.budgets(),
            compares=self.restoring and self.private,
            printed=self.line_13 == "printed",
            theta=self.theta,
            theta_scale=1 / (self.epsilon - self.epsilon_1),
            theta_once=self.theta_once,
            powers=self.alpha ** np.arange(self.window + 1.0),
        )

    @property
    def epsilon_1(self) -> float:
        return self.ratio * self.epsilon

    @property
    def withdraws(self) -> bool:
        """Whether a choice can be made and not paid for."""
        return self.restoring and self.line_13 == "text"

    def budget(self, step: int) -> float:
        """Budget of the first cell (step 0) or of a later step: `Rtn`."""
        if not self.adaptive:
            return self.portion * (1 - self.portion) ** step * self.epsilon_1
        if step == 0:
            return self.epsilon_1 / 3
        return 2 / ((step + 1) * (step + 2)) * 2 * self.epsilon_1 / 3

    def budgets(self) -> np.ndarray:
        """float64: budgets of steps 1, 2, ..., while above eta; as many steps as can be paid for."""
        budgets = []
        while (budget := self.budget(len(budgets) + 1)) > self.eta:
            budgets.append(budget)
        return np.array(budgets, float)

    def paid_epsilon(self) -> float:
        """What the choices of one generated trip cost a real one, if visited cells and prefixes were public.

        Step i has i - 1 steps before it, and by the text any number of withdrawn ones from i = 2 on, so its
        utilities, probabilities, are of weight alpha^min(i - 1, m) or alpha^m at most. Choices that are
        withdrawn are not in it.
        """
        budgets = self.budgets()
        before = np.arange(budgets.size)
        if self.withdraws:
            before[1:] = self.window
        return self.budget(0) + float(budgets @ self.alpha ** np.minimum(before, self.window))

    def true_guarantee(self, count: int) -> str:
        """In words, for a data set of `count` generated trips."""
        if not self.private:
            return "No guarantee, and none is claimed: trips are drawn from exact counts without noise."
        claim = (
            f"No guarantee as published, which claims epsilon {self.epsilon:g} for each generated trip: by "
            f"its own sum {count * self.epsilon:,g} for {count:,} of them. Trips start in visited cells "
            "only, so a cell that one trip alone has visited gives it away, whatever epsilon is."
        )
        if self.utilities == "counts":
            return f"{claim} With counts for utilities nothing bounds what one trip moves a choice by."
        cost = (
            "If visited cells were public, choices would cost a trip up to epsilon "
            f"{self.paid_epsilon():.3g} for each generated trip, {count * self.paid_epsilon():,.6g} for all; "
            "the noise on theta hides nothing."
        )
        if self.withdraws:
            cost += " Choices that are withdrawn come on top: they are made and not paid for."
        return f"{claim} {cost}"


STAY, END, OPTIONS = 8, 9, 10  # after the eight directions
THRESHOLD, WALK = 2, 3  # purposes of streams
COSINE = np.cos(np.arange(DIRECTIONS) * np.pi / 4)
# Sides that a direction belongs to, east, north, west, south: a corner to two (section 5.4.4).
_SIDES = np.array([[0, 0], [0, 1], [1, 1], [1, 2], [2, 2], [2, 3], [3, 3], [3, 0], [4, 4]], np.int64)


class Rules(NamedTuple):
    """Parameters that do not depend on trips."""

    columns: int
    rows: int
    private: bool
    probabilities: bool  # utilities are shares, not counts
    budgets: np.ndarray  # float64: of step 1, 2, ...; the walk ends where they end
    compares: bool  # whether lines 13 to 15 are there
    printed: bool  # line 13 as printed; else as section 5.4.3 says
    theta: float
    theta_scale: float  # of its Laplace noise
    theta_once: bool  # one noise for a trip; else one for each comparison
    powers: np.ndarray  # float64 [window + 1]: alpha^0, alpha^1, ...


@njit(cache=True, nogil=True)
def sizes(whole: Ways, parts: Ways, rules: Rules, seed, starts):
    """int64 [trips + 1]: where the visits of each trip begin."""
    first = np.zeros(starts.size + 1, np.int64)
    nothing = np.empty(0, np.int32)
    for trip in range(starts.size):
        first[trip + 1] = first[trip] + _walk(
            whole, parts, rules, seed, trip, starts[trip], nothing, nothing, nothing
        )
    return first


@njit(cache=True, nogil=True)
def fill(whole: Ways, parts: Ways, rules: Rules, seed, starts, first, cells, tick, stay):
    """The visits themselves: the same draws once more."""
    for trip in range(starts.size):
        to = slice(first[trip], first[trip + 1])
        _walk(whole, parts, rules, seed, trip, starts[trip], cells[to], tick[to], stay[to])


@njit(cache=True, nogil=True)
def _walk(whole, parts, rules, seed, trip, start, cells, tick, stay):
    """Lines 8 to 20 for one trip, written down where arrays are given; returns the number of its visits."""
    state, theta = stream(seed, WALK, trip), stream(seed, THRESHOLD, trip)
    cell, node, ahead = np.int64(start), whole.root[start], -1
    taken, utility = np.full(rules.powers.size - 1, -1, np.int64), np.empty(OPTIONS)
    visits, step, now = 0, 0, 0
    entered = True
    while True:
        if entered:
            _write(visits, cell, now, cells, tick, stay)
            visits, entered = visits + 1, False
        if rules.private and step >= rules.budgets.size:
            return visits
        _next(whole, parts, node, cell, rules.probabilities, utility)
        _weigh(utility, taken, now, rules.powers)
        budget = rules.budgets[step] if rules.private else 0.0
        option = choose(utility, cell, rules, budget, uniform(state, now))
        if option == END:
            return visits
        paid = True
        if rules.compares and option < STAY and ahead >= 0 and inside(cell, ahead, rules):
            noisy = rules.theta + laplace(uniform(theta, 0 if rules.theta_once else now), rules.theta_scale)
            less = COSINE[(option - ahead) % DIRECTIONS] < noisy
            if less == rules.printed:
                option, paid = ahead, rules.printed
        if taken.size:
            taken[now % taken.size] = option
        now += 1
        step += paid
        if option == STAY:
            if cells.size:
                stay[visits - 1] += 1
            continue
        node = _child(whole, node, option)
        cell, ahead, entered = cell + DY[option] * rules.columns + DX[option], option, True


@njit(cache=True, nogil=True)
def laplace(uniform, scale):
    """Laplace noise from a uniform number between 0 and 1."""
    side = uniform - 0.5 + 2.0**-54
    return -scale * np.sign(side) * np.log(1.0 - 2.0 * abs(side))


@njit(cache=True, nogil=True)
def _write(visit, cell, now, cells, tick, stay):
    if cells.size:
        cells[visit], tick[visit], stay[visit] = cell, now, 0


@njit(cache=True, nogil=True)
def _child(ways, node, direction):
    if node >= 0:
        for child in range(ways.children[node], ways.children[node + 1]):
            if ways.direction[child] == direction:
                return child
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _next(whole, parts, node, cell, probabilities, utility):
    """Equations 5.2 to 5.4: the utility of every option, of the prefix or else of all trips at the cell."""
    utility[:] = 0.0
    if node >= 0:
        _read(whole, node, probabilities, utility)
    elif parts.root[cell] >= 0:
        _read(parts, parts.root[cell], probabilities, utility)


@njit(cache=True, nogil=True)
def _read(ways, node, probabilities, utility):
    for child in range(ways.children[node], ways.children[node + 1]):
        utility[ways.direction[child]] = ways.count[child]
    utility[STAY], utility[END] = ways.stay[node], ways.ended[node]
    if probabilities:
        # as printed: who ends here is also among those who came
        utility /= ways.stay[node] + ways.count[node] + ways.ended[node]


@njit(cache=True, nogil=True)
def _weigh(utility, taken, now, powers):
    """Section 5.4.4: times alpha^c, c of the last steps to the same side; a corner has the better side's."""
    if not taken.size:
        return
    counts = np.zeros(5, np.int64)
    for place in range(min(now, taken.size)):
        one, other = _SIDES[taken[place]]
        counts[one] += 1
        if other != one:
            counts[other] += 1
    for option in range(END):
        one, other = _SIDES[option]
        utility[option] *= powers[max(counts[one], counts[other])]


@njit(cache=True, nogil=True)
def choose(utility, cell, rules, budget, uniform):
    """The exponential mechanism, P ~ exp(budget u / 2), over options inside the grid; without noise P ~ u."""
    weight = np.zeros(OPTIONS)
    most = utility.max()
    for option in range(OPTIONS):
        if option >= STAY or inside(cell, option, rules):
            u = utility[option]
            weight[option] = np.exp(budget * (u - most) / 2) if rules.private else u
    left = uniform * weight.sum()
    last = END
    for option in range(OPTIONS):
        if weight[option] > 0:
            last = option
            left -= weight[option]
            if left < 0:
                break
    return last


@njit(cache=True, nogil=True)
def inside(cell, direction, rules):
    x, y = cell % rules.columns + DX[direction], cell // rules.columns + DY[direction]
    return 0 <= x < rules.columns and 0 <= y < rules.rows


class Ways(NamedTuple):
    """Ways as a tree. Node `root[cell]` is the way of that cell alone, -1 where there is none."""

    root: np.ndarray  # int64 [cells]
    children: np.ndarray  # int64 [nodes + 1]: those of node i are children[i] to children[i + 1]
    direction: np.ndarray  # int8 [nodes]: of the last move of the way, -1 where it has none
    count: np.ndarray  # int64 [nodes]: trips that came this way
    stay: np.ndarray  # int64 [nodes]: steps stayed at its end
    ended: np.ndarray  # int64 [nodes]: trips that ended there


def prefixes(paths: CellPaths) -> Ways:
    """Whole prefixes: ways from a trip's start."""
    return _ways(paths, np.arange(paths.count), paths.first[:-1], longest=None)


def parts(paths: CellPaths, longest: int) -> Ways:
    """Ways of at most `longest` cells from anywhere in a trip, counted as often as a trip goes them."""
    return _ways(paths, paths.trip_of_visit, np.arange(paths.cells.size), longest)


def _ways(paths: CellPaths, trip: np.ndarray, at: np.ndarray, longest: int | None) -> Ways:
    """Level by level: all ways of one cell, of two cells, ..., each level sorted by parent and cell."""
    size, levels, nodes = paths.grid.count, [], 0
    last = paths.first[trip + 1] - 1
    before = np.full(at.size, -1, np.int64)  # the node of a way without its last cell
    while at.size and (longest is None or len(levels) < longest):
        # before + 1, so that keys of the first level are cells
        key, node = np.unique((before + 1) * size + paths.cells[at], return_inverse=True)
        ended = at == last
        sums = (np.bincount(node, weight, key.size) for weight in (None, paths.stay[at], ended))
        levels.append((key // size - 1, key % size, *(part.astype(np.int64) for part in sums)))
        before, at, last = nodes + node[~ended], at[~ended] + 1, last[~ended]
        nodes += key.size
    empty = np.empty(0, np.int64)
    parent, cell, count, stay, ended = (np.concatenate([empty, *column]) for column in _columns(levels))
    root = np.full(size, -1, np.int64)
    alone = np.flatnonzero(parent < 0)
    root[cell[alone]] = alone
    direction = direction_between(cell[parent], cell, paths.grid.columns)
    direction[alone] = -1
    children = np.searchsorted(parent, np.arange(nodes + 1))
    return Ways(root, children, direction, count, stay, ended)


def _columns(levels: list[tuple[np.ndarray, ...]]) -> list[list[np.ndarray]]:
    return [[level[column] for level in levels] for column in range(5)]
