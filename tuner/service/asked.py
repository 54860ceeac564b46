"""What requests may say, as the OpenAPI document states it; whatever else they say is refused with one sentence."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tuner.model import DTYPES, MATHS, Problem

MOST_TEXT = 500
MOST_MISSES = 1000
MOST_COUNT = 1_000_000
MOST_LISTED = 1000


def _whole(value: Any) -> int | None:
    """A query's text as a number only if it is nothing but digits; 10.0 is whole, too, as JSON schema has it."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,10}(\.0{1,10})?", value):
        return int(value.partition(".")[0])
    return int(value) if type(value) is int or (type(value) is float and value.is_integer()) else None


def _flag(value: Any) -> Any:
    found = {"true": True, "false": False, True: True, False: False}.get(value) if type(value) in (str, bool) else None
    if found is None:
        raise ValueError("should be true or false")
    return found


def _power_of_two(value: int) -> int:
    if value not in (1, 2, 4, 8, 16):
        raise ValueError("should be a power of two from 1 to 16")
    return value


def _among(*choices: str) -> AfterValidator:
    def check(value: str) -> str:
        if value not in choices:
            raise ValueError(f"should be one of: {', '.join(choices)}")
        return value

    return AfterValidator(check)


def _from(least: int, most: int) -> Any:
    """A whole number in a range, as the document and the check have it."""
    limits = Field(ge=least, le=most)

    def check(value: Any) -> int:
        found = _whole(value)
        if found is None or not least <= found <= most:
            raise ValueError(f"should be a whole number from {least} to {most}")
        return found

    return BeforeValidator(check, json_schema_input_type=Annotated[int, limits]), limits


Size = Annotated[int, *_from(1, 2**31 - 1)]
Align = Annotated[
    int, *_from(1, 16), AfterValidator(_power_of_two), Field(json_schema_extra={"enum": [1, 2, 4, 8, 16]})
]
Offset = Annotated[int, *_from(0, 2**31 - 1)]
Limit = Annotated[int, *_from(1, MOST_LISTED)]
Times = Annotated[int, *_from(1, MOST_COUNT)]
Flag = Annotated[bool, BeforeValidator(_flag, json_schema_input_type=bool)]
Text = Annotated[str, Field(min_length=1, max_length=MOST_TEXT)]
DTypeName = Annotated[str, _among(*DTYPES), Field(json_schema_extra={"enum": list(DTYPES)})]
MathName = Annotated[str, _among(*MATHS), Field(json_schema_extra={"enum": list(MATHS)})]
_ALIGN = "Largest power of two, at most 16 bytes, that divides every base, leading dimension and batch stride."


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Product(_Strict):
    """C = alpha·op(A)·op(B) + beta·C, row-major: C is m×n, the sum runs over k."""

    m: Size = Field(description="Rows of C.", examples=[1024])
    n: Size = Field(description="Columns of C.", examples=[1024])
    k: Size = Field(description="Length of the sums.", examples=[1024])
    batch: Size = Field(1, description="Products computed at once.")
    dtype: DTypeName = Field("float32", description="Element type of A, B and C.")
    trans_a: Flag = Field(False, description="A lies in memory as k×m.")
    trans_b: Flag = Field(False, description="B lies in memory as n×k.")
    math: MathName = Field("strict", description="Arithmetic; all but strict are for float32.")
    align: Align | None = Field(
        None, description=f"{_ALIGN} Without, operands lie without gaps; below an element's size that is taken."
    )

    def problem(self) -> Problem:
        """What is asked for. Raises UserError for an arithmetic that its type does not have."""
        named = Product.model_fields.keys() - {"align"}
        sizes: dict[str, Any] = {name: getattr(self, name) for name in named}
        if self.align is None:
            return Problem.packed(**sizes)
        return Problem(**sizes, align=max(self.align, DTYPES[self.dtype].bytes))


_DEVICE = "Key of a device or part of its name, as /v1/devices lists them."
_DRIVER = "Version of the driver, or part of the software's key; without, what was published last."


class Question(Product):
    """A product on a device."""

    device: Text = Field(description=_DEVICE, examples=["H200"])
    driver: Text | None = Field(None, description=_DRIVER)


class Listing(_Strict):
    """Which champions to list."""

    device: Text | None = Field(None, description=_DEVICE)
    driver: Text | None = Field(None, description=_DRIVER)
    dtype: DTypeName | None = Field(None, description="Only this element type.")
    limit: Limit = Field(100, description="At most so many.")
    offset: Offset = Field(0, description="After so many.")


class AskedInVain(Question):
    """Something that a program asked for and that was not tuned."""

    count: Times = Field(1, description="So many times.")


class Report(_Strict):
    """Misses to be counted."""

    misses: Annotated[list[AskedInVain], Field(min_length=1, max_length=MOST_MISSES)]
