"""The registry in the memory of this process, beside a store in memory. Tests and simulations use it."""

from dataclasses import dataclass, field, replace

from ratchet.tracking.registry import LEDGER, Version


@dataclass
class _Model:
    versions: dict[str, Version] = field(default_factory=dict)
    alias: str | None = None


@dataclass
class MemoryRegistry:
    """Versions in a dictionary. Registries of one address in a process are the same one."""

    address: str
    models: dict[str, _Model] = field(default_factory=dict)

    @classmethod
    def of(cls, address: str) -> "MemoryRegistry":
        """The registry of an address, such as a store's."""
        return _REGISTRIES.setdefault(address, cls(address))

    def add(self, model: str, tags: dict[str, str]) -> Version:
        """Register a version with the next number."""
        held = self.models.setdefault(model, _Model())
        version = Version(number=str(len(held.versions) + 1), tags=tags)
        held.versions[version.number] = version
        return version

    def champion(self, model: str) -> Version | None:
        """See Registry."""
        held = self._model(model)
        return held.versions[held.alias] if held.alias else None

    def find(self, model: str, digest: str) -> tuple[Version, ...]:
        """See Registry."""
        return tuple(version for version in self._model(model).versions.values() if version.digest == digest)

    def version(self, model: str, number: str) -> Version | None:
        """See Registry."""
        return self._model(model).versions.get(number)

    def recorded(self, model: str) -> tuple[Version, ...]:
        """See Registry."""
        return tuple(version for version in self._model(model).versions.values() if version.record)

    def mark(self, model: str, version: Version, record: int) -> None:
        """See Registry."""
        held = self.models[model]
        tags = {**held.versions[version.number].tags, LEDGER: str(record)}
        held.versions[version.number] = replace(version, tags=tags)

    def point(self, model: str, version: Version, record: int) -> None:
        """See Registry."""
        self.mark(model, version, record)
        self.models[model].alias = version.number

    def _model(self, model: str) -> _Model:
        return self.models.get(model, _Model())


_REGISTRIES: dict[str, MemoryRegistry] = {}
