"""The services that are spoken here: whose model drives them, under which name requests to them are signed."""

from dataclasses import dataclass

from controlplane.core.errors import ApiError, ValidationError, ValidationException


@dataclass(frozen=True)
class Service:
    """One service: botocore's `model`, the signing name, and what X-Amz-Target and the CBOR paths call it.

    `speaks_query` marks a service that once spoke the query protocol only: its newer protocols repeat the error's code
    in a header of its own, and its old clients still send forms. `violation` is its error for values that are not legal.
    """

    model: str
    signing_name: str
    target: str
    json_version: str
    violation: type[ApiError]
    speaks_query: bool = False

    @property
    def json_type(self) -> str:
        """The content type of its JSON protocol."""
        return f"application/x-amz-json-{self.json_version}"


SAGEMAKER = Service("sagemaker", "sagemaker", "SageMaker", "1.1", ValidationException)
"""The signing name is that of the runtime too."""

CLOUDWATCH = Service("cloudwatch", "monitoring", "GraniteServiceVersion20100801", "1.0", ValidationError, speaks_query=True)

_BY_TARGET = {service.target: service for service in (SAGEMAKER, CLOUDWATCH)}


def by_target(name: str) -> Service | None:
    """The service that X-Amz-Target and paths call `name`, to the letter."""
    return _BY_TARGET.get(name)
