"""How the CSV files of a source are written, where a person says so. What is not said is recognised."""

from typing import Literal

from pydantic import Field

from ratchet.contracts.document import Document

Separator = Literal[",", ";", "\t", "|"]
Encoding = Literal["utf-8", "utf-16", "cp1252", "latin-1", "iso-8859-15", "cp1250", "iso-8859-2", "cp1251"]
Decimal = Literal[".", ","]


class CsvFormat(Document):
    """What is set is never guessed."""

    separator: Separator | None = Field(
        None, description="Between the fields. Default: the one by which the header has the declared columns."
    )
    encoding: Encoding | None = Field(
        None,
        description="Of the text. Default: utf-8; utf-16 by its mark; cp1252, which latin-1 is a part of, where the "
        "text cannot be UTF-8 and seems to be of a Western European language. Set any other one.",
    )
    decimal: Decimal | None = Field(
        None, description="The mark in numbers of type float64. Default: the one in the first rows of the file."
    )
    missing: tuple[str, ...] | None = Field(
        None,
        description='Words that mean a missing value in every column, unless they are in quotes, such as ["NA", "-"]; '
        "an empty field always does. Default: NA, N/A, null, NULL, \\N and -, but not in text, where each of them is a "
        "value. A column with source.codes has them, too, unless the word is a code.",
    )
