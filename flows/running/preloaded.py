"""What the process that forks the stages' processes imports beforehand: what all stages need.

ONNX Runtime isn't among it: its sessions start threads, and only some stages want it.
"""

import stages.benchmark
import stages.compile
import stages.compiler.cascade.strategy
import stages.compiler.passes.late_pieces
import stages.compiler.passes.layout
import stages.compiler.passes.order
import stages.compiler.passes.separate_reads
import stages.compiler.passes.view_concats
import stages.compiler.passes.view_slices
import stages.compiler.schedule.weaving
import stages.compiler.trial
import stages.compiler.woven_tiles
import stages.gate
import stages.normalize
import stages.report.figures
import stages.thermal_stress
import stages.validate

__all__ = ["stages"]
