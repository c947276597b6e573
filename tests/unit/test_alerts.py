"""The alerts are well-formed, ask only for metrics that there are, and say what to do."""

import re
from typing import Any

import promql_parser
import pytest
import yaml

from mqueue.core import metrics
from mqueue.core.conf import ROOT

RULES: dict[str, Any] = yaml.safe_load((ROOT / "docs/alerts.yml").read_text())
ALERTS: list[dict[str, Any]] = [rule for group in RULES["groups"] for rule in group["rules"]]
OPERATIONS = (ROOT / "docs/operations.md").read_text()
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}


def series() -> dict[str, set[str]]:
    """The labels of every series that a scrape may have."""
    found = {name: set(labels) for name, (_, labels) in metrics.GAUGES.items()}
    for metric in metrics.every():
        for suffix in SUFFIXES[metric.describe()[0].type]:
            found[metric.describe()[0].name + suffix] = {*metric._labelnames, *(["le"] if suffix == "_bucket" else [])}
    return found


def selectors(expression: Any) -> list[Any]:
    """Of the parsed expression and everything in it."""
    if isinstance(expression, promql_parser.VectorSelector):
        return [expression]
    found = []
    for name in ("expr", "lhs", "rhs", "vector_selector"):
        if child := getattr(expression, name, None):
            found += selectors(child)
    for child in getattr(expression, "args", None) or []:
        found += selectors(child)
    return found


def test_the_files_structure_is_prometheus() -> None:
    assert RULES.keys() == {"groups"}
    assert all(group.keys() == {"name", "rules"} for group in RULES["groups"])
    names = [alert["alert"] for alert in ALERTS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_asks_for_metrics_and_labels_that_there_are(alert: dict[str, Any]) -> None:
    found = selectors(promql_parser.parse(alert["expr"]))
    assert {selector.name for selector in found} == set(re.findall(r"mqueue_\w+", alert["expr"]))
    for selector in found:
        assert {matcher.name for matcher in selector.matchers.matchers} <= series()[selector.name]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_what_is_wrong_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert.keys() == {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"\d+[smh]", alert["for"])
    assert alert["labels"]["severity"] in ("page", "ticket")
    assert len(alert["annotations"]["summary"]) > 20
    assert re.search(rf"^\| `{alert['alert']}` \| .{{20,}} \|$", OPERATIONS, re.MULTILINE)
    assert alert["annotations"]["runbook"] == "docs/operations.md#alerts"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_a_summary_names_only_labels_that_the_expression_keeps(alert: dict[str, Any]) -> None:
    shown = set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"]))
    grouped = set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", alert["expr"]))))
    kept = [grouped or series()[name] for name in re.findall(r"mqueue_\w+", alert["expr"])]
    assert all(shown <= labels for labels in kept)


def test_no_row_is_of_an_alert_that_is_gone() -> None:
    assert set(re.findall(r"^\| `(Mqueue\w+)` \|", OPERATIONS, re.MULTILINE)) == {alert["alert"] for alert in ALERTS}


def test_every_metric_has_a_row_and_no_other() -> None:
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name in series()}
    assert set(re.findall(r"^\| `(mqueue_\w+)` \|", OPERATIONS, re.MULTILINE)) == names


@pytest.mark.parametrize("name", sorted(series()))
def test_a_metrics_row_names_its_labels(name: str) -> None:
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    (row,) = re.findall(rf"^\| `{base}` \| (.*?) \|", OPERATIONS, re.MULTILINE)
    assert set(re.findall(r"\w+", row)) == series()[name] - {"le"}
