"""The page of settings: every variable that the code reads is on it, and nothing else."""

import re

from tests.deploy.manifests import DEPLOY, ROOT, names_read

INTERNAL = {
    "HEADRACE_SUPERVISED",  # the mark by which leftovers are found
    "HEADRACE_INSTANCE",  # the mark of a local instance's processes
    "HEADRACE_REQUEST_ID",  # a header, as WSGI names it
    "HEADRACE_ACCOUNT",  # a header, as WSGI names it
    "HEADRACE_EC2",  # a prefix
    "HEADRACE_S3",  # a prefix
    "HEADRACE_EC2_HEADRACE_REGION",  # HEADRACE_REGION, read beside the prefix
}


def test_every_setting_is_explained_once_and_none_that_there_is_not() -> None:
    text = (DEPLOY / "docs/settings.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    told = [name for row in rows for name in re.findall(r"HEADRACE_[A-Z0-9_]+", row)]
    assert sorted(told) == sorted(set(told))
    assert set(told) == names_read() - INTERNAL


def test_the_readme_names_only_settings_that_there_are() -> None:
    assert set(re.findall(r"HEADRACE_[A-Z0-9_]*[A-Z0-9]", (ROOT / "README.md").read_text())) <= names_read()
