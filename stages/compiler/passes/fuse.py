"""Groups: which operators run as one, on which engine, and what must go to the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stages.compiler.dataflow import in_dataflow_order
from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.support import POINTWISE, device_type, engine_of, refusal
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine, Group
from stages.recipe.explanation import Alternative, Weighed
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import CONTRACTIONS, Kind
from stages.tensors import DType, Shape, TensorType

_MAX_OPERANDS = 8  # of one group: each needs slots in the SRAM


@dataclass(frozen=True, slots=True)
class PrivatizeDequantize:
    """Each reader of a dequantised value gets a dequantize of its own, to fuse with."""

    name: str = "privatize_dequantize"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Clone every dequantize for all readers but the first."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            if operator.kind is not Kind.DEQUANTIZE:
                continue
            (value,) = operator.outputs
            shared = list(editor.readers[value])
            for reader in shared if value in editor.outputs else shared[1:]:
                editor.reread(reader, value, _clone(operator, editor))
        for operator in draft.graph.operators:
            if operator.kind in CONTRACTIONS and len({*operator.inputs[:2]}) == 1:
                _part_factors(editor.operators[operator.name], editor)
        return editor.finish()


def _part_factors(product: Operator, editor: GraphEditor) -> None:
    """Let a product of a value with itself read it by two dequantizes: it walks through each in
    its own way."""
    source = editor.producer(product.inputs[1])
    if source is not None and source.kind is Kind.DEQUANTIZE:
        first, _, *bias = product.inputs
        editor.put(replace(product, inputs=(first, _clone(source, editor), *bias)))


def _clone(dequantize: Operator, editor: GraphEditor) -> str:
    """The result of a dequantize like another one."""
    (value,) = dequantize.outputs
    clone = editor.add_value(value, editor.types[value])
    editor.put(replace(dequantize, name=editor.fresh(clone), outputs=(clone,)))
    return clone


@dataclass(frozen=True, slots=True)
class Fuse:
    """Grows a group from each operator: the dequantizes it reads, itself, and the pointwise
    operators after it, as far as the engine's output stage and the operator list allow. `follow`
    are the kinds that may join behind another operator."""

    follow: frozenset[Kind] = POINTWISE
    name: str = "fuse"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Cover the graph with groups, in an order that dataflow allows."""
        grower = _Grower(draft.graph, spec, self.follow)
        seeds = [op for op in draft.graph.operators if op.kind is not Kind.DEQUANTIZE]
        leftovers = [op for op in draft.graph.operators if op.kind is Kind.DEQUANTIZE]
        groups: list[Group] = []
        for operator in [*seeds, *leftovers]:
            if operator.name not in grower.claimed:
                groups.append(grower.dot_product(operator) or grower.grow(operator))
        return in_dataflow_order(draft, groups).with_weighed(grower.weighed)


