"""What a declared type says: its marks, its alternatives, and in words what it allows."""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Meta

from lastcall.config.faults import show
from lastcall.config.forms import Form

_UNBOUNDED_FORM = Form("")


def base(hint: Any) -> Any:
    """Return the type without its marks."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def form(hint: Any) -> Form:
    """Return the form that the type is marked with; one that accepts all where there is none."""
    return next((mark for mark in _marks(hint) if isinstance(mark, Form)), _UNBOUNDED_FORM)


def description(hint: Any) -> str:
    """Return the meaning that the type is marked with."""
    texts = [mark.description for mark in _marks(hint) if isinstance(mark, Meta)]
    return next((text for text in texts if text), "")


def item(hint: Any) -> Any:
    """Return the type of a list's items or of a table's values; ``None`` where it is neither."""
    bare = base(hint)
    arguments = get_args(bare)
    if get_origin(bare) is tuple:
        return arguments[0]
    return arguments[1] if get_origin(bare) is Mapping else None


def names(hint: Any) -> Form:
    """Return the form that the names in a table of values must have."""
    return form(get_args(base(hint))[0])


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the types that a value may have; more than one where the hint is a union."""
    bare = base(hint)
    if get_origin(bare) in (Union, UnionType):
        return tuple(kind for kind in get_args(bare) if kind is not NoneType)
    return (hint,)


def words(hint: Any) -> tuple[str, ...]:
    """Return the words that a value, or an item of it, may be where it may be one of a few."""
    if item(hint) is not None:
        return words(item(hint))
    return tuple(
        word
        for kind in alternatives(hint)
        if get_origin(base(kind)) is Literal
        for word in get_args(base(kind))
    )


def takes_raw_text(hint: Any) -> bool:
    """Whether every value is a text, so that a variable's text is the value as it stands."""
    return all(
        base(kind) is str or get_origin(base(kind)) is Literal for kind in alternatives(hint)
    )


def allowed(hint: Any) -> str:
    """Return in words what the type allows."""
    stated = form(hint).allowed
    return stated or _listed([part for kind in alternatives(hint) for part in _allowed(kind)])


def _allowed(kind: Any) -> list[str]:
    bare = base(kind)
    if get_origin(bare) is Literal:
        return [show(word) for word in get_args(bare)]
    if get_origin(bare) is tuple:
        return [f"a list, each item {allowed(item(bare))}"]
    if bare is bool:
        return ["true", "false"]
    if bare in (int, float):
        return [_number(kind)]
    return ["text"]


def _number(kind: Any) -> str:
    noun = "a whole number" if base(kind) is int else "a number"
    limits = next(mark for mark in _marks(kind) if isinstance(mark, Meta) and mark.le is not None)
    lowest = f"from {limits.ge:.15g}" if limits.ge is not None else f"above {limits.gt:.15g}, up"
    return f"{noun} {lowest} to {limits.le:.15g}"


def _listed(parts: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _marks(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()
