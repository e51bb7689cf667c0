"""Recipe packages: the folder that a compile writes and a device loads."""

from stages.package.decisions import DecidedFacts, PlanFiles, StoredDecisions
from stages.package.digest import file_facts, mapped
from stages.package.environment import CompileEnvironment, Stopwatch, observe_environment
from stages.package.manifest import FileFacts, Manifest
from stages.package.package import Package, require_spec
from stages.package.read import (
    read_code,
    read_constants,
    read_package,
    read_stored,
    read_weighed,
)
from stages.package.stopped import read_stopped, write_stopped
from stages.package.store import code_digest, find_stored, keep_stored
from stages.package.write import Contents, plan_files, write_contents, write_package

__all__ = [
    "CompileEnvironment",
    "Contents",
    "DecidedFacts",
    "FileFacts",
    "Manifest",
    "Package",
    "PlanFiles",
    "Stopwatch",
    "StoredDecisions",
    "code_digest",
    "file_facts",
    "find_stored",
    "keep_stored",
    "mapped",
    "observe_environment",
    "plan_files",
    "read_code",
    "read_constants",
    "read_package",
    "read_stopped",
    "read_stored",
    "read_weighed",
    "require_spec",
    "write_contents",
    "write_package",
    "write_stopped",
]
