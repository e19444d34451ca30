"""A cache in pages: many sequences in one pool, forked and freed, none touching another."""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse.conformance._case import Theme
from attncourse.conformance._check import true
from attncourse.conformance._subject import to_numpy
from attncourse.conformance.decoding._container import CacheSubject, Pair, appended, holds

THEME = Theme("pool")
HEADS, PAGE = 2, 4


class _Model:
    """A pool, and beside it what each sequence must hold."""

    def __init__(self, subject: CacheSubject, num_pages: int = 24, seed: int = 0) -> None:
        self.subject, self.rng = subject, np.random.default_rng(seed)
        self.widths = (4, 5 if subject.has("value_dim") else 4)
        sizes = {"num_pages": num_pages, "page_size": PAGE, "num_kv_heads": HEADS, "head_dim": 4}
        self.pool = subject.make(**sizes, value_dim=self.widths[1])
        self.held: dict[Any, Pair] = {}

    def add(self, count: int = 0) -> Any:
        number = self.pool.add()
        true(number not in self.held, "number of a new sequence", "one of its own", number)
        self.held[number] = np.zeros((HEADS, 0, 4)), np.zeros((HEADS, 0, self.widths[1]))
        if count:
            self.append(number, count)
        return number

    def append(self, number: Any, count: int = 1) -> None:
        new = self.subject.tokens(self.rng, (HEADS, count), self.widths)
        appended(self.subject, self.pool, new, number)
        key, value = (np.concatenate(pair, 1) for pair in zip(self.held[number], new, strict=True))
        self.held[number] = key, value

    def fork(self, number: Any) -> Any:
        twin = self.pool.fork(number)
        true(twin not in self.held, "number of a fork", "one of its own", twin)
        self.held[twin] = self.held[number]
        return twin

    def free(self, number: Any) -> None:
        self.pool.free(number)
        del self.held[number]

    def check(self) -> None:
        """Read every sequence back through the block table."""
        numbers = list(self.held)
        if not numbers:
            return
        table, lengths = (to_numpy(x).astype(int) for x in self.pool.block_table(numbers))
        pages = to_numpy(self.pool.key_pages), to_numpy(self.pool.value_pages)
        for row, end, number in zip(table, lengths, numbers, strict=True):
            key, value = self.held[number]
            true(end == key.shape[1], f"length of sequence {number}", str(key.shape[1]), end)
            own = row[: -(-end // PAGE)]
            true((own >= 0).all(), f"pages of sequence {number}", "numbers of pages", own)
            read = [pool[own].swapaxes(0, 1).reshape(HEADS, -1, pool.shape[-1]) for pool in pages]
            found = read[0][:, :end], read[1][:, :end]
            holds(f"of sequence {number}, read through its table", found, (key, value))


@THEME.case("one-sequence", "tokens of one sequence, over several pages, are there in order")
def _one(subject: CacheSubject) -> None:
    model = _Model(subject)
    number = model.add()
    for count in (1, 2, 1, 4, 5, 3):
        model.append(number, count)
        model.check()


@THEME.case("edge-of-a-page", "appends that end at, before and behind the edge of a page")
def _edge(subject: CacheSubject) -> None:
    for count in (PAGE - 1, PAGE, PAGE + 1, 2 * PAGE):
        model = _Model(subject)
        number = model.add(count)
        model.check()
        model.append(number)
        model.check()


@THEME.case("sequences-in-turn", "three sequences that grow in turn keep apart")
def _turn(subject: CacheSubject) -> None:
    model = _Model(subject)
    numbers = [model.add() for _ in range(3)]
    for turn in range(12):
        model.append(numbers[turn % 3], 1 + turn % 2)
        model.check()


@THEME.case("empty-sequence", "a sequence without tokens has length 0", level="full")
def _empty(subject: CacheSubject) -> None:
    model = _Model(subject)
    model.add()
    model.add(5)
    model.check()


@THEME.case("order-of-the-table", "the table has its rows in the order asked for")
def _order(subject: CacheSubject) -> None:
    model = _Model(subject)
    numbers = [model.add(count) for count in (2, 5, 9)]
    _, lengths = model.pool.block_table([numbers[2], numbers[0], numbers[1]])
    came = to_numpy(lengths).astype(int).tolist()
    true(came == [9, 2, 5], "lengths of sequences 2, 0, 1", "[9, 2, 5]", came)


@THEME.case(
    "pages-are-used-again", "pages of a freed sequence serve new ones, and disturb nobody",
    needs={"free"},
)  # fmt: skip
def _reuse(subject: CacheSubject) -> None:
    model = _Model(subject, num_pages=6)
    kept, gone = model.add(6), model.add(9)
    for _ in range(4):
        model.free(gone)
        gone = model.add(11)
        model.check()
    true(kept in model.held, "the other sequence", "there", "gone")


@THEME.case("free-gives-pages-back", "free_pages counts what nobody uses", needs={"free", "count"})
def _count(subject: CacheSubject) -> None:
    model = _Model(subject, num_pages=8)
    first, second = model.add(5), model.add(3)
    counts = [model.pool.free_pages]
    model.free(first)
    counts.append(model.pool.free_pages)
    model.free(second)
    counts.append(model.pool.free_pages)
    true(counts == [5, 7, 8], "free pages of 8", "[5, 7, 8]", counts)


@THEME.case(
    "full-pool-is-refused",
    "an append that needs more pages than are free is refused, and nothing is written",
    level="full",
)
def _refused(subject: CacheSubject) -> None:
    model = _Model(subject, num_pages=3)
    first, second = model.add(5), model.add(3)
    new = subject.tokens(model.rng, (HEADS, 2), model.widths)
    try:
        model.pool.append(second, *subject.natives(new))
    except Exception:
        model.check()
        model.append(first, 3)
        model.check()
        return
    true(False, "append of 2 tokens to a full pool", "an error", "none")


@THEME.case("fork", "a fork begins like its sequence", needs={"fork"})
def _fork(subject: CacheSubject) -> None:
    model = _Model(subject)
    for count in (3, 4, 9):
        model.fork(model.add(count))
        model.check()


@THEME.case("fork-writes-apart", "what is appended to a fork stays out of the other, and back",
            needs={"fork"})  # fmt: skip
def _fork_apart(subject: CacheSubject) -> None:
    for first_writes in (True, False):
        for count in (3, 4, 6):
            model = _Model(subject)
            first = model.add(count)
            second = model.fork(first)
            for number in (first, second) if first_writes else (second, first):
                model.append(number, 3)
                model.check()


@THEME.case(
    "fork-outlives-its-parent",
    "freeing a sequence leaves its forks what they hold, also when pages are used again",
    needs={"fork", "free"},
)
def _fork_lives(subject: CacheSubject) -> None:
    model = _Model(subject, num_pages=9)
    first = model.add(6)
    twins = [model.fork(first), model.fork(first)]
    model.free(first)
    model.add(7)
    model.check()
    model.append(twins[0], 3)
    model.free(twins[1])
    model.add(5)
    model.check()


@THEME.case(
    "random-walk",
    "300 random appends, forks and frees end where lists end",
    needs={"fork", "free"},
    level="full",
)
def _walk(subject: CacheSubject) -> None:
    model = _Model(subject, num_pages=60, seed=5)
    for _ in range(300):
        numbers = list(model.held)
        move = model.rng.random()
        if not numbers or (move < 0.2 and len(numbers) < 6):
            model.add(int(model.rng.integers(0, 9)))
            continue
        number = numbers[int(model.rng.integers(len(numbers)))]
        if move < 0.35 and len(numbers) < 6:
            model.fork(number)
        elif move < 0.5 or model.held[number][0].shape[1] > 25:
            model.free(number)
        else:
            model.append(number, int(model.rng.integers(0, 6)))
        model.check()
