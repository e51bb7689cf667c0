"""From a YAML file to a `HardwareSpec`, or to a message that a user can act on."""

from __future__ import annotations

import hashlib
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import ValidationError

from stages.errors import HardwareSpecError
from stages.hardware import spec as contract
from stages.hardware import vocabulary
from stages.hardware.compositions import composed_cycles, with_compositions
from stages.hardware.consistency import inconsistencies
from stages.hardware.document import Document, read_document
from stages.hardware.overlay import OVERLAY_SUFFIX, is_overlay, merged_document
from stages.hardware.provenance import uncovered
from stages.hardware.refusals import refuse, schema_refusals
from stages.hardware.schema import (
    CacheSection,
    MemorySection,
    SpecFile,
    WeightCacheSection,
)
from stages.version import COMPILER_VERSION

SUFFIX = ".yaml"


def find_spec(name: str, folder: Path) -> Path:
    """The file of a spec by its name.

    Raises:
        HardwareSpecError: the folder holds no such spec; the hint names the nearest, or all.
    """
    known = spec_names(folder)
    if name in known:
        return folder / (name + SUFFIX)
    hint = vocabulary.did_you_mean(name, known) if known else f"no {SUFFIX} file is in {folder}"
    if known and not hint.startswith("known"):
        hint += f" (known: {', '.join(known)})"
    raise HardwareSpecError(f"unknown hardware {name!r}", where=str(folder), hint=hint)


def spec_names(folder: Path) -> list[str]:
    """The names of the specs in a folder, sorted."""
    return sorted(path.stem for path in spec_files(folder))


def spec_files(folder: Path) -> list[Path]:
    """The files of the specs in a folder, sorted; overlays aren't among them."""
    return sorted(
        path
        for path in folder.glob("*" + SUFFIX)
        if path.is_file() and not path.name.endswith(OVERLAY_SUFFIX)
    )


def load_spec(path: Path) -> contract.HardwareSpec:
    """Read and check a hardware spec, or an overlay together with the spec that it is for.

    Raises:
        HardwareSpecError: the file can't be read, isn't a sound spec, or needs another compiler;
            or the overlay isn't reviewed, or is for another spec. It names file, line, key path,
            value, and the cure.
    """
    document = read_document(path)
    if not is_overlay(document):
        return spec_of(document)
    try:
        return spec_of(merged_document(document))
    except HardwareSpecError as error:
        if error.where.startswith(str(path)):
            raise
        raise HardwareSpecError(
            error.problem, where=f"{path}, laid over {error.where}", hint=error.hint
        ) from error


def spec_of(document: Document) -> contract.HardwareSpec:
    """The spec that a document describes.

    Raises:
        HardwareSpecError: it isn't a sound spec, or needs another compiler.
    """
    try:
        file = SpecFile.model_validate(document.data)
    except ValidationError as error:
        refuse(document, schema_refusals(document, error))
        raise
    _check_compiler(document, file)
    refuse(document, inconsistencies(file))
    refuse(document, uncovered(document, frozenset(file.sources)))
    return _build(file, hashlib.sha256(document.content).hexdigest())


def _check_compiler(document: Document, file: SpecFile) -> None:
    where = document.where(("compiler",))
    try:
        needed = SpecifierSet(file.compiler)
    except InvalidSpecifier as error:
        raise HardwareSpecError(
            f"compiler: {file.compiler!r} isn't a range of versions",
            where=where,
            hint='write a range such as ">=0.1,<1"',
        ) from error
    if COMPILER_VERSION not in needed:
        raise HardwareSpecError(
            f"compiler: the spec needs {file.compiler}, and this is {COMPILER_VERSION}",
            where=where,
            hint="install a matching recipe-pipeline, or take an older version of the spec",
        )


def _build(file: SpecFile, digest: str) -> contract.HardwareSpec:
    memory = file.memory
    return contract.HardwareSpec(
        name=file.name,
        chip=file.chip,
        vendor=file.vendor,
        firmware=file.firmware,
        version=file.version,
        compiler=file.compiler,
        digest=digest,
        clock_hz=file.clock,
        tensor_core=_tensor_core(file),
        vector=contract.VectorUnit(
            bytes_per_cycle=file.vector.width,
            startup_cycles=file.vector.startup,
            default_cycles=file.vector.default_cycles,
            cycles_by_kind=composed_cycles(file.vector.cycles, file.vector.default_cycles),
            efficiency_permille=file.vector.efficiency,
            least_element_bytes=file.vector.least_element or 1,
            ends=frozenset(file.vector.ends),
            compares=frozenset(file.vector.compares),
            pixel_channels=file.vector.pixel_channels,
        ),
        dma=_dma(file),
        sram=_memory("sram", file.memory.sram),
        ddr=_memory("ddr", file.memory.ddr),
        host=contract.Host(
            flops_per_second=file.host.flops,
            memory_bandwidth=file.host.memory_bandwidth,
            link_bandwidth=file.host.link_bandwidth,
            sync_ns=file.host.sync,
            call_ns=file.host.call,
            memory=file.host.memory,
        ),
        layouts={kind: layout for layout, kinds in file.layouts.items() for kind in kinds},
        channel_quantum=dict(file.channel_quantum),
        operators=_operators(file),
        driver=contract.Driver(
            sync_mode=file.driver.sync_mode,
            submit_ns=file.driver.submit,
            launch_ns=dict(file.driver.launch),
            event_cycles=file.driver.event,
            float_io_ns=file.driver.float_io,
        ),
        operating_points=tuple(
            contract.OperatingPoint(clock_hz=point.clock, millivolts=point.voltage)
            for point in file.operating_points
        ),
        power=_power(file),
        thermal=_thermal(file),
        jitter=tuple(
            contract.Jitter(cause=item.cause, interval_ns=item.interval, stall_ns=item.stall)
            for item in file.jitter
        ),
        sources={
            key: contract.Provenance(mark=item.mark, source=item.source)
            for key, item in file.sources.items()
        },
        l2=_l2(memory.l2) if memory.l2 else None,
        weight_cache=_weight_cache(memory.weight_cache) if memory.weight_cache else None,
        vendor_compiler=contract.VendorCompiler(
            unfused=frozenset(file.vendor_compiler.unfused),
            views=frozenset(file.vendor_compiler.views),
        ),
    )


