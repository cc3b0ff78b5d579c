"""Words that sentences share."""

from controlplane.core.words import counted


def test_counts_agree_with_their_nouns() -> None:
    assert counted(1, "instance") == "1 instance"
    assert counted(1200, "instance") == "1,200 instances"
    assert counted(2, "reply", "replies") == "2 replies"
