"""botocore's service models: the API as data."""

from functools import lru_cache

from botocore.loaders import Loader
from botocore.model import ServiceModel


@lru_cache(maxsize=4)
def load_service(name: str) -> ServiceModel:
    """The newest model of `sagemaker` or `sagemaker-runtime`; reading one takes tens of milliseconds, once."""
    return ServiceModel(Loader().load_service_model(name, "service-2"), service_name=name)