def _tensor_core(file: SpecFile) -> contract.TensorCore:
    core = file.tensor_core
    return contract.TensorCore(
        dataflow=core.dataflow,
        rows=core.array.rows,
        cols=core.array.cols,
        depth=core.array.depth,
        instances=core.array.instances,
        array_dtype=core.array_dtype,
        macs_per_cycle=dict(core.macs_per_cycle),
        depthwise_macs_per_cycle=core.depthwise_macs_per_cycle,
        fill_cycles=core.fill,
        output_stage=frozenset(core.output_stage),
        max_m=core.limits.m,
        max_n=core.limits.n,
        max_k=core.limits.k,
        weight_load_cycles=core.weight_load,
        efficiency_permille=dict(core.efficiency),
        lanes=core.lanes or 1,
        lane_alignment_bytes=core.lane_alignment or 1,
        misaligned_lanes=core.misaligned_lanes or 1,
        blocks_per_instance=core.blocks_per_instance,
        block_shapes=tuple((rows, cols) for rows, cols in core.blocks),
        max_split_k=core.max_split_k,
        group_blocks=core.group_blocks,
        strided_input_bytes=core.strided_input or 0,
        operand_feed_bytes=core.operand_feed or 0,
        default_output_cycles=core.default_output_cycles,
        output_cycles_by_kind=dict(core.output_cycles),
        output_cycles_by_type={
            kind: dict(cycles) for kind, cycles in core.output_cycles_by_type.items()
        },
        image_channels=core.image_channels,
        output_ends=frozenset(core.output_ends),
    )


def _dma(file: SpecFile) -> contract.Dma:
    return contract.Dma(
        channels=file.dma.channels,
        outstanding=file.dma.outstanding,
        setup_ns=file.dma.setup,
        bandwidth=file.dma.bandwidth,
        alignment_bytes=file.dma.alignment,
        max_transfer_bytes=file.dma.max_transfer,
        max_dimensions=file.dma.max_dimensions,
    )


def _memory(name: str, section: MemorySection) -> contract.Memory:
    return contract.Memory(
        name=name,
        size_bytes=section.size,
        reserved_bytes=section.reserved,
        alignment_bytes=section.alignment,
        read_bandwidth=section.read_bandwidth,
        write_bandwidth=section.write_bandwidth,
        read_latency_ns=section.read_latency,
        write_latency_ns=section.write_latency,
        burst_bytes=section.burst,
        banks=section.banks,
        read_efficiency_permille=section.read_efficiency,
        write_efficiency_permille=section.write_efficiency,
        channels=section.channels,
        interleave_bytes=section.interleave or section.burst,
        bank_interleave_bytes=section.bank_interleave or 0,
    )


def _l2(section: CacheSection) -> contract.Cache:
    return contract.Cache(
        size_bytes=section.size,
        line_bytes=section.line,
        ways=section.ways,
        read_bandwidth=section.read_bandwidth,
        write_bandwidth=section.write_bandwidth,
        read_latency_ns=section.read_latency,
        write_latency_ns=section.write_latency,
    )


def _weight_cache(section: WeightCacheSection) -> contract.WeightCache:
    return contract.WeightCache(section.size, section.read_bandwidth)


def _operators(file: SpecFile) -> dict[str, contract.OperatorSupport]:
    listed = {
        kind: contract.OperatorSupport(
            engine=entry.engine,
            dtypes=frozenset(entry.dtypes),
            constant_dtypes=frozenset(entry.constants),
            limits={name: (low, high) for name, (low, high) in entry.limits.items()},
        )
        for entry in file.operators
        for kind in entry.kinds
    }
    return with_compositions(listed)


def _power(file: SpecFile) -> contract.Power:
    return contract.Power(
        idle_milliwatts=file.power.idle,
        leakage_milliwatts=file.power.leakage,
        leakage_doubling_celsius=file.power.leakage_doubling // 1000,
        mac_femtojoules=dict(file.power.mac),
        vector_femtojoules_per_byte=file.power.vector,
        sram_femtojoules_per_byte=file.power.sram,
        dram_femtojoules_per_byte=file.power.dram,
    )


def _thermal(file: SpecFile) -> contract.Thermal:
    thermal = file.thermal
    return contract.Thermal(
        stages=tuple(
            contract.ThermalStage(
                name=stage.name,
                millikelvin_per_watt=stage.resistance,
                millijoules_per_kelvin=stage.capacity,
            )
            for stage in thermal.stages
        ),
        ambient_celsius=thermal.ambient / 1000,
        poll_ns=thermal.poll,
        trips=tuple(
            contract.Trip(
                celsius=trip.temperature / 1000,
                divider=trip.divider or 1,
                hysteresis_celsius=trip.hysteresis / 1000,
                clock_hz=trip.clock or 0,
            )
            for trip in thermal.trips
        ),
        critical_celsius=thermal.critical / 1000,
        governor=thermal.governor,
        airflow=tuple(
            contract.AirSpeed(
                millimetres_per_second=point.speed, millikelvin_per_watt=point.resistance
            )
            for point in thermal.airflow
        ),
    )
