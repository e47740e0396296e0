"""Pipeline files for tests of what is built from them."""

from pathlib import Path

PIPELINE = """\
name: {name}
owner: search-team
description: Orders search results.
schedule: {{cron: "{cron}", timezone: {timezone}}}
source: {{kind: files, uri: "/data/{{date}}/*.parquet", window_days: 3}}
columns:
  query_id: {{role: group, type: int64}}
  price: {{role: numeric, type: float64}}
  clicked: {{role: label, type: int64, in: [0, 1]}}
train: {{objective: ranking, epochs: 3}}
register: {{promote: {promote}}}
stages: {{train: {{retries: 4, retry_delay: 10s, timeout: 2h, grace: 1m}}}}
alerts: {{to: [mlops]}}
"""


def write(folder: Path, name: str, *, cron: str = "0 2 * * *", timezone: str = "UTC", promote: str = "auto") -> Path:
    """A good pipeline's folder below `folder`."""
    return write_text(folder, name, PIPELINE.format(name=name, cron=cron, timezone=timezone, promote=promote))


def write_text(folder: Path, name: str, text: str) -> Path:
    """A pipeline's folder with any text as its file."""
    made = folder / name
    made.mkdir(parents=True, exist_ok=True)
    (made / "pipeline.yaml").write_text(text, encoding="utf-8")
    return made
