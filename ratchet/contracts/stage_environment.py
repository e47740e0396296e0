"""What really ran in a stage: the interpreter, the libraries and the device, as the stage itself found them.

It decides nothing, and is part of no fingerprint. It says later why the same request gave other bits.
"""

from pydantic import Field

from ratchet.contracts.document import Document


class StageEnvironment(Document):
    """Of one process of a stage, at its end."""

    python: str
    platform: str = Field(description="Operating system, C library and architecture.")
    processor: str = Field("", description="The processor's name.")
    instructions: str = Field("", description="The widest instructions that torch uses on the processor, as AVX2.")
    libraries: dict[str, str] = Field(description="Versions of the decisive libraries that were imported.")
    torch_build: str = Field("", description="The commit that torch was built from; empty without torch.")
    threads: int | None = Field(None, description="Threads of one operation of torch; None without torch.")
    deterministic: str = Field("", description="Torch's mode for operations without a deterministic form.")
    device: str = Field("cpu", description="The device that was used: `cpu`, or the name of the GPU.")
    capability: str = Field("", description="The compute capability of the GPU, as 9.0.")

    def differences(self, now: "StageEnvironment") -> list[str]:
        """What differs, as lines such as `torch is 2.13.0 here and was 2.12.1 then`."""
        then, here = _facts(self), _facts(now)
        return [
            f"{name} is {here.get(name) or 'absent'} here and was {then.get(name) or 'absent'} then"
            for name in sorted({*then, *here})
            if then.get(name) != here.get(name)
        ]


def _facts(environment: StageEnvironment) -> dict[str, str]:
    plain = environment.model_dump(exclude={"libraries"}).items()
    return {**{name: str(value) for name, value in plain if value}, **environment.libraries}
