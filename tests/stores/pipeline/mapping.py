"""Countries and their zones."""

_NEAR = frozenset({"AT", "CH", "DE", "NL"})
_FAR = frozenset({"ES", "FI", "GR", "PT"})


def zone_of(country: str) -> str:
    """The zone of a country by its ISO code."""
    if country in _NEAR:
        return "near"
    return "far" if country in _FAR else "beyond"
