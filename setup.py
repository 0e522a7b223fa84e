"""Compile the C engine while the package is installed, where there is a C compiler; pyproject.toml says the rest."""

import runpy
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

NATIVE = Path("model/ops/native")
BUILD = runpy.run_path(str(Path(__file__).parent / NATIVE / "build.py"))


class CompileNative(build_ext):
    """Compile shared libraries that ctypes loads: no Python headers, and file names without a Python version."""

    def get_ext_filename(self, name: str) -> str:
        return f"{name.replace('.', '/')}.so"

    def build_extension(self, extension: Extension) -> None:
        path = Path(self.get_ext_fullpath(extension.name))
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            BUILD["compile_library"](extension.name.rpartition("_")[2], path)
        except OSError as error:
            raise CompileError(f"{error}: training on a CPU will be slower") from error  # a warning: it is optional


def extension(real: str) -> Extension:
    name = ".".join([*NATIVE.parts, f"native_{real}"])
    return Extension(name, sources=[str(NATIVE / "source/native.c")], optional=True)


setup(ext_modules=[extension(real) for real in BUILD["REALS"]], cmdclass={"build_ext": CompileNative})
