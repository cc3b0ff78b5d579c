"""A bearer token by the public generator, of the credentials in AWS's variables."""

from datetime import timedelta

from sagemaker.core.token_generator import generate_token

print(generate_token(region="us-east-1", expiry=timedelta(minutes=5)))
