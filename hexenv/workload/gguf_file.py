"""What a GGUF file says about its model: metadata and the list of tensors, never the weights.

Needs the package ``gguf`` (``pip install 'hexenv[gguf]'``), imported at the first use. Its reader maps the file into
memory, so that tens of GB cost no more than their header; but it makes several objects for each word of the
vocabulary, which takes seconds. Here arrays of strings are stepped over.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from hexenv.errors import ConfigError

SPLIT_NAME = re.compile(r"(.*-)(\d{5})(-of-\d{5}\.gguf)")
"""File names of a model in several parts, as llama.cpp's ``gguf-split`` writes them."""

MOST_ENTRIES = 10_000
"""Tensors or metadata keys of a file; more is a damaged count, and the search for them would go through the weights."""


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor of a file."""

    name: str
    kind: str
    """Name of its GGMLQuantizationType, for example ``Q4_0``."""
    shape: tuple[int, ...]
    """In ggml's order: the inner size of a matrix comes first."""
    stored_bytes: int

    @property
    def elements(self) -> int:
        """Number of weights."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class GgufFile:
    """One model, whatever number of files it is in."""

    path: Path
    """The file that was named, for error texts."""
    metadata: Mapping[str, Any]
    """Values by key; arrays of strings are left out."""
    tensors: Mapping[str, GgufTensor]


def read_gguf(path: Path) -> GgufFile:
    """Read the header, and those of the model's other parts if the file is one of several.

    Raises:
        ConfigError: ``gguf`` is not installed; a file is missing, truncated or no GGUF; a tensor is there twice.
    """
    metadata, tensors = _header(path)
    for part in _other_parts(path, metadata):
        tensors += _header(part)[1]
    by_name = {tensor.name: tensor for tensor in tensors}
    if len(by_name) < len(tensors):
        twice = next(name for name in by_name if sum(tensor.name == name for tensor in tensors) > 1)
        raise ConfigError(f"{path}: tensor {twice} is there twice, allowed: once in all files of a model")
    return GgufFile(path, metadata, by_name)


def _other_parts(path: Path, metadata: Mapping[str, Any]) -> list[Path]:
    """The other files of a model in parts. The metadata are in the first one, so that one must be named."""
    count = int(metadata.get("split.count", 1))
    if count == 1:
        return []
    name = SPLIT_NAME.fullmatch(path.name)
    if name is None or metadata.get("split.no") != 0:
        raise ConfigError(
            f"{path}: part of a model in {count} files, allowed: the first one, NAME-00001-of-{count:05d}.gguf"
        )
    return [path.with_name(f"{name[1]}{number:05d}{name[3]}") for number in range(2, count + 1)]


def _header(path: Path) -> tuple[dict[str, Any], list[GgufTensor]]:
    """Metadata and tensors of one file."""
    kind = _reader_class(path)
    try:
        reader = kind(path)
        metadata = {key: field.contents() for key, field in reader.fields.items() if not _is_strings(field)}
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, IndexError, KeyError, OverflowError, MemoryError, struct.error) as error:
        raise ConfigError(f"{path}: truncated or not a GGUF file ({error})") from error
    return metadata, [_tensor(tensor) for tensor in reader.tensors]


def _is_strings(field: Any) -> bool:
    return bool(field.types[0].name == "ARRAY" and field.types[-1].name == "STRING")


def _tensor(tensor: Any) -> GgufTensor:
    shape = tuple(int(size) for size in tensor.shape)
    return GgufTensor(tensor.name, tensor.tensor_type.name, shape, int(tensor.n_bytes))


def _reader_class(path: Path) -> Any:
    try:
        return _header_reader()
    except ImportError as error:
        raise ConfigError(f"{path}: GGUF files need the package gguf: pip install 'hexenv[gguf]'") from error


@cache
def _header_reader() -> Any:
    """The package's reader, with arrays read as a whole."""
    from gguf import GGUFReader, GGUFValueType

    class HeaderReader(GGUFReader):
        def _build_fields(self, offs: int, count: int) -> int:
            return super()._build_fields(offs, _entries(count))

        def _build_tensor_info(self, offs: int, count: int) -> tuple[int, list[Any]]:
            return super()._build_tensor_info(offs, _entries(count))

        def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[Any]]:
            if raw_type != GGUFValueType.ARRAY:
                return super()._get_field_parts(orig_offs, raw_type)
            head = [self._get(orig_offs, "u4"), self._get(orig_offs + 4, "u8")]
            item, count, start = GGUFValueType(head[0][0]), int(head[1][0]), orig_offs + 12
            types = [GGUFValueType.ARRAY, item]
            if item == GGUFValueType.STRING:
                return self._behind_strings(start, count) - orig_offs, head, [], types
            if item not in self.gguf_scalar_to_np:
                raise ValueError(f"an array of {item.name}")
            values = self._get(start, self.gguf_scalar_to_np[item], count)
            if len(values) < count:
                raise ValueError("an array ends early")
            return 12 + int(values.nbytes), [*head, values], [2], types

        def _behind_strings(self, offset: int, count: int) -> int:
            """Where ``count`` strings, each behind its length, end."""
            length = struct.Struct("<Q" if self.byte_order == "I" else ">Q")
            view = self.data.data
            for _ in range(count):
                offset += 8 + length.unpack_from(view, offset)[0]
            return offset

    return HeaderReader


def _entries(count: int) -> int:
    if count > MOST_ENTRIES:
        raise ValueError(f"{count} entries")
    return count
