"""The software bill of materials of a bundle, in CycloneDX JSON."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from wheels import Wheel

ROOT = "tallyveil"


def bill_of_materials(wheels: Sequence[Wheel], epoch: int) -> str:
    """One component for each wheel, with its digest, its licence and what it requires of the others.

    Raises:
        ValueError: the text does not follow the schema of CycloneDX, or a requirement is not among the wheels.
    """
    components = {wheel.name: _component(wheel) for wheel in wheels}
    bom = Bom(components=[one for name, one in components.items() if name != ROOT])
    bom.metadata.component = components[ROOT]
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    bom.serial_number = uuid5(NAMESPACE_URL, "\n".join(wheel.sha256 for wheel in wheels))
    for wheel in wheels:
        bom.register_dependency(
            components[wheel.name], [components[name] for name in _required(wheel, components)]
        )
    text = JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        raise ValueError(f"the bill of materials does not follow the schema: {wrong}")
    return text


def _component(wheel: Wheel) -> Component:
    return Component(
        name=wheel.name,
        version=wheel.version,
        type=ComponentType.APPLICATION if wheel.name == ROOT else ComponentType.LIBRARY,
        bom_ref=f"{wheel.name}@{wheel.version}",
        purl=PackageURL("pypi", None, wheel.name, wheel.version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=wheel.sha256)],
        licenses=[LicenseFactory().make_from_string(wheel.licence)] if wheel.licence else [],
    )


def _required(wheel: Wheel, known: Mapping[str, Component]) -> list[str]:
    """Names of the packages that a wheel requires on this platform and Python."""
    found = []
    for text in wheel.metadata.get_all("Requires-Dist", []):
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            found.append(canonicalize_name(requirement.name))
    missing = sorted({*found} - {*known})
    if missing:
        raise ValueError(
            f"{wheel.name} requires {', '.join(missing)}, of which the bundle has no wheel: renew the lock file"
        )
    return sorted({*found})
