"""LSTM, GRU and RNN, one step after the other: the inputs of all steps in one product, then for
each step the product with the state and the gates.

Equations, gate orders and defaults are those of the operators' pages in onnx's Operators.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.recurrent_layer import Layer, read_layer
from stages.recipe.onnx_import.recurrent_steps import Steps, finish
from stages.recipe.onnx_import.translation import Translation, Translator


@dataclass(frozen=True, slots=True)
class State:
    """What a step hands on: the hidden state and, of an LSTM, the cell; empty where all zero."""

    hidden: str
    cell: str = ""


Step = Callable[[str, State], State]
"""The state behind a step, of the step's input products [batch, gates * hidden] and the state
before it; of two directions at once, with an axis of 2 in front."""


def unroll(kind: str, t: Translation) -> None:
    """Appends a recurrent node's steps. Both directions take each step together, as two products
    of one batch, where their activations are the same.

    Raises:
        NotRepresentable: weights or lengths are computed, lengths differ within the batch, the
            activation has no kind, the input and forget gates are coupled, or the node has too
            many steps.
    """
    layer = read_layer(t)
    hidden: list[str] = []
    cells: list[str] = []
    rows: dict[int, dict[int, str]] = {place: {} for place in range(layer.steps)}
    for directions in layer.together():
        steps = Steps(t, layer, directions)
        products = _input_products(kind, layer, steps)
        step = _STEPS[kind](layer, steps)
        cell = steps.initial(6) if kind == "LSTM" else ""
        state = State(steps.initial(5), cell)
        for number in range(layer.steps):
            state = step(steps.row(products, number), state)
            for direction, place, value in steps.parts(state.hidden, number):
                rows[place][direction] = value
        hidden.append(state.hidden)
        cells.append(state.cell)
    order = [rows[place][direction] for place in rows for direction in sorted(rows[place])]
    finish(Steps(t, layer, (0,)), order, hidden, cells)


def _input_products(kind: str, layer: Layer, steps: Steps) -> str:
    """Products of all steps' inputs with the weights, biases added: [steps * batch, gates *
    hidden], for each direction that goes along."""
    biases = []
    for direction in steps.directions:
        own, recurrent = layer.biases(direction)
        if kind == "GRU" and layer.linear_before_reset:
            recurrent = recurrent.copy()
            recurrent[2 * layer.hidden :] = 0
        biases.append(own + recurrent)
    weights = [layer.input_weights[direction].T for direction in steps.directions]
    operands = [steps.sequence(), steps.constant("W", steps.stacked(weights))]
    bias = np.stack(biases)
    shape = (*steps.lead, layer.steps * layer.batch, layer.gates * layer.hidden)
    if steps.lead:
        products = steps.add(Kind.MATMUL, operands, shape)
        shift = steps.constant("B", bias[:, None])
        return steps.add(Kind.ADD, (products, shift), shape) if bias.any() else products
    if bias.any():
        operands.append(steps.constant("B", bias[0]))
    return steps.add(Kind.MATMUL, operands, shape)


def _plus_state(row: str, hidden: str, recurrent: str, width: int, steps: Steps) -> str:
    """`row + hidden @ recurrent`; the row alone where the state is zero."""
    if not hidden:
        return row
    return steps.sum(steps.contracted(hidden, recurrent, width), row)


def _lstm(layer: Layer, steps: Steps) -> Step:
    size = layer.hidden
    recurrent = steps.recurrent("R", 0, 4 * size)
    gate, inner, outer = steps.activations
    names = [steps.peephole(place) for place in range(3)]

    def watched(gates: str, place: int, peephole: int, cell: str) -> str:
        value = steps.columns(gates, place * size, size)
        if names[peephole] and cell:
            value = steps.sum(value, steps.product(cell, names[peephole]))
        return steps.activated(gate, value)

    def step(row: str, state: State) -> State:
        gates = _plus_state(row, state.hidden, recurrent, 4 * size, steps)
        entering = watched(gates, 0, 0, state.cell)
        candidate = steps.activated(inner, steps.columns(gates, 3 * size, size))
        cell = steps.product(entering, candidate)
        if state.cell:
            kept = steps.product(watched(gates, 2, 2, state.cell), state.cell)
            cell = steps.sum(kept, cell)
        leaving = watched(gates, 1, 1, cell)
        # Gates are clipped on their way in, the cell isn't: so ONNX Runtime reads `clip`.
        return State(steps.product(leaving, steps.applied(outer, cell)), cell)

    return step


def _gru(layer: Layer, steps: Steps) -> Step:
    size, before = layer.hidden, layer.linear_before_reset
    gate, inner = steps.activations
    width = (3 if before else 2) * size
    joined = steps.recurrent("R", 0, width)
    alone = "" if before else steps.recurrent("Rh", 2 * size, 3 * size)
    shift = steps.recurrent_shift(2 * size, 3 * size) if before else ""

    def candidate(row: str, products: str, reset: str, hidden: str) -> str:
        """What enters the new state: the reset gate acts before or behind the product."""
        own = steps.columns(row, 2 * size, size)
        if before:
            value = steps.columns(products, 2 * size, size) if products else ""
            if shift:
                value = steps.sum(value, shift) if value else shift
            return steps.sum(own, steps.product(reset, value)) if value else own
        if not hidden:
            return own
        return _plus_state(own, steps.product(reset, hidden), alone, size, steps)

    def step(row: str, state: State) -> State:
        products = steps.contracted(state.hidden, joined, width) if state.hidden else ""
        update, reset = (
            steps.activated(gate, _gate(steps, row, products, place * size, size))
            for place in range(2)
        )
        new = steps.activated(inner, candidate(row, products, reset, state.hidden))
        if not state.hidden:
            return State(steps.difference(new, steps.product(update, new)))
        kept = steps.product(update, steps.difference(state.hidden, new))
        return State(steps.sum(new, kept))

    return step


def _gate(steps: Steps, row: str, products: str, start: int, size: int) -> str:
    value = steps.columns(row, start, size)
    return steps.sum(value, steps.columns(products, start, size)) if products else value


def _rnn(layer: Layer, steps: Steps) -> Step:
    recurrent = steps.recurrent("R", 0, layer.hidden)
    (gate,) = steps.activations

    def step(row: str, state: State) -> State:
        value = _plus_state(row, state.hidden, recurrent, layer.hidden, steps)
        return State(steps.activated(gate, value))

    return step


_STEPS: dict[str, Callable[[Layer, Steps], Step]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN": _rnn,
}

TABLE: dict[str, Translator] = {kind: partial(unroll, kind) for kind in _STEPS}
