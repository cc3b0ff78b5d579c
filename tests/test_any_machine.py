"""What the tests expect of the machine that they run on: no speed."""

from hypothesis import HealthCheck, settings


def test_no_example_of_a_property_fails_for_being_slow() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
