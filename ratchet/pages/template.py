"""Pages from templates: one HTML file that needs nothing else. Text from data, people and errors is escaped."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ratchet.contracts.quantities import percent
from ratchet.pages.words import count, interval, seconds

_FOLDER = Path(__file__).parent


def render(template: Path, **values: object) -> str:
    """A page from a template that extends `page.html`. A name without a value raises UndefinedError."""
    environment = Environment(
        loader=FileSystemLoader([template.parent, _FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "interval": interval, "seconds": seconds, "count": count}
    return environment.get_template(template.name).render(**values)
