"""Secrets at rest: what one key encrypts, the configured keys decrypt, and nothing else does."""

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from controlplane.auth.secrets import SecretUnreadable, decrypt, encrypt

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))


@given(st.text())
def test_a_secret_comes_back_as_it_was(secret: str) -> None:
    encrypted = encrypt(secret, NEW)
    assert decrypt(encrypted, NEW) == secret
    assert len(secret) < 8 or secret not in encrypted


def test_the_first_key_encrypts_and_every_key_decrypts() -> None:
    old, new = encrypt("secret", OLD), encrypt("secret", f"{NEW}, {OLD}")
    assert decrypt(old, f"{NEW}, {OLD}") == decrypt(new, NEW) == "secret"
    with pytest.raises(SecretUnreadable):
        decrypt(new, OLD)


@pytest.mark.parametrize("keys", ["", "short", f"{NEW},", "\u00e9" * 44], ids=["none", "short", "half a list", "not ASCII"])
def test_malformed_keys_are_told_by_the_name_of_their_setting(keys: str) -> None:
    with pytest.raises(SecretUnreadable, match="HEADRACE_SECRET_KEY"):
        encrypt("secret", keys)


def test_the_error_names_neither_the_secret_nor_a_key() -> None:
    with pytest.raises(SecretUnreadable) as caught:
        decrypt(encrypt("secret-in-clear", OLD), NEW)
    assert not any(text in str(caught.value) for text in ("secret-in-clear", OLD, NEW))
