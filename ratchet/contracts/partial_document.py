"""The valid keys of an invalid document, so that the rules between these keys can still be checked."""

from collections.abc import Collection
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NoReturn, Union, get_args, get_origin

from ratchet.contracts.document import Document
from ratchet.contracts.misfits import UnknownKey
from ratchet.contracts.yaml_lines import KeyPath


class PartialDocument(SimpleNamespace):
    """The valid keys, under the names of their fields. Reading another key raises UnknownKey."""

    def __getattr__(self, name: str) -> NoReturn:
        raise UnknownKey(name)


def valid_part(kind: type[Document], data: Any, invalid: Collection[KeyPath], at: KeyPath = ()) -> PartialDocument:
    """The valid part of a document. invalid: paths of the invalid keys; at: the path of the document itself."""
    known = PartialDocument()
    for name, field in kind.model_fields.items():
        key = field.alias or name
        path = (*at, key)
        if path in invalid or not isinstance(data, dict):
            continue
        if key in data:
            with suppress(UnknownKey):
                setattr(known, name, _valid_value(unwrap(field.annotation, data[key]), data[key], invalid, path))
        else:
            setattr(known, name, field.get_default(call_default_factory=True))
    return known


def _valid_value(kind: Any, value: Any, invalid: Collection[KeyPath], path: KeyPath) -> Any:
    """The valid part of a value: a document as a whole or in part, anything else as a whole. Raises UnknownKey."""
    if get_origin(kind) is dict and isinstance(value, dict):
        return {key: _valid_value(get_args(kind)[-1], below, invalid, (*path, key)) for key, below in value.items()}
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(
            _valid_value(get_args(kind)[0], below, invalid, (*path, index)) for index, below in enumerate(value)
        )
    document = isinstance(kind, type) and issubclass(kind, Document)
    if any(key[: len(path)] == path for key in invalid):
        if document:
            return valid_part(kind, value, invalid, path)
        raise UnknownKey
    return kind.model_validate(value) if document and isinstance(value, dict) else value


def unwrap(kind: Any, data: Any) -> Any:
    """The type of the data: the content of an optional, or the member of a union that `kind` names."""
    members = [member for member in get_args(kind) if member is not type(None)]
    if get_origin(kind) is Union or type(kind).__name__ == "UnionType":
        tagged = [member for member in members if isinstance(data, dict) and _tag(member) == data.get("kind")]
        return unwrap((tagged or members)[0], data)
    return kind


def _tag(kind: Any) -> Any:
    field = getattr(kind, "model_fields", {}).get("kind")
    return get_args(field.annotation)[0] if field else None
