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
from stages.recipe.onnx_import.recurrent_layer import Layer, Steps, read_layer
from stages.recipe.onnx_import.translation import Translation, Translator


@dataclass(frozen=True, slots=True)
class State:
    """What a step hands on: the hidden state and, of an LSTM, the cell; empty where all zero."""

    hidden: str
    cell: str = ""


Step = Callable[[str, State], State]
"""The state behind a step, of the step's row of input products [batch, gates * hidden] and the
state before it."""


def unroll(kind: str, t: Translation) -> None:
    """Appends a recurrent node's steps.

    Raises:
        NotRepresentable: weights or lengths are computed, lengths differ within the batch, the
            activation has no kind, the input and forget gates are coupled, or the node has too
            many steps.
    """
    layer = read_layer(t)
    steps = Steps(t, layer)
    weights, products = _input_products(kind, layer, steps)
    finals: list[State] = []
    rows: dict[int, list[str]] = {}
    for direction in range(layer.directions):
        step = _STEPS[kind](layer, steps, direction)
        cell = steps.initial(6, direction) if kind == "LSTM" else ""
        state = State(steps.initial(5, direction), cell)
        for place in steps.order(direction):
            row = steps.rows(products, place, direction * weights, weights)
            state = step(row, state)
            rows.setdefault(place, []).append(state.hidden)
        finals.append(state)
    steps.finish(rows, [state.hidden for state in finals], [state.cell for state in finals])


def _input_products(kind: str, layer: Layer, steps: Steps) -> tuple[int, str]:
    """Products of all steps' inputs with the weights of all directions, biases added: one matrix
    [steps * batch, directions * gates * hidden]. Also the width of one direction."""
    width = layer.gates * layer.hidden
    inputs, biases = [], []
    for direction in range(layer.directions):
        inputs.append(layer.input_weights[direction].T)
        own, recurrent = layer.biases(direction)
        if kind == "GRU" and layer.linear_before_reset:
            recurrent = recurrent.copy()
            recurrent[2 * layer.hidden :] = 0
        biases.append(own + recurrent)
    joined = steps.constant("W", np.concatenate(inputs, axis=1))
    bias = np.concatenate(biases)
    operands = [steps.sequence(), joined]
    if bias.any():
        operands.append(steps.constant("B", bias))
    shape = (layer.steps * layer.batch, layer.directions * width)
    return width, steps.add(Kind.MATMUL, operands, shape)


def _plus_state(
    row: str, hidden: str, recurrent: str, width: int, steps: Steps, layer: Layer
) -> str:
    """`row + hidden @ recurrent`; the row alone where the state is zero."""
    if not hidden:
        return row
    product = steps.add(Kind.MATMUL, (hidden, recurrent), (layer.batch, width))
    return steps.add(Kind.ADD, (product, row), (layer.batch, width))


def _lstm(layer: Layer, steps: Steps, direction: int) -> Step:
    size = layer.hidden
    recurrent = steps.constant("R", layer.recurrent_weights[direction].T)
    gate, inner, outer = layer.activations[3 * direction : 3 * direction + 3]
    peepholes = layer.peepholes(direction)
    names = [
        steps.constant(f"P{place}", peepholes[place * size : (place + 1) * size])
        if peepholes[place * size : (place + 1) * size].any()
        else ""
        for place in range(3)
    ]

    def watched(gates: str, place: int, peephole: int, cell: str) -> str:
        value = steps.columns(gates, place * size, size)
        if names[peephole] and cell:
            value = steps.sum(value, steps.product(cell, names[peephole]))
        return steps.activated(gate, value)

    def step(row: str, state: State) -> State:
        gates = _plus_state(row, state.hidden, recurrent, 4 * size, steps, layer)
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


def _gru(layer: Layer, steps: Steps, direction: int) -> Step:
    size = layer.hidden
    weights = layer.recurrent_weights[direction]
    gate, inner = layer.activations[2 * direction : 2 * direction + 2]
    before = layer.linear_before_reset
    joined = steps.constant("R", (weights if before else weights[: 2 * size]).T)
    alone = steps.constant("Rh", weights[2 * size :].T) if not before else ""
    bias = layer.biases(direction)[1][2 * size :] if before else np.zeros(0)
    shift = steps.constant("Rbh", bias) if bias.any() else ""

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
        return _plus_state(own, steps.product(reset, hidden), alone, size, steps, layer)

    def step(row: str, state: State) -> State:
        width = (3 if before else 2) * size
        products = ""
        if state.hidden:
            products = steps.add(Kind.MATMUL, (state.hidden, joined), (layer.batch, width))
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


def _rnn(layer: Layer, steps: Steps, direction: int) -> Step:
    recurrent = steps.constant("R", layer.recurrent_weights[direction].T)
    gate = layer.activations[direction]

    def step(row: str, state: State) -> State:
        value = _plus_state(row, state.hidden, recurrent, layer.hidden, steps, layer)
        return State(steps.activated(gate, value))

    return step


_STEPS: dict[str, Callable[[Layer, Steps, int], Step]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN": _rnn,
}

TABLE: dict[str, Translator] = {kind: partial(unroll, kind) for kind in _STEPS}
