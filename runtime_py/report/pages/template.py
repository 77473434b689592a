"""Pages of one file: a template of `assets` with the style that all pages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any


def render_template(name: str, filters: Mapping[str, Callable[..., Any]], **values: Any) -> str:
    """The text of an `.html` file; what is not markup is escaped.

    Args:
        name: The template's file.
        filters: What it formats values with.
        values: What it names, besides `style`.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(read_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment.get_template(name).render(style=read_asset("style.css"), **values)


def read_asset(name: str) -> str:
    """The text of a file of `assets`."""
    return files("edgex.runtime.report").joinpath("assets", name).read_text(encoding="utf-8")
