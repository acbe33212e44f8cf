"""The words of docs/results/histogram.md; figures are put in where braces are."""

from __future__ import annotations

HEAD = """# Distinct trips in any rectangle

{date}; {machine}.

`make bench-histogram`; {reps} repetitions unless said, each with noise of its own and, where not all trips
are taken, a sample of its own. The truth of a rectangle is the number of distinct trips that crossed it.
Errors are mean absolute errors on 2,000 unseen random rectangles; methods chose from 16,000 others ("given").
*KLD* is the relative entropy of the exact faces to the released ones, both as shares of their sum, in nats;
methods without edges (`laplace`, `mwem`, `dawa`) release trips shared over their cells and are compared with
that. Pure epsilon. Unit trip, and the number of trips is declared for every method alike, unless said.
`uniform` is the public start of PriSH, without any data, for orientation. Noise is seeded, of the same
distributions as a release's. Two processes ran side by side; seconds are of a release alone.

Data: {data}.
"""
DATA = {
    "sf": "`sf` 439,636 passenger trips of 536 San Francisco cabs",
    "porto": "`porto` 1,000 taxi trips of Porto",
    "tdrive": "`tdrive` one hour of Beijing taxis, 8,307 trips",
    "town": "`town` the simulator's GPS trips of a week, 160,430 of 8,000 people",
}
TARGETS = """
## Ours against the best sound other

Wanted, error of `boxes` over that of the best other sound method in the same cell: at most 0.6 at 1,000
trips, 0.3 at 100,000, 0.15 at all cab trips with epsilon >= 0.1, never above 1.05. {met}

{table}
"""
ERRORS = """
## {title}

Error on unseen rectangles / KLD.

{table}

![error against epsilon]({picture})
"""
ORDER = """
## DQAM and PriSH, made sound

The thesis has DQAM ahead, by up to 7.4 times. Sound, it is ahead in {ahead} of {cells} cells (unit trip,
256 x 256). Two reasons. Where trips * epsilon is small, DQAM pays for the quadtree's levels and for densities
before it measures a rectangle; the thesis paid for one level. Where it is large, noise is not what limits
either: at 100,000 cab trips and epsilon 10,000 PriSH is off by 6,350 and DQAM by 7,877 of 31,617 (two runs),
with 20 rounds instead of 5 at epsilon 100 by 8,563 and 10,755. Faces and edges that are scaled up and down
cannot follow distinct counts, and the more is learned, the further they are bent. In between, DQAM is ahead.

{table}
"""
USERS = """
## Per user

At most m trips of a user are kept; the promise covers all trips of a user. The number of kept trips is
declared. With a cap, a twentieth of epsilon pays for the number of all trips, at most `cap` of a user, and
answers are scaled up to it, by at most cap / m; without, they are low. The truth is all trips. The noise on
that number has scale cap / (0.05 epsilon): where it is as large as the number itself, answers are off by a
factor that all methods share, and a method whose answers are too low may come out nearest by that alone.

{table}
"""
MORE = """
## Variants at cab trips

`measured`: the number of trips is measured with a tenth of epsilon. zCDP: Gaussian noise, delta 1e-6.

{table}
"""
RESOLUTION = """
## Against resolution

100,000 cab trips, epsilon 0.1; rectangles are drawn on each grid. Error on unseen rectangles / KLD.

{table}

![error against resolution](histogram-resolution.svg)
"""
PUBLISHED = """
## As published

PriSH and DQAM with the noise the thesis prints, once per cell. They are no release: values sum to the exact
number of trips, and the best number of rounds is picked on the true error: nothing bounds a trip's epsilon.
"If fixed" is the epsilon of replacing one trip by another, with both public. They measure Euler
answers, which are wrong themselves (next section). Not in any ratio above.

{table}
"""
NOISE_FREE = """
## Without noise

Error of exact Euler answers (faces - edges), of those with full 2 x 2 blocks counted back in, and of the
summaries that `boxes` counts (bounding box and shape, a path drawn back): what each model costs before noise.
The last columns: the least and most that one of 1,000 trips adds to an exact Euler answer of a given
rectangle, where 0 or 1 would be right, and the share of trips that add more than 1 somewhere.

{table}
"""
COST = """
## Cost

Simulated trips of `town` in Parquet files, system noise, epsilon 0.1, one process at a time. Wanted at a
million trips on 256 x 256: histogram in 30 s, exact answers to 16,000 rectangles in 3 minutes, a DQAM release
in 2 minutes more, under 6 GB. Got: {got}.

{table}

![cost](histogram-cost.svg)

Largest values among all releases above:

{releases}
"""
CONSISTENT = """
## The consistent estimate

The nearest consistent histogram in L1; the thesis reports up to an hour at 256 x 256 with a linear program.
`random`: independent faces and edges. `scaled to 0.1`: a uniform model with one rectangle of a quarter of
the map scaled down, as after an update. HiGHS solves the same program and is stopped after {limit} s.

{table}
"""
GIVEN = """
## On the given rectangles

Mean absolute error on the 16,000 rectangles that methods could choose from.

{table}
"""
