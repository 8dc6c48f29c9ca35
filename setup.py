"""The parts of the package that may be compiled; pyproject.toml says everything else.

They are optional: where there is no compiler, or it fails, the package installs without them and
does the same work in plain Python.
"""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

RECORDS = Path("protocol") / "records"
NETWORK = Path("broker") / "network"
COMPILED = (
    "compiled_checksum",
    "compiled_encoding",
    "compiled_rows",
    "compiled_columns",
    "compiled_survey",
    "compiled_straight",
)
# It waits with epoll.
REACTOR = ("compiled_reactor", "compiled_serving") if sys.platform == "linux" else ()


def extension(folder: Path, name: str) -> Extension:
    """One compiled module."""
    source = folder / f"{name}.pyx"
    shared = sorted(folder.glob("*.pxd"))
    text = b"".join(path.read_bytes() for path in (source, *shared))
    return Extension(
        ".".join(("ottla", *folder.parts, name)),
        [source.as_posix()],
        # A tree whose source has moved on since can tell that its build is stale.
        define_macros=[("OTTLA_SOURCE_CRC", f"{zlib.crc32(text)}u")],
        depends=[path.as_posix() for path in shared],
        # Without what only a debugger would read, it takes half the time and half the space.
        extra_compile_args=[] if sys.platform == "win32" else ["-g0"],
        # The wheel of a release must not lose the codec because a compiler failed.
        optional="OTTLA_REQUIRE_COMPILED" not in os.environ,
    )


class OptionalBuild(build_ext):
    """What goes wrong on the way to the compiler is as bad as a compiler that fails: no worse."""

    def initialize_options(self) -> None:
        super().initialize_options()
        # Beside the objects, rather than beside the sources.
        self.cython_c_in_temp = True
        # What modules share is inlined in each; as parts of a package the files would only be found
        # where the tree has its links, which a source distribution has not.
        self.cython_include_dirs = [RECORDS.as_posix(), NETWORK.as_posix()]

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:
            raise CompileError(str(error)) from error


# Columns are little-endian, and the compiled code takes its own machine's order for theirs.
CAN_COMPILE = sys.implementation.name == "cpython" and sys.byteorder == "little"
# The wheel for machines that have no wheel of their own.
IS_PURE = "OTTLA_PURE_WHEEL" in os.environ
EXTENSIONS = [
    *(extension(RECORDS, name) for name in COMPILED),
    *(extension(NETWORK, name) for name in REACTOR),
]

setup(
    cmdclass={"build_ext": OptionalBuild},
    ext_modules=EXTENSIONS if CAN_COMPILE and not IS_PURE else [],
)
