"""The number of this release. It is no code: no result is made again because it has risen, see `runtime.code`."""

RELEASE = "0.2.0"
