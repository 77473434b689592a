"""Files of a tokenizer or processor that belong to a model: found beside it, carried in the artifact, hashed with it.

Models of Hugging Face's libraries have a `config` that knows the folder which they came from. What turns text or
pictures into their inputs lies there as files of known names; a device needs them as much as the model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

# What tokenizers, image processors and feature extractors are saved as, and what generation starts from.
NAMES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"),
    *("vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model"),
    *("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json", "generation_config.json"),
)
_MAX_BYTES = 64 << 20


def find_processor_files(module: Any, root: Path) -> Mapping[str, Path]:
    """Processor and tokenizer files of a model that has a config; empty where it has none.

    Args:
        module: The model; a module around one will do.
        root: Folder of the user's file: where the config knows no folder, the files may lie here.

    Returns:
        Paths by their names, in a fixed order. They come from one place: the folder that the model was loaded from,
        its copy in the hub's cache, or `root`. Nothing is downloaded.
    """
    config = _find_config(module)
    if config is None:
        return {}
    origin = str(getattr(config, "name_or_path", "") or "")
    places: list[Callable[[str], Path | None]] = [lambda name: Path(origin) / name] if origin else []
    places += [lambda name: _in_cache(origin, name)] if origin and not Path(origin).is_dir() else []
    places.append(lambda name: root / name)
    for place in places:
        found = {name: path for name in NAMES if (path := place(name)) is not None and path.is_file()}
        kept = {name: path for name, path in found.items() if path.stat().st_size <= _MAX_BYTES}
        if kept:
            return kept
    return {}


def find_files_beside(root: Path) -> Mapping[str, Path]:
    """Tokenizer files in a folder, for a language model that has no config to say where they are."""
    found = {name: root / name for name in NAMES if (root / name).is_file()}
    return {name: path for name, path in found.items() if path.stat().st_size <= _MAX_BYTES}


def _find_config(module: Any) -> Any:
    """The config of the model, or of the first model inside it."""
    for part in module.modules() if isinstance(module, torch.nn.Module) else ():
        config = getattr(part, "config", None)
        if hasattr(config, "model_type") and hasattr(config, "to_dict"):
            return config
    return None


def _in_cache(repository: str, name: str) -> Path | None:
    """A file of a model of the hub, if it was downloaded already; the library is there if the model came by it."""
    hub = sys.modules.get("huggingface_hub")
    try:
        found = None if hub is None else hub.try_to_load_from_cache(repository, name)
    except ValueError:  # what it makes of a name that no repository can have
        found = None
    return Path(found) if isinstance(found, str) else None
