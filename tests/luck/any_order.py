"""Rows come in any order that their statement allows: `make test ARGS="-p tests.luck.any_order tests/workers"`.

PostgreSQL promises no order that is not asked for, and yet gives rows as they were stored, nearly always. Under the fake
clock whole rounds happen at one time, which orders nothing. For what the process of the tests asks by Django's models.
"""

from typing import Any

import pytest
from django.db.models.expressions import OrderBy
from django.db.models.functions import Random
from django.db.models.sql.compiler import SQLCompiler

_ordered = SQLCompiler.get_order_by


def _any_order(self: Any) -> list[Any]:
    """The statement's own order, and chance within it; grouped and distinct rows are left as they are."""
    order, query = list(_ordered(self)), self.query
    is_plain = not (query.distinct or query.combinator or query.subquery or query.group_by is not None)
    if type(self).__name__ == "SQLCompiler" and is_plain:
        chance = OrderBy(Random()).resolve_expression(query)
        order.append((chance, (*self.compile(chance), False)))
    return order


def pytest_configure(config: pytest.Config) -> None:
    """From now on."""
    SQLCompiler.get_order_by = _any_order  # type: ignore[method-assign]
