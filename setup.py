"""What pyproject.toml cannot say: `EDGEX_PREBUILD_ONEDNN=1` puts the compiled oneDNN backend into the wheel.

Such a wheel is for Linux on x86-64 and brings the backend for the executorch that it was built with; with another one,
and from the wheel without it (which is for any machine), the backend is compiled at first use.
"""

import os
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

PREBUILD = os.environ.get("EDGEX_PREBUILD_ONEDNN") == "1"


class BuildWithBackend(build_py):
    """Adds the compiled backend to the package."""

    def run(self) -> None:
        """Copy the sources, then compile."""
        super().run()
        sys.path.insert(0, str(Path(__file__).parent / "src"))
        from edgex.runtime.engines.onednn.build import prebuild_backend

        prebuild_backend(Path(self.build_lib) / "edgex" / "runtime" / "engines" / "onednn" / "prebuilt")


class PlatformWheel(bdist_wheel):
    """For every Python, but one platform: the backend knows nothing of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """The wheel's tags: Python, interface, platform."""
        return "py3", "none", super().get_tag()[2]


class PlatformDistribution(Distribution):
    """Not for every platform."""

    def has_ext_modules(self) -> bool:
        """Whether there is something compiled."""
        return True


if PREBUILD:
    setup(cmdclass={"build_py": BuildWithBackend, "bdist_wheel": PlatformWheel}, distclass=PlatformDistribution)
else:
    setup()
