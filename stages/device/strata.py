"""Draws that are spread evenly over the runs of a session.

Every run of a session draws from the same law whatever comes here: each word is uniform. But the
words of 1,024 runs together form a net: whatever share p of the distribution one asks for, close to
p of the runs are in it, where independent draws miss it by the square root. So the tail of a
thousand runs hardly depends on the seed, and stays what it is on average.

The net is the first three dimensions of Sobol's sequence (Joe and Kuo's direction numbers), shifted
by the exclusive or with a random word, in a random order of the runs. Both come from the seed, the
cause and the block of 1,024 runs, so that causes stay independent of each other, and neighbouring
runs of each other.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 3
_BITS = 10
BLOCK_RUNS = 1 << _BITS
_LOW_BITS = np.uint64(64 - _BITS)
_LOW_MASK = np.uint64(2**64 - 1) >> np.uint64(_BITS)


class Strata:
    """The high bits of the first draws of each run, for one seed and cause."""

    def __init__(self, seed: int, stream: int) -> None:
        self._key = (seed << 8 | stream) % 2**64
        self._blocks: dict[int, NDArray[np.uint64]] = {}

    def words(self, run: int, own: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The run's words (uint64[3]): high bits from the net, low ones from its own draws."""
        block, place = divmod(run, BLOCK_RUNS)
        if block not in self._blocks:
            self._blocks[block] = self._block(block)
        high = self._blocks[block][place] << _LOW_BITS
        return np.asarray(high | (own & _LOW_MASK), dtype=np.uint64)

    def _block(self, block: int) -> NDArray[np.uint64]:
        # runs count from 0, so a key with all bits set in its upper half is no run's
        key = np.array([self._key, 2**64 - 1 - block], dtype=np.uint64)
        drawn = np.random.Philox(key=key).random_raw(BLOCK_RUNS + DIMENSIONS)
        order = np.argsort(drawn[:BLOCK_RUNS], kind="stable")
        shifts = drawn[BLOCK_RUNS:] >> _LOW_BITS
        return np.asarray(_net()[order] ^ shifts, dtype=np.uint64)


@cache
def _net() -> NDArray[np.uint64]:
    """The net (uint64[1024, 3]): 10 bits a coordinate."""
    points = np.zeros((BLOCK_RUNS, DIMENSIONS), dtype=np.uint64)
    for dimension, numbers in enumerate(_direction_numbers()):
        for bit, number in enumerate(numbers):
            chosen = (np.arange(BLOCK_RUNS) >> bit) & 1 == 1
            points[chosen, dimension] ^= np.uint64(number)
    return points


def _direction_numbers() -> tuple[list[int], ...]:
    """Of each dimension, by bit of the index: m_k 2^(10-k), with m from the recurrences of the
    primitive polynomials 1, x + 1 and x^2 + x + 1."""
    first = [1] * _BITS
    second, third = [1], [1, 3]
    while len(second) < _BITS:
        second.append(2 * second[-1] ^ second[-1])
    while len(third) < _BITS:
        third.append(2 * third[-1] ^ 4 * third[-2] ^ third[-2])
    return tuple(
        [value << (_BITS - 1 - index) for index, value in enumerate(values)]
        for values in (first, second, third)
    )
