"""What an endpoint says of the outcomes of its requests, fixed for each of them when it is accepted. Pure.

A later change of the configuration speaks for later requests only, so that a client knows at acceptance where its answer
will be and who will hear of it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

SUCCESS_TOPIC_GETS_ANSWER = "SUCCESS_NOTIFICATION_TOPIC"
ERROR_TOPIC_GETS_ANSWER = "ERROR_NOTIFICATION_TOPIC"


@dataclass(frozen=True)
class Delivery:
    """The key that encrypts output objects and the topics that hear of outcomes; blank = none.

    `includes` are those of the two ..._GETS_ANSWER words whose topic also gets the model's answer.
    """

    kms_key_id: str = ""
    success_topic: str = ""
    error_topic: str = ""
    includes: tuple[str, ...] = ()

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> "Delivery":
        """From an AsyncInferenceConfig as the API has it."""
        output = config.get("OutputConfig", {})
        notification = output.get("NotificationConfig", {})
        return cls(
            kms_key_id=output.get("KmsKeyId", ""),
            success_topic=notification.get("SuccessTopic", ""),
            error_topic=notification.get("ErrorTopic", ""),
            includes=tuple(notification.get("IncludeInferenceResponseIn", ())),
        )

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Delivery":
        """From its document; members that it lacks are blank."""
        known = {each.name for each in fields(cls)}
        found = {name: value for name, value in document.items() if name in known}
        return cls(**{**found, "includes": tuple(found.get("includes", ()))})

    @property
    def document(self) -> dict[str, Any]:
        """As JSON, without what is blank: most requests have `{}`."""
        return {name: value for name, value in asdict(self).items() if value}

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics, each once."""
        return tuple(dict.fromkeys(topic for topic in (self.success_topic, self.error_topic) if topic))
