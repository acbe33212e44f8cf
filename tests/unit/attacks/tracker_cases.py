"""Small releases for the tracker's tests, and the definition of its check in plain loops."""

from itertools import pairwise

import numpy as np

from shoal.attacks.tracker.evidence import verify_tables
from shoal.attacks.tracker.files import keyed_tables, number_of, read_key
from shoal.attacks.tracker.index import build_index


def verify_release(samples, boxes, key, *, steps, k, tau, records=None):
    """Samples (user, ...) and boxes (record, ...) with ids of any kind, under a key (users, records)."""
    rows = read_key(*key, declared=records)
    user = number_of(rows.users, np.asarray(samples[0]))
    strangers = len(np.unique(np.asarray(samples[0])[user < 0]))
    columns = (user, *map(np.asarray, samples[1:]))
    cuboids = (number_of(rows.records, np.asarray(boxes[0])), *map(np.asarray, boxes[1:]))
    tables = keyed_tables(columns, cuboids, rows, steps=steps, strangers=strangers)
    return verify_tables(tables, build_index(tables), k=k, tau=tau)


def holds(box, sample):
    (t0, t1, x0, x1, y0, y1), (t, x, y) = box, sample
    return t0 <= t <= t1 and x0 <= x <= x1 and y0 <= y <= y1


def spans(box, t):
    return box[0] <= t <= box[1]


def fits(samples_i, own, boxes_r, w, tau):
    """Evidence-equal, word for word: samples_i and own are the person's, boxes_r the record's."""
    for s in samples_i:
        if not w <= s[0] < w + tau:
            continue
        retained = any(holds(b, s) for b in own)
        spanning = [b for b in boxes_r if spans(b, s[0])]
        if bool(spanning) != retained or not all(holds(b, s) for b in spanning):
            return False
    kept = [s for s in samples_i if any(holds(b, s) for b in own)]
    inside = [b for b in boxes_r if b[0] >= w and b[1] < w + tau]
    return all(any(holds(b, s) for s in kept) for b in inside)


def candidates(samples, boxes, i, w, tau):
    return [r for r in range(len(samples)) if fits(samples[i], boxes[i], boxes[r], w, tau)]


def naive(samples, boxes, steps, k, tau):
    """Violating (user, start) pairs -> records that fit."""
    found = {}
    for i in range(len(samples)):
        for w in range(1 - tau, steps):
            count = len(candidates(samples, boxes, i, w, tau))
            if count < k:
                found[i, w] = count
    return found


def naive_structure(samples, boxes):
    pairs = [(s, b) for i in range(len(samples)) for s in samples[i] for b in boxes[i]]
    return {
        "boxes_without_own_sample": sum(
            not any(holds(b, s) for s in samples[i]) for i in range(len(samples)) for b in boxes[i]
        ),
        "samples_outside_own_box": len(
            {
                (i, s)
                for i in range(len(samples))
                for s in samples[i]
                for b in boxes[i]
                if spans(b, s[0]) and not holds(b, s)
            }
        )
        if pairs
        else 0,
        "overlapping_boxes": sum(
            any(q[0] <= b[1] for b in ordered[:n])
            for ordered in (sorted(of, key=lambda b: (b[0], b[1])) for of in boxes)
            for n, q in enumerate(ordered)
        ),
    }


def arrays(samples, boxes, rng=None):
    """The columns a check takes, in any order if a generator is given."""
    rows = np.array([(i, *s) for i, of in enumerate(samples) for s in of], np.int32).reshape(-1, 4)
    cuboids = np.array([(r, *b) for r, of in enumerate(boxes) for b in of], np.int32).reshape(-1, 7)
    if rng is not None:
        rows, cuboids = rng.permutation(rows), rng.permutation(cuboids)
    return (*rows.T, *cuboids.T)


def random_samples(rng, users, steps, cells, rate):
    """Distinct samples per user, several cells in one step now and then."""
    drawn = [rng.poisson(rate * steps) for _ in range(users)]
    return [
        sorted(
            {(int(rng.integers(steps)), int(rng.integers(cells)), int(rng.integers(cells))) for _ in range(n)}
        )
        for n in drawn
    ]


def around(samples):
    t, x, y = zip(*samples, strict=True)
    return (min(t), max(t), min(x), max(x), min(y), max(y))


def merged(parts):
    """Boxes over several people's samples of a period: cut wherever everyone has a sample on both sides."""
    every = sorted(s for part in parts for s in part)
    cuts, boxes, start = sorted({s[0] for s in every})[1:], [], every[0][0]
    for cut in [*cuts, every[-1][0] + 1]:
        here = [[s for s in part if start <= s[0] < cut] for part in parts]
        rest = [[s for s in part if s[0] >= cut] for part in parts]
        last = cut == every[-1][0] + 1
        if last or (all(here) and all(rest)):
            boxes.append(around([s for part in here for s in part]))
            start = cut
    return boxes


def grouped(rng, *, groups, k, steps, epoch, cells=4, rate=0.4, together=True):
    """k-anonymity: members of a group share all boxes, one k-merge per epoch; epochs are suppressed for a
    whole group where one member has no sample, or at random. Passes for every tau."""
    samples = random_samples(rng, groups * k, steps, cells, rate)
    boxes = [[] for _ in samples]
    for g in range(groups):
        members = range(g * k, g * k + k)
        for begin in range(0, steps, epoch):
            parts = [[s for s in samples[i] if begin <= s[0] < begin + epoch] for i in members]
            if all(parts) and rng.random() > 0.1:
                for i in members:
                    boxes[i] += merged(parts)
    return samples, boxes


def tampered(rng, samples, boxes, steps):
    """One to three random changes of boxes; they may or may not break the claim."""
    boxes = [list(of) for of in boxes]
    for _ in range(rng.integers(1, 4)):
        r = int(rng.integers(len(boxes)))
        if not boxes[r]:
            continue
        b = int(rng.integers(len(boxes[r])))
        box, side = list(boxes[r][b]), int(rng.integers(6))
        what = rng.integers(4)
        if what == 0:
            del boxes[r][b]
        elif what == 1:
            boxes[int(rng.integers(len(boxes)))].append(boxes[r][b])
        else:
            box[side] += int(rng.integers(-2, 3))
            box[0], box[1] = max(box[0], 0), min(box[1], steps - 1)
            if all(low <= high for low, high in zip(box[::2], box[1::2], strict=True)):
                boxes[r][b] = tuple(box)
    return [sorted(of) for of in boxes]


def disjoint(boxes):
    return all(a[1] < b[0] for of in boxes for a, b in pairwise(sorted(of)))