class _Grower:
    def __init__(self, graph: Graph, spec: HardwareSpec, follow: frozenset[Kind]) -> None:
        self.graph = graph
        self.spec = spec
        self.follow = follow
        self.claimed: set[str] = set()
        self.weighed: list[Weighed] = []
        self.producers = graph.producers()
        self.consumers = graph.consumers()
        self.place = {op.name: place for place, op in enumerate(graph.operators)}

    def grow(self, seed: Operator) -> Group:
        """The largest legal group that starts at `seed`; on the host where there is none."""
        engine = engine_of(seed, self.spec)
        if engine in (Engine.NONE, Engine.DMA):
            reason = "" if engine is Engine.NONE else self._refusal([seed], [])
            return self._claim(seed, [seed], Engine.HOST if reason else engine, reason)
        if engine is Engine.HOST:
            types = [self.graph.types[name] for name in seed.operands]
            result = self.graph.types[seed.outputs[0]]
            return self._claim(seed, [seed], engine, refusal(seed, types, result, self.spec))
        chain, end = self._chain(seed, engine)
        reason, refused = "", list[Alternative]()
        for length in range(len(chain), 0, -1):
            members = self._with_feeders(chain[:length])
            prologue = self._prologue(members)
            reason = self._refusal(members, prologue)
            if not reason:
                self._explain(seed, members, refused, end)
                return self._claim(seed, [*prologue, *members], engine, "")
            refused.append(Alternative(_chain_name(members), None, reason))
        bare = self._refusal([seed], [])
        if not bare:
            return self._claim(seed, [seed], engine, "")
        return self._claim(seed, [seed], Engine.HOST, reason if self._prologue([seed]) else bare)

    def dot_product(self, seed: Operator) -> Group | None:
        """A product with the sum that alone reads it, and what follows: nothing of the product is
        stored. One operand of it must be as large as it is: what the unit reads is its price.
        `seed` is the product, or what nothing but the product reads."""
        product = self._product_of(seed)
        if product.kind is not Kind.MUL or product.outputs[0] in self.graph.outputs:
            return None
        readers = self.consumers[product.outputs[0]]
        shape = self.graph.types[product.outputs[0]].shape
        if len(readers) != 1 or readers[0].kind is not Kind.REDUCE_SUM:
            return None
        (total,) = readers
        whole = any(self.graph.types[value].shape == shape for value in product.operands)
        on_vector = all(engine_of(op, self.spec) is Engine.VECTOR for op in (product, total))
        if not (whole and on_vector) or self.claimed.intersection((product.name, total.name)):
            return None
        factors = self._with_feeders([product])
        if seed not in factors:
            return None
        chain, end = self._chain(total, Engine.VECTOR)
        refused: list[Alternative] = []
        for length in range(len(chain), 0, -1):
            members = [*factors, *chain[:length]]
            prologue = self._prologue(members)
            # The sum's own type is what the group stores: inside, nothing is.
            stored = self._type(members[-1].outputs[0])
            reason = self._refusal(members, prologue)
            reason = reason or refusal(total, [stored], stored, self.spec)
            refused.append(Alternative(_chain_name(members), None, reason))
            if not reason:
                self._explain(total, members, refused[:-1], end)
                return self._claim(total, [*prologue, *members], Engine.VECTOR, "")
        return None

    def _product_of(self, seed: Operator) -> Operator:
        """The product that alone reads an operator's result; the operator itself where none
        does."""
        readers = {op.name: op for value in seed.outputs for op in self.consumers[value]}
        if len(readers) != 1 or seed.kind is Kind.MUL:
            return seed
        (reader,) = readers.values()
        return reader

    def _claim(
        self, seed: Operator, members: Sequence[Operator], engine: Engine, reason: str
    ) -> Group:
        self.claimed.update(member.name for member in members)
        if engine is Engine.HOST:
            wanted = engine_of(seed, self.spec)
            others = () if wanted is engine else (Alternative(wanted, None, reason),)
            host = Alternative(Engine.HOST, None, "takes every operator")
            self.weighed.append(Weighed(seed.name, "engine", (*others, host), engine, reason))
        return Group(seed.name, tuple(member.name for member in members), engine, reason)

    def _explain(
        self,
        seed: Operator,
        members: Sequence[Operator],
        refused: Sequence[Alternative],
        end: str,
    ) -> None:
        """Keep why the group ends where it does."""
        chosen = _chain_name(members)
        bound = refused[-1].remark if refused else end
        alternatives = (Alternative(chosen, None, "the longest that runs as one"), *refused)
        self.weighed.append(Weighed(seed.name, "fusion", alternatives, chosen, bound))

    def _chain(self, seed: Operator, engine: Engine) -> tuple[list[Operator], str]:
        """The seed and the pointwise operators that could act on its result; why no more can."""
        chain = [seed]
        if len(seed.outputs) != 1:
            return chain, f"{seed.kind} has {len(seed.outputs)} results"
        while True:
            value = chain[-1].outputs[0]
            readers = self.consumers[value]
            if value in self.graph.outputs:
                return chain, f"%{value} is an output of the model"
            if len(readers) != 1:
                return chain, f"%{value} is read by {len(readers)} operators"
            (reader,) = readers
            end = self._end(chain, reader, engine)
            if end:
                return chain, end
            chain.append(reader)

    def _end(self, chain: Sequence[Operator], reader: Operator, engine: Engine) -> str:
        """Why a reader can't act on the result of a chain in the same group; empty where it can."""
        value = chain[-1].outputs[0]
        what = f"{reader.name} ({reader.kind})"
        if reader.name in self.claimed:
            return f"{what} is in another group"
        if reader.kind not in self.follow or reader.kind is Kind.DEQUANTIZE:
            return f"{what} doesn't act element by element on a result"
        if self.graph.types[reader.outputs[0]].shape != self.graph.types[value].shape:
            return f"{what} changes the shape"
        if not self._can_follow(reader, engine):
            return f"{what} isn't in what the {engine} of {self.spec.name} does to its results"
        if not self._can_pass_on(chain[-1], reader, engine):
            return f"the output stage of {self.spec.name} ends with {chain[-1].kind}"
        operands = {name for member in [*chain, reader] for name in member.operands}
        if len(operands) > _MAX_OPERANDS + len(chain):
            return f"with {what} the group would read more than {_MAX_OPERANDS} operands"
        return ""

    def _can_follow(self, reader: Operator, engine: Engine) -> bool:
        if engine is Engine.TENSOR_CORE:
            return reader.kind in self.spec.tensor_core.output_stage
        return engine_of(reader, self.spec) is engine

    def _can_pass_on(self, last: Operator, reader: Operator, engine: Engine) -> bool:
        """Whether the output stage has anything behind `last` but a change of number format."""
        ends = engine is Engine.TENSOR_CORE and last.kind in self.spec.tensor_core.output_ends
        return not ends or reader.kind in (Kind.QUANTIZE, Kind.CAST)

    def _with_feeders(self, chain: Sequence[Operator]) -> list[Operator]:
        """A pointwise chain with the pointwise operators that only it reads, in the graph's order:
        `sqrt(a*a + b*b)` is one group, and neither square is rounded (or lost) on its way."""
        if any(member.kind not in POINTWISE for member in chain):
            return list(chain)
        shape = self.graph.types[chain[-1].outputs[0]].shape
        inside = {member.name: member for member in chain}
        pending = list(chain)
        while pending:
            for value in pending.pop().operands:
                feeder = self.producers.get(value)
                if feeder is None or feeder.name in inside or not self._feeds(feeder, shape):
                    continue
                if set(inside).issuperset(op.name for op in self.consumers[value]):
                    inside[feeder.name] = feeder
                    pending.append(feeder)
        operands = {name for member in inside.values() for name in member.operands}
        if len(operands) > _MAX_OPERANDS + len(inside):
            return list(chain)
        return sorted(inside.values(), key=lambda member: self.place[member.name])

    def _feeds(self, feeder: Operator, shape: Shape) -> bool:
        """Whether an operator may join the pointwise group that reads it."""
        (value,) = feeder.outputs[:1]
        return (
            feeder.kind in self.follow - {Kind.DEQUANTIZE, Kind.QUANTIZE, Kind.CAST}
            and feeder.name not in self.claimed
            and value not in self.graph.outputs
            and self.graph.types[value].shape == shape
            and engine_of(feeder, self.spec) is Engine.VECTOR
        )

    def _prologue(self, members: Sequence[Operator]) -> list[Operator]:
        """The dequantizes that only these members read."""
        found: dict[str, Operator] = {}
        inside = {member.name for member in members}
        for member in members:
            for value in member.operands:
                producer = self.producers.get(value)
                if (
                    producer is not None
                    and producer.kind is Kind.DEQUANTIZE
                    and producer.name not in self.claimed
                    and value not in self.graph.outputs
                    and self._can_begin(producer, members[0])
                    and inside.issuperset(op.name for op in self.consumers[value])
                ):
                    found[producer.name] = producer
        return list(found.values())

    def _can_begin(self, producer: Operator, seed: Operator) -> bool:
        """Whether the seed's engine reads quantised values: the tensor core does by itself."""
        engine = engine_of(seed, self.spec)
        listed = self.spec.operators.get(producer.kind)
        stored = self.graph.types[producer.inputs[0]].dtype
        return engine is Engine.TENSOR_CORE or (
            listed is not None and Engine(listed.engine) is engine and stored in listed.dtypes
        )

    def _refusal(self, members: Sequence[Operator], prologue: Sequence[Operator]) -> str:
        """Why the group can't run: only the types that enter and leave it count."""
        quantised = {op.outputs[0]: self.graph.types[op.inputs[0]] for op in prologue}
        inside = {value for member in members for value in member.outputs}
        seed = members[0]
        result = self._type(members[-1].outputs[0])
        for member in members:
            types = [
                quantised.get(value) or self._type(value)
                for value in _data_operands(member)
                if value not in inside and not (quantised and self._travels(member, value))
            ]
            if member is seed:
                reason = refusal(seed, types, result, self.spec)
            else:
                foreign = [item for item in types if item.dtype not in self._own_dtypes(seed)]
                reason = refusal(member, foreign, foreign[0], self.spec) if foreign else ""
            if reason:
                return reason
        return ""

    def _travels(self, member: Operator, value: str) -> bool:
        """Whether an operand is a constant that goes with the instruction, as scales do."""
        listed = self.spec.operators.get(member.kind)
        constant = value not in self.producers and value not in self.graph.inputs
        return listed is not None and constant and self._type(value).dtype in listed.constant_dtypes

    def _own_dtypes(self, seed: Operator) -> frozenset[DType]:
        return self.spec.operators[seed.kind].dtypes

    def _type(self, value: str) -> TensorType:
        return device_type(self.graph.types[value], self.spec)


def _chain_name(members: Sequence[Operator]) -> str:
    """What runs as one, for example `conv+relu`."""
    return "+".join(member.kind for member in members)


def _data_operands(member: Operator) -> tuple[str, ...]:
    """Operands without the scales and zero points, which travel with the instruction."""
    if member.kind in (Kind.QUANTIZE, Kind.DEQUANTIZE):
        return member.inputs[:1]
    return member.operands
