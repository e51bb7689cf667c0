"""Recipe packages: the folder that a compile writes and a device loads."""

from stages.package.digest import file_facts
from stages.package.environment import CompileEnvironment, observe_environment
from stages.package.manifest import FileFacts, Manifest
from stages.package.package import Package, require_spec
from stages.package.read import read_constants, read_package, read_weighed
from stages.package.write import write_package

__all__ = [
    "CompileEnvironment",
    "FileFacts",
    "Manifest",
    "Package",
    "file_facts",
    "observe_environment",
    "read_constants",
    "read_package",
    "read_weighed",
    "require_spec",
    "write_package",
]
