"""Recipe packages: the folder that a compile writes and a device loads."""

from stages.package.decisions import DecidedFacts, PlanFiles, StoredDecisions
from stages.package.digest import file_facts
from stages.package.environment import CompileEnvironment, observe_environment
from stages.package.manifest import FileFacts, Manifest
from stages.package.package import Package, require_spec
from stages.package.read import read_constants, read_package, read_stored, read_weighed
from stages.package.write import Contents, plan_files, write_contents, write_package

__all__ = [
    "CompileEnvironment",
    "Contents",
    "DecidedFacts",
    "FileFacts",
    "Manifest",
    "Package",
    "PlanFiles",
    "StoredDecisions",
    "file_facts",
    "observe_environment",
    "plan_files",
    "read_constants",
    "read_package",
    "read_stored",
    "read_weighed",
    "require_spec",
    "write_contents",
    "write_package",
]
