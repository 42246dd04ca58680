"""The versions of Anthropic's wire, and what each takes: its own servers, those of 2023, and others that speak it."""

from __future__ import annotations

from msgspec import Struct, structs

from belljar.vendors.anthropic.vendor import OF_2023, VENDOR
from belljar.vendors.vendor import Vendor


class WireVersion(Struct, frozen=True, kw_only=True):
    """One row."""

    version: str = "2026-10-21"
    """As the header says it."""
    bearer: bool = True
    """The key is shown as most servers want it; earlier in a header of its own."""
    samples: bool = False
    """It takes temperature, top_p and top_k."""
    strict: bool = False
    """Function tools may ask for arguments that fit their schema."""
    forms: bool = True
    """An answer may be asked for in a form."""
    eager: bool = False
    """A tool may ask for its input as it is written; elsewhere it comes in larger pieces."""
    code_tool: str = "code_execution_20260521"
    """The newest version of the vendor's own code execution; a model may take an older one only."""


CURRENT = WireVersion(strict=True, eager=True)
OLD = WireVersion(version="2023-06-01", bearer=False, samples=True, forms=False, code_tool="code_execution_20250825")
OTHERS = WireVersion()


def version_of(vendor: Vendor) -> WireVersion:
    """What this vendor's servers speak. Who keeps forms and schemas on other wires is taken to keep them here."""
    match vendor.name:
        case VENDOR.name:
            return CURRENT
        case OF_2023.name:
            return OLD
        case _:
            profile = vendor.profile
            return structs.replace(OTHERS, strict=profile.strict, forms="json_schema" in profile.formats)
