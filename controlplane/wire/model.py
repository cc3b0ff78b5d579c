"""botocore's service models: the API as data."""

from functools import lru_cache

from botocore.loaders import Loader
from botocore.model import ServiceModel


@lru_cache(maxsize=8)
def load_service(name: str) -> ServiceModel:
    """The newest model of a service, by botocore's name for it; reading one takes tens of milliseconds, once.

    Only the models that ship with botocore count: by default it also looks into the home directory of whoever runs it.
    """
    loader = Loader(extra_search_paths=[Loader.BUILTIN_DATA_PATH], include_default_search_paths=False)
    return ServiceModel(loader.load_service_model(name, "service-2"), service_name=name)
