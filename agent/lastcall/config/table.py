"""What all tables are made of, and the types of value that several of them share."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from lastcall.config import forms

PollSeconds = Annotated[float, Meta(ge=0.01, le=60)]
SlowPollSeconds = Annotated[float, Meta(ge=0.01, le=3600)]
LeadSeconds = Annotated[float, Meta(gt=0, le=604800)]
Count = Annotated[int, Meta(ge=1, le=1000000)]
AbsolutePath = Annotated[str, forms.ABSOLUTE_PATH]
Switch = Literal["auto"] | bool


def about(description: str) -> Meta:
    """Return the mark that carries a setting's meaning."""
    return Meta(description=description)


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """One table of the file.

    Attributes:
        pending: the table belongs to a feature that this version does not have.
    """

    pending: ClassVar[bool] = False
