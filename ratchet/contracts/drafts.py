"""Drafts: what is right in a document that is not, so that rules between keys can be checked all the same."""

from collections.abc import Collection
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NoReturn, Union, get_args, get_origin

from ratchet.contracts.document import Document
from ratchet.contracts.misfits import Unknown
from ratchet.contracts.yaml_lines import KeyPath


class Draft(SimpleNamespace):
    """The keys that are right, under the names of their fields. To read another raises Unknown."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Unknown(name)


def draft(kind: type[Document], data: Any, wrong: Collection[KeyPath], at: KeyPath = ()) -> Draft:
    """A draft of a document. wrong: paths of the keys that are; at: the path of the document itself."""
    known = Draft()
    for name, field in kind.model_fields.items():
        key = field.alias or name
        path = (*at, key)
        if path in wrong or not isinstance(data, dict):
            continue
        if key in data:
            with suppress(Unknown):
                setattr(known, name, _right(unwrap(field.annotation, data[key]), data[key], wrong, path))
        else:
            setattr(known, name, field.get_default(call_default_factory=True))
    return known


def _right(kind: Any, value: Any, wrong: Collection[KeyPath], path: KeyPath) -> Any:
    """What is right of a value: a document whole or as a draft, anything else whole. Raises Unknown for the rest."""
    if get_origin(kind) is dict and isinstance(value, dict):
        return {key: _right(get_args(kind)[-1], below, wrong, (*path, key)) for key, below in value.items()}
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_right(get_args(kind)[0], below, wrong, (*path, index)) for index, below in enumerate(value))
    document = isinstance(kind, type) and issubclass(kind, Document)
    if any(key[: len(path)] == path for key in wrong):
        if document:
            return draft(kind, value, wrong, path)
        raise Unknown
    return kind.model_validate(value) if document and isinstance(value, dict) else value


def unwrap(kind: Any, data: Any) -> Any:
    """The type that data have, looking through optionals and the members of `source`."""
    members = [member for member in get_args(kind) if member is not type(None)]
    if get_origin(kind) is Union or type(kind).__name__ == "UnionType":
        tagged = [member for member in members if isinstance(data, dict) and _tag(member) == data.get("kind")]
        return unwrap((tagged or members)[0], data)
    return kind


def _tag(kind: Any) -> Any:
    field = getattr(kind, "model_fields", {}).get("kind")
    return get_args(field.annotation)[0] if field else None
